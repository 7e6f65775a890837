"""A recorder that the caller hands in: attention weights, hidden states and the like go there and nowhere else."""

from __future__ import annotations

from torch import Tensor


class Trace:
    """What a forward showed on its way, by dotted name: `trace["decoder.layers.0.cross.weights"]`.

    A part records under its own short name; whoever calls it says where it stands with `at`.
    """

    def __init__(self, records: dict[str, list[Tensor]] | None = None, prefix: str = "") -> None:
        self.records: dict[str, list[Tensor]] = {} if records is None else records
        self.prefix = prefix

    def at(self, name: str) -> Trace:
        """The same records, seen from one level further in."""
        return Trace(self.records, f"{self.prefix}{name}.")

    def record(self, name: str, value: Tensor) -> None:
        """Append `value`; a part that is called once a decoding step records once a step."""
        self.records.setdefault(self.prefix + name, []).append(value)

    def __getitem__(self, name: str) -> list[Tensor]:
        return self.records[self.prefix + name]
