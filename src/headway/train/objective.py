"""What a model is trained to do, as one number for a batch: the builder of losses.

Every loss is a sum over what is asked in a batch (tokens, or texts), which the loop divides by how much is asked in the
whole update: so accumulation gives the gradient of the one big batch. What comes with a batch is in `inputs`, by the
names of the model's arguments, and `targets`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.architecture import WordsConfig
from headway.models.state import PAD, positions_of
from headway.nn.trace import Trace
from headway.train.loss import TokenLoss, unembed_loss

if TYPE_CHECKING:
    from headway.architecture import EncoderConfig, LMConfig, Seq2SeqConfig
    from headway.config import TrainConfig

Loss = Callable[[Any, Any, torch.device], TokenLoss]
"""(model, batch, device) -> sums over the batch."""


def build_loss(
    model: Seq2SeqConfig | LMConfig | EncoderConfig, train: TrainConfig, objective: str | None = None
) -> Loss:
    """The loss that this shape of model is trained by, with its experts' balance where it has experts. objective: its
    kind, where a head has two."""
    if model.kind == "encoder":
        head = model.head.kind if model.head else None
        if head is None:
            raise ValueError("model.head: an encoder without a head answers nothing; give it one to train it")
        if objective == "both_ways":
            return balanced(partial(both_ways, train=train), 0.0)
        if isinstance(model.head, WordsConfig) and model.head.next:
            return balanced(partial(words_and_next, train=train), balance_of(model))
        plain = {"words": words, "classes": classes, "tags": tags, "span": span, "vector": contrast}[head]
        return balanced(partial(plain, train=train), balance_of(model))
    if model.kind == "lm" and model.future is not None:
        return balanced(partial(ahead, train=train, weight=model.future.weight), balance_of(model))
    return balanced(partial(words, train=train), balance_of(model))


def balance_of(model: Seq2SeqConfig | LMConfig | EncoderConfig) -> float:
    """The weight of the loss that keeps experts equally busy: the greatest that a layer has, 0 without experts."""
    stacks = [model.encoder, model.decoder] if model.kind == "seq2seq" else [model.stack]
    layers = [layer for stack in stacks if stack.kind == "stack" for layer in stack.layers]
    return max((layer.ffn.balance for layer in layers if layer.ffn.kind == "experts"), default=0.0)


Plain = Callable[[Any, dict[str, Tensor], Tensor, Trace | None], TokenLoss]


def balanced(plain: Plain, weight: float) -> Loss:
    """With `weight` of the mean of the layers' balance (Fedus et al. 2022, equation 4), for each thing asked."""

    def loss(model: Any, batch: Any, device: torch.device) -> TokenLoss:
        inputs = {name: value.to(device) for name, value in batch.inputs.items()}
        trace = Trace(only={"balance"}) if weight else None
        found = plain(model, inputs, batch.targets.to(device), trace)
        if trace is None:
            return found
        balances = [value for values in trace.records.values() for value in values]
        return found._replace(loss=found.loss + weight * found.tokens * torch.stack(balances).mean())

    return loss


def words(model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig) -> TokenLoss:
    """Cross-entropy of each token that is asked: those of `targets` that are not PAD."""
    watched = {"trace": trace} if trace is not None else {}
    return unembed_loss(model.hidden(**inputs, **watched), model.unembed, targets, train.smoothing)


def words_and_next(
    model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig
) -> TokenLoss:
    """That of the words, and the mean over texts of whether the second sentence follows (Devlin et al. 2019). The plain
    loss is of the words alone. inputs.next (B,): True where it follows, class 0 of the head."""
    rest = {name: value for name, value in inputs.items() if name != "next"}
    x = model.vectors(**rest, trace=trace)
    found = unembed_loss(model.head.hidden(x), model.unembed, targets, train.smoothing)
    logits = model.head.next(x, positions_of(rest["tokens"]))
    return found._replace(loss=found.loss + found.tokens * F.cross_entropy(logits, (~inputs["next"]).long()))


