"""Language models both ways against torch's LSTMs, one sentence at a time; and the mix of their layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headway.models.elmo import BiLM, ScalarMix
from headway.nn.recurrent import LSTMCell

V, D, L = 19, 6, 3
TOKENS = torch.tensor([[4, 7, 9, 11, 4, 15, 2], [0, 0, 5, 6, 8, 0, 0], [3, 17, 0, 0, 0, 0, 0]])


def make(dropout: float = 0.0) -> BiLM:
    torch.manual_seed(2)
    model = BiLM(nn.Embedding(V, D), L, dropout=dropout).double()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.6
    return model


def torchs(cell: LSTMCell) -> nn.LSTM:
    twin = nn.LSTM(D, D).double()
    twin.weight_ih_l0, twin.bias_ih_l0 = cell.input.weight, cell.input.bias
    twin.weight_hh_l0, twin.bias_hh_l0 = cell.hidden.weight, cell.hidden.bias
    return twin


def climb(layers: nn.ModuleList, x: Tensor) -> list[Tensor]:
    found = [x]
    for i, layer in enumerate(layers):
        said = torchs(layer.forth)(x)[0]
        x = said if i == 0 else said + x
        found.append(x)
    return found


def twin(model: BiLM, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    x = model.embed.weight[ids]
    return climb(model.forth, x), [h.flip(0) for h in climb(model.back, x.flip(0))]


def test_a_padded_batch_is_torchs_lstms_on_each_sentence_alone() -> None:
    model = make()
    forth, back = model(TOKENS)
    layers = model.layers(TOKENS)
    assert [h.shape for h in layers] == [(3, 7, 2 * D)] * (L + 1)
    for row, ids in enumerate(TOKENS):
        real = ids != 0
        ours, theirs = twin(model, ids[real])
        for j in range(L + 1):
            expected = torch.cat([ours[j], theirs[j]], -1)
            torch.testing.assert_close(layers[j][row, real], expected, rtol=0, atol=1e-12)
        for logits, top in ((forth, ours[-1]), (back, theirs[-1])):
            expected = top @ model.unembed.weight.T + model.unembed.bias
            torch.testing.assert_close(logits[row, real], expected, rtol=0, atol=1e-12)


def test_each_way_sees_its_own_side_and_no_more() -> None:
    model = make()
    other = TOKENS.clone()
    other[0, 3] = 5
    for way, (a, b) in enumerate(zip(model.hidden(TOKENS), model.hidden(other), strict=True)):
        moved = (a - b)[0].abs().amax(-1) > 1e-12
        assert moved.tolist() == ([t >= 3 for t in range(7)] if way == 0 else [t <= 3 for t in range(7)])
        assert torch.equal(a[1:], b[1:])


def test_the_losses_both_ways_reach_every_weight() -> None:
    model = make()
    forth, back = model(TOKENS[:1])
    loss = nn.functional.cross_entropy(forth[0, :-1], TOKENS[0, 1:])
    (loss + nn.functional.cross_entropy(back[0, 1:], TOKENS[0, :-1])).backward()
    for name, parameter in model.named_parameters():
        grad = parameter.grad[TOKENS[0].unique()] if name == "embed.weight" else parameter.grad
        assert (grad != 0).all(), name


def test_a_mix_is_first_the_mean_then_the_softmax_of_its_scores_times_gamma() -> None:
    layers = make().layers(TOKENS)
    mix = ScalarMix(L + 1).double()
    torch.testing.assert_close(mix(layers), sum(layers) / (L + 1))
    mix.scores.data = torch.log(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    mix.gamma.data.fill_(5.0)
    torch.testing.assert_close(mix(layers), sum((j + 1) / 2 * h for j, h in enumerate(layers)))
    with pytest.raises(ValueError, match="3 layers were given to a mix of 4; give it as many"):
        mix(layers[1:])


def test_dropout_acts_in_training_alone() -> None:
    model = make(dropout=0.5)
    assert torch.equal(model.eval().hidden(TOKENS)[0], make().hidden(TOKENS)[0])
    assert (model.train().hidden(TOKENS)[1] == 0).any()
