"""Weights come back as they were, tied as they were, or with a sentence; and a failed write leaves the old file."""

import errno
import json
import math
import os
import resource
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from headway import checkpoint
from headway.checkpoint import check_writable, load_weights, read_config, save_model, write_files
from headway.train.average import average


class Tied(nn.Module):
    def __init__(self, dim: int = 3, ffn: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, dim)
        self.up = nn.Linear(dim, ffn)
        self.register_buffer("scale", torch.ones(2))
        self.out = nn.Linear(dim, 7, bias=False)
        self.out.weight = self.embed.weight


class FakeTokenizers:
    names = "tokenizer.json"

    def files(self) -> dict[str, Callable[[Path], None]]:
        return {self.names: lambda path: path.write_text("{}")}


def saved(folder: Path, seed: int = 1) -> Tied:
    torch.manual_seed(seed)
    model = Tied()
    save_model(folder, model, {"model": {"dim": 3}, "languages": ["en", "de"]}, FakeTokenizers())
    return model


def test_a_model_folder_comes_back_bit_for_bit_with_tied_weights_stored_once_and_still_tied(tmp_path: Path) -> None:
    model, other = saved(tmp_path / "m"), Tied()
    load_weights(other, tmp_path / "m")
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
    assert set(checkpoint.read_tensors(tmp_path / "m" / "model.safetensors")) == {
        "embed.weight",
        "up.weight",
        "up.bias",
        "scale",
    }
    assert other.out.weight is other.embed.weight
    other.out(other.embed(torch.tensor([3]))).sum().backward()
    torch.optim.SGD(other.parameters(), lr=0.5).step()
    assert other.out.weight is other.embed.weight
    assert read_config(tmp_path / "m") == {
        "format": 1,
        "model": {"dim": 3},
        "languages": ["en", "de"],
        "tokenizer": "tokenizer.json",
    }
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_the_file_of_weights_is_a_function_of_the_weights(tmp_path: Path) -> None:
    saved(tmp_path / "a")
    saved(tmp_path / "b")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_either_name_of_a_tied_tensor_will_do_but_two_that_differ_will_not(tmp_path: Path) -> None:
    model = Tied()
    tensors = dict(model.state_dict())
    del tensors["embed.weight"]
    checkpoint.load_tensors(Tied(), tensors)
    checkpoint.load_tensors(Tied(), model.state_dict())
    with pytest.raises(ValueError, match=r"tied, yet different: out.weight and embed.weight"):
        checkpoint.load_tensors(Tied(), {**tensors, "embed.weight": model.embed.weight.detach() + 1})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused_and_tied_ones_are_compared_by_bits(value: float) -> None:
    tensors = {name: tensor.clone() for name, tensor in Tied().state_dict().items()}
    for name in ("embed.weight", "out.weight", "up.bias"):
        tensors[name].view(-1)[2] = value
    with pytest.raises(ValueError, match="does not fit the model") as told:
        checkpoint.load_tensors(Tied(), tensors)
    lines = [line.strip().split(" has ")[0] for line in str(told.value).splitlines()[1:]]
    assert sorted(lines) == ["not finite: embed.weight", "not finite: out.weight", "not finite: up.bias"]


