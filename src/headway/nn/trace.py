"""A recorder that the caller hands in: attention weights, hidden states, auxiliary losses go there and nowhere else."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor


class Trace:
    """What a forward showed on its way, by dotted name: `trace["decoder.layers.0.cross.weights"]`.

    A part records under its own short name; whoever calls it says where it stands with `at`. only: the short names
    that are wanted, all by default; a part asks `wants` where to show something costs time.
    """

    def __init__(
        self,
        records: dict[str, list[Tensor]] | None = None,
        prefix: str = "",
        *,
        only: Collection[str] | None = None,
    ) -> None:
        self.records: dict[str, list[Tensor]] = {} if records is None else records
        self.prefix, self.only = prefix, only

    def at(self, name: str) -> Trace:
        """The same records, seen from one level further in."""
        return Trace(self.records, f"{self.prefix}{name}.", only=self.only)

    def wants(self, name: str) -> bool:
        return self.only is None or name in self.only

    def record(self, name: str, value: Tensor) -> None:
        """Append `value`; a part that is called once a decoding step records once a step."""
        if self.wants(name):
            self.records.setdefault(self.prefix + name, []).append(value)

    def __getitem__(self, name: str) -> list[Tensor]:
        return self.records[self.prefix + name]
