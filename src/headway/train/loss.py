"""Cross-entropy with label smoothing, by name, as a sum over target tokens.

With p = softmax(x) and target t, the smoothed loss is -sum_v q(v) log p(v), and both common choices of q are
lse(x) - on_target * x[t] - on_all * sum_v x[v]:

    uniform  q = 1 - eps on t, and eps / V more on every symbol (Szegedy et al. 2016; torch)
    others   q = 1 - eps on t, and eps / (V - 1) on each of the others (fairseq, tensor2tensor)

Rows whose target is PAD count nowhere: not in the loss, not in the gradient, not in the number of tokens. The caller
divides by the tokens of the whole update, so that the loss is per target token however the update was cut up.
The gradient is p - q. Twin: torch.nn.functional.cross_entropy and the written-out formula in tests/test_loss.py.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headway.nn.embed import Unembed

if TYPE_CHECKING:
    from headway.config import OthersSmoothingConfig, UniformSmoothingConfig

PAD = 0
CHUNK = 2**21
"""Logits that are looked at together."""


class TokenLoss(NamedTuple):
    """Sums over the target tokens of a batch: the smoothed loss (to go back through), the plain one, and how many."""

    loss: Tensor
    nll: Tensor
    tokens: int


def unembed_loss(
    hidden: Tensor, unembed: Unembed, target: Tensor, smoothing: "UniformSmoothingConfig | OthersSmoothingConfig"
) -> TokenLoss:
    """`token_loss` of the logits `unembed(hidden)`, which are never there all at once."""
    rows = hidden if unembed.scale == 1 else hidden * unembed.scale
    return token_loss(rows, unembed.table(), target, smoothing, bias=unembed.bias, cap=unembed.cap)


def token_loss(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: "UniformSmoothingConfig | OthersSmoothingConfig",
    *,
    bias: Tensor | None = None,
    cap: float | None = None,
) -> TokenLoss:
    """hidden (..., D), the unembedding's weight (V, D), and targets (...) of ids, PAD where there is none: the loss of
    the logits x = `hidden @ weight.T + bias`, or cap tanh(x / cap). Sums, not means. Under autocast the products are
    taken in its type."""
    vocab_size = weight.shape[0]
    spread = vocab_size if smoothing.kind == "uniform" else vocab_size - 1
    on_all = smoothing.epsilon / spread
    on_target = 1 - smoothing.epsilon - (0 if smoothing.kind == "uniform" else on_all)
    kept = (target != PAD).flatten()
    rows, target = hidden.flatten(0, -2)[kept], target.flatten()[kept]
    device = hidden.device.type
    product = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    if not torch.is_grad_enabled():  # the function below is told who may learn, but not that nobody does now
        rows, weight, bias = rows.detach(), weight.detach(), None if bias is None else bias.detach()
    loss, nll = ProjectedCrossEntropy.apply(rows, weight, bias, target, on_target, on_all, product, cap)
    return TokenLoss(loss, nll, len(target))


class ProjectedCrossEntropy(torch.autograd.Function):
    """The two sums over rows (N, D), with the gradients of what learns among rows, weight and bias worked out on the
    way, in chunks of rows whose logits (C, V) stay in the cache and are gone afterwards. All types are said, so
    autocast has no say."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        on_target: float,
        on_all: float,
        product: torch.dtype,
        cap: float | None,
    ) -> tuple[Tensor, Tensor]:
        rows_learn, weight_learns, bias_learns = ctx.needs_input_grad[:3]
        wide = torch.promote_types(product, torch.float32)
        loss = nll = torch.zeros((), dtype=wide, device=rows.device)
        w = weight.to(product)
        grad_rows = torch.empty_like(rows) if rows_learn else None
        grad_weight = torch.zeros_like(w, dtype=wide) if weight_learns else None
        grad_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and bias_learns else None
        size = max(1, min(len(rows), CHUNK // weight.shape[0]))
        x_room, p_room = (w.new_empty(size, weight.shape[0], dtype=dtype) for dtype in (product, wide))  # stay in cache
        for at, (h, t) in enumerate(zip(rows.to(product).split(size), target.split(size), strict=True)):
            x = torch.mm(h, w.T, out=x_room[: len(h)])
            if bias is not None:
                x.add_(bias)
            if cap is not None:
                x.div_(cap).tanh_().mul_(cap)
            p = torch.softmax(x, -1, dtype=wide, out=p_room[: len(h)])
            lse = x.amax(-1).to(wide) - p.amax(-1).log()  # the largest p is 1 / V or more: a logarithm without fear
            x_target = x.gather(-1, t[:, None]).squeeze(-1).to(wide)
            loss = loss + (lse - on_target * x_target - on_all * x.sum(-1, dtype=wide)).sum()
            nll = nll + (lse - x_target).sum()
            if rows_learn or weight_learns or bias_learns:
                g = p.sub_(on_all).scatter_add_(-1, t[:, None], p.new_full((len(t), 1), -on_target))
                if cap is not None:
                    g.mul_(1 - (x / cap) ** 2)
                if grad_bias is not None:
                    grad_bias += g.sum(0)
                g = g.to(product)
                if grad_rows is not None:
                    grad_rows[at * size :][: len(h)] = g @ w
                if grad_weight is not None:
                    grad_weight.addmm_(g.T, h) if product == wide else grad_weight.add_(g.T @ h)
        ctx.save_for_backward(grad_rows, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        grads = (None if grad is None else grad * grad_loss for grad in ctx.saved_tensors)
        return *grads, None, None, None, None, None  # autograd gives each the type of what it is the gradient of
