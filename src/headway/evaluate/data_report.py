"""What a recipe's data is like before anything is trained: what is kept and left out and why, lengths, pieces, padding.

Everything streams: counters, the lengths of the pairs, a hash of each (`headway.data.clean.Hashes`) and a sample are
kept, no text besides the examples. Nothing is left out that is not counted here: the pairs kept, those held out and the
counts of all reasons add up to what the files hold. The independent check, a corpus counted by hand, is
tests/test_data_report.py.
"""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from heapq import heappush, heappushpop
from itertools import chain, islice
from zlib import crc32

import numpy as np

from headway.config import CleanConfig, CorpusConfig
from headway.data.batch import batches, padding_share, tempered
from headway.data.clean import RULES, Cleaner, Hashes, columns, digest
from headway.data.encode import Encoder, Placed
from headway.data.pair import Pair
from headway.data.prepare import CHUNK, EMPTY, HELD, KEPT, Corpus
from headway.data.tally import told
from headway.evaluate.report import Example, Examples, Histogram, Section, Share, Table, Text, shown
from headway.strict import show
from headway.text.codes import plain
from headway.text.tokenizer import UNK, Tokenizer, TokenizerPair

SAMPLE = 5_000
"""Pairs kept that the rules which are off are tried on, chosen by a hash of their number."""

SHOWN = 5
"""Examples of each reason."""

SIDES = "source", "target"

RATIOS = [0, 0.25, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, math.inf]

SUGGESTED = CleanConfig(
    max_ratio=3.0, identical=True, markup=True, mojibake=True, letters=0.5, language=True, duplicates="pair"
)
"""Rules that the report tries where the recipe has them off."""


