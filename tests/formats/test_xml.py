"""The reader of XML: its elements against lxml's, its bytes against the file, and what it must refuse."""

from __future__ import annotations

import mmap
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from headway.formats import xml
from headway.formats.segment import FormatError, splice
from headway.formats.tmx import TMX
from headway.formats.xml import XML, Aside, Element, Span
from headway.text.codes import Code

FILES = sorted(path for kind in ("tmx", "xliff") for path in (Path(__file__).parent / "files" / kind).iterdir())
UNITS = {"tu", "header", "trans-unit", "unit"}

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")


def root_of(data: bytes) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=True)
    return etree.fromstring(data, parser)


def whole(element: Element) -> list[Element]:
    return [element, *(found for child in element.children if isinstance(child, Element) for found in whole(child))]


def elements(data: bytes, wanted: set[str], name: str = "a.xml") -> tuple[XML, list[Element]]:
    made = XML(data, name)
    return made, list(made.elements(wanted))


def refused(data: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        elements(data, {"b"})
    assert str(caught.value).startswith("a.xml: line ")
    return str(caught.value)


@each_file
def test_elements_are_those_of_lxml(path: Path) -> None:
    data = path.read_bytes()
    root = root_of(data)
    space = f"{{{root.nsmap[root.prefix]}}}" if root.prefix in root.nsmap else ""
    theirs = [found for unit in root.iter(*(space + name for name in UNITS)) for found in unit.iter(etree.Element)]
    _, (first, *units) = elements(data, UNITS)
    ours = [found for unit in units for found in whole(unit)]

    def our_name(tag: object) -> str:
        name = etree.QName(str(tag))
        return name.localname if name.namespace == root.nsmap.get(root.prefix) else f"{name.namespace} {name.localname}"

    assert first.name == our_name(root.tag)
    assert [found.name for found in ours] == [our_name(found.tag) for found in theirs]
    assert [found.text() for found in ours] == ["".join(part for part in texts(found)) for found in theirs]
    assert [sorted(found.attributes.values()) for found in ours] == [sorted(found.attrib.values()) for found in theirs]
    # lxml gives the line where a start tag ends, and none above 65,535.
    assert all(one.line <= (other.sourceline or 0) for one, other in zip(ours, theirs, strict=True))


def texts(element: etree._Element) -> Iterator[str]:
    """All character data in an element; itertext would give comments too."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str):
            yield from texts(child)
        yield child.tail or ""


@each_file
def test_the_bytes_of_an_element_are_an_element_alone(path: Path) -> None:
    made, (_, *units) = elements(path.read_bytes(), UNITS)
    spaces = " ".join(
        f'{name}="{uri}"' for name, uri in re.findall(r"(xmlns\S*)\s*=\s*['\"]([^'\"]+)", made.raw(0, 9999))
    )
    assert units
    for found in (found for unit in units for found in whole(unit)):
        name, _ = made.tag(found.span)
        opened, closed = made.raw(found.start, found.inner), made.raw(found.last, found.end)
        assert opened.startswith(f"<{name}")
        assert opened.endswith(">")
        alone = root_of(f"<x {spaces}>{made.raw(found.start, found.end)}</x>".encode())
        assert "".join(texts(alone)) == found.text()
        assert closed == "" if opened.endswith("/>") else closed.rstrip(" \r\n>") == f"</{name}"
        at = found.inner
        for child in found.children:  # no byte of the content is left over but the marks around CDATA
            assert made.raw(at, child.start).replace("]]>", "").replace("<![CDATA[", "") == ""
            if isinstance(child, Aside):
                assert made.raw(child.start, child.end)[:2] in ("<!", "<?")
            at = child.end
        assert made.raw(at, found.last).replace("]]>", "").replace("<![CDATA[", "") == ""


@each_file
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_where_the_file_is_cut_for_reading_changes_nothing(
    path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shape(element: Element) -> object:
        spans = [(child.start, child.end) for child in element.children]
        return element.name, element.attributes, element.line, element.span, element.text(), spans

    data = path.read_bytes()
    expected = [shape(found) for unit in elements(data, UNITS)[1] for found in whole(unit)]
    monkeypatch.setattr(xml, "CHUNK", size)
    assert [shape(found) for unit in elements(data, UNITS)[1] for found in whole(unit)] == expected


LAUGHS = b"""<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;">]><a>&y;</a>"""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (LAUGHS, "line 1, column 25: declares the entity 'x'"),
        (
            b'<!DOCTYPE a [\n<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<a>&x;</a>',
            "line 2, column 39: declares the",
        ),
        (b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://localhost/p"> %p;]><a/>', "column 54: declares the enti"),
        (b'<!DOCTYPE a [<!NOTATION n SYSTEM "n"><!ENTITY g SYSTEM "g.gif" NDATA n>]><a/>', "the entity 'g'"),
        (b'<!DOCTYPE a SYSTEM "a.dtd">\n<a>\n <b>&nbsp;</b></a>', "line 3, column 5: uses the entity &nbsp;"),
        (
            b'<!DOCTYPE a SYSTEM "a.dtd">\n<a>\n <b c="&eacute;">x</b></a>',
            "line 3, column 18: the tag <b> that ends he",
        ),
        (b"<a>&eacute;</a>", "line 1, column 4: is no well-formed XML: undefined entity. Write the character itself"),
    ],
)
def test_entities_are_refused_with_the_place(data: bytes, told: str) -> None:
    assert told in refused(data)


