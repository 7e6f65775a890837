"""Text from a language model: greedy against a loop without a cache, draws against the shares they are drawn by."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from headway.architecture import AttentionConfig, LayerConfig, LMConfig, PlainFFNConfig, StackConfig
from headway.build import build
from headway.generate.sample import choose, gumbel, sample
from headway.models.lm import LM

V = 17
PROMPTS = [[1, 5, 6], [1], [1, 7, 8, 9, 10], [1, 5]]


def make() -> LM:
    torch.manual_seed(4)
    layer = LayerConfig(mixer=AttentionConfig(num_heads=2), ffn=PlainFFNConfig(kind="relu", dim=12))
    model = build(LMConfig(dim=8, stack=StackConfig(layers=(layer,) * 2)), V).double().eval()
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return model


@torch.no_grad()
def alone(model: LM, prompt: list[int], most: int, temperature: float, seed: int, banned: set[int]) -> list[int]:
    """One text, every step from its beginning: the twin."""
    ids = list(prompt)
    for _ in range(most):
        logits = model(torch.tensor([ids]))[0, -1].tolist()
        noise = gumbel(seed, len(ids), V).tolist() if temperature else [0.0] * V
        scores = [logit / (temperature or 1) + one for logit, one in zip(logits, noise, strict=True)]
        token = max((v for v in range(V) if v not in banned), key=scores.__getitem__)
        if token == 2:
            break
        ids.append(token)
    return ids[len(prompt) :]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 3.0])
def test_a_batch_writes_what_each_text_gets_alone_without_a_cache(temperature: float) -> None:
    model, seeds, banned = make(), [3, 4, 3, 9], [0, 1, 3]
    found = sample(model, PROMPTS, max_new_tokens=9, temperature=temperature, seeds=seeds, banned=banned, end=[2])
    for prompt, seed, one in zip(PROMPTS, seeds, found, strict=True):
        expected = alone(model, prompt, 9, temperature, seed, set(banned))
        assert one.tokens == expected
        assert one.finished is (len(expected) < 9)
    order = [2, 0, 3, 1]
    again = sample(
        model,
        [PROMPTS[at] for at in order],
        max_new_tokens=9,
        temperature=temperature,
        seeds=[seeds[at] for at in order],
        banned=banned,
        end=[2],
    )
    assert [found[at] for at in order] == again, "the same whatever stands beside it"


def test_what_was_cut_off_goes_on_as_if_it_had_not_been() -> None:
    model = make()
    whole = sample(model, [[1, 5]], max_new_tokens=12, temperature=1.0, seeds=[6])[0].tokens
    begun = sample(model, [[1, 5]], max_new_tokens=5, temperature=1.0, seeds=[6])[0].tokens
    rest = sample(model, [[1, 5, *begun]], max_new_tokens=7, temperature=1.0, seeds=[6])[0].tokens
    assert begun + rest == whole


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_come_as_often_as_softmax_says(temperature: float) -> None:
    """Pearson's chi-square over 4,000 seeds, 5 degrees of freedom: above 20.5 once in a thousand."""
    logits, num = torch.tensor([[0.0, 1.0, -1.0, 2.0, 0.5, -torch.inf, -0.3]]), 4000
    drawn = Counter(choose(logits.expand(num, -1), temperature, range(num), [7] * num))
    shares = (logits[0].double() / temperature).softmax(0).tolist()
    assert drawn[5] == 0
    chi = sum((drawn[v] - num * share) ** 2 / (num * share) for v, share in enumerate(shares) if share)
    assert chi < 20.5


def test_noise_is_gumbels_and_another_at_every_seed_and_position() -> None:
    """Its mean is Euler's constant and its variance pi^2 / 6: within five standard errors."""
    noise = gumbel(1, 0, 100_000)
    assert abs(noise.mean() - 0.5772156649) < 5 * 1.2825 / 100_000**0.5
    assert abs(noise.var() - 1.6449340668) < 0.06
    others = [gumbel(2, 0, 50), gumbel(1, 1, 50), gumbel(1, 2**40, 50)]
    assert all(not set(noise[:50]) & set(other) for other in others)
    assert (gumbel(1, 0, 50) == noise[:50]).all()


def test_ties_go_to_the_lower_id_and_faults_come_together() -> None:
    assert choose(torch.tensor([[1.0, 3.0, 3.0]]), 0.0, [0], [0]) == [1]
    with pytest.raises(ArithmeticError, match="no numbers"):
        choose(torch.tensor([[float("nan"), 1.0]]), 0.0, [0], [0])
    with pytest.raises(ValueError, match="prompt 1 is empty") as caught:
        sample(make(), [[1], []], max_new_tokens=0, temperature=-1.0)
    assert str(caught.value).splitlines() == [
        "prompt 1 is empty: give a token to begin with",
        "max_new_tokens = 0: take 1 or more",
        "temperature = -1.0: take 0 (the likeliest each time) or more",
    ]
    assert sample(make(), [], max_new_tokens=3) == []
