"""Dropout against torch's own and against its definition."""

import math

import pytest
import torch
from torch import nn

from headway.nn.dropout import Dropout, kept

NUM = 400_000


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_numbers_fall_out_with_probability_p_and_the_rest_make_up_for_them(p: float) -> None:
    torch.manual_seed(1)
    mask = kept(torch.empty(NUM), p)
    share = (mask == 0).double().mean().item()
    assert share == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / NUM))  # five standard deviations
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=1e-4)
    assert mask.double().mean().item() == pytest.approx(1, abs=5 * math.sqrt(p / (1 - p) / NUM))


@pytest.mark.parametrize(("p", "dropped"), [(1e-5, 1), (0.1, 6554), (0.3, 19_661), (0.5, 32_768), (0.9999, 65_529)])
def test_of_all_values_of_sixteen_bits_the_lowest_fall_out_and_the_scale_is_of_the_p_that_was_kept(
    p: float, dropped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    monkeypatch.setattr(torch.Tensor, "random_", lambda words, *ends: words.copy_(every.view(torch.int64)))
    wanted = torch.full((2**16,), 2**16 / (2**16 - dropped)).masked_fill(torch.arange(2**16) < dropped, 0)
    assert torch.equal(kept(torch.empty(2**16), p), wanted)


def test_the_four_numbers_of_a_draw_are_independent() -> None:
    """At p = 1/2 all 16 patterns of four are as frequent: chi-squared (15 degrees) under its 1e-6 quantile."""
    torch.manual_seed(2)
    patterns = ((kept(torch.empty(NUM), 0.5) == 0).view(-1, 4).long() * torch.tensor([1, 2, 4, 8])).sum(1)
    counts, expected = patterns.bincount(minlength=16).double(), NUM / 4 / 16
    assert ((counts - expected) ** 2 / expected).sum().item() < 55.0


def test_outputs_and_gradients_are_the_input_and_ones_under_one_mask() -> None:
    x = torch.randn(3, 7, 5, dtype=torch.float64, requires_grad=True)
    out = Dropout(0.25)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(out, x * gradient, rtol=1e-12, atol=0)
    assert gradient.unique().tolist() == pytest.approx([0, 4 / 3])


def test_moments_equal_those_of_torch() -> None:
    torch.manual_seed(3)
    x = torch.ones(NUM)
    ours, theirs = Dropout(0.2)(x), nn.Dropout(0.2)(x)
    assert ours.mean().item() == pytest.approx(theirs.mean().item(), abs=0.01)
    assert ours.std().item() == pytest.approx(theirs.std().item(), abs=0.01)


def test_a_seed_gives_the_same_mask_and_another_gives_another() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return Dropout(0.5)(torch.ones(999))

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_nothing_falls_out_in_evaluation_or_at_probability_zero() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5)(torch.empty(0, 4)).shape == (0, 4)
    assert Dropout(0.5)(torch.ones(8, dtype=torch.bfloat16)).dtype == torch.bfloat16
