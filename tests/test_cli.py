"""The command line: which commands there are, what they print where, and how they end."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from conftest import Toy
from headway import __version__ as headway_version
from headway import cli
from headway.training import this_command

COMMANDS = [
    "average",
    "compare",
    "data",
    "demo",
    "embed",
    "evaluate",
    "explain",
    "generate",
    "init",
    "label",
    "report",
    "score",
    "show",
    "tokenizer",
    "train",
    "translate",
]


def test_the_commands_are_these_and_no_others() -> None:
    group = get_command(cli.app)
    assert sorted(group.commands) == COMMANDS
    assert sorted(group.commands["tokenizer"].commands) == ["decode", "encode", "import", "train"]
    assert sorted(group.commands["data"].commands) == ["report"]


def test_no_help_imports_torch_or_pydantic() -> None:
    script = """
import sys
from typer.main import get_command
from headway import cli

def helps(words, command):
    for name, inner in getattr(command, "commands", {}).items():
        helps([*words, name], inner)
    try:
        cli.app([*words, "--help"])
    except SystemExit as ended:
        assert not ended.code, words

helps([], get_command(cli.app))
heavy = {"torch", "pydantic", "numpy", "tokenizers"} & {name.split(".")[0] for name in sys.modules}
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") == 1 + len(COMMANDS) + 4 + 1


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import headway, sys; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_three_lines_in_are_three_lines_out_and_the_empty_one_is_empty(headway, toy: Toy) -> None:
    code, out, err = headway("translate", toy.run, "-", "--beam", 2, stdin=b"A dog runs.\n\nTwo men.\n")
    assert code == 0
    lines = out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    assert lines[3] == ""
    assert "device cpu" in err


def test_a_last_line_without_its_end_counts_and_no_line_gives_none(headway, toy: Toy) -> None:
    assert headway("translate", toy.run, stdin=b"A dog runs.\nTwo men.")[1].count("\n") == 2
    assert headway("translate", toy.run, stdin=b"")[:2] == (0, "")


def test_no_line_in_is_no_line_out_and_a_report_of_none(headway, toy: Toy, tmp_path: Path) -> None:
    assert headway("translate", toy.run, "--report", tmp_path / "r.json", stdin=b"")[:2] == (0, "")
    (counts,) = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["sections"][:1]
    assert counts["rows"][0] == ["segments", 0]
    code, _, err = headway("translate", toy.run, "--terms", tmp_path / "nosuch.tsv", stdin=b"")
    assert (code, "nosuch.tsv" in err) == (2, True)


def test_files_in_and_out_packed_or_not_give_what_the_pipe_gives(headway, toy: Toy, tmp_path: Path) -> None:
    text = b"The cat sleeps.\r\n \nOne man sees the house.\n"
    piped = headway("translate", toy.run, stdin=text)[1]
    (tmp_path / "in.en.gz").write_bytes(gzip.compress(text))
    code, out, _ = headway("translate", toy.run, tmp_path / "in.en.gz", "-o", tmp_path / "out.de")
    assert (code, out) == (0, "")
    assert (tmp_path / "out.de").read_text(encoding="utf-8") == piped
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.en.gz", "out.de"]


def test_quiet_leaves_only_warnings(headway, toy: Toy) -> None:
    err = headway("translate", toy.run, "--quiet", stdin=b"A dog runs.\n")[2]
    assert "device" not in err


def test_nbest_prints_line_number_score_and_text_best_first(headway, toy: Toy) -> None:
    code, out, _ = headway("translate", toy.run, "--nbest", 2, stdin=b"A dog runs.\nTwo men.\n")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]


def test_json_gives_each_line_with_scores_and_what_hit_the_limit(headway, toy: Toy) -> None:
    code, out, err = headway("translate", toy.run, "--json", "--nbest", 2, stdin=b"A dog runs.\n\n")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["line"] for row in rows] == [1, 2]
    assert [len(row["translations"]) for row in rows] == [2, 2]
    first = rows[0]["translations"][0]
    assert first.keys() == {"text", "score", "finished"}
    assert ("stopped at the length limit and may lack their end: lines 1" in err) == (not first["finished"])
    assert rows[1]["translations"][0] == {"text": "", "score": 0, "finished": True}


