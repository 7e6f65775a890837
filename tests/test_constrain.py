"""Beam search under constraints: against the filtered enumeration of whole spaces, and what it promises in small beams.

What each constraint means by itself is the contract suite's part.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.config import BPEConfig, PowerConfig, SearchConfig
from headway.generate.beam import beam_search
from headway.generate.constrain import All, Atoms, Constraint, Prefix
from headway.generate.decode import translate_ids
from headway.generate.phrases import MustAppear, MustNotAppear, Phrase, Vocabulary, boundary, folded
from headway.text.tokenizer import Tokenizer
from test_beam import EOS, NEVER, everything, probabilities, tokens_of
from toy_models import Prefix as Tokens
from toy_models import Table, ToyModel, random_table

CONTROLS = [b""] * 4


class Spelling:
    """A tokenizer that spells with the longest piece."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = [*CONTROLS, *pieces]
        self.vocab_size = len(self.pieces)

    def piece_bytes(self, number: int) -> bytes:
        return self.pieces[number]

    def encode(self, text: str) -> list[int]:
        raw, ids = text.encode(), []
        while raw:
            longest = max((piece for piece in self.pieces if piece and raw.startswith(piece)), key=len)
            ids.append(self.pieces.index(longest))
            raw = raw.removeprefix(longest)
        return ids

    def text(self, tokens: Sequence[int]) -> str:
        return b"".join(self.pieces[token] for token in tokens).decode(errors="replace")


def phrases(*texts: str) -> list[Phrase]:
    return [Phrase(tuple(text.split("|"))) for text in texts]


def hateful(table: Table, never: Sequence[int]) -> Table:
    """The same model with a great dislike of some tokens."""

    def hated(source: Tokens, prefix: Tokens) -> list[float]:
        return [logit - 25.0 * (token in never) for token, logit in enumerate(table(source, prefix))]

    return hated


SMALL = Spelling([b"rot", b" ", b"o", b"t"])
VOCABULARY = Vocabulary(SMALL)
ROT, SPACE, OH, TEE = range(4, 8)


def has(pattern: str) -> Callable[[Sequence[int]], bool]:
    return lambda tokens: re.search(rf"\b(?:{pattern})\b", SMALL.text(tokens)) is not None


SPACES: dict[str, tuple[Constraint, Callable[[Sequence[int]], bool]]] = {
    "must": (MustAppear(phrases("rot"), VOCABULARY), has("rot")),
    "must in some form": (MustAppear(phrases("ott|to"), VOCABULARY), has("ott|to")),
    "must two": (MustAppear(phrases("o", "t"), VOCABULARY), lambda tokens: has("o")(tokens) and has("t")(tokens)),
    "must not": (MustNotAppear(phrases("rot", "to o"), VOCABULARY), lambda tokens: not has("rot|to o")(tokens)),
    "atoms": (
        Atoms([OH], [(ROT, TEE)], kind=[], vocab_size=8),
        lambda tokens: (
            sorted(set(tokens) & {OH, ROT, TEE}) == [ROT, OH, TEE]
            and max(map(tokens.count, (OH, ROT, TEE))) == 1
            and tokens.index(ROT) + 1 < tokens.index(TEE)
        ),
    ),
    "prefix": (Prefix([OH, SPACE], 8), lambda tokens: list(tokens[:2]) == [OH, SPACE]),
    "must and must not": (
        All([MustAppear(phrases("o"), VOCABULARY), MustNotAppear(phrases("t"), VOCABULARY)]),
        lambda tokens: has("o")(tokens) and not has("t")(tokens),
    ),
    "prefix, must and atoms": (
        All([Prefix([TEE], 8), MustAppear(phrases("to"), VOCABULARY), Atoms(kind=[ROT], vocab_size=8)]),
        lambda tokens: tokens[:1] == [TEE] and has("to")(tokens) and ROT not in tokens,
    ),
}
each_space = pytest.mark.parametrize("name", SPACES)


