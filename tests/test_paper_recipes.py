"""The recipes of the paper against Vaswani et al. 2017, setting by setting, their arithmetic by hand, and a dry run;
the English-Japanese recipe's scores against the formula of BLEU."""

import importlib.util
import json
import math
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway import api
from headway.architecture import AttentionConfig, PlainFFNConfig, SinusoidConfig, StackConfig
from headway.config import (
    AdamConfig,
    AverageConfig,
    DataConfig,
    GNMTConfig,
    NoamConfig,
    UniformSmoothingConfig,
)
from headway.evaluate.cost import PAPER_TRAINING_FLOPS, training_flops
from headway.recipe import load_recipe, resolve_paths

# Recipe: N, d_model, d_ff, h, P_drop (Table 3 and section 6.1), vocabulary (5.1), updates and seconds of one (5.2),
# checkpoints averaged (6.1), hours of the whole training (5.2).
PAPER: dict[str, dict[str, Any]] = {
    "wmt14-en-de-base": {"sizes": (6, 512, 2048, 8), "dropout": 0.1, "pieces": ("char_bpe", 37_000), "averaged": 5}
    | {"steps": 100_000, "step_s": 0.4, "hours": 12},
    "wmt14-en-de-big": {"sizes": (6, 1024, 4096, 16), "dropout": 0.3, "pieces": ("char_bpe", 37_000), "averaged": 20}
    | {"steps": 300_000, "step_s": 1.0, "hours": 84},
    "wmt14-en-fr-big": {"sizes": (6, 1024, 4096, 16), "dropout": 0.1, "pieces": ("wordpiece", 32_000), "averaged": 20}
    | {"steps": 300_000, "step_s": 1.0, "hours": 84},
}
UPDATE_TOKENS = 25_000  # of each side (5.1)
INTERVAL_S = 600  # between checkpoints (6.1)

every_recipe = pytest.mark.parametrize("name", PAPER)


@every_recipe
def test_the_model_is_the_papers(name: str) -> None:
    model, (num_layers, dim, ffn_dim, num_heads) = load_recipe(name).model, PAPER[name]["sizes"]
    assert (model.dim, model.dropout) == (dim, PAPER[name]["dropout"])
    assert (model.tie, model.scale_embedding, model.position) == ("all", True, SinusoidConfig())  # 3.4, 3.5
    for stack in (model.encoder, model.decoder):
        assert isinstance(stack, StackConfig)
        assert (len(stack.layers), stack.final_norm) == (num_layers, False)
        for layer in stack.layers:
            assert layer.mixer == AttentionConfig(num_heads=num_heads)
            assert (layer.ffn, layer.residual, layer.cross) == (PlainFFNConfig(kind="relu", dim=ffn_dim), "post", None)


@every_recipe
def test_the_training_is_the_papers(name: str) -> None:
    recipe, paper = load_recipe(name), PAPER[name]
    train, tokenizer = recipe.train, recipe.tokenizer
    assert (tokenizer.kind, getattr(tokenizer, "vocab_size", 0)) == paper["pieces"]
    assert tokenizer == type(tokenizer)(kind=tokenizer.kind, vocab_size=paper["pieces"][1])  # shared, nothing else on
    assert train.steps == paper["steps"]
    assert train.batch_tokens * train.accumulate == 2 * UPDATE_TOKENS
    assert train.optimizer == AdamConfig(betas=(0.9, 0.98), eps=1e-9)  # 5.3
    assert train.schedule == NoamConfig(dim=recipe.model.dim, warmup=4000, factor=1.0)
    assert train.smoothing == UniformSmoothingConfig(epsilon=0.1)  # 5.4
    assert train.average == AverageConfig(kind="last", num=paper["averaged"])
    assert train.save_every * paper["step_s"] == INTERVAL_S
    assert (train.clip, train.patience, train.lora, train.dtype) == (None, None, None, "float32")


@every_recipe
def test_the_search_is_the_papers(name: str) -> None:
    search = load_recipe(name).search
    assert (search.beam, search.penalty) == (4, GNMTConfig(alpha=0.6))
    assert (search.max_ratio, search.max_extra, search.stop) == (1.0, 50, "exact")  # input length + 50


