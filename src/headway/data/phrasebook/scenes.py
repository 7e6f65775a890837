"""One function for each pattern of one clause in patterns.tsv: it draws what such a sentence tells."""

from __future__ import annotations

from dataclasses import replace

from headway.data.phrasebook.draw import (
    KNOWN,
    MODALS,
    PEOPLE,
    Author,
    at,
    doing,
    fits,
    is_event,
    is_state,
    named,
    tagged,
)
from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, table

LIVING = {"person", "kin", "animal", "infant"}


def be(frame: str, ja: str = "") -> Row:
    rows = (row for row in table("verbs") if row["en"] == "be" and row["frame"] == frame)
    return next(row for row in rows if not ja or row["ja"] == ja)


# --- statements


def statement(author: Author) -> list[Clause]:
    return [
        author.event(author.verb(lambda row: is_event(row) or (is_state(row) and row["frame"] in ("object", "live"))))
    ]


def fronted(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: doing(row) and not tagged(row, "morning", "night"))
    moods = {"past", "habit", *MODALS} - {"may"}
    told = author.event(verb, moods=moods, share=0.3, negated=0.1, time=1, known=True, times="time")
    return [replace(told, front="time")]


# --- questions: of somebody else, and nothing new in them


def asked(author: Author, verb: Row, **how) -> Clause:
    return author.event(verb, third=True, known=True, **{"negated": 0.0, **how})


def put(told: Clause, name: str, part: Phrase | Row) -> Clause:
    """The clause with a question word for a part."""
    return replace(told, parts={**told.parts, name: part}, front=name)


def question(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: is_event(row) or row["frame"] in ("object", "live"))
    told = asked(author, verb, share=0.4, times="" if is_state(verb) else "time clock")
    if told.mood == "may" and not {"I", "we", "my", "our"} & author.used:
        told = replace(told, parts={**told.parts, "subject": Phrase(entry("pronouns", "I"))})
    return [told]


def where(author: Author, classes: str = PEOPLE.replace("pronoun", "third")) -> list[Clause]:
    kind, somewhere = (
        author.weighted({"event": 4, "goal": 2, "live": 1, "ある": 2, "いる": 2}),
        entry("adverbs", "where"),
    )
    if kind in ("ある", "いる"):
        verb = be("place", kind)
        classes = classes + " pet" if kind == "いる" else verb["subject"]
        subject = author.phrase(classes, "subject", senses="possessive definite", plain=True)
        return [put(Clause(verb, author.mood(verb), {"subject": subject}), "place", somewhere)]
    if kind == "live":
        return [put(asked(author, author.verb(named("live"))), "place", somewhere)]
    if kind == "goal":
        told = asked(author, author.verb(named("go", "travel", "fly")), moods={"past"}, share=0, times="time")
        return [put(told, "goal", entry("adverbs", "wohin", "de"))]
    verb = author.verb(lambda row: doing(row) and bool(row["place"]) and row["frame"] in ("none", "object"))
    return [put(asked(author, verb, moods={"past", "progressive"}, share=0, time=0.4), "place", somewhere)]


def when(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: doing(row) or row["subject"] == "event")
    told = asked(author, verb, moods={"past", "will"}, share=0)
    parts = {name: part for name, part in told.parts.items() if name not in ("time", "clock", "frequency")}
    return [put(replace(told, parts=parts), "time", entry("adverbs", "when"))]


def why(author: Author) -> list[Clause]:
    no = author.chance(0.35)
    verb = author.verb(
        lambda row: (
            doing(row)
            and row["en"] not in ("arrive", "get up", "go to bed")
            and (not no or tagged(row, "modal", "duty", "leisure", "treat"))
        )
    )
    moods = {"past", "want to"} if no else {"past", "progressive", "have to", "want to"}
    told = asked(author, verb, moods=moods, negated=float(no), share=0.25, time=0.3, times="time")
    return [put(told, "reason", entry("adverbs", "why"))]


def what(author: Author) -> list[Clause]:
    verb, moods = author.verb(lambda row: tagged(row, "asked")), {"past", "progressive", "will", "want to", "should"}
    told = asked(author, verb, moods=moods, share=0.3, time=0.4, times="time")
    return [put(told, "object", Phrase(entry("pronouns", "what")))]


