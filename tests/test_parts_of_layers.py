"""Norms, feed-forwards, experts, residual rules, layers and initial weights against their equations, written here
without the parts, and against transformers where it is installed."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.attention import Attention
from headway.nn.block import Block, Layer, ParallelBlock
from headway.nn.experts import Experts
from headway.nn.ffn import ACTIVATIONS, FFN, GATES, FeedForward, GatedFFN
from headway.nn.init import Drawn, initialise, scale_for_deepnorm
from headway.nn.invariant import apply_batch_invariance
from headway.nn.mask import Causal
from headway.nn.norm import LayerNorm, RMSNorm, ScaleNorm, unit_rows
from headway.nn.residual import DeepNorm, Post, Pre, Sandwich, deepnorm_alpha_beta
from headway.nn.trace import Trace

B, T, S, D, F_DIM = 3, 5, 7, 8, 11


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def some(*size: int, dtype: torch.dtype = torch.float64, seed: int = 3) -> Tensor:
    return torch.randn(*size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def shaken(module: nn.Module, dtype: torch.dtype = torch.float64) -> nn.Module:
    """No weight is left at a round value, where mistakes hide."""
    module = module.to(dtype).eval()
    for i, parameter in enumerate(module.parameters()):
        parameter.data.add_(0.3 * some(*parameter.shape, dtype=dtype, seed=i))
    return module


def places(rows: int = B, length: int = T) -> Tensor:
    return torch.arange(length).expand(rows, -1)


# ---- norms ----


@pytest.mark.parametrize(("eps", "expected"), [(1e-12, 0.99995), (1e-6, 0.0995), (1e-5, 0.0316)])
def test_what_is_near_zero_shows_where_epsilon_stands(eps: float, expected: float) -> None:
    """The mean of (1e-4, -1e-4) is 0, so that layer norm and RMS norm agree."""
    x = torch.tensor([1e-4, -1e-4])
    for norm in (LayerNorm(2, eps), RMSNorm(2, eps)):
        assert norm(x).tolist() == pytest.approx([expected, -expected], abs=5e-5)


@pytest.mark.parametrize("offset", [False, True])
def test_rms_norm_is_its_equation_number_by_number(offset: bool) -> None:
    norm = RMSNorm(D, 1e-3, offset=offset)
    assert torch.equal(norm.weight, torch.full((D,), 0.0 if offset else 1.0))
    norm = shaken(norm)
    x = some(B, T, D)
    w = [weight + offset for weight in norm.weight.tolist()]
    numbers = x[1, 2].tolist()
    root = math.sqrt(math.fsum(u * u for u in numbers) / D + 1e-3)
    assert norm(x)[1, 2].tolist() == pytest.approx([u / root * v for u, v in zip(numbers, w, strict=True)], rel=1e-13)


@pytest.mark.parametrize("norm", [RMSNorm(D, 1e-6), RMSNorm(D, 1e-6, offset=True), ScaleNorm(D, 1e-5)])
def test_half_types_are_normed_in_float32(norm: nn.Module) -> None:
    x = (300 * some(B, D, dtype=torch.float32)).half()  # squares go beyond float16
    exact = copy.deepcopy(norm).double()(x.double())
    found = norm.half()(x)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.double(), exact, rtol=2**-10, atol=0)


def test_scale_norm_gives_vectors_of_length_g_which_begins_at_the_root_of_the_width() -> None:
    norm = ScaleNorm(D, 1e-5)
    assert norm.g.item() == pytest.approx(math.sqrt(D))
    x = some(B, T, D, dtype=torch.float32)
    norm.g.data.fill_(1.7)
    out = norm(x)
    torch.testing.assert_close(out.norm(dim=-1), torch.full((B, T), 1.7))
    torch.testing.assert_close(F.cosine_similarity(out, x, dim=-1), torch.ones(B, T))
    small = torch.tensor([3e-6, 4e-6, *[0.0] * (D - 2)])
    torch.testing.assert_close(norm(small), 1.7 * small / 1e-5), "below eps it divides by eps"


def test_unit_rows_have_length_one_and_keep_their_direction() -> None:
    weight = some(S, D)
    weight[2] = 0
    found = unit_rows(weight, 1e-5)
    expected = [[u / max(math.hypot(*row), 1e-5) for u in row] for row in weight.tolist()]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)


# ---- feed-forwards ----


def scalar_gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


SCALAR = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": scalar_gelu_tanh,
    "gelu_sigmoid": lambda x: x * logistic(1.702 * x),
    "silu": lambda x: x * logistic(x),
}
SCALAR_GATES = {
    "glu": logistic,
    "reglu": SCALAR["relu"],
    "geglu": SCALAR["gelu"],
    "geglu_tanh": scalar_gelu_tanh,
    "swiglu": SCALAR["silu"],
    "bilinear": lambda x: x,
}


@pytest.mark.parametrize(
    ("name", "at_one", "at_minus_three"),
    [
        ("relu", 1.0, 0.0),
        ("gelu", 0.84134475, -0.00404969),
        ("gelu_tanh", 0.84119199, -0.00363739),
        ("gelu_sigmoid", 0.84579577, -0.01807131),
        ("silu", 0.73105858, -0.14227762),
    ],
)
def test_activations_have_their_published_values(name: str, at_one: float, at_minus_three: float) -> None:
    found = ACTIVATIONS[name](torch.tensor([1.0, -3.0], dtype=torch.float64))
    assert found.tolist() == pytest.approx([at_one, at_minus_three], abs=5e-9)


def test_every_activation_and_gate_is_tried_here() -> None:
    assert ACTIVATIONS.keys() == SCALAR.keys()
    assert GATES.keys() == SCALAR_GATES.keys()


def rows_times(x: list[float], linear: nn.Linear) -> list[float]:
    bias = [0.0] * linear.out_features if linear.bias is None else linear.bias.tolist()
    weight = linear.weight.tolist()
    return [math.fsum(w * u for w, u in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", SCALAR)
def test_a_feed_forward_is_its_equation(name: str, bias: bool) -> None:
    ffn = shaken(FFN(D, F_DIM, name, bias=bias))
    assert list(ffn.state_dict()) == [f"{p}.{w}" for p in ("up", "down") for w in ("weight", "bias")[: 1 + bias]]
    x = some(B, T, D)
    expected = rows_times([SCALAR[name](u) for u in rows_times(x[2, 1].tolist(), ffn.up)], ffn.down)
    assert ffn(x, positions=places())[2, 1].tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", SCALAR_GATES)
def test_a_gated_feed_forward_is_its_equation(kind: str, bias: bool) -> None:
    ffn = shaken(GatedFFN(D, F_DIM, kind, bias=bias))
    parts = ("gate", "up", "down")
    assert list(ffn.state_dict()) == [f"{p}.{w}" for p in parts for w in ("weight", "bias")[: 1 + bias]]
    x = some(B, T, D)
    gate, up = (rows_times(x[2, 1].tolist(), part) for part in (ffn.gate, ffn.up))
    expected = rows_times([SCALAR_GATES[kind](g) * u for g, u in zip(gate, up, strict=True)], ffn.down)
    assert ffn(x, positions=places())[2, 1].tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    "make", [lambda p: FFN(D, D, "relu", bias=False, dropout=p), lambda p: GatedFFN(D, D, "reglu", dropout=p)]
)
def test_dropout_falls_behind_the_activation_in_training_only(make) -> None:
    ffn, plain = make(0.25).double(), make(0.0).double()
    for part in (ffn, plain):
        for linear in part.children():
            if isinstance(linear, nn.Linear):
                linear.weight.data.copy_(torch.eye(D))
    x = some(B, T, D)
    whole = plain(x, positions=places())
    assert torch.equal(ffn.eval()(x, positions=places()), whole)
    torch.manual_seed(5)
    ratio = (ffn.train()(x, positions=places()) / whole)[whole != 0]
    assert {round(r, 6) for r in ratio.tolist()} == {0.0, round(4 / 3, 6)}


def test_an_unknown_feed_forward_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        FeedForward()(some(B, T, D), positions=places())


# ---- experts ----

NUM, TOP = 6, 2
ROUTERS = {
    "mixtral": {},
    "deepseek-v2": {"renormalise": False, "scale": 1.6, "num_groups": 3, "top_groups": 2},
    "deepseek-v3": {"score": "sigmoid", "scale": 2.5, "num_groups": 3, "top_groups": 2},
    "sigmoid": {"score": "sigmoid", "renormalise": False},
    "switch": {"top_k": 1, "renormalise": False},
    "three-of-six": {"top_k": 3},
}


def mixture(name: str = "mixtral", *, shared: bool = False, dim: int = D) -> Experts:
    options = {"top_k": TOP} | ROUTERS[name]
    feeds = [GatedFFN(dim, F_DIM, "swiglu") for _ in range(NUM)]
    experts = shaken(Experts(feeds, FFN(dim, 9, "gelu") if shared else None, dim, options.pop("top_k"), **options))
    if experts.correction is not None:
        experts.correction.copy_(0.4 * some(NUM, seed=9))
    return experts


def chosen_by_the_book(scores: list[float], biased: list[float], name: str, top_k: int) -> list[int]:
    """Group by group and expert by expert, the lower id where two are equal."""
    options = ROUTERS[name]
    size = NUM // options.get("num_groups", 1)
    groups = [range(start, start + size) for start in range(0, NUM, size)]

    def worth(group: range) -> float:
        ranked = sorted((biased[e] for e in group), reverse=True)
        return sum(ranked[:2]) if "score" in options else ranked[0]

    best = sorted(groups, key=lambda group: (-worth(group), group.start))[: options.get("top_groups", 1)]
    return sorted([e for group in best for e in group], key=lambda e: (-biased[e], e))[:top_k]


def experts_reference(experts: Experts, x: Tensor, name: str) -> tuple[Tensor, list[list[int]], Tensor]:
    """Token by token: what comes out, whom each token chose, and the scores (N, E)."""
    options, outs, choices, all_scores = {"top_k": TOP} | ROUTERS[name], [], [], []
    for token in x.flatten(0, 1):
        logits = torch.stack([(row * token).sum() for row in experts.router.weight])
        sigmoid = options.get("score") == "sigmoid"
        scores = 1 / (1 + (-logits).exp()) if sigmoid else logits.exp() / logits.exp().sum()
        biased = scores + experts.correction if sigmoid else scores
        chosen = chosen_by_the_book(scores.tolist(), biased.tolist(), name, options["top_k"])
        total = sum(scores[e] for e in chosen) if options.get("renormalise", True) else 1.0
        out = torch.zeros_like(token)
        for e in chosen:
            f = experts.experts[e]
            gate = f.gate.weight @ token
            said = f.down.weight @ (gate / (1 + (-gate).exp()) * (f.up.weight @ token))
            out = out + options.get("scale", 1.0) * scores[e] / total * said
        if experts.shared is not None:
            s = experts.shared
            hidden = s.up.weight @ token + s.up.bias
            out = out + s.down.weight @ (0.5 * hidden * (1 + (hidden / math.sqrt(2)).erf())) + s.down.bias
        outs.append(out), choices.append(chosen), all_scores.append(scores)
    return torch.stack(outs).view_as(x), choices, torch.stack(all_scores)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ROUTERS)
def test_experts_are_those_of_a_loop_over_tokens_gradients_included(name: str, shared: bool) -> None:
    experts = mixture(name, shared=shared)
    found = []
    for way in ("ours", "reference"):
        x = some(B, T, D).requires_grad_()
        out = experts(x, positions=places()) if way == "ours" else experts_reference(experts, x, name)[0]
        wanted = [x, *experts.parameters()]
        gradients = torch.autograd.grad((out * some(B, T, D, seed=4)).sum(), wanted, allow_unused=True)
        found.append([out, *gradients])
    for (ours, theirs), label in zip(
        zip(*found, strict=True), ["out", "x", *(name for name, _ in experts.named_parameters())], strict=True
    ):
        assert ours is not None, f"{label}: an expert that no token chose has a gradient of zero, not none"
        expected = torch.zeros_like(ours) if theirs is None else theirs
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12, msg=lambda told, at=label: f"{at}: {told}")


def test_experts_that_no_token_chose_have_a_gradient_of_zero() -> None:
    experts = mixture("switch")
    experts.router.weight.data.zero_()  # all equal: the lowest id
    experts(some(B, T, D), positions=places()).sum().backward()
    for i, expert in enumerate(experts.experts):
        for name, parameter in expert.named_parameters():
            assert parameter.grad is not None, f"{i}.{name}"
            assert bool(parameter.grad.any()) == (i == 0), f"{i}.{name}"


def test_of_equal_experts_and_groups_the_lower_ids_are_chosen() -> None:
    for name in ("three-of-six", "deepseek-v2", "deepseek-v3"):
        experts = mixture(name)
        experts.router.weight.data.zero_()
        if experts.correction is not None:
            experts.correction.zero_()
        x = some(B, T, D)
        chosen = range(experts.top_k)
        share = experts.scale / (experts.top_k if experts.renormalise else NUM)
        expected = sum(share * experts.experts[e](x, positions=places()) for e in chosen)
        torch.testing.assert_close(experts(x, positions=places()), expected, rtol=0, atol=1e-12)


def test_no_token_is_turned_away_however_many_want_one_expert() -> None:
    experts = mixture("switch")
    experts.router.weight.data.zero_()
    experts.router.weight.data[4] = 50.0
    x = some(B, T, D).abs()  # so that expert 4 has all of every token's share
    torch.testing.assert_close(
        experts(x, positions=places()), experts.experts[4](x, positions=places()), rtol=0, atol=1e-12
    )


def test_a_correction_moves_the_choice_and_not_the_shares() -> None:
    experts = mixture("sigmoid")
    x = some(B, T, D)
    experts.correction.copy_(torch.tensor([0.0, 0.0, 9.0, 0.0, 0.0, 8.0]))
    expected = sum(
        torch.sigmoid(x @ experts.router.weight[e])[..., None] * experts.experts[e](x, positions=places())
        for e in (2, 5)
    )
    torch.testing.assert_close(experts(x, positions=places()), expected, rtol=0, atol=1e-12)
    assert "correction" in experts.state_dict()
    assert "correction" not in dict(experts.named_parameters()), "no gradient moves it"
    assert "correction" not in mixture("mixtral").state_dict()


def test_a_group_that_is_out_stays_out_though_all_in_the_others_are_marked_down() -> None:
    """An expert that is out must not win with 0 over one with a correction below -1."""
    experts = mixture("deepseek-v3")
    experts.correction.copy_(torch.tensor([-5.0, -5.0, -4.0, -9.0, -3.0, -9.0]))
    x = some(B, T, D)  # the groups (2, 3) and (4, 5) are worth less than (0, 1), and (4, 5) more than (2, 3)
    expected = experts_reference(experts, x, "deepseek-v3")
    assert all(set(chosen) <= {0, 1, 4, 5} for chosen in expected[1])
    torch.testing.assert_close(experts(x, positions=places()), expected[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ROUTERS)
def test_padding_goes_to_no_expert_and_changes_nothing(name: str) -> None:
    experts = mixture(name, shared=True)
    x, positions = some(B, T, D), places().clone()
    alone = experts(x[1:2, 1:4], positions=places(1, 3))
    positions[1] = torch.tensor([-1, 0, 1, 2, -1])
    positions[2] = -1
    seen = [0] * NUM
    for i, expert in enumerate(experts.experts):
        expert.register_forward_hook(lambda _, inputs, out, i=i: seen.__setitem__(i, seen[i] + inputs[0].shape[1]))
    x[positions < 0] = 7.0
    out = experts(x, positions=positions)
    torch.testing.assert_close(out[1:2, 1:4], alone, rtol=0, atol=1e-12)
    assert sum(seen) == experts.top_k * int((positions >= 0).sum())
    with torch.no_grad():
        nothing = experts(x, positions=torch.full_like(positions, -1))
    torch.testing.assert_close(nothing, experts.shared(x, positions=positions), rtol=0, atol=0)


@pytest.mark.parametrize("name", ROUTERS)
def test_the_balance_is_counted_over_real_tokens_and_only_when_wanted(name: str) -> None:
    experts = mixture(name)
    x, positions = some(B, T, D), places().clone()
    positions[0, 3:], positions[2] = -1, -1
    real = (positions >= 0).flatten()
    _, choices, scores = experts_reference(experts, x, name)
    f, p = [0.0] * NUM, [0.0] * NUM
    for chosen, row, counts in zip(choices, scores.tolist(), real.tolist(), strict=True):
        for e in range(NUM):
            f[e] += counts * (e in chosen) / experts.top_k / int(real.sum())
            p[e] += counts * row[e] / sum(row) / int(real.sum())
    trace = Trace(only={"balance"})
    experts(x, positions=positions, trace=trace.at("ffn"))
    [found] = trace["ffn.balance"]
    assert found.item() == pytest.approx(NUM * sum(a * b for a, b in zip(f, p, strict=True)), rel=1e-12)
    [gradient] = torch.autograd.grad(found, experts.router.weight)
    assert gradient.any()
    silent = Trace(only={"weights"})
    experts(x, positions=positions, trace=silent)
    assert not silent.records


def test_the_balance_is_one_when_all_are_busy_and_as_many_as_there_are_when_one_is() -> None:
    experts = Experts([FFN(NUM, 3, "relu") for _ in range(NUM)], None, NUM, 1).double()
    experts.router.weight.data.copy_(60 * torch.eye(NUM))
    for x, expected in [(torch.eye(NUM), 1.0), (torch.eye(NUM)[[2] * NUM], NUM), (torch.eye(NUM)[:0], 0.0)]:
        trace = Trace()
        experts(x[None].double(), positions=torch.arange(len(x))[None], trace=trace)
        assert trace["balance"][0].item() == pytest.approx(expected, abs=1e-12)


def test_experts_refuse_numbers_that_do_not_fit_together() -> None:
    def make(**options: int) -> None:
        Experts([FFN(D, 3, "relu") for _ in range(NUM)], None, D, **options)

    with pytest.raises(ValueError, match=r"top_k = 7, but only 6 experts"):
        make(top_k=7)
    with pytest.raises(ValueError, match=r"top_k = 3, but only 2 experts are looked at"):
        make(top_k=3, num_groups=3, top_groups=1)
    with pytest.raises(ValueError, match=r"do not divide into num_groups = 4.*; top_groups = 5 of num_groups = 4"):
        make(top_k=1, num_groups=4, top_groups=5)


# ---- bits ----

WIDE = 48
TOKENWISE = {
    **{name: lambda name=name: FFN(WIDE, 72, name) for name in ACTIVATIONS},
    **{kind: lambda kind=kind: GatedFFN(WIDE, 72, kind) for kind in GATES},
    **{f"experts-{name}": lambda name=name: mixture(name, shared=True, dim=WIDE) for name in ROUTERS},
}


@pytest.mark.parametrize("name", TOKENWISE)
def test_a_tokens_bits_do_not_depend_on_its_neighbours(name: str) -> None:
    part = apply_batch_invariance(shaken(TOKENWISE[name](), torch.float32))
    x = some(7, 33, WIDE, dtype=torch.float32)
    with torch.inference_mode():
        whole = part(x, positions=places(7, 33))
        moved = part(x.flip(0, 1)[:, :20], positions=places(7, 20)).flip(0, 1)
        assert torch.equal(moved, whole[:, 13:])
        for row, t in [(0, 0), (3, 17), (6, 32)]:
            alone = part(x[row : row + 1, t : t + 1], positions=torch.tensor([[t]]))
            assert torch.equal(alone[0, 0], whole[row, t])


@pytest.mark.parametrize("norm", [LayerNorm(WIDE, 1e-5), RMSNorm(WIDE, 1e-6), ScaleNorm(WIDE, 1e-5)])
def test_a_normed_vectors_bits_do_not_depend_on_its_neighbours(norm: nn.Module) -> None:
    x = some(101, WIDE, dtype=torch.float32)
    whole = norm(x)
    assert all(torch.equal(norm(x[i : i + n]), whole[i : i + n]) for i, n in [(0, 1), (7, 1), (13, 6), (50, 51)])


def test_gradients_of_experts_have_the_same_bits_every_time() -> None:
    """Additions in an order that threads decide would not."""
    found, original = [], mixture("three-of-six", dim=WIDE).float()
    for _ in range(5):
        experts = copy.deepcopy(original)
        x = some(9, 50, WIDE, dtype=torch.float32).requires_grad_()
        experts(x, positions=places(9, 50)).square().sum().backward()
        found.append([x.grad, *(p.grad for p in experts.parameters())])
    assert all(torch.equal(a, b) for again in found[1:] for a, b in zip(found[0], again, strict=True))


# ---- residual rules ----


def normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def test_residual_rules_are_their_equations() -> None:
    n, m = (shaken(LayerNorm(D, 1e-5)) for _ in range(2))
    m.weight.data.mul_(1.3)
    x = some(B, T, D)
    expected = {
        Post(n, 0.1): normed(x + x.sin(), n),
        Pre(n, 0.1): x + normed(x, n).sin(),
        Sandwich(n, m, 0.1): x + normed(normed(x, n).sin(), m),
        DeepNorm(n, 0.1, 2.2): normed(2.2 * x + x.sin(), n),
    }
    for rule, out in expected.items():
        torch.testing.assert_close(rule.eval()(x, torch.sin), out, rtol=0, atol=1e-12)
        gone = rule.train()
        gone.dropout.register_forward_hook(lambda _, inputs, output: torch.zeros_like(output))
        kept = {Post: normed(x, n), DeepNorm: normed(2.2 * x, n)}.get(type(rule), x)
        torch.testing.assert_close(gone(x, torch.sin), kept, rtol=0, atol=1e-12)
    assert set(Sandwich(n, m, 0.1).state_dict()) == {
        f"{p}.{w}" for p in ("norm", "norm_out") for w in ("weight", "bias")
    }


@pytest.mark.parametrize("layers", [(18, 0), (0, 18)])
def test_deep_norm_of_one_stack_bounds_the_update_whatever_the_depth(layers: tuple[int, int]) -> None:
    """Wang et al. 2022, section 4.2: 2N sublayers, each of 2 beta^2 / alpha^2, sum to 1."""
    for alpha, beta in deepnorm_alpha_beta(*layers):
        assert alpha == pytest.approx(36**0.25)
        assert beta == pytest.approx(144**-0.25)
        assert 2 * 18 * 2 * beta**2 / alpha**2 == pytest.approx(1)


def test_deep_norm_of_a_pair_is_the_papers_table() -> None:
    (encoder_alpha, encoder_beta), (decoder_alpha, decoder_beta) = deepnorm_alpha_beta(6, 12)
    assert (encoder_alpha / 0.81) ** 16 == pytest.approx(6**4 * 12)
    assert (encoder_beta / 0.87) ** -16 == pytest.approx(6**4 * 12)
    assert (decoder_alpha**4, decoder_beta**-4) == (pytest.approx(36), pytest.approx(144))


# ---- layers ----


class Places(FeedForward):
    """Says where each token stands."""

    def forward(self, x: Tensor, *, positions: Tensor, trace: Trace | None = None) -> Tensor:
        if trace is not None:
            trace.record("place", positions)
        return positions[..., None] * torch.ones_like(x)


def attention() -> Attention:
    return Attention(D, 2, key_dim=3, value_dim=5)


def layers(*, cross: bool, ffn: FeedForward) -> dict[str, Layer]:
    def pre() -> Pre:
        return Pre(LayerNorm(D, 1e-5), 0.1)

    return {
        "block": Block(attention(), pre(), *((attention(), pre()) if cross else (None, None)), ffn, pre()),
        "parallel": ParallelBlock(attention(), LayerNorm(D, 1e-5), attention() if cross else None, ffn, 0.1),
    }


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("name", ["block", "parallel"])
def test_a_layer_decodes_what_it_computes_at_once(name: str, cross: bool) -> None:
    layer = shaken(layers(cross=cross, ffn=mixture("mixtral"))[name])
    x, context, seen = some(B, T, D), some(B, S, D, seed=8), places(B, S).clone()
    seen[1, 5:] = -1
    told = {"context": context, "context_positions": seen} if cross else {}
    whole = layer(x, mask=Causal(), positions=places(), **told)
    cache = layer.start(context, seen) if cross else layer.new_cache(B)
    assert (cache.cross is None) != cross
    steps = [
        layer(x[:, a:b], mask=Causal(), positions=places()[:, a:b], cache=cache) for a, b in [(0, 2), (2, 3), (3, 5)]
    ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)
    if not cross:
        started = layer.start(context, seen)
        assert started.cross is None
        again = layer(x, mask=Causal(), positions=places(), cache=started)
        torch.testing.assert_close(again, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["block", "parallel"])
def test_a_feed_forward_is_told_where_tokens_stand_and_traced_under_its_name(name: str) -> None:
    layer, trace = shaken(layers(cross=False, ffn=Places())[name]), Trace()
    positions = torch.tensor([[-1, 0, 1, 2, 3]]).expand(B, -1)
    x = some(B, T, D)
    out = layer(x, mask=Causal(), positions=positions, trace=trace)
    assert torch.equal(trace["ffn.place"][0], positions)
    assert "mixer.weights" in trace.records
    without = copy.deepcopy(layer)
    without.ffn = without.join_ffn = None
    rest = without(x, mask=Causal(), positions=positions)
    torch.testing.assert_close(out, rest + positions[..., None], rtol=0, atol=1e-12)


def test_a_parallel_layer_adds_what_its_sublayers_make_of_one_norm() -> None:
    layer = shaken(layers(cross=True, ffn=FFN(D, F_DIM, "relu"))["parallel"])
    assert {name.split(".")[0] for name in layer.state_dict()} == {"mixer", "norm", "cross", "ffn"}
    x, context, seen = some(B, T, D), some(B, S, D, seed=8), places(B, S)
    n = normed(x, layer.norm)

    def look(part: Attention, q: Tensor, c: Tensor, causal: bool) -> Tensor:
        q, k, v = (
            F.linear(u, p.weight, p.bias).unflatten(-1, (2, -1)) for u, p in [(q, part.q), (c, part.k), (c, part.v)]
        )
        logits = torch.einsum("bthk,bshk->bhts", q, k) / 3**0.5
        if causal:
            logits = logits.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        mixed = torch.einsum("bhts,bshj->bthj", logits.softmax(-1), v).flatten(2)
        return F.linear(mixed, part.out.weight, part.out.bias)

    hidden = F.linear(n, layer.ffn.up.weight, layer.ffn.up.bias).clamp(min=0)
    added = [
        look(layer.mixer, n, n, True),
        look(layer.cross, n, context, False),
        F.linear(hidden, layer.ffn.down.weight, layer.ffn.down.bias),
    ]
    told = {"mask": Causal(), "positions": places(), "context": context, "context_positions": seen}
    torch.testing.assert_close(layer(x, **told), x + sum(added), rtol=0, atol=1e-12)
    dropped: list[Tensor] = []
    layer.train().dropout.register_forward_hook(lambda _, inputs, output: dropped.append(inputs[0]) or inputs[0] * 0)
    assert torch.equal(layer(x, **told), x), "dropout falls on all that is added"
    for ours, theirs in zip(dropped, added, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_layer_that_does_not_say_how_its_parts_are_joined_is_abstract() -> None:
    layer = Layer()
    layer.mixer, layer.cross, layer.ffn = nn.Identity(), None, None
    with pytest.raises(TypeError, match="abstract"):
        layer(some(B, T, D), mask=Causal(), positions=places())


# ---- initial weights ----


class Sevens(Drawn):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.table = nn.Linear(2, 3), nn.Parameter(torch.zeros(4))

    def reset(self) -> None:
        nn.init.constant_(self.inner.weight, 7.0)
        nn.init.normal_(self.table)


def test_matrices_are_drawn_first_then_embeddings_then_what_draws_itself() -> None:
    model = nn.ModuleList([nn.Embedding(5, D), FFN(D, F_DIM, "relu"), Sevens(), LayerNorm(D, 1e-5), nn.Linear(D, 3)])
    torch.manual_seed(6)
    initialise(model)
    torch.manual_seed(6)
    for linear in (model[1].up, model[1].down, model[2].inner, model[4]):
        bound = math.sqrt(6 / (linear.in_features + linear.out_features))
        drawn = torch.empty_like(linear.weight).uniform_(-bound, bound)
        if linear is not model[2].inner:
            assert torch.equal(linear.weight, drawn)
        assert not linear.bias.any()
    assert torch.equal(model[0].weight, torch.empty(5, D).normal_(std=D**-0.5))
    assert model[2].inner.weight.unique().item() == 7, "a part that draws itself has the last word"
    assert torch.equal(model[2].table, torch.empty(4).normal_())
    assert model[3].weight.unique().item() == 1
    with pytest.raises(TypeError, match="abstract"):
        Drawn().reset()


def test_deep_norm_scales_values_outputs_and_feed_forwards_alone() -> None:
    for layer in layers(cross=True, ffn=mixture("mixtral", shared=True)).values():
        before = copy.deepcopy(layer.state_dict())
        scale_for_deepnorm(layer, 0.25)
        moved = set()
        for name, value in layer.state_dict().items():
            if not torch.equal(value, before[name]):
                assert torch.equal(value, 0.25 * before[name])
                moved.add(name)
        scaled = {f"{part}.{p}.weight" for part in ("mixer", "cross") for p in ("v", "out")}
        scaled |= {f"ffn.experts.{e}.{p}.weight" for e in range(NUM) for p in ("gate", "up", "down")}
        assert moved == scaled | {f"ffn.shared.{p}.weight" for p in ("up", "down")}


# ---- transformers ----


def test_rms_norms_are_those_of_llama_and_gemma() -> None:
    pytest.importorskip("transformers", reason="the twin is not installed: pip install -e .[peers]")
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    for ours, theirs in [
        (RMSNorm(D, 1e-6), LlamaRMSNorm(D, 1e-6)),
        (RMSNorm(D, 1e-6, offset=True), GemmaRMSNorm(D, 1e-6)),
    ]:
        theirs.load_state_dict(shaken(ours, torch.float32).state_dict())
        for size in (1e-4, 1.0, 300.0):
            x = size * some(B, T, D, dtype=torch.float32)
            torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-7)


def as_theirs(experts: Experts, *, shared: bool) -> dict[str, Tensor]:
    """Our weights by the names of transformers 5: all experts' matrices in one tensor, gates above ups."""
    feeds = list(experts.experts)
    theirs = {
        "gate.weight": experts.router.weight,
        "experts.gate_up_proj": torch.stack([torch.cat([f.gate.weight, f.up.weight]) for f in feeds]),
        "experts.down_proj": torch.stack([f.down.weight for f in feeds]),
    }
    if experts.correction is not None:
        theirs["gate.e_score_correction_bias"] = experts.correction
    if shared:
        theirs |= {
            f"shared_experts.{p}_proj.weight": experts.shared.get_parameter(f"{p}.weight")
            for p in ("gate", "up", "down")
        }
    return theirs


