"""Putting codes back into a translation along an alignment, for models that did not write them themselves.

A pair of codes goes around the target words that its source words became; a lone one beside the target word that its
neighbour in the source became. Pairs stay nested as they are in the source and nothing is dropped: what finds no word
of its own is put where its share of the text is, and said. Hand-made cases in tests/test_inline.py are the twin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headway.text.codes import Code, Part, Parts, joined
from headway.text.segment import UNSPACED_LETTERS

Span = tuple[int, int]

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")


@dataclass
class Node:
    """A code, or a pair of codes with the ones between, over the characters `start` to `end` of a text without any."""

    opening: Code | None
    start: int
    end: int = 0
    closing: Code | None = None
    left: str = ""  # the characters on either side of a lone code
    right: str = ""
    inside: list[Node] = field(default_factory=list)

    def amid_letters(self) -> bool:
        """`one<br/>two`"""
        return self.left.isalnum() and self.right.isalnum()


def lifted(parts: Parts) -> tuple[str, Node]:
    """The text of parts without their codes, and the codes as a tree; one without its partner stands alone."""
    text, root = "", Node(None, 0)
    around = [root]  # what is open, the innermost last

    def close(key: str | None) -> Node:
        """End what is open down to this key (None: all); what is passed on the way has no partner."""
        while (node := around.pop()).opening and node.opening.key != key:
            around[-1].inside += node.inside
            node.inside = []
        node.end = len(text)
        return node

    last: Node | None = None  # the lone code just before
    for part in parts:
        if isinstance(part, str):
            if last:
                last.right = part[0]
                if last.left == last.right == " ":
                    part = part[1:]
                elif last.amid_letters():
                    text += " "  # two words for the model
            text, last = text + part, None
            continue
        last = None
        if part.side == "close" and any(node.opening and node.opening.key == part.key for node in around):
            close(part.key).closing = part
            continue
        node = Node(part, len(text), len(text))
        around[-1].inside.append(node)
        if part.side == "open":
            around.append(node)
        elif part.side == "alone":
            node.left, last = text[-1:], node
    close(None)
    return text, root


@dataclass(frozen=True)
class Aligned:
    """A text, its translation, and where its words went.

    source_spans, target_spans: first and last + 1 character of each token, in order; origin: for each target token the
    number of the source token that it came from.
    """

    source: str
    target: str
    source_spans: Sequence[Span]
    target_spans: Sequence[Span]
    origin: Sequence[int]

    def became(self, span: Span) -> Span | None:
        """Where the words of a span of the source are in the target: whole words, without the space around them."""
        touched = {
            number
            for number, (start, end) in enumerate(self.source_spans)
            if self.source[max(start, span[0]) : min(end, span[1])].strip()
        }
        spots = [trimmed(self.target, self.target_spans[t]) for t, s in enumerate(self.origin) if s in touched]
        spots = [(start, end) for start, end in spots if start < end]
        if not spots:
            return None
        start, end = min(start for start, _ in spots), max(end for _, end in spots)
        whole = not amid_word(self.source, span[0]) and not amid_word(self.source, span[1])
        while whole and amid_word(self.target, start):
            start -= 1
        while whole and amid_word(self.target, end):
            end += 1
        return start, end

    def beside(self, at: int) -> int | None:
        """The place of the target that a place of the source became: before what follows it there, or behind what
        precedes it; first by what it touches."""
        if not self.source[:at].strip():
            return 0
        if not self.source[at:].strip():
            return len(self.target)
        seen = [span for span in self.source_spans if self.source[slice(*span)].strip()]
        following = [(max(at, start), end) for start, end in seen if self.source[max(at, start) : end].strip()]
        preceding = [(start, min(at, end)) for start, end in seen if self.source[start : min(at, end)].strip()]
        after = (spot := self.became(following[0]) if following else None) and spot[0]
        before = (spot := self.became(preceding[-1]) if preceding else None) and spot[1]
        first, second = (
            (before, after) if self.source[at].isspace() > self.source[at - 1].isspace() else (after, before)
        )
        return second if first is None else first


def trimmed(text: str, span: Span) -> Span:
    piece = text[slice(*span)]
    return span[0] + len(piece) - len(piece.lstrip()), span[0] + len(piece.rstrip())


def amid_word(text: str, at: int) -> bool:
    """Would a cut here go through a word? Never in scripts without spaces."""
    if not 0 < at < len(text):
        return False
    return all(char.isalnum() and not UNSPACED.match(char) for char in text[at - 1 : at + 1])


def put_back(root: Node, aligned: Aligned) -> tuple[Parts, list[Code]]:
    """The translation with the codes of `root` in it, and those that had no word to go by."""
    lost: list[Code] = []

    def spots(nodes: Sequence[Node], low: int, high: int) -> list[tuple[Span, Node]]:
        """A place of its own between `low` and `high` for each: no two cross. In the order of the target."""
        taken: list[tuple[Span, Node]] = []
        for node in sorted(nodes, key=lambda node: node.closing is None):  # pairs first; stable
            assert node.opening is not None
            want = aligned.became((node.start, node.end)) if node.closing and node.end > node.start else None
            if want is None and (at := aligned.beside(node.start)) is not None:
                want = at, at
            at = round(len(aligned.target) * node.start / max(1, len(aligned.source)))
            start, end = want or (at, at)
            start, end = min(max(start, low), high), min(max(end, low), high)
            for (first, last), other in taken:
                if other.closing and first < end and start < last and start < end:
                    start, end = (start, first) if start < first else (max(start, last), max(end, last))
                elif other.closing and start == end and first < start < last:
                    start = end = first if start - first <= last - start else last
            if want is None or (start == end and node.closing and node.start < node.end):
                lost.append(node.opening)
            taken.append(((start, end), node))
        number = {id(node): number for number, node in enumerate(nodes)}
        return sorted(taken, key=lambda item: (item[0][0], item[0][1] > item[0][0], number[id(item[1])]))

    def written(nodes: Sequence[Node], low: int, high: int) -> Iterator[Part]:
        at = low
        for (start, end), node in spots(nodes, low, high):
            assert node.opening is not None
            start, end = max(at, start), max(at, end)  # a space was left out
            before = aligned.target[at:start]
            yield before.removesuffix(" ") if node.amid_letters() else before
            if node.left == " " and start and not aligned.target[start - 1].isspace():
                yield " "
            yield node.opening
            yield from written(node.inside, start, end)
            if node.closing is not None:
                yield node.closing
            if node.right == " " and aligned.target[end : end + 1].isalnum():
                yield " "
            at = end
            if node.amid_letters() and aligned.target[end:high].startswith(" "):
                at += 1
        yield aligned.target[at:high]

    return joined(written(root.inside, 0, len(aligned.target))), lost