def test_a_doctype_without_entities_is_read_and_not_fetched() -> None:
    data = b"<!DOCTYPE a SYSTEM 'http://localhost:1/a.dtd' [<!ELEMENT b ANY>]>\n<a><b c='&lt;&#9;'>&amp;</b></a>"
    made, (_, found) = elements(data, {"b"})
    assert (found.text(), found.attributes, made.raw(*found.span[::3])) == (
        "&",
        {"c": "<\t"},
        "<b c='&lt;&#9;'>&amp;</b>",
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "line 1, column 1: is no well-formed XML: no element found. The file is empty or cut"),
        (b"<a>\n<b>\n</a>", "line 3, column 3: is no well-formed XML: mismatched tag. Tags must nest"),
        (b"<a>\n <b>", "no element found. The file is empty or cut"),
        (b"<a><b x=", "unclosed token. The file is cut"),
        (b"<a>x & y</a>", "column 7: is no well-formed XML: not well-formed (invalid token). Write & as &amp;"),
        (b"<a>\0</a>", "column 4: is no well-formed XML"),
        (b"<a>\xff</a>", "look for bytes of another encoding"),
        (b"<a>&#1;</a>", "reference to invalid character number"),
        (b"<a><p:b/></a>", "unbound prefix"),
        (b"<a/><a/>", "junk after document element"),
        (b"<?xml version='1.1'?><a/>", "is XML 1.1. Only 1.0 is read"),
        (b"<?xml version='1.0' encoding='Shift_JIS'?><a/>", "multi-byte encodings are not supported). Convert it"),
        (b"<?xml version='1.0' encoding='klingon'?><a/>", "'klingon', which is not known. Convert the file to UTF-8"),
        (b"<?xml version='1.0' encoding='rot13'?><a/>", "Convert it"),
        (b"<?xml version='1.0' encoding='UTF-16'?><a/>", "Declare the encoding that the file has"),
        (b"\xef\xbb\xbf<?xml version='1.0' encoding='latin-1'?><a/>", "the mark of UTF-8 and declares latin-1"),
        ("<a>\ud83d</a>".encode("utf-16", "surrogatepass"), "utf-16-le, which cannot be read in place"),
        (b"<a>" * 300, "nests elements deeper than 256"),
    ],
)
def test_what_is_broken_is_refused_with_the_remedy(data: bytes, told: str) -> None:
    assert told in refused(data)


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8", "utf8"), ("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"), ("utf-16-be", ""), ("cp1252", "windows-1252")],
)
def test_text_is_read_and_written_in_the_encoding_of_the_file(encoding: str, declared: str) -> None:
    head = f'<?xml version="1.0" encoding="{declared}"?>' if declared else '<?xml version="1.0"?>'
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    data = mark + f"{head}\r\n<a><b c='é'>“ü”</b><b/></a>".encode(encoding)
    made, (_, first, second) = elements(data, {"b"})
    assert (first.text(), first.attributes) == ("“ü”", {"c": "é"})
    edits = [made.change_content(first.span, "ö€日"), made.change_content(second.span, "x")]
    _, (_, *again) = elements(b"".join(splice(data, edits)), {"b"})
    assert [found.text() for found in again] == ["ö€日", "x"]
    assert (b"&#26085;" in b"".join(splice(data, edits))) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<b/>", '<b s="&lt;&quot;&gt;" t="2"/>'),
        ("<b  />", '<b s="&lt;&quot;&gt;" t="2"  />'),
        ("<b gone = 'x' a=\"s='1'\" s =\n'1'>", '<b a="s=\'1\'" s =\n"&lt;&quot;&gt;" t="2">'),
        ("<b a='> t=' s='1' t='2' >", "<b a='> t=' s=\"&lt;&quot;&gt;\" t='2' >"),
    ],
)
def test_attributes_change_in_place_and_nothing_else(tag: str, expected: str) -> None:
    data = f"<é>{tag}{'' if tag.endswith('/>') else '</b>'}</é>".encode()
    made, (_, found) = elements(data, {"b"})
    edits = made.change_attributes(found.span, {"s": '<">', "t": "2", "gone": None})
    assert b"".join(splice(data, edits)).decode().startswith(f"<é>{expected}")
    assert root_of(b"".join(splice(data, edits)))[0].get("s") == '<">'


