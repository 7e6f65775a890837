"""Training of vocabularies, one function for each kind; the same texts give the same file on every run.

Merges are learnt by the `tokenizers` library, the pieces of a Unigram by `headway.text.unigram`. The kinds are
described in `headway.text.pieces`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from headway.text.pieces import (
    BYTE_PIECES,
    CONTROLS,
    LOSSLESS,
    UNK,
    Normalise,
    Trained,
    blank,
    byte_letters,
    normalised,
    words_of,
)
from headway.text.unigram import train_unigram

COVERED = 0.9995
"""The share of all characters that get pieces of their own, most frequent first, where pieces are characters."""

LONGEST_LINE, SLICE = 1000, 100
"""A longer line is cut into slices while training, since a word of a megabyte would cost minutes and teach nothing."""

GONE = "\ue000"
"""Stands for rare characters while pieces of characters are learnt, and belongs to no word then."""


class VocabularyTooLarge(ValueError):
    """More pieces were asked for than the texts give; `largest` is how many they give."""

    def __init__(self, asked: int, largest: int) -> None:
        super().__init__(
            f"tokenizer.vocab_size = {asked}: these texts give {largest} pieces at most; "
            f"take {largest} or fewer, or give more text"
        )
        self.largest = largest


def train(texts: Iterable[str], kind: str, vocab_size: int, normalise: Normalise, num_atoms: int = 0) -> Trained:
    """Learn so many pieces that the vocabulary has exactly vocab_size, control tokens and atoms among them.

    Raises VocabularyTooLarge, and ValueError where there is no text at all, or where the size is less than every
    vocabulary has.
    """
    least = (256 if kind in LOSSLESS else 1) + len(CONTROLS) + num_atoms
    if vocab_size < least:
        told = f"{'256 bytes' if kind in LOSSLESS else 'a piece'} and {len(CONTROLS)} control tokens"
        told += f" and {num_atoms} atoms" if num_atoms else ""
        raise ValueError(f"tokenizer.vocab_size = {vocab_size}: every vocabulary has {told}; take {least} or more")
    lines = (text for text in slices(texts) if text)
    line = next(lines, None)
    if line is None:
        raise ValueError("there is no text to train a tokenizer on: all lines are empty")
    inner = LEARN[kind](chain([line], lines), blank(kind, normalise), vocab_size - num_atoms)
    if (largest := inner.get_vocab_size() + num_atoms) < vocab_size:
        raise VocabularyTooLarge(vocab_size, largest)
    return Trained(kind, inner)


def learn_bytes(lines: Iterable[str], inner: tokenizers.Tokenizer, vocab_size: int) -> tokenizers.Tokenizer:
    """Merges of bytes."""
    inner.train_from_iterator(lines, merger(vocab_size, CONTROLS, byte_letters()))
    return inner


def learn_characters(lines: Iterable[str], inner: tokenizers.Tokenizer, vocab_size: int) -> tokenizers.Tokenizer:
    """Merges of characters, with all bytes for those that are no piece."""
    texts, characters = covered(lines, inner, vocab_size - len(CONTROLS) - len(BYTE_PIECES))
    learnt = merged(texts, inner, merger(vocab_size, [*CONTROLS, *BYTE_PIECES], characters))
    inner.model = models.BPE(learnt["vocab"], [tuple(pair) for pair in learnt["merges"]], byte_fallback=True)
    return inner


def learn_wordpieces(lines: Iterable[str], inner: tokenizers.Tokenizer, vocab_size: int) -> tokenizers.Tokenizer:
    """Each character at the beginning and within a word, and what merging gives beyond."""
    texts, characters = covered(lines, inner, (vocab_size - len(CONTROLS)) // 2)
    within = [f"##{character}" for character in characters if character != " "]
    learnt = merged(texts, inner, merger(vocab_size, [*CONTROLS, *within], characters, "##"))
    inner.model = models.WordPiece(learnt["vocab"], unk_token=CONTROLS[UNK])
    return inner


def learn_unigram(lines: Iterable[str], inner: tokenizers.Tokenizer, vocab_size: int) -> tokenizers.Tokenizer:
    """The likeliest pieces; see `headway.text.unigram`."""
    pieces = train_unigram(Counter(words_of(lines, inner)), sorted(byte_letters()), vocab_size - len(CONTROLS))
    inner.model = models.Unigram([(token, 0.0) for token in CONTROLS] + pieces, unk_id=UNK)
    return inner


def learn_words(lines: Iterable[str], inner: tokenizers.Tokenizer, vocab_size: int) -> tokenizers.Tokenizer:
    """The most frequent words."""
    counts = Counter(words_of(lines, inner))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: vocab_size - len(CONTROLS)]
    inner.model = models.WordLevel(
        {word: number for number, word in enumerate([*CONTROLS, *ranked])}, unk_token=CONTROLS[UNK]
    )
    return inner


LEARN: dict[str, Callable[[Iterable[str], tokenizers.Tokenizer, int], tokenizers.Tokenizer]] = {
    "bpe": learn_bytes,
    "char_bpe": learn_characters,
    "unigram": learn_unigram,
    "wordpiece": learn_wordpieces,
    "word": learn_words,
}


def merger(vocab_size: int, first: Iterable[str], alphabet: Iterable[str], prefix: str = "") -> trainers.BpeTrainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,  # a pair seen once makes a piece that nothing could teach
        special_tokens=list(first),
        initial_alphabet=list(alphabet),
        show_progress=False,
        **({"continuing_subword_prefix": prefix} if prefix else {}),  # pyright: ignore
    )


def merged(texts: Iterable[str], inner: tokenizers.Tokenizer, trainer: trainers.BpeTrainer) -> dict[str, Any]:
    """The vocabulary and merges of texts that are normalised already, in which GONE is no part of a word."""
    learner = tokenizers.Tokenizer(models.BPE())
    assert inner.pre_tokenizer is not None
    steps = [pre_tokenizers.Split(GONE, "removed"), inner.pre_tokenizer]
    learner.pre_tokenizer = pre_tokenizers.Sequence(steps)  # pyright: ignore
    learner.train_from_iterator(texts, trainer)
    return json.loads(learner.to_str())["model"]


def covered(lines: Iterable[str], inner: tokenizers.Tokenizer, most: int) -> tuple[list[str], list[str]]:
    """The texts, normalised and with GONE for rare characters, and the others (`most` of them), frequent ones first."""
    texts = list(normalised(lines, inner))
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    ranked, seen, enough = [], 0, COVERED * counts.total()
    for character in sorted(counts, key=lambda character: (-counts[character], character)):
        if seen >= enough or len(ranked) >= most:
            break
        ranked.append(character)
        seen += counts[character]
    rare = str.maketrans(dict.fromkeys(counts.keys() - set(ranked), GONE))
    return [text.translate(rare) for text in texts] if rare else texts, ranked


def slices(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if len(text) <= LONGEST_LINE:
            yield text
        else:
            yield from (text[start : start + SLICE] for start in range(0, len(text), SLICE))
