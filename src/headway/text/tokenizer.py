"""Subwords: text to token ids and back, one vocabulary for both sides or one for each.

Ids are PAD, BOS, EOS, UNK, then the atoms, then the pieces of the vocabulary. An atom (`<x0>`, a placeholder; `<it>`, a
tag) is one id that no text gives: typed, `<x0>` is four characters, as `<s>` is three. Kinds, and what each of them
loses, stand in `headway.text.pieces`; where a vocabulary is `lossless`, decode(encode(s)) == s for every text, but for
the normalisation it was trained with (`none`, NFC or NFKC), which is part of its file. The contract that every kind
passes is tests/contract/test_tokenizer.py.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field

from headway.config import FileTokenizerConfig, TrainedTokenizerConfig
from headway.strict import Config, ConfigError, validate
from headway.text.imports import ENGINES, read_engine
from headway.text.learn import VocabularyTooLarge, train
from headway.text.noise import Sampler, uniforms
from headway.text.pieces import BOS as BOS
from headway.text.pieces import CONTROLS, MODELS, UNK, Engine, Trained
from headway.text.pieces import EOS as EOS
from headway.text.pieces import PAD as PAD

LINE_SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines` breaks at, and so some program that reads our output."""

TO_SPACE = str.maketrans(dict.fromkeys(LINE_SEPARATORS, " "))

TOKENIZER, TOKENIZERS = "tokenizer.json", ("source_tokenizer.json", "target_tokenizer.json")
"""Files of a model folder: one vocabulary for both sides, or one for each."""

Part = str | int
"""A piece of text, or the id of an atom."""

NOISY = "bpe", "char_bpe", "unigram"


class Head(Config):
    """What a tokenizer.json says of itself under `headway`, besides what its engine needs."""

    kind: str | None
    atoms: Annotated[tuple[str, ...], Field(strict=False)] = ()
    noise: Annotated[float, Field(gt=0)] | None = None


