"""Subword noise has the probabilities of its papers, by enumeration of all cuts, and is a function of its key."""

import math
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from headway.config import BPEConfig, CharBPEConfig, UnigramConfig
from headway.text.noise import merge_some, sample_unigram, uniforms
from headway.text.tokenizer import Tokenizer

TEXTS = ["ein Hund läuft über die Straße", "der Hund sieht die Hunde, die laufen", "少女は犬を見る, 犬は少女を見る"] * 3
DRAWS = 6000


def statistic(found: Counter[tuple[str, ...]], chances: Mapping[tuple[str, ...], float]) -> float:
    """Pearson's, over the number of degrees of freedom, in standard deviations above what is expected."""
    assert math.isclose(sum(chances.values()), 1, rel_tol=1e-12)
    assert found.keys() <= {cut for cut, chance in chances.items() if chance > 0}
    total = found.total()
    expected = {cut: total * chance for cut, chance in chances.items() if chance > 0}
    assert min(expected.values()) >= 5
    square = sum((found[cut] - wanted) ** 2 / wanted for cut, wanted in expected.items())
    freedom = max(1, len(expected) - 1)
    return (square - freedom) / math.sqrt(2 * freedom)


def frequencies(cut: Callable[[int], list[str]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(cut(seed)) for seed in range(DRAWS))


def after_dropout(parts: tuple[str, ...], ranks: Mapping[tuple[str, str], int], dropout: float) -> Counter:
    """The probability of each end, by Provilkov et al. 2020, algorithm 1: the pairs that survive are drawn afresh
    before each merge, and the best of them is merged."""
    pairs = [(ranks[pair], at) for at in range(len(parts) - 1) if (pair := (parts[at], parts[at + 1])) in ranks]
    ends = Counter({parts: dropout ** len(pairs)})
    for better, (_, at) in enumerate(sorted(pairs)):
        merged = (*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :])
        for end, chance in after_dropout(merged, ranks, dropout).items():
            ends[end] += dropout**better * (1 - dropout) * chance
    return ends


RANKS = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2, ("c", "a"): 3, ("a", "bc"): 4, ("abc", "abc"): 5, ("c", "ab"): 6}


@pytest.mark.parametrize("dropout", [0.15, 0.5, 0.8])
@pytest.mark.parametrize("word", ["abc", "abcab"])
def test_dropout_gives_each_cut_as_often_as_the_algorithm_says(word: str, dropout: float) -> None:
    chances = after_dropout(tuple(word), RANKS, dropout)
    rare = {cut for cut, chance in chances.items() if chance * DRAWS < 5}
    found = frequencies(lambda seed: merge_some(word, RANKS, dropout, uniforms((seed, 3))))
    assert found.keys() <= chances.keys()
    kept = {cut: chance for cut, chance in chances.items() if cut not in rare} | {
        (): math.fsum(chances[cut] for cut in rare)
    }
    pooled = Counter({cut: found[cut] for cut in kept if cut}) + Counter({(): sum(found[cut] for cut in rare)})
    if kept[()] * DRAWS < 5:
        assert pooled[()] < 20
        total = sum(chance for cut, chance in kept.items() if cut)
        kept = {cut: chance / total for cut, chance in kept.items() if cut}
        del pooled[()]
    assert statistic(pooled, kept) < 4


def test_a_statistic_above_the_bound_is_possible() -> None:
    chances = after_dropout(tuple("abc"), RANKS, 0.5)
    found = frequencies(lambda seed: merge_some("abc", RANKS, 0.45, uniforms((seed, 3))))
    assert statistic(found, chances) > 4


def segmentations(word: str, pieces: Mapping[str, float]) -> list[tuple[str, ...]]:
    if not word:
        return [()]
    heads = [word[:end] for end in range(1, len(word) + 1) if word[:end] in pieces]
    return [(head, *rest) for head in heads for rest in segmentations(word[len(head) :], pieces)]


SHARES = {"a": 0.2, "b": 0.1, "c": 0.15, "ab": 0.25, "bc": 0.05, "abc": 0.05, "ca": 0.2}


