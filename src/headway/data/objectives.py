"""What a text is made into before a model reads it: the training objectives of the family, as pure functions.

Ids come in without control tokens, as `headway.data.store.Row` holds them; what a model of each shape reads comes out,
as plain lists (tensors are made later). What is random is drawn from the `rng` that is passed in and nowhere else.
Control tokens and atoms stand below all ordinary pieces, so `pieces = range(tokenizer.atom_ids.stop, vocab_size)` says
what may be asked and drawn. cls and sep are ids too: atoms of the vocabulary, or BOS and EOS.

    causal, prefix_lm, answers     Written     Radford et al. 2019; Liu et al. 2018; Raffel et al. 2020, section 3.2.3
    joined, blocks, pack           rows of a fixed length
    masked, next_sentence          Masked      Devlin et al. 2019
    permuted                       Permuted    Yang et al. 2019
    classification, pairs, regression, tagging, contrastive: what fine-tuning reads

Objectives on spans (T5, UL2, answers in a text) are in `headway.data.spans`. Nothing is cut or left out in silence. The
independent checks are examples made by hand and properties, in tests/test_objectives.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.text.pieces import BOS, EOS, PAD

Ids = Sequence[int]

NOT_ASKED = -100
"""The class of a token that has none; PAD could not say so, since 0 is a class."""


# ---- what models read ----


@dataclass(frozen=True)
class Written:
    """For a decoder-only model; all lists are of one length.

    targets: the token behind each, PAD where it is not asked. prefix: how many first tokens see each other both ways, 0
    for a causal text. documents: which text each token is of. positions: from 0 in each text.
    """

    tokens: list[int]
    targets: list[int]
    prefix: int
    documents: list[int]
    positions: list[int]


@dataclass(frozen=True)
class Masked:
    """For an encoder; all lists are of one length.

    targets: the token that stood there, PAD where it is not asked. segments: 0 of a first text, 1 of a second. next:
    whether the second text follows the first, None where that is not asked.
    """

    tokens: list[int]
    targets: list[int]
    segments: list[int]
    next: bool | None


@dataclass(frozen=True)
class Pair:
    """For an encoder-decoder: both sides without control tokens, which `headway.data.batch.collate` adds."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Permuted:
    """For two streams (XLNet). rank: each token's place in the order in which the text is predicted: a prediction of
    token i sees the tokens of lower rank. targets: PAD where it is not asked."""

    tokens: list[int]
    targets: list[int]
    rank: list[int]


@dataclass(frozen=True)
class Labelled:
    """A text, or two, and its class (int) or number (float)."""

    tokens: list[int]
    segments: list[int]
    label: int | float


@dataclass(frozen=True)
class Tagged:
    """tags: the class of each token, NOT_ASKED where it has none."""

    tokens: list[int]
    tags: list[int]


@dataclass(frozen=True)
class SpanAnswer:
    """begin, end: places of the answer's first and last token in `tokens`; both 0, which is cls, where none is."""

    tokens: list[int]
    segments: list[int]
    begin: int
    end: int


@dataclass(frozen=True)
class Contrast:
    """Two texts that mean the same; those of other rows of the batch do not."""

    anchor: list[int]
    positive: list[int]


# ---- language models ----


def causal(tokens: Ids) -> Written:
    """The next token everywhere: reads [BOS] + x, asks x + [EOS] (Radford et al. 2019)."""
    return written([BOS, *tokens], [*tokens, EOS])


def written(tokens: list[int], targets: list[int], prefix: int = 0) -> Written:
    """One text, alone in its row."""
    return Written(tokens, targets, prefix, [0] * len(tokens), list(range(len(tokens))))


def random_split(length: int, rng: np.random.Generator) -> int:
    """Where a text of `length` tokens is split, each place between two tokens as likely (Raffel et al. 2020, section
    3.2.3). Raises ValueError for a text of one token, which has no such place."""
    if length < 2:
        raise ValueError(f"a text of {length} tokens cannot be split in two: leave it out, or join texts into blocks")
    return int(rng.integers(1, length))


