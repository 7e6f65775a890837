"""Beam search over the decoding protocol.

A hypothesis y of n generated tokens (the end of sentence counts) is ranked by

    score(y) = sum_t log p(y_t | y_<t, x) / penalty(n)
    penalty(n) = ((5 + n) / 6) ** alpha   `gnmt`: Wu et al. 2016, equation 14; Vaswani et al. 2017, section 6.1
               = n ** alpha               `power`: fairseq, Marian, Hugging Face

so a larger alpha favours longer outputs. One step looks at every continuation of every alive hypothesis, ranked by
log-probability:

* `first`: a continuation that ends counts only if it ranks among the best `beam` of its source, and a source is done
  when `beam` hypotheses have ended. So a beam of 1 is greedy search, whatever the penalty.
* `exact`: every continuation that ends counts; the best `beam` by score are kept, and a source is done when no alive
  hypothesis can reach them any more. So a beam as wide as the space is exhaustive search.

In both the best `beam` continuations that do not end stay alive. At the length limit the alive ones become results
marked `finished=False`; they rank after every finished one, by the same score. Ties break to the better ranked parent,
then to the lower id; between results, to the lower ids.

Banned ids are struck out *after* the softmax: the log-probabilities are the model's own, as `headway score` prints
them. So are the ids that a source's constraint forbids, and its end of sentence while something is unmet.
Continuations of a constrained source are ranked otherwise, after the dynamic beam allocation of Post & Vilar 2018: what
the constraint wants next joins them, and hypotheses with equal progress share a bank. First comes the best of the bank
with most progress, then the best of each other bank by log-probability, then the second of each bank, and so on. So
what must appear is on its way in every beam, and under a constraint that wants nothing the search is the plain one.

The slow twin is `headway.generate.decode.greedy`; `tests/test_beam.py` also enumerates whole spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from headway.config import GNMTConfig, PowerConfig, SearchConfig
    from headway.generate.constrain import Constraint


class DecodingState(Protocol):
    """What search needs of a state: where it lives, and rows that can be reordered, dropped and repeated."""

    @property
    def lengths(self) -> Tensor: ...
    def select(self, rows: Tensor) -> Any: ...


class DecodingModel(Protocol):
    """What search needs of a model: the decoding protocol."""

    training: bool

    def start(self, sources: list[list[int]]) -> Any: ...
    def step(self, state: Any, tokens: Tensor) -> Any: ...


class SearchError(ValueError):
    """A source that cannot be decoded; `source` is its index in the list that was searched."""

    def __init__(self, source: int, reason: str):
        super().__init__(f"source {source}: {reason}")
        self.source = source
        self.reason = reason


@dataclass(frozen=True)
class Hypothesis:
    """One result. `tokens` is without the end of sentence; `logprob` and `token_logprobs` include it when `finished`.

    score: logprob / penalty(n); logprob: the sum of token_logprobs (nats); finished: False for one cut at the length
    limit; unmet: what its constraint still asked for there, in words.
    """

    tokens: list[int]
    score: float
    logprob: float
    token_logprobs: list[float]
    finished: bool
    unmet: tuple[str, ...] = ()


class Seen(NamedTuple):
    """A continuation that a step looked at: tokens of the whole, an end of sentence too; logprob, total: of its last
    token and of all (nats); alive: whether the search goes on from it. Those that ended are among the results."""

    tokens: tuple[int, ...]
    logprob: float
    total: float
    alive: bool


Watch = Callable[[int, list[Seen]], None]
"""Told at each step, by a source's index: the best 2 * beam of the best beam + 1 of each alive; `exact`: and ends."""


def length_penalty(penalty: GNMTConfig | PowerConfig, num_tokens: int) -> float:
    """What the log-probability of `num_tokens` tokens is divided by (alpha .6, n 10: gnmt 1.73286, power 3.98107)."""
    base = (5 + num_tokens) / 6 if penalty.kind == "gnmt" else num_tokens
    return base**penalty.alpha


def length_limit(config: SearchConfig, source: Sequence[int]) -> int:
    """The most tokens, the end of sentence included, that are generated for a source; never less than 1."""
    return max(1, int(config.max_ratio * len(source)) + config.max_extra)


