"""German: endings by case, gender and determiner; the finite verb second, first or last; `kein` and `nicht`.

Determiners and adjectives take their endings from endings.tsv; participle, infinitive or separable prefix close the
clause (orders.tsv); a relative clause on anything but the subject, `dass` and `um ... zu` stand after that.
Twin: tests/test_phrasebook.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from headway.data.phrasebook.grammar import Clause, Phrase, Row, arrange, entry, fill, join, order_of, table, tidy

CONTRACTIONS = {
    "in dem ": "im ",
    "in das ": "ins ",
    "an dem ": "am ",
    "an das ": "ans ",
    "von dem ": "vom ",
    "zu dem ": "zum ",
    "zu der ": "zur ",
}


@cache
def ending(kind: str, case: str, gender: str) -> str:
    return next(row[gender] for row in table("endings") if (row["kind"], row["case"]) == (kind, case))


def sentence(pattern: Row, clauses: Sequence[Clause]) -> str:
    return tidy(fill(pattern["de"], clauses, clause))


def agreement(subject: Phrase | None) -> str:
    if subject is None:
        return "p"
    if subject.kind:
        return subject.head["agreement"]
    return "p" if subject.plural or subject.head["de_gender"] == "p" else "3"


def noun(head: Row, case: str, plural: bool) -> str:
    if plural:
        word = head["de_plural"]
        return word + "n" if case == "dat" and word[-1] not in "ns" else word
    if case == "gen":
        return head["de_genitive"] or head["de"].split()[-1]
    return head["de"].split()[-1] if case == "nom" else head["de_oblique"] or head["de"].split()[-1]


def phrase(part: Phrase, case: str, *, no: bool = False) -> str:
    """A phrase in a case; `no` denies it with `kein`."""
    head = part.head
    if part.preposition:
        case = part.preposition["de_case"]
    if part.relative:
        return ending("the", case, "p" if part.plural else head["de_gender"])
    if part.kind:
        words = head[f"de_{case}"]
    else:
        determiner = entry("determiners", "no") if no and part.indefinite else part.determiner
        assert determiner is not None
        plural = part.plural or head["de_gender"] == "p" or (part.sense == "bare" and part.count == "count")
        gender = "p" if plural else head["de_gender"]
        stem, endings, weak = (determiner[f"de_{name}"] for name in ("stem", "endings", "adjective"))
        owner = part.possessor
        named = owner is not None and owner.kind == "name"
        if owner and named:
            stem, endings, weak = owner.head["de_gen"], "none", "strong"
        older = head["de"].split()[:-1]  # an adjective that belongs to the word: älterer Bruder
        adjectives = older + ([part.adjective["de_stem"] or part.adjective["de"]] if part.adjective else [])
        words = join(
            stem + ending(endings, case, gender),
            *(adjective + ending(weak, case, gender) for adjective in adjectives),
            noun(head, case, plural),
        )
        if owner and not named:
            words += " " + phrase(owner, "gen")
    if part.preposition:
        words = f"{part.preposition['de']} {words}"
        for long, short in CONTRACTIONS.items():
            words = short + words.removeprefix(long) if words.startswith(long) else words
    return words


def relative(part: Phrase) -> str:
    return f", {clause(part.clause, 'final')} ," if part.clause else ""


def imperative(verb: Row) -> str:
    stem = verb["de_1"] or verb["de"].removesuffix("n").removesuffix("e")
    return verb["de_imperative"] or stem + ("e" if stem[-1] in "td" else "")


def verb(told: Clause, last: bool) -> tuple[str, str]:
    """(the finite verb, what closes the clause); a separable verb is one word where the finite verb stands last."""
    row, mood, person = told.verb, told.finite_mood.replace("raining", "past"), agreement(told.subject)
    person = "3" if row["de_subject"] else person  # es gibt
    adjective = told.row("predicate")
    if adjective and adjective["de_verb"]:  # viel zu tun haben
        row = entry("verbs", adjective["de_verb"])
    prefix = row["de_prefix"]
    infinitive = prefix + row["de"]
    if mood == "command":
        return imperative(row), prefix
    if mood == "request":
        return row["de"], prefix
    if mood == "lets":
        return "", infinitive
    if mood == "past":
        if row["de_past"]:
            plural = "n" if row["de_past"].endswith("e") else "en"
            return row["de_past"] + (plural if person == "p" else ""), ""
        return entry("auxiliaries", row["de_auxiliary"])[f"de_{person}"], row["de_participle"]
    if mood not in ("present", "progressive"):
        return entry("moods", mood)[f"de_{person}"], infinitive
    first = row["de_1"] or row["de"].removesuffix("n").removesuffix("e") + "e"
    finite = {"1": first, "3": row["de_3"], "p": row["de"]}[person]
    if row["de"] == "sein":
        finite = entry("auxiliaries", "be")[f"de_{person}"]
    return (prefix + finite, "") if last else (finite, prefix)


def forms(name: str, row: Row) -> list[str]:
    """A row of a table in every form that a sentence may show, the dictionary's first."""
    cases = ("nom", "acc", "dat", "gen")
    if name == "nouns":
        plural = [noun(row, case, True) for case in cases] if row["de_plural"] else []
        found = [row["de"].split()[-1], *(noun(row, case, False) for case in cases), *plural]
        stem = row["de"].split()[0] if " " in row["de"] else ""
        found += [stem + end for end in ("e", "en", "er", "em", "es") if stem]
    elif name == "adjectives":
        stem = row["de_stem"] or row["de"]
        found = [row["de"], *(stem + end for end in ("e", "en", "em", "er", "es")), row["de_more"]]
    elif name == "determiners":
        kind = row["de_endings"]
        found = [row["de_stem"] + ending(kind, case, gender) for case in cases for gender in "mfnp"]
    elif name == "verbs":
        prefix, past, stem = row["de_prefix"], row["de_past"], row["de"].removesuffix("n").removesuffix("e")
        bare = [row["de"], row["de_1"] or stem + "e", row["de_3"], past, past and past + "n", past and past + "en"]
        found = (
            [prefix + word for word in bare if word] + bare + [imperative(row), row["de_participle"], prefix.strip()]
        )
        found += [prefix + "zu" + row["de"]] if prefix and not prefix.endswith(" ") else []
    else:
        found = [row[column] for column in row if column == "de" or column.startswith("de_")]
    return [form for form in dict.fromkeys(found) if form]


