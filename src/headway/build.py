"""Config to module: the one place that branches on module kinds. A new mixer is one line in `build_mixer`.

Combinations that a part does not serve are refused here with the reason, by what the part itself declares (`Serves`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, overload

import torch
from torch import nn

from headway.architecture import (
    ALiBiConfig,
    AttentionConfig,
    BothWaysConfig,
    BucketsConfig,
    ClassesConfig,
    DecomposableConfig,
    DeepRNNConfig,
    DynamicScalingConfig,
    ElmanConfig,
    EncoderConfig,
    ExpertsConfig,
    FFNConfig,
    GatedFFNConfig,
    GRUConfig,
    HeadsConfig,
    LatentConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LinearAttentionConfig,
    LinearScalingConfig,
    Llama3ScalingConfig,
    LMConfig,
    LSTMConfig,
    LuongConfig,
    MixerConfig,
    NoFFNConfig,
    NoPositionConfig,
    NormConfig,
    OutputConfig,
    ParallelHeadsConfig,
    PlainFFNConfig,
    PlainRNNConfig,
    RelationConfig,
    RMSNormConfig,
    RNNSearchConfig,
    RotaryConfig,
    ScaleNormConfig,
    ScalingConfig,
    Seq2SeqConfig,
    SequentialModulesConfig,
    ShapeConfig,
    ShawConfig,
    SinusoidConfig,
    SpanConfig,
    StackConfig,
    TagsConfig,
    ToeplitzConfig,
    TUPEConfig,
    VectorConfig,
    WindowConfig,
    WordsConfig,
    XLConfig,
)
from headway.models.encoder import Encoder
from headway.models.lm import LM
from headway.models.seq2seq import Decoder, Seq2Seq
from headway.nn.attention import Attention, WindowAttention
from headway.nn.block import Block, Layer, ParallelBlock
from headway.nn.both_ways import BothWays
from headway.nn.decomposable import Decomposable
from headway.nn.elementwise import Elementwise
from headway.nn.embed import Embed, Unembed
from headway.nn.experts import Experts
from headway.nn.ffn import ACTIVATIONS, FFN, FeedForward, GatedFFN
from headway.nn.future import Future, ParallelHeads, SequentialModules
from headway.nn.head import Classes, Head, Pool, Span, Tags, Vector, Words
from headway.nn.init import initialise, scale_for_deepnorm
from headway.nn.latent import LatentAttention
from headway.nn.linear_attention import LinearAttention
from headway.nn.mask import Causal, Full, Mask, Prefix, Streams
from headway.nn.mixer import Mixer
from headway.nn.norm import RMSNorm, ScaleNorm
from headway.nn.position import Learned, NoPosition, Sinusoid
from headway.nn.recurrent import Cell, ElmanCell, GRUCell, LSTMCell, Recurrence
from headway.nn.recurrent_decoder import DeepRNNDecoder, LuongDecoder, PlainRNNDecoder, RNNSearchDecoder
from headway.nn.relation import TUPE, ALiBi, Buckets, Relation, Shaw, Toeplitz, TransformerXL
from headway.nn.residual import DeepNorm, Plain, Post, Pre, Sandwich, deepnorm_alpha_beta
from headway.nn.rotary import DynamicScaling, LinearScaling, Llama3Scaling, Rotary
from headway.nn.stack import Stack

CELLS: dict[str, type[Cell]] = {"elman": ElmanCell, "lstm": LSTMCell, "gru": GRUCell}


@overload
def build(config: Seq2SeqConfig, vocab_size: int | tuple[int, int]) -> Seq2Seq: ...
@overload
def build(config: LMConfig, vocab_size: int | tuple[int, int]) -> LM: ...
@overload
def build(config: EncoderConfig, vocab_size: int | tuple[int, int]) -> Encoder: ...
@overload
def build(
    config: Seq2SeqConfig | LMConfig | EncoderConfig, vocab_size: int | tuple[int, int]
) -> Seq2Seq | LM | Encoder: ...
def build(
    config: Seq2SeqConfig | LMConfig | EncoderConfig, vocab_size: int | tuple[int, int]
) -> Seq2Seq | LM | Encoder:
    """The model, its weights drawn from torch's generator (seed it first), in float32 on the CPU (or on the device
    that torch is told: `with torch.device("meta")` counts without memory).

    vocab_size: of the shared vocabulary, or of the source's and the target's. Raises ValueError where a part cannot
    stand where the config puts it.
    """
    match config:
        case Seq2SeqConfig():
            model = build_pair(config, vocab_size)
        case LMConfig():
            model = build_lm(config, one(vocab_size))
        case EncoderConfig():
            model = build_encoder(config, one(vocab_size))
    initialise(model)
    for block, beta in model_betas(model, config):
        scale_for_deepnorm(block, beta)
    return model


def one(vocab_size: int | tuple[int, int]) -> int:
    sizes = {vocab_size} if isinstance(vocab_size, int) else set(vocab_size)
    if len(sizes) > 1:
        raise ValueError(f"vocab_size = {vocab_size}: this shape reads one text, and needs one vocabulary")
    return sizes.pop()


# ---- shapes ----


def build_pair(config: Seq2SeqConfig, vocab_size: int | tuple[int, int]) -> Seq2Seq:
    source_size, target_size = (vocab_size, vocab_size) if isinstance(vocab_size, int) else vocab_size
    if config.tie in ("all", "source") and not isinstance(vocab_size, int):
        told = "source and target have vocabularies of their own, and one table of embeddings cannot be for both"
        raise ValueError(f'model.tie = "{config.tie}": {told}; take "output"')
    width = config.embed_dim or config.dim
    tokens = nn.Embedding(target_size, width)
    source_tokens = tokens if config.tie in ("all", "source") else nn.Embedding(source_size, width)
    source_embed = build_embed(config, source_tokens)
    own = config.embed_norm or (isinstance(config.position, LearnedConfig) and not config.position.shared)
    target_embed = source_embed if config.tie == "all" and not own else build_embed(config, tokens)
    alphas = deepnorm(config)
    side = Side(config, Full(), "model.encoder", alpha=alphas[0][0])
    encoder = build_stack(config.encoder, side)
    decoder = build_decoder(config, alphas[1][0])
    unembed, project = build_output(
        config, config.output, tokens if config.tie in ("all", "output") else None, target_size
    )
    return Seq2Seq(
        source_embed,
        target_embed,
        encoder,
        decoder,
        unembed,
        project=project,
        reverse_source=config.reverse_source,
    )


def build_lm(config: LMConfig, vocab_size: int) -> LM:
    tokens = nn.Embedding(vocab_size, config.embed_dim or config.dim)
    mask = Prefix(torch.zeros(0, dtype=torch.int64)) if config.prefix else Causal()
    side = Side(config, mask, "model.stack", cached=True, bidirectional=config.prefix, alpha=deepnorm(config)[0][0])
    stack = build_stack(config.stack, side)
    unembed, project = build_output(config, config.output, tokens if config.tie else None, vocab_size)
    future = build_future(config, side) if config.future else None
    return LM(build_embed(config, tokens), stack, unembed, prefix=config.prefix, project=project, future=future)


def build_encoder(config: EncoderConfig, vocab_size: int) -> Encoder:
    tokens = nn.Embedding(vocab_size, config.embed_dim or config.dim)
    view = Full() & Streams(torch.zeros(0, 0, dtype=torch.int64)) if config.two_streams else Full()
    match config.stack:
        case BothWaysConfig(num_layers=num):
            stack = BothWays(config.dim, num, config.dropout)
        case DecomposableConfig(intra=intra, reach=reach):
            stack = Decomposable(config.dim, intra=intra, reach=reach, dropout=config.dropout)
        case StackConfig():
            stack = build_stack(config.stack, Side(config, view, "model.stack", alpha=deepnorm(config)[0][0]))
    head = build_head(config, tokens) if config.head else None
    embed = build_embed(config, tokens, segments=config.segments)
    return Encoder(embed, stack, head, two_streams=config.two_streams)


def build_embed(config: ShapeConfig, tokens: nn.Embedding, *, segments: int = 0) -> Embed:
    width = tokens.embedding_dim
    return Embed(
        tokens,
        build_position(config, width),
        scale=config.scale_embedding,
        dropout=config.dropout,
        fix_norm=config.fix_norm,
        segments=segments,
        norm=build_norm(config.embed_norm, width) if config.embed_norm else None,
        dim=config.dim,
    )


def build_position(config: ShapeConfig, width: int) -> nn.Module:
    match config.position:
        case SinusoidConfig(base=base, layout=layout):
            return Sinusoid(base, layout)
        case LearnedConfig(max_len=max_len):
            return Learned(max_len, width)
        case NoPositionConfig():
            return NoPosition()


def build_output(
    config: ShapeConfig, output: OutputConfig, tokens: nn.Embedding | None, vocab_size: int
) -> tuple[Unembed, nn.Linear | None]:
    """What unembeds, tied to `tokens` where given, and the map to the table's width where that is another."""
    width = config.dim if tokens is None else tokens.embedding_dim
    scale, cap = output.scale or 1.0, output.logit_cap
    unembed = Unembed(width, vocab_size, bias=output.bias, scale=scale, cap=cap, fix_norm=config.fix_norm)
    if tokens is not None:
        unembed.weight = tokens.weight
    return unembed, nn.Linear(config.dim, width) if width != config.dim else None


