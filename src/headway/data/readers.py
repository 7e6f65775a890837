"""From files to pairs: every kind of file that holds texts and their translations, each read by one function here.

A reader streams: memory does not grow with the file, but for .mo and what pyarrow holds of a Parquet row group. What
gives no pair goes into a tally with its reason; what is wrong with a file is a ValueError with all places that can be
found at once, at the end of it. The contract is tests/contract/test_reader.py; its twins are the libraries that
write such files: csv, json, pyarrow, polib, and SentencePiece's own decoder.
"""

import csv
import glob
import json
import re
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shutil import copyfileobj
from typing import Any, NamedTuple

import polib

from headway.config import CorpusConfig, DataConfig
from headway.data.corpus import HEAD, UTF16, Faults, opened, stream_lines, stream_pairs
from headway.data.corpus import kind as kind_of_bytes
from headway.data.pair import Pair
from headway.data.tally import Tally
from headway.formats.kinds import document_class
from headway.formats.po import another_language, plural_rule
from headway.formats.segment import Buffer, Document, Segment
from headway.formats.subtitles import Subtitles
from headway.strict import nearest
from headway.text.codes import joined, plain

# ---- which files ----


@dataclass(frozen=True)
class Part:
    """A part of a corpus that is read in one go: a file of both sides, or two files side by side.

    corpus: which of the recipe's, from 0; label: what to put before a place in it, empty where there is one part only;
    whole: give texts without a finished translation too, with an empty side, besides counting them.
    """

    corpus: int
    kind: str
    paths: tuple[Path, ...]
    config: CorpusConfig
    label: str = ""
    whole: bool = False

    def read(self, tally: Tally) -> Iterator[Pair]:
        """All pairs; what gives none goes into the tally. Raises ValueError with every fault of the files."""
        return READERS[self.kind](self, tally)

    def texts(self) -> Iterator[Pair]:
        """All that the files hold in the source language, and what is known of its translations: a side that is
        missing, or that the file marks as unsure, is empty. For what must be known and is not trained on."""
        # A translation into another language than the one asked for has a source as well. (TMX needs to be asked.)
        asked = {} if self.kind == "tmx" else {"target_language": None}
        part = replace(self, config=self.config.model_copy(update=asked), whole=True)
        return part.read(Tally())

    def place(self, number: int, place: str = "") -> str:
        """Where a pair stands, for people."""
        return self.label + (place or f"{'line' if self.kind in LINES else 'unit'} {number}")


SUFFIXES = {
    **{f".{kind}": kind for kind in ("tsv", "csv", "jsonl", "parquet", "mo", "po", "tmx", "xliff", "srt", "vtt")},
    ".ndjson": "jsonl",
    ".xlf": "xliff",
}
"""The kind of a file by its suffix, without .gz."""

LINES = "text", "tsv", "csv", "jsonl"
"""Kinds whose pairs are numbered by lines."""

TWO = "text", "srt", "vtt"
"""Kinds whose files hold one side each."""

OPTIONS = {
    "source_column": ("tsv", "csv", "jsonl", "parquet"),
    "target_column": ("tsv", "csv", "jsonl", "parquet"),
    "delimiter": ("csv",),
    "pieces": ("text", "tsv", "csv", "jsonl", "parquet"),
}
"""Which kinds use an option of a corpus."""


def corpora_of(data: DataConfig) -> list[CorpusConfig]:
    """The corpora of a recipe, those of its short form too, each with its languages."""
    corpora = data.corpora or (CorpusConfig(source=data.source, target=data.target),)
    return [with_languages(corpus, data) for corpus in corpora]


def valid_of(data: DataConfig) -> list[CorpusConfig]:
    """The files that are named to validate on, as a corpus; none where pairs are held out."""
    named = CorpusConfig(path=data.valid, source=data.valid_source, target=data.valid_target)
    return [] if named == CorpusConfig() else [with_languages(named, data)]


def kept_out(data: DataConfig) -> list[CorpusConfig]:
    """The files of data.test; a plain one is read as both sides, since it may be either."""
    found = []
    for path in data.test:
        alone = SUFFIXES.get(suffix_of(Path(path)), "text") in TWO
        found.append(CorpusConfig(source=path, target=path) if alone else CorpusConfig(path=path))
    return [with_languages(corpus, data) for corpus in found]


