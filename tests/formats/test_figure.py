"""The gating figure for documents, over our own examples and over a folder of others: every file comes back byte for
byte from a model that answers with what it says already, and the texts that went through are those that other parsers
find. The parsers, and the counting of placeholders and tags, are in bench/documents.py."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.documents.qa import Finding
from headway.documents.translate import Done
from headway.formats.kinds import KINDS, read_document
from headway.formats.segment import Segment

BEYOND_POLIB = {"odd_layout.po"}


def loaded() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "documents.py"
    spec = importlib.util.spec_from_file_location("bench_documents", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # its dataclasses look themselves up
    spec.loader.exec_module(made)
    return made


bench: Any = loaded()
FILES = bench.documents(Path(__file__).parent / "files")


def test_there_are_examples_of_every_kind_that_we_wrote() -> None:
    assert len(FILES) >= 45
    assert {bench.kind_of(path) for path in FILES} == {bench.kind_of(Path(f"a{suffix}")) for suffix in KINDS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_comes_back_and_its_texts_are_those_of_another_parser(path: Path) -> None:
    figure = bench.measure(path)
    assert not figure.refused
    assert figure.identical
    assert bool(figure.unread) == (path.name in BEYOND_POLIB)
    assert figure.unread or figure.segments == figure.parsed > 0


@pytest.mark.slow
def test_documents_of_others_come_back() -> None:
    """60 files or more with a text, 5 or more of each kind; what is no file of its kind may be refused."""
    if not (folder := os.environ.get("HEADWAY_DOCUMENTS")):
        pytest.skip("HEADWAY_DOCUMENTS names no folder of documents")
    figures = [bench.measure(path) for path in bench.documents(Path(folder))]
    read = [figure for figure in figures if not figure.refused]
    assert [figure.name for figure in read if not figure.identical] == []
    assert [(one.name, one.segments, one.parsed) for one in read if one.segments != one.parsed] == []
    assert len([figure for figure in read if figure.segments]) >= 60
    assert min(sum(figure.kind == kind for figure in read) for kind in bench.PARSERS) >= 5


# The judge itself: it must see what is lost, or the figure says nothing.


@pytest.mark.parametrize(
    ("source", "target", "is_kept"),
    [
        ("a %s b", "%s ä", True),
        ("a %s b", "ä", False),
        ("a %s b", "%s ä %s", False),
        ("%s of %d", "%d von %s", False),  # C takes the values in order
        ("%(a)s of %(b)d", "%(b)d von %(a)s", True),
        ("100 % free, 5% off", "100 % frei, 5% weg", True),
        ("<b>a</b> {0} {{ x }}", "{0} {{ x }} <b>ä</b>", True),
        ("<b>a</b> {0}", "</b>ä<b> {0}", False),
        ("<b><i>a</i></b>", "<b><i>ä</b></i>", False),
        ("<b>a</i></b>", "<b>ä</i></b>", True),  # as the source has it
        ("a<br>b &nbsp; c", "ä<br>b &nbsp; c", True),
        ("see https://a.org/b.", "siehe https://a.org/c.", False),
        ("see https://a.org/b.", "siehe (https://a.org/b)!", True),
        ("word", "Wort <x11>", False),
        ("{\\\\an8}word", "Wort", False),
    ],
)
def test_the_judge_sees_what_is_lost(source: str, target: str, is_kept: bool) -> None:
    assert bench.kept(source, target) is is_kept


def test_the_judge_counts_what_was_flagged_and_what_was_not() -> None:
    pairs = [("a %s", ""), ("b <i>c</i>", ""), ("d %d", ""), ("e", "")]
    made = [("a %s", "ä %s"), ("b <i>c</i>", "b c"), ("d %d", "d"), ("e", "e %s")]
    findings = [[], [Finding("codes", "error", "missing")], [Finding("ratio", "warning", "long")], []]
    done = [Done(Segment("", (source,)), (), "model", told) for (source, _), told in zip(pairs, findings, strict=True)]
    figure = bench.Figure("a.po", "po")
    bench.judge(figure, pairs, made, done, bilingual=True)
    assert (figure.codes, figure.kept, figure.flagged, figure.lost) == (4, 1, 2, 2)
    assert figure.where == [("d %d", "d"), ("e", "e %s")]
    with pytest.raises(ValueError, match="cannot be compared"):
        bench.judge(figure, pairs, made[1:], done, bilingual=True)
    with pytest.raises(ValueError, match="the source has changed"):
        bench.judge(figure, pairs, [("x", "ä"), *made[1:]], done, bilingual=True)


# Faults that documents of others brought to light.


def test_a_translation_that_says_the_same_keeps_its_own_white_space_and_accelerator(tmp_path: Path) -> None:
    names = ["Open", "Save", "Close", "Edit", "View"]
    entries = [(f"_{name}", f"{name}_{name}") for name in names]
    entries += [(" a ", "ä"), ("b", " b  "), ("c\n", "c \n"), ("None", "_Nichts"), ("_None", "")]
    text = "".join(f"\nmsgid {source!r}\nmsgstr {target!r}\n" for source, target in entries).replace("'", '"')
    path = tmp_path / "a.po"
    path.write_text(text, encoding="utf-8")
    figure = bench.measure(path)
    assert (figure.segments, figure.identical) == (len(entries), True)


def test_an_underscore_on_a_page_is_no_accelerator(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("".join(f"<p>_{name}</p>" for name in "abcdefgh"), encoding="utf-8")
    asked = []

    def answer(texts: Any) -> Any:
        asked.extend(parts for parts, _ in texts)
        return bench.answers(read_document(path.read_bytes(), path.name))(texts)

    assert bench.measure(path).identical
    b"".join(bench.Job(answer, everything=True)(read_document(path.read_bytes(), path.name), bench.Report()))
    assert asked == [(f"_{name}",) for name in "abcdefgh"]
