"""The wiring: the one place that joins text, data, model, training, search and scores. cli and serve call it.

    model = headway.load("runs/en-de");  model.translate(["A dog runs."]);  headway.train("recipe.toml", out="runs/x")

Words for a person go to the logger `headway`; results are returned.
"""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import nn

from headway.build import build
from headway.checkpoint import check_writable, load_weights, read_config, save_model
from headway.config import GNMTConfig, SearchConfig, Seq2SeqConfig
from headway.data.corpus import read_lines, read_pairs
from headway.evaluate.metrics import score_corpus
from headway.generate.decode import score_ids
from headway.generate.lines import Counts, Result, translate_lines
from headway.nn.invariant import apply_batch_invariance
from headway.text.tokenizer import Tokenizer

log = logging.getLogger("headway")

MAX_SOURCE = 512
"""A source of more tokens is translated in pieces: models of sentences know nothing about longer ones."""

CHUNK_LINES, CHUNK_CHARACTERS = 2048, 2_000_000
"""Most lines and characters that are read ahead from a stream, so that memory is bounded whatever its length."""

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def choose_device(device: str | torch.device | None, threads: int | None = None) -> torch.device:
    """`None` and "auto" take a GPU if there is one. Says what was chosen."""
    if threads is not None:
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


@dataclass(frozen=True)
class Score:
    """The model's log-probability (nats) of a target: of the whole, and of each token, the end of sentence last."""

    logprob: float
    tokens: list[str]
    token_logprobs: list[float]


class Model:
    """A loaded model: `module` (source (B, S), target (B, T) -> logits (B, T, V)), `tokenizer` and `config`."""

    def __init__(self, module: nn.Module, tokenizer: Tokenizer, config: Seq2SeqConfig, languages: Mapping[str, Any]):
        self.module, self.tokenizer, self.config, self.languages = module.eval(), tokenizer, config, languages

    @overload
    def translate(self, texts: Sequence[str], beam: int = 4, *, n_best: Literal[1] = 1, **search: Any) -> list[str]: ...
    @overload
    def translate(self, texts: Sequence[str], beam: int = 4, *, n_best: int, **search: Any) -> list[list[str]]: ...
    def translate(
        self, texts: Sequence[str], beam: int = 4, *, n_best: int = 1, **search: Any
    ) -> list[str] | list[list[str]]:
        """One translation for each text, in order; with n_best > 1 a list of them, best first. `search` as for `stream`."""
        if isinstance(texts, str):
            raise ValueError("texts is one string: give a list of them, such as model.translate([text])")
        results = self.stream(texts, beam=beam, n_best=n_best, **search)
        if n_best == 1:
            return [line[0].text for line in results]
        return [[result.text for result in line] for line in results]

    def stream(
        self,
        lines: Iterable[str],
        *,
        beam: int = 4,
        n_best: int = 1,
        length_penalty: float = 0.6,
        stop: Literal["first", "exact"] = "first",
        max_ratio: float = 1.0,
        max_extra: int = 50,
        max_source: int = MAX_SOURCE,
        lines_at_once: int = CHUNK_LINES,
    ) -> Iterator[list[Result]]:
        """The `n_best` translations of each line, best first, in order and as the lines come.

        beam: width, 1 is greedy; length_penalty: alpha of GNMT's; stop: `first` or `exact`; the output may have
        max_ratio * source tokens + max_extra; a source of more than max_source tokens is translated in pieces.
        Raises ValueError for options that no search can honour.
        """
        config = search_config(
            beam=beam, n_best=n_best, length_penalty=length_penalty, stop=stop, max_ratio=max_ratio, max_extra=max_extra
        )
        return self._stream(lines, config, max_source, lines_at_once)

    def _stream(
        self, lines: Iterable[str], config: SearchConfig, max_source: int, lines_at_once: int
    ) -> Iterator[list[Result]]:
        counts = Counts()
        for chunk in chunks(lines, lines_at_once):
            yield from translate_lines(self.module, self.tokenizer, chunk, config, counts, max_source=max_source)
        for told in counts.words(max_source):
            log.warning("%s", told)

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[Score]:
        """The log-probability of each (source, target), equal to what the search gives its own outputs."""
        encoded = [(self.tokenizer.encode(source), self.tokenizer.encode(target)) for source, target in pairs]
        return [
            Score(sum(logprobs), [*(self.tokenizer.piece(token) for token in target), "</s>"], logprobs)
            for (_, target), logprobs in zip(encoded, score_ids(self.module, encoded), strict=True)
        ]


def search_config(length_penalty: float, **values: Any) -> SearchConfig:
    return validate(SearchConfig, {**values, "penalty": {"kind": "gnmt", "alpha": length_penalty}}, "the search")


def chunks(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    chunk, size = [], 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if len(chunk) >= most or size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def load(
    path: str | Path,
    device: str | torch.device | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    batch_invariant: bool = True,
) -> Model:
    """A model folder (or the folder of a finished run) as a Model, ready to translate.

    dtype: float32 (default), float64 or bfloat16. batch_invariant: a text's translation does not depend on what is translated
    beside it, bit for bit; False gives a text that is alone its lowest latency. Raises ValueError for what does not fit.
    """
    if (dtype or "float32") not in DTYPES:
        raise ValueError(f"dtype = {dtype!r}: use one of {', '.join(DTYPES)}")
    folder, where, number = Path(path), choose_device(device, threads), DTYPES[dtype or "float32"]
    config, tokenizer, module = open_model(folder)
    if not (folder / WEIGHTS).exists() and checkpoints(folder):
        raise ValueError(
            f"{folder}: this run is not finished. Go on with `headway train --resume --out {folder}`, "
            f"or make a model of its checkpoints with `headway average {folder} -o DIR`"
        )
    load_weights(module, folder)
    module.to(where, number)
    say_device(where, dtype or "float32")
    return Model(
        apply_batch_invariance(module) if batch_invariant else module,
        tokenizer,
        model_of(config),
        config.get("languages", {}),
    )


def open_model(folder: Path) -> tuple[dict[str, Any], Tokenizer, nn.Module]:
    """The config.json, the tokenizer and the module, without the weights, of a model folder."""
    config = read_config(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    return config, tokenizer, build(validate(Seq2SeqConfig, config["model"], str(folder / CONFIG)), tokenizer.vocab_size)
