"""What cli and serve call: `load` and `train` (of `headway.folder` and `headway.training`), and what is made with them.

    model = headway.load("runs/en-de");  model.translate(["A dog runs."]);  headway.train("recipe.toml", out="runs/x")

Words for a person go to the logger `headway`; results are returned.
"""

import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from headway.checkpoint import (
    CONFIG,
    WEIGHTS,
    check_writable,
    load_tensors,
    save_model,
    write_files,
)
from headway.config import DataConfig, LanguagesConfig, Recipe, language_fault
from headway.data import phrasebook
from headway.data.corpus import read_pairs
from headway.data.memory import Memory
from headway.data.prepare import Corpus
from headway.data.readers import mapped
from headway.documents.terms import Terms
from headway.documents.translate import Job, Report, sections
from headway.evaluate.compare import compare_outputs
from headway.evaluate.cost import costs
from headway.evaluate.data_report import DataReport
from headway.evaluate.explain import explain as explain
from headway.evaluate.explain import page as explain_page
from headway.evaluate.metrics import score_bleu
from headway.evaluate.report import Section, page
from headway.evaluate.run_report import read_runs
from headway.evaluate.run_report import report as report_of
from headway.evaluate.run_report import tables as tables_of
from headway.folder import as_json, describe, open_model
from headway.folder import load as load
from headway.folder import load_pair as load_pair
from headway.folder import load_reader as load_reader
from headway.folder import load_writer as load_writer
from headway.formats.kinds import read_document
from headway.formats.lines import Lines
from headway.generate.model import Model
from headway.presets import PRESETS
from headway.published import VOCABULARIES
from headway.recipe import (
    literal_path,
    load_recipe,
    parse_model,
    recipe_folder,
    recipe_names,
    resolve_paths,
    starter_recipe,
)
from headway.strict import nearest
from headway.text.segment import language_code
from headway.text.tokenizer import TokenizerPair
from headway.train.average import average as mean_of
from headway.train.lora import merged
from headway.train.state import RECIPE, RUN, checkpoints, read_facts
from headway.training import given_recipe, nothing_left, scored, this_command
from headway.training import train as train

log = logging.getLogger("headway")


def translate_document(
    model: Model,
    path: str | Path,
    write: Callable[[bytes], object],
    *,
    everything: bool = False,
    mark: bool = True,
    memory: Sequence[str | Path] = (),
    terms: str | Path | None = None,
    by_sentence: bool | None = None,
    tags: Sequence[str] = (),
    name: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    **search: Any,
) -> list[Section]:
    """Translate the texts of a document (`headway.formats.kinds`) and write the file with them; returns the report.

    everything: finished translations as well; mark: what the model wrote, as to be reviewed; memory: files of
    translations to reuse; terms: a term list; by_sentence: None: in files of one language, whose texts are paragraphs,
    but not in lines of text; name: what to call a stream, which may be empty; source_language, target_language: of the
    files, where these hold several that are the model's (`en-US`, `en-GB`); search: as in `Model.stream`. Raises
    ValueError with all faults of the files, before anything is translated.
    """
    languages = languages_of(model, source_language, target_language)
    known = Terms.load(terms) if terms is not None else None
    remembered = Memory.load(memory, languages.source, languages.target) if memory else None
    for reason, count in remembered.skipped.items() if remembered else ():
        log.info("memory: %s texts not used: %s", f"{count:,}", reason)
    if remembered is not None and not len(remembered):
        told = "memory: %s: no finished translation from %s to %s is in it. Do the files name other languages?"
        log.warning(told, ", ".join(map(str, memory)), languages.source, languages.target)
    with mapped(Path(path), empty=name is not None) as data:
        document = read_document(data, name or str(path), languages.source, languages.target)
        number = sum(1 for _ in document.segments())  # faults are told now
        log.info("%s: %s texts", name or path, f"{number:,}")
        paragraphs = not document.bilingual and not isinstance(document, Lines)
        sentences = paragraphs if by_sentence is None else by_sentence
        translate = model.translator(by_sentence=sentences, terms=known, memory=remembered, tags=tags, **search)
        report = Report()
        job = Job(translate, everything, mark, remembered, terms=known, context=model.input.context)
        for chunk in job(document, report):
            write(chunk)
        return sections(report, document)


