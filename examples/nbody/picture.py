#!/usr/bin/env python3
"""Draws checkpoints of the N-body example: picture.py STORE PICTURE.png [VERSION]...

Checkpoints are directories of plain files, so numpy alone reads them.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def positions(checkpoint):
    """The array x of a checkpoint: its chunks are runs of rows, one file each, the last one padded."""
    about = json.loads((checkpoint / "x/zarr.json").read_text())
    rows, columns = about["shape"]
    chunks = sorted((checkpoint / "x/c").glob("*/0"), key=lambda chunk: int(chunk.parent.name))
    numbers = np.concatenate([np.fromfile(chunk, "<f8") for chunk in chunks])
    return numbers.reshape(-1, columns)[:rows]


def main():
    store, picture = Path(sys.argv[1]), sys.argv[2]
    wanted = [int(version) for version in sys.argv[3:]]
    checkpoints = sorted(path for path in store.glob("v*.zarr") if not wanted or int(path.name[1:-5]) in wanted)
    figure, panels = plt.subplots(
        1, len(checkpoints), figsize=(3.2 * len(checkpoints), 3.4), squeeze=False, layout="constrained"
    )
    for panel, checkpoint in zip(panels[0], checkpoints):
        x = positions(checkpoint)
        told = json.loads((checkpoint / "zarr.json").read_text())["attributes"]
        half = len(x) // 2
        for stars, colour in ((x[:half], "#ffb454"), (x[half:], "#59c2ff")):
            panel.scatter(stars[:, 0], stars[:, 1], s=0.8, linewidths=0, color=colour)
        time = told["attributes"]["time"]
        panel.set(title=f"version {told['version']}, time {time:.1f}", xlim=(-3, 3), ylim=(-3, 3), aspect="equal")
        panel.set_facecolor("#0b0e14")
        panel.set_xticks([-2, 0, 2])
        panel.set_yticks([-2, 0, 2])
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main()
