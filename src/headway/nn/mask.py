"""Masks are values: they say who may look where, as a function of positions, and the dispatch asks what they are.

`mask.allows(q, k)` is True where a query at position q may look at a key at position k. Position -1 holds no token, and
no mask lets anybody look there: so padding travels in the positions and is no mask of its own. Combine masks with `&`
and `|`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor


class Mask:
    """Abstract: one kind of view. Final kinds below."""

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        raise TypeError(f"{type(self).__name__} is abstract")

    def parts(self) -> tuple[Mask, ...]:
        """The simple masks this one is made of."""
        return (self,)

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)


@dataclass(frozen=True)
class Full(Mask):
    """Every token sees every token."""

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        return (k >= 0)[:, None, :].expand(-1, q.shape[1], -1)


@dataclass(frozen=True)
class Causal(Mask):
    """A token sees itself and what came before (Vaswani et al. 2017, section 3.2.3)."""

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        return (k[:, None, :] <= q[:, :, None]) & (k >= 0)[:, None, :]


@dataclass(frozen=True)
class Window(Mask):
    """A token sees those fewer than `size` positions away, on both sides; `Causal() & Window(size)` looks back only."""

    size: int

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        return ((q[:, :, None] - k[:, None, :]).abs() < self.size) & (k >= 0)[:, None, :]


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """The first `lengths` (B,) tokens of each row see each other both ways, and the rest what came before (Liu et al.
    2018; Raffel et al. 2020, figure 4)."""

    lengths: Int[Tensor, " B"]

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        inside = (k < self.lengths[:, None])[:, None, :] & (q < self.lengths[:, None])[:, :, None]
        return (inside | (k[:, None, :] <= q[:, :, None])) & (k >= 0)[:, None, :]


@dataclass(frozen=True, eq=False)
class Document(Mask):
    """A token sees those of its own text only; documents (B, T): which text each SLOT is of, in rows that hold several
    (so it is for a row that looks at itself). Slots beyond the table see nothing and are not seen."""

    documents: Int[Tensor, "B N"]

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        size = max(q.shape[1], k.shape[1])
        assert size >= self.documents.shape[1], "a part of a packed row cannot be told from the whole"
        of = F.pad(self.documents, (0, size - self.documents.shape[1]), value=-1)
        own, other = of[:, : q.shape[1], None], of[:, None, : k.shape[1]]
        return (own == other) & (other >= 0) & (k >= 0)[:, None, :]


@dataclass(frozen=True, eq=False)
class Permutation(Mask):
    """Tokens are predicted in an order of their own (Yang et al. 2019, XLNet): rank (B, N) says when each POSITION's
    turn is. A token sees those of lower rank, and with `itself` (the content stream) itself."""

    rank: Int[Tensor, "B N"]
    itself: bool

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        mine, theirs = (self.rank.gather(1, at.clamp(min=0)) for at in (q, k))
        before = theirs[:, None, :] < mine[:, :, None]
        same = (k[:, None, :] == q[:, :, None]) if self.itself else torch.zeros_like(before)
        return (before | same) & (k >= 0)[:, None, :]


@dataclass(frozen=True, eq=False)
class Streams(Mask):
    """The two streams of a permutation language model, side by side in one row of 2 N slots (Yang et al. 2019, figure
    1): the first N read the text, each in its turn and with itself; the other N guess it, each from those whose turn
    was before. Nobody sees a guess. rank (B, N): as of a `Permutation`."""

    rank: Int[Tensor, "B N"]

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        size = self.rank.shape[1]
        assert q.shape[1] == k.shape[1] == 2 * size, "two streams look at themselves, whole"
        read, guess = (
            Permutation(self.rank, itself).allows(q[:, begin : begin + size], k[:, :size])
            for begin, itself in ((0, True), (size, False))
        )
        return F.pad(torch.cat([read, guess], 1), (0, size))


@dataclass(frozen=True)
class Both(Mask):
    """`a & b`."""

    a: Mask
    b: Mask

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        return self.a.allows(q, k) & self.b.allows(q, k)

    def parts(self) -> tuple[Mask, ...]:
        return self.a.parts() + self.b.parts()


@dataclass(frozen=True)
class Either(Mask):
    """`a | b`."""

    a: Mask
    b: Mask

    def allows(self, q: Int[Tensor, "B T"], k: Int[Tensor, "B S"]) -> Bool[Tensor, "B T S"]:
        return self.a.allows(q, k) | self.b.allows(q, k)

    def parts(self) -> tuple[Mask, ...]:
        return self.a.parts() + self.b.parts()
