"""Dropout (Srivastava et al. 2014): each number is zeroed with probability p, and the others grow by 1 / (1 - p).

torch draws a CPU's mask number by number, which takes an eighth of a small model's update. Here one draw of 64 bits
decides four numbers, each by 16 bits: so p is kept to 1 / 65,536, and the scale is that of the p that was kept. The
twin is torch's own, in tests/test_dropout.py; on other devices it is what runs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LEVELS = 2**16
"""Of the 16 bits that decide a number."""


class Dropout(nn.Module):
    """In training, from torch's generator; otherwise nothing. 0 <= p < 1."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.p == 0:
            return x
        return x * kept(x, self.p) if x.device.type == "cpu" else F.dropout(x, self.p)


def kept(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """0 where a number of `x` falls out, 1 / (1 - p) where it stays."""
    dropped = min(round(p * LEVELS), LEVELS - 1)  # something always stays, or the scale would be infinite
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    # Whole numbers in float: 1 or more where the bits, as a number from -32,768 on, are not among the first `dropped`.
    stays = bits.float().add_(LEVELS // 2 - dropped + 1).clamp_(0, 1)
    return stays.mul_(LEVELS / (LEVELS - dropped)).to(x.dtype)
