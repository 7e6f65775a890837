"""Japanese: the verb last, particles after each phrase, polite at the end of a sentence and plain inside of it.

A known subject takes は, a new one が, as does any in a subordinate clause. `The` is その where neither は tells it nor
the noun itself, such as the station, nor a relative clause, nor たち. Words are written with spaces here, so that they
can be counted; a sentence has none. Verbs and adjectives take their forms from conjugations.tsv, their endings from
predicates.tsv. Twin: tests/test_phrasebook.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from headway.data.phrasebook.grammar import Clause, Phrase, Row, entry, fill, join, table

LIVING, PROFESSIONS = {"human", "animal", "infant"}, {"job", "guest"}


def words(pattern: Row, clauses: Sequence[Clause]) -> str:
    """The sentence with spaces between its words."""
    text, first = pattern["ja"], clauses[0].subject
    if first and first.kind != "weather" and ("1.たら" in text or not at_home(first)):
        text = text.replace("2.polite", "2.other")
    return fill(text, clauses, clause)


def sentence(pattern: Row, clauses: Sequence[Clause]) -> str:
    return words(pattern, clauses).replace(" ", "")


@cache
def form(word: str, group: str, name: str) -> str:
    """A form of a verb or adjective: dict, masu, te, ta, nai (what stands before ない), stem."""
    if name == "dict" or group == "na":
        return word
    if name == "stem":
        return word.removesuffix("い")
    if name == "ta":
        te = form(word, group, "te")
        return te[:-1] + {"て": "た", "で": "だ"}[te[-1]]
    row = next(row for row in table("conjugations") if row["group"] == group and word.endswith(row["ending"]))
    return word.removesuffix(row["ending"]) + row[name]


def adjective(row: Row) -> str:
    """Before a noun."""
    return {"i": row["ja"], "na": row["ja"] + "な", "no": row["ja"] + "の", "te": row["ja_attribute"]}[row["ja_group"]]


def evident(part: Phrase, topic: bool, told: bool) -> bool:
    """Whether `the` is not said: the teacher and the movie need no その as topics, a boy or a dog does."""
    kinds = part.head["class"].split()
    if "hard" in kinds and not part.clause:
        return False  # 試験は難しい: any exam
    known = topic and (bool(PROFESSIONS & {*kinds}) or not LIVING & {*kinds})
    return known or told or part.clause is not None or part.count in ("unique", "single")


def at_home(part: Phrase) -> bool:
    """Whether it is one of my family, whom the word alone tells: 母, and not お母さん."""
    mine = part.determiner is not None and part.determiner["en"] == "my" and not part.possessor
    return mine and (part.count == "single" or bool(part.head["ja_own"]))


def phrase(part: Phrase, *, topic: bool = False, told: bool = False, other: bool = False) -> str:
    """A phrase; as topic or `told` apart from one it has no その, and only as topic a bare `my`, if of no `other`."""
    head = part.head
    if part.kind:
        words = head["ja"]
    else:
        determiner = part.determiner
        assert determiner is not None
        noun, opening = head["ja"], determiner["ja"]
        people = part.plural and "human" in head["class"].split() and part.sense in ("definite", "possessive")
        if part.possessor:
            opening = phrase(part.possessor, told=True) + " の"
        elif (part.sense == "definite" and (people or evident(part, topic, told))) or (part.sense == "number" and told):
            opening = ""
        elif part.sense == "number":
            opening += f" {head['ja_counter']} の"
        if part.count == "single" or head["ja_own"]:
            if not at_home(part):
                noun = head["ja_own"]
            elif topic and not other:
                opening = ""
        words = join(
            clause(part.clause, "relative") if part.clause else "",
            opening,
            adjective(part.adjective) if part.adjective else "",
            noun + ("たち" if people else ""),
        )
    return join(words, part.preposition["ja"] if part.preposition else "")


def copula(told: Clause) -> bool:
    """Whether the plain clause ends in だ, which gives way to な before a noun."""
    group = (told.row("predicate") or told.verb)["ja_group"]
    return group in ("na", "no") and told.finite_mood == "present" and not told.negated


def cell(mood: str, level: str, told: Clause) -> list[str]:
    """(form, ending) of a mood; what happens rarely or never is denied."""
    frequency = told.row("frequency")
    denied = told.negated or (frequency is not None and frequency["ja_negative"])
    return entry("predicates", mood)[f"{level}_not" if denied else level].split(":")


def predicate(told: Clause, level: str) -> str:
    """What closes the clause: polite, plain, or the one form that is named."""
    verb, mood, adjective = told.verb, told.finite_mood, told.row("predicate")
    mood = "present" if mood == "will" else mood
    word, group, state = verb["ja"], verb["ja_group"], verb["ja_state"]
    if adjective:
        word, group = adjective["ja"], adjective["ja_group"]
        if group == "te":  # 疲れて
            return join(word, cell(f"te {mood}", level, told)[1])
    if level not in ("polite", "plain"):
        return form(word, group, level)
    if group in ("i", "na", "no") and not state:
        mood = f"{group.replace('no', 'na')} {mood}"
    elif verb["frame"] == "weather" and told.mood == "will":
        mood = "weather will"
    elif state and mood in ("present", "past"):
        mood = f"{state} {mood}"
    if (
        told.subject
        and told.subject.kind == "first"
        and any(row["name"] == f"first {mood}" for row in table("predicates"))
    ):
        mood = f"first {mood}"
    name, ending = cell(mood, level, told)
    return join(form(word, group, name), ending)


def subject(told: Clause, *, topic: bool, other: bool = False) -> str:
    part = told.subject
    if part is None or part.kind == "weather" or part.relative or "there" in told.parts:
        return ""
    if told.verb["frame"] == "hurt":
        assert part.determiner is not None
        return entry("pronouns", part.determiner["of"])["ja"] + " は"
    known = topic and not part.new and part.kind != "question"
    return join(phrase(part, topic=known, other=other), "は" if known else "が")


def inner(verb: Row, name: str, part: Clause) -> tuple[str, str]:
    """(slot, words) of a clause that is a part of another."""
    if name == "purpose":
        # 迎えに行く is an errand itself
        final = part.verb["ja"].removesuffix(" 行く")
        return name, rest(part, final if final != part.verb["ja"] else join(predicate(part, "masu"), "に"))
    words, particle = clause(part, "plain"), "か" if name == "place_known" else verb["ja_particle"]
    if particle == "ことを" and copula(part):
        words = words.removesuffix("だ") + "な"
    return "complement", join(words, particle)


def fronted(told: Clause) -> Row | None:
    time = told.row("time")
    return time if told.front == "time" and time and time["part"] != "question" else None


def rest(told: Clause, final: str) -> str:
    """All but the subject, and the predicate."""
    verb, spelled = told.verb, dict[str, str]()
    still = verb["frame"] in ("place", "live", "arrive") or "still" in verb["kind"].split()
    particles = {
        "object": "は" if told.negated and verb["ja_state"] == "need" else verb["ja_particle"] or "を",
        "recipient": "に",
        "goal": "へ" if verb["frame"] == "travel" or "purpose" in told.parts else "に",
        "source": "から",
        "place": "に" if still else "を" if "through" in verb["kind"].split() else "で",
    }
    for name, part in told.parts.items():
        if isinstance(part, Clause):
            slot, words = inner(verb, name, part)
            spelled[slot] = words
        elif isinstance(part, Phrase):
            counted = name == "object" and part.sense == "number"  # ピザを二枚
            spelled[name] = "" if part.relative else join(phrase(part, told=counted), particles.get(name, ""))
            if counted and part.determiner:
                spelled[name] += f" {part.determiner['ja']} {part.head['ja_counter']}"
        elif name in ("place", "goal"):  # where
            spelled[name] = join(part["ja"], particles[name])
        else:
            spelled["time" if name == "clock" else name] = part["ja"]
    spelled["means"] = verb["ja_means"]
    if fronted(told):
        del spelled["time"]
    part = told.subject
    if part and part.kind == "weather" and "time" in spelled and ("predicate" in told.parts or told.mood != "present"):
        spelled["time"] = spelled["time"].removesuffix("に") + " は"
    if part and verb["frame"] == "hurt":
        spelled["object"] = join(part.head["ja"], "が")
    if part and "there" in told.parts:
        spelled["object"] = join(phrase(part, told=True), "は" if told.negated else "が")
        if part.sense == "number" and part.determiner:
            spelled["measure"] = join(part.determiner["ja"], part.head["ja_counter"])
    spelled["subject"] = spelled["predicate"] = spelled["there"] = ""
    return join(*(spelled.get(name, "") for name in entry("orders", "tail")["ja"].split()), final)


def forms(name: str, row: Row) -> list[str]:
    """A row of a table in every form that a sentence may show, the dictionary's first, with spaces between words."""
    word = row.get("ja", "")
    found = [word]
    if name == "predicates" or name == "moods":
        ends = entry("predicates", row.get("name") or row["mood"].replace("will", "present"))
        return [ends[level].split(":")[1] for level in ("plain", "polite", "plain_not", "polite_not") if ends[level]]
    if name == "nouns":
        found += [word + "たち", row["ja_own"]]
    elif name == "verbs" or name == "adjectives":
        found += [row.get("ja_means", ""), adjective(row) if name == "adjectives" else ""]
        if row["ja_group"] == "i":
            found.append(form(word, "i", "stem"))
        elif name == "verbs" and row["ja_group"] != "na":
            found += [form(word, row["ja_group"], key) for key in ("masu", "te", "ta", "nai")]
    return [form for form in dict.fromkeys(found) if form]


