"""Positions that are added to the stream. One of the four injection points of the design; the others come with their
tenants.

Sinusoid (Vaswani et al. 2017, section 3.5), interleaved as in the paper:
    PE(p, 2i) = sin(p / 10000^(2i/D)),   PE(p, 2i+1) = cos(p / 10000^(2i/D))
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def sinusoid(length: int, dim: int, *, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "N D"]:
    """The table of positions 0 .. length - 1. Angles are computed in float64: float32 is off in the third place at
    position 10,000."""
    rates = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)
    angles = torch.arange(length, dtype=torch.float64, device=device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :dim].to(dtype)


class Sinusoid(nn.Module):
    """x + PE(positions); any length, no parameters."""

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        seen = positions.clamp(min=0)
        table = sinusoid(int(seen.max()) + 1, x.shape[-1], dtype=x.dtype, device=x.device)
        return x + table[seen]


class Learned(nn.Module):
    """x + a learned vector per position, up to `max_len` (Gehring et al. 2017; row E of the paper's Table 3)."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.table = nn.Embedding(max_len, dim)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        longest = int(positions.max()) + 1
        if longest > self.max_len:
            raise ValueError(
                f"{longest} tokens, but position.max_len = {self.max_len}: shorten the text, or "
                f"train with sinusoid positions"
            )
        return x + self.table(positions.clamp(min=0))


class NoPosition(nn.Module):
    """x: for recurrent layers, which know the order anyway."""

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return x
