"""Recurrent decoders against loops over the papers' equations, one sentence at a time, and against torch's own layers;
then what all of them promise: rows, padding, caches, traces, gradients, bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from headway.models.state import State
from headway.nn.invariant import apply_batch_invariance
from headway.nn.mask import Causal, Full
from headway.nn.recurrent import Cell, ElmanCell, GRUCell, LSTMCell, Recurrence
from headway.nn.recurrent_decoder import (
    DeepRNNDecoder,
    LuongDecoder,
    PlainRNNDecoder,
    Product,
    RecurrentDecoder,
    RNNSearchDecoder,
)
from headway.nn.trace import Trace
from twins import Weights, linear

B, T, S, D, A = 3, 5, 7, 6, 4
CELLS: dict[str, type[Cell]] = {"elman": ElmanCell, "lstm": LSTMCell, "gru": GRUCell}
SLOTS = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [-1, -1, 0, 1, 2, 3, -1], [-1, -1, -1, -1, -1, 0, 1]])


# ---- the equations, on a dict of weights and one sentence: h (S, D), ys (T, D) -> what is said (T, D), weights ----


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def step(w: Weights, name: str, kind: str, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    """[h] or [h, c] after reading x."""
    wx, uh = linear(w, f"{name}.input", x), linear(w, f"{name}.hidden", state[0])
    if kind == "elman":
        return [torch.tanh(wx + uh)]
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = wx.chunk(3), uh.chunk(3)
        z = sigmoid(xz + hz)
        return [(1 - z) * torch.tanh(xn + sigmoid(xr + hr) * hn) + z * state[0]]
    i, f, g, o = (wx + uh).chunk(4)
    c = sigmoid(f) * state[1] + sigmoid(i) * torch.tanh(g)
    return [sigmoid(o) * torch.tanh(c), c]


def begin(w: Weights, kind: str, layers: int, c: Tensor) -> list[list[Tensor]]:
    maps = iter(range(2 * layers))
    size = 2 if kind == "lstm" else 1
    return [[torch.tanh(linear(w, f"begin.maps.{next(maps)}", c)) for _ in range(size)] for _ in range(layers)]


def softmax(energies: Tensor) -> Tensor:
    return torch.exp(energies) / torch.exp(energies).sum()


def look(w: Weights, name: str, s: Tensor, h: Tensor) -> Tensor:
    """Additive attention's weights."""
    energies = [
        (w[f"{name}energy.weight"][0] * torch.tanh(linear(w, f"{name}query", s) + linear(w, f"{name}key", v))).sum()
        for v in h
    ]
    return softmax(torch.stack(energies))


def maxout(x: Tensor) -> Tensor:
    return torch.maximum(x[0::2], x[1::2])


def rnnsearch(w: Weights, h: Tensor, ys: Tensor, *, feeding: bool) -> tuple[list[Tensor], list[Tensor]]:
    s, a, said, shown = torch.tanh(linear(w, "initial", h[0])), torch.zeros(D, dtype=h.dtype), [], []
    for y in ys:
        weights = look(w, "", s, h)
        c = weights @ h
        s = step(w, "cell", "gru", torch.cat([y, a, c] if feeding else [y, c]), [s])[0]
        a = maxout(linear(w, "readout", torch.cat([s, y, c])))
        said.append(a)
        shown.append(weights)
    return said, shown


def luong(
    w: Weights, h: Tensor, ys: Tensor, *, kind: str, layers: int, score: str, local: int | None, feeding: bool
) -> tuple[list[Tensor], list[Tensor]]:
    states, a, said, shown = begin(w, kind, layers, h[-1]), torch.zeros(D, dtype=h.dtype), [], []
    for y in ys:
        x = torch.cat([y, a]) if feeding else y
        for layer in range(layers):
            states[layer] = step(w, f"cells.layers.{layer}", kind, x, states[layer])
            x = states[layer][0]
        if score == "concat":  # W [x; v] by its halves
            whole = torch.cat([w["score.query.weight"], w["score.key.weight"]], 1)
            energies = [w["score.energy.weight"][0] @ torch.tanh(whole @ torch.cat([x, v])) for v in h]
        else:
            energies = [x @ (w["score.key.weight"] @ v if score == "general" else v) for v in h]
        weights = softmax(torch.stack(energies))
        if local is not None:
            p = len(h) * sigmoid(w["place.place.weight"][0] @ torch.tanh(w["place.hidden.weight"] @ x))
            inside = [s for s in range(len(h)) if p - local <= s <= p + local]
            align = softmax(torch.stack([energies[s] for s in inside]))
            weights = torch.stack(
                [
                    align[inside.index(s)] * torch.exp(-((s - p) ** 2) / (2 * (local / 2) ** 2))
                    if s in inside
                    else torch.zeros((), dtype=h.dtype)
                    for s in range(len(h))
                ]
            )
        c = torch.stack([weights[s] * h[s] for s in range(len(h))]).sum(0)
        a = torch.tanh(w["combine.weight"] @ torch.cat([c, x]))
        said.append(a)
        shown.append(weights)
    return said, shown


