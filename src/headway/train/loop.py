"""The training loop, on one page. It knows no data format and no search: they are handed in. Of the model it asks two
things, `hidden` and `unembed`, as the loss unembeds for itself.

Each update is a function of (weights, optimiser state, step, its batches) and of nothing else: no clock, no generator
that runs on. So a run that was killed and resumed is the unbroken run, bit for bit (tests/test_resume.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from headway.checkpoint import load_tensors, write_files, write_json
from headway.config import TrainConfig
from headway.train.average import average
from headway.train.log import Reporter, Row, RunLog
from headway.train.objective import Loss
from headway.train.optim import build_optimizer, build_schedule
from headway.train.state import RunFolder, StopSignals, TrainState, best_of, seed_of

if TYPE_CHECKING:
    from headway.data.batch import Batch


class Loader(Protocol):
    """Endless batches from a place on, a pure function of (seed, epoch, position)."""

    def start(self, epoch: int, position: int, /) -> Iterator[tuple[int, int, Any]]: ...


class TrainingError(ArithmeticError):
    """Training went wrong at a step: not finite, or exploded. The batches were saved."""


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C or SIGTERM, after saving; the message says where."""


def train(
    model: nn.Module,
    loader: Loader,
    config: TrainConfig,
    run: RunFolder,
    *,
    loss: Loss,
    validate: Callable[[nn.Module, int], Mapping[str, float]] | None,
    device: torch.device | str,
    progress: Reporter,
    describe: Callable[[Any], object] | None = None,
    sample: Callable[[nn.Module], Sequence[Row]] | None = None,
) -> None:
    """Train from the newest checkpoint in `run` (or from step 0) to the end; the model then holds the final weights.

    `loss(model, batch, device)` is `headway.train.objective.build_loss` of the model's config.
    `validate(model, step)` gives scores, "loss" among them; `describe(batch)` gives JSON to show a person (its texts);
    `sample(model)` gives what to keep in samples.jsonl at each validation.
    Raises TrainingError, Interrupted, and ValueError for settings other than those the run began with.
    """
    device = torch.device(device)
    kind, num = (config.average.kind, config.average.num) if config.average else ("best" if config.patience else "", 1)
    best = num if kind == "best" else 0  # checkpoints to keep for their score
    refuse(config, device, validated=validate is not None)
    run.pin({"train": config.model_dump(mode="json")})
    model.to(device).train()
    optimizer, schedule = build_optimizer(config.optimizer, model), build_schedule(config.schedule, config.steps)
    state = run.restore(model, optimizer)
    batches = loader.start(state.epoch, state.position)
    if state.step:
        progress.say(f"resuming after step {state.step:,}")
        next(batches)  # the last batch used
    with ExitStack() as stack:
        stack.callback(progress.close)
        log = stack.enter_context(RunLog(run.path, state.step, state.metrics_bytes, state.samples_bytes))
        stop = stack.enter_context(StopSignals())
        if not run.checkpoints():
            run.save(model, optimizer, state, config.keep, best)
        while state.step < config.steps and not state.stopped:
            state.step += 1
            torch.manual_seed(seed_of(config.seed, state.step))
            lr = schedule(state.step)
            for group in optimizer.param_groups:
                group["lr"] = lr
            micro: list[Batch] = []
            for _ in range(config.accumulate):
                state.epoch, state.position, batch = next(batches)
                micro.append(batch)
            tokens = sum(batch.num_tokens for batch in micro)  # of the whole update: what every loss is divided by
            total = nll = 0.0
            optimizer.zero_grad()
            for batch in micro:
                with autocast(config, device):
                    part = loss(model, batch, device)
                (part.loss / tokens).backward()
                total, nll = total + part.loss.item() / tokens, nll + part.nll.item() / tokens
            grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            norm = get_total_norm(grads)
            if fault := unsound(total, norm.item(), state.level, tokens):
                raise TrainingError(report(fault, state, micro, run, describe))
            if config.clip:
                clip_grads_with_norm_(model.parameters(), config.clip, norm)
            optimizer.step()

            state.level = total if state.level is None else 0.98 * state.level + 0.02 * total
            row = {"step": state.step, "epoch": state.epoch, "lr": lr, "loss": total, "nll": nll, "tokens": tokens}
            row |= {"grad_norm": norm.item(), "padding": padding(micro)}
            seconds = log.write(row)
            progress.step(row | {"tokens_per_second": tokens / max(seconds, 1e-9)}, config.steps)
            state.score = None
            if validate and (state.step % config.validate_every == 0 or state.step == config.steps):
                scores = validate(model.eval(), state.step)
                log.sampled(state.step, sample(model) if sample else [])
                model.train()
                log.write({"step": state.step} | {f"valid_{name}": value for name, value in scores.items()})
                progress.say(f"step {state.step:,}: " + ", ".join(f"{name} {scores[name]:.4g}" for name in scores))
                judge(state, -scores["loss"], config.patience)
            last = state.step == config.steps or state.stopped
            state.regular = last or state.step % config.save_every == 0 or bool(best and state.score is not None)
            if state.regular or stop.raised:
                state.metrics_bytes, state.samples_bytes = log.settle()
                path = run.save(model, optimizer, state, config.keep, best)
                if stop.raised and not last:
                    raise Interrupted(f"stopped after step {state.step:,}, saved in {path}; go on with --resume")
    finish(model, run, kind, num, progress)


def autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """The type of numbers that a run works in."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.dtype == "bfloat16")


def refuse(config: TrainConfig, device: torch.device, *, validated: bool) -> None:
    """Settings that this device, or a run without validation, cannot honour."""
    best = config.average is not None and config.average.kind == "best"
    if (best or config.patience) and not validated:
        raise ValueError("train.average of the best, and train.patience, need validation data: give some, or leave out")
    if config.dtype == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ValueError('train.dtype = "bfloat16": this GPU has none; use train.dtype = "float32"')


def unsound(loss: float, norm: float, level: float | None, tokens: int) -> str | None:
    """What is wrong with an update, before it reaches the weights. The fewer tokens, the noisier a loss may be."""
    if not math.isfinite(loss) or not math.isfinite(norm):
        return f"the loss is {loss}, the gradient's norm {norm}"
    if level is not None and loss > 3 * level + 1 + 10 / math.sqrt(tokens):
        return f"the loss exploded: {loss:.3f}, it was about {level:.3f} before"
    return None


def padding(micro: Sequence[Batch]) -> float:
    """The share of an update's places that hold no token."""
    return 1 - sum(batch.num_filled for batch in micro) / sum(batch.num_places for batch in micro)


def judge(state: TrainState, score: float, patience: int | None) -> None:
    """Note a validation score (higher is better), and whether patience has run out."""
    state.score = score
    state.best, state.waited = (
        (score, 0) if state.best is None or score > state.best else (state.best, state.waited + 1)
    )
    state.stopped = patience is not None and state.waited >= patience


def report(
    fault: str, state: TrainState, micro: list[Batch], run: RunFolder, describe: Callable[[Any], object] | None
) -> str:
    """Save the batches of a failed update; say what happened, where, and what helps."""
    name = f"failed-step-{state.step:08d}.json"
    saved = [
        {"ids": batch.ids, **batch.as_lists()} | ({"text": describe(batch)} if describe else {}) for batch in micro
    ]
    failure = {"step": state.step, "epoch": state.epoch, "fault": fault, "batches": saved}
    write_files(run.path, {name: lambda path: write_json(path, failure)})
    ids = [line for batch in micro for line in batch.ids]
    shown = ", ".join(map(str, ids[:10])) + (", ..." if len(ids) > 10 else "")
    return (
        f"step {state.step}: {fault}. The weights of step {state.step - 1} were not touched. The batch (corpus lines "
        f"{shown}) is in {run.path / name}. Look at these lines; a lower learning rate or a longer warmup helps most"
    )


def finish(model: nn.Module, run: RunFolder, kind: str, num: int, progress: Reporter) -> None:
    """Put the final weights into the model: the last ones, or an average."""
    regular = [checkpoint for checkpoint in run.checkpoints() if checkpoint.state.regular]
    chosen = best_of(regular, num) if kind == "best" else regular[-num:]
    if kind:
        files: list[Path] = sorted(checkpoint.weights for checkpoint in chosen)
        load_tensors(model, average(files))
        steps = ", ".join(f"{checkpoint.state.step:,}" for checkpoint in sorted(chosen, key=lambda one: one.path))
        progress.say(f"final weights: {'mean of ' if len(files) > 1 else ''}step {steps}")
    model.eval()
