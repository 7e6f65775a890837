"""The README tells the truth: its `headway` lines run, at toy size and in its order, and its make targets exist; the
Japanese one has the same. Those of the guides can be called, and their recipes are valid."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import typer
import typer.core

from conftest import Toy
from headway import cli
from headway.documents.terms import Terms
from headway.recipe import parse_model, parse_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
GUIDES = sorted((ROOT / "docs").glob("*/*.md"))
JAPANESE = ROOT / "docs" / "ja"

DOCUMENTS = {
    "messages.po": 'msgid "A dog runs."\nmsgstr ""\n',
    "texts.xlf": """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="x" source-language="en" target-language="de" datatype="plaintext"><body>
<trans-unit id="1"><source>A <g id="1">dog</g> runs.</source></trans-unit>
<trans-unit id="2"><source>Two dogs run.</source></trans-unit></body></file></xliff>
""",
    "memory.tmx": """<tmx version="1.4"><header srclang="en"/><body><tu>
<tuv xml:lang="en"><seg>Two dogs run.</seg></tuv><tuv xml:lang="de"><seg>Zwei Hunde rennen.</seg></tuv></tu>
</body></tmx>
""",
    "terms.tsv": "dog\tHund\n",
}
"""What the README translates and names besides the toy corpus."""

RECIPE_TOY = ("tokenizer.vocab_size=300", "data.source=yours.en", "data.target=yours.de", "train.schedule.warmup=0.5")


def test_every_headway_line_of_the_readme_runs(headway, toy: Toy, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("yours", "test", "new"):
        for language in ("en", "de"):
            part = "train" if name == "yours" else "test"
            (tmp_path / f"{name}.{language}").write_bytes((toy.data / f"{part}.{language}").read_bytes())
    for name, text in DOCUMENTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in LINES if line.startswith("headway ")]
    assert len(commands) >= 8
    for words in commands:
        if words[0] == "train" or words[:2] == ["data", "report"]:
            settings = list(toy.settings)
            if "--source" not in words:
                (tmp_path / "my-recipe" / "yours.en").write_bytes((tmp_path / "yours.en").read_bytes())
                (tmp_path / "my-recipe" / "yours.de").write_bytes((tmp_path / "yours.de").read_bytes())
                settings += [*RECIPE_TOY, "train.average.num=2"]
            words = [*words, *(word for setting in settings for word in ("--set", setting))]
        code, _, err = headway(*words)
        assert code == 0, f"{' '.join(words)}\n{err}"
    assert (tmp_path / "new.de").read_text(encoding="utf-8").count("\n") == 7
    assert "#, fuzzy\n" in (tmp_path / "messages.de.po").read_text(encoding="utf-8")
    assert "<target>Zwei Hunde rennen.</target>" in (tmp_path / "texts.de.xlf").read_text(encoding="utf-8")
    [python] = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    lines = python.splitlines()
    assert [line for line in lines if line.startswith("headway.train(")] == lines[-1:], "the rest runs at toy size"
    exec("\n".join(lines[:-1]), {})


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_the_japanese_readme_has_the_commands_of_the_english_one() -> None:
    for language in ("sh", "python"):
        english, japanese = (
            [line.partition("  # ")[0] for block in blocks(ROOT / name, language) for line in block.splitlines()]
            for name in ("README.md", "README.ja.md")
        )
        assert english
        assert japanese == english


def test_every_headway_line_of_the_guides_can_be_called() -> None:
    lines = [line for path in GUIDES for block in blocks(path, "sh") for line in block.splitlines()]
    commands = [part for line in lines for part in re.split(r" [|>] ", line) if part.startswith("headway ")]
    assert len(commands) >= 12
    for words in (shlex.split(command, comments=True) for command in commands):
        command: Any = typer.main.get_command(cli.app)
        context = command.make_context(words[0], words[1:])
        while isinstance(command, typer.core.TyperGroup):
            name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            context = command.make_context(name, rest, parent=context)  # raises for what the command does not know


def test_the_recipes_and_term_lists_of_the_guides_are_valid(tmp_path: Path) -> None:
    corpora, clean = (tomllib.loads(block)["data"] for block in blocks(ROOT / "docs" / "guide" / "corpora.md", "toml"))
    rest = {
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "model": {"preset": "transformer-tiny"},
        "train": {"steps": 2, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
    }
    recipe = parse_recipe({"data": {**corpora, **clean, "test": ["test.en"]}, **rest})
    assert len(recipe.data.corpora) == 4
    assert recipe.data.clean.max_ratio == 3
    [japanese] = blocks(JAPANESE / "train-and-translate.md", "toml")
    assert parse_recipe({**tomllib.loads(japanese), **rest}).data.target_language == "ja"
    lists = [text for folder in (ROOT / "docs" / "guide", JAPANESE) for text in blocks(folder / "documents.md", "tsv")]
    assert len(lists) == 4
    for text in lists:
        (tmp_path / "terms.tsv").write_text(text, encoding="utf-8")
        assert len(Terms.load(tmp_path / "terms.tsv").terms) == 3


def test_the_predecessors_of_the_guide_are_valid() -> None:
    page = ROOT / "docs" / "guide" / "predecessors.md"
    example, elmo, decomposable = (tomllib.loads(block) for block in blocks(page, "toml"))
    assert parse_model(elmo["model"]).stack.kind == elmo["objective"]["kind"]
    assert parse_model(decomposable["model"]).head.num == len(decomposable["objective"]["names"])
    cells = re.findall(r"`(decoder = \{.*?\})`", page.read_text(encoding="utf-8"))
    assert len(cells) == 5
    decoders = [example["model"]["decoder"], *(tomllib.loads(cell)["decoder"] for cell in cells)]
    for decoder in decoders:
        for preset in ("rnnsearch", "transformer-tiny"):  # any encoder goes with it
            assert parse_model({"preset": preset, "decoder": decoder}).decoder.kind == decoder["kind"]


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for name in ("README.md", "README.ja.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE))
        assert named
        assert named <= targets, name


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_every_file_that_the_map_names_exists() -> None:
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src/headway/|tests/)?[\w/]+(?:\.py|/))`", text):
        found = [ROOT / name, ROOT / "src" / "headway" / name]
        assert any(path.exists() for path in found) or name in {"checkpoints/", "store/", "tensorboard/"}, name
