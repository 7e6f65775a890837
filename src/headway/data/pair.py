"""One example of a corpus: a text, its translation, and where they stand."""

from typing import NamedTuple

from headway.text.codes import Parts


class Pair(NamedTuple):
    """source, target: parts, plain text and codes; a side may be empty. corpus: which of a recipe's, from 0; number:
    the line or unit of its file, from 1; place: what its file calls it, where that is more than the number; context:
    the sources before it, the nearest last, where data.context asks for them."""

    source: Parts
    target: Parts
    corpus: int = 0
    number: int = 0
    place: str = ""
    context: tuple[str, ...] = ()
