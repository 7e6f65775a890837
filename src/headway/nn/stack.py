"""A stack of layers: encoder, decoder and pair's decoder are the same class under another mask (Vaswani et al. 2017,
figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.block import Layer, LayerCache
from headway.nn.mask import Mask
from headway.nn.trace import Trace


class Stack(nn.Module):
    """Layers in order, and a norm at the end where the layers are pre-norm.

    It is an encoder when called under `Full()`, and a `Decoder` under `Causal()`: `forward` trains, `start` gives the
    memory with which `forward(..., caches=...)` decodes. Attentional recurrent decoders
    (`headway.nn.recurrent_decoder`) offer the same two. passes: all layers are gone through so often, with the same
    weights (Lan et al. 2020, ALBERT); each time has a memory of its own.
    """

    def __init__(self, layers: Sequence[Layer], norm: nn.Module | None = None, *, passes: int = 1) -> None:
        super().__init__()
        self.layers, self.norm, self.passes = nn.ModuleList(layers), norm, passes

    def _calls(self) -> list[Layer]:
        """The layers as they are gone through."""
        return [layer for _ in range(self.passes) for layer in self.layers if isinstance(layer, Layer)]

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Mask,
        positions: Int[Tensor, "B T"],
        context: Float[Tensor, "B S D"] | None = None,
        context_positions: Int[Tensor, "B S"] | None = None,
        caches: list[LayerCache] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """positions: -1 where a slot holds no token. With `caches`, `context` is not needed: they hold what there is
        to know of it."""
        for i, layer in enumerate(self._calls()):
            x = layer(
                x,
                mask=mask,
                positions=positions,
                context=context,
                context_positions=context_positions,
                cache=caches[i] if caches else None,
                trace=trace.at(f"layers.{i}") if trace else None,
            )
            if trace is not None:
                trace.at(f"layers.{i}").record("out", x)
        return x if self.norm is None else self.norm(x)

    def start(self, context: Float[Tensor, "U S D"], context_positions: Int[Tensor, "U S"]) -> list[LayerCache]:
        """The memory before the first token: one row per source."""
        return [layer.start(context, context_positions) for layer in self._calls()]

    def new_caches(self, rows: int) -> list[LayerCache]:
        """The memory before the first token where there is no source."""
        return [layer.new_cache(rows) for layer in self._calls()]
