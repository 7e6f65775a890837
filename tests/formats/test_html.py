"""HTML against html5lib, which builds the tree of a browser: the text of its blocks is what the segments hold."""

from __future__ import annotations

import codecs
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import html5lib
import pytest
import webencodings
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from webencodings.labels import LABELS

from headway.formats.html import HTML, encoding_of
from headway.formats.segment import FormatError, Segment, splice
from headway.text.codes import Code, Parts, codes, find_parts, joined, kinds_for, plain

FILES = Path(__file__).parent / "files" / "html"
INSTALLED = Path(sysconfig.get_paths()["purelib"])


def names(words: str) -> frozenset[str]:
    return frozenset(words.split())


# The elements that a browser shows as blocks, as table parts or as controls (HTML standard, section "Rendering").
BLOCK = names(
    """html body address blockquote center dialog div figure figcaption footer form header hr legend listing main p
    plaintext pre search xmp article aside h1 h2 h3 h4 h5 h6 hgroup nav section dir dd dl dt menu ol ul li table
    caption colgroup col thead tbody tfoot tr td th fieldset details summary optgroup option button select label
    title head noscript datalist frameset frame"""
)
NO_PROSE = names(
    """code kbd samp var math script style pre svg template textarea iframe xmp listing noembed
    noframes"""
)


def read(data: bytes | str, name: str = "a.html") -> list[Segment]:
    return list(HTML(data if isinstance(data, bytes) else data.encode(), name).segments())


def sources(data: bytes | str, name: str = "a.html") -> list[Parts]:
    return [segment.source for segment in read(data, name)]


def written(data: bytes | str, *targets: Parts | None, name: str = "a.html") -> bytes:
    """The file with its first segments translated; None leaves one alone."""
    made = HTML(data if isinstance(data, bytes) else data.encode(), name)
    pairs = zip(list(made.segments()), targets, strict=False)
    return b"".join(splice(made.data, [e for s, t in pairs if t is not None for e in made.edits(s, t, mark=False)]))


def collapsed(text: str) -> str:
    return re.sub(r"[ \t\n\r\f]+", " ", text).strip(" ")


def text_of_tree(data: bytes | str) -> list[str]:
    """The visible text of each block of html5lib's tree."""
    runs = [""]

    def walk(element: Element) -> None:
        name = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        classes = element.get("class", "").split() if name else []
        kept = not name or name in NO_PROSE or element.get("translate") == "no" or "notranslate" in classes
        if name in BLOCK:
            runs.append("")
        if not kept:
            runs[-1] += element.text or ""
            for child in element:
                walk(child)
                runs[-1] += child.tail or ""
        if name in BLOCK:
            runs.append("")

    known = {} if isinstance(data, str) else {"likely_encoding": "utf-8"}  # else it takes an old one for granted
    walk(html5lib.parse(data, namespaceHTMLElements=False, **known))
    return [text for run in runs if (text := collapsed(run)).strip()]


def text_of_segments(data: bytes | str) -> list[str]:
    return [collapsed(plain(parts, "")) for parts in sources(data)]


@pytest.mark.parametrize(
    "name", ["article", "unclosed", "form", "table", "windows", "marked", "sixteen", "japanese", "scripts", "fragments"]
)
def test_the_text_of_the_segments_is_that_of_the_tree(name: str) -> None:
    data = (FILES / f"{name}.html").read_bytes()
    assert text_of_segments(data) == text_of_tree(data)


