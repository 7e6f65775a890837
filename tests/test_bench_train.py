"""bench/train.py compares like with like, and says what it cannot measure."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

SCRIPT = Path(__file__).parents[1] / "bench" / "train.py"


@pytest.fixture(scope="module")
def bench() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def side(bench: dict[str, Any], name: str) -> tuple[nn.Module, Any]:
    if name in bench["PACKAGES"]:
        pytest.importorskip(bench["PACKAGES"][name], reason="the extra `peers` is not installed")
    return bench["MODELS"][name](bench["SHAPES"]["tiny"])


PEERS = ["torch_transformer", "marian", "x_transformers"]


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_has_as_many_parameters_as_ours_within_three_percent(bench: dict[str, Any], name: str) -> None:
    ours, theirs = (
        sum(weight.numel() for weight in side(bench, one)[0].parameters() if weight.requires_grad)
        for one in ("headway", name)
    )
    assert theirs == pytest.approx(ours, rel=0.03)


@pytest.mark.parametrize("name", ["headway", *PEERS])
def test_a_side_drops_out_embeddings_and_what_its_sublayers_add_and_nothing_else(
    bench: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 + 4 layers: two embeddings, 4 times 2 sublayers and 4 times 3, at 0.1 each; no attention weights."""
    _, loss = side(bench, name)
    seen = list[tuple[float, int]]()

    def dropped(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if training and p:
            seen.append((p, x.shape[-1]))
        return x

    def attended(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **more: Any) -> Any:
        assert not dropout_p
        return attend(q, k, v, attn_mask, dropout_p, *args, **more)

    attend = nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(nn.functional, "dropout", dropped)
    monkeypatch.setattr("headway.nn.dropout.kept", lambda x, p: dropped(torch.ones_like(x), p))
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", attended)
    loss(torch.randint(4, 99, (3, 5)), torch.randint(4, 99, (3, 8))).backward()
    assert seen == [(0.1, 128)] * (2 + 4 * 2 + 4 * 3)


def test_captions_that_are_not_there_are_asked_for(
    bench: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench["main"].__globals__, "DATA", None)
    monkeypatch.setattr(sys, "argv", ["train.py", "--shape", "multi30k"])
    with pytest.raises(SystemExit, match="2"):
        bench["main"]()
    assert "--shape multi30k needs HEADWAY_DATA" in capsys.readouterr().err


def test_a_side_whose_process_ends_is_named(bench: dict[str, Any]) -> None:
    command = [sys.executable, "-c", "input(); raise SystemExit(3)"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker,
        pytest.raises(ValueError, match="marian: its process ended with 3, and gave no figures"),
    ):
        bench["ask"]("marian", worker, [([[4]], [[1, 5]])])
