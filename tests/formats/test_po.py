"""PO catalogs. polib is the independent reader, msgfmt (where it is installed) the judge of what was written."""

from __future__ import annotations

import gettext
import io
import mmap
import re
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import CorpusConfig
from headway.data.memory import Memory
from headway.data.readers import find_parts
from headway.data.tally import Tally
from headway.formats.po import PO
from headway.formats.segment import FormatError, Segment, splice
from headway.text.codes import plain

FILES = sorted((Path(__file__).parent / "files" / "po").iterdir())
BEYOND_POLIB = {"odd_layout.po"}  # several strings on one line, escapes by number: polib reads neither
BEYOND_MSGFMT = {"mark_and_no_last_break.po", "template.pot", "no_header.po"}  # a mark; placeholders; no charset

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\nPlural-Forms: {}\\n"\n\n'
ENGLISH = "nplurals=2; plural=n != 1;"


def po(text: str | bytes) -> PO:
    return PO(text if isinstance(text, bytes) else text.encode(), "x.po")


def written(data: str | bytes, *targets: str | None, mark: bool = False) -> bytes:
    """The file with the n-th text written for the n-th segment; None leaves one alone."""
    made = po(data)
    segments = list(made.segments())
    pairs = zip(segments, targets, strict=True)
    changes = [edit for segment, text in pairs if text is not None for edit in made.edits(segment, (text,), mark=mark)]
    return b"".join(splice(made.data, changes))


def texts(segments: list[Segment]) -> list[str]:
    return [plain(segment.target or ()) for segment in segments]


def expected(catalog: polib.POFile) -> list[tuple[str, str, str, str, set[str], str]]:
    """What polib makes of a file: source, target, context, state, flags, notes of each text to translate."""
    found = []
    for entry in catalog:
        if entry.obsolete or not entry.msgid.strip():
            continue
        forms = [(None, entry.msgstr)] if not entry.msgid_plural else sorted(entry.msgstr_plural.items())
        for form, target in forms:
            state = "empty" if not target else "unsure" if entry.fuzzy else "done"
            context = (entry.msgctxt or "") + ("" if form is None else f" msgstr[{form}]")
            found.append((entry.msgid, target, context.strip(), state, set(entry.flags), entry.comment))
    return found


@pytest.mark.parametrize("path", [path for path in FILES if path.name not in BEYOND_POLIB], ids=lambda path: path.name)
def test_polib_reads_the_same_texts_contexts_states_flags_and_notes(path: Path) -> None:
    found = [
        (plain(segment.source), *texts([segment]), segment.context, segment.state, set(segment.flags), segment.notes)
        for segment in PO(path.read_bytes(), path.name).segments()
    ]
    catalog = expected(polib.pofile(path.read_text(encoding="utf-8-sig")))
    assert [row[1:] for row in found] == [row[1:] for row in catalog]
    singular = [(row[0], other[0]) for row, other in zip(found, catalog, strict=True) if "msgstr[" not in row[2]]
    assert all(source == other for source, other in singular)


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext's msgfmt is not installed")
@pytest.mark.parametrize("mark", [False, True])
@pytest.mark.parametrize("path", [path for path in FILES if path.name not in BEYOND_MSGFMT], ids=lambda path: path.name)
def test_msgfmt_compiles_what_was_written_and_gettext_finds_it(path: Path, mark: bool) -> None:
    made = PO(path.read_bytes(), path.name)
    segments = list(made.segments())
    shown = [f"{plain(segment.source)} ü «{number}» \\ \t" for number, segment in enumerate(segments)]
    changes = [edit for s, text in zip(segments, shown, strict=True) for edit in made.edits(s, (text,), mark=mark)]
    data = b"".join(splice(made.data, changes))
    # Fuzzy entries are compiled only where asked for.
    command = ["msgfmt", "--use-fuzzy", "-o", "-", "-"] if mark else ["msgfmt", "-o", "-", "-"]
    compiled = subprocess.run(command, input=data, capture_output=True, check=True).stdout
    catalog = gettext.GNUTranslations(io.BytesIO(compiled))._catalog  # type: ignore[attr-defined]
    states = [segment.state for segment in PO(data, path.name).segments()]
    meant = {text for text, state in zip(shown, states, strict=True) if state == "done" or mark}
    assert len(meant) >= len(shown) - 3  # an entry of several forms that was fuzzy stays so, and is left out
    assert meant <= set(catalog.values())


