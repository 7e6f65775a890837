"""Pairs to token ids: tags, a match and context before the source, codes as placeholders where the vocabulary has such;
what is left out.

Left out, and counted: an empty side, and more than max_len tokens on a side (tags counted, the end token not). The
match, then the context gets the room that is left; the codes of the context are text.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headway.data.pair import Pair
from headway.data.sprinkle import sprinkle
from headway.data.store import Row
from headway.data.tally import Tally
from headway.text.codes import Parts, find_parts, plain, shield_pair
from headway.text.context import context_ids
from headway.text.tokenizer import TokenizerPair

IS_PLACEHOLDER = re.compile(r"<x\d+>").fullmatch

Placed = tuple[int, Pair]
"""A pair, and which part of the corpora it is of."""


class Encoded(NamedTuple):
    """Ids of a pair. before: of the tags, the match and the context that are read before the source."""

    before: list[int]
    source: list[int]
    target: list[int]


class Encoder:
    """Encodes pairs; max_len: tokens that a side may have; tags: for each corpus the names of the atoms to put before
    its sources; share: of the pairs without codes, to get some; similar: the translation of a source like the one
    given, to be read with it. Raises ValueError for a tag that the vocabulary has not, and for a share where it has
    nothing to stand for codes."""

    def __init__(
        self,
        tokenizers: TokenizerPair,
        max_len: int,
        tags: Sequence[Sequence[str]] = ((),),
        share: float = 0.0,
        similar: Callable[[Parts], Parts | None] = lambda source: None,
    ) -> None:
        self.tokenizers, self.max_len, self.share, self.similar = tokenizers, max_len, share, similar
        self.tags = [[tokenizers.source.atom(f"<{name}>") for name in names] for names in tags]
        self.placeholders = [[one.atom(name) for name in one.atoms if IS_PLACEHOLDER(name)] for one in tokenizers]
        for tokenizer, found in zip(tokenizers, self.placeholders, strict=True):
            if share and not found:
                tokenizer.atom("<x0>")  # says what is missing

    def rows(self, pairs: Sequence[Placed], tally: Tally, place: Callable[[int, Pair], str]) -> list[Row | None]:
        """Each pair encoded; None for one that is left out, which is in the tally with its place."""
        rows = zip(pairs, self.encoded(pairs, tally, place), strict=True)
        return [
            Row(part, pair.number, ids.before + ids.source, ids.target) if ids else None for (part, pair), ids in rows
        ]

    def encoded(self, pairs: Sequence[Placed], tally: Tally, place: Callable[[int, Pair], str]) -> list[Encoded | None]:
        """As `rows`, with what stands before the sources apart."""
        shielded = [self.shielded(part, pair) for part, pair in pairs]
        sources = self.tokenizers.source.encode_parts_batch([source for source, _, _ in shielded])
        targets = self.tokenizers.target.encode_parts_batch([target for _, target, _ in shielded])
        matches = self.tokenizers.source.encode_parts_batch([match for _, _, match in shielded])
        found: list[Encoded | None] = []
        for (part, pair), x, y, match in zip(pairs, sources, targets, matches, strict=True):
            tags = self.tags[pair.corpus]
            long = max(len(tags) + len(x), len(y)) > self.max_len
            reason = "empty" if is_empty(pair) else "too_long" if long else None
            if reason:
                tally.add(reason, place(part, pair))
                found.append(None)
                continue
            around = context_ids(pair.context, self.tokenizers.source, self.max_len - len(tags) - len(x), match)
            found.append(Encoded(tags + around, x, y))
        return found

    def shielded(self, part: int, pair: Pair) -> tuple[list[str | int], list[str | int], list[str | int]]:
        """Both sides and the match as texts and ids of placeholders; without placeholders, codes are text."""
        most, match = min(map(len, self.placeholders)), self.similar(pair.source) or ()
        if not most:
            return [plain(pair.source)], [plain(pair.target)], [plain(match)]
        salt = part << 32 | pair.number
        sides = sprinkle(find_parts(pair.source), find_parts(pair.target), self.share, salt, most)
        named, (ours, theirs) = shield_pair(*sides, most, salt, match), self.placeholders
        source, target, match = [
            [part if isinstance(part, str) else atoms[part] for part in side]
            for side, atoms in zip(named, (ours, theirs, ours), strict=True)
        ]
        return source, target, match


def is_empty(pair: Pair) -> bool:
    return not plain(pair.source).strip() or not plain(pair.target).strip()
