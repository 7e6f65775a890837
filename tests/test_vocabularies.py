"""One vocabulary for both sides or one for each, from the recipe to the translation; and `headway tokenizer`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import Toy
from headway import api, cli
from headway.build import build
from headway.check import check
from headway.checkpoint import read_config
from headway.config import BPEConfig, CharBPEConfig, Recipe, WordConfig, WordPieceConfig
from headway.models.seq2seq import is_invariant
from headway.recipe import dump_toml, load_recipe, parse_model, parse_recipe
from headway.text.tokenizer import Tokenizer, TokenizerPair, VocabularyTooLarge

Headway = Callable[..., tuple[int, str, str]]
ENGLISH, GERMAN = ["A dog runs.", "Two dogs run."] * 3, ["Ein Hund läuft.", "Zwei Hunde laufen.", "Hunde!"] * 3


def recipe(tokenizer: dict[str, object], **model: object) -> Recipe:
    table = {
        "model": {"preset": "transformer-tiny", **model},
        "tokenizer": tokenizer,
        "data": {"source": "a", "target": "b"},
        "train": {"steps": 9, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 2}},
    }
    return parse_recipe(table)


# ---- the pair ----


def test_a_shared_vocabulary_is_one_object_in_one_file(tmp_path: Path) -> None:
    pair = TokenizerPair.train(iter(ENGLISH), iter(GERMAN), BPEConfig(vocab_size=275))
    assert pair.source is pair.target
    assert (pair.sizes, pair.names) == (275, "tokenizer.json")
    assert pair.source.to_json() == Tokenizer.train([*ENGLISH, *GERMAN], BPEConfig(vocab_size=275)).to_json()
    pair.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]
    again = TokenizerPair.load(tmp_path)
    assert again.source is again.target


def test_two_vocabularies_know_a_side_each(tmp_path: Path) -> None:
    pair = TokenizerPair.train(iter(ENGLISH), iter(GERMAN), WordConfig(vocab_size=10, shared=False))
    assert (pair.sizes, pair.names) == ((10, 10), ["source_tokenizer.json", "target_tokenizer.json"])
    for side, texts in zip(pair, (ENGLISH, GERMAN), strict=True):
        assert side.to_json() == Tokenizer.train(texts, WordConfig(vocab_size=10)).to_json()
    pair.save(tmp_path)
    again = TokenizerPair.load(tmp_path)
    assert [side.to_json() for side in again] == [side.to_json() for side in pair]
    Tokenizer.train(ENGLISH, WordConfig(vocab_size=8)).save(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match=r"has tokenizer\.json and source_tokenizer\.json"):
        TokenizerPair.load(tmp_path)


def test_two_vocabularies_that_are_too_large_are_refused_with_what_both_sides_give() -> None:
    config = CharBPEConfig(vocab_size=900, shared=False)
    with pytest.raises(VocabularyTooLarge) as told:
        TokenizerPair.train(iter(ENGLISH), iter(GERMAN), config)
    pair = TokenizerPair.train(ENGLISH, GERMAN, config.model_copy(update={"vocab_size": told.value.largest}))
    assert pair.sizes == (told.value.largest,) * 2


def test_the_same_texts_give_the_same_files_in_another_process_and_thread_count() -> None:
    program = (
        "import hashlib, sys; from headway.config import *; from headway.text.tokenizer import Tokenizer\n"
        "texts = sys.stdin.buffer.read().decode().split('\\n')\n"
        "for config in (CharBPEConfig(vocab_size=300), WordPieceConfig(vocab_size=60), WordConfig(vocab_size=12)):\n"
        "    print(hashlib.sha256(Tokenizer.train(texts, config).to_json().encode()).hexdigest())"
    )
    texts = [*ENGLISH, *GERMAN, "犬🐕"] * 3
    configs = CharBPEConfig(vocab_size=300), WordPieceConfig(vocab_size=60), WordConfig(vocab_size=12)
    found = {tuple(hashlib.sha256(Tokenizer.train(texts, config).to_json().encode()).hexdigest() for config in configs)}
    for threads in ("1", "3"):
        environment = os.environ | {
            "RAYON_NUM_THREADS": threads,
            "PYTHONHASHSEED": threads,
            "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        }
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, input="\n".join(texts).encode(), env=environment, check=True, capture_output=True
        )
        found.add(tuple(done.stdout.decode().split()))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ({"kind": "bp"}, "its kind is 'bp', and must be one of bpe, char_bpe"),
        ({"kind": "bpe", "atoms": "abc"}, "is damaged"),
        ({"kind": "bpe", "more": 1}, "is damaged"),
        ({"kind": "bpe", "noise": -1}, "is damaged"),
        ({"kind": "char_bpe"}, "its pre_tokenizer must be"),
        ({"kind": "sentencepiece"}, "is damaged"),
        ({"kind": "bpe", "atoms": ["<s>"]}, "are there already: <s>"),
        ("bpe", "is damaged"),
    ],
)
def test_a_head_that_is_wrong_is_refused(head: object, told: str, tmp_path: Path) -> None:
    layout = json.loads(Tokenizer.train(["a"], BPEConfig(vocab_size=260)).to_json())
    (tmp_path / "t.json").write_text(json.dumps({"headway": head, **layout}), encoding="utf-8")
    for read in (Tokenizer.load, Tokenizer.read):
        with pytest.raises(ValueError, match=told) as error:
            read(tmp_path / "t.json")
        assert "t.json" in str(error.value)


def test_a_foreign_file_with_our_control_tokens_is_imported(tmp_path: Path) -> None:
    layout = json.loads(Tokenizer.train(["a"], BPEConfig(vocab_size=260)).to_json())
    layout["normalizer"] = {"type": "Lowercase"}
    (tmp_path / "t.json").write_text(json.dumps(layout), encoding="utf-8")
    with pytest.raises(ValueError, match="must have no normalizer"):
        Tokenizer.load(tmp_path / "t.json")
    tokenizer = Tokenizer.read(tmp_path / "t.json")
    assert tokenizer.decode(tokenizer.encode("Ab")) == "ab"
    assert tokenizer.original_ids[:5] == (0, 1, 2, 3, 4)
    assert not tokenizer.lossless


# ---- the model ----


def test_two_vocabularies_make_two_tables_of_their_sizes() -> None:
    config = parse_model("transformer-tiny").model_copy(update={"tie": "output"})
    model = build(config, (31, 57))
    assert (model.source_vocab_size, model.vocab_size) == (31, 57)
    assert model.unembed.weight is model.target_embed.tokens.weight
    logits = model(torch.tensor([[30, 4, 2]]), torch.tensor([[1, 56]]))
    assert logits.shape == (1, 2, 57)
    assert is_invariant(model.eval(), 5, beside=20) in (True, False)  # which looks ids up on both sides
    shared = build(config, 57)
    assert sum(p.numel() for p in shared.parameters()) - sum(p.numel() for p in model.parameters()) == 26 * config.dim


def test_one_table_for_two_vocabularies_is_refused_by_config_and_build() -> None:
    with pytest.raises(ValueError, match=r'model\.tie = "all": .* take "output"'):
        build(parse_model("transformer-tiny"), (31, 57))
    for tokenizer in (
        {"kind": "bpe", "vocab_size": 300, "shared": False},
        {"kind": "file", "path": "a.json", "target_path": "b.json"},
    ):
        with pytest.raises(ValueError, match=r'model\.tie = "all": one table .* take "output"'):
            recipe(tokenizer)
        assert check(recipe(tokenizer, tie="output")) == []


def test_faults_of_atoms_are_all_told() -> None:
    tags = ["it", "a b", "x0", "sep", "it", "pad"]
    with pytest.raises(ValueError, match="fault") as told:
        recipe({"kind": "word", "vocab_size": 90, "placeholders": 1, "separator": True, "tags": tags})
    for index, words in enumerate(["several <it>", "no space", "several <x0>", "several <sep>", "several", "control"]):
        assert any(f"tokenizer.tags[{index}]" in line and words in line for line in str(told.value).split("\n"))


@pytest.mark.parametrize(("kind", "size", "least"), [("bpe", 262, 263), ("word", 7, 8)])
def test_a_vocabulary_has_room_for_its_atoms(kind: str, size: int, least: int) -> None:
    table = {"kind": kind, "placeholders": 2, "tags": ["it"]}
    with pytest.raises(ValueError, match=rf"tokenizer\.vocab_size = {size}: too few with 3 .* take {least} or more"):
        recipe({**table, "vocab_size": size})
    assert Tokenizer.train(["a"] * 2, recipe({**table, "vocab_size": least}).tokenizer).vocab_size == least


@pytest.mark.parametrize(
    "tokenizer",
    [
        {"kind": "char_bpe", "vocab_size": 300, "dropout": 0.1, "tags": ["it", "2de"], "placeholders": 3},
        {"kind": "unigram", "vocab_size": 300, "alpha": 0.2, "normalise": "NFKC"},
        {"kind": "wordpiece", "vocab_size": 30, "separator": True},
        {"kind": "file", "path": "/a.model", "tags": ["it"]},
    ],
)
def test_a_recipe_with_any_vocabulary_is_written_and_read_again(tokenizer: dict[str, object], tmp_path: Path) -> None:
    made = recipe(tokenizer)
    (tmp_path / "r.toml").write_text(dump_toml(made), encoding="utf-8")
    assert load_recipe(tmp_path / "r.toml") == made


# ---- the whole way ----


def test_a_model_of_two_vocabularies_trains_resumes_translates_averages_and_begins_another(
    toy: Toy, headway: Headway, tmp_path: Path
) -> None:
    run, options = tmp_path / "run", {"device": "cpu", "quiet": True}
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de"}
    changes = cli.overrides(list(toy.settings))
    changes |= {"model.tie": "output", "tokenizer.shared": False, "tokenizer.vocab_size": 300, "tokenizer.dropout": 0.1}
    api.train(**files, out=run, set=changes, **options)
    assert read_config(run)["tokenizer"] == ["source_tokenizer.json", "target_tokenizer.json"]
    assert not (run / "tokenizer.json").exists()
    code, out, _ = headway("translate", run, stdin=b"A dog runs.\n\nTwo\n")
    assert (code, out.count("\n")) == (0, 3)
    assert headway("score", run, "--source", toy.data / "test.en", "--target", toy.data / "test.de")[0] == 0
    assert "300 and 300" in headway("show", run)[1]
    assert headway("average", run, "-o", tmp_path / "mean")[0] == 0
    assert read_config(tmp_path / "mean")["tokenizer"] == ["source_tokenizer.json", "target_tokenizer.json"]
    less = {name: value for name, value in changes.items() if not name.startswith("tokenizer")}
    api.train(**files, out=tmp_path / "next", init=run, set=less, **options)
    for name in ("source_tokenizer.json", "target_tokenizer.json"):
        assert (tmp_path / "next" / name).read_bytes() == (run / name).read_bytes()
    (run / "source_tokenizer.json").unlink()
    assert "source_tokenizer.json is missing" in headway("translate", run, stdin=b"a\n")[2]


# ---- the commands ----


@pytest.mark.parametrize("kind", ["bpe", "char_bpe", "unigram", "wordpiece", "word"])
def test_each_kind_is_trained_by_a_command_that_tells_how_it_fits(
    headway: Headway, toy: Toy, tmp_path: Path, kind: str
) -> None:
    path, size = tmp_path / "tokenizer.json", {"wordpiece": 90, "word": 60}.get(kind, 330)
    options = ["--kind", kind, "--vocab-size", size, "--tag", "it", "--placeholders", 2, "--normalise", "NFC"]
    code, _, err = headway("tokenizer", "train", toy.data / "train.en", "-o", path, *options)
    assert code == 0
    texts = (toy.data / "train.en").read_text(encoding="utf-8").split("\n")[:-1]
    tokenizer = Tokenizer.load(path)
    tokens = sum(map(len, tokenizer.encode_batch(texts)))
    told = dict(line.split("  ", 1) for line in err.split("\n") if "  " in line)
    told = {name: value.strip() for name, value in told.items()}
    assert told["characters per token"] == f"{sum(map(len, texts)) / tokens:.2f}"
    assert told["tokens per word"] == f"{tokens / sum(len(text.split()) for text in texts):.2f}"
    assert f"of {tokens:,} tokens" in told["unknown"]
    assert tokenizer.atoms == ("<x0>", "<x1>", "<it>")
    shown = headway("tokenizer", "encode", path, "--pieces", stdin=texts[0].encode() + b"\n")[1]
    pieces = [tokenizer.piece(number).replace(" ", "\u2581") for number in tokenizer.encode(texts[0])]
    assert shown.split() == pieces
    assert kind == "word" or "".join(pieces).replace("##", "").replace("\u2581", " ").strip() == texts[0]


def test_pieces_are_shown_on_one_line_whatever_they_hold(headway: Headway, tmp_path: Path) -> None:
    Tokenizer.train(["a"], BPEConfig(vocab_size=260)).save(tmp_path / "tokenizer.json")
    out = headway("tokenizer", "encode", tmp_path, "--pieces", stdin="a \t\x85é\n".encode())[1]
    assert out == "a \u2581 \\t <C2> <85> <C3> <A9>\n"


def test_a_vocabulary_from_elsewhere_is_imported_by_a_command(headway: Headway, tmp_path: Path) -> None:
    letters = sorted(set("\\_u;0123456789dog"))
    (tmp_path / "v.subwords").write_text("".join(f"'{piece}'\n" for piece in ["<pad>", *letters, *"<pa>"]))
    path = tmp_path / "tokenizer.json"
    code, _, err = headway("tokenizer", "import", tmp_path / "v.subwords", "-o", path, "--tag", "it")
    assert (code, "every text comes back" in err) == (0, True)
    numbers = headway("tokenizer", "encode", path, stdin=b"a dog\x0b\n")[1]
    assert headway("tokenizer", "decode", path, stdin=numbers.encode())[1] == "a dog \n"
    assert headway("tokenizer", "import", tmp_path / "none.model", "-o", path)[0] == 2
    assert headway("tokenizer", "import", tmp_path / "v.subwords", "-o", path, "--tag", "a b")[0] == 2
    assert Tokenizer.load(path).atoms == ("<it>",)