@pytest.mark.parametrize("content", ["", "old", "<c>old</c>", "<![CDATA[old]]>", "<!-- old -->"])
@pytest.mark.parametrize("tag", ["b", "p:b"])
def test_content_changes_whatever_it_was(content: str, tag: str) -> None:
    for spelt in [f"<{tag} x='/>'>{content}</{tag}>"] + [f"<{tag}\n/>", f"<{tag} x='/>'/>"] * (content == ""):
        data = f"<a xmlns:p='urn:p'>{spelt}</a>".encode()
        made, (_, found) = elements(data, {"b", "urn:p b"})
        changed = root_of(b"".join(splice(data, [made.change_content(found.span, "new &amp;")])))
        assert (changed[0].text, changed[0].get("x"), len(changed)) == ("new &", "/>" if "x=" in spelt else None, 1)


SPAN = Span(0, 0, 0, 0)


def test_every_text_that_xml_can_hold_is_read_by_lxml_as_it_was() -> None:
    text = "".join(map(chr, [9, 10, 13, *range(32, 0xD800), *range(0xE000, 0xFFFE), *range(0x1F600, 0x1F640)])) + "]]>"
    for encoding in ("utf-8", "utf-16-le", "ascii"):
        made = XML(b"", "a.xml")
        made.__dict__["encoding"] = encoding
        spelt = made.spell("<a>") + made.spell(made.spelt((text,), "here", SPAN)) + made.spell("</a>")
        assert root_of(f'<?xml version="1.0" encoding="{encoding}"?>'.encode(encoding) + spelt).text == text


@pytest.mark.parametrize("bad", ["\0", "\x07", "\x1b", "\ud800", "\ufffe", "\uffff"])
def test_what_xml_cannot_hold_is_refused(bad: str) -> None:
    for parts in [(f"a{bad}",), (Code(f"%{bad}"),), (Code(f"<a b='{bad}'/>", markup=True),)]:
        with pytest.raises(FormatError, match=rf"a.xml: here: the translation holds U\+{ord(bad):04X}"):
            XML(b"<a/>", "a.xml").spelt(parts, "here", SPAN)


def test_codes_that_do_not_nest_are_refused_and_placeholders_are_text() -> None:
    opened, closed = Code("<g id='1'>", "open", True, "1"), Code("</g>", "close", True, "1")
    made = XML(b"<a/>", "a.xml")
    assert made.spelt((opened, "a", Code("<%s&>"), closed), "here", SPAN) == "<g id='1'>a&lt;%s&amp;&gt;</g>"
    for parts in [(closed, opened), (opened,), (closed,), (Code("</x><x>", markup=True),), (Code("<", markup=True),)]:
        with pytest.raises(FormatError, match="here: the tags of the translation do not nest or lack their ends"):
            made.spelt(parts, "here", SPAN)


def generated(path: Path, size: int) -> int:
    """A TMX of about this many bytes; gives the number of its units."""
    unit = (
        '<tu tuid="{0}"><note>note {0}</note><tuv xml:lang="en"><seg>Sentence <bpt i="1">&lt;b&gt;</bpt>{0}<ept i="1"/>'
        ' &amp; more.</seg></tuv>\n<tuv xml:lang="de"><seg>Satz {0} ü<!-- c --></seg></tuv></tu>\n'
    )
    count = size // len(unit.format(0).encode())
    with path.open("w", encoding="utf-8") as file:
        file.write('<tmx version="1.4"><header srclang="en"/><body>\n')
        file.writelines(unit.format(number) for number in range(count))
        file.write("</body></tmx>\n")
    return count


def peak(path: Path) -> tuple[int, int]:
    """How many segments a TMX has, and the greatest number of bytes that reading and editing them took at once."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        made, count, changed = TMX(data, path.name, "en", "de"), 0, 0
        tracemalloc.start()
        try:
            for count, segment in enumerate(made.segments(), 1):
                changed += len(made.edits(segment, segment.source, mark=False)) if count % 50 == 0 else 0
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert changed == count // 50
    return count, most


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "CHUNK", 1 << 12)
    found = {}
    for size in (60_000, 240_000):
        count = generated(tmp_path / f"{size}.tmx", size)
        segments, found[size] = peak(tmp_path / f"{size}.tmx")
        assert segments == count
    assert max(found.values()) < 400_000
    assert found[240_000] < 1.2 * found[60_000]


def own_memory() -> int:
    """Bytes of this process that are no mapped file."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - shared) * mmap.PAGESIZE


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux how much memory this process has")
def test_a_large_file_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "large.tmx"
    count = generated(path, 30_000_000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        made = TMX(data, path.name, "en", "de")
        before, grown, segments = own_memory(), 0, 0
        for segments, _ in enumerate(made.segments(), 1):
            if segments % 500 == 0:
                grown = max(grown, own_memory() - before)
    assert segments == count
    assert grown < 30_000_000  # the elements of a chunk are some megabytes, those of the file would be hundreds
