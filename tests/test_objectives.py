"""Objectives: what a text is made into, by examples made by hand, the papers' numbers, and properties of all texts.

Rates are held to 6 standard deviations of the binomial: of a fixed seed, and wide enough that no luck is needed.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, fields
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import BPEConfig, CharBPEConfig, UnigramConfig, WordPieceConfig
from headway.data.objectives import (
    NOT_ASKED,
    Contrast,
    Labelled,
    Masked,
    Pair,
    Permuted,
    SpanAnswer,
    Tagged,
    Written,
    answers,
    blocks,
    causal,
    classification,
    contrastive,
    joined,
    masked,
    next_sentence,
    pack,
    pairs,
    permuted,
    prefix_lm,
    random_split,
    regression,
    tagging,
)
from headway.data.spans import (
    DENOISERS,
    Denoiser,
    corrupted_lengths,
    expanded_length,
    offsets,
    random_spans,
    span_answer,
    span_corruption,
    ul2,
    windows,
)
from headway.text.tokenizer import BOS, EOS, PAD, Tokenizer

CLS, SEP, MASK = 4, 5, 6
PIECES = range(20, 60)
SENTINELS = range(900, 1000)
texts = st.lists(st.integers(PIECES.start, PIECES.stop - 1))
seeds = st.integers(0, 2**32)


def rng(seed: int = 11) -> np.random.Generator:
    return np.random.default_rng(seed)


def within(found: int, times: int, chance: float) -> bool:
    """Whether a count is within 6 standard deviations of the binomial."""
    return abs(found - times * chance) <= 6 * math.sqrt(times * chance * (1 - chance))


def all_alike(found: Sequence[object], kinds: int) -> bool:
    """Whether each kind came about equally often."""
    counts = Counter(found)
    return len(counts) == kinds and all(within(count, len(found), 1 / kinds) for count in counts.values())


# ---- language models ----


def test_a_causal_text_begins_with_bos_and_is_asked_up_to_eos() -> None:
    assert causal([7, 8, 9]) == Written([BOS, 7, 8, 9], [7, 8, 9, EOS], 0, [0, 0, 0, 0], [0, 1, 2, 3])
    assert causal([]) == Written([BOS], [EOS], 0, [0], [0])


def test_a_prefix_is_seen_both_ways_and_only_what_is_behind_it_is_asked() -> None:
    row = prefix_lm([7, 8, 9, 10, 11], 2)
    assert row == Written([BOS, 7, 8, 9, 10, 11], [PAD, PAD, 9, 10, 11, EOS], 3, [0] * 6, [0, 1, 2, 3, 4, 5])
    assert prefix_lm([7, 8], 0).targets == causal([7, 8]).targets
    assert prefix_lm([7, 8], 2).targets == [PAD, PAD, EOS]


@given(text=texts, share=st.floats(0, 1))
def test_nothing_that_a_prefix_shows_is_asked_and_all_behind_it_is(text: list[int], share: float) -> None:
    split = int(share * len(text))
    row = prefix_lm(text, split)
    asked = [at for at, target in enumerate(row.targets) if target != PAD]
    # The target at `at` is the token at `at + 1`, which none may see who is asked for it.
    assert all(at + 1 >= row.prefix for at in asked)
    assert [row.targets[at] for at in asked] == [*text[split:], EOS]


@pytest.mark.parametrize("split", [-1, 4])
def test_a_split_outside_the_text_is_refused(split: int) -> None:
    with pytest.raises(ValueError, match="3 tokens: give 0 to 3"):
        prefix_lm([7, 8, 9], split)


def test_a_random_split_is_at_any_place_between_two_tokens_as_likely() -> None:
    draw = rng()
    found = [random_split(5, draw) for _ in range(4000)]
    assert set(found) == {1, 2, 3, 4}
    assert all_alike(found, 4)
    assert random_split(2, draw) == 1
    with pytest.raises(ValueError, match="1 tokens cannot be split"):
        random_split(1, draw)


def test_of_a_chat_only_the_answers_are_asked() -> None:
    #        BOS  user  hello  bot    hi   EOS  user  bye
    tokens = [1, 30, 31, 32, 33, 2, 30, 34]
    row = answers(tokens, [False, False, False, False, True, True, False, False])
    assert row.tokens == [1, 30, 31, 32, 33, 2, 30]
    assert row.targets == [PAD, PAD, PAD, 33, 2, PAD, PAD]
    assert (row.prefix, row.positions, row.documents) == (0, [0, 1, 2, 3, 4, 5, 6], [0] * 7)


def test_a_chat_that_asks_all_but_bos_is_a_causal_text() -> None:
    assert answers([BOS, 7, 8, EOS], [False, True, True, True]) == causal([7, 8])


@pytest.mark.parametrize(
    ("tokens", "asked", "told"),
    [
        ([1, 7, 8], [False, True], "3 tokens, but 2 marks"),
        ([1, 7, 8], [False, False, False], "teaches nothing"),
        ([7, 8], [True, True], "begin the text with BOS"),
        ([1, PAD, 8], [False, True, True], "PAD is asked"),
        ([PAD, 8], [True, False], "BOS, not asked; PAD is asked"),
    ],
)
def test_marks_that_ask_what_cannot_be_are_refused(tokens: list[int], asked: list[bool], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        answers(tokens, asked)


# ---- rows of a fixed length ----


def test_texts_are_joined_with_eos_behind_each() -> None:
    assert joined([[7, 8], [], [9]]) == [7, 8, EOS, EOS, 9, EOS]
    assert joined([[7, 8], [9]], begin=True) == [BOS, 7, 8, EOS, BOS, 9, EOS]


def test_blocks_overlap_by_the_token_that_is_asked_and_read() -> None:
    rows, rest = blocks([7, 8, 9, 10, 11, 12], 2)
    assert [(row.tokens, row.targets) for row in rows] == [([7, 8], [8, 9]), ([9, 10], [10, 11])]
    assert rest == [11, 12]
    assert (rows[1].positions, rows[1].documents, rows[1].prefix) == ([0, 1], [0, 0], 0)
    assert blocks([7, 8, 9], 2) == ([Written([7, 8], [8, 9], 0, [0, 0], [0, 1])], [9])
    assert blocks([7, 8], 2) == ([], [7, 8])
    assert blocks([], 2) == ([], [])
    with pytest.raises(ValueError, match="rows of 0 tokens"):
        blocks([7, 8], 0)


@given(text=texts, more=texts, length=st.integers(1, 7))
def test_blocks_ask_each_token_once_and_go_on_where_they_stopped(text: list[int], more: list[int], length: int) -> None:
    rows, rest = blocks(text, length)
    assert [token for row in rows for token in row.tokens] + rest == text
    asked = [token for row in rows for token in row.targets]
    assert asked == text[1 : 1 + len(rows) * length]
    assert len(rest) <= length
    assert all(len(row.tokens) == len(row.targets) == length for row in rows)
    then, left = blocks([*rest, *more], length)
    assert ([*rows, *then], left) == blocks([*text, *more], length)


def test_texts_are_packed_into_the_first_row_with_room() -> None:
    rows = pack([causal(text) for text in ([20, 21, 22], [23, 24, 25, 26], [27], [28, 29], [30, 31])], 6)
    # Their lengths with BOS are 4, 5, 2, 3, 3: 4 + 2, 5, 3 + 3.
    assert rows[0] == Written(
        [BOS, 20, 21, 22, BOS, 27], [20, 21, 22, EOS, 27, EOS], 0, [0, 0, 0, 0, 2, 2], [0, 1, 2, 3, 0, 1]
    )
    assert rows[1].documents == [1] * 5
    assert rows[2].documents == [3, 3, 3, 4, 4, 4]
    assert rows[2].targets == [28, 29, EOS, 30, 31, EOS]
    assert len(rows) == 3
    assert pack([], 6) == []


@given(sizes=st.lists(st.integers(0, 8)), length=st.integers(9, 13))
def test_packing_loses_nothing_and_opens_a_row_only_where_no_other_has_room(sizes: list[int], length: int) -> None:
    given_texts = [causal([20 + number] * size) for number, size in enumerate(sizes)]
    rows = pack(given_texts, length)
    found: dict[int, list[tuple[int, int, int]]] = {}
    for row in rows:
        assert len(row.tokens) <= length
        for number, *rest in zip(row.documents, row.tokens, row.targets, row.positions, strict=True):
            found.setdefault(number, []).append(tuple(rest))
    assert found == {
        number: list(zip(text.tokens, text.targets, text.positions, strict=True))
        for number, text in enumerate(given_texts)
    }
    # First fit, as it is told: try the rows in turn.
    plan: list[list[int]] = []
    for number, size in enumerate(sizes):
        for row in plan:
            if sum(sizes[other] + 1 for other in row) + size + 1 <= length:
                row.append(number)
                break
        else:
            plan.append([number])
    assert [list(dict.fromkeys(row.documents)) for row in rows] == plan


def test_what_cannot_be_packed_is_refused_and_all_of_it_told() -> None:
    fitting, long, prefixed = causal([7]), causal([7, 8, 9]), prefix_lm([7], 0)
    assert len(pack([fitting, long], 4)) == 2
    with pytest.raises(ValueError, match=r"too short for 2 of 3 texts, the first of them text 1: take 5 or more"):
        pack([fitting, long, causal([7, 8, 9, 10])], 3)
    with pytest.raises(ValueError, match="text 1 has a prefix"):
        pack([fitting, prefixed], 4)
    with pytest.raises(ValueError, match="text 0 has a prefix or is packed already"):
        pack(pack([fitting, fitting], 4), 4)


# ---- encoders ----


def test_masking_asks_15_percent_and_reads_80_10_10_of_these() -> None:
    draw, kinds, asked_at = rng(), Counter[str](), Counter[int]()
    text = list(PIECES)  # 40 pieces, of which 6 are asked
    for _ in range(2000):
        found = masked([CLS, *text, SEP], draw, mask=MASK, pieces=PIECES)
        asked = [at for at, target in enumerate(found.targets) if target != PAD]
        assert len(asked) == 6
        asked_at.update(asked)
        for at, (was, now) in enumerate(zip([CLS, *text, SEP], found.tokens, strict=True)):
            if at not in asked:
                assert was == now
                continue
            assert found.targets[at] == was
            assert now == MASK or now in PIECES
            kinds["mask" if now == MASK else "kept" if now == was else "other"] += 1
    assert within(kinds["mask"], 12_000, 0.8)
    assert within(kinds["kept"], 12_000, 0.1 + 0.1 / 40)  # any piece may be the one that was there
    assert within(kinds["other"], 12_000, 0.1 * 39 / 40)
    assert set(asked_at) == set(range(1, 41))
    assert all(within(count, 2000, 6 / 40) for count in asked_at.values())


def test_pieces_that_are_drawn_are_all_ordinary_ones_as_likely() -> None:
    draw, found = rng(), list[int]()
    for _ in range(6000):
        found += [now for now in masked([20] * 3, draw, mask=MASK, pieces=range(20, 23), share=1.0).tokens if now != 20]
    # Of 18,000, a tenth are drawn, and a third of these are 20 again.
    drawn = [now for now in found if now != MASK]
    assert set(drawn) == {21, 22}
    assert within(drawn.count(21), 18_000, 0.1 / 3)
    assert within(drawn.count(22), 18_000, 0.1 / 3)


@given(
    text=st.lists(st.integers(1, PIECES.stop + 3), min_size=1),
    share=st.floats(0.01, 1.0),
    seed=seeds,
)
def test_masking_never_asks_or_draws_control_tokens_and_asks_one_where_it_can(
    text: list[int], share: float, seed: int
) -> None:
    found = masked(text, rng(seed), mask=MASK, pieces=PIECES, share=share)
    ordinary = [token for token in text if token in PIECES]
    asked = [target for target in found.targets if target != PAD]
    assert all(target in PIECES for target in asked)
    assert len(asked) == (max(1, round(share * len(ordinary))) if ordinary else 0)
    for was, now, target in zip(text, found.tokens, found.targets, strict=True):
        assert target in (PAD, was)
        assert now == was or (target != PAD and (now == MASK or now in PIECES))
    assert found == masked(text, rng(seed), mask=MASK, pieces=PIECES, share=share)
    assert (found.segments, found.next) == ([0] * len(text), None)


def test_whole_words_are_asked_as_a_whole_within_the_share() -> None:
    draw, alone = rng(), Counter[tuple[int, ...]]()
    tokens = [CLS, 20, 21, 22, 23, 24, 25, SEP]
    word_of = [None, 0, 1, 1, 2, 3, 3, None]
    for _ in range(3000):
        found = masked(tokens, draw, mask=MASK, pieces=PIECES, share=0.5, word_of=word_of)
        asked = tuple(at for at, target in enumerate(found.targets) if target != PAD)
        for word in ((1,), (2, 3), (4,), (5, 6)):
            assert set(word) <= set(asked) or not set(word) & set(asked)
        alone[asked] += 1
    # Three tokens may be asked. A long word and then a short one, or the other way round, fill them; two short words
    # leave room for one token, which no long word fits in: a short one is drawn first, and of the rest the other short.
    both = {(1, 2, 3), (2, 3, 4), (1, 5, 6), (4, 5, 6)}
    assert set(alone) == both | {(1, 4)}
    assert within(alone[(1, 4)], 3000, 1 / 2 * 1 / 3)
    assert all(within(alone[one], 3000, 5 / 6 / 4) for one in both)


def test_a_word_longer_than_the_share_is_asked_where_it_is_drawn_first() -> None:
    found = masked([20, 21, 22], rng(), mask=MASK, pieces=PIECES, word_of=[0, 0, 0])
    assert found.targets == [20, 21, 22]


def test_masking_hands_on_what_is_known_of_the_texts() -> None:
    found = masked([CLS, 20, SEP, 21, SEP], rng(), mask=MASK, pieces=PIECES, segments=[0, 0, 0, 1, 1], next=False)
    assert (found.segments, found.next) == ([0, 0, 0, 1, 1], False)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"word_of": [0]}, "word_of has 1 entries for 2 tokens"),
        ({"segments": [0, 0, 1]}, "segments has 3 entries for 2 tokens"),
        ({"share": 0.0}, "share = 0.0"),
        ({"share": 1.01}, "share = 1.01"),
    ],
)
def test_masking_refuses_what_does_not_fit(more: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        masked([20, 21], rng(), mask=MASK, pieces=PIECES, **more)


def test_the_next_sentence_is_the_true_one_in_half_of_all_draws() -> None:
    documents = [[[20], [21, 22], [23]], [[30], [31], [32]], [], [[40]]]
    draw, true, others = rng(), 0, list[int]()
    for _ in range(4000):
        found = next_sentence(documents, 0, 1, draw, cls=CLS, sep=SEP)
        assert found.targets == [PAD] * len(found.tokens)
        if found.next:
            true += 1
            assert (found.tokens, found.segments) == ([CLS, 21, 22, SEP, 23, SEP], [0, 0, 0, 0, 1, 1])
        else:
            assert found.tokens[:4] == [CLS, 21, 22, SEP]
            assert found.tokens[5:] == [SEP]
            others.append(found.tokens[4])
    assert within(true, 4000, 0.5)
    # The other document is drawn, then a sentence of it: never one of the same document.
    assert set(others) == {30, 31, 32, 40}
    assert within(others.count(40), len(others), 1 / 2)
    assert all(within(others.count(one), len(others), 1 / 6) for one in (30, 31, 32))


def test_a_sentence_without_a_next_one_or_without_others_is_refused() -> None:
    with pytest.raises(ValueError, match="document 1 has 1 sentences, and none behind sentence 0"):
        next_sentence([[[20], [21]], [[30]]], 1, 0, rng(), cls=CLS, sep=SEP)
    with pytest.raises(ValueError, match="no other document has a sentence"):
        next_sentence([[[20], [21]], []], 0, 0, rng(), cls=CLS, sep=SEP)
    with pytest.raises(ValueError, match=r"none behind sentence 1.*; no other document"):
        next_sentence([[[20], [21]]], 0, 1, rng(), cls=CLS, sep=SEP)


@given(text=st.lists(st.integers(1, 40), max_size=30), one_in=st.integers(1, 8), seed=seeds)
def test_a_prediction_sees_exactly_the_tokens_of_lower_rank(text: list[int], one_in: int, seed: int) -> None:
    found = permuted(text, rng(seed), pieces=PIECES, one_in=one_in)
    assert found.tokens == text
    assert sorted(found.rank) == list(range(len(text)))
    asked = [at for at, target in enumerate(found.targets) if target != PAD]
    ordinary = sum(token in PIECES for token in text)
    assert len(asked) == (max(1, round(ordinary / one_in)) if ordinary else 0)
    for at in asked:
        assert found.targets[at] == text[at]
        assert text[at] in PIECES
        seen = {other for other in range(len(text)) if found.rank[other] < found.rank[at]}
        # All that is not asked, and of the asked ones those before it in the order: one more each time.
        unasked = set(range(len(text))) - set(asked)
        assert unasked <= seen
        assert len(seen) == found.rank[at]
        assert at not in seen
    assert sorted(found.rank[at] for at in asked) == list(range(len(text) - len(asked), len(text)))
    assert all(found.rank[at] < len(text) - ordinary for at, token in enumerate(text) if token not in PIECES)


def test_every_order_of_prediction_is_as_likely_and_one_token_in_six_is_asked() -> None:
    draw = rng()
    found = [permuted([20, 21, CLS, 22], draw, pieces=PIECES) for _ in range(6000)]
    assert all_alike([tuple(one.rank) for one in found], 6)
    assert {one.rank[2] for one in found} == {0}
    assert sum(target != PAD for target in permuted(list(PIECES), draw, pieces=PIECES).targets) == 7  # 40 / 6
    with pytest.raises(ValueError, match="one_in = 0"):
        permuted([20], draw, pieces=PIECES, one_in=0)


# ---- spans that are drawn ----


def test_sources_and_targets_are_as_long_as_t5_says() -> None:
    """The README and tests of text-to-text-transfer-transformer: a text of 568 tokens is read as 512 and asked as 114.
    It has no final sentinel; the paper's figure has."""
    assert corrupted_lengths(568, final=False) == (512, 114)
    assert corrupted_lengths(568) == (512, 115)
    found = span_corruption([20] * 568, rng(), sentinels=SENTINELS)
    assert (len(found.source) + 1, len(found.target) + 1) == (512, 115)


