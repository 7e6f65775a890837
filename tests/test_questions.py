"""bench/questions.py: every cell is the base with one thing changed, and can be built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from questions import BASE_EPOCHS, CELLS, recipe_of

from headway.build import build
from headway.strict import Config

BENCH = Path(__file__).parents[1] / "bench" / "questions.py"


def differences(a: Any, b: Any, where: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    """The places of two configs that differ; of parts of other kinds the part."""
    if isinstance(a, Config) and type(a) is type(b):
        return set().union(*(differences(one, getattr(b, name), (*where, name)) for name, one in a))
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return set().union(*(differences(one, other, where) for one, other in zip(a, b, strict=True)))
    return set() if a == b else {where}


ARCHITECTURE = {("decoder",), ("position",), ("scale_embedding",), ("encoder", "layers"), ("encoder", "final_norm")}


def layers(*ends: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {(side, "layers", *end) for side in ("encoder", "decoder") for end in ends}


MAY: dict[str, set[tuple[str, ...]]] = {
    "positions": {("position",)} | layers(("mixer", "position")),
    "residual": {("encoder", "final_norm"), ("decoder", "final_norm")} | layers(("residual",)),
    "heads": layers(("mixer", "num_heads")),
    "keys and values": layers(("mixer",), ("mixer", "num_kv_heads")),
    "feed-forward": layers(("ffn",), ("ffn", "kind")),
    "norm": layers(("norm",)),
    "architecture": ARCHITECTURE,
    "": set(),
}
"""What an answer to each question may change."""


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_the_base_with_one_thing_changed(cell: str) -> None:
    base, changed = recipe_of("base"), recipe_of(cell)
    found = differences(base.model, changed.model)
    assert found <= MAY[CELLS[cell][0]]
    assert bool(found) is (cell != "base")
    assert changed.model_copy(update={"model": base.model}) == base
    with torch.device("meta"):
        build(changed.model, 6000)


def test_the_budget_is_a_share_of_the_recipes_own() -> None:
    assert [recipe_of("base", epochs).train.steps for epochs in (12, BASE_EPOCHS)] == [3500, 14000]
    assert recipe_of("base", seed=3).train.seed == 3


def test_the_cells_are_listed() -> None:
    done = subprocess.run([sys.executable, BENCH, "list"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(CELLS)
