"""Cleaning: every rule leaves out what it says and nothing else, in several scripts, in a fixed order."""

import gzip
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import CleanConfig, ConfigError
from headway.data.clean import MOJIBAKE, RULES, SCRIPTS, Cleaner, Hashes, columns, model
from headway.data.pair import Pair
from headway.strict import validate
from headway.text.codes import Code


def pair(source: str, target: str, corpus: int = 0) -> Pair:
    return Pair((source,) if source else (), (target,) if target else (), corpus)


def config(**settings: object) -> CleanConfig:
    made, faults = validate(CleanConfig, settings)
    if made is None:
        raise ConfigError(faults)
    return made


def reasons(
    settings: dict[str, object], *pairs: tuple[str, str], languages: tuple[str, str] = ("en", "de")
) -> list[str | None]:
    cleaner = Cleaner(config(**settings), [languages])
    return [cleaner.reason(pair(*sides)) for sides in pairs]


def test_nothing_but_empty_sides_is_left_out_unless_asked() -> None:
    same = [("Ja", "Ja"), ("Ja", "Ja"), ("<b></b>", "x" * 10_000), ("Ã¤", "\x00"), ("日本", "Россия")]
    assert reasons({}, *same) == [None] * 5
    assert reasons({}, ("", "a"), ("a", ""), ("\u00a0 \t", "a"), ("", "")) == ["empty"] * 4


def test_the_config_takes_none_for_off_and_refuses_nonsense() -> None:
    assert config(max_ratio="none", max_chars="none", letters="none") == CleanConfig()
    with pytest.raises(ConfigError) as told:
        config(max_ratio=1.0, min_chars=0, letters=1.5, duplicates="both", identcal=True)
    for name in ("max_ratio", "min_chars", "letters", "duplicates", "identcal"):
        assert name in str(told.value)


def test_lengths_are_of_characters_after_composition() -> None:
    told = reasons(
        {"min_chars": 3, "max_chars": 5}, ("abc", "äöü"), ("ab", "abc"), ("abc", "abcdef"), (" a  b ", "abc")
    )
    assert told == [None, "min_chars", "max_chars", None]
    assert reasons({"max_chars": 2}, (unicodedata.normalize("NFD", "äö"), "ab")) == [None]


def test_a_ratio_is_of_columns_and_short_texts_have_none() -> None:
    assert [columns(text) for text in ("abc", "日本語", "ｶﾅ", "e\u0301", "한국", "नि", "สวัสดี", "")] == [
        3,
        6,
        2,
        1,
        4,
        2,
        4,
        0,
    ]
    ja = ("The weather in Tokyo is fine today.", "今日の東京は天気がいいです。")
    assert reasons({"max_ratio": 1.5}, ja, languages=("en", "ja")) == [None]
    assert reasons({"max_ratio": 2.0}, ("a" * 40, "b" * 20), ("a" * 41, "b" * 20), ("b" * 20, "a" * 41)) == [
        None,
        "max_ratio",
        "max_ratio",
    ]
    assert reasons({"max_ratio": 1.5}, ("Yes", "Selbstverständlich")) == [None]


def test_identical_sides_are_compared_as_a_reader_sees_them() -> None:
    told = reasons({"identical": True}, (" Windows  10", "Windows 10\n"), ("Ja", "ja"), ("é", "e\u0301"), ("a", "b"))
    assert told == ["identical", None, "identical", None]


def test_markup_alone_is_no_text() -> None:
    inline = Pair((Code("<g id='1'/>", markup=True), " … "), ("Text",))
    told = reasons(
        {"markup": True}, ("<br/>", "<br/>"), ("%s: {0}", "%s: {0}"), ("...", "?"), ("<b>x</b>", "<b>x</b>"), ("7", "7")
    )
    assert told == ["markup", "markup", "markup", None, None]
    assert Cleaner(config(markup=True)).reason(inline) == "markup"
    assert reasons({"markup": True}, ("https://example.org", "שלום"), ("東京", "Токио")) == ["markup", None]


