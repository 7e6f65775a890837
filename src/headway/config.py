"""What a Headway run is made of, as frozen, strict, nested configs tagged by `kind`. No torch, no files.

Two passes: `headway.strict.validate` finds every fault of shape (unknown key, wrong type, value out of range), and
`check` every contradiction between values that are fine alone. `headway.recipe` reads and writes these configs as TOML,
and `headway.build` turns them into modules. Defaults are written here and nowhere else.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from headway.strict import MISSING, Config, Fault, Where
from headway.strict import ConfigError as ConfigError

Size = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0)]
Exponent = Annotated[float, Field(ge=0, le=10)]
Share = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]


def _warmup(value: object) -> int | float:
    """A plain function, because pydantic's union of int and float would report every fault twice."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, float) and 0 < value < 1:
        return value
    raise ValueError("needs a whole number of steps, or a share of train.steps between 0 and 1")


Warmup = Annotated[int | float, PlainValidator(_warmup)]

# TOML has no null, so "none" says that something is switched off.
OFF = BeforeValidator(lambda value: None if value == "none" else value)


# ---- mixers: what moves information between positions ----


class AttentionConfig(Config):
    kind: Literal["attention"] = "attention"
    num_heads: Size = 8
    key_dim: Size | None = None  # per head; None: dim / num_heads
    value_dim: Size | None = None  # per head; None: dim / num_heads
    bias: bool = True
    dropout: Share = 0.0  # of the attention weights


class WindowConfig(Config):
    """Causal attention that sees itself and the `window - 1` positions before."""

    kind: Literal["window"] = "window"
    num_heads: Size = 8
    window: Size
    bias: bool = True


class LinearAttentionConfig(Config):
    kind: Literal["linear"] = "linear"
    num_heads: Size = 8
    bias: bool = True


class LSTMConfig(Config):
    kind: Literal["lstm"] = "lstm"
    bidirectional: bool = False


class GRUConfig(Config):
    kind: Literal["gru"] = "gru"
    bidirectional: bool = False


MixerConfig = Annotated[
    AttentionConfig | WindowConfig | LinearAttentionConfig | LSTMConfig | GRUConfig, Field(discriminator="kind")
]


# ---- layers and stacks ----


class ReLUConfig(Config):
    kind: Literal["relu"] = "relu"
    dim: Size


class NoFFNConfig(Config):
    kind: Literal["none"] = "none"


FFNConfig = Annotated[ReLUConfig | NoFFNConfig, Field(discriminator="kind")]


class LayerNormConfig(Config):
    kind: Literal["layernorm"] = "layernorm"
    eps: Positive = 1e-5


class LayerConfig(Config):
    mixer: MixerConfig
    cross: AttentionConfig | None = None  # None in a decoder: like the mixer where that has heads, else 8 heads
    ffn: FFNConfig
    residual: Literal["post", "pre", "none"] = "post"
    norm: LayerNormConfig = LayerNormConfig()

    toml_keys: ClassVar = ("repeat",)


class StackConfig(Config):
    kind: Literal["stack"] = "stack"
    layers: Annotated[tuple[LayerConfig, ...], Field(strict=False, min_length=1)]
    final_norm: bool = Field(  # pre-norm leaves the stream unnormalised at the end
        default_factory=lambda data: any(layer.residual == "pre" for layer in data["layers"])
    )

    toml_keys: ClassVar = ("layer",)


class RNNSearchConfig(Config):
    kind: Literal["rnnsearch"] = "rnnsearch"
    attention_dim: Size | None = None  # None: dim
    input_feeding: bool = True


DecoderConfig = Annotated[StackConfig | RNNSearchConfig, Field(discriminator="kind")]


# ---- models ----


class SinusoidConfig(Config):
    kind: Literal["sinusoid"] = "sinusoid"


class LearnedConfig(Config):
    kind: Literal["learned"] = "learned"
    max_len: Size


class NoPositionConfig(Config):
    """For recurrent layers, which know the order anyway."""

    kind: Literal["none"] = "none"


PositionConfig = Annotated[SinusoidConfig | LearnedConfig | NoPositionConfig, Field(discriminator="kind")]


class Seq2SeqConfig(Config):
    kind: Literal["seq2seq"] = "seq2seq"
    dim: Size
    dropout: Share = 0.1
    tie: Literal["all", "output", "none"] = "all"  # output: target embedding and output; all: the source's too
    scale_embedding: bool = True
    position: PositionConfig = SinusoidConfig()
    encoder: StackConfig
    decoder: DecoderConfig

    toml_keys: ClassVar = ("preset",)


ModelConfig = Seq2SeqConfig


# ---- text and data ----


class LanguagesConfig(Config):
    """What is known of the two sides of a model folder."""

    source: Text | None = None
    target: Text | None = None


