"""Corpus scores by sacreBLEU (Post 2018), with the signatures that make them comparable: BLEU, chrF2, TER.

BLEU needs words, so its tokeniser follows the target language: `ja-mecab` for Japanese where MeCab is installed (the
extra `ja`), else `char`; `zh` for Chinese; `13a` for the rest. The signature says which. TER splits Chinese and
Japanese characters for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from headway.text.segment import language_code

_JAPANESE = {"ja", "jpn"}
_CHINESE = {"zh", "zho", "chi", "cmn", "yue"}


@dataclass(frozen=True)
class Scores:
    """Scores of a corpus. `dataclasses.asdict` of it is ready for JSON.

    bleu, chrf (chrF2): 0 to 100, higher is better; ter: edits per 100 reference words, lower is better. length_ratio:
    output words over reference words, in BLEU's tokens (0 where the references hold none). exact_match: share of lines
    that equal their reference, 0 to 1.
    """

    num_lines: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    ter: float
    ter_signature: str
    length_ratio: float
    exact_match: float


def bleu_tokenizer(language: str | None) -> str:
    """The name of sacreBLEU's tokeniser for a target language (None: unknown)."""
    code = language_code(language)
    if code in _JAPANESE:
        return "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"
    return "zh" if code in _CHINESE else "13a"


def check_lines(outputs: Sequence[str], references: Sequence[str]) -> None:
    """Refuse what has no score: no lines at all, or outputs and references that do not pair up."""
    if len(outputs) != len(references):
        raise ValueError(
            f"{len(outputs)} output lines against {len(references)} reference lines: "
            "line n of one must belong to line n of the other"
        )
    if not outputs:
        raise ValueError("there are no lines to score: both the outputs and the references are empty")


def metrics(language: str | None) -> tuple[BLEU, CHRF, TER]:
    """sacreBLEU's metrics for a target language (None: unknown)."""
    split = language_code(language) in _JAPANESE | _CHINESE
    return BLEU(tokenize=bleu_tokenizer(language)), CHRF(), TER(normalized=split, asian_support=split)


def score_bleu(outputs: Sequence[str], references: Sequence[str], *, language: str | None = None) -> float:
    """BLEU alone, as `score_corpus` gives it; for validation, where the other scores would cost time, and sacreBLEU's
    three warnings of text that looks tokenised (`force`) would come each time: `score_corpus` has them."""
    check_lines(outputs, references)
    return BLEU(tokenize=bleu_tokenizer(language), force=True).corpus_score(outputs, [references]).score


def score_corpus(outputs: Sequence[str], references: Sequence[str], *, language: str | None = None) -> Scores:
    """Every score of outputs against one reference each; language: the target's. Raises what check_lines does."""
    check_lines(outputs, references)
    bleu, chrf, ter = metrics(language)
    found = bleu.corpus_score(outputs, [references])
    return Scores(
        num_lines=len(outputs),
        bleu=found.score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(outputs, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        ter=ter.corpus_score(outputs, [references]).score,
        ter_signature=str(ter.get_signature()),
        length_ratio=found.ratio,
        exact_match=sum(map(str.__eq__, outputs, references)) / len(outputs),
    )