class Tokenizer:
    """Encodes and decodes; made by `train`, `load` or `read`.

    atoms: their names. original_ids: the number that each id has in a file made elsewhere, None where it has none.
    lossless: whether every text comes back, normalised.
    """

    def __init__(self, engine: Engine, atoms: Sequence[str] = (), noise: float | None = None) -> None:
        """atoms: those that the engine has not. noise: dropout or alpha, for `sample`."""
        self._engine, self._added, self.noise = engine, tuple(atoms), noise
        self.atoms, self.lossless = (*engine.atoms, *atoms), engine.lossless
        if noise and engine.kind not in NOISY:
            raise ValueError(f"noise = {noise}: there is none for {engine.kind}; it is for {', '.join(NOISY)}")
        names = (*CONTROLS, *self.atoms)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"atoms need names of their own, and these are there already: {', '.join(twice)}")
        heads = (*engine.controls, *engine.atoms.values(), *[None] * len(atoms))
        taken = set(heads)
        self.original_ids = (*heads, *(number for number in engine.numbers if number not in taken))
        # What is no text's stays so, even if the engine finds it in one.
        self._ids = [UNK] * (max(engine.numbers, default=0) + 1)
        for number, original in enumerate(self.original_ids):
            if original is not None and number >= len(heads):
                self._ids[original] = number
        self._numbered_alike = isinstance(engine, Trained) and not atoms

    @classmethod
    def train(cls, texts: Iterable[str], config: TrainedTokenizerConfig) -> Self:
        """Learn a vocabulary of exactly config.vocab_size pieces, control tokens and atoms among them.

        texts: all lines that it is for. Raises VocabularyTooLarge, and ValueError where there is no text at all, or
        where the size is less than every vocabulary has.
        """
        atoms, options = config.atoms, dict(config)
        engine = train(texts, config.kind, config.vocab_size, config.normalise, len(atoms))
        return cls(engine, atoms, options.get("dropout") or options.get("alpha"))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a tokenizer.json that `save` wrote. Raises ValueError: missing, damaged, or of another make."""
        path = Path(path)
        try:
            layout = json.loads(path.read_text(encoding="utf-8"))
            told = layout.pop("headway", None) or {"kind": OLD_KINDS.get(layout["model"]["type"])}
            head, faults = validate(Head, told, ("headway",))
            if head is None:
                raise ConfigError(faults, "it")
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
        except Exception as error:
            raise damaged(path, error) from error
        try:
            return cls(engine_of(head.kind, layout), head.atoms, head.noise)
        except ValueError as error:
            remedy = "Train one with `headway tokenizer train`, or `headway tokenizer import` it"
            raise ValueError(f"{path}: {error}. {remedy}") from error
        except Exception as error:  # the library raises bare Exceptions, and names the fault in them
            raise damaged(path, error) from error

    @classmethod
    def read(cls, path: Path | str, atoms: Sequence[str] = ()) -> Self:
        """A vocabulary made elsewhere (`headway.text.imports` lists the kinds), or one of ours, with further atoms."""
        path = Path(path)
        try:
            found = cls.load(path)
        except ValueError:
            if has_head(path):
                raise
            return cls(read_engine(path), atoms)
        return cls(found._engine, (*found._added, *atoms), found.noise) if atoms else found

    def to_json(self) -> str:
        """The text of a tokenizer.json, which `load` reads: the engine's own, and what that leaves open."""
        head = Head(kind=self._engine.kind, atoms=self._added, noise=self.noise)
        plain = head == Head(kind=head.kind) and head.kind in OLD_KINDS.values()
        told = {} if plain else {"headway": head.model_dump(mode="json", exclude_defaults=True)}
        return json.dumps({**told, **self._engine.layout()}, ensure_ascii=False, indent=2)

    def save(self, path: Path | str) -> None:
        """Write one tokenizer.json, whole or not at all."""
        path = Path(path)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                file.write(self.to_json().encode())
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    # ---- text ----

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without control tokens. Raises ValueError for half a surrogate pair, which is no text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text; the texts do not touch each other."""
        try:
            found = self._engine.encode_batch(texts)
        except (TypeError, UnicodeEncodeError):
            for number, text in enumerate(texts):
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    told = f"text {number}: character {error.start} is {text[error.start]!a}, half a surrogate pair"
                    raise ValueError(f"{told}, which no UTF-8 can hold: remove it") from None
            raise
        ids = self._ids
        return found if self._numbered_alike else [[ids[number] for number in row] for row in found]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: the exact inverse of `encode`, where `lossless`. Invalid UTF-8 becomes U+FFFD.

        Control tokens (0 to 3) and atoms are skipped in silence: they stand for no text. `decode_parts` keeps atoms.
        """
        return self._engine.decode(self._originals(ids))

    def decode_line(self, ids: Iterable[int]) -> tuple[str, int]:
        """The text of ids as one line, and how many characters had to be replaced.

        Invalid UTF-8 becomes U+FFFD, and each of LINE_SEPARATORS a space. Control tokens and atoms are skipped and not
        counted.
        """
        numbers = self._originals(ids)
        text = self._engine.decode(numbers)
        replaced = self._engine.replaced(text, numbers) if "\ufffd" in text else 0
        return text.translate(TO_SPACE), replaced + sum(map(text.count, LINE_SEPARATORS))

    def _originals(self, ids: Iterable[int]) -> list[int]:
        ids, first = list(ids), self.atom_ids.stop
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            wrong = next(number for number in ids if not 0 <= number < self.vocab_size)
            raise ValueError(f"{wrong} is no piece; the vocabulary has {self.vocab_size}, from 0 on")
        if self._numbered_alike:
            return ids  # control tokens have no bytes
        return [self.original_ids[number] for number in ids if number >= first]  # pyright: ignore

    # ---- atoms ----

    @property
    def atom_ids(self) -> range:
        """Ids of the atoms: banned from the output where nothing can be made of them."""
        return range(len(CONTROLS), len(CONTROLS) + len(self.atoms))

    def atom(self, name: str) -> int:
        """The id of an atom. Raises ValueError, with those there are."""
        if name not in self.atoms:
            there = f"it has {', '.join(self.atoms)}" if self.atoms else "it has none"
            remedy = "name it in the recipe's [tokenizer] (placeholders, separator, tags) and train anew"
            raise ValueError(f"{name} is no atom of this vocabulary: {there}; {remedy}")
        return len(CONTROLS) + self.atoms.index(name)

    def encode_parts(self, parts: Sequence[Part]) -> list[int]:
        """Ids of texts and atoms in turn; an int is the id of an atom, and each text is encoded on its own."""
        return self.encode_parts_batch([parts])[0]

    def encode_parts_batch(self, rows: Sequence[Sequence[Part]]) -> list[list[int]]:
        """`encode_parts` of each. Raises ValueError for a number that is no atom's."""
        if wrong := [part for row in rows for part in row if not isinstance(part, str) and part not in self.atom_ids]:
            raise ValueError(f"{wrong[0]} is the id of no atom; those are {self._range()}")
        found = iter(self.encode_batch([part for row in rows for part in row if isinstance(part, str)]))
        return [
            [number for part in row for number in (next(found) if isinstance(part, str) else (part,))] for row in rows
        ]

    def _range(self) -> str:
        return f"{self.atom_ids.start} to {self.atom_ids.stop - 1}" if self.atoms else "none"

    def decode_parts(self, ids: Iterable[int]) -> list[Part]:
        """The texts between atoms, and the atoms' ids: the inverse of `encode_parts`. No text in it is empty."""
        runs = ((is_atom, list(some)) for is_atom, some in groupby(ids, self.atom_ids.__contains__))
        return [part for is_atom, some in runs for part in (some if is_atom else [self.decode(some)]) if part != ""]

    # ---- pieces ----

    @property
    def vocab_size(self) -> int:
        return len(self.original_ids)

    def piece(self, number: int) -> str:
        """A piece for people to read: its text, or its bytes as `<E3 81>` where they are no whole characters."""
        assert 0 <= number < self.vocab_size, number
        names = (*CONTROLS, *self.atoms)
        return names[number] if number < len(names) else self._engine.piece(*self._originals([number]))

    def piece_bytes(self, number: int) -> bytes:
        """What a piece adds to a text when it comes after another; nothing for control tokens and atoms.

        The text of `decode` is that of all of them, one after the other, but for a space at its beginning (which kinds
        that put one there drop), what the decoder of an imported tokenizer.json tidies up, and tensor2tensor's spaces.
        """
        return b"".join(map(self._engine.piece_bytes, self._originals([number])))

    @cached_property
    def line_breaking_ids(self) -> list[int]:
        """Ids of every piece that holds `\\n` or `\\r`: banned where output is lines."""
        pieces = ((number, self.piece_bytes(number)) for number in range(self.vocab_size))
        return [number for number, raw in pieces if b"\n" in raw or b"\r" in raw]

    # ---- noise ----

    def sample(self, ids: Sequence[int], key: Sequence[int]) -> list[int]:
        """The same text cut at random into other pieces, by the noise of the config; the same key gives the same.

        For training only. Raises ValueError where there is no noise.
        """
        if self._sampler is None:
            raise ValueError("this vocabulary has no noise: set tokenizer.dropout (bpe, char_bpe) or alpha (unigram)")
        draws, found = uniforms(key), []
        for part in self.decode_parts(ids):
            numbers = self._sampler(part, draws) if isinstance(part, str) else ()
            found += [self._ids[number] for number in numbers] if isinstance(part, str) else [part]
        return found

    @cached_property
    def _sampler(self) -> Sampler | None:
        return Sampler(self._engine, self.noise) if isinstance(self._engine, Trained) and self.noise else None


