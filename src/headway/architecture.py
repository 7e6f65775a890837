"""What a model is made of, as frozen, strict, nested configs tagged by `kind`: parts, layers, stacks, whole shapes.

No torch. `headway.build` turns them into modules, `headway.check` finds contradictions between values that are fine
alone, `headway.presets` and `headway.published` are tables of them. Every part is a switch of its own: positions,
norms, feed-forwards, attentions and residual rules combine over encoders, decoders, pairs and prefix models alike.
Defaults are written here and nowhere else. A change of a default changes old model folders: add fields instead.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from headway.strict import Config

Size = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Portion = Annotated[float, Field(gt=0, le=1)]
Text = Annotated[str, Field(min_length=1)]

# TOML has no null, so "none" says that something is switched off.
OFF = BeforeValidator(lambda value: None if value == "none" else value)


def _widths(value: object) -> int | tuple[int, ...]:
    """A plain function, because pydantic's union would report every fault twice."""
    sizes = (value,) if isinstance(value, int) else value
    if isinstance(sizes, list | tuple) and sizes and all(type(size) is int and size > 0 for size in sizes):
        return value if isinstance(value, int) else tuple(sizes)
    raise ValueError("needs a whole number above 0, or a list of one for each head")


Widths = Annotated[int | tuple[int, ...], PlainValidator(_widths)]


# ---- positions in the stream ----


class SinusoidConfig(Config):
    """Vaswani et al. 2017, section 3.5. interleaved: sin and cos in turn (the paper); halves: all sines, then all
    cosines, with the same rates (Marian in transformers); tensor2tensor: halves whose rates reach 1 / base (T2T,
    fairseq, Marian itself, Whisper)."""

    kind: Literal["sinusoid"] = "sinusoid"
    base: Annotated[float, Field(gt=1)] = 10000.0
    layout: Literal["interleaved", "halves", "tensor2tensor"] = "interleaved"


class LearnedConfig(Config):
    """A vector for each position (Gehring et al. 2017). shared: in a pair whose words are tied, by both sides."""

    kind: Literal["learned"] = "learned"
    max_len: Size
    shared: bool = True


class NoPositionConfig(Config):
    """For recurrent layers, which know the order anyway, and for attention that has positions of its own."""

    kind: Literal["none"] = "none"


PositionConfig = Annotated[SinusoidConfig | LearnedConfig | NoPositionConfig, Field(discriminator="kind")]


# ---- positions in attention ----


class LinearScalingConfig(Config):
    """Positions divided by `factor` (Chen et al. 2023)."""

    kind: Literal["linear"] = "linear"
    factor: Annotated[float, Field(ge=1)]


class DynamicScalingConfig(Config):
    """The base grows with the text once it is longer than `trained_len` ("dynamic NTK")."""

    kind: Literal["dynamic"] = "dynamic"
    factor: Annotated[float, Field(ge=1)]
    trained_len: Size


class Llama3ScalingConfig(Config):
    """Slow frequencies divided by `factor`, fast ones kept, those between blended (Llama 3.1)."""

    kind: Literal["llama3"] = "llama3"
    factor: Annotated[float, Field(ge=1)] = 8.0
    low: Positive = 1.0
    high: Positive = 4.0
    trained_len: Size = 8192


ScalingConfig = Annotated[LinearScalingConfig | DynamicScalingConfig | Llama3ScalingConfig, Field(discriminator="kind")]


class RotaryConfig(Config):
    """Su et al. 2021. half: coordinate i turns with i + K/2 (GPT-NeoX, Llama in transformers); pair: 2i with 2i + 1."""

    kind: Literal["rotary"] = "rotary"
    base: Annotated[float, Field(gt=1)] = 10000.0
    layout: Literal["half", "pair"] = "half"
    share: Portion = 1.0  # of each head's coordinates that turn, from the first on
    scaling: Annotated[ScalingConfig | None, OFF] = None


