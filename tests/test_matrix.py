"""Every part with every other: position x norm x feed-forward x heads x residual x shape, each cell against the twin of
`matrix_twin`, in float64: logits, and the gradient of every weight; padded and in a batch as alone; step by step as
all at once. A covering array of all pairs in `make test`, the product of all but the residuals, which take turns, in
`make test-slow`, of one layer.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.architecture import (
    PRE_NORM,
    ALiBiConfig,
    AttentionConfig,
    BucketsConfig,
    EncoderConfig,
    ExpertsConfig,
    GatedFFNConfig,
    LatentConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LMConfig,
    NoPositionConfig,
    PlainFFNConfig,
    RMSNormConfig,
    RotaryConfig,
    ScaleNormConfig,
    Seq2SeqConfig,
    ShawConfig,
    SinusoidConfig,
    StackConfig,
    ToeplitzConfig,
    TUPEConfig,
    WordsConfig,
    XLConfig,
)
from headway.build import build
from headway.check import check
from matrix_twin import EPS, GATED, PLAIN, Cell, logits

VOCAB, DIM, LAYERS = 29, 16, 2
TEXTS = [[5, 6, 7, 8, 9, 10, 11], [12, 5, 13], [9, 14, 15, 6, 16]]
SOURCES = [[17, 18, 5, 19], [20, 6, 21, 22, 23, 24], [25, 17]]
PREFIXES = [3, 1, 5]

RELATIONS: dict[str, Any] = {
    "rotary-half": RotaryConfig(),
    "rotary-pair": RotaryConfig(layout="pair"),
    "alibi": ALiBiConfig(),
    "shaw": ShawConfig(reach=3),
    "buckets": BucketsConfig(num_buckets=8, max_distance=20),
    "toeplitz": ToeplitzConfig(max_len=24),
    "xl": XLConfig(),
    "tupe": TUPEConfig(max_len=24, num_buckets=8, max_distance=20),
}
POSITIONS: dict[str, Any] = {
    "none": NoPositionConfig(),
    "sinusoid": SinusoidConfig(),
    "sinusoid-halves": SinusoidConfig(layout="halves"),
    "learned": LearnedConfig(max_len=24),
}
NORMS: dict[str, Any] = {
    "layernorm": LayerNormConfig(eps=EPS["layernorm"]),
    "rmsnorm": RMSNormConfig(eps=EPS["rmsnorm"]),
    "scalenorm": ScaleNormConfig(eps=EPS["scalenorm"]),
}
HEADS: dict[str, dict[str, Any]] = {
    "mha": {"num_heads": 4},
    "gqa": {"num_heads": 4, "num_kv_heads": 2},
    "mqa": {"num_heads": 4, "num_kv_heads": 1},
    "single": {"num_heads": 1},
    "uneven": {"num_heads": 4, "key_dim": (3, 4, 5, 2), "value_dim": (2, 5, 4, 1)},
    "narrow": {"num_heads": 4, "key_dim": 6, "value_dim": 3, "bias": False},
    "normed": {"num_heads": 4, "qk_norm": RMSNormConfig(eps=EPS["rmsnorm"])},
    "capped": {"num_heads": 4, "logit_cap": 2.0},
    "latent": {},
}
AXES: dict[str, list[str]] = {
    "topology": ["encoder", "lm", "prefix", "pair"],
    "position": [*POSITIONS, *RELATIONS],
    "norm": [*NORMS],
    "ffn": [*PLAIN, *GATED, "experts"],
    "heads": [*HEADS],
    "residual": ["post", "pre", "sandwich", "parallel", "deepnorm"],
}
UNEVEN = {"rotary-half", "rotary-pair", "shaw", "xl", "tupe"}
"""Positions that need heads of one width: `check` refuses the others."""
LATENT = {"alibi", "shaw", "buckets", "toeplitz", "xl", "tupe"}
"""Positions that a latent mixer has no key for: it turns coordinates of its own."""

Choice = tuple[str, ...]
"""One value of each axis, in their order."""


def excluded(choice: Choice) -> bool:
    _, position, _, _, heads, _ = choice
    return (heads == "uneven" and position in UNEVEN) or (heads == "latent" and position in LATENT)


def mixer_of(position: str, heads: str) -> Any:
    if heads == "latent":
        rope = {"rope_dim": 4, "layout": position.removeprefix("rotary-")} if position in RELATIONS else {}
        return LatentConfig(num_heads=4, kv_rank=7, q_rank=6, head_dim=3, value_dim=5, **rope)
    return AttentionConfig(**HEADS[heads], position=RELATIONS.get(position))


def ffn_of(kind: str) -> Any:
    if kind == "experts":
        return ExpertsConfig(expert=GatedFFNConfig(kind="swiglu", dim=5), num=3, top_k=2)
    return PlainFFNConfig(kind=kind, dim=20) if kind in PLAIN else GatedFFNConfig(kind=kind, dim=10)


def config_of(choice: Choice, num_layers: int = LAYERS) -> Any:
    topology, position, norm, ffn, heads, residual = choice
    cross = AttentionConfig(**HEADS["mha"]) if heads == "latent" else None
    layer = LayerConfig(mixer=mixer_of(position, heads), ffn=ffn_of(ffn), residual=residual, norm=NORMS[norm])
    stack = StackConfig(layers=(layer,) * num_layers, final_norm=residual in PRE_NORM)
    added: Any = {"dim": DIM, "dropout": 0.0, "position": POSITIONS.get(position, NoPositionConfig())}
    if topology == "encoder":
        return EncoderConfig(**added, stack=stack, head=WordsConfig(transform=None, bias=True))
    if topology == "pair":
        own = layer.model_copy(update={"cross": cross})
        decoder = stack.model_copy(update={"layers": (own,) * num_layers})
        return Seq2SeqConfig(**added, encoder=stack, decoder=decoder)
    return LMConfig(**added, stack=stack, prefix=topology == "prefix")


def cell_of(choice: Choice, num_layers: int = LAYERS) -> Cell:
    topology, position, norm, ffn, heads, residual = choice
    told = HEADS[heads]
    num = told.get("num_heads", 4)
    keys, values = (told.get(name, DIM // num) for name in ("key_dim", "value_dim"))
    rest: dict[str, Any] = {"normed": heads == "normed", "cap": told.get("logit_cap"), "latent": heads == "latent"}
    if heads == "latent":
        keys, rest = 3, rest | {"rope": 4 if position in RELATIONS else 0}
    dims = [(one,) * num if isinstance(one, int) else one for one in (keys, values)]
    groups = told.get("num_kv_heads", num)
    return Cell(topology, position, norm, ffn, residual, dims[0], dims[1], groups, num_layers=num_layers, **rest)


@dataclass
class Built:
    """A model with weights that are all drawn, and the same weights as leaves for the twin."""

    model: Any
    leaves: dict[str, Tensor]


def made(choice: Choice, num_layers: int) -> Built:
    torch.manual_seed(7)
    model = build(config_of(choice, num_layers), VOCAB).double().eval()
    leaves: dict[int, Tensor] = {}
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
        leaves[id(parameter)] = parameter.detach().clone().requires_grad_()
    return Built(model, {name: leaves[id(one)] for name, one in model.named_parameters(remove_duplicate=False)})


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    size = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (size - len(row))] for row in rows])


def batch_logits(model: Any, topology: str) -> Tensor:
    if topology == "pair":
        return model(padded(SOURCES), padded(TEXTS))
    more = {"prefix": torch.tensor(PREFIXES)} if topology == "prefix" else {}
    return model(padded(TEXTS), **more)


def silent(choice: Choice, name: str) -> bool:
    """Whether mathematics has the gradient vanish. Biases of keys add the same to all logits of a query, which a
    softmax does not see: unless keys turn (of cross-attention they never do), are normed, or logits are capped. And
    where what is read is scaled by g, products of two of its maps are by g^2, and a norm behind them takes all scale
    away."""
    _, position, norm, ffn, heads, residual = choice
    if name.endswith("join_ffn.norm.g"):
        return residual == "sandwich" and norm == "scalenorm" and ffn in ("bilinear", "reglu")
    if not name.endswith(".k.bias") or heads in ("normed", "capped"):
        return False
    return ".cross." in name or not position.startswith("rotary")


def prove(choice: Choice, num_layers: int = LAYERS) -> None:
    """One cell: the batch, padded, against the twin text by text; gradients; then step by step."""
    topology, built, cell = choice[0], made(choice, num_layers), cell_of(choice, num_layers)
    model, leaves = built.model, built.leaves
    ours = batch_logits(model, topology)
    draw = torch.Generator().manual_seed(3)
    total, wanted = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for row, text in enumerate(TEXTS):
        prefix = PREFIXES[row] if topology == "prefix" else 0
        theirs = logits(leaves, cell, text, SOURCES[row], prefix)
        torch.testing.assert_close(ours[row, : len(text)], theirs, rtol=0, atol=1e-10)
        push = torch.randn(theirs.shape, dtype=torch.float64, generator=draw)
        total, wanted = total + (ours[row, : len(text)] * push).sum(), wanted + (theirs * push).sum()
    total.backward()
    wanted.backward()
    for name, parameter in model.named_parameters():
        grad = leaves[name].grad
        assert parameter.grad is not None, name
        unrouted = grad is None and ".experts." in name  # no token went there
        grad = torch.zeros_like(parameter) if unrouted else grad
        scale = max(1.0, float(grad.abs().max()))
        torch.testing.assert_close(parameter.grad, grad, rtol=0, atol=1e-9 * scale, msg=lambda m, n=name: f"{n}: {m}")
        assert unrouted or (float(grad.abs().max()) > 1e-9) is not silent(choice, name), name
    table = next(one for name, one in leaves.items() if name.endswith("embed.tokens.weight"))
    seen = {token for text in (*TEXTS, *(SOURCES if topology == "pair" else ())) for token in text}
    assert seen < set(table.grad.abs().sum(1).nonzero()[:, 0].tolist())  # tied: what is never read still is an answer
    if topology != "encoder":
        step_by_step(model, topology, ours.detach())


@torch.no_grad()
def step_by_step(model: Any, topology: str, whole: Tensor) -> None:
    if topology == "pair":
        state, begun = model.start(SOURCES), [0] * len(TEXTS)
    else:
        begun = PREFIXES if topology == "prefix" else [2, 1, 3]
        state = model.start([text[:cut] for text, cut in zip(TEXTS, begun, strict=True)])
    for step in range(max(len(text) - cut for text, cut in zip(TEXTS, begun, strict=True))):
        left = [cut + step < len(text) for text, cut in zip(TEXTS, begun, strict=True)]
        tokens = [[text[cut + step] if more else 3] for text, cut, more in zip(TEXTS, begun, left, strict=True)]
        said = model.step(state, torch.tensor(tokens)).logits[:, 0]
        for row, more in enumerate(left):
            if more:
                torch.testing.assert_close(said[row], whole[row, begun[row] + step], rtol=0, atol=1e-10)


# ---- which cells ----


def pairs_of(choice: Choice) -> set[tuple[int, str, int, str]]:
    return {(a, choice[a], b, choice[b]) for a, b in itertools.combinations(range(len(choice)), 2)}


def wanted_pairs() -> set[tuple[int, str, int, str]]:
    """All pairs of values of two axes, but those that are excluded."""
    values = list(AXES.values())
    found = {
        (a, one, b, other)
        for a, b in itertools.combinations(range(len(values)), 2)
        for one, other in itertools.product(values[a], values[b])
    }
    return {pair for pair in found if not excluded_pair(pair)}


def excluded_pair(pair: tuple[int, str, int, str]) -> bool:
    names = list(AXES)
    told = {names[pair[0]]: pair[1], names[pair[2]]: pair[3]}
    return excluded(tuple(told.get(name, "") for name in names))


def covering() -> list[Choice]:
    """Cells that together have every pair: of 60 drawn ones the one with most new pairs, again and again."""
    rnd, values, missing, found = random.Random(5), list(AXES.values()), wanted_pairs(), []
    while missing:
        a, one, b, other = min(missing)
        drawn = [tuple(rnd.choice(axis) for axis in values) for _ in range(60)]
        drawn = [(*c[:a], one, *c[a + 1 : b], other, *c[b + 1 :]) for c in drawn]
        best = max((c for c in drawn if not excluded(c)), key=lambda c: len(pairs_of(c) & missing))
        found.append(best)
        missing -= pairs_of(best)
    return found


def product() -> Iterator[Choice]:
    """Everything with everything, but the residual rules, which take turns."""
    turns = itertools.cycle(AXES["residual"])
    for choice in itertools.product(*list(AXES.values())[:-1]):
        if not excluded(whole := (*choice, next(turns))):
            yield whole


COVERING = covering()


@pytest.mark.parametrize("choice", COVERING, ids=["-".join(choice) for choice in COVERING])
def test_a_cell_is_its_twin_alone_padded_and_step_by_step(choice: Choice) -> None:
    prove(choice)


def test_the_cells_have_every_pair_and_what_is_left_out_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert set().union(*map(pairs_of, COVERING)) >= wanted_pairs()
    for position in UNEVEN:
        assert check(config_of(("encoder", position, "layernorm", "relu", "uneven", "post"))), position
    assert "position" not in LatentConfig.model_fields
    for choice in COVERING:
        assert not check(config_of(choice)), choice
    with capsys.disabled():
        print(
            f"\n{len(COVERING)} cells of {sum(1 for _ in product()):,} have all {len(wanted_pairs()):,} pairs of parts"
        )


@pytest.mark.slow
@pytest.mark.parametrize("topology", AXES["topology"])
@pytest.mark.parametrize("position", AXES["position"])
def test_all_cells_are_their_twins(topology: str, position: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [choice for choice in product() if choice[:2] == (topology, position)]
    for choice in cells:
        try:
            prove(choice, num_layers=1)
        except AssertionError as error:
            raise AssertionError(f"{'-'.join(choice)}: {error}") from error
    with capsys.disabled():
        print(f"\n{topology}, {position}: {len(cells)} cells")
