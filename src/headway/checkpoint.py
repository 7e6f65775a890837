"""The model folder (config.json with a format version, model.safetensors, tokenizer.json), and safe writing of files.

A file is written beside its place, flushed to the disk and renamed, so whatever happens in between (a kill, a full
disk, a power cut) the old one stays whole. Weights are safetensors: no pickle, and nothing in a model folder is run.
Parameters that a module shares (tied embeddings) are stored once and stay shared after loading.
"""

import difflib
import errno
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from headway.text.tokenizer import TOKENIZER, TOKENIZERS

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class Saves(Protocol):
    """What tokenizers must do to live in a model folder (`headway.text.tokenizer.TokenizerPair`)."""

    @property
    def names(self) -> str | list[str]: ...

    def files(self) -> dict[str, Callable[[Path], None]]: ...


# ---------------------------------------------------------------------------------------------------- writing


def check_writable(folder: Path | str) -> None:
    """Find out now, not after hours of work, that `folder` cannot be made or written to. Leaves nothing behind.

    Raises ValueError with the reason.
    """
    folder = Path(folder).absolute()
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        why = "it is not a folder" if not place.is_dir() else error.strerror
        raise ValueError(f"{folder}: cannot be written: {place}: {why}. Name another folder for the output") from error


def fsync(path: Path) -> None:
    """Make a file's bytes, or a folder's list of names, safe from a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_files(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Write several files of one folder so that each is either the whole old one or the whole new one.

    Every new file is complete on the disk before the first old one is replaced. Raises OSError naming the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = {name: folder / f".{name}.{os.getpid()}.tmp" for name in writers}
    name = ""
    try:
        for name, write in writers.items():
            write(temporary[name])
            fsync(temporary[name])
        for name, path in temporary.items():
            os.replace(path, folder / name)
        fsync(folder)
    except OSError as error:
        told = f"{error.strerror or error}: {folder / name} was not written; what was there before is intact"
        raise OSError(error.errno or errno.EIO, told) from error
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Plain writing of one JSON file: no half-written guard, so call it inside `write_files` or a temporary folder."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Plain writing of one safetensors file; the bytes depend on the tensors only. Raises OSError naming the file."""
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)  # the library would leave a file for the owner alone, whatever the umask
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})
    except SafetensorError as error:  # the library's writer puts a full disk into words; give it back its type
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number) if found else str(error), str(path)) from error
    path.chmod(mode)


def read_tensors(path: Path | str) -> dict[str, Tensor]:
    """All tensors of a safetensors file, on the CPU. Raises ValueError when it is missing, cut off or another kind."""
    path = Path(path)
    if not path.is_file():
        told = f"{path}: there is no such file of weights. Copy the whole model folder again"
        raise ValueError(f"{told}; a run that is not finished has none yet: go on with headway train --resume")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        told = f"{path}: is truncated or is no safetensors file ({error}). Copy it again, or use another checkpoint"
        raise ValueError(told) from error


# ---------------------------------------------------------------------------------------------- names of a module


def shared_names(module: nn.Module) -> dict[str, list[str]]:
    """Each tensor of the module's state under its first name, with all the names it goes by (tied weights)."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        by_tensor.setdefault(id(tensor), []).append(name)
    return {names[0]: names for names in by_tensor.values()}


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The module's parameters and buffers, each stored once."""
    state = module.state_dict()
    return {name: state[name] for name in shared_names(module)}


