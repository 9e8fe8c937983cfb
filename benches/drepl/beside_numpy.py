#!/usr/bin/env python3
"""The executor of drepl beside numpy's assignment of the same slices, in turns.

    beside_numpy.py PATH/TO/drepl-bench [--quick] [--sizes KIB,...] [--rounds N] [--json]

One process executes drepl's transfers and this one assigns; they take turns, and each turn lasts a millisecond or one
execution.
"""

import argparse
import json
import statistics
import subprocess
import time

import numpy as np

CELL = np.dtype([("rho", "f8"), ("e", "f8"), ("t", "f4"), ("id", "i4")])


def numbers(shape, dtype="f8"):
    count = int(np.prod(shape))
    return np.arange(count).astype(dtype).reshape(shape)


def records(n):
    cells = np.zeros(n, CELL)
    for name in CELL.names:
        cells[name] = np.arange(n)
    return cells


def contiguous(n):
    source, wanted = numbers(n // 8), np.zeros(n // 8)
    return lambda: wanted.__setitem__(..., source)


def every_fourth(n):
    source, wanted = numbers(4 * n), np.zeros(n)
    return lambda: wanted.__setitem__(..., source[::4])


def into_every_fourth(n):
    source, wanted = numbers(n), np.zeros(4 * n)
    return lambda: wanted.__setitem__(slice(None, None, 4), source)


def records_to_arrays(n):
    cells, arrays = records(n), {name: np.zeros(n, CELL[name]) for name in CELL.names}

    def move():
        for name, array in arrays.items():
            array[...] = cells[name]

    return move


def arrays_to_records(n):
    cells, arrays = np.zeros(n, CELL), {name: numbers(n, CELL[name]) for name in CELL.names}

    def move():
        for name, array in arrays.items():
            cells[name] = array

    return move


def vectors_to_arrays(n):
    source, wanted = numbers((n, 3)), np.zeros((3, n))
    return lambda: wanted.__setitem__(..., source.T)


def arrays_to_vectors(n):
    source, wanted = numbers((3, n)), np.zeros((n, 3))
    return lambda: wanted.__setitem__(..., source.T)


def transpose(rank, dtype="f8"):
    def make(n):
        source, wanted = numbers((n,) * rank, dtype), np.zeros((n,) * rank, dtype)
        return lambda: wanted.__setitem__(..., source.T)

    return make


def halo(n):
    source, wanted = numbers((n + 2,) * 3), np.zeros((n + 2,) * 3)

    def move():
        inner = slice(1, n + 1)
        for axis in range(3):
            for ghost, rim in ((0, n), (n + 1, 1)):
                there, here = [inner] * 3, [inner] * 3
                there[axis], here[axis] = ghost, rim
                wanted[tuple(there)] = source[tuple(here)]

    return move


def byte_order(n):
    source, wanted = numbers(n), np.zeros(n, np.dtype("f8").newbyteorder())
    return lambda: wanted.__setitem__(..., source)


KINDS = {
    "contiguous": contiguous,
    "every-fourth": every_fourth,
    "into-every-fourth": into_every_fourth,
    "records-to-arrays": records_to_arrays,
    "arrays-to-records": arrays_to_records,
    "vectors-to-arrays": vectors_to_arrays,
    "arrays-to-vectors": arrays_to_vectors,
    "transpose2d": transpose(2),
    "transpose2d-power": transpose(2),
    "transpose2d-float": transpose(2, "f4"),
    "transpose3d": transpose(3),
    "halo": halo,
    "byte-order": byte_order,
}


class Program:
    """Executes transfers in the benchmark's own process."""

    def __init__(self, path):
        self.process = subprocess.Popen([path, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, kind, kib):
        self.process.stdin.write(f"{kind} {kib}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"drepl-bench ended at {kind} {kib}: exit status {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def batch(move):
    """Seconds of one execution, after a first: of this thread's processor, as the other process measures."""
    move()
    begin, count = time.thread_time(), 0
    while True:
        move()
        count += 1
        seconds = time.thread_time() - begin
        if seconds > 1e-3:
            return seconds / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the drepl-bench to compare with")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sizes", help="KiB of the larger side [64,1024,16384,262144, or 64,1024 with --quick]")
    parser.add_argument("--rounds", type=int, help="turns [15, or 3 with --quick]")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sizes = args.sizes or ("64,1024" if args.quick else "64,1024,16384,262144")
    rounds = args.rounds or (3 if args.quick else 15)
    program = Program(args.program)
    if not args.json:
        print(f"{'':20} {'KiB':>9} {'ours us':>10} {'numpy us':>10}   ratio (of 80 % of the turns)")
    for kind in args.kinds.split(","):
        for kib in map(int, sizes.split(",")):
            move = KINDS[kind](program.run(kind, kib)["extent"])
            turns = [(program.run(kind, kib)["seconds"], batch(move)) for _ in range(rounds)]
            ratios = sorted(ours / theirs for ours, theirs in turns)
            ours, theirs = (statistics.median(times) * 1e6 for times in zip(*turns))
            ratio = statistics.median(ratios)
            low, high = (ratios[round((rounds - 1) * part)] for part in (0.1, 0.9))
            if args.json:
                detail = {"ratio_low": low, "ratio_high": high, "rounds": rounds}
                row = {"bench": "numpy", "case": {"kind": kind, "kib": kib}, "value": ours, "unit": "us"}
                print(json.dumps({**row, "baseline": theirs, "ratio": ratio, "detail": detail}), flush=True)
            else:
                print(f"{kind:20} {kib:9} {ours:10.1f} {theirs:10.1f}   {ratio:.2f} ({low:.2f} to {high:.2f})", flush=True)
    program.close()


if __name__ == "__main__":
    main()
