"""One function for each pattern of several clauses in patterns.tsv: reasons, conditions, relative clauses and others.

What leads to what is told in reasons.tsv, errands.tsv and contrasts.tsv, so that a sentence makes sense as a whole.
"""

from __future__ import annotations

from dataclasses import replace

from headway.data.phrasebook.draw import OWNERS, Parts, doing, fits, is_event, is_state, named, tagged, to
from headway.data.phrasebook.events import Author
from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, table
from headway.data.phrasebook.scenes import LIVING, be, described, plain, sky, swayed, when, where

GROUPS = ("chore", "outing", "quiet", "music")


def narrowed(verb: Row, things: str) -> Row:
    """The verb with a narrower class of objects, one thing of each and no adjective."""
    senses = [sense for sense in verb["senses"].split() if sense not in ("number", "this")]
    return {**verb, "object": things or verb["object"], "adjectives": "", "senses": " ".join(senses)}


def deed(author: Author, names: str) -> Row:
    """A verb out of `swim;drink:water juice`, with the classes of its object where they are named."""
    parted = (name.partition(":") for name in names.split(";"))
    wanted = {name: things for name, _, things in parted}
    verb = author.verb(
        lambda row: (
            row["en"] in wanted and is_event(row) and (not wanted[row["en"]] or taken(row, wanted[row["en"]]) != "")
        )
    )
    return narrowed(verb, taken(verb, wanted[verb["en"]]))


def taken(verb: Row, things: str) -> str:
    """Those of the classes that the verb takes."""
    goods = [row for row in table("nouns") if fits(verb, row["class"].split(), "object")]
    return " ".join(thing for thing in things.split() if any(fits(row, [thing]) for row in goods))


def did(author: Author, verb: Row, subject: Phrase, share: float = 0) -> Clause:
    plain = narrowed(verb, "")
    return Clause(verb, author.mood(verb, {"past"}), author.complete(plain, "past", subject, share=share))


def is_so(subject: Phrase, name: str, mood: str) -> Clause:
    return Clause(be("predicate"), mood, {"subject": subject, "predicate": entry("adjectives", name)})


def somebody(author: Author) -> Phrase:
    return author.phrase("name kin pronoun", "subject", senses="possessive")


def pronoun_of(author: Author, subject: Phrase) -> Phrase:
    """He for Peter, she for my mother: where the languages agree on it."""
    if subject.kind in ("first", "third"):
        return subject
    if subject.plural or subject.count == "plural":
        key = "they"
    elif fits(subject.head, ["male"]):
        key = "he"
    elif fits(subject.head, ["female"]):
        key = "she"
    else:
        raise IndexError("he or she?")
    if key in author.used:
        raise IndexError("that would be somebody else")
    author.used |= {key} | {mine for mine, owner in OWNERS.items() if owner == key}
    return Phrase(entry("pronouns", key))


# --- clauses with `dass`, indirect questions, `um ... zu`

THEIRS = {"he", "she", "his", "her"}
HEARD, REPORTED = {"past"}, ("news", "state", "habit", "modal")
TOLD = {"past", "habit", "present", "can", "have to", "want to"}


def passing(told: Clause) -> bool:
    """Whether the description tells how somebody is just now."""
    row = told.row("predicate")
    return row is not None and bool(row["state"]) and fits(row, ["kin"])


def that(author: Author) -> list[Clause]:
    verb = author.verb(lambda row: row["frame"] == "that")
    heard = verb["en"] == "hear"
    subject = author.phrase(verb["subject"].replace("person ", ""), "subject", senses="possessive")
    author.used |= set() if subject.kind == "first" else THEIRS  # he himself?
    if verb["en"] in ("say", "know") and author.chance(0.35):
        inner = swayed(author, described(author, inner=True))
        if verb["en"] == "say" and not passing(inner):
            raise IndexError("映画が面白いと言っている")
    else:
        act = author.verb(
            lambda row: (
                is_event(row)
                and not tagged(row, "moment", "timeless", "routine")
                and fits(row, ["kin"], "subject")
                and row["ja_particle"] != "が"  # エマが猫が好き
                and (tagged(row, "news") if heard else tagged(row, *REPORTED))
            )
        )
        classes = "kin name third" if subject.kind == "first" else "kin name"
        other = author.phrase(classes, "subject", senses="possessive", subject=subject)
        negated = 0 if heard or verb["en"] == "think" else 0.05
        moods = HEARD if heard else TOLD | ({"will"} if tagged(act, "far") else set())
        inner = author.event(plain(act), moods=moods, subject=other, share=0, negated=negated, time=0.3)
    return [Clause(verb, "past" if heard else "present", {"subject": subject, "complement": inner})]


