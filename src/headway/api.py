"""The wiring: the one place that joins text, data, model, training, search and scores. cli and serve call it.

    model = headway.load("runs/en-de");  model.translate(["A dog runs."]);  headway.train("recipe.toml", out="runs/x")

Words for a person go to the logger `headway`; results are returned.
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    WEIGHTS,
    check_writable,
    load_tensors,
    load_weights,
    module_tensors,
    read_config,
    save_model,
    write_files,
    write_json,
)
from headway.config import (
    AlignmentConfig,
    ContextConfig,
    FileTokenizerConfig,
    LanguagesConfig,
    Recipe,
    SearchConfig,
    Seq2SeqConfig,
    check_model,
    check_search,
)
from headway.data import phrasebook
from headway.data.batch import Batch, Loader, Resample
from headway.data.corpus import read_pairs
from headway.data.encode import Encoder
from headway.data.prepare import Corpus
from headway.data.readers import mapped
from headway.data.tally import Tally
from headway.documents.memory import Memory
from headway.documents.terms import Terms
from headway.documents.translate import Job, Report, sections
from headway.evaluate.cost import costs
from headway.evaluate.data_report import DataReport
from headway.evaluate.metrics import bleu_tokenizer, score_bleu, score_corpus
from headway.evaluate.report import Section
from headway.formats.kinds import read_document
from headway.generate.align import choose_head, copied
from headway.generate.decode import score_ids, translate_ids
from headway.generate.lines import Counts, translate_lines
from headway.generate.model import Model, longest_source
from headway.models.seq2seq import Seq2Seq, is_invariant
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
from headway.text.codes import plain
from headway.text.tokenizer import TokenizerPair
from headway.train import loop
from headway.train.average import average as mean_of
from headway.train.log import reporter
from headway.train.lora import apply_lora, merged
from headway.train.plan import Estimate, adaptation_for, measure, recipe_for
from headway.train.state import ESTIMATE, RECIPE, RUN, check_free, checkpoints, differences, open_run, read_facts

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
    alignment: AlignmentConfig | None = None
    context: ContextConfig | None = None


def describe(folder: Path) -> Description:
    """The config.json of a model folder. Raises ValueError with every fault of it."""
    data = read_config(folder)
    config, faults = validate(Seq2SeqConfig, data.pop("model", None), ("model",))
    search, more = validate(SearchConfig, data.pop("search", {}), ("search",))
    languages, others = validate(LanguagesConfig, data.pop("languages", {}), ("languages",))
    optional = {"alignment": AlignmentConfig, "context": ContextConfig}
    told = {name: validate(cls, data.pop(name), (name,)) for name, cls in optional.items() if name in data}
    faults += more + others + [fault for _, wrong in told.values() for fault in wrong]
    faults += (check_model(config) if config else []) + (check_search(search) if search else [])
    unknown = data.keys() - {"format", "tokenizer"}
    faults += [Fault((name,), data[name], "no such key; this Headway does not know it") for name in sorted(unknown)]
    if config is None or search is None or languages is None or faults:
        raise ConfigError(faults, str(folder / CONFIG))
    return Description(config, languages, search, **{name: part for name, (part, _) in told.items()})


def open_model(folder: Path) -> Model:
    """A model folder as a Model whose weights are still to be loaded."""
    known, tokenizers = describe(folder), TokenizerPair.load(folder)
    return Model(build(known.model, tokenizers.sizes), tokenizers, *known)


def as_json(description: Description) -> dict[str, Any]:
    """What `describe` reads."""
    return {name: part.model_dump(mode="json") for name, part in description._asdict().items() if part is not None}


def description(recipe: Recipe) -> Description:
    """What the model that a recipe trains will say of itself."""
    languages = LanguagesConfig(source=recipe.data.source_language, target=recipe.data.target_language)
    num, most = recipe.data.context, recipe.data.max_len
    context = ContextConfig(num=num, max_len=most) if num else None
    return Description(recipe.model, languages, recipe.search, context=context)


# ---- documents ----


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
    **search: Any,
) -> list[Section]:
    """Translate the texts of a document (`headway.formats.kinds`) and write the file with them; returns the report.

    everything: finished translations as well; mark: what the model wrote, as to be reviewed; memory: files of
    translations to reuse; terms: a term list; by_sentence: None: in files of one language, whose texts are paragraphs;
    search: as in `Model.stream`. Raises ValueError with all faults of the files, before anything is translated.
    """
    languages = model.languages
    known = Terms.load(terms) if terms is not None else None
    remembered = Memory.load(memory, languages.source, languages.target) if memory else None
    for reason, count in remembered.skipped.items() if remembered else ():
        log.info("memory: %s texts not used: %s", f"{count:,}", reason)
    with mapped(Path(path)) as data:
        document = read_document(data, str(path), languages.source, languages.target)
        number = sum(1 for _ in document.segments())  # faults are told now
        log.info("%s: %s texts", path, f"{number:,}")
        sentences = not document.bilingual if by_sentence is None else by_sentence
        translate = model.translator(by_sentence=sentences, terms=known, tags=tags, **search)
        report, num = Report(), model.context.num if model.context else 0
        for chunk in Job(translate, everything, mark, remembered, terms=known, context=num)(document, report):
            write(chunk)
        return sections(report, document)


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
    given = given_recipe(recipe, source, target, changes, init)
    if given is not None and init is not None:
        given = with_tokenizer_of(init, given, changes)
    if given is not None and resume and (folder / RUN).exists() and not (folder / RECIPE).exists():
        log.info("%s: the run was stopped before it began; it begins now", folder)
        resume, force = False, True
    chosen = resumed(folder, given, may_shrink(source, changes)) if resume else given
    if chosen is None:
        raise ValueError("nothing to train on: give a recipe, or source and target, or resume a run")
    if chosen.train.lora is not None and init is None and not resume:
        raise ValueError("train.lora: there is no model to adapt; name one with --init MODEL, or leave train.lora out")
    loop.refuse(chosen.train, where, validated=True)
    store = Path(chosen.data.store) if chosen.data.store else store_of(folder)
    check_writable(store)
    data = Corpus(chosen.data, store)
    if resume:
        refuse_other_data(folder, data)
    with nothing_left(store):
        if resume:
            tokenizers = TokenizerPair.load(folder)
        else:
            tokenizers, chosen = data.tokenizers(chosen, shrink=may_shrink(source, changes))
        torch.manual_seed(chosen.train.seed)
        model = build(chosen.model, tokenizers.sizes)
        if init is not None and not resume:
            load_weights(model, init)
        validation = Validation(data, tokenizers, chosen)
        examples, left_out = data.examples(tokenizers, chosen.data.max_len)
        for told in left_out:
            log.warning("%s", told)
        loader = Loader(
            examples,
            chosen.train.batch_tokens,
            chosen.train.seed,
            weights=data.weights(examples),
            resample=resampler(tokenizers, chosen.data.max_len),
        )

    # From here on there is a run: whatever could be wrong with the call has been found.
    with open_run(folder, resume=resume, force=force, device=where, threads=threads) as run:
        say_device(where, chosen.train.dtype)
        begun = bool(run.checkpoints())
        run.pin({"data": data.fingerprint})
        if init is not None or not begun:
            run.pin({"init": str(init) if init is not None else None})
        if init is not None and resume and not begun:
            load_weights(model, init)
        if not resume:
            begin_run(folder, chosen, tokenizers)
        if chosen.data.store is None:
            data.keep_in(folder / STORE)
        hashes = [sha256((folder / name).read_bytes()).hexdigest() for name in tokenizers.files()]
        run.pin({"recipe": pinned(chosen), "tokenizer": hashes[0] if len(hashes) == 1 else hashes})
        log.info(
            "%s pairs to train on, %s to validate; vocabulary %s; %s parameters; %.1f %% padding; %s updates",
            f"{len(examples):,}",
            f"{len(data.valid):,}",
            " and ".join(f"{tokenizer.vocab_size:,}" for tokenizer in dict.fromkeys(tokenizers)),
            f"{sum(parameter.numel() for parameter in model.parameters()):,}",
            100 * loader.padding,
            f"{chosen.train.steps:,}",
        )
        if chosen.train.lora is not None:
            apply_lora(model, chosen.train.lora, chosen.train.seed)
            learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
            log.info("LoRA of rank %d: %s parameters learn", chosen.train.lora.rank, f"{learning:,}")
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
            describe=lambda batch: described(batch, data, tokenizers),
        )
        if chosen.train.lora is not None:
            plain_tensors, model = merged(module_tensors(model)), build(chosen.model, tokenizers.sizes).to(where)
            load_tensors(model, plain_tensors)
        made = description(chosen)._replace(alignment=validation.alignment(model.eval()))
        save_model(folder, model, as_json(made), tokenizers)

    scores: dict[str, Any] = {"run": str(folder), "steps": chosen.train.steps}
    apply_batch_invariance(model)
    scores |= validation.scores(Model(model, tokenizers, *made))
    log.info("next: headway translate %s FILE", quote(str(folder)))
    return scores


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


STORE = "store"
"""The folder of a run where its encoded data lies, if the recipe names no other."""


def store_of(folder: Path) -> Path:
    """Where to encode the data: beside the run's folder, and hidden, as long as there is no run."""
    whole = folder.resolve()
    return folder / STORE if (folder / RUN).exists() else whole.with_name(f".{whole.name}.{STORE}")


