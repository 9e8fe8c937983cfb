"""Figure 1 of the paper on data placement: ranks that share a plate as an object, with ghost cells and no messages."""

import re

import numpy as np
import pytest
from conftest import PROGRAMS

LANGUAGES = ["c", "fortran"]


def serial_bits(length, height, steps):
    """The plate computed once more, in the order of the programs' sums; all its numbers, combined by exclusive or."""
    x, y = np.ogrid[0:length, 0:height]
    u = np.zeros((length + 2, height + 2))
    spot = (4 * x > length) & (2 * x < length) & (3 * y > height) & (4 * y < 3 * height)
    u[1:-1, 1:-1] = np.where(spot, 100, 0)
    for _ in range(steps):
        edges = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        corners = u[:-2, :-2] + u[2:, :-2] + u[:-2, 2:] + u[2:, 2:]
        u[1:-1, 1:-1] = 0.28 * u[1:-1, 1:-1] + 0.14 * edges + 0.04 * corners
    return int(np.bitwise_xor.reduce(u[1:-1, 1:-1].copy().view("u8"), axis=None))


#: One division of the plate in each language; all others take longer.
DIVISIONS = [
    pytest.param(language, ranks, shape, marks=[] if (ranks, shape) == (4, (31, 23)) else pytest.mark.long)
    for language in LANGUAGES
    for ranks in (1, 4, 6)
    for shape in ((30, 30), (31, 23), (7, 50), (3, 2))
]


@pytest.mark.parametrize(("language", "ranks", "shape"), DIVISIONS)
def test_each_step_is_that_of_a_serial_run_however_the_plate_is_divided(runs, language, ranks, shape):
    steps = 40
    command = ["mpiexec", "-n", str(ranks), str(PROGRAMS / "objects" / language / "figure1"), "--check"]
    out = runs.run([*command, *map(str, shape), str(steps)])
    found = re.search(r"step (\d+), heat [\d.]+, bits ([\da-fA-F]{16}), each step equal to a serial run", out)
    assert found, out
    assert (int(found[1]), int(found[2], 16)) == (steps, serial_bits(*shape, steps))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_second_run_begins_anew(runs, language):
    command = ["mpiexec", "-n", "4", str(PROGRAMS / "objects" / language / "figure1")]
    first, second = (runs.run([*command, "12", "9", "5"]) for _ in range(2))
    assert first == second
