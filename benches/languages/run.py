#!/usr/bin/env python3
"""The benchmarks `publish` and `rate` of `still bench` through C and Fortran, beside Rust.

A publisher is a program in one of the languages:

    LANGUAGE-publisher DIR REGION BENCH KIND BYTES THREADS PATTERN SHARE

It makes the region with one variable `data` of BYTES bytes, `managed`, `tracked`, or `given` anew with each publish (which
in Rust is how tracked memory is published), writes all of it once, and then does what it reads, line by line, with what
took how many nanoseconds for an answer:

    rate       N              N times: writes the page, publishes; then N times: memcpy of a page
                              -> publish memcpy
    publish    STEP MEASURED  writes the pages of the step, publishes; if MEASURED, the same to plain memory, and memcpy
                              -> write publish plain_write memcpy written_pages dirty_pages copied_pages

The programs of all languages live side by side and are asked in turns, in an order that goes round, so that each figure has
the others' close to it in time. Rust takes part twice: how far its second program is from the first is what the comparison
can tell apart at best. docs/benchmarks.md says how to read the output.

    benches/languages/run.py [--json] [--quick]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

PAGE_BYTES = 4096
BLOCK_STEPS = 64
CONTENDERS = {"rust": "rust", "rust again": "rust", "c": "c", "fortran": "fortran"}


class Publisher:
    """A running program."""

    def __init__(self, program, directory, region, bench, kind, size, threads, pattern="stationary", share=0.0, processor=None):
        pin = None if processor is None else lambda: os.sched_setaffinity(0, {processor})
        words = [str(program), directory, region, bench, kind, str(size), str(threads), pattern, str(share)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=pin
        )

    def __enter__(self):
        return self

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"languages: {self.process.args[0]} ended with {self.process.wait()}")
        return [int(word) for word in answer.split()]

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def in_turns(contenders, turn):
    """The contenders in an order that goes round from turn to turn, and back every other time round."""
    names = list(contenders)
    first = turn % len(names)
    names = names[first:] + names[:first]
    return reversed(names) if turn // len(names) % 2 else names


def compare(bench, case, unit, figures, spread_of):
    """A row per contender. `figures` has a list per contender; entries of the same index were measured side by side."""
    for name in figures:
        ratios = sorted(ours / rust for ours, rust in zip(figures[name], figures["rust"], strict=True))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        yield {
            "bench": bench,
            "case": {"language": name, **case},
            "value": statistics.median(figures[name]),
            "unit": unit,
            "baseline": statistics.median(figures["rust"]),
            "ratio": statistics.median(ratios),
            "detail": {"p10": low, "p90": high, "spread_of": spread_of, "count": len(ratios)},
        }


def rate(start, contenders, kind, arguments):
    """Nanoseconds for one publish of one page."""
    restarts, rounds, count = (1, 5, 200) if arguments.quick else (8, 60, 1000)
    processor = min(os.sched_getaffinity(0))
    figures = {name: [] for name in contenders}
    for restart in range(restarts):
        with ExitStack() as stack:
            running = {
                name: stack.enter_context(start(name, "rate", kind, PAGE_BYTES, 1, processor=processor))
                for name in in_turns(contenders, restart)
            }
            for turn in range(-2, rounds):
                for name in in_turns(contenders, turn):
                    publish_ns, _memcpy_ns = running[name].ask(count)
                    if turn >= 0:
                        figures[name].append(publish_ns / count)
    yield from compare("rate", {"kind": kind, "bytes": PAGE_BYTES, "threads": 1}, "ns", figures, "batches")


def publish(start, contenders, kind, size, pattern, share, threads, arguments):
    """Milliseconds that a step costs, and what of it is the publish."""
    restarts, blocks = (1, 1) if arguments.quick else (arguments.restarts, arguments.blocks)
    settling = 40 if arguments.quick else min(max(int(4 / share) if share else 0, 150), 400)
    cost, publishes, of_memcpy = ({name: [] for name in contenders} for _ in range(3))
    for restart in range(restarts):
        with ExitStack() as stack:
            running = {
                name: stack.enter_context(start(name, "publish", kind, size, threads, pattern, share))
                for name in in_turns(contenders, restart)
            }
            sums = {name: [0] * 4 for name in contenders}
            for step in range(settling + blocks * BLOCK_STEPS):
                written = set()
                for name in in_turns(contenders, step):
                    *times, written_pages, _dirty, _copied = running[name].ask(f"{step} {int(step >= settling)}")
                    written.add(written_pages)
                    if step >= settling:
                        sums[name] = [a + b for a, b in zip(sums[name], times, strict=True)]
                if len(written) != 1:
                    sys.exit(f"languages: step {step} wrote {written} pages: the programs do not do the same")
                if step >= settling and (step - settling) % BLOCK_STEPS == BLOCK_STEPS - 1:
                    for name, (write, publish_ns, plain, memcpy) in sums.items():
                        cost[name].append((write - plain + publish_ns) / BLOCK_STEPS / 1e6)
                        publishes[name].append(publish_ns / BLOCK_STEPS / 1e6)
                        of_memcpy[name].append((write - plain + publish_ns) / memcpy)
                    sums = {name: [0] * 4 for name in contenders}
    case = {"kind": kind, "dirty": share, "threads": threads or "default"}
    if share:
        case["pattern"] = pattern
        measures = {"cost": cost, "publish alone": publishes}
    else:
        measures = {"publish alone": publishes}
    for measure, figures in measures.items():
        for row in compare("publish", {**case, "measures": measure}, "ms", figures, "blocks"):
            name = row["case"]["language"]
            row["detail"]["of_memcpy"] = statistics.median(of_memcpy[name])
            yield row


def parse_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number = float(text.rstrip("KMG")) * units.get(text[-1], 1)
    return int(number) // PAGE_BYTES * PAGE_BYTES


def rows(start, contenders, arguments):
    quick = arguments.quick
    size = parse_bytes(arguments.size or ("16M" if quick else "256M"))
    if "rate" in arguments.bench:
        for kind in ("managed", "tracked", "given"):
            yield from rate(start, contenders, kind, arguments)
    if "publish" in arguments.bench:
        shares = [percent / 100 for percent in arguments.dirty or ((0, 10, 100) if quick else (0, 1, 10, 50, 100))]
        cases = [("stationary", 0.0, 1)] if 0 in shares else []
        for pattern in ("stationary", "random"):
            cases += [(pattern, share, 1) for share in shares if share > 0]
        cases += [("stationary", 1.0, 0)] if 1 in shares else []
        for pattern, share, threads in cases:
            yield from publish(start, contenders, arguments.kind, size, pattern, share, threads, arguments)


def main():
    parser = argparse.ArgumentParser(description="The engine's numbers through C and Fortran, beside Rust's.")
    built = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "languages"
    parser.add_argument("--programs", type=Path, default=built, help="the folder with LANGUAGE-publisher")
    parser.add_argument("--bench", nargs="*", choices=("rate", "publish"), default=("rate", "publish"))
    parser.add_argument("--kind", choices=("managed", "tracked", "given"), default="managed", help="publish: whose memory")
    parser.add_argument(
        "--dirty", nargs="*", type=float, metavar="PERCENT", help="publish: share of the pages that each step writes"
    )
    parser.add_argument("--size", help="publish: size of the region [default: 256M, or 16M with --quick]")
    parser.add_argument("--restarts", type=int, default=3, help="publish: how often all programs are started [default: 3]")
    parser.add_argument("--blocks", type=int, default=3, help="publish: blocks of 64 steps after each start [default: 3]")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line instead of a table")
    parser.add_argument("--quick", action="store_true", help="small and short: does everything work?")
    parser.add_argument("--only", nargs="*", choices=("c", "fortran"), help="these languages beside Rust")
    arguments = parser.parse_args()
    only = arguments.only or ("c", "fortran")
    contenders = [name for name, language in CONTENDERS.items() if language == "rust" or name in only]
    with tempfile.TemporaryDirectory(prefix="stillframe-languages-", dir="/dev/shm") as directory:

        def start(name, *args, **options):
            program = arguments.programs / f"{CONTENDERS[name]}-publisher"
            return Publisher(program, directory, name.replace(" ", "-"), *args, **options)

        if not arguments.json:
            print(f"{'bench':8} {'case':66} {'value':>9} {'rust':>9} {'unit':4} {'ratio':>6}  p10 to p90")
        for row in rows(start, contenders, arguments):
            for part in (row, row["detail"]):
                part.update({key: float(f"{value:.6g}") for key, value in part.items() if isinstance(value, float)})
            if arguments.json:
                print(json.dumps(row), flush=True)
            else:
                text = " ".join(f"{key}={value}" for key, value in row["case"].items() if key != "bytes")
                print(
                    f"{row['bench']:8} {text:66} {row['value']:9.5g} {row['baseline']:9.5g} {row['unit']:4}"
                    f" {row['ratio']:6.3f}  {row['detail']['p10']:.3f} to {row['detail']['p90']:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
