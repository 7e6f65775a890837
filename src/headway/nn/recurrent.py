"""Recurrences: LSTM and GRU layers (mixers), and the attentional recurrent decoder of RNNsearch (a decoder, not a
mixer).

LSTM: Hochreiter and Schmidhuber 1997 with forget gate; GRU: Cho et al. 2014, with the reset gate after the matrix
product as in `torch.nn.GRU`.
The twins of both are torch's own modules, in `tests/test_nn.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.nn.block import LayerCache
from headway.nn.cache import Cache, RecurrentCache, SourceCache, where_rows
from headway.nn.dropout import Dropout
from headway.nn.elementwise import Elementwise
from headway.nn.mask import Causal, Full, Mask
from headway.nn.mixer import Mixer, Serves
from headway.nn.trace import Trace

State = dict[str, Tensor]


class Cell(nn.Module):
    """Abstract: one step of a recurrence. `input` maps what comes in, for all steps at once; calling it makes the
    step."""

    names: tuple[str, ...]
    num_gates: int

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.input = nn.Linear(input_dim, self.num_gates * dim)
        self.hidden = nn.Linear(dim, self.num_gates * dim)
        self.sigmoid, self.tanh = Elementwise(torch.sigmoid), Elementwise(torch.tanh)

    def zero(self, rows: int) -> State:
        return {name: self.hidden.weight.new_zeros(rows, self.dim) for name in self.names}


class GRUCell(Cell):
    """r, z = sigmoid; n = tanh(W x + b + r * (U h + c)); h' = (1 - z) n + z h."""

    names, num_gates = ("h",), 3

    def forward(self, x: Float[Tensor, "B G"], state: State) -> State:
        xr, xz, xn = x.chunk(3, -1)
        hr, hz, hn = self.hidden(state["h"]).chunk(3, -1)
        r, z = self.sigmoid(xr + hr), self.sigmoid(xz + hz)
        n = self.tanh(xn + r * hn)
        return {"h": n + z * (state["h"] - n)}


class LSTMCell(Cell):
    """i, f, o = sigmoid; c' = f c + i tanh(g); h' = o tanh(c')."""

    names, num_gates = ("h", "c"), 4

    def forward(self, x: Float[Tensor, "B G"], state: State) -> State:
        i, f, g, o = (x + self.hidden(state["h"])).chunk(4, -1)
        c = self.sigmoid(f) * state["c"] + self.sigmoid(i) * self.tanh(g)
        return {"h": self.sigmoid(o) * self.tanh(c), "c": c}


class Recurrence(Mixer):
    """A recurrent layer as a mixer: causal from left to right, or (bidirectional) both ways at half the width each."""

    def __init__(self, dim: int, cell: type[Cell], *, bidirectional: bool = False) -> None:
        super().__init__()
        width = dim // 2 if bidirectional else dim
        self.serves = Serves(masks=frozenset({Full if bidirectional else Causal}), cached=not bidirectional)
        self.forth = cell(dim, width)
        self.back = cell(dim, width) if bidirectional else None

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        context: Float[Tensor, "B S D"] | None = None,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"] | None = None,
        cache: Cache | SourceCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        assert context is None, "build refuses a recurrence as a cross sublayer"
        valid = positions >= 0
        if cache is None:
            outs = [_scan(self.forth, x, valid)]
            if self.back is not None:
                outs.append(_scan(self.back, x.flip(1), valid.flip(1)).flip(1))
            return torch.cat(outs, -1)
        assert isinstance(cache, RecurrentCache)
        assert self.back is None
        out, fed = [], self.forth.input(x)
        for t in range(x.shape[1]):
            cache.advance(self.forth(fed[:, t], cache.state), valid[:, t])
            out.append(cache.state["h"])
        return torch.stack(out, 1)

    def new_cache(self, rows: int) -> Cache:
        return RecurrentCache(self.forth.zero(rows))


