"""What all commands share: an option has one value or many; a named file is lines only where it looks like them."""

import gzip
from pathlib import Path

import pytest
from typer.main import get_command

from headway import cli

ROOT = get_command(cli.app)
GROUPS = {(): ROOT, ("tokenizer",): ROOT.commands["tokenizer"], ("data",): ROOT.commands["data"]}
COMMANDS = {
    (*words, name): command
    for words, group in GROUPS.items()
    for name, command in group.commands.items()
    if not hasattr(command, "commands")
}
ONCE = [
    (words, option.opts[0], option)
    for words, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and not option.multiple
]


def test_there_are_options_to_try() -> None:
    assert len(ONCE) > 60
    assert {("translate",), ("tokenizer", "train"), ("data", "report")} <= {words for words, _, _ in ONCE}


@pytest.mark.parametrize(("words", "name", "option"), ONCE, ids=[" ".join((*w, n)) for w, n, _ in ONCE])
def test_an_option_of_one_value_is_refused_where_it_is_given_twice(headway, words, name, option) -> None:
    code, out, err = headway(*words, *([name] if option.is_flag else [name, "1"]) * 2)
    assert (code, out) == (2, "")
    assert f"{name}" in err
    assert ": is given more than once; give it once" in err


def test_all_that_are_given_twice_are_told_at_once_and_what_may_be_repeated(headway) -> None:
    twice = ("--terms", "a.tsv", "--terms=b.tsv", "--beam", 2, "--no-mark", "--mark", "-o", "x", "--out", "y")
    code, _, err = headway("translate", "nowhere", "a.po", *twice, "--memory", "a.tmx", "--memory", "b.tmx")
    assert code == 2
    lines = err.removeprefix("headway: ").splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == ["-o/--out", "--mark/--no-mark", "--terms"]
    assert lines[-1] == "of this command's options, --tag, --memory may be repeated"


def test_what_may_be_repeated_is_not_refused(headway) -> None:
    for words in (("--memory", "a.tmx", "--memory", "b.tmx"), ("--tag", "2de", "--tag", "2de")):
        assert "more than once" not in headway("translate", "nowhere", "a.po", *words)[2]
    assert "more than once" not in headway("average", "a", "a", "-o", "b")[2]  # arguments are no options


SUFFIXES = """
    sdlxliff tbx mqxliff ts rst adoc tex xcstrings stringsdict ass rtf docx json yaml csv resx arb properties TS ts.gz
"""


@pytest.mark.parametrize("name", [f"a.{suffix}" for suffix in SUFFIXES.split()])
def test_a_file_of_a_kind_that_is_not_read_is_refused_by_its_name(headway, name: str) -> None:
    code, out, err = headway("translate", "nowhere", name)
    assert (code, out) == (2, "")
    assert err.startswith(f"headway: {name}: is of a kind that is not read, and lines of it would be translated")
    assert "Convert it to XLIFF or PO, or, if it is lines, give it as - (" in err


MARKUP = {
    "xml": b'<?xml version="1.0"?>\n<a>x</a>\n',
    "xml, with a mark and space before it": b"\xef\xbb\xbf \n<?xml version='1.0'?>",
    "html": b"<!doctype html>\n<p>x\n",
    "a document type": b"<!DOCTYPE TS>\n<TS>\n",
    "rtf": b"{\\rtf1\\ansi x}\n",
}


@pytest.mark.parametrize("data", MARKUP.values(), ids=MARKUP)
@pytest.mark.parametrize("name", ["words", "words.en.gz"])
def test_a_named_file_that_is_no_lines_is_refused_whatever_its_name(headway, tmp_path, name: str, data: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    code, out, err = headway("translate", "nowhere", file)
    assert (code, out) == (2, "")
    assert "lines of it would be translated as plain text. Convert it to XLIFF or PO" in err


@pytest.mark.parametrize("line", [b"A < B\n", b"<b>bold</b>\n", b"about <?xml\n", b"{x} \\rtf\n"])
def test_lines_that_only_hold_such_signs_are_lines(headway, tmp_path: Path, line: bytes) -> None:
    (tmp_path / "words").write_bytes(line)
    assert "plain text" not in headway("translate", "nowhere", tmp_path / "words")[2]


def test_standard_input_is_free(headway) -> None:
    assert "plain text" not in headway("translate", "nowhere", "-", stdin=MARKUP["xml"])[2]


@pytest.mark.parametrize(("given", "lacks"), [("--source", "--target"), ("--target", "--source")])
def test_one_side_of_a_pair_asks_for_the_other(headway, given: str, lacks: str) -> None:
    code, _, err = headway("train", given, "a.en")
    assert (code, err.startswith(f"headway: {lacks} is missing: ")) == (2, True)


def test_a_tokenizer_that_is_not_there_is_told_with_what_to_do(headway, tmp_path: Path) -> None:
    remedy = "there is no such file. Check the name, and the folder that it is relative to"
    for command in ("encode", "decode"):
        assert headway("tokenizer", command, "nowhere", "-")[::2] == (2, f"headway: nowhere: {remedy}\n")
    code, _, err = headway("tokenizer", "encode", tmp_path, "-")
    assert (code, "Name a model folder, or a tokenizer.json" in err) == (2, True)
    for name in ("source_tokenizer.json", "target_tokenizer.json"):
        (tmp_path / name).write_text("{}")
    assert "Name one of them: source_tokenizer.json, target_tok" in headway("tokenizer", "encode", tmp_path, "-")[2]


def test_show_reads_the_size_of_a_vocabulary_that_is_a_file(headway, tmp_path: Path) -> None:
    text, recipe = tmp_path / "a.en", tmp_path / "r.toml"
    text.write_text("a man and a dog\n" * 9)
    assert headway("tokenizer", "train", text, "-o", tmp_path / "t.json", "--vocab-size", 264)[0] == 0
    recipe.write_text(
        'model = "transformer-tiny"\ntokenizer = {kind = "file", path = "t.json"}\n'
        'data = {source = "$NOWHERE/a", target = "b"}\n[train]\nsteps = 100\nschedule = {peak = 1e-3, warmup = 10, '
        'kind = "inverse_sqrt"}\n'
    )
    given = headway("show", recipe, "--vocab-size", 264)
    assert given[0] == 0, given[2]
    assert headway("show", recipe) == given
    (tmp_path / "t.json").unlink()
    code, _, err = headway("show", recipe)
    assert code == 2
    assert "t.json" in err
    assert "--vocab-size" in err


def test_a_language_that_is_no_tag_is_refused_on_the_command_line(headway, toy, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text('msgid "A dog."\nmsgstr ""\n')
    languages = ("--source-language", "english", "--target-language", "deutsch")
    code, _, err = headway("translate", toy.run, tmp_path / "a.po", *languages)
    assert code == 2
    assert "source language 'english': needs a language tag" in err
    assert "target language 'deutsch': needs a language tag" in err
    assert "needs a language tag" in headway("compare", "a", "b", "--target-language", "german")[2]