TAGS = names(
    """<p> </p> <div> </div> <li> </li> <ul> </ul> <h1> </h1> <b> </b> <i> </i> <span> </span> <a> </a> </em> <x-y>
    </x-y> <br> <p/> <b/c> <!----> <!--> <!---> </> </3> <3 < > one two &amp; &lt &copy &nbsp; &#233; &#x41 &ampx;
    &notit; { % <td <!doctype> <?pi>"""
)
ODD = (
    *(" ", "\n", "a < b", "<img src=a>", "<a href='>'>", '<a title=">">', "<a b=c>", "<em a=it's>", '<b =">', "<b a=>"),
    *(
        '<i a = "x>y" c>',
        "<!-- c -->",
        "<!-- a --!>",
        "<!-- > -- >x-->",
        "</ x>",
        "<![CDATA[x > y]]>",
        "<style>a{}</style>",
    ),
    *("<code>x <b>y</b></code>", "<script>if (a<b) '</p>'</script>", "<svg><path d='a'/><title>t</title></svg>"),
    *("<pre>p <b>q</b></pre>", "<span translate=no>x<b>y</b></span>", "<div class='a notranslate'>x<p>y</p></div>"),
    *("<textarea>x<p></textarea>", "<iframe><p></iframe>"),
)
SOUP = st.lists(st.sampled_from([*sorted(TAGS), *ODD]), max_size=14).map("".join)


def ends(runs: list[str]) -> tuple[str, set[int]]:
    """All letters, and how many there are at the end of each run."""
    letters = [re.sub(r"\s", "", run) for run in runs]
    return "".join(letters), {sum(map(len, letters[: index + 1])) for index in range(len(letters))}


@settings(max_examples=120, deadline=None)
@given(SOUP)
def test_any_mixture_of_tags_is_cut_as_html5lib_does(page: str) -> None:
    page = f"<!doctype html><body>{page}"
    (ours, our_ends), (theirs, their_ends) = ends(text_of_segments(page)), ends(text_of_tree(page))
    assert ours == theirs
    assert their_ends <= our_ends  # a stray end tag is no block of the tree, yet it ends a segment


@settings(max_examples=60, deadline=None)
@given(SOUP)
def test_any_mixture_of_tags_comes_back_byte_for_byte_when_nothing_is_changed(page: str) -> None:
    assert written(page, *sources(page)) == page.encode()


WRITABLE = st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(lambda text: text.strip())


@settings(max_examples=60, deadline=None)
@given(WRITABLE, WRITABLE)
def test_any_text_is_written_so_that_html5lib_reads_it(first: str, second: str) -> None:
    page = "<!doctype html><p>\n One <b>two</b> </p><p>&nbsp;</p>"
    parts = sources(page)[0]
    data = written(page, (first, parts[1], second, parts[3]))
    tree = html5lib.parse(data.decode(), namespaceHTMLElements=False)
    assert collapsed("".join(tree.find("body/p").itertext())) == collapsed(first + second)
    assert collapsed(tree.find("body/p/b").text) == collapsed(second)
    assert data.startswith(b"<!doctype html><p>\n ")
    assert data.endswith(b"</b> </p><p>&nbsp;</p>")


@settings(max_examples=40, deadline=None)
@given(WRITABLE)
def test_what_is_written_into_xhtml_is_xml(text: str) -> None:
    parts = sources(FILES.joinpath("page.xhtml").read_bytes(), "page.xhtml")
    data = written(FILES.joinpath("page.xhtml").read_bytes(), (text,), name="page.xhtml")
    title = etree.fromstring(data).find(".//{*}title")
    assert collapsed(title.text) == collapsed(text)
    assert len(sources(data, "page.xhtml")) == len(parts)


def installed(suffix: str) -> Iterator[Path]:
    """Pages inside packages, the smaller ones, that no template language is in."""
    found = (path for path in sorted(INSTALLED.rglob(f"*.{suffix}")) if path.stat().st_size < 20_000)
    return (path for path in found if not re.search(rb"\{[{%#]|<%", path.read_bytes()))


def test_pages_of_other_people_are_read_as_html5lib_reads_them() -> None:
    pages = [path for path, _ in zip(installed("html"), range(10), strict=False)]
    if not pages:
        pytest.skip("no package here has an HTML page")
    for path in pages:
        data = path.read_bytes()
        assert text_of_segments(data) == text_of_tree(data), path
        assert written(data, *sources(data)) == data


