"""Batches of about equally long pairs under a budget of padded tokens, in an order that (seed, epoch) fixes.

Nothing is drawn from a generator that runs on: the batch at (epoch, position) is the same whether one begins there or
comes there (tests/test_batch.py holds both against each other). Sizes are in tokens, as in section 5.1 of the paper.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headway.data.store import Row, Shard
from headway.text.tokenizer import BOS, EOS, PAD

POOL = 1_000_000
"""Pairs sorted by length together."""


@dataclass(frozen=True)
class Batch:
    """What a model reads at once, padded on the right with PAD, and what it is asked.

    inputs: arguments of the model by name; targets: what is asked, PAD (of classes -100) where nothing is; ids: line
    numbers in the corpus, from 1; parts: which part of the corpora each row is of; num_tokens: how much is asked, which
    the loss is divided by; num_filled of num_places hold a token.
    """

    inputs: dict[str, Tensor]
    targets: Tensor
    ids: list[int]
    parts: list[int]
    num_tokens: int
    num_filled: int
    num_places: int

    def as_lists(self) -> dict[str, list]:
        """Its numbers, to be written down."""
        return {name: value.tolist() for name, value in (*self.inputs.items(), ("targets", self.targets))}


def collate(rows: Sequence[Row]) -> Batch:
    """Pairs of token ids (without control tokens) as one Batch: source = x + [EOS] (B, S), target = [BOS] + y (B, T),
    targets = y + [EOS] (B, T), int64."""
    source = padded([[*row.source, EOS] for row in rows])
    target, targets = padded([[BOS, *row.target] for row in rows]), padded([[*row.target, EOS] for row in rows])
    ids, parts = [row.number for row in rows], [row.part for row in rows]
    num_tokens = sum(len(row.target) + 1 for row in rows)
    num_filled = sum(len(row.source) + 1 for row in rows) + num_tokens
    inputs = {"source": source, "target": target}
    return Batch(inputs, targets, ids, parts, num_tokens, num_filled, source.numel() + targets.numel())


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, longest) int64, filled up with PAD on the right."""
    table = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table)


class Examples:
    """Encoded pairs without control tokens, in shards, mostly on the disk.

    place: words for where a pair stands, from its part and number; corpora: which corpus each part belongs to, parts
    of one corpus in a row.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        place: Callable[[int, int], str] = lambda part, number: f"line {number}",
        corpora: Sequence[int] = (0,),
    ) -> None:
        self.shards, self._place = shards, place
        self.begins = np.cumsum([0, *(len(shard.parts) for shard in shards)])
        counts = sum(np.bincount(shard.parts, minlength=len(corpora)) for shard in shards)
        self.sizes = np.bincount(corpora, weights=counts).astype(np.int64).tolist()

    def __len__(self) -> int:
        return int(self.begins[-1])

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each source and each target, the end token among them: (N,) uint32 each."""
        sources = [np.diff(shard.source_ends, prepend=np.uint32(0)) + np.uint32(1) for shard in self.shards]
        targets = [np.diff(shard.target_ends, prepend=np.uint32(0)) + np.uint32(1) for shard in self.shards]
        return np.concatenate(sources), np.concatenate(targets)

    def __getitem__(self, index: int) -> Row:
        index = int(index)
        if not 0 <= index < len(self):
            raise IndexError(index)
        shard = int(np.searchsorted(self.begins, index, side="right")) - 1
        found, at = self.shards[shard], index - int(self.begins[shard])
        sides = []
        for ids, ends in ((found.sources, found.source_ends), (found.targets, found.target_ends)):
            sides.append(ids[int(ends[at - 1]) if at else 0 : int(ends[at])].tolist())
        return Row(int(found.parts[at]), int(found.numbers[at]), *sides)

    def place(self, index: int) -> str:
        """Where an example stands, for people."""
        row = self[index]
        return self._place(row.part, row.number)


def batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    chosen: np.ndarray | None = None,
    place: Callable[[int], str] = lambda index: f"line {index + 1}",
) -> list[np.ndarray]:
    """The batches of one epoch, as indices of examples: a pure function of the arguments.

    chosen: indices of the examples that the epoch has; each once by default.
    B * (longest source + longest target) <= batch_tokens in each; lengths count the end token.
    Raises ValueError for a pair that is larger alone, by its place.
    """
    sizes = source_lengths + target_lengths
    if (large := np.flatnonzero(sizes > batch_tokens)).size:
        more = f" (and {large.size - 1:,} more)" if large.size > 1 else ""
        raise ValueError(
            f"train.batch_tokens = {batch_tokens}: the pair of {place(int(large[0]))}{more} has "
            f"{sizes[large[0]]} tokens on its own; take {sizes.max()} or more, or a lower data.max_len"
        )
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(sizes) if chosen is None else len(chosen)).astype(np.uint32)
    order = order if chosen is None else chosen[order]
    cut: list[np.ndarray] = []
    for pool in np.array_split(order, max(1, -(-len(order) // POOL))):
        source, target = source_lengths[pool].astype(np.int64), target_lengths[pool].astype(np.int64)
        # Back and forth through the source lengths, so that they do not jump where the target length changes.
        # lexsort is stable: equal pairs stay shuffled.
        by_size = np.lexsort((np.where(target % 2, source, -source), target))
        cut += slices(pool[by_size], source[by_size], target[by_size], batch_tokens)
    return [cut[index] for index in rng.permutation(len(cut))]


def slices(pool: np.ndarray, source: np.ndarray, target: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    """A pool cut from its beginning, each batch as long as the budget allows."""
    begin = 0
    while begin < len(pool):
        end = begin + batch_tokens // int(source[begin] + target[begin])  # it cannot be longer: its first pair is in it
        widest = np.maximum.accumulate(source[begin:end]) + np.maximum.accumulate(target[begin:end])
        over = np.arange(1, len(widest) + 1) * widest > batch_tokens
        end = begin + (int(over.argmax()) if over.any() else len(widest))
        yield pool[begin:end]
        begin = end


def epoch_examples(sizes: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> np.ndarray:
    """The examples that an epoch has: those of each corpus as often as its weight says.

    The whole part of a weight repeats them all, the fraction is a subset that (seed, epoch) draws.
    """
    found, begin = [], 0
    for corpus, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        times, share = divmod(weight, 1)
        every = np.arange(begin, begin + size, dtype=np.uint32)
        found += [every] * int(times)
        if share:
            found.append(every[np.random.default_rng([seed, epoch, corpus]).permutation(size)[: round(share * size)]])
        begin += size
    return np.concatenate(found)


def tempered(sizes: Sequence[int], temperature: float) -> list[float]:
    """Weights with which a corpus of n pairs is seen as if it had n^(1/T) * most^(1 - 1/T): small ones more often."""
    return [(size / max(sizes)) ** (1 / temperature - 1) if size else 1.0 for size in sizes]


def padding_share(plan: Sequence[np.ndarray], source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
    """The part of all places in these batches, source and target, that holds no token."""
    places = sum(len(batch) * int(source_lengths[batch].max() + target_lengths[batch].max()) for batch in plan)
    return 1 - sum(int((source_lengths[batch] + target_lengths[batch]).sum()) for batch in plan) / places


Resample = Callable[[int, list[int], tuple[int, ...]], list[int]]
"""(0 for a source or 1 for a target, its ids, a key for drawing) to the ids of the same text, cut into other pieces."""


def occurrences(plan: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each place in these batches, how often its example came before: 0 for the first time."""
    every = np.concatenate(plan)
    order = np.argsort(every, kind="stable")
    ranked, places = every[order], np.arange(len(every))
    first = np.maximum.accumulate(np.where(np.diff(ranked, prepend=ranked[:1]) != 0, places, 0))
    found = np.empty(len(every), np.uint32)
    found[order] = places - first
    return np.split(found, np.cumsum([len(batch) for batch in plan])[:-1])


class Loader:
    """Endless batches of examples, from any place on. Raises ValueError for no examples, or one above the budget.

    weights: how often an epoch has the examples of each corpus. resample: subword sampling; its key is (seed, epoch,
    example, side), and where an epoch has an example again, how often it had it before. Batches are planned by the
    stored lengths: a batch whose sides grow is above the budget by as much.
    """

    def __init__(
        self,
        examples: Examples,
        batch_tokens: int,
        seed: int,
        *,
        weights: Sequence[float] | None = None,
        resample: Resample | None = None,
    ) -> None:
        if not len(examples):
            raise ValueError("no pair is left to train on: all were left out, or there were none")
        self.examples, self.batch_tokens, self.seed, self.resample = examples, batch_tokens, seed, resample
        self.weights = weights if weights is not None and set(weights) != {1.0} else None
        self._lengths = examples.lengths()
        self._planned: tuple[int, list[np.ndarray]] | None = None  # of a large corpus, a plan takes seconds
        self._counted: tuple[int, list[np.ndarray]] | None = None
        self.padding = padding_share(self.plan(0), *self._lengths)

    def __len__(self) -> int:
        return len(self.examples)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, as indices of examples."""
        if self._planned is None or self._planned[0] != epoch:
            chosen = None
            if self.weights is not None:
                chosen = epoch_examples(self.examples.sizes, self.weights, self.seed, epoch)
                if not len(chosen):
                    raise ValueError("no pair is left in an epoch: raise the weights of data.corpora")
            sizes, place = {"batch_tokens": self.batch_tokens, "seed": self.seed, "epoch": epoch}, self.examples.place
            self._planned = epoch, batches(*self._lengths, **sizes, chosen=chosen, place=place)
        return self._planned[1]

    def seen(self, epoch: int, position: int) -> Sequence[int]:
        """How often the epoch had each example of a batch before."""
        if self.resample is None or self.weights is None:
            return [0] * len(self.plan(epoch)[position])
        if self._counted is None or self._counted[0] != epoch:
            self._counted = epoch, occurrences(self.plan(epoch))
        return self._counted[1][position].tolist()

    def batch(self, epoch: int, position: int) -> Batch:
        """The batch at a place of the plan."""
        rows = []
        for index, seen in zip(self.plan(epoch)[position].tolist(), self.seen(epoch, position), strict=True):
            row = self.examples[index]
            if self.resample is not None:
                key, again = (self.seed, epoch, index), (seen,) if seen else ()
                source = self.resample(0, list(row.source), (*key, 0, *again))
                target = self.resample(1, list(row.target), (*key, 1, *again))
                row = row._replace(source=source, target=target)
            rows.append(row)
        return collate(rows)

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
                yield epoch, at, self.batch(epoch, at)
            epoch, position = epoch + 1, 0
