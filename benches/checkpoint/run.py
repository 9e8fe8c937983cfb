#!/usr/bin/env python3
"""What checkpoints cost: a simulation that publishes and a checkpointer on the same processors, against the same simulation
that writes by itself, and against nothing; how fast an idle one is saved; and what is written when little has changed.

    benches/checkpoint/run.py [--only run,speed,share] [--to DIR] [--rounds 5] [--share 2%] [--pictures DIR]
                            [--quick] [--json]

`run`: heat.c on 4 ranks. Three runs take turns, every other round in the opposite order: without checkpoints, published every
k steps with `still checkpoint` saving each of these versions, and written inline every k steps with MPI-IO, all ranks at once
into one file that is synced. All keep three. The time is that of the steps, as rank 0 measures it; results of all runs are
compared to the last bit.

`speed`: a region is published once, and nothing more happens. `still checkpoint --once`, from its start to its end, takes turns
with `dd bs=1M conv=fsync` of a file in memory with the same bytes.

`share`: one page in ten changes, in so many clusters, between two versions that a checkpointer saves. What is written are
files of the second checkpoint that are not hard links to the first one's, counted by looking at both directories.

Each line of --json is one case:

    {"bench": "checkpoint", "case": {"measures", ...}, "value", "unit", "baseline", "ratio", "detail"}

| measures | value | baseline | ratio: median of the rounds' |
|---|---|---|---|
| run time, observer | ms per step with publish and checkpointer | without checkpoints | value / baseline |
| run time, inline | ms per step with MPI-IO | without checkpoints | value / baseline |
| bytes per second | MB/s of `still checkpoint` | MB/s of dd | value / baseline |
| bytes written | bytes of new files | bytes of the region | value / baseline |
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
STILL = TARGET / "release" / "still"
HEAT = TARGET / "checkpoint" / "heat"
TIMEOUT = 600
PAGE = 4096
MIB = 1 << 20
KEPT = 3


def end(process):
    """Ends a process that should have ended by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def settle():
    """Nothing of what came before is still on its way to the disk."""
    os.sync()
    time.sleep(0.3)


