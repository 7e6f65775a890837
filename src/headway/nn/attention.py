"""Multi-head attention (Vaswani et al. 2017, section 3.2.2), self and cross, and its sliding-window form.

    head_i = attend(x W_q_i, c W_k_i, c W_v_i);  out = concat(head_1 .. head_h) W_o

with c = x (self) or the context (cross). The independent twins are the einsum model in `tests/twins.py` and
`torch.nn.Transformer`.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.attend import Attend, attend
from headway.nn.cache import Cache, KVCache, SourceCache, WindowCache
from headway.nn.mask import Causal, Full, Mask, Window
from headway.nn.mixer import Mixer, Serves
from headway.nn.trace import Trace


class Attention(Mixer):
    """Multi-head attention; the widths of a head's keys and values may differ (d_k and d_v of the paper)."""

    serves = Serves(masks=frozenset({Full, Causal, Window}), cross=True, cached=True)

    def __init__(
        self, dim: int, num_heads: int, *, key_dim: int, value_dim: int, bias: bool = True, dropout: float = 0.0
    ) -> None:
        """key_dim, value_dim: per head. dropout: on the attention weights (the paper has none)."""
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.q = nn.Linear(dim, num_heads * key_dim, bias=bias)
        self.k = nn.Linear(dim, num_heads * key_dim, bias=bias)
        self.v = nn.Linear(dim, num_heads * value_dim, bias=bias)
        self.out = nn.Linear(num_heads * value_dim, dim, bias=bias)
        self.attend: Attend = attend

    def split(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

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
        q = self.split(self.q(x))
        if isinstance(cache, SourceCache):
            return self.out(self._read(q, cache, mask, positions, trace))
        c, kpos = (x, positions) if context is None else (context, context_positions)
        assert kpos is not None, "context comes with context_positions"
        k, v = self.split(self.k(c)), self.split(self.v(c))
        if cache is not None:
            assert isinstance(cache, KVCache | WindowCache)
            assert context is None
            k, v, kpos = cache.extend(k, v, positions)
        mixed = self.attend(
            q, k, v, mask=mask, positions=positions, context_positions=kpos, trace=trace, dropout=self._drop()
        )
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _drop(self) -> float:
        return self.dropout if self.training else 0.0

    def _read(
        self, q: Float[Tensor, "R H T K"], cache: SourceCache, mask: Mask, positions: Tensor, trace: Trace | None
    ) -> Float[Tensor, "R T HJ"]:
        """Rows of one source stand in one group and look together: its keys and values are never repeated."""
        k, v, kpos = cache.tensors["k"], cache.tensors["v"], cache.positions
        if trace is not None:  # the plain way, so that weights are recorded per row
            k, v, kpos = k[cache.source_of], v[cache.source_of], kpos[cache.source_of]
            mixed = self.attend(q, k, v, mask=mask, positions=positions, context_positions=kpos, trace=trace)
            return mixed.transpose(1, 2).flatten(2)
        num_tokens = q.shape[2]
        together = cache.gather(q.transpose(1, 2)).flatten(1, 2).transpose(1, 2)  # (U, H, G * T, K)
        positions = cache.gather(positions).flatten(1)
        mixed = self.attend(together, k, v, mask=mask, positions=positions, context_positions=kpos)
        return cache.scatter(mixed.transpose(1, 2).flatten(2).unflatten(1, (-1, num_tokens)))

    def new_cache(self, rows: int) -> Cache:
        w = self.k.weight
        k = w.new_zeros(rows, self.num_heads, 0, self.k.out_features // self.num_heads)
        v = w.new_zeros(rows, self.num_heads, 0, self.v.out_features // self.num_heads)
        return KVCache(k, v)

    def new_source_cache(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> SourceCache:
        k, v = self.split(self.k(context)), self.split(self.v(context))
        return SourceCache({"k": k, "v": v}, context_positions)


class WindowAttention(Mixer):
    """Attention that sees itself and the `window - 1` tokens before it, and remembers no more (Beltagy et al. 2020,
    causal form)."""

    serves = Serves(masks=frozenset({Causal}), cached=True)

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
