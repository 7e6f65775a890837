"""XML with the bytes that everything stands on, for formats that change a file in place.

Expat says at which byte each event begins; where a thing ends, the next event says, so every event has a handler. Only
the elements that are asked for are built, one at a time: memory does not grow with the file. Nothing outside the file
is fetched and no entity may be declared. The twin in the tests is lxml, which knows no bytes.
"""

import codecs
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Never
from xml.parsers import expat
from xml.sax.saxutils import escape

from headway.formats.segment import Buffer, Edit, FormatError
from headway.text.codes import Code, Part, Parts, Side, joined

CHUNK = 1 << 18
DEEPEST = 256
"""Elements within elements; a file of nothing but start tags would fill the memory."""
MOST_FAULTS = 20
"""Faults after which reading stops; what follows is rarely news."""
REFERRED = "\0"
"""Of the pieces of a text, a line break that is spelt as a reference; no XML holds U+0000."""
LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*+\n[ \t\n]*+")


MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
DECLARED = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*[\"']([A-Za-z][\w.-]*)[\"']")
ATTRIBUTE = re.compile(r"""\s+([^\s=/>]+)\s*=\s*("[^"]*"|'[^']*')""")
UNDECLARED = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);|#)[^;\s]*;?")
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as a character reference."""

XML_NAMES = "http://www.w3.org/XML/1998/namespace "
REMEDIES = {
    expat.errors.XML_ERROR_NO_ELEMENTS: "The file is empty or cut: write it again",
    expat.errors.XML_ERROR_UNCLOSED_TOKEN: "The file is cut, or a < is missing its >",
    expat.errors.XML_ERROR_TAG_MISMATCH: "Tags must nest: close the last one that was opened first",
    expat.errors.XML_ERROR_UNDEFINED_ENTITY: "Write the character itself, or a reference like &#233;",
    expat.errors.XML_ERROR_INVALID_TOKEN: "Write & as &amp; and < as &lt;, and look for bytes of another encoding",
    expat.errors.XML_ERROR_INCORRECT_ENCODING: "Declare the encoding that the file has",
}
ENTITY = "Take the declaration out, and write the text in place of its references"


class Span(NamedTuple):
    """The bytes of an element: its start tag is `start` to `inner`, its content ends at `last`, its end tag at `end`.

    All but `start` are equal in an element without content, `<x/>`.
    """

    start: int
    inner: int
    last: int
    end: int


@dataclass(eq=False, slots=True)
class Text:
    """Characters as a reader sees them: references resolved, CDATA opened, lines ended by a line feed."""

    start: int
    end: int = -1
    pieces: list[str] = field(default_factory=list)

    def read(self, preserve: bool) -> str:
        """The characters; unless white space is to be preserved, a line break with that around it is a space."""
        text = "".join(self.pieces)
        return (text if preserve else LINE_BREAK.sub(" ", text)).replace(REFERRED, "\n")


@dataclass(eq=False, slots=True)
class Aside:
    """A comment, a processing instruction, or what else is kept as it is."""

    start: int
    end: int = -1


@dataclass(eq=False, slots=True)
class Element:
    """One element. name: without its prefix where it is of the root's namespace, else `uri name`; attributes likewise
    (`xml:lang` keeps its prefix). children are kept only within an element that was asked for, the parent only of it
    and of those around it: there are no circles, and what nobody needs is gone at once."""

    name: str
    attributes: dict[str, str]
    namespace: str
    parent: "Element | None"
    line: int
    start: int
    inner: int = -1
    last: int = -1
    end: int = -1
    children: "list[Element | Text | Aside]" = field(default_factory=list)

    @property
    def span(self) -> Span:
        return Span(self.start, self.inner, self.last, self.end)

    def all(self, name: str) -> "list[Element]":
        """The children of this name."""
        return [child for child in self.children if isinstance(child, Element) and child.name == name]

    def first(self, name: str) -> "Element | None":
        return next(iter(self.all(name)), None)

    def within(self, name: str) -> "Iterator[Element]":
        """The elements of this name at any depth."""
        for child in self.children:
            if isinstance(child, Element):
                if child.name == name:
                    yield child
                yield from child.within(name)

    def text(self) -> str:
        """All characters in it, tags left out."""
        found = []
        for child in self.children:
            if isinstance(child, Text):
                found.append(child.read(preserve=True))
            elif isinstance(child, Element):
                found.append(child.text())
        return "".join(found)

    def above(self, name: str) -> "Element | None":
        """The nearest element of this name around it."""
        if self.parent is None or self.parent.name == name:
            return self.parent
        return self.parent.above(name)

    def inherited(self, attribute: str) -> str | None:
        """The attribute, or that of the nearest element around it that has one."""
        if attribute in self.attributes:
            return self.attributes[attribute]
        return self.parent.inherited(attribute) if self.parent else None

    def preserves(self, outer: bool) -> bool:
        """Is white space in it to be preserved, where it is so around it?"""
        return self.attributes.get("xml:space", "preserve" if outer else "") == "preserve"


class Inline(NamedTuple):
    """What an inline element is: `around` text to translate, one end of a pair, alone; `pos`: as its attribute says.

    family: what pairs share; ids: the attributes that tell one from another, the first that is there.
    """

    side: Literal["open", "close", "alone", "around", "pos"] = "around"
    family: str = ""
    ids: tuple[str, ...] = ("id",)


POSITIONS: dict[str, Literal["open", "close"]] = {"begin": "open", "open": "open", "end": "close", "close": "close"}


class XML:
    """The elements of a file, the parts of a text in it, and the edits that change it."""

    def __init__(self, data: Buffer, name: str) -> None:
        self.data, self.name = data, name

    @cached_property
    def encoding(self) -> str:
        """Python's name of the encoding that the bytes are in, without a byte order mark."""
        head = self.data[:1024]
        marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
        declared = DECLARED.match(head)
        if declared is None:
            return marked or "utf-8"
        told = declared[1].decode("ascii")
        try:
            found = codecs.lookup(told).name
        except LookupError:
            what = f"declares the encoding {told!r}, which is not known"
            raise self.refusal(1, 1, what, "Convert the file to UTF-8") from None
        if marked and found != marked:
            what = f"begins with the mark of UTF-8 and declares {told}"
            raise self.refusal(1, 1, what, "Declare UTF-8, or take the mark out")
        return found

    def refusal(self, line: int, column: int, what: str, remedy: str) -> FormatError:
        return FormatError(self.name, [f"line {line}, column {column}: {what}. {remedy}"])

    def elements(self, wanted: Collection[str], *, bare: bool = False) -> Iterator[Element]:
        """The root, without its children, then each element of a wanted name, whole, in the order of the file.

        bare: without their children too, as soon as their start tags are read. Raises FormatError where the file is no
        XML, or declares an entity.
        """
        encoding = self.encoding
        parser = expat.ParserCreate("UTF-8" if encoding == "utf-8" else None, " ")
        builder = Builder(self, parser, wanted, bare)
        # Expat lets half a surrogate pair pass; Python's decoder does not.
        check = codecs.getincrementaldecoder(encoding if encoding.startswith("utf-16-") else "latin-1")()
        for start in range(0, len(self.data) + 1, CHUNK):
            chunk, fault = self.data[start : start + CHUNK], None
            try:
                check.decode(chunk)
                parser.Parse(chunk, start + CHUNK > len(self.data))
            except (expat.ExpatError, LookupError, ValueError) as error:
                fault = self.fault(error)
            yield from builder.taken()  # what is whole before the fault too
            if fault:
                raise fault

    def fault(self, error: Exception) -> FormatError:
        """What stopped the reading, with its place and the remedy."""
        if isinstance(error, FormatError):
            return error
        if isinstance(error, expat.ExpatError):
            told = expat.ErrorString(error.code)
            remedy = REMEDIES.get(told, "Mend it; xmllint shows the place")
            return self.refusal(error.lineno, error.offset + 1, f"is no well-formed XML: {told}", remedy)
        what = f"is in the encoding {self.encoding}, which cannot be read in place ({error})"
        return self.refusal(1, 1, what, f"Convert it, its declaration too: iconv -f {self.encoding} -t UTF-8")

    def raw(self, start: int, end: int) -> str:
        """The file's own spelling of these bytes."""
        return self.data[start:end].decode(self.encoding)

    def spaced(self, parent: Element, child: Element) -> str:
        """The white space before a child, as it is spelt, where nothing else stands before it: its indentation."""
        at = parent.children.index(child)
        before = parent.children[at - 1] if at else None
        raw = self.raw(before.start, before.end) if isinstance(before, Text) else ""
        return raw if raw.isspace() else ""

    def parts(self, element: Element, inline: Mapping[str, Inline], *, preserve: bool = True) -> Parts:
        """The content of an element as text and codes. An element that `inline` does not know is `around` its text.
        preserve: what is said of white space around the element, which may say otherwise (`xml:space`)."""
        found: list[Part] = []
        preserve = element.preserves(preserve)
        for child in element.children:
            if isinstance(child, Text):
                found.append(child.read(preserve))
            elif isinstance(child, Aside):
                found.append(Code(self.raw(child.start, child.end), markup=True))
            else:
                found += self._coded(child, inline, preserve)
        return joined(found)

    def _coded(self, element: Element, inline: Mapping[str, Inline], preserve: bool) -> list[Part]:
        kind, given = inline.get(element.name, Inline()), element.attributes
        value = next((given[name] for name in kind.ids if name in given), None)
        family = "seg" if given.get("mtype") == "seg" else kind.family or element.name
        key = f"{family}:{value}" if value else ""
        if is_whole(element, kind):
            side: Side = "alone"
            if kind.side != "around":
                side = POSITIONS.get(given.get("pos", ""), "alone") if kind.side == "pos" else kind.side
            return [Code(self.raw(element.start, element.end), side, True, key)]
        opened = Code(self.raw(element.start, element.inner), "open", True, key)
        closed = Code(self.raw(element.last, element.end), "close", True, opened.key)
        return [opened, *self.parts(element, inline, preserve=preserve), closed]

    def spelt(self, parts: Parts, place: str, like: Span, *, preserve: bool = True) -> str:
        """The parts as XML text, their line ends as those between the tags `like`; as references, where white space
        is not preserved.

        Raises FormatError for characters that XML cannot hold, and for codes that are not well nested.
        """
        line_end = "&#10;" if not preserve else "\r\n" if "\r\n" in self.raw(like.inner, like.last) else "\n"
        found = []
        for part in parts:
            if isinstance(part, Code) and part.markup:
                found.append(part.raw)
            else:
                text = part.raw if isinstance(part, Code) else part
                found.append(escape(text, {"\r": "&#13;"}).replace("\n", line_end))
        text = "".join(found)
        if bad := FORBIDDEN.search(text):
            what = f"the translation holds U+{ord(bad[0]):04X}, which XML cannot hold"
            raise FormatError(self.name, [f"{place}: {what}. Take it out"])
        try:
            expat.ParserCreate("UTF-8").Parse(f"<x>{text}</x>".encode(), True)
        except expat.ExpatError as error:
            what = f"the tags of the translation do not nest or lack their ends ({expat.ErrorString(error.code)})"
            raise FormatError(self.name, [f"{place}: {what}. Keep each tag of the source, in order"]) from None
        return text

    def spell(self, text: str) -> bytes:
        """Text as bytes of this file; a character that its encoding lacks becomes a reference."""
        return text.encode(self.encoding, "xmlcharrefreplace")

    def tag(self, span: Span) -> tuple[str, dict[str, re.Match[str]]]:
        """The name in a start tag as it is spelt, prefix included, and its attributes by theirs."""
        raw = self.raw(span.start, span.inner)
        name = re.split(r"[\s/>]", raw[1:], maxsplit=1)[0]
        return name, {found[1]: found for found in ATTRIBUTE.finditer(raw, 1 + len(name))}

    def attributes(self, span: Span) -> dict[str, str]:
        """The attributes of a start tag by their spelt names, for values without references."""
        return {name: found[2][1:-1] for name, found in self.tag(span)[1].items()}

    def change_attributes(self, span: Span, values: Mapping[str, str | None]) -> list[Edit]:
        """Give attributes these values, in place or after the last one; None takes one out."""
        name, there = self.tag(span)
        raw = self.raw(span.start, span.inner)
        at = max((found.end() for found in there.values()), default=1 + len(name))
        edits, added = [], ""
        for key, value in values.items():
            new = "" if value is None else f' {key}="{escape(value, {chr(34): "&quot;"})}"'
            if (found := there.get(key)) is None:
                added += new
            elif value is None:
                edits.append((found.start(), found.end(), ""))
            elif found[2][1:-1] != value:
                edits.append((*found.span(2), new.partition("=")[2]))
        if added:
            edits.append((at, at, added))
        return [self._edit(span.start, raw, *edit) for edit in sorted(edits)]

    def change_content(self, span: Span, text: str) -> Edit:
        """Put XML text in place of the content of an element."""
        if span.inner < span.end:
            return Edit(span.inner, span.last, self.spell(text))
        raw = self.raw(span.start, span.inner)
        slash = len(raw.removesuffix("/>").rstrip())
        return self._edit(span.start, raw, slash, len(raw), f">{text}</{self.tag(span)[0]}>")

    def _edit(self, start: int, raw: str, first: int, last: int, text: str) -> Edit:
        """Characters `first` to `last` of `raw`, which stands at byte `start`, become `text`."""
        return Edit(start + len(self.spell(raw[:first])), start + len(self.spell(raw[:last])), self.spell(text))


