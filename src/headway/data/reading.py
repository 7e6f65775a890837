"""From lines of text to what an objective's examples are made of: which texts there are, how long each is, and the
function that makes an example of one with a generator for what it draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headway.config import (
    CausalConfig,
    ClassesObjectiveConfig,
    ContrastObjectiveConfig,
    MaskedConfig,
    NumberObjectiveConfig,
    ObjectiveConfig,
    PrefixConfig,
    SpansConfig,
    TagsObjectiveConfig,
    TranslateConfig,
)
from headway.data.objectives import (
    blocks,
    causal,
    classification,
    contrastive,
    marked,
    masked,
    pack,
    pairs,
    prefix_lm,
    random_split,
    regression,
    tagging,
    written,
)
from headway.data.spans import corrupted_lengths, expanded_length, noise_counts, span_corruption
from headway.data.texts import Example, Line
from headway.text.tokenizer import BOS, EOS, Tokenizer

MASK = "<mask>"
"""The atom that stands for a masked word: `tokenizer.tags = ["mask"]`."""

CHUNK = 4096
"""Lines that are encoded together."""


@dataclass(frozen=True)
class Texts:
    """What an objective reads. make(row, rng): an example of a row; lengths: (N,) tokens that a row is planned with;
    places: where each stands; characters: of all that is asked (for bits per character), None where none can be
    counted; left_out: words for each reason."""

    make: Callable[[int, np.random.Generator], Example]
    lengths: np.ndarray
    places: list[str]
    characters: int | None = None
    left_out: list[str] = field(default_factory=list)


def read_rows(objective: ObjectiveConfig, lines: Sequence[Line], tokenizer: Tokenizer, max_len: int) -> Texts:
    """The rows of these lines, none longer than max_len tokens. Raises ValueError with every line whose label, tags or
    second text do not fit, and where the vocabulary lacks what the objective needs."""
    match objective:
        case CausalConfig(rows="blocks") | SpansConfig():
            return in_blocks(objective, lines, tokenizer, max_len)
        case CausalConfig():
            return packed(lines, tokenizer, max_len)
        case PrefixConfig():
            ids, places, told = encoded(lines, tokenizer, max_len - 1, least=2)
            lengths = np.array([len(row) + 1 for row in ids], dtype=np.uint32)
            return Texts(
                lambda row, rng: prefix_lm(ids[row], random_split(len(ids[row]), rng)), lengths, places, None, told
            )
        case MaskedConfig(share=share, whole_words=whole):
            return for_masking(lines, tokenizer, max_len, share, whole)
        case ClassesObjectiveConfig() | NumberObjectiveConfig() | ContrastObjectiveConfig():
            return labelled(objective, lines, tokenizer, max_len)
        case TagsObjectiveConfig(names=names):
            return tagged(lines, tokenizer, max_len, names)
        case TranslateConfig():
            raise AssertionError("pairs are headway.data.prepare's")


def in_blocks(
    objective: CausalConfig | SpansConfig, lines: Sequence[Line], tokenizer: Tokenizer, max_len: int
) -> Texts:
    """All lines as one stream with their line breaks, in rows of max_len tokens; the last may be shorter."""
    if not tokenizer.lossless:
        told = "this tokenizer cannot spell line breaks, and so no rows of joined lines"
        raise ValueError(f'{told}: take a byte-level one (bpe, char_bpe, unigram), or objective.rows = "lines"')
    stream = [
        id
        for at in range(0, len(lines), CHUNK)
        for id in tokenizer.encode("\n".join([*(line.text for line in lines[at : at + CHUNK]), ""]))
    ]
    if isinstance(objective, CausalConfig):
        rows, rest = blocks([BOS, *stream], max_len)
        if len(rest) > 1:  # the last row is a shorter one
            rows.append(written(list(rest[:-1]), list(rest[1:])))
        lengths = np.array([len(row.tokens) for row in rows], dtype=np.uint32)
        places = [f"block {number}" for number in range(1, len(rows) + 1)]
        return Texts(lambda row, _: rows[row], lengths, places, sum(len(line.text) + 1 for line in lines))
    share, mean = objective.share, objective.mean
    size = expanded_length(max_len, density=share, mean=mean)
    cut = [stream[at : at + size] for at in range(0, len(stream), size)]
    cut = [row for row in cut if len(row) > 1]
    sentinels = [tokenizer.atom(name) for name in tokenizer.atoms if re.fullmatch(r"<x\d+>", name)]
    needed = noise_counts(max(map(len, cut), default=2), objective.share, objective.mean)[1] + 1
    if len(sentinels) < needed:
        told = (
            f"blocks of {size} tokens lose up to {needed - 1} spans, and the vocabulary has {len(sentinels)} sentinels"
        )
        raise ValueError(f"{told}: set tokenizer.placeholders = {needed} or more, or lower data.max_len")
    lengths = np.array([sum(corrupted_lengths(len(row), density=share, mean=mean)) for row in cut], dtype=np.uint32)
    places = [f"block {number}" for number in range(1, len(cut) + 1)]
    return Texts(
        lambda row, rng: span_corruption(cut[row], rng, sentinels=sentinels, density=share, mean=mean), lengths, places
    )


def encoded(
    lines: Sequence[Line], tokenizer: Tokenizer, most: int, least: int = 1
) -> tuple[list[list[int]], list[str], list[str]]:
    """Ids of each line that is not empty and has no more than `most` tokens, their places, and what is left out."""
    found, places, short, long = list[list[int]](), list[str](), list[int](), list[int]()
    for at in range(0, len(lines), CHUNK):
        chunk = lines[at : at + CHUNK]
        for line, ids in zip(chunk, tokenizer.encode_batch([line.text for line in chunk]), strict=True):
            if least <= len(ids) <= most:
                found.append(ids)
                places.append(f"line {line.number}")
            else:
                (long if ids and len(ids) > most else short).append(line.number)
    told = [
        f"left out {len(numbers):,} of {len(lines):,} lines that {reason}: line {', '.join(map(str, numbers[:5]))}"
        + (" ..." if len(numbers) > 5 else "")
        for numbers, reason in (
            (short, "are empty" if least == 1 else f"have under {least} tokens"),
            (long, f"have more than {most} tokens"),
        )
        if numbers
    ]
    return found, places, told


def packed(lines: Sequence[Line], tokenizer: Tokenizer, max_len: int) -> Texts:
    """Each line a text, those that are short together in a row."""
    ids, _, told = encoded(lines, tokenizer, max_len - 1)
    rows = pack([causal(row) for row in ids], max_len)
    lengths = np.array([len(row.tokens) for row in rows], dtype=np.uint32)
    characters = None if told and "tokens" in told[-1] else sum(len(line.text) + 1 for line in lines if line.text)
    return Texts(lambda row, _: rows[row], lengths, [f"row {n}" for n in range(1, len(rows) + 1)], characters, told)


def for_masking(lines: Sequence[Line], tokenizer: Tokenizer, max_len: int, share: float, whole: bool) -> Texts:
    mask, pieces = tokenizer.atom(MASK), range(tokenizer.atom_ids.stop, tokenizer.vocab_size)
    ids, places, told = encoded(lines, tokenizer, max_len - 2)
    lengths = np.array([len(row) + 2 for row in ids], dtype=np.uint32)

    def make(row: int, rng: np.random.Generator) -> Example:
        tokens, segments = marked(ids[row], cls=BOS, sep=EOS)
        word_of = [None, *words_of(ids[row], tokenizer), None] if whole else None
        return masked(tokens, rng, mask=mask, pieces=pieces, share=share, word_of=word_of, segments=segments)

    return Texts(make, lengths, places, None, told)


def words_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Which word each piece is of: a piece that begins with white space, or has none before it, begins one."""
    found, word, ended = list[int](), -1, True
    for number in ids:
        raw = tokenizer.piece_bytes(number)
        if ended or raw[:1].isspace() or word < 0:
            word += 1
        found.append(word)
        ended = raw[-1:].isspace()
    return found


