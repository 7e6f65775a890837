"""Promise 2 on models that have learnt something: the four decoders, each trained for a minute on the phrasebook.

Bitwise: 200 lines give the same hypotheses, scores included, one at a time, in batches of 7 and 64, and shuffled.
Within 1e-4: 10,000 greedy steps with caches against the whole prefix read anew, the margins printed (`pytest -rP`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headway import api
from headway.config import SearchConfig
from headway.data import phrasebook
from headway.data.corpus import read_lines
from headway.generate import beam
from headway.generate.beam import beam_search
from headway.generate.decode import translate_ids
from headway.generate.model import Model
from headway.models.seq2seq import PAD, Seq2Seq, is_invariant
from headway.models.state import Step
from headway.text.tokenizer import BOS, EOS, UNK

pytestmark = pytest.mark.slow

NEVER = [PAD, BOS, UNK]
NAMES = "transformer-tiny", "transformer-tiny-linear", "transformer-tiny-window", "rnnsearch"
PARTS = ("", "train"), ("valid_", "valid")
SIDES = ("source", "en"), ("target", "de")
PRE = {side: {"layer": {"residual": "pre"}} for side in ("encoder", "decoder")}
NEAR = 1e-4
STEPS = 10_000
INVARIANT = 60


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phrasebook")
    phrasebook.write(folder, train=15_000)
    return folder


def together(name: str) -> object:
    """The tests of one model run in one process, which trains it once."""
    return pytest.param(name, marks=pytest.mark.xdist_group(name))


@pytest.fixture(scope="module", params=map(together, NAMES))
def trained(request: pytest.FixtureRequest, sentences: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    run = tmp_path_factory.mktemp("runs") / request.param
    table = {
        "data": {
            f"{part}{side}": str(sentences / f"{name}.{language}") for part, name in PARTS for side, language in SIDES
        },
        "tokenizer": {"kind": "bpe", "vocab_size": 1000},
        "model": {"preset": request.param, "dropout": 0.1, **({} if request.param == "rnnsearch" else PRE)},
        "train": {
            "steps": 400,
            "batch_tokens": 1000,
            "validate_every": 400,
            "save_every": 400,
            "schedule": {"kind": "inverse_sqrt", "peak": 2e-3, "warmup": 100},
        },
    }
    api.train(table, run, quiet=True)
    return api.load(run)


def texts(model: Model, sentences: Path, num: int, name: str = "train") -> list[list[int]]:
    return [model.tokenizer.encode(line) for line in read_lines(sentences / f"{name}.en")[:num]]


@pytest.mark.parametrize("width", [1, 4])
def test_200_lines_alone_in_batches_of_7_and_64_and_shuffled_have_the_same_hypotheses(
    trained: Model, sentences: Path, width: int
) -> None:
    sources, search = texts(trained, sentences, 200, "test"), SearchConfig(beam=width)
    assert max(map(len, sources)) < INVARIANT
    wanted = list(translate_ids(trained.module, sources, search, batch_lines=64))
    assert len({tuple(best.tokens) for [best] in wanted}) > 50, "a model that has learnt nothing proves nothing"
    for batch_lines in (1, 7):
        assert list(translate_ids(trained.module, sources, search, batch_lines=batch_lines)) == wanted
    order = random.Random(4).sample(range(200), 200)
    shuffled = list(translate_ids(trained.module, [sources[i] for i in order], search, batch_lines=7))
    assert [shuffled[order.index(i)] for i in range(200)] == wanted


def test_the_self_check_of_a_trained_model_holds_at_60_tokens(trained: Model) -> None:
    assert is_invariant(trained.module, INVARIANT, beside=3 * INVARIANT)


@dataclass
class Prefixes:
    """A state that remembers tokens only."""

    sources: list[list[int]]
    tokens: Tensor

    @property
    def lengths(self) -> Tensor:
        return torch.full((len(self.sources),), self.tokens.shape[1])

    def select(self, rows: Tensor) -> Prefixes:
        return Prefixes([self.sources[row] for row in rows.tolist()], self.tokens[rows])


class Uncached:
    """The slow twin of decoding: the decoding protocol by reading source and prefix anew for every token."""

    training = False

    def __init__(self, module: Seq2Seq) -> None:
        self.module = module

    def start(self, sources: list[list[int]]) -> Prefixes:
        return Prefixes(sources, torch.zeros(len(sources), 0, dtype=torch.int64))

    def step(self, state: Prefixes, tokens: Tensor) -> Step:
        state.tokens = torch.cat([state.tokens, tokens], 1)
        width = max(map(len, state.sources))
        source = torch.tensor([[*text, *[PAD] * (width - len(text))] for text in state.sources])
        logits = self.module(source, state.tokens)[:, -1:]
        return Step(logits, logits)


@pytest.mark.parametrize("width", [1, 4])
def test_in_float64_cached_and_uncached_search_give_the_same_tokens(
    trained: Model, sentences: Path, width: int
) -> None:
    sources, search = texts(trained, sentences, 60, "test"), SearchConfig(beam=width)
    module = trained.module.double()
    try:
        cached = list(translate_ids(module, sources, search))
        uncached = list(translate_ids(Uncached(module), sources, search))
    finally:
        trained.module.float()
    assert [best.tokens for [best] in cached] == [best.tokens for [best] in uncached]
    for [one], [other] in zip(cached, uncached, strict=True):
        assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-9)


def test_in_float32_a_beam_differs_only_where_candidates_are_within_1e_4(
    trained: Model, sentences: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, search = texts(trained, sentences, 250, "test"), SearchConfig(beam=4)
    gaps, steps = dict.fromkeys(range(len(sources)), inf), 0
    plain = beam._advance

    def watched(logprobs: Tensor, nodes: list, busy: list, *rest: object) -> list[list[int]]:
        """Notes the least gap between neighbours among the candidates that decide who stays, ends or falls."""
        nonlocal steps
        steps += len(nodes)
        rows = logprobs.double() + torch.tensor([[node.total] for node in nodes], dtype=torch.float64)
        for one, own in zip(busy, rows.split([len(one.alive) for one in busy]), strict=True):
            best = own.flatten().topk(2 * search.beam + 1).values
            gaps[one.index] = min(gaps[one.index], (best[:-1] - best[1:]).min().item())
        return plain(logprobs, nodes, busy, *rest)

    uncached = list(beam_search(Uncached(trained.module), whole(sources), search, banned=NEVER))
    monkeypatch.setattr(beam, "_advance", watched)
    cached = list(beam_search(trained.module, whole(sources), search, banned=NEVER))
    differ = [i for i, ([a], [b]) in enumerate(zip(cached, uncached, strict=True)) if a.tokens != b.tokens]
    print(f"{steps:,} steps of {len(sources)} beams; {len(differ)} differ, with gaps {[gaps[i] for i in differ]}")
    assert steps >= STEPS
    assert all(gaps[i] <= NEAR for i in differ)
    assert len(differ) <= steps // STEPS


def whole(sources: list[list[int]]) -> list[list[int]]:
    return [[*text, EOS] for text in sources]


@torch.inference_mode()
def test_10000_cached_steps_are_within_1e_4_and_choose_the_same_token_wherever_the_margin_is_larger(
    trained: Model, sentences: Path
) -> None:
    lines, furthest, margins = texts(trained, sentences, 3_000), 0.0, []
    while len(margins) < STEPS and lines:
        chunk, lines = lines[:64], lines[64:]
        far, found = greedy_steps(trained.module, whole(chunk))
        furthest, margins = max(furthest, far), margins + found
    steps, ranked = len(margins), sorted(margins)
    ties = sum(margin <= NEAR for margin in margins)
    print(f"{steps:,} steps; logits differ by {furthest:.1e} at most; {ties} margins of {NEAR:.0e} or less")
    print("margin at", *(f"{share:.2%}: {ranked[int(share * steps)]:.1e};" for share in (0, 1e-4, 1e-3, 1e-2, 0.5)))
    assert steps >= STEPS
    assert furthest < NEAR
    assert ties <= steps // STEPS


def greedy_steps(module: Seq2Seq, sources: list[list[int]]) -> tuple[float, list[float]]:
    """Greedy decoding of a batch with caches, held against the whole prefix read at once: the furthest logit, and the
    margin between the best and the second at every step."""
    state, begin = module.start(sources), torch.full((len(sources), 1), BOS)
    tokens, alive, steps = begin, torch.ones(len(sources), dtype=torch.bool), []
    while alive.any() and len(steps) < 40:
        logits = module.step(state, tokens).logits[:, -1]
        logits[:, NEVER] = -torch.inf
        tokens = logits.argmax(-1, keepdim=True)
        steps.append((logits, tokens, alive))
        alive = alive & (tokens[:, 0] != EOS)
    cached, chosen, real = (torch.stack(part, 1) for part in zip(*steps, strict=True))
    width = max(map(len, sources))
    source = torch.tensor([[*text, *[PAD] * (width - len(text))] for text in sources])
    anew = module(source, torch.cat([begin, chosen[:, :-1, 0]], 1))
    anew[..., NEVER] = -torch.inf
    cached, anew = cached[real], anew[real]
    best = cached.topk(2).values
    margin = best[:, 0] - best[:, 1]
    differ = cached.argmax(-1) != anew.argmax(-1)
    assert not (differ & (margin > NEAR)).any(), "another token although the margin is larger than 1e-4"
    usable = cached.isfinite()
    return (cached - anew)[usable].abs().max().item(), margin.tolist()
