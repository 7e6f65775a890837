"""Cutting paragraphs and long lines into sentences and smaller pieces, and joining them again. No character is lost.

A cut text is a list of pieces, each with the whitespace behind it: `"".join(map("".join, pieces))` is the text. A piece
neither begins nor ends with whitespace. A sentence ends with a stop (. ! ? and those of other scripts) and its closing
quotes, where whitespace and no small letter follow; with a wide stop (。 ！ ？ dandas) wherever it stands. It goes on
behind an initial, a word of `ABBREVIATIONS`, an ordinal that is written with a stop, and within brackets (in Japanese
and Chinese within quotation marks too). In doubt nothing is cut: two sentences at once translate better than half of
one. The independent check is text with known sentences, in tests/test_segment.py.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise

import regex

Pieces = list[tuple[str, str]]

UNSPACED = {"ja", "zh", "yue", "wuu"}
"""Languages that put no space between sentences. (Thai has none between words, but has them here.)"""

UNSPACED_LETTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3031-\u3035\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""Ranges, for a pattern, of the scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, kana, Han."""

ABBREVIATIONS = {
    "de": """abb abs allg art bd bes best bspw bzgl bzw ca chr dez dipl dr ebd einschl engl evtl exkl fa feb ff fr frl
        franz geb gem gest ggf hbf hl hr hrn hrsg ing inkl insb jan jh jhd jr kap kgl lfd lt max min mind mio mrd mwst
        nov nr okt prof pt rd röm sen sept sog spez st std str tab tel tsd usf usw verf verh vgl vors wg ziff zt zz
        zzgl""",
    "el": "αρ βλ δηλ δρ εκ κα καθ κος σελ τηλ",
    "en": """adm apr assn aug ave blvd brig capt cf ch cmdr col cpl dec dept dr drs eq eqs esp est feb fig figs fr ft
        gen gov hon jan jr jul jun lt maj messrs mr mrs ms mt mts no nos nov oct op pp prof pt pvt ref refs rep rev sec
        sen sens sep sept sgt sr st supt viz vol vols vs""",
    "es": "av avda cap cf dr dra dres fig ing lic núm pág págs prof profa sr sra sres srta st sta ud uds vol",
    "fr": """al art av bd cap cf chap col cpt dr env éd ex fig gén hab ill mgr mlle mlles mm mme mmes ms no nos pp prof
        réf sgt st ste sv tél trad vol""",
    "hi": "प्रो श्री डा",
    "it": "art avv cap cfr dott dr fig ing mons on pag pagg prof rag sig sigg sigra st tav vol",
    "nl": "afb art bijv blz bv ca dhr dr drs fig hr incl ing ir jhr jl mevr mr mw nl nr prof resp st tel vgl vnl zgn",
    "pl": "al dr hab im in inż kard ks mgr np nr ob por prof red ref rozdz rys str św tab tel tj tzn tzw ul ur wyd zob",
    "pt": "art av cap cf dr dra drs eng fig núm pág págs prof profa sr sra srs sta sto vol",
    "ru": "акад вул гг гл гр др им инж кв км мн нем обл оз пер пл пос пр проф рис ред св см ср ст стр таб тел ул",
    "sv": "avd bl ca dr exkl fig inkl jfr kap kl nr prof resp sid st tel tex tfn",
}
"""Words that a sentence goes on behind, even before a capital or a number: in small letters, without their stop."""

ORDINALS = {"cs", "da", "de", "et", "fi", "hr", "hu", "is", "lt", "lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr"}
"""Languages that write "the third" as 3. with a stop."""

STOPS = ".!?…‼⁇⁈⁉؟۔։።፧"
WIDE = "。！？｡．।॥။។"
EXTRA_STOPS = {"el": ";\u037e"}
CODE = "\ufffc"
"""Stands for an inline code in a text that has some: it belongs to the sentence that it touches."""

CLOSING = "\"'”’“»›«)\\]}」』）】〉》］〕" + CODE
SPACED_CLOSING = {"fr": "|[ \u00a0\u2009\u202f]»"}
BRACKETS = ["()", "[]", "（）", "「」", "『』", "【】", "《》"]
QUOTES = ["“”", "‘’"]
LONGEST_BRACKET = 300
"""Characters. What stays open longer was never closed, and is no reason to keep a text whole."""

