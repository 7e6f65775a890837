"""One function for each pattern of several clauses in patterns.tsv: reasons, conditions, relative clauses and others.

What leads to what is told in reasons.tsv and errands.tsv, so that a sentence makes sense as a whole.
"""

from __future__ import annotations

from dataclasses import replace

from headway.data.phrasebook.draw import (
    FEMALE,
    KNOWN,
    MALE,
    OWNERS,
    PEOPLE,
    Author,
    Parts,
    doing,
    fits,
    is_event,
    is_state,
    named,
    tagged,
    to,
)
from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, table
from headway.data.phrasebook.scenes import LIVING, be, described, sky, when, where


def deed(author: Author, names: str) -> Row:
    """A verb out of `swim;drink:water juice`, with the classes of its object where they are named."""
    parted = (name.partition(":") for name in names.split(";"))
    wanted = {name: things for name, _, things in parted}
    verb = author.verb(lambda row: row["en"] in wanted and is_event(row))
    return {**verb, "object": wanted[verb["en"]] or verb["object"]}


def did(author: Author, verb: Row, subject: Phrase, share: float = 0, *, no: bool = False) -> Clause:
    return Clause(
        verb, author.mood(verb, {"past"}), author.complete(verb, "past", subject, negated=no, share=share), no
    )


def is_so(subject: Phrase, name: str, mood: str) -> Clause:
    return Clause(be("predicate"), mood, {"subject": subject, "predicate": entry("adjectives", name)})


def somebody(author: Author) -> Phrase:
    classes = "name kin pronoun man woman doctor police_officer"
    return author.phrase(classes, "subject", senses="definite possessive", plain=True)


def pronoun_of(author: Author, subject: Phrase) -> Phrase:
    """He for Peter, she for my mother: where the languages agree on it."""
    name, classes = subject.head["en"], subject.head.get("class", "").split()
    if subject.kind in ("first", "third"):
        return subject
    if subject.plural or subject.count == "plural":
        key = "they"
    elif name in MALE or "male" in classes:
        key = "he"
    elif name in FEMALE or "female" in classes:
        key = "she"
    else:
        raise IndexError("he or she?")
    if key in author.used:
        raise IndexError("that would be somebody else")
    author.used |= {key} | {mine for mine, owner in OWNERS.items() if owner == key}
    return Phrase(entry("pronouns", key))


# --- clauses with `dass`, indirect questions, `um ... zu`


def that(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: row["frame"] == "that")
    name, mood = verb["en"], "past" if verb["en"] == "hear" else "present"
    subject = author.subject(verb, senses="possessive")
    if name in ("say", "think", "know") and author.chance(0.35):
        inner = replace(described(author), mood="past" if author.chance(0.3) else "present")
        if inner.subject and inner.subject.kind == "third" and subject.kind != "first":
            raise IndexError("he himself?")
    else:
        moods = {"hear": {"past"}, "hope": {"will"}}.get(
            name, {"past", "will", "habit", "present", "can", "have to", "want to"}
        )
        act = author.verb(
            lambda row: tagged(row, "news") if name == "hear" else doing(row) or (is_state(row) and is_event(row))
        )
        classes = "kin name friendly third" if subject.kind == "first" else "kin name friendly"
        other = author.phrase(classes, "subject", senses="possessive definite", subject=subject, plain=True)
        negated = 0 if name == "hope" else 0.1
        inner = author.event(act, moods=moods, subject=other, share=0.15, negated=negated, time=0.3)
    return [Clause(verb, mood, {"subject": subject, "complement": inner})]


def place_known(author: Author) -> list[Clause]:
    subject = author.phrase("name kin pronoun", "subject")
    told = where(author, "person kin name")[0] if author.chance(0.75) else when(author)[0]
    if subject.kind != "first" and told.subject and told.subject.kind == "third":
        raise IndexError("he himself?")
    verb = next(row for row in table("verbs") if row["en"] == "know" and row["frame"] == "that")
    return [Clause(verb, "present", {"subject": subject, "place_known": told}, negated=True)]


def purpose(author: Author) -> list[Clause]:
    verb, errand = author.verb(lambda row: row["frame"] == "goal"), author.rng.choice(table("errands"))
    subject = author.subject(verb, senses=KNOWN)
    goal = author.place(errand["goal"], subject, to)
    act = next(row for row in table("verbs") if row["en"] == errand["verb"])
    inner = author.complete({**act, "object": errand["object"] or act["object"]}, "purpose", subject, share=0)
    del inner["subject"]
    mood = author.mood(verb, {"past", "will", "want to", "have to"})
    parts: Parts = {"subject": subject, "goal": goal, "purpose": Clause(act, "present", inner)}
    if mood == "will" or author.chance(0.3):
        parts |= author.time(verb, mood, only="time")
    return [Clause(verb, mood, parts)]


# --- reasons


def caused(author: Author, link: str) -> list[Clause]:
    """Two clauses on one person: what she does, and how she is."""
    row = author.rng.choice([row for row in table("reasons") if row["link"] == link])
    subject, no, past = somebody(author), bool(row["negated"]), author.chance(0.7)
    again, verb = pronoun_of(author, subject), deed(author, row["verbs"])
    now = (
        {"can", "want to"} if no else {"progressive"} if tagged(verb, "progressive") else {"can", "want to", "have to"}
    )
    mood = author.mood(verb, {"past"} if past else now)
    parts = author.complete(verb, mood, subject, negated=no, share=0)
    return [Clause(verb, mood, parts, no), is_so(again, row["cause"], "past" if past else "present")]


def because(author: Author) -> list[Clause]:
    return caused(author, "because")


def although(author: Author) -> list[Clause]:
    return caused(author, "although")


