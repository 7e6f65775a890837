"""Positions, in the stream and inside attention, against the papers' values and against twins written here element by
element: plain Python, complex numbers, and (where it is installed) transformers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headway.nn.position import Layout, Learned, NoPosition, Sinusoid, sinusoid
from headway.nn.relation import TUPE, ALiBi, Buckets, Relation, Shaw, Toeplitz, TransformerXL, alibi_slopes
from headway.nn.rotary import DynamicScaling, LinearScaling, Llama3Scaling, Rotary, Scaling

B, T, S, H, K, J, D = 3, 5, 7, 4, 6, 2, 12
CPU = torch.device("cpu")


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


# ---- in the stream ----

# At position 1 of width 8.
LAYOUTS: dict[Layout, list[float]] = {
    "interleaved": [0.841471, 0.540302, 0.099833, 0.995004, 0.010000, 0.999950, 0.001000, 1.0],
    "halves": [0.841471, 0.099833, 0.010000, 0.001000, 0.540302, 0.995004, 0.999950, 1.0],
    "tensor2tensor": [0.841471, 0.046399, 0.002154, 0.000100, 0.540302, 0.998923, 0.999998, 1.0],
}
# Where the sines stand, where the cosines, and the divisor of i in base^(-i / divisor), for width 8.
PAIRS: dict[Layout, tuple[slice, slice, int]] = {
    "interleaved": (slice(0, None, 2), slice(1, None, 2), 4),
    "halves": (slice(0, 4), slice(4, None), 4),
    "tensor2tensor": (slice(0, 4), slice(4, None), 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_of_sinusoids_has_its_published_values(layout: Layout) -> None:
    table = sinusoid(2, 8, dtype=torch.float64, device=CPU, layout=layout)
    torch.testing.assert_close(table[1], torch.tensor(LAYOUTS[layout], dtype=torch.float64), rtol=0, atol=6e-7)
    x = draw(B, T, 8)
    added = Sinusoid(layout=layout)(x, torch.tensor([[0, 1, 0, 0, 0]] * B)) - x
    torch.testing.assert_close(added[:, 1], table[1].expand(B, -1))


def test_sinusoids_without_arguments_are_bit_for_bit_what_they_have_been() -> None:
    rates = 10000.0 ** (-torch.arange(0, 7, 2, dtype=torch.float64) / 7)
    angles = torch.arange(300, dtype=torch.float64)[:, None] * rates
    before = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :7].float()
    assert torch.equal(sinusoid(300, 7, dtype=torch.float32, device=CPU), before)
    x, positions = draw(2, 300, 7, dtype=torch.float32), torch.stack([torch.arange(300), torch.arange(300).flip(0)])
    assert torch.equal(Sinusoid()(x, positions), x + before[positions])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_a_shift_of_sinusoids_turns_each_frequency_by_the_same_angle_everywhere(layout: Layout, base: float) -> None:
    table = sinusoid(40, 8, dtype=torch.float64, device=CPU, base=base, layout=layout)
    sines, cosines, divisor = PAIRS[layout]
    turn = 5 * base ** (-torch.arange(4, dtype=torch.float64) / divisor)
    sin, cos = table[:35, sines], table[:35, cosines]
    torch.testing.assert_close(table[5:, sines], sin * turn.cos() + cos * turn.sin(), rtol=0, atol=1e-12)
    torch.testing.assert_close(table[5:, cosines], cos * turn.cos() - sin * turn.sin(), rtol=0, atol=1e-12)


def test_sinusoids_of_odd_widths_are_those_of_their_origins() -> None:
    def wave(kind: Callable[[float], float], p: int, exponent: float) -> float:
        return kind(p / 10000**exponent)

    for p, row in enumerate(sinusoid(9, 5, dtype=torch.float64, device=CPU, layout="halves")):
        marian = [wave(math.sin, p, 2 * i / 5) for i in range(3)] + [wave(math.cos, p, 2 * i / 5) for i in range(2)]
        assert row.tolist() == pytest.approx(marian, abs=1e-12)
    for p, row in enumerate(sinusoid(9, 5, dtype=torch.float64, device=CPU, layout="tensor2tensor")):
        padded = [wave(kind, p, i) for kind in (math.sin, math.cos) for i in range(2)] + [0.0]
        assert row.tolist() == pytest.approx(padded, abs=1e-12)
    assert sinusoid(3, 1, dtype=torch.float64, device=CPU, layout="tensor2tensor").tolist() == [[0.0]] * 3


def test_a_text_beyond_the_learned_positions_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"5 tokens, but position\.max_len = 4: shorten the text, or train with sin"):
        Learned(4, 6)(torch.zeros(1, 5, 6), torch.arange(5)[None])
    x = draw(B, T, D)
    assert torch.equal(NoPosition()(x, torch.full((B, T), 1_000_000)), x)


# ---- rotary ----


def turned(relation: Rotary, x: Tensor, positions: Tensor, lengths: list[int] | None = None) -> Tensor:
    told = positions.amax(1) + 1 if lengths is None else torch.tensor(lengths)
    return relation.turn(x, positions, told)


def test_both_layouts_of_rotary_have_their_published_values() -> None:
    x, at = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).view(1, 1, 1, 4), torch.tensor([[1]])
    for layout, expected in (
        ("pair", [-1.142640, 1.922076, 2.959851, 4.029800]),
        ("half", [-1.984111, 1.959901, 2.462378, 4.019800]),
    ):
        assert turned(Rotary(layout=layout), x, at).flatten().tolist() == pytest.approx(expected, abs=6e-7)


def test_the_two_layouts_of_rotary_are_one_but_for_the_order_of_coordinates() -> None:
    x, at = draw(B, H, T, K), torch.arange(2, 2 + T).expand(B, T)
    order = [0, 2, 4, 1, 3, 5]
    half = turned(Rotary(layout="half"), x[..., order], at)
    torch.testing.assert_close(half, turned(Rotary(layout="pair"), x, at)[..., order])


def test_rotary_multiplies_complex_numbers_by_a_phase() -> None:
    x, at = draw(B, H, T, K), torch.tensor([[0, 1, 2, 3, 4], [-1, -1, 0, 1, 2], [7, 8, 9, -1, -1]])
    rates = torch.tensor([1.0, 100 ** (-1 / 3), 100 ** (-2 / 3)], dtype=torch.float64)
    angle = at[:, None, :, None] * rates
    numbers = torch.view_as_complex(x.unflatten(-1, (3, 2))) * torch.polar(torch.ones_like(angle), angle)
    out = turned(Rotary(100.0, "pair"), x, at)
    torch.testing.assert_close(
        out[(at >= 0)[:, None].expand(B, H, T)],
        torch.view_as_real(numbers).flatten(-2)[(at >= 0)[:, None].expand(B, H, T)],
    )
    assert out.isfinite().all()


@pytest.mark.parametrize("layout", ["half", "pair"])
def test_products_of_turned_vectors_depend_on_the_distance_alone(layout: str) -> None:
    relation = Rotary(layout=layout)
    q, k = draw(1, 1, 1, K).expand(1, 1, T, K), draw(1, 1, 1, K, seed=1).expand(1, 1, T, K)
    start = torch.tensor([[0, 1, 17, 900, 123_456]])
    products = (turned(relation, q, start + 3) * turned(relation, k, start)).sum(-1).flatten()
    torch.testing.assert_close(products, products[:1].expand(T), rtol=0, atol=1e-9)
    assert abs(products[0] - (q * k).sum(-1).flatten()[0]) > 1e-3
    torch.testing.assert_close(turned(relation, q, start).norm(dim=-1), q.norm(dim=-1))


@pytest.mark.parametrize("layout", ["half", "pair"])
def test_partial_rotary_turns_the_first_coordinates_and_leaves_the_rest(layout: str) -> None:
    x, at = draw(B, H, T, 10), torch.arange(T).expand(B, T)
    out = turned(Rotary(layout=layout, share=0.4), x, at)
    assert torch.equal(out[..., 4:], x[..., 4:])
    torch.testing.assert_close(out[..., :4], turned(Rotary(layout=layout), x[..., :4], at))
    assert Rotary(share=0.29).width(200) == 58  # 0.29 * 200 is 57.999...


@pytest.mark.parametrize(("share", "width", "told"), [(1.0, 5, "5"), (0.5, 6, "3"), (0.1, 6, "0")])
def test_rotary_refuses_a_width_that_is_not_made_of_pairs(share: float, width: int, told: str) -> None:
    with pytest.raises(ValueError, match=rf"share = {share} of key_dim = {width} are {told}: choose a key_dim"):
        turned(Rotary(share=share), draw(B, H, T, width), torch.arange(T).expand(B, T))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rotary_tells_positions_apart_that_half_precision_does_not(dtype: torch.dtype) -> None:
    assert torch.tensor(256, dtype=torch.bfloat16) == torch.tensor(257, dtype=torch.bfloat16)
    assert torch.tensor(2048, dtype=torch.float16) == torch.tensor(2049, dtype=torch.float16)
    x = draw(1, 1, 1, K, dtype=dtype).expand(1, 1, 6, K)
    at = torch.tensor([[256, 257, 2048, 2049, 30_000, 30_001]])
    out = turned(Rotary(), x, at)
    assert out.dtype == dtype
    exact = turned(Rotary(), x.double(), at)
    torch.testing.assert_close(out.double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=1e-3)
    assert (out[0, 0, ::2] - out[0, 0, 1::2]).abs().amax(-1).min() > 0.1


def rates_of(scaling: Scaling | None, width: int, length: int, base: float = 10000.0) -> list[float]:
    """How far each pair turns from position 0 to 1, read off vectors (1, 0)."""
    x = torch.zeros(1, 1, 1, width, dtype=torch.float64)
    x[..., : width // 2] = 1
    out = turned(Rotary(base, scaling=scaling), x, torch.tensor([[1]]), [length]).flatten()
    return torch.atan2(out[width // 2 :], out[: width // 2]).tolist()


def test_linear_scaling_draws_positions_together() -> None:
    x, at = draw(B, H, T, K), torch.arange(T).expand(B, T)
    torch.testing.assert_close(turned(Rotary(scaling=LinearScaling(4.0)), x, 4 * at), turned(Rotary(), x, at))
    assert not Rotary(scaling=LinearScaling(4.0)).late


def test_dynamic_scaling_raises_the_base_of_the_texts_that_are_longer_than_trained_only() -> None:
    scaling = DynamicScaling(3.0, 10)
    relation = Rotary(scaling=scaling)
    assert relation.late
    x, at = draw(1, H, T, K).expand(B, H, T, K), torch.arange(T).expand(B, T)
    together = turned(relation, x, at, [10, 11, 40])
    assert torch.equal(together[0], turned(Rotary(), x, at)[0])
    for row, length in enumerate([10, 11, 40]):
        assert torch.equal(turned(relation, x[:1], at[:1], [length])[0], together[row]), (
            "neighbours, or what was before"
        )
        base = 10000.0 * (3 * length / 10 - 2) ** (K / (K - 2))
        torch.testing.assert_close(together[row], turned(Rotary(base), x[:1], at[:1])[0])
    assert rates_of(scaling, 2, 40) == pytest.approx([1.0])  # K / (K - 2) has no value here, and none is needed


def test_llama3_scaling_slows_what_turns_rarely_and_keeps_what_turns_often() -> None:
    trained, low, high, factor = 512, 1.0, 4.0, 8.0
    plain, scaled = rates_of(None, 16, 9), rates_of(Llama3Scaling(factor, low, high, trained), 16, 9)
    kinds = set()
    for before, after in zip(plain, scaled, strict=True):
        wavelength = 2 * math.pi / before
        if wavelength < trained / high:
            kinds.add("fast")
            expected = before
        elif wavelength > trained / low:
            kinds.add("slow")
            expected = before / factor
        else:
            kinds.add("between")
            mix = (trained / wavelength - low) / (high - low)
            expected = (1 - mix) * before / factor + mix * before
        assert after == pytest.approx(expected, rel=1e-9)
    assert kinds == {"fast", "slow", "between"}
    with pytest.raises(ValueError, match=r"scaling\.high = 1\.0, scaling\.low = 1\.0: high has to be above low"):
        Llama3Scaling(8.0, 1.0, 1.0, 8192)


@pytest.mark.parametrize(
    ("kind", "told", "ours", "length"),
    [
        ("linear", {"factor": 4.0}, LinearScaling(4.0), 9),
        ("dynamic", {"factor": 2.0}, DynamicScaling(2.0, 512), 9),
        ("dynamic", {"factor": 2.0}, DynamicScaling(2.0, 512), 1500),
        (
            "llama3",
            {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512},
            Llama3Scaling(8.0, 1.0, 4.0, 512),
            9,
        ),
    ],
)
def test_scaled_rates_are_those_of_transformers(kind: str, told: dict, ours: Scaling, length: int) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra `peers` is not installed")
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    config = transformers.LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=512,
        rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **told},
    )
    theirs, factor = rope.ROPE_INIT_FUNCTIONS[kind](config, CPU, length)
    assert factor == 1.0
    torch.testing.assert_close(torch.tensor(rates_of(ours, 16, length)), theirs.cpu(), rtol=1e-5, atol=0)


# ---- biases ----

SLOPES = {
    8: [2.0**-i for i in range(1, 9)],
    12: [2.0**-i for i in range(1, 9)] + [0.70710678, 0.35355339, 0.17677670, 0.08838835],
    6: [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125],
    4: [0.25, 0.0625, 0.015625, 0.00390625],
    3: [0.0625, 0.00390625, 0.25],
    1: [0.00390625],
}


@pytest.mark.parametrize("num_heads", SLOPES)
def test_alibi_has_the_slopes_of_the_papers_code(num_heads: int) -> None:
    assert alibi_slopes(num_heads) == pytest.approx(SLOPES[num_heads], abs=5e-9)


# The first distance of each bucket of 32, up to 128.
BOTH_WAYS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
BACK_ONLY = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def bucket_of(distance: int, bidirectional: bool) -> int:
    """T5's bucket of 32 of j - i, from the table of their first distances."""
    if not bidirectional:
        return sum(first <= max(-distance, 0) for first in BACK_ONLY) - 1
    return sum(first <= abs(distance) for first in BOTH_WAYS) - 1 + (16 if distance > 0 else 0)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_begin_at_the_published_distances(bidirectional: bool) -> None:
    relation = Buckets(H, 32, 128, bidirectional)
    far = torch.arange(-400, 401)
    assert relation.bucket(far).tolist() == [bucket_of(d, bidirectional) for d in range(-400, 401)]
    some = relation.bucket(torch.tensor([-32, -64, 1, 8, 12, 128]))
    # 32 and 64 lie right on a border: logarithms in float32 might say 11 and 13.
    assert some.tolist() == ([12, 14, 17, 24, 25, 31] if bidirectional else [21, 26, 0, 0, 0, 0])


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num", "reach"), [(32, 128), (4, 9), (8, 5), (10, 64), (48, 1000)])
def test_other_numbers_of_buckets_follow_the_formula(num: int, reach: int, bidirectional: bool) -> None:
    relation, side = Buckets(H, num, reach, bidirectional), num // 2 if bidirectional else num
    exact = side // 2
    for n in range(2 * reach):
        # The logarithm falls short of a whole number by some 1e-16 where it should meet it.
        log = math.log(n / exact) / math.log(reach / exact) * (side - exact) if n >= exact else 0.0
        expected = n if n < exact else min(exact + math.floor(log + 1e-9), side - 1)
        assert relation.bucket(torch.tensor([-n])).item() == expected


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_transformers(bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="the extra `peers` is not installed")
    far = torch.arange(-400, 401)
    theirs = t5.T5Attention._relative_position_bucket(
        far, bidirectional=bidirectional, num_buckets=32, max_distance=128
    )
    assert torch.equal(Buckets(H, 32, 128, bidirectional).bucket(far), theirs)


