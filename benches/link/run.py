#!/usr/bin/env python3
"""Bulk of 256 MiB from a file to another thread's memory: link-bench beside the same in C, in turns.

`make link-bench` builds it. The C program is built here, with OpenSSL's library (libssl-dev).
Prints for each way the medians of both and the median of the turns' ratios, by the clock and by the time that processors worked,
which matters where others use them too; above 1 Stillframe is faster.
"""

import argparse
import os
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
TARGET = HERE / "../../target"


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
    arguments = parser.parse_args()
    in_c = TARGET / "link-beside-c"
    subprocess.run(["cc", "-O2", "-Wall", "-o", in_c, HERE / "beside_c.c", "-lssl", "-lcrypto", "-lpthread"], check=True)
    size = [str(arguments.mib), str(arguments.rounds)]
    print("| bulk | beside | Stillframe GB/s | C GB/s | ratio | Stillframe GB per processor second | C | ratio |")
    print("|---" * 8 + "|")
    cases = [("plain", "sendfile, recv", False), ("tls", "OpenSSL", False), ("tls", "OpenSSL, reading ahead", True)]
    for means, beside, read_ahead in cases:
        ours, theirs = [], []
        for _ in range(arguments.turns):
            ours.append(seconds([TARGET / "release/link-bench", means, *size], False))
            theirs.append(seconds([in_c, means, *size], read_ahead))
        cells = []
        for own, other in zip(zip(*ours), zip(*theirs)):  # of the clock, of the processors
            ratios = sorted(there / here for here, there in zip(own, other))
            rate = lambda times: f"{arguments.mib * 2**20 / 1e9 / statistics.median(times):.2f}"
            cells += [rate(own), rate(other), f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"]
        print(f"| {means} | {beside} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
