"""The run folder: what a run needs in order to stop at any moment and go on as if it had not.

    run.json                      what the bits depend on: library versions, threads, device, machine, settings, data
    recipe.toml                   what to do, written when the run begins; then it can be resumed
    checkpoints/step-00000500/    model.safetensors, optimizer.safetensors, state.json
    metrics.jsonl samples.jsonl timing.jsonl tensorboard/

A checkpoint is written to a temporary folder, flushed and renamed, so a folder with a right name is a whole checkpoint;
older ones go only after that. Dropout needs no saved generator: each update seeds it from (seed, step).
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from errno import EIO
from importlib.metadata import version
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from headway import __version__
from headway.checkpoint import (
    CONFIG,
    TOKENIZER,
    TOKENIZERS,
    WEIGHTS,
    check_writable,
    fsync,
    load_tensors,
    module_tensors,
    read_tensors,
    write_files,
    write_json,
    write_tensors,
)

FORMAT = 1
SHOWN = 12
"""Differences that are shown one by one."""
RUN, RECIPE, ESTIMATE = "run.json", "recipe.toml", "estimate.json"
STORE = "store"
"""The folder of a run where its encoded data lies, if the recipe names no other."""

OURS = (
    *(RECIPE, WEIGHTS, CONFIG, TOKENIZER, *TOKENIZERS),
    *(ESTIMATE, "checkpoints", "metrics.jsonl", "samples.jsonl", "timing.jsonl", "tensorboard"),
)
"""What an earlier run wrote, in the order in which to remove it: nothing may pass for a whole run on the way."""


@dataclass
class TrainState:
    """Where training stands after `step` updates, besides weights and optimiser: plain values, kept as JSON."""

    step: int = 0
    epoch: int = 0
    position: int = 0  # of the last batch used, not of the next
    level: float | None = None  # running loss, for telling an explosion
    best: float | None = None  # validation score, higher is better
    waited: int = 0  # validations since the best
    stopped: bool = False  # patience ran out
    score: float | None = None  # of the validation at this very step
    regular: bool = False  # due by the settings (not by Ctrl-C): only such ones are averaged
    metrics_bytes: int = 0
    samples_bytes: int = 0


class Checkpoint(NamedTuple):
    """A whole checkpoint on the disk."""

    path: Path
    state: TrainState

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"


def checkpoints(folder: Path) -> list[Checkpoint]:
    """The whole checkpoints of a run folder, oldest first."""
    found = sorted((folder / "checkpoints").glob("step-*"))
    return [Checkpoint(path, read_state(path / "state.json")) for path in found]


def read_state(path: Path) -> TrainState:
    try:
        values = json.loads(path.read_bytes())
        if values.pop("format") != FORMAT:
            raise ValueError("it is of another format version")
        return TrainState(**values)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path}: damaged checkpoint ({error}). Remove {path.parent} to use the one before") from error


class RunFolder:
    """An open, locked run folder. Made by `open_run`; a context manager, or lives as long as the process."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self.lock = path, lock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.lock)

    def checkpoints(self) -> list[Checkpoint]:
        return checkpoints(self.path)

    def pin(self, facts: Mapping[str, Any]) -> None:
        """Write facts that the bits of this run depend on to run.json, or compare them with those already there.

        Values are JSON. Raises ValueError naming every one that changed, and how to go on.
        """
        known = read_facts(self.path)
        facts = json.loads(json.dumps(facts))
        shared = facts.keys() & known.keys()
        changed = differences({name: known[name] for name in shared}, {name: facts[name] for name in shared})
        if changed:
            raise ValueError(
                f"{self.path}: resuming would not give what the unbroken run gives:\n  "
                + "\n  ".join(changed)
                + "\nGo on where and as it began, or start a new run from its weights: "
                + f"headway average {self.path} -o MODEL, then headway train ... --init MODEL --out NEW"
            )
        if facts.keys() - known.keys():
            write_files(self.path, {RUN: lambda file: write_json(file, {**known, **facts})})

    def save(self, model: nn.Module, optimizer: Optimizer, state: TrainState, keep: int, best: int) -> Path:
        """Write a checkpoint; then drop those that are neither among the last `keep` nor the `best` best ones."""
        folder = self.path / "checkpoints"
        final = folder / f"step-{state.step:08d}"
        temporary = folder / f".{final.name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            write_tensors(temporary / "model.safetensors", module_tensors(model))
            write_tensors(temporary / "optimizer.safetensors", optimizer_tensors(model, optimizer))
            write_json(temporary / "state.json", {"format": FORMAT, **asdict(state)})
            for path in (*temporary.iterdir(), temporary):
                fsync(path)
            os.replace(temporary, final)
            fsync(folder)
            fsync(self.path)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            told = f"{error.strerror or error}: {final} was not written; the checkpoints before it are intact"
            raise OSError(error.errno or EIO, f"{told}. Make room and use --resume") from error
        self.prune(keep, best)
        return final

    def prune(self, keep: int, best: int) -> None:
        every = self.checkpoints()
        regular = [checkpoint for checkpoint in every if checkpoint.state.regular]
        kept = {every[-1].path} | {checkpoint.path for checkpoint in regular[-keep:]}
        kept |= {checkpoint.path for checkpoint in best_of(regular, best)}
        for path in (checkpoint.path for checkpoint in every if checkpoint.path not in kept):
            dying = path.with_name(f".{path.name}.old")  # so that a kill in the middle leaves no half one
            os.replace(path, dying)
            shutil.rmtree(dying)

    def restore(self, model: nn.Module, optimizer: Optimizer) -> TrainState:
        """Load the newest checkpoint into model and optimiser; with none, leave both and return the state of step 0."""
        for leftover in (self.path / "checkpoints").glob(".step-*"):
            shutil.rmtree(leftover)
        every = self.checkpoints()
        if not every:
            return TrainState()
        newest = every[-1]
        try:
            load_tensors(model, read_tensors(newest.weights), str(newest.weights))
            load_optimizer(model, optimizer, read_tensors(newest.path / "optimizer.safetensors"), newest.state.step)
        except ValueError as error:
            raise ValueError(f"{error}\nTo resume from the checkpoint before, remove {newest.path}") from error
        return newest.state