def next_logprobs(model: DecodingModel, state: Any, tokens: Tensor) -> Tensor:
    """Feed one token to each row, (R, 1), and return the log-probabilities of the next, (R, V), in float32 or wider."""
    logits = model.step(state, tokens).logits[:, -1]
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def check_search(model: DecodingModel, config: SearchConfig, banned: Sequence[int], eos: int) -> None:
    """Refuse what no search can honour."""
    if model.training:
        raise ValueError("the model is in training mode, so dropout would change the answer: call model.eval() first")
    if config.n_best > config.beam:
        raise ValueError(f"n_best = {config.n_best}: a beam of {config.beam} promises no more than that; widen beam")
    if eos in banned:
        raise ValueError(f"banned holds {eos}, the end of sentence: no output could ever finish")


@dataclass(frozen=True, slots=True)
class _Node:
    """A prefix: its last token, the prefix before it, and the state of the constraint. The root is the begin of
    sentence."""

    token: int
    logprob: float = 0.0
    total: float = 0.0
    before: _Node | None = None
    state: Any = None

    def then(self, token: int, logprob: float, total: float, state: Any = None) -> _Node:
        return _Node(token, logprob, total, self, state)

    def path(self) -> tuple[list[int], list[float]]:
        """The tokens behind the begin of sentence, and their log-probabilities."""
        tokens, logprobs, last = list[int](), list[float](), self
        while last.before is not None:
            tokens.append(last.token)
            logprobs.append(last.logprob)
            last = last.before
        return tokens[::-1], logprobs[::-1]


@dataclass(slots=True)
class _Search:
    """What is known of one source: its limit, its alive prefixes from the best down, and the hypotheses that ended."""

    index: int
    limit: int
    config: SearchConfig
    alive: list[_Node]
    constraint: Constraint | None = None
    ended: list[Hypothesis] = field(default_factory=list)

    def end(self, node: _Node, length: int, *, finished: bool = True) -> None:
        """Take a hypothesis of `length` tokens; `exact` keeps the best `beam` of those that finished."""
        score = node.total / length_penalty(self.config.penalty, length)
        full = self.config.stop == "exact" and finished and len(self.ended) >= self.config.beam
        if full and score < self.ended[-1].score:
            return
        tokens, logprobs = node.path()
        tokens = tokens[: len(tokens) - finished]
        unmet = self.constraint.unmet(node.state) if self.constraint is not None and not finished else ()
        self.ended.append(Hypothesis(tokens, score, node.total, logprobs, finished, unmet))
        self.ended.sort(key=_rank)
        if full:
            self.ended.pop()

    def done(self, length: int) -> bool:
        """Is the stop rule met after step `length`? At the limit the alive prefixes become unfinished results."""
        if length == self.limit:
            for node in self.alive:
                self.end(node, length, finished=False)
            return True
        if not self.alive:
            return True
        if len(self.ended) < self.config.beam:
            return False
        if self.config.stop == "first":
            return True
        # A log-probability only falls, and a penalty is monotone in the length: the divisor that flatters most is at
        # one of its ends.
        penalty = self.config.penalty
        flattery = max(length_penalty(penalty, length + 1), length_penalty(penalty, self.limit))
        return self.alive[0].total / flattery < self.ended[-1].score


def _rank(hypothesis: Hypothesis) -> tuple[bool, int, float, list[int]]:
    """Finished ones first, then those with least unmet, then by score, then the lower ids."""
    return not hypothesis.finished, len(hypothesis.unmet), -hypothesis.score, hypothesis.tokens