def prefix_lm(tokens: Ids, split: int) -> Written:
    """The tokens from `split` on and EOS are asked; BOS and those before see each other both ways (Liu et al. 2018).

    A pair of texts: prefix_lm(source + target, len(source)). Raises ValueError for a split outside the text.
    """
    if not 0 <= split <= len(tokens):
        raise ValueError(f"a split at {split}, but the text has {len(tokens)} tokens: give 0 to {len(tokens)}")
    # The prefix's last token is asked for the first one behind it, which it does not see.
    return written([BOS, *tokens], [*[PAD] * split, *tokens[split:], EOS], prefix=1 + split)


def answers(tokens: Ids, asked: Sequence[bool]) -> Written:
    """Only some tokens of a text are asked, as of a chat only what the assistant says.

    tokens: with their control tokens; asked: whether each of them is. Raises ValueError where the lengths
    differ, nothing is asked, PAD is, or the first token, which nothing stands before.
    """
    faults = []
    if len(asked) != len(tokens):
        faults.append(f"{len(tokens)} tokens, but {len(asked)} marks that say which are asked: give one for each")
    else:
        if not any(asked):
            faults.append("no token is asked, so the text teaches nothing: mark its answers, or leave it out")
        if any(asked[:1]):
            faults.append("the first token is asked, which nothing stands before: begin the text with BOS, not asked")
        if PAD in (token for token, is_asked in zip(tokens, asked, strict=True) if is_asked):
            faults.append("PAD is asked, which stands for nothing: do not fill up texts before this")
    if faults:
        raise ValueError("; ".join(faults))
    targets = [token if is_asked else PAD for token, is_asked in zip(tokens[1:], asked[1:], strict=True)]
    return written(list(tokens[:-1]), targets)


# ---- rows of a fixed length ----


def joined(texts: Sequence[Ids], *, begin: bool = False) -> list[int]:
    """One stream: EOS behind each text (Radford et al. 2019); begin: BOS before each, as `causal` has it."""
    return [token for text in texts for token in (*[BOS] * begin, *text, EOS)]


def blocks(stream: Ids, length: int) -> tuple[list[Written], list[int]]:
    """A stream cut into rows of `length` tokens, whatever texts they are of, and what is left over.

    A row reads `length` tokens and asks for those one further; the next row begins with the last one asked, so each
    token but the very first is asked once. What is left over begins the next call's stream, and nothing is lost.
    """
    if length < 1:
        raise ValueError(f"rows of {length} tokens: give 1 or more")
    begins = range(0, len(stream) - length, length)
    rows = [written(list(stream[at : at + length]), list(stream[at + 1 : at + length + 1])) for at in begins]
    return rows, list(stream[len(rows) * length :])


def pack(texts: Sequence[Written], length: int) -> list[Written]:
    """Whole texts side by side in rows of up to `length` tokens, each in the first row with room for it (first fit).

    documents: the index of each token's text in `texts`; positions begin anew in each. Raises ValueError for texts that
    are longer than a row, have a prefix, which is the beginning of a row, or are packed already.
    """
    faults = []
    if long := [number for number, text in enumerate(texts) if len(text.tokens) > length]:
        longest = max(len(text.tokens) for text in texts)
        told = f"rows of {length} tokens are too short for {len(long)} of {len(texts)} texts, the first of them text"
        faults.append(f"{told} {long[0]}: take {longest} or more, or split them first")
    if other := [number for number, text in enumerate(texts) if text.prefix or any(text.documents)]:
        faults.append(f"text {other[0]} has a prefix or is packed already: pack single causal texts")
    if faults:
        raise ValueError("; ".join(faults))
    room, rows = np.full(len(texts), length), list[list[int]]()
    for number, text in enumerate(texts):
        at = int(np.argmax(room[: len(rows) + 1] >= len(text.tokens)))  # the last of these is a new row
        if at == len(rows):
            rows.append([])
        rows[at].append(number)
        room[at] -= len(text.tokens)
    return [
        Written(
            [token for number in row for token in texts[number].tokens],
            [token for number in row for token in texts[number].targets],
            0,
            [number for number in row for _ in texts[number].tokens],
            [position for number in row for position in texts[number].positions],
        )
        for row in rows
    ]


