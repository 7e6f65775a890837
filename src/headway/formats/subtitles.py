r"""Subtitles: SubRip (SRT, which has no standard; what players agree on) and WebVTT (https://www.w3.org/TR/webvtt1/).

The text of a cue is a segment. Its lines are one text, joined by a space, or by nothing between two characters of a
script without spaces. A line break before a dash or a voice tag begins what another person says: it is kept, as a code.
A translation is laid out anew, in balanced lines no longer than the cue's longest line or LONGEST columns, whichever is
more. The independent checks are the small parsers in tests/formats/test_subtitles.py.
"""

import codecs
import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import ClassVar

from headway.formats.segment import CONVERT, Document, Edit, FormatError, Segment, unsaid
from headway.text.codes import Code, Part, Parts, joined, plain

BOM = codecs.BOM_UTF8
OTHERS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Marks of encodings that are not read; that of UTF-32 begins as that of UTF-16 does."""
LONGEST = 42
"""Columns of a line that most guides for subtitles allow; a wide character takes two."""
MOST_FAULTS = 20
"""Faults after which reading stops; what follows is rarely news."""

EOL = r"(?:\r\n|\r|\n)"
RAW_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
DASH = r"[-–—](?![-\d])"  # of somebody who begins to speak; -5 is a number
UNSPACED = (  # characters of Chinese and Japanese, with their punctuation
    r"[\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]"
)
NOT_FIRST = "[、。，．：；！？）」』】〉》］｝〕ー々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ]"
NOT_LAST = "[（「『【〈《［｛〔]"
NAME = re.compile(r"<(/?)([a-z]+)", re.I)


@dataclass(frozen=True)
class Line:
    """number: from 1; start, end: its bytes, without the line break."""

    number: int
    start: int
    end: int
    text: str


class Subtitles(Document):
    """What both kinds share: blocks of lines, each with times and a text, in UTF-8.

    tag: what is markup. blank: characters that an empty line may have. label: a line above the times. times: a
    line of times, to be written like `like`. speaker: what begins a line that somebody else says.
    """

    bilingual = False
    tag: ClassVar[str]
    blank: ClassVar[str]
    label: ClassVar[str]
    times: ClassVar[str]
    like: ClassVar[str]
    speaker: ClassVar[str]
    token: ClassVar[re.Pattern[str]]
    ends: ClassVar[re.Pattern[str]]

    def __init_subclass__(cls) -> None:
        cls.token = re.compile(rf"{cls.tag}|{EOL}(?:{DASH} ?|(?=(?:{cls.tag})*(?:{cls.speaker})))", re.I)
        # Where a line may end: at one space, or between two characters without spaces; not where the break would be
        # read otherwise. Tags are passed over whole: there is no break in them.
        space = rf"(?<=\S) (?=\S)(?!(?:{cls.tag})*(?:[-–—]|{cls.speaker}))(?!(?<={UNSPACED} ){UNSPACED})"
        between = rf"(?<={UNSPACED})(?<!{NOT_LAST})(?={UNSPACED})(?!{NOT_FIRST})"
        cls.ends = re.compile(f"{cls.tag}|(?P<end>{space}|{between})", re.I)

    def segments(self) -> Iterator[Segment]:
        for mark, encoding in OTHERS.items():
            if self.data[: len(mark)] == mark:
                raise FormatError(self.name, [f"is {encoding}. Convert it to UTF-8: iconv -f {encoding} -t UTF-8"])
        faults: list[str] = []
        for block in self.blocks():
            told = [block] if isinstance(block, str) else self.faults(block)
            faults += told
            if len(faults) >= MOST_FAULTS:
                break
            if not faults and not isinstance(block, str):
                yield from self.cue(block)
        if faults:
            raise FormatError(self.name, faults)

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        start, end = segment.slot
        if spelled(target) == spelled(segment.source):
            return []
        if not plain(target).strip():
            return unsaid(self, segment)
        before = self.data[start - 2 : start]  # the end of the line of times
        eol = "\r\n" if before == b"\r\n" else before[1:].decode()
        text = self.laid_out(target, self.data[start:end].decode(), eol)
        faults = [
            f"cannot hold the line {line!r}: it would end the text. Write it otherwise"
            for line in re.split(EOL, text)
            if not line.strip(self.blank) or self.is_times(line)
        ]
        if not faults and spelled(self.parts(text), breaks=False) != spelled(target, breaks=False):
            faults.append(f"cannot hold {text!r}: it would be read as other markup. Write < and {{ otherwise")
        if "\0" in text:
            faults.append("cannot hold U+0000. Take it out")
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise FormatError(self.name, [f"{segment.place}: {error.object[error.start]!r} is no character"]) from None
        if faults:
            raise FormatError(self.name, [f"{segment.place}: a {self.kind} file {fault}" for fault in faults])
        return [Edit(start, end, data)]

    def blocks(self) -> Iterator[list[Line] | str]:
        """Lines without an empty one between them, and before them the faults of their bytes."""
        block: list[Line] = []
        at, number = len(BOM) if self.data[:3] == BOM else 0, 0
        while at < len(self.data):
            found = RAW_LINE.match(self.data, at)
            assert found is not None
            number += 1
            try:
                text = found[1].decode()
            except UnicodeDecodeError as error:
                byte = f"byte {error.start + 1} of the line: 0x{found[1][error.start]:02X}"
                yield f"line {number}, {byte} is not UTF-8. {CONVERT}"
                text = found[1].decode(errors="replace")
            if text.strip(self.blank):
                block.append(Line(number, *found.span(1), text))
            elif block:
                yield block
                block = []
            at = found.end()
        if block:
            yield block

    def faults(self, block: list[Line]) -> list[str]:
        """What is wrong with a block that should be a cue."""
        first, at = block[0], self.times_of(block)
        if at is None:
            arrow = next((line for line in block[:2] if "-->" in line.text), None)
            if arrow is None:
                remedy = "Take out the empty line before it, or write times above it"
                return [f"line {first.number}: a text without times. {remedy}"]
            return [f"line {arrow.number}: no valid times: {arrow.text!r}. Write them like {self.like}"]
        told = []
        if at and not re.fullmatch(self.label, first.text):
            told.append(
                f"line {first.number}: {first.text!r} is not the number of a cue. Is an empty line missing after it?"
            )
        for line in block[at + 1 :]:
            if self.is_times(line.text):
                told.append(f"line {line.number}: times within a text. An empty line is missing before this cue")
        return told

    def cue(self, block: list[Line]) -> Iterator[Segment]:
        """The segment of a cue, where it has a text."""
        at = self.times_of(block)
        assert at is not None
        text = block[at + 1 :]
        if not text:
            return
        start, end = text[0].start, text[-1].end
        source = self.parts(self.data[start:end].decode())
        if any(isinstance(part, str) and part.strip() for part in source):
            label = f", cue {block[0].text.strip()}" if at else ""
            yield Segment(f"line {text[0].number}{label}", source, slot=(start, end))

    def times_of(self, block: list[Line]) -> int | None:
        """Which line of a block has its times: the first, or the one after a number or a name."""
        return next((at for at, line in enumerate(block[:2]) if re.fullmatch(self.times, line.text.strip())), None)

    def is_times(self, line: str) -> bool:
        """Would players end a text at this line, and begin a cue?"""
        return re.fullmatch(self.times, line.strip()) is not None

    def plain(self, text: str) -> str:
        """A text as it is seen, of a text as it is written."""
        return text

    def escaped(self, text: str) -> str:
        """The reverse of `plain`."""
        return text

    def parts(self, payload: str) -> Parts:
        """The text and the codes of a cue."""
        parts: list[Part] = []
        at, begins = 0, False  # does a line that somebody else says begin here?
        for found in [*self.token.finditer(payload), None]:
            text = payload[at : found.start() if found else len(payload)]
            dash = re.match(f"{DASH} ?", text) if begins else None
            if dash:
                parts.append(Code(dash[0], markup=True))
                text = text[dash.end() :]
            parts.append(self.lines_joined(text))
            if found:
                parts.append(Code(found[0], markup=True, key=re.sub(EOL, "\n", found[0])))
                at = found.end()
                begins = found[0].isspace() or (begins and not text and not dash)
        return paired(joined(parts))

    def lines_joined(self, text: str) -> str:
        return self.plain(re.sub(EOL, " ", re.sub(rf"(?<={UNSPACED}){EOL}(?={UNSPACED})", "", text)))

    def laid_out(self, target: Parts, before: str, eol: str) -> str:
        """A translation as it is written in the place of `before`."""
        longest = max(LONGEST, *(self.columns(line) for line in re.split(EOL, before)))
        chunks = [""]  # and at odd places the breaks that are kept
        for part in spelled(target):
            if isinstance(part, str):
                chunks[-1] += self.escaped(part)
            elif part.raw[0] in "\r\n":
                chunks += [part.raw, ""]
            else:
                chunks[-1] += part.raw
        dashes = ["", *(chunk.lstrip("\r\n") for chunk in chunks[1::2])]
        chunks[::2] = [
            eol.join(self.filled(chunk, longest - len(dash))) for dash, chunk in zip(dashes, chunks[::2], strict=True)
        ]
        return "".join(chunks)

    def filled(self, text: str, longest: int) -> list[str]:
        """The fewest lines of `longest` columns or less, and of those the most even."""
        pieces: list[tuple[str, str, int]] = []  # what joins it to the piece before, the piece, its columns
        at, glue = 0, ""
        for found in self.ends.finditer(text):
            if found["end"] is not None:
                pieces.append((glue, text[at : found.start()], self.columns(text[at : found.start()])))
                at, glue = found.end(), found["end"]
        pieces.append((glue, text[at:], self.columns(text[at:])))
        fewest = len(filled(pieces, longest))
        if fewest == 1:
            return [text]
        least = bisect_left(range(longest), True, key=lambda width: len(filled(pieces, width)) <= fewest)
        return filled(pieces, least)

    def columns(self, text: str) -> int:
        """Columns of a text without its tags: a wide character takes two, one that combines none."""
        seen = self.plain(re.sub(self.tag, "", text, flags=re.I))
        return sum(
            2 if unicodedata.east_asian_width(character) in "WF" else not unicodedata.combining(character)
            for character in seen
        )


class SRT(Subtitles):
    """SubRip. Its text has no escapes: what would be read as a tag or as times is refused."""

    kind = "srt"
    suffixes = (".srt",)
    tag = r"</?(?:[bius]\s*|font(?:\s[^<>]*)?)>|\{(?:\\|[A-Za-z]:)[^{}]*\}"
    blank = " \t\v\f"
    label = r"(?a)\s*\d+\s*"
    times = r"(?a)\d+:[0-5]?\d:[0-5]?\d[,.]\d{1,3}\s*-->\s*\d+:[0-5]?\d:[0-5]?\d[,.]\d{1,3}(?:\s+[XY][12]:\s*-?\d+)*"
    like = "00:01:02,345 --> 00:01:04,000"
    speaker = DASH


class VTT(Subtitles):
    """WebVTT. Its header, comments, styles and regions hold no text; a comment that holds times is refused, since
    players disagree about it. Times within a text begin the next cue: YouTube writes so, the standard reads it so."""

    kind = "vtt"
    suffixes = (".vtt",)
    tag = r"<[^>]*(?:>|\Z)"
    blank = ""
    label = r"(?!.*-->).*"
    times = r"(?a)(?:\d{2,}:)?[0-5]\d:[0-5]\d\.\d{3}[ \t]*-->[ \t]*(?:\d{2,}:)?[0-5]\d:[0-5]\d\.\d{3}(?:[ \t].*)?"
    like = "00:01:02.345 --> 00:01:04.000"
    speaker = rf"{DASH}|<v[\s.>]"
    aside = r"(?:NOTE|STYLE|REGION)(?:[ \t].*)?"

    def blocks(self) -> Iterator[list[Line] | str]:
        """The blocks after the header, without comments, styles and regions."""
        begun = False
        for block in super().blocks():
            if isinstance(block, str):
                yield block
            elif not begun:
                begun = True
                rightly = block[0].number == 1 and re.match(r"WEBVTT(?![^ \t])", block[0].text)
                yield from arrows(block, "the header") if rightly else ["line 1: must begin with WEBVTT"]
            elif re.fullmatch(self.aside, block[0].text):
                yield from arrows(block, "a comment, style or region")
            else:
                yield from self.cues_of(list(dropwhile(lambda line: line.text.isspace(), block)))
        if not begun:
            yield "line 1: must begin with WEBVTT, and the file is empty"

    def cues_of(self, block: list[Line]) -> Iterator[list[Line]]:
        """A block cut before times within a text; not below a number, which is meant for the number of a cue."""
        cue: list[Line] = []
        for line in block:
            times = re.fullmatch(self.times, line.text.strip()) is not None
            if times and self.times_of(cue) is not None and not cue[-1].text.strip().isdecimal():
                yield cue
                cue = []
            cue.append(line)
        if cue:
            yield cue

    def is_times(self, line: str) -> bool:
        return "-->" in line

    def plain(self, text: str) -> str:
        return html.unescape(text)

    def escaped(self, text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "--&gt;")


def arrows(block: list[Line], what: str) -> list[str]:
    """Faults of lines of times where none may be."""
    remedy = "Is an empty line missing before a cue?"
    return [f'line {line.number}: "-->" within {what}. {remedy}' for line in block if "-->" in line.text]


def filled(pieces: Iterable[tuple[str, str, int]], longest: int) -> list[str]:
    """Pieces in lines, each as full as it may be; a piece longer than a line has one of its own."""
    rows: list[str] = []
    used = 0
    for glue, piece, wide in pieces:
        if rows and used + len(glue) + wide <= longest:
            rows[-1] += glue + piece
            used += len(glue) + wide
        else:
            rows.append(piece)
            used = wide
    return rows


def paired(parts: Parts) -> Parts:
    """The parts with a side for each tag that has its other one; a closing tag has the key of its opening one."""
    made, opened = list(parts), {}
    for at, part in enumerate(made):
        found = NAME.match(part.raw) if isinstance(part, Code) else None
        if found is None or not isinstance(part, Code):
            continue
        waiting = opened.setdefault(found[2].lower(), [])
        if not found[1]:
            waiting.append((at, part))
        elif waiting:
            before, opening = waiting.pop()
            made[before], made[at] = replace(opening, side="open"), replace(part, side="close", key=opening.key)
    return tuple(made)


def spelled(parts: Parts, *, breaks: bool = True) -> Parts:
    """Parts as a file can tell them apart: a line break in a text is a space, a placeholder is text, a tag is its
    spelling; without `breaks`, those that are kept and their dashes are text too."""
    return joined(
        Code(part.raw, markup=True)
        if isinstance(part, Code) and part.markup and (breaks or part.raw[0] in "<{")
        else re.sub(EOL, " ", part if isinstance(part, str) else part.raw)
        for part in parts
    )
