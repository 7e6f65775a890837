"""The mixer interface: whatever moves information between positions. Attention, recurrences and linear attention are
tenants.

The contract is a test suite, `tests/contract/test_mixer.py`, which finds every mixer that a config can name.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.cache import Cache, SourceCache
from headway.nn.mask import Causal, Full, Mask
from headway.nn.trace import Trace


@dataclass(frozen=True)
class Serves:
    """What a mixer can do. `build` refuses the rest, with the reason.

    masks: the kinds of simple mask it honours; cross: it can read another stream; cached: it can decode step by step.
    """

    masks: frozenset[type[Mask]] = frozenset({Full, Causal})
    cross: bool = False
    cached: bool = False

    @property
    def causal(self) -> bool:
        return Causal in self.masks

    def refusal(self, mask: Mask, *, cross: bool = False, cached: bool = False) -> str | None:
        """Why this mixer cannot be used so, or None if it can."""
        unserved = sorted({type(m).__name__ for m in mask.parts() if type(m) not in self.masks})
        if unserved:
            return f"does not serve the mask {', '.join(unserved)}"
        if cross and not self.cross:
            return "cannot read another stream (cross-attention)"
        if cached and not self.cached:
            return "cannot decode step by step (it has no cache)"
        return None


class Mixer(nn.Module):
    """Abstract. A final mixer says what it `serves` and writes `forward`; one that is cached also writes
    `new_cache`."""

    serves: Serves

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        context: Float[Tensor, "B S D"] | None = None,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context_positions: Int[Tensor, "B S"] | None = None,
        cache: Cache | SourceCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Mix `x` with itself, or with `context` where given.

        positions: of each slot of `x`, -1 where it holds no token. With a `cache` the call continues where the cache
        ends, and reads what it
        holds; without one it sees `x` alone.
        """
        raise TypeError(f"{type(self).__name__} is abstract")

    def new_cache(self, rows: int) -> Cache:
        """An empty memory for `rows` sequences."""
        raise TypeError(f"{type(self).__name__} has no cache")

    def new_source_cache(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> SourceCache:
        """What decoding needs of each source, computed once; only mixers that serve `cross` have it."""
        raise TypeError(f"{type(self).__name__} cannot read another stream")
