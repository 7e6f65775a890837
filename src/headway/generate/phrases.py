"""Phrases that must or must not be said: constraints on the text that tokens spell.

What is matched is that text and never one way to cut it into pieces: `Dampf` + `schiff` is `Dampfschiff`, and `rot` is
not in `Brot`. Words are runs of letters, digits, marks and `_`; scripts without spaces between words end one anywhere.

The slow twins are predicates over whole outputs in tests/contract/test_constraint.py.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, Protocol
from unicodedata import category

import numpy as np
import torch
from torch import Tensor

from headway.generate.constrain import All, Constraint
from headway.text.segment import CODE, UNSPACED_LETTERS

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")

WITHIN = "_\u00ad\u200c\u200d"
"""Beside letters, digits and marks, what stands inside words: soft hyphen, zero-width joiner and non-joiner."""


@lru_cache(maxsize=1 << 16)
def joins(char: str) -> bool:
    """Is such a character one word with another such character beside it?"""
    return (char.isalnum() or category(char)[0] == "M" or char in WITHIN) and not UNSPACED.match(char)


def boundary(before: str, after: str) -> bool:
    """May a word end and another begin between these characters? "" is the edge of the text."""
    return not (before and after and joins(before) and joins(after))


@lru_cache(maxsize=1 << 16)
def exact(char: str) -> str:
    """A character as it is compared: any white space is a space."""
    return " " if char.isspace() else char


@lru_cache(maxsize=1 << 16)
def folded(char: str) -> str:
    """The same without case. One character stays one: `ß` is not `ss`."""
    return next((new for new in (char.casefold(), char.lower()) if len(new) == 1), char) if exact(char) != " " else " "


def same(text: str, case: bool) -> str:
    """What is equal for texts that are the same, with or without regard to case. As long as the text."""
    return "".join(map(exact if case else folded, text))


# ---- texts over tokens ----


class Pieces(Protocol):
    """What is needed of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def piece_bytes(self, number: int) -> bytes:
        """What a token adds to the text; b"" for control tokens."""
        ...


class Vocabulary:
    """What every token spells, made once for a tokenizer: constraints on texts share it."""

    def __init__(self, tokenizer: Pieces) -> None:
        raw = [tokenizer.piece_bytes(number) for number in range(tokenizer.vocab_size)]
        self.encode: Callable[[str], list[int]] = tokenizer.encode
        self.raw = [spelled or CODE.encode() for spelled in raw]
        self.ids = {spelled: number for number, spelled in reversed([*enumerate(raw)]) if spelled}
        self.longest = max(map(len, raw))
        whole: dict[int, str] = {}
        for number, spelled in enumerate(self.raw):
            try:
                whole[number] = spelled.decode()
            except UnicodeDecodeError:
                continue
        self.split = [number for number in range(len(raw)) if number not in whole]  # begin or end amid a character
        self.letters = sorted(set("".join(whole.values())))
        places = {letter: place for place, letter in enumerate(self.letters, 1)}
        self.spelled = np.zeros((len(raw), max(map(len, whole.values()), default=0)), dtype=np.int32)
        """(V, longest) places of the letters of each whole token, from 1; 0 where there is none."""
        for number, text in whole.items():
            self.spelled[number, : len(text)] = [places[letter] for letter in text]

    def longest_start(self, raw: bytes) -> list[int]:
        """The token that spells most of the start of these bytes, if there is one."""
        sizes = range(min(len(raw), self.longest), 0, -1)
        return next(([self.ids[raw[:size]]] for size in sizes if raw[:size] in self.ids), [])


class Phrase(NamedTuple):
    """Texts any of which will do, or none of which will. case: does it matter?"""

    forms: tuple[str, ...]
    case: bool = False


class Text(NamedTuple):
    """Where an automaton is: its number of a state, and the bytes of a character that is not whole yet."""

    at: int
    pending: bytes


class Partial(NamedTuple):
    """A state of `Words`: (form, how many of its characters are read), and does the last one join (None: no text)?"""

    read: frozenset[tuple[int, int]]
    last: bool | None


