"""One layer of the paper's figure 1: mix, (in a pair's decoder) look at the source, feed forward; one after the other,
or side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.cache import Cache, SourceCache
from headway.nn.dropout import Dropout
from headway.nn.ffn import FeedForward
from headway.nn.mask import Full, Mask
from headway.nn.mixer import Mixer
from headway.nn.residual import Sublayer
from headway.nn.trace import Trace


@dataclass
class LayerCache:
    """What one layer remembers while decoding: its own tokens', and its sources'."""

    mixer: Cache
    cross: SourceCache | None


class Layer(nn.Module):
    """Abstract. A final layer is made of a mixer and, where given, a cross sublayer and a feed-forward, and says in
    `join` how they are put together."""

    mixer: Mixer
    cross: Mixer | None
    ffn: FeedForward | None

    def join(
        self, x: Float[Tensor, "B T D"], mix: Sublayer, look: Sublayer | None, feed: Sublayer | None
    ) -> Float[Tensor, "B T D"]:
        """look, feed: None where there is no `cross`, no `ffn`."""
        raise TypeError(f"{type(self).__name__} is abstract")

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
        mix = partial(self.mixer, mask=mask, positions=positions, cache=own, trace=trace and trace.at("mixer"))
        look = self.cross and partial(
            self.cross,
            context=context,
            mask=Full(),
            positions=positions,
            context_positions=context_positions,
            cache=source,
            trace=trace and trace.at("cross"),
        )
        feed = self.ffn and partial(self.ffn, positions=positions, trace=trace and trace.at("ffn"))
        return self.join(x, mix, look, feed)

    def new_cache(self, rows: int) -> LayerCache:
        """The memory before the first token, where there is no source."""
        assert self.cross is None, "a layer that looks at a source starts with it"
        return LayerCache(self.mixer.new_cache(rows), None)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> LayerCache:
        """The memory before the first token: one row per source."""
        source = None if self.cross is None else self.cross.new_source_cache(context, context_positions)
        return LayerCache(self.mixer.new_cache(context.shape[0]), source)


class Block(Layer):
    """Built parts in the order of the figure; each `join_*` is a residual rule (`headway.nn.residual`)."""

    def __init__(
        self,
        mixer: Mixer,
        join_mixer: nn.Module,
        cross: Mixer | None = None,
        join_cross: nn.Module | None = None,
        ffn: FeedForward | None = None,
        join_ffn: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.mixer, self.join_mixer = mixer, join_mixer
        self.cross, self.join_cross = cross, join_cross
        self.ffn, self.join_ffn = ffn, join_ffn

    def join(
        self, x: Float[Tensor, "B T D"], mix: Sublayer, look: Sublayer | None, feed: Sublayer | None
    ) -> Float[Tensor, "B T D"]:
        x = self.join_mixer(x, mix)
        if self.join_cross is not None:
            x = self.join_cross(x, look)
        if self.join_ffn is not None:
            x = self.join_ffn(x, feed)
        return x


class ParallelBlock(Layer):
    """x + mix(n) + look(n) + feed(n) with n = norm(x), dropout on each (Wang and Komatsuzaki 2021, GPT-J; Chowdhery et
    al. 2022, PaLM); a stack of these ends with a norm of its own."""

    def __init__(
        self, mixer: Mixer, norm: nn.Module, cross: Mixer | None, ffn: FeedForward | None, dropout: float
    ) -> None:
        super().__init__()
        self.mixer, self.norm, self.cross, self.ffn = mixer, norm, cross, ffn
        self.dropout = Dropout(dropout)

    def join(
        self, x: Float[Tensor, "B T D"], mix: Sublayer, look: Sublayer | None, feed: Sublayer | None
    ) -> Float[Tensor, "B T D"]:
        n = self.norm(x)
        x = x + self.dropout(mix(n))
        if look is not None:
            x = x + self.dropout(look(n))
        if feed is not None:
            x = x + self.dropout(feed(n))
        return x
