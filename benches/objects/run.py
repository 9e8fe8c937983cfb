#!/usr/bin/env python3
"""What ghost cells cost when they come from an object instead of messages.

    benches/objects/run.py [ghosts] [heat] [--rounds 9] [--size 2048] [--steps 200] [--ranks 2] [--json]

ghosts: the exchange of faces of 64 KiB to 1 MiB among 2 x 2 ranks, by an object against MPI_Neighbor_alltoallw; and between two, for
where four have fewer processors, most of MPI's time goes by in waiting for a rank that has none. heat: a whole
program whose ghost cells come from an object, against the same with MPI_Sendrecv. Both take turns, every other round in the
opposite order, and have to compute the same. The programs are ghosts.c and heat.c, built by this one; they need a
built library and an MPI (scripts/setup.sh mpi, make build).

Each line of --json is one case: {"bench", "case", "value", "unit", "baseline", "ratio", "detail": {"ratios"}}: value and baseline are
medians, with an object and with messages; ratio is the median of the rounds' ratios.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: Bytes of a face, by N and DEPTH of ghosts.c.
FACES = {"64 KiB": (32, 256), "256 KiB": (64, 512), "1 MiB": (128, 1024)}
GHOST_STEPS = 60
TIMEOUT = 600


def build(out):
    library = TARGET / "release"
    flags = ["-O2", "-g", "-Wall", "-Wextra", "-ffp-contract=off", "-std=c11", f"-I{ROOT / 'bindings/c/include'}"]
    link = [f"-L{library}", "-lstillframe", "-lpthread", f"-Wl,-rpath,{library}"]
    for name in ("ghosts", "heat"):
        subprocess.run(["mpicc", *flags, str(HERE / f"{name}.c"), "-o", str(out / name), *link], check=True)


def run(program, ranks, arguments, directory):
    regions = directory / "regions"
    shutil.rmtree(regions, ignore_errors=True)
    command = ["mpiexec", "-n", str(ranks), str(program), *map(str, arguments)]
    environment = {**os.environ, "STILLFRAME_DIR": str(regions)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT)
    found = re.search(r"(?:bits|sum) (\S+), +([\d.]+) (?:s|us)\b", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    shutil.rmtree(regions, ignore_errors=True)
    return found[1], float(found[2])


def alternate(rounds, kinds, one):
    """Times of each kind, a list for each, and what each computed."""
    times, results = {kind: [] for kind in kinds}, set()
    for number in range(rounds):
        for kind in kinds if number % 2 == 0 else list(reversed(kinds)):
            result, time = one(kind)
            results.add(result)
            times[kind].append(time)
    if len(results) != 1:
        sys.exit(f"the runs do not agree: {results}")
    return times


def row(bench, case, times, kind, scale, unit):
    ratios = sorted(time / base for time, base in zip(times[kind], times["mpi"]))
    return {
        "bench": bench,
        "case": case,
        "value": round(statistics.median(times[kind]) * scale, 4),
        "unit": unit,
        "baseline": round(statistics.median(times["mpi"]) * scale, 4),
        "ratio": round(statistics.median(ratios), 4),
        "detail": {"ratios": [round(ratio, 4) for ratio in ratios]},
    }


def measure(args, faces, directory):
    if "ghosts" in args.what:
        for ranks, (face, (n, depth)) in itertools.product((4, 2), faces.items()):
            kinds = ["mpi", "loaned", "copied"]
            numbers, program = [n, depth, GHOST_STEPS], directory / "ghosts"
            times = alternate(args.rounds, kinds, lambda kind: run(program, ranks, [kind, *numbers], directory))
            for kind in kinds[1:]:
                yield row("ghosts", {"face": face, "ranks": ranks, "fragment": kind}, times, kind, 1, "us")
    if "heat" in args.what:
        numbers = [args.size, args.steps]
        program = directory / "heat"
        times = alternate(args.rounds, ["mpi", "object"], lambda kind: run(program, args.ranks, [kind, *numbers], directory))
        case = {"size": args.size, "steps": args.steps, "ranks": args.ranks}
        yield row("heat", case, times, "object", 1000 / args.steps, "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["ghosts", "heat", []], help="what to measure [default: all]")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=2048, help="rows and columns of the plate")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2, help="of the plate")
    parser.add_argument("--quick", action="store_true", help="one round of little: shows that everything works")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    args = parser.parse_args()
    args.what = args.what or ["ghosts", "heat"]
    faces = dict(list(FACES.items())[:1]) if args.quick else FACES
    if args.quick:
        args.rounds, args.size, args.steps = 1, 256, 20
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="stillframe-objects-", dir=shm) as directory:
        build(Path(directory))
        for measured in measure(args, faces, Path(directory)):
            if args.json:
                print(json.dumps(measured), flush=True)
                continue
            case = ", ".join(f"{name} {value}" for name, value in measured["case"].items())
            ratios, unit = measured["detail"]["ratios"], measured["unit"]
            print(
                f"{measured['bench']}: {case}: {measured['value']:.3f} {unit} from an object, {measured['baseline']:.3f} by "
                f"messages, ratio {measured['ratio']:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
