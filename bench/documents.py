"""Documents through `headway.documents.translate`, judged by parsers that are not ours.

    python bench/documents.py [FOLDER] [--json]             the model answers with what the file says already
    python bench/documents.py [FOLDER] [--json] --model M   a trained model

The first counts files that come back byte for byte, and the texts that went through the model against those that polib
(PO), lxml (TMX, XLIFF), html5lib (HTML), markdown-it (Markdown) and patterns of this file (SRT, VTT) find. The second
reads source and translation of each text by the same parsers and counts placeholders and tags by patterns of this file:
kept, lost in a text that the report flags, lost in one that it does not. Nothing here comes from `headway.text.codes`
or from the readers of `headway.formats` but what is under test. FOLDER is that of our own examples by default.
"""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import polib
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from headway.documents.translate import Done, Job, Report, Text, Translate
from headway.formats.kinds import KINDS, read_document
from headway.formats.segment import Document, FormatError
from headway.generate.parts import Translated, Translator
from headway.text.codes import Parts, find_parts, plain

EXAMPLES = Path(__file__).parents[1] / "tests" / "formats" / "files"

# ---- the texts of a file by other parsers: source and translation; both are the same where there is one language. A
# place that may have a text and has none is NOTHING, since a translation may leave nothing there ----

Pair = tuple[str, str]


NOTHING = "", ""


def alone(text: str) -> Pair:
    return text, text


def po(path: Path) -> Iterator[Pair]:
    for entry in polib.pofile(str(path)):
        forms = entry.msgstr_plural or {0: entry.msgstr}
        for form, text in sorted(forms.items()):
            source = entry.msgid_plural if entry.msgid_plural and (form or len(forms) == 1) else entry.msgid
            if source.strip() and entry.msgid and not entry.obsolete:
                yield source, text


NATIVE = {"bpt", "ept", "it", "ph", "ut"}  # what they hold is another format's markup
CODES_1 = NATIVE | {"x", "bx", "ex"}
OPEN, CLOSE = {"bpt", "bx", "sc"}, {"ept", "ex", "ec"}


def local(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def inline(element: Any) -> Iterator[tuple[str, bool]]:
    """What an element of TMX or XLIFF holds, and whether that is text: codes are spelt as tags."""
    yield element.text or "", True
    for child in element:
        name, given = local(child), child.attrib
        number = next((given[key] for key in ("rid", "startRef", "i", "id", "x", "mid") if key in given), "")
        if name in OPEN | CLOSE:
            yield f"<{'/' * (name in CLOSE)}span-{number}>", False
        elif not name or name in CODES_1 or not (len(child) or child.text) or given.get("translate") == "no":
            yield f"<{name or 'aside'} {number}/>", False
        elif given.get("mtype") == "seg":
            yield from inline(child)
        else:
            yield f"<{name}-{number}>", False
            yield from inline(child)
            yield f"</{name}-{number}>", False
        yield child.tail or "", True


def spelt(element: Any) -> str:
    return "" if element is None else "".join(text for text, _ in inline(element))


def words(element: Any) -> str:
    return "".join(text for text, is_text in inline(element) if is_text).strip()


def tree(path: Path) -> Any:
    return etree.parse(str(path), etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)).getroot()


def xml_lang(tuv: Any) -> str:
    return tuv.get("{http://www.w3.org/XML/1998/namespace}lang", tuv.get("lang", "")).lower().replace("_", "-")


def tmx_languages(path: Path, asked: tuple[str | None, str | None] = (None, None)) -> tuple[str, str]:
    """Those asked for as the file spells them; else that of the header, or of the first text, and the one that most
    other texts have."""
    root = tree(path)
    found = Counter(xml_lang(tuv) for tuv in root.iter("{*}tuv"))
    named = [next((tag for tag in found if tag.split("-")[0] == language), "") for language in asked]
    if all(named):
        return named[0], named[1]
    told = next(root.iter("{*}header")).get("srclang", "*all*").lower()
    source = next((tag for tag in found if tag == told), next(iter(found)))
    return source, next(tag for tag, _ in found.most_common() if tag != source)


def tmx(path: Path, asked: tuple[str | None, str | None] = (None, None)) -> Iterator[Pair]:
    languages = tmx_languages(path, asked)
    root = tree(path)
    space = f"{{{etree.QName(root).namespace or ''}}}"
    for unit in root.iter(f"{space}tu"):
        sides = [
            [tuv.find(f"{space}seg") for tuv in unit.iter(f"{space}tuv") if xml_lang(tuv) == tag] for tag in languages
        ]
        if len(sides[0]) == 1 and len(sides[1]) < 2 and None not in sides[0] + sides[1] and words(sides[0][0]):
            yield spelt(sides[0][0]), spelt(sides[1][0]) if sides[1] else ""


