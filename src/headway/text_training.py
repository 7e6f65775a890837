"""What training needs of a recipe that reads texts and no pairs: its data as batches, and how well a model does on the
lines held out. `headway.training` wires it, as it does `headway.data.prepare` for pairs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.architecture import EncoderConfig
from headway.checkpoint import WEIGHTS, load_tensors, module_tensors, read_tensors
from headway.config import CausalConfig, Recipe
from headway.data.batch import Batch
from headway.data.objectives import NOT_ASKED
from headway.data.reading import Texts, read_rows
from headway.data.store import digest, key_of
from headway.data.texts import Line, TextLoader, read_texts
from headway.generate.sample import sample
from headway.models.lm import LM
from headway.text.tokenizer import BOS, EOS, PAD, UNK, TokenizerPair
from headway.train.objective import build_loss

log = logging.getLogger("headway")

SAMPLES, SAMPLE_TOKENS = 3, 60


class TextData:
    """The texts of a recipe's [data]: to train on, and held out. Raises ValueError with the faults of the files."""

    def __init__(self, recipe: Recipe) -> None:
        data, faults = recipe.data, list[str]()
        sides = []
        for names in (("text", "second", "labels"), ("valid_text", "valid_second", "valid_labels")):
            paths = [Path(value) if (value := getattr(data, name)) else None for name in names]
            if paths[0] is None:
                sides.append(None)
                continue
            try:
                sides.append(read_texts(paths[0], *paths[1:]))
            except ValueError as error:
                faults.append(str(error))
        if faults:
            raise ValueError("\n".join(faults))
        lines, held = sides
        assert lines is not None, "check asks for data.text"
        if held is None:
            num = max(1, min(data.holdout_most, int(data.holdout_share * len(lines))))
            if num >= len(lines):
                raise ValueError(f"{data.text}: {len(lines)} line is too few to hold some out; name data.valid_text")
            lines, held = lines[:-num], lines[-num:]
            log.info("held out for validation: the last %s lines of %s", f"{num:,}", data.text)
        self.lines: list[Line] = lines
        self.valid: list[Line] = held
        named = {name: getattr(data, name) for name in (*TRAINED, *VALID) if getattr(data, name)}
        settings = key_of(
            [recipe.objective.model_dump(mode="json"), data.max_len, data.holdout_share, data.holdout_most]
        )
        files = {f"{name} {Path(path).name}": digest(Path(path)) for name, path in named.items()}
        self.fingerprint: dict[str, Any] = {"files": files, "settings": settings}

    def tokenizers(self, recipe: Recipe, shrink: bool) -> tuple[TokenizerPair, Recipe]:
        """The vocabulary, learnt from the lines to train on, or that which is named. shrink: as of a Corpus."""
        assert not shrink, "a vocabulary is planned for pairs alone"
        return TokenizerPair.train(self._texts(), (), recipe.tokenizer), recipe

    def _texts(self) -> Iterator[str]:
        for line in self.lines:
            yield line.text
            if line.second is not None:
                yield line.second

    def loader(self, tokenizers: TokenizerPair, recipe: Recipe) -> TextLoader:
        """Batches to train on; says what is left out."""
        texts = read_rows(recipe.objective, self.lines, tokenizers.target, recipe.data.max_len)
        for told in texts.left_out:
            log.warning("%s", told)
        return loader_of(texts, recipe, recipe.train.seed)


def loader_of(texts: Texts, recipe: Recipe, seed: int) -> TextLoader:
    apart = isinstance(recipe.model, EncoderConfig) and recipe.model.tells_texts_apart
    return TextLoader(
        texts.make, texts.lengths, recipe.train.batch_tokens, seed, texts.places.__getitem__, segments=apart
    )


TRAINED, VALID = ("text", "second", "labels"), ("valid_text", "valid_second", "valid_labels")


