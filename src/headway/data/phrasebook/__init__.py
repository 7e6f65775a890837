"""The phrasebook: a synchronous grammar that writes English sentences together with their German translations.

A sentence is drawn once, as a tree that belongs to no language (grammar.py), and each language then spells that tree.
Words, endings, clause orders and sentence patterns are the TSV tables beside this file; a column that opens with `en`
or `de` belongs to that language. The grammar keeps clear of ambiguity (no `you`, no `it`): one English sentence has
exactly one translation, so that a translation is right or wrong.

`split` is a test of composition: some pairs (word, syntactic slot) are held back from training although each word and
each slot is there, and every test sentence needs one of them (in the manner of Keysers et al. 2020, "Measuring
Compositional Generalization"). The twin is tests/test_phrasebook.py: sentences written by hand.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, spell, table

__all__ = ["Pair", "generate", "lexicon", "split", "word_for_word", "write"]

Slots = frozenset[tuple[str, str]]
HELD_OUT_PER_SLOT = 3
LENGTHS = range(4, 13)  # English words


def fits(row: Row, classes: Iterable[str], column: str = "class") -> bool:
    return not set(row[column].split()).isdisjoint(classes)


@dataclass
class Author:
    """Draws one sentence; remembers the words it has used, to repeat none, and the slots they took."""

    rng: random.Random
    past: bool
    used: set[str] = field(default_factory=set)
    slots: set[tuple[str, str]] = field(default_factory=set)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def fresh(self, rows: Iterable[Row]) -> Row:
        """A row whose word is not used yet."""
        row = self.rng.choice([row for row in rows if row["en"] not in self.used])
        self.used.add(row["en"])
        return row

    def phrase(
        self, classes: str, slot: str, *, subject: Phrase | None = None, barred: str = "", plain: bool = False
    ) -> Phrase:
        """A phrase of one of the classes for a slot; `barred` names senses of determiners that may not stand there."""
        kinds = classes.split()
        if "person" in kinds and self.chance(0.3):
            person = subject.head.get("person") if subject else None
            kind = "name" if self.chance(0.4) else "personal"
            rows = [row for row in table("pronouns") if row["kind"] == kind]
            # Nobody sees themselves: that would take a reflexive pronoun.
            head = self.fresh(row for row in rows if kind == "name" or row["person"] != person)
            if kind == "name":
                self.slots.add((head["en"], slot))
            return Phrase(head)
        noun = self.fresh(row for row in table("nouns") if fits(row, kinds))
        where = slot in ("place", "goal", "source")
        plural = bool(noun["en_plural"]) and not where and not fits(noun, ["single"]) and self.chance(0.35)
        barred += " indefinite bare" if fits(noun, ["kin"]) or where else ""  # `a sister` is always somebody's
        number = "plural" if plural else "singular" if noun["en_plural"] else "mass"
        rows = [
            row
            for row in table("determiners")
            if fits(row, [number], "fits")
            and row["sense"] not in barred.split()
            and row["en"].removesuffix("'s") not in self.used
            and not (row["sense"] == "possessive" and fits(noun, ["common"]))  # `my town` is nobody's
        ]
        determiner = self.rng.choices(rows, [int(row["weight"]) for row in rows])[0]
        if determiner["en"].endswith("'s"):
            self.used.add(determiner["en"].removesuffix("'s"))
        self.slots.add((noun["en"], slot))
        adjective = possessor = None
        if not plain and self.chance(0.35):
            adjectives = [row for row in table("adjectives") if fits(row, noun["class"].split())]
            if adjectives:
                adjective = self.fresh(adjectives)
                self.slots.add((adjective["en"], slot))
        if not plain and not where and determiner["en"] == "the" and self.chance(0.15) and not fits(noun, ["common"]):
            owner = self.fresh(row for row in table("nouns") if fits(row, ["person"]))
            self.slots.add((owner["en"], "possessor"))
            possessor = Phrase(owner, determiner=determiner)
        return Phrase(noun, plural, determiner, adjective, possessor)

    def adjunct(self, names: str, subject: Phrase, plain: bool) -> Phrase:
        preposition = entry("prepositions", self.rng.choice(names.split()))
        phrase = self.phrase(preposition["class"], preposition["slot"], subject=subject, barred="number", plain=plain)
        return replace(phrase, preposition=preposition)

    def tense(self, verb: Row, modal: bool = True) -> str:
        if self.past:
            return "past"
        modals = [row["en"] for row in table("auxiliaries") if row["kind"].endswith("modal")]
        return self.rng.choice(modals) if modal and verb["kind"] == "event" and self.chance(0.3) else "present"

    def parts(self, verb: Row, tense: str, subject: Phrase, spec: str, negated: bool) -> dict[str, Phrase | Row]:
        """The subject and all that the frame of the verb asks for, then what it allows."""
        parts: dict[str, Phrase | Row] = {"subject": subject}
        short, frame = spec in ("short", "that", "relative", "if"), verb["frame"]
        barred = "number" if negated else ""
        if frame == "ditransitive":
            recipient = self.phrase(
                "person", "recipient", subject=subject, barred="number indefinite bare", plain=short
            )
            parts["recipient"] = recipient
            barred += " bare" if recipient.head["en"] == "she" else ""  # `her books` or `books for her`?
            parts["object"] = self.phrase(verb["object"], "object", barred=barred, plain=short)
        elif frame in ("object", "dative"):
            question = {"what": "what", "whom": "who"}.get(spec)
            parts["object"] = (
                Phrase(entry("pronouns", question))
                if question
                else self.phrase(verb["object"], frame, subject=subject, barred=barred, plain=short)
            )
        elif frame == "predicate":
            classes = subject.head.get("class", "person adult").split()
            adjective = self.fresh(row for row in table("adjectives") if fits(row, classes))
            self.slots.add((adjective["en"], "predicate"))
            parts["predicate"] = adjective
        if spec == "where":
            parts["place"] = entry("adverbs", "where")
        elif frame == "place" or (verb["place"] and not short and self.chance(0.6)):
            parts["place"] = self.adjunct(verb["place"], subject, plain=short)
        thing = parts.get("object")
        if (
            verb["extra"]
            and not short
            and (thing is None or (isinstance(thing, Phrase) and thing.determiner))
            and self.chance(0.4)
        ):
            parts["extra"] = self.adjunct(verb["extra"], subject, plain=True)
        group = tense if tense in ("present", "past") else "modal"
        adverbs = [
            row for row in table("adverbs") if group in row["tense"].split() and (row["negatable"] or not negated)
        ]
        if spec == "when":
            parts["time"] = entry("adverbs", "when")
        elif spec == "why":
            parts["reason"] = entry("adverbs", "why")
        elif spec == "fronted" or (verb["kind"] == "event" and not short and self.chance(0.35)):
            row = self.rng.choice([row for row in adverbs if row["part"] == "time" or spec == "full"])
            parts[row["part"]] = row
        return parts

    def clause(self, spec: str, order: str) -> Clause:
        """A clause of a kind named in patterns.tsv, to be spelled in the given order."""
        asks = order in ("wh", "question") or spec == "who"
        verbs = [row for row in table("verbs") if (row["frame"] == "that") == (spec == "that")]
        if spec == "where":
            verbs = [row for row in verbs if fits(row, ["in", "at"], "place")]
        elif spec == "what":
            verbs = [row for row in verbs if row["frame"] == "object" and row["object"] != "person"]
        elif spec == "whom":
            verbs = [row for row in verbs if row["frame"] in ("object", "dative") and fits(row, ["person"], "object")]
        elif spec == "who":
            verbs = [row for row in verbs if fits(row, ["person"], "subject")]
        elif spec in ("when", "fronted"):
            verbs = [row for row in verbs if row["kind"] == "event"]
        verb = self.fresh(verbs)
        tense = self.tense(verb, modal=spec not in ("that", "relative", "if"))
        negated = not asks and spec not in ("relative", "that") and self.chance(0.2)
        barred = "number indefinite bare" if negated else "indefinite bare" if spec == "that" else ""
        if spec == "who":
            subject = Phrase(entry("pronouns", "who"))
        else:
            plain, classes = spec in ("that", "short", "if"), verb["subject"]
            if verb["frame"] == "predicate":
                barred, classes = "number indefinite", "person animal" if plain else classes
            elif spec == "where":
                barred = "indefinite"
            subject = self.phrase(classes, "subject", barred=f"{barred} bare", plain=plain)
        if spec == "relative" and subject.determiner is not None and subject.possessor is None:
            subject = replace(subject, determiner=entry("determiners", "the"), clause=self.relative(subject))
        parts = self.parts(verb, tense, subject, spec, negated)
        front = {"where": "place", "when": "time", "why": "reason", "what": "object", "whom": "object"}.get(
            spec, "subject"
        )
        if spec == "fronted":
            front = "place" if "place" in parts and verb["place"].startswith("in at") and self.chance(0.3) else "time"
        self.slots.add((verb["en"], order))
        return Clause(verb, tense, parts, negated, front)

    def relative(self, head: Phrase) -> Clause:
        """A relative clause on a head, as its subject or as its object."""
        classes = head.head["class"].split()
        gap = Phrase(head.head, head.plural, relative=True)
        objects = [
            row for row in table("verbs") if row["frame"] in ("object", "dative") and fits(row, classes, "object")
        ]
        subjects = [
            row for row in table("verbs") if row["frame"] not in ("that", "predicate") and fits(row, classes, "subject")
        ]
        front = "object" if objects and (not subjects or self.chance(0.4)) else "subject"
        if not objects and not subjects:
            raise IndexError("nothing to say of it")
        verb = self.fresh(objects if front == "object" else subjects)
        tense = self.tense(verb, modal=False)
        if front == "subject":
            parts = self.parts(verb, tense, gap, "relative", False)
        else:
            parts = {
                "subject": self.phrase(verb["subject"], "subject", plain=True, barred="indefinite bare"),
                "object": gap,
            }
        self.slots |= {(head.head["en"], f"relative {front}"), (verb["en"], "final")}
        return Clause(verb, tense, parts, front=front)


@dataclass(frozen=True)
class Pair:
    """An English sentence, its German translation, and the pairs (English word, syntactic slot) in it."""

    source: str
    target: str
    slots: Slots


def draw(rng: random.Random) -> Pair | None:
    """One sentence, or None where the draw ran out of words or came out too long."""
    patterns = table("patterns")
    pattern = rng.choices(patterns, [int(row["weight"]) for row in patterns])[0]
    author = Author(rng, past=pattern["name"] != "if" and rng.random() < 0.4)
    orders = [token[2:] for token in pattern["de"].split() if token[0].isdigit()]
    try:
        clauses = [
            author.clause(spec, order) for spec, order in zip(pattern["clauses"].split(";"), orders, strict=True)
        ]
    except IndexError:  # no unused word left for a place
        return None
    source, target = (spell(pattern[language], clauses, language) for language in ("en", "de"))
    return Pair(source, target, frozenset(author.slots)) if len(source.split()) in LENGTHS else None


# --- what others call


def stream(seed: int) -> Iterator[Pair]:
    """Distinct pairs, without end."""
    rng, seen = random.Random(seed), set[str]()
    while True:
        pair = draw(rng)
        if pair and pair.source not in seen:
            seen.add(pair.source)
            yield pair


def generate(num: int, seed: int) -> list[Pair]:
    """`num` pairs with distinct sources: a pure function of its arguments."""
    pairs = stream(seed)
    return [next(pairs) for _ in range(num)]


def forms(pair: Pair) -> set[str]:
    """The inflected words of the translation."""
    return set(re.findall(r"\w+", pair.target.lower()))


def hold_out(pairs: Sequence[Pair], rng: random.Random) -> Slots:
    """Up to HELD_OUT_PER_SLOT words for each slot, no word twice; each word is common in another slot as well."""
    counts = Counter(slot for pair in pairs for slot in pair.slots)
    usual = sorted(pair for pair, count in counts.items() if count >= 8)
    held: set[tuple[str, str]] = set()
    for slot in sorted({slot for _, slot in usual}):
        words = [word for word, where in usual if where == slot]
        free = [word for word in words if word not in dict(held) and sum(word == other for other, _ in usual) > 1]
        if len(words) > 2 * HELD_OUT_PER_SLOT:
            held |= {(word, slot) for word in rng.sample(free, min(HELD_OUT_PER_SLOT, len(free)))}
    return frozenset(held)


def split(
    train: int = 15000, valid: int = 500, test: int = 500, seed: int = 1
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """(train, valid, test), all sources distinct: a compositional split.

    Some pairs (word, slot) never occur in train or valid, and every test sentence has at least one of them. The word
    occurs in train in other slots, the slot with other words, and so does every inflected German word of test.

    Raises ValueError where `train` is too small to show every word.
    """
    held = hold_out(generate(4000, seed), random.Random(seed))
    known: list[Pair] = []
    novel: list[Pair] = []
    pairs = stream(seed)
    while len(known) < train + valid or len(novel) < 2 * test:
        pair = next(pairs)
        (known if held.isdisjoint(pair.slots) else novel).append(pair)
    seen = set[str]().union(*map(forms, known[:train]))
    novel = [pair for pair in novel if forms(pair) <= seen]
    if len(novel) < test:
        raise ValueError(f"train = {train} sentences do not show every word of the test; take 2500 or more")
    return known[:train], known[train : train + valid], novel[:test]


def lexicon() -> dict[str, str]:
    """Each English word, in every form, with its most usual German word in the form that a dictionary lists."""
    words = {row["en"]: row["de"] for row in table("particles")}
    for name in ("determiners", "pronouns", "prepositions", "adverbs", "nouns", "adjectives", "auxiliaries", "verbs"):
        for row in table(name):
            german = row.get("de_prefix", "") + (row.get("de") or row.get("de_nom") or row["de_stem"])
            german = {"": "der", "dies": "dieser"}.get(german, german)
            for column, text in row.items():
                if column.startswith("en") and text:
                    words.setdefault(text.split()[0], german)
    return words


def word_for_word(sources: Iterable[str], words: Mapping[str, str]) -> list[str]:
    """The baseline: every English word looked up on its own, kept where the dictionary `words` lacks it."""

    def line(source: str) -> str:
        text = re.sub(r"[\w']+", lambda m: words.get(m[0], words.get(m[0].lower(), m[0])), source)
        return text[:1].upper() + text[1:]

    return [line(source) for source in sources]


def write(folder: str | Path, *, train: int = 15000, valid: int = 500, test: int = 500, seed: int = 1) -> None:
    """The split as train.en, train.de, valid.en, ... in a folder, which is made if it is missing."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in zip(("train", "valid", "test"), split(train, valid, test, seed), strict=True):
        for language, lines in (("en", [p.source for p in pairs]), ("de", [p.target for p in pairs])):
            (folder / f"{name}.{language}").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8", newline=""
            )
