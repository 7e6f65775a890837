"""The phrasebook: a synchronous grammar that writes English, German and Japanese sentences together.

A sentence is drawn once, as a tree that belongs to no language (draw.py, scenes.py), and each language then spells that
tree (english.py, german.py, japanese.py). Words, endings, orders and patterns are the TSV tables beside this file. The
grammar says only what all three languages say, so that one sentence has exactly one translation in every direction, and
a translation is right or wrong: Japanese tells `the dog` from `a dog` by its particle, German `sie` is never `them`.

`split` is a test of composition: some pairs (word, syntactic slot) are held back from training although each word and
each slot is there, and every test sentence needs one of them (in the manner of Keysers et al. 2020, "Measuring
Compositional Generalization"). The twin is tests/test_phrasebook.py: sentences written by hand.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path

from headway.data.phrasebook import english, german, japanese, joined, scenes
from headway.data.phrasebook.events import Author
from headway.data.phrasebook.grammar import Clause, Row, slots, table

__all__ = ["LANGUAGES", "Pair", "Triple", "generate", "lexicon", "split", "triples", "word_for_word", "write"]

LANGUAGES = ("en", "de", "ja")
Slots = frozenset[tuple[str, str]]
Languages = tuple[str, str]
SCENES = {**vars(scenes), **vars(joined)}
SPELLING = {"en": english, "de": german, "ja": japanese}
DEFAULT: Languages = ("en", "de")
HELD_OUT_PER_SLOT, LIKE = 5, 4  # words; others like a word in its slot
LEXICAL = {"place", "goal", "source"}
LENGTHS = range(3, 16)  # English words
TABLES = ("pronouns", "determiners", "prepositions", "adverbs", "measures", "nouns", "adjectives")
TABLES += ("auxiliaries", "moods", "verbs", "particles", "predicates")


@dataclass(frozen=True)
class Triple:
    """One sentence in three languages, the words of the Japanese one, and the pairs (English word, slot) in it."""

    en: str
    de: str
    ja: str
    words: tuple[str, ...]
    slots: Slots

    def text(self, language: str) -> str:
        return {"en": self.en, "de": self.de, "ja": self.ja}[language]

    def forms(self) -> set[tuple[str, str]]:
        """(language, inflected word) of all three."""
        spaced = {(name, word) for name in ("en", "de") for word in re.findall(r"[\w']+", self.text(name).lower())}
        return spaced | {("ja", word) for word in self.words}


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, of a triple."""

    triple: Triple
    languages: Languages

    @property
    def source(self) -> str:
        return self.triple.text(self.languages[0])

    @property
    def target(self) -> str:
        return self.triple.text(self.languages[1])

    @property
    def slots(self) -> Slots:
        return self.triple.slots


def check(languages: Languages) -> Languages:
    if len(set(languages)) != 2 or len(languages) != 2 or not set(languages) <= set(LANGUAGES):
        raise ValueError(f"languages = {'-'.join(languages)!r}: the phrasebook has two of {', '.join(LANGUAGES)}")
    return languages


def spell(pattern: Row, clauses: Sequence[Clause]) -> Triple:
    """The sentence of a row of patterns.tsv in all languages."""
    words = japanese.words(pattern, clauses)
    return Triple(
        english.sentence(pattern, clauses),
        german.sentence(pattern, clauses),
        words.replace(" ", ""),
        tuple(words.split()),
        frozenset(slots(clauses)),
    )


def draw(rng: random.Random) -> Triple | None:
    """One sentence, or None where the draw ran out of words or came out too long."""
    patterns = table("patterns")
    pattern = rng.choices(patterns, [int(row["weight"]) for row in patterns])[0]
    try:
        triple = spell(pattern, SCENES[pattern["name"]](Author(rng)))
    except IndexError:  # no unused word left for a place
        return None
    return triple if len(triple.en.split()) in LENGTHS else None


# --- what others call


def stream(seed: int) -> Iterator[Triple]:
    """Distinct triples, without end."""
    rng, seen = random.Random(seed), set[str]()
    while True:
        triple = draw(rng)
        if triple and triple.en not in seen:
            seen.add(triple.en)
            yield triple


def triples(num: int, seed: int) -> list[Triple]:
    """`num` distinct sentences in three languages: a pure function of its arguments."""
    return list(islice(stream(seed), num))


def generate(num: int, seed: int, languages: Languages = DEFAULT) -> list[Pair]:
    """`num` pairs with distinct sources: a pure function of its arguments."""
    return [Pair(triple, check(languages)) for triple in triples(num, seed)]


def needed(sentences: Sequence[Triple], pairs: Iterable[tuple[str, str]]) -> Slots:
    """Pairs that training keeps, as a common word is hardly met without them: barking without (dog, subject)."""
    words = [{word for word, _ in triple.slots} for triple in sentences]
    total, together = Counter(chain.from_iterable(words)), {pair: Counter[str]() for pair in pairs}
    for triple, met in zip(sentences, words, strict=True):
        for pair in triple.slots & together.keys():
            together[pair].update(met - {pair[0]})
    return frozenset(
        pair for pair, met in together.items() if any(n > 0.9 * total[word] >= 4 for word, n in met.items())
    )