# From the manual of GNU gettext, "Plural forms", the number 1 put in by hand; one with the singular in another place.
RULES = {
    "nplurals=1; plural=0;": None,
    "nplurals=2; plural=n != 1;": 0,
    "nplurals=2; plural=n>1;": 0,
    "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2;": 0,
    "nplurals=4; plural=n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0;": 1,
    "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5": 1,
}


@pytest.mark.parametrize(("rule", "singular"), RULES.items())
def test_the_form_of_the_number_one_is_shown_the_singular_and_the_others_the_plural(rule: str, singular: int) -> None:
    forms = int(rule[len("nplurals=")])
    entry = 'msgctxt "c"\nmsgid "a day"\nmsgid_plural "days"\n' + "".join(f'msgstr[{n}] "{n}"\n' for n in range(forms))
    segments = list(po(HEADER.format("UTF-8", rule) + entry).segments())
    assert [plain(segment.source) == "a day" for segment in segments] == [n == singular for n in range(forms)]
    assert len({segment.context for segment in segments}) == forms
    assert texts(segments) == [str(n) for n in range(forms)]


def test_without_a_rule_an_entry_has_the_forms_that_it_has() -> None:
    entry = 'msgid "a"\nmsgid_plural "b"\n'
    assert [plain(s.source) for s in po(entry + 'msgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""').segments()] == [
        "a",
        "b",
        "b",
    ]
    assert [plain(s.source) for s in po(entry + 'msgstr[0] ""').segments()] == ["a"]


@pytest.mark.parametrize(
    ("written_so", "meant"),
    [
        (r"\a\b\f\n\r\t\v\\\"", '\a\b\f\n\r\t\v\\"'),  # "\a" to "\"" as in C
        (r"\101\x42\60\x7a", "AB0z"),
        (r"\303\244\xe6\x97\xa5", "ä日"),  # bytes of the file's encoding, here UTF-8
        (r"\\n\\\\", r"\n\\"),
        (r"é\"é", 'é"é'),
    ],
)
def test_escapes_mean_what_they_mean_in_c(written_so: str, meant: str) -> None:
    (segment,) = po(f'msgid "x{written_so}"\nmsgstr "{written_so}x"').segments()
    assert (plain(segment.source), plain(segment.target or ())) == ("x" + meant, meant + "x")


def test_an_escape_by_number_is_a_byte_in_the_encoding_of_the_file() -> None:
    made = po((HEADER.format("ISO-8859-1", ENGLISH) + 'msgid "x"\nmsgstr "\\344"').encode())
    assert texts(list(made.segments())) == ["ä"]


ENCODED = {
    "ISO-8859-1": "Fähre",
    "KOI8-R": "Паром",
    "windows-1252": "“Fähre”",
    "Shift_JIS": "表示",  # 表 has a backslash as its second byte
    "GB18030": "渡船",
    "BIG5": "功能",  # 功 too
    "EUC-JP": "船",
}


@pytest.mark.parametrize(("charset", "text"), ENCODED.items())
def test_a_file_is_read_and_written_in_the_encoding_that_it_declares(charset: str, text: str) -> None:
    data = (HEADER.format(charset, ENGLISH) + f'# {text}\nmsgid "ferry"\nmsgstr "{text}"\n').encode(charset)
    assert texts(list(po(data).segments())) == [text]
    assert written(data, text) == data
    assert written(data, text + text, mark=True).decode(charset) == data.decode(charset).replace(
        f'msgid "ferry"\nmsgstr "{text}"', f'#, fuzzy\nmsgid "ferry"\nmsgstr "{text}{text}"'
    )


def test_what_the_encoding_cannot_hold_is_refused_with_the_remedy() -> None:
    with pytest.raises(FormatError, match=r'line 4, msgid "sea": ISO-8859-1 cannot hold .日.*msgconv -t UTF-8'):
        written(HEADER.format("ISO-8859-1", ENGLISH) + 'msgid "sea"\nmsgstr ""', "日")
    with pytest.raises(FormatError, match="utf-8 cannot hold"):
        written('msgid "sea"\nmsgstr ""', "\udc80")
    with pytest.raises(FormatError, match="U\\+0000"):
        written('msgid "sea"\nmsgstr ""', "a\0b")


