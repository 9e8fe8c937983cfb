#!/usr/bin/env python3
"""How fast a reader on one node has what a writer on another one published, beside the same bytes over TCP.

`make nodes-bench` builds what it runs. The nodes are namespaces of this machine (scripts/nodes.py): they share its processors and one
memory bus, so that only ratios say something. What is compared takes turns in one run; medians, and the range of the
turns' ratios. Above 1 in a column of rates, and below 1 in a column of times, Stillframe is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

from turns import BUILT, HERE, REGIONS, SETTLING, Role, Runtimes, ratio, show  # noqa: I001, puts the path in order
from ghosts import ghosts
from names import names
from nodes import Nodes
from sst import sst


def transfer(layout, mib, plain, turns, with_pack=False):
    """Nanoseconds of a version by Stillframe, by C, of packing and of a loop, for each turn."""
    in_c, own = BUILT / "nodes-beside-c", BUILT / "nodes-bench"
    way = "plain" if plain else "tls"
    with Nodes(2, shm_bytes=8 << 30) as nodes, Runtimes(nodes, plain):
        there, here = nodes[0], nodes[1]
        writer = Role(there, own, "write", REGIONS, layout, mib)
        reader = Role(here, own, "read", REGIONS, layout, mib)
        source = Role(there, in_c, "send", way, there.address, 7900, mib, READ_AHEAD="1")
        target = Role(here, in_c, "receive", way, there.address, 7900, mib, READ_AHEAD="1")
        packing = Role(here, own, "pack", layout, mib) if with_pack else None
        rows = []
        for version in range(1, turns + SETTLING + 1):
            writer.ask(version)
            row = [int(reader.ask(version)), int(target.ask())]
            row += [int(number) for number in packing.ask().split()] if packing else []
            rows.append(row)
        for role in [reader, writer, target, source] + ([packing] if packing else []):
            role.end()
    return list(zip(*rows[SETTLING:]))


def contiguous(arguments, report):
    mib = arguments.mib
    print(f"\n{mib} MiB that lie together, to another node\n")
    print("| bulk | Stillframe GB/s | C GB/s | ratio of rates |")
    print("|---" * 4 + "|")
    for plain in (True, False):
        ours, theirs = transfer("contiguous", mib, plain, arguments.turns)
        rate = lambda times: mib * 2**20 / statistics.median(times)
        ratios = ratio(theirs, ours)
        way = "plain" if plain else "TLS"
        print(f"| {way} | {rate(ours):.2f} | {rate(theirs):.2f} | {show(ratios)} |", flush=True)
        report.append({"row": "contiguous", "bulk": way, "mib": mib, "rates": ratios})


def transforms(arguments, report):
    mib = arguments.mib // 4
    print(f"\n{mib} MiB of another layout, to another node, plain\n")
    print("| layout | ms | packing ms | TCP ms | of the slower | a loop, then TCP ms | of that |")
    print("|---" * 7 + "|")
    for layout in ("every-fourth", "records-to-arrays", "transpose"):
        ours, tcp, packing, loop = transfer(layout, mib, True, arguments.turns, with_pack=True)
        slower = ratio(ours, [max(pair) for pair in zip(tcp, packing)])
        then = ratio(ours, [one + other for one, other in zip(tcp, loop)])
        ms = lambda times: f"{statistics.median(times) / 1e6:.1f}"
        both = [one + other for one, other in zip(tcp, loop)]
        print(f"| {layout} | {ms(ours)} | {ms(packing)} | {ms(tcp)} | {show(slower)} | {ms(both)} | {show(then)} |", flush=True)
        report.append({"row": "transform", "layout": layout, "mib": mib, "of_slower": slower, "of_loop": then})


def processor_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def beside(arguments, report):
    """What a runtime costs who publishes beside it, and what it takes itself while nothing happens."""
    own = BUILT / "nodes-bench"
    print("\na publish beside a runtime, and without one\n")
    print("| fragment | beside µs | without µs | ratio |")
    print("|---" * 4 + "|")
    with Nodes(2, shm_bytes=8 << 30) as nodes, Runtimes(nodes, plain=False) as runtimes:
        for kib in (4, 64, 1024):
            roles = [Role(nodes[0], own, "publish", f"{where}", kib) for where in (REGIONS, f"/dev/shm/alone-{kib}")]
            rows = [[int(role.ask()) for role in roles] for _ in range(arguments.turns + SETTLING)][SETTLING:]
            with_runtime, without = zip(*rows)
            us = lambda times: f"{statistics.median(times) / 1e3:.1f}"
            ratios = ratio(with_runtime, without)
            print(f"| {kib} KiB | {us(with_runtime)} | {us(without)} | {show(ratios)} |", flush=True)
            report.append({"row": "beside", "kib": kib, "ratios": ratios})
            for role in roles:
                role.end()
            nodes[0].run([BUILT / "still", "--dir", REGIONS, "rm", "published"])
        process = runtimes.roles[1].process.inner
        before = processor_seconds(process)
        time.sleep(20)
        share = (processor_seconds(process) - before) / 20
        print(f"\nan idle runtime takes {100 * share:.3f} % of a processor")
        report.append({"row": "idle", "share": share})


ROWS = {"contiguous": contiguous, "transforms": transforms, "beside": beside, "ghosts": ghosts, "sst": sst, "names": names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], help="what to measure; all unless named")
    parser.add_argument("--mib", type=int, default=256, help="MiB of what lies together; a quarter of it in other layouts")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", help="write the ratios there, too")
    arguments = parser.parse_args()
    command = ["cc", "-O2", "-Wall", "-o", BUILT / "nodes-beside-c", HERE / "beside_c.c", "-lssl", "-lcrypto"]
    subprocess.run(command, check=True)
    report = []
    print(f"{os.cpu_count()} processors, which all nodes share")
    for row in arguments.rows or ROWS:
        ROWS[row](arguments, report)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
