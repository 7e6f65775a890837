"""Term lists: what is read, refused, found, checked and asked of a search."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import SearchConfig
from headway.documents.terms import Term, Terms, normalised, occurrences
from headway.generate.beam import beam_search
from headway.generate.constrain import Constraint
from headway.generate.phrases import Vocabulary, demanding
from toy_models import ToyModel, random_table

LIST = """\
# what our customers call things
source\ttarget\tkind\tcase\tnote
house|houses\tHaus|Häuser|Hauses
steam ship\tDampfschiff|Dampfer\tuse
ship\tSchiff\t\t\tnot the verb

Polish\tpolnisch\tuse\tyes
polish\t!Politur|!polieren
Headway\t\tkeep
 #include\tEinbindung
"""


def load(folder: Path, text: str | bytes) -> Terms:
    path = folder / "terms.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Terms.load(path)


def refused(folder: Path, text: str | bytes) -> list[str]:
    """The faults of a list, without the path before each."""
    with pytest.raises(ValueError, match=r"terms\.tsv") as caught:
        load(folder, text)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{folder / 'terms.tsv'}: ") for line in lines)
    return [line.removeprefix(f"{folder / 'terms.tsv'}: ") for line in lines]


def demanded(terms: Terms, text: str) -> Constraint | None:
    """What a search for the translation of this text must heed."""
    return demanding(*terms.phrases(text), lambda: VOCABULARY)


def asked(terms: Terms, text: str) -> list[tuple[str, list[str]]]:
    return [(match.text, [demand.words() for demand in match.demands]) for match in terms.find(text)]


# ---- reading ----


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_list_is_read_whatever_its_line_ends_and_mark(tmp_path: Path, ending: str, mark: bytes) -> None:
    terms = load(tmp_path, mark + LIST.replace("\n", ending).rstrip().encode())
    assert terms.terms == [
        Term(("house", "houses"), ("Haus", "Häuser", "Hauses")),
        Term(("steam ship",), ("Dampfschiff", "Dampfer")),
        Term(("ship",), ("Schiff",)),
        Term(("Polish",), ("polnisch",), case=True),
        Term(("polish",), ("Politur", "polieren"), "avoid"),
        Term(("Headway",), ("Headway",), "keep"),
        Term(("#include",), ("Einbindung",)),
    ]
    assert [term.line for term in terms.terms] == [3, 4, 5, 7, 8, 9, 10]
    assert terms.terms[2].note == "not the verb"
    assert terms.repeated == 0


def test_a_list_of_two_columns_needs_no_header_and_columns_may_come_in_any_order(tmp_path: Path) -> None:
    assert load(tmp_path, "house\tHaus").terms == [Term(("house",), ("Haus",))]
    assert load(tmp_path, "Kind\tTarget\tSource\t\nkeep\t\tGit\t\n").terms == [Term(("Git",), ("Git",), "keep")]
    assert load(tmp_path, "source\tQuelle\n").terms == [Term(("source",), ("Quelle",))]
    literal = load(tmp_path, "source\ttarget\tkind\nwow\t!wow\tuse\n")
    assert literal.terms == [Term(("wow",), ("!wow",))]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (
            "source\ttarget\tkindd",
            "names an unknown column 'kindd': did you mean \"kind\"? valid: source, target, kind",
        ),
        ("source\ttarget\tpart of speech", "names an unknown column 'part of speech'"),
        ("Source\tTarget\tKind\tNote\tx", "names an unknown column 'x'"),
        ("sourc\ttarget\tkind", "names an unknown column 'sourc': did you mean \"source\"?"),
        ("source\tkind\tcase", "has no column target: name it in the first line"),
        ("kind\tcase\tnote", "has no column source and target"),
    ],
)
def test_a_header_with_a_name_that_is_none_is_told_by_it(tmp_path: Path, header: str, told: str) -> None:
    assert told in "\n".join(refused(tmp_path, f"{header}\nhouse\tHaus\tuse\n"))


def test_what_is_said_twice_counts_once_and_other_targets_are_alternatives(tmp_path: Path) -> None:
    terms = load(tmp_path, "house\tHaus\nhouse\tHaus\nHouse\tGebäude\nhouse\tHaus\n")
    assert terms.repeated == 2
    assert asked(terms, "a house") == [("house", ["must be 'Haus' or 'Gebäude'"])]
    assert not any(finding.broken for finding in terms.check("a house", "ein Gebäude"))


def test_all_faults_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    lines = [
        "source\ttarget\tkind\tcase",
        "\tHaus",
        "house\t",
        "house\tHaus||Hauses",
        "one column",
        "a\tb\tuse\tyes\tfifth",
        "a\tb\tforbid",
        "a\tb\tuse\tmaybe",
        "a\t!b|c",
        "a\t!b\tavoid",
        "Git\tGitter\tkeep",
        "a\tb\x00c",
        "a\tb\ufffd",
        "a|\t!",
    ]
    told = refused(tmp_path, "\n".join(lines))
    expected = [
        "line 2: its source is empty",
        "line 3: its target is empty",
        "line 4: its target has an empty form",
        "line 5: has 1 columns, not the 4 of source, target, kind, case",
        "line 6: has 5 columns",
        "line 7: kind is 'forbid': write one of use, avoid, keep",
        "line 8: case is 'maybe': write one of no, yes",
        "line 9: some forms of the target have a `!`",
        "line 10: the target is marked by `!` and by its kind",
        "line 11: what is kept has no target but itself",
        "line 12: its target holds U+0000",
        "line 13: its target holds U+FFFD",
        "line 14: its source has an empty form",
        "line 14: its target is empty",
    ]
    assert len(told) == len(expected)
    for line, start in zip(told, expected, strict=True):
        assert line.startswith(start)


def test_contradictions_and_circles_are_told_with_the_faults_of_lines(tmp_path: Path) -> None:
    told = refused(tmp_path, "\tHaus\nsave\tsichern\nsave\t!sichern\na\tb\nb\ta\nhouse\t\nsave\tsave\nsave\t!save\n")
    assert [line.partition(":")[0] for line in told] == ["line 1", "line 6", "lines 2, 3", "lines 7, 8", "lines 4, 5"]
    [header] = refused(tmp_path, "source\ttarget\tTarget\nsave\tsave\t\nsave\t!save\t\n")
    assert "names a column twice" in header


@pytest.mark.parametrize("mark", "\u200b\u200e\u200f\u202b\u2067\ufeff")
def test_marks_around_a_form_are_no_part_of_it_and_alone_are_nothing(tmp_path: Path, mark: str) -> None:
    terms = load(tmp_path, f"{mark}שלום{mark}\t{mark}Frieden | {mark} Hallo{mark}\nבית\t{mark}!Heim\n")
    assert asked(terms, "שלום בית") == [("שלום", ["must be 'Frieden' or 'Hallo'"]), ("בית", ["must not be 'Heim'"])]
    told = refused(tmp_path, f"house\t{mark}\n{mark} \tHaus\na\tb|{mark}\n")
    assert [line[:20] for line in told] == ["line 1: its target i", "line 2: its source i", "line 3: its target h"]


def test_a_form_that_begins_with_a_combining_mark_is_told(tmp_path: Path) -> None:
    told = refused(tmp_path, "e\t\u0301\n\u05b8a\tb|\u0301c\nकि\té\u0323\n")
    assert [line.partition(",")[0] for line in told] == [
        "line 1: its target begins with U+0301",
        "line 2: its source begins with U+05B8",
        "line 2: its target begins with U+0301",
    ]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    told = refused(tmp_path, "house\t\n" * 25)
    assert told[19].startswith("line 20: ")
    assert told[20] == "5 more faults"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("# nothing\n\n", "holds no term"),
        ("source\ttarget\n", "holds no term"),
        ("source\ttarget\tTarget\na\tb\tc\n", "names a column twice"),
        ("house\tHäuser".encode("latin-1"), "0xE4 is not UTF-8"),
        ("house\tHaus".encode("utf-16"), "UTF-16"),
    ],
)
def test_files_that_are_no_list_are_refused(tmp_path: Path, text: str | bytes, told: str) -> None:
    assert told in refused(tmp_path, text)[0]


def test_contradictory_demands_are_refused(tmp_path: Path) -> None:
    text = "house|home\tHaus\nhome\t!haus|!Heim\nsource\ttarget\nred house\trotes Haus\nRed House\t!Haus\n"
    assert refused(tmp_path, text) == [
        "lines 1, 2: 'home' must be 'Haus' and must not be 'haus': remove one",
        "lines 4, 5: 'red house' must be 'rotes Haus' and must not be 'Haus': remove one",
    ]
    header = "source\ttarget\tkind\n"
    told = refused(tmp_path, f"{header}Git\t\tkeep\ngit\tGitter\t\nGo\tGo\tkeep\nGo\t!go\nC\t\tkeep\nC\tC\n")
    assert told == [
        "lines 2, 3: 'git' must be kept and must be 'Gitter': remove one",
        "lines 4, 5: 'go' must be 'go' and must not be 'go': remove one",
    ]


def test_the_same_word_in_another_case_may_have_another_term(tmp_path: Path) -> None:
    terms = load(tmp_path, LIST)
    assert asked(terms, "Polish") == [("Polish", ["must be 'polnisch'"])]
    assert asked(terms, "POLISH polish") == [
        ("POLISH", ["must not be 'Politur' or 'polieren'"]),
        ("polish", ["must not be 'Politur' or 'polieren'"]),
    ]


def test_circles_are_refused_with_their_chain(tmp_path: Path) -> None:
    """a -> b -> c -> a: whatever stands in a text, a term wants it replaced. A chain that ends is fine."""
    told = refused(tmp_path, "a\tB\nb|x\tc|y\nc\ta\nd\te\ne\td|f\ng\th\n")
    assert len(told) == 2
    circles = [
        (
            "lines 1, 2, 3: these terms replace each other in a circle: ",
            {"'a' -> 'b' -> 'c' -> 'a'", "'b' -> 'c' -> 'a' -> 'b'", "'c' -> 'a' -> 'b' -> 'c'"},
        ),
        ("lines 4, 5: these terms replace each other in a circle: ", {"'d' -> 'e' -> 'd'", "'e' -> 'd' -> 'e'"}),
    ]
    for start, chains in circles:
        [line] = [line for line in told if line.startswith(start)]
        assert line.removeprefix(start).removesuffix(": remove one of them") in chains
    assert len(load(tmp_path, "a\tb\nb\tc\nc\tC\nd\t!a\na\t!d\n").terms) == 5


def test_a_chain_of_thousands_is_no_circle(tmp_path: Path) -> None:
    assert len(load(tmp_path, "".join(f"w{n}\tw{n + 1}\n" for n in range(2000))).terms) == 2000


# ---- finding ----


def test_the_longest_term_is_found_first_and_only_whole_words(tmp_path: Path) -> None:
    terms = load(tmp_path, LIST)
    text = "A Steam\nship, a ship, shipping, two houses; warehouse, Headway's #include."
    assert [(match.text, text[match.start : match.end]) for match in terms.find(text)] == [
        (word, word) for word in ("Steam\nship", "ship", "houses", "Headway", "#include")
    ]


def test_of_overlapping_terms_the_longer_and_then_the_first_counts(tmp_path: Path) -> None:
    terms = load(tmp_path, "a b\tx\nb c d\ty\nd e\tz\nd\tw\n")
    assert [match.text for match in terms.find("a b c d e d")] == ["b c d", "d"]
    assert [match.text for match in load(tmp_path, "a b\tx\nb c\ty\n").find("a b c")] == ["a b"]
    assert [match.start for match in load(tmp_path, "a a\tx\n").find("a a a a")] == [0, 4]


def test_scripts_without_spaces_have_words_anywhere(tmp_path: Path) -> None:
    terms = load(tmp_path, "東京\tTokio\nタワー\tTurm\nPC\tRechner\n")
    assert [match.text for match in terms.find("新東京タワーのPC用")] == ["東京", "タワー", "PC"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_places_are_those_of_the_text_as_it_is_written(tmp_path: Path, form: str) -> None:
    terms = load(tmp_path, unicodedata.normalize(form, "Bär\tours|bébé\n각\tcoin\n"))
    for written in ("NFC", "NFD"):
        text = unicodedata.normalize(written, "für  den Bär, 각! Bärin")
        assert [text[match.start : match.end] for match in terms.find(text)] == [
            unicodedata.normalize(written, word) for word in ("Bär", "각")
        ]
        target = unicodedata.normalize(written, "é, le bébé au coin")
        kept, coin = terms.check(text, target)
        assert [target[slice(*span)] for span in kept.target] == [unicodedata.normalize(written, "bébé")]
        assert not kept.broken
        assert not coin.broken


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="aA\u0308\u0323\u1100\u1161\u11a8 \n\tÅ\u212bß", max_size=12))
def test_normal_texts_are_those_of_the_standard_library(text: str) -> None:
    """But for runs of white space; and every place begins what it says."""
    normal, places = normalised(text)
    assert normal.split() == unicodedata.normalize("NFC", text).split()
    assert len(places) == len(normal) + 1
    assert list(places) == sorted(places)
    assert places[-1] == len(text)
    for at in range(len(normal)):
        if at == 0 or places[at] != places[at - 1]:
            assert unicodedata.normalize("NFC", text[: places[at]]).split() == normal[:at].split()


# ---- checking ----


def test_what_became_of_each_term_is_said_with_its_places(tmp_path: Path) -> None:
    terms = load(tmp_path, LIST)
    source = "The house and the other House of Headway: polish it, then ship it."
    findings = terms.check(source, "Das Haus und die Hausboote von headway: Politur, politur.")
    assert [(f.text, f.demand.kind, f.broken, f.source, f.target) for f in findings] == [
        ("house", "use", False, ((4, 9), (24, 29)), ((4, 8),)),
        ("Headway", "keep", True, ((33, 40),), ()),
        ("polish", "avoid", True, ((42, 48),), ((40, 47), (49, 56))),
        ("ship", "use", True, ((58, 62),), ()),
    ]
    assert [finding.words() for finding in findings[1:3]] == [
        "'Headway' must stay 'Headway': broken",
        "'polish' must not be 'Politur' or 'polieren': broken",
    ]
    assert terms.check("nothing", "nichts") == []


def test_what_is_kept_is_kept_as_the_source_has_it(tmp_path: Path) -> None:
    terms = load(tmp_path, "source\ttarget\tkind\ngit\t\tkeep\n")
    assert [f.broken for f in terms.check("Git and git", "Git und Git")] == [False, True]


def test_a_form_that_fills_the_text_or_meets_itself_is_found(tmp_path: Path) -> None:
    assert occurrences("rot", "ROT", False) == [(0, 3)]
    assert occurrences("rot", "ROT", True) == []
    assert occurrences("rot rot rot", "rot rot", False) == [(0, 7), (4, 11)]
    assert occurrences("", "rot", False) == []


# ---- searching ----

BYTES = [b""] * 4 + [bytes([byte]) for byte in range(256)] + [b"Haus", b" Boot"]
WORDS = ["Haus", "haus", " ", " Boot", "boot", "Rat", "rot", "Hä", "usa", "u\u0308", "e"]


class Spelling:
    vocab_size = len(BYTES)

    def piece_bytes(self, number: int) -> bytes:
        return BYTES[number]

    def encode(self, text: str) -> list[int]:
        raw, ids = text.encode(), []
        while raw:
            longest = max((piece for piece in BYTES if piece and raw.startswith(piece)), key=len)
            ids.append(BYTES.index(longest))
            raw = raw.removeprefix(longest)
        return ids


VOCABULARY = Vocabulary(Spelling())
SEARCH = SearchConfig(beam=3, max_ratio=0, max_extra=30)
DEMANDS = Terms(
    [
        Term(("house", "houses"), ("Haus", "Häusa")),
        Term(("boat",), ("Boot",), case=True),
        Term(("house boat",), ("Hausboot",)),
        Term(("red",), ("rot",), "avoid"),
        Term(("Rat",), ("Rat",), "keep"),
    ]
)


def said(tokens: Sequence[int]) -> str:
    return b"".join(BYTES[token] for token in tokens).decode(errors="replace")


def searched(texts: Sequence[str], constraints: Sequence[Constraint | None]) -> list[str | None]:
    model = ToyModel(random_table(len(BYTES), 7))
    found = beam_search(model, [[5]] * len(texts), SEARCH, banned=(0, 1, 3), constraints=constraints)
    return [said(line[0].tokens) if line else None for line in found]


@settings(max_examples=150, deadline=None)
@given(
    source=st.lists(st.sampled_from(["houses", "boat", "house boat", "red", "Rat", "x"]), max_size=4),
    target=st.lists(st.sampled_from(WORDS), max_size=7),
)
def test_the_check_and_the_constraint_agree_on_every_text(source: list[str], target: list[str]) -> None:
    """Their code has nothing in common but what a word is."""
    constraint = demanded(DEMANDS, " ".join(source))
    fine = not any(finding.broken for finding in DEMANDS.check(" ".join(source), "".join(target)))
    if constraint is None:
        assert fine
        return
    state: object = constraint.start()
    for token in VOCABULARY.encode("".join(target)):
        state = constraint.step(state, token) if state is not None else None
    assert (state is not None and constraint.done(state)) == fine


def test_a_search_under_its_terms_breaks_none() -> None:
    for text in ("two houses and a boat", "a house boat", "red boat", "Rat, red house"):
        [found] = searched([text], [demanded(DEMANDS, text)])
        assert found is not None
        findings = DEMANDS.check(text, found)
        assert findings
        assert not any(finding.broken for finding in findings), (text, found)


def test_a_form_that_another_term_forbids_is_not_asked_for() -> None:
    """One term of the segment cannot be satisfied; the others are, and the check says which is broken."""
    terms = Terms([Term(("house",), ("Haus",)), Term(("boat",), ("haus", "Rat"), "avoid"), Term(("c",), ("abc",))])
    [found] = searched(["house, boat, c"], [demanded(terms, "house, boat, c")])
    assert found is not None
    assert [(f.text, f.broken) for f in terms.check("house, boat, c", found)] == [
        ("house", True),
        ("boat", False),
        ("c", False),
    ]
