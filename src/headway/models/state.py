"""The decoding protocol, offered by every model shape:

    start(sources) -> State;   step(state, tokens (B, T), counts (B,) = None, trace = None) -> Step(logits (B, T, V),
    hidden (B, T, D))

`step` moves the state on in place: row b reads the first counts[b] of its T tokens (all by default), and logits
beyond them mean nothing.
`tests/contract/test_decoding.py` is the contract, run over every shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.nn.attend import ROUND
from headway.nn.block import LayerCache
from headway.nn.cache import nbytes

PAD = 0
"""The id that fills a batch's rows up; it is never a token of a text (`headway.text.tokenizer`)."""


def positions_of(tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """0, 1, 2 ... over the tokens of each row, -1 over its padding, on whichever side that stands."""
    real = tokens != PAD
    return torch.where(real, real.cumsum(1) - 1, -1)


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> Int[Tensor, "B T"]:
    """Rows as one tensor, filled with PAD on the right up to a multiple of 16."""
    longest = max(len(row) for row in rows)
    size = longest + (-longest % ROUND)
    return torch.tensor([[*row, *[PAD] * (size - len(row))] for row in rows], device=device)


@dataclass(frozen=True)
class Step:
    """logits (B, T, V): of the token after each one read; hidden (B, T, D): what they were made of."""

    logits: Float[Tensor, "B T V"]
    hidden: Float[Tensor, "B T D"]


def next_positions(state: State, tokens: Int[Tensor, "B T"], counts: Int[Tensor, " B"] | None) -> Int[Tensor, "B T"]:
    """Where the tokens of a step stand: behind what was read, -1 beyond a row's count."""
    offsets = torch.arange(tokens.shape[1], device=tokens.device)
    positions = state.lengths[:, None] + offsets
    return positions if counts is None else torch.where(offsets < counts[:, None], positions, -1)


class State:
    """What a model remembers of `rows` sequences. A state has one owner: after `select` or `join` the old one is
    dead."""

    def __init__(self, layers: list[LayerCache], lengths: Int[Tensor, " B"]) -> None:
        self.layers, self.lengths = layers, lengths
        self._marked: Tensor | None = None

    @property
    def rows(self) -> int:
        return self.lengths.shape[0]

    def _caches(self) -> list:
        return [c for layer in self.layers for c in (layer.mixer, layer.cross) if c is not None]

    def bytes(self) -> int:
        """Bytes allocated for what is remembered; a source counts once, however many rows read it."""
        own = [self.lengths] if self._marked is None else [self.lengths, self._marked]
        return nbytes([*own, *(tensor for cache in self._caches() for tensor in cache.held())])

    def select(self, rows: Int[Tensor, " R"]) -> State:
        """These rows in this order: reorder, drop, repeat. Sources that nobody reads any more are let go."""
        for cache in self._caches():
            cache.select(rows)
        chosen = State(self.layers, self.lengths[rows])
        chosen._marked = None if self._marked is None else self._marked[rows]
        return chosen

    @staticmethod
    def join(states: Sequence[State]) -> State:
        """All rows of all states, in order. Marks are forgotten."""
        first, rest = states[0], states[1:]
        for mine, *theirs in zip(*(s._caches() for s in states), strict=True):
            mine.join(theirs)
        return State(first.layers, torch.cat([first.lengths, *(s.lengths for s in rest)]))

    def mark(self) -> None:
        """From here on `trim` can come back to any length between the present one and the one reached."""
        self._marked = self.lengths
        for layer in self.layers:
            layer.mixer.mark()

    def trim(self, lengths: Int[Tensor, " B"]) -> None:
        """Forget all but the first `lengths` tokens of each row; no further back than the last mark."""
        if self._marked is None or bool((lengths < self._marked).any()) or bool((lengths > self.lengths).any()):
            low = None if self._marked is None else self._marked.tolist()
            raise ValueError(
                f"trim to {lengths.tolist()}: legal from the last mark ({low}) to the present "
                f"lengths {self.lengths.tolist()}; call mark() first"
            )
        for layer in self.layers:
            layer.mixer.trim(lengths)
        self.lengths = lengths.clone()

    def save(self, row: int, upto: int) -> dict[str, Tensor]:
        """What is remembered of one row's first `upto` tokens, by name; its source is not part of it."""
        if not 0 <= upto <= int(self.lengths[row]):
            raise ValueError(f"upto = {upto}: row {row} has read {int(self.lengths[row])} tokens")
        parts = {"length": torch.tensor(upto)}
        for i, layer in enumerate(self.layers):
            parts |= {f"layers.{i}.{name}": x for name, x in layer.mixer.save(row, upto).items()}
        return parts

    def load(self, parts: Mapping[str, Tensor]) -> State:
        """Into a fresh state of one row (from `start`, which knows the source): go on where `save` stood."""
        assert self.rows == 1, "load into a fresh state of one row"
        for i, layer in enumerate(self.layers):
            prefix = f"layers.{i}."
            layer.mixer.load({n.removeprefix(prefix): x for n, x in parts.items() if n.startswith(prefix)})
        self.lengths = parts["length"][None].to(self.lengths.device)
        return self
