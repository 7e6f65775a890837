"""A model folder: what it says of itself, and a model loaded from it."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import torch

from headway.allocator import tune_allocator
from headway.build import build
from headway.check import check_model, check_search
from headway.checkpoint import (
    CONFIG,
    WEIGHTS,
    load_weights,
    read_config,
)
from headway.config import (
    SOURCE_ALONE,
    AlignmentConfig,
    InputConfig,
    LanguagesConfig,
    Recipe,
    SearchConfig,
    Seq2SeqConfig,
)
from headway.generate.model import Model
from headway.models.seq2seq import is_invariant
from headway.nn.invariant import apply_batch_invariance
from headway.strict import ConfigError, Fault, validate
from headway.text.tokenizer import TokenizerPair
from headway.train.state import checkpoints

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
    input: InputConfig = SOURCE_ALONE


def describe(folder: Path) -> Description:
    """The config.json of a model folder. Raises ValueError with every fault of it."""
    data = read_config(folder)
    config, faults = validate(Seq2SeqConfig, data.pop("model", None), ("model",))
    search, more = validate(SearchConfig, data.pop("search", {}), ("search",))
    languages, others = validate(LanguagesConfig, data.pop("languages", {}), ("languages",))
    reads, wrong = validate(InputConfig, data.pop("input", {}), ("input",))
    aligned = "alignment" in data
    alignment, unfit = validate(AlignmentConfig, data.pop("alignment"), ("alignment",)) if aligned else (None, [])
    faults += more + others + wrong + unfit
    faults += (check_model(config) if config else []) + (check_search(search) if search else [])
    unknown = data.keys() - {"format", "tokenizer"}
    faults += [Fault((name,), data[name], "no such key; this Headway does not know it") for name in sorted(unknown)]
    if config is None or search is None or languages is None or reads is None or faults:
        raise ConfigError(faults, str(folder / CONFIG))
    return Description(config, languages, search, alignment, reads)


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
    reads = InputConfig(max_len=recipe.data.max_len, context=recipe.data.context, matches=recipe.data.matches)
    return Description(recipe.model, languages, recipe.search, input=reads)
