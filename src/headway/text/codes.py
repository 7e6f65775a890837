r"""What in a text is no text: inline tags, placeholders, URLs. A translator must keep them, so they travel as `Code`s.

A translatable text is a tuple of parts: pieces of plain text (`str`, as a reader sees them, unescaped) and codes. The
readers of `headway.formats` give those codes that are a file's markup; `find` finds those that are characters of the
text. Its table is `TABLE`; each row brings an example, which its test reads. Every pattern takes time linear in the
text: what it may repeat is possessive (`++`), and stops where the same pattern could begin anew.

The twins are in tests/test_codes.py: Python's own % and str.format parsers, brute force for nesting.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple

Side = Literal["open", "close", "alone"]


@dataclass(frozen=True)
class Code:
    """One thing to keep.

    raw: with `markup`, the file's own spelling of it (`<g id="1">`), written as it stands; without, characters of the
    text (`%s`), which are escaped as the text around them is. side: whether it opens or closes something or stands
    alone. key: what makes two codes the same one: `raw` unless the format knows better (an id); a closing code has the
    key of the one that it closes.
    """

    raw: str
    side: Side = "alone"
    markup: bool = False
    key: str = ""

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.raw)


Part = str | Code
Parts = tuple[Part, ...]


def joined(parts: Iterable[Part]) -> Parts:
    """The same parts with neighbouring texts joined and empty ones dropped: equal texts have equal parts."""
    found: list[Part] = []
    texts: list[str] = []  # gathered before they are joined, so that a million pieces take no quadratic time
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if text := "".join(texts):
            found.append(text)
        texts.clear()
        found.append(part)
    if text := "".join(texts):
        found.append(text)
    return tuple(found)


def plain(parts: Iterable[Part], code: str | None = None) -> str:
    """The text of parts, each code as it is spelt, or as `code` where that is given."""
    return "".join(part if isinstance(part, str) else part.raw if code is None else code for part in parts)


def codes(parts: Sequence[Part]) -> list[Code]:
    return [part for part in parts if isinstance(part, Code)]


class Row(NamedTuple):
    """One spelling of a kind of code. sign: characters without which a text holds none, so that most texts are let go
    at a glance; example: a code of this row."""

    kind: str
    side: Side
    sign: str
    pattern: str
    example: str


def nested(depth: int) -> str:
    """A pattern for text with balanced braces, `depth` deep."""
    return r"[^{}]*+" if depth == 0 else rf"(?:[^{{}}]++|\{{{nested(depth - 1)}\}})*+"


URL = r"(?:[A-Za-z0-9_/#@%&=+~${}-]++|[.,;:!?']++(?=[A-Za-z0-9_/#@%&=+~${}-])|\([^\s()<>\"]*+\)|\[[^\s\[\]<>\"]*+\])++"
NAME = r"[A-Za-z][A-Za-z0-9_:.-]*+"
ATTRIBUTE = r"""\s++[A-Za-z_:@][\w:@.-]*+\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=`]++)"""
BARE = r"""\s++[^\s"'<>=`/]++(?!\s*=)"""  # disabled, async
ATTRIBUTES = rf"(?:{ATTRIBUTE}(?:{ATTRIBUTE}|{BARE})*+)?+"
VOID = "(?i:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)"
FIELD = r"(?:[A-Za-z_][\w.-]*+|\d++)?(?:\[[^\[\]{}\n]*+\])*+"  # of str.format, C# and Rust
SPEC = r"(?:%[^{}\n]*+|[^{}\n]?[<>=^][^{}\s]*+|[^{}\s]*+(?:\{\w*+\}[^{}\s]*+)*+)"
SIZE = r"(?:hh?|ll?|I64|I32|[Lqjzt])?"
DOUBLED = r"%%(?:\(\w[\w.]*+\)[a-zA-Z](?![A-Za-z]))?"  # %%(name)s is filled in at a second time
NO_PERCENTAGE = r"(?<!\d)(?<!\d[ \u00a0\u202f])"

TABLE = (
    Row(
        "url",
        "alone",
        "://",
        rf"\b(?:https?|ftps?|file|git|ssh|svn|irc)://(?:{URL})?",
        "https://example.org/a_(b)?c=%20#d",
    ),
    Row("url", "alone", "www.", rf"\bwww\.[A-Za-z0-9]{URL}", "www.example.org/path"),
    Row(
        "email",
        "alone",
        "@",
        r"(?<![\w.+-])[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])",
        "first.last+tag@mail.example.org",
    ),
    Row(
        "path",
        "alone",
        "/",
        r"(?<![\w/.~:+*<-])(?:~|\.\.?)?(?:/\.?[A-Za-z0-9_+*]++(?:[.-]++[A-Za-z0-9_+*]++)*+){2,}+/?",
        "/etc/apt/sources.list",
    ),
    Row("path", "alone", ":\\", r"(?<!\w)[A-Za-z]:\\(?:[A-Za-z0-9_.+~-]++\\?)*+", r"C:\Windows\win.ini"),
    # reStructuredText: the text of a link is text.
    Row("code", "open", "`", r"(?::[a-z][\w:+.-]{0,40}:)?`(?=[^`<>]++(?<=\s)<[^`<>\s]++>`)", ":ref:`text <target>`"),
    Row("code", "close", ">`", r"\s<[^`<>\s]++>`_{0,2}", "`text <target>`_"),
    Row("code", "alone", "``", r"``[^`\n]++``(?!`)", "``os.path``"),
    # GNU programs quote `like this', so no apostrophe may stand inside.
    Row("code", "alone", "`", r"(?::[a-z][\w:+.-]{0,40}:)?`(?!\s)[^`'\n]++(?<!\s)`(?![`_])", ":func:`len`"),
    Row("mustache", "alone", "{{", r"\{\{\{[^{}\n]*+\}\}\}|\{\{[^{}\n]*+\}\}", "{{ user.name }}"),
    Row("mustache", "alone", "{%", r"\{%[^{}\n]*+(?<=%)\}", "{% if x %}"),
    Row("mustache", "alone", "<%", r"<%[^<>\n]*+(?<=%)>", "<%= x %>"),
    Row(
        "tag",
        "alone",
        "<",
        rf"<{VOID}(?:{ATTRIBUTE}|{BARE})*+\s*+/?>|<{NAME}{ATTRIBUTES}\s*+/>|<!--(?:[^<>-]|-(?!->))*+-->",
        "<br>",
    ),
    Row("tag", "close", "</", rf"</{NAME}\s*+>", "<b>x</b>"),
    Row("tag", "open", "<", rf"<{NAME}{ATTRIBUTES}\s*+>", '<a href="x">text</a>'),
    Row(
        "brace",
        "alone",
        "{",
        r"\{\s*+\w++\s*+,\s*+(?:plural|select|selectordinal|number|date|time|choice|spellout|ordinal|duration)\b"
        rf"{nested(6)}\}}",
        "{n, plural, one {# file} other {# files}}",
    ),
    Row("brace", "alone", "{", rf"#?\{{{FIELD}(?:![rsa])?(?:,-?\d++)?(?::{SPEC})?\}}", "{name!r:>8}"),
    Row("doubled", "alone", "{", r"\{\{", "{{"),
    Row("doubled", "alone", "}", r"\}\}", "}}"),
    Row("dollar", "alone", "$", r"\$\{[^{}\n]*+\}", "${HOME}"),
    Row("dollar", "alone", "$", r"\$\([A-Za-z][^()\n]*+\)|\$\[[A-Za-z][^\[\]\n]*+\]", "$[officename]"),
    Row("dollar", "alone", "$", r"(?<![\w$])\$[A-Za-z_]\w*+", "$HOME"),
    Row("dollar", "alone", "%", rf"{NO_PERCENTAGE}%[A-Z][A-Z0-9_]{{2,40}}+(?![A-Za-z0-9_])%?", "%PRODUCTNAME"),
    # All of printf, for texts that are known to be formats: in prose, `50% discount` holds `% d`.
    Row(
        "printf",
        "alone",
        "%",
        rf"{DOUBLED}|%\{{\w++\}}|%[-+ #0'I]*+\d*+<PRI\w++>"
        r"|%(?:\d++\$|\([^()\n]*+\)|<\w++>)?[-+ #0'I]*+(?:\*(?:\d++\$)?|\d++)?(?:\.(?:\*(?:\d++\$)?|\d++)?)?"
        rf"{SIZE}[A-Za-z@]",
        "%-5.2f",
    ),
    Row("qt", "alone", "%", r"%L?(?:[1-9]\d?|n)", "%L1"),
    Row("boost", "alone", "%", r"%\d++%|%\|[^|\n]*+\|", "%1%"),
    Row("lisp", "alone", "~", r"~(?:[\dvV#,:@+-]|'.){0,12}+[A-Za-z%&~|*?$^\[\](){};<>\n]", "~5,2f"),
    # What is a placeholder beyond doubt, in any text.
    Row("percent", "alone", "%", rf"{DOUBLED}|%\{{\w++\}}", "%%"),
    Row(
        "percent", "alone", "%", rf"%(?:\(\w[\w.]*+\)|<\w++>|\d\d?\$)[-+#0]*+\d*+(?:\.\d++)?{SIZE}[A-Za-z@]", "%(name)d"
    ),
    Row(
        "percent",
        "alone",
        "%",
        rf"{NO_PERCENTAGE}%(?:[-+#0]*+\d*+(?:\.\d++)?{SIZE}[A-Za-z@](?![a-zß-öø-ÿ])|L?[1-9]\d?(?![\w%]))",
        "%lu",
    ),
    Row("entity", "alone", "&", r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});", "&nbsp;"),
)
"""What is a code. Where two rows match at one place, the first wins."""

PROSE = frozenset({"url", "email", "path", "code", "mustache", "tag", "brace", "dollar", "percent", "entity"})
"""Kinds that raise no false alarm in ordinary sentences."""

SPOKEN = frozenset({"url", "email", "entity", "tag"})
"""Kinds for what people say in a film: SRT has no escapes, and players hide pairs of tags that they do not know."""

FLAGS = {
    "printf": "c objc python php perl awk lua tcl object-pascal elisp librep gcc-internal gfc-internal java-printf "
    "javascript go d modula2 sh-printf ruby",
    "brace": "python-brace csharp java c++ rust perl-brace icu-message",
    "qt": "qt qt-plural kde kde-kuit ycp smalltalk",
    "boost": "boost",
    "lisp": "lisp scheme",
    "dollar": "sh",
}
"""Kind to the languages whose `-format` flag in a PO file stands for it."""

KIND_OF_FLAG = {f"{language}-format": kind for kind, languages in FLAGS.items() for language in languages.split()}

# Tags that are meant as such even where nothing closes them; `<title>` or `<file>` may be a blank to fill in.
HTML = frozenset(
    re.findall(r"\w+", "a b big div em font h1 h2 h3 h4 h5 h6 i li ol p pre s small span strong sub sup tt u ul")
)


def kinds_for(flags: frozenset[str], kind: str) -> frozenset[str]:
    """The kinds of codes in a text with these flags (those of PO: `c-format`, `no-c-format`) of a document of this kind
    (the suffix of its name without the dot, as in `po`)."""
    if kind in {"srt", "vtt"}:
        return SPOKEN
    yes = {KIND_OF_FLAG[flag] for flag in flags & KIND_OF_FLAG.keys()}
    no = {KIND_OF_FLAG[flag[3:]] for flag in flags if flag.startswith("no-") and flag[3:] in KIND_OF_FLAG}
    if "boost" in yes:
        yes.add("printf")
    if "brace" in yes:
        yes.add("doubled")
    guessed = {"percent"} if (yes | no) & {"printf", "qt", "boost"} else set()
    return (PROSE - guessed - no) | yes


@lru_cache
def rows_of(kinds: frozenset[str]) -> tuple[tuple[int, str], ...]:
    """The rows of these kinds by their number, each with its sign."""
    if unknown := kinds - {row.kind for row in TABLE}:
        raise ValueError(f"kinds of codes {sorted(unknown)}: there are {sorted({row.kind for row in TABLE})}")
    return tuple((number, row.sign) for number, row in enumerate(TABLE) if row.kind in kinds)


@lru_cache(maxsize=1024)
def compiled(rows: tuple[int, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<row{row}>{TABLE[row].pattern})" for row in rows))


def find(text: str, kinds: frozenset[str] = PROSE) -> Parts:
    """A text as parts: plain text, and a code without `markup` for each that is of one of the kinds."""
    return find_parts((text,), kinds)


def find_parts(parts: Iterable[Part], kinds: frozenset[str] = PROSE) -> Parts:
    """The parts with the codes found in their texts. Codes with `markup` stay; those without are texts and are found
    anew, so that it does not matter which kinds were looked for before. Raises ValueError for an unknown kind."""
    found: list[Part] = []
    for part in joined(part.raw if isinstance(part, Code) and not part.markup else part for part in parts):
        found += cut(part, kinds) if isinstance(part, str) else [part]
    return joined(paired(found)) if len(found) > 1 else tuple(found)


def cut(text: str, kinds: frozenset[str]) -> list[Part]:
    """The text cut at its codes, which are not paired yet."""
    rows = tuple([number for number, sign in rows_of(kinds) if sign in text])
    cuts: list[Part] = []
    at = 0
    for match in compiled(rows).finditer(text) if rows else ():
        assert match.lastgroup is not None
        cuts += [text[at : match.start()], Code(match[0], TABLE[int(match.lastgroup.removeprefix("row"))].side)]
        at = match.end()
    return [*cuts, text[at:]]


def paired(parts: Sequence[Part]) -> list[Part]:
    """Each closing code that was found gets the key of the nearest one of its name before it that is still open. What
    finds no mate is text again, but for tags with attributes and those of HTML: `<empty>` is a blank to fill in."""
    made, opened, single = list(parts), {}, set()
    for at, part in enumerate(parts):
        if not isinstance(part, Code) or part.markup or part.side == "alone":
            continue
        name = part.raw.strip("</>").split(None, 1)[0].lower() if part.raw[0] == "<" else "`"
        if part.side == "open":
            opened.setdefault(name, []).append(at)
            single.add(at)
        elif opened.get(name):
            mate = opened[name].pop()
            single.discard(mate)
            made[at] = replace(part, key=parts[mate].key)
        else:
            single.add(at)
            made[at] = replace(part, key=f"<{name}>")
    for at in single:
        raw = made[at].raw
        if not (raw[0] == "<" and ("=" in raw or raw.strip("</>").split(None, 1)[0].lower() in HTML)):
            made[at] = raw
    return made


ENTITY = r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6});"
CJK = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
TAIL = re.compile(r"(?<!\s)\s*+(?:\.\.\.|…|:|：)?\s*+$")


@lru_cache
def marks(marker: str) -> re.Pattern[str]:
    """An entity, which is no accelerator; a doubled marker, which is none either; the key in brackets that East Asian
    labels end with (group `behind`); a marker before a letter or digit (group `before`)."""
    if len(marker) != 1 or marker.isalnum() or marker.isspace():
        raise ValueError(f"marker {marker!r}: must be one character that is no letter, digit or space, such as & _ ~")
    sign = re.escape(marker)
    return re.compile(
        rf"(?P<entity>{ENTITY})|(?P<doubled>{sign}{sign})"
        rf"|\s?[(（]{sign}(?P<behind>[^\W_])[)）]|{sign}(?=(?P<before>[^\W_]))"
    )


def accelerator(source: str, marker: str) -> tuple[str, str]:
    """The text without its accelerator (`&File`, `Na_me`, `名前(&F)`), and its letter; "" where it has none. A doubled
    marker stands for the character itself. With more than one accelerator, the same text and "". Raises ValueError for
    a bad marker."""
    kinds = {"entity": r"\g<0>", "doubled": marker, "behind": "", "before": ""}
    letters = [letter for match in marks(marker).finditer(source) if (letter := match["before"] or match["behind"])]
    if len(letters) > 1:
        return source, ""
    return marks(marker).sub(lambda match: match.expand(kinds[match.lastgroup or ""]), source), "".join(letters)


def doubles(text: str, marker: str) -> bool:
    """Does a text write this character doubled, so that it is no accelerator's marker?"""
    return any(match.lastgroup == "doubled" for match in marks(marker).finditer(text))