class DataReport:
    """Counts all pairs of a recipe's data, as training reads them, and tells of it in `sections`.

    tokenizers: those that training would take. Raises ValueError for what training would refuse in the files.
    """

    def __init__(self, data: Corpus, tokenizers: TokenizerPair) -> None:
        self.data, self.corpora = data, data.corpora
        self.encoder = data.encoder(tokenizers, data.config.max_len)
        self.tally = deepcopy(data.selection.tally)  # of reading and cleaning; what encoding leaves out comes on top
        self.seen, self.kept, self.held = ([0] * len(self.corpora) for _ in range(3))
        self.examples: dict[str, list[Example]] = {}
        self.chars, self.words, self.tokens = ([Counter[int](), Counter[int]()] for _ in range(3))
        self.ratios = [0] * (len(RATIOS) - 1)
        self.pieces = [np.zeros(one.vocab_size, np.int64) for one in tokenizers]
        self.before = np.zeros(tokenizers.source.vocab_size, np.int64)  # pieces that stand before the sources
        self.lengths = array("I"), array("I")  # with the end token
        self.hashes, self.repeated = Hashes(), 0
        self.sample: list[tuple[int, int, Pair]] = []
        self._read()

    def _read(self) -> None:
        stream, rules = self.data.read(), [*RULES]
        while chunk := list(islice(stream, CHUNK)):
            kept: list[Placed] = []
            for part, pair, fate in chunk:
                self.seen[pair.corpus] += 1
                self.held[pair.corpus] += fate == HELD
                if fate == KEPT:
                    kept.append((part, pair))
                elif fate >= EMPTY:
                    self._example(rules[fate - EMPTY], part, pair)
            self._encode(kept)

    def _encode(self, chunk: list[Placed]) -> None:
        encoded = self.encoder.encoded(chunk, self.tally, self.data.place)
        for (part, pair), ids in zip(chunk, encoded, strict=True):
            if ids is None:
                self._example("too_long", part, pair)
                continue
            self.kept[pair.corpus] += 1
            texts = plain(pair.source), plain(pair.target)
            for side, (text, own) in enumerate(zip(texts, (ids.source, ids.target), strict=True)):
                self.chars[side][len(text)] += 1
                self.words[side][len(text.split())] += 1
                self.tokens[side][len(own)] += 1
            self.lengths[0].append(len(ids.before) + len(ids.source) + 1)
            self.lengths[1].append(len(ids.target) + 1)
            self.ratios[bisect_right(RATIOS, columns(texts[1]) / max(columns(texts[0]), 1)) - 1] += 1
            self.repeated += not self.hashes.add(digest(pair, "pair"))
            self._sample(pair)
        kept = [ids for ids in encoded if ids is not None]
        for counts, texts in zip((self.before, *self.pieces), zip(*kept, strict=True), strict=False):
            counts += np.bincount(np.fromiter(chain(*texts), np.int64), minlength=len(counts))

    def _example(self, reason: str, part: int, pair: Pair) -> None:
        shown = self.examples.setdefault(reason, [])
        if len(shown) < SHOWN:
            shown.append(Example(self.data.place(part, pair), plain(pair.source), plain(pair.target), reason))

    def _sample(self, pair: Pair) -> None:
        number = sum(self.kept)
        entry = (-crc32(number.to_bytes(8, "little")), number, pair)
        if len(self.sample) < SAMPLE:
            heappush(self.sample, entry)
        else:
            heappushpop(self.sample, entry)

    # ---- what is told ----

    def sections(self, batch_tokens: int) -> list[Section]:
        """The report; batch_tokens: as in train.batch_tokens, for the padding."""
        languages = self.corpora[0].source_language, self.corpora[0].target_language
        found: list[Section] = [self._fates(), self._validation(), self._corpora()]
        if notes := self.tally.noted(sum(self.kept) + sum(self.held) + self.tally.total):
            found.append(Text("Kept as it is", notes))
        if self.examples:
            found.append(
                Examples("Left out: examples", [row for rows in self.examples.values() for row in rows], languages)
            )
        if sum(self.kept):
            found += [
                lengths("Lengths in characters", "characters", self.chars),
                lengths("Lengths in words (between spaces)", "words", self.words),
                lengths("Lengths in tokens", "tokens", self.tokens),
                Histogram("Target over source", "columns over columns", "pairs", RATIOS, {"pairs": self.ratios}),
                self._vocabulary(),
                self._frequent(),
                self._unused(),
                self._padding(batch_tokens),
            ]
        return [*found, Text("Suggestions", self._suggestions() or ["None."])]

    def _fates(self) -> Table:
        known = {"kept": "are trained on", "held": "are held out to validate on"}
        held = {"held": sum(self.held)} if any(self.held) else {}
        counts = {"kept": sum(self.kept), **held, **self.tally.counts}
        every = sum(counts.values())
        rows = [
            [reason, known.get(reason) or told(reason, self.encoder.max_len), count, Share(count / max(every, 1))]
            for reason, count in counts.items()
        ]
        return Table(
            "Kept and left out", ["reason", "pairs that", "pairs", "share"], [*rows, ["all", "", every, Share(1)]]
        )

    def _validation(self) -> Table:
        """What the loss is measured on, encoded as training does it."""
        pairs, tally = self.data.valid, deepcopy(self.data.valid_tally)
        number = len(pairs) + tally.total
        encoder = Encoder(self.encoder.tokenizers, self.encoder.max_len, self.data.valid_tags)
        encoder.rows([(0, pair) for pair in pairs], tally, lambda _, pair: pair.place or f"line {pair.number}")
        rows = [
            [f"without those that {told(reason, encoder.max_len)}", -count] for reason, count in tally.counts.items()
        ]
        rows += [[note, None] for note in tally.noted(number)]
        return Table("To validate on", ["", "pairs"], [["pairs", number], *rows])

    def _corpora(self) -> Table:
        columns = ["corpus", "pairs", "kept", "held out", "share kept", "weight", "from", "to", "tags"]
        temperature, weights = self.data.config.temperature, [corpus.weight for corpus in self.corpora]
        weights = weights if temperature is None else tempered(self.kept, temperature)
        rows = []
        for number, corpus in enumerate(self.corpora):
            name, seen, kept = corpus.path or f"{corpus.source}, {corpus.target}", self.seen[number], self.kept[number]
            counts = [seen, kept, self.held[number], Share(kept / max(seen, 1)), weights[number]]
            rows.append([name, *counts, corpus.source_language, corpus.target_language, " ".join(corpus.tags)])
        return Table("Corpora", columns, rows)

    def _vocabulary(self) -> Table:
        """Of the training pairs. What stands before the sources (tags, matches, context) is a row of its own; control
        tokens are none."""
        columns = ["side", "tokens", "pieces", "used", "share", "unknown", "tokens a word", "characters a token"]
        rows: list[list[str | int | float | None]] = []
        for side, (name, counts) in enumerate(zip(SIDES, self.pieces, strict=True)):
            words, chars = (
                sum(length * count for length, count in one[side].items()) for one in (self.words, self.chars)
            )
            total = int(counts.sum())
            rows.append([name, *usage(counts), total / max(words, 1), chars / max(total, 1)])
        if self.before.any():
            rows.insert(1, ["before the source", *usage(self.before), None, None])
        return Table("Vocabulary", columns, rows)

    def _frequent(self) -> Table:
        columns, rows = [], []
        for side, tokenizer, counts in zip(SIDES, self.encoder.tokenizers, self.pieces, strict=True):
            columns += [f"{side} piece", f"{side} share"]
            best = [number for number in np.argsort(-counts, kind="stable")[:20].tolist() if counts[number]]
            rows.append([(spelt(tokenizer, number), Share(counts[number] / counts.sum())) for number in best])
        height = max(map(len, rows))
        padded = [row + [(None, None)] * (height - len(row)) for row in rows]
        return Table("Most frequent pieces", columns, [[*one, *other] for one, other in zip(*padded, strict=True)])

    def _unused(self) -> Text:
        """A joint vocabulary is told once: a piece is used where either side uses it."""
        source, target = self.encoder.tokenizers
        if source is target:
            words = [unused("both sides", source, self.before + self.pieces[0] + self.pieces[1])]
        else:
            words = [unused("source", source, self.before + self.pieces[0]), unused("target", target, self.pieces[1])]
        return Text("Pieces that are never used", words)

    def _padding(self, batch_tokens: int) -> Table:
        source, target = (np.frombuffer(lengths, np.uint32).astype(np.int64) for lengths in self.lengths)
        fits = source + target <= batch_tokens
        rows: list[list[str | int | float | None]] = [["pairs too large for a batch", int((~fits).sum())]]
        if fits.any():
            source, target = source[fits], target[fits]
            plan = batches(source, target, batch_tokens=batch_tokens, seed=1, epoch=0)
            share = Share(padding_share(plan, source, target))
            rows += [["batches in an epoch", len(plan)], ["pairs a batch", len(source) / len(plan)], ["padding", share]]
        return Table(f"Batches of {batch_tokens:,} tokens, each pair once", ["", "value"], rows)

    def _suggestions(self) -> list[str]:
        """What the rules that are off would leave out of the pairs kept."""
        off = [name for name, value in self.data.config.clean if value in (None, False, "none")]
        counts: Counter[str] = Counter({"duplicates": self.repeated * len(self.sample)} if "duplicates" in off else {})
        total = max(sum(self.kept), 1)
        trial = trial_cleaner(self.corpora)
        for _, _, pair in self.sample:
            counts.update({rule: total for rule in trial.reasons(pair) if rule in off and rule != "duplicates"})
        shares = {rule: counts[rule] / (total * max(len(self.sample), 1)) for rule in off if counts[rule]}
        about = "about " if total > len(self.sample) else ""
        return [
            f"{'' if rule == 'duplicates' else about}{shown(Share(share))} of the pairs kept {RULES[rule].told}: "
            f"data.clean.{rule} = {show(dict(SUGGESTED)[rule])} would leave them out"
            for rule, share in sorted(shares.items(), key=lambda item: -item[1])
        ]


