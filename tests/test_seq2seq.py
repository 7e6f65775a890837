"""The pair against twins that share no code with it: einsum equations, `torch.nn.Transformer`, published counts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import twins
from contract.tenants import make_pair, pair_configs, stack
from headway.architecture import (
    AttentionConfig,
    GRUConfig,
    LearnedConfig,
    LinearAttentionConfig,
    LMConfig,
    LSTMConfig,
    Seq2SeqConfig,
)
from headway.build import build
from headway.models.seq2seq import Seq2Seq, positions_of
from headway.nn.dropout import Dropout
from headway.nn.position import Learned, Sinusoid, sinusoid
from headway.nn.trace import Trace
from headway.recipe import parse_model

SOURCE, TARGET = [5, 7, 9, 4, 2], [1, 6, 8, 3]


def paper(residual: str, attention: AttentionConfig | None = None) -> Seq2SeqConfig:
    layers = stack(attention or AttentionConfig(num_heads=4), residual)
    return Seq2SeqConfig(dim=12, encoder=layers, decoder=layers)


def push(shape: torch.Size) -> Tensor:
    """What logits are multiplied with before they are summed, so that every one has its own gradient."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(("name", "count"), [("transformer-base", 63_082_496), ("transformer-big", 214_245_376)])
def test_the_papers_models_have_the_published_number_of_parameters(name: str, count: int) -> None:
    with torch.device("meta"):
        model = build(parse_model(name), 37_000)
    assert sum(p.numel() for p in model.parameters()) == count


def test_sinusoids_interleave_as_in_the_paper() -> None:
    table = sinusoid(2, 8, dtype=torch.float64, device=torch.device("cpu"))
    expected = [0.841471, 0.540302, 0.099833, 0.995004, 0.010000, 0.999950, 0.001000, 1.0]
    torch.testing.assert_close(table[1], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=6e-7)
    zero = torch.zeros(1, 2, 8, dtype=torch.float64)
    torch.testing.assert_close(Sinusoid()(zero, torch.tensor([[1, -1]]))[0, 0], table[1])


def test_a_shift_of_sinusoids_is_a_rotation_that_does_not_depend_on_the_place() -> None:
    table = sinusoid(40, 6, dtype=torch.float64, device=torch.device("cpu")).unflatten(1, (3, 2))
    rate = 10000.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
    sin, cos = (5 * rate).sin(), (5 * rate).cos()
    shifted = torch.stack([table[..., 0] * cos + table[..., 1] * sin, table[..., 1] * cos - table[..., 0] * sin], -1)
    torch.testing.assert_close(shifted[:35], table[5:], rtol=0, atol=1e-12)


def test_a_text_beyond_the_learned_positions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"5 tokens, but position.max_len = 4"):
        Learned(4, 6)(torch.zeros(1, 5, 6), torch.arange(5)[None])


WIDTHS = {"equal": AttentionConfig(num_heads=4), "odd": AttentionConfig(num_heads=3, key_dim=5, value_dim=2)}


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("residual", ["post", "pre"])
def test_forward_and_gradients_are_those_of_the_equations(residual: str, widths: str) -> None:
    attention = WIDTHS[widths]
    model = make_pair(paper(residual, attention))
    padded = torch.tensor([[0, 0, *SOURCE, 0], [3, 4, 5, 6, 7, 8, 9, 2]])
    logits = model(padded, torch.tensor([TARGET, [1, 2, 3, 4]]))[0]
    weights = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    aliases = {"target_embed.tokens.weight", "unembed.weight"}
    assert not aliases & weights.keys(), "the three are one tensor"
    heads = attention.num_heads
    expected = twins.transformer(weights, SOURCE, TARGET, num_layers=2, num_heads=heads, pre=residual == "pre")
    same_gradients(model, weights, logits, expected)


def same_gradients(model: Seq2Seq, weights: dict[str, Tensor], logits: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
    (logits * push(expected.shape)).sum().backward()
    (expected * push(expected.shape)).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=0, atol=1e-10, msg=lambda m, n=name: n + m)


