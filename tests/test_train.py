"""The loop: loss per target token however an update is cut up, what stops it, what it keeps, what it writes."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headway.allocator import tune_allocator
from headway.checkpoint import module_tensors, read_tensors
from headway.config import AverageConfig, TrainConfig
from headway.data.batch import Batch
from headway.train.average import average
from headway.train.log import Bar, Lines, Silence, reporter
from headway.train.loop import TrainingError, train
from headway.train.state import checkpoints, open_run
from test_resume import LINES, Toy, ToyLoader, settings, toy_loss, validation_loss


def run(
    path: Path,
    config: TrainConfig,
    model: nn.Module | None = None,
    loader: Any = None,
    validate: Any = validation_loss,
    progress: Any = None,
    **more: Any,
) -> nn.Module:
    if model is None:
        torch.manual_seed(config.seed)
        model = Toy()
    with open_run(path) as folder:
        train(
            model,
            loader or ToyLoader(),
            config,
            folder,
            loss=toy_loss(config),
            validate=validate,
            device="cpu",
            progress=progress or Silence(),
            **more,
        )
    return model


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


class Told(Silence):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


# --------------------------------------------------------------------------------------------------- promise 5


class Cut:
    """The same lines every time, as one batch or as several."""

    def __init__(self, parts: list[list[int]]) -> None:
        self.parts = parts

    def start(self, epoch: int, position: int) -> Iterator[tuple[int, int, Batch]]:
        while True:
            for place, ids in enumerate(self.parts):
                yield epoch, place, ToyLoader().collate(ids)
            epoch += 1


@pytest.mark.parametrize("clip", [None, 0.01])
def test_micro_batches_of_uneven_size_give_the_gradient_and_the_loss_of_the_one_big_batch(
    tmp_path: Path, clip: float | None
) -> None:
    gradients: list[list[Tensor]] = []
    for number, parts in enumerate(([[*range(9)]], [[0], [1, 2, 3, 4, 5], [6, 7], [8]])):
        torch.manual_seed(7)
        model = Toy(dropout=0).double()

        class Keeps(Silence):
            def step(self, row: Any, steps: int) -> None:
                grads = [one.grad for one in model.parameters()]  # noqa: B023
                gradients.append([grad.clone() for grad in grads if grad is not None])

        config = settings(steps=1, accumulate=len(parts), clip=clip, average=None)
        run(tmp_path / str(number), config, model, Cut(parts), validate=None, progress=Keeps())
    for big, small in zip(*gradients, strict=True):
        torch.testing.assert_close(small, big, rtol=1e-9, atol=1e-12)
    big, small = (rows(tmp_path / name)[0] for name in "01")
    assert small["tokens"] == big["tokens"]
    assert [small[name] for name in ("loss", "nll", "grad_norm")] == pytest.approx(
        [big[name] for name in ("loss", "nll", "grad_norm")], rel=1e-9
    )
    if clip:
        norm = torch.stack([gradient.norm() for gradient in gradients[1]]).norm()
        assert norm.item() == pytest.approx(clip, rel=1e-4), "clipped after the division by tokens"


# ------------------------------------------------------------------------------------------------ what it writes


def test_a_run_learns_and_its_metrics_hold_no_clock(tmp_path: Path) -> None:
    run(tmp_path, settings(steps=40, validate_every=20, average=None))
    steps = [row for row in rows(tmp_path) if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, 41))
    assert steps[-1]["nll"] < steps[0]["nll"] - 0.2
    assert set(steps[0]) == {"step", "epoch", "lr", "loss", "nll", "tokens", "grad_norm", "padding"}
    assert [row for row in rows(tmp_path) if "loss" not in row] == [
        {"step": 20, "valid_loss": pytest.approx(2.9, abs=0.5)},
        {"step": 40, "valid_loss": pytest.approx(2.9, abs=0.5)},
    ]
    assert [row["lr"] for row in steps[:8]] == pytest.approx(
        [0.005, 0.01, 0.015, 0.02, *(0.04 / np.sqrt([5, 6, 7, 8]))]
    )
    assert all(0 <= row["padding"] < 1 for row in steps)
    timing = [json.loads(line) for line in (tmp_path / "timing.jsonl").read_text().splitlines()]
    assert len(timing) == 42
    assert set(timing[0]) == {"step", "unix", "seconds"}
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))


def test_padding_is_the_share_of_places_without_a_token_over_the_whole_update(tmp_path: Path) -> None:
    parts = [[0, 1, 2], [3, 4]]
    run(tmp_path, settings(steps=1, accumulate=2, average=None), loader=Cut(parts), validate=None)
    lengths = [[[len(side) + 1 for side in ToyLoader().lines[number]] for number in part] for part in parts]
    places = sum(len(part) * (max(s for s, _ in part) + max(t for _, t in part)) for part in lengths)
    filled = sum(source + target for part in lengths for source, target in part)
    assert rows(tmp_path)[0]["padding"] == pytest.approx(1 - filled / places)
    assert filled < places


def test_validation_sees_the_model_without_dropout_and_leaves_no_trace_in_the_updates(tmp_path: Path) -> None:
    def validate(model: nn.Module, step: int) -> dict[str, float]:
        assert not model.training
        torch.rand(5)
        return validation_loss(model, step)

    often, never = settings(steps=9, validate_every=2, average=None), settings(steps=9, average=None)
    run(tmp_path / "often", often, validate=validate)
    run(tmp_path / "never", never, validate=None)
    assert [row for row in rows(tmp_path / "often") if "loss" in row] == rows(tmp_path / "never")


def test_bfloat16_runs_under_autocast_and_keeps_float32_weights(tmp_path: Path) -> None:
    seen = []
    model = Toy()
    model.mix.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    run(tmp_path, settings(steps=2, dtype="bfloat16", average=None), model, validate=None)
    assert set(seen) == {torch.bfloat16}
    assert model.embed.weight.dtype == torch.float32


# ------------------------------------------------------------------------------------------------ what stops it


class Breaks(Toy):
    """Goes wrong in the forward of the fourth update (two micro-batches each)."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.calls, self.factor = 0, factor

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return super().hidden(source, target) * (self.factor if self.calls == 8 else 1)


