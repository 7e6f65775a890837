"""What every vocabulary must do, ours and imported ones. Whoever adds a kind adds a tenant here, and what it loses."""

from __future__ import annotations

import base64
import functools
import io
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from headway.config import BPEConfig, CharBPEConfig, TokenizerConfig, UnigramConfig, WordConfig, WordPieceConfig
from headway.strict import kinds, variants
from headway.text.imports import READERS
from headway.text.tokenizer import BOS, CONTROLS, EOS, PAD, UNK, Tokenizer

LINES = [
    f"{who} {how} {what}."
    for who in ("A brown dog", "Two young men", "Zwei junge Männer", "少女", "A man's friend's")
    for how in ("slowly carries", "trägt langsam", "sieht", "は")
    for what in ("a red  ball", "(the old house)", "das alte Haus", "犬を見る", "12 trees, 3.5 m high")
]
JAPANESE = "少女は犬を見る"
ATOMS = {"placeholders": 2, "separator": True, "tags": ("2de",)}
NAMES = ("<x0>", "<x1>", "<sep>", "<2de>")
TRAINED = {
    "bpe": BPEConfig(vocab_size=330, **ATOMS, dropout=0.5),
    "char_bpe": CharBPEConfig(vocab_size=360, **ATOMS, dropout=0.5),
    "unigram": UnigramConfig(vocab_size=312, **ATOMS, alpha=0.01),
    "wordpiece": WordPieceConfig(vocab_size=180, **ATOMS),
    "word": WordConfig(vocab_size=40, **ATOMS),
}


def sentencepiece_model(folder: Path) -> Path:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=file,
        vocab_size=320,
        model_type="unigram",
        byte_fallback=True,
        user_defined_symbols=["<name>"],
        control_symbols=["<lang>"],
        pad_id=3,
        minloglevel=2,
    )
    path = folder / "some.model"
    path.write_bytes(file.getvalue())
    return path


def wordpiece_json(folder: Path) -> Path:
    words = ["[PAD]", "[UNK]", "[CLS]", "dog", "##s", "brown", "a", "two", ".", "犬", "\n", "\ufffd"]
    inner = tokenizers.Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = tokenizers.decoders.WordPiece()
    inner.add_special_tokens(["[PAD]", "[UNK]", "[CLS]"])
    inner.enable_truncation(3)
    inner.enable_padding(length=9)
    path = folder / "some.json"
    inner.save(str(path))
    return path


def ranks(folder: Path) -> Path:
    pieces = [bytes([value]) for value in reversed(range(256))] + [b"he", b" t", b" the", b"\n\n"]
    pieces[-2:-2] = [b"the"]
    path = folder / "some.tiktoken"
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(piece), rank) for rank, piece in enumerate(pieces)))
    return path


def subwords(folder: Path) -> Path:
    pieces = ["<pad>", "<EOS>", "dog_", "s_", "_", ". _", *sorted(set("<pad>EOSdogs ._\\u;0123456789"))]
    path = folder / "some.subwords"
    path.write_text("".join(f"'{piece}'\n" for piece in dict.fromkeys(pieces)), encoding="utf-8")
    return path


IMPORTED: dict[str, Callable[[Path], Path]] = {
    ".model": sentencepiece_model,
    ".json": wordpiece_json,
    ".tiktoken": ranks,
    ".subwords": subwords,
}
LOSSLESS = {"bpe", "char_bpe", "unigram", ".tiktoken", ".subwords"}
EVERY = [*TRAINED, *IMPORTED]
TEXTS = (
    st.text()
    | st.text(alphabet="<>/spadunkx01 \r\n\x00\u2028犬.e\u0301")
    | st.lists(
        st.sampled_from([*CONTROLS, *NAMES, *LINES, " ", "\x00", "e\u0301", "😀", "[CLS]", "\u2581", "\u05e9\u05dc"])
    ).map("".join)
)


@functools.cache
def made(name: str) -> Tokenizer:
    if name in TRAINED:
        return Tokenizer.train(LINES, TRAINED[name])
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return Tokenizer.read(IMPORTED[name](Path(folder)), NAMES)


