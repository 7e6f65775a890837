"""A document through a model: its texts translated, checked and spliced in; every other byte stays as it is.

Each text loses what a model should not see (white space at its ends, an accelerator) and gets it back. A text that the
memory holds is taken from there; what the memory only resembles is offered. Finished translations stay, unless all are
asked for. What cannot be kept, or cannot be written into the file, is said in the report, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from typing import Literal

from headway.data.memory import Match, Memory
from headway.documents.qa import RULES, Finding, blanked, check
from headway.documents.terms import Finding as TermFinding
from headway.documents.terms import Terms
from headway.evaluate.report import Example, Examples, Section, Share, Table
from headway.evaluate.report import Text as Words
from headway.formats.segment import Document, Edit, FormatError, Segment, as_text, in_order, splice
from headway.generate.parts import OFFERED, Translated, trimmed
from headway.text.codes import (
    Parts,
    doubles,
    escaped,
    find_parts,
    guess_marker,
    joined,
    kinds_for,
    plain,
    put_accelerator,
    without_accelerator,
)
from headway.text.context import preceding

AT_ONCE = 1024
"""Segments that are read ahead, so that memory is bounded whatever the size of the file."""

SHOWN = 10_000
"""Segments with findings that a report keeps; more are counted."""

Translate = Callable[..., list[Translated]]
"""Texts and the kinds of codes in them to translations (`headway.generate.parts.Translator`); where a job has context,
also the texts before each."""


@dataclass(frozen=True)
class Done:
    """What became of a segment. origin: where `target` is from, "none" if it was not written; offered: what the memory
    has of it, or of its sentences, that is not the translation; confidence: of the model, from 0 to 1."""

    segment: Segment
    target: Parts
    origin: Literal["model", "memory", "adapted", "none"]
    findings: Sequence[Finding] = ()
    offered: Sequence[Match] = ()
    confidence: float | None = None
    terms: Sequence[TermFinding] = ()


@dataclass
class Report:
    """What became of a document: how many segments it has, how many were finished before or are not to be translated,
    where the others are from, and those with findings or a match to look at; terms: how often each was kept and broken.
    """

    segments: int = 0
    finished: int = 0
    untouchable: int = 0
    origins: dict[str, int] = field(default_factory=dict)
    flagged: int = 0
    shown: list[Done] = field(default_factory=list)
    rules: dict[str, int] = field(default_factory=dict)
    terms: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, done: Done) -> None:
        self.origins[done.origin] = self.origins.get(done.origin, 0) + 1
        for rule in {finding.rule for finding in done.findings}:
            self.rules[rule] = self.rules.get(rule, 0) + 1
        for term in done.terms:
            self.terms.setdefault((term.text.casefold(), term.demand.words()), [0, 0])[term.broken] += 1
        self.flagged += bool(done.findings or done.offered)
        if (done.findings or done.offered) and len(self.shown) < SHOWN:
            self.shown.append(done)


@dataclass
class Job:
    """How to translate documents. everything: finished texts as well; mark: what a machine wrote, as such; memory: to
    look up in, from min_score percent on; terms: findings of a term list; context: so many texts before each, whatever
    becomes of those, are handed to `translate` with it."""

    translate: Translate
    everything: bool = False
    mark: bool = True
    memory: Memory | None = None
    min_score: int = OFFERED
    terms: Terms | None = None
    context: int = 0

    def __call__(self, document: Document, report: Report) -> Iterator[bytes]:
        """The translated file in chunks. Raises FormatError for a file that is not what its kind says."""
        return splice(document.data, in_order(self._edits(document, report)))

    def _edits(self, document: Document, report: Report) -> Iterator[Edit]:
        marker = None
        segments = preceding(document.segments(), self.context, lambda one: plain(one.source), lambda one: one.begins)
        while known := list(islice(segments, AT_ONCE)):
            chunk, before = [segment for segment, _ in known], {id(segment): texts for segment, texts in known}
            if report.segments == 0 and document.bilingual:  # `_name` on a page is a name
                marker = document.marker or guess_marker(plain(segment.source) for segment in chunk)
            report.segments += len(chunk)
            report.untouchable += sum(not segment.translate for segment in chunk)
            todo = [segment for segment in chunk if segment.translate]
            if not self.everything:
                report.finished += sum(segment.state == "done" for segment in todo)
                todo = [segment for segment in todo if segment.state != "done"]
            for done in self.segments(todo, document, marker, before):
                try:
                    broken = any(finding.severity == "error" for finding in done.findings)
                    mark = self.mark and (done.origin != "memory" or broken)
                    edits = document.edits(done.segment, done.target, mark=mark) if done.origin != "none" else []
                except FormatError as error:
                    told = [Finding("unwritable", "error", fault) for fault in error.faults]
                    done, edits = Done(done.segment, done.target, "none", [*done.findings, *told]), []
                report.add(done)
                yield from edits

    def segments(
        self, segments: Sequence[Segment], document: Document, marker: str | None, before: Mapping[int, Sequence[str]]
    ) -> Iterator[Done]:
        """Each of them translated, in order. before: by the segment's id, the texts before it."""
        texts = [Text.of(segment.source, kinds_for(segment.flags, document.kind), marker) for segment in segments]
        found = [self._remembered(segment, text) for segment, text in zip(segments, texts, strict=True)]
        asked = [match is None or not match.usable for match in found]
        more = [[before[id(segment)] for segment in compress(segments, asked)]] if self.context else []
        made = iter(self.translate([(text.parts, text.kinds) for text in compress(texts, asked)], *more))
        for segment, text, match in zip(segments, texts, found, strict=True):
            confidence, faults, offered = None, (), [] if match is None else [match]
            if match is not None and match.usable:
                target, origin, offered = match.target, "memory" if match.exact else "adapted", []
            else:
                one = next(made)
                target, origin, faults = text.whole(one.parts), one.origin, one.faults
                confidence = one.confidence if origin == "model" else None
                known = [match for match in one.matches if match.score >= self.min_score and not match.usable]
                offered = (offered or known) if origin == "model" else []
                if segment.target and text.says(one.parts, Text.of(segment.target, text.kinds, marker)):
                    target = segment.target  # with its own white space and accelerator
            theirs = Text.of(as_text(target), text.kinds, marker) if target else None
            terms = self._terms(text, theirs) if self.terms is not None and theirs else []
            findings = check(
                find_parts(segment.source, text.kinds),
                find_parts(target, text.kinds),
                source_language=document.source,
                target_language=document.target,
                most=segment.most,
                marker=marker if document.bilingual else "",
                terms=broken(terms, moved=theirs is not None and bool(theirs.before or theirs.letter)),
            )
            told = {finding.message for finding in findings if finding.rule != "model"}
            findings += [Finding("model", "warning", fault) for fault in faults if fault not in told]
            yield Done(segment, target, origin, findings, offered, confidence, terms)

    def _terms(self, source: Text, target: Text) -> list[TermFinding]:
        """What became of the terms of a text, as they are read without accelerators."""
        assert self.terms is not None
        return self.terms.check(*(blanked(find_parts(text.parts, text.kinds)) for text in (source, target)))

    def _remembered(self, segment: Segment, text: Text) -> Match | None:
        """The memory's best for the text as it stands, or without the white space at its ends, which is put back."""
        if self.memory is None:
            return None
        found = self.memory.lookup(segment.source, segment.context, min_score=self.min_score)
        if (text.before or text.behind) and not (found and found[0].exact):
            inner = self.memory.lookup(trimmed(segment.source), segment.context, min_score=self.min_score)
            found += [replace(one, target=joined((text.before, *one.target, text.behind))) for one in inner]
        return max(found, key=lambda match: match.score, default=None)


