"""What every constraint must do. A tenant is one line in TENANTS: the constraint, and the same demand as a predicate
over whole outputs, written without the package.

The vocabulary is small enough to walk every output of a few tokens, and awkward: `rot` has several spellings, words can
be glued, a character comes in halves, one token spells nothing, and one only half a character.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Hashable
from itertools import combinations, pairwise, product

import pytest
import torch

from headway.generate.constrain import All, Atoms, Constraint, Prefix
from headway.generate.phrases import MustAppear, MustNotAppear, Phrase, Vocabulary

A, UMLAUT = "ä".encode()[:1], "ä".encode()[1:]
PIECES = [b"", b"r", b"ot", b"rot", b" rot", b" ", b"B", A, UMLAUT, b"x", b".", b"r. "]
SIZE = len(PIECES)
Output = tuple[int, ...]
Predicate = Callable[[Output], bool]


class Spelling:
    """A tokenizer that spells with the longest piece."""

    vocab_size = SIZE

    def piece_bytes(self, number: int) -> bytes:
        return PIECES[number]

    def encode(self, text: str) -> list[int]:
        raw, ids = text.encode(), []
        while raw:
            longest = max((piece for piece in PIECES if piece and raw.startswith(piece)), key=len)
            ids.append(PIECES.index(longest))
            raw = raw.removeprefix(longest)
        return ids


VOCABULARY = Vocabulary(Spelling())


def text_of(output: Output) -> str:
    return b"".join(PIECES[token] or b"#" for token in output).decode(errors="replace")


def matches(pattern: str, flags: int = re.IGNORECASE) -> Predicate:
    return lambda output: re.search(pattern, text_of(output), flags) is not None


def has(pattern: str, flags: int = re.IGNORECASE) -> Predicate:
    return matches(rf"(?<!\w)(?:{pattern})(?!\w)", flags)


def lacks(pattern: str, flags: int = re.IGNORECASE) -> Predicate:
    return lambda output: not has(pattern, flags)(output)


def both(one: Predicate, other: Predicate) -> Predicate:
    return lambda output: one(output) and other(output)


def nested(output: Output) -> bool:
    """6 opens and 7 closes, once each, with something between; 2 appears twice; 9 never."""
    counts = all(output.count(token) == n for token, n in ((2, 2), (6, 1), (7, 1), (9, 0)))
    return counts and output.index(6) + 1 < output.index(7)


def ordered(output: Output) -> bool:
    """5, 2, 6 and 7 once each, 5 before 2, 6 before 7 with something between."""
    counts = all(output.count(token) == 1 for token in (5, 2, 6, 7))
    return counts and output.index(5) < output.index(2) and output.index(6) + 1 < output.index(7)


def uncrossed(output: Output) -> bool:
    """(1 2) and (3 4) once each, in an order in which no edge of one pair cuts the other, and neither is empty."""
    if {(1, 2), (3, 4)} & set(pairwise(output)):
        return False
    order = tuple(token for token in output if token in {1, 2, 3, 4})
    return order in {(1, 2, 3, 4), (3, 4, 1, 2), (1, 3, 4, 2), (3, 1, 2, 4)}


def beside(output: Output) -> bool:
    """As `uncrossed`, and neither pair stands in the other."""
    return uncrossed(output) and tuple(token for token in output if token in {1, 2, 3, 4})[1] in {2, 4}


def outside(output: Output) -> bool:
    """6 and 7 once each with something between, 5 once, and not between them."""
    if any(output.count(token) != 1 for token in (5, 6, 7)):
        return False
    begin, at, end = map(output.index, (6, 5, 7))
    return begin + 1 < end and not begin < at < end


def must(*phrases: str, case: bool = False) -> MustAppear:
    return MustAppear([Phrase(tuple(forms.split("|")), case) for forms in phrases], VOCABULARY)


def must_not(*texts: str, case: bool = False) -> MustNotAppear:
    return MustNotAppear([Phrase(texts, case)], VOCABULARY)


TENANTS: dict[str, tuple[Constraint, Predicate]] = {
    "prefix": (Prefix([3, 5, 3], SIZE), lambda output: output[:3] == (3, 5, 3)),
    "no prefix": (Prefix([], SIZE), lambda output: True),
    "atoms": (Atoms([2, 2], [(6, 7)], kind=[9], vocab_size=SIZE), nested),
    "two pairs": (Atoms(pairs=[(1, 2), (3, 4)], kind=[], vocab_size=SIZE), uncrossed),
    "two pairs apart": (Atoms(pairs=[(1, 2), (3, 4)], kind=[], vocab_size=SIZE, apart=[1, 3]), beside),
    "an atom apart": (Atoms([5], [(6, 7)], kind=[], vocab_size=SIZE, apart=[5, 6]), outside),
    "atoms in order": (Atoms([5, 2], [(6, 7)], kind=[], vocab_size=SIZE, order=[5, 2]), ordered),
    "no atoms": (Atoms(kind=[3, 4], vocab_size=SIZE), lambda output: not {3, 4} & set(output)),
    "must": (must("rot"), has("rot")),
    "must with case": (must("Br", case=True), has("Br", 0)),
    "must in one form": (must("rotx|Bä"), has("rotx|Bä")),
    "must with a space": (must("rot x"), has("rot x")),
    "must twice": (must("rot", "ä"), both(has("rot"), has("ä"))),
    "must within another": (must("r", "r rot"), both(has("r"), has("r rot"))),
    "must as another begins": (must("rot", "rotB"), both(has("rot"), has("rotB"))),
    "must with signs": (must("x.", ". r"), both(matches(r"(?<!\w)x\."), matches(r"\. r(?!\w)"))),
    "must not": (must_not("rot"), lacks("rot")),
    "must not with case": (must_not("br", "B", case=True), lacks("br|B", 0)),
    "must not several": (must_not("b", "rot rot", "är"), lacks("b|rot rot|är")),
    "must not with signs": (must_not(". r", "x."), lambda output: not matches(r"(?<!\w)x\.|\. r(?!\w)")(output)),
}
PAIRS = [
    (one, other)
    for one, other in combinations(TENANTS, 2)
    if not (one.startswith("must") and other.startswith("must") and "not" not in one + other)
]
CASES = {name: [name] for name in TENANTS} | {f"{one} + {other}": [one, other] for one, other in PAIRS}


def case(names: list[str]) -> tuple[Constraint, Predicate]:
    if len(names) == 1:
        return TENANTS[names[0]]
    (one, first), (other, second) = (TENANTS[name] for name in names)
    return All([one, other]), both(first, second)


def walk(constraint: Constraint, depth: int, more: int = 0) -> dict[Output, Hashable | None]:
    """Every output of up to `depth` tokens and its state; None for those that are forbidden, which go no further.

    more: so many longer ones, at random.
    """
    found: dict[Output, Hashable | None] = {(): constraint.start()}
    edge: list[Output] = [()]
    for _ in range(depth):
        grown = {(*output, token): constraint.step(found[output], token) for output in edge for token in range(SIZE)}
        found |= grown
        edge = [output for output, state in grown.items() if state is not None]
    dice = random.Random(depth)
    for output in dice.choices(edge, k=more) if edge else ():
        for _ in range(dice.randrange(1, 7)):
            if found[output] is not None:
                output, before = (*output, dice.randrange(SIZE)), found[output]
                found[output] = constraint.step(before, output[-1])
    return found


each_tenant = pytest.mark.parametrize("name", TENANTS)
each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_an_output_may_end_exactly_where_the_predicate_holds(name: str) -> None:
    constraint, holds = case(CASES[name])
    for output, state in walk(constraint, *((3, 1000) if name in TENANTS else (2, 200))).items():
        if state is None:
            assert not holds(output), output
        else:
            assert constraint.done(state) == holds(output), output
            assert constraint.done(state) == (constraint.unmet(state) == ())


@each_tenant
def test_nothing_is_forbidden_that_could_still_end_well(name: str) -> None:
    """No continuation of a forbidden output, up to three tokens more, satisfies the predicate."""
    constraint, holds = TENANTS[name]
    for output, state in walk(constraint, 2).items():
        if state is None:
            assert not any(holds((*output, *more)) for size in range(4) for more in product(range(SIZE), repeat=size))


@each_case
def test_the_mask_says_what_the_steps_say(name: str) -> None:
    constraint, _ = case(CASES[name])
    for state in {state for state in walk(constraint, 2, 100).values() if state is not None}:
        steps = [constraint.step(state, token) is None for token in range(SIZE)]
        mask = constraint.forbidden(state)
        assert (mask is not None) == any(steps)
        if mask is not None:
            assert mask.dtype == torch.bool
            assert mask.tolist() == steps


@each_tenant
def test_states_are_values(name: str) -> None:
    """Two walks, in opposite orders and with masks asked for between, agree; a state may be a key."""
    constraint, _ = TENANTS[name]
    before = walk(constraint, 3)
    for state in reversed(list(before.values())):
        if state is not None:
            hash(state)
            constraint.forbidden(state)
            constraint.wanted(state)
    assert walk(constraint, 3) == before


@each_case
def test_what_is_wanted_leads_to_an_end_from_everywhere(name: str) -> None:
    """Each step takes a wanted token of most progress, which must grow, or where none is wanted the first that is
    allowed; the way of most progress never goes back."""
    constraint, holds = case(CASES[name])
    names = CASES[name]
    for output, state in walk(constraint, 3 - len(names)).items():
        for _ in range(16):
            if state is None or constraint.done(state):
                break
            steps = {token: constraint.step(state, token) for token in constraint.wanted(state)}
            steps = {token: new for token, new in steps.items() if new is not None}
            if len(names) > 1 and not steps:
                break  # the two contradict each other here
            if steps:
                token = max(steps, key=lambda token: constraint.progress(steps[token]))
                if len(names) == 1:
                    assert constraint.progress(steps[token]) > constraint.progress(state), output
            else:
                token = next(token for token in range(SIZE) if constraint.step(state, token) is not None)
            output, state = (*output, token), constraint.step(state, token)
        if len(names) == 1 and state is not None:
            assert constraint.done(state), (output, text_of(output))
            assert holds(output)
