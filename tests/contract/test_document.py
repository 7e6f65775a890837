"""What every kind of document must do. Its examples are the files of tests/formats/files/KIND/: whoever adds a kind, or
a file, is tested here at once."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path

import pytest

from headway.formats.kinds import KINDS, read_document
from headway.formats.segment import Document, Edit, FormatError, Segment, splice
from headway.text.codes import Code, Parts, codes, find_parts, joined, kinds_for, plain

FILES = sorted(path for path in (Path(__file__).parents[1] / "formats" / "files").rglob("*") if path.is_file())

SOURCE, TARGET = "en", "de"

# What breaks careless writers: quotes, backslashes, markup, other scripts, right to left, combining characters.
NASTY = "Ä \"q\" 's' \\n \\ & < > ]]> *a* _b_ `c` [d](e) %% {x} 日本語 שלום e\u0301 --> é"


def document(path: Path, data: bytes | None = None) -> Document:
    target = None if path.suffix == ".po" else TARGET  # those of other languages are examples too
    return read_document(path.read_bytes() if data is None else data, path.name, SOURCE, target)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


each_file = pytest.mark.parametrize("path", FILES, ids=name_of)


def existing(made: Document, segment: Segment) -> Parts | None:
    """The translation that the file holds; where it has one language, the source stands in its place."""
    return segment.target if made.bilingual else segment.source


def edited(made: Document, segments: list[Segment], targets: list[Parts], *, mark: bool = False) -> bytes:
    changes: list[Edit] = []
    for segment, target in zip(segments, targets, strict=True):
        some = made.edits(segment, target, mark=mark)
        assert all(edit.start <= edit.end for edit in some)
        changes += some
    assert [edit.start for edit in changes] == sorted(edit.start for edit in changes)
    return b"".join(splice(made.data, changes))


def test_every_kind_has_examples() -> None:
    missing = {suffix for suffix in KINDS if suffix not in {path.suffix for path in FILES}} - {".htm", ".markdown"}
    assert not missing


@each_file
def test_reading_twice_gives_the_same_segments_in_the_order_of_the_file(path: Path) -> None:
    made = document(path)
    first, second = list(made.segments()), list(made.segments())
    assert first == second
    assert first
    for segment in first:
        assert plain(segment.source).strip(), segment
        assert segment.source == joined(segment.source)
        assert segment.place
        assert segment.target is None or segment.target == joined(segment.target)
        assert (segment.state == "empty") == (segment.target is None), segment
        for code in codes(segment.source):
            assert code.key
            assert code.raw


@each_file
def test_writing_what_is_there_changes_no_byte(path: Path) -> None:
    made = document(path)
    kept = [segment for segment in made.segments() if existing(made, segment) is not None]
    targets = [existing(made, segment) or () for segment in kept]
    assert edited(made, kept, targets) == path.read_bytes()
    found = [
        find_parts(target, kinds_for(segment.flags, made.kind)) for segment, target in zip(kept, targets, strict=True)
    ]
    assert edited(made, kept, found) == path.read_bytes()  # as a model gives it, with the codes that are text


@each_file
def test_an_empty_translation_takes_nothing_away(path: Path) -> None:
    """It is refused where a text would go, and changes nothing where the file holds none."""
    if path.suffix == ".txt":
        pytest.skip("a line of plain text may be empty")
    made = document(path)
    for segment in made.segments():
        for target, mark in product([(), (" ",)], [True, False]):
            if existing(made, segment) is None:
                assert made.edits(segment, target, mark=mark) == []
            else:
                with pytest.raises(FormatError, match=rf"^{re.escape(path.name)}: line .*: the translation is empty"):
                    made.edits(segment, target, mark=mark)


VARIANTS = [
    # What a file says, what is asked for, and whether they are the same: script, region and variant where both say one.
    ("de", "de", True),
    ("de-AT", "de", True),
    ("de", "de-AT", True),
    ("de-AT", "de-DE", False),
    ("zh-CN", "zh-TW", False),
    ("pt-PT", "pt-BR", False),
    ("sr-Latn", "sr-Cyrl", False),
    ("zh-Hant", "zh-Hant-TW", True),
    ("den", "de", False),
    ("DE_at", "de_AT.UTF-8", True),
    ("de_DE@euro", "de-DE", True),
    ("sr@latin", "sr-Latn", True),
    ("sr_RS@latin", "sr-Latn-RS", True),
    ("sr_RS@cyrillic", "sr@latin", False),
    ("ca@valencia", "ca-valencia", True),
    ("zh_Hans", "zh-CN", True),
    ("zh-Hans-CN", "zh-CN", True),
    ("zh_Hant", "zh-TW", True),
    ("zh_Hant", "zh-CN", False),
    ("zh-HK", "zh-TW", False),
    ("sr_RS@latin", "sr-RS", True),
]
IN_LANGUAGES = {
    "a.po": 'msgid ""\nmsgstr "Language: {}\\n"\n\nmsgid "a"\nmsgstr "b"\n',
    "a.xlf": '<xliff version="1.2"><file source-language="en" target-language="{}"><body>'
    '<trans-unit id="1"><source>a</source><target>b</target></trans-unit></body></file></xliff>',
    "b.xlf": '<xliff version="2.0" srcLang="en" trgLang="{}"><file id="f"><unit id="u">'
    "<segment><source>a</source><target>b</target></segment></unit></file></xliff>",
    "a.tmx": '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>a</seg></tuv>'
    '<tuv xml:lang="{}"><seg>b</seg></tuv></tu></body></tmx>',
}


@pytest.mark.parametrize("name", IN_LANGUAGES)
@pytest.mark.parametrize(("told", "asked", "is_same"), VARIANTS)
def test_the_same_languages_find_each_other_in_files_of_every_kind(
    name: str, told: str, asked: str, is_same: bool
) -> None:
    for one, other in ((told, asked), (asked, told)):
        made = read_document(IN_LANGUAGES[name].format(one).encode(), name, "en", other)
        assert [segment.target for segment in made.segments() if segment.target] == [("b",)] * is_same


@each_file
def test_what_was_written_is_read_again(path: Path) -> None:
    """Every text replaced by a nasty one, the codes kept: the reader finds it, and the next writer changes nothing."""
    made = document(path)
    segments = [segment for segment in made.segments() if segment.translate]
    targets = [joined(NASTY if isinstance(part, str) else part for part in segment.source) for segment in segments]
    if any(segment.most is not None for segment in segments):
        pytest.skip("the file limits lengths, and this text keeps to none")
    data = edited(made, segments, targets)
    again = document(path, data)
    found = [segment for segment in again.segments() if segment.translate]
    assert [existing(again, segment) for segment in found] == targets
    assert edited(again, found, targets) == data
    if made.bilingual:
        assert [segment.source for segment in found] == [segment.source for segment in segments]
        assert [segment.place.split(",")[1:] for segment in found] == [
            segment.place.split(",")[1:] for segment in segments
        ]


@each_file
def test_a_change_of_one_segment_leaves_the_others(path: Path) -> None:
    made = document(path)
    segments = list(made.segments())
    for number, segment in enumerate(segments):
        if not segment.translate or segment.most is not None:
            continue
        target = joined("Etwas anderes." if isinstance(part, str) else part for part in segment.source)
        again = list(document(path, edited(made, [segment], [target])).segments())
        assert len(again) == len(segments)
        for other, (before, after) in enumerate(zip(segments, again, strict=True)):
            if other == number:
                assert existing(made, after) == target
            else:
                assert (after.source, after.target, after.state) == (before.source, before.target, before.state)


@each_file
def test_what_a_machine_wrote_is_marked(path: Path) -> None:
    made = document(path)
    if not made.bilingual:
        pytest.skip("a file of one language has no place for a mark")
    segments = [segment for segment in made.segments() if segment.translate and segment.most is None]
    targets = [segment.source for segment in segments]
    data = edited(made, segments, targets, mark=True)
    again = document(path, data)
    found = [segment for segment in again.segments() if segment.translate and segment.most is None]
    assert {segment.state for segment in found} <= {"unsure"}
    assert [segment.target for segment in found] == targets
    assert edited(again, found, targets, mark=True) == data


@each_file
def test_a_damaged_file_is_refused_or_read_and_nothing_else(path: Path) -> None:
    """Cut anywhere, bytes changed anywhere: a ValueError that names the file, or segments; no other error, no loop."""
    data, dice = path.read_bytes(), random.Random(path.name)
    for _ in range(150):
        broken = bytearray(data)
        if dice.random() < 0.4:
            del broken[dice.randrange(len(data)) :]
        elif dice.random() < 0.5:
            start = dice.randrange(len(data))
            del broken[start : start + dice.randrange(1, 9)]
        else:
            for _ in range(dice.randrange(1, 4)):
                broken[dice.randrange(len(data))] = dice.choice(b'\x00<>&"\\\n\xff\xc3[]*{}`')
        told, segments = path.name, []
        try:
            segments = list(document(path, bytes(broken)).segments())
        except ValueError as error:
            told = str(error)
        assert path.name in told
        assert all(isinstance(part, str | Code) for segment in segments for part in segment.source)