def broken(terms: Sequence[TermFinding], *, moved: bool) -> list[Finding]:
    """Those that are broken. moved: the text has more characters than the one they were found in."""
    return [
        Finding("terms", "warning", found.words(), None if moved else next(iter(found.target), None))
        for found in terms
        if found.broken
    ]


@dataclass(frozen=True)
class Text:
    """A text as a model should see it, and what was taken off: white space at the ends, an accelerator. doubled: its
    markers stood doubled, for the character itself."""

    before: str
    parts: Parts
    behind: str
    kinds: frozenset[str]
    marker: str
    letter: str
    doubled: bool

    @classmethod
    def of(cls, parts: Parts, kinds: frozenset[str], marker: str | None) -> Text:
        given, (parts, letter) = parts, without_accelerator(parts, marker)
        doubled = bool(marker) and parts != given and doubles(plain(given), marker)
        before = behind = ""
        if isinstance(first := parts[0], str):
            parts = (first.lstrip(), *parts[1:])
            before = first.removesuffix(parts[0])
        if isinstance(last := parts[-1], str):
            parts = (*parts[:-1], last.rstrip())
            behind = last.removeprefix(parts[-1])
        return cls(before, joined(parts), behind, kinds, marker or "", letter, doubled)

    def whole(self, target: Parts) -> Parts:
        """A translation with what was taken off; an empty one stays empty."""
        if not target:
            return ()
        if self.letter:
            target = (put_accelerator(plain(target), self.marker, self.letter, self.doubled),)
        elif self.doubled:
            target = (escaped(plain(target), self.marker, every=True),)
        return joined((self.before, *target, self.behind))

    def says(self, target: Parts, other: Text) -> bool:
        """Is this translation what the other text holds?"""
        return find_parts(target, self.kinds) == find_parts(other.parts, self.kinds)


