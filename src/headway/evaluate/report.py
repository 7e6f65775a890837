"""Reports: written once as sections, shown as a page of HTML, on the terminal, or as JSON.

The page is one file that needs no network and no script; its template is report.html. Charts are drawn there from
numbers that are worked out here. Whatever is in a text is shown as text: nothing of it is markup, control characters
are made visible, right-to-left text keeps to its own box, and what is too long is cut with the count of the rest.
The independent checks (an HTML parser, an XML parser) are in tests/test_report.py.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import rich.table
import rich.text
from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from rich.console import Console

LONGEST = 1000
"""Characters of one text that a page or a terminal shows. JSON has all of them."""


class Share(float):
    """A number from 0 to 1 that is shown in percent."""


class Seconds(float):
    """A span of time that is shown in hours and minutes."""


Cell = str | int | float | None


@dataclass(frozen=True)
class Text:
    """Paragraphs under a heading."""

    title: str
    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows under named columns. A column of numbers is aligned to the right; None is an empty cell."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.title

    @property
    def numeric(self) -> list[bool]:
        columns = ([row[at] for row in self.rows if row[at] is not None] for at in range(len(self.columns)))
        return [bool(cells) and not any(isinstance(cell, str) for cell in cells) for cells in columns]


@dataclass(frozen=True)
class Histogram:
    """How many there are of each size: `counts[name][n]` from `edges[n]` on and below `edges[n + 1]`, which may be
    infinite at the end. axis, unit: what is measured, and what is counted."""

    title: str
    axis: str
    unit: str
    edges: Sequence[float]
    counts: Mapping[str, Sequence[int]]

    def __post_init__(self) -> None:
        assert all(len(counts) == len(self.edges) - 1 for counts in self.counts.values()), self.title

    def table(self) -> Table:
        rows = [[self.label(at), *(counts[at] for counts in self.counts.values())] for at in range(len(self.edges) - 1)]
        return Table(self.title, [self.axis, *self.counts], rows)

    def label(self, at: int) -> str:
        low, high = self.edges[at], self.edges[at + 1]
        if math.isinf(high):
            return f"{shown(low)} or more"
        whole = all(float(edge).is_integer() for edge in self.edges if not math.isinf(edge))
        last = high - 1 if whole else high
        return shown(low) if last == low else f"{shown(low)} to {shown(last)}"


@dataclass(frozen=True)
class Lines:
    """One line for each name: points (x, y) in the order of x. A name without points keeps its colour for itself.

    bands: for a name whose points are means, the lowest and the highest value at each of them."""

    title: str
    axis: str
    unit: str
    points: Mapping[str, Sequence[tuple[float, float]]]
    bands: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert all(len(band) == len(self.points[name]) for name, band in self.bands.items()), self.title

    def table(self) -> Table:
        columns = ["line", self.axis, self.unit, *(["lowest", "highest"] if self.bands else [])]
        rows = []
        for name, points in self.points.items():
            ends = self.bands.get(name) or ([(None, None)] if self.bands else [()]) * len(points)
            rows += [[name, *point, *end] for point, end in zip(points, ends, strict=True)]
        return Table(self.title, columns, rows)


@dataclass(frozen=True)
class Example:
    """A pair with what to say of it; spans: from and to which character to mark."""

    place: str
    source: str
    target: str
    note: str = ""
    source_spans: Sequence[tuple[int, int]] = ()
    target_spans: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Examples:
    """Pairs side by side; languages: tags of the two sides, where they are known."""

    title: str
    rows: Sequence[Example]
    languages: tuple[str | None, str | None] = field(default=(None, None))


@dataclass(frozen=True)
class Version:
    """Texts that stand for the same, each after whose it is: the source, the reference, what a model said."""

    place: str
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Versions:
    """Texts below each other, to be compared."""

    title: str
    rows: Sequence[Version]


Section = Text | Table | Histogram | Lines | Examples | Versions


# ---- what a reader sees of a value ----

PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}
PICTURES |= dict.fromkeys([*range(0x80, 0xA0), 0xFFFE, 0xFFFF], 0xFFFD)
SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """The same text, as long as it was, without what a page or a terminal would swallow or obey."""
    return SURROGATE.sub("\ufffd", text.translate(PICTURES))


def beginning(text: str) -> tuple[str, str]:
    """What is shown of a text, and the words that say how much is not."""
    rest = len(text) - LONGEST
    return visible(text[:LONGEST]), f" … ({rest:,} more characters)" if rest > 0 else ""


def shown(value: Cell) -> str:
    """A cell as text: numbers with thousands or four digits, shares in percent, texts visible and not too long."""
    if value is None:
        return ""
    if isinstance(value, str):
        return "".join(beginning(value))
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(float(value))
    if isinstance(value, Share):
        return f"{100 * value:{'.1f' if value == 0 or abs(value) >= 0.001 else '.2g'}} %"
    if isinstance(value, Seconds):
        return duration(value)
    if value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def marked(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    """The text as it is shown, in pieces, and whether each is marked."""
    text, rest = beginning(text)
    at, found = 0, []
    for start, end in sorted(spans):
        start, end = max(start, at), min(end, len(text))
        if start < end:
            found += [(text[at:start], False), (text[start:end], True)]
            at = end
    return [piece for piece in [*found, (text[at:], False), (rest, False)] if piece[0]]


# ---- charts: numbers to places ----

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 64, WIDTH - 24, 12, HEIGHT - 44


@dataclass
class Chart:
    """What a chart draws, in the units of its box. series: the number of a name, which gives the colour; names: what is
    drawn, each after its series, where there are several to be told apart."""

    names: list[tuple[int, str]]
    axis: str
    unit: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    bars: list[tuple[int, float, float, float, float, str]] = field(default_factory=list)  # series x y width height
    lines: list[tuple[int, list[tuple[float, float, str]]]] = field(default_factory=list)  # series, points
    bands: list[tuple[int, list[tuple[float, float]]]] = field(default_factory=list)  # series, corners


def ticks(low: float, high: float) -> list[float]:
    """A few round numbers that reach from `low` to `high` or beyond."""
    most = max(abs(low), abs(high))
    wide = high - low if high - low > 1e-9 * most + 1e-300 else most if most > 1e-300 else 1.0
    power = 10.0 ** math.floor(math.log10(wide / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if wide / (power * factor) <= 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 2)


def legend(drawn: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(series, name) for series, (name, what) in enumerate(drawn.items()) if what] if len(drawn) > 1 else []


def bars(section: Histogram) -> Chart:
    num, names = len(section.edges) - 1, list(section.counts)
    marks = ticks(0, max((count for counts in section.counts.values() for count in counts), default=0))
    x, y = scale(0, max(num, 1), LEFT, RIGHT), scale(0, marks[-1], BOTTOM, TOP)
    every = max(1, math.ceil(num / 10))
    x_ticks = [(x(at), shown(edge)) for at, edge in enumerate(section.edges) if at % every == 0 and math.isfinite(edge)]
    y_ticks = [(y(mark), shown(mark)) for mark in marks]
    chart = Chart(legend(section.counts), section.axis, section.unit, x_ticks, y_ticks)
    for series, name in enumerate(names):
        for at, count in enumerate(section.counts[name]):
            left = at + 0.05 + 0.9 * series / len(names)
            told = f"{section.label(at)}: {count:,} {section.unit}" + (f", {name}" if len(names) > 1 else "")
            wide = round(x(left + 0.9 / len(names)) - x(left), 2)
            chart.bars.append((series, x(left), y(count), wide, round(BOTTOM - y(count), 2), told))
    return chart


def numbers(points: Iterable[tuple[float, ...]]) -> list[tuple[float, ...]]:
    return [point for point in points if all(map(math.isfinite, point))]


def lines(section: Lines) -> Chart:
    """Points that are no numbers are not drawn; they are in the table below."""
    finite = {name: numbers(points) for name, points in section.points.items()}
    spans = {name: zip(section.points[name], band, strict=True) for name, band in section.bands.items()}
    bands = {name: numbers((x, *ends) for (x, _), ends in span) for name, span in spans.items()}
    xs, ys = ([point[at] for points in finite.values() for point in points] or [0.0] for at in (0, 1))
    ys += [end for band in bands.values() for _, *ends in band for end in ends]
    x_marks, y_marks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))
    x, y = scale(x_marks[0], x_marks[-1], LEFT, RIGHT), scale(y_marks[0], y_marks[-1], BOTTOM, TOP)
    x_ticks, y_ticks = ([(at(mark), shown(mark)) for mark in marks] for at, marks in ((x, x_marks), (y, y_marks)))
    chart = Chart(legend(finite), section.axis, section.unit, x_ticks, y_ticks)
    for series, (name, points) in enumerate(finite.items()):
        chart.lines.append((series, [(x(a), y(b), f"{name}: {shown(a)}, {shown(b)}") for a, b in points]))
        band = bands.get(name, [])
        corners = [(x(a), y(low)) for a, low, _ in band] + [(x(a), y(high)) for a, _, high in reversed(band)]
        chart.bands += [(series, corners)] * bool(corners)
    return chart


# ---- the three ways to show a report ----


def page(title: str, sections: Sequence[Section]) -> str:
    """One HTML file with everything in it: for a browser without a network, light or dark, or for paper."""
    text = template("report.html").render(
        title=title, sections=[(kind(section), section, chart(section)) for section in sections]
    )
    return visible(text)


def chart(section: Section) -> Chart | None:
    if isinstance(section, Histogram):
        return bars(section)
    return lines(section) if isinstance(section, Lines) else None


def kind(section: Section) -> str:
    return type(section).__name__.lower()


@cache
def template(name: str) -> Template:
    """A page of this folder; what pages share stands in style.html. `tojson` makes data that may stand in a script."""
    folder = files("headway.evaluate")
    room = Environment(
        loader=FunctionLoader(lambda file: folder.joinpath(file).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    room.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    room.filters.update(shown=shown)
    room.globals.update(marked=marked, width=WIDTH, height=HEIGHT, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM)
    return room.get_template(name)


def to_json(title: str, sections: Sequence[Section]) -> str:
    """The title and the sections with their kinds; texts whole, and null for what is no finite number."""
    data = {"title": title, "sections": [{"kind": kind(section), **asdict(section)} for section in sections]}
    text = json.dumps(finite(data), ensure_ascii=False, allow_nan=False, indent=1)
    return SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


ON_TERMINAL = 30
"""Examples that a terminal is given."""


def terminal(sections: Sequence[Section], console: Console) -> None:
    """Print the sections. Histograms are bars; of a line there are its ends, its lowest and its highest point."""
    for section in sections:
        console.print(rich.text.Text(shown(section.title), style="bold"))
        for part in terminal_parts(section):
            console.print(part)
        console.print()


def terminal_parts(section: Section) -> Iterator[rich.text.Text | rich.table.Table]:
    match section:
        case Text():
            yield from (rich.text.Text(shown(paragraph)) for paragraph in section.paragraphs)
        case Table():
            yield grid(section)
        case Histogram():
            table, most = section.table(), max([1, *itertools.chain(*section.counts.values())])
            rows = [[*row, *("█" * math.ceil(30 * int(count or 0) / most) for count in row[1:])] for row in table.rows]
            yield grid(Table(section.title, [*table.columns, *("" for _ in section.counts)], rows))
        case Lines():
            columns = ["line", "points", "first", "last", "lowest", "highest"]
            ys = {name: [y for _, y in points] for name, points in section.points.items()}
            every = {name: [*y, *itertools.chain(*section.bands.get(name, ()))] for name, y in ys.items()}
            rows = [[name, len(y), y[0], y[-1], min(every[name]), max(every[name])] for name, y in ys.items() if y]
            yield grid(Table(section.title, columns, rows))
        case Examples():
            for example in section.rows[:ON_TERMINAL]:
                yield rich.text.Text(
                    shown(example.place) + (f": {shown(example.note)}" if example.note else ""), style="dim"
                )
                for text, spans in ((example.source, example.source_spans), (example.target, example.target_spans)):
                    yield rich.text.Text.assemble(
                        "  ", *((piece, "reverse" if on else "") for piece, on in marked(text, spans))
                    )
            yield from rest_of(section.rows)
        case Versions():
            for version in section.rows[:ON_TERMINAL]:
                yield rich.text.Text(shown(version.place), style="dim")
                yield grid(Table(version.place, ["", ""], version.texts), header=False)
            yield from rest_of(section.rows)


def rest_of(rows: Sequence[object]) -> Iterator[rich.text.Text]:
    if (more := len(rows) - ON_TERMINAL) > 0:
        yield rich.text.Text(f"{more:,} more are in a report file (.html, .json)")


def grid(table: Table, header: bool = True) -> rich.table.Table:
    made = rich.table.Table(box=None, pad_edge=False, show_header=header)
    for name, numeric in zip(table.columns, table.numeric, strict=True):
        made.add_column(rich.text.Text(shown(name)), justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(rich.text.Text(shown(cell)) for cell in row))
    return made