def test_a_segment_ends_at_every_block() -> None:
    assert sources("<div>text<p>in</p>more</div>") == [("text",), ("in",), ("more",)]


def test_tags_around_all_of_the_text_are_left_out_and_tags_within_are_codes() -> None:
    assert sources("<p><a id=x></a> <b><i>all</i></b> <br></p>") == [("all",)]
    (parts,) = sources('<p><b>one</b> <i class="x">two</i></p>')
    assert [(code.raw, code.side, code.key, code.markup) for code in codes(parts)] == [
        ("<b>", "open", "<b>", True),
        ("</b>", "close", "<b>", True),
        ('<i class="x">', "open", '<i class="x">', True),
        ("</i>", "close", '<i class="x">', True),
    ]


def test_crossing_tags_keep_their_order_and_find_their_partners() -> None:
    (parts,) = sources("<p>x<b>1<i>2</b>3</i>y</p>")
    assert [(code.side, code.key) for code in codes(parts)] == [
        ("open", "<b>"),
        ("open", "<i>"),
        ("close", "<b>"),
        ("close", "<i>"),
    ]


def test_code_stands_for_a_word_wherever_it_is() -> None:
    (parts,) = sources("<li><code>ls</code> lists files</li>")
    assert parts == (Code("<code>ls</code>", markup=True), " lists files")


def test_expressions_of_templates_are_kept_letter_by_letter() -> None:
    page = '<p>Hi {{ a && b|c:"<i>" }}, {% if a > b %}you{% endif %} &amp; <?php if ($a > 1) echo "<p>" ?>all</p>'
    (parts,) = sources(page)
    kept = ['{{ a && b|c:"<i>" }}', "{% if a > b %}", "{% endif %}", '<?php if ($a > 1) echo "<p>" ?>']
    assert [code.raw for code in codes(parts)] == kept
    data = written(page, joined("Ö > <" if isinstance(part, str) else part for part in parts)).decode()
    assert [at for code in kept if (at := data.find(code)) < 0] == []
    assert "Ö &gt; &lt;" in data


SIGNS = [("{{", "}}"), ("{%", "%}"), ("{#", "#}"), ("<%", "%>")]


@pytest.mark.parametrize("signs", SIGNS, ids="".join)
@pytest.mark.parametrize(
    "page",
    [
        "<p>Open it with <code>{0}</code>.</p><p>Not lost.</p><p>Close it with <code>{1}</code>, please.</p>",
        "<p>a {0} x</p><p>Middle <b>one</b></p><ul><li>y {1} b</ul>",
        "<p>a {0} it's\n</p><h2>Middle</h2><td>it's {1} b",
        '<p>a {0} "x</p>\n<P class="b">Middle</P>\n<p>"y {1} b</p>',
        "<p>a {0} b <kbd>c</kbd> d {1} e</p>",
        "<p>a {0} b<pre>c</pre>d {1} e</p>",
        "<p>a {0} {0} b <br/><hr>c {1}</p>",
    ],
)
def test_signs_of_a_template_language_that_are_text_swallow_no_block(page: str, signs: tuple[str, str]) -> None:
    page = f"<!doctype html><body>{page.format(*signs)}"
    assert text_of_segments(page) == text_of_tree(page)


def test_signs_in_tags_of_their_own_swallow_no_word_between_them() -> None:
    for opens, closes in (signs for signs in SIGNS if signs != ("{#", "#}")):  # a comment may have tags
        page = f"<p>Write <b>{opens}</b> and <b>{closes}</b> around it</p>"
        assert text_of_segments(page) == text_of_tree(page)


