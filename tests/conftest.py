"""What every test gets: shape annotations that are checked as the code runs, and the way to real corpora."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# `make test` tries the same examples each time, so that it says the same of the same code. To look further:
# pytest --hypothesis-profile=explore
settings.register_profile("repeatable", derandomize=True, database=None)
settings.register_profile("explore", max_examples=1000)
settings.load_profile("repeatable")

# Before anything imports them: from here on a wrong shape in a public forward is an error, in tests only.
install_import_hook(["headway.nn", "headway.models"], "beartype.beartype")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora that HEADWAY_DATA names (multi30k/, wmt15_lingeval_baselines/, ...)."""
    folder = os.environ.get("HEADWAY_DATA")
    if not folder:
        pytest.skip("set HEADWAY_DATA to a folder that holds the corpora (multi30k/, ...) to run this test")
    if not Path(folder).is_dir():
        pytest.fail(f"HEADWAY_DATA = {folder!r} is not a folder")
    return Path(folder)


@dataclass(frozen=True)
class Toy:
    """A small corpus, and a run that was trained on it for a moment: enough to walk every path."""

    data: Path
    run: Path
    settings: tuple[str, ...]

    def options(self) -> list[str]:
        return [word for setting in self.settings for word in ("--set", setting)]


TOY_SETTINGS = (
    "train.steps=2",
    "train.batch_tokens=600",
    "train.save_every=1",
    "train.validate_every=2",
    "model.dim=16",
    "model.encoder.layers=[{repeat=1}]",
    "model.decoder.layers=[{repeat=1}]",
    "search.max_extra=3",
    "search.beam=2",
)


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    from headway import api, cli
    from headway.data import phrasebook

    folder = tmp_path_factory.mktemp("toy")
    for name, part in (("train", slice(0, 300)), ("test", slice(300, 307))):
        pairs = phrasebook.generate(307, seed=5)[part]
        (folder / f"{name}.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    api.train(
        source=folder / "train.en",
        target=folder / "train.de",
        out=folder / "run",
        set=cli.overrides(list(TOY_SETTINGS)),
        device="cpu",
        quiet=True,
    )
    return Toy(folder, folder / "run", TOY_SETTINGS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e .[dev]")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def headway(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in this process: (exit code, stdout, stderr)."""
    from headway import cli

    def call(*words: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.app([str(word) for word in words], prog_name="headway")
        out, err = capsysbinary.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out.decode(), err.decode()

    return call
