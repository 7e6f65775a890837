"""The wiring: what `headway.load`, `Model` and `headway.train` promise, on a toy run."""

import json
from pathlib import Path

import pytest
import torch

import headway as package
from conftest import Toy
from headway import api, training
from headway.architecture import LearnedConfig
from headway.build import build
from headway.checkpoint import read_tensors
from headway.config import BPEConfig, LanguagesConfig, PowerConfig, SearchConfig
from headway.data.batch import Examples, Loader
from headway.data.corpus import read_pairs
from headway.data.encode import Encoder
from headway.data.pair import Pair
from headway.data.prepare import HELD, KEPT, Corpus
from headway.data.store import pack
from headway.data.tally import Tally
from headway.folder import open_model
from headway.generate.decode import score_ids, translate_ids
from headway.generate.model import Model, longest_source
from headway.generate.parts import Translated
from headway.recipe import load_recipe
from headway.text.codes import plain
from headway.text.segment import fit
from headway.text.tokenizer import EOS, Tokenizer, TokenizerPair
from headway.train.objective import build_loss
from headway.train.plan import measure, plan, recipe_for

SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture(scope="module")
def model(toy: Toy) -> Model:
    return package.load(toy.run, device="cpu")


def test_as_many_texts_come_out_as_go_in_whatever_is_in_them(model: Model) -> None:
    texts = ["A dog runs.", "", "   ", "a\u2028b", "a\nb", "\x00", "</s>", "日本語", "\ufffd", "A dog runs."]
    found = model.translate(texts, beam=2, max_extra=3)
    assert len(found) == len(texts)
    assert found[1] == found[2] == ""
    assert found[0] == found[-1]
    assert not any(separator in text for text in found for separator in SEPARATORS)
    assert model.translate([]) == []


def test_nbest_is_distinct_and_begins_with_the_best(model: Model) -> None:
    text = ["The woman sees a dog."]
    several = model.translate(text, beam=5, n_best=5, max_extra=3)[0]
    assert len(several) == 5
    assert several[0] == model.translate(text, beam=5, max_extra=3)[0]
    assert model.translate([""], beam=3, n_best=3) == [["", "", ""]]


