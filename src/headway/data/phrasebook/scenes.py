"""One function for each pattern of one clause in patterns.tsv: it draws what such a sentence tells."""

from __future__ import annotations

from dataclasses import replace

from headway.data.phrasebook.draw import (
    KNOWN,
    Words,
    at,
    doing,
    fits,
    is_event,
    named,
    tagged,
    tokens,
)
from headway.data.phrasebook.events import Author
from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, table

WORTHY = ("kin", "work", "meal", "hard", "show", "building")  # of what people say how it is
LIVING = {"human", "kin", "animal", "infant"}


def be(frame: str, ja: str = "", de: str = "sein") -> Row:
    """The row of `be` for a frame, and for what lives (いる) or not (ある)."""
    rows = (row for row in table("verbs") if row["en"] == "be" and (row["frame"], row["de"]) == (frame, de))
    return next(row for row in rows if not ja or row["ja"] == ja)


def brief(verb: Row) -> str:
    """The kinds of the verb but those that give it a duration."""
    return " ".join(kind for kind in verb["kind"].split() if kind not in ("duration", "short"))


# --- statements


def statement(author: Author) -> list[Clause]:
    told = author.event(author.verb(is_event))
    if told.mood == "may" and not told.negated:
        raise IndexError("leave is asked for")
    return [told]


def fronted(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: doing(row) and not tagged(row, "morning", "night", "timeless"))
    moods = {"past", "habit", "have to", "had to", "will"}
    verb = {**verb, "manner": "", "kind": brief(verb)}
    told = author.event(verb, moods=moods, share=0.3, negated=0, time=1, known=True, times="time")
    return [replace(told, front="time")]


# --- questions: of somebody else, and nothing new in them


def plain(verb: Row) -> Row:
    """The verb with objects that are known, where it has such, and without adjective, manner and duration."""
    known = " ".join(sense for sense in verb["senses"].split() if sense in KNOWN.split())
    senses = known or verb["senses"].replace("number", "").replace("many", "")
    return {**verb, "adjectives": "", "manner": "", "kind": brief(verb), "senses": senses}


def asked(author: Author, verb: Row, **how) -> Clause:
    told = author.event(plain(verb), third=True, known=True, **{"negated": 0.0, **how})
    if told.mood == "past" and verb["en"] == "wait for":
        raise IndexError("待っていましたか")
    return told


def put(told: Clause, name: str, part: Phrase | Row) -> Clause:
    """The clause with a question word for a part."""
    return replace(told, parts={**told.parts, name: part}, front=name)


def question(author: Author) -> list[Clause]:
    if author.chance(0.12):
        verb = author.verb(lambda row: tagged(row, "may", "leave"))
        subject = Phrase(entry("pronouns", author.rng.choice(["I", "we"])))
        author.used |= {"I", "we", "my", "our"}
        return [author.event({**plain(verb), "kind": "may"}, moods={"may"}, subject=subject, share=0.2, negated=0)]
    verb = author.verb(lambda row: is_event(row) and not tagged(row, "timeless"))
    moods = {"past", "progressive", "habit", "can", "want to", "will", "present", "have to"}
    verb = {**verb, "extra": "" if verb["extra"] == "for" else verb["extra"]}
    return [asked(author, verb, moods=moods, share=0.4, times="time")]


def whereabouts_asked(author: Author, kind: str) -> Clause:
    """Where is my key, where was Anna yesterday?"""
    living = kind == "いる"
    classes = "kin name third pet" if living else "small bag camera phone dictionary"
    subject = author.phrase(classes, "subject", senses="possessive")
    verb = be("place", kind)
    if living and author.chance(0.4):
        time = entry("adverbs", author.rng.choice(["yesterday", "this morning", "yesterday evening"]))
        return Clause(verb, "past", {"subject": subject, "time": time})
    return Clause(verb, "present", {"subject": subject})


def where(author: Author) -> list[Clause]:
    kind, somewhere = (
        author.weighted({"event": 4, "goal": 2, "live": 1, "ある": 2, "いる": 2}),
        entry("adverbs", "where"),
    )
    if kind in ("ある", "いる"):
        return [put(whereabouts_asked(author, kind), "place", somewhere)]
    if kind == "live":
        return [put(asked(author, author.verb(named("live")), moods={"present"}), "place", somewhere)]
    if kind == "goal":
        verb = author.verb(named("go", "travel", "fly"))
        told = asked(author, verb, moods={"past"}, share=0, times="time")
        return [put(told, "goal", entry("adverbs", "wohin", "de"))]
    verb = author.verb(lambda row: tagged(row, "where"))
    verb, time = {**verb, "senses": "definite"}, 0 if tagged(verb, "far") else 0.4
    told = asked(author, verb, moods={"past", "progressive"}, share=0, time=time, times="time")
    return [put(told, "place", somewhere)]


