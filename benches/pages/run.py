#!/usr/bin/env python3
"""Whole programs in large pages of each kind, alone and beside work that competes for memory and processors.

    benches/pages/run.py [--turns 10] [--programs hpcc,lammps,cg,fem,heat,start] [--modes still,thp-always,…]
                         [--loads none,build,cache] [--pin one,free] [--size full|small] [--json FILE] [--picture FILE.png]
    benches/pages/run.py --from FILE [--picture FILE.png]

In each turn each program is run in each mode; which mode comes first changes from turn to turn, and every other turn has the
opposite order. Root is needed: the setting of transparent pages is changed for each run, and pages are reserved. Both are
restored at the end, also after Ctrl-C and `kill`. What is measured and how stands in docs/benchmarks.md.

FILE has a line of JSON about the machine ("pages-machine"), one for each run as soon as it is over ("pages-run"), and at the
end a row for each case ("pages"). `--from` shows the runs of such a file once more, of one that was cut short, too.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import machine  # noqa: E402
import report  # noqa: E402
from load import LoadError, Loads  # noqa: E402
from measure import measure  # noqa: E402
from modes import MODES, OURS, find_missing, kept_thp  # noqa: E402
from programs import PROGRAMS, START, START_MIB, TARGET, ProgramError, make_yardstick  # noqa: E402
from room import choose_modes, make_room, say  # noqa: E402

#: On which processors a program runs; the load may use all in any case. Where there is one it is that.
ALL = os.sched_getaffinity(0)
PINS = {"one": {1} & ALL or {min(ALL)}, "free": ALL}


def end_on_signals():
    """Has the first Ctrl-C or `kill` end the program in order, so that all is restored; more of them change nothing."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def leave(number, _):
        for one in signals:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    for one in signals:
        signal.signal(one, leave)


class Bench:
    """All runs of one call: what they said, what went wrong, and how many are to come."""

    def __init__(self, options, lines):
        self.options, self._lines = options, lines
        self.runs, self.wrong = [], []
        self._checks, self._left, self._done, self._begin = {}, 0, 0, time.monotonic()

    def expect(self, count):
        self._left += count

    def write(self, line):
        if self._lines:
            print(json.dumps(line), file=self._lines, flush=True)

    def _complain(self, what):
        self.wrong.append(what)
        say(f"run.py: {what}")

    def check(self, name, mode, result):
        """The result has to be that of the program's other runs, to the last digit."""
        expected = self._checks.setdefault(name, (mode, result["check"]))
        if result["check"] != expected[1]:
            raise ProgramError(f"the result is {result['check']}, in {expected[0]} it was {expected[1]}")

    def settle(self, contenders, hugetlbfs):
        """A run that does not count: the program's files come from the disk, and what it computes without us is known."""
        name, label, program, mode = next((one for one in contenders if one[1] != OURS), contenders[0])
        self.check(name, label, measure(program, mode, self.options.size, ALL, hugetlbfs))

    def run(self, contender, load, pin, turn, hugetlbfs):
        """One run that counts, unless something goes wrong with it."""
        name, label, program, mode = contender
        case = {"program": name, "mode": label, "load": load, "pin": pin, "size": self.options.size, "turn": turn}
        where = f"{name} in {label}, beside {load}, {pin}, turn {turn + 1} of {self.options.turns}"
        said = "failed"
        try:
            result = measure(program, mode, self.options.size, PINS[pin], hugetlbfs)
            self.check(name, label, result)
        except ProgramError as error:
            self._complain(f"{where}: {error}")
        else:
            line = {"bench": "pages-run", **case, **result}
            self.runs.append(line)
            self.write(line)
            said = f"{result['seconds']:.2f} s"
        self._done, self._left = self._done + 1, self._left - 1
        hours = (time.monotonic() - self._begin) / self._done * self._left / 3600
        say(f"{where}: {said}; {self._left} to come, about {hours:.1f} h")


def measure_steady(bench, names):
    """The programs that compute."""
    programs, options = {name: PROGRAMS[name] for name in names}, bench.options
    with make_room(options.modes, max(program.mib[options.size] for program in programs.values())) as room:
        modes = choose_modes(options.modes, room)
        contenders = {name: [(name, mode, program, mode) for mode in modes] for name, program in programs.items()}
        take_turns(bench, contenders, room.hugetlbfs)