def best_of(every: list[Checkpoint], num: int) -> list[Checkpoint]:
    """The best by validation score, of equals the earlier."""
    scored = [checkpoint for checkpoint in every if checkpoint.state.score is not None]
    return sorted(scored, key=lambda checkpoint: -(checkpoint.state.score or 0.0))[:num]


def read_facts(folder: Path) -> dict[str, Any]:
    """What was pinned; nothing where there is no run."""
    path = folder / RUN
    try:
        known = json.loads(path.read_bytes()) if path.exists() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is damaged ({error}). Copy the run again, or begin again with --force") from error
    if not isinstance(known, dict):
        raise ValueError(f"{path}: is damaged (no table). Copy the run again, or begin again with --force")
    return known


def flatten(tree: Any, before: str = "") -> dict[str, Any]:
    """Every plain value of tables and lists, under its path."""
    if not isinstance(tree, dict | list) or not tree:
        return {before: tree}
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    flat: dict[str, Any] = {}
    for name, value in parts:
        flat |= flatten(value, f"{before}.{name}" if before else str(name))
    return flat


def differences(old: Any, new: Any) -> list[str]:
    """A line for each value that is not the same in both, a few of them."""
    before, now = flatten(old), flatten(new)
    changed = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    told = [f"{name}: {before.get(name)!r} then, {now.get(name)!r} now" for name in changed[:SHOWN]]
    return told + ([f"and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else [])


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state under `<parameter>.<what>`; learning rates are the schedule's and not kept."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}.{what}": value
        for parameter, values in optimizer.state.items()
        for what, value in values.items()
    }


def load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], step: int) -> None:
    """Put back what `optimizer_tensors` gave after `step` updates. Raises ValueError where it does not fit."""
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    whats = {name.rpartition(".")[2] for name in tensors} or ({"state"} if step else set())
    wanted = {f"{name}.{what}": value for name, value in parameters.items() for what in whats}
    faults = [f"{name} is missing" for name in wanted.keys() - tensors.keys()]
    faults += [f"{name} belongs to no parameter of the model" for name in tensors.keys() - wanted.keys()]
    for name in wanted.keys() & tensors.keys():
        value = tensors[name]
        if value.shape not in ((), wanted[name].shape) or not value.is_floating_point() or not value.isfinite().all():
            faults.append(f"{name} has another shape or type than its parameter, or is not finite")
    if faults:
        raise ValueError("\n  ".join(["optimizer.safetensors: does not fit the model:", *sorted(faults)[:SHOWN]]))
    for name, value in tensors.items():
        parameter, what = name.rpartition(".")[::2]
        # .clone(): what the file gave is a view of it, and not aligned as the kernels like it
        optimizer.state[parameters[parameter]][what] = value.to(parameters[parameter].device).clone()


