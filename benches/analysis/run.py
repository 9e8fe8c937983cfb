#!/usr/bin/env python3
"""Analysis beside a simulation, against the same analysis compiled in: examples/gray-scott both ways, in turns.

A round has the plain simulation, the one that is watched, and the one that analyses by itself, every other round in the
opposite order; first with an observer on free processors, then with everything on one. The time is that of the steps, as
the simulation measures it. What both ways find is compared to the last bit.

    benches/analysis/run.py [--cells 512] [--steps 1500] [--every 10] [--rounds 7] [--picture FILE.png] [--quick] [--json]

Each line of --json is one case:

    {"bench": "analysis", "case": {"cells", "steps", "every", "processors", "measures"}, "value", "unit": "ms", "baseline", "ratio",
     "detail": {"ratios", "versions", "published", "until_found_ms", "beside_ms"}}

value and baseline are medians of milliseconds per step: of the case `observer / inline`, with the observer and with the
analysis compiled in; of `observer / plain` and `inline / plain`, over the simulation alone. ratio is the median of the
rounds' ratios. versions counts those that the observer analysed per run, of those published; until_found_ms is the time per
step until its last row was written, which on one processor is what both together take; beside_ms is the time per step in
publish, or in the analysis.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "gray-scott"
TIMEOUT = 600
KINDS = ("plain", "observer", "inline")


def load_demo():
    """The example's own comparison."""
    sys.path.insert(0, str(EXAMPLE))
    spec = importlib.util.spec_from_file_location("demo", EXAMPLE / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    return demo


def start(program, *arguments, processors, environment):
    """Starts a program of the example on these processors."""
    command = [sys.executable, str(EXAMPLE / program), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    os.sched_setaffinity(process.pid, processors)
    return process


def run(kind, args, processors, directory):
    """One run of the simulation, and where it was analysed."""
    folder = directory / kind
    shutil.rmtree(folder, ignore_errors=True)
    regions = directory / "regions"
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "STILLFRAME_DIR": str(regions)}
    size = ["--cells", args.cells, "--steps", args.steps, "--every", args.every]
    processes = []
    try:
        if kind == "observer":
            processes.append(start("observe.py", folder, processors=processors, environment=environment))
            # It has to have been loaded before the time begins, as the others have.
            time.sleep(args.load_seconds)
        how = {"plain": ["--plain"], "observer": [], "inline": ["--inline", folder]}[kind]
        simulation = start("gray_scott.py", *size, *how, processors=processors, environment=environment)
        processes.append(simulation)
        said, _ = simulation.communicate(timeout=TIMEOUT)
        ended = time.time()
        if simulation.returncode:
            sys.exit(f"the simulation ended with {simulation.returncode}")
        told = json.loads(said)
        if kind == "observer" and processes[0].wait(TIMEOUT):
            sys.exit(f"the observer ended with {processes[0].returncode}")
        told["late_seconds"] = 0.0
        if kind == "observer":
            written = max(file.stat().st_mtime for file in folder.iterdir())
            told["late_seconds"] = max(0.0, written - ended)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(regions, ignore_errors=True)
    return told


def measure(args, directory):
    """The cases, one placement after the other."""
    compare = load_demo().compare
    available = sorted(os.sched_getaffinity(0))
    for name, processors in (("free", set(available)), ("one", {available[-1]})):
        runs = {kind: [] for kind in KINDS}
        versions = []
        for number in range(args.rounds):
            for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                runs[kind].append(run(kind, args, processors, directory))
            versions.append(compare(directory / "observer", directory / "inline"))
        states = {told["state"] for several in runs.values() for told in several}
        if len(states) != 1:
            sys.exit(f"the runs do not agree: {states}")
        ms = {kind: [told["seconds"] / args.steps * 1e3 for told in several] for kind, several in runs.items()}
        late = [told["late_seconds"] / args.steps * 1e3 for told in runs["observer"]]
        for one, other in (("observer", "inline"), ("observer", "plain"), ("inline", "plain")):
            ratios = [a / b for a, b in zip(ms[one], ms[other])]
            detail = {
                "ratios": sorted(round(ratio, 4) for ratio in ratios),
                "beside_ms": round(statistics.median(t["beside_seconds"] for t in runs[one]) / args.steps * 1e3, 4),
            }
            if one == "observer":
                detail["versions"] = statistics.median(versions)
                detail["published"] = args.steps // args.every
                detail["until_found_ms"] = round(statistics.median(a + b for a, b in zip(ms[one], late)), 4)
            case = {"cells": args.cells, "steps": args.steps, "every": args.every}
            yield {
                "bench": "analysis",
                "case": {**case, "processors": name, "measures": f"{one} / {other}"},
                "value": round(statistics.median(ms[one]), 4),
                "unit": "ms",
                "baseline": round(statistics.median(ms[other]), 4),
                "ratio": round(statistics.median(ratios), 4),
                "detail": detail,
            }


def draw(rows, path):
    """Time per step, as bars: plain, with the observer, with the analysis compiled in."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    colours = {"plain": "#adb5bd", "observer": "#2a6f97", "inline": "#c1121f"}
    labels = {"plain": "simulation alone", "observer": "analysis in an observer", "inline": "analysis compiled in"}
    placements = ["free", "one"]
    for place, name in enumerate(placements):
        cases = {row["case"]["measures"]: row for row in rows if row["case"]["processors"] == name}
        ms = {
            "plain": cases["observer / plain"]["baseline"],
            "observer": cases["observer / inline"]["value"],
            "inline": cases["observer / inline"]["baseline"],
        }
        for number, kind in enumerate(KINDS):
            at = place + 0.27 * (number - 1)
            axis.bar(at, ms[kind], 0.25, color=colours[kind], label=None if place else labels[kind])
            axis.text(at, ms[kind], f"{ms[kind]:.2f}", ha="center", va="bottom", fontsize=9)
        ratio = cases["observer / inline"]["ratio"]
        axis.text(
            place, -0.115, f"observer / compiled in: {ratio:.2f}", ha="center", transform=axis.get_xaxis_transform()
        )
    axis.set_xticks([0, 1], ["free processors for the observer", "everything on one processor"])
    axis.tick_params(axis="x", length=0)
    axis.set_ylabel("milliseconds per step")
    axis.set_ylim(0, 1.4 * max(row[side] for row in rows for side in ("value", "baseline")))
    axis.spines[["top", "right"]].set_visible(False)
    case = rows[0]["case"]
    axis.set_title(f"Gray-Scott, {case['cells']} × {case['cells']} cells, analysed every {case['every']} steps")
    axis.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=512, help="along each edge")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--every", type=int, default=10, help="steps from one analysis to the next")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--load-seconds", type=float, default=1.0, help="between the start of observer and simulation")
    parser.add_argument("--picture", type=Path, help="draw the medians here; needs matplotlib")
    parser.add_argument("--quick", action="store_true", help="small and short")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    args = parser.parse_args()
    if args.quick:
        args.cells, args.steps, args.rounds = 96, 200, 1
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows = []
    with tempfile.TemporaryDirectory(prefix="stillframe-analysis-", dir=shm) as directory:
        for row in measure(args, Path(directory)):
            rows.append(row)
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            detail, case = row["detail"], row["case"]
            seen = (
                f", {detail['versions']:.0f} of {detail['published']} versions analysed" if "versions" in detail else ""
            )
            print(
                f"{case['processors']:4} processors, {case['measures']:17}: {row['value']:.3f} ms a step, "
                f"{row['baseline']:.3f}; ratio {row['ratio']:.3f} ({detail['ratios'][0]:.3f} to {detail['ratios'][-1]:.3f}){seen}",
                flush=True,
            )
    if args.picture:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
