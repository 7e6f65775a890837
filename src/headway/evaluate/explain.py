"""What a model did with one text: where each head looked, how sure it was of each piece, and what its search tried.

    weights (H, T, S): row t is where head h looked while y_t was written (decoder, cross) or x_t was read (encoder)

Pieces joined into words (by matrices that average the rows of a word and sum its columns) keep the rows' sums. The page
is explain.html. Twins: tests/test_explain.py recomputes the weights by einsum, and the probabilities are those of
`Model.score`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import Any, Literal

import regex
import torch
from torch import Tensor

from headway.evaluate.report import Share, template, visible
from headway.generate.align import MEAN, Head, any_head, padded, read
from headway.generate.beam import Hypothesis, Seen, beam_search, length_penalty
from headway.generate.lines import Result
from headway.generate.model import Model
from headway.generate.parts import Translator
from headway.generate.placeholders import Placeholders
from headway.nn.trace import Trace
from headway.text.segment import UNSPACED_LETTERS
from headway.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

LONGEST = 128
"""Tokens of a side that are explained. The weights grow with their square: a page of six layers of eight heads has some
400 kB at 20 tokens a side, 11 MB at this many."""

RUNNERS_UP = 5

Kind = Literal["encoder", "decoder", "cross"]
Matrix = list[list[float]]
Groups = list[list[int]]
"""Which pieces make each word, by their places."""


@dataclass(frozen=True)
class Layer:
    """Attention of one layer. number: from 1; mixer: its kind in the config; heads: of each the weights, a row for what
    looks and a column for what is looked at; none where the mixer has no weights to show."""

    kind: Kind
    number: int
    mixer: str
    heads: list[Matrix]


@dataclass(frozen=True)
class View:
    """The labels of what was read on the source side, read on the target side and written, and the weights between
    them. alignment: where what was written came from, by the head that tells best."""

    source: list[str]
    read: list[str]
    written: list[str]
    alignment: Matrix
    layers: list[Layer]


@dataclass(frozen=True)
class Written:
    """A piece that was written, its log-probability (nats), its place among all pieces, and the likeliest others."""

    piece: str
    logprob: float
    rank: int
    others: list[tuple[str, float]]


@dataclass(frozen=True)
class Branch:
    """A hypothesis that the search looked at. parent: its place in the tree, None for the first piece; piece: its last;
    text: of all; logprob: of its last piece; total: of all; score: total / penalty(length); fate: `kept` and gone on
    from, `alive` when the search stopped, `result` (its place in `results`) or `dropped`."""

    parent: int | None
    piece: str
    text: str
    step: int
    logprob: float
    total: float
    score: float
    fate: Literal["kept", "alive", "result", "dropped"]
    result: int | None = None


@dataclass(frozen=True)
class Explanation:
    """given: whether the target was; then nothing was searched, and results and tree are empty. head: whose weights the
    alignment is, in words; None: the model has no cross-attention, and the alignment is all zeros."""

    source: str
    target: str
    given: bool
    languages: tuple[str | None, str | None]
    logprob: float
    head: str | None
    written: list[Written]
    words: View
    pieces: View
    results: list[Result]
    tree: list[Branch]


@torch.no_grad()
def explain(
    model: Model, source: str, target: str | None = None, *, tags: Sequence[str] = (), **search: Any
) -> Explanation:
    """How the model translates a text, or (a target given) how it sees that one.

    search: as in `Model.stream`, and refused beside a target, for which nothing is searched. A text with codes that the
    model copies is searched once and plainly: the rules by which `translate` keeps codes are not applied. Raises
    ValueError with all that is wrong.
    """
    asked = [name for name, value in search.items() if value is not None]
    faults = [] if source.strip() else ["the source is empty: give a text to look at"]
    if target is not None and asked:
        faults.append(f"{', '.join(asked)}: with a target given nothing is searched; leave out the one or the other")
    if faults:
        raise ValueError("\n".join(faults))
    translator = model.translator(by_sentence=False, tags=tags, **search)
    ids, theirs = translator.forced(source.strip(), (target or "").strip(), ())
    places = model.config.position.max_len - 1 if model.config.position.kind == "learned" else LONGEST
    refuse_long(("source", ids, min(LONGEST, translator.max_source)), ("target", theirs, min(LONGEST, places)))
    found, tree = ([], []) if target is not None else searched(model, translator, ids)
    if target is None:
        theirs = found[0].tokens
        refuse_long(("translation", theirs, LONGEST))
    logits, trace = forced(model, [*ids, EOS], [BOS, *theirs])
    written = pieces_written(model.tokenizer, logits, [*theirs, EOS])
    head = Head(model.alignment.layer, model.alignment.head) if model.alignment else any_head(model.module)
    words, pieces = (view(model, trace, head, ids, theirs, joined) for joined in (True, False))
    return Explanation(
        source=source,
        target=target if target is not None else spelt(model.tokenizer, theirs),
        given=target is not None,
        languages=(model.languages.source, model.languages.target),
        logprob=sum(piece.logprob for piece in written),
        head=head and named(head),
        written=written,
        words=words,
        pieces=pieces,
        results=[Result(spelt(model.tokenizer, one.tokens), one.score, one.finished) for one in found],
        tree=tree,
    )


def named(head: Head) -> str:
    which = "mean of all heads" if head.head == MEAN else f"head {head.head + 1}"
    return f"layer {int(head.layer.split('.')[2]) + 1}, {which}"


def refuse_long(*sides: tuple[str, Sequence[int], int]) -> None:
    if long := [
        f"the {name} has {len(ids):,} tokens, and {most:,} can be explained: take a shorter text, such as one sentence"
        for name, ids, most in sides
        if len(ids) > most
    ]:
        raise ValueError("\n".join(long))


def forced(model: Model, source: list[int], target: list[int]) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits (T, V), and the weights (H, T, S) of each part by its name, as the model reads a given target."""
    trace, device = Trace(), next(model.module.parameters()).device
    logits = model.module(padded([source], device), padded([target], device), trace)[0]
    return logits, {
        name.removesuffix(".weights"): torch.cat(records, 2)[0]
        .double()
        .cpu()  # a recurrent decoder records step by step
        for name, records in trace.records.items()
        if name.endswith(".weights")
    }


