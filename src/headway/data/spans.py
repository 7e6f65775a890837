"""Objectives on spans of a text: spans that are drawn and dropped (T5, UL2), and answers that are found in a text.

Raffel et al. 2020, section 3.3: with noise density r and mean length m, a text of L tokens loses n = round(r L) tokens
in s = round(n / m) spans. Sentinels take their places and tell them apart:

    text     Thank you for inviting me to your party last week
    source   Thank you <X> me to your party <Y> week
    target   <X> for inviting <Y> last <Z>

Pure functions, as those of `headway.data.objectives`. The independent checks are the numbers of T5's own code, examples
made by hand, and texts that come back from source and target, in tests/test_objectives.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headway.data.objectives import Ids, Pair, SpanAnswer, marked

Extent = tuple[int, int]
"""From the first to behind the last."""


# ---- spans that are drawn ----


def noise_counts(length: int, density: float, mean: float) -> tuple[int, int]:
    """How many tokens a text loses, and in how many spans: at least one each, and something stays between spans.

    Raises ValueError for a text of fewer than two tokens, a density outside 0 to 1, or a mean below 1.
    """
    faults = []
    if length < 2:
        faults.append(f"a text of {length} tokens has nothing to drop: leave it out, or join texts into blocks")
    if not 0 < density < 1:
        faults.append(f"density = {density}: give a part between 0 and 1")
    if not mean >= 1:
        faults.append(f"mean = {mean}: a span has 1 token or more")
    if faults:
        raise ValueError("; ".join(faults))
    tokens = min(max(round(length * density), 1), length - 1)
    return tokens, min(max(round(tokens / mean), 1), length - tokens)


def random_spans(length: int, rng: np.random.Generator, *, density: float, mean: float) -> list[Extent]:
    """Spans to drop, in order. Kept and dropped tokens are cut into as many parts, each way of cutting as likely, and
    these alternate, a kept one first: so the text ends with a dropped span, as in T5 (Raffel et al. 2020)."""
    dropped, num = noise_counts(length, density, mean)
    found, at = list[Extent](), 0
    for keep, drop in zip(segmentation(length - dropped, num, rng), segmentation(dropped, num, rng), strict=True):
        found.append((at + keep, at + keep + drop))
        at += keep + drop
    return found


def segmentation(total: int, num: int, rng: np.random.Generator) -> list[int]:
    """`total` as a sum of `num` numbers of at least 1, each such sum as likely."""
    cuts = np.sort(rng.choice(total - 1, num - 1, replace=False)) + 1 if num > 1 else []
    return np.diff([0, *cuts, total]).tolist()


def span_corruption(
    tokens: Ids,
    rng: np.random.Generator,
    *,
    sentinels: Ids,
    density: float = 0.15,
    mean: float = 3.0,
    final: bool = True,
) -> Pair:
    """The text with sentinels for what is dropped, and what is dropped behind its sentinels (T5).

    sentinels: ids in the order of their use. final: one more ends the target, as in the paper; T5's code, and so the
    models it trained, leave that to EOS. Raises ValueError for too few sentinels, or a text that has one of them.
    """
    spans = random_spans(len(tokens), rng, density=density, mean=mean)
    needed, faults = len(spans) + final, []
    if len(sentinels) < needed:
        told = f"{len(spans)} spans of a text of {len(tokens)} tokens need {needed} sentinels, and there are"
        faults.append(f"{told} {len(sentinels)}: give the vocabulary more atoms, or take shorter texts")
    if twice := set(sentinels) & set(tokens):
        faults.append(f"the text has token {min(twice)}, which is a sentinel: take others, or leave the text out")
    if faults:
        raise ValueError("; ".join(faults))
    source, target, at = list[int](), list[int](), 0
    for sentinel, (begin, end) in zip(sentinels, spans, strict=False):
        source += [*tokens[at:begin], sentinel]
        target += [sentinel, *tokens[begin:end]]
        at = end
    return Pair([*source, *tokens[at:]], [*target, *sentinels[len(spans) : needed]])


def corrupted_lengths(length: int, *, density: float = 0.15, mean: float = 3.0, final: bool = True) -> tuple[int, int]:
    """Tokens of source and target that a text of `length` tokens becomes, EOS counted in both."""
    dropped, num = noise_counts(length, density, mean)
    return length - dropped + num + 1, dropped + num + final + 1


def expanded_length(room: int, *, density: float = 0.15, mean: float = 3.0) -> int:
    """Tokens of the longest text whose source, with EOS, has no more than `room`: T5 reads 568 as 512."""
    length = 1
    while corrupted_lengths(length + 1, density=density, mean=mean)[0] <= room:
        length += 1
    if length < 2:
        raise ValueError(f"room for {room} tokens: the shortest source has 3; give that or more")
    return length


class Denoiser(NamedTuple):
    """mode: its letter. mean: of a span's length, None for one span that is the text's end. density: the share that is
    dropped, of an end on average."""

    mode: str
    mean: float | None
    density: float


DENOISERS = (
    Denoiser("R", 3, 0.15),
    Denoiser("R", 8, 0.15),
    Denoiser("S", None, 0.25),
    Denoiser("X", 3, 0.5),
    Denoiser("X", 8, 0.5),
    Denoiser("X", 64, 0.15),
    Denoiser("X", 64, 0.5),
)
"""Of UL2, each as likely: regular, sequential, and extreme ones (Tay et al. 2022, table 1)."""


def ul2(
    tokens: Ids,
    rng: np.random.Generator,
    *,
    sentinels: Ids,
    modes: Mapping[str, int],
    denoisers: Sequence[Denoiser] = DENOISERS,
    final: bool = True,
) -> Pair:
    """A mixture of denoisers: one is drawn, and its mode's token stands before the source (Tay et al. 2022).

    modes: the ids that say R, S and X. S splits the text where the target has 1 to 2 round(L / 4) - 1 tokens, each as
    likely, and needs no sentinel. Raises ValueError as `span_corruption` does, or for a mode without an id.
    """
    if missing := sorted({denoiser.mode for denoiser in denoisers} - set(modes)):
        raise ValueError(f"no token says mode {missing[0]}: give modes an id for each of its denoisers")
    mode, mean, density = denoisers[int(rng.integers(len(denoisers)))]
    if mean is None:
        dropped, _ = noise_counts(len(tokens), density, 1)
        most = min(2 * dropped - 1, len(tokens) - 1)
        split = len(tokens) - int(rng.integers(1, most + 1))
        found = Pair(list(tokens[:split]), list(tokens[split:]))
    else:
        found = span_corruption(tokens, rng, sentinels=sentinels, density=density, mean=mean, final=final)
    return Pair([modes[mode], *found.source], found.target)


# ---- answers that are found ----


def offsets(pieces: Sequence[bytes], text: str) -> list[Extent]:
    """Which characters of the text each piece is of. pieces: what each adds, as `Tokenizer.piece_bytes` says.

    A piece that ends within a character has the whole of it, one that adds nothing has none (begin = end). Raises
    ValueError where the pieces do not give the text back, but for one space before it.
    """
    raw, wanted = b"".join(pieces), text.encode()
    before = len(raw) - len(wanted)
    if before not in (0, 1) or raw != b" " * before + wanted:
        told = "the pieces do not give the text back, so it is not known which characters they are of"
        raise ValueError(f"{told}: take a lossless vocabulary, and texts normalised as it does")
    character = [number for number, one in enumerate(text) for _ in one.encode()]
    found, at = list[Extent](), -before
    for piece in pieces:
        begin, at = max(at, 0), at + len(piece)
        empty = character[begin] if begin < len(character) else len(text)
        found.append((character[begin], character[at - 1] + 1) if at > begin else (empty, empty))
    return found


def windows(length: int, room: int, stride: int) -> list[range]:
    """Places of a text of `length` tokens, as windows of up to `room` that begin `stride` apart, the last one at the
    text's end. Raises ValueError for a stride that would leave tokens out."""
    if not 1 <= stride <= room:
        raise ValueError(f"windows of {room} tokens, {stride} apart: take a stride from 1 to {room}, or more max_len")
    num = 1 + max(0, -(-(length - room) // stride))
    return [range(number * stride, min(number * stride + room, length)) for number in range(num)]


def span_answer(
    question: Ids,
    context: Ids,
    extents: Sequence[Extent],
    answer: Extent | None,
    *,
    cls: int,
    sep: int,
    max_len: int,
    stride: int,
) -> list[SpanAnswer]:
    """[cls] question [sep] window [sep] for each window of the context, and where the answer stands in it (Devlin et
    al. 2019, section 4.2; stride is the doc_stride of its code).

    extents: the characters that each token of the context is of (`offsets`); answer: its characters, None where the
    context has none. A window that does not hold all of it answers with cls. `windows(len(context), max_len -
    len(question) - 3, stride)` tells which tokens a window has, the first of them at len(question) + 2.
    Raises ValueError for an answer that no token or no window holds, and where the question leaves no room.
    """
    room = max_len - len(question) - 3
    if len(extents) != len(context):
        raise ValueError(f"{len(context)} tokens of context have {len(extents)} extents: give one for each")
    if room < 1:
        told = f"a question of {len(question)} tokens leaves no room for its context in max_len = {max_len}"
        raise ValueError(f"{told}: take {len(question) + 4} or more")
    views = windows(len(context), room, stride)
    first = last = -1  # in no window
    if answer is not None:
        holding = [at for at, (begin, end) in enumerate(extents) if max(begin, answer[0]) < min(end, answer[1])]
        if not holding:
            raise ValueError(f"no token is of the characters {answer[0]} to {answer[1]}: check where the answer stands")
        first, last = holding[0], holding[-1]
        if not any(first in view and last in view for view in views):
            told = f"the answer has {last - first + 1} tokens, and no window of {room} tokens, {stride} apart, holds it"
            raise ValueError(f"{told}: raise max_len, lower the stride, or leave the question out")
    found, begins = list[SpanAnswer](), len(question) + 2
    for view in views:
        tokens, segments = marked(question, context[view.start : view.stop], cls=cls, sep=sep)
        held = first in view and last in view
        begin, end = (begins + first - view.start, begins + last - view.start) if held else (0, 0)
        found.append(SpanAnswer(tokens, segments, begin, end))
    return found
