#!/usr/bin/env python3
"""A simulation over two nodes, and an observer on a third, all of them made of one machine.

    python demo.py [--ranks 4] [--steps 1000] [--delay-ms 0] [--loss 0] [--out DIRECTORY]

The nodes are namespaces (scripts/nodes.py): each has a network and a memory of its own, and a runtime of Stillframe. The
simulation is the one of examples/objects/figure1.py, as it is: each rank writes its block of a plate and reads its ghost
cells, whichever node they are on. The observer reads the whole plate, again and again. At the end the plate is compared
with a run in one process, to the last bit, and there are two pictures: the plate with which node has which part, and how
fast it went.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "examples" / "objects")]

import figure1  # noqa: E402
from nodes import Nodes, NodesError  # noqa: E402
from nodes_runtimes import Runtimes  # noqa: E402

TIMEOUT = 60
#: Nodes with ranks, and the one of the observer.
COMPUTING, OBSERVING = (0, 1), 2
COLOURS = ("#4cc9f0", "#9ef01a", "#f9c74f")
SAMPLE_SECONDS = 0.1


def observe(options, result):
    """On the third node: the whole plate, again and again, and the last version of it into a file."""
    import stillframe as sf

    heat = sf.object(options.name, wait=TIMEOUT)
    plate = heat.read("{ var plate = grid }")
    seen, version, last = [], 0, options.steps + 1
    while version < last:
        try:
            version = plate.reattach_newer(version, timeout=TIMEOUT)
        except sf.Lost:
            # The ranks went on before it had arrived.
            continue
        seen.append((time.monotonic(), version))
        if len(seen) % 50 == 1 or version == last:
            print(f"observer on {os.uname().nodename}: version {version} of {last}", flush=True)
    np.save(result / "plate.npy", plate.arrays["plate"])
    (result / "seen.json").write_text(json.dumps(seen))


def node_of(rank, options):
    """The node of a rank: neighbours in the plate share one where they can."""
    return COMPUTING[rank * len(COMPUTING) // options.ranks]


def received_bytes(node):
    """What has come over a node's link."""
    lines = Path(f"/proc/{node.pid}/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "eth0:")


def sample(nodes, until, samples):
    while not until.wait(SAMPLE_SECONDS):
        samples.append((time.monotonic(), [received_bytes(node) for node in nodes]))


def run(options):
    """The whole run: the plate, what the observer saw and when, and bytes that each node had received by then."""
    with Nodes(3, options.delay_ms, options.loss) as nodes, Runtimes(nodes, options.still) as runtimes:
        link = (
            f", {options.delay_ms:g} ms late and {options.loss:.1%} lost by {nodes.means}"
            if nodes[0].link != (0, 0, 0)
            else ""
        )
        for node in nodes:
            does = "observer" if node.index == OBSERVING else "ranks"
            print(
                f"{node.name} at {node.address}: {does}, runtime {runtimes.said[node.index]['node']} of the job{link}",
                flush=True,
            )
        words = [sys.executable, Path(__file__).resolve(), *options.words]
        stop, samples = threading.Event(), []
        sampling = threading.Thread(target=sample, args=(nodes, stop, samples))
        observer = nodes[OBSERVING].popen([*words, "--observe", nodes.folder])
        ranks = [nodes[node_of(rank, options)].popen([*words, "--rank", str(rank)]) for rank in range(options.ranks)]
        sampling.start()
        try:
            statuses = [process.wait(options.limit) for process in [*ranks, observer]]
        except subprocess.TimeoutExpired:
            raise NodesError(f"it has not ended after {options.limit} s") from None
        finally:
            stop.set()
            sampling.join()
        if any(statuses):
            raise NodesError(f"a rank or the observer failed: {statuses}")
        plate = np.load(nodes.folder / "plate.npy")
        return plate, json.loads((nodes.folder / "seen.json").read_text()), samples


def draw_plate(options, plate, path):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.6, 5.6), layout="constrained")
    image = axes.imshow(plate, cmap="inferno", origin="upper")
    figure.colorbar(image, label="temperature", shrink=0.9)
    for rank in range(options.ranks):
        block = figure1.block_of(rank, options.ranks, options.length, options.height)
        node = node_of(rank, options)
        corner = (block["ymin"] + 1, block["xmin"] + 1)
        edge = {"fill": False, "edgecolor": COLOURS[node], "linewidth": 2.5}
        axes.add_patch(plt.Rectangle(corner, block["yrange"] - 3, block["xrange"] - 3, **edge))
        text = f"rank {rank} on node{node + 1}"
        box = {"facecolor": "black", "alpha": 0.6, "edgecolor": "none", "pad": 3}
        axes.text(corner[0] + 6, corner[1] + 7, text, color=COLOURS[node], va="top", fontsize=11, bbox=box)
    axes.set_xlabel("second index")
    axes.set_ylabel("first index")
    axes.set_title(f"version {options.steps + 1}, written on two nodes and read whole on node{OBSERVING + 1}")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def rates(times, counts, width_seconds):
    """How fast counts grow, in windows of this width: their middles, and the rates."""
    times, counts = np.array(times), np.array(counts, dtype=float)
    edges = np.arange(times[0], times[-1] + width_seconds / 2, width_seconds)
    if len(edges) < 2:
        edges = np.array([times[0], times[-1]])
    grown = np.diff(np.interp(edges, times, counts)) / np.diff(edges)
    return (edges[:-1] + edges[1:]) / 2, grown


