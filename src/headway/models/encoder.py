"""Encoder-only (Devlin et al. 2019): every token sees every token, and a head says what for.

The independent twins are the einsum models of `tests/matrix_twin.py`, and BERT of transformers.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.models.state import positions_of
from headway.nn.both_ways import BothWays
from headway.nn.decomposable import Decomposable
from headway.nn.embed import Embed, Unembed
from headway.nn.head import Head, Words
from headway.nn.mask import Document, Full, Mask, Streams
from headway.nn.stack import Stack
from headway.nn.trace import Trace


class Encoder(nn.Module):
    """Tokens in; what the head says out, or without a head the vectors of the tokens."""

    def __init__(
        self,
        embed: Embed,
        stack: Stack | BothWays | Decomposable,
        head: Head | None = None,
        *,
        two_streams: bool = False,
    ) -> None:
        """two_streams: with a vector for a token that is to be guessed (Yang et al. 2019)."""
        super().__init__()
        self.embed, self.stack, self.head = embed, stack, head
        width = embed.tokens.embedding_dim
        self.query = nn.Parameter(nn.init.normal_(torch.empty(width), std=0.02)) if two_streams else None

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
        rank: Int[Tensor, "B T"] | None = None,
        mask: Mask | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """tokens: ids, PAD-filled on either side. See `vectors` for the rest, and `headway.nn.head` for what comes
        out."""
        x = self.vectors(
            tokens, segments=segments, documents=documents, positions=positions, rank=rank, mask=mask, trace=trace
        )
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
        rank: Int[Tensor, "B T"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T E"]:
        """What a head for words unembeds; training takes it, as the loss unembeds for itself."""
        assert isinstance(self.head, Words), "only a head for words unembeds"
        x = self.vectors(tokens, segments=segments, documents=documents, positions=positions, rank=rank, trace=trace)
        return self.head.hidden(x)

    def vectors(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        rank: Int[Tensor, "B T"] | None = None,
        mask: Mask | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Of each token. segments: its kind of text, 0 by default. documents: of packed rows, which text it is of: no
        text sees another; positions then begin anew in each, -1 where none stands. rank: the turn of each token, which
        is then guessed from those before its turn alone, of a model with two streams. mask: another than all to
        all."""
        if documents is not None and positions is None:
            raise ValueError("packed rows need positions that begin anew in each text: give positions with documents")
        at = positions_of(tokens) if positions is None else positions
        if rank is not None:
            if documents is not None or mask is not None:
                raise ValueError("an order of turns says who sees whom: give rank, or documents and mask")
            return self._guesses(tokens, at, segments, rank, trace)
        if isinstance(self.stack, Decomposable):
            if segments is None or documents is not None or mask is not None:
                raise ValueError("decomposable attention holds two texts against each other: give their segments alone")
            return self.stack(self.embed(tokens, at), segments=segments, positions=at)
        view = Full() if mask is None else mask
        return self.stack(
            self.embed(tokens, at, segments),
            mask=view if documents is None else view & Document(documents),
            positions=at,
            trace=trace.at("stack") if trace else None,
        )

    def _guesses(
        self,
        tokens: Int[Tensor, "B T"],
        positions: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None,
        rank: Int[Tensor, "B T"],
        trace: Trace | None,
    ) -> Float[Tensor, "B T D"]:
        """The query stream: both streams go through the stack as one row, and `Streams` says who looks where."""
        if self.query is None or not isinstance(self.stack, Stack):
            raise ValueError("an order of turns was given, and the model has one stream: build it with two_streams")
        read = self.embed(tokens, positions, segments)
        guess = self.embed.place(self.query.expand(*tokens.shape, -1), positions, segments)
        x = self.stack(
            torch.cat([read, guess], 1),
            mask=Streams(rank),
            positions=torch.cat([positions, positions], 1),
            trace=trace.at("stack") if trace else None,
        )
        return x[:, tokens.shape[1] :]