def entry_of(*lines: str) -> bytes:
    return "\n".join(lines).encode()


MARKED = {
    "alone": (["# to you", "#. to all", "#: a.c:1", 'msgid "a"', 'msgstr ""'], 3, "#, fuzzy"),
    "before what it was": (["#: a.c:1", '#| msgid "b"', 'msgctxt "c"', 'msgid "a"', 'msgstr ""'], 1, "#, fuzzy"),
    "before the context": (['msgctxt "c"', 'msgid "a"', 'msgstr ""'], 0, "#, fuzzy"),
}


@pytest.mark.parametrize(("lines", "at", "line"), MARKED.values(), ids=MARKED)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_a_mark_is_a_line_of_flags_in_its_place(lines: list[str], at: int, line: str, eol: str) -> None:
    marked = [*lines[:at], line, *lines[at:-1], 'msgstr "A"']
    assert written(eol.join(lines), "A", mark=True) == eol.join(marked).encode()


@pytest.mark.parametrize(
    ("flags", "marked"),
    [
        ("#, c-format", "#, fuzzy, c-format"),
        ("#,c-format, no-wrap", "#, fuzzy,c-format, no-wrap"),
        ("#,", "#, fuzzy"),
        ("#, c-format, fuzzy", "#, c-format, fuzzy"),
    ],
)
def test_a_mark_comes_first_among_the_flags_that_there_are_and_once(flags: str, marked: str) -> None:
    data = entry_of(flags, 'msgid "a"', 'msgstr "A"')
    assert written(data, "A", mark=True) == entry_of(marked, 'msgid "a"', 'msgstr "A"')
    assert written(written(data, "A", mark=True), "A", mark=True) == entry_of(marked, 'msgid "a"', 'msgstr "A"')


PLURAL = entry_of("#: a.c:1", 'msgid "a"', 'msgid_plural "b"', 'msgstr[0] ""', 'msgstr[1] ""', "")


@pytest.mark.parametrize("forms", [("A", "B"), ("A", None), (None, "B")])
def test_an_entry_of_several_forms_is_marked_once_whichever_is_written(forms: tuple[str | None, ...]) -> None:
    lines = ["#: a.c:1", "#, fuzzy", 'msgid "a"', 'msgid_plural "b"']
    lines += [f'msgstr[{number}] "{text or ""}"' for number, text in enumerate(forms)]
    assert written(PLURAL, *forms, mark=True) == entry_of(*lines, "")


def test_a_form_that_is_refused_does_not_take_the_mark_along() -> None:
    made = po(PLURAL)
    one, other = made.segments()
    with pytest.raises(FormatError):
        made.edits(one, ("A\n",), mark=True)
    assert [edit.data for edit in made.edits(other, ("B",), mark=True)] == [b"#, fuzzy\n", b'"B"']


def test_asking_twice_for_the_edits_of_a_form_gives_the_same() -> None:
    made = po(PLURAL)
    one, other = made.segments()
    first = made.edits(one, ("A",), mark=True)
    second = made.edits(other, ("B",), mark=True)
    assert [len(first), len(second)] == [2, 1]
    assert made.edits(other, ("B",), mark=True) == second
    assert made.edits(one, ("A",), mark=True) == first
    list(made.segments())  # another reading begins anew: a form written alone is marked
    assert len(made.edits(other, ("B",), mark=True)) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["#, fuzzy", '#| msgid "b"'], []),
        (["#: a.c:1", "#, fuzzy, c-format", '#| msgid ""', '#| "b"'], ["#: a.c:1", "#, c-format"]),
        (["  #,c-format,fuzzy ", "#. note"], ["  #, c-format ", "#. note"]),
        (["#, c-format", '#| msgid "b"'], ["#, c-format", '#| msgid "b"']),
    ],
)
def test_a_finished_translation_takes_the_mark_away_and_what_it_was_guessed_from(
    before: list[str], after: list[str]
) -> None:
    old, new = ['msgid "a"', 'msgstr "A"', ""], ['msgid "a"', 'msgstr "Z"', ""]
    assert written(entry_of(*before, *old), "Z") == entry_of(*after, *new)
    assert written(entry_of(*before, *old), "A") == entry_of(*before, *old)