def plain(
    w: Weights, h: Tensor, ys: Tensor, *, kind: str, layers: int, feed: bool
) -> tuple[list[Tensor], list[Tensor]]:
    c = h[-1]
    states, said = begin(w, kind, layers, c), []
    for y in ys:
        x = torch.cat([y, c]) if feed else y
        for layer in range(layers):
            states[layer] = step(w, f"cells.layers.{layer}", kind, x, states[layer])
            x = states[layer][0]
        said.append(maxout(linear(w, "readout", torch.cat([x, y, c]))) if feed else x)
    return said, []


def gnmt(w: Weights, h: Tensor, ys: Tensor, *, kind: str, layers: int) -> tuple[list[Tensor], list[Tensor]]:
    zero = torch.zeros(D, dtype=h.dtype)
    states, said, shown = [[zero] * (2 if kind == "lstm" else 1) for _ in range(layers)], [], []
    for y in ys:
        weights = look(w, "attention.", states[0][0], h)
        c, x = weights @ h, y
        for layer in range(layers):
            states[layer] = step(w, f"cells.layers.{layer}", kind, torch.cat([x, c]), states[layer])
            x = states[layer][0] + x if layer >= 2 else states[layer][0]
        said.append(x)
        shown.append(weights)
    return said, shown


Twin = Callable[[Weights, Tensor, Tensor], tuple[list[Tensor], list[Tensor]]]


def luong_pair(kind: str, layers: int, score: str, local: int | None, feeding: bool) -> tuple[Callable, Twin]:
    ours = partial(LuongDecoder, cell=CELLS[kind], num_layers=layers, score=score, local=local, input_feeding=feeding)
    twin = partial(luong, kind=kind, layers=layers, score=score, local=local, feeding=feeding)
    return ours, twin


PAIRS: dict[str, tuple[Callable, Twin]] = {
    "rnnsearch": (partial(RNNSearchDecoder, attention_dim=A), partial(rnnsearch, feeding=True)),
    "rnnsearch-without-feeding": (
        partial(RNNSearchDecoder, attention_dim=A, input_feeding=False),
        partial(rnnsearch, feeding=False),
    ),
    "luong-general": luong_pair("lstm", 2, "general", None, True),
    "luong-dot": luong_pair("elman", 1, "dot", None, True),
    "luong-concat": luong_pair("gru", 3, "concat", None, False),
    "luong-local": luong_pair("lstm", 1, "general", 2, True),
    "luong-local-dot": luong_pair("gru", 2, "dot", 1, False),
    "luong-local-concat": luong_pair("elman", 1, "concat", 4, True),
    **{
        f"plain-{kind}{'-feed' if feed else ''}": (
            partial(PlainRNNDecoder, cell=CELLS[kind], num_layers=layers, feed=feed),
            partial(plain, kind=kind, layers=layers, feed=feed),
        )
        for kind, layers, feed in [("lstm", 2, False), ("gru", 1, True), ("elman", 3, False), ("lstm", 2, True)]
    },
    **{
        f"gnmt-{kind}-{layers}": (
            partial(DeepRNNDecoder, cell=CELLS[kind], num_layers=layers, attention_dim=A),
            partial(gnmt, kind=kind, layers=layers),
        )
        for kind, layers in [("lstm", 4), ("gru", 2), ("elman", 3)]
    },
}


def make(name: str, dim: int = D, dropout: float = 0.0) -> RecurrentDecoder:
    torch.manual_seed(11)
    decoder = PAIRS[name][0](dim, dropout=dropout).double().eval()
    for parameter in decoder.parameters():
        parameter.data = torch.randn_like(parameter) * 0.7
    return decoder


