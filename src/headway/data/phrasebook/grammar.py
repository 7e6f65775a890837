"""The tree of a sentence, which belongs to no language, and what the spellings of the languages share.

english.py, german.py and japanese.py spell a tree; draw.py makes one. What is a table is a TSV file beside this one: a
column that opens with `en`, `de` or `ja` belongs to that language.
The twin is tests/test_phrasebook.py: sentences and paradigms written by hand.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Row = Mapping[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """The rows of one TSV table."""
    text = files("headway.data.phrasebook").joinpath(f"{name}.tsv").read_text(encoding="utf-8")
    rows = tuple(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows if name == "nouns" else ():
        row["class"] += " " + row["en"].replace(" ", "_")  # each noun is a class of its own
    return rows


@cache
def entry(name: str, key: str, column: str = "") -> Row:
    """The first row of a table whose first column, or the one named, is `key`."""
    return next(row for row in table(name) if (row[column] if column else next(iter(row.values()))) == key)


@dataclass(frozen=True)
class Phrase:
    """A noun with what hangs on it; a pronoun or name (no determiner); a relative pronoun; a preposition before any."""

    head: Row
    plural: bool = False
    determiner: Row | None = None
    adjective: Row | None = None
    possessor: Phrase | None = None
    clause: Clause | None = None
    preposition: Row | None = None
    relative: bool = False

    @property
    def count(self) -> str:
        """How the head counts: count, single (kin), mass, plural, unique, body; nothing for pronouns and names."""
        return self.head.get("count", "")

    @property
    def kind(self) -> str:
        """Of a pronoun: first, third, name, question, city, weather; nothing for nouns."""
        return self.head.get("kind", "")

    @property
    def sense(self) -> str:
        return self.determiner["sense"] if self.determiner else ""

    @property
    def several(self) -> bool:
        return self.plural or self.count == "plural" or self.head.get("agreement") == "p"

    @property
    def indefinite(self) -> bool:
        return self.sense in ("indefinite", "bare")

    @property
    def new(self) -> bool:
        """Whether it is told for the first time: Japanese marks such a subject with が, German sets it late."""
        return self.sense in ("indefinite", "bare", "number", "many", "played")


@dataclass(frozen=True)
class Clause:
    """A verb with its parts; `front` names the part that a main clause, a question or a relative clause opens with."""

    verb: Row
    mood: str  # present, past, progressive, habit, will, a row of moods.tsv, request, command, lets
    parts: Mapping[str, Phrase | Row | Clause]
    negated: bool = False
    front: str = "subject"

    @property
    def subject(self) -> Phrase | None:
        subject = self.parts.get("subject")
        assert subject is None or isinstance(subject, Phrase)
        return subject

    def row(self, name: str) -> Row | None:
        """A part that is one row of a table: an adverb, a predicate, a measure."""
        part = self.parts.get(name)
        return None if part is None or isinstance(part, (Phrase, Clause)) else part

    @property
    def finite_mood(self) -> str:
        return "present" if self.mood == "habit" else self.mood


MOODS = ("present", "past", "progressive", "habit", "will", "request", "command", "lets")


def slots(clauses: Iterable[Clause]) -> Iterator[tuple[str, str]]:
    """The pairs (English word, syntactic slot) of a sentence: what a compositional split holds back."""
    for told in clauses:
        yield told.verb["en"], told.mood if told.mood in MOODS else "modal"
        for name, part in told.parts.items():
            if isinstance(part, Phrase):
                yield from phrase_slots(part, name)
            elif isinstance(part, Clause):
                yield from slots([part])
            elif name == "predicate":
                yield part["en"], "more" if "than" in told.parts else name


def phrase_slots(part: Phrase, name: str) -> Iterator[tuple[str, str]]:
    if part.kind in ("", "name", "city"):
        yield part.head["en"], "relative" if part.relative else name
    if part.adjective:
        yield part.adjective["en"], "attribute"
    if part.possessor:
        yield from phrase_slots(part.possessor, "possessor")
    if part.clause:
        yield from slots([part.clause])


def join(*words: str) -> str:
    return " ".join(word for word in words if word)


def arrange(order: str, spelled: Mapping[str, str], front: str) -> str:
    """The parts in the order of a row of orders.tsv; the fronted part is spelled there and nowhere else."""
    names = order.split()
    if "front" in names:
        spelled = {**spelled, "front": spelled[front], front: ""}
    return join(*(spelled.get(name, "") for name in names))


def order_of(name: str, language: str, *, negated: bool = False) -> str:
    tail = entry("orders", "tail not" if negated else "tail")[language]
    return " ".join(tail if part == "tail" else part for part in entry("orders", name)[language].split())


def tidy(text: str) -> str:
    """A sentence with its punctuation in place and its capital."""
    text = " ".join(text.split())
    for mark in ",.?!":
        text = text.replace(f" {mark}", mark)
    for mark in ",.?!":
        text = text.replace(f",{mark}", mark)
    return text[0].upper() + text[1:]


def fill(template: str, clauses: Sequence[Clause], write: Callable[[Clause, str], str]) -> str:
    """A template such as `1.main , weil 2.final .` with each clause spelled by `write(clause, order)`."""
    return " ".join(
        write(clauses[int(token[0]) - 1], token[2:]) if token[0].isdigit() else token for token in template.split()
    )
