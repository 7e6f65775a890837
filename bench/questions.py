"""The questions of the paper and of those that came after, on Multi30k: one model for each answer, all else alike.

    python bench/questions.py list
    python bench/questions.py run FOLDER [CELL...] [--epochs 12] [--seed 1] [--threads 1]
    python bench/questions.py score FOLDER [--json > bench/results/questions.jsonl]

Every cell is the recipe multi30k-en-de-small-batches with one thing changed and 12 epochs in place of 48;
HEADWAY_MULTI30K names its text (`bench/multi30k.py prepare`), HEADWAY_DATA the folder of corpora. `run` trains what is
not there yet, one after the other, and goes on with what was broken off. `score` gives a row for each run that has
ended: BLEU of lower-cased tokens on test2016, as in bench/multi30k.py. `--epochs 48` is the recipe's own budget.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multi30k import captions, prepared, scores
from tables import commit

import headway
from headway.config import Recipe
from headway.evaluate.run_report import read_runs
from headway.recipe import load_recipe

BASE, BASE_EPOCHS = "multi30k-en-de-small-batches", 48
SIDES = ("encoder", "decoder")
Changes = dict[str, Any]


def both(path: str, value: Any) -> Changes:
    """The same in every layer of either side."""
    return {f"model.{side}.layer.{path}": value for side in SIDES}


def relation(kind: Any) -> Changes:
    return {"model.position": "none"} | both("mixer.position", kind)


def recurrent(decoder: Changes, encoder: str = "gru") -> Changes:
    """A decoder of its kind, with the recurrent encoder that it was made for."""
    layer = {"mixer": {"kind": encoder, "bidirectional": True}, "ffn": "none", "residual": "none"}
    stack = {"kind": "stack", "layers": [{**layer, "repeat": 2}]}
    return {"model.encoder": stack, "model.decoder": decoder, "model.position": "none", "model.scale_embedding": False}


LATENT = {"kind": "latent", "num_heads": 4, "kv_rank": 32}
RNNSEARCH = {"kind": "rnnsearch"}
CELLS: dict[str, tuple[str, str, Changes]] = {
    # name: question, answer, what it changes
    "base": ("", "sinusoids, pre-norm, 4 heads, relu, LayerNorm", {}),
    "none": ("positions", "none", {"model.position": "none"}),
    "learned": ("positions", "learned", {"model.position": {"kind": "learned", "max_len": 257}}),
    "rotary": ("positions", "rotary", relation("rotary")),
    "alibi": ("positions", "ALiBi", relation("alibi")),
    "buckets": ("positions", "T5's buckets", relation("buckets")),
    "shaw": ("positions", "Shaw", relation("shaw")),
    "post": ("residual", "post-norm", both("residual", "post")),
    "deepnorm": ("residual", "DeepNorm", both("residual", "deepnorm")),
    "parallel": ("residual", "parallel", both("residual", "parallel")),
    "heads-1": ("heads", "1", both("mixer.num_heads", 1)),
    "heads-8": ("heads", "8", both("mixer.num_heads", 8)),
    "gqa": ("keys and values", "2 heads for 4 (GQA)", both("mixer.num_kv_heads", 2)),
    "mqa": ("keys and values", "1 head for 4 (MQA)", both("mixer.num_kv_heads", 1)),
    "mla": ("keys and values", "latent, 32 wide (MLA)", both("mixer", LATENT)),
    "gelu": ("feed-forward", "gelu", both("ffn", {"kind": "gelu", "dim": 256})),
    "swiglu": ("feed-forward", "SwiGLU, two thirds as wide", both("ffn", {"kind": "swiglu", "dim": 171})),
    "rmsnorm": ("norm", "RMSNorm", both("norm", "rmsnorm")),
    "scalenorm": ("norm", "ScaleNorm", both("norm", "scalenorm")),
    "rnnsearch": ("architecture", "RNNsearch (GRU)", recurrent(RNNSEARCH)),
    "luong": ("architecture", "Luong, general (LSTM)", recurrent({"kind": "luong", "num_layers": 2}, "lstm")),
    "gnmt": ("architecture", "GNMT, 4 layers (LSTM)", recurrent({"kind": "gnmt"}, "lstm")),
    "sutskever": ("architecture", "no attention (LSTM)", recurrent({"kind": "rnn", "num_layers": 2}, "lstm")),
    "hybrid": ("architecture", "Transformer encoder, RNN decoder", {"model.decoder": RNNSEARCH}),
}


def changes_of(cell: str, epochs: int = 12, seed: int = 1) -> Changes:
    """What a cell sets in the base recipe."""
    steps = load_recipe(BASE).train.steps * epochs // BASE_EPOCHS
    budget = {"train.steps": steps, "train.validate_every": max(1, steps // 7), "train.seed": seed}
    return budget | CELLS[cell][2]


def recipe_of(cell: str, epochs: int = 12, seed: int = 1) -> Recipe:
    return load_recipe(BASE, changes_of(cell, epochs, seed))


def run(folder: Path, cells: list[str], epochs: int, seed: int, threads: int) -> None:
    for cell in cells:
        out = folder / (cell if seed == 1 else f"{cell}-{seed}")
        marker = out.with_suffix(".done")
        if marker.exists():
            continue
        print(f"{out.name} ...", file=sys.stderr, flush=True)
        changes = changes_of(cell, epochs, seed)
        headway.train(BASE, out=out, set=changes, resume=out.exists(), threads=threads, quiet=True)
        marker.touch()


def measured(folder: Path, data: Path) -> Iterator[dict[str, Any]]:
    """A row for each run that has ended, in the order of the cells."""
    sources, references = (captions(data, "test_2016_flickr", language) for language in ("en", "de"))
    for cell, (question, answer, _) in CELLS.items():
        for marker in sorted(folder.glob(f"{cell}*.done")):
            name, _, seed = marker.stem.removeprefix(cell).rpartition("-")
            if name or not (seed.isdigit() or not seed):
                continue  # another cell, whose name begins alike
            out = marker.with_suffix("")
            model, [made] = headway.load(out), read_runs([out], lambda folder: {})
            outputs = model.translate(prepared(sources, "en"))
            yield {
                "question": question,
                "answer": answer,
                "cell": cell,
                "commit": commit(),
                "seed": int(seed or 1),
                "steps": made.step,
                "wall_s": round(made.seconds or 0),
                "parameters": sum(parameter.numel() for parameter in model.module.parameters()),
                "bleu_tok_lc": scores(outputs, references, "de", raw=False)["bleu_tok_lc"],
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    running, scoring = commands.add_parser("run"), commands.add_parser("score")
    for one in (running, scoring):
        one.add_argument("folder", type=Path)
    running.add_argument("cells", nargs="*", choices=[[], *CELLS], metavar="CELL", default=[])
    for name, default in (("--epochs", 12), ("--seed", 1), ("--threads", 1)):
        running.add_argument(name, type=int, default=default)
    scoring.add_argument("--json", action="store_true", help="one object a line")
    options = parser.parse_args()
    if options.command == "list":
        for cell, (question, answer, _) in CELLS.items():
            print(f"{cell:12}{question:18}{answer}")
        return
    if options.command == "run":
        options.folder.mkdir(parents=True, exist_ok=True)
        return run(options.folder, options.cells or list(CELLS), options.epochs, options.seed, options.threads)
    if not (home := os.environ.get("HEADWAY_DATA")):
        sys.exit("HEADWAY_DATA names no folder: set it to the folder of corpora")
    for row in list(measured(options.folder, Path(home, "multi30k"))):
        print(json.dumps(row) if options.json else "{cell:12}{parameters:>10,}  {bleu_tok_lc:.2f}".format(**row))


if __name__ == "__main__":
    main()
