"""Readers of corpora: which files, which columns, what is left out and why. (What all kinds have in common is in
tests/contract/test_reader.py.)"""

import gzip
import json
import re
import sys
import tomllib
from pathlib import Path

import polib
import pyarrow
import pyarrow.parquet
import pycountry
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.config import ConfigError, CorpusConfig, DataConfig, Recipe
from headway.data.pair import Pair
from headway.data.readers import Part, corpora_of, find_parts, join_pieces, kept_out, valid_of
from headway.data.tally import Tally
from headway.recipe import dump_toml, literal_paths, parse_recipe, resolve_paths
from headway.text.codes import plain


def parts_of(*configs: dict) -> list[Part]:
    return find_parts([CorpusConfig(**config) for config in configs])


def read(**config: object) -> tuple[list[tuple[str, str]], Tally]:
    named = {key: str(value) if isinstance(value, Path) else value for key, value in config.items()}
    tally, parts = Tally(), parts_of(named)
    return [texts(pair) for part in parts for pair in part.read(tally)], tally


def texts(pair: Pair) -> tuple[str, str]:
    return plain(pair.source), plain(pair.target)


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode())
    return path


# ---- which files ----


def test_the_short_form_is_one_corpus_and_languages_are_those_of_the_data() -> None:
    assert corpora_of(DataConfig(source="a", target="b", source_language="en")) == [
        CorpusConfig(source="a", target="b", source_language="en")
    ]
    several = DataConfig(
        corpora=(CorpusConfig(path="a.tmx", target_language="de"), CorpusConfig(path="b.tmx")), target_language="fr"
    )
    assert [corpus.target_language for corpus in corpora_of(several)] == ["de", "fr"]


def test_files_to_validate_and_test_on_are_corpora_too() -> None:
    assert valid_of(DataConfig(source="a", target="b")) == []
    assert valid_of(DataConfig(source="a", target="b", valid="v.tmx")) == [CorpusConfig(path="v.tmx")]
    assert valid_of(DataConfig(source="a", target="b", valid_source="c", valid_target="d")) == [
        CorpusConfig(source="c", target="d")
    ]
    assert kept_out(DataConfig(source="a", target="b", test=("t.en", "t.tsv.gz"))) == [
        CorpusConfig(source="t.en", target="t.en"),
        CorpusConfig(path="t.tsv.gz"),
    ]


def test_globs_of_two_sides_pair_up_by_what_their_wildcards_stand_for(tmp_path: Path) -> None:
    for name in ("b.en", "a.en", "sub/c.en", "x1.en"):
        write(tmp_path / name, name)
        write((tmp_path / "other" / name).with_suffix(".de"), name)
    found = parts_of({"source": f"{tmp_path}/?.en", "target": f"{tmp_path}/other/?.de"})
    assert [[path.name for path in part.paths] for part in found] == [["a.en", "a.de"], ["b.en", "b.de"]]
    found = parts_of({"source": f"{tmp_path}/[!ab]*.en", "target": f"{tmp_path}/other/[!ab]*.de"})
    assert [part.paths[1].name for part in found] == ["x1.de"]
    write(tmp_path / "x1y2.en", "")
    write(tmp_path / "other" / "x1-y2.de", "")
    [part] = parts_of({"source": f"{tmp_path}/x?y?.en", "target": f"{tmp_path}/other/x?-y?.de"})
    assert part.paths[1].name == "x1-y2.de"
    (tmp_path / "x1y2.en").unlink()
    found = parts_of({"source": f"{tmp_path}/sub/**/*.en", "target": f"{tmp_path}/other/sub/**/*.de"})
    assert [part.paths[1].name for part in found] == ["c.de"]


def test_files_without_a_partner_are_all_named(tmp_path: Path) -> None:
    for name in ("a.en", "a.de", "b.en", "c.de"):
        write(tmp_path / name, "x\n")
    with pytest.raises(ValueError, match=r"no file of the other side for .*b\.en, .*c\.de"):
        parts_of({"source": f"{tmp_path}/*.en", "target": f"{tmp_path}/*.de"})


def test_a_name_with_brackets_is_that_file_where_there_is_one(tmp_path: Path) -> None:
    write(tmp_path / "a[1].tsv", "x\ty\n")
    write(tmp_path / "a1.tsv", "u\tv\n")
    assert read(path=tmp_path / "a[1].tsv")[0] == [("x", "y")]
    (tmp_path / "a[1].tsv").unlink()
    assert read(path=tmp_path / "a[1].tsv")[0] == [("u", "v")]


