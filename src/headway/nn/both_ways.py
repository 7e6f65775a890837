"""Language models both ways, as the stack of an encoder (ELMo: Peters et al. 2018).

    forth: P(t_k | t_1 ... t_{k-1});   back: P(t_k | t_{k+1} ... t_N)
    h_{k,0} = [x_k; x_k];   h_{k,j} = [forth_{k,j}; back_{k,j}];   out_k = W gamma sum_j softmax(s)_j h_{k,j}

Both read one table of embeddings and are unembedded by one matrix; from the second layer on, a layer's input is added
to its output, as in the paper. Here a token's vector comes from a table, there from its characters; the LSTMs are as
wide as the stream, there wider, with a projection; and W brings words in context back to the stream's width, there the
task's model reads all 2 D. Twins: torch's LSTMs in `tests/test_both_ways.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.dropout import Dropout
from headway.nn.mask import Causal, Full, Mask
from headway.nn.recurrent import LSTMCell, Recurrence
from headway.nn.trace import Trace


class BothWays(nn.Module):
    """Two stacks of LSTMs, one each way, and a mix of their layers."""

    def __init__(self, dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.forth = nn.ModuleList(Recurrence(dim, LSTMCell) for _ in range(num_layers))
        self.back = nn.ModuleList(Recurrence(dim, LSTMCell) for _ in range(num_layers))
        self.dropout = Dropout(dropout)
        self.mix, self.out = ScalarMix(num_layers + 1), nn.Linear(2 * dim, dim)

    def forward(
        self, x: Float[Tensor, "B T D"], *, mask: Mask, positions: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        """Words in context. positions: -1 where a slot holds no token: it is not read. Raises ValueError for a mask
        other than all to all."""
        if not isinstance(mask, Full):
            raise ValueError(f"language models both ways serve no mask {type(mask).__name__}: take layers of attention")
        return self.out(self.mix(self.layers(x, positions)))

    def layers(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T E"]]:
        """h_0 ... h_L, each twice as wide as the stream."""
        back = climb(self.back, x.flip(1), positions.flip(1), self.dropout)
        forth = climb(self.forth, x, positions, self.dropout)
        return [torch.cat([a, b.flip(1)], -1) for a, b in zip(forth, back, strict=True)]

    def ways(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
        """The last layer of each, from which training guesses the token behind, and the one before."""
        forth, back = self.layers(x, positions)[-1].chunk(2, -1)
        return self.dropout(forth), self.dropout(back)


def climb(
    layers: nn.ModuleList, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"], dropout: Dropout
) -> list[Float[Tensor, "B T D"]]:
    """What each layer makes of the one below it, from the embeddings on."""
    found = [x]
    for i, layer in enumerate(layers):
        said = layer(dropout(found[-1]), mask=Causal(), positions=positions)
        found.append(said + found[-1] if i else said)
    return found


class ScalarMix(nn.Module):
    """gamma sum_j softmax(s)_j h_j: how much of each layer a task reads. At first the mean."""

    def __init__(self, num_layers: int) -> None:
        """num_layers: of the vectors to be mixed."""
        super().__init__()
        self.scores, self.gamma = nn.Parameter(torch.zeros(num_layers)), nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Float[Tensor, "B T E"]]) -> Float[Tensor, "B T E"]:
        assert len(layers) == len(self.scores), "a score for each layer"
        return self.gamma * torch.einsum("j,jbte->bte", self.scores.softmax(0), torch.stack(list(layers)))
