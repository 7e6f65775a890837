"""What training tells: metrics.jsonl and samples.jsonl (no clock in them, so resumed = unbroken), timing.jsonl,
TensorBoard, and a person. What reads them again is headway.evaluate.run_report.

Rows for a person go to stderr: a bar on a terminal, a plain line every few seconds otherwise, or nothing.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Protocol, Self

Row = Mapping[str, Any]


class Reporter(Protocol):
    """How training speaks to a person."""

    def step(self, row: Row, steps: int) -> None:
        """One update of `steps` is done; row as in metrics.jsonl, with "tokens_per_second"."""

    def say(self, text: str) -> None:
        """A sentence."""

    def close(self) -> None:
        """Leave the terminal as it was; may be called twice."""


def words(row: Row, steps: int) -> str:
    speed = row["tokens_per_second"]
    told = f"step {row['step']:,} of {steps:,}  loss {row['loss']:.4f}  nll {row['nll']:.4f}"
    return f"{told}  lr {row['lr']:.2e}  {speed:,.0f} tokens/s"


class Lines:
    """Plain lines, at most one each few seconds, for logs and pipes."""

    def __init__(self, stream: IO[str] | None = None, seconds: float = 10.0) -> None:
        self.stream, self.seconds, self.told = stream or sys.stderr, seconds, float("-inf")

    def step(self, row: Row, steps: int) -> None:
        if (now := time.monotonic()) - self.told >= self.seconds or row["step"] == steps:
            self.told = now
            self.say(words(row, steps))

    def say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def close(self) -> None:
        pass


class Bar:
    """A progress bar with the time left, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self.progress = Progress(*columns, console=Console(stderr=True))
        self.task = self.progress.add_task("", total=None)

    def step(self, row: Row, steps: int) -> None:
        self.progress.start()
        self.progress.update(self.task, total=steps, completed=row["step"], description=words(row, steps))

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self.progress.stop()


class Silence:
    """--quiet."""

    def step(self, row: Row, steps: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def reporter(quiet: bool = False) -> Reporter:
    """The right one for where stderr leads."""
    return Silence() if quiet else Bar() if sys.stderr.isatty() else Lines()


def cut_back(path: Path, step: int, size: int) -> BinaryIO:
    """A file as it was at a checkpoint, to be written on from there. Raises ValueError where it is shorter now."""
    here = path.stat().st_size if path.exists() else 0
    if here < size:
        told = f"{path} has {here} bytes, at step {step} it had {size}: it was cut or removed"
        raise ValueError(f"{told}. Put it back, or begin again with --force")
    file = path.open("ab")
    file.truncate(size)
    return file


def line(row: Row) -> bytes:
    """JSON; half a surrogate pair, which UTF-8 does not have, is spelt as JSON spells it."""
    return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


class RunLog:
    """The records of a run, cut back to where a checkpoint was taken, and written on from there."""

    def __init__(self, folder: Path, step: int, metrics_bytes: int, samples_bytes: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # a second of import

        self.metrics = cut_back(folder / "metrics.jsonl", step, metrics_bytes)
        self.samples = cut_back(folder / "samples.jsonl", step, samples_bytes)
        self.timing = (folder / "timing.jsonl").open("a", encoding="utf-8")
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)
        self.clock = time.monotonic()

    def write(self, row: Row) -> float:
        """Record a row of step, lr, loss, ... or of a validation; returns the seconds since the last row."""
        self.metrics.write(line(row))
        self.metrics.flush()
        now = time.monotonic()
        seconds, self.clock = now - self.clock, now
        self.timing.write(json.dumps({"step": row["step"], "unix": time.time(), "seconds": seconds}) + "\n")
        for name, value in row.items():
            if name != "step":
                self.board.add_scalar(name, value, row["step"])
        return seconds

    def sampled(self, step: int, samples: Sequence[Row]) -> None:
        """Record what the model says at a validation: rows of source, reference, output."""
        self.samples.writelines(line({"step": step, **sample}) for sample in samples)
        self.samples.flush()

    def settle(self) -> tuple[int, int]:
        """Everything so far is on the disk; returns the lengths of metrics.jsonl and samples.jsonl."""
        for file in (self.metrics, self.samples):
            os.fsync(file.fileno())
        self.timing.flush()
        return os.fstat(self.metrics.fileno()).st_size, os.fstat(self.samples.fileno()).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.metrics.close()
        self.samples.close()
        self.timing.close()
        self.board.close()
