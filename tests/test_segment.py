"""Cutting text and joining it: nothing is lost, sentences are those that people see, and no piece is too long."""

import gzip
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.text.segment import fit, join, language_code, sentences

# A bar parts the sentences of a text: it takes the place of a space, or of nothing in Japanese and Chinese.
CASES = {
    "en": [
        "Dr. Smith went home.|He slept.",
        "It costs 3.14 dollars.|Cheap!",
        'He said "Stop!"|Then he left.',
        'He said, "Stop."|She stopped.',
        '"Stop!" he said.|He left.',
        "“Go.”|He went.",
        "What?!|No way...|Really.",
        "Wait ... what?|Yes…|No.",
        "See e.g. Fig. 3 and p. 12.|Then go.",
        "The U.S. Army came.|They won.",
        "J. R. R. Tolkien wrote it.|I read it.",
        "I left at 5 p.m. on Monday.|Then home.",
        "(He left.)|She stayed.",
        "He left (it was late. Very late.) and slept.|She stayed.",
        "Open file.txt at https://example.org/a.b?c=d now.|Done.",
        "No. 5 is alive.|Yes.",
        "1. First things first.|2. Then the rest.",
        "I can't.|You can.",
        "It ended in 1999.|2000 was better.",
        "One.|- Two.|(Three.)|“Four.”|¿Five?",
        "Press \ufffcOK.\ufffc|Then wait.",
    ],
    "de": [
        "Das ist z. B. ein Test.|Noch einer.",
        "Das ist z.B. Unsinn.|Noch einer.",
        "Am 3. Mai kam er.|Dann ging er.",
        "Das 19. Jahrhundert war lang, Ludwig XIV. auch.|Ja.",
        "Dr. Müller kam.|Er ging.",
        "Er sagte: „Halt!“|Dann ging er.",
        "„Halt!“, sagte er.|„Halt!“ rief sie.",
        "Er rief »Halt!«|Dann ging er.",
        "Siehe Abb. 3 bzw. Kap. 4 dort.|Gut.",
        "Das war 1999.|Dann kam 2000.",
        "Es kostet ca. 3,14 Euro inkl. Versand.|Gut.",
    ],
    "fr": [
        "M. Dupont est là.|Il mange.",
        "« Arrêtez ! »|Il partit.",
        "«\u00a0Arrêtez\u202f!\u00a0»|Il partit.",
        "Qu'est-ce que c'est ?|Rien !|Mme Curie.",
    ],
    "ja": [
        "今日は晴れです。|明日は雨です。",
        "「止まれ！」と彼は言った。|彼は去った。",
        "彼は「はい。そうです。」と言った。|そうだ。",
        "本当？！|うそ！|2017年です。|2018年です。",
        "価格は3.14ドルです。|安い。",
        "円周率は３．１４です．|次の文．",
    ],
    "zh": ["今天很好。|明天下雨。", "他说：“走吧！我们走。”然后离开了。|真的？|是的！"],
    "ru": ["Г. Петров пришёл.|Он ушёл.", "Это т. е. тест.|Ул. Мира.", "«Стой!» — сказал он.|— Нет!|Он ушёл."],
    "ar": ["مرحبا بك.|كيف حالك؟|أنا بخير!", "ذهب د. أحمد.|ثم عاد."],
    "hi": ["यह एक वाक्य है।|यह दूसरा है॥|तीसरा?|चौथा।", "डॉ. शर्मा आए।|वे गए।"],
    "el": ["Τι κάνεις;|Καλά είμαι.|Εσύ;", "Ο κ. Παπαδόπουλος ήρθε.|Έφυγε."],
    "es": ["¿Qué tal?|¡Bien!|El Sr. Gómez llegó.|Adiós."],
    "hy": ["Բարև։|Ինչպե՞ս ես։"],
    "am": ["ሰላም።|እንዴት ነህ፧|ደህና።"],
}


@pytest.mark.parametrize(("language", "case"), [(language, case) for language in CASES for case in CASES[language]])
def test_sentences_are_those_that_people_see(language: str, case: str) -> None:
    expected = case.split("|")
    text = ("" if language in {"ja", "zh"} else " ").join(expected)
    assert [piece for piece, _ in sentences(text, language)] == expected
    assert [piece for piece, _ in sentences(text, f"{language.upper()}_XX")] == expected
    assert [piece for piece, _ in sentences(f"\n {text}\n\n{text}", language)] == ["", *expected, *expected]


