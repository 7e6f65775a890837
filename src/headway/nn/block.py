"""One layer of the paper's figure 1: mix, (in a pair's decoder) look at the source, feed forward."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.cache import Cache, SourceCache
from headway.nn.mask import Full, Mask
from headway.nn.mixer import Mixer
from headway.nn.trace import Trace


@dataclass
class LayerCache:
    """What one layer remembers while decoding: its own tokens', and its sources'."""

    mixer: Cache
    cross: SourceCache | None


class Block(nn.Module):
    """Built parts in the order of the figure; each `join_*` is a residual rule (`headway.nn.residual`)."""

    def __init__(
        self,
        mixer: Mixer,
        join_mixer: nn.Module,
        cross: Mixer | None = None,
        join_cross: nn.Module | None = None,
        ffn: nn.Module | None = None,
        join_ffn: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.mixer, self.join_mixer = mixer, join_mixer
        self.cross, self.join_cross = cross, join_cross
        self.ffn, self.join_ffn = ffn, join_ffn

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context: Float[Tensor, "B S D"] | None = None,
        context_positions: Int[Tensor, "B S"] | None = None,
        cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        own, source = (cache.mixer, cache.cross) if cache else (None, None)
        at_mixer, at_cross = (trace.at("mixer"), trace.at("cross")) if trace else (None, None)

        def mix(h: Tensor) -> Tensor:
            return self.mixer(h, mask=mask, positions=positions, cache=own, trace=at_mixer)

        def look(h: Tensor) -> Tensor:
            assert self.cross is not None
            return self.cross(
                h,
                context=context,
                mask=Full(),
                positions=positions,
                context_positions=context_positions,
                cache=source,
                trace=at_cross,
            )

        x = self.join_mixer(x, mix)
        if self.join_cross is not None:
            x = self.join_cross(x, look)
        if self.join_ffn is not None:
            x = self.join_ffn(x, self.ffn)
        return x

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> LayerCache:
        """The memory before the first token: one row per source."""
        source = None if self.cross is None else self.cross.new_source_cache(context, context_positions)
        return LayerCache(self.mixer.new_cache(context.shape[0]), source)
