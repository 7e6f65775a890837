"""English: a fixed order, do-support, progressive and modal verbs, a / an. Twin: tests/test_phrasebook.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway.data.phrasebook.grammar import Clause, Phrase, Row, arrange, entry, fill, join, order_of, tidy


def sentence(pattern: Row, clauses: Sequence[Clause]) -> str:
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", tidy(fill(pattern["en"], clauses, clause)))


def agreement(subject: Phrase | None) -> str:
    if subject is None:
        return "p"
    if subject.kind:
        return subject.head["agreement"]
    return "p" if subject.plural or subject.count == "plural" else "3"


def possessive(owner: Phrase) -> str:
    words = phrase(owner, "nom")
    return words + ("'" if words.endswith("s") else "'s")


def phrase(part: Phrase, case: str) -> str:
    head = part.head
    if part.relative:
        return "who" if "human" in head["class"].split() else "that"
    if part.kind:
        words = head["en" if case == "nom" else "en_object"]
    else:
        assert part.determiner is not None
        plural = part.plural or part.count == "plural"
        generic = part.sense == "bare" and part.count == "count"
        opening = possessive(part.possessor) if part.possessor else part.determiner["en_plural" if plural else "en"]
        noun = head["en_plural" if plural or generic else "en"]
        words = join(opening, part.adjective["en"] if part.adjective else "", noun)
    if part.preposition:
        words = f"{part.preposition['en']} {words}"
    if part.clause:
        words += " " + clause(part.clause, "final")
    return words


def verb(told: Clause, inverted: bool) -> tuple[str, str]:
    """(what stands before the subject of a question, the rest)."""
    row, mood, person = told.verb, told.finite_mood, agreement(told.subject)
    no = "not" if told.negated else ""
    if mood in ("request", "command", "lets"):
        return "", join("do not" if told.negated else "", row["en"])
    if "there" in told.parts:  # there is no milk
        no = ""
    if row["en"] == "be" and mood in ("present", "past"):
        return entry("auxiliaries", "be")[f"en_{person}" if mood == "present" else f"en_past_{person}"], no
    if mood == "raining":
        return entry("auxiliaries", "be")[f"en_past_{person}"], join(no, row["en_ing"])
    if mood == "progressive":
        return entry("auxiliaries", "be")[f"en_{person}"], join(no, row["en_ing"])
    base, finite = row["en"], row["en_past"] if mood == "past" else row["en_3"] if person == "3" else row["en"]
    if mood not in ("present", "past"):
        modal = entry("moods", mood)
        if modal["en_not"]:
            if told.negated and not inverted:
                return "", f"{modal['en_not']} {base}"
            return modal[f"en_{person}"], join(no, base)
        past = mood in ("had to", "wanted to")
        base, finite = f"{modal['en_base']} {base}", f"{modal[f'en_{person}']} {base}"
        mood = "past" if past else "present"
    if inverted or told.negated:
        do = entry("auxiliaries", "do")[f"en_{person}" if mood == "present" else f"en_past_{person}"]
        return (f"{do}n't", base) if inverted and told.negated else (do, join(no, base))
    return "", finite


def forms(name: str, row: Row) -> list[str]:
    """A row of a table in every form that a sentence may show, the dictionary's first."""
    found = [row[column] for column in row if column == "en" or column.startswith("en_")]
    if name == "nouns" or row.get("kind") == "name":
        found += [word + ("'" if word.endswith("s") else "'s") for word in found if word]
    return [form for form in dict.fromkeys(found) if form]


def clause(told: Clause, order: str) -> str:
    """A clause in one of the orders of orders.tsv."""
    spelled: dict[str, str] = {}
    for name, part in told.parts.items():
        if isinstance(part, Phrase):
            spelled[name] = phrase(part, "nom" if name in ("subject", "than") else "acc")
            if name == "subject" and "there" in told.parts and told.negated:
                spelled[name] = f"no {spelled[name]}"
        elif isinstance(part, Clause):
            link = {"complement": "that final", "place_known": "final", "purpose": "infinitive"}[name].split()
            spelled["complement" if name == "place_known" else name] = join(*link[:-1], clause(part, link[-1]))
        elif name == "predicate" and "than" in told.parts:
            spelled[name] = part["en_more"]
        elif name == "frequency":
            spelled["often"] = part["en"]
        else:
            spelled["time" if name == "clock" else name] = part["en"]
    inverted = order in ("question", "wh")
    if order == "infinitive":
        spelled["verb"] = told.verb["en"]
    else:
        spelled["aux"], spelled["rest"] = verb(told, inverted)
        if told.verb["frame"] == "travel" and told.row("goal"):  # where did she fly to?
            spelled["rest"] += " to"
        words = spelled["rest"].split()
        spelled["verb"] = join(spelled["aux"], spelled.get("often", ""), *words)
        if inverted and "often" in spelled:
            spelled["rest"] = join(spelled["often"], spelled["rest"])
    for name in ("please", "let's", "there", "to"):
        spelled[name] = name
    return arrange(order_of(order, "en"), spelled, told.front)