def test_a_long_line_is_translated_in_pieces_that_lose_nothing(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    line = " ".join(f"word{number}" for number in range(200))
    pieces = fit(line, None, lambda text: len(model.tokenizer.encode(text)), 60)
    assert max(len(model.tokenizer.encode(text)) for text, _ in pieces) <= 60
    assert "".join(map("".join, pieces)) == line
    with caplog.at_level("WARNING", "headway"):
        whole = model.translate([line], beam=1, max_extra=2, max_source=60)
    assert whole == [" ".join(model.translate([text for text, _ in pieces], beam=1, max_extra=2))]
    assert f"1 of 1 lines were translated in {len(pieces)} pieces" in caplog.text
    assert "the model reads 60 tokens" in caplog.text


def test_a_model_with_learned_positions_gets_no_more_than_it_has_places_for(model: Model) -> None:
    def longest(places: int, **search: float) -> int:
        position = LearnedConfig(max_len=places)
        return longest_source(model.config.model_copy(update={"position": position}), SearchConfig(**search), 512)

    assert longest(300, max_ratio=1.0, max_extra=50) == 249
    assert longest(300, max_ratio=0.5, max_extra=50) == 299
    assert longest(300, max_ratio=2.0, max_extra=50) == 124
    assert longest(5000) == 512
    with pytest.raises(ValueError, match="max_extra = 50: the model has 40 positions"):
        longest(40)


def test_a_megabyte_in_one_line_comes_out_as_one_line(model: Model) -> None:
    found = model.translate(["1 " * 500_000 + "2"], beam=1, max_ratio=0.0, max_extra=1)
    assert len(found) == 1
    assert "\n" not in found[0]


def test_translations_at_the_length_limit_are_counted(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "headway"):
        model.translate(["A dog runs.", "Two men."], beam=1, max_ratio=0.0, max_extra=1)
    assert "2 translations stopped at the length limit" in caplog.text


def test_a_stream_is_read_in_chunks_and_not_to_its_end(model: Model) -> None:
    taken = []

    def endless():
        while True:
            taken.append("A dog.")
            yield taken[-1]

    stream = model.stream(endless(), beam=1, max_extra=1, lines_at_once=7)
    for _ in range(10):
        next(stream)
    assert len(taken) == 14


def test_scores_of_given_translations_are_those_of_the_search(model: Model) -> None:
    """Teacher forcing against cached steps, in the real model."""
    texts = ["The woman sees a dog.", "Two men.", "If the horse plays, these farmers love the students."]
    sources = [model.tokenizer.encode(text) for text in texts]
    found = list(translate_ids(model.module, sources, SearchConfig(beam=3, n_best=3, max_extra=9)))
    pairs = [(source, best.tokens) for source, line in zip(sources, found, strict=True) for best in line]
    searched = [best.token_logprobs for line in found for best in line]
    for forced, own in zip(score_ids(model.module, pairs), searched, strict=True):
        assert forced[: len(own)] == pytest.approx(own, abs=1e-5)


def test_score_names_each_token_and_sums_them(model: Model) -> None:
    [score] = model.score([("Two men.", "Zwei Männer.")])
    assert score.logprob == pytest.approx(sum(score.token_logprobs))
    assert len(score.tokens) == len(score.token_logprobs)
    assert score.tokens[-1] == "</s>"
    assert "".join(score.tokens[:-1]).replace("\u0120", " ").startswith("Zwei")


def test_scoring_reads_tags_and_placeholders_as_translation_does(model: Model, monkeypatch) -> None:
    config = BPEConfig(vocab_size=265, placeholders=2, tags=("2de", "ui"), separator=True)
    tokenizer = Tokenizer.train(["a"], config)
    atom, encode = tokenizer.atom, tokenizer.encode
    module = build(model.config, tokenizer.vocab_size)
    pair = TokenizerPair(tokenizer, tokenizer)
    other = Model(module, pair, model.config, model.languages, model.search)
    given, read = list[tuple[list[int], list[int]]](), list[list[int]]()
    score = [(" Save <b>%s</b>.", "<b>%s</b> sichern, {0}. ")]
    monkeypatch.setattr(
        "headway.generate.model.score_ids", lambda _, pairs: given.extend(pairs) or [[0.0]] * len(pairs)
    )
    other.score(score, ["2de"])
    source = [atom("<2de>"), *encode("Save "), atom("<x0>"), *encode(".")]
    assert [(list(x), y) for x, y in given] == [(source, [atom("<x0>"), *encode(" sichern, {0}.")])]
    monkeypatch.setattr(module, "start", lambda sources: [read.extend(sources), type(module).start(module, sources)][1])
    other.translate(["Save <b>%s</b>."], beam=1, max_extra=1, tags=["2de"])
    assert read[0] == [*source, EOS]  # what a tried model forgets is searched again
    with pytest.raises(ValueError, match="<3fr> is no atom"):
        other.score(score, ["3fr"])


def test_the_language_that_is_meant_of_a_file_with_several_variants_can_be_named(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def translate(texts, before=None):
        read.extend(plain(text) for text, _ in texts)
        return [Translated(("Farbe.",), 0.0, 1) for _ in texts]

    monkeypatch.setattr(model, "languages", LanguagesConfig(source="en", target="de"))
    monkeypatch.setattr(model, "translator", lambda **options: translate)
    tuv = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    unit = f"<tu>{tuv('en-US', 'A color.')}{tuv('en-GB', 'A colour.')}{tuv('de-DE', '')}</tu>"
    file, written = tmp_path / "a.tmx", list[bytes]()
    file.write_text(f'<tmx version="1.4"><header srclang="en-US"/><body>{unit}</body></tmx>')
    with pytest.raises(ValueError, match=r"'en' may be en-GB or en-US\. Name the one that you mean as source language"):
        api.translate_document(model, file, written.append)
    for asked in ("en-GB", "en_us"):
        api.translate_document(model, file, written.append, source_language=asked)
    assert read == ["A colour.", "A color."]
    faults = "source language fr: the model was trained for en\ntarget language es-MX: the model was trained for de"
    with pytest.raises(ValueError, match=f"^{faults}$"):
        api.translate_document(model, file, written.append, source_language="fr", target_language="es-MX")


def test_loading_says_where_bits_depend_on_the_neighbours(toy: Toy, monkeypatch, caplog) -> None:
    monkeypatch.setattr("headway.folder.is_invariant", lambda module, length, beside: False)
    api.load(toy.run)
    assert "may depend on what is translated beside it" in caplog.text


def test_a_model_with_few_learned_positions_loads_and_translates(toy: Toy, tmp_path: Path) -> None:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de", "quiet": True}
    changes = {**settings(toy), "model.position": {"kind": "learned", "max_len": 30}, "data.max_len": 29}
    api.train(**files, out=tmp_path / "run", set=changes)
    assert len(api.load(tmp_path / "run").translate(["A dog runs. " * 20])) == 1


def test_a_search_that_the_positions_cannot_hold_is_refused_before_there_is_a_run(toy: Toy, tmp_path: Path) -> None:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de", "quiet": True}
    changes = {**settings(toy), "model.position": {"kind": "learned", "max_len": 30}, "data.max_len": 29}
    with pytest.raises(ValueError, match="max_extra = 29: the model has 30 positions"):
        api.train(**files, out=tmp_path / "run", set={**changes, "search.max_extra": 29})
    assert not (tmp_path / "run").exists()


def test_what_a_call_leaves_out_is_the_search_of_the_recipe(toy: Toy, tmp_path: Path) -> None:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de", "quiet": True}
    changes = {
        **settings(toy),
        "search.beam": 3,
        "search.max_extra": 2,
        "search.max_ratio": 0.3,
        "search.stop": "exact",
    }
    changes["search.penalty"] = {"kind": "power", "alpha": 1.5}
    scores = api.train(**files, out=tmp_path / "run", set=changes)
    model = api.load(tmp_path / "run")
    search = SearchConfig(beam=3, max_extra=2, max_ratio=0.3, stop="exact", penalty=PowerConfig(alpha=1.5))
    assert model.search == search
    recipe = load_recipe(tmp_path / "run" / "recipe.toml")
    held = Corpus(recipe.data, tmp_path / "store").valid
    pairs = [(plain(pair.source), plain(pair.target)) for pair in held]
    assert training.scored(model, pairs)["length_ratio"] == scores["length_ratio"]
    with pytest.raises(ValueError, match="n_best = 2: a recipe's search gives one"):
        api.train(**files, out=tmp_path / "other", set={**changes, "search.n_best": 2})


def test_a_text_for_a_list_of_texts_is_refused(model: Model) -> None:
    with pytest.raises(ValueError, match="list"):
        model.translate("A dog runs.")


def test_what_is_no_text_is_named(model: Model) -> None:
    with pytest.raises(ValueError, match="text 2 is None"):
        model.translate(["a", None])  # type: ignore[list-item]
    for pair in (("a",), ("a", None), "ab"):
        with pytest.raises(ValueError, match="pair 1 is"):
            model.score([pair])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="max_source = 0"):
        model.translate(["a"], max_source=0)
    with pytest.raises(ValueError, match="threads = 0"):
        package.load("nowhere", threads=0)
    with pytest.raises(ValueError, match="give them to load"):
        api.evaluate(model, "a", "b", threads=1)


def test_every_fault_of_a_search_is_said_at_once(model: Model) -> None:
    with pytest.raises(ValueError, match=r"(?s)beam = 0.*max_extra = -1"):
        model.translate(["a"], beam=0, max_extra=-1)
    with pytest.raises(ValueError, match="n_best"):
        model.translate(["a"], beam=2, n_best=3)


def test_the_module_takes_tokens_and_gives_logits(model: Model) -> None:
    logits = model.module(torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7, 8, 9]]))
    assert logits.shape == (1, 4, model.tokenizer.vocab_size)


