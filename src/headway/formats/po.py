r"""PO and POT catalogs, as the manual of GNU gettext describes them. Their independent check is polib (tests/formats).

An entry: comments, msgctxt, msgid, msgid_plural, and one msgstr or msgstr[0], msgstr[1], ... Each msgstr is a segment.
The header, obsolete entries (#~) and entries without text are none. What is written replaces the quoted text of one
msgstr, and the flag `fuzzy`; no other byte.

Plural forms: with the header's Plural-Forms, the form that the number 1 takes is shown msgid, the others msgid_plural;
a language of one form is shown msgid_plural. Without, form 0 is shown msgid. `fuzzy` belongs to an entry, so one marked
form marks its sisters: where some are finished, the empty ones are not written with a mark. The flag of an entry of
several forms is never removed here.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from gettext import c2py
from hashlib import blake2b

from headway.formats.segment import (
    Buffer,
    Document,
    Edit,
    FormatError,
    Segment,
    Skipped,
    State,
    same_language,
    unsaid,
)
from headway.text.codes import Parts, plain

SPACE = " \t\r\v\f"
BOM = codecs.BOM_UTF8
MOST_FAULTS = 20
"""Faults after which reading stops; what follows is rarely news."""
WIDTH = 79
"""Columns of a line where a file wraps its lines: gettext's."""
SHOWN = 40

STRINGS = r'((?:[ \t]*"[^"\\]*(?:\\.[^"\\]*)*")*)'
LINE = re.compile(r"(?:(msgctxt|msgid_plural|msgid|msgstr)(?:[ \t]*\[[ \t]*([0-9]{1,3})[ \t]*\])?)?" + STRINGS)
STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
ESCAPE = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]+))+)|\\(.)")
LANGUAGE = re.compile(r"^Language:[ \t]*((?!ll\b|ll_)[a-z]{2,3}(?:[-_.@][\w.@-]*)?)\s*$", re.I | re.M)
"""A language by its code; what else may stand there (nothing, `LANGUAGE`, gettext's `ll_CC`, a name) says none."""
WRAPPED = re.compile(rb'(?<!\\n)(?<!")"[ \t]*\r?\n[ \t]*"')  # a text that goes on in the next line, without a \n in it
WIDE = r"\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60"
PIECE = re.compile(rf"(?:[{WIDE}][、。，．：；！？）」』】〉》…ー).,:;!?]*|[^ {WIDE}]+) *| +")
"""What stays on one line: a word or a character of a script without spaces, with the spaces behind it."""

ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
ESCAPED = str.maketrans({character: "\\" + letter for letter, character in ESCAPES.items()})
AFTER = {
    "msgctxt": {""},
    "msgid": {"", "msgctxt"},
    "msgid_plural": {"msgid"},
    "msgstr": {"msgid"},
    "msgstr[": {"msgid_plural", "msgstr["},
}
"""What may stand before each part of an entry; nothing, before the first."""


@dataclass
class Text:
    """The quoted text of one keyword. line: of the keyword, from 1; start, end: bytes from the first quote to the last;
    column: of the first quote."""

    line: int
    start: int = -1
    end: int = -1
    column: int = 0
    pieces: list[str] = field(default_factory=list)


@dataclass
class Comment:
    """A line that begins with #. start: its first byte; mark: that of the #; stop: after its last character; end: after
    its line break."""

    text: str
    start: int
    mark: int
    stop: int
    end: int

    @property
    def flags(self) -> list[str]:
        return [word for word in re.split(r"[\s,]+", self.text[2:]) if word] if self.text[1:2] in (",", "=") else []


