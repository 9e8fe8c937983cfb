#!/usr/bin/env python3
"""Draws what `still bench first-write --json` printed: how the cycles of a first write after a publish are distributed, with what the
text of the XASM paper says of its Figures 5 and 6.

    still bench first-write --json > first-write.jsonl; benches/first-write/plot.py first-write.jsonl first-write.png
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

#: The paper: a fault takes about 3000 cycles in the common case, and Linux is more than 1000 cycles later in about 25 % of them (the
#: text) or 20 % (the caption of Figure 6).
COMMON, LATER, LATER_SHARES = 3000, 4000, (0.20, 0.25)
COLOURS = {"wp_async": "tab:blue", "soft_dirty": "tab:green", "private_cow": "tab:red", "full_copy": "tab:purple"}
REFERENCES = {"untracked": ("untracked", "0.6"), "forked": ("copy-on-write after a fork", "black")}
LINES = {"tracked": "-", "managed": "--", "managed-cold": ":"}
#: The least that a logarithmic axis shows: what met no fault lies here.
LEAST = 10


def main():
    source, target = sys.argv[1:3]
    rows = [row for row in map(json.loads, open(source)) if row["bench"] == "first-write"]
    rate = next(row["value"] for row in rows if row["case"]["measures"].startswith("rate of the counter"))
    rows = [row for row in rows if row["case"]["measures"] == "p50 / paper"]
    figure, (body, tail) = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
    for row in rows:
        case = row["case"]
        label, colour = REFERENCES.get(case["memory"], (f"{case.get('tracker')}, {case['memory']}", None))
        style = {"color": colour or COLOURS[case["tracker"]], "linestyle": LINES.get(case["memory"], "-."), "label": label}
        shares = [share for share, _ in row["detail"]["distribution"]]
        cycles = [max(cycles, LEAST) for _, cycles in row["detail"]["distribution"]]
        body.plot(cycles, shares, **style)
        # The last one is the longest of all, of which there is one in so many.
        rest = [1 - share or 1 / row["detail"]["writes"] for share in shares]
        tail.plot(cycles, rest, **style)
    for axes in (body, tail):
        axes.axvline(COMMON, color="tab:orange", lw=1, label=f"paper, Kitten and Linux: about {COMMON}, at 2.2 GHz")
        axes.set(xscale="log", xlabel=f"cycles of {rate:.2f} GHz, less those of the same loop over written pages")
        axes.grid(alpha=0.3)
    paper = {"color": "tab:orange", "lw": 5, "alpha": 0.6, "solid_capstyle": "butt"}
    body.plot([LATER] * 2, [1 - share for share in LATER_SHARES], **paper, label="paper, Linux: 20 to 25 % take over 1000 more")
    tail.plot([LATER] * 2, LATER_SHARES, **paper)
    tail.axhline(0.01, color="0.6", lw=1, linestyle=":")
    body.set(title="Share of first writes that took no longer", ylabel="share")
    tail.set(title="Share of first writes that took longer", yscale="log", ylabel="share")
    handles, labels = body.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
