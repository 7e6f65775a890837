"""Batches: nothing lost, within the budget, little padding, in an order that (seed, epoch, position) alone decides."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import BPEConfig
from headway.data import batch as batch_module
from headway.data.batch import (
    Batch,
    Examples,
    Loader,
    Packed,
    batches,
    collate,
    encode_corpus,
    padding_share,
)
from headway.data.corpus import read_pairs
from headway.text.tokenizer import Tokenizer


def lengths_of(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = rng.integers(2, 30, count)
    return source, np.maximum(2, source + rng.integers(-4, 6, count))


def examples_of(count: int) -> Examples:
    rows = [[[5 + number] * (length - 1) for number, length in enumerate(side)] for side in lengths_of(count)]
    return Examples(Packed(rows[0]), Packed(rows[1]), np.arange(10, 10 + count))


def same(one: Batch, other: Batch) -> bool:
    tensors = ("source", "target_in", "target_out")
    return one.ids == other.ids and all(torch.equal(getattr(one, name), getattr(other, name)) for name in tensors)


def test_a_batch_is_shifted_ended_and_padded_on_the_right() -> None:
    batch = collate([([7, 8, 9], [11]), ([6], [12, 13])], [41, 17])
    assert batch.source.tolist() == [[7, 8, 9, 2], [6, 2, 0, 0]]
    assert batch.target_in.tolist() == [[1, 11, 0], [1, 12, 13]]
    assert batch.target_out.tolist() == [[11, 2, 0], [12, 13, 2]]
    assert (batch.ids, batch.num_tokens) == ([41, 17], 5)
    assert {batch.source.dtype, batch.target_in.dtype, batch.target_out.dtype} == {torch.int64}


@settings(deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1),
    batch_tokens=st.integers(40, 200),
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 99),
)
def test_every_pair_is_in_one_batch_and_every_batch_within_the_budget(
    sizes: list[tuple[int, int]], batch_tokens: int, seed: int, epoch: int
) -> None:
    source, target = np.array(sizes).T
    plan = batches(source, target, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(sizes)))
    assert all(len(batch) * (source[batch].max() + target[batch].max()) <= batch_tokens for batch in plan)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    source, target = lengths_of(500)

    def order(seed: int, epoch: int) -> list[list[int]]:
        plan = batches(source, target, batch_tokens=300, seed=seed, epoch=epoch)
        return [batch.tolist() for batch in plan]

    first = order(1, 0)
    np.random.default_rng(0).random(7)
    torch.manual_seed(9)
    assert order(1, 0) == first
    assert order(1, 1) != first
    assert order(2, 0) != first
    assert order(0, 1) != order(1, 0)


def test_pairs_of_one_size_meet_others_in_each_epoch() -> None:
    sizes = np.full(60, 5)
    plans = [batches(sizes, sizes, batch_tokens=100, seed=1, epoch=epoch) for epoch in (0, 1)]
    assert {frozenset(batch.tolist()) for batch in plans[0]} != {frozenset(batch.tolist()) for batch in plans[1]}


def test_batches_do_not_come_sorted_by_length() -> None:
    source, target = lengths_of(900)
    longest = [target[batch].max() for batch in batches(source, target, batch_tokens=300, seed=1, epoch=0)]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.4


def test_a_long_epoch_is_sorted_in_pools_and_still_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = lengths_of(700)
    whole = padding_share(batches(source, target, batch_tokens=300, seed=1, epoch=0), source, target)
    monkeypatch.setattr(batch_module, "POOL", 99)
    plan = batches(source, target, batch_tokens=300, seed=1, epoch=0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(700))
    assert whole < padding_share(plan, source, target)


def test_a_pair_larger_than_the_budget_is_refused_by_its_line() -> None:
    source, target = np.array([3, 20, 4, 30]), np.array([3, 15, 4, 40])
    with pytest.raises(
        ValueError, match=r"batch_tokens = 32: the pair of line 2 \(and 1 more\) has 35 tokens.*take 70"
    ):
        batches(source, target, batch_tokens=32, seed=1, epoch=0)
    examples = Examples(Packed([[5] * 40]), Packed([[5, 6]]), np.array([77]))
    with pytest.raises(ValueError, match="line 77 has 44 tokens"):
        Loader(examples, 43, seed=1)
    assert len(Loader(examples, 44, seed=1).plan(0)) == 1


def test_the_padding_share_is_counted_over_both_sides() -> None:
    source, target = np.array([3, 5, 2]), np.array([4, 4, 7])
    # 2 x (5 + 4) + 1 x (2 + 7) places, 25 tokens
    assert padding_share([np.array([0, 1]), np.array([2])], source, target) == pytest.approx(2 / 27)


def test_the_padding_share_is_what_the_tensors_hold() -> None:
    loader = Loader(examples_of(400), 333, seed=4)
    made = [loader.examples.batch(indices) for indices in loader.plan(0)]
    places = sum(batch.source.numel() + batch.target_out.numel() for batch in made)
    filled = sum(int((batch.source != 0).sum() + (batch.target_out != 0).sum()) for batch in made)
    assert loader.padding == pytest.approx(1 - filled / places)
    assert sum(batch.num_tokens for batch in made) == sum(int((batch.target_out != 0).sum()) for batch in made)


def test_the_loader_goes_through_epoch_after_epoch() -> None:
    loader = Loader(examples_of(150), 300, seed=1)
    sizes = [len(loader.plan(epoch)) for epoch in range(3)]
    seen = list(islice(loader.start(0, 0), sum(sizes)))
    assert [(epoch, position) for epoch, position, _ in seen] == [
        (epoch, position) for epoch, size in enumerate(sizes) for position in range(size)
    ]
    for number in range(3):
        lines = [line for epoch, _, batch in seen if epoch == number for line in batch.ids]
        assert sorted(lines) == list(range(10, 160))


def test_a_loader_begun_anywhere_gives_what_the_unbroken_one_gives() -> None:
    loader = Loader(examples_of(150), 300, seed=1)
    unbroken = list(islice(loader.start(0, 0), 2 * len(loader.plan(0)) + 3))
    for begin in range(len(unbroken)):
        epoch, position, _ = unbroken[begin]
        resumed = Loader(examples_of(150), 300, seed=1).start(epoch, position)
        for (epoch, position, batch), (e, p, b) in zip(unbroken[begin : begin + 5], resumed, strict=False):
            assert (epoch, position) == (e, p)
            assert same(batch, b)


def test_the_place_behind_an_epoch_is_the_next_epoch_and_beyond_is_refused() -> None:
    loader = Loader(examples_of(150), 300, seed=1)
    size = len(loader.plan(0))
    assert next(loader.start(0, size))[:2] == (1, 0)
    with pytest.raises(ValueError, match=f"epoch 0 has {size} batches"):
        next(loader.start(0, size + 1))


def test_fewer_lines_than_a_batch_are_one_small_batch_each_epoch() -> None:
    loader = Loader(examples_of(3), 4096, seed=1)
    seen = list(islice(loader.start(0, 0), 4))
    assert [(epoch, position, sorted(batch.ids)) for epoch, position, batch in seen] == [
        (epoch, 0, [10, 11, 12]) for epoch in range(4)
    ]


def test_a_loader_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no pair is left to train on"):
        Loader(Examples(Packed(), Packed(), np.arange(0)), 4096, seed=1)


def test_packed_rows_are_the_lists_that_went_in() -> None:
    rows = [[5, 2_000_000_000], [], [7, 8, 9]]
    packed = Packed(rows)
    assert list(packed) == rows
    assert packed[-1] == [7, 8, 9]
    assert packed[1:] == rows[1:]
    assert packed.lengths().tolist() == [2, 0, 3]


@pytest.fixture(scope="module")
def bytewise() -> Tokenizer:
    """A piece for each byte."""
    return Tokenizer.train(["a"], BPEConfig(vocab_size=260))


def test_long_and_empty_pairs_are_left_out_and_told_by_line(bytewise: Tokenizer) -> None:
    pairs = [
        ("ab", "abc"),
        ("", "x"),
        ("abcd", "x"),
        ("x", "abcde"),
        ("x", " \u2028"),
        ("ab", "abc"),
        ("a\x00", "</s>"),
    ]
    examples, left = encode_corpus(pairs, bytewise, max_len=3)
    assert examples.lines.tolist() == [1, 6]
    assert [bytewise.decode(ids) for ids in examples.targets] == ["abc", "abc"]
    assert (left.total, left.empty, left.too_long) == (7, [2, 5], [3, 4, 7])
    assert left.words() == [
        "left out 3 of 7 pairs that have more than 3 tokens on a side: lines 3, 4, 7",
        "left out 2 of 7 pairs that have an empty side: lines 2, 5",
    ]
    source, target = examples.lengths()
    assert (source.tolist(), target.tolist()) == ([3, 3], [4, 4])


def test_what_is_left_out_is_shown_in_part_and_counted(bytewise: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "CHUNK", 7)
    examples, left = encode_corpus([("", "a")] * 1_111 + [("b", "c")], bytewise, max_len=3, lines=range(2, 2_226, 2))
    assert examples.lines.tolist() == [2_224]
    assert left.words() == ["left out 1,111 of 1,112 pairs that have an empty side: lines 2, 4, 6, 8, 10, ..."]


def test_nothing_is_told_where_nothing_was_left_out(bytewise: Tokenizer) -> None:
    assert encode_corpus([("a", "b")], bytewise, max_len=3)[1].words() == []


def test_a_line_of_a_megabyte_is_left_out_and_told(bytewise: Tokenizer) -> None:
    examples, left = encode_corpus([("a", "b"), ("x" * 1_000_000, "y")], bytewise, max_len=256)
    assert (len(examples), left.too_long) == (1, [2])


def test_padding_is_under_five_percent_at_4096_tokens_on_multi30k(corpora: Path) -> None:
    folder = corpora / "multi30k"
    pairs = read_pairs(folder / "train.en.gz", folder / "train.de.gz")
    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), BPEConfig(vocab_size=6000))
    examples, left = encode_corpus(pairs, tokenizer, max_len=256)
    loader = Loader(examples, 4096, seed=1)
    print(f"{len(loader.plan(0))} batches, {loader.padding:.2%} padding")
    assert not left.words()
    assert loader.padding < 0.05
