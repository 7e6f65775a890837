"""Lines of text in, lines of text out: promise 1 of the house, N lines in and N lines out, whatever is in them.

An empty line stays empty without asking the model. A line longer than `max_source` tokens is translated in pieces,
cut at spaces (amid words where there are none) and joined by a space: nothing is truncated or lost. Pieces of the
vocabulary that would break a line are banned from the search, and what still cannot stand in one line is replaced. All
of it is counted for the caller to say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.config import SearchConfig
from headway.generate.beam import DecodingModel
from headway.generate.decode import translate_ids
from headway.text.tokenizer import Tokenizer


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
    empty: int = 0
    split: int = 0
    pieces: int = 0
    at_limit: list[int] = field(default_factory=list)  # numbers of lines, from 1
    replaced: int = 0

    def words(self, max_source: int) -> list[str]:
        told = []
        if self.split:
            told.append(
                f"{self.split} of {self.lines} lines had more than {max_source} tokens: "
                f"translated in {self.pieces} pieces, cut at spaces, or amid words where there are none"
            )
        if self.at_limit:
            shown = ", ".join(map(str, self.at_limit[:5])) + (", ..." if len(self.at_limit) > 5 else "")
            told.append(
                f"{len(self.at_limit)} translations stopped at the length limit and may lack their end: lines {shown}"
            )
        if self.replaced:
            told.append(f"{self.replaced} characters that cannot stand in a line of text were replaced")
        return told


def cut(text: str, encode: Callable[[str], list[int]], most: int) -> list[list[int]]:
    """Token ids of the pieces of a line, each of `most` tokens or fewer; halved at the space nearest to the middle.

    Text without a space (Chinese, a word without end) is halved in the middle.
    """
    if not text.strip():
        return []
    ids = encode(text)
    if len(ids) <= most or len(text) == 1:
        return [ids]
    middle = len(text) // 2
    spaces = [at for at in (text.rfind(" ", 1, middle), text.find(" ", middle)) if at > 0]
    at = min(spaces, key=lambda at: abs(at - middle), default=middle)
    return cut(text[:at], encode, most) + cut(text[at:].removeprefix(" "), encode, most)


def translate_lines(
    model: DecodingModel,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    config: SearchConfig,
    counts: Counts,
    *,
    max_source: int,
) -> list[list[Result]]:
    """The n_best translations of each line, best first: one list for each line, in order.

    max_source: most tokens of a piece, without its end.
    """
    parts = [[tuple(ids) for ids in cut(line, tokenizer.encode, max_source)] for line in lines]
    # Each distinct source is searched once: a result depends on its own input only.
    sources = list(dict.fromkeys(ids for pieces in parts for ids in pieces))
    searched = translate_ids(model, sources, config, banned=tokenizer.line_breaking_ids)
    found = dict(zip(sources, searched, strict=True))

    results = []
    for pieces in parts:
        counts.lines += 1
        counts.empty += not pieces
        counts.split += len(pieces) > 1
        counts.pieces += len(pieces) if len(pieces) > 1 else 0
        results.append([])
        for rank in range(min((len(found[ids]) for ids in pieces), default=config.n_best)):
            chosen = [found[ids][rank] for ids in pieces]
            decoded = [tokenizer.decode_line(hypothesis.tokens) for hypothesis in chosen]
            counts.replaced += sum(replaced for _, replaced in decoded)
            text, score = " ".join(text for text, _ in decoded), sum(part.score for part in chosen)
            results[-1].append(Result(text, score, all(part.finished for part in chosen)))
        if not results[-1][0].finished:
            counts.at_limit.append(counts.lines)
    return results
