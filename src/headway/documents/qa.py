"""Checks of a translation that need no reader: is anything lost, doubled, broken, or left untranslated?

`RULES` is the table. A rule sees one segment and says what is wrong; it stays silent where it cannot know, for a check
that cries wolf is not read. Its measure is what human translators write (tests/test_qa.py).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

import regex

from headway.text.codes import Code, Parts, differences, identity, marks, plain
from headway.text.segment import CODE, UNSPACED, language_code, sentences

Severity = Literal["error", "warning"]
Span = tuple[int, int]
Said = Iterator[tuple[str, Span | None]]


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong. rule: its name; span: the characters of `plain(target)` that it is about, where that
    can be said."""

    rule: str
    severity: Severity
    message: str
    span: Span | None = None


@dataclass(frozen=True)
class Texts:
    """What a rule sees. Languages are primary subtags (`de`), or "" where unknown; most: the greatest length allowed in
    characters; marker: of accelerators, None where unknown, "" where there are none."""

    source_parts: Parts
    target_parts: Parts
    source_language: str = ""
    target_language: str = ""
    most: int | None = None
    marker: str | None = None

    @cached_property
    def source(self) -> str:
        return blanked(self.source_parts)

    @cached_property
    def target(self) -> str:
        return blanked(self.target_parts)

    @property
    def sides(self) -> tuple[str, str]:
        return self.source, self.target


def blanked(parts: Parts) -> str:
    """The text, with CODE for every character of a code: no rule takes them for text, and places stay the same."""
    return "".join(part if isinstance(part, str) else CODE * len(part.raw) for part in parts)


class Rule(NamedTuple):
    severity: Severity
    what: str
    says: Callable[[Texts], Said]


def empty(texts: Texts) -> Said:
    if plain(texts.source_parts).strip() and not plain(texts.target_parts).strip():
        yield "there is no translation", None


def codes(texts: Texts) -> Said:
    for told in differences(texts.source_parts, texts.target_parts):
        yield told, None


def characters(texts: Texts) -> Said:
    for match in BROKEN.finditer(texts.target):
        if match[0] not in texts.source:
            yield f"{unicodedata.name(match[0], f'the control character U+{ord(match[0]):04X}').lower()}", match.span()


BROKEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffd\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff]")


def signs(texts: Texts) -> Said:
    """Notes, emoji and other pictures are on both sides, and words in a script of neither language stay; no side has a
    sign that models write for a character that they cannot (a no-break space, say), and people hardly ever.

    A sign may be spelt (`m2`, `TM`), and a middle dot is a letter's or a stop in some languages.
    """
    ours, theirs = (Counter(PICTURE.findall(text)) for text in texts.sides)
    for sign, count in (ours - theirs).items():
        if unicodedata.normalize("NFKC", sign) not in texts.target.replace(sign, ""):
            some = f" ({theirs[sign]} of {ours[sign]})" if count < ours[sign] else ""
            yield f"{sign!r} is not in the translation{some}", None
    there = texts.source + ("·" if texts.target_language in DOTTED else "")
    for match in ODD.finditer(texts.target):
        if match[0] not in there and unicodedata.normalize("NFKC", match[0]) not in there:
            yield f"{match[0]!r} is not in the source", match.span()
    yield from foreign(texts)


DOTTED = {"ca", "el", "ja", "ko", "oc", "zh"}
PICTURE = regex.compile(r"[[\p{So}\U0001f3fb-\U0001f3ff]--[←-⇿▶-▻\ufffc\ufffd]]", regex.VERSION1)
"""Signs of Unicode's kind "other", and the skins of emoji; not arrows, which people write for `>` and between menus."""
ODD = regex.compile(rf"[[¤¦¨¬¯²³´·¸¹]||{PICTURE.pattern}]", regex.VERSION1)


