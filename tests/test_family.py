"""bench/family.py: what the recipes of the family read."""

from __future__ import annotations

import gzip
from pathlib import Path

import family
import pytest

from headway.recipe import load_recipe


def put(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_the_text_is_what_the_recipes_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, folder = tmp_path / "data", tmp_path / "family"
    monkeypatch.setattr(family, "PAIRED", 4)
    monkeypatch.setattr(family, "HELD_OUT", 3)
    for part in ("train", "dev", "test"):
        put(data / "sst" / f"classes.{part}.txt.gz", [f"{n} ||| {part} says \x85 {n} ||| more" for n in range(5)])
    for name in family.ENGLISH:
        put(data / name, [f"{name} {n}" for n in range(9)])
    for language in ("en", "de"):
        put(data / "multi30k" / f"train.{language}.gz", [f"{language} {n}" for n in range(9)])
        put(data / "multi30k" / f"val.{language}", [f"{language} val"])
    family.prepare(data, folder)
    assert read(folder / "sst.train.labels") == list("01234")
    assert read(folder / "sst.dev.txt")[2] == "dev says \x85 2 ||| more"
    assert read(folder / "few.de") == [f"de {n}" for n in range(4)]
    assert read(folder / "captions.txt") == ["en 4", "de 5", "en 6", "de 7", "en 8"], "no two are translations"
    english, held = read(folder / "english.txt"), read(folder / "english.valid.txt")
    assert len(english) + len(held) == 9 * len(family.ENGLISH) + 5
    assert not {*english} & {*held}
    assert "train says \x85 0 ||| more" in english + held
    assert not any(line.startswith(("dev", "test")) for line in english + held)
    for name in ("english-masked", "sst-from-scratch", "captions-spans", "captions-translated"):
        recipe = load_recipe(name)
        named = [value for _, value in recipe.data if isinstance(value, str) and "$HEADWAY_FAMILY/" in value]
        assert named
        assert all((folder / value.removeprefix("$HEADWAY_FAMILY/")).exists() for value in named)


def test_a_run_is_called_by_the_recipe_that_it_was_made_by(tmp_path: Path) -> None:
    assert family.called(load_recipe("sst-fine-tuned"), tmp_path / "x") == "sst-fine-tuned"
    changed = load_recipe("sst-fine-tuned", {"train.seed": 2, "train.steps": 7})
    assert family.called(changed, tmp_path / "x") == "x, own settings"
