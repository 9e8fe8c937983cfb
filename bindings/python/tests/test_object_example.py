"""The example of objects: Figure 1 of the paper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FIGURE1 = Path(__file__).parents[3] / "examples" / "objects" / "figure1.py"


@pytest.mark.parametrize(("ranks", "length", "height"), [(1, 12, 9), (4, 37, 29), (6, 31, 17)])
def test_figure_1_equals_a_run_in_one_process(ranks: int, length: int, height: int) -> None:
    size = ["--ranks", str(ranks), "--length", str(length), "--height", str(height), "--steps", "40"]
    run = subprocess.run([sys.executable, str(FIGURE1), "--check", *size], capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "to the last bit" in run.stdout
