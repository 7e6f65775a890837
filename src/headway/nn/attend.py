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
Value = Callable[[Tensor], Tensor | None]


def grouped(x: Float[Tensor, "B G S K"], num_heads: int) -> Float[Tensor, "B H S K"]:
    """Keys or values with a head for each query head: those of a group are neighbours (Ainslie et al. 2023)."""
    return x if x.shape[1] == num_heads else x.repeat_interleave(num_heads // x.shape[1], 1)


def attend_reference(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    scale: float | None = None,
    bias: Float[Tensor, "#B H T S"] | None = None,
    cap: float | None = None,
    value: Value | None = None,
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """By the book, with the weights at hand for `trace` (recorded as `weights`, (B, H, T, S)) and for `value`, which
    gives what is added to the mix. cap: of the logits, the bias included (Gemma 2)."""
    see = mask.allows(positions, context_positions)[:, None]
    k, v = grouped(k, q.shape[1]), grouped(v, q.shape[1])
    logits = torch.einsum("bhtk,bhsk->bhts", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    logits = logits if bias is None else logits + bias
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    # A row with nothing to see softmaxes equal logits, and the second mask makes it zeros.
    weights = logits.masked_fill(~see, torch.finfo(q.dtype).min).softmax(-1).masked_fill(~see, 0.0)
    if trace is not None:
        trace.record("weights", weights)
    weights = F.dropout(weights, dropout)
    mixed = torch.einsum("bhts,bhsj->bhtj", weights, v)
    more = None if value is None else value(weights)
    return mixed if more is None else mixed + more


def attend_sdpa(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    scale: float | None = None,
    bias: Float[Tensor, "#B H T S"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T J"]:
    """torch's fused kernel. It shows no weights and caps no logits."""
    see = mask.allows(positions, context_positions)[:, None]
    k, v = grouped(k, q.shape[1]), grouped(v, q.shape[1])
    if bias is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=see, dropout_p=dropout, scale=scale)
    # The kernel makes NaN of a row whose every bias is -inf: such a row looks at all, and is zeroed afterwards.
    blind = ~see.any(-1, keepdim=True)
    added = bias.to(q.dtype).masked_fill(~(see | blind), -torch.inf)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropout, scale=scale)
    return mixed.masked_fill(blind, 0.0)


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    scale: float | None = None,
    bias: Float[Tensor, "#B H T S"] | None = None,
    cap: float | None = None,
    value: Value | None = None,
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """The dispatch: the reference where somebody watches or wants what the fused kernel has not; else that kernel."""
    asked = {"mask": mask, "positions": positions, "context_positions": context_positions, "scale": scale}
    asked |= {"bias": bias, "dropout": dropout}
    if cap is None and value is None and (trace is None or not trace.wants("weights")):
        return attend_sdpa(q, k, v, **asked)
    return attend_reference(q, k, v, **asked, cap=cap, value=value, trace=trace)


def attend_rounded(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S J"],
    *,
    mask: Mask,
    positions: Int[Tensor, "B T"],
    context_positions: Int[Tensor, "B S"],
    scale: float | None = None,
    bias: Float[Tensor, "#B H T S"] | None = None,
    cap: float | None = None,
    value: Value | None = None,
    dropout: float = 0.0,
    trace: Trace | None = None,
) -> Float[Tensor, "B H T J"]:
    """`attend` with queries and keys rounded up to a multiple of ROUND by slots that hold no token: the same values,
    steadier bits."""
    num_queries = q.shape[2]
    more_q, more_k = -num_queries % ROUND, -k.shape[2] % ROUND
    if value is None and (trace is None or not trace.wants("weights")) and (more_q or more_k):
        q, positions = F.pad(q, (0, 0, 0, more_q)), F.pad(positions, (0, more_q), value=-1)
        k, v = F.pad(k, (0, 0, 0, more_k)), F.pad(v, (0, 0, 0, more_k))
        context_positions = F.pad(context_positions, (0, more_k), value=-1)
        bias = None if bias is None else F.pad(bias, (0, more_k, 0, more_q))
    out = attend(
        q,
        k,
        v,
        mask=mask,
        positions=positions,
        context_positions=context_positions,
        scale=scale,
        bias=bias,
        cap=cap,
        value=value,
        dropout=dropout,
        trace=trace,
    )
    return out[:, :, :num_queries]
