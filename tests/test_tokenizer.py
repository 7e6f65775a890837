"""Subwords: lossless on every text, no text becomes a control token, the same input gives the same file."""

import functools
import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.config import BPEConfig, UnigramConfig
from headway.text import unigram
from headway.text.tokenizer import BOS, CONTROLS, EOS, PAD, UNK, Tokenizer, VocabularyTooLarge

CONFIGS = [BPEConfig(vocab_size=391), UnigramConfig(vocab_size=283)]
KINDS = [config.kind for config in CONFIGS]
LINES = [
    f"{who} {how} {what}."
    for who in ("A brown dog", "Two young men", "Ein brauner Hund", "Zwei junge Männer", "少女", "A man's friend's")
    for how in ("slowly carries", "happily sees", "trägt langsam", "sieht", "は")
    for what in ("a red ball", "the old house", "den roten Ball", "das alte Haus", "犬を見る", "12 trees, 3.5 m high")
]
ODD = [
    "",
    " ",
    "   lead and trail  ",
    "hello ! ?",
    "tab\tand\nbreaks\r\n\rend",
    "\x00",
    "a\x00b",
    "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e",
    "\ufeffmark",
    "\ufffd",
    "mug 😀 👩‍👩‍👧 🇩🇪",
    "ﬁ①２…™½︰ŀŉ é e\u0301",
    "<s>",
    "</s>",
    "<pad>",
    "<unk>",
    "a<s></s> <pad><unk>b",
    "<0x41> Ġdog ▁dog",
    "日本語のテキスト",
]


@functools.cache
def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(LINES, CONFIGS[KINDS.index(kind)])


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return trained(request.param)


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_come_back_and_give_no_control_token(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(number > UNK for number in ids)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300, deadline=None)
@given(
    text=st.text()
    | st.text(alphabet="<>/spadunk \r\n\x00\u2028")
    | st.lists(st.sampled_from([*CONTROLS, *ODD])).map("".join)
)
@example("<</s>/s>")
def test_every_text_comes_back_and_gives_no_control_token(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(number > UNK for number in ids)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.integers(0, 282)))
def test_any_ids_decode_as_the_library_decodes_them(kind: str, numbers: list[int]) -> None:
    tokenizer = trained(kind)
    independent = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    assert tokenizer.decode(numbers) == independent.decode(numbers, skip_special_tokens=True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.integers(0, 282)))
