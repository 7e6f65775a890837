"""Alignments read off the cross-attention."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headway.build import build
from headway.generate.align import MEAN, NOWHERE, Head, align, any_head, choose_head, copied, cross_weights, read
from headway.nn.trace import Trace
from headway.recipe import parse_model
from headway.text.tokenizer import BOS, EOS

VOCAB = 23


class Told(nn.Module):
    """A "model" of two layers of two heads, whose weights are given: only one head looks where the token came from."""

    def __init__(self, good: Head) -> None:
        super().__init__()
        self.good, self.weight = good, nn.Parameter(torch.zeros(()))
        self.eval()

    def forward(self, source: torch.Tensor, target: torch.Tensor, trace: Trace) -> None:
        # Predicts target[t + 1] at t, and target is source reversed: row t looks at that token.
        shifted = torch.cat([target[:, 1:], torch.full_like(target[:, :1], -1)], 1)
        same = (shifted[:, :, None] == source[:, None, :]).double() * 0.9
        uniform = torch.full_like(same, 1 / source.shape[1])
        for layer in (0, 1):
            name = f"decoder.layers.{layer}.cross"
            heads = [same if Head(name, head) == self.good else uniform for head in (0, 1)]
            trace.at(name).record("weights", torch.stack(heads, 1))


PAIRS = [([5, 6, 7], [7, 6, 5]), ([9, 8], [8, 9]), ([11, 12, 13, 14], [14, 13, 12, 11])]


def test_the_head_that_looks_at_the_right_place_is_chosen() -> None:
    good = Head("decoder.layers.0.cross", 1)
    anchors = [copied(*[[str(token) for token in side] for side in pair]) for pair in PAIRS]
    # The mean over this layer's heads has its maxima in the same places, and stands before a single head.
    assert choose_head(Told(good), PAIRS, anchors) == (Head("decoder.layers.0.cross", MEAN), 9, 9)
    assert list(align(Told(good), PAIRS, good)) == [[2, 1, 0], [1, 0], [3, 2, 1, 0]]


def test_without_anchors_it_is_the_mean_of_the_last_layer() -> None:
    model = Told(Head("decoder.layers.0.cross", 1))
    assert choose_head(model, PAIRS, [[], [], []]) == (Head("decoder.layers.1.cross", MEAN), 0, 0)
    with pytest.raises(ValueError, match="no pair"):
        choose_head(model, [], [])


def test_a_model_without_cross_attention_has_no_head_and_its_tokens_come_from_nowhere() -> None:
    model = build(parse_model({"preset": "rnnsearch", "dim": 16, "decoder": {"kind": "rnn"}}), VOCAB).eval()
    pairs = [([5, 6], [7, 8, 9]), ([5], [6])]
    assert choose_head(model, pairs, [[], []]) is None
    assert any_head(model) is None
    assert list(align(model, pairs, None)) == [[NOWHERE] * 3, [NOWHERE]]


def test_what_occurs_once_on_either_side_was_copied() -> None:
    assert copied(["a", "b", "c", "b", "7", "x"], ["7", "B", "a", "a", "x"]) == [(0, 4), (4, 5)]
    assert copied([b"2007", b"a"], [b"a", b"2007"], least=3) == [(1, 0)]


@pytest.mark.parametrize("preset", ["transformer-tiny", "rnnsearch"])
def test_weights_are_those_of_each_pair_alone(preset: str) -> None:
    """Rows of shares: with the column of the end they sum to 1; beside others and alone they are the same."""
    torch.manual_seed(3)
    model = build(parse_model(preset), VOCAB).double().eval()
    pairs = [([5, 6, 7, 8, 9], [10, 11, 12]), ([4], [5, 6, 7, 8]), ([7, 7], [9])]
    together = list(cross_weights(model, pairs))
    for pair, found in zip(pairs, together, strict=True):
        (alone,) = cross_weights(model, [pair])
        assert found.keys() == alone.keys()
        trace = Trace()
        model(torch.tensor([[*pair[0], EOS]]), torch.tensor([[BOS, *pair[1]]]), trace)
        for name, weights in found.items():
            assert weights.shape[1:] == (len(pair[1]), len(pair[0]))
            torch.testing.assert_close(weights, alone[name], atol=1e-12, rtol=0)
            whole = torch.cat(trace[f"{name}.weights"], 2)[0]
            torch.testing.assert_close(weights.sum(-1), 1 - whole[:, : len(pair[1]), -1], atol=1e-12, rtol=0)
            assert read(found, Head(name)).shape == (len(pair[1]), len(pair[0]))
    with pytest.raises(ValueError, match="training mode"):
        list(cross_weights(model.train(), pairs))
