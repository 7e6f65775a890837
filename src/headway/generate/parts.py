"""Texts with codes through a model, and every code in its place again: promise 1 for tags and placeholders.

A text is cut at its line breaks and, where it is too long or `by_sentence` asks for it, into sentences; each piece is
translated on its own, and the white space between pieces stays. In a piece, codes are

* atoms, where the vocabulary has placeholders: the model writes them itself, having learnt to copy them; codes that
  stand together are one (`headway.text.groups`);
* or else text for the model to copy, if they are lone ones of the text (`%s`), and taken out and put back along the
  cross-attention (`headway.text.inline`) if they are tags.

What the memory holds of a piece is not searched at all; what it holds of one like it is read with it, by a model that
was trained so.

Where a code is then missing, doubled, invented or badly nested, or a term is broken, the piece is searched again under
constraints, and at last with its tags taken out. What is still wrong is put into words, and no code is lost: one that
found no place stands at the end.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import groupby, pairwise
from typing import Literal, Protocol, TypeGuard

from headway.config import SOURCE_ALONE, InputConfig, SearchConfig
from headway.data.memory import Match, Memory
from headway.generate.align import Head, align, any_head
from headway.generate.beam import Hypothesis
from headway.generate.constrain import Constraint
from headway.generate.decode import translate_ids
from headway.generate.phrases import Phrase, Vocabulary, demanding
from headway.generate.placeholders import Placeholders
from headway.models.seq2seq import Seq2Seq
from headway.text.codes import Code, Part, Parts, codes, differences, find, find_parts, joined, missing, plain, said
from headway.text.context import context_ids
from headway.text.groups import Groups, grouped, ungrouped
from headway.text.inline import Aligned, Node, Span, lifted, put_back
from headway.text.segment import CODE, Pieces, fit, joints, sentences
from headway.text.tokenizer import UNK, Tokenizer, TokenizerPair

OFFERED = 75
"""Least score of a match that a person would rather mend than translate anew, by the custom of translators' tools."""

ODD_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f"
UNSAID = "\ufffd"
"""What stands for bytes that are no character: no search can ask for it."""
SHAPELESS = "\u00ad\u200b\u2060\ufeff"

RECENT = 4096
"""Texts whose match is remembered."""

WIDE = 8
"""The least beam under constraints: what must appear takes its share of the places (`headway.generate.beam`)."""


class Kept(Protocol):
    """What became of a term."""

    @property
    def broken(self) -> bool: ...
    def words(self) -> str: ...


class Terms(Protocol):
    """What is needed of a term list (`headway.documents.terms`)."""

    def check(self, source: str, target: str) -> Sequence[Kept]: ...
    def phrases(self, source: str) -> tuple[Sequence[Phrase], Sequence[Phrase]]:
        """What must appear in the translation of this text, and what must not."""
        ...


@dataclass(frozen=True)
class Translated:
    """A translation; logprob: of its num_tokens tokens, the ends among them (nats); faults: what is wrong, in words;
    matches: the memory's best for each piece, taken where they are usable; score: that of the search, summed over the
    num_pieces pieces; finished: False where one stopped at the length limit; replaced: characters that no line has."""

    parts: Parts
    logprob: float
    num_tokens: int
    faults: tuple[str, ...] = ()
    matches: tuple[Match, ...] = ()
    score: float = 0.0
    num_pieces: int = 1
    finished: bool = True
    replaced: int = 0

    @property
    def confidence(self) -> float:
        """Geometric mean of the tokens' probabilities; 1 where no model was asked."""
        return min(1.0, math.exp(self.logprob / self.num_tokens)) if self.num_tokens else 1.0

    @property
    def origin(self) -> Literal["model", "memory", "adapted"]:
        """Where all of it is from: the model, if a part of it is."""
        if self.num_tokens or not self.matches:
            return "model"
        return "memory" if all(match.exact for match in self.matches) else "adapted"