class ALiBiConfig(Config):
    """Press et al. 2022: -slope * distance on the logits."""

    kind: Literal["alibi"] = "alibi"


class ShawConfig(Config):
    """Shaw et al. 2018: vectors of the distance, up to `reach`, beside keys and (values) values."""

    kind: Literal["shaw"] = "shaw"
    reach: Size = 16
    values: bool = True


class BucketsConfig(Config):
    """Raffel et al. 2020 (T5): a learned number a head for each bucket of distances; one table for all layers of a
    stack."""

    kind: Literal["buckets"] = "buckets"
    num_buckets: Annotated[int, Field(ge=4)] = 32
    max_distance: Size = 128


class ToeplitzConfig(Config):
    """A learned number a head for each distance below `max_len`."""

    kind: Literal["toeplitz"] = "toeplitz"
    max_len: Size


class XLConfig(Config):
    """Dai et al. 2019 (Transformer-XL, XLNet): (q + u) k + (q + v) W_r r_distance."""

    kind: Literal["xl"] = "xl"


class TUPEConfig(Config):
    """Ke et al. 2021: positions correlate on their own, apart from the words, and by buckets of distance; one for all
    layers of a stack."""

    kind: Literal["tupe"] = "tupe"
    max_len: Size
    num_buckets: Annotated[int, Field(ge=4)] = 32
    max_distance: Size = 128


RelationConfig = Annotated[
    RotaryConfig | ALiBiConfig | ShawConfig | BucketsConfig | ToeplitzConfig | XLConfig | TUPEConfig,
    Field(discriminator="kind"),
]


# ---- norms ----


class LayerNormConfig(Config):
    kind: Literal["layernorm"] = "layernorm"
    eps: Positive = 1e-5
    bias: bool = True


class RMSNormConfig(Config):
    """Zhang and Sennrich 2019. offset: the weight is 1 + w (Gemma)."""

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: Positive = 1e-6
    offset: bool = False


class ScaleNormConfig(Config):
    """Nguyen and Salazar 2019: g x / |x|, g begins at sqrt(dim)."""

    kind: Literal["scalenorm"] = "scalenorm"
    eps: Positive = 1e-5


NormConfig = Annotated[LayerNormConfig | RMSNormConfig | ScaleNormConfig, Field(discriminator="kind")]


# ---- mixers: what moves information between positions ----


class HeadsConfig(Config):
    """What every softmax attention may be told. One key/value head for all is MQA, some are GQA."""

    kind: Any
    num_heads: Size = 8
    num_kv_heads: Size | None = None  # None: as many as heads
    key_dim: Widths | None = None  # per head, or a list of one for each head; None: dim / num_heads
    value_dim: Widths | None = None
    bias: bool = True  # of queries, keys and values
    out_bias: bool | None = None  # None: like bias
    dropout: Share = 0.0  # of the attention weights
    position: Annotated[RelationConfig | None, OFF] = None
    qk_norm: Annotated[NormConfig | None, OFF] = None  # of each head's queries and keys, before they turn
    scale: Positive | None = None  # of the logits; None: 1 / sqrt(key_dim)
    logit_cap: Annotated[Positive | None, OFF] = None  # logits become cap * tanh(logits / cap)


class AttentionConfig(HeadsConfig):
    kind: Literal["attention"] = "attention"


class WindowConfig(HeadsConfig):
    """Attention that sees those fewer than `window` positions away: in a decoder itself and the `window - 1` before."""

    kind: Literal["window"] = "window"
    window: Size