@pytest.mark.parametrize(
    ("num", "reach", "bidirectional", "told"),
    [
        (5, 128, True, "position.num_buckets = 5: half are for what lies ahead, so take an even number"),
        (2, 128, True, "a side needs 2 buckets or more"),
        (32, 16, False, "num_buckets = 32, position.max_distance = 16: .* above half of them"),
    ],
)
def test_buckets_that_do_not_work_out_are_refused(num: int, reach: int, bidirectional: bool, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Buckets(H, num, reach, bidirectional)


MAKE: dict[str, Callable[[], Relation]] = {
    "rotary": Rotary,
    "alibi": lambda: ALiBi(H),
    "shaw": lambda: Shaw(K, J, 3),
    "shaw without values": lambda: Shaw(K, None, 3),
    "toeplitz": lambda: Toeplitz(H, 17),
    "buckets": lambda: Buckets(H, 32, 128, True),
    "buckets back": lambda: Buckets(H, 32, 128, False),
    "xl": lambda: TransformerXL(D, H, K),
    "tupe": lambda: TUPE(D, H, 17, 32, 128, True),
}
BIASES = [name for name in MAKE if name != "rotary"]


def make(name: str) -> Relation:
    """In float64, with every weight drawn."""
    relation = MAKE[name]().double()
    generator = torch.Generator().manual_seed(7)
    for p in relation.parameters():
        torch.nn.init.normal_(p, generator=generator)
    return relation


def twin(name: str, r: Relation, q: Tensor, k: Tensor, h: int, i: int, j: int, scale: float) -> float:
    """The bias of one query (K,) at i and one key at j in head h, as its paper has it."""
    w = {key: value.detach() for key, value in r.state_dict().items()}
    if name == "alibi":
        return -SLOPES[H][h] * abs(i - j)
    if name.startswith("shaw"):
        return float(q @ w["key_table"][3 + max(-3, min(3, j - i))]) * scale
    if name == "toeplitz":
        return float(w["table"][j - i + 16, h])
    if name.startswith("buckets"):
        return float(w["table"][bucket_of(j - i, name == "buckets"), h])
    if name == "xl":
        angles = [(i - j) / 10000 ** (2 * n / D) for n in range(D // 2)]
        wave = torch.tensor([f(a) for f in (math.sin, math.cos) for a in angles], dtype=torch.float64)
        return float(w["u"][h] @ k + (q + w["v"][h]) @ (w["r.weight"][K * h : K * (h + 1)] @ wave)) * scale
    assert name == "tupe"
    p = w["table.weight"]
    p = (p - p.mean(1, keepdim=True)) / (p.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    p = p * w["norm.weight"] + w["norm.bias"]
    head = slice(D // H * h, D // H * (h + 1))
    correlation = (w["q.weight"][head] @ p[i]) @ (w["k.weight"][head] @ p[j]) / math.sqrt(2 * D / H)
    return float(correlation + w["buckets.table"][bucket_of(j - i, True), h])


# Rows of texts padded on either side, at places of their own, so that no two rows agree.
QUERIES = torch.tensor([[0, 1, 2, 3, 4], [-1, -1, 0, 1, 2], [9, 10, 11, -1, -1]])
KEYS = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [-1, -1, -1, 0, 1, 2, 3], [7, 8, 9, 10, 11, 12, -1]])
# Rows that agree but for their ends, and rows that are one and the same tensor.
ENDS = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1], [0, 1, 2, 3, -1]])