def without_accelerator(parts: Parts, marker: str | None) -> tuple[Parts, str]:
    """The parts of a label as `accelerator` gives them, and its letter; the same parts and "" where it has codes of the
    file's own, or where no marker is known."""
    if not marker or len(parts) != 1 or not isinstance(parts[0], str):
        return parts, ""
    text, letter = accelerator(parts[0], marker)
    return (text,), letter


def put_accelerator(text: str, marker: str, letter: str, every: bool = False) -> str:
    """The text with its accelerator: before the first word that begins with the letter, or else before the letter in a
    word, or else before the first letter of all. East Asian text, and text without letters, gets it behind: `名前(&F)`.
    Codes are left alone. every: as in `escaped`. `accelerator` takes it out again. Raises ValueError for a bad marker
    or letter."""
    if len(letter) != 1 or not letter.isalnum():
        raise ValueError(f"accelerator {letter!r}: must be one letter or digit")
    places = list(letters_of(text, marker))
    if CJK.search(text) or not places:
        tail = TAIL.search(text)
        assert tail is not None
        name = letter.upper() if len(letter.upper()) == 1 else letter
        before, behind = (escaped(part, marker, every) for part in (text[: tail.start()], text[tail.start() :]))
        return f"{before}({marker}{name}){behind}"
    wanted = [at for at in places if text[at].casefold() == letter.casefold()]
    starts = [at for at in wanted if not text[at - 1 : at].isalnum()]
    at = (starts or wanted or [at for at in places if text[at].isalpha()] or places)[0]
    return escaped(text[:at], marker, every) + marker + escaped(text[at:], marker, every)