@pytest.mark.parametrize("alpha", [0.1, 0.7, 1.0])
def test_unigram_sampling_gives_each_cut_as_often_as_its_pieces_say(alpha: float) -> None:
    word, scores = "abcab", {piece: math.log(share) for piece, share in SHARES.items()}
    weights = {cut: math.prod(SHARES[piece] for piece in cut) ** alpha for cut in segmentations(word, SHARES)}
    chances = {cut: weight / math.fsum(weights.values()) for cut, weight in weights.items()}
    found = frequencies(lambda seed: sample_unigram(word, scores, 3, alpha, uniforms((seed, 5))))
    assert statistic(found, chances) < 4
    other = frequencies(lambda seed: sample_unigram(word, scores, 3, alpha + 0.5, uniforms((seed, 5))))
    assert statistic(other, chances) > 4


def test_a_very_long_word_is_sampled_within_the_numbers() -> None:
    scores = {piece: math.log(share) for piece, share in SHARES.items()}
    for alpha in (1e-9, 1.0, 1e6):
        assert "".join(sample_unigram("abcab" * 900, scores, 3, alpha, uniforms((1,)))) == "abcab" * 900


def test_draws_are_uniform_and_a_function_of_the_key() -> None:
    def first(key: tuple[int, ...], number: int) -> list[float]:
        draws = uniforms(key)
        return [next(draws) for _ in range(number)]

    assert first((1, 2), 200) == first((1, 2), 200)
    assert first((1, 2), 5) != first((12,), 5)
    assert first((1, 2), 5) != first((2, 1), 5)
    many = first((9,), 20_000)
    assert 0 <= min(many) < 0.001 < 0.999 < max(many) < 1
    tenths = Counter(int(10 * draw) for draw in many)
    assert sum((tenths[tenth] - 2000) ** 2 / 2000 for tenth in range(10)) < 9 + 4 * math.sqrt(18)


@pytest.mark.parametrize("config", [BPEConfig(vocab_size=320), CharBPEConfig(vocab_size=320)], ids=["bpe", "char_bpe"])
def test_without_dropout_a_sample_is_the_encoding_and_with_all_of_it_single_letters(config: BPEConfig) -> None:
    plain = Tokenizer.train(TEXTS, config)
    almost, whole = (Tokenizer(plain._engine, noise=noise) for noise in (1e-300, 1.0))
    for text in [*TEXTS, "Ωx \x00", "über" * 40, "  ", ""]:
        ids = plain.encode(text)
        assert almost.sample(ids, (4, 2)) == ids
        cut = whole.sample(ids, (4, 2))
        assert plain.decode(cut) == text
        spelled = list(map(plain.piece_bytes, cut))
        wanted = [bytes([value]) for value in text.encode()] if config.kind == "bpe" else None
        assert spelled == wanted or (wanted is None and all(len(raw.decode(errors="replace")) == 1 for raw in spelled))


def test_with_a_high_alpha_a_sample_is_the_encoding_and_with_a_low_one_hardly_ever() -> None:
    plain = Tokenizer.train(TEXTS, UnigramConfig(vocab_size=290))
    sharp, flat = (Tokenizer(plain._engine, noise=noise) for noise in (1e5, 1e-6))
    same = 0
    for number, text in enumerate([*TEXTS, "über" * 40]):
        ids = plain.encode(text)
        assert sharp.sample(ids, (number,)) == ids
        same += flat.sample(ids, (number,)) == ids
        assert plain.decode(flat.sample(ids, (number,))) == text
    assert same < 3


def test_noise_is_part_of_the_file_and_never_of_encoding() -> None:
    noisy = Tokenizer.train(TEXTS, BPEConfig(vocab_size=320, dropout=0.5))
    plain = Tokenizer.train(TEXTS, BPEConfig(vocab_size=320))
    assert (noisy.noise, plain.noise) == (0.5, None)
    assert noisy.encode_batch(TEXTS) == plain.encode_batch(TEXTS)
    assert '"noise": 0.5' in noisy.to_json()
