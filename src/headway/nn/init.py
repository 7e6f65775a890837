"""Initial weights: Xavier uniform matrices (Glorot and Bengio 2010), zero biases, embeddings N(0, 1/D) so that times
sqrt(D) they are N(0, 1)."""

from __future__ import annotations

from torch import nn


def initialise(module: nn.Module) -> None:
    """Draw every weight of `module` anew from torch's generator, in the order of `module.modules()`."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in module.modules():
        # After the matrices: an unembedding tied to an embedding is drawn as an embedding.
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