@dataclass
class Entry:
    comments: list[Comment] = field(default_factory=list)
    texts: dict[str, Text] = field(default_factory=dict)  # by keyword, with [n]
    last: str = ""  # the last keyword, `msgstr[` for all plural forms
    eol: bytes = b"\n"
    start: int = 0  # of the line of the first keyword
    damaged: bool = False  # a line of it cannot be read: what seems to be missing may stand there, and is no fault

    def value(self, keyword: str) -> str | None:
        return "".join(self.texts[keyword].pieces) if keyword in self.texts else None

    @property
    def complete(self) -> bool:
        return self.last.startswith("msgstr")

    @property
    def is_header(self) -> bool:
        return self.value("msgid") == "" and "msgctxt" not in self.texts

    def flags(self) -> frozenset[str]:
        return frozenset(flag for comment in self.comments for flag in comment.flags)


@dataclass(frozen=True)
class Slot:
    """Where a msgstr stands, and what marks its entry as fuzzy, or no longer so. finished: the other forms of the entry
    that are done, where this one is empty."""

    start: int
    end: int
    column: int
    eol: bytes
    entry: int
    form: int
    finished: tuple[str, ...]
    mark: tuple[Edit, ...]
    unmark: tuple[Edit, ...]


class PO(Document):
    """A gettext catalog, in the encoding that its header declares; UTF-8 where it declares none.

    One that names another language than `target` is left alone, and counted in `skipped`, as XLIFF's files are.
    A finished translation that replaces a guess takes the flag `fuzzy` away, and the previous msgid (#|) with it. New
    lines are wrapped where the file wraps its lines. A text must begin and end with a line break where the msgid does.
    """

    kind = "po"
    suffixes = (".po", ".pot")
    bilingual = True

    def __init__(self, data: Buffer, name: str, source: str | None = None, target: str | None = None) -> None:
        super().__init__(data, name, source, target)
        self.marked = (-1, -1)  # entry and form that brought the last `fuzzy`: its later forms must not bring it again

    def segments(self) -> Iterator[Segment]:
        self.marked = (-1, -1)
        faults: list[str] = []
        doubts: list[str] = []  # of the plural rule: they matter where there are plural forms
        seen: dict[bytes, int] = {}
        rule: tuple[int, int] | None = None
        other = ""  # why the texts are left alone: they are in another language than is asked for
        self.skipped = Skipped()
        for number, entry in enumerate(entries(self.data, self.codec, self.hint)):
            if isinstance(entry, str):
                faults.append(entry)
            else:
                if entry.damaged:
                    continue
                faults += repeated(entry, seen, first=not number)
                if entry.is_header:
                    rule, doubts = declared_rule(entry)
                    self.marker, other = accelerator_marker(entry), self.other_language(entry)
                elif "msgid_plural" in entry.texts:
                    faults += doubts + miscounted(entry, rule)
                    doubts = []
                if not faults and entry.value("msgid"):
                    for segment in found(entry, rule, self.codec):
                        if other:
                            self.skipped.add(other, segment.place)
                        else:
                            yield segment
            if len(faults) >= MOST_FAULTS:
                break
        if faults:
            raise FormatError(self.name, faults)

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        slot: Slot = segment.slot
        text, before = plain(target), plain(segment.target or ())
        if not text.strip():
            return unsaid(self, segment)
        changed = [Edit(slot.start, slot.end, self.encoded(segment, text))] if text != before else []
        if mark:
            return self.marks(segment) + changed
        return [*slot.unmark, *changed] if changed else []

    def marks(self, segment: Segment) -> list[Edit]:
        """The edit that makes an entry fuzzy: with the first of its forms that is written, in the order of the file.

        Raises FormatError where that would take finished forms, which stay as they are, for guesses.
        """
        slot: Slot = segment.slot
        entry, form = self.marked
        if entry == slot.entry and form < slot.form:
            return []
        if slot.finished:
            what = f"the mark (fuzzy) would be said of {', '.join(slot.finished)} too, which the file has finished"
            raise FormatError(self.name, [f"{segment.place}: {what}. Fill this form by hand, or leave marks out"])
        self.marked = (slot.entry, slot.form)
        return list(slot.mark)

    def other_language(self, header: Entry) -> str:
        """As `another_language`; a template has none."""
        is_template = self.name.lower().removesuffix(".gz").endswith(".pot")
        return "" if is_template else another_language(header.value("msgstr") or "", self.target)

    def encoded(self, segment: Segment, text: str) -> bytes:
        """The quoted lines of a msgstr."""
        source, data, faults = plain(segment.source), b"", []
        if text.startswith("\n") != source.startswith("\n"):
            faults.append("must begin with a line break where the msgid does, and only there")
        if text.endswith("\n") != source.endswith("\n"):
            faults.append("must end with a line break where the msgid does, and only there")
        if "\0" in text:
            faults.append("U+0000 ends a text for gettext. Take it out")
        try:
            data = quoted(text, segment.slot.column, wrap=self.wraps).encode(self.codec)
        except UnicodeEncodeError as error:
            lacking = error.object[error.start]
            faults.append(f"{self.codec} cannot hold {lacking!r}. Convert the file first: msgconv -t UTF-8")
        if faults:
            raise FormatError(self.name, [f"{segment.place}: {fault}" for fault in faults])
        return data.replace(b"\n", segment.slot.eol)

    @cached_property
    def charset(self) -> str | None:
        """The charset that the header declares; None where it declares none, or a template's placeholder."""
        first = next((entry for entry in entries(self.data, "latin-1", "") if isinstance(entry, Entry)), Entry())
        header = first.value("msgstr") if first.is_header else None
        named = re.search(r"^Content-Type:.*?charset=([^\s;]*)", header or "", re.I | re.M)
        return None if named is None or named[1] in ("", "CHARSET") else named[1]

    @cached_property
    def codec(self) -> str:
        codec, fault = self.charset or "utf-8", None
        if self.data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            fault = "is UTF-16, or no text"
        elif not is_ascii_compatible(codec):
            fault = (
                f"the header declares the charset {codec!r}, which is not known here, or not one of bytes like ASCII's"
            )
        elif self.data[:3] == BOM and codecs.lookup(codec).name != "utf-8":
            fault = f"the header declares the charset {codec}, and the file begins with UTF-8's byte order mark"
        if fault:
            remedy = "Convert the file to UTF-8 (msgconv -t UTF-8, iconv), and let the header say so"
            raise FormatError(self.name, [f"{fault}. {remedy}"])
        return codec

    @property
    def hint(self) -> str:
        if self.charset is None:
            return "is not UTF-8, and the header declares no charset. Declare the charset that the file has"
        return f"is not {self.charset}, which the header declares. Declare the charset that the file has, or convert it"

    @cached_property
    def wraps(self) -> bool:
        """Does a text anywhere in the file go on in the next line without a line break in the text?"""
        return WRAPPED.search(self.data) is not None


