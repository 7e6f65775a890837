"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs", equations 8-12 with phi = elu + 1).

    out_t = phi(q_t) S_t / (phi(q_t) . z_t),   S_t = S_{t-1} + phi(k_t) v_t^T,   z_t = z_{t-1} + phi(k_t)

The parallel form trains, the recurrent form decodes: its memory is S and z, whatever the length.
`tests/test_nn.py` holds
one against the other and both against a loop over the equations.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.cache import Cache, RecurrentCache, SourceCache
from headway.nn.elementwise import Elementwise
from headway.nn.mask import Causal, Full, Mask
from headway.nn.mixer import Mixer, Serves
from headway.nn.trace import Trace

EPSILON = 1e-6
"""Keeps the denominator from zero where nothing has been seen."""


class LinearAttention(Mixer):
    """Multi-head attention with the kernel phi(q) . phi(k) in the place of exp(q . k)."""

    serves = Serves(masks=frozenset({Full, Causal}), cached=True)

    def __init__(self, dim: int, num_heads: int, *, head_dim: int, bias: bool = True) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.q = nn.Linear(dim, num_heads * head_dim, bias=bias)
        self.k = nn.Linear(dim, num_heads * head_dim, bias=bias)
        self.v = nn.Linear(dim, num_heads * head_dim, bias=bias)
        self.out = nn.Linear(num_heads * head_dim, dim, bias=bias)
        self.elu = Elementwise(F.elu)

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
        assert context is None, "build refuses linear attention as a cross sublayer"
        q, k, v = (p(x).unflatten(-1, (self.num_heads, -1)) for p in (self.q, self.k, self.v))  # (B, T, H, K)
        q = self.elu(q) + 1
        k = (self.elu(k) + 1).masked_fill((positions < 0)[:, :, None, None], 0.0)
        if cache is not None:
            assert isinstance(cache, RecurrentCache)
            assert mask == Causal()
            mixed = self._recur(q, k, v, positions, cache)
        else:
            mixed = self._parallel(q, k, v, mask, positions, trace)
        return self.out(mixed.flatten(2))

    def _parallel(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, positions: Int[Tensor, "B T"], trace: Trace | None
    ) -> Float[Tensor, "B T H K"]:
        """All tokens at once, through the (T, T) products."""
        weights = torch.einsum("bthk,bshk->bhts", q, k)
        if mask != Full():
            weights = weights.masked_fill(~mask.allows(positions, positions)[:, None], 0.0)
        total = weights.sum(-1, keepdim=True) + EPSILON
        if trace is not None:
            trace.record("weights", weights / total)
        return torch.einsum("bhts,bshk->bthk", weights / total, v)

    def _recur(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Int[Tensor, "B T"], cache: RecurrentCache
    ) -> Float[Tensor, "B T H K"]:
        """One token after the other."""
        mixed = []
        for t in range(q.shape[1]):
            z = cache.state["z"] + k[:, t]
            s = cache.state["s"] + k[:, t, :, :, None] * v[:, t, :, None, :]
            cache.advance({"s": s, "z": z}, positions[:, t] >= 0)
            # Sums over K of products: a row's bits then do not depend on how many rows there are.
            total = (q[:, t] * z).sum(-1, keepdim=True) + EPSILON
            mixed.append((q[:, t, :, :, None] * s).sum(-2) / total)
        return torch.stack(mixed, 1)

    def new_cache(self, rows: int) -> Cache:
        size = (rows, self.num_heads, self.head_dim)
        w = self.k.weight
        return RecurrentCache({"s": w.new_zeros(*size, self.head_dim), "z": w.new_zeros(*size)})