def test_an_output_named_gz_is_packed_and_a_link_stays_a_link(headway, toy: Toy, tmp_path: Path) -> None:
    text = b"The cat sleeps.\n\n"
    piped = headway("translate", toy.run, stdin=text)[1]
    assert headway("translate", toy.run, "-o", tmp_path / "out.de.gz", stdin=text)[0] == 0
    assert gzip.decompress((tmp_path / "out.de.gz").read_bytes()).decode() == piped
    (tmp_path / "link.de").symlink_to(tmp_path / "real.de")
    assert headway("translate", toy.run, "-o", tmp_path / "link.de", stdin=text)[0] == 0
    assert (tmp_path / "link.de").is_symlink()
    assert (tmp_path / "real.de").read_text(encoding="utf-8") == piped


def test_the_version_is_told(headway) -> None:
    assert headway("--version")[:2] == (0, f"headway {headway_version}\n")


def test_evaluate_prints_every_score_with_its_signature(headway, toy: Toy) -> None:
    files = ("--source", toy.data / "test.en", "--reference", toy.data / "test.de")
    code, out, _ = headway("evaluate", toy.run, *files)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["BLEU", "chrF", "TER", "length", "exact"]
    assert "tok:13a" in out
    scores = json.loads(headway("evaluate", toy.run, *files, "--json")[1])
    assert scores["num_lines"] == 7
    assert {"bleu", "bleu_signature", "chrf", "ter", "length_ratio"} < scores.keys()


def test_score_gives_one_number_a_line_and_each_token_in_json(headway, toy: Toy) -> None:
    files = ("--source", toy.data / "test.en", "--target", toy.data / "test.de")
    plain = headway("score", toy.run, *files)[1].splitlines()
    rows = [json.loads(line) for line in headway("score", toy.run, *files, "--json")[1].splitlines()]
    assert len(plain) == len(rows) == 7
    for number, row in zip(plain, rows, strict=True):
        assert float(number) == pytest.approx(sum(row["token_logprobs"]), abs=1e-5)
        assert len(row["tokens"]) == len(row["token_logprobs"])
        assert row["tokens"][-1] == "</s>"


@pytest.mark.parametrize(
    ("name", "parameters"), [("transformer-base", "63,082,496"), ("transformer-tiny", "6,061,056")]
)
def test_show_counts_the_parameters_of_a_preset(headway, name: str, parameters: str) -> None:
    code, out, _ = headway("show", name)
    assert code == 0
    assert out.splitlines()[0].split() == ["parameters", parameters]


def test_show_counts_the_arithmetic_of_the_paper(headway) -> None:
    """Two for each multiplication: projections and FFN for each token, and 2 S D for each attention of width S."""
    dim, ffn, length, layers, vocab = 128, 256, 32, 4, 1_000
    encoder = 2 * (4 * dim * dim + 2 * dim * ffn) + 4 * length * dim
    decoder = 2 * (8 * dim * dim + 2 * dim * ffn) + 8 * length * dim
    shown = json.loads(headway("show", "transformer-tiny", "--vocab-size", vocab, "--json")[1])
    assert shown["flops_per_target_token"] == layers * (encoder + decoder) + 2 * dim * vocab


