"""Objectives on plain texts, from files to a model that is used: each is trained for a moment; resumed runs are the
unbroken ones; what cannot be is told, all at once."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway import api
from headway.build import build
from headway.config import (
    AnswersConfig,
    BPEConfig,
    CausalConfig,
    ChatObjectiveConfig,
    ClassesObjectiveConfig,
    MaskedConfig,
    ObjectiveConfig,
    SpansConfig,
    TagsObjectiveConfig,
    TrainConfig,
    UL2Config,
)
from headway.data.objectives import Masked, Pair, SpanAnswer, Written
from headway.data.reading import Texts, read_rows
from headway.data.texts import Line, collated
from headway.recipe import parse_model, parse_recipe
from headway.strict import ConfigError, kinds, variants
from headway.text.tokenizer import BOS, EOS, PAD, Tokenizer
from headway.text_training import TextValidation
from headway.train.objective import build_loss

WORDS = "the cat dog bird house tree sees likes finds takes red small big old on in under table road".split()  # noqa: SIM905
LAYER = {"mixer": {"kind": "attention", "num_heads": 2}, "ffn": {"kind": "gelu", "dim": 24}, "residual": "pre"}
STACK = {"kind": "stack", "final_norm": True, "layers": [LAYER]}
LM = {"kind": "lm", "dim": 16, "dropout": 0.1, "stack": STACK}
PAIR = {"kind": "seq2seq", "dim": 16, "encoder": STACK, "decoder": STACK}
TAGS = ("mask", "R", "S", "X", "|im_start|", "|im_end|")


def encoder(head: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "encoder", "dim": 16, "dropout": 0.1, "stack": STACK, "head": head, **more}


def sentences(num: int, seed: int = 1) -> list[str]:
    rnd = random.Random(seed)
    return [" ".join(rnd.choice(WORDS) for _ in range(rnd.randint(4, 9))) for _ in range(num)]


def parted(texts: list[str], size: int) -> list[str]:
    """Documents of so many sentences, empty lines between them."""
    return "\n\n".join("\n".join(texts[at : at + size]) for at in range(0, len(texts), size)).split("\n")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    texts, second = sentences(80), sentences(80, seed=2)
    chats = [
        {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}
        for a, b in zip(texts, second, strict=True)
    ]
    passages = [f"{a} word{number} {b}" for number, (a, b) in enumerate(zip(texts, second, strict=True))]
    made = {
        "text": texts,
        "second": second,
        "documents": parted(texts, 5),
        "labels": ["cat" if "cat" in text else "none" for text in texts],
        "numbers": [f"{len(text) / 10:.2f}" for text in texts],
        "tags": [" ".join("N" if word in WORDS[1:6] else "O" for word in text.split()) for text in texts],
        "chats": [json.dumps(chat) for chat in chats],
        "questions": ["which word is odd ?"] * 80,
        "passages": passages,
        "answers": [f"word{number}" if number % 4 else "" for number in range(80)],
    }
    for name, lines in made.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


RUNS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "causal": (LM, {"kind": "causal"}, {"text": "text"}),
    "causal-lines": (LM, {"kind": "causal", "rows": "lines"}, {"text": "text"}),
    "ahead": (LM | {"future": {"kind": "parallel", "num": 2}}, {"kind": "causal"}, {"text": "text"}),
    "prefix": (LM | {"prefix": True}, {"kind": "prefix"}, {"text": "text"}),
    "chat": (LM, {"kind": "chat"}, {"text": "chats"}),
    "masked": (encoder({"kind": "words"}), {"kind": "masked", "whole_words": True}, {"text": "text"}),
    "next": (
        encoder({"kind": "words", "next": True}, segments=2),
        {"kind": "masked", "next_sentence": True},
        {"text": "documents", "valid_text": "documents"},
    ),
    "permuted": (encoder({"kind": "words"}, two_streams=True), {"kind": "permuted"}, {"text": "text"}),
    "spans": (PAIR, {"kind": "spans"}, {"text": "text"}),
    "ul2": (PAIR, {"kind": "ul2"}, {"text": "text"}),
    "classes": (
        encoder({"kind": "classes", "num": 2}),
        {"kind": "classes", "names": ["none", "cat"]},
        {"text": "text", "labels": "labels"},
    ),
    "two": (
        encoder({"kind": "classes", "num": 2}),
        {"kind": "classes", "names": ["none", "cat"]},
        {"text": "text", "second": "second", "labels": "labels"},
    ),
    "number": (encoder({"kind": "classes", "num": 1}), {"kind": "number"}, {"text": "text", "labels": "numbers"}),
    "tags": (
        encoder({"kind": "tags", "num": 2}),
        {"kind": "tags", "names": ["O", "N"]},
        {"text": "text", "labels": "tags"},
    ),
    "answers": (
        encoder({"kind": "span"}, segments=2),
        {"kind": "answers"},
        {"text": "questions", "second": "passages", "labels": "answers"},
    ),
    "contrast": (encoder({"kind": "vector"}), {"kind": "contrast"}, {"text": "text", "second": "second"}),
}


def recipe(files: Path, name: str, steps: int = 6, **data: Any) -> dict[str, Any]:
    model, objective, named = RUNS[name]
    return {
        "model": model,
        "objective": objective,
        "tokenizer": {"kind": "bpe", "vocab_size": 310, "tags": list(TAGS), "placeholders": 24},
        "data": {"max_len": 96, **{key: str(files / value) for key, value in named.items()}, **data},
        "train": {
            "steps": steps,
            "batch_tokens": 1000,
            "validate_every": 3,
            "save_every": 3,
            "schedule": {"kind": "inverse_sqrt", "peak": 0.02, "warmup": 0.5},
        },
    }


def train(folder: Path, table: dict[str, Any], **more: Any) -> dict[str, Any]:
    return api.train(table, out=folder, device="cpu", quiet=True, **more)


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def headway_line(request: pytest.FixtureRequest) -> Any:
    """The command line, beside the package of its name."""
    return request.getfixturevalue("headway")


FIGURES = {"causal": "bits_per_character", "number": "pearson", "classes": "accuracy", "answers": "accuracy"}


FEW_VALIDATE = ("number", "answers", "tags", "contrast", "classes", "two")
"""Four lines are held out, which say little of six updates."""


@pytest.mark.parametrize("name", RUNS)
def test_each_objective_learns_from_files_and_its_model_is_used(
    files: Path, tmp_path: Path, name: str, headway_line: Any
) -> None:
    scores = train(tmp_path / "run", recipe(files, name))
    valid = [row["valid_loss"] for row in metrics(tmp_path / "run") if "valid_loss" in row]
    assert len(valid) == 2
    assert math.isfinite(scores["loss"])
    assert valid[-1] < valid[0] or name in FEW_VALIDATE
    assert FIGURES.get(name, "loss") in scores
    model, texts = headway.load(tmp_path / "run", "cpu"), sentences(3, seed=5)
    if name in ("causal", "causal-lines", "ahead", "prefix"):
        assert [type(one) for one in model.generate(texts, max_new_tokens=4)] == [str] * 3
    elif name == "chat":
        said = model.reply([{"role": "user", "content": texts[0]}], max_new_tokens=4)
        words = ("generate", tmp_path / "run", texts[0], "--chat", "--max-new-tokens", 4)
        assert headway_line(*words)[:2] == (0, f"{said}\n")
    elif name in ("classes", "number", "tags"):
        said = [next(iter(one)) for one in model.label(texts)]
        assert said == [{"classes": "label", "number": "value", "tags": "tags"}[name]] * 3
    elif name in ("two", "answers"):
        assert len(model.label(texts, texts)) == 3
    elif name not in ("spans", "ul2"):
        vectors = model.embed(texts)
        assert vectors.shape == (3, 16)
        torch.testing.assert_close(torch.from_numpy(model.embed(texts[1:2])), torch.from_numpy(vectors[1:2]))
    else:
        assert [type(one) for one in model.translate(texts)] == [str] * 3


@pytest.mark.parametrize("name", ["causal", "next", "permuted"])
def test_a_run_that_is_resumed_is_the_unbroken_one(files: Path, tmp_path: Path, name: str, monkeypatch) -> None:
    train(tmp_path / "whole", recipe(files, name))
    broken, plain = tmp_path / "broken", TextValidation.__call__

    def stumble(self: TextValidation, model: Any, step: int) -> dict[str, float]:
        if step == 6:
            raise OSError("the power is gone")
        return plain(self, model, step)

    with monkeypatch.context() as patch:
        patch.setattr(TextValidation, "__call__", stumble)
        with pytest.raises(OSError, match="power"):
            train(broken, recipe(files, name))
    train(broken, recipe(files, name), resume=True)
    assert (broken / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert metrics(broken) == metrics(tmp_path / "whole")


def test_a_classifier_begins_with_the_body_of_a_masked_model(files: Path, tmp_path: Path) -> None:
    train(tmp_path / "body", recipe(files, "masked"))
    told = recipe(files, "classes", steps=1)
    told["tokenizer"] = {"kind": "file", "path": str(tmp_path / "body" / "tokenizer.json")}
    told["train"] |= {"schedule": {"kind": "inverse_sqrt", "peak": 1e-9, "warmup": 0.5}, "validate_every": 1}
    train(tmp_path / "run", told, init=tmp_path / "body")
    ours, theirs = (headway.load(tmp_path / one, "cpu").module.state_dict() for one in ("run", "body"))
    assert any(name.startswith("head.out") for name in ours)
    for name, weight in theirs.items():
        if not name.startswith("head."):
            torch.testing.assert_close(ours[name], weight, rtol=0, atol=1e-6)
    other = recipe(files, "classes") | {"tokenizer": told["tokenizer"]}
    other["model"] = other["model"] | {"dim": 32}
    with pytest.raises(ValueError, match=r"shape|size"):
        train(tmp_path / "other", other, init=tmp_path / "body")


# ---- rows ----


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = BPEConfig(vocab_size=310, tags=TAGS, placeholders=24)
    return Tokenizer.train([*sentences(80), "which word is odd ?"], config)


def rows(objective: ObjectiveConfig, lines: list[Line], tokenizer: Tokenizer, max_len: int = 48) -> Texts:
    return read_rows(objective, lines, tokenizer, max_len)


def lines(*texts: str) -> list[Line]:
    return [Line(number, text) for number, text in enumerate(texts, 1)]


def made(found: Texts, seed: int = 0) -> list[Any]:
    return [found.make(row, np.random.default_rng([seed, row])) for row in range(len(found.lengths))]


def test_blocks_lose_nothing_and_ask_each_token_once(tokenizer: Tokenizer) -> None:
    texts = sentences(40)
    found = rows(CausalConfig(), lines(*texts), tokenizer)
    asked = [token for row in made(found) for token in row.targets]
    assert tokenizer.decode(asked) == "\n".join([*texts, ""])
    assert found.characters == len("\n".join([*texts, ""]))
    assert max(found.lengths) == 48


def test_packed_lines_do_not_see_each_other(tokenizer: Tokenizer) -> None:
    texts = sentences(30)
    found = made(rows(CausalConfig(rows="lines"), lines(*texts), tokenizer))
    assert any(len(set(row.documents)) > 1 for row in found)
    said = []
    for row in found:
        assert isinstance(row, Written)
        for document in dict.fromkeys(row.documents):
            at = [place for place, one in enumerate(row.documents) if one == document]
            assert [row.positions[place] for place in at] == list(range(len(at)))
            assert row.tokens[at[0]] == BOS
            said.append(tokenizer.decode([row.targets[place] for place in at[:-1]]))
            assert row.targets[at[-1]] == EOS
    assert sorted(said) == sorted(texts)
    batch = collated(found, list(range(1, len(found) + 1)))
    assert {"documents", "positions"} < batch.inputs.keys()


def test_a_second_sentence_follows_in_half_of_all_draws_and_never_crosses_a_document(tokenizer: Tokenizer) -> None:
    texts = parted(sentences(60), 4)
    found = rows(MaskedConfig(next_sentence=True), lines(*texts), tokenizer, 96)
    assert len(found.lengths) == 45, "of four sentences, three are followed by one"
    behind = {a: b for a, b in itertools.pairwise(texts) if a and b}
    follows = 0
    for seed in range(20):
        for row, length in zip(made(found, seed), found.lengths, strict=True):
            assert isinstance(row, Masked)
            assert len(row.tokens) <= min(length, 96)
            whole = [target if target != PAD else token for token, target in zip(row.tokens, row.targets, strict=True)]
            end = whole.index(EOS)
            first, second = tokenizer.decode(whole[1:end]), tokenizer.decode(whole[end + 1 : -1])
            assert row.segments == [0] * (end + 1) + [1] * (len(whole) - end - 1)
            assert (behind[first] == second) is row.next or first == second
            follows += bool(row.next)
    num = 20 * 45
    assert abs(follows - num / 2) < 4 * (num / 4) ** 0.5
    with pytest.raises(ValueError, match="an empty line between documents"):
        rows(MaskedConfig(next_sentence=True), lines(*sentences(10)), tokenizer, 96)


def test_the_loss_of_what_follows_is_the_mean_over_texts_beside_that_over_words() -> None:
    """Class 0 says that the second follows (BERT): with biases 2 and 0 its cross-entropy is ln(1 + e^-2) where it does,
    and 2 more where it does not."""
    told = [
        Masked([1, 7, 2, 8, 2], [0, 9, 0, 0, 0], [0, 0, 0, 1, 1], True),
        Masked([1, 6, 2, 5, 2], [0, 0, 0, 5, 0], [0, 0, 0, 1, 1], False),
    ]
    told += [Masked([1, 5, 2, 8, 9, 2], [0, 5, 0, 0, 9, 0], [0, 0, 0, 1, 1, 1], True)]
    batch = collated(told, [1, 2, 3])
    assert batch.inputs["next"].tolist() == [True, False, True]
    assert batch.num_tokens == 4
    config = parse_model(encoder({"kind": "words", "next": True}, segments=2))
    torch.manual_seed(1)
    model = build(config, 12).double().eval()
    model.head.next.out.weight.data.zero_()
    model.head.next.out.bias.data.copy_(torch.tensor([2.0, 0.0]))
    smoothing = {"kind": "uniform", "epsilon": 0.0}
    schedule = {"kind": "inverse_sqrt", "peak": 1.0, "warmup": 1}
    train = TrainConfig.model_validate({"steps": 1, "smoothing": smoothing, "schedule": schedule})
    found = build_loss(config, train)(model, batch, torch.device("cpu"))
    logits = model(batch.inputs["tokens"], segments=batch.inputs["segments"])
    words = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=0, reduction="sum"
    )
    follows = (3 * math.log(1 + math.exp(-2)) + 2) / 3
    assert found.tokens == 4
    assert found.nll.item() == pytest.approx(words.item())
    assert found.loss.item() == pytest.approx(words.item() + 4 * follows)


@pytest.mark.parametrize("name", ["chatml", "inst", "plain"])
def test_a_chat_begins_with_bos_once_whatever_its_template_writes(name: str, tokenizer: Tokenizer) -> None:
    chat = json.dumps({"messages": [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "dog"}]})
    [row] = made(rows(ChatObjectiveConfig(chat=name), lines(chat), tokenizer, 96))
    assert row.tokens[0] == BOS
    assert row.tokens.count(BOS) == 1


@pytest.mark.parametrize("objective", [SpansConfig(), SpansConfig(share=0.4, mean=2.0), UL2Config()])
def test_what_was_dropped_comes_back_and_rows_keep_to_their_length(objective, tokenizer: Tokenizer) -> None:
    found = rows(objective, lines(*sentences(60)), tokenizer)
    sentinels = {tokenizer.atom(name) for name in tokenizer.atoms if re.fullmatch(r"<x\d+>", name)}
    assert len(sentinels) == 24
    modes, text = {tokenizer.atom(f"<{mode}>"): mode for mode in "RSX"}, "\n".join([*sentences(60), ""])
    seen = set()
    for seed in range(15):
        whole = []
        for row, length in zip(made(found, seed), found.lengths, strict=True):
            assert isinstance(row, Pair)
            source, target = row.source, row.target
            assert len(source) + 1 <= 48
            assert len(source) + len(target) + 2 <= length
            if isinstance(objective, UL2Config):
                seen.add(modes[source[0]])
                source = source[1:]
            spans, last = dict[int, list[int]](), -1
            for token in target:
                if token in sentinels:
                    last = token
                    spans[last] = []
                else:
                    spans.setdefault(last, []).append(token)
            if -1 in spans:  # the end of the text, without a sentinel
                whole += [*source, *spans[-1]]
            else:
                whole += [one for token in source for one in (spans[token] if token in sentinels else [token])]
        assert tokenizer.decode(whole) == text
    assert seen == ({"R", "S", "X"} if isinstance(objective, UL2Config) else set())


def test_of_a_chat_the_answers_are_asked_and_nothing_else(tokenizer: Tokenizer) -> None:
    turns = [("user", "the cat"), ("assistant", "a red house"), ("user", "and"), ("assistant", "old road")]
    chat = json.dumps({"messages": [{"role": role, "content": content} for role, content in turns]})
    [row] = made(rows(ChatObjectiveConfig(), lines(chat), tokenizer, 96))
    end = tokenizer.atom("<|im_end|>")
    asked = [target for target in row.targets if target != PAD]
    texts, at = [], 0
    for place, token in enumerate(asked):
        if token == end:
            texts.append(tokenizer.decode(asked[at:place]))
            at = place + 1
    assert texts == ["a red house", "old road"]
    assert row.tokens[0] == BOS
    broken = [chat, '{"messages": []}', "no json", chat.replace("user", "robot", 1)]
    with pytest.raises(ValueError, match="line 2") as caught:
        rows(ChatObjectiveConfig(), lines(*broken), tokenizer)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["line 2", "line 3", "line 4"]


def answered(tokenizer: Tokenizer, answer: str, passage: str, max_len: int = 48) -> list[SpanAnswer]:
    return made(rows(AnswersConfig(), [Line(1, "which word ?", passage, answer)], tokenizer, max_len))


def test_an_answer_stands_where_it_is_in_every_window_that_holds_all_of_it(tokenizer: Tokenizer) -> None:
    passage = " ".join([*sentences(4), "zwölf Häuser", *sentences(4, seed=9)])
    found = answered(tokenizer, "zwölf Häuser", passage)
    assert len(found) > 2
    held = [row for row in found if row.begin]
    assert held
    for row in found:
        assert len(row.tokens) <= 48
        span = tokenizer.decode(row.tokens[row.begin : row.end + 1]).strip() if row.begin else ""
        assert span == ("zwölf Häuser" if row.begin else "")
        assert row.begin or "zwölf Häuser" not in tokenizer.decode(row.tokens[row.tokens.index(EOS) + 1 : -1])
    assert all((row.begin, row.end) == (0, 0) for row in answered(tokenizer, "", passage))


def test_which_of_several_answers_is_meant_has_to_be_said(tokenizer: Tokenizer) -> None:
    passage = "a cat and a cat"
    with pytest.raises(ValueError, match=r"line 1: the answer 'cat' stands 2 times in its passage; say which: `2:cat`"):
        answered(tokenizer, "cat", passage)
    with pytest.raises(ValueError, match="stands 0 times in its passage; give it as it stands there"):
        answered(tokenizer, "dog", passage)
    [first], [second] = (answered(tokenizer, f"{at}:cat", passage) for at in (2, 12))
    assert first.begin < second.begin


def test_faults_of_labels_come_together_with_their_lines(tokenizer: Tokenizer) -> None:
    told = [Line(n, "the cat", None, label) for n, label in enumerate(["a", "b", "c", "a", "d"], 1)]
    with pytest.raises(ValueError, match="line 3") as caught:
        rows(ClassesObjectiveConfig(names=("a", "b")), told, tokenizer)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["line 3", "line 5"]
    told = [Line(1, "the cat", None, "N"), Line(2, "the cat", None, "N O"), Line(3, "a b", None, "N Z")]
    with pytest.raises(ValueError, match="line 1: 2 words and 1 tags") as caught:
        rows(TagsObjectiveConfig(names=("N", "O")), told, tokenizer)
    assert "line 3: 'Z' is none of objective.names" in str(caught.value)


# ---- what cannot be ----


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("causal", {"model": encoder({"kind": "words"})}, 'trains a model of kind "lm"'),
        ("masked", {"model": encoder({"kind": "tags", "num": 2})}, 'trains a head of kind "words"'),
        ("classes", {"model": encoder({"kind": "classes", "num": 3})}, "the objective has 2 (none, cat); take 2"),
        ("prefix", {"model": LM}, "model.prefix = false"),
        ("permuted", {"model": encoder({"kind": "words"})}, "model.two_streams = false"),
        ("next", {"model": encoder({"kind": "words"}, segments=2)}, "model.head.next = false"),
        ("masked", {"tokenizer": {"kind": "bpe", "vocab_size": 310}}, 'add "mask" to it'),
        ("ul2", {"tokenizer": {"kind": "bpe", "vocab_size": 310, "tags": ["R"]}}, 'add "S", "X" to it'),
        ("chat", {"tokenizer": {"kind": "bpe", "vocab_size": 310}}, 'add "|im_start|", "|im_end|" to it'),
        ("causal", {"data": {"source": "a", "target": "b"}}, "data.text: missing"),
        ("classes", {"data": {"text": "a"}}, "data.labels: missing"),
        ("answers", {"data": {"text": "a", "labels": "b"}}, "data.second: missing"),
        ("causal", {"data": {"text": "a", "labels": "b"}}, 'not used by objective.kind = "causal"'),
    ],
)
def test_what_does_not_fit_together_is_named(files: Path, name: str, change: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_recipe(recipe(files, name) | change)
    assert expected in str(caught.value)


def test_files_that_do_not_pair_up_are_refused(files: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("cat\n", encoding="utf-8")
    told = recipe(files, "classes")
    told["data"] |= {"labels": str(tmp_path / "short")}
    with pytest.raises(ValueError, match=r"has 80 lines.*has 1 lines.*line n of each must be about the same text"):
        train(tmp_path / "run", told)
    assert not (tmp_path / "run").exists()


def test_a_mask_that_a_mixer_cannot_serve_is_refused(files: Path) -> None:
    linear = LAYER | {"mixer": {"kind": "linear", "num_heads": 2}}
    told = recipe(files, "causal-lines")
    told["model"] = told["model"] | {"stack": STACK | {"layers": [linear]}}
    with pytest.raises(ConfigError, match="cannot keep the texts of a row apart"):
        parse_recipe(told)


# ---- the guide ----

GUIDE = (Path(__file__).parents[1] / "docs" / "guide" / "texts.md").read_text(encoding="utf-8")
SMALL = ("train.steps=2", "train.validate_every=2", "model.dim=16", "model.stack.layers=[{repeat=1}]")


def test_every_headway_line_of_the_guide_runs(headway: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = sentences(60)
    for name, rows_ in {
        "texts.txt": texts,
        "reviews.txt": texts,
        "reviews.labels": ["good" if "cat" in text else "bad" for text in texts],
        "new.txt": texts[:3],
    }.items():
        Path(name).write_text("".join(f"{row}\n" for row in rows_), encoding="utf-8")
    recipes = re.findall(r"^```toml\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    for name, text in zip(("lm", "masked", "classes"), recipes, strict=True):
        Path(f"{name}.toml").write_text(text, encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]
    assert [words[0] for words in commands] == ["train", "generate", "generate", "train", "train", "label", "embed"]
    for words in commands:
        sets = [word for setting in SMALL for word in ("--set", setting)] if words[0] == "train" else []
        sets += ["--set", "tokenizer.vocab_size=300"] if words[-1] in ("runs/lm", "runs/masked") and sets else []
        code, out, err = headway(*words, *sets)
        assert code == 0, f"{' '.join(words)}\n{err}"
        if words[0] in ("generate", "label"):
            assert len(out.splitlines()) >= (3 if words[0] == "label" or "--num" in words else 1)
    assert np.load("vectors.npy").shape == (3, 16)


def test_the_table_of_the_guide_has_all_objectives() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", GUIDE, flags=re.MULTILINE))
    assert told == {name for cls in variants(ObjectiveConfig) for name in kinds(cls)} - {"translate"}
