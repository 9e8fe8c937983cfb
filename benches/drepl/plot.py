#!/usr/bin/env python3
"""Draws what drepl-bench and beside_numpy.py printed with --json: ratios to hand-written loops, numpy and memcpy.

    plot.py drepl.jsonl drepl.png
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BASELINES = {
    "executor": ("the faster of two hand-written loops", "tab:blue", "o"),
    "numpy": ("numpy's assignment", "tab:orange", "s"),
    "repartition": ("memcpy", "tab:green", "D"),
}


def size(kib):
    return f"{kib} KiB" if kib < 1024 else f"{kib // 1024} MiB"


def main():
    source, target = sys.argv[1:3]
    rows = [json.loads(line) for line in open(source)]
    cases = []
    for row in rows:
        case = (row["case"]["kind"], row["case"]["kib"])
        if case not in cases:
            cases.append(case)
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.2 * len(cases)), layout="constrained")
    for bench, (label, colour, marker) in BASELINES.items():
        mine = [row for row in rows if row["bench"] == bench]
        places = [cases.index((row["case"]["kind"], row["case"]["kib"])) for row in mine]
        ratios = [row["ratio"] for row in mine]
        low = [max(row["ratio"] - row["detail"]["ratio_low"], 0) for row in mine]
        high = [max(row["detail"]["ratio_high"] - row["ratio"], 0) for row in mine]
        if mine:
            style = {"fmt": marker, "color": colour, "markersize": 4, "elinewidth": 0.8}
            axes.errorbar(ratios, places, xerr=[low, high], label=f"time / {label}", **style)
    axes.axvline(1, color="black", linewidth=0.8)
    labels = [f"{kind}, {size(kib)}" for kind, kib in cases]
    axes.set_yticks(range(len(cases)), labels, fontsize=7)
    axes.set_ylim(len(cases), -1)
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 1.5, 2, 3]
    axes.set(xscale="log", xlabel="ratio of times in turns, median and 80 % of the turns; left of 1 drepl is faster")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0.04, 4)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower left")
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
