"""The same promises on a GPU. Skipped without one; all of it by `pytest tests/test_cuda.py`."""

from pathlib import Path

import pytest
import torch

from conftest import Toy
from headway import api
from headway.cli import overrides

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")

LINES = ["The dog runs.", "Did the woman sleep?", "", "If the horse plays, these farmers love the students."] * 3


@pytest.fixture(scope="module")
def run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda") / "run"
    train(toy, folder, {})
    return folder


def train(toy: Toy, out: Path, changes: dict, resume: bool = False) -> dict:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de"}
    settings = {**overrides(list(toy.settings)), "train.steps": 6, "model.dropout": 0.2, **changes}
    return api.train(**files, out=out, set=settings, device="cuda", quiet=True, resume=resume)


def test_two_runs_have_the_same_bits(toy: Toy, run: Path, tmp_path: Path) -> None:
    train(toy, tmp_path / "again", {})
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()


def test_bfloat16_trains_by_autocast(toy: Toy, tmp_path: Path) -> None:
    assert train(toy, tmp_path / "run", {"train.dtype": "bfloat16"})["num_lines"] == 15


def test_the_gpu_gives_the_logits_of_the_cpu(run: Path) -> None:
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]])
    target = torch.tensor([[1, 7, 8], [1, 9, 5]])
    with torch.no_grad():
        there = api.load(run, "cuda").module(source.cuda(), target.cuda()).cpu()
        here = api.load(run, "cpu").module(source, target)
        torch.testing.assert_close(there, here, rtol=0, atol=1e-3)
        exact = api.load(run, "cuda", "float64").module(source.cuda(), target.cuda()).cpu()
        torch.testing.assert_close(exact, api.load(run, "cpu", "float64").module(source, target), rtol=0, atol=1e-9)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_does_not_depend_on_its_neighbours(run: Path, beam: int) -> None:
    model = api.load(run, "cuda")
    together = model.translate(LINES, beam=beam)
    assert [model.translate([line], beam=beam)[0] for line in LINES] == together
    assert model.translate(LINES[::-1], beam=beam) == together[::-1]
