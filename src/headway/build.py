"""Config to module: the one place that branches on module kinds. A new mixer is one line in `build_mixer`.

Combinations that a part does not serve are refused here with the reason, by what the part itself declares (`Serves`).
"""

from __future__ import annotations

from torch import nn

from headway.config import (
    AttentionConfig,
    GRUConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LinearAttentionConfig,
    LSTMConfig,
    NoFFNConfig,
    NoPositionConfig,
    ReLUConfig,
    RNNSearchConfig,
    Seq2SeqConfig,
    SinusoidConfig,
    StackConfig,
    WindowConfig,
)
from headway.models.seq2seq import Seq2Seq
from headway.nn.attention import Attention, WindowAttention
from headway.nn.block import Block
from headway.nn.embed import Embed
from headway.nn.ffn import ReLUFFN
from headway.nn.init import initialise
from headway.nn.linear_attention import LinearAttention
from headway.nn.mask import Causal, Full, Mask
from headway.nn.mixer import Mixer
from headway.nn.position import Learned, NoPosition, Sinusoid
from headway.nn.recurrent import GRUCell, LSTMCell, Recurrence, RNNSearchDecoder
from headway.nn.residual import Plain, Post, Pre
from headway.nn.stack import Stack


def build(config: Seq2SeqConfig, vocab_size: int | tuple[int, int]) -> Seq2Seq:
    """The model, its weights drawn from torch's generator (seed it first), in float32 on the CPU.

    vocab_size: of the shared vocabulary, or of the source's and the target's. Raises ValueError where a part cannot
    stand where the config puts it.
    """
    source_size, target_size = (vocab_size, vocab_size) if isinstance(vocab_size, int) else vocab_size
    if config.tie == "all" and not isinstance(vocab_size, int):
        told = "source and target have vocabularies of their own, and one table of embeddings cannot be for both"
        raise ValueError(f'model.tie = "all": {told}; take "output"')
    tokens = nn.Embedding(target_size, config.dim)
    source_tokens = tokens if config.tie == "all" else nn.Embedding(source_size, config.dim)
    source_embed = Embed(source_tokens, build_position(config), scale=config.scale_embedding, dropout=config.dropout)
    target_embed = (
        source_embed
        if config.tie == "all"
        else Embed(tokens, build_position(config), scale=config.scale_embedding, dropout=config.dropout)
    )
    encoder = build_stack(config.encoder, config, mask=Full(), cross=False, where="model.encoder")
    decoder = build_decoder(config)
    unembed = nn.Linear(config.dim, target_size, bias=False)
    if config.tie != "none":
        unembed.weight = tokens.weight
    model = Seq2Seq(source_embed, target_embed, encoder, decoder, unembed)
    initialise(model)
    return model


def build_position(config: Seq2SeqConfig) -> nn.Module:
    match config.position:
        case SinusoidConfig():
            return Sinusoid()
        case LearnedConfig(max_len=max_len):
            return Learned(max_len, config.dim)
        case NoPositionConfig():
            return NoPosition()


def build_decoder(config: Seq2SeqConfig) -> Stack | RNNSearchDecoder:
    match config.decoder:
        case StackConfig() as stack:
            return build_stack(stack, config, mask=Causal(), cross=True, where="model.decoder")
        case RNNSearchConfig() as c:
            width = c.attention_dim or config.dim
            return RNNSearchDecoder(
                config.dim, attention_dim=width, input_feeding=c.input_feeding, dropout=config.dropout
            )


def build_stack(stack: StackConfig, config: Seq2SeqConfig, *, mask: Mask, cross: bool, where: str) -> Stack:
    """mask: under which the stack will be called; cross: whether its layers read a context (and so decode, with a
    cache)."""
    layers = []
    for i, layer in enumerate(stack.layers):
        mixer = build_mixer(layer, config.dim)
        reason = mixer.serves.refusal(mask, cached=cross)
        if reason is not None:
            raise ValueError(f"{where}.layers[{i}].mixer = {layer.mixer.kind}: it {reason}; choose another mixer there")
        layers.append(build_block(layer, config, mixer, build_cross(layer, config.dim) if cross else None))
    return Stack(
        layers, build_norm(stack.layers[-1].norm or LayerNormConfig(), config.dim) if stack.final_norm else None
    )


def build_norm(norm: LayerNormConfig, dim: int) -> nn.Module:
    return nn.LayerNorm(dim, eps=norm.eps)


def build_block(layer: LayerConfig, config: Seq2SeqConfig, mixer: Mixer, cross: Mixer | None) -> Block:
    def join() -> nn.Module:
        if layer.residual == "none" or layer.norm is None:
            return Plain(config.dropout)
        rule = Post if layer.residual == "post" else Pre
        return rule(build_norm(layer.norm, config.dim), config.dropout)

    ffn = build_ffn(layer, config.dim)
    return Block(mixer, join(), cross, join() if cross else None, ffn, join() if ffn else None)


def build_mixer(layer: LayerConfig, dim: int) -> Mixer:
    match layer.mixer:
        case AttentionConfig() as c:
            return build_attention(c, dim)
        case WindowConfig(num_heads=num_heads, window=window, bias=bias):
            return WindowAttention(build_attention(AttentionConfig(num_heads=num_heads, bias=bias), dim), window)
        case LinearAttentionConfig(num_heads=num_heads, bias=bias):
            return LinearAttention(dim, num_heads, head_dim=dim // num_heads, bias=bias)
        case LSTMConfig(bidirectional=bidirectional):
            return Recurrence(dim, LSTMCell, bidirectional=bidirectional)
        case GRUConfig(bidirectional=bidirectional):
            return Recurrence(dim, GRUCell, bidirectional=bidirectional)


def build_attention(c: AttentionConfig, dim: int) -> Attention:
    head = dim // c.num_heads
    key_dim, value_dim = c.key_dim or head, c.value_dim or head
    return Attention(dim, c.num_heads, key_dim=key_dim, value_dim=value_dim, bias=c.bias, dropout=c.dropout)


def build_cross(layer: LayerConfig, dim: int) -> Mixer:
    """A pair's decoder looks at the source by attention: as configured, or like the layer's own attention, or with 8
    heads where it has none."""
    own = layer.cross or (layer.mixer if isinstance(layer.mixer, AttentionConfig) else None)
    heads = dict(layer.mixer).get("num_heads")
    return build_attention(own or (AttentionConfig(num_heads=heads) if heads else AttentionConfig()), dim)


def build_ffn(layer: LayerConfig, dim: int) -> nn.Module | None:
    match layer.ffn:
        case ReLUConfig(dim=ffn_dim):
            return ReLUFFN(dim, ffn_dim)
        case NoFFNConfig():
            return None