@pytest.mark.parametrize("name", BIASES)
def test_the_bias_is_its_papers_for_rows_at_places_of_their_own(name: str) -> None:
    relation, q, k = make(name), draw(B, H, T, K), draw(B, H, S, K, seed=1)
    bias = relation.bias(q, k, QUERIES, KEYS, 0.3)
    assert bias is not None
    assert bias.isfinite().all(), "slots without a token too"
    expected = bias.detach().clone()
    for b in range(B):
        for t, i in enumerate(QUERIES[b].tolist()):
            for s, j in enumerate(KEYS[b].tolist()):
                for h in range(H if i >= 0 and j >= 0 else 0):
                    expected[b, h, t, s] = twin(name, relation, q[b, h, t], k[b, h, s], h, i, j, 0.3)
    torch.testing.assert_close(bias.detach(), expected)


@pytest.mark.parametrize("name", ["alibi", "toeplitz", "buckets", "tupe"])
def test_rows_that_agree_on_their_positions_have_their_bias_computed_once(name: str) -> None:
    relation, x = make(name), draw(B, H, T, K)
    for positions in (ENDS, torch.arange(T).expand(B, T)):
        once = relation.bias(x, x, positions, positions, 1.0)
        assert once is not None
        assert once.shape == (1, H, T, T)
        for b in range(B):
            alone = relation.bias(x[b : b + 1], x[b : b + 1], positions[b : b + 1], positions[b : b + 1], 1.0)
            assert alone is not None
            see = (positions[b] >= 0).outer(positions[b] >= 0)
            torch.testing.assert_close(once[0, :, see], alone[0, :, see])
    apart = relation.bias(x, x, QUERIES, QUERIES, 1.0)
    assert apart is not None
    assert len(apart) == B


