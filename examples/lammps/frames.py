#!/usr/bin/env python3
"""Observer: pictures of a live melt, particles coloured by speed.

Attaches to a Stillframe region and draws the newest version whenever it has
finished the previous picture: frame-<step>.png, and melt.gif at the end.

    python frames.py --region melt --out demo-output
"""
import argparse
import os
from pathlib import Path

# One thread: the other cores belong to the simulation.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from PIL import Image

import stillframe as sf

PIXELS = 1600                      # drawn at this size, shown at half: smooth edges
BACKGROUND = np.array([11, 14, 22]) / 255
COLOURS = LinearSegmentedColormap.from_list(
    "speed", ["#2b3fbf", "#6a3fd0", "#c23f9c", "#f0685a", "#fdb14a", "#fbf3a0"])
FASTEST = 3.0                      # sigma/tau, the top of the colour scale


def unit(v):
    return np.array(v) / np.linalg.norm(v)


# An orthographic camera looking at the corner (box, box, box).
TOWARDS = unit([1.0, 0.62, 0.55])
RIGHT = unit(np.cross([0, 0, 1], TOWARDS))
UP = np.cross(TOWARDS, RIGHT)
LIGHT = unit([-0.45, 0.65, 0.75])  # in camera axes: right, up, towards
FACES = np.array([1.05, 0.72, 1.25])  # brightness of the faces x, y, z = box


def spheres(x, speed, box):
    """Shaded picture of the atoms as spheres of diameter sigma.

    Every atom's sphere is stamped offset by offset into the image, far atoms
    first, with a depth buffer deciding what is in front.
    """
    # Periodic, so the origin is free: keep the crystal's planes off the faces.
    x = (x + 0.4) % box
    face = (box - x).argmin(axis=1)          # the nearest of the three visible faces
    buried = (box - x).min(axis=1)           # and the depth below it
    seen = buried < 2.5                      # what lies deeper is hidden
    x, speed, face, buried = x[seen] - box / 2, speed[seen], face[seen], buried[seen]

    scale = 0.99 * PIXELS / (box * max(np.abs(RIGHT).sum(), np.abs(UP).sum()))
    depth = x @ TOWARDS * scale
    order = np.argsort(depth)                # repeated pixels: the last one wins
    depth = depth[order].astype("f4")
    column = np.rint(PIXELS / 2 + x[order] @ RIGHT * scale).astype(int)
    row = np.rint(PIXELS / 2 - x[order] @ UP * scale).astype(int)
    colour = COLOURS(speed[order] / FASTEST)[:, :3]
    # Crevices are dark, and each of the three faces has its own light.
    dim = FACES[face[order]] * (0.3 + 0.7 * np.exp(-buried[order] / 1.1))
    colour *= dim[:, None]
    colour = colour.astype("f4")

    radius = 0.5 * scale
    reach = int(radius)
    pad = reach + 1
    wide = PIXELS + 2 * pad
    image = np.tile(BACKGROUND.astype("f4"), (wide * wide, 1))
    front = np.full(wide * wide, -np.inf, dtype="f4")
    home = np.clip(row, 0, PIXELS - 1) + pad
    home = home * wide + np.clip(column, 0, PIXELS - 1) + pad
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            dz2 = radius**2 - dx * dx - dy * dy
            if dz2 < 0:
                continue
            normal = np.array([dx, -dy, np.sqrt(dz2)]) / radius
            lit = max(normal @ LIGHT, 0)
            shade = np.float32(0.28 + 0.78 * lit)
            gloss = np.float32(0.35 * max(2 * lit * normal[2] - LIGHT[2], 0) ** 12)
            pixel = home + dy * wide + dx
            z = depth + np.float32(np.sqrt(dz2))
            nearer = z > front[pixel]
            pixel = pixel[nearer]
            front[pixel] = z[nearer]
            image[pixel] = colour[nearer] * shade + gloss
    image = image.reshape(wide, wide, 3)[pad:-pad, pad:-pad]
    image = image.reshape(PIXELS // 2, 2, PIXELS // 2, 2, 3).mean(axis=(1, 3))
    return np.clip(image, 0, 1)


class Sheet:
    """One figure, made once; each frame only changes the picture and the words."""

    def __init__(self):
        ink = "#e8eaf0"
        self.fig = plt.figure(figsize=(9, 9.2), dpi=100, facecolor=BACKGROUND)
        axes = self.fig.add_axes([0.01, 0.075, 0.87, 0.851])
        axes.axis("off")
        self.picture = axes.imshow(np.zeros((PIXELS // 2, PIXELS // 2, 3)))
        self.title = self.fig.text(0.04, 0.945, "", color=ink, size=19, weight="bold")
        self.clock = self.fig.text(0.96, 0.945, "", color=ink, size=17, ha="right")
        self.note = self.fig.text(0.04, 0.035, "", color="#9aa3b5", size=12.5)
        bar = self.fig.colorbar(plt.cm.ScalarMappable(plt.Normalize(0, FASTEST), COLOURS),
                                cax=self.fig.add_axes([0.905, 0.2, 0.02, 0.6]))
        bar.set_label("speed  (σ/τ)", color=ink, size=13)
        bar.ax.tick_params(colors=ink, labelsize=11)
        bar.outline.set_visible(False)

    def draw(self, snap, path):
        # LAMMPS calls out just before the closing half kick of velocity Verlet:
        # v is `v_lag` behind x and f. This is that half kick (m = 1).
        v = snap["v"] + snap.attrs["v_lag"] * snap["f"]
        speed2 = np.einsum("ij,ij->i", v, v)
        temperature = speed2.sum() / (3 * len(v) - 3)
        count = f"{len(v):,}".replace(",", "\u2009")
        self.picture.set_data(spheres(snap["x"], np.sqrt(speed2), snap.attrs["box"]))
        self.title.set_text("Lennard-Jones melt")
        self.clock.set_text(f"step {snap.attrs['step']}   t = {snap.attrs['time']:.3f} τ")
        self.note.set_text(f"{count} atoms   ·   temperature {temperature:.3f} ε/k$_B$"
                           f"   ·   version {snap.version}, read while LAMMPS runs")
        self.fig.savefig(path, facecolor=BACKGROUND, pil_kwargs={"compress_level": 1})


def film(paths, out):
    """All frames as an animation small enough to pass around."""
    paths = [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, 60).astype(int))]
    pictures = [Image.open(p).convert("RGB").resize((540, 552), Image.LANCZOS) for p in paths]
    pictures[0].save(out, save_all=True, append_images=pictures[1:], loop=0,
                     duration=[160] * (len(pictures) - 1) + [1500])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--region", default="melt", help="name of the region (default: melt)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"),
                        help="folder for the pictures (default: demo-output)")
    parser.add_argument("--patience", type=float, default=600.0,
                        help="leave after this many seconds without a new version")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    sheet = Sheet()
    paths = []
    with sf.open(args.region, wait=30.0, polite=True) as observer:
        print("ready", flush=True)
        for snap in observer.iterate(timeout=args.patience):
            with snap:
                paths.append(args.out / f"frame-{snap.attrs['step']:06d}.png")
                sheet.draw(snap, paths[-1])
                done = f"step {snap.attrs['step']}  version {snap.version}"
            print(done, paths[-1].name, sep="  ", flush=True)
    if paths:
        film(paths, args.out / "melt.gif")


if __name__ == "__main__":
    main()