SOME = ["rnnsearch", "luong-concat", "luong-local", "plain-lstm", "plain-gru-feed", "gnmt-lstm-4"]


@pytest.fixture(params=SOME, name="name")
def _name(request: pytest.FixtureRequest) -> str:
    """Enough for what all share: each decoder, each cell, with and without input feeding, a window and a feed."""
    return request.param


def some(length: int = T) -> tuple[Tensor, Tensor]:
    """Source encodings (B, S, D) with junk where SLOTS holds no token, and target embeddings (B, T, D)."""
    generator = torch.Generator().manual_seed(3)
    context = torch.randn(B, S, D, dtype=torch.float64, generator=generator)
    x = torch.randn(B, length, D, dtype=torch.float64, generator=generator)
    return context.masked_fill((SLOTS < 0)[..., None], 5.0), x


def call(decoder: RecurrentDecoder, context: Tensor, x: Tensor, trace: Trace | None = None) -> Tensor:
    positions = torch.arange(x.shape[1]).expand(len(x), -1)
    return decoder(
        x, mask=Causal(), positions=positions, context=context, context_positions=SLOTS[: len(x)], trace=trace
    )


def start(decoder: RecurrentDecoder, context: Tensor, rows: slice = slice(None)) -> State:
    lengths = torch.zeros(len(context[rows]), dtype=torch.int64)
    return State(decoder.start(context[rows], SLOTS[rows]), lengths)


def read(decoder: RecurrentDecoder, state: State, x: Tensor, counts: Tensor | None = None) -> Tensor:
    """As `Seq2Seq.step` does."""
    offsets = torch.arange(x.shape[1])
    positions = state.lengths[:, None] + offsets
    if counts is not None:
        positions = torch.where(offsets < counts[:, None], positions, -1)
    out = decoder(x, mask=Causal(), positions=positions, caches=state.layers)
    state.lengths = state.lengths + (x.shape[1] if counts is None else counts)
    return out


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


# ---- the same numbers ----


