"""A loaded model as people use it: texts in, texts out. The wiring that loads one is `headway.api`."""

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from headway.architecture import Seq2SeqConfig
from headway.check import check_search
from headway.config import SOURCE_ALONE, AlignmentConfig, InputConfig, LanguagesConfig, SearchConfig
from headway.data.memory import Memory
from headway.generate.align import Head
from headway.generate.decode import score_ids
from headway.generate.lines import Counts, Result, translate_lines
from headway.generate.parts import Terms, Translator
from headway.generate.text_models import embed_pair, one_or_all
from headway.models.seq2seq import Seq2Seq
from headway.strict import ConfigError, validate
from headway.text.context import preceding
from headway.text.tokenizer import TokenizerPair

log = logging.getLogger("headway")

MAX_SCORED = 4096
"""Tokens of a side that is scored: attention's memory grows with their square, and cutting would change the score."""

CHUNK_LINES, CHUNK_CHARACTERS = 2048, 2_000_000
"""Most lines and characters that are read ahead from a stream, so that memory is bounded whatever its length."""


@dataclass(frozen=True)
class Score:
    """The model's log-probability (nats) of a target: of the whole, and of each token, the end of sentence last."""

    logprob: float
    tokens: list[str]
    token_logprobs: list[float]


class Model:
    """A loaded model: `module` (source (B, S), target (B, T) -> logits (B, T, V)), `tokenizers` of the two
    sides (`tokenizer` is the target's, which is the source's too where they share one), `config`, and the `search` of
    its recipe, from which each call starts; `alignment`: whose attention tells where words went; `input`: what
    it was trained to read."""

    def __init__(
        self,
        module: Seq2Seq,
        tokenizers: TokenizerPair,
        config: Seq2SeqConfig,
        languages: LanguagesConfig,
        search: SearchConfig,
        alignment: AlignmentConfig | None = None,
        input: InputConfig = SOURCE_ALONE,
    ) -> None:
        self.module, self.config, self.languages, self.search = module.eval(), config, languages, search
        self.tokenizers, self.tokenizer = tokenizers, tokenizers.target
        self.alignment, self.input = alignment, input

    @overload
    def translate(
        self, texts: Sequence[str], beam: int | None = None, *, n_best: Literal[1] = 1, **search: Any
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: Sequence[str], beam: int | None = None, *, n_best: int, **search: Any
    ) -> list[list[str]]: ...
    def translate(
        self, texts: Sequence[str], beam: int | None = None, *, n_best: int = 1, **search: Any
    ) -> list[str] | list[list[str]]:
        """A translation of each text, in order; with n_best > 1 a list of them, best first. Options: see `stream`."""
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
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        stop: str | None = None,
        max_ratio: float | None = None,
        max_extra: int | None = None,
        max_source: int | None = None,
        tags: Sequence[str] = (),
        lines_at_once: int = CHUNK_LINES,
    ) -> Iterator[list[Result]]:
        """The `n_best` translations of each line, best first, in order and as the lines come.

        beam: width, 1 is greedy; length_penalty: alpha of the penalty; stop: `first` or `exact`; the output may have
        max_ratio * source tokens + max_extra; None: as in `search`. A source of more than max_source tokens (None: what
        the model was trained to read, and can) is translated in pieces. tags: those that the model was trained with
        (`2de`), to be put before each source. A model that was trained with context reads each line after those before
        it, back to a blank one.
        Raises ValueError for options that no search can honour.
        """
        changes = {"beam": beam, "n_best": n_best, "stop": stop, "max_ratio": max_ratio, "max_extra": max_extra}
        changes |= {"length_penalty": length_penalty, "max_source": max_source}
        return self._stream(lines, self.translator(by_sentence=False, tags=tags, **changes), lines_at_once)

    def tag_ids(self, tags: Sequence[str]) -> list[int]:
        """Ids of tags. Raises ValueError for one that the vocabulary has not."""
        if wrong := [tag for tag in tags if re.fullmatch(r"x\d+|sep|match", tag)]:
            raise ValueError(f"{', '.join(wrong)}: is a piece of the vocabulary and no tag; name those of the corpora")
        return [self.tokenizers.source.atom(f"<{tag}>") for tag in tags]

    def settings(
        self, *, length_penalty: float | None = None, max_source: int | None = None, **changes: Any
    ) -> tuple[SearchConfig, int]:
        """The search with these options, and the most tokens of a source; see `stream`."""
        config = search_config(self.search, length_penalty, changes)
        longest = longest_source(self.config, config, self.input.max_len) if max_source is None else max_source
        if longest < 1:
            raise ValueError(f"max_source = {longest}: a piece needs a token or more")
        return config, longest

    def translator(
        self,
        *,
        by_sentence: bool,
        terms: Terms | None = None,
        memory: Memory | None = None,
        tags: Sequence[str] = (),
        **search: Any,
    ) -> Translator:
        """What translates texts with codes, by this model; options as in `stream` and `headway.generate.parts`."""
        config, longest = self.settings(**search)
        return Translator(
            self.module,
            self.tokenizers,
            config,
            max_source=longest,
            languages=(self.languages.source, self.languages.target),
            head=Head(self.alignment.layer, self.alignment.head) if self.alignment else None,
            by_sentence=by_sentence,
            terms=terms,
            memory=memory,
            tags=self.tag_ids(tags),
            input=self.input,
        )

    def embed(self, texts: str | Sequence[str]) -> np.ndarray:
        """A vector for each text, the mean of what the encoder makes of its tokens: (N, D) float32. Raises ValueError
        for a text of more tokens than the model was trained to read."""
        return embed_pair(self.module, self.tokenizers.source, one_or_all(texts), self.input.max_len)

    def _stream(self, lines: Iterable[str], translator: Translator, lines_at_once: int) -> Iterator[list[Result]]:
        counts, before = Counts(), deque[str](maxlen=self.input.context)
        for chunk in chunks(texts_of(lines), lines_at_once):
            yield from translate_lines(translator, chunk, counts, tuple(before))
            before.extend(chunk)
        for told in counts.words(translator.max_source):
            log.warning("%s", told)

    def score(self, pairs: Iterable[tuple[str, str]], tags: Sequence[str] = ()) -> list[Score]:
        """The log-probability of each (source, target), equal to what the search gives its own outputs; with tags,
        placeholders and context as `stream` has them, without the white space at the ends."""
        encoded, translator = list[tuple[Sequence[int], list[int]]](), self.translator(by_sentence=False, tags=tags)
        in_context = preceding(pairs_of(pairs), self.input.context, lambda pair: pair[0])
        for number, (pair, before) in enumerate(in_context, 1):
            source, target = translator.forced(pair[0].strip(), pair[1].strip(), before)
            if (longest := max(len(source), len(target))) > MAX_SCORED:
                raise ValueError(
                    f"pair {number} has a side of {longest:,} tokens; {MAX_SCORED:,} can be scored: cut it"
                )
            encoded.append((source, target))
        return [
            Score(sum(logprobs), [*(self.tokenizer.piece(token) for token in target), "</s>"], logprobs)
            for (_, target), logprobs in zip(encoded, score_ids(self.module, encoded), strict=True)
        ]


