"""Documents through a "model" that shouts: what is translated, marked, remembered, checked and spliced in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from headway.data.memory import Match, Memory, Unit
from headway.data.readers import mapped
from headway.documents.terms import Term, Terms
from headway.documents.translate import Job, Report, sections
from headway.evaluate.report import page, to_json
from headway.formats.kinds import read_document
from headway.formats.segment import Document, FormatError
from headway.generate.parts import Translated
from headway.text.codes import Parts, find_parts, joined

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n\n'
CATALOG = (
    HEADER.format("UTF-8")
    + """\
msgid "Open the file"
msgstr ""

#, fuzzy, c-format
msgid "Save %s now"
msgstr "Alt"

msgid "Done"
msgstr "Fertig"

msgid "  Two words\\n"
msgstr ""
"""
)


def shout(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
    """Capitals, codes kept."""
    return [
        Translated(joined(p.upper() if isinstance(p, str) else p for p in find_parts(parts, kinds)), -1.0, 2)
        for parts, kinds in texts
    ]


def opened(text: str, name: str = "a.po", encoding: str = "utf-8") -> Document:
    return read_document(text.encode(encoding), name, "en", "de")


def run(document: Document, **options) -> tuple[str, Report]:
    report = Report()
    return b"".join(Job(shout, **options)(document, report)).decode(), report


def test_what_is_unfinished_is_translated_and_marked_and_the_rest_stays() -> None:
    found, report = run(opened(CATALOG))
    assert found == CATALOG.replace(
        'msgid "Open the file"\nmsgstr ""', '#, fuzzy\nmsgid "Open the file"\nmsgstr "OPEN THE FILE"'
    ).replace('msgstr "Alt"', 'msgstr "SAVE %s NOW"').replace(
        'msgid "  Two words\\n"\nmsgstr ""', '#, fuzzy\nmsgid "  Two words\\n"\nmsgstr "  TWO WORDS\\n"'
    )
    assert (report.segments, report.finished, report.origins, report.flagged) == (4, 1, {"model": 3}, 0)


def test_all_of_them_and_without_marks_where_asked_for() -> None:
    found, report = run(opened(CATALOG), everything=True, mark=False)
    assert "fuzzy" not in found
    assert "#, c-format\n" in found
    assert [f'msgstr "{text}"' in found for text in ("OPEN THE FILE", "SAVE %s NOW", "DONE", "  TWO WORDS\\n")] == [
        True
    ] * 4
    assert report.origins == {"model": 4}


def test_the_memory_is_reused_exactly_and_offered_where_it_is_alike() -> None:
    memory = Memory(
        [
            Unit(("Open the file",), ("Datei öffnen",)),
            Unit(("Save %d now",), ("%d jetzt sichern",)),
            Unit(("  Two more words\n",), ("  Noch zwei Wörter\n",)),
        ]
    )
    found, report = run(opened(CATALOG), memory=memory, min_score=60)
    assert 'msgid "Open the file"\nmsgstr "Datei öffnen"' in found  # as people wrote it: no mark
    assert '#, fuzzy, c-format\nmsgid "Save %s now"\nmsgstr "%s jetzt sichern"' in found  # with another code: a mark
    assert 'msgstr "  TWO WORDS\\n"' in found
    assert report.origins == {"memory": 1, "adapted": 1, "model": 1}
    ((offered,),) = [done.offered for done in report.shown if done.offered]
    assert (offered.target, offered.score) == (("  Noch zwei Wörter\n",), 66)


def test_what_the_memory_has_with_a_lost_or_swapped_code_is_marked_and_told() -> None:
    entries = '#, c-format\nmsgid "%d items on %s"\nmsgstr ""\n\n#, c-format\nmsgid "Save %s"\nmsgstr ""\n\n'
    memory = Memory(
        [
            Unit(("%d items on %s",), ("auf %s: %d Elemente",)),
            Unit(("Save %s",), ("Sichern",)),
            Unit(("Good",), ("gut",)),  # only a warning: begins with a small letter
        ]
    )
    text = HEADER.format("UTF-8") + entries + 'msgid "Good"\nmsgstr ""\n'
    found, report = run(opened(text), memory=memory)
    assert '#, fuzzy, c-format\nmsgid "%d items on %s"\nmsgstr "auf %s: %d Elemente"' in found
    assert '#, fuzzy, c-format\nmsgid "Save %s"\nmsgstr "Sichern"' in found
    assert '\n\nmsgid "Good"\nmsgstr "gut"' in found
    assert report.origins == {"memory": 3}
    assert report.rules == {"codes": 2, "capital": 1}
    assert run(opened(text), memory=memory, mark=False)[0].count("fuzzy") == 0


def test_a_faulty_match_of_the_memory_is_to_be_reviewed_in_xliff_too() -> None:
    unit = '<trans-unit id="1"><source>Save <x id="1"/> now</source></trans-unit>'
    head = '<xliff version="1.2"><file original="a" datatype="x" source-language="en" target-language="de"><body>'
    document = opened(f"{head}{unit}</body></file></xliff>", "a.xlf")
    (segment,) = document.segments()
    found, report = run(document, memory=Memory([Unit(segment.source, ("Jetzt sichern",))]))
    assert '<target state="needs-review-translation">Jetzt sichern</target>' in found
    assert (report.origins, report.rules) == ({"memory": 1}, {"codes": 1})


def test_one_form_of_a_plural_may_come_from_the_memory_and_marks_the_entry_for_the_other() -> None:
    plural = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    rule = '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
    text = HEADER.format("UTF-8").rstrip("\n") + "\n" + rule + "\n" + plural
    found, report = run(opened(text), memory=Memory([Unit(("%d file",), ("%d Datei",))]))
    assert '#, fuzzy\nmsgid "%d file"' in found
    assert 'msgstr[0] "%d Datei"\nmsgstr[1] "%d FILES"\n' in found
    assert report.origins == {"memory": 1, "model": 1}


def test_the_texts_before_each_go_with_it_where_the_model_wants_context() -> None:
    """Finished ones too, in whatever language they are written about: what the model reads is the source."""
    seen: list[tuple[str, ...]] = []

    def hear(texts: Sequence[tuple[Parts, frozenset[str]]], before: Sequence[Sequence[str]]) -> list[Translated]:
        seen.extend(tuple(some) for some in before)
        return shout(texts)

    b"".join(Job(hear, context=2)(opened(CATALOG), Report()))
    assert seen == [(), ("Open the file",), ("Save %s now", "Done")]


def test_accelerators_are_taken_off_and_put_back() -> None:
    entries = "".join(f'msgid "&{name}"\nmsgstr ""\n\n' for name in ("File", "Edit", "View", "Go", "Tools", "Help"))
    seen: list[Parts] = []

    def hear(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        seen.extend(parts for parts, _ in texts)
        return shout(texts)

    report = Report()
    found = b"".join(Job(hear)(opened(HEADER.format("UTF-8") + entries), report)).decode()
    assert seen[:2] == [("File",), ("Edit",)]
    assert 'msgstr "&FILE"' in found
    assert not report.flagged


def test_a_doubled_marker_is_read_as_one_character_and_written_doubled() -> None:
    sources = ("&Save && close", "Save && close", "R&&D", "Cats & dogs", "&One & two")
    header = HEADER.format('UTF-8\\n"\n"X-Accelerator-Marker: &')
    seen: list[Parts] = []

    def hear(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        seen.extend(parts for parts, _ in texts)
        return shout(texts)

    report = Report()
    entries = "".join(f'msgid "{source}"\nmsgstr ""\n\n' for source in sources)
    found = b"".join(Job(hear)(opened(header + entries), report)).decode()
    assert seen == [("Save & close",), ("Save & close",), ("R&D",), ("Cats & dogs",), ("One & two",)]
    assert re.findall('msgstr "(.+)"', found) == [
        "&SAVE && CLOSE",
        "SAVE && CLOSE",
        "R&&D",
        "CATS & DOGS",
        "&ONE & TWO",
    ]
    assert report.rules == {}


def test_what_could_not_be_written_is_shown() -> None:
    def late(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        """The hard break at the end, as a search leaves what it finds no place for."""
        (found,) = [find_parts(parts, kinds) for parts, kinds in texts]
        return [Translated(joined((found[0], " ", found[2], found[1])), -1.0, 2)]

    text, report = "- one\\\n  two\n", Report()
    document = opened(text, "a.md")
    assert b"".join(Job(late)(document, report)).decode() == text
    (done,) = report.shown
    assert done.findings[-1].message == (
        "line 1: a hard line break stands at an end of the translation, where Markdown has none. "
        "The file keeps its text there: write the translation by hand, with its codes where they belong"
    )
    assert "one two" in to_json("a.md", sections(report, document))


def test_what_the_file_cannot_hold_is_said_and_the_entry_stays() -> None:
    text = HEADER.format("ISO-8859-1") + 'msgid "a ŀ"\nmsgstr ""\n\nmsgid "b"\nmsgstr ""\n'.replace("ŀ", "é")

    def write(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        return [Translated(("日本" if "a" in str(parts) else "B",), -1.0, 1) for parts, _ in texts]

    report = Report()
    found = b"".join(Job(write)(opened(text, encoding="latin-1"), report)).decode("latin-1")
    assert 'msgid "a é"\nmsgstr ""' in found
    assert 'msgstr "B"' in found
    assert report.origins == {"none": 1, "model": 1}
    assert report.rules["unwritable"] == 1


def test_terms_that_are_broken_are_findings() -> None:
    terms = Terms([Term(("file",), ("Datei",))])
    _, report = run(opened(CATALOG), terms=terms)
    assert report.rules == {"terms": 1}
    (done,) = report.shown
    assert done.findings[0].message == "'file' must be 'Datei': broken"


def test_terms_are_looked_for_in_labels_without_their_accelerators_and_counted() -> None:
    names = ("E&dit file", "&Edit", "&View", "&Go", "&Tools", "&Help")
    entries = "".join(f'msgid "{name}"\nmsgstr ""\n\n' for name in names)
    terms = Terms([Term(("edit",), ("Bearbeiten",)), Term(("file",), ("Datei",)), Term(("go",), ("los",))])
    said = {"Edit file": "Datei Bearbeiten", "Edit": "Bearbeiten"}

    def say(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        return [Translated((said.get(str(parts[0]), "Nichts"),), -1.0, 1) for parts, _ in texts]

    report, header = Report(), HEADER.format('UTF-8\\n"\n"X-Accelerator-Marker: &')
    found = b"".join(Job(say, terms=terms)(opened(header + entries), report)).decode()
    assert "B&earbeiten" in found
    assert report.terms == {
        ("edit", "must be 'Bearbeiten'"): [2, 0],
        ("file", "must be 'Datei'"): [1, 0],
        ("go", "must be 'los'"): [0, 1],
    }
    assert [finding.message for done in report.shown for finding in done.findings if finding.rule == "terms"] == [
        "'Go' must be 'los': broken"
    ]
    table = next(section for section in sections(report, opened(CATALOG)) if section.title == "Terms")
    assert table.rows[0] == ["go", "must be 'los'", 0, 1]


def test_terms_are_found_in_translations_with_codes_and_white_space() -> None:
    terms = Terms([Term(("open",), ("öffnen",)), Term(("save",), ("sichern",))])
    memory = Memory([Unit(find_parts(("&Open %s",)), find_parts(("Ö&ffnen %s",)))])
    header = HEADER.format('UTF-8\\n"\n"X-Accelerator-Marker: &')
    entries = 'msgid "&Open %s"\nmsgstr ""\n\nmsgid "  Save it"\nmsgstr ""\n'
    report = Report()
    b"".join(Job(shout, terms=terms, memory=memory)(opened(header + entries), report))
    assert report.terms == {("open", "must be 'öffnen'"): [1, 0], ("save", "must be 'sichern'"): [0, 1]}
    (done,) = report.shown
    assert [(finding.message, finding.span) for finding in done.findings] == [
        ("'Save' must be 'sichern': broken", None)
    ]


def test_what_was_taken_from_the_memory_is_not_offered_as_well() -> None:
    used = Match(100, ("Two.",), ("Zwei.",), "line 1", exact=True)
    near = Match(80, ("One!",), ("Eins!",), "line 2")

    def answer(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        whole, rest = Translated(("Zwei.",), 0.0, 0, matches=(used,)), Translated(("X",), -1.0, 1, matches=(used, near))
        return [whole if parts == ("Two.",) else rest for parts, _ in texts]

    text = HEADER.format("UTF-8") + 'msgid "Two."\nmsgstr ""\n\nmsgid "One. Two."\nmsgstr ""\n'
    report = Report()
    b"".join(Job(answer)(opened(text), report))
    assert report.origins == {"memory": 1, "model": 1}
    assert [done.offered for done in report.shown] == [[near]]


def test_a_report_tells_all_and_is_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.documents.translate.SHOWN", 1)
    text = "# A <b>title</b>\n\n<div>kept</div>\n\nSome text, `code` and %s.\n"
    document = opened(text, "a.md")
    found, report = run(document)
    assert found == "# A <b>TITLE</b>\n\n<div>kept</div>\n\nSOME TEXT, `code` AND %s.\n"
    told = sections(report, document)
    html = page("a.md", told)
    assert "a block of HTML is not translated" in html
    assert "a block of HTML is not translated" in to_json("a.md", told)


def test_faults_are_told_before_anything_is_written() -> None:
    with pytest.raises(FormatError, match=r"a\.po: line 12: the same msgid and msgctxt as in line 5"):
        list(opened(CATALOG.replace('msgid "Done"', 'msgid "Open the file"')).segments())


def anonymous() -> int:
    """Bytes of this process that are no mapped file."""
    told = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"^RssAnon:\s*(\d+)", told, re.M)[1])  # pyright: ignore


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["po", "tmx"])
def test_a_file_of_100_megabytes_is_streamed(kind: str, tmp_path: Path) -> None:
    """Memory grows by less than half of the file, what is finished is left, and what is not is found."""
    path, text = tmp_path / f"big.{kind}", "Some text of a usual length, such as people write it in a program. " * 3
    units = {
        "po": 'msgid "{n} {text}"\nmsgstr "{target}"\n\n',
        "tmx": '<tu><tuv xml:lang="en"><seg>{n} {text}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg></tuv></tu>\n',
    }
    heads = {"po": HEADER.format("UTF-8"), "tmx": '<tmx version="1.4"><header srclang="en"/><body>\n'}
    number = 0
    with path.open("w") as file:
        file.write(heads[kind])
        while file.tell() < 100e6:
            for _ in range(1000):
                number += 1
                file.write(units[kind].format(n=number, text=text, target="" if number % 1000 == 0 else text))
        file.write("</body></tmx>\n" if kind == "tmx" else "")
    with mapped(path) as data:
        document, report, most, size = read_document(data, path.name, "en", "de"), Report(), 0, 0
        before = anonymous()
        for chunk in Job(shout)(document, report):
            most, size = max(most, anonymous()), size + len(chunk)
    assert most - before < 50e6  # PO keeps a hash of each entry, to find doubled ones
    assert report.segments == number
    assert report.origins == {"model": number // 1000}
    assert size > path.stat().st_size


def test_lines_of_text_take_from_the_memory_and_every_other_byte_stays() -> None:
    memory = Memory([Unit(("Open the file",), ("Datei öffnen",))])
    text = "\ufeffOpen the file\r\n\n  Save %s now\t\nlast"
    found, report = run(opened(text, "words"), memory=memory)
    assert found == "\ufeffDatei öffnen\r\n\n  SAVE %s NOW\t\nLAST"
    assert report.origins == {"memory": 1, "model": 2}


def test_a_blank_line_ends_what_is_context_for_lines() -> None:
    heard = list[tuple[str, ...]]()

    def hear(texts: Sequence[tuple[Parts, frozenset[str]]], before: Sequence[Sequence[str]]) -> list[Translated]:
        heard.extend(tuple(texts) for texts in before)
        return shout(texts)

    b"".join(Job(hear, context=2)(opened("a\nb\n \nc\nd\n", "words"), Report()))
    assert heard == [(), ("a",), (), ("c",)]


def test_lines_that_are_not_utf_8_are_told_by_number() -> None:
    with pytest.raises(FormatError) as error:
        list(opened("a\né\n\nü", "words", encoding="latin-1").segments())
    assert [fault.split(" is")[0] for fault in error.value.faults] == ["line 2, byte 1", "line 4, byte 1"]


def test_a_line_cannot_hold_two() -> None:
    document = opened("a\n", "words")
    (segment,) = document.segments()
    with pytest.raises(FormatError, match="line 1: a line cannot hold"):
        document.edits(segment, ("x\ny",), mark=False)


def test_the_memory_finds_a_text_within_white_space_and_the_report_counts_what_it_shows() -> None:
    memory = Memory([Unit(("Save",), ("Sichern",)), Unit(("Two long words",), ("Zwei lange Wörter",))])
    found, report = run(opened("  Save \t\nTwo words\nx y z\n", "words"), memory=memory, min_score=60)
    assert found == "  Sichern \t\nTWO WORDS\nX Y Z\n"
    assert report.origins == {"memory": 1, "model": 2}
    assert report.flagged == len(report.shown) == 1