def refuse_other_data(folder: Path, data: Corpus) -> None:
    """Before it is encoded anew, since that may take long: data other than what the run began with."""
    known = read_facts(folder).get("data", data.fingerprint)
    if changed := differences(known, data.fingerprint):
        remedy = "Bring back what it began with, or train on the new data into another --out"
        raise ValueError("\n  ".join([f"{folder}: the run began with other data:", *changed]) + f"\n{remedy}")


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """A call that turns out to be wrong leaves no folder where there was none. (One that is killed does, to go on.)"""
    there = folder.exists()
    try:
        yield
    except ValueError:
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def resampler(tokenizers: TokenizerPair, max_len: int) -> Resample | None:
    """Subword sampling as the vocabularies say; a text that would get more than max_len tokens stays as it is."""

    def resample(side: int, ids: list[int], key: tuple[int, ...]) -> list[int]:
        found = tokenizers[side].sample(ids, key) if tokenizers[side].noise else ids
        return found if len(found) <= max_len else ids

    return resample if any(tokenizer.noise for tokenizer in tokenizers) else None


def described(batch: Batch, data: Corpus, tokenizers: TokenizerPair) -> list[list[str]]:
    """Where the pairs of a batch stand, and their texts, for a person."""
    places = [data.parts[part].place(number) for part, number in zip(batch.parts, batch.ids, strict=True)]
    sides = zip(tokenizers, (batch.source.tolist(), batch.target_out.tolist()), strict=True)
    return [list(row) for row in zip(places, *[map(tokenizer.decode, rows) for tokenizer, rows in sides], strict=True)]