def test_load_says_which_devices_and_dtypes_there_are(toy: Toy) -> None:
    with pytest.raises(ValueError, match="float32, float64, bfloat16"):
        package.load(toy.run, dtype="int3")
    with pytest.raises(ValueError, match="no such kind"):
        package.load(toy.run, device="abacus")
    assert next(package.load(toy.run, dtype="float64").module.parameters()).dtype == torch.float64


def test_a_run_that_is_resumed_gives_what_the_unbroken_run_gives(toy: Toy, tmp_path: Path) -> None:
    changes = {"train.steps": 3, "train.save_every": 1, "model.dim": 16, "train.batch_tokens": 500, "search.beam": 1}
    changes |= {"search.max_extra": 1, "train.validate_every": 2, "train.schedule.warmup": 0.5}
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de"}
    api.train(**files, out=tmp_path / "whole", set=changes, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Validation, "__call__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            api.train(**files, out=tmp_path / "broken", set=changes, quiet=True)
    with pytest.raises(ValueError, match="not finished"):
        package.load(tmp_path / "broken")
    api.train(out=tmp_path / "broken", resume=True, quiet=True)
    for name in ("metrics.jsonl", "model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_resuming_with_other_settings_is_refused_and_with_the_same_ones_is_not(toy: Toy) -> None:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de", "out": toy.run, "quiet": True}
    with pytest.raises(ValueError, match=r"train.seed: 1 then, 2 now"):
        api.train(resume=True, set={**settings(toy), "train.seed": 2}, **files)
    before = read_tensors(toy.run / "model.safetensors")
    api.train(resume=True, set=settings(toy), **files)
    after = read_tensors(toy.run / "model.safetensors")
    assert all(before[name].equal(after[name]) for name in before)


def settings(toy: Toy) -> dict:
    from headway.cli import overrides

    return overrides(list(toy.settings))


def test_init_starts_from_the_weights_and_the_tokenizer_of_a_model(toy: Toy, tmp_path: Path) -> None:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de", "quiet": True}
    changes = {**settings(toy), "train.schedule.peak": 1e-12, "train.steps": 1, "train.average.num": 1}
    api.train(**files, out=tmp_path / "next", init=toy.run, set=changes)
    old, new = read_tensors(toy.run / "model.safetensors"), read_tensors(tmp_path / "next" / "model.safetensors")
    assert all(torch.allclose(old[name], new[name], atol=1e-6) for name in old)
    assert (tmp_path / "next" / "tokenizer.json").read_bytes() == (toy.run / "tokenizer.json").read_bytes()
    assert load_recipe(tmp_path / "next" / "recipe.toml").tokenizer.path == str(toy.run / "tokenizer.json")
    with pytest.raises(ValueError, match=r"tokenizer.vocab_size: --init .* brings its own tokenizer"):
        api.train(**files, out=tmp_path / "other", init=toy.run, set={**changes, "tokenizer.vocab_size": 300})


def test_a_run_that_was_killed_before_its_recipe_was_written_begins_on_resume(toy: Toy, tmp_path: Path) -> None:
    files = {"source": toy.data / "train.en", "target": toy.data / "train.de", "out": tmp_path / "run", "quiet": True}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="no run here to resume"):
        api.train(out=tmp_path / "run", resume=True)
    api.train(**files, resume=True, set=settings(toy))
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (toy.run / name).read_bytes()