@pytest.mark.parametrize(
    ("factor", "told"), [(float("nan"), "the loss is nan"), (float("inf"), "the loss is nan"), (1e5, "exploded")]
)
def test_a_loss_that_is_not_finite_or_explodes_stops_with_the_batch_saved(
    tmp_path: Path, factor: float, told: str
) -> None:
    model = Breaks(factor)

    class Keeps(Silence):
        def step(self, row: Any, steps: int) -> None:
            self.weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    keeps = Keeps()
    with pytest.raises(TrainingError, match=rf"step 4: .*{told}.*lower learning rate") as error:
        run(
            tmp_path,
            settings(average=None),
            model,
            progress=keeps,
            describe=lambda batch: [f"line {number}" for number in batch.ids],
        )
    assert str(tmp_path / "failed-step-00000004.json") in str(error.value)
    saved = json.loads((tmp_path / "failed-step-00000004.json").read_text())
    stream = ToyLoader().start(0, 0)
    wanted = [next(stream)[2] for _ in range(8)][-2:]
    assert [batch["ids"] for batch in saved["batches"]] == [batch.ids for batch in wanted]
    assert saved["batches"][0]["text"] == [f"line {number}" for number in wanted[0].ids]
    assert saved["batches"][1]["source"] == wanted[1].inputs["source"].tolist()
    assert all(torch.equal(keeps.weights[name], tensor) for name, tensor in model.state_dict().items())
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 3]


def test_a_gradient_that_is_not_finite_under_a_finite_loss_stops_too(tmp_path: Path) -> None:
    class Root(Toy):
        def hidden(self, source: Tensor, target: Tensor) -> Tensor:
            zero = (self.mix.weight[0, 0] * 0).sqrt()  # 0, with an infinite slope
            return super().hidden(source, target) + zero

    with pytest.raises(TrainingError, match=r"step 1: the loss is \d\.\d+, the gradient's norm (nan|inf)"):
        run(tmp_path, settings(), Root())


class Scores:
    """A validation that gives these losses in turn."""

    def __init__(self, *losses: float) -> None:
        self.losses = iter(losses)

    def __call__(self, model: nn.Module, step: int) -> dict[str, float]:
        return {"loss": next(self.losses), "bleu": 1.0}