def letters_of(text: str, marker: str) -> Iterator[int]:
    """Where an accelerator may stand: before letters and digits outside of codes, with no marker before them."""
    at = 0
    for part in find(text):
        if isinstance(part, str):
            yield from (
                at + number
                for number, letter in enumerate(part)
                if letter.isalnum() and text[at + number - 1 : at + number] != marker
            )
        at += len(part if isinstance(part, str) else part.raw)


def escaped(text: str, marker: str, every: bool) -> str:
    """The text with its own markers doubled: those that would be read as accelerators, or every one."""
    sought = re.compile(rf"(?P<entity>{ENTITY})|{re.escape(marker)}") if every else marks(marker)
    return sought.sub(
        lambda match: match[0] if match.lastgroup == "entity" else match[0].replace(marker, 2 * marker), text
    )


def guess_marker(texts: Iterable[str]) -> str | None:
    """The character that marks accelerators in these texts of one file, or None where they show none clearly.

    Clear is: of the texts of up to 60 characters, 5 and a twentieth of them or more have exactly one; nine in ten of
    these stand at the start of a word; and no more than one in ten texts with any has several.
    """
    short = [text for text in dict.fromkeys(texts) if len(text) <= 60]
    for marker in "&_~":
        found = [
            [m for m in marks(marker).finditer(text) if m["before"] or m["behind"]] for text in short if marker in text
        ]
        one = [matches[0] for matches in found if len(matches) == 1]
        starts = sum(bool(m["behind"]) or not m.string[: m.start()][-1:].isalnum() for m in one)
        several = sum(len(matches) > 1 for matches in found)
        if len(one) >= max(5, len(short) / 20) and 10 * starts >= 9 * len(one) and 10 * several <= len(one):
            return marker
    return None