@pytest.fixture(params=EVERY)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return made(request.param)


def test_every_kind_is_a_tenant() -> None:
    assert {*kinds(*variants(TokenizerConfig))} == {*TRAINED, "file"}
    assert {*READERS} == {*IMPORTED, ".spm"}


@pytest.mark.parametrize("name", EVERY)
def test_it_says_whether_it_is_lossless(name: str) -> None:
    assert made(name).lossless == (name in LOSSLESS)


def test_control_tokens_come_first_then_atoms_then_pieces(tokenizer: Tokenizer) -> None:
    names = [tokenizer.piece(number) for number in range(tokenizer.atom_ids.stop)]
    assert names[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert tuple(names[4:]) == tokenizer.atoms
    assert tokenizer.atoms[-4:] == NAMES
    assert [tokenizer.atom(name) for name in tokenizer.atoms] == list(tokenizer.atom_ids)
    assert all(tokenizer.piece_bytes(number) == b"" for number in range(tokenizer.atom_ids.stop))
    assert all(
        tokenizer.piece_bytes(number)
        for number in range(tokenizer.atom_ids.stop, tokenizer.vocab_size)
        if tokenizer.piece(number) != "_" and tokenizer.piece(number).strip()
    )


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example("a<s></s> <pad><unk>b<x0><2de> [CLS] <lang><name>")
@example("  lead and trail  ")
@example("\x00")
def test_a_text_gives_pieces_only_and_comes_back_where_said(name: str, text: str) -> None:
    tokenizer = made(name)
    ids = tokenizer.encode(text)
    assert all(number == UNK or number >= tokenizer.atom_ids.stop for number in ids)
    if tokenizer.lossless:
        assert tokenizer.decode(ids) == text
        assert UNK not in ids


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=40, deadline=None)
@given(parts=st.lists(st.sampled_from(NAMES) | TEXTS.map(lambda text: f"+{text}"), max_size=6))
@example(["<x0>", "<x0>", "+dog", "+s", "<2de>"])
def test_parts_come_back_with_their_atoms_and_texts_do_not_touch_them(name: str, parts: list[str]) -> None:
    tokenizer = made(name)
    given_parts = [tokenizer.atom(part) if part in NAMES else part[1:] for part in parts]
    ids = tokenizer.encode_parts(given_parts)
    alone = [[part] if isinstance(part, int) else tokenizer.encode(part) for part in given_parts]
    assert ids == [number for some in alone for number in some]
    found = tokenizer.decode_parts(ids)
    assert [part for part in found if isinstance(part, int)] == [part for part in given_parts if isinstance(part, int)]
    assert "" not in found
    if tokenizer.lossless and name != ".subwords":  # whose words are apart by a space that is written nowhere
        texts = [part for part in found if isinstance(part, str)]
        assert "".join(texts) == "".join(part for part in given_parts if isinstance(part, str))
        assert tokenizer.decode(ids) == "".join(texts)


def test_what_is_no_atom_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"<x9> is no atom of this vocabulary: it has .*<x0>, <x1>, <sep>, <2de>"):
        tokenizer.atom("<x9>")
    for number in (EOS, tokenizer.atom_ids.stop, -1):
        with pytest.raises(ValueError, match=f"{number} is the id of no atom"):
            tokenizer.encode_parts(["a", number])


