"""Translations of one text by several systems: which is better, whether that may be chance, and where they differ.

Scores, the resampled scores of their intervals, and p-values are sacreBLEU's (Post 2018): paired bootstrap resampling
(Koehn 2004) of each output against the first. The independent checks are in tests/test_compare.py: sacreBLEU's own
command line, and lines that are drawn and scored again there.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result, _bootstrap_resample

from headway.config import language_named
from headway.data.corpus import read_lines
from headway.evaluate.metrics import bleu_tokenizer, metrics
from headway.evaluate.report import Cell, Section, Table, Text, Version, Versions, shown
from headway.evaluate.run_report import distinct
from headway.text.segment import UNSPACED_LETTERS

SHOWN = 10
"""Lines that are shown, those where the outputs differ most."""

MOST_LINES = 50_000
"""Lines that may be resampled: all resamples are in memory at once, some 80 KB for a line."""

Texts = Sequence[str]


def compare_outputs(
    outputs: Sequence[str | Path],
    reference: str | Path | None = None,
    source: str | Path | None = None,
    language: str | None = None,
) -> list[Section]:
    """Files of translations, line n of each of the same text. language: theirs, since BLEU cuts words by it; else that
    of the reference's ending, as `test.ja`.

    Raises ValueError for all that cannot be read, is named twice, or has another number of lines than the rest."""
    files = [Path(path) for path in outputs]
    more = [Path(path) for path in (reference, source) if path is not None]
    texts, faults = {}, []
    names = distinct(files, faults)
    for path in [*files, *more]:
        try:
            texts[path] = read_lines(path)
        except ValueError as error:
            faults.append(str(error))
    if reference is None and len(files) < 2:
        faults.append("one output and no reference: there is nothing to compare it with; name another, or a reference")
    if not faults and len({len(lines) for lines in texts.values()}) > 1:
        counts = ", ".join(f"{path} has {len(lines):,}" for path, lines in texts.items())
        faults.append(f"{counts} lines: line n of each must be of the same text")
    if faults:
        raise ValueError("\n".join(faults))
    said = {name: texts[path] for name, path in zip(names, files, strict=True)}
    right, asked = (texts[Path(path)] if path is not None else None for path in (reference, source))
    language = language or (language_named(Path(reference).name) if reference is not None else None)
    judged = scored(said, right, language) if right is not None else []
    return [*judged, *differing(said, right), *apart(said, right, asked)]


def scored(outputs: Mapping[str, Texts], references: Texts, language: str | None) -> list[Section]:
    """Scores with intervals, and the p-values of the differences to the first output."""
    if len(references) > MOST_LINES:
        told = f"{len(references):,} lines are too many to resample in memory; take {MOST_LINES:,} or fewer of them"
        raise ValueError(f"{told}, such as: shuf --random-source=FILE -n {MOST_LINES}, the same lines of each file")
    measures = metrics(language)
    named = {str(number): metric for number, metric in enumerate(measures)}
    signatures, found = PairedTest([*outputs.items()], named, [references], test_type="bs")()
    names, rows = list(outputs), []
    for measure, metric in zip(signatures, measures, strict=True):
        results = [result for result in found[measure] if isinstance(result, Result)]
        ends = [interval(metric, lines, references) for lines in outputs.values()]
        rows += [row(measure, *one, results[0]) for one in zip(names, results, ends, strict=True)]
    columns = ["score", "output", "value", "95 %: from", "to", "against the first", "p"]
    words = [f"{measure}: {signature}" for measure, signature in signatures.items()]
    if len(names) > 1:
        told = f"p: how likely so large a difference to {shown(names[0])} is by chance, by paired bootstrap resampling"
        words.append(f"{told} (Koehn 2004). Below 0.05 it is held to be more than chance. Less TER is better.")
    if bleu_tokenizer(language) == "13a" and unspaced(references):
        words.append(UNSPACED)
    return [Table("Scores", columns, rows), Text("How they are measured", words)]


def interval(metric: Metric, texts: Texts, references: Texts) -> tuple[float, float]:
    """From 2.5 to 97.5 % of the scores of the resamples, those that the p-values are of. `PairedTest` keeps only the
    mean and half of this width, and a score that is skewed would leave its range around a mean."""
    metric._force = True  # that a text looks tokenised, `PairedTest` has said
    _, resampled = _bootstrap_resample(metric._extract_corpus_statistics(texts, [references]), metric)
    scores = sorted(float(one.score) for one in resampled)  # TER comes as numpy's float32
    cut = len(scores) // 40
    return scores[cut], scores[-1 - cut]


UNSPACED = (
    "The reference is mostly written in a script without spaces between words, and BLEU and TER took what stands "
    "between two spaces for a word: these say next to nothing. For Japanese name the language, --target-language ja, "
    "for Chinese --target-language zh; for others, such as Thai, go by chrF2, which needs no words."
)


def unspaced(texts: Texts) -> bool:
    letters = [char for text in texts for char in text if char.isalpha()]
    return 2 * len(re.findall(f"[{UNSPACED_LETTERS}]", "".join(letters))) > len(letters)


def row(measure: str, name: str, result: Result, ends: tuple[float, float], first: Result) -> list[Cell]:
    value = float(result.score)
    known: list[Cell] = [measure, name, value, *ends]
    if result is first:
        return [*known, None, None]
    # Of an output against itself the resampling would say 1 / 1001, as if it were certain to be another.
    return [*known, value - float(first.score), 1.0 if result.score == first.score else result.p_value]


def differing(outputs: Mapping[str, Texts], references: Texts | None) -> list[Section]:
    """How many lines each output has other than the first; of these, how many are nearer to the reference. Nothing of
    one output alone."""
    first, *others = outputs
    columns, rows = ["output", "other lines", *(["nearer to the reference", "farther"] if references else [])], []
    for name in others:
        pairs = zip(outputs[first], outputs[name], strict=True)
        numbers = [number for number, (ours, theirs) in enumerate(pairs) if ours != theirs]
        counts: list[Cell] = [name, len(numbers)]
        if references:
            theirs, ours = ([nearness(outputs[one], references, at) for at in numbers] for one in (name, first))
            gains = [one - other for one, other in zip(theirs, ours, strict=True)]
            counts += [sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)]
        rows.append(counts)
    title = f"Lines other than those of {shown(first)}, of {len(outputs[first]):,}"
    return [Table(title, columns, rows)] if others else []


def nearness(texts: Texts, others: Texts, at: int) -> float:
    """chrF of one line, 0 to 100; two empty lines are equal."""
    return 100.0 if texts[at] == others[at] else CHRF().sentence_score(texts[at], [others[at]]).score


def apart(outputs: Mapping[str, Texts], references: Texts | None, sources: Texts | None) -> list[Section]:
    """The lines where an output is farthest from the first: by how near each is to the reference, or to each other."""
    first, *others = outputs
    found: list[tuple[float, int]] = []
    for at, ours in enumerate(outputs[first]):
        if theirs := [outputs[name] for name in others if outputs[name][at] != ours]:
            if references:
                known = nearness(outputs[first], references, at)
                found.append((max(abs(nearness(texts, references, at) - known) for texts in theirs), at))
            else:
                found.append((100 - min(nearness(texts, outputs[first], at) for texts in theirs), at))
    worst = sorted(found, key=lambda one: (-one[0], one[1]))[:SHOWN]
    if not worst:
        return []
    sides = {"source": sources, "reference": references}
    rows = []
    for _, at in worst:
        texts = [(side, lines[at]) for side, lines in sides.items() if lines is not None]
        for name, lines in outputs.items():
            told = f" (chrF {nearness(lines, references, at):.0f})" if references else ""
            texts.append((f"{name}{told}", lines[at]))
        rows.append(Version(f"Line {at + 1:,}", texts))
    return [Versions(f"Where they differ most: {len(worst):,} of {len(found):,} lines that differ", rows)]
