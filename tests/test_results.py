"""The tables of docs/results.md are those of the rows in bench/results, and the text of Multi30k is the published one.

The page is read here by code of its own, so that a wrong table is seen where bench/tables.py agrees with itself.
"""

import gzip
import json
import math
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sacrebleu

from conftest import Toy
from headway import load
from headway.architecture import AttentionConfig, PlainFFNConfig, StackConfig
from headway.config import (
    AdamConfig,
    AverageConfig,
    CharBPEConfig,
    DataConfig,
    InverseSqrtConfig,
    LanguagesConfig,
    PowerConfig,
    SearchConfig,
    UniformSmoothingConfig,
)
from headway.recipe import load_recipe

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
NAMES = sorted(path.stem for path in RESULTS.glob("*.jsonl"))
FIGURE = {
    "multi30k": "bleu",
    "multi30k-decoders": "bleu",
    "enja": "bleu_13a",
    "train": "ratio",
    "family": "value",
    "questions": "bleu_tok_lc",
}
TOLD = {"seed": "{}", "steps": "{:,}", "recipe": "{}", "commit": "{}", "peer": "{}", "ours": "{:,.0f}"}
"""How figures are written, of those that a row has."""
TABLES = runpy.run_path(str(ROOT / "bench" / "tables.py"))


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def one_run() -> list[dict[str, Any]]:
    """The rows of the first run in the table of Multi30k."""
    found = rows("multi30k")
    return [row for row in found if row["recipe"] == found[0]["recipe"]]


def cells(name: str) -> list[list[str]]:
    """The cells of a table of the page, without its heading."""
    block = PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    lines = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("|")]
    return lines[2:]


def test_the_page_is_what_the_results_say_by_the_command_that_makes_it() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_row_stands_in_its_table_with_its_figures_and_its_signature(name: str) -> None:
    found, said = rows(name), cells(name)
    assert len(found) == len(said) > 0
    for row, line in zip(found, said, strict=True):
        figures = {told.format(row[key]) for key, told in TOLD.items() if key in row}
        assert {*figures, f"{row[FIGURE[name]]:.2f}"} <= {*line}
        assert "signature" not in row or f"\n{line[-1]}. `{row['signature']}`\n" in PAGE


@pytest.mark.parametrize("name", NAMES)
def test_another_figure_in_the_results_makes_another_page(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(RESULTS, tmp_path / "results")
    assert TABLES["page"](PAGE, folder) == PAGE
    changed = [rows(name)[0] | {FIGURE[name]: 99.87}, *rows(name)[1:]]
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in changed), encoding="utf-8")
    assert TABLES["page"](PAGE, folder) == re.sub(
        rf"(<!-- {name} -->.*?){rows(name)[0][FIGURE[name]]:.2f}", r"\g<1>99.87", PAGE, count=1, flags=re.DOTALL
    )


def said_of(name: str, found: list[dict[str, Any]], folder: Path) -> str:
    """What is refused of a file with these rows; nothing: it is taken."""
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in found), encoding="utf-8")
    try:
        TABLES["read_rows"](folder / f"{name}.jsonl", TABLES["COLUMNS"][name])
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", ["bleu", "wall_s", "steps", "seed"])
@pytest.mark.parametrize("value", [True, None, math.nan, math.inf, [3]])
def test_a_figure_is_a_finite_number(key: str, value: object, tmp_path: Path) -> None:
    found = rows("multi30k")
    found[2] |= {key: value}
    name = "minutes" if key == "wall_s" else key
    assert said_of("multi30k", found, tmp_path).endswith(f"line 3: {name} is missing, or of the wrong kind")


def test_a_file_of_rows_has_each_row_of_each_run_once(tmp_path: Path) -> None:
    first, *others = found = one_run()
    assert said_of("multi30k", found + [row | {"seed": 2} for row in found], tmp_path) == ""
    told = ", ".join(str(first[key]) for key in ("recipe", "commit", "seed", "pair", "beam")) + ": "
    assert said_of("multi30k", [first, *others, first], tmp_path).endswith(told + "a row is there twice")
    for wrong in (others, [first | {"test": "test2015"}, *others], [*others, first | {"seed": 2}]):
        assert told + "rows of test " in said_of("multi30k", wrong, tmp_path)
    decoders = rows("multi30k-decoders")
    assert said_of("multi30k-decoders", decoders[1:], tmp_path) == ""
    assert said_of("multi30k-decoders", [*decoders, decoders[0]], tmp_path).endswith("a row is there twice")
    assert said_of("multi30k", [], tmp_path).endswith("no row is in it")


