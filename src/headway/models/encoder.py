"""Encoder-only (Devlin et al. 2019): every token sees every token, and a head says what for.

The independent twins are the einsum models of `tests/matrix_twin.py`, and BERT of transformers.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.models.state import positions_of
from headway.nn.embed import Embed, Unembed
from headway.nn.head import Head, Words
from headway.nn.mask import Document, Full, Mask
from headway.nn.stack import Stack
from headway.nn.trace import Trace


class Encoder(nn.Module):
    """Tokens in; what the head says out, or without a head the vectors of the tokens."""

    def __init__(self, embed: Embed, stack: Stack, head: Head | None = None) -> None:
        super().__init__()
        self.embed, self.stack, self.head = embed, stack, head

    @property
    def vocab_size(self) -> int:
        return self.embed.tokens.num_embeddings

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        mask: Mask | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """tokens: ids, PAD-filled on either side. See `vectors` for the rest, and `headway.nn.head` for what comes
        out."""
        x = self.vectors(tokens, segments=segments, documents=documents, positions=positions, mask=mask, trace=trace)
        return x if self.head is None else self.head(x, positions_of(tokens) if positions is None else positions)

    @property
    def unembed(self) -> Unembed:
        assert isinstance(self.head, Words), "only a head for words unembeds"
        return self.head.unembed

    def hidden(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T E"]:
        """What a head for words unembeds; training takes it, as the loss unembeds for itself."""
        assert isinstance(self.head, Words), "only a head for words unembeds"
        x = self.vectors(tokens, segments=segments, documents=documents, positions=positions, trace=trace)
        return self.head.hidden(x)

    def vectors(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        mask: Mask | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Of each token. segments: its kind of text, 0 by default. documents: of packed rows, which text it is of: no
        text sees another; positions then begin anew in each, -1 where none stands. mask: another than all to all."""
        if documents is not None and positions is None:
            raise ValueError("packed rows need positions that begin anew in each text: give positions with documents")
        at = positions_of(tokens) if positions is None else positions
        view = Full() if mask is None else mask
        return self.stack(
            self.embed(tokens, at, segments),
            mask=view if documents is None else view & Document(documents),
            positions=at,
            trace=trace.at("stack") if trace else None,
        )