def test_a_folder_is_all_that_lies_in_it_in_the_order_of_names_and_hidden_files_are_none_of_it(tmp_path: Path) -> None:
    write(tmp_path / "in" / "b.tsv", "3\tc\n")
    write(tmp_path / "in" / "a" / "z.jsonl", '{"source": "1", "target": "a"}\n')
    write(tmp_path / "in" / "a.csv", '2,"b"\n')
    write(tmp_path / "in" / ".git" / "x", "?")
    pairs, _ = read(path=tmp_path / "in")
    assert pairs == [("1", "a"), ("2", "b"), ("3", "c")]
    labels = [part.label for part in parts_of({"path": str(tmp_path / "in")})]
    assert labels == [f"{tmp_path}/in/{name}: " for name in ("a/z.jsonl", "a.csv", "b.tsv")]


def test_every_fault_of_every_corpus_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.html", "<p>x")
    write(tmp_path / "a.tsv", "x\ty\n")
    with pytest.raises(ValueError, match="holds no file") as error:
        parts_of(
            {"path": str(tmp_path / "empty")},
            {"path": f"{tmp_path}/*.tmx"},
            {"path": str(tmp_path / "a.html")},
            {"path": str(tmp_path / "none.tmx")},
            {"path": str(tmp_path / "a.tsv")},
            {"path": str(tmp_path / "a.tsv"), "kind": "text"},
            {"source": str(tmp_path / "a.tsv"), "target": str(tmp_path / "a.tsv")},
            {"path": str(tmp_path / "a.tsv"), "delimiter": ";"},
            {"path": str(tmp_path / "a.tsv"), "source_column": 2},
        )
    told = str(error.value).split("\n")
    expected = [
        r"data.corpora\[0\]: .*empty: this folder holds no file",
        r"data.corpora\[1\]: .*\*.tmx: no file has such a name",
        r"data.corpora\[2\]: .*a.html: its name ends in none of .tsv, .*say with kind",
        r"data.corpora\[3\]: .*none.tmx: there is no such file",
        r'data.corpora\[5\]: .*a.tsv: kind = "text" needs source and target',
        r"data.corpora\[6\]: .*a.tsv: such a file holds both sides: name it as path",
        r'data.corpora\[7\]: .*a.tsv: delimiter is for csv, not for kind = "tsv": drop it',
        r"data.corpora\[8\]: .*a.tsv: give both source_column and target_column",
    ]
    assert len(told) == len(expected)
    for line, pattern in zip(told, expected, strict=True):
        assert re.match(pattern, line)


# ---- tables ----


def test_columns_go_by_name_or_number(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "id\tde\ten\n1\tHund\tdog\n2\tKatze\tcat\n")
    assert read(path=table, source_column="en", target_column="de")[0] == [("dog", "Hund"), ("cat", "Katze")]
    assert read(path=table, source_column=3, target_column=2)[0] == [("en", "de"), ("dog", "Hund"), ("cat", "Katze")]
    assert read(path=table, source_column="en", target_column=2)[0] == [("dog", "Hund"), ("cat", "Katze")]


def test_columns_that_are_not_there_or_not_said_are_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "id\tde\ten\ten\n")
    for columns, told in (
        ({}, "has 4 columns: say which two"),
        ({"source_column": "enn", "target_column": "de"}, 'no column of the name "enn"; did you mean "en"'),
        ({"source_column": "en", "target_column": "de"}, 'two columns of the name "en"'),
        ({"source_column": 5, "target_column": 1}, "there is no column 5, only 4"),
    ):
        with pytest.raises(ValueError, match=told) as error:
            read(path=table, **columns)
        assert str(table) in str(error.value)


def test_rows_of_another_width_are_all_told_by_line(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "a\tb\n" + "c\n" * 5 + "d\te\tf\n")
    with pytest.raises(ValueError, match="fields") as error:
        read(path=table)
    assert str(error.value).split("\n") == [
        *(f"{table}: line {line} has 1 fields, and the first one 2" for line in (2, 3, 4)),
        f"{table}: 3 more rows are at fault",
    ]