def test_a_score_on_another_number_of_tokens_is_refused(multi30k: dict[str, Any], tmp_path: Path) -> None:
    name, language, count = multi30k["PUBLISHED"]
    assert TABLES["TOKENS"] == {("en-de", "test2016"): count}
    assert (multi30k["TESTS"]["test2016"], "de") == (name, language)
    assert TABLES["PARTS"]["multi30k"] == ("test", {*multi30k["TESTS"]})
    first, *others = one_run()
    wrong = said_of("multi30k", [first | {"reference_tokens": 12_102}, *others], tmp_path)
    assert wrong.endswith("test2016: 12,102 tokens, 12,103 in the published text")
    assert (
        said_of("multi30k", [row | {"pair": "en-fr", "reference_tokens": 9} for row in (first, *others)], tmp_path)
        == ""
    )


def test_a_table_without_a_file_says_so_and_with_one_has_its_rows(tmp_path: Path) -> None:
    page = TABLES["page"](PAGE, tmp_path)
    assert page.count("-->\n\nNo run yet.\n\n<!-- /") == len(TABLES["COLUMNS"])
    row = {"recipe": "enja-50k", "commit": "abc", "seed": 1, "steps": 5000, "wall_s": 1500, "beam": 4}
    scores = {"bleu_13a": 20.5, "bleu_ja_mecab": 21.25, "chrf": 30.0, "signature": "tok:13a; tok:ja-mecab; nc:6"}
    found = [row | scores | {"lines": name, "num_lines": count} for name, count in (("all", 500), ("unseen", 440))]
    assert said_of("enja", found, tmp_path) == ""
    page = TABLES["page"](PAGE, tmp_path)
    assert "| enja-50k | abc | 1 | 5,000 | 25.0 | 4 | unseen | 440 | 20.50 | 21.25 | 30.00 | 1 |" in page
    assert "\n1. `tok:13a; tok:ja-mecab; nc:6`\n" in page


