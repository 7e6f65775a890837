"""Decoder-only: a language model, causal or with a prefix that sees itself both ways (Radford et al. 2019; Liu et al.
2018; Raffel et al. 2020, section 3.2.3).

    P(x_t | x_<t) = softmax(unembed(stack(x_<t)))

The independent twins are the einsum models of `tests/matrix_twin.py`, and GPT-2 and Llama of transformers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.models.state import State, Step, next_positions, padded, positions_of
from headway.nn.embed import Embed, Unembed
from headway.nn.future import Future, SequentialModules
from headway.nn.mask import Causal, Document, Mask, Prefix
from headway.nn.stack import Stack
from headway.nn.trace import Trace


class LM(nn.Module):
    """Tokens in, logits of each next token out."""

    def __init__(
        self,
        embed: Embed,
        stack: Stack,
        unembed: Unembed,
        *,
        prefix: bool = False,
        project: nn.Linear | None = None,
        future: Future | None = None,
    ) -> None:
        """prefix: it may be told how many first tokens see each other both ways; `start` then reads its prompts so.
        project: from the stream's width to the table's, where they differ. future: `headway.nn.future`."""
        super().__init__()
        self.embed, self.stack, self.unembed = embed, stack, unembed
        self.prefix, self.project, self.future = prefix, project, future

    @property
    def vocab_size(self) -> int:
        return self.unembed.out_features

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        prefix: Int[Tensor, " B"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T V"]:
        """tokens: ids, PAD-filled on either side. See `hidden` for the rest."""
        return self.unembed(self.hidden(tokens, prefix=prefix, documents=documents, positions=positions, trace=trace))

    def hidden(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        prefix: Int[Tensor, " B"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T E"]:
        """What `forward` unembeds.

        prefix: how many first tokens of each row see each other both ways. documents: of packed rows, which text each
        token is of: no text sees another; positions: of its tokens then, from 0 in each text, -1 where none stands.
        """
        at, mask = self._view(tokens, prefix, documents, positions)
        return self._out(self._trunk(self.embed(tokens, at), at, mask, trace))

    def ahead(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        prefix: Int[Tensor, " B"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
        positions: Int[Tensor, "B T"] | None = None,
        trace: Trace | None = None,
    ) -> list[Float[Tensor, "B T E"]]:
        """What is unembedded for the token after each, the one after that, and so on, as many as the model was built
        to foresee: only the next where it has no `future`."""
        at, mask = self._view(tokens, prefix, documents, positions)
        embedded = self.embed(tokens, at)
        if self.future is None:
            return [self._out(self._trunk(embedded, at, mask, trace))]
        watch = Trace(only={"out"}) if trace is None else trace
        if watch.only is not None:
            watch = Trace(watch.records, watch.prefix, only={*watch.only, "out"})
        last = self._trunk(embedded, at, mask, watch)
        if isinstance(self.future, SequentialModules):
            found = self.future(last, embedded, mask=mask, positions=at)
        else:
            depth = len(self.stack.layers) * self.stack.passes - 2
            below = watch[f"stack.layers.{depth}.out"][-1] if depth >= 0 else embedded
            found = self.future(last, below, norm=self.stack.norm, mask=mask, positions=at)
        return [self._out(x) for x in found]

    def _view(
        self, tokens: Tensor, prefix: Tensor | None, documents: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Mask]:
        """Where tokens stand, and who may look where."""
        if prefix is not None and not self.prefix:
            raise ValueError("a prefix was given, and the model is causal: build it with model.prefix = true")
        if documents is not None and positions is None:
            raise ValueError("packed rows need positions that begin anew in each text: give positions with documents")
        mask = Causal() if prefix is None else Prefix(prefix)
        at = positions_of(tokens) if positions is None else positions
        return at, mask if documents is None else mask & Document(documents)

    def _trunk(self, embedded: Tensor, positions: Tensor, mask: Mask, trace: Trace | None) -> Float[Tensor, "B T D"]:
        return self.stack(embedded, mask=mask, positions=positions, trace=trace.at("stack") if trace else None)

    def _out(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T E"]:
        return x if self.project is None else self.project(x)

    def start(self, sources: Sequence[Sequence[int]]) -> State:
        """One row per prompt, which is read (both ways, of a model with a prefix): `step` goes on behind it. A prompt
        may be empty."""
        device = self.unembed.weight.device
        rows = len(sources)
        state = State(self.stack.new_caches(rows), torch.zeros(rows, dtype=torch.int64, device=device))
        if any(sources):
            self._open(state, sources)
        return state

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[State, Float[Tensor, "B V"]]:
        """`start`, and the logits of what comes behind each prompt, none of which may be empty."""
        assert all(prompts), "an empty prompt says nothing of what comes next"
        device = self.unembed.weight.device
        state = State(self.stack.new_caches(len(prompts)), torch.zeros(len(prompts), dtype=torch.int64, device=device))
        hidden = self._open(state, prompts)
        last = hidden[torch.arange(len(prompts), device=device), state.lengths - 1]
        return state, self.unembed(last[:, None])[:, 0]

    def _open(self, state: State, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "B T E"]:
        """Read prompts into a new state."""
        device = state.lengths.device
        counts = torch.tensor([len(prompt) for prompt in prompts], device=device)
        mask = Prefix(counts) if self.prefix else Causal()
        return self._read(state, padded(prompts, device), counts, mask, None)

    def step(
        self,
        state: State,
        tokens: Int[Tensor, "B T"],
        counts: Int[Tensor, " B"] | None = None,
        trace: Trace | None = None,
    ) -> Step:
        """Read tokens; see `headway.models.state`."""
        hidden = self._read(state, tokens, counts, Causal(), trace)
        return Step(self.unembed(hidden), hidden)

    def _read(
        self, state: State, tokens: Tensor, counts: Tensor | None, mask: Mask, trace: Trace | None
    ) -> Float[Tensor, "B T E"]:
        positions = next_positions(state, tokens, counts)
        x = self.stack(
            self.embed(tokens, positions),
            mask=mask,
            positions=positions,
            caches=state.layers,
            trace=trace.at("stack") if trace else None,
        )
        state.lengths = state.lengths + (tokens.shape[1] if counts is None else counts)
        return self._out(x)