def build_head(config: EncoderConfig, tokens: nn.Embedding) -> Head:
    dim, dropout = config.dim, config.dropout
    match config.head:
        case WordsConfig(transform=transform, bias=bias, tie=tie, next=follows):
            width = tokens.embedding_dim if transform else dim
            unembed = Unembed(width, tokens.num_embeddings, bias=bias, fix_norm=config.fix_norm)
            if tie:
                unembed.weight = tokens.weight
            activation = Elementwise(ACTIVATIONS[transform]) if transform else None
            plain = config.stack.layers[-1].norm if isinstance(config.stack, StackConfig) else LayerNormConfig()
            norm = config.embed_norm or plain
            pair = Classes(dim, 2, Pool(dim, "pooler"), 0.0) if follows else None
            return Words(dim, unembed, activation, build_norm(norm, width) if transform else None, pair)
        case ClassesConfig(num=num, pool=pool, hidden_dim=hidden):
            return Classes(dim, num, Pool(dim, pool), dropout, hidden)
        case TagsConfig(num=num):
            return Tags(dim, num, dropout)
        case SpanConfig():
            return Span(dim)
        case VectorConfig(pool=pool, dim=out_dim, normalise=normalise):
            return Vector(dim, Pool(dim, pool), out_dim, normalise=normalise)
        case None:
            raise AssertionError("called where there is a head")