def shield(parts: Iterable[Part], most: int) -> tuple[list[str | int], list[Code]]:
    """The parts with their codes replaced by the numbers 0, 1, ... in order, and the codes; where there are more than
    `most`, all are text and the list is empty. For models whose vocabulary has placeholders."""
    named = list(counted(parts))
    names = [name for _, name in named if name]
    if len(names) > most:
        return replaced(named, {}), []
    return replaced(named, {name: number for number, name in enumerate(names)}), codes([part for part, _ in named])


def unshield(parts: Iterable[str | int], kept: Sequence[Code]) -> Parts:
    """The inverse of `shield`. A number that stands for no code, which a model may invent, becomes a code spelt as such
    placeholders are, `<x7>`, with `markup` so that no finder takes it for text, and `differences` tells of it."""
    return joined(
        part if isinstance(part, str) else kept[part] if 0 <= part < len(kept) else Code(f"<x{part}>", markup=True)
        for part in parts
    )


def shield_as(parts: Iterable[Part], kept: Iterable[Code]) -> list[str | int]:
    """Other parts with the numbers that `shield` gave these codes, where they have them too; the rest is text."""
    names = [name for _, name in counted(kept) if name]
    return replaced(counted(parts), {name: number for number, name in enumerate(names)})


def shield_pair(
    source: Iterable[Part], target: Iterable[Part], most: int, salt: int, match: Iterable[Part] = ()
) -> tuple[list[str | int], list[str | int], list[str | int]]:
    """A pair to train on, and the translation of a similar source: codes that both sides have (by key and side, equal
    ones in order) are replaced by numbers under `most`, the same on both sides and in the match, and all different; the
    others are text. Where both have more than `most`, all are text. The numbers are drawn by the salt, so that every
    placeholder is trained; same salt, same numbers."""
    ours, theirs = list(counted(source)), list(counted(target))
    there = {name for _, name in theirs}
    shared = [name for _, name in ours if name and name in there]
    number = dict(zip(shared, drawn(len(shared), most, salt), strict=True)) if len(shared) <= most else {}
    return replaced(ours, number), replaced(theirs, number), replaced(counted(match), number)


