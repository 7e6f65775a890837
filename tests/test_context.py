"""Sentences before a sentence: put together by hand, and the same at training, translation and scoring."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import Toy
from headway import api, cli
from headway.check import check
from headway.config import BPEConfig, CleanConfig, DataConfig, InputConfig, SearchConfig
from headway.data.encode import Encoder
from headway.data.prepare import Corpus
from headway.data.tally import Tally
from headway.generate.align import Head
from headway.generate.lines import Counts, translate_lines
from headway.generate.parts import Translator
from headway.recipe import load_recipe
from headway.text.codes import PROSE, Code, Parts, plain
from headway.text.context import context_ids, preceding
from headway.text.tokenizer import EOS, Tokenizer, TokenizerPair
from toy_models import CopyLast, ToyModel

SEP = 4
"""The first atom stands behind the four control tokens."""

LINES = [
    "One man.",
    "Two men.",
    "Two men.",
    "x" * 30,
    "A dog {0} runs.",
    " ",
    "A cat.",
    "It is مرحبا.",
    "é\u0301\x00",
    "End",
]
MOST = 40


@pytest.fixture(scope="module")
def bytewise() -> TokenizerPair:
    """Every byte is a token."""
    return TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=261, separator=True))


def by_hand(lines: Sequence[str], at: int, num: int, most: int = MOST) -> bytes:
    """What is read for a line, with FF for the separator: bytes, that no UTF-8 has."""
    begin = max([number + 1 for number in range(at) if not lines[number].strip()] + [at - num, 0])
    read = lines[at].encode()
    for line in reversed(lines[begin:at]):
        if len(read) + len(line.encode()) + 1 > most:
            break
        read = line.encode() + b"\xff" + read
    return read


def in_bytes(ids: Sequence[int], tokenizer: Tokenizer) -> bytes:
    return b"".join(b"\xff" if token == SEP else tokenizer.piece_bytes(token) for token in ids)


def test_a_text_is_preceded_by_those_before_it_back_to_a_blank_one() -> None:
    found = list(preceding(["a", "b", "\t ", "c", "d", "e"], 2, str))
    assert [before for _, before in found] == [(), ("a",), (), (), ("c",), ("c", "d")]
    assert list(preceding("ab", 0, str)) == [("a", ()), ("b", ())]


def test_what_does_not_fit_is_left_out_whole_from_the_far_end(bytewise: TokenizerPair) -> None:
    source = bytewise.source

    def read(room: int) -> bytes:
        return in_bytes(context_ids(["abc", "d", "ef"], source, room), source)

    assert [read(room) for room in (9, 8, 5, 4, 3, 2, 0, -7)] == [
        b"abc\xffd\xffef\xff",
        b"d\xffef\xff",
        b"d\xffef\xff",
        b"ef\xff",
        b"ef\xff",
        b"",
        b"",
        b"",
    ]
    plain_one = Tokenizer.train(["a"], BPEConfig(vocab_size=260))
    assert context_ids([], plain_one, 9) == []
    with pytest.raises(ValueError, match="<sep> is no atom of this vocabulary"):
        context_ids(["a"], plain_one, 9)


class Ends(ToyModel):
    """Says nothing, and remembers what it read."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(lambda source, prefix: [9.0 if token == EOS else 0.0 for token in range(vocab_size)])
        self.read: list[list[int]] = []

    def start(self, sources: list[list[int]]):
        self.read += [source[:-1] for source in sources]
        return super().start(sources)


def listening(model: Ends, tokenizers: TokenizerPair, reads: InputConfig, max_source: int = 200) -> Translator:
    search = SearchConfig(beam=1)
    return Translator(model, tokenizers, search, max_source, ("en", "de"), input=reads)  # pyright: ignore


@pytest.mark.parametrize("num", [0, 1, 2, 5])
def test_training_and_translation_read_what_was_put_together_by_hand(
    num: int, bytewise: TokenizerPair, tmp_path: Path
) -> None:
    """Lines that cleaning leaves out or that are held out are context all the same."""
    for name in "xy":
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    clean = CleanConfig(duplicates="pair")
    config = DataConfig(source=f"{tmp_path}/x", target=f"{tmp_path}/y", max_len=MOST, context=num, clean=clean)
    data = Corpus(config, tmp_path / "store")
    examples, _ = data.examples(bytewise, MOST)
    trained = {row.number - 1: row for row in map(examples.__getitem__, range(len(examples)))}
    rows = Encoder(bytewise, MOST).rows([(0, pair) for pair in data.valid], Tally(), lambda part, pair: "")
    held = {row.number - 1: row for row in rows if row is not None}
    assert sorted([*trained, *held]) == [at for at in range(len(LINES)) if at not in (2, 5)]
    assert held
    for at, row in (trained | held).items():
        assert in_bytes(row.source, bytewise.source) == by_hand(LINES, at, num)
        assert in_bytes(row.target, bytewise.target) == LINES[at].encode()

    reads = InputConfig(context=num, max_len=MOST)
    for at, line in enumerate(LINES):  # as many before as there are: those farther away change nothing
        model = Ends(bytewise.source.vocab_size)
        translate_lines(listening(model, bytewise, reads), [line], Counts(), LINES[:at])
        read = {in_bytes(ids, bytewise.source) for ids in model.read}  # a forgotten {0} is searched twice
        assert read == ({by_hand(LINES, at, num)} if line.strip() else set())


def test_lines_at_once_or_one_by_one_are_read_alike(bytewise: TokenizerPair) -> None:
    model = Ends(bytewise.source.vocab_size)
    translate_lines(listening(model, bytewise, InputConfig(context=2, max_len=MOST)), LINES, Counts())
    wanted = {by_hand(LINES, at, 2) for at in range(len(LINES)) if LINES[at].strip()}
    assert {in_bytes(ids, bytewise.source) for ids in model.read} == wanted


