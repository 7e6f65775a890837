"""TMX: units and texts against lxml, in the examples and in generated files; languages, marks, what is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from headway.formats.segment import FormatError, Segment, splice
from headway.formats.tmx import TMX
from headway.text.codes import Code, Parts, codes, find_parts

FILES = sorted((Path(__file__).parent / "files" / "tmx").iterdir())
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
CODES = {"bpt", "ept", "it", "ph", "ut"}


def root_of(data: bytes) -> etree._Element:
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


def local(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def seen(element: etree._Element) -> str:
    """The text of an element without that of codes, comments and processing instructions."""
    found = element.text or ""
    for child in element:
        if isinstance(child.tag, str) and local(child) not in CODES:
            found += seen(child)
        found += child.tail or ""
    return found


def tuvs(unit: etree._Element, language: str) -> list[etree._Element]:
    """By the first part of the language, which is enough for the examples."""
    space = unit.tag[: unit.tag.rindex("}") + 1] if "}" in unit.tag else ""
    return [
        tuv
        for tuv in unit.iterchildren(space + "tuv")
        if (tuv.get(LANG) or tuv.get("lang", ""))[:2].lower() == language
    ]


def pairs(root: etree._Element) -> list[tuple[str, str | None]]:
    """Source and target of each unit that has one source with text and one target at most."""
    found = []
    for unit in (element for element in root.iter(etree.Element) if local(element) == "tu"):
        here, there = tuvs(unit, "en"), tuvs(unit, "de")
        if len(here) == 1 and len(there) < 2:
            texts = [next((seen(seg) for seg in tuv if local(seg) == "seg"), "") for tuv in here + there]
            if texts[0].strip():
                found.append((texts[0], texts[1] if texts[1:] and texts[1].strip() else None))
    return found


def text(parts: Parts | None) -> str | None:
    return None if parts is None else "".join(part for part in parts if isinstance(part, str))


def read(
    body: str, source: str | None = "en", target: str | None = "de", srclang: str = "en"
) -> tuple[TMX, list[Segment]]:
    data = f'<tmx version="1.4"><header srclang="{srclang}"/><body>\n{body}\n</body></tmx>'.encode()
    made = TMX(data, "a.tmx", source, target)
    return made, list(made.segments())


def tu(**texts: str) -> str:
    tuvs = (f'<tuv xml:lang="{tag.replace("_", "-")}"><seg>{text}</seg></tuv>' for tag, text in texts.items())
    return f"<tu>{''.join(tuvs)}</tu>"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_segments_are_those_that_lxml_counts(path: Path) -> None:
    found = [(text(one.source), text(one.target)) for one in TMX(path.read_bytes(), path.name, "en", "de").segments()]
    assert found == pairs(root_of(path.read_bytes()))
    assert found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("mark", [False, True])
def test_lxml_finds_what_was_written_and_all_else_as_it_was(path: Path, mark: bool) -> None:
    made = TMX(path.read_bytes(), path.name, "en", "de")
    found = list(made.segments())
    new = [(*codes(one.source), f"<neu & ]]> {number} 日 é>") for number, one in enumerate(found)]
    edits = [edit for one, parts in zip(found, new, strict=True) for edit in made.edits(one, parts, mark=mark)]
    before, after = root_of(path.read_bytes()), root_of(b"".join(splice(made.data, edits)))
    assert [pair[1] for pair in pairs(after)] == [parts[-1] for parts in new]

    def rest(root: etree._Element) -> bytes:
        for unit in [element for element in root.iter(etree.Element) if local(element) == "tu"]:
            if len(tuvs(unit, "en")) == 1 and (texts := [t.strip() for t in tuvs(unit, "en")[0].itertext()]) and texts:
                for tuv in tuvs(unit, "de") if len(tuvs(unit, "de")) < 2 else []:
                    tuv.getparent().remove(tuv)
        return b"".join(etree.tostring(root, method="c14n").split())

    assert rest(after) == rest(before)


def test_inline_elements_are_codes_with_their_sides_and_keys() -> None:
    _, segments = TMX_of("inline.tmx")
    found = {one.context: [(code.raw, code.side, code.key) for code in codes(one.source)] for one in segments}
    assert found["pair"] == [
        ("<bpt i='1' x='1' type='bold'>&lt;b&gt;</bpt>", "open", "pair:1"),
        ("<ept i='1'>&lt;/b&gt;</ept>", "close", "pair:1"),
    ]
    assert [(side, key) for _, side, key in found["crossing"]] == [
        ("open", "pair:1"),
        ("open", "pair:2"),
        ("close", "pair:1"),
        ("close", "pair:2"),
    ]
    assert [(side, key) for _, side, key in found["lonely"]] == [("close", "pair:7"), ("open", "pair:8")]
    assert [side for name in ("isolated", "isolated-end") for _, side, _ in found[name]] == ["open", "close"]
    assert [side for _, side, _ in found["alone"]] == ["alone"] * 3
    assert [code[::2] for code in found["alone"]][1:] == [("<ut>{\\f1}</ut>", "<ut>{\\f1}</ut>"), ("<ph/>", "<ph/>")]
    assert found["highlight"] == [
        ("<hi type='term' x='1'>", "open", "hi:1"),
        ("<hi x='2'>", "open", "hi:2"),
        ("</hi>", "close", "hi:2"),
        ("</hi>", "close", "hi:1"),
        ("<hi/>", "alone", "<hi/>"),
    ]
    assert found["unknown"] == [("<emph rank='1'>", "open", "<emph rank='1'>"), ("</emph>", "close", "<emph rank='1'>")]
    assert all(code.markup for one in segments for code in codes(one.source))


def TMX_of(name: str) -> tuple[TMX, list[Segment]]:
    path = Path(__file__).parent / "files" / "tmx" / name
    made = TMX(path.read_bytes(), name, "en", "de")
    return made, list(made.segments())


def test_what_is_no_segment_is_counted_with_its_place() -> None:
    for _ in range(2):
        made, _ = TMX_of("plain.tmx")
        assert made.skipped.counts == {"nothing to translate": 1, "no text in the source language": 1}
        assert made.skipped.places["no text in the source language"] == ["line 23, unit one-sided"]
    assert TMX_of("lang.tmx")[0].skipped.places == {"several texts in one language": ["line 8"]}
    made, _ = TMX_of("inline.tmx")
    assert made.skipped.counts == {"nothing to translate": 1, "text within a code (<sub>), kept as it is": 1}
    made, found = read(tu(en="H<sub>2</sub>O"))  # not valid there, and translated
    assert (len(found[0].source), made.skipped.counts) == (5, {})
    made, found = read(tu(de="x") * 9 + '<tu><tuv xml:lang="en"/></tu>' + tu(en="a"))
    assert (len(found), made.skipped.counts.total(), len(made.skipped.places["no text in the source language"])) == (
        1,
        10,
        3,
    )


def test_notes_contexts_and_states_are_read() -> None:
    _, found = TMX_of("plain.tmx")
    assert [(one.place, one.context, one.notes, one.state) for one in found] == [
        ("line 6, unit garden.1", "garden.1", "Shown on the gate.", "done"),
        ("line 12, unit garden.2", "garden.2", "", "empty"),
        ("line 17, unit garden.2", "garden.2", "The same id again.", "unsure"),
        ("line 21, unit empty", "empty", "", "empty"),
        ("line 24", "", "", "done"),
    ]


@pytest.mark.parametrize(
    ("asked", "there", "found"),
    [
        ("de", ["de-DE"], "de-DE"),
        ("DE_de", ["de-DE"], "de-DE"),
        ("de-DE", ["de"], "de"),
        ("de", ["de", "de-DE"], "de"),
        ("de-DE", ["de", "de-de"], "de-de"),
        ("de-AT", ["de-DE"], None),
        ("zh-TW", ["zh-CN"], None),
        ("sr_RS.UTF-8@latin", ["sr-Latn", "sr-Cyrl"], "sr-Latn"),
        ("de", ["den"], None),
        ("zh-Hant-TW", ["zh-Hant", "zh-Hans"], "zh-Hant"),
    ],
)
def test_a_language_finds_its_own_text(asked: str, there: list[str], found: str | None) -> None:
    """One unit for each language that the file holds, and the source in all of them."""
    body = "".join(
        f'<tu><tuv xml:lang="en"><seg>s</seg></tuv><tuv xml:lang="{tag}"><seg>{tag}</seg></tuv></tu>' for tag in there
    )
    assert [one.target for one in read(body, target=asked)[1]] == [(tag,) if tag == found else None for tag in there]


@pytest.mark.parametrize(
    ("source", "target", "srclang", "body", "told"),
    [
        ("en", "de", "en", tu(en="a", de_DE="b", de_AT="c"), "'de' may be de-AT or de-DE. Name the one that you mean"),
        (
            "en",
            None,
            "en",
            tu(en="a", de="b", fr="c"),
            "no single target language. Name one; the file holds: de, en, fr",
        ),
        ("en", None, "en", tu(en="a"), "no single target language. Name one; the file holds: en"),
        (None, "de", "*all*", tu(en="a", de="b"), "no source language (srclang). Name one of its languages: de, en"),
        ("fr", "de", "en", tu(en="a", de="b"), "holds no text in 'fr'. Name one of its languages: de, en"),
        ("en", "EN", "en", tu(en="a", de="b"), "source and target are both 'en'"),
        (
            "en",
            "de",
            "en",
            "<tu>\n<tuv><seg>a</seg></tuv></tu>",
            "line 3: <tuv> names no language. Give it an xml:lang",
        ),
    ],
)
def test_languages_that_are_not_clear_are_refused(
    source: str | None, target: str | None, srclang: str, body: str, told: str
) -> None:
    with pytest.raises(FormatError) as caught:
        read(body, source, target, srclang)
    assert told in str(caught.value)
    assert str(caught.value).startswith("a.tmx: ")


def test_languages_that_are_not_given_are_those_of_the_file() -> None:
    assert [(one.source, one.target) for one in read(tu(de_DE="b", EN="a"), None, None)[1]] == [(("a",), ("b",))]
    assert read("", "en", "de")[1] == []


def test_another_kind_of_xml_is_refused() -> None:
    with pytest.raises(FormatError, match=r"a\.tmx: line 1: is no TMX: its first element is <html>"):
        list(TMX(b"<html/>", "a.tmx", "en", "de").segments())


def changed(body: str, new: str, *, mark: bool) -> str:
    made, (segment,) = read(body)
    edits = made.edits(segment, (new,) if new else (), mark=mark)
    return b"".join(splice(made.data, edits)).decode().partition("<body>\n")[2].partition("\n</body>")[0]


def test_many_faults_are_told_up_to_a_limit() -> None:
    with pytest.raises(FormatError) as caught:
        read("<tu>\n<tuv><seg>a</seg></tuv></tu>" * 90)
    assert caught.value.faults == [
        f"line {number}: <tuv> names no language. Give it an xml:lang" for number in range(3, 23)
    ]


def test_line_breaks_in_a_text_are_significant() -> None:
    """By TMX 1.4b, `<seg>`: all spacing and line-breaking characters in it are."""
    for spelt in ("a\n  b", "a&#10;  b"):
        assert [one.source for one in read(tu(en=spelt))[1]] == [("a\n  b",)]


def test_a_text_in_which_only_codes_were_found_stays_as_it_is() -> None:
    made, (segment,) = read(tu(en="a", de="&quot;https://x.org/?a=1&amp;b=2&quot; <![CDATA[&]]> {name}"))
    found = find_parts(segment.target or ())
    assert [code.raw for code in codes(found)] == ["https://x.org/?a=1&b=2", "{name}"]
    assert made.edits(segment, found, mark=False) == []


def test_an_empty_translation_takes_nothing_away() -> None:
    for mark in (True, False):
        with pytest.raises(FormatError, match=r"a\.tmx: line 2: the translation is empty"):
            changed(tu(en="a", de="b"), "", mark=mark)


def test_a_missing_text_is_set_as_the_source_is() -> None:
    body = '<tu>\r\n\t<tuv xml:lang="en">\r\n\t\t<seg>a</seg>\r\n\t</tuv>\r\n</tu>'
    prop = '<prop type="x-headway-state">needs-review-translation</prop>'
    for mark, more in ((False, ""), (True, prop + "\r\n\t\t")):
        assert changed(body, "b", mark=mark) == body.replace(
            "\r\n</tu>", f'\r\n\t<tuv xml:lang="de">\r\n\t\t{more}<seg>b</seg>\r\n\t</tuv>\r\n</tu>'
        )
    assert changed(tu(en="a"), "b", mark=False) == tu(en="a", de="b")
    assert changed('<tu><tuv lang="en"><seg>a</seg></tuv></tu>', "b", mark=False).endswith(
        '<tuv lang="de"><seg>b</seg></tuv></tu>'
    )
    assert changed(tu(en="a"), "", mark=True) == tu(en="a")


def test_marks_come_before_the_text_and_go_with_the_next_change() -> None:
    prop = '<prop type="x-headway-state">{}</prop>'
    body = '<tu><tuv xml:lang="en"><seg>a</seg></tuv>\n<tuv xml:lang="de">{}<seg>b</seg></tuv></tu>'
    machine, human = body.format(prop.format("needs-review-translation")), body.format(prop.format("translated"))
    assert changed(body.format(""), "b", mark=True) == machine
    assert changed(body.format(""), "c", mark=True) == machine.replace(">b<", ">c<")
    assert changed(human, "b", mark=True) == machine
    assert changed(machine, "b", mark=True) == machine
    assert changed(machine, "b", mark=False) == machine
    assert changed(machine, "c", mark=False) == human.replace(">b<", ">c<")


def test_codes_out_of_order_and_controls_are_refused_with_the_place() -> None:
    made, (segment,) = read(tu(en="<hi>a</hi>", de="b"))
    opened, closed = codes(segment.source)
    for parts, told in [((closed, opened), "do not nest"), (("\x07",), r"U\+0007")]:
        with pytest.raises(FormatError, match=f"a.tmx: line 2: the t.*{told}"):
            made.edits(segment, parts, mark=False)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"], include_characters="\n\t\r"), max_size=12)


def escaped(some: str) -> str:
    return some.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;").replace("\r", "&#xD;")


FLAT = st.one_of(
    TEXTS.map(escaped),
    TEXTS.map(lambda some: "".join(f"&#x{ord(character):x};" for character in some)),
    TEXTS.map(lambda some: f"<![CDATA[{some.replace(']]>', '')}]]>"),
    TEXTS.map(lambda some: f"<!--{some.replace('-', '')}-->"),
    TEXTS.map(lambda some: f"<?p {some.replace('?>', '')}?>"),
    TEXTS.map(lambda some: f"<ph a={quoteattr(some)}/>"),
    TEXTS.map(lambda some: f"<bpt i='1'>{escaped(some)}</bpt >"),
)
CONTENT = st.lists(FLAT | st.lists(FLAT, max_size=3).map("".join).map("<hi\n>{}</hi>".format), max_size=4).map("".join)
"""XML for some content, spelt in any of the ways that XML has."""
TUV = st.tuples(st.sampled_from(["en", "de", "fr"]), CONTENT, st.sampled_from(["", "\r\n ", "<?x?>", "<!-- -->"]))
UNIT = st.tuples(
    st.sampled_from(["<tu>", '<tu tuid="1">', "<tu\n>", "<tu><!-- -->\n"]), st.lists(TUV, unique_by=lambda tuv: tuv[0])
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    body = ""
    for opened, tuvs in draw(st.lists(UNIT, min_size=1, max_size=4)):
        body += (
            opened + "".join(f"<tuv xml:lang='{tag}'><seg>{seg}</seg></tuv>{more}" for tag, seg, more in tuvs) + "</tu>"
        )
    encoding, declared = draw(st.sampled_from([("utf-8", "UTF-8"), ("utf-16", "UTF-16"), ("utf-8-sig", "utf-8")]))
    head = f'<?xml version="1.0" encoding="{declared}"?><tmx version="1.4"><header srclang="en"/><body>'
    return f"{head}<tu><tuv xml:lang='en'><seg>first</seg></tuv></tu>{body}</body></tmx>".encode(encoding)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files(), TEXTS)
def test_any_file_is_read_as_lxml_reads_it_and_written_so_that_it_reads_it(data: bytes, new: str) -> None:
    made = TMX(data, "a.tmx", "en", "de")
    found = list(made.segments())
    assert [(text(one.source), text(one.target)) for one in found] == pairs(root_of(data))
    same = (edit for one in found if one.target is not None for edit in made.edits(one, one.target, mark=False))
    assert b"".join(splice(data, same)) == data
    for mark in (False, True):
        edits: Iterator = (edit for one in found for edit in made.edits(one, ("x", *codes(one.source), new), mark=mark))
        after = root_of(b"".join(splice(data, edits)))
        assert [pair[1] for pair in pairs(after)] == ["x" + new] * len(found)
        assert [pair[0] for pair in pairs(after)] == [text(one.source) for one in found]


def test_a_code_of_another_format_is_refused() -> None:
    made, (segment,) = read(tu(en="a"))
    with pytest.raises(FormatError, match="do not nest or lack their ends"):
        made.edits(segment, (Code("<br>", markup=True),), mark=False)
