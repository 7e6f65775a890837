"""What every reader of a corpus must do. Its tenants are all kinds of `READERS`; the files are written by the libraries
whose formats they are (csv, json, pyarrow, polib, lxml), or by hand where there is none."""

import csv
import gzip
import html
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import polib
import pyarrow
import pyarrow.parquet
import pytest
from lxml import etree

from headway.config import CorpusConfig
from headway.data.pair import Pair
from headway.data.readers import READERS, SUFFIXES, TWO, Part, find_parts
from headway.data.tally import Tally
from headway.text.codes import plain

Texts = list[tuple[str, str]]

LINES: Texts = [
    ("A dog runs.", "Ein Hund läuft."),
    ('She said "hi", twice', "Sie sagte „hi“; 'zweimal'"),
    ("100 % & <b> </s>", "日本語 テキスト"),
    ("שלום עולם", "e\u0301 é ﷽"),
    ("C:\\new\\table", "x,y;z | w"),
    ("A dog runs.", "Der Hund läuft."),
    ("🐕 runs", "läuft \u2028 weiter"),
]
SEVERAL: Texts = [*LINES, ("two\nlines", "zwei\nZeilen"), ('"', '""'), ("a\tb", "c\td")]
"""With what kinds without quotes cannot hold."""


def write_lines(path: Path, texts: Iterable[str]) -> None:
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())


def write_text(paths: list[Path], texts: Texts) -> None:
    for path, side in zip(paths, zip(*texts, strict=True), strict=True):
        write_lines(path, side)


def write_tsv(paths: list[Path], texts: Texts) -> None:
    write_lines(paths[0], ("\t".join(pair) for pair in texts))


def write_csv(paths: list[Path], texts: Texts) -> None:
    with paths[0].open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(texts)


def write_jsonl(paths: list[Path], texts: Texts) -> None:
    write_lines(paths[0], (json.dumps({"target": target, "id": 5, "source": source}) for source, target in texts))


def write_parquet(paths: list[Path], texts: Texts) -> None:
    sources, targets = map(list, zip(*texts, strict=True))
    table = pyarrow.table({"id": list(range(len(texts))), "source": sources, "target": targets})
    pyarrow.parquet.write_table(table, paths[0], row_group_size=3)


def catalog(texts: Texts) -> polib.POFile:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    for number, (source, target) in enumerate(texts):
        made.append(polib.POEntry(msgid=source, msgstr=target, msgctxt=f"c{number:03d}"))
    return made


def write_mo(paths: list[Path], texts: Texts) -> None:
    catalog(texts).save_as_mofile(str(paths[0]))


def write_po(paths: list[Path], texts: Texts) -> None:
    catalog(texts).save(str(paths[0]))


LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def write_tmx(paths: list[Path], texts: Texts) -> None:
    root = etree.Element("tmx", version="1.4")
    etree.SubElement(root, "header", srclang="en", datatype="plaintext", segtype="sentence", adminlang="en")
    body = etree.SubElement(root, "body")
    for pair in texts:
        unit = etree.SubElement(body, "tu")
        for language, text in zip(("en", "de"), pair, strict=True):
            etree.SubElement(etree.SubElement(unit, "tuv", {LANG: language}), "seg").text = text
    etree.ElementTree(root).write(str(paths[0]), encoding="UTF-8", xml_declaration=True)


def write_xliff(paths: list[Path], texts: Texts) -> None:
    space = "urn:oasis:names:tc:xliff:document:1.2"
    root = etree.Element(f"{{{space}}}xliff", version="1.2", nsmap={None: space})
    languages = {"source-language": "en", "target-language": "de"}
    file = etree.SubElement(root, f"{{{space}}}file", original="a", datatype="plaintext", **languages)
    body = etree.SubElement(file, f"{{{space}}}body")
    for number, (source, target) in enumerate(texts):
        kept = {LANG.replace("lang", "space"): "preserve"}  # line breaks of a text are meant
        unit = etree.SubElement(body, f"{{{space}}}trans-unit", kept, id=f"u{number}")
        etree.SubElement(unit, f"{{{space}}}source").text = source
        etree.SubElement(unit, f"{{{space}}}target", state="final").text = target
    etree.ElementTree(root).write(str(paths[0]), encoding="UTF-8", xml_declaration=True)


def write_srt(paths: list[Path], texts: Texts) -> None:
    for path, side in zip(paths, zip(*texts, strict=True), strict=True):
        cues = [
            f"{number + 1}\n00:00:{number:02d},000 --> 00:00:{number:02d},900\n{text}\n"
            for number, text in enumerate(side)
        ]
        path.write_text("\n".join(cues), encoding="utf-8", newline="")


def write_vtt(paths: list[Path], texts: Texts) -> None:
    for path, side in zip(paths, zip(*texts, strict=True), strict=True):
        cues = [
            f"00:{number:02d}.000 --> 00:{number:02d}.900\n{html.escape(text, quote=False)}\n"
            for number, text in enumerate(side)
        ]
        path.write_text("WEBVTT\n\n" + "\n".join(cues), encoding="utf-8", newline="")