def build_future(config: LMConfig, side: Side) -> Future:
    """Layers like the stack's last one, for the tokens further ahead."""
    last = config.stack.layers[-1]

    def layers(num: int) -> list[Layer]:
        return [build_layer(last, side, f"{side.where}.layers[-1]") for _ in range(num)]

    match config.future:
        case ParallelHeadsConfig(num=num):
            return ParallelHeads(layers(num - 1))
        case SequentialModulesConfig(num=num):
            before, of_tokens, behind = ([build_norm(last.norm, config.dim) for _ in range(num)] for _ in range(3))
            return SequentialModules(layers(num), before, of_tokens, behind, config.dim)
        case None:
            raise AssertionError("called where there is a future")


def build_decoder(config: Seq2SeqConfig, alpha: float) -> Decoder:
    dim, dropout = config.dim, config.dropout
    match config.decoder:
        case StackConfig() as stack:
            side = Side(config, Causal(), "model.decoder", cached=True, cross=True, bidirectional=False, alpha=alpha)
            return build_stack(stack, side)
        case RNNSearchConfig() as c:
            width = c.attention_dim or dim
            return RNNSearchDecoder(dim, attention_dim=width, input_feeding=c.input_feeding, dropout=dropout)
        case LuongConfig() as c:
            return LuongDecoder(
                dim,
                cell=CELLS[c.cell],
                num_layers=c.num_layers,
                score=c.score,
                local=c.local,
                input_feeding=c.input_feeding,
                dropout=dropout,
            )
        case PlainRNNConfig() as c:
            return PlainRNNDecoder(dim, cell=CELLS[c.cell], num_layers=c.num_layers, feed=c.feed, dropout=dropout)
        case DeepRNNConfig() as c:
            width = c.attention_dim or dim
            return DeepRNNDecoder(
                dim, cell=CELLS[c.cell], num_layers=c.num_layers, attention_dim=width, dropout=dropout
            )


# ---- stacks and layers ----


@dataclass(frozen=True)
class Side:
    """What a stack's layers need to know of where they stand.

    mask: under which it will be called; cached: it decodes step by step; cross: its layers read a context;
    bidirectional: whether tokens look ahead; alpha: of DeepNorm. shared: relations that all layers of the stack have in
    common, by their config.
    """

    shape: ShapeConfig
    mask: Mask
    where: str
    cached: bool = False
    cross: bool = False
    bidirectional: bool = True
    alpha: float = 1.0
    shared: dict[Any, Relation] = field(default_factory=dict)


def build_stack(stack: StackConfig, side: Side) -> Stack:
    layers = [build_layer(layer, side, f"{side.where}.layers[{i}]") for i, layer in enumerate(stack.layers)]
    norm = build_norm(stack.layers[-1].norm, side.shape.dim) if stack.final_norm else None
    return Stack(layers, norm, passes=stack.passes)