def pieces_written(tokenizer: Tokenizer, logits: Tensor, target: list[int]) -> list[Written]:
    found = []
    for row, own in zip(logits.log_softmax(-1, dtype=torch.float64), target, strict=True):
        best = row.topk(min(RUNNERS_UP + 1, len(row))).indices.tolist()
        others = [number for number in best if number != own][:RUNNERS_UP]
        rank = 1 + int((row > row[own]).sum())
        told = [(label(tokenizer, number), float(row[number])) for number in others]
        found.append(Written(label(tokenizer, own), float(row[own]), rank, told))
    return found


# ---- the search ----


def searched(model: Model, translator: Translator, ids: Sequence[int]) -> tuple[list[Hypothesis], list[Branch]]:
    """The results of the beam, best first, and all that it looked at."""
    tokenizer, search = model.tokenizer, translator.search.model_copy(update={"n_best": translator.search.beam})
    kept = {model.tokenizers.source.piece(number) for number in ids}
    copied = {number for number in Placeholders(model.tokenizers).ids if tokenizer.piece(number) in kept}
    banned = [PAD, BOS, UNK, *tokenizer.line_breaking_ids, *(set(tokenizer.atom_ids) - copied)]
    seen: list[Seen] = []
    sources = [[*ids, EOS]]
    [found] = beam_search(model.module, sources, search, banned=banned, watch=lambda _, looked: seen.extend(looked))
    ranks = {(*one.tokens, *([EOS] if one.finished else [])): rank for rank, one in enumerate(found)}
    places = {one.tokens: place for place, one in enumerate(seen)}
    tree, last = [], max(len(one.tokens) for one in seen)
    for one in seen:
        result, step = ranks.get(one.tokens), len(one.tokens)
        fate = "result" if result is not None else "dropped" if not one.alive else "alive" if step == last else "kept"
        score = one.total / length_penalty(search.penalty, step)
        piece, text = label(tokenizer, one.tokens[-1]), spelt(tokenizer, one.tokens)
        parent = places.get(one.tokens[:-1])
        tree.append(Branch(parent, piece, text, step, one.logprob, one.total, score, fate, result))
    return found, tree


# ---- pieces and words ----

JOINED = regex.compile(rf"(?V1)[[\w\u200c\u200d]--[{UNSPACED_LETTERS}]]{{2}}")
"""Two characters of one word. Where a script has no spaces between its words, pieces are the best words there are."""

GRAPHEME = regex.compile(r"\X")
"""What a reader sees as one character (Unicode, annex 29): a letter with its marks, a flag, a family of emoji."""


def words(raws: Sequence[bytes]) -> Groups:
    """Which pieces make each word: those between which a run of letters, or what is seen as one character, goes on.
    Space belongs to the word behind it.

    raws: the bytes of each piece; b"" is no text (an end, a tag) and stands alone.
    """
    text = b"".join(raws).decode("utf-8", "surrogateescape")
    char_at = [place for place, char in enumerate(text) for _ in char.encode("utf-8", "surrogateescape")]
    seen_as = [number for number, found in enumerate(GRAPHEME.findall(text)) for _ in found]
    groups, begin, at = Groups(), 0, 0
    for number, raw in enumerate(raws):
        inside = number > 0 and bool(raws[number - 1]) and bool(raw)
        if inside:
            before, after = char_at[at - 1], char_at[at]
            spaces = text[char_at[begin] : before + 1].isspace()
            one = seen_as[before] == seen_as[after]
            inside = spaces or one or JOINED.fullmatch(text[before] + text[after]) is not None
        if inside:
            groups[-1].append(number)
        else:
            groups.append([number])
            begin = at
        at += len(raw)
    return groups


BROKEN = regex.compile("[\udc80-\udcff]+")
"""Bytes that are no whole character, as `surrogateescape` has them."""