def is_whole(element: Element, kind: Inline) -> bool:
    """Is an inline element one code, with all that is in it?"""
    protected = element.attributes.get("translate") == "no" or element.attributes.get("mtype") == "protected"
    return kind.side != "around" or protected or element.inner == element.end


def within_codes(element: Element, name: str, inline: Mapping[str, Inline]) -> Iterator[Element]:
    """The elements of this name in a text that are part of a code, so that theirs is no text to translate."""
    for child in element.children:
        if isinstance(child, Element):
            whole = is_whole(child, inline.get(child.name, Inline()))
            yield from child.within(name) if whole else within_codes(child, name, inline)


def has_text(parts: Parts) -> bool:
    """Is there a character to translate outside the codes?"""
    return any(isinstance(part, str) and part.strip() for part in parts)


class Builder:
    """Elements from expat's events. The end of each thing is the start of the next event, so it is set by that one."""

    def __init__(self, xml: XML, parser: expat.XMLParserType, wanted: Collection[str], bare: bool) -> None:
        self.xml, self.parser, self.wanted, self.bare = xml, parser, wanted, bare
        self.stack: list[Element] = []
        self.depth = 0  # how many of the stack stand within a wanted element, itself included
        self.ready: list[Element] = []
        self.doctype = False
        self.pending: Element | Text | Aside | None = None  # what the next event ends
        self.complete: Element | None = None
        handlers: dict[str, Callable[..., Any]] = {
            "StartElementHandler": self.on_start,
            "EndElementHandler": self.on_end,
            "CharacterDataHandler": self.on_text,
            "CommentHandler": self.on_aside,
            "ProcessingInstructionHandler": self.on_aside,
            "StartDoctypeDeclHandler": self.on_doctype,
            "EntityDeclHandler": self.on_entity,
            "SkippedEntityHandler": self.on_skipped,
            "XmlDeclHandler": self.on_declaration,
            "DefaultHandler": self.on_rest,
        }
        for name, handler in handlers.items():
            setattr(parser, name, handler)

    def taken(self) -> list[Element]:
        taken, self.ready = self.ready, []
        return taken

    def fail(self, what: str, remedy: str) -> Never:
        raise self.xml.refusal(self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1, what, remedy)

    def on_rest(self, *_: object) -> None:
        """Any event: what came before it ends here."""
        if (thing := self.pending) is None:
            return
        self.pending = None
        at = self.parser.CurrentByteIndex
        if isinstance(thing, Element) and thing.inner < 0:
            self.opened(thing, at)
            return
        thing.end = at
        if isinstance(thing, Element) and thing is self.complete:
            self.ready.append(thing)

    def on_start(self, name: str, attributes: dict[str, str]) -> None:
        self.on_rest()
        if len(self.stack) == DEEPEST:
            self.fail(f"nests elements deeper than {DEEPEST}", "Such a file is damaged or made to harm")
        uri, _, local = name.rpartition(" ")
        parent = self.stack[-1] if self.stack else None
        element = Element(
            name=local if uri == (self.stack[0].namespace if self.stack else uri) else name,
            attributes={key.replace(XML_NAMES, "xml:"): value for key, value in attributes.items()},
            namespace=uri,
            parent=None if self.depth else parent,
            line=self.parser.CurrentLineNumber,
            start=self.parser.CurrentByteIndex,
        )
        if parent is not None and self.depth:
            parent.children.append(element)
        if self.depth or (parent is not None and element.name in self.wanted and not self.bare):
            self.depth += 1
        self.stack.append(element)
        self.pending = element

    def opened(self, element: Element, at: int) -> None:
        element.inner = at
        if self.doctype and (found := UNDECLARED.search(self.xml.raw(element.start, at))):
            what = f"the tag <{element.name}> that ends here uses the entity {found[0]}, which is not declared"
            self.fail(what, REMEDIES[expat.errors.XML_ERROR_UNDEFINED_ENTITY])
        if element is self.stack[0] or (self.bare and element.name in self.wanted):
            self.ready.append(element)

    def on_end(self, name: str) -> None:
        self.on_rest()
        element = self.pending = self.stack.pop()
        element.last = self.parser.CurrentByteIndex
        if self.depth == 1:
            self.complete = element
        self.depth = max(0, self.depth - 1)

    def on_text(self, text: str) -> None:
        self.on_rest()
        if not self.depth:
            return
        children, at = self.stack[-1].children, self.parser.CurrentByteIndex
        last = children[-1] if children else None
        if not isinstance(last, Text):
            last = Text(at)
            children.append(last)
        if text == "\n" and self.xml.data[at : at + len(sign := self.xml.spell("&"))] == sign:
            text = REFERRED
        last.pieces.append(text)
        self.pending = last

    def on_aside(self, *_: str) -> None:
        self.on_rest()
        if self.depth:
            self.pending = Aside(self.parser.CurrentByteIndex)
            self.stack[-1].children.append(self.pending)

    def on_doctype(self, *_: object) -> None:
        self.on_rest()
        self.doctype = True

    def on_entity(self, name: str, *_: object) -> None:
        self.fail(f"declares the entity {name!r}; entities can hide or multiply text", ENTITY)

    def on_skipped(self, name: str, *_: object) -> None:
        self.fail(
            f"uses the entity &{name};, which is not declared here", REMEDIES[expat.errors.XML_ERROR_UNDEFINED_ENTITY]
        )

    def on_declaration(self, version: str, *_: object) -> None:
        self.on_rest()
        if version != "1.0":
            self.fail(f"is XML {version}", "Only 1.0 is read: write the file as that")
