"""Promise 4: kill -9 at any moment, resume, and losses, weights and metrics are bit for bit the unbroken run's."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headway.checkpoint import module_tensors, read_tensors, write_tensors
from headway.config import AverageConfig, InverseSqrtConfig, TrainConfig
from headway.data.batch import Batch
from headway.nn.embed import Unembed
from headway.train.log import Silence
from headway.train.loop import Interrupted, train
from headway.train.objective import Loss, balanced, words
from headway.train.state import checkpoints, open_run

VOCAB, DIM, LINES = 23, 6, 17


class Toy(nn.Module):
    """Bag of source words + last target word -> next word; tied, with dropout."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.mix = nn.Linear(DIM, DIM)
        self.dropout = nn.Dropout(dropout)
        self.unembed = Unembed(DIM, VOCAB)
        self.unembed.weight = self.embed.weight

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.embed(target) + (self.embed(source) * (source != 0)[..., None]).sum(1, keepdim=True)
        return self.dropout(self.mix(x).tanh())

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.unembed(self.hidden(source, target))


class ToyLoader:
    """Batches of two to four lines; the order of an epoch is drawn from (seed, epoch)."""

    def __init__(self, seed: int = 5) -> None:
        self.seed = seed
        draw = np.random.default_rng(0)
        self.lines = [
            (draw.integers(3, VOCAB, draw.integers(2, 6)), draw.integers(3, VOCAB, draw.integers(1, 7)))
            for _ in range(LINES)
        ]

    def collate(self, ids: list[int]) -> Batch:
        def pad(rows: list[Any]) -> Tensor:
            return nn.utils.rnn.pad_sequence([torch.as_tensor(np.asarray(row)) for row in rows], batch_first=True)

        source, target = zip(*(self.lines[number] for number in ids), strict=True)
        inputs = {"source": pad([[*row, 2] for row in source]), "target": pad([[1, *row] for row in target])}
        targets = pad([[*row, 2] for row in target])
        asked = int((targets != 0).sum())
        filled = asked + int((inputs["source"] != 0).sum())
        return Batch(inputs, targets, ids, [0] * len(ids), asked, filled, inputs["source"].numel() + targets.numel())

    def start(self, epoch: int, position: int) -> Iterator[tuple[int, int, Batch]]:
        while True:
            order = np.random.default_rng([self.seed, epoch]).permutation(LINES).tolist()
            cut = [order[:2], order[2:5], order[5:9], order[9:12], order[12:]]
            for place in range(position, len(cut)):
                yield epoch, place, self.collate(cut[place])
            epoch, position = epoch + 1, 0


def settings(**changes: Any) -> TrainConfig:
    values = {
        "steps": 31,
        "accumulate": 2,
        "seed": 3,
        "schedule": InverseSqrtConfig(peak=0.02, warmup=4),
        "validate_every": 6,
        "save_every": 4,
        "keep": 3,
        "average": AverageConfig(kind="last", num=3),
    }
    return TrainConfig(**{**values, **changes})


def validation_loss(model: nn.Module, step: int) -> dict[str, float]:
    batch = ToyLoader().collate([0, 3, 7])
    with torch.no_grad():
        logits = model(**batch.inputs)
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).item()}


def toy_loss(config: TrainConfig) -> Loss:
    return balanced(partial(words, train=config), 0.0)


def said(model: nn.Module) -> list[dict[str, str]]:
    """For samples.jsonl: what the weights are, as a text."""
    return [{"source": "a\u2028b", "output": repr(next(model.parameters()).sum().item())}]


def run_toy(path: Path, config: TrainConfig, resume: bool = False, progress: Silence | None = None) -> None:
    """What a person's command does: open, build, train, write the weights."""
    with open_run(path, resume=resume) as run:
        torch.manual_seed(config.seed)
        model = Toy()
        progress = progress or Silence()
        options: dict[str, Any] = {"validate": validation_loss, "sample": said}
        train(model, ToyLoader(), config, run, loss=toy_loss(config), device="cpu", progress=progress, **options)
        write_tensors(path / "final.safetensors", module_tensors(model))


def evidence(path: Path) -> dict[str, bytes]:
    """What has to be equal: metrics, samples, final weights, and each checkpoint with its optimiser and state."""
    names = ("metrics.jsonl", "samples.jsonl", "final.safetensors")
    files = [*(path / name for name in names), *sorted((path / "checkpoints").rglob("*.*"))]
    return {str(file.relative_to(path)): file.read_bytes() for file in files if file.is_file()}


# --------------------------------------------- a child that dies at the n-th time it touches the disk or the weights

EVENTS = ["os.fsync", "os.replace", "shutil.rmtree", "torch.optim.Adam.step", "headway.train.log.RunLog.write"]