@pytest.mark.parametrize(("cell", "theirs"), [(ElmanCell, nn.RNN), (GRUCell, nn.GRU), (LSTMCell, nn.LSTM)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_recurrence_is_torchs_gradients_included(cell: type[Cell], theirs: type, bidirectional: bool) -> None:
    torch.manual_seed(4)
    ours = Recurrence(D, cell, bidirectional=bidirectional).double()
    twin = theirs(D, D // 2 if bidirectional else D, batch_first=True, bidirectional=bidirectional).double()
    pairs = {}
    for part, suffix in [(ours.forth, ""), (ours.back, "_reverse")][: 1 + bidirectional]:
        for short, layer in [("ih", part.input), ("hh", part.hidden)]:
            pairs[f"weight_{short}_l0{suffix}"], pairs[f"bias_{short}_l0{suffix}"] = layer.weight, layer.bias
    for name, value in pairs.items():
        getattr(twin, name).data = value.data.clone()
    x = torch.randn(B, T, D, dtype=torch.float64)
    out = ours(x, mask=Full() if bidirectional else Causal(), positions=torch.arange(T).expand(B, -1))
    expected = twin(x)[0]
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    (out * x).sum().backward()
    (expected * x).sum().backward()
    for name, value in pairs.items():
        torch.testing.assert_close(value.grad, getattr(twin, name).grad, rtol=0, atol=1e-11)


@pytest.mark.parametrize("side", [0, 2])
def test_an_elman_layer_reads_no_padding_and_goes_on_from_its_cache(side: int) -> None:
    torch.manual_seed(4)
    layer = Recurrence(D, ElmanCell).double()
    x = torch.randn(1, T, D, dtype=torch.float64)
    alone = layer(x, mask=Causal(), positions=torch.arange(T)[None])
    wide, slots = torch.full((1, T + 2, D), 5.0, dtype=x.dtype), torch.full((1, T + 2), -1)
    wide[:, side : side + T], slots[:, side : side + T] = x, torch.arange(T)
    close(layer(wide, mask=Causal(), positions=slots)[:, side : side + T], alone)
    cache = layer.new_cache(1)
    parts = [layer(x[:, t : t + 1], mask=Causal(), positions=torch.tensor([[t]]), cache=cache) for t in range(T)]
    close(torch.cat(parts, 1), alone)


@pytest.mark.parametrize(("kind", "theirs"), [("elman", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_a_decoder_without_attention_is_torchs_stack_begun_with_the_source(kind: str, theirs: type) -> None:
    torch.manual_seed(4)
    decoder = PlainRNNDecoder(D, cell=CELLS[kind], num_layers=3, feed=False, dropout=0.0).double()
    twin = theirs(D, D, num_layers=3, batch_first=True).double()
    for i, cell in enumerate(decoder.cells.layers):
        for short, layer in [("ih", cell.input), ("hh", cell.hidden)]:
            getattr(twin, f"weight_{short}_l{i}").data = layer.weight.data.clone()
            getattr(twin, f"bias_{short}_l{i}").data = layer.bias.data.clone()
    context, x = some()
    last = torch.stack([context[0, 6], context[1, 5], context[2, 6]])
    states = torch.stack([torch.tanh(last @ part.weight.T + part.bias) for part in decoder.begin.maps])
    begun = (states[0::2], states[1::2]) if kind == "lstm" else states
    torch.testing.assert_close(call(decoder, context, x), twin(x, begun)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_a_padded_batch_says_what_the_equations_say_of_each_sentence_alone_gradients_included(name: str) -> None:
    decoder, twin = make(name), PAIRS[name][1]
    context, x = some()
    trace = Trace()
    said = call(decoder, context, x, trace)
    w = {key: value.detach().clone().requires_grad_() for key, value in decoder.named_parameters()}
    rows = [twin(w, context[row, SLOTS[row] >= 0], x[row]) for row in range(B)]
    expected = torch.stack([torch.stack(row) for row, _ in rows])
    torch.testing.assert_close(said, expected, rtol=0, atol=1e-12)
    push = torch.randn(expected.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(8))
    (said * push).sum().backward()
    (expected * push).sum().backward()
    for key, parameter in decoder.named_parameters():
        torch.testing.assert_close(parameter.grad, w[key].grad, rtol=0, atol=1e-10, msg=lambda m, k=key: k + m)

    if not rows[0][1]:
        assert not trace.records, "without attention there is nothing to show"
        return
    assert set(trace.records) == {"layers.0.cross.weights"}
    shown = trace["layers.0.cross.weights"]
    assert [weights.shape for weights in shown] == [(B, 1, 1, S)] * T
    for t, weights in enumerate(shown):
        for row in range(B):
            seen = SLOTS[row] >= 0
            torch.testing.assert_close(weights[row, 0, 0, seen], rows[row][1][t], rtol=0, atol=1e-12)
            assert weights[row, 0, 0, ~seen].abs().sum() == 0


def test_local_attention_weighs_the_window_around_its_place_by_a_gaussian() -> None:
    decoder = LuongDecoder(
        D, cell=GRUCell, num_layers=1, score="dot", local=2, input_feeding=True, dropout=0.0
    ).double()
    nn.init.zeros_(decoder.place.place.weight)  # sigmoid(0) = 1 / 2: row 0 looks at 3.5 of 7 tokens, row 1 at 2 of 4
    context, x = some()
    context[:] = context[:, :1]  # all scores of a row are equal
    trace = Trace()
    call(decoder, context, x, trace)
    weights = trace["layers.0.cross.weights"][0][:, 0, 0]
    bell = torch.exp(-((torch.arange(7) - 3.5) ** 2).double() / 2)
    expected = torch.where(torch.tensor([False, False, True, True, True, True, False]), bell / 4, 0)
    close(weights[0], expected)
    # Two tokens stand before row 1's: its window [0, 4] holds all four of its tokens, in the slots 2 to 5.
    bell = torch.exp(-((torch.arange(4) - 2.0) ** 2).double() / 2)
    close(weights[1], torch.cat([torch.zeros(2), bell / 4, torch.zeros(1)]).double())


def test_general_scores_with_the_identity_are_dots() -> None:
    general, dot = Product(D, general=True).double(), Product(D, general=False)
    nn.init.eye_(general.key.weight)
    context, x = some()
    close(general(x[:, 0], general.key(context)), dot(x[:, 0], dot.key(context)))


def test_what_each_decoder_is_made_of() -> None:
    cells = {"elman": 1, "gru": 3, "lstm": 4}

    def recurrence(kind: str, inputs: list[int]) -> int:
        """W, U and two biases of each gate."""
        return sum(cells[kind] * (D * width + D * D + 2 * D) for width in inputs)

    affine, square = D * D + D, D * D
    expected = {
        "luong-general": 4 * affine + recurrence("lstm", [2 * D, D]) + square + 2 * square,
        "luong-dot": affine + recurrence("elman", [2 * D]) + 2 * square,
        "luong-concat": 3 * affine + recurrence("gru", [D, D, D]) + 2 * square + D + 2 * square,
        "luong-local": 2 * affine + recurrence("lstm", [2 * D]) + square + square + D + 2 * square,
        "plain-lstm": 4 * affine + recurrence("lstm", [D, D]),
        "plain-gru-feed": affine + recurrence("gru", [2 * D]) + 2 * D * (3 * D + 1),
        "gnmt-lstm-4": recurrence("lstm", [2 * D] * 4) + 2 * A * D + A + A,
    }
    assert {name: sum(p.numel() for p in make(name).parameters()) for name in expected} == expected


# ---- promises ----


def test_each_row_is_read_by_itself_and_only_backwards(name: str) -> None:
    decoder = make(name)
    context, x = some()
    before = call(decoder, context, x)
    other, y = context.clone(), x.clone()
    other[1, 5] += 1.0  # its last token
    y[2, 3] += 1.0
    after = call(decoder, other, y)
    assert torch.equal(after[0], before[0])
    assert not torch.allclose(after[1], before[1])
    assert torch.equal(after[2, :3], before[2, :3])
    assert (after[2, 3:] - before[2, 3:]).abs().amax(-1).min() > 1e-9


def test_a_target_padded_on_the_left_says_the_same(name: str) -> None:
    decoder = make(name)
    context, x = some()
    wide = torch.cat([torch.full((B, 2, D), 5.0, dtype=x.dtype), x], 1)
    positions = torch.arange(-2, T).clamp(min=-1).expand(B, -1)
    out = decoder(wide, mask=Causal(), positions=positions, context=context, context_positions=SLOTS)
    close(out[:, 2:], call(decoder, context, x))


def test_a_row_without_a_source_looks_nowhere_and_stays_finite(name: str) -> None:
    decoder = make(name)
    context, x = some()
    slots = torch.cat([torch.full((1, S), -1), SLOTS[1:]])
    trace = Trace()
    said = [
        decoder(
            x,
            mask=Causal(),
            positions=torch.arange(T).expand(B, -1),
            context=torch.cat([junk, context[1:]]),
            context_positions=slots,
            trace=trace,
        )
        for junk in (context[:1], context[:1] + 3.0)
    ]
    assert said[0].isfinite().all()
    assert torch.equal(said[0], said[1]), "what stands in slots that hold no token is not read"
    assert all(weights[0].abs().sum() == 0 for shown in trace.records.values() for weights in shown)


def test_step_by_step_and_in_parts_says_what_the_uncached_call_says(name: str) -> None:
    decoder = make(name)
    context, x = some()
    whole = call(decoder, context, x)
    for cuts in ([0, 1, 2, 3, 4, 5], [0, 3, 4, 5], [0, 5]):
        state = start(decoder, context)
        close(torch.cat([read(decoder, state, x[:, a:b]) for a, b in pairwise(cuts)], 1), whole)


def test_ragged_counts_leave_each_row_at_its_own_length(name: str) -> None:
    decoder = make(name)
    context, x = some()
    whole, state, counts = call(decoder, context, x), start(decoder, context), torch.tensor([3, 0, 1])
    first = read(decoder, state, x[:, :3], counts)
    rest = torch.stack([x[row, count : count + 2] for row, count in enumerate(counts.tolist())])
    second = read(decoder, state, rest)
    for row, count in enumerate(counts.tolist()):
        close(first[row, :count], whole[row, :count])
        close(second[row], whole[row, count : count + 2])


def test_states_are_selected_joined_trimmed_and_saved(name: str) -> None:
    decoder = make(name)
    context, x = some()
    whole = call(decoder, context, x)

    a, b = start(decoder, context, slice(0, 1)), start(decoder, context, slice(1, 3))
    read(decoder, a, x[:1, :2])
    read(decoder, b, x[1:, :1])
    state = State.join([a, b])
    out = read(decoder, state, torch.stack([x[0, 2:4], x[1, 1:3], x[2, 1:3]]))
    close(out[0], whole[0, 2:4])
    close(out[1:], whole[1:, 1:3])

    state.mark()
    state = state.select(torch.tensor([2, 0, 2]))
    astray = read(decoder, state, x[:, :1].flip(0))
    assert not torch.allclose(astray[1, 0], whole[0, 4])
    state.trim(torch.tensor([3, 4, 3]))
    out = read(decoder, state, torch.stack([x[2, 3:4], x[0, 4:5], x[2, 3:4]]))
    close(out[:, 0], torch.stack([whole[2, 3], whole[0, 4], whole[2, 3]]))

    fresh = State(decoder.start(context[2:], SLOTS[2:]), torch.zeros(1, dtype=torch.int64))
    loaded = fresh.load(state.save(2, 3))
    close(read(decoder, loaded, x[2:, 3:]), whole[2:, 3:])


@pytest.mark.parametrize("length", [T, 1])
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_reach_every_weight_and_the_source(name: str, length: int) -> None:
    """Every number of every matrix, but those that no step of this length reads; and of a maxout's pair the larger."""
    decoder = make(name)
    context, x = some(length)
    context.requires_grad_()
    call(decoder, context, x).square().sum().backward()
    still = {}  # what stays zero: which columns, or which rows
    if length == 1 and name in ("rnnsearch", "luong-general", "luong-dot", "luong-local", "luong-local-concat"):
        fed = "cell.input.weight" if name == "rnnsearch" else "cells.layers.0.input.weight"
        still[fed] = (slice(None), slice(D, 2 * D))  # input feeding: nothing was said yet
    if length == 1 and name.startswith("gnmt"):
        still["attention.query.weight"] = (slice(None), slice(None))  # all states are zero
        for i in range(int(name[-1])):
            still[f"cells.layers.{i}.hidden.weight"] = (slice(None), slice(None))
            if "lstm" in name:  # and so the forget gate has nothing to forget
                for short in ("input.weight", "input.bias", "hidden.bias"):
                    still[f"cells.layers.{i}.{short}"] = (slice(D, 2 * D),)
    for key, parameter in decoder.named_parameters():
        grad = parameter.grad
        if key.startswith("readout"):
            grad = grad.unflatten(0, (-1, 2)).abs().sum(1)
        expected = torch.ones_like(grad, dtype=torch.bool)
        if key in still:
            expected[still[key]] = False
        assert torch.equal(grad != 0, expected), key
    read_rows = (context.grad != 0).any(-1)
    assert not read_rows[SLOTS < 0].any()
    if not name.startswith("plain") and "local" not in name:
        assert read_rows[SLOTS >= 0].all()


def test_in_training_some_of_what_is_said_falls_out_and_in_evaluation_nothing(name: str) -> None:
    decoder = make(name, dropout=0.5)
    context, x = some()
    close(call(decoder, context, x), call(make(name), context, x))
    said = call(decoder.train(), context, x)
    assert 0.2 < (said == 0).double().mean() < 0.8


@pytest.mark.parametrize("name", [*SOME, "luong-general", "luong-dot"])
def test_bits_are_those_of_the_row_alone(name: str) -> None:
    """At a width that is no whole number of vectors, beside longer sources, in beams."""
    dim, lengths = 40, [1, 5, 16, 17, 33, 60]
    decoder = apply_batch_invariance(make(name, dim).float())
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(len(lengths), 6, dim, generator=generator)
    sources = [torch.randn(length, dim, generator=generator) for length in lengths]

    def decode(rows: list[int], beam: int) -> Tensor:
        size = max(lengths[row] for row in rows)
        size += -size % 16
        context, slots = torch.zeros(len(rows), size, dim), torch.full((len(rows), size), -1)
        for i, row in enumerate(rows):
            context[i, : lengths[row]], slots[i, : lengths[row]] = sources[row], torch.arange(lengths[row])
        state = State(decoder.start(context, slots), torch.zeros(len(rows), dtype=torch.int64))
        state = state.select(torch.arange(len(rows)).repeat_interleave(beam))
        ys = x[rows].repeat_interleave(beam, 0)
        return torch.cat([read(decoder, state, ys[:, t : t + 1])[::beam] for t in range(x.shape[1])], 1)

    with torch.inference_mode():
        together = decode(list(range(len(lengths))), 1)
        for row in range(len(lengths)):
            assert torch.equal(decode([row], 3)[0], together[row]), f"a source of {lengths[row]} has other bits alone"