def label(tokenizer: Tokenizer, *ids: int) -> str:
    """Pieces for people to read: one with its space made visible, several as the word that they make; bytes that are no
    whole character as `<E6 9C>`."""
    text = b"".join(map(tokenizer.piece_bytes, ids)).decode("utf-8", "surrogateescape")
    if len(ids) == 1:
        text = (text if BROKEN.search(text) else tokenizer.piece(ids[0])).replace(" ", "␣")
    return visible(BROKEN.sub(lambda part: f"<{part[0].encode('utf-8', 'surrogateescape').hex(' ').upper()}>", text))


def spelt(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """A text as one line, its atoms by their names, without space at its ends, as `translate` gives it."""
    parts = tokenizer.decode_parts(ids)
    return "".join(part if isinstance(part, str) else tokenizer.piece(part) for part in parts).strip()


def pooled(groups: Groups, mean: bool) -> Tensor:
    """(words, pieces): 1 where a piece is of the word, or 1 / n where the mean is wanted."""
    matrix = torch.zeros(len(groups), sum(map(len, groups)), dtype=torch.float64)
    for word, group in enumerate(groups):
        matrix[word, group] = 1 / len(group) if mean else 1
    return matrix


def view(
    model: Model,
    trace: dict[str, Tensor],
    head: Head | None,
    source: Sequence[int],
    target: Sequence[int],
    joined: bool,
) -> View:
    """Labels and weights, with pieces joined into words or not."""
    sides = {
        "source": (model.tokenizers.source, [*source, EOS]),
        "read": (model.tokenizer, [BOS, *target]),
        "written": (model.tokenizer, [*target, EOS]),
    }
    groups, labels = dict[str, Groups](), dict[str, list[str]]()
    for name, (tokenizer, ids) in sides.items():
        raws = [tokenizer.piece_bytes(number) for number in ids]
        groups[name] = words(raws) if joined else [[place] for place in range(len(ids))]
        named = [label(tokenizer, *(ids[place] for place in group)) for group in groups[name]]
        labels[name] = [one.strip("␣ ") or one for one in named] if joined else named

    def over(weights: Tensor, kind: Kind) -> Any:
        rows, columns = SIDES[kind]
        return (pooled(groups[rows], True) @ weights @ pooled(groups[columns], False).T).tolist()

    layers = [
        Layer(kind, number, mixer, over(trace[name], kind) if name in trace else [])
        for kind, number, mixer, name in parts(model)
    ]
    nowhere = torch.zeros(len(target) + 1, len(source) + 1, dtype=torch.float64)
    return View(**labels, alignment=over(read(trace, head) if head else nowhere, "cross"), layers=layers)


SIDES: dict[Kind, tuple[str, str]] = {
    "encoder": ("source", "source"),
    "decoder": ("written", "read"),
    "cross": ("written", "source"),
}
"""What looks, and what is looked at."""


def parts(model: Model) -> list[tuple[Kind, int, str, str]]:
    """Kind, number, mixer and name in a trace of all that may have weights."""
    encoder, decoder = model.config.encoder, model.config.decoder
    stacked = decoder.kind == "stack"  # the others are recurrences, with one attention at most
    own = [layer.mixer.kind for layer in decoder.layers] if stacked else [decoder.kind]
    cross = ["attention"] * len(own) if stacked else [decoder.kind]
    every: dict[Kind, tuple[str, list[str]]] = {
        "encoder": ("encoder.layers.{}.mixer", [layer.mixer.kind for layer in encoder.layers]),
        "decoder": ("decoder.layers.{}.mixer", own),
        "cross": ("decoder.layers.{}.cross", cross),
    }
    return [
        (kind, number, mixer, name.format(number - 1))
        for kind, (name, mixers) in every.items()
        for number, mixer in enumerate(mixers, 1)
    ]


# ---- the page ----


def page(explanation: Explanation) -> str:
    """One HTML file that needs no network; its pictures need a script, its texts and tables do not."""
    data = asdict(explanation)
    for name in ("words", "pieces"):
        data[name]["alignment"] = thousandths(data[name]["alignment"])
        for layer in data[name]["layers"]:
            layer["heads"] = thousandths(layer["heads"])
    data["tree"] = [{**branch, **{key: round(branch[key], 4) for key in NUMBERS}} for branch in data["tree"]]
    for key in ("written", "results"):  # these are in the page's tables
        del data[key]
    aligned = [best(explanation.words, row) for row in range(len(explanation.words.written))]
    return visible(template("explain.html").render(x=explanation, data=data, aligned=aligned, share=share))


NUMBERS = "logprob", "total", "score"


def thousandths(weights: Any) -> Any:
    """Weights as whole numbers from 0 to 1000: finer than an eye can see, and a third of the size."""
    return [thousandths(one) for one in weights] if isinstance(weights, list) else round(1000 * weights)


def share(logprob: float) -> Share:
    return Share(exp(logprob))


def best(view: View, row: int) -> tuple[str, str, Share]:
    """A word that was written, the source word that it looked at most, its end left out, and how much."""
    weights = view.alignment[row][:-1]
    column = max(range(len(weights)), key=weights.__getitem__)
    return view.written[row], view.source[column], Share(weights[column])