def test_tupe_scales_words_as_it_does_positions_and_the_others_as_usual() -> None:
    assert make("tupe").scale(K) == pytest.approx(1 / math.sqrt(2 * K))
    for name in [name for name in MAKE if name != "tupe"]:
        assert make(name).scale(K) == pytest.approx(1 / math.sqrt(K))
    assert [name for name in MAKE if make(name).reads_weights] == ["shaw"]


def test_alibi_and_buckets_are_toeplitz_with_their_numbers() -> None:
    x, positions = draw(B, H, T, K), torch.tensor([[0, 1, 2, 3, 40], [5, 6, 7, 8, 9], [-1, 41, 0, 1, 2]])
    free, buckets = Toeplitz(H, 42).double(), make("buckets")
    distance = torch.arange(-41, 42)
    for relation, table in (
        (ALiBi(H), -distance.abs()[:, None] * torch.tensor(SLOPES[H], dtype=torch.float64)),
        (buckets, buckets.state_dict()["table"][[bucket_of(d, True) for d in distance.tolist()]]),
    ):
        free.load_state_dict({"table": table})
        torch.testing.assert_close(
            relation.bias(x, x, positions, positions, 1.0), free.bias(x, x, positions, positions, 1.0)
        )


@pytest.mark.parametrize("name", ["toeplitz", "tupe"])
def test_a_text_beyond_a_table_is_refused_with_the_remedy(name: str) -> None:
    relation, q, k = make(name), draw(1, H, 1, K), draw(1, H, 2, K)
    for at, read in ((17, [0, 1]), (0, [3, 17])):
        with pytest.raises(ValueError, match=r"18 tokens, but position\.max_len = 17: shorten the text, or train with"):
            relation.bias(q, k, torch.tensor([[at]]), torch.tensor([read]), 1.0)
    assert relation.bias(q, k, torch.tensor([[16]]), torch.tensor([[-1, 0]]), 1.0) is not None