@torch.no_grad()
def load_tensors(module: nn.Module, tensors: Mapping[str, Tensor], origin: str = "weights") -> None:
    """Copy tensors into the module in place, so that what is tied stays tied; floats take the module's dtype.

    Raises ValueError listing every missing, unexpected (with the nearest names) and misshaped tensor, and every one of
    another type of number, with NaN or infinity (then or in the module's dtype), or tied to one with other bits.
    """
    state, wanted = module.state_dict(), shared_names(module)
    known = {alias for names in wanted.values() for alias in names}
    extra = [name for name in tensors if name not in known]
    faults, copies = [], []
    for name, names in wanted.items():
        given = [alias for alias in names if alias in tensors]
        if not given:
            faults.append(f"missing: {name} {tuple(state[name].shape)}{nearest(name, extra)}")
        for alias in given:
            tensor, dtype = tensors[alias], state[name].dtype
            if tensor.shape != state[name].shape:
                told = f"{tuple(tensor.shape)}, the model has {tuple(state[name].shape)}"
                faults.append(f"wrong shape: {alias} is {told}")
            elif tensor.dtype != dtype and not (tensor.is_floating_point() and dtype.is_floating_point):
                told = f"{tensor.dtype}, the model has {dtype}".replace("torch.", "")
                faults.append(f"wrong type: {alias} is {told}")
            elif not tensor.to(dtype).isfinite().all():
                faults.append(f"not finite: {alias} has NaN or infinity; copy it again, or use another checkpoint")
            elif alias != given[0] and not torch.equal(bits(tensor.to(dtype)), bits(tensors[given[0]].to(dtype))):
                faults.append(f"tied, yet different: {alias} and {given[0]} are one tensor in the model")
        copies += [(state[name], tensors[alias]) for alias in given[:1]]
    faults += [f"unexpected: {name} {tuple(tensors[name].shape)}{nearest(name, list(known))}" for name in extra]
    if faults:
        raise ValueError(f"{origin}: does not fit the model:\n  " + "\n  ".join(faults))
    for target, source in copies:
        target.copy_(source)


def bits(tensor: Tensor) -> Tensor:
    return tensor.flatten().view(torch.uint8)


def nearest(name: str, names: list[str]) -> str:
    """The most alike name in words, or nothing."""
    found = difflib.get_close_matches(name, names, n=1)
    return f" (nearest: {found[0]})" if found else ""


# ------------------------------------------------------------------------------------------------ the model folder


def save_model(
    folder: Path | str, module: nn.Module, config: Mapping[str, Any], tokenizers: Saves | None = None
) -> None:
    """Write a model folder. `config` is JSON: whatever is needed to build the module again, and more if you like."""
    files = tokenizers.files() if tokenizers else {}
    written = {"format": FORMAT, **config, **({"tokenizer": tokenizers.names} if tokenizers else {})}
    write_files(
        Path(folder),
        files
        | {CONFIG: lambda path: write_json(path, written)}
        | {WEIGHTS: lambda path: write_tensors(path, module_tensors(module))},
    )


def read_config(folder: Path | str) -> dict[str, Any]:
    """The config of a model folder, its format version and the presence of its tokenizer checked."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise ValueError(f"{folder}: is no model folder: it has no {CONFIG}. Name the folder that training wrote")
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON ({error}). Copy the whole model folder again") from error
    version = config.get("format") if isinstance(config, dict) else None
    if version != FORMAT:
        told = f"{path}: format = {version!r}: this Headway reads format {FORMAT}"
        raise ValueError(f"{told}. Use the Headway version that wrote it, or convert the model with it")
    given = config.get("tokenizer", TOKENIZER)
    if given not in (TOKENIZER, [*TOKENIZERS]):
        told = f"{path}: tokenizer = {given!r}: it must be {TOKENIZER!r} or {[*TOKENIZERS]}, files of the model folder"
        raise ValueError(f"{told}. Give the tokenizer that name there and here, or drop the key if there is none")
    for name in ([given] if isinstance(given, str) else given) if "tokenizer" in config else ():
        if not (Path(folder) / name).is_file():
            raise ValueError(f"{folder}: {name} is missing. Copy the whole model folder again")
    return config


def load_weights(module: nn.Module, path: Path | str) -> None:
    """Load a model folder's weights, or one safetensors file, into a module that was built for them.

    Raises ValueError for a missing or truncated file, and for all tensors that do not fit, at once.
    """
    path = Path(path)
    path = path / WEIGHTS if path.is_dir() else path
    load_tensors(module, read_tensors(path), str(path))
