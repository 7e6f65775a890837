"""Draws a clause on what happens: a verb, its mood and time, and all that its frame asks for (verbs.tsv, kinds.tsv)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headway.data.phrasebook.draw import (
    KNOWN,
    NEW,
    SEEN,
    Parts,
    Words,
    at,
    fits,
    is_state,
    out_of,
    tagged,
    to,
    tokens,
)
from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, table

WAYS = {"goal": to, "source": out_of}
DAYPARTS = {"morning": "morning", "noon": "noon", "night": "evening", "evening": "evening", "dawn": "morning"}
WHOLE = {"manner", "duration"}  # parts that need no time beside them
SOMEWHERE = {"past", "progressive", "habit", "will", "purpose"}  # moods with a place
STEADY = ("scheduled", "moment", "timeless", "morning", "night", "positive")  # kinds of verbs never denied
VIVID = {"past", "progressive", "present", "will", "want to", "request"}  # moods with an adjective
EASY = {"past", "have to", "should", "request", "command"}  # moods with a manner
DONE = {"past", "progressive", "habit"}  # moods without `this`: nobody points at what was lost


def kinds_of(verb: Row) -> list[Row]:
    """The rows of kinds.tsv of a verb, `event` among them where it has no other tense."""
    kinds = tokens(verb["kind"]) | (set() if tagged(verb, "state", "scheduled", "only") else {"event"})
    return [row for row in table("kinds") if row["kind"] in kinds]


class Author(Words):
    """Draws the clauses of one sentence."""

    def mood(self, verb: Row, allowed: Iterable[str] | None = None) -> str:
        names = [name for name in table("kinds")[0] if name not in ("kind", "scale")]
        weights = {name: max(float(row[name] or 0) for row in kinds_of(verb)) for name in names}
        weights = {name: share for name, share in weights.items() if share and (allowed is None or name in allowed)}
        if not weights:
            raise IndexError("no mood")
        return self.weighted(weights)

    def time(self, verb: Row, mood: str, *, only: str = "", denied: bool = False) -> Parts:
        """A time adverb that goes with verb and mood; `only` names the parts (time, frequency, clock) wanted."""
        scheduled = tagged(verb, "scheduled")
        state = {"had to": "past", "wanted to": "past", "present": "scheduled"}.get(mood, mood)
        state = state if state in ("past", "will", "habit", "scheduled") else "modal"
        rows = kinds_of(verb)
        scale = tokens(" ".join(row["scale"] for row in rows if row["kind"] != "event"))
        scale = scale or {"near", "any", "daily"}
        if mood in ("had to", "wanted to"):  # not long ago
            scale -= {"far", "any", "years"}
        part = next((day for name, day in DAYPARTS.items() if tagged(verb, name)), "")
        wanted = ["clock"] if scheduled else only.split() or ["time", "frequency", "clock"]
        row = self.fresh(
            row
            for row in table("adverbs")
            if row["part"] in wanted
            and (row["part"] != "clock" or tagged(verb, "clock"))
            and (not row["day"] or not part or part in row["day"].split())
            and state in row["moods"].split()
            and fits(row, scale, "scale")
            and not ("this" in self.used and row["en"].startswith("this "))
            and not (denied and (row["en"].endswith(" ago") or row["en"].startswith("on ")))
        )
        return {row["part"]: row}

    def adjunct(self, verb: Row, mood: str, subject: Phrase | None, share: float) -> Parts:
        """One of place, company, manner and duration, or none."""
        asked = mood in ("request", "command", "can")
        offers = ["place"] if verb["place"] and verb["frame"] in ("none", "object") and mood in SOMEWHERE else []
        offers += ["extra"] if verb["extra"] and not asked else []
        offers += ["manner"] if verb["manner"] and mood in EASY else []
        offers += ["duration"] if tagged(verb, "duration", "short") and mood == "past" else []
        if not offers or not self.chance(share):
            return {}
        name = self.rng.choice(offers)
        if name == "place":
            return {"place": self.place(verb["place"], subject)}
        if name == "extra":
            who = self.phrase("kin name third friendly", "company", senses="possessive", subject=subject)
            return {"extra": replace(who, preposition=entry("prepositions", verb["extra"]))}
        if name == "manner":
            return {"manner": entry("adverbs", self.rng.choice(verb["manner"].split()))}
        scale = ["short"] if tagged(verb, "short") else ["long"]
        rows = [row for row in table("adverbs") if row["part"] == "duration" and fits(row, scale, "scale")]
        return {"duration": self.rng.choice(rows)}

    def thing(self, verb: Row, mood: str, subject: Phrase | None, senses: str, recipient: Phrase | None) -> Phrase:
        """The object: what happens again and again happens to nothing in particular."""
        allowed = senses.split()
        if mood == "habit":
            again = [sense for sense in allowed if sense in ("bare", "generic", "played")]
            allowed = again or allowed
        if mood in DONE:
            allowed = [sense for sense in allowed if sense != "this"]
        if mood not in ("past", "present"):
            allowed = [sense for sense in allowed if sense not in ("number", "many")]
        if recipient and recipient.head["en"] == "she":
            allowed = [sense for sense in allowed if sense != "bare"]  # `her water` or `water for her`?
        adjectives = verb["adjectives"] if mood in VIVID else ""
        return self.phrase(verb["object"], "object", senses=" ".join(allowed), subject=subject, adjectives=adjectives)

    def whereto(self, verb: Row, subject: Phrase | None) -> Parts:
        """The place that the frame asks for: a row of frames.tsv."""
        row = entry("frames", verb["frame"])
        if row["en"]:
            return {row["slot"]: self.city({name: row[name] for name in ("en", "de", "de_case")})}
        return {row["slot"]: self.place(verb["place"], subject, WAYS.get(row["slot"], at))}

    def complete(
        self,
        verb: Row,
        mood: str,
        subject: Phrase | None,
        *,
        negated: bool = False,
        share: float = 0.5,
        senses: str = "",
    ) -> Parts:
        """The subject and all that the frame of the verb asks for, and perhaps an adjunct."""
        parts: Parts = {"subject": subject} if subject else {}
        recipient = None
        if tagged(verb, "alone") and subject and subject.several:
            raise IndexError("one coat for all of them")
        if verb["frame"] == "ditransitive":
            recipient = self.phrase(verb["recipient"], "recipient", senses="possessive", subject=subject)
            parts["recipient"] = recipient
        if verb["frame"] in ("object", "ditransitive"):
            senses = senses or verb["senses"]
            if negated:
                senses = " ".join(tokens(senses) - {"number", "many"} or {"definite"})
            plain = {**verb, "adjectives": ""} if negated else verb
            parts["object"] = self.thing(plain, mood, subject, senses, recipient)
        elif any(row["frame"] == verb["frame"] for row in table("frames")):
            parts |= self.whereto(verb, subject)
        if "place" not in parts and not negated:
            parts |= self.adjunct(verb, mood, subject, share)
        return parts

    def subject(self, verb: Row, mood: str = "", *, known: bool = False, third: bool = False) -> Phrase:
        """Who does it: somebody new only where the verb is of kind `new`; leave to do it is given to a few."""
        classes = verb["subject"]
        if mood == "may":
            classes = "first child boy girl young"
        if third:
            classes = classes.replace("pronoun", "third").replace("first ", "")
        fresh = tagged(verb, "new") and mood in ("past", "progressive") and not known
        classes += " grown" if fresh and "person" in classes else ""
        senses = f"{KNOWN} {NEW}" if fresh else "possessive" if is_state(verb) else "definite possessive"
        return self.phrase(classes, "subject", senses=senses.replace("this ", ""), adjectives=SEEN if fresh else "")

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
        rising = tagged(verb, "morning", "night")
        steady = mood in ("habit", "progressive", "should", "had to", "will") or tagged(verb, *STEADY)
        no = not steady and self.chance(negated)
        if rising:
            time, times = (1.0 if mood in ("past", "will") else 0.0), "" if mood == "habit" else "clock"
        subject = subject or self.subject(verb, mood, known=known or no, third=third)
        parts = self.complete(verb, mood, subject, negated=no, share=share)
        timely = not is_state(verb) and mood not in ("progressive", "may", "can") and parts.keys().isdisjoint(WHOLE)
        if mood in ("habit", "will") or tagged(verb, "scheduled") or (timely and self.chance(time)):
            parts |= self.time(verb, mood, only=times or ("time" if no else ""), denied=no)
        return Clause(verb, mood, parts, no)
