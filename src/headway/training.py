"""Training, wired: from a recipe and its files to a model folder with its scores."""

import json
import logging
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict
from hashlib import sha256
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import nn

from headway.architecture import Seq2SeqConfig
from headway.build import build
from headway.checkpoint import (
    CONFIG,
    FORMAT,
    check_writable,
    load_tensors,
    load_weights,
    module_tensors,
    save_model,
    write_files,
    write_json,
)
from headway.config import AlignmentConfig, FileTokenizerConfig, Recipe
from headway.data.batch import Batch, Loader, Resample
from headway.data.encode import Encoder
from headway.data.prepare import Corpus
from headway.data.store import Row
from headway.data.tally import Tally
from headway.data.texts import TextLoader
from headway.evaluate.metrics import bleu_tokenizer, score_bleu, score_corpus
from headway.folder import as_json, as_model, choose_device, describe, description, say_device
from headway.generate.align import choose_head, copied
from headway.generate.decode import score_ids, translate_ids
from headway.generate.lines import Counts, translate_lines
from headway.generate.model import Model, longest_source
from headway.generate.parts import Translator
from headway.models.seq2seq import Seq2Seq
from headway.nn.invariant import apply_batch_invariance
from headway.recipe import (
    dump_toml,
    literal_paths,
    load_recipe,
    parse_recipe,
    recipe_folder,
    resolve_paths,
)
from headway.text.codes import plain
from headway.text.tokenizer import TokenizerPair
from headway.text_training import TextData, TextValidation, load_body
from headway.train import loop
from headway.train.log import reporter
from headway.train.lora import apply_lora, merged
from headway.train.objective import Loss, build_loss
from headway.train.plan import Estimate, adaptation_for, measure, recipe_for
from headway.train.state import ESTIMATE, RECIPE, RUN, STORE, check_free, differences, open_run, read_facts

log = logging.getLogger("headway")


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
    store = Path(chosen.data.store) if chosen.data.store else folder / STORE
    check_writable(store)
    of_texts = chosen.objective.kind != "translate"
    data = TextData(chosen) if of_texts else Corpus(chosen.data, store)
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
            start_from(model, init, chosen)
        if isinstance(data, TextData):
            validation, loader = TextValidation(data, tokenizers, chosen), data.loader(tokenizers, chosen)
        else:
            validation, loader = Validation(data, tokenizers, chosen), pair_loader(data, tokenizers, chosen)

    # From here on there is a run: whatever could be wrong with the call has been found.
    with open_run(folder, resume=resume, force=force, device=where, threads=threads) as run:
        say_device(where, chosen.train.dtype)
        begun = bool(run.checkpoints())
        run.pin({"data": data.fingerprint})
        if init is not None or not begun:
            run.pin({"init": str(init) if init is not None else None})
        if init is not None and resume and not begun:
            start_from(model, init, chosen)
        if not resume:
            begin_run(folder, chosen, tokenizers)
        if chosen.data.store is None and isinstance(data, Corpus):
            data.forget_others()
        hashes = [sha256((folder / name).read_bytes()).hexdigest() for name in tokenizers.files()]
        run.pin({"recipe": pinned(chosen), "tokenizer": hashes[0] if len(hashes) == 1 else hashes})
        log.info(
            "%s %s to train on, %s to validate; vocabulary %s; %s parameters; %.1f %% padding; %s updates",
            f"{len(loader):,}",
            "rows of texts" if of_texts else "pairs",
            f"{len(validation):,}",
            " and ".join(f"{tokenizer.vocab_size:,}" for tokenizer in dict.fromkeys(tokenizers)),
            f"{sum(parameter.numel() for parameter in model.parameters()):,}",
            100 * loader.padding,
            f"{chosen.train.steps:,}",
        )
        if chosen.train.lora is not None:
            assert isinstance(model, Seq2Seq), "check keeps LoRA to pairs"
            apply_lora(model, chosen.train.lora, chosen.train.seed)
            learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
            log.info("LoRA of rank %d: %s parameters learn", chosen.train.lora.rank, f"{learning:,}")
        model.to(where)
        loss = build_loss(chosen.model, chosen.train, chosen.objective.kind)
        log.info("%s", estimated(folder, model, loader, chosen, loss, where).words())
        loop.train(
            model,
            loader,
            chosen.train,
            run,
            loss=loss,
            validate=validation,
            device=where,
            progress=reporter(quiet),
            describe=lambda batch: described(batch, data, tokenizers),
            sample=validation.samples,
        )
        if chosen.train.lora is not None:
            plain_tensors, model = merged(module_tensors(model)), build(chosen.model, tokenizers.sizes).to(where)
            load_tensors(model, plain_tensors)
        made = description(chosen)
        if isinstance(validation, Validation):
            assert isinstance(model, Seq2Seq)
            made = made._replace(alignment=validation.alignment(model.eval()))
        save_model(folder, model, as_json(made), tokenizers)

    scores: dict[str, Any] = {"run": str(folder), "steps": chosen.train.steps}
    if isinstance(validation, TextValidation):
        return scores | validation(model.eval(), chosen.train.steps) | next_step(chosen, folder)
    apply_batch_invariance(model)
    found = as_model(model, tokenizers, made)
    assert isinstance(found, Model)
    scores |= validation.scores(found)
    log.info("next: %s translate %s FILE", this_command(), quote(str(folder)))
    return scores


