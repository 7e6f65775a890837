"""Training of a Unigram vocabulary (Kudo 2018, section 3.2), the same for the same words on every run.

A word x has many segmentations s into pieces, and P(x) = sum over s of prod over i of p(s_i). EM raises the likelihood
of the words; then the pieces go whose loss, the fall of the likelihood without them, is least; until `size` are left.
(The trainer of the `tokenizers` library sums in the order of a hash table: near a tie the vocabulary differs from run
to run. Its model does the encoding; tests/test_tokenizer.py holds the lattice against all segmentations, one by one.)
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

LONGEST_PIECE, LONGEST_WORD = 16, 32
"""In bytes. The second keeps the probability of a word within float64; longer words are trained in parts."""

SEEDS_PER_PIECE, SHRINK, FLOOR = 8, 0.75, 1e-9


def train_unigram(words: Mapping[str, int], letters: Sequence[str], size: int) -> list[tuple[str, float]]:
    """`size` pieces with their log-probabilities, likeliest first: all letters, and the best longer ones.

    words: how often each occurs. Fewer pieces come back where the words do not give as many.
    """
    parts: defaultdict[str, int] = defaultdict(int)
    for word, count in words.items():
        for start in range(0, len(word), LONGEST_WORD):
            parts[word[start : start + LONGEST_WORD]] += count
    seeds = repeated(dict(sorted(parts.items())))
    wanted = size - len(letters)
    worth = sorted(seeds, key=lambda piece: (-seeds[piece] * len(piece), piece))
    pieces = [*letters, *worth[: max(wanted * SEEDS_PER_PIECE, 10_000)]]
    index = {piece: number for number, piece in enumerate(pieces)}
    corpus, inside = Lattice(sorted(parts), index), Lattice(pieces, index, proper=True)
    counts = np.array([parts[part] for part in sorted(parts)], dtype=np.float64)

    alive = np.arange(len(pieces))
    p = np.full(len(pieces), 1 / len(pieces))
    p[len(letters) :] = [seeds[piece] * len(piece) for piece in pieces[len(letters) :]]
    p[len(letters) :] *= 0.5 / max(1, p[len(letters) :].sum())
    expected = np.zeros(len(pieces))
    while True:
        for _ in range(2):
            expected = corpus.expected(p, counts)
            p = np.zeros(len(pieces))
            # A letter must stay possible, however rarely it stands alone: others may go that held it.
            p[alive] = np.maximum(np.exp(digamma(expected[alive]) - digamma(expected.sum())), FLOOR)
        if len(alive) <= size:
            break
        longer = alive[len(letters) :]
        loss = expected[longer] * (np.log(p[longer]) - np.log(inside.totals(p)[longer]))
        order = sorted(zip(np.round(-loss, 6).tolist(), [pieces[number] for number in longer], longer, strict=True))
        keep = sorted(number for _, _, number in order[: max(wanted, int(SHRINK * len(longer)))])
        alive = np.concatenate([alive[: len(letters)], np.array(keep, dtype=np.int64)])
        p[np.setdiff1d(np.arange(len(pieces)), alive)] = 0
        corpus.drop(p == 0)
        inside.drop(p == 0)
    scored = [(pieces[number], round(float(np.log(p[number])), 6)) for number in alive]
    return sorted(scored, key=lambda item: (-item[1], item[0]))


def repeated(words: Mapping[str, int]) -> dict[str, int]:
    """What occurs twice or more within words, from two letters on; less what occurs in one longer string only."""
    found: dict[str, int] = {}
    shorter: dict[str, int] = {}
    left = list(words.items())
    for length in range(2, LONGEST_PIECE + 1):
        here: defaultdict[str, int] = defaultdict(int)
        left = [(word, count) for word, count in left if len(word) >= length]
        for word, count in left:
            for start in range(len(word) - length + 1):
                piece = word[start : start + length]
                if length == 2 or (piece[1:] in shorter and piece[:-1] in shorter):
                    here[piece] += count
        shorter = {piece: count for piece, count in here.items() if count > 1}
        for piece, count in shorter.items():
            for part in (piece[1:], piece[:-1]):
                if found.get(part) == count:
                    del found[part]
        found |= shorter
    return found


class Lattice:
    """All segmentations of many strings at once: an edge for each place where a piece stands in a string.

    proper: a string (of two letters or more) is no piece of itself.
    """

    def __init__(self, strings: Sequence[str], index: Mapping[str, int], proper: bool = False) -> None:
        edges = [
            (end, row, start, number)
            for row, string in enumerate(strings)
            for start in range(len(string))
            for end in range(start + 1, min(len(string), start + LONGEST_PIECE) + 1)
            if (number := index.get(string[start:end])) is not None and not (proper and 1 < len(string) == end - start)
        ]
        self._edges = np.array(sorted(edges), dtype=np.int32).reshape(-1, 4).T
        self._ends = np.array([len(string) for string in strings])

    def drop(self, gone: np.ndarray) -> None:
        """Remove the edges of pieces; gone: (pieces,) bool."""
        self._edges = self._edges[:, ~gone[self._edges[3]]]

    def totals(self, p: np.ndarray) -> np.ndarray:
        """P(x) of each string, given p of each piece."""
        return self._forward(p)[self._ends, np.arange(len(self._ends))]

    def expected(self, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """How often each piece is expected, where string n occurs counts[n] times (forward-backward)."""
        forward = self._forward(p)
        rows = np.arange(len(self._ends))
        total = forward[self._ends, rows]
        backward = np.zeros_like(forward)
        backward[self._ends, rows] = 1
        by_start = self._edges[:, np.argsort(self._edges[2], kind="stable")]
        bounds = np.searchsorted(by_start[2], np.arange(len(forward) + 1))
        for start in reversed(range(len(forward))):
            end, row, _, piece = by_start[:, bounds[start] : bounds[start + 1]]
            backward[start] += np.bincount(row, p[piece] * backward[end, row], len(rows))
        end, row, start, piece = self._edges
        weights = forward[start, row] * p[piece] * backward[end, row] * (counts / total)[row]
        return np.bincount(piece, weights, len(p))

    def _forward(self, p: np.ndarray) -> np.ndarray:
        """(longest + 1, strings): the probability of each string up to each place."""
        forward = np.zeros((self._ends.max() + 1, len(self._ends)))
        forward[0] = 1
        bounds = np.searchsorted(self._edges[0], np.arange(len(forward) + 1))
        for end in range(1, len(forward)):
            _, row, start, piece = self._edges[:, bounds[end] : bounds[end + 1]]
            forward[end] = np.bincount(row, forward[start, row] * p[piece], len(self._ends))
        return forward


def digamma(x: np.ndarray | float) -> np.ndarray:
    """The derivative of log gamma, to 1e-9: in place of log it makes EM prefer fewer pieces (a Dirichlet prior)."""
    x = np.maximum(np.asarray(x, dtype=np.float64), 1e-9)
    shift = sum(1 / (x + step) for step in range(8))
    y = 1 / (x + 8) ** 2
    return np.log(x + 8) - 0.5 / (x + 8) - y * (1 / 12 - y * (1 / 120 - y / 252)) - shift
