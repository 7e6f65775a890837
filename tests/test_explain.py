"""Explanations: weights and probabilities are the model's own, words keep the sums, and texts are shown as texts."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import html5lib
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import twins
from conftest import Toy
from headway import api
from headway.build import build
from headway.config import LanguagesConfig, SearchConfig
from headway.evaluate.explain import LONGEST, Explanation, Layer, best, explain, label, page, pooled, words
from headway.generate.beam import Hypothesis, Seen, beam_search
from headway.generate.model import Model
from headway.recipe import parse_model
from headway.text.tokenizer import BOS, EOS, TokenizerPair
from toy_models import ToyModel, random_table

TEXT = "The small dog sees two houses."
NASTY = "A </script><script>alert(1)</script> & \"dog\" <!-- 'x' {{ 7 * 7 }} \x01"


@pytest.fixture(scope="module")
def model(toy: Toy) -> Model:
    return api.load(toy.run, device="cpu", dtype="float64", batch_invariant=False)


@pytest.fixture(scope="module")
def found(model: Model) -> Explanation:
    return explain(model, TEXT, beam=3)


# ---- what is told is the model's own ----


def test_weights_are_those_of_an_einsum_model_that_shares_no_code(model: Model, monkeypatch) -> None:
    """The twin's attention, with its weights kept as it goes: post-norm layers in the order encoder, then self and
    cross of the decoder."""
    told: dict[str, torch.Tensor] = {}
    plain = twins.attention

    def kept(w, name, x, context, num_heads, see):
        q, k = (
            twins.linear(w, f"{name}.{one}", side).unflatten(-1, (num_heads, -1))
            for one, side in zip("qk", (x, context), strict=True)
        )
        logits = torch.einsum("thk,shk->hts", q, k) / math.sqrt(q.shape[-1])
        told[name] = torch.where(see > 0, logits, -math.inf).softmax(-1)
        return plain(w, name, x, context, num_heads, see)

    monkeypatch.setattr(twins, "attention", kept)
    target = "Der kleine Hund sieht zwei Häuser."
    found = explain(model, TEXT, target)
    source_ids, target_ids = model.tokenizers.source.encode(TEXT), model.tokenizer.encode(target)
    layers = model.config.encoder.layers
    twins.transformer(
        model.module.state_dict(),
        [*source_ids, EOS],
        [BOS, *target_ids],
        num_layers=len(layers),
        num_heads=layers[0].mixer.num_heads,  # pyright: ignore
        pre=layers[0].residual == "pre",
    )
    names = {
        "encoder": "encoder.layers.0.mixer",
        "decoder": "decoder.layers.0.mixer",
        "cross": "decoder.layers.0.cross",
    }
    assert [layer.kind for layer in found.pieces.layers] == list(names)
    for layer in found.pieces.layers:
        torch.testing.assert_close(torch.tensor(layer.heads).double(), told[names[layer.kind]], atol=1e-6, rtol=0)
    assert found.pieces.read == ["<s>", *found.pieces.written[:-1]]


def test_probabilities_are_those_of_score_and_places_are_those_of_a_sort(model: Model) -> None:
    target = "Zwei Hunde sehen das Haus."
    found = explain(model, TEXT, target)
    [score] = model.score([(TEXT, target)])
    assert [one.logprob for one in found.written] == pytest.approx(score.token_logprobs, abs=1e-9)
    assert found.logprob == pytest.approx(score.logprob, abs=1e-9)
    assert [one.piece for one in found.written] == [piece.replace(" ", "␣") for piece in score.tokens]
    ids = model.tokenizer.encode(target)
    logits = model.module(torch.tensor([[*model.tokenizers.source.encode(TEXT), EOS]]), torch.tensor([[BOS, *ids]]))[0]
    for row, own, one in zip(logits.softmax(-1).tolist(), [*ids, EOS], found.written, strict=True):
        order = sorted(range(len(row)), key=lambda number: -row[number])
        assert one.rank == order.index(own) + 1
        likeliest = [number for number in order if number != own][:5]
        assert [math.exp(logprob) for _, logprob in one.others] == pytest.approx([row[n] for n in likeliest])


def test_without_a_target_it_is_what_translate_gives_with_the_score_of_its_search(
    model: Model, found: Explanation
) -> None:
    assert found.target == model.translate([TEXT], beam=3)[0]
    lines = next(model.stream([TEXT], beam=3, n_best=3))
    assert [(one.text, one.finished) for one in found.results] == [(one.text, one.finished) for one in lines]
    assert [one.score for one in found.results] == pytest.approx([one.score for one in lines])


# ---- the tree ----


def test_the_tree_is_one_and_its_totals_are_sums(found: Explanation) -> None:
    assert len(found.tree) > 3
    for place, branch in enumerate(found.tree):
        above = None if branch.parent is None else found.tree[branch.parent]
        assert branch.parent is None or branch.parent < place
        assert branch.step == (1 if above is None else above.step + 1)
        assert branch.total == pytest.approx((0 if above is None else above.total) + branch.logprob)
        assert above is None or above.fate != "dropped"
    assert sorted(branch.result for branch in found.tree if branch.result is not None) == [0, 1, 2]
    for branch in found.tree:
        if branch.result is not None:
            assert branch.score == pytest.approx(found.results[branch.result].score)


def test_only_what_the_last_step_went_on_from_was_alive_when_the_search_stopped(model: Model, monkeypatch) -> None:
    """A search of two steps by hand: of the first something was kept, of the second something was still alive."""
    first, second = model.tokenizer.encode("dog")[0], model.tokenizer.encode("cat")[0]
    steps = [
        [Seen((first,), -0.5, -0.5, True), Seen((second,), -1.0, -1.0, True), Seen((EOS,), -3.0, -3.0, False)],
        [Seen((first, EOS), -0.5, -1.0, False), Seen((first, second), -1.5, -2.0, True)],
    ]

    def search(*_, watch, **__) -> list[list[Hypothesis]]:
        for seen in steps:
            watch(0, seen)
        return [[Hypothesis([first], -1.0, -1.0, [-0.5, -0.5], True)]]

    monkeypatch.setattr(sys.modules[explain.__module__], "beam_search", search)
    found = explain(model, TEXT)
    assert [one.fate for one in found.tree] == ["kept", "kept", "dropped", "result", "alive"]
    assert [one.parent for one in found.tree] == [None, None, None, 0, 0]
    assert "alive when the search stopped" in page(found)


def test_the_text_of_a_hypothesis_is_all_of_its_pieces(found: Explanation) -> None:
    for branch in found.tree:
        trail, place = [branch.piece], branch.parent
        while place is not None:
            trail.insert(0, found.tree[place].piece)
            place = found.tree[place].parent
        spelt = "".join(trail).removesuffix("</s>").replace("␣", " ").strip()
        if not re.search("<[0-9A-F]{2}[ >]", spelt):
            assert branch.text == spelt
        if branch.result is not None:
            assert branch.text == found.results[branch.result].text


@pytest.mark.parametrize("stop", ["first", "exact"])
def test_what_a_search_looked_at_is_the_best_of_an_enumeration(stop: str) -> None:
    """The best beam + 1 continuations of each prefix that was kept, of those the best 2 * beam, worked out here."""
    table, vocab, beam = random_table(7, seed=3), 7, 3
    config = SearchConfig.model_validate({"beam": beam, "n_best": beam, "stop": stop, "max_ratio": 0.0, "max_extra": 5})
    steps: list[list[Seen]] = []
    [results] = beam_search(ToyModel(table), [[4, 5]], config, watch=lambda index, seen: steps.append(seen))
    assert results == beam_search(ToyModel(table), [[4, 5]], config)[0]
    alive: dict[tuple[int, ...], float] = {(): 0.0}
    for seen in steps:
        every, near = {}, set()
        for prefix, total in alive.items():
            row = torch.tensor(table((4, 5), prefix), dtype=torch.float64).log_softmax(-1).tolist()
            every |= {(*prefix, token): total + row[token] for token in range(vocab)}
            near |= {(*prefix, token) for token in sorted(range(vocab), key=lambda token: -row[token])[: beam + 1]}
        ranked = sorted(every, key=lambda tokens: -every[tokens])
        expected = set([tokens for tokens in ranked if tokens in near][: 2 * beam])
        if stop == "exact":
            expected |= {tokens for tokens in ranked if tokens[-1] == EOS}
        assert {one.tokens for one in seen} == expected
        assert len(seen) == len(expected)
        assert all(one.total == pytest.approx(every[one.tokens]) for one in seen)
        going = [tokens for tokens in ranked if tokens[-1] != EOS][:beam]
        assert {one.tokens for one in seen if one.alive} == set(going)
        alive = {tokens: every[tokens] for tokens in going}
    ended = {one.tokens for seen in steps for one in seen if one.tokens[-1] == EOS}
    assert {(*one.tokens, EOS) for one in results if one.finished} <= ended


def test_with_a_target_there_is_no_tree_and_options_of_the_search_are_refused(model: Model) -> None:
    found = explain(model, TEXT, "Hund")
    assert (found.given, found.tree, found.results, found.target) == (True, [], [], "Hund")
    assert "the target was given" in page(found)
    with pytest.raises(ValueError, match=r"the source is empty.*\n.*beam: with a target given"):
        explain(model, " ", "Hund", beam=3)


# ---- pieces and words ----


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["A", " dog", "gy", " runs", "."], [[0], [1, 2], [3], [4]]),
        (["un", "der", "_", "1", "-", "x"], [[0, 1, 2, 3], [4], [5]]),
        ([" ", "dog", " ", " cat"], [[0, 1], [2, 3]]),
        (["dog ", "runs "], [[0], [1]]),
        (["東京", "に", "行", "きます", "。"], [[0], [1], [2], [3], [4]]),
        (["ре", "ка", " e", "\u0301t", "é"], [[0, 1], [2, 3, 4]]),
        (["مر", "حبا", " بك"], [[0, 1], [2]]),
        (["नम", "स\u094dते"], [[0, 1]]),
        (["", "a", "b", "", "c"], [[0], [1, 2], [3], [4]]),
        ([], []),
    ],
)
def test_words_are_runs_of_letters_where_a_script_has_spaces(pieces: list[str], expected: list[list[int]]) -> None:
    assert words([piece.encode() for piece in pieces]) == expected


def test_bytes_of_one_character_stand_together_whatever_it_is() -> None:
    text = "日 ü🙂"
    assert words([bytes([byte]) for byte in text.encode()]) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    assert words([b"\xff", b"\xe3\x81", b"a"]) == [[0], [1], [2]]


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # man, woman, girl, boy: a family
        "\u2764\ufe0f\u200d\U0001f525",  # a heart on fire
        "\U0001f1e9\U0001f1ea",  # a flag
        "\U0001f44d\U0001f3fd",  # a thumb of one colour
        "1\ufe0f\u20e3",  # a key
        "\u0e01\u0e33",  # Thai kam
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, one word around a joiner that joins not
    ],
)
def test_what_is_seen_as_one_stands_together_and_apart_from_its_neighbours(text: str) -> None:
    joined = [*range(1, 1 + len(text))]
    assert words([char.encode() for char in f".{text}."]) == [[0], joined, [joined[-1] + 1]]
    assert words([bytes([byte]) for byte in text.encode()]) == [[*range(len(text.encode()))]]


@pytest.mark.parametrize(
    ("pieces", "label_of_it"),
    [
        ([b"\xe3\x81\xae\xe6\x9c"], "の<E6 9C>"),
        ([b"\xac"], "<AC>"),
        ([b"\xac\xe3\x81\xae"], "<AC>の"),
        ([b"\xac \xe3\x81"], "<AC>␣<E3 81>"),
        ([b" \xe3\x81\xae"], "␣の"),
        ([b"\xe3\x81\xae\xe6\x9c", b"\xac"], "の本"),
        ([b"\xe3\x81\xae\xe6\x9c", b" a"], "の<E6 9C> a"),
        ([b"\x01"], "␁"),
    ],
)
def test_whole_characters_of_a_piece_are_text_and_only_the_rest_is_bytes(pieces: list[bytes], label_of_it: str) -> None:
    """の is E3 81 AE and 本 is E6 9C AC."""
    tokenizer: Any = SimpleNamespace(piece_bytes=pieces.__getitem__, piece=lambda number: pieces[number].decode())
    assert label(tokenizer, *range(len(pieces))) == label_of_it


def cuts(length: int) -> st.SearchStrategy[list[list[int]]]:
    """Runs of 0 .. length - 1."""
    return st.sets(st.integers(1, max(1, length - 1))).map(
        lambda inner: [
            list(range(a, b)) for a, b in zip([0, *sorted(inner)], [*sorted(inner), length], strict=True) if a < b
        ]
    )


@settings(max_examples=60, deadline=None)
@given(rows=cuts(5), columns=cuts(7), seed=st.integers(0, 99))
def test_joined_rows_still_sum_to_one_and_are_mean_of_sums(rows, columns, seed: int) -> None:
    weights = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(-1)
    joined = pooled(rows, True) @ weights @ pooled(columns, False).T
    torch.testing.assert_close(joined.sum(-1), torch.ones(3, len(rows), dtype=torch.float64))
    for h in range(3):
        for t, row in enumerate(rows):
            for s, column in enumerate(columns):
                by_hand = sum(float(weights[h, y, x]) for y in row for x in column) / len(row)
                assert float(joined[h, t, s]) == pytest.approx(by_hand)


def test_the_views_of_a_page_are_the_joined_pieces_and_add_up(found: Explanation) -> None:
    assert len(found.words.written) < len(found.pieces.written)
    for view in (found.words, found.pieces):
        for layer in view.layers:
            assert all(sum(row) == pytest.approx(1, abs=1e-5) for head in layer.heads for row in head)
        assert [len(row) for row in view.alignment] == [len(view.source)] * len(view.written)
    assert found.words.source == [*re.findall(r"\w+|\.", TEXT), "</s>"]
    assert found.words.written[-1] == "</s>"


def test_the_best_word_of_the_alignment_is_never_the_end(found: Explanation) -> None:
    written, place, share = best(found.words, 0)
    row = found.words.alignment[0]
    assert written == found.words.written[0]
    assert share == max(row[:-1])
    assert place == found.words.source[row.index(share)]


# ---- models of other kinds ----


def silent(layers: list[Layer]) -> set[tuple[str, str]]:
    return {(layer.kind, layer.mixer) for layer in layers if not layer.heads}


HEADS = [{"kind": "linear", "num_heads": 2}, {"kind": "window", "num_heads": 2, "window": 3}]
PLAIN = {"preset": "rnnsearch", "dim": 16, "decoder": {"kind": "rnn"}}
MIXED = [{"mixer": mixer} for mixer in ("lstm", *HEADS)]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"preset": "rnnsearch", "dim": 16}, {("encoder", "gru"), ("decoder", "rnnsearch")}),
        ({"preset": "transformer-tiny", "dim": 16, "decoder": {"layers": MIXED}}, {("decoder", "lstm")}),
        ({"preset": "rnnsearch", "dim": 16, "decoder": {"kind": "luong"}}, {("encoder", "gru"), ("decoder", "luong")}),
        ({"preset": "rnnsearch", "dim": 16, "decoder": {"kind": "gnmt"}}, {("encoder", "gru"), ("decoder", "gnmt")}),
    ],
)
def test_parts_without_weights_are_named_and_the_others_shown(toy: Toy, shape: dict[str, Any], expected) -> None:
    torch.manual_seed(1)
    tokenizers, config = TokenizerPair.load(toy.run), parse_model(shape)
    search = SearchConfig.model_validate({"max_extra": 2, "max_ratio": 0.5, "beam": 2})
    found = explain(Model(build(config, tokenizers.sizes), tokenizers, config, LanguagesConfig(), search), TEXT)
    assert silent(found.words.layers) == silent(found.pieces.layers) == expected
    assert all(layer.heads for layer in found.words.layers if layer.kind == "cross")
    rows = [row for layer in found.words.layers for head in layer.heads for row in head]
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in rows)
    assert tree(page(found)) is not None


def test_a_decoder_that_looks_at_no_source_has_no_alignment(toy: Toy) -> None:
    """Cho et al. 2014: the source is one state; the page says so, and every piece has its probability all the same."""
    torch.manual_seed(1)
    tokenizers, config = TokenizerPair.load(toy.run), parse_model(PLAIN)
    model = Model(build(config, tokenizers.sizes), tokenizers, config, LanguagesConfig(), SearchConfig(max_extra=2))
    found = explain(model, TEXT, "Zwei")
    assert found.head is None
    assert not any(map(any, found.pieces.alignment))
    assert not any(layer.heads for layer in found.pieces.layers if layer.kind != "encoder")
    assert sum(piece.logprob for piece in found.written) == pytest.approx(found.logprob)
    assert "looks at no source" in page(found)
    assert tree(page(found)) is not None


# ---- limits ----


def test_a_long_text_is_refused_and_never_cut(model: Model) -> None:
    long = "dog " * 3 * LONGEST
    with pytest.raises(ValueError, match=r"source has [\d,]+ tokens, and 128 can be .*\nthe target has [\d,]+ tokens"):
        explain(model, long, long)


# ---- the page ----


def tree(text: str) -> Any:
    parser = html5lib.HTMLParser(tree=html5lib.getTreeBuilder("etree"), strict=True, namespaceHTMLElements=False)
    return parser.parse(text)


def data_of(root: Any) -> dict[str, Any]:
    [script] = [one for one in root.iter("script") if one.get("id") == "data"]
    return json.loads(script.text)


@pytest.fixture(scope="module")
def nasty(model: Model) -> Explanation:
    return explain(model, NASTY, "</title></style>" + NASTY)


def test_whatever_a_text_holds_is_text(model: Model, found: Explanation, nasty: Explanation) -> None:
    plain, hostile = tree(page(explain(model, "dog", "Hund"))), tree(page(nasty))
    for tag in ("script", "style", "title", "b", "section"):
        outside = [one for one in hostile.iter(tag) if one.get("dir") is None]
        assert len(outside) == len([one for one in plain.iter(tag) if one.get("dir") is None]), tag
    assert "alert(1)" in "".join(hostile.find(".//p[@id='source']").itertext())
    assert data_of(hostile)["source"] == NASTY
    assert "49" not in "".join(hostile.find(".//p[@id='target']").itertext())
    assert "\x01" not in page(nasty)


def test_a_page_needs_nothing_from_elsewhere(nasty: Explanation) -> None:
    root = tree(page(nasty))
    assert not {"link", "img", "iframe", "object", "base"} & {one.tag for one in root.iter()}
    assert not [name for one in root.iter() for name in one.attrib if name.startswith("on") or name in {"href", "src"}]
    [policy] = [one.get("content") for one in root.iter("meta") if one.get("http-equiv")]
    assert policy.startswith("default-src 'none';")
    style = "".join(one.text for one in root.iter("style"))
    assert "url(" not in style
    assert "@import" not in style


def test_without_a_script_texts_probabilities_and_alignment_are_there(found: Explanation) -> None:
    root = tree(re.sub(r"<script.*?</script>", "", page(found), flags=re.DOTALL))
    rows = ["".join(row.itertext()) for row in root.iter("tr")]
    assert len(list(root.iter("noscript"))) == 1
    assert all(any(one.piece in row for row in rows) for one in found.written)
    assert len(list(root.find(".//table[@id='alignment']").iter("tr"))) == 1 + len(found.words.written)
    assert all(any(one.text in row and f"{one.score:.4f}" in row for row in rows) for one in found.results)


def test_the_data_of_a_page_are_the_weights_in_thousandths(found: Explanation) -> None:
    data = data_of(tree(page(found)))
    for name in ("words", "pieces"):
        layers = getattr(found, name).layers
        assert len(data[name]["layers"]) == len(layers)
        for shown, layer in zip(data[name]["layers"], layers, strict=True):
            assert torch.allclose(torch.tensor(shown["heads"]) / 1000, torch.tensor(layer.heads), atol=0.0005001)
    assert len(data["tree"]) == len(found.tree)


# ---- the command ----


def test_the_command_writes_a_page_or_data_and_not_over_its_input(headway, toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    code, printed, said = headway("explain", toy.run, TEXT, "-o", out)
    assert (code, printed) == (0, "")
    assert said.rstrip().endswith(f"wrote {out}; open it in a browser")
    tree(out.read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    code, printed, _ = headway("explain", toy.run, TEXT, "Hund", "--json")
    assert code == 0
    assert json.loads(printed)["target"] == "Hund"
    for line, told in [
        (["explain", toy.run, TEXT], "name a page with -o page.html, or take --json"),
        (["explain", toy.run, TEXT, "-o", tmp_path / "x.txt"], "name it .html"),
        (["explain", toy.run, TEXT, "Hund", "--beam", "3", "--json"], "beam: with a target given"),
        (["explain", tmp_path, TEXT, "--json"], str(tmp_path)),
        (["explain", toy.run, TEXT, "-o", tmp_path / "no" / "x.html"], "cannot be written"),
    ]:
        code, printed, said = headway(*line)
        assert (code, printed) == (2, "")
        assert told in said
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_text_that_is_the_name_of_a_file_is_explained_and_the_doubt_is_told(
    headway, toy: Toy, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.txt").write_text("A dog.\n")
    code, printed, said = headway("explain", toy.run, "s.txt", "Hund", "--json")
    assert (code, json.loads(printed)["source"]) == (0, "s.txt")
    assert "s.txt: a file has this name" in said
    for other in ("dog", "x" * 300, "a\0b"):
        code, _, said = headway("explain", toy.run, "dog", other, "--json")
        assert "a file has this name" not in said


# ---- in a browser ----


@pytest.mark.slow
def test_in_a_browser_the_pictures_show_the_data_and_keys_move_through_them(
    browser, found, nasty, tmp_path: Path
) -> None:
    faults: list[str] = []
    tab = browser.new_page(viewport={"width": 400, "height": 800})
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("dialog", lambda dialog: faults.append(dialog.message))
    tab.on("request", lambda request: request.url.startswith("file:") or faults.append(request.url))
    for name, one in (("found", found), ("nasty", nasty)):
        (tmp_path / f"{name}.html").write_text(page(one), encoding="utf-8")
        tab.goto((tmp_path / f"{name}.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out on a telephone"
    tab.goto((tmp_path / "found.html").as_uri())
    assert tab.locator("#target .word").all_text_contents() == found.words.written
    assert tab.locator(".tree g").count() == len(found.tree)
    cross = [layer for layer in found.words.layers if layer.kind == "cross"][-1]
    shown = [
        float(cell.split("--w:")[1].strip(" ;")) ** 2
        for cell in (one.get_attribute("style") for one in tab.locator(".heat tbody td").all())
    ]
    assert shown == pytest.approx([weight for row in cross.heads[0] for weight in row], abs=0.003)
    tab.locator("#grid button[aria-checked=true]").focus()
    tab.keyboard.press("ArrowRight")
    assert "head 2" in tab.locator("#chosen").text_content()
    tab.locator(".heat tbody td").first.focus()
    tab.keyboard.press("ArrowDown")
    assert (
        tab.locator("#heads .told")
        .text_content()
        .startswith(f"{found.words.written[1]} looks at {found.words.source[0]}:")
    )
    tab.get_by_label("the pieces that the model reads").check()
    assert tab.locator("#target .word").all_text_contents() == found.pieces.written
    tab.get_by_label("within the source").check()
    assert tab.locator(".heat tbody th").all_text_contents() == found.pieces.source
    tab.get_by_label("also what was dropped").uncheck()
    assert tab.locator(".tree g").count() == sum(branch.fate != "dropped" for branch in found.tree)
    assert not faults


@pytest.mark.slow
def test_lines_are_drawn_of_one_word_alone_where_a_sentence_takes_two_lines(browser, found, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(found), encoding="utf-8")
    for width, scheme, wrapped in ((1400, "light", False), (200, "dark", True)):
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab.goto((tmp_path / "page.html").as_uri())
        tops = [box.bounding_box()["y"] for box in tab.locator("#source .word:not(.end)").all()]
        assert (max(tops) > min(tops) + 5) == wrapped
        lines = tab.locator(".sentences path")
        assert (lines.count() == 0) == wrapped
        tab.locator("#target .word").first.focus()
        assert lines.count() == sum(round(1000 * weight) >= 20 for weight in found.words.alignment[0]) > 0


WIDTH = """letter => {
  const one = document.querySelector(".tree text:not(.small)"), text = one.cloneNode()
  text.textContent = letter
  one.parentNode.append(text)
  const width = text.getBBox().width
  text.remove()
  return width
}"""
"""How wide a letter is in a label of the tree."""


@pytest.mark.slow
def test_the_tree_keeps_its_labels_in_their_boxes_and_is_printed_in_rows_that_can_be_read(
    browser, found: Explanation, tmp_path: Path
) -> None:
    names = ["漢" * 13, "i" * 40, "W" * 13, "の<E6 9C>"]
    found = replace(found, tree=[replace(one, piece=names[at % 4]) for at, one in enumerate(found.tree)])
    (tmp_path / "page.html").write_text(page(found), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 605, "height": 900})  # A4 less 25 mm at each side, 96 dots an inch
    tab.goto((tmp_path / "page.html").as_uri())
    widths = tab.evaluate("[...document.querySelectorAll('.tree text')].map(text => text.getBBox().width)")
    assert 80 < max(widths) <= 96, "the longest fill their box of 100"
    cut = [text.removesuffix("…") for text in tab.locator(".tree text:not(.small)").all_text_contents()]
    wide = tab.evaluate(WIDTH, "漢")  # what fonts there are is the machine's business
    assert max(text.count("i") for text in cut) > 20
    assert 4 < max(text.count("漢") for text in cut) <= 96 / wide < 13
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    steps = max(one.step for one in found.tree)
    rows = tab.locator(".tree svg")
    assert rows.count() == math.ceil((steps - 1) / 4) > 1
    sizes = "svgs => svgs.map(svg => 11 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"
    assert min(rows.evaluate_all(sizes)) >= 9
    firsts = [len({one.parent for one in found.tree if one.step == 4 * row + 2}) for row in range(1, rows.count())]
    assert tab.locator(".tree g").count() == len(found.tree) + sum(firsts)
    assert tab.locator(".tree path").count() == sum(one.parent is not None for one in found.tree)
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert rows.count() == 1
    assert tab.locator(".tree g").count() == len(found.tree)
