"""Runs that are killed and go on: from memory or from checkpoints, with as many ranks or others, to the same last bit."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import stillframe as sf
from conftest import LANGUAGES, TARGET, Plate, program, simulation
from test_heat import check_end

#: Long enough to be killed in the middle, and blocks of no two ranks alike.
PLATE = Plate(75, 101, 1200)
STILL = str(TARGET / "release" / "still")


def restart(language, ranks):
    return simulation(program(language, "restart"), *PLATE.arguments, "heat", ranks=ranks)


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


def started(out):
    """What a run went on from, as it said."""
    found = re.search(r"heat: (.*)$", out, re.MULTILINE)
    assert found, out
    return found[1]


def checkpoints(runs, *options):
    return [STILL, "checkpoint", "heat", "--to", "checkpoints", "--wait", "60", "--keep", "2", *options]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_run_that_is_killed_goes_on_from_memory_to_the_same_bits(runs, language):
    run_until_killed(runs, language, 4, lambda: wait_for_version_above(runs, 0))
    last = version_of_group(runs)
    out = runs.run(restart(language, 4))
    assert started(out) == f"going on from version {last}, which was still in memory"
    check_end(out, PLATE)


@pytest.mark.parametrize(("language", "ranks"), [("c", 6), ("cxx", 3), ("fortran", 6), ("python", 3), ("rust", 6)])
def test_a_run_goes_on_with_other_numbers_of_ranks_from_memory(runs, language, ranks):
    run_until_killed(runs, language, 4, lambda: wait_for_version_above(runs, 0))
    last = version_of_group(runs)
    out = runs.run(restart(language, ranks))
    assert started(out) == f"going on from version {last}, which was still in memory"
    check_end(out, PLATE)


@pytest.mark.parametrize(("language", "ranks"), [("c", 4), ("cxx", 6), ("fortran", 3), ("python", 6), ("rust", 3)])
def test_a_run_goes_on_from_a_checkpoint_when_memory_is_gone(runs, language, ranks):
    store = runs.directory / "checkpoints"
    checkpointer = runs.start(checkpoints(runs, "--every", "50"))
    run_until_killed(runs, language, 4, lambda: sf.wait_safe(store, 100, timeout=60) or sf.newest_safe(store))
    status, out, err = runs.end(checkpointer)
    newest = sf.newest_safe(store)
    assert newest is not None and newest % 50 == 0, f"{status} {out}{err}"
    # As after the machine was started again.
    shutil.rmtree(runs.regions)
    out = runs.run(restart(language, ranks))
    assert f"version {newest} of the checkpoint" in started(out)
    check_end(out, PLATE)


def test_what_one_language_left_another_goes_on_from(runs):
    before = 0
    for language, ranks in [("c", 4), ("fortran", 3), ("python", 6), ("cxx", 2), ("rust", 5)]:
        newer = before
        run_until_killed(runs, language, ranks, lambda newer=newer: wait_for_version_above(runs, newer))
        before = version_of_group(runs)
    check_end(runs.run(restart("c", 4)), PLATE)
