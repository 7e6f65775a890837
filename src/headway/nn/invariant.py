"""Batch invariance from outside: a row's bits do not depend on how many rows stand beside it.

* Matrix libraries pick their kernel by the number of rows, so every product goes through ONE library, on rows rounded
  up to a multiple of 4, and attention's queries and keys are rounded up to 16 (`attend_rounded`). Measured on two
  machines: oneDNN's rows are bitwise equal from 2 rows on; MKL's from 4 on one (AVX2), but on the other (AVX-512) only
  from 16, and at 2,048 columns never.
* Elementwise functions such as tanh are computed a vector at a time, but what is left over at the end, and at the seams
  between threads, by another formula: so they get whole vectors, in blocks that are not shared out.

Holds for widths of 32 and more; `headway.models.seq2seq.is_invariant` checks a model on the machine that it runs on.
The price is at most three rows of arithmetic. `apply_batch_invariance` is applied after build; it changes no weight and
no key.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.nn.attend import attend_rounded
from headway.nn.attention import Attention

ROWS = 4
VECTOR, BLOCK = 64, 32_768
"""Numbers that every kernel handles in whole vectors, and as many as torch gives to one thread."""
ELEMENTWISE = (nn.Sigmoid, nn.Tanh, nn.ELU)
ONEDNN = torch.backends.mkldnn.is_available()


class RoundedLinear(nn.Linear):
    """`nn.Linear` on a whole number of fours."""

    def forward(self, input: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        flat = input.reshape(-1, input.shape[-1])
        more = -flat.shape[0] % ROWS
        flat_rounded = F.pad(flat, (0, 0, 0, more)) if more else flat
        if ONEDNN and flat.dtype == torch.float32 and flat.device.type == "cpu":
            out = torch.ops.mkldnn._linear_pointwise(flat_rounded, self.weight, self.bias, "none", [], "")
        else:
            out = F.linear(flat_rounded, self.weight, self.bias)
        return out[: flat.shape[0]].reshape(*input.shape[:-1], -1)


class Whole(nn.Module):
    """An elementwise function on whole vectors."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Float[Tensor, ...]) -> Float[Tensor, ...]:
        flat = F.pad(x.flatten(), (0, -x.numel() % VECTOR))
        return torch.cat([self.inner(block) for block in flat.split(BLOCK)])[: x.numel()].view_as(x)


def apply_batch_invariance(model: nn.Module) -> nn.Module:
    """Round every matrix product, attention and elementwise function of `model`, in place; for inference."""
    for part in list(model.modules()):
        for name, child in part.named_children():
            if type(child) in ELEMENTWISE:
                setattr(part, name, Whole(child))
        if type(part) is nn.Linear:
            part.__class__ = RoundedLinear
        elif isinstance(part, Attention):
            part.attend = attend_rounded
    return model