def test_tupe_refuses_heads_that_do_not_share_the_width_evenly() -> None:
    with pytest.raises(ValueError, match=r"dim = 10, num_heads = 4: tupe needs a dim that is a multiple of num_heads"):
        TUPE(10, H, 9, 32, 128, True)


def test_transformer_xl_is_xlnets_attention() -> None:
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet", reason="the extra `peers` is not installed")
    config = xlnet.XLNetConfig(vocab_size=9, d_model=H * K, n_layer=1, n_head=H, d_inner=8, dropout=0.0)
    theirs = xlnet.XLNetRelativeAttention(config).double().eval()
    ours = TransformerXL(H * K, H, K).double()
    generator = torch.Generator().manual_seed(3)
    for p in (theirs.r, theirs.r_w_bias, theirs.r_r_bias):
        torch.nn.init.normal_(p, generator=generator)
    told = {"r.weight": theirs.r.flatten(1).T, "u": theirs.r_w_bias, "v": theirs.r_r_bias}
    ours.load_state_dict({name: p.detach() for name, p in told.items()})
    q, k, v = draw(B, H, T, K), draw(B, H, T, K, seed=1), draw(B, H, T, K, seed=2)
    angles = torch.arange(T, -T, -1, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, H * K, 2) / (H * K))
    waves = torch.cat([angles.sin(), angles.cos()], 1)[:, None].expand(-1, B, -1)
    expected, _ = theirs.rel_attn_core(
        *(x.permute(2, 0, 1, 3) for x in (q, k, v)),
        torch.einsum("ibh,hnd->ibnd", waves, theirs.r),
        output_attentions=True,
    )
    out = attend(ours, q, k, v, torch.arange(T).expand(B, T), torch.arange(T).expand(B, T), causal=False)
    torch.testing.assert_close(out.permute(2, 0, 1, 3), expected)