# ---- encoders ----


def masked(
    tokens: Ids,
    rng: np.random.Generator,
    *,
    mask: int,
    pieces: range,
    share: float = 0.15,
    word_of: Sequence[int | None] | None = None,
    segments: Ids | None = None,
    next: bool | None = None,
) -> Masked:
    """A share of the ordinary pieces is asked; of these 80 % are read as `mask`, 10 % as any piece, 10 % as they are
    (Devlin et al. 2019, section 3.1).

    tokens: with their control tokens, which are never asked or drawn. So many are asked: the share, rounded, and at
    least one; none in a text without ordinary pieces. word_of: the word each token is of; words are then asked as a
    whole, as long as the share allows, the first one drawn even if it is longer. segments, next: handed on.
    """
    for name, given in (("word_of", word_of), ("segments", segments)):
        if given is not None and len(given) != len(tokens):
            raise ValueError(f"{name} has {len(given)} entries for {len(tokens)} tokens: give one for each")
    if not 0 < share <= 1:
        raise ValueError(f"share = {share}: give a part above 0, up to 1")
    words = dict[int | None, list[int]]()
    for place, token in enumerate(tokens):
        if token in pieces:
            words.setdefault(place if word_of is None else word_of[place], []).append(place)
    groups, chosen = list(words.values()), list[int]()
    most = max(1, round(share * sum(map(len, groups))))
    for drawn in rng.permutation(len(groups)):
        if not chosen or len(chosen) + len(groups[drawn]) <= most:
            chosen += groups[drawn]
    read, targets = list(tokens), [PAD] * len(tokens)
    for place in sorted(chosen):
        targets[place] = tokens[place]
        fate = rng.random()
        if fate < 0.8:
            read[place] = mask
        elif fate < 0.9:
            read[place] = pieces[int(rng.integers(len(pieces)))]
    return Masked(read, targets, [0] * len(tokens) if segments is None else list(segments), next)


def next_sentence(
    documents: Sequence[Sequence[Ids]],
    document: int,
    sentence: int,
    rng: np.random.Generator,
    *,
    cls: int,
    sep: int,
) -> Masked:
    """[cls] A [sep] B [sep]: A is that sentence; B follows it in half of all draws, and else it is any sentence of any
    other document (Devlin et al. 2019, section 3.1). No token is asked yet: `masked` sees to that.

    Raises ValueError where no sentence follows, or no other document has one.
    """
    others = [number for number, other in enumerate(documents) if other and number != document]
    faults = []
    if sentence + 1 >= len(documents[document]):
        told = f"document {document} has {len(documents[document])} sentences, and none behind sentence {sentence}"
        faults.append(f"{told}: take one before its last")
    if not others:
        faults.append("no other document has a sentence: give two or more documents")
    if faults:
        raise ValueError("; ".join(faults))
    follows = bool(rng.random() < 0.5)
    other = documents[others[int(rng.integers(len(others)))]]
    second = documents[document][sentence + 1] if follows else other[int(rng.integers(len(other)))]
    tokens, segments = marked(documents[document][sentence], second, cls=cls, sep=sep)
    return Masked(tokens, [PAD] * len(tokens), segments, follows)