@pytest.mark.parametrize("signs", SIGNS, ids="".join)
def test_a_template_keeps_tags_in_its_quotes_and_tags_of_no_block(signs: tuple[str, str]) -> None:
    for inside in ("a && b", 'x|c:"<p>None</p>"', "x|c:'<p>None</p>'", "<i>", "<p-x>", 'the "', "a\nb", "it's"):
        kept = f"{signs[0]} {inside} {signs[1]}"
        assert sources(f"<p>Hi {kept} you</p>") == [("Hi ", Code(kept, markup=True), " you")]


def test_text_that_looks_like_a_template_does_not_become_one() -> None:
    data = written("<p>x</p>", ("a {{ b }} {% c %} {# d #} {e}",))
    assert re.search(rb"\{[{%#]", data) is None
    assert sources(data) == [("a {{ b }} {% c %} {# d #} {e}",)]


def test_a_reference_that_nobody_knows_is_kept() -> None:
    page = "<p>Made by &house; &amp; me</p>"
    assert codes(sources(page)[0]) == [Code("&house;", markup=True)]
    assert written(page, ("Von ", Code("&house;", markup=True), " & mir")) == b"<p>Von &house; &amp; mir</p>"


def test_a_space_that_does_not_break_is_written_as_the_file_writes_it() -> None:
    assert written("<p>5&nbsp;m</p>", ("6\xa0m",)) == b"<p>6&nbsp;m</p>"
    assert written("<p>5\xa0m</p>", ("6\xa0m",)) == "<p>6\xa0m</p>".encode()


class Watched(str):
    """Counts how often all of it is looked through."""

    looked = 0

    def __contains__(self, part: object) -> bool:
        Watched.looked += 1
        return str.__contains__(self, part)  # type: ignore[arg-type]


def test_how_the_file_writes_a_space_is_looked_up_once_however_many_texts_change() -> None:
    made = HTML(b"<p>5&nbsp;m</p>" * 10_000, "a.html")
    segments = list(made.segments())
    text, *rest = made.page
    made.__dict__["page"] = (Watched(text), *rest)
    edits = [edit for segment in segments for edit in made.edits(segment, ("6\xa0m",), mark=False)]
    assert {edit.data for edit in edits} == {b"6&nbsp;m"}
    assert len(edits) == 10_000
    assert 0 < Watched.looked <= 2  # for either character


def test_a_text_in_which_only_codes_were_found_stays_as_it_is() -> None:
    page = '<p>&quot;https://x.org/?a=1&b=2&quot;\n &copy; {{ x }} <a href="?c&d">%s</a></p>'
    (parts,) = sources(page)
    found = find_parts(parts, kinds_for(frozenset({"c-format"}), "html"))
    assert [code.raw for code in codes(found)] == ["https://x.org/?a=1&b=2", "{{ x }}", '<a href="?c&d">', "%s", "</a>"]
    assert written(page, found) == page.encode()


def test_a_character_that_the_encoding_lacks_becomes_a_reference() -> None:
    page = '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")
    assert written(page, ("thé 茶 €",)) == b'<meta charset="iso-8859-1"><p>th\xe9 &#33590; \x80</p>'


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<p>ok</p>\n<p>caf\xe9</p>", "line 2: byte 0xE9 is not utf-8"),
        (b'<meta charset="koi9-x"><p>a</p>', "koi9-x"),
        (b'<meta charset="iso-2022-jp"><p>a</p>', "iso-2022-jp"),
        (b'<meta charset="utf-7"><p>a</p>', "utf-7"),
        (b'<meta charset="rot13"><p>a</p>', "rot13"),
        (b'<meta charset="unicode_escape"><p>\\u0041</p>', "unicode_escape"),
        (b'<?xml version="1.0" encoding="ascii"?><p>\x81</p>', "0x81"),
        (b"\xff\xfe<\0p\0>\0a", "utf-16"),
    ],
)
def test_an_encoding_that_does_not_fit_is_refused_with_the_place(data: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=r"a\.html: ") as caught:
        read(data)
    assert told in str(caught.value)
    assert "onvert it to UTF-8" in str(caught.value)