class LatentConfig(Config):
    """Multi-head latent attention (DeepSeek-V2): keys and values of all heads come from one narrow vector a token,
    which is all that is cached, beside `rope_dim` turned coordinates that the heads share."""

    kind: Literal["latent"] = "latent"
    num_heads: Size = 8
    kv_rank: Size
    q_rank: Size | None = None  # None: queries straight from the stream
    head_dim: Size | None = None  # coordinates that do not turn; None: dim / num_heads
    rope_dim: Annotated[int, Field(ge=0)] = 0
    value_dim: Size | None = None  # None: dim / num_heads
    bias: bool = False
    dropout: Share = 0.0
    base: Annotated[float, Field(gt=1)] = 10000.0
    layout: Literal["half", "pair"] = "pair"
    scaling: Annotated[ScalingConfig | None, OFF] = None
    norm: NormConfig = RMSNormConfig()  # of the latent vectors


class LinearAttentionConfig(Config):
    kind: Literal["linear"] = "linear"
    num_heads: Size = 8
    bias: bool = True


class ElmanConfig(Config):
    kind: Literal["elman"] = "elman"
    bidirectional: bool | None = None  # None: in an encoder; each direction then has half the width


class LSTMConfig(Config):
    kind: Literal["lstm"] = "lstm"
    bidirectional: bool | None = None  # None: in an encoder; each direction then has half the width


class GRUConfig(Config):
    kind: Literal["gru"] = "gru"
    bidirectional: bool | None = None  # None: in an encoder; each direction then has half the width


RecurrentConfig = ElmanConfig | LSTMConfig | GRUConfig

MixerConfig = Annotated[
    AttentionConfig | WindowConfig | LatentConfig | LinearAttentionConfig | ElmanConfig | LSTMConfig | GRUConfig,
    Field(discriminator="kind"),
]


# ---- feed-forwards ----

Activation = Literal["relu", "gelu", "gelu_tanh", "gelu_sigmoid", "silu"]
Gated = Literal["glu", "reglu", "geglu", "geglu_tanh", "swiglu", "bilinear"]


class PlainFFNConfig(Config):
    """down(activation(up x)). gelu by erf, gelu_tanh its approximation, gelu_sigmoid x sigmoid(1.702 x) (CLIP)."""

    kind: Activation
    dim: Size
    bias: bool = True
    dropout: Share = 0.0  # behind the activation


class GatedFFNConfig(Config):
    """down(activation(gate x) * up x) (Shazeer 2020); the kind names the gate's activation."""

    kind: Gated
    dim: Size
    bias: bool = False
    dropout: Share = 0.0


class ExpertsConfig(Config):
    """A mixture of feed-forwards (Shazeer et al. 2017): each token goes to its `top_k`; no token is ever turned away.
    softmax: shares over all experts (Mixtral, DeepSeek-V2); sigmoid: each on its own (DeepSeek-V3)."""

    kind: Literal["experts"] = "experts"
    expert: Annotated[PlainFFNConfig | GatedFFNConfig, Field(discriminator="kind")]
    num: Size
    top_k: Size = 2
    num_shared: Count = 0  # experts that every token goes to, as one of so many times the width
    score: Literal["softmax", "sigmoid"] = "softmax"
    renormalise: bool = True  # the chosen shares are made to sum to 1
    scale: Positive = 1.0  # of what the chosen experts say
    num_groups: Size = 1  # of experts; only the best `top_groups` are looked at (DeepSeek-V2, V3)
    top_groups: Size = 1
    balance: Ratio = 0.01  # of the loss that keeps experts equally busy (Fedus et al. 2022)


class NoFFNConfig(Config):
    kind: Literal["none"] = "none"


FFNConfig = Annotated[PlainFFNConfig | GatedFFNConfig | ExpertsConfig | NoFFNConfig, Field(discriminator="kind")]


# ---- layers and stacks ----

Residual = Literal["post", "pre", "sandwich", "parallel", "deepnorm", "none"]
PRE_NORM = ("pre", "sandwich", "parallel")
"""The rules that leave the stream itself unnormalised, so that the stack ends with a norm."""