class TokenizerPair(NamedTuple):
    """The vocabularies of the two sides; a shared one is the same object twice."""

    source: Tokenizer
    target: Tokenizer

    @property
    def sizes(self) -> int | tuple[int, int]:
        """What `headway.build.build` takes: one number where the vocabulary is shared."""
        sizes = self.source.vocab_size, self.target.vocab_size
        return sizes[0] if self.source is self.target else sizes

    @property
    def names(self) -> str | list[str]:
        """Of the files in a model folder, as its config.json has them."""
        return TOKENIZER if self.source is self.target else [*TOKENIZERS]

    @classmethod
    def train(
        cls, sources: Iterable[str], targets: Iterable[str], config: TrainedTokenizerConfig | FileTokenizerConfig
    ) -> Self:
        """What a recipe's [tokenizer] asks for: trained on the texts of the two sides, or read from files.

        Raises as `Tokenizer.train` does; with two vocabularies, VocabularyTooLarge with what both sides give.
        """
        if isinstance(config, FileTokenizerConfig):
            source = Tokenizer.read(config.path, config.atoms)
            return cls(source, Tokenizer.read(config.target_path, config.atoms) if config.target_path else source)
        if config.shared:
            return cls(*[Tokenizer.train(chain(sources, targets), config)] * 2)
        made, refused = [], []
        for texts in (sources, targets):
            try:
                made.append(Tokenizer.train(texts, config))
            except VocabularyTooLarge as error:
                refused.append(error)
        if refused:
            raise min(refused, key=lambda error: error.largest)
        return cls(*made)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Those of a model folder. Raises ValueError as `Tokenizer.load` does, or where the folder has both forms."""
        folder = Path(folder)
        if (folder / TOKENIZERS[0]).exists():
            if (folder / TOKENIZER).exists():
                told = "a shared vocabulary and one for each side; remove what the model was not trained with"
                raise ValueError(f"{folder}: has {TOKENIZER} and {TOKENIZERS[0]}, {told}")
            return cls(*(Tokenizer.load(folder / name) for name in TOKENIZERS))
        return cls(*[Tokenizer.load(folder / TOKENIZER)] * 2)

    def files(self) -> dict[str, Callable[[Path], None]]:
        """Names in a model folder, and what writes each."""
        if self.source is self.target:
            return {TOKENIZER: self.source.save}
        return dict(zip(TOKENIZERS, (self.source.save, self.target.save), strict=True))

    def save(self, folder: Path | str) -> None:
        """Write the files of a model folder, each whole or not at all."""
        for name, write in self.files().items():
            write(Path(folder) / name)


OLD_KINDS = {"BPE": "bpe", "Unigram": "unigram"}
"""The kind of a file that names none, by its model: all that there was, and what is still written without."""


def engine_of(kind: str | None, layout: dict[str, Any]) -> Engine:
    if kind in ENGINES:
        return ENGINES[kind](layout)
    if kind in MODELS:
        return Trained.load(kind, layout)
    if kind is None:
        raise ValueError("it names no kind, and its model is neither a BPE nor a Unigram")
    raise ValueError(f"its kind is {kind!r}, and must be one of {', '.join([*MODELS, *ENGINES])}")


def has_head(path: Path) -> bool:
    try:
        return "headway" in json.loads(path.read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path}: is damaged, or no tokenizer ({error}). Copy or train it again")
