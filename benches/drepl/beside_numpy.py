#!/usr/bin/env python3
"""stillframe.drepl beside numpy's assignment of the same slices, on the same arrays, in turns.

    beside_numpy.py [--quick] [--kinds KIND,...] [--sizes KIB,...] [--rounds N] [--json]

Each turn lasts a millisecond of processor time or one execution. Both leave the same bytes, or nothing is measured.
"""

import argparse
import itertools
import json
import statistics
import time

import numpy as np
from stillframe import drepl

FIELDS = ("rho", "e", "t", "id")
CELLS = """
    var cells [n]struct { rho, e float64; t float32; id int32 }
    view records { var cells = cells }
    view arrays { var rho = cells.rho; var e = cells.e; var t = cells.t; var id = cells.id }
"""
VECTORS = """
    var v [n,3]float64
    view vectors { var v = v }
    view arrays { var v [k,i] = v[i,k] }
"""
LINE = """
    var line [n]float64
    view whole { var line = line }
    view fourth { var line [i] = line[4*i] }
    view spread { var line [4*i] = line[i] }
    view other bigendian { var line = line }
    view single { var line [i]float32 = line[i] }
"""
CUBE = "var a [n,n,n]float64; view whole { var a = a }; view turned { var a [k,j,i] = a[i,j,k] }"


class Work:
    """Sources and a wanted fragment, with memory for them, and how numpy fills it."""

    def __init__(self, sources, wanted, assign):
        self.sources = [fragment.allocate() for fragment in sources]
        for number, arrays in enumerate(self.sources):
            numbers = arrays.buffer.view("u4") if arrays.buffer.nbytes % 4 == 0 else arrays.buffer
            # Neither zero nor infinite, as numbers of any kind.
            numbers[...] = np.arange(len(numbers), dtype="u4") % 0x3F00_0000 + (number << 20) + 1
        self.wanted = wanted.allocate()
        self.plan = drepl.plan(wanted, [drepl.Source(fragment) for fragment in sources])
        self.assign = lambda: assign(self.wanted, *self.sources)
        self.execute = lambda: self.plan.execute(self.sources, self.wanted, threads=1)
        self.check()

    def check(self):
        made = []
        for move in (self.assign, self.execute):
            self.wanted.buffer[...] = 0xAB
            move()
            made.append(self.wanted.buffer.tobytes())
        if made[0] != made[1]:
            raise SystemExit("drepl and numpy do not make the same bytes")


def views(text, source, wanted, assign, **bindings):
    schema = drepl.parse(text, **bindings)
    return Work([schema[source]], schema[wanted], assign)


def whole(name, turn=lambda array: array):
    """The assignment of one array to another of this name."""

    def assign(to, source):
        to[name][...] = turn(source[name])

    return assign


