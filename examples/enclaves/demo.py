#!/usr/bin/env python3
"""A simulation in a virtual machine, and an observer on its host that follows it while it runs.

    python demo.py [--cells 192] [--steps 12000] [--every 60] [--quick] [--out DIRECTORY]

The machine is emulated by QEMU and runs Debian's Linux 6.1. The simulation there (gray_scott.c) publishes into memory
that the machine shares with its host, and knows nothing of that. The observer here opens the region by the same name,
and holds each version that it looks at. At the end the same program runs on the host, and the last versions of both are
compared, to the last bit. The picture shows some of the versions that were seen, and when. Where there is no emulator,
it says so and ends.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import stillframe as sf

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
STILL = TARGET / "release" / "still"
SIMULATION = TARGET / "enclaves" / "gray_scott"
REGION = "gray-scott"
#: What each enclave shares. Only what is used takes memory.
BYTES = 64 << 20
#: What run.sh ends with where no machine can be emulated.
NO_EMULATOR = 77
#: Seconds within which an agent begins, and within which a version follows the one before.
TIMEOUT = 60
FRAMES = 5
#: A cell belongs to a spot where there is more of v than this.
SPOT = 0.1


class DemoError(Exception):
    """The machine, or what runs in it, failed."""


class Seen(NamedTuple):
    """A version that the observer held."""

    version: int
    step: int
    #: Since the machine was switched on.
    seconds: float
    #: Which part of the square is spots.
    covered: float


@contextlib.contextmanager
def running(words, log):
    """A program that runs as long as a `with` block."""
    with log.open("w") as output:
        # Ctrl-C comes to this program alone, which then ends the others in order.
        how = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
        process = subprocess.Popen([str(word) for word in words], cwd=ROOT, **how)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def machine(options, folder):
    """The memory of host and guest, the host's agent, and the machine. What runs ends with the `with` block."""
    (folder / "guest").mkdir(mode=0o700)
    with (folder / "guest" / "arena").open("xb") as arena:
        os.fchmod(arena.fileno(), 0o600)
        arena.truncate(BYTES)
    still = [STILL, "--dir", folder, "enclave"]
    with running([*still, "agent", "host", "--peer", "guest", "--bytes", BYTES], folder / "agent.log") as agent:
        wait_for(folder / "guest" / "agent", agent, folder / "agent.log")
        qemu = ["tests/kernels/run.sh", "--memory", "512M", "--timeout", options.limit]
        # In this order guest.sh is told whose they are.
        qemu += ["--share", f"{folder}/host/arena:ro", "--share", f"{folder}/guest/arena"]
        qemu += ["--file", f"{STILL}:/bin/still", "--file", f"{SIMULATION}:/bin/gray_scott"]
        program = ["examples/enclaves/guest.sh", "guest", "host", "guest", "--"]
        program += ["gray_scott", f"guest/{REGION}", *options.numbers]
        with running([*still, "machine", "guest", "--", *qemu, "--", *program], folder / "guest.log") as guest:
            yield guest


def wait_for(path, process, log):
    deadline = time.monotonic() + TIMEOUT
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise DemoError(f"the agent does not begin:\n{log.read_text()}")
        time.sleep(0.05)


def open_region(folder, guest):
    """Waits for the first version in the machine. `None` if there is no emulator."""
    while guest.poll() is None:
        with contextlib.suppress(sf.NoRegion, sf.NoVersion, sf.NoArena, sf.Timeout):
            return sf.open(f"guest/{REGION}", dir=folder, wait=1)
    if guest.returncode == NO_EMULATOR:
        return None
    raise DemoError(f"the machine ended with {guest.returncode}:\n{(folder / 'guest.log').read_text()}")


def follow(options, observer, begin):
    """Looks at versions as they come: what was seen, v of some of them by version, and the kernel that published."""
    last = options.steps // options.every
    wanted = [round(frame * last / (FRAMES - 1)) for frame in range(FRAMES)]
    seen, frames, kernel, told = [], {}, "", -1
    for snapshot in observer.iterate(timeout=TIMEOUT):
        # Held until the block ends: nothing in it changes, however far the simulation goes on meanwhile.
        with snapshot:
            kernel, v = snapshot.attrs["kernel"], snapshot["v"]
            now = Seen(snapshot.version, snapshot.attrs["step"], time.monotonic() - begin, float((v > SPOT).mean()))
            seen.append(now)
            if now.version >= wanted[0]:
                frames[now.version] = v.copy()
                wanted = [version for version in wanted if version > now.version] or [last + 1]
            del v
        if len(seen) == 1:
            print(f"{now.seconds:6.1f} s  the first version, published by Linux {kernel}", flush=True)
        if now.version * 20 // last > told:
            told = now.version * 20 // last
            print(
                f"{now.seconds:6.1f} s  version {now.version:4} of {last}: step {now.step:5}, "
                f"spots on {now.covered:4.0%} of the square",
                flush=True,
            )
    return seen, frames, kernel