def test_a_line_in_pieces_has_its_own_pieces_before_each(bytewise: TokenizerPair) -> None:
    model = Ends(bytewise.source.vocab_size)
    lines = ["Start.", "One man is here. Two men run. A dog."]
    translate_lines(listening(model, bytewise, InputConfig(context=1, max_len=MOST), 20), lines, Counts())
    read = {in_bytes(ids, bytewise.source) for ids in model.read}
    # 20 tokens in all: a piece gets the one before it where both fit.
    assert read == {b"Start.", b"One man is here.", b"Two men run.", b"Two men run.\xffA dog."}


# ---- documents ----


def translator(tokenizers: TokenizerPair, num: int, by_sentence: bool) -> Translator:
    return Translator(
        CopyLast(tokenizers.source.vocab_size, SEP),  # pyright: ignore
        tokenizers,
        SearchConfig(beam=2, max_extra=20),
        max_source=200,
        languages=("en", "de"),
        head=Head("decoder.layers.0.cross"),
        by_sentence=by_sentence,
        input=InputConfig(context=num, max_len=100),
    )


BOLD = Code("<b>", "open", True), Code("</b>", "close", True, "<b>")
TEXTS: list[Parts] = [
    ("One man is here. Two ", BOLD[0], "men", BOLD[1], " run.\nA dog."),
    ("Save ", Code("%s"), " now."),
    ("The ", BOLD[0], "end", BOLD[1], "."),
]


@pytest.mark.parametrize("num", [0, 1, 3])
def test_tags_go_back_to_their_words_with_or_without_context(num: int, bytewise: TokenizerPair) -> None:
    translate = translator(bytewise, num, by_sentence=True)
    before = [[plain(text) for text in TEXTS[:at]] for at in range(len(TEXTS))]
    for known in (before, None):
        found = translate([(text, PROSE) for text in TEXTS], known)
        assert [one.parts for one in found] == TEXTS
        assert [one.faults for one in found] == [()] * len(TEXTS)


def test_a_sentence_of_a_document_is_read_after_those_before_it(bytewise: TokenizerPair) -> None:
    translate = translator(bytewise, 2, by_sentence=True)
    before = [[plain(text) for text in TEXTS[:at]] for at in range(len(TEXTS))]
    translate([(text, PROSE) for text in TEXTS], before)
    assert {in_bytes(ids, bytewise.source) for ids in translate.model.read} == {  # pyright: ignore
        b"One man is here.",
        b"One man is here.\xffTwo men run.",
        b"One man is here.\xffTwo <b>men</b> run.\xffA dog.",
        b"Two <b>men</b> run.\xffA dog.\xffSave %s now.",
        b"A dog.\xffSave %s now.\xffThe end.",
    }


# ---- from the recipe to the model folder ----


@pytest.fixture(scope="module")
def run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context") / "run"
    changes = cli.overrides([*toy.settings, "data.context=1", "tokenizer.separator=true", "data.max_len=60"])
    api.train(source=toy.data / "train.en", target=toy.data / "train.de", out=folder, set=changes, quiet=True)
    return folder


def test_the_model_folder_says_what_context_the_model_reads(run: Path, toy: Toy) -> None:
    assert json.loads((run / "config.json").read_text())["input"] == {"max_len": 60, "context": 1, "matches": None}
    assert api.load(toy.run).input == InputConfig(max_len=DataConfig().max_len)


def test_a_line_depends_on_as_many_before_it_as_the_model_was_trained_with(run: Path, monkeypatch) -> None:
    model, read = api.load(run, device="cpu"), list[list[int]]()
    start = model.module.start
    monkeypatch.setattr(model.module, "start", lambda sources: [read.extend(sources), start(sources)][1])

    def reading(lines: list[str], at_once: int = 100) -> list[str]:
        read.clear()
        results = [line[0].text for line in model.stream(lines, beam=1, lines_at_once=at_once)]
        assert len(results) == len(lines)
        return results

    lines = ["A dog runs.", "Two men.", "The cat sleeps.", "", "Two men."]
    whole = reading(lines)
    encode = model.tokenizers.source.encode
    a, b, c = (encode(line) for line in lines[:3])
    assert sorted(read) == sorted([*ids, EOS] for ids in (a, [*a, SEP, *b], [*b, SEP, *c], b))
    assert reading(lines, at_once=1) == whole
    assert reading(lines[1:])[1:] == whole[2:]

    given = list[tuple[list[int], list[int]]]()
    monkeypatch.setattr(
        "headway.generate.model.score_ids", lambda _, pairs: given.extend(pairs) or [[0.0]] * len(pairs)
    )
    model.score([(line, "x") for line in lines])
    assert given == [(ids, encode("x")) for ids in (a, [*a, SEP, *b], [*b, SEP, *c], [], b)]


def test_context_without_a_separator_is_a_fault_told_before_training(toy: Toy) -> None:
    recipe = load_recipe(toy.run / "recipe.toml")
    asked = recipe.model_copy(update={"data": recipe.data.model_copy(update={"context": 2})})
    (fault,) = check(asked)
    assert str(fault).startswith("data.context = 2: needs a piece to stand between sentences; set tokenizer.separator")
    tokenizer = {"kind": "file", "path": str(toy.run / "tokenizer.json")}
    with pytest.raises(ValueError, match="<sep> is no atom of this vocabulary"):
        api.data_report(toy.run / "recipe.toml", set={"data.context": 1, "tokenizer": tokenizer})
