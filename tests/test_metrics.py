"""Scores against published values of real systems, against counts made by hand, and refusals."""

import gzip
import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from headway.evaluate import metrics
from headway.evaluate.metrics import bleu_tokenizer, score_bleu, score_corpus

SYSTEMS = {"sennrich2016": 25.27, "bpe2bpe": 19.97, "char2char": 19.63}


def lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().removesuffix("\n").split("\n")


@pytest.mark.parametrize("system", SYSTEMS)
def test_bleu_of_published_outputs_is_the_published_bleu(corpora: Path, system: str) -> None:
    reference = corpora / "wmt_newstest" / "eng-deu" / "newstest2014.deu.gz"
    output = corpora / "wmt15_lingeval_baselines" / f"{system}.newstest2014.gz"
    if not reference.exists() or not output.exists():
        pytest.skip("HEADWAY_DATA holds no wmt_newstest or no wmt15_lingeval_baselines")
    assert round(score_bleu(lines(output), lines(reference), language="de"), 2) == SYSTEMS[system]


OUTPUTS = ["Ein Hund läuft .", "Zwei Männer", "", "Das ist ein kleiner Test ."]
REFERENCES = ["Ein Hund läuft .", "Zwei alte Männer", "Ja", "Das ist ein Test ."]


def test_ter_length_ratio_and_exact_matches_are_those_counted_by_hand() -> None:
    """13 reference words (4 + 3 + 1 + 5); edits 0 + 1 + 1 + 1; 12 output words; one line of four is exact."""
    scores = score_corpus(OUTPUTS, REFERENCES, language="de")
    assert scores.num_lines == 4
    assert scores.ter == pytest.approx(100 * 3 / 13)
    assert scores.length_ratio == pytest.approx(12 / 13)
    assert scores.exact_match == 0.25


def test_a_perfect_output_has_the_best_of_every_score_and_a_strange_one_the_worst() -> None:
    perfect = score_corpus(REFERENCES, REFERENCES)
    assert (perfect.bleu, perfect.chrf, perfect.ter) == pytest.approx((100, 100, 0))
    assert (perfect.length_ratio, perfect.exact_match) == (1, 1)
    nothing = score_corpus([""] * 4, REFERENCES)
    assert (nothing.bleu, nothing.chrf, nothing.ter) == pytest.approx((0, 0, 100))
    assert (nothing.length_ratio, nothing.exact_match) == (0, 0)


def test_scores_are_json_and_say_how_they_were_made() -> None:
    scores = score_corpus(OUTPUTS, REFERENCES, language="de")
    again = json.loads(json.dumps(asdict(scores), allow_nan=False))
    assert again == asdict(scores)
    assert again["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert again["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    assert again["ter_signature"].startswith("nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:")
    assert score_bleu(OUTPUTS, REFERENCES, language="de") == scores.bleu


def test_text_that_looks_tokenised_is_told_of_with_all_scores_and_not_at_each_validation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As sacreBLEU does where a hundred lines end in a full stop that stands alone."""
    score_bleu(["Ein Hund ."] * 100, ["Ein Hund ."] * 100, language="de")
    assert not caplog.records
    score_corpus(["Ein Hund ."] * 100, ["Ein Hund ."] * 100, language="de")
    assert "forgot to detokenize" in caplog.text


def test_the_tokeniser_follows_the_target_language(monkeypatch: pytest.MonkeyPatch) -> None:
    for language, name in [
        (None, "13a"),
        ("", "13a"),
        ("de", "13a"),
        ("en-GB", "13a"),
        ("zh", "zh"),
        ("zh_Hant", "zh"),
        ("cmn", "zh"),
    ]:
        assert bleu_tokenizer(language) == name
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    assert [bleu_tokenizer(language) for language in ("ja", "JA-jp", "jpn")] == ["char"] * 3
    monkeypatch.setattr(metrics, "find_spec", lambda name: name)
    assert [bleu_tokenizer(language) for language in ("ja", "JA-jp", "jpn")] == ["ja-mecab"] * 3


def test_japanese_is_scored_in_pieces_not_in_whole_sentences() -> None:
    """One line without a space is one word to 13a: BLEU 0. The signature says what cut it."""
    output, reference = ["犬が公園で走っています。"], ["犬が庭で走っています。"]
    scores = score_corpus(output, reference, language="ja")
    assert scores.bleu > 30 > score_corpus(output, reference).bleu
    mecab = find_spec("MeCab") and find_spec("ipadic")
    assert ("tok:ja-mecab" if mecab else "tok:char") in scores.bleu_signature
    assert "asian:yes" in scores.ter_signature
    assert scores.ter < 100 == score_corpus(output, reference).ter


def test_a_line_separator_inside_a_line_is_only_a_character() -> None:
    odd = ["a b c d\u2028e f", "g h i j\x85k"]
    assert score_corpus(odd, odd).bleu == pytest.approx(100)


def test_lines_that_do_not_pair_up_are_refused_with_both_counts() -> None:
    for score in (score_corpus, score_bleu):
        with pytest.raises(ValueError, match=r"3 output lines against 4 reference lines"):
            score(OUTPUTS[:3], REFERENCES)
        with pytest.raises(ValueError, match=r"no lines to score"):
            score([], [])
