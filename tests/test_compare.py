"""Comparisons: sacreBLEU's own command line says the same, equal outputs are equal, and faults are all told at once."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from conftest import Toy
from headway.evaluate.compare import MOST_LINES, compare_outputs, scored
from headway.evaluate.metrics import metrics
from headway.evaluate.report import Section, page

WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "man",
    "runs",
    "sees",
    "red",
    "old",
    "house",
    "under",
    "with",
    "quickly",
    "three",
    ",",
    ".",
]


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def made_up(folder: Path, number: int = 60) -> dict[str, Path]:
    """A reference, and outputs that keep less and less of it."""
    draw = random.Random(3)
    reference = [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(number)]
    texts = {"reference": reference}
    for name, kept in (("good", 0.9), ("near", 0.88), ("bad", 0.6)):
        texts[name] = [
            " ".join(word if draw.random() < kept else draw.choice(WORDS) for word in line.split())
            for line in reference
        ]
    return {name: write(folder / f"{name}.txt", lines) for name, lines in texts.items()}


def rows(sections: Sequence[Section], title: str) -> Any:
    [found] = [section for section in sections if section.title.startswith(title)]
    return found.rows  # pyright: ignore


def test_scores_intervals_and_p_values_are_those_of_the_command_line_of_sacrebleu(tmp_path: Path) -> None:
    files = made_up(tmp_path)
    outputs = [files[name] for name in ("good", "near", "bad")]
    command = [sys.executable, "-m", "sacrebleu", str(files["reference"]), "-i", *map(str, outputs)]
    command += ["-m", "bleu", "chrf", "ter", "--paired-bs", "-f", "text", "-w", "5"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sections = compare_outputs(outputs, files["reference"])
    ours = {(row[0], Path(row[1]).stem): row[2:] for row in rows(sections, "Scores")}
    places = [(measure, name) for name in ("good", "near", "bad") for measure in ("BLEU", "chrF2", "TER")]
    theirs = [[*map(float, found)] for found in re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", told)]
    assert sorted(places) == sorted(ours)
    for place, (value, mean, half) in zip(places, theirs, strict=True):
        score, low, high = ours[place][:3]
        assert score == pytest.approx(value, abs=3e-5)
        assert (high - low) / 2 == pytest.approx(half, abs=3e-5), "it is as wide as theirs, which is about the mean"
        assert low < mean < high
    chances = [float(found) for found in re.findall(r"p = ([\d.]+)", told)]
    assert [ours[place][4] for place in places] == [None] * 3 + [pytest.approx(p, abs=1e-4) for p in chances]
    assert ours["BLEU", "near"][4] > 0.05 > ours["BLEU", "bad"][4]
    for signature in re.findall(r"nrefs:\S+", told):
        assert signature in page("t", sections)


def test_an_interval_is_of_lines_that_are_drawn_and_scored_again_and_stays_in_range(tmp_path: Path) -> None:
    """Skewed: all lines but one are right. The draws are numpy's with sacreBLEU's seed, the scores those of whole
    corpora of the lines drawn."""
    right = [f"{word} man sees the old house" for word in WORDS[:6]]
    said = [*right[:5], "no"]
    draws = [tuple(sorted(draw)) for draw in numpy.random.default_rng(12345).choice(6, size=(1000, 6))]
    found = {row[0]: row[2:5] for row in scored({"a": said}, right, None)[0].rows}  # pyright: ignore
    for metric in metrics(None):
        texts = {draw: ([said[at] for at in draw], [[right[at] for at in draw]]) for draw in draws}
        known = {draw: metric.corpus_score(*text).score for draw, text in texts.items()}
        scores = sorted(known[draw] for draw in draws)
        value, low, high = found[metric.corpus_score(said, [right]).name]
        assert (low, high) == pytest.approx((scores[25], scores[974]), abs=1e-4)
        assert 0 <= low < value < high <= 100 + 1e-9
        mean, half = numpy.mean(scores), (high - low) / 2
        assert not 0 <= mean - half < mean + half <= 100, "the mean and half of the width would leave the range"


def test_of_two_lines_the_interval_reaches_from_the_one_to_the_other() -> None:
    """Each alone is a quarter of all draws, and so both are in the lowest or highest fortieth and beyond."""
    right = ["one two three four five", "six seven eight nine ten"]
    rows = {row[0]: row[3:5] for row in scored({"a": [right[0], "qqq"]}, right, None)[0].rows}  # pyright: ignore
    assert rows["BLEU"] == pytest.approx((0, 100), abs=1e-9)
    assert rows["chrF2"] == pytest.approx((0, 100), abs=1e-9)
    assert rows["TER"] == pytest.approx((0, 100), abs=1e-9), "five edits for five words"


def test_a_copy_of_the_reference_wins_and_equal_outputs_have_p_1(tmp_path: Path) -> None:
    files = made_up(tmp_path)
    same = write(tmp_path / "same.txt", files["bad"].read_text().splitlines())
    copy = write(tmp_path / "copy.txt", files["reference"].read_text().splitlines())
    sections = compare_outputs([files["bad"], same, copy], files["reference"])
    found = {(row[0], row[1]): row for row in rows(sections, "Scores")}
    for measure, best in (("BLEU", 100), ("chrF2", 100), ("TER", 0)):
        assert found[measure, "same.txt"][5:] == [0, 1.0]
        assert found[measure, "same.txt"][2:5] == found[measure, "bad.txt"][2:5]
        assert found[measure, "copy.txt"][2:5] == pytest.approx([best] * 3, abs=1e-3)
        assert found[measure, "copy.txt"][6] < 0.05
        assert (found[measure, "copy.txt"][5] < 0) == (measure == "TER")
    others = rows(sections, "Lines other than")
    assert others[0] == ["same.txt", 0, 0, 0]
    assert others[1][1] == others[1][2] > 30, "each line that is not yet the reference comes nearer by becoming it"
    assert others[1][3] == 0


def test_lines_that_differ_most_come_first_with_all_that_was_said_of_them(tmp_path: Path) -> None:
    reference = ["one two three", "four five six", "seven eight", ""]
    outputs = [
        write(tmp_path / "a", ["one two three", "four five six", "seven eight", ""]),
        write(tmp_path / "b", ["one two three", "qqq", "seven eighth", ""]),
    ]
    found = rows(
        compare_outputs(
            outputs, write(tmp_path / "ref", reference), write(tmp_path / "src", ["1 2 3", "456", "78", "-"])
        ),
        "Where they differ most: 2 of 2",
    )
    assert [row.place for row in found] == ["Line 2", "Line 3"]
    assert found[0].texts == [
        ("source", "456"),
        ("reference", "four five six"),
        ("a (chrF 100)", "four five six"),
        ("b (chrF 0)", "qqq"),
    ]


def test_without_a_reference_outputs_are_held_against_the_first(tmp_path: Path) -> None:
    outputs = [write(tmp_path / "a", ["one two", "x", "y z"]), write(tmp_path / "b", ["one too", "x", "no"])]
    sections = compare_outputs(outputs)
    assert rows(sections, "Lines other than") == [["b", 2]]
    assert [row.place for row in rows(sections, "Where")] == ["Line 3", "Line 1"]
    assert rows(sections, "Where")[0].texts == [("a", "y z"), ("b", "no")]
    assert len(sections) == 2


def test_one_output_is_scored_with_its_intervals(tmp_path: Path) -> None:
    files = made_up(tmp_path)
    sections = compare_outputs([files["good"]], files["reference"])
    assert [row[5:] for row in rows(sections, "Scores")] == [[None, None]] * 3
    assert [section.title for section in sections] == ["Scores", "How they are measured"], "and nothing that is empty"


def test_japanese_is_cut_as_its_language_wants(tmp_path: Path) -> None:
    files = [write(tmp_path / name, ["犬が走る。", "猫がいる。"]) for name in "ab"]
    assert "tok:13a" in str(compare_outputs([files[0]], files[1]))
    assert "tok:ja-mecab" in (told := str(compare_outputs([files[0]], files[1], None, "ja"))) or "tok:char" in told
    named = write(tmp_path / "test.ja", ["犬が走る。", "猫がいる。"])
    assert str(compare_outputs([files[0]], named)) == told
    assert "tok:13a" in str(compare_outputs([files[0]], named, None, "de"))


REMEDY = "--target-language ja"


@pytest.mark.parametrize(
    ("reference", "language", "told"),
    [
        ("犬が走る。", None, True),
        ("今天天气很好。", None, True),
        ("ฉันรักแมว", None, True),
        ("ฉันรักแมว", "th", True),
        ("犬が走る。", "de", True),
        ("犬が走る。", "ja", False),
        ("今天天气很好。", "zh", False),
        ("한국어는 낱말을 띄어 쓴다", None, False),
        ("The word 犬 is Japanese.", None, False),
        ("", None, False),
        ("1 2 3", None, False),
    ],
)
def test_where_words_cannot_be_told_apart_the_remedy_is_named(reference: str, language: str | None, told: bool) -> None:
    sections = scored({"a": ["x"]}, [reference], language)
    assert (REMEDY in str(sections[1])) == told
    assert (REMEDY in page("t", sections)) == told


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    a, b, c = (write(tmp_path / name, ["x"] * number) for name, number in (("a", 3), ("b", 4), ("c", 5)))
    with pytest.raises(ValueError, match=r"a has 3, .*b has 4, .*c has 5 lines"):
        compare_outputs([a, b], c)
    with pytest.raises(ValueError, match=r"(?s)a: is named twice.*none.*nought"):
        compare_outputs([a, a, tmp_path / "none"], tmp_path / "nought")
    with pytest.raises(ValueError, match="nothing to compare it with"):
        compare_outputs([a])
    with pytest.raises(ValueError, match="50,001 lines are too many"):
        scored({"a": ["x"]}, ["x"] * (MOST_LINES + 1), None)


def test_outputs_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
    files = [write(tmp_path / folder / "out", ["x"]) for folder in "ab"]
    files.append(write(tmp_path / "b" / "other", ["x"]))
    assert rows(compare_outputs(files), "Lines other than those of a/out") == [["b/out", 0], ["other", 0]]


def test_the_command_prints_writes_and_refuses(headway: Any, toy: Toy, tmp_path: Path) -> None:
    files = made_up(tmp_path, 12)
    call = ["compare", files["good"], files["bad"], "--reference", files["reference"]]
    code, out, err = headway(*call)
    assert (code, err) == (0, "")
    assert "chrF2" in out
    code, out, _ = headway(*call, "--json")
    assert code == 0
    assert len(json.loads(out)["sections"][0]["rows"]) == 6
    code, out, _ = headway(*call, "-o", tmp_path / "page.html")
    assert (code, out) == (0, "")
    assert "Where they differ most" in (tmp_path / "page.html").read_text()
    for words, told in (
        (["compare", toy.run, files["good"]], "not both at once"),
        (["compare", toy.run, "--reference", files["reference"]], "these are runs"),
        ([*call, "-o", files["good"]], "is the input as well"),
        ([*call, "-o", tmp_path / "page.pdf"], "name it .html"),
    ):
        code, _, err = headway(*words)
        assert (code, told in err) == (2, True), err