def test_one_form_of_a_fuzzy_entry_leaves_it_fuzzy_since_the_others_are_guesses_still() -> None:
    data = entry_of("#, fuzzy", 'msgid "a"', 'msgid_plural "b"', 'msgstr[0] "A"', 'msgstr[1] "B"')
    assert written(data, "Z", None) == data.replace(b'"A"', b'"Z"')


SEVERAL = HEADER.format("UTF-8", "nplurals=3; plural=n>1;") + 'msgid "a"\nmsgid_plural "b"\n'


def run(data: bytes, *, mark: bool = True, everything: bool = False) -> tuple[bytes, list[str]]:
    """A file with `machine` in each text that is unfinished, or in all; and what was refused."""
    made, edits, refused = po(data), [], []
    for segment in made.segments():
        try:
            if everything or segment.state != "done":
                edits += made.edits(segment, ("machine",), mark=mark)
        except FormatError as error:
            refused += error.faults
    return b"".join(splice(data, edits)), refused


def forms(data: bytes) -> tuple[list[str], bool]:
    """The plural forms of the first entry as polib reads them, and whether it is fuzzy."""
    entry = polib.pofile(data.decode())[0]
    return [entry.msgstr_plural[number] for number in range(3)], entry.fuzzy


@pytest.mark.parametrize("old", [("A", "", ""), ("", "B", ""), ("", "", "C"), ("A", "", "C"), ("A", "B", "C")])
def test_forms_that_a_person_finished_are_neither_marked_nor_replaced_by_any_run(old: tuple[str, ...]) -> None:
    data = (SEVERAL + "".join(f'msgstr[{number}] "{text}"\n' for number, text in enumerate(old))).encode()
    once, refused = run(data)
    assert (once, run(once)[0]) == (data, data)
    finished = ", ".join(f"msgstr[{number}]" for number, text in enumerate(old) if text)
    places = [f'line 4, msgid "a", msgstr[{number}]: ' for number, text in enumerate(old) if not text]
    assert len(refused) == len(places)
    for place, fault in zip(places, refused, strict=True):
        assert fault.startswith(place)
        assert f"said of {finished} too" in fault
    unmarked, refused = run(data, mark=False)
    assert (forms(unmarked), refused) == (([text or "machine" for text in old], False), [])
    assert run(unmarked)[0] == unmarked


def test_an_entry_without_a_finished_form_is_filled_and_marked_and_so_is_one_whose_forms_are_all_made_anew() -> None:
    empty, guess = (f'{SEVERAL}msgstr[0] "{text}"\nmsgstr[1] ""\nmsgstr[2] ""\n' for text in ("", "A"))
    guess = guess.replace('msgid "a"', '#, fuzzy\nmsgid "a"')
    for data in (empty, guess):
        made, refused = run(data.encode())
        assert (forms(made), refused) == ((["machine"] * 3, True), [])
    made, refused = run(guess.replace("#, fuzzy\n", "").encode(), everything=True)
    assert (forms(made), refused) == ((["machine"] * 3, True), [])


def test_an_empty_translation_takes_nothing_away_neither_text_nor_mark() -> None:
    for lines in (["#, fuzzy", 'msgid "a"', 'msgstr "A"'], ['msgid "a"', 'msgstr "A"']):
        for mark in (True, False):
            with pytest.raises(FormatError, match=r'x\.po: line \d, msgid "a": the translation is empty'):
                written(entry_of(*lines), " \n", mark=mark)
    data = entry_of('msgid "a"', 'msgstr ""')
    assert written(data, "", mark=True) == data


LONG = (
    "The kettle whistles, the window is open, and outside the rain has been falling since the early morning without a "
    "pause or any sign of one; nobody minds at all.\nSecond line."
)
# What msgcat 0.21 writes of it.
LONG_AS_GETTEXT = """msgstr ""
"The kettle whistles, the window is open, and outside the rain has been "
"falling since the early morning without a pause or any sign of one; nobody "
"minds at all.\\n"
"Second line."
"""
LONG_UNWRAPPED = f'''msgstr ""
"{LONG.splitlines()[0]}\\n"
"Second line."
'''