def pairs_of(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for number, pair in enumerate(pairs, 1):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(x, str) for x in pair):
            raise ValueError(f"pair {number} is {pair!r:.80}: give (source, target), two texts")
        yield pair


def texts_of(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise ValueError(f"text {number} is {line!r:.80}: give texts (str)")
        yield line


def longest_source(model: Seq2SeqConfig, search: SearchConfig, most: int) -> int:
    """The most tokens of a source, up to `most`, that the model's positions reach, with the end and the longest output
    in mind. Of longer sources than those of its training a model knows nothing."""
    if model.position.kind != "learned":
        return most
    places = model.position.max_len
    for_output = int((places - search.max_extra) / search.max_ratio) if search.max_ratio else places
    if places < search.max_extra or min(places, for_output) < 2:
        raise ValueError(f"max_extra = {search.max_extra}: the model has {places} positions in all; take a lower one")
    return min(most, places - 1, for_output - 1)


def search_config(base: SearchConfig, length_penalty: float | None, changes: Mapping[str, Any]) -> SearchConfig:
    """A search with some of its options changed (None: not). Raises ValueError with every fault."""
    table = base.model_dump(mode="json") | {name: value for name, value in changes.items() if value is not None}
    if length_penalty is not None:
        table["penalty"]["alpha"] = length_penalty
    config, faults = validate(SearchConfig, table)
    if config is not None:
        faults = check_search(config)
    if config is None or faults:
        raise ConfigError(faults, "the search")
    return config


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