def test_a_language_without_a_table_is_cut_by_the_common_rules() -> None:
    assert sentences("Un. Do! A. Tri.", None) == sentences("Un. Do! A. Tri.", "xx")
    assert [piece for piece, _ in sentences("Un. Do! A. Tri.", "xx")] == ["Un.", "Do!", "A. Tri."]


def test_blank_lines_end_sentences_and_line_breaks_do_not() -> None:
    text = "A title\r\n\r\nA line that\r\ngoes on\n \n\nEnd"
    assert sentences(text, "en") == [("A title", "\r\n\r\n"), ("A line that\r\ngoes on", "\n \n\n"), ("End", "")]


def test_a_bracket_that_never_closes_is_no_reason_to_keep_a_text_whole() -> None:
    assert len(sentences("A (b. " + "C is here. " * 100, "en")) > 90
    assert len(sentences("彼は「はい。" * 100, "ja")) == 100


def test_a_text_of_nothing_has_no_sentence() -> None:
    assert sentences("", "en") == []
    assert sentences(" \n\n ", "en") == [("", " \n\n ")]


PARTS = """A b Dr Nr 3 19 XIV . ! ? … 。 ！ । ; ؟ 、 「 」 ( ) " “ ” « » - \ufffc \u0301 日本 か 👨‍👩‍👧 🇩🇪 é \x00 , :"""
BLANKS = [" ", " ", " ", "  ", "\n", "\n\n", "\r\n\r\n", "\u00a0", "\u2028", "\x85"]
pieces_of_text = st.lists(st.sampled_from([*PARTS.split(" "), *BLANKS]) | st.text(max_size=4)).map("".join)


@settings(max_examples=60, deadline=None)
@given(text=pieces_of_text, language=st.sampled_from([None, "en", "de", "fr", "ja", "el", "zh-Hant"]))
@example(text="1. 2. 3. ", language="de")
def test_the_pieces_and_their_whitespace_are_the_text(text: str, language: str | None) -> None:
    found = sentences(text, language)
    assert "".join(map("".join, found)) == text
    assert all(piece == piece.strip() and not space.strip() for piece, space in found)
    assert all(piece for piece, _ in found[1:])
    assert join(found, language, language) == text


def num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def num_fours(text: str) -> int:
    """A vocabulary of words and of pieces of four letters: a beginning can have more tokens than the whole."""
    return sum(1 if len(word) == 9 else -(-len(word) // 4) for word in text.split(" "))


@settings(max_examples=60, deadline=None)
@given(
    text=pieces_of_text.map(lambda text: 3 * text) | st.text(alphabet="a\u0301\u200d👩é日 ", max_size=60),
    most=st.integers(1, 30),
    size=st.sampled_from([len, num_bytes, num_fours]),
    language=st.sampled_from(["de", "ja", None]),
)
def test_pieces_that_fit_lose_nothing(text: str, most: int, size: Callable[[str], int], language: str | None) -> None:
    found = fit(text, language, size, most)
    assert "".join(map("".join, found)) == text
    assert all(size(piece) <= most or len(piece) == 1 for piece, _ in found)
    assert all(piece == piece.strip() and not space.strip() for piece, space in found)
    if size(text.strip()) <= most:
        assert [piece for piece, _ in found if piece] == [text.strip()][: len(text.strip())]


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="ab\u0301\u0308\ufe0f👍🏽日本\u3099か ,", max_size=80))
def test_no_cut_parts_a_letter_from_its_marks(text: str) -> None:
    longest = 0  # of a letter with its marks, counted here by category alone; a mark on a space has no letter
    for letter in text:
        longest = longest + 1 if unicodedata.category(letter) in {"Mn", "Sk"} else int(letter != " ")
        if longest > 20:
            return
    at = 0
    for piece, space in fit(text, "ja", len, 20):
        cut_off = piece and unicodedata.category(piece[0]) in {"Mn", "Sk"}
        assert not cut_off or at == 0 or text[at - 1] == " "
        at += len(piece) + len(space)


def test_families_flags_and_syllables_stay_whole() -> None:
    for letter in ("👨‍👩‍👧‍👦", "🇩🇪", "e\u0301", "\u0928\u093f", "\u1100\u1161\u11a8"):
        found = fit(letter * 100, None, len, 15)
        assert len(found) > 10
        assert all(piece.replace(letter, "") == "" for piece, _ in found)


