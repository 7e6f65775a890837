"""Engines: what knows the pieces of one vocabulary. `Engine` is the interface and `Trained` the one of our own kinds
(`headway.text.learn` trains it); `headway.text.imports` has those of files made elsewhere.

    bpe        merges of UTF-8 bytes (Sennrich et al. 2016, over bytes as in Radford et al. 2019); lossless
    char_bpe   merges of characters; a rare character is spelled in bytes; lossless
    unigram    the likeliest pieces of bytes (Kudo 2018); lossless
    wordpiece  the longest piece first, `##` where a word goes on (Schuster and Nakajima 2012); not lossless
    word       whole words; not lossless

No kind needs spaces: a run of letters (of Japanese, say) is one word to be cut. The last two lose words, and nothing
else: a wordpiece those with a character that it does not have, a word vocabulary those that are not in it. A text's
first word is to them as if it stood after a space. All five are run by the `tokenizers` library; the contract is
tests/contract/test_tokenizer.py.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

CONTROLS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(4)

WORDS = r" ?\w{1,64}| ?[^\w\s]|\s"
"""A word of a character kind, a space before it included. No word holds `<` and `>`, so none spells a byte `<0x41>`."""

Normalise = Literal["none", "NFC", "NFKC"]


class Engine(ABC):
    """The pieces of one vocabulary, under numbers of its own. Neither control tokens nor atoms are any text's.

    kind: of the file. numbers: all of them, ascending. controls: which of them are PAD, BOS, EOS and UNK, None for what
    it has not. atoms: further ones that no text gives, by name. lossless: whether decode(encode(s)) is s, normalised.
    """

    kind: str
    numbers: Sequence[int]
    controls: tuple[int | None, ...]
    atoms: Mapping[str, int]
    lossless: bool

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of the pieces of each text. Raises TypeError or UnicodeEncodeError for half a surrogate pair."""

    @abstractmethod
    def decode(self, numbers: Sequence[int]) -> str:
        """The text of pieces that are neither control tokens nor atoms; U+FFFD for bytes that are no character."""

    @abstractmethod
    def piece_bytes(self, number: int) -> bytes:
        """What the piece adds to a text when it comes after another."""

    @abstractmethod
    def layout(self) -> dict[str, Any]:
        """What `load` of the same class needs, as JSON."""

    def replaced(self, text: str, numbers: Sequence[int]) -> int:
        """How many characters of what `decode` gave for these numbers stand for bytes that are no character."""
        raw = b"".join(map(self.piece_bytes, numbers))
        # 0xEF begins a character wherever it stands, so this counts only those that were in the text itself.
        return text.count("\ufffd") - raw.count("\ufffd".encode())

    def piece(self, number: int) -> str:
        """A piece for people to read: its text, or its bytes as `<E3 81>` where they are no whole characters."""
        raw = self.piece_bytes(number)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return f"<{raw.hex(' ').upper()}>"


class Trained(Engine):
    """Pieces that we trained: a text's bytes are those of its pieces, one after the other."""

    controls, atoms = (PAD, BOS, EOS, UNK), {}

    def __init__(self, kind: str, inner: tokenizers.Tokenizer) -> None:
        self.kind, self.inner, self.lossless = kind, inner, kind in LOSSLESS
        # The library would read "</s>" in a text as the control token, and does not save this switch.
        inner.encode_special_tokens = True
        self.numbers = range(inner.get_vocab_size())
        self.spellings = [inner.id_to_token(number) or "" for number in self.numbers]
        if tuple(self.spellings[: len(CONTROLS)]) != CONTROLS:
            raise ValueError(f"its first pieces must be {', '.join(CONTROLS)}")
        try:
            pieces = [SPELLING[kind](piece) for piece in self.spellings[len(CONTROLS) :]]
        except KeyError as error:
            raise ValueError(f"its pieces must be spelled in the byte alphabet; {error} is not of it") from None
        if b"" in pieces or (self.lossless and not {bytes([value]) for value in range(256)} <= set(pieces)):
            raise ValueError("the vocabulary must be numbered without gaps and hold every byte")
        self._bytes = [b""] * len(CONTROLS) + pieces

    @classmethod
    def load(cls, kind: str, layout: Mapping[str, Any]) -> "Trained":
        """From what `layout` gave. Raises ValueError for another make, which would change texts."""
        inner = tokenizers.Tokenizer.from_str(json.dumps(layout))
        found, wanted = json.loads(inner.to_str()), json.loads(blank(kind, "none").to_str())
        if told := [part for part in ("post_processor", "truncation", "padding") if found[part]]:
            raise ValueError(f"it must have no {' or '.join(told)}")
        if found["added_tokens"] != wanted["added_tokens"]:
            raise ValueError(f"its added tokens must be {', '.join(CONTROLS)} with ids 0 to 3, and no others")
        if found["normalizer"] not in [json.loads(blank(kind, name).to_str())["normalizer"] for name in NORMALISE]:
            raise ValueError(f"it must have no normalizer but that of {' or '.join(NORMALISE)}")
        for part in ("pre_tokenizer", "decoder"):
            if found[part] != wanted[part]:
                raise ValueError(f"its {part} must be {json.dumps(wanted[part])}")
        for key, value in wanted["model"].items():
            if key not in {"vocab", "merges"} and found["model"].get(key) != value:
                raise ValueError(f"its model must have {key} = {json.dumps(value)}")
        return cls(kind, inner)

    def layout(self) -> dict[str, Any]:
        return json.loads(self.inner.to_str())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self.inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, numbers: Sequence[int]) -> str:
        text = b"".join([self._bytes[number] for number in numbers]).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.kind in SPACED else text

    def piece_bytes(self, number: int) -> bytes:
        return self._bytes[number]

    def piece(self, number: int) -> str:
        return self.spellings[number] if self.kind == "wordpiece" else super().piece(number)

    @cached_property
    def model(self) -> dict[str, Any]:
        """The table of pieces as the file has it, for `headway.text.noise`."""
        return self.layout()["model"]

    def words(self, text: str) -> list[str]:
        """The words of a text that are cut one by one, in the spelling of the pieces."""
        return list(words_of([text], self.inner))