def test_rows_that_are_none_and_files_without_a_place_are_named(tmp_path: Path) -> None:
    file = tmp_path / "multi30k.jsonl"
    file.write_text('{"wall_s": 3, "bleu": "1"}\nnonsense\n[]\n', encoding="utf-8")
    wrong = ["line 1: bleu is", "line 1: recipe is", "line 2: no JSON", "line 3: no JSON"]
    with pytest.raises(ValueError, match="(?s)" + ".*".join(wrong)):
        TABLES["read_rows"](file, {"bleu": ("BLEU", ".2f"), "recipe": ("recipe", "")})
    (tmp_path / "other.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"results of multi30k, other; markers of multi30k, .*columns of enja, "):
        TABLES["page"](PAGE, tmp_path)


# ---- the text that the published score is of ----


@pytest.fixture(scope="module")
def multi30k() -> dict[str, Any]:
    pytest.importorskip("sacremoses", reason="the extra `dev` has it")
    return runpy.run_path(str(ROOT / "bench" / "multi30k.py"))


def test_text_is_lower_cased_normalised_and_tokenised_without_splitting_dashes(multi30k) -> None:
    # By the rules of Moses' scripts: quotation marks become ASCII, punctuation stands alone, inner hyphens stay.
    german = multi30k["prepared"](["Ein „T-Shirt“, gelb-blau.", "Im Café: 3,5 km?"], "de")
    assert german == ['ein " t-shirt " , gelb-blau .', "im café : 3,5 km ?"]
    assert multi30k["prepared"](["L’homme n'est pas là!"], "fr") == ["l' homme n' est pas là !"]
    assert multi30k["num_tokens"](german) == 7 + 6


def test_a_score_by_tokens_does_not_see_case_and_that_of_plain_text_does(multi30k) -> None:
    references = ["Ein Hund läuft über die Wiese.", "Zwei Männer, die sitzen."]
    lower = [text.lower() for text in references]
    same, other = (multi30k["scores"](texts, references, "de", True) for texts in (references, lower))
    assert (same["bleu_tok_lc"], same["bleu"], other["bleu_tok_lc"]) == (100, 100, 100)
    assert other["bleu"] < 70
    assert "case:mixed" in same["signature"]
    assert same["reference_tokens"] == 7 + 6


def test_output_of_a_run_on_prepared_text_is_scored_as_it_is_and_detokenised(multi30k) -> None:
    references = ["Ein Hund läuft über die Wiese.", "Zwei Männer, die sitzen."]
    outputs = ["ein hund läuft über die wiese .", "zwei männer , die sitzen ."]
    found = multi30k["scores"](outputs, references, "de", False)
    assert (found["bleu_tok_lc"], found["bleu"]) == (100, 100)
    assert "case:lc" in found["signature"]


def test_diversified_captions_are_the_captions_and_what_each_run_makes_of_its_side(
    multi30k, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"en": ["a dog .", "a cat .", "two men ."], "de": ["ein hund .", "eine katze .", "zwei männer ."]}
    for side, lines in known.items():
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    diversify, runs = multi30k["diversify"], {"back": ("de", "en"), "one": ("en", "de"), "two": ("en", "de")}

    def stand_in(run: Path) -> SimpleNamespace:
        source, target = runs[run.name]
        languages = LanguagesConfig(source=source, target=target)
        return SimpleNamespace(languages=languages, translate=lambda lines: [f"{run.name}: {line}" for line in lines])

    with monkeypatch.context() as patch:
        patch.setattr(diversify.__globals__["headway"], "load", stand_in)
        diversify(tmp_path, [Path("one"), Path("two")], [Path("back")])
    english, german = ((tmp_path / f"diversified.{side}").read_text("utf-8").splitlines() for side in ("en", "de"))
    assert english == [*3 * known["en"], *(f"back: {line}" for line in known["de"])]
    assert german == [*known["de"], *(f"{run}: {line}" for run in ("one", "two") for line in known["en"]), *known["de"]]
    with pytest.raises(ValueError, match=r"run: translates en to de, not de to en"):
        diversify(tmp_path, [toy.run], [toy.run])
    with pytest.raises(ValueError, match="no run is named"):
        diversify(tmp_path, [], [])
    (tmp_path / "train.de").write_text("ein hund .\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"do not pair up, 3 in train\.en and 1 in train\.de; write them anew"):
        diversify(tmp_path, [toy.run], [])


def test_another_version_of_the_captions_is_refused(multi30k, tmp_path: Path) -> None:
    (tmp_path / "test_2016_flickr.de").write_text("Ein Hund.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"test_2016_flickr\.de has 3 tokens, and 12,103 in the published text"):
        multi30k["checked"](tmp_path)


def test_a_run_is_scored_on_what_it_learnt_to_read_and_each_row_says_what_was_run(
    multi30k, toy: Toy, tmp_path: Path
) -> None:
    for side in ("en", "de"):
        shutil.copy(toy.data / f"train.{side}", tmp_path)
        for name in ("test_2016_flickr", "test_2017_flickr", "test_2018_flickr", "test_2017_mscoco"):
            shutil.copy(toy.data / f"test.{side}", tmp_path / f"{name}.{side}")
    found = list(multi30k["measured"](toy.run, tmp_path, 2))
    assert [row["test"] for row in found] == ["test2016", "test2017", "test2018", "mscoco"]
    sources, references = ((toy.data / f"test.{side}").read_text("utf-8").splitlines() for side in ("en", "de"))
    by_text = sacrebleu.corpus_bleu(load(toy.run).translate(sources, beam=2), [references])
    for row in found:
        assert (row["recipe"], row["pair"], row["seed"]) == ("run, own settings", "en-de", 1)
        assert (row["steps"], row["beam"], row["bleu"]) == (2, 2, round(by_text.score, 2))
        assert {*TABLES["COLUMNS"]["multi30k"]} - {"minutes"} < row.keys()


def test_scores_of_english_japanese_are_rows_of_their_table(
    toy: Toy, multi30k: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("MeCab", reason="the extra ja is not installed")
    enja = runpy.run_path(str(ROOT / "bench" / "enja.py"))
    sources, references = ((toy.data / f"test.{side}").read_text("utf-8").splitlines() for side in ("en", "de"))
    (tmp_path / "train.en.gz").write_bytes(gzip.compress(f"{sources[0]}\nNothing else.\n".encode()))
    shutil.copy(toy.data / "test.en", tmp_path)
    shutil.copy(toy.data / "test.de", tmp_path / "test.ja")
    monkeypatch.setitem(enja["rows"].__globals__, "LEAKED", sources.count(sources[0]))
    found = list(enja["rows"](toy.run, tmp_path))
    assert said_of("enja", found, tmp_path) == ""
    new = [place for place, source in enumerate(sources) if source != sources[0]]
    assert [(row["lines"], row["num_lines"]) for row in found] == [("all", len(sources)), ("unseen", len(new))]
    outputs = load(toy.run).translate([sources[place] for place in new])
    by_words = sacrebleu.corpus_bleu(outputs, [[references[place] for place in new]])
    assert found[1]["bleu_13a"] == round(by_words.score, 2)
    assert {row["commit"] for row in found} == {multi30k["commit"]()}
    assert (found[0]["recipe"], found[0]["steps"]) == ("enja-50k, changed", 2)


def test_sources_as_they_come_are_told_from_prepared_ones_and_others_are_refused(multi30k, tmp_path: Path) -> None:
    texts = {
        "train.en": "A man, a hat.\n",
        "train.de": "Ein Mann, ein Hut.\n",
        "prepared.en": "a man , a hat .\n",
        "prepared.de": "ein mann , ein hut .\n",
        "lower.en": "a man, a hat.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def reads_raw(source: str, target: str) -> bool:
        data = DataConfig(source=str(tmp_path / source), target=str(tmp_path / target))
        return multi30k["reads_raw"](data, tmp_path, ("en", "de"))

    assert reads_raw("train.en", "train.de")
    assert not reads_raw("prepared.en", "prepared.de")
    for side in ("en", "de"):
        (tmp_path / f"more.{side}").write_text(texts[f"prepared.{side}"] + "and more\n", encoding="utf-8")
    assert not reads_raw("more.en", "more.de")
    for mixed in (("lower.en", "train.de"), ("prepared.en", "train.de"), ("train.en", "prepared.de")):
        with pytest.raises(ValueError, match=r"are not train\.en and train\.de, both as they come or both as"):
            reads_raw(*mixed)


def test_settings_are_called_by_a_recipes_name_only_where_they_are_its_own(multi30k) -> None:
    def called(recipe: str, raw: bool, **changes: object) -> str:
        own = {"train.seed": 7, "data.source": "x", **{f"train.{key}": value for key, value in changes.items()}}
        return multi30k["called"](load_recipe(recipe, own), Path("runs/a"), raw)

    tiny, published = "multi30k-en-de-tiny", "multi30k-en-fr-published"
    assert (called(tiny, True), called(published, False)) == (tiny, published)
    assert called(published, True) == f"{published}, raw captions"
    assert called(tiny, False) == f"{tiny}, prepared captions"
    assert called(tiny, True, steps=5500) == called(published, True, steps=5500) == "a, own settings"


def test_rows_are_printed_when_all_of_them_are_there(
    multi30k: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(*_: object) -> Iterator[dict[str, Any]]:
        yield {"test": "test2016"}
        raise ValueError("the second one is missing")

    monkeypatch.setitem(multi30k["main"].__globals__, "measured", measured)
    monkeypatch.setitem(multi30k["main"].__globals__, "checked", lambda data: data)
    monkeypatch.setattr(sys, "argv", ["multi30k.py", "score", "run", "--json", "--data", str(tmp_path)])
    with pytest.raises(SystemExit, match="the second one is missing"):
        multi30k["main"]()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("pair", "updates"), [("en-de", 62), ("en-fr", 64)])
def test_the_published_recipe_has_the_published_settings(pair: str, updates: int) -> None:
    recipe = load_recipe(f"multi30k-{pair}-published")
    model, train = recipe.model, recipe.train
    assert isinstance(train.schedule, InverseSqrtConfig)
    assert (train.schedule.peak, train.schedule.warmup * train.steps, train.steps) == (0.005, 2000, 8000)
    assert (model.dim, model.dropout, model.tie) == (128, 0.3, "all")
    assert isinstance(model.decoder, StackConfig)
    assert [len(model.encoder.layers), len(model.decoder.layers)] == [4, 4]
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert (layer.mixer, layer.ffn) == (AttentionConfig(num_heads=4), PlainFFNConfig(kind="relu", dim=256))
        assert layer.residual == "post"
    assert recipe.tokenizer == CharBPEConfig(vocab_size=10_000)
    assert train.batch_tokens * train.accumulate == 14_800
    assert train.optimizer == AdamConfig(betas=(0.9, 0.98), eps=1e-8)
    assert (train.smoothing, train.clip) == (UniformSmoothingConfig(epsilon=0.1), 25)  # no gradient is as long
    assert (train.patience, train.average) == (10, AverageConfig(kind="last", num=10))
    assert (train.validate_every, train.save_every) == (updates, updates)
    assert recipe.search == SearchConfig(beam=5, penalty=PowerConfig(alpha=1.0))


def test_captions_are_never_written_over(multi30k, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="as they come lie here"):
        multi30k["prepare"](tmp_path, tmp_path / "x" / "..")


def test_the_reference_of_the_published_score_has_its_12103_tokens(multi30k, corpora: Path) -> None:
    lines = multi30k["captions"](corpora / "multi30k", "test_2016_flickr", "de")
    assert sum(len(line.split(" ")) for line in multi30k["prepared"](lines, "de")) == 12_103


@pytest.mark.slow
def test_prepared_training_text_has_the_tokens_that_the_data_set_was_published_with(
    multi30k, corpora: Path, tmp_path: Path
) -> None:
    # Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions", table 1.
    multi30k["prepare"](corpora / "multi30k", tmp_path)
    counts = {name: len((tmp_path / f"train.{name}").read_text(encoding="utf-8").split()) for name in ("en", "de")}
    assert counts == {"en": 377_534, "de": 360_706}
    assert sorted(os.listdir(tmp_path))[0] == "test_2016_flickr.de"
    assert all((tmp_path / f"test_2018_flickr.{name}").read_bytes().count(b"\n") == 1071 for name in ("en", "de", "fr"))