def xliff(path: Path) -> Iterator[Pair]:
    root = tree(path)
    space = f"{{{etree.QName(root).namespace or ''}}}"
    for holder in root.iter(f"{space}trans-unit", f"{space}segment"):
        kept = next(
            (above.get("translate") for above in (holder, *holder.iterancestors()) if above.get("translate")), ""
        )
        source, target = holder.find(f"{space}source"), holder.find(f"{space}target")
        if kept != "no" and words(source):
            yield spelt(source), spelt(target)


BLOCK = frozenset(
    re.findall(
        r"\w+",
        """html body address blockquote center dialog div figure figcaption footer form header hr legend listing main p
    plaintext pre search xmp article aside h1 h2 h3 h4 h5 h6 hgroup nav section dir dd dl dt menu ol ul li table
    caption colgroup col thead tbody tfoot tr td th fieldset details summary optgroup option button select label
    title head noscript datalist frameset frame""",
    )
)
NO_PROSE = frozenset(
    re.findall(r"\w+", "code kbd samp var math script style pre svg template textarea iframe xmp noembed noframes")
)
TEMPLATE = re.compile(r"\{\{.*?\}\}+|\{%.*?%\}|\{#.*?#\}|<%.*?%>|<\?(?:php\b|=).*?(?:\?>|\Z)", re.DOTALL)
HIDDEN = re.compile("\ue000(\\d+)\ue001")


def html(path: Path) -> Iterator[Pair]:
    """The blocks of the tree that a browser builds; no browser sees what a template language leaves in a page."""
    expressions: list[str] = []
    runs = [["", ""]]  # all of it, and the text alone

    def walk(element: Element) -> None:
        name = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        given = element.attrib if name else {}
        kept = not name or name in NO_PROSE or given.get("translate") == "no"
        kept = kept or "notranslate" in given.get("class", "").split()
        if name in BLOCK:
            runs.append(["", ""])
        else:
            told = "".join(f' {key}="{value}"' for key, value in given.items())
            runs[-1][0] += f"<{name}{told}{'/' * kept}>"
        for text, child in [(element.text, None), *((child.tail, child) for child in element)] if not kept else []:
            if child is not None:
                walk(child)
            runs[-1][0] += (text or "").replace("<", "\u2039").replace(">", "\u203a")  # no tag
            runs[-1][1] += text or ""
        if name in BLOCK:
            runs.append(["", ""])
        elif not kept and len(element) + len(element.text or ""):
            runs[-1][0] += f"</{name}>"

    def hide(found: re.Match[str]) -> str:
        expressions.append(found[0])
        return f"\ue000{len(expressions) - 1}\ue001"

    if path.suffix == ".xhtml":
        walk(tree(path))
    else:
        data, parser = path.read_bytes(), html5lib.HTMLParser(namespaceHTMLElements=False)
        parser.parse(data, likely_encoding="utf-8")  # to know the encoding
        text = data.decode(parser.documentEncoding or "utf-8", "replace").removeprefix("\ufeff")
        walk(parser.parse(TEMPLATE.sub(hide, text)))
    for run, text in runs:
        whole = alone(HIDDEN.sub(lambda found: expressions[int(found[1])], run))
        yield whole if HIDDEN.sub("", text).strip() else NOTHING


def markdown(path: Path) -> Iterator[Pair]:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.use(front_matter_plugin).use(footnote_plugin, inline=False, move_to_end=False).use(deflist_plugin)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False)

    def shown(tokens: Sequence[Token]) -> Iterator[tuple[str, bool]]:
        auto = False
        for token in tokens:
            auto = token.markup == "autolink" if token.type == "link_open" else auto
            given = "".join(f" {key}={value!r}" for key, value in token.attrs.items())
            if token.type == "image":
                yield f"<img {token.attrs['src']}>", False
                yield from shown(token.children or [])
            elif token.type == "html_inline":
                yield token.content, False
            elif token.nesting:
                yield f"<{'/' * (token.nesting < 0)}{token.tag}{given}>", False
            elif token.type == "text":
                yield token.content, not auto
            else:
                yield " " if token.type == "softbreak" else f"<{token.type} {token.content!r}/>", False

    for token in parser.parse(path.read_text(encoding="utf-8-sig")):
        found = list(shown(token.children or [])) if token.type == "inline" else []
        words = TEMPLATE.sub("", "".join(text for text, is_text in found if is_text)).strip()
        yield alone("".join(text for text, _ in found)) if words else NOTHING