def draw_rates(options, seen, samples, path):
    from matplotlib import pyplot as plt

    times, versions = zip(*seen)
    begin = times[0]
    width = max(4 * SAMPLE_SECONDS, (times[-1] - begin) / 40)
    figure, (above, below) = plt.subplots(2, 1, figsize=(9.2, 6), sharex=True, layout="constrained")
    middles, steps = rates(times, versions, width)
    above.plot(middles - begin, steps, color="black", label="steps of the simulation")
    middles, looks = rates(times, range(len(seen)), width)
    above.plot(middles - begin, looks, color=COLOURS[OBSERVING], label=f"versions that node{OBSERVING + 1} read")
    above.set_ylabel("per second")
    above.set_title(f"{options.steps} steps on {options.length} × {options.height} cells: one machine, three nodes")
    moments, counts = zip(*[one for one in samples if times[0] - width <= one[0] <= times[-1]] or samples)
    for index, received in enumerate(zip(*counts)):
        middles, grown = rates(moments, received, width)
        what = "the plate" if index == OBSERVING else "ghost cells"
        below.plot(middles - begin, grown / 1e6, color=COLOURS[index], label=f"node{index + 1}: {what}")
    below.set_yscale("log")
    below.set_ylabel("received, MB/s")
    below.set_xlabel("seconds since the observer's first version")
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    above.set_ylim(bottom=0)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4, help="processes of the simulation, half of them on each node")
    parser.add_argument("--length", type=int, default=360, help="rows of the plate")
    parser.add_argument("--height", type=int, default=480, help="columns of the plate")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="how much later arrives what a node sends")
    parser.add_argument("--loss", type=float, default=0.0, help="how much of it never arrives, from 0 to 1")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which it is given up")
    parser.add_argument("--still", help="the command still; target/release/still, or the one in PATH")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="where the pictures go")
    # What it tells itself in the nodes.
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--observe", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.words = sys.argv[1:]
    options.name, options.check = "plate", False
    return options


def main():
    options = parse()
    if options.rank is not None:
        return figure1.simulate(options.rank, options.ranks, options)
    if options.observe:
        return observe(options, options.observe)
    import matplotlib

    matplotlib.use("Agg")
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"three nodes of one machine, which share its {os.cpu_count()} processors and one memory bus", flush=True)
    try:
        plate, seen, samples = run(options)
    except NodesError as error:
        sys.exit(f"demo.py: {error}")
    print("the same in one process …", flush=True)
    for _, expected in zip(range(options.steps + 1), figure1.serial(options.length, options.height)):
        pass
    if not np.array_equal(plate, expected):
        sys.exit("the plate differs from the run in one process")
    pictures = [options.out / "nodes-plate.png", options.out / "nodes-rates.png"]
    draw_plate(options, plate, pictures[0])
    draw_rates(options, seen, samples, pictures[1])
    seconds = seen[-1][0] - seen[0][0]
    megabytes = [(samples[-1][1][index] - samples[0][1][index]) / 1e6 for index in range(3)]
    print(
        f"""version {options.steps + 1} is equal to the run in one process, to the last bit.
{options.steps} steps in {seconds:.1f} s; node{OBSERVING + 1} read {len(seen)} of {options.steps + 1} versions as a whole, while they were made.
received: node1 {megabytes[0]:.1f} MB, node2 {megabytes[1]:.1f} MB (ghost cells, and who has what), node3 {megabytes[2]:.1f} MB (plates).
The nodes share {os.cpu_count()} processors and one memory bus: between real ones messages are slower and work is faster.
pictures: {pictures[0]} (which node has which part), {pictures[1]} (steps, versions and bytes per second)"""
    )


if __name__ == "__main__":
    main()