def place_known(author: Author) -> list[Clause]:
    subject = author.phrase("name kin pronoun", "subject")
    author.used |= set() if subject.kind == "first" else THEIRS
    told = where(author)[0] if author.chance(0.75) else when(author)[0]
    verb = next(row for row in table("verbs") if row["en"] == "know" and row["frame"] == "that")
    return [Clause(verb, "present", {"subject": subject, "place_known": told}, negated=True)]


def purpose(author: Author) -> list[Clause]:
    verb, errand = author.verb(lambda row: row["frame"] == "goal"), author.rng.choice(table("errands"))
    subject = author.subject(verb)
    goal = author.place(errand["goal"], subject, to)
    author.used |= {"on Saturday", "on Sunday"} if errand["goal"] == "school" else set()
    act = deed(author, f"{errand['verb']}:{errand['object']}" if errand["object"] else errand["verb"])
    inner = author.complete(act, "purpose", subject, share=0, senses="indefinite bare")
    del inner["subject"]
    mood = author.mood(verb, {"past", "will", "want to"})
    parts: Parts = {"subject": subject, "goal": goal, "purpose": Clause(act, "present", inner)}
    if mood == "will" or author.chance(0.3):
        parts |= author.time({**verb, "kind": "daily"}, mood, only="time")
    return [Clause(verb, mood, parts)]


# --- reasons


def linked(author: Author, link: str) -> Row:
    return author.rng.choice([row for row in table("reasons") if row["link"] == link])


def caused(author: Author, link: str) -> list[Clause]:
    """Two clauses on one person: what she does, and how she is."""
    row = linked(author, link)
    people = "name kin third" if link == "although" else "name kin pronoun"  # のに of others only
    subject, no = author.phrase(people, "subject", senses="possessive"), row["negated"]
    again, verb = pronoun_of(author, subject), deed(author, row["verbs"])
    past = not no and author.chance(0.7)  # `she did not work because` denies either
    mood = no or ("past" if past else "progressive" if tagged(verb, "progressive") else "want to")
    parts = author.complete(verb, mood, subject, negated=bool(no), share=0)
    return [Clause(verb, mood, parts, bool(no)), is_so(again, row["cause"], "past" if past else "present")]


def because(author: Author) -> list[Clause]:
    return caused(author, "because")


def although(author: Author) -> list[Clause]:
    return caused(author, "although")


def because_weather(author: Author) -> list[Clause]:
    row = linked(author, "weather")
    mood = "raining" if row["cause"] in ("rain", "snow") else "past"
    return [did(author, deed(author, row["verbs"]), somebody(author)), sky(author, row["cause"], mood)]


def first_of(author: Author, row: Row) -> Clause:
    """What comes first in a condition: the weather, or how somebody is."""
    name = row["cause"]
    if row["link"] == "if weather":
        tomorrow = name in ("rain", "snow") and author.chance(0.5)
        return sky(author, name, "present", "tomorrow" if tomorrow else "")
    return is_so(author.phrase("name kin", "subject"), name, "present")


def condition(author: Author) -> list[Clause]:
    row = linked(author, author.rng.choice(["if weather", "if person"]))
    first = first_of(author, row)
    subject = author.phrase("name kin first", "subject")
    verb = deed(author, row["verbs"])
    mood = author.mood(verb, {"will", "can"})
    return [first, Clause(verb, mood, author.complete(verb, mood, subject, share=0))]


# --- one after the other


def before(author: Author) -> list[Clause]:
    row = linked(author, "before")
    subject = somebody(author)
    again, verb = pronoun_of(author, subject), deed(author, row["verbs"])
    return [did(author, verb, subject), did(author, author.verb(named(row["cause"])), again)]


