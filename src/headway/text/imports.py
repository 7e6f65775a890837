"""Engines of vocabularies that were made elsewhere. Where a library can run the file, it does; nothing is imitated.

    .model, .spm    SentencePiece, BPE or Unigram, run by `sentencepiece`: its normaliser, bytes, user-defined symbols
    .json           Hugging Face tokenizers, run by `tokenizers`, but that nothing is cut, padded or added
    .tiktoken       ranks of GPT-2's BPE (GPT-2, Whisper), run by `tokenizers`
    .subwords       tensor2tensor's subwords, by `Subwords` below

Lossless are byte-level BPE (GPT-2's, as .json or ranks) and tensor2tensor's; the others lose what their normalisers and
decoders drop (SentencePiece at least the character U+2581, which comes back as a space). In a file with .gz after its
name the same, packed. Twins: the two libraries, `tiktoken`, and values of tensor2tensor (tests/test_imports.py).
"""

import base64
import gzip
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from headway.text.pieces import BYTE_OF, BYTE_PIECES, Engine, byte_letters

NAMES = ("<pad>", "[PAD]"), ("<s>", "[BOS]"), ("</s>", "[EOS]", "<EOS>", "<|endoftext|>"), ("<unk>", "[UNK]")
"""What PAD, BOS, EOS and UNK are called elsewhere."""


def controls_of(found: Mapping[str, int]) -> tuple[int | None, ...]:
    return tuple(next((found[name] for name in names if name in found), None) for names in NAMES)


class Library(Engine):
    """A tokenizer.json of any make. What it calls special is never found in a text."""

    kind = "tokenizers"

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self.inner, self._layout = inner, json.loads(inner.to_str())
        inner.encode_special_tokens = True
        model, added = self._layout["model"], self._layout["added_tokens"]
        special = {token["content"]: token["id"] for token in added if token["special"]}
        found = inner.get_vocab(with_added_tokens=True)
        unknown = model.get("unk_token")
        if model.get("unk_id") is not None:  # that of a Unigram, whose vocabulary is a list
            unknown = model["vocab"][model["unk_id"]][0]
        self.numbers = sorted(set(found.values()))
        pad, bos, eos, unk = controls_of(special)
        unk = found.get(unknown, unk) if unknown else unk
        self.controls = pad, bos, eos, None if unk in (pad, bos, eos) else unk  # GPT-2's is its end token
        self.atoms = {name: number for name, number in special.items() if number not in self.controls}
        pre, decoder = self._layout["pre_tokenizer"] or {}, self._layout["decoder"] or {}
        self._bytewise = decoder.get("type") == "ByteLevel" and set(byte_letters()) <= found.keys()
        plain = pre.get("type") == "ByteLevel" and not pre["add_prefix_space"] and not self._layout["normalizer"]
        merges = model["type"] == "BPE" and not model["continuing_subword_prefix"] and not model["end_of_word_suffix"]
        self.lossless = self._bytewise and plain and merges and len(special) == len(added)

    @classmethod
    def load(cls, layout: Mapping[str, Any]) -> "Library":
        """From a tokenizer.json. Raises ValueError for one that would encode at random."""
        inner = tokenizers.Tokenizer.from_str(json.dumps({**layout, "post_processor": None}))
        if (layout["model"] or {}).get("dropout"):
            raise ValueError("its model has dropout and would encode at random: set model.dropout to null")
        inner.no_truncation()
        inner.no_padding()
        return cls(inner)

    def layout(self) -> dict[str, Any]:
        return self._layout

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self.inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, numbers: Sequence[int]) -> str:
        return self.inner.decode(list(numbers), skip_special_tokens=False)

    def piece_bytes(self, number: int) -> bytes:
        return self._bytes[number]

    @cached_property
    def _bytes(self) -> dict[int, bytes]:
        """By the decoder itself: what it gives for a piece after another, less that other."""
        names = {number: self.inner.id_to_token(number) or "" for number in self.numbers}
        if self._bytewise:
            spelled = {letter: bytes([value]) for letter, value in BYTE_OF.items()}
            return {n: b"".join(spelled.get(letter, letter.encode()) for letter in name) for n, name in names.items()}
        falls_back = "ByteFallback" in json.dumps(self._layout["decoder"])
        heads = {*self.controls, *self.atoms.values()}
        first = next(number for number in self.numbers if number not in heads)
        before = len(self.decode([first]))
        after = self.inner.decode_batch([[first, number] for number in self.numbers], skip_special_tokens=False)
        texts = dict(zip(self.numbers, after, strict=True))
        return {
            number: (falls_back and BYTE_PIECES.get(name)) or texts[number][before:].encode()
            for number, name in names.items()
        }


