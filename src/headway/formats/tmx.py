"""TMX, translation memories: every `<tu>` holds one text in several languages, each in a `<tuv>`.

TMX 1.4b, https://www.gala-global.org/tmx-14b; 1.1 to 1.3 are read alike. The segments are the units with a text in the
source language; where one lacks the target language, its `<tuv>` is made. The twin in the tests is lxml.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, NamedTuple
from xml.sax.saxutils import quoteattr

from headway.formats.segment import (
    Buffer,
    Document,
    Edit,
    FormatError,
    Segment,
    Skipped,
    as_text,
    one_line,
    same_language,
    unsaid,
)
from headway.formats.xml import MOST_FAULTS, XML, Element, Inline, Span, has_text, within_codes
from headway.text.codes import Parts, plain

INLINE = {
    "bpt": Inline("open", "pair", ("i",)),
    "ept": Inline("close", "pair", ("i",)),
    "it": Inline("pos", ids=("x",)),
    "ph": Inline("alone", ids=("x",)),
    "ut": Inline("alone", ids=("x",)),
    "hi": Inline("around", ids=("x",)),
}
PROP, UNSURE, SURE = "x-headway-state", "needs-review-translation", "translated"
"""TMX has no states: a `<prop>` of this type in a `<tuv>` says that a machine wrote it."""


class Slot(NamedTuple):
    """source: the `<seg>` to translate; target: that of the translation, or None, then `at` is where its `<tuv>` goes;
    prop: our mark where there is one; outer, inner: white space before a `<tuv>` and before a `<seg>`; names: `tuv`,
    `seg` and the attribute for the language as this file spells them."""

    source: Span
    target: Span | None
    prop: Span | None
    at: int
    outer: str
    inner: str
    names: tuple[str, str, str]


class TMX(Document):
    """A translation memory, read in one direction.

    Languages are compared without case. One that the file does not hold as it is written finds the only one that is
    wider or narrower: `de` and `de-DE` find each other, `de-AT` and `de-DE` do not. Without a source it is the
    header's `srclang`; without a target it is the one other language that there is. `skipped` tells, after
    `segments`, which units gave no segment.
    """

    kind: ClassVar[str] = "tmx"
    suffixes: ClassVar[tuple[str, ...]] = (".tmx",)
    bilingual: ClassVar[bool] = True

    def __init__(self, data: Buffer, name: str, source: str | None = None, target: str | None = None) -> None:
        super().__init__(data, name, source, target)
        self.xml = XML(data, name)

    def segments(self) -> Iterator[Segment]:
        self.skipped = Skipped()
        source, target = self.languages
        for unit in self.units({"tu"}):
            yield from self.segment(unit, language(source), language(target))

    def units(self, names: set[str], *, bare: bool = False) -> Iterator[Element]:
        """The elements of these names, once the root is seen to be that of a TMX."""
        found = self.xml.elements(names, bare=bare)
        root = next(found)
        if root.name != "tmx":
            what = f"is no TMX: its first element is <{root.name}>, not <tmx>"
            raise FormatError(self.name, [f"line {root.line}: {what}. Name it after what it is"])
        return found

    @cached_property
    def languages(self) -> tuple[str, str]:
        """Source and target as the file spells them, or as asked for where it does not hold the target yet."""
        spelt: dict[str, str] = {}
        given, faults = self.source, []
        for element in self.units({"header", "tuv"}, bare=True):
            if element.name == "header":
                srclang = element.attributes.get("srclang", "*all*")
                given = given or (None if srclang.lower() == "*all*" else srclang)
            elif tag := tag_of(element):
                spelt.setdefault(language(tag), tag)
            else:
                faults.append(f"line {element.line}: <tuv> names no language. Give it an xml:lang")
                if len(faults) == MOST_FAULTS:
                    raise FormatError(self.name, faults)
        there = ", ".join(sorted(spelt.values())) or "none"
        if given is None:
            faults.append(f"names no source language (srclang). Name one of its languages: {there}")
        source = self.match("source", given or "", spelt, faults)
        others = [tag for key, tag in spelt.items() if key != language(source or "")]
        if self.target is None and len(others) != 1:
            faults.append(f"has no single target language. Name one; the file holds: {there}")
        target = self.match("target", self.target or "".join(others[:1]), spelt, faults)
        if given and source is None and spelt and not faults:
            faults.append(f"holds no text in {given!r}. Name one of its languages: {there}")
        if source and target and language(source) == language(target):
            faults.append(f"source and target are both {source!r}. Name two languages of: {there}")
        if faults:
            raise FormatError(self.name, faults)
        return source or given or "", target or self.target or ""

    def match(self, side: str, asked: str, spelt: dict[str, str], faults: list[str]) -> str | None:
        """The file's language that is asked for: the same tag, else the only one that is it more or less closely."""
        wanted = language(asked)
        if wanted in spelt:
            return spelt[wanted]
        near = [tag for tag in spelt.values() if same_language(asked, tag)]
        if len(near) > 1:
            faults.append(
                f"{asked!r} may be {' or '.join(sorted(near))}. Name the one that you mean as {side} language"
            )
        return near[0] if near else None

    def segment(self, unit: Element, source: str, target: str) -> Iterator[Segment]:
        """The unit as a segment, or a note of why it is none."""
        name = unit.attributes.get("tuid", "")
        place = f"line {unit.line}" + f", unit {one_line(name)}" * bool(name)
        here = [tuv for tuv in unit.all("tuv") if language(tag_of(tuv)) == source]
        there = [tuv for tuv in unit.all("tuv") if language(tag_of(tuv)) == target]
        if len(here) != 1 or len(there) > 1:
            reason = "no text in the source language" if not here else "several texts in one language"
            self.skipped.add(reason, place)
            return
        seg, other = here[0].first("seg"), there[0].first("seg") if there else None
        if seg is None or (there and other is None):
            self.skipped.add("a <tuv> without <seg>", place)
            return
        parts = self.xml.parts(seg, INLINE)
        if not has_text(parts):
            self.skipped.add("nothing to translate", place)
            return
        if any(sub.text().strip() for sub in within_codes(seg, "sub", INLINE)):
            self.skipped.note("text within a code (<sub>), kept as it is", place)
        found = self.xml.parts(other, INLINE) if other else ()
        prop = next((prop for tuv in there for prop in tuv.all("prop") if prop.attributes.get("type") == PROP), None)
        marked = prop is not None and prop.text().strip() == UNSURE
        notes = [note.text().strip() for holder in (unit, here[0], *there) for note in holder.all("note")]
        yield Segment(
            place,
            parts,
            found if has_text(found) else None,
            "empty" if not has_text(found) else "unsure" if marked else "done",
            context=name,
            notes="\n".join(notes),
            slot=Slot(
                seg.span,
                other.span if other else None,
                prop.span if prop else None,
                here[0].end,
                self.xml.spaced(unit, here[0]),
                self.xml.spaced(there[0], other) if other else self.xml.spaced(here[0], seg),
                (
                    self.xml.tag(here[0].span)[0],
                    self.xml.tag(seg.span)[0],
                    "xml:lang" if "xml:lang" in here[0].attributes else "lang",
                ),
            ),
        )

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        slot: Slot = segment.slot
        target = as_text(target)
        if not plain(target).strip():
            return unsaid(self, segment)
        changed = target != segment.target
        text = self.xml.spelt(target, segment.place, slot.source)
        if slot.target is None:
            return [self.added(slot, text, mark)] if changed else []
        edits = [self.xml.change_content(slot.target, text)] if changed else []
        if mark and segment.state != "unsure":
            edits.append(self.marked(slot, slot.target))
        elif changed and not mark and slot.prop and segment.state == "unsure":
            edits.append(self.xml.change_content(slot.prop, SURE))
        return sorted(edits, key=lambda edit: edit.start)

    def marked(self, slot: Slot, target: Span) -> Edit:
        if slot.prop:
            return self.xml.change_content(slot.prop, UNSURE)
        return Edit(target.start, target.start, self.xml.spell(self.prop(slot) + slot.inner))

    def added(self, slot: Slot, text: str, mark: bool) -> Edit:
        """A `<tuv>` for a unit that has none, set as that of the source is."""
        tuv, seg, lang = slot.names
        _, tag = self.languages
        prop = self.prop(slot) + slot.inner if mark else ""
        opened = f"{slot.outer}<{tuv} {lang}={quoteattr(tag)}>{slot.inner}"
        closed = f"{slot.outer if slot.inner else ''}</{tuv}>"
        return Edit(slot.at, slot.at, self.xml.spell(f"{opened}{prop}<{seg}>{text}</{seg}>{closed}"))

    def prop(self, slot: Slot) -> str:
        prefix = slot.names[0].removesuffix("tuv")
        return f'<{prefix}prop type="{PROP}">{UNSURE}</{prefix}prop>'


def tag_of(tuv: Element) -> str:
    """The language as it is written; `lang` is that of the first TMX versions."""
    return tuv.attributes.get("xml:lang", tuv.attributes.get("lang", ""))


def language(tag: str) -> str:
    """A language tag in the form to compare."""
    return tag.replace("_", "-").lower()
