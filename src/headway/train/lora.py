"""LoRA (Hu et al. 2021, section 4.1): beside each matrix, which stays, two thin ones learn.

    y = W x + b + (alpha / rank) B A x,   A (rank, in) drawn from N(0, 1 / in), B (out, rank) zero

`apply_lora` is applied from outside, after build and loading, to every linear map of encoder and decoder; embeddings,
unembedding, norms and biases stay as they are. What was there keeps its name, and A, B and alpha / rank stand beside
it, so a checkpoint says it all; `merged` makes plain weights of them. Twin: the formula on plain tensors in
tests/test_lora.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.dropout import Dropout

if TYPE_CHECKING:
    from headway.config import LoRAConfig
    from headway.models.seq2seq import Seq2Seq

ADDED = (".lora_a", ".lora_b", ".lora_scale")
"""How the names of what a plain model does not have end."""


class LoRALinear(nn.Linear):
    """`nn.Linear` over the weights of another, with two thin matrices that learn."""

    lora_scale: Tensor

    def __init__(self, base: nn.Linear, config: LoRAConfig, generator: torch.Generator) -> None:
        super().__init__(base.in_features, base.out_features, bias=base.bias is not None, device="meta")
        self.weight, self.bias = base.weight, base.bias
        drawn = torch.randn(config.rank, base.in_features, generator=generator) * base.in_features**-0.5
        self.lora_a = nn.Parameter(drawn.to(base.weight))
        self.lora_b = nn.Parameter(base.weight.new_zeros(base.out_features, config.rank))
        self.register_buffer("lora_scale", base.weight.new_tensor(config.alpha / config.rank))
        self.dropout = Dropout(config.dropout)

    def forward(self, input: Tensor) -> Tensor:
        thin = F.linear(F.linear(self.dropout(input), self.lora_a), self.lora_b)
        return F.linear(input, self.weight, self.bias) + self.lora_scale * thin


def apply_lora(model: Seq2Seq, config: LoRAConfig, seed: int) -> Seq2Seq:
    """Put thin matrices, drawn by `seed`, beside the matrices of `model`, in place; nothing else in it learns then."""
    generator = torch.Generator().manual_seed(seed)
    model.requires_grad_(False)
    for parent in [*model.encoder.modules(), *model.decoder.modules()]:
        for name, part in list(parent.named_children()):
            if type(part) is nn.Linear:
                setattr(parent, name, LoRALinear(part, config, generator))
    return model


def merged(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a plain model that computes the same: W + (alpha / rank) B A; those without LoRA as they are."""
    plain = {name: tensor for name, tensor in tensors.items() if not name.endswith(ADDED)}
    for part in (name.removesuffix(".lora_a") for name in tensors if name.endswith(".lora_a")):
        a, b, scale = (tensors[part + end] for end in ADDED)
        plain[f"{part}.weight"] = tensors[f"{part}.weight"] + scale * (b @ a)
    return plain
