"""Lines of text in, lines of text out: promise 1 of the house, N lines in and N lines out, whatever is in them.

An empty line stays empty without asking the model. Each other one goes through `headway.generate.parts`: one of more
tokens than the model can take is translated in pieces, tags and placeholders are kept, and pieces of the vocabulary
that would break a line are banned from the search. What still cannot stand in one line is replaced. All of it is
counted for the caller to say.

A model that was trained with context reads each line after the lines before it, back to an empty one. Its translation
depends on those as well, and on nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.generate.parts import Translated, Translator
from headway.text.codes import PROSE, plain
from headway.text.context import preceding
from headway.text.tokenizer import LINE_SEPARATORS, TO_SPACE


@dataclass(frozen=True)
class Result:
    """One translation of a line; score: that of the search, summed over the pieces of a long line; finished: False
    where it stopped at the length limit."""

    text: str
    score: float
    finished: bool


@dataclass
class Counts:
    """What happened to lines that were not plain. `words` says it."""

    lines: int = 0
    split: int = 0
    pieces: int = 0
    at_limit: list[int] = field(default_factory=list)  # numbers of lines, from 1
    faults: list[str] = field(default_factory=list)
    replaced: int = 0

    def words(self, max_source: int) -> list[str]:
        told = []
        if self.split:
            told.append(
                f"{self.split} of {self.lines} lines were translated in {self.pieces} pieces, cut between sentences "
                f"where that was enough: the model reads {max_source} tokens, and so many tags as it has pieces for"
            )
        if self.at_limit:
            shown = ", ".join(map(str, self.at_limit[:5])) + (", ..." if len(self.at_limit) > 5 else "")
            told.append(
                f"{len(self.at_limit)} translations stopped at the length limit and may lack their end: lines {shown}"
            )
        if self.faults:
            told.append(f"{len(self.faults)} translations may be wrong: {', '.join(self.faults[:5])}")
        if self.replaced:
            told.append(f"{self.replaced} characters that cannot stand in a line of text were replaced")
        return told


def translate_lines(
    translator: Translator, lines: Sequence[str], counts: Counts, before: Sequence[str] = ()
) -> list[list[Result]]:
    """The translations of each line, best first: one list for each line, in order. before: the lines before the first,
    for a model with context."""
    known = list(preceding([*before, *lines], translator.input.context, str))[len(before) :]
    asked = [((line if line.strip() else "",), PROSE) for line in lines]
    return [read(found, counts) for found in translator.nbest(asked, [earlier for _, earlier in known])]


def read(found: Sequence[Translated], counts: Counts) -> list[Result]:
    """The translations of one line as lines."""
    best, texts = found[0], [plain(one.parts) for one in found]
    counts.lines += 1
    counts.replaced += best.replaced + sum(map(texts[0].count, LINE_SEPARATORS))
    if best.num_pieces > 1:
        counts.split, counts.pieces = counts.split + 1, counts.pieces + best.num_pieces
    if not best.finished:
        counts.at_limit.append(counts.lines)
    elif best.faults:
        counts.faults.append(f"line {counts.lines}: {'; '.join(best.faults)}")
    return [Result(text.translate(TO_SPACE), one.score, one.finished) for text, one in zip(texts, found, strict=True)]
