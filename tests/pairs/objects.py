#!/usr/bin/env python3
"""An object that processes of one language write, read by processes of every language in other layouts.

A writer, `write DIR OBJECT RANK RANKS`, creates the object with the text

    type Cell struct { rho float32; id int64 }
    var grid [12,10] float64
    var cells [30]Cell

and attaches its part of `grid`, rows or columns from RANK * N / RANKS to (RANK + 1) * N / RANKS, and of `cells`, in whatever layout it
likes, with `keep` 3. It publishes versions 1 to 3, in which

    grid[x,y] = 10000 version + 100 x + y      cells[i].rho = 1000 version + i      cells[i].id = -i - version

Then it says `ready`, waits for the end of its input, and detaches.

A reader, `read DIR OBJECT VERSION`, opens the object to look only, and prints, the last index running fastest:

    turned    t [y:10,x:12] = grid[x,y]             column    c [x] = grid[11-x,7]
    coarse    c [i,j] = grid[i*4,j*3]               ghosts    u [x:14,y:3] = grid[x-1,y+8], zero outside
    cells     rho and id of 20 cells from the fifth on, by turns

    tests/pairs/objects.py --programs FOLDER [--only LANGUAGE…]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT = 600
RANKS = 3


def expected(version):
    """The lines of a reader."""

    def grid(x, y):
        return 10000 * version + 100 * x + y if 0 <= x < 12 and 0 <= y < 10 else 0

    lines = {
        "turned": [grid(x, y) for y, x in product(range(10), range(12))],
        "coarse": [grid(4 * i, 3 * j) for i, j in product(range(3), range(4))],
        "column": [grid(11 - x, 7) for x in range(12)],
        "ghosts": [grid(x - 1, y + 8) for x, y in product(range(14), range(3))],
        "cells": [number for i in range(5, 25) for number in (1000 * version + i, -i - version)],
    }
    return [" ".join([name, *map(str, numbers)]) for name, numbers in lines.items()]


def check(writer, readers, directory):
    """Runs the writers of one language beside readers, and returns what is wrong."""
    language, commands = writer
    ranks, wrong = [], []
    try:
        for rank in range(RANKS):
            command = [*commands["write"], directory, f"from-{language}", str(rank), str(RANKS)]
            ranks.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for rank, process in enumerate(ranks):
            if process.stdout.readline().strip() != "ready":
                return [f"rank {rank} in {language} did not get ready"]
        for (other, programs), version in product(readers, (1, 2, 3)):
            command = [*programs["read"], directory, f"from-{language}", str(version)]
            seen = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
            what = f"{language} to {other}, version {version}"
            if seen.returncode != 0:
                wrong.append(f"{what}: status {seen.returncode}: {seen.stderr.strip()}")
            elif seen.stdout.splitlines() != expected(version):
                wrong.append(f"{what}: expected {expected(version)}, found {seen.stdout.splitlines()}")
        for rank, process in enumerate(ranks):
            process.stdin.close()
            if process.wait(TIMEOUT) != 0:
                wrong.append(f"rank {rank} in {language} ended with {process.returncode}")
    finally:
        for process in ranks:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Runs writers of every language beside readers of every language.")
    parser.add_argument("--programs", type=Path, required=True, help="the folder with LANGUAGE-write and -read")
    parser.add_argument("--only", nargs="*", help="these languages")
    arguments = parser.parse_args()
    python = [os.environ.get("PYTHON", sys.executable)]
    languages = {
        language: {part: [str(arguments.programs / f"{language}-{part}")] for part in ("write", "read")}
        for language in ("c", "cxx", "fortran")
    }
    if (HERE / "python" / "write.py").exists():
        languages["python"] = {part: [*python, str(HERE / "python" / f"{part}.py")] for part in ("write", "read")}
    chosen = [(name, commands) for name, commands in languages.items() if not arguments.only or name in arguments.only]
    wrong = []
    with tempfile.TemporaryDirectory(prefix="stillframe-pairs-", dir="/dev/shm") as directory:
        for writer in chosen:
            wrong += check(writer, chosen, directory)
            print(f"objects: {writer[0]} to {', '.join(name for name, _ in chosen)}", flush=True)
    for text in wrong:
        print("objects:", text, file=sys.stderr)
    print(f"{3 * len(chosen) ** 2 - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
