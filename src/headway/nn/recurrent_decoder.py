"""Recurrent decoders, the predecessors of the Transformer's: a loop that reads one token after another.

    RNNSearchDecoder   Bahdanau et al. 2015: looks at the source before each step
    LuongDecoder       Luong et al. 2015: looks after it
    PlainRNNDecoder    Sutskever et al. 2014, Cho et al. 2014: the source is one vector
    DeepRNNDecoder     Wu et al. 2016 (GNMT): the first layer looks, all layers read what it saw

Training and decoding run the same loop, so there is one form. Twins: loops over the equations, one sentence at a time,
in `tests/twins.py` (RNNsearch) and `tests/test_recurrent.py`.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.nn.block import LayerCache
from headway.nn.cache import RecurrentCache, SourceCache
from headway.nn.dropout import Dropout
from headway.nn.elementwise import Elementwise
from headway.nn.mask import Causal, Mask
from headway.nn.recurrent import Cell, GRUCell, State
from headway.nn.trace import Trace

Source = dict[str, Tensor]
"""What a decoder reads of each row's source: the tensors of its SourceCache, rows first, and their "positions"."""


# ---- parts ----


class Additive(nn.Module):
    """v . tanh(W h + U h_s + b): Bahdanau et al. 2015; without b it is Luong's "concat", v . tanh(W' [h; h_s])."""

    def __init__(self, dim: int, attention_dim: int, *, bias: bool) -> None:
        super().__init__()
        self.query = nn.Linear(dim, attention_dim, bias=False)
        self.key = nn.Linear(dim, attention_dim, bias=bias)
        self.energy = nn.Linear(attention_dim, 1, bias=False)
        self.tanh = Elementwise(torch.tanh)

    def forward(self, h: Float[Tensor, "B D"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B S"]:
        return additive(h, keys, self.query, self.energy, self.tanh)


def additive(
    h: Float[Tensor, "B D"], keys: Float[Tensor, "B S A"], query: nn.Module, energy: nn.Module, tanh: nn.Module
) -> Float[Tensor, "B S"]:
    return energy(tanh(query(h)[:, None] + keys))[..., 0]


class Product(nn.Module):
    """h . h_s, Luong's "dot"; or h . W h_s, his "general"."""

    def __init__(self, dim: int, *, general: bool) -> None:
        super().__init__()
        self.key = nn.Linear(dim, dim, bias=False) if general else nn.Identity()

    def forward(self, h: Float[Tensor, "B D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"]:
        return torch.einsum("bd,bsd->bs", h, keys)


class Place(nn.Module):
    """Where to look (Luong et al. 2015, section 3.2, "local-p"), from 0 to the number of the row's source tokens:
    p = S sigmoid(v . tanh(W h)). Only tokens in [p - reach, p + reach] are seen, weighed by a Gaussian about p whose
    deviation is reach / 2. Source positions count from 0."""

    def __init__(self, dim: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.hidden, self.place = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 1, bias=False)
        self.tanh, self.sigmoid, self.exp = Elementwise(torch.tanh), Elementwise(torch.sigmoid), Elementwise(torch.exp)

    def forward(
        self, h: Float[Tensor, "B D"], positions: Int[Tensor, "B S"]
    ) -> tuple[Bool[Tensor, "B S"], Float[Tensor, "B S"]]:
        """Which slots are in the window, and the Gaussian."""
        count = (positions >= 0).sum(1, keepdim=True)
        away = positions - count * self.sigmoid(self.place(self.tanh(self.hidden(h))))
        return away.abs() <= self.reach, self.exp(-2 * (away / self.reach) ** 2)


class Cells(nn.Module):
    """Cells one above the other. Each reads what the one below said (the first: `x`), and all read `beside`; those from
    number `skip` on, counted from 0, add what is below to what they say (He et al. 2016). States go by name and layer:
    h0, c0, h1 ..."""

    def __init__(
        self,
        dim: int,
        cell: type[Cell],
        num_layers: int,
        *,
        first_dim: int,
        beside_dim: int = 0,
        skip: int | None = None,
        dropout: float,
    ) -> None:
        super().__init__()
        widths = [first_dim, *[dim] * (num_layers - 1)]
        self.layers = nn.ModuleList(cell(width + beside_dim, dim) for width in widths)
        self.skip, self.dropout = num_layers if skip is None else skip, Dropout(dropout)

    def zero(self, rows: int) -> State:
        """The states before the first token."""
        layers = [cell for cell in self.layers if isinstance(cell, Cell)]
        return {f"{name}{i}": value for i, cell in enumerate(layers) for name, value in cell.zero(rows).items()}

    def forward(
        self, x: Float[Tensor, "B E"], state: State, beside: Float[Tensor, "B F"] | None = None
    ) -> tuple[Float[Tensor, "B D"], State]:
        """What the top says, and all states after it."""
        after: State = {}
        for i, cell in enumerate(self.layers):
            assert isinstance(cell, Cell)
            read = self.dropout(x) if i else x
            fed = cell.input(read if beside is None else torch.cat([read, beside], -1))
            new = cell(fed, {name: state[f"{name}{i}"] for name in cell.names})
            after |= {f"{name}{i}": value for name, value in new.items()}
            x = new["h"] + x if i >= self.skip else new["h"]
        return x, after


class Begin(nn.Module):
    """Every state of every layer begins as tanh(W c + b) of a vector c, each with a W and b of its own."""

    def __init__(self, dim: int, cell: type[Cell], num_layers: int) -> None:
        super().__init__()
        self.names = [f"{name}{i}" for i in range(num_layers) for name in cell.names]
        self.maps, self.tanh = nn.ModuleList(nn.Linear(dim, dim) for _ in self.names), Elementwise(torch.tanh)

    def forward(self, c: Float[Tensor, "U D"]) -> State:
        return {name: self.tanh(part(c)) for name, part in zip(self.names, self.maps, strict=True)}


def shares(energies: Float[Tensor, "B S"], seen: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
    """softmax over what is seen; zeros where nothing is."""
    return energies.masked_fill(~seen, torch.finfo(energies.dtype).min).softmax(-1) * seen


def mean(weights: Float[Tensor, "B S"], values: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
    return torch.einsum("bs,bsd->bd", weights, values)


def maxout(x: Float[Tensor, "B E"]) -> Float[Tensor, "B F"]:
    """The larger of each pair (Goodfellow et al. 2013)."""
    return x.unflatten(-1, (-1, 2)).amax(-1)


def first(context: Float[Tensor, "U S D"], positions: Int[Tensor, "U S"]) -> Float[Tensor, "U D"]:
    """Of each row the encoding of its first token; zeros where it has none."""
    return _at(context, positions == 0)


def last(context: Float[Tensor, "U S D"], positions: Int[Tensor, "U S"]) -> Float[Tensor, "U D"]:
    """Of each row the encoding of its last token; zeros where it has none."""
    return _at(context, (positions >= 0) & (positions == positions.amax(1, keepdim=True)))


def _at(context: Float[Tensor, "U S D"], here: Bool[Tensor, "U S"]) -> Float[Tensor, "U D"]:
    rows = torch.arange(context.shape[0], device=context.device)
    return context[rows, here.int().argmax(1)].where(here.any(1, keepdim=True), 0)


# ---- decoders ----


class RecurrentDecoder(nn.Module):
    """Abstract: a decoder that is a loop. A final one writes `start` and `step`, and is called as a Stack is."""

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
        """See `headway.nn.stack.Stack.forward`, whose signature this is. Of decoders that look, `trace` gets
        `layers.0.cross.weights` (B, 1, 1, S) a step: the weights that the source was multiplied by."""
        assert mask == Causal(), "a recurrent decoder is causal"
        if caches is None:
            assert context is not None
            assert context_positions is not None
            caches = self.start(context, context_positions)
        memory, held = caches[0].mixer, caches[0].cross
        assert isinstance(memory, RecurrentCache)
        source: Source = {}
        if held is not None:
            tensors = {**held.tensors, "positions": held.positions}
            source = {name: tensor[held.source_of] for name, tensor in tensors.items()}
        out = []
        for t in range(x.shape[1]):
            said, state, weights = self.step(x[:, t], memory.state, source)
            memory.advance(state, positions[:, t] >= 0)
            out.append(said)
            if trace is not None and weights is not None:
                trace.at("layers.0").at("cross").record("weights", weights[:, None, None, :])
        return torch.stack(out, 1)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        """The memory before the first token: one row per source."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def step(
        self, x: Float[Tensor, "B D"], state: State, source: Source
    ) -> tuple[Float[Tensor, "B D"], State, Float[Tensor, "B S"] | None]:
        """What is unembedded after one more token, the state then, and where it looked."""
        raise TypeError(f"{type(self).__name__} is abstract")


class RNNSearchDecoder(RecurrentDecoder):
    """RNNsearch (Bahdanau et al. 2015, appendix A) with input feeding (Luong et al. 2015, section 3.3).

        e_ts = v . tanh(W s_{t-1} + U h_s);   c_t = sum_s softmax_s(e_ts) h_s
        s_t  = GRU([y_{t-1}; a_{t-1}; c_t], s_{t-1});   a_t = maxout(W_o [s_t; y_{t-1}; c_t])

    y is the embedded previous token and h the encoder's output. Attention comes before the step; a_t, the readout, is
    fed to the next step and is what the unembedding reads. s_0 = tanh(W_i h_1), where h_1 is the first token's encoding
    (its backward half, as in the paper, is part of it).
    """

    def __init__(self, dim: int, *, attention_dim: int, input_feeding: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.input_feeding = input_feeding
        self.initial, self.tanh = nn.Linear(dim, dim), Elementwise(torch.tanh)
        look = Additive(dim, attention_dim, bias=True)
        # Under the names that they have in models trained before there was an Additive.
        self.query, self.key, self.energy = look.query, look.key, look.energy
        self.cell = GRUCell((3 if input_feeding else 2) * dim, dim)
        self.readout = nn.Linear(3 * dim, 2 * dim)
        self.dropout = Dropout(dropout)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        begin = first(context, context_positions)
        memory = RecurrentCache({"h": self.tanh(self.initial(begin)), "a": torch.zeros_like(begin)})
        return [LayerCache(memory, SourceCache({"key": self.key(context), "value": context}, context_positions))]

    def step(
        self, x: Float[Tensor, "B D"], state: State, source: Source
    ) -> tuple[Float[Tensor, "B D"], State, Float[Tensor, "B S"] | None]:
        energies = additive(state["h"], source["key"], self.query, self.energy, self.tanh)
        weights = shares(energies, source["positions"] >= 0)
        c = mean(weights, source["value"])
        fed = [x, state["a"], c] if self.input_feeding else [x, c]
        h = self.cell(self.cell.input(torch.cat(fed, -1)), {"h": state["h"]})["h"]
        a = self.dropout(maxout(self.readout(torch.cat([h, x, c], -1))))
        return a, {"h": h, "a": a}, weights


class LuongDecoder(RecurrentDecoder):
    """Luong et al. 2015: the step comes first, then attention with the new top state h_t.

        h_t = RNN([y_{t-1}; h~_{t-1}]);   c_t = sum_s softmax_s(score(h_t, h_s)) h_s;   h~_t = tanh(W_c [c_t; h_t])

    score: "dot", h_t . h_s; "general", h_t . W h_s; "concat", v . tanh(W [h_t; h_s]). local: a reach, for "local-p"
    attention (`Place`): the softmax is over the window alone, and its weights times the Gaussian, which no longer sum
    to 1, are those that multiply and that a trace shows. input_feeding: h~_{t-1} is read beside y_{t-1}; h~_t is what
    the unembedding reads. Here each layer's state begins as a map of the last token's encoding (`Begin`); in the paper
    it is the encoder layer's own last state.
    """

    def __init__(
        self,
        dim: int,
        *,
        cell: type[Cell],
        num_layers: int,
        score: Literal["dot", "general", "concat"],
        local: int | None,
        input_feeding: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.input_feeding = input_feeding
        self.begin = Begin(dim, cell, num_layers)
        self.cells = Cells(dim, cell, num_layers, first_dim=(2 if input_feeding else 1) * dim, dropout=dropout)
        self.score = Additive(dim, dim, bias=False) if score == "concat" else Product(dim, general=score == "general")
        self.place = None if local is None else Place(dim, local)
        self.combine, self.tanh = nn.Linear(2 * dim, dim, bias=False), Elementwise(torch.tanh)
        self.dropout = Dropout(dropout)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        end = last(context, context_positions)
        state = self.begin(end) | ({"a": torch.zeros_like(end)} if self.input_feeding else {})
        source = SourceCache({"key": self.score.key(context), "value": context}, context_positions)
        return [LayerCache(RecurrentCache(state), source)]

    def step(
        self, x: Float[Tensor, "B D"], state: State, source: Source
    ) -> tuple[Float[Tensor, "B D"], State, Float[Tensor, "B S"] | None]:
        h, new = self.cells(torch.cat([x, state["a"]], -1) if self.input_feeding else x, state)
        seen, energies = source["positions"] >= 0, self.score(h, source["key"])
        if self.place is None:
            weights = shares(energies, seen)
        else:
            near, bell = self.place(h, source["positions"])
            weights = shares(energies, seen & near) * bell
        a = self.dropout(self.tanh(self.combine(torch.cat([mean(weights, source["value"]), h], -1))))
        return a, new | ({"a": a} if self.input_feeding else {}), weights


class PlainRNNDecoder(RecurrentDecoder):
    """No attention: all that is known of the source is one vector c, the encoding of its last token.

        state_0 = tanh(W c + b) in each layer
        feed = False:   h_t = RNN(y_{t-1}), which is unembedded                           (Sutskever et al. 2014)
        feed = True:    h_t = RNN([y_{t-1}; c]);   a_t = maxout(W_o [h_t; y_{t-1}; c])    (Cho et al. 2014)

    What differs from the papers: Sutskever et al. hand each encoder layer's own last state (h and the LSTM's cell) to
    the decoder layer of the same number; here all are mapped from the top one's output, so encoder and decoder need not
    be alike. Their source is reversed, and its last token is the first word. Cho et al. map the encoder's last state
    once more, c = tanh(V h_S), and have one layer; here c is h_S, and the first of several layers reads it.
    """

    def __init__(self, dim: int, *, cell: type[Cell], num_layers: int, feed: bool, dropout: float) -> None:
        super().__init__()
        self.begin = Begin(dim, cell, num_layers)
        self.cells = Cells(dim, cell, num_layers, first_dim=(2 if feed else 1) * dim, dropout=dropout)
        self.readout = nn.Linear(3 * dim, 2 * dim) if feed else None
        self.dropout = Dropout(dropout)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        c = last(context, context_positions)
        # A source of one slot, so that rows share it.
        source = None if self.readout is None else SourceCache({"value": c[:, None]}, torch.zeros_like(c[:, :1]).long())
        return [LayerCache(RecurrentCache(self.begin(c)), source)]

    def step(
        self, x: Float[Tensor, "B D"], state: State, source: Source
    ) -> tuple[Float[Tensor, "B D"], State, Float[Tensor, "B S"] | None]:
        if self.readout is None:
            h, new = self.cells(x, state)
            return self.dropout(h), new, None
        c = source["value"][:, 0]
        h, new = self.cells(torch.cat([x, c], -1), state)
        return self.dropout(maxout(self.readout(torch.cat([h, x, c], -1)))), new, None


class DeepRNNDecoder(RecurrentDecoder):
    """GNMT (Wu et al. 2016, section 3): deep, and looks with its first layer's state at the step before.

        c_t = sum_s softmax_s(v . tanh(W h^1_{t-1} + U h_s + b)) h_s
        h^l_t = RNN_l([x^{l-1}_t; c_t]);   x^l_t = h^l_t, from the third layer on h^l_t + x^{l-1}_t;   x^0_t = y_{t-1}

    The top, x^L_t, is what the unembedding reads, alone, as in the paper; c_t reaches it through every layer. All
    states begin at zero, of which the paper says nothing, so attention alone joins the two sides. The first step looks
    with that zero state (Google's public code of 2017 reads a zero context there).
    """

    def __init__(self, dim: int, *, cell: type[Cell], num_layers: int, attention_dim: int, dropout: float) -> None:
        super().__init__()
        self.attention = Additive(dim, attention_dim, bias=True)
        self.cells = Cells(dim, cell, num_layers, first_dim=dim, beside_dim=dim, skip=2, dropout=dropout)
        self.dropout = Dropout(dropout)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        keys = self.attention.key(context)
        source = SourceCache({"key": keys, "value": context}, context_positions)
        return [LayerCache(RecurrentCache(self.cells.zero(context.shape[0])), source)]

    def step(
        self, x: Float[Tensor, "B D"], state: State, source: Source
    ) -> tuple[Float[Tensor, "B D"], State, Float[Tensor, "B S"] | None]:
        weights = shares(self.attention(state["h0"], source["key"]), source["positions"] >= 0)
        top, new = self.cells(x, state, mean(weights, source["value"]))
        return self.dropout(top), new, weights