def both_ways(
    model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig
) -> TokenLoss:
    """The mean of the token behind each, guessed from those up to it, and of the one before each, from those on from it
    (Peters et al. 2018, section 3.1)."""
    tokens = inputs["tokens"]
    positions = positions_of(tokens)
    before = F.pad(tokens[:, :-1], (1, 0)).masked_fill(tokens == PAD, PAD)
    forth, back = (
        unembed_loss(model.head.hidden(way), model.unembed, asked, train.smoothing)
        for way, asked in zip(
            model.stack.ways(model.embed(tokens, positions), positions), (targets, before), strict=True
        )
    )
    return TokenLoss((forth.loss + back.loss) / 2, (forth.nll + back.nll) / 2, forth.tokens)


def ahead(
    model: Any,
    inputs: dict[str, Tensor],
    targets: Tensor,
    trace: Trace | None,
    train: TrainConfig,
    weight: float,
) -> TokenLoss:
    """That of the next token, and `weight` of the mean of those further ahead, each over the tokens it can be asked of
    (Gloeckle et al. 2024; DeepSeek-V3, equations 24 and 25). The plain loss is of the next token alone."""
    parts = model.ahead(**inputs, trace=trace)
    found = [
        unembed_loss(hidden, model.unembed, further(targets, k, inputs.get("documents")), train.smoothing)
        for k, hidden in enumerate(parts)
    ]
    first, more = found[0], found[1:]
    if not more:
        return first
    total = sum((part.loss / max(part.tokens, 1) for part in more), torch.zeros_like(first.loss)) / len(more)
    return first._replace(loss=first.loss + weight * first.tokens * total)


def further(targets: Tensor, k: int, documents: Tensor | None) -> Tensor:
    """Targets k further ahead, PAD behind the end of a row, and of each text where several are in one."""
    size = (0, min(k, targets.shape[1]))
    found = F.pad(targets[:, k:], size, value=PAD)
    return found if documents is None else found.where(F.pad(documents[:, k:], size, value=-1) == documents, PAD)


def classes(
    model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig
) -> TokenLoss:
    """Cross-entropy of each text's class; of a number (one class) the squared error."""
    logits = model(**inputs, trace=trace)
    if logits.shape[-1] == 1:
        loss = F.mse_loss(logits[:, 0], targets.to(logits.dtype), reduction="sum")
        return TokenLoss(loss, loss.detach(), len(targets))
    return chosen(logits, targets, train.smoothing.epsilon)


def tags(model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig) -> TokenLoss:
    """Cross-entropy of each token's class; -100 where none is asked."""
    return chosen(model(**inputs, trace=trace).flatten(0, 1), targets.flatten(), train.smoothing.epsilon)


def span(model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig) -> TokenLoss:
    """targets (B, 2): where each answer begins and ends. The mean of both cross-entropies, one thing asked a text."""
    logits = model(**inputs, trace=trace)
    begin, end = (chosen(logits[..., side], targets[:, side], 0.0) for side in (0, 1))
    return TokenLoss((begin.loss + end.loss) / 2, (begin.nll + end.nll) / 2, begin.tokens)


def contrast(
    model: Any, inputs: dict[str, Tensor], targets: Tensor, trace: Trace | None, train: TrainConfig
) -> TokenLoss:
    """Each anchor must find its own among all positives of the batch (Oord et al. 2018; Gao et al. 2021), by products
    over a temperature of 0.05. The rows of a batch are the anchors, then the positives in their order."""
    vectors = model(**inputs, trace=trace)
    anchors, positives = vectors.chunk(2)
    return chosen(anchors @ positives.T / TEMPERATURE, torch.arange(len(anchors), device=vectors.device), 0.0)


TEMPERATURE = 0.05


def chosen(logits: Tensor, targets: Tensor, epsilon: float) -> TokenLoss:
    """Sums over rows (N, C) of the cross-entropy, smoothed and plain, where the target is not -100."""
    loss = F.cross_entropy(logits, targets, reduction="sum", ignore_index=NOT_ASKED, label_smoothing=epsilon)
    plain = F.cross_entropy(logits.detach(), targets, reduction="sum", ignore_index=NOT_ASKED)
    return TokenLoss(loss, plain, int((targets != NOT_ASKED).sum()))


NOT_ASKED = -100
"""A class that is none, which PAD, being a class like any other, cannot tell."""