@cache
def likeness() -> dict[str, str]:
    """Words whose forms follow from those of like words: nouns by German gender, verbs by what they ask for."""
    nouns = {row["en"]: f"noun {row['de_gender']}" for row in table("nouns")}
    verbs = {row["en"]: f"verb {row['frame']}" for row in table("verbs")}
    return {word: kind for word, kind in {**verbs, **nouns}.items() if " " not in word}


def hold_out(sentences: Sequence[Triple], rng: random.Random) -> Slots:
    """Up to HELD_OUT_PER_SLOT words for each slot, no word twice: each is common in another slot as well, and the slot
    with other words like it. No places, whose prepositions are a matter of the word."""
    counts = Counter(slot for triple in sentences for slot in triple.slots)
    usual = sorted(pair for pair, count in counts.items() if count >= 8 and pair[0] in likeness())
    slots_of = Counter(word for word, _ in usual)
    kept, held = needed(sentences, usual), dict[str, str]()
    for slot in sorted({slot for _, slot in usual} - LEXICAL):
        words = [word for word, where in usual if where == slot]
        like = Counter(likeness()[word] for word in words)
        free = [word for word in words if word not in held and slots_of[word] > 1 and (word, slot) not in kept]
        free = [word for word in free if like[likeness()[word]] > LIKE]
        held |= dict.fromkeys(rng.sample(free, min(HELD_OUT_PER_SLOT, len(free))), slot)
    return frozenset(held.items())


def split(
    train: int = 40000, valid: int = 500, test: int = 500, seed: int = 1, languages: Languages = DEFAULT
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """(train, valid, test), all sources distinct: a compositional split, of the same sentences in every direction.

    Some pairs (word, slot) never occur in train or valid, and every test sentence has at least one of them. The word
    occurs in train in other slots, the slot with other words, and so does every inflected word of test, in each of the
    three languages.

    Raises ValueError where `train` is too small to show every word.
    """
    drawn = stream(seed)
    first = list(islice(drawn, 6000))
    held = hold_out(first, random.Random(seed))
    known: list[Triple] = []
    novel: list[Triple] = []
    for triple in chain(first, drawn):
        if len(known) >= train + valid and len(novel) >= 2 * test:
            break
        (known if held.isdisjoint(triple.slots) else novel).append(triple)
    seen = set[tuple[str, str]]().union(*(triple.forms() for triple in known[:train]))
    novel = [triple for triple in novel if triple.forms() <= seen]
    if len(novel) < test:
        raise ValueError(f"train = {train} sentences do not show every word of the test; take 5000 or more")
    parts = known[:train], known[train : train + valid], novel[:test]
    one, two, three = ([Pair(triple, check(languages)) for triple in part] for part in parts)
    return one, two, three


def lexicon(languages: Languages = DEFAULT) -> dict[str, str]:
    """Each source word, in every form, with its most usual target word in the form that a dictionary lists."""
    source, target = (SPELLING[language] for language in check(languages))
    words: dict[str, str] = {}
    for long in (False, True):  # an entry of several words tells only what no entry of one word tells
        for name in TABLES:
            for row in table(name):
                lemma = " ".join(target.forms(name, row)[:1])
                for form in source.forms(name, row):
                    parts = form.split()
                    if (len(parts) > 1) == long:
                        for position, part in enumerate(parts):
                            words.setdefault(part, "" if position else lemma)
    return words


def word_for_word(sources: Iterable[str], words: Mapping[str, str], languages: Languages = DEFAULT) -> list[str]:
    """The baseline: every word looked up on its own, kept where the dictionary `words` lacks it.

    Japanese, which is written without spaces, is cut into the longest words that the dictionary has.
    """
    source, target = check(languages)
    longest = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    word = re.compile(longest if source == "ja" else r"[\w']+")
    gap = " " if source == "ja" else ""

    def line(text: str) -> str:
        found = word.sub(lambda m: gap + words.get(m[0], words.get(m[0].lower(), m[0])), text)
        if target == "ja":
            return re.sub(r"\s", "", found).translate(str.maketrans(".,!?", "。、！。"))
        found = re.sub(r" +([,.?!])", r"\1", " ".join(found.translate(str.maketrans("。、！", ".,!")).split()))
        return found[:1].upper() + found[1:]

    return [line(text) for text in sources]


def write(
    folder: str | Path,
    *,
    train: int = 40000,
    valid: int = 500,
    test: int = 500,
    seed: int = 1,
    languages: Languages = DEFAULT,
) -> None:
    """The split as train.en, train.de, valid.en, ... in a folder, which is made if it is missing."""
    parts = split(train, valid, test, seed, languages)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in zip(("train", "valid", "test"), parts, strict=True):
        for language, lines in zip(languages, zip(*((p.source, p.target) for p in pairs), strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8", newline="")
