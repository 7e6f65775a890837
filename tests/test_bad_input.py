"""Bad input, from the command line: each fault says what, where and what to do; exit code 2, and no traceback.

What is odd yet fine (CRLF, a byte order mark, NUL, duplicates, few lines) is read, and goes through to the end.
Below, files of every kind as documents, corpora and memories: the same fault is the same refusal, whoever reads.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import Toy
from headway import api
from headway.config import CorpusConfig
from headway.data.memory import Memory
from headway.data.readers import find_parts, mapped
from headway.data.tally import Tally
from headway.formats.kinds import read_document
from headway.text.codes import plain


@pytest.fixture
def refused(headway):
    """A command line that must be refused: returns what it says."""

    def call(*words: object, stdin: bytes = b"") -> str:
        code, out, err = headway(*words, stdin=stdin)
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        assert err.count("headway: ") == 1
        return err

    return call


@pytest.fixture
def model(toy: Toy, tmp_path: Path) -> Path:
    """A copy of a model folder, to be damaged."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(toy.run / name, folder)
    return folder


def train(source: Path, target: Path, out: Path) -> list[object]:
    return ["train", "--source", source, "--target", target, "--out", out]


FILES = {
    "missing": (None, "there is no such file"),
    "empty": (b"", "is empty"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "not UTF-8"),
    "utf16": ("Ein Hund.\n".encode("utf-16"), "UTF-16"),
    "latin1": (b"one\ntwo\nM\xe4nner\n", "line 3, byte 1 of the line, byte 9 of the file"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_text_is_named_with_the_place_and_the_remedy(
    refused, toy: Toy, tmp_path: Path, kind: str
) -> None:
    content, told = FILES[kind]
    bad = tmp_path / "bad.de"
    if content is not None:
        bad.write_bytes(content)
    for command in (
        train(toy.data / "train.en", bad, tmp_path / "run"),
        ["translate", toy.run, bad],
        ["evaluate", toy.run, "--source", toy.data / "test.en", "--reference", bad],
        ["score", toy.run, "--source", toy.data / "test.en", "--target", bad],
        ["tokenizer", "train", bad, "-o", tmp_path / "tokenizer.json"],
    ):
        err = refused(*command)
        assert str(bad) in err
        assert told in err
    assert not (tmp_path / "run").exists()


def test_a_folder_for_a_file_and_an_unreadable_file_are_named(refused, toy: Toy, tmp_path: Path) -> None:
    assert "is a folder" in refused("translate", toy.run, tmp_path)
    if os.geteuid():  # root may read everything
        (tmp_path / "closed.en").write_bytes(b"a\n")
        (tmp_path / "closed.en").chmod(0)
        assert "may not be read" in refused("translate", toy.run, tmp_path / "closed.en")


def test_a_bad_byte_on_standard_input_is_placed(refused, toy: Toy) -> None:
    err = refused("translate", toy.run, stdin=b"good\nbad\xff\n")
    assert "standard input: line 2, byte 3 of the line" in err


def test_unequal_files_are_told_with_both_counts(refused, toy: Toy, tmp_path: Path) -> None:
    err = refused(*train(toy.data / "train.en", toy.data / "test.de", tmp_path / "run"))
    assert "has 300 lines" in err
    assert "has 7" in err


def test_odd_lines_and_few_lines_train_and_translate(headway, toy: Toy, tmp_path: Path) -> None:
    source = b"\xef\xbb\xbfA dog.\r\nA dog.\r\nnul \x00 here\r\na\xe2\x80\xa8b\r\n\r\nTwo cats.\r\n"
    (tmp_path / "a.en").write_bytes(source)
    (tmp_path / "a.de").write_bytes(b"Ein Hund.\nEin Hund.\nNull \x00\na b\nnichts\nZwei Katzen.\n")
    code, _, err = headway(*train(tmp_path / "a.en", tmp_path / "a.de", tmp_path / "run"), *toy.options())
    assert code == 0, err
    assert "left out 1 of 5 pairs that have an empty side: lines 5" in err
    code, out, _ = headway("translate", tmp_path / "run", tmp_path / "a.en", "--beam", 1)
    assert (code, out.count("\n")) == (0, 6)
    assert out.split("\n")[4] == ""
    assert out.split("\n")[0] == out.split("\n")[1]


def test_every_fault_of_a_recipe_is_told_at_once_with_the_nearest_name(refused, toy: Toy, tmp_path: Path) -> None:
    err = refused(
        *train(toy.data / "train.en", toy.data / "train.de", tmp_path / "run"),
        *("--set", "train.stepz=3", "--set", "train.seed=x", "--set", "model.decoder.layer.mixer=atention"),
    )
    assert "train.stepz = 3: no such key" in err
    assert 'did you mean "steps"' in err
    assert 'train.seed = "x": needs a whole number' in err
    assert 'did you mean "attention"' in err


def test_a_contradiction_is_told_with_both_sides(refused, toy: Toy, tmp_path: Path) -> None:
    files = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "run")
    assert "num_heads = 4" in refused(*files, "--set", "model.dim=30")
    assert "warmup" in refused(*files, "--set", "train.schedule.warmup=9999999")
    assert not (tmp_path / "run").exists()


def test_what_is_not_a_recipe_or_a_setting_is_told(refused, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[train\n", encoding="utf-8")
    assert "not TOML" in refused("train", tmp_path / "bad.toml", "--out", tmp_path / "run")
    assert 'did you mean "multi30k-en-de-tiny"' in refused("train", "multi30k-en-de-tin", "--out", tmp_path / "run")
    assert "--set steps: write it as path=value" in refused("train", "demo", "--set", "steps")
    assert "nothing to train on" in refused("train")
    assert "either a recipe or" in refused("train", "demo", "--source", "a", "--target", "b")
    assert 'did you mean "transformer-base"' in refused("show", "transformer-bas")


def test_an_unset_variable_in_a_path_is_named(refused, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    assert "HEADWAY_DATA is not set" in refused("train", "multi30k-en-de-tiny", "--out", tmp_path / "run")


def test_a_vocabulary_larger_than_the_data_gives_is_told_with_what_it_gives(
    refused, headway, toy: Toy, tmp_path: Path
) -> None:
    files = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "run")
    err = refused(*files, *toy.options(), "--set", "tokenizer.vocab_size=30000")
    assert "tokenizer.vocab_size = 30000" in err
    largest = err.split("give ")[1].split()[0]
    assert headway(*files, *toy.options(), "--set", f"tokenizer.vocab_size={largest}")[0] == 0


def test_a_pair_larger_than_a_batch_is_named(refused, toy: Toy, tmp_path: Path) -> None:
    files = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "run")
    err = refused(*files, "--set", "train.batch_tokens=8")
    assert "train.batch_tokens = 8: the pair of line" in err
    assert not (tmp_path / "run").exists()


def test_a_model_with_a_missing_an_extra_and_a_misshaped_tensor_is_told_at_once(refused, model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    names = sorted(tensors)
    del tensors[names[0]]
    tensors[names[1]] = torch.zeros(3, 5)
    tensors["decoder.nonsense"] = torch.zeros(2)
    save_file(tensors, model / "model.safetensors")
    err = refused("translate", model, stdin=b"a\n")
    assert f"missing: {names[0]}" in err
    assert f"wrong shape: {names[1]} is (3, 5)" in err
    assert "unexpected: decoder.nonsense" in err


def test_truncated_weights_are_told(refused, model: Path) -> None:
    whole = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "truncated" in refused("translate", model, stdin=b"a\n")


def test_another_format_version_is_told(refused, model: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "format": 99}), encoding="utf-8")
    err = refused("translate", model, stdin=b"a\n")
    assert "format = 99" in err
    assert "reads format 1" in err


def test_a_folder_that_is_no_model_and_missing_parts_of_one_are_told(refused, model: Path, tmp_path: Path) -> None:
    assert "is no model folder" in refused("translate", tmp_path, stdin=b"a\n")
    assert "is no model folder" in refused("translate", tmp_path / "nowhere", stdin=b"a\n")
    (model / "tokenizer.json").unlink()
    assert "tokenizer.json is missing" in refused("translate", model, stdin=b"a\n")


def test_a_model_folder_with_odd_languages_or_unknown_keys_is_told_at_once(refused, model: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config |= {"languages": {"target": 5, "sauce": "en"}, "extra": 1, "search": {"beam": 0}}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    err = refused("translate", model, stdin=b"a\n")
    for told in ("languages.target = 5", "languages.sauce", "extra = 1: no such key", "search.beam = 0"):
        assert told in err


def test_only_weights_of_one_model_are_averaged(refused, headway, toy: Toy, model: Path, tmp_path: Path) -> None:
    vocabulary = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary["model"]["merges"].reverse()
    (model / "tokenizer.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    assert "of another model or tokenizer" in refused("average", toy.run, model, "-o", tmp_path / "mean")
    shutil.copy(toy.run / "tokenizer.json", model)
    assert headway("average", toy.run, model, "-o", tmp_path / "mean", "--last", 1)[0] == 0
    with pytest.raises(ValueError, match="last = 0"):
        api.average([toy.run], tmp_path / "none", last=0)
    err = refused("average", toy.run, "-o", tmp_path / "other", "--last", 99)
    assert "last = 99" in err
    assert "holds 2 checkpoints" in err


def test_a_line_too_long_to_score_is_named(refused, toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "long.en").write_text("short\n" + "x " * 40_000 + "\n", encoding="utf-8")
    err = refused("score", toy.run, "--source", tmp_path / "long.en", "--target", tmp_path / "long.en")
    assert "pair 2 has a side of" in err


def test_options_out_of_bounds_are_told(refused, headway, toy: Toy) -> None:
    assert "penalty.alpha = 1e+308: needs to be 10 or less" in refused(
        "translate", toy.run, "--length-penalty", "1e308", stdin=b"a\n"
    )
    assert headway("translate", toy.run, "--threads", "100000")[0] == 2
    assert "has a vocabulary of its own" in refused("show", toy.run, "--vocab-size", 5000)


def test_the_input_is_not_overwritten(refused, toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("A dog.\n", encoding="utf-8")
    (tmp_path / "link.de").symlink_to(tmp_path / "a.en")
    for out in ("a.en", "link.de"):
        assert "is the input as well" in refused("translate", toy.run, tmp_path / "a.en", "-o", tmp_path / out)
    assert (tmp_path / "a.en").read_text(encoding="utf-8") == "A dog.\n"


def test_a_closed_standard_input_or_output_is_told(toy: Toy) -> None:
    for closed, told in (("<&-", "standard input is closed"), (">&-", "standard output is closed")):
        command = f"echo A | {sys.executable} -m headway translate {toy.run} {closed}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert told in done.stderr


def test_an_output_that_is_a_pipe_is_written_as_it_is(toy: Toy) -> None:
    command = f"echo A | {sys.executable} -m headway translate -q {toy.run} -o /dev/stdout | cat"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr


def test_an_output_that_cannot_be_written_is_found_before_the_work(refused, toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    inside = tmp_path / "file" / "out"
    assert "cannot be written" in refused("translate", "no-model-is-looked-for", "-o", inside)
    assert "cannot be written" in refused(*train(toy.data / "train.en", toy.data / "train.de", inside))
    assert "cannot be written" in refused("average", toy.run, "-o", inside)
    assert "cannot be written" in refused("tokenizer", "train", toy.data / "train.en", "-o", inside)
    assert "cannot be written" in refused("init", inside)


def test_a_failed_translation_leaves_the_old_output_alone(refused, toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "out.de"
    out.write_text("old\n", encoding="utf-8")
    refused("translate", toy.run, "-o", out, stdin=b"good\n\xff\n")
    assert out.read_text(encoding="utf-8") == "old\n"
    assert list(tmp_path.iterdir()) == [out]


def test_a_run_that_is_already_there_needs_resume_or_force(refused, headway, toy: Toy, tmp_path: Path) -> None:
    files = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "run")
    assert "there is no run here to resume" in refused(*files, "--resume")
    assert headway(*files, *toy.options())[0] == 0
    err = refused(*files, *toy.options())
    assert "--resume" in err
    assert "--force" in err
    assert headway(*files, *toy.options(), "--resume")[0] == 0
    assert headway(*files, *toy.options(), "--force")[0] == 0


def test_options_that_a_resumed_run_cannot_honour_are_refused(refused, headway, toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    files = train(toy.data / "train.en", toy.data / "train.de", run)
    assert headway(*files, *toy.options())[0] == 0
    edited = f'tokenizer={{kind="bpe", vocab_size={300}}}'
    assert "300 now" in refused(*files, *toy.options(), "--set", edited, "--resume")
    assert "take one of the two" in refused(*files, *toy.options(), "--resume", "--force")
    assert "init: None then" in refused("train", "--resume", "--out", run, "--init", toy.run)
    assert "--target is missing" in refused("train", "--resume", "--out", run, "--source", toy.data / "train.en")
    err = refused(*files, *toy.options(), "--set", "tokenizer.vocab_size=300", "--resume")
    assert "tokenizer.vocab_size: " in err
    assert "300 now" in err
    err = refused(*files, *toy.options(), "--set", "model.dim=8", "--resume")
    assert "model.dim: 16 then, 8 now" in err
    assert "name another --out" in err


def test_a_run_whose_recipe_was_edited_is_not_resumed(refused, headway, toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert headway(*train(toy.data / "train.en", toy.data / "train.de", run), *toy.options())[0] == 0
    recipe = (run / "recipe.toml").read_text(encoding="utf-8")
    (run / "recipe.toml").write_text(recipe.replace("max_extra = 3", "max_extra = 4"), encoding="utf-8")
    assert "recipe.search.max_extra: 3 then, 4 now" in refused("train", "--resume", "--out", run)


def test_damaged_files_of_a_run_are_named(refused, headway, toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert headway(*train(toy.data / "train.en", toy.data / "train.de", run), *toy.options())[0] == 0
    (run / "estimate.json").write_text("{}", encoding="utf-8")
    code, _, err = headway("train", "--resume", "--out", run)
    assert (code, "estimate.json: is damaged; measuring again" in err) == (0, True)
    newest = max((run / "checkpoints").glob("step-*")) / "optimizer.safetensors"
    tensors = load_file(newest)
    lost = sorted(tensors)[0].rpartition(".")[0]
    save_file({name: value for name, value in tensors.items() if not name.startswith(f"{lost}.")}, newest)
    assert f"{lost}.exp_avg is missing" in refused("train", "--resume", "--out", run)
    (run / "run.json").write_text("{", encoding="utf-8")
    err = refused("train", "--resume", "--out", run)
    assert "run.json: is damaged" in err
    assert "--force" in err


def test_force_destroys_nothing_before_the_new_run_is_known_to_be_possible(
    refused, headway, toy: Toy, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    files = train(toy.data / "train.en", toy.data / "train.de", run)
    assert headway(*files, *toy.options())[0] == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "does not fit" in refused(*files, *toy.options(), "--set", "model.dim=8", "--force", "--init", toy.run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    fresh = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "fresh")
    assert "does not fit" in refused(*fresh, *toy.options(), "--set", "model.dim=8", "--init", toy.run)
    (tmp_path / "empty").write_text("\n\n", encoding="utf-8")
    sides = ("--set", f"data.valid_source={tmp_path}/empty", "--set", f"data.valid_target={tmp_path}/empty")
    assert "empty: no pair is left to validate on" in refused(*fresh, *toy.options(), *sides)
    assert not (tmp_path / "fresh").exists()


def test_force_never_touches_a_folder_that_holds_no_run(refused, headway, toy: Toy, tmp_path: Path) -> None:
    assert headway("init", tmp_path / "mine")[0] == 0
    written = (tmp_path / "mine" / "recipe.toml").read_bytes()
    files = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "mine")
    for words in ([], ["--force"]):
        assert "holds other files, and no run" in refused(*files, *toy.options(), *words)
    assert (tmp_path / "mine" / "recipe.toml").read_bytes() == written


def test_a_full_disk_ends_the_work_and_leaves_the_old_checkpoint_whole(
    headway, toy: Toy, tmp_path: Path, monkeypatch
) -> None:
    files = train(toy.data / "train.en", toy.data / "train.de", tmp_path / "run")
    from headway.train import state

    written = []

    def fill(path: Path, tensors: dict) -> None:
        written.append(path)
        if len(written) > 3:  # weights and optimiser of step 0, weights of step 1
            raise OSError(28, "No space left on device")
        save(path, tensors)

    save = state.write_tensors
    monkeypatch.setattr(state, "write_tensors", fill)
    code, _, err = headway(*files, *toy.options())
    assert code == 1
    assert "No space left on device" in err
    assert "the checkpoints before it are intact" in err
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000000"]
    monkeypatch.setattr(state, "write_tensors", save)
    assert headway(*files, *toy.options(), "--resume")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["translate"],
        ["translate", "model", "--beam", "0"],
        ["translate", "model", "--beam", "many"],
        ["translate", "model", "--stop", "never"],
        ["translate", "model", "--device", "abacus"],
        ["evaluate", "model"],
        ["show", "transformer-tiny", "--vocab-size", "-3"],
        ["nonsense"],
        ["translate", "model", "--nonsense"],
    ],
)
def test_a_call_that_is_wrong_is_told_its_usage(headway, words: list[str]) -> None:
    code, out, err = headway(*words)
    assert (code, out) == (2, "")
    assert "Usage: headway" in err
    assert "Error: " in err


def test_more_results_than_the_beam_holds_are_refused(refused, toy: Toy) -> None:
    assert "n_best = 5" in refused("translate", toy.run, "--nbest", 5, "--beam", 2, "--quiet", stdin=b"a\n")


def test_numbers_that_are_no_pieces_are_placed(refused, toy: Toy) -> None:
    assert "line 1: 'x' is not a list of numbers" in refused("tokenizer", "decode", toy.run, stdin=b"x\n")
    assert "line 1: 99999 is no piece" in refused("tokenizer", "decode", toy.run, stdin=b"99999\n")


# ---- files of every kind ----


def po(entries: str, *fields: str) -> str:
    head = "".join(f'"{field}\\n"\n' for field in fields)
    return f'msgid ""\nmsgstr ""\n{head}\n{entries}'


def tmx(units: str, head: str = "") -> str:
    return f'{head}<tmx version="1.4"><header srclang="en"/><body>\n{units}</body></tmx>\n'


def xliff(units: str, head: str = "") -> str:
    languages = 'source-language="en" target-language="de"'
    return f'{head}<xliff version="1.2"><file original="a" {languages}><body>\n{units}</body></file></xliff>\n'


def tu(**texts: str) -> str:
    sides = (f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in texts.items())
    return f"<tu>{''.join(sides)}</tu>\n"


def unit(number: int, source: str, target: str) -> str:
    return f'<trans-unit id="{number}"><source>{source}</source><target>{target}</target></trans-unit>\n'


BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n'
OUTSIDE = '<!DOCTYPE x [\n<!ENTITY a SYSTEM "file:///etc/passwd">]>\n'
PLURAL = 'msgid "a"\nmsgid_plural "as"\nmsgstr[0] "x"\n\nmsgid "b"\nmsgid_plural "bs"\nmsgstr[0] "x"\nmsgstr[1] "y"\n'
UMLAUTS = 'msgid "a"\nmsgstr "ä"\n\nmsgid "b"\nmsgstr "ü"\n'
UTF8, LATIN1 = "Content-Type: text/plain; charset=UTF-8", "Content-Type: text/plain; charset=ISO-8859-1"
THREE = "Plural-Forms: nplurals=3; plural=n>2;"
CUES = "1\n00:00:01,000 --> 00:00:02,000\nä\n\n2\n00:00:03,000 --> 00:00:04,000\nü\n"

FAULTY: dict[str, tuple[str, str | bytes, list[str]]] = {
    "entity bomb, tmx": ("a.tmx", tmx(tu(en="&b;", de="x"), BOMB), ["line 1, column 25: declares the entity 'a'"]),
    "entity bomb, xliff": ("a.xlf", xliff(unit(1, "&b;", "x"), BOMB), ["line 1, column 25: declares the entity 'a'"]),
    "outside entity, tmx": ("a.tmx", tmx(tu(en="&a;", de="x"), OUTSIDE), ["line 2, column 39: declares the"]),
    "outside entity, xliff": ("a.xlf", xliff(unit(1, "&a;", "x"), OUTSIDE), ["line 2, column 39: declares the"]),
    "broken, tmx": ("a.tmx", tmx(tu(en="a & b", de="x")), ["line 2, column 32: is no well-formed XML"]),
    "cut, xliff": (
        "a.xlf",
        xliff(unit(1, "a", "b"))[: -len("</body></file></xliff>\n")],
        ["line 3, column 1: is no well-formed XML"],
    ),
    "crossing, tmx": ("a.tmx", tmx(tu(en="<hi>a <ph>b</hi> c</ph>", de="x")), ["mismatched tag. Tags must nest"]),
    "crossing, xliff": ("a.xlf", xliff(unit(1, "a <g>b", "x")), ["mismatched tag. Tags must nest"]),
    "same ids, xliff": (
        "a.xlf",
        xliff(unit(1, "a", "b") + unit(1, "c", "d") + unit(2, "e", "f") + unit(1, "g", "h")),
        ["line 3, unit 1: line 2 has the same id", "line 5, unit 1: line 2 has the same id"],
    ),
    "same ids, po": (
        "a.po",
        po(UMLAUTS + UMLAUTS.replace('"b"', '"c"'), UTF8),
        ["line 10: the same msgid and msgctxt"],
    ),
    "plural forms, po": (
        "a.po",
        po(PLURAL, UTF8, THREE),
        ["line 7: the entry has msgstr[0], and must", "line 11: the"],
    ),
    "other bytes than declared, po": (
        "a.po",
        po(UMLAUTS, UTF8).encode("latin-1"),
        [
            "line 6, byte 9 of the line: 0xE4 is not UTF-8, which the header declares",
            "line 9, byte 9 of the line: 0xFC",
        ],
    ),
    "no charset, po": (
        "a.po",
        po(UMLAUTS, "Language: de").encode("latin-1"),
        ["line 6, byte 9 of the line: 0xE4 is not UTF-8, and the header declares no charset", "line 9, byte 9"],
    ),
    "UTF-16, po": ("a.po", po(UMLAUTS).encode("utf-16"), ["is UTF-16, or no text. Convert the file to UTF-8"]),
    "other bytes than declared, tmx": (
        "a.tmx",
        tmx(tu(en="a", de="ä")).encode("latin-1"),
        ["bytes of another encoding"],
    ),
    "declared UTF-16, xliff": (
        "a.xlf",
        xliff(unit(1, "a", "b"), "<?xml version='1.0' encoding='UTF-16'?>\n"),
        ["line 1, column 31: is no well-formed XML", "Declare the encoding that the file has"],
    ),
    "no texts in the source language, tmx": (
        "a.tmx",
        tmx(tu(de="x")),
        ["holds no text in 'en'. Name one of its", "de"],
    ),
    "other bytes, srt": (
        "a.srt",
        CUES.encode("latin-1"),
        ["line 3, byte 1 of the line: 0xE4 is not UTF-8", "line 7, byte"],
    ),
    "UTF-16, vtt": ("a.vtt", f"WEBVTT\n\n{CUES}".encode("utf-16"), ["is UTF-16. Convert it to UTF-8"]),
    "packed, xliff": ("a.xlf", gzip.compress(xliff("").encode()), ["is compressed by gzip"]),
    "packed twice, po": ("a.po.gz", gzip.compress(gzip.compress(b"")), ["is compressed by gzip"]),
    "an archive, tmx": ("a.tmx", b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0" + b"\xff" * 99, ["is a zip archive"]),
    "an image, html": ("a.html", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ["is an image"]),
}


def as_document(path: Path) -> list[tuple[str, str | None]]:
    with mapped(path) as data:
        found = list(read_document(data, path.name, "en", "de").segments())
    return [(plain(one.source), None if one.target is None else plain(one.target)) for one in found]


def as_corpus(path: Path) -> list[tuple[str, str]]:
    sides = {"source": str(path), "target": str(path)} if path.suffix in {".srt", ".vtt"} else {"path": str(path)}
    parts = find_parts([CorpusConfig(**sides, source_language="en", target_language="de")])
    return [(plain(pair.source), plain(pair.target)) for part in parts for pair in part.read(Tally())]


def as_memory(path: Path) -> Memory:
    return Memory.load(path, "en", "de")


USES = {
    as_document: (".po", ".tmx", ".xlf", ".srt", ".vtt", ".html"),
    as_corpus: (".po", ".tmx", ".xlf", ".srt", ".vtt"),
    as_memory: (".po", ".tmx", ".xlf"),
}


READ = [(fault, use) for fault, (name, *_) in FAULTY.items() for use in USES if name.endswith((*USES[use], ".gz"))]


@pytest.mark.parametrize(("fault", "use"), READ)
def test_a_faulty_file_is_refused_by_all_who_read_it_in_the_same_words(tmp_path: Path, fault: str, use) -> None:
    name, content, told = FAULTY[fault]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"a\.") as error:
        use(path)
    lines = str(error.value).split("\n")
    assert all(line.startswith((f"{path}: ", f"{name}: ")) for line in lines)
    assert [words for words in told if not any(words in line for line in lines)] == []
    assert len(lines) <= len(told)


RTL = "שלום (עולם) \u202bא\u202c कि\u200dं e\u0301 \u0610 سلام"
CROSSING = '<bx id="1"/>a <bx id="2"/>b<ex id="1"/> c<ex id="2"/>'
SIDES = tu(en="only") + tu(de="nur") + tu(en="", de="leer") + tu(en="empty", de="") + tu(en="a", de="b")
FINE: dict[str, tuple[str, str | bytes, list[tuple[str, str | None]]]] = {
    "one side missing, tmx": ("a.tmx", tmx(SIDES), [("only", None), ("empty", None), ("a", "b")]),
    "the same tuid, tmx": ("a.tmx", tmx(2 * tu(en="a", de="b").replace("<tu>", '<tu tuid="1">')), [("a", "b")] * 2),
    "the same id in another file": (
        "a.xlf",
        xliff(unit(1, "a", "b") + "</body></file><file><body>" + unit(1, "c", "d")),
        [("a", "b"), ("c", "d")],
    ),
    "codes that cross, xliff": ("a.xlf", xliff(unit(1, CROSSING, "b")), [(CROSSING, "b")]),
    "no header, po": ("a.po", UMLAUTS, [("a", "ä"), ("b", "ü")]),
    "no charset, po": ("a.po", po(UMLAUTS, "Language: de"), [("a", "ä"), ("b", "ü")]),
    "another charset, po": ("a.po", po(UMLAUTS, LATIN1).encode("latin-1"), [("a", "ä"), ("b", "ü")]),
    "right to left, po": ("a.po", po(f'msgid "{RTL}"\nmsgstr "{RTL}"\n', UTF8), [(RTL, RTL)]),
    "right to left, tmx": ("a.tmx", tmx(tu(en=RTL, de=RTL)), [(RTL, RTL)]),
    "right to left, xliff": ("a.xlf", xliff(unit(1, RTL, RTL)), [(RTL, RTL)]),
    "right to left, srt": ("a.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{RTL}\n", [(RTL, RTL)]),
    "right to left, vtt": ("a.vtt", f"WEBVTT\n\n00:01.000 --> 00:02.000\n{RTL}\n", [(RTL, RTL)]),
}


@pytest.mark.parametrize("kind", FINE)
def test_an_odd_file_is_read_alike_by_all(tmp_path: Path, kind: str) -> None:
    name, content, texts = FINE[kind]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    finished = [pair for pair in texts if pair[1] is not None]
    assert as_corpus(path) == finished
    document = as_document(path)
    if path.suffix not in USES[as_memory]:
        assert document == [(source, None) for source, _ in texts]
        return
    assert document == texts
    memory = as_memory(path)
    assert len(memory) == len(set(finished))
    assert [plain(memory.lookup((source,))[0].target) for source, _ in finished if "<" not in source] == [
        target for source, target in finished if "<" not in source
    ]