class LayerConfig(Config):
    """residual: post, norm(x + f(x)); pre, x + f(norm(x)); sandwich, x + norm(f(norm(x))); parallel, all sublayers
    read one norm(x) and are added together; deepnorm, norm(alpha x + f(x)), alpha from the depth; none, f(x)."""

    mixer: MixerConfig
    cross: AttentionConfig | None = None  # None in a decoder: like the mixer where that has heads, else 8 heads
    ffn: FFNConfig
    residual: Residual = "post"
    norm: NormConfig = LayerNormConfig()

    toml_keys: ClassVar = ("repeat",)


class StackConfig(Config):
    kind: Literal["stack"] = "stack"
    layers: Annotated[tuple[LayerConfig, ...], Field(strict=False, min_length=1)]
    passes: Size = 1  # the layers are gone through so often, with the same weights (ALBERT: one layer, 12 passes)
    final_norm: bool = Field(default_factory=lambda data: any(layer.residual in PRE_NORM for layer in data["layers"]))

    toml_keys: ClassVar = ("layer",)


class RNNSearchConfig(Config):
    """Bahdanau et al. 2015: attention before the step, additive."""

    kind: Literal["rnnsearch"] = "rnnsearch"
    attention_dim: Size | None = None  # None: dim
    input_feeding: bool = True


Cell = Literal["elman", "lstm", "gru"]


class LuongConfig(Config):
    """Luong et al. 2015: attention after the step. local: at most `2 local + 1` source tokens around a predicted place
    (local-p), weighed by a Gaussian."""

    kind: Literal["luong"] = "luong"
    cell: Cell = "lstm"
    num_layers: Size = 1
    score: Literal["dot", "general", "concat"] = "general"
    local: Annotated[Size | None, OFF] = None
    input_feeding: bool = True


class PlainRNNConfig(Config):
    """No attention: the source is one vector, the encoder's last state. feed: it is also read at every step (Cho et
    al. 2014); without, it only begins the recurrence (Sutskever et al. 2014)."""

    kind: Literal["rnn"] = "rnn"
    cell: Cell = "lstm"
    num_layers: Size = 1
    feed: bool = False


class DeepRNNConfig(Config):
    """Wu et al. 2016: LSTM layers with skips from the third on; the first one's attention is read by all."""

    kind: Literal["gnmt"] = "gnmt"
    cell: Cell = "lstm"
    num_layers: Annotated[int, Field(ge=2)] = 4
    attention_dim: Size | None = None


DecoderConfig = Annotated[
    StackConfig | RNNSearchConfig | LuongConfig | PlainRNNConfig | DeepRNNConfig, Field(discriminator="kind")
]


# ---- what an encoder is for ----


class WordsConfig(Config):
    """A guess at each word (masked language models). transform: a layer between (dense, activation, norm), as BERT.
    next: and whether a second text follows the first."""

    kind: Literal["words"] = "words"
    transform: Annotated[Activation | None, OFF] = "gelu"
    bias: bool = True
    tie: bool = True  # with the embedding
    next: bool = False


class ClassesConfig(Config):
    """One answer for a text: of `num` classes, or (num = 1) a number. pool: the first token's vector, the mean or the
    sum of all, or BERT's pooler, tanh(W first). hidden_dim: of two layers with ReLUs behind it; None: none."""

    kind: Literal["classes"] = "classes"
    num: Size
    pool: Literal["first", "mean", "sum", "pooler"] = "pooler"
    hidden_dim: Annotated[Size | None, OFF] = None


class TagsConfig(Config):
    """One of `num` classes for each token."""

    kind: Literal["tags"] = "tags"
    num: Size


class SpanConfig(Config):
    """Where an answer begins and ends."""

    kind: Literal["span"] = "span"


class VectorConfig(Config):
    """An embedding of the text. dim: of a linear map behind the pool; None: the stream's."""

    kind: Literal["vector"] = "vector"
    pool: Literal["first", "mean", "pooler"] = "mean"
    dim: Size | None = None
    normalise: bool = True


HeadConfig = Annotated[
    WordsConfig | ClassesConfig | TagsConfig | SpanConfig | VectorConfig, Field(discriminator="kind")
]


