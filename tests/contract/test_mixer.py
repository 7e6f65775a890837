"""The contract of `headway.nn.mixer.Mixer`, for every mixer that a config can name."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contract.tenants import DIM, make_mixer, mixer_configs
from headway.nn.mask import Causal, Full, Mask, Window
from headway.nn.mixer import Mixer
from headway.nn.trace import Trace

MIXERS = mixer_configs()
B, T = 3, 7


@pytest.fixture(params=MIXERS, name="mixer")
def _mixer(request: pytest.FixtureRequest) -> Mixer:
    return make_mixer(MIXERS[request.param])


def some_mask(mixer: Mixer) -> Mask:
    return Causal() if mixer.serves.causal else Full()


def some_x(rows: int = B, length: int = T) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, length, DIM, dtype=torch.float64, generator=generator)
    return x, torch.arange(length).expand(rows, -1)


def test_output_has_the_shape_and_dtype_of_the_stream(mixer: Mixer) -> None:
    x, positions = some_x()
    out = mixer(x, mask=some_mask(mixer), positions=positions)
    assert out.shape == x.shape
    assert out.dtype == x.dtype


@pytest.mark.parametrize("mask", [Full(), Causal(), Window(2), Causal() & Window(3), Causal() | Window(2)])
def test_a_change_is_seen_by_exactly_those_whom_the_mask_lets_look(mixer: Mixer, mask: Mask) -> None:
    if mixer.serves.refusal(mask) is not None:
        pytest.skip("this mixer declares that it does not serve this mask")
    x, positions = some_x()
    before = mixer(x, mask=mask, positions=positions)
    for changed in range(T):
        y = x.clone()
        y[:, changed] += 1.0
        moved = (mixer(y, mask=mask, positions=positions) - before).abs().amax((0, 2)) > 1e-12
        allowed = mask.allows(positions[:1], positions[:1])[0, :, changed]
        assert not (moved & ~allowed).any(), f"{changed} was seen from where the mask forbids it"
        assert moved[changed], "a token sees itself"


def test_a_causal_mixer_passes_something_on(mixer: Mixer) -> None:
    x, positions = some_x()
    y = x.clone()
    y[:, 2] += 1.0
    a, b = (mixer(v, mask=some_mask(mixer), positions=positions) for v in (x, y))
    assert (a - b)[:, 3].abs().max() > 1e-9


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_padding_on_either_side_changes_nothing(mixer: Mixer, side: str) -> None:
    x, positions = some_x(rows=1)
    left, right = {"left": (3, 0), "right": (0, 3), "both": (2, 1)}[side]
    junk = torch.full((1, T + left + right, DIM), 5.0, dtype=x.dtype)
    junk[:, left : left + T] = x
    slots = torch.full((1, T + left + right), -1)
    slots[:, left : left + T] = positions
    alone = mixer(x, mask=some_mask(mixer), positions=positions)
    together = mixer(junk, mask=some_mask(mixer), positions=slots)
    assert together.isfinite().all()
    torch.testing.assert_close(together[:, left : left + T], alone, rtol=0, atol=1e-12)


def test_rows_do_not_see_each_other(mixer: Mixer) -> None:
    x, positions = some_x()
    whole = mixer(x, mask=some_mask(mixer), positions=positions)
    for row in range(B):
        one = mixer(x[row : row + 1], mask=some_mask(mixer), positions=positions[:1])
        torch.testing.assert_close(whole[row : row + 1], one, rtol=0, atol=1e-12)


def test_a_trace_changes_no_value_and_its_weights_are_shares_of_what_may_be_seen(mixer: Mixer) -> None:
    x, positions = some_x()
    positions = positions.clone()
    positions[1, 4:] = -1  # padding
    mask, trace = some_mask(mixer), Trace()
    plain = mixer(x, mask=mask, positions=positions)
    traced = mixer(x, mask=mask, positions=positions, trace=trace)
    torch.testing.assert_close(plain, traced, rtol=0, atol=1e-12)
    assert trace.records or not hasattr(mixer, "num_heads"), "what has heads shows what they look at"
    for weights in trace.records.get("weights", []):
        assert weights.shape[::2] == (B, T)
        assert weights.shape[3] == T
        unseen = ~(mask.allows(positions, positions) & (positions >= 0)[:, None])[:, None]
        assert weights.masked_select(unseen).abs().max() < 1e-12
        real = (positions >= 0)[:, None].expand(weights.shape[:3])
        torch.testing.assert_close(weights.sum(-1)[real], torch.ones_like(weights.sum(-1)[real]), rtol=0, atol=1e-4)


def test_gradients_are_finite_and_reach_every_weight(mixer: Mixer) -> None:
    x, positions = some_x()
    positions = positions.clone()
    positions[0] = -1  # a row of nothing but padding
    out = mixer(x, mask=some_mask(mixer), positions=positions)
    (out[1:] ** 2).sum().backward()
    for name, parameter in mixer.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        assert parameter.grad.isfinite().all(), f"{name} has a gradient that is not finite"
        # A key's bias moves all logits of a query alike, which softmax does not see.
        if not name.endswith("k.bias"):
            assert parameter.grad.abs().max() > 0, f"{name} has no gradient"


def test_a_cached_mixer_equals_itself_uncached(mixer: Mixer) -> None:
    if not mixer.serves.cached:
        pytest.skip("this mixer declares that it has no cache")
    x, positions = some_x()
    whole = mixer(x, mask=Causal(), positions=positions)
    cache = mixer.new_cache(B)
    steps = [
        mixer(x[:, a:b], mask=Causal(), positions=positions[:, a:b], cache=cache)
        for a, b in [(0, 1), (1, 4), (4, 5), (5, 7)]
    ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)


def test_cross_reads_the_context_and_not_the_stream_of_others(mixer: Mixer) -> None:
    if not mixer.serves.cross:
        pytest.skip("this mixer declares that it reads no other stream")
    x, positions = some_x()
    context, slots = some_x(length=5)
    context, slots = context.flip(2), slots.clone()
    slots[:, 4] = -1
    out = mixer(x, context=context, mask=Full(), positions=positions, context_positions=slots)
    hidden = context.clone()
    hidden[:, 4] += 9.0  # padding
    same = mixer(x, context=hidden, mask=Full(), positions=positions, context_positions=slots)
    torch.testing.assert_close(same, out, rtol=0, atol=0)
    x2 = x.clone()
    x2[:, 1] += 1.0
    moved = (mixer(x2, context=context, mask=Full(), positions=positions, context_positions=slots) - out).abs()
    assert moved[:, 1].max() > 1e-9
    assert moved[:, [0, 2, 3, 4, 5, 6]].max() < 1e-12
    cached = mixer(x, mask=Full(), positions=positions, cache=mixer.new_source_cache(context, slots))
    torch.testing.assert_close(cached, out, rtol=0, atol=1e-12)