SENTENCES = {
    "de": "Größe, Äpfel, Übung: „Ärger“ – «schön» … Spaß“, heiß– GROẞ ‚ja‘ 5 € ½ ©",
    "fr": "« L’été à Nîmes… où ? » Œuvre, ÇA, naïf, « CAFÉ», à… «où», déjà» ÊTRE–",
    "pt": "Não, a ação é “boa”; Às 3ª irmã… São João – AVÔ, MANHÃ",
    "ru": "Привет, «мир» — ёжик…",
    "ja": "「日本」の天気は…です。",
    "vi": "Tiếng Việt có dấu: ẫ, ư, Ơ “nhé”",
    "tr": "İstanbul’da güneş ışığı… ĞÜŞ",
    "pl": "Zażółć gęślą jaźń „tak”",
    "el": "Καλημέρα· «κόσμε»;",
    "ar": "مرحبا «بك»…",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_letters_decoded_wrongly_are_found_and_right_ones_never(language: str) -> None:
    text = SENTENCES[language]
    assert not MOJIBAKE.search(text)
    for encoding in ("latin-1", "cp1252"):
        wrong = text.encode().decode(encoding, errors="replace")
        assert MOJIBAKE.search(wrong)
    told = reasons({"mojibake": True}, (text, "x"), ("x", text.encode().decode("latin-1")))
    assert told == [None, "mojibake"]


@pytest.mark.parametrize("letter", "äöüßÄÖÜéèêàçñøåÅ£€“”’–…©")
def test_one_wrong_letter_suffices(letter: str) -> None:
    wrong = letter.encode().decode("cp1252", errors="replace")
    assert reasons({"mojibake": True}, (f"ab{wrong} cd", "x"), (f"ab{letter} cd", "x")) == ["mojibake", None]


RUNNING = [
    *("“AMANHÃ”", "‘IRMÃ’", "AMANHÃ…", "«IRMÃ»", "‹MANHÃ›", "MANHÃ–NOITE", "MANHÃ—"),
    *("IRMÃ\u00a0LUZ", "IRMÃ\u00adZINHA", "IRMÃ\u00a0LUZ E IRMÃ\u00a0FÉ", "HÂLÂ…"),
    *("ĐÃ…", "Â’R CYMRY", "A letra «Â» e a letra “Ã”.", "“AMANHÃ” E “IRMÃ”…"),
]
"""All in capitals: Portuguese, Vietnamese, Turkish and Welsh have words that end so."""


@pytest.mark.parametrize("text", RUNNING)
def test_a_capital_before_ordinary_punctuation_was_not_decoded_wrongly(text: str) -> None:
    assert reasons({"mojibake": True}, (text, text)) == [None]


@pytest.mark.parametrize(
    "text",
    ["Ändern", "Öffnen", "GRÖSSE UND ÄRGER", "die Größe", "il va à Paris", "voilà", "« A »", "10\u00a0000", "© 2024"],
)
def test_such_punctuation_is_found_where_no_such_word_could_end(text: str) -> None:
    wrong = text.encode().decode("cp1252", errors="replace")
    assert reasons({"mojibake": True}, (text, "x"), (wrong, "x")) == [None, "mojibake"]


def test_controls_are_no_text_but_tabs_and_line_breaks_are() -> None:
    told = reasons({"mojibake": True}, ("a\x00b", "x"), ("a\x85b", "x"), ("a\ufffdb", "x"), ("a\tb\nc\r\nd", "\u2028e"))
    assert told == ["mojibake"] * 3 + [None]


def test_letters_are_those_of_the_languages_scripts() -> None:
    assert reasons({"letters": 0.5}, ("Hello!", "Привет!"), languages=("en", "ru")) == [None]
    assert (
        reasons({"letters": 0.5}, ("Hello!", "Hello!"), ("1,234.50 $", "1.234,50 $"), languages=("en", "ru"))
        == ["letters"] * 2
    )
    assert reasons({"letters": 0.9}, ("スーパーで買う", "नि है"), ("ぜんぶ漢字", "हिन्दी"), languages=("ja", "hi")) == [
        None,
        None,
    ]
    assert reasons({"letters": 1.0}, ("e\u0301a", "x"), languages=("fr", "und")) == [None]
    assert reasons(
        {"letters": 0.5}, ("日本 <a href='http://long.example.org/'>", "%(name)s Ja"), languages=("ja", "de")
    ) == [None]
    assert Cleaner(config(letters=0.9)).reason(pair("мир", "日本")) is None


PEOPLE = {
    "ckb": "هەموو مرۆڤەکان بە ئازادی لەدایک دەبن",
    "sah": "Дьон барыта тэҥ буолан төрүүллэр",
    "os": "Адӕймӕгтӕ райгуырынц сӕрибарӕй",
    "ce": "Массо а адамаш маьрша ду",
    "bho": "सबहि लोकानि आजादे जम्मेला",
    "awa": "सब मनई स्वतंत्र पैदा होत हैं",
    "yo": "Gbogbo ènìyàn ni a bí ní òmìnira",
}


@pytest.mark.parametrize("language", PEOPLE)
def test_letters_of_languages_with_few_speakers_are_known_too(language: str) -> None:
    text = PEOPLE[language]
    assert reasons({"letters": 0.9}, ("Hello you", text), ("Hello you", "世界"), languages=("en", language)) == [
        None,
        "letters",
    ]


def test_any_letter_may_be_one_of_a_language_that_is_in_no_table() -> None:
    pairs = [*(("Hello", text) for text in PEOPLE.values()), ("Hello", "12,50")]
    assert reasons({"letters": 0.9}, *pairs, languages=("en", "qaa")) == [None] * len(PEOPLE) + ["letters"]


def test_every_language_that_can_be_identified_has_a_script() -> None:
    known = {language for languages in SCRIPTS.values() for language in languages.split()}
    assert set(model().labels) - known == {"zxx"}, "no linguistic content"


def test_another_language_is_found_where_a_text_is_long_enough() -> None:
    german, english = "Die Datei konnte nicht geöffnet werden.", "The file could not be opened by this user."
    told = reasons(
        {"language": True}, (english, german), (german, german), (english, english), ("Computer", "Computer")
    )
    assert told == [None, "language", "language", None]
    tags = reasons({"language": True}, (english, f"<em>{german}</em> %(name)s"), languages=("en-GB", "de_AT"))
    assert tags == [None]


def test_each_corpus_has_its_own_languages() -> None:
    cleaner = Cleaner(config(letters=0.5), [("en", "ru"), ("ru", "en")])
    assert [cleaner.reason(pair("Мир", "World", corpus)) for corpus in (0, 1)] == ["letters", None]


def test_what_is_missing_for_the_language_rule_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="source_language") as told:
        Cleaner(config(language=True, min_chars=9, max_chars=3), [("en", None), (None, "klingon")])
    for word in ("min_chars = 9", "corpus 1 names no target_language", "corpus 2 names no source_language", "klingon"):
        assert word in str(told.value)
    with pytest.raises(ValueError, match="corpus 1 names no"):
        Cleaner(config(language=True))
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(ValueError, match=r"pip install .headway\[data\]"):
        Cleaner(config(language=True), [("en", "de")])


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("pair", [None, None, None, "duplicates", "empty"]),
        ("source", [None, "duplicates", None, "duplicates", "empty"]),
        ("target", [None, None, "duplicates", "duplicates", "empty"]),
    ],
)
def test_duplicates_are_of_the_pair_or_one_side(by: str, expected: list[str | None]) -> None:
    pairs = [("Yes", "Ja"), ("Yes", "Doch"), ("Right", "Ja"), ("  Yes\n", "Ja "), ("Yes", "")]
    assert reasons({"duplicates": by}, *pairs) == expected