class Words:
    """An automaton over characters that finds forms where they stand as whole words, as `occurrences` does.

    A form that ends with a letter is found when the character behind it is read, since that may belong to its word;
    `complete` tells which ones would be found if the text ended. States are numbers, 0 is the start.
    """

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self.texts = [" ".join(text.split()) for phrase in phrases for text in phrase.forms]
        self.case = [phrase.case for phrase in phrases for _ in phrase.forms]
        self.forms = [same(text, case) for text, case in zip(self.texts, self.case, strict=True)]
        for text in self.texts:
            if not text or "\ufffd" in text:
                raise ValueError(f"{text!r} can be no word: give a text, without U+FFFD")
        self._exact = {char for form, case in zip(self.forms, self.case, strict=True) if case for char in form}
        self._folded = {char for form, case in zip(self.forms, self.case, strict=True) if not case for char in form}
        self.states = [Partial(frozenset(), None)]
        self._numbers = {self.states[0]: 0}
        self._columns: dict[tuple[str, str, bool], int] = {}
        self._moves: dict[tuple[int, str, str, bool], tuple[int, frozenset[int]]] = {}

    def symbol(self, char: str) -> tuple[str, str, bool]:
        """All that the automaton sees of a character: one of few, whatever the text."""
        full, low = exact(char), folded(char)
        return full if full in self._exact else "", low if low in self._folded else "", joins(char)

    def step(self, at: int, symbol: tuple[str, str, bool]) -> tuple[int, frozenset[int]]:
        """The next state, and the forms that are found: ended before this character, or with it."""
        key = at, *symbol
        if key not in self._moves:
            self._moves[key] = self._step(self.states[at], *symbol)
        return self._moves[key]

    def _step(self, state: Partial, full: str, low: str, letter: bool) -> tuple[int, frozenset[int]]:
        edge = not (state.last and letter)
        begun = {*state.read, *((form, 0) for form in range(len(self.forms)) if edge)}
        read = {
            (form, size + 1)
            for form, size in begun
            if self.forms[form][size : size + 1] == (full if self.case[form] else low) != ""
        }
        ended = {(form, size) for form, size in read if size == len(self.forms[form]) and not letter}
        found = frozenset(form for form, _ in ended) | (self._complete(state) if edge else frozenset())
        new = Partial(frozenset(read - ended), letter)
        if new not in self._numbers:
            self._numbers[new] = len(self.states)
            self.states.append(new)
        return self._numbers[new], found

    def complete(self, at: int) -> frozenset[int]:
        return self._complete(self.states[at])

    def _complete(self, state: Partial) -> frozenset[int]:
        return frozenset(form for form, size in state.read if size == len(self.forms[form]))

    def read(self, text: Text, raw: bytes) -> tuple[Text, frozenset[int]]:
        """The state after these bytes, and the forms found on the way. Invalid UTF-8 is read as U+FFFD."""
        chars, used = utf_8_decode(text.pending + raw, "replace", False)
        at, found = text.at, frozenset()
        for char in chars:
            at, more = self.step(at, self.symbol(char))
            found |= more
        return Text(at, (text.pending + raw)[used:]), found

    def columns(self, letters: Sequence[str]) -> np.ndarray:
        """(1 + letters) the column of `table` for each letter; 0 first, for none at all."""
        symbols = map(self.symbol, letters)
        return np.array([0, *(self._columns.setdefault(symbol, len(self._columns) + 1) for symbol in symbols)])

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """(states, columns): the next state, and whether a form is found. For all that `columns` was asked for."""
        moves: list[list[int]] = []
        hits: list[list[bool]] = []
        while len(moves) < len(self.states):  # a step may add states
            stepped = [self.step(len(moves), symbol) for symbol in self._columns]
            moves.append([len(moves), *(at for at, _ in stepped)])
            hits.append([False, *(bool(found) for _, found in stepped)])
        return np.array(moves), np.array(hits)


class MustNotAppear(Constraint):
    """No form of these phrases appears as whole words."""

    def __init__(self, phrases: Sequence[Phrase], vocabulary: Vocabulary) -> None:
        self.vocabulary, self.words = vocabulary, Words(phrases)
        self._spelled = self.words.columns(vocabulary.letters)[vocabulary.spelled]  # (V, longest)
        self._moves, self._hits = self.words.table()
        self._masks: dict[Text, Tensor | None] = {}

    def start(self) -> Text:
        return Text(0, b"")

    def step(self, state: Text, token: int) -> Text | None:
        after, found = self.words.read(state, self.vocabulary.raw[token])
        return None if found else after

    def forbidden(self, state: Text) -> Tensor | None:
        if state not in self._masks:
            mask = torch.from_numpy(self._forbidden(state))
            self._masks[state] = mask if mask.any() else None
        return self._masks[state]

    def _forbidden(self, state: Text) -> np.ndarray:
        """Whole tokens all at once, letter by letter; those that begin or end amid a character one by one."""
        at, found = state.at, frozenset()
        if state.pending:  # a whole token leaves that character broken
            (at, _), found = self.words.read(Text(at, b""), "\ufffd".encode())
        if at >= len(self._moves):
            self._moves, self._hits = self.words.table()
        states = np.full(len(self.vocabulary.raw), at)
        mask = np.full(len(states), bool(found))
        for letters in self._spelled.T:
            mask |= self._hits[states, letters]
            states = self._moves[states, letters]
        mask[self.vocabulary.split] = [self.step(state, token) is None for token in self.vocabulary.split]
        return mask

    def unmet(self, state: Text) -> tuple[str, ...]:
        return tuple(f"{self.words.texts[form]!r} must not appear" for form in sorted(self.words.complete(state.at)))


