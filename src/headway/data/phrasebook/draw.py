"""Draws the trees: which words go together, so that a sentence makes sense and says the same in each language.

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
PEOPLE = "person kin name pronoun"
OWNED = {
    "own",
    "friendly",
    "item",
    "clothes",
    "vehicle",
    "instrument",
    "pet",
    "farm",
    "case",
    "device",
    "small",
    "text",
    "tool",
    "body",
}
MALE, FEMALE = ("Peter", "Paul", "Daniel"), ("Anna", "Maria", "Emma")
OWNERS = {"my": "I", "our": "we", "his": "he", "her": "she"}
MODALS = {"can": 4, "should": 3, "may": 1, "have to": 4, "want to": 5, "had to": 3, "wanted to": 3, "will": 12}
Parts = dict[str, "Phrase | Row | Clause"]


@cache
def tokens(text: str) -> frozenset[str]:
    return frozenset(text.split())


def fits(row: Row, classes: Iterable[str], column: str = "class") -> bool:
    """Whether a row of nouns, adjectives or verbs has one of the classes; each noun is a class of its own."""
    return not tokens(row.get(column, "")).isdisjoint(classes)


def at(noun: Row) -> Row:
    """The preposition of being at a place."""
    english, german, _ = noun["place"].split()
    return {"en": english, "de": german, "de_case": "dat", "ja": ""}


def to(noun: Row) -> Row:
    german = noun["place"].split()[2]
    return {"en": "to", "de": german, "de_case": "dat" if german == "zu" else "acc", "ja": ""}


def out_of(noun: Row) -> Row:
    return {"en": "from", "de": "aus" if noun["place"].split()[1] == "in" else "von", "de_case": "dat", "ja": ""}


@dataclass
class Author:
    """Draws one sentence; remembers the words it has used, to repeat none.

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

    # --- phrases

    def phrase(
        self, classes: str, slot: str, *, senses: str = "", subject: Phrase | None = None, plain: bool = False
    ) -> Phrase:
        """A phrase of one of the classes for a slot, with a determiner of one of the senses."""
        kinds = set(classes.split())
        weights = {"pronoun": 3.0, "third": 2.0, "first": 1.5, "name": 3.0, "kin": 3.0}
        weights = {kind: weight for kind, weight in weights.items() if kind in kinds}
        if nouns := kinds - weights.keys() - {"generic"}:
            weights["noun"] = 5.0
        kind = self.weighted(weights) if weights else "noun"
        if kind in ("pronoun", "third", "first"):
            return Phrase(self.pronoun(slot, subject, kind))
        if kind == "name":
            return Phrase(self.fresh(row for row in table("pronouns") if row["kind"] == "name"))
        wanted = {"kin"} if kind == "kin" else nouns
        if "generic" in kinds:
            wanted = {"pet", "horse", "bird", "food", "fruits", "plant", "brewed", "sweetdrink", "audio"}
        noun = self.fresh(row for row in table("nouns") if fits(row, wanted))
        return self.determined(noun, slot, senses or f"{KNOWN} indefinite bare number many", subject, plain)

    def pronoun(self, slot: str, subject: Phrase | None, kind: str) -> Row:
        mine = subject is not None and (subject.kind == "first" or subject.sense == "possessive")
        rows = [
            row
            for row in table("pronouns")
            if row["kind"] in (("first", "third") if kind == "pronoun" else (kind,))
            and not (row["kind"] == "first" and mine)
            and not (row["en"] == "they" and slot != "subject")  # German sie: them or her
        ]
        row = self.fresh(rows)
        self.used |= {"I", "we"} if row["kind"] == "first" else set()
        self.used |= {mine for mine, owner in OWNERS.items() if owner == row["en"]}
        return row

    def determined(self, noun: Row, slot: str, senses: str, subject: Phrase | None, plain: bool = False) -> Phrase:
        count, allowed = noun["count"], senses.split()
        own = fits(noun, OWNED) or count == "single"
        if "generic" in allowed:
            return Phrase(noun, determiner=entry("determiners", "bare", "sense"))
        if "played" in allowed:
            return Phrase(noun, determiner=entry("determiners", "played", "sense"))
        person = fits(noun, ["person"])
        plural = count == "count" and self.chance(0.3)
        here = {
            "single": ["possessive"],
            "body": ["possessive"],
            "unique": ["definite"],
            "mass": ["bare", "definite", "this"],
            "plural": ["bare", "possessive", "this", "definite"],
            "count": ["possessive"]
            if fits(noun, ["relation"])
            else ["number", "many"] + (["definite", "possessive"] if person else [])
            if plural
            else ["definite", "indefinite", "this", "possessive"],
        }[count]
        if noun["class"].split()[0] == "kin" or (count == "unique" and own and self.chance(0.4)):
            here = ["possessive"]
        rows = [
            row
            for row in table("determiners")
            if row["sense"] in here and (row["sense"] in allowed or here == ["possessive"] or count == "unique")
            if row["sense"] != "possessive" or (own and self.may_own(row, noun, subject))
            if row["en_plural" if plural or count == "plural" else "en"] or row["sense"] == "bare"
        ]
        owner = None
        if own and "possessive" in here and "possessive" in [*allowed, *here[:1]] and self.chance(0.3):
            owner = self.owner(noun, subject)
        if owner:
            determiner = entry("determiners", "the")
        else:
            if not rows:
                raise IndexError("no determiner")
            determiner = self.rng.choices(rows, [self.weight(row, count, slot) for row in rows])[0]
        if determiner["of"]:
            self.used |= {determiner["en"], *([] if count == "single" else [determiner["of"]])}
        adjective = None
        if (
            not plain
            and count not in ("single", "body")
            and noun["class"].split()[0] != "kin"
            and self.chance(0.04 if person else 0.25)
        ):
            rows = [
                row
                for row in table("adjectives")
                if row["use"] == "both" and fits(noun, row["class"].split()) and row["en"] not in self.used
            ]
            if rows and not (owner and owner.kind == ""):
                adjective = self.fresh(rows)
        return Phrase(noun, plural, determiner, adjective, owner)

    @staticmethod
    def weight(row: Row, count: str, slot: str) -> float:
        usual = float(row["weight"])
        return usual * (0.4 if row["sense"] == "definite" and count != "unique" and slot != "subject" else 1)

    def may_own(self, row: Row, noun: Row, subject: Phrase | None) -> bool:
        """Whether `my`, `his` may stand: not of the subject itself, nor where the subject may be meant."""
        kin = noun["count"] == "single" or noun["class"].split()[0] == "kin"
        if row["en"] in ("his", "our") and fits(noun, ["ladies"]):
            return False
        if row["en"] == "my" and kin:
            return True
        if row["en"] in self.used or row["of"] in self.used or (row["en"] == "our" and kin):
            return False
        return row["en"] in ("my", "our") or subject is None or subject.kind in ("first", "third")

    def owner(self, noun: Row, subject: Phrase | None) -> Phrase:
        """Anna, my mother, the teacher: whose something is."""
        kin, hers = noun["count"] == "single" or noun["class"].split()[0] == "kin", fits(noun, ["ladies"])

        def suits(row: Row) -> bool:
            if fits(noun, ["teacher"]) and "class" in row:  # my grandmother has none
                return fits(row, ["young"])
            return not hers or row["en"] in FEMALE or fits(row, ["female"])

        person, close = fits(noun, ["person"]), fits(noun, ["clothes", "body", "tool", "small"])
        if kin or self.chance(0.5):
            return Phrase(self.fresh(row for row in table("pronouns") if row["kind"] == "name" and suits(row)))
        if self.chance(0.6) or hers or person:
            head = self.fresh(
                row
                for row in table("nouns")
                if fits(row, ["kin"]) and suits(row) and not ((close or person) and row["count"] == "plural")
            )
            return Phrase(head, determiner=entry("determiners", "my"))
        head = self.fresh(row for row in table("nouns") if fits(row, ["job", "child"]))
        return Phrase(head, determiner=entry("determiners", "the"))

    def place(self, classes: str, subject: Phrase | None, where: Callable[[Row], Row] = at) -> Phrase:
        kinds = classes.split()
        noun = self.fresh(row for row in table("nouns") if row["place"] and fits(row, kinds))
        told = self.determined(noun, "place", "definite possessive", subject, plain=not self.chance(0.3))
        return replace(told, preposition=where(noun))

    def city(self, preposition: Row) -> Phrase:
        head = self.fresh(row for row in table("pronouns") if row["kind"] == "city")
        return Phrase(head, preposition=preposition)

    @staticmethod
    def wears(person: Phrase, thing: Phrase) -> bool:
        male = person.head["en"] in (*MALE, "he") or person.head.get("de_gender") == "m"
        return not (male and fits(thing.head, ["ladies"]))

    # --- parts of a clause

    def mood(self, verb: Row, allowed: Iterable[str] | None = None) -> str:
        kind = verb["kind"].split()
        if "state" in kind:
            weights = {"present": 3.0, "past": 1.0}
        elif "scheduled" in kind:
            weights = {"present": 3.0, "past": 2.0, "will": 1.0}
        else:
            weights = {"past": 16.0} | {name: 10.0 for name in ("progressive", "habit") if name in kind}
            weights |= MODALS if "modal" in kind else {}
            weights |= {name: share for name, share in MODALS.items() if name != "can"} if "duty" in kind else {}
            weights |= (
                {name: MODALS[name] for name in ("can", "may", "want to", "wanted to", "will")}
                if "leisure" in kind
                else {}
            )
            weights |= (
                {name: MODALS[name] for name in ("may", "want to", "wanted to", "will")} if "treat" in kind else {}
            )
            if "moment" in kind:
                weights.pop("will", None)
        weights = {name: weight for name, weight in weights.items() if allowed is None or name in allowed}
        if not weights:
            raise IndexError("no mood")
        mood = self.weighted(weights)
        return mood

    def time(self, verb: Row, mood: str, *, only: str = "") -> Parts:
        """A time adverb that goes with verb and mood; `only` names the parts (time, frequency, clock) wanted."""
        kind, state = verb["kind"].split(), "scheduled" if "scheduled" in verb["kind"] and mood == "present" else mood
        state = {"had to": "past", "wanted to": "past"}.get(
            state, "modal" if state in MODALS and state != "will" else state
        )
        scale = {"moment"} if "moment" in kind else {"far", "any"} if "far" in kind else {"near", "any"}
        scale |= {"weekly"} & set(kind)
        if "scheduled" in kind:
            only = "clock" if mood == "present" else "time"
        part = next((name for name in kind if name in ("morning", "noon", "night", "evening")), "").replace(
            "night", "evening"
        )
        wanted = only.split() or ["time", "frequency"] + (["clock"] if "clock" in kind else [])
        rows = [
            row
            for row in table("adverbs")
            if row["part"] in wanted
            and (row["part"] != "clock" or "clock" in kind)
            and (not row["day"] or not part or part in row["day"].split())
            and state in row["moods"].split()
            and fits(row, scale, "scale")
        ]
        row = self.fresh(rows)
        return {row["part"]: row}

    def adjunct(self, verb: Row, mood: str, subject: Phrase | None, negated: bool, share: float) -> Parts:
        """One of place, company, manner and duration, or none."""
        kind = verb["kind"].split()
        offers = [name for name in ("place", "extra", "manner") if verb[name]]
        if mood in ("request", "command"):
            offers = [name for name in offers if name == "manner"]
        offers = [
            name for name in offers if name != "manner" or mood in ("past", "have to", "should", "request", "command")
        ]
        offers += ["duration"] if "duration" in kind and mood in ("past", "will", "habit") else []
        if negated or not offers or not self.chance(share):
            return {}
        name = self.rng.choice(offers)
        if name == "place":
            return {"place": self.place(verb["place"], subject)}
        if name == "extra":
            who = self.phrase(
                "kin name third friendly", "company", senses="definite possessive", subject=subject, plain=True
            )
            return {"extra": replace(who, preposition=entry("prepositions", verb["extra"]))}
        if name == "manner":
            return {"manner": entry("adverbs", self.rng.choice(verb["manner"].split()))}
        return {"duration": self.rng.choice([row for row in table("adverbs") if row["part"] == "duration"])}

    def complete(
        self,
        verb: Row,
        mood: str,
        subject: Phrase | None,
        *,
        negated: bool = False,
        share: float = 0.5,
        senses: str = "",
        gap: Phrase | None = None,
    ) -> Parts:
        """The subject and all that the frame of the verb asks for, and perhaps an adjunct; `gap` is the object."""
        parts: Parts = {"subject": subject} if subject else {}
        frame, allowed = verb["frame"], (senses or verb["senses"]).split()
        if frame == "ditransitive":
            classes = "kin name third friendly" + (" youth" if verb["en"] == "teach" else "")
            parts["recipient"] = self.phrase(
                classes, "recipient", senses="definite possessive", subject=subject, plain=True
            )
        if frame in ("object", "ditransitive"):
            if gap:
                parts["object"] = gap
            else:
                if mood == "habit":
                    allowed = [sense for sense in allowed if sense in ("bare", "indefinite", "generic", "played")] or [
                        sense for sense in allowed if sense != "this"
                    ]
                if negated or mood not in ("past", "present"):
                    allowed = [sense for sense in allowed if sense not in ("number", "many")]
                recipient = parts.get("recipient")
                if isinstance(recipient, Phrase) and recipient.head["en"] == "she":
                    allowed = [sense for sense in allowed if sense != "bare"]  # `her water` or `water for her`?
                thing = self.phrase(
                    verb["object"], "object", senses=" ".join(allowed), subject=subject, plain=share < 0.2
                )
                if thing.adjective and any(
                    row["adjective"] == thing.adjective["en"] and verb["en"] in row["verbs"].split(";")
                    for row in table("odd")
                ):
                    thing = replace(thing, adjective=None)  # who buys a broken car?
                if (
                    verb["en"] in ("put on", "try on", "take off", "need")
                    and subject
                    and not self.wears(subject, thing)
                ):
                    raise IndexError("not his size")
                parts["object"] = thing
        elif frame == "goal":
            parts["goal"] = self.place("goal", subject, to)
        elif frame == "source":
            parts["source"] = self.place("goal", subject, out_of)
        elif frame == "arrive":
            classes = "station bus_stop" if subject and fits(subject.head, ["ride"], "class") else verb["place"]
            parts["place"] = self.place(classes, subject)
        elif frame == "travel":
            parts["goal"] = self.city({"en": "to", "de": "nach", "de_case": "dat", "ja": ""})
        elif frame == "live":
            village = self.chance(0.15)
            parts["place"] = (
                self.place("village", subject)
                if village
                else self.city({"en": "in", "de": "in", "de_case": "dat", "ja": ""})
            )
        elif frame == "place":
            parts["place"] = self.place(verb["place"], subject)
        if "place" not in parts:
            parts |= self.adjunct(verb, mood, subject, negated, share)
        return parts

    def subject(self, verb: Row, *, senses: str = f"{KNOWN} indefinite number many", third: bool = False) -> Phrase:
        classes = verb["subject"]
        if "state" in verb["kind"].split():
            senses = "possessive this"
        if third:
            classes = classes.replace("pronoun", "third")
        return self.phrase(classes, "subject", senses=senses, plain=self.chance(0.7))

    def verb(self, test: Callable[[Row], bool]) -> Row:
        return self.fresh([row for row in table("verbs") if test(row)])

    def event(
        self,
        verb: Row,
        *,
        moods: Iterable[str] | None = None,
        subject: Phrase | None = None,
        share: float = 0.5,
        negated: float = 0.15,
        time: float = 0.5,
        third: bool = False,
        known: bool = False,
        times: str = "",
    ) -> Clause:
        """A clause with what goes into it, drawn at the given shares."""
        mood = self.mood(verb, moods)
        bed = {"morning", "night"} & set(verb["kind"].split())
        no = (
            mood not in ("habit", "progressive", "should")
            and not bed
            and "scheduled" not in verb["kind"]
            and self.chance(negated)
        )
        if bed:
            time, times = (1.0 if mood in ("past", "will") else 0.0), "" if mood == "habit" else "clock"
        time = 1.0 if "scheduled" in verb["kind"].split() else time
        senses = KNOWN if no or known or mood not in ("past", "progressive") else f"{KNOWN} indefinite number many"
        if verb["frame"] in ("object", "ditransitive"):
            senses = senses.replace(" number many", "")
        subject = subject or self.subject(verb, third=third, senses=senses)
        parts = self.complete(verb, mood, subject, negated=no, share=share)
        state = "state" in verb["kind"].split()
        if (
            mood in ("habit", "will")
            or (mood == "present" and not state)
            or (not state and mood != "progressive" and self.chance(time))
        ):
            parts |= self.time(verb, mood, only=times or ("time" if no else ""))
        return Clause(verb, mood, parts, no)


def is_event(row: Row) -> bool:
    return row["frame"] not in ("that", "predicate", "measure", "hurt", "weather", "place") and row["en"] != "belong to"


def is_state(row: Row) -> bool:
    return "state" in row["kind"].split()


def doing(row: Row) -> bool:
    """Something that people do."""
    return is_event(row) and not is_state(row) and fits(row, ["person", "adult"], "subject")


def named(*names: str) -> Callable[[Row], bool]:
    return lambda row: row["en"] in names


def tagged(row: Row, *kinds: str) -> bool:
    """Whether a verb is of one of the kinds."""
    return fits(row, kinds, "kind")