def visible(payload: str) -> str:
    """A text of SRT without what is no tag to a player: it shows those that it does not know and that have no pair."""
    halves = [set(re.findall(rf"<{slash}(\w+)[^<>]*>", payload)) for slash in ("", "/")]
    known = {"b", "i", "u", "s", "font"} | (halves[0] & halves[1])
    return re.sub(r"<(/?(\w+)[^<>]*)>", lambda tag: tag[0] if tag[2] in known else f"\u2039{tag[1]}\u203a", payload)


TIMES = r"[\d:]+[.,]\d+[ \t]*-->[ \t]*[\d:]+[.,]\d+[^\n]*\n"


def cues(path: Path) -> Iterator[Pair]:
    text = re.sub(r"\r\n?", "\n", path.read_bytes().decode("utf-8-sig"))
    for payload in re.findall(rf"^[ \t]*{TIMES}((?:(?!.*-->)[^\n]+(?:\n|\Z))*)", text, re.MULTILINE):
        words = re.sub(r"<[^>]*>|\{\\[^}]*\}", "", payload).strip()
        shown = unescape(payload) if path.suffix.lower() == ".vtt" else visible(payload)
        shown = re.sub(r"\{(?!\\|\w:)", "\u2039", shown)  # a brace is text, but in `{\an8}` and `{Y:i}`
        yield alone(" ".join(shown.split())) if words else NOTHING


PARSERS: dict[str, Callable[[Path], Iterator[Pair]]] = {
    "po": po,
    "tmx": tmx,
    "xliff": xliff,
    "html": html,
    "markdown": markdown,
    "srt": cues,
    "vtt": cues,
}

# ---- placeholders and tags, by patterns of our own ----

CODE = re.compile(
    r"""</?[A-Za-z][^<>]*> | \{\\[^{}]*\} | \{\{.*?\}\} | \{%.*?%\} | \$\{\w+\} | \{[\w.!]*(?::[^{}\s]*)?\} | &\#?\w+;
      | %\(\w+\)[-\#0+]*[\d.]*[a-zA-Z] | %(?:\d+\$)?[-\#0+]*[\d.]*(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcCsS@](?![a-z])
      | https?://[^\s<>"')\]“”„‘’»«]*[^\s<>"')\].,;:!?“”„‘’»«]""",
    re.VERBOSE | re.DOTALL,
)
PLAIN_PRINTF = re.compile(r"%[-#0+\d.]*[a-zA-Z]+")


def crosses(found: Sequence[str]) -> bool:
    """Do tags that close lack the one that they close, or cross another?"""
    closed, stack = Counter(tag[2:].split()[0].strip(">") for tag in found if tag.startswith("</")), []
    for tag in found:
        name = tag.strip("</>").split()[0] if tag[0] == "<" and tag.strip("</>") else ""
        if tag.startswith("</"):
            if not stack or stack.pop() != name:
                return True
        elif closed[name] and not tag.endswith("/>"):
            stack.append(name)
    return False


def kept(source: str, target: str) -> bool:
    """Has the translation the codes of the source, each as often, well nested, printf's arguments in their order?"""
    ours, theirs = CODE.findall(source), CODE.findall(target)
    arguments = [[code for code in found if PLAIN_PRINTF.fullmatch(code)] for found in (ours, theirs)]
    return Counter(ours) == Counter(theirs) and arguments[0] == arguments[1] and (crosses(ours) or not crosses(theirs))


# ---- the figure ----


@dataclass
class Figure:
    """What became of one file. refused: why we did not read it; unread: why the other parser did not; parsed: texts
    that it finds; codes: of them; lost: in texts that the report does not flag for it; where: those."""

    name: str
    kind: str
    refused: str = ""
    unread: str = ""
    segments: int = 0
    parsed: int = 0
    identical: bool = False
    codes: int = 0
    kept: int = 0
    flagged: int = 0
    lost: int = 0
    where: list[Pair] = field(default_factory=list)


@dataclass
class Seen(Report):
    """A report that keeps every text."""

    all: list[Done] = field(default_factory=list)

    def add(self, done: Done) -> None:
        self.all.append(done)
        super().add(done)


