"""Initial weights: Xavier uniform matrices (Glorot and Bengio 2010), zero biases, embeddings N(0, 1/D) so that times
sqrt(D) they are N(0, 1)."""

from __future__ import annotations

import torch
from torch import nn


class Drawn(nn.Module):
    """Abstract: a module that knows best how its own weights begin, and draws them from torch's generator."""

    def reset(self) -> None:
        raise TypeError(f"{type(self).__name__} is abstract")


def initialise(module: nn.Module) -> None:
    """Draw the matrices, embeddings and `Drawn` parts of `module` anew from torch's generator, in the order of
    `module.modules()`. Norms are as they were made."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in module.modules():
        # After the matrices: an unembedding tied to an embedding is drawn as an embedding.
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
    for part in module.modules():
        if isinstance(part, Drawn):
            part.reset()


SCALED = ("v", "out", "gate", "up", "down")
"""What DeepNorm begins with smaller weights: values, outputs and feed-forwards, but not queries and keys."""


@torch.no_grad()
def scale_for_deepnorm(block: nn.Module, beta: float) -> None:
    """Multiply by beta (`headway.nn.residual.deepnorm_alpha_beta`) the weights of `block` that Wang et al. 2022 draw
    with that gain (figure 2): after `initialise`, once."""
    for name, part in block.named_modules():
        if isinstance(part, nn.Linear) and name.rpartition(".")[2] in SCALED:
            part.weight.mul_(beta)