def with_languages(corpus: CorpusConfig, data: DataConfig) -> CorpusConfig:
    sides = ("source_language", "target_language")
    return corpus.model_copy(update={side: getattr(corpus, side) or getattr(data, side) for side in sides})


def find_parts(corpora: Sequence[CorpusConfig], where: str = "data.corpora") -> list[Part]:
    """The files of corpora, in order. Raises ValueError with all that are missing, of no known kind or alone."""
    parts, faults = [], []
    for number, config in enumerate(corpora):
        told = f"{where}[{number}]" if len(corpora) > 1 else where
        try:
            for paths in pairs_of_files(config) if config.path is None else files_of(config.path):
                parts.append(Part(number, kind_of(config, paths), paths, config, f"{paths[0]}: "))
                for path in paths:
                    with opened(path):
                        pass
        except ValueError as error:
            faults.append(f"{told}: {error}")
    if faults:
        raise ValueError("\n".join(faults))
    return parts if len(parts) > 1 else [replace(part, label="") for part in parts]


def suffix_of(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def kind_of(config: CorpusConfig, paths: tuple[Path, ...]) -> str:
    """What kind of files these are. Raises ValueError where that cannot be told, or an option does not fit it."""
    kind = SUFFIXES.get(suffix_of(paths[0])) if config.kind == "auto" else config.kind
    known = ", ".join(SUFFIXES)
    if len(paths) == 2 and kind not in TWO and config.kind == "auto":
        if kind is not None:
            raise ValueError(f'{paths[0]}: such a file holds both sides: name it as path, or say kind = "text"')
        kind = "text"
    if kind is None:
        raise ValueError(f"{paths[0]}: its name ends in none of {known}: say with kind what it is, or name others")
    if (kind in TWO) != (len(paths) == 2):
        needs = "source and target" if kind in TWO else "path"
        raise ValueError(f'{paths[0]}: kind = "{kind}" needs {needs}')
    for option, kinds in OPTIONS.items():
        if getattr(config, option) not in (None, False) and kind not in kinds:
            raise ValueError(f'{paths[0]}: {option} is for {", ".join(kinds)}, not for kind = "{kind}": drop it')
    if (config.source_column is None) != (config.target_column is None):
        raise ValueError(f"{paths[0]}: give both source_column and target_column")
    return kind


def files_of(pattern: str) -> list[tuple[Path, ...]]:
    """The files that a name, a folder (with those in it) or a glob means, in the order of their names."""
    path = Path(pattern)
    if not path.is_dir():
        return [(file,) for file in sorted(matches(pattern).values())]
    inside = (file for file in path.rglob("*") if file.is_file())
    found = sorted(file for file in inside if not any(part[0] == "." for part in file.relative_to(path).parts))
    if not found:
        raise ValueError(f"{path}: this folder holds no file")
    return [(file,) for file in found]


def pairs_of_files(config: CorpusConfig) -> list[tuple[Path, ...]]:
    """The files of both sides that belong together: those for which the wildcards stand for the same."""
    sources, targets = matches(config.source or ""), matches(config.target or "")
    alone = [sources[key] for key in sources.keys() - targets.keys()]
    alone += [targets[key] for key in targets.keys() - sources.keys()]
    if alone:
        shown = ", ".join(map(str, sorted(alone)[:5])) + (", ..." if len(alone) > 5 else "")
        raise ValueError(f"{config.source}, {config.target}: no file of the other side for {shown}")
    return [(sources[key], targets[key]) for key in sorted(sources)]


def matches(pattern: str) -> dict[tuple[str, ...], Path]:
    """The files that a pattern means, by what its wildcards stand for; a file's plain name stands for itself."""
    if Path(pattern).exists() or not glob.has_magic(pattern):
        return {(): Path(pattern)}
    spelt = {"**/": "((?:.*/)?)", "**": "(.*)", "*": "([^/]*)", "?": "([^/])"}
    regex = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|[\s\S]", pattern):
        inside = token[1:-1].replace("\\", "\\\\")  # of brackets
        choice = f"([{'^' + inside[1:] if inside.startswith('!') else inside}])"
        regex += spelt.get(token) or (choice if len(token) > 1 else re.escape(token))
    found = {}
    for name in glob.glob(pattern, recursive=True):
        if Path(name).is_file() and (stands := re.fullmatch(regex, name)):
            found[stands.groups()] = Path(name)
    if not found:
        raise ValueError(f"{pattern}: no file has such a name")
    return found


# ---- plain text and tables ----


def read_text(part: Part, tally: Tally) -> Iterator[Pair]:
    for number, (source, target) in enumerate(stream_pairs(*part.paths), 1):
        yield made(part, number, source, target)


def made(part: Part, number: int, source: str, target: str, place: str = "") -> Pair:
    """A pair of plain texts, or of SentencePiece's pieces where the corpus says so."""
    if part.config.pieces:
        source, target = join_pieces(source), join_pieces(target)
    return Pair((source,) if source else (), (target,) if target else (), part.corpus, number, place)


def join_pieces(text: str) -> str:
    """The text that SentencePiece's pieces, with spaces between them, stand for: `▁` begins a word, and `<0xE3>` is a
    byte."""
    runs = groupby(filter(None, text.split(" ")), lambda piece: BYTE.fullmatch(piece) is not None)
    whole = "".join(_bytes(run) if are_bytes else "".join(run).replace("\u2581", " ") for are_bytes, run in runs)
    return whole if BYTE.match(text.lstrip(" ")) else whole.removeprefix(" ")


BYTE = re.compile("<0x([0-9A-F]{2})>")


def _bytes(run: Iterable[str]) -> str:
    return bytes.fromhex(BYTE.sub(r"\1", "".join(run))).decode(errors="replace")


def read_table(part: Part, tally: Tally) -> Iterator[Pair]:
    """TSV and CSV. A column's name means that the first row is a header; without columns there are two, and none."""
    config, faults = part.config, Faults(part.paths[0], "rows are at fault")
    wanted = [config.source_column or 1, config.target_column or 2]
    width, columns = 0, [-1, -1]
    for line, row in rows(part):
        if not width:
            width, columns = len(row), columns_of(part, row, wanted)
            if any(isinstance(column, str) for column in wanted):
                continue
        if len(row) != width:
            faults.add(f"{part.paths[0]}: line {line} has {len(row)} fields, and the first one {width}")
        elif not faults.told:
            yield made(part, line, row[columns[0]], row[columns[1]])
    faults.tell()


def columns_of(part: Part, first: list[str], wanted: Sequence[int | str]) -> list[int]:
    """Which fields, from 0, the columns of a corpus are, to judge by the first row. Raises ValueError."""
    path, found = part.paths[0], []
    if part.config.source_column is None and len(first) != 2:
        raise ValueError(f"{path}: has {len(first)} columns: say which two with source_column and target_column")
    for column in wanted:
        if isinstance(column, int) and column > len(first):
            raise ValueError(f"{path}: there is no column {column}, only {len(first)}")
        if isinstance(column, str) and first.count(column) != 1:
            wrong = "two columns" if column in first else "no column"
            raise ValueError(f'{path}: {wrong} of the name "{column}"; {nearest(column, first)}')
        found.append(column - 1 if isinstance(column, int) else first.index(column))
    return found


def rows(part: Part) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with the lines that they begin at. TSV knows no quotes; CSV has them as Python's `csv`."""
    path = part.paths[0]
    if part.kind == "tsv":
        yield from ((number, line.split("\t")) for number, line in enumerate(stream_lines(path), 1))
        return
    lines, begin = (f"{line}\n" for line in stream_lines(path)), 1
    reader = csv.reader(lines, delimiter=part.config.delimiter or ",", strict=True)
    try:
        for row in reader:
            yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        told = f"{path}: line {begin}: {error}. Is a quote not closed, or not doubled within quotes?"
        raise ValueError(told) from error


# ---- records ----


def read_jsonl(part: Part, tally: Tally) -> Iterator[Pair]:
    path, faults = part.paths[0], Faults(part.paths[0], "lines are at fault")
    for number, line in enumerate(stream_lines(path), 1):
        try:
            record = json.loads(line, object_pairs_hook=once)
            source, target = sides_of(part, record)
        except (ValueError, RecursionError) as error:
            faults.add(f"{path}: line {number}: {error}")
            continue
        if not faults.told:
            yield made(part, number, source, target)
    faults.tell()


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A record of these keys and values. Raises ValueError for a key that is there twice."""
    record = dict(pairs)
    if len(record) < len(pairs):
        [(key, count)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f'"{key}" is there {count} times: keep one')
    return record


def sides_of(part: Part, record: Any) -> list[str]:
    """Both texts of a record; null is an empty one. Raises ValueError where there is no such key, or no text."""
    found = []
    for column in (part.config.source_column or "source", part.config.target_column or "target"):
        value, keys = record, [column] if isinstance(record, dict) and column in record else str(column).split(".")
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                raise ValueError(f'there is no "{column}"; name the keys with source_column and target_column')
            value = value[key]
        if not isinstance(value, str | None):
            raise ValueError(f'"{column}" is no text but {json.dumps(value, ensure_ascii=False, default=str)[:60]}')
        try:
            (value or "").encode()
        except UnicodeEncodeError as error:
            raise ValueError(f'"{column}" holds half a surrogate pair at character {error.start}') from None
        found.append(value or "")
    return found


def read_parquet(part: Part, tally: Tally) -> Iterator[Pair]:
    try:
        from pyarrow import ArrowException, BufferReader
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ValueError(f"{part.paths[0]}: to read Parquet, pip install 'headway[data]'") from None
    path, faults = part.paths[0], Faults(part.paths[0], "rows are at fault")
    names = [str(part.config.source_column or "source"), str(part.config.target_column or "target")]
    try:
        with mapped(path) as data, ParquetFile(BufferReader(data)) as file:
            known = [file.schema.column(number).path for number in range(len(file.schema))]
            if missing := [name for name in names if name not in known]:
                raise ValueError(f'{path}: no column "{missing[0]}"; {nearest(missing[0], known)}')
            if doubled := [name for name in names if known.count(name) > 1]:
                raise ValueError(f'{path}: two columns of the name "{doubled[0]}": rename one')
            records = (record for batch in file.iter_batches(10_000, columns=names) for record in batch.to_pylist())
            for number, record in enumerate(records, 1):
                try:
                    source, target = sides_of(part, record)
                except ValueError as error:
                    faults.add(f"{path}: row {number}: {error}")
                    continue
                if not faults.told:
                    yield made(part, number, source, target, f"row {number}")
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is damaged or no Parquet file ({error})") from error
    faults.tell()


# ---- documents ----


@contextmanager
def mapped(path: Path, *, empty: bool = False) -> Iterator[Buffer]:
    """The bytes of a file as a map; those of a .gz unpacked into a temporary file. Raises ValueError for an archive or
    image, whatever its name, and for no bytes, unless it may be `empty`."""
    with opened(path) as stream, tempfile.TemporaryFile() as unpacked:
        if path.suffix == ".gz":
            copyfileobj(stream, unpacked)
            unpacked.flush()
        file = unpacked if path.suffix == ".gz" else stream
        size = file.seek(0, 2)
        if not size and not empty:
            raise ValueError(f"{path}: is empty. Was it written to the end, and is it the right file?")
        data = mmap(file.fileno(), 0, access=ACCESS_READ) if size else b""
        if (told := kind_of_bytes(data[:HEAD])) not in (None, UTF16):  # which XML and HTML may well be
            raise ValueError(f"{path}: {told}")
    yield data  # outside, so that what goes wrong in the work is not told of this file


def opened_document(part: Part, path: Path, data: Buffer) -> Document:
    kind = SUFFIXES.get(suffix_of(path), part.kind) if part.kind in TWO else part.kind
    made = document_class(f"x.{kind}")
    assert made is not None, kind
    return made(data, str(path), part.config.source_language, part.config.target_language)


def why_not(segment: Segment) -> str | None:
    """The reason why a segment is no example, or None."""
    if not segment.translate:
        return "untouchable"
    if segment.target is None or not plain(segment.target).strip():
        return "untranslated"
    return "unsure" if segment.state != "done" else None


def read_document(part: Part, tally: Tally) -> Iterator[Pair]:
    with mapped(part.paths[0]) as data:
        document = opened_document(part, part.paths[0], data)
        for number, segment in enumerate(document.segments(), 1):
            if reason := why_not(segment):
                tally.add(reason, part.place(number, segment.place))
            if not reason or part.whole:
                target = () if reason else segment.target or ()
                yield Pair(segment.source, target, part.corpus, number, segment.place)
        tally.take(document.skipped, part.label)


class Cue(NamedTuple):
    """Seconds from the beginning, and what is said."""

    begin: float
    end: float
    segment: Segment


NEAR = 0.25
"""Seconds that the begin and the end of a cue may differ from those of its translation."""


def read_cues(part: Part, tally: Tally) -> Iterator[Pair]:
    """Cues of two files of subtitles that begin and end together; those that have none, or several, are counted."""
    ours, theirs = (cues_of(part, path) for path in part.paths)
    taken = set()
    for number, cue in enumerate(ours):
        found = together(cue, theirs)
        if len(found) == 1 and together(theirs[found[0]], ours) == [number]:
            taken.add(found[0])
            other = theirs[found[0]].segment
            yield Pair(cue.segment.source, other.source, part.corpus, number + 1, cue.segment.place)
        else:
            tally.add("unmatched", f"{part.paths[0]}: {cue.segment.place}")
            if part.whole:
                yield Pair(cue.segment.source, (), part.corpus, number + 1, cue.segment.place)
    for number, cue in enumerate(theirs):
        if number not in taken:
            tally.add("unmatched", f"{part.paths[1]}: {cue.segment.place}")
            if part.whole:
                yield Pair((), cue.segment.source, part.corpus, number + 1, cue.segment.place)


def together(cue: Cue, others: list[Cue]) -> list[int]:
    """Which of the others begin and end with a cue."""
    first = bisect_left(others, cue.begin - NEAR, key=lambda other: other.begin)
    near = takewhile(lambda at: others[at].begin <= cue.begin + NEAR, range(first, len(others)))
    return [at for at in near if abs(others[at].end - cue.end) <= NEAR]


def cues_of(part: Part, path: Path) -> list[Cue]:
    """The cues of a file in the order of their begins."""
    found = []
    with mapped(path) as data:
        document = opened_document(part, path, data)
        assert isinstance(document, Subtitles)
        for _ in document.segments():
            pass  # says every fault
        for block in document.blocks():
            if not isinstance(block, str) and (at := document.times_of(block)) is not None:
                begin, end = map(seconds, re.findall(r"[\d:]+[.,]\d+", block[at].text)[:2])
                found += [Cue(begin, end, segment) for segment in document.cue(block)]
    return sorted(found, key=lambda cue: cue.begin)


def seconds(text: str) -> float:
    """Of a time such as 01:02:03,456 or 02:03.456."""
    return sum(float(part) * 60**place for place, part in enumerate(reversed(text.replace(",", ".").split(":"))))


def read_mo(part: Part, tally: Tally) -> Iterator[Pair]:
    """Compiled gettext catalogs, by polib: finished translations only, a pair for each plural form."""
    path, faults = part.paths[0], Faults(part.paths[0], "entries are at fault")
    with mapped(path) as data, tempfile.NamedTemporaryFile(suffix=".mo") as copy:
        copy.write(data)
        copy.flush()
        try:
            catalog = polib.mofile(copy.name)
            rule, doubts = plural_rule(catalog.metadata.get("Plural-Forms", ""))
        except Exception as error:  # polib raises what its parts raise, struct's and UnicodeDecodeError among them
            raise ValueError(f"{path}: is damaged or no .mo file ({error}). Name the .po that it came from") from error
    number, (wanted, one) = 0, rule or (0, 0)
    other = another_language(f"Language: {catalog.metadata.get('Language', '')}", part.config.target_language)
    for entry in catalog:
        several = entry.msgstr_plural if entry.msgid_plural else {}
        if several and doubts:
            faults.add(f"{path}: {doubts.pop()}")
        elif several and len(several) != (wanted or len(several)):
            told = f"has {len(several)} plural forms, and the header's Plural-Forms say {wanted}"
            faults.add(f'{path}: msgid "{entry.msgid[:40]}" {told}')
        for form, target in sorted((several or {-1: entry.msgstr}).items()):
            number += 1
            source = entry.msgid_plural if several and (form != one or len(several) == 1) else entry.msgid
            place = f'msgid "{entry.msgid[:40]}"' + (f", form {form}" if several else "")
            if left := other or ("" if target else "untranslated"):
                tally.add(left, part.place(number, place))
            if not faults.told and (not left or part.whole):
                yield Pair(joined([source]), joined([target]), part.corpus, number, place)
    faults.tell()


READERS: dict[str, Callable[[Part, Tally], Iterator[Pair]]] = {
    "text": read_text,
    "tsv": read_table,
    "csv": read_table,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "mo": read_mo,
    **dict.fromkeys(("po", "tmx", "xliff"), read_document),
    **dict.fromkeys(("srt", "vtt"), read_cues),
}