def slot(name: str, part: Phrase) -> str:
    """The slot in orders.tsv of an object or recipient: pronouns and names first, what is new last."""
    if part.kind in ("first", "third", "name"):
        return "pronoun"
    return name if name != "object" else "indefinite" if part.new else "definite"


def clause(told: Clause, order: str) -> str:
    """A clause in one of the orders of orders.tsv."""
    thing, spelled, after, front = told.parts.get("object"), dict[str, str](), "", told.front
    no = told.negated and ((isinstance(thing, Phrase) and thing.indefinite) or "there" in told.parts)
    for name, part in told.parts.items():
        if isinstance(part, Clause):
            link = {"complement": "dass final", "place_known": "final", "purpose": "um infinitive"}[name].split()
            after += join(",", *link[:-1], clause(part, link[-1]))
            continue
        if not isinstance(part, Phrase):
            spelled["time" if name == "clock" else name] = part["de"]
            if name == "predicate" and "than" in told.parts:
                spelled[name] = part["de_more"]
            continue
        preposition, _, case = told.verb["de_object"].rpartition(" ") if name == "object" else ("", "", "")
        nominative = told.verb["de_subject"] or "nom" if name == "subject" else "nom"
        case = {"recipient": "dat", "object": case or "acc"}.get(name, nominative)
        if preposition:
            part = replace(part, preposition={"de": preposition, "de_case": case})
        if told.verb["frame"] == "hurt":  # mir tut der Kopf weh
            part = replace(part, determiner=entry("determiners", "the"))
        words = phrase(part, case, no=no and (name == "object" or "there" in told.parts))
        if name == "subject" or name == front:
            spelled[name] = words + " " + relative(part) if part.clause else words
            continue
        after += " " + relative(part) if part.clause else ""
        if name == "object" or name == "recipient":
            late = preposition or (told.verb["frame"] == "belong" and part.kind not in ("first", "third"))
            name = "phrase" if late else slot(name, part)  # gehört nicht Daniel
        spelled[name] = words
    spelled["finite"], end = verb(told, order == "final")
    spelled["end"] = end.strip()
    prefix = told.verb["de_prefix"]
    spelled["to"] = prefix + ("zu " if not prefix or prefix.endswith(" ") else "zu") + told.verb["de"]
    spelled |= {"after": after, "please": "bitte", "you": "Sie", "let's": "lass uns", "owner": "mir"}
    spelled["now"] = "gerade" if told.mood == "progressive" else ""
    denied = told.negated and not no
    spelled["not"] = "nicht" if denied else ""
    return arrange(order_of(order, "de", negated=denied), spelled, front)
