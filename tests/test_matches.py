"""Translations of similar texts that a model reads: put together by hand, and the same at training and translation."""

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
from headway.data.memory import Memory, Unit
from headway.data.pair import Pair
from headway.data.prepare import Corpus
from headway.data.tally import Tally
from headway.generate.align import Head
from headway.generate.parts import Translator
from headway.recipe import load_recipe
from headway.text.codes import PROSE, Code, Parts
from headway.text.context import context_ids
from headway.text.tokenizer import EOS, Tokenizer, TokenizerPair
from toy_models import CopyLast

PAIRS = [
    ("Open the file now.", "Öffne die Datei jetzt."),
    ("Open the door now.", "Öffne die Tür jetzt."),  # four of five words, the full stop counted: 80 %
    ("Open the door now.", "Mach die Tür jetzt auf."),
    ("A cat sleeps", "Eine Katze schläft"),
    ("A cat", "Eine Katze"),  # two of three: 66 %
    ("Something else entirely", "Etwas ganz anderes"),
]
SIMILAR = {0: 2, 1: 0, 2: 0, 3: 4, 4: 3, 5: None}
"""Whose translation each reads, from 60 % on; of one score, the one read last; never that of an equal source."""


@pytest.fixture(scope="module")
def bytewise() -> TokenizerPair:
    """Every byte is a token, and there are atoms <x0>, <x1>, <sep>, <match>."""
    return TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=264, placeholders=2, separator=True, match=True))


