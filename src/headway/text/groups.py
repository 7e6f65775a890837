"""Codes that stand together as one: `<b><i>` ... `</i></b>` is one pair, `<b>{{ x }}</b>` is one that stands alone.

A model has less to keep apart then, and no pair that holds no text. What was made one is spelt as its codes are, one
after the other, so the text is the same; `ungrouped` gives the codes back. The twin in tests/test_groups.py is the
property that both texts are equal, and a list of examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headway.text.codes import Code, Part, Parts, Side, codes, joined, plain

Groups = Mapping[Code, Parts]
"""What each code that stands for several was made of."""


@dataclass
class Unit:
    """Neighbouring parts; side: of the codes in it that have no partner in it; partner: the unit that has theirs."""

    parts: list[Part]
    side: Side | None = None  # of a text, None
    partner: Unit | None = None

    @property
    def is_space(self) -> bool:
        return self.side is None and not plain(self.parts).strip()


def grouped(parts: Parts) -> tuple[Parts, Groups]:
    """The parts with codes that stand together as one; crossing ones stay as they are.

    Together are tags and other codes of the file's own (`markup`) with nothing or white space between them. Of them,
    whole pairs and what stands alone become one code; opening ones become one where the closing ones stand together.
    """
    partners = paired(parts)
    if partners is None or len(codes(parts)) < 2:
        return parts, {}
    units = merged_pairs(list(merged_alone(folded(parts, partners))))
    groups: dict[Code, Parts] = {}

    def code(unit: Unit) -> Iterator[Part]:
        if unit.side is None or len(unit.parts) == 1:
            yield from unit.parts
            return
        opening = unit.partner if unit.side == "close" else unit
        assert opening is not None
        made = Code(plain(unit.parts), unit.side, True, "\n".join(one.key for one in codes(opening.parts)))
        groups[made] = tuple(unit.parts)
        yield made

    return joined(part for unit in units for part in code(unit)), groups


def ungrouped(parts: Iterable[Part], groups: Groups) -> Parts:
    """The parts with the codes that were made one as they were."""
    return joined(one for part in parts for one in (groups.get(part, (part,)) if isinstance(part, Code) else (part,)))


def paired(parts: Parts) -> dict[int, int] | None:
    """Where the partner of each code stands that has one; None where they cross. A key that does not open as often as
    it closes has none."""
    sides = [Counter(one.key for one in codes(parts) if one.side == side) for side in ("open", "close")]
    stack, found = list[int](), dict[int, int]()
    for at, part in enumerate(parts):
        if isinstance(part, str) or part.side == "alone" or sides[0][part.key] != sides[1][part.key]:
            continue
        if part.side == "open":
            stack.append(at)
            continue
        before = parts[stack[-1]] if stack else ""
        if isinstance(before, str) or before.key != part.key:
            return None
        found[at] = stack[-1]
        found[stack.pop()] = at
    return found


def folded(parts: Parts, partners: Mapping[int, int]) -> Iterator[Unit]:
    """A unit for each text, and for each code with all up to its partner where no text stands between them."""
    units, at = dict[int, Unit](), 0
    texts = [0]
    for part in parts:
        texts.append(texts[-1] + (isinstance(part, str) and bool(part.strip())))
    while at < len(parts):
        part, end = parts[at], partners.get(at, at)
        if isinstance(part, str):
            unit = Unit([part])
        elif end > at and texts[end] == texts[at]:
            unit, at = Unit([*parts[at : end + 1]], "alone"), end
        else:
            unit = Unit([part], part.side)
            if end > at:
                units[end] = unit
            elif end < at:
                unit.partner = units[at]
                unit.partner.partner = unit
        yield unit
        at += 1


def together(one: Part, between: Unit | None, other: Part) -> bool:
    """May these be one code, with or without white space between them?"""
    ends = all(isinstance(end, Code) and (end.markup or end.raw[:1] == "<") for end in (one, other))
    return ends and (between is None or between.is_space)


def merged_alone(units: Iterable[Unit]) -> Iterator[Unit]:
    """Neighbours that stand alone as one."""
    held: list[Unit] = []  # the last unit, and white space behind it
    for unit in units:
        space = held[1] if len(held) > 1 else None
        if held and held[0].side == unit.side == "alone" and together(held[0].parts[-1], space, unit.parts[0]):
            held[0].parts += [*(space.parts if space else ()), *unit.parts]
            del held[1:]
        elif len(held) == 1 and unit.is_space:
            held.append(unit)
        else:
            yield from held
            held = [unit]
    yield from held


def merged_pairs(units: list[Unit]) -> list[Unit]:
    """Opening neighbours as one where the closing ones are neighbours too, in the same order from within."""
    place, gone = {id(unit): at for at, unit in enumerate(units)}, set[int]()

    def behind(at: int) -> tuple[int, Unit | None]:
        """Where the next unit stands that is no white space, and the white space before it."""
        space = units[at + 1] if at + 1 < len(units) and units[at + 1].is_space else None
        return at + 1 + (space is not None), space

    for at, outer in enumerate(units):
        if at in gone or outer.side != "open" or outer.partner is None:
            continue
        end, begin = at, place[id(outer.partner)]  # of what opens, and of what closes
        closing = [outer.partner.parts]  # from without
        while (inner_at := behind(end)[0]) < len(units):
            inner, space = units[inner_at], behind(end)[1]
            if inner.side != "open" or inner.partner is None:
                break
            closing_at = place[id(inner.partner)]
            after, gap = behind(closing_at)
            opens = together(outer.parts[-1], space, inner.parts[0])
            if after != begin or not (opens and together(inner.partner.parts[-1], gap, closing[-1][0])):
                break
            outer.parts += [*(space.parts if space else ()), *inner.parts]
            closing.append([*inner.partner.parts, *(gap.parts if gap else ())])
            gone.update(range(end + 1, inner_at + 1), range(closing_at, begin))
            end, begin = inner_at, closing_at
        outer.partner.parts = [part for some in reversed(closing) for part in some]
    return [unit for at, unit in enumerate(units) if at not in gone]
