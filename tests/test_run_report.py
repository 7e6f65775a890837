"""Runs as they are told: files written by hand, whole, broken and resumed, give the numbers that stand in them."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Toy
from headway.evaluate.cost import costs
from headway.evaluate.report import Lines, Seconds, Section, Table, Text, Versions, page, shown
from headway.evaluate.run_report import CHARTS, DRAWN, EMPTY, Run, distinct, read_runs, report, spread, tables, thin
from headway.recipe import parse_model


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def updates(steps: range) -> list[dict[str, Any]]:
    known = {"epoch": 0, "lr": 0.5, "tokens": 100, "grad_norm": 1.0, "padding": 0.25}
    return [{"step": step, "loss": 9.0, "nll": 8.0 / step, **known} for step in steps]


def make(folder: Path, recipe: str = "[train]\nsteps = 4\nseed = 7\n", done: bool = True) -> Path:
    """A run of four updates, two of them validated, that took two seconds an update and three a validation."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    (folder / "recipe.toml").write_text(recipe)
    if done:
        (folder / "model.safetensors").write_bytes(b"")
    first, second = ({"step": step, "valid_loss": 5.0 - step, "valid_bleu": bleu} for step, bleu in ((2, 30), (4, 20)))
    lines(folder / "metrics.jsonl", [*updates(range(1, 3)), first, *updates(range(3, 5)), second])
    times = [(1, 2, 2), (2, 4, 2), (2, 7, 3), (3, 9, 2), (4, 11, 2), (4, 14, 3)]
    lines(folder / "timing.jsonl", [{"step": step, "unix": unix, "seconds": took} for step, unix, took in times])
    said = [(2, "A\u2028dog", "Ein Hund", "Ein"), (4, "A\u2028dog", "Ein Hund", "Ein Hund")]
    names = ("step", "source", "reference", "output")
    lines(folder / "samples.jsonl", [dict(zip(names, row, strict=True)) for row in said])
    return folder


def read(*folders: Path) -> list[Run]:
    return read_runs(folders, lambda folder: {"parameters": 1234, "flops_per_target_token": 5678})


def of(sections: Sequence[Section], title: str) -> Any:
    [found] = [section for section in sections if section.title == title]
    return found


def notes(run: Run) -> str:
    return "; ".join(run.notes)


def test_the_table_tells_what_the_files_hold(tmp_path: Path) -> None:
    table = of(tables(read(make(tmp_path / "a"))), "Runs")
    assert table.columns == ["", "a"]
    assert dict(table.rows) == {
        "updates": 4,
        "parameters": 1234,
        "FLOPs a target token (forward, 32 tokens a side; windows and linear attention as dense)": 5678,
        "time": 14,
        "seed": 7,
        "best validation loss": 1.0,
        "best validation loss, at update": 4,
        "best validation BLEU": 30,
        "best validation BLEU, at update": 2,
    }


@pytest.mark.parametrize("mixer", [{"kind": "window", "window": 4, "num_heads": 2}, {"kind": "linear", "num_heads": 2}])
def test_flops_of_a_window_and_of_linear_attention_are_those_of_dense_attention(mixer: dict[str, Any]) -> None:
    """By hand, of a layer of each side: 2 for each weight, and 4 * 32 * dim for each attention's logits and sums."""

    def flops(layer: dict[str, Any]) -> int:
        sides = {"encoder": {"layers": [dense]}, "decoder": {"layers": [layer]}}
        return costs(parse_model({"preset": "transformer-tiny", "dim": 16, **sides}), 50)["flops_per_target_token"]

    dense = {"mixer": {"kind": "attention", "num_heads": 2}, "ffn": {"kind": "relu", "dim": 24}}
    by_hand = 2 * (12 * 16**2 + 4 * 16 * 24) + 3 * 4 * 32 * 16 + 2 * 16 * 50
    assert flops({**dense, "mixer": mixer}) == flops(dense) == by_hand


def test_a_run_whose_time_is_missing_stands_as_the_others_do(tmp_path: Path) -> None:
    whole, other = make(tmp_path / "whole"), make(tmp_path / "other")
    (other / "timing.jsonl").unlink()
    table = of(tables(read(whole, other)), "Runs")
    assert table.numeric == [False, True, True]
    assert [row for row in table.rows if row[0] == "time"] == [["time", 14, None]]
    assert 'class="number">14 s</td>' in page("t", [table])