def test_patience_stops_after_so_many_validations_without_a_better_loss_and_takes_the_best(tmp_path: Path) -> None:
    config = settings(steps=90, validate_every=3, save_every=50, patience=3, average=None)
    told = Told()
    model = run(tmp_path, config, validate=Scores(5, 4, 4.5, 3, 3, 3.5, 3.2, 9), progress=told)
    assert rows(tmp_path)[-1]["step"] == 21
    assert told.said[-1] == "final weights: step 12"
    (best,) = (one for one in checkpoints(tmp_path) if one.state.step == 12)
    assert all(torch.equal(tensor, read_tensors(best.weights)[name]) for name, tensor in module_tensors(model).items())


def test_patience_or_the_best_without_validation_data_is_refused_before_any_work(tmp_path: Path) -> None:
    for number, changes in enumerate(({"patience": 2}, {"average": AverageConfig(kind="best", num=2)})):
        with pytest.raises(ValueError, match="need validation data"):
            run(tmp_path / str(number), settings(**changes), validate=None)


# ------------------------------------------------------------------------------------------------ what it keeps


def test_the_last_checkpoints_are_kept_and_averaged_into_the_model(tmp_path: Path) -> None:
    told = Told()
    model = run(tmp_path, settings(), progress=told)
    kept = checkpoints(tmp_path)
    assert [one.state.step for one in kept] == [24, 28, 31]
    assert told.said[-1] == "final weights: mean of step 24, 28, 31"
    wanted = average([one.weights for one in kept])
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in module_tensors(model).items())
    assert isinstance(model, Toy)
    assert model.unembed.weight is model.embed.weight
    assert not model.training


def test_the_best_checkpoints_are_kept_however_old_and_averaged(tmp_path: Path) -> None:
    config = settings(steps=30, validate_every=5, save_every=4, keep=2, average=AverageConfig(kind="best", num=2))
    told = Told()
    run(tmp_path, config, validate=Scores(3, 7, 1, 6, 5, 4), progress=told)
    assert [one.state.step for one in checkpoints(tmp_path)] == [5, 15, 28, 30]
    assert told.said[-1] == "final weights: mean of step 5, 15"


def test_without_averaging_the_model_ends_with_its_last_weights(tmp_path: Path) -> None:
    model = run(tmp_path, settings(steps=7, average=None))
    last = checkpoints(tmp_path)[-1]
    assert last.state.step == 7
    assert all(torch.equal(tensor, read_tensors(last.weights)[name]) for name, tensor in module_tensors(model).items())


# ------------------------------------------------------------------------------------------------ words for a person


def test_plain_lines_go_to_the_stream_at_most_one_in_so_many_seconds_and_the_last_step_always() -> None:
    stream = io.StringIO()
    lines = Lines(stream, seconds=3600)
    for step in (1, 2, 5):
        lines.step({"step": step, "loss": 2.5, "nll": 2.25, "lr": 3e-4, "tokens_per_second": 1234.5}, 5)
    assert stream.getvalue().splitlines() == [
        f"step {step} of 5  loss 2.5000  nll 2.2500  lr 3.00e-04  1,234 tokens/s" for step in (1, 5)
    ]


def test_the_bar_speaks_on_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar()
    bar.step({"step": 1, "loss": 2.5, "nll": 2.25, "lr": 3e-4, "tokens_per_second": 1234.5}, 5)
    bar.say("step 1: bleu [3]")
    bar.close()
    out, err = capsys.readouterr()
    assert not out
    assert "bleu [3]" in err


def test_the_reporter_fits_where_stderr_leads() -> None:
    assert isinstance(reporter(quiet=True), Silence)
    assert isinstance(reporter(), Lines)


def test_the_allocator_is_tuned_or_says_that_it_is_not() -> None:
    import platform

    assert tune_allocator() is (platform.libc_ver()[0] == "glibc")


def test_the_toy_covers_every_line_in_an_epoch() -> None:
    stream = ToyLoader().start(0, 0)
    assert sorted(number for _ in range(5) for number in next(stream)[2].ids) == list(range(LINES))
