"""The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017, figure 1) and every pair of that shape.

    P(y_t | y_<t, x) = softmax(unembed(decode(y_<t, encode(x))))

The encoder is a `Stack`; the decoder is a `Stack` or an attentional recurrent decoder. The independent twins are in
`tests/twins.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.models.state import PAD as PAD
from headway.models.state import State, Step, next_positions, padded, positions_of
from headway.nn.embed import Embed, Unembed
from headway.nn.mask import Causal, Full
from headway.nn.recurrent_decoder import RecurrentDecoder
from headway.nn.stack import Stack
from headway.nn.trace import Trace

Decoder = Stack | RecurrentDecoder
"""What a pair's decoder may be: a call for training, `start` and the same call with caches for decoding."""


class Seq2Seq(nn.Module):
    """Source tokens and shifted target tokens in, logits of the next target token out."""

    def __init__(
        self,
        source_embed: Embed,
        target_embed: Embed,
        encoder: Stack,
        decoder: Decoder,
        unembed: Unembed,
        *,
        project: nn.Linear | None = None,
        reverse_source: bool = False,
    ) -> None:
        """project: from the stream's width to the table's, where they differ. reverse_source: the encoder reads the
        last word first (Sutskever et al. 2014)."""
        super().__init__()
        self.project, self.reverse_source = project, reverse_source
        self.source_embed, self.target_embed = source_embed, target_embed
        self.encoder, self.decoder, self.unembed = encoder, decoder, unembed

    @property
    def vocab_size(self) -> int:
        """Of the target; the source's may be another."""
        return self.unembed.out_features

    @property
    def source_vocab_size(self) -> int:
        return self.source_embed.tokens.num_embeddings

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T V"]:
        """source: ids, PAD-filled on either side; target: the decoder's input, the target shifted right behind the
        start token."""
        return self.unembed(self.hidden(source, target, trace))

    def hidden(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        """What `forward` unembeds: training takes it, as the loss unembeds for itself (`headway.train.loss`)."""
        context, context_positions = self.encode(source, trace)
        positions = positions_of(target)
        hidden = self.decoder(
            self.target_embed(target, positions),
            mask=Causal(),
            positions=positions,
            context=context,
            context_positions=context_positions,
            trace=trace.at("decoder") if trace else None,
        )
        return hidden if self.project is None else self.project(hidden)

    def encode(self, source: Int[Tensor, "B S"], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """(B, S, D), and the positions (B, S) that say where it holds tokens, in the order in which it was read."""
        positions = positions_of(source)
        if self.reverse_source:
            last = positions.amax(1, keepdim=True)
            positions = torch.where(positions >= 0, last - positions, -1)
            order = torch.where(positions >= 0, positions, positions.shape[1]).argsort(dim=1, stable=True)
        else:
            order = None
        read, at = (source, positions) if order is None else (source.gather(1, order), positions.gather(1, order))
        x = self.encoder(
            self.source_embed(read, at), mask=Full(), positions=at, trace=trace.at("encoder") if trace else None
        )
        if order is not None:  # back to where the words stand
            x = torch.zeros_like(x).scatter(1, order[..., None].expand_as(x), x)
        return x, positions

    def start(self, sources: Sequence[Sequence[int]]) -> State:
        """Encode each source once; one row per source, ready for the start token."""
        context, context_positions = self.encode(padded(sources, self.unembed.weight.device))
        lengths = torch.zeros(len(sources), dtype=torch.int64, device=context.device)
        return State(self.decoder.start(context, context_positions), lengths)

    def step(
        self,
        state: State,
        tokens: Int[Tensor, "B T"],
        counts: Int[Tensor, " B"] | None = None,
        trace: Trace | None = None,
    ) -> Step:
        """Read tokens; see `headway.models.state`."""
        positions = next_positions(state, tokens, counts)
        hidden = self.decoder(
            self.target_embed(tokens, positions),
            mask=Causal(),
            positions=positions,
            caches=state.layers,
            trace=trace.at("decoder") if trace else None,
        )
        hidden = hidden if self.project is None else self.project(hidden)
        state.lengths = state.lengths + (tokens.shape[1] if counts is None else counts)
        return Step(self.unembed(hidden), hidden)


@torch.inference_mode()
def is_invariant(model: Seq2Seq, length: int, beside: int) -> bool:
    """Self-check on this machine: do the logits of a text of `length` tokens have the same bits alone and beside one of
    `beside` tokens, after as many steps?

    model: a pair, after `apply_batch_invariance`, in float32.
    """
    smaller = min(model.vocab_size, model.source_vocab_size)
    ids = torch.arange(2 * length + beside).remainder(smaller - 4).add(4)
    tokens = ids[: 2 * length].view(2, length).to(model.unembed.weight.device)
    alone = model.start([ids[:length].tolist()])
    together = model.start([ids[:length].tolist(), ids[:beside].tolist()])
    early = max(0, length - 3)
    for part in (slice(0, early), *(slice(t, t + 1) for t in range(early, length))):
        if part.stop > part.start:
            one, two = model.step(alone, tokens[:1, part]), model.step(together, tokens[:, part])
            if not torch.equal(one.logits[0], two.logits[0]):
                return False
    return True