@each_space
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_as_wide_as_the_space_finds_all_outputs_that_satisfy_the_predicate(name: str, alpha: float) -> None:
    """The finished results are those of the enumeration that pass, in its order."""
    constraint, holds = SPACES[name]
    limit, width = 5 if "and" in name else 4, 256
    penalty = PowerConfig(alpha=alpha)
    config = SearchConfig(beam=width, n_best=width, stop="exact", penalty=penalty, max_ratio=0, max_extra=limit)
    passed = 0
    for seed in range(2):
        table = random_table(8, seed, spread=2.5)
        [found] = beam_search(ToyModel(table), [[9]], config, banned=NEVER, constraints=[constraint])
        every = everything(table, (9,), limit, penalty)
        expected = [tokens for unfinished, _, tokens in every if not unfinished and holds(tokens)]
        assert tokens_of([h for h in found if h.finished]) == expected[:width]
        assert all((h.unmet == ()) == holds(h.tokens) for h in found)
        passed += len(expected)
    assert passed


@each_space
@pytest.mark.parametrize("stop", ["first", "exact"])
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_the_smallest_beam_satisfies_what_can_be_satisfied(name: str, stop: str, beam: int) -> None:
    """Although the model would rather say anything else."""
    constraint, holds = SPACES[name]
    config = SearchConfig(beam=beam, n_best=beam, stop=stop, max_ratio=0, max_extra=14)
    for seed in range(8):
        model = ToyModel(hateful(random_table(8, seed), [ROT, OH] if seed % 2 else []))
        [found] = beam_search(model, [[9]], config, banned=NEVER, constraints=[constraint])
        assert holds(found[0].tokens), SMALL.text(found[0].tokens)
        assert found[0].unmet == ()


LETTERS = Spelling([*(bytes([byte]) for byte in range(256)), b" Dampf", b"Dampf", b"schiff", b" rote", "ä".encode()])


@pytest.mark.parametrize("beam", [1, 3])
def test_phrases_are_said_whatever_the_model_likes_and_in_the_tokenizers_spelling(beam: int) -> None:
    """A model of 265 tokens that knows nothing; bytes of split characters among them."""
    asked = ["Dampfschiff", "東京", "rote Bären", "C++", "Dampf"]
    constraint = MustAppear(phrases(*asked), Vocabulary(LETTERS))
    config = SearchConfig(beam=beam, n_best=beam, max_ratio=0, max_extra=60)
    for seed in range(3):
        model = ToyModel(random_table(LETTERS.vocab_size, seed))
        [found] = beam_search(model, [[9]], config, banned=NEVER, constraints=[constraint])
        text = " ".join(LETTERS.text(found[0].tokens).split())  # any white space will do
        assert found[0].unmet == ()
        assert all(form.lower() in text.lower() for form in asked), text
        assert re.search(r"\bDampfschiff\b.*\bDampf\b|\bDampf\b.*\bDampfschiff\b", text, re.DOTALL | re.IGNORECASE)
        assert LETTERS.encode("schiff")[0] in found[0].tokens


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("stop", ["first", "exact"])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_constraint_that_asks_nothing_changes_no_bit(beam: int, stop: str, tied: bool) -> None:
    model = ToyModel(random_table(9, 3, tied=tied), torch.float32)
    config = SearchConfig(beam=beam, n_best=beam, stop=stop, max_extra=3)
    sources = [[4], [4, 5], [8, 8, 8], [6] * 5]
    plain = beam_search(model, sources, config, banned=NEVER)
    for nothing in (Prefix([], 9), Atoms(kind=[], vocab_size=9), All([])):
        assert beam_search(model, sources, config, banned=NEVER, constraints=[nothing] * 4) == plain
        assert beam_search(model, sources, config, banned=NEVER, constraints=[None, nothing, None, nothing]) == plain


@pytest.mark.parametrize("stop", ["first", "exact"])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_result_depends_on_its_own_source_and_constraint_only(beam: int, stop: str) -> None:
    """Constrained and free sources in one batch, in any order, with a constraint shared by two."""
    model = ToyModel(random_table(8, 5), torch.float32)
    config = SearchConfig(beam=beam, n_best=beam, stop=stop, max_extra=6)
    constraints = [None, *(constraint for constraint, _ in SPACES.values()), None, SPACES["must"][0]]
    sources = [[5 + n % 3] * (1 + n % 4) for n in range(len(constraints))]
    alone = [
        beam_search(model, [source], config, banned=NEVER, constraints=[own])[0]
        for source, own in zip(sources, constraints, strict=True)
    ]
    for seed in range(3):
        order = random.Random(seed).sample(range(len(sources)), len(sources))
        found = beam_search(
            model, [sources[i] for i in order], config, banned=NEVER, constraints=[constraints[i] for i in order]
        )
        assert found == [alone[i] for i in order]
    free = [i for i, own in enumerate(constraints) if own is None]
    assert [alone[i] for i in free] == beam_search(model, [sources[i] for i in free], config, banned=NEVER)