def test_training_reads_the_translation_of_the_most_similar_other_source(
    bytewise: TokenizerPair, tmp_path: Path
) -> None:
    for name, side in (("x", 0), ("y", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    (tmp_path / "vx").write_text("Open the shop now.\nA cat\n")
    (tmp_path / "vy").write_text("x\ny\n")
    named = {"source": "x", "target": "y", "valid_source": "vx", "valid_target": "vy"}
    config = DataConfig(**{key: str(tmp_path / name) for key, name in named.items()}, max_len=60, matches=60)
    data = Corpus(config, tmp_path / "store")
    examples, _ = data.examples(bytewise, 60)
    encode, mark = bytewise.source.encode, [bytewise.source.atom("<match>")]
    for row in map(examples.__getitem__, range(len(examples))):
        other = SIMILAR[row.number - 1]
        before = [*encode(PAIRS[other][1]), *mark] if other is not None else []
        assert list(row.source) == before + encode(PAIRS[row.number - 1][0])
        assert list(row.target) == encode(PAIRS[row.number - 1][1])
    encoder = Encoder(bytewise, 60, data.valid_tags, similar=data.similar)
    rows = encoder.rows([(0, pair) for pair in data.valid], Tally(), lambda part, pair: "")
    assert [list(row.source) for row in rows if row] == [
        [*encode("Mach die Tür jetzt auf."), *mark, *encode("Open the shop now.")],
        [*encode("Eine Katze schläft"), *mark, *encode("A cat")],
    ]


def test_a_match_that_does_not_fit_is_left_out_whole_and_goes_before_context(bytewise: TokenizerPair) -> None:
    source, match = bytewise.source, bytewise.source.encode("wxy")
    sep, mark = source.atom("<sep>"), source.atom("<match>")
    a, b = source.encode("a"), source.encode("b")
    assert context_ids(["a", "b"], source, 8, match) == [*match, mark, *a, sep, *b, sep]
    assert context_ids(["a", "b"], source, 7, match) == [*match, mark, *b, sep]
    assert context_ids(["a", "b"], source, 4, match) == [*match, mark]
    assert context_ids(["a", "b"], source, 3, match) == [*b, sep]
    plain = Tokenizer.train(["a"], BPEConfig(vocab_size=260))
    with pytest.raises(ValueError, match="<match> is no atom of this vocabulary"):
        context_ids([], plain, 9, match)


def test_codes_of_a_match_are_the_atoms_that_stand_for_them_in_the_pair(bytewise: TokenizerPair) -> None:
    match: Parts = ("Sichere ", Code("%s"), " in ", Code("{dir}"), ".")
    encoder = Encoder(bytewise, 60, similar=lambda source: match)
    (row,) = encoder.rows([(0, Pair(("Save %s.",), ("%s sichern.",)))], Tally(), lambda part, pair: "")
    assert row is not None
    atom = row.target[0]  # drawn for this pair
    assert atom in bytewise.source.atom_ids
    encode, mark = bytewise.source.encode, bytewise.source.atom("<match>")
    wanted = [*encode("Sichere "), atom, *encode(" in {dir}."), mark, *encode("Save "), atom, *encode(".")]
    assert list(row.source) == wanted


def translator(tokenizers: TokenizerPair, units: Sequence[Unit], **options) -> Translator:
    settings = {"max_source": 200, "by_sentence": True, "input": InputConfig(max_len=100, matches=60), **options}
    return Translator(
        CopyLast(tokenizers.source.vocab_size, tokenizers.source.atom("<match>")),  # pyright: ignore
        tokenizers,
        SearchConfig(beam=2, max_extra=20),
        languages=("en", "de"),
        head=Head("decoder.layers.0.cross"),
        memory=Memory(units),
        **settings,
    )


UNITS = [Unit((source,), (target,)) for source, target in PAIRS]


def test_translation_reads_what_training_read_and_takes_what_the_memory_holds(bytewise: TokenizerPair) -> None:
    translate = translator(bytewise, UNITS)
    texts = [("Open the shop now. A cat. Something else entirely",), ("A cat sleeps",), ("Nothing like it!",)]
    found = translate([(text, PROSE) for text in texts])
    encode, mark = bytewise.source.encode, bytewise.source.atom("<match>")
    assert sorted(translate.model.read) == sorted(  # pyright: ignore
        [
            [*encode("Mach die Tür jetzt auf."), mark, *encode("Open the shop now.")],
            [*encode("Eine Katze"), mark, *encode("A cat.")],  # two of three words
            encode("Nothing like it!"),
        ]
    )
    assert [one.parts for one in found] == [
        ("Open the shop now. A cat. Etwas ganz anderes",),
        ("Eine Katze schläft",),
        ("Nothing like it!",),
    ]
    assert [one.origin for one in found] == ["model", "memory", "model"]
    assert [[match.score for match in one.matches] for one in found] == [[80, 66, 100], [100], []]
    assert found[1].confidence == 1.0


def test_a_model_that_was_not_trained_so_reads_no_match_and_is_offered_good_ones(bytewise: TokenizerPair) -> None:
    translate = translator(bytewise, UNITS, input=InputConfig(max_len=100))
    found = translate([(("Open the shop now.",), PROSE), (("A cat.",), PROSE)])
    assert translate.model.read == [bytewise.source.encode(text) for text in ("Open the shop now.", "A cat.")]  # pyright: ignore
    assert [[match.score for match in one.matches] for one in found] == [[80], []]


def test_a_match_is_read_from_the_score_on_that_the_model_was_trained_with(bytewise: TokenizerPair) -> None:
    translate = translator(bytewise, UNITS, input=InputConfig(max_len=100, matches=81))
    (found,) = translate([(("Open the shop now.",), PROSE)])
    assert translate.model.read == [bytewise.source.encode("Open the shop now.")]  # pyright: ignore
    assert [match.score for match in found.matches] == [80]


def test_beside_a_source_without_its_tags_a_match_has_none(bytewise: TokenizerPair) -> None:
    tokenizers = TokenizerPair.train(["a"], ["b"], BPEConfig(vocab_size=261, match=True))
    bold: Parts = (Code("<b>", "open", True), "file", Code("</b>", "close", True, "<b>"))
    translate = translator(tokenizers, [Unit(("Open the ", *bold, "."), ("Mach die ", *bold, " auf."))])
    translate([(("Close the ", *bold, "."), PROSE)])
    encode, mark = tokenizers.source.encode, tokenizers.source.atom("<match>")
    assert translate.model.read[0] == [*encode("Mach die file auf."), mark, *encode("Close the file.")]  # pyright: ignore


def test_tags_of_a_match_that_the_text_has_not_are_not_read(bytewise: TokenizerPair) -> None:
    tag = Code("<bpt i='1'>b</bpt>", "open", True, "1")
    unit = Unit(("Save the ", tag, "file ", Code("%s")), ("Sichere ", tag, "die ", Code("%d"), " Datei ", Code("%s")))
    translate = translator(bytewise, [unit], by_sentence=False)
    translate([(("Save the old file ", Code("%s")), PROSE)])
    encode, atom, mark = bytewise.source.encode, bytewise.source.atom("<x0>"), bytewise.source.atom("<match>")
    match = [*encode("Sichere die %d Datei "), atom, mark]
    assert translate.model.read[0] == [*match, *encode("Save the old file "), atom]  # pyright: ignore


def test_a_text_that_is_known_as_a_whole_is_not_cut_and_another_is_asked_for_by_sentences(
    bytewise: TokenizerPair,
) -> None:
    units = [*UNITS, Unit(("Save it now. Open the file now.",), ("Jetzt sichern und die Datei öffnen.",))]
    translate = translator(bytewise, units, by_sentence=False)
    found = translate([(("Save it soon. Open the file now.",), PROSE), (("Nothing. Open the file now.",), PROSE)])
    assert [[match.score for match in one.matches] for one in found] == [[88], [100]]
    assert found[1].parts == ("Nothing. Öffne die Datei jetzt.",)


@pytest.mark.parametrize("placeholders", [0, 8])
def test_codes_go_where_they_belong_beside_a_match_with_the_same_words(placeholders: int) -> None:
    config = BPEConfig(vocab_size=261 + placeholders, placeholders=placeholders, match=True)
    tokenizers = TokenizerPair.train(["a"], ["b"], config)
    bold: Parts = (Code("<b>", "open", True), "file", Code("</b>", "close", True, "<b>"))
    unit = Unit(
        (
            "Open the ",
            *bold,
            " now: %s.",
        ),
        (
            "Now: %s, the ",
            *bold,
            " open.",
        ),
    )
    translate = translator(tokenizers, [unit], by_sentence=False)
    text: Parts = ("Close the ", *bold, " now: ", Code("%s"), ".")
    (one,) = translate([(text, PROSE)])
    assert (one.parts, one.faults) == (text, ())
    assert all(translate.model.mark in ids for ids in translate.model.read)  # pyright: ignore


def test_the_pairs_that_are_left_out_or_held_out_are_in_no_memory(bytewise: TokenizerPair, tmp_path: Path) -> None:
    lines = [f"Open the {word} now." for word in ("file", "door", "shop", "cat", "box", "book", "tin", "car")]
    for name in "xy":
        (tmp_path / name).write_text("".join(f"{line}\n" for line in [*lines, "Open the file again now."]))
    clean = CleanConfig(max_chars=20)
    config = DataConfig(source=f"{tmp_path}/x", target=f"{tmp_path}/y", matches=1, holdout_share=0.4, clean=clean)
    data = Corpus(config, tmp_path / "store")
    held = {pair.source for pair in data.valid}
    kept = [(line,) for line in lines if (line,) not in held]
    assert 0 < len(held) < len(lines)
    every = {match.target for match in data._memory.lookup(("Open the file now.",), min_score=1)}
    assert every == set(kept)


# ---- from the recipe to the model folder ----


def test_a_model_says_what_matches_it_reads_and_reads_them_of_a_file(toy: Toy, tmp_path: Path, monkeypatch) -> None:
    settings = ["data.matches=50", "tokenizer.match=true", "data.max_len=60", "train.steps=2"]
    changes = cli.overrides([*toy.settings, *settings])
    api.train(source=toy.data / "train.en", target=toy.data / "train.de", out=tmp_path / "run", set=changes, quiet=True)
    reads = json.loads((tmp_path / "run/config.json").read_text())["input"]
    assert reads == {"max_len": 60, "context": 0, "matches": 50}

    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    (tmp_path / "memory.po").write_text(header + 'msgid "A dog runs."\nmsgstr "Ein Hund rennt."\n')
    (tmp_path / "new.po").write_text(header + 'msgid "A cat runs."\nmsgstr ""\n')
    model, read = api.load(tmp_path / "run", device="cpu"), list[list[int]]()
    start = model.module.start
    monkeypatch.setattr(model.module, "start", lambda sources: [read.extend(sources), start(sources)][1])
    api.translate_document(model, tmp_path / "new.po", lambda data: None, memory=[tmp_path / "memory.po"])
    source = model.tokenizers.source
    assert read == [[*source.encode("Ein Hund rennt."), source.atom("<match>"), *source.encode("A cat runs."), EOS]]


def test_matches_without_a_piece_for_them_are_a_fault_told_before_training(toy: Toy) -> None:
    recipe = load_recipe(toy.run / "recipe.toml")
    asked = recipe.model_copy(update={"data": recipe.data.model_copy(update={"matches": 50})})
    (fault,) = check(asked)
    assert str(fault).startswith(
        "data.matches = 50: needs a piece to stand between a match and a source; set tokenizer"
    )
