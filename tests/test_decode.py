"""Many sources through one model: order, batches and scores, against one source at a time and the model's own table."""

import math

import pytest
import torch

from headway.config import PowerConfig, SearchConfig
from headway.generate import decode
from headway.generate.beam import SearchError, beam_search
from headway.generate.decode import greedy, score_ids, translate_ids
from toy_models import Prefix, ToyModel, random_table

NEVER = [0, 1, 3]
EOS = 2
TEXTS = [[5] * 3, [], [7, 8], [5] * 3, [9] * 11, [], [4], [6, 7, 8, 9], [8] * 6, [5, 5]]


@pytest.mark.parametrize("beam", [1, 3])
def test_every_source_gets_its_own_result_in_order_however_they_are_batched(beam: int) -> None:
    """Empty texts and texts that come twice among them, from a list and from a stream."""
    model = ToyModel(random_table(11, 1), torch.float32)
    config = SearchConfig(beam=beam, n_best=beam, max_ratio=0.5, max_extra=3)
    alone = [beam_search(model, [[*text, EOS]], config, banned=NEVER)[0] for text in TEXTS]
    assert list(translate_ids(model, TEXTS, config)) == alone
    for lines, tokens in [(1, 8192), (3, 8192), (64, 30), (3, 1)]:
        assert list(translate_ids(model, iter(TEXTS), config, batch_lines=lines, batch_tokens=tokens)) == alone
    assert list(translate_ids(model, TEXTS[::-1], config)) == alone[::-1]
    assert list(translate_ids(model, [], config)) == []


def test_batches_keep_both_budgets_and_hold_texts_of_like_length() -> None:
    sizes, model = [], ToyModel(random_table(8, 1))
    start = model.start
    model.start = lambda sources: sizes.append([len(s) for s in sources]) or start(sources)
    list(translate_ids(model, TEXTS, SearchConfig(beam=2), batch_lines=4, batch_tokens=32))
    assert sizes == [[12], [7, 5], [4, 4, 3, 3], [2, 1, 1]]


def test_a_stream_is_read_a_pool_at_a_time_and_progress_counts_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "POOL", 4)
    read, done = [], []
    stream = (read.append(n) or text for n, text in enumerate(TEXTS))
    model = ToyModel(random_table(8, 1))
    results = translate_ids(model, stream, SearchConfig(), batch_lines=3, progress=done.append)
    next(results)
    assert len(read) == 4
    assert sum(done) == 4
    assert len(list(results)) == len(TEXTS) - 1
    assert sum(done) == len(TEXTS)


def test_padding_begin_and_unknown_never_appear_unasked_and_more_can_be_banned() -> None:
    model = ToyModel(lambda source, prefix: [9, 9, 0, 9, 8, 3, 2])
    for banned, token in [((), 4), ((4,), 5), ((4, 5), 6)]:
        [[best]] = translate_ids(model, [[5]], SearchConfig(beam=1, max_ratio=0, max_extra=3), banned=banned)
        assert best.tokens == [token] * 3


def test_a_source_that_fails_is_named_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "POOL", 4)

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        return [math.nan if source == (6, 7, 8, 9, EOS) else 0.0] * 10

    with pytest.raises(SearchError, match="source 7: ") as caught:
        list(translate_ids(ToyModel(table), TEXTS, SearchConfig()))
    assert caught.value.source == 7
    with pytest.raises(SearchError, match="source 7: "):
        list(score_ids(ToyModel(table), [(text, [4]) for text in TEXTS]))


@pytest.mark.parametrize("token", [0, 1, 2])
def test_a_control_token_in_a_text_is_refused_by_number(token: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "POOL", 2)
    model = ToyModel(random_table(8, 1))
    texts = [[4], [5], [6, token]]
    with pytest.raises(ValueError, match=f"source 2 holds the control token {token}"):
        list(translate_ids(model, texts, SearchConfig()))
    with pytest.raises(ValueError, match=f"source 2 holds the control token {token}"):
        list(score_ids(model, [(text, [4]) for text in texts]))
    with pytest.raises(ValueError, match=f"target 2 holds the control token {token}"):
        list(score_ids(model, [([4], text) for text in texts]))


@pytest.mark.parametrize("stop", ["first", "exact"])
def test_scores_of_given_outputs_equal_those_of_the_search_that_found_them(stop: str) -> None:
    model = ToyModel(random_table(10, 6), torch.float32)
    config = SearchConfig(beam=4, n_best=4, stop=stop, penalty=PowerConfig(alpha=0.8), max_extra=9)
    found = list(translate_ids(model, TEXTS, config))
    pairs = [(text, h.tokens) for text, hypotheses in zip(TEXTS, found, strict=True) for h in hypotheses if h.finished]
    hypotheses = [h for line in found for h in line if h.finished]
    assert len(pairs) > 30
    for batch_lines, batch_tokens in [(64, 4096), (1, 4096), (5, 40)]:
        scored = score_ids(model, iter(pairs), batch_lines=batch_lines, batch_tokens=batch_tokens)
        for h, logprobs in zip(hypotheses, scored, strict=True):
            assert logprobs == pytest.approx(h.token_logprobs, abs=1e-5)
            assert sum(logprobs) / len(logprobs) ** 0.8 == pytest.approx(h.score, abs=1e-5)


def test_scores_are_the_log_probabilities_of_the_table() -> None:
    """p(A) = .6, p(B | A) = .7, p(end | A B) = .9, p(end) = .3; a token of probability zero has minus infinity."""
    tree = {(): {2: 0.3, 4: 0.6, 5: 0.1}, (4,): {2: 0.3, 5: 0.7}, (4, 5): {2: 0.9, 4: 0.1}, (4, 4): {2: 1.0}}

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        following = tree.get(prefix, {2: 1.0})
        return [math.log(following[t]) if t in following else -math.inf for t in range(6)]

    pairs = [([5], [4, 5]), ([5, 6], []), ([5], [4, 4])]
    one, empty, impossible = score_ids(ToyModel(table), pairs)
    assert one == pytest.approx([math.log(0.6), math.log(0.7), math.log(0.9)], abs=1e-12)
    assert empty == pytest.approx([math.log(0.3)], abs=1e-12)
    assert impossible == [pytest.approx(math.log(0.6)), -math.inf, 0.0]


def test_scoring_in_training_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.eval"):
        list(score_ids(ToyModel(random_table(6, 0)).train(), [([5], [4])]))


def test_greedy_stops_at_the_limit_of_each_source_and_says_so() -> None:
    model = ToyModel(lambda source, prefix: [0, 0, 1 if len(prefix) < 4 else 9, 0, 2, 0])
    long, short = greedy(model, [[5] * 9, [5]], SearchConfig(max_ratio=1, max_extra=0), banned=NEVER)
    assert [(h.tokens, h.finished) for h in long] == [([4] * 4, True)]
    assert [(h.tokens, h.finished) for h in short] == [([4], False)]
