"""Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(q k^T / sqrt(K)) v.

One signature, one dispatch. `attend_reference` is the readable twin; `attend_sdpa` is torch's fused kernel; `attend`
picks.
A query that may look nowhere gives zeros, never NaN. The twins are compared in `tests/test_nn.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headway.nn.mask import Mask
from headway.nn.trace import Trace

ROUND = 16
"""Queries and keys are rounded up to this many, so that a row's bits do not depend on its neighbours' lengths."""

Attend = Callable[..., Tensor]


def attend_reference(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """By the book, with the weights at hand for `trace` (recorded as `weights`, (B, H, T, S))."""
    see = mask.allows(positions, context_positions)[:, None]
    logits = torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(q.shape[-1])
    # A row with nothing to see softmaxes equal logits, and the second mask makes it zeros.
    weights = logits.masked_fill(~see, torch.finfo(q.dtype).min).softmax(-1).masked_fill(~see, 0.0)
    if trace is not None:
        trace.record("weights", weights)
    return torch.einsum("bhts,bhsj->bhtj", F.dropout(weights, dropout), v)


def attend_sdpa(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """torch's fused kernel. It shows no weights, so it refuses a trace."""
    assert trace is None, "attend() sends traced calls to the reference"
    see = mask.allows(positions, context_positions)[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=see, dropout_p=dropout)


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """The dispatch: the reference where somebody watches, the fused kernel otherwise."""
    kernel = attend_sdpa if trace is None else attend_reference
    return kernel(
        q, k, v, mask=mask, positions=positions, context_positions=context_positions, dropout=dropout, trace=trace
    )


def attend_rounded(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """`attend` with queries and keys rounded up to a multiple of ROUND by slots that hold no token: the same values,
    steadier bits."""
    num_queries = q.shape[2]
    more_q, more_k = -num_queries % ROUND, -k.shape[2] % ROUND
    if trace is None and (more_q or more_k):
        q, positions = F.pad(q, (0, 0, 0, more_q)), F.pad(positions, (0, more_q), value=-1)
        k, v = F.pad(k, (0, 0, 0, more_k)), F.pad(v, (0, 0, 0, more_k))
        context_positions = F.pad(context_positions, (0, more_k), value=-1)
    out = attend(
        q, k, v, mask=mask, positions=positions, context_positions=context_positions, dropout=dropout, trace=trace
    )
    return out[:, :, :num_queries]