# ---- in attention ----


def attend(r: Relation, q: Tensor, k: Tensor, v: Tensor, i: Tensor, j: Tensor, *, causal: bool = True) -> Tensor:
    """Attention by the book, with the four places where a relation enters."""
    lengths, scale = j.amax(1) + 1, r.scale(K)
    logits = torch.einsum("bhtk,bhsk->bhts", r.turn(q, i, lengths), r.turn(k, j, lengths)) * scale
    bias = r.bias(q, k, i, j, scale)
    see = (j >= 0)[:, None, None] & ((j[:, None] <= i[:, :, None])[:, None] if causal else True)
    logits = (logits if bias is None else logits + bias).masked_fill(~see, -1e30)
    weights = logits.softmax(-1).masked_fill(~see, 0.0)
    extra = r.value(weights, i, j)
    out = torch.einsum("bhts,bhsj->bhtj", weights, v)
    return out if extra is None else out + extra


def test_shaws_values_are_added_weight_by_weight() -> None:
    relation, weights = make("shaw"), draw(B, H, T, S).softmax(-1).masked_fill((KEYS < 0)[:, None, None], 0.0)
    got, table = relation.value(weights, QUERIES, KEYS), relation.state_dict()["value_table"]
    assert got is not None
    for b, t in (QUERIES >= 0).nonzero().tolist():
        a = torch.stack([table[3 + max(-3, min(3, j - int(QUERIES[b, t])))] for j in KEYS[b].tolist()])
        torch.testing.assert_close(got[b, :, t].detach(), weights[b, :, t] @ a)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", MAKE)