def test_a_recipe_trains_as_a_table_as_a_file_and_over_an_old_run_only_by_force(toy: Toy, tmp_path: Path) -> None:
    table = {
        "data": {"source": str(toy.data / "train.en"), "target": str(toy.data / "train.de")},
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "model": {"preset": "transformer-tiny", "dim": 8},
        "train": {"steps": 1, "save_every": 1, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
        "search": {"beam": 1, "max_extra": 1},
    }
    result = package.train(table, out=tmp_path / "run", quiet=True)
    assert result["num_lines"] == 15
    with pytest.raises(ValueError, match="--force"):
        package.train(table, out=tmp_path / "run", quiet=True)
    package.train(tmp_path / "run" / "recipe.toml", out=tmp_path / "run", force=True, quiet=True)


def test_a_dollar_sign_in_a_path_survives_into_the_recipe_of_the_run(toy: Toy, tmp_path: Path) -> None:
    folder = tmp_path / "costs $5, $HOME"
    folder.mkdir()
    for name in ("train.en", "train.de"):
        (folder / name).write_bytes((toy.data / name).read_bytes())
    api.train(
        source=folder / "train.en", target=folder / "train.de", out=tmp_path / "run", set=settings(toy), quiet=True
    )
    api.train(out=tmp_path / "run", resume=True, quiet=True)
    api.train(tmp_path / "run" / "recipe.toml", out=tmp_path / "again", quiet=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


def test_the_plan_grows_with_the_data_and_stays_in_bounds() -> None:
    plans = [plan(pairs, 110 * pairs) for pairs in (1, 200, 5_000, 29_000, 1_000_000, 100_000_000)]
    assert [chosen.vocab_size for chosen in plans] == [400, 500, 2500, 6000, 32_000, 32_000]
    assert [chosen.steps for chosen in plans] == sorted(chosen.steps for chosen in plans)
    assert [chosen.preset for chosen in plans] == ["transformer-tiny"] * 4 + ["transformer-base"] * 2


def test_a_recipe_for_two_files_reads_the_languages_from_their_names(toy: Toy) -> None:
    recipe = recipe_for(toy.data / "train.en", toy.data / "train.de", {})
    assert (recipe.data.source_language, recipe.data.target_language) == ("en", "de")
    assert recipe.tokenizer.vocab_size == 600


def test_measuring_changes_neither_the_weights_nor_the_random_numbers(toy: Toy) -> None:
    opened = open_model(toy.run)
    tokenizer, module = opened.tokenizer, opened.module
    recipe = load_recipe(toy.run / "recipe.toml")
    pairs = read_pairs(toy.data / "train.en", toy.data / "train.de")
    placed = [(0, Pair((source,), (target,), number=number)) for number, (source, target) in enumerate(pairs, 1)]
    rows = Encoder(TokenizerPair(tokenizer, tokenizer), 256).rows(placed, Tally(), lambda part, pair: "")
    loader = Loader(Examples([pack(row for row in rows if row)]), 500, 1)
    batches = [batch for (_, _, batch), _ in zip(loader.start(), range(2), strict=False)]
    before, weights = torch.get_rng_state(), [parameter.clone() for parameter in module.parameters()]
    found = measure(module, batches, recipe.train, build_loss(recipe.model, recipe.train), torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, module.parameters(), weights))
    assert found.seconds_per_step > 0


def test_the_estimate_is_written_into_the_run(toy: Toy) -> None:
    assert {"seconds_per_step", "seconds", "bytes"} == json.loads((toy.run / "estimate.json").read_text()).keys()


def test_the_tokenizer_learns_from_the_training_pairs_alone(toy: Toy, tmp_path: Path) -> None:
    recipe = load_recipe(toy.run / "recipe.toml")
    corpus = Corpus(recipe.data, tmp_path)
    parts = {
        fate: [(plain(pair.source), plain(pair.target)) for _, pair, of in corpus.read() if of == fate]
        for fate in (KEPT, HELD)
    }
    pairs = read_pairs(toy.data / "train.en", toy.data / "train.de")
    assert sorted(parts[KEPT] + parts[HELD]) == sorted(pairs)
    assert not {source for source, _ in parts[KEPT]} & {source for source, _ in parts[HELD]}
    texts = [text for pair in parts[KEPT] for text in pair]
    learnt = Tokenizer.train(texts, recipe.tokenizer)
    assert learnt.to_json() == Tokenizer.load(toy.run / "tokenizer.json").to_json()
    assert Tokenizer.load(toy.run / "tokenizer.json").vocab_size == recipe.tokenizer.vocab_size


@pytest.mark.slow
def test_the_demo_reaches_its_figures(tmp_path: Path) -> None:
    scores = api.demo(out=tmp_path, quiet=True)
    assert scores["bleu"] >= 90
    assert scores["word_for_word_bleu"] < 30
    for name in ("explain.html", "report.html"):
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_public_names_are_the_functions_although_rooms_have_the_same_names() -> None:
    from headway.evaluate import metrics
    from headway.train import loop

    assert package.train is api.train
    assert package.evaluate is api.evaluate
    assert loop.train is not api.train
    assert metrics.__name__ == "headway.evaluate.metrics"
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="lode"):
        package.lode  # noqa: B018


def test_a_long_line_without_spaces_is_cut_amid_words_and_that_is_said(
    model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    text = "日本語のテキスト" * 9
    pieces = fit(text, "ja", lambda text: len(model.tokenizer.encode(text)), 50)
    assert "".join(map("".join, pieces)) == text
    with caplog.at_level("WARNING", "headway"):
        model.translate([text], beam=1, max_ratio=0.0, max_extra=1, max_source=50)
    assert f"translated in {len(pieces)} pieces, cut between sentences where that was enough" in caplog.text
