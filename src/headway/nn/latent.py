"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): what is remembered of a token is one narrow
vector, of which all heads make their keys and values, and a few turned coordinates that the heads share.

    c = norm(x W_DKV)                   k_h = [c W_UK_h; turn(x W_KR)]      v_h = c W_UV_h
    q_h = [u W_UQ_h; turn(u W_QR_h)]    u = norm(x W_DQ), or x              logits = q_h k_h / sqrt(head_dim + rope_dim)

Training expands keys and values; decoding absorbs W_UK into the query and W_UV into the output, so that all heads look
at the one latent (section 2.1.2). `tests/test_attention.py` holds both against each other and an einsum twin.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.attend import Attend, attend
from headway.nn.attention import lengths, split
from headway.nn.cache import Cache, KVCache, SourceCache
from headway.nn.mask import Causal, Document, Full, Mask, Permutation, Prefix, Window
from headway.nn.mixer import Mixer, Serves
from headway.nn.relation import Relation
from headway.nn.trace import Trace


class LatentAttention(Mixer):
    """kv_rank, q_rank: widths of the latent vectors, q_rank None: queries straight from the stream; head_dim:
    coordinates of a head that do not turn, rope_dim: those that do, by `relation`."""

    serves = Serves(masks=frozenset({Full, Causal, Window, Prefix, Document, Permutation}), cached=True)

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        kv_rank: int,
        q_rank: int | None = None,
        head_dim: int,
        rope_dim: int = 0,
        value_dim: int,
        bias: bool = False,
        dropout: float = 0.0,
        relation: Relation | None = None,
        kv_norm: nn.Module,
        q_norm: nn.Module | None = None,
    ) -> None:
        """bias: of the maps from and to the stream; those from the latents have none, or they could not be absorbed."""
        super().__init__()
        assert (relation is None) == (rope_dim == 0), "turned coordinates come with what turns them"
        self.num_heads, self.head_dim, self.rope_dim, self.value_dim = num_heads, head_dim, rope_dim, value_dim
        self.dropout, self.relation, self.kv_norm, self.q_norm = dropout, relation, kv_norm, q_norm
        self.q_down = nn.Linear(dim, q_rank, bias=bias) if q_rank is not None else None
        self.q = nn.Linear(q_rank or dim, num_heads * (head_dim + rope_dim), bias=False)
        self.kv_down = nn.Linear(dim, kv_rank, bias=bias)
        self.k_rope = nn.Linear(dim, rope_dim, bias=bias) if rope_dim else None
        self.k = nn.Linear(kv_rank, num_heads * head_dim, bias=False)
        self.v = nn.Linear(kv_rank, num_heads * value_dim, bias=False)
        self.out = nn.Linear(num_heads * value_dim, dim, bias=bias)
        self.scale = 1 / math.sqrt(head_dim + rope_dim)
        self.attend: Attend = attend

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
        assert context is None, "build refuses latent attention as a cross sublayer"
        u = x if self.q_down is None or self.q_norm is None else self.q_norm(self.q_down(x))
        q, turning = split(self.q(u), (self.head_dim + self.rope_dim,) * self.num_heads).split(
            [self.head_dim, self.rope_dim], -1
        )
        latent = self.kv_norm(self.kv_down(x))[:, None]  # (B, 1, T, C)
        turned = latent[..., :0] if self.k_rope is None else self.k_rope(x)[:, None]
        late = self.relation is not None and self.relation.late
        if self.relation is not None and not late:
            turned = self.relation.turn(turned, positions, lengths(positions))
        kpos = positions
        if cache is not None:
            assert isinstance(cache, KVCache)
            latent, turned, kpos = cache.extend(latent, turned, positions)
        if self.relation is not None:
            far = torch.maximum(lengths(kpos), lengths(positions))
            turning = self.relation.turn(turning, positions, far)
            turned = self.relation.turn(turned, kpos, far) if late else turned
        form = self._expanded if cache is None else self._absorbed
        k, v, q = form(latent, q)
        mixed = self.attend(
            torch.cat([q, turning], -1),
            torch.cat([k, turned.expand(-1, k.shape[1], -1, -1)], -1),
            v,
            mask=mask,
            positions=positions,
            context_positions=kpos,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            trace=trace,
        )
        if cache is not None:
            mixed = torch.einsum("bhtc,hvc->bhtv", mixed, self.v.weight.unflatten(0, (self.num_heads, -1)))
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _expanded(
        self, latent: Float[Tensor, "B 1 S C"], q: Float[Tensor, "B H T K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S J"], Float[Tensor, "B H T K"]]:
        """A key and a value for each head."""
        c = latent[:, 0]
        return (
            split(self.k(c), (self.head_dim,) * self.num_heads),
            split(self.v(c), (self.value_dim,) * self.num_heads),
            q,
        )

    def _absorbed(
        self, latent: Float[Tensor, "B 1 S C"], q: Float[Tensor, "B H T K"]
    ) -> tuple[Float[Tensor, "B 1 S C"], Float[Tensor, "B 1 S C"], Float[Tensor, "B H T C"]]:
        """The latent is the key and the value of all heads: q_h k_h = (q_h W_UK_h^T) c."""
        absorbed = torch.einsum("bhtk,hkc->bhtc", q, self.k.weight.unflatten(0, (self.num_heads, -1)))
        return latent, latent, absorbed

    def new_cache(self, rows: int) -> Cache:
        w = self.kv_down.weight
        return KVCache(w.new_zeros(rows, 1, 0, w.shape[0]), w.new_zeros(rows, 1, 0, self.rope_dim))