def open_run(
    path: Path | str,
    *,
    resume: bool = False,
    force: bool = False,
    device: torch.device | str = "cpu",
    threads: int | None = None,
) -> RunFolder:
    """Make or reopen a run folder, lock it, and set the number of threads: on resume, the recorded one.

    `force` removes what an earlier run wrote there, and nothing else.
    Raises ValueError: another run is in it, it is already there, it is not there, or it began on something different.
    """
    path = Path(path)
    if resume and not (path / RUN).is_file():
        raise ValueError(f"{path}: there is no run here to resume. Leave out --resume to start one")
    check_writable(path)
    path.mkdir(parents=True, exist_ok=True)
    lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ValueError(f"{path}: another run is writing here. Wait for it, or name another folder") from error
    run = RunFolder(path, lock)
    try:
        if not resume:
            check_free(path, force)
            if force and (path / RUN).exists():
                for name in OURS:
                    entry = path / name
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
                for failure in path.glob("failed-step-*.json"):
                    failure.unlink()
                write_files(path, {RUN: lambda file: write_json(file, {})})
        known = read_facts(path).get("environment", {}) if resume else {}
        torch.set_num_threads(threads or known.get("threads") or torch.get_num_threads())
        run.pin({"environment": environment(torch.device(device))})
    except BaseException:
        os.close(lock)
        raise
    return run


def check_free(path: Path, force: bool = False) -> None:
    """Refuse a folder in which a run lies already (unless it is to be overwritten), or in which other things lie."""
    # A kill before the first step leaves encoded data, a lock and a temporary file.
    if not path.is_dir() or all(
        entry.name == STORE or entry.name.startswith((".lock", f".{RUN}.")) for entry in path.iterdir()
    ):
        return
    if not (path / RUN).is_file():
        raise ValueError(f"{path}: holds other files, and no run. Name a new or an empty folder with --out")
    if not force:
        raise ValueError(f"{path}: a run is already there. Use --resume to go on with it, --force to begin again")


def environment(device: torch.device) -> dict[str, Any]:
    """What the bits of an update depend on besides seed, data and settings."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    return {
        "libraries": {name: version(name) for name in ("torch", "numpy", "tokenizers", "sacrebleu")},
        "headway": __version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "machine": f"{platform.system()} {platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "processor": processor(),
    }


def processor() -> str:
    """The processor's model: matrix libraries pick their kernels by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def seed_of(seed: int, step: int) -> int:
    """A generator seed for one update: dropout is then a pure function of (seed, step)."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {step}".encode(), digest_size=8).digest(), "big") >> 1


class StopSignals:
    """Ctrl-C and SIGTERM set `raised` instead of breaking an update; a second one breaks at once."""

    def __init__(self) -> None:
        self.raised = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # the only one that may handle signals
            self.before = {number: signal.signal(number, self.note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.raised:
            raise KeyboardInterrupt
        self.raised = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
