"""Tokens to vectors at the stream's beginning, and vectors to logits at its end.

    x = dropout(W norm(E[token] sqrt(E) + segment + position))   (Vaswani et al. 2017, sections 3.4 and 5.4)
    logits = cap tanh((s h E^T + b) / cap)

What is not configured is not there: the paper has neither segments (Devlin et al. 2019), norm, W (Lan et al. 2020:
a table narrower than the stream), b, nor cap (Gemma 2). Fixed norms (Nguyen and Salazar 2019) make every row of the
table a unit vector, on both sides.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.dropout import Dropout
from headway.nn.elementwise import Elementwise

TINY = 1e-12


class Embed(nn.Module):
    """The stream's beginning. `tokens` may be shared with another Embed and with the unembedding."""

    def __init__(
        self,
        tokens: nn.Embedding,
        position: nn.Module,
        *,
        scale: bool,
        dropout: float,
        fix_norm: bool = False,
        segments: int = 0,
        norm: nn.Module | None = None,
        dim: int | None = None,
    ) -> None:
        """dim: of the stream where the table is of another width. segments: kinds of text that are told apart."""
        super().__init__()
        width = tokens.embedding_dim
        self.tokens, self.position, self.dropout = tokens, position, Dropout(dropout)
        self.scale = math.sqrt(width) if scale else 1.0
        self.fix_norm, self.norm = fix_norm, norm
        self.segments = nn.Embedding(segments, width) if segments else None
        self.project = nn.Linear(width, dim) if dim is not None and dim != width else None

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        positions: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """segments: of each token, all 0 by default."""
        x = self.tokens(tokens)
        if self.fix_norm:
            x = x / x.norm(dim=-1, keepdim=True).clamp(min=TINY)
        return self.place(x * self.scale, positions, segments)

    def place(
        self,
        x: Float[Tensor, "B T E"],
        positions: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """What `forward` makes of the rows of its table."""
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(positions) if segments is None else segments)
        elif segments is not None:
            raise ValueError("segments were given, and the model has none (model.segments = 0)")
        x = self.position(x, positions)
        x = x if self.norm is None else self.norm(x)
        return self.dropout(x if self.project is None else self.project(x))


class Unembed(nn.Linear):
    """Hidden vectors to logits; `weight` (V, E) may be that of an embedding. The loss takes its parts apart
    (`headway.train.loss`)."""

    def __init__(
        self,
        dim: int,
        vocab_size: int,
        *,
        bias: bool = False,
        scale: float = 1.0,
        cap: float | None = None,
        fix_norm: bool = False,
    ) -> None:
        super().__init__(dim, vocab_size, bias=bias)
        self.scale, self.cap, self.fix_norm = scale, cap, fix_norm
        self.tanh = Elementwise(torch.tanh)

    def table(self) -> Float[Tensor, "V E"]:
        """The rows that hidden vectors are held against."""
        return self.weight / self.weight.norm(dim=-1, keepdim=True).clamp(min=TINY) if self.fix_norm else self.weight

    def forward(self, input: Float[Tensor, "... E"]) -> Float[Tensor, "... V"]:
        x = super().forward(input if self.scale == 1 else input * self.scale)
        if self.fix_norm:
            assert self.bias is None, "build refuses a bias beside fixed norms"
            x = x / self.weight.norm(dim=-1).clamp(min=TINY)
        return x if self.cap is None else self.cap * self.tanh(x / self.cap)