def when(author: Author) -> list[Clause]:
    told = asked(author, author.verb(lambda row: tagged(row, "when")), moods={"past", "will", "present"}, share=0)
    parts = {name: part for name, part in told.parts.items() if name not in ("time", "clock", "frequency")}
    return [put(replace(told, parts=parts), "time", entry("adverbs", "when"))]


def why(author: Author) -> list[Clause]:
    no = author.chance(0.35)
    verb = author.verb(lambda row: tagged(row, "whynot" if no else "why"))
    moods = {"past", "want to"} if no else {"past", "progressive", "have to", "want to"}
    told = asked(author, verb, moods=moods, share=0, time=0)
    parts = {name: part for name, part in told.parts.items() if name != "clock"}
    return [put(replace(told, negated=no, parts=parts), "reason", entry("adverbs", "why"))]


def what(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: tagged(row, "asked"))
    told = asked(author, verb, moods={"past", "progressive"}, share=0, time=0.4, times="time")
    return [put(told, "object", Phrase(entry("pronouns", "what")))]


def whom(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: doing(row) and fits(row, ["name"], "object") and " " not in row["de_object"])
    told = asked(author, verb, moods={"past", "will", "want to"}, share=0.3, time=0.4, times="time")
    return [put(told, "object", Phrase(entry("pronouns", "who")))]


def who(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: doing(row) or row["en"] == "live")
    subject, moods = Phrase(entry("pronouns", "who")), {"past", "progressive", "will", "can", "present", "want to"}
    return [
        author.event({**plain(verb), "extra": ""}, subject=subject, moods=moods, negated=0, share=0.3, times="time")
    ]


# --- requests


def told_to(author: Author, mood: str) -> list[Clause]:
    """Please open the door; open the door; let us bake a cake."""
    us = mood == "lets"
    verb = author.verb(lambda row: tagged(row, mood, *(["command"] if mood == "request" else [])))
    no = mood == "request" and tagged(verb, "moment", "timeless") and author.chance(0.2)
    senses = verb["senses"] if us else " ".join(tokens(verb["senses"]) & tokens(KNOWN)) or "definite"
    subject = Phrase(entry("pronouns", "we")) if us else None
    parts = author.complete(verb, mood, subject, negated=no, share=0.15, senses=senses)
    parts.pop("subject", None)
    if us and author.chance(0.3):
        parts |= author.time(verb, "will", only="time")
    return [Clause(verb, mood, parts, no)]


def request(author: Author) -> list[Clause]:
    return told_to(author, "request")


def command(author: Author) -> list[Clause]:
    return told_to(author, "command")


def lets(author: Author) -> list[Clause]:
    author.used |= {"I", "we", "my", "our"}
    return told_to(author, "lets")


# --- being


def described(author: Author, *, senses: str = "possessive this", inner: bool = False) -> Clause:
    """Somebody or something is as an adjective says; `inner`: in a clause that is a part of another."""
    row = author.fresh(
        row
        for row in table("adjectives")
        if row["use"] not in ("weather", "attribute")
        and not (inner and ("が" in row["ja"] or row["ja_group"] == "no" or not fits(row, WORTHY)))
    )
    classes = [name for name in row["class"].split() if not inner or name in WORTHY]
    classes += ["name", "third"] if fits(row, ["person", "kin"]) else []
    senses = "possessive" if row["state"] and fits(row, ["kin"]) else senses
    subject = author.phrase(" ".join(classes), "subject", senses=senses)
    return Clause(be("predicate"), "present", {"subject": subject, "predicate": row})


def swayed(author: Author, told: Clause) -> Clause:
    """The description now or then, so or not, where it tells of a state that passes."""
    adjective = told.row("predicate")
    if not adjective or not adjective["state"]:
        return told
    return replace(told, mood="past" if author.chance(0.4) else "present", negated=author.chance(0.2))


def description(author: Author) -> list[Clause]:
    return [swayed(author, described(author))]


def comparison(author: Author) -> list[Clause]:
    """Of two people, two buildings, two things of one narrow class (compared.tsv)."""
    row = author.rng.choice(table("compared"))
    adjective = entry("adjectives", author.rng.choice(row["adjectives"].split(";")))
    subject = author.phrase(row["subject"], "subject", senses=row["senses"])
    other = author.phrase(row["than"], "than", subject=subject, senses=row["senses"])
    mine = entry("determiners", "my")
    both = subject.determiner == other.determiner == mine and fits(subject.head, ["kin"])
    both = both or subject.sense == other.sense == "this"
    if subject.plural or other.plural or both:
        raise IndexError("no plural")
    than = replace(other, preposition=entry("prepositions", "than"))
    return [Clause(be("predicate"), "present", {"subject": subject, "predicate": adjective, "than": than})]