Name = tuple[str, Side, int]


def counted(parts: Iterable[Part]) -> Iterator[tuple[Part, Name | None]]:
    """The parts, each code with a name of its own: its key, its side, and how many of that were before it."""
    seen: Counter[tuple[str, Side]] = Counter()
    for part in parts:
        if isinstance(part, str):
            yield part, None
        else:
            yield part, (*identity(part), seen[identity(part)])
            seen[identity(part)] += 1


def replaced(named: Iterable[tuple[Part, Name | None]], number: dict[Name, int]) -> list[str | int]:
    """The parts with the codes that have a number replaced by it, and the others by their text."""
    made: list[str | int] = []
    texts: list[str] = []
    for part, name in named:
        if name in number:
            made += ["".join(texts), number[name]]
            texts.clear()
        else:
            texts.append(part if isinstance(part, str) else part.raw)
    made.append("".join(texts))
    return [part for part in made if part != ""]


def identity(code: Code) -> tuple[str, Side]:
    return code.key, code.side


def drawn(count: int, most: int, salt: int) -> list[int]:
    """`count` different numbers under `most`, by a counter and a hash: the first steps of a Fisher-Yates shuffle."""
    moved: dict[int, int] = {}
    for at in range(count):
        digest = blake2b(f"{salt}/{at}".encode(), digest_size=8).digest()
        other = at + int.from_bytes(digest, "big") % (most - at)
        moved[at], moved[other] = moved.get(other, other), moved.get(at, at)
    return [moved[at] for at in range(count)]


