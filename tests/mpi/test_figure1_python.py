"""Figure 1 of the paper in Python, with the ranks of MPI."""

import sys

import pytest
from conftest import ROOT

FIGURE1 = ROOT / "examples" / "objects" / "figure1.py"


@pytest.mark.parametrize("ranks", [4, *(pytest.param(ranks, marks=pytest.mark.long) for ranks in (1, 6))])
def test_ranks_of_mpi_compute_what_one_process_does(runs, ranks):
    size = ["--length", "41", "--height", "29", "--steps", "40"]
    command = ["mpiexec", "-n", str(ranks), sys.executable, "-m", "mpi4py", str(FIGURE1), "--mpi", "--check", *size]
    assert "to the last bit" in runs.run(command)