def sequence(author: Author) -> list[Clause]:
    subject = somebody(author)
    first = did(author, author.verb(named("go home")), subject)
    if author.chance(0.25):
        first = replace(
            first, parts={**first.parts, **author.time({**first.verb, "kind": "moment"}, "past", only="time")}
        )
    verb = author.verb(lambda row: doing(row) and tagged(row, "home") and row["de_auxiliary"] == "have")
    return [first, did(author, {**verb, "place": ""}, subject)]


def addition(author: Author) -> list[Clause]:
    """Two people with two chores, two outings, or the like."""
    group, told = author.rng.choice(GROUPS), list[Clause]()
    for classes in ("name kin third", "name kin"):
        verb = author.verb(lambda row: doing(row) and tagged(row, group))
        told.append(did(author, verb, author.phrase(classes, "subject")))
    return told


def contrast(author: Author) -> list[Clause]:
    """Two people, one verb, and two things of one narrow class: a row of contrasts.tsv."""
    row, told = author.rng.choice(table("contrasts")), list[Clause]()
    goal = row["verb"] == "go"
    verb = deed(author, f"{row['verb']}:{row['object']}" if row["object"] and not goal else row["verb"])
    verb = {**verb, "place": row["object"]} if goal else verb
    for classes in ("name kin third", "name kin first"):
        subject = author.phrase(classes, "subject")
        told.append(Clause(verb, row["mood"], author.complete(verb, row["mood"], subject, share=0)))
    return told


# --- relative clauses


def of_whom(author: Author, thing: Phrase, people: str) -> Phrase:
    """The book that Anna wrote."""
    if thing.kind or thing.possessor or thing.plural or thing.sense == "possessive" or thing.count == "unique":
        raise IndexError("told already")
    if fits(thing.head, LIVING):
        raise IndexError("not made by anybody")
    kinds = thing.head["class"].split()
    verb = author.verb(lambda row: tagged(row, "made") and fits(row, kinds, "object"))
    lost = Phrase(thing.head, thing.plural, relative=True)
    subject = author.phrase(people, "subject")
    if tagged(verb, "alone") and subject.several:
        raise IndexError("one coat for all of them")
    parts: Parts = {"subject": subject, "object": lost}
    inner = Clause(verb, author.mood(verb, {"past"}), parts, front="object")
    return replace(thing, determiner=entry("determiners", "the"), adjective=None, clause=inner)


def relative_subject(author: Author) -> list[Clause]:
    told = described(author, senses="definite this")
    assert told.subject
    subject = of_whom(author, told.subject, "name kin pronoun")
    return [replace(swayed(author, told), parts={**told.parts, "subject": subject})]


def relative_object(author: Author) -> list[Clause]:
    verb = narrowed(author.verb(lambda row: tagged(row, "kept")), "")
    subject = author.phrase("name kin pronoun", "subject")
    told = Clause(verb, "past", author.complete({**verb, "senses": "definite"}, "past", subject, share=0))
    thing = told.parts["object"]
    assert isinstance(thing, Phrase)
    return [replace(told, parts={**told.parts, "object": of_whom(author, thing, "name kin first")})]


def relative_person(author: Author) -> list[Clause]:
    """I thanked the man who found my wallet."""
    noun = author.fresh(row for row in table("nouns") if fits(row, ["somebody"]))
    verb = author.verb(lambda row: tagged(row, "met", "knows"))
    acts = ("kindly",) if tagged(verb, "met") else ("kindly", "skilled")
    kind = "person" if fits(noun, ["youth"]) else "adult"
    act = author.verb(lambda row: tagged(row, *acts) and fits(row, ["person", kind], "subject"))
    skill = fits(act, ["bare", "played"], "senses")
    mood = author.mood(act, {"present"} if is_state(act) else {"can"} if skill else {"past"})
    lost, ours = Phrase(noun, relative=True), {"I", "we"}
    author.used |= ours | {"my", "our"}  # 私の母を手伝ってくれた
    inner = Clause(act, mood, author.complete(plain(act), mood, lost, share=0))
    author.used -= ours
    told = Phrase(noun, determiner=entry("determiners", "the"), clause=inner)
    subject = author.phrase("name kin pronoun", "subject")
    return [Clause(verb, "present" if is_state(verb) else "past", {"subject": subject, "object": told})]
