"""Decomposable attention against its equations, one pair of sentences at a time, word by word."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headway.models.pairs import DecomposableAttention
from twins import Weights, linear

V, E, D, F, C, REACH = 23, 5, 6, 16, 3, 2
PREMISES = torch.tensor([[4, 7, 9, 11, 4, 15, 2], [0, 0, 5, 6, 8, 0, 0], [3, 3, 9, 22, 0, 0, 0]])
HYPOTHESES = torch.tensor([[8, 0, 0, 0], [9, 10, 11, 12], [0, 0, 4, 9]])


def hidden(w: Weights, name: str, x: Tensor) -> Tensor:
    return linear(w, f"{name}.out", linear(w, f"{name}.up", x).clamp(min=0)).clamp(min=0)


def softmax(x: Tensor) -> Tensor:
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


def words(w: Weights, ids: Tensor, intra: bool) -> Tensor:
    a = torch.einsum("te,de->td", w["embed.weight"][ids[ids != 0]], w["project.weight"])
    if not intra:
        return a
    f, seen = hidden(w, "intra.hidden", a), []
    for i in range(len(a)):
        bias = [w["intra.bias"][i - j + REACH if abs(i - j) <= REACH else 2 * REACH + 1] for j in range(len(a))]
        seen.append(torch.einsum("s,sd->d", softmax(torch.einsum("f,sf->s", f[i], f) + torch.stack(bias)), a))
    return torch.cat([a, torch.stack(seen)], -1)


def decomposable(w: Weights, premise: Tensor, hypothesis: Tensor, intra: bool) -> Tensor:
    a, b = words(w, premise, intra), words(w, hypothesis, intra)
    e = torch.einsum("if,jf->ij", hidden(w, "attend", a), hidden(w, "attend", b))
    beta, alpha = torch.einsum("ij,jd->id", softmax(e), b), torch.einsum("ji,id->jd", softmax(e.T), a)
    v = sum(hidden(w, "compare", torch.cat([a[i], beta[i]])) for i in range(len(a)))
    u = sum(hidden(w, "compare", torch.cat([b[j], alpha[j]])) for j in range(len(b)))
    return linear(w, "classify", hidden(w, "aggregate", torch.cat([v, u])))


def make(intra: bool, dropout: float = 0.0) -> DecomposableAttention:
    torch.manual_seed(2)
    model = DecomposableAttention(nn.Embedding(V, E), D, F, C, intra=intra, reach=REACH, dropout=dropout).double()
    for name, parameter in model.named_parameters():  # biases above zero, so that the ReLUs let something through
        parameter.data = torch.randn_like(parameter) * 0.4 + 0.5 * name.endswith("bias")
    return model


@pytest.mark.parametrize("intra", [False, True])
def test_padded_pairs_are_those_of_the_equations_gradients_included(intra: bool) -> None:
    model = make(intra)
    w = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    logits = model(PREMISES, HYPOTHESES)
    expected = torch.stack([decomposable(w, a, b, intra) for a, b in zip(PREMISES, HYPOTHESES, strict=True)])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-11)
    push = torch.arange(1.0, 1 + logits.numel()).view_as(logits)
    (logits * push).sum().backward()
    (expected * push).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, w[name].grad, rtol=0, atol=1e-9, msg=lambda m, n=name: n + m)
        assert parameter.grad.abs().max() > 0, name


def test_without_a_look_inside_each_text_the_order_of_words_says_nothing_and_with_it_much() -> None:
    for intra in (False, True):
        model = make(intra)
        same = torch.allclose(model(PREMISES, HYPOTHESES), model(PREMISES.flip(1), HYPOTHESES), rtol=0, atol=1e-11)
        assert same is not intra


def test_distances_beyond_the_reach_share_a_bias_and_nearer_ones_have_their_own() -> None:
    model = make(True)
    text = PREMISES[:1]
    x, real = torch.randn(1, 7, D, dtype=torch.float64) * 0.1, text != 0
    before = model.intra(x, real)
    model.intra.bias.data[-1] += 1.0
    moved = (model.intra(x, real) - before).abs().amax(-1)[0] > 1e-12
    assert moved.all(), "each of seven words has one three or more away"
    near = model.intra(x[:, :3], real[:, :3])
    model.intra.bias.data[-1] -= 1.0
    assert torch.equal(model.intra(x[:, :3], real[:, :3]), near), "no two of three words are so far apart"


def test_a_text_of_no_words_is_nothing_and_finite() -> None:
    model = make(True)
    none = torch.zeros(3, 4, dtype=torch.int64)
    logits = model(PREMISES, none)
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(model(PREMISES, none[:, :1]), logits)


def test_dropout_acts_in_training_alone() -> None:
    model = make(False, dropout=0.5)
    assert torch.equal(model.eval()(PREMISES, HYPOTHESES), make(False)(PREMISES, HYPOTHESES))
    assert not torch.equal(model.train()(PREMISES, HYPOTHESES), model(PREMISES, HYPOTHESES))
