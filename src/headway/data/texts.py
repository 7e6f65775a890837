"""Texts that are no pairs: plain files of lines, read as an objective (`headway.data.objectives`) wants them, as
batches in an order that (seed, epoch) fixes.

Where an objective draws, it does so from (seed, epoch, row): the batch at a place of the plan is the same whether one
begins there or comes there, as of pairs (`headway.data.batch`). What is read lies in memory, at four bytes a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.data.batch import Batch, batches, collate, padded, padding_share
from headway.data.corpus import stream_lines
from headway.data.objectives import (
    NOT_ASKED,
    Contrast,
    Labelled,
    Masked,
    Pair,
    Permuted,
    SpanAnswer,
    Tagged,
    Written,
)
from headway.data.store import Row

Example = Written | Masked | Permuted | Pair | Labelled | Tagged | SpanAnswer | Contrast


@dataclass(frozen=True)
class Line:
    """Line `number`, from 1, of a file of texts, and what stands in that line of the others."""

    number: int
    text: str
    second: str | None = None
    label: str | None = None


def read_texts(text: Path, second: Path | None = None, labels: Path | None = None) -> list[Line]:
    """The lines of a file of texts and of those beside it. Raises ValueError with the faults of all of them, or their
    counts where these differ."""
    paths = [path for path in (text, second, labels) if path is not None]
    columns, faults = [], []
    for path in paths:
        try:
            columns.append(list(stream_lines(path)))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("\n".join(faults))
    if len({len(column) for column in columns}) > 1:
        told = ", ".join(f"{path} has {len(column):,} lines" for path, column in zip(paths, columns, strict=True))
        raise ValueError(f"{told}: line n of each must be about the same text. Look for a line break too many")
    others = iter(columns[1:])
    empty = [None] * len(columns[0])
    both = next(others) if second is not None else empty
    named = next(others) if labels is not None else empty
    return [Line(n, *row) for n, row in enumerate(zip(columns[0], both, named, strict=True), 1)]


# ---- batches ----


class TextLoader:
    """Endless batches of what `make(row, rng)` gives, from any place on. lengths: (N,) tokens that each row counts
    with, its padding left aside; places: words for where a row stands; segments: whether the model tells a second text
    from a first. Raises ValueError for no rows, or one that is
    above the budget."""

    def __init__(
        self,
        make: Callable[[int, np.random.Generator], Example],
        lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
        place: Callable[[int], str],
        *,
        segments: bool = True,
    ) -> None:
        if not len(lengths):
            raise ValueError("no text is left to train on: all were left out, or there were none")
        self.make, self.lengths, self.batch_tokens, self.seed, self.place = make, lengths, batch_tokens, seed, place
        self.segments = segments
        self._planned: tuple[int, list[np.ndarray]] | None = None
        self.padding = padding_share(self.plan(0), lengths, np.zeros_like(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, as numbers of rows."""
        if self._planned is None or self._planned[0] != epoch:
            cut = batches(
                self.lengths,
                np.zeros_like(self.lengths),
                batch_tokens=self.batch_tokens,
                seed=self.seed,
                epoch=epoch,
                place=self.place,
            )
            self._planned = epoch, cut
        return self._planned[1]

    def batch(self, epoch: int, position: int) -> Batch:
        """The batch at a place of the plan. Raises ValueError for a row that nothing can be asked of."""
        rows = self.plan(epoch)[position].tolist()
        made = [self.make(row, np.random.default_rng([self.seed, epoch, row])) for row in rows]
        batch = collated(made, [row + 1 for row in rows])
        if not self.segments:
            batch.inputs.pop("segments", None)
        return batch

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


def collated(examples: Sequence[Any], ids: list[int]) -> Batch:
    """Examples of one kind as a Batch. The number of things asked is that of targets, or of texts."""
    match examples[0]:
        case Written():
            return of_written(examples, ids)
        case Masked():
            inputs = {"tokens": [row.tokens for row in examples], "segments": [row.segments for row in examples]}
            batch = of_tokens(inputs, padded([row.targets for row in examples]), ids)
            if examples[0].next is not None:
                batch.inputs["next"] = torch.tensor([row.next for row in examples])
            return batch
        case Permuted():
            inputs = {"tokens": [row.tokens for row in examples], "rank": [row.rank for row in examples]}
            return of_tokens(inputs, padded([row.targets for row in examples]), ids)
        case SpanAnswer():
            inputs = {"tokens": [row.tokens for row in examples], "segments": [row.segments for row in examples]}
            asked = torch.tensor([[row.begin, row.end] for row in examples])
            return of_tokens(inputs, asked, ids, len(examples))
        case Pair():
            return collate([Row(0, n, row.source, row.target) for n, row in zip(ids, examples, strict=True)])
        case Labelled():
            kind = torch.float32 if isinstance(examples[0].label, float) else torch.int64
            inputs = {"tokens": [row.tokens for row in examples], "segments": [row.segments for row in examples]}
            return of_tokens(inputs, torch.tensor([row.label for row in examples], dtype=kind), ids, len(examples))
        case Tagged():
            size = max(len(row.tokens) for row in examples)
            tags = torch.tensor([[*row.tags, *[NOT_ASKED] * (size - len(row.tags))] for row in examples])
            inputs = {"tokens": [row.tokens for row in examples]}
            return of_tokens(inputs, tags, ids, int((tags != NOT_ASKED).sum()))
        case Contrast():
            rows = [row.anchor for row in examples] + [row.positive for row in examples]
            return of_tokens({"tokens": rows}, torch.arange(len(examples)), ids, len(examples))
        case other:
            raise AssertionError(f"{other} is no example")


def of_written(examples: Sequence[Written], ids: list[int]) -> Batch:
    """With documents and positions where rows are packed, and with prefixes where there are any."""
    batch = of_tokens({"tokens": [row.tokens for row in examples]}, padded([row.targets for row in examples]), ids)
    size = batch.targets.shape[1]
    if any(row.prefix for row in examples):
        batch.inputs["prefix"] = torch.tensor([row.prefix for row in examples])
    if any(row.documents[-1] != row.documents[0] for row in examples):
        for name in ("documents", "positions"):
            filled = [[*getattr(row, name), *[-1] * (size - len(row.tokens))] for row in examples]
            batch.inputs[name] = torch.tensor(filled)
    return batch


def of_tokens(
    inputs: dict[str, list[list[int]]], targets: torch.Tensor, ids: list[int], asked: int | None = None
) -> Batch:
    """asked: how much the targets ask, those that are not PAD by default. Segments that are all 0 are left out."""
    tensors = {name: padded(rows) for name, rows in inputs.items()}
    if "segments" in tensors and not tensors["segments"].any():
        del tensors["segments"]
    filled = sum(map(len, inputs["tokens"]))
    number = int((targets != 0).sum()) if asked is None else asked
    return Batch(tensors, targets, ids, [0] * len(ids), number, filled, tensors["tokens"].numel())