def test_a_batch_is_encoded_as_its_texts_alone(tokenizer: Tokenizer) -> None:
    texts = [*LINES[:9], "", " ", "\x00", "<x0>"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == tokenizer.encode_parts_batch([]) == []
    assert tokenizer.encode("") == tokenizer.encode_parts([]) == []
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("name", EVERY)
def test_what_was_saved_loads_and_is_the_same(name: str, tmp_path: Path) -> None:
    tokenizer, path = made(name), tmp_path / "tokenizer.json"
    tokenizer.save(path)
    for loaded in (Tokenizer.load(path), Tokenizer.read(path)):
        assert loaded.encode_batch(LINES) == tokenizer.encode_batch(LINES)
        assert loaded.to_json() == tokenizer.to_json()
        assert (loaded.atoms, loaded.noise, loaded.original_ids) == (
            tokenizer.atoms,
            tokenizer.noise,
            tokenizer.original_ids,
        )
        everything = range(tokenizer.vocab_size)
        assert [loaded.piece(number) for number in everything] == [tokenizer.piece(number) for number in everything]
    more = Tokenizer.read(path, ["<more>"])
    assert more.atoms == (*tokenizer.atoms, "<more>")
    assert more.vocab_size == tokenizer.vocab_size + 1
    assert [number - 1 if number > UNK else number for number in more.encode(LINES[0])] == tokenizer.encode(LINES[0])
    with pytest.raises(ValueError, match="these are there already: <x0>"):
        Tokenizer.read(path, ["<x0>"])


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_ids_are_one_line_and_what_was_replaced_is_counted(name: str, data: st.DataObject) -> None:
    tokenizer = made(name)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    text, count = tokenizer.decode_line(ids)
    whole = tokenizer.decode(ids)
    assert len(text.splitlines()) <= 1
    assert len(text) == len(whole)
    assert sum(x != y for x, y in zip(text, whole, strict=True)) <= count
    if name not in {".json", ".subwords"}:  # their decoders look at more than one piece
        raw = b"".join(map(tokenizer.piece_bytes, ids)).decode(errors="replace")
        # Libraries differ in how many U+FFFD stand for a character that is cut off.
        assert re.sub("\ufffd+", "\ufffd", whole) in (
            joined := re.sub("\ufffd+", "\ufffd", raw),
            joined.removeprefix(" "),
        )
    before = tokenizer.encode("dog\ufffd")
    if tokenizer.decode(before) == "dog\ufffd":
        assert tokenizer.decode_line(before) == ("dog\ufffd", 0)


def test_pieces_that_break_a_line_are_all_named(tokenizer: Tokenizer) -> None:
    allowed = [number for number in range(tokenizer.vocab_size) if number not in tokenizer.line_breaking_ids]
    assert not any({"\n", "\r"} & set(tokenizer.decode([number])) for number in allowed)
    for text in ("\n", "dog\r", "\n\n"):
        ids = tokenizer.encode(text)
        if tokenizer.decode(ids) == text and b"\\" not in b"".join(map(tokenizer.piece_bytes, ids)):
            assert set(ids) & set(tokenizer.line_breaking_ids)


def test_half_a_surrogate_pair_is_refused_with_its_place(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"text 1: character 2 is '\\ud83d'"):
        tokenizer.encode_batch(["fine", "no\ud83d"])


def test_an_id_outside_of_the_vocabulary_is_refused(tokenizer: Tokenizer) -> None:
    for number in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=f"{number} is no piece"):
            tokenizer.decode([number])


def test_each_original_number_is_there_once(tokenizer: Tokenizer) -> None:
    originals = [number for number in tokenizer.original_ids if number is not None]
    assert len(tokenizer.original_ids) == tokenizer.vocab_size
    assert sorted(originals) == sorted({*originals}) == list(range(len(originals)))


