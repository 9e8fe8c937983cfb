#!/usr/bin/env python3
"""What a spectrum observer in another container costs a simulation that publishes every step: Figures 7 to 10 of the XASM paper.

The simulation is the heat example in Rust with one rank, on one processor. It runs without publishing, publishing with nobody who
looks, with an observer beside it, and with one in namespaces of its own for users, mounts, processes, network, System V objects
and host name, into which the directory of regions is mounted to be read only. The observer has another processor to itself and
makes a power spectrum of each version that it can get (spectrum.py). In a fifth kind of run it makes spectra of an array of its own and
looks at nothing: what the simulation then loses, it loses to memory and caches that both processors share. The five take turns,
every other round in the opposite order. The time is that of the steps, as the simulation measures it. No root is needed where users may make namespaces.

    benches/enclave/run.py [--sizes 1024,2048] [--steps 200] [--rounds 15] [--quick] [--json]

Each line of --json is one case:

    {"bench": "heat-spectrum", "case": {"size", "steps", "measures"}, "value", "unit": "ms", "baseline", "ratio",
     "detail": {"ratios", "others", "publish_ms", "versions", "analysis_ms"}}

measures are `container / alone`, the figure that the paper has; `blind / alone`, what of it any such work beside costs;
`container / blind`, what looking costs; `container / beside`; `alone / plain`, what publishing costs; and
`container / plain`, what both cost together. value and baseline are medians of milliseconds per step, and ratio is the median of
the rounds' ratios, which are in detail as they came. others is what other programs, and the host of a virtual machine, took of all
processors in each of these rounds, over the time of one: in the worse of the two runs. publish_ms is the time in publish per step,
versions those that the observer has analysed in a run, and analysis_ms the time that each took it. The results of all runs are
compared to the last bit.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
OBSERVER = Path(__file__).resolve().parent / "spectrum.py"
NAME = "heat"
TIMEOUT = 600
#: Counters in a region's head (docs/format.md).
PUBLISHED_AT, PUBLISH_NS_AT = 192, 224
#: Where a container has the directory of regions.
INSIDE = "/mnt"
NAMESPACES = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts"]
ENTER = 'mount --bind "$1" "$2"; mount -o remount,bind,ro,nosuid,nodev "$2"; shift 2; exec "$@"'
#: The program of each kind of run, and where its observer is.
KINDS = {
    "plain": ("heat-plain", None),
    "alone": ("heat", None),
    "blind": ("heat", "blind"),
    "beside": ("heat", "beside"),
    "container": ("heat", "container"),
}
MEASURES = (
    ("container", "alone"),
    ("blind", "alone"),
    ("container", "blind"),
    ("container", "beside"),
    ("alone", "plain"),
    ("container", "plain"),
)


def busy_seconds():
    """Time that all processors have worked, for whomever: the host of a virtual machine counts, too."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Time of processors that this process and those of its children that have ended have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Run:
    """One run of the simulation, and of an observer."""

    def __init__(self, kind, args, size, directory):
        program, where = KINDS[kind]
        regions = directory / "regions"
        regions.mkdir(mode=0o700)
        self.observer = None
        processes = []
        begun, busy, own = time.monotonic(), busy_seconds(), own_seconds()
        try:
            if where:
                watching = self.watch(where, args, size, regions)
                processes.append(watching)
                if watching.stdout.readline().strip() != "ready":
                    sys.exit(f"the observer ended with {watching.wait(TIMEOUT)}")
            words = [TARGET / "release" / program, size, size, args.steps, NAME, 1]
            simulation = self.start(words, args.processors[0], regions)
            processes.append(simulation)
            printed, _ = simulation.communicate(timeout=TIMEOUT)
            found = re.search(r"bits (\w+), +([\d.]+) s", printed)
            if simulation.returncode or not found:
                sys.exit(f"{program} ended with {simulation.returncode}: {printed}")
            if where == "blind":
                watching.kill()
                watching.wait()
            elif where:
                printed, _ = watching.communicate(timeout=TIMEOUT)
                if watching.returncode:
                    sys.exit(f"the observer ended with {watching.returncode}")
                self.observer = json.loads(printed)
                if self.observer["last"] != args.steps:
                    sys.exit(f"the observer saw version {self.observer['last']} last, and not {args.steps}")
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        self.others = (busy_seconds() - busy - (own_seconds() - own)) / (time.monotonic() - begun)
        self.bits, self.step_ms = found[1], float(found[2]) / args.steps * 1e3
        self.publish_ms = 0.0
        if program == "heat":
            head = (regions / NAME / "0" / "head").read_bytes()
            published, publish_ns = (int.from_bytes(head[at : at + 8], "little") for at in (PUBLISHED_AT, PUBLISH_NS_AT))
            if published != args.steps:
                sys.exit(f"{published} of {args.steps} steps were published")
            self.publish_ms = publish_ns / args.steps / 1e6
        shutil.rmtree(regions)

    @staticmethod
    def start(words, processor, regions):
        """Starts a program on one processor, by a command that becomes the program: libraries ask how many there are."""
        command = ["taskset", "-c", str(processor), *map(str, words)]
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **threads, "STILLFRAME_DIR": str(regions)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def watch(self, where, args, size, regions):
        """Starts the observer, beside the simulation or in a container; or what looks at nothing."""
        words = [sys.executable, OBSERVER, NAME, size, *(["blind"] if where == "blind" else [])]
        if where == "container":
            words = ["unshare", *NAMESPACES, "sh", "-ec", ENTER, "sh", regions, INSIDE, *words]
            regions = INSIDE
        return self.start(words, args.processors[1], regions)


