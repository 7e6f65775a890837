"""Training throughput against what people would train the same model with otherwise.

    python bench/train.py [--json] [--rounds 9] [--threads 2] [--shape tiny|base|multi30k]

Each side has a process of its own (its allocator, its memory), and they take turns, a round each on the same batches.
Figures are medians of rounds, a ratio that of the ratios in each round. All have the same sizes, one matrix for both
embeddings and the logits, dropout 0.1 of the embeddings and of what each sublayer adds (nowhere else), label smoothing
0.1 (x-transformers has none), the same fused Adam and gradient clipping, in float32. Biases, positions and norms are
each side's own, and its parameters as many as ours within 3 %. `torch_tuned` is torch_transformer with our settings of
the memory allocator, `plain_allocator` is headway without them. `floor` is the matrix products of an update alone
(forward and both gradients, the faster of MKL and oneDNN for each): nothing could be faster without other products.
`multi30k`: 2,000 of its pairs (HEADWAY_DATA) in batches of like length.
The peers are the extra `peers`; one that is not installed is left out.
"""

import argparse
import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from tables import commit
from torch import Tensor, nn

from headway.allocator import tune_allocator
from headway.build import build
from headway.config import BPEConfig, UniformSmoothingConfig
from headway.data.corpus import read_lines
from headway.nn.position import sinusoid
from headway.recipe import parse_model
from headway.text.tokenizer import Tokenizer
from headway.train.loss import token_loss

PAD, EPSILON, DROPOUT = 0, 0.1, 0.1
DATA = os.environ.get("HEADWAY_DATA")


class Shape(NamedTuple):
    """Sizes of a model and of a batch (rows, tokens on each side), and updates in a round."""

    preset: str
    dim: int
    ffn_dim: int
    heads: int
    layers: int
    vocab: int
    rows: int
    length: int
    steps: int


SHAPES = {
    "tiny": Shape("transformer-tiny", 128, 256, 4, 4, 10_000, 160, 13, 5),
    "base": Shape("transformer-base", 512, 2048, 8, 6, 16_000, 64, 25, 1),
    "multi30k": Shape("transformer-tiny", 128, 256, 4, 4, 10_000, 160, 0, 5),
}
Loss = Callable[[Tensor, Tensor], Tensor]
"""Of source and target (rows, tokens), the target with its begin: the mean over target tokens."""
Round = Callable[[Tensor, Tensor], float]
"""The same; makes one update, and gives the seconds that it took."""


# --- the sides: a model, and its loss


def headway(shape: Shape) -> tuple[nn.Module, Loss]:
    model = build(parse_model({"preset": shape.preset, "dropout": DROPOUT}), shape.vocab)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        hidden = model.hidden(source, target[:, :-1])
        found = token_loss(hidden, model.unembed.weight, target[:, 1:], UniformSmoothingConfig(epsilon=EPSILON))
        return found.loss / found.tokens

    return model, loss


class Plain(nn.Module):
    """What one would write in an hour: tied embeddings, sinusoids, torch.nn.Transformer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocab, shape.dim)
        nn.init.normal_(self.embed.weight, std=shape.dim**-0.5)
        layers, width = (shape.layers, shape.layers), shape.ffn_dim
        self.net = nn.Transformer(shape.dim, shape.heads, *layers, width, dropout=DROPOUT, batch_first=True)
        for part in self.net.modules():  # it would also drop attention weights, and within the FFN
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            elif isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout.p = 0.0
        self.register_buffer("table", sinusoid(256, shape.dim, dtype=torch.float32, device=torch.device("cpu")))
        self.scale = shape.dim**0.5

    def read(self, tokens: Tensor) -> Tensor:
        return F.dropout(self.embed(tokens) * self.scale + self.table[: tokens.shape[1]], DROPOUT, self.training)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal, blank = nn.Transformer.generate_square_subsequent_mask(target.shape[1]), source == PAD
        masks = {"tgt_mask": causal, "tgt_is_causal": True}
        blanks = {"src_key_padding_mask": blank, "memory_key_padding_mask": blank}
        return self.net(self.read(source), self.read(target), **masks, **blanks) @ self.embed.weight.T


def torch_transformer(shape: Shape) -> tuple[nn.Module, Loss]:
    model = Plain(shape)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        logits, gold = model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten()
        return F.cross_entropy(logits, gold, ignore_index=PAD, label_smoothing=EPSILON)

    return model, loss


def marian(shape: Shape) -> tuple[nn.Module, Loss]:
    """Hugging Face's MarianMTModel, with the label smoothing of its Trainer."""
    from transformers import MarianConfig, MarianMTModel
    from transformers.trainer_pt_utils import LabelSmoother

    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", shape.layers), ("ffn_dim", shape.ffn_dim), ("attention_heads", shape.heads))
    }
    ids = {"pad_token_id": PAD, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": 2}
    more = {"d_model": shape.dim, "dropout": DROPOUT, "activation_function": "relu", "scale_embedding": True}
    model = MarianMTModel(MarianConfig(vocab_size=shape.vocab, **sides, **ids, **more))

    def loss(source: Tensor, target: Tensor) -> Tensor:
        labels = target[:, 1:].masked_fill(target[:, 1:] == PAD, -100)
        out = model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target[:, :-1])
        return smoother(out, labels)

    smoother = LabelSmoother(epsilon=EPSILON)
    return model, loss


