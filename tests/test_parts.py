"""Texts with codes through models whose every choice is written down: they copy, and lose codes on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from headway.config import BPEConfig, SearchConfig
from headway.data.memory import Memory, Unit
from headway.generate.align import Head
from headway.generate.lines import Counts, translate_lines
from headway.generate.parts import Translated, Translator
from headway.generate.phrases import Phrase
from headway.nn.trace import Trace
from headway.text.codes import PROSE, Code, Parts, codes, find, joined, plain
from headway.text.tokenizer import EOS, Tokenizer, TokenizerPair
from toy_models import Prefix, ToyModel

HEAD = Head("decoder.layers.0.cross")
TEXT = ["Open the file now. Close all windows, please. Save %s as {name}. Wählen Sie eine Datei."] * 3


class Copy(ToyModel):
    """Says the source again, less the tokens that `drop` names; its attention looks where each token came from."""

    def __init__(self, tokenizer: Tokenizer, drop: Callable[[int], bool] = lambda token: False, never: float = -9.0):
        def table(source: Prefix, prefix: Prefix) -> list[float]:
            kept = [token for token in source if not drop(token)]
            said = [token for token in prefix if not drop(token)]
            wanted = kept[len(said)] if len(said) < len(kept) else EOS
            row = [0.0] * tokenizer.vocab_size
            for token in range(tokenizer.vocab_size):
                if drop(token):
                    row[token] = never
            row[EOS] = -30.0
            row[wanted] = 9.0
            return row

        super().__init__(table)
        self.drop = drop

    def forward(self, source: torch.Tensor, target: torch.Tensor, trace: Trace | None = None) -> torch.Tensor:
        if trace is not None:
            spots = torch.arange(target.shape[1])[:, None] == torch.arange(source.shape[1])
            weights = spots.double().expand(source.shape[0], 1, *spots.shape)
            trace.at(HEAD.layer).record("weights", weights)
        return super().forward(source, target)


def made(placeholders: int = 0) -> Tokenizer:
    return Tokenizer.train(TEXT, BPEConfig(vocab_size=290 + 16 * (placeholders > 16), placeholders=placeholders))


def translator(model: ToyModel, tokenizer: Tokenizer, **options) -> Translator:
    search = SearchConfig(beam=3, max_extra=20)
    settings = {"max_source": 200, "languages": ("en", "de"), "head": HEAD, **options}
    return Translator(model, TokenizerPair(tokenizer, tokenizer), search, **settings)  # pyright: ignore


OPEN, CLOSE, BREAK = Code("<b>", "open", True), Code("</b>", "close", True, "<b>"), Code("<br/>", markup=True)
TEXTS: list[Parts] = [
    ("Open ", OPEN, "the file", CLOSE, " now."),
    ("Save ", Code("%s"), " as ", Code("{name}"), "."),
    ("Close", BREAK, "all ", OPEN, Code("%d"), " windows", CLOSE),
    ("  Open the file now.\n\n\tClose all windows, please.  ",),
    (Code("%s"), ": ", Code("%d")),
    ("",),
    (OPEN, CLOSE),
]


@pytest.mark.parametrize("placeholders", [0, 8])
def test_a_model_that_copies_gives_every_text_back(placeholders: int) -> None:
    tokenizer = made(placeholders)
    found = translator(Copy(tokenizer), tokenizer)([(text, PROSE) for text in TEXTS])
    assert [plain(one.parts) for one in found] == [plain(text) for text in TEXTS]
    assert [one.faults for one in found] == [()] * len(TEXTS)


BOLD = Code("<b>", "open", True), Code("<i>", "open", True, "1"), Code("</i>", "close", True, "1"), CLOSE
TOGETHER: Parts = ("Open ", *BOLD[:2], "the file", *BOLD[2:], " ", BREAK, " ", OPEN, Code("%s"), CLOSE, " now.")


def test_codes_that_stand_together_are_one_for_the_model_and_themselves_afterwards() -> None:
    tokenizer = made(3)
    model, heard = Copy(tokenizer), list[list[int]]()
    start = model.start
    model.start = lambda sources: [heard.extend(sources), start(sources)][1]  # pyright: ignore
    (one,) = translator(model, tokenizer)([(TOGETHER, PROSE)])
    assert (one.parts, one.faults) == (TOGETHER, ())
    atoms = [tokenizer.atom(f"<x{number}>") for number in range(3)]
    assert [token for token in heard[0] if token in tokenizer.atom_ids] == atoms
    assert len(heard) == 1


def test_a_text_with_more_codes_than_there_are_atoms_is_cut_where_it_can_be() -> None:
    tokenizer = made(4)
    text: Parts = tuple(part for _ in range(9) for part in (OPEN, "the file", CLOSE, " now "))
    (one,) = translator(Copy(tokenizer), tokenizer)([(text, PROSE)])
    assert (plain(one.parts), one.faults) == (plain(text), ())
    assert one.num_pieces > 4


def test_a_pair_of_tags_is_not_left_around_nothing() -> None:
    """A model that says both tags first is asked again."""
    tokenizer = made(2)

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        atoms = [token for token in source if token in tokenizer.atom_ids]
        words = [token for token in source if token not in [*atoms, EOS]]
        said = [*atoms, *words]
        row = [-9.0 if token in tokenizer.atom_ids else -20.0 for token in range(tokenizer.vocab_size)]
        rest = [token for token in said if list(prefix).count(token) < said.count(token)]
        row[rest[0] if rest else EOS] = 9.0
        return row

    model = Copy(tokenizer)
    ToyModel.__init__(model, table)
    (one,) = translator(model, tokenizer)([(("Open ", OPEN, "the file", CLOSE, " now."), PROSE)])
    assert plain(one.parts, "").strip()
    assert [code.raw for code in codes(one.parts)] == ["<b>", "</b>"]
    assert "<b></b>" not in plain(one.parts)
    assert one.faults == ()


@pytest.mark.parametrize("placeholders", [0, 8])
def test_no_model_is_asked_about_codes_without_words(placeholders: int) -> None:
    tokenizer = made(placeholders)
    model = Copy(tokenizer)
    (one,) = translator(model, tokenizer)([((Code("%s"), ": ", Code("%d")), PROSE)])
    assert (plain(one.parts), one.num_tokens, one.confidence, model.steps) == ("%s: %d", 0, 1.0, 0)


def test_placeholders_that_a_model_forgets_are_asked_for_again() -> None:
    """By constraint: each once, a closing one behind its opening one."""
    tokenizer = made(8)
    model = Copy(tokenizer, drop=lambda token: token in tokenizer.atom_ids)
    for text in TEXTS[:3]:
        (one,) = translator(model, tokenizer)([(text, PROSE)])
        assert not one.faults
        assert sorted(code.raw for code in codes(one.parts)) == sorted(code.raw for code in codes(text))
        assert plain(one.parts, "").split() == plain(text, "").split() or BREAK in text


def test_a_code_that_has_no_way_to_be_said_stands_at_the_end_and_is_told_of() -> None:
    tokenizer = made()
    percent = {number for number in range(tokenizer.vocab_size) if b"%" in tokenizer.piece_bytes(number)}
    model = Copy(tokenizer, drop=percent.__contains__, never=-math.inf)
    (one,) = translator(model, tokenizer)([(("Save ", Code("%s"), " now"), PROSE)])
    assert [code.raw for code in codes(one.parts)] == ["%s"]
    assert one.parts[-1] == Code("%s")
    assert any("%s" in fault and "missing" in fault for fault in one.faults)


def test_where_constraints_leave_no_way_the_first_translation_stays() -> None:
    class Contradiction:
        def check(self, source: str, target: str) -> list[Broken]:
            return [Broken()]

        def phrases(self, source: str) -> tuple[list[Phrase], list[Phrase]]:
            return [Phrase(("file",))], [Phrase(("file",))]

    class Broken:
        broken = True

        def words(self) -> str:
            return "broken"

    tokenizer = made()
    (one,) = translator(Copy(tokenizer), tokenizer, terms=Contradiction())([(("Open the file now.",), PROSE)])
    assert (plain(one.parts), one.faults) == ("Open the file now.", ("broken",))


def test_a_placeholder_that_a_model_invents_is_seen_and_taken_back() -> None:
    tokenizer = made(8)
    model = Copy(tokenizer)
    copied, invented = model.table, tokenizer.atom("<x5>")

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        row = list(copied(source, tuple(token for token in prefix if token != invented)))
        if not prefix:
            row[invented] = 12.0
        return row

    model.table = table
    (one,) = translator(model, tokenizer)([(("Save ", Code("%s"), " now."), PROSE)])
    assert (plain(one.parts), one.faults) == ("Save %s now.", ())


def test_a_piece_for_which_nothing_is_written_is_told() -> None:
    tokenizer = made()
    (one,) = translator(Copy(tokenizer, drop=lambda token: token != EOS, never=-math.inf), tokenizer)(
        [(("Open the file now.",), PROSE)]
    )
    assert (one.parts, one.faults) == ((), ("nothing was written for 'Open the file now.'",))


def test_sentences_go_one_by_one_and_the_space_between_them_stays() -> None:
    tokenizer = made()
    text = ("Open the file now.  Close all windows, please.\nSave it.",)
    model, whole = Copy(tokenizer), Copy(tokenizer)
    (one,) = translator(model, tokenizer, by_sentence=True)([(text, PROSE)])
    (two,) = translator(whole, tokenizer)([(text, PROSE)])
    assert one.parts == two.parts == text
    assert model.steps < whole.steps  # shorter pieces, side by side


def test_a_long_text_is_cut_and_no_code_is_lost_at_a_cut() -> None:
    tokenizer = made(4)
    text: Parts = (
        *[part for number in range(9) for part in (f"Close all windows {number}, please. ", Code("%s"))],
        "x",
    )
    (one,) = translator(Copy(tokenizer), tokenizer, max_source=20)([(text, PROSE)])
    assert plain(one.parts) == plain(text)
    assert not one.faults


def test_tags_stand_before_each_piece_and_never_in_the_output() -> None:
    tokenizer = Tokenizer.train(TEXT, BPEConfig(vocab_size=290, tags=("2de", "it")))
    tags = [tokenizer.atom("<2de>"), tokenizer.atom("<it>")]
    model, sources = Copy(tokenizer, drop=tags.__contains__), []
    start = model.start
    model.start = lambda asked: (sources.extend(asked), start(asked))[1]  # pyright: ignore
    (one,) = translator(model, tokenizer, tags=tags)([(("Save it.\nOpen the file now.",), PROSE)])
    assert plain(one.parts) == "Save it.\nOpen the file now."
    assert [source[:2] for source in sources] == [tags, tags]


def test_marked_sentences_are_translated_each_on_its_own() -> None:
    tokenizer = made()
    marks = [[Code(f"<m{n}>", "open", True, f"seg:{n}"), Code("</m>", "close", True, f"seg:{n}")] for n in (1, 2)]
    text = (marks[0][0], "Save it.", marks[0][1], " ", marks[1][0], "Open the file now.", marks[1][1])
    model = Copy(tokenizer)
    (one,) = translator(model, tokenizer)([(text, PROSE)])
    assert (one.parts, one.faults) == (text, ())
    assert model.steps <= len(tokenizer.encode("Open the file now.")) + 3  # side by side, without the marks


@pytest.mark.parametrize(
    ("languages", "between", "ends", "wanted"),
    [
        (("ja", "en"), "", "。", "<m1>一。</m> <m2>二。</m>"),
        (("en", "ja"), " ", "。", "<m1>一。</m><m2>二。</m>"),
        (("en", "de"), " ", "。", "<m1>一。</m> <m2>二。</m>"),
        (("ja", "en"), "\n ", "。", "<m1>一。</m>\n <m2>二。</m>"),
    ],
)
def test_marked_sentences_are_joined_as_their_languages_write(
    languages: tuple[str, str], between: str, ends: str, wanted: str
) -> None:
    tokenizer = made()
    marks = [[Code(f"<m{n}>", "open", True, f"seg:{n}"), Code("</m>", "close", True, f"seg:{n}")] for n in (1, 2)]
    text = (marks[0][0], f"一{ends}", marks[0][1], between, marks[1][0], f"二{ends}", marks[1][1])
    (one,) = translator(Copy(tokenizer), tokenizer, languages=languages)([(joined(text), PROSE)])
    assert plain(one.parts) == wanted


@pytest.mark.parametrize(
    ("languages", "text", "wanted"),
    [
        (("zh", "en"), (OPEN, "你好。再见。", CLOSE, "我走了。"), "<b>你好。 再见。</b>我走了。"),
        (("en", "zh"), (OPEN, "É. É.", CLOSE, "\nNext line."), "<b>É. É.</b>\nNext line."),
    ],
)
def test_sentences_within_tags_are_joined_as_their_languages_write(
    languages: tuple[str, str], text: Parts, wanted: str
) -> None:
    tokenizer = made()
    (one,) = translator(Copy(tokenizer), tokenizer, languages=languages, by_sentence=True)([(text, PROSE)])
    assert plain(one.parts) == wanted


def test_a_match_is_judged_by_the_codes_of_the_text() -> None:
    """A text that is known to be no format has no placeholders, and neither has its translation."""
    tokenizer = made()
    memory = Memory([Unit(find("Type %s to insert it."), find("%s tippen, um es einzufügen."))])
    (one,) = translator(Copy(tokenizer), tokenizer, memory=memory)(
        [(("Type %s to insert it. Save it.",), PROSE - {"percent"})]
    )
    assert plain(one.parts) == "%s tippen, um es einzufügen. Save it."


def test_a_match_with_numbered_placeholders_is_taken_as_it_is() -> None:
    tokenizer = made()
    memory = Memory([Unit(find("%s got %s."), find("%2$s erhielt %1$s."))])
    (one,) = translator(Copy(tokenizer), tokenizer, memory=memory)([(("%s got %s. Save it.",), PROSE)])
    assert plain(one.parts) == "%2$s erhielt %1$s. Save it."


def test_a_match_whose_codes_are_wrong_is_only_like_the_text() -> None:
    tokenizer = made(8)
    memory = Memory([Unit(find("Save %s first."), ("Erst sichern.",)), Unit(("Go on.",), ("Weiter.",))])
    (one,) = translator(Copy(tokenizer), tokenizer, memory=memory)([(("Save %s first. Go on.",), PROSE)])
    assert (plain(one.parts), one.faults) == ("Save %s first. Weiter.", ())
    assert [match.usable for match in one.matches] == [False, True]
    assert one.origin == "model"


def test_a_text_with_a_tab_is_found_as_a_whole() -> None:
    tokenizer = made()
    model = Copy(tokenizer)
    memory = Memory([Unit(("Open\tCtrl+O",), ("Öffnen\tStrg+O",)), Unit(("Open it now\nGo on",), ("Ja\nWeiter",))])
    one, two = translator(model, tokenizer, memory=memory)(
        [(("Open\tCtrl+O",), PROSE), (("Open it now\nSave it",), PROSE)]
    )
    assert (plain(one.parts), one.num_tokens, one.origin) == ("Öffnen\tStrg+O", 0, "memory")
    assert plain(two.parts) == "Open it now\nSave it"


@pytest.mark.parametrize("placeholders", [0, 20])
def test_no_more_is_read_than_a_model_was_trained_to_read_whatever_its_codes_are(placeholders: int) -> None:
    """Neither at once, nor where a model that forgets its placeholders is asked again."""
    tokenizer = made(placeholders)
    model, heard = Copy(tokenizer, drop=lambda token: token in tokenizer.atom_ids), list[list[int]]()
    start = model.start
    model.start = lambda sources: [heard.extend(sources), start(sources)][1]  # pyright: ignore
    addresses = [f"https://example.org/a/long/path/{number}" for number in range(20)]
    text = find("Open " + " and ".join(addresses) + " now.")
    (one,) = translator(model, tokenizer, max_source=80)([(text, PROSE)])
    assert max(map(len, heard)) <= 80 + 1  # the end token
    assert sorted(code.raw for code in codes(one.parts)) == sorted(addresses)


def test_white_space_before_a_text_is_no_piece_of_it() -> None:
    tokenizer = made()
    (one,) = translator(Copy(tokenizer), tokenizer)([(("  Open the file now.",), PROSE)])
    assert (one.num_pieces, plain(one.parts)) == (1, "  Open the file now.")


def test_a_code_with_bytes_that_are_no_character_is_put_at_the_end_and_told_of() -> None:
    tokenizer = made()
    ticks = {number for number in range(tokenizer.vocab_size) if b"`" in tokenizer.piece_bytes(number)}
    model = Copy(tokenizer, drop=ticks.__contains__, never=-math.inf)
    (one,) = translator(model, tokenizer)([(("Save ", Code("`a\ufffdb`"), " now"), PROSE)])
    assert one.parts[-1] == Code("`a\ufffdb`")
    assert any("missing" in fault for fault in one.faults)


def test_confidence_is_the_geometric_mean_of_the_probabilities() -> None:
    tokenizer = made()
    (one,) = translator(Copy(tokenizer), tokenizer)([(("Open the file now.",), PROSE)])
    # One logit of 9, the end's of -30 where it is not that one, and the others 0; bans come after the softmax.
    others = tokenizer.vocab_size - 1
    within, end = math.exp(9) / (math.exp(9) + math.exp(-30) + others - 1), math.exp(9) / (math.exp(9) + others)
    assert one.confidence == pytest.approx((within ** (one.num_tokens - 1) * end) ** (1 / one.num_tokens), rel=1e-6)


def test_confidence_of_whole_texts() -> None:
    for logprobs, wanted in (
        ([math.log(0.5), math.log(0.125)], 0.25),
        ([0.0, 1e-7], 1.0),
        ([-math.inf, 0.0], 0.0),
        ([math.log(0.9)] * 500, 0.9),
    ):
        assert Translated((), math.fsum(logprobs), len(logprobs)).confidence == pytest.approx(wanted)


@pytest.mark.parametrize("placeholders", [0, 4])
def test_the_character_that_stands_for_codes_is_a_character(placeholders: int) -> None:
    tokenizer = made(placeholders)
    text: Parts = ("Open \ufffc the ", OPEN, "file\ufffc", CLOSE, ".")
    (one,) = translator(Copy(tokenizer), tokenizer)([(text, PROSE)])
    assert (one.parts, one.faults) == (text, ())


def test_arguments_keep_their_order_within_tags_too() -> None:
    """A model that swaps them is asked again; both stand alone for it, one with its tags."""
    tokenizer = made(2)
    atoms = [tokenizer.atom("<x0>"), tokenizer.atom("<x1>")]

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        other = dict(zip(atoms, reversed(atoms), strict=True))
        wanted = [other.get(token, token) for token in source]
        row = [-9.0] * tokenizer.vocab_size
        row[wanted[len(prefix)] if len(prefix) < len(wanted) else EOS] = 9.0
        return row

    model = Copy(tokenizer)
    ToyModel.__init__(model, table)
    text: Parts = ("Save ", OPEN, Code("%s"), CLOSE, " as ", Code("%d"), ".")
    (one,) = translator(model, tokenizer)([(text, PROSE | {"printf"})])
    assert [code.raw for code in codes(one.parts)] == ["<b>", "%s", "</b>", "%d"]
    assert one.faults == ()


def test_a_link_is_not_put_into_another() -> None:
    """A model that closes the first link behind the second is asked again."""
    tokenizer = made(4)
    ours = [tokenizer.atom(f"<x{number}>") for number in range(4)]

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        other = dict(zip(ours, [ours[0], ours[2], ours[3], ours[1]], strict=True))
        wanted = [other.get(token, token) for token in source]
        row = [-9.0 if token in ours else -20.0 for token in range(tokenizer.vocab_size)]
        row[wanted[len(prefix)] if len(prefix) < len(wanted) else EOS] = 9.0
        return row

    model = Copy(tokenizer)
    ToyModel.__init__(model, table)
    here, there = (Code(f"<a href='{name}'>", "open", True) for name in "xy")
    ends = [Code("</a>", "close", True, link.key) for link in (here, there)]
    text: Parts = ("Open ", here, "the file", ends[0], " and ", there, "windows", ends[1], ".")
    (one,) = translator(model, tokenizer)([(text, PROSE)])
    assert [(code.key, code.side) for code in codes(one.parts)] == [
        (code.key, code.side) for code in (here, ends[0], there, ends[1])
    ]
    assert one.faults == ()


def test_each_of_several_translations_keeps_the_codes() -> None:
    tokenizer = made(3)
    model = Copy(tokenizer, drop=lambda token: token == tokenizer.atom("<x2>"), never=2.0)
    search = SearchConfig(beam=3, n_best=3, max_extra=20)
    settings = {"max_source": 200, "languages": ("en", "de"), "head": HEAD}
    translate = Translator(model, TokenizerPair(tokenizer, tokenizer), search, **settings)  # pyright: ignore
    ((*found,),) = translate.nbest([(TEXTS[1], PROSE)])
    assert len(found) == 3
    for one in found:
        assert sorted(code.raw for code in codes(one.parts)) == ["%s", "{name}"]


def test_what_is_no_model_s_and_no_memory_s_is_told_as_neither() -> None:
    tokenizer = made(2)
    memory = Memory([Unit((Code("%s"), ": ", Code("%d")), (Code("%s"), " = ", Code("%d")))])
    (one,) = translator(Copy(tokenizer), tokenizer, memory=memory)([((Code("%s"), ": ", Code("%d")), PROSE)])
    assert (plain(one.parts), one.origin, one.matches) == ("%s: %d", "model", ())


def test_lines_tell_what_is_wrong_with_them_once_for_the_best() -> None:
    tokenizer = made(0)
    model = Copy(tokenizer, drop=lambda token: tokenizer.piece_bytes(token) in (b"%", b"s", b"%s", b" %"), never=-30.0)
    counts, translate = Counts(), translator(model, tokenizer)
    translate._constrained = lambda piece: None  # or it would be put right
    ((one,),) = translate_lines(translate, ["Save %s now."], counts)
    assert "%s" in one.text
    assert counts.words(200) == ["1 translations may be wrong: line 1: `%s` missing"]


def test_a_break_behind_a_full_stop_ends_a_sentence_and_one_amid_words_does_not() -> None:
    tokenizer = made(4)
    model, heard = Copy(tokenizer), list[list[int]]()
    start = model.start
    model.start = lambda sources: [heard.extend(sources), start(sources)][1]  # pyright: ignore
    text: Parts = ("Open the file.", BREAK, "Close all", BREAK, "windows.")
    (one,) = translator(model, tokenizer)([(text, PROSE)])
    assert (one.parts, one.faults) == (text, ())
    encode, atom = tokenizer.encode, tokenizer.atom("<x0>")
    assert heard == [[*encode("Open the file."), EOS], [*encode("Close all"), atom, *encode("windows."), EOS]]


@pytest.mark.parametrize("text", ["&", "-", "©", "¶", "…", "-->", " "])
def test_signs_alone_are_their_own_translation(text: str) -> None:
    tokenizer = made()
    model = Copy(tokenizer)
    (one,) = translator(model, tokenizer)([((text,), PROSE)])
    assert (plain(one.parts), model.steps) == (text, 0)


def test_spaces_that_the_vocabulary_does_not_know_are_read_as_spaces_and_signs_without_shape_not_at_all() -> None:
    tokenizer = made(2)
    model, heard = Copy(tokenizer), list[list[int]]()
    start = model.start
    model.start = lambda sources: [heard.extend(sources), start(sources)][1]  # pyright: ignore
    translator(model, tokenizer)([(("Open\u00a0the fi\u00adle\u202fnow.",), PROSE)])
    assert heard == [[*tokenizer.encode("Open the file now."), EOS]]
    knows = Tokenizer.train(["a\u00a0b \u00a0 \u00a0"] * 9, BPEConfig(vocab_size=261))
    model = Copy(knows)
    start = model.start
    model.start = lambda sources: [heard.extend(sources), start(sources)][1]  # pyright: ignore
    translator(model, knows)([(("a\u00a0b",), PROSE)])
    assert heard[-1] == [*knows.encode("a\u00a0b"), EOS]


def test_cells_between_tabs_are_translated_one_by_one() -> None:
    tokenizer = made()
    model, heard = Copy(tokenizer), list[list[int]]()
    start = model.start
    model.start = lambda sources: [heard.extend(sources), start(sources)][1]  # pyright: ignore
    (one,) = translator(model, tokenizer)([(("\tSave\tOpen",), PROSE)])
    assert plain(one.parts) == "\tSave\tOpen"
    assert heard == [[*tokenizer.encode("Save"), EOS], [*tokenizer.encode("Open"), EOS]]


@pytest.mark.parametrize("text", ["a\t \tb", " \t ", "a\n \n b", "\t \n\u00a0\tx", "a \r\n\t\tb"])
@pytest.mark.parametrize("placeholders", [0, 2])
@pytest.mark.parametrize("by_sentence", [False, True])
def test_white_space_of_any_kind_stays_between_cells_and_lines(text: str, placeholders: int, by_sentence: bool) -> None:
    tokenizer = made(placeholders)
    for parts in [(text,), (OPEN, text, CLOSE), (text, BREAK, text)]:
        (one,) = translator(Copy(tokenizer), tokenizer, by_sentence=by_sentence)([(parts, PROSE)])
        assert plain(one.parts) == plain(parts)


def test_white_space_that_a_model_puts_at_the_ends_is_not_written() -> None:
    tokenizer = made(1)
    space = tokenizer.encode(" ")

    def table(source: Prefix, prefix: Prefix) -> list[float]:
        wanted = [*space, *(token for token in source if token != EOS), *space, EOS]
        row = [-30.0] * tokenizer.vocab_size
        row[wanted[len(prefix)] if len(prefix) < len(wanted) else EOS] = 9.0
        return row

    model = Copy(tokenizer)
    ToyModel.__init__(model, table)
    for text in [("Open the file.",), ("Save ", Code("%s"), " now")]:
        (one,) = translator(model, tokenizer)([(text, PROSE)])
        assert one.parts == text
