"""What to train on files that come without a recipe, and what it will cost: size from the data, time by measuring.

The plan is a pure function of the counts of the data, so it is the same on every machine. The measurement only tells a person
how long it will take; nothing in training depends on it.
"""

import copy
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from headway.config import TrainConfig
from headway.data.batch import Batch
from headway.train.loss import token_loss
from headway.train.optim import build_optimizer


@dataclass(frozen=True)
class Plan:
    """preset: a name of `headway.presets`; the rest as in a recipe."""

    preset: str
    vocab_size: int
    steps: int
    batch_tokens: int


BATCH_TOKENS = 4096


def plan(num_pairs: int, num_bytes: int) -> Plan:
    """Size, vocabulary and steps for `num_pairs` sentence pairs of `num_bytes` (UTF-8, both sides together).

    Vocabulary: 35 * sqrt(pairs), to hundreds, from 400 to 32,000: 5,000 pairs take 2,500 pieces, 29,000 take 6,000.
    Steps: the more text, the more is to be learnt, but the fewer times each line is needed. A token is about four bytes, and
    training reads 3,600 * tokens ** 0.6 of them, source and target: 22 passes over 5,000 captions, 11 over 29,000, 2 over two million.
    Model: transformer-tiny up to 300,000 pairs, transformer-base beyond, where the small one has no room for what there is to learn.
    """
    tokens = max(1, num_bytes // 4)
    vocab_size = min(32_000, max(400, round(35 * num_pairs**0.5 / 100) * 100))
    return Plan(
        preset="transformer-tiny" if num_pairs <= 300_000 else "transformer-base",
        vocab_size=vocab_size,
        steps=max(100, round(3_600 * tokens**0.6 / BATCH_TOKENS / 10) * 10),
        batch_tokens=BATCH_TOKENS,
    )


@dataclass(frozen=True)
class Estimate:
    """Seconds of one update, seconds of all of them, and bytes at the peak; validation is not in it."""

    seconds_per_step: float
    seconds: float
    bytes: int

    def words(self) -> str:
        minutes = self.seconds / 60
        time_told = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
        return f"estimate: {max(time_told, '1 minutes') if minutes < 1 else time_told} of updates, {self.bytes / 2**30:.1f} GiB of memory"


def measure(model: nn.Module, batches: Sequence[Batch], config: TrainConfig, device: torch.device) -> Estimate:
    """Run updates of a copy of the model, the first of them unmeasured; weights and random numbers stay as they are."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        trial = copy.deepcopy(model).train()
        optimizer = build_optimizer(config.optimizer, trial)
        seconds = []
        for batch in batches:
            begin = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16, enabled=config.dtype == "bfloat16"):
                logits = trial(batch.source.to(device), batch.target_in.to(device))
            loss = token_loss(logits, batch.target_out.to(device), config.smoothing)
            (loss.loss / loss.tokens).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - begin)
    per_step = config.accumulate * sum(seconds[1:] or seconds) / len(seconds[1:] or seconds)
    return Estimate(per_step, per_step * config.steps, peak_bytes(device))


def peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