WRITERS: dict[str, tuple[Callable[[list[Path], Texts], None], Texts]] = {
    "text": (write_text, LINES),
    "tsv": (write_tsv, LINES),
    "csv": (write_csv, SEVERAL),
    "jsonl": (write_jsonl, SEVERAL),
    "parquet": (write_parquet, SEVERAL),
    "mo": (write_mo, SEVERAL),
    "po": (write_po, SEVERAL),
    "tmx": (write_tmx, SEVERAL),
    "xliff": (write_xliff, SEVERAL),
    "srt": (write_srt, LINES),
    "vtt": (write_vtt, LINES),
}

each_kind = pytest.mark.parametrize("kind", READERS)


def written(folder: Path, kind: str, texts: Texts | None = None) -> CorpusConfig:
    """A corpus of this kind in this folder."""
    write, all_texts = WRITERS[kind]
    names = [f"a.en.{kind}", f"a.de.{kind}"] if kind in TWO else [f"a.{kind}"]
    paths = [folder / name for name in names]
    write(paths, all_texts if texts is None else texts)
    named = {"source": str(paths[0]), "target": str(paths[1])} if kind in TWO else {"path": str(paths[0])}
    return CorpusConfig(**named, source_language="en", target_language="de")


def read(config: CorpusConfig) -> tuple[list[Pair], Tally, list[Part]]:
    tally, parts = Tally(), find_parts([config])
    return [pair for part in parts for pair in part.read(tally)], tally, parts


def texts_of(pairs: list[Pair]) -> Texts:
    return [(plain(pair.source), plain(pair.target)) for pair in pairs]


def test_every_kind_is_tested_and_known_by_its_suffix() -> None:
    assert WRITERS.keys() == READERS.keys()
    assert set(SUFFIXES.values()) == READERS.keys() - {"text"}


@each_kind
def test_what_its_own_library_wrote_is_read_as_it_is(tmp_path: Path, kind: str) -> None:
    pairs, tally, parts = read(written(tmp_path, kind))
    assert texts_of(pairs) == WRITERS[kind][1]
    assert not tally.counts
    assert [pair.number for pair in pairs] == sorted({pair.number for pair in pairs}), "numbers ascend"
    assert {part.kind for part in parts} == {kind}
    for pair in pairs:
        assert all(part != "" for part in (*pair.source, *pair.target))
        assert parts[0].place(pair.number, pair.place)


@each_kind
def test_reading_twice_gives_the_same(tmp_path: Path, kind: str) -> None:
    [part] = read(written(tmp_path, kind))[2]
    assert list(part.read(Tally())) == list(part.read(Tally()))


@each_kind
def test_a_packed_file_is_read_like_the_plain_one(tmp_path: Path, kind: str) -> None:
    config = written(tmp_path, kind)
    pairs = read(config)[0]
    named = {}
    for key in ("path", "source", "target"):
        if (name := getattr(config, key)) is not None:
            Path(f"{name}.gz").write_bytes(gzip.compress(Path(name).read_bytes()))
            named[key] = f"{name}.gz"
    assert read(config.model_copy(update=named))[0] == pairs


@each_kind
def test_a_file_of_another_name_is_read_where_its_kind_is_said(tmp_path: Path, kind: str) -> None:
    config = written(tmp_path, kind)
    pairs, named = read(config)[0], {}
    for key in ("path", "source", "target"):
        if (name := getattr(config, key)) is not None:
            named[key] = str(tmp_path / f"{key}.export")
            shutil.copy(name, named[key])
    renamed = config.model_copy(update={**named, "kind": kind})
    assert texts_of(read(renamed)[0]) == texts_of(pairs)


@each_kind
def test_a_missing_and_an_empty_file_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    config = written(tmp_path, kind)
    path = Path(config.path or config.target or "")
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is empty") as error:
        read(config)
    assert str(path) in str(error.value)
    path.unlink()
    with pytest.raises(ValueError, match="there is no such file") as error:
        read(config)
    assert str(path) in str(error.value)


@each_kind
def test_a_damaged_file_is_refused_by_name_or_read_and_nothing_else(tmp_path: Path, kind: str) -> None:
    config = written(tmp_path, kind)
    path, dice = Path(config.path or config.source or ""), random.Random(kind)
    data = path.read_bytes()
    for _ in range(60):
        broken = bytearray(data)
        if dice.random() < 0.4:
            del broken[dice.randrange(len(data)) :]
        else:
            for _ in range(dice.randrange(1, 4)):
                broken[dice.randrange(len(data))] = dice.choice(b'\x00<>&"\\\n\xff\xc3[]{}\t')
        path.write_bytes(bytes(broken))
        told, pairs = str(path), []
        try:
            pairs = read(config)[0]
        except ValueError as error:
            told = str(error)
        assert str(path) in told, told
        for pair in pairs:
            plain(pair.source).encode()


@each_kind
def test_a_reader_begins_before_the_end_is_read(tmp_path: Path, kind: str) -> None:
    """It gives an iterator, and one that was left in the middle leaves nothing open or locked."""
    [part] = read(written(tmp_path, kind))[2]
    pairs = part.read(Tally())
    assert isinstance(pairs, Iterator)
    assert plain(next(pairs).source) == LINES[0][0]
    pairs.close()  # type: ignore[attr-defined]
    assert len(list(part.read(Tally()))) == len(WRITERS[kind][1])
