"""Language models and encoders as people use them: texts in; texts, vectors, labels out. The wiring that loads one is
`headway.api`; a model of pairs is `headway.generate.model.Model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from headway.architecture import EncoderConfig, LMConfig
from headway.config import InputConfig, LanguagesConfig
from headway.data.objectives import marked
from headway.generate.sample import sample
from headway.models.encoder import Encoder
from headway.models.lm import LM
from headway.models.seq2seq import Seq2Seq
from headway.models.state import padded, positions_of
from headway.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerPair

BATCH_TOKENS = 8192
"""Padded tokens that are read together."""


def one_or_all(texts: str | Sequence[str]) -> list[str]:
    """Texts as a list. Raises ValueError for what is none, by its number."""
    found = [texts] if isinstance(texts, str) else list(texts)
    if wrong := [number for number, text in enumerate(found, 1) if not isinstance(text, str)]:
        raise ValueError(f"text {wrong[0]} is {found[wrong[0] - 1]!r:.80}: give texts (str)")
    return found


def batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Texts of about the same length, by their places, as many as BATCH_TOKENS holds."""
    batch: list[int] = []
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        if batch and sizes[batch[0]] * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


@torch.no_grad()
def in_batches(rows: Sequence[list[int]], call: Callable[[Tensor], Tensor], device: torch.device) -> list[Tensor]:
    """What `call` says of each row of ids, (B, T) at a time, in the order of the rows."""
    found: dict[int, Tensor] = {}
    for batch in batches([len(row) for row in rows]):
        said = call(padded([rows[at] for at in batch], device))
        found.update(zip(batch, said, strict=True))
    return [found[at] for at in range(len(rows))]


def mean_of(vectors: Tensor, tokens: Tensor) -> Tensor:
    """(B, D): the mean over tokens that are no padding, of vectors (B, T, D)."""
    real = (positions_of(tokens) >= 0)[..., None]
    return torch.where(real, vectors, 0.0).sum(1) / real.sum(1).clamp(min=1)


def embed_pair(module: Seq2Seq, tokenizer: Tokenizer, texts: Sequence[str], max_len: int) -> np.ndarray:
    """The mean of what the encoder of a pair makes of each source (N, D), float32."""
    rows = [[*row, EOS] for row in read(tokenizer, texts, max_len)]
    return as_array(in_batches(rows, lambda ids: mean_of(module.encode(ids)[0], ids), module.unembed.weight.device))