def test_a_forced_start_worked_out_by_hand() -> None:
    """B has .1, then its end .9; the log-probabilities are the model's own, the forced tokens' too."""
    tree = {(): {EOS: 0.3, 4: 0.6, 5: 0.1}, (5,): {EOS: 0.9, 4: 0.1}, (5, 4): {EOS: 1.0}}
    config = SearchConfig(beam=2, n_best=2, penalty=PowerConfig(alpha=0))
    [found] = beam_search(ToyModel(probabilities(tree)), [[7]], config, banned=NEVER, constraints=[Prefix([5], 6)])
    assert tokens_of(found) == [[5], [5, 4]]
    assert found[0].token_logprobs == pytest.approx([math.log(0.1), math.log(0.9)], abs=1e-12)
    assert found[1].logprob == pytest.approx(math.log(0.01), abs=1e-12)


def test_what_the_length_limit_leaves_unmet_is_told_and_ranks_last() -> None:
    config = SearchConfig(beam=4, n_best=4, max_ratio=0, max_extra=2)
    constraint = MustAppear(phrases("rot", "o t o"), VOCABULARY)
    [found] = beam_search(ToyModel(random_table(8, 1)), [[9]], config, banned=NEVER, constraints=[constraint])
    assert not any(h.finished for h in found)
    for h in found:
        missing = [word for word in ("rot", "o t o") if not has(word)(h.tokens)]
        assert h.unmet == tuple(f"{word!r} is missing" for word in missing)
    assert [len(h.unmet) for h in found] == sorted(len(h.unmet) for h in found)


def test_demands_that_contradict_each_other_give_no_result_and_leave_the_neighbours_alone() -> None:
    never = All([Prefix([ROT, SPACE, OH], 8), MustNotAppear(phrases("rot"), VOCABULARY)])
    model, config = ToyModel(random_table(8, 1)), SearchConfig(max_ratio=0, max_extra=5)
    found = beam_search(model, [[9], [9]], config, banned=NEVER, constraints=[never, None])
    assert found == [[], *beam_search(model, [[9]], config, banned=NEVER)]


def test_the_end_is_held_back_after_a_word_that_must_not_be_said() -> None:
    """`rot` is all that the model wants to say: longer words that begin so are allowed, the word is not."""

    def table(source: Tokens, prefix: Tokens) -> list[float]:
        likes = {(): [ROT, OH], (ROT,): [EOS, SPACE, TEE]}.get(prefix, [EOS])
        return [9.0 - 3 * likes.index(token) if token in likes else -math.inf for token in range(8)]

    model = ToyModel(table)
    config = SearchConfig(beam=4, n_best=2, max_ratio=0, max_extra=3)
    constraint = MustNotAppear(phrases("ROT"), VOCABULARY)
    [found] = beam_search(model, [[9]], config, banned=NEVER, constraints=[constraint])
    assert [SMALL.text(h.tokens) for h in found] == ["o", "rott"]