def test_a_decoded_line_is_one_line_whatever_the_ids(kind: str, numbers: list[int]) -> None:
    text, _ = trained(kind).decode_line(numbers)
    assert len(text.splitlines()) <= 1
    assert not text.endswith(tuple("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


def test_control_tokens_have_the_ids_of_the_house() -> None:
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert CONTROLS == ("<pad>", "<s>", "</s>", "<unk>")
    assert [trained("bpe").piece(number) for number in range(4)] == list(CONTROLS)


def test_control_tokens_are_skipped_in_decoding(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Ein Hund")
    assert tokenizer.decode([BOS, *ids, UNK, EOS, PAD, PAD]) == "Ein Hund"
    assert tokenizer.decode_line([BOS, *ids, UNK, EOS, PAD, PAD]) == ("Ein Hund", 0)


def test_trained_words_are_fewer_pieces_than_bytes(tokenizer: Tokenizer) -> None:
    pieces = sum(map(len, tokenizer.encode_batch(LINES)))
    assert pieces < 0.9 * sum(len(line.encode()) for line in LINES)


def test_bpe_merges_the_pairs_that_the_paper_merges() -> None:
    """Sennrich et al. 2016, section 3.2: of the words low, lowest, newer, wider come the merges e-r, l-o, lo-w."""
    words = ["low"] * 5 + ["lowest"] * 2 + ["newer"] * 6 + ["wider"] * 3
    pieces = Tokenizer.train(words, BPEConfig(vocab_size=263))
    assert [pieces.piece(number) for number in (260, 261, 262)] == ["er", "lo", "low"]


def test_the_vocabulary_has_the_size_asked_for(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size in {391, 283}
    assert len({tokenizer.piece(number) for number in range(tokenizer.vocab_size)}) == tokenizer.vocab_size


@pytest.mark.parametrize("config", [BPEConfig, UnigramConfig], ids=KINDS)
def test_a_vocabulary_larger_than_the_data_gives_is_refused_with_the_largest(config: type) -> None:
    with pytest.raises(VocabularyTooLarge, match=r"tokenizer.vocab_size = 9000: these texts give (\d+) pieces") as told:
        Tokenizer.train(LINES, config(vocab_size=9000))
    assert isinstance(told.value, ValueError)
    assert 260 <= told.value.largest < 9000
    largest = Tokenizer.train(LINES, config(vocab_size=told.value.largest))
    assert largest.vocab_size == told.value.largest


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
def test_a_vocabulary_smaller_than_every_one_is_refused(config: BPEConfig | UnigramConfig) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.vocab_size = 259: .* take 260 or more"):
        Tokenizer.train(LINES, config.model_copy(update={"vocab_size": 259}))  # which asks nobody
    assert Tokenizer.train(LINES, config.model_copy(update={"vocab_size": 260})).vocab_size == 260


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_at_all_is_refused(config: BPEConfig | UnigramConfig, texts: list[str]) -> None:
    with pytest.raises(ValueError, match="no text to train a tokenizer on"):
        Tokenizer.train(texts, config)


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
def test_texts_may_come_from_a_generator(config: BPEConfig | UnigramConfig, tmp_path: Path) -> None:
    Tokenizer.train((line for line in LINES), config).save(tmp_path / "a")
    trained(config.kind).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_file_in_another_process_and_thread_count(kind: str, tmp_path: Path) -> None:
    program = (
        "import sys; from headway.config import *; from headway.text.tokenizer import Tokenizer\n"
        "lines = sys.stdin.buffer.read().decode().split('\\n')\n"
        "config = {'bpe': BPEConfig(vocab_size=391), 'unigram': UnigramConfig(vocab_size=283)}[sys.argv[1]]\n"
        "Tokenizer.train(lines, config).save(sys.argv[2])"
    )
    trained(kind).save(tmp_path / "here.json")
    digests = {hashlib.sha256((tmp_path / "here.json").read_bytes()).hexdigest()}
    for threads in ("1", "3"):
        path = tmp_path / f"{threads}.json"
        command = [sys.executable, "-c", program, kind, str(path)]
        environment = os.environ | {
            "RAYON_NUM_THREADS": threads,
            "PYTHONHASHSEED": threads,
            "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        }
        subprocess.run(command, input="\n".join(LINES).encode(), env=environment, check=True)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_batch_is_encoded_as_its_texts_alone(tokenizer: Tokenizer) -> None:
    texts = [*ODD, *LINES]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []


def test_what_was_saved_loads_and_encodes_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.encode_batch([*ODD, *LINES]) == tokenizer.encode_batch([*ODD, *LINES])
    assert loaded.vocab_size == tokenizer.vocab_size
    assert loaded.line_breaking_ids == tokenizer.line_breaking_ids
    loaded.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert Tokenizer.load(str(path)).encode("</s>") == tokenizer.encode("</s>")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    trained("bpe").save(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        trained("unigram").save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"normalizer": {"type": "NFKC"}}, "must have no normalizer"),
        (
            {"truncation": {"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0}},
            "truncation",
        ),
        ({"pre_tokenizer": None}, 'pre_tokenizer must be {"type": "ByteLevel"'),
        ({"decoder": None}, 'decoder must be {"type": "ByteLevel"'),
        ({"added_tokens": []}, "added tokens must be <pad>, <s>, </s>, <unk>"),
        ({"model": {"type": "WordLevel", "vocab": {"<pad>": 0}, "unk_token": "<unk>"}}, "neither a BPE nor a Unigram"),
        ({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "c"]]}}, "`?c`? out of vocabulary"),
        (
            {"model": {"type": "BPE", "vocab": {token: n for n, token in enumerate(CONTROLS)}, "merges": []}},
            "every byte",
        ),
        ({"model": {"type": "BPE", "vocab": {**{t: n for n, t in enumerate(CONTROLS)}, "犬": 4}, "merges": []}}, "犬"),
    ],
)
def test_a_file_of_another_make_is_refused(change: dict[str, object], told: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained("bpe").save(path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(ValueError, match=told) as error:
        Tokenizer.load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"version": "1.0"}'])
def test_a_damaged_file_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged") as error:
        Tokenizer.load(path)
    assert str(path) in str(error.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json: cannot be read \(No such file"):
        Tokenizer.load(tmp_path / "none.json")


def test_half_a_surrogate_pair_is_refused_with_its_place(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"text 1: character 2 is '\\ud83d'"):
        tokenizer.encode_batch(["fine", "no\ud83d"])


@pytest.mark.parametrize("number", [-1, 391])
def test_an_id_outside_of_the_vocabulary_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"{number} is no piece"):
        trained("bpe").decode([5, number])


def test_pieces_that_break_a_line_are_all_named(tokenizer: Tokenizer) -> None:
    breaking = set(tokenizer.line_breaking_ids)
    assert breaking == {n for n in range(4, tokenizer.vocab_size) if set(tokenizer.piece(n)) & {"\n", "\r"}}
    assert breaking >= {*tokenizer.encode("\n"), *tokenizer.encode("\r")}
    assert not breaking & set(tokenizer.encode("".join(LINES)))


def test_learnt_pieces_that_break_a_line_are_named_too() -> None:
    tokenizer = Tokenizer.train(["one\n\n\ntwo\n\n\n"] * 3, BPEConfig(vocab_size=262))
    assert len(tokenizer.line_breaking_ids) > 2


def test_what_cannot_stand_in_a_line_is_replaced_and_counted(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode_line(tokenizer.encode("Ein Hund läuft.")) == ("Ein Hund läuft.", 0)
    assert tokenizer.decode_line(tokenizer.encode("a\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029b")) == (
        "a" + " " * 10 + "b",
        10,
    )
    assert tokenizer.decode_line(tokenizer.encode("\ufffd is a character")) == ("\ufffd is a character", 0)
    first = tokenizer.encode("\u07ff")[:1]  # 0xDF, then the end or another character
    assert tokenizer.decode_line([*first, *tokenizer.encode("\ufffd"), *first]) == ("\ufffd\ufffd\ufffd", 2)


def test_pieces_can_be_read_by_people() -> None:
    tokenizer = trained("bpe")
    assert "".join(map(tokenizer.piece, tokenizer.encode("Männer sieht"))) == "Männer sieht"
    assert tokenizer.piece(tokenizer.encode("\u07ff")[0]) == "<DF>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a" * 1_000_000, "ab cd " * 170_000, "猫" * 330_000, " " * 1_000_000])
def test_a_line_of_a_megabyte_comes_back(kind: str, text: str) -> None:
    assert trained(kind).decode(trained(kind).encode(text)) == text


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
def test_a_line_of_a_megabyte_can_be_trained_on(config: BPEConfig | UnigramConfig) -> None:
    tokenizer = Tokenizer.train([*LINES, "ha" * 500_000], config)
    assert tokenizer.vocab_size == config.vocab_size


def segmentations(word: str, pieces: dict[str, float]) -> list[list[str]]:
    if not word:
        return [[]]
    heads = [word[:end] for end in range(1, len(word) + 1) if word[:end] in pieces]
    return [[head, *rest] for head in heads for rest in segmentations(word[len(head) :], pieces)]


def test_the_unigram_lattice_sums_over_all_segmentations() -> None:
    pieces = dict(zip(["a", "b", "c", "ab", "bc", "abc", "ca"], [0.2, 0.1, 0.15, 0.25, 0.05, 0.05, 0.2], strict=True))
    index = {piece: number for number, piece in enumerate(pieces)}
    p, words, counts = np.array(list(pieces.values())), ["abcab", "c", "bca", "cabca"], np.array([3.0, 5.0, 2.0, 1.0])
    lattice = unigram.Lattice(words, index)
    totals, expected = np.zeros(4), np.zeros(7)
    for row, word in enumerate(words):
        chances = [(math.prod(pieces[piece] for piece in way), way) for way in segmentations(word, pieces)]
        totals[row] = sum(chance for chance, _ in chances)
        for chance, way in chances:
            for piece in way:
                expected[index[piece]] += counts[row] * chance / totals[row]
    np.testing.assert_allclose(lattice.totals(p), totals, rtol=1e-12)
    np.testing.assert_allclose(lattice.expected(p, counts), expected, rtol=1e-12)
    others = {
        piece: sum(math.prod(pieces[part] for part in way) for way in segmentations(piece, pieces)) for piece in pieces
    }
    proper = [others[piece] - (pieces[piece] if len(piece) > 1 else 0) for piece in pieces]
    np.testing.assert_allclose(unigram.Lattice(list(pieces), index, proper=True).totals(p), proper, rtol=1e-12)


def test_a_dropped_piece_is_in_no_segmentation() -> None:
    lattice = unigram.Lattice(["aba"], {"a": 0, "b": 1, "ab": 2})
    p = np.array([0.5, 0.25, 0.125])
    assert lattice.totals(p) == pytest.approx([0.5 * 0.25 * 0.5 + 0.125 * 0.5])
    lattice.drop(np.array([False, False, True]))
    assert lattice.totals(p) == pytest.approx([0.5 * 0.25 * 0.5])


def test_digamma_has_its_known_values() -> None:
    known = [-0.5772156649, -1.9635100260, 0.4227843351, 2.2517525891, 6.9072551957]
    np.testing.assert_allclose(unigram.digamma(np.array([1, 0.5, 2, 10, 1000.0])), known, atol=1e-9)


def test_seeds_of_a_unigram_are_what_repeats_and_is_not_always_part_of_more() -> None:
    assert unigram.repeated({"hund": 2, "hut": 1, "rund": 1}) == {"hund": 2, "und": 3, "hu": 3}


@pytest.mark.parametrize("size", [264, 279, 290])
def test_a_unigram_vocabulary_is_worth_more_the_larger_it_is(size: int) -> None:
    smaller, larger = (Tokenizer.train(LINES, UnigramConfig(vocab_size=number)) for number in (size, size + 9))
    assert sum(map(len, larger.encode_batch(LINES))) < sum(map(len, smaller.encode_batch(LINES)))