def is_ascii_compatible(codec: str) -> bool:
    """Are ASCII's bytes, and only they, ASCII in this encoding? Not in an unknown one."""
    try:
        # The first probe is for Python's own codecs of escapes, which would warn about the second; the last for
        # encodings that shift into another alphabet, and write it with ASCII's bytes.
        for probe in (rb"\n\u0041", bytes(range(128))):
            if probe.decode(codec) != probe.decode("ascii") or probe.decode("ascii").encode(codec) != probe:
                return False
        return max("日".encode(codec, "ignore"), default=128) > 127
    except (LookupError, ValueError):
        return False


def entries(data: Buffer, codec: str, hint: str) -> Iterator[Entry | str]:
    """The entries of a file, obsolete ones left out, or the fault in its place. hint: what to say of an undecodable
    byte."""
    entry = Entry()
    for number, start, raw in lines(data):
        line, fault = decoded(raw, codec, hint)
        if line.startswith("#"):
            if entry.texts:
                yield from ended(entry, f"a comment in line {number}")
                entry = Entry()
            if line.startswith("#~"):
                entry = Entry()
            else:
                mark, stop = start + raw.index(b"#"), start + len(raw.rstrip())
                entry.comments.append(Comment(line, start, mark, stop, start + len(raw)))
        elif line:
            told = LINE.match(line)
            assert told is not None  # at least with nothing
            if told.end() < len(line) and not fault:
                fault = ": is no line of a PO file. Look for a missing quote, or one without a backslash"
            if told[1] in ("msgctxt", "msgid") and entry.complete:
                yield entry
                entry = Entry()
            entry.damaged |= bool(fault)
            yield from take(entry, told, number, start, raw, codec)
        if fault:
            yield f"line {number}{fault}"
    if entry.texts:
        yield from ended(entry, "the end of the file")