def test_curves_are_the_numbers_of_each_run_under_its_name(tmp_path: Path) -> None:
    old = make(tmp_path / "old")
    rows = [json.loads(line) for line in (old / "metrics.jsonl").read_text().splitlines()]
    lines(old / "metrics.jsonl", [{name: value for name, value in row.items() if name != "padding"} for row in rows])
    found = report(read(old, make(tmp_path / "new")))
    charts = {section.title.lower(): section.points for section in found if isinstance(section, Lines)}
    assert list(charts) == [title.lower() for title, _ in CHARTS.values()]
    assert charts["training loss"]["old"] == [(1, 8.0), (2, 4.0), (3, 8 / 3), (4, 2.0)]
    assert charts["validation bleu"] == {name: [(2, 30), (4, 20)] for name in ("old", "new")}
    assert charts["throughput"]["new"] == [(step, 50.0) for step in (1, 2, 3, 4)], "100 tokens in 2 s; not in 3"
    assert charts["padding"] == {"old": [], "new": [(step, 0.25) for step in (1, 2, 3, 4)]}, (
        "colours stay with their runs"
    )
    text = page("Runs", found)
    assert text.count("<svg") == len(CHARTS)
    [loss, padding] = (
        re.search(rf"<title>{name}</title>.*?</figure>", text, re.S) for name in ("Training loss", "Padding")
    )
    marks = [re.findall(r'<i class="mark(\d) dash0"></i>(\w+)</span>', chart[0]) for chart in (loss, padding) if chart]
    assert marks == [[("0", "old"), ("1", "new")], [("1", "new")]], "a name without a line is not in the legend"


def test_samples_stand_below_their_source_and_reference(tmp_path: Path) -> None:
    found = of(report(read(make(tmp_path / "a"), make(tmp_path / "b"))), "What was said over time")
    assert isinstance(found, Versions)
    [row] = found.rows
    said = [(f"{run}, update {step}", text) for run in "ab" for step, text in ((2, "Ein"), (4, "Ein Hund"))]
    assert row.texts == [("source", "A\u2028dog"), ("reference", "Ein Hund"), *said]


def test_only_what_differs_in_the_recipes_is_shown(tmp_path: Path) -> None:
    one = make(tmp_path / "one", "[train]\nsteps = 4\nseed = 7\ndtype = 'float32'\nbetas = [0.9, 0.98]\n")
    other = make(
        tmp_path / "other", "[train]\nsteps = 4\nseed = 8\nclip = 1.0\ndtype = 'float32'\nbetas = [0.9, 0.9]\n"
    )
    table = of(tables(read(one, other)), "Where their recipes differ")
    assert isinstance(table, Table)
    assert table.rows == [["train.betas.1", "0.98", "0.9"], ["train.clip", None, "1.0"], ["train.seed", "7", "8"]]
    assert EMPTY in of(tables(read(one, other)), "To know of these runs").paragraphs
    same = tables(read(one, make(tmp_path / "x" / "one", (one / "recipe.toml").read_text())))
    assert of(same, table.title).paragraphs
    changed = tables(read(one, make(tmp_path / "y" / "one", (one / "recipe.toml").read_text().replace("7", "9"))))
    assert of(changed, table.title).rows == [["train.seed", "7", "9"]]
    assert EMPTY not in str([same, changed]), "no cell is empty"


def test_a_broken_run_is_read_as_far_as_it_goes_and_says_so(tmp_path: Path) -> None:
    run = make(tmp_path / "a", done=False)
    metrics = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(b"[1]\n" + metrics[: metrics.index(b'{"step": 4, "loss"') + 20])
    (run / "samples.jsonl").write_bytes(b'{"step": 2, "source": 1}\n\xff\n')
    (run / "timing.jsonl").unlink()
    (run / "failed-step-00000004.json").write_text("{}")
    [found] = read(run)
    assert found.curve("nll") == [(1, 8.0), (2, 4.0), (3, 8 / 3)]
    assert (found.seconds, found.samples) == (None, [])
    for told in (
        "metrics.jsonl: left out 2 broken lines",
        "samples.jsonl: left out 2 broken lines",
        "there is no timing.jsonl",
        "not finished: 3 updates of 4 so far",
        "failed-step-00000004.json",
    ):
        assert told in notes(found)
        assert told in page("t", report([found]))


def test_a_run_that_has_not_begun_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    [found] = read(tmp_path)
    assert "recipe.toml could not be read" in notes(found)
    assert "not finished: 0 updates so far" in notes(found)
    assert [section for section in report([found]) if isinstance(section, Lines)] == []


