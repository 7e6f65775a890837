"""The report on a recipe's data: its numbers are those of a corpus that was counted by hand."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from headway.config import BPEConfig, CleanConfig, CorpusConfig
from headway.data.clean import Cleaner
from headway.data.encode import Encoder
from headway.data.pair import Pair
from headway.data.tally import Tally
from headway.evaluate.data_report import data_report, lengths
from headway.evaluate.report import Examples, Histogram, Section, Table, Text, page, to_json
from headway.text.tokenizer import TokenizerPair

LINES = [
    ("a b", "äb"),  # 3 characters and bytes, 2 words; 2 characters, 3 bytes, 1 word
    ("a b", "äb"),
    ("OK", "OK"),
    ("", "x"),
    ("<br/>", "<br/>!"),
    ("a longer line that is cut", "x"),
    ("cc dd", "dd cc"),
]
CORPORA = [CorpusConfig(source="x.en", target="x.de", source_language="en", target_language="de", weight=2.0)]


@pytest.fixture(scope="module")
def bytewise() -> TokenizerPair:
    """Every byte is a token, so that tokens can be counted by hand."""
    return TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=260))


def report(
    pair: TokenizerPair, clean: CleanConfig, tally: Tally, lines: list[tuple[str, str]] = LINES
) -> dict[str, Section]:
    def pairs() -> Iterator[tuple[str, Pair]]:
        tally.add("untranslated", "line 0")
        for number, (source, target) in enumerate(lines, 1):
            yield f"line {number}", Pair((source,), (target,), 0, number)

    cleaner = Cleaner(clean, [("en", "de")])
    return {section.title: section for section in data_report(pairs(), cleaner, Encoder(pair, 20), CORPORA, 40, tally)}


def table(section: Section) -> dict[str, list[object]]:
    assert isinstance(section, Table)
    return {str(row[0]): list(row[1:]) for row in section.rows}


def test_kept_and_left_out_add_up_to_what_was_seen(bytewise: TokenizerPair) -> None:
    tally = Tally()
    found = report(bytewise, CleanConfig(identical=True), tally)
    rows = table(found["Kept and left out"])
    assert {name: row[1] for name, row in rows.items()} == {
        "kept": 4,
        "untranslated": 1,
        "empty": 1,
        "identical": 1,
        "too_long": 1,
        "all": 8,
    }
    assert sum(row[2] for name, row in rows.items() if name != "all") == pytest.approx(1)  # type: ignore[misc]
    assert tally.counts == {"untranslated": 1, "identical": 1, "empty": 1, "too_long": 1}
    assert "more than 20 tokens" in str(rows["too_long"][0])
    assert table(found["Corpora"]) == {"x.en, x.de": [7, 4, pytest.approx(4 / 7), 2.0, "en", "de", ""]}
    examples = found["Left out: examples"]
    assert isinstance(examples, Examples)
    assert {(row.place, row.note) for row in examples.rows} == {
        ("line 3", "identical"),
        ("line 4", "empty"),
        ("line 6", "too_long"),
    }


def test_lengths_pieces_and_padding_are_those_counted_by_hand(bytewise: TokenizerPair) -> None:
    found = report(bytewise, CleanConfig(identical=True), Tally())
    tokens = found["Lengths in tokens"]
    assert isinstance(tokens, Histogram)
    assert [tokens.label(at) for at in range(len(tokens.edges) - 1)] == list("0123456")
    assert dict(tokens.counts) == {"source": [0, 0, 0, 2, 0, 2, 0], "target": [0, 0, 0, 2, 0, 1, 1]}
    words = found["Lengths in words (between spaces)"]
    assert isinstance(words, Histogram)
    assert dict(words.counts) == {"source": [0, 1, 3], "target": [0, 3, 1]}
    ratios = found["Target over source"]
    assert isinstance(ratios, Histogram)
    assert {ratios.label(at): count for at, count in enumerate(ratios.counts["pairs"]) if count} == {
        "0.5 to 0.67": 2,
        "1 to 1.1": 1,
        "1.1 to 1.25": 1,
    }
    vocabulary = table(found["Vocabulary"])
    # Source: "a b" twice, "<br/>", "cc dd": 3 + 3 + 5 + 5 bytes, of which a, b, space, <, r, /, >, c, d are different.
    assert vocabulary["source"][:3] == [16, 256, 9]
    assert vocabulary["source"][4:] == [0, pytest.approx(16 / 7), 1]
    assert vocabulary["target"][:3] == [17, 256, 11]
    frequent = found["Most frequent pieces"]
    assert isinstance(frequent, Table)
    assert {tuple(row[:2]) for row in frequent.rows[:2]} == {("b", 3 / 16), ("␣", 3 / 16)}
    unused = found["Pieces that are never used"]
    assert isinstance(unused, Text)
    assert unused.paragraphs[0].startswith("both sides: 244 of 256")
    padding = table(found["Batches of 40 tokens, each pair once"])
    # With end tokens 4+4, 4+4, 6+7, 6+6: one batch would be of 4 * (6+7) places; so three and one, or two and two.
    assert padding["pairs too large for a batch"] == [0]
    assert padding["batches in an epoch"] == [2]
    assert padding["padding"][0] in (pytest.approx(1 - 41 / (3 * 12 + 13)), pytest.approx(1 - 41 / (2 * 8 + 2 * 13)))


def test_what_a_rule_would_leave_out_is_suggested_where_it_is_off(bytewise: TokenizerPair) -> None:
    off = report(bytewise, CleanConfig(), Tally())["Suggestions"]
    assert isinstance(off, Text)
    told = "\n".join(off.paragraphs)
    for share, setting in {
        "20.0 % of the pairs kept are the same on both sides": "data.clean.identical = true",
        "20.0 % of the pairs kept have a side of codes": "data.clean.markup = true",
        "20.0 % of the pairs kept repeat an earlier pair": 'data.clean.duplicates = "pair"',
    }.items():
        assert share in told
        assert setting in told
    on = CleanConfig(identical=True, markup=True, duplicates="pair")
    none = report(bytewise, on, Tally(), LINES[:6])["Suggestions"]
    assert none == Text("Suggestions", ["None."])


def test_a_corpus_without_pairs_has_a_report(bytewise: TokenizerPair) -> None:
    found = report(bytewise, CleanConfig(), Tally(), [])
    assert table(found["Kept and left out"])["kept"][1] == 0
    assert json.loads(to_json("t", list(found.values())))
    assert "None." in page("t", list(found.values()))


def test_a_batch_too_small_for_a_pair_is_told(bytewise: TokenizerPair) -> None:
    rows = [(f"line {number}", Pair(("a" * number,), ("b" * number,), 0, number)) for number in (3, 19)]
    sections = data_report(rows, Cleaner(CleanConfig()), Encoder(bytewise, 20), CORPORA, 30, Tally())
    found = next(section for section in sections if section.title.startswith("Batches"))
    assert table(found) == {
        "pairs too large for a batch": [1],
        "batches in an epoch": [1],
        "pairs a batch": [1],
        "padding": [0],
    }


def test_a_histogram_of_lengths_counts_every_length_once() -> None:
    source, target = Counter(range(300)), Counter({5: 10, 100_000: 1})
    made = lengths("t", "x", [source, target])
    assert sum(made.counts["source"]) == 300
    assert sum(made.counts["target"]) == 11
    assert len(made.edges) <= 18
    assert made.counts["target"][-1] == 1
    assert lengths("t", "x", [Counter({0: 3}), Counter({0: 2})]).counts == {"source": [3], "target": [2]}
