"""The README tells the truth: its `headway` lines run, at toy size and in its order, and its make targets exist."""

import re
import shlex
from pathlib import Path

from conftest import Toy

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]

RECIPE_TOY = ("tokenizer.vocab_size=300", "data.source=yours.en", "data.target=yours.de", "train.schedule.warmup=0.5")


def test_every_headway_line_of_the_readme_runs(headway, toy: Toy, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("yours", "test", "new"):
        for language in ("en", "de"):
            part = "train" if name == "yours" else "test"
            (tmp_path / f"{name}.{language}").write_bytes((toy.data / f"{part}.{language}").read_bytes())
    commands = [shlex.split(line)[1:] for line in LINES if line.startswith("headway ")]
    assert len(commands) >= 8
    for words in commands:
        if words[0] == "train":
            settings = list(toy.settings)
            if "--source" not in words:
                (tmp_path / "my-recipe" / "yours.en").write_bytes((tmp_path / "yours.en").read_bytes())
                (tmp_path / "my-recipe" / "yours.de").write_bytes((tmp_path / "yours.de").read_bytes())
                settings += [*RECIPE_TOY, "train.average.num=2"]
            words = [*words, *(word for setting in settings for word in ("--set", setting))]
        code, _, err = headway(*words)
        assert code == 0, f"{' '.join(words)}\n{err}"
    assert (tmp_path / "new.de").read_text(encoding="utf-8").count("\n") == 7
    [python] = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    lines = python.splitlines()
    assert [line for line in lines if line.startswith("headway.train(")] == lines[-1:], "the rest runs at toy size"
    exec("\n".join(lines[:-1]), {})


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
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
        assert any(path.exists() for path in found) or name in {"checkpoints/", "tensorboard/"}, name
