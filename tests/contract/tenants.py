"""Every tenant of the interfaces, found from the config unions: whoever adds a kind there is tested by these suites
at once."""

from __future__ import annotations

from typing import Any, get_args

import torch
from pydantic_core import PydanticUndefined
from torch import Tensor

from headway.architecture import (
    ALiBiConfig,
    AttentionConfig,
    DecoderConfig,
    GRUConfig,
    LatentConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LinearAttentionConfig,
    LMConfig,
    MixerConfig,
    NoFFNConfig,
    NoPositionConfig,
    PlainFFNConfig,
    RelationConfig,
    RNNSearchConfig,
    RotaryConfig,
    Seq2SeqConfig,
    ShapeConfig,
    StackConfig,
    WindowConfig,
)
from headway.build import Side, build, build_mixer
from headway.models.lm import LM
from headway.models.seq2seq import Seq2Seq
from headway.nn.mask import Causal
from headway.nn.mixer import Mixer

DIM, VOCAB, LAYERS = 12, 29, 2


def kinds(union: Any) -> tuple[type, ...]:
    return get_args(get_args(union)[0])


def example(kind: type) -> Any:
    """A small one: 4 heads where it has heads, 3 for whatever it must be told, but for the length of a table."""
    fields = kind.model_fields
    required = {name: 3 for name, field in fields.items() if field.default is PydanticUndefined and name != "kind"}
    required |= {"max_len": 64} if "max_len" in fields else {}
    told = {"num_heads": 4} if "num_heads" in fields else {}
    return kind(**required | told | ({"reach": 3} if "reach" in fields else {}))


def mixer_configs() -> dict[str, Any]:
    """By name; kinds that can run both ways are there twice, and attention with each kind of position and each of its
    switches."""
    found = {}
    for kind in kinds(MixerConfig):
        config = example(kind)
        found[config.kind] = config
        if "bidirectional" in kind.model_fields:
            found[f"{config.kind}-bidirectional"] = config.model_copy(update={"bidirectional": True})
    for kind in kinds(RelationConfig):
        relation = RotaryConfig(share=2 / 3) if kind is RotaryConfig else example(kind)
        found[f"attention-{relation.kind}"] = AttentionConfig(num_heads=2, position=relation)
    found["attention-odd-widths"] = AttentionConfig(num_heads=3, key_dim=5, value_dim=2)
    found["attention-a-width-a-head"] = AttentionConfig(num_heads=3, key_dim=(5, 1, 3), value_dim=(2, 4, 1))
    found["attention-grouped"] = AttentionConfig(num_heads=6, num_kv_heads=2, bias=False, position=RotaryConfig())
    found["attention-one-key"] = AttentionConfig(num_heads=4, num_kv_heads=1, out_bias=False, position=ALiBiConfig())
    found["attention-normed-capped"] = AttentionConfig(num_heads=2, qk_norm=LayerNormConfig(), logit_cap=2.0, scale=0.7)
    found["window-grouped"] = WindowConfig(
        num_heads=4, num_kv_heads=2, window=3, position=RotaryConfig(layout="pair", share=2 / 3)
    )
    found["latent-turned"] = LatentConfig(num_heads=3, kv_rank=5, q_rank=7, head_dim=4, rope_dim=2, value_dim=3)
    return found


def make_mixer(config: Any) -> Mixer:
    torch.manual_seed(7)
    side = Side(ShapeConfig(kind="encoder", dim=DIM), Causal(), "model.stack", bidirectional=False)
    mixer = build_mixer(config, side).double().eval()
    for parameter in mixer.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return mixer


def stack(mixer: Any, residual: str = "post") -> StackConfig:
    ffn = PlainFFNConfig(kind="relu", dim=18)
    return StackConfig(layers=(LayerConfig(mixer=mixer, ffn=ffn, residual=residual),) * LAYERS)