def labelled(
    objective: ClassesObjectiveConfig | NumberObjectiveConfig | ContrastObjectiveConfig,
    lines: Sequence[Line],
    tokenizer: Tokenizer,
    max_len: int,
) -> Texts:
    """Texts, or two in a row, with what is said of them."""
    faults, kept, told = list[str](), list[tuple[Line, list[int], list[int] | None, int | float]](), list[int]()
    firsts = tokenizer.encode_batch([line.text for line in lines])
    seconds = tokenizer.encode_batch([line.second or "" for line in lines])
    apart = isinstance(objective, ContrastObjectiveConfig)
    for line, first, second in zip(lines, firsts, seconds, strict=True):
        other = second if line.second is not None else None
        label: int | float = 0
        if isinstance(objective, ClassesObjectiveConfig):
            if line.label not in objective.names:
                shown = ", ".join(objective.names[:8])
                faults.append(f"line {line.number}: {line.label!r:.40} is none of objective.names ({shown})")
                continue
            label = objective.names.index(line.label)
        elif isinstance(objective, NumberObjectiveConfig):
            try:
                label = float(line.label or "")
            except ValueError:
                faults.append(f"line {line.number}: {line.label!r:.40} is no number")
                continue
        sizes = (
            [len(first) + 2, len(other or ()) + 2]
            if apart
            else [len(first) + 2 + (len(other) + 1 if other is not None else 0)]
        )
        if not first or (other is not None and not other) or max(sizes) > max_len:
            told.append(line.number)
        else:
            kept.append((line, first, other, label))
    refuse(faults)
    ends = {"cls": BOS, "sep": EOS}

    def make(row: int, rng: np.random.Generator) -> Example:
        first, second, label = kept[row][1:]
        if isinstance(objective, ContrastObjectiveConfig):
            return contrastive(first, first if second is None else second, **ends)
        if isinstance(objective, NumberObjectiveConfig):
            return regression(first, second, label, **ends)
        if second is None:
            return classification(first, int(label), num=len(objective.names), **ends)
        return pairs(first, second, int(label), num=len(objective.names), **ends)

    lengths = [
        2 * max(len(first), len(second or ())) + 4 if apart else len(first) + 2 + (len(second) + 1 if second else 0)
        for _, first, second, _ in kept
    ]
    return Texts(
        make,
        np.array(lengths, dtype=np.uint32),
        [f"line {line.number}" for line, *_ in kept],
        None,
        left(told, lines, max_len),
    )


