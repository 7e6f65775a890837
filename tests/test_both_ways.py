"""Language models both ways against torch's LSTMs, one sentence at a time; the mix of their layers; and as an encoder:
trained both ways, then with another head."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.architecture import BothWaysConfig, ClassesConfig, EncoderConfig, NoPositionConfig, WordsConfig
from headway.build import build
from headway.config import InverseSqrtConfig, TrainConfig, UniformSmoothingConfig
from headway.data.batch import Batch
from headway.models.encoder import Encoder
from headway.models.state import positions_of
from headway.nn.both_ways import ScalarMix
from headway.nn.mask import Causal
from headway.nn.recurrent import LSTMCell
from headway.train.objective import build_loss

V, D, L = 19, 6, 3
TOKENS = torch.tensor([[4, 7, 9, 11, 4, 15, 2], [0, 0, 5, 6, 8, 0, 0], [3, 17, 0, 0, 0, 0, 0]])
WORDS = WordsConfig(transform=None, tie=False)
CONFIG = EncoderConfig(dim=D, dropout=0.0, position=NoPositionConfig(), stack=BothWaysConfig(num_layers=L), head=WORDS)


def make(config: EncoderConfig = CONFIG) -> Encoder:
    torch.manual_seed(2)
    model = build(config, V).double()
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


def twin(model: Encoder, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    x = model.embed.tokens.weight[ids]
    return climb(model.stack.forth, x), [h.flip(0) for h in climb(model.stack.back, x.flip(0))]


def read(model: Encoder, tokens: Tensor) -> tuple[Tensor, Tensor]:
    positions = positions_of(tokens)
    return model.embed(tokens, positions), positions


def test_a_padded_batch_is_torchs_lstms_on_each_sentence_alone() -> None:
    model = make()
    forth, back = model.stack.ways(*read(model, TOKENS))
    layers, out = model.stack.layers(*read(model, TOKENS)), model.vectors(TOKENS)
    assert [h.shape for h in layers] == [(3, 7, 2 * D)] * (L + 1)
    shares = model.stack.mix.scores.softmax(0)
    for row, ids in enumerate(TOKENS):
        real = ids != 0
        ours, theirs = twin(model, ids[real])
        both = [torch.cat(pair, -1) for pair in zip(ours, theirs, strict=True)]
        for j in range(L + 1):
            torch.testing.assert_close(layers[j][row, real], both[j], rtol=0, atol=1e-12)
        mixed = model.stack.mix.gamma * sum(share * h for share, h in zip(shares, both, strict=True))
        expected = mixed @ model.stack.out.weight.T + model.stack.out.bias
        torch.testing.assert_close(out[row, real], expected, rtol=0, atol=1e-12)
        for ours_top, top in ((forth, ours[-1]), (back, theirs[-1])):
            torch.testing.assert_close(ours_top[row, real], top, rtol=0, atol=1e-12)


def test_each_way_sees_its_own_side_and_no_more() -> None:
    model = make()
    other = TOKENS.clone()
    other[0, 3] = 5
    ways = zip(model.stack.ways(*read(model, TOKENS)), model.stack.ways(*read(model, other)), strict=True)
    for way, (a, b) in enumerate(ways):
        moved = (a - b)[0].abs().amax(-1) > 1e-12
        assert moved.tolist() == ([t >= 3 for t in range(7)] if way == 0 else [t <= 3 for t in range(7)])
        assert torch.equal(a[1:], b[1:])


def test_the_loss_is_the_mean_of_both_ways_and_reaches_every_weight_of_theirs() -> None:
    model = make()
    tokens = torch.tensor([[1, 7, 9, 11, 2], [1, 5, 2, 0, 0]])
    targets = F.pad(tokens[:, 1:], (0, 1))
    batch = Batch({"tokens": tokens}, targets, [1, 2], [0, 0], 6, 8, 10)
    smoothing = UniformSmoothingConfig(epsilon=0.0)
    train = TrainConfig(steps=1, schedule=InverseSqrtConfig(peak=1.0, warmup=1), smoothing=smoothing)
    found = build_loss(CONFIG, train, "both_ways")(model, batch, torch.device("cpu"))
    weight, bias, expected = model.head.unembed.weight, model.head.unembed.bias, torch.zeros(()).double()
    for ids in (tokens[0], tokens[1, :3]):
        ours, theirs = twin(model, ids)
        expected = expected + F.cross_entropy(ours[-1][:-1] @ weight.T + bias, ids[1:], reduction="sum") / 2
        expected = expected + F.cross_entropy(theirs[-1][1:] @ weight.T + bias, ids[:-1], reduction="sum") / 2
    torch.testing.assert_close(found.loss, expected)
    assert found.tokens == 6
    found.loss.backward()
    for name, parameter in model.named_parameters():
        if name.startswith(("stack.mix.", "stack.out.")):
            assert parameter.grad is None  # a task learns these
        else:
            grad = parameter.grad[tokens[0].unique()] if name == "embed.tokens.weight" else parameter.grad
            assert (grad != 0).all(), name


def test_a_mix_is_first_the_mean_then_the_softmax_of_its_scores_times_gamma() -> None:
    model = make()
    layers = model.stack.layers(*read(model, TOKENS))
    mix = ScalarMix(L + 1).double()
    torch.testing.assert_close(mix(layers), sum(layers) / (L + 1))
    mix.scores.data = torch.log(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    mix.gamma.data.fill_(5.0)
    torch.testing.assert_close(mix(layers), sum((j + 1) / 2 * h for j, h in enumerate(layers)))


def test_dropout_acts_in_training_alone() -> None:
    model, plain = make(CONFIG.model_copy(update={"dropout": 0.5})), make()
    assert torch.equal(model.eval().vectors(TOKENS), plain.vectors(TOKENS))
    assert (model.train().stack.ways(*read(model, TOKENS))[1] == 0).any()


def test_it_serves_other_heads_and_no_other_mask() -> None:
    model = make(CONFIG.model_copy(update={"head": ClassesConfig(num=4, pool="mean")}))
    assert model(TOKENS).shape == (3, 4)
    with pytest.raises(ValueError, match="serve no mask Causal"):
        model.vectors(TOKENS, mask=Causal())