def die_at(countdown: int) -> None:
    """Wrap every event so that the process is killed right before or right after the given one."""
    import importlib

    left = 2 * countdown

    def tick() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(original: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            tick()
            result = original(*args, **named)
            tick()
            return result

        return call

    for event in EVENTS:
        where, name = event.rsplit(".", 1)
        try:
            owner = importlib.import_module(where)
        except ModuleNotFoundError:
            module, owner_name = where.rsplit(".", 1)
            owner = getattr(importlib.import_module(module), owner_name)
        setattr(owner, name, wrapped(getattr(owner, name)))


def child(root: Path, kills: list[int]) -> None:
    """For each number, a forked process that resumes and is killed at that event; then one that ends the run."""
    torch.set_num_threads(1)
    deaths = 0
    for countdown in [*kills, 0]:
        pid = os.fork()
        if pid == 0:
            if countdown:
                die_at(countdown)
            run_toy(root, settings(), resume=(root / "run.json").exists())
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert died or status == 0, (countdown, status)
        deaths += died
    print(deaths)


def broken_run(root: Path, kills: list[int]) -> tuple[int, dict[str, bytes]]:
    """How many of the kills struck (a run may be over before), and what the run left."""
    command = [sys.executable, __file__, str(root), *map(str, kills)]
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source}, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout), evidence(root)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return broken_run(tmp_path_factory.mktemp("runs") / "unbroken", [])[1]


def test_a_run_killed_three_times_and_resumed_is_bit_for_bit_the_unbroken_run(
    tmp_path: Path, unbroken: dict[str, bytes]
) -> None:
    assert len(unbroken) > 10
    assert unbroken["samples.jsonl"].count(b"\n") == 6  # validated at 6, 12, 18, 24, 30 and 31
    assert broken_run(tmp_path / "run", [1, 57, 40]) == (3, unbroken), "the first strikes before there is a run"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_wherever_kill_9_strikes_the_resumed_run_is_the_unbroken_one(
    tmp_path: Path, unbroken: dict[str, bytes], number: int
) -> None:
    """Moments drawn over the whole run: inside updates, logging, saving, renaming and pruning."""
    draw = np.random.default_rng(number)
    kills = draw.integers(1, 70, size=draw.integers(1, 6)).tolist()
    assert broken_run(tmp_path / "run", kills)[1] == unbroken


MULTI30K = {
    "train.steps": 120,
    "train.save_every": 30,
    "train.validate_every": 60,
    "train.average.num": 3,
    "train.schedule.warmup": 50,
    "search.beam": 1,
    "search.max_extra": 5,
}


@pytest.mark.slow
def test_a_run_on_multi30k_killed_twice_and_resumed_is_the_unbroken_one(corpora: Path, tmp_path: Path) -> None:
    """By the command line, as a person would; the kills fall between two checkpoints."""

    def train(name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headway", "train", "multi30k-en-de-tiny", "--out", str(tmp_path / name)]
        settings = [word for name, value in MULTI30K.items() for word in ("--set", f"{name}={value}")]
        return subprocess.Popen([*command, *settings, "--threads", "1", "--quiet", *words], stdout=subprocess.DEVNULL)

    def killed_after(step: int, *words: str) -> None:
        metrics, process = tmp_path / "broken" / "metrics.jsonl", train("broken", *words)
        while process.poll() is None and (not metrics.exists() or metrics.read_bytes().count(b"\n") < step):
            time.sleep(0.05)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it was over before it could be killed"

    assert train("unbroken").wait() == 0
    killed_after(40)
    killed_after(100, "--resume")
    assert train("broken", "--resume").wait() == 0
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes(), name


# ------------------------------------------------------------------------------------------------ and in this process


def test_ctrl_c_finishes_the_update_saves_and_the_resumed_run_is_the_unbroken_one(tmp_path: Path) -> None:
    class Presses(Silence):
        def step(self, row: Any, steps: int) -> None:
            if row["step"] == 10:
                os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM):
        plain, broken = tmp_path / f"plain-{number}", tmp_path / f"broken-{number}"
        run_toy(plain, settings())
        with pytest.raises(Interrupted, match=r"step 10, saved in .*step-00000010.*--resume"):
            run_toy(broken, settings(), progress=Presses())
        assert (broken / "checkpoints" / "step-00000010").is_dir()
        run_toy(broken, settings(), resume=True)
        assert evidence(broken) == evidence(plain)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    run_toy(tmp_path / "run", settings())
    before = evidence(tmp_path / "run")
    run_toy(tmp_path / "run", settings(), resume=True)
    assert evidence(tmp_path / "run") == before


