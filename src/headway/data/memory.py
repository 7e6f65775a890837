"""Translation memory: what was translated once is found again, exactly or nearly.

Equal texts come first, with scores of their own (SCORES). The similarity of others is that of translators' tools, by
words: 100 (1 - d / n), d the Levenshtein distance of the two texts in words, n the greater number of words, rounded
down. A word is a run of letters, a run of digits, one character of a script without spaces, a punctuation mark, or a
code, whichever code it be; capitals do not count.

The fuzzy search is exact. Of a text of n words, a unit of at least s percent has s n / 100 words or more in common, so
it holds one at least of any n - s n / 100 + 1 of them: only units that hold one of the rarest so many are compared. The
twin in tests/test_memory.py compares all of them, by dynamic programming.
"""

import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from headway.data.pair import Pair
from headway.data.readers import mapped, why_not
from headway.formats.kinds import document_class
from headway.text.codes import (
    Code,
    Part,
    Parts,
    Side,
    codes,
    differences,
    find_parts,
    guess_marker,
    identity,
    joined,
    plain,
    without_accelerator,
)
from headway.text.segment import CODE, UNSPACED_LETTERS

SCORES = {
    "context": 101,  # the same parts, in the context that was asked for
    "same": 100,  # the same parts
    "form": 99,  # the same parts, but of the translations that there are none is of the plural form asked for
    "codes": 99,  # the same text with other codes, which are put into the translation
    "numbers": 98,  # the same but for numbers, which are put into the translation
    "similar": 97,  # any other, at most
}
MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u0dff\u200c\u200d"
WORD = re.compile(rf"[{UNSPACED_LETTERS}]|\d+|(?:(?![{UNSPACED_LETTERS}])[^\W\d_]|[{MARKS}])+|\S")
NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
DIGITS = re.compile(r"\d+")
LABELS = 1000
"""Texts of a file by which its accelerators are known."""


class Unit(NamedTuple):
    """A text and its translation; context: what tells equal texts apart; place: where they were read."""

    source: Parts
    target: Parts
    context: str = ""
    place: str = ""


@dataclass(frozen=True)
class Match:
    """A translation from the memory. score: see SCORES; source: as the memory has it; place: where it was read last;
    exact: the same parts as asked for; adapted: codes or numbers of what was asked for stand in the target for its own.
    """

    score: int
    source: Parts
    target: Parts
    place: str
    exact: bool = False
    adapted: bool = False

    @property
    def usable(self) -> bool:
        """Is this a translation of the text itself, and not of one like it?"""
        return self.exact or self.adapted


@dataclass
class Target:
    """One translation of a source: how often, and where and as which unit it was read last."""

    parts: Parts
    context: str
    count: int = 0
    last: int = 0
    place: str = ""


