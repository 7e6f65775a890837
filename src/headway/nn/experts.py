"""A mixture of feed-forwards, of which each token goes to a few (Shazeer et al. 2017).

    out_t = scale * sum over the chosen e of g_te expert_e(x_t)  (+ shared(x_t))
    s_t   = softmax(router x_t)   Mixtral (Jiang et al. 2024), DeepSeek-V2; the k largest are chosen
    s_te  = sigmoid(router x_t)_e   DeepSeek-V3 (2024, equations 12 to 16); the k largest s_te + correction_e are

g are the chosen s, or (renormalise) those divided by their sum. There is no capacity: no token is ever turned away, so
that its result does not depend on its neighbours. The twin goes token by token, in `tests/test_parts_of_layers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.nn.elementwise import Elementwise
from headway.nn.ffn import FeedForward
from headway.nn.norm import wide
from headway.nn.trace import Trace


class Experts(FeedForward):
    """Records "balance" (a number, 1 where all experts are equally busy) if the trace wants it."""

    correction: Tensor | None

    def __init__(
        self,
        experts: Sequence[FeedForward],
        shared: FeedForward | None,
        dim: int,
        top_k: int,
        *,
        score: Literal["softmax", "sigmoid"] = "softmax",
        renormalise: bool = True,
        scale: float = 1.0,
        num_groups: int = 1,
        top_groups: int = 1,
    ) -> None:
        """shared: every token goes there as well. num_groups: neighbouring experts form groups of one size, and only
        the best `top_groups` are looked at. Raises ValueError where the numbers do not fit together."""
        super().__init__()
        size, left = divmod(len(experts), num_groups)
        faults = [
            f"{len(experts)} experts do not divide into num_groups = {num_groups}: take a divisor" if left else "",
            f"top_groups = {top_groups} of num_groups = {num_groups}: lower it" if top_groups > num_groups else "",
            f"top_k = {top_k}, but only {top_groups * size} experts are looked at: lower top_k or raise top_groups"
            if not left and top_groups <= num_groups and top_k > top_groups * size
            else "",
        ]
        if any(faults):
            raise ValueError("; ".join(filter(None, faults)))
        self.router = nn.Linear(dim, len(experts), bias=False)
        self.experts, self.shared = nn.ModuleList(experts), shared
        self.top_k, self.renormalise, self.scale = top_k, renormalise, scale
        self.num_groups, self.top_groups = num_groups, top_groups
        self.sigmoid = Elementwise(torch.sigmoid) if score == "sigmoid" else None
        self.register_buffer("correction", torch.zeros(len(experts)) if score == "sigmoid" else None)

    def forward(
        self, x: Float[Tensor, "B T D"], *, positions: Int[Tensor, "B T"], trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        flat, at = x.flatten(0, 1), positions.flatten(0, 1)
        scores = self._scores(flat)
        chosen = self._choose(scores.detach())
        weights = scores.gather(1, chosen)
        if self.renormalise:
            weights = weights / _total(weights)
        if trace is not None and trace.wants("balance"):
            trace.record("balance", balance(scores, chosen, at >= 0))
        out = self._mix(flat, at, chosen, (weights * self.scale).to(x.dtype)).view_as(x)
        return out if self.shared is None else out + self.shared(x, positions=positions)

    def _scores(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        logits = wide(self.router(x))
        return logits.softmax(-1) if self.sigmoid is None else self.sigmoid(logits)

    def _choose(self, scores: Float[Tensor, "N E"]) -> Int[Tensor, "N k"]:
        """Each token's experts, in the order of their ids."""
        if self.correction is not None:
            scores = scores + self.correction
        if self.num_groups > 1:
            groups = scores.unflatten(1, (self.num_groups, -1))
            # V2 judges a group by its best expert, V3 by its best two.
            best = groups.sort(-1, descending=True).values[..., : 1 if self.correction is None else 2].sum(-1)
            seen = torch.zeros_like(best).scatter(1, _largest(best, self.top_groups), 1.0)
            scores = groups.masked_fill(seen[..., None] == 0, -torch.inf).flatten(1)
        return _largest(scores, self.top_k).sort(-1).values

    def _mix(
        self, x: Float[Tensor, "N D"], at: Int[Tensor, " N"], chosen: Int[Tensor, "N k"], weights: Float[Tensor, "N k"]
    ) -> Float[Tensor, "N D"]:
        """Tokens are sorted by expert, so that each expert is called once; slots without a token come last, and go
        nowhere. Every row is copied once for each choice and then only moved: gradients are added up in one order."""
        ids = chosen.masked_fill(at[:, None] < 0, len(self.experts)).flatten()
        order = ids.argsort(stable=True)
        sizes = torch.bincount(ids, minlength=len(self.experts) + 1).tolist()
        rows = x.repeat_interleave(self.top_k, 0).index_select(0, order).split(sizes)
        slots = at.repeat_interleave(self.top_k, 0)[order].split(sizes)
        said = [
            expert(mine[None], positions=where[None])[0]
            for expert, mine, where in zip(self.experts, rows, slots, strict=False)
            # Where gradients are kept an expert that has no tokens is called all the same: its gradient is zero, and
            # not missing.
            if len(mine) or torch.is_grad_enabled()
        ]
        back = torch.cat([*said, torch.zeros_like(rows[-1])]).index_select(0, order.argsort())
        terms = back.unflatten(0, (-1, self.top_k)) * weights[..., None]
        return reduce(torch.add, terms.unbind(1))


def balance(scores: Float[Tensor, "N E"], chosen: Int[Tensor, "N k"], real: Bool[Tensor, " N"]) -> Float[Tensor, ""]:
    """E sum_e f_e P_e over the real tokens (Fedus et al. 2022, equation 4): f_e is the share of all choices that fell
    on e, P_e the mean share of e in the scores (of sigmoids as in DeepSeek-V3's equations 17 to 20)."""
    scores, chosen = scores[real], chosen[real]
    busy = torch.bincount(chosen.flatten(), minlength=scores.shape[1]).to(scores.dtype) / max(1, chosen.numel())
    wanted = (scores / _total(scores)).sum(0) / max(1, len(scores))
    return scores.shape[1] * (busy * wanted).sum()


def _total(x: Float[Tensor, "N E"]) -> Float[Tensor, "N 1"]:
    """Never zero, though sigmoids may be."""
    return x.sum(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def _largest(x: Float[Tensor, "N E"], num: int) -> Int[Tensor, "N k"]:
    """Where the `num` largest of each row are; of equals the first."""
    return x.sort(dim=-1, descending=True, stable=True).indices[:, :num]
