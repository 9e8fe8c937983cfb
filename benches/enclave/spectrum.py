#!/usr/bin/env python3
"""Watches a heat run of one rank, and makes a power spectrum of each version that it can get, until the run ends.

    spectrum.py NAME SIZE [blind]

Says `ready` when it waits for the run, whose plate has SIZE rows and columns. At the end it says in one line of JSON how many versions it
has analysed, which was the last, and how long each took. With `blind` it looks at nothing, and makes spectra of an array of its own until
it is ended.
"""

import json
import sys
import time

import numpy as np
import stillframe as sf
from stillframe import analysis

WAIT_SECONDS = 60


def main():
    name, size = sys.argv[1], int(sys.argv[2])
    spectrum = analysis.Spectrum("u")
    # What is made once for a shape is made before the run begins.
    spectrum({"u": np.zeros((size, size))})
    print("ready", flush=True)
    if "blind" in sys.argv:
        own = np.random.default_rng(1).random((size + 2, size + 2))
        while True:
            spectrum({"u": np.ascontiguousarray(own[1:-1, 1:-1])})
    versions, last, seconds, plate, power = 0, None, 0.0, None, None
    with sf.open(f"{name}/0", wait=WAIT_SECONDS) as observer:
        for snapshot in observer.iterate():
            begin = time.perf_counter()
            with snapshot:
                # Without the frame of ghost cells.
                plate = np.ascontiguousarray(snapshot["u"][1:-1, 1:-1])
                power = spectrum({"u": plate})["u_power"]
            seconds += time.perf_counter() - begin
            versions, last = versions + 1, snapshot.version
    # Parseval: all powers together are the mean square.
    square = float(np.vdot(plate, plate)) / plate.size
    if not abs(power.sum() - square) <= 1e-9 * square:
        sys.exit(f"spectrum: the powers of version {last} are {power.sum()} together, and its mean square is {square}")
    print(json.dumps({"versions": versions, "last": last, "ms": 1e3 * seconds / versions}))


try:
    main()
except sf.Error as error:
    sys.exit(f"spectrum: {error}")
