"""Training throughput of the tiny model against torch.nn.Transformer of the same sizes, and of our allocator settings
against glibc's defaults. Same batches, same loss, same Adam, rounds taken in turn; the ratio is that of the medians.

    python bench/train.py [--json] [--rounds 7] [--threads 2]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.allocator import tune_allocator
from headway.build import build
from headway.config import UniformSmoothingConfig
from headway.models.seq2seq import PAD
from headway.nn.position import sinusoid
from headway.recipe import parse_model
from headway.train.loss import token_loss

VOCAB, ROWS, LENGTH = 6_000, 96, 16
STEPS = 5


class Peer(nn.Module):
    """What one would write in an hour: tied embeddings, sinusoids, torch.nn.Transformer (pre-LN, 4 + 4 layers)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 128)
        nn.init.normal_(self.embed.weight, std=128**-0.5)
        self.net = nn.Transformer(128, 4, 4, 4, 256, dropout=0.1, batch_first=True, norm_first=True)
        self.register_buffer("table", sinusoid(256, 128, dtype=torch.float32, device=torch.device("cpu")))

    def read(self, tokens: Tensor) -> Tensor:
        return F.dropout(self.embed(tokens) * 128**0.5 + self.table[: tokens.shape[1]], 0.1, self.training)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        blank = source == PAD
        out = self.net(
            self.read(source),
            self.read(target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=blank,
            memory_key_padding_mask=blank,
        )
        return out @ self.embed.weight.T


def their_loss(logits: Tensor, gold: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=PAD, label_smoothing=0.1)


def our_loss(logits: Tensor, gold: Tensor) -> Tensor:
    loss = token_loss(logits, gold, UniformSmoothingConfig())
    return loss.loss / loss.tokens


def stepper(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], fused: bool) -> Callable[[], float]:
    """A function that makes a few updates and returns target tokens a second."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    generator = torch.Generator().manual_seed(1)

    def steps() -> float:
        begin = time.perf_counter()
        for _ in range(STEPS):
            source, target = torch.randint(4, VOCAB, (2, ROWS, LENGTH), generator=generator)
            optimizer.zero_grad()
            loss(model(source, target), target.roll(-1, 1)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return STEPS * ROWS * LENGTH / (time.perf_counter() - begin)

    return steps


def ours() -> Callable[[], float]:
    config = parse_model(
        {
            "preset": "transformer-tiny",
            "encoder": {"layer": {"residual": "pre"}},
            "decoder": {"layer": {"residual": "pre"}},
        }
    )
    return stepper(build(config, VOCAB).train(), our_loss, fused=True)


def in_turn(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """The median of each side, over rounds in which each has one go; the first round is not counted."""
    found = [[side() for side in sides] for _ in range(rounds + 1)][1:]
    return [statistics.median(column) for column in zip(*found, strict=True)]


def alone(tuned: bool, rounds: int, threads: int) -> Callable[[], float]:
    """Our own updates in a process of their own, as the allocator is set once and for all."""

    def run() -> float:
        command = [sys.executable, __file__, "--one", "tuned" if tuned else "plain", "--rounds", str(rounds)]
        done = subprocess.run([*command, "--threads", str(threads)], capture_output=True, text=True, check=True)
        return float(done.stdout)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--one", choices=["tuned", "plain"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if options.one != "plain":
        tune_allocator()
    if options.one:
        print(*in_turn(options.rounds, ours()))
        return
    rows = [
        ("tiny, updates", "torch.nn.Transformer", *in_turn(options.rounds, ours(), stepper(Peer(), their_loss, False))),
        (
            "tiny, updates",
            "the same with glibc's allocator as it comes",
            *in_turn(3, alone(True, options.rounds, options.threads), alone(False, options.rounds, options.threads)),
        ),
    ]
    for work, peer, mine, theirs in rows:
        row = {"work": work, "peer": peer, "ours": mine, "theirs": theirs, "unit": "target tokens/s"}
        row["ratio"] = mine / theirs
        told = f"{work}: {mine:,.0f} target tokens/s; {peer}: {theirs:,.0f}; ratio {mine / theirs:.2f}"
        print(json.dumps(row) if options.json else told)


if __name__ == "__main__":
    main()
