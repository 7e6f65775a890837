"""Positions inside attention, as opposed to those added to the stream (`headway.nn.position`).

Three places where a position can enter: queries and keys may turn (`headway.nn.rotary`), logits may get a bias, and
what is read may get a term of its own. With a head's query q, key k and width K, the logits are

    turn(q) . turn(k) * scale + bias(q, k)

Each final relation below opens with its formula and source: queries are at positions i, keys at positions j. The twins,
element by element, are in `tests/test_position.py`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.position import check_length, sinusoid_at


class Relation(nn.Module):
    """Abstract. A final relation writes what it needs of the four methods; the others leave attention as it is.

    late: keys are to be turned when they are read, not when they are cached, because how far they turn depends on the
    length of the text that they are read in.
    """

    late = False

    def scale(self, key_dim: int) -> float:
        """What products of queries and keys are multiplied by."""
        return 1 / math.sqrt(key_dim)

    def turn(
        self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B H T K"]:
        """Queries or keys at `positions` (-1: no token), in texts of `lengths` tokens so far."""
        return x

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "#B H T S"] | None:
        """What is added to the logits after scaling, for queries (unturned, unscaled) and keys; None: nothing. k may
        have one head for each of the query's: groups are repeated before. Finite where a position is -1. One row where
        it is the same for all."""
        return None

    def value(
        self,
        weights: Float[Tensor, "B H T S"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B H T J"] | None:
        """What is added to the mixed values, given the attention weights; None: nothing."""
        return None

    @property
    def reads_weights(self) -> bool:
        """Whether `value` gives something, so that attention has to have its weights at hand."""
        return type(self).value is not Relation.value


def shared(positions: Int[Tensor, "B N"]) -> Int[Tensor, "#B N"]:
    """One row of positions where all rows agree on them, as they are otherwise.

    Where a row has no token (-1) it agrees with the others: nobody looks there. So a batch that is padded at its end
    has one row of positions.
    """
    if len(positions) == 1 or torch.compiler.is_compiling():  # a question about values would cut a graph in two
        return positions
    joint = positions.amax(0, keepdim=True)
    return joint if bool(((positions == joint) | (positions < 0)).all()) else positions


def distances(positions: Int[Tensor, "B T"], context_positions: Int[Tensor, "B S"]) -> Int[Tensor, "#B T S"]:
    """j - i of a query at i and a key at j: negative where the key is in the past. Slots without a token count as the
    first position, so that no distance is longer than the text."""
    i, j = shared(positions).clamp(min=0), shared(context_positions).clamp(min=0)
    return j[:, None, :] - i[:, :, None]


def look_up(table: Float[Tensor, "N H"], index: Int[Tensor, "#B T S"], like: Tensor) -> Float[Tensor, "#B H T S"]:
    """Each head's number for each pair of positions, in the dtype of `like`."""
    return F.embedding(index, table).movedim(-1, 1).to(like.dtype)


