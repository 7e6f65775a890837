"""Vocabularies made elsewhere behave as their own libraries run them, under our numbers."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
from itertools import islice
from pathlib import Path

import pytest
import sentencepiece
import tiktoken
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headway.config import FileTokenizerConfig
from headway.text.imports import Subwords, read_engine
from headway.text.tokenizer import UNK, Tokenizer, TokenizerPair

TEXTS = [
    "",
    " ",
    "Hello world, it's 3.14 — or not!",
    "  lead, trail and   between  ",
    "tab\tand\nbreak\r\n",
    "\x00NUL",
    "犬を見る。日本語のテキスト",
    "Ünïcödé ﬁ ① ｶﾞ e\u0301 한국어 שלום",
    "mug 😀 👩‍👩‍👧",
    "▁lower ▁one",
    "under_score back\\slash \\10; \\u",
    "a" * 300,
    "x = [1, 2]; # don't 'quote' we'll they've I'm",
]


def texts_of(corpora: Path) -> list[str]:
    lines = []
    for side in ("en", "de"):
        with gzip.open(corpora / "multi30k" / f"train.{side}.gz", "rt", encoding="utf-8") as file:
            lines += [line.rstrip("\n") for line in islice(file, 700)]
    return [*TEXTS, *lines]


def assert_numbers_are(tokenizer: Tokenizer, texts: list[str], wanted: list[list[int]]) -> None:
    """Encoded texts, in the file's own numbers."""
    for text, ids, numbers in zip(texts, tokenizer.encode_batch(texts), wanted, strict=True):
        assert [tokenizer.original_ids[number] for number in ids] == numbers, text


def some_ids(tokenizer: Tokenizer, count: int) -> list[list[int]]:
    dice, pieces = random.Random(1), range(tokenizer.atom_ids.stop, tokenizer.vocab_size)
    return [dice.choices(pieces, k=dice.randrange(1, 12)) for _ in range(count)]


# ---- SentencePiece ----


def assert_is_sentencepiece(tokenizer: Tokenizer, own: sentencepiece.SentencePieceProcessor, texts: list[str]) -> None:
    assert_numbers_are(tokenizer, texts, own.encode(texts))
    for text in texts:
        assert tokenizer.decode([n for n in tokenizer.encode(text) if n != UNK]) == own.decode(
            [n for n in own.encode(text) if n != own.unk_id()]
        )
    for ids in some_ids(tokenizer, 300):
        assert tokenizer.decode(ids) == own.decode([tokenizer.original_ids[number] for number in ids])


def test_llama_is_as_sentencepiece_runs_it(corpora: Path) -> None:
    path = corpora / "tokenizers" / "llama2_tokenizer.model"
    tokenizer, own = Tokenizer.read(path), sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    assert_is_sentencepiece(tokenizer, own, texts_of(corpora))
    assert tokenizer.original_ids[:4] == (None, 1, 2, 0)
    assert tokenizer.vocab_size == 32_000 + 1


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity", "nfkc_cf"])
def test_any_sentencepiece_model_is_as_sentencepiece_runs_it(kind: str, rule: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.replace("\n", " ").replace("\0", "") for text in TEXTS * 3),
        model_writer=file,
        model_type=kind,
        vocab_size=420 if kind in {"bpe", "unigram"} else 60,
        hard_vocab_limit=False,
        byte_fallback=kind in {"bpe", "unigram"},
        normalization_rule_name=rule,
        user_defined_symbols=["<name>", "▁or"],
        control_symbols=["<2de>"],
        add_dummy_prefix=rule != "identity",
        remove_extra_whitespaces=rule != "identity",
        minloglevel=2,
    )
    path = tmp_path / "some.spm"
    path.write_bytes(file.getvalue())
    tokenizer, own = Tokenizer.read(path), sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    assert_is_sentencepiece(tokenizer, own, [*TEXTS, "ask <name> or <2de> <s>"])
    assert tokenizer.atoms == ("<2de>",)
    assert kind == "word" or own.piece_to_id("<name>") in [
        tokenizer.original_ids[n] for n in tokenizer.encode("ask <name>")
    ]


# ---- Hugging Face ----


def assert_is_library(tokenizer: Tokenizer, own: tokenizers.Tokenizer, texts: list[str]) -> None:
    own.no_truncation()
    own.no_padding()
    own.encode_special_tokens = True
    wanted = [found.ids for found in own.encode_batch(texts, add_special_tokens=False)]
    assert_numbers_are(tokenizer, texts, wanted)
    for ids in some_ids(tokenizer, 300):
        numbers = [tokenizer.original_ids[number] for number in ids]
        assert tokenizer.decode(ids) == own.decode(numbers, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("name", "heads", "atoms"),
    [
        ("bert_uncased_tokenizer.json", (0, None, None, 100), ["[CLS]", "[MASK]", "[SEP]"]),
        ("flan_t5_tokenizer.json.gz", (0, None, 1, 2), [f"<extra_id_{number}>" for number in range(100)]),
    ],
)
def test_a_published_tokenizer_json_is_as_the_library_runs_it(
    corpora: Path, name: str, heads: tuple[int | None, ...], atoms: list[str]
) -> None:
    path = corpora / "tokenizers" / name
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    tokenizer = Tokenizer.read(path)
    assert_is_library(tokenizer, tokenizers.Tokenizer.from_str(data.decode()), texts_of(corpora))
    assert tokenizer.original_ids[:4] == heads
    assert sorted(tokenizer.atoms) == sorted(atoms)
    long = "word " * 700
    assert len(tokenizer.encode(long)) >= 700  # the file says to cut at 128, or at 48


