"""Position-wise feed-forward networks.

    FFN       down(f(up x))              Vaswani et al. 2017, equation 2, with f = relu
    GatedFFN  down(f(gate x) * up x)     Shazeer 2020

Mixtures of them are in `headway.nn.experts`. The twins are the equations, in `tests/test_parts_of_layers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.dropout import Dropout
from headway.nn.elementwise import Elementwise
from headway.nn.trace import Trace

Function = Callable[[Tensor], Tensor]


def gelu_sigmoid(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x), the coarser approximation of Hendrycks and Gimpel 2016."""
    return x * torch.sigmoid(1.702 * x)


def identity(x: Tensor) -> Tensor:
    return x


gelu_tanh: Function = partial(F.gelu, approximate="tanh")

ACTIVATIONS: dict[str, Function] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "gelu_sigmoid": gelu_sigmoid,
    "silu": F.silu,
}

GATES: dict[str, Function] = {
    "glu": torch.sigmoid,
    "reglu": torch.relu,
    "geglu": F.gelu,
    "geglu_tanh": gelu_tanh,
    "swiglu": F.silu,
    "bilinear": identity,
}


def _number_by_number(function: Function) -> nn.Module:
    """relu is exact however it is computed, and need not go the slower way."""
    return nn.ReLU() if function is torch.relu else Elementwise(function)


def _dropout(p: float) -> nn.Module:
    return Dropout(p) if p else nn.Identity()


class FeedForward(nn.Module):
    """Abstract: what works on each token by itself."""

    def forward(
        self, x: Float[Tensor, "B T D"], *, positions: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        """positions: -1 where a slot holds no token; what comes out there is finite and unspecified."""
        raise TypeError(f"{type(self).__name__} is abstract")


class FFN(FeedForward):
    """activation: a name in `ACTIVATIONS`. dropout: behind the activation."""

    def __init__(self, dim: int, ffn_dim: int, activation: str, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(dim, ffn_dim, bias=bias)
        self.down = nn.Linear(ffn_dim, dim, bias=bias)
        self.activation, self.dropout = _number_by_number(ACTIVATIONS[activation]), _dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], *, positions: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        return self.down(self.dropout(self.activation(self.up(x))))


class GatedFFN(FeedForward):
    """kind: a name in `GATES`. dropout: of what the gate lets through."""

    def __init__(self, dim: int, ffn_dim: int, kind: str, *, bias: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, ffn_dim, bias=bias)
        self.up = nn.Linear(dim, ffn_dim, bias=bias)
        self.down = nn.Linear(ffn_dim, dim, bias=bias)
        self.activation, self.dropout = _number_by_number(GATES[kind]), _dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], *, positions: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))
