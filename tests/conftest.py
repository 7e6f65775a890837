"""What every test gets: shape annotations that are checked as the code runs, and the way to real corpora."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

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
