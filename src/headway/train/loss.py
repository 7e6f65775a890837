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

if TYPE_CHECKING:
    from headway.config import OthersSmoothingConfig, UniformSmoothingConfig

PAD = 0


class TokenLoss(NamedTuple):
    """Sums over the target tokens of a batch: the smoothed loss (to go back through), the plain one, and how many."""

    loss: Tensor
    nll: Tensor
    tokens: int


def token_loss(
    logits: Tensor, target: Tensor, smoothing: "UniformSmoothingConfig | OthersSmoothingConfig"
) -> TokenLoss:
    """Logits (..., V) and targets (...) of ids, PAD where there is none. Sums, not means."""
    vocab_size = logits.shape[-1]
    spread = vocab_size if smoothing.kind == "uniform" else vocab_size - 1
    on_all = smoothing.epsilon / spread
    on_target = 1 - smoothing.epsilon - (0 if smoothing.kind == "uniform" else on_all)
    logits, target = logits.reshape(-1, vocab_size), target.reshape(-1)
    loss, nll = SmoothedCrossEntropy.apply(logits, target, on_target, on_all)
    return TokenLoss(loss, nll, int((target != PAD).sum()))


class SmoothedCrossEntropy(torch.autograd.Function):
    """The two sums over rows, with the gradient p - q written in as few passes over (N, V) as torch allows."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, on_target: float, on_all: float) -> tuple[Tensor, Tensor]:
        kept = target != PAD
        x = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        p = x.softmax(-1)
        # log sum exp, from the largest term: p[top] >= 1 / V, so its logarithm is safe.
        top = x.argmax(-1, keepdim=True)
        lse = x.gather(-1, top).squeeze(-1) - p.gather(-1, top).squeeze(-1).log()
        x_target = x.gather(-1, target[:, None]).squeeze(-1)
        nll = lse - x_target
        loss = lse - on_target * x_target - on_all * x.sum(-1)
        ctx.save_for_backward(p, target, kept)
        ctx.weights = on_target, on_all, logits.dtype
        nll = torch.where(kept, nll, 0).sum()
        ctx.mark_non_differentiable(nll)
        return torch.where(kept, loss, 0).sum(), nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        p, target, kept = ctx.saved_tensors
        on_target, on_all, dtype = ctx.weights
        grad = torch.where(kept, grads[0], 0)[:, None]
        out = (p - on_all) * grad
        out.scatter_add_(-1, target[:, None], -on_target * grad)
        return out.to(dtype), None, None, None