def test_sentences_stay_whole_where_they_fit_and_others_are_cut_at_the_best_place() -> None:
    text = "Kurz. Ein langer Satz, der nicht hineinpasst, weil er zu viele Wörter hat. Ende."
    assert [piece for piece, _ in fit(text, "de", len, 50)] == [
        "Kurz.",
        "Ein langer Satz, der nicht hineinpasst,",
        "weil er zu viele Wörter hat.",
        "Ende.",
    ]
    assert fit(text, "de", len, len(text)) == [(text, "")]
    assert [piece for piece, _ in fit("aaaa bbbb cccc dddd", None, len, 12)] == ["aaaa bbbb", "cccc dddd"]
    assert [piece for piece, _ in fit("夏は暑い、冬は寒いが春は", "ja", len, 10)] == ["夏は暑い、", "冬は寒いが春は"]
    assert [len(piece) for piece, _ in fit("x" * 30, None, len, 20)] == [15, 15]


def test_no_break_spaces_hold_unless_there_is_no_other_place() -> None:
    assert [piece for piece, _ in fit("und seite\u00a07 dort", "de", len, 12)] == ["und seite\u00a07", "dort"]


LONG = {
    "letters": "a" * 100_000,
    "words": "a b. " * 20_000,
    "japanese": "日本" * 50_000,
    "marks": "\u0301" * 100_000,
    "brackets": "((" * 50_000,
    "numbers": "1. " * 30_000,
    "spaces": " " * 100_000,
    "a gap": "a" + " " * 100_000 + "b",
    "lines": "\n \n" * 30_000,
    "quotes": "「a" * 50_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_the_sizes_asked_for_grow_with_the_text_and_each_is_of_a_short_part(text: str) -> None:
    asked: list[int] = []

    def size(part: str) -> int:
        asked.append(len(part))
        return len(part)

    found = fit(text, "de", size, 250)
    assert "".join(map("".join, found)) == text
    assert max(asked, default=0) <= 2500
    assert sum(asked) <= 5 * len(text)


def test_translations_are_joined_as_the_target_language_is_written() -> None:
    japanese = sentences("晴れです。雨です。\n\n次。", "ja")
    english = [(text, space) for text, (_, space) in zip(["Sun.", "Rain.", "Next."], japanese, strict=True)]
    assert join(english, "ja", "en") == "Sun. Rain.\n\nNext."
    assert join([("Sun.", " "), ("Rain.", "  "), ("Next.", " ")], "en", "de") == "Sun. Rain.  Next. "
    assert join([("晴れです。", " "), ("雨です。", "\n"), ("次。", " ")], "en", "ja-JP") == "晴れです。雨です。\n次。 "
    assert join([("Windows", " "), ("Linux", "")], "en", "ja") == "Windows Linux"
    assert join([("", "  "), ("a.", "")], "ja", "en") == "  a."


def test_language_codes_are_bare() -> None:
    assert [language_code(tag) for tag in ("ja-JP", "JA_jp", "de@euro", "de_DE.UTF-8", None, "")] == [
        "ja",
        "ja",
        "de",
        "de",
        "",
        "",
    ]


def gold(path: Path, joint: str) -> list[tuple[str, set[int]]]:
    """Three lines at a time as one text, and where a line begins in it."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        lines = [line.strip() for line in file.read().decode().split("\n") if line.strip()]
    groups = [lines[start : start + 3] for start in range(0, len(lines) - 2, 3)]
    return [
        (joint.join(group), {len(joint.join([*group[:count], ""])) for count in range(1, len(group))})
        for group in groups
    ]


@pytest.mark.parametrize(
    ("name", "language", "recall", "precision"),
    [
        ("flores/flores200.devtest.eng_Latn", "en", 0.985, 0.83),
        ("flores/flores200.devtest.deu_Latn", "de", 0.98, 0.78),
        ("flores/flores200.devtest.fra_Latn", "fr", 0.99, 0.81),
        ("flores/flores200.devtest.jpn_Jpan", "ja", 0.99, 0.81),
        ("wmt_newstest/eng-deu/newstest2013.deu.gz", "de", 0.94, 0.96),
        ("wmt_newstest/eng-deu/newstest2013.eng.gz", "en", 0.95, 0.98),
        ("wmt_newstest/eng-fra/newstest2013.fra.gz", "fr", 0.95, 0.98),
    ],
)
def test_the_lines_of_real_text_are_found_again(
    corpora: Path, name: str, language: str, recall: float, precision: float
) -> None:
    """Lines of several sentences and headings without a stop keep both shares below 1."""
    hits = cuts = lines = 0
    for text, begins in gold(corpora / name, "" if language == "ja" else " "):
        found, at = set(), 0
        for piece, space in sentences(text, language):
            at += len(piece) + len(space)
            found.add(at)
        found.discard(len(text))
        hits, cuts, lines = hits + len(found & begins), cuts + len(found), lines + len(begins)
    assert hits / lines >= recall
    assert hits / cuts >= precision
