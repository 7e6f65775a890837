"""Term lists: what a translation must say, must not say, or must leave as it is; and whether it did.

A list is a table with tabs, UTF-8, one term a line; a line that begins with `#` is a comment. Without a header it has
two columns, source and target. A first line made of names below, source and target among them, is a header:

    source   forms of the source, separated by `|`
    target   forms that are right, separated by `|`: one is enough. With `!` before each of them: forms that are wrong
    kind     use (the default), avoid (as with `!`), keep (leave it as it is: target is empty, or the source again)
    case     yes: case matters, on both sides; no or nothing: it does not
    note     for people

A form is found where it stands as whole words, in any Unicode normal form, the longest first; in scripts without spaces
between words, anywhere. `check` looks at finished texts with `str.find`; its twin is the automaton of
`headway.generate.phrases`, which `constraint` gives to a search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from unicodedata import category, combining, is_normalized, normalize

from headway.data.corpus import read_lines
from headway.generate.phrases import Phrase, boundary, same
from headway.strict import nearest

Kind = Literal["use", "avoid", "keep"]
Span = tuple[int, int]
"""First character and last + 1."""

COLUMNS = ("source", "target", "kind", "case", "note")
KINDS: dict[str, Kind] = {"": "use", "use": "use", "avoid": "avoid", "keep": "keep"}
CASES = {"": False, "no": False, "yes": True}
INVISIBLE = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
"""Marks of direction and of no width, which a table may hold around its texts: they are no part of a form."""
SHOWN = 20
"""Faults of one list that are shown in full; the rest are counted."""


@dataclass(frozen=True)
class Term:
    """One line of a list: forms of both sides (for `keep` the source twice), and the line's number."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    kind: Kind = "use"
    case: bool = False
    note: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Demand:
    """What a source text asks of its translation: to say one of these forms (use, keep), or none of them (avoid)."""

    kind: Kind
    forms: tuple[str, ...]
    case: bool

    def words(self) -> str:
        forms = " or ".join(map(repr, self.forms))
        return {"use": f"must be {forms}", "avoid": f"must not be {forms}", "keep": f"must stay {forms}"}[self.kind]


class Match(NamedTuple):
    """A term in a source text: where, its characters, and what it asks."""

    start: int
    end: int
    text: str
    demands: tuple[Demand, ...]


@dataclass(frozen=True)
class Finding:
    """What became of one demand; source, target: where its term stands, and where its forms do."""

    text: str
    demand: Demand
    source: tuple[Span, ...]
    target: tuple[Span, ...]

    @property
    def broken(self) -> bool:
        """A form to use is nowhere, or one to avoid is there."""
        return bool(self.target) == (self.demand.kind == "avoid")

    def words(self) -> str:
        return f"{self.text!r} {self.demand.words()}: {'broken' if self.broken else 'kept'}"


class _Form(NamedTuple):
    """A source form as it is looked up: `same` of its text, and whether case matters."""

    text: str
    case: bool