# ---- models ----


class ShapeConfig(Config):
    """What all shapes share."""

    kind: Any
    dim: Size
    embed_dim: Size | None = None  # of the table of embeddings (ALBERT); None: dim
    dropout: Share = 0.1
    scale_embedding: bool = True  # by sqrt(dim)
    fix_norm: bool = False  # embeddings of one length (Nguyen and Salazar 2019)
    position: PositionConfig = SinusoidConfig()
    embed_norm: Annotated[NormConfig | None, OFF] = None


class OutputConfig(Config):
    """How a hidden vector becomes logits."""

    bias: bool = False
    scale: Positive | None = None  # of the hidden vector (T5: dim ** -0.5); None: 1
    logit_cap: Annotated[Positive | None, OFF] = None


class Seq2SeqConfig(ShapeConfig):
    kind: Literal["seq2seq"] = "seq2seq"
    tie: Literal["all", "output", "source", "none"] = "all"  # output: target embedding and output; source: the two
    # embeddings, not the output; all: all three
    output: OutputConfig = OutputConfig()
    reverse_source: bool = False  # Sutskever et al. 2014
    encoder: StackConfig
    decoder: DecoderConfig

    toml_keys: ClassVar = ("preset",)


class ParallelHeadsConfig(Config):
    """A layer of its own for each of the `num` next tokens (Gloeckle et al. 2024)."""

    kind: Literal["parallel"] = "parallel"
    num: Size
    weight: Ratio = 1.0  # of the losses of all but the next token


class SequentialModulesConfig(Config):
    """Modules in a row, each reads the one before it and the next token's embedding (DeepSeek-V3, section 2.2)."""

    kind: Literal["sequential"] = "sequential"
    num: Size  # modules beyond the next token's own prediction
    weight: Ratio = 0.3


FutureConfig = Annotated[ParallelHeadsConfig | SequentialModulesConfig, Field(discriminator="kind")]


class LMConfig(ShapeConfig):
    """Decoder-only. prefix: it may be told how many first tokens see each other both ways (prefix-LM)."""

    kind: Literal["lm"] = "lm"
    scale_embedding: bool = False
    tie: bool = True
    prefix: bool = False
    output: OutputConfig = OutputConfig()
    future: Annotated[FutureConfig | None, OFF] = None
    stack: StackConfig

    toml_keys: ClassVar = ("preset",)


class BothWaysConfig(Config):
    """LSTMs of two language models, one each way, and a mix of their layers (ELMo: Peters et al. 2018)."""

    kind: Literal["both_ways"] = "both_ways"
    num_layers: Size = 2


class DecomposableConfig(Config):
    """Each word of one text held against all of the other, whatever their order; intra: and against its own, with a
    learned number for each distance up to `reach` (Parikh et al. 2016)."""

    kind: Literal["decomposable"] = "decomposable"
    intra: bool = False
    reach: Size = 10


class EncoderConfig(ShapeConfig):
    """Encoder-only. segments: kinds of text that are told apart (BERT: 2). two_streams: it has a vector for what is to
    be guessed, so that it can learn from a text in any order (XLNet)."""

    kind: Literal["encoder"] = "encoder"
    scale_embedding: bool = False
    segments: Count = 0
    two_streams: bool = False
    stack: Annotated[StackConfig | BothWaysConfig | DecomposableConfig, Field(discriminator="kind")]
    head: Annotated[HeadConfig | None, OFF] = None

    toml_keys: ClassVar = ("preset",)

    @property
    def tells_texts_apart(self) -> bool:
        """Whether it has to be told which of two texts a token is of."""
        return self.segments > 1 or self.stack.kind == "decomposable"


ModelConfig = Seq2SeqConfig
AnyModelConfig = Annotated[Seq2SeqConfig | LMConfig | EncoderConfig, Field(discriminator="kind")]