def test_a_text_is_read_alike_alone_and_padded_on_either_side(name: str, causal: bool) -> None:
    relation, lengths = make(name), [5, 3, 1]
    texts = [draw(3, 1, H, n, K, seed=n) for n in lengths]
    v = [draw(1, H, n, J, seed=9 + n) for n in lengths]
    alone = [
        attend(relation, *x[:2], y, *[torch.arange(n)[None]] * 2, causal=causal)
        for x, y, n in zip(texts, v, lengths, strict=True)
    ]
    for side in ("left", "right"):
        # Whatever lies in slots without a token is not read.
        q, k, values = torch.full((B, H, T, K), 1e3), torch.full((B, H, T, K), -1e3), torch.full((B, H, T, J), 1e3)
        q, k, values, at = q.double(), k.double(), values.double(), torch.full((B, T), -1)
        for b, n in enumerate(lengths):
            here = slice(T - n, None) if side == "left" else slice(0, n)
            q[b, :, here], k[b, :, here], values[b, :, here] = texts[b][0, 0], texts[b][1, 0], v[b][0]
            at[b, here] = torch.arange(n)
        out = attend(relation, q, k, values, at, at, causal=causal)
        assert out.isfinite().all()
        for b, n in enumerate(lengths):
            here = slice(T - n, None) if side == "left" else slice(0, n)
            torch.testing.assert_close(out[b, :, here], alone[b][0])


