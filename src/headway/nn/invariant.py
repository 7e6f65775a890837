"""Batch invariance from outside: a row's bits do not depend on how many rows stand beside it.

* Matrix libraries pick their kernel by the number of rows, so every product goes through ONE library, on rows rounded
  up to a multiple of 4, and attention's queries and keys are rounded up to 16 (`attend_rounded`). Measured on two
  machines: oneDNN's rows are bitwise equal from 2 rows on; MKL's from 4 on one (AVX2), but on the other (AVX-512) only
  from 16, and at 2,048 columns never.
* Functions such as tanh take whole vectors (`headway.nn.elementwise`).

The price is at most three rows of arithmetic, and threads for the latter. Holds for widths of 32 and more;
`headway.models.seq2seq.is_invariant` checks a model on the machine that it runs on. `apply_batch_invariance` is applied
after build; it changes no weight and no key.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.nn.attend import attend_rounded
from headway.nn.attention import Attention
from headway.nn.elementwise import Elementwise
from headway.nn.embed import Unembed
from headway.nn.latent import LatentAttention

ROWS = 4
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
        return out[: flat.shape[0]].reshape(*input.shape[:-1], self.out_features)


class RoundedUnembed(Unembed, RoundedLinear):
    """`Unembed` whose product is a `RoundedLinear`'s."""


def apply_batch_invariance(model: nn.Module) -> nn.Module:
    """Round every matrix product, attention and elementwise function of `model`, in place; for inference."""
    for part in model.modules():
        if type(part) is nn.Linear:
            part.__class__ = RoundedLinear
        elif type(part) is Unembed:
            part.__class__ = RoundedUnembed
        elif isinstance(part, Attention | LatentAttention):
            part.attend = attend_rounded
        elif isinstance(part, Elementwise):
            part.whole = True
    return model