def build_layer(layer: LayerConfig, side: Side, where: str) -> Layer:
    dim, dropout = side.shape.dim, side.shape.dropout
    mixer = build_mixer(layer.mixer, side)
    reason = mixer.serves.refusal(side.mask, cached=side.cached)
    if reason is not None:
        raise ValueError(f"{where}.mixer = {layer.mixer.kind}: it {reason}; choose another mixer there")
    cross = build_attention(cross_config(layer), side, relation=None) if side.cross else None
    ffn = build_ffn(layer.ffn, dim)
    if layer.residual == "parallel":
        return ParallelBlock(mixer, build_norm(layer.norm, dim), cross, ffn, dropout)

    def join() -> nn.Module:
        match layer.residual:
            case "none":
                return Plain(dropout)
            case "post":
                return Post(build_norm(layer.norm, dim), dropout)
            case "pre":
                return Pre(build_norm(layer.norm, dim), dropout)
            case "sandwich":
                return Sandwich(build_norm(layer.norm, dim), build_norm(layer.norm, dim), dropout)
            case "deepnorm":
                return DeepNorm(build_norm(layer.norm, dim), dropout, side.alpha)
            case "parallel":
                raise AssertionError("a block of its own")

    return Block(mixer, join(), cross, join() if cross else None, ffn, join() if ffn else None)


def cross_config(layer: LayerConfig) -> AttentionConfig:
    """A pair's decoder looks at the source by attention: as configured, or like the layer's own attention without its
    positions, or with 8 heads where it has none."""
    if layer.cross is not None:
        return layer.cross
    if isinstance(layer.mixer, HeadsConfig):
        told = {name: value for name, value in layer.mixer if name in HeadsConfig.model_fields}
        return AttentionConfig(**told | {"kind": "attention", "position": None})
    heads = dict(layer.mixer).get("num_heads")
    return AttentionConfig(num_heads=heads) if heads else AttentionConfig()


def deepnorm(config: Seq2SeqConfig | LMConfig | EncoderConfig) -> list[tuple[float, float]]:
    """(alpha, beta) of the encoder (or only stack) and of the decoder, from how deep they are."""

    def depth(stack: Any) -> int:
        return len(stack.layers) * stack.passes if isinstance(stack, StackConfig) else 0

    if isinstance(config, Seq2SeqConfig):
        return list(deepnorm_alpha_beta(depth(config.encoder), depth(config.decoder)))
    return list(deepnorm_alpha_beta(depth(config.stack), 0)) if isinstance(config.stack, StackConfig) else []


def model_betas(
    model: Seq2Seq | LM | Encoder, config: Seq2SeqConfig | LMConfig | EncoderConfig
) -> list[tuple[nn.Module, float]]:
    """The layers under DeepNorm, and what their first weights are scaled by."""
    stacks: list[Any] = (
        [(model.encoder, config.encoder), (model.decoder, config.decoder)]
        if isinstance(model, Seq2Seq) and isinstance(config, Seq2SeqConfig)
        else [(model.stack, config.stack)]  # pyright: ignore[reportAttributeAccessIssue]
    )
    found = []
    for (stack, layers), (_, beta) in zip(stacks, deepnorm(config), strict=False):
        if isinstance(stack, Stack):
            found += [
                (block, beta) for block, c in zip(stack.layers, layers.layers, strict=True) if c.residual == "deepnorm"
            ]
    return found


def build_norm(norm: NormConfig, dim: int) -> nn.Module:
    match norm:
        case LayerNormConfig(eps=eps, bias=bias):
            return nn.LayerNorm(dim, eps=eps, bias=bias)
        case RMSNormConfig(eps=eps, offset=offset):
            return RMSNorm(dim, eps, offset=offset)
        case ScaleNormConfig(eps=eps):
            return ScaleNorm(dim, eps)


# ---- mixers ----


