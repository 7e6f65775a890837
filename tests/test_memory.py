"""Translation memory: what is in it is found, exactly and in a fixed order; the filter loses nothing against a search
of all units by dynamic programming."""

import random
import re
import unicodedata
from pathlib import Path

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.memory import Match, Memory, Unit
from headway.data.pair import Pair
from headway.text.codes import Code, Parts, find, plain


def memory(*pairs: tuple[str, str]) -> Memory:
    return Memory(Unit((source,), (target,), "", f"line {number}") for number, (source, target) in enumerate(pairs, 1))


def found(made: Memory, text: str, **options: int) -> list[tuple[int, str]]:
    return [(match.score, plain(match.target)) for match in made.lookup(find(text), **options)]


# ---- the twin: every unit, compared by the textbook's table ----


def words_of(text: str) -> list[str]:
    """Words as the module's docstring defines them, for the letters used here: one by one, without a pattern."""
    made, last = [], ""
    for char in unicodedata.normalize("NFC", text).casefold():
        kind = "letter" if char.isalpha() and not "\u3040" <= char <= "\u9fff" else "digit" if char.isdecimal() else ""
        if kind and kind == last:
            made[-1] += char
        elif not char.isspace():
            made.append(char)
        last = kind
    return made


def distance(one: list[str], two: list[str]) -> int:
    row = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        row, above = [i], row
        for j, b in enumerate(two, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def similarity(one: str, two: str) -> int:
    a, b = words_of(one), words_of(two)
    return 100 * (max(len(a), len(b)) - distance(a, b)) // max(len(a), len(b), 1)


def brute(sources: list[str], text: str, least: int) -> dict[str, int]:
    """Every source that is like the text, with its score; where it differs in numbers only, whatever it has to be."""
    scores = {}
    for source in set(sources):
        if source == text:
            scores[source] = 100
        elif (score := similarity(source, text)) >= least:
            scores[source] = min(score, 97)
    return scores


vocabulary = st.sampled_from(["a", "b", "B", "the", "é", "e\u0301", "日本", ".", ",", "x-y", "ſ", "  ", "cat"])
sentence = st.lists(vocabulary, max_size=9).map(" ".join)


@settings(max_examples=300)
@given(st.lists(sentence, max_size=12), sentence, st.integers(1, 100))
def test_the_filter_loses_nothing_against_all_units(sources: list[str], text: str, least: int) -> None:
    made = Memory(Unit(find(source), ("t",)) for source in sources)
    wanted = brute(sources, text, least)
    assert {plain(match.source): match.score for match in made.lookup(find(text), min_score=least)} == wanted


def test_the_filter_loses_nothing_in_a_larger_memory() -> None:
    dice = random.Random(3)
    lexicon = [f"w{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(60)]
    weights = [1 / (rank + 1) for rank in range(60)]
    sources = [" ".join(dice.choices(lexicon, weights, k=dice.randrange(1, 14))) for _ in range(800)]
    made = memory(*((source, source.upper()) for source in sources))
    for number in range(40):
        words = dice.choice(sources).split()
        words[dice.randrange(len(words))] = dice.choice([*lexicon, "unknown"])
        text, least = " ".join(words), (75, 50, 90)[number % 3]
        got = {plain(match.source): match.score for match in made.lookup((text,), min_score=least)}
        assert got == brute(sources, text, least)


@given(st.lists(st.tuples(sentence, st.sampled_from("xyz")), min_size=1, max_size=8), st.data())
def test_what_is_in_the_memory_is_found_first(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    made = memory(*pairs)
    source, target = data.draw(st.sampled_from(pairs))
    matches = made.lookup(find(source))
    best = [match for match in matches if match.exact]
    assert matches[: len(best)] == best
    assert {plain(match.target) for match in best} == {t for s, t in pairs if s == source}
    assert target in {plain(match.target) for match in best}
    assert all(match.score == 100 and plain(match.source) == source for match in best)
    assert made.lookup(find(source)) == matches


def test_a_long_text_of_one_word_is_searched_in_little_memory() -> None:
    made = memory(("a " * 50_000, "t"), ("x\0y \ufffc z", "u"))
    assert found(made, "a " * 49_999 + "b") == [(97, "t")]
    assert found(made, "x\0y %s z") == [(97, "u")]  # that character is no code, so nothing is put in


# ---- exact ----


def test_the_same_context_goes_first_whatever_is_more_frequent() -> None:
    made = Memory(
        [
            Unit(("Open",), ("Öffnen",), "menu", "a"),
            Unit(("Open",), ("Offen",), "state", "b"),
            *(Unit(("Open",), ("Auf",), "door", f"c{number}") for number in range(3)),
        ]
    )
    wanted = [(101, "Offen"), (100, "Auf"), (100, "Öffnen")]
    assert [(match.score, plain(match.target)) for match in made.lookup(("Open",), "state")] == wanted
    assert [plain(match.target) for match in made.lookup(("Open",))] == ["Auf", "Offen", "Öffnen"]
    assert [match.score for match in made.lookup(("Open",), "other")] == [100, 100, 100]
    assert made.lookup(("Open",))[0].place == "c2"
    assert len(made) == 3


def test_the_more_frequent_translation_goes_first_then_the_newer() -> None:
    made = memory(("a b", "1"), ("a b", "2"), ("a b", "1"), ("a b", "3"))
    assert found(made, "a b") == [(100, "1"), (100, "3"), (100, "2")]


def test_it_does_not_matter_how_codes_were_looked_for() -> None:
    made = Memory([Unit(("50% of %s",), ("50 % von %s",))])
    assert made.lookup(("50", Code("% o"), "f ", Code("%s")))[0].exact
    assert made.lookup(("50% of %s",))[0].exact


def test_markup_is_no_text() -> None:
    made = Memory([Unit((Code("<b>", "open", markup=True), "x"), ("y",))])
    assert not any(match.exact for match in made.lookup(("<b>x",)))


# ---- adapted ----


def best(made: Memory, parts: Parts) -> Match:
    return made.lookup(parts)[0]


def test_other_codes_are_put_in_where_they_correspond() -> None:
    made = memory(("Delete <b>%s</b>?", "<b>%s</b> löschen?"))
    opening, closing = Code('<g id="1">', "open", markup=True, key="1"), Code("</g>", "close", markup=True, key="1")
    match = best(made, ("Delete ", opening, Code("{0}"), closing, "?"))
    assert (match.score, match.adapted, match.exact) == (99, True, False)
    assert match.target == (opening, Code("{0}"), closing, " löschen?")


def test_a_code_of_the_memory_s_own_file_is_never_put_in() -> None:
    """A tag that the translation spells otherwise than the source has the same key in every file."""
    ours, theirs = Code('<ph x="1">K1</ph>', markup=True, key="ph:1"), Code("<ph>K1</ph>", markup=True, key="ph:1")
    new = Code('<ph id="1">K2</ph>', markup=True, key="ph:1")
    made = Memory([Unit(("Press ", ours, " now"), (theirs, " jetzt drücken"))])
    assert best(made, ("Press ", new, " now")).target == (new, " jetzt drücken")
    stranger = Code("<ph>K9</ph>", markup=True, key="ph:9")
    made = Memory([Unit(("Press ", ours, " now"), (stranger, " jetzt drücken"))])
    match = best(made, ("Press ", Code('<x id="9"/>', markup=True, key="ph:9"), " now"))
    assert (match.score, match.usable) == (97, False)


def test_a_form_of_a_plural_is_taken_from_that_form() -> None:
    """Polish has several for `files`; a memory that knows one translation only has no other to confuse it with."""
    few, many = Unit(("%d files",), ("%d pliki",), "menu msgstr[1]"), Unit(("%d files",), ("%d plików",), "msgstr[2]")
    made = Memory([few, many])
    found = {
        form: [(plain(match.target), match.score, match.exact) for match in made.lookup(("%d files",), form)]
        for form in ("msgstr[1]", "msgstr[2]", "menu msgstr[0]", "")
    }
    assert found["msgstr[1]"] == [("%d pliki", 100, True), ("%d plików", 99, False)]
    assert found["msgstr[2]"] == [("%d plików", 101, True), ("%d pliki", 99, False)]
    assert [match[1:] for match in found["menu msgstr[0]"]] == [(99, False)] * 2
    assert [match[1:] for match in found[""]] == [(100, True)] * 2
    assert [match.exact for match in Memory([few]).lookup(("%d files",), "msgstr[2]")] == [True]


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("%s and %s or", "%s und %s oder", "{a} and {b} or"),  # which is which?
        ("{a} and {b} or", "{b} und {a} oder", "%s and %s or"),
        ("%1$s and %2$d or", "%2$d und %1$s oder", "%s and %d or"),  # the order of unnumbered ones is fixed
        ("%s and more", "und mehr", "{a} and more"),  # the translation lost its code
        ("a <b>x</b> and", "a <b>x</b> und", "a <i>x<br/> and"),
    ],
)
def test_codes_that_do_not_correspond_are_left_as_they_are(source: str, target: str, text: str) -> None:
    match = best(memory((source, target)), find(text))
    assert (match.score, match.adapted, plain(match.target)) == (97, False, target)


@pytest.mark.parametrize(
    ("source", "target", "text", "wanted"),
    [
        ("Page 3 of 12", "Seite 3 von 12", "Page 5 of 12", (98, "Seite 5 von 12")),
        ("Page 3 of 12", "Seite 3 von 12", "Page 12 of 3", (98, "Seite 12 von 3")),
        ("Version 7.4", "Version 7.4", "Version 7.5", (98, "Version 7.5")),
        ("See %s on page 3 here", "Siehe %s auf S. 3", "See {x} on page 4 here", (98, "Siehe {x} auf S. 4")),
        ("It is 1.5 m long now", "Es ist 1,5 m lang", "It is 2.5 m long now", (87, "Es ist 1,5 m lang")),
        ("It is 3 m long, 3 m", "Es ist 3 m lang", "It is 4 m long, 4 m", (75, "Es ist 3 m lang")),
        ("The 3 new large cats", "Die drei großen Katzen", "The 4 new large cats", (80, "Die drei großen Katzen")),
        ("It costs 1.5 or so", "Das kostet 1.5", "It costs 1,5 or so", (85, "Das kostet 1.5")),
    ],
)
def test_numbers_are_put_in_where_that_is_safe(source: str, target: str, text: str, wanted: tuple[int, str]) -> None:
    match = best(memory((source, target)), find(text))
    assert (match.score, plain(match.target)) == wanted
    assert match.adapted == (wanted[0] == 98)


def test_a_number_that_cannot_be_put_in_is_no_match_below_the_limit() -> None:
    assert found(memory(("Page 3", "Seite drei")), "Page 4") == []
    assert found(memory(("Page 3", "Seite drei")), "Page 4", min_score=50) == [(50, "Seite drei")]
    assert found(memory(("Page 3", "Seite 3")), "Page 4", min_score=99) == []


# ---- similar ----


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("The file cannot be opened.", 100),
        ("the File cannot be opened.", 97),
        ("The file cannot be opened", 83),  # five of six words
        ("The file can not be opened.", 71),  # of seven words two are changed
        ("The file cannot be closed.", 83),
        ("The files cannot be closed.", 66),
    ],
)
def test_scores_are_those_of_the_definition(text: str, score: int) -> None:
    assert found(memory(("The file cannot be opened.", "x")), text, min_score=1)[0] == (score, "x")