ARGUMENT = re.compile(
    r"%(?P<rest>[-+ #0'I]*+(?:\*|\d++)?(?:\.(?:\*|\d++)?)?(?:hh?|ll?|I64|I32|[Lqjzt])?[diouxXeEfFgGaAcCsSp@])"
    r"|\{(?P<field>(?:![rsa])?(?::.*)?)\}"
)
DATE = re.compile(r"%[YymHMSBbjIpZ]")
NUMBERED = re.compile(r"%\d+\$|\{\d+[!:}]")


def differences(source: Sequence[Part], target: Sequence[Part]) -> list[str]:
    """What is wrong with the codes of a translation, in words: missing, too often, invented, badly nested, swapped,
    around nothing, a link in a link.

    Their order may change, but for printf's arguments without numbers: those take their values in order. Where the
    target numbers the arguments (`%2$s`), they are those of the source by that number.
    """
    ours, theirs = asked_for(source, target), codes(target)
    wanted, found = Counter(map(identity, ours)), present(ours, target)
    spelt = {identity(code): f"`{code.raw.strip()}`" for code in [*theirs, *ours]}
    told = []
    for code in dict.fromkeys([*wanted, *found]):
        less, more = wanted[code], found[code]
        if less > more:
            told.append(f"{spelt[code]} missing" + (f" ({more} of {less})" if more else ""))
        elif more > less:
            told.append(f"{spelt[code]} {more} times, {less} in the source" if less else f"{spelt[code]} invented")
    told += swapped(ours, theirs) + restated(ours, theirs) + misnested(ours, theirs, spelt)
    told += [f"`{raw}` stands in the text as well" for raw in said(source, target)]
    inside = Counter(linked(theirs)) - Counter(linked(ours))
    told += [f"{spelt[key, 'open']} stands in another link" for key in inside if wanted[key, "open"]]
    hollow = Counter(empty(target)) - Counter(empty(source))
    return told + [f"{spelt[key, 'open']} has nothing in it" for key in hollow if wanted[key, "open"]]