@pytest.mark.parametrize(
    ("room", "density", "mean", "length", "target"),
    [
        (512, 0.15, 3.0, 568, 114),  # T5
        (64, 0.20, 2.0, 70, 22),  # t5/data/preprocessors_test.py, test_random_spans_helper
        (64, 0.20, 1.0, 63, 27),  # the same
        (10, 0.15, 3.0, 10, 4),  # axlearn/common/input_lm_test.py, test_random_spans_helper
        (10, 0.50, 3.0, 14, 10),  # the same
    ],
)
def test_the_longest_text_that_fills_a_source_is_that_of_t5(
    room: int, density: float, mean: float, length: int, target: int
) -> None:
    assert expanded_length(room, density=density, mean=mean) == length
    assert corrupted_lengths(length, density=density, mean=mean, final=False)[1] == target
    assert corrupted_lengths(length, density=density, mean=mean)[0] <= room
    assert corrupted_lengths(length + 1, density=density, mean=mean)[0] > room


def test_no_text_fits_where_there_is_no_room_for_its_sentinel() -> None:
    assert expanded_length(3) == 2
    with pytest.raises(ValueError, match="room for 2 tokens: the shortest source has 3"):
        expanded_length(2)


def test_spans_are_as_many_and_as_long_as_the_shares_say() -> None:
    """t5/data/preprocessors_test.py, test_random_spans_noise_mask: of 32 tokens, 4 spans that hold 8."""
    spans = random_spans(32, rng(), density=0.25, mean=2.0)
    assert len(spans) == 4
    assert sum(end - begin for begin, end in spans) == 8