def trial_cleaner(corpora: Sequence[CorpusConfig]) -> Cleaner:
    """All rules of SUGGESTED; without the languages where they cannot be told."""
    languages = [(corpus.source_language, corpus.target_language) for corpus in corpora]
    try:
        return Cleaner(SUGGESTED, languages)
    except ValueError:
        return Cleaner(SUGGESTED.model_copy(update={"language": False}), languages)


def usage(counts: np.ndarray) -> list[int | float]:
    """Tokens, the pieces that there are, those that are used, their share, and that of unknown ones in the tokens."""
    total, size, used = int(counts.sum()), len(counts) - UNK - 1, int((counts[UNK + 1 :] > 0).sum())
    return [total, size, used, Share(used / max(size, 1)), Share(int(counts[UNK]) / max(total, 1))]


def unused(name: str, tokenizer: Tokenizer, counts: np.ndarray) -> str:
    never = [number for number in np.flatnonzero(counts == 0).tolist() if number > UNK]
    pieces = " ".join(spelt(tokenizer, number) for number in never[-50:])
    return f"{name}: {len(never):,} of {len(counts) - UNK - 1:,}" + (f", the last of them {pieces}" if never else "")


def spelt(tokenizer: Tokenizer, number: int) -> str:
    piece = tokenizer.piece(number)
    return piece if " " in piece.strip() else piece.replace(" ", "␣")  # bytes are spelt <E3 81>


def lengths(title: str, axis: str, counters: Sequence[Counter[int]]) -> Histogram:
    """A histogram of whole numbers in some 15 steps; the longest hundredth is one step."""
    every = counters[0] + counters[1]
    ranked, passed, top = sorted(every), 0, 0
    for top in ranked:
        passed += every[top]
        if passed >= 0.99 * every.total():
            break
    step = next(step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if top / step <= 15)
    edges = [*range(0, top + step, step)]
    edges += [edges[-1] + step] if ranked[-1] < edges[-1] + step else [math.inf]
    counts = {side: [0] * (len(edges) - 1) for side in SIDES}
    for side, counter in zip(SIDES, counters, strict=True):
        for length, count in counter.items():
            counts[side][bisect_right(edges, length) - 1] += count
    return Histogram(title, axis, "pairs", edges, counts)
