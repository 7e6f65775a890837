"""How a sublayer joins the stream. Post: norm(x + f(x)) (Vaswani et al. 2017, section 3.1). Pre: x + f(norm(x))
(Xiong et al. 2020).

Dropout falls on the sublayer's output (the paper's section 5.4).
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


class Plain(nn.Module):
    """dropout(f(x)): no skip and no norm, as in the recurrent networks before the Transformer."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], f: Sublayer) -> Float[Tensor, "B T D"]:
        return self.dropout(f(x))
