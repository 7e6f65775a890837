"""A model folder: what it says of itself, and a model loaded from it."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import torch

from headway.allocator import tune_allocator
from headway.architecture import EncoderConfig, LMConfig, Seq2SeqConfig
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
    ChatObjectiveConfig,
    InputConfig,
    LanguagesConfig,
    Recipe,
    SearchConfig,
)
from headway.generate.model import Model
from headway.generate.text_models import LanguageModel, TextEncoder
from headway.models.seq2seq import is_invariant
from headway.nn.invariant import apply_batch_invariance
from headway.recipe import SHAPES
from headway.strict import ConfigError, Fault, nearest, validate
from headway.text.chat import CHATS, Chat
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
) -> Model | LanguageModel | TextEncoder:
    """A model folder (or the folder of a finished run), ready to work: a Model of pairs, a LanguageModel or a
    TextEncoder.

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
        if (
            isinstance(model, Model)
            and number == torch.float32
            and not is_invariant(model.module, min(INVARIANT_TOKENS, reach), beside=reach)
        ):
            log.warning("on this machine the last bits of a translation may depend on what is translated beside it")
    return model


DOES: dict[str, str] = {
    "seq2seq": "translates: headway translate",
    "lm": "writes on behind a prompt: headway generate",
    "encoder": "reads: headway embed, headway label",
}


def load_pair(path: str | Path, *args: Any, **options: Any) -> Model:
    """`load`, of a model that translates. Raises ValueError for another, with what it can do."""
    refuse_other(path, "seq2seq", "translates nothing; name one that was trained on pairs")
    model = load(path, *args, **options)
    assert isinstance(model, Model)
    return model


def load_writer(path: str | Path, *args: Any, **options: Any) -> LanguageModel:
    """`load`, of a language model. Raises ValueError for another, with what it can do."""
    refuse_other(path, "lm", "writes nothing; name a language model")
    model = load(path, *args, **options)
    assert isinstance(model, LanguageModel)
    return model


def load_reader(path: str | Path, *args: Any, **options: Any) -> TextEncoder:
    """`load`, of an encoder. Raises ValueError for another, with what it can do."""
    refuse_other(path, "encoder", "labels nothing; name an encoder with a head")
    model = load(path, *args, **options)
    assert isinstance(model, TextEncoder)
    return model


def refuse_other(path: str | Path, kind: str, lacks: str) -> None:
    found = describe(Path(path)).model.kind if (Path(path) / CONFIG).exists() else kind
    if found != kind:
        raise ValueError(f"{path}: this is a model that {DOES[found]}. It {lacks}")


INVARIANT_TOKENS = 60
"""Length of text at which `load` checks that a row's bits do not depend on its neighbours."""


class Description(NamedTuple):
    """What a model folder says of itself, in config.json. labels: of an encoder's classes or tags; chat: how
    chats are written down for a language model that was tuned on them."""

    model: Seq2SeqConfig | LMConfig | EncoderConfig
    languages: LanguagesConfig
    search: SearchConfig
    alignment: AlignmentConfig | None = None
    input: InputConfig = SOURCE_ALONE
    labels: tuple[str, ...] = ()
    chat: Chat | None = None


def describe(folder: Path) -> Description:
    """The config.json of a model folder. Raises ValueError with every fault of it."""
    data = read_config(folder)
    told = data.pop("model", None)
    kind = told.get("kind", "seq2seq") if isinstance(told, dict) else "seq2seq"
    if kind not in SHAPES:
        raise ConfigError(
            [Fault(("model", "kind"), kind, f"no such kind; {nearest(kind, SHAPES)}")], str(folder / CONFIG)
        )
    config, faults = validate(SHAPES[kind], told, ("model",))
    search, more = validate(SearchConfig, data.pop("search", {}), ("search",))
    languages, others = validate(LanguagesConfig, data.pop("languages", {}), ("languages",))
    reads, wrong = validate(InputConfig, data.pop("input", {}), ("input",))
    aligned = "alignment" in data
    alignment, unfit = validate(AlignmentConfig, data.pop("alignment"), ("alignment",)) if aligned else (None, [])
    chats = "chat" in data
    chat, odd = validate(Chat, data.pop("chat"), ("chat",)) if chats else (None, [])
    faults += more + others + wrong + unfit + odd
    faults += (check_model(config) if config else []) + (check_search(search) if search else [])
    labels = data.pop("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        faults.append(Fault(("labels",), labels, "needs a list of texts"))
    unknown = data.keys() - {"format", "tokenizer"}
    faults += [Fault((name,), data[name], "no such key; this Headway does not know it") for name in sorted(unknown)]
    if config is None or search is None or languages is None or reads is None or faults:
        raise ConfigError(faults, str(folder / CONFIG))
    return Description(config, languages, search, alignment, reads, tuple(labels), chat)


AnyModel = Model | LanguageModel | TextEncoder


def open_model(folder: Path) -> AnyModel:
    """A model folder as what its shape can do, its weights still to be loaded."""
    known, tokenizers = describe(folder), TokenizerPair.load(folder)
    return as_model(build(known.model, tokenizers.sizes), tokenizers, known)


def as_model(module: Any, tokenizers: TokenizerPair, known: Description) -> AnyModel:
    """A module with what its folder says of it."""
    match known.model:
        case Seq2SeqConfig() as config:
            alignment = known.alignment
            return Model(module, tokenizers, config, known.languages, known.search, alignment, known.input)
        case LMConfig():
            found = LanguageModel(module, tokenizers, known.model, known.languages, known.input)
            found.chat = known.chat
            return found
        case EncoderConfig():
            return TextEncoder(module, tokenizers, known.model, known.languages, known.input, known.labels)


def as_json(description: Description) -> dict[str, Any]:
    """What `describe` reads."""
    told = {name: part for name, part in description._asdict().items() if part is not None and part != ()}
    if not isinstance(description.model, Seq2SeqConfig):
        del told["search"]  # nothing is searched
    return {
        name: list(part) if isinstance(part, tuple) else part.model_dump(mode="json") for name, part in told.items()
    }


def description(recipe: Recipe) -> Description:
    """What the model that a recipe trains will say of itself."""
    languages = LanguagesConfig(source=recipe.data.source_language, target=recipe.data.target_language)
    reads = InputConfig(max_len=recipe.data.max_len, context=recipe.data.context, matches=recipe.data.matches)
    labels = dict(recipe.objective).get("names", ())
    chat = CHATS[recipe.objective.chat] if isinstance(recipe.objective, ChatObjectiveConfig) else None
    return Description(recipe.model, languages, recipe.search, input=reads, labels=tuple(labels), chat=chat)
