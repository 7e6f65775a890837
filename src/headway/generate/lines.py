"""Lines of text in, lines of text out: promise 1 of the house, N lines in and N lines out, whatever is in them.

An empty line stays empty without asking the model. A line longer than `max_source` tokens is translated in pieces:
sentences, or less where those are too long (`headway.text.segment`), joined with the space that was between them, so
nothing is truncated or lost. Placeholders and tags are kept where the vocabulary has atoms for them. Pieces of the
vocabulary that would break a line are banned from the search, and what still cannot stand in one line is replaced. All
of it is counted for the caller to say.

A model that was trained with context reads each line after the lines before it, back to an empty one. Its translation
depends on those as well, and on nothing else.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.config import SOURCE_ALONE, InputConfig, LanguagesConfig, SearchConfig
from headway.generate.beam import DecodingModel, Hypothesis
from headway.generate.decode import translate_ids
from headway.generate.placeholders import Placeholders
from headway.text.codes import Code, find, plain
from headway.text.context import context_ids, preceding
from headway.text.segment import Pieces, fit, join
from headway.text.tokenizer import LINE_SEPARATORS, TO_SPACE, TokenizerPair


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
                f"translated in {self.pieces} pieces, cut between sentences where that was enough"
            )
        if self.at_limit:
            shown = ", ".join(map(str, self.at_limit[:5])) + (", ..." if len(self.at_limit) > 5 else "")
            told.append(
                f"{len(self.at_limit)} translations stopped at the length limit and may lack their end: lines {shown}"
            )
        if self.replaced:
            told.append(f"{self.replaced} characters that cannot stand in a line of text were replaced")
        return told


class Piece(NamedTuple):
    """What a model reads, and the codes that are atoms in it."""

    ids: tuple[int, ...]
    kept: tuple[Code, ...] = ()


def cut(line: str, language: str | None, tokenizers: TokenizerPair, most: int) -> Pieces:
    """The line, or pieces of `most` tokens or fewer with the white space behind each; of an empty line nothing."""

    def size(text: str) -> int:
        return len(tokenizers.source.encode(text))

    if not line.strip():
        return []
    return [(line, "")] if len(line) <= most and size(line) <= most else fit(line, language, size, most)


def read(text: str, placeholders: Placeholders, tags: Sequence[int], before: Sequence[str], most: int) -> Piece:
    """A text as the model reads it, after tags and as much of the texts before it as `most` tokens in all allow."""
    parts, source = find(text) if placeholders.num else (text,), placeholders.tokenizers.source
    ids, kept = placeholders.encode(parts) if placeholders.fit(parts) else (source.encode(text), [])
    around = context_ids(before, source, most - len(tags) - len(ids))
    return Piece((*tags, *around, *ids), tuple(kept))


def search(
    model: DecodingModel, placeholders: Placeholders, pieces: Iterable[Piece], config: SearchConfig
) -> Iterator[tuple[Piece, list[Hypothesis]]]:
    """Each distinct piece once: a result depends on its own input only."""
    distinct = list(dict.fromkeys(pieces))
    for some in ([one for one in distinct if not one.kept], [one for one in distinct if one.kept]):
        if some:
            banned = [*placeholders.tokenizers.target.line_breaking_ids, *placeholders.banned(some[0].kept)]
            constraints = [placeholders.constraint(one.kept) if one.kept else None for one in some]
            sources = [one.ids for one in some]
            found = translate_ids(model, sources, config, banned=banned, constraints=constraints)
            yield from zip(some, found, strict=True)


def written(piece: Piece, tokens: Sequence[int], placeholders: Placeholders) -> tuple[str, int]:
    """The text of a translation as one line, and how many characters had to be replaced."""
    if not piece.kept:
        return placeholders.tokenizers.target.decode_line(tokens)
    text = plain(placeholders.decode(tokens, piece.kept))
    return text.translate(TO_SPACE), sum(map(text.count, LINE_SEPARATORS))


def translate_lines(
    model: DecodingModel,
    tokenizers: TokenizerPair,
    lines: Sequence[str],
    config: SearchConfig,
    counts: Counts,
    *,
    max_source: int,
    languages: LanguagesConfig,
    tags: Sequence[int] = (),
    input: InputConfig = SOURCE_ALONE,
    before: Sequence[str] = (),
) -> list[list[Result]]:
    """The n_best translations of each line, best first: one list for each line, in order.

    max_source: most tokens of a piece, without its end; tags: ids of the atoms to put before each;
    input: what the model reads before a line; before: the lines before the first.
    """
    placeholders = Placeholders(tokenizers)
    num, most = input.context, min(input.max_len, max_source)
    rows: list[list[tuple[Piece, str]]] = []
    for line, earlier in list(preceding([*before, *lines], num, str))[len(before) :]:
        recent = deque(earlier, maxlen=num)
        rows.append([])
        for text, space in cut(line, languages.source, tokenizers, max_source):
            rows[-1].append((read(text, placeholders, tags, recent, most), space))
            recent.append(text)
    found = dict(search(model, placeholders, (piece for row in rows for piece, _ in row), config))

    results: list[list[Result]] = []
    for row in rows:
        counts.lines += 1
        counts.empty += not row
        counts.split += len(row) > 1
        counts.pieces += len(row) if len(row) > 1 else 0
        results.append([])
        for rank in range(min((len(found[piece]) for piece, _ in row), default=config.n_best)):
            chosen = [found[piece][rank] for piece, _ in row]
            texts = [written(piece, one.tokens, placeholders) for (piece, _), one in zip(row, chosen, strict=True)]
            counts.replaced += sum(replaced for _, replaced in texts)
            parts = [(text, space) for (text, _), (_, space) in zip(texts, row, strict=True)]
            whole = join(parts, languages.source, languages.target)
            finished = all(one.finished for one in chosen)
            results[-1].append(Result(whole, sum(one.score for one in chosen), finished))
        if not results[-1][0].finished:
            counts.at_limit.append(counts.lines)
    return results
