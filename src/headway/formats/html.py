r"""HTML and XHTML: one segment for each run of text between block-level tags.

No tree is built: a scanner finds the tags as the tokenizer of the HTML standard does
(https://html.spec.whatwg.org/#tokenization), and all else stays where it is. Unclosed and crossing tags are no fault;
of XHTML, `skipped` tells where it is no XML, and of entities, which are neither expanded nor fetched.
Inline tags are codes; so are comments and the expressions of template languages (`{{ x }}`, `{% if %}`, `<?php ?>`),
which are kept letter by letter. Attributes are not translated, nor is what an element in KEPT holds, nor what says
`translate="no"` or is of the class `notranslate` (a `translate="yes"` within does not count). Tags that wrap a whole
segment are left out of it.

The twin is html5lib: the tests compare the text of its tree.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import unescape
from typing import Literal, NamedTuple
from xml.parsers import expat

from headway.formats.segment import Document, Edit, FormatError, Segment, Skipped, as_text, one_line, unsaid
from headway.text.codes import Code, Part, Parts, joined, plain


def names(words: str) -> frozenset[str]:
    return frozenset(words.split())


BLOCKS = names(
    "address article aside blockquote body button caption center col colgroup datalist dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html label legend "
    "li listing main menu nav noscript ol optgroup option p plaintext pre search section select summary table tbody td "
    "tfoot th thead title tr ul xmp"
)
"""Elements whose tags end a segment."""
VOID = names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
WORDS = names("code kbd math samp var")
KEPT = WORDS | names("iframe listing noembed noframes pre script style svg template textarea xmp")
"""Elements that are kept whole. Those in WORDS stand for a word of the sentence."""
RAW = names("iframe noembed noframes script style textarea title xmp")
"""Elements in which nothing but their own end is a tag."""
ROWS = names("tbody tfoot thead tr")
ENDED_BY = {
    "p": BLOCKS,
    "li": frozenset({"li"}),
    "dt": frozenset({"dd", "dt"}),
    "dd": frozenset({"dd", "dt"}),
    "td": ROWS | {"td", "th"},
    "th": ROWS | {"td", "th"},
    "tr": ROWS,
    "option": frozenset({"optgroup", "option"}),
}
"""Elements that need no end tag, and the start tags that end them."""

SPACE = " \t\n\r\f"
SPACES = re.compile(f"[{SPACE}]+")
BLOCK = rf"</?(?i:{'|'.join(sorted(BLOCKS | KEPT))})(?![\w-])"
TAG = rf"{BLOCK}|</[a-zA-Z]"


def expression(opens: str, closes: str, stops: str) -> str:
    """What a template language has between these signs. What stops it may be in it only within quotes: a page that
    writes of such signs would lose all from one of them to the next."""
    quoted = "|".join(rf"(?<!\w){quote}(?:(?!{closes})[^{quote}\n])*+{quote}" for quote in "\"'")
    return rf"{opens}(?>{quoted}|(?!{opens}|{closes}|{stops}).)*+{closes}"


TEMPLATE = "|".join(
    expression(*signs)
    for signs in ((r"\{\{", r"\}\}+", TAG), (r"\{%", r"%\}", TAG), (r"\{\#", r"\#\}", BLOCK), ("<%", "%>", TAG))
)
IN_TAG = r"\{\{[^\n{}]{0,400}\}\}|\{%[^\n%]{0,400}%\}|<\?[^\n?]{0,400}\?>"  # may hold quotes and >
MARK = re.compile(
    rf"""
      (?P<template> {TEMPLATE} | <\?(?:php\b|=).*?(?:\?>|\Z) )
    | (?P<cdata> <!\[CDATA\[.*?(?:\]\]>|\Z) )
    | (?P<other> <!--(?:-?>|.*?--!?>) | <!doctype[^>\[]*\[[^\]]*\]\s*>
        | <(?:!(?!--)|\?)[^>]*(?:>|\Z) | </(?:>|[^a-z>][^>]*(?:>|\Z)) )
    | <(?P<end>/?)(?P<name>[a-z][^{SPACE}/>]*+)
      (?: {IN_TAG}
        | [{SPACE}]++
        | /(?!>)
        | [^{SPACE}/>][^{SPACE}/>=]*+
          (?: [{SPACE}]*+=[{SPACE}]*+
              (?: "(?>{IN_TAG}|[^"])*+" | '(?>{IN_TAG}|[^'])*+' | (?=>) | [^{SPACE}>"'][^{SPACE}>]*+ )
            | (?![{SPACE}]*+=) )
      )*+ (?P<empty>/)?>
    | (?P<cut> (?:<!--|</?[a-z]).* )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
