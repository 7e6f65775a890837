"""Subword regularisation: another cut of the same words each time, drawn from a counter, so that a resumed run repeats
it. For training only.

BPE-dropout (Provilkov et al. 2020, algorithm 1): before each merge, each pair that could be merged is left out with
probability `dropout`; the first of the others in the table is merged; it ends where none is left.
Unigram sampling (Kudo 2018, section 3.3): a cut x of a word has P(x) ~ prod over its pieces of p(piece) ** alpha, over
all cuts, by forward filtering and backward sampling.
Both are held against enumerated probabilities in tests/test_noise.py.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import shake_128
from heapq import heappop, heappush
from itertools import count

import numpy as np

from headway.text.pieces import Trained

BLOCK = 64


def uniforms(key: Sequence[int]) -> Iterator[float]:
    """Endless numbers in [0, 1), a pure function of the key."""
    name = ",".join(str(int(number)) for number in key)
    for block in count():
        raw = np.frombuffer(shake_128(f"{name}:{block}".encode()).digest(8 * BLOCK), "<u8")
        yield from ((raw >> np.uint64(11)) * 2.0**-53).tolist()


class Sampler:
    """Cuts texts into pieces of an engine at random; `rate` is dropout for its BPE kinds, alpha for unigram."""

    def __init__(self, engine: Trained, rate: float) -> None:
        assert engine.kind in {"bpe", "char_bpe", "unigram"}, engine.kind
        self.engine, self.rate = engine, rate
        if engine.kind == "unigram":
            self.scores: dict[str, float] = {piece: score for piece, score in engine.model["vocab"] if piece}
            self.numbers = {piece: number for number, (piece, _) in enumerate(engine.model["vocab"])}
            self.longest = max(map(len, self.scores))
        else:
            self.numbers = engine.model["vocab"]
            self.ranks = {tuple(pair): rank for rank, pair in enumerate(engine.model["merges"])}

    def __call__(self, text: str, draws: Iterator[float]) -> list[int]:
        """Numbers of the pieces of a text."""
        return [self.numbers[piece] for word in self.engine.words(text) for piece in self.cut(word, draws)]

    def cut(self, word: str, draws: Iterator[float]) -> list[str]:
        if self.engine.kind == "unigram":
            return sample_unigram(word, self.scores, self.longest, self.rate, draws)
        symbols = []
        for letter in word:
            spelled = [f"<0x{value:02X}>" for value in letter.encode()]
            symbols += [letter] if letter in self.numbers else spelled
        return merge_some(symbols, self.ranks, self.rate, draws)


def merge_some(
    symbols: Sequence[str], ranks: Mapping[tuple[str, ...], int], dropout: float, draws: Iterator[float]
) -> list[str]:
    """BPE with dropout; with 0, plain BPE. Pairs are drawn in the order of the table, up to the first that stays."""
    parts, after = list(symbols), [*range(1, len(symbols)), None]
    before = [None, *range(len(symbols) - 1)]
    heap: list[tuple[int, int]] = []

    def rank_at(at: int) -> int | None:
        follower = after[at]
        return None if follower is None else ranks.get((parts[at], parts[follower]))

    def offer(at: int | None) -> None:
        if at is not None and (rank := rank_at(at)) is not None:
            heappush(heap, (rank, at))

    for at in range(len(parts)):
        offer(at)
    while True:
        left_out, chosen = [], None
        while heap and chosen is None:
            rank, at = heappop(heap)
            if rank == rank_at(at):  # else one of the two was merged with another since
                if next(draws) >= dropout:
                    chosen = at
                else:
                    left_out.append((rank, at))
        if chosen is None:
            break
        gone = after[chosen]
        assert gone is not None
        parts[chosen] += parts[gone]
        parts[gone], after[chosen], after[gone] = "", after[gone], None
        if (follower := after[chosen]) is not None:
            before[follower] = chosen
        for candidate in left_out:
            heappush(heap, candidate)
        offer(before[chosen])
        offer(chosen)
    return [part for part in parts if part]


def sample_unigram(
    word: str, scores: Mapping[str, float], longest: int, alpha: float, draws: Iterator[float]
) -> list[str]:
    """One cut of a word, by the log-probabilities of the pieces; every letter is a piece."""
    total, ways = [0.0], [[]]  # the log of the sum over all cuts up to each place, and the last pieces of these
    for end in range(1, len(word) + 1):
        starts = range(max(0, end - longest), end)
        edges = [
            (start, total[start] + alpha * scores[word[start:end]]) for start in starts if word[start:end] in scores
        ]
        highest = max(score for _, score in edges)
        total.append(highest + math.log(sum(math.exp(score - highest) for _, score in edges)))
        ways.append(edges)
    pieces, at = [], len(word)
    while at:
        draw, start = next(draws), at - 1
        for start, score in ways[at]:  # noqa: B007 (the last one stays, should rounding leave the draw above the sum)
            draw -= math.exp(score - total[at])
            if draw < 0:
                break
        pieces.append(word[start:at])
        at = start
    return pieces[::-1]
