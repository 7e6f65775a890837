"""Which pairs a recipe leaves out of training, and why: the rules of [data.clean], each off unless it is asked for.

Texts are compared and counted after NFC, with each run of whitespace as one space and none at the ends. A ratio is of
columns, as a terminal shows them: a Chinese, Japanese or Korean character is two, a combining mark none, so that it
means the same in every script. The independent checks are pairs made by hand and real text, in tests/test_clean.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

import regex

from headway.config import CleanConfig
from headway.data.pair import Pair
from headway.strict import nearest
from headway.text.codes import Parts, find_parts, plain
from headway.text.segment import language_code

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

Languages = tuple[str | None, str | None]

JUDGED = 20
"""Columns. Shorter texts have no ratio and no language: `Yes` may be `Selbstverständlich`, and `Computer` is German."""

SURE = 0.9
"""Least probability that a text is of another language, for the rule `language`."""

ALIKE = [{"bs", "hr", "sr"}, {"no", "nb", "nn", "da"}, {"zh", "wuu", "yue"}, {"id", "ms"}, {"fa", "prs"}, {"tl", "fil"}]
"""Languages that an identifier takes for each other."""

SCRIPTS = {
    "Arabic": "ar arb ary arz azb bal ckb fa glk ks ku lrc mzn pbt pes pnb prs ps sd sdh skr ug ur uzs",
    "Armenian": "hy hyw",
    "Bengali": "as bn bpy",
    "Cyrillic": """ab ady alt av az ba be bg bs bxr ce crh cu cv inh kbd kk krc kum kv ky lez mdf mhr mk mn mrj myv
        nog os ru rue sah sh sr tg tk tt tyv udm uk uz xal""",
    "Devanagari": "anp awa bho doi gom hi hne kok ks mag mai mr mwr ne new pi raj sa sd",
    "Ethiopic": "am gez ti tig",
    "Georgian": "ka xmf",
    "Greek": "el grc",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han": "gan hsn ja ko lzh wuu yue zh",
    "Hangul": "ko",
    "Hebrew": "hbo he lad yi",
    "Hiragana": "ja",
    "Kannada": "kn tcy",
    "Katakana": "ja",
    "Khmer": "km",
    "Lao": "lo",
    "Latin": """aa ace af ak an ast ay az bar bcl bi bm br bs ca ceb ch co crh cs csb cy da de dsb ee en eo es et eu
        ext fi fil fj fo fon fr frr fur fuv fy ga gcf gcr gd gl gn gsw gug guw gv ha haw hil ho hr hsb ht hu hz ia id
        ie ig ik ilo io is it jv kab kg ki kik kj kk kl ku kw la lad lb lg li lij lmo ln lt ltg lu lus lv mg mh mi min
        mn ms mt na nap nb nd nds ng nl nn no nr nso nv ny oc om pag pam pap pcm pl pms pt qu rm rn ro rw sc scn sco
        se sg sh sk sl sm sn so sq sr ss st su sv sw szl tet tg tk tl tn to tpi tr ts tt tw ty uz ve vec vi vo wa war
        wo xh yo za zu""",
    "Malayalam": "ml",
    "Myanmar": "mnw my shn",
    "Oriya": "or",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thaana": "dv",
    "Thai": "th",
    "Tibetan": "bo dz",
}
"""Script to the languages that are written in it. Of a language that is not here, any letter may be one."""

LETTER = regex.compile(r"\p{L}")
WORD = regex.compile(r"[\p{L}\p{N}]")
WIDE = regex.compile(r"[\p{East_Asian_Width=Wide}\p{East_Asian_Width=Fullwidth}]")
MARK = regex.compile(r"[\p{Mn}\p{Me}\p{Cf}]")
SPACE = regex.compile(r"\s+")

BYTE = bytes(range(128, 192))
LATER = "".join(sorted(set(BYTE.decode("latin-1")) | set(BYTE.decode("cp1252", errors="ignore"))))
"""What the second and later bytes of a character in UTF-8 look like to a program that takes them for one each."""
USUAL = "\xa0\xad‘’‚‹›“”„«»–—…•†‡™"
"""Those of LATER that stand behind a capital letter in running text too, as in `“AMANHÃ”` and `IRMÃ…`."""
MOJIBAKE = regex.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]"  # control characters; what could not be decoded
    rf"|[ÂÃ](?![{USUAL}])[{LATER}]|â[\x80-\x9f€‚„†ˆ‰Š][{LATER}]|ï»¿"
    rf"|(?<=\p{{Ll}})[ÂÃ][{USUAL}]|(?<!\p{{L}})[ÂÃ](?:[\xa0«]|[{USUAL}](?=\p{{Ll}}))"  # `grÃ–ÃŸer`, `Ã„ndern`
    rf"|(?:[ÂÃ](?!\xa0)[{USUAL}]\p{{L}}.*){{2}}"  # `GRÃ–SSE Ã„NDERN`
    rf"|(?:[Â-ß][{LATER}]|[à-ï][{LATER}]{{2}}|[ð-ô][{LATER}]{{3}}){{2}}",  # one alone may be `Spaß“`
    regex.DOTALL,
)


class Cleaner:
    """Says of each pair which rule leaves it out.

    languages: source and target of each corpus, by `Pair.corpus`. held_out: pairs to validate and test on, for
    `overlap`; a side that is not known is empty. Raises ValueError with every fault: a language that is missing or
    unknown to the identifier, a package that is not installed, rules that contradict each other.

    `duplicates` and `overlap` keep 128-bit hashes: 5 million pairs take 134 MB, 201 MB for a moment while they grow.
    """

    def __init__(self, config: CleanConfig, languages: Sequence[Languages] = (), held_out: Iterable[Pair] = ()) -> None:
        self.config = config
        self.languages = [(language_code(source), language_code(target)) for source, target in languages]
        self.rules = [name for name in RULES if dict(config).get(name, "empty") not in (None, False, "none")]
        faults = contradictions(config)
        self.identifier = None
        if config.language:
            self.identifier, more = identifier(self.languages)
            faults += more
        if faults:
            raise ValueError("\n".join(faults))
        self.seen, self.held = Hashes(), (Hashes(), Hashes())
        for pair in held_out if config.overlap != "none" else ():
            for side, held in zip(("source", "target"), self.held, strict=True):
                held.add(digest(pair, side))

    def reason(self, pair: Pair) -> str | None:
        """The first rule that leaves the pair out, in the order of `RULES`, or None for a pair to keep.

        Asked once for each pair, in order: `duplicates` remembers the pairs that nothing else left out.
        """
        return next(self.reasons(pair), None)

    def reasons(self, pair: Pair) -> Iterator[str]:
        """Every rule that leaves the pair out, in the order of `RULES`."""
        known = self.languages[pair.corpus] if self.languages else ("", "")
        sides = Side(pair.source, known[0]), Side(pair.target, known[1])
        return (rule for rule in self.rules if RULES[rule].broken(self, pair, *sides))


class Side:
    """One text of a pair, in the forms that rules ask about."""

    def __init__(self, parts: Parts, language: str) -> None:
        self.parts, self.language = parts, language

    @cached_property
    def text(self) -> str:
        return normal(plain(self.parts))

    @cached_property
    def bare(self) -> str:
        """Without tags, placeholders, URLs and the like."""
        return normal(plain(find_parts(self.parts), " "))

    @property
    def share_of_letters(self) -> float:
        """Of the letters of the language's scripts among all that is no space. 1 where nothing is."""
        text = self.bare.replace(" ", "")
        return len(letters(self.language).findall(text)) / len(text) if text else 1.0

    def is_foreign(self, identifier: LanguageIdentifier) -> bool:
        if columns("".join(LETTER.findall(self.bare))) < JUDGED:
            return False
        found, probability = identifier.classify(self.bare)
        return probability >= SURE and found not in alike(self.language)