class BPEConfig(Config):
    kind: Literal["bpe"] = "bpe"
    vocab_size: Annotated[int, Field(ge=260)]  # 256 bytes and four control tokens


class UnigramConfig(Config):
    kind: Literal["unigram"] = "unigram"
    vocab_size: Annotated[int, Field(ge=260)]


class FileTokenizerConfig(Config):
    kind: Literal["file"] = "file"
    path: Text


TokenizerConfig = Annotated[BPEConfig | UnigramConfig | FileTokenizerConfig, Field(discriminator="kind")]


class DataConfig(Config):
    source: Text
    target: Text
    valid_source: Text | None = None
    valid_target: Text | None = None
    holdout_share: Annotated[float, Field(gt=0, lt=1)] = 0.05  # held out for validation where no files are named for it
    holdout_most: Size = 2000
    source_language: Text | None = None
    target_language: Text | None = None
    max_len: Size = 256


# ---- training ----


class AdamConfig(Config):
    kind: Literal["adam"] = "adam"
    betas: Annotated[tuple[Share, Share], Field(strict=False)] = (0.9, 0.98)
    eps: Positive = 1e-9


class NoamConfig(Config):
    kind: Literal["noam"] = "noam"
    dim: Size
    warmup: Warmup
    factor: Positive = 1.0


class InverseSqrtConfig(Config):
    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    peak: Positive
    warmup: Warmup


ScheduleConfig = Annotated[NoamConfig | InverseSqrtConfig, Field(discriminator="kind")]


class UniformSmoothingConfig(Config):
    """Epsilon is spread over the whole vocabulary (torch)."""

    kind: Literal["uniform"] = "uniform"
    epsilon: Share = 0.1


class OthersSmoothingConfig(Config):
    """Epsilon is spread over the wrong tokens only (fairseq)."""

    kind: Literal["others"] = "others"
    epsilon: Share = 0.1


SmoothingConfig = Annotated[UniformSmoothingConfig | OthersSmoothingConfig, Field(discriminator="kind")]


class AverageConfig(Config):
    kind: Literal["last", "best"]
    num: Size


class TrainConfig(Config):
    steps: Size
    batch_tokens: Size = 4096  # padded source and target tokens of one forward
    accumulate: Size = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    optimizer: AdamConfig = AdamConfig()
    schedule: ScheduleConfig
    smoothing: SmoothingConfig = UniformSmoothingConfig()
    clip: Annotated[Positive | None, OFF] = 1.0  # of the gradient's norm; None: no clipping
    dtype: Literal["float32", "bfloat16"] = "float32"
    validate_every: Size = 500
    save_every: Size = 500
    keep: Size = 5
    patience: Annotated[Size | None, OFF] = None  # validations without a better loss before stopping; None: never
    average: Annotated[AverageConfig | None, OFF] = None  # None: the last weights as they are


# ---- search ----


class GNMTConfig(Config):
    kind: Literal["gnmt"] = "gnmt"
    alpha: Exponent = 0.6


class PowerConfig(Config):
    kind: Literal["power"] = "power"
    alpha: Exponent


PenaltyConfig = Annotated[GNMTConfig | PowerConfig, Field(discriminator="kind")]


class SearchConfig(Config):
    beam: Size = 4
    penalty: PenaltyConfig = GNMTConfig()
    stop: Literal["first", "exact"] = "first"
    max_ratio: Ratio = 1.0  # the output may have max_ratio * source tokens + max_extra
    max_extra: Count = 50
    n_best: Size = 1


class Recipe(Config):
    model: ModelConfig
    tokenizer: TokenizerConfig
    data: DataConfig
    train: TrainConfig
    search: SearchConfig = SearchConfig()


# ---- second pass: contradictions ----


def check(config: Recipe | Seq2SeqConfig) -> list[Fault]:
    """All contradictions between values that are fine alone."""
    if isinstance(config, Seq2SeqConfig):
        return check_model(config)
    faults = [*check_model(config.model), *check_data(config), *check_train(config)]
    if config.search.n_best != 1:
        wrong = "a recipe's search gives one translation; ask for more with `headway translate --nbest`"
        faults.append(Fault(("search", "n_best"), config.search.n_best, wrong))
    return [*faults, *check_search(config.search.model_copy(update={"n_best": 1}))]


def check_model(model: Seq2SeqConfig) -> list[Fault]:
    faults = []
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if not isinstance(stack, StackConfig):
            continue
        for index, layer in enumerate(stack.layers):
            where = ("model", side, "layers", index)
            faults += _check_heads(model.dim, layer, where, side)
            faults += _check_direction(model.dim, layer.mixer, (*where, "mixer"), side)
            if side == "encoder" and layer.cross is not None:
                faults.append(
                    Fault((*where, "cross"), layer.cross.kind, "an encoder has nothing else to look at; drop it")
                )
            ends = stack.final_norm and index == len(stack.layers) - 1  # its norm is then used after the stack
            if layer.residual == "none" and layer.norm != LayerNormConfig() and not ends:
                wrong = 'not used where residual is "none"; drop it, or take residual "post" or "pre"'
                faults.append(Fault((*where, "norm", "eps"), layer.norm.eps, wrong))
    return faults