def x_transformers(shape: Shape) -> tuple[nn.Module, Loss]:
    """XTransformer with its defaults but for sizes, dropout, tied embeddings and logits, and its fused kernel.
    It reads the last token of a target too, and leaves out what comes of it."""
    from x_transformers import XTransformer

    sides = {
        f"{side}_{name}": value
        for side in ("enc", "dec")
        for name, value in {
            "num_tokens": shape.vocab,
            "max_seq_len": 256,
            "depth": shape.layers,
            "heads": shape.heads,
            "attn_dim_head": shape.dim // shape.heads,
            "ff_mult": shape.ffn_dim / shape.dim,
            "attn_sublayer_dropout": DROPOUT,
            "ff_sublayer_dropout": DROPOUT,
            "emb_dropout": DROPOUT,
            "attn_flash": True,
        }.items()
    }
    model = XTransformer(dim=shape.dim, tie_token_emb=True, ignore_index=-100, pad_value=PAD, **sides)
    model.decoder.net.to_logits.weight = model.encoder.token_emb.emb.weight  # XTransformer has no option for it

    def loss(source: Tensor, target: Tensor) -> Tensor:
        return model(source, target.masked_fill(target == PAD, -100), mask=source != PAD)

    return model, loss


def clocked(model: nn.Module, loss: Loss) -> Round:
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, (0.9, 0.98), 1e-9, fused=True)

    def seconds(source: Tensor, target: Tensor) -> float:
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss(source, target).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return time.perf_counter() - begin

    model.train()
    return seconds


def floor(shape: Shape) -> Round:
    """Every product of an update and nothing else; attention's own, under a hundredth of them, are left out."""
    d, f, layers = shape.dim, shape.ffn_dim, shape.layers
    of_source = {(d, d): 6 * layers, (d, f): layers, (f, d): layers}  # keys and values for the decoder among them
    of_target = {(d, d): 6 * layers, (d, f): layers, (f, d): layers, (d, shape.vocab): 1}

    def seconds(source: Tensor, target: Tensor) -> float:
        total = 0.0
        for sizes, rows in ((of_source, source.numel()), (of_target, target[:, 1:].numel())):
            for (wide, out), count in sizes.items():
                x, w, g = torch.randn(rows, wide), torch.randn(out, wide), torch.randn(rows, out)
                total += count * sum(min(map(fastest, (a, a), (b, b))) for a, b in ((x, w), (g, w.T), (g.T, x.T)))
        return total

    return seconds