def whom(author: Author) -> list[Clause]:
    verb = author.verb(
        lambda row: (
            doing(row) and row["frame"] == "object" and " " not in row["de_object"] and fits(row, ["name"], "object")
        )
    )
    told = asked(author, verb, moods={"past", "will", "want to", "should"}, share=0.3, time=0.4)
    return [put(told, "object", Phrase(entry("pronouns", "who")))]


def who(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: doing(row) or (row["en"] in ("know", "live", "have", "need") and is_state(row)))
    moods = {"past", "progressive", "will", "can", "present", "want to"}
    return [author.event(verb, subject=Phrase(entry("pronouns", "who")), moods=moods, negated=0)]


# --- requests


def told_to(author: Author, mood: str, *kinds: str) -> list[Clause]:
    verb = author.verb(lambda row: tagged(row, *kinds))
    no, senses, us = mood == "request" and author.chance(0.15), verb["senses"], mood == "lets"
    if not us:
        senses = " ".join(sense for sense in senses.split() if sense in KNOWN.split()) or "definite"
    subject = Phrase(entry("pronouns", "we")) if us else None
    parts = author.complete(verb, mood, subject, negated=no, share=0.19, senses=senses)
    parts.pop("subject", None)
    if us and author.chance(0.3):
        parts |= author.time(verb, "will", only="time")
    return [Clause(verb, mood, parts, no)]


def request(author: Author) -> list[Clause]:
    return told_to(author, "request", "request", "command")


def command(author: Author) -> list[Clause]:
    return told_to(author, "command", "command")


def lets(author: Author) -> list[Clause]:
    author.used |= {"I", "we", "my", "our"}
    return told_to(author, "lets", "lets")


# --- being


def described(author: Author, *, senses: str = "possessive this") -> Clause:
    """Somebody or something is as an adjective says."""
    row = author.fresh(row for row in table("adjectives") if row["use"] != "weather")
    classes = row["class"] + (" name third" if fits(row, ["person", "kin"]) else "")
    subject = author.phrase(classes, "subject", senses=senses, plain=True)
    return Clause(be("predicate"), "present", {"subject": subject, "predicate": row})


def description(author: Author) -> list[Clause]:
    told = described(author)
    return [replace(told, mood="past" if author.chance(0.35) else "present", negated=author.chance(0.15))]


def comparison(author: Author) -> list[Clause]:
    row = author.fresh(row for row in table("adjectives") if row["en_more"])
    if fits(row, ["person", "kin", "adult", "male"]):
        people = "kin" if fits(row, ["male"]) else "kin name"
        subject = author.phrase(people + (" third" if people != "kin" else ""), "subject")
        other = author.phrase(people, "than", subject=subject)
    else:
        subject = author.phrase(row["class"], "subject", senses="possessive this", plain=True)
        if subject.count != "count":
            raise IndexError("not to be compared")
        other = author.determined(subject.head, "than", "possessive", subject, plain=True)
        ours = {"my", "our"} == {phrase.determiner["en"] for phrase in (subject, other) if phrase.determiner}
        if subject.plural or other.plural or ours or not (other.possessor or other.sense == "possessive"):
            raise IndexError("not to be compared")
    parts = {"subject": subject, "predicate": row, "than": replace(other, preposition=entry("prepositions", "than"))}
    return [Clause(be("predicate"), "past" if author.chance(0.15) else "present", parts)]


def spot(author: Author, row: Row, thing: Phrase) -> Phrase:
    """In a room, on or under a table: a row of places.tsv."""
    place = entry("nouns", row["place"])
    author.used.add(place["en"])
    told = Phrase(place, determiner=entry("determiners", "the"))
    if place["place"]:
        return replace(told, preposition=at(place))
    low = fits(thing.head, ["case", "ball", "doll", "pet", "clothes"]) and not fits(place, ["top"])
    name = author.rng.choice(["under", "next to", "behind"]) if low and author.chance(0.4) else "on"
    return replace(told, preposition=entry("prepositions", name))


def existence(author: Author) -> list[Clause]:
    row, no = author.rng.choice(table("places")), author.chance(0.2)
    wide = fits(entry("nouns", row["place"]), ["green", "wilderness", "sight"])
    senses = "bare" if no else "indefinite bare number" + (" many" if wide else "")
    subject = author.phrase(row["new"], "subject", senses=senses)
    parts = {"there": entry("particles", "there"), "place": spot(author, row, subject), "subject": subject}
    verb = be("place", "いる" if fits(subject.head, LIVING) else "ある")
    return [Clause(verb, "past" if author.chance(0.3) else "present", parts, no, front="place")]