class Said(NamedTuple):
    """A state of `MustAppear`: where the text is, and the phrases that have appeared."""

    text: Text
    met: frozenset[int]


class MustAppear(Constraint):
    """Each phrase appears as whole words, in any order and in any of its forms.

    The tokens that it wants are those of the tokenizer's own spelling, with a space before it where a word has just
    ended; where the output went another way, the longest that spell what is left. To combine two of these, give one
    all phrases: each alone would undo what the other has begun.
    """

    def __init__(self, phrases: Sequence[Phrase], vocabulary: Vocabulary) -> None:
        self.phrases, self.vocabulary = tuple(phrases), vocabulary
        self.owner = [owner for owner, phrase in enumerate(phrases) for _ in phrase.forms]
        if missing := sorted(set(range(len(phrases))) - set(self.owner)):
            raise ValueError(f"phrase {missing[0]} has no form: give a text or more")
        self.words = Words(phrases)
        self.forms = self.words.texts
        self.sizes = [
            max(len(form) for form, its in zip(self.forms, self.owner, strict=True) if its == owner)
            for owner in range(len(phrases))
        ]
        self._alone = [vocabulary.encode(form) for form in self.forms]
        self._spaced = [vocabulary.encode(f" {form}") for form in self.forms]
        self._inside: dict[tuple[int, int], int] = {}  # (form, bytes that are left of it) -> the tokenizer's next token
        for form, tokens in chain(enumerate(self._alone), enumerate(self._spaced)):
            left = 0
            for token in reversed(tokens):
                left += len(vocabulary.raw[token])
                self._inside[form, left] = token

    def start(self) -> Said:
        return Said(Text(0, b""), frozenset())

    def step(self, state: Said, token: int) -> Said:
        text, found = self.words.read(state.text, self.vocabulary.raw[token])
        return Said(text, state.met | {self.owner[form] for form in found})

    def forbidden(self, state: Said) -> None:
        return None

    def unmet(self, state: Said) -> tuple[str, ...]:
        met = self._met(state)
        return tuple(
            f"{' or '.join(map(repr, phrase.forms))} is missing"
            for number, phrase in enumerate(self.phrases)
            if number not in met
        )

    def _met(self, state: Said) -> frozenset[int]:
        """With those that are met if the text ends here."""
        return state.met | {self.owner[form] for form in self.words.complete(state.text.at)}

    def _open(self, state: Said) -> Iterator[tuple[int, int, bytes, int]]:
        """(form, characters read, bytes left, progress) of what the next token may go on with: forms begun before or
        to begin here, of phrases that are not met."""
        at, met = self.words.states[state.text.at], self._met(state)
        for form, size in chain(at.read, ((form, 0) for form in range(len(self.forms)))):
            if self.owner[form] in met:
                continue
            edge, left = not (at.last and joins(self.forms[form][size])), self.forms[form][size:].encode()
            if (size or edge) and left.startswith(state.text.pending):
                value = 8 * (self.sizes[self.owner[form]] - len(self.forms[form]) + size) if size else 1
                # What was complete is so no more if its word goes on.
                kept = self._size(met if edge else state.met)
                pending = len(state.text.pending)
                yield form, size, left[pending:], kept + value + 2 * pending

    def _size(self, owners: Iterable[int]) -> int:
        return 8 * sum(self.sizes[owner] for owner in owners)

    def progress(self, state: Said) -> int:
        """8 for each character of what has appeared; where a form may begin 1, and 2 for each byte of a split one.

        So a phrase that is begun is never given up for one that is not, and each wanted token counts.
        """
        return max(self._size(self._met(state)), *(value for *_, value in self._open(state)), 0)

    def wanted(self, state: Said) -> Sequence[int]:
        found: list[int] = []
        for form, size, left, _ in self._open(state):
            if not size and not state.text.pending:
                found += self._alone[form][:1]
            elif (form, len(left)) in self._inside:
                found.append(self._inside[form, len(left)])
            else:
                found += self.vocabulary.longest_start(left)
        if state.text != self.start().text and not (found and state.text.pending):
            met = self._met(state)
            found += [ids[0] for form, ids in enumerate(self._spaced) if ids and self.owner[form] not in met]
        return list(dict.fromkeys(found))


def demanding(
    use: Sequence[Phrase], avoid: Sequence[Phrase], vocabulary: Callable[[], Vocabulary], *others: Constraint
) -> Constraint | None:
    """All of it at once: phrases that must appear, phrases that must not, and further constraints. None for nothing.

    vocabulary: called where there are phrases only, as making one takes a moment.
    """
    parts = list(others)
    if use:
        parts.append(MustAppear(use, vocabulary()))
    if avoid:
        parts.append(MustNotAppear(avoid, vocabulary()))
    return All(parts) if len(parts) > 1 else parts[0] if parts else None
