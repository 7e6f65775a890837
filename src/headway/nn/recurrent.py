"""Recurrences as mixers: Elman, LSTM and GRU layers. Recurrent decoders are in `headway.nn.recurrent_decoder`.

Elman 1990: h' = tanh(W x + U h + b); LSTM: Hochreiter and Schmidhuber 1997 with forget gate; GRU: Cho et al. 2014, with
the reset gate after the matrix product as in `torch.nn.GRU`.
The twins are torch's own modules, in `tests/test_nn.py` and `tests/test_recurrent.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.nn.cache import Cache, RecurrentCache, SourceCache, where_rows
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


class ElmanCell(Cell):
    """h' = tanh(W x + b + U h + c)."""

    names, num_gates = ("h",), 1

    def forward(self, x: Float[Tensor, "B G"], state: State) -> State:
        return {"h": self.tanh(x + self.hidden(state["h"]))}


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
        self.serves = Serves(masks=frozenset({Full} if bidirectional else {Full, Causal}), cached=not bidirectional)
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