def spot(author: Author, row: Row, thing: Phrase) -> Phrase:
    """In a room, on or under a table: a row of places.tsv."""
    place = entry("nouns", row["place"])
    author.used.add(place["en"])
    told = Phrase(place, determiner=entry("determiners", "the"))
    if place["place"]:
        return replace(told, preposition=at(place))
    low = fits(thing.head, ["case", "ball", "doll", "pet", "shoes"]) and not fits(place, ["top"])
    name = author.rng.choice(["under", "next to", "behind"]) if low and author.chance(0.4) else "on"
    return replace(told, preposition=entry("prepositions", name))


def posture(row: Row, thing: Phrase) -> str:
    """The German verb: things stand and lie on furniture, es gibt bears in a forest."""
    if row["posture"] == "es":
        return "geben"
    if row["posture"]:
        return "stehen" if fits(thing.head, ["stands"]) else "liegen"
    return "sein"


def existence(author: Author) -> list[Clause]:
    row, no = author.rng.choice([row for row in table("places") if row["new"]]), author.chance(0.2)
    many = " number many" if row["posture"] == "es" else " number" if row["posture"] else ""
    subject = author.phrase(row["new"], "subject", senses="bare" if no else f"indefinite bare{many}")
    if no and subject.sense != "bare":
        raise IndexError("no one thing is missed")
    parts = {"there": entry("particles", "there"), "place": spot(author, row, subject), "subject": subject}
    verb = be("place", "いる" if fits(subject.head, LIVING) else "ある", posture(row, subject))
    past = row["posture"] != "es" and author.chance(0.3)
    return [Clause(verb, "past" if past else "present", parts, no, front="place")]


def whereabouts(author: Author) -> list[Clause]:
    verb = be("place", author.rng.choice(["ある", "いる"]))
    if verb["ja"] == "ある":
        row = author.rng.choice([row for row in table("places") if row["known"]])
        subject = author.phrase(row["known"], "subject", senses="possessive")
        if subject.plural:
            raise IndexError("no plural")
        verb, place = be("place", "ある", posture(row, subject)), spot(author, row, subject)
    else:
        subject = author.phrase("kin name pronoun friendly pet", "subject", senses="possessive")
        classes = "garden living_room kitchen" if fits(subject.head, ["pet"]) else verb["place"]
        if classes == verb["place"] and author.chance(0.25):
            noun = author.fresh(row for row in table("nouns") if fits(row, ["front"]))
            front = entry("prepositions", "in front of")
            place = Phrase(noun, determiner=entry("determiners", "the"), preposition=front)
        else:
            place = author.place(classes, subject)
    parts = {"subject": subject, "place": place}
    return [Clause(verb, "past" if author.chance(0.3) else "present", parts, author.chance(0.15))]


def measure(author: Author) -> list[Clause]:
    row = author.rng.choice(table("measured"))
    number = author.rng.choice([number for number in table("measures") if fits(number, [row["measure"]])])
    subject = author.phrase(row["things"], "subject", senses=row["senses"])
    if subject.plural or subject.count == "plural":
        raise IndexError("no plural")
    verb = be("measure") if row["frame"] == "age" else author.verb(named("cost"))
    return [Clause(verb, "present", {"subject": subject, "measure": number})]


def ache(author: Author) -> list[Clause]:
    """Only mine: Japanese tells of others that they show it."""
    noun = author.fresh(row for row in table("nouns") if row["count"] == "body")
    mood, times = author.rng.choice(
        [("present", ["", "today"]), ("past", ["yesterday", "this morning", "yesterday evening"])]
    )
    parts: dict[str, Phrase | Row | Clause] = {"subject": Phrase(noun, determiner=entry("determiners", "my"))}
    if time := author.rng.choice(times):
        parts["time"] = entry("adverbs", time)
    return [Clause(author.verb(named("hurt")), mood, parts)]


def belonging(author: Author) -> list[Clause]:
    subject = author.phrase("book dictionary small case wear vehicle instrument camera phone", "subject", senses="this")
    owner = author.phrase("name kin pronoun friendly", "object", senses="possessive")
    if owner.several and not fits(subject.head, ["shared"]):
        raise IndexError("one coat of all of them")
    verb = author.verb(named("belong to"))
    return [Clause(verb, "present", {"subject": subject, "object": owner}, author.chance(0.15))]


# --- the weather


def sky(author: Words, name: str, mood: str, time: str = "") -> Clause:
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
