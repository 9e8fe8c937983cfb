#!/usr/bin/env python3
"""Bulk of 256 MiB from a file to another thread's memory: link-bench beside the same in C, in turns.

`make link-bench` builds it. The C program is built here, with OpenSSL's library (libssl-dev).
The last rows are of libfabric, beside Stillframe's own bulk over TCP (`plain`); without libfabric they are left out.
Prints for each way the medians of both and the median of the turns' ratios, by the clock and by the time that processors worked,
which matters where others use them too; above 1 the first is faster.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

#: Stillframe's `plain` once more, without sendfile.
FROM_MEMORY = "from memory"

HERE = pathlib.Path(__file__).parent
TARGET = HERE / "../../target"


def is_there(means):
    """Whether the library has this way."""
    done = subprocess.run([TARGET / "release/link-bench", means, "1", "1"], capture_output=True, text=True)
    if done.returncode:
        print(f"left out: {done.stderr.strip()}", file=sys.stderr)
    return done.returncode == 0


def seconds(command, read_ahead):
    environment = dict(os.environ, READ_AHEAD="1") if read_ahead else os.environ
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    rounds = [[float(number) for number in line.split()] for line in out.splitlines()]
    rounds = rounds[1:]  # the first brings memory and windows up
    return [statistics.median(column) for column in zip(*rounds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=6, help="transfers of each turn")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", default="", help="ways whose names begin so")
    arguments = parser.parse_args()
    in_c = TARGET / "link-beside-c"
    subprocess.run(["cc", "-O2", "-Wall", "-o", in_c, HERE / "beside_c.c", "-lssl", "-lcrypto", "-lpthread"], check=True)
    size = [str(arguments.mib), str(arguments.rounds)]
    ours = TARGET / "release/link-bench"
    print("| bulk | beside | GB/s | beside | ratio | GB per processor second | beside | ratio |")
    print("|---" * 8 + "|")
    cases = [
        ("plain", "sendfile, recv", [in_c, "plain"], False),
        ("plain", FROM_MEMORY, [ours, "plain"], False),
        ("tls", "OpenSSL", [in_c, "tls"], False),
        ("tls", "OpenSSL, reading ahead", [in_c, "tls"], True),
    ]
    fabrics = [means for means in ("fabric:tcp", "fabric:shm") if is_there(means)]
    cases += [(means, "Stillframe's plain", [ours, "plain"], False) for means in fabrics]
    for means, beside, other, read_ahead in cases:
        if not means.startswith(arguments.only):
            continue
        times, theirs = [], []
        for _ in range(arguments.turns):
            times.append(seconds([ours, means, *size], False))
            theirs.append(seconds([*other, *size, *(["memory"] if beside == FROM_MEMORY else [])], read_ahead))
        cells = []
        for own, beside_it in zip(zip(*times), zip(*theirs)):  # of the clock, of the processors
            ratios = sorted(there / here for here, there in zip(own, beside_it))
            rate = lambda times: f"{arguments.mib * 2**20 / 1e9 / statistics.median(times):.2f}"
            cells += [rate(own), rate(beside_it), f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"]
        print(f"| {means} | {beside} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