class SentencePiece(Engine):
    """A SentencePiece model. Its control symbols are never found in a text; its user-defined ones are, as there."""

    kind, lossless = "sentencepiece", False

    def __init__(self, model: bytes) -> None:
        if not model:  # which the library would take for none given
            raise ValueError("is no SentencePiece model: it is empty")
        try:
            self._inner = sentencepiece.SentencePieceProcessor(model_proto=model)  # pyright: ignore
        except RuntimeError as error:
            raise ValueError(f"is no SentencePiece model ({error})") from None
        self._model, inner = model, self._inner
        self.numbers = range(inner.get_piece_size())
        known = (inner.pad_id(), inner.bos_id(), inner.eos_id(), inner.unk_id())
        self.controls = tuple(None if number < 0 else number for number in known)
        controls = [number for number in self.numbers if inner.is_control(number) and number not in self.controls]
        self.atoms = {inner.id_to_piece(number): number for number in controls}

    @classmethod
    def load(cls, layout: Mapping[str, Any]) -> "SentencePiece":
        return cls(base64.b64decode(layout["model"], validate=True))

    def layout(self) -> dict[str, Any]:
        return {"model": base64.b64encode(self._model).decode()}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self._inner.encode(list(texts))

    def decode(self, numbers: Sequence[int]) -> str:
        return self._inner.decode(list(numbers)) if numbers else ""

    def piece_bytes(self, number: int) -> bytes:
        name = self._inner.id_to_piece(number)
        return BYTE_PIECES[name] if self._inner.is_byte(number) else name.replace("\u2581", " ").encode()


class Subwords(Engine):
    """tensor2tensor's SubwordTextEncoder: runs of letters and digits, and runs of others, each cut greedily.

    A run is written with `\\u` for `_`, `\\\\` for a backslash, `\\N;` for character number N where the pieces have no
    such, and `_` at its end; then the longest piece is taken, again and again. A single space between two runs of
    letters and digits is left out.
    """

    kind, lossless = "tensor2tensor", True

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = list(pieces)
        self.numbers = range(len(self._pieces))
        self._number_of = {piece: number for number, piece in enumerate(self._pieces) if piece}
        self._longest = max(map(len, self._pieces), default=0)
        self._alphabet = {letter for piece in self._pieces for letter in piece}
        self.controls, self.atoms = controls_of(self._number_of), {}
        if missing := sorted((self._alphabet | set("\\_u;0123456789")) - self._number_of.keys()):
            raise ValueError(f"is no list of subwords, or cut: it has no piece for {' '.join(missing[:20])}")
        self._cut = lru_cache(1 << 20)(self._cut_run)

    @classmethod
    def load(cls, layout: Mapping[str, Any]) -> "Subwords":
        return cls(layout["pieces"])

    def layout(self) -> dict[str, Any]:
        return {"pieces": self._pieces}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[number for run in runs(text) for number in self._cut(run)] for text in texts]

    def _cut_run(self, run: str) -> list[int]:
        run.encode()  # raises for half a surrogate pair
        escaped = run.replace("\\", "\\\\").replace("_", "\\u")
        letters = [x if x in self._alphabet and x != "\n" else f"\\{ord(x)};" for x in escaped]
        rest, numbers, start = "".join(letters) + "_", [], 0
        while start < len(rest):
            ends = range(min(len(rest), start + self._longest), start, -1)
            end = next(end for end in ends if rest[start:end] in self._number_of)
            numbers.append(self._number_of[rest[start:end]])
            start = end
        return numbers

    def decode(self, numbers: Sequence[int]) -> str:
        text, ended = "", False
        for escaped in filter(None, "".join(self._pieces[number] for number in numbers).split("_")):
            run = unescaped(escaped)
            text += f" {run}" if ended and run and is_word(run[0]) else run
            ended = is_word(run[0]) if run else ended
        return text

    def replaced(self, text: str, numbers: Sequence[int]) -> int:
        escaped = "".join(self._pieces[number] for number in numbers)
        written = sum(int(found or 0) == 0xFFFD for found in ESCAPE.findall(escaped))
        return text.count("\ufffd") - escaped.count("\ufffd") - written

    def piece_bytes(self, number: int) -> bytes:
        piece = self._pieces[number]
        text = unescaped(piece.removesuffix("_"))
        return (f"{text} " if piece.endswith("_") and is_word(text[-1:] or "a") else text).encode()


