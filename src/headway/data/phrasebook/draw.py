"""Draws words and phrases: which words go together, so that a sentence makes sense and says the same in each language.

A noun has classes, and verbs, adjectives and places name the classes they go with (verbs.tsv, adjectives.tsv). What a
language does not say is not drawn: Japanese tells number by a counter, たくさんの or たち only, so a plural has one of
them; German `sie` is she or they, so `them` is never an object; a subject of somebody has no `his`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache

from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, table

KNOWN = "definite this possessive"
NEW = "indefinite number"
ANY = f"{KNOWN} {NEW} many bare"
PEOPLE = "person kin name pronoun"
SEEN = "black white brown young"  # adjectives of a subject that is new
SHARES = {"pronoun": 3.0, "third": 2.0, "first": 1.5, "name": 3.0, "kin": 3.0}  # any other noun: 4
PRONOUNS = {"pronoun": ("first", "third"), "third": ("third",), "first": ("first",)}
OWNERS = {"my": "I", "our": "we", "his": "he", "her": "she"}
Parts = dict[str, "Phrase | Row | Clause"]


@cache
def tokens(text: str) -> frozenset[str]:
    return frozenset(text.split())


def fits(row: Row, classes: Iterable[str], column: str = "class") -> bool:
    """Whether a row of nouns, adjectives or verbs has one of the classes; each noun is a class of its own."""
    return not tokens(row.get(column, "")).isdisjoint(classes)


def at(noun: Row) -> Row:
    """The preposition of being at a place."""
    english, german = noun["place"].split()[:2]
    return {"en": english, "de": german, "de_case": "dat", "ja": ""}


def to(noun: Row) -> Row:
    german = noun["place"].split()[2]
    return {"en": "to", "de": german, "de_case": "dat" if german == "zu" else "acc", "ja": ""}


def out_of(noun: Row) -> Row:
    """From a place: the fourth of its words, or aus where one is in it."""
    _, german, _, *other = noun["place"].split()
    german = "aus" if german == "in" else "von"
    return {"en": "from", "de": other[0] if other else german, "de_case": "dat", "ja": ""}


def is_kin(noun: Row) -> bool:
    return noun["count"] == "single" or fits(noun, ["kin"])


def open_senses(noun: Row, plural: bool) -> frozenset[str]:
    """The senses of the determiners that a noun can have."""
    senses = tokens(entry("counts", noun["count"])["several" if plural else "one"])
    if plural and fits(noun, ["job"]):
        return frozenset()
    if plural and fits(noun, ["human"]):
        senses |= {"definite", "possessive"}
    if not (fits(noun, ["own"]) or is_kin(noun)):
        senses -= {"possessive"}
    return senses & {"possessive"} if fits(noun, ["relation"]) else senses


@dataclass
class Words:
    """Draws the words of one sentence; remembers those it has used, to repeat none.

    Raises IndexError where no word is left for a place.
    """

    rng: random.Random
    used: set[str] = field(default_factory=set)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def weighted(self, weights: dict[str, float]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def fresh(self, rows: Iterable[Row]) -> Row:
        """A row whose word is not used yet."""
        row = self.rng.choice([row for row in rows if row["en"] not in self.used])
        self.used.add(row["en"])
        return row

    def phrase(
        self, classes: str, slot: str, *, senses: str = ANY, subject: Phrase | None = None, adjectives: str = ""
    ) -> Phrase:
        """A phrase of one of the classes for a slot, with a determiner of one of the senses."""
        kinds = set(classes.split())
        weights = {kind: weight for kind, weight in SHARES.items() if kind in kinds}
        nouns = kinds - weights.keys()
        kind = self.weighted(weights | ({"noun": 4.0} if nouns else {}))
        if kind in PRONOUNS:
            return Phrase(self.pronoun(slot, subject, kind))
        if kind == "name":
            return Phrase(self.fresh(row for row in table("pronouns") if row["kind"] == "name"))
        wanted = {"kin"} if kind == "kin" else nouns
        noun = self.fresh(row for row in table("nouns") if fits(row, wanted))
        return self.determined(noun, slot, senses, subject, adjectives)

    def pronoun(self, slot: str, subject: Phrase | None, kind: str) -> Row:
        mine = subject is not None and (subject.kind == "first" or subject.sense == "possessive")
        rows = [
            row
            for row in table("pronouns")
            if row["kind"] in PRONOUNS[kind]
            and not (row["kind"] == "first" and mine)
            and not (row["en"] == "they" and slot != "subject")  # German sie: them or her
        ]
        row = self.fresh(rows)
        self.used |= {"I", "we"} if row["kind"] == "first" else set()
        self.used |= {mine for mine, owner in OWNERS.items() if owner == row["en"]}
        self.used |= {"her"} if row["en"] == "they" else set()  # German ihr: her or their
        return row

    def determined(
        self, noun: Row, slot: str, senses: str, subject: Phrase | None = None, adjectives: str = ""
    ) -> Phrase:
        """A noun with a determiner of one of the senses, or the one that it always has."""
        allowed = tokens(senses)
        usual = ["meal"] if fits(noun, ["meal"]) else [name for name in ("generic", "played") if name in allowed]
        if usual:
            return Phrase(noun, determiner=entry("determiners", usual[0].replace("generic", "bare"), "sense"))
        one, several = (open_senses(noun, plural) & allowed for plural in (False, True))
        plural = bool(several) and (not one or self.chance(0.2))
        here = several if plural else one
        if not here and noun["count"] in ("single", "unique"):
            here = open_senses(noun, False)
        weights = {
            row["sense"]: float(row["subject" if slot == "subject" else "other"])
            for row in table("senses")
            if row["sense"] in here
        }
        if noun["count"] == "unique" and "possessive" in weights:
            weights["possessive"] = 0.5
        sense = self.weighted(weights)
        self.used |= {sense} & {"this"}
        determiner, owner = self.determiner(noun, sense, plural, subject)
        adjective = None if plural or owner else self.attribute(noun, adjectives)
        return Phrase(noun, plural, determiner, adjective, owner)

    def determiner(self, noun: Row, sense: str, plural: bool, subject: Phrase | None) -> tuple[Row, Phrase | None]:
        """A determiner of the sense, or `the` and whose the thing is."""
        if sense == "possessive" and not noun["de_oblique"] and self.chance(0.4):  # Annas Kollegen: one or more?
            return entry("determiners", "the"), self.owner(noun)
        column = "en_plural" if plural or noun["count"] == "plural" else "en"
        rows = [
            row
            for row in table("determiners")
            if row["sense"] == sense
            and (row[column] or sense == "bare")
            and (sense != "possessive" or self.may_own(row, noun, subject))
        ]
        row = self.rng.choices(rows, [float(row["weight"]) for row in rows])[0]
        if row["of"]:
            mine = is_kin(noun) and row["of"] in (
                "I",
                "we",
            )  # `my mother saw me`, but whom does `her mother saw her` mean?
            self.used |= {row["en"]} if mine else {row["en"], row["of"]}
        return row, None

    def attribute(self, noun: Row, adjectives: str) -> Row | None:
        rows = [
            row
            for row in table("adjectives")
            if row["use"] in ("both", "attribute")
            and row["en"] in adjectives.split()
            and fits(noun, row["class"].split())
        ]
        return self.fresh(rows) if rows and self.chance(0.35) else None

    def may_own(self, row: Row, noun: Row, subject: Phrase | None) -> bool:
        """Whether `my`, `his` may stand: not of the subject itself, nor where the subject may be meant."""
        if row["en"] == "my" and is_kin(noun) and "I" not in self.used:
            return True
        if row["en"] == "our" and not fits(noun, ["shared"]):
            return False
        if row["en"] in self.used or row["of"] in self.used:
            return False
        return row["en"] in ("my", "our") or subject is None or subject.kind in ("first", "third")

    def owner(self, noun: Row) -> Phrase:
        """Anna, my mother, the teacher: whose something is."""
        kind = "name" if is_kin(noun) else self.weighted({"name": 5, "single": 4, "job": 0.5})
        if kind == "name":
            return Phrase(self.fresh(row for row in table("pronouns") if row["kind"] == "name"))
        if kind == "job" and fits(noun, ["case", "vehicle"]):
            head = self.fresh(row for row in table("nouns") if fits(row, ["job"]))
            return Phrase(head, determiner=entry("determiners", "the"))
        if "I" in self.used:
            raise IndexError("my own mother's")
        head = self.fresh(row for row in table("nouns") if row["count"] == "single")
        return Phrase(head, determiner=entry("determiners", "my"))

    def place(self, classes: str, subject: Phrase | None, where: Callable[[Row], Row] = at) -> Phrase:
        """A place with its preposition; somebody new is at no place of a home."""
        kinds = classes.split()
        noun = self.fresh(
            row
            for row in table("nouns")
            if row["place"] and fits(row, kinds) and not (subject and subject.new and fits(row, ["room"]))
        )
        return replace(self.determined(noun, "place", "definite possessive", subject), preposition=where(noun))

    def city(self, preposition: Row) -> Phrase:
        head = self.fresh(row for row in table("pronouns") if row["kind"] == "city")
        return Phrase(head, preposition={"ja": "", **preposition})

    def verb(self, test: Callable[[Row], bool]) -> Row:
        """A verb that passes the test; each of several rows of one verb counts as one verb."""
        return self.fresh([row for row in table("verbs") if test(row)])


def is_event(row: Row) -> bool:
    frames = ("that", "predicate", "measure", "hurt", "weather", "place")
    return row["frame"] not in frames and row["en"] != "belong to"


def is_state(row: Row) -> bool:
    return tagged(row, "state")


def doing(row: Row) -> bool:
    """Something that people do."""
    return is_event(row) and not is_state(row) and fits(row, ["person", "adult"], "subject")


def named(*names: str) -> Callable[[Row], bool]:
    return lambda row: row["en"] in names


def tagged(row: Row, *kinds: str) -> bool:
    """Whether a verb is of one of the kinds."""
    return fits(row, kinds, "kind")
