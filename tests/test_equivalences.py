"""Where mathematics says that two variants are one: each pair here is built twice, with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.architecture import (
    AttentionConfig,
    EncoderConfig,
    LatentConfig,
    LayerConfig,
    LMConfig,
    NoPositionConfig,
    ParallelHeadsConfig,
    PlainFFNConfig,
    RotaryConfig,
    SequentialModulesConfig,
    StackConfig,
    WindowConfig,
)
from headway.build import Side, build, build_mixer
from headway.config import InverseSqrtConfig, TrainConfig
from headway.data.batch import Batch
from headway.models.lm import LM
from headway.nn.attention import Attention
from headway.nn.mask import Causal, Full, Permutation, Prefix
from headway.nn.mixer import Mixer
from headway.train.objective import build_loss, further

B, T, D, H, V = 3, 7, 12, 4, 23
POSITIONS = torch.arange(T).expand(B, -1)
TOKENS = torch.tensor([[4, 7, 9, 11, 4, 15, 2], [5, 6, 8, 21, 13, 14, 3], [3, 17, 6, 6, 20, 9, 10]])


def lm_config(**more: Any) -> LMConfig:
    layer = LayerConfig(mixer=AttentionConfig(num_heads=H), ffn=PlainFFNConfig(kind="gelu", dim=9), residual="pre")
    return LMConfig(dim=D, dropout=0.0, stack=StackConfig(layers=(layer,) * 2, final_norm=True), **more)


def mixer(config: Any) -> Mixer:
    torch.manual_seed(2)
    return build_mixer(config, Side(lm_config(), Causal(), "here")).double()


def some(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def said(part: Mixer, mask: Any = None, **more: Any) -> Tensor:
    return part(some(B, T, D), mask=Causal() if mask is None else mask, positions=POSITIONS, **more)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_shared_heads_are_those_of_all_heads_whose_neighbours_have_the_same_weights(groups: int) -> None:
    """One group is MQA, as many as heads MHA; of two the order is 0, 0, 1, 1 (Ainslie et al. 2023), not 0, 1, 0, 1."""
    few, all_ = mixer(AttentionConfig(num_heads=H, num_kv_heads=groups)), mixer(AttentionConfig(num_heads=H))
    weights = few.state_dict()
    order = [head * groups // H for head in range(H)]
    assert order == {1: [0, 0, 0, 0], 2: [0, 0, 1, 1], 4: [0, 1, 2, 3]}[groups]
    for name in ("k.weight", "k.bias", "v.weight", "v.bias"):
        weights[name] = weights[name].unflatten(0, (groups, -1))[order].flatten(0, 1)
    all_.load_state_dict(weights)
    close(said(few), said(all_))
    if groups == 2:
        swapped = {
            name: weights[name].unflatten(0, (H, -1))[[0, 2, 1, 3]].flatten(0, 1) for name in ("k.weight", "v.weight")
        }
        all_.load_state_dict(weights | swapped)
        assert (said(few) - said(all_)).abs().max() > 1e-3


def test_a_window_as_long_as_the_text_is_no_window_and_a_shorter_one_is() -> None:
    plain = mixer(AttentionConfig(num_heads=H))
    for size, same in ((T, True), (T + 5, True), (T - 1, False)):
        window = mixer(WindowConfig(num_heads=H, window=size))
        window.attention.load_state_dict(plain.state_dict())
        for mask in (Causal(), Full()):
            assert torch.allclose(said(window, mask), said(plain, mask), rtol=0, atol=1e-12) is same


def test_a_prefix_of_one_token_is_causal_and_one_of_all_tokens_sees_all() -> None:
    part = mixer(AttentionConfig(num_heads=H))
    close(said(part, Prefix(torch.tensor([1] * B))), said(part, Causal()))
    close(said(part, Prefix(torch.tensor([0] * B))), said(part, Causal()))
    close(said(part, Prefix(torch.tensor([T] * B))), said(part, Full()))


def test_the_order_of_the_text_is_causal_with_itself_and_before_it_without() -> None:
    part, rank = mixer(AttentionConfig(num_heads=H)), torch.arange(T).expand(B, -1)
    close(said(part, Permutation(rank, True)), said(part, Causal()))
    alone = said(part, Permutation(rank, False))
    assert torch.equal(alone[:, 0], part.out.bias.expand(B, -1)), "the first sees nothing"
    x = some(B, T, D)
    last = part(
        x[:, -1:], context=x[:, :-1], mask=Full(), positions=POSITIONS[:, -1:], context_positions=POSITIONS[:, :-1]
    )
    close(alone[:, -1:], last)


@pytest.mark.parametrize("rope", [0, 4])
@pytest.mark.parametrize("q_rank", [None, 6])
def test_latent_attention_is_the_same_expanded_and_absorbed_and_remembers_the_latent_alone(rope, q_rank) -> None:
    told: dict[str, Any] = {"num_heads": H, "kv_rank": 7, "q_rank": q_rank, "head_dim": 3, "value_dim": 5}
    part = mixer(LatentConfig(**told, rope_dim=rope))
    whole, x, cache = said(part), some(B, T, D), part.new_cache(B)
    for begin, end in ((0, 2), (2, 3), (3, T)):  # with a cache, all heads look at the latent itself
        step = part(x[:, begin:end], mask=Causal(), positions=POSITIONS[:, begin:end], cache=cache)
        close(step, whole[:, begin:end])
    widths = [tensor.shape[-1] * tensor.shape[1] for tensor in (cache.k, cache.v)]
    assert sum(widths) == 7 + rope, "DeepSeek-V2, table 1: d_c + d_h^R numbers a token and layer"


# ---- whole models ----


def lm(**more: Any) -> LM:
    torch.manual_seed(3)
    return build(lm_config(**more), V).double()


def test_a_prefix_model_is_causal_with_a_prefix_of_one_and_an_encoder_with_one_of_all() -> None:
    causal, prefix = lm(), lm(prefix=True)
    prefix.load_state_dict(causal.state_dict())
    close(prefix(TOKENS, prefix=torch.tensor([1] * B)), causal(TOKENS))
    encoder = build(EncoderConfig(dim=D, dropout=0.0, stack=lm_config().stack), V).double()
    encoder.load_state_dict({name: one for name, one in causal.state_dict().items() if name != "unembed.weight"})
    close(prefix.hidden(TOKENS, prefix=torch.tensor([T] * B)), encoder(TOKENS))


@pytest.mark.parametrize("position", [None, RotaryConfig()])
def test_packed_texts_are_those_texts_alone(position: Any) -> None:
    torch.manual_seed(3)
    layer = LayerConfig(mixer=AttentionConfig(num_heads=2, position=position), ffn=PlainFFNConfig(kind="gelu", dim=9))
    added: dict[str, Any] = {"position": NoPositionConfig()} if position else {}
    config = LMConfig(dim=D, dropout=0.0, stack=StackConfig(layers=(layer,) * 2), **added)
    for model in (
        build(config, V).double(),
        build(EncoderConfig(dim=D, dropout=0.0, stack=config.stack, **added), V).double(),
    ):
        texts = [TOKENS[0, :3], TOKENS[1, :4], TOKENS[2, :2]]
        row = torch.cat([*texts, torch.zeros(2, dtype=torch.int64)])[None]
        documents = torch.tensor([[0] * 3 + [1] * 4 + [2] * 2 + [-1] * 2])
        positions = torch.tensor([[*range(3), *range(4), *range(2), -1, -1]])
        packed = model(row, documents=documents, positions=positions)[0, :9]
        close(packed, torch.cat([model(text[None])[0] for text in texts]))
        with pytest.raises(ValueError, match="positions"):
            model(row, documents=documents)


def losses(model: LM, config: LMConfig) -> Tensor:
    batch = Batch(
        {"tokens": TOKENS}, torch.cat([TOKENS[:, 1:], torch.zeros(B, 1).long()], 1), [1, 2, 3], [0] * 3, 18, 21, 21
    )
    train = TrainConfig(steps=1, schedule=InverseSqrtConfig(peak=1.0, warmup=1))
    return build_loss(config, train)(model, batch, torch.device("cpu")).loss


def test_one_parallel_head_is_the_loss_of_the_next_token_alone() -> None:
    future = ParallelHeadsConfig(num=1)
    plain, one = lm(), lm(future=future)
    one.load_state_dict(plain.state_dict())
    close(losses(one, lm_config(future=future)), losses(plain, lm_config()))


def test_tokens_ahead_are_those_of_the_same_text() -> None:
    documents = torch.tensor([[0, 0, 0, 1, 1, -1], [4, 4, 4, 4, 4, 4]])
    targets = torch.tensor([[5, 6, 2, 7, 2, 0], [5, 6, 7, 8, 9, 2]])
    assert further(targets, 1, documents).tolist() == [[6, 2, 0, 2, 0, 0], [6, 7, 8, 9, 2, 0]]
    assert further(targets, 2, documents).tolist() == [[2, 0, 0, 0, 0, 0], [7, 8, 9, 2, 0, 0]]
    assert further(targets, 0, documents).tolist() == targets.tolist()
    assert further(targets, 9, None).tolist() == [[0] * 6] * 2


def test_modules_that_count_nothing_leave_the_loss_of_the_next_token_and_others_add_to_it() -> None:
    """DeepSeek-V3, equation 25: the mean over D modules, times lambda; with lambda 0, or none, nothing."""
    plain = lm()
    for weight, same in ((0.0, True), (0.3, False)):
        told = SequentialModulesConfig(num=2, weight=weight)
        more = lm(future=told)
        more.load_state_dict(plain.state_dict(), strict=False)
        found = losses(more, lm_config().model_copy(update={"future": told}))
        assert torch.allclose(found, losses(plain, lm_config()), rtol=0, atol=1e-12) is same


def test_sequential_modules_are_the_equations_of_deepseek() -> None:
    """Equations 21 to 23: h_k = TRM_k(M_k [norm(h_{k-1}); norm(Emb(t_{i+k}))]), for all i that have a token k ahead."""
    model = lm(future=SequentialModulesConfig(num=2))
    found, future = model.ahead(TOKENS), model.future
    embedded = model.embed(TOKENS, POSITIONS)
    h = found[0]
    for k in (1, 2):
        both = torch.cat([future.norms[k - 1](h[:, : T - k]), future.token_norms[k - 1](embedded[:, k:])], -1)
        x = torch.einsum("btd,ed->bte", both, future.joins[k - 1].weight)
        h = future.layers[k - 1](x, mask=Causal(), positions=POSITIONS[:, : T - k])
        close(found[k][:, : T - k], future.last_norms[k - 1](h))


def test_parallel_heads_read_what_the_last_layer_reads_each_with_a_layer_of_its_own() -> None:
    model = lm(future=ParallelHeadsConfig(num=3))
    below = model.stack.layers[0](model.embed(TOKENS, POSITIONS), mask=Causal(), positions=POSITIONS)
    found = model.ahead(TOKENS)
    for layer, out in zip([model.stack.layers[1], *model.future.layers], found, strict=True):
        close(out, model.stack.norm(layer(below, mask=Causal(), positions=POSITIONS)))


def test_keys_and_values_may_come_from_different_texts() -> None:
    """(Transformer-XL's memories, Perceivers): an einsum of it."""
    part = mixer(AttentionConfig(num_heads=H))
    assert isinstance(part, Attention)
    x, c, other = some(B, 2, D), some(B, T, D), some(B, T, D).flip(1)
    out = part(x, context=c, values=other, mask=Full(), positions=POSITIONS[:, :2], context_positions=POSITIONS)
    q, k, v = (f(one).unflatten(-1, (H, -1)) for f, one in ((part.q, x), (part.k, c), (part.v, other)))
    weights = (torch.einsum("bthk,bshk->bhts", q, k) / (D / H) ** 0.5).softmax(-1)
    close(out, part.out(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2)))
