"""Runs as pictures and tables: what `headway report` draws, and the tables that `headway compare` shows of runs too.

A run is read as far as it goes: it may be unfinished, resumed, or killed in the middle of a line; what could not be
read is counted and said. Curves of many updates are thinned for drawing (`thin`). What writes these files is
headway.train.log; the independent check, files written by hand, is tests/test_run_report.py.
"""

import json
import math
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from headway.checkpoint import WEIGHTS
from headway.evaluate.cost import SHOWN_LENGTH
from headway.evaluate.report import Cell, Lines, Seconds, Section, Table, Text, Version, Versions
from headway.train.state import RECIPE, RUN, flatten

Points = list[tuple[float, float]]

DRAWN = 120
"""Points of a curve that are drawn; where there are more updates, each point is the mean of several."""

STEPS_SHOWN = 6
"""Validations of a run whose samples are shown: the first, the last, and some between."""

CHARTS = {
    "nll": ("training loss", "nats a target token"),
    "valid_loss": ("validation loss", "nats a target token"),
    "valid_bleu": ("validation BLEU", "BLEU"),
    "lr": ("learning rate", "learning rate"),
    "speed": ("throughput", "target tokens a second"),
    "padding": ("padding", "share of the places"),
    "grad_norm": ("gradient norm", "norm before clipping"),
}
"""What is drawn over the updates."""

FLOPS = f"FLOPs a target token (forward, {SHOWN_LENGTH} tokens a side; windows and linear attention as dense)"


@dataclass
class Run:
    """A run folder, read. rows: numbers by step and name; samples: (step, source, reference, output), in order."""

    name: str
    folder: Path
    recipe: dict[str, Any] = field(default_factory=dict)  # flat: path to value
    rows: dict[int, dict[str, float]] = field(default_factory=dict)
    samples: list[tuple[int, str, str, str]] = field(default_factory=list)
    seconds: float | None = None
    costs: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        return max(self.rows, default=0)

    def curve(self, name: str) -> Points:
        return [(step, row[name]) for step, row in sorted(self.rows.items()) if name in row]

    def best(self, name: str, sign: int) -> tuple[float | None, float | None]:
        """The highest value of a name (sign 1) or the lowest (-1), and the first step that has it."""
        points = [(step, value) for step, value in self.curve(name) if math.isfinite(value)]
        step, value = max(points, key=lambda point: (sign * point[1], -point[0]), default=(None, None))
        return value, step


# ---- from files ----


def read_runs(folders: Sequence[str | Path], costs: Callable[[Path], Mapping[str, Any]]) -> list[Run]:
    """The runs in these folders; costs(folder): as `headway.evaluate.cost` gives them, ValueError where it cannot.

    Raises ValueError for every folder that is no run, or is named twice."""
    paths = [Path(folder) for folder in folders]
    told = "there is no run here; name a folder that `headway train` made"
    faults = [f"{path}: {told}" for path in paths if not (path / RUN).is_file()]
    names = distinct(paths, faults)
    if faults:
        raise ValueError("\n".join(faults))
    return [read_run(path, name, costs) for path, name in zip(paths, names, strict=True)]


def distinct(paths: Sequence[Path], faults: list[str]) -> list[str]:
    """A name for each path: the shortest of its endings that no other path has, mostly its last part. What is named
    twice is added to the faults."""
    real = [Path(os.path.realpath(path)).parts for path in paths]
    faults += [f"{path}: is named twice" for number, path in enumerate(paths) if real[number] in real[:number]]
    taken = Counter(own[at:] for own in set(real) for at in range(len(own)))
    return [str(Path(*next(own[at:] for at in reversed(range(len(own))) if taken[own[at:]] == 1))) for own in real]