def fastest(x: Tensor, w: Tensor) -> float:
    """Seconds of x W' by the faster library, with its arguments as the library likes them."""
    x, w = x.contiguous(), w.contiguous()
    found = []
    for product in (lambda: F.linear(x, w), lambda: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")):
        begin = time.perf_counter()
        product()
        found.append(time.perf_counter() - begin)
    return min(found)


MODELS = {
    "headway": headway,
    "plain_allocator": headway,
    "torch_transformer": torch_transformer,
    "torch_tuned": torch_transformer,
    "marian": marian,
    "x_transformers": x_transformers,
}
SIDES = (*MODELS, "floor")
TUNED = {"headway", "torch_tuned", "floor"}
"""Sides with our settings of the allocator."""
PACKAGES = {"marian": "transformers", "x_transformers": "x_transformers"}


# --- batches


Rows = list[list[int]]


def batches(shape: Shape) -> Iterator[tuple[Rows, Rows]]:
    """Source, and target with its begin, of like length within a batch."""
    draw = random.Random(1)
    if shape.length:
        while True:
            source, target = (
                [draw.choices(range(4, shape.vocab), k=shape.length) for _ in range(shape.rows)] for _ in "ab"
            )
            yield source, [[1, *row] for row in target]
    folder = Path(os.environ["HEADWAY_DATA"]) / "multi30k"
    sides = [list(read_lines(folder / f"train.{language}.gz")) for language in ("en", "de")]
    tokenizer = Tokenizer.train([*sides[0], *sides[1]], BPEConfig(vocab_size=shape.vocab))
    pairs = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in islice(zip(*sides, strict=True), 2000)]
    pairs = sorted(pairs, key=lambda pair: max(map(len, pair)))
    groups = [pairs[at : at + shape.rows] for at in range(0, len(pairs), shape.rows)]
    for group in cycle(draw.sample(groups, len(groups))):
        yield [a for a, _ in group], [[1, *b] for _, b in group]


def padded(rows: Rows) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


# --- taking turns


def serve(side: str, shape: Shape) -> None:
    """In a process of its own: for every line of batches, tokens a second and the peak so far."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    if side in TUNED:
        tune_allocator()
    torch.manual_seed(1)
    run = floor(shape) if side == "floor" else clocked(*MODELS[side](shape))
    for line in sys.stdin:
        tokens = seconds = 0.0
        for source, target in json.loads(line):
            seconds += run(padded(source), padded(target))
            tokens += sum(map(len, target)) - len(target)
        print(tokens / seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=answers, flush=True)


def start(side: str, shape: str, threads: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--serve", side, "--shape", shape, "--threads", str(threads)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(side: str, worker: subprocess.Popen[str], work: Sequence[tuple[Rows, Rows]]) -> list[float]:
    """Raises ValueError where the worker is gone."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(work) + "\n")
        worker.stdin.flush()
    except BrokenPipeError:
        pass  # nothing is to be read then
    if not (answer := worker.stdout.readline()):
        raise ValueError(f"{side}: its process ended with {worker.wait()}, and gave no figures; no row is printed")
    return [float(number) for number in answer.split()]


def measure(shape: str, rounds: int, threads: int) -> Iterator[dict[str, object]]:
    names = [name for name in SIDES if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name])]
    workers = {name: start(name, shape, threads) for name in names}
    source_of, answers = batches(SHAPES[shape]), list[dict[str, list[float]]]()
    for _ in range(rounds + 1):  # the first one warms up
        work = list(islice(source_of, SHAPES[shape].steps))
        answers.append({name: ask(name, worker, work) for name, worker in workers.items()})
    for worker in workers.values():
        worker.communicate()
    speed = {name: statistics.median(answer[name][0] for answer in answers[1:]) for name in names}
    for peer in (name for name in names if name != "headway"):
        yield {
            "work": f"{shape}, updates",
            "peer": peer,
            "ours": speed["headway"],
            "theirs": speed[peer],
            "unit": "target tokens/s",
            "ratio": statistics.median(answer["headway"][0] / answer[peer][0] for answer in answers[1:]),
            "our_mib": answers[-1]["headway"][1],
            "their_mib": answers[-1][peer][1],
            "threads": threads,
            "commit": commit(),
        }


TOLD = "{work}: {ours:,.0f} {unit}, {our_mib:,.0f} MiB; {peer}: {theirs:,.0f}, {their_mib:,.0f} MiB; {ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--shape", choices=list(SHAPES), help="only this one")
    parser.add_argument("--serve", choices=list(SIDES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads are 1 or more")
    if options.shape == "multi30k" and not DATA:
        parser.error("--shape multi30k needs HEADWAY_DATA, the folder of corpora that holds multi30k/")
    torch.set_num_threads(options.threads)
    if options.serve:
        return serve(options.serve, SHAPES[options.shape])
    shapes = [options.shape] if options.shape else [name for name in SHAPES if name != "multi30k" or DATA]
    if not (DATA or options.shape):
        print("multi30k is left out: HEADWAY_DATA names no folder of corpora", file=sys.stderr)
    try:
        for shape in shapes:
            for row in measure(shape, options.rounds, options.threads):
                print(json.dumps(row) if options.json else TOLD.format(**row), flush=True)
    except ValueError as error:
        sys.exit(str(error))
    return None


if __name__ == "__main__":
    main()
