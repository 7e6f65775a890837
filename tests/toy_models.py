"""A model whose every conditional distribution is written down: the decoding protocol over a function of (source,
prefix).

It knows no arithmetic that search could share, keeps its prefixes as plain lists, and refuses a state that was given
away.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from headway.nn.trace import Trace
from headway.text.tokenizer import EOS

Prefix = tuple[int, ...]
Table = Callable[[Prefix, Prefix], Sequence[float]]
"""(source, generated tokens so far) -> logits over the vocabulary."""


class ToyState:
    def __init__(self, sources: list[Prefix], prefixes: list[Prefix]):
        self.sources, self.prefixes, self.alive = sources, prefixes, True

    @property
    def rows(self) -> int:
        return len(self.sources)

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(prefix) for prefix in self.prefixes])

    def select(self, rows: Tensor) -> "ToyState":
        assert self.alive, "a state that was given away is used again"
        self.alive = False
        return ToyState([self.sources[r] for r in rows.tolist()], [self.prefixes[r] for r in rows.tolist()])


@dataclass
class ToyStep:
    logits: Tensor


class ToyModel(nn.Module):
    """`steps` and `row_steps` count the calls and the rows in them."""

    def __init__(self, table: Table, dtype: torch.dtype = torch.float64):
        super().__init__()
        self.table, self.dtype = table, dtype
        self.place = nn.Parameter(torch.zeros(()))
        self.steps = self.row_steps = 0
        self.eval()

    def start(self, sources: list[list[int]]) -> ToyState:
        return ToyState([tuple(source) for source in sources], [() for _ in sources])

    def step(self, state: ToyState, tokens: Tensor) -> ToyStep:
        assert state.alive, "a state that was given away is used again"
        assert tokens.shape == (state.rows, 1)
        assert tokens.dtype == torch.int64
        self.steps += 1
        self.row_steps += state.rows
        state.prefixes = [(*p, t) for p, [t] in zip(state.prefixes, tokens.tolist(), strict=True)]
        rows = [self.table(s, p[1:]) for s, p in zip(state.sources, state.prefixes, strict=True)]
        return ToyStep(torch.tensor(rows, dtype=self.dtype)[:, None])

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Padding is 0, on the right."""
        rows = []
        for s, t in zip(source.tolist(), target_in.tolist(), strict=True):
            clean = tuple(token for token in s if token != 0)
            rows.append([self.table(clean, tuple(t[1:end])) for end in range(1, len(t) + 1)])
        return torch.tensor(rows, dtype=self.dtype)


def random_table(vocab_size: int, seed: int, *, spread: float = 1.5, tied: bool = False) -> Table:
    """Logits that depend on the source and the whole prefix: normal, or 0, 1, 2, 0, 1, 2, ... shuffled.

    Shuffled ones tie within a row, and as every row has the same sum, over whole sequences too.
    """

    @cache
    def table(source: Prefix, prefix: Prefix) -> tuple[float, ...]:
        draw = random.Random(f"{seed} {source} {prefix}")
        if tied:
            return tuple(draw.sample([float(n % 3) for n in range(vocab_size)], vocab_size))
        return tuple(draw.gauss(0, spread) for _ in range(vocab_size))

    return table


class CopyLast(ToyModel):
    """Says again what stands behind the last `mark`; its attention looks where each token came from. read: what it was
    given, without the ends."""

    def __init__(self, vocab_size: int, mark: int) -> None:
        def table(source: Prefix, prefix: Prefix) -> list[float]:
            own = source[self.begin(source) :]
            row = [0.0] * vocab_size
            row[EOS] = -30.0
            row[own[len(prefix)] if len(prefix) < len(own) else EOS] = 9.0
            return row

        super().__init__(table)
        self.mark = mark
        self.read: list[list[int]] = []

    def begin(self, source: Sequence[int]) -> int:
        return max([at + 1 for at, token in enumerate(source) if token == self.mark], default=0)

    def start(self, sources: list[list[int]]):
        self.read += [source[:-1] for source in sources]
        return super().start(sources)

    def forward(self, source: torch.Tensor, target: torch.Tensor, trace: Trace | None = None) -> torch.Tensor:
        if trace is not None:
            begins = torch.tensor([self.begin(row) for row in source.tolist()])[:, None, None]
            spots = begins + torch.arange(target.shape[1])[:, None] == torch.arange(source.shape[1])
            trace.at("decoder.layers.0.cross").record("weights", spots.double()[:, None])
        return super().forward(source, target)