def measure_start(bench):
    """The program that only takes memory, beside others that populate as much at once."""
    options = bench.options
    with make_room(options.modes, START.mib[options.size]) as room:
        contenders = [("start", mode, START, mode) for mode in choose_modes(options.modes, room)]
        yardsticks = {"populate-small": ((), "thp-never"), "populate-large": ((), "thp-always")}
        if room.pool or room.has_reserved:
            where = room.pool / "populated" if room.pool else "reserved"
            yardsticks["populate-reserved"] = ((where,), "thp-madvise")
        for label, (where, mode) in yardsticks.items():
            if not find_missing(mode, room.has_reserved):
                contenders.append(("start", label, make_yardstick(options.size, where), mode))
        take_turns(bench, {"start": contenders}, room.hugetlbfs)


def take_turns(bench, contenders, hugetlbfs):
    """Runs all contenders of each program beside each load, in turns."""
    options = bench.options
    bench.expect(sum(map(len, contenders.values())) * len(options.loads) * len(options.pin) * options.turns)
    for one in contenders.values():
        bench.settle(one, hugetlbfs)
    for load in options.loads:
        with Loads(load, TARGET / "pages", options.jobs.split(",")) as loads:
            for turn in range(options.turns):
                for mine in contenders.values():
                    for pin in options.pin:
                        first = turn % len(mine)
                        order = mine[first:] + mine[:first]
                        for contender in order if turn % 2 == 0 else reversed(order):
                            loads.check()
                            bench.run(contender, load, pin, turn, hugetlbfs)
                            loads.check()


def show(runs, write, picture):
    """Rows, tables and the picture of some runs."""
    rows = list(report.make_rows(runs))
    for row in [*rows, *report.sum_up(rows)]:
        write(row)
    report.print_tables(rows)
    if picture:
        report.draw(rows, picture)


def names(known):
    """What an option takes: some of these names, with commas."""

    def parse(text):
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose among {', '.join(known)}")
        return chosen

    return parse


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*PROGRAMS, "start"]
    parser.add_argument("--turns", type=int, default=10, help="of each (10)")
    for option, known, text in (
        ("--programs", every, "what is run"),
        ("--modes", list(MODES), "how"),
        ("--loads", list(Loads.PROFILES), "beside what"),
        ("--pin", list(PINS), "on one processor, or on all"),
    ):
        parser.add_argument(option, type=names(known), default=known, help=f"{text} ({','.join(known)})")
    parser.add_argument("--size", choices=list(START_MIB), default="full", help="of the programs (full)")
    parser.add_argument("--jobs", default="2", help="of each build, one build for each number (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each run and each row here")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the ratios here; needs matplotlib")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="measure nothing, show the runs of this file"
    )
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns: at least one")
    return options


def main():
    options = parse_options()
    if options.source:
        lines = [json.loads(line) for line in options.source.open()]
        show([line for line in lines if line["bench"] == "pages-run"], lambda _: None, options.picture)
        return
    with contextlib.ExitStack() as stack:
        end_on_signals()
        lines = stack.enter_context(options.json.open("w")) if options.json else None
        bench, about = Bench(options, lines), machine.describe()
        bench.write(about)
        if about["reports_free_memory"]:
            say(
                "The host takes this machine's free memory back: in all modes but reserved ones first touches cost more for it."
            )
        steady = [name for name in options.programs if name != "start"]
        missing = {
            name: program.find_missing()
            for name, program in {**PROGRAMS, "start": START}.items()
            if name in options.programs
        }
        if any(missing.values()):
            sys.exit(f"run.py: {', '.join(filter(None, missing.values()))}: make pages-bench, or see scripts/setup.sh")
        try:
            stack.enter_context(kept_thp())
            if steady:
                measure_steady(bench, steady)
            if "start" in options.programs:
                measure_start(bench)
        except (LoadError, ProgramError) as error:
            sys.exit(f"run.py: {error}")
        show(bench.runs, bench.write, options.picture)
        if bench.wrong:
            sys.exit(f"run.py: {len(bench.wrong)} runs went wrong: {bench.wrong[0]}")


if __name__ == "__main__":
    main()
