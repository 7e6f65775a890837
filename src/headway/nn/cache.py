"""What a layer remembers while decoding, one kind per kind of memory; all rows-first, all behind one interface.

KVCache keeps every key and value, WindowCache the last few, RecurrentCache a state. SourceCache holds what is
computed once per source and
shared by all rows that translate it. The contract is `tests/contract/test_decoding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headway.nn.attend import ROUND


class Cache:
    """Abstract: the memory of one layer, one row per sequence. A cache belongs to one State and is never aliased."""

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep these rows, in this order; a row may be dropped or repeated."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def join(self, others: Sequence[Cache]) -> None:
        """Append the rows of others of the same kind. Marks are forgotten."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def held(self) -> list[Tensor]:
        """Every tensor that is kept; some may share their storage."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def mark(self) -> None:
        """From here on, `trim` can come back to any length down to the present one."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def trim(self, lengths: Int[Tensor, " B"]) -> None:
        """Forget, in each row, all but the first `lengths` tokens."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def save(self, row: int, upto: int) -> dict[str, Tensor]:
        """One row's memory of its first `upto` tokens, for `load`."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def load(self, parts: Mapping[str, Tensor]) -> None:
        """Become the one row that `save` wrote."""
        raise TypeError(f"{type(self).__name__} is abstract")


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Bytes allocated for all of them; what they share counts once."""
    storages = (t.untyped_storage() for t in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _grow(x: Tensor, dim: int, size: int, value: int = 0) -> Tensor:
    """`x` with `dim` lengthened to `size`."""
    pad = [0, 0] * (x.dim() - 1 - dim) + [0, size - x.shape[dim]]
    return F.pad(x, pad, value=value) if size > x.shape[dim] else x


class KVCache(Cache):
    """All keys (B, H, C, K) and values (B, H, C, J); the slot of a token is its position, and C is a multiple of 16."""

    def __init__(self, k: Float[Tensor, "B H C K"], v: Float[Tensor, "B H C J"]) -> None:
        self.k, self.v = k, v
        self.positions = torch.full((k.shape[0], k.shape[2]), -1, device=k.device)

    def extend(
        self, k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T J"], positions: Int[Tensor, "B T"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Remember new tokens; gives keys, values and positions to attend to."""
        capacity = int(positions.max()) + 1
        capacity += -capacity % ROUND
        self.k, self.v = _grow(self.k, 2, capacity), _grow(self.v, 2, capacity)
        self.positions = _grow(self.positions, 1, capacity, -1)
        row, t = (positions >= 0).nonzero(as_tuple=True)
        slot = positions[row, t]
        self.k[row, :, slot], self.v[row, :, slot] = k[row, :, t], v[row, :, t]
        self.positions[row, slot] = slot
        return self.k, self.v, self.positions

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self.k, self.v, self.positions = self.k[rows], self.v[rows], self.positions[rows]

    def join(self, others: Sequence[Cache]) -> None:
        caches = [self, *(c for c in others if isinstance(c, KVCache))]
        capacity = max(c.k.shape[2] for c in caches)
        self.k = torch.cat([_grow(c.k, 2, capacity) for c in caches])
        self.v = torch.cat([_grow(c.v, 2, capacity) for c in caches])
        self.positions = torch.cat([_grow(c.positions, 1, capacity, -1) for c in caches])

    def held(self) -> list[Tensor]:
        return [self.k, self.v, self.positions]

    def mark(self) -> None:
        """Nothing to do: nothing is ever overwritten."""

    def trim(self, lengths: Int[Tensor, " B"]) -> None:
        self.positions = self.positions.masked_fill(self.positions >= lengths[:, None], -1)

    def save(self, row: int, upto: int) -> dict[str, Tensor]:
        return {"k": self.k[row, :, :upto].clone(), "v": self.v[row, :, :upto].clone()}

    def load(self, parts: Mapping[str, Tensor]) -> None:
        k, v = parts["k"][None], parts["v"][None]
        self.__init__(k.new_zeros(*k.shape[:2], 0, k.shape[3]), v.new_zeros(*v.shape[:2], 0, v.shape[3]))
        if k.shape[2]:
            self.extend(k, v, torch.arange(k.shape[2], device=k.device)[None])