def test_tsv_has_no_quotes_and_csv_has_them(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", '"a"\t"b\n"c\td\n')
    assert read(path=tsv)[0] == [('"a"', '"b'), ('"c', "d")]
    csv = write(tmp_path / "a.csv", '\ufeff"a, ""b""",c\r\n"two\r\nlines",d\r\n')
    assert read(path=csv)[0] == [('a, "b"', "c"), ("two\nlines", "d")]
    semicolons = write(tmp_path / "b.csv", 'source;target\n"a;b";c\n')
    named = {"source_column": "source", "target_column": "target"}
    assert read(path=semicolons, delimiter=";", **named)[0] == [("a;b", "c")]
    quoted = write(tmp_path / "b.tsv", '"a\tb"\tc\n')
    assert read(path=quoted, kind="csv", delimiter="\t")[0] == [("a\tb", "c")]


@pytest.mark.parametrize(
    "content", ['a,b\nc,"d\ne,f\n', 'a,b\n"c"d,e\n', 'a,b\n"' + "x" * 200_000 + '",d\n'], ids=["open", "after", "huge"]
)
def test_a_quote_that_is_not_closed_is_told_with_the_line_that_it_begins_on(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"a\.csv: line 2: .*quote"):
        read(path=write(tmp_path / "a.csv", content))


def test_a_table_that_is_not_utf8_is_told_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\nM\xe4nner,c\n")
    with pytest.raises(ValueError, match=r"a\.csv: line 2, byte 1"):
        read(path=path)


# ---- records ----


def test_keys_may_be_nested_and_null_is_an_empty_side(tmp_path: Path) -> None:
    rows = [{"translation": {"en": "dog", "de": "Hund"}}, {"translation": {"en": "cat", "de": None}, "more": [1]}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    named = {"source_column": "translation.en", "target_column": "translation.de"}
    assert read(path=path, **named)[0] == [("dog", "Hund"), ("cat", "")]
    table = pyarrow.Table.from_pylist([{"id": 1, **row} for row in rows])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert read(path=tmp_path / "a.parquet", **named)[0] == [("dog", "Hund"), ("cat", "")]
    dotted = write(tmp_path / "b.jsonl", '{"a.b": "x", "a": {"b": "y"}, "c": "z"}\n')
    assert read(path=dotted, source_column="a.b", target_column="c")[0] == [("x", "z")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: Expecting"),
        ("", "line 2: Expecting"),
        ("[1]", 'line 2: there is no "source"'),
        ('{"source": "x"}', 'line 2: there is no "target"; name the keys'),
        ('{"source": "x", "target": 5}', 'line 2: "target" is no text but 5'),
        ('{"source": "x", "target": "\\ud800y"}', "line 2: .*half a surrogate pair at character 0"),
        ("[" * 100_000, "line 2: "),
        ('{"source": "x", "source": "y", "target": "z"}', 'line 2: "source" is there 2 times: keep one'),
    ],
)
def test_a_record_that_is_none_is_told_by_its_line(tmp_path: Path, line: str, told: str) -> None:
    good = '{"source": "a", "target": "b"}\n'
    with pytest.raises(ValueError, match=told):
        read(path=write(tmp_path / "a.jsonl", f"{good}{line}\n{good}"))


def test_parquet_columns_are_checked_and_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"sorce": ["a"], "target": [3]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match='no column "source"; did you mean "sorce"'):
        read(path=tmp_path / "a.parquet")
    with pytest.raises(ValueError, match='row 1: "target" is no text but 3'):
        read(path=tmp_path / "a.parquet", source_column="sorce", target_column="target")
    twice = pyarrow.table([["a"], ["x"], ["b"]], names=["source", "source", "target"])
    pyarrow.parquet.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match='two columns of the name "source": rename one'):
        read(path=tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'headway\[data\]'"):
        read(path=tmp_path / "a.parquet")


# ---- pieces ----


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> sentencepiece.SentencePieceProcessor:
    """A SentencePiece model with byte fallback."""
    folder = tmp_path_factory.mktemp("pieces")
    write(folder / "text", "".join(f"the dog {word} runs to house number {word}\n" for word in "abcdefghijklmnop"))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "m"),
        vocab_size=330,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))


@settings(deadline=None)
@example("Type <0x41> here")
@example("<0x41>")
@given(st.text(st.characters(exclude_characters="\n\r\u2581", exclude_categories=["Cs"])))
def test_pieces_are_joined_as_sentencepiece_joins_them(pieces: sentencepiece.SentencePieceProcessor, text: str) -> None:
    found = pieces.encode(text, out_type=str)
    assert join_pieces(" ".join(found)) == pieces.decode(found)


