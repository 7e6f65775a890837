"""Rotary positions (Su et al. 2021, "RoFormer", section 3.2): queries and keys turn, so that their products depend on
the distance alone.

With w turned coordinates, coordinates a and b of pair i at position p become
    a' = a cos(p r_i) - b sin(p r_i),   b' = b cos(p r_i) + a sin(p r_i),   r_i = base^(-2i/w),  i = 0 .. w/2 - 1
and a scaling changes the rates r. The twins, complex numbers and transformers, are in `tests/test_position.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.nn.relation import Relation, shared


class Scaling:
    """Abstract: makes rotary positions reach further than a model was trained.

    late: the rates depend on the length of the text that is read.
    """

    late = False

    def rates(self, rates: Float[Tensor, " R"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "#B R"]:
        """The rates, from fast to slow, for texts of `lengths` tokens; one row where all have the same."""
        raise TypeError(f"{type(self).__name__} is abstract")


@dataclass(frozen=True)
class LinearScaling(Scaling):
    """r / factor, which is as if positions were that much closer (Chen et al. 2023, "position interpolation")."""

    factor: float

    def rates(self, rates: Float[Tensor, " R"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "#B R"]:
        return rates[None] / self.factor


@dataclass(frozen=True)
class DynamicScaling(Scaling):
    """The base grows with a text of n > trained_len tokens ("dynamic NTK", as transformers has it):

        base' = base (factor n / trained_len - (factor - 1))^(w / (w - 2))

    Each row by its own length; up to `trained_len` nothing changes. Keys turn anew as the text grows, so one layer
    decodes with a cache what it computes without. In a stack that is so up to `trained_len` only: what lies in the
    caches of the layers above was computed while the base was another.
    """

    factor: float
    trained_len: int

    late = True

    def rates(self, rates: Float[Tensor, " R"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "#B R"]:
        growth = self.factor * lengths.clamp(min=self.trained_len) / self.trained_len - (self.factor - 1)
        # base'^(-2i/w) in terms of base^(-2i/w); of a single pair, that is w = 2, the rate is 1 with any base.
        power = torch.arange(len(rates), dtype=rates.dtype, device=rates.device) / max(len(rates) - 1, 1)
        return rates * growth.to(rates.dtype)[:, None] ** -power


@dataclass(frozen=True)
class Llama3Scaling(Scaling):
    """Pairs that turn fewer than `low` times within `trained_len` tokens slow down by `factor`, those that turn more
    than `high` times stay as they are, and between the two the rate is mixed (Llama 3.1)."""

    factor: float
    low: float
    high: float
    trained_len: int

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise ValueError(
                f"scaling.high = {self.high}, scaling.low = {self.low}: high has to be above low; Llama 3.1 has 4 and 1"
            )

    def rates(self, rates: Float[Tensor, " R"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "#B R"]:
        turns = self.trained_len * rates / (2 * math.pi)
        keep = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (keep * rates + (1 - keep) * rates / self.factor)[None]


class Rotary(Relation):
    """Turns queries and keys; no parameters, any length.

    layout: half, coordinate i turns with i + w/2 (GPT-NeoX, Llama in transformers); pair, 2i with 2i + 1 (the paper,
    Llama itself, GPT-J). share: of a head's K coordinates that turn, w = share K of them from the first on, rounded
    down (GPT-NeoX: 0.25).
    """

    def __init__(
        self,
        base: float = 10000.0,
        layout: Literal["half", "pair"] = "half",
        share: float = 1.0,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.base, self.share, self.scaling = base, share, scaling
        # Where the two coordinates of a pair stand once the last axis is unfolded, and that axis' shape.
        self.axis, self.shape = (-2, (2, -1)) if layout == "half" else (-1, (-1, 2))
        self.late = scaling is not None and scaling.late

    def width(self, key_dim: int) -> int:
        """How many of a head's `key_dim` coordinates turn. Raises ValueError unless these are one or more pairs."""
        width = int(round(self.share * key_dim, 6))  # 0.29 * 100 is 28.999...
        if width < 2 or width % 2:
            raise ValueError(
                f"rotary positions turn coordinates in pairs, but share = {self.share} of key_dim = {key_dim} are "
                f"{width}: choose a key_dim or a share that makes it an even number, 2 or more"
            )
        return width

    def turn(
        self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B H T K"]:
        width = self.width(x.shape[-1])
        rates = self.base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=x.device) / width)
        rates = rates[None] if self.scaling is None else self.scaling.rates(rates, lengths)
        # In float64, as a large position leaves float32 few digits of the angle, and bfloat16 repeats from 256 on.
        angles = (shared(positions)[:, :, None] * rates[:, None])[:, None]
        wide = torch.promote_types(x.dtype, torch.float32)
        cos, sin = angles.cos().to(wide), angles.sin().to(wide)
        a, b = x[..., :width].to(wide).unflatten(-1, self.shape).unbind(self.axis)
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], self.axis).flatten(-2).to(x.dtype)
        return turned if width == x.shape[-1] else torch.cat([turned, x[..., width:]], -1)