def test_a_translation_is_wrapped_as_gettext_does_where_the_file_wraps_and_not_where_it_does_not() -> None:
    wrapped = 'msgid "a"\nmsgstr ""\n"one "\n"two"\n\nmsgid "b"\n'
    assert written(wrapped + 'msgstr "B"\n', None, LONG).decode() == wrapped + LONG_AS_GETTEXT
    plain_file = 'msgid "a\\n"\nmsgstr ""\n"one\\n"\n"two\\n"\n\nmsgid "b"\n'
    assert written(plain_file + 'msgstr "B"\n', None, LONG).decode() == plain_file + LONG_UNWRAPPED
    assert written(plain_file + 'msgstr "B"', None, "x" * 200).decode() == plain_file + f'msgstr "{"x" * 200}"'


def test_a_wrapped_line_has_79_columns_or_less_also_of_wide_characters() -> None:
    text = "漢字かな交じり文は、語の間に空白がありません。" * 9 + "word " * 40 + "e\u0301" * 30
    data = written('msgid "a"\nmsgstr "one "\n"two"\n', text)
    assert texts(list(po(data).segments())) == [text]
    lines = data.decode().splitlines()[2:]
    assert len(lines) > 5
    # In Shift JIS a wide character is two bytes, and combining ones are left out.
    assert max(len(line.encode("shift_jis", "ignore")) for line in lines) <= 79
    assert not any(line.startswith(('"。', '"、')) for line in lines)


@pytest.mark.parametrize("text", ["a", "\na", "a\n"])
@pytest.mark.parametrize("source", ["b", "\nb", "b\n", "\nb\n"])
def test_line_breaks_at_the_ends_must_be_those_of_the_msgid(source: str, text: str) -> None:
    data = f'msgid "{source}"\nmsgstr "old"\n'.replace("\nb", "\\nb").replace('b\n"', 'b\\n"')
    same = (source.startswith("\n"), source.endswith("\n")) == (text.startswith("\n"), text.endswith("\n"))
    if same:
        assert texts(list(po(written(data, text)).segments())) == [text]
    else:
        with pytest.raises(FormatError, match=r"line 1, msgid .*line break where the msgid does"):
            written(data, text)


TWICE = 'msgid "a"\nmsgstr ""\n\nmsgid "a"\nmsgstr "A"\n\nmsgctxt "c"\nmsgid "a"\nmsgstr ""\n\nmsgid "a"\nmsgstr ""\n'
COUNTS = 'msgid "{0}"\nmsgid_plural "{0}s"\n'

