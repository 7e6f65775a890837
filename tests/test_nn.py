"""Parts against torch's own modules, against loops over the equations, and against their slow twins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headway.nn.attend import attend, attend_reference, attend_rounded, attend_sdpa
from headway.nn.attention import Attention, WindowAttention
from headway.nn.linear_attention import LinearAttention
from headway.nn.mask import Causal, Full, Mask, Window
from headway.nn.recurrent import GRUCell, LSTMCell, Recurrence
from headway.nn.trace import Trace

B, H, T, S, K, J = 3, 4, 5, 7, 6, 2


def some_qkv() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = [(B, H, T, K), (B, H, S, K), (B, H, S, J)]
    q, k, v = (torch.randn(size, dtype=torch.float64, generator=generator, requires_grad=True) for size in sizes)
    return q, k, v


@pytest.mark.parametrize("mask", [Full(), Causal(), Window(3), Causal() & Window(2), Causal() | Window(2)])
@pytest.mark.parametrize("kernel", [attend_sdpa, attend, attend_rounded])
def test_every_kernel_agrees_with_the_reference_gradients_included(kernel, mask: Mask) -> None:
    positions = torch.arange(2, 2 + T).expand(B, -1)
    context_positions = torch.arange(S).repeat(B, 1)
    context_positions[1, 4:] = -1
    context_positions[2] = -1  # nothing to see at all
    found = []
    for one in (kernel, attend_reference):
        q, k, v = some_qkv()
        out = one(q, k, v, mask=mask, positions=positions, context_positions=context_positions)
        (out * torch.arange(1, 1 + out.numel()).view_as(out)).sum().backward()
        found.append((out, q.grad, k.grad, v.grad))
    for ours, reference in zip(*found, strict=True):
        assert ours is not None
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, reference, rtol=1e-10, atol=1e-10)
    assert found[0][0][2].abs().max() == 0, "a query that may look nowhere gives zeros"


def test_the_reference_is_softmax_of_scaled_products() -> None:
    q, k, v = some_qkv()
    trace = Trace()
    out = attend_reference(
        q,
        k,
        v,
        mask=Full(),
        positions=torch.zeros(B, T).long(),
        context_positions=torch.arange(S).expand(B, -1),
        trace=trace,
    )
    b, h, t = 1, 2, 3
    logits = torch.stack([(q[b, h, t] * k[b, h, s]).sum() / K**0.5 for s in range(S)])
    weights = logits.exp() / logits.exp().sum()
    torch.testing.assert_close(trace["weights"][0][b, h, t], weights)
    torch.testing.assert_close(out[b, h, t], sum(weights[s] * v[b, h, s] for s in range(S)))


def test_masks_say_who_may_look() -> None:
    q, k = torch.tensor([[3, 4]]), torch.tensor([[-1, 2, 3, 4, 5]])
    assert Causal().allows(q, k)[0, :, 1:].tolist() == [[True, True, False, False], [True, True, True, False]]
    assert Window(2).allows(q, k)[0, :, 1:].tolist() == [[True, True, True, False], [False, True, True, True]]
    both = (Causal() & Window(2)).allows(q, k)[0, :, 1:]
    assert both.tolist() == [[True, True, False, False], [False, True, True, False]]


@pytest.mark.parametrize(("cell", "theirs"), [(GRUCell, nn.GRU), (LSTMCell, nn.LSTM)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_recurrence_is_torchs(cell, theirs, bidirectional: bool) -> None:
    torch.manual_seed(4)
    ours = Recurrence(6, cell, bidirectional=bidirectional).double()
    width = 3 if bidirectional else 6
    twin = theirs(6, width, batch_first=True, bidirectional=bidirectional).double()
    for part, suffix in [(ours.forth, ""), (ours.back, "_reverse")][: 1 + bidirectional]:
        for name, linear in [("ih", part.input), ("hh", part.hidden)]:
            getattr(twin, f"weight_{name}_l0{suffix}").data = linear.weight.data.clone()
            getattr(twin, f"bias_{name}_l0{suffix}").data = linear.bias.data.clone()
    x = torch.randn(3, 7, 6, dtype=torch.float64)
    mask = Full() if bidirectional else Causal()
    out = ours(x, mask=mask, positions=torch.arange(7).expand(3, -1))
    torch.testing.assert_close(out, twin(x)[0], rtol=0, atol=1e-12)


def test_linear_attention_is_the_loop_over_its_equations() -> None:
    torch.manual_seed(4)
    mixer = LinearAttention(8, 2, head_dim=4).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    out = mixer(x, mask=Causal(), positions=torch.arange(6)[None])[0]

    def phi(u: Tensor) -> Tensor:
        return torch.where(u > 0, u + 1, u.exp())

    q, k, v = mixer.q(x)[0], mixer.k(x)[0], mixer.v(x)[0]
    expected = []
    for t in range(6):
        heads = []
        for h in (slice(0, 4), slice(4, 8)):
            weights = torch.stack([(phi(q[t, h]) * phi(k[s, h])).sum() for s in range(t + 1)])
            heads.append(sum(weights[s] * v[s, h] for s in range(t + 1)) / weights.sum())
        expected.append(mixer.out(torch.cat(heads)))
    torch.testing.assert_close(out, torch.stack(expected), rtol=0, atol=1e-6)  # the equations have no epsilon


def test_linear_attention_stays_finite_where_features_vanish() -> None:
    mixer = LinearAttention(8, 2, head_dim=4)
    mixer.k.bias.data.fill_(-200.0)  # elu + 1 is then 0 in float32
    out = mixer(torch.randn(1, 3, 8), mask=Causal(), positions=torch.arange(3)[None])
    assert out.isfinite().all()


def test_a_window_as_long_as_the_text_is_full_attention() -> None:
    torch.manual_seed(4)
    full = Attention(8, 2, key_dim=4, value_dim=4)
    x, positions = torch.randn(2, 6, 8), torch.arange(6).expand(2, -1)
    a, b = full(x, mask=Causal(), positions=positions), WindowAttention(full, 6)(x, mask=Causal(), positions=positions)
    assert torch.equal(a, b)
    narrow = WindowAttention(full, 1)(x, mask=Causal(), positions=positions)
    alone = full.out(full.v(x))  # a window of one sees itself alone
    torch.testing.assert_close(narrow, alone)
