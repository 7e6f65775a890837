"""What a model reads before a sentence: sentences that stand before it in its text, and the translation of one like it.

    a translation from the memory <match> one <sep> another <sep> the sentence itself

The source alone is extended, the target is that of the sentence (Tiedemann and Scherrer 2017, "Neural Machine
Translation with Extended Context", 2+1 there, N + 1 here; Bulte and Tezcan 2019, "Neural Fuzzy Repair"). Training and
translation both come through here, so a model reads the same ids for the same text. The twin is a text put together by
hand in tests/test_context.py.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from headway.text.tokenizer import Tokenizer

SEPARATOR, MATCH = "<sep>", "<match>"

Item = TypeVar("Item")


def preceding(
    items: Iterable[Item], num: int, text: Callable[[Item], str], begins: Callable[[Item], bool] = lambda item: False
) -> Iterator[tuple[Item, tuple[str, ...]]]:
    """Each item with the texts of up to `num` items before it, the nearest last. One whose text is blank ends a
    document: neither it nor what follows has anything before; nor has one that begins a document."""
    before = deque[str](maxlen=num)
    for item in items:
        if not (own := text(item)).strip() or begins(item):
            before.clear()
        yield item, tuple(before)
        if own.strip():
            before.append(own)


def context_ids(before: Sequence[str], tokenizer: Tokenizer, room: int, match: Sequence[int] = ()) -> list[int]:
    """The ids of a match, and of the texts, each with its separator behind it, `room` tokens or fewer: what does not
    fit is left out whole, a text with all that stand before it, those before the match. Raises ValueError where the
    vocabulary has no separator."""
    first = [*match, tokenizer.atom(MATCH)] if match else []
    separator = [tokenizer.atom(SEPARATOR)] if before else []
    first, found = first if len(first) <= room else [], list[int]()
    for ids in reversed(tokenizer.encode_batch(before)):
        if len(first) + len(found) + len(ids) + 1 > room:
            break
        found[:0] = ids + separator
    return first + found