REFUSED = {
    "the same twice": (TWICE, ["line 4: the same msgid and msgctxt as in line 1", "line 11: .*as in line 1"]),
    "a second header": ('msgid ""\nmsgstr ""\nmsgid ""\nmsgstr ""', ["line 3: the same .* line 1"]),
    "a late header": ('msgid "a"\nmsgstr ""\nmsgid ""\nmsgstr ""', ["line 3: the header .* must be the first"]),
    "wrong counts": (
        HEADER.format("UTF-8", "nplurals=3; plural=n>1;")
        + COUNTS.format("a")
        + 'msgstr[0] ""\n'
        + COUNTS.format("b")
        + 'msgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\nmsgstr[3] ""\n'
        + COUNTS.format("c")
        + 'msgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n'
        + COUNTS.format("d")
        + 'msgstr[0] ""\nmsgstr[2] ""\nmsgstr[1] ""\n',
        [
            "line 5: .* has msgstr\\[0\\], and must have msgstr\\[0\\] to msgstr\\[2\\]",
            "line 8: .*Plural-Forms say",
            "line 19",
        ],
    ),
    "a gap": (COUNTS.format("a") + 'msgstr[0] ""\nmsgstr[2] ""', ["line 2: .* msgstr\\[0\\] to msgstr\\[2\\].*gap"]),
    "a form twice": (COUNTS.format("a") + 'msgstr[0] ""\nmsgstr[0] ""', ["line 4: a second msgstr\\[0\\].* line 3"]),
    "no form": (COUNTS.format("a") + 'msgstr ""', ["line 3: msgstr cannot follow msgid_plural", "line 2: .*no msgstr"]),
    "a rule that is none": (
        HEADER.format("UTF-8", "nplurals=2; plural=__import__('os')") + COUNTS.format("a") + 'msgstr[0] ""',
        ["line 1: the header's Plural-Forms are not valid: .*__import__.*nplurals=2; plural=n != 1;"],
    ),
    "a rule beyond its forms": (
        HEADER.format("UTF-8", "nplurals=2; plural=n+1") + COUNTS.format("a") + 'msgstr[0] ""',
        ["line 1: .*n\\+1.*below nplurals"],
    ),
    "a rule that divides by zero": (
        HEADER.format("UTF-8", "nplurals=2; plural=1/0") + COUNTS.format("a") + 'msgstr[0] ""',
        ["line 1: .*1/0"],
    ),
    "a missing quote": ('msgid "a\nmsgstr ""\n', ["line 1: is no line of a PO file"]),
    "a quote within": ('msgid "a "b" c"\nmsgstr ""\n', ["line 1: .*quote"]),
    "no text": ('msgid\nmsgstr "a"\n', ["line 1: msgid without a quoted text"]),
    "no msgstr": ('msgid "a"\n\nmsgid "b"\nmsgstr ""\n', ["line 3: a second msgid; the first is in line 1"]),
    "cut short": ('msgid "a"\nmsgstr ""\n\nmsgid "b"\n', ["line 4: an entry without msgstr.*end of the file"]),
    "a comment within": (
        'msgid "a"\n# b\nmsgstr ""\n',
        ["line 1: .* comment in line 2", "line 3: msgstr cannot follow"],
    ),
    "a loose text": ('"a"\n', ["line 1: a quoted text without a keyword"]),
    "escapes": ('msgid "\\d"\nmsgstr "\\999 \\777"', ["line 1: \\\\d is no escape", "line 2: \\\\9 is no escape"]),
    "bytes that are no text": ('msgid "\\303"\nmsgstr ""', ["line 1: \\\\303 is no text in utf-8"]),
    "a domain": ('domain "x"\nmsgid "a"\nmsgstr ""', ["line 1: is no line"]),
    "an unknown charset": (HEADER.format("KLINGON", ENGLISH), ["charset 'KLINGON', which is not known.*UTF-8"]),
    "UTF-16 by name": (HEADER.format("UTF-16", ENGLISH), ["charset 'UTF-16'.*not one of bytes like ASCII's"]),
    "UTF-7": (HEADER.format("UTF-7", ENGLISH), ["charset 'UTF-7'"]),
    "a codec of Python's": (HEADER.format("unicode_escape", ENGLISH), ["charset 'unicode_escape'"]),
    "a codec of bytes": (HEADER.format("base64", ENGLISH), ["charset 'base64'"]),
    "shifting states": (HEADER.format("ISO-2022-JP", ENGLISH), ["charset 'ISO-2022-JP'"]),
    "not as declared": (
        (HEADER.format("UTF-8", ENGLISH) + 'msgid "a"\nmsgstr "äö"\n').encode("latin-1"),
        ["line 5, byte 9 of the line: 0xE4 is not UTF-8, which the header declares"],
    ),
    "declared ASCII": (
        HEADER.format("US-ASCII", ENGLISH) + 'msgid "a"\nmsgstr "ä"\n',
        ["line 5, byte 9 of the line: 0xC3 is not US-ASCII.*convert"],
    ),
    "nothing declared": (
        'msgid "a"\nmsgstr "ä"\n'.encode("latin-1"),
        ["line 2, byte 9.*0xE4 is not UTF-8.*declares no"],
    ),
    "UTF-16": ('msgid "a"\nmsgstr "ä"\n'.encode("utf-16"), ["is UTF-16, or no text. Convert the file to UTF-8"]),
    "a mark of another": ("\ufeff" + HEADER.format("ISO-8859-1", ENGLISH), ["ISO-8859-1.*byte order mark"]),
}


