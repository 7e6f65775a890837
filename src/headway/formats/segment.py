"""Segments: what a translator would see of a file, and the bytes that each came from.

A `Document` turns bytes into segments, and the translation of a segment into edits of those bytes. What is not edited
stays as it is, byte for byte; there is no writing of a whole file from a model of it. Readers of corpora
(`headway.data.readers`) and translation of documents (`headway.documents`) both stand on this. The contract that every
format must pass is `tests/contract/test_document.py`.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from mmap import mmap
from typing import Any, ClassVar, Literal

from headway.text.codes import Code, Parts, joined

Buffer = bytes | mmap

CONVERT = "Convert it from the encoding it has (LATIN1, CP932, ...): iconv -f ENCODING -t UTF-8"
"""What to do about text that is not UTF-8."""


class FormatError(ValueError):
    """A file that is not what its kind says. The message names the file, every place (line and column from 1), and the
    remedy; `faults` holds one text for each fault."""

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(f"{name}: {fault}" for fault in self.faults))


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` of a file become `data`."""

    start: int
    end: int
    data: bytes


State = Literal["empty", "unsure", "done"]
"""Of a translation: there is none; it is marked as a guess (fuzzy, machine-made, to be reviewed); it is finished."""


@dataclass(frozen=True)
class Segment:
    """One text to translate.

    place: where, for people (`line 12`, with the unit's id where there is one); source: what to translate; target: the
    translation that the file holds, or None where it holds none or the kind of file has only one language (then the
    translation takes the place of the source, and state is "empty"); context: what tells equal sources apart (msgctxt,
    unit id, plural form) for memories; notes: comments for translators; flags: the file's own words about it
    (`python-format`); most: greatest length in characters that the file allows; translate: False where the file says
    not to; begins: what stands before it is no context for it; slot: where to write, for the format that made the
    segment alone.
    """

    place: str
    source: Parts
    target: Parts | None = None
    state: State = "empty"
    context: str = ""
    notes: str = ""
    flags: frozenset[str] = frozenset()
    most: int | None = None
    translate: bool = True
    begins: bool = False
    slot: Any = field(default=None, repr=False, compare=False)


@dataclass
class Skipped:
    """Texts of a file that are no segments, by reason: how many, and the places of the first few.

    notes: those of the reasons that are of a part of a text whose rest is a segment."""

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    def add(self, reason: str, place: str) -> None:
        self.counts[reason] += 1
        shown = self.places.setdefault(reason, [])
        if len(shown) < SHOWN:
            shown.append(place)

    def note(self, reason: str, place: str) -> None:
        """Of a part of a text; the rest is a segment."""
        self.notes.add(reason)
        self.add(reason, place)


SHOWN = 3


class Document(ABC):
    """A file of one kind, read from its bytes.

    data: the whole file, bytes or a memory map; only what is asked for is touched, and memory does not grow with the
    file. name: for messages. source, target: languages (`en`, `pt-BR`) where they are known; a file of several
    languages needs them and says so. Both methods raise FormatError, with all faults that can be found at once.
    """

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]  # lower case, with the dot
    bilingual: ClassVar[bool]  # does a file of this kind hold the translation beside the source?

    def __init__(self, data: Buffer, name: str, source: str | None = None, target: str | None = None) -> None:
        self.data, self.name, self.source, self.target = data, name, source, target
        self.skipped, self.marker = Skipped(), ""

    @abstractmethod
    def segments(self) -> Iterator[Segment]:
        """All segments in the order of the file, those without text to translate left out.

        May be called more than once; each call reads the file anew.
        """

    @abstractmethod
    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        """What to change in the file so that `target` becomes the segment's translation; mark: as machine-made.

        An empty list where the file holds it already and `mark` changes nothing. Sorted, not overlapping, all at or
        after those of earlier segments, but for the mark of an entry with several (`in_order`); a change that the file
        needs once (a header) comes with the first segment that is changed. Raises FormatError for what a file of this
        kind cannot hold, and for an empty translation where a text would go (`unsaid`).
        """


def one_line(text: str, most: int = sys.maxsize) -> str:
    """A text for a message: line breaks and other white space as single spaces, `most` characters or fewer."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def splice(data: Buffer, edits: Iterable[Edit]) -> Iterator[bytes]:
    """The file with its edits made, in chunks. Edits are sorted and do not overlap."""
    at = 0
    for edit in edits:
        assert at <= edit.start <= edit.end <= len(data), (at, edit)
        for start in range(at, edit.start, CHUNK):
            yield data[start : min(start + CHUNK, edit.start)]
        yield edit.data
        at = edit.end
    for start in range(at, len(data), CHUNK):
        yield data[start : start + CHUNK]


CHUNK = 1 << 20


def in_order(edits: Iterable[Edit]) -> Iterator[Edit]:
    """Edits that are nearly sorted, sorted: a mark stands before an entry's first form, and may come with its last."""
    waiting: list[tuple[int, int, Edit]] = []
    for number, edit in enumerate(edits):
        heappush(waiting, (edit.start, number, edit))
        if len(waiting) > NEAR:
            yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]


NEAR = 64
"""More edits than one entry can have."""


def as_text(parts: Parts) -> Parts:
    """The parts with codes that are no markup as the text that they are: so a file holds them."""
    return joined(part.raw if isinstance(part, Code) and not part.markup else part for part in parts)


def unsaid(document: Document, segment: Segment) -> list[Edit]:
    """The edits of an empty translation: none where the file holds none. Raises FormatError where a text would be lost,
    which stays."""
    if document.bilingual and segment.target is None:
        return []
    raise FormatError(document.name, [f"{segment.place}: the translation is empty. What the file has there stays"])


SCRIPTS = {"latin": "latn", "cyrillic": "cyrl", "arabic": "arab", "devanagari": "deva"}
"""The words for scripts in names of locales, in which tags have four letters."""


def same_language(asked: str, told: str) -> bool:
    """Are two languages the same, or one of them the other more closely (`de` and `de-AT`, not `de-DE` and `de-AT`)?
    They are tags or names of locales: `sr_RS.UTF-8@latin` is `sr-Latn-RS`."""
    one, other = subtags(asked), subtags(told)
    return all(one[kind] == other[kind] for kind in one.keys() & other.keys())


def subtags(name: str) -> dict[str, str]:
    """The language of a tag or of a name of a locale, and its script, region and variant where it says them."""
    name, _, modifier = name.lower().removesuffix("@euro").partition("@")
    code, *rest = re.split("[-_]", name.partition(".")[0])
    found = {"language": code}
    for part in [*rest, *([SCRIPTS.get(modifier, modifier)] if modifier else [])]:
        is_script = len(part) == 4 and part.isalpha()
        kind = "script" if is_script else "region" if re.fullmatch("[a-z]{2}|[0-9]{3}", part) else "variant"
        found.setdefault(kind, part)
    if code == "zh" and found.get("region") in CHINESE:
        found.setdefault("script", CHINESE[found["region"]])
    return found


CHINESE = {"cn": "hans", "sg": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}
"""The script of Chinese by region, which is often said alone."""