def because_weather(author: Author) -> list[Clause]:
    row = author.rng.choice([row for row in table("reasons") if row["link"] == "weather"])
    verb = deed(author, row["verbs"])
    return [did(author, verb, somebody(author), no=bool(row["negated"])), sky(author, row["cause"], "past")]


def condition(author: Author) -> list[Clause]:
    rows = [row for row in table("reasons") if row["link"].startswith("if ")]
    link = author.rng.choice(sorted({row["link"] for row in rows}))
    row = author.rng.choice([row for row in rows if row["link"] == link])
    name, moods = row["cause"], {"will", "can"}
    if link == "if weather":
        tomorrow = name in ("rain", "snow") and author.chance(0.5)
        first, subject = sky(author, name, "present", "tomorrow" if tomorrow else ""), somebody(author)
    else:
        one = author.phrase("name kin", "subject")
        if link == "if person":
            first, moods = is_so(one, name, "present"), {"will", "can", "should", "have to"}
        else:
            act = author.verb(lambda row: row["en"] == name and row["ja"] != "訪れる")
            act = {**act, "object": "name kin first"} if name in ("visit", "call") else act
            parts = author.complete(act, "if", one, share=0)
            if author.chance(0.4):
                parts["time"] = entry("adverbs", author.rng.choice(["tomorrow", "this evening", "today"]))
            first = Clause(act, "present", parts)
        subject = author.phrase("name kin first", "subject")
    verb = deed(author, row["verbs"])
    mood = author.mood(verb, moods)
    return [first, Clause(verb, mood, author.complete(verb, mood, subject, share=0))]


# --- one after the other


def before(author: Author) -> list[Clause]:
    subject = somebody(author)
    again = pronoun_of(author, subject)
    verb = author.verb(lambda row: doing(row) and tagged(row, "home") and row["en"] not in ("sleep", "go to bed"))
    return [did(author, verb, subject, 0.2), did(author, author.verb(lambda row: tagged(row, "then")), again)]


def sequence(author: Author) -> list[Clause]:
    subject = author.phrase(PEOPLE, "subject", senses=KNOWN, plain=True)
    first = did(author, author.verb(named("go home")), subject)
    if author.chance(0.25):
        first = replace(first, parts={**first.parts, **author.time(first.verb, "past", only="time")})
    verb = author.verb(lambda row: doing(row) and tagged(row, "home") and row["de_auxiliary"] == "have")
    return [first, did(author, {**verb, "place": ""}, subject, 0.15)]


def addition(author: Author) -> list[Clause]:
    told: list[Clause] = []
    for classes in ("name kin third", "name kin"):
        verb = author.verb(lambda row: doing(row) and tagged(row, "home"))
        told.append(did(author, verb, author.phrase(classes, "subject"), 0.1))
    return told


def contrast(author: Author) -> list[Clause]:
    """Two people, one verb."""
    verb = author.verb(lambda row: tagged(row, "contrast"))
    mood, told = "present" if is_state(verb) else "can" if verb["en"] == "speak" else "past", list[Clause]()
    for classes in ("name kin third", "name kin first"):
        subject = author.phrase(classes, "subject")
        told.append(Clause(verb, mood, author.complete(verb, mood, subject, share=0)))
    thing = told[1].parts.get("object")
    no = author.chance(0.25) and not (isinstance(thing, Phrase) and thing.sense in ("number", "many"))
    return [told[0], replace(told[1], negated=no)]


# --- relative clauses


def of_whom(author: Author, thing: Phrase, people: str) -> Phrase:
    """The book that Anna wrote."""
    if thing.kind or thing.possessor or thing.plural or thing.sense == "possessive" or thing.count == "unique":
        raise IndexError("told already")
    if fits(thing.head, LIVING):
        raise IndexError("not made by anybody")
    kinds = thing.head["class"].split()
    verb = author.verb(lambda row: tagged(row, "made") and fits(row, kinds, "object"))
    parts: Parts = {
        "subject": author.phrase(people, "subject"),
        "object": Phrase(thing.head, thing.plural, relative=True),
    }
    inner = Clause(verb, author.mood(verb, {"past"}), parts, front="object")
    return replace(thing, determiner=entry("determiners", "the"), adjective=None, clause=inner)


def relative_subject(author: Author) -> list[Clause]:
    told = described(author, senses="definite this")
    assert told.subject
    subject = of_whom(author, told.subject, "name kin pronoun")
    mood = author.rng.choice(["present", "past"])
    return [replace(told, mood=mood, parts={**told.parts, "subject": subject})]


def relative_object(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: tagged(row, "kept"))
    told = author.event(verb, moods={"past"}, share=0, time=0, negated=0.05, known=True)
    thing = told.parts["object"]
    assert isinstance(thing, Phrase)
    return [replace(told, parts={**told.parts, "object": of_whom(author, thing, "name kin first")})]


def relative_person(author: Author) -> list[Clause]:
    noun = author.fresh(row for row in table("nouns") if fits(row, ["somebody"]))
    verb = author.verb(lambda row: tagged(row, "met"))
    kind = "person" if fits(noun, ["youth"]) else "adult"
    act = author.verb(lambda row: tagged(row, "told") and fits(row, ["person", kind], "subject"))
    knows = verb["en"] == "know"
    mood = author.mood(act, {"past", "present", *(["progressive"] if knows else [])})
    senses = " ".join(sense for sense in act["senses"].split() if sense != "this")
    lost = Phrase(noun, relative=True)
    inner = Clause(act, mood, author.complete(act, mood, lost, share=0.2, senses=senses))
    told = Phrase(noun, determiner=entry("determiners", "the"), clause=inner)
    subject = author.phrase("name kin pronoun", "subject")
    return [Clause(verb, "present" if knows else "past", {"subject": subject, "object": told})]
