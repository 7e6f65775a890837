"""Norms: what keeps vectors of the stream at one size.

    LayerNorm  (x - mean x) / sqrt(var x + eps) * w + b     Ba et al. 2016
    RMSNorm    x / sqrt(mean x^2 + eps) * w                 Zhang and Sennrich 2019
    ScaleNorm  g x / max(|x|, eps)                          Nguyen and Salazar 2019

The twins are the equations in float64, in `tests/test_parts_of_layers.py`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LayerNorm = nn.LayerNorm
"""torch's own: `LayerNorm(dim, eps, bias=True)`."""


def wide(x: Tensor) -> Tensor:
    """float32 for half types, whose squares leave their range and whose sums lose their ends."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class RMSNorm(nn.Module):
    """`eps` stands inside the root (Llama). offset: w is what the multiplier has beyond 1, and begins at 0 (Gemma)."""

    def __init__(self, dim: int, eps: float, *, offset: bool = False) -> None:
        super().__init__()
        self.eps, self.offset = eps, offset
        self.weight = nn.Parameter(torch.zeros(dim) if offset else torch.ones(dim))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        w = wide(self.weight)
        return F.rms_norm(wide(x), w.shape, 1 + w if self.offset else w, self.eps).to(x.dtype)


class ScaleNorm(nn.Module):
    """Vectors of one length, g, which is learned and begins at sqrt(dim)."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps, self.g = eps, nn.Parameter(torch.tensor(math.sqrt(dim)))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return (wide(self.g) * unit_rows(wide(x), self.eps)).to(x.dtype)


def unit_rows(weight: Float[Tensor, "... D"], eps: float) -> Float[Tensor, "... D"]:
    """weight / max(|weight|, eps), row by row: FixNorm, of embeddings (Nguyen and Salazar 2019)."""
    return weight / torch.linalg.vector_norm(weight, dim=-1, keepdim=True).clamp(min=eps)