def contiguous(bytes):
    return views(LINE, "whole", "whole", whole("line"), n=bytes // 8)


def every_fourth(bytes):
    return views(LINE, "whole", "fourth", whole("line", lambda line: line[::4]), n=bytes // 8)


def into_every_fourth(bytes):
    def assign(to, source):
        to["line"][::4] = source["line"]

    return views(LINE, "whole", "spread", assign, n=bytes // 32)


def records_to_arrays(bytes):
    def assign(to, source):
        for name in FIELDS:
            to[name][...] = source["cells"][name]

    return views(CELLS, "records", "arrays", assign, n=bytes // 24)


def arrays_to_records(bytes):
    def assign(to, source):
        for name in FIELDS:
            to["cells"][name] = source[name]

    return views(CELLS, "arrays", "records", assign, n=bytes // 24)


def vectors_to_arrays(bytes):
    return views(VECTORS, "vectors", "arrays", whole("v", np.transpose), n=bytes // 24)


def arrays_to_vectors(bytes):
    return views(VECTORS, "arrays", "vectors", whole("v", np.transpose), n=bytes // 24)


def transpose2d(bytes, number="float64", power=False):
    n = round((bytes / np.dtype(number).itemsize) ** (1 / 2))
    n = 1 << n.bit_length() - 1 if power else n
    text = f"var a [n,n]{number}; view whole {{ var a = a }}; view turned {{ var a [j,i] = a[i,j] }}"
    return views(text, "whole", "turned", whole("a", np.transpose), n=n)


def transpose3d(bytes):
    return views(CUBE, "whole", "turned", whole("a", np.transpose), n=round((bytes / 8) ** (1 / 3)))


def halo(bytes):
    """Ghost cells around a block, each face from a neighbour. The neighbours' memory is one: as if they were equal."""
    n = round((bytes / 8) ** (1 / 3)) - 2
    schema = drepl.parse("const e = 3*n; var grid [e,e,e]float64", n=n)
    block = "{ var b [i:n,j:n,k:n] = grid[i+x,j+y,k+z] }"
    wanted = schema.fragment("{ var b [i:n+2,j:n+2,k:n+2] = grid[i+n-1,j+n-1,k+n-1] }")
    places = [[at if axis == own else 1 for own in range(3)] for axis in range(3) for at in (0, 2)]
    fragments = [schema.fragment(block, x=x * n, y=y * n, z=z * n) for x, y, z in places]

    def assign(to, source):
        for axis, (ghost, rim) in itertools.product(range(3), ((0, n - 1), (n + 1, 0))):
            there, here = [slice(1, n + 1)] * 3, [slice(None)] * 3
            there[axis], here[axis] = ghost, rim
            to["b"][tuple(there)] = source["b"][tuple(here)]

    class Halo(Work):
        def check(self):
            self.plan = drepl.plan(wanted, [drepl.Source(fragment) for fragment in fragments])
            self.execute = lambda: self.plan.execute(self.sources * 6, self.wanted, threads=1)
            super().check()

    return Halo(fragments[:1], wanted, assign)


def byte_order(bytes):
    return views(LINE, "whole", "other", whole("line"), n=bytes // 8)


def single_precision(bytes):
    return views(LINE, "whole", "single", whole("line"), n=bytes // 8)


KINDS = {
    "contiguous": contiguous,
    "every-fourth": every_fourth,
    "into-every-fourth": into_every_fourth,
    "records-to-arrays": records_to_arrays,
    "arrays-to-records": arrays_to_records,
    "vectors-to-arrays": vectors_to_arrays,
    "arrays-to-vectors": arrays_to_vectors,
    "transpose2d": transpose2d,
    "transpose2d-power": lambda bytes: transpose2d(bytes, power=True),
    "transpose2d-float": lambda bytes: transpose2d(bytes, "float32"),
    "transpose3d": transpose3d,
    "halo": halo,
    "byte-order": byte_order,
    "single-precision": single_precision,
}


def batch(move):
    """Seconds of one execution, after a first: of this thread's processor, on which others make no difference."""
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
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sizes", help="KiB of the larger side [64,1024,16384,262144, or 64,1024 with --quick]")
    parser.add_argument("--rounds", type=int, help="turns [15, or 3 with --quick]")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sizes = args.sizes or ("64,1024" if args.quick else "64,1024,16384,262144")
    rounds = args.rounds or (3 if args.quick else 15)
    if not args.json:
        print(f"{'':20} {'KiB':>9} {'ours us':>10} {'numpy us':>10}   ratio (of 80 % of the turns)")
    for kind in args.kinds.split(","):
        for kib in map(int, sizes.split(",")):
            work = KINDS[kind](kib << 10)
            # Each begins as often as the other.
            turns = []
            for turn in range(rounds):
                order = (work.execute, work.assign)[:: 1 if turn % 2 else -1]
                times = {move: batch(move) for move in order}
                turns.append((times[work.execute], times[work.assign]))
            ratios = sorted(ours / theirs for ours, theirs in turns)
            ours, theirs = (statistics.median(times) * 1e6 for times in zip(*turns))
            ratio = statistics.median(ratios)
            low, high = (ratios[round((rounds - 1) * part)] for part in (0.1, 0.9))
            if args.json:
                detail = {"ratio_low": low, "ratio_high": high, "rounds": rounds}
                row = {"bench": "numpy", "case": {"kind": kind, "kib": kib}, "value": ours, "unit": "us"}
                print(json.dumps({**row, "baseline": theirs, "ratio": ratio, "detail": detail}), flush=True)
            else:
                spread = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
                print(f"{kind:20} {kib:9} {ours:10.1f} {theirs:10.1f}   {spread}", flush=True)


if __name__ == "__main__":
    main()