def test_what_another_rule_left_out_has_no_duplicates() -> None:
    assert reasons({"duplicates": "source", "max_chars": 3}, ("a", "long"), ("a", "b"), ("a", "c")) == [
        "max_chars",
        None,
        "duplicates",
    ]


def test_sides_are_not_mixed_up_where_they_meet() -> None:
    assert reasons({"duplicates": "pair"}, ("a b", "c"), ("a", "b c"), ("c", "a b")) == [None] * 3


def test_what_is_validated_or_tested_on_is_no_training_data() -> None:
    held = [pair("Good morning", "Guten Morgen"), pair("Bye", "")]
    pairs = [
        ("Good morning", "Guten Morgen "),
        ("Good  morning", "Morgen"),
        ("Bye", "Tschüss"),
        ("Morgen", "Good morning"),
    ]
    for overlap, expected in {
        "source": ["overlap", "overlap", "overlap", None],
        "pair": ["overlap", None, None, None],
        "none": [None] * 4,
    }.items():
        cleaner = Cleaner(config(overlap=overlap), held_out=held)
        assert [cleaner.reason(pair(*sides)) for sides in pairs] == expected


def test_rules_are_tried_in_the_order_of_the_table() -> None:
    everything = config(
        min_chars=2, max_chars=50, max_ratio=2.0, identical=True, markup=True, mojibake=True, letters=0.5,
        language=True, overlap="source", duplicates="pair",
    )  # fmt: skip
    cleaner = Cleaner(everything, [("en", "de")], [pair("Held out of it", "Weggelassen")])
    assert cleaner.rules == list(RULES)
    worst = pair("\x00" * 60, "\x00" * 60)
    assert list(cleaner.reasons(worst)) == ["max_chars", "identical", "markup", "mojibake", "letters"]
    assert cleaner.reason(worst) == "max_chars"
    german = "Dieser Satz ist ganz und gar auf Deutsch."
    told = [("", "\x00"), ("a", "a"), ("a" * 25, "ab"), ("Ja", "Ja"), ("?!", "!!"), ("Ã¤b", "äb"), ("12.5", "12,5"),
            (german, german + "!"), ("Held out of it", "Nein"), ("Yes", "Ja"), ("Yes", "Ja")]  # fmt: skip
    expected = ["empty", "min_chars", "max_ratio", "identical", "markup", "mojibake", "letters", "language", "overlap"]
    assert [cleaner.reason(pair(*sides)) for sides in told] == [*expected, None, "duplicates"]


