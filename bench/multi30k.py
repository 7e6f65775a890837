"""Multi30k as it is published: lower-cased, Moses-normalised, Moses-tokenised text to train on, and scores on it.

    python bench/multi30k.py prepare FOLDER [--data FOLDER]
    python bench/multi30k.py diversify FOLDER --forward RUN... --backward RUN...
    python bench/multi30k.py score RUN [--data FOLDER] [--beam 5] [--json >> bench/results/multi30k.jsonl]

`--data` is the folder with the captions as they come (`task1/raw` of the data set), multi30k/ of HEADWAY_DATA by
default. `score` gives two BLEU scores: of lower-cased tokens, as papers print it, and of plain text by sacreBLEU. A run
on captions as they come reads those, and what it writes is prepared for the first score; a run on prepared text reads
that, and what it writes is detokenised for the second, which is then without regard to case. The table in
docs/results.md is made of the rows by bench/tables.py.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from tables import commit

import headway
from headway.config import DataConfig, Recipe
from headway.data.corpus import read_lines
from headway.evaluate.metrics import check_lines
from headway.evaluate.run_report import read_runs
from headway.recipe import load_recipe, recipe_names, resolve_paths

TRAINING = ("train", "val")
TESTS = {
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "test2018": "test_2018_flickr",
    "mscoco": "test_2017_mscoco",
}
LANGUAGES = ("en", "de", "fr")
PUBLISHED = ("test_2016_flickr", "de", 12_103)
"""A reference, and its tokens as the published score counts them: whoever has others measures something else."""


# ---- the text ----


def prepared(lines: Sequence[str], language: str) -> list[str]:
    """Lines in lower case, with Moses' punctuation, and one space between Moses' tokens."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    # Lower case comes first, or Moses takes other abbreviations (12,102). No escapes: `&quot;` is one token as much as
    # `"` is, but several to whoever cuts words at punctuation.
    return [
        " ".join(tokenizer.tokenize(normalizer.normalize(line.lower()), aggressive_dash_splits=False, escape=False))
        for line in lines
    ]


def detokenised(lines: Sequence[str], language: str) -> list[str]:
    detokenizer = MosesDetokenizer(language)
    return [detokenizer.detokenize(line.split(), unescape=False) for line in lines]


def num_tokens(lines: Sequence[str]) -> int:
    return sum(len(line.split()) for line in lines)


def captions(data: Path, name: str, language: str) -> list[str]:
    """A side of a part, as it comes. Raises ValueError where it is missing or no text."""
    plain, packed = data / f"{name}.{language}", data / f"{name}.{language}.gz"
    return read_lines(packed if packed.exists() and not plain.exists() else plain)


def checked(data: Path) -> Path:
    """The folder, if its text comes out as published. Raises ValueError for another version of it."""
    name, language, count = PUBLISHED
    if (found := num_tokens(prepared(captions(data, name, language), language))) != count:
        told = f"{name}.{language} has {found:,} tokens, and {count:,} in the published text"
        raise ValueError(f"{data}: {told}; take the captions of task1/raw as they come, and sacremoses 0.2")
    return data


def prepare(data: Path, folder: Path) -> None:
    """All parts in all languages, line by line as they come. Raises ValueError where it would write over them."""
    if folder.resolve() == data.resolve():
        raise ValueError(f"{folder}: the captions as they come lie here; name another folder to write to")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*TRAINING, *TESTS.values()):
        for language in LANGUAGES:
            lines = prepared(captions(data, name, language), language)
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8", newline="")


def diversify(folder: Path, forward: Sequence[Path], backward: Sequence[Path]) -> None:
    """Write the training captions of FOLDER, and below them as many pairs for each run. Raises ValueError where no run
    is named, one translates other languages, or the captions are not line by line."""
    if not (forward or backward):
        raise ValueError("no run is named; give some with --forward, --backward or both")
    source, target = "en", "de"
    models = [(headway.load(run), run, source, target) for run in forward]
    models += [(headway.load(run), run, target, source) for run in backward]
    wrong = [
        f"{run}: translates {model.languages.source} to {model.languages.target}, not {ours} to {theirs}"
        for model, run, ours, theirs in models
        if (model.languages.source, model.languages.target) != (ours, theirs)
    ]
    if wrong:
        raise ValueError("\n".join(wrong))
    known = {language: captions(folder, "train", language) for language in (source, target)}
    if len({len(lines) for lines in known.values()}) > 1:
        counts = " and ".join(f"{len(lines):,} in train.{language}" for language, lines in known.items())
        raise ValueError(f"{folder}: lines do not pair up, {counts}; write them anew with `prepare`")
    sides = {language: list(lines) for language, lines in known.items()}
    for model, _, ours, theirs in models:
        sides[ours] += known[ours]
        sides[theirs] += model.translate(known[ours])
    for language, lines in sides.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"diversified.{language}").write_text(text, encoding="utf-8", newline="")


