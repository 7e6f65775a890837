"""Language models and encoders as people use them: texts in; texts, vectors, labels out. The wiring that loads one is
`headway.api`; a model of pairs is `headway.generate.model.Model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from headway.architecture import EncoderConfig, LMConfig
from headway.config import InputConfig, LanguagesConfig
from headway.data.objectives import marked
from headway.data.spans import offsets, windows
from headway.generate.sample import sample
from headway.models.encoder import Encoder
from headway.models.lm import LM
from headway.models.seq2seq import Seq2Seq
from headway.models.state import padded, positions_of
from headway.text.chat import Chat
from headway.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerPair

LONGEST_ANSWER = 30
"""Tokens, as in BERT's code."""

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
    """`module` (B, T) -> logits (B, T, V); `config`, `tokenizer`; `chat`: how chats are written down for it."""

    module: LM
    config: LMConfig
    chat: Chat | None = None

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
        rows = [[BOS, *row] for row in self.read(prompts, 1)]
        self._refuse_long(rows, max_new_tokens)
        found = sample(
            self.module,
            rows,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seeds=[seed + number for number in range(len(rows))],
            banned=[PAD, BOS, UNK, *self.tokenizer.atom_ids],
            end=[EOS],
        )
        texts = [self.tokenizer.decode(one.tokens) for one in found]
        return texts[0] if isinstance(prompt, str) else texts

    def reply(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> str:
        """What the assistant says next in a chat ([{"role": "user", "content": ...}]), of a model that was tuned on
        chats. As `generate` in all else. Raises ValueError for a model that was not."""
        if self.chat is None:
            raise ValueError('this model was not tuned on chats: train one with objective.kind = "chat", or generate')
        ids, _ = self.chat.encode(messages, self.tokenizer, add_generation_prompt=True)
        row = ids if ids[:1] == [BOS] else [BOS, *ids]
        self._refuse_long([row], max_new_tokens)
        stop = self.chat.stop_id(self.tokenizer)
        banned = [id for id in (PAD, BOS, UNK, *self.tokenizer.atom_ids) if id != stop]
        found = sample(
            self.module,
            [row],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seeds=[seed],
            banned=banned,
            end=[EOS, stop],
        )
        return self.tokenizer.decode(found[0].tokens)

    def _refuse_long(self, rows: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Where positions are a table that has an end."""
        if self.config.position.kind != "learned":
            return
        longest, places = max(map(len, rows), default=0), self.config.position.max_len
        if longest + max_new_tokens - 1 > places:
            told = f"a prompt of {longest} tokens and max_new_tokens = {max_new_tokens} need more than the {places}"
            raise ValueError(f"{told} positions that the model has: lower max_new_tokens, or shorten the prompt")

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
        said = as_array(self._said(ids, segments))
        if len(said) and said.shape[-1] == 1:
            return [{"value": value} for value in said[:, 0].tolist()]
        shares = np.exp(said - said.max(-1, keepdims=True)) if len(said) else said
        return [
            dict(sorted(zip(self.labels, (row / row.sum()).tolist(), strict=True), key=lambda item: -item[1]))
            for row in shares
        ]

    def label(self, texts: Sequence[str], second: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """What the head says of each text (or pair): {"label", "labels": their probabilities}, {"value"}, {"tags"} or
        {"answer"}, the first texts then being questions. Raises ValueError for a model that says none of these."""
        kind = self.config.head.kind if self.config.head else None
        if kind == "classes":
            found = self.classify(texts, second)
            return [one if "value" in one else {"label": next(iter(one)), "labels": one} for one in found]
        if kind == "tags" and second is None:
            return [{"tags": tags} for tags in self.tag(texts)]
        if kind == "span" and second is not None:
            return [{"answer": answer} for answer in self.answer(texts, second)]
        told = {"tags": "tags the words of one text", "span": "answers questions from passages: give these as second"}
        raise ValueError(f"this model {told.get(kind or '', 'labels nothing: its head is for ' + (kind or 'nothing'))}")

    def answer(self, questions: Sequence[str], passages: Sequence[str]) -> list[str]:
        """What answers each question, as it stands in its passage; "" where no span is likelier than none (Devlin et
        al. 2019, section 4.3). A long passage is read in windows that begin half of the room apart."""
        self._needs("span")
        first, others = one_or_all(questions), one_or_all(passages)
        if len(first) != len(others):
            raise ValueError(f"{len(first)} questions and {len(others)} passages: give one for each")
        pieces, views, rows = self.tokenizer.encode_batch(others), list[tuple[int, range]](), []
        for number, (question, context) in enumerate(zip(self.read(first, 4), pieces, strict=True)):
            room = self.input.max_len - len(question) - 3
            for view in windows(len(context), room, max(1, room // 2)):
                views.append((number, view))
                rows.append(marked(question, context[view.start : view.stop], cls=BOS, sep=EOS))
        none, best = [np.inf] * len(first), [(-np.inf, 0, 0)] * len(first)
        for (number, view), (tokens, _), said in zip(views, rows, self._said(*zip(*rows, strict=True)), strict=True):
            none[number] = min(none[number], float(said[0].sum()))
            score, begin, end = likeliest(said[len(tokens) - len(view) - 1 : len(tokens) - 1])
            best[number] = max(best[number], (score, begin + view.start, end + view.start))
        found = []
        for (score, begin, end), nowhere, context, text in zip(best, none, pieces, others, strict=True):
            places = offsets([self.tokenizer.piece_bytes(id) for id in context], text) if score > nowhere else []
            found.append(text[places[begin][0] : places[end][1]].strip() if places else "")
        return found

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

    def _said(self, ids: Sequence[list[int]], segments: Sequence[list[int]]) -> list[Tensor]:
        """What the head says of each row, with its segments where the model tells them apart."""
        if not self.config.tells_texts_apart:
            return in_batches(ids, self.module, self.device)
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for batch in batches([len(row) for row in ids]):
                tokens = padded([ids[at] for at in batch], self.device)
                kinds = padded([segments[at] for at in batch], self.device)[:, : tokens.shape[1]]
                found.update(zip(batch, self.module(tokens, segments=kinds), strict=True))
        return [found[at] for at in range(len(ids))]

    def _needs(self, kind: str) -> None:
        head = self.config.head.kind if self.config.head else None
        if head != kind:
            told = f"a head for {head}" if head else "no head"
            raise ValueError(f"this model has {told}; train one with model.head = {kind!r} for that")


def likeliest(logits: Tensor) -> tuple[float, int, int]:
    """The best sum of where an answer begins and ends, and these, of logits (T, 2)."""
    if not len(logits):
        return -np.inf, 0, 0
    begin, end = logits.float().unbind(-1)
    sums = begin[:, None] + end
    fits = torch.ones_like(sums, dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
    best = int(sums.masked_fill(~fits, -torch.inf).argmax())
    return float(sums.flatten()[best]), *divmod(best, len(end))


def ends(ids: list[int]) -> list[int]:
    return [BOS, *ids, EOS]