def present(ours: Iterable[Code], target: Sequence[Part]) -> Counter[tuple[str, Side]]:
    """How often a translation has each code. What stands alone and is no markup is there wherever its characters are:
    the `%s` of `%ss` is filled in, though no finder is sure of it."""
    found = Counter(map(identity, codes(target)))
    text = plain(target, "\ufffc")  # a code ends what stands before it
    for code, count in Counter(code for code in ours if code.side == "alone" and not code.markup).items():
        short = count - found[identity(code)]
        found[identity(code)] += max(0, min(short, text.count(code.raw)))
    return found


def missing(source: Sequence[Part], target: Sequence[Part]) -> list[Code]:
    """The codes of a text that its translation has not."""
    ours, lost = asked_for(source, target), list[Code]()
    there = present(ours, target)
    for code, original in zip(ours, codes(source), strict=True):
        there[identity(code)] -= 1
        if there[identity(code)] < 0:
            lost.append(original)
    return lost


def asked_for(source: Sequence[Part], target: Sequence[Part]) -> list[Code]:
    """The codes of a text, numbered where its translation numbers them."""
    ours, theirs = codes(source), codes(target)
    if any(NUMBERED.match(code.raw) for code in theirs) and not any(NUMBERED.match(code.raw) for code in ours):
        return numbered(ours)
    return ours


def said(source: Sequence[Part], target: Sequence[Part]) -> list[str]:
    """Tags of the source that a translation spells as text: a half that closes nothing is none to any finder."""
    ours, theirs = (
        Counter(tag for part in some if isinstance(part, str) for tag in TAG.findall(part)) for some in (source, target)
    )
    return sorted({code.raw for code in codes(source)} & (theirs - ours).keys())


TAG = re.compile(rf"</?{NAME}{ATTRIBUTES}\s*+/?>")


def numbered(found: Sequence[Code]) -> list[Code]:
    """The codes with numbers given to those arguments that have none: `%s` becomes `%1$s`, `{}` becomes `{0}`."""
    made, counts = [], Counter()
    for code in found:
        match = None if code.markup else ARGUMENT.fullmatch(code.raw)
        if match is None:
            made.append(code)
        elif match["rest"] is not None:
            counts["%"] += 1
            made.append(Code(f"%{counts['%']}${match['rest']}"))
        else:
            made.append(Code(f"{{{counts['{']}{match['field']}}}"))
            counts["{"] += 1
    return made


def swapped(ours: Sequence[Code], theirs: Sequence[Code]) -> list[str]:
    """Arguments of printf without numbers that stand in another order. Not where a text holds a date's `%Y` as well."""
    if any(DATE.fullmatch(code.raw) for code in ours):
        return []
    one, two = arguments(ours), arguments(theirs)
    if one == two or Counter(one) != Counter(two):
        return []
    first, second = next((a, b) for a, b in zip(one, two, strict=True) if a != b)
    return [f"`{second}` stands where `{first}` belongs: number them (`%1$s`), or keep their order"]