def test_show_reads_a_model_without_its_weights_and_a_recipe(headway, toy: Toy, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((toy.run / name).read_bytes())
    shown = json.loads(headway("show", tmp_path, "--json")[1])
    assert shown["model"]["dim"] == 16
    assert shown["parameters"] == sum(shown["parameters_by_part"].values())
    *rows, note = headway("show", tmp_path)[1].splitlines()
    of_recipe = headway("show", toy.run / "recipe.toml")[1].splitlines()
    assert of_recipe[: len(rows)] == rows
    assert of_recipe[-1] == note
    assert "32 tokens a side" in note


def test_init_writes_a_recipe_that_loads(headway, tmp_path: Path) -> None:
    assert headway("init", tmp_path / "new")[0] == 0
    assert headway("show", tmp_path / "new" / "recipe.toml")[0] == 0


def test_average_of_one_checkpoint_is_that_checkpoint(headway, toy: Toy, tmp_path: Path) -> None:
    from headway.checkpoint import read_tensors

    code, _, err = headway("average", toy.run, "-o", tmp_path / "mean", "--last", 1)
    assert (code, "averaged 1 " in err) == (0, True)
    last = read_tensors(max((toy.run / "checkpoints").glob("step-*")) / "model.safetensors")
    mean = read_tensors(tmp_path / "mean" / "model.safetensors")
    assert all(mean[name].equal(last[name]) for name in last)
    assert headway("translate", tmp_path / "mean", stdin=b"A dog.\n")[1].count("\n") == 1


def test_tokenizer_trains_encodes_and_decodes_back(headway, toy: Toy, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    assert headway("tokenizer", "train", toy.data / "train.en", "-o", path, "--vocab-size", 290)[0] == 0
    text = "A dog  runs.\n\n日本 \U0001f600\n"
    numbers = headway("tokenizer", "encode", path, stdin=text.encode())[1]
    assert numbers.count("\n") == 3
    assert headway("tokenizer", "decode", path, stdin=numbers.encode())[1] == text


def test_how_well_a_vocabulary_fits_is_counted_in_pieces_of_the_text() -> None:
    from headway.config import BPEConfig
    from headway.text.tokenizer import Tokenizer

    class Bytewise:
        """A piece for each byte, and a note of how many texts came at once."""

        def __init__(self) -> None:
            self.inner, self.most = Tokenizer.train(["a"], BPEConfig(vocab_size=260)), 0

        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            self.most = max(self.most, len(texts))
            return self.inner.encode_batch(texts)

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

    asked = Bytewise()
    told = cli.vocabulary_text(asked, ["ab c"] * 10_001 + ["ä", "", "d e"] * 4_000).splitlines()
    tokens, words, characters = 4 * 10_001 + 5 * 4_000, 2 * 10_001 + 3 * 4_000, 4 * 10_001 + 4 * 4_000
    assert [line.split()[-1] for line in told[:2]] == [f"{characters / tokens:.2f}", f"{tokens / words:.2f}"]
    assert told[2].endswith(f"0.00 % of {tokens:,} tokens")
    assert told[3].endswith("8 of 256"), "a, b, c, d, e, the space, and the two bytes of ä"
    assert asked.most == 10_000


def test_a_failed_tokenizer_training_leaves_the_old_file_and_a_neighbour_is_never_touched(
    headway, toy: Toy, tmp_path: Path
) -> None:
    path, neighbour = tmp_path / "tokenizer.json", tmp_path / "tokenizer.json.part"
    path.write_text("old")
    neighbour.write_text("mine")
    assert headway("tokenizer", "train", tmp_path / "missing.en", "-o", path)[0] == 2
    assert headway("tokenizer", "train", toy.data / "train.en", "-o", path, "--vocab-size", 99_999)[0] == 2
    assert path.read_text() == "old"
    assert headway("tokenizer", "train", toy.data / "train.en", "-o", path, "--vocab-size", 290)[0] == 0
    assert path.read_text() != "old"
    assert neighbour.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == [path, neighbour]


def test_two_files_train_without_any_other_option_into_a_folder_of_their_name(
    headway, toy: Toy, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = headway(
        "train", "--source", toy.data / "train.en", "--target", toy.data / "train.de", *toy.options()
    )
    assert (code, out.split()[0]) == (0, "BLEU")
    assert f"next: {this_command()} translate runs/train FILE" in err
    assert headway("translate", "runs/train", stdin=b"A dog.\n")[1].count("\n") == 1


def test_the_next_command_is_one_that_can_be_called_from_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "an environment" / "bin"
    programs.mkdir(parents=True)
    (programs / "headway").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", str(programs))
    assert this_command() == "headway"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert this_command() == f"'{programs / 'headway'}'"
    (programs / "headway").unlink()
    assert this_command() == "headway"


def test_whoever_closes_the_pipe_ends_it_quietly(toy: Toy) -> None:
    command = f"yes 'A dog runs.' | head -n 100000 | {sys.executable} -m headway tokenizer encode {toy.run} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[2]}}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (ValueError("steps = -1: take more"), 2, "headway: steps = -1: take more\n"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (ArithmeticError("the loss is nan"), 1, "the loss is nan"),
        (KeyboardInterrupt("stopped after step 7, saved in x"), 1, "headway: stopped after step 7, saved in x\n"),
        (AssertionError("ours"), 1, "Traceback"),
    ],
)
def test_each_kind_of_end_has_its_exit_code(headway, monkeypatch, fault: BaseException, code: int, words: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("headway.api.init", fail)
    ended, out, err = headway("init", "somewhere")
    assert (ended, out) == (code, "")
    assert words in err
    assert ("Traceback" in err) == (words == "Traceback")


def test_set_reads_values_as_toml_and_the_rest_as_text() -> None:
    read = cli.overrides(["a.b=3", "c=0.5", "d=true", "e=linear", "f=[1, 2]", "g=a=b"])
    assert read == {"a.b": 3, "c": 0.5, "d": True, "e": "linear", "f": [1, 2], "g": "a=b"}