@every_recipe
def test_the_data_is_named_by_a_variable(name: str, monkeypatch) -> None:
    monkeypatch.delenv("WMT14", raising=False)
    with pytest.raises(ValueError, match="variable WMT14 is not set"):
        resolve_paths(load_recipe(name), ".")
    monkeypatch.setenv("WMT14", "/wmt")
    data, target = resolve_paths(load_recipe(name), ".").data, name.split("-")[2]
    assert data == DataConfig(  # nothing is cleaned, sprinkled or matched
        source="/wmt/train.en",
        target=f"/wmt/train.{target}",
        valid_source="/wmt/newstest2013.en",
        valid_target=f"/wmt/newstest2013.{target}",
        source_language="en",
        target_language=target,
    )


# ---- arithmetic ----


def by_hand(num_layers: int, dim: int, ffn_dim: int, vocab_size: int, length: int = 32) -> int:
    """FLOPs of a forward for each target token, and its share of the source: two for each weight that is multiplied,
    and for each attention 2 * length * dim for its logits and as many for its sums."""
    encoder = 2 * (4 * dim**2 + 2 * dim * ffn_dim) + 4 * length * dim
    decoder = 2 * (8 * dim**2 + 2 * dim * ffn_dim) + 2 * 4 * length * dim
    return num_layers * (encoder + decoder) + 2 * dim * vocab_size


@pytest.mark.parametrize(
    "name", [name if name == "wmt14-en-de-base" else pytest.param(name, marks=pytest.mark.slow) for name in PAPER]
)
def test_show_counts_the_training_of_a_recipe(headway, name: str) -> None:
    num_layers, dim, ffn_dim, _ = PAPER[name]["sizes"]
    flops = by_hand(num_layers, dim, ffn_dim, PAPER[name]["pieces"][1])
    shown = json.loads(headway("show", name, "--json")[1])
    assert shown["flops_per_target_token"] == flops
    assert shown["training_flops"] == 3 * PAPER[name]["steps"] * UPDATE_TOKENS * flops
    assert shown["paper_training_flops"] == {"base": 3.3e18, "big": 2.3e19}


@every_recipe
def test_training_is_three_forwards_of_each_target_token_of_each_update(name: str) -> None:
    assert training_flops(load_recipe(name).train, 7) == 3 * PAPER[name]["steps"] * UPDATE_TOKENS * 7


@pytest.mark.parametrize(("size", "name"), [("base", "wmt14-en-de-base"), ("big", "wmt14-en-de-big")])
def test_the_papers_flops_are_eight_p100s_for_its_hours(size: str, name: str) -> None:
    """9.5e12 a second for each, as footnote 5 has it."""
    assert f"{PAPER[name]['hours'] * 3600 * 8 * 9.5e12:.1e}" == f"{PAPER_TRAINING_FLOPS[size]:.1e}"


def test_show_prints_training_beside_the_papers_for_a_recipe_alone(headway) -> None:
    rows = dict(line.rsplit(maxsplit=1) for line in headway("show", "multi30k-en-de-tiny")[1].splitlines())
    flops = 3 * 4000 * 1500 * by_hand(4, 128, 256, 6000)
    assert rows["training FLOPs"] == f"{flops:.1e}"
    assert (rows["  the paper's base"], rows["  the paper's big"]) == ("3.3e+18", "2.3e+19")
    assert "training FLOPs" not in headway("show", "transformer-tiny")[1]


# ---- dry run ----

TOY = {
    "model.dim": 16,
    "model.encoder.layers": [{"repeat": 1}],
    "model.decoder.layers": [{"repeat": 1}],
    "model.encoder.layer.ffn.dim": 24,
    "model.decoder.layer.ffn.dim": 24,
    "tokenizer.vocab_size": 300,
    "train.steps": 3,
    "train.batch_tokens": 90,
    "train.schedule.dim": 16,
    "train.schedule.warmup": 2,
    "train.validate_every": 3,
    "train.save_every": 1,
    "search.max_extra": 3,
}


