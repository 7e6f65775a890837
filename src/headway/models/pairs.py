"""What one text says of another: decomposable attention (Parikh et al. 2016), which aligns words and reads no order.

    attend     e_ij = F(a_i) . F(b_j);   beta_i = sum_j softmax_j(e_ij) b_j;   alpha_j = sum_i softmax_i(e_ij) a_i
    compare    v_i = G([a_i; beta_i]);   w_j = G([b_j; alpha_j])
    aggregate  logits = W H([sum_i v_i; sum_j w_j])

F, G and H are two layers with ReLUs. With attention inside each text (section 3.4), a_i becomes [a_i; a'_i]:

    f_ij = F'(a_i) . F'(a_j);   a'_i = sum_j softmax_j(f_ij + d_{i-j}) a_j

The twin is an einsum in `tests/test_pairs.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.models.state import PAD
from headway.nn.dropout import Dropout


class Hidden(nn.Module):
    """relu(W relu(V x + b) + c), with dropout before each matrix."""

    def __init__(self, dim: int, hidden_dim: int, dropout: float) -> None:
        super().__init__()
        self.up, self.out, self.dropout = (
            nn.Linear(dim, hidden_dim),
            nn.Linear(hidden_dim, hidden_dim),
            Dropout(dropout),
        )

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows F"]:
        return self.out(self.dropout(self.up(self.dropout(x)).relu())).relu()


class DecomposableAttention(nn.Module):
    """Premise and hypothesis in, logits of how they relate out. The paper puts a word NULL before both: the caller's.

    embed: (V, E), mapped to `dim` (the paper: 300 to 200, the table frozen). intra: attention inside each text as well,
    with a learned bias for each signed distance up to `reach` (the paper's buckets end at 10), and one for all beyond.
    """

    def __init__(
        self,
        embed: nn.Embedding,
        dim: int,
        hidden_dim: int,
        num_classes: int,
        *,
        intra: bool = False,
        reach: int = 10,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed, self.project = embed, nn.Linear(embed.embedding_dim, dim, bias=False)
        self.intra = Intra(dim, hidden_dim, reach, dropout) if intra else None
        width = 2 * dim if intra else dim
        self.attend = Hidden(width, hidden_dim, dropout)
        self.compare = Hidden(2 * width, hidden_dim, dropout)
        self.aggregate = Hidden(2 * hidden_dim, hidden_dim, dropout)
        self.classify = nn.Linear(hidden_dim, num_classes)

    def forward(self, premise: Int[Tensor, "B T"], hypothesis: Int[Tensor, "B S"]) -> Float[Tensor, "B C"]:
        """Ids, PAD-filled on either side; a text without a token counts as nothing."""
        (a, real_a), (b, real_b) = self._read(premise), self._read(hypothesis)
        energies = torch.einsum("bth,bsh->bts", self.attend(a), self.attend(b))
        beta = torch.einsum("bts,bsd->btd", shares(energies, real_b[:, None]), b)
        alpha = torch.einsum("bst,btd->bsd", shares(energies.mT, real_a[:, None]), a)
        v = (self.compare(torch.cat([a, beta], -1)) * real_a[..., None]).sum(1)
        w = (self.compare(torch.cat([b, alpha], -1)) * real_b[..., None]).sum(1)
        return self.classify(self.aggregate(torch.cat([v, w], -1)))

    def _read(self, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T E"], Bool[Tensor, "B T"]]:
        """Word vectors, and which of them are words."""
        x, real = self.project(self.embed(tokens)), tokens != PAD
        return (x if self.intra is None else torch.cat([x, self.intra(x, real)], -1)), real


class Intra(nn.Module):
    """a'_i: what each word sees of its own text. Distances are between slots, which are those between words."""

    def __init__(self, dim: int, hidden_dim: int, reach: int, dropout: float) -> None:
        super().__init__()
        self.reach, self.hidden = reach, Hidden(dim, hidden_dim, dropout)
        self.bias = nn.Parameter(torch.zeros(2 * reach + 2))  # of -reach ... reach, and of all beyond

    def forward(self, x: Float[Tensor, "B T D"], real: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        hidden, places = self.hidden(x), torch.arange(x.shape[1], device=x.device)
        distance = places[:, None] - places[None, :]
        kind = torch.where(distance.abs() > self.reach, 2 * self.reach + 1, distance + self.reach)
        energies = torch.einsum("bth,bsh->bts", hidden, hidden) + self.bias[kind]
        return torch.einsum("bts,bsd->btd", shares(energies, real[:, None]), x)


def shares(energies: Float[Tensor, "B T S"], real: Bool[Tensor, "B 1 S"]) -> Float[Tensor, "B T S"]:
    """softmax over what is real; zeros where nothing is."""
    return energies.masked_fill(~real, torch.finfo(energies.dtype).min).softmax(-1) * real
