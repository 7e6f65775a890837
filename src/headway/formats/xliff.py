"""XLIFF 1.1, 1.2 and 2.0 / 2.1, bilingual exchange files.

http://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html, with which 1.1 agrees, and
http://docs.oasis-open.org/xliff/xliff-core/v2.1/. A file that does not say its version is of its namespace's. In 1.x a
segment is a `<trans-unit>`, because its `<target>` and state are one; sentence marks in `<seg-source>` are codes, so
that the target gets them too. In 2.x it is a `<segment>`. The twin in the tests is lxml.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import zip_longest
from typing import ClassVar, NamedTuple
from xml.sax.saxutils import quoteattr

from headway.formats.segment import (
    Buffer,
    Document,
    Edit,
    FormatError,
    Segment,
    Skipped,
    State,
    as_text,
    one_line,
    same_language,
    unsaid,
)
from headway.formats.xml import MOST_FAULTS, XML, Aside, Element, Inline, Span, Text, has_text, within_codes
from headway.text.codes import Parts, plain

INLINE_1 = {
    "g": Inline("around"),
    "x": Inline("alone"),
    "bx": Inline("open", "span", ("rid", "id")),
    "ex": Inline("close", "span", ("rid", "id")),
    "bpt": Inline("open", "pair", ("rid", "id")),
    "ept": Inline("close", "pair", ("rid", "id")),
    "it": Inline("pos"),
    "ph": Inline("alone"),
    "mrk": Inline("around", ids=("mid",)),
}
INLINE_2 = {
    "pc": Inline("around"),
    "ph": Inline("alone"),
    "sc": Inline("open", "span"),
    "ec": Inline("close", "span", ("startRef", "id")),
    "mrk": Inline("around"),
    "sm": Inline("open", "mark"),
    "em": Inline("close", "mark", ("startRef",)),
    "cp": Inline("alone", ids=("hex",)),
}

REVIEW, MACHINE = "needs-review-translation", "headway:machine"
STATES_1: dict[str, State] = {
    "final": "done",
    "signed-off": "done",
    "translated": "done",
    "new": "unsure",
    "needs-translation": "unsure",
    "needs-adaptation": "unsure",
    "needs-l10n": "unsure",
    "needs-review-adaptation": "unsure",
    "needs-review-l10n": "unsure",
    REVIEW: "unsure",
}
STATES_2: dict[str, State] = {"initial": "unsure", "translated": "done", "reviewed": "done", "final": "done"}
"""What a state says of a target with text in it; one without text is empty. No state, or one that is the user's own
(`x-...`), says "done", but for a 1.x target that lacks a sentence of the source."""
GUESSED = {"fuzzy-match", "leveraged-mt", "mt-suggestion"}
REJECTED = {"rejected-grammar", "rejected-inaccurate", "rejected-length", "rejected-spelling"}
"""Qualifiers of a state that make a translation unsure."""


class Version(NamedTuple):
    """unit: the elements with texts; languages: of whom the attributes of source and target are."""

    unit: str
    languages: tuple[str, str]
    inline: Mapping[str, Inline]


ONE = Version("trans-unit", ("source-language", "target-language"), INLINE_1)
TWO = Version("unit", ("srcLang", "trgLang"), INLINE_2)
VERSIONS = {"1.1": ONE, "1.2": ONE, "2.0": TWO, "2.1": TWO}
NAMESPACE = "urn:oasis:names:tc:xliff:document:"
NAMESPACES = {version: NAMESPACE + ("2.0" if made is TWO else version) for version, made in VERSIONS.items()}


class Slot(NamedTuple):
    """holder: the `<trans-unit>` or `<segment>`; source: what is translated; target: where to, or None, then `at` is
    where it goes, after the white space `outer`, as `tag`, with its language where no other place says it; preserve:
    is white space in it to be preserved?"""

    holder: Span
    source: Span
    target: Span | None
    at: int
    outer: str
    tag: str
    language: str | None
    preserve: bool


class XLIFF(Document):
    """An XLIFF file. The languages are its own: a `<file>` for others than those asked for is left alone, and counted
    in `skipped`, which tells after `segments` what gave no segment."""

    kind: ClassVar[str] = "xliff"
    suffixes: ClassVar[tuple[str, ...]] = (".xlf", ".xliff")
    bilingual: ClassVar[bool] = True

    def __init__(self, data: Buffer, name: str, source: str | None = None, target: str | None = None) -> None:
        super().__init__(data, name, source, target)
        self.xml = XML(data, name)
        self.headed: int | None = None  # where the segment stands that the change of the root came with

    @cached_property
    def root(self) -> Element:
        return next(self.xml.elements(()))

    @cached_property
    def version(self) -> Version:
        root = self.root
        told = root.attributes.get("version", root.namespace.removeprefix(NAMESPACE))
        found = VERSIONS.get(told)
        if root.name != "xliff" or found is None:
            what = (
                f"is XLIFF {told or 'of no version'}" if root.name == "xliff" else f"is no XLIFF, but a <{root.name}>"
            )
            remedy = f"Convert it to one of XLIFF {', '.join(VERSIONS)}"
            raise FormatError(self.name, [f"line {root.line}: {what}. {remedy}"])
        if root.namespace not in ("", NAMESPACES[told]):
            what = f"says version {told}, and its namespace is {root.namespace}"
            raise FormatError(self.name, [f"line {root.line}: {what}. Make it {NAMESPACES[told]}"])
        return found

    def segments(self) -> Iterator[Segment]:
        self.skipped, self.headed = Skipped(), None
        faults: list[str] = []
        file, seen = None, dict[str, int]()
        try:
            for unit in self.xml.elements({self.version.unit}):
                if unit.parent is None:
                    continue
                if (holder := unit.above("file")) is not file:
                    file, seen = holder, {}
                yield from self.unit(unit, seen, faults)
                if len(faults) >= MOST_FAULTS:
                    break
        except FormatError as error:
            faults += error.faults
        if faults:
            raise FormatError(self.name, faults[:MOST_FAULTS])

    def unit(self, unit: Element, seen: dict[str, int], faults: list[str]) -> Iterator[Segment]:
        """The segments of a unit; seen: the lines of the ids of its file."""
        name = unit.attributes.get("id", "")
        place = f"line {unit.line}" + f", unit {one_line(name)}" * bool(name)
        if name in seen:
            faults.append(f"{place}: line {seen[name]} has the same id in the same <file>. Give each unit its own")
        elif name:
            seen[name] = unit.line
        for asked, attribute in zip((self.source, self.target), self.version.languages, strict=True):
            told = unit.inherited(attribute)
            if asked and told and not same_language(asked, told):
                self.skipped.add(f"{attribute} is {told}, not {asked}", place)
                return
        notes = unit.all("note") + [note for notes in unit.all("notes") for note in notes.all("note")]
        told = "\n".join(note.text().strip() for note in notes)
        if self.version is ONE:
            yield from self.segment(unit, unit, place, told, faults)
        there: dict[str, int] = {}
        for number, holder in enumerate(unit.all("segment") if self.version is TWO else [], 1):
            which = holder.attributes.get("id", "")
            where = f"line {holder.line}, unit {one_line(name)}, segment {one_line(which) or number}"
            if which and there.setdefault(which, number) != number:
                faults.append(f"{where}: segment {there[which]} of this unit has the same id. Give each its own")
            yield from self.segment(unit, holder, where, told, faults)

    def segment(self, unit: Element, holder: Element, place: str, notes: str, faults: list[str]) -> Iterator[Segment]:
        """The segment of a holder of source and target, or a note of why it is none."""
        targets = holder.all("target")
        if len(holder.all("source")) != 1 or len(targets) > 1:
            faults.append(f"{place}: has not one <source> and at most one <target>. Keep one of each")
            return
        target = targets[0] if targets else None
        preserve = holder.attributes.get("xml:space", unit.inherited("xml:space")) == "preserve"
        if self.version is TWO and target:
            protected(target)
        endless = self.version is TWO and protected(holder.all("source")[0]) is not None
        found = self.xml.parts(target, self.version.inline, preserve=preserve) if target else ()
        found = found if has_text(found) else None
        source, last = self.source_of(holder, target if found else None)
        parts = self.xml.parts(source, self.version.inline, preserve=preserve)
        if not has_text(parts):
            self.skipped.add("nothing to translate", place)
            return
        if any(sub.text().strip() for sub in within_codes(source, "sub", self.version.inline)):
            self.skipped.note("text within a code (<sub>), kept as it is", place)
        if endless:
            self.skipped.note('<sm translate="no"> has no end in its segment, whose rest is kept as it is', place)
        file = unit.above("file")
        names = [file.attributes.get("original", file.attributes.get("id"))] if file else []
        names += [element.attributes.get("id") for element in dict.fromkeys((unit, holder))]
        told = unit.inherited(self.version.languages[1]) or self.version is TWO
        prefix = self.xml.tag(source.span)[0].removesuffix(source.name)
        yield Segment(
            place,
            parts,
            found,
            self.state(holder, target) if target and found else "empty",
            context="/".join(name for name in names if name),
            notes=notes,
            most=longest(unit, place, faults),
            translate=unit.inherited("translate") != "no",
            slot=Slot(
                holder.span,
                source.span,
                target.span if target else None,
                last.end,
                self.xml.spaced(holder, last),
                f"{prefix}target",
                None if told else self.target,
                target.preserves(preserve) if target else preserve,
            ),
        )

    def source_of(self, holder: Element, target: Element | None) -> tuple[Element, Element]:
        """What to translate, and the element that a new target follows. target: one with text in it, or None.

        It is the text with sentence marks, unless the translation that is there has none.
        """
        source, marked = holder.all("source")[0], holder.first("seg-source")
        if marked is None:
            return source, source
        return (marked if has_marks(marked) and (target is None or has_marks(target)) else source), marked

    def state(self, holder: Element, target: Element) -> State:
        """Of a target with text in it."""
        if self.version is TWO:
            if holder.attributes.get("subState") == MACHINE:
                return "unsure"
            return STATES_2.get(holder.attributes.get("state", ""), "done")
        state, qualifier = target.attributes.get("state", ""), target.attributes.get("state-qualifier")
        if holder.attributes.get("approved") == "yes" or state in ("final", "signed-off"):
            return "done"
        if qualifier in GUESSED | REJECTED:
            return "unsure"
        return STATES_1.get(state) or ("unsure" if self.is_partial(holder, target) else "done")

    def is_partial(self, holder: Element, target: Element) -> bool:
        """Has a sentence of the source no text in a target that is divided into sentences? Where the source is not
        divided, each sentence of the target must have some."""
        there = self.sentences(target)
        sources = [*holder.all("seg-source"), *holder.all("source")]
        asked = next(filter(None, map(self.sentences, sources)), dict.fromkeys(there, True))
        return bool(there) and any(has and not there.get(mid) for mid, has in asked.items())

    def sentences(self, element: Element) -> dict[str, bool]:
        """The sentence marks in a text, by `mid` or, without, by number: is there something to translate in them?"""
        marks = [mark for mark in element.within("mrk") if mark.attributes.get("mtype") == "seg"]
        return {
            mark.attributes.get("mid", str(number)): has_text(self.xml.parts(mark, self.version.inline))
            for number, mark in enumerate(marks)
        }

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        slot: Slot = segment.slot
        target = as_text(target)
        if not plain(target).strip():
            return unsaid(self, segment)
        changed = target != segment.target
        text = self.xml.spelt(target, segment.place, slot.source, preserve=slot.preserve)
        holder = self.xml.attributes(slot.holder)
        if self.version is TWO:
            edits = self.xml.change_attributes(slot.holder, states_2(holder, changed, mark))
            given = {}
        else:
            approved = mark and holder.get("approved") == "yes"
            edits = self.xml.change_attributes(slot.holder, {"approved": "no"} if approved else {})
            given = states_1(self.xml.attributes(slot.target) if slot.target else {}, changed, mark)
        if slot.target:
            edits += self.xml.change_attributes(slot.target, given)
            edits += [self.xml.change_content(slot.target, text)] if changed else []
        elif changed:
            given = {"xml:lang": slot.language, **given}
            tag = slot.tag + "".join(f" {name}={quoteattr(value)}" for name, value in given.items() if value)
            edits.append(Edit(slot.at, slot.at, self.xml.spell(f"{slot.outer}<{tag}>{text}</{slot.tag}>")))
        return (self.header(slot) if edits else []) + edits

    def header(self, slot: Slot) -> list[Edit]:
        """The target language of the file in its root, where 2.x wants it: with the first segment that is changed."""
        if self.version is ONE or "trgLang" in self.root.attributes:
            return []
        if self.target is None:
            what = "names no target language, and none was given"
            raise FormatError(self.name, [f"line {self.root.line}: {what}. Give one, or add trgLang to <xliff>"])
        if self.headed is not None and self.headed < slot.holder.start:
            return []
        self.headed = slot.holder.start
        return self.xml.change_attributes(self.root.span, {"trgLang": self.target})


def states_1(old: Mapping[str, str], changed: bool, mark: bool) -> dict[str, str | None]:
    """The new attributes of a `<target>`. Marked: to be reviewed; else what was unsure is not so any more."""
    qualifier = old.get("state-qualifier")
    values: dict[str, str | None] = {}
    if mark:
        values["state"] = REVIEW
        if qualifier:
            values["state-qualifier"] = "leveraged-mt"
        return values
    if changed and STATES_1.get(old.get("state", ""), "done") != "done":
        values["state"] = "translated"
    if changed and qualifier in GUESSED | REJECTED:
        values["state-qualifier"] = None
    return values


def states_2(old: Mapping[str, str], changed: bool, mark: bool) -> dict[str, str | None]:
    """The new attributes of a `<segment>`, `initial` where it does not say. `translated` is not reviewed yet in 2.x;
    the sub-state says by whom, and that of others goes with the state that it refines."""
    if mark:
        return {"state": "translated", "subState": MACHINE}
    if changed and old.get("state", "initial") == "initial":
        return {"state": "translated", "subState": None}
    return {"subState": None} if changed and old.get("subState") == MACHINE else {}


def protected(element: Element, opened: str | None = None) -> str | None:
    """Make one aside of all from `<sm translate="no"/>` to its `<em/>`; where other elements begin or end in between,
    one of each text. opened: the id of the `<sm>` that is open before the element; that open behind it is given."""
    made: list[Element | Text | Aside] = []
    first: int | None = None  # which of them is the `<sm>`, if it is one of them
    for child, behind in zip_longest(element.children, element.children[1:]):
        if isinstance(child, Text) and opened is not None:  # with CDATA's marks, which stand around a text
            child = Aside(made[-1].end if made else element.inner, behind.start if behind else element.last)
        made.append(child)
        if not isinstance(child, Element):
            continue
        given = child.attributes
        if opened is None and child.name == "sm" and given.get("translate") == "no":
            opened, first = given.get("id", ""), len(made) - 1
        elif opened is not None and child.name == "em" and given.get("startRef", "") == opened:
            if first is not None:
                made[first:] = [Aside(made[first].start, child.end)]
            opened = first = None
        elif (inside := protected(child, opened)) != opened:
            opened, first = inside, None
    element.children = made
    return opened


def has_marks(element: Element) -> bool:
    """Is the text divided into sentences?"""
    return any(mark.attributes.get("mtype") == "seg" for mark in element.within("mrk"))


def longest(unit: Element, place: str, faults: list[str]) -> int | None:
    """The greatest length of a 1.2 unit in characters; in pixels, bytes and other units it is not ours to count."""
    width = unit.attributes.get("maxwidth")
    if width is None or unit.attributes.get("size-unit") != "char":
        return None
    if not width.isdecimal():
        faults.append(f"{place}: maxwidth is {width!r}. Make it a whole number")
        return None
    return int(width)