def byte_letters() -> list[str]:
    """The letter that stands for each byte 0..255 in vocabulary files: printable ones as they are (GPT-2's table)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(value if value in printable else next(others)) for value in range(256)]


BYTE_OF = {letter: value for value, letter in enumerate(byte_letters())}
BYTE_PIECES = {f"<0x{value:02X}>": bytes([value]) for value in range(256)}

LOSSLESS, SPACED = {"bpe", "char_bpe", "unigram"}, {"wordpiece", "word"}

SPELLING: dict[str, Callable[[str], bytes]] = {
    "bpe": lambda piece: bytes(BYTE_OF[letter] for letter in piece),
    "unigram": lambda piece: bytes(BYTE_OF[letter] for letter in piece),
    "char_bpe": lambda piece: BYTE_PIECES.get(piece) or piece.encode(),
    "wordpiece": lambda piece: piece.removeprefix("##").encode(),
    "word": str.encode,
}
"""The bytes that a piece of each kind stands for."""

NORMALISE: dict[str, list[Any]] = {"none": [], "NFC": [normalizers.NFC()], "NFKC": [normalizers.NFKC()]}

TABLE = {token: number for number, token in enumerate(CONTROLS)}

MODELS: dict[str, Callable[[], Any]] = {
    "bpe": lambda: models.BPE(TABLE, []),
    "char_bpe": lambda: models.BPE(TABLE, [], byte_fallback=True),
    "unigram": lambda: models.Unigram([(token, 0.0) for token in CONTROLS], unk_id=UNK),
    "wordpiece": lambda: models.WordPiece(TABLE, unk_token=CONTROLS[UNK]),
    "word": lambda: models.WordLevel(TABLE, unk_token=CONTROLS[UNK]),
}


def blank(kind: str, normalise: str, model: Any = None) -> tokenizers.Tokenizer:
    """A tokenizer of a kind around a model, or with the control tokens for its only pieces."""
    inner = tokenizers.Tokenizer(model or MODELS[kind]())
    steps = [*NORMALISE[normalise], *([normalizers.Prepend(" ")] if kind in SPACED else [])]
    if steps:
        inner.normalizer = normalizers.Sequence(steps)  # pyright: ignore
    if kind in {"bpe", "unigram"}:
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # pyright: ignore
        inner.decoder = decoders.ByteLevel()  # pyright: ignore
    else:
        inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(WORDS), "isolated")  # pyright: ignore
    inner.add_special_tokens(list(CONTROLS))
    return inner


def normalised(lines: Iterable[str], inner: tokenizers.Tokenizer) -> Iterator[str]:
    return (inner.normalizer.normalize_str(line) for line in lines) if inner.normalizer else iter(lines)


def words_of(lines: Iterable[str], inner: tokenizers.Tokenizer) -> Iterator[str]:
    """The words that are cut into pieces one by one, in the spelling of the pieces."""
    assert inner.pre_tokenizer is not None
    cut = inner.pre_tokenizer.pre_tokenize_str
    return (word for line in normalised(lines, inner) for word, _ in cut(line))