def foreign(texts: Texts) -> Said:
    """Words in a script that neither language is written in are the same on both sides. Latin letters are everybody's,
    and of a language that is not known nothing is said."""
    ours, theirs = (SCRIPTS.get(language) for language in (texts.source_language, texts.target_language))
    if ours and theirs:
        source, target = (unicodedata.normalize("NFC", text) for text in texts.sides)
        known = {"LATIN", *ours, *theirs}
        lost = [word for word in strange(source, ours, known) if word not in target]
        over = [word for word in strange(target, theirs, known) if word not in source]
        for word, side in [*((word, "translation") for word in lost), *((word, "source") for word in over)]:
            yield f"{word!r} is not in the {side}", None


def strange(text: str, own: Iterable[str], known: set[str]) -> list[str]:
    """The words in a script that is not known, among words in the text's own."""
    written = {word: {script(char) for char in word} for word in WORDS.findall(text)}
    if not any(scripts & {*own} for scripts in written.values()):
        return []
    return [word for word, scripts in written.items() if scripts <= WRITTEN - known]


def accelerators(texts: Texts) -> Said:
    """The source has one accelerator, and the translation has not. Where the marker is unknown, it is the first that a
    short source shows: before a word, or before a small letter in one (`E_xit`), so that `Q&A` and `~5` show none."""
    if texts.marker == "":
        return
    for marker in [texts.marker] if texts.marker else MARKERS:
        ours, theirs = keys(texts.source, marker), keys(texts.target, marker)
        shown = bool(texts.marker) or (len(ours) == 1 and shows(texts.source, ours[0]))
        if len(ours) == 1 != len(theirs) and shown:
            had = f"{len(theirs)} accelerators" if theirs else "no accelerator"
            yield f"{had}, the source has `{marker}{letter_of(ours[0])}`", theirs[1].span() if theirs else None
        elif shown or marker == "&":
            yield from halved(texts, marker)
        if shown:
            return


MARKERS = "&_~"


def halved(texts: Texts, marker: str) -> Said:
    """The source doubles its marker, which then stands for the character, and the translation has one more alone."""
    one, two = (list(re.finditer(f"{re.escape(marker)}{{1,2}}", text)) for text in texts.sides)
    alone = [[match.span() for match in found if len(match[0]) == 1] for found in (one, two)]
    if len(alone[0]) < len(one) and len(alone[1]) > len(alone[0]):
        yield f"`{marker}` stands alone, the source has `{2 * marker}`", alone[1][-1]


LONGEST = 60
"""Characters of a label; what is longer is prose."""


def keys(text: str, marker: str) -> list[re.Match[str]]:
    """The accelerators of a text."""
    return [match for match in marks(marker).finditer(text) if letter_of(match)]


def letter_of(key: re.Match[str]) -> str | None:
    return key["before"] or key["behind"]


def shows(text: str, key: re.Match[str]) -> bool:
    """Is this an accelerator beyond doubt, by its text alone?"""
    letter, within = letter_of(key) or "", text[: key.start()][-1:].isalnum()
    return len(text) <= LONGEST and letter.isalpha() and (bool(key["behind"]) or not within or letter.islower())


def length(texts: Texts) -> Said:
    size = len(plain(texts.target_parts))
    if texts.most is not None and size > texts.most:
        yield f"{size} characters, and {texts.most} are allowed", (texts.most, size)


def ratio(texts: Texts) -> Said:
    """A few words may well take three times their room in another language; a sentence does not."""
    one, two = width(texts.source), width(texts.target)
    if min(one, two) and max(one, two) > 2.5 * min(one, two) + 20:
        yield f"the translation is {'longer' if two > one else 'shorter'} than seems right ({two} to {one})", None


def missing(texts: Texts) -> Said:
    """Fewer sentences, and too little text for all of them: people join two now and then, which takes as much room."""
    both = texts.source_language, texts.target_language
    one, two = (width(text) / ROOM.get(language, 1) for text, language in zip(texts.sides, both, strict=True))
    if two < 0.85 * one and UNSTOPPED.isdisjoint(both):
        ours, theirs = (
            len(sentences(text, language if all(both) else None))  # the same rules for both, if not those of both
            for text, language in zip(texts.sides, both, strict=True)
        )
        if theirs < ours:
            yield f"{theirs} {'sentence' if theirs == 1 else 'sentences'}, the source has {ours}", None


