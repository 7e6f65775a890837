"""Batches of about equally long pairs under a budget of padded tokens, in an order that (seed, epoch) fixes.

Nothing is drawn from a generator that runs on: the batch at (epoch, position) is the same whether one begins there or
comes there (tests/test_batch.py holds both against each other). Sizes are in tokens, as in section 5.1 of the paper.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import torch
from torch import Tensor

from headway.text.tokenizer import BOS, EOS, PAD, Tokenizer

POOL = 1_000_000
CHUNK = 10_000
"""Pairs sorted by length together, and pairs encoded at a time."""


@dataclass(frozen=True)
class Batch:
    """Pairs as a model takes them, padded on the right with PAD.

    source = x + [EOS], target_in = [BOS] + y, target_out = y + [EOS].
    source: (B, S) int64; target_in, target_out: (B, T) int64; ids: the pairs' line numbers in the corpus, from 1;
    num_tokens: those of target_out that are not PAD, which the loss is divided by.
    """

    source: Tensor
    target_in: Tensor
    target_out: Tensor
    ids: list[int]
    num_tokens: int


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], ids: Sequence[int]) -> Batch:
    """Pairs of token ids (without control tokens) as one Batch."""
    source = padded([[*x, EOS] for x, _ in pairs])
    target_in, target_out = padded([[BOS, *y] for _, y in pairs]), padded([[*y, EOS] for _, y in pairs])
    return Batch(source, target_in, target_out, list(ids), sum(len(y) + 1 for _, y in pairs))


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, longest) int64, filled up with PAD on the right."""
    table = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table)


@dataclass
class LeftOut:
    """What `encode_corpus` left out, by line numbers from 1: sides of more than max_len tokens, and empty sides."""

    total: int
    max_len: int
    too_long: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)

    def words(self) -> list[str]:
        """One sentence for each kind that occurred, with a few of its lines."""
        kinds = (self.too_long, f"have more than {self.max_len} tokens on a side"), (self.empty, "have an empty side")
        told = []
        for lines, what in kinds:
            if lines:
                shown = ", ".join(map(str, lines[:5])) + (", ..." if len(lines) > 5 else "")
                told.append(f"left out {len(lines):,} of {self.total:,} pairs that {what}: lines {shown}")
        return told


class Packed(Sequence[list[int]]):
    """Lists of token ids at four bytes a token, where Python's own would take forty."""

    def __init__(self, rows: Iterable[Sequence[int]] = ()) -> None:
        self._ids, self._ends = array("i"), array("q", [0])
        self.extend(rows)

    def extend(self, rows: Iterable[Sequence[int]]) -> None:
        for row in rows:
            self._ids.extend(row)
            self._ends.append(len(self._ids))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        index = range(len(self))[index]
        return self._ids[self._ends[index] : self._ends[index + 1]].tolist()

    def lengths(self) -> np.ndarray:
        """(N,) int64."""
        return np.diff(np.array(self._ends, dtype=np.int64))