def test_only_a_piece_of_its_own_is_a_byte(pieces: sentencepiece.SentencePieceProcessor) -> None:
    assert join_pieces("▁Type ▁< 0 x 4 1 > ▁here") == "Type <0x41> here"
    assert join_pieces("▁< 0x41> <0x42> x") == "<0x41>Bx"
    for found in (["<0xE3>", "<0x81>", "<0x82>", "▁", "a"], ["▁", "<0xE3>", "<0x81>", "<0x82>"], ["<0x20>", "a"]):
        assert join_pieces(" ".join(found)) == pieces.decode(found)


def test_a_corpus_of_pieces_is_read_as_text(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", "▁The ▁do g ▁runs .\n<0xE3> <0x81> <0x82> ▁x\n")
    target = write(tmp_path / "a.de", "▁Der ▁H und .\n\n")
    assert read(source=source, target=target, pieces=True)[0] == [("The dog runs.", "Der Hund."), ("あ x", "")]
    assert read(source=source, target=target)[0][0] == ("▁The ▁do g ▁runs .", "▁Der ▁H und .")


# ---- documents ----


def test_unfinished_entries_are_counted_with_their_place_and_not_read(tmp_path: Path) -> None:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    made.append(polib.POEntry(msgid="dog", msgstr="Hund"))
    made.append(polib.POEntry(msgid="cat", msgstr="Katze", flags=["fuzzy"]))
    made.append(polib.POEntry(msgid="bird", msgstr=""))
    made.append(polib.POEntry(msgid="old", msgstr="alt", obsolete=True))
    made.save(str(tmp_path / "a.po"))
    pairs, tally = read(path=tmp_path / "a.po")
    assert pairs == [("dog", "Hund")]
    assert tally.counts == {"unsure": 1, "untranslated": 1}
    assert "cat" in tally.places["unsure"][0]
    assert [line.split(":")[0] for line in tally.words(3)] == [
        "left out 1 of 3 pairs that hold a translation that their file marks as unsure",
        "left out 1 of 3 pairs that have no translation yet",
    ]


def known(**config: object) -> list[tuple[str, str]]:
    """All texts of files, finished or not."""
    named = {key: str(value) if isinstance(value, Path) else value for key, value in config.items()}
    return [texts(pair) for part in parts_of(named) for pair in part.texts()]


def test_texts_are_known_that_have_no_finished_translation(tmp_path: Path) -> None:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": "de"}
    made.append(polib.POEntry(msgid="dog", msgstr="Hund"))
    made.append(polib.POEntry(msgid="cat", msgstr="Katze", flags=["fuzzy"]))
    made.append(polib.POEntry(msgid="bird", msgstr=""))
    made.save(str(tmp_path / "a.po"))
    expected = [("dog", "Hund"), ("cat", ""), ("bird", "")]
    assert known(path=tmp_path / "a.po") == expected
    assert [source for source, _ in known(path=tmp_path / "a.po", target_language="fr")] == ["dog", "cat", "bird"]
    made[1].flags = []
    made[1].msgstr = ""
    made.save_as_mofile(str(tmp_path / "a.mo"))
    assert sorted(known(path=tmp_path / "a.mo")) == sorted(read(path=tmp_path / "a.mo")[0])  # polib drops empty ones
    assert ("dog", "Hund") in known(path=tmp_path / "a.mo", target_language="fr")
    unit = '<trans-unit id="{}" {}><source>{}</source>{}</trans-unit>'
    body = unit.format(1, 'translate="no"', "Linux", "<target>Linux</target>") + unit.format(2, "", "cat", "")
    body += unit.format(3, "", "dog", '<target state="needs-translation">Hund</target>')
    head = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" datatype="plaintext" '
    languages = 'source-language="en" target-language="de">'
    write(tmp_path / "a.xlf", f"{head}{languages}<body>{body}</body></file></xliff>")
    assert known(path=tmp_path / "a.xlf") == [("Linux", ""), ("cat", ""), ("dog", "")]
    assert len(known(path=tmp_path / "a.xlf", source_language="en", target_language="fr")) == 3
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv>{}</tu>'
    body = unit.format("dog", '<tuv xml:lang="de"><seg>Hund</seg></tuv>') + unit.format("cat", "")
    write(tmp_path / "a.tmx", f'<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>')
    assert known(path=tmp_path / "a.tmx", source_language="en", target_language="de") == [("dog", "Hund"), ("cat", "")]


def test_cues_are_known_that_have_no_partner(tmp_path: Path) -> None:
    source = write(tmp_path / "a.srt", cues((1, 2, "one"), (3, 4, "two")))
    target = write(tmp_path / "b.srt", cues((1, 2, "eins"), (3, 3.3, "zw-"), (3.4, 4, "ei")))
    assert known(source=source, target=target) == [("one", "eins"), ("two", ""), ("", "zw-"), ("", "ei")]


def test_a_text_within_a_code_is_told_and_its_segment_is_not_left_out(tmp_path: Path) -> None:
    seg = "<seg>dog<ph>x<sub>text</sub></ph></seg>"
    body = f'<tu><tuv xml:lang="en">{seg}</tuv><tuv xml:lang="de"><seg>Hund<ph>x</ph></seg></tuv></tu>'
    memory = write(tmp_path / "a.tmx", f'<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>')
    pairs, tally = read(path=memory, source_language="en", target_language="de")
    assert (len(pairs), tally.counts, tally.total) == (1, {}, 0)
    assert tally.words(1) == ["text within a code (<sub>), kept as it is: in 1 of 1 pairs: lines 1"]
    inside = 'dog<ph id="1">x<sub>text</sub></ph>'
    unit = f'<trans-unit id="1"><source>{inside}</source><target>{inside}</target></trans-unit>'
    head = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" datatype="plaintext" '
    content = f'{head}source-language="en"><body>{unit}</body></file></xliff>'
    pairs, tally = read(path=write(tmp_path / "a.xlf", content), source_language="en", target_language="de")
    assert (len(pairs), tally.counts) == (1, {})
    assert tally.notes == {"text within a code (<sub>), kept as it is": 1}


def test_units_of_a_memory_without_the_source_are_counted(tmp_path: Path) -> None:
    unit = '<tu tuid="{}"><tuv xml:lang="{}"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>Hund</seg></tuv></tu>'
    body = unit.format("u1", "en", "dog") + unit.format("u2", "fr", "chien")
    memory = write(tmp_path / "a.tmx", f'<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>')
    pairs, tally = read(path=memory, source_language="en", target_language="de")
    assert pairs == [("dog", "Hund")]
    assert list(tally.counts.values()) == [1]
    [told] = tally.words(2)
    assert "left out 1 of 2 pairs that" in told
    assert "u2" in told


def test_what_is_not_to_be_translated_is_counted(tmp_path: Path) -> None:
    unit = '<trans-unit id="{}" translate="{}"><source>{}</source><target>{}</target></trans-unit>'
    body = unit.format(1, "yes", "dog", "Hund") + unit.format(2, "no", "Linux", "Linux")
    xliff = (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" datatype="plaintext" '
        f'source-language="en" target-language="de"><body>{body}</body></file></xliff>'
    )
    pairs, tally = read(path=write(tmp_path / "a.xlf", xliff))
    assert pairs == [("dog", "Hund")]
    assert tally.counts == {"untouchable": 1}


PLURALS = {"nplurals=2; plural=(n != 1);": [("file", "Datei"), ("files", "Dateien")]}
PLURALS["nplurals=2; plural=(n > 1);"] = PLURALS["nplurals=2; plural=(n != 1);"]
PLURALS["nplurals=1; plural=0;"] = [("files", "ファイル")]


@pytest.mark.parametrize("rule", PLURALS)
def test_plural_forms_of_a_compiled_catalog_meet_the_source_that_they_translate(tmp_path: Path, rule: str) -> None:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": rule}
    forms = {number: target for number, (_, target) in enumerate(PLURALS[rule])}
    made.append(polib.POEntry(msgid="file", msgid_plural="files", msgstr_plural=forms))
    made.save_as_mofile(str(tmp_path / "a.mo"))
    assert read(path=tmp_path / "a.mo")[0] == PLURALS[rule]


def test_a_compiled_catalog_of_another_language_gives_nothing_and_says_so(tmp_path: Path) -> None:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": "de_AT"}
    made.append(polib.POEntry(msgid="dog", msgstr="Hund"))
    made.save_as_mofile(str(tmp_path / "a.mo"))
    assert read(path=tmp_path / "a.mo", source_language="en", target_language="de")[0] == [("dog", "Hund")]
    assert read(path=tmp_path / "a.mo")[0] == [("dog", "Hund")]
    pairs, tally = read(path=tmp_path / "a.mo", source_language="en", target_language="fr")
    assert (pairs, tally.counts) == ([], {"Language is de_AT, not fr": 1})


def test_wrong_counts_of_plural_forms_in_a_compiled_catalog_are_all_told(tmp_path: Path) -> None:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": "nplurals=3; plural=n>2;"}
    for name, forms in (("a", 1), ("b", 4), ("c", 3)):
        made.append(polib.POEntry(msgid=name, msgid_plural="x", msgstr_plural=dict.fromkeys(range(forms), "y")))
    path = tmp_path / "a.mo"
    made.save_as_mofile(str(path))
    with pytest.raises(ValueError, match="plural forms") as error:
        read(path=path)
    said = "plural forms, and the header's Plural-Forms say 3"
    assert str(error.value).split("\n") == [f'{path}: msgid "a" has 1 {said}', f'{path}: msgid "b" has 4 {said}']
    made.metadata["Plural-Forms"] = "nplurals=2; plural=n+1;"
    made.save_as_mofile(str(path))
    with pytest.raises(ValueError, match=r"a\.mo: the header's Plural-Forms are not valid: nplurals=2; plural=n\+1"):
        read(path=path)


def cues(*lines: tuple[float, float, str]) -> str:
    def clock(seconds: float) -> str:
        return f"00:{int(seconds // 60):02d}:{seconds % 60:06.3f}".replace(".", ",")

    return "\n".join(f"{n}\n{clock(begin)} --> {clock(end)}\n{text}\n" for n, (begin, end, text) in enumerate(lines, 1))


def test_cues_meet_by_their_times_and_the_others_are_counted(tmp_path: Path) -> None:
    source = write(tmp_path / "a.srt", cues((1, 2, "one"), (3, 4, "two"), (60.2, 61, "three"), (70, 71, "four")))
    target = write(
        tmp_path / "b.srt",
        cues(
            (1.1, 2.1, "eins"), (3, 3.3, "zw-"), (3.4, 4, "ei"), (60, 61.2, "drei"), (70, 71, "vier"), (70.1, 71, "4")
        ),
    )
    pairs, tally = read(source=source, target=target)
    assert pairs == [("one", "eins"), ("three", "drei")]
    assert tally.counts == {"unmatched": 6}
    assert sum(str(source) in place for place in tally.places["unmatched"]) == 2


def test_subtitles_of_two_kinds_go_together(tmp_path: Path) -> None:
    source = write(tmp_path / "a.srt", cues((1, 2, "one")))
    target = write(tmp_path / "a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\neins\n")
    assert read(source=source, target=target)[0] == [("one", "eins")]


def test_numbers_and_places_tell_where_a_pair_stands(tmp_path: Path) -> None:
    write(tmp_path / "a.en", "x\ny\n")
    write(tmp_path / "a.de", "x\ny\n")
    table = write(tmp_path / "b.csv", '"a\nb",c\nd,e\n')
    parts = parts_of({"source": f"{tmp_path}/a.en", "target": f"{tmp_path}/a.de"}, {"path": str(table)})
    placed = [(part, pair) for part in parts for pair in part.read(Tally())]
    assert [pair.corpus for _, pair in placed] == [0, 0, 1, 1]
    assert [part.place(pair.number, pair.place) for part, pair in placed] == [
        *(f"{tmp_path}/a.en: line {line}" for line in (1, 2)),
        *(f"{table}: line {line}" for line in (1, 3)),
    ]
    [alone] = parts_of({"path": str(table)})
    assert alone.place(3) == "line 3"


def test_a_gz_of_many_members_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"a\tb\n") + gzip.compress(b"c\td\n"))
    assert read(path=tmp_path / "a.tsv.gz")[0] == [("a", "b"), ("c", "d")]