def whereabouts(author: Author) -> list[Clause]:
    if author.chance(0.5):
        verb, row = be("place", "ある"), author.rng.choice([row for row in table("places") if row["known"]])
        subject = author.phrase(row["known"], "subject", senses="definite possessive", plain=True)
        place = spot(author, row, subject)
        if subject.plural:
            raise IndexError("no plural")
    else:
        verb = be("place", "いる")
        subject = author.phrase(f"{PEOPLE} pet", "subject", senses="definite possessive", plain=True)
        pet = fits(subject.head, ["pet"])
        if not pet and author.chance(0.25):
            noun = author.fresh(row for row in table("nouns") if fits(row, ["front"]))
            front = entry("prepositions", "in front of")
            place = Phrase(noun, determiner=entry("determiners", "the"), preposition=front)
        else:
            place = author.place("garden living_room kitchen park" if pet else verb["place"], subject)
    parts = {"subject": subject, "place": place}
    return [Clause(verb, "past" if author.chance(0.3) else "present", parts, author.chance(0.15))]


def measure(author: Author) -> list[Clause]:
    row = author.rng.choice(table("measured"))
    number = author.rng.choice([number for number in table("measures") if fits(number, [row["measure"]])])
    subject = author.phrase(row["things"], "subject", senses=row["senses"], plain=row["frame"] == "age")
    if subject.plural or subject.count == "plural":
        raise IndexError("no plural")
    if subject.adjective and subject.adjective["en"] in ("expensive", "cheap", "broken", "dirty", "wet"):
        raise IndexError("a price says it")
    verb = be("measure") if row["frame"] == "age" else author.verb(named("cost"))
    return [Clause(verb, "present", {"subject": subject, "measure": number})]


def ache(author: Author) -> list[Clause]:
    noun, owner = author.fresh(row for row in table("nouns") if row["count"] == "body"), None
    determiner = entry("determiners", author.rng.choice(["my", "his", "her"]))
    if author.chance(0.7):
        owner, determiner = author.phrase("name kin", "possessor", senses="possessive"), entry("determiners", "the")
        if owner.sense and owner.determiner != entry("determiners", "my"):
            raise IndexError("two owners")
    subject = Phrase(noun, determiner=determiner, possessor=owner)
    return [Clause(author.verb(named("hurt")), "present", {"subject": subject})]


def belonging(author: Author) -> list[Clause]:
    subject = author.phrase("item vehicle clothes instrument case device", "subject", senses="this")
    if subject.sense != "this":
        raise IndexError("told already")
    owner = author.phrase("name kin pronoun friendly", "object", senses="possessive definite", plain=True)
    if not author.wears(owner, subject):
        raise IndexError("not his")
    return [
        Clause(author.verb(named("belong to")), "present", {"subject": subject, "object": owner}, author.chance(0.15))
    ]


# --- the weather


def sky(author: Author, name: str, mood: str, time: str = "") -> Clause:
    """It rains, it is cold."""
    parts: dict[str, Phrase | Row | Clause] = {"subject": Phrase(entry("pronouns", "it"))}
    if time:
        parts["time"] = entry("adverbs", time)
    if name in ("rain", "snow"):
        return Clause(author.verb(named(name)), mood, parts)
    row = next(row for row in table("adjectives") if row["use"] == "weather" and row["en"] == name)
    return Clause(be("predicate"), mood, parts | {"predicate": row})


def weather(author: Author) -> list[Clause]:
    if author.chance(0.4):
        verb, mood = author.verb(named("rain", "snow")), author.rng.choice(["past", "will"])
        time = next(iter(author.time(verb, mood, only="time").values()))
        told = Clause(verb, mood, {"subject": Phrase(entry("pronouns", "it")), "time": time})
        return [replace(told, negated=mood == "past" and author.chance(0.3))]
    name = author.rng.choice([row["en"] for row in table("adjectives") if row["use"] == "weather"])
    past = ["yesterday", "the day before yesterday", "this morning", "yesterday evening"]
    mood, time = author.rng.choice([("present", "today"), ("past", author.rng.choice(past))])
    return [replace(sky(author, name, mood, time), negated=author.chance(0.2))]