def stand_in(folder: Path, target: str) -> None:
    """WMT's files by name, with sentences of our own and a language of our own."""
    words = [
        *("river", "stone", "winter", "letter", "window", "garden", "bridge"),
        *("morning", "shadow", "copper", "island", "thunder", "candle", "market"),
    ]
    pairs = [
        (f"The {a} of the {b} has {n} names.", f"Na {b[::-1]} u {a[::-1]} ni {n} sem.")
        for n, (a, b) in enumerate((a, b) for a in words for b in words if a != b)
    ]
    for name, part in (("train", pairs[4:]), ("newstest2013", pairs[:4])):
        for language, side in (("en", 0), (target, 1)):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


@every_recipe
def test_three_updates_of_the_recipe_at_toy_size_give_a_model(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("WMT14", str(tmp_path))
    stand_in(tmp_path, name.split("-")[2])
    scores = api.train(name, tmp_path / "run", set=TOY, device="cpu", quiet=True)
    assert scores["num_lines"] == 4
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    updates = [row for row in rows if "lr" in row]
    assert [row["lr"] for row in updates] == pytest.approx(
        [16**-0.5 * step * 2**-1.5 for step in (1, 2)] + [0.25 / 3**0.5]
    )
    assert all(math.isfinite(row["loss"]) for row in updates)
    assert len(api.load(tmp_path / "run").translate(["The river of the stone has 3 names.", ""])) == 2


# ---- English-Japanese ----


@pytest.fixture(scope="module")
def enja() -> ModuleType:
    path = Path(__file__).parents[1] / "bench" / "enja.py"
    spec = importlib.util.spec_from_file_location("bench_enja", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sources_to_train_on_are_found_to_the_letter_and_any_other_number_is_refused(enja: ModuleType) -> None:
    test = [f"line {number} ." for number in range(70)]
    assert enja.unseen(test, [*test[3:63], "line 63 . ", "Line 64 .", "line 65", ""]) == [0, 1, 2, *range(63, 70)]
    with pytest.raises(ValueError, match="59 of 70 test sources are also in the training set, 60 are expected"):
        enja.unseen(test, test[3:62])


def test_the_published_corpus_has_those_sources_and_none_of_their_targets(enja: ModuleType, corpora: Path) -> None:
    lines = enja.read_lines
    folder = corpora / "small_parallel_enja"
    sources, targets = lines(folder / "test.en"), lines(folder / "test.ja")
    assert len(enja.unseen(sources, lines(folder / "train.en.gz"))) == 500 - enja.LEAKED
    assert not {*targets} & {*lines(folder / "train.ja.gz")}


def test_bleu_of_given_words_is_the_formula_and_mecab_cuts_the_text_anew(enja: ModuleType) -> None:
    """All n-grams of four words are right, and the fifth is missing: exp(1 - 5/4). Where words are cut otherwise but
    the text is right, MeCab's score and chrF are whole."""
    pytest.importorskip("MeCab", reason="the extra ja is not installed")
    short = enja.scores(["彼 は 犬 が"], ["彼 は 犬 が 好き"])
    assert short["bleu_13a"] == round(100 * math.exp(-1 / 4), 2)
    other = enja.scores(["彼は 犬 が 好きだ 。"], ["彼 は 犬 が 好き だ 。"])
    assert (other["bleu_ja_mecab"], other["chrf"]) == (100, 100)
    assert other["bleu_13a"] < 100
    by_words, by_mecab, by_letters = other["signature"].split("; ")
    assert ("tok:13a" in by_words, "tok:ja-mecab" in by_mecab, "nc:6" in by_letters) == (True, True, True)


def test_a_run_with_other_settings_does_not_go_by_the_recipes_name(enja: ModuleType) -> None:
    same = {"train.seed": 5, "data.source": "elsewhere/train.en.gz"}
    assert enja.name_of(load_recipe("enja-50k", same)) == "enja-50k"
    assert enja.name_of(load_recipe("enja-50k", {"train.steps": 10})) == "enja-50k, changed"


def test_the_recipe_names_files_of_the_corpus(corpora: Path, monkeypatch) -> None:
    monkeypatch.setenv("HEADWAY_DATA", str(corpora))
    data = resolve_paths(load_recipe("enja-50k"), ".").data
    assert all(os.path.exists(str(path)) for path in (data.source, data.target, data.valid_source, data.valid_target))
    assert data.target_language == "ja"
