"""Which source token each target token came from, read off the cross-attention (Bahdanau et al. 2015, section 5.2.1).

    a_t = argmax_s w[t, s]      w: the weights of one head while y_t is predicted

The target is fed as in training (teacher forcing), so what a search wrote and what is given are aligned alike. Heads
differ: `choose_head` takes the one that finds best, on validation pairs, tokens that were copied, of which one knows
where they came from. Its twin is an argmax over hand-made weights in tests/test_align.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.nn.trace import Trace
from headway.text.tokenizer import BOS, EOS, PAD, UNK

MEAN = -1
NOWHERE = -1
"""The origin of a token of a model that looks at no source while it writes (Sutskever et al. 2014, Cho et al. 2014)."""
LINES = 32


class Head(NamedTuple):
    """Whose weights tell: the layer's name in a trace (`decoder.layers.2.cross`), and one head of it, or MEAN."""

    layer: str
    head: int = MEAN


IdPair = tuple[Sequence[int], Sequence[int]]


@torch.no_grad()
def cross_weights(model: nn.Module, pairs: Iterable[IdPair]) -> Iterator[dict[str, Tensor]]:
    """For each pair, in order, the weights of every layer of cross-attention: (H, T, S), without the ends.

    pairs: (source, target), encoded texts without control tokens, both with a token or more; model: a pair model in
    evaluation mode. A row sums to 1 less what the end of the source got.
    """
    if model.training:
        raise ValueError("the model is in training mode, so dropout would change the weights: call model.eval() first")
    device, pairs = next(model.parameters()).device, list(pairs)
    order = sorted(range(len(pairs)), key=lambda index: max(map(len, pairs[index])))
    found: dict[int, dict[str, Tensor]] = {}
    for begin in range(0, len(order), LINES):
        batch = order[begin : begin + LINES]
        trace = Trace()
        sources = padded([[*pairs[index][0], EOS] for index in batch], device)
        targets = padded([[BOS, *pairs[index][1]] for index in batch], device)
        model(sources, targets, trace)
        layers = {
            name.removesuffix(".weights"): torch.cat(records, 2)  # a recurrent decoder records once a step
            for name, records in trace.records.items()
            if name.endswith(".cross.weights")
        }
        for row, index in enumerate(batch):
            s, t = map(len, pairs[index])
            found[index] = {name: kept[row, :, :t, :s].cpu() for name, kept in layers.items()}
    yield from (found[index] for index in range(len(pairs)))


def padded(rows: list[list[int]], device: torch.device) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device=device)


def align(model: nn.Module, pairs: Iterable[IdPair], head: Head | None) -> Iterator[list[int]]:
    """For each pair and each target token, the source token that it came from, counted from 0; NOWHERE without
    a head."""
    if head is None:
        yield from ([NOWHERE] * len(target) for _, target in pairs)
        return
    for layers in cross_weights(model, pairs):
        yield read(layers, head).argmax(-1).tolist()


def read(layers: dict[str, Tensor], head: Head) -> Tensor:
    """(T, S)."""
    weights = layers[head.layer]
    return weights.mean(0) if head.head == MEAN else weights[head.head]


def copied(source: Sequence[str | bytes], target: Sequence[str | bytes], *, least: int = 1) -> list[tuple[int, int]]:
    """(t, s) of what occurs once on either side and is `least` long or longer: numbers, names."""
    once = {item for item, count in Counter(source).items() if count == 1 and len(item) >= least}
    once &= {item for item, count in Counter(target).items() if count == 1}
    return [(t, source.index(item)) for t, item in enumerate(target) if item in once]


class Chosen(NamedTuple):
    """The best head, and in how many of `num` copied tokens it looked at the right place."""

    head: Head
    right: int
    num: int


def choose_head(
    model: nn.Module, pairs: Sequence[IdPair], anchors: Sequence[Sequence[tuple[int, int]]]
) -> Chosen | None:
    """The head whose weights are largest at the most `anchors`: (t, s) of each pair that are known to belong together;
    None where the model has no cross-attention.

    Ties, and no anchors at all, go to the mean over heads before a single one, and to the last layer.
    """
    right: Counter[Head] = Counter()
    num, heads = 0, list[Head]()
    for layers, known in zip(cross_weights(model, pairs), anchors, strict=True):
        heads = heads or [
            Head(name, head) for name in reversed(layers) for head in (MEAN, *range(layers[name].shape[0]))
        ]
        num += len(known)
        for head in heads if known else ():
            found = read(layers, head).argmax(-1)
            right[head] += sum(int(found[t]) == s for t, s in known)
    if not pairs:
        raise ValueError("there is no pair to choose a head of cross-attention by")
    if not heads:
        return None
    best = max(heads, key=lambda head: right[head])  # the first of equal ones
    return Chosen(best, right[best], num)


def any_head(model: nn.Module) -> Head | None:
    """The mean over the last layer, for a model of which nothing is known; None without cross-attention."""
    found = choose_head(model, [([UNK], [UNK])], [[]])
    return found and found.head
