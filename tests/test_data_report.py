"""The report on a recipe's data: its numbers are those of a corpus that was counted by hand."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import api, training
from headway.config import BPEConfig, CleanConfig, DataConfig
from headway.data.prepare import Corpus
from headway.evaluate.data_report import DataReport, lengths
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
CATALOG = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "Save"
msgstr ""
"""
MOST = 20  # data.max_len


@pytest.fixture(scope="module")
def bytewise() -> TokenizerPair:
    """Every byte is a token, so that tokens can be counted by hand."""
    return TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=260))


Report = Callable[..., dict[str, Section]]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def report(tmp_path: Path, bytewise: TokenizerPair) -> Report:
    """The sections of a report on these lines and a catalog with nothing translated, by their titles."""

    def made(clean: CleanConfig, lines: list[tuple[str, str]] = LINES, batch_tokens: int = 40) -> dict[str, Section]:
        source, target = (
            write(tmp_path / name, [*side]) for name, side in zip("xy", zip(*lines, strict=True), strict=True)
        )
        (tmp_path / "z.po").write_text(CATALOG, encoding="utf-8")
        valid = {f"valid_{side}": write(tmp_path / side, ["v" * 21, "v"]) for side in ("source", "target")}
        corpora = {"source": source, "target": target, "weight": 2.0}, {"path": str(tmp_path / "z.po")}
        languages = {"source_language": "en", "target_language": "de"}
        config = DataConfig(corpora=corpora, max_len=MOST, clean=clean, **valid, **languages)  # pyright: ignore
        sections = DataReport(Corpus(config, tmp_path / "store"), bytewise).sections(batch_tokens)
        return {section.title: section for section in sections}

    return made


def table(section: Section) -> dict[str, list[object]]:
    assert isinstance(section, Table)
    return {str(row[0]): list(row[1:]) for row in section.rows}


def test_kept_and_left_out_add_up_to_what_was_seen(report: Report, tmp_path: Path) -> None:
    found = report(CleanConfig(identical=True))
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
    assert "more than 20 tokens" in str(rows["too_long"][0])
    assert table(found["Corpora"]) == {
        f"{tmp_path}/x, {tmp_path}/y": [7, 4, 0, pytest.approx(4 / 7), 2.0, "en", "de", ""],
        f"{tmp_path}/z.po": [0, 0, 0, 0, 1.0, "en", "de", ""],
    }
    assert table(found["To validate on"]) == {
        "pairs": [2],
        "without those that have more than 20 tokens on a side": [-1],
    }
    examples = found["Left out: examples"]
    assert isinstance(examples, Examples)
    assert {(row.place, row.note) for row in examples.rows} == {
        (f"{tmp_path}/x: line 3", "identical"),
        (f"{tmp_path}/x: line 4", "empty"),
        (f"{tmp_path}/x: line 6", "too_long"),
    }


def test_lengths_pieces_and_padding_are_those_counted_by_hand(report: Report) -> None:
    found = report(CleanConfig(identical=True))
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


def sections_of(folder: Path, vocabularies: TokenizerPair, batch_tokens: int, **data: object) -> dict[str, Section]:
    config = DataConfig(source_language="en", target_language="de", max_len=MOST, **data)  # pyright: ignore
    sections = DataReport(Corpus(config, folder / "store"), vocabularies).sections(batch_tokens)
    return {section.title: section for section in sections}


def test_what_stands_before_a_source_is_none_of_its_tokens(tmp_path: Path) -> None:
    named = {"source": write(tmp_path / "x", ["a b", "ab c"]), "target": write(tmp_path / "y", ["x", "y"])}
    valid = {f"valid_{side}": path for side, path in named.items()}
    vocabulary = TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=262, tags=("it",), separator=True))
    corpora = ({**named, "tags": ("it",)},)
    found = sections_of(tmp_path, vocabulary, 40, corpora=corpora, context=1, **valid)
    # <it> a b, and <it> a b <sep> ab c: 1 + 5 tokens before the sources, 3 + 4 of the sources; 2 + 2 words
    rows = table(found["Vocabulary"])
    assert [*rows] == ["source", "before the source", "target"]
    assert rows["source"][:3] == [7, 258, 4]
    assert rows["source"][5:] == [7 / 4, 1]
    assert rows["before the source"] == [6, 258, 5, 5 / 258, 0, None, None]
    assert rows["target"][:3] == [2, 258, 2]
    tokens = found["Lengths in tokens"]
    assert isinstance(tokens, Histogram)
    assert {tokens.label(at): count for at, count in enumerate(tokens.counts["source"]) if count} == {"3": 1, "4": 1}
    unused = found["Pieces that are never used"]
    assert isinstance(unused, Text)
    assert unused.paragraphs[0].startswith("both sides: 250 of 258"), "<it> and <sep> are used"
    # With end tokens 5 + 2 and 10 + 2: one batch of 2 * (10 + 2) places
    assert table(found["Batches of 40 tokens, each pair once"])["padding"] == [pytest.approx(1 - 19 / 24)]


