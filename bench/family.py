"""Recipes of models that are no translators, run for real: the text that they read, and a row of figures for each run.

    python bench/family.py prepare FOLDER
    python bench/family.py score RUN... [--json >> bench/results/family.jsonl]

`prepare` writes, from the folder of corpora that HEADWAY_DATA names, what the recipes expect where HEADWAY_FAMILY
points: plain English (the English sides of captions, news, manuals and descriptions, and the sentences of the sentiment
treebank to train on); that treebank as texts and labels; captions in two languages, of which 3,000 are pairs.

`score` tells by the objective: bits per character of a language model, accuracy of masked words or of classes on the
test set, how many of 1,000 captions find their translation among all of them by their vectors, BLEU of a translator on
test2016. Rows are one object a line; the table in docs/results.md is made of them by bench/tables.py.
"""

import argparse
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from tables import commit

import headway
from headway.data.corpus import read_lines
from headway.evaluate.run_report import read_runs
from headway.recipe import load_recipe, recipe_names, resolve_paths
from headway.text_training import TextData, TextValidation

ENGLISH = (
    "multi30k/train.en.gz",
    "libreoffice_help/en-de.en.gz",
    "ddtp/en-de.en.gz",
    "python_docs/en-fr.en.gz",
)
HELD_OUT = 100
"""Every so many lines of plain English one is to validate on."""
PAIRED = 3_000
"""Captions whose translation is kept; of the others every second one is kept in either language."""


def prepare(data: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev", "test"):
        lines = [line.split(" ||| ", 1) for line in read(data / "sst" / f"classes.{part}.txt.gz")]
        write(folder / f"sst.{part}.labels", [label for label, _ in lines])
        write(folder / f"sst.{part}.txt", [text for _, text in lines])
    english = [line for name in ENGLISH for line in read(data / name) if line.strip()]
    english += read(folder / "sst.train.txt")
    english = list(dict.fromkeys(english))
    write(folder / "english.txt", [line for at, line in enumerate(english) if at % HELD_OUT])
    write(folder / "english.valid.txt", english[::HELD_OUT])
    sides = {language: read(data / "multi30k" / f"train.{language}.gz") for language in ("en", "de")}
    for language, lines in sides.items():
        write(folder / f"few.{language}", lines[:PAIRED])
    write(folder / "captions.txt", [sides["de" if at % 2 else "en"][at] for at in range(PAIRED, len(sides["en"]))])
    write(folder / "captions.valid.txt", [*read(data / "multi30k" / "val.en"), *read(data / "multi30k" / "val.de")])


def read(path: Path) -> list[str]:
    """Lines, parted at line feeds alone."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return raw.decode("utf-8").removesuffix("\n").split("\n")


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{path}: {len(lines):,} lines", file=sys.stderr)


def measured(run: Path, data: Path) -> dict[str, Any]:
    """A row for a run."""
    recipe, [made] = load_recipe(run / "recipe.toml"), read_runs([run], lambda folder: {})
    init = json.loads((run / "run.json").read_text(encoding="utf-8")).get("init")
    row = {"recipe": called(recipe, run), "begun_from": Path(init).name if init else "nothing", "commit": commit()}
    row |= {"seed": recipe.train.seed, "steps": made.step, "wall_s": made.seconds and round(made.seconds)}
    model = headway.load(run)
    row["parameters"] = sum(parameter.numel() for parameter in model.module.parameters())
    name, value = figure(run, model, recipe, data)
    return {**row, "figure": name, "value": round(float(value), 4)}


def figure(run: Path, model: Any, recipe: Any, data: Path) -> tuple[str, float]:
    """(name, number) of what tells how good such a model is."""
    captions = [list(read_lines(data / "multi30k" / f"test_2016_flickr.{language}")) for language in ("en", "de")]
    match recipe.objective.kind:
        case "translate":
            bleu = BLEU()
            score = bleu.corpus_score(model.translate(captions[0]), [captions[1]]).score
            return f"BLEU of test2016 ({bleu.get_signature()})", score
        case "classes":
            folder = (run / str(recipe.data.text)).parent
            texts, labels = (read(folder / f"sst.test.{part}") for part in ("txt", "labels"))
            said = [one["label"] for one in model.label(texts)]
            return "right classes of the test set, %", 100 * sum(map(str.__eq__, said, labels)) / len(labels)
        case "contrast":
            english, german = (model.embed(texts) for texts in captions)
            return "captions of test2016 that find their translation, %", 100 * float(
                ((english @ german.T).argmax(1) == range(len(english))).mean()
            )
    whole = resolve_paths(recipe, run)
    found = TextValidation(TextData(whole), model.tokenizers, whole)(model.module, 0)
    for name, told, factor in (
        ("bits_per_character", "bits per character, held out", 1),
        ("accuracy", "right masked words, held out, %", 100),
    ):
        if name in found:
            return told, factor * found[name]
    return "loss, held out, nats", found["loss"]


def called(recipe: Any, run: Path) -> str:
    """The recipe of the package with this model, objective and training, or else the run's name."""
    for name in recipe_names():
        known = load_recipe(name)
        if (known.model, known.objective, known.train) == (recipe.model, recipe.objective, recipe.train):
            return name
    return f"{run.resolve().name}, own settings"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare").add_argument("folder", type=Path)
    scoring = commands.add_parser("score")
    scoring.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    scoring.add_argument("--json", action="store_true", help="one object a line")
    options = parser.parse_args()
    if not (home := os.environ.get("HEADWAY_DATA")):
        sys.exit("HEADWAY_DATA names no folder: set it to the folder of corpora")
    if options.command == "prepare":
        return prepare(Path(home), options.folder)
    for row in [measured(run, Path(home)) for run in options.runs]:  # all of them or none
        print(json.dumps(row) if options.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