def test_weights_too_large_for_the_type_of_the_model_are_refused() -> None:
    tensors = {name: tensor.double() for name, tensor in checkpoint.module_tensors(Tied()).items()}
    checkpoint.load_tensors(Tied(), tensors)
    tensors["up.bias"][1] = 1e39
    with pytest.raises(ValueError, match=r"not finite: up\.bias"):
        checkpoint.load_tensors(Tied(), tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_floats_of_another_width_are_taken(dtype: torch.dtype) -> None:
    model, other = Tied(), Tied()
    checkpoint.load_tensors(other, {name: tensor.to(dtype) for name, tensor in model.state_dict().items()})
    assert torch.equal(other.up.weight, model.up.weight.to(dtype).float())
    assert other.out.weight is other.embed.weight


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_numbers_of_another_kind_are_refused(dtype: torch.dtype) -> None:
    tensors = {**Tied().state_dict(), "up.bias": torch.ones(4, dtype=dtype)}
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(ValueError, match=f"wrong type: up.bias is {name}, the model has float32"):
        checkpoint.load_tensors(Tied(), tensors)


def test_missing_unexpected_and_misshaped_tensors_are_listed_together_with_the_nearest_names(tmp_path: Path) -> None:
    model, other = saved(tmp_path / "m"), Tied(ffn=5)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    tensors = checkpoint.module_tensors(model)
    tensors["embed.weigth"] = tensors.pop("embed.weight")
    tensors["head"] = torch.zeros(1)
    checkpoint.write_tensors(tmp_path / "m" / "model.safetensors", tensors)
    with pytest.raises(ValueError, match="does not fit the model") as told:
        load_weights(other, tmp_path / "m")
    lines = [line.strip() for line in str(told.value).splitlines()]
    assert lines[0].startswith(str(tmp_path / "m" / "model.safetensors"))
    assert sorted(lines[1:]) == [
        "missing: embed.weight (7, 3) (nearest: embed.weigth)",
        "unexpected: embed.weigth (7, 3) (nearest: embed.weight)",
        "unexpected: head (1,)",
        "wrong shape: up.bias is (4,), the model has (5,)",
        "wrong shape: up.weight is (4, 3), the model has (5, 3)",
    ]
    assert all(torch.equal(before[name], tensor) for name, tensor in other.state_dict().items()), "nothing was touched"


@pytest.mark.parametrize("left", [0, 5, 60, -1])
def test_a_truncated_file_of_weights_is_told(tmp_path: Path, left: int) -> None:
    saved(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ValueError, match=r"model\.safetensors: is truncated or is no safetensors file"):
        load_weights(Tied(), tmp_path / "m")


def test_missing_files_another_version_and_broken_json_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no model folder: it has no config\.json"):
        read_config(tmp_path)
    saved(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors: there is no such file .* again; .* --resume"):
        load_weights(Tied(), tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"tokenizer\.json is missing"):
        read_config(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    for text, told in (('{"format": 9}', "format = 9: this Headway reads format 1"), ("[1]", "format = None")):
        path.write_text(text)
        with pytest.raises(ValueError, match=told):
            read_config(tmp_path / "m")
    for text in ("{", "\xff", "[" * 100_000, '{"format": ' + "1" * 5_000 + "}"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(ValueError, match=r"config\.json: is no JSON .*Copy the whole model folder again"):
            read_config(tmp_path / "m")


@pytest.mark.parametrize("name", ["other.json", "../tokenizer.json", None, 3])
def test_a_tokenizer_of_another_name_is_refused(tmp_path: Path, name: object) -> None:
    saved(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(json.dumps({"format": 1, "tokenizer": name}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: tokenizer = .*: it must be 'tokenizer\.json'.*Give") as told:
        read_config(tmp_path / "m")
    assert repr(name) in str(told.value)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_every_file_of_a_model_may_be_read_by_whom_the_umask_says(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        saved(tmp_path / "m")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "m").iterdir()} == {0o666 & ~mask}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("failing", ["write_tensors", "write_json", "fsync"])
def test_a_full_disk_while_saving_leaves_the_whole_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    saved(tmp_path / "m")
    before = contents(tmp_path / "m")

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, failing, full)
    with pytest.raises(OSError, match=r"No space left on device: .* was not written; .* intact") as told:
        saved(tmp_path / "m", seed=2)
    assert told.value.errno == errno.ENOSPC
    assert contents(tmp_path / "m") == before


def test_a_write_that_the_system_cuts_off_leaves_the_whole_old_model(tmp_path: Path) -> None:
    """The real thing: the library's own writer runs into a limit on the size of files."""
    saved(tmp_path / "m")
    before = contents(tmp_path / "m")
    big = nn.Linear(100, 100)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, limits[1]))
        with pytest.raises(OSError, match=r"File too large: .*model\.safetensors was not written") as told:
            save_model(tmp_path / "m", big, {})
        with pytest.raises(OSError, match=r"File too large: '.*checkpoint'") as direct:
            checkpoint.write_tensors(tmp_path / "checkpoint", big.state_dict())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert told.value.errno == direct.value.errno == errno.EFBIG
    assert contents(tmp_path / "m") == before


def test_a_failure_without_a_number_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise checkpoint.SafetensorError("Error while serializing: the moon is full")

    monkeypatch.setattr(checkpoint, "save_file", fails)
    with pytest.raises(OSError, match=r"the moon is full: .*model\.safetensors was not written") as told:
        saved(tmp_path / "m")
    assert "None" not in str(told.value)


def test_several_files_are_written_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fails(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        write_files(tmp_path, {"a": lambda path: path.write_text("new"), "b": fails})
    assert contents(tmp_path) == {"a": b"old"}


def test_an_output_that_cannot_be_written_is_found_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "not" / "yet" / "there")
    assert not list(tmp_path.iterdir()), "asking leaves nothing behind"
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"cannot be written: .*file: it is not a folder"):
            check_writable(place)
    if Path("/proc").is_dir():  # where even root may make nothing
        with pytest.raises(ValueError, match="cannot be written: /proc: "):
            check_writable("/proc/model")


def test_an_average_is_the_mean_taken_in_float64(tmp_path: Path) -> None:
    torch.manual_seed(3)
    files, tensors = [], []
    for number in range(5):
        tensors.append({"w": torch.randn(4, 3) * 10.0**number, "h": torch.randn(6).bfloat16(), "n": torch.tensor([9])})
        files.append(tmp_path / f"{number}.safetensors")
        checkpoint.write_tensors(files[-1], tensors[-1])
    mean = average(files)
    for name in ("w", "h"):
        wanted = torch.stack([one[name].double() for one in tensors]).mean(0)
        torch.testing.assert_close(mean[name], wanted.to(mean[name].dtype), rtol=0, atol=0)
        assert mean[name].dtype == tensors[0][name].dtype
    assert mean["n"].tolist() == [9]
    alone = average(files[:1])
    assert all(torch.equal(alone[name], tensors[0][name]) for name in alone)


def test_checkpoints_of_different_models_are_not_averaged(tmp_path: Path) -> None:
    checkpoint.write_tensors(tmp_path / "a", {"w": torch.zeros(3), "n": torch.tensor([1]), "x": torch.zeros(1)})
    checkpoint.write_tensors(tmp_path / "b", {"w": torch.zeros(4), "n": torch.tensor([2])})
    with pytest.raises(ValueError, match="different models") as told:
        average([tmp_path / "a", tmp_path / "b"])
    assert all(
        part in str(told.value) for part in ("x is in one only", "w is (4,), (3,) in the first", "n is of whole")
    )
    with pytest.raises(ValueError, match="no checkpoint to average"):
        average([])


def test_the_config_on_the_disk_is_plain_json(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))["format"] == checkpoint.FORMAT