class Rule(NamedTuple):
    """told: as words behind "pairs that"; broken: whether a pair breaks it."""

    told: str
    broken: Callable[[Cleaner, Pair, Side, Side], bool]


def too_short(clean: Cleaner, pair: Pair, source: Side, target: Side) -> bool:
    """Fewer than min_chars characters on a side."""
    return min(len(source.text), len(target.text)) < (clean.config.min_chars or 0)


def too_long(clean: Cleaner, pair: Pair, source: Side, target: Side) -> bool:
    """More than max_chars characters on a side."""
    return max(len(source.text), len(target.text)) > (clean.config.max_chars or 0)


def ratio(clean: Cleaner, pair: Pair, source: Side, target: Side) -> bool:
    """One side has more than max_ratio times the columns of the other, and JUDGED or more."""
    short, long = sorted((columns(source.text), columns(target.text)))
    return long >= JUDGED and long > (clean.config.max_ratio or 0) * short


def few_letters(clean: Cleaner, pair: Pair, source: Side, target: Side) -> bool:
    """On a side, less than this share of what is no space and no code is a letter in a script of its language."""
    return min(source.share_of_letters, target.share_of_letters) < (clean.config.letters or 0)


def foreign(clean: Cleaner, pair: Pair, source: Side, target: Side) -> bool:
    """A side with letters of JUDGED columns or more is SURE to be of a language that is not like its own."""
    assert clean.identifier is not None
    return source.is_foreign(clean.identifier) or target.is_foreign(clean.identifier)


def overlaps(clean: Cleaner, pair: Pair, source: Side, target: Side) -> bool:
    """By the source; or by both sides, which need not stand in one pair there: files of one language may be named."""
    sides = ("source", "target") if clean.config.overlap == "pair" else ("source",)
    return all(digest(pair, side) in held for side, held in zip(sides, clean.held, strict=False))


