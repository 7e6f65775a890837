"""Tokens to vectors: E[token] sqrt(D) + position, then dropout (Vaswani et al. 2017, sections 3.4 and 5.4)."""

from __future__ import annotations

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.dropout import Dropout


class Embed(nn.Module):
    """The stream's beginning. `tokens` may be shared with another Embed and with the unembedding."""

    def __init__(self, tokens: nn.Embedding, position: nn.Module, *, scale: bool, dropout: float) -> None:
        super().__init__()
        self.tokens, self.position, self.dropout = tokens, position, Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale else 1.0

    def forward(self, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return self.dropout(self.position(self.tokens(tokens) * self.scale, positions))
