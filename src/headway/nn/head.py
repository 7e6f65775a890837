"""What an encoder's last vectors become: words, classes, tags, an answer's ends, or one vector for the text.

Devlin et al. 2019 (words, classes, span), Reimers and Gurevych 2019 (pools and vectors). The twins are the heads of
transformers' BERT, in tests/test_encoder.py.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.decomposable import Hidden
from headway.nn.dropout import Dropout
from headway.nn.elementwise import Elementwise
from headway.nn.embed import Unembed


class Pool(nn.Module):
    """One vector for a text: the first token's, the mean or the sum of all, or (pooler) tanh(W first + b)."""

    def __init__(self, dim: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.dense = nn.Linear(dim, dim) if kind == "pooler" else None
        self.tanh = Elementwise(torch.tanh)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        """positions: -1 where there is no token; those count nowhere. Mean and sum of a text of no tokens are zeros."""
        real = positions >= 0
        if self.kind in ("mean", "sum"):
            total = torch.where(real[..., None], x, 0.0).sum(1)
            return total if self.kind == "sum" else total / real.sum(1, keepdim=True).clamp(min=1)
        first = x[torch.arange(len(x), device=x.device), real.int().argmax(1)]
        return first if self.dense is None else self.tanh(self.dense(first))


class Words(nn.Module):
    """Logits of the word at each place (B, T, V): unembed(norm(activation(W x + b))). next: what says of two texts
    whether the second follows (class 0) or comes from elsewhere (1)."""

    def __init__(
        self,
        dim: int,
        unembed: Unembed,
        activation: Elementwise | None,
        norm: nn.Module | None,
        next: Classes | None = None,
    ) -> None:
        super().__init__()
        self.unembed, self.activation, self.norm, self.next = unembed, activation, norm, next
        self.dense = nn.Linear(dim, unembed.in_features) if activation is not None else None

    def hidden(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T E"]:
        """What is unembedded."""
        if self.dense is not None and self.activation is not None:
            x = self.activation(self.dense(x))
        return x if self.norm is None else self.norm(x)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        return self.unembed(self.hidden(x))


class Classes(nn.Module):
    """Logits of each class of the text (B, N); N = 1 is a number. hidden_dim: of two layers before the classes."""

    def __init__(self, dim: int, num: int, pool: Pool, dropout: float, hidden_dim: int | None = None) -> None:
        super().__init__()
        self.pool, self.dropout, self.out = pool, Dropout(dropout), nn.Linear(hidden_dim or dim, num)
        self.hidden = Hidden(dim, hidden_dim, dropout) if hidden_dim is not None else None

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B N"]:
        pooled = self.pool(x, positions)
        return self.out(self.dropout(pooled if self.hidden is None else self.hidden(pooled)))


class Tags(nn.Module):
    """Logits of each class of each token (B, T, N)."""

    def __init__(self, dim: int, num: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.out = Dropout(dropout), nn.Linear(dim, num)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T N"]:
        return self.out(self.dropout(x))


class Span(nn.Module):
    """Logits of where an answer begins and ends (B, T, 2); -inf where there is no token."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.out = nn.Linear(dim, 2)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T 2"]:
        return self.out(x).masked_fill((positions < 0)[..., None], -torch.inf)


class Vector(nn.Module):
    """The text's embedding (B, E), of length 1 where `normalise`."""

    def __init__(self, dim: int, pool: Pool, out_dim: int | None, *, normalise: bool) -> None:
        super().__init__()
        self.pool, self.normalise = pool, normalise
        self.out = nn.Linear(dim, out_dim) if out_dim is not None else None

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B E"]:
        pooled = self.pool(x, positions)
        pooled = pooled if self.out is None else self.out(pooled)
        return F.normalize(pooled, dim=-1) if self.normalise else pooled


Head = Words | Classes | Tags | Span | Vector