@pytest.mark.parametrize(("data", "faults"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_po_is_refused_with_place_and_remedy_all_faults_at_once(
    data: str | bytes, faults: list[str]
) -> None:
    with pytest.raises(FormatError) as caught:
        list(po(data).segments())
    message = str(caught.value)
    assert all(line.startswith("x.po: ") for line in message.split("\n"))
    assert [fault for fault in faults if not re.search(fault, message)] == []


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (HEADER.format("UTF-8", ENGLISH) + 'msgid "a"\nmsgstr "ä"\n\nmsgid "b"\nmsgstr "ö"\n', [5, 8]),
        (HEADER.format("UTF-8", ENGLISH) + '# ä\nmsgid "ä"\nmsgid_plural "a"\nmsgstr[0] "ä"\nmsgstr[1] ""', [4, 5, 7]),
        ('msgid "a\nmsgstr ""\n\nmsgid "b"\nmsgstr "\n\nmsgid "c"\nmsgstr ""', [1, 5]),
        ('msgid "a"\nmsgtsr "x"\n\nmsgid "b"\nmsgstr ""\n\nmsgid "c"', [2, 7]),
        ('rubbish\n\nmsgid "a"\nmsgstr ""\n\nmsgid "b"\n', [1, 6]),
    ],
)
def test_a_line_that_cannot_be_read_is_one_fault_and_brings_no_others(data: str, lines: list[int]) -> None:
    with pytest.raises(FormatError) as caught:
        list(po(data.encode("latin-1")).segments())
    assert [int(re.match(r"line (\d+)", fault)[1]) for fault in caught.value.faults] == lines  # pyright: ignore


def test_many_faults_are_told_up_to_a_limit() -> None:
    with pytest.raises(FormatError) as caught:
        list(po("rubbish\n" * 10_000).segments())
    assert len(caught.value.faults) == 20


def test_a_faulty_rule_does_not_matter_where_nothing_is_plural() -> None:
    assert len(list(po(HEADER.format("UTF-8", "nplurals=2; plural=(") + 'msgid "a"\nmsgstr ""').segments())) == 1


def test_obsolete_entries_the_header_and_empty_files_have_no_segments() -> None:
    assert list(po("").segments()) == list(po("\ufeff").segments()) == list(po("# only a comment").segments()) == []
    assert list(po(HEADER.format("UTF-8", ENGLISH) + '#~ msgid "a"\n#~ msgstr "b"\n').segments()) == []
    data = '#, fuzzy\n#~ msgid "a"\n#~ msgstr "b"\nmsgid "a"\nmsgstr "c"\n#~ msgid "a"\n#~ msgstr "d"'
    (segment,) = po(data).segments()
    assert (segment.state, segment.place) == ("done", 'line 4, msgid "a"')


def test_a_segment_arrives_before_the_end_is_read_and_a_late_fault_still_comes() -> None:
    stream = po('msgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr "d"\n\nrubbish').segments()
    assert plain(next(stream).source) == "a"
    with pytest.raises(FormatError, match="line 7"):
        next(stream)


def test_memory_does_not_hold_the_texts_of_a_large_file(tmp_path: Path) -> None:
    path, body = tmp_path / "large.po", "word " * 400
    with path.open("w", encoding="utf-8") as out:
        out.writelines(f'msgid "{number} {body}"\nmsgstr "{body}"\n\n' for number in range(500))
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        made = PO(data, path.name)
        tracemalloc.start()
        count = sum(1 for segment in made.segments() if not made.edits(segment, segment.target or (), mark=False))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 500
    assert path.stat().st_size > 2_000_000
    assert peak < 400_000


# polib takes lines apart at \r, \x85 and their like where they stand unescaped: those are compared by our reader alone.
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=120).filter(str.strip)


@settings(max_examples=100, deadline=None)
@given(TEXT, st.booleans())
def test_any_text_is_read_again_as_it_was_written(text: str, wrap: bool) -> None:
    data = 'msgid "{}x{}"\nmsgstr ""\n'.format("\\n" * text.startswith("\n"), "\\n" * text.endswith("\n"))
    other = 'msgid "other"\nmsgstr "one "\n"two"\n' if wrap else 'msgid "other"\nmsgstr "one"\n'
    new = written(other + data, None, text)
    assert texts(list(po(new).segments()))[1] == text
    if not any(ord(character) < 32 or character in "\x1c\x1d\x1e\x85\u2028\u2029" for character in text):
        assert polib.pofile(new.decode())[1].msgstr == text


