"""What a model costs, before it is trained: parameters by part, arithmetic and memory for each token."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.build import build
from headway.config import Seq2SeqConfig
from headway.nn.trace import Trace

SHOWN_LENGTH = 32
"""Tokens of the source and the target that costs are counted at."""


def costs(config: Seq2SeqConfig, vocab_size: int | tuple[int, int]) -> dict[str, Any]:
    """Parameters by part (a tied one goes to the first that has it), FLOPs and cache bytes for each target token.

    FLOPs are those of the matrix products of a forward, the source's share included, at 32 tokens a side; training
    takes three times as many. The cache is what the state of one sentence grows by with each token.
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
    return {
        "vocab_size": vocab_size,
        "parameters": sum(parts.values()),
        "parameters_by_part": parts,
        "flops_per_target_token": counter.get_total_flops() // SHOWN_LENGTH,
        "cache_bytes_per_target_token": (sizes[1] - sizes[0]) // SHOWN_LENGTH,
    }


def costs_text(costs: dict[str, Any]) -> str:
    rows = [(f"  {part}", f"{number:,}") for part, number in costs["parameters_by_part"].items()]
    sizes = [costs["vocab_size"]] if isinstance(costs["vocab_size"], int) else costs["vocab_size"]
    rows = [("parameters", f"{costs['parameters']:,}"), *rows]
    rows += [
        ("vocabulary", " and ".join(f"{size:,}" for size in sizes)),
        ("FLOPs per target token", f"{costs['flops_per_target_token']:,}"),
        ("cache per target token", f"{costs['cache_bytes_per_target_token']:,} bytes"),
    ]
    return "\n".join(f"{name:24}{value:>16}" for name, value in rows)