def pair_configs() -> dict[str, Seq2SeqConfig]:
    """One pair per decoder: every mixer that can decode, and every decoder that is no stack."""
    encoder = stack(AttentionConfig(num_heads=4), "pre")
    found = {}
    for name, config in mixer_configs().items():
        serves = make_mixer(config).serves
        if serves.causal and serves.cached:
            found[name] = Seq2SeqConfig(dim=DIM, encoder=encoder, decoder=stack(config, "pre"))
    gru = LayerConfig(mixer=GRUConfig(bidirectional=True), ffn=NoFFNConfig(), residual="none")
    for kind in kinds(DecoderConfig):
        if kind is not StackConfig:
            decoder = example(kind)
            found[decoder.kind] = Seq2SeqConfig(
                dim=DIM,
                tie="output",
                scale_embedding=False,
                position=NoPositionConfig(),
                encoder=StackConfig(layers=(gru,) * LAYERS),
                decoder=decoder,
            )
    luong, rnn = found["luong"], found["rnn"]
    for score, local in (("dot", None), ("concat", 2)):
        update = {"score": score, "local": local, "num_layers": 2, "cell": "gru"}
        found[f"luong-{score}"] = luong.model_copy(update={"decoder": luong.decoder.model_copy(update=update)})
    fed = rnn.decoder.model_copy(update={"feed": True, "cell": "elman"})
    found["rnn-fed"] = rnn.model_copy(update={"decoder": fed, "reverse_source": True})
    found["rnnsearch-without-feeding"] = Seq2SeqConfig(
        dim=DIM, tie="none", encoder=encoder, decoder=RNNSearchConfig(input_feeding=False, attention_dim=7)
    )
    for residual in ("sandwich", "parallel", "deepnorm"):
        decoder = stack(AttentionConfig(num_heads=4), residual)
        found[residual] = Seq2SeqConfig(dim=DIM, encoder=encoder, decoder=decoder)
    twice = stack(AttentionConfig(num_heads=4), "pre").model_copy(update={"passes": 2})
    found["two-passes-narrow-table"] = Seq2SeqConfig(dim=DIM, embed_dim=5, encoder=twice, decoder=twice)
    return found


def lm_configs() -> dict[str, LMConfig]:
    """Language models: causal, with every kind of memory, and with a prefix."""
    attention = AttentionConfig(num_heads=4)
    found = {
        "lm": LMConfig(dim=DIM, stack=stack(attention, "pre")),
        "lm-learned-untied": LMConfig(dim=DIM, tie=False, position=LearnedConfig(max_len=64), stack=stack(attention)),
        "lm-prefix": LMConfig(dim=DIM, prefix=True, stack=stack(attention, "pre")),
        "lm-passes": LMConfig(dim=DIM, stack=stack(attention, "pre").model_copy(update={"passes": 2})),
    }
    for name in ("window-grouped", "latent-turned", "linear", "lstm", "attention-buckets", "attention-xl"):
        found[f"lm-{name}"] = LMConfig(dim=DIM, stack=stack(mixer_configs()[name], "pre"))
    layers = (*stack(LinearAttentionConfig(num_heads=4)).layers, *stack(WindowConfig(num_heads=4, window=3)).layers)
    found["lm-hybrid"] = LMConfig(dim=DIM, stack=StackConfig(layers=layers))
    return found


def make_model(config: Seq2SeqConfig | LMConfig, dtype: torch.dtype = torch.float64, noise: float = 0.1) -> Any:
    torch.manual_seed(11)
    model = build(config, VOCAB).to(dtype).eval()
    for parameter in model.parameters():
        parameter.data.add_(noise * torch.randn_like(parameter))
    return model


def make_pair(config: Seq2SeqConfig, dtype: torch.dtype = torch.float64, noise: float = 0.1) -> Seq2Seq:
    return make_model(config, dtype, noise)


def uncached(model: Seq2Seq | LM, sources: list[list[int]], targets: Tensor) -> Tensor:
    """What training sees: the logits behind each target token, of a language model behind its source as well."""
    size = max(map(len, sources))
    if isinstance(model, Seq2Seq):
        return model(torch.tensor([[*row, *[0] * (size - len(row))] for row in sources]), targets)
    rows = [
        [*source, *target, *[0] * (size - len(source))]
        for source, target in zip(sources, targets.tolist(), strict=True)
    ]
    prefix = torch.tensor([len(source) for source in sources]) if model.prefix else None
    logits = model(torch.tensor(rows), prefix=prefix)
    return torch.stack([row[len(source) :][: targets.shape[1]] for row, source in zip(logits, sources, strict=True)])