def permuted(tokens: Ids, rng: np.random.Generator, *, pieces: range, one_in: int = 6) -> Permuted:
    """A random order of prediction, of which the last part is asked: one in six, rounded, at least one (Yang et al.
    2019, section 2.3; K = 6).

    Control tokens come first in the order: they are never asked, and all see them. A text without ordinary pieces asks
    nothing.
    """
    if one_in < 1:
        raise ValueError(f"one_in = {one_in}: give 1 (all are asked) or more")
    ordinary = [place for place, token in enumerate(tokens) if token in pieces]
    order = [place for place, token in enumerate(tokens) if token not in pieces]
    order += [ordinary[drawn] for drawn in rng.permutation(len(ordinary))]
    rank, targets = [0] * len(tokens), [PAD] * len(tokens)
    for number, place in enumerate(order):
        rank[place] = number
    num_asked = max(1, round(len(ordinary) / one_in)) if ordinary else 0
    for place in order[len(order) - num_asked :]:
        targets[place] = tokens[place]
    return Permuted(list(tokens), targets, rank)


# ---- fine-tuning ----


def marked(*texts: Ids, cls: int, sep: int) -> tuple[list[int], list[int]]:
    """[cls] A [sep], or [cls] A [sep] B [sep], and segments: 0 up to the first sep, 1 behind it (Devlin et al. 2019,
    figure 2)."""
    tokens, segments = [cls], [0]
    for number, text in enumerate(texts):
        tokens += [*text, sep]
        segments += [number] * (len(text) + 1)
    return tokens, segments


def classification(tokens: Ids, label: int, *, num: int, cls: int, sep: int) -> Labelled:
    """A text and which of `num` classes it is of (acceptability, sentiment). Raises ValueError for another class."""
    return Labelled(*marked(tokens, cls=cls, sep=sep), of_classes(label, num))


def pairs(first: Ids, second: Ids, label: int, *, num: int, cls: int, sep: int) -> Labelled:
    """Two texts and which of `num` classes they are of (entailment, paraphrase). Raises as `classification` does."""
    return Labelled(*marked(first, second, cls=cls, sep=sep), of_classes(label, num))


def of_classes(label: int, num: int) -> int:
    if not 0 <= label < num:
        raise ValueError(f"class {label}, but they are 0 to {num - 1}: give the model more, or mend the data")
    return label


def regression(first: Ids, second: Ids | None, value: float, *, cls: int, sep: int) -> Labelled:
    """A text, or two, and a number (how alike they are). Raises ValueError where it is none."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be learned: give a finite number, or leave the text out")
    texts = (first,) if second is None else (first, second)
    return Labelled(*marked(*texts, cls=cls, sep=sep), float(value))


def tagging(words: Sequence[Ids], tags: Ids, *, cls: int, sep: int) -> Tagged:
    """[cls] words [sep]: the first piece of each word has the word's tag, the others none (Devlin et al. 2019, section
    5.3). Raises ValueError where there are not as many tags as words, or a word has no pieces."""
    faults = []
    if len(words) != len(tags):
        faults.append(f"{len(words)} words have {len(tags)} tags: give one for each")
    if empty := [number for number, word in enumerate(words) if not word]:
        faults.append(f"word {empty[0]} has no pieces, so its tag stands nowhere: leave out word and tag")
    if faults:
        raise ValueError("; ".join(faults))
    found = [tag for word, tag in zip(words, tags, strict=True) for tag in (tag, *[NOT_ASKED] * (len(word) - 1))]
    tokens, _ = marked([token for word in words for token in word], cls=cls, sep=sep)
    return Tagged(tokens, [NOT_ASKED, *found, NOT_ASKED])


def contrastive(anchor: Ids, positive: Ids, *, cls: int, sep: int) -> Contrast:
    """Two texts that mean the same, or one twice, which dropout tells apart (Gao et al. 2021). Raises ValueError for an
    empty one."""
    if not anchor or not positive:
        raise ValueError(f"an empty {'positive' if anchor else 'anchor'} means nothing: leave the pair out")
    return Contrast(marked(anchor, cls=cls, sep=sep)[0], marked(positive, cls=cls, sep=sep)[0])