def byte_level(folder: Path) -> tuple[Path, tokenizers.Tokenizer]:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TEXTS * 2, trainer)
    path = folder / "gpt.json"
    inner.save(str(path))
    return path, inner


def test_a_byte_level_bpe_is_as_the_library_runs_it_and_lossless(tmp_path: Path) -> None:
    path, own = byte_level(tmp_path)
    tokenizer = Tokenizer.read(path)
    assert tokenizer.lossless
    assert tokenizer.original_ids[:5] == (None, None, 0, None, 1)
    assert_is_library(tokenizer, own, TEXTS)
    for text in [*TEXTS, "<|endoftext|>"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_unknown_token_may_be_another_or_none(tmp_path: Path) -> None:
    path, _ = byte_level(tmp_path)
    known = json.loads(path.read_text(encoding="utf-8"))
    for change, wanted in (({"unk_token": "<|endoftext|>"}, None), ({"unk_token": "A"}, known["model"]["vocab"]["A"])):
        path.write_text(json.dumps(known | {"model": known["model"] | change}), encoding="utf-8")
        assert Tokenizer.read(path).original_ids[:4] == (None, None, 0, wanted)
    pieces = {"<s>": 0, "None": 1, "dog": 2}
    inner = tokenizers.Tokenizer(models.WordLevel(pieces, unk_token="dog"))
    known = json.loads(inner.to_str())
    path.write_text(json.dumps(known | {"model": known["model"] | {"unk_token": ""}}), encoding="utf-8")
    assert Tokenizer.read(path).original_ids == (None, None, None, None, 0, 1, 2)


def test_what_changes_texts_is_not_called_lossless(tmp_path: Path) -> None:
    path, _ = byte_level(tmp_path)
    known = json.loads(path.read_text(encoding="utf-8"))
    changes = [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": known["pre_tokenizer"] | {"add_prefix_space": True}},
        {"decoder": None},
        {
            "added_tokens": [
                *known["added_tokens"],
                known["added_tokens"][0] | {"id": 340, "content": "§", "special": False},
            ]
        },
    ]
    for change in changes:
        path.write_text(json.dumps(known | change), encoding="utf-8")
        tokenizer = Tokenizer.read(path)
        assert not tokenizer.lossless, change
        assert_is_library(tokenizer, tokenizers.Tokenizer.from_file(str(path)), TEXTS)


def test_a_special_token_that_the_model_finds_in_a_text_is_unknown_there(tmp_path: Path) -> None:
    """A Unigram takes `</s>` for the piece that it has; to us the user typed four characters."""
    inner = tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", 0.0), ("a", -1.0), ("<", -2.0)], unk_id=0))
    inner.normalizer = normalizers.NFC()
    inner.add_special_tokens(["<unk>", "</s>"])
    path = tmp_path / "some.json"
    inner.save(str(path))
    tokenizer = Tokenizer.read(path)
    assert tokenizer.encode("a</s>a") == [4, UNK, 4]


# ---- GPT-2's ranks ----

GPT2_WORDS = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def test_ranks_are_as_tiktoken_runs_them(corpora: Path) -> None:
    path = corpora / "tokenizers" / "gpt2.tiktoken"
    ranks = {base64.b64decode(piece): int(rank) for piece, rank in map(bytes.split, path.read_bytes().splitlines())}
    own = tiktoken.Encoding("gpt2", pat_str=GPT2_WORDS, mergeable_ranks=ranks, special_tokens={})
    tokenizer, texts = Tokenizer.read(path), texts_of(corpora)
    assert tokenizer.lossless
    assert_numbers_are(tokenizer, texts, [own.encode(text) for text in texts])
    assert [tokenizer.decode(tokenizer.encode(text)) for text in texts] == texts
    for ids in some_ids(tokenizer, 300):
        assert tokenizer.decode(ids) == own.decode([tokenizer.original_ids[number] for number in ids])


# ---- tensor2tensor ----


def letters(extra: str) -> list[str]:
    return [*sorted(set("\\_u;0123456789" + extra))]


def test_a_run_is_escaped_as_tensor2tensor_escapes_it() -> None:
    """The example of tensor2tensor's own test of `_escape_token`, with these letters as its alphabet."""
    engine = Subwords(letters("abcdefghijklmnopqrstuvwxyz .\n"))
    pieces = [engine._pieces[number] for number in engine._cut("Foo! Bar.\nunder_score back\\slash")]
    assert "".join(pieces) == r"\70;oo\33; \66;ar.\10;under\uscore back\\slash_"


def test_a_text_is_cut_into_runs_as_tensor2tensor_says() -> None:
    """The example in the description of tensor2tensor's tokenizer: a single space between words is left out."""
    runs = ["Dude_", " - _", "that_", "'_", "s_", "so_", "cool_", "._"]
    tokenizer = Tokenizer(Subwords(["<pad>", "<EOS>", *runs, *letters("<pad>EOSDudethatsocool -'.")]))
    ids = tokenizer.encode("Dude - that's so cool.")
    assert [tokenizer.original_ids[number] for number in ids] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert tokenizer.decode(ids) == "Dude - that's so cool."
    assert tokenizer.original_ids[:4] == (0, None, 1, None)


def test_the_longest_piece_is_taken_first() -> None:
    engine = Subwords([*letters("abc"), "ab", "abc", "bc_", "c_"])
    names = [[engine._pieces[number] for number in row] for row in engine.encode_batch(["abbc", "abcc", "ababc"])]
    assert names == [["ab", "bc_"], ["abc", "c_"], ["ab", "abc", "_"]]


@pytest.mark.parametrize("name", ["wmt32k.32768", "wmt8k.8192"])
def test_the_published_subwords_keep_every_text(corpora: Path, name: str) -> None:
    path = corpora / "tokenizers" / f"t2t_vocab.translate_ende_{name}.subwords"
    tokenizer, texts = Tokenizer.read(path), texts_of(corpora)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)] == texts
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert tokenizer.vocab_size == len(lines) + 2
    there = {line[1:-1] for line in lines}
    for ids in tokenizer.encode_batch(texts[-50:]):  # each is the longest piece of the file at its place
        spelled = [lines[tokenizer.original_ids[number] or 0][1:-1] for number in ids]
        rest = "".join(spelled)
        for piece in spelled:
            run = rest[: rest.index("_") + 1]
            assert not any(run[:end] in there for end in range(len(piece) + 1, len(run) + 1))
            rest = rest.removeprefix(piece)


