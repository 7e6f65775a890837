"""The wiring: the one place that joins text, data, model, training, search and scores. cli and serve call it.

    model = headway.load("runs/en-de");  model.translate(["A dog runs."]);  headway.train("recipe.toml", out="runs/x")

Words for a person go to the logger `headway`; results are returned.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import torch
from torch import nn

from headway.allocator import tune_allocator
from headway.build import build
from headway.checkpoint import (
    CONFIG,
    FORMAT,
    TOKENIZER,
    WEIGHTS,
    check_writable,
    load_tensors,
    load_weights,
    read_config,
    save_model,
    write_files,
    write_json,
)
from headway.config import (
    FileTokenizerConfig,
    LanguagesConfig,
    Recipe,
    SearchConfig,
    Seq2SeqConfig,
    check_model,
    check_search,
)
from headway.data import phrasebook
from headway.data.batch import Batch, Loader, encode_corpus
from headway.data.corpus import read_pairs
from headway.data.prepare import Corpus
from headway.evaluate.cost import costs
from headway.evaluate.metrics import bleu_tokenizer, score_bleu, score_corpus
from headway.generate.decode import score_ids
from headway.generate.lines import Counts, translate_lines
from headway.generate.model import Model, longest_source
from headway.models.seq2seq import is_invariant
from headway.nn.invariant import apply_batch_invariance
from headway.presets import PRESETS
from headway.recipe import (
    dump_toml,
    literal_path,
    literal_paths,
    load_recipe,
    parse_model,
    parse_recipe,
    recipe_folder,
    recipe_names,
    resolve_paths,
    starter_recipe,
)
from headway.strict import ConfigError, Fault, nearest, validate
from headway.text.tokenizer import Tokenizer
from headway.train import loop
from headway.train.average import average as mean_of
from headway.train.log import reporter
from headway.train.plan import Estimate, measure, recipe_for
from headway.train.state import ESTIMATE, RECIPE, RUN, check_free, checkpoints, differences, open_run

log = logging.getLogger("headway")

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}

MAX_THREADS = 1024


def choose_device(device: str | torch.device | None, threads: int | None = None) -> torch.device:
    """Where to compute: `None` and "auto" take a GPU if there is one. Sets the threads, and tunes the allocator."""
    tune_allocator()
    if threads is not None:
        if not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"threads = {threads}: take 1 to {MAX_THREADS}")
        torch.set_num_threads(threads)
    wanted = str(device or "auto")
    try:
        chosen = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted)
    except RuntimeError:
        raise ValueError(f"device = {wanted!r}: there is no such kind; use auto, cpu or cuda") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device = {wanted!r}: torch sees no GPU here; use cpu, or install a build of torch for yours")
    return chosen


def say_device(device: torch.device, dtype: str) -> None:
    if device.type == "cuda":
        log.info("device %s (%s), %s", device, torch.cuda.get_device_name(device), dtype)
    else:
        log.info("device %s, %d threads, %s", device, torch.get_num_threads(), dtype)


def load(
    path: str | Path,
    device: str | torch.device | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    batch_invariant: bool = True,
) -> Model:
    """A model folder (or the folder of a finished run) as a Model, ready to translate.

    dtype: float32 (default), float64 or bfloat16. batch_invariant: a translation does not depend on what is translated
    beside it, bit for bit; False gives a lone text its lowest latency. Raises ValueError for what does not fit.
    """
    if (dtype or "float32") not in DTYPES:
        raise ValueError(f"dtype = {dtype!r}: use one of {', '.join(DTYPES)}")
    folder, where, number = Path(path), choose_device(device, threads), DTYPES[dtype or "float32"]
    model = open_model(folder)
    if not (folder / WEIGHTS).exists() and checkpoints(folder):
        raise ValueError(
            f"{folder}: this run is not finished. Go on with `headway train --resume --out {folder}`, "
            f"or make a model of its checkpoints with `headway average {folder} -o DIR`"
        )
    load_weights(model.module, folder)
    model.module.to(where, number)
    say_device(where, dtype or "float32")
    if batch_invariant:
        apply_batch_invariance(model.module)
        reach = model.config.position.max_len if model.config.position.kind == "learned" else 3 * INVARIANT_TOKENS
        if number == torch.float32 and not is_invariant(model.module, min(INVARIANT_TOKENS, reach), beside=reach):
            log.warning("on this machine the last bits of a translation may depend on what is translated beside it")
    return model


INVARIANT_TOKENS = 60
"""Length of text at which `load` checks that a row's bits do not depend on its neighbours."""


