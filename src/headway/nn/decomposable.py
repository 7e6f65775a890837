"""What one text says of another, as the stack of an encoder: decomposable attention (Parikh et al. 2016), which aligns
words and reads no order.

    a, b       W x of the words of the first text and of the second
    attend     e_ij = F(a_i) . F(b_j);   beta_i = sum_j softmax_j(e_ij) b_j;   alpha_j = sum_i softmax_i(e_ij) a_i
    compare    v_i = G([a_i; beta_i]);   w_j = G([b_j; alpha_j])
    out        [v_i; 0] of the first text's words, [0; w_j] of the second's

so that a head whose pool is the sum, with hidden layers H, gives the paper's W H([sum_i v_i; sum_j w_j]). F, G and H
are two layers with ReLUs. With attention inside each text (section 3.4), a_i becomes [a_i; a'_i]:

    f_ij = F'(a_i) . F'(a_j);   a'_i = sum_j softmax_j(f_ij + d_{i-j}) a_j

All inner widths are half of the stream's, where the paper has 200 for each. The marks around texts are words as well;
the paper has one (NULL) before each. The twin is an einsum in `tests/test_decomposable.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.nn.dropout import Dropout


class Hidden(nn.Module):
    """relu(W relu(V x + b) + c), with dropout before each matrix."""

    def __init__(self, dim: int, hidden_dim: int, dropout: float) -> None:
        super().__init__()
        self.up, self.out = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, hidden_dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows F"]:
        return self.out(self.dropout(self.up(self.dropout(x)).relu())).relu()


class Decomposable(nn.Module):
    """Words of two texts to what each says of the other text. intra: attention inside each text as well, with a learned
    bias for each signed distance up to `reach` (the paper's buckets end at 10), and one for all beyond."""

    def __init__(self, dim: int, *, intra: bool, reach: int, dropout: float) -> None:
        """dim: of the stream, an even number."""
        super().__init__()
        half = dim // 2
        self.project = nn.Linear(dim, half, bias=False)
        self.intra = Intra(half, reach, dropout) if intra else None
        width = 2 * half if intra else half
        self.attend, self.compare = Hidden(width, half, dropout), Hidden(2 * width, half, dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], *, segments: Int[Tensor, "B T"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """segments: 0 of the first text, 1 of the second; positions: -1 where a slot holds no word. A text without a
        word counts as nothing."""
        first, second = ((segments == number) & (positions >= 0) for number in (0, 1))
        own = both(first, first) | both(second, second)
        a = self.project(x)
        if self.intra is not None:
            a = torch.cat([a, self.intra(a, positions, own)], -1)
        h = self.attend(a)
        other = both(first, second) | both(second, first)
        seen = shares(torch.einsum("bth,bsh->bts", h, h), other) @ a
        said = self.compare(torch.cat([a, seen], -1))
        return torch.cat([said * first[..., None], said * second[..., None]], -1)


class Intra(nn.Module):
    """a'_i: what each word sees of its own text."""

    def __init__(self, dim: int, reach: int, dropout: float) -> None:
        super().__init__()
        self.reach, self.hidden = reach, Hidden(dim, dim, dropout)
        self.bias = nn.Parameter(torch.zeros(2 * reach + 2))  # of -reach ... reach, and of all beyond

    def forward(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"], own: Bool[Tensor, "B T T"]
    ) -> Float[Tensor, "B T D"]:
        hidden, distance = self.hidden(x), positions[:, :, None] - positions[:, None, :]
        kind = torch.where(distance.abs() > self.reach, 2 * self.reach + 1, distance + self.reach)
        energies = torch.einsum("bth,bsh->bts", hidden, hidden) + self.bias[kind]
        return shares(energies, own) @ x


def both(mine: Bool[Tensor, "B T"], theirs: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    return mine[:, :, None] & theirs[:, None, :]


def shares(energies: Float[Tensor, "B T T"], real: Bool[Tensor, "B T T"]) -> Float[Tensor, "B T T"]:
    """softmax over what is real; zeros where nothing is."""
    return energies.masked_fill(~real, torch.finfo(energies.dtype).min).softmax(-1) * real
