"""Batches: nothing lost, within the budget, little padding, in an order that (seed, epoch, position) alone decides."""

from collections import Counter
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
    batches,
    collate,
    epoch_examples,
    occurrences,
    padding_share,
    tempered,
)
from headway.data.corpus import read_pairs
from headway.data.encode import Encoder
from headway.data.pair import Pair
from headway.data.store import Row, pack
from headway.data.tally import Tally
from headway.text.codes import Code
from headway.text.tokenizer import Tokenizer, TokenizerPair


def lengths_of(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = rng.integers(2, 30, count)
    return source, np.maximum(2, source + rng.integers(-4, 6, count))


def examples_of(count: int) -> Examples:
    """Numbered from 10, in shards of different sizes."""
    sides = [[[5 + number] * (length - 1) for number, length in enumerate(side)] for side in lengths_of(count)]
    rows = [Row(0, 10 + number, x, y) for number, (x, y) in enumerate(zip(*sides, strict=True))]
    return Examples(
        [pack(part) for part in (rows[: count // 3], [], rows[count // 3 : count // 2], rows[count // 2 :])]
    )


def same(one: Batch, other: Batch) -> bool:
    return one.ids == other.ids and one.as_lists() == other.as_lists()


def test_a_batch_is_shifted_ended_and_padded_on_the_right() -> None:
    batch = collate([Row(0, 41, [7, 8, 9], [11]), Row(1, 17, [6], [12, 13])])
    assert batch.inputs["source"].tolist() == [[7, 8, 9, 2], [6, 2, 0, 0]]
    assert batch.inputs["target"].tolist() == [[1, 11, 0], [1, 12, 13]]
    assert batch.targets.tolist() == [[11, 2, 0], [12, 13, 2]]
    assert (batch.ids, batch.parts, batch.num_tokens) == ([41, 17], [0, 1], 5)
    assert (batch.num_filled, batch.num_places) == (11, 14)
    assert {tensor.dtype for tensor in (*batch.inputs.values(), batch.targets)} == {torch.int64}


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
    examples = Examples([pack([Row(0, 77, [5] * 40, [5, 6])])])
    with pytest.raises(ValueError, match="line 77 has 44 tokens"):
        Loader(examples, 43, seed=1)
    assert len(Loader(examples, 44, seed=1).plan(0)) == 1


def test_the_padding_share_is_counted_over_both_sides() -> None:
    source, target = np.array([3, 5, 2]), np.array([4, 4, 7])
    # 2 x (5 + 4) + 1 x (2 + 7) places, 25 tokens
    assert padding_share([np.array([0, 1]), np.array([2])], source, target) == pytest.approx(2 / 27)


def test_the_padding_share_is_what_the_tensors_hold() -> None:
    loader = Loader(examples_of(400), 333, seed=4)
    made = [loader.batch(0, position) for position in range(len(loader.plan(0)))]
    both = [(batch.inputs["source"], batch.targets) for batch in made]
    places = sum(source.numel() + targets.numel() for source, targets in both)
    filled = sum(int((source != 0).sum() + (targets != 0).sum()) for source, targets in both)
    assert loader.padding == pytest.approx(1 - filled / places)
    assert sum(batch.num_filled for batch in made) == filled
    assert sum(batch.num_places for batch in made) == places
    assert sum(batch.num_tokens for batch in made) == sum(int((targets != 0).sum()) for _, targets in both)


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
        Loader(Examples([pack([])]), 4096, seed=1)


def test_examples_are_the_rows_that_went_in_whatever_shard_they_are_in() -> None:
    rows = [Row(0, 3, [5, 2_000_000_000], []), Row(2, 1, [], [9]), Row(2, 2, [7, 8, 9], [4])]
    examples = Examples([pack([]), pack(rows[:1]), pack([]), pack(rows[1:])], corpora=(0, 0, 1))
    assert [examples[index] for index in range(3)] == rows
    assert [side.tolist() for side in examples.lengths()] == [[3, 1, 4], [1, 2, 2]]
    assert examples.sizes == [1, 2]
    with pytest.raises(IndexError):
        examples[3]


def greedy(source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches as they were first published, one pair after the other."""
    rng = np.random.default_rng([seed, epoch])
    pool = rng.permutation(len(source))
    pool = pool[np.lexsort((np.where(target[pool] % 2, source[pool], -source[pool]), target[pool]))]
    cut, begin, widest, longest = [], 0, 0, 0
    for end, (s, t) in enumerate(zip(source[pool].tolist(), target[pool].tolist(), strict=True)):
        widest, longest = max(widest, s), max(longest, t)
        if (end + 1 - begin) * (widest + longest) > budget:
            cut.append(pool[begin:end].tolist())
            begin, widest, longest = end, s, t
    cut.append(pool[begin:].tolist())
    return [cut[index] for index in rng.permutation(len(cut))]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1), st.integers(40, 200), st.integers(0, 9))
def test_the_batches_are_those_that_published_results_were_trained_on(
    sizes: list[tuple[int, int]], budget: int, seed: int
) -> None:
    source, target = np.array(sizes).T
    plan = batches(source, target, batch_tokens=budget, seed=seed, epoch=3)
    assert [batch.tolist() for batch in plan] == greedy(source, target, budget, seed, 3)


def test_an_epoch_has_each_corpus_as_often_as_its_weight_says() -> None:
    sizes, weights = [40, 7, 9, 5], [0.25, 2.0, 1.0, 1.4]
    first = np.bincount(epoch_examples(sizes, weights, seed=1, epoch=0), minlength=61)
    assert first[:40].sum() == 10
    assert first[:40].max() == 1
    assert first[40:47].tolist() == [2] * 7
    assert first[47:56].tolist() == [1] * 9
    assert sorted(first[56:]) == [1, 1, 1, 2, 2]
    assert np.array_equal(first, np.bincount(epoch_examples(sizes, weights, seed=1, epoch=0), minlength=61))
    seen = sum(np.bincount(epoch_examples(sizes, weights, seed=1, epoch=epoch), minlength=61) for epoch in range(40))
    assert seen.min() > 0, "another part of the corpus comes in each epoch"


def test_a_temperature_gives_shares_that_are_the_root_of_the_sizes() -> None:
    sizes, temperature = [90_000, 1_000, 10], 5.0
    seen = np.array(sizes) * tempered(sizes, temperature)
    root = np.array(sizes) ** (1 / temperature)
    assert seen / seen.sum() == pytest.approx(root / root.sum())
    assert seen[0] == sizes[0]
    assert tempered(sizes, 1.0) == [1.0, 1.0, 1.0]


def test_a_loader_with_weights_sees_pairs_as_often_and_resumes_anywhere() -> None:
    rows = [Row(part, number, [5] * 3, [6] * 3) for part, count in ((0, 20), (1, 6)) for number in range(count)]
    examples = Examples([pack(rows[:11]), pack(rows[11:])], corpora=(0, 1))

    def seen(epoch: int, position: int, count: int) -> list[tuple[int, int]]:
        loader = Loader(examples, 64, seed=1, weights=[0.5, 3])
        made = islice(loader.start(epoch, position), count)
        return [pair for _, _, batch in made for pair in zip(batch.parts, batch.ids, strict=True)]

    loader = Loader(examples, 64, seed=1, weights=[0.5, 3])
    size = len(loader.plan(0))
    whole = seen(0, 0, size)
    assert sum(part == 0 for part, _ in whole) == 10
    assert sorted(pair for pair in whole if pair[0]) == sorted([(1, number) for number in range(6)] * 3)
    assert seen(0, 1, size - 1) == whole[len(seen(0, 0, 1)) :]
    with pytest.raises(ValueError, match="raise the weights"):
        Loader(Examples([pack(rows)], corpora=(0, 1)), 64, seed=1, weights=[0.01, 0.01])


def test_weights_of_one_are_no_weights() -> None:
    plain, weighed = (Loader(examples_of(150), 300, seed=1, weights=weights) for weights in (None, [1.0]))
    for one, other in zip(plain.plan(4), weighed.plan(4), strict=True):
        assert np.array_equal(one, other)


def test_resampling_is_keyed_by_seed_epoch_example_and_side() -> None:
    examples, keys = examples_of(30), []

    def resample(side: int, ids: list[int], key: tuple[int, ...]) -> list[int]:
        keys.append((side, key))
        return [*ids, 4]

    loader = Loader(examples, 300, seed=8, resample=resample)
    indices = loader.plan(2)[0].tolist()
    batch = loader.batch(2, 0)
    assert keys == [(side, (8, 2, index, side)) for index in indices for side in (0, 1)]
    for row, index in enumerate(indices):
        ids = [*examples[index].source, 4, 2]
        assert batch.inputs["source"][row, : len(ids)].tolist() == ids
    assert batch.num_tokens == sum(len(examples[index].target) + 2 for index in indices)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1), min_size=1))
def test_occurrences_are_how_often_an_example_came_before(plan: list[list[int]]) -> None:
    seen, expected = Counter(), []
    for batch in plan:
        expected.append([])
        for index in batch:
            expected[-1].append(seen[index])
            seen[index] += 1
    assert [found.tolist() for found in occurrences([np.array(batch, np.uint32) for batch in plan])] == expected


def test_each_time_an_epoch_has_a_pair_it_is_cut_with_a_key_of_its_own_wherever_one_begins() -> None:
    rows = [Row(part, number, [5] * 3, [6] * 3) for part, count in ((0, 20), (1, 6)) for number in range(count)]
    examples, keys = Examples([pack(rows)], corpora=(0, 1)), list[tuple[int, ...]]()

    def resample(side: int, ids: list[int], key: tuple[int, ...]) -> list[int]:
        keys.append(key)
        return ids

    def asked(position: int, count: int) -> list[tuple[int, ...]]:
        keys.clear()
        list(islice(Loader(examples, 64, seed=8, weights=[1, 3], resample=resample).start(2, position), count))
        return [*keys]

    size = len(Loader(examples, 64, seed=8, weights=[1, 3]).plan(2))
    whole = asked(0, size)
    once = [(8, 2, index, side) for index in range(26) for side in (0, 1)]
    again = [(*key, seen) for key in once if key[2] >= 20 for seen in (1, 2)]
    assert sorted(whole) == sorted(once + again), "the first time as if there were no weights"
    for position in range(size):
        assert asked(position, size - position) == whole[len(whole) - len(keys) :]


@pytest.fixture(scope="module")
def bytewise() -> Tokenizer:
    """A piece for each byte."""
    return Tokenizer.train(["a"], BPEConfig(vocab_size=260))


def encoded(pairs: list[tuple[str, str]], tokenizer: Tokenizer, max_len: int) -> tuple[list[Row | None], Tally]:
    tally, encoder = Tally(), Encoder(TokenizerPair(tokenizer, tokenizer), max_len)
    placed = [(0, Pair((source,), (target,), number=number)) for number, (source, target) in enumerate(pairs, 1)]
    return encoder.rows(placed, tally, lambda part, pair: f"line {pair.number}"), tally


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
    rows, left = encoded(pairs, bytewise, max_len=3)
    assert [row.number for row in rows if row] == [1, 6]
    assert [row is None for row in rows] == [False, True, True, True, True, False, True]
    assert [bytewise.decode(row.target) for row in rows if row] == ["abc", "abc"]
    assert left.words(7, 3) == [
        "left out 2 of 7 pairs that have an empty side: lines 2, 5",
        "left out 3 of 7 pairs that have more than 3 tokens on a side: lines 3, 4, 7",
    ]


def test_what_is_left_out_is_shown_in_part_and_counted(bytewise: Tokenizer) -> None:
    _, left = encoded([("", "a")] * 1_111 + [("b", "c")], bytewise, max_len=3)
    assert left.words(1_112) == ["left out 1,111 of 1,112 pairs that have an empty side: lines 1, 2, 3, 4, 5, ..."]
    left = Tally()
    for number in range(7):
        left.add("unsure", f"a.po: line {number}")
    [told] = left.words(9)
    assert told.endswith("marks as unsure: a.po: line 0; a.po: line 1; a.po: line 2; a.po: line 3; a.po: line 4; ...")


def test_nothing_is_told_where_nothing_was_left_out(bytewise: Tokenizer) -> None:
    assert encoded([("a", "b")], bytewise, max_len=3)[1].words(1) == []


def test_a_line_of_a_megabyte_is_left_out_and_told(bytewise: Tokenizer) -> None:
    rows, left = encoded([("a", "b"), ("x" * 1_000_000, "y")], bytewise, max_len=256)
    assert [row is None for row in rows] == [False, True]
    assert left.counts == {"too_long": 1}


def test_tags_come_before_the_source_and_count_as_tokens() -> None:
    tokenizer = Tokenizer.train(["a"], BPEConfig(vocab_size=262, tags=("2de", "it")))
    encoder = Encoder(TokenizerPair(tokenizer, tokenizer), 3, tags=[("2de", "it"), ()])
    placed = [(0, Pair(("a",), ("b",))), (1, Pair(("abc",), ("b",), corpus=1)), (0, Pair(("ab",), ("b",)))]
    tagged, plain, long = encoder.rows(placed, Tally(), lambda part, pair: "")
    assert [tokenizer.piece(number) for number in tagged.source] == ["<2de>", "<it>", "a"]
    assert [tokenizer.piece(number) for number in plain.source] == ["a", "b", "c"]
    assert long is None
    with pytest.raises(ValueError, match="<2fr> is no atom"):
        Encoder(TokenizerPair(tokenizer, tokenizer), 3, tags=[("2fr",)])


def test_codes_of_both_sides_become_the_same_placeholders_and_the_others_are_text() -> None:
    tokenizer = Tokenizer.train(["a"], BPEConfig(vocab_size=262, placeholders=2))
    encoder = Encoder(TokenizerPair(tokenizer, tokenizer), 99)
    pair = Pair(("See ", Code("%s"), " and ", Code("<br/>", markup=True)), (Code("%s"), "!"), number=5)
    [row] = encoder.rows([(0, pair)], Tally(), lambda part, pair: "")
    source, target = tokenizer.decode_parts(row.source), tokenizer.decode_parts(row.target)
    assert [part for part in source if isinstance(part, str)] == ["See ", " and <br/>"]
    assert source[1] == target[0]
    assert source[1] in tokenizer.atom_ids
    without = Tokenizer.train(["a"], BPEConfig(vocab_size=260))
    [row] = Encoder(TokenizerPair(without, without), 99).rows([(0, pair)], Tally(), lambda part, pair: "")
    assert without.decode(row.source) == "See %s and <br/>"


def test_codes_that_are_sprinkled_are_placeholders_or_are_not_there() -> None:
    tokenizer = Tokenizer.train(["a"], BPEConfig(vocab_size=262, placeholders=2))
    encoder, changed = Encoder(TokenizerPair(tokenizer, tokenizer), 99, share=1.0), 0
    sides = ("Windows 11 runs in Berlin", "Windows 11 läuft in Berlin")
    for number in range(100):
        pair = Pair((sides[0],), (sides[1],), number=number)
        [row] = encoder.rows([(0, pair)], Tally(), lambda part, pair: "")
        for ids, text in zip((row.source, row.target), sides, strict=True):
            found = tokenizer.decode(ids)
            assert not set("<>{}|") & set(found)
            assert found == text or any(number in tokenizer.atom_ids for number in ids)
        changed += any(number in tokenizer.atom_ids for number in row.source)
    assert 10 < changed < 90


def test_codes_are_not_sprinkled_where_a_vocabulary_has_nothing_to_stand_for_them(bytewise: Tokenizer) -> None:
    placeholders = Tokenizer.train(["a"], BPEConfig(vocab_size=262, placeholders=2))
    for pair in ((bytewise, bytewise), (placeholders, bytewise), (bytewise, placeholders)):
        with pytest.raises(ValueError, match="<x0> is no atom of this vocabulary: it has none; name it in the recipe"):
            Encoder(TokenizerPair(*pair), 99, share=0.1)
        Encoder(TokenizerPair(*pair), 99)


def test_what_stands_before_a_source_is_told_apart_from_it() -> None:
    config = BPEConfig(vocab_size=263, tags=("it",), separator=True, match=True)
    tokenizer = Tokenizer.train(["a"], config)
    encoder = Encoder(TokenizerPair(tokenizer, tokenizer), 99, [("it",)], similar=lambda source: ("mm",))
    placed = [(3, Pair(("abc",), ("de",), number=7, context=("c",))), (3, Pair((), ("x",)))]
    [ids, none] = encoder.encoded(placed, Tally(), lambda part, pair: "")
    assert ids is not None
    assert none is None
    assert [tokenizer.piece(number) for number in ids.before] == ["<it>", "m", "m", "<match>", "c", "<sep>"]
    assert [tokenizer.decode(side) for side in ids[1:]] == ["abc", "de"]
    assert encoder.rows(placed, Tally(), lambda part, pair: "") == [
        Row(3, 7, [*ids.before, *ids.source], ids.target),
        None,
    ]


def test_padding_is_under_five_percent_at_4096_tokens_on_multi30k(corpora: Path) -> None:
    folder = corpora / "multi30k"
    pairs = read_pairs(folder / "train.en.gz", folder / "train.de.gz")
    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), BPEConfig(vocab_size=6000))
    rows, left = encoded(pairs, tokenizer, max_len=256)
    loader = Loader(Examples([pack(row for row in rows if row)]), 4096, seed=1)
    print(f"{len(loader.plan(0))} batches, {loader.padding:.2%} padding")
    assert not left.counts
    assert loader.padding < 0.05
