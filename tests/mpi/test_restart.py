"""Runs that are killed and go on: from memory or from checkpoints, with as many ranks or others, to the same last bit."""

import difflib
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import stillframe as sf
from conftest import BUILT, HEAT, LANGUAGES, ROOT, Plate, program, simulation
from test_heat import SOURCES, check_end

#: Blocks of no two ranks are alike.
SIDES = (75, 101)
#: Steps of a run that nobody waits for.
ENDLESS = 1_000_000
#: Steps that the run after it goes on.
MORE = 50
STILL = str(BUILT / "still")


def long(*cases):
    """Cases that only `make test-long` runs."""
    return [pytest.param(*case, marks=pytest.mark.long) for case in cases]


def restart(language, ranks, steps=ENDLESS):
    return simulation(program(language, "restart"), *SIDES, steps, "heat", ranks=ranks)


def check_going_on(runs, language, ranks, last):
    """Goes on from a version; what comes out is that of a run that was never killed. Returns what it said."""
    plate = Plate(*SIDES, last + MORE)
    out = runs.run(restart(language, ranks, plate.steps))
    check_end(out, plate)
    found = re.search(r"heat: (.*)$", out, re.MULTILINE)
    assert found, out
    return found[1]


def kill(process, regions):
    """Ends a run as a batch system does that has waited long enough: all of its processes at once."""
    listed = subprocess.run(["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True, check=False)
    for pid in map(int, listed.stdout.split()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    while any(info.state == "live" for info in sf.list(dir=regions)):
        time.sleep(0.01)


def run_until_killed(runs, language, ranks, wait):
    """Starts a run, waits for something, and kills it."""
    process = runs.start(restart(language, ranks))
    wait()
    assert process.poll() is None, runs.printed(process)
    kill(process, runs.regions)


def version_of_group(runs):
    with sf.open_group("heat", dir=runs.regions) as group:
        return group.newest().version


def wait_for_version_above(runs, version):
    """Waits until all ranks of a run have a version that the runs before did not have."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with sf.open_group("heat", dir=runs.regions) as group:
                if group.alive and group.newest().version > version:
                    return
        except sf.Error:
            pass
        time.sleep(0.005)
    pytest.fail(f"no version above {version} came")


def wait_for_checkpoint(store):
    end = time.monotonic() + 60
    while sf.newest_safe(store) is None and time.monotonic() < end:
        time.sleep(0.005)


def checkpoints(*options):
    return [STILL, "checkpoint", "heat", "--to", "checkpoints", "--wait", "60", "--keep", "2", *options]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_run_that_is_killed_goes_on_from_memory_to_the_same_bits(runs, language):
    run_until_killed(runs, language, 4, lambda: wait_for_version_above(runs, 20))
    last = version_of_group(runs)
    said = check_going_on(runs, language, 4, last)
    assert said == f"going on from version {last}, which was still in memory"


@pytest.mark.parametrize(("language", "ranks"), [("c", 6), *long(("cxx", 3), ("fortran", 6), ("python", 3), ("rust", 6))])
def test_a_run_goes_on_with_other_numbers_of_ranks_from_memory(runs, language, ranks):
    run_until_killed(runs, language, 4, lambda: wait_for_version_above(runs, 20))
    last = version_of_group(runs)
    said = check_going_on(runs, language, ranks, last)
    assert said == f"going on from version {last}, which was still in memory"


@pytest.mark.parametrize(("language", "ranks"), [("python", 6), *long(("c", 4), ("cxx", 6), ("fortran", 3), ("rust", 3))])
def test_a_run_goes_on_from_a_checkpoint_when_memory_is_gone(runs, language, ranks):
    store = runs.directory / "checkpoints"
    checkpointer = runs.start(checkpoints("--every", "50"))
    run_until_killed(runs, language, 4, lambda: wait_for_checkpoint(store))
    # As after the machine was started again.
    kill(checkpointer, runs.regions)
    newest = sf.newest_safe(store)
    assert newest is not None and newest >= 50, runs.printed(checkpointer)
    shutil.rmtree(runs.regions)
    assert f"version {newest} of the checkpoint" in check_going_on(runs, language, ranks, newest)


def test_what_one_language_left_another_goes_on_from(runs):
    before = 0
    for language, ranks in [("c", 4), ("fortran", 3), ("python", 6), ("cxx", 2), ("rust", 5)]:
        newer = before
        run_until_killed(runs, language, ranks, lambda newer=newer: wait_for_version_above(runs, newer))
        before = version_of_group(runs)
    check_going_on(runs, "c", 4, before)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_documents_show_what_going_on_takes(language):
    heat = SOURCES[language][1]
    again = heat.replace("heat.", "restart.")
    before, after = ((HEAT / path).read_text().splitlines() for path in (heat, again))
    lines = list(difflib.unified_diff(before, after, heat, again, lineterm="", n=1))
    shown = "```diff\n" + "\n".join(lines) + "\n```\n"
    assert shown in (ROOT / "docs" / "mpi.md").read_text(), f"docs/mpi.md should show\n{shown}"