def decoded(raw: bytes, codec: str, hint: str) -> tuple[str, str]:
    """A line without the white space around it, and what is wrong with its bytes, or "" where nothing is."""
    try:
        return raw.decode(codec).strip(SPACE + "\n"), ""
    except UnicodeDecodeError as error:
        fault = f", byte {error.start + 1} of the line: 0x{raw[error.start]:02X} {hint}"
        return raw.decode(codec, "replace").strip(SPACE + "\n"), fault


def ended(entry: Entry, end: str) -> Iterator[Entry | str]:
    """The entry, or the fault that it has no translation."""
    if entry.complete:
        yield entry
    elif not entry.damaged:
        yield f"line {next(iter(entry.texts.values())).line}: an entry without msgstr, cut short by {end}"


def lines(data: Buffer) -> Iterator[tuple[int, int, bytes]]:
    """Number from 1, first byte, and bytes of each line, its line break included; a byte order mark is left out."""
    start, number = len(BOM) if data[:3] == BOM else 0, 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        number += 1
        yield number, start, data[start:end]
        start = end


def take(entry: Entry, told: re.Match[str], number: int, start: int, raw: bytes, codec: str) -> list[str]:
    """Put one line with a keyword, with quoted text or with both into an entry. Gives the faults."""
    faults = begin(entry, told, number, start, raw) if told[1] else []
    if not entry.texts:
        lacking = f"line {number}: a quoted text without a keyword (msgid, msgstr) before it"
        return [] if entry.damaged else [lacking]
    text = next(reversed(entry.texts.values()))
    if told[3]:
        # All before the first quote is ASCII, and only spaces stand behind the last: characters are bytes there.
        text.end = start + len(raw.rstrip())
        if text.start < 0:
            text.column = raw.index(b'"')
            text.start = start + text.column
        for string in STRING.finditer(told[3]):
            try:
                text.pieces.append(unescaped(string[1], codec))
            except ValueError as error:
                faults.append(f"line {number}: {error}")
    return faults


def begin(entry: Entry, told: re.Match[str], number: int, start: int, raw: bytes) -> list[str]:
    """Begin the text of a keyword. Gives the faults; none of an entry that is damaged, which cannot be judged."""
    kind, keyword, faults = told[1], told[1], []
    if told[2] is not None:
        kind, keyword = f"{told[1]}[", f"{told[1]}[{int(told[2])}]"
    if keyword in entry.texts:
        faults.append(f"line {number}: a second {keyword}; the first is in line {entry.texts.pop(keyword).line}")
    elif entry.last not in AFTER.get(kind, ()):
        faults.append(f"line {number}: {keyword} cannot follow {entry.last.rstrip('[') or 'nothing'}")
    if not entry.texts:
        entry.start, entry.eol = start, b"\r\n" if raw.endswith(b"\r\n") else b"\n"
    entry.last, entry.texts[keyword] = kind, Text(number)
    return [] if entry.damaged else faults


def unescaped(text: str, codec: str) -> str:
    """A text without its escapes. Octal and hexadecimal ones are bytes in the file's encoding. Raises ValueError."""

    def meant(escape: re.Match[str]) -> str:
        if escape[2] is not None:
            if escape[2] not in ESCAPES:
                raise ValueError(f"\\{escape[2]} is no escape of PO. Write \\\\ for a backslash")
            return ESCAPES[escape[2]]
        numbers = [int(word[1:], 16) if word[0] == "x" else int(word, 8) for word in escape[1].split("\\")[1:]]
        try:
            return bytes(numbers).decode(codec)
        except ValueError:
            raise ValueError(f"{escape[1]} is no text in {codec}") from None

    return ESCAPE.sub(meant, text)


