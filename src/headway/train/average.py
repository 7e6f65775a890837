"""The mean of several checkpoints' weights, summed in float64 (Vaswani et al. 2017, section 6.1: the last 5 or 20)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from headway.checkpoint import read_tensors


def average(files: Sequence[Path]) -> dict[str, Tensor]:
    """Mean of safetensors files, name by name, in the dtype of the first; integer tensors must be equal.

    One file at a time is in memory. Raises ValueError when the files do not hold the same tensors.
    """
    if not files:
        raise ValueError("there is no checkpoint to average")
    first = read_tensors(files[0])
    total = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in first.items()}
    for path in files[1:]:
        tensors = read_tensors(path)
        faults = [f"{name} is in one only" for name in sorted(first.keys() ^ tensors.keys())]
        for name in sorted(first.keys() & tensors.keys()):
            if tensors[name].shape != first[name].shape:
                faults.append(f"{name} is {tuple(tensors[name].shape)}, {tuple(first[name].shape)} in the first")
            elif first[name].is_floating_point():
                total[name] += tensors[name]
            elif not torch.equal(first[name], tensors[name]):
                faults.append(f"{name} is of whole numbers, and they differ")
        if faults:
            raise ValueError(f"{path} and {files[0]} are of different models:\n  " + "\n  ".join(faults))
    return {
        name: (tensor / len(files)).to(first[name].dtype) if tensor.is_floating_point() else tensor
        for name, tensor in total.items()
    }
