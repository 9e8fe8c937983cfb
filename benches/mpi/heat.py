#!/usr/bin/env python3
"""What publishing every step costs an MPI program: the heat example with Stillframe against the same without.

Three runs take turns: the plain program, the one that publishes every step, and that one with an observer of the group that
reads every version it gets. A round has one of each, every other round in the opposite order. The time is that of the steps,
as rank 0 measures it. The programs are the examples in C, or in the language given; the observer is C's.

    benches/mpi/heat.py [--size 2048] [--steps 200] [--rounds 11] [--ranks 4] [--language c] [--json]

Each line of --json is one case:

    {"bench": "heat", "case": {"language", "size", "ranks", "steps", "measures"}, "value", "unit": "ms", "baseline", "ratio",
     "detail": {"ratios", "publish_ms", "publish_share", "versions_seen"}}

measures are `publish` and `publish, observed`, both against the plain program, and `observer`: what is published with an
observer against the same without one. value and baseline are medians of milliseconds per step, with and without; ratio is the
median of the rounds' ratios, whose spread is in detail. publish_ms is the time in publish per step of the rank that took longest, and publish_share its part of
the step. versions_seen counts what the observer read per run; results of all runs are compared to the last bit.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
#: Counters in a region's head (docs/format.md).
PUBLISHED_AT, PUBLISH_NS_AT = 192, 224
TIMEOUT = 600


def program(args, language, what):
    if language == "python":
        return [sys.executable, str(ROOT / "examples/heat/python" / f"{what}.py")]
    return [str(args.programs / language / what)]


class Run:
    """One run of a program, and of an observer beside it."""

    def __init__(self, args, what, observed, directory):
        regions = directory / "regions"
        environment = {**os.environ, "STILLFRAME_DIR": str(regions)}
        observer = None
        if observed:
            out = (directory / "seen").open("w+")
            command = [*program(args, "c", "look"), "heat"]
            observer = subprocess.Popen(command, stdout=out, env=environment, start_new_session=True)
        numbers = [str(number) for number in (args.size, args.size, args.steps)]
        command = ["mpiexec", "-n", str(args.ranks), *program(args, args.language, what), *numbers, "heat"]
        simulation = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        try:
            printed, _ = simulation.communicate(timeout=TIMEOUT)
            found = re.search(r"bits (\w+), +([\d.]+) s", printed)
            if simulation.returncode or not found:
                sys.exit(f"{' '.join(command)} ended with {simulation.returncode}: {printed}")
            if observer and observer.wait(TIMEOUT):
                sys.exit(f"the observer ended with {observer.returncode}")
        finally:
            for process in filter(None, (simulation, observer)):
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        self.bits = found[1].lower()
        self.step_ms = float(found[2]) / args.steps * 1000
        self.publish_ms, self.seen = 0.0, 0
        if what == "heat":
            heads = [(regions / "heat" / str(rank) / "head").read_bytes() for rank in range(args.ranks)]
            counter = lambda head, at: int.from_bytes(head[at : at + 8], "little")  # noqa: E731
            published = {counter(head, PUBLISHED_AT) for head in heads}
            if published != {args.steps}:
                sys.exit(f"ranks published {published} of {args.steps} steps")
            self.publish_ms = max(counter(head, PUBLISH_NS_AT) for head in heads) / args.steps / 1e6
            shutil.rmtree(regions)
        if observed:
            out.seek(0)
            self.seen = sum(line.startswith("version") for line in out)
            out.close()


def measure(args, directory):
    kinds = {"plain": ("plain", False), "publish": ("heat", False), "publish, observed": ("heat", True)}
    rounds = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        order = list(kinds) if number % 2 == 0 else list(reversed(kinds))
        for kind in order:
            rounds[kind].append(Run(args, *kinds[kind], directory))
    bits = {run.bits for runs in rounds.values() for run in runs}
    if len(bits) != 1:
        sys.exit(f"the runs do not agree: {bits}")
    case = {"language": args.language, "size": args.size, "ranks": args.ranks, "steps": args.steps}
    comparisons = {
        "publish": ("publish", "plain"),
        "publish, observed": ("publish, observed", "plain"),
        "observer": ("publish, observed", "publish"),
    }
    for measures, (kind, other) in comparisons.items():
        runs, others = rounds[kind], rounds[other]
        ratios = sorted(run.step_ms / other.step_ms for run, other in zip(runs, others))
        value = statistics.median(run.step_ms for run in runs)
        publish_ms = statistics.median(run.publish_ms for run in runs)
        yield {
            "bench": "heat",
            "case": {**case, "measures": measures},
            "value": round(value, 4),
            "unit": "ms",
            "baseline": round(statistics.median(run.step_ms for run in others), 4),
            "ratio": round(statistics.median(ratios), 4),
            "detail": {
                "ratios": [round(ratio, 4) for ratio in ratios],
                "publish_ms": round(publish_ms, 4),
                "publish_share": round(publish_ms / value, 4),
                "versions_seen": statistics.median(run.seen for run in runs),
            },
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048, help="rows and columns of the plate")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--language", default="c", choices=["c", "cxx", "fortran", "python"])
    parser.add_argument("--programs", type=Path, default=TARGET / "heat", help="where `make -C examples/heat` put the programs")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    args = parser.parse_args()
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="stillframe-heat-", dir=shm) as directory:
        for row in measure(args, Path(directory)):
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            detail, case = row["detail"], row["case"]
            print(
                f"{case['language']}, {case['size']} x {case['size']} on {case['ranks']} ranks, {case['measures']}: "
                f"{row['value']:.3f} ms a step, {row['baseline']:.3f} without, ratio {row['ratio']:.3f} "
                f"({detail['ratios'][0]:.3f} to {detail['ratios'][-1]:.3f}); in publish {detail['publish_ms']:.3f} ms, "
                f"{100 * detail['publish_share']:.1f} % of a step; versions seen {detail['versions_seen']:.0f}"
            )


if __name__ == "__main__":
    main()