def repeated(entry: Entry, seen: dict[bytes, int], *, first: bool) -> list[str]:
    """Faults of an entry's key (msgctxt and msgid), which is put into `seen`, and keywords without a text."""
    faults = [f"line {text.line}: {word} without a quoted text" for word, text in entry.texts.items() if text.start < 0]
    if "msgid" not in entry.texts:
        return faults
    line = entry.texts["msgid"].line
    key = blake2b(repr((entry.value("msgctxt"), entry.value("msgid"))).encode(), digest_size=16).digest()
    earlier = seen.setdefault(key, line)
    if earlier != line:
        faults.append(f"line {line}: the same msgid and msgctxt as in line {earlier}. Join the entries: msguniq")
    elif entry.is_header and not first:
        faults.append(f'line {line}: the header (msgid "") must be the first entry')
    return faults


def accelerator_marker(header: Entry) -> str:
    """The character that marks accelerators, as translation tools declare it; "" where none does."""
    told = re.search(r"^X-Accelerator-Marker:[ \t]*([^\w\s]|_)", header.value("msgstr") or "", re.I | re.M)
    return told[1] if told else ""


def declared_rule(header: Entry) -> tuple[tuple[int, int] | None, list[str]]:
    """`plural_rule` of a header, its faults with their line."""
    told = re.search(r"^Plural-Forms:[ \t]*(.*)$", header.value("msgstr") or "", re.I | re.M)
    rule, faults = plural_rule(told[1] if told else "")
    return rule, [f"line {header.texts['msgid'].line}: {fault}" for fault in faults]


def another_language(header: str, target: str | None) -> str:
    """What a header says of the language, where that is not the one asked for; else ""."""
    told = LANGUAGE.search(header)
    if not told or not target or same_language(target, told[1]):
        return ""
    return f"Language is {told[1]}, not {target}"


def plural_rule(told: str) -> tuple[tuple[int, int] | None, list[str]]:
    """How many plural forms there are and which the number 1 takes, by a header's Plural-Forms, and faults; None where
    it does not say."""
    if not told.strip() or "INTEGER" in told or "EXPRESSION" in told:
        return None, []
    fields = re.fullmatch(r"nplurals\s*=\s*([0-9]{1,3})\s*;\s*plural\s*=\s*([^;]+);?\s*", told)
    try:
        if fields is None:
            raise ValueError
        forms, one = int(fields[1]), c2py(fields[2])(1)
        if not 0 <= one < forms:
            raise ValueError
    except (ValueError, ArithmeticError, RecursionError):
        remedy = "Write it like nplurals=2; plural=n != 1; with a value below nplurals for every n"
        return None, [f"the header's Plural-Forms are not valid: {told}. {remedy}"]
    return (forms, one), []


def miscounted(entry: Entry, rule: tuple[int, int] | None) -> list[str]:
    """Faults in the number of plural forms."""
    forms = [int(word[7:-1]) for word in entry.texts if word.startswith("msgstr[")]
    wanted = rule[0] if rule else max(forms, default=0) + 1
    if forms == list(range(wanted)):
        return []
    has = ", ".join(f"msgstr[{form}]" for form in forms) or "no msgstr[n]"
    said = "as the header's Plural-Forms say" if rule else "without a gap"
    return [
        f"line {entry.texts['msgid_plural'].line}: the entry has {has}, and must have "
        f"msgstr[0] to msgstr[{wanted - 1}] in this order, {said}"
    ]


