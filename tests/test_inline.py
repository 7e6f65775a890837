"""Codes put back into a translation along an alignment."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.text.codes import Code, Parts, codes, joined, plain
from headway.text.inline import Aligned, lifted, put_back


def parts(text: str) -> Parts:
    """`<a>`, `</a>` and `<x/>` as codes, all else as text."""
    found: list[str | Code] = []
    for piece in re.split(r"(</?\w+/?>)", text):
        if not piece.startswith("<"):
            found.append(piece)
        elif piece.endswith("/>"):
            found.append(Code(piece))
        else:
            found.append(Code(piece, "close" if piece[1] == "/" else "open", key=piece.strip("</>")))
    return joined(found)


def words(text: str) -> list[tuple[int, int]]:
    """Every word with the space before it, as byte-level subwords have it."""
    return [found.span() for found in re.finditer(r"\s*\S+", text)]


def translated(source: str, target: str, origin: list[int]) -> tuple[str, list[str]]:
    text, root = lifted(parts(source))
    done, lost = put_back(root, Aligned(text, target, words(text), words(target), origin))
    return plain(done), [code.raw for code in lost]


@pytest.mark.parametrize(
    ("source", "target", "origin", "wanted"),
    [
        ("The <b>red</b> car", "Das rote Auto", [0, 1, 2], "Das <b>rote</b> Auto"),
        ("The <b>red car</b>", "Das rote Auto", [0, 1, 2], "Das <b>rote Auto</b>"),
        ("<b>The red car</b>", "Das rote Auto", [0, 1, 2], "<b>Das rote Auto</b>"),
        # The words change places, and the codes with them.
        ("the <b>red</b> <i>car</i>", "la voiture rouge", [0, 2, 1], "la <i>voiture</i> <b>rouge</b>"),
        ("Press <x/> now", "Jetzt drücken", [1, 0], "<x/> Jetzt drücken"),
        ("Press <x/> now", "Drücken Sie jetzt", [0, 0, 1], "Drücken Sie <x/> jetzt"),
        ("Press it <x/>", "Drücken Sie es", [0, 0, 1], "Drücken Sie es <x/>"),
        ("Line one<x/>line two", "Zeile eins Zeile zwei", [0, 1, 2, 3], "Zeile eins<x/>Zeile zwei"),
        ("<x/>Start", "Anfang", [0], "<x/>Anfang"),
        # One within the other, and a lone code within a pair.
        ("a <b>big <i>red</i> car</b>", "ein rotes großes Auto", [0, 2, 1, 3], "ein <b><i>rotes</i> großes Auto</b>"),
        ("see <a>the <x/> page</a>", "siehe die Seite", [0, 1, 2], "siehe <a>die <x/> Seite</a>"),
        # Two pairs whose words became the same word: the second one stands empty behind it, and is said to be lost.
        ("<b>a</b> <i>c</i> d", "ac d", [0, 2], "<b>ac</b><i></i> d"),
        # A part of a word stays a part of a word.
        ("un<b>able</b>", "unfähig", [0], "<b>unfähig</b>"),
        # Nothing closes what closes nothing.
        ("a</b> b", "x y", [0, 1], "x</b> y"),
        ("a <b>c <i>d</b> e", "x y z w", [0, 1, 2, 3], "x <b>y <i>z</b> w"),
    ],
)
def test_codes_go_where_their_words_went(source: str, target: str, origin: list[int], wanted: str) -> None:
    assert translated(source, target, origin)[0] == wanted


def test_what_finds_no_word_is_put_by_its_share_and_said() -> None:
    done, lost = translated("one <b>two</b> three four", "eins drei vier", [0, 2, 3])
    assert sorted(codes_in(done)) == ["</b>", "<b>"]
    assert lost == ["<b>"]


def test_a_pair_whose_word_another_pair_has_is_said() -> None:
    assert translated("<b>a</b> <i>c</i>", "x y", [0, 1]) == ("<b>x</b> <i>y</i>", [])
    assert translated("<b>a c</b> <i>d</i>", "x y z", [0, 2, 1]) == ("<b>x y z</b><i></i>", ["<i>"])


def codes_in(text: str) -> list[str]:
    return re.findall(r"</?\w+/?>", text)


def test_scripts_without_spaces_are_not_widened_to_whole_words() -> None:
    text, root = lifted(parts("the <b>red</b> car"))
    target = "赤い車"
    done, lost = put_back(root, Aligned(text, target, words(text), [(0, 1), (1, 2), (2, 3)], [1, 1, 2]))
    assert plain(done) == "<b>赤い</b>車"
    assert not lost


@st.composite
def nested(draw: st.DrawFn) -> str:
    """A text of words with codes at any place, most of them well nested."""
    text, opened = "", list[str]()
    for _ in range(draw(st.integers(0, 12))):
        what = draw(st.sampled_from(["word", "space", "open", "close", "alone", "stray"]))
        if what == "open":
            opened.append(draw(st.sampled_from("abc")))
            text += f"<{opened[-1]}>"
        elif what == "close" and opened:
            text += f"</{opened.pop()}>"
        else:
            text += {"word": "wort", "space": " ", "alone": "<x/>", "stray": "</b>"}.get(what, "")
    return text


@settings(max_examples=400, deadline=None)
@given(source=nested(), target=st.text("ab .", max_size=20), seed=st.randoms(use_true_random=False))
def test_every_code_is_there_once_and_pairs_stay_pairs(source: str, target: str, seed) -> None:
    text, root = lifted(parts(source))
    spans = words(text)
    origin = [seed.randrange(len(spans)) for _ in words(target)] if spans else []
    done, _ = put_back(root, Aligned(text, target, spans, words(target) if spans else [], origin))
    assert sorted(code.raw for code in codes(done)) == sorted(code.raw for code in codes(parts(source)))
    assert plain(done, "").replace(" ", "") == target.replace(" ", "")
    # What nested well in the source nests well in the target.
    assert depth_errors(done) <= depth_errors(parts(source))


def depth_errors(found: Parts) -> int:
    """Codes without a partner, by a stack."""
    opened, errors = list[str](), 0
    for code in codes(found):
        if code.side == "open":
            opened.append(code.key)
        elif code.side == "close":
            if code.key in opened:
                while opened.pop() != code.key:
                    errors += 1
            else:
                errors += 1
    return errors + len(opened)
