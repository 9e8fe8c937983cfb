"""The examples of layouts: files of one into files of another, and what numpy and netCDF4 say about them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILT, ROOT, SECONDS_MAX

EXAMPLES = sorted(path for path in (ROOT / "examples/drepl").glob("*.py") if path.stem != "common")


def test_there_are_six() -> None:
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_makes_what_numpy_makes(example: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "STILL": str(BUILT / "still")}
    done = subprocess.run(
        [sys.executable, example, tmp_path], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as numpy says" in done.stdout