def sections(report: Report, document: Document) -> list[Section]:
    """The report to read: on the terminal, as a page, as JSON."""
    counts = [
        ("segments", report.segments),
        ("finished before, and left", report.finished),
        ("not to be translated", report.untouchable),
        *((ORIGINS[origin], count) for origin, count in report.origins.items()),
        ("with something to look at", report.flagged),
    ]
    skipped = [[reason, n, ", ".join(document.skipped.places[reason])] for reason, n in document.skipped.counts.items()]
    done = sum(report.origins.values())
    rules = [[rule, RULES[rule].what, count, Share(count / max(1, done))] for rule, count in report.rules.items()]
    rows = []
    for one in report.shown:
        told = [f"{finding.rule}: {finding.message}" for finding in one.findings]
        told += [f"the memory has, {match.score} %: {plain(match.target)}" for match in one.offered]
        if one.confidence is not None:
            told.append(f"confidence {one.confidence:.2f}")
        spans = [finding.span for finding in one.findings if finding.span]
        rows.append(
            Example(one.segment.place, plain(one.segment.source), plain(one.target), "; ".join(told), (), spans)
        )
    made: list[Section] = [Table("What became of it", ["", "number"], [list(count) for count in counts])]
    if skipped:
        made.append(Table("Not read as text", ["reason", "number", "first places"], skipped))
    if rules:
        made.append(Table("Findings", ["rule", "what should be", "segments", "share"], rules))
    if report.terms:
        terms = [[*term, *counts] for term, counts in sorted(report.terms.items(), key=lambda one: -one[1][1])]
        made.append(Table("Terms", ["term", "what is asked", "kept", "broken"], terms))
    if rows:
        made.append(Examples("To look at", rows, (document.source, document.target)))
    if report.flagged > len(report.shown):
        made.append(Words("", [f"{report.flagged - len(report.shown):,} more segments to look at are not shown."]))
    return made


ORIGINS = {
    "model": "translated by the model",
    "memory": "from the memory, exactly",
    "adapted": "from the memory, with other numbers or codes",
    "none": "not written: see the findings",
}