UNIT = re.compile(rf"{TEMPLATE}|&[a-z][a-z0-9]*;", re.DOTALL | re.IGNORECASE)
NOT_TRANSLATED = re.compile(
    r"""\s(?:translate\s*=\s*(["']?)no\1(?=[\s/>])
           | class\s*=\s*(?: notranslate(?=[\s/>]) | (["'])(?:[^"'>]*\s)?notranslate(?:\s[^"'>]*)?\2 ))""",
    re.VERBOSE | re.IGNORECASE,
)
NAME = re.compile(r"</?([a-z][^\s/>]*)", re.IGNORECASE)
ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "{": "&#123;"}
AS_THE_FILE_DOES = {"\xa0": "&nbsp;", "\xad": "&shy;"}
IMPOSSIBLE = re.compile("[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]")
DECLARED = re.compile(
    rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)
       | <meta\b(?: (?=[^>]*http-equiv)[^>]*? | (?:"[^">]*"|'[^'>]*'|[^>"'])*?\s )charset\s*=\s*["']?\s*([\w.:-]+)""",
    re.VERBOSE | re.IGNORECASE,
)
COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
LINE_FEED = b"\n"
SHOWN = 40
CODECS = {
    "big5hkscs": "big5 cn-big5 csbig5 x-x-big5",
    "cp1250": "x-cp1250",
    "cp1251": "x-cp1251",
    "cp1252": "ansi_x3.4-1968 ascii cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 "
    "iso_8859-1:1987 l1 latin1 us-ascii x-cp1252 x-user-defined",
    "cp1253": "x-cp1253",
    "cp1254": "csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 x-cp1254",
    "cp1255": "x-cp1255",
    "cp1256": "x-cp1256",
    "cp1257": "x-cp1257",
    "cp1258": "x-cp1258",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp932": "csshiftjis shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
    "euc_jp": "cseucpkdfmtjapanese x-euc-jp",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "iso8859-2": "iso88592",
    "iso8859-3": "iso88593",
    "iso8859-4": "iso88594",
    "iso8859-5": "iso88595",
    "iso8859-6": "csiso88596e csiso88596i iso-8859-6-e iso-8859-6-i iso88596",
    "iso8859-7": "iso88597 sun_eu_greek",
    "iso8859-8": "csiso88598e csiso88598i iso-8859-8-e iso-8859-8-i iso88598 logical visual",
    "iso8859-10": "iso885910",
    "iso8859-13": "iso885913",
    "iso8859-14": "iso885914",
    "iso8859-15": "csisolatin9 iso885915",
    "koi8-r": "koi koi8",
    "koi8-u": "koi8-ru",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "mac-roman": "csmacintosh mac x-mac-roman",
    "utf-8": "csunicode iso-10646-ucs-2 ucs-2 unicode unicode-1-1-utf-8 unicode11utf8 unicode20utf8 unicodefeff "
    "unicodefffe utf-16 utf-16be utf-16le x-unicode20utf8",
}
"""What browsers take labels for (https://encoding.spec.whatwg.org/#names-and-labels), where Python takes them otherwise
or does not know them; an encoding of 16 bits cannot be declared in a text that is read by bytes."""
LABELS = {label: codec for codec, labels in CODECS.items() for label in labels.split()}
BYTE_ORDER = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Mark(NamedTuple):
    """kind: "open", "close" or "alone" (tags), "text", "cdata" (text without references), "template", "raw", "other",
    or "cut" (the rest of a file that ends amid a tag or comment)."""

    kind: str
    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Piece:
    """A part and the characters it came from; word: a text, or a code that stands for some."""

    start: int
    end: int
    part: Part
    word: bool = True


class HTML(Document):
    """A page. Characters that its encoding lacks are written as references; U+00A0 and U+00AD as the file has them."""

    kind = "html"
    suffixes = (".html", ".htm", ".xhtml")
    bilingual = False

    @cached_property
    def page(self) -> tuple[str, str, int]:
        """The text, its encoding, and how many bytes stand before it."""
        return decoded(bytes(self.data), self.name)

    @cached_property
    def escapes(self) -> tuple[dict[str, str], re.Pattern[str]]:
        """How characters are written that would be markup, or that the file writes so; and where they are."""
        table = ESCAPED | {char: name for char, name in AS_THE_FILE_DOES.items() if name in self.page[0]}
        return table, re.compile("|".join(table).replace("{", r"\{(?=[{%#]|\Z)"))

    def segments(self) -> Iterator[Segment]:
        text, encoding, before = self.page
        xml = self.name.lower().removesuffix(".gz").endswith(".xhtml") or text.startswith("<?xml")
        places = Places(text, encoding, before)
        self.skipped = Skipped()
        for run in runs(text, xml, unclosed := []):
            if inner := trimmed(run)[1]:
                (line, start), (_, end) = places.at(inner[0].start), places.at(inner[-1].end)
                yield Segment(f"line {line}", parts_of(inner), slot=(start, end))
        for told, line in doubts(text) if xml else ():
            self.skipped.add(told, f"line {line}")
        for mark in unclosed:
            line, begin = text.count("\n", 0, mark.start) + 1, one_line(text[mark.start : mark.end], SHOWN)
            self.skipped.add(f"{begin} is never closed, and nothing behind it is translated", f"line {line}")

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        target = as_text(target)
        if target == segment.source:
            return []
        if not plain(target).strip():
            return unsaid(self, segment)
        if found := IMPOSSIBLE.search(plain(part for part in target if isinstance(part, str))):
            told = f"{segment.place}: U+{ord(found[0]):04X} cannot stand in HTML. Take it out of the translation"
            raise FormatError(self.name, [told])
        table, escape = self.escapes
        written = "".join(
            part.raw if isinstance(part, Code) else escape.sub(lambda found: table[found[0]], SPACES.sub(" ", part))
            for part in target
        )
        start, end = segment.slot
        return [Edit(start, end, written.strip(SPACE).encode(self.page[1], "xmlcharrefreplace"))]


def marks(text: str, xml: bool) -> Iterator[Mark]:
    """All of the text, cut into tags and what stands between them; xml: every tag may close itself."""
    at = 0
    while at < len(text):
        found = MARK.search(text, at)
        start, end = found.span() if found else (len(text), len(text))
        if start > at:
            yield Mark("text", "", at, start)
        at = end
        if not found:
            return
        name = (found["name"] or "").lower()
        if not name:
            kind = next(kind for kind in ("template", "cdata", "other", "cut") if found[kind])
            if kind == "cdata" and not xml:  # in HTML it is a comment like any other
                kind, end = "other", text.find(">", start) + 1 or len(text)
                at = end
            yield Mark(kind, "", start, end)
        elif found["end"]:
            yield Mark("close", name, start, end)
        elif name in VOID or (found["empty"] and (xml or name in ("svg", "math"))):
            yield Mark("alone", name, start, end)
        else:
            yield Mark("open", name, start, end)
            if name in RAW:
                closing = re.compile(rf"</{name}(?=[{SPACE}/>])", re.IGNORECASE).search(text, at)
                at = closing.start() if closing else len(text)
                if at > end:
                    yield Mark("text" if name == "title" else "raw", "", end, at)


def runs(text: str, xml: bool, unclosed: list[Mark]) -> Iterator[list[Piece]]:
    """The pieces between block-level tags, run by run; `unclosed` takes what is kept and has no end."""
    found = list(marks(text, xml))
    run: list[Piece] = []
    at = 0
    while at < len(found):
        mark = found[at]
        at += 1
        raw = text[mark.start : mark.end]
        kept = mark.kind == "open" and is_kept(raw)
        if kept:
            at, closed = past(found, at, mark.name)
            if not closed:
                unclosed.append(mark)
        elif mark.kind == "cut":
            unclosed.append(mark)
        if mark.name in BLOCKS:
            yield run
            run = []
        elif kept:
            end, word = found[at - 1].end, mark.name in WORDS or mark.name not in KEPT
            run.append(Piece(mark.start, end, Code(text[mark.start : end], markup=True), word))
        elif mark.kind == "text":
            run += text_pieces(text, mark)
        elif mark.kind == "cdata":
            inside = raw.removeprefix("<![CDATA[").removesuffix("]]>")
            run.append(Piece(mark.start, mark.end, SPACES.sub(" ", inside)))
        else:
            side = mark.kind if mark.kind in ("open", "close") else "alone"
            run.append(Piece(mark.start, mark.end, Code(raw, side, markup=True), mark.kind == "template"))
    yield run


def doubts(text: str) -> Iterator[tuple[str, int]]:
    """What an XML parser says against a text, and in which lines."""
    parser, declared = expat.ParserCreate("UTF-8"), []
    parser.DefaultHandler = lambda _: None  # with it, no entity is expanded
    parser.EntityDeclHandler = lambda *_: declared.append(parser.CurrentLineNumber)
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        told = expat.ErrorString(error.code)
        yield f"is no well-formed XML ({told}): its tags are kept as they are", error.lineno
    yield from (("an entity is declared, and its text is not translated", line) for line in declared)


def is_kept(raw: str) -> bool:
    """Is what this tag opens kept whole?"""
    tag = NAME.match(raw)
    return tag is not None and (tag[1].lower() in KEPT or NOT_TRANSLATED.search(raw) is not None)


def side_of(raw: str) -> Literal["open", "close", "alone"]:
    """What a tag, comment or other markup does."""
    tag = NAME.match(raw)
    if not tag or tag[1].lower() in VOID or raw.endswith("/>"):
        return "alone"
    return "close" if raw.startswith("</") else "open"


def past(found: Sequence[Mark], at: int, name: str) -> tuple[int, bool]:
    """Where the marks go on behind the element `name`, open before `at`; and whether it ends at all."""
    opened = [name]
    for here in range(at, len(found)):
        mark = found[here]
        if mark.kind == "open":
            if mark.name in ENDED_BY.get(name, ()) and not BLOCKS.intersection(opened[1:]):
                return here, True
            opened.append(mark.name)
        elif mark.kind == "close" and mark.name in opened:
            while opened.pop() != mark.name:
                pass
            if not opened:
                return here + 1, True
        elif mark.kind == "close" and mark.name in BLOCKS:  # the end of an element around this one
            return here, True
    return len(found), name in ENDED_BY


def text_pieces(text: str, mark: Mark) -> Iterator[Piece]:
    """Text as a browser shows it; template expressions and references that nobody knows are codes."""
    at = mark.start
    for unit in (*UNIT.finditer(text, mark.start, mark.end), None):
        start, end = unit.span() if unit else (mark.end, mark.end)
        if unit and unescape(unit[0]) != unit[0]:
            continue
        yield from spread(at, text[at:start], shown)
        if unit:
            yield Piece(start, end, Code(unit[0], markup=True))
        at = end


def shown(raw: str) -> str:
    """Text of a page as a browser shows it."""
    return SPACES.sub(" ", unescape(raw))


def spread(start: int, raw: str, read: Callable[[str], str] = str) -> Iterator[Piece]:
    """A text as pieces: the white space before it, the text as it reads, the white space behind it."""
    core = raw.strip(SPACE)
    first = raw.index(core) if core else len(raw)
    for begin, end, word in ((0, first, False), (first, first + len(core), True), (first + len(core), len(raw), False)):
        if begin < end:
            yield Piece(start + begin, start + end, read(raw[begin:end]), word)


def paired(run: Sequence[Piece]) -> tuple[list[Piece], dict[int, int]]:
    """The pieces with each closing code bearing the key of the one that it closes, and which two are partners."""
    done, partner = list(run), {}
    opened: dict[str, list[tuple[int, str]]] = {}
    for index, piece in enumerate(run):
        code = piece.part
        if isinstance(code, str) or code.side == "alone":
            continue
        tag = NAME.match(code.raw)
        waiting = opened.setdefault(tag[1].lower() if tag else code.key, [])
        if code.side == "open":
            waiting.append((index, code.key))
        elif waiting:
            first, key = waiting.pop()
            partner[first], partner[index] = index, first
            done[index] = replace(piece, part=replace(code, key=key))
    return done, partner


def trimmed(run: Sequence[Piece]) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """What stands before the segment, the segment, and what stands behind it; all is before where there is no text.

    The segment is the words and what is between them, with the partners of the codes in it.
    """
    run, partner = paired(run)
    words = [index for index, piece in enumerate(run) if piece.word and plain([piece.part]).strip()]
    if not any(isinstance(run[index].part, str) for index in words):
        return run, [], []
    first, last, seen = words[0], words[-1], range(0)
    while seen != range(first, last + 1):
        seen = range(first, last + 1)
        mates = [partner[index] for index in seen if index in partner]
        first, last = min([first, *mates]), max([last, *mates])
    return run[:first], run[first : last + 1], run[last + 1 :]


def parts_of(run: Sequence[Piece]) -> Parts:
    """The parts of pieces; of white space on both sides of a tag, a browser shows one."""
    parts: list[Part] = []
    spaced = False
    for piece in run:
        part = piece.part
        if isinstance(part, str):
            part = part.lstrip(SPACE) if spaced else part
            spaced = part.endswith(" ") if part else spaced
        elif piece.word:
            spaced = False
        parts.append(part)
    return joined(parts)


class Places:
    """Lines (from 1) and bytes of characters, asked for in their order, so that a file is walked through once."""

    def __init__(self, text: str, encoding: str, before: int) -> None:
        self.text, self.encoding = text, encoding
        self.char, self.line, self.byte = 0, 1, before

    def at(self, char: int) -> tuple[int, int]:
        assert char >= self.char
        passed = self.text[self.char : char]
        self.char, self.line, self.byte = (
            char,
            self.line + passed.count("\n"),
            self.byte + len(passed.encode(self.encoding)),
        )
        return self.line, self.byte


def decoded(data: bytes, name: str, *, declares: bool = True) -> tuple[str, str, int]:
    """The text, its encoding, and the length of the byte order mark before it. Raises FormatError.

    declares: may the head of such a file say the encoding?
    """
    encoding, before, declared = encoding_of(data, data[:4096] if declares else b"")
    try:
        text = data[before:].decode(encoding)
        served = stands(text, encoding, data[before:])
        # Edits are written one by one: an encoding in which bytes change what later ones mean will not do.
        served &= len("ああ".encode(encoding, "ignore")) == 2 * len("あ".encode(encoding, "ignore"))
    except UnicodeDecodeError as error:
        at = before + error.start
        told = f"line {data.count(LINE_FEED, 0, at) + 1}: byte 0x{data[at]:02X} is not {encoding}"
        if declares:
            told += f", which the file {'declares' if declared else 'is taken for, as it declares none'}"
        remedy = "Declare the encoding that it has, or convert it to UTF-8" if declares else "Convert it to UTF-8"
        raise FormatError(name, [f"{told}. {remedy}"]) from None
    except (LookupError, UnicodeError):
        served, text = False, ""
    if not served:
        raise FormatError(name, [f"the encoding {encoding} that it declares is not served. Convert it to UTF-8"])
    return text, encoding, before


def stands(text: str, encoding: str, data: bytes) -> bool:
    """Is each character where it would be if all of the text were written? Old encodings spell some in two ways, of
    which one is written; as long as they are equally long, what is not edited may have the other."""
    if text.encode(encoding) == data:
        return True
    at = 0
    for char in text:
        end = at + len(char.encode(encoding))
        if data[at:end].decode(encoding, "replace") != char:
            return False
        at = end
    return at == len(data)


def encoding_of(data: bytes, head: bytes) -> tuple[str, int, bool]:
    """The encoding, the length of the byte order mark, and whether the file says so: by the mark, or in its head."""
    for mark, encoding in BYTE_ORDER.items():
        if data.startswith(mark):
            return encoding, len(mark), True
    found = DECLARED.search(COMMENT.sub(b"", head))
    if not found:
        return "utf-8", 0, False
    label = (found[1] or found[2]).decode().lower()
    return LABELS.get(label, label), 0, True