ROOM = {"en": 0.85}
"""What a language takes of the room that others take, where that is much less."""

UNSTOPPED = {"th", "lo", "km", "my"}
"""Languages whose sentences may end without a sign."""


def width(text: str) -> int:
    """Characters, those of East Asia twice: they say as much as two letters or more. Codes and spaces do not count."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text if not char.isspace() and char != CODE
    )


def numbers(texts: Texts) -> Said:
    """Every number of one side is on the other: with other separators, in other digits, with or without zeros before.

    A single digit may be written as a word. Where the words of a language are not known, one is taken to be lost if
    other numbers were kept, or if it turned into another.
    """
    ours, theirs = list(DIGITS.finditer(texts.source)), list(DIGITS.finditer(texts.target))
    lack, over = left(ours, theirs), left(theirs, ours)
    if "".join(map(ascii_digits, lack)) == "".join(map(ascii_digits, over)):  # 10000 and 10,000
        return
    single = {digit for digit in map(ascii_digits, lack) if len(digit) == 1}
    words = {digit for digit in single if spelt(digit, texts, len(lack) < len(ours))}
    for run in lack:
        if over or ascii_digits(run) not in words:
            yield f"{run[0]} is not in the translation", None
    for run in over:
        if len(run[0]) > 1 or lack:
            yield f"{run[0]} is not in the source", run.span()


DIGITS = re.compile(r"\d+")


def spelt(digit: str, texts: Texts, kept: bool) -> bool:
    """May the translation have this digit as a word, or as a sign (²) or character (二) with its value? kept: it has
    other numbers of the source."""
    if any(not char.isdecimal() and unicodedata.numeric(char, None) == int(digit) for char in texts.target):
        return True
    if texts.target_language in NUMERALS:
        return bool(numeral(texts.target_language, digit).search(unicodedata.normalize("NFC", texts.target)))
    return not kept and texts.target_language != "ja"  # whose words are characters


@cache
def numeral(language: str, digit: str) -> regex.Pattern[str]:
    """A word that begins as those for a digit do."""
    return regex.compile(rf"\b(?:{NUMERALS[language].split()[int(digit)]})", regex.IGNORECASE)


NUMERALS = {
    "de": "null|kein ein|erst zwei|zwo|doppel dri|drei vier fünf sechs sieb acht neun",
    "en": "zero|no one|once|first|single two|twice|second three|third four five|fifth six seven eight nine|ninth",
    "es": "cero|ning un|primer dos|segund tres|tercer cuatro|cuart cinco|quint seis|sext siete|sépt ocho|octav "
    "nueve|nov",
    "fr": "zéro|aucun un|premi deux|second trois quatr cinq six sept huit neuf|neuv",
    "it": "zero|nessun un|prim due|second tre|terz quattro|quart cinque|quint sei|sest sette|settim otto|ottav "
    "nove|non[oa]",
    "nl": "nul|geen een|één|eerst twee drie|derde vier vijf zes zeven acht negen",
    "pl": "zer|żad jed|pierw dw|drug trz czter|czwart pię|piąt sześ|szóst sied|siódm osi|ośm|ósm dziew",
    "pt": "zero|nenhum um|primeir dois|duas|segund três|terceir quatro|quart cinco|quint seis|sext sete|sétim oito|"
    "oitav nove|non[oa]",
    "ru": "нол|нул одн|один|перв дв|втор|обе|оба тр четыр|четвер|четвёр пят шест сем|седьм восем|восьм девят",
    "sv": "noll|ing en|ett|först två|andra tre fyr|fjärd fem sex|sjätt sju åtta|åtton nio",
}
"""How words for 0 to 9 begin. In scripts whose characters have a number of their own, that is asked."""


def left(runs: Sequence[re.Match[str]], others: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """The runs of digits that have no equal among the others, each of which is used once."""
    there = Counter(ascii_digits(run).lstrip("0") for run in others)
    over = []
    for run in runs:
        value = ascii_digits(run).lstrip("0")
        there[value] -= 1
        if there[value] < 0:
            over.append(run)
    return over


def ascii_digits(run: re.Match[str]) -> str:
    return "".join(str(unicodedata.decimal(digit)) for digit in run[0])


def edges(texts: Texts) -> Said:
    for where, edge in (("beginning", LEADING), ("end", TRAILING)):
        ours, theirs = ("".join(edge.findall(text)) for text in (texts.source, texts.target))
        if ours != theirs:
            yield f"white space at the {where}: {theirs!r}, in the source {ours!r}", None


LEADING, TRAILING = re.compile(r"\A\s++"), re.compile(r"(?<!\s)\s++\Z")


def spaces(texts: Texts) -> Said:
    """Tags around a text take no room: the spaces on both sides of one stand together. Between two codes there is one
    where the source has it."""
    ours, theirs = see_through(texts.source_parts), see_through(texts.target_parts)
    if not DOUBLE.search(ours):
        for match in DOUBLE.finditer(theirs):
            yield "more than one space", match.span()
    touching = {(identity(one), identity(two)) for one, two in pairs_of(texts.source_parts)}
    apart = {(identity(one), identity(two)) for one, two in pairs_of(texts.source_parts, spaced=True)} - touching
    for one, two in pairs_of(texts.target_parts):
        if (identity(one), identity(two)) in apart:
            yield f"no space between `{one.raw}` and `{two.raw}`", None


TAG = "\ufffb"
DOUBLE = re.compile(rf"(?<=\S) (?:{TAG}*+ )+(?=\S)")


def see_through(parts: Parts) -> str:
    """`blanked`, with TAG in place of CODE for what opens or closes something; not around nothing, as icons stand."""
    made = []
    for before, part, behind in zip((None, *parts), parts, (*parts[1:], None), strict=False):
        if isinstance(part, str):
            made.append(part)
        else:
            mate = before if part.side == "close" else behind
            hollow = isinstance(mate, Code) and {part.side, mate.side} == {"open", "close"} and part.key == mate.key
            made.append((CODE if part.side == "alone" or hollow else TAG) * len(part.raw))
    return "".join(made)


def pairs_of(parts: Parts, spaced: bool = False) -> Iterator[tuple[Code, Code]]:
    """The codes that stand next to each other; or those with nothing but white space between them."""
    step = 2 if spaced else 1
    for one, between, two in zip(parts, parts[1:], parts[step:], strict=False):
        if isinstance(one, Code) and isinstance(two, Code) and (not spaced or not plain((between,)).strip()):
            yield one, two


def ending(texts: Texts) -> Said:
    ours, theirs = (
        end_of(text, language)
        for text, language in ((texts.source, texts.source_language), (texts.target, texts.target_language))
    )
    if ours != theirs and not any(
        {ours, theirs} <= same and texts.target_language in languages for same, languages in SAME_END
    ):
        yield f"ends in {theirs or 'no punctuation'!r}, the source in {ours or 'no punctuation'!r}", None


SAME_END = (({"", "."}, UNSTOPPED), ({":", "."}, {"ja", "zh", "ko"}))
ENDS = {
    **dict.fromkeys("。．｡।॥۔։።", "."),
    **dict.fromkeys("？؟՞", "?"),
    **dict.fromkeys("！՜", "!"),
    **dict.fromkeys("：", ":"),
    **dict.fromkeys("，、،", ","),
    **dict.fromkeys("；؛", ";"),
    **dict.fromkeys("⋯", "…"),
} | {mark: mark for mark in ".?!:,;…"}
CLOSERS = ")]}）］】」』»«”“\"'’›‹*_" + CODE


def end_of(text: str, language: str) -> str:
    text = text.rstrip().rstrip(CLOSERS).rstrip()
    if text.endswith("..."):
        return "…"
    return "?" if language == "el" and text.endswith((";", "\u037e")) else ENDS.get(text[-1:], "")


def brackets(texts: Texts) -> Said:
    if next(unbalanced(texts.source), None) is None:
        for at in unbalanced(texts.target):
            yield f"{texts.target[at]} has no partner", (at, at + 1)


PARTNER = dict(zip(")]}）］｝】〕〉》」』", "([{([{【〔〈《「『", strict=True))
OPENING = {**{opening: opening for opening in PARTNER.values()}, "（": "(", "［": "[", "｛": "{"}


def unbalanced(text: str) -> Iterator[int]:
    """Where a bracket stands that has no partner."""
    stack: list[int] = []
    for at, char in enumerate(text):
        if char in OPENING:
            stack.append(at)
        elif char in PARTNER:
            if stack and OPENING[text[stack[-1]]] == PARTNER[char]:
                stack.pop()
            else:
                yield at
    yield from stack


def quotes(texts: Texts) -> Said:
    for signs in ('"', "“”„‟«»「」『』"):
        odd = [sum(map(text.count, signs)) % 2 for text in (texts.source, texts.target)]
        if odd == [0, 1]:
            yield "a quotation mark has no partner", None


def untranslated(texts: Texts) -> Said:
    """The source again, where it is prose. Names may stay, so it takes two words with one in small letters, or four."""
    if texts.source.strip() != texts.target.strip() or texts.source_language == texts.target_language != "":
        return
    words = [word for word in WORDS.findall(texts.source) if word.islower() or word.istitle()]
    if len(words) > 3 or (len(words) > 1 and any(map(str.islower, words))):
        yield "the same text as the source", None


WORDS = re.compile(r"[^\W\d_]{2,}")


def repeats(texts: Texts) -> Said:
    """The same words next to each other, or a run of three of them anywhere, where the source does nothing like it."""
    allowed = MAY_REPEAT.get(texts.target_language, ())
    if REPEAT.search(texts.source) or LOOP.search(texts.source):
        return
    found = [match for match in REPEAT.finditer(texts.target) if match[1].lower() not in allowed]
    for match in found:
        yield f"{match[1]!r} twice", match.span()
    for match in LOOP.finditer(texts.target):
        yield f"{match[1]!r} again and again", match.span()
    few = (LETTER, 4) if texts.source_language in UNSPACED else (WORD, 2)
    many = (LETTER, 12) if texts.target_language in UNSPACED else (WORD, 3)
    if not found and next(again(texts.source, *few), None) is None:
        for start, end in again(texts.target, *many):
            yield f"{plain(texts.target_parts)[start : min(end, start + LONGEST)]!r} a second time", (start, end)


def again(text: str, unit: regex.Pattern[str], size: int) -> Iterator[Span]:
    """Where runs of so many units, or more, stand again."""
    units = list(unit.finditer(text))
    lower = [one[0].lower() for one in units]
    seen: set[tuple[str, ...]] = set()
    span: Span | None = None
    for at in range(len(units) - size + 1):
        run, end = tuple(lower[at : at + size]), units[at + size - 1].end()
        if run in seen:
            span = (span[0] if span else units[at].start(), end)
        elif span:
            yield span
            span = None
        seen.add(run)
    if span:
        yield span


WORD, LETTER = regex.compile(r"\p{L}[\p{L}\p{M}]*+"), regex.compile(r"\p{L}\p{M}*+")
REPEAT = regex.compile(
    r"(?<![\w\p{M}])(\p{L}[\p{L}\p{M}]*+(?: \p{L}[\p{L}\p{M}]*+){0,3}) \1(?![\w\p{M}])", regex.IGNORECASE
)
LOOP = re.compile(r"([^\W\d_]{2,12}?)\1{3,}")
MAY_REPEAT = {
    "de": {"der", "die", "das", "sie"},
    "en": {"that", "had", "is"},
    "fr": {"nous", "vous"},
}


def scripts(texts: Texts) -> Said:
    """Written in the script of its language, where it is prose; no word in letters of two scripts that look alike."""
    wanted = SCRIPTS.get(texts.target_language)
    words = WORDS.findall(texts.target)
    prose = [word for word in words if not word.isupper() and not word.istitle()]
    if wanted and len("".join(prose)) >= 12 and not any(script(char) in wanted for char in "".join(words)):
        yield f"no letter of the script of {texts.target_language!r} in it", None
    ours = set(WORDS.findall(texts.source))
    for match in WORDS.finditer(texts.target):
        if match[0] not in ours and len({script(char) for char in match[0]} & ALIKE) > 1:
            yield f"{match[0]!r} mixes letters of two scripts", match.span()


ALIKE = {"LATIN", "CYRILLIC", "GREEK"}
LANGUAGES = {
    "LATIN": "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms nb nl nn no pl pt ro sk sl sq sv sw tl "
    "tr vi",
    "CYRILLIC": "be bg ky mk mn ru tg tt uk",
    "ARABIC": "ar ckb fa ps sd ug ur",
    "HEBREW": "he yi",
    "DEVANAGARI": "hi mr ne sa",
    "GREEK": "el",
    "HIRAGANA KATAKANA CJK": "ja",
    "CJK": "zh",
    "HANGUL": "ko",
    "THAI": "th",
    "ARMENIAN": "hy",
    "GEORGIAN": "ka",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "TELUGU": "te",
}
"""Scripts, as the names of their characters begin, to the languages that are written in them and in no other."""

WRITTEN = {script for names in LANGUAGES for script in names.split()}
SCRIPTS = {language: names.split() for names, languages in LANGUAGES.items() for language in languages.split()}


def script(char: str) -> str:
    return unicodedata.name(char, "").split(" ", 1)[0]


def capital(texts: Texts) -> Said:
    ours, theirs = (FIRST.match(text) for text in (texts.source, texts.target))
    if ours and theirs and ours[1][0].isupper() and theirs[1].islower() and theirs[1] not in WORD.findall(texts.source):
        yield f"begins with {theirs[1][0]!r}, the source with a capital", theirs.span(1)


FIRST = regex.compile(rf"\s*+({WORD.pattern})")


def elsewhere(texts: Texts) -> Said:
    """Nothing: who asks for the check tells what this rule finds."""
    return iter(())


RULES = {
    "empty": Rule("error", "there is a translation", empty),
    "codes": Rule("error", "tags and placeholders are kept", codes),
    "characters": Rule("error", "no broken characters", characters),
    "signs": Rule("warning", "signs, and words of other scripts, as in the source", signs),
    "accelerator": Rule("warning", "one accelerator where the source has one, doubled markers doubled", accelerators),
    "length": Rule("error", "no longer than the file allows", length),
    "ratio": Rule("warning", "about as long as the source", ratio),
    "missing": Rule("warning", "as many sentences as the source, or more", missing),
    "numbers": Rule("warning", "numbers are kept", numbers),
    "edges": Rule("warning", "white space at both ends as in the source", edges),
    "spaces": Rule("warning", "no doubled spaces, and those between codes kept", spaces),
    "ending": Rule("warning", "the same punctuation at the end", ending),
    "brackets": Rule("warning", "brackets have partners", brackets),
    "quotes": Rule("warning", "quotation marks have partners", quotes),
    "untranslated": Rule("warning", "not the source again", untranslated),
    "repeats": Rule("warning", "no words a second time", repeats),
    "scripts": Rule("warning", "letters of the right script", scripts),
    "capital": Rule("warning", "a capital at the beginning as in the source", capital),
    "terms": Rule("warning", "words as the term list has them", elsewhere),
    "model": Rule("warning", "all that was asked of the search", elsewhere),
    "unwritable": Rule("error", "a translation that the file can hold", elsewhere),
}
"""Every rule, in the order in which they are shown."""


def check(
    source: Parts,
    target: Parts,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    most: int | None = None,
    marker: str | None = None,
    terms: Iterable[Finding] = (),
) -> list[Finding]:
    """What looks wrong with a translation, in the order of RULES; of an empty one, that it is empty.

    Languages (`de`, `pt-BR`) let some rules see more. most: greatest length in characters that the file allows. marker:
    what marks accelerators in the file (`&`); "" where nothing does, as on a page; None where it is not known, then
    each text is judged alone. terms: further findings, of the rule "terms" (`headway.documents.terms`).
    """
    texts = Texts(source, target, language_code(source_language), language_code(target_language), most, marker)
    if none := [Finding("empty", "error", *said) for said in empty(texts)]:
        return none
    found = [Finding(name, rule.severity, *said) for name, rule in RULES.items() for said in rule.says(texts)]
    return [*found, *terms]