def answers(document: Document) -> Translate:
    """A model that answers each text with the translation that the file holds, or with the text: without white space at
    the ends, and without an accelerator where it was asked without one."""
    todo = (segment for segment in document.segments() if segment.translate)

    def answer(texts: Sequence[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        made = []
        for (asked, kinds), segment in zip(texts, islice(todo, len(texts)), strict=True):
            marker = next((mark for mark in "&_~" if mark in plain(segment.source) and mark not in plain(asked)), None)
            target = segment.target if document.bilingual else segment.source
            text = Text.of(target, kinds, marker).parts if target else ()
            made.append(Translated(find_parts(text, kinds), 0.0, 1))  # as a model's, with the codes found
        return made

    return answer


def trained(folder: Path) -> tuple[Translator, tuple[str | None, str | None]]:
    """A model folder as `headway translate` uses it, and its languages."""
    from headway.api import load  # all the rest does without

    model = load(folder)
    return model.translator(by_sentence=False), (model.languages.source, model.languages.target)


def measure(
    path: Path, translate: Translator | None = None, languages: tuple[str | None, str | None] = (None, None)
) -> Figure:
    """One file through a job; without a model, through one that knows the file."""
    data, kind = path.read_bytes(), kind_of(path)
    figure = Figure(path.name, kind)
    try:
        if kind == "tmx" and translate is None:
            languages = tmx_languages(path)
        document, seen = read_document(data, path.name, *languages), Seen()
        if translate is not None:
            translate = replace(translate, by_sentence=not document.bilingual)
        job = Job(translate or answers(read_document(data, path.name, *languages)), everything=True, mark=False)
        written = b"".join(job(document, seen))
    except FormatError as error:
        figure.refused = error.faults[0]
        return figure
    if translate is not None and document.skipped.counts and not seen.all:  # of languages that are not the model's
        figure.refused = next(iter(document.skipped.counts))
        return figure
    figure.segments, figure.identical = len(seen.all), written == data
    parse = partial(tmx, asked=languages) if kind == "tmx" else PARSERS[kind]
    try:
        before = list(parse(path))
    except OSError as error:  # polib's, for what it cannot read
        figure.unread = str(error)
        return figure
    figure.parsed = len(before) - before.count(NOTHING)
    if translate is not None:
        judge(figure, before, list(after(path, written, parse)), seen.all, document.bilingual)
    return figure


def after(path: Path, written: bytes, parse: Callable[[Path], Iterator[Pair]]) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(written)
        yield from parse(copy)


def judge(figure: Figure, before: list[Pair], found: list[Pair], done: list[Done], bilingual: bool) -> None:
    """Count the codes of a file. Raises ValueError where the parsers do not see the same texts."""
    pairs = [(one, other) for one, other in zip(before, found, strict=False) if one != NOTHING]
    if len(before) != len(found) or len(pairs) != len(done):
        told = f"{len(done)} texts, and {len(before)} places, afterwards {len(found)}, for the other parser"
        raise ValueError(f"{figure.name}: {told}: they cannot be compared")
    for ((source, _), (source_after, target)), one in zip(pairs, done, strict=True):
        count = len(CODE.findall(source))
        figure.codes += count
        if bilingual and source != source_after:
            raise ValueError(f"{figure.name}: the source has changed: {source!r} became {source_after!r}")
        if {finding.rule for finding in one.findings} & {"codes", "model", "unwritable", "empty"}:
            figure.flagged += count
        elif kept(source, target):
            figure.kept += count
        else:
            figure.lost += max(1, count)
            figure.where.append((source, target))


def kind_of(path: Path) -> str:
    return KINDS[path.suffix.lower()].rpartition(".")[2].lower()


def documents(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in KINDS)


def table(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The sums of each kind."""
    rows = []
    for kind in PARSERS:
        if not (some := [figure for figure in figures if figure.kind == kind]):
            continue
        read = [figure for figure in some if not figure.refused]
        row: dict[str, Any] = {"kind": kind, "files": len(some), "refused": len(some) - len(read)}
        row["identical"] = sum(figure.identical for figure in read)
        row["agree"] = sum(figure.segments == figure.parsed for figure in read)
        for name in ("segments", "parsed", "codes", "kept", "flagged", "lost"):
            row[name] = sum(getattr(figure, name) for figure in read)
        rows.append(row)
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("folder", nargs="?", type=Path, default=EXAMPLES)
    options.add_argument("--model", type=Path)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    translate, languages = trained(given.model) if given.model else (None, (None, None))
    figures = []
    for path in documents(given.folder):
        figures.append(one := measure(path, translate, languages))
        if one.refused:
            print(f"{one.name}: refused: {one.refused}", file=sys.stderr)
        elif one.segments != one.parsed or (given.model is None and not one.identical) or one.lost:
            told = f"identical: {one.identical}, {one.segments} texts, {one.parsed} parsed, {one.lost} codes lost"
            print(f"{one.name}: {told} {one.unread}", *one.where, sep="\n    ", file=sys.stderr)
    for row in table(figures):
        print(json.dumps(row) if given.json else "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