OPENING = regex.compile(rf"[\s\"'“”‘„‚«»‹›(\[{{¿¡–—*•{CODE}-]*+")
LAST_WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’]*$")
LONGEST_WORD = 40
INITIAL = regex.compile(r"(?=\p{L})\X")
ORDINAL = regex.compile(r"\d{1,3}|[IVXLC]+")
BLANK_LINE = regex.compile(r"\R[^\S\r\n]*+\R\s*+")
SPACE = regex.compile(r"\s*+")

PLACES = [
    regex.compile(rf"[{STOPS},;:،؛–—][{CLOSING}]*+(?=\s)|[{WIDE}、，；：—]++[{CLOSING}]*+"),
    regex.compile(r"(?<=\S)(?=[^\S\u00a0\u2007\u202f]++[^\s;:!?»])"),
    regex.compile(r"\X"),
]
"""Where to cut what is too long, best first: behind a clause, before a space (one that may break), between characters
as a reader sees them."""


def language_code(language: str | None) -> str:
    """The bare code of a language tag or of the name of a locale: `ja` of `ja-JP`, `JA_jp`, `ja_JP.UTF-8` and `ja@x`;
    nothing for None."""
    return regex.split("[-_.@]", language or "", maxsplit=1)[0].lower()


def sentences(text: str, language: str | None) -> Pieces:
    """The sentences of a text, each with the whitespace behind it.

    A blank line ends a sentence, another line break does not. language: a tag (`de`, `pt-BR`); None, or one that is in
    no table here: by the rules that all share. Whitespace before the first sentence stands behind a piece of nothing.
    """
    code, cuts, start = language_code(language), [], 0
    for blank in BLANK_LINE.finditer(text):
        cuts += [*boundaries(text, start, blank.start(), code), blank.end()]
        start = blank.end()
    return pieces(text, [*cuts, *boundaries(text, start, len(text), code)])


def pieces(text: str, cuts: Iterable[int]) -> Pieces:
    """The text cut at these places, in order, whitespace apart."""
    found: Pieces = [("", "")]
    start = 0
    for end in [*cuts, len(text)]:
        part = text[start:end]
        body, last = part.strip(), found[-1]
        if body:
            lead = len(part) - len(part.lstrip())
            found[-1] = (last[0], last[1] + part[:lead])
            found.append((body, part[lead + len(body) :]))
        else:
            found[-1] = (last[0], last[1] + part)
        start = end
    return found[1:] if found[0][1] == "" else found


@cache
def ends(code: str) -> regex.Pattern[str]:
    """Where a sentence may end: a bracket as a whole, or stops with what closes behind them."""
    pairs = [*BRACKETS, *(QUOTES if code in UNSPACED else [])]
    whole = "|".join(rf"\{left}[^\{left}\{right}]{{0,{LONGEST_BRACKET}}}\{right}" for left, right in pairs)
    stops, spaced = STOPS + EXTRA_STOPS.get(code, ""), SPACED_CLOSING.get(code, "")
    return regex.compile(
        rf"(?P<whole>{whole})|(?:(?P<wide>[{WIDE}][{WIDE}{stops}]*+)|(?P<stop>[{stops}]++))"
        rf"(?P<closed>(?:[{CLOSING}]{spaced})*+)"
    )


def boundaries(text: str, start: int, end: int, code: str) -> Iterator[int]:
    """The ends of the sentences between start and end."""
    for match in ends(code).finditer(text, start, end):
        at, whole, wide = match.end(), match["whole"], match["wide"]
        if whole and whole[-2] not in STOPS + WIDE:
            continue
        if wide and not match["closed"]:
            if wide == "．" and text[at : at + 1].isdigit():
                continue
        elif not begins(text, at, end) or (match["stop"] == "." and goes_on(text, start, match.start(), code)):
            continue
        yield at
        start = at


def begins(text: str, at: int, end: int) -> bool:
    """Whether whitespace and the beginning of a sentence follow."""
    if not text[at : at + 1].isspace():
        return False
    opening = OPENING.match(text, at, end)
    assert opening is not None
    first = text[opening.end() : opening.end() + 1]
    return not (first.islower() or first in STOPS + CLOSING + ",;:")