@pytest.mark.parametrize("name", ["mixtral", "deepseek-v2", "deepseek-v3"])
def test_experts_are_those_of_mixtral_and_deepseek(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="the twin is not installed: pip install -e .[peers]")
    sizes = {"hidden_size": D, "num_experts_per_tok": TOP, "hidden_act": "silu", "num_attention_heads": 2}
    groups = {
        "n_routed_experts": NUM,
        "n_group": 3,
        "topk_group": 2,
        "n_shared_experts": 1,
        "moe_intermediate_size": F_DIM,
    }
    if name == "mixtral":
        from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock as Theirs

        config = transformers.MixtralConfig(**sizes, intermediate_size=F_DIM, num_local_experts=NUM)
    elif name == "deepseek-v2":
        from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe as Theirs

        config = transformers.DeepseekV2Config(
            **sizes, **groups, topk_method="group_limited_greedy", routed_scaling_factor=1.6, norm_topk_prob=False
        )
    else:
        from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE as Theirs

        config = transformers.DeepseekV3Config(**sizes, **groups, routed_scaling_factor=2.5, norm_topk_prob=True)
    config._experts_implementation = "eager"
    ours = mixture(name).float()
    if name != "mixtral":
        ours.shared = shaken(GatedFFN(D, F_DIM, "swiglu"), torch.float32)
    if ours.correction is not None:
        ours.correction.abs_()  # transformers lets an expert of a group that is out win with 0
    theirs = Theirs(config).eval()
    theirs.load_state_dict(as_theirs(ours, shared=name != "mixtral"))
    x = some(B, 41, D, dtype=torch.float32)
    expected = theirs(x)
    torch.testing.assert_close(ours(x, positions=places(B, 41)), expected, rtol=1e-5, atol=1e-6)