def run_here(options, folder):
    """The same program on the host, in the host's own memory: how long it took."""
    begin = time.monotonic()
    done = subprocess.run(
        [SIMULATION, f"host/{REGION}", *options.numbers],
        env={**os.environ, "STILLFRAME_DIR": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise DemoError(f"the simulation failed on the host: {done.stderr}")
    return time.monotonic() - begin


def compare(folder):
    """The last versions of both runs have to be equal, to the last bit."""
    last = [sf.open(f"{enclave}/{REGION}", dir=folder).newest() for enclave in ("guest", "host")]
    for name in ("u", "v"):
        guest, host = (snapshot[name].tobytes() for snapshot in last)
        if guest != host:
            raise DemoError(f"{name} of the last version differs from that of the run on the host")
    return last[0].version


def draw(options, seen, frames, kernel, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = {one.version: one for one in seen}
    figure = plt.figure(figsize=(2.7 * len(frames) + 0.8, 5.8), layout="constrained")
    grid = figure.add_gridspec(2, len(frames), height_ratios=[3, 2])
    figure.suptitle(
        f"A Gray-Scott reaction in a virtual machine with Linux {kernel}, "
        f"seen from its host with Linux {os.uname().release}"
    )
    panels = [figure.add_subplot(grid[0, column]) for column in range(len(frames))]
    highest = max(frame.max() for frame in frames.values())
    for axes, (version, frame) in zip(panels, frames.items()):
        image = axes.imshow(frame, cmap="magma", vmin=0, vmax=highest, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"version {version}, step {rows[version].step}", fontsize=10)
    figure.colorbar(image, ax=panels, label="v", shrink=0.85, pad=0.01)

    axes = figure.add_subplot(grid[1, :])
    axes.axvspan(0, seen[0].seconds, color="0.9", label="the machine starts")
    shown = [rows[version] for version in frames]
    for some, label, how in (
        (seen, "version seen on the host", {"marker": ".", "ms": 3, "color": "#2a6f97"}),
        (shown, "version drawn above", {"marker": "o", "ms": 8, "color": "#c1121f", "mfc": "none"}),
    ):
        axes.plot([one.seconds for one in some], [one.step for one in some], ls="", label=label, **how)
    axes.set(xlabel="seconds since the machine was switched on", ylabel="step", ylim=(-0.05 * options.steps, None))
    axes.set_xlim(0, seen[-1].seconds * 1.02)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run(options, folder):
    """The whole run, unless there is no emulator."""
    print("a machine with Debian's Linux 6.1 is switched on, under emulation …", flush=True)
    begin = time.monotonic()
    with machine(options, folder) as guest:
        observer = open_region(folder, guest)
        if observer is None:
            print(f"skipped: there is no emulator for other kernels here\n{(folder / 'guest.log').read_text()}", end="")
            return
        with observer:
            print(f"look too, from another terminal: {STILL} --dir {folder} watch guest/{REGION}", flush=True)
            seen, frames, kernel = follow(options, observer, begin)
        last = options.steps // options.every
        try:
            status = guest.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise DemoError(f"no version has come for {TIMEOUT} s, and the machine has not ended") from None
        if status or not seen or seen[-1].version != last:
            log = (folder / "guest.log").read_text()
            raise DemoError(f"{len(seen)} of {last + 1} versions were seen, the machine ended with {status}:\n{log}")
        print("the machine has ended. The same program on the host …", flush=True)
        seconds = run_here(options, folder)
        version = compare(folder)
    options.out.mkdir(parents=True, exist_ok=True)
    picture, slow = options.out / "enclave.png", seen[-1].seconds - seen[0].seconds
    draw(options, seen, frames, kernel, picture)
    print(
        f"""version {version} is equal to that of the run on the host, to the last bit, in u and in v.
{options.steps} steps took {slow:.1f} s in the emulated machine and {seconds:.1f} s on the host.
The observer held {len(seen)} of {last + 1} versions while they were made.
picture: {picture}"""
    )


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=192, help="along each edge")
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--every", type=int, default=60, help="steps from one version to the next")
    parser.add_argument("--quick", action="store_true", help="few steps on a small square, for a test")
    parser.add_argument("--limit", type=int, default=600, help="seconds after which the machine is given up")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="where the picture goes")
    options = parser.parse_args()
    if options.quick:
        options.cells, options.steps, options.every = 64, 400, 20
    if min(options.cells, options.every, options.limit) < 1 or options.steps < options.every:
        parser.error("--cells, --every and --limit are at least 1, and --steps at least --every")
    options.numbers = [str(number) for number in (options.cells, options.steps, options.every)]
    return options


def main():
    options = parse()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    for program in (STILL, SIMULATION):
        if not program.exists():
            sys.exit(f"demo.py: there is no {program}: make demo-enclave builds it")
    try:
        with tempfile.TemporaryDirectory(prefix="stillframe-demo-", dir="/dev/shm") as folder:
            run(options, Path(folder))
    except (DemoError, sf.Error) as error:
        sys.exit(f"demo.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
