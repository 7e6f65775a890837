"""The contract of the decoding protocol (`headway.models.state`), for every pair and language model that a config can
name. Float64, so that equal is equal. Lengths count from where `start` leaves a row: behind the source that a language
model has read."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contract.tenants import VOCAB, lm_configs, make_model, pair_configs, uncached
from headway.models.lm import LM
from headway.models.seq2seq import Seq2Seq
from headway.models.state import State
from headway.nn.cache import nbytes

MODELS = pair_configs() | lm_configs()
Model = Seq2Seq | LM
SOURCES = [[5, 7, 9, 4, 2], [3, 2], [*list(range(4, 26)), 2]]
T = 9


@pytest.fixture(params=MODELS, name="model", scope="module")
def _model(request: pytest.FixtureRequest) -> Model:
    return make_model(MODELS[request.param])


def read(model: Model, state: State, rows: list[int]) -> list[int]:
    """How many tokens each row has read since `start`; rows: the sources they are of."""
    begun = model.start(SOURCES).lengths[torch.tensor(rows)]
    return (state.lengths - begun).tolist()


@pytest.fixture(name="targets", scope="module")
def _targets() -> Tensor:
    return torch.randint(1, VOCAB, (len(SOURCES), T), generator=torch.Generator().manual_seed(5))


@pytest.fixture(name="whole", scope="module")
def _whole(model: Model, targets: Tensor) -> Tensor:
    """What training sees: the uncached call."""
    with torch.no_grad():
        return uncached(model, SOURCES, targets)


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_step_by_one_equals_the_uncached_call(model: Model, targets: Tensor, whole: Tensor) -> None:
    state = model.start(SOURCES)
    for t in range(T):
        step = model.step(state, targets[:, t : t + 1])
        close(step.logits[:, 0], whole[:, t])
        close(model.unembed(step.hidden), step.logits)
    assert state.rows == len(SOURCES)
    assert read(model, state, [0, 1, 2]) == [T] * len(SOURCES)


def test_step_by_many_equals_the_uncached_call(model: Model, targets: Tensor, whole: Tensor) -> None:
    state = model.start(SOURCES)
    close(torch.cat([model.step(state, targets[:, a:b]).logits for a, b in [(0, 4), (4, 5), (5, T)]], 1), whole)


def test_ragged_counts_leave_each_row_at_its_own_length(model: Model, targets: Tensor, whole: Tensor) -> None:
    state = model.start(SOURCES)
    counts = torch.tensor([4, 0, 2])
    first = model.step(state, targets[:, :4], counts).logits
    for row, count in enumerate(counts.tolist()):
        close(first[row, :count], whole[row, :count])
    assert read(model, state, [0, 1, 2]) == [4, 0, 2]
    rest = torch.stack([targets[row, count : count + 5] for row, count in enumerate(counts.tolist())])
    second = model.step(state, rest).logits
    for row, count in enumerate(counts.tolist()):
        close(second[row], whole[row, count : count + 5])


def test_select_reorders_drops_and_repeats_and_rows_stay_their_own(
    model: Model, targets: Tensor, whole: Tensor
) -> None:
    state = model.start(SOURCES)
    model.step(state, targets[:, :3])
    rows = torch.tensor([2, 0, 2, 2])
    state = state.select(rows)
    assert state.rows == 4
    other = targets.flip(1)
    tokens = torch.stack([targets[2, 3:6], targets[0, 3:6], other[2, 3:6], targets[2, 3:6]])
    logits = model.step(state, tokens).logits
    close(logits[0], whole[2, 3:6])
    close(logits[1], whole[0, 3:6])
    close(logits[3], whole[2, 3:6])
    assert not torch.allclose(logits[2, 1:], whole[2, 4:6])
    state = state.select(torch.tensor([1]))
    close(model.step(state, targets[:1, 6:]).logits, whole[:1, 6:])


def test_rows_of_one_source_share_it(model: Model) -> None:
    if isinstance(model, LM):
        pytest.skip("a language model's source is part of its row")
    one = model.start(SOURCES[2:])
    own = sum(nbytes(layer.mixer.held()) for layer in one.layers)
    shared = one.bytes() - own
    wide = one.select(torch.tensor([0] * 8))
    grown = wide.bytes() - sum(nbytes(layer.mixer.held()) for layer in wide.layers)
    # Only the few numbers that say which source a row reads may grow, not keys and values.
    assert grown - shared <= 8 * 8 * (1 + 2 * len(wide.layers))


def test_join_puts_rows_of_different_lengths_side_by_side(model: Model, targets: Tensor, whole: Tensor) -> None:
    a, b = model.start(SOURCES[:1]), model.start(SOURCES[1:])
    model.step(a, targets[:1, :5])
    model.step(b, targets[1:, :2])
    state = State.join([a, b])
    assert read(model, state, [0, 1, 2]) == [5, 2, 2]
    tokens = torch.stack([targets[0, 5:8], targets[1, 2:5], targets[2, 2:5]])
    logits = model.step(state, tokens).logits
    close(logits[0], whole[0, 5:8])
    close(logits[1:], whole[1:, 2:5])


def test_trim_goes_back_to_any_length_since_the_mark(model: Model, targets: Tensor, whole: Tensor) -> None:
    state = model.start(SOURCES)
    begun = state.lengths
    model.step(state, targets[:, :2])
    with pytest.raises(ValueError, match=r"call mark\(\) first"):
        state.trim(begun + 1)
    state.mark()
    wrong = targets.flip(1)
    for _ in range(2):  # go astray, come back, go astray again
        model.step(state, torch.cat([targets[:, 2:4], wrong[:, 4:8]], 1))
        state.trim(begun + torch.tensor([4, 3, 2]))
        model.step(state, torch.stack([targets[0, 4:5], targets[1, 3:4], targets[2, 2:3]]))
        state.trim(begun + torch.tensor([2, 2, 2]))
    model.step(state, targets[:, 2:4])
    state.trim(begun + torch.tensor([4, 3, 2]))
    assert read(model, state, [0, 1, 2]) == [4, 3, 2]
    state = state.select(torch.tensor([2, 1, 0]))
    logits = model.step(state, torch.stack([targets[2, 2:5], targets[1, 3:6], targets[0, 4:7]])).logits
    close(logits[0], whole[2, 2:5])
    close(logits[1], whole[1, 3:6])
    close(logits[2], whole[0, 4:7])
    with pytest.raises(ValueError, match="legal from the last mark"):
        state.trim(begun.flip(0) + 1)


def test_a_saved_row_goes_on_where_it_stood(model: Model, targets: Tensor, whole: Tensor) -> None:
    state = model.start(SOURCES)
    model.step(state, targets[:, :3])
    state.mark()
    model.step(state, targets[:, 3:6])
    begun = int(model.start(SOURCES).lengths[1])
    for upto in (3, 5, 6):
        parts = state.save(1, begun + upto)
        assert all(isinstance(part, Tensor) for part in parts.values())
        loaded = State.join([model.start([SOURCES[1]]).load(parts), model.start([SOURCES[0]])])
        tokens = torch.stack([targets[1, upto : upto + 3], targets[0, :3]])
        logits = model.step(loaded, tokens).logits
        close(logits[0], whole[1, upto : upto + 3])
        close(logits[1], whole[0, :3])
    with pytest.raises(ValueError, match=f"has read {begun + 6} tokens"):
        state.save(1, begun + 7)


def test_bytes_are_those_allocated(model: Model, targets: Tensor) -> None:
    state = model.start(SOURCES)
    model.step(state, targets[:, :3])
    seen: dict[int, int] = {}

    def walk(value: object) -> None:
        if isinstance(value, Tensor):
            seen[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, dict):
            for v in value.values():
                walk(v)
        elif isinstance(value, list | tuple):
            for v in value:
                walk(v)
        elif hasattr(value, "__dict__"):
            walk(vars(value))

    for change in (lambda: None, state.mark, lambda: model.step(state, targets[:, 3:5])):
        change()
        seen.clear()
        walk(state)
        assert state.bytes() == sum(seen.values())