texts = st.text(max_size=30) | st.sampled_from(["Ja", " Ja ", "J\u0301a", "", "日本", "<b>", "%s"])


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(texts, texts), max_size=30))
def test_each_distinct_pair_is_kept_once(pairs: list[tuple[str, str]]) -> None:
    kept = [sides for sides, reason in zip(pairs, reasons({"duplicates": "pair"}, *pairs), strict=True) if not reason]

    def seen(text: str) -> str:
        return " ".join(unicodedata.normalize("NFC", text).split())

    expected = {(seen(source), seen(target)) for source, target in pairs if seen(source) and seen(target)}
    assert Counter((seen(source), seen(target)) for source, target in kept) == Counter(expected)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(texts, texts), max_size=10), corpus=st.sampled_from([("en", "ja"), (None, None)]))
def test_any_text_can_be_judged_and_the_first_reason_is_the_reason(
    pairs: list[tuple[str, str]], corpus: tuple[str | None, str | None]
) -> None:
    settings = config(min_chars=1, max_chars=9, max_ratio=3.0, identical=True, markup=True, mojibake=True, letters=0.4)
    cleaner = Cleaner(settings, [corpus])
    for sides in pairs:
        assert cleaner.reason(pair(*sides)) == next(iter([*cleaner.reasons(pair(*sides))]), None)


def test_half_a_surrogate_pair_has_a_hash() -> None:
    assert reasons({"duplicates": "pair"}, ("\ud800", "a"), ("\ud800", "a")) == [None, "duplicates"]


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.binary(min_size=16, max_size=16), max_size=50))
def test_a_set_of_hashes_is_a_set(values: list[bytes]) -> None:
    hashes, known = Hashes(), {bytes(16)}
    for value in values:
        assert value == bytes(16) or hashes.add(value) == (value not in known)
        known.add(value)
    assert all(value in hashes for value in values)


def test_a_set_of_many_hashes_grows_and_forgets_none() -> None:
    values = [(number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big") for number in range(1, 20_001)]
    hashes = Hashes()
    assert all(hashes.add(value) for value in values)
    assert not any(hashes.add(value) for value in values)
    assert hashes.count == 20_000
    assert len(hashes.cells) == 16 * 32_768
    assert (0xABCDEF).to_bytes(16, "big") not in hashes


def lines(corpora: Path, name: str) -> list[str]:
    path = corpora / "multi30k" / name
    return (gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()).decode().split("\n")[:-1]


def test_real_captions_are_in_their_languages(corpora: Path) -> None:
    english, german = lines(corpora, "test_2016_flickr.en"), lines(corpora, "test_2016_flickr.de")
    french = lines(corpora, "test_2016_flickr.fr")
    cleaner = Cleaner(config(language=True, letters=0.7, mojibake=True, max_ratio=3.0), [("en", "de")])
    right = [cleaner.reason(pair(*sides)) for sides in zip(english, german, strict=True)]
    assert sum(reason is not None for reason in right) <= 3
    wrong = [cleaner.reason(pair(*sides)) for sides in zip(english, french, strict=True)]
    assert wrong.count("language") >= 950
    swapped = [cleaner.reason(pair(*sides)) for sides in zip(german, english, strict=True)]
    assert swapped.count("language") >= 990