@pytest.mark.parametrize("text", ["猫" * 30_000, " " * 90_000, "ab c." * 18_000, "a" * 90_000])
def test_a_very_long_line_is_encoded(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert not tokenizer.lossless or tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", [name for name in TRAINED if name != "word"])
def test_japanese_is_cut_without_words(name: str) -> None:
    """A sentence of known characters that was never seen, in which nothing marks a word."""
    tokenizer, text = made(name), "犬は少女を見る犬を見る少女"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(ids) > 1
    assert UNK not in ids


def test_to_a_word_vocabulary_a_run_of_letters_is_one_word() -> None:
    assert made("word").encode("犬は少女を見る犬を見る少女") == [UNK]


# ---- what the two lossy kinds lose, by a reading of the definition of their own ----

WORD = re.compile(r" ?\w{1,64}| ?[^\w\s]|\s")
PLAIN = st.text(alphabet="abdgow rn'.,()犬を見る0123456789\nXxß") | st.lists(
    st.sampled_from([" dog", "brown", " ", ".", " (", ")", "'s", "犬を見る", " Männer", "zz", "  a"])
).map("".join)


def cut(word: str, pieces: set[str]) -> list[str] | None:
    """The longest piece first; None where the rest begins with no piece."""
    found, at = [], 0
    while at < len(word):
        marked = "##" if at else ""
        end = next((end for end in range(len(word), at, -1) if marked + word[at:end] in pieces), None)
        if end is None:
            return None
        found.append(marked + word[at:end])
        at = end
    return found


@settings(max_examples=150, deadline=None)
@given(text=PLAIN)
def test_wordpiece_takes_the_longest_piece_and_loses_words_with_an_unknown_character(text: str) -> None:
    tokenizer = made("wordpiece")
    pieces = {tokenizer.piece(number) for number in range(tokenizer.atom_ids.stop, tokenizer.vocab_size)}
    words = WORD.findall(" " + text if text else "")
    wanted = [piece for word in words for piece in cut(word, pieces) or ["<unk>"]]
    ids = tokenizer.encode(text)
    assert [tokenizer.piece(number) for number in ids] == wanted
    kept = "".join(word for word in words if cut(word, pieces) is not None)
    assert tokenizer.decode(ids) == kept.removeprefix(" ")
    if UNK not in ids:
        assert tokenizer.decode(ids) == text


@settings(max_examples=150, deadline=None)
@given(text=PLAIN)
def test_a_word_vocabulary_loses_words_that_it_has_not_and_nothing_else(text: str) -> None:
    tokenizer = made("word")
    known = {tokenizer.piece(number) for number in range(tokenizer.atom_ids.stop, tokenizer.vocab_size)}
    words = WORD.findall(" " + text if text else "")
    ids = tokenizer.encode(text)
    assert [tokenizer.piece(number) for number in ids] == [word if word in known else "<unk>" for word in words]
    assert tokenizer.decode(ids) == "".join(word for word in words if word in known).removeprefix(" ")
    if UNK not in ids:
        assert tokenizer.decode(ids) == text


# ---- normalisation, against Python's own tables ----


@functools.cache
def normalising(name: str, form: str) -> Tokenizer:
    return Tokenizer.train(LINES, TRAINED[name].model_copy(update={"normalise": form}))


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@pytest.mark.parametrize("name", TRAINED)
@settings(max_examples=40, deadline=None)
@given(text=TEXTS | st.text(alphabet="eéaou\u0301\u0308\u0323ﬁ①ｶﾞ가각한Å\u2126\u00a0x "))
def test_a_text_is_encoded_as_its_normal_form_and_comes_back_in_it(name: str, form: str, text: str) -> None:
    if any(unicodedata.category(letter) == "Cn" for letter in text):
        return  # the two may know Unicode of different years
    tokenizer, normal = normalising(name, form), unicodedata.normalize(form, text)
    assert tokenizer.encode(text) == tokenizer.encode(normal)
    if tokenizer.lossless:
        assert tokenizer.decode(tokenizer.encode(text)) == normal


# ---- noise ----


@pytest.mark.parametrize("name", EVERY)
def test_noise_cuts_the_same_text_otherwise_where_there_is_any(name: str) -> None:
    tokenizer = made(name)
    ids = tokenizer.encode_parts([LINES[0], tokenizer.atom("<x1>"), JAPANESE])
    if name not in {"bpe", "char_bpe", "unigram"}:
        assert tokenizer.noise is None
        with pytest.raises(ValueError, match="this vocabulary has no noise"):
            tokenizer.sample(ids, (1,))
        return
    drawn = [tokenizer.sample(ids, (seed, 7)) for seed in range(9)]
    assert [tokenizer.sample(ids, (seed, 7)) for seed in range(9)] == drawn
    assert len({*map(tuple, drawn)}) > 5
    for sampled in drawn:
        assert tokenizer.decode_parts(sampled) == [LINES[0], tokenizer.atom("<x1>"), JAPANESE]