class TextValidation:
    """The loss (nats for each thing asked) on all lines held out, and what else tells how good a model of its kind is:
    bits per character, accuracy, or how numbers correlate. What an objective draws, it draws alike each time."""

    def __init__(self, data: TextData, tokenizers: TokenizerPair, recipe: Recipe) -> None:
        self.recipe, self.tokenizer = recipe, tokenizers.target
        try:
            self.texts: Texts = read_rows(recipe.objective, data.valid, tokenizers.target, recipe.data.max_len)
        except ValueError as error:
            raise ValueError("\n".join(f"validation: {line}" for line in str(error).splitlines())) from error
        for told in self.texts.left_out:
            log.warning("validation: %s", told)
        if not len(self.texts.lengths):
            raise ValueError("no text is left to validate on: name others (data.valid_text), or raise data.max_len")
        loader = loader_of(self.texts, recipe, seed=0)
        self.batches: list[Batch] = [loader.batch(0, at) for at in range(len(loader.plan(0)))]
        self.loss = build_loss(recipe.model, recipe.train, recipe.objective.kind)
        self.lines = data.valid

    def __len__(self) -> int:
        return len(self.texts.lengths)

    @torch.no_grad()
    def __call__(self, model: nn.Module, step: int) -> dict[str, float]:
        device = next(model.parameters()).device
        nll, asked = 0.0, 0
        for batch in self.batches:
            part = self.loss(model, batch, device)
            nll, asked = nll + part.nll.item(), asked + part.tokens
        found = {"loss": nll / max(asked, 1)}
        if self.texts.characters:
            found["bits_per_character"] = nll / math.log(2) / self.texts.characters
        return found | self.accuracy(model, device)

    def accuracy(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The share that the likeliest answer is right of, where answers are few; of numbers, how they correlate."""
        kind = self.recipe.objective.kind
        if kind in ("causal", "prefix", "spans", "ul2", "chat", "both_ways", "contrast"):
            return {}
        right, asked, said = 0, 0, list[Tensor]()
        wanted = list[Tensor]()
        for batch in self.batches:
            inputs = {name: value.to(device) for name, value in batch.inputs.items() if name != "next"}
            logits = model(**inputs).cpu()
            if kind == "number":
                said.append(logits[:, 0])
                wanted.append(batch.targets)
                continue
            if kind == "answers":  # right where both ends are
                right += int((logits.argmax(1) == batch.targets).all(1).sum())
                asked += len(logits)
                continue
            real = batch.targets != (PAD if kind in ("masked", "permuted") else NOT_ASKED)
            right += int((logits.argmax(-1) == batch.targets)[real].sum())
            asked += int(real.sum())
        if kind == "number":
            both = np.stack([torch.cat(said).double().numpy(), torch.cat(wanted).double().numpy()])
            flat = both.std(1).min() == 0
            return {"pearson": 0.0 if flat else float(np.corrcoef(both)[0, 1])}
        return {"accuracy": right / max(asked, 1)}

    def samples(self, model: Any) -> list[dict[str, str]]:
        """What a language model writes behind the beginnings of the first lines held out."""
        if not isinstance(model, LM) or not isinstance(self.recipe.objective, CausalConfig):
            return []
        chosen = [line.text for line in self.lines if len(line.text) > 20][:SAMPLES]
        rows = [self.tokenizer.encode(text) for text in chosen]
        begun = [[BOS, *row[: max(1, len(row) // 2)]] for row in rows]
        room = self.recipe.data.max_len - max(map(len, begun), default=0)
        if room < 1:
            return []
        banned = [PAD, BOS, UNK, *self.tokenizer.atom_ids]
        most = min(SAMPLE_TOKENS, room)
        found = sample(model, begun, max_new_tokens=most, banned=banned, end=[EOS]) if begun else []
        return [
            {
                "source": self.tokenizer.decode(begin[1:]),
                "reference": self.tokenizer.decode(row[len(begin) - 1 :]),
                "output": self.tokenizer.decode(one.tokens),
            }
            for begin, row, one in zip(begun, rows, found, strict=True)
        ]


def load_body(module: nn.Module, path: Path | str) -> list[str]:
    """Weights of a model to start from, but those of its head, which is there for another end; names what was left to
    chance. Raises ValueError for a body that does not fit."""
    path = Path(path)
    found = read_tensors(path / WEIGHTS if path.is_dir() else path)
    own = module_tensors(module)
    fresh = sorted(
        name for name in own if name.startswith("head.") and (name not in found or found[name].shape != own[name].shape)
    )
    kept = {
        name: tensor
        for name, tensor in found.items()
        if not name.startswith("head.") or (name in own and name not in fresh)
    }
    load_tensors(module, {**kept, **{name: own[name] for name in fresh}}, str(path))
    return fresh
