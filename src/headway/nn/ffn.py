"""Position-wise feed-forward network (Vaswani et al. 2017, equation 2): max(0, x W_1 + b_1) W_2 + b_2."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class ReLUFFN(nn.Module):
    """Two linear maps with a ReLU between them."""

    def __init__(self, dim: int, ffn_dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, ffn_dim)
        self.down = nn.Linear(ffn_dim, dim)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.down(self.up(x).relu())
