"""What to train on files that come without a recipe, and what it will cost: size from the data, time by measuring.

The plan is a pure function of the counts of the data, so it is the same on every machine. The measurement only tells a
person how long it will take; nothing in training depends on it.
"""

import copy
import logging
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.config import Recipe, TrainConfig
from headway.data.batch import Batch
from headway.data.corpus import stream_pairs
from headway.recipe import literal_path, parse_recipe, resolve_paths
from headway.train.loss import token_loss
from headway.train.optim import build_optimizer

log = logging.getLogger("headway")


@dataclass(frozen=True)
class Plan:
    """preset: a name of `headway.presets`; the rest as in a recipe."""

    preset: str
    vocab_size: int
    steps: int
    batch_tokens: int
    dropout: float
    peak: float  # of the learning rate


BATCH_TOKENS = 4096


def plan(num_pairs: int, num_bytes: int) -> Plan:
    """Size, vocabulary and steps for `num_pairs` sentence pairs of `num_bytes` (UTF-8, both sides together).

    Vocabulary: 35 * sqrt(pairs), to hundreds, from 400 to 32,000: 5,000 pairs take 2,500 pieces, 29,000 take 6,000.
    Steps: the more text, the more is to be learnt, but the fewer times each line is needed. A token is about four
    bytes, and training reads 3,600 * tokens ** 0.6 of them, source and target.
    Model: transformer-tiny up to 300,000 pairs, transformer-base beyond, where the small one has too little room.
    """
    tokens = max(1, num_bytes // 4)
    vocab_size = min(32_000, max(400, round(35 * num_pairs**0.5 / 100) * 100))
    small = num_pairs <= 300_000
    return Plan(
        preset="transformer-tiny" if small else "transformer-base",
        dropout=0.2 if num_pairs < 20_000 else 0.1,
        peak=4e-3 if small else 7e-4,
        vocab_size=vocab_size,
        steps=max(100, round(3_600 * tokens**0.6 / BATCH_TOKENS / 10) * 10),
        batch_tokens=BATCH_TOKENS,
    )


def recipe_for(source: Path, target: Path, changes: Mapping[str, Any]) -> Recipe:
    """A recipe for two parallel files alone; says what it chose."""
    num_pairs = num_bytes = 0
    for pair in stream_pairs(source, target):
        num_pairs, num_bytes = num_pairs + 1, num_bytes + sum(len(side.encode()) for side in pair)
    chosen = plan(num_pairs, num_bytes)
    data = {"source": literal_path(source), "target": literal_path(target)}
    for side, path in (("source_language", source), ("target_language", target)):
        suffix = path.name.removesuffix(".gz").rpartition(".")[2]
        if len(suffix) == 2 and suffix.isalpha():  # BLEU cuts words by the language
            data[side] = suffix.lower()
    steps = changes.get("train.steps")
    steps = steps if isinstance(steps, int) and steps > 0 else chosen.steps
    table = {
        "model": {
            "preset": chosen.preset,
            "dropout": chosen.dropout,
            "encoder": {"layer": {"residual": "pre"}},
            "decoder": {"layer": {"residual": "pre"}},
        },
        "tokenizer": {"kind": "bpe", "vocab_size": chosen.vocab_size},
        "data": data,
        "train": {
            "steps": steps,
            "batch_tokens": chosen.batch_tokens,
            "schedule": {"kind": "inverse_sqrt", "peak": chosen.peak, "warmup": 0.2},
            "validate_every": max(1, steps // 5),
            "save_every": max(1, steps // 10),
            "average": {"kind": "last", "num": 3},
        },
    }
    made = resolve_paths(parse_recipe(table, changes, "the recipe made for these files"), Path.cwd())
    log.info(
        "chosen for %s pairs: %s, a vocabulary of up to %s, %s updates; change it with --set, by recipe.toml's names",
        f"{num_pairs:,}",
        chosen.preset,
        f"{chosen.vocab_size:,}",
        f"{made.train.steps:,}",
    )
    return made


@dataclass(frozen=True)
class Estimate:
    """Seconds of one update, seconds of all of them, and bytes at the peak; validation is not in it."""

    seconds_per_step: float
    seconds: float
    bytes: int

    def words(self) -> str:
        minutes = max(1.0, self.seconds / 60)
        time_told = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
        return f"estimate: {time_told} of updates, {self.bytes / 2**30:.1f} GiB of memory; validations come on top"


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