def tagged(lines: Sequence[Line], tokenizer: Tokenizer, max_len: int, names: Sequence[str]) -> Texts:
    """Words and their tags, which stand with spaces between them."""
    faults, kept, told = list[str](), list[tuple[Line, list[list[int]], list[int]]](), list[int]()
    for line in lines:
        words, tags = line.text.split(), (line.label or "").split()
        unknown = [tag for tag in tags if tag not in names]
        if len(words) != len(tags):
            faults.append(f"line {line.number}: {len(words)} words and {len(tags)} tags; give one for each")
        elif unknown:
            faults.append(f"line {line.number}: {unknown[0]!r:.40} is none of objective.names")
        else:
            ids = [tokenizer.encode(word if at == 0 else f" {word}") for at, word in enumerate(words)]
            if not words or sum(map(len, ids)) + 2 > max_len or not all(ids):
                told.append(line.number)
            else:
                kept.append((line, ids, [list(names).index(tag) for tag in tags]))
    refuse(faults)
    lengths = np.array([sum(map(len, ids)) + 2 for _, ids, _ in kept], dtype=np.uint32)
    places = [f"line {line.number}" for line, *_ in kept]
    return Texts(
        lambda row, _: tagging(*kept[row][1:], cls=BOS, sep=EOS), lengths, places, None, left(told, lines, max_len)
    )


def left(numbers: Sequence[int], lines: Sequence[Line], max_len: int) -> list[str]:
    if not numbers:
        return []
    shown = ", ".join(map(str, numbers[:5])) + (" ..." if len(numbers) > 5 else "")
    told = f"left out {len(numbers):,} of {len(lines):,} lines that are empty or have more than {max_len} tokens"
    return [f"{told}, ends counted: line {shown}"]


SHOWN = 5


def refuse(faults: Sequence[str]) -> None:
    if faults:
        more = [f"and {len(faults) - SHOWN:,} more such lines"] if len(faults) > SHOWN else []
        raise ValueError("\n".join([*faults[:SHOWN], *more]))
