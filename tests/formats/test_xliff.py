"""XLIFF: segments and texts against lxml, in the examples and in generated files; states, marks, languages, faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from headway.formats.segment import FormatError, Segment, splice
from headway.formats.xliff import XLIFF
from headway.text.codes import Parts, codes, find_parts

FILES = sorted((Path(__file__).parent / "files" / "xliff").iterdir())
CODES = {"bpt", "ept", "it", "ph", "x", "bx", "ex", "cp", "sc", "ec", "sm", "em"}


def root_of(data: bytes) -> etree._Element:
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


def space_of(root: etree._Element) -> str:
    return root.tag[: root.tag.rindex("}") + 1] if "}" in root.tag else ""


def seen(element: etree._Element | None) -> str:
    """The text of an element without that of codes, protected terms, comments and processing instructions."""
    if element is None:
        return ""
    found = element.text or ""
    for child in element:
        if isinstance(child.tag, str):
            kept = etree.QName(child).localname in CODES or child.get("mtype") == "protected"
            found += "" if kept or child.get("translate") == "no" else seen(child)
        found += child.tail or ""
    return found


def marked(element: etree._Element | None) -> bool:
    return element is not None and bool(element.xpath("boolean(.//*[@mtype='seg'])"))


def pairs(root: etree._Element) -> list[tuple[str, str | None]]:
    """Source and target of each unit with text, in the files that are from English and not to French."""
    space = space_of(root)
    found = []
    for holder in root.iter(f"{space}trans-unit", f"{space}segment"):
        if next((file.get("target-language") for file in holder.iterancestors(f"{space}file")), "") == "fr":
            continue
        source, target = holder.find(f"{space}source"), holder.find(f"{space}target")
        there, cut = seen(target), holder.find(f"{space}seg-source")
        if marked(cut) and (marked(target) or not there.strip()):
            source = cut
        if seen(source).strip():
            found.append((seen(source), there if there.strip() else None))
    return found


def text(parts: Parts | None) -> str | None:
    return None if parts is None else "".join(part for part in parts if isinstance(part, str))


def open_file(name: str) -> tuple[XLIFF, list[Segment]]:
    made = XLIFF((FILES[0].parent / name).read_bytes(), name, "en", "de")
    return made, list(made.segments())


def one(body: str, target: str = 'target-language="de"', version: str = "1.2") -> XLIFF:
    data = f'<xliff version="{version}"><file source-language="en" {target}><body>\n{body}\n</body></file></xliff>'
    return XLIFF(data.encode(), "a.xlf", "en", "de")


def two(body: str, target: str = ' trgLang="de"') -> XLIFF:
    space = 'xmlns="urn:oasis:names:tc:xliff:document:2.0"'
    data = (
        f'<xliff {space} version="2.0" srcLang="en"{target}><file id="f"><unit id="u">\n{body}\n</unit></file></xliff>'
    )
    return XLIFF(data.encode(), "a.xlf", "en", "de")


def changed(made: XLIFF, new: str, *, mark: bool) -> str:
    edits = [edit for segment in made.segments() for edit in made.edits(segment, (new,), mark=mark)]
    return b"".join(splice(made.data, edits)).decode().partition("\n")[2].rpartition("\n")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_segments_are_those_that_lxml_counts(path: Path) -> None:
    data = path.read_bytes()
    found = [(text(one.source) or "", text(one.target)) for one in XLIFF(data, path.name, "en", "de").segments()]
    assert spaced(found, data) == spaced(pairs(root_of(data)), data)
    assert found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("mark", [False, True])
def test_lxml_finds_what_was_written_and_all_else_as_it_was(path: Path, mark: bool) -> None:
    made = XLIFF(path.read_bytes(), path.name, "en", "de")
    found = list(made.segments())
    new = [(*codes(one.source), f"<neu & ]]> {number} 日 é>") for number, one in enumerate(found)]
    edits = [edit for one, parts in zip(found, new, strict=True) for edit in made.edits(one, parts, mark=mark)]
    before, after = root_of(path.read_bytes()), root_of(b"".join(splice(made.data, edits)))
    assert [pair[1] for pair in pairs(after)] == [parts[-1] for parts in new]

    def rest(root: etree._Element) -> bytes:
        """All but targets with text or to be made, and the attributes that say what state they are in."""
        space = space_of(root)
        for holder in root.iter(f"{space}trans-unit", f"{space}segment", f"{space}xliff"):
            for name in ("approved", "state", "subState", "trgLang"):
                holder.attrib.pop(name, None)
            target, spare = (
                holder.find(f"{space}target"),
                [file.get("target-language") for file in holder.iterancestors()],
            )
            if target is not None and seen(holder.find(f"{space}source")).strip() and "fr" not in spare:
                holder.remove(target)
        return b"".join(etree.tostring(root, method="c14n").split())

    assert rest(after) == rest(before)


def test_inline_elements_of_1_2_are_codes_with_their_sides_and_keys() -> None:
    _, segments = open_file("inline.xlf")
    found = {one.context: [(code.side, code.key) for code in codes(one.source)] for one in segments}
    two_ends = [("open", "g:1"), ("open", "g:2"), ("close", "g:2"), ("close", "g:1")]
    assert found == {
        "a/g": [*two_ends, ("alone", "x:3"), ("alone", "g:4")],
        "a/bx": [("open", "span:a"), ("close", "span:a")],
        "a/bpt": [("open", "pair:1"), ("close", "pair:1")],
        "a/it": [("open", "it:1")],
        "a/it2": [("close", "it:1")],
        "a/ph": [("alone", "ph:1"), ("alone", "ph:2")],
        "a/mrk": [
            ("open", "mrk:t1"),
            ("close", "mrk:t1"),
            ("alone", '<mrk mtype="protected">ACME <g id="1">&amp;</g> Co</mrk>'),
        ],
        "a/lonely": [("close", "span:9"), ("close", "pair:8")],
        "a/foreign": [("open", "<o:b>"), ("close", "<o:b>")],
    }
    assert all(code.markup for one in segments for code in codes(one.source))


def test_inline_elements_of_2_x_are_codes_with_their_sides_and_keys() -> None:
    _, segments = open_file("two-inline.xlf")
    two_ends = [("open", "pc:1"), ("open", "pc:2"), ("close", "pc:2"), ("close", "pc:1")]
    assert [[(code.side, code.key) for code in codes(one.source)] for one in segments] == [
        [*two_ends, ("alone", "ph:3"), ("alone", "pc:4")],
        [("open", "span:5"), ("open", "span:6"), ("close", "span:5"), ("close", "span:6"), ("close", "span:7")],
        [("open", "mrk:m1"), ("close", "mrk:m1"), ("alone", "mrk:m2"), ("open", "mark:m3"), ("close", "mark:m3")],
        [("alone", "cp:0007")],
    ]


def test_sentence_marks_are_codes_and_the_target_gets_them() -> None:
    made, segments = open_file("sentences.xlf")
    found = {one.context: one for one in segments}
    keys = ["seg:0", "seg:0", "seg:1", "seg:1"]
    assert [code.key for code in codes(found["a/both"].source)] == keys
    assert [code.key for code in codes(found["a/both"].target or ())] == keys
    assert [code.key for code in codes(found["a/skeleton"].source)] == keys
    assert found["a/skeleton"].target is None
    assert (found["a/whole"].source, found["a/whole"].target) == (("Eight. Nine.",), ("Acht. Neun.",))
    missing = found["a/missing"]
    data = b"".join(splice(made.data, made.edits(missing, missing.source, mark=False))).decode()
    seg = made.xml.raw(missing.slot.source.inner, missing.slot.source.last)
    assert f"</seg-source>\r\n  <target>{seg}</target>\r\n  <note>None yet." in data


def test_states_notes_contexts_and_limits_are_read() -> None:
    _, found = open_file("plain.xlf")
    assert {one.context: one.state for one in found} == {
        "garden.txt/1": "done",
        "garden.txt/2": "empty",
        "garden.txt/3": "unsure",
        "garden.txt/4": "empty",
        "garden.txt/5": "unsure",
        "garden.txt/6": "done",
        "garden.txt/7": "unsure",
        "garden.txt/8": "unsure",
        "garden.txt/9": "done",
        "garden.txt/10": "done",
        "garden.txt/11": "empty",
    }
    assert [one.translate for one in found] == [True] * 10 + [False]
    assert (found[0].notes, found[0].place) == ("Shown on the gate.\nKeep it short.", "line 6, unit 1")
    assert [one.most for one in open_file("limits.xlf")[1]] == [9, None]
    _, found = open_file("two.xlf")
    assert [(one.context, one.state, one.translate) for one in found] == [
        ("garden.html/u0", "empty", False),
        ("garden.html/u1/s1", "done", True),
        ("garden.html/u1/s2", "empty", True),
        ("garden.html/u1", "empty", True),
        ("garden.html/states", "unsure", True),
        ("garden.html/states", "done", True),
        ("garden.html/states", "done", True),
        ("garden.html/states", "unsure", True),
        ("garden.html/states", "done", True),
        ("f2/u1", "empty", True),
    ]
    assert (found[1].notes, found[3].place) == ("Shown on the gate.\nShort.", "line 18, unit u1, segment 3")
    assert found[-1].source == ("  The same id in another file  ",)


def seg(mid: int, some: str) -> str:
    return f'<mrk mtype="seg" mid="{mid}">{some}</mrk>'


FIRST, SECOND = seg(1, "One."), seg(2, "Two.")
CUT = f"<source>One. Two.</source><seg-source>{FIRST} {SECOND}</seg-source>"
MARKED = f"<source>{FIRST} {SECOND}</source>"


@pytest.mark.parametrize(
    ("source", "target", "state"),
    [
        (CUT, seg(1, "Eins.") + " " + seg(2, "Zwei."), "done"),
        (CUT, seg(2, "Zwei.") + " " + seg(1, "Eins."), "done"),
        (CUT, seg(1, "Erster.") + ' <mrk mtype="seg" mid="2"/>', "unsure"),
        (CUT, seg(1, " ") + " " + seg(2, "Zwei."), "unsure"),
        (CUT, seg(1, "Eins.") + seg(2, '<x id="1"/>'), "unsure"),
        (CUT, seg(1, "Eins."), "unsure"),  # the other has none at all
        (CUT, "Eins. Zwei.", "done"),  # not divided
        (CUT, seg(1, "") + seg(2, ""), "empty"),
        (MARKED, seg(1, "Eins.") + seg(2, ""), "unsure"),
        (MARKED, seg(1, "Eins.") + seg(2, "Zwei."), "done"),
        ("<source>One. Two.</source>", seg(1, "Eins.") + seg(2, ""), "unsure"),
        ("<source>One. Two.</source>", seg(1, "Eins. Zwei."), "done"),
        (CUT.replace("Two.</mrk>", '<x id="1"/></mrk>'), seg(1, "Eins.") + seg(2, ""), "done"),  # nothing to translate
        (
            MARKED.replace(' mid="1"', "").replace(' mid="2"', ""),
            '<mrk mtype="seg"/><mrk mtype="seg">b</mrk>',
            "unsure",
        ),
        (CUT, seg(1, "Eins.") + '<mrk mtype="term" mid="2"/>' + seg(2, "Zwei."), "done"),
    ],
)
def test_a_target_that_lacks_a_sentence_is_not_finished_unless_it_says_so(source: str, target: str, state: str) -> None:
    unit = '<trans-unit id="1"{}>' + source + "<target{}>" + target + "</target></trans-unit>"
    for told in ("", ' state="x-mine"'):
        (segment,) = one(unit.format("", told)).segments()
        assert segment.state == state
    for told in ((' approved="yes"', ""), ("", ' state="final"'), ("", ' state="translated"')):
        (segment,) = one(unit.format(*told)).segments()
        assert segment.state == ("empty" if state == "empty" else "done")


SUB = "text within a code (<sub>), kept as it is"


@pytest.mark.parametrize(
    ("source", "texts", "kept"),
    [
        ('a <ph id="1">x<sub>b</sub></ph>', ["a "], 1),
        ("H<sub>2</sub>O", ["H", "2", "O"], 0),  # not valid there
        ('<g id="1">a <sub>b <ph id="1">x<sub>c</sub></ph></sub></g>', ["a ", "b "], 1),
        ('a <mrk mtype="protected">b <sub>c</sub></mrk>', ["a "], 1),
        ('a <ph id="1">x<sub> </sub></ph>', ["a "], 0),
    ],
)
def test_text_within_a_code_is_counted_and_that_of_a_lone_sub_is_translated(
    source: str, texts: list[str], kept: int
) -> None:
    made = one(f'<trans-unit id="1"><source>{source}</source></trans-unit>')
    (segment,) = made.segments()
    assert [part for part in segment.source if isinstance(part, str)] == texts
    assert made.skipped.counts == ({SUB: kept} if kept else {})


def test_an_id_of_several_lines_is_told_on_one() -> None:
    unit = '<trans-unit id="Two&#10;lines"><source>a</source></trans-unit>'
    (segment,) = one(unit).segments()
    assert (segment.place, segment.context) == ("line 2, unit Two lines", "Two\nlines")
    with pytest.raises(FormatError, match=r"^a\.xlf: line 3, unit Two lines: line 2 has the same id.*$"):
        list(one(f"{unit}\n{unit}").segments())


def test_files_for_other_languages_and_units_without_text_are_counted() -> None:
    made, found = open_file("groups.xlf")
    assert [(text(one.source), one.translate) for one in found] == [
        ("Not this", False),
        ("But this", True),
        ("Deep", True),
        ("In a picture", True),
        ("Again 1", True),
    ]
    assert made.skipped.places == {"target-language is fr, not de": ["line 14, unit 1"]}
    assert open_file("plain.xlf")[0].skipped.places == {"nothing to translate": ["line 24, unit 12"]}
    assert open_file("inline.xlf")[0].skipped.counts["text within a code (<sub>), kept as it is"] == 1
    made = XLIFF(made.data, "groups.xlf")
    assert len(list(made.segments())) == 6
    made = XLIFF(made.data, "groups.xlf", "en-GB", "de-AT")
    assert len(list(made.segments())) == 5


@pytest.mark.parametrize("made", [one, two])
def test_a_file_for_another_variant_of_the_language_is_left_alone_and_counted(made: Callable[..., XLIFF]) -> None:
    attribute = made("").version.languages[1]
    body = {one: '<trans-unit id="u">{}</trans-unit>', two: "<segment>{}</segment>"}[made].format("<source>a</source>")
    for told, asked, is_read in [
        ("zh-CN", "zh-TW", 0),
        ("pt-PT", "pt-BR", 0),
        ("sr-Latn", "sr-Cyrl", 0),
        ("de", "de-AT", 1),
    ]:
        found = made(body, f' {attribute}="{told}"')
        found.target = asked
        assert len(list(found.segments())) == is_read
        assert list(found.skipped.counts) == ([] if is_read else [f"{attribute} is {told}, not {asked}"])


@pytest.mark.parametrize(
    ("old", "marked", "unmarked"),
    [
        ("<target>b</target>", '<target state="needs-review-translation">{}</target>', "<target>{}</target>"),
        (
            "<target state='final' >b</target >",
            '<target state="needs-review-translation" >{}</target >',
            "<target state='final' >{}</target >",
        ),
        (
            '<target state="new" state-qualifier="exact-match"/>',
            '<target state="needs-review-translation" state-qualifier="leveraged-mt">{}</target>',
            '<target state="translated" state-qualifier="exact-match">{}</target>',
        ),
        (
            '<target state="needs-l10n" state-qualifier="fuzzy-match">b</target>',
            '<target state="needs-review-translation" state-qualifier="leveraged-mt">{}</target>',
            '<target state="translated">{}</target>',
        ),
        ("", '\n <target state="needs-review-translation">{}</target>', "\n <target>{}</target>"),
    ],
)
def test_marks_of_1_2_replace_the_state_in_place(old: str, marked: str, unmarked: str) -> None:
    body = '<trans-unit id="1" approved="{}">\n <source>a</source>{}</trans-unit>'
    assert changed(one(body.format("yes", old)), "c", mark=True) == body.format("no", marked.format("c"))
    assert changed(one(body.format("no", old)), "c", mark=False) == body.format("no", unmarked.format("c"))
    for mark in (True, False):  # what was written is as it should be: nothing more to change
        done = changed(one(body.format("no", old)), "c", mark=mark)
        assert changed(one(done), "c", mark=mark) == done
        (segment,) = one(done).segments()
        assert segment.state == ("unsure" if mark else "done")


@pytest.mark.parametrize(
    ("old", "marked", "unmarked"),
    [
        # A segment that does not say is initial, and a sub-state goes with the state that it refines: both by 2.1.
        ("{}>", ' state="translated" subState="headway:machine">', ' state="translated">'),
        (
            '{} state="initial" subState="acme:raw">',
            ' state="translated" subState="headway:machine">',
            ' state="translated">',
        ),
        ('{} subState="acme:raw">', ' subState="headway:machine" state="translated">', ' state="translated">'),
        ('{} state="initial">', ' state="translated" subState="headway:machine">', ' state="translated">'),
        (
            "{} id='1' state='reviewed' subState='my:x' >",
            ' id=\'1\' state="translated" subState="headway:machine" >',
            " id='1' state='reviewed' subState='my:x' >",
        ),
        (
            '{} state="translated" subState="headway:machine">',
            ' state="translated" subState="headway:machine">',
            ' state="translated">',
        ),
    ],
)
@pytest.mark.parametrize("target", ["", "<target>b</target>", "<target/>"])
def test_marks_of_2_x_are_a_state_and_a_sub_state(old: str, marked: str, unmarked: str, target: str) -> None:
    for mark, new in ((True, marked), (False, unmarked)):
        expected = f"<segment{new}<source>a</source><target>c</target></segment>"
        assert changed(two(f"<segment{old.format('')}<source>a</source>{target}</segment>"), "c", mark=mark) == expected
        assert changed(two(expected), "c", mark=mark) == expected
        (segment,) = two(expected).segments()
        assert segment.state == ("unsure" if mark else "done")


@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("state", ["new", "needs-review-translation", "translated"])
def test_an_empty_translation_of_a_guess_takes_nothing_away(state: str, mark: bool) -> None:
    made = one(f'<trans-unit id="1"><source>a</source><target state="{state}">b</target></trans-unit>')
    with pytest.raises(FormatError, match=r"a\.xlf: line 2, unit 1: the translation is empty"):
        changed(made, "", mark=mark)
    segment = '<segment state="initial"><source>a</source>{}</segment>'
    with pytest.raises(FormatError, match="line 2, unit u, segment 1: the translation is empty"):
        changed(two(segment.format("<target>b</target>")), " ", mark=mark)
    for none in ("", "<target/>"):
        assert changed(two(segment.format(none)), "", mark=mark) == segment.format(none)


SM, EM = '<sm id="1" translate="no"/>', '<em startRef="1"/>'
ENDLESS = '<sm translate="no"> has no end in its segment, whose rest is kept as it is'


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (f"[{SM}Acme Moon{EM}] is good", False),
        (f"The [<pc id='2'>][{SM}A &amp; <ph id='3'/>{EM}][</pc>]!", False),
        (f"a [{SM}b <![CDATA[<c>]]> {EM}]d", False),
        (f"[{SM}a{EM}] b [<sm id='5' translate='no'/>c<em startRef='5'/>]", False),
        (f"[{SM}a <sm id='5' type='comment'/>b<em startRef='5'/>{EM}] c", False),
        # It ends in another element than it begins in: the texts are kept one by one.
        (f"a [<pc id='2'>]b [{SM}][c][<!--d-->][</pc>][ <![CDATA[e]]>&#65;][{EM}] f", False),
        (f"a [{SM}][b ][<pc id='2'>][c][{EM}] d[</pc>] e", False),
        (f"[<pc id='2'>][{SM}][a][</pc>][{EM}] b [{SM}c{EM}] d", False),
        # It does not end here.
        (f"a [{SM}][b ][<em startRef='2'/>][ c]", True),
        # It protects nothing.
        ("[<sm id='1' type='comment'/>]a[<em startRef='1'/>] b", False),
    ],
)
def test_text_that_an_annotation_protects_is_a_code(shown: str, told: bool) -> None:
    """By XLIFF 2.1, Translate Annotation: from `<sm>` to `<em>` it is what `<mrk>` is. In brackets: codes."""
    spelt = re.sub(r"(?<!CDATA)\[(?!CDATA)|\](?!\]|>)", "", shown)
    made = two(f"<segment><source>{spelt}</source><target>{spelt}</target></segment>")
    (segment,) = made.segments()
    assert "".join(part if isinstance(part, str) else f"[{part.raw}]" for part in segment.source) == shown
    assert segment.target == segment.source
    assert made.skipped.places == ({ENDLESS: ["line 2, unit u, segment 1"]} if told else {})
    assert made.edits(segment, segment.source, mark=False) == []
    written = root_of(b"".join(splice(made.data, made.edits(segment, (*segment.source, " neu"), mark=False))))
    before, after = (written.find(f".//{{*}}{name}") for name in ("source", "target"))
    assert seen(after) == f"{seen(before)} neu"


WRAPPED = "<source>This option is only\n\t  used<x id='1'/>\r\n  when\n\n you print.</source>"


@pytest.mark.parametrize(
    ("file", "unit", "source", "is_kept"),
    [
        ("", "", "", False),
        (' xml:space="default"', "", "", False),
        (' xml:space="preserve"', "", "", True),
        ("", ' xml:space="preserve"', "", True),
        ("", "", ' xml:space="preserve"', True),
        (' xml:space="preserve"', ' xml:space="default"', "", False),
        (' xml:space="preserve"', "", ' xml:space="default"', False),
    ],
)
def test_white_space_around_a_line_break_is_one_space_unless_it_is_preserved(
    file: str, unit: str, source: str, is_kept: bool
) -> None:
    """By XML 1.0, 2.10 White Space Handling; `normalize-space` is XPath's."""
    body = f"<trans-unit id='1'{unit}>{WRAPPED.replace('<source>', f'<source{source}>')}</trans-unit>"
    made = one(body, file)
    (segment,) = made.segments()
    root = root_of(made.data)
    assert text(segment.source) == (
        root.xpath("string(//source)") if is_kept else root.xpath("normalize-space(//source)")
    )
    made = two(f"<segment>{WRAPPED.replace('<source>', f'<source{source}>').replace('x id', 'ph id')}</segment>")
    assert text(next(made.segments()).source) == (
        text(segment.source) if source and is_kept else "This option is only used when you print."
    )