class Memory:
    """Units to look up. Equal ones are one, with their count.

    A unit of 17 words a side takes about 1.6 KB. Codes in the texts of units and of what is looked up are found alike
    (`headway.text.codes.PROSE`). skipped: how many segments of the files are no units, by reason.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        self.skipped: Counter[str] = Counter()
        self._sources: dict[Parts, int] = {}
        self._targets: list[dict[tuple[Parts, str], Target]] = []
        self._masked: dict[str, list[int]] = {}  # by their text without codes and numbers
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []  # the words of each source, one character a word
        words, distinct = array("I"), array("I")
        for number, unit in enumerate(units):
            source, target = find_parts(unit.source), find_parts(unit.target)
            at = self._sources.setdefault(source, len(self._targets))
            if at == len(self._targets):
                self._targets.append({})
                self._masked.setdefault(masked(source), []).append(at)
                ids = [self._ids.setdefault(word, len(self._ids)) for word in split(source)]
                if len(self._ids) > sys.maxunicode:
                    raise ValueError(f"memory: more than {sys.maxunicode:,} different words; name fewer files at once")
                self._texts.append("".join(map(chr, ids)))
                words.extend(sorted(set(ids)))
                distinct.append(len(set(ids)))
            kept = self._targets[at].setdefault((target, unit.context), Target(target, unit.context))
            kept.count, kept.last, kept.place = kept.count + 1, number, unit.place
        self._parts = list(self._sources)
        self._lengths = np.array([len(text) for text in self._texts], np.int64)
        # The sources with word w are _holders[_first[w] : _first[w + 1]].
        order = np.argsort(np.array(words, np.uint32), kind="stable")
        self._holders = np.repeat(np.arange(len(self._texts), dtype=np.uint32), np.array(distinct, np.int64))[order]
        self._first = np.searchsorted(np.array(words, np.uint32)[order], np.arange(len(self._ids) + 1))

    def __len__(self) -> int:
        """How many different units there are."""
        return sum(map(len, self._targets))

    @classmethod
    def load(cls, paths: str | Path | Sequence[str | Path], source: str | None, target: str | None) -> Self:
        """The finished translations of bilingual documents (TMX, XLIFF, PO), later files counted as newer.

        source, target: languages, for files that do not say theirs. Raises ValueError for files of other kinds, all
        named at once, and for damaged ones.
        """
        files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        if folders := [str(path) for path in files if path.is_dir()]:
            raise ValueError(f"memory {', '.join(folders)}: is a folder; name the files in it")
        kinds = [document_class(path.name.removesuffix(".gz")) for path in files]
        if wrong := [str(path) for path, kind in zip(files, kinds, strict=True) if kind is None or not kind.bilingual]:
            raise ValueError(
                f"memory {', '.join(wrong)}: holds no pairs of texts that a memory could read; name .tmx, .xlf, .xliff "
                "or .po files, or read other kinds as a corpus"
            )
        skipped: Counter[str] = Counter()
        made = cls(unit for path in files for unit in units_of(path, source, target, skipped))
        made.skipped = skipped
        return made

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Self:
        """The pairs of a corpus (`headway.data.readers`), later ones counted as newer."""
        return cls(Unit(pair.source, pair.target, "", pair.place or f"line {pair.number}") for pair in pairs)

    def lookup(self, source: Parts, context: str = "", *, min_score: int = 75) -> list[Match]:
        """All translations whose source is this one, or `min_score` percent like it (1 to 100), best first; of one
        score the more frequent first, then the one read last. context: that of what is looked up."""
        if not 1 <= min_score <= 100:
            raise ValueError(f"min_score {min_score}: must be from 1 to 100")
        wanted = find_parts(source)
        equal = self._masked.get(masked(wanted), [])
        scores = dict.fromkeys(equal, 0) | dict(self._similar(split(wanted), min_score))
        found = [
            (self._match(wanted, context, self._parts[at], target, at in equal, score), target)
            for at, score in scores.items()
            for target in self._targets[at].values()
        ]
        found = [(match, target) for match, target in found if match.score >= min_score]
        found.sort(key=lambda pair: (pair[0].score, pair[1].count, pair[1].last), reverse=True)
        return [match for match, _ in found]

    def similar(self, source: Parts, min_score: int) -> Parts | None:
        """The translation of the source that is most like this one, and at least so much, but not the same: what a
        model learns to mend. None where there is none."""
        found = self.lookup(source, min_score=min_score)
        return next((match.target for match in found if not match.exact), None)

    def _match(self, wanted: Parts, context: str, source: Parts, target: Target, equal: bool, similar: int) -> Match:
        """What one translation is worth; equal: the sources are, but for codes and numbers; similar: their score."""
        if source == wanted:
            if plural_form(context) not in ("", plural_form(target.context)) and not self._agreed(source):
                return Match(SCORES["form"], source, target.parts, target.place, adapted=True)
            score = SCORES["context" if context and context == target.context else "same"]
            return Match(score, source, target.parts, target.place, exact=True)
        if equal and (made := adapted(source, target.parts, wanted)):
            score = SCORES["codes" if plain(source, CODE) == plain(wanted, CODE) else "numbers"]
            return Match(score, source, made, target.place, adapted=True)
        return Match(min(similar, SCORES["similar"]), source, target.parts, target.place)

    def _agreed(self, source: Parts) -> bool:
        """Is there one translation of a source, and no other?"""
        return len({target.parts for target in self._targets[self._sources[source]].values()}) == 1

    def _similar(self, words: Sequence[str], min_score: int) -> Iterator[tuple[int, int]]:
        """The sources that are `min_score` percent like these words, by number, each with its score up to 100."""
        ids = [self._ids.get(word, sys.maxunicode) for word in words]
        holders = {id: self._holders[slice(*self._first[id : id + 2])] if id < len(self._ids) else NONE for id in ids}
        least, most = -(-len(ids) * min_score // 100), len(ids) * 100 // min_score
        some = set(sorted(ids, key=lambda id: len(holders[id]))[: len(ids) - least + 1])
        rare = np.unique(np.concatenate([NONE, *(holders[id] for id in some)]))
        rare = rare[(least <= self._lengths[rare]) & (self._lengths[rare] <= most)]
        if not len(rare):
            return
        distances = cdist(
            ["".join(map(chr, ids))],
            [self._texts[at] for at in rare.tolist()],
            scorer=Levenshtein.distance,
            score_cutoff=most * (100 - min_score) // 100,
            dtype=np.int32,
        )[0]
        longest = np.maximum(self._lengths[rare], len(ids))
        scores = 100 * (longest - distances) // longest
        yield from zip(rare[scores >= min_score].tolist(), scores[scores >= min_score].tolist(), strict=True)


NONE = np.zeros(0, np.uint32)


def units_of(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Unit]:
    """The units of a document; segments that are none are counted in `skipped` by reason. A label with an accelerator
    is one more unit without, for a model reads it so, and others write it so."""
    made = document_class(path.name.removesuffix(".gz"))
    assert made is not None
    with mapped(path) as data:
        document = made(data, str(path), source, target)
        segments = document.segments()
        first = list(islice(segments, LABELS))
        marker = document.marker or guess_marker(plain(segment.source) for segment in first)
        for segment in chain(first, segments):
            if (reason := why_not(segment)) or segment.target is None:
                skipped[reason or "no translation"] += 1
            else:
                unit = Unit(segment.source, segment.target, segment.context, f"{path}: {segment.place}")
                yield unit
                bare, _ = without_accelerator(unit.source, marker)
                if bare != unit.source:
                    yield unit._replace(source=bare, target=without_accelerator(unit.target, marker)[0])
        known = document.skipped
        skipped.update({reason: count for reason, count in known.counts.items() if reason not in known.notes})


def plural_form(context: str) -> str:
    """Which of several forms of a catalog this is; "" where it is none."""
    last = context.rpartition(" ")[2]
    return last if last.startswith("msgstr[") else ""


def split(parts: Parts) -> list[str]:
    """The words that similarity is measured in."""
    return WORD.findall(unicodedata.normalize("NFC", plain(parts, CODE)).casefold())


def masked(parts: Parts) -> str:
    """The text with every code and every number the same."""
    return NUMBER.sub("0", plain(parts, CODE))


def adapted(source: Parts, target: Parts, wanted: Parts) -> Parts | None:
    """A translation of `source` made one of `wanted`, which differs from it in codes and numbers only; or None.

    Codes are changed where those of the two sources correspond one to one, numbers where `renumbered` can, and nothing
    may then be wrong with the codes (`differences`).
    """
    if list(map(type, source)) != list(map(type, wanted)):
        return None
    swap: dict[tuple[str, Side], Code] = {}
    for old, new in zip(codes(source), codes(wanted), strict=True):
        if old.side != new.side or swap.setdefault(identity(old), new) != new:
            return None
    changed = renumbered(source, target, wanted)
    if changed is None or len(set(swap.values())) != len(swap):
        return None
    made = joined(respelt(part, swap, changed) for part in target)
    strange = {code for code in codes(made) if code.markup} - {*codes(wanted)}  # markup of the memory's own file
    return None if strange or differences(wanted, made) else made


def respelt(part: Part, swap: dict[tuple[str, Side], Code], changed: dict[str, str]) -> Part:
    if isinstance(part, Code):
        return swap.get(identity(part), part)
    return NUMBER.sub(lambda number: changed.get(number[0], number[0]), part)


def renumbered(source: Parts, target: Parts, wanted: Parts) -> dict[str, str] | None:
    """Which numbers to change into which; None where one that differs is not once in the source and, spelt alike, once
    in the target, or has other separators than the new one."""
    olds, news, there = (NUMBER.findall(plain(parts, CODE)) for parts in (source, wanted, target))
    changed = {old: new for old, new in zip(olds, news, strict=True) if old != new}
    for old, new in changed.items():
        if olds.count(old) != 1 or there.count(old) != 1 or DIGITS.sub("0", old) != DIGITS.sub("0", new):
            return None
    return changed
