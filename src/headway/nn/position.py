"""Positions that are added to the stream; those inside attention are in `headway.nn.relation` and `headway.nn.rotary`.

Sinusoid (Vaswani et al. 2017, section 3.5), interleaved as in the paper:
    PE(p, 2i) = sin(p / 10000^(2i/D)),   PE(p, 2i+1) = cos(p / 10000^(2i/D))
The twins are in `tests/test_position.py`.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

Layout = Literal["interleaved", "halves", "tensor2tensor"]


def sinusoid_at(
    positions: Real[Tensor, " N"], dim: int, *, base: float = 10000.0, layout: Layout = "interleaved"
) -> Float[Tensor, "N D"]:
    """PE of each position, of any sign, in float64: float32 is off in the third place at position 10,000.

    Of an odd `dim`, interleaved and halves have one sine more than cosines; tensor2tensor ends with a zero.
    """
    angles = positions.double()[:, None]
    device = positions.device
    if layout == "tensor2tensor":
        half = dim // 2
        angles = angles * base ** (-torch.arange(half, dtype=torch.float64, device=device) / max(half - 1, 1))
        return torch.cat([angles.sin(), angles.cos(), angles.new_zeros(len(angles), dim % 2)], 1)
    angles = angles * base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim]
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :dim]


def sinusoid(
    length: int,
    dim: int,
    *,
    dtype: torch.dtype,
    device: torch.device,
    base: float = 10000.0,
    layout: Layout = "interleaved",
) -> Float[Tensor, "N D"]:
    """The table of positions 0 .. length - 1."""
    return sinusoid_at(torch.arange(length, device=device), dim, base=base, layout=layout).to(dtype)


class Sinusoid(nn.Module):
    """x + PE(positions); any length, no parameters.

    layout: interleaved, sine and cosine in turn (the paper); halves, all sines and then all cosines, at the same rates
    (Transformer-XL; Marian in transformers); tensor2tensor, halves whose rates are base^(-i / (D/2 - 1)) and so end at
    1 / base (tensor2tensor, fairseq, Marian itself, Whisper).
    """

    def __init__(self, base: float = 10000.0, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.base = base
        self.layout: Layout = layout

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        seen = positions.clamp(min=0)
        table = sinusoid(
            int(seen.max()) + 1, x.shape[-1], dtype=x.dtype, device=x.device, base=self.base, layout=self.layout
        )
        return x + table[seen]


def check_length(max_len: int, *positions: Int[Tensor, "B _"], remedy: str) -> None:
    """Raises ValueError where a table of `max_len` positions ends before the text does."""
    longest = max(int(p.max()) for p in positions) + 1
    if longest > max_len:
        raise ValueError(f"{longest} tokens, but position.max_len = {max_len}: shorten the text, or {remedy}")


class Learned(nn.Module):
    """x + a learned vector per position, up to `max_len` (Gehring et al. 2017; row E of the paper's Table 3)."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.table = nn.Embedding(max_len, dim)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        check_length(self.max_len, positions, remedy="train with sinusoid positions")
        return x + self.table(positions.clamp(min=0))


class NoPosition(nn.Module):
    """x: for recurrent layers, which know the order anyway, and for attention that has positions of its own."""

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return x