# ---- bad files ----


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.txt", b"x", r"is no tokenizer by its name; those that can be read end in \.model, \.spm, \.json"),
        ("a.model", b"", "is no SentencePiece model: it is empty"),
        ("a.model", b"junk", "is no SentencePiece model"),
        ("a.json", b"{", "is damaged, or no tokenizer"),
        ("a.json", b"[]", "is damaged, or no tokenizer"),
        ("a.json", b'{"model": {"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}}', "encode at random"),
        ("a.subwords", b"'the_'\n'a'\n", "is no list of subwords, or cut: it has no piece for"),
        ("a.subwords", b"\xff", "is damaged"),
        ("a.tiktoken", b"!!! 0\n", "is damaged"),
        ("a.tiktoken", b"YQ== 0\n", "must hold every byte"),
        ("a.json.gz", b"{}", "cannot be read"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_by_name(name: str, data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ValueError, match=told) as error:
        Tokenizer.read(path)
    assert str(path) in str(error.value)


def test_ranks_of_another_rule_of_words_are_refused(tmp_path: Path) -> None:
    pieces = [bytes([value]) for value in range(256)] + [b"%c%c" % (n // 200, n % 200) for n in range(51_200)]
    lines = [b"%s %d\n" % (base64.b64encode(piece), rank) for rank, piece in enumerate(pieces)]
    (tmp_path / "a.tiktoken").write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=r"51,456 ranks, and GPT-2's 50,257 at most"):
        read_engine(tmp_path / "a.tiktoken")
    lines = [*lines[:256], b"%s 256\n" % base64.b64encode(b"abc")]
    (tmp_path / "a.tiktoken").write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=r"rank 256, b'abc', is merged from no two pieces of lower rank"):
        read_engine(tmp_path / "a.tiktoken")


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.model: cannot be read \(No such file"):
        Tokenizer.read(tmp_path / "none.model")


def test_a_recipe_may_name_files_and_add_atoms(tmp_path: Path) -> None:
    path, own = byte_level(tmp_path)
    pair = TokenizerPair.train((), (), FileTokenizerConfig(path=str(path), placeholders=2, tags=("it",)))
    assert pair.source is pair.target
    assert pair.sizes == own.get_vocab_size() + 3 + 3
    assert pair.source.atoms == ("<x0>", "<x1>", "<it>")
    (tmp_path / "other.subwords").write_text("\n".join(letters("ab")), encoding="utf-8")
    two = TokenizerPair.train((), (), FileTokenizerConfig(path=str(path), target_path=str(tmp_path / "other.subwords")))
    assert two.sizes == (two.source.vocab_size, two.target.vocab_size)
    two.save(tmp_path)
    again = TokenizerPair.load(tmp_path)
    assert again.sizes == two.sizes
    assert again.target.encode("ab_") == two.target.encode("ab_")