@torch.no_grad()
def beam_search(
    model: DecodingModel,
    sources: list[list[int]],
    config: SearchConfig,
    *,
    banned: Sequence[int] = (),
    constraints: Sequence[Constraint | None] | None = None,
    bos: int = 1,
    eos: int = 2,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best outputs of each source, best first, all distinct.

    sources go to `model.start` as they are (a pair model wants the end of sentence on them); the length limit of each
    is `int(max_ratio * len(source)) + max_extra`. banned: ids that never appear. Fewer than n_best come back only where
    fewer outputs exist. An output may be empty.
    constraints: one for each source, or None. An output cut at the length limit says what is `unmet`; none at all comes
    back where every way on is forbidden. watch: told what each step looked at.
    Raises SearchError, which names the source, where the model gives no usable numbers.
    """
    check_search(model, config, banned, eos)
    if not sources:
        return []
    state = model.start(sources)
    device = state.lengths.device
    struck = torch.tensor(sorted(set(banned)), dtype=torch.long, device=device)
    asked = [None] * len(sources) if constraints is None else constraints
    searches = [
        _Search(index, length_limit(config, source), config, [_Node(bos, state=own and own.start())], own)
        for index, (source, own) in enumerate(zip(sources, asked, strict=True))
    ]
    busy, length = searches, 0
    while busy:
        length += 1
        nodes = [node for search in busy for node in search.alive]
        logprobs = next_logprobs(model, state, torch.tensor([[node.token] for node in nodes], device=device))
        _refuse_nan(logprobs, busy)
        logprobs.index_fill_(1, struck, -inf)
        _forbid(logprobs, busy, eos)
        rows = _advance(logprobs, nodes, busy, config, eos, length, watch)

        going, kept = [], []
        for search, alive_rows in zip(busy, rows, strict=True):
            if not search.alive and not search.ended and search.constraint is None:
                raise SearchError(search.index, "the model gives probability zero to every token that may come next")
            if not search.done(length):
                going.append(search)
                kept.extend(alive_rows)
        busy = going
        if busy and kept != list(range(len(nodes))):
            state = state.select(torch.tensor(kept, device=device))
    return [search.ended[: config.n_best] for search in searches]


def _advance(
    logprobs: Tensor,
    nodes: list[_Node],
    busy: list[_Search],
    config: SearchConfig,
    eos: int,
    length: int,
    watch: Watch | None,
) -> list[list[int]]:
    """Put in each search what its alive prefixes become, and return the row that each of the new ones grew from."""
    beam, device = config.beam, logprobs.device
    # A continuation among the best `beam` that do not end is among the best `beam` + 1 of its row.
    values, ids = largest(logprobs, beam + 1)
    width = values.size(1)
    slots = [place * beam + rank for place, search in enumerate(busy) for rank in range(len(search.alive))]
    slot = torch.tensor(slots, device=device)
    row_in = torch.zeros(len(busy) * beam, dtype=torch.long, device=device)
    row_in[slot] = torch.arange(len(nodes), device=device)
    totals = torch.full((len(busy) * beam, width), -inf, dtype=torch.float64, device=device)
    before = torch.tensor([node.total for node in nodes], dtype=torch.float64, device=device)
    totals[slot] = before[:, None] + values
    # Stable, so that equal totals stay in the order (parent, id).
    ranked, cell = totals.view(len(busy), -1).sort(dim=1, descending=True, stable=True)
    ranked, cell = ranked[:, : 2 * beam], cell[:, : 2 * beam]
    row = row_in.view(len(busy), beam).gather(1, cell // width)
    token = ids[row, cell % width]
    logprob = values[row, cell % width]
    ends = logprobs[:, eos].tolist() if config.stop == "exact" else []

    rows: list[list[int]] = []
    first_row = 0
    for search, *candidates in zip(busy, *(t.tolist() for t in (ranked, row, token, logprob)), strict=True):
        parents, search.alive = search.alive, []
        mine = slice(first_row, first_row + len(parents))
        constraint = search.constraint
        if constraint is not None:
            candidates = _in_banks(constraint, parents, logprobs[mine], values[mine], ids[mine], first_row, eos)
        if config.stop == "exact":
            for parent, end in zip(parents, ends[mine], strict=True):
                if end > -inf:
                    search.end(parent.then(eos, end, parent.total + end), length)
        grown: list[int] = []
        for place, (total, source_row, new, value) in enumerate(zip(*candidates, strict=True)):
            if total == -inf or len(grown) == beam:
                break
            if new != eos:
                state = constraint and constraint.step(nodes[source_row].state, new)
                search.alive.append(nodes[source_row].then(new, value, total, state))
                grown.append(source_row)
            elif config.stop == "first" and place < beam:
                search.end(nodes[source_row].then(eos, value, total), length)
        if constraint is not None:  # the banks' order is not that of the totals
            best = sorted(range(len(grown)), key=lambda place: -search.alive[place].total)
            search.alive, grown = [search.alive[place] for place in best], [grown[place] for place in best]
        if watch is not None:
            looked = [nodes[row].then(new, value, total) for total, row, new, value in zip(*candidates, strict=True)]
            if config.stop == "exact":
                looked = [node for node in looked if node.token != eos]
                looked += [node.then(eos, end, node.total + end) for node, end in zip(parents, ends[mine], strict=True)]
            watch(search.index, _seen(looked, search.alive))
        rows.append(grown)
        first_row += len(parents)
    return rows


def _seen(looked: list[_Node], alive: list[_Node]) -> list[Seen]:
    """What can be, and whether it is among the alive."""
    going, able = {tuple(node.path()[0]) for node in alive}, [node for node in looked if node.total > -inf]
    return [Seen(path, node.logprob, node.total, path in going) for node in able for path in [tuple(node.path()[0])]]


def _forbid(logprobs: Tensor, busy: list[_Search], eos: int) -> None:
    """Strike out what constraints forbid, and the end of sentence where something is unmet."""
    owners = [search.constraint for search in busy for _ in search.alive]
    rows = [row for row, constraint in enumerate(owners) if constraint is not None]
    if not rows:
        return
    nodes = [node for search in busy for node in search.alive]
    struck = torch.zeros(len(rows), logprobs.size(1), dtype=torch.bool)
    for mask, row in zip(struck, rows, strict=True):
        constraint, state = owners[row], nodes[row].state
        assert constraint is not None
        if (forbidden := constraint.forbidden(state)) is not None:
            if len(forbidden) != len(mask):
                raise ValueError(f"a constraint over {len(forbidden)} tokens, and the model has {len(mask)}")
            mask.copy_(forbidden)
        mask[eos] = not constraint.done(state)
    where = torch.tensor(rows, device=logprobs.device)
    logprobs[where] = logprobs[where].masked_fill(struck.to(logprobs.device), -inf)


def _in_banks(
    constraint: Constraint,
    parents: list[_Node],
    logprobs: Tensor,
    values: Tensor,
    ids: Tensor,
    first_row: int,
    eos: int,
) -> list[list[Any]]:
    """The continuations of one source in the order of the banks: totals, rows, tokens, log-probabilities."""
    found: set[tuple[float, int, int, float]] = set()
    for row, (parent, near, tokens) in enumerate(zip(parents, values.tolist(), ids.tolist(), strict=True)):
        wanted = list(constraint.wanted(parent.state))
        known = dict(zip(tokens, near, strict=True)) | dict(zip(wanted, logprobs[row, wanted].tolist(), strict=True))
        found |= {(-parent.total - value, row, token, value) for token, value in known.items() if value > -inf}
    banks: dict[int, list[tuple[float, int, int, float]]] = {}
    for candidate in sorted(found):
        _, row, token, _ = candidate
        state = parents[row].state if token == eos else constraint.step(parents[row].state, token)
        banks.setdefault(constraint.progress(state), []).append(candidate)
    most = max(banks, default=0)
    order = sorted(
        (rank, progress != most, candidate) for progress, bank in banks.items() for rank, candidate in enumerate(bank)
    )
    listed = [(-cost, first_row + row, token, value) for _, _, (cost, row, token, value) in order]
    return [list(column) for column in zip(*listed, strict=True)] or [[], [], [], []]


def _refuse_nan(logprobs: Tensor, busy: list[_Search]) -> None:
    """A softmax spreads NaN and +inf over the row, and makes NaN of one that is -inf everywhere: a column tells."""
    broken = logprobs[:, 0].isnan()
    if broken.any():
        owners = [search.index for search in busy for _ in search.alive]
        raise SearchError(
            owners[int(broken.nonzero()[0])], "the model's logits hold NaN or +inf, or are -inf everywhere"
        )


def largest(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """The `num` largest of each row of (R, V), and their ids in rising order; of equal values the lower ids.

    `topk` promises nothing about ties, so a tie at its edge, seen in one value more, sends that row to a stable sort.
    """
    num = min(num, values.size(1))
    best, ids = values.topk(min(num + 1, values.size(1)))
    if best.size(1) > num:
        tied = (best[:, num - 1] == best[:, num]) & (best[:, num] > -inf)
        ids = ids[:, :num]
        if tied.any():
            rows = tied.nonzero().squeeze(1)
            ids[rows] = values[rows].sort(dim=1, descending=True, stable=True).indices[:, :num]
    ids = ids.sort(dim=1).values
    return values.gather(1, ids), ids