def test_japanese_is_measured_by_characters() -> None:
    made = memory(("ファイルを開く。", "Open the file."))
    assert found(made, "ファイルを閉く。") == [(87, "Open the file.")]  # seven of eight


def test_nothing_like_it_is_nothing() -> None:
    assert found(memory(("a b c", "x")), "d e f") == []
    assert found(memory(), "a") == []
    assert found(memory(("", "x")), "a") == []
    assert found(memory(("", "x")), "") == [(100, "x")]


@pytest.mark.parametrize("least", [0, 101, -5])
def test_a_limit_that_means_nothing_is_refused(least: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 100"):
        memory(("a", "b")).lookup(("a",), min_score=least)


# ---- files ----

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>Close</seg></tuv><tuv xml:lang="de"><seg>Schließen</seg></tuv></tu>
</body></tmx>"""


def test_documents_are_read_and_what_is_unfinished_is_counted(tmp_path: Path) -> None:
    po, tmx = tmp_path / "a.po", tmp_path / "b.tmx"
    po.write_text(
        f'{PO}msgctxt "menu"\nmsgid "Open"\nmsgstr "Öffnen"\n\n#, fuzzy\nmsgid "Save"\nmsgstr "Sichern"\n\n'
        'msgid "Quit"\nmsgstr ""\n\nmsgid "Close"\nmsgstr "Zumachen"\n',
        encoding="utf-8",
    )
    tmx.write_text(TMX, encoding="utf-8")
    made = Memory.load([po, tmx], "en", "de")
    assert found(made, "Close") == [(100, "Schließen"), (100, "Zumachen")]
    assert made.lookup(("Open",), "menu")[0].score == 101
    assert re.match(r".*a\.po: line \d+", made.lookup(("Open",))[0].place)
    assert found(made, "Save") == []
    assert sum(made.skipped.values()) == 2
    assert len(Memory.load(tmx, "en", "de")) == 1


def test_labels_are_found_with_and_without_their_accelerators(tmp_path: Path) -> None:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "X-Accelerator-Marker": "&"}
    made.append(polib.POEntry(msgid="&Save", msgstr="S&ichern"))
    made.append(polib.POEntry(msgid="Cut && paste", msgstr="Ausschneiden && einfügen"))
    made.save(str(tmp_path / "a.po"))
    memory = Memory.load(tmp_path / "a.po", "en", "de")
    found = [memory.lookup((text,), min_score=98) for text in ("&Save", "Save", "Cut && paste", "Cut & paste")]
    assert [[(plain(match.target), match.score) for match in matches] for matches in found] == [
        [("S&ichern", 100)],
        [("Sichern", 100)],
        [("Ausschneiden && einfügen", 100)],
        [("Ausschneiden & einfügen", 100)],
    ]


def test_files_that_hold_no_pairs_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.html, .*y\.txt: .*name \.tmx"):
        Memory.load([tmp_path / "x.html", tmp_path / "y.txt", tmp_path / "z.tmx"], "en", "de")
    with pytest.raises(ValueError, match=r"z\.tmx: there is no such file"):
        Memory.load(tmp_path / "z.tmx", "en", "de")


def test_pairs_of_a_corpus_are_a_memory() -> None:
    made = Memory.of([Pair(("a b",), ("c",), 0, 7), Pair(("d e",), ("f",), 0, 8, "unit 9")])
    assert [made.lookup((text,))[0].place for text in ("a b", "d e")] == ["line 7", "unit 9"]
