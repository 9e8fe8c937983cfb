#!/usr/bin/env python3
"""A simulation on four processes, and an analysis on three that wants other blocks of the same plate.

    python demo.py [--ranks 4] [--readers 3] [--steps 300] [--out DIRECTORY]

The simulation is that of figure1.py: each process writes its block of the plate and reads its ghost cells. Each process of the
analysis attaches a band of rows, whoever wrote them, and looks at the newest complete version again and again, while the
simulation goes on. At the end there are three pictures: the plate with the blocks of both, the heat that the analysis saw in each
band, and which process had which part, as `still show --svg` draws it.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import stillframe as sf

import figure1

TIMEOUT = 60


def look(reader, options, results):
    """One process of the analysis: a band of rows."""
    heat = sf.object(options.name, wait=TIMEOUT)
    first = reader * options.length // options.readers
    rows = (reader + 1) * options.length // options.readers - first
    band = heat.read("{ var part [x:rows,y:height] = grid[x+first,y] }", rows=rows, first=first, height=options.height)
    seen, version = [], 0
    while version < options.steps + 1:
        version = band.reattach_newer(version, timeout=TIMEOUT)
        part = band.arrays["part"]
        seen.append((version, float(part.sum()), float(part.max())))
    results.put((reader, first, rows, seen, part.copy()))


def draw(options, bands, seconds, out):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plate = np.concatenate([part for _, _, _, _, part in bands])
    figure, axes = plt.subplots(figsize=(7, 5.4), layout="constrained")
    image = axes.imshow(plate, cmap="inferno", origin="upper")
    figure.colorbar(image, label="temperature")
    for rank in range(options.ranks):
        block = figure1.block_of(rank, options.ranks, options.length, options.height)
        corner = (block["ymin"] - 0.5, block["xmin"] - 0.5)
        axes.add_patch(plt.Rectangle(corner, block["yrange"], block["xrange"], fill=False, color="white"))
        axes.text(corner[0] + 4, corner[1] + 4, f"rank {rank}", color="white", va="top")
    for reader, first, rows, _, _ in bands:
        axes.axhline(first - 0.5, color="cyan", linestyle="--")
        axes.text(options.height - 4, first + rows - 6, f"reader {reader}", color="cyan", ha="right")
    axes.set_title(f"version {options.steps + 1}: written in {options.ranks} blocks, read in {options.readers} bands")
    figure.savefig(out / "plate.png", dpi=110)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for reader, _, _, seen, _ in bands:
        versions, heat, _ = zip(*seen)
        change = 100 * (np.array(heat) / heat[0] - 1)
        axes.plot(versions, change, marker=".", label=f"reader {reader}: {len(seen)} versions")
    axes.set_xlabel("version")
    axes.set_ylabel("change of the heat in the band, %")
    axes.set_title(f"what was seen while {options.steps} steps ran in {seconds:.1f} s")
    axes.legend()
    figure.savefig(out / "heat.png", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4, help="processes of the simulation")
    parser.add_argument("--readers", type=int, default=3, help="processes of the analysis")
    parser.add_argument("--length", type=int, default=360, help="rows of the plate")
    parser.add_argument("--height", type=int, default=480, help="columns of the plate")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--name", default="plate", help="of the object")
    parser.add_argument("--still", default=shutil.which("still"), help="the command, for the third picture")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="where the pictures go")
    options = parser.parse_args()
    options.check = False
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} processors; {options.ranks} processes simulate, {options.readers} look at other blocks", flush=True)

    figure1.prepare(options)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    writers = [context.Process(target=figure1.simulate, args=(rank, options.ranks, options)) for rank in range(options.ranks)]
    readers = [context.Process(target=look, args=(reader, options, results)) for reader in range(options.readers)]
    begin = time.monotonic()
    for process in writers + readers:
        process.start()
    heat = sf.object(options.name, wait=TIMEOUT)
    if options.still:
        heat.wait_newer(1, timeout=TIMEOUT)
        picture = options.out / "parts.svg"
        subprocess.run([options.still, "show", options.name, "--svg", str(picture)], stdout=subprocess.DEVNULL, check=True)
    for process in writers:
        process.join()
    seconds = time.monotonic() - begin
    failed = [rank for rank, process in enumerate(writers) if process.exitcode != 0]
    if failed:
        for process in readers:
            process.kill()
        sys.exit(f"ranks {failed} failed")
    bands = sorted(results.get(timeout=TIMEOUT) for _ in readers)
    for process in readers:
        process.join()

    last = {seen[-1][0] for _, _, _, seen, _ in bands}
    plate = heat["grid"][:, :]
    if last != {options.steps + 1} or not np.array_equal(plate, np.concatenate([band[4] for band in bands])):
        sys.exit("the bands are not the plate")
    for reader, first, rows, seen, _ in bands:
        print(f"reader {reader}: rows {first} to {first + rows - 1}, {len(seen)} versions seen, hottest {seen[-1][2]:.2f} at the end")
    draw(options, bands, seconds, options.out)
    heat.remove()
    pictures = ", ".join(str(path) for path in sorted(options.out.glob("*")) if path.suffix in (".png", ".svg"))
    print(f"{options.steps} steps in {seconds:.1f} s; pictures: {pictures}")


if __name__ == "__main__":
    main()