def build_mixer(mixer: MixerConfig, side: Side) -> Mixer:
    dim = side.shape.dim
    match mixer:
        case AttentionConfig() as c:
            return build_attention(c, side, relation=c.position)
        case WindowConfig() as c:
            return WindowAttention(build_attention(c, side, relation=c.position), c.window)
        case LatentConfig() as c:
            return build_latent(c, dim)
        case LinearAttentionConfig(num_heads=num_heads, bias=bias):
            return LinearAttention(dim, num_heads, head_dim=dim // num_heads, bias=bias)
        case ElmanConfig(bidirectional=told):
            return Recurrence(dim, ElmanCell, bidirectional=side.bidirectional if told is None else told)
        case LSTMConfig(bidirectional=told):
            return Recurrence(dim, LSTMCell, bidirectional=side.bidirectional if told is None else told)
        case GRUConfig(bidirectional=told):
            return Recurrence(dim, GRUCell, bidirectional=side.bidirectional if told is None else told)


def build_attention(c: HeadsConfig, side: Side, *, relation: RelationConfig | None) -> Attention:
    dim = side.shape.dim
    head = dim // c.num_heads
    key_dim, value_dim = c.key_dim or head, c.value_dim or head

    def qk_norm() -> nn.Module | None:
        return build_norm(c.qk_norm, key_dim) if c.qk_norm and isinstance(key_dim, int) else None

    return Attention(
        dim,
        c.num_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        num_kv_heads=c.num_kv_heads,
        bias=c.bias,
        out_bias=c.out_bias,
        dropout=c.dropout,
        relation=build_relation(relation, c, side, key_dim, value_dim) if relation else None,
        q_norm=qk_norm(),
        k_norm=qk_norm(),
        scale=c.scale,
        cap=c.logit_cap,
    )


def build_relation(
    relation: RelationConfig, c: HeadsConfig, side: Side, key_dim: int | Any, value_dim: int | Any
) -> Relation:
    dim, heads, both = side.shape.dim, c.num_heads, side.bidirectional

    def common(make: Callable[[], Relation]) -> Relation:
        return (
            side.shared.setdefault((relation, heads), make())
            if (relation, heads) not in side.shared
            else (side.shared[relation, heads])
        )

    match relation:
        case RotaryConfig() as r:
            return Rotary(r.base, r.layout, r.share, build_scaling(r.scaling))
        case ALiBiConfig():
            return ALiBi(heads)
        case ShawConfig(reach=reach, values=values):
            return Shaw(key_dim, value_dim if values else None, reach)
        case BucketsConfig(num_buckets=num, max_distance=far):
            return common(lambda: Buckets(heads, num, far, bidirectional=both))
        case ToeplitzConfig(max_len=max_len):
            return Toeplitz(heads, max_len)
        case XLConfig():
            return TransformerXL(dim, heads, key_dim)
        case TUPEConfig(max_len=max_len, num_buckets=num, max_distance=far):
            return common(lambda: TUPE(dim, heads, max_len, num, far, bidirectional=both))


def build_scaling(scaling: ScalingConfig | None) -> LinearScaling | DynamicScaling | Llama3Scaling | None:
    match scaling:
        case LinearScalingConfig(factor=factor):
            return LinearScaling(factor)
        case DynamicScalingConfig(factor=factor, trained_len=trained_len):
            return DynamicScaling(factor, trained_len)
        case Llama3ScalingConfig() as c:
            return Llama3Scaling(c.factor, c.low, c.high, c.trained_len)
        case None:
            return None


def build_latent(c: LatentConfig, dim: int) -> LatentAttention:
    head = dim // c.num_heads
    return LatentAttention(
        dim,
        c.num_heads,
        kv_rank=c.kv_rank,
        q_rank=c.q_rank,
        head_dim=c.head_dim or head,
        rope_dim=c.rope_dim,
        value_dim=c.value_dim or head,
        bias=c.bias,
        dropout=c.dropout,
        relation=Rotary(c.base, c.layout, 1.0, build_scaling(c.scaling)) if c.rope_dim else None,
        kv_norm=build_norm(c.norm, c.kv_rank),
        q_norm=build_norm(c.norm, c.q_rank) if c.q_rank else None,
    )


# ---- feed-forwards ----


def build_ffn(ffn: FFNConfig, dim: int) -> FeedForward | None:
    match ffn:
        case PlainFFNConfig() as c:
            return FFN(dim, c.dim, c.kind, bias=c.bias, dropout=c.dropout)
        case GatedFFNConfig() as c:
            return GatedFFN(dim, c.dim, c.kind, bias=c.bias, dropout=c.dropout)
        case ExpertsConfig() as c:
            shared = c.expert.model_copy(update={"dim": c.expert.dim * c.num_shared})
            experts = [build_ffn(c.expert, dim) for _ in range(c.num)]
            return Experts(
                [expert for expert in experts if expert is not None],
                build_ffn(shared, dim) if c.num_shared else None,
                dim,
                c.top_k,
                score=c.score,
                renormalise=c.renormalise,
                scale=c.scale,
                num_groups=c.num_groups,
                top_groups=c.top_groups,
            )
        case NoFFNConfig():
            return None