@pytest.mark.parametrize("name", [*MAKE, "dynamic"])
def test_a_query_at_a_time_among_empty_slots_reads_what_all_read_together(name: str) -> None:
    relation = Rotary(scaling=DynamicScaling(2.0, 3)) if name == "dynamic" else make(name)
    q, k, v = draw(B, H, S, K), draw(B, H, S, K, seed=1), draw(B, H, S, J, seed=2)
    slots, room = torch.arange(16), torch.full((B, H, 16 - S, 1), 1e3, dtype=torch.float64)
    k_slots, v_slots = torch.cat([k, room.expand(-1, -1, -1, K)], 2), torch.cat([v, room.expand(-1, -1, -1, J)], 2)
    for places in ([0, 3, 6], [4, 4, 1]):
        at = torch.tensor(places)[:, None]
        held = torch.where(slots <= at, slots, -1)
        step = attend(relation, q[range(B), :, places][:, :, None], k_slots, v_slots, at, held)
        for b, place in enumerate(places):
            upto = torch.arange(place + 1)[None]
            text = [x[b : b + 1, :, : place + 1] for x in (q, k, v)]
            torch.testing.assert_close(step[b, :, 0], attend(relation, *text, upto, upto)[0, :, -1])


@pytest.mark.parametrize("name", [name for name in BIASES if name != "alibi"])
def test_gradients_reach_every_parameter_and_no_distance_that_was_not_seen(name: str) -> None:
    relation, q, k, v = make(name), draw(B, H, T, K), draw(B, H, T, K, seed=1), draw(B, H, T, J, seed=2)
    for x in (q, k):
        x.requires_grad_()
    (attend(relation, q, k, v, ENDS, ENDS) * draw(B, H, T, J, seed=3)).sum().backward()
    grads = {key: p.grad for key, p in relation.named_parameters()}
    grads |= {"q": q.grad, "k": k.grad}
    for key, grad in grads.items():
        assert grad is not None, key
        assert grad.isfinite().all(), key
        assert grad.abs().sum() > 0, key
    back = range(-T + 1, 1)  # what a causal mask lets see of 5 tokens
    seen = {
        "toeplitz": ("table", 33, [16 + d for d in back]),
        "buckets": ("table", 32, [bucket_of(d, True) for d in back]),
        "buckets back": ("table", 32, [bucket_of(d, False) for d in back]),
        "shaw": ("value_table", 7, [0, 1, 2, 3]),
        "shaw without values": ("key_table", 7, [0, 1, 2, 3]),
        "tupe": ("table.weight", 17, list(range(T))),
    }
    if name in seen:
        key, size, rows = seen[name]
        grad = grads[key]
        assert grad is not None
        assert [n for n in range(size) if grad[n].abs().sum() > 0] == sorted(set(rows))


@pytest.mark.parametrize("name", MAKE)
def test_half_precision_stays_what_it_is_and_near_the_truth(name: str) -> None:
    exact, q, k = make(name), draw(B, H, T, K), draw(B, H, T, K, seed=1)
    positions = ENDS if name in ("toeplitz", "tupe") else ENDS + 300 * (ENDS >= 0)

    def answer(r: Relation, q: Tensor, k: Tensor) -> Tensor:
        bias = r.bias(q, k, positions, positions, 0.5)
        return (r.turn(q, positions, positions.amax(1) + 1) if bias is None else bias).detach()

    truth = answer(exact, q, k)
    q, k = q.bfloat16(), k.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = answer(make(name).float(), q, k)
    for got in (answer(make(name).bfloat16(), q, k), mixed):
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got.double(), truth.double(), rtol=0.05, atol=0.05 * float(truth.abs().max()))
