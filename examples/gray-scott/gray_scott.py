#!/usr/bin/env python3
"""The Gray-Scott reaction on a periodic square, which publishes as it goes, or analyses by itself.

    gray_scott.py                      publishes a version every 10 steps, as the region `gray-scott`
    gray_scott.py --inline results     publishes nothing, and has the analysis compiled in
    gray_scott.py --plain              neither

Two substances diffuse; v feeds on u, decays, and u is fed from outside. What is printed at the end is one line of JSON.
"""

import argparse
import hashlib
import json
import time

import numpy as np

# Spots that divide until they fill the square.
FEED, KILL = 0.0367, 0.0649
DIFFUSION_U, DIFFUSION_V = 0.16, 0.08


def seed(u, v):
    """A few drops of v, always the same."""
    random = np.random.default_rng(1)
    n = len(u)
    u[...], v[...] = 1.0, 0.0
    for y, x in random.integers(0, n, (max(n * n // 8000, 4), 2)):
        drop = np.ix_(np.arange(y - 4, y + 4) % n, np.arange(x - 4, x + 4) % n)
        u[drop], v[drop] = 0.5, 0.25 + 0.05 * random.random((8, 8))


def spread(a, out):
    """What flows to each cell from its four neighbours."""
    np.multiply(a, -4, out=out)
    out[1:] += a[:-1]
    out[:-1] += a[1:]
    out[0] += a[-1]
    out[-1] += a[0]
    out[:, 1:] += a[:, :-1]
    out[:, :-1] += a[:, 1:]
    out[:, 0] += a[:, -1]
    out[:, -1] += a[:, 0]


def advance(u, v, steps, work):
    """Lets steps go by, in place."""
    du, dv, eaten = work
    for _ in range(steps):
        spread(u, du)
        spread(v, dv)
        np.multiply(v, v, out=eaten)
        eaten *= u
        du *= DIFFUSION_U
        du -= eaten
        du += FEED
        dv *= DIFFUSION_V
        dv += eaten
        u *= 1 - FEED
        u += du
        v *= 1 - FEED - KILL
        v += dv


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=512, help="along each edge")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--every", type=int, default=10, help="steps from one version, or analysis, to the next")
    parser.add_argument("--name", default="gray-scott", help="of the region")
    parser.add_argument("--inline", metavar="FOLDER", help="analyse here, into this folder, and publish nothing")
    parser.add_argument("--plain", action="store_true", help="neither publish nor analyse")
    args = parser.parse_args()

    shape = (args.cells, args.cells)
    region, series = None, []
    if args.inline or args.plain:
        u, v = np.empty(shape), np.empty(shape)
    else:
        import stillframe as sf

        region = sf.create(args.name, keep=8, fresh=True)
        u = region.array("u", shape, attrs={"dims": "y x"})
        v = region.array("v", shape, attrs={"dims": "y x"})
    if args.inline:
        import reducers

        series = reducers.open_all(args.inline)

    seed(u, v)
    work = [np.empty(shape) for _ in range(3)]
    beside = 0.0
    begin = time.perf_counter()
    for step in range(args.every, args.steps + 1, args.every):
        advance(u, v, args.every, work)
        stop = time.perf_counter()
        if region:
            region.publish(step, attrs={"time": float(step)})
        for file in series:
            file.add({"u": u, "v": v}, step, {"time": float(step)})
        beside += time.perf_counter() - stop
    seconds = time.perf_counter() - begin
    for file in series:
        file.close()
    if region:
        region.close()
    state = hashlib.sha256(u.tobytes() + v.tobytes()).hexdigest()[:16]
    print(json.dumps({"seconds": seconds, "beside_seconds": beside, "state": state}))


if __name__ == "__main__":
    main()
