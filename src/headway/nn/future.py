"""Predicting several tokens at once, as a help to learning (and later to speculation). Each gives, for every place,
what is unembedded for the token after it, the one after that, and so on.

Parallel heads (Gloeckle et al. 2024, section 2): the last layer is there once for each token ahead; all of them read
what the layers below made. Sequential modules (DeepSeek-V3, section 2.2): h_k = layer_k(W_k [norm(h_{k-1}); norm(E
x_{t+k})]), h_0 what the whole stack made. Twins: tests/test_lm.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.block import Layer
from headway.nn.mask import Mask


class ParallelHeads(nn.Module):
    """layers: those beside the stack's last one; norm: the stack's own, or None."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(
        self,
        last: Float[Tensor, "B T D"],
        below: Float[Tensor, "B T D"],
        *,
        norm: nn.Module | None,
        mask: Mask,
        positions: Int[Tensor, "B T"],
    ) -> list[Float[Tensor, "B T D"]]:
        """last: what the stack made, its norm included; below: what its last layer read."""
        more = [layer(below, mask=mask, positions=positions) for layer in self.layers]
        return [last, *(x if norm is None else norm(x) for x in more)]


class SequentialModules(nn.Module):
    """layers, norms of either half, joins (2 D to D) and last norms: one of each for a module."""

    def __init__(
        self,
        layers: Sequence[Layer],
        norms: Sequence[nn.Module],
        token_norms: Sequence[nn.Module],
        last_norms: Sequence[nn.Module],
        dim: int,
    ) -> None:
        super().__init__()
        self.layers, self.norms = nn.ModuleList(layers), nn.ModuleList(norms)
        self.token_norms, self.last_norms = nn.ModuleList(token_norms), nn.ModuleList(last_norms)
        self.joins = nn.ModuleList(nn.Linear(2 * dim, dim, bias=False) for _ in layers)

    def forward(
        self,
        last: Float[Tensor, "B T D"],
        embedded: Float[Tensor, "B T D"],
        *,
        mask: Mask,
        positions: Int[Tensor, "B T"],
    ) -> list[Float[Tensor, "B T D"]]:
        """last: what the stack made; embedded: what it read. Behind the end of a row stands no token, and what a module
        gives for the last k places means nothing."""
        found, x = [last], last
        modules = zip(self.layers, self.norms, self.token_norms, self.last_norms, self.joins, strict=True)
        for k, (layer, norm, token_norm, last_norm, join) in enumerate(modules, start=1):
            ahead = F.pad(embedded[:, k:], (0, 0, 0, min(k, embedded.shape[1])))
            x = layer(join(torch.cat([norm(x), token_norm(ahead)], -1)), mask=mask, positions=positions)
            found.append(last_norm(x))
        return found


Future = ParallelHeads | SequentialModules