def next_step(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Says what the model can be used for; nothing to add to the scores."""
    does = {"lm": "generate %s PROMPT", "encoder": "embed %s FILE -o vectors.npy"}.get(recipe.model.kind)
    if recipe.objective.kind in ("classes", "number", "tags", "answers"):
        does = "label %s FILE" + (" --second FILE" if recipe.data.second else "")
    command = does or "train RECIPE --init %s"
    log.info("next: %s %s", this_command(), command % quote(str(folder)))
    return {}


def start_from(model: nn.Module, init: str | Path, recipe: Recipe) -> None:
    """The weights of another model; an encoder's head may be another."""
    if recipe.model.kind != "encoder":
        load_weights(model, init)
    elif fresh := load_body(model, init):
        log.info("%s: has no such head; new: %s", init, ", ".join(fresh))


def pair_loader(data: Corpus, tokenizers: TokenizerPair, recipe: Recipe) -> Loader:
    """Batches of the training pairs; says what was left out."""
    examples, left_out = data.examples(tokenizers, recipe.data.max_len)
    for told in left_out:
        log.warning("%s", told)
    return Loader(
        examples,
        recipe.train.batch_tokens,
        recipe.train.seed,
        weights=data.weights(examples),
        resample=resampler(tokenizers, recipe.data.max_len),
    )


def this_command() -> str:
    """How a person may call `headway` from where they are, which also holds where an environment was made and not
    entered."""
    beside = Path(sys.executable).with_name("headway")
    return "headway" if shutil.which("headway") or not beside.exists() else quote(str(beside))


def refuse_other_data(folder: Path, data: Corpus | TextData) -> None:
    """Before it is encoded anew, since that may take long: data other than what the run began with."""
    known = read_facts(folder).get("data", data.fingerprint)
    if changed := differences(known, data.fingerprint):
        remedy = "Bring back what it began with, or train on the new data into another --out"
        raise ValueError("\n  ".join([f"{folder}: the run began with other data:", *changed]) + f"\n{remedy}")


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """A call that turns out to be wrong leaves no folder where there was none. (One that is killed does, to go on.)"""
    new = next((path for path in (*reversed(folder.parents), folder) if not path.exists()), None)
    try:
        yield
    except ValueError:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)
        raise


def resampler(tokenizers: TokenizerPair, max_len: int) -> Resample | None:
    """Subword sampling as the vocabularies say; a text that would get more than max_len tokens stays as it is."""

    def resample(side: int, ids: list[int], key: tuple[int, ...]) -> list[int]:
        found = tokenizers[side].sample(ids, key) if tokenizers[side].noise else ids
        return found if len(found) <= max_len else ids

    return resample if any(tokenizer.noise for tokenizer in tokenizers) else None


def described(batch: Batch, data: Corpus | TextData, tokenizers: TokenizerPair) -> list[list[str]]:
    """Where the pairs of a batch stand, and their texts, for a person; of texts, what was read."""
    if isinstance(data, TextData):
        rows = batch.inputs["tokens" if "tokens" in batch.inputs else "source"].tolist()
        return [[f"row {number}", tokenizers.target.decode(row)] for number, row in zip(batch.ids, rows, strict=False)]
    places = [data.parts[part].place(number) for part, number in zip(batch.parts, batch.ids, strict=True)]
    sides = zip(tokenizers, (batch.inputs["source"].tolist(), batch.targets.tolist()), strict=True)
    return [list(row) for row in zip(places, *[map(tokenizer.decode, rows) for tokenizer, rows in sides], strict=True)]


