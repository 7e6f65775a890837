"""What to train on files that come without a recipe, and what it will cost: size from the data, time by measuring.

The plan is a pure function of the counts of the data, so it is the same on every machine. The measurement only tells a
person how long it will take; nothing in training depends on it.
"""

import copy
import logging
import resource
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.architecture import Seq2SeqConfig
from headway.config import InputConfig, LanguagesConfig, Recipe, TrainConfig, language_named
from headway.data.batch import Batch
from headway.data.corpus import stream_pairs
from headway.recipe import dump_toml, literal_path, parse_recipe, resolve_paths
from headway.train.loop import autocast
from headway.train.objective import Loss
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
SMALL_PEAK, BASE_PEAK = 4e-3, 7e-4


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
        peak=SMALL_PEAK if small else BASE_PEAK,
        vocab_size=vocab_size,
        steps=max(100, round(3_600 * tokens**0.6 / BATCH_TOKENS / 10) * 10),
        batch_tokens=BATCH_TOKENS,
    )


def adapting(chosen: Plan, dim: int, lora: bool) -> Plan:
    """The plan where there is a model of width `dim` to start from: it knows the languages and must not forget them.

    A quarter of the updates, and of the learning rate that a model of this width begins with, which LoRA takes
    whole, since its matrices start from nothing.
    """
    peak = SMALL_PEAK if dim < 512 else BASE_PEAK
    return replace(chosen, steps=max(100, chosen.steps // 4), peak=peak if lora else peak / 4)


MADE = "the recipe made for these files"


def recipe_for(source: Path, target: Path, changes: Mapping[str, Any]) -> Recipe:
    """A recipe for two parallel files alone; says what it chose."""
    num_pairs, chosen = counted(source, target)
    table = spelt(chosen, source, target, changes)
    steps = table["train"]["steps"]
    table["train"] |= {"validate_every": max(1, steps // 5), "save_every": max(1, steps // 10)}
    table["train"]["average"] = {"kind": "last", "num": 3}
    made = resolve_paths(parse_recipe(table, changes, MADE), Path.cwd())
    log.info(
        "chosen for %s pairs: %s, a vocabulary of up to %s, %s updates; change it with --set, by recipe.toml's names",
        f"{num_pairs:,}",
        chosen.preset,
        f"{chosen.vocab_size:,}",
        f"{made.train.steps:,}",
    )
    return made


def adaptation_for(
    source: Path,
    target: Path,
    changes: Mapping[str, Any],
    model: Seq2SeqConfig,
    languages: LanguagesConfig,
    reads: InputConfig,
) -> Recipe:
    """A recipe to adapt a model, which says this of itself, to two parallel files alone; says what it chose."""
    if asked := [name for name in changes if name in ("model", "model.preset")]:
        raise ValueError(f"{', '.join(asked)}: --init brings its own model; leave one of the two out")
    lora = changes.get("train.lora") != "none" and any(name.startswith("train.lora") for name in changes)
    num_pairs, planned = counted(source, target)
    chosen = adapting(planned, model.dim, lora)
    table = spelt(chosen, source, target, changes)
    every = max(1, table["train"]["steps"] // 10)
    table["train"] |= {"validate_every": every, "save_every": every, "patience": 3}
    table["train"]["average"] = {"kind": "best", "num": 1}
    known = {f"{side}_language": name for side, name in languages if name is not None}
    table["data"] = known | reads.model_dump(exclude_none=True) | table["data"]
    table["tokenizer"] |= {"separator": reads.context > 0, "match": reads.matches is not None}  # as in the model's own
    whole = parse_recipe(table, {}, MADE).model_copy(update={"model": model})
    # Written and read, so that changes find its layers as a recipe has them: with a default layer, and repeated.
    made = resolve_paths(parse_recipe(tomllib.loads(dump_toml(whole)), changes, MADE), Path.cwd())
    told = {"train.steps": table["train"]["steps"], "train.schedule.peak": chosen.peak, "train.patience": 3}
    own = [name for name in told if not any(f"{name}.".startswith(f"{change}.") for change in changes)]
    log.info(
        "chosen to adapt the model to %s pairs: %s; change it with --set, by recipe.toml's names",
        f"{num_pairs:,}",
        ", ".join(f"{name} = {told[name]:g}" for name in own) or "nothing, since all is said",
    )
    return made


def counted(source: Path, target: Path) -> tuple[int, Plan]:
    """How many pairs there are, and the plan for them."""
    num_pairs = num_bytes = 0
    for pair in stream_pairs(source, target):
        num_pairs, num_bytes = num_pairs + 1, num_bytes + sum(len(side.encode()) for side in pair)
    return num_pairs, plan(num_pairs, num_bytes)


def spelt(chosen: Plan, source: Path, target: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan says, as a recipe does; the number of updates may be among the changes, and others hang on it."""
    data = {"source": literal_path(source), "target": literal_path(target)}
    for side, path in (("source_language", source), ("target_language", target)):
        if language := language_named(path.name):  # BLEU cuts words by it
            data[side] = language
    steps = changes.get("train.steps")
    return {
        "model": {
            "preset": chosen.preset,
            "dropout": chosen.dropout,
            "encoder": {"layer": {"residual": "pre"}},
            "decoder": {"layer": {"residual": "pre"}},
        },
        "tokenizer": {"kind": "bpe", "vocab_size": chosen.vocab_size},
        "data": data,
        "train": {
            "steps": steps if isinstance(steps, int) and steps > 0 else chosen.steps,
            "batch_tokens": chosen.batch_tokens,
            "schedule": {"kind": "inverse_sqrt", "peak": chosen.peak, "warmup": 0.2},
        },
    }


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


def measure(
    model: nn.Module, batches: Sequence[Batch], config: TrainConfig, loss: Loss, device: torch.device
) -> Estimate:
    """Run updates of a copy of the model, the first of them unmeasured; weights and random numbers stay as they are."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        trial = copy.deepcopy(model).train()
        optimizer = build_optimizer(config.optimizer, trial)
        seconds = []
        for batch in batches:
            begin = time.perf_counter()
            with autocast(config, device):
                part = loss(trial, batch, device)
            (part.loss / max(part.tokens, 1)).backward()
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