def read_run(folder: Path, name: str, costs: Callable[[Path], Mapping[str, Any]]) -> Run:
    run = Run(name, folder)
    try:
        run.recipe = flatten(tomllib.loads((folder / RECIPE).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        run.notes.append(f"{RECIPE} could not be read ({error})")
    for row in read_rows(run, "metrics.jsonl", is_numbers):
        run.rows.setdefault(row["step"], {}).update({key: value for key, value in row.items() if key != "step"})
    for row in read_rows(run, "samples.jsonl", is_sample):
        run.samples.append((row["step"], row["source"], row["reference"], row["output"]))
    clock(run)
    state(run)
    try:
        run.costs = costs(folder)
    except ValueError as error:
        run.notes.append(f"its parameters could not be counted ({error})")
    return run


def is_numbers(row: Any) -> bool:
    numbers = isinstance(row, dict) and all(isinstance(value, int | float) for value in row.values())
    return numbers and isinstance(row.get("step"), int)


def is_sample(row: Any) -> bool:
    texts = isinstance(row, dict) and all(isinstance(row.get(name), str) for name in ("source", "reference", "output"))
    return texts and isinstance(row.get("step"), int)


def read_rows(run: Run, name: str, fits: Callable[[Any], bool]) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines. A line that was cut, as by kill -9, is left out and counted."""
    path, broken = run.folder / name, 0
    if not path.exists():
        run.notes.append(f"there is no {name}")
        return
    for line in path.read_bytes().split(b"\n"):  # and at nothing else: U+2028 may stand in a text
        try:
            row = json.loads(line) if line else None
            if row is not None and not fits(row):
                raise ValueError
        except (ValueError, RecursionError):
            broken += 1
            continue
        if row is not None:
            yield row
    if broken:
        lines = "line" if broken == 1 else "lines"
        run.notes.append(f"{name}: left out {broken:,} broken {lines} (cut short, or changed)")


def clock(run: Run) -> None:
    """The time spent, redone updates included, and each update's tokens a second, from timing.jsonl.

    An update's row comes first, then that of its validation, if there is one, under the same step. A resumed run is
    known by a step that goes back, or by more time between two rows than the later one took."""
    before, breaks, spent, seconds = None, 0, 0.0, {}
    for row in read_rows(run, "timing.jsonl", lambda row: is_numbers(row) and {"unix", "seconds"} <= row.keys()):
        spent += row["seconds"]
        if before is not None and (row["step"] < before["step"] or row["unix"] - before["unix"] > row["seconds"] + 2):
            breaks, before = breaks + 1, None
        if before is None or row["step"] != before["step"]:
            seconds[row["step"]] = row["seconds"]
        before = row
    for step, took in seconds.items():
        if "tokens" in (found := run.rows.get(step, {})) and took > 0:
            found["speed"] = found["tokens"] / took
    run.seconds = spent if before is not None else None
    if breaks:
        run.notes.append(f"went on after {breaks:,} break{'s' if breaks > 1 else ''} (resumed, or the machine slept)")


def state(run: Run) -> None:
    """Whether the run came to its end."""
    steps = run.recipe.get("train.steps")
    if failed := sorted(run.folder.glob("failed-step-*.json")):
        run.notes.append(f"the numbers blew up: {', '.join(path.name for path in failed)}")
    if not (run.folder / WEIGHTS).exists():
        told = f" of {steps:,}" if isinstance(steps, int) else ""
        run.notes.append(f"not finished: {run.step:,} updates{told} so far")


# ---- to sections ----


def report(runs: Sequence[Run]) -> list[Section]:
    """Everything: tables, curves, samples."""
    charts = [chart for name in CHARTS if (chart := curves(runs, name)) is not None]
    missing = [title for name, (title, _) in CHARTS.items() if not any(run.curve(name) for run in runs)]
    words = [*thinned(runs)]
    words += [f"Not recorded in any run: {', '.join(missing)}."] if missing else []
    words.append("The training loss is without label smoothing, so that it compares with that of the validation.")
    words.append("Throughput is that of the updates, without validation.")
    words.append("BLEU while training is of the first validation lines only; the loss is of all.")
    return [*tables(runs), Text("How to read the curves", words), *charts, *samples(runs)]


def tables(runs: Sequence[Run]) -> list[Section]:
    """A column for each run; where their recipes differ; what is to be known of them."""
    rows: dict[str, list[Cell]] = {
        "updates": [run.step for run in runs],
        "parameters": [run.costs.get("parameters") for run in runs],
        FLOPS: [run.costs.get("flops_per_target_token") for run in runs],
        "time": [None if run.seconds is None else Seconds(run.seconds) for run in runs],
        "seed": [run.recipe.get("train.seed") for run in runs],
    }
    for name, sign in (("valid_loss", -1), ("valid_bleu", 1)):
        values, steps = zip(*(run.best(name, sign) for run in runs), strict=True)
        rows |= {f"best {CHARTS[name][0]}": list(values), f"best {CHARTS[name][0]}, at update": list(steps)}
    found: list[Section] = [
        Table("Runs", ["", *(run.name for run in runs)], [[key, *row] for key, row in rows.items()])
    ]
    notes = [f"{run.name}: {'; '.join(run.notes)}" for run in runs if run.notes]
    if len(runs) > 1:
        found.append(differs := differing(runs))
        if isinstance(differs, Table) and any(None in row for row in differs.rows):
            notes.append(EMPTY)
    return [*found, Text("To know of these runs", notes)] if notes else found


EMPTY = (
    "An empty cell where recipes differ: a part of the other kind has no such setting, or the run is of a version of "
    "Headway that had none."
)


def differing(runs: Sequence[Run]) -> Section:
    """The settings of the recipes that are not the same in all runs; an empty cell where a recipe has no such key."""
    keys = sorted({key for run in runs for key in run.recipe})
    rows = [[key, *(cell(run.recipe.get(key)) for run in runs)] for key in keys]
    rows = [row for row in rows if any(value != row[1] for value in row[2:])]
    title = "Where their recipes differ"
    return Table(title, ["setting", *(run.name for run in runs)], rows) if rows else Text(title, ["Nowhere."])


def cell(value: Any) -> Cell:
    """A value of a recipe as it is spelt there."""
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def size(points: Points) -> int:
    """How many updates one drawn point is the mean of."""
    return -(-len(points) // DRAWN)


def thin(points: Points) -> tuple[Points, Points]:
    """At most DRAWN points, each the mean of equally many in a row, with the lowest and the highest of them. What is
    not finite makes its mean so."""
    cut = [points[at : at + size(points)] for at in range(0, len(points), max(size(points), 1))]
    means = [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in cut]
    return means, [(min(y for _, y in part), max(y for _, y in part)) for part in cut]


def thinned(runs: Sequence[Run]) -> Iterator[str]:
    """For people: what a drawn point of these runs is."""
    sizes = {run.name: size(run.curve("nll")) for run in runs}
    for num in sorted({*sizes.values()} - {0, 1}):
        names = ", ".join(name for name, own in sizes.items() if own == num)
        told = f"a point is the mean of {num:,} updates in a row, and the band reaches from the lowest to the highest"
        yield f"{names}: {told}."


def curves(runs: Sequence[Run], name: str) -> Lines | None:
    """One chart, each run with its colour, or None where no run has such numbers."""
    every = {run.name: run.curve(name) for run in runs}
    if not any(every.values()):
        return None
    drawn = {run: thin(points) for run, points in every.items()}
    bands = {run: ends for run, (_, ends) in drawn.items() if size(every[run]) > 1}
    (title, unit), means = CHARTS[name], {run: means for run, (means, _) in drawn.items()}
    return Lines(title[0].upper() + title[1:], "updates", unit, means, bands)


def samples(runs: Sequence[Run]) -> list[Section]:
    """What each run said of the same source over time."""
    versions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for run in runs:
        steps = spread(sorted({step for step, *_ in run.samples}))
        for step, source, reference, output in run.samples:
            if step in steps:
                whose = f"{run.name}, " if len(runs) > 1 else ""
                versions.setdefault((source, reference), []).append((f"{whose}update {step:,}", output))
    rows = [
        Version(f"Sample {number}", [("source", source), ("reference", reference), *said])
        for number, ((source, reference), said) in enumerate(versions.items(), 1)
    ]
    return [Versions("What was said over time", rows)] if rows else []


def spread(steps: Sequence[int]) -> list[int]:
    """At most STEPS_SHOWN of them, the first and the last among these."""
    last, num = len(steps) - 1, min(len(steps), STEPS_SHOWN)
    return [step for step, _ in groupby(steps[round(at * last / max(num - 1, 1))] for at in range(num))]