def clause(told: Clause, order: str) -> str:
    """A clause in an order of patterns.tsv: polite, topic, rest, stem, te, plain, relative, or before a link.

    `other` is polite as well, of another person than the clause before it.
    """
    front = fronted(told)
    known = join(f"{front['ja']} 、" if front else "", subject(told, topic=True, other=order == "other"))
    inside = subject(told, topic=False)
    if order == "topic":
        return known
    if order in ("polite", "other"):
        return join(known, rest(told, predicate(told, "polite")))
    if order == "のですか":
        words = join(known, rest(told, predicate(told, "plain")))
        return join(words.removesuffix("だ") + "な" if copula(told) else words, order)
    if order == "rest":
        return rest(told, predicate(told, "polite"))
    if order == "te":
        return rest(told, predicate(told, "te"))
    if order in ("plain", "relative"):
        return join(inside, rest(told, predicate(told, "plain")))
    if order == "たら":
        return join(inside, rest(told, predicate(replace(told, mood="past"), "plain") + " ら"))
    if order == "前に":
        return join(rest(told, predicate(told, "dict")), order)
    assert order in ("ので", "のに")  # said of the subject of the main clause
    words = rest(told, predicate(told, "plain"))
    return join(words.removesuffix("だ") + "な" if copula(told) else words, order)