class Description(NamedTuple):
    """What a model folder says of itself, in config.json."""

    model: Seq2SeqConfig
    languages: LanguagesConfig
    search: SearchConfig


def describe(folder: Path) -> Description:
    """The config.json of a model folder. Raises ValueError with every fault of it."""
    data = read_config(folder)
    config, faults = validate(Seq2SeqConfig, data.pop("model", None), ("model",))
    search, more = validate(SearchConfig, data.pop("search", {}), ("search",))
    languages, others = validate(LanguagesConfig, data.pop("languages", {}), ("languages",))
    faults += more + others + (check_model(config) if config else []) + (check_search(search) if search else [])
    unknown = data.keys() - {"format", "tokenizer"}
    faults += [Fault((name,), data[name], "no such key; this Headway does not know it") for name in sorted(unknown)]
    if config is None or search is None or languages is None or faults:
        raise ConfigError(faults, str(folder / CONFIG))
    return Description(config, languages, search)


def open_model(folder: Path) -> Model:
    """A model folder as a Model whose weights are still to be loaded."""
    config, languages, search = describe(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    return Model(build(config, tokenizer.vocab_size), tokenizer, config, languages, search)


def as_json(description: Description) -> dict[str, Any]:
    """What `describe` reads."""
    return {name: part.model_dump(mode="json") for name, part in description._asdict().items()}


def description(recipe: Recipe) -> Description:
    """What the model that a recipe trains will say of itself."""
    languages = LanguagesConfig(source=recipe.data.source_language, target=recipe.data.target_language)
    return Description(recipe.model, languages, recipe.search)


# ---- training ----

VALID_LINES = 200
"""Lines that BLEU is measured on while training, so that it takes seconds; the loss, and BLEU at the end, see all."""


def train(
    recipe: str | Path | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    source: str | Path | None = None,
    target: str | Path | None = None,
    init: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    device: str | torch.device | None = None,
    threads: int | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train from a recipe (name, TOML file or its data), or from two parallel files, into the run folder `out`.

    set: changes such as {"train.steps": 100}; init: a model to start from; resume: go on with the run in `out`;
    force: begin again over it. Returns the scores on the validation lines. Raises ValueError for what is wrong with
    the call, the recipe or the data, ArithmeticError (`train.loop.TrainingError`) where the numbers blew up,
    KeyboardInterrupt after a Ctrl-C that was saved.
    """
    folder, changes = run_folder(recipe, out, source), dict(set or {})
    if resume and force:
        raise ValueError("resume goes on with a run, force begins it again: take one of the two")
    check_writable(folder)
    if not resume:
        check_free(folder, force)
    where = choose_device(device, threads)
    given = given_recipe(recipe, source, target, changes)
    if given is not None and init is not None:
        given = with_tokenizer_of(init, given, changes)
    if given is not None and resume and (folder / RUN).exists() and not (folder / RECIPE).exists():
        log.info("%s: the run was stopped before it began; it begins now", folder)
        resume, force = False, True
    chosen = resumed(folder, given, may_shrink(source, changes)) if resume else given
    if chosen is None:
        raise ValueError("nothing to train on: give a recipe, or source and target, or resume a run")
    data = Corpus(chosen)
    if resume:
        tokenizer = Tokenizer.load(folder / TOKENIZER)
    else:
        tokenizer, chosen = data.tokenizer(chosen, shrink=may_shrink(source, changes))
    examples, left_out = encode_corpus(data.train, tokenizer, chosen.data.max_len, data.lines)
    for told in left_out.words():
        log.warning("%s", told)
    loader = Loader(examples, chosen.train.batch_tokens, chosen.train.seed)
    validation = Validation(data.valid, tokenizer, chosen)
    loop.refuse(chosen.train, where, validated=True)
    torch.manual_seed(chosen.train.seed)
    model = build(chosen.model, tokenizer.vocab_size)
    if init is not None and not resume:
        load_weights(model, init)

    # From here on there is a run: whatever could be wrong with the call has been found.
    with open_run(folder, resume=resume, force=force, device=where, threads=threads) as run:
        say_device(where, chosen.train.dtype)
        begun = bool(run.checkpoints())
        run.pin({"data": data.fingerprint()})
        if init is not None or not begun:
            run.pin({"init": str(init) if init is not None else None})
        if init is not None and resume and not begun:
            load_weights(model, init)
        if not resume:
            begin_run(folder, chosen, tokenizer)
        run.pin({"recipe": pinned(chosen), "tokenizer": sha256((folder / TOKENIZER).read_bytes()).hexdigest()})
        log.info(
            "%s pairs to train on, %s to validate; vocabulary %s; %s parameters; %.1f %% padding; %s updates",
            f"{len(examples):,}",
            f"{len(data.valid):,}",
            f"{tokenizer.vocab_size:,}",
            f"{sum(parameter.numel() for parameter in model.parameters()):,}",
            100 * loader.padding,
            f"{chosen.train.steps:,}",
        )
        model.to(where)
        log.info("%s", estimated(folder, model, loader, chosen, where).words())
        loop.train(
            model,
            loader,
            chosen.train,
            run,
            validate=validation,
            device=where,
            progress=reporter(quiet),
            describe=lambda batch: [data.pairs[line - 1] for line in batch.ids],
        )
        save_model(folder, model, as_json(description(chosen)), tokenizer)

    scores: dict[str, Any] = {"run": str(folder), "steps": chosen.train.steps}
    apply_batch_invariance(model)
    scores |= scored(Model(model, tokenizer, *description(chosen)), data.valid)
    log.info("next: headway translate %s FILE", quote(str(folder)))
    return scores


def pinned(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run must have in common with its beginning, besides [train], data and environment."""
    bleu = bleu_tokenizer(recipe.data.target_language)
    return as_json(description(recipe)) | {"max_len": recipe.data.max_len, "bleu_tokenizer": bleu}


def begin_run(folder: Path, recipe: Recipe, tokenizer: Tokenizer) -> None:
    """Write what a run needs to be resumed or averaged."""
    config = {"format": FORMAT, **as_json(description(recipe)), "tokenizer": TOKENIZER}
    write_files(
        folder,
        {
            TOKENIZER: tokenizer.save,
            CONFIG: lambda path: write_json(path, config),
            RECIPE: lambda path: path.write_text(dump_toml(literal_paths(recipe)), encoding="utf-8"),
        },
    )


def run_folder(
    recipe: str | Path | Mapping[str, Any] | None, out: str | Path | None, source: str | Path | None
) -> Path:
    """`out`, or a folder under runs/ by the name of the recipe or of the source file."""
    if out is not None:
        return Path(out)
    for named in (recipe, source):
        if isinstance(named, str | Path):
            return Path("runs") / Path(Path(named).name.removesuffix(".gz")).stem
    raise ValueError("name a folder for the run: --out DIR")


def given_recipe(
    recipe: str | Path | Mapping[str, Any] | None,
    source: str | Path | None,
    target: str | Path | None,
    changes: Mapping[str, Any],
) -> Recipe | None:
    """The recipe that was named, with whole paths, or one made for two files, or None where neither was given."""
    if (source is None) != (target is None):
        raise ValueError(f"{source or target}: give both sides, --source and --target")
    if recipe is None:
        if source and target:
            return recipe_for(Path(source), Path(target), changes)
        if changes:
            kept = "a resumed run keeps its settings; repeat its recipe, or leave --set out"
            raise ValueError(f"{', '.join(changes)}: {kept}")
        return None
    if source or target:
        raise ValueError("give either a recipe or two files; a recipe names its files under [data]")
    if isinstance(recipe, Mapping):
        return resolve_paths(parse_recipe(dict(recipe), changes), Path.cwd())
    return resolve_paths(load_recipe(recipe, changes), recipe_folder(recipe))


def with_tokenizer_of(model: str | Path, recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with the tokenizer of a model to start from, whose weights know no other. Says so, or refuses."""
    if asked := [name for name in changes if name.startswith("tokenizer")]:
        raise ValueError(f"{', '.join(asked)}: --init {model} brings its own tokenizer; leave one of the two out")
    log.info("tokenizer: that of %s, in place of the recipe's", model)
    path = (Path(model) / TOKENIZER).absolute()
    return recipe.model_copy(update={"tokenizer": FileTokenizerConfig(path=str(path))})


def may_shrink(source: str | Path | None, changes: Mapping[str, Any]) -> bool:
    """Is the vocabulary one that was planned for two files, which their text may turn out to be too small for?"""
    return source is not None and not any(name.startswith("tokenizer") for name in changes)


def resumed(folder: Path, given: Recipe | None, shrunk: bool) -> Recipe:
    """The recipe that a run began with. Raises ValueError where another one was given."""
    if not (folder / RECIPE).is_file():
        raise ValueError(f"{folder}: there is no run here to resume. Leave out --resume to start one")
    known = resolve_paths(load_recipe(folder / RECIPE), folder)
    if given is not None:
        old, new = known.model_dump(mode="json"), given.model_dump(mode="json")
        if shrunk:
            new["tokenizer"]["vocab_size"] = old["tokenizer"].get("vocab_size")
        if changed := differences(old, new):
            remedy = "Repeat what it began with, or name no recipe; for a new run, name another --out"
            raise ValueError("\n  ".join([f"{folder}: the run began with other settings:", *changed]) + f"\n{remedy}")
    return known


class Validation:
    """Loss (nats per target token) on all validation pairs, and BLEU of the real search on the first of them."""

    def __init__(self, pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, recipe: Recipe) -> None:
        self.tokenizer, self.recipe, self.pairs = tokenizer, recipe, pairs
        self.longest = longest_source(recipe.model, recipe.search)
        examples, left_out = encode_corpus(pairs, tokenizer, recipe.data.max_len)
        for told in left_out.words():
            log.warning("validation loss: %s", told)
        self.encoded = list(zip(examples.sources, examples.targets, strict=True))
        if not self.encoded:
            files = (
                f"{recipe.data.valid_source or recipe.data.source}, {recipe.data.valid_target or recipe.data.target}"
            )
            wrong = f"no pair is left to validate on: all have an empty side or more than {recipe.data.max_len} tokens"
            raise ValueError(f"{files}: {wrong} (data.max_len). Name other files, or raise it")

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        logprobs = [value for line in score_ids(model, self.encoded) for value in line]
        sources, references = zip(*self.pairs[:VALID_LINES], strict=True)
        search = self.recipe.search
        results = translate_lines(model, self.tokenizer, sources, search, Counts(), max_source=self.longest)
        translated = [line[0].text for line in results]
        bleu = score_bleu(translated, references, language=self.recipe.data.target_language)
        return {"loss": -sum(logprobs) / len(logprobs), "bleu": bleu}


def estimated(folder: Path, model: nn.Module, loader: Loader, recipe: Recipe, device: torch.device) -> Estimate:
    """What was measured before step 1; on resume, what was written down then."""
    path = folder / ESTIMATE
    if (folder / "checkpoints").exists() and path.exists():
        try:
            return Estimate(**json.loads(path.read_bytes()))
        except (ValueError, TypeError):  # it only tells a person something: measure again
            log.warning("%s: is damaged; measuring again", path)
    batches: list[Batch] = [batch for _, _, batch in islice(loader.start(), 3)]
    found = measure(model, batches, recipe.train, device)
    write_files(folder, {path.name: lambda file: write_json(file, asdict(found))})
    return found


# ---- scores, costs, averages ----

PRESET_VOCABULARY = 37_000
"""What the paper's tables were counted with; a preset has no tokenizer of its own."""


def scored(model: Model, pairs: Sequence[tuple[str, str]], **search: Any) -> dict[str, Any]:
    translated = model.translate([source for source, _ in pairs], **search)
    references = [target for _, target in pairs]
    return asdict(score_corpus(translated, references, language=model.languages.target))


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
    return scored(model if isinstance(model, Model) else load(model, device, threads=threads), pairs, **search)


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
    """Costs of a model folder, preset or recipe; see `headway.evaluate.cost`. No weights are read."""
    folder, size = Path(what), vocab_size
    if (folder / CONFIG).exists():
        if vocab_size is not None:
            raise ValueError(f"vocab_size = {vocab_size}: {what} has a vocabulary of its own; leave it out")
        model = open_model(folder)
        config, size = model.config, model.tokenizer.vocab_size
    elif str(what) in PRESETS:
        config, size = parse_model(str(what)), vocab_size or PRESET_VOCABULARY
    else:
        if folder.name == str(what) and folder.suffix != ".toml" and str(what) not in recipe_names():
            raise ValueError(f"{what}: no model folder, preset or recipe; {nearest(what, [*PRESETS, *recipe_names()])}")
        recipe = load_recipe(what)
        config, size = recipe.model, vocab_size or getattr(recipe.tokenizer, "vocab_size", None)
    if size is None:
        raise ValueError(f"{what}: its tokenizer is a file; say how many pieces it has with --vocab-size")
    return {"name": str(what), **costs(config, size), "model": config.model_dump(mode="json", exclude_none=True)}


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
        if describe(run).model != known.model or (run / TOKENIZER).read_bytes() != (first / TOKENIZER).read_bytes():
            told = f"{run}: is of another model or tokenizer than {first}"
            raise ValueError(f"{told}; only weights of one can be averaged")
    files = []
    for run in folders:
        kept = [checkpoint.weights for checkpoint in checkpoints(run) if checkpoint.state.regular]
        if last is not None and kept and last > len(kept):
            raise ValueError(f"last = {last}: {run} holds {len(kept)} checkpoints; take fewer")
        files += kept[-(last or len(kept)) :] or [run / WEIGHTS]
    model = open_model(first)
    load_tensors(model.module, mean_of(files), str(first))
    save_model(out, model.module, as_json(known), model.tokenizer)
    return len(files)


def init(folder: str | Path) -> Path:
    """Write a recipe to start from, each key explained, into a folder; returns its path."""
    path = Path(folder) / RECIPE
    check_writable(path.parent)
    if path.exists():
        raise ValueError(f"{path}: is already there; name another folder")
    write_files(path.parent, {path.name: lambda file: file.write_text(starter_recipe(), encoding="utf-8")})
    return path


# ---- the demo ----

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
    """Write the phrasebook, train on it, and judge what was learnt on combinations that training never saw."""
    if pair != "en-de":
        raise ValueError(f"pair = {pair!r}: the phrasebook has en-de")
    data, run = Path(out) / "data", Path(out) / "run"
    check_writable(out)
    files = {f"data.{key}": literal_path(data / name) for key, name in DEMO_FILES.items()}
    changes = {**files, **(set or {})}
    load_recipe("demo", changes)  # a fault in it is said before the work
    if not data.exists():
        whole = data.with_name(f".{data.name}.{os.getpid()}.tmp")
        phrasebook.write(whole)
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
    model = load(run, device, threads=threads)
    pairs = read_pairs(data / "test.en", data / "test.de")
    scores = scored(model, pairs)
    lookup = phrasebook.word_for_word([source for source, _ in pairs], phrasebook.lexicon())
    scores["word_for_word_bleu"] = score_bleu(lookup, [target for _, target in pairs], language="de")
    log.info("\n%s sentences whose combinations of word and place never occurred in training:", f"{len(pairs):,}")
    log.info("%s\nword for word %.2f BLEU\n", scores_text(scores), scores["word_for_word_bleu"])
    shown = [source for source, _ in pairs[:DEMO_SENTENCES]]
    for text, translation in zip(shown, model.translate(shown), strict=True):
        log.info("%s\n  %s", text, translation)
    test, place = [quote(str(data / name)) for name in ("test.en", "test.de")], quote(str(run))
    log.info("\nnext: echo %s | headway translate %s -", quote(shown[0]), place)
    log.info("      headway evaluate %s --source %s --reference %s", place, *test)
    log.info("      headway train --source YOUR.en --target YOUR.de --out runs/yours")
    return scores


DEMO_FILES = {
    "source": "train.en",
    "target": "train.de",
    "valid_source": "valid.en",
    "valid_target": "valid.de",
}
