"""How a sublayer joins the stream.

    Post      norm(x + f(x))            Vaswani et al. 2017, section 3.1
    Pre       x + f(norm(x))            Xiong et al. 2020
    Sandwich  x + norm(f(norm(x)))      Ding et al. 2021 (CogView); Gemma 2
    DeepNorm  norm(alpha x + f(x))      Wang et al. 2022
    Plain     f(x)

Dropout falls on what is added to the stream (Vaswani et al. 2017, section 5.4). Layers whose sublayers stand side by
side are `headway.nn.block.ParallelBlock`.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from headway.nn.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class Post(nn.Module):
    """norm(x + dropout(f(x)))."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], f: Sublayer) -> Float[Tensor, "B T D"]:
        return self.norm(x + self.dropout(f(x)))


class Pre(nn.Module):
    """x + dropout(f(norm(x))); a stack of these ends with a norm of its own."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], f: Sublayer) -> Float[Tensor, "B T D"]:
        return x + self.dropout(f(self.norm(x)))


class Sandwich(nn.Module):
    """x + dropout(norm_out(f(norm(x)))); a stack of these ends with a norm of its own."""

    def __init__(self, norm: nn.Module, norm_out: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.norm_out, self.dropout = norm, norm_out, Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], f: Sublayer) -> Float[Tensor, "B T D"]:
        return x + self.dropout(self.norm_out(f(self.norm(x))))


class DeepNorm(nn.Module):
    """norm(alpha x + dropout(f(x))), alpha by `deepnorm_alpha_beta`. The weights begin smaller as well:
    `headway.nn.init.scale_for_deepnorm`."""

    def __init__(self, norm: nn.Module, dropout: float, alpha: float) -> None:
        super().__init__()
        self.norm, self.dropout, self.alpha = norm, Dropout(dropout), alpha

    def forward(self, x: Float[Tensor, "B T D"], f: Sublayer) -> Float[Tensor, "B T D"]:
        return self.norm(self.alpha * x + self.dropout(f(x)))


def deepnorm_alpha_beta(encoder_layers: int, decoder_layers: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """(alpha, beta) of the encoder and of the decoder (Wang et al. 2022, figure 2), by how many layers each has; where
    one has none, both are those of the other."""
    n, m = encoder_layers, decoder_layers
    assert n + m > 0, "a model has layers"
    if n and m:
        depth = (n**4 * m) ** (1 / 16)
        return (0.81 * depth, 0.87 / depth), ((3 * m) ** (1 / 4), (12 * m) ** (-1 / 4))
    alone = (2 * (n + m)) ** (1 / 4), (8 * (n + m)) ** (-1 / 4)
    return alone, alone


class Plain(nn.Module):
    """dropout(f(x)): no skip and no norm, as in the recurrent networks before the Transformer."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], f: Sublayer) -> Float[Tensor, "B T D"]:
        return self.dropout(f(x))