class WindowCache(Cache):
    """The last `window` keys and values in a ring (slot = position mod C); since a mark the ring grows, so that
    `trim` finds what it needs."""

    def __init__(self, k: Float[Tensor, "B H C K"], v: Float[Tensor, "B H C J"], window: int) -> None:
        capacity = window + (-window % ROUND)
        self.window = window
        self.k, self.v = _grow(k[:, :, :0], 2, capacity), _grow(v[:, :, :0], 2, capacity)
        self.positions = torch.full((k.shape[0], capacity), -1, device=k.device)
        self.marked: Tensor | None = None

    def _length(self) -> Tensor:
        return self.positions.amax(1) + 1

    def _resize(self, capacity: int) -> None:
        """Move what is held to a ring of another size."""
        k, v, positions = self.k, self.v, self.positions
        size = (k.shape[0], k.shape[1], capacity)
        self.k, self.v = k.new_zeros(*size, k.shape[3]), v.new_zeros(*size, v.shape[3])
        self.positions = positions.new_full((k.shape[0], capacity), -1)
        self._write(k, v, positions)

    def _write(self, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """Put tokens in their slots; of two that share a slot the later stays."""
        newest = positions.amax(1, keepdim=True)
        row, t = ((positions >= 0) & (positions > newest - self.k.shape[2])).nonzero(as_tuple=True)
        slot = positions[row, t] % self.k.shape[2]
        self.k[row, :, slot], self.v[row, :, slot] = k[row, :, t], v[row, :, t]
        self.positions[row, slot] = positions[row, t]

    def extend(
        self, k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T J"], positions: Int[Tensor, "B T"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Remember new tokens; gives the ring as it was and the new ones, to attend to."""
        together = (
            torch.cat([self.k, k], 2),
            torch.cat([self.v, v], 2),
            torch.cat([self.positions, positions], 1),
        )
        if self.marked is not None:
            need = self.window + int((positions.amax(1) + 1 - self.marked).max())
            if need > self.k.shape[2]:
                self._resize(need + (-need % ROUND))
        self._write(k, v, positions)
        return together

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self.k, self.v, self.positions = self.k[rows], self.v[rows], self.positions[rows]
        self.marked = None if self.marked is None else self.marked[rows]

    def join(self, others: Sequence[Cache]) -> None:
        caches = [self, *(c for c in others if isinstance(c, WindowCache))]
        capacity = max(c.k.shape[2] for c in caches)
        for c in caches:
            if c.k.shape[2] < capacity:
                c._resize(capacity)
        self.k, self.v = torch.cat([c.k for c in caches]), torch.cat([c.v for c in caches])
        self.positions, self.marked = torch.cat([c.positions for c in caches]), None

    def held(self) -> list[Tensor]:
        return [self.k, self.v, self.positions, *([] if self.marked is None else [self.marked])]

    def mark(self) -> None:
        self.marked = self._length()

    def trim(self, lengths: Int[Tensor, " B"]) -> None:
        self.positions = self.positions.masked_fill(self.positions >= lengths[:, None], -1)

    def save(self, row: int, upto: int) -> dict[str, Tensor]:
        held = self.positions[row]
        keep = ((held >= max(0, upto - self.window)) & (held < upto)).nonzero()[:, 0]
        if len(keep) < min(upto, self.window):
            raise ValueError(
                f"upto = {upto}: this window cache no longer holds what came before; save at the "
                f"present length or mark() before it"
            )
        keep = keep[held[keep].argsort()]
        return {"k": self.k[row, :, keep], "v": self.v[row, :, keep], "positions": held[keep]}

    def load(self, parts: Mapping[str, Tensor]) -> None:
        self.__init__(parts["k"][None], parts["v"][None], self.window)
        self._write(parts["k"][None], parts["v"][None], parts["positions"][None])


def picked(state: dict[str, Tensor], rows: Int[Tensor, " R"]) -> dict[str, Tensor]:
    return {name: x[rows] for name, x in state.items()}


class RecurrentCache(Cache):
    """A state per row, by name; since a mark, the state after each token is kept as well."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        self.state = state
        first = next(iter(state.values()))
        self.lengths = torch.zeros(first.shape[0], dtype=torch.int64, device=first.device)
        self.snapshots: list[tuple[Tensor, dict[str, Tensor]]] | None = None

    def advance(self, state: dict[str, Tensor], valid: Bool[Tensor, " B"]) -> None:
        """The state after one more token; rows that are not `valid` read none and keep theirs."""
        self.state = {name: where_rows(valid, new, self.state[name]) for name, new in state.items()}
        self.lengths = self.lengths + valid
        if self.snapshots is not None:
            self.snapshots.append((self.lengths, self.state))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self.state, self.lengths = picked(self.state, rows), self.lengths[rows]
        if self.snapshots is not None:
            self.snapshots = [(lengths[rows], picked(state, rows)) for lengths, state in self.snapshots]

    def join(self, others: Sequence[Cache]) -> None:
        caches = [self, *(c for c in others if isinstance(c, RecurrentCache))]
        self.state = {name: torch.cat([c.state[name] for c in caches]) for name in self.state}
        self.lengths, self.snapshots = torch.cat([c.lengths for c in caches]), None

    def held(self) -> list[Tensor]:
        moments = [(self.lengths, self.state), *(self.snapshots or [])]
        return [tensor for lengths, state in moments for tensor in (lengths, *state.values())]

    def mark(self) -> None:
        self.snapshots = [(self.lengths, self.state)]

    def _at(self, lengths: Int[Tensor, " B"]) -> dict[str, Tensor]:
        """Each row's state when it was `lengths` long; of several such moments the last (the earlier were trimmed
        away)."""
        moments = self.snapshots or [(self.lengths, self.state)]
        hit = torch.stack([n for n, _ in moments]) == lengths
        if not bool(hit.any(0).all()):
            raise ValueError(
                f"lengths = {lengths.tolist()}: a recurrent state only goes back to lengths it has had since mark()"
            )
        moment = len(moments) - 1 - hit.flip(0).int().argmax(0)
        rows = torch.arange(len(lengths), device=lengths.device)
        return {name: torch.stack([s[name] for _, s in moments])[moment, rows] for name in self.state}

    def trim(self, lengths: Int[Tensor, " B"]) -> None:
        self.state, self.lengths = self._at(lengths), lengths.clone()
        if self.snapshots is not None:
            self.snapshots.append((self.lengths, self.state))

    def save(self, row: int, upto: int) -> dict[str, Tensor]:
        lengths = self.lengths.clone()
        lengths[row] = upto
        return {name: x[row].clone() for name, x in self._at(lengths).items()} | {"length": lengths[row]}

    def load(self, parts: Mapping[str, Tensor]) -> None:
        self.state = {name: parts[name][None] for name in self.state}
        self.lengths, self.snapshots = parts["length"][None], None


def where_rows(valid: Bool[Tensor, " B"], new: Tensor, old: Tensor) -> Tensor:
    """Row by row: `new` where valid, else `old`."""
    return torch.where(valid.view(-1, *[1] * (new.dim() - 1)), new, old)


class SourceCache:
    """Tensors computed once per source (U first), and which source each row reads."""

    def __init__(self, tensors: dict[str, Tensor], positions: Int[Tensor, "U S"]) -> None:
        self.tensors, self.positions = tensors, positions
        self._assign(torch.arange(positions.shape[0], device=positions.device))

    def _assign(self, source_of: Int[Tensor, " R"]) -> None:
        """Rows of one source stand side by side in a group: `seat` is a row's place in its group."""
        self.source_of = source_of
        same = (source_of[:, None] == source_of[None, :]).tril(-1)
        self.seat = same.sum(1)
        self.seats = int(self.seat.max()) + 1 if len(source_of) else 0

    def gather(self, x: Shaped[Tensor, "R ..."]) -> Shaped[Tensor, "U G ..."]:
        """Rows to their groups; an empty seat holds zeros."""
        grouped = x.new_zeros(self.positions.shape[0], self.seats, *x.shape[1:])
        grouped[self.source_of, self.seat] = x
        return grouped

    def scatter(self, grouped: Shaped[Tensor, "U G ..."]) -> Shaped[Tensor, "R ..."]:
        """The inverse of `gather`."""
        return grouped[self.source_of, self.seat]

    def select(self, rows: Int[Tensor, " R"]) -> None:
        source_of = self.source_of[rows]
        keep = source_of.unique()
        if len(keep) < self.positions.shape[0]:
            self.tensors = {name: x[keep] for name, x in self.tensors.items()}
            self.positions = self.positions[keep]
            source_of = torch.searchsorted(keep, source_of)
        self._assign(source_of)

    def join(self, others: Sequence[SourceCache]) -> None:
        caches = [self, *others]
        size = max(c.positions.shape[1] for c in caches)
        # The time axis of every tensor is its last but one, as in (U, S, D) and (U, H, S, K).
        self.tensors = {
            name: torch.cat([_grow(c.tensors[name], x.dim() - 2, size) for c in caches])
            for name, x in self.tensors.items()
        }
        starts = [sum(c.positions.shape[0] for c in caches[:i]) for i in range(len(caches))]
        source_of = torch.cat([c.source_of + start for c, start in zip(caches, starts, strict=True)])
        self.positions = torch.cat([_grow(c.positions, 1, size, -1) for c in caches])
        self._assign(source_of)

    def held(self) -> list[Tensor]:
        return [*self.tensors.values(), self.positions, self.source_of, self.seat]