def languages_of(model: Model, source: str | None, target: str | None) -> LanguagesConfig:
    """The model's languages, or those asked for, which must be variants of them. Raises ValueError with all faults."""
    asked, own = {"source": source, "target": target}, model.languages.model_dump()
    faults = [
        f"{side} language {given!r}: {fault}"
        for side, given in asked.items()
        if given and (fault := language_fault(given))
    ] or [
        f"{side} language {given}: the model was trained for {own[side]}"
        for side, given in asked.items()
        if given and own[side] and language_code(given) != language_code(own[side])
    ]
    if faults:
        raise ValueError("\n".join(faults))
    return LanguagesConfig(**{side: given or own[side] for side, given in asked.items()})


def data_report(recipe: str | Path | Mapping[str, Any], *, set: Mapping[str, Any] | None = None) -> list[Section]:
    """What the data of a recipe (name, TOML file or its data) is like, as `headway.evaluate.data_report` tells it.

    The tokenizer is trained or read as training does it. What is prepared goes into the store that the recipe names, or
    is thrown away. Raises ValueError for what is wrong with the recipe or its files.
    """
    given = given_recipe(recipe, None, None, set or {})
    assert given is not None
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        store = Path(given.data.store or folder)
        check_writable(store)
        with nothing_left(store):
            data = Corpus(given.data, store)
            tokenizers, given = data.tokenizers(given, shrink=False)
            return DataReport(data, tokenizers).sections(given.train.batch_tokens)


def run_report(runs: Sequence[str | Path]) -> list[Section]:
    """Tables, curves over the updates and samples over time of run folders, as `headway.evaluate.run_report` reads
    them. Raises ValueError for every folder that is no run, or is named twice."""
    return report_of(read_runs(runs, costs_of))


def compare(
    what: Sequence[str | Path],
    *,
    reference: str | Path | None = None,
    source: str | Path | None = None,
    target_language: str | None = None,
) -> list[Section]:
    """Run folders, as tables; or files of translations of one text, line by line: scores against a reference, whether
    they differ from the first one's by more than chance, and the lines where they differ most
    (`headway.evaluate.compare`). Raises ValueError for all that does not fit together."""
    if target_language and (fault := language_fault(target_language)):
        raise ValueError(f"target language {target_language!r}: {fault}")
    folders = [str(one) for one in what if Path(one).is_dir()]
    if len(folders) not in (0, len(what)):
        raise ValueError(f"{', '.join(folders)}: a folder. Compare runs, or files of translations, not both at once")
    if not folders:
        return compare_outputs(what, reference, source, target_language)
    if reference or source or target_language:
        told = "a reference, a source and a target language are for files of translations, and these are runs"
        raise ValueError(f"{told}. To score a run, translate with it and compare the files")
    return tables_of(read_runs(what, costs_of))


def costs_of(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).exists():
        raise ValueError(f"there is no {CONFIG}")
    return show(folder)


PRESET_VOCABULARY = 37_000
"""What the paper's tables were counted with; a preset has no tokenizer of its own, a published shape a vocabulary."""


def evaluate(
    model: str | Path | Model,
    source: str | Path,
    reference: str | Path,
    *,
    device: str | torch.device | None = None,
    threads: int | None = None,
    **search: Any,
) -> dict[str, Any]:
    """Translate a file and score it: the fields of `headway.evaluate.metrics.Scores`; `search` as in `Model.stream`."""
    if isinstance(model, Model) and (device is not None or threads is not None):
        raise ValueError("device and threads are those of the loaded model; give them to load")
    pairs = read_pairs(source, reference)
    return scored(model if isinstance(model, Model) else load_pair(model, device, threads=threads), pairs, **search)


