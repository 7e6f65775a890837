"""`headway label`: what each head says of lines of text, from heads whose answer is known by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Toy
from headway.architecture import (
    AttentionConfig,
    ClassesConfig,
    EncoderConfig,
    LayerConfig,
    PlainFFNConfig,
    SpanConfig,
    StackConfig,
    TagsConfig,
)
from headway.build import build
from headway.checkpoint import save_model
from headway.config import InputConfig, LanguagesConfig, SearchConfig
from headway.folder import Description, as_json
from headway.models.encoder import Encoder
from headway.text.tokenizer import TokenizerPair

LAYER = LayerConfig(mixer=AttentionConfig(num_heads=2), ffn=PlainFFNConfig(kind="relu", dim=8))
Make = Callable[[Any, Callable[[Encoder], None], tuple[str, ...]], Path]


@pytest.fixture
def make(toy: Toy, tmp_path: Path) -> Make:
    def made(head: Any, change: Callable[[Encoder], None], labels: tuple[str, ...] = ()) -> Path:
        torch.manual_seed(1)
        tokenizers = TokenizerPair.load(toy.run)
        config = EncoderConfig(dim=16, stack=StackConfig(layers=(LAYER,)), head=head)
        model = build(config, tokenizers.sizes)
        with torch.no_grad():
            change(model)
        reads = InputConfig(max_len=40)
        told = Description(config, LanguagesConfig(), SearchConfig(), input=reads, labels=labels)
        save_model(tmp_path / "model", model, as_json(told), tokenizers)
        return tmp_path / "model"

    return made


def biased(*bias: float) -> Callable[[Encoder], None]:
    """Logits that are these, whatever is read."""

    def change(model: Encoder) -> None:
        model.head.out.weight.zero_()
        model.head.out.bias.copy_(torch.tensor(bias))

    return change


def test_a_class_comes_with_its_probability_and_all_of_them_as_json(headway, make: Make) -> None:
    model = make(ClassesConfig(num=2, pool="first"), biased(0.0, 1.0986123), ("bad", "good"))  # ln 3: one to three
    assert headway("label", model, stdin=b"A dog runs.\nTwo cats.\n")[:2] == (0, "good\t0.7500\ngood\t0.7500\n")
    said = json.loads(headway("label", model, "--json", stdin=b"A dog runs.\n")[1])
    assert said["label"] == "good"
    assert said["labels"] == pytest.approx({"good": 0.75, "bad": 0.25})


def test_a_number_is_one_and_tags_are_as_many_as_words(headway, make: Make) -> None:
    number = make(ClassesConfig(num=1), biased(2.5))
    assert headway("label", number, stdin=b"A dog runs.\n")[:2] == (0, "2.5000\n")
    tagger = make(TagsConfig(num=3), biased(0.0, 5.0, 1.0), ("A", "B", "C"))
    assert headway("label", tagger, stdin=b"A dog runs far .\nTwo cats\n")[:2] == (0, "B B B B B\nB B\n")


def test_an_answer_stands_in_its_passage_and_none_is_an_empty_line(headway, make: Make, tmp_path: Path) -> None:
    passages = tmp_path / "passages"
    passages.write_text("Zwölf dogs run.\n", encoding="utf-8")
    model = make(SpanConfig(), biased(0.0, 0.0))  # no span is likelier than none
    assert headway("label", model, "--second", passages, stdin=b"Who runs?\n")[:2] == (0, "\n")


def test_the_likeliest_span_is_what_is_given_back(toy: Toy, monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    from headway.folder import load_reader

    model = load_reader(make(SpanConfig(), biased(0.0, 0.0)), "cpu", batch_invariant=False)
    passage = "Zwölf dogs run fast."
    context, question = (model.tokenizer.encode(text) for text in (passage, "Who runs?"))
    raws = [model.tokenizer.piece_bytes(id).decode("utf-8", "replace") for id in context]
    wanted = range(len(raws))[1:3]

    def told(ids: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*ids.shape, 2)
        logits[:, len(question) + 2 + wanted[0], 0] = 4.0
        logits[:, len(question) + 2 + wanted[-1], 1] = 4.0
        return logits

    monkeypatch.setattr(model.module, "forward", told)
    assert model.answer(["Who runs?"], [passage]) == ["".join(raws[at] for at in wanted).strip()]


def test_what_a_model_cannot_say_is_told_with_what_it_can(headway, make: Make, toy: Toy, tmp_path: Path) -> None:
    code, _, err = headway("label", toy.run, stdin=b"x\n")
    assert code == 2
    assert "translates: headway translate. It labels nothing" in err
    (tmp_path / "two").write_text("a\nb\n", encoding="utf-8")
    spans = make(SpanConfig(), biased(0.0, 0.0))
    assert "answers questions from passages: give these as second" in headway("label", spans, stdin=b"x\n")[2]
    assert "1 questions and 2 passages" in headway("label", spans, "--second", tmp_path / "two", stdin=b"x\n")[2]
