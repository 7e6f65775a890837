"""Subwords: text to token ids and back, byte-level BPE (the default) or Unigram, one joint vocabulary for both sides.

Both work on UTF-8 bytes, of which all 256 are pieces, so every text has an encoding and decode(encode(s)) == s; nothing
is normalised. Only the four control tokens below are outside of text: `<s>` typed by a user is three characters.
BPE: Sennrich et al. 2016, over bytes as in Radford et al. 2019; Unigram: Kudo 2018. Trained by the `tokenizers`
library, whose decoder is the twin of `decode` in tests/test_tokenizer.py.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.config import BPEConfig, UnigramConfig
from headway.text.unigram import train_unigram

CONTROLS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
SMALLEST = 256 + len(CONTROLS)

LONGEST_LINE, SLICE = 1000, 100
"""A longer line is cut into slices while training, since a word of a megabyte would cost minutes and teach nothing."""

LINE_SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines` breaks at, and so some program that reads our output."""

ABSENT = "normalizer", "post_processor", "truncation", "padding"
"""Parts of a tokenizer.json that must be null: each would change texts, or cut or add ids."""

TO_SPACE = str.maketrans(dict.fromkeys(LINE_SEPARATORS, " "))


class VocabularyTooLarge(ValueError):
    """More pieces were asked for than the texts give; `largest` is how many they give."""

    def __init__(self, asked: int, largest: int) -> None:
        super().__init__(
            f"tokenizer.vocab_size = {asked}: these texts give {largest} pieces at most; "
            f"take {largest} or fewer, or give more text"
        )
        self.largest = largest


