"""Every tenant of the interfaces, found from the config unions: whoever adds a kind there is tested by these suites
at once."""

from __future__ import annotations

from typing import Any, get_args

import torch
from pydantic_core import PydanticUndefined

from headway.build import build, build_mixer
from headway.config import (
    AttentionConfig,
    DecoderConfig,
    GRUConfig,
    LayerConfig,
    MixerConfig,
    NoFFNConfig,
    NoPositionConfig,
    ReLUConfig,
    RNNSearchConfig,
    Seq2SeqConfig,
    StackConfig,
)
from headway.models.seq2seq import Seq2Seq
from headway.nn.mixer import Mixer

DIM, VOCAB, LAYERS = 12, 29, 2


def kinds(union: Any) -> tuple[type, ...]:
    return get_args(get_args(union)[0])


def example(kind: type) -> Any:
    """A small one: 4 heads where it has heads, 3 for whatever it must be told."""
    fields = kind.model_fields
    required = {name: 3 for name, field in fields.items() if field.default is PydanticUndefined and name != "kind"}
    return kind(**required | ({"num_heads": 4} if "num_heads" in fields else {}))


def mixer_configs() -> dict[str, Any]:
    """By name; kinds that can run both ways are there twice."""
    found = {}
    for kind in kinds(MixerConfig):
        config = example(kind)
        found[config.kind] = config
        if "bidirectional" in kind.model_fields:
            found[f"{config.kind}-bidirectional"] = config.model_copy(update={"bidirectional": True})
    found["attention-odd-widths"] = AttentionConfig(num_heads=3, key_dim=5, value_dim=2)
    return found


def make_mixer(config: Any) -> Mixer:
    torch.manual_seed(7)
    mixer = build_mixer(LayerConfig(mixer=config, ffn=NoFFNConfig()), DIM).double().eval()
    for parameter in mixer.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return mixer


def stack(mixer: Any, residual: str = "post") -> StackConfig:
    return StackConfig(layers=(LayerConfig(mixer=mixer, ffn=ReLUConfig(dim=18), residual=residual),) * LAYERS)


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
    found["rnnsearch-without-feeding"] = Seq2SeqConfig(
        dim=DIM, tie="none", encoder=encoder, decoder=RNNSearchConfig(input_feeding=False, attention_dim=7)
    )
    return found


def make_pair(config: Seq2SeqConfig, dtype: torch.dtype = torch.float64, noise: float = 0.1) -> Seq2Seq:
    torch.manual_seed(11)
    model = build(config, VOCAB).to(dtype).eval()
    for parameter in model.parameters():
        parameter.data.add_(noise * torch.randn_like(parameter))
    return model