def test_nothing_stands_before_most_sources(report: Report) -> None:
    assert [*table(report(CleanConfig())["Vocabulary"])] == ["source", "target"]


def test_a_text_within_a_code_is_told_and_the_sums_are_those_of_the_file(
    tmp_path: Path,
) -> None:
    code = "<ph>x<sub>text</sub></ph>"
    unit = f'<tu><tuv xml:lang="en"><seg>a{code}</seg></tuv><tuv xml:lang="de"><seg>b{code}</seg></tuv></tu>'
    content = f'<tmx version="1.4"><header srclang="en"/><body>{unit}</body></tmx>'
    (tmp_path / "a.tmx").write_text(content, encoding="utf-8")
    named = {"corpora": ({"path": str(tmp_path / "a.tmx")},), "valid": str(tmp_path / "a.tmx")}
    vocabulary = TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=261, placeholders=1))
    found = sections_of(tmp_path, vocabulary, 40, **named)
    assert {name: row[1] for name, row in table(found["Kept and left out"]).items()} == {"kept": 1, "all": 1}
    told = "text within a code (<sub>), kept as it is: in 1 of 1 pairs: lines 1"
    assert found["Kept as it is"] == Text("Kept as it is", [told])
    assert table(found["To validate on"]) == {"pairs": [1], told: [None]}


def test_what_is_unfinished_in_the_files_to_validate_on_is_counted(tmp_path: Path, bytewise: TokenizerPair) -> None:
    entries = ['msgid "a"\nmsgstr "b"\n', '#, fuzzy\nmsgid "c"\nmsgstr "d"\n', f'msgid "{"v" * 21}"\nmsgstr "v"\n']
    (tmp_path / "held.po").write_text(CATALOG + "\n" + "\n".join(entries), encoding="utf-8")
    named = {"source": write(tmp_path / "x", ["a b"]), "target": write(tmp_path / "y", ["x"])}
    found = sections_of(tmp_path, bytewise, 40, **named, valid=str(tmp_path / "held.po"))
    assert table(found["To validate on"]) == {
        "pairs": [4],
        "without those that have no translation yet": [-1],
        "without those that hold a translation that their file marks as unsure": [-1],
        "without those that have more than 20 tokens on a side": [-1],
    }


def test_what_a_rule_would_leave_out_is_suggested_where_it_is_off(report: Report) -> None:
    off = report(CleanConfig())["Suggestions"]
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
    none = report(on, LINES[:6])["Suggestions"]
    assert none == Text("Suggestions", ["None."])


def test_a_corpus_without_pairs_has_a_report(report: Report) -> None:
    found = report(CleanConfig(), [("", "x")])
    assert table(found["Kept and left out"])["kept"][1] == 0
    assert json.loads(to_json("t", list(found.values())))
    assert "None." in page("t", list(found.values()))


def test_a_batch_too_small_for_a_pair_is_told(report: Report) -> None:
    found = report(CleanConfig(), [("a" * number, "b" * number) for number in (3, 19)], 30)
    assert table(found["Batches of 30 tokens, each pair once"]) == {
        "pairs too large for a batch": [1],
        "batches in an epoch": [1],
        "pairs a batch": [1],
        "padding": [0],
    }


