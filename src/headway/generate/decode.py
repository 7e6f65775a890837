"""Many sources through one model: batches by length, results in order; forced scores of given outputs; and plain greedy
search.

`translate_ids` and `score_ids` speak of texts: token ids without control tokens, which they add. `greedy` speaks the
decoding protocol, like `beam_search`, whose slow twin it is: one source at a time, one token at a time, nothing shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from headway.generate.beam import (
    DecodingModel,
    Hypothesis,
    SearchError,
    beam_search,
    check_search,
    length_limit,
    length_penalty,
    next_logprobs,
)
from headway.text.tokenizer import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from headway.config import SearchConfig
    from headway.generate.constrain import Constraint

Item = TypeVar("Item")

POOL = 8192
"""Lines that are read ahead and sorted by length: enough for even batches, few enough for files larger than memory."""


@torch.no_grad()
def greedy(
    model: DecodingModel,
    sources: list[list[int]],
    config: SearchConfig,
    *,
    banned: Sequence[int] = (),
    bos: int = BOS,
    eos: int = EOS,
) -> list[list[Hypothesis]]:
    """The most probable token each time, until it is the end: what `beam_search` with a beam of 1 must give.

    The beam, the stop rule and n_best play no part; the length limit and the penalty (in `score`) do.
    """
    check_search(model, config, banned, eos)
    results: list[list[Hypothesis]] = []
    for index, source in enumerate(sources):
        state = model.start([source])
        tokens, logprobs = [bos], []
        while len(logprobs) < length_limit(config, source) and tokens[-1] != eos:
            following = next_logprobs(model, state, torch.tensor([tokens[-1:]], device=state.lengths.device))[
                0
            ].tolist()
            for token in banned:
                following[token] = -inf
            best = max(following)
            if not -inf < best < inf:
                raise SearchError(index, "the model gives no token that may come next a probability")
            logprobs.append(best)
            tokens.append(following.index(best))
        finished = tokens[-1] == eos
        total = sum(logprobs)
        score = total / length_penalty(config.penalty, len(logprobs))
        results.append([Hypothesis(tokens[1 : len(tokens) - finished], score, total, logprobs, finished)])
    return results


def translate_ids(
    model: DecodingModel,
    sources: Iterable[Sequence[int]],
    config: SearchConfig,
    *,
    banned: Sequence[int] = (),
    constraints: Iterable[Constraint | None] | None = None,
    batch_lines: int = 64,
    batch_tokens: int = 8192,
    progress: Callable[[int], None] | None = None,
) -> Iterator[list[Hypothesis]]:
    """The `n_best` outputs of every source, in order. Nothing is cut: a source however long is decoded, alone if need
    be.

    sources: encoded texts without control tokens; they may come from a stream, of which a pool of lines is read ahead.
    banned: ids beyond padding, begin of sentence and unknown, which never appear. constraints: one for each source, or
    None; they may come from a stream as well. A batch holds at most `batch_lines`
    sources and `batch_tokens` padded source tokens times the beam. progress is told the number of lines that each batch
    has finished.
    """
    never = [PAD, BOS, UNK, *banned]
    offset = 0
    checked = _checked(sources, "source")
    asked = zip(checked, constraints, strict=True) if constraints is not None else ((text, None) for text in checked)
    for pairs in _pools(asked):
        pool = [source for source, _ in pairs]
        costs = [(len(source) + 1) * config.beam for source in pool]
        results: dict[int, list[Hypothesis]] = {}
        for batch in _batches(costs, batch_lines, batch_tokens):
            try:
                found = beam_search(
                    model,
                    [[*pool[i], EOS] for i in batch],
                    config,
                    banned=never,
                    constraints=[pairs[i][1] for i in batch],
                    bos=BOS,
                    eos=EOS,
                )
            except SearchError as fault:
                raise SearchError(offset + batch[fault.source], fault.reason) from None
            results.update(zip(batch, found, strict=True))
            if progress is not None:
                progress(len(batch))
        yield from (results[index] for index in range(len(pool)))
        offset += len(pool)


@torch.no_grad()
def score_ids(
    model: nn.Module,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_lines: int = 64,
    batch_tokens: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> Iterator[list[float]]:
    """The log-probability (nats) of each token of each given output and of its end of sentence, in order.

    pairs: (source, target), encoded texts without control tokens. The model reads the target as in training (teacher
    forcing); what a search reports for its own output is the same to 1e-5. Their sum over `length_penalty(len)` is the
    search's score. A batch holds at most `batch_lines` pairs and `batch_tokens` padded tokens of both sides.
    """
    if model.training:
        raise ValueError("the model is in training mode, so dropout would change the scores: call model.eval() first")
    device = next(model.parameters()).device
    offset = 0
    for pool in _pools(pairs):
        sources = [[*source, EOS] for source in _checked((pair[0] for pair in pool), "source", offset)]
        targets = [[*target, EOS] for target in _checked((pair[1] for pair in pool), "target", offset)]
        costs = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
        scores: dict[int, list[float]] = {}
        for batch in _batches(costs, batch_lines, batch_tokens):
            gold = _padded([targets[i] for i in batch], device)
            read = _padded([[BOS, *targets[i][:-1]] for i in batch], device)
            logits = model(_padded([sources[i] for i in batch], device), read)
            logprobs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
            chosen = logprobs.gather(-1, gold[..., None]).squeeze(-1)
            for index, line in zip(batch, chosen.tolist(), strict=True):
                scores[index] = line[: len(targets[index])]
                if any(value != value for value in scores[index]):
                    raise SearchError(offset + index, "the model's logits hold NaN or +inf, or are -inf everywhere")
            if progress is not None:
                progress(len(batch))
        yield from (scores[index] for index in range(len(pool)))
        offset += len(pool)


def _pools(items: Iterable[Item]) -> Iterator[list[Item]]:
    stream = iter(items)
    while pool := list(islice(stream, POOL)):
        yield pool


def _batches(costs: Sequence[int], batch_lines: int, batch_tokens: int) -> Iterator[list[int]]:
    """Indices by falling cost (memory runs out at once or never), each batch within both budgets if it can be."""
    batch: list[int] = []
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        if batch and (len(batch) == batch_lines or (len(batch) + 1) * costs[batch[0]] > batch_tokens):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _checked(texts: Iterable[Sequence[int]], side: str, offset: int = 0) -> Iterator[Sequence[int]]:
    """Refuse control tokens: padding inside a text would be read as its end, and a second end of sentence as text."""
    for index, text in enumerate(texts, offset):
        if control := {PAD, BOS, EOS}.intersection(text):
            raise ValueError(f"{side} {index} holds the control token {min(control)}: give the ids of the text alone")
        yield text


def _padded(rows: list[list[int]], device: torch.device) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device=device)