def pinned(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run must have in common with its beginning, besides [train], data and environment."""
    bleu = bleu_tokenizer(recipe.data.target_language)
    return as_json(description(recipe)) | {"max_len": recipe.data.max_len, "bleu_tokenizer": bleu}


def begin_run(folder: Path, recipe: Recipe, tokenizers: TokenizerPair) -> None:
    """Write what a run needs to be resumed or averaged."""
    config = {"format": FORMAT, **as_json(description(recipe)), "tokenizer": tokenizers.names}
    write_files(
        folder,
        {
            **tokenizers.files(),
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
    init: str | Path | None = None,
) -> Recipe | None:
    """The recipe that was named, with whole paths, or one made for two files (to train a new model, or to adapt the
    one that is named as `init`), or None where neither was given."""
    if (source is None) != (target is None):
        raise ValueError(f"{source or target}: give both sides, --source and --target")
    if recipe is None:
        if source and target and init is not None:
            known = describe(Path(init))
            return adaptation_for(Path(source), Path(target), changes, known.model, known.languages)
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
    files = TokenizerPair.load(model).files()
    paths = dict(zip(("path", "target_path"), (str((Path(model) / name).absolute()) for name in files), strict=False))
    return recipe.model_copy(update={"tokenizer": FileTokenizerConfig(**paths)})


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


ALIGNED, TELLING = 500, 3
"""Pairs that an alignment is chosen by, and bytes of a piece that was copied and not met by chance."""


class Validation:
    """Loss (nats per target token) on all validation pairs, and BLEU of the real search on the first of them."""

    def __init__(self, data: Corpus, tokenizers: TokenizerPair, recipe: Recipe) -> None:
        self.tokenizers, self.recipe, tally = tokenizers, recipe, Tally()
        self.longest = longest_source(recipe.model, recipe.search)
        self.pairs = [(plain(pair.source), plain(pair.target)) for pair in data.valid]
        encoder = Encoder(tokenizers, recipe.data.max_len, data.valid_tags)
        placed = [(0, pair) for pair in data.valid]
        self.rows = encoder.rows(placed, tally, lambda _, pair: pair.place or f"line {pair.number}")
        for told in tally.words(len(self.pairs), recipe.data.max_len):
            log.warning("validation loss: %s", told)
        self.encoded = [(row.source, row.target) for row in self.rows if row is not None]
        self.with_more = any(encoder.tags) or recipe.data.context > 0
        if not self.encoded:
            files = ", ".join(str(path) for part in data.valid_parts or data.parts for path in part.paths)
            wrong = f"no pair is left to validate on: all have an empty side or more than {recipe.data.max_len} tokens"
            raise ValueError(f"{files}: {wrong} (data.max_len). Name other files, or raise it")

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        logprobs = [value for line in score_ids(model, self.encoded) for value in line]
        translated, references = self.translated(model, VALID_LINES)
        bleu = score_bleu(translated, references, language=self.recipe.data.target_language)
        return {"loss": -sum(logprobs) / len(logprobs), "bleu": bleu}

    def alignment(self, model: Seq2Seq) -> AlignmentConfig:
        """The cross-attention that best finds what was copied in these pairs."""
        pairs = [(source, target) for source, target in self.encoded[:ALIGNED] if source and target]
        ours, theirs = (
            [[self.tokenizers[side].piece_bytes(token).strip() for token in pair[side]] for pair in pairs]
            for side in (0, 1)
        )
        anchors = [copied(source, target, least=TELLING) for source, target in zip(ours, theirs, strict=True)]
        found = choose_head(model, pairs, anchors)
        log.info("alignment by %s, head %d: right for %d of %d copied pieces", *found.head, found.right, found.num)
        return AlignmentConfig(layer=found.head.layer, head=found.head.head)

    def translated(self, model: Any, most: int) -> tuple[list[str], list[str]]:
        """Translations of the first pairs, and their references. With tags or context, of those that were encoded with
        them."""
        search, target = self.recipe.search, self.tokenizers.target
        if not self.with_more:
            sources, references = zip(*self.pairs[:most], strict=True)
            results = translate_lines(
                model,
                self.tokenizers,
                sources,
                search,
                Counts(),
                max_source=self.longest,
                languages=description(self.recipe).languages,
            )
            return [line[0].text for line in results], list(references)
        chosen = [(row, pair[1]) for row, pair in zip(self.rows, self.pairs, strict=True) if row is not None][:most]
        banned = [*target.line_breaking_ids, *target.atom_ids]
        found = translate_ids(model, [row.source for row, _ in chosen], search, banned=banned)
        return [target.decode_line(line[0].tokens)[0] for line in found], [text for _, text in chosen]

    def scores(self, model: Model) -> dict[str, Any]:
        """Those of the finished model on all pairs."""
        if not self.with_more:
            return scored(model, self.pairs)
        translated, references = self.translated(model.module, len(self.pairs))
        return asdict(score_corpus(translated, references, language=model.languages.target))


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
        config, size = model.config, model.tokenizers.sizes
    elif str(what) in PRESETS:
        config, size = parse_model(str(what)), vocab_size or PRESET_VOCABULARY
    else:
        if folder.name == str(what) and folder.suffix != ".toml" and str(what) not in recipe_names():
            raise ValueError(f"{what}: no model folder, preset or recipe; {nearest(what, [*PRESETS, *recipe_names()])}")
        recipe = load_recipe(what)
        config, size = recipe.model, vocab_size or getattr(recipe.tokenizer, "vocab_size", None)
        if size is not None and not getattr(recipe.tokenizer, "shared", True):
            size = size, size
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