def _check_heads(dim: int, layer: LayerConfig, where: Where, side: str) -> Iterator[Fault]:
    for name, part in (("mixer", layer.mixer), ("cross", layer.cross)):
        if part is None or (isinstance(part, AttentionConfig) and part.key_dim and part.value_dim):
            continue
        heads = dict(part).get("num_heads")
        if heads is not None and dim % heads:
            wrong = f"does not divide model.dim = {dim}; take one of {_divisors(dim)}"
            remedy = ", or set key_dim and value_dim" if isinstance(part, AttentionConfig) else ""
            yield Fault((*where, name, "num_heads"), heads, wrong + remedy)
        default = AttentionConfig().num_heads  # what a decoder looks at the source with where its mixer has no heads
        if heads is None and side == "decoder" and layer.cross is None and dim % default:
            wrong = f"missing; its default of {default} heads does not divide model.dim = {dim}; set cross.num_heads"
            yield Fault((*where, "cross"), MISSING, wrong)


def _divisors(dim: int) -> str:
    return ", ".join(str(heads) for heads in range(1, min(dim, 64) + 1) if dim % heads == 0)


def _check_direction(dim: int, mixer: Config, where: Where, side: str) -> Iterator[Fault]:
    match mixer:
        case WindowConfig() | LinearAttentionConfig() if side == "encoder":
            wrong = "looks back only, and an encoder looks both ways; take attention, or a bidirectional lstm or gru"
            yield Fault((*where, "kind"), mixer.kind, wrong)
        case LSTMConfig(bidirectional=False) | GRUConfig(bidirectional=False) if side == "encoder":
            yield Fault((*where, "bidirectional"), False, "an encoder looks both ways; set it to true")
        case LSTMConfig(bidirectional=True) | GRUConfig(bidirectional=True) if side == "decoder":
            yield Fault((*where, "bidirectional"), True, "a decoder may not look ahead; set it to false")
        case LSTMConfig(bidirectional=True) | GRUConfig(bidirectional=True) if dim % 2:
            yield Fault(
                (*where, "bidirectional"), True, f"each direction gets half of model.dim = {dim}; take an even dim"
            )
        case _:
            pass


def check_data(recipe: Recipe) -> list[Fault]:
    data, position, faults = recipe.data, recipe.model.position, []
    for one, other in (("valid_source", "valid_target"), ("valid_target", "valid_source")):
        if getattr(data, one) is not None and getattr(data, other) is None:
            faults.append(Fault(("data", one), getattr(data, one), f"needs data.{other} with it"))
    if data.valid_source is not None or data.valid_target is not None:
        for name in ("holdout_share", "holdout_most"):
            if getattr(data, name) != DataConfig.model_fields[name].default:
                wrong = "not used where validation files are named; drop it, or drop valid_source and valid_target"
                faults.append(Fault(("data", name), getattr(data, name), wrong))
    if isinstance(position, LearnedConfig) and position.max_len <= data.max_len:
        wrong = f"too few for data.max_len = {data.max_len} tokens and the end token; take {data.max_len + 1} or more"
        faults.append(Fault(("model", "position", "max_len"), position.max_len, wrong))
    return faults


def check_train(recipe: Recipe) -> list[Fault]:
    train, faults = recipe.train, []
    warmup = train.schedule.warmup
    if warmup >= train.steps:
        wrong = f"needs to be less than train.steps = {train.steps}, or a share of it between 0 and 1"
        faults.append(Fault(("train", "schedule", "warmup"), warmup, wrong))
    if isinstance(train.schedule, NoamConfig) and train.schedule.dim != recipe.model.dim:
        wrong = f"needs to be model.dim = {recipe.model.dim}; scale the rate by factor"
        faults.append(Fault(("train", "schedule", "dim"), train.schedule.dim, wrong))
    if train.average is not None and train.average.kind == "last" and train.average.num > train.keep:
        wrong = f"more than train.keep = {train.keep} checkpoints are kept; raise keep or lower num"
        faults.append(Fault(("train", "average", "num"), train.average.num, wrong))
    return faults


def check_search(search: SearchConfig) -> list[Fault]:
    faults = []
    if search.n_best > search.beam:
        wrong = f"needs to be search.beam = {search.beam} or less; widen the beam"
        faults.append(Fault(("search", "n_best"), search.n_best, wrong))
    if search.max_ratio == 0 and search.max_extra == 0:
        faults.append(Fault(("search", "max_extra"), 0, "with max_ratio = 0 nothing may be written; raise one of them"))
    return faults
