"""What a model costs, before it is trained: parameters by part, arithmetic and memory for each token, and arithmetic
of the whole training where a recipe says how long that is.

No weight is ever made: the model is built of shapes alone (torch's "meta" device), so that one of 671 billion
parameters is counted like a small one. Twins: arithmetic by hand on the paper's shapes (tests/test_paper_recipes.py)
and on published ones, and the same count over real weights (tests/test_published.py).
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from headway.architecture import EncoderConfig, LMConfig, Seq2SeqConfig
from headway.build import build
from headway.config import TrainConfig
from headway.models.state import State
from headway.nn.trace import Trace

SHOWN_LENGTH = 32
"""Tokens of the text, or of the source and the target, that costs are counted at."""

PAPER_TRAINING_FLOPS = {"base": 3.3e18, "big": 2.3e19}
"""Table 2 of Vaswani et al. 2017, to hold a training against: hours * GPUs * what a GPU can do in a second."""

Shape = Seq2SeqConfig | LMConfig | EncoderConfig


class Shapes(TorchDispatchMode):
    """Runs a model whose weights are shapes: what comes of a weight is a shape, and all else (tokens, positions, masks)
    is computed, since the way through a model depends on it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        known = [not x.is_meta for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        unknown = not all(known)
        if unknown and func is torch.ops.aten.bincount.default:
            # How many tokens each expert gets: nobody knows, and it costs the same if the first one gets them all.
            counts = torch.zeros(kwargs.get("minlength", 1), dtype=torch.int64)
            counts[0] = args[0].numel()
            return counts
        if unknown and not any(known):
            return func(*args, **kwargs)

        def moved(x: Any) -> Any:
            if isinstance(x, Tensor):
                return x.to("meta") if unknown else x
            return torch.device("cpu") if isinstance(x, torch.device) and not unknown else x

        return func(*tree_map(moved, args), **tree_map(moved, kwargs))


def costs(config: Shape, vocab_size: int | tuple[int, int], train: TrainConfig | None = None) -> dict[str, Any]:
    """Parameters by part (a tied one goes to the first that has it), FLOPs and cache bytes for each token that is
    written (of an encoder, which has no cache, for each that is read); with the settings of a training also its FLOPs,
    for a pair beside those that the paper gives for its own.

    FLOPs are those of the matrix products of a forward, a source's share included, at 32 tokens a side; windows and
    linear attention are counted as dense attention, of a mixture of experts those that a token goes to, of modules for
    tokens further ahead none. The cache is what the state of one text grows by with each token, in float32.
    """
    with torch.device("meta"):
        module = build(config, vocab_size).eval()
    parts: dict[str, int] = {}
    for name, parameter in module.named_parameters():
        part = name.split(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    found = {
        "vocab_size": vocab_size,
        "parameters": sum(parts.values()),
        "parameters_by_part": parts,
        **counted(config, module),
    }
    if train is not None:
        pair = isinstance(config, Seq2SeqConfig)
        found["training_flops"] = training_flops(train, found["flops_per_target_token"], sides=2 if pair else 1)
        found |= {"paper_training_flops": PAPER_TRAINING_FLOPS} if pair else {}
    return found


@torch.no_grad()
def counted(config: Shape, module: Any) -> dict[str, int]:
    """What is counted by running the module of `config`, of whose weights only the shapes are looked at."""
    tokens, pair = torch.full((1, SHOWN_LENGTH), 4), isinstance(config, Seq2SeqConfig)
    trace = Trace(only={"weights"})  # watched, attention takes the form whose products are counted
    with FlopCounterMode(display=False) as counter, Shapes():
        if isinstance(config, EncoderConfig) and config.stack.kind == "decomposable":
            module(tokens, segments=(torch.arange(SHOWN_LENGTH) >= SHOWN_LENGTH // 2).long()[None])
        else:
            module(tokens, tokens, trace=trace) if pair else module(tokens, trace=trace)
    found = {"flops_per_target_token": counter.get_total_flops() // SHOWN_LENGTH}
    if not isinstance(config, EncoderConfig):
        with Shapes():  # as `start` does, which puts ids where the weights are
            layers = module.decoder.start(*module.encode(tokens)) if pair else module.stack.new_caches(1)
            state = State(layers, torch.zeros(1, dtype=torch.int64))
            before = remembered(state)
            module.step(state, tokens)
        found["cache_bytes_per_target_token"] = (remembered(state) - before) // SHOWN_LENGTH
    return found


def remembered(state: State) -> int:
    """Bytes of a state's own text; shapes have no storage by which `State.bytes` could tell one from another."""
    held = [tensor for layer in state.layers for tensor in layer.mixer.held()]
    return sum(tensor.numel() * tensor.element_size() for tensor in held)


def training_flops(train: TrainConfig, flops_per_target_token: int, sides: int = 2) -> int:
    """Updates * target tokens of an update * FLOPs for each, three times: a forward, and twice as much backward, for
    the gradients of weights and of inputs. sides: texts of an example, which share the places of a batch.

    An estimate, and rather too high: of a pair half of a batch's places count as target tokens, padding among them;
    `patience` may end a training early, and LoRA goes without the gradients of most weights.
    """
    target_tokens = train.steps * train.batch_tokens * train.accumulate // sides
    return 3 * target_tokens * flops_per_target_token


def costs_text(costs: dict[str, Any]) -> str:
    rows = [(f"  {part}", f"{number:,}") for part, number in costs["parameters_by_part"].items()]
    sizes = [costs["vocab_size"]] if isinstance(costs["vocab_size"], int) else costs["vocab_size"]
    rows = [("parameters", f"{costs['parameters']:,}"), *rows]
    token = "target token" if "encoder" in costs["parameters_by_part"] else "token"
    rows += [
        ("vocabulary", " and ".join(f"{size:,}" for size in sizes)),
        (f"FLOPs per {token}", f"{costs['flops_per_target_token']:,}"),
    ]
    if "cache_bytes_per_target_token" in costs:
        rows.append((f"cache per {token}", f"{costs['cache_bytes_per_target_token']:,} bytes"))
    if "training_flops" in costs:
        paper = costs.get("paper_training_flops", {}).items()
        rows.append(("training FLOPs", f"{costs['training_flops']:.1e}"))
        rows += [(f"  the paper's {name}", f"{flops:.1e}") for name, flops in paper]
    told = f"FLOPs: of a forward, {SHOWN_LENGTH} tokens a side; windows and linear attention as dense"
    told += ", of a mixture the experts of one token"
    return "\n".join([*(f"{name:24}{value:>18}" for name, value in rows), told])