# What these bytes are in the indexes of the Encoding Standard of WHATWG (iconv agrees, by other names).
LEGACY = [
    ("shift_jis", b"\x87\x40\x87\x8a", "①㈱"),
    ("x-sjis", b"\x87\x40\xfb\xfc", "①髙"),
    ("windows-31j", b"\xed\x40\x87\x90", "纊≒"),  # spelt as NEC did, which nobody writes any more
    ("gb2312", b"\xe9\x46", "镕"),
    ("euc-kr", b"\x8c\x63", "똠"),
    ("ks_c_5601-1987", b"\x8c\x63", "똠"),
    ("big5", b"\x9d\xef\xa2\x7e", "嘅╭"),
    ("TIS-620", b"\x80\x91", "€‘"),
    ("iso-8859-1", b"\x80", "€"),
    ("iso8859-9", b"\x80\xfd", "€ı"),
]


@pytest.mark.parametrize(("label", "raw", "text"), LEGACY, ids=lambda value: value if isinstance(value, str) else "")
def test_a_label_means_what_it_means_to_browsers_and_other_bytes_stay(label: str, raw: bytes, text: str) -> None:
    page = f"<meta charset={label}><p>".encode() + raw + b"</p><p>b</p><p>" + raw + b" c</p>"
    assert sources(page) == [(text,), ("b",), (f"{text} c",)]
    assert written(page, None, ("d",)) == page.replace(b"<p>b<", b"<p>d<")
    again = written(page, None, (f"d {text[0]}",))
    assert sources(again)[1] == (f"d {text[0]}",)
    assert again.count(raw) >= 2


def test_every_label_of_browsers_is_known_and_those_of_one_encoding_are_one() -> None:
    """By the table of webencodings, which html5lib reads with."""
    labels: dict[str, set[str]] = {}
    for label, name in LABELS.items():
        if name not in ("replacement", "iso-2022-jp"):  # these are refused
            page = f'<meta charset="{label}">'.encode()
            labels.setdefault(name, set()).add(codecs.lookup(encoding_of(page, page)[0]).name)
    assert [name for name, found in labels.items() if len(found) != 1] == []
    single = {
        name: found.pop() for name, found in labels.items() if name.startswith(("iso", "win", "koi", "mac", "ibm"))
    }
    assert {name: webencodings.lookup(name).codec_info.name for name in single} == single
    assert labels["utf-16le"] == labels["utf-16be"] == {"utf-8"}  # of a file that is read by bytes
    assert labels["x-user-defined"] == {"cp1252"}


def test_only_a_declaration_declares_the_encoding() -> None:
    page = "<!-- <meta charset=koi8-r> --><meta name=description content='charset=x'><p>é</p>"
    assert sources(page) == [("é",)]


def test_what_is_never_closed_is_told() -> None:
    made = HTML(b"<p>one\n<pre>two\n<p>three", "a.html")
    assert [segment.source for segment in made.segments()] == [("one",)]
    assert made.skipped.places == {"<pre> is never closed, and nothing behind it is translated": ["line 2"]}
    for end, told in [
        ("<!-- two\r\n\tthree", "<!-- two three"),
        ("<!-- two\n" + "three \n" * 90, "<!-- two three three three three thre..."),
        ("<!--" + "x" * 90, "<!--" + "x" * 33 + "..."),
        ("<pre\n id='two'>\nthree", "<pre id='two'>"),
    ]:
        made = HTML(f"<p>one\n{end}".encode(), "a.html")
        assert [segment.source for segment in made.segments()] == [("one",)]
        assert made.skipped.places == {f"{told} is never closed, and nothing behind it is translated": ["line 2"]}
    made = HTML(b"<p>one\n<a title='two>three", "a.html")
    assert [segment.source for segment in made.segments()] == [("one",)]
    assert made.skipped.counts.total() == 1


