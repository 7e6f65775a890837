"""From a recipe to the pairs that training and validation see, and their tokenizer."""

import hashlib
import json
import logging
from typing import Any

from headway.config import Recipe
from headway.data.corpus import hold_out, read_pairs
from headway.text.tokenizer import Tokenizer, VocabularyTooLarge

log = logging.getLogger("headway")


class Corpus:
    """The pairs of a recipe: those to train on with their line numbers, and those to validate on."""

    def __init__(self, recipe: Recipe) -> None:
        data = recipe.data
        self.pairs = read_pairs(data.source, data.target)
        if data.valid_source is not None and data.valid_target is not None:
            self.lines, self.train = list(range(1, len(self.pairs) + 1)), self.pairs
            self.valid = read_pairs(data.valid_source, data.valid_target)
        else:
            try:
                kept, held = hold_out(self.pairs, data.holdout_share, data.holdout_most)
            except ValueError as error:
                raise ValueError(f"{data.source}, {data.target}: {error}") from error
            self.lines, self.train = (kept + 1).tolist(), [self.pairs[index] for index in kept]
            self.valid = [self.pairs[index] for index in held]

    def tokenizer(self, recipe: Recipe, shrink: bool) -> tuple[Tokenizer, Recipe]:
        """A tokenizer trained on the training pairs, or the file that is named; shrink: take what the data gives."""
        config = recipe.tokenizer
        if config.kind == "file":
            return Tokenizer.load(config.path), recipe
        texts = [text for pair in self.train for text in pair]
        try:
            return Tokenizer.train(texts, config), recipe
        except VocabularyTooLarge as error:
            if not shrink:
                raise
            log.info("vocabulary: %s pieces, all that the data gives", f"{error.largest:,}")
            config = config.model_copy(update={"vocab_size": error.largest})
            return Tokenizer.train(texts, config), recipe.model_copy(update={"tokenizer": config})

    def fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256(json.dumps([self.pairs, self.valid]).encode()).hexdigest()
        return {"pairs": len(self.pairs), "valid": len(self.valid), "sha256": digest}
