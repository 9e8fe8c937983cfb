#!/usr/bin/env python3
"""Gray-Scott with its analysis beside it, against the same analysis compiled in.

Runs the simulation twice: watched by observe.py, and with the analysis in its own loop. Both have to find the same, to
the last bit. Then it draws what was found, and the last version as it was published.

    demo.py --out demo-output/gray-scott
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import reducers

HERE = Path(__file__).resolve().parent
TIMEOUT = 600


def run(program, *arguments, **options):
    """Starts a program of this folder."""
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def finish(process):
    """Waits for a program, and returns what it said."""
    said, _ = process.communicate(timeout=TIMEOUT)
    if process.returncode:
        sys.exit(f"{' '.join(process.args)} ended with {process.returncode}")
    return said


def both(args, out, environment):
    """Runs the simulation both ways, one after the other."""
    size = ["--cells", args.cells, "--steps", args.steps, "--every", args.every]
    children = []
    try:
        children.append(run("observe.py", out / "observed", env=environment))
        children.append(run("gray_scott.py", *size, env=environment))
        watched = json.loads(finish(children[1]))
        print(f"observed: {finish(children[0]).strip()} of {args.steps // args.every}, {watched['seconds']:.2f} s")
        children.append(run("gray_scott.py", *size, "--inline", out / "inline", env=environment))
        inline = json.loads(finish(children[2]))
        print(f"inline: {args.steps // args.every} versions, {inline['seconds']:.2f} s")
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
    if watched["state"] != inline["state"]:
        sys.exit("the simulation did not end in the same state")


def compare(observed, inline):
    """Holds what the observer found against what the simulation found itself; returns how many versions it saw."""
    counts = set()
    for name in ("statistics.csv", "histogram.npy", "spectrum.npy"):
        if name.endswith(".csv"):
            rows, all_rows = ((folder / name).read_text().splitlines() for folder in (observed, inline))
        else:
            rows, all_rows = ([row.tobytes() for row in np.load(folder / name)] for folder in (observed, inline))
        # On a busy machine the observer may have come too late for a version; what it saw has to be the same.
        if not rows or not set(rows) <= set(all_rows):
            sys.exit(f"{name}: {observed} has rows that {inline} does not have")
        counts.add(len(rows) - name.endswith(".csv"))
    (count,) = counts
    return count


def draw(out, pattern):
    """The pattern, and what became of its spectrum and histogram."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    histogram, spectrum = (np.load(out / "observed" / name) for name in ("histogram.npy", "spectrum.npy"))
    table = np.genfromtxt(out / "observed" / "statistics.csv", delimiter=",", names=True)
    figure, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    image = axes[0, 0].imshow(pattern, cmap="magma", vmin=0)
    axes[0, 0].set(title=f"v, version {pattern.attrs['version']}", xticks=[], yticks=[], xlabel="", ylabel="")
    figure.colorbar(image, ax=axes[0, 0], shrink=0.8)

    time = spectrum["time"]
    colours = plt.get_cmap("viridis")
    for row in spectrum[:: max(1, len(spectrum) // 12)]:
        k, power = row["v_k"][1:], row["v_power"][1:]
        axes[0, 1].loglog(k, power, color=colours(row["time"] / time[-1]), lw=1)
    scale = plt.cm.ScalarMappable(plt.Normalize(0, time[-1]), colours)
    figure.colorbar(scale, ax=axes[0, 1], label="step", shrink=0.8)
    axes[0, 1].set(title="power spectrum of v", xlabel="wave number (1 / cell)", ylabel="power")
    axes[0, 1].set_ylim(bottom=spectrum["v_power"][:, 1:].max() * 1e-8)

    edges, counts = histogram["v_edges"][0], histogram["v_count"].T
    shown = np.ma.masked_equal(counts, 0)
    mesh = axes[1, 0].pcolormesh(
        time, (edges[1:] + edges[:-1]) / 2, shown, norm="log", cmap="viridis", shading="nearest"
    )
    figure.colorbar(mesh, ax=axes[1, 0], label="cells", shrink=0.8)
    axes[1, 0].set(title="histogram of v", xlabel="step", ylabel="v")

    axes[1, 1].plot(table["time"], table["u_mean"], label="u, mean", color="#2a6f97")
    axes[1, 1].plot(table["time"], table["v_mean"], label="v, mean", color="#c1121f")
    axes[1, 1].plot(table["time"], table["v_std"], label="v, standard deviation", color="#c1121f", ls=":")
    axes[1, 1].set(title="statistics", xlabel="step", ylim=(0, 1))
    axes[1, 1].legend(frameon=False)
    figure.savefig(out / "gray-scott.png", dpi=110)
    print(out / "gray-scott.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo-output/gray-scott"))
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--every", type=int, default=40)
    args = parser.parse_args()
    for way in ("observed", "inline"):
        for name in reducers.of():
            (args.out / way / name).unlink(missing_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="stillframe-gray-scott-", dir=shm) as regions:
        # One thread each: the other processors are the other program's.
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        both(args, args.out, {**os.environ, **threads, "STILLFRAME_DIR": regions})
        import xarray as xr

        # The region outlives the program: its last version can still be had.
        with xr.open_dataset("gray-scott", engine="stillframe", dir=regions) as dataset:
            pattern = dataset["v"].load().assign_attrs(dataset.attrs)
    count = compare(args.out / "observed", args.out / "inline")
    print(f"both found the same, to the last bit, in {count} versions")
    draw(args.out, pattern)


if __name__ == "__main__":
    main()
