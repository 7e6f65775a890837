"""Decomposable attention against its equations, one pair of texts at a time, word by word."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.architecture import ClassesConfig, DecomposableConfig, EncoderConfig, NoPositionConfig
from headway.build import build
from headway.models.encoder import Encoder
from twins import Weights, linear

V, D, C, REACH = 23, 12, 3, 2
PAIRS = [([4, 7, 9, 11, 4, 15, 2], [8]), ([5, 6, 8], [9, 10, 11, 12]), ([3, 3, 9, 22], [4, 9])]
LEFT = {1}  # rows that are filled up on their left


def rows(pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Both texts in a row, and which of them each token is of."""
    size = max(len(a) + len(b) for a, b in pairs)
    tokens, segments = [], []
    for number, (a, b) in enumerate(pairs):
        fill = [0] * (size - len(a) - len(b))
        before, behind = (fill, []) if number in LEFT else ([], fill)
        tokens.append([*before, *a, *b, *behind])
        segments.append([*before, *[0] * len(a), *[1] * len(b), *behind])
    return torch.tensor(tokens), torch.tensor(segments)


def hidden(w: Weights, name: str, x: Tensor) -> Tensor:
    return linear(w, f"{name}.out", linear(w, f"{name}.up", x).clamp(min=0)).clamp(min=0)


def softmax(x: Tensor) -> Tensor:
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


def words(w: Weights, ids: list[int], intra: bool) -> Tensor:
    a = torch.einsum("te,de->td", w["embed.tokens.weight"][ids], w["stack.project.weight"])
    if not intra:
        return a
    f, seen = hidden(w, "stack.intra.hidden", a), []
    for i in range(len(a)):
        kinds = [i - j + REACH if abs(i - j) <= REACH else 2 * REACH + 1 for j in range(len(a))]
        energies = torch.einsum("f,sf->s", f[i], f) + w["stack.intra.bias"][kinds]
        seen.append(torch.einsum("s,sd->d", softmax(energies), a))
    return torch.cat([a, torch.stack(seen)], -1)


def decomposable(w: Weights, premise: list[int], hypothesis: list[int], intra: bool) -> Tensor:
    a, b = words(w, premise, intra), words(w, hypothesis, intra)
    e = torch.einsum("if,jf->ij", hidden(w, "stack.attend", a), hidden(w, "stack.attend", b))
    beta, alpha = torch.einsum("ij,jd->id", softmax(e), b), torch.einsum("ji,id->jd", softmax(e.T), a)
    v = sum(hidden(w, "stack.compare", torch.cat([a[i], beta[i]])) for i in range(len(a)))
    u = sum(hidden(w, "stack.compare", torch.cat([b[j], alpha[j]])) for j in range(len(b)))
    return linear(w, "head.out", hidden(w, "head.hidden", torch.cat([v, u])))


def make(intra: bool, dropout: float = 0.0) -> Encoder:
    torch.manual_seed(2)
    head = ClassesConfig(num=C, pool="sum", hidden_dim=16)
    stack = DecomposableConfig(intra=intra, reach=REACH)
    config = EncoderConfig(dim=D, dropout=dropout, position=NoPositionConfig(), stack=stack, head=head)
    model = build(config, V).double()
    for name, parameter in model.named_parameters():  # biases above zero, so that the ReLUs let something through
        parameter.data = torch.randn_like(parameter) * 0.4 + 0.5 * name.endswith("bias")
    return model


def said(model: Encoder, pairs: list[tuple[list[int], list[int]]]) -> Tensor:
    tokens, segments = rows(pairs)
    return model(tokens, segments=segments)


@pytest.mark.parametrize("intra", [False, True])
def test_padded_pairs_are_those_of_the_equations_gradients_included(intra: bool) -> None:
    model = make(intra)
    w = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    logits = said(model, PAIRS)
    expected = torch.stack([decomposable(w, a, b, intra) for a, b in PAIRS])
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
        same = torch.allclose(said(model, PAIRS), said(model, [(a[::-1], b) for a, b in PAIRS]), rtol=0, atol=1e-11)
        assert same is not intra


def test_a_text_of_no_words_is_nothing_and_finite() -> None:
    model = make(True)
    logits = said(model, [(a, []) for a, _ in PAIRS])
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(said(model, [(PAIRS[0][0], [])]), logits[:1])


def test_dropout_acts_in_training_alone() -> None:
    model = make(False, dropout=0.5)
    assert torch.equal(said(model.eval(), PAIRS), said(make(False), PAIRS))
    assert not torch.equal(said(model.train(), PAIRS), said(model, PAIRS))


def test_one_text_has_nothing_to_be_held_against() -> None:
    with pytest.raises(ValueError, match="two texts against each other: give their segments"):
        make(False)(rows(PAIRS)[0])