def pick(products: Float[Tensor, "B H T N"], index: Int[Tensor, "#B T S"]) -> Float[Tensor, "B H T S"]:
    """For each query and key the one of the query's N products that `index` names."""
    return products.gather(-1, index[:, None].expand(*products.shape[:3], -1))


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n) .. 2^-8 for n heads if n is a power of two; else those of the next smaller power, and then
    every other one of twice that power (the paper's code)."""
    power = 1 << (num_heads.bit_length() - 1)
    return [2 ** (-8 * i / power) for i in range(1, power + 1)] + [
        2 ** (-4 * i / power) for i in range(1, 2 * (num_heads - power), 2)
    ]


class ALiBi(Relation):
    """bias = -slope_h |i - j| (Press et al. 2022, section 3). The paper's decoders never look ahead; encoders look both
    ways and lose the same for either. Any length, no parameters."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(num_heads)

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "#B H T S"]:
        # No buffer: a model in bfloat16 would round it.
        wide = torch.promote_types(q.dtype, torch.float32)
        slopes = torch.tensor(self.slopes, dtype=wide, device=q.device)[:, None, None]
        return (-slopes * distances(positions, context_positions).abs()[:, None]).to(q.dtype)


class Shaw(Relation):
    """bias = q_i . a^K_c(j-i) scale and value = sum_j w_ij a^V_c(j-i), c clips to [-reach, reach] (Shaw et al. 2018,
    equations 3 to 5). The tables are shared by all heads. value_dim None: no a^V."""

    def __init__(self, key_dim: int, value_dim: int | None, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.key_table = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * reach + 1, key_dim)))
        self.value_table = (
            None if value_dim is None else nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * reach + 1, value_dim)))
        )

    @property
    def reads_weights(self) -> bool:
        return self.value_table is not None

    def _clipped(self, positions: Tensor, context_positions: Tensor) -> Int[Tensor, "b T S"]:
        return distances(positions, context_positions).clamp(-self.reach, self.reach) + self.reach

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "B H T S"]:
        products = (q @ self.key_table.T * scale).to(q.dtype)
        return pick(products, self._clipped(positions, context_positions))

    def value(
        self,
        weights: Float[Tensor, "B H T S"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B H T J"] | None:
        if self.value_table is None:
            return None
        index = self._clipped(positions, context_positions)[:, None].expand(weights.shape)
        by_distance = weights.new_zeros(*weights.shape[:3], 2 * self.reach + 1).scatter_add(-1, index, weights)
        return by_distance @ self.value_table


class Toeplitz(Relation):
    """bias = t_h,j-i, learned, for texts of up to `max_len` tokens; it begins at 0."""

    def __init__(self, num_heads: int, max_len: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.table = nn.Parameter(torch.zeros(2 * max_len - 1, num_heads))

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "#B H T S"]:
        """Raises ValueError beyond `max_len`."""
        check_length(self.max_len, positions, context_positions, remedy="train with buckets, which have no end")
        return look_up(self.table, distances(positions, context_positions) + self.max_len - 1, q)


def bucket_borders(num_buckets: int, max_distance: int) -> list[int]:
    """The first distance of each bucket but bucket 0.

    With e = num_buckets // 2, bucket b <= e begins at b, and bucket e + m at the first n for which
    log(n / e) / log(max_distance / e) (num_buckets - e) >= m: in whole numbers, since 32 and 64 lie right on a border.
    """
    exact = num_buckets // 2
    rest = num_buckets - exact
    borders, n = list(range(1, exact + 1)), exact
    for m in range(1, rest):
        while n**rest * exact**m < max_distance**m * exact**rest:
            n += 1
        borders.append(n)
    return borders


class Buckets(Relation):
    """bias = t_h,bucket(j-i), learned (Raffel et al. 2020, T5, section 2.1): near distances have a bucket each, farther
    ones share buckets that widen as their logarithm up to `max_distance`, and all beyond share the last. It begins at
    0. bidirectional: half of the buckets are for keys ahead; else those are all in bucket 0."""

    def __init__(self, num_heads: int, num_buckets: int, max_distance: int, bidirectional: bool) -> None:
        """Raises ValueError where the buckets do not work out."""
        super().__init__()
        if bidirectional and num_buckets % 2:
            raise ValueError(
                f"position.num_buckets = {num_buckets}: half are for what lies ahead, so take an even number"
            )
        self.bidirectional = bidirectional
        self.per_side = num_buckets // 2 if bidirectional else num_buckets
        if self.per_side < 2 or max_distance <= self.per_side // 2:
            raise ValueError(
                f"position.num_buckets = {num_buckets}, position.max_distance = {max_distance}: a side needs 2 buckets "
                f"or more, and a max_distance above half of them; T5 has 32 and 128"
            )
        self.table = nn.Parameter(torch.zeros(num_buckets, num_heads))
        self.borders = bucket_borders(self.per_side, max_distance)

    def bucket(self, distance: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """The bucket of j - i."""
        away = distance.abs() if self.bidirectional else -distance.clamp(max=0)
        bucket = torch.bucketize(away, torch.tensor(self.borders, device=distance.device), right=True)
        return bucket + (distance > 0) * self.per_side if self.bidirectional else bucket

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "#B H T S"]:
        return look_up(self.table, self.bucket(distances(positions, context_positions)), q)


class TransformerXL(Relation):
    """Logits scale ((q_i + u) . k_j + (q_i + v) . R_i-j), R_d = W_r sinusoid(d) in halves (Dai et al. 2019, section
    3.3; XLNet), of which the bias is all but q_i . k_j. Any length; the distance has a sign. u and v belong to a head
    each, and so do the rows of W_r."""

    def __init__(self, dim: int, num_heads: int, key_dim: int) -> None:
        super().__init__()
        self.dim, self.num_heads = dim, num_heads
        self.r = nn.Linear(dim, num_heads * key_dim, bias=False)
        self.u = nn.Parameter(nn.init.normal_(torch.empty(num_heads, key_dim), std=0.02))
        self.v = nn.Parameter(nn.init.normal_(torch.empty(num_heads, key_dim), std=0.02))

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "B H T S"]:
        distance = -distances(positions, context_positions)
        lowest, highest = (int(d) for d in distance.aminmax())
        # Whole sixteens of queries and distances, and a sum per key: a row's bits do not depend on its neighbours'.
        highest += -(highest + 1 - lowest) % 16
        waves = sinusoid_at(torch.arange(lowest, highest + 1, device=q.device), self.dim, layout="halves")
        r = self.r(waves.to(self.r.weight.dtype)).unflatten(-1, (self.num_heads, -1))
        content = (self.u[:, None] * k).sum(-1)[:, :, None]
        queries = F.pad(q + self.v[:, None], (0, 0, 0, -q.shape[2] % 16))
        by_distance = (queries @ r.permute(1, 2, 0))[:, :, : q.shape[2]]
        return ((content + pick(by_distance, distance - lowest)) * scale).to(q.dtype)


class TUPE(Relation):
    """bias = (p_i U^Q) . (p_j U^K) / sqrt(2 d) + t_h,bucket(j-i) (Ke et al. 2021, equations 7 and 8), d = dim /
    num_heads: positions correlate on their own, apart from the words, and as both kinds of logits are added, each is
    scaled by 1 / sqrt(2 width). The positions p are learned, for texts of up to `max_len` tokens, and normalised, as in
    the paper's code; t are T5's buckets (TUPE-R).

    The paper resets the correlations of a first [CLS] token to two numbers of its own; that is not done here, where the
    first token is one like the others.
    """

    def __init__(
        self, dim: int, num_heads: int, max_len: int, num_buckets: int, max_distance: int, bidirectional: bool
    ) -> None:
        """Raises ValueError where the heads do not share `dim` evenly."""
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"dim = {dim}, num_heads = {num_heads}: tupe needs a dim that is a multiple of num_heads")
        self.max_len, self.num_heads = max_len, num_heads
        self.table, self.norm = nn.Embedding(max_len, dim), nn.LayerNorm(dim)
        self.q, self.k = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.buckets = Buckets(num_heads, num_buckets, max_distance, bidirectional)

    def scale(self, key_dim: int) -> float:
        return 1 / math.sqrt(2 * key_dim)

    def bias(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"],
        scale: float,
    ) -> Float[Tensor, "#B H T S"]:
        """Raises ValueError beyond `max_len`."""
        check_length(self.max_len, positions, context_positions, remedy="train with buckets, which have no end")
        i, j = shared(positions).clamp(min=0), shared(context_positions).clamp(min=0)
        # Keys of all positions so far, once: rows may ask for them in any order.
        p = self.norm(self.table.weight[: int(j.max()) + 1])
        queries = self.q(self.norm(self.table(i))).unflatten(-1, (self.num_heads, -1))
        keys = self.k(p).unflatten(-1, (self.num_heads, -1))
        products = torch.einsum("bthk,nhk->bhtn", queries, keys) / math.sqrt(2 * queries.shape[-1])
        index = j[:, None].expand(-1, i.shape[1], -1)
        correlation = pick(products.expand(max(len(i), len(j)), -1, -1, -1), index).to(q.dtype)
        return correlation + self.buckets.bias(q, k, positions, context_positions, scale)