# ---- the scores ----


def scores(outputs: Sequence[str], references: Sequence[str], language: str, raw: bool) -> dict[str, Any]:
    """Both scores of the outputs of a run on captions as they come (raw), or on prepared text.

    references: as they come. BLEU in 0 to 100; reference_tokens: what the first counts the references as."""
    check_lines(outputs, references)
    tokens = prepared(outputs, language) if raw else outputs
    plain = outputs if raw else detokenised(outputs, language)
    gold = prepared(references, language)
    # `force`: sacreBLEU warns of text that looks tokenised, and here it is meant to be.
    by_tokens, by_text = BLEU(tokenize="none", force=True), BLEU(lowercase=not raw)
    return {
        "bleu_tok_lc": round(by_tokens.corpus_score(tokens, [gold]).score, 2),
        "reference_tokens": num_tokens(gold),
        "bleu": round(by_text.corpus_score(plain, [references]).score, 2),
        "signature": str(by_text.get_signature()),
    }


def reads_raw(data: DataConfig, folder: Path, languages: Sequence[str]) -> bool:
    """Whether a run learnt from captions as they come, on both sides; False: from prepared text. What `diversify` adds
    stands below them. Raises ValueError for anything else."""
    raw = [captions(folder, "train", language) for language in languages]
    known = [read_lines(path)[: len(raw[0])] if path else [] for path in (data.source, data.target)]
    if known == raw:
        return True
    if known == [prepared(lines, language) for lines, language in zip(raw, languages, strict=True)]:
        return False
    files = " and ".join(f"train.{language}" for language in languages)
    told = f"are not {files}, both as they come or both as `prepare` writes them, so it is not known what was learnt"
    raise ValueError(f"{data.source} and {data.target} {told}")


def called(recipe: Recipe, run: Path, raw: bool) -> str:
    """The name of the package's recipe with these settings, whatever the seed and the files, or else the run's; of a
    recipe that is meant for the other kind of text, it says so."""

    def settings(one: Recipe) -> Recipe:
        files = dict.fromkeys(("source", "target", "valid_source", "valid_target", "store"))
        data, train = one.data.model_copy(update=files), one.train.model_copy(update={"seed": 1})
        return one.model_copy(update={"data": data, "train": train})

    for name in recipe_names():
        if settings(known := load_recipe(name)) == settings(recipe):
            meant_raw = "$HEADWAY_MULTI30K/" not in str(known.data.source)  # which names prepared text
            return name if raw == meant_raw else f"{name}, {'raw' if raw else 'prepared'} captions"
    return f"{run.resolve().name}, own settings"


def measured(run: Path, data: Path, beam: int) -> Iterator[dict[str, Any]]:
    """A row for each test set."""
    model, [made] = headway.load(run), read_runs([run], lambda folder: {})
    recipe = resolve_paths(load_recipe(run / "recipe.toml"), run)
    source, target = model.languages.source, model.languages.target
    if source is None or target is None or not {source, target} <= {*LANGUAGES}:
        raise ValueError(f"{run}: translates {source} to {target}, and Multi30k has {', '.join(LANGUAGES)}")
    raw = reads_raw(recipe.data, data, (source, target))
    facts = {"recipe": called(recipe, run, raw), "commit": commit(), "seed": recipe.train.seed}
    facts |= {"pair": f"{source}-{target}", "steps": made.step, "beam": beam}
    facts |= {"wall_s": round(made.seconds) if made.seconds is not None else None}
    for test, name in TESTS.items():
        texts = captions(data, name, source)
        outputs = model.translate(texts if raw else prepared(texts, source), beam=beam)
        yield {**facts, "test": test, **scores(outputs, captions(data, name, target), target, raw)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing, adding, scoring = (commands.add_parser(name) for name in ("prepare", "diversify", "score"))
    for one in (writing, adding):
        one.add_argument("folder", type=Path)
    for name in ("--forward", "--backward"):
        adding.add_argument(name, type=Path, nargs="+", metavar="RUN", default=[])
    scoring.add_argument("run", type=Path)
    scoring.add_argument("--beam", type=int, default=5)
    scoring.add_argument("--json", action="store_true", help="one object a line")
    home = os.environ.get("HEADWAY_DATA")
    for one in (writing, scoring):
        one.add_argument("--data", type=Path, default=Path(home, "multi30k") if home else None, required=not home)
    options = parser.parse_args()
    try:
        if options.command == "diversify":
            return diversify(options.folder, options.forward, options.backward)
        data = checked(options.data)
        if options.command == "prepare":
            return prepare(data, options.folder)
        for row in list(measured(options.run, data, options.beam)):  # all of them or none
            told = "{test}: {bleu_tok_lc:.2f} on {reference_tokens:,} lower-cased tokens, {bleu:.2f} ({signature})"
            print(json.dumps(row) if options.json else told.format(**row), flush=True)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