def test_every_way_of_cutting_is_as_likely() -> None:
    """Of 9 tokens, 4 are dropped in 2 spans: 3 ways to cut these, times 4 ways to cut the 5 that stay."""
    draw = rng()
    found = [tuple(random_spans(9, draw, density=0.4, mean=2.0)) for _ in range(6000)]
    ways = {
        ((keep, keep + drop), (5 + drop, 9))  # the second span begins behind all that stay and the first span
        for keep in range(1, 5)
        for drop in range(1, 4)
    }
    assert set(found) == ways
    assert all_alike(found, 12)


@given(
    text=st.lists(st.integers(PIECES.start, PIECES.stop - 1), min_size=2, max_size=90),
    density=st.floats(0.01, 0.99),
    mean=st.floats(1, 70),
    final=st.booleans(),
    seed=seeds,
)
def test_source_and_target_give_the_text_back(
    text: list[int], density: float, mean: float, final: bool, seed: int
) -> None:
    found = span_corruption(text, rng(seed), sentinels=SENTINELS, density=density, mean=mean, final=final)
    # The target's runs, each behind its sentinel, go where their sentinels stand in the source.
    runs: dict[int, list[int]] = {}
    for token in found.target:
        if token in SENTINELS:
            runs[token] = []
        else:
            runs[list(runs)[-1]].append(token)
    spots = [token for token in found.source if token in SENTINELS]
    assert [one for token in found.source for one in (runs[token] if token in SENTINELS else [token])] == text
    assert list(runs) == [*SENTINELS[: len(spots) + final]]
    assert spots == [*SENTINELS[: len(spots)]]
    assert all(runs[token] for token in spots)
    assert not final or found.target[-1] == SENTINELS[len(spots)]
    assert found.source[0] not in SENTINELS
    assert all(not (one in SENTINELS and other in SENTINELS) for one, other in pairwise(found.source))
    lengths = corrupted_lengths(len(text), density=density, mean=mean, final=final)
    assert (len(found.source) + 1, len(found.target) + 1) == lengths


