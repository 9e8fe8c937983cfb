#!/usr/bin/env python3
"""Draws what abacus-bench --json printed: cost per step over the size of the state, as in the paper's Figure 1.

    abacus-bench --json | tee abacus.jsonl; benches/abacus/plot.py abacus.jsonl abacus.png
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LOOKS = {
    "linked": ("mmap, munmap; unlinked after", "tab:red", "-o"),
    "unlinked": ("mmap, munmap; unlinked before", "tab:red", "--s"),
    "turns": ("mmap, munmap; two files in turns", "tab:orange", "-.^"),
    "stillframe": ("Stillframe, 4 KiB pages", "tab:blue", "-o"),
    "stillframe-one-thread": ("Stillframe, 4 KiB pages, one thread", "tab:cyan", "-.^"),
    "stillframe-large": ("Stillframe, large pages", "tab:blue", "--s"),
}


def main():
    source, target = sys.argv[1:3]
    rows = [json.loads(line) for line in open(source)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.6), layout="constrained")
    for means, (label, colour, line) in LOOKS.items():
        mine = sorted((row["case"]["mib"] / 1024, row) for row in rows if row["case"]["means"] == means)
        sizes = [size for size, _ in mine]
        # What is lost between two passes of computing may be less than nothing; a logarithm cannot show it.
        left.plot(sizes, [max(row["value"], 1.0) for _, row in mine], line, color=colour, label=label)
        if means in ("linked", "unlinked"):
            unmap = [row["detail"]["parts_ms"]["munmap read"] for _, row in mine]
            right.plot(sizes, unmap, line, color=colour, label=f"munmap of the read state, {means}")
        if means.startswith("stillframe"):
            close = [max(row["detail"]["parts_ms"]["close"], 0.1) for _, row in mine]
            right.plot(sizes, close, line, color=colour, label=f"closing both states, {label}")
    left.set(title="Cost of a step beside computing", ylabel="ms")
    right.set(title="Releasing alone (the paper's Figure 1)", ylabel="ms")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="size of the state in GiB")
        ticks = sorted({row["case"]["mib"] / 1024 for row in rows})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize="small", frameon=False)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