def pinned(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run must have in common with its beginning, besides [train], data and environment."""
    bleu = bleu_tokenizer(recipe.data.target_language)
    return as_json(description(recipe)) | {"bleu_tokenizer": bleu}


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
            if not isinstance(known.model, Seq2SeqConfig):
                raise ValueError(f"{init}: is no model of pairs, and two files are pairs; name one that translates")
            return adaptation_for(Path(source), Path(target), changes, known.model, known.languages, known.input)
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


SAMPLES = 5
"""Validation lines whose translations are kept at each validation, to be looked at over time."""

ALIGNED, TELLING = 500, 3
"""Pairs that an alignment is chosen by, and bytes of a piece that was copied and not met by chance."""


class Validation:
    """Loss (nats per target token) on all validation pairs, each with its match as in training, and BLEU of the real
    search on the first of them, without."""

    def __init__(self, data: Corpus, tokenizers: TokenizerPair, recipe: Recipe) -> None:
        assert isinstance(recipe.model, Seq2SeqConfig), "check keeps pairs to models of pairs"
        self.data, self.tokenizers, self.recipe, tally = data, tokenizers, recipe, deepcopy(data.valid_tally)
        self.longest = longest_source(recipe.model, recipe.search, recipe.data.max_len)
        self.pairs = [(plain(pair.source), plain(pair.target)) for pair in data.valid]
        rows = self._rows(tally, similar=data.similar)
        words = tally.words(len(self.pairs) + data.valid_tally.total, recipe.data.max_len)
        self.encoded = [(row.source, row.target) for row in rows if row is not None]
        self.with_more = any(data.valid_tags) or recipe.data.context > 0
        if not self.encoded:
            files = ", ".join(str(path) for part in data.valid_parts or data.parts for path in part.paths)
            told = "\n  ".join(["no pair is left to validate on", *(words or ["there is none in them"])])
            remedy = ", or raise data.max_len" if "too_long" in tally.counts else ""
            raise ValueError(f"{files}: {told}\nName other files{remedy}")
        for told in words:
            log.warning("validation loss: %s", told)

    def __len__(self) -> int:
        return len(self.pairs)

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        logprobs = [value for line in score_ids(model, self.encoded) for value in line]
        translated, pairs = self.translated(model, VALID_LINES)
        bleu = score_bleu(translated, [target for _, target in pairs], language=self.recipe.data.target_language)
        return {"loss": -sum(logprobs) / len(logprobs), "bleu": bleu}

    def samples(self, model: Any) -> list[dict[str, str]]:
        """What the model says of the first few, for samples.jsonl."""
        rows = zip(*self.translated(model, SAMPLES), strict=True)
        return [{"source": source, "reference": target, "output": said} for said, (source, target) in rows]

    def _rows(self, tally: Tally | None = None, **options: Any) -> list[Row | None]:
        """The pairs as training reads them; without a match, if none is asked for."""
        encoder = Encoder(self.tokenizers, self.recipe.data.max_len, self.data.valid_tags, **options)
        placed = [(0, pair) for pair in self.data.valid]
        return encoder.rows(placed, tally or Tally(), lambda _, pair: pair.place or f"line {pair.number}")

    def alignment(self, model: Seq2Seq) -> AlignmentConfig | None:
        """The cross-attention that best finds what was copied in these pairs; None where the model has none."""
        rows = self._rows()[:ALIGNED]  # a match would have copies too
        pairs = [(row.source, row.target) for row in rows if row is not None and row.source and row.target]
        ours, theirs = (
            [[self.tokenizers[side].piece_bytes(token).strip() for token in pair[side]] for pair in pairs]
            for side in (0, 1)
        )
        anchors = [copied(source, target, least=TELLING) for source, target in zip(ours, theirs, strict=True)]
        found = choose_head(model, pairs, anchors)
        if found is None:
            log.info("no alignment: this decoder looks at no source while it writes, so codes will find no word")
            return None
        log.info("alignment by %s, head %d: right for %d of %d copied pieces", *found.head, found.right, found.num)
        return AlignmentConfig(layer=found.head.layer, head=found.head.head)

    def translated(self, model: Any, most: int) -> tuple[list[str], list[tuple[str, str]]]:
        """Translations of the first pairs, and these. With tags or context, of those that were encoded with
        them."""
        search, target = self.recipe.search, self.tokenizers.target
        if not self.with_more:
            pairs = self.pairs[:most]
            languages = self.recipe.data.source_language, self.recipe.data.target_language
            translator = Translator(model, self.tokenizers, search, self.longest, languages)
            sources = [source for source, _ in pairs]
            return [line[0].text for line in translate_lines(translator, sources, Counts())], pairs
        rows = zip(self._rows(), self.pairs, strict=True)
        chosen = [(row, pair) for row, pair in rows if row is not None][:most]
        banned = [*target.line_breaking_ids, *target.atom_ids]
        found = translate_ids(model, [row.source for row, _ in chosen], search, banned=banned)
        return [target.decode_line(line[0].tokens)[0] for line in found], [pair for _, pair in chosen]

    def scores(self, model: Model) -> dict[str, Any]:
        """Those of the finished model on all pairs."""
        if not self.with_more:
            return scored(model, self.pairs)
        translated, pairs = self.translated(model.module, len(self.pairs))
        return asdict(score_corpus(translated, [target for _, target in pairs], language=model.languages.target))


def estimated(
    folder: Path, model: nn.Module, loader: Loader | TextLoader, recipe: Recipe, loss: Loss, device: torch.device
) -> Estimate:
    """What was measured before step 1; on resume, what was written down then."""
    path = folder / ESTIMATE
    if (folder / "checkpoints").exists() and path.exists():
        try:
            return Estimate(**json.loads(path.read_bytes()))
        except (ValueError, TypeError):  # it only tells a person something: measure again
            log.warning("%s: is damaged; measuring again", path)
    batches: list[Batch] = [batch for _, _, batch in islice(loader.start(), 3)]
    found = measure(model, batches, recipe.train, loss, device)
    write_files(folder, {path.name: lambda file: write_json(file, asdict(found))})
    return found


def scored(model: Model, pairs: Sequence[tuple[str, str]], **search: Any) -> dict[str, Any]:
    translated = model.translate([source for source, _ in pairs], **search)
    references = [target for _, target in pairs]
    return asdict(score_corpus(translated, references, language=model.languages.target))
