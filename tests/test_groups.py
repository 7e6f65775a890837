"""Codes that stand together as one, and back: the text never changes, and examples by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.text.codes import Code, Part, Parts, codes, differences, joined, plain
from headway.text.groups import grouped, ungrouped


def markup(name: str) -> Code:
    if name.startswith("</"):
        return Code(name, "close", True, f"<{name[2:]}")
    return Code(name, "alone" if name.endswith("/>") else "open", True)


def read(text: str) -> Parts:
    """`<b>` opens, `</b>` closes, `<b/>` stands alone as the file's own, `%s` as the text's."""
    import re

    made = [
        markup(piece) if piece.startswith("<") else Code(piece) if piece == "%s" else piece
        for piece in re.split(r"(<[^<>]*>|%s)", text)
    ]
    return joined(made)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Press <b><i>F1</i></b> now", ["<b><i>", "</i></b>"]),
        ("Press <b> <i>F1</i>\n</b> now", ["<b> <i>", "</i>\n</b>"]),
        ("Press <b><i>F1</i> or</b> so", ["<b>", "<i>", "</i>", "</b>"]),
        ("a <a></a><b> </b> z", ["<a></a><b> </b>"]),
        ("a <b>%s</b> z", ["<b>%s</b>"]),
        ("a <b><i>%s</i> <br/></b><br/> z", ["<b><i>%s</i> <br/></b><br/>"]),
        ("a <b>x</b><i>y</i> z", ["<b>", "</b>", "<i>", "</i>"]),
        ("%s %s, %s%s<br/>%s", ["%s", "%s", "%s", "%s", "<br/>", "%s"]),  # the text's own stay apart
        ("<a><b><c>x</c></b> y</a>", ["<a>", "<b><c>", "</c></b>", "</a>"]),
        ("<a><b>x</a></b><i><u>y</u></i>", ["<a>", "<b>", "</a>", "</b>", "<i>", "<u>", "</u>", "</i>"]),  # crossing
        ("<a><b>x</b><br/>", ["<a>", "<b>", "</b>", "<br/>"]),
        ("<b>x</b> <b>y</b>", ["<b>", "</b>", "<b>", "</b>"]),
        ("plain", []),
    ],
)
def test_what_stands_together_is_one(text: str, wanted: list[str]) -> None:
    found, groups = grouped(read(text))
    assert [code.raw for code in codes(found)] == wanted
    assert plain(found) == text
    assert ungrouped(found, groups) == read(text)


def test_halves_that_became_one_know_each_other() -> None:
    found, _ = grouped(read("<b><i>x</i></b>"))
    opening, closing = codes(found)
    assert (opening.side, closing.side, closing.key) == ("open", "close", opening.key)


def test_what_is_spelt_alike_and_means_others_stays_apart() -> None:
    """The keys of Markdown's links are their addresses, and both open with a bracket."""

    def link(address: str) -> tuple[Parts, Parts]:
        bold = Code("**", "open", True, "strong"), Code("**", "close", True, "strong")
        return (Code("[", "open", True, address), bold[0]), (bold[1], Code(f"]({address})", "close", True, address))

    (a, z), (b, y) = link("a.html"), link("b.html")
    parts = (*a, "Writer", *z, " or ", *b, "Calc", *y)
    found, groups = grouped(parts)
    assert len(set(codes(found))) == 4
    assert ungrouped(found, groups) == parts
    assert differences(found, (*found[:3], " or ", *found[:3])) != []


pieces = st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "%s", " ", "x", "\n"])


@given(st.lists(pieces, max_size=14).map("".join))
def test_every_text_comes_back_and_no_pair_is_torn(text: str) -> None:
    parts = read(text)
    found, groups = grouped(parts)
    assert plain(found) == text
    assert ungrouped(found, groups) == parts
    assert len(codes(found)) <= len(codes(parts))
    whole: list[Part] = [part for part in found if isinstance(part, Code) and part in groups]
    for part in whole:
        inside = codes(groups[part])  # pyright: ignore
        opens, closes = (Counter(one.key for one in inside if one.side == side) for side in ("open", "close"))
        side = part.side  # pyright: ignore
        even = {key for key in ["<b>", "<i>"] if text.count(key) == text.count(f"</{key[1:]}")}  # the others have none
        assert (
            all(opens[key] == closes[key] for key in even) if side == "alone" else not {"open": closes}.get(side, opens)
        )


def test_a_long_text_takes_no_quadratic_time() -> None:
    """Which would take minutes."""
    text = "<b><i>" * 50_000 + "x" + "</i></b>" * 50_000 + "<br/> " * 100_000
    found, groups = grouped(read(text))
    assert len(codes(found)) == 3
    assert plain(found) == text
    assert ungrouped(found, groups) == read(text)
