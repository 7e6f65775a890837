"""Codes sprinkled over pairs that have none, so that a model learns to keep them where its data has few.

What both sides have once and spell alike (numbers, names) shows where a code of one side belongs on the other: there it
takes the word's place, stands before it, or goes around it. Around the whole and at its ends it belongs in any pair.
Drawn by the pair's number, so it is the same every time.
"""

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

from headway.text.codes import Code, Part, Parts, codes, joined

WORD = re.compile(r"[^\W_](?:[\w.'-]*[^\W_])?")
MOST = 3
"""Words of a pair that get codes, at most."""

Span = tuple[int, int]


def sprinkle(source: Parts, target: Parts, share: float, salt: int, most: int) -> tuple[Parts, Parts]:
    """The pair with codes in it, if it has none of its own and its salt falls into the share. most: the placeholders
    that there are; a pair that would get more codes stays as it is, since the model would read them as text."""
    draw = draws(salt)
    if next(draw) >= share or len(source) != 1 or len(target) != 1:
        return source, target
    (x,), (y,) = source, target
    if isinstance(x, Code) or isinstance(y, Code):
        return source, target
    common, edits = shared(x, y), list[tuple[Span, Span, float]]()
    for _ in range(min(len(common), 1 + int(next(draw) * MOST))):
        edits.append((*common.pop(int(next(draw) * len(common))), next(draw)))
    sides = written(x, [(own, how) for own, _, how in edits]), written(y, [(own, how) for _, own, how in edits])
    if not edits or next(draw) < 0.2:
        before, behind = OUTSIDE[int(next(draw) * len(OUTSIDE))]
        sides = [*before, *sides[0], *behind], [*before, *sides[1], *behind]
    made = joined(sides[0]), joined(sides[1])
    return made if len(codes(made[0])) <= most else (source, target)


OUTSIDE: list[tuple[list[Code], list[Code]]] = [
    ([Code("<>", "open")], [Code("</>", "close", key="<>")]),
    ([Code("<|>")], []),
    ([], [Code("<|>")]),
]
"""What goes around a whole side."""


def draws(salt: int) -> Iterator[float]:
    """Numbers from 0 to 1 by a counter and a hash."""
    counter = 0
    while True:
        digest = blake2b(f"sprinkle/{salt}/{counter}".encode(), digest_size=8).digest()
        yield int.from_bytes(digest, "big") / 2**64
        counter += 1


def shared(x: str, y: str) -> list[tuple[Span, Span]]:
    """Where the words are that stand once on either side, spelt alike."""
    ours, theirs = ({found[0]: found.span() for found in WORD.finditer(text)} for text in (x, y))
    counts = [Counter(WORD.findall(text)) for text in (x, y)]
    return [(ours[word], theirs[word]) for word in ours if all(count[word] == 1 for count in counts)]


def written(text: str, edits: list[tuple[Span, float]]) -> list[Part]:
    """The text with a code for, before or around each word; the n-th word has the n-th codes."""
    parts, at = list[Part](), 0
    for (start, end), how, number in sorted((span, how, number) for number, (span, how) in enumerate(edits)):
        word = text[start:end]
        opening, closing = Code(f"<{number}>", "open"), Code(f"</{number}>", "close", key=f"<{number}>")
        codes = [Code(f"{{{number}}}")] if how < 0.4 else [Code(f"{{{number}}}"), " ", word]
        parts += [text[at:start], *(codes if how < 0.6 else [opening, word, closing])]
        at = end
    return [*parts, text[at:]]
