"""Scores of a run of the recipe enja-50k on the test set of small_parallel_enja, whose words are given.

    python bench/enja.py RUN [--json >> bench/results/enja.jsonl]

BLEU of the words as given (13a, which leaves words of full-width letters alone), and of the text without its spaces,
cut by MeCab (`ja-mecab`, of the extra `ja`); chrF, which looks at no space. Once on all lines, and once without those
whose source is also one to train on. HEADWAY_DATA names the folder of corpora. With --json one object for each; the
table in docs/results.md is made of them by bench/tables.py.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tables import commit

import headway
from headway.config import Recipe
from headway.data.corpus import read_lines, read_pairs
from headway.evaluate.run_report import read_runs
from headway.recipe import load_recipe

NAME = "enja-50k"
LEAKED = 60
"""Lines of the test set whose source stands in the training set, to the letter; not one of their targets does. (Who
splits the files at line feeds finds 61: the empty text behind the last one is in both.)"""


def unseen(test: Sequence[str], train: Sequence[str]) -> list[int]:
    """Places of the test sources that are not to train on. Raises ValueError where the corpus is another one."""
    known = set(train)
    found = [place for place, source in enumerate(test) if source not in known]
    if (leaked := len(test) - len(found)) != LEAKED:
        told = f"{leaked} of {len(test)} test sources are also in the training set, {LEAKED} are expected"
        raise ValueError(f"{told}; take small_parallel_enja as it is published")
    return found


def joined(lines: Sequence[str]) -> list[str]:
    """Japanese as people write it: the corpus puts its spaces between words, and has no others."""
    return [line.replace(" ", "") for line in lines]


def scores(outputs: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Lines of words with spaces between, against as many."""
    metrics = {
        "bleu_13a": (BLEU(tokenize="13a"), outputs, references),
        "bleu_ja_mecab": (BLEU(tokenize="ja-mecab"), joined(outputs), joined(references)),
        "chrf": (CHRF(), outputs, references),
    }
    found = {
        name: round(metric.corpus_score(ours, [theirs]).score, 2) for name, (metric, ours, theirs) in metrics.items()
    }
    return {**found, "signature": "; ".join(str(metric.get_signature()) for metric, _, _ in metrics.values())}


def rows(run: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """One for each set of lines: all of the test set, and those whose source is new."""
    train, pairs = read_lines(folder / "train.en.gz"), read_pairs(folder / "test.en", folder / "test.ja")
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    sets = {"all": list(range(len(pairs))), "unseen": unseen(sources, train)}
    outputs = headway.load(run).translate(sources)
    own, [made] = load_recipe(run / "recipe.toml"), read_runs([run], lambda folder: {})
    told = {"recipe": name_of(own), "commit": commit(), "seed": own.train.seed, "steps": made.step}
    told |= {"wall_s": round(made.seconds) if made.seconds is not None else None, "beam": own.search.beam}
    for name, places in sets.items():
        chosen = ([texts[place] for place in places] for texts in (outputs, references))
        yield {**told, "lines": name, "num_lines": len(places), **scores(*chosen)}


def name_of(own: Recipe) -> str:
    """The recipe's name, where a run has changed nothing of it but the seed and where the data lies."""
    known = load_recipe(NAME, {"train.seed": own.train.seed})
    same = own.model_copy(update={"data": known.data}) == known
    return NAME if same else f"{NAME}, changed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (find_spec("MeCab") and find_spec("ipadic")):
        sys.exit("MeCab is missing, which cuts Japanese into words: pip install 'headway[ja]'")
    if not (data := os.environ.get("HEADWAY_DATA")):
        sys.exit("HEADWAY_DATA is not set: name the folder that holds small_parallel_enja/")
    try:
        found = list(rows(options.run, Path(data) / "small_parallel_enja"))
    except ValueError as error:
        sys.exit(str(error))
    for row in found:
        if options.json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            figures = (
                f"BLEU {row['bleu_13a']:5.2f} (13a)  {row['bleu_ja_mecab']:5.2f} (ja-mecab)  chrF {row['chrf']:5.2f}"
            )
            print(f"{row['lines']:7} {row['num_lines']:4} lines  {figures}")


if __name__ == "__main__":
    main()
