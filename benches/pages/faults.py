#!/usr/bin/env python3
"""Which part of memory management hurts: what a first touch, its zeros, a miss and a merge cost, in pages of each kind, alone and
beside work that competes for memory. The paper's Figures 2 to 5 (HPMMAP, section II), on this kernel.

    benches/pages/faults.py [--mib 1024] [--turns 5] [--loads none,build,cache] [--kinds small,thp,hugetlb] [--json]

The kinds take turns. Reserved pages are reserved at the beginning and given back at the end, which takes root; without it they are left
out. Each line of --json is one measured turn as `pages-bench` prints it, with its load.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from load import ROOT, LoadError, Loads  # noqa: E402
from reserve import reserved  # noqa: E402

BENCH = ROOT / "target" / "release" / "pages-bench"
TIMEOUT = 600


def measure(what, mib, load):
    """What pages-bench says, which has the second processor for itself as far as the load lets it."""
    words = [BENCH, "--mib", str(mib), *what]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise LoadError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return {"load": load, "what": what[0], **json.loads(done.stdout)}


def table(rows, title, head, line):
    print(f"\n{title}\n\n{head}\n{'|---' * (head.count('|') - 1)}|")
    for row in rows:
        print(line(row))


def middle(measured, *path):
    """The median over the turns of one number."""
    numbers = []
    for one in measured:
        for key in path:
            one = one[key]
        numbers.append(one)
    return statistics.median(numbers)


def report(measured):
    groups = {}
    for one in measured:
        groups.setdefault((one["what"], one.get("kind", ""), one["load"]), []).append(one)
    of = lambda what: [(key[1], key[2], turns) for key, turns in groups.items() if key[0] == what]  # noqa: E731

    def faults(row):
        kind, load, turns = row
        gib = turns[0]["bytes"] / 2**30
        fault = [f"{middle(turns, 'fault', name) / 1000:.2f}" for name in ("mean_ns", "deviation_ns", "median_ns", "p99_ns", "most_ns")]
        whole = [f"{middle(turns, name) / gib / 1e6:.0f}" for name in ("touched_ns", "populated_ns", "zeros_ns")]
        return "| " + " | ".join([kind, load, str(int(middle(turns, "faults"))), *fault, *whole]) + " |"

    table(
        of("faults"),
        "First touch of each page, µs, and ms for a GiB",
        "| pages | beside | faults | mean | deviation | median | p99 | longest | touched | populated | zeros alone |",
        faults,
    )
    table(
        of("misses"),
        "Reads at random places, each of which depends on the one before, ns",
        "| pages | beside | read |",
        lambda row: f"| {row[0]} | {row[1]} | {middle(row[2], 'read_ns'):.1f} |",
    )

    def merges(row):
        _, load, turns = row
        merge = [f"{middle(turns, 'merge', name) / 1000:.0f}" for name in ("mean_ns", "deviation_ns", "most_ns")]
        stall = [f"{middle(turns, 'stall', name) / 1000:.0f}" for name in ("mean_ns", "most_ns")]
        return "| " + " | ".join([load, *merge, *stall]) + " |"

    table(
        of("merges"),
        "512 small pages made into a large one, and how long a thread that writes into them stands still, µs",
        "| beside | merge, mean | deviation | longest | still, mean | longest |",
        merges,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="of memory that is measured (1024)")
    parser.add_argument("--turns", type=int, default=5, help="of each (5)")
    parser.add_argument("--loads", default="none,build,cache", help="beside what (none,build,cache)")
    parser.add_argument("--kinds", default="small,thp,hugetlb", help="of pages (small,thp,hugetlb)")
    parser.add_argument("--jobs", default="2", help="of each build, one build for each number (2)")
    parser.add_argument("--json", action="store_true", help="print each turn, and no tables")
    options = parser.parse_args()
    measured = []
    try:
        with reserved(options.mib if "hugetlb" in options.kinds else 0) as has_reserved:
            kinds = [kind for kind in options.kinds.split(",") if has_reserved or kind != "hugetlb"]
            for load in options.loads.split(","):
                with Loads(load, ROOT / "target" / "pages", options.jobs.split(",")) as loads:
                    for turn in range(options.turns):
                        for kind in kinds if turn % 2 == 0 else reversed(kinds):
                            for what in (["faults", kind], ["misses", kind]):
                                loads.check()
                                measured.append(measure(what, options.mib, load))
                        measured.append(measure(["merges"], options.mib // 4, load))
                        print(f"{load}, turn {turn + 1} of {options.turns}", file=sys.stderr, flush=True)
    except LoadError as error:
        sys.exit(f"faults.py: {error}")
    if options.json:
        for one in measured:
            print(json.dumps(one))
    else:
        report(measured)


if __name__ == "__main__":
    main()