def scores_text(scores: Mapping[str, Any]) -> str:
    return "\n".join(
        [
            f"BLEU          {scores['bleu']:.2f}  ({scores['bleu_signature']})",
            f"chrF          {scores['chrf']:.2f}  ({scores['chrf_signature']})",
            f"TER           {scores['ter']:.2f}  ({scores['ter_signature']})",
            f"length ratio  {scores['length_ratio']:.3f}",
            f"exact match   {100 * scores['exact_match']:.1f} % of {scores['num_lines']:,} lines",
        ]
    )


def show(what: str | Path, vocab_size: int | None = None) -> dict[str, Any]:
    """Costs of a model folder, preset or recipe, of whose training too; see `headway.evaluate.cost`. No weights are
    read."""
    folder, size, training = Path(what), vocab_size, None
    if (folder / CONFIG).exists():
        if vocab_size is not None:
            raise ValueError(f"vocab_size = {vocab_size}: {what} has a vocabulary of its own; leave it out")
        model = open_model(folder)
        config, size = model.config, model.tokenizers.sizes
    elif str(what) in PRESETS:
        config, size = parse_model(str(what)), vocab_size or VOCABULARIES.get(str(what), PRESET_VOCABULARY)
    else:
        if folder.name == str(what) and folder.suffix != ".toml" and str(what) not in recipe_names():
            raise ValueError(f"{what}: no model folder, preset or recipe; {nearest(what, [*PRESETS, *recipe_names()])}")
        recipe = load_recipe(what)
        config, training = recipe.model, recipe.train
        size = vocab_size or getattr(recipe.tokenizer, "vocab_size", None)
        if size is not None and not getattr(recipe.tokenizer, "shared", True):
            size = size, size
        size = size or named_sizes(recipe, what)
    shown = costs(config, size, training)
    return {"name": str(what), **shown, "model": config.model_dump(mode="json", exclude_none=True)}


def named_sizes(recipe: Recipe, what: str | Path) -> int | tuple[int, int]:
    """The sizes of the vocabularies that a recipe names as files. Raises ValueError where they cannot be read."""
    alone = recipe.model_copy(update={"data": DataConfig()})  # whose files may be elsewhere
    try:
        return TokenizerPair.train((), (), resolve_paths(alone, recipe_folder(what)).tokenizer).sizes
    except ValueError as error:
        raise ValueError(f"{error}\nOr say how many pieces the tokenizer of {what} has with --vocab-size") from error


def average(runs: Sequence[str | Path], out: str | Path, last: int | None = None, force: bool = False) -> int:
    """The mean of the checkpoints of runs (the newest `last` of each) and of models, as a model; returns how many."""
    out = Path(out)
    check_writable(out)
    if (out / CONFIG).exists() and not force:
        raise ValueError(f"{out}: a model is already there. Use --force to overwrite it, or name another folder")
    if last is not None and last < 1:
        raise ValueError(f"last = {last}: take 1 or more")
    folders = [Path(run) for run in runs]
    first, known = folders[0], describe(folders[0])
    for run in folders[1:]:
        if describe(run).model != known.model or vocabularies(run) != vocabularies(first):
            told = f"{run}: is of another model or tokenizer than {first}"
            raise ValueError(f"{told}; only weights of one can be averaged")
    thin = [str(run) for run in folders if checkpoints(run) and read_facts(run).get("train", {}).get("lora")]
    if thin and len(folders) > 1:
        told = f"{', '.join(thin)}: its checkpoints hold matrices of LoRA, which have a mean within one run only"
        raise ValueError(f"{told}; average each run alone, then the models")
    files = []
    for run in folders:
        kept = [checkpoint.weights for checkpoint in checkpoints(run) if checkpoint.state.regular]
        if last is not None and kept and last > len(kept):
            raise ValueError(f"last = {last}: {run} holds {len(kept)} checkpoints; take fewer")
        files += kept[-(last or len(kept)) :] or [run / WEIGHTS]
    model = open_model(first)
    load_tensors(model.module, merged(mean_of(files)), str(first))
    save_model(out, model.module, as_json(known), model.tokenizers)
    return len(files)


