"""Configs on their own: strictness, defaults, and every fault of both passes in exact words."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from contract.tenants import kinds
from headway.architecture import (
    ALiBiConfig,
    AttentionConfig,
    BucketsConfig,
    ExpertsConfig,
    GRUConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LinearAttentionConfig,
    Llama3ScalingConfig,
    LSTMConfig,
    MixerConfig,
    NoFFNConfig,
    OutputConfig,
    PlainFFNConfig,
    RNNSearchConfig,
    RotaryConfig,
    Seq2SeqConfig,
    ShawConfig,
    SinusoidConfig,
    StackConfig,
    TUPEConfig,
    WindowConfig,
)
from headway.check import check
from headway.config import (
    AdamConfig,
    AverageConfig,
    ConfigError,
    CorpusConfig,
    DataConfig,
    InverseSqrtConfig,
    NoamConfig,
    Recipe,
    SearchConfig,
    TrainConfig,
)
from headway.strict import MISSING, Fault, show, validate

MIXERS = ", ".join(kind.model_fields["kind"].default for kind in kinds(MixerConfig))
FFNS = "relu, gelu, gelu_tanh, gelu_sigmoid, silu, glu, reglu, geglu, geglu_tanh, swiglu, bilinear, experts, none"


def layer(mixer: Any = None, **changes: Any) -> LayerConfig:
    return LayerConfig(
        **({"mixer": mixer or AttentionConfig(num_heads=4), "ffn": PlainFFNConfig(kind="relu", dim=20)} | changes)
    )


def stack(*layers: LayerConfig, **changes: Any) -> StackConfig:
    return StackConfig(layers=layers or (layer(), layer()), **changes)


def model(**changes: Any) -> Seq2SeqConfig:
    return Seq2SeqConfig(**({"dim": 12, "encoder": stack(), "decoder": stack()} | changes))


def recipe(**changes: Any) -> Recipe:
    plain = {
        "model": model(),
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "data": DataConfig(source="a.en", target="a.de"),
        "train": train(),
    }
    return Recipe(**(plain | changes))


def train(**changes: Any) -> TrainConfig:
    return TrainConfig(**({"steps": 1000, "schedule": InverseSqrtConfig(peak=1e-3, warmup=10)} | changes))


def words(faults: list[Fault]) -> list[str]:
    return [str(fault) for fault in faults]


# ---- what configs accept ----


def test_a_plain_recipe_has_no_contradictions() -> None:
    assert check(recipe()) == []


def test_configs_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        model().dim = 13  # pyright: ignore[reportAttributeAccessIssue]


def test_whole_numbers_stand_for_floats_and_lists_for_tuples_and_nothing_else_is_converted() -> None:
    config, faults = validate(AdamConfig, {"betas": [0, 0.5], "eps": 1})
    assert faults == []
    assert config == AdamConfig(betas=(0.0, 0.5), eps=1.0)
    assert config is not None
    assert isinstance(config.eps, float)
    _, faults = validate(AdamConfig, {"betas": ["0", True], "eps": "1"})
    assert words(faults) == [
        'betas[0] = "0": needs a number',
        "betas[1] = true: needs a number",
        'eps = "1": needs a number',
    ]


def test_warmup_keeps_a_number_of_steps_whole_and_a_share_a_float() -> None:
    steps, share = NoamConfig(dim=12, warmup=1), NoamConfig(dim=12, warmup=0.5)
    assert (type(steps.warmup), type(share.warmup)) == (int, float)


@pytest.mark.parametrize(("residuals", "expected"), [(("post", "post"), False), (("post", "pre"), True)])
def test_a_stack_ends_with_a_norm_if_any_layer_is_pre(residuals: tuple[Any, ...], expected: bool) -> None:
    layers = [layer(residual=residual) for residual in residuals]
    assert stack(*layers).final_norm is expected
    assert stack(*layers, final_norm=not expected).final_norm is not expected


def test_none_in_quotes_switches_off_what_can_be_off() -> None:
    config, faults = validate(
        TrainConfig,
        {
            "steps": 9,
            "schedule": {"kind": "noam", "dim": 12, "warmup": 3},
            "clip": "none",
            "patience": "none",
            "average": "none",
        },
    )
    assert config is not None, faults
    assert (config.clip, config.patience, config.average) == (None, None, None)


@pytest.mark.parametrize("config", [recipe(), recipe(train=train(clip=None)), recipe(model=model(dim=24))])
def test_a_config_survives_json(config: Recipe) -> None:
    again, faults = validate(Recipe, json.loads(json.dumps(config.model_dump(mode="json"))))
    assert (again, faults) == (config, [])


def test_the_defaults_are_those_of_the_papers() -> None:
    config = recipe()
    assert config.model.dropout == 0.1
    assert config.model.position == SinusoidConfig()
    assert (config.model.tie, config.model.scale_embedding) == ("all", True)
    assert config.train.optimizer == AdamConfig(betas=(0.9, 0.98), eps=1e-9)
    assert config.train.smoothing.epsilon == 0.1
    assert (config.search.beam, config.search.penalty.alpha, config.search.max_extra) == (4, 0.6, 50)


# ---- first pass ----

LAYER = {"mixer": {"kind": "attention"}, "ffn": {"kind": "none"}}


def test_every_fault_of_shape_is_found_at_once_with_its_path_value_and_nearest_name() -> None:
    bad = {
        "dim": 12.5,
        "dropout": 1,
        "drop": 3,
        "tie": "al",
        "encoder": {
            "layers": [
                {"mixer": {"kind": "window", "window": 0, "num_head": 3}, "ffn": {"kind": "relu"}, "residual": "prr"},
                {"mixer": {"kind": "atention"}, "ffn": {}, "cross": 3},
                7,
            ]
        },
        "decoder": {"kind": "stack", "layers": [], "final_norm": 1},
        "position": 3,
    }
    assert words(validate(Seq2SeqConfig, bad, ("model",))[1]) == [
        "model.dim = 12.5: needs a whole number",
        "model.dropout = 1: needs to be less than 1",
        "model.position = 3: needs a table with a kind, or the name of a kind; valid: sinusoid, learned, none",
        'model.tie = "al": no such choice; did you mean "all"? valid: all, output, source, none',
        "model.encoder.layers[0].mixer.window = 0: needs to be more than 0",
        "model.encoder.layers[0].mixer.num_head = 3: no such key; "
        f'did you mean "num_heads"? valid: {", ".join(WindowConfig.model_fields)}',
        "model.encoder.layers[0].ffn.dim: missing",
        'model.encoder.layers[0].residual = "prr": no such choice; did you mean "pre"? valid: '
        "post, pre, sandwich, parallel, deepnorm, none",
        f'model.encoder.layers[1].mixer.kind = "atention": no such kind; did you mean "attention"? valid: {MIXERS}',
        "model.encoder.layers[1].cross = 3: needs a table",
        f"model.encoder.layers[1].ffn.kind: missing; valid: {FFNS}",
        "model.encoder.layers[2] = 7: needs a table",
        "model.decoder.layers = []: needs 1 or more entries",
        "model.decoder.final_norm = 1: needs true or false",
        f'model.drop = 3: no such key; did you mean "dropout"? valid: {", ".join(Seq2SeqConfig.model_fields)}, preset',
    ]


NO_TAG = 'needs a language tag, 2 or 3 letters and then subtags: "en", "de", "pt-BR"'
ONE_FAULT = [
    (AverageConfig, {"kind": "lost", "num": 2}, 'kind = "lost": no such kind; did you mean "last"? valid: last, best'),
    (AverageConfig, {"num": 2}, "kind: missing"),
    (AdamConfig, {"betas": 3}, "betas = 3: needs a list"),
    (AdamConfig, {"betas": [0.1]}, "betas[1]: missing"),
    (AdamConfig, {"betas": [0.1, 0.2, 0.3]}, "betas = [0.1, 0.2, 0.3]: needs 2 entries"),
    (AdamConfig, {"betas": [0.1, 1.0]}, "betas[1] = 1.0: needs to be less than 1"),
    (AdamConfig, {"eps": float("nan")}, "eps = nan: needs a finite number"),
    (AdamConfig, {"eps": float("inf")}, "eps = inf: needs a finite number"),
    (
        DataConfig,
        {"source": "a", "target": "b", "source_language": "english"},
        'source_language = "english": ' + NO_TAG,
    ),
    (CorpusConfig, {"path": "a.po", "target_language": "deutsch"}, 'target_language = "deutsch": ' + NO_TAG),
    (DataConfig, {"source": "", "target": "b"}, 'source = "": needs a text that is not empty'),
    (DataConfig, {"source": 3, "target": "b"}, "source = 3: needs a text in quotes"),
    (DataConfig, {"source": "a", "target": "b", "max_len": True}, "max_len = true: needs a whole number"),
    (SearchConfig, {"max_extra": -1}, "max_extra = -1: needs to be 0 or more"),
    (SearchConfig, {"penalty": {"kind": "power"}}, "penalty.alpha: missing"),
    (
        LayerConfig,
        LAYER | {"mixer": {"kind": 3}},
        f"mixer.kind = 3: no such kind; valid: {MIXERS}",
    ),
    (RNNSearchConfig, {"attention_dim": "x" * 200}, f'attention_dim = "{"x" * 76}...: needs a whole number'),
    (
        NoamConfig,
        {"dim": 12, "warmup": 1.5},
        "warmup = 1.5: needs a whole number of steps, or a share of train.steps between 0 and 1",
    ),
    (
        NoamConfig,
        {"dim": 12, "warmup": True},
        "warmup = true: needs a whole number of steps, or a share of train.steps between 0 and 1",
    ),
]


@pytest.mark.parametrize(("cls", "data", "expected"), ONE_FAULT, ids=[expected[:40] for _, _, expected in ONE_FAULT])
def test_a_fault_of_shape_says_where_what_and_how(cls: Any, data: dict[str, Any], expected: str) -> None:
    config, faults = validate(cls, data)
    assert (config, words(faults)) == (None, [expected])


@pytest.mark.parametrize("size", [-1, 0, 259])
def test_a_byte_level_vocabulary_holds_the_bytes_and_the_control_tokens(size: int) -> None:
    _, faults = validate(Recipe, recipe().model_dump() | {"tokenizer": {"kind": "bpe", "vocab_size": size}})
    assert words(faults) == [f"tokenizer.vocab_size = {size}: needs to be 260 or more"]


def test_values_are_shown_as_toml_writes_them() -> None:
    assert show({"a": [True, "x", 1e-9], "b": {"c": 3}}) == '{a = [true, "x", 1e-09], b = {c = 3}}'


def test_the_error_lists_all_faults_and_keeps_them() -> None:
    faults = [Fault(("train", "steps"), 0, "too few"), Fault(("data",), MISSING, "missing")]
    error = ConfigError(faults, "my.toml")
    assert isinstance(error, ValueError)
    assert error.faults == faults
    assert str(error) == "my.toml has 2 faults:\n  train.steps = 0: too few\n  data: missing"


# ---- second pass ----

GRU, LSTM = GRUConfig(), LSTMConfig()
BOTH_WAYS = GRUConfig(bidirectional=True)

LEVEL = Llama3ScalingConfig(low=1.0, high=1.0)
MODEL_FAULTS = [
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=5)))},
        "model.encoder.layers[0].mixer.num_heads = 5: does not divide model.dim = 12; "
        "take one of 1, 2, 3, 4, 6, 12, or set key_dim and value_dim",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=5, key_dim=3)))},
        "model.encoder.layers[0].mixer.num_heads = 5: does not divide model.dim = 12; "
        "take one of 1, 2, 3, 4, 6, 12, or set key_dim and value_dim",
    ),
    (
        {"decoder": stack(layer(), layer(LinearAttentionConfig(num_heads=8), cross=AttentionConfig(num_heads=3)))},
        "model.decoder.layers[1].mixer.num_heads = 8: does not divide model.dim = 12; take one of 1, 2, 3, 4, 6, 12",
    ),
    (
        {"decoder": stack(layer(cross=AttentionConfig(num_heads=7)))},
        "model.decoder.layers[0].cross.num_heads = 7: does not divide model.dim = 12; "
        "take one of 1, 2, 3, 4, 6, 12, or set key_dim and value_dim",
    ),
    (
        {"decoder": stack(layer(LSTM))},
        "model.decoder.layers[0].cross: missing; its default of 8 heads does not divide model.dim = 12; "
        "set cross.num_heads",
    ),
    (
        {"decoder": stack(layer(BOTH_WAYS, cross=AttentionConfig(num_heads=3)))},
        "model.decoder.layers[0].mixer.bidirectional = true: a decoder may not look ahead; set it to false",
    ),
    (
        {"dim": 13, "encoder": stack(layer(BOTH_WAYS)), "decoder": RNNSearchConfig()},
        "model.encoder.layers[0].mixer.bidirectional = true: each direction gets half of model.dim = 13; "
        "take an even dim, or one direction (false)",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=6, num_kv_heads=4)))},
        "model.encoder.layers[0].mixer.num_kv_heads = 4: does not divide num_heads = 6; take one of 1, 2, 3, 6",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=4, position=RotaryConfig())))},
        'model.encoder.layers[0].mixer.position = "rotary": turns pairs, and key_dim = 3 is odd; take an even one',
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=3, position=RotaryConfig(share=0.75))))},
        "model.encoder.layers[0].mixer.position.share = 0.75: of key_dim = 4 are 3 coordinates, which turn in pairs; "
        "take an even number, 2 or more",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=3, position=BucketsConfig(num_buckets=9))))},
        "model.encoder.layers[0].mixer.position.num_buckets = 9: half of the buckets are for what lies ahead; "
        "take an even number",
    ),
    (
        {"decoder": stack(layer(AttentionConfig(num_heads=3, position=BucketsConfig(num_buckets=9, max_distance=4))))},
        "model.decoder.layers[0].mixer.position.max_distance = 4: the 4 nearest distances have buckets of their own; "
        "take more than 4 (T5: 128)",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=3, position=RotaryConfig(scaling=LEVEL))))},
        "model.encoder.layers[0].mixer.position.scaling.high = 1.0: needs to be above low = 1; Llama 3.1 has 4 and 1",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=5, key_dim=3, value_dim=3, position=TUPEConfig(max_len=9))))},
        "model.encoder.layers[0].mixer.num_heads = 5: does not divide model.dim = 12, as tupe needs; "
        "take one of 1, 2, 3, 4, 6, 12",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=3, key_dim=(4, 4))))},
        "model.encoder.layers[0].mixer.key_dim = [4, 4]: has 2 widths, and num_heads = 3; give one for each head",
    ),
    (
        {"encoder": stack(layer(AttentionConfig(num_heads=3, key_dim=(4, 3, 5), value_dim=4, position=ShawConfig())))},
        'model.encoder.layers[0].mixer.position = "shaw": needs heads of one width; '
        "give a single key_dim and value_dim, or drop it",
    ),
    (
        {"decoder": stack(layer(cross=AttentionConfig(num_heads=3, position=ALiBiConfig())))},
        'model.decoder.layers[0].cross.position = "alibi": places of two texts have no distance between them; drop it',
    ),
    (
        {"encoder": stack(layer(ffn=ExpertsConfig(expert=PlainFFNConfig(kind="relu", dim=5), num=3, top_k=4)))},
        "model.encoder.layers[0].ffn.top_k = 4: there are num = 3 experts; take 3 or less",
    ),
    (
        {"fix_norm": True, "output": OutputConfig(bias=True)},
        "model.output.bias = true: unit vectors have no room for a bias (model.fix_norm); set it to false",
    ),
    (
        {"encoder": stack(layer(cross=AttentionConfig(num_heads=3)))},
        'model.encoder.layers[0].cross = "attention": an encoder has nothing else to look at; drop it',
    ),
    (
        {"encoder": stack(layer(residual="none", norm=LayerNormConfig(eps=1e-6)), layer())},
        'model.encoder.layers[0].norm.eps = 1e-06: not used where residual is "none"; drop it, '
        'or take residual "post" or "pre"',
    ),
]

RECIPE_FAULTS = [
    (
        {"data": DataConfig(source="a", target="b", valid_source="c")},
        'data.valid_source = "c": needs data.valid_target with it',
    ),
    (
        {"data": DataConfig(source="a", target="b", valid_target="c")},
        'data.valid_target = "c": needs data.valid_source with it',
    ),
    (
        {"data": DataConfig(source="a", target="b", valid_source="c", valid_target="d", holdout_most=9)},
        "data.holdout_most = 9: not used where validation files are named; drop it, "
        "or drop valid_source and valid_target",
    ),
    (
        {"model": model(position=LearnedConfig(max_len=256))},
        "model.position.max_len = 256: too few for data.max_len = 256 tokens and the end token; take 257 or more",
    ),
    (
        {"train": train(schedule=InverseSqrtConfig(peak=1, warmup=1000))},
        "train.schedule.warmup = 1000: needs to be less than train.steps = 1000, or a share of it between 0 and 1",
    ),
    (
        {"train": train(schedule=NoamConfig(dim=512, warmup=10))},
        "train.schedule.dim = 512: needs to be model.dim = 12; scale the rate by factor",
    ),
    (
        {"train": train(average=AverageConfig(kind="last", num=6), save_every=10)},
        "train.average.num = 6: more than train.keep = 5 checkpoints are kept; raise keep or lower num",
    ),
    (
        {"search": SearchConfig(beam=2, n_best=3)},
        "search.n_best = 3: a recipe's search gives one translation; ask for more with `headway translate --nbest`",
    ),
    (
        {"search": SearchConfig(max_ratio=0, max_extra=0)},
        "search.max_extra = 0: with max_ratio = 0 nothing may be written; raise one of them",
    ),
]


@pytest.mark.parametrize(("changes", "expected"), MODEL_FAULTS, ids=[expected[:60] for _, expected in MODEL_FAULTS])
def test_a_contradiction_in_a_model_is_named(changes: dict[str, Any], expected: str) -> None:
    assert words(check(model(**changes))) == [expected]
    assert expected in words(check(recipe(model=model(**changes))))


@pytest.mark.parametrize(("changes", "expected"), RECIPE_FAULTS, ids=[expected[:60] for _, expected in RECIPE_FAULTS])
def test_a_contradiction_in_a_recipe_is_named(changes: dict[str, Any], expected: str) -> None:
    assert words(check(recipe(**changes))) == [expected]


def test_all_contradictions_are_found_at_once() -> None:
    several = [*MODEL_FAULTS[:1], *RECIPE_FAULTS[4:6], *RECIPE_FAULTS[7:]]
    bad = recipe(
        model=model(encoder=stack(layer(AttentionConfig(num_heads=5)))),
        train=train(schedule=NoamConfig(dim=512, warmup=1000)),
        search=SearchConfig(beam=2, n_best=3, max_ratio=0, max_extra=0),
    )
    assert words(check(bad)) == [expected for _, expected in several]


CONSISTENT = [
    {"encoder": stack(layer(AttentionConfig(num_heads=5, key_dim=3, value_dim=7)))},
    {"encoder": stack(layer(BOTH_WAYS, ffn=NoFFNConfig(), residual="none")), "decoder": RNNSearchConfig()},
    {"decoder": stack(layer(LSTM, cross=AttentionConfig(num_heads=3)), layer(WindowConfig(num_heads=4, window=3)))},
    {"dim": 16, "decoder": stack(layer(GRU))},
    {"encoder": stack(layer(residual="none", norm=LayerNormConfig(eps=1e-6)), final_norm=True)},  # the norm at the end
]


@pytest.mark.parametrize("changes", CONSISTENT)
def test_what_works_together_is_accepted(changes: dict[str, Any]) -> None:
    assert check(model(**changes)) == []
