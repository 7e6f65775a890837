"""Beam search against enumeration of the whole space, against greedy search, and against results worked out by hand."""

import math
import random
from itertools import pairwise

import pytest
import torch

from headway.config import GNMTConfig, PowerConfig, SearchConfig
from headway.generate.beam import Hypothesis, SearchError, beam_search, largest, length_limit, length_penalty
from headway.generate.decode import greedy
from toy_models import Prefix, Table, ToyModel, random_table

NEVER = (0, 1, 3)  # padding, begin of sentence, unknown
EOS = 2
# Built unchecked: the search honours negative exponents whether or not the config lets a user write them.
PENALTIES = [
    *(GNMTConfig.model_construct(alpha=alpha) for alpha in (-1.0, 0.0, 0.6, 2.0)),
    *(PowerConfig.model_construct(alpha=alpha) for alpha in (-0.7, 0.0, 1.0)),
]
by_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: f"{p.kind}{p.alpha}")


def log_probabilities(logits: tuple[float, ...]) -> list[float]:
    most = max(logits)
    norm = most + math.log(sum(math.exp(x - most) for x in logits))
    return [x - norm for x in logits]


def divisor(penalty: GNMTConfig | PowerConfig, n: int) -> float:
    return ((5 + n) / 6) ** penalty.alpha if penalty.kind == "gnmt" else n**penalty.alpha


def everything(
    table: Table, source: Prefix, limit: int, penalty: GNMTConfig | PowerConfig
) -> list[tuple[bool, float, list[int]]]:
    """Every output of a space, best first: (unfinished, -score, tokens)."""
    found = []

    def grow(prefix: Prefix, total: float) -> None:
        if len(prefix) == limit:
            found.append((True, -total / divisor(penalty, limit), list(prefix)))
            return
        for token, logprob in enumerate(log_probabilities(tuple(table(source, prefix)))):
            if token == EOS:
                found.append((False, -(total + logprob) / divisor(penalty, len(prefix) + 1), list(prefix)))
            elif token not in NEVER:
                grow((*prefix, token), total + logprob)

    grow((), 0.0)
    return sorted(found)


def plain_beam_search(
    table: Table, source: Prefix, config: SearchConfig, limit: int, *, stop_early: bool = True
) -> tuple[list[tuple[bool, float, list[int]]], int]:
    """The rules of the search word by word over lists: its results, best first, and the number of steps it took."""
    alive: list[tuple[Prefix, float]] = [((), 0.0)]
    ended: list[tuple[bool, float, list[int]]] = []
    for length in range(1, limit + 1):
        candidates = []
        for parent, (prefix, total) in enumerate(alive):
            logprobs = torch.tensor(table(source, prefix), dtype=torch.float64).log_softmax(0).tolist()
            candidates += [(-(total + p), parent, token) for token, p in enumerate(logprobs) if token not in NEVER]
        candidates.sort()
        for rank, (cost, parent, token) in enumerate(candidates):
            if token == EOS and (config.stop == "exact" or rank < config.beam):
                ended.append((False, cost / divisor(config.penalty, length), list(alive[parent][0])))
        ended.sort()
        living = [candidate for candidate in candidates if candidate[2] != EOS][: config.beam]
        alive = [((*alive[parent][0], token), -cost) for cost, parent, token in living]
        if not stop_early or len(ended) < config.beam or length == limit:
            continue
        reach = [-total / divisor(config.penalty, n) for _, total in alive for n in range(length + 1, limit + 1)]
        if config.stop == "first" or min(reach) > ended[config.beam - 1][1]:
            return ended, length
    cut = [(True, -total / divisor(config.penalty, limit), list(prefix)) for prefix, total in alive]
    return ended + sorted(cut), limit


