"""The tree of a sentence and how each language spells it: tables, and the few rules that are not tables.

German: determiners and adjectives take their endings by case, gender and kind of determiner (endings.tsv); the finite
verb stands second, first or last, and participle, infinitive or separable prefix close the clause (orders.tsv); `kein`
denies what is indefinite and `nicht` the rest. English: a fixed order, do-support, a / an.
The twin is tests/test_phrasebook.py: sentences and paradigms written by hand.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

Row = Mapping[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """The rows of one TSV table."""
    text = files("headway.data.phrasebook").joinpath(f"{name}.tsv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def entry(name: str, key: str) -> Row:
    """The row of a table whose first column is `key`."""
    return next(row for row in table(name) if next(iter(row.values())) == key)


@cache
def ending(kind: str, case: str, gender: str) -> str:
    return next(row[gender] for row in table("endings") if (row["kind"], row["case"]) == (kind, case))


# --- the tree


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
    def agreement(self) -> str:
        return self.head.get("agreement") or ("p" if self.plural else "3")

    @property
    def indefinite(self) -> bool:
        return self.determiner is not None and self.determiner["sense"] in ("indefinite", "bare")


@dataclass(frozen=True)
class Clause:
    """A verb with its parts; `front` names the part that a main clause, a question or a relative clause opens with."""

    verb: Row
    tense: str  # present, past, or the English name of a modal verb
    parts: Mapping[str, Phrase | Row]  # subject, recipient, object, predicate, extra, place, time, adverb, reason
    negated: bool = False
    front: str = "subject"

    @property
    def agreement(self) -> str:
        subject = self.parts["subject"]
        assert isinstance(subject, Phrase)
        return subject.agreement

    def case(self, part: str) -> str:
        if part == "recipient" or (part == "object" and self.verb["frame"] == "dative"):
            return "dat"
        return "nom" if part == "subject" else "acc"


# --- spelling: shared


def join(*words: str) -> str:
    return " ".join(word for word in words if word)


def arrange(order: str, spelled: dict[str, str], front: str) -> str:
    """The parts in the order of a row of orders.tsv; the fronted part is spelled there and nowhere else."""
    if "front" in order.split():
        spelled = {**spelled, "front": spelled[front], front: ""}
    return join(*(spelled.get(name, "") for name in order.split()))


def order_of(clause: Clause, name: str, language: str) -> str:
    tail = entry("orders", "tail not" if clause.negated else "tail")[language]
    return entry("orders", name)[language].replace("tail", tail)


def spell(template: str, clauses: Sequence[Clause], language: str) -> str:
    """A sentence from a pattern such as `1.main , weil 2.final .`, with its punctuation and capital."""
    write_clause = {"en": english, "de": german}[language]
    text = " ".join(
        write_clause(clauses[int(token[0]) - 1], token[2:]) if token[0].isdigit() else token
        for token in template.split()
    )
    text = re.sub(r" (?=[,.?])", "", text).replace(",.", ".").replace(",,", ",").replace(",?", "?")
    return text[0].upper() + text[1:]


# --- spelling: English


def english_phrase(phrase: Phrase, case: str) -> str:
    head = phrase.head
    if phrase.relative:
        return "that" if "person" not in head["class"] else "who" if case == "nom" else "whom"
    if phrase.determiner is None:
        words = head["en"] if case == "nom" else head["en_object"]
    else:
        number = "en_plural" if phrase.plural else "en"
        opening = phrase.determiner[number]
        if phrase.possessor:
            opening = english_phrase(phrase.possessor, "nom") + "'s"
        words = join(opening, phrase.adjective["en"] if phrase.adjective else "", head[number])
    if phrase.preposition:
        words = f"{phrase.preposition['en']} {words}"
    if phrase.clause:
        words += " " + english(phrase.clause, "final")
    return re.sub(r"\ba (?=[aeiou])", "an ", words)


def english_verb(clause: Clause, inverted: bool) -> tuple[str, str]:
    """(what stands before `not`, the rest): do-support in negations and in questions other than for the subject."""
    verb, tense, agreement = clause.verb, clause.tense, clause.agreement
    past = tense == "past"
    column = f"en_past_{agreement}" if past else f"en_{agreement}"
    if verb["en"] == "be":
        return entry("auxiliaries", "be")[column], ""
    base, finite = verb["en"], verb["en_past"] if past else verb["en_3"] if agreement == "3" else verb["en"]
    if tense not in ("present", "past"):
        modal = entry("auxiliaries", tense)
        if modal["kind"] == "modal":
            return modal[column], base
        base, finite = f"{tense} {base}", f"{modal[column]} {base}"
    if inverted or clause.negated:
        return entry("auxiliaries", "do")[column], base
    return "", finite


def english(clause: Clause, order: str) -> str:
    spelled = {
        name: english_phrase(part, clause.case(name)) if isinstance(part, Phrase) else part["en"]
        for name, part in clause.parts.items()
    }
    spelled["aux"], spelled["verb"] = english_verb(clause, order in ("question", "wh"))
    spelled["not"] = "not" if clause.negated else ""
    return arrange(order_of(clause, order, "en"), spelled, clause.front).replace("can not", "cannot")


# --- spelling: German

CONTRACTIONS = {"in dem ": "im ", "in das ": "ins ", "an dem ": "am ", "zu dem ": "zum ", "zu der ": "zur "}


def german_noun(noun: Row, case: str, plural: bool) -> str:
    if plural:
        word = noun["de_plural"]
        return word + "n" if case == "dat" and word[-1] not in "ns" else word
    if case == "gen":
        return noun["de_genitive"] or noun["de"]
    return noun["de"] if case == "nom" else noun["de_oblique"] or noun["de"]


def german_phrase(phrase: Phrase, case: str, negated: bool = False) -> str:
    head = phrase.head
    if phrase.preposition:
        case = phrase.preposition["de_case"]
    gender = "p" if phrase.plural else head.get("de_gender", "")
    if phrase.relative:
        return ending("the", case, gender)
    if phrase.determiner is None:
        words = head[f"de_{case}"]
    else:
        determiner = entry("determiners", "no") if negated and phrase.indefinite else phrase.determiner
        words = determiner["de_stem"] + ending(determiner["de_endings"], case, gender)
        if phrase.adjective:
            stem = phrase.adjective["de_stem"] or phrase.adjective["de"]
            words = join(words, stem + ending(determiner["de_adjective"], case, gender))
        words = join(words, german_noun(head, case, phrase.plural))
    if phrase.preposition:
        words = f"{phrase.preposition['de']} {words}"
        for long, short in CONTRACTIONS.items():
            words = short + words.removeprefix(long) if words.startswith(long) else words
    if phrase.possessor:
        words += " " + german_phrase(phrase.possessor, "gen")
    if phrase.clause:
        words += f" , {german(phrase.clause, 'final')} ,"
    return words


def german_verb(clause: Clause, last: bool) -> tuple[str, str]:
    """(the finite verb, what closes the clause); a separable verb is one word where the finite verb stands last."""
    verb, tense, agreement = clause.verb, clause.tense, clause.agreement
    prefix = verb["de_prefix"]
    if verb["en"] == "be":
        return entry("auxiliaries", "be")[f"de_past_{agreement}" if tense == "past" else f"de_{agreement}"], ""
    if tense == "past":
        return entry("auxiliaries", verb["de_auxiliary"])[f"de_{agreement}"], verb["de_participle"]
    if tense != "present":
        return entry("auxiliaries", tense)[f"de_{agreement}"], prefix + verb["de"]
    first = verb["de_1"] or verb["de"].removesuffix("n")
    finite = {"1": first, "3": verb["de_3"], "p": verb["de"]}[agreement]
    return (prefix + finite, "") if last else (finite, prefix)


def german(clause: Clause, order: str) -> str:
    thing = clause.parts.get("object")
    no = clause.negated and isinstance(thing, Phrase) and thing.indefinite
    spelled = {
        name: german_phrase(part, clause.case(name), no and name == "object")
        if isinstance(part, Phrase)
        else part["de"]
        for name, part in clause.parts.items()
    }
    if isinstance(thing, Phrase) and thing.determiner is None and thing.head.get("kind") == "personal":
        spelled["pronoun"] = spelled.pop("object")
    spelled["finite"], spelled["end"] = german_verb(clause, order == "final")
    spelled["not"] = "nicht" if clause.negated and not no else ""
    return arrange(order_of(replace(clause, negated=bool(spelled["not"])), order, "de"), spelled, clause.front)