def recipe(folder: Path) -> tuple[Path, int]:
    """A recipe whose corpora have something for most reasons, and how many lines and units its files hold."""
    folder.mkdir()
    lines = [(f"a man number {number} runs", f"ein Mann Nummer {number} rennt") for number in range(60)]
    lines += [
        ("same", "same"),
        ("", "y"),
        ("x", " "),
        ("<b>", "<i>"),
        lines[3],
        lines[3],
        ("w " * 60, "v"),
        ("mÃ¼de", "a"),
    ]
    write(folder / "a.tsv", ["\t".join(line) for line in lines])
    (folder / "b.po").write_text(CATALOG, encoding="utf-8")
    text = """
[data]
corpora = [{path = "a.tsv"}, {path = "b.po"}]
max_len = 40
holdout_share = 0.1
clean = {identical = true, markup = true, mojibake = true, duplicates = "pair"}
[tokenizer]
kind = "bpe"
vocab_size = 280
[model]
preset = "transformer-tiny"
[train]
steps = 10
batch_tokens = 500
schedule = {kind = "inverse_sqrt", peak = 1e-3, warmup = 2}
"""
    (folder / "recipe.toml").write_text(text, encoding="utf-8")
    return folder / "recipe.toml", len(lines) + 1


def test_every_line_and_unit_of_the_files_is_kept_held_out_or_counted(tmp_path: Path) -> None:
    path, number = recipe(tmp_path / "r")
    before = sorted(tmp_path.rglob("*"))
    rows = table(api.data_report(path)[0])
    assert {name: row[1] for name, row in rows.items() if name not in ("kept", "held")} == {
        "identical": 1,
        "empty": 2,
        "markup": 1,
        "duplicates": 2,
        "mojibake": 1,
        "untranslated": 1,
        "too_long": 1,
        "all": number,
    }
    kept, held = rows["kept"][1], rows["held"][1]
    assert (kept, held) == (60 - held, 6)  # 5.9 to 6.8 are a tenth of what cleaning left; no source there twice
    assert sorted(tmp_path.rglob("*")) == before  # nothing stays behind


def test_the_report_counts_what_training_trains_on(tmp_path: Path) -> None:
    """The number of examples and of their tokens is that of the store, which training reads."""
    path, _ = recipe(tmp_path / "r")
    changes = {"data.store": str(tmp_path / "store")}
    found = {section.title: section for section in api.data_report(path, set=changes)}
    given = training.given_recipe(path, None, None, changes)
    assert given is not None
    data = Corpus(given.data, tmp_path / "store")
    assert any((tmp_path / "store").glob("pairs-*/tokenizer-*"))
    examples, _ = data.examples(data.tokenizers(given, shrink=False)[0], given.data.max_len)
    assert table(found["Kept and left out"])["kept"][1] == len(examples)
    for side, ends in zip(("source", "target"), examples.lengths(), strict=True):
        assert table(found["Vocabulary"])[side][0] == ends.sum() - len(examples)
    assert table(found["To validate on"])["pairs"] == [len(data.valid)]


def test_a_recipe_that_training_would_refuse_is_refused(tmp_path: Path) -> None:
    path, _ = recipe(tmp_path / "r")
    with pytest.raises(ValueError, match="there is no such file"):
        api.data_report(path, set={"data.corpora": [{"path": str(tmp_path / "none.tsv")}]})
    with pytest.raises(ValueError, match="vocab"):
        api.data_report(path, set={"tokenizer.vocab_size": 50_000})
    with pytest.raises(ValueError, match=r"data\.max_length"):
        api.data_report(path, set={"data.max_length": 3})


def test_the_command_shows_the_report_or_writes_it(headway, tmp_path: Path) -> None:
    path, number = recipe(tmp_path / "r")
    code, out, err = headway("data", "report", path)
    assert (code, err) == (0, "")
    assert "Kept and left out" in out
    assert "are held out to validate on" in out
    for name in ("report.html", "report.json"):
        assert headway("data", "report", path, "-o", tmp_path / name)[:2] == (0, "")
    told = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert str(number) in json.dumps(told)
    assert "Kept and left out" in (tmp_path / "report.html").read_text(encoding="utf-8")
    code, out, err = headway("data", "report", path, "-o", tmp_path / "report.txt")
    assert (code, out) == (2, "")
    assert "report.txt: name it .html for a page, or .json for data" in err


def test_a_histogram_of_lengths_counts_every_length_once() -> None:
    source, target = Counter(range(300)), Counter({5: 10, 100_000: 1})
    made = lengths("t", "x", [source, target])
    assert sum(made.counts["source"]) == 300
    assert sum(made.counts["target"]) == 11
    assert len(made.edges) <= 18
    assert made.counts["target"][-1] == 1
    assert lengths("t", "x", [Counter({0: 3}), Counter({0: 2})]).counts == {"source": [3], "target": [2]}