@lru_cache(1 << 16)
def is_word(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LN"


def runs(text: str) -> list[str]:
    found = ["".join(letters) for _, letters in groupby(text, is_word)]
    return [run for at, run in enumerate(found) if run != " " or at in (0, len(found) - 1)]


ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]{1,8});")


def unescaped(text: str) -> str:
    """What an escaped run stands for; U+FFFD for the number of no character."""

    def letter(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        value = int(match[1])
        return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd"

    return ESCAPE.sub(letter, text)


# ---- files ----


def read_sentencepiece(data: bytes) -> Engine:
    return SentencePiece(data)


def read_json(data: bytes) -> Engine:
    return Library.load(json.loads(data))


def read_subwords(data: bytes) -> Engine:
    lines = [line.strip() for line in data.decode().removesuffix("\n").split("\n")]
    return Subwords([line[1:-1] if line[:1] in "'\"" and line[:1] == line[-1:] else line for line in lines])


GPT2_RANKS = 50_257


def read_ranks(data: bytes) -> Engine:
    """Ranks as the merges that they stand for: the rank of a piece is that of the pair that it is merged from."""
    lines = [line.split() for line in data.splitlines() if line.strip()]
    ranks = {base64.b64decode(piece, validate=True): int(rank) for piece, rank in lines}
    if not {bytes([value]) for value in range(256)} <= ranks.keys() or sorted(ranks.values()) != list(
        range(len(lines))
    ):
        raise ValueError("must hold every byte, and number its pieces from 0 on without gaps")
    if len(ranks) > GPT2_RANKS:
        raise ValueError(f"has {len(ranks):,} ranks, and GPT-2's {GPT2_RANKS:,} at most: another rule cuts its words")
    letters = byte_letters()
    spelled = {piece: "".join(letters[value] for value in piece) for piece in ranks}
    longer = [piece for piece in sorted(ranks, key=ranks.__getitem__) if len(piece) > 1]
    merges = [(spelled[one], spelled[other]) for one, other in (halves(piece, ranks) for piece in longer)]
    model = models.BPE({spelled[piece]: rank for piece, rank in ranks.items()}, merges, ignore_merges=True)
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # pyright: ignore
    inner.decoder = decoders.ByteLevel()  # pyright: ignore
    return Library(inner)


def halves(piece: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """The two pieces of lower rank that merging the bytes of this one ends in."""
    parts = [bytes([value]) for value in piece]
    while len(parts) > 2:
        pairs = [ranks.get(one + other, len(ranks)) for one, other in pairwise(parts)]
        at = min(range(len(pairs)), key=pairs.__getitem__)
        if pairs[at] >= ranks[piece]:
            raise ValueError(f"rank {ranks[piece]}, {piece!r}, is merged from no two pieces of lower rank")
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


READERS: dict[str, Callable[[bytes], Engine]] = {
    ".model": read_sentencepiece,
    ".spm": read_sentencepiece,
    ".json": read_json,
    ".subwords": read_subwords,
    ".tiktoken": read_ranks,
}


def read_engine(path: Path) -> Engine:
    """The vocabulary in a file made elsewhere. Raises ValueError: missing, damaged, or of no kind in READERS."""
    name = path.name.removesuffix(".gz")
    read = READERS.get(Path(name).suffix.lower())
    if read is None:
        raise ValueError(f"{path}: is no tokenizer by its name; those that can be read end in {', '.join(READERS)}")
    try:
        data = path.read_bytes()
        return read(gzip.decompress(data) if name != path.name else data)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # the libraries raise bare Exceptions, and name the fault in them
        raise ValueError(f"{path}: is damaged, or no tokenizer ({error}). Copy it again") from error


ENGINES: dict[str, Callable[[Mapping[str, Any]], Engine]] = {
    cls.kind: cls.load for cls in (Library, SentencePiece, Subwords)
}
"""By the kind that a tokenizer.json names."""
