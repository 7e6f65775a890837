"""Promise 2, bitwise class: in float32 a row's logits have the same bits alone, among others, in another order and
beside longer texts.

The last test takes the rounding away and must see bits differ, or the others prove nothing.
"""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from contract.tenants import VOCAB, make_pair, pair_configs
from headway.build import build
from headway.models.seq2seq import Seq2Seq, is_invariant
from headway.nn.invariant import apply_batch_invariance
from headway.recipe import parse_model

NAMES = ["transformer-tiny", "transformer-tiny-linear", "transformer-tiny-window", "rnnsearch"]
V = 2_000
PAIRS = pair_configs()


def make(name: str) -> Seq2Seq:
    torch.manual_seed(1)
    return build(parse_model(name), V).eval()


@torch.inference_mode()
def logits(model: Seq2Seq, sources: list[list[int]], targets: Tensor, beam: int = 1) -> Tensor:
    """(N, T, V), decoded step by step, each source repeated `beam` times; the first of each beam."""
    state = model.start(sources).select(torch.arange(len(sources)).repeat_interleave(beam))
    rows = targets.repeat_interleave(beam, 0)
    out = [model.step(state, rows[:, t : t + 1]).logits[::beam] for t in range(targets.shape[1])]
    return torch.cat(out, 1)


def some_texts(num: int) -> tuple[list[list[int]], Tensor]:
    rnd = random.Random(3)
    lengths = [1, 2, 5, 15, 16, 17, 24, 33, 47, 48, 60]
    sources = [[rnd.randrange(4, V) for _ in range(lengths[i % len(lengths)])] for i in range(num)]
    return sources, torch.tensor([[rnd.randrange(4, V) for _ in range(20)] for _ in range(num)])


@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_neighbours_order_padding_or_beam(name: str) -> None:
    model = apply_batch_invariance(make(name))
    sources, targets = some_texts(11)
    together = logits(model, sources, targets)
    order = list(range(11))
    random.Random(5).shuffle(order)
    shuffled = logits(model, [sources[i] for i in order], targets[order])
    for place, i in enumerate(order):
        assert torch.equal(shuffled[place], together[i]), f"order changed the bits of a text of {len(sources[i])}"
    for i in range(11):
        for beam in (1, 4):
            alone = logits(model, sources[i : i + 1], targets[i : i + 1], beam)[0]
            assert torch.equal(alone, together[i]), f"a text of {len(sources[i])}, beam {beam}, has other bits alone"


@pytest.mark.parametrize("name", PAIRS)
def test_bits_of_every_mixer_that_decodes_are_those_of_the_row_alone(name: str) -> None:
    """At a width that is no whole number of vectors; whoever adds a mixer is here at once."""
    model = apply_batch_invariance(make_pair(PAIRS[name].model_copy(update={"dim": 36}), torch.float32))
    sources, targets = some_texts(11)
    sources, targets = [[3 + token % (VOCAB - 3) for token in text] for text in sources], 3 + targets % (VOCAB - 3)
    together = logits(model, sources, targets)
    for i in range(0, 11, 2):
        alone = logits(model, sources[i : i + 1], targets[i : i + 1], beam=3)[0]
        assert torch.equal(alone, together[i]), f"a text of {len(sources[i])} has other bits alone"


@pytest.mark.parametrize("name", NAMES)
def test_the_self_check_holds_at_every_length_up_to_60_tokens_and_fails_without_the_rounding(name: str) -> None:
    model = make(name)
    assert not is_invariant(model, 60, beside=180)
    apply_batch_invariance(model)
    assert all(is_invariant(model, length, beside=180) for length in (1, 2, 7, 16, 31, 48, 60))


@pytest.mark.parametrize("name", NAMES)
def test_rounding_changes_no_value(name: str) -> None:
    plain = make(name)
    sources, targets = some_texts(5)
    before = logits(plain, sources, targets)
    after = logits(apply_batch_invariance(plain), sources, targets)
    torch.testing.assert_close(before, after, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_without_the_rounding_bits_do_differ(name: str) -> None:
    model = make(name)
    sources, targets = some_texts(11)
    together = logits(model, sources, targets)
    alone = [logits(model, sources[i : i + 1], targets[i : i + 1])[0] for i in range(11)]
    assert any(not torch.equal(alone[i], together[i]) for i in range(11))
