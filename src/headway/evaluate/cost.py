"""What a model costs, before it is trained: parameters by part, arithmetic and memory for each token, and arithmetic
of the whole training where a recipe says how long that is.

Twin: arithmetic by hand on the paper's shapes, in tests/test_paper_recipes.py.
"""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.build import build
from headway.config import Seq2SeqConfig, TrainConfig
from headway.nn.trace import Trace

SHOWN_LENGTH = 32
"""Tokens of the source and the target that costs are counted at."""

PAPER_TRAINING_FLOPS = {"base": 3.3e18, "big": 2.3e19}
"""Table 2 of Vaswani et al. 2017, to hold a training against: hours * GPUs * what a GPU can do in a second."""


def costs(config: Seq2SeqConfig, vocab_size: int | tuple[int, int], train: TrainConfig | None = None) -> dict[str, Any]:
    """Parameters by part (a tied one goes to the first that has it), FLOPs and cache bytes for each target token; with
    the settings of a training also its FLOPs, beside those that the paper gives for its own.

    FLOPs are those of the matrix products of a forward, the source's share included, at 32 tokens a side; windows and
    linear attention are counted as dense attention. The cache is what the state of one sentence grows by with each
    token.
    """
    module = build(config, vocab_size).eval()
    parts: dict[str, int] = {}
    for name, parameter in module.named_parameters():
        part = name.split(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    tokens = torch.full((1, SHOWN_LENGTH), 4)
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            module(tokens, tokens, Trace())  # watched, attention takes the form whose products are counted
        state, sizes = module.start(tokens.tolist()), []
        for _ in range(2):
            module.step(state, tokens)
            sizes.append(state.bytes())
    found = {
        "vocab_size": vocab_size,
        "parameters": sum(parts.values()),
        "parameters_by_part": parts,
        "flops_per_target_token": counter.get_total_flops() // SHOWN_LENGTH,
        "cache_bytes_per_target_token": (sizes[1] - sizes[0]) // SHOWN_LENGTH,
    }
    if train is not None:
        found["training_flops"] = training_flops(train, found["flops_per_target_token"])
        found["paper_training_flops"] = PAPER_TRAINING_FLOPS
    return found


def training_flops(train: TrainConfig, flops_per_target_token: int) -> int:
    """Updates * target tokens of an update * FLOPs for each, three times: a forward, and twice as much backward, for
    the gradients of weights and of inputs.

    An estimate, and rather too high: half of a batch's places count as target tokens, padding among them; `patience`
    may end a training early, and LoRA goes without the gradients of most weights.
    """
    target_tokens = train.steps * train.batch_tokens * train.accumulate // 2
    return 3 * target_tokens * flops_per_target_token


def costs_text(costs: dict[str, Any]) -> str:
    rows = [(f"  {part}", f"{number:,}") for part, number in costs["parameters_by_part"].items()]
    sizes = [costs["vocab_size"]] if isinstance(costs["vocab_size"], int) else costs["vocab_size"]
    rows = [("parameters", f"{costs['parameters']:,}"), *rows]
    rows += [
        ("vocabulary", " and ".join(f"{size:,}" for size in sizes)),
        ("FLOPs per target token", f"{costs['flops_per_target_token']:,}"),
        ("cache per target token", f"{costs['cache_bytes_per_target_token']:,} bytes"),
    ]
    if "training_flops" in costs:
        paper = costs["paper_training_flops"].items()
        rows.append(("training FLOPs", f"{costs['training_flops']:.1e}"))
        rows += [(f"  the paper's {name}", f"{flops:.1e}") for name, flops in paper]
    told = f"FLOPs: of a forward, {SHOWN_LENGTH} tokens a side; windows and linear attention as dense"
    return "\n".join([*(f"{name:24}{value:>16}" for name, value in rows), told])