def restated(ours: Sequence[Code], theirs: Sequence[Code]) -> list[str]:
    """Statements of templates (`{% else %}`) that stand in another order: what they enclose would be another text."""
    one, two = ([code.raw.strip() for code in some if is_statement(code)] for some in (ours, theirs))
    if one == two or Counter(one) != Counter(two):
        return []
    first, second = next((a, b) for a, b in zip(one, two, strict=True) if a != b)
    return [f"`{second}` stands where `{first}` belongs: keep their order"]


STATEMENT = re.compile(
    r"\s*\{%-?\s*(?:end\w*|if\w*|unless|el\w+|for|empty|case|when|block\w*|plural\w*|with|filter|autoescape|macro)\b"
)


def is_statement(code: Code) -> bool:
    """Does this steer what is said, and not only say something (`{% url 'x' %}`)?"""
    return code.side == "alone" and STATEMENT.match(code.raw) is not None


def keeps_order(code: Code) -> bool:
    """May this not change places with others: an argument of printf without a number, a statement of a template?"""
    return is_statement(code) or bool(arguments([code]))


def arguments(found: Sequence[Code]) -> list[str]:
    matches = [ARGUMENT.fullmatch(code.raw) for code in found if not code.markup]
    return [match[0] for match in matches if match and match["rest"]]


def misnested(ours: Sequence[Code], theirs: Sequence[Code], spelt: dict[tuple[str, Side], str]) -> list[str]:
    """Codes of the target that close before they open, or cross; where those of the source do that too, or where some
    have no other half, another order."""
    order, other = ([identity(code) for code in some if code.side != "alone"] for some in (ours, theirs))
    halves = Counter(key for key, side in order if side == "open")
    halves.subtract(key for key, side in order if side == "close")
    if next(crossings(ours), None) or any(halves.values()):
        changed = order != other and Counter(order) == Counter(other)
        return ["tags that do not pair up in the source stand in another order"] if changed else []
    told = []
    for key, other in crossings(theirs):
        closing = spelt[key, "close"]
        told.append(
            f"{spelt[other, 'open']} and {closing} cross" if other else f"{closing} before {spelt[key, 'open']}"
        )
    return list(dict.fromkeys(told))


def is_link(code: Code) -> bool:
    """Does this open a link, as `<a>` and Markdown's `[` do?"""
    return code.side == "open" and re.match(r"<a[\s>]|\[", code.raw, re.IGNORECASE) is not None


def linked(found: Iterable[Code]) -> Iterator[str]:
    """The key of each link that stands in another: HTML and Markdown know none such."""
    open_links: list[str] = []
    for code in found:
        if is_link(code):
            if open_links:
                yield code.key
            open_links.append(code.key)
        elif code.side == "close" and code.key in open_links:
            open_links.remove(code.key)


def empty(parts: Sequence[Part]) -> Iterator[str]:
    """The key of each pair, not crossing another, that has neither text nor a code that stands alone in it."""
    stack, filled = list[tuple[str, int]](), 0
    for part in parts:
        if isinstance(part, str) or part.side == "alone":
            filled += isinstance(part, Code) or bool(part.strip())
        elif part.side == "open":
            stack.append((part.key, filled))
        elif stack and stack[-1][0] == part.key and stack.pop()[1] == filled:
            yield part.key


def crossings(found: Sequence[Code]) -> Iterator[tuple[str, str]]:
    """The key of each code that closes too early, with the key of the one that is open inside it, or "" where none of
    its own is. Only of keys that both open and close as often."""
    opens, closes = (Counter(code.key for code in found if code.side == side) for side in ("open", "close"))
    stack: list[str] = []
    waiting: Counter[str] = Counter()  # closed already, but still in the stack
    opened: Counter[str] = Counter()
    for code in found:
        if code.side == "alone" or opens[code.key] != closes[code.key]:
            continue
        if code.side == "open":
            stack.append(code.key)
            opened[code.key] += 1
            continue
        while stack and waiting[stack[-1]]:
            waiting[stack.pop()] -= 1
        if not opened[code.key]:
            yield code.key, ""
            continue
        opened[code.key] -= 1
        if stack[-1] == code.key:
            stack.pop()
        else:
            yield code.key, stack[-1]
            waiting[code.key] += 1