def test_a_resumed_run_counts_what_it_did_twice_as_time_and_shows_the_later(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    times = [(1, 2, 2), (2, 4, 2), (2, 7, 3), (3, 9, 2), (3, 100, 5), (4, 105, 5), (4, 108, 3)]
    lines(run / "timing.jsonl", [{"step": step, "unix": unix, "seconds": took} for step, unix, took in times])
    with (run / "timing.jsonl").open("a") as file:
        file.write('{"step": 5, "un{"step": 5, "unix": 110, "seconds": 2}\n')  # killed in a line, and gone on behind it
    [found] = read(run)
    assert found.seconds == 22
    assert found.curve("speed") == [(1, 50), (2, 50), (3, 20), (4, 20)]
    assert "went on after 1 break " in notes(found)
    assert "timing.jsonl: left out 1 broken line " in notes(found)


def test_an_unbroken_run_has_nothing_to_be_told(tmp_path: Path) -> None:
    assert read(make(tmp_path / "a"))[0].notes == []


def test_what_is_no_run_is_refused_all_at_once(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    with pytest.raises(ValueError, match=r"(?s)x: there is no run.*y: there is no run.*a: is named twice"):
        read(run, tmp_path / "x", tmp_path / "y", run)


def test_runs_of_one_name_are_told_apart_by_their_shortest_endings_and_the_others_keep_theirs(tmp_path: Path) -> None:
    runs = [make(tmp_path / place) for place in ("a/run", "b/run", "c/other", "a/c/other/x", "b/c/other/x")]
    told = ["a/run", "b/run", "other", "a/c/other/x", "b/c/other/x"]
    assert [run.name for run in read(*runs)] == told
    assert [run.name for run in read(runs[0], runs[2])] == ["run", "other"]


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=5), max_size=6, unique_by=tuple))
def test_names_differ_and_are_the_shortest_endings_that_no_other_path_has(parts: list[list[str]]) -> None:
    paths, faults = [Path("/nowhere", *some) for some in parts], []
    names = distinct(paths, faults)
    assert (len(set(names)), faults) == (len(paths), [])
    for path, name in zip(paths, names, strict=True):
        size = len(Path(name).parts)
        assert path.parts[-size:] == Path(name).parts
        shorter = path.parts[len(path.parts) - size + 1 :]
        assert not shorter or any(other.parts[-len(shorter) :] == shorter for other in paths if other != path)


def test_costs_that_cannot_be_had_are_told(tmp_path: Path) -> None:
    def costs(folder: Path) -> dict[str, Any]:
        raise ValueError("damaged")

    [found] = read_runs([make(tmp_path / "a")], costs)
    assert notes(found) == "its parameters could not be counted (damaged)"


@given(st.lists(st.floats(-1e6, 1e6), max_size=1000))
def test_thinned_points_are_few_in_order_within_their_bands_and_have_the_mean_and_ends_of_all(ys: list[float]) -> None:
    points = [(float(step), y) for step, y in enumerate(ys, 1)]
    means, bands = thin(points)
    assert len(means) == len(bands) <= DRAWN
    assert means == sorted(means, key=lambda point: point[0])
    assert all(low - 1e-6 <= y <= high + 1e-6 for (_, y), (low, high) in zip(means, bands, strict=True))
    if len(points) <= DRAWN:
        assert means == points
    if points:
        assert (min(low for low, _ in bands), max(high for _, high in bands)) == (min(ys), max(ys))
        if len(points) % len(means) == 0:
            assert sum(y for _, y in means) / len(means) == pytest.approx(sum(ys) / len(ys), abs=1e-3)


def test_what_is_not_finite_is_not_averaged_away(tmp_path: Path) -> None:
    means, _ = thin([(float(step), math.nan if step == 5 else 1.0) for step in range(10 * DRAWN)])
    assert [math.isnan(y) for _, y in means] == [True] + [False] * (DRAWN - 1)


def test_a_thinned_curve_says_so_and_an_update_of_each_mean_is_told(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    lines(run / "metrics.jsonl", updates(range(1, 2 * DRAWN + 2)))
    found = report(read(run))
    words = of(found, "How to read the curves")
    assert isinstance(words, Text)
    assert "a point is the mean of 3 updates in a row" in words.paragraphs[0]
    loss = of(found, "Training loss")
    assert loss.points["a"][0] == (2, pytest.approx(8 * (1 + 1 / 2 + 1 / 3) / 3))
    assert loss.bands["a"][0] == (8 / 3, 8)


def test_validations_shown_are_spread_from_the_first_to_the_last() -> None:
    assert spread([*range(100)]) == [0, 20, 40, 59, 79, 99]
    assert spread([3, 5]) == [3, 5]
    assert spread([3]) == [3]
    assert spread([]) == []


def test_time_reads_well() -> None:
    assert [shown(Seconds(seconds)) for seconds in (0.4, 119, 120, 3599.9, 3600, 90_061)] == [
        *("0 s", "119 s", "2 min"),
        *("1 h 00 min", "1 h 00 min", "25 h 01 min"),
    ]


def test_a_trained_run_keeps_its_samples_and_is_reported_by_the_command(headway: Any, toy: Toy, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (toy.run / "samples.jsonl").read_bytes().split(b"\n") if line]
    assert [row["step"] for row in rows] == [2] * 5
    code, _, err = headway("report", toy.run, "-o", tmp_path / "page.html", "-q")
    assert (code, err) == (0, "")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == len(CHARTS)
    assert "Sample 5" in text
    code, out, _ = headway("report", toy.run)
    assert code == 0
    assert "best validation BLEU" in out
    code, out, _ = headway("compare", toy.run, "--json")
    assert code == 0
    assert json.loads(out)["sections"][0]["rows"][0] == ["updates", 2]
    code, _, err = headway("report", tmp_path / "none")
    assert (code, "there is no run here" in err) == (2, True)