class Tokenizer:
    """Encodes and decodes; made by `train` or `load`."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        # The library would read "</s>" in a text as the control token, and does not save this switch.
        inner.encode_special_tokens = True
        letters = byte_letters()
        values = {letter: value for value, letter in enumerate(letters)}
        self._pieces = [inner.id_to_token(number) or "" for number in range(inner.get_vocab_size())]
        self._bytes = [b""] * len(CONTROLS)
        try:
            if tuple(self._pieces[: len(CONTROLS)]) != CONTROLS:
                raise ValueError(f"its first pieces must be {', '.join(CONTROLS)}")
            self._bytes += [bytes(values[letter] for letter in piece) for piece in self._pieces[len(CONTROLS) :]]
            if b"" in self._bytes[len(CONTROLS) :] or not {bytes([value]) for value in range(256)} <= set(self._bytes):
                raise ValueError("the vocabulary must be numbered without gaps and hold every byte")
        except KeyError as error:
            raise ValueError(f"its pieces must be spelled in the byte alphabet; {error} is not of it") from None

    @classmethod
    def train(cls, texts: Iterable[str], config: BPEConfig | UnigramConfig) -> Self:
        """Learn a vocabulary of exactly config.vocab_size pieces, the control tokens among them.

        texts: lines of both sides. Raises VocabularyTooLarge, and ValueError where there is no text at all, or where
        the size is less than every vocabulary has.
        """
        if config.vocab_size < SMALLEST:
            told = f"every vocabulary has 256 bytes and {len(CONTROLS)} control tokens; take {SMALLEST} or more"
            raise ValueError(f"tokenizer.vocab_size = {config.vocab_size}: {told}")
        letters = sorted(byte_letters())
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        lines = (text for text in slices(texts) if text)
        first = next(lines, None)
        if first is None:
            raise ValueError("there is no text to train a tokenizer on: all lines are empty")
        lines = chain([first], lines)
        if config.kind == "bpe":
            inner = tokenizers.Tokenizer(models.BPE())
            inner.pre_tokenizer = words  # pyright: ignore
            trainer = trainers.BpeTrainer(
                vocab_size=config.vocab_size,
                min_frequency=2,  # a pair seen once makes a piece that nothing could teach
                special_tokens=list(CONTROLS),
                initial_alphabet=letters,
                show_progress=False,
            )
            inner.train_from_iterator(lines, trainer)
        else:
            counts = Counter(word for line in lines for word, _ in words.pre_tokenize_str(line))
            pieces = train_unigram(counts, letters, config.vocab_size - len(CONTROLS))
            inner = tokenizers.Tokenizer(models.Unigram([(token, 0.0) for token in CONTROLS] + pieces, unk_id=UNK))
            inner.pre_tokenizer = words  # pyright: ignore
            inner.add_special_tokens(list(CONTROLS))
        inner.decoder = decoders.ByteLevel()  # pyright: ignore
        if inner.get_vocab_size() < config.vocab_size:
            raise VocabularyTooLarge(config.vocab_size, inner.get_vocab_size())
        return cls(inner)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a tokenizer.json that `save` wrote. Raises ValueError: missing, damaged, or of another make."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            layout = json.loads(text)
            inner = tokenizers.Tokenizer.from_str(text)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
        except Exception as error:  # the library raises bare Exceptions, and names the fault in them
            raise ValueError(f"{path}: is damaged, or no tokenizer ({error}). Copy or train it again") from error
        try:
            if found := [part for part in ABSENT if layout.get(part)]:
                raise ValueError(f"it must have no {' or '.join(found)}")
            pre, decoder, model = (layout[part] or {} for part in ("pre_tokenizer", "decoder", "model"))
            if pre.get("type") != "ByteLevel" or pre.get("add_prefix_space") or not pre.get("use_regex", True):
                raise ValueError("its pre_tokenizer must be a ByteLevel that adds no space and splits words")
            if (
                decoder.get("type") != "ByteLevel"
                or model.get("type") not in {"BPE", "Unigram"}
                or model.get("dropout")
            ):
                raise ValueError("it must be a BPE without dropout or a Unigram, with a ByteLevel decoder")
            added = [(token["id"], token["content"], token["special"]) for token in layout["added_tokens"]]
            if added != [(number, token, True) for number, token in enumerate(CONTROLS)]:
                raise ValueError(f"its added tokens must be {', '.join(CONTROLS)} with ids 0 to 3, and no others")
            return cls(inner)
        except ValueError as error:
            raise ValueError(f"{path}: {error}. Train one with `headway tokenizer train`") from error

    def to_json(self) -> str:
        """The text of a tokenizer.json, which `load` reads."""
        return self._inner.to_str(pretty=True)

    def save(self, path: Path | str) -> None:
        """Write one tokenizer.json (the `tokenizers` format), whole or not at all."""
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

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without control tokens. Raises ValueError for half a surrogate pair, which is no text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text; the texts do not touch each other."""
        try:
            return [found.ids for found in self._inner.encode_batch_fast(list(texts), add_special_tokens=False)]
        except TypeError:
            for number, text in enumerate(texts):
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    found = f"text {number}: character {error.start} is {text[error.start]!a}, half a surrogate pair"
                    raise ValueError(f"{found}, which no UTF-8 can hold: remove it") from None
            raise

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: the exact inverse of `encode`. Invalid UTF-8 becomes U+FFFD.

        Control tokens (0 to 3) are skipped in silence: they stand for no text, and no hypothesis of a search holds one.
        """
        return self._join(ids).decode("utf-8", errors="replace")

    def decode_line(self, ids: Iterable[int]) -> tuple[str, int]:
        """The text of ids as one line, and how many characters had to be replaced.

        Invalid UTF-8 becomes U+FFFD, and each of LINE_SEPARATORS a space. Control tokens are skipped and not counted.
        """
        raw = self._join(ids)
        text = raw.decode("utf-8", errors="replace")
        # 0xEF begins a character wherever it stands, so this counts only those that were in the text itself.
        replaced = text.count("\ufffd") - raw.count("\ufffd".encode())
        return text.translate(TO_SPACE), replaced + sum(map(text.count, LINE_SEPARATORS))

    def _join(self, ids: Iterable[int]) -> bytes:
        ids = list(ids)
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            wrong = next(number for number in ids if not 0 <= number < self.vocab_size)
            raise ValueError(f"{wrong} is no piece; the vocabulary has {self.vocab_size}, from 0 on")
        return b"".join([self._bytes[number] for number in ids])

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    def piece(self, number: int) -> str:
        """A piece for people to read: its text, or its bytes as `<E3 81>` where they are no whole characters."""
        assert 0 <= number < self.vocab_size, number
        if number < len(CONTROLS):
            return CONTROLS[number]
        try:
            return self._bytes[number].decode()
        except UnicodeDecodeError:
            return f"<{self._bytes[number].hex(' ').upper()}>"

    @property
    def line_breaking_ids(self) -> list[int]:
        """Ids of every piece that holds `\\n` or `\\r`: banned where output is lines."""
        return [number for number, raw in enumerate(self._bytes) if b"\n" in raw or b"\r" in raw]


def byte_letters() -> list[str]:
    """The letter that stands for each byte 0..255 in vocabulary files: printable ones as they are (GPT-2's table)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(value if value in printable else next(others)) for value in range(256)]


def slices(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if len(text) <= LONGEST_LINE:
            yield text
        else:
            yield from (text[start : start + SLICE] for start in range(0, len(text), SLICE))
