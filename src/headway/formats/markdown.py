r"""Markdown: CommonMark with the tables, strikethrough and task lists of GitHub, footnotes, definition lists, `$math$`.

markdown-it finds the blocks and, in each, what is text; `located` makes its inline rules say where in the block each
token stands, and `placed` finds the block's characters in the file. One segment for each paragraph, heading, table cell
and term. Codes: emphasis, links (`[` and `](url "title")`; one code where the text is the key, `[text]`), images (the
alternative text is translated), code spans, autolinks, HTML tags, hard breaks, footnote references, math,
`{{ x }}`, `{#id}`. Kept and not translated: front matter, code, HTML blocks, titles and definitions of links, lines
that begin with `:::`. A soft break is a space; a text that was wrapped is wrapped again, at its longest line.

A translation is written with as few escapes as it takes to be read back the same, which is tried out. The twin is
markdown-it as it comes: the tests compare its tokens before and after.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise, takewhile
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from headway.formats import html
from headway.formats.html import SPACE, Piece, Places, decoded, paired, spread, trimmed
from headway.formats.segment import Document, Edit, FormatError, Segment, Skipped, as_text, unsaid
from headway.text.codes import Code, Part, Parts, joined, plain

NEWLINE = re.compile(r"\r\n?|\n")
BAR = re.compile(r"(?<!\\)\|")
ONE_LINE = re.compile(r"[ \t]*[\n\r]\s*")
SINGLE = re.compile(r"(?:(?<=[^ ])|\A) (?=[^ ]|\Z)")
FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n((?:.*\n)*?)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)")
NAMED = r"[\w$@<\"'][\w .$@<>/:\"'-]*?:(?=\s)"
YAML = re.compile(rf"(?=(?:[ \t]*(?:#.*)?\n)*(?:{NAMED}|\{{\s*\"|\Z))(?!(?:.*\n)*?[ \t]*\n(?!{NAMED}|[\s#}}\]]|- ).)")
TOML = re.compile(r"[\w\"'][^\n]*[:=]|[#\[{]")
"""What front matter is, and the first lines of a page between two rules are not: the first line of YAML that is no
comment has a key, and behind an empty line there is nothing that is none of its own."""
BRACES = re.compile(rf"{html.TEMPLATE}|\{{[#.:][^{{}}\n]*\}}|\{{[\w:+-]+\}}(?=`)", re.DOTALL)
"""Expressions of template languages, attributes (`{#id}`), roles of MyST."""
BOX = re.compile(r"\[[ xX]\](?=\s)|\[!\w+\](?:\n|\Z)")
"""What may stand at the beginning of a block: the box of a task, the kind of an alert."""

MEANT = re.compile(
    r"""\\(?=[!-/:-@\[-`{-~]|\Z) | &(?=\#?\w+;) | <(?=[a-z/!?%]|\Z) | [`\[\]$] | ~(?=~|\Z) | (?<=~)~ | \A[~(\[:] | !\Z
     | (?<!\s)\* | \*(?=\S) | (?<![^\W_])_ | _(?![^\W_]) | \{(?=[{%\#.:]|[\w:+-]+\}\Z)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Characters that may be read as markup where they stand."""
ANY = re.compile(r"[!-/:-@\[-`{}~]")
OPENING = re.compile(r"\A(?:(\d{1,9})(?=[.)](?:\s|\Z))|(?=[-+>#=~:|*_]))")
"""What may begin a block of another kind: a backslash goes behind the digits, or before the character."""
BEGINS_A_BLOCK = re.compile(r"[-+*_=]+\Z|[-:|]+\Z|#{1,6}\Z|\d{1,9}[.)]\Z|[>|:<{]|```|~~~|\$\$|\[.*\]:")
"""A word that no line may begin with when a text is wrapped."""
NO_WORD = re.compile(r"\[(?!\^)|\{[#.:]")
"""Codes that stand for no word: boxes, attributes."""
SPELLINGS = ((None, False), (MEANT, False), (None, True), (MEANT, True), (ANY, False), (ANY, True))
"""What gets a backslash, and whether the characters beside codes may become references; the barest first."""
BREAK = "\0"
"""Where a written line may be broken, until that is decided."""
IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")

DEEPEST = 100
"""How deep blocks may be in each other."""
CELL = "|{}|\n|-|"
FRAMES = {
    "{}": "paragraph_open inline paragraph_close",
    "# {}": "heading_open inline heading_close",
    "{}\n===": "heading_open inline heading_close",
    "{}\n---": "heading_open inline heading_close",
    CELL: "table_open thead_open tr_open th_open inline th_close tr_close thead_close table_close",
}
"""A block alone in a file, and what markdown-it must see there: so each text is tried out before it is written."""
BARS = {CELL: "\\|", "{}\n---": "&#124;"}
"""How a bar in a text is written where it would be one of a table; over a line of dashes, a backslash would not do."""
RUNS = {"em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close"}
"""Tokens of characters that the parser sees one by one; the first or last of them becomes the token."""


Edges = AbstractSet[tuple[int, int]]


class Disagreement(Exception):
    """The tokens do not cover the block one after the other: nothing is guessed."""


@dataclass(frozen=True)
class Block:
    """A block of text; at: where each character of its content stands in the file; frame: a key of FRAMES; prefix: what
    stands before the text on a further line."""

    token: Token
    frame: str
    at: Sequence[int]
    prefix: str


@dataclass(frozen=True)
class Slot:
    """start, end: bytes to replace. before, behind: what else is in the block, as text and as parts. width: of the
    longest line, 0 where there is but one."""

    start: int
    end: int
    before: tuple[str, Parts]
    behind: tuple[str, Parts]
    frame: str
    prefix: str
    width: int


class Markdown(Document):
    """A text in UTF-8."""

    kind = "markdown"
    suffixes = (".md", ".markdown")
    bilingual = False

    @cached_property
    def page(self) -> tuple[str, int]:
        """The text, and how many bytes stand before it."""
        text, encoding, before = decoded(bytes(self.data), self.name, declares=False)
        if encoding != "utf-8":
            raise FormatError(self.name, [f"it is in {encoding}. Convert it to UTF-8"])
        return text, before

    @cached_property
    def parsed(self) -> tuple[list[Token], dict[str, Any]]:
        """The tokens of the file, and its definitions of links and footnotes."""
        text, env = NEWLINE.sub("\n", self.page[0]), {}
        matter = FRONT_MATTER.match(text)
        if matter and (YAML if matter[1] == "---" else TOML).match(matter[2]):
            text = "\n" * matter[0].count("\n") + text[matter.end() :]
        return parser().parse(text, env), env

    def segments(self) -> Iterator[Segment]:
        text, before = self.page
        places = Places(text, "utf-8", before)
        self.skipped = Skipped()
        for block in blocks(self.parsed[0], text):
            if isinstance(block, str):
                place, _, reason = block.partition(": ")
                self.skipped.add(reason, place)
                continue
            try:
                front, inner, back = trimmed(block_pieces(block.token, block.frame))
            except Disagreement:
                self.skipped.add("its markup is not understood", f"line {(block.token.map or [0])[0] + 1}")
                continue
            if inner:
                content, first, last = block.token.content, inner[0].start, inner[-1].end
                (line, start), (_, end) = places.at(block.at[first]), places.at(block.at[last - 1] + 1)
                width = max(map(len, content.split("\n"))) if "\n" in content[first:last] else 0
                before_text = in_frame(content[:first], block.frame), parts(front)
                behind_text = in_frame(content[last:], block.frame), parts(back)
                slot = Slot(start, end, before_text, behind_text, block.frame, block.prefix, width)
                yield Segment(f"line {line}", parts(inner), slot=slot)

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        if as_text(target) == segment.source:
            return []
        if not plain(target).strip():
            return unsaid(self, segment)
        slot: Slot = segment.slot
        target = tidy(target)
        if found := IMPOSSIBLE.search(plain(part for part in target if isinstance(part, str))):
            told = f"U+{ord(found[0]):04X} cannot stand in Markdown. Take it out of the translation"
            raise FormatError(self.name, [f"{segment.place}: {told}"])
        written = self.written(slot, target)
        if written is None:
            raise FormatError(self.name, [f"{segment.place}: {unreadable(target)}. {BY_HAND}"])
        newline = NEWLINE.search(self.page[0])
        written = written.replace("\n", (newline[0] if newline else "\n") + slot.prefix)
        return [Edit(slot.start, slot.end, written.encode())]

    def written(self, slot: Slot, target: Parts) -> str | None:
        """The barest spelling that is read back the same, or None."""
        edges = outer_edges(target, slot)
        for escapes, beside in SPELLINGS:
            named = edges if beside else set()
            found = self.attempt(slot, target, escapes, named)
            if found is None:
                continue
            for edge in sorted(named):
                fewer = self.attempt(slot, target, escapes, named - {edge})
                if fewer is not None:
                    found, named = fewer, named - {edge}
            return found
        return None

    def attempt(self, slot: Slot, target: Parts, escapes: re.Pattern[str] | None, named: Edges) -> str | None:
        """The target in this spelling, wrapped where the block was, if it is read back the same; else None."""
        body = spelled(target, escapes, named, slot)
        wanted = as_text(slot.before[1] + target + slot.behind[1])
        for text in dict.fromkeys((wrapped(body, slot), body.replace(BREAK, " "))):
            if self.read(slot.before[0] + text + slot.behind[0], slot.frame) == wanted:
                return text
        return None

    def read(self, content: str, frame: str) -> Parts | None:
        """The parts of a block with this content, as this file would read it; None where it is no such block."""
        _, env = self.parsed
        footnotes = {"refs": dict.fromkeys(env.get("footnotes", {}).get("refs", {}), -1), "list": {}}
        tokens = parser().parse(
            frame.format(content), {"references": dict(env.get("references", {})), "footnotes": footnotes}
        )
        if " ".join(token.type for token in tokens) != FRAMES[frame]:
            return None
        try:
            inline = next(token for token in tokens if token.type == "inline")
            return as_text(parts(paired(block_pieces(inline, frame))[0]))
        except Disagreement:
            return None


@cache
def parser() -> MarkdownIt:
    """markdown-it, with what it lacks; its inline tokens say in `meta["span"]` where they stand in their block."""
    made = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"])
    made.use(footnote_plugin, inline=False, move_to_end=False).use(deflist_plugin)
    made.use(dollarmath_plugin, allow_space=False, allow_digits=False, allow_blank_lines=False, double_inline=True)
    made.inline.ruler.before("link", "kept", kept)
    made.block.ruler.before("fence", "colons", colons, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    made.disable(["fragments_join", "text_join"])
    for name, rule in zip(made.get_active_rules()["inline"], made.inline.ruler.getRules(""), strict=True):
        made.inline.ruler.at(name, located(name, rule))
    return made


def kept(state: StateInline, silent: bool) -> bool:
    """An inline rule: BRACES anywhere, BOX at the beginning."""
    found = BRACES.match(state.src, state.pos, state.posMax)
    if not found and state.pos == 0:
        found = BOX.match(state.src, 0, state.posMax)
    if found and not silent:
        state.push("kept", "", 0).content = found[0]
    if found:
        state.pos = found.end()
    return found is not None


def colons(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A block rule: a line that begins with three colons opens or closes a container; what is in it is Markdown."""
    if state.is_code_block(start) or not state.src.startswith(":::", state.bMarks[start] + state.tShift[start]):
        return False
    if not silent:
        state.line = start + 1
        state.push("colons", "", 0).map = [start, start + 1]
    return True


def located(name: str, rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """The same rule, whose tokens say where they stand; those of links and images also where their label stands."""

    def run(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        made, at = state.tokens[count:] if not silent else [], state.pos
        if name in ("emphasis", "strikethrough"):  # one token for each mark, behind the text before them
            for token in reversed(made):
                if at > start:
                    token.meta["span"] = (at - len(token.content), at)
                    at -= len(token.content)
            return True
        for token in made:
            if token.type != "text" and "span" not in token.meta:
                token.meta["span"] = (start, at)
                if name in ("link", "image"):
                    first = start + (1 if name == "link" else 2)
                    token.meta["label"] = (first, state.md.helpers.parseLinkLabel(state, first - 1, name == "link"))
        return True

    return run


def blocks(tokens: Sequence[Token], text: str) -> Iterator[Block | str]:
    """The blocks of text in their order, or what is to be said of those that are left alone."""
    lines = lines_of(text)
    row: list[Token] = []
    for opener, token in pairwise([Token("", "", 0), *tokens]):
        first = token.map[0] if token.map else 0
        if token.type == "tr_open":
            row = []
        elif token.type == "html_block" and any(trimmed(run)[1] for run in html.runs(token.content, False, [])):
            yield f"line {first + 1}: a block of HTML is not translated"
        elif token.nesting > 0 and token.level == DEEPEST - 1:
            yield f"line {first + 1}: what is nested more than {DEEPEST} deep is not translated"
        elif token.type == "inline" and opener.type in ("th_open", "td_open"):
            row.append(token)
        elif token.type == "tr_close" and row:
            first = (row[0].map or [0])[0]
            yield from cells(row, *lines[first]) or [f"line {first + 1}: its cells are not understood"]
        elif token.type == "inline":
            frame = {"#": "# {}", "=": "{}\n===", "-": "{}\n---"}.get(opener.markup[:1], "{}")
            yield placed(token, frame, lines) or f"line {first + 1}: its place in the file is not found"


def lines_of(text: str) -> list[tuple[int, str]]:
    """Each line and where it starts; NUL is read as markdown-it reads it."""
    ends = list(NEWLINE.finditer(text))
    starts = [0, *(end.end() for end in ends)]
    stops = [*(end.start() for end in ends), len(text)]
    return [(start, text[start:stop].replace("\0", "\ufffd")) for start, stop in zip(starts, stops, strict=True)]


def placed(token: Token, frame: str, lines: Sequence[tuple[int, str]]) -> Block | None:
    """The characters of a paragraph or heading in the file: each line of it ends a line there."""
    at: list[int] = []
    prefix = ""
    for number, line in enumerate(token.content.split("\n")):
        start, source = lines[(token.map or [0])[0] + number]
        core = line.strip(SPACE)
        column = source.rfind(core)
        if column < 0:
            return None
        begin = start + column - (len(line) - len(line.lstrip(SPACE)))
        at += range(begin, begin + len(line) + 1)
        prefix = source[:column] if number == 1 else prefix
    return Block(token, frame, at, prefix)


def cells(row: Sequence[Token], start: int, source: str) -> list[Block] | None:
    """The cells of one line of a table, which may have a bar before the first one, and always where a list begins."""
    bars = [-1, *(bar.start() for bar in BAR.finditer(source)), len(source)]
    spans = [range(before + 1, behind) for before, behind in pairwise(bars)]
    for first in (0, 1):
        found = []
        for token, span in zip(row, [*spans[first:], *[range(0)] * len(row)], strict=False):
            at = [index for index in span if source[index : index + 2] != "\\|"]
            shown = "".join(source[index] for index in at)
            column = shown.rfind(token.content)
            rest = shown[:column] + shown[column + len(token.content) :]
            if column < 0 or (rest.strip(SPACE) and (first or found)):
                break
            place = [start + index for index in at[column:]]
            found.append(Block(token, CELL, [*place, start + span.stop], ""))
        if len(found) == len(row):
            return found
    return None


INDENT = re.compile(r"\n[ \t]+")
"""A line of a paragraph may begin with any space, and what is written gets that of its second line."""


def block_pieces(token: Token, frame: str) -> list[Piece]:
    """The pieces of a block; what they hold is spelt as in the file. Raises Disagreement."""
    content = token.content
    run = whole(list(pieces(token.children or [], content, 0, 0, len(content))), content)
    for index, piece in enumerate(run):
        if isinstance(piece.part, Code):
            raw, key = (INDENT.sub("\n", in_frame(text, frame)) for text in (piece.part.raw, piece.part.key))
            run[index] = replace(piece, part=replace(piece.part, raw=raw, key=key))
    return run


def pieces(tokens: Sequence[Token], content: str, base: int, at: int, end: int) -> Iterator[Piece]:
    """The pieces of `content` from `at` to `end`; base: where the text begins whose parser made the tokens."""
    rest = iter(tokens)
    for token in rest:
        start, stop = extent(token, at, base)
        if token.type == "text" and not token.content:  # the other half of a ** that became a token
            continue
        if token.type in ("hardbreak", "softbreak") and not content[at:start].strip(SPACE):
            start = at  # spaces at the end of the line belong to the break
        if start != at:
            raise Disagreement
        raw, at = content[start:stop], stop
        if token.type == "text":
            if raw != token.content:
                raise Disagreement
            yield from spread(start, raw)
        elif token.type == "text_special":
            yield Piece(start, stop, token.content)
        elif token.type == "softbreak":
            yield Piece(start, stop, " ", word=False)
        elif token.type == "hardbreak":
            yield Piece(start, stop, Code(raw[: raw.index("\n") + 1], markup=True), word=False)
        elif token.type in RUNS:
            side = "open" if token.nesting > 0 else "close"
            yield Piece(start, stop, Code(raw, side, markup=True, key=token.markup), word=False)
        elif token.type == "html_inline":
            yield Piece(start, stop, Code(raw, html.side_of(raw), markup=True), word=False)
        elif token.type in ("link_open", "image"):
            inner = (
                list(token.children or [])
                if token.type == "image"
                else list(takewhile(lambda token: token.type != "link_close", rest))
            )
            yield from linked(token, inner, content, base, start, stop)
        else:
            yield Piece(start, stop, Code(raw, markup=True), word=not NO_WORD.match(raw))
    if content[at:end].strip(SPACE):
        raise Disagreement


def linked(token: Token, inner: Sequence[Token], content: str, base: int, start: int, stop: int) -> Iterator[Piece]:
    """A link or image: open, its label, close; all one code where the label is empty or is the key of a definition."""
    first, last = (base + edge for edge in token.meta.get("label", (-1, -1)))
    closing = content[last:stop]
    run: list[Piece] = []
    if "label" in token.meta and closing not in ("]", "][]"):
        run = list(pieces(inner, content, first if token.type == "image" else base, first, last))
    if run:
        yield Piece(start, first, Code(content[start:first], "open", markup=True, key=closing), word=False)
        yield from run
        yield Piece(last, stop, Code(closing, "close", markup=True, key=closing), word=False)
    else:
        yield Piece(start, stop, Code(content[start:stop], markup=True), word=bool(inner))


def extent(token: Token, at: int, base: int) -> tuple[int, int]:
    """Where a token stands; text has no span of its own, it follows what is before it."""
    if "span" not in token.meta:
        return at, at + len(token.content)
    start, stop = (base + edge for edge in token.meta["span"])
    if token.type not in RUNS:
        return start, stop
    width = len(token.markup)
    return (stop - width, stop) if token.nesting > 0 else (start, start + width)


def whole(run: Sequence[Piece], content: str) -> list[Piece]:
    """The pieces, with each element that HTML keeps whole as one code."""
    partner, done, skip = paired(run)[1], [], -1
    for index, piece in enumerate(run):
        mate = partner.get(index, index)
        if mate > index > skip and html.is_kept(plain([piece.part])):
            skip, stop = mate, run[mate].end
            done.append(Piece(piece.start, stop, Code(content[piece.start : stop], markup=True)))
        elif index > skip:
            done.append(piece)
    return done


def parts(run: Sequence[Piece]) -> Parts:
    return joined(piece.part for piece in run)


def in_frame(raw: str, frame: str) -> str:
    """In a cell, a bar is written with a backslash, whatever it is in."""
    return raw.replace("|", "\\|") if frame == CELL else raw


BY_HAND = "The file keeps its text there: write the translation by hand, with its codes where they belong"


def unreadable(target: Parts) -> str:
    """Why a translation, which is tidy, would not be read back."""
    if any(isinstance(part, Code) and part.raw.endswith("\n") for part in (target[0], target[-1])):
        return "a hard line break stands at an end of the translation, where Markdown has none"
    found = ", ".join(f"`{part.raw.strip()}`" for part in target if isinstance(part, Code))
    return (
        f"the codes of the translation ({found}) do not fit together there" if found else "it would be read otherwise"
    )


def tidy(target: Parts) -> Parts:
    """The translation on one line, without white space at its ends and beside hard breaks."""
    done: list[Part] = []
    strip = True
    for part in as_text(target):
        if isinstance(part, str):
            part = ONE_LINE.sub(" ", part)
            part = part.lstrip(SPACE) if strip else part
        strip = isinstance(part, Code) and part.raw.endswith("\n")
        if strip and done and isinstance(done[-1], str):
            done[-1] = done[-1].rstrip(SPACE)
        done.append(part)
    if done and isinstance(done[-1], str):
        done[-1] = done[-1].rstrip(SPACE)
    return joined(done)


def outer_edges(target: Parts, slot: Slot) -> set[tuple[int, int]]:
    """The characters, as (part, 0 or -1), that may keep the code beside them from being a mark: those outside of it,
    spaces within it, and those beside the bars of a cell."""
    found = set()
    padded = (*(slot.before[1][-1:] or (None,)), *target, *(slot.behind[1][:1] or (None,)))
    for index, (before, part, behind) in enumerate(zip(padded, target, padded[2:], strict=False)):
        if isinstance(part, Code):
            continue
        for side, beside, outside in ((0, before, "close"), (-1, behind, "open")):
            if (isinstance(beside, Code) and (part[side] == " " or beside.side in (outside, "alone"))) or (
                beside is None and slot.frame == CELL
            ):
                found.add((index, side))
    return found


def spelled(target: Parts, escapes: re.Pattern[str] | None, named: Edges, slot: Slot) -> str:
    """The target in the words of Markdown; named: first (0) and last (-1) characters of parts to write as references,
    which count as punctuation: `**(a)**b` is not bold, `**(a)**&#98;` is."""
    written = []
    for index, part in enumerate(target):
        if isinstance(part, Code):
            written.append(part.raw)
            continue
        first = 1 if (index, 0) in named else 0
        last = len(part) - 1 if (index, -1) in named and len(part) > first else len(part)
        text = escapes.sub(r"\\\g<0>", part[first:last]) if escapes else part[first:last]
        if escapes and index == 0 and not slot.before[0]:
            text = OPENING.sub(r"\1\\", text)
        text = SINGLE.sub(BREAK, text.replace("|", BARS.get(slot.frame, "|")))
        written += [f"&#{ord(char)};" for char in part[:first]] + [text] + [f"&#{ord(char)};" for char in part[last:]]
    return "".join(written)


def wrapped(body: str, slot: Slot) -> str:
    """The text in lines of the slot's width; no line begins with what would begin another block."""
    if not slot.width:
        return body.replace(BREAK, " ")
    done, column = "", len(slot.before[0].rpartition("\n")[2])
    for index, word in enumerate(body.split(BREAK)):
        fits = column + 1 + len(word.partition("\n")[0]) <= slot.width
        glue = "" if not index else " " if fits or done.endswith("\\") or BEGINS_A_BLOCK.match(word) else "\n"
        _, newline, line = (glue + word).rpartition("\n")
        column = len(line) if newline else column + len(line)
        done += glue + word
    return done