def _scan(cell: Cell, x: Float[Tensor, "B T D"], valid: Bool[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
    """The hidden state after each token; slots without a token leave it as it is."""
    state, fed, out = cell.zero(x.shape[0]), cell.input(x), []
    for t in range(x.shape[1]):
        state = {name: where_rows(valid[:, t], new, state[name]) for name, new in cell(fed[:, t], state).items()}
        out.append(state["h"])
    return torch.stack(out, 1)


class RNNSearchDecoder(nn.Module):
    """RNNsearch (Bahdanau et al. 2015, appendix A) with input feeding (Luong et al. 2015, section 3.3).

        e_ts = v . tanh(W s_{t-1} + U h_s);   c_t = sum_s softmax_s(e_ts) h_s
        s_t  = GRU([y_{t-1}; a_{t-1}; c_t], s_{t-1});   a_t = maxout(W_o [s_t; y_{t-1}; c_t])

    y is the embedded previous token and h the encoder's output. Attention comes before the step; a_t, the readout, is
    fed to the next step and
    is what the unembedding reads. s_0 = tanh(W_i h_1), where h_1 is the first token's encoding (its backward half, as
    in the paper, is part
    of it). Training and decoding run the same loop, so there is one form.
    """

    def __init__(self, dim: int, *, attention_dim: int, input_feeding: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.input_feeding = input_feeding
        self.initial, self.tanh = nn.Linear(dim, dim), Elementwise(torch.tanh)
        self.query = nn.Linear(dim, attention_dim, bias=False)
        self.key = nn.Linear(dim, attention_dim)
        self.energy = nn.Linear(attention_dim, 1, bias=False)
        self.cell = GRUCell((3 if input_feeding else 2) * dim, dim)
        self.readout = nn.Linear(3 * dim, 2 * dim)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context: Float[Tensor, "B S D"] | None = None,
        context_positions: Int[Tensor, "B S"] | None = None,
        caches: list[LayerCache] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """See `headway.nn.stack.Stack.forward`, whose signature this is."""
        assert mask == Causal(), "a recurrent decoder is causal"
        if caches is None:
            assert context is not None
            assert context_positions is not None
            caches = self.start(context, context_positions)
        memory, source = caches[0].mixer, caches[0].cross
        assert isinstance(memory, RecurrentCache)
        assert source is not None
        keys, values, seen = (t[source.source_of] for t in (*source.tensors.values(), source.positions))
        out = []
        for t in range(x.shape[1]):
            s, a = memory.state["h"], memory.state["a"]
            weights = self._look(s, keys, seen)
            c = torch.einsum("bs,bsd->bd", weights, values)
            fed = [x[:, t], a, c] if self.input_feeding else [x[:, t], c]
            new = self.cell(self.cell.input(torch.cat(fed, -1)), {"h": s})["h"]
            a = self.readout(torch.cat([new, x[:, t], c], -1)).unflatten(-1, (-1, 2)).amax(-1)
            a = self.dropout(a)
            memory.advance({"h": new, "a": a}, positions[:, t] >= 0)
            out.append(a)
            if trace is not None:
                trace.at("layers.0").at("cross").record("weights", weights[:, None, None, :])
        return torch.stack(out, 1)

    def _look(
        self, s: Float[Tensor, "B D"], keys: Float[Tensor, "B S A"], seen: Int[Tensor, "B S"]
    ) -> Float[Tensor, "B S"]:
        energies = self.energy(self.tanh(self.query(s)[:, None] + keys))[..., 0]
        return energies.masked_fill(seen < 0, torch.finfo(energies.dtype).min).softmax(-1)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        """The memory before the first token: one row per source."""
        first = context[torch.arange(context.shape[0]), (context_positions == 0).int().argmax(1)]
        memory = RecurrentCache({"h": self.tanh(self.initial(first)), "a": torch.zeros_like(first)})
        return [LayerCache(memory, SourceCache({"key": self.key(context), "value": context}, context_positions))]
