"""Reports: everything in a text is shown as text, nothing is lost in silence, and charts draw their numbers."""

import io
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import html5lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from headway.evaluate.report import (
    BOTTOM,
    LONGEST,
    TOP,
    Example,
    Examples,
    Histogram,
    Lines,
    Section,
    Share,
    Table,
    Text,
    Version,
    Versions,
    marked,
    page,
    shown,
    terminal,
    ticks,
    to_json,
)

NASTY = '<script>alert(0)</script> & "q" --> ]]> <!-- \x00\x1b[31m\x85 {{ 7 * 7 }} {% if %} e\u0301 שלום \ud800 \uffff'


def tree(text: str) -> ET.Element:
    """The page as a browser's rules read it; an error of syntax is an error here."""
    parser = html5lib.HTMLParser(tree=html5lib.getTreeBuilder("etree"), strict=True, namespaceHTMLElements=False)
    return parser.parse(text)


def words(element: ET.Element) -> str:
    return "".join(element.itertext())


def everywhere(text: str) -> list[Section]:
    """All kinds of sections with a text wherever one can stand."""
    return [
        Text(text, [text, text]),
        Table(text, [text, "number"], [[text, 1], [text, None]]),
        Histogram(text, text, text, [0, 1, 2], {text: [3, 4], "other": [1, 0]}),
        Lines(text, text, text, {text: [(0, 1.5), (1, 2.5)], "other": [(0, 1)]}),
        Examples(text, [Example(text, text, text, text, [(0, 8)], [(3, 500)])], ("en", "ar")),
        Versions(text, [Version(text, [(text, text), (text, "")])]),
    ]