def measure(args, directory):
    for size in args.sizes:
        runs = {kind: [] for kind in KINDS}
        for number in range(args.rounds):
            for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                runs[kind].append(Run(kind, args, size, directory))
        bits = {run.bits for several in runs.values() for run in several}
        if len(bits) != 1:
            sys.exit(f"the runs do not agree: {bits}")
        for one, other in MEASURES:
            ratios = [a.step_ms / b.step_ms for a, b in zip(runs[one], runs[other])]
            middle = lambda of: round(statistics.median(of), 4)  # noqa: E731
            others = [max(a.others, b.others) for a, b in zip(runs[one], runs[other])]
            detail = {
                "ratios": [round(ratio, 4) for ratio in ratios],
                "others": [round(share, 4) for share in others],
                "publish_ms": middle(run.publish_ms for run in runs[one]),
            }
            if one == "container":
                detail["versions"] = middle(run.observer["versions"] for run in runs[one])
                detail["analysis_ms"] = middle(run.observer["ms"] for run in runs[one])
            yield {
                "bench": "heat-spectrum",
                "case": {"size": size, "steps": args.steps, "measures": f"{one} / {other}"},
                "value": middle(run.step_ms for run in runs[one]),
                "unit": "ms",
                "baseline": middle(run.step_ms for run in runs[other]),
                "ratio": middle(ratios),
                "detail": detail,
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,2048", help="rows and columns of the plate, several with commas (1024,2048)")
    parser.add_argument("--steps", type=int, default=200, help="of each run, every one of which is published (200)")
    parser.add_argument("--rounds", type=int, default=15, help="of one run of each kind (15)")
    parser.add_argument("--quick", action="store_true", help="small and short")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    args = parser.parse_args()
    if args.quick:
        args.sizes, args.steps, args.rounds = "256", 100, 1
    args.sizes = [int(size) for size in args.sizes.split(",")]
    available = sorted(os.sched_getaffinity(0))
    args.processors = (available[0], available[-1])
    if len(available) < 2:
        sys.exit("this takes two processors: one for the simulation, and a free one for the observer")
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="stillframe-enclave-", dir=shm) as directory:
        for row in measure(args, Path(directory)):
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            detail, case = row["detail"], row["case"]
            seen = ""
            if "versions" in detail:
                seen = f"; {detail['versions']:.0f} of {case['steps']} versions analysed, {detail['analysis_ms']:.1f} ms each"
            print(
                f"{case['size']} x {case['size']}, {case['measures']:18}: {row['value']:.3f} ms a step, {row['baseline']:.3f}; "
                f"ratio {row['ratio']:.3f} ({min(detail['ratios']):.3f} to {max(detail['ratios']):.3f}); in publish "
                f"{detail['publish_ms']:.3f} ms{seen}; others had {100 * statistics.median(detail['others']):.0f} % of a processor",
                flush=True,
            )


if __name__ == "__main__":
    main()