@dataclass(frozen=True)
class Examples:
    """Encoded pairs without control tokens, and the line of the corpus, from 1, that each came from."""

    sources: Packed
    targets: Packed
    lines: np.ndarray

    def __len__(self) -> int:
        return len(self.lines)

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each source and each target, the end token among them: (N,), (N,)."""
        return self.sources.lengths() + 1, self.targets.lengths() + 1

    def batch(self, indices: Iterable[int]) -> Batch:
        indices = [int(index) for index in indices]
        pairs = [(self.sources[index], self.targets[index]) for index in indices]
        return collate(pairs, self.lines[indices].tolist())


def encode_corpus(
    pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, max_len: int, lines: Sequence[int] | None = None
) -> tuple[Examples, LeftOut]:
    """Encode pairs. Left out: more than max_len tokens on a side (without the end token), or an empty side.

    lines: the pairs' numbers in the corpus, where they are a part of it; 1, 2, ... by default.
    """
    numbers = list(lines) if lines is not None else list(range(1, len(pairs) + 1))
    sources, targets, kept, left = Packed(), Packed(), [], LeftOut(len(pairs), max_len)
    for start in range(0, len(pairs), CHUNK):
        part = pairs[start : start + CHUNK]
        encoded = (tokenizer.encode_batch([pair[side] for pair in part]) for side in (0, 1))
        for number, texts, x, y in zip(numbers[start : start + CHUNK], part, *encoded, strict=True):
            if not texts[0].strip() or not texts[1].strip():
                left.empty.append(number)
            elif max(len(x), len(y)) > max_len:
                left.too_long.append(number)
            else:
                sources.extend([x])
                targets.extend([y])
                kept.append(number)
    return Examples(sources, targets, np.array(kept, dtype=np.int64)), left


def batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    lines: np.ndarray | None = None,
) -> list[np.ndarray]:
    """The batches of one epoch, as indices of examples: each example once, a pure function of the arguments.

    B * (longest source + longest target) <= batch_tokens in each; lengths count the end token.
    Raises ValueError for a pair that is larger alone, by its number in `lines` (by default from 1).
    """
    sizes = source_lengths + target_lengths
    if (large := np.flatnonzero(sizes > batch_tokens)).size:
        line = lines[large[0]] if lines is not None else large[0] + 1
        more = f" (and {large.size - 1:,} more)" if large.size > 1 else ""
        raise ValueError(
            f"train.batch_tokens = {batch_tokens}: the pair of line {line}{more} has {sizes[large[0]]} tokens "
            f"on its own; take {sizes.max()} or more, or a lower data.max_len"
        )
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(sizes))
    cut: list[np.ndarray] = []
    for pool in np.array_split(order, max(1, -(-len(order) // POOL))):
        source, target = source_lengths[pool], target_lengths[pool]
        # Back and forth through the source lengths, so that they do not jump where the target length changes.
        # lexsort is stable: equal pairs stay shuffled.
        pool = pool[np.lexsort((np.where(target % 2, source, -source), target))]
        begin = widest = longest = 0
        for end, (s, t) in enumerate(zip(source_lengths[pool].tolist(), target_lengths[pool].tolist(), strict=True)):
            widest, longest = max(widest, s), max(longest, t)
            if (end + 1 - begin) * (widest + longest) > batch_tokens:
                cut.append(pool[begin:end])
                begin, widest, longest = end, s, t
        cut.append(pool[begin:])
    return [cut[index] for index in rng.permutation(len(cut))]


def padding_share(plan: Sequence[np.ndarray], source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
    """The part of all places in these batches, source and target, that holds no token."""
    places = sum(len(batch) * int(source_lengths[batch].max() + target_lengths[batch].max()) for batch in plan)
    return 1 - sum(int((source_lengths[batch] + target_lengths[batch]).sum()) for batch in plan) / places


class Loader:
    """Endless batches of examples, from any place on. Raises ValueError for no examples, or one above the budget."""

    def __init__(self, examples: Examples, batch_tokens: int, seed: int) -> None:
        if not len(examples):
            raise ValueError("no pair is left to train on: all were left out, or there were none")
        self.examples, self.batch_tokens, self.seed = examples, batch_tokens, seed
        self._source_lengths, self._target_lengths = examples.lengths()
        self.padding = padding_share(self.plan(0), self._source_lengths, self._target_lengths)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, as indices of examples."""
        return batches(
            self._source_lengths,
            self._target_lengths,
            batch_tokens=self.batch_tokens,
            seed=self.seed,
            epoch=epoch,
            lines=self.examples.lines,
        )

    def start(self, epoch: int = 0, position: int = 0, /) -> Iterator[tuple[int, int, Batch]]:
        """(epoch, position, batch), from that place on and without end. To go on after a batch, skip the first."""
        while True:
            plan = self.plan(epoch)
            if position > len(plan):
                raise ValueError(
                    f"epoch {epoch} has {len(plan)} batches, so there is none at position {position}: "
                    "the data or train.batch_tokens changed since this run began"
                )
            for at in range(position, len(plan)):
                yield epoch, at, self.examples.batch(plan[at])
            epoch, position = epoch + 1, 0