def read(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> list[list[int]]:
    """Ids of texts. Raises ValueError for those of more than `most` tokens, all at once."""
    rows = tokenizer.encode_batch(texts)
    if long := [f"text {n} has {len(row):,}" for n, row in enumerate(rows, 1) if len(row) > most]:
        told = ", ".join(long[:5]) + (f" and {len(long) - 5:,} more" if len(long) > 5 else "")
        raise ValueError(f"{told} tokens, and the model was trained to read {most:,}: shorten or split them")
    return rows


def as_array(rows: Sequence[Tensor]) -> np.ndarray:
    return np.stack([row.float().cpu().numpy() for row in rows]) if rows else np.zeros((0, 0), np.float32)


class TextModel:
    """What language models and encoders share. input.max_len: tokens that it was trained to read."""

    def __init__(
        self,
        module: Any,
        tokenizers: TokenizerPair,
        config: Any,
        languages: LanguagesConfig,
        input: InputConfig,
        labels: Sequence[str] = (),
    ) -> None:
        self.module, self.config, self.languages, self.input = module.eval(), config, languages, input
        self.tokenizers, self.tokenizer, self.labels = tokenizers, tokenizers.target, tuple(labels)

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def read(self, texts: Sequence[str], around: int) -> list[list[int]]:
        """Ids of texts. around: control tokens that come to each. Raises ValueError for those that are longer than what
        the model was trained to read, all at once."""
        return read(self.tokenizer, texts, self.input.max_len - around)


@dataclass(frozen=True)
class TextScore:
    """The log-probability (nats) of a text under a language model: of the whole, its end included, and of each
    token."""

    logprob: float
    tokens: list[str]
    token_logprobs: list[float]


class LanguageModel(TextModel):
    """`module` (B, T) -> logits (B, T, V); `config`, `tokenizer`."""

    module: LM
    config: LMConfig

    @overload
    def generate(self, prompt: str, *, max_new_tokens: int = 64, temperature: float = 0.0, seed: int = 0) -> str: ...
    @overload
    def generate(
        self, prompt: list[str] | tuple[str, ...], *, max_new_tokens: int = 64, temperature: float = 0.0, seed: int = 0
    ) -> list[str]: ...
    def generate(
        self,
        prompt: str | list[str] | tuple[str, ...],
        *,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> str | list[str]:
        """What comes behind each prompt, without it, up to an end of its own or max_new_tokens. temperature 0: the
        likeliest token each time; else drawn, from `seed` for the first prompt, seed + 1 for the second and so on: the
        same text whatever stands beside it. Raises ValueError for a prompt that leaves no room."""
        prompts = one_or_all(prompt)
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed = {seed}: take 0 or more, below 2**63")
        rows = self.read(prompts, 1)
        if places := self.config.position.max_len if self.config.position.kind == "learned" else None:
            longest = max((len(row) for row in rows), default=0) + 1
            if longest + max_new_tokens - 1 > places:
                told = f"a prompt of {longest} tokens and max_new_tokens = {max_new_tokens} need more than the {places}"
                raise ValueError(f"{told} positions that the model has: lower max_new_tokens, or shorten the prompt")
        found = sample(
            self.module,
            [[BOS, *row] for row in rows],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seeds=[seed + number for number in range(len(rows))],
            banned=[PAD, BOS, UNK, *self.tokenizer.atom_ids],
            end=[EOS],
        )
        texts = [self.tokenizer.decode(one.tokens) for one in found]
        return texts[0] if isinstance(prompt, str) else texts

    def score(self, texts: Sequence[str]) -> list[TextScore]:
        """The log-probability of each text, as it is. Raises ValueError for what is longer than its training's rows."""
        rows = self.read(one_or_all(texts), 1)

        def call(ids: Tensor) -> Tensor:
            logprobs = self.module(ids).float().log_softmax(-1)
            following = torch.cat([ids[:, 1:], torch.zeros_like(ids[:, :1])], 1)
            ends = torch.arange(ids.shape[1], device=ids.device) == (ids != PAD).sum(1, keepdim=True) - 1
            asked = torch.where(ends, EOS, following)
            return logprobs.gather(-1, asked[..., None])[..., 0]

        said = in_batches([[BOS, *row] for row in rows], call, self.device)
        scores = [found[: len(row) + 1].tolist() for found, row in zip(said, rows, strict=True)]
        return [
            TextScore(sum(logprobs), [*(self.tokenizer.piece(id) for id in row), "</s>"], logprobs)
            for row, logprobs in zip(rows, scores, strict=True)
        ]

    def embed(self, texts: str | Sequence[str]) -> np.ndarray:
        """The mean of each text's last hidden vectors, (N, D) float32."""
        rows = [[BOS, *row] for row in self.read(one_or_all(texts), 1)]
        return as_array(in_batches(rows, lambda ids: mean_of(self.module.hidden(ids), ids), self.device))


class TextEncoder(TextModel):
    """`module` (B, T) -> what its head says, or (B, T, D) without one; `labels`: of its classes."""

    module: Encoder
    config: EncoderConfig

    def embed(self, texts: str | Sequence[str]) -> np.ndarray:
        """A vector for each text, (N, D) float32: what a head for vectors says, or the mean of the last hidden ones."""
        rows = [ends(row) for row in self.read(one_or_all(texts), 2)]
        if self.config.head is not None and self.config.head.kind == "vector":
            return as_array(in_batches(rows, self.module, self.device))
        return as_array(in_batches(rows, lambda ids: mean_of(self.module.vectors(ids), ids), self.device))

    def classify(self, texts: Sequence[str], second: Sequence[str] | None = None) -> list[dict[str, float]]:
        """For each text (or pair of texts) the probability of each label, likeliest first; of a model that was trained
        to say a number, {"value": number}."""
        self._needs("classes")
        first = one_or_all(texts)
        others = None if second is None else one_or_all(second)
        if others is not None and len(others) != len(first):
            raise ValueError(f"{len(first)} texts and {len(others)} second ones: give one for each")
        around = 2 if others is None else 3
        rows = self.read(first, around)
        more = self.read(others, around) if others is not None else [None] * len(rows)
        ids, segments = list[list[int]](), list[list[int]]()
        for a, b in zip(rows, more, strict=True):
            tokens, kinds = marked(*([a] if b is None else [a, b]), cls=BOS, sep=EOS)
            ids.append(tokens)
            segments.append(kinds)
        if long := [number for number, row in enumerate(ids, 1) if len(row) > self.input.max_len]:
            raise ValueError(f"texts {long[:5]} have more than {self.input.max_len} tokens together: shorten them")
        said = self._said(ids, segments)
        if len(said) and said.shape[-1] == 1:
            return [{"value": value} for value in said[:, 0].tolist()]
        shares = np.exp(said - said.max(-1, keepdims=True)) if len(said) else said
        return [
            dict(sorted(zip(self.labels, (row / row.sum()).tolist(), strict=True), key=lambda item: -item[1]))
            for row in shares
        ]

    def tag(self, texts: Sequence[str]) -> list[list[str]]:
        """The tag of each word of each text, words being what stands between spaces."""
        self._needs("tags")
        words = [text.split() for text in one_or_all(texts)]
        pieces = [[self.tokenizer.encode(w if at == 0 else f" {w}") for at, w in enumerate(row)] for row in words]
        rows = [ends([id for word in row for id in word]) for row in pieces]
        if long := [number for number, row in enumerate(rows, 1) if len(row) > self.input.max_len]:
            raise ValueError(f"texts {long[:5]} have more than {self.input.max_len} tokens: shorten them")
        said = in_batches(rows, self.module, self.device)
        found = []
        for logits, row in zip(said, pieces, strict=True):
            firsts = np.cumsum([1, *map(len, row)])[:-1].tolist()
            found.append([self.labels[int(logits[at].argmax())] for at in firsts])
        return found

    def fill(self, texts: Sequence[str], best: int = 5) -> list[list[list[tuple[str, float]]]]:
        """For each <mask> of each text the likeliest pieces with their probabilities."""
        self._needs("words")
        mask = self.tokenizer.atom("<mask>")
        rows = []
        for text in one_or_all(texts):
            parts = [self.tokenizer.encode(part) for part in text.split("<mask>")]
            rows.append(ends([id for at, part in enumerate(parts) for id in ([mask] * (at > 0) + part)]))
        if long := [number for number, row in enumerate(rows, 1) if len(row) > self.input.max_len]:
            raise ValueError(f"texts {long[:5]} have more than {self.input.max_len} tokens: shorten them")
        found = []
        for logits, row in zip(in_batches(rows, self.module, self.device), rows, strict=True):
            shares = logits.float().softmax(-1)
            tops = [shares[at].topk(min(best, shares.shape[-1])) for at, id in enumerate(row) if id == mask]
            named = [([self.tokenizer.piece(id) for id in top.indices.tolist()], top.values.tolist()) for top in tops]
            found.append([list(zip(*both, strict=True)) for both in named])
        return found

    def _said(self, ids: list[list[int]], segments: list[list[int]]) -> np.ndarray:
        """What the head says of each row, with its segments where the model tells them apart."""
        if not self.config.segments:
            return as_array(in_batches(ids, self.module, self.device))
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for batch in batches([len(row) for row in ids]):
                tokens = padded([ids[at] for at in batch], self.device)
                kinds = padded([segments[at] for at in batch], self.device)[:, : tokens.shape[1]]
                found.update(zip(batch, self.module(tokens, segments=kinds), strict=True))
        return as_array([found[at] for at in range(len(ids))])

    def _needs(self, kind: str) -> None:
        head = self.config.head.kind if self.config.head else None
        if head != kind:
            told = f"a head for {head}" if head else "no head"
            raise ValueError(f"this model has {told}; train one with model.head = {kind!r} for that")


def ends(ids: list[int]) -> list[int]:
    return [BOS, *ids, EOS]