class Terms:
    """A term list. terms: each once; repeated: how many lines said again what an earlier one had said."""

    def __init__(self, terms: Sequence[Term], name: str = "terms", faults: Sequence[str] = ()) -> None:
        """faults: of lines that are no terms. Raises ValueError with them and all contradictions and cycles."""
        self.terms = list(dict.fromkeys(terms))
        self.repeated = len(terms) - len(self.terms)
        self._asked: dict[_Form, list[Term]] = {}
        for term in self.terms:
            for form in term.source:
                self._asked.setdefault(_Form(same(form, term.case), term.case), []).append(term)
        _raise(name, [*faults, *_contradictions(self._asked), *_cycles(self._asked)])
        self._tree: dict[str, Any] = {}  # character by character, without case; "" holds the forms that end there
        for form in self._asked:
            node = self._tree
            for char in same(form.text, False):
                node = node.setdefault(char, {})
            node.setdefault("", []).append(form)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a list. Raises ValueError with all faults, and their lines."""
        lines = [
            (number, [cell.strip() for cell in line.split("\t")])
            for number, line in enumerate(read_lines(path), 1)
            if line.strip() and not line.startswith("#")
        ]
        header = ["source", "target"]
        first = "\t".join(lines[0][1]).rstrip("\t").lower().split("\t") if lines else []
        named = {*first} & {*COLUMNS}
        if {"source", "target"} <= named or (len(first) > 2 and len(named) > 1):
            header = first
            del lines[0]
        wrong = list(_wrong_header(header))
        read = [] if wrong else [_read(number, cells, header) for number, cells in lines]
        faults = wrong or [fault for _, own in read for fault in own]
        if not wrong and not lines:
            faults = ["holds no term. Write one a line: source, a tab, target"]
        return cls([term for term, _ in read if term is not None], str(path), faults)

    def find(self, text: str) -> list[Match]:
        """The terms in a source text, in order; where two overlap the longer one, then the first. Of two forms that
        differ in case only, the one whose case matters."""
        normal, places = normalised(text)
        low = same(normal, False)
        spots: list[tuple[int, int, list[_Form]]] = []
        for start in range(len(low)):
            node = self._tree if boundary(normal[start - 1 : start] if start else "", normal[start]) else {}
            for end in range(start + 1, len(low) + 1):
                if (node := node.get(low[end - 1])) is None:
                    break
                if "" in node and boundary(normal[end - 1], normal[end : end + 1]):
                    full = same(normal[start:end], True)
                    fits = [form for form in node[""] if not form.case or form.text == full]
                    spots.append((start, end, [form for form in fits if form.case] or fits))
        found: list[Match] = []
        taken: set[int] = set()
        for start, end, forms in sorted(spots, key=lambda spot: (spot[0] - spot[1], spot[0])):
            if forms and taken.isdisjoint((start, end - 1)):  # a longer one was first, so an end of this lies in it
                taken.update(range(start, end))
                demands = tuple(self._demands(forms, normal[start:end]))
                found.append(Match(places[start], places[end], text[places[start] : places[end]], demands))
        return sorted(found)

    def _demands(self, forms: Sequence[_Form], text: str) -> Iterator[Demand]:
        terms = [(term, form.case) for form in forms for term in self._asked[form]]
        for kind in ("use", "avoid"):
            if targets := dict.fromkeys(target for term, _ in terms if term.kind == kind for target in term.target):
                yield Demand(kind, tuple(targets), forms[0].case)
        if any(term.kind == "keep" for term, _ in terms):
            yield Demand("keep", (spaced(text),), True)

    def check(self, source: str, target: str) -> list[Finding]:
        """What became of each demand of a source text in its translation; one that is made twice is one finding."""
        asked: dict[Demand, list[Match]] = {}
        for match in self.find(source):
            for demand in match.demands:
                asked.setdefault(demand, []).append(match)
        return [
            Finding(
                matches[0].text,
                demand,
                tuple((match.start, match.end) for match in matches),
                tuple(sorted({span for form in demand.forms for span in occurrences(target, form, demand.case)})),
            )
            for demand, matches in asked.items()
        ]

    def phrases(self, source: str) -> tuple[list[Phrase], list[Phrase]]:
        """What must appear in the translation of this text, and what must not, for a search.

        A form that another term of the text forbids is not asked for: nothing could satisfy both, and `check` says so.
        """
        asked = dict.fromkeys(demand for match in self.find(source) for demand in match.demands)
        avoided = [demand for demand in asked if demand.kind == "avoid"]
        wanted = []
        for demand in asked:
            forms = [form for form in demand.forms if not any(_forbids(other, form) for other in avoided)]
            if demand.kind != "avoid" and forms:
                wanted.append(Phrase(tuple(forms), demand.case))
        return wanted, [_any_spelling(demand) for demand in avoided]


def _any_spelling(demand: Demand) -> Phrase:
    """Its forms, and those with their accents as marks of their own, as a model may write them."""
    return Phrase(tuple(dict.fromkeys(chain(demand.forms, (normalize("NFD", x) for x in demand.forms)))), demand.case)


def _forbids(demand: Demand, text: str) -> bool:
    return any(occurrences(text, form, demand.case) for form in demand.forms)


# ---- texts ----


def spaced(text: str) -> str:
    """NFC, and a space for each run of white space."""
    return " ".join(normalize("NFC", text).split())


def normalised(text: str) -> tuple[str, Sequence[int]]:
    """A text in NFC with a space for each run of white space, and where each of its characters, and its end, began."""
    if is_normalized("NFC", text) and not re.search(r"\s\s", text):
        return text, range(len(text) + 1)
    pieces, places, start = [], [], 0
    while start < len(text):
        end = start + 1
        while end < len(text) and _one(text[start:end], text[end]):
            end += 1
        pieces.append(" " if text[start].isspace() else normalize("NFC", text[start:end]))
        places += [start] * len(pieces[-1])
        start = end
    return "".join(pieces), [*places, len(text)]


def _one(before: str, char: str) -> bool:
    """Is this character of the same run of white space, or of the same composed character?"""
    if before[0].isspace():
        return char.isspace()
    apart = normalize("NFC", before) + normalize("NFC", char)
    return bool(combining(char)) or normalize("NFC", before + char) != apart


def occurrences(text: str, form: str, case: bool) -> list[Span]:
    """Where a form stands in a text as whole words."""
    normal, places = normalised(text)
    where, what = same(normal, case), same(form, case)
    found, at = [], where.find(what)
    while at >= 0:
        end = at + len(what)
        if boundary(normal[at - 1 : at] if at else "", normal[at]) and boundary(normal[end - 1], normal[end : end + 1]):
            found.append((places[at], places[end]))
        at = where.find(what, at + 1)
    return found


# ---- lists ----


def _raise(name: str, faults: Sequence[str]) -> None:
    if faults:
        told = [f"{name}: {fault}" for fault in faults[:SHOWN]]
        more = [f"{name}: {len(faults) - SHOWN:,} more faults"] if len(faults) > SHOWN else []
        raise ValueError("\n".join(told + more))


def _wrong_header(header: Sequence[str]) -> Iterator[str]:
    """What is wrong with the names of the columns."""
    for name in dict.fromkeys(header):
        if name not in COLUMNS:
            yield f"its header names an unknown column {name!r}: {nearest(name, COLUMNS)}"
        elif header.count(name) > 1:
            yield f"its header names a column twice: {', '.join(header)}"
    if lacking := [name for name in ("source", "target") if name not in header]:
        yield f"its header has no column {' and '.join(lacking)}: name it in the first line"


def _read(number: int, cells: list[str], header: Sequence[str]) -> tuple[Term | None, list[str]]:
    """The term of a line, or what is wrong with it."""
    where = f"line {number}"
    if any(cells[len(header) :]) or len(cells) < 2:
        hint = "" if len(header) > 2 else "; more are named in a first line, such as source, target, kind, case, note"
        told = f"has {len(cells)} columns, not the {len(header)} of {', '.join(header)}: separate them by tabs{hint}"
        return None, [f"{where}: {told}"]
    row = dict.fromkeys(COLUMNS, "") | dict(zip(header, cells, strict=False))
    faults = []
    for column, values in (("kind", KINDS), ("case", CASES)):
        if row[column].lower() not in values:
            known = ", ".join(value for value in values if value)
            faults.append(f"{where}: {column} is {row[column]!r}: write one of {known}, or nothing")
    kind, sides = KINDS.get(row["kind"].lower(), "use"), {"source": _forms(row["source"])}
    targets = _forms(row["target"])
    marked = [form.startswith("!") for form in targets]
    if not row["kind"] and any(marked):
        kind, targets = "avoid", _forms("|".join(form.removeprefix("!") for form in targets))
        if not all(marked):
            faults.append(f"{where}: some forms of the target have a `!` and some have not: give them two lines")
    elif kind == "avoid" and any(marked):
        faults.append(f"{where}: the target is marked by `!` and by its kind: leave one out")
    sides["target"] = targets if kind != "keep" or row["target"] else sides["source"]
    clean: dict[str, tuple[str, ...]] = {}
    for side, forms in sides.items():
        clean[side] = tuple(dict.fromkeys(forms))
        faults += [f"{where}: its {side} {told}" for told in _wrong(clean[side])]
    if kind == "keep" and set(clean["source"]) != set(clean["target"]):
        faults.append(f"{where}: what is kept has no target but itself: leave the target empty, or make the kind `use`")
    if faults:
        return None, faults
    return Term(clean["source"], clean["target"], kind, CASES[row["case"].lower()], row["note"], number), []


def _wrong(forms: Sequence[str]) -> Iterator[str]:
    """What is wrong with the forms of a side."""
    if not all(forms):
        told = "has an empty form, beside a `|`" if any(forms) else "is empty"
        yield f"{told}: write what is meant, or remove the line"
    if odd := [char for char in "".join(forms) if char == "\ufffd" or category(char) == "Cc"]:
        yield f"holds U+{ord(odd[0]):04X}, which is no text: remove it"
    if stray := [form[0] for form in forms if form and category(form[0])[0] == "M"]:
        yield f"begins with U+{ord(stray[0]):04X}, a mark on a letter: write that letter too"


def _forms(cell: str) -> list[str]:
    """The forms of a cell, without what is invisible around them."""
    return [spaced(form).strip(f"{INVISIBLE} ") for form in cell.split("|")]


def _contradictions(asked: dict[_Form, list[Term]]) -> Iterator[str]:
    """Demands of one source form that no translation satisfies."""
    for form, terms in asked.items():
        said = [(term, target) for term in terms if term.kind == "use" for target in term.target]
        kept = [(term, form.text) for term in terms if term.kind == "keep"]
        never = [(term, target) for term in terms if term.kind == "avoid" for target in term.target]
        for one, text in [*said, *kept]:
            for other, wrong in never:
                if occurrences(text, wrong, form.case):
                    yield f"{_lines(one, other)}: {form.text!r} must be {text!r} and must not be {wrong!r}: remove one"
        for one, _ in kept:
            for other, text in said:
                if same(text, form.case) != form.text:
                    yield f"{_lines(one, other)}: {form.text!r} must be kept and must be {text!r}: remove one"


def _lines(*terms: Term) -> str:
    return f"lines {', '.join(map(str, sorted(term.line for term in terms)))}"


def _cycles(asked: dict[_Form, list[Term]]) -> Iterator[str]:
    """Terms that replace each other in a circle: no text could hold a target without breaking another of them.

    An edge leads from a source form to each target that is a source form itself.
    """
    before: dict[_Form, dict[_Form, Term]] = {}  # form -> the forms that it replaces
    for form, terms in asked.items():
        for term in terms:
            for target in term.target if term.kind == "use" else ():
                for case in (False, True):
                    new = _Form(same(target, case), case)
                    if new in asked and same(new.text, False) != same(form.text, False):
                        before.setdefault(new, {})[form] = term
    while True:
        try:
            TopologicalSorter(before).prepare()
            return
        except CycleError as error:
            circle: list[_Form] = error.args[1]
            terms = [before[new].pop(form) for form, new in pairwise(circle)]
            told = " -> ".join(repr(form.text) for form in circle)
            yield f"{_lines(*terms)}: these terms replace each other in a circle: {told}: remove one of them"
