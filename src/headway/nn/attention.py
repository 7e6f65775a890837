"""Multi-head attention (Vaswani et al. 2017, section 3.2.2), self and cross, and its sliding-window form.

    head_i = attend(x W_q_i, c W_k_i, c W_v_i);  out = concat(head_1 .. head_h) W_o

with c = x (self) or the context (cross). The independent twins are the einsum model in `tests/twins.py` and
`torch.nn.Transformer`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.attend import Attend, attend, grouped
from headway.nn.cache import Cache, KVCache, SourceCache, WindowCache
from headway.nn.mask import Causal, Document, Full, Mask, Permutation, Prefix, Streams, Window
from headway.nn.mixer import Mixer, Serves
from headway.nn.relation import Relation
from headway.nn.trace import Trace


class Attention(Mixer):
    """Multi-head attention; the widths of a head's keys and values may differ (d_k and d_v of the paper), from head to
    head too.

    Fewer heads of keys and values than of queries are shared by groups of neighbours (Ainslie et al. 2023; one for all:
    Shazeer 2019). Queries and keys may be normed head by head (Henry et al. 2020), and `relation` says how positions
    enter (`headway.nn.relation`).
    """

    serves = Serves(
        masks=frozenset({Full, Causal, Window, Prefix, Document, Permutation, Streams}), cross=True, cached=True
    )

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        key_dim: int | Sequence[int],
        value_dim: int | Sequence[int],
        num_kv_heads: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        relation: Relation | None = None,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
        scale: float | None = None,
        cap: float | None = None,
    ) -> None:
        """key_dim, value_dim: per head, or of each. bias: of q, k and v; out_bias: None: like bias. dropout: on the
        attention weights (the paper has none). scale: of the logits, 1 / sqrt(key_dim) by default; cap: they become
        cap tanh(logits / cap)."""
        super().__init__()
        self.num_heads, self.num_kv_heads, self.dropout = num_heads, num_kv_heads or num_heads, dropout
        self.key_dims, self.value_dims = widths(key_dim, num_heads), widths(value_dim, num_heads)
        alike = isinstance(key_dim, int) and isinstance(value_dim, int)
        assert num_heads % self.num_kv_heads == 0, "check refuses groups of unequal size"
        assert alike or self.num_kv_heads == num_heads, "check refuses groups of heads of unequal width"
        self.uneven = not alike
        self.relation, self.q_norm, self.k_norm, self.cap = relation, q_norm, k_norm, cap
        if relation is not None:  # the places of two texts have no distance between them
            self.serves = replace(self.serves, cross=False)
        self.scale = scale  # None: 1 / sqrt of a head's width
        if scale is None and relation is not None and alike:
            self.scale = relation.scale(self.key_dims[0])
        keys, values = (sum(dims[: self.num_kv_heads]) for dims in (self.key_dims, self.value_dims))
        self.q = nn.Linear(dim, sum(self.key_dims), bias=bias)
        self.k = nn.Linear(dim, keys, bias=bias)
        self.v = nn.Linear(dim, values, bias=bias)
        self.out = nn.Linear(sum(self.value_dims), dim, bias=bias if out_bias is None else out_bias)
        self.attend: Attend = attend

    # ---- heads ----

    def queries(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        """Not yet turned. Heads narrower than the widest are filled up with zeros, and scaled so that all can share
        the scale of the widest."""
        q = split(self.q(x), self.key_dims)
        if self.q_norm is not None:
            q = self.q_norm(q)
        if self.uneven and self.scale is None:
            widest = max(self.key_dims)
            own = q.new_tensor([math.sqrt(widest / dim) for dim in self.key_dims])
            q = q * own[:, None, None]
        return q

    def keys(self, c: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S K"]:
        k = split(self.k(c), self.key_dims[: self.num_kv_heads])
        return k if self.k_norm is None else self.k_norm(k)

    def values(self, c: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S J"]:
        return split(self.v(c), self.value_dims[: self.num_kv_heads])

    def merge(self, mixed: Float[Tensor, "B H T J"]) -> Float[Tensor, "B T HJ"]:
        if not self.uneven:
            return mixed.transpose(1, 2).flatten(2)
        return torch.cat([head[..., :dim] for head, dim in zip(mixed.unbind(1), self.value_dims, strict=True)], -1)

    # ---- the layer ----

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        context: Float[Tensor, "B S D"] | None = None,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"] | None = None,
        cache: Cache | SourceCache | None = None,
        trace: Trace | None = None,
        values: Float[Tensor, "B S D"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """values: what is mixed, where that is not what keys are made of."""
        q = self.queries(x)
        if isinstance(cache, SourceCache):
            return self.out(self._read(q, cache, mask, positions, trace))
        c, kpos = (x, positions) if context is None else (context, context_positions)
        assert kpos is not None, "context comes with context_positions"
        k, v = self.keys(c), self.values(c if values is None else values)
        late = self.relation is not None and self.relation.late
        if self.relation is not None and not late:
            k = self.relation.turn(k, kpos, lengths(kpos))
        if cache is not None:
            assert isinstance(cache, KVCache | WindowCache)
            assert context is None
            k, v, kpos = cache.extend(k, v, positions)
        return self.out(self.merge(self._look(q, k, v, mask, positions, kpos, late, trace)))

    def _look(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        v: Float[Tensor, "B G S J"],
        mask: Mask,
        positions: Int[Tensor, "B T"],
        kpos: Int[Tensor, "B S"],
        late: bool,
        trace: Trace | None,
    ) -> Float[Tensor, "B H T J"]:
        bias, value, relation = None, None, self.relation
        if relation is not None:
            plain, far = q, torch.maximum(lengths(kpos), lengths(positions))
            q = relation.turn(q, positions, far)
            k = relation.turn(k, kpos, far) if late else k
            scale = self.scale if self.scale is not None else 1 / math.sqrt(q.shape[-1])
            bias = relation.bias(plain, grouped(k, self.num_heads), positions, kpos, scale)
            if relation.reads_weights:
                value = partial(relation.value, positions=positions, context_positions=kpos)
        return self.attend(
            q,
            k,
            v,
            mask=mask,
            positions=positions,
            context_positions=kpos,
            scale=self.scale,
            bias=bias,
            cap=self.cap,
            value=value,
            dropout=self.dropout if self.training else 0.0,
            trace=trace,
        )

    def _read(
        self, q: Float[Tensor, "R H T K"], cache: SourceCache, mask: Mask, positions: Tensor, trace: Trace | None
    ) -> Float[Tensor, "R T HJ"]:
        """Rows of one source stand in one group and look together: its keys and values are never repeated."""
        assert self.relation is None, "check refuses positions between two texts"
        k, v, kpos = cache.tensors["k"], cache.tensors["v"], cache.positions
        if trace is not None and trace.wants("weights"):  # the plain way, so that weights are recorded per row
            k, v, kpos = k[cache.source_of], v[cache.source_of], kpos[cache.source_of]
            return self.merge(self._look(q, k, v, mask, positions, kpos, False, trace))
        num_tokens = q.shape[2]
        together = cache.gather(q.transpose(1, 2)).flatten(1, 2).transpose(1, 2)  # (U, H, G * T, K)
        positions = cache.gather(positions).flatten(1)
        mixed = self._look(together, k, v, mask, positions, kpos, False, None)
        return cache.scatter(self.merge(mixed).unflatten(1, (-1, num_tokens)))

    def new_cache(self, rows: int) -> Cache:
        w, heads = self.k.weight, self.num_kv_heads
        k = w.new_zeros(rows, heads, 0, max(self.key_dims))
        return KVCache(k, w.new_zeros(rows, heads, 0, max(self.value_dims)))

    def new_source_cache(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> SourceCache:
        return SourceCache({"k": self.keys(context), "v": self.values(context)}, context_positions)


def widths(told: int | Sequence[int], num_heads: int) -> tuple[int, ...]:
    found = (told,) * num_heads if isinstance(told, int) else tuple(told)
    assert len(found) == num_heads, "check refuses other than a width for each head"
    return found


def split(x: Float[Tensor, "B T D"], dims: Sequence[int]) -> Float[Tensor, "B H T K"]:
    """Heads of these widths, those that are narrower than the widest filled up with zeros."""
    if len(set(dims)) == 1:
        return x.unflatten(-1, (len(dims), -1)).transpose(1, 2)
    widest = max(dims)
    return torch.stack([F.pad(head, (0, widest - head.shape[-1])) for head in x.split(list(dims), -1)], 1)


def lengths(positions: Int[Tensor, "B T"]) -> Int[Tensor, " B"]:
    """How long each row's text is so far."""
    return positions.amax(1) + 1


class WindowAttention(Mixer):
    """Attention that sees those fewer than `window` positions away (Beltagy et al. 2020): in a decoder itself and the
    `window - 1` tokens before it, and remembers no more."""

    serves = Serves(masks=frozenset({Full, Causal, Prefix, Document}), cached=True)

    def __init__(self, attention: Attention, window: int) -> None:
        super().__init__()
        self.attention, self.window = attention, window

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        context: Float[Tensor, "B S D"] | None = None,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"] | None = None,
        cache: Cache | SourceCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        assert context is None, "build refuses window attention as a cross sublayer"
        return self.attention(x, mask=mask & Window(self.window), positions=positions, cache=cache, trace=trace)

    def new_cache(self, rows: int) -> Cache:
        empty = self.attention.new_cache(rows)
        assert isinstance(empty, KVCache)
        return WindowCache(empty.k, empty.v, self.window)