def test_rnnsearch_is_that_of_the_equations() -> None:
    model = make_pair(pair_configs()["rnnsearch"])
    padded = torch.tensor([[0, 0, 0, *SOURCE], [3, 4, 5, 6, 7, 8, 9, 2]])
    logits = model(padded, torch.tensor([TARGET, [1, 2, 3, 4]]))[0]
    weights = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    aliases = {"unembed.weight": weights["target_embed.tokens.weight"]}
    expected = twins.rnnsearch(aliases | weights, SOURCE, TARGET, num_layers=2)
    same_gradients(model, weights, logits, expected)


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.data = torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]).clone()
    theirs.in_proj_bias.data = torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]).clone()
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def as_torch(model: Seq2Seq, *, pre: bool) -> nn.Transformer:
    """The same weights in `torch.nn.Transformer`."""
    twin = nn.Transformer(12, 4, 2, 2, 18, 0.0, batch_first=True, norm_first=pre).double().eval()
    for ours, theirs in zip(model.encoder.layers, twin.encoder.layers, strict=True):
        copy_attention(ours.mixer, theirs.self_attn)
        pairs = [(ours.join_mixer.norm, theirs.norm1), (ours.join_ffn.norm, theirs.norm2)]
        for a, b in [*pairs, (ours.ffn.up, theirs.linear1), (ours.ffn.down, theirs.linear2)]:
            b.load_state_dict(a.state_dict())
    for ours, theirs in zip(model.decoder.layers, twin.decoder.layers, strict=True):
        copy_attention(ours.mixer, theirs.self_attn)
        copy_attention(ours.cross, theirs.multihead_attn)
        pairs = [(ours.join_mixer.norm, theirs.norm1), (ours.join_cross.norm, theirs.norm2)]
        pairs += [(ours.join_ffn.norm, theirs.norm3), (ours.ffn.up, theirs.linear1), (ours.ffn.down, theirs.linear2)]
        for a, b in pairs:
            b.load_state_dict(a.state_dict())
    for ours, theirs in [(model.encoder, twin.encoder), (model.decoder, twin.decoder)]:
        if pre:
            theirs.norm.load_state_dict(ours.norm.state_dict())
        else:
            theirs.norm = None  # torch always adds one; the paper has none
    return twin


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("residual", ["post", "pre"])
def test_forward_and_gradients_are_those_of_torch_with_the_same_weights(residual: str) -> None:
    model = make_pair(paper(residual))
    twin = as_torch(model, pre=residual == "pre")
    source, target = torch.tensor([[*SOURCE, 0, 0], [3, 4, 5, 6, 7, 8, 2]]), torch.tensor([TARGET, [1, 2, 3, 4]])
    x = model.source_embed(source, positions_of(source))
    y = model.target_embed(target, positions_of(target))
    hidden = twin(
        x,
        y,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64),
        src_key_padding_mask=source == 0,
        memory_key_padding_mask=source == 0,
    )
    expected, logits = hidden @ model.unembed.weight.T, model(source, target)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
    table = model.source_embed.tokens.weight  # what all gradients flow into
    [theirs] = torch.autograd.grad((expected * push(expected.shape)).sum(), table, retain_graph=True)
    first = twin.encoder.layers[0].linear1.weight
    [theirs_first] = torch.autograd.grad((expected * push(expected.shape)).sum(), first)
    (logits * push(expected.shape)).sum().backward()
    torch.testing.assert_close(table.grad, theirs, rtol=0, atol=1e-10)
    torch.testing.assert_close(model.encoder.layers[0].ffn.up.weight.grad, theirs_first, rtol=0, atol=1e-10)


def test_layers_differ_at_the_start() -> None:
    """nn.TransformerEncoder copies one layer (pytorch#86274)."""
    model = build(paper("post"), 29)
    first, second = (layer.ffn.up.weight for layer in model.encoder.layers)
    assert not torch.equal(first, second)


def test_embeddings_start_at_unit_variance_times_scale() -> None:
    torch.manual_seed(1)
    layers = stack(AttentionConfig(num_heads=4))
    model = build(Seq2SeqConfig(dim=64, encoder=layers, decoder=layers), 5_000)
    assert model.unembed.weight is model.source_embed.tokens.weight
    scaled = model.source_embed.tokens.weight * 64**0.5
    assert abs(scaled.std().item() - 1) < 0.01  # 320,000 draws: 8 standard errors