def test_dropout_is_drawn_anew_at_every_step_and_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run_toy(tmp_path / name, settings(seed=seed, steps=5, average=None))
    a, b, c = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_a_run_folder_that_is_there_needs_resume_or_force(tmp_path: Path) -> None:
    run_toy(tmp_path / "run", settings(steps=3, average=None))
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"already there. Use --resume .* --force"):
        open_run(tmp_path / "run")
    with open_run(tmp_path / "run", force=True) as run:
        assert run.checkpoints() == []
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine", "--force removes what a run wrote, nothing else"
    with pytest.raises(ValueError, match="no run here to resume"):
        open_run(tmp_path / "other", resume=True)


def test_an_optimiser_file_that_does_not_fit_is_told(tmp_path: Path) -> None:
    run_toy(tmp_path / "run", settings(steps=4, average=None))
    path = checkpoints(tmp_path / "run")[-1].path / "optimizer.safetensors"
    whole = read_tensors(path)
    names = sorted(whole)
    damages = {
        f"{names[0]} is missing": {name: value for name, value in whole.items() if name != names[0]},
        f"{names[1]} has another shape": {**whole, names[1]: torch.zeros(2, 3, 4)},
        f"{names[1]} has another": {**whole, names[1]: torch.full_like(whole[names[1]], torch.nan)},
        "is missing": {},
    }
    for told, tensors in damages.items():
        write_tensors(path, tensors)
        with pytest.raises(ValueError, match=rf"does not fit the model[\s\S]*{told}[\s\S]*remove .*step-00000004"):
            run_toy(tmp_path / "run", settings(steps=4, average=None), resume=True)


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    with open_run(tmp_path / "run"), pytest.raises(ValueError, match="another run is writing here"):
        open_run(tmp_path / "run", resume=True)
    open_run(tmp_path / "run", resume=True).__exit__(None, None, None)


def test_resume_takes_the_recorded_number_of_threads_and_names_all_else_that_changed(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        open_run(tmp_path / "run", threads=1).__exit__(None, None, None)
        torch.set_num_threads(2)
        open_run(tmp_path / "run", resume=True).__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        with pytest.raises(ValueError, match=r"environment.threads: 1 then, 2 now[\s\S]*--init"):
            open_run(tmp_path / "run", resume=True, threads=2)
        path = tmp_path / "run" / "run.json"
        path.write_text(path.read_text().replace(torch.__version__, "1.0").replace('"cpu"', '"tpu"'))
        with pytest.raises(ValueError, match=r"environment.device: 'tpu' then[\s\S]*libraries.torch: '1.0' then"):
            open_run(tmp_path / "run", resume=True)
    finally:
        torch.set_num_threads(before)


def test_other_settings_or_other_data_are_refused_on_resume(tmp_path: Path) -> None:
    run_toy(tmp_path / "run", settings(steps=3, average=None))
    with pytest.raises(ValueError, match=r"train.accumulate: 2 then, 1 now\n  train.steps: 3 then, 9 now"):
        run_toy(tmp_path / "run", settings(steps=9, accumulate=1, average=None), resume=True)
    with open_run(tmp_path / "run", resume=True) as run:
        run.pin({"data": {"source": "0f3a"}})
        with pytest.raises(ValueError, match=r"data.source: '0f3a' then, '9bc1' now"):
            run.pin({"data": {"source": "9bc1"}})


def test_a_cut_metrics_file_and_a_damaged_checkpoint_are_told(tmp_path: Path) -> None:
    run_toy(tmp_path / "run", settings(steps=8, average=None))
    newest = checkpoints(tmp_path / "run")[-1].path
    metrics = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    (tmp_path / "run" / "metrics.jsonl").write_bytes(metrics[:-9])
    with pytest.raises(ValueError, match="it was cut or removed"):
        run_toy(tmp_path / "run", settings(steps=8, average=None), resume=True)
    (tmp_path / "run" / "metrics.jsonl").write_bytes(metrics)
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"truncated[\s\S]*remove .*step-00000008"):
        run_toy(tmp_path / "run", settings(steps=8, average=None), resume=True)
    (newest / "state.json").write_text("{")
    with pytest.raises(ValueError, match=r"damaged checkpoint"):
        run_toy(tmp_path / "run", settings(steps=8, average=None), resume=True)


def test_a_full_disk_while_saving_leaves_the_checkpoints_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.train import state

    plain = state.write_tensors

    def full(path: Path, tensors: dict[str, Tensor]) -> None:
        if "step-00000008" in str(path) and path.name.startswith("optimizer"):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        plain(path, tensors)

    run_toy(tmp_path / "plain", settings(steps=8))
    monkeypatch.setattr(state, "write_tensors", full)
    with pytest.raises(OSError, match=r"No space left on device: .*step-00000008 was not written"):
        run_toy(tmp_path / "run", settings(steps=8))
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["step-00000004"]
    run_toy(tmp_path / "run", settings(steps=8), resume=True)
    assert evidence(tmp_path / "run") == evidence(tmp_path / "plain")


if __name__ == "__main__":
    child(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