def goes_on(text: str, start: int, stop: int, code: str) -> bool:
    """Whether the sentence that began at `start` goes on behind the full stop at `stop`."""
    found = LAST_WORD.search(text, max(start, stop - LONGEST_WORD), stop)
    assert found is not None
    word = found[0]
    if INITIAL.fullmatch(word) or word.lower() in words(code):
        return True
    if word.isdigit() and found.start() - start < 8 and not text[start : found.start()].strip():
        return True  # "1. First" is one item of a list
    return code in ORDINALS and ORDINAL.fullmatch(word) is not None


@cache
def words(code: str) -> frozenset[str]:
    return frozenset(ABBREVIATIONS.get(code, "").split())


def fit(text: str, language: str | None, size: Callable[[str], int], most: int) -> Pieces:
    """The text as one piece if its size is `most` or less; if not, its sentences, those too long in smaller pieces.

    size: of a text, in tokens. A sentence that is too long is cut behind clauses, where there are none at spaces, and
    where there are none between characters, near the middle of what does not fit; never within a character as a reader
    sees it (letter and accents, emoji) unless that alone is too long. Only a single code point can be a piece of more
    than `most`. The time is linear in the text, and `size` is asked about parts of a few times `most` only.
    """
    assert most > 0, most
    if fits(text, size, most):
        return pieces(text, [])
    found: Pieces = []
    for sentence, space in sentences(text, language):
        parts = [(sentence, "")] if fits(sentence, size, most) else pieces(sentence, cuts(sentence, size, most))
        found += [*parts[:-1], (parts[-1][0], space)]
    return found


def fits(text: str, size: Callable[[str], int], most: int) -> bool:
    """Whether a text is of `most` or less, without asking for the size of a very long one: its beginning tells."""
    text, width = text.strip(), 4 * most
    while width < len(text):
        if size(text[:width]) > 2 * most:
            return False
        width *= 2
    return size(text) <= most


def cuts(text: str, size: Callable[[str], int], most: int) -> Iterator[int]:
    """Where to cut a sentence so that each part is of `most` or less."""
    start, width = 0, most
    while start < len(text):
        width = reach(text, start, size, most, width)
        end = place(text, start, start + width)
        while end - start > 1 and size(text[start:end]) > most:  # less text can be more tokens
            end = place(text, start, end - 1)
        space = SPACE.match(text, end)
        assert space is not None
        start = space.end()
        yield start


def reach(text: str, start: int, size: Callable[[str], int], most: int, width: int) -> int:
    """How many characters from `start` on fit, 1 at least: by few questions, so that it may be a third less than fit.

    width: the first guess.
    """
    low, high = 0, len(text) - start + 1  # so many fit; so many do not
    while True:
        width = min(max(width, low + 1), high - 1)
        found = size(text[start : start + width])
        if found <= most:
            low = width
        else:
            high = width
        if high - low <= 1 or 2 * most <= 3 * found <= 3 * most:
            return max(low, 1)
        width = min(4 * width, 5 * width * most // (6 * found)) if found else 4 * width


def place(text: str, start: int, end: int) -> int:
    """The best place to cut, after `start` and not after `end`: near the end, or near the middle of a short rest."""
    rest, width = len(text) - start, end - start
    if rest <= width:
        return len(text)
    goal = start + min(width, (rest + 1) // 2 if rest <= 2 * width else width)
    for pattern in PLACES:
        ending = (match.end() for match in pattern.finditer(text, start, min(len(text), end + 64)))
        found = [at for at in ending if (start + goal) // 2 <= at <= end and at > start]
        if found:
            return min(found, key=lambda at: abs(at - goal))
    return end


def join(parts: Pieces, source: str | None, target: str | None) -> str:
    """The text of translated pieces with the whitespace that stood behind their sources, as `joints` has it."""
    return "".join(piece + space for (piece, _), space in zip(parts, joints(parts, source, target), strict=True))


def joints(parts: Pieces, source: str | None, target: str | None) -> list[str]:
    """The whitespace behind each of these translated pieces.

    From a language that is written without spaces to one with, sentences that touched get one; the other way a single
    space goes, unless ASCII is on both sides. Everything else (line breaks, indents) stays.
    """
    before, after = (language_code(language) in UNSPACED for language in (source, target))
    found = []
    for (piece, space), (follows, _) in pairwise([*parts, ("", "")]):
        if before and not after and not space and piece and follows:
            space = " "
        elif after and not before and space == " " and follows and not (piece[-1:] + follows[:1]).isascii():
            space = ""
        found.append(space)
    return found