LANGUAGES = [
    # What gettext's manual allows in the header field Language, and a target.
    ("de", "de", True),
    ("de_AT", "de", True),
    ("de", "de-AT", True),
    ("de_DE", "de-AT", False),
    ("DE@euro", "de", True),
    ("de_DE.UTF-8", "de_DE", True),
    ("de_DE.UTF-8", "de_CH", False),
    ("pt_BR", "pt-PT", False),
    ("sr@latin", "sr", True),
    ("fr", "de", False),
    ("pt_BR", "de", False),
    ("sr@latin", "sr-Latn-RS", True),
    ("sr@latin", "sr-Cyrl", False),
    ("sr@latin", "hr", False),
    ("den", "de", False),  # Slave, another language
    ("fr", None, True),
    # These name none.
    ("", "de", True),
    ("LANGUAGE", "de", True),
    ("ll_CC", "de", True),
    ("LL", "de", True),
    ("French", "de", True),
    ("C", "de", True),
]


@pytest.mark.parametrize(("told", "target", "is_read"), LANGUAGES)
def test_a_catalog_of_another_language_is_left_alone_and_counted(told: str, target: str | None, is_read: bool) -> None:
    header = f'msgid ""\nmsgstr ""\n"Language-Team: Frisian <fy@example.org>\\n"\n"Language: {told}\\n"\n\n'
    data = header + 'msgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgid_plural "bs"\nmsgstr[0] "B"\nmsgstr[1] ""\n'
    made = PO(data.encode(), "x.po", "en", target)
    for _ in range(2):  # each reading counts anew
        assert len(list(made.segments())) == (3 if is_read else 0)
        reason = f"Language is {told}, not {target}"
        places = ['line 6, msgid "a"', 'line 9, msgid "b", msgstr[0]', 'line 9, msgid "b", msgstr[1]']
        assert made.skipped.places == ({} if is_read else {reason: places})
    template = PO(data.encode(), "x.POT.gz", "en", target)  # it is to become one of the target language
    assert len(list(template.segments())) == 3


def test_a_catalog_without_the_field_or_without_a_header_is_read_and_the_faults_of_another_are_told() -> None:
    for text in (HEADER.format("UTF-8", ENGLISH), "", "X-Language: fr"):
        header = text if text.startswith("msgid") or not text else f'msgid ""\nmsgstr "{text}\\n"\n'
        assert len(list(PO(f'{header}msgid "a"\nmsgstr ""\n'.encode(), "x.po", "en", "de").segments())) == 1
    with pytest.raises(FormatError, match="line 3: is no line"):
        list(PO(b'msgid ""\nmsgstr "Language: fr\\n"\nrubbish\n', "x.po", "en", "de").segments())


def test_memories_and_corpora_use_no_text_of_a_catalog_of_another_language_and_count_it(tmp_path: Path) -> None:
    for told, texts in (("fr", 0), ("de", 2)):
        path = tmp_path / f"{told}.po"
        header = f'msgid ""\nmsgstr "Language: {told}\\n"\n\n'
        path.write_text(header + 'msgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgstr "B"\n', encoding="utf-8")
        memory, tally = Memory.load(path, "en", "de"), Tally()
        corpus = CorpusConfig(path=str(path), source_language="en", target_language="de")
        pairs = [pair for part in find_parts([corpus]) for pair in part.read(tally)]
        assert (len(memory), len(pairs)) == (texts, texts)
        assert memory.skipped == tally.counts == ({} if texts else {"Language is fr, not de": 2})


@pytest.mark.parametrize("marker", "&_~")
def test_the_header_may_say_what_marks_accelerators(marker: str) -> None:
    """As translation tools write it: `X-Accelerator-Marker: ~`."""
    header = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"X-Accelerator-Marker: {marker}\\n"\n\n'
    made = PO((header + f'msgid "{marker}File"\nmsgstr ""\n').encode(), "a.po")
    found = [segment.source for segment in made.segments()]
    assert (found, made.marker) == ([(f"{marker}File",)], marker)