def test_a_translation_that_stands_there_over_several_lines_stays_so() -> None:
    body = "<trans-unit id='1'>\n<source>a\n b</source>\n<target>ä\n  <![CDATA[ö]]> https://x.org/?a&amp;b</target></trans-unit>"
    made = one(body)
    (segment,) = made.segments()
    assert segment.target == ("ä ö https://x.org/?a&b",)
    assert made.edits(segment, find_parts(segment.target), mark=False) == []
    assert made.edits(segment, ("ä  ö https://x.org/?a&b",), mark=False) != []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_break_that_is_meant_is_a_reference_and_is_written_as_one(encoding: str) -> None:
    body = "<trans-unit id='1'>\n<source>a \n &#10; b&#xA;c\n</source></trans-unit>"
    made = XLIFF(one(body).data.decode().encode(encoding), "a.xlf", "en", "de")
    (segment,) = made.segments()
    assert segment.source == ("a \n b\nc ",)
    data = b"".join(splice(made.data, made.edits(segment, ("ä\n\nb \n",), mark=False)))
    assert root_of(data).find(".//target").text == "ä\n\nb \n"
    assert [one.target for one in XLIFF(data, "a.xlf").segments()] == [("ä\n\nb \n",)]


def test_the_target_language_is_added_where_the_file_lacks_it() -> None:
    body = "<segment><source>a</source></segment>" * 3
    made = two(body, "")
    for _ in range(2):  # each reading of the file begins anew
        segments = list(made.segments())
        edits = [edit for segment in segments[1:] for edit in made.edits(segment, ("b",), mark=False)]
        data = b"".join(splice(made.data, edits)).decode()
        assert data.startswith(
            '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">'
        )
        assert data.count("trgLang") == 1
    unit = '<trans-unit id="1"><source>a</source></trans-unit>'
    assert changed(one(unit, ""), "b", mark=False) == unit.replace("</t", '<target xml:lang="de">b</target></t')
    made = XLIFF(two(body, "").data, "a.xlf")
    with pytest.raises(FormatError, match="names no target language, and none was given"):
        made.edits(next(made.segments()), ("b",), mark=False)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_file_without_a_version_is_of_that_of_its_namespace(version: str) -> None:
    space = f'xmlns="urn:oasis:names:tc:xliff:document:{version}"'
    unit = '<trans-unit id="1"><source>One <x id="c"/></source><target/></trans-unit>'
    for told in ("", f' version="{version}"'):
        made = XLIFF(f"<xliff {space}{told}><file><body>\n{unit}\n</body></file></xliff>".encode(), "a.xlf")
        assert [text(segment.source) for segment in made.segments()] == ["One "]
        assert changed(made, "Eins", mark=False) == unit.replace("<target/>", "<target>Eins</target>")
    with pytest.raises(FormatError, match=r"is XLIFF .*1\.0\. Convert it"):
        list(XLIFF(f"<xliff {space.replace(version, '1.0')}/>".encode(), "a.xlf").segments())


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (one("", version="1.0"), ["line 1: is XLIFF 1.0. Convert it to one of XLIFF 1.1, 1.2, 2.0, 2.1"]),
        (XLIFF(b"<xliff/>", "a.xlf"), ["line 1: is XLIFF of no version. Convert it"]),
        (XLIFF(b"<a version='1.2'/>", "a.xlf"), ["line 1: is no XLIFF, but a <a>"]),
        (
            XLIFF(two("").data.replace(b'"2.0"', b'"1.2"'), "a.xlf"),
            ["says version 1.2, and its namespace is urn:oasis"],
        ),
        (
            one('<trans-unit id="1"/>\n<trans-unit id="1"><source>a</source></trans-unit>'),
            ["line 2, unit 1: has not one <source>", "line 3, unit 1: line 2 has the same id in the same <file>"],
        ),
        (
            one('<trans-unit id="1"><source>a</source></trans-unit>' * 2 + "<trans-unit>\n"),
            ["line 2, unit 1: line 2 has the same id", "line 4, column 3: is no well-formed XML: mismatched tag"],
        ),
        (
            two('<segment id="s"><source>a</source></segment>\n<segment><source>b</source></segment>\n' * 2),
            ["line 4, unit u, segment s: segment 1 of this unit has the same id. Give each its own"],
        ),
        (
            one('<trans-unit id="1" maxwidth="wide" size-unit="char"><source>a</source><target/></trans-unit>'),
            ["line 2, unit 1: maxwidth is 'wide'. Make it a whole number"],
        ),
        (
            one('<trans-unit id="1"><source>a</source><target/><target/></trans-unit>'),
            ["line 2, unit 1: has not one <source> and at most one <target>"],
        ),
    ],
)
def test_faults_are_told_with_their_lines_all_at_once(made: XLIFF, told: list[str]) -> None:
    with pytest.raises(FormatError) as caught:
        list(made.segments())
    assert len(caught.value.faults) == len(told)
    for fault, expected in zip(caught.value.faults, told, strict=True):
        assert expected in fault
    assert all(line.startswith("a.xlf: line ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    "made",
    [
        one('<trans-unit id="1"><source>a</source></trans-unit>\n' * 90),
        two('<segment id="1"><source>a</source></segment>\n' * 90),
    ],
)
def test_many_faults_are_told_up_to_a_limit(made: XLIFF) -> None:
    with pytest.raises(FormatError) as caught:
        list(made.segments())
    assert len(caught.value.faults) == 20
    assert [fault.partition(",")[0] for fault in caught.value.faults] == [f"line {3 + number}" for number in range(20)]


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"], include_characters="\n\t\r"), max_size=12)


def escaped(some: str) -> str:
    return some.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;").replace("\r", "&#xD;")


FLAT = st.one_of(
    TEXTS.map(escaped),
    TEXTS.map(lambda some: "".join(f"&#{ord(character)};" for character in some)),
    TEXTS.map(lambda some: f"<![CDATA[{some.replace(']]>', '')}]]>"),
    TEXTS.map(lambda some: f"<!--{some.replace('-', '')}-->"),
    TEXTS.map(lambda some: f"<mrk id='m' translate='no'>{escaped(some)}</mrk>"),
    st.integers(0, 9).map("<ph id='{}'/>".format),
)
CONTENT = st.lists(FLAT | st.lists(FLAT, max_size=3).map("".join).map("<pc id='a'\n>{}</pc >".format), max_size=4).map(
    "".join
)
"""XML for some content, spelt in any of the ways that XML has."""
TARGET = st.sampled_from(["", "\n<target/>"]) | CONTENT.map("<target>{}</target>".format)


PRESERVE = ' xml:space="preserve"'


def spaced(found: list[tuple[str, str | None]], data: bytes) -> list[tuple[str, str | None]]:
    """As lxml reads them, where the file preserves white space; else with one for each run of white space."""
    if PRESERVE.strip().encode() in data.replace(b"\0", b""):
        return found
    return [tuple(some and re.sub("[ \t\n]+", " ", some) for some in pair) for pair in found]  # type: ignore[misc]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    version, prefix = draw(st.sampled_from([("1.2", "trans-unit"), ("2.0", "unit")])), draw(st.sampled_from(["", "x:"]))
    body = ""
    for number, (source, target) in enumerate(draw(st.lists(st.tuples(CONTENT, TARGET), min_size=1, max_size=4))):
        inner = f"<source>{source}</source>{target}"
        inner = inner if version[0] == "1.2" else f"<segment>{inner}</segment>"
        body += f"<{version[1]} id='{number}'>{inner}</{version[1]}>"
    if prefix:  # every element has it
        body = body.replace("<", "<x:").replace("<x:/", "</x:").replace("<x:!", "<!")
    space = f"xmlns{':x' if prefix else ''}='urn:oasis:names:tc:xliff:document:{version[0]}'"
    told = draw(st.sampled_from([PRESERVE, ""]))
    root = f"<{prefix}xliff version='{version[0]}' srcLang='en' {space}><{prefix}file source-language='en'{told}>"
    return f"{root}{body}</{prefix}file></{prefix}xliff>".encode(
        draw(st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files(), TEXTS)
def test_any_file_is_read_as_lxml_reads_it_and_written_so_that_it_reads_it(data: bytes, new: str) -> None:
    made = XLIFF(data, "a.xlf", "en", "de")
    found = list(made.segments())
    assert spaced([(text(one.source) or "", text(one.target)) for one in found], data) == spaced(
        pairs(root_of(data)), data
    )
    same = (edit for one in found if one.target is not None for edit in made.edits(one, one.target, mark=False))
    assert b"".join(splice(data, same)) == data
    for mark in (False, True):
        list(made.segments())
        edits = [edit for one in found for edit in made.edits(one, ("x", *codes(one.source), new), mark=mark)]
        after = root_of(b"".join(splice(data, edits)))
        assert [pair[1] for pair in pairs(after)] == ["x" + new] * len(found)
        assert [pair[0] for pair in pairs(after)] == [pair[0] for pair in pairs(root_of(data))]