@dataclass
class Piece:
    """What is searched at once.

    parts: a piece of a text; kinds: of codes that it may have; before: the pieces before it, for context; ids: what the
    model reads; start: where its own tokens begin there; kept: the codes that are atoms there; text, root: its text
    without the codes that were taken out, and those; match: the memory's best; found, targets: what came out, best
    first; faults: of the best; replaced: characters in it that no line has; groups: what codes stand for several.
    """

    parts: Parts
    kinds: frozenset[str]
    ids: tuple[int, ...] = ()
    kept: list[Code] = field(default_factory=list)
    text: str = ""
    root: Node = field(default_factory=lambda: Node(None, 0))
    found: Sequence[Hypothesis] = ()
    targets: list[Parts] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    replaced: int = 0
    groups: Groups = field(default_factory=dict)
    before: tuple[str, ...] = ()
    start: int = 0
    match: Match | None = None


@dataclass
class Translator:
    """A loaded model, with what it takes to translate texts with codes.

    max_source: most tokens of a piece; languages: of source and target, for sentences and spaces; head: the
    cross-attention to go by, None: any; by_sentence: one sentence at a time, even where several would fit; tags: ids of
    the atoms to put before each; memory: to look pieces up in; input: what the model reads before a piece.
    """

    model: Seq2Seq
    tokenizers: TokenizerPair
    search: SearchConfig
    max_source: int
    languages: tuple[str | None, str | None]
    head: Head | None = None
    by_sentence: bool = False
    terms: Terms | None = None
    memory: Memory | None = None
    tags: Sequence[int] = ()
    input: InputConfig = SOURCE_ALONE

    def __call__(
        self, texts: Sequence[tuple[Parts, frozenset[str]]], before: Sequence[Sequence[str]] | None = None
    ) -> list[Translated]:
        """The best translation of each text, in order; see `nbest`."""
        return [found[0] for found in self.nbest(texts, before)]

    def nbest(
        self, texts: Sequence[tuple[Parts, frozenset[str]]], before: Sequence[Sequence[str]] | None = None
    ) -> list[list[Translated]]:
        """The translations of each text, in order, best first, as many as the search gives. texts: parts, and the kinds
        of codes to find in them; before: for each the texts before it in its document, which a model with context reads
        too."""
        earlier = before if before is not None else [()] * len(texts)
        rows = [list(self._pieces(*text, known)) for text, known in zip(texts, earlier, strict=True)]
        todo = [piece for row in rows for piece, _ in row if piece.ids]
        several = self.search.n_best > 1  # only the best one is looked at and searched again
        self._search([(piece, self._atoms(piece) if several else None) for piece in todo])
        for again in (self._constrained, self._taken_out):
            trials = [(piece, trial) for piece in todo if piece.faults and (trial := again(piece))]
            self._search([trial for _, trial in trials])
            for piece, (trial, _) in trials:
                if trial.found and len(trial.faults) < len(piece.faults):
                    piece.found, piece.targets = trial.found, trial.targets
                    piece.faults, piece.replaced = trial.faults, trial.replaced
        return [[self._whole(row, rank) for rank in range(self._ranks(row))] for row in rows]

    def forced(self, source: str, target: str, before: Sequence[str]) -> tuple[Sequence[int], list[int]]:
        """The ids of one whole source and of its given translation; tags are text where they are no atoms."""
        parts = grouped(find(source))[0] if self._placeholders.num else (source,)
        tokenizer = self.tokenizers.source
        fits = self._placeholders.fit(parts)
        ids, kept = self._placeholders.encode(parts) if fits else (tokenizer.encode(source), [])
        around = context_ids(before, tokenizer, self.input.max_len - len(self.tags) - len(ids))
        theirs = grouped(find(target))[0] if kept else (target,)
        found = self._placeholders.encode_as(theirs, kept, self.tokenizers.target)
        return [*self.tags, *around, *ids], found

    # ---- texts to pieces, and back ----

    def _pieces(self, parts: Parts, kinds: frozenset[str], before: Sequence[str] = ()) -> Iterator[tuple[Piece, str]]:
        """The pieces of a text, each with the white space behind it. before: the texts before this one."""
        recent = deque[str](maxlen=self.input.context)
        for text in before:
            recent += [words for run, _, _ in self._runs((text,), kinds) if (words := plain(run)).strip()]
        for run, groups, space in self._runs(parts, kinds):
            if groups is None:
                yield Piece(run, kinds, targets=[run]), ""
                continue
            match = self._recalled(ungrouped(run, groups), kinds)
            yield self._prepared(Piece(run, kinds, groups=groups, before=tuple(recent), match=match), atoms=True), space
            if (words := plain(run)).strip():
                recent.append(words)

    def _runs(self, parts: Parts, kinds: frozenset[str]) -> Iterator[tuple[Parts, Groups | None, str]]:
        """Marks and breaks between sentences, without groups, and what stands between those, cut into pieces; where
        codes are atoms, with those that stand together as one."""
        parts = joined(apart(find_parts(parts, kinds)))
        stops = {at for at, part in enumerate(parts) if is_stop(part, parts[at - 1] if at else "")}
        for at, items in groupby(range(len(parts)), key=lambda at: at if at in stops else -1):
            run = tuple(parts[item] for item in items)
            if at in stops:
                yield run, None, ""
                continue
            by_sentence = self.by_sentence or self.memory is not None
            match = self._recalled(run, kinds) if by_sentence else None
            if match and match.usable:
                yield run, {}, ""
                continue
            if match and match.score >= OFFERED and not BREAK.search(plain(run, "")):
                by_sentence = False  # what is known of the whole is worth more than what is known of its sentences
            run, groups = grouped(run) if self._placeholders.num else (run, {})
            waiting = iter(codes(run))
            for text, space in self._cut(plain(run, CODE), by_sentence):
                cut = re.split(f"({CODE})", text)
                yield joined(next(waiting) if part == CODE else part for part in cut), groups, space

    def _cut(self, text: str, by_sentence: bool) -> Pieces:
        language, found = self.languages[0], list[tuple[str, str]]()
        for line in re.findall(rf"[^{BREAKS}]+|[{BREAKS}]+", text):
            if not line.strip():
                found[-1:] = [(found[-1][0], found[-1][1] + line)] if found else [("", line)]
                continue
            for sentence, space in sentences(line, language) if by_sentence else [(line, "")]:
                pieces = fit(sentence, language, self._size, self.max_source) or [(sentence, "")]
                *before, (last, end) = pieces
                found += [*before, (last, end + space)]
        return found

    def _size(self, text: str) -> int:
        """Tokens of a text, or as many as its codes take up of the atoms that there are."""
        tokens, count = len(self.tokenizers.source.encode(text.replace(CODE, ""))), text.count(CODE)
        return max(tokens + count, -(-count * self.max_source // max(1, self._placeholders.num or count)))

    def _prepared(self, piece: Piece, *, atoms: bool) -> Piece:
        """The piece as the model reads it; atoms: with its codes as such, if the vocabulary has enough.

        Codes without any letter around them, and signs alone, are their own translation and get no ids, nor does what
        the memory holds.
        """
        piece.targets = [piece.parts]
        if not any(map(str.isalpha if codes(piece.parts) else str.isalnum, plain(piece.parts, ""))):
            piece.match = None
            return piece
        if piece.match and piece.match.usable:
            piece.targets = [find_parts(piece.match.target, piece.kinds)]
            return piece
        source, match = self.tokenizers.source, list[int]()
        parts = tuple(part.translate(self._odd) if isinstance(part, str) else part for part in piece.parts)
        if atoms and self._placeholders.fit(parts):
            ids, piece.kept = self._placeholders.encode(parts)
        else:
            piece.text, piece.root = taken_out(parts)
            ids = source.encode(piece.text)
            if len(ids) > self.max_source:  # because of its codes, since the text was cut
                piece.text, piece.root = lifted(parts)
                ids = source.encode(piece.text)
        if piece.match and self.input.matches and piece.match.score >= self.input.matches:
            match = self._placeholders.encode_as(self._as_read(piece.match.target, piece), piece.kept, source)
        room = min(self.input.max_len, self.max_source) - len(self.tags) - len(ids)
        around = context_ids(piece.before, source, room, match)
        piece.ids, piece.start = (*self.tags, *around, *ids), len(self.tags) + len(around)
        return piece

    def _as_read(self, target: Parts, piece: Piece) -> Parts:
        """The translation of a match, with no tags but those of the piece."""
        if not piece.kept:
            return (taken_out(find_parts(target, piece.kinds))[0],)
        ours = {(code.key, code.side) for code in piece.kept}
        return joined(
            part
            for part in grouped(target)[0]
            if isinstance(part, str) or not part.markup or (part.key, part.side) in ours
        )

    @cached_property
    def _odd(self) -> dict[int, str]:
        """Spaces and signs without a shape, if the vocabulary knows no piece for them: what is read in their place."""
        signs = {**dict.fromkeys(ODD_SPACES, " "), **dict.fromkeys(SHAPELESS, "")}
        encode = self.tokenizers.source.encode
        return {ord(sign): read for sign, read in signs.items() if len(ids := encode(sign)) != 1 or UNK in ids}

    @cached_property
    def _recalled(self) -> Callable[[Parts, frozenset[str]], Match | None]:
        """The memory's best for a text: from what the model can read on, or else to be offered; one whose codes are
        wrong is only like it. A text that is not cut is asked for twice, one that is context for others more often."""
        least = min(self.input.matches or OFFERED, OFFERED)

        @lru_cache(maxsize=RECENT)
        def best(parts: Parts, kinds: frozenset[str]) -> Match | None:
            found = self.memory.lookup(parts, min_score=least) if self.memory is not None else []
            match = next(iter(found), None)
            if match and match.usable and differences(parts, find_parts(match.target, kinds)):
                return replace(match, exact=False, adapted=False)
            return match

        return best

    @cached_property
    def _placeholders(self) -> Placeholders:
        return Placeholders(self.tokenizers)

    def _ranks(self, row: Sequence[tuple[Piece, str]]) -> int:
        """How many translations there are of a text in pieces."""
        return min((len(piece.found) for piece, _ in row if piece.found), default=self.search.n_best)

    def _whole(self, row: Sequence[tuple[Piece, str]], rank: int) -> Translated:
        targets = [piece.targets[min(rank, len(piece.targets) - 1)] for piece, _ in row]
        between = spaces_between(row, [plain(one, "") for one in targets], self.languages)
        parts, faults = list[Part](), list[str]()
        whole = partial(ungrouped, groups={made: of for piece, _ in row for made, of in piece.groups.items()})
        for (piece, _), target, space in zip(row, targets, between, strict=True):
            parts += [*whole(target), *missing(whole(piece.parts), whole(target)), space]
            faults += piece.faults
        parts = [CODE if part == ITSELF else part for part in parts]
        found = [piece.found[rank] for piece, _ in row if piece.found]
        return Translated(
            joined(parts),
            logprob=sum(one.logprob for one in found),
            num_tokens=sum(len(one.token_logprobs) for one in found),
            faults=tuple(dict.fromkeys(faults)),
            matches=tuple(piece.match for piece, _ in row if piece.match is not None),
            score=sum(one.score for one in found),
            num_pieces=max(1, sum(bool(plain(piece.parts, "").strip()) for piece, _ in row)),
            finished=all(one.finished for one in found),
            replaced=sum(piece.replaced for piece, _ in row),
        )

    # ---- searches ----

    def _search(self, asked: Sequence[tuple[Piece, Constraint | None]]) -> None:
        """Translate pieces, each distinct one once, and say what is wrong with each."""
        for atoms in (False, True):
            some = [(piece, constraint) for piece, constraint in asked if bool(piece.kept) == atoms]
            if not some:
                continue
            distinct = {(piece.ids, id(constraint)): constraint for piece, constraint in some}
            sources, constraints = [ids for ids, _ in distinct], distinct.values()
            banned = [*self.tokenizers.target.line_breaking_ids, *self._placeholders.banned(some[0][0].kept)]
            beam = self.search.beam if set(constraints) == {None} else max(self.search.beam, WIDE)
            search = self.search.model_copy(update={"beam": beam})
            searched = translate_ids(self.model, sources, search, banned=banned, constraints=constraints)
            found = dict(zip(distinct, searched, strict=True))
            for piece, constraint in some:
                piece.found = found[piece.ids, id(constraint)]  # a constraint may leave no way at all
        for piece, _ in asked:
            piece.faults += [] if piece.found else ["nothing that keeps its codes was found: it stays as it is"]
        pieces = [piece for piece, _ in asked if piece.found]
        self._read(pieces)
        for piece in pieces:
            piece.faults += differences(*(ungrouped(one, piece.groups) for one in (piece.parts, piece.targets[0])))
            if self.terms is not None:
                kept = self.terms.check(blanked(piece.parts), blanked(piece.targets[0]))
                piece.faults += [term.words() for term in kept if term.broken]
            if not plain(piece.targets[0], "").strip():
                piece.faults.append(f"nothing was written for {plain(piece.parts)!r}")
            if not piece.found[0].finished:
                piece.faults.append("stopped at the length limit: its end may be missing")

    def _read(self, pieces: Sequence[Piece]) -> None:
        """What the searches found, as parts."""
        tagged = [piece for piece in pieces if piece.root.inside and not piece.kept]
        own = {id(piece): [*self.tags, *piece.ids[piece.start :]] for piece in tagged}  # a match has the same words
        pairs = [(own[id(piece)], one.tokens) for piece in tagged for one in piece.found if one.tokens]
        origins = align(self.model, pairs, self.head or any_head(self.model)) if pairs else iter(())
        for piece in pieces:
            piece.targets, piece.replaced = [], 0
            for rank, one in enumerate(piece.found):
                if piece.root.inside and not piece.kept:
                    parts, replaced, lost = self._put_back(piece, one.tokens, next(origins) if one.tokens else [])
                    piece.faults += lost if rank == 0 else []
                else:
                    parts, replaced = self._placeholders.decode(one.tokens, piece.kept)
                piece.targets.append(find_parts(trimmed(parts), piece.kinds))
                piece.replaced += replaced if rank == 0 else 0

    def _put_back(self, piece: Piece, tokens: Sequence[int], origin: Sequence[int]) -> tuple[Parts, int, list[str]]:
        """A translation with the tags that were taken out, and which of them found no word."""
        text, replaced = self.tokenizers.target.decode_line(tokens)
        ours = spans(self.tokenizers.source, piece.ids[piece.start :], piece.text)
        ours, theirs = [(0, 0)] * len(self.tags) + ours, spans(self.tokenizers.target, tokens, text)
        parts, lost = put_back(piece.root, Aligned(piece.text, text, ours, theirs, origin))
        return parts, replaced, [f"`{code.raw.strip()}` found no word of its own" for code in lost]

    # ---- second tries ----

    def _atoms(self, piece: Piece) -> Constraint | None:
        return self._placeholders.constraint(piece.kept, piece.groups) if piece.kept else None

    def _constrained(self, piece: Piece) -> tuple[Piece, Constraint] | None:
        """The piece again, to be searched so that what was wrong cannot be; None where nothing helps."""
        use, avoid = self.terms.phrases(blanked(piece.parts)) if self.terms is not None else ([], [])
        atoms = self._atoms(piece)
        if not piece.kept:
            lost = [code.raw for code in missing(piece.parts, piece.targets[0]) if is_copied(code)]
            use = [*use, *(Phrase((raw,), case=True) for raw in dict.fromkeys(lost) if UNSAID not in raw)]
        tags = [tag for tag in said(piece.parts, piece.targets[0]) if UNSAID not in tag]
        avoid = [*avoid, *([Phrase(tuple(tags), case=True)] if tags else [])]
        constraint = demanding(use, avoid, lambda: self._vocabulary, *([atoms] if atoms else []))
        trial = replace(piece, targets=[], faults=[], found=())
        return (trial, constraint) if constraint is not None else None

    def _taken_out(self, piece: Piece) -> tuple[Piece, None] | None:
        """The piece again with its tags taken out, where they were atoms."""
        again = Piece(piece.parts, piece.kinds, groups=piece.groups, before=piece.before, match=piece.match)
        return (self._prepared(again, atoms=False), None) if piece.kept else None

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self.tokenizers.target)


ITSELF = Code(CODE, markup=True)
"""The character that stands for codes, where a text has it."""


def blanked(parts: Parts) -> str:
    """The text with its codes as such: a word does not go on over one."""
    return plain(parts, CODE)


def apart(parts: Sequence[Part]) -> Iterator[Part]:
    """The character that stands for codes is one itself where a text has it."""
    for part in parts:
        if isinstance(part, str) and CODE in part:
            yield from (ITSELF if run == CODE else run for run in re.split(f"({CODE})", part))
        else:
            yield part


BREAKS = r"\n\r\t"
BREAK = re.compile(f"[{BREAKS}]")

ENDED = re.compile(r"[.!?:;…。！？：；][\"'”’»)\]]*\s*\Z")


def is_stop(part: Part, before: Part) -> bool:
    """Does a sentence end here for sure: at a mark of XLIFF (`mrk`), or at a break of the line behind a full stop?"""
    if isinstance(part, str):
        return False
    breaks = part.side == "alone" and (part.raw.lower().startswith("<br") or "\n" in part.raw)
    return part.key.startswith("seg:") or (breaks and isinstance(before, str) and ENDED.search(before) is not None)


def is_mark(piece: Piece) -> bool:
    """Has this piece nothing but marks of sentences, or nothing at all beside white space?"""
    return all(isinstance(part, Code) and part.key.startswith("seg:") for part in piece.parts)


def spaces_between(
    row: Sequence[tuple[Piece, str]], texts: Sequence[str], languages: tuple[str | None, str | None]
) -> list[str]:
    """The white space behind each translated piece, as `joints` has it; marks of sentences are passed over, and a space
    that is new stands behind the one that closes."""
    spaces = [space for _, space in row]
    for at, follows in pairwise(at for at, (piece, _) in enumerate(row) if not is_mark(piece)):
        before = "".join(spaces[at:follows])
        if (made := joints([(texts[at], before), (texts[follows], "")], *languages)[0]) != before:
            spaces[at:follows] = [""] * (follows - at)
            marks = codes(row[at + 1][0].parts) if follows > at + 1 else []
            spaces[at + any(mark.side == "close" for mark in marks)] = made
    return spaces


def is_copied(part: Part) -> TypeGuard[Code]:
    """Is this a code that a model without placeholders can copy as text?"""
    return isinstance(part, Code) and not part.markup and part.side == "alone"


def trimmed(parts: Parts) -> Parts:
    """The parts without white space at their ends, which is kept beside the pieces."""
    texts = [part if isinstance(part, str) else None for part in parts]
    if texts and texts[0] is not None:
        parts = (texts[0].lstrip(), *parts[1:])
    if texts and isinstance(last := parts[-1], str):
        parts = (*parts[:-1], last.rstrip())
    return joined(parts)


def taken_out(parts: Parts) -> tuple[str, Node]:
    """A text without its tags, and those; what a model can copy as text stays."""
    return lifted(joined(part.raw if is_copied(part) else part for part in parts))


def spans(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Span]:
    """The characters of each token in the text that they spell."""
    ends = [0]
    for number in range(1, len(ids) + 1):
        so_far = tokenizer.decode(ids[:number])
        ends.append(max(ends[-1], len(so_far.rstrip("\ufffd"))))
    scale = len(text) / ends[-1] if ends[-1] else 1.0  # 1 unless the vocabulary changes the text
    ends = [round(end * scale) for end in ends]
    return list(pairwise(ends))