def test_cdata_is_text_in_xhtml_and_is_written_as_text() -> None:
    page = "<p>a <![CDATA[5 < 6 &amp; b]]></p>"
    assert sources(page, "a.xhtml") == [("a 5 < 6 &amp; b",)]
    assert written(page, ("x < y",), name="a.xhtml") == b"<p>x &lt; y</p>"
    assert sources("<script/><p>a</p><title/>b", "a.xhtml") == [("a",), ("b",)]
    assert sources("<script/><p>a</p><title/>b", "a.XHTML.gz") == [("a",), ("b",)]


BOMB = '<!DOCTYPE html [\n<!ENTITY a "ha"><!ENTITY b SYSTEM "file:///etc/passwd"><!ENTITY c "&a;&a;">]>\n'


def test_entities_are_neither_expanded_nor_fetched_and_are_told() -> None:
    told = {"an entity is declared, and its text is not translated": ["line 2"] * 3}
    for name in ("a.xhtml", "a.html"):  # in HTML such a declaration declares nothing
        page = HTML(f"{BOMB}<p>x &a; &b; &c; y</p>".encode(), name)
        assert [plain(segment.source) for segment in page.segments()] == ["x &a; &b; &c; y"]
        assert page.skipped.places == (told if name == "a.xhtml" else {})
    assert written(f"{BOMB}<p>x</p>", ("y",), name="a.xhtml") == f"{BOMB}<p>y</p>".encode()


@pytest.mark.parametrize(
    ("body", "told", "line"),
    [
        ("<p>a <b>b <i>c</b> d</i></p>", "mismatched tag", 2),
        ("\n<p>a", "no element found", 3),
        ("<p>a & b</p>", "not well-formed", 2),
        ("<p>a</p>\n<p>b</p>", "junk after document element", 3),
        (f"<p a='{'&lol;' * 9}'>a</p>", "undefined entity", 2),
    ],
)
def test_xhtml_that_is_no_xml_is_read_as_html_and_told(body: str, told: str, line: int) -> None:
    page = HTML(f'<?xml version="1.0"?>\n{body}'.encode(), "a.xhtml")
    assert list(page.segments()) != []
    [(reason, places)] = page.skipped.places.items()
    assert reason.startswith(f"is no well-formed XML ({told}")
    assert places == [f"line {line}"]


def test_xhtml_that_is_xml_is_not_told_of() -> None:
    for head in (
        "",
        "<!DOCTYPE html>",
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://localhost:1/a.dtd">',
    ):
        page = HTML(f"{head}<p>{'a&nbsp;b' if 'PUBLIC' in head else 'é'}</p>".encode(), "a.xhtml")
        assert len(list(page.segments())) == 1
        assert page.skipped.places == {}


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\x07"])
def test_a_character_that_html_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"a\.html: line 1: U\+"):
        written("<p>x</p>", (text,))


def test_the_place_is_the_line_of_the_text() -> None:
    assert [segment.place for segment in read("<p>\n\none</p>\r\n<p>two</p>")] == ["line 3", "line 4"]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"<p></p>", b"&nbsp;", b"<b>", b"<!--"])
def test_a_page_without_text_has_no_segments(data: bytes) -> None:
    assert read(data) == []


@pytest.mark.parametrize("odd", ["<b>", "<p", "{{", "<!--", "<a b='", "<%", "&a", "<svg>", "<pre>", "</p>", "{% <b "])
def test_a_long_file_takes_time_that_grows_with_its_length(odd: str) -> None:
    read("<p>x" + odd * 10_000)


def test_nested_elements_of_one_name_are_kept_to_their_own_end() -> None:
    assert sources("<div class=notranslate>a<div>b</div>c</div>d") == [("d",)]
    assert sources("<ul><li translate='no'>a<li>b</ul>") == [("b",)]
    assert sources("<table><tr><td translate=no>a<td>b<tr><td>c</table>") == [("b",), ("c",)]