RULES = {
    "empty": Rule("have an empty side", lambda clean, pair, *sides: not all(side.text for side in sides)),
    "min_chars": Rule("are too short on a side", too_short),
    "max_chars": Rule("are too long on a side", too_long),
    "max_ratio": Rule("are much longer on one side than on the other", ratio),
    "identical": Rule("are the same on both sides", lambda clean, pair, source, target: source.text == target.text),
    "markup": Rule(
        "have a side of codes, marks and spaces alone",
        lambda clean, pair, *sides: not all(WORD.search(side.bare) for side in sides),
    ),
    "mojibake": Rule(
        "hold control characters, or letters that were decoded wrongly",
        lambda clean, pair, *sides: any(MOJIBAKE.search(plain(side.parts)) for side in sides),
    ),
    "letters": Rule("have few letters of their languages", few_letters),
    "language": Rule("are in another language on a side", foreign),
    "overlap": Rule("are in the data to validate or test on", overlaps),
    "duplicates": Rule(
        "repeat an earlier pair", lambda clean, pair, *sides: not clean.seen.add(digest(pair, clean.config.duplicates))
    ),
}
"""All rules in the order in which they are tried; the first that is broken is the reason."""


def normal(text: str) -> str:
    return SPACE.sub(" ", normalize("NFC", text)).strip()


def columns(text: str) -> int:
    """The width of a text on a terminal."""
    return len(text) if text.isascii() else len(text) + len(WIDE.findall(text)) - len(MARK.findall(text))


@cache
def letters(language: str) -> regex.Pattern[str]:
    """A letter (or its mark) of one of the scripts of a language; any letter for a language that is not known."""
    scripts = [script for script, languages in SCRIPTS.items() if language in languages.split()]
    known = "".join(rf"\p{{Script_Extensions={script}}}" for script in scripts) or r"\p{L}\p{M}"
    return regex.compile(rf"[[{known}\p{{Mn}}]&&[\p{{L}}\p{{M}}]]", regex.V1)


def alike(language: str) -> set[str]:
    return next((group for group in ALIKE if language in group), {language})


def digest(pair: Pair, by: str) -> bytes:
    """128 bits of the source, the target or the pair."""
    sides = {"source": pair[:1], "target": pair[1:2], "pair": pair[:2]}[by]
    parts = [blake2b(normal(plain(side)).encode(errors="surrogatepass"), digest_size=16).digest() for side in sides]
    return parts[0] if len(parts) == 1 else blake2b(b"".join(parts), digest_size=16).digest()


class Hashes:
    """A set of 128-bit hashes in 16 bytes a cell, two thirds of them in use at most. (A set of `bytes` takes five times
    the memory.)"""

    def __init__(self) -> None:
        self.cells, self.count = bytearray(16 * 1024), 0

    def add(self, value: bytes) -> bool:
        """Whether the hash is new."""
        at = self._find(value)
        if self.cells[at : at + 16] == value:
            return False
        self.cells[at : at + 16] = value
        self.count += 1
        if 3 * self.count > 2 * len(self.cells) // 16:
            old, self.cells = self.cells, bytearray(2 * len(self.cells))
            for start in range(0, len(old), 16):
                value = bytes(old[start : start + 16])
                if value != EMPTY_CELL:
                    at = self._find(value)
                    self.cells[at : at + 16] = value
        return True

    def __contains__(self, value: bytes) -> bool:
        at = self._find(value)
        return self.cells[at : at + 16] == value

    def _find(self, value: bytes) -> int:
        """Where a hash stands, or the free cell where it would."""
        at = int.from_bytes(value[:8], "little") * 16 % len(self.cells)
        while self.cells[at : at + 16] not in (value, EMPTY_CELL):
            at = (at + 16) % len(self.cells)
        return at


EMPTY_CELL = bytes(16)


def contradictions(config: CleanConfig) -> list[str]:
    if config.min_chars and config.max_chars and config.min_chars > config.max_chars:
        wrong = f"more than data.clean.max_chars = {config.max_chars}: no pair is left; lower it"
        return [f"data.clean.min_chars = {config.min_chars}: {wrong}"]
    return []


def identifier(languages: Sequence[Languages]) -> tuple[LanguageIdentifier | None, list[str]]:
    """What tells languages apart, and what is wrong with those of the corpora."""
    try:
        import py3langid.langid  # noqa: F401
    except ImportError:
        return None, ['data.clean.language = true: needs the package py3langid; pip install "headway[data]"']
    made, faults = model(), []
    for number, sides in enumerate(languages or [("", "")], 1):
        for name, language in zip(("source_language", "target_language"), sides, strict=True):
            if not language:
                faults.append(f"data.clean.language = true: corpus {number} names no {name}; name it, or drop the rule")
            elif not alike(language) & set(made.labels):
                told = nearest(language, made.labels)
                faults.append(
                    f"data.clean.language = true: {name} {language!r} of corpus {number} is none known; {told}"
                )
    return made, faults


@cache
def model() -> LanguageIdentifier:
    """Loaded once, since it takes a second; asking it changes nothing in it."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