def test_a_corrupted_text_reads_as_the_papers_figure() -> None:
    text = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29]
    found = span_corruption(text, rng(3), sentinels=[901, 902, 903], density=0.3, mean=1.5)
    (a, b), (c, d) = random_spans(10, rng(3), density=0.3, mean=1.5)
    assert found == Pair([*text[:a], 901, *text[b:c], 902, *text[d:]], [901, *text[a:b], 902, *text[c:d], 903])
    found = span_corruption(text, rng(3), sentinels=[901, 902], density=0.3, mean=1.5, final=False)
    assert found.target == [901, *text[a:b], 902, *text[c:d]]


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        ([20], {}, "a text of 1 tokens has nothing to drop"),
        ([20, 21], {"density": 1.0}, "density = 1.0"),
        ([20, 21], {"density": 0.0}, "density = 0.0"),
        ([20, 21], {"mean": 0.5}, "mean = 0.5"),
        ([20], {"mean": 0.5, "density": 2.0}, "nothing to drop.*; density = 2.0.*; mean = 0.5"),
        ([20] * 10, {"density": 0.3, "mean": 1.0}, "3 spans of a text of 10 tokens need 4 sentinels, and there are 3"),
        ([20, 902, 21], {}, "the text has token 902, which is a sentinel"),
    ],
)
def test_texts_that_cannot_be_corrupted_are_refused(text: list[int], more: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        span_corruption(text, rng(), sentinels=[901, 902, 903], **more)


MODES = {"R": 801, "S": 802, "X": 803}


def test_ul2_has_the_denoisers_of_its_table() -> None:
    assert Counter(DENOISERS) == Counter(
        [
            *[("R", 3, 0.15), ("R", 8, 0.15), ("S", None, 0.25)],
            *[("X", 3, 0.5), ("X", 8, 0.5), ("X", 64, 0.15), ("X", 64, 0.5)],
        ]
    )


def test_ul2_draws_each_denoiser_as_often_and_says_its_mode() -> None:
    """Of 400 tokens each denoiser leaves as many as no other: 60 dropped in 20, 8 or 1 spans, 200 in 67, 25 or 3."""
    draw, text, seen = rng(), [20] * 400, list[object]()
    counts = {("R", 20, 60), ("R", 8, 60), ("X", 67, 200), ("X", 25, 200), ("X", 1, 60), ("X", 3, 200)}
    lengths = list[int]()
    for _ in range(2800):
        found = ul2(text, draw, sentinels=SENTINELS, modes=MODES)
        letter = {number: letter for letter, number in MODES.items()}[found.source[0]]
        if letter == "S":
            assert not set(found.source + found.target) & set(SENTINELS)
            assert len(found.source) - 1 + len(found.target) == 400
            lengths.append(len(found.target))
            seen.append("S")
            continue
        spans = sum(token in SENTINELS for token in found.source)
        assert (letter, spans, found.target.count(20)) in counts
        assert found.target[-1] == SENTINELS[spans]
        seen.append((letter, spans, found.target.count(20)))
    assert all_alike(seen, 7)
    # Uniform from 1 to 199: mean 100, a quarter of the text.
    assert min(lengths) < 20
    assert 180 < max(lengths) <= 199
    assert abs(float(np.mean(lengths)) - 100) <= 6 * math.sqrt((199**2 - 1) / 12 / len(lengths))


def test_ul2_splits_a_text_for_its_sequential_denoiser() -> None:
    draw, text, sequential = rng(), list(PIECES)[:12], [Denoiser("S", None, 0.25)]
    found = [ul2(text, draw, sentinels=[], modes={"S": 802}, denoisers=sequential) for _ in range(3000)]
    assert all(one.source[0] == 802 and one.source[1:] + one.target == text for one in found)
    assert all_alike([len(one.target) for one in found], 5)  # 1 to 2 * 3 - 1
    assert {len(one.target) for one in found} == {1, 2, 3, 4, 5}
    halves = [Denoiser("S", None, 0.9)]
    short = [len(ul2([20, 21, 22], draw, sentinels=[], modes=MODES, denoisers=halves).target) for _ in range(50)]
    assert set(short) == {1, 2}  # something is always left to read


def test_ul2_hands_on_the_final_sentinel_and_refuses_a_mode_that_nothing_says() -> None:
    only = [Denoiser("X", 3, 0.5)]
    found = ul2([20] * 12, rng(), sentinels=SENTINELS, modes=MODES, denoisers=only, final=False)
    assert (found.source[0], found.target[-1]) == (803, 20)
    with pytest.raises(ValueError, match="no token says mode S"):
        ul2([20, 21], rng(), sentinels=SENTINELS, modes={"R": 801, "X": 803})


# ---- fine-tuning ----


def test_texts_for_fine_tuning_stand_between_cls_and_sep() -> None:
    assert classification([20, 21], 1, num=2, cls=CLS, sep=SEP) == Labelled([CLS, 20, 21, SEP], [0, 0, 0, 0], 1)
    two = Labelled([CLS, 20, 21, SEP, 22, SEP], [0, 0, 0, 0, 1, 1], 2)
    assert pairs([20, 21], [22], 2, num=3, cls=CLS, sep=SEP) == two
    number = regression([20, 21], [22], 3, cls=CLS, sep=SEP)
    assert (number.tokens, number.segments, number.label) == (two.tokens, two.segments, 3.0)
    assert isinstance(number.label, float)
    assert regression([20], None, -0.5, cls=CLS, sep=SEP) == Labelled([CLS, 20, SEP], [0, 0, 0], -0.5)
    assert contrastive([20], [21, 22], cls=CLS, sep=SEP) == Contrast([CLS, 20, SEP], [CLS, 21, 22, SEP])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: classification([20], 2, num=2, cls=CLS, sep=SEP), "class 2, but they are 0 to 1"),
        (lambda: pairs([20], [21], -1, num=3, cls=CLS, sep=SEP), "class -1, but they are 0 to 2"),
        (lambda: regression([20], None, math.nan, cls=CLS, sep=SEP), "nan cannot be learned"),
        (lambda: contrastive([], [20], cls=CLS, sep=SEP), "empty anchor"),
        (lambda: contrastive([20], [], cls=CLS, sep=SEP), "empty positive"),
        (lambda: tagging([[20]], [1, 2], cls=CLS, sep=SEP), "1 words have 2 tags"),
        (lambda: tagging([[20], []], [1, 2], cls=CLS, sep=SEP), "word 1 has no pieces"),
        (lambda: tagging([[]], [], cls=CLS, sep=SEP), "1 words have 0 tags.*; word 0"),
    ],
)
def test_what_cannot_be_learned_is_refused(call: Callable[[], object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        call()


def test_the_first_piece_of_each_word_has_its_tag() -> None:
    found = tagging([[20], [21, 22, 23], [24, 25]], [0, 3, 1], cls=CLS, sep=SEP)
    no = NOT_ASKED
    assert no == -100
    assert found == Tagged([CLS, 20, 21, 22, 23, 24, 25, SEP], [no, 0, 3, no, no, 1, no, no])


# ---- answers that are found ----


def test_pieces_are_of_the_characters_that_they_spell() -> None:
    text = "aé日b"
    assert offsets([b"a", b"\xc3\xa9", "日b".encode()], text) == [(0, 1), (1, 2), (2, 4)]
    # 日 is three bytes, cut in two: both pieces have the whole character.
    assert offsets([b"a\xc3", b"\xa9\xe6", b"\x97\xa5", b"b"], text) == [(0, 2), (1, 3), (2, 3), (3, 4)]
    assert offsets([b" ", "aé".encode(), b"", "日b".encode(), b""], text) == [(0, 0), (0, 2), (2, 2), (2, 4), (4, 4)]
    assert offsets([b" a", "é日b".encode()], text) == [(0, 1), (1, 4)]
    assert offsets([], "") == []
    for wrong in ([b"a"], [b"xa", "é日b".encode()], [b"  a", "é日b".encode()], [b"b", "é日b".encode()]):
        with pytest.raises(ValueError, match="do not give the text back"):
            offsets(wrong, text)


LINES = [
    "Paris is the capital of France.",
    "Die Hauptstadt heißt Paris.",
    "首都はパリです。",
    "A man's 12 trees  stood.",
]


@pytest.mark.parametrize(
    "config",
    [BPEConfig(vocab_size=266), CharBPEConfig(vocab_size=300), UnigramConfig(vocab_size=266)],
    ids=lambda config: config.kind,
)
def test_the_pieces_of_lossless_vocabularies_know_their_characters(config) -> None:
    tokenizer = Tokenizer.train(LINES, config)
    for line in LINES:
        ids = tokenizer.encode(line)
        found = offsets([tokenizer.piece_bytes(number) for number in ids], line)
        for number, (begin, end) in zip(ids, found, strict=True):
            assert tokenizer.piece_bytes(number).strip(b" ") in line[begin:end].encode()
        assert (found[0][0], found[-1][1]) == (0, len(line))
        assert all(one[1] - 1 <= other[0] <= one[1] for one, other in pairwise(found))


def test_the_pieces_of_a_vocabulary_that_loses_words_say_so() -> None:
    tokenizer = Tokenizer.train(LINES[:2], WordPieceConfig(vocab_size=50))
    pieces = [tokenizer.piece_bytes(number) for number in tokenizer.encode("Zürich!")]
    with pytest.raises(ValueError, match="take a lossless vocabulary"):
        offsets(pieces, "Zürich!")


def test_windows_begin_a_stride_apart_and_the_last_ends_the_text() -> None:
    assert windows(10, 4, 3) == [range(0, 4), range(3, 7), range(6, 10)]
    assert windows(11, 4, 3) == [range(0, 4), range(3, 7), range(6, 10), range(9, 11)]
    assert windows(4, 4, 3) == [range(0, 4)]
    assert windows(5, 4, 4) == [range(0, 4), range(4, 5)]
    assert windows(0, 4, 1) == [range(0, 0)]
    for stride in (0, 5):
        with pytest.raises(ValueError, match="take a stride from 1 to 4"):
            windows(10, 4, stride)


@given(length=st.integers(0, 40), room=st.integers(1, 9), share=st.floats(0, 1))
def test_windows_hold_every_token_and_no_more_of_them_than_are_needed(length: int, room: int, share: float) -> None:
    stride = 1 + int(share * (room - 1))
    found = windows(length, room, stride)
    assert sorted({at for view in found for at in view}) == list(range(length))
    assert all(len(view) == room for view in found[:-1])
    assert len(found[-1]) <= room
    assert len(found) == 1 or found[-2].stop < length


def letters(count: int) -> tuple[list[int], list[tuple[int, int]]]:
    """A context whose token 20 + i is of the characters 2 i and 2 i + 1."""
    return [20 + number for number in range(count)], [(2 * number, 2 * number + 2) for number in range(count)]


SHAPE = {"cls": CLS, "sep": SEP}


def test_an_answer_is_found_in_the_windows_that_hold_all_of_it_and_else_cls_is() -> None:
    context, extents = letters(6)
    found = span_answer([50, 51], context, extents, (5, 8), **SHAPE, max_len=9, stride=2)
    # Characters 5 to 7 are of tokens 2 and 3; room for 4 tokens, behind [cls] 50 51 [sep].
    assert found == [
        SpanAnswer([CLS, 50, 51, SEP, 20, 21, 22, 23, SEP], [0, 0, 0, 0, 1, 1, 1, 1, 1], 6, 7),
        SpanAnswer([CLS, 50, 51, SEP, 22, 23, 24, 25, SEP], [0, 0, 0, 0, 1, 1, 1, 1, 1], 4, 5),
    ]
    # Token 1 stands in the first window alone.
    ends = [(one.begin, one.end) for one in span_answer([50], context, extents, (2, 4), **SHAPE, max_len=8, stride=2)]
    assert ends == [(4, 4), (0, 0)]
    # Half of an answer is none.
    ends = [(one.begin, one.end) for one in span_answer([50], context, extents, (2, 6), **SHAPE, max_len=8, stride=2)]
    assert ends == [(4, 5), (0, 0)]


def test_a_question_without_an_answer_answers_with_cls_everywhere() -> None:
    context, extents = letters(6)
    found = span_answer([50], context, extents, None, **SHAPE, max_len=8, stride=1)
    assert [(one.begin, one.end) for one in found] == [(0, 0)] * 3
    assert found[2].tokens == [CLS, 50, SEP, 22, 23, 24, 25, SEP]


@settings(deadline=None)
@given(
    count=st.integers(1, 20),
    question=st.integers(0, 3),
    room=st.integers(1, 8),
    share=st.floats(0, 1),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_what_stands_between_begin_and_end_is_the_answer(
    count: int, question: int, room: int, share: float, ends: tuple[float, float]
) -> None:
    context, extents = letters(count)
    begin, end = sorted(min(int(one * 2 * count), 2 * count - 1) for one in ends)
    wanted, stride = context[begin // 2 : end // 2 + 1], 1 + int(share * (room - 1))
    shape = {**SHAPE, "max_len": question + 3 + room, "stride": stride}
    views = windows(count, room, stride)
    if not any(set(wanted) <= set(context[view.start : view.stop]) for view in views):
        with pytest.raises(ValueError, match=f"the answer has {len(wanted)} tokens, and no window of {room} tokens"):
            span_answer([50] * question, context, extents, (begin, end + 1), **shape)
        return
    found = span_answer([50] * question, context, extents, (begin, end + 1), **shape)
    for view, one in zip(views, found, strict=True):
        held = set(wanted) <= set(context[view.start : view.stop])
        assert one.tokens[one.begin : one.end + 1] == (wanted if held else [CLS])
        assert one.tokens[question + 2 : -1] == context[view.start : view.stop]


def test_questions_that_cannot_be_asked_are_refused() -> None:
    context, extents = letters(6)
    with pytest.raises(ValueError, match="6 tokens of context have 5 extents"):
        span_answer([50], context, extents[:5], None, **SHAPE, max_len=8, stride=1)
    with pytest.raises(ValueError, match="no room for its context in max_len = 4: take 5 or more"):
        span_answer([50], context, extents, None, **SHAPE, max_len=4, stride=1)
    assert len(span_answer([50], context, extents, None, **SHAPE, max_len=5, stride=1)) == 6
    with pytest.raises(ValueError, match="no token is of the characters 12 to 14"):
        span_answer([50], context, extents, (12, 14), **SHAPE, max_len=8, stride=1)
    with pytest.raises(ValueError, match="no token is of the characters 3 to 3"):
        span_answer([50], context, extents, (3, 3), **SHAPE, max_len=8, stride=1)


def test_an_answer_begins_in_the_piece_that_has_its_space() -> None:
    """`in Paris .` in pieces with their spaces before them; the last piece adds nothing, and is in no answer."""
    extents = offsets([b"in", b" Paris", b" .", b""], "in Paris .")
    (found,) = span_answer([50], [20, 21, 22, 23], extents, (3, 8), **SHAPE, max_len=8, stride=1)
    assert found.tokens[found.begin : found.end + 1] == [21]
    (found,) = span_answer([50], [20, 21, 22, 23], extents, (3, 10), **SHAPE, max_len=8, stride=1)
    assert found.tokens[found.begin : found.end + 1] == [21, 22]


# ---- randomness ----


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: random_split(30, rng),
        lambda rng: masked(list(PIECES), rng, mask=MASK, pieces=PIECES),
        lambda rng: next_sentence([[[20], [21]], [[30], [31], [32]]], 0, 0, rng, **SHAPE),
        lambda rng: permuted(list(PIECES), rng, pieces=PIECES),
        lambda rng: span_corruption(list(PIECES), rng, sentinels=SENTINELS),
        lambda rng: ul2(list(PIECES), rng, sentinels=SENTINELS, modes=MODES),
    ],
)
def test_the_generator_that_is_passed_in_decides_alone(draw: Callable[[np.random.Generator], object]) -> None:
    """As the loader keys it: (seed, epoch, index, again)."""
    found = [draw(np.random.default_rng([7, 0, index, 0])) for index in range(12)]
    np.random.default_rng().random()
    assert found == [draw(np.random.default_rng([7, 0, index, 0])) for index in range(12)]
    assert any(one != other for one, other in combinations(found, 2))
    assert any(draw(np.random.default_rng([7, 0, index, 1])) != one for index, one in enumerate(found))


@pytest.mark.parametrize(
    "kind", [Written, Masked, Pair, Permuted, Labelled, Tagged, SpanAnswer, Contrast], ids=lambda kind: kind.__name__
)
def test_what_a_model_reads_is_not_changed_under_it(kind: type) -> None:
    names = [field.name for field in fields(kind)]
    made = kind(*names)
    with pytest.raises(FrozenInstanceError):
        setattr(made, names[0], None)


def test_masks_are_laid_over_pairs_of_sentences() -> None:
    documents = [[[20, 21], [22, 23, 24]], [[30, 31]]]
    plain = next_sentence(documents, 0, 0, rng(), **SHAPE)
    found = masked(plain.tokens, rng(), mask=MASK, pieces=PIECES, segments=plain.segments, next=plain.next)
    assert isinstance(found, Masked)
    assert (found.segments, found.next) == (plain.segments, plain.next)
    assert [found.tokens[at] for at in (0, 3, -1)] == [CLS, SEP, SEP]