def tokens_of(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [hypothesis.tokens for hypothesis in hypotheses]


@pytest.mark.parametrize(
    ("kind", "values"), [("gnmt", [1, 1.35866, 1.73286, 2.35436]), ("power", [1, 2.62653, 3.98107, 6.03418])]
)
def test_length_penalties_have_the_values_of_their_papers(kind: str, values: list[float]) -> None:
    penalty = GNMTConfig(alpha=0.6) if kind == "gnmt" else PowerConfig(alpha=0.6)
    assert [length_penalty(penalty, n) for n in (1, 5, 10, 20)] == pytest.approx(values, abs=6e-6)


@by_penalty
@pytest.mark.parametrize("vocab_size", [6, 7])
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(penalty: GNMTConfig | PowerConfig, vocab_size: int) -> None:
    """Also of the n-best, and although the search stops early and forgets all but the best `beam` that ended."""
    letters, limit = vocab_size - 4, 5 if vocab_size == 6 else 4
    width = letters ** (limit - 1)
    config = SearchConfig(beam=width, n_best=width, stop="exact", penalty=penalty, max_ratio=0, max_extra=limit)
    for seed in range(3):
        table = random_table(vocab_size, seed, spread=2.5)
        sources = [[9, 8], [7], [6, 6, 6]]
        for source, found in zip(sources, beam_search(ToyModel(table), sources, config, banned=NEVER), strict=True):
            best = everything(table, tuple(source), limit, penalty)[:width]
            assert tokens_of(found) == [tokens for _, _, tokens in best]
            assert [h.score for h in found] == pytest.approx([-score for _, score, _ in best], abs=1e-12)
            assert [not h.finished for h in found] == [unfinished for unfinished, _, _ in best]


@by_penalty
@pytest.mark.parametrize("tied", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("stop", ["first", "exact"])
def test_the_search_follows_its_rules_step_by_step(penalty: GNMTConfig | PowerConfig, stop: str, tied: bool) -> None:
    """Results and the step it stops at; and the early stop of `exact` loses nothing against going on to the limit."""
    limit = 7
    for beam, vocab_size, seed in [(1, 6, 1), (2, 8, 2), (3, 9, 3), (4, 7, 4), (5, 6, 5), (3, 7, 6), (2, 6, 7)]:
        table = random_table(vocab_size, seed, spread=2.0, tied=tied)
        config = SearchConfig(beam=beam, n_best=beam, stop=stop, penalty=penalty, max_ratio=0, max_extra=limit)
        for source in ((5,), (6, 7)):
            model = ToyModel(table)
            [found] = beam_search(model, [list(source)], config, banned=NEVER)
            expected, steps = plain_beam_search(table, source, config, limit)
            assert [(not h.finished, -h.score, h.tokens) for h in found] == expected[:beam]
            assert model.steps == steps
            if stop == "exact":
                assert expected[:beam] == plain_beam_search(table, source, config, limit, stop_early=False)[0][:beam]


@by_penalty
def test_a_wide_exact_search_of_few_results_stops_before_the_limit_and_loses_nothing(
    penalty: GNMTConfig | PowerConfig,
) -> None:
    """A beam of 4 over two letters is a whole space of 3 tokens, and what ends early makes longer outputs hopeless."""

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        logits = list(random_table(6, 3)(source, prefix))
        logits[EOS] = 1.0 + 6 * len(prefix)
        return logits

    limit = 12
    config = SearchConfig(beam=4, n_best=4, stop="exact", penalty=penalty, max_ratio=0, max_extra=limit)
    model = ToyModel(table)
    [found] = beam_search(model, [[5]], config, banned=NEVER)
    if penalty.alpha <= 0.6:
        assert model.steps < limit
    assert tokens_of(found) == [tokens for _, _, tokens in everything(table, (5,), limit, penalty)[:4]]


@by_penalty
@pytest.mark.parametrize("tied", [False, True], ids=["distinct", "tied"])
def test_a_beam_of_one_is_greedy_search_whatever_the_penalty(penalty: GNMTConfig | PowerConfig, tied: bool) -> None:
    config = SearchConfig(beam=1, penalty=penalty, max_ratio=1.5, max_extra=3)
    for seed in range(3):
        table = random_table(11, seed, tied=tied)
        sources = [[5] * n for n in (1, 4, 2, 7)]
        found = beam_search(ToyModel(table), sources, config, banned=NEVER)
        assert found == greedy(ToyModel(table), sources, config, banned=NEVER)
        for source, [hypothesis] in zip(sources, found, strict=True):
            prefix: Prefix = ()
            while len(prefix) < length_limit(config, source):
                logits = table(tuple(source), prefix)
                prefix += (min((t for t in range(11) if t not in NEVER), key=lambda t: (-logits[t], t)),)
                if prefix[-1] == EOS:
                    break
            assert hypothesis.tokens == [token for token in prefix if token != EOS]
            assert hypothesis.finished == (prefix[-1] == EOS)


def probabilities(tree: dict[Prefix, dict[int, float]]) -> Table:
    """A table from probabilities by prefix; what is not named has probability zero."""

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        return [math.log(tree[prefix][token]) if token in tree[prefix] else -math.inf for token in range(6)]

    return table


A, B = 4, 5
TREE: dict[Prefix, dict[int, float]] = {
    (): {EOS: 0.3, A: 0.6, B: 0.1},
    (A,): {EOS: 0.2, A: 0.1, B: 0.7},
    (B,): {EOS: 0.9, A: 0.1},
    (A, A): {EOS: 1.0},
    (A, B): {EOS: 0.9, A: 0.1},
    (B, A): {EOS: 1.0},
    (A, B, A): {EOS: 1.0},
}


def test_a_search_worked_out_by_hand() -> None:
    """Beam 2. Step 1: A .6, end .3 (second: counts), B .1; alive A, B. Step 2: A B .42, A end .12: two ended."""
    config = SearchConfig(beam=2, n_best=2, penalty=GNMTConfig(alpha=0.6))
    [found] = beam_search(ToyModel(probabilities(TREE)), [[7, EOS]], config, banned=NEVER)
    assert tokens_of(found) == [[], [A]]
    assert [h.score for h in found] == pytest.approx([math.log(0.3), math.log(0.12) / (7 / 6) ** 0.6], abs=1e-12)
    assert found[1].token_logprobs == pytest.approx([math.log(0.6), math.log(0.2)], abs=1e-12)
    assert found[1].logprob == pytest.approx(math.log(0.12), abs=1e-12)


def test_exact_goes_on_where_a_longer_output_can_still_win() -> None:
    """The same tree: A B end has .378, which beats the empty output's .3; `first` stopped before it."""
    config = SearchConfig(beam=2, n_best=2, stop="exact", penalty=GNMTConfig(alpha=0.6))
    [found] = beam_search(ToyModel(probabilities(TREE)), [[7, EOS]], config, banned=NEVER)
    assert tokens_of(found) == [[A, B], []]
    assert found[0].score == pytest.approx(math.log(0.378) / (8 / 6) ** 0.6, abs=1e-12)


def test_exact_lets_an_end_count_that_ranks_below_the_beam() -> None:
    """Beam 1: the end never ranks first before it is certain, but ending at once scores best when alpha is negative."""
    tree = {(): {EOS: 0.4, A: 0.6}, (A,): {EOS: 0.4, A: 0.6}, (A, A): {EOS: 1.0}}
    search = {"beam": 1, "penalty": PowerConfig.model_construct(alpha=-1.0)}
    [[first]] = beam_search(ToyModel(probabilities(tree)), [[7]], SearchConfig(stop="first", **search), banned=NEVER)
    [[exact]] = beam_search(ToyModel(probabilities(tree)), [[7]], SearchConfig(stop="exact", **search), banned=NEVER)
    assert first.tokens == [A, A]
    assert exact.tokens == []


def test_a_larger_alpha_never_makes_the_best_output_shorter() -> None:
    for seed in range(10):
        model = ToyModel(random_table(6, seed))
        lengths = []
        for alpha in (-2.0, -0.5, 0.0, 0.5, 1.0, 3.0):
            config = SearchConfig(
                beam=16, stop="exact", penalty=PowerConfig.model_construct(alpha=alpha), max_ratio=0, max_extra=5
            )
            [[best]] = beam_search(model, [[8]], config, banned=NEVER)
            lengths.append(len(best.tokens))
        assert lengths == sorted(lengths)


def test_ties_break_to_the_better_parent_and_then_to_the_lower_id() -> None:
    """All logits equal. Each step the end of the first parent ranks first and counts; its lowest letters stay alive."""
    config = SearchConfig(beam=4, n_best=4, penalty=PowerConfig(alpha=0))
    for size in (8, 9, 500):
        model = ToyModel(lambda source, prefix, size=size: [0.5] * size)
        [found] = beam_search(model, [[6, 6]], config, banned=NEVER)
        assert tokens_of(found) == [[], [4], [4, 4], [4, 4, 4]]
        assert found[2].logprob == pytest.approx(-3 * math.log(size), abs=1e-12)


def test_the_largest_are_those_of_a_stable_sort_however_many_are_equal() -> None:
    draw = torch.Generator().manual_seed(5)
    for rows, size, num, levels in [
        (3, 7, 2, 2),
        (5, 400, 5, 3),
        (2, 1000, 9, 1),
        (4, 6, 6, 2),
        (4, 3, 8, 2),
        (6, 90, 4, 900),
    ]:
        values = torch.randint(levels, (rows, size), generator=draw).float().neg()
        values[0, : size // 2] = -math.inf
        found, ids = largest(values, num)
        expected = values.sort(dim=1, descending=True, stable=True).indices[:, :num].sort(dim=1).values
        seen = values.gather(1, expected) > -math.inf  # which of several impossible ids comes back is nobody's business
        assert torch.equal(ids[seen], expected[seen])
        assert torch.equal(found, values.gather(1, ids))


@pytest.mark.parametrize("stop", ["first", "exact"])
@by_penalty
def test_n_best_lists_are_full_distinct_sorted_and_prefixes_of_each_other(
    penalty: GNMTConfig | PowerConfig, stop: str
) -> None:
    search = {"beam": 5, "stop": stop, "penalty": penalty, "max_extra": 2}
    for seed in range(4):
        model = ToyModel(random_table(9, seed))
        sources = [[4], [4, 5], [8, 8, 8]]
        lists = {n: beam_search(model, sources, SearchConfig(n_best=n, **search), banned=NEVER) for n in (1, 3, 5)}
        for one, three, five in zip(lists[1], lists[3], lists[5], strict=True):
            assert one == five[:1]
            assert three == five[:3]
            assert len({(*h.tokens, h.finished) for h in five}) == 5
            assert [h.finished for h in five] == sorted((h.finished for h in five), reverse=True)
            assert all(a.score >= b.score for a, b in pairwise(five) if a.finished == b.finished)
            for h in five:
                assert h.logprob == pytest.approx(sum(h.token_logprobs), abs=1e-12)
                assert len(h.token_logprobs) == len(h.tokens) + h.finished
                assert h.score == pytest.approx(h.logprob / divisor(penalty, len(h.token_logprobs)), abs=1e-12)


@pytest.mark.parametrize("stop", ["first", "exact"])
def test_outputs_that_hit_the_limit_are_marked_and_the_list_is_still_full(stop: str) -> None:
    """The limit follows each source: int(.5 * 7) + 2 = 5 tokens, int(.5 * 2) + 2 = 3."""

    def endless(source: Prefix, prefix: Prefix) -> list[float]:
        logits = list(random_table(8, 1)(source, prefix))
        logits[EOS] = -math.inf
        return logits

    config = SearchConfig(beam=3, n_best=3, stop=stop, max_ratio=0.5, max_extra=2)
    for limit, found in zip(
        (5, 3), beam_search(ToyModel(endless), [[5] * 7, [6] * 2], config, banned=NEVER), strict=True
    ):
        assert [len(h.tokens) for h in found] == [limit] * 3
        assert not any(h.finished for h in found)
    assert length_limit(SearchConfig(max_ratio=0, max_extra=0), [5]) == 1


def test_unfinished_outputs_rank_after_finished_ones_whatever_their_score() -> None:
    tree = {(): {EOS: 0.1, A: 0.9}, (A,): {A: 1.0}}
    config = SearchConfig(beam=2, n_best=2, max_ratio=0, max_extra=2)
    [found] = beam_search(ToyModel(probabilities(tree)), [[7]], config, banned=NEVER)
    assert [(h.tokens, h.finished) for h in found] == [([], True), ([A, A], False)]
    assert found[0].score < found[1].score


@pytest.mark.parametrize("stop", ["first", "exact"])
def test_a_space_smaller_than_n_gives_all_of_it(stop: str) -> None:
    config = SearchConfig(beam=5, n_best=5, stop=stop, max_ratio=0, max_extra=2)
    tree = {(): {EOS: 0.5, A: 0.5}, (A,): {EOS: 0.5, A: 0.5}}
    [found] = beam_search(ToyModel(probabilities(tree)), [[7]], config, banned=NEVER)
    assert [(h.tokens, h.finished) for h in found] == [([], True), ([A], True), ([A, A], False)]


@pytest.mark.parametrize("stop", ["first", "exact"])
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_result_depends_on_its_own_source_only(beam: int, stop: str) -> None:
    """Alone, among others, in another order, beside its own double: the same to the last bit."""
    config = SearchConfig(beam=beam, n_best=beam, stop=stop, max_extra=2)
    for tied in (False, True):
        model = ToyModel(random_table(12, 2, tied=tied), torch.float32)
        sources = [[5 + n % 7] * (1 + n % 4) for n in range(7)] + [[5], [5]]
        alone = [beam_search(model, [source], config, banned=NEVER)[0] for source in sources]
        assert beam_search(model, sources, config, banned=NEVER) == alone
        order = random.Random(3).sample(range(len(sources)), len(sources))
        assert beam_search(model, [sources[i] for i in order], config, banned=NEVER) == [alone[i] for i in order]


def test_a_source_that_is_done_costs_nothing_more() -> None:
    """Source (5,) ends at once, (6, 6) after four tokens: 2 rows, then 1 row three times."""

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        ends = source == (5,) or len(prefix) == 3
        return [0, 0, 9 if ends else -9, 0, 1, 0]

    model = ToyModel(table)
    found = beam_search(model, [[5], [6, 6]], SearchConfig(beam=1), banned=NEVER)
    assert [tokens_of(f) for f in found] == [[[]], [[A, A, A]]]
    assert (model.steps, model.row_steps) == (4, 5)


@pytest.mark.parametrize("stop", ["first", "exact"])
def test_banned_ids_never_appear_and_leave_the_probabilities_of_the_others_alone(stop: str) -> None:
    """Even when they are all the model wants to say: the scores are still its own, over the whole vocabulary."""

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        logits = list(random_table(10, 4)(source, prefix))
        logits[6] = logits[9] = logits[1] = 7.0
        return logits

    config = SearchConfig(beam=3, n_best=3, stop=stop)
    [found] = beam_search(ToyModel(table), [[4, 5]], config, banned=(*NEVER, 9, 6, 9))
    for h in found:
        assert not {0, 1, 3, 6, 9}.intersection(h.tokens)
        spoken = [*h.tokens, EOS][: len(h.token_logprobs)]
        own = [log_probabilities(tuple(table((4, 5), tuple(spoken[:i]))))[token] for i, token in enumerate(spoken)]
        assert h.token_logprobs == pytest.approx(own, abs=1e-12)


@pytest.mark.parametrize("beam", [1, 4])
def test_an_empty_output_is_allowed(beam: int) -> None:
    model = ToyModel(lambda source, prefix: [0, 0, 5, 0, 1, 1])
    [[best]] = beam_search(model, [[EOS]], SearchConfig(beam=beam), banned=NEVER)
    assert best.tokens == []
    assert best.finished


def test_no_sources_give_no_results() -> None:
    assert beam_search(ToyModel(random_table(6, 0)), [], SearchConfig()) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 2, 5, 300])
def test_logits_that_are_no_numbers_are_an_error_that_names_the_source(
    place: int, value: float, dtype: torch.dtype
) -> None:
    def table(source: Prefix, prefix: Prefix) -> list[float]:
        logits = [0.0] * 301
        logits[2] = -5.0
        if source == (8,) and len(prefix) == 2:
            logits[place] = value
        return logits

    for search in (beam_search, greedy):
        with pytest.raises(SearchError, match="source 2: ") as caught:
            search(ToyModel(table, dtype), [[6], [7], [8], [9]], SearchConfig(), banned=NEVER)
        assert caught.value.source == 2


def test_probability_zero_everywhere_is_an_error_that_names_the_source() -> None:
    def nothing(source: Prefix, prefix: Prefix) -> list[float]:
        return [-math.inf] * 6 if source == (8,) else [0.0] * 6

    def only_banned(source: Prefix, prefix: Prefix) -> list[float]:
        return [0.0, *[-math.inf] * 5] if source == (8,) else [0.0] * 6

    for table in (nothing, only_banned):
        for search in (beam_search, greedy):
            for stop in ("first", "exact"):
                with pytest.raises(SearchError, match="source 1: "):
                    search(ToyModel(table), [[6], [8]], SearchConfig(stop=stop), banned=NEVER)


def test_what_no_search_can_honour_is_refused() -> None:
    model = ToyModel(random_table(6, 0))
    with pytest.raises(ValueError, match="n_best = 5"):
        beam_search(model, [[5]], SearchConfig(beam=4, n_best=5))
    with pytest.raises(ValueError, match="end of sentence"):
        beam_search(model, [[5]], SearchConfig(), banned=[2])
    with pytest.raises(ValueError, match=r"model\.eval"):
        beam_search(model.train(), [[5]], SearchConfig())