def test_compiled_catalogs_of_pycountry_are_read_as_polib_reads_them() -> None:
    path = Path(pycountry.__file__).parent / "locales" / "de" / "LC_MESSAGES" / "iso3166-1.mo"
    expected = [(entry.msgid, entry.msgstr) for entry in polib.mofile(str(path)) if entry.msgstr]
    assert len(expected) > 200
    assert read(path=path)[0] == expected


# ---- recipes ----


def recipe_of(**data: object) -> Recipe:
    table = {
        "data": data,
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "model": "transformer-tiny",
        "train": {"steps": 9, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
    }
    return parse_recipe(table)


MEMORY, FILES = {"path": "m.tmx"}, {"source": "a", "target": "b"}

CONTRADICTIONS = [
    ({}, ["data.source: missing; name two", "data.target: missing; name two"]),
    ({"source": "a"}, ["data.target: missing"]),
    (
        {**FILES, "corpora": [MEMORY]},
        [f'data.{side} = "{FILES[side]}": stands for one corpus; give it as an entry' for side in FILES],
    ),
    ({"corpora": [{}, {"source": "a"}, {**MEMORY, **FILES}]}, [f"data.corpora[{n}] = " for n in range(3)]),
    (
        {"corpora": [{**MEMORY, "weight": 2}, FILES], "temperature": 5},
        ["data.corpora[0].weight = 2.0: data.temperature = 5 sets the weights"],
    ),
    ({**FILES, "temperature": 5}, ["data.temperature = 5.0: weighs corpora, and there are not several"]),
    ({**FILES, "temperature": 0.5}, ["data.temperature = 0.5: needs to be 1 or more"]),
    (
        {**FILES, "valid": "v", "valid_source": "c", "valid_target": "d"},
        [f"data.valid_{side} = " for side in ("source", "target")],
    ),
    ({**FILES, "valid": "v.tmx", "holdout_most": 9}, ["data.holdout_most = 9: not used"]),
    ({**FILES, "valid_tags": ["it"]}, ["data.valid_tags = "]),
    (
        {"corpora": [{**MEMORY, "tags": ["it"]}, FILES], "valid": "v.tmx"},
        ["data.valid_tags: missing; the corpora have different tags"],
    ),
    ({**FILES, "test": ["t.en"]}, ["data.test = "]),
    ({"corpora": [{**MEMORY, "kind": "tmxx"}]}, ['data.corpora[0].kind = "tmxx": no such kind; did you mean "tmx"?']),
    ({"corpora": [{**MEMORY, "weight": 0}]}, ["data.corpora[0].weight = 0"]),
    ({"corpora": [{**MEMORY, "source_column": 0}]}, ["data.corpora[0].source_column = 0: needs the name of a column"]),
    ({"corpora": [{**MEMORY, "delimiter": "::"}]}, ["data.corpora[0].delimiter = "]),
]


@pytest.mark.parametrize(("data", "expected"), CONTRADICTIONS, ids=[told[0][:60] for _, told in CONTRADICTIONS])
def test_what_contradicts_itself_in_the_data_of_a_recipe_is_named(data: dict, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        recipe_of(**data)
    told = [str(fault) for fault in error.value.faults]
    assert [fault[: len(start)] for fault, start in zip(told, expected, strict=True)] == expected


def test_paths_of_corpora_are_made_whole_and_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DATA", "/data")
    corpora = [{"path": "in/*.tmx", "tags": ["path"], "weight": 2}, {"source": "$HEADWAY_DATA/a", "target": "$$b"}]
    recipe = recipe_of(
        corpora=corpora, valid="v.tmx", valid_tags=[], test=["t.en", "/u"], store="s", clean={"overlap": "source"}
    )
    data = resolve_paths(recipe, "/here").data
    assert [corpus.path for corpus in data.corpora] == ["/here/in/*.tmx", None]
    assert (data.corpora[1].source, data.corpora[1].target) == ("/data/a", "/here/$b")
    assert (data.valid, data.test, data.store) == ("/here/v.tmx", ("/here/t.en", "/u"), "/here/s")
    assert (data.corpora[0].tags, data.valid_tags) == (("path",), ())
    whole = resolve_paths(recipe, "/here")
    written = parse_recipe(tomllib.loads(dump_toml(literal_paths(whole))))
    assert resolve_paths(written, "/elsewhere") == whole
    assert "corpora" not in dump_toml(recipe_of(**FILES))


def test_every_variable_that_is_not_set_in_a_corpus_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_NONE", raising=False)
    recipe = recipe_of(corpora=[MEMORY, {"source": "$HEADWAY_NONE/a", "target": "b"}], store="${HEADWAY_NONE}")
    with pytest.raises(ConfigError) as error:
        resolve_paths(recipe, ".")
    assert [str(fault).split(" = ")[0] for fault in error.value.faults] == ["data.corpora[1].source", "data.store"]