def printed(sections: Sequence[Section], width: int = 100) -> str:
    stream = io.StringIO()
    terminal(sections, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("text", [NASTY, "", "</title></style></svg></table>", '" onload="x', "‮rtl override", "\r\n\t"])
def test_no_text_becomes_markup(text: str) -> None:
    plain, found = tree(page("t", everywhere("t"))), tree(page(text, everywhere(text)))

    def shape(root: ET.Element) -> list[str]:
        return [f"{item.tag} {sorted(item.keys())}" for item in root.iter() if item.tag not in {"mark", "br"}]

    assert shape(found) == shape(plain) if text else "script" not in str(shape(found))
    assert "49" not in words(found)


def test_a_page_needs_nothing_from_elsewhere() -> None:
    found = tree(page("t", everywhere(NASTY)))
    assert not {"script", "link", "img", "iframe", "object", "base"} & {item.tag for item in found.iter()}
    assert not [
        name for item in found.iter() for name in item.attrib if name.startswith("on") or name in {"href", "src"}
    ]
    style = words(next(found.iter("style")))
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_what_cannot_be_shown_is_made_visible() -> None:
    text = page("t", [Text("t", ["a\x00b\x1b\x7f\x85\ud800c\td"])])
    assert "a␀b␛␡\ufffd\ufffdc\td" in text
    assert text.encode()
    assert "a␀b␛␡" in printed([Text("t", ["a\x00b\x1b\x7f"])])
    assert "\x1b" not in printed(everywhere(NASTY))


def test_long_texts_are_cut_and_the_rest_is_counted() -> None:
    long = "x" * 10_000
    for output in (page("t", [Text("t", [long])]), page("t", [Examples("t", [Example("1", long, "y")])])):
        assert output.count("x" * LONGEST + " … (9,000 more characters)") == 1
        assert "x" * (LONGEST + 1) not in output
    assert "(9,000 more characters)" in printed([Examples("t", [Example("1", long, "y")])])
    assert long in to_json("t", [Text("t", [long])])
    assert shown("y" * LONGEST) == "y" * LONGEST


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(max_size=20) | st.integers(0, 40).map(lambda extra: "ab" * (LONGEST // 2 - 10) + "c" * extra),
    spans=st.lists(st.tuples(st.integers(0, 1100), st.integers(0, 1100)), max_size=4),
)
def test_marked_pieces_are_the_text_and_exactly_the_spans_are_marked(text: str, spans: list[tuple[int, int]]) -> None:
    pieces = marked(text, spans)
    assert "".join(piece for piece, _ in pieces) == shown(text)
    on = [flag for piece, flag in pieces for _ in piece]
    limit = min(len(text), LONGEST)
    assert on[:limit] == [any(start <= at < end for start, end in spans) for at in range(limit)]
    assert not any(on[limit:])


def test_examples_are_marked_where_the_spans_are_in_any_direction() -> None:
    found = tree(
        page("t", [Examples("t", [Example("1", "a <b>c", "שלום עולם", "", [(2, 5)], [(5, 9)])], ("en", "he"))])
    )
    assert [words(mark) for mark in found.iter("mark")] == ["<b>", "עולם"]
    sides = [cell for cell in found.iter("td") if cell.get("lang")]
    assert [(cell.get("lang"), cell.get("dir"), words(cell)) for cell in sides] == [
        ("en", "auto", "a <b>c"),
        ("he", "auto", "שלום עולם"),
    ]


def test_tables_have_captions_and_scopes_and_numbers_are_aligned() -> None:
    found = tree(
        page("t", [Table("Pairs", ["file", "pairs", "kept"], [["a", 1234567, Share(0.5)], ["b", None, None]])])
    )
    assert [words(caption) for caption in found.iter("caption")] == ["Pairs"]
    assert [(head.get("scope"), head.get("class")) for head in found.iter("th")] == [
        ("col", None),
        ("col", "number"),
        ("col", "number"),
    ]
    assert [words(cell) for cell in found.iter("td")] == ["a", "1,234,567", "50.0 %", "b", "", ""]
    assert re.search(r"a +1,234,567 +50\.0 %", printed([Table("t", ["x", "y", "z"], [["a", 1234567, Share(0.5)]])]))


def test_cells_read_well() -> None:
    values = [
        0,
        12,
        1234567,
        0.5,
        1234.56,
        0.000012345,
        3.0,
        math.inf,
        math.nan,
        Share(0.0123),
        Share(1),
        Share(0.00004),
        None,
    ]
    expected = [
        "0",
        "12",
        "1,234,567",
        "0.5",
        "1,234.6",
        "1.234e-05",
        "3",
        "inf",
        "nan",
        "1.2 %",
        "100.0 %",
        "0.004 %",
        "",
    ]
    assert [shown(value) for value in values] == expected


@settings(max_examples=60, deadline=None)
@given(low=st.floats(-1e6, 1e6), wide=st.floats(0, 1e6))
def test_ticks_are_few_round_and_reach_around_the_values(low: float, wide: float) -> None:
    marks = ticks(low, low + wide)
    slack = 1e-9 * (1 + abs(low) + wide)
    assert marks[0] <= low + slack
    assert marks[-1] >= low + wide - slack
    assert 2 <= len(marks) <= 8
    assert marks == sorted(set(marks))


def svg(section: Section) -> ET.Element:
    """The drawing read as XML, which is stricter than HTML."""
    found = re.search(r"<svg.*?</svg>", page("t", [section]), re.DOTALL)
    assert found
    return ET.fromstring(found[0].encode())


NAMES = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_high_as_their_counts_and_say_them() -> None:
    counts = {"source": [3, 0, 12, 9], "target": [6, 1, 0, 2]}
    drawing = svg(Histogram("Lengths", "tokens", "pairs", [0, 1, 10, 20, math.inf], counts))
    assert drawing.get("role") == "img"
    assert drawing[0].text == "Lengths"
    bars = drawing.findall(f"{NAMES}rect")
    told = [bar[0].text for bar in bars]
    assert told[:4] == [
        "0: 3 pairs, source",
        "1 to 9: 0 pairs, source",
        "10 to 19: 12 pairs, source",
        "20 or more: 9 pairs, source",
    ]
    heights = [float(bar.get("height", "")) for bar in bars]
    every = [*counts["source"], *counts["target"]]
    assert [round(12 * height / heights[2], 3) for height in heights] == every
    assert all(abs(float(bar.get("y", "")) + float(bar.get("height", "")) - BOTTOM) < 0.02 for bar in bars)
    assert min(float(bar.get("y", "")) for bar in bars) >= TOP


def test_lines_go_through_their_points_and_leave_out_what_is_no_number() -> None:
    points = [(0.0, 4.0), (10.0, 2.0), (20.0, math.nan), (30.0, 3.0)]
    drawing = svg(Lines("Loss", "step", "nats", {"train": points}))
    dots = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in drawing.findall(f"{NAMES}circle")]
    assert len(dots) == 3
    (x0, y4), (x10, y2), (x30, y3) = dots
    assert (x30 - x0) == pytest.approx(3 * (x10 - x0), abs=0.05)
    assert (y2 - y4) == pytest.approx(2 * (y2 - y3), abs=0.05)
    assert y4 < y3 < y2  # up is less in SVG
    assert "nan" in page("t", [Lines("Loss", "step", "nats", {"train": points})])


def test_a_band_is_drawn_from_the_lowest_to_the_highest_around_its_own_line() -> None:
    section = Lines("Loss", "step", "nats", {"empty": [], "a": [(0, 2), (10, 4)]}, {"a": [(1, 3), (2, 8)]})
    drawing = svg(section)
    [band] = drawing.findall(f"{NAMES}polygon")
    corners = [tuple(map(float, corner.split(","))) for corner in band.get("points", "").split()]
    (x0, y1), (x10, y2), (_, y8), (_, y3) = corners
    assert [x for x, _ in corners] == [x0, x10, x10, x0]
    assert [y1 - y2, y1 - y3, y1 - y8] == pytest.approx([(y1 - y2), 2 * (y1 - y2), 7 * (y1 - y2)], abs=0.05)
    assert y1 > y2 > y3 > y8 >= TOP
    assert "fill1" in band.get("class", ""), "the second name has the second colour, also where the first has no points"
    assert [words(cell) for cell in tree(page("t", [section])).iter("td")] == ["a", *"0213", "a", "10", *"428"]
    assert re.search(r"a +2 +2 +4 +1 +8", printed([section]))


def test_charts_have_their_numbers_beside_them() -> None:
    found = tree(page("t", [Histogram("H", "tokens", "pairs", [0, 5, 10], {"a": [7, 1234]})]))
    assert [words(cell) for cell in found.iter("td")] == ["0 to 4", "7", "5 to 9", "1,234"]


def test_empty_sections_are_fine() -> None:
    sections = [
        Text("a", []),
        Table("b", ["x"], []),
        Histogram("c", "x", "y", [0, 1], {"n": [0]}),
        Histogram("d", "x", "y", [0], {}),
        Lines("e", "x", "y", {"n": []}),
        Lines("f", "x", "y", {"n": [(1, 0.0)]}),
        Examples("g", []),
    ]
    tree(page("t", sections))
    assert [line for line in printed(sections).split("\n") if line in set("abcdefg")] == list("abcdefg")
    assert len(json.loads(to_json("t", sections))["sections"]) == 7


def test_json_holds_everything_with_null_for_what_is_no_number() -> None:
    found = json.loads(to_json("t\ud800", everywhere(NASTY)))
    assert found["title"] == "t\ud800"
    assert [section["kind"] for section in found["sections"]] == [
        "text",
        "table",
        "histogram",
        "lines",
        "examples",
        "versions",
    ]
    assert found["sections"][0]["paragraphs"] == [NASTY, NASTY]
    assert found["sections"][4]["rows"][0]["source_spans"] == [[0, 8]]
    numbers = Table("t", ["a", "b", "c"], [[math.nan, math.inf, Share(0.25)]])
    assert json.loads(to_json("t", [numbers]))["sections"][0]["rows"] == [[None, None, 0.25]]
    assert to_json("t", everywhere(NASTY)).encode()


def test_the_terminal_shows_brackets_as_they_are() -> None:
    assert "[bold]x[/bold]" in printed([Text("t", ["[bold]x[/bold]"]), Table("[red]", ["[b]"], [["[/b]"]])])


def test_the_terminal_gets_the_first_examples_and_the_number_of_the_others() -> None:
    sections = [Examples("t", [Example(f"line {number}", "x", "y") for number in range(1, 1034)])]
    shown = printed(sections)
    assert "line 30" in shown
    assert "line 31" not in shown
    assert "1,003 more are in a report file" in shown
    assert all(f"line {number}" in page("t", sections) for number in (1, 31, 1033))


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_can_be_shown_three_ways(text: str) -> None:
    sections = everywhere(text)
    assert (
        ET.fromstring("<x>" + "".join(re.findall(r"<svg.*?</svg>", page(text, sections), re.DOTALL)) + "</x>")
        is not None
    )
    assert printed(sections)
    assert json.loads(to_json(text, sections))["title"] == text


@pytest.mark.slow
def test_the_colour_of_a_name_stands_at_its_side_wherever_a_line_ends(browser: Any, tmp_path: Path) -> None:
    names = [f"{'a-name-of-a-run' * size}" for size in (1, 2, 1, 6, 1, 3)]
    lines = Lines("t", "x", "y", {f"{name}{number}": [(0, 1)] for number, name in enumerate(names)})
    (tmp_path / "page.html").write_text(page("t", [lines]), encoding="utf-8")
    for width in range(300, 800, 50):
        tab = browser.new_page(viewport={"width": width, "height": 600})
        tab.goto((tmp_path / "page.html").as_uri())
        for mark, box in tab.evaluate(
            """[...document.querySelectorAll('.names span')].map(name => {
              const text = document.createRange()
              text.selectNodeContents(name.lastChild)
              return [name.firstChild.getBoundingClientRect(), text.getClientRects()[0]].map(box => box.toJSON())
            })"""
        ):
            assert mark["width"] == 12
            assert box["top"] <= mark["top"] < mark["bottom"] <= box["bottom"]
            assert 0 < box["left"] - mark["right"] < 20
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.close()