class Checkpointer:
    """`still checkpoint`, and what it says."""

    def __init__(self, name, to, environment, *options, processors=None, may_miss=False):
        self.may_miss = may_miss
        command = [str(STILL), "checkpoint", name, "--to", str(to), "--json", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        if processors:
            os.sched_setaffinity(self.process.pid, processors)
        self.saved = []

    def events(self):
        """What it says, as it says it. No version may be left out, unless it was asked to keep to a share."""
        for line in self.process.stdout:
            told = json.loads(line)
            if told["event"] == "failed" or told["event"] == "missed" and not self.may_miss:
                sys.exit(f"the checkpointer: {line.strip()}")
            if told["event"] == "saved":
                self.saved.append(told)
            yield told

    def wait_attached(self):
        """Reads on until it holds what is published."""
        if not any(told["event"] == "attached" for told in self.events()):
            sys.exit(f"the checkpointer ended with {self.process.wait(TIMEOUT)} before it found the region")

    def wait_saved(self, version):
        """Reads on until that version is safe; returns what was said about it."""
        for told in self.events():
            if told["event"] == "saved" and told["version"] == version:
                return told
        return sys.exit(f"the checkpointer ended with {self.process.wait(TIMEOUT)} before version {version} was safe")

    def finish(self):
        """Waits for it to end by itself."""
        for _ in self.events():
            pass
        if self.process.wait(TIMEOUT):
            sys.exit(f"the checkpointer ended with {self.process.returncode}")
        return self.saved


def simulate(args, kind, every, steps, work, to):
    """One run of the simulation; returns what it told."""
    regions = work / "regions"
    environment = {**os.environ, "STILLFRAME_DIR": str(regions)}
    # The checkpointer has no processors of its own, however many there are.
    processors = set(sorted(os.sched_getaffinity(0))[: args.ranks])
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    settle()
    checkpointer = simulation = None
    try:
        if kind == "observer":
            options = ["--share", args.share] if args.share else ["--all"]
            options += ["--keep", str(KEPT), "--wait", "60"]
            options += ["--nice", str(args.nice)]
            options += ["--threads", str(args.threads)] if args.threads else []
            options += ["--chunk-bytes", str(args.chunk_bytes)] if args.chunk_bytes else []
            may_miss = args.share is not None
            checkpointer = Checkpointer("heat", to, environment, *options, processors=processors, may_miss=may_miss)
            # Where the kernel shares out time among sessions first, that of the checkpointer counts as its threads do elsewhere.
            with contextlib.suppress(OSError):
                Path(f"/proc/{checkpointer.process.pid}/autogroup").write_text(str(args.nice))
            time.sleep(0.2)
        target = {"plain": ["plain"], "observer": ["publish", "heat"], "inline": ["inline", str(to)]}[kind]
        numbers = [str(number) for number in (args.size, steps, every)]
        command = ["mpiexec", "-n", str(args.ranks), str(HEAT), *numbers, *target]
        simulation = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        os.sched_setaffinity(simulation.pid, processors)
        if checkpointer:
            # A short run would else be over before it is seen.
            checkpointer.wait_attached()
        said, _ = simulation.communicate("begin\n", timeout=TIMEOUT)
        if simulation.returncode:
            sys.exit(f"{' '.join(command)} ended with {simulation.returncode}")
        told = json.loads(said)
        expected = list(range(every, steps, every))
        if checkpointer:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            # Several are saved at once, and the one that begins later may be done first.
            versions = sorted(event["version"] for event in checkpointer.finish())
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            told["saver_seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if not (args.share and set(versions) < set(expected) or versions == expected):
                sys.exit(f"versions {versions} were saved of {expected}")
            expected = versions
            told["saved"] = len(versions)
            told["save_seconds"] = statistics.median(event["seconds"] for event in checkpointer.saved)
            found = sorted(int(path.name[1:13]) for path in to.glob("v*.zarr"))
            # One more stays until a newer one is read back from the disk.
            if found[-KEPT:] != expected[-KEPT:] or len(found) > KEPT + 1:
                sys.exit(f"{to} has {found}")
        if kind == "inline" and sorted(int(path.name) for path in to.iterdir()) != expected[-KEPT:]:
            sys.exit(f"{to} has {sorted(path.name for path in to.iterdir())}")
        return told
    finally:
        for process in filter(None, (simulation, checkpointer and checkpointer.process)):
            end(process)
        shutil.rmtree(regions, ignore_errors=True)
        shutil.rmtree(to, ignore_errors=True)


def measure_run(args, work, to):
    """Run time with checkpoints over run time without."""
    kinds = ("plain", "observer", "inline")
    for every in args.every:
        steps = every * (args.checkpoints + 1)
        runs = {kind: [] for kind in kinds}
        for number in range(args.rounds):
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                runs[kind].append(simulate(args, kind, every, steps, work, to / "run"))
        bits = {told["bits"] for several in runs.values() for told in several}
        if len(bits) != 1:
            sys.exit(f"the runs do not agree: {bits}")
        ms = {kind: [told["seconds"] / steps * 1e3 for told in several] for kind, several in runs.items()}
        for kind in kinds[1:]:
            ratios = sorted(one / other for one, other in zip(ms[kind], ms["plain"]))
            detail = {
                "ratios": [round(ratio, 4) for ratio in ratios],
                "in_step_ms": round(
                    statistics.median(t["saving_seconds"] for t in runs[kind]) / args.checkpoints * 1e3, 2
                ),
                "interval_seconds": round(statistics.median(ms["plain"]) * every / 1e3, 3),
            }
            if kind == "observer":
                detail["save_ms"] = round(statistics.median(told["save_seconds"] for told in runs[kind]) * 1e3, 2)
                cpu = statistics.median(told["saver_seconds"] / told["saved"] for told in runs[kind])
                detail |= {"save_cpu_ms": round(cpu * 1e3, 2), "nice": args.nice, "threads": args.threads}
                detail |= {"share": args.share, "saved": statistics.median(told["saved"] for told in runs[kind])}
            yield {
                "bench": "checkpoint",
                "case": {
                    "measures": f"run time, {kind}",
                    "every": every,
                    "checkpoints": args.checkpoints,
                    "ranks": args.ranks,
                    "bytes": runs[kind][0]["bytes"],
                },
                "value": round(statistics.median(ms[kind]), 4),
                "unit": "ms",
                "baseline": round(statistics.median(ms["plain"]), 4),
                "ratio": round(statistics.median(ratios), 4),
                "detail": detail,
            }


@contextlib.contextmanager
def producer(size, work):
    """A region of that many bytes with numbers that nothing can make less of, in this process."""
    import numpy as np

    import stillframe as sf

    regions = work / "regions"
    with sf.create("state", keep=2, dir=regions) as region:
        u = region.array("u", (size // 8,))
        random = np.random.default_rng(7)
        for start in range(0, len(u), MIB):
            u[start : start + MIB] = random.random(len(u[start : start + MIB]))
        region.publish(1)
        yield region, u, {**os.environ, "STILLFRAME_DIR": str(regions)}
        region.unlink()


def timed(command, environment=None):
    """Milliseconds from a program's start to its end."""
    begin = time.perf_counter()
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    ms = (time.perf_counter() - begin) * 1e3
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}")
    return ms


def measure_speed(args, work, to):
    """Bytes per second of a checkpoint, over those of dd."""
    to.mkdir(parents=True, exist_ok=True)
    with producer(args.bytes, work) as (_, u, environment):
        source = work / "bytes"
        u.tofile(source)
        times = {"still": [], "dd": []}
        for number in range(args.rounds):
            for who in ("still", "dd") if number % 2 == 0 else ("dd", "still"):
                place = to / "speed"
                settle()
                if who == "still":
                    times[who].append(timed([STILL, "checkpoint", "state", "--to", place, "--once"], environment))
                    shutil.rmtree(place)
                else:
                    times[who].append(timed(["dd", f"if={source}", f"of={place}", "bs=1M", "conv=fsync"]))
                    place.unlink()
        source.unlink()
    ratios = sorted(dd / still for dd, still in zip(times["dd"], times["still"]))
    rate = {who: args.bytes / 1e3 / statistics.median(ms) for who, ms in times.items()}
    yield {
        "bench": "checkpoint",
        "case": {"measures": "bytes per second", "bytes": args.bytes},
        "value": round(rate["still"], 1),
        "unit": "MB/s",
        "baseline": round(rate["dd"], 1),
        "ratio": round(statistics.median(ratios), 4),
        "detail": {"ratios": [round(ratio, 4) for ratio in ratios], "ms": [round(ms, 1) for ms in times["still"]]},
    }


def new_bytes(older, newer):
    """Bytes of the files of a checkpoint that are no hard links to those of another one."""
    known = {path.stat().st_ino for path in older.rglob("*") if path.is_file()}
    files = [path.stat() for path in newer.rglob("*") if path.is_file()]
    return sum(file.st_size for file in files if file.st_ino not in known), len(files)


def measure_share(args, work, to):
    """Bytes written of a region of which one page in ten has changed, over all of them."""
    import numpy as np

    random = np.random.default_rng(11)
    for clusters in args.clusters:
        ratios, written, seconds = [], [], []
        for _ in range(args.rounds):
            place = to / "share"
            shutil.rmtree(place, ignore_errors=True)
            with producer(args.bytes, work) as (region, u, environment):
                checkpointer = Checkpointer("state", place, environment, "--all")
                try:
                    checkpointer.wait_saved(1)
                    pages = args.bytes // PAGE
                    share = pages // 10 // clusters
                    # One cluster somewhere in each of equal parts of the region.
                    for part in range(clusters):
                        first = part * (pages // clusters) + random.integers(0, pages // clusters - share + 1)
                        u[first * PAGE // 8 : (first + share) * PAGE // 8] += 1.0
                    region.publish(2)
                    told = checkpointer.wait_saved(2)
                    bytes_, files = new_bytes(place / f"v{1:012}.zarr", place / f"v{2:012}.zarr")
                finally:
                    end(checkpointer.process)
            ratios.append(bytes_ / args.bytes)
            written.append(bytes_)
            seconds.append(told["seconds"])
            shutil.rmtree(place)
        yield {
            "bench": "checkpoint",
            "case": {"measures": "bytes written", "clusters": clusters, "dirty": 0.1, "bytes": args.bytes},
            "value": int(statistics.median(written)),
            "unit": "bytes",
            "baseline": args.bytes,
            "ratio": round(statistics.median(ratios), 4),
            "detail": {
                "ratios": sorted(round(ratio, 4) for ratio in ratios),
                "files": files,
                "save_ms": round(statistics.median(seconds) * 1e3, 2),
            },
        }


def figure_of(title):
    """A figure in the style of all."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(title, fontsize=11)
    return figure, axis


def bars(axis, at, heights, form, **options):
    """Bars with their heights above them."""
    for bar in axis.bar(at, heights, **options):
        middle, height = bar.get_x() + bar.get_width() / 2, bar.get_height()
        axis.text(middle, max(height, 0), form.format(height), ha="center", va="bottom", fontsize=9)


def limit(axis, height, text):
    """What must be reached."""
    axis.axhline(height, color="#333333", lw=1, ls="--")
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axis.annotate(text, (1, height), (0, 3), ha="right", fontsize=9, **where)


BLUE, RED, GREY = "#2a6f97", "#c1121f", "#adb5bd"


def draw_run(rows, path):
    """What checkpoints add to the run time, for each interval."""
    case = rows[0]["case"]
    figure, axis = figure_of(f"Heat on {case['ranks']} ranks, {case['bytes'] / MIB:.0f} MiB saved every k steps")
    ways = (("observer", "still checkpoint, on the same processors", BLUE), ("inline", "inline, MPI-IO and sync", RED))
    heights = []
    for number, (kind, label, colour) in enumerate(ways):
        chosen = [row for row in rows if row["case"]["measures"].endswith(kind)]
        percent = [100 * (row["ratio"] - 1) for row in chosen]
        at = [place + 0.4 * number - 0.2 for place in range(len(chosen))]
        bars(axis, at, percent, "{:.1f} %", width=0.38, color=colour, label=label)
        heights += percent
    labels = [f"k = {row['case']['every']}\n({row['detail']['interval_seconds']:.1f} s)" for row in chosen]
    axis.set_xticks(range(len(labels)), labels)
    limit(axis, 5, "5 %")
    axis.set_ylim(min(0, *heights), 1.25 * max(6, *heights))
    axis.set_ylabel("added to the run time (%)")
    axis.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def draw_speed(row, path):
    """Bytes per second beside dd's."""
    figure, axis = figure_of(f"{row['case']['bytes'] / MIB:.0f} MiB to disk, while the simulation idles")
    names, heights = ["still checkpoint --once", "dd conv=fsync"], [row["value"], row["baseline"]]
    bars(axis, names, heights, "{:.0f}", width=0.5, color=[BLUE, GREY])
    limit(axis, 0.8 * row["baseline"], "0.8 of dd")
    axis.set_ylabel("MB/s")
    axis.set_ylim(0, 1.15 * max(heights))
    figure.savefig(path, dpi=120)


def draw_share(rows, path):
    """What was written, for each number of clusters."""
    figure, axis = figure_of(f"10 % of the pages of {rows[0]['case']['bytes'] / MIB:.0f} MiB changed")
    heights = [row["ratio"] for row in rows]
    bars(axis, [str(row["case"]["clusters"]) for row in rows], heights, "{:.3f}", width=0.5, color=BLUE)
    limit(axis, 0.15, "0.15")
    axis.axhline(0.1, color=GREY, lw=1)
    axis.set_xlabel("clusters in which the changed pages lie")
    axis.set_ylabel("bytes written / region")
    axis.set_ylim(0, 1.2 * max(0.15, *heights))
    figure.savefig(path, dpi=120)


def draw(rows, folder):
    """A picture for each figure."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = [row for row in rows if row["case"]["measures"].startswith("run time")]
    speeds = [row for row in rows if row["case"]["measures"] == "bytes per second"]
    shares = [row for row in rows if row["case"]["measures"] == "bytes written"]
    if runs:
        draw_run(runs, folder / "run-time.png")
    if speeds:
        draw_speed(speeds[0], folder / "bytes-per-second.png")
    if shares:
        draw_share(shares, folder / "bytes-written.png")


def say(row):
    """A line for people."""
    case, detail = row["case"], row["detail"]
    spread = f"ratio {row['ratio']:.3f} ({detail['ratios'][0]:.3f} to {detail['ratios'][-1]:.3f})"
    if case["measures"] == "bytes per second":
        what = f"{case['bytes'] / MIB:.0f} MiB: {row['value']:.0f} MB/s, dd {row['baseline']:.0f}"
    elif case["measures"] == "bytes written":
        what = f"{case['clusters']} clusters: {row['value'] / MIB:.1f} MiB of {row['baseline'] / MIB:.0f} in {detail['save_ms']:.0f} ms"
    else:
        what = (
            f"every {case['every']} steps ({detail['interval_seconds']:.1f} s): {row['value']:.2f} ms a step, {row['baseline']:.2f} without; "
            f"in a step {detail['in_step_ms']:.0f} ms per checkpoint"
        )
    return f"{case['measures']}, {what}; {spread}"


def parse_numbers(text):
    """Numbers separated by commas."""
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="run,speed,share", help="which of them")
    parser.add_argument(
        "--to", type=Path, default=TARGET, help="below this directory, on a disk, checkpoints are written"
    )
    parser.add_argument("--size", type=int, default=5792, help="rows and columns of the plate")
    parser.add_argument(
        "--every", type=parse_numbers, default=[50, 100, 200], help="steps from checkpoint to checkpoint"
    )
    parser.add_argument("--checkpoints", type=int, default=4, help="in each run")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--nice", type=int, default=10, help="of the checkpointer in `run`")
    parser.add_argument("--threads", type=int, help="of the checkpointer in `run`; its default if not given")
    parser.add_argument("--share", help="of a processor that it keeps to in `run`, as 2%%; it saves all versions if not given")
    parser.add_argument("--chunk-bytes", type=int, help="of the checkpointer in `run`; its default if not given")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the region in `speed` and `share`")
    parser.add_argument("--clusters", type=parse_numbers, default=[1, 4, 16, 64, 256], help="in which the changed pages lie")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=Path, help="draw into this folder; needs matplotlib")
    parser.add_argument("--quick", action="store_true", help="small and short")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    args = parser.parse_args()
    if args.quick:
        # So much time between two versions that the checkpointer sees each before it goes.
        args.size, args.every, args.checkpoints, args.bytes, args.clusters, args.rounds = 2048, [40], 2, 1 << 25, [4], 1
    measures = {"run": measure_run, "speed": measure_speed, "share": measure_share}
    chosen = args.only.split(",")
    if unknown := set(chosen) - measures.keys():
        parser.error(f"--only {','.join(unknown)}: choose from {', '.join(measures)}")
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="stillframe-checkpoint-", dir=shm) as work,
        tempfile.TemporaryDirectory(prefix="checkpoint-bench-", dir=args.to) as to,
    ):
        for name in chosen:
            for row in measures[name](args, Path(work), Path(to)):
                rows.append(row)
                print(json.dumps(row) if args.json else say(row), flush=True)
    if args.pictures:
        draw(rows, args.pictures)


if __name__ == "__main__":
    main()
