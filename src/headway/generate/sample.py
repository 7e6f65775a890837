"""Text from a language model, token by token: the likeliest (temperature 0), or drawn.

    next = argmax_v(logit_v / temperature + Gumbel_v(seed, position))   (Gumbel 1954: this draws from softmax)

The noise is a function of the seed and the position alone, so a seed gives the same text alone, in a batch, cut off and
gone on with. Ties go to the lower id. The slow twin, one text at a time without a cache, is in tests/test_sample.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from headway.models.state import State, Step


class Writer(Protocol):
    """What a language model offers (`headway.models.lm.LM`)."""

    def begin(self, prompts: Sequence[Sequence[int]], /) -> tuple[State, Tensor]: ...

    def step(self, state: State, tokens: Tensor, /) -> Step: ...


@dataclass(frozen=True)
class Written:
    """What was written behind a prompt, and whether it came to an end of its own."""

    tokens: list[int]
    finished: bool


def gumbel(seed: int, position: int, size: int) -> np.ndarray:
    """(size,) float64 of standard Gumbel noise: the numbers of a counter-based generator (Salmon et al. 2011, Philox)
    whose key is the seed and whose counter begins at the position."""
    raw = np.random.Philox(key=seed, counter=[0, 0, 0, position]).random_raw(size)
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # never 0 nor 1
    return -np.log(-np.log(uniform))


def choose(logits: Tensor, temperature: float, seeds: Sequence[int], positions: Sequence[int]) -> list[int]:
    """The next token of each row, from logits (R, V); seeds and positions: of each row."""
    if not torch.isfinite(logits.amax(-1)).all():
        raise ArithmeticError("the model gives logits that are no numbers: its weights are damaged, or training failed")
    if temperature == 0:
        best = logits.amax(-1, keepdim=True)
        return (logits == best).int().argmax(-1).tolist()
    scaled = logits.double().cpu().numpy() / temperature
    noise = [gumbel(seed, at, logits.shape[-1]) for seed, at in zip(seeds, positions, strict=True)]
    return (scaled + np.stack(noise)).argmax(-1).tolist()


@torch.no_grad()
def sample(
    model: Writer,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    seeds: Sequence[int] | None = None,
    banned: Sequence[int] = (),
    end: Sequence[int] = (),
) -> list[Written]:
    """What comes behind each prompt (ids, one or more), at most `max_new_tokens`, up to one of the `end` ids, which is
    not part of it. seeds: of each prompt, 0 by default; banned: ids that are never written."""
    faults = [f"prompt {number} is empty: give a token to begin with" for number, ids in enumerate(prompts) if not ids]
    if max_new_tokens < 1:
        faults.append(f"max_new_tokens = {max_new_tokens}: take 1 or more")
    if not 0 <= temperature < float("inf"):
        faults.append(f"temperature = {temperature}: take 0 (the likeliest each time) or more")
    if faults:
        raise ValueError("\n".join(faults))
    if not prompts:
        return []
    drawn = [0] * len(prompts) if seeds is None else list(seeds)
    written: list[list[int]] = [[] for _ in prompts]
    finished = [False] * len(prompts)
    alive = list(range(len(prompts)))
    state, logits = model.begin(prompts)
    while True:
        logits = logits.clone()
        logits[:, list(banned)] = -torch.inf
        positions = [len(prompts[row]) + len(written[row]) for row in alive]
        chosen = choose(logits, temperature, [drawn[row] for row in alive], positions)
        for row, token in zip(alive, chosen, strict=True):
            if token in end:
                finished[row] = True
            else:
                written[row].append(token)
        going = [at for at, row in enumerate(alive) if not finished[row] and len(written[row]) < max_new_tokens]
        if not going:
            return [Written(ids, done) for ids, done in zip(written, finished, strict=True)]
        if len(going) < len(alive):
            state = state.select(torch.tensor(going, device=logits.device))
            alive = [alive[at] for at in going]
        fed = torch.tensor([[written[row][-1]] for row in alive], device=logits.device)
        logits = model.step(state, fed).logits[:, -1]