def vocabularies(folder: Path) -> list[str]:
    return [tokenizer.to_json() for tokenizer in TokenizerPair.load(folder)]


def init(folder: str | Path) -> Path:
    """Write a recipe to start from, each key explained, into a folder; returns its path."""
    path = Path(folder) / RECIPE
    check_writable(path.parent)
    if path.exists():
        raise ValueError(f"{path}: is already there; name another folder")
    write_files(path.parent, {path.name: lambda file: file.write_text(starter_recipe(), encoding="utf-8")})
    return path


DEMO_SENTENCES = 6


def demo(
    pair: str = "en-de",
    out: str | Path = "demo-en-de",
    *,
    set: Mapping[str, Any] | None = None,
    device: str | torch.device | None = None,
    threads: int | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Write the phrasebook, train on it, judge what was learnt on combinations that training never saw, and draw it."""
    source, _, target = pair.partition("-")
    languages = phrasebook.check((source, target))
    data, run = Path(out) / "data", Path(out) / "run"
    check_writable(out)
    files = {
        f"data.{kind}{side}": literal_path(data / f"{name}.{language}")
        for kind, name in (("", "train"), ("valid_", "valid"))
        for side, language in zip(("source", "target"), languages, strict=True)
    }
    told = {"data.source_language": source, "data.target_language": target}
    changes = {**files, **told, **(set or {})}
    load_recipe("demo", changes)  # a fault in it is said before the work
    if not data.exists():
        whole = data.with_name(f".{data.name}.{os.getpid()}.tmp")
        phrasebook.write(whole, languages=languages)
        whole.replace(data)
    log.info("phrasebook: %s", data)
    train(
        "demo",
        run,
        set=changes,
        resume=(run / RUN).exists(),
        device=device,
        threads=threads,
        quiet=quiet,
    )
    model = load_pair(run, device, threads=threads)
    tests = [data / f"test.{language}" for language in languages]
    pairs = read_pairs(*tests)
    scores = scored(model, pairs)
    lookup = phrasebook.word_for_word([text for text, _ in pairs], phrasebook.lexicon(languages), languages)
    scores["word_for_word_bleu"] = score_bleu(lookup, [text for _, text in pairs], language=target)
    log.info("\n%s sentences whose combinations of word and place never occurred in training:", f"{len(pairs):,}")
    log.info("%s\nword for word %.2f BLEU\n", scores_text(scores), scores["word_for_word_bleu"])
    shown = [text for text, _ in pairs[:DEMO_SENTENCES]]
    for text, translation in zip(shown, model.translate(shown), strict=True):
        log.info("%s\n  %s", text, translation)
    pages = {
        "explain.html": explain_page(explain(model, shown[0])),
        "report.html": page(f"Demo, {pair}", run_report([run])),
    }
    texts = {name: partial(Path.write_text, data=text, encoding="utf-8") for name, text in pages.items()}
    write_files(Path(out), texts)
    log.info("\nlook inside, in a browser: %s", ", ".join(str(Path(out) / name) for name in pages))
    test, place = [quote(str(path)) for path in tests], quote(str(run))
    command = this_command()
    log.info("\nnext: echo %s | %s translate %s -", quote(shown[0]), command, place)
    log.info("      %s evaluate %s --source %s --reference %s", command, place, *test)
    log.info("      %s train --source YOUR.%s --target YOUR.%s --out runs/yours", command, *languages)
    return scores
