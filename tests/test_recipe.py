"""Recipes: what TOML may say, overrides, files and paths, and the way back to TOML."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from headway.architecture import (
    AttentionConfig,
    LinearAttentionConfig,
    LSTMConfig,
    NoFFNConfig,
    PlainFFNConfig,
    RNNSearchConfig,
    SinusoidConfig,
    StackConfig,
    WindowConfig,
)
from headway.config import FileTokenizerConfig, GNMTConfig, NoamConfig, Recipe, UniformSmoothingConfig
from headway.recipe import (
    dump_toml,
    literal_path,
    load_recipe,
    parse_model,
    parse_recipe,
    recipe_folder,
    recipe_names,
    resolve_paths,
    starter_recipe,
)
from headway.strict import ConfigError

TEXT = """
[model]
dim = 24
encoder = {layers = [{repeat = 2}], layer = {mixer = "attention", ffn = {kind = "relu", dim = 40}}}

[model.decoder]
kind = "stack"
layers = [{repeat = 5, mixer = "linear"}, {mixer = "attention", residual = "pre"}]

[model.decoder.layer]
mixer = {kind = "attention", num_heads = 6, dropout = 0.3}
ffn = {kind = "relu", dim = 48}

[tokenizer]
kind = "unigram"
vocab_size = 700

[data]
source = "a.en"
target = "b.de"

