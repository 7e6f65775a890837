"""A function of numbers, one by one, that can be computed so that a number's bits do not depend on its neighbours.

torch computes such a function a vector at a time, but what is left over at the end, and at the seams between threads,
by another formula, whose last bit may differ. Given whole vectors, in blocks that are not shared out, it has no such
places.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

VECTOR, BLOCK = 64, 32_768
"""A number that is a whole number of vectors for every kernel, and as many as torch gives to one thread."""


class Elementwise(nn.Module):
    """`function` of every number; `whole`: in whole vectors (CPU), as `headway.nn.invariant` wants it."""

    whole = False

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.whole or x.device.type != "cpu":
            return self.function(x)
        flat = F.pad(x.flatten(), (0, -x.numel() % VECTOR))
        return torch.cat([self.function(block) for block in flat.split(BLOCK)])[: x.numel()].view_as(x)
