"""From a recipe's files to what training sees: read, clean, hold out, learn the pieces, encode into the store.

Everything streams. Reading decides the fate of each pair once and keeps a byte of it; later passes read the files again
and follow the fates, so memory does not grow with the texts, and cleaning that looks at all pairs runs once.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from headway.checkpoint import write_files, write_json
from headway.config import CleanConfig, CorpusConfig, DataConfig, Recipe, TrainedTokenizerConfig
from headway.data.batch import Examples, tempered
from headway.data.clean import RULES, Cleaner
from headway.data.corpus import hold_out, source_hash
from headway.data.encode import Encoder, is_empty
from headway.data.memory import Memory
from headway.data.pair import Pair
from headway.data.readers import Part, corpora_of, find_parts, kept_out, valid_of
from headway.data.store import FORMAT, Build, Digests, Row, key_of, locked, makers, stored
from headway.data.tally import Tally
from headway.text.codes import Code, Parts, plain
from headway.text.context import preceding
from headway.text.tokenizer import TokenizerPair, VocabularyTooLarge

log = logging.getLogger("headway")

KEPT, HELD, EMPTY = range(3)
"""What became of a pair: to train on, held out for validation, without one side; from `EMPTY` on, left out by the rule
of that place in `RULES`, whose first is the empty side."""

CHUNK = 10_000
"""Pairs encoded at a time."""

SAMPLE = 2_000_000
"""Pairs that a tokenizer learns from, at most, or about so many."""

READING = ("source_column", "target_column", "delimiter", "pieces", "source_language", "target_language")
"""What the pairs of a corpus depend on, besides the content of its files and their kind."""


class Selection(NamedTuple):
    """fates: a byte for each pair of the files, in order; tally: of those left out; valid: the pairs held out."""

    fates: bytes
    tally: Tally
    valid: list[Pair]

    @property
    def seen(self) -> int:
        """All that could have been trained on: what was kept, and what was left out."""
        return self.fates.count(KEPT) + self.tally.total


class Corpus:
    """The pairs of a recipe's [data]; folder: of the store. Raises ValueError with every fault of the files."""

    def __init__(self, config: DataConfig, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.corpora = corpora_of(config)
        named = {"data.corpora" if config.corpora else "data": self.corpora}
        named |= {"data.valid": valid_of(config), "data.test": kept_out(config)}
        self.parts, self.valid_parts, self.test_parts = all_parts(named)
        paths = [path for part in (*self.parts, *self.valid_parts, *self.test_parts) for path in part.paths]
        self.files = Digests(paths, folder)
        holdout = None if self.valid_parts else (config.holdout_share, config.holdout_most)
        reading, apart = reading_of(self.parts), reading_of([*self.valid_parts, *self.test_parts])
        settings = {"format": FORMAT, "reading": reading, "holdout": holdout, "clean": config.clean.model_dump()}
        settings |= {"context": config.context} if config.context else {}
        self.key = key_of([self.files.found, settings, apart, makers()])
        self.used = {f"pairs-{self.key}"}
        names = [f"{number} {path.name}" for number, path in enumerate(paths)]
        self.fingerprint = {"files": dict(zip(names, self.files.found, strict=True)), "settings": key_of(settings)}

    # ---- which pairs ----

    @cached_property
    def selection(self) -> Selection:
        """What is trained on and what is held out; read from the store where it is known."""
        folder = self.folder / f"pairs-{self.key}"
        with locked(self.folder):
            self.files.save()
            found = load_selection(folder)
            if found is None:
                self._select(folder)
                found = load_selection(folder)
        assert found is not None
        return found

    @property
    def valid(self) -> list[Pair]:
        """The pairs to validate on, those that are empty or too long among them."""
        return self._validated[0]

    @property
    def valid_tally(self) -> Tally:
        """What the files to validate on hold without giving a pair."""
        return self._validated[1]

    @cached_property
    def _validated(self) -> tuple[list[Pair], Tally]:
        tally = Tally()
        if not self.valid_parts:
            return self.selection.valid, tally
        return [pair for part in self.valid_parts for pair in self._in_context(part, tally)], tally

    def _select(self, folder: Path) -> None:
        """Read all files and write what becomes of each pair. Raises ValueError with the faults of all of them."""
        fates, tally, faults, rules = bytearray(), Tally(), [], [*RULES]
        reason = self._cleaner().reason if self.config.clean != CleanConfig() else lambda pair: None
        with TemporaryFile(dir=self.folder) as hashes:
            for part in self.parts:
                try:
                    for pair in part.read(tally):
                        found = "empty" if is_empty(pair) else reason(pair)
                        if found:
                            tally.add(found, part.place(pair.number, pair.place))
                        fates.append(EMPTY + rules.index(found) if found else KEPT)
                        if fates[-1] <= EMPTY and not self.valid_parts:
                            hashes.write(source_hash(plain(pair.source)))
                except ValueError as error:
                    faults.append(str(error))
            if faults:
                raise ValueError("\n".join(faults))
            if not self.valid_parts:
                hashes.flush()
                every = np.memmap(hashes, np.uint8, "r") if hashes.tell() else np.zeros(0, np.uint8)
                self._hold_out(fates, every.reshape(-1, 16))
        valid = [pair for _, pair, fate in self.read(bytes(fates)) if fate == HELD]
        if valid and self.config.clean.overlap != "none":
            self._leave_out(fates, tally, valid)
        told = {"rules": rules, "tally": asdict(tally), "valid": [as_json(pair) for pair in valid]}
        known = {"fates": blake2b(fates).hexdigest(), **told}
        write_files(
            folder,
            {"fates": lambda path: path.write_bytes(fates), SELECTION: lambda path: write_json(path, known)},
        )

    def _cleaner(self) -> Cleaner:
        """What leaves pairs out by [data.clean]. Raises ValueError with its faults."""
        languages = [(corpus.source_language, corpus.target_language) for corpus in self.corpora]
        held_out = (pair for part in (*self.valid_parts, *self.test_parts) for pair in part.texts())
        return Cleaner(self.config.clean, languages, held_out)

    def _leave_out(self, fates: bytearray, tally: Tally, valid: Sequence[Pair]) -> None:
        """What overlaps with the pairs that are held out. Those are chosen by their sources as they are spelt, and
        `overlap` compares more loosely."""
        cleaner = Cleaner(CleanConfig(overlap=self.config.clean.overlap), held_out=valid)
        left_out = EMPTY + [*RULES].index("overlap")
        for at, (number, pair, fate) in enumerate(self.read(bytes(fates))):
            if fate == KEPT and cleaner.reason(pair) == "overlap":
                tally.add("overlap", self.place(number, pair))
                fates[at] = left_out

    def _hold_out(self, fates: bytearray, hashes: np.ndarray) -> None:
        every = np.frombuffer(fates, np.uint8)
        left = np.flatnonzero(every <= EMPTY)
        try:
            held = hold_out(hashes, every[left] == KEPT, self.config.holdout_share, self.config.holdout_most)
        except ValueError as error:
            names = ", ".join(str(path) for part in self.parts[:2] for path in part.paths)
            raise ValueError(f"{names}: {error}") from error
        for index in left[held].tolist():
            fates[index] = HELD

    def read(self, fates: bytes | None = None) -> Iterator[tuple[int, Pair, int]]:
        """Every pair with the number of its part and its fate. Raises ValueError where files changed meanwhile."""
        left = iter(self.selection.fates if fates is None else fates)
        for number, part in enumerate(self.parts):
            for pair in self._in_context(part, Tally()):
                if (fate := next(left, None)) is None:
                    raise self._changed(part)
                yield number, pair, fate
        if next(left, None) is not None:
            raise self._changed(self.parts[-1])

    def _changed(self, part: Part) -> ValueError:
        """The fault, after forgetting what was decided and encoded before, so that the next start reads anew."""
        for name in self.used:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        return ValueError(f"{part.paths[0]}: changed while it was read; begin again")

    def _in_context(self, part: Part, tally: Tally) -> Iterator[Pair]:
        """The pairs of a part, each with the sources before it, whatever becomes of those."""
        if not (num := self.config.context):
            return part.read(tally)
        pairs = preceding(part.read(tally), num, lambda pair: plain(pair.source))
        return (pair._replace(context=before) for pair, before in pairs)

    # ---- pieces and tokens ----

    def tokenizers(self, recipe: Recipe, shrink: bool) -> tuple[TokenizerPair, Recipe]:
        """Vocabularies learnt from the training pairs, or those that are named; shrink: take what the data gives."""
        config = recipe.tokenizer
        if config.kind == "file":
            return TokenizerPair.train((), (), config), recipe
        try:
            return self._learnt(config), recipe
        except VocabularyTooLarge as error:
            if not shrink:
                raise
            log.info("vocabulary: %s pieces, all that the data gives", f"{error.largest:,}")
            config = config.model_copy(update={"vocab_size": error.largest})
            return self._learnt(config), recipe.model_copy(update={"tokenizer": config})

    def _learnt(self, config: TrainedTokenizerConfig) -> TokenizerPair:
        """The vocabularies that these settings give on these pairs, kept in the store."""
        folder = self.folder / f"pairs-{self.key}" / f"tokenizer-{key_of(config.model_dump(mode='json'))}"
        kept = self.selection.fates.count(KEPT)
        with locked(self.folder):
            if not folder.exists():
                if kept > SAMPLE:
                    told = "tokenizer: learning from about %s of the %s pairs, chosen by a hash of the source"
                    log.info(told, f"{SAMPLE:,}", f"{kept:,}")
                made = TokenizerPair.train(self._texts(0, kept), self._texts(1, kept), config)
                begun = folder.with_name(f"{folder.name}.tmp")
                write_files(begun, made.files())
                begun.rename(folder)
            return TokenizerPair.load(folder)

    def _texts(self, side: int, kept: int) -> Iterator[str]:
        """What the vocabulary of one side learns from."""
        for _, pair, fate in self.read():
            if fate == KEPT and (kept <= SAMPLE or crc32(plain(pair.source).encode()) * kept < SAMPLE << 32):
                yield plain(pair.target if side else pair.source)

    def examples(self, tokenizers: TokenizerPair, max_len: int) -> tuple[Examples, list[str]]:
        """The training pairs as token ids, and what was left out, in words."""
        tags = [corpus.tags for corpus in self.corpora]
        config, vocabularies = self.config, [tokenizer.to_json() for tokenizer in tokenizers]
        key = key_of([self.key, vocabularies, max_len, tags, config.sprinkle, config.matches])
        size = max(tokenizer.vocab_size for tokenizer in tokenizers)
        build = Build(key, "uint16" if size <= 1 << 16 else "uint32", self._rows(self.encoder(tokenizers, max_len)))
        seen, left = self.selection.seen, self.selection.tally  # before the lock: both take it
        self.used.add(f"tokens-{key}")
        with locked(self.folder):
            shards, more = stored(self.folder / f"tokens-{key}", build)
        corpora = [part.corpus for part in self.parts]
        examples = Examples(shards, lambda part, number: self.parts[part].place(number), corpora)
        return examples, left.words(seen) + more.words(seen, max_len)

    def encoder(self, tokenizers: TokenizerPair, max_len: int) -> Encoder:
        """What makes token ids of the training pairs."""
        tags = [corpus.tags for corpus in self.corpora]
        return Encoder(tokenizers, max_len, tags, self.config.sprinkle, self.similar)

    def similar(self, source: Parts) -> Parts | None:
        """What training reads with a source where data.matches asks for it: see `Memory.similar`."""
        return self._memory.similar(source, self.config.matches) if self.config.matches else None

    @cached_property
    def _memory(self) -> Memory:
        """The training pairs to look up in."""
        log.info("memory: reading the pairs to look for similar ones in")
        return Memory.of(pair for _, pair, fate in self.read() if fate == KEPT)

    def _rows(self, encoder: Encoder) -> Callable[[int, Tally], Iterator[tuple[int, list[Row]]]]:
        def rows(read: int, tally: Tally) -> Iterator[tuple[int, list[Row]]]:
            stream = islice(self.read(), read, None)
            while chunk := list(islice(stream, CHUNK)):
                read += len(chunk)
                kept = [(number, pair) for number, pair, fate in chunk if fate == KEPT]
                yield read, [row for row in encoder.rows(kept, tally, self.place) if row is not None]

        return rows

    def place(self, part: int, pair: Pair) -> str:
        """Where a pair stands, for people."""
        return self.parts[part].place(pair.number, pair.place)

    def weights(self, examples: Examples) -> list[float]:
        """How often an epoch has the examples of each corpus."""
        if self.config.temperature is None:
            return [corpus.weight for corpus in self.corpora]
        return tempered(examples.sizes, self.config.temperature)

    def forget_others(self) -> None:
        """Remove from the store what is of another run."""
        for folder in (*self.folder.glob("pairs-*"), *self.folder.glob("tokens-*")):
            if folder.name not in self.used:
                shutil.rmtree(folder)

    @property
    def valid_tags(self) -> list[Sequence[str]]:
        """Tags of the pairs to validate on, by their corpus."""
        if not self.valid_parts:
            return [corpus.tags for corpus in self.corpora]
        return [self.corpora[0].tags if self.config.valid_tags is None else self.config.valid_tags]


def reading_of(parts: Sequence[Part]) -> list[Any]:
    """How the pairs of these are read, as JSON data."""
    return [(part.corpus, part.kind, part.config.model_dump(include=set(READING))) for part in parts]


def all_parts(named: Mapping[str, Sequence[CorpusConfig]]) -> list[list[Part]]:
    """The files of several groups of corpora. Raises ValueError with the faults of all."""
    found, faults = [], []
    for where, corpora in named.items():
        try:
            found.append(find_parts(corpora, where))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("\n".join(faults))
    return found


SELECTION = "selection.json"


def load_selection(folder: Path) -> Selection | None:
    """What `Corpus` decided before; None where it has not, or where that is damaged."""
    path = folder / SELECTION
    try:
        known, fates = json.loads(path.read_bytes()), (folder / "fates").read_bytes()
        if blake2b(fates).hexdigest() != known["fates"]:
            raise ValueError("the checksum of fates is another")
        if known["rules"] != [*RULES]:
            raise ValueError("its rules are others")
        return Selection(fates, Tally(**known["tally"]), [from_json(pair) for pair in known["valid"]])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("%s: is damaged (%s); reading the files again", path, error)
        return None


def as_json(pair: Pair) -> list[Any]:
    source, target = [[part if isinstance(part, str) else vars(part) for part in side] for side in pair[:2]]
    return [source, target, *pair[2:]]


def from_json(data: list[Any]) -> Pair:
    source, target = [tuple(part if isinstance(part, str) else Code(**part) for part in side) for side in data[:2]]
    return Pair(source, target, *data[2:5], *map(tuple, data[5:]))
