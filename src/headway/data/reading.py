"""From lines of text to what an objective's examples are made of: which texts there are, how long each is, and the
function that makes an example of one with a generator for what it draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import ValidationError

from headway.config import (
    AnswersConfig,
    BothWaysObjectiveConfig,
    CausalConfig,
    ChatObjectiveConfig,
    ClassesObjectiveConfig,
    ContrastObjectiveConfig,
    MaskedConfig,
    NumberObjectiveConfig,
    ObjectiveConfig,
    PermutedConfig,
    PrefixConfig,
    SpansConfig,
    TagsObjectiveConfig,
    TranslateConfig,
    UL2Config,
)
from headway.data.objectives import (
    Masked,
    SpanAnswer,
    Written,
    answers,
    blocks,
    causal,
    classification,
    contrastive,
    marked,
    masked,
    next_sentence,
    pack,
    pairs,
    permuted,
    prefix_lm,
    random_split,
    regression,
    tagging,
    written,
)
from headway.data.spans import (
    DENOISERS,
    corrupted_lengths,
    expanded_length,
    noise_counts,
    offsets,
    span_answer,
    span_corruption,
    ul2,
)
from headway.data.texts import Example, Line
from headway.text.chat import CHATS, Chat, Messages
from headway.text.tokenizer import BOS, EOS, PAD, Tokenizer

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
        case CausalConfig(rows="blocks") | SpansConfig() | UL2Config():
            return in_blocks(objective, lines, tokenizer, max_len)
        case CausalConfig():
            return packed(lines, tokenizer, max_len)
        case PrefixConfig():
            ids, places, told = encoded(lines, tokenizer, max_len - 1, least=2)
            lengths = np.array([len(row) + 1 for row in ids], dtype=np.uint32)
            return Texts(
                lambda row, rng: prefix_lm(ids[row], random_split(len(ids[row]), rng)), lengths, places, None, told
            )
        case MaskedConfig() if objective.next_sentence:
            return in_twos(objective, lines, tokenizer, max_len)
        case MaskedConfig() | PermutedConfig():
            return for_guessing(objective, lines, tokenizer, max_len)
        case BothWaysObjectiveConfig():
            return for_both_ways(lines, tokenizer, max_len)
        case ChatObjectiveConfig(chat=name):
            return chats(lines, tokenizer, max_len, CHATS[name])
        case AnswersConfig(stride=stride):
            return answered(lines, tokenizer, max_len, stride)
        case ClassesObjectiveConfig() | NumberObjectiveConfig() | ContrastObjectiveConfig():
            return labelled(objective, lines, tokenizer, max_len)
        case TagsObjectiveConfig(names=names):
            return tagged(lines, tokenizer, max_len, names)
        case TranslateConfig():
            raise AssertionError("pairs are headway.data.prepare's")


def in_blocks(
    objective: CausalConfig | SpansConfig | UL2Config, lines: Sequence[Line], tokenizer: Tokenizer, max_len: int
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
    return for_dropping(objective, stream, tokenizer, max_len)


def for_dropping(
    objective: SpansConfig | UL2Config, stream: Sequence[int], tokenizer: Tokenizer, max_len: int
) -> Texts:
    """Blocks of a stream, as long as what is left of them has room in max_len tokens."""
    if isinstance(objective, SpansConfig):
        kinds = [(objective.share, objective.mean)]
        size = expanded_length(max_len, density=objective.share, mean=objective.mean)
    else:  # a mode's token and EOS come to a source that may lose only its last token
        kinds = [(one.density, one.mean) for one in DENOISERS if one.mean is not None]
        size = max_len - 1
    cut = [stream[at : at + size] for at in range(0, len(stream), size)]
    cut = [row for row in cut if len(row) > 1]
    sentinels = [tokenizer.atom(name) for name in tokenizer.atoms if re.fullmatch(r"<x\d+>", name)]
    longest = max(map(len, cut), default=2)
    needed = 1 + max(noise_counts(longest, share, mean)[1] for share, mean in kinds)
    if len(sentinels) < needed:
        told = f"blocks of {longest} tokens lose up to {needed - 1} spans, and the vocabulary has {len(sentinels)}"
        told += f" sentinels: set tokenizer.placeholders = {needed} or more"
        raise ValueError(f"{told}, or lower data.max_len")
    modes = {} if isinstance(objective, SpansConfig) else {name: tokenizer.atom(f"<{name}>") for name in "RSX"}

    def make(row: int, rng: np.random.Generator) -> Example:
        if isinstance(objective, SpansConfig):
            return span_corruption(cut[row], rng, sentinels=sentinels, density=objective.share, mean=objective.mean)
        return ul2(cut[row], rng, sentinels=sentinels, modes=modes)

    lengths = [
        max(sum(corrupted_lengths(len(row), density=share, mean=mean)) for share, mean in kinds) + len(modes and "m")
        for row in cut
    ]
    places = [f"block {number}" for number in range(1, len(cut) + 1)]
    return Texts(make, np.array(lengths, dtype=np.uint32), places)


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
    characters = None if told and "tokens" in told[-1] else sum(len(line.text) + 1 for line in lines if line.text)
    return side_by_side([causal(row) for row in ids], max_len, characters, told)


def side_by_side(texts: Sequence[Written], max_len: int, characters: int | None, told: list[str]) -> Texts:
    rows = pack(texts, max_len)
    lengths = np.array([len(row.tokens) for row in rows], dtype=np.uint32)
    return Texts(lambda row, _: rows[row], lengths, [f"row {n}" for n in range(1, len(rows) + 1)], characters, told)


def chats(lines: Sequence[Line], tokenizer: Tokenizer, max_len: int, chat: Chat) -> Texts:
    """Chats, of which what the assistant says is asked; those that are short together in a row."""
    faults, texts, long = list[str](), list[Written](), list[int]()
    for line in lines:
        try:
            ids, asked = chat.encode(Messages.model_validate_json(line.text).messages, tokenizer)
            text = answers(*begun(ids, asked))
        except ValueError as error:  # a fault of what is written there, and pydantic's are such
            faults.append(f"line {line.number}: {one_line(error)}")
            continue
        if len(text.tokens) <= max_len:
            texts.append(text)
        else:
            long.append(line.number)
    refuse(faults)
    return side_by_side(texts, max_len, None, left(long, lines, max_len))


def begun(ids: list[int], asked: list[bool]) -> tuple[list[int], list[bool]]:
    """With BOS before, where a template writes none."""
    return (ids, asked) if ids[:1] == [BOS] else ([BOS, *ids], [False, *asked])


def one_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors())
    return str(error).replace("\n", "; ")


def for_guessing(
    objective: MaskedConfig | PermutedConfig, lines: Sequence[Line], tokenizer: Tokenizer, max_len: int
) -> Texts:
    pieces = range(tokenizer.atom_ids.stop, tokenizer.vocab_size)
    ids, places, told = encoded(lines, tokenizer, max_len - 2)
    lengths = np.array([len(row) + 2 for row in ids], dtype=np.uint32)
    mask = masker(objective, tokenizer) if isinstance(objective, MaskedConfig) else None

    def make(row: int, rng: np.random.Generator) -> Example:
        tokens, segments = marked(ids[row], cls=BOS, sep=EOS)
        if mask is None:
            assert isinstance(objective, PermutedConfig)
            return permuted(tokens, rng, pieces=pieces, one_in=objective.one_in)
        return mask(tokens, segments, None, rng)

    return Texts(make, lengths if mask else 2 * lengths, places, None, told)  # two streams: each slot twice


def in_twos(objective: MaskedConfig, lines: Sequence[Line], tokenizer: Tokenizer, max_len: int) -> Texts:
    """Every two lines that follow each other in a document, the second one perhaps of another; empty lines stand
    between documents, and so does one that is too long for two to have room."""
    most = (max_len - 3) // 2
    ids = tokenizer.encode_batch([line.text for line in lines])
    documents, long = [list[list[int]]()], list[int]()
    starts: list[tuple[int, int, int]] = []
    for line, row in zip(lines, ids, strict=True):
        if row and len(row) <= most:
            documents[-1].append(row)
            starts.append((len(documents) - 1, len(documents[-1]) - 1, line.number))
            continue
        long += [line.number] if row else []
        documents += [[]] if documents[-1] else []
    starts = [(document, at, number) for document, at, number in starts if at + 1 < len(documents[document])]
    if sum(map(bool, documents)) < 2 or not starts:
        told = "objective.next_sentence needs two documents or more, and two sentences that follow each other"
        raise ValueError(f"{told}: a sentence a line, and an empty line between documents")
    told = f"left out {len(long):,} of {len(lines):,} lines that have more than {most} tokens, so that two have room"
    mask, longest = masker(objective, tokenizer), max(len(row) for document in documents for row in document)

    def make(row: int, rng: np.random.Generator) -> Example:
        document, at, _ = starts[row]
        two = next_sentence(documents, document, at, rng, cls=BOS, sep=EOS)
        return mask(two.tokens, two.segments, two.next, rng)

    lengths = np.array([len(documents[document][at]) + longest + 3 for document, at, _ in starts], dtype=np.uint32)
    return Texts(make, lengths, [f"line {number}" for *_, number in starts], None, [told] if long else [])


def for_both_ways(lines: Sequence[Line], tokenizer: Tokenizer, max_len: int) -> Texts:
    ids, places, told = encoded(lines, tokenizer, max_len - 2)
    rows = [Masked([BOS, *row, EOS], [*row, EOS, PAD], [0] * (len(row) + 2), None) for row in ids]
    lengths = np.array([len(row.tokens) for row in rows], dtype=np.uint32)
    return Texts(lambda row, _: rows[row], lengths, places, None, told)


Masker = Callable[[list[int], list[int], bool | None, np.random.Generator], Masked]


def masker(objective: MaskedConfig, tokenizer: Tokenizer) -> Masker:
    """(tokens, segments, next, rng) -> what is read and asked, as the objective says."""
    mask, pieces = tokenizer.atom(MASK), range(tokenizer.atom_ids.stop, tokenizer.vocab_size)

    def hide(tokens: list[int], segments: list[int], next: bool | None, rng: np.random.Generator) -> Masked:
        word_of = words_of(tokens, tokenizer) if objective.whole_words else None
        asked = {"mask": mask, "pieces": pieces, "share": objective.share, "word_of": word_of}
        return masked(tokens, rng, **asked, segments=segments, next=next)

    return hide


def words_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[int | None]:
    """Which word each piece is of, None for what is no piece: one that begins with white space, or has none of a word
    before it, begins a word."""
    found, word, ended = list[int | None](), -1, True
    for number in ids:
        if number < tokenizer.atom_ids.stop:
            found.append(None)
            ended = True
            continue
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


def answered(lines: Sequence[Line], tokenizer: Tokenizer, max_len: int, stride: int | None) -> Texts:
    """Questions, passages in windows, and where the answer stands."""
    faults, rows, places = list[str](), list[SpanAnswer](), list[str]()
    for line in lines:
        passage = line.second or ""
        try:
            question, context = tokenizer.encode_batch([line.text, passage])
            extents = offsets([tokenizer.piece_bytes(number) for number in context], passage)
            where = place_of(line.label or "", passage)
            apart = stride or max(1, (max_len - len(question) - 3) // 2)
            ends = {"cls": BOS, "sep": EOS}
            found = span_answer(question, context, extents, where, **ends, max_len=max_len, stride=apart)
        except ValueError as error:
            faults.append(f"line {line.number}: {error}")
            continue
        rows += found
        places += [f"line {line.number}"] * len(found)
    refuse(faults)
    lengths = np.array([len(row.tokens) for row in rows], dtype=np.uint32)
    return Texts(lambda row, _: rows[row], lengths, places)


def place_of(label: str, passage: str) -> tuple[int, int] | None:
    """The characters of an answer, None of an empty one. Raises ValueError where it is not told which are meant."""
    if not label:
        return None
    counted = re.match(r"(\d+):", label)
    if counted and passage.startswith(label[counted.end() :], begin := int(counted[1])):
        return begin, begin + len(label) - counted.end()
    found = [one.start() for one in re.finditer(f"(?={re.escape(label)})", passage)]
    if len(found) != 1:
        told = f"the answer {label!r:.60} stands {len(found)} times in its passage"
        remedy = "give it as it stands there" if not found else f"say which: `{found[0]}:{label}`"
        raise ValueError(f"{told}; {remedy}")
    return found[0], found[0] + len(label)


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
