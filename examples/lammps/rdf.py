#!/usr/bin/env python3
"""Observer: radial distribution function and temperature of a live melt.

Attaches to a Stillframe region, takes the newest version whenever it has
finished the previous one, and leaves the simulation alone. At the end it
writes temperature.csv, rdf.csv and rdf.png.

    python rdf.py --region melt --out demo-output
"""
import argparse
import os
from pathlib import Path

# One thread: the other cores belong to the simulation.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import stillframe as sf

R_MAX = 4.0  # sigma: the first four shells of the liquid
BINS = 200


def temperature(snap):
    """Kinetic temperature, in LAMMPS' own definition (3N - 3 degrees of freedom)."""
    # LAMMPS calls out just before the closing half kick of velocity Verlet:
    # x and f are at time t, v is `v_lag` behind. This is that half kick (m = 1).
    v = snap["v"] + snap.attrs["v_lag"] * snap["f"]
    return float(np.sum(v * v)) / (3 * len(v) - 3)


def pair_counts(x, box):
    """Ordered pairs per distance bin in a periodic cube, by cell lists.

    Each cell is compared with its 27 neighbours as one small matrix product,
    |a - b|^2 = a^2 + b^2 - 2 a.b, taken about the cell's own middle so that
    single precision is ample.
    """
    n = max(int(box // R_MAX), 1)
    edge = box / n
    x = x % box
    cell = np.minimum((x / edge).astype(int), n - 1)
    for axis in range(3):  # a layer of periodic images on every face
        low, high = cell[:, axis] == 0, cell[:, axis] == n - 1
        shift = np.eye(3)[axis]
        x = np.concatenate((x, x[low] + box * shift, x[high] - box * shift))
        shift = shift.astype(int)
        cell = np.concatenate((cell, cell[low] + n * shift, cell[high] - n * shift))

    # Sorted by cell, z fastest: three cells in a row of z are one slice.
    wide = n + 2
    index = np.ravel_multi_index((cell + 1).T, (wide, wide, wide))
    order = np.argsort(index)
    x = x[order]
    start = np.searchsorted(index[order], np.arange(wide**3 + 1))

    counts = np.zeros(BINS + 1, dtype=np.int64)
    for i, j, k in np.ndindex(n, n, n):
        rows = [((i + a) * wide + j + b) * wide + k for a in range(3) for b in range(3)]
        middle = (np.array([i, j, k]) + 0.5) * edge
        own = rows[4] + 1
        a = (x[start[own]:start[own + 1]] - middle).astype("f4")
        b = (np.concatenate([x[start[r]:start[r + 3]] for r in rows]) - middle).astype("f4")
        d2 = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
        r = np.sqrt(np.maximum(d2, 0)) * np.float32(BINS / R_MAX)
        counts += np.bincount(np.minimum(r, BINS).astype(int).ravel(), minlength=BINS + 1)
    return counts[:BINS]


def rdf(x, box):
    """g(r) on BINS shells up to R_MAX: pairs found over pairs of an ideal gas."""
    edges = np.linspace(0, R_MAX, BINS + 1)
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    counts = pair_counts(x, box)
    counts[0] -= len(x)  # every atom finds itself
    return counts / (shells * len(x) ** 2 / box**3)


def plot(path, times, temperatures, curves):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 11, "axes.spines.top": False,
                         "axes.spines.right": False, "axes.titleweight": "bold",
                         "axes.titlelocation": "left"})
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained",
                                      width_ratios=(3, 2))
    r = (np.arange(BINS) + 0.5) * R_MAX / BINS
    colour = matplotlib.colors.ListedColormap(plt.get_cmap("plasma")(np.linspace(0.8, 0, 256)))
    # The melt happens early: let the early times have most of the colours.
    scale = matplotlib.colors.PowerNorm(0.4, 0, max(times[-1], 1e-9))
    for i in np.unique(np.linspace(0, len(times) - 1, 30).astype(int)):
        left.plot(r, curves[i], color=colour(scale(times[i])), lw=1.3)
    left.axhline(1, color="0.75", lw=0.8, zorder=0)
    # The crystal's peaks are ten times higher: they leave through the top.
    left.set(xlim=(0.7, R_MAX), ylim=(0, 4.2),
             xlabel="r  (σ)", ylabel="g(r)", title="From crystal to liquid")
    bar = fig.colorbar(plt.cm.ScalarMappable(scale, colour), ax=left, pad=0.02)
    bar.ax.set_title("t (τ)", fontsize=10, fontweight="normal", loc="center")
    bar.outline.set_visible(False)

    right.plot(times, temperatures, color="#c2410c", lw=1.2, alpha=0.5)
    right.scatter(times, temperatures, s=14, color="#c2410c", zorder=3)
    right.set(xlabel="time  (τ)", ylabel="temperature  (ε/k$_B$)",
              title=f"Temperature, {len(times)} versions seen")
    right.set_ylim(0.9 * min(temperatures), 1.05 * max(temperatures))
    fig.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--region", default="melt", help="name of the region (default: melt)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"),
                        help="folder for the results (default: demo-output)")
    parser.add_argument("--patience", type=float, default=600.0,
                        help="leave after this many seconds without a new version")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    versions, steps, times, temperatures, curves = [], [], [], [], []
    with sf.open(args.region, wait=30.0, polite=True) as observer:
        print("ready", flush=True)
        for snap in observer.iterate(timeout=args.patience):
            with snap:
                versions.append(snap.version)
                steps.append(snap.attrs["step"])
                times.append(snap.attrs["time"])
                temperatures.append(temperature(snap))
                curves.append(rdf(snap["x"], snap.attrs["box"]))
            print(f"step {steps[-1]}  version {versions[-1]}  "
                  f"temperature {temperatures[-1]:.4f}", flush=True)

    if versions:
        np.savetxt(args.out / "temperature.csv",
                   np.column_stack((versions, steps, times, temperatures)),
                   fmt=("%d", "%d", "%.6g", "%.17g"), delimiter=",",
                   header="version,step,time,temperature", comments="")
        r = (np.arange(BINS) + 0.5) * R_MAX / BINS
        np.savetxt(args.out / "rdf.csv", np.column_stack((r, *curves)), fmt="%.6g",
                   delimiter=",", comments="",
                   header="r," + ",".join(f"step {s}" for s in steps))
        plot(args.out / "rdf.png", times, temperatures, curves)


if __name__ == "__main__":
    main()