def test_dropout_is_on_in_training_and_off_in_evaluation() -> None:
    model = make_pair(paper("post"))
    source, target = torch.tensor([SOURCE]), torch.tensor([TARGET])
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


def test_dropout_falls_on_every_sublayers_output_and_on_embedding_plus_position_and_nowhere_else() -> None:
    """Section 5.4: with all that is dropped gone, a post-norm layer is LN(x + 0) at each sublayer."""
    model, seen = make_pair(paper("post")).train(), []

    def gone(name: str):
        def hook(module: Dropout, inputs: tuple[Tensor], output: Tensor) -> Tensor:
            seen.append((name, module.p, tuple(output.shape)))
            return torch.zeros_like(output) if "join" in name else inputs[0]

        return hook

    for name, part in model.named_modules():
        if isinstance(part, Dropout):
            part.register_forward_hook(gone(name))
    source, target = torch.tensor([SOURCE]), torch.tensor([TARGET])
    logits = model(source, target)
    assert len(seen) == 2 + 2 * 2 + 2 * 3, (
        "embeddings, two encoder layers of two sublayers, two decoder layers of three"
    )
    assert {p for name, p, _ in seen} == {0.1}
    assert {shape for _, _, shape in seen} == {(1, 5, 12), (1, 4, 12)}
    y = model.target_embed(target, positions_of(target))
    for layer in model.decoder.layers:
        for join in (layer.join_mixer, layer.join_cross, layer.join_ffn):
            y = join.norm(y)
    torch.testing.assert_close(logits, y @ model.unembed.weight.T, rtol=0, atol=1e-12)
    assert all(layer.mixer.dropout == 0 for layer in model.encoder.layers), "none on the attention weights"


def test_learned_positions_are_added_to_the_scaled_embedding() -> None:
    layers = stack(AttentionConfig(num_heads=4))
    config = Seq2SeqConfig(dim=12, encoder=layers, decoder=layers, position=LearnedConfig(max_len=9))
    embed = make_pair(config).source_embed
    found = embed(torch.tensor([[0, 0, 7, 4]]), torch.tensor([[-1, -1, 0, 1]]))
    expected = embed.tokens.weight[[7, 4]] * 12**0.5 + embed.position.table.weight[:2]
    torch.testing.assert_close(found[0, 2:], expected, rtol=0, atol=1e-12)


def test_a_trace_holds_the_weights_of_every_attention() -> None:
    model, trace = make_pair(paper("post")), Trace()
    plain = model(torch.tensor([SOURCE]), torch.tensor([TARGET]))
    traced = model(torch.tensor([SOURCE]), torch.tensor([TARGET]), trace)
    torch.testing.assert_close(plain, traced, rtol=0, atol=1e-12)
    weights = trace["decoder.layers.1.cross.weights"][0]
    assert weights.shape == (1, 4, 4, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 4, dtype=torch.float64))
    own = trace["decoder.layers.0.mixer.weights"][0]
    assert own.triu(1).abs().max() == 0


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            Seq2SeqConfig(
                dim=12, encoder=stack(AttentionConfig(num_heads=4)), decoder=stack(LSTMConfig(bidirectional=True))
            ),
            "does not serve the mask Causal",
        ),
        (LMConfig(dim=12, prefix=True, stack=stack(LinearAttentionConfig(num_heads=4))), "not serve the mask Prefix"),
        (LMConfig(dim=12, stack=stack(GRUConfig(bidirectional=True))), "does not serve the mask Causal"),
    ],
)
def test_build_refuses_what_a_mixer_does_not_serve_and_says_why(config, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        build(config, 29)


def test_learned_positions_have_a_vector_each() -> None:
    layers = stack(AttentionConfig(num_heads=4))
    tied = Seq2SeqConfig(dim=12, encoder=layers, decoder=layers)
    learned = tied.model_copy(update={"position": LearnedConfig(max_len=50)})
    sizes = [sum(p.numel() for p in build(c, 29).parameters()) for c in (tied, learned)]
    assert sizes[1] - sizes[0] == 50 * 12