[train]
steps = 100
schedule = {kind = "noam", dim = 24, warmup = 0.25}
"""


def parse(text: str = TEXT, **overrides: Any) -> Recipe:
    return parse_recipe(tomllib.loads(text), {key.replace("__", "."): value for key, value in overrides.items()})


def faults(call: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        call()
    return [str(fault) for fault in caught.value.faults]


def decoder(recipe: Recipe) -> StackConfig:
    assert isinstance(recipe.model.decoder, StackConfig)
    return recipe.model.decoder


# ---- what TOML may say ----


def test_a_name_is_short_for_its_kind() -> None:
    layer = parse().model.encoder.layers[0]
    assert layer.mixer == AttentionConfig()
    assert parse(model__position="sinusoid").model.position == SinusoidConfig()
    assert parse(model__encoder__layer__ffn="none").model.encoder.layers[1].ffn == NoFFNConfig()


def test_repeat_gives_so_many_layers_over_the_default_layer() -> None:
    layers = decoder(parse()).layers
    assert [layer.mixer.kind for layer in layers] == ["linear"] * 5 + ["attention"]
    assert [layer.residual for layer in layers] == ["post"] * 5 + ["pre"]
    assert all(layer.ffn == PlainFFNConfig(kind="relu", dim=48) for layer in layers)


def test_another_kind_keeps_of_the_default_what_it_knows() -> None:
    layers = decoder(parse()).layers
    assert layers[0].mixer == LinearAttentionConfig(num_heads=6)
    assert layers[5].mixer == AttentionConfig(num_heads=6, dropout=0.3)


def test_a_part_with_a_default_may_leave_out_its_kind() -> None:
    recipe = parse(search__penalty={"alpha": 1}, train__smoothing__epsilon=0)
    assert recipe.search.penalty == GNMTConfig(alpha=1.0)
    assert recipe.train.smoothing == UniformSmoothingConfig(epsilon=0.0)
    assert parse(TEXT.replace('kind = "stack"\n', "")).model == parse().model


def test_a_preset_is_taken_by_name_and_changed_by_merging() -> None:
    named = parse_model("transformer-tiny")
    changed = parse_model({"preset": "transformer-tiny", "dropout": 0.3, "encoder": {"layer": {"residual": "pre"}}})
    assert changed.dropout == 0.3
    assert {layer.residual for layer in changed.encoder.layers} == {"pre"}
    assert changed.encoder.layers[0].mixer == named.encoder.layers[0].mixer
    assert changed.decoder == named.decoder


def test_another_decoder_replaces_the_presets() -> None:
    assert parse_model({"preset": "transformer-tiny", "decoder": "rnnsearch"}).decoder == RNNSearchConfig()


# ---- overrides ----


def test_overrides_reach_into_presets_lists_and_parts_in_short_form() -> None:
    recipe = load_recipe(
        "multi30k-en-de-tiny",
        {
            "train.steps": 7000,
            "model.decoder.layers.0.repeat": 3,
            "model.decoder.layers[0].mixer": {"kind": "window", "window": 5},
            "model.decoder.layers[0].mixer.window": 6,
            "model.encoder.layer.mixer.num_heads": 2,
            "train.optimizer.betas": [0.5, 0.75],
            "train.optimizer.betas.1": 0.7,
            "train.average": "none",
        },
    )
    assert recipe.train.steps == 7000
    assert [layer.mixer for layer in decoder(recipe).layers] == [WindowConfig(num_heads=4, window=6)] * 3
    assert all(layer.mixer == AttentionConfig(num_heads=2) for layer in recipe.model.encoder.layers)
    assert recipe.train.optimizer.betas == (0.5, 0.7)
    assert recipe.train.average is None


def test_the_preset_itself_can_be_overridden_and_the_recipes_changes_stay() -> None:
    base = load_recipe("multi30k-en-de-tiny", {"model.preset": "transformer-base"})
    assert (base.model.dim, base.model.dropout, base.model.encoder.final_norm) == (512, 0.2, True)
    whole = load_recipe("multi30k-en-de-tiny", {"model.dropout": 0.4, "model": "transformer-base"})
    assert (whole.model.dim, whole.model.dropout, whole.model.encoder.final_norm) == (512, 0.4, False)


def test_a_bare_kind_keeps_what_it_knows_and_a_table_replaces() -> None:
    assert (
        decoder(parse(model__decoder__layers=[{}], model__decoder__layer__mixer="lstm")).layers[0].mixer == LSTMConfig()
    )
    kept = parse(train__schedule={"kind": "inverse_sqrt", "peak": 1, "warmup": 3})
    assert kept.train.schedule.warmup == 3
    assert parse(train__schedule="noam").train.schedule == NoamConfig(dim=24, warmup=0.25)
    assert faults(lambda: parse(train__schedule={"kind": "noam", "dim": 24})) == ["train.schedule.warmup: missing"]


def test_parsing_leaves_its_arguments_alone() -> None:
    data, changes = tomllib.loads(TEXT), {"model.decoder.layer.mixer": {"num_heads": 2}}
    parse_recipe(data, changes)
    assert data == tomllib.loads(TEXT)
    assert changes == {"model.decoder.layer.mixer": {"num_heads": 2}}


# ---- faults, at the place that was written ----


def test_all_faults_of_shape_come_at_once_each_at_the_place_that_was_written() -> None:
    found = faults(
        lambda: load_recipe(
            "multi30k-en-de-tiny",
            {
                "model": "transformer-tinny",
                "model.encoder.layer.mixer.num_heads": 3.5,
                "model.decoder.layers.0.mixer": "atention",
                "model.decoder.layers.0.repeat": 0,
                "model.decoder.layers.4.ffn": "none",
                "train.steps.more": 3,
                "train.stpes": 5,
                "tokenizer": "bpe",
            },
        )
    )
    assert [fault.partition(" valid: ")[0] for fault in found] == [
        'model = "transformer-tinny": no such preset; did you mean "transformer-tiny"?',
        'model.decoder.layers[4].ffn = "none": model.decoder.layers is a list of 1; its entries are numbered from 0',
        "train.steps.more = 3: train.steps is no table",
        "model.decoder.layers[0].repeat = 0: needs a whole number from 1 to 1000",
        "model.encoder.layer.mixer.num_heads = 3.5: needs a whole number",
        'model.decoder.layers[0].mixer.kind = "atention": no such kind; did you mean "attention"?',
        'train.stpes = 5: no such key; did you mean "steps"?',
    ]


def test_all_contradictions_come_at_once_each_at_the_place_that_was_written() -> None:
    found = faults(
        lambda: parse(
            model__decoder__layer__mixer__num_heads=7,
            model__encoder__layers=[{"repeat": 3, "mixer": {"kind": "linear", "num_heads": 5}}],
            train__schedule__warmup=100,
            search__n_best=5,
        )
    )
    assert found == [
        "model.encoder.layers[0].mixer.num_heads = 5: does not divide model.dim = 24; "
        "take one of 1, 2, 3, 4, 6, 8, 12, 24",
        "model.decoder.layer.mixer.num_heads = 7: does not divide model.dim = 24; take one of 1, 2, 3, 4, 6, 8, 12, 24",
        "model.decoder.layer.mixer.num_heads = 7: does not divide model.dim = 24; "
        "take one of 1, 2, 3, 4, 6, 8, 12, 24, or set key_dim and value_dim",
        "train.schedule.warmup = 100: needs to be less than train.steps = 100, or a share of it between 0 and 1",
        "search.n_best = 5: a recipe's search gives one translation; ask for more with `headway translate --nbest`",
    ]


BAD = [
    (
        {"model__encoder__layer": 3},
        [
            "model.encoder.layer = 3: needs a table",
            *(f"model.encoder.layers[0].{key}: missing" for key in ("mixer", "ffn")),
        ],
    ),
    (
        {"model__encoder__layer__repeat": 2},
        ["model.encoder.layer.repeat = 2: the default lies under every layer; repeat an entry of layers"],
    ),
    ({"model__encoder__layr": {}}, ['model.encoder.layr = {}: no such key; did you mean "layer"?']),
    ({"model__encoder__layers": 4}, ["model.encoder.layers = 4: needs a list"]),
    ({"model__encoder__layers": [{"repeat": True}]}, ["model.encoder.layers[0].repeat = true: needs a whole number"]),
    ({"model__encoder__layers": [{"repeat": 10**9}]}, ["model.encoder.layers[0].repeat = 1000000000: needs a whole"]),
    ({"model__encoder__layers": ["lstm"]}, ['model.encoder.layers[0] = "lstm": needs a table']),
    ({"model__encoder__layer__mixer": {"kind": "window"}}, ["model.encoder.layer.mixer.window: missing"]),
    ({"model__decoder__layers__x": 1}, ["model.decoder.layers.x = 1: model.decoder.layers is a list of 2"]),
    ({"model__preset": 3}, ["model.preset = 3: no such preset"]),
    ({"model": 3}, ["model = 3: needs a table"]),
    ({"model__encodr__dim": 3}, ["model.encodr = {dim = 3}: no such key; did you mean"]),
    ({"tokenizer": "bped"}, ['tokenizer.kind = "bped": no such kind; did you mean "bpe"?']),
    ({"data__source": 1}, ["data.source = 1: needs a text in quotes"]),
    ({"": 1}, [" = 1: no such key"]),
]


@pytest.mark.parametrize(("changes", "expected"), BAD, ids=[str(changes)[:50] for changes, _ in BAD])
def test_a_bad_override_is_named(changes: dict[str, Any], expected: list[str]) -> None:
    found = faults(lambda: parse(**changes))
    assert [fault[: len(start)] for fault, start in zip(found, expected, strict=True)] == expected


def test_an_empty_recipe_names_every_section_that_is_missing() -> None:
    assert faults(lambda: parse("")) == [
        "model: missing; valid: seq2seq, lm, encoder",
        "tokenizer: missing; valid: bpe, char_bpe, unigram, wordpiece, word, file",
        "data: missing",
        "train: missing",
    ]


def test_a_key_of_another_kind_of_decoder_is_refused() -> None:
    assert faults(lambda: parse(model__decoder={"kind": "rnnsearch", "layer": {}})) == [
        "model.decoder.layer = {}: no such key; valid: kind, attention_dim, input_feeding"
    ]


# ---- files ----


def test_a_recipe_is_read_from_a_file_whatever_its_line_ends_and_mark(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert load_recipe(path) == load_recipe(str(path)) == parse()


UNREADABLE = [
    (b"[train]\nsteps = many\n", "not TOML: Invalid value (at line 2, column 9); texts need quotes"),
    (b"[a]\n[b]\n[a]\n", "not TOML: Cannot declare ('a',) twice (at line 3, column 3)"),
    (b"# one\n# caf\xe9\n", "not UTF-8 at line 2 (byte 11); save it as UTF-8"),
    (b"\x1f\x8b\x08\x00", "not UTF-8 at line 1 (byte 1); save it as UTF-8"),
]


@pytest.mark.parametrize(("content", "expected"), UNREADABLE)
def test_a_file_that_is_no_toml_is_refused_with_its_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"own\.toml has 1 fault:") as caught:
        load_recipe(path)
    assert str(caught.value.faults[0]).startswith(expected)


def test_a_file_that_is_missing_a_folder_or_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "no.toml"
    assert faults(lambda: load_recipe(missing)) == [
        "there is no such file; check the path, or let `headway init` write one"
    ]
    assert faults(lambda: load_recipe(tmp_path)) == [
        "cannot be read (Is a directory); name a text file that you may read"
    ]

    def locked(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", locked)
    assert faults(lambda: load_recipe("demo")) == [
        "cannot be read (Permission denied); name a text file that you may read"
    ]


def test_an_unknown_name_gets_the_nearest_one() -> None:
    found = faults(lambda: load_recipe("multi30k-en-de-tinny"))
    assert found == [
        f'no such file and no such recipe; did you mean "multi30k-en-de-tiny"? valid: {", ".join(recipe_names())}'
    ]


def test_a_folder_of_the_same_name_does_not_hide_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert load_recipe("demo").model.dim == 128


# ---- the recipes of the package ----


def test_the_recipes_of_the_package_are_these() -> None:
    ours = ("diversified", "linear", "published", "rnnsearch", "small-batches", "tiny", "window")
    german = [f"multi30k-en-de-{name}" for name in ours]
    french = [f"multi30k-en-fr-{name}" for name in ("published", "small-batches")]
    paper = [f"wmt14-en-{name}" for name in ("de-base", "de-big", "fr-big")]
    multi30k = [*german, *french]
    captions, masked = ["captions-spans", "captions-translated"], ["english-masked", "english-masked-albert"]
    family = ["sentence-vectors", "shakespeare-char-lm", "sst-fine-tuned", "sst-from-scratch"]
    others = [*captions, "demo", *masked, "enja-50k", "libreoffice-en-de"]
    assert recipe_names() == [*others, *multi30k, *family, "starter", *paper]


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_of_the_package_loads_and_comes_back_from_toml(name: str) -> None:
    recipe = load_recipe(name)
    assert parse(dump_toml(recipe)) == recipe


def test_the_four_tenants_learn_from_the_same_data_and_pieces() -> None:
    recipes = [load_recipe(f"multi30k-en-de-{name}") for name in ("linear", "rnnsearch", "tiny", "window")]
    assert len({(recipe.data, recipe.tokenizer) for recipe in recipes}) == 1


@pytest.mark.parametrize("name", [name for name in recipe_names() if not name.startswith("wmt14")])
def test_a_shipped_recipe_but_the_papers_own_can_be_made_short_by_its_steps_alone(name: str) -> None:
    assert load_recipe(name, {"train.steps": 100}).train.steps == 100


TEXTS = {"text", "second", "labels", "valid_text", "valid_second", "valid_labels"}
"""Keys of [data] for objectives that read texts; the starter is of pairs."""


def test_the_starter_loads_with_every_key_explained_and_shows_the_true_defaults() -> None:
    text = starter_recipe()
    recipe = parse(text)
    keys = [line for line in text.splitlines() if " = " in line and not line.startswith("#")]
    explained = [line for line in keys if " # " in line or "residual" in line or line.startswith("kind")]
    assert keys == explained
    for section in ("data", "train", "search"):
        config = getattr(recipe, section)
        for name in type(config).model_fields.keys() - {"n_best"} - TEXTS:
            assert f"{name} = " in text or f".{name}]" in text or f"{name}." in text, f"{section}.{name} is not shown"
    left_out = parse("\n".join(line for line in text.splitlines() if not line.startswith(("accumulate", "holdout"))))
    assert left_out == recipe
    assert recipe.search == parse().search
    assert recipe.train.optimizer == parse().train.optimizer


def test_the_starter_takes_the_files_it_is_given() -> None:
    recipe = parse(starter_recipe(source='my "best".en', target="C:\\x.ja"))
    assert (recipe.data.source, recipe.data.target) == ('my "best".en', "C:\\x.ja")


# ---- writing ----

WRITTEN = [
    {},
    {"train__clip": "none", "train__patience": 3, "train__average": {"kind": "best", "num": 1}},
    {"train__lora": {"rank": 4, "alpha": 2.5}},
    {"train__schedule": {"kind": "inverse_sqrt", "peak": 1e22, "warmup": 7}, "train__optimizer__eps": 1e-300},
    {"data__source": 'tab\t"quote" \\ \u2028 \x7f \x01 \u00fc \U0001f600', "data__source_language": "en"},
    {"data__valid_source": "c", "data__valid_target": "d"},
    {"tokenizer": {"kind": "file", "path": "t.json"}, "model__position": {"kind": "learned", "max_len": 300}},
    {"model__decoder": "rnnsearch", "model__encoder__layer__mixer": {"kind": "gru", "bidirectional": True}},
    {"model__decoder__layers": [{"mixer": "lstm"}, {}, {}, {"cross": {"num_heads": 2}, "mixer": "lstm"}]},
]


@pytest.mark.parametrize("changes", WRITTEN, ids=[str(changes)[:40] for changes in WRITTEN])
def test_what_is_written_loads_back_equal(changes: dict[str, Any]) -> None:
    recipe = parse(**changes)
    assert parse(dump_toml(recipe)) == recipe


def test_what_is_written_is_pleasant_to_read_and_to_override() -> None:
    text = dump_toml(load_recipe("multi30k-en-de-tiny"))
    assert 'layers = [{repeat = 4}]\n\n[model.encoder.layer]\nmixer = {kind = "attention", num_heads = 4' in text
    assert "holdout" not in text, "validation files are named"
    post = parse(text, model__encoder__layer__residual="post", model__encoder__final_norm=False)
    assert {layer.residual for layer in post.model.encoder.layers} == {"post"}


# ---- paths ----


def test_paths_start_at_the_recipes_folder_and_know_home_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("HEADWAY_DATA", "/corpora")
    written = parse(
        data__source="sub/a.en",
        data__target="~/b.de",
        data__valid_source="$HEADWAY_DATA/v.en",
        data__valid_target="${HEADWAY_DATA}/$$5/v$",
        tokenizer={"kind": "file", "path": "../t.json"},
    )
    data = resolve_paths(written, "/recipes").data
    assert (data.source, data.target) == ("/recipes/sub/a.en", "/home/ada/b.de")
    assert (data.valid_source, data.valid_target) == ("/corpora/v.en", "/corpora/$5/v$")
    assert resolve_paths(written, "/recipes").tokenizer == FileTokenizerConfig(path="/recipes/../t.json")
    assert resolve_paths(written, Path("/recipes")).model == written.model


def test_every_variable_that_is_not_set_is_named_but_only_when_paths_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    monkeypatch.setenv("HEADWAY_EMPTY", "")
    recipe = load_recipe("multi30k-en-de-tiny", {"data.target": "${HEADWAY_EMPTY}/x"})
    found = faults(lambda: resolve_paths(recipe, "."))
    assert len(found) == 4
    assert found[:2] == [
        'data.source = "$HEADWAY_DATA/multi30k/train.en.gz": the environment variable HEADWAY_DATA is not set; '
        "set it, or write the path out",
        'data.target = "${HEADWAY_EMPTY}/x": the environment variable HEADWAY_EMPTY is not set; '
        "set it, or write the path out",
    ]


@pytest.mark.parametrize("name", ["plain.en", "$HEADWAY_DATA.en", "~x", "a$$b"])
def test_a_literal_path_means_this_very_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = parse(data__source=literal_path(name))
    assert resolve_paths(recipe, "/elsewhere").data.source == os.path.join(os.getcwd(), name)


def test_a_recipes_folder_is_its_own_and_for_recipes_of_the_package_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own.toml").write_text(TEXT)
    assert recipe_folder("sub/own.toml") == tmp_path / "sub"
    assert recipe_folder("demo") == tmp_path