def found(entry: Entry, rule: tuple[int, int] | None, codec: str) -> Iterator[Segment]:
    """The segments of an entry. rule: number of plural forms, and the form that 1 takes."""
    source, plural, context = entry.value("msgid") or "", entry.value("msgid_plural"), entry.value("msgctxt") or ""
    escaped, flags = source.translate(ESCAPED), entry.flags()
    place = f"line {entry.texts['msgid'].line}, msgid "
    place += f'"{escaped if len(escaped) <= SHOWN else escaped[: SHOWN - 3] + "..."}"'
    notes = "\n".join(comment.text[2:].strip() for comment in entry.comments if comment.text.startswith("#."))
    singular = rule[1] if rule and rule[0] > 1 else -1 if rule else 0
    strings = [(word, text) for word, text in entry.texts.items() if word.startswith("msgstr")]
    finished = () if "fuzzy" in flags else tuple(word for word, _ in strings if entry.value(word))
    mark, unmark = marking(entry), unmarking(entry, codec) if len(strings) == 1 else ()
    for form, (word, text) in enumerate(strings):
        shown = source if plural is None or form == singular else plural
        target = entry.value(word)
        others = () if target else finished
        state: State = "unsure" if "fuzzy" in flags else "done"
        if shown.strip():
            yield Segment(
                place=place if plural is None else f"{place}, {word}",
                source=(shown,),
                target=(target,) if target else None,
                state=state if target else "empty",
                context=context if plural is None else f"{context} {word}".strip(),
                notes=notes,
                flags=flags,
                slot=Slot(text.start, text.end, text.column, entry.eol, entry.start, form, others, mark, unmark),
            )


def marking(entry: Entry) -> tuple[Edit, ...]:
    """The edit that makes an entry fuzzy: first in its flags, or in a line of its own before #|, msgctxt or msgid."""
    if "fuzzy" in entry.flags():
        return ()
    for comment in entry.comments:
        if comment.text.startswith("#,"):
            return (Edit(comment.mark + 2, comment.mark + 2, b" fuzzy," if comment.flags else b" fuzzy"),)
    at = min([comment.start for comment in entry.comments if comment.text.startswith("#|")] + [entry.start])
    return (Edit(at, at, b"#, fuzzy" + entry.eol),)


def unmarking(entry: Entry, codec: str) -> tuple[Edit, ...]:
    """The edits that take `fuzzy` and what it was guessed from (#|) out of an entry; none where it is not fuzzy."""
    if "fuzzy" not in entry.flags():
        return ()
    made = []
    for comment in entry.comments:
        rest = [flag for flag in comment.flags if flag != "fuzzy"]
        if comment.text.startswith("#|") or (comment.flags and not rest):
            made.append(Edit(comment.start, comment.end, b""))
        elif rest != comment.flags:
            line = f"{comment.text[:2]} {', '.join(rest)}"
            made.append(Edit(comment.mark, comment.stop, line.encode(codec)))
    return tuple(made)


def quoted(text: str, column: int, *, wrap: bool) -> str:
    """A text as a quoted string, or as one string for each of its lines after an empty one, as gettext writes it."""
    rows = [row.translate(ESCAPED) for row in re.findall(r"[^\n]*\n|[^\n]+", text)]
    if len(rows) < 2 and not (wrap and rows and column + 2 + columns(rows[0]) > WIDTH):
        return f'"{"".join(rows)}"'
    if wrap:
        rows = [part for row in rows for part in filled(row)]
    return "\n".join(f'"{row}"' for row in ["", *rows])


def filled(row: str) -> Iterator[str]:
    """A line in parts that fit into WIDTH with their quotes, cut after spaces and between wide characters."""
    part, width = "", 0
    for piece in PIECE.findall(row):
        wide = columns(piece)
        if part and width + wide > WIDTH - 2:
            yield part
            part, width = "", 0
        part, width = part + piece, width + wide
    yield part


def columns(text: str) -> int:
    """Columns that a text takes on a terminal: 2 for a wide character, none for one that combines."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else not unicodedata.combining(character)
        for character in text
    )