def test_many_sources_take_their_constraints_with_them() -> None:
    """Batches go by length; a constraint stays with its source."""
    model, config = ToyModel(random_table(8, 2)), SearchConfig(beam=2, max_ratio=0, max_extra=6)
    sources = [[5] * (1 + n % 4) for n in range(9)]
    constraints = [Prefix([4 + n % 4], 8) if n % 3 else None for n in range(9)]
    found = list(translate_ids(model, iter(sources), config, constraints=iter(constraints), batch_lines=2))
    for n, [best] in enumerate(found):
        assert n % 3 == 0 or best.tokens[0] == 4 + n % 4
    free = list(translate_ids(model, sources, config))
    assert found[::3] == free[::3]
    with pytest.raises(ValueError, match="shorter"):
        list(translate_ids(model, sources, config, constraints=constraints[:-1]))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Prefix([8], 8), "8 is no token"),
        (lambda: Atoms([4], kind=[-1], vocab_size=8), "-1 is no token"),
        (lambda: Atoms([4], [(4, 5)], kind=[], vocab_size=8), r"placeholders \[4\]"),
        (lambda: Atoms(pairs=[(4, 5), (4, 6)], kind=[], vocab_size=8), r"placeholders \[4\]"),
        (lambda: MustAppear([Phrase(("rot",)), Phrase(())], VOCABULARY), "phrase 1 has no form"),
        (lambda: MustAppear(phrases(" "), VOCABULARY), "'' can be no word"),
        (lambda: MustNotAppear(phrases("a\ufffd"), VOCABULARY), "can be no word"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(wrong: Callable[[], Constraint], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        wrong()


def test_a_constraint_for_another_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="over 9 tokens, and the model has 8"):
        beam_search(ToyModel(random_table(8, 0)), [[5]], SearchConfig(), banned=NEVER, constraints=[Prefix([4], 9)])


# ---- words ----


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("rot Brot", [3, 4]),
        ("l'eau", [1, 2]),
        ("3.5 m²", [1, 2, 3, 4]),
        ("a_b", []),
        ("e\u0301t", []),
        ("weiß", []),
        ("dampf\u00adschiff", []),
        ("東京タワー", [1, 2, 3, 4]),
        ("PC用", [2]),
        ("ไทย", [1, 2]),
        ("서버를", []),
        ("שלום", []),
        ("क्या", []),
    ],
)
def test_words_end_where_they_end(text: str, ends: list[int]) -> None:
    assert [at for at in range(1, len(text)) if boundary(text[at - 1], text[at])] == ends


def test_case_is_folded_one_character_for_one() -> None:
    assert "".join(map(folded, "ΟΔΟΣ Öl\u00a0ẞ İ")) == "οδοσ öl ß İ"
    assert folded("ς") == folded("Σ")


BYTES = Vocabulary(Spelling([bytes([byte]) for byte in range(256)]))
alphabet = st.text(alphabet="aAbÄä .東京์ไ\n\u0301\U0001f600", max_size=12)


def end_of(constraint: Constraint, text: str) -> object:
    state: object = constraint.start()
    for byte in text.encode():
        state = constraint.step(state, len(CONTROLS) + byte) if state is not None else None
    return state


forms = alphabet.map(lambda text: " ".join(text.split())).filter(bool)


@settings(max_examples=150, deadline=None)
@given(text=alphabet, form=forms)
@example(text="rot", form="rot")
@example(text="ab\u0301 ab", form="ab")
def test_the_automaton_finds_what_a_pattern_finds(text: str, form: str) -> None:
    """Byte by byte, over split characters. The pattern spells out what joins words in this alphabet."""
    letter = "[aAbÄä\u0301]"
    left = rf"(?<!{letter})" if re.match(letter, form) else ""
    right = rf"(?!{letter})" if re.match(letter, form[-1]) else ""
    pattern = left + re.escape(form).replace(r"\ ", r"\s") + right
    here = re.search(pattern, text, re.IGNORECASE) is not None
    must, must_not = MustAppear(phrases(form), BYTES), MustNotAppear(phrases(form), BYTES)
    assert must.done(end_of(must, text)) == here
    state = end_of(must_not, text)
    assert (state is not None and must_not.done(state)) == (not here)


def test_a_trained_tokenizer_s_pieces_serve() -> None:
    """Every way to cut `Dampfschiff` into pieces is the word."""
    tokenizer = Tokenizer.train(["Das Dampfschiff fährt. Die Dampfschiffe fahren."] * 3, BPEConfig(vocab_size=280))
    vocabulary = Vocabulary(tokenizer)
    constraint = MustAppear(phrases("Dampfschiff"), vocabulary)
    for text in ("Das Dampfschiff.", "Dampfschiff", "DAMPFSCHIFF!", "Dampfschiffe", "Raddampfschiff"):
        for ids in (tokenizer.encode(text), [token for char in text for token in tokenizer.encode(char)]):
            state = constraint.start()
            for token in ids:
                state = constraint.step(state, token)
            assert constraint.done(state) == (re.search(r"\bdampfschiff\b", text.lower()) is not None), text
