"""Words in context from language models both ways (ELMo: Peters et al. 2018).

    forth: P(t_k | t_1 ... t_{k-1});   back: P(t_k | t_{k+1} ... t_N)
    h_{k,0} = [x_k; x_k];   h_{k,j} = [forth_{k,j}; back_{k,j}];   ELMo_k = gamma sum_j softmax(s)_j h_{k,j}

Both read one table of embeddings and are unembedded by one matrix; from the second layer on, a layer's input is added
to its output, as in the paper. Here a token's vector comes from a table, there from its characters; and the LSTMs are
as wide as the stream, there wider, with a projection. Twins: torch's LSTMs in `tests/test_elmo.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.models.state import positions_of
from headway.nn.dropout import Dropout
from headway.nn.mask import Causal
from headway.nn.recurrent import LSTMCell, Recurrence


class BiLM(nn.Module):
    """Two language models, one each way. Slots of PAD, on either side of a row, are not read."""

    def __init__(self, embed: nn.Embedding, num_layers: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        dim = embed.embedding_dim
        self.embed, self.dropout = embed, Dropout(dropout)
        self.forth = nn.ModuleList(Recurrence(dim, LSTMCell) for _ in range(num_layers))
        self.back = nn.ModuleList(Recurrence(dim, LSTMCell) for _ in range(num_layers))
        self.unembed = nn.Linear(dim, embed.num_embeddings)

    def forward(self, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T V"]]:
        """Logits at each token, of the one after it and of the one before it."""
        forth, back = self.hidden(tokens)
        return self.unembed(forth), self.unembed(back)

    def hidden(self, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
        """What `forward` unembeds: training takes it, for the sum of both losses."""
        forth, back = self._run(tokens)
        return self.dropout(forth[-1]), self.dropout(back[-1])

    def layers(self, tokens: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T E"]]:
        """h_0 ... h_L, each twice as wide as the stream, for a `ScalarMix`."""
        return [torch.cat(pair, -1) for pair in zip(*self._run(tokens), strict=True)]

    def _run(self, tokens: Int[Tensor, "B T"]) -> tuple[list[Tensor], list[Tensor]]:
        x, positions = self.embed(tokens), positions_of(tokens)
        back = self._climb(self.back, x.flip(1), positions.flip(1))
        return self._climb(self.forth, x, positions), [h.flip(1) for h in back]

    def _climb(
        self, layers: nn.ModuleList, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]
    ) -> list[Float[Tensor, "B T D"]]:
        found = [x]
        for i, layer in enumerate(layers):
            said = layer(self.dropout(found[-1]), mask=Causal(), positions=positions)
            found.append(said + found[-1] if i else said)
        return found


class ScalarMix(nn.Module):
    """gamma sum_j softmax(s)_j h_j: how much of each layer a task reads. At first the mean."""

    def __init__(self, num_layers: int) -> None:
        """num_layers: of the vectors to be mixed; a BiLM's and one, as its embeddings are the first."""
        super().__init__()
        self.scores, self.gamma = nn.Parameter(torch.zeros(num_layers)), nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Float[Tensor, "B T E"]]) -> Float[Tensor, "B T E"]:
        if len(layers) != len(self.scores):
            raise ValueError(f"{len(layers)} layers were given to a mix of {len(self.scores)}; give it as many")
        return self.gamma * torch.einsum("j,jbte->bte", self.scores.softmax(0), torch.stack(list(layers)))
