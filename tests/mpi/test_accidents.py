"""What observers of a group see when ranks die or abort, and that no rank takes notice of an observer.

The accidents are planted into the C example: the program is the one of the documents, with one more statement."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import stillframe as sf
from conftest import BUILT, HEAT, LANGUAGES, ROOT, Plate, program, simulation
from test_heat import check_end, check_seen, seen

#: They take long, and end launchers of MPI as an accident does.
pytestmark = pytest.mark.long

PLATE = Plate(75, 101, 60)
STEP = 30
#: Rank 2 is in the middle of its step: it has computed half of its rows.
MIDDLE = f"rank == 2 && step == {STEP} && y == h / 2 && x == 1"

HOLDER = """
import pathlib, sys, time
import numpy as np
import stillframe as sf
with sf.open_group("heat", wait=60) as group, group.newest() as snapshot:
    for _ in range(2):
        bits = 0
        for part in snapshot:
            inside = np.ascontiguousarray(part["u"][1:-1, 1:-1])
            bits ^= int(np.bitwise_xor.reduce(inside.view("u8"), axis=None))
        print(f"version {snapshot.version}: heat 0, bits {bits:016x}", flush=True)
        while not pathlib.Path("end").exists():
            time.sleep(0.01)
"""


def planted(runs, statement):
    """The C example with a statement in its innermost loop."""
    source = (HEAT / "c" / "heat.c").read_text()
    place = "                const double *c = "
    assert source.count(place) == 1
    file, binary = runs.directory / "heat.c", runs.directory / "heat"
    file.write_text("#include <signal.h>\n#include <sys/wait.h>\n#include <unistd.h>\n" + source.replace(place, statement + "\n" + place))
    library = BUILT
    flags = ["-O2", "-std=gnu11", "-ffp-contract=off", f"-I{ROOT}/bindings/c/include"]
    link = [f"-L{library}", "-lstillframe", f"-Wl,-rpath,{library}"]
    subprocess.run(["mpicc", *flags, str(file), "-o", str(binary), *link], check=True, timeout=60)
    return [str(binary)]


def wait_until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"no {what} after a minute"
        time.sleep(0.01)


def check_collectable(runs):
    """Nothing that is left needs a hand: `still gc` finds it dead and unheld."""
    assert sf.list(dir=runs.regions)
    still = str(BUILT / "still")
    assert "heat" in runs.run([still, "gc", "--dir", str(runs.regions)])
    assert not sf.list(dir=runs.regions)


#: The rank waits until the test says so, and dies.
DYING = f'if ({MIDDLE}) {{ while (access("go", F_OK)) usleep(1000); raise(SIGKILL); }}'


def launchers(mpi):
    """Those that look after the ranks: the processes that mpiexec has started itself, but with Open MPI mpiexec."""
    version = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=True).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        return [mpi.pid]
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            found += [int(path.parent.name)] if int(parent) == mpi.pid else []
    return found


@contextlib.contextmanager
def unattended(mpi):
    """An MPI kills all ranks when one dies; not while those who would are stopped."""
    stopped = launchers(mpi)
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def check_named(runs, observers):
    """Each observer has seen everything up to the accident, and names the rank that is gone."""
    for language, observer in observers.items():
        status, out, err = runs.end(observer)
        assert status == 1, f"{language}: {status} {out}{err}"
        assert "rank 2 of 4" in err and f"version {STEP - 1}" in err, f"{language}: {err}"
        assert check_seen(out, PLATE) == STEP - 1, f"{language}: {out}"


def newest(runs):
    return {region.name: region.newest for region in sf.list(dir=runs.regions)}


def states(runs):
    return {region.name: region.state for region in sf.list(dir=runs.regions)}


@pytest.mark.parametrize("others", [STEP - 1, STEP], ids=["beside the others", "behind the others"])
def test_a_rank_that_is_killed_is_named_by_every_observer_while_others_live(runs, others):
    observers = {language: runs.start([*program(language, "look"), "heat"]) for language in LANGUAGES}
    pausing = f"if (step == {STEP} && rank != 2) pause();" if others < STEP else ""
    mpi = runs.start(simulation(planted(runs, DYING + pausing), *PLATE.arguments, "heat"))
    expected = {f"heat/{rank}": STEP - 1 if rank == 2 else others for rank in range(4)}
    wait_until(lambda: newest(runs) == expected, f"versions {expected}")
    with unattended(mpi):
        (runs.directory / "go").touch()
        check_named(runs, observers)
        assert states(runs) == {f"heat/{rank}": "dead" if rank == 2 else "live" for rank in range(4)}
    status, _, _ = runs.end(mpi)
    assert status != 0
    wait_until(lambda: set(states(runs).values()) == {"dead"}, "end of the ranks")
    check_collectable(runs)


@pytest.mark.parametrize("accident", ["MPI_Abort(plate, 3); _exit(3);", "raise(SIGKILL);"], ids=["abort", "kill"])
def test_a_rank_that_takes_the_others_with_it_leaves_the_last_whole_version_and_a_message(runs, accident):
    observers = {language: runs.start([*program(language, "look"), "heat"]) for language in LANGUAGES}
    command = planted(runs, f"if ({MIDDLE}) {accident}")
    status, _, _ = runs.end(runs.start(simulation(command, *PLATE.arguments, "heat")))
    assert status != 0
    with sf.open_group("heat", dir=runs.regions) as group, group.newest() as snapshot:
        last = snapshot.version
    # Rank 1 may not have come as far as rank 2, whose next neighbour it is not.
    assert STEP - 3 <= last < STEP
    for language, observer in observers.items():
        status, out, err = runs.end(observer)
        assert status == 1 and re.search(r"rank \d of 4", err), f"{language}: {status} {out}{err}"
        assert check_seen(out, PLATE) == last, f"{language}: {out}"
    check_collectable(runs)


@pytest.mark.parametrize(
    "end, message",
    [("exit(0);", ""), ("raise(SIGKILL);", "rank 0 of 1"), ("if (!fork()) exit(0);\nwait(0);\nraise(SIGKILL);", "rank 0 of 1")],
    ids=["ended", "killed", "killed after its child ended"],
)
def test_a_program_that_ended_is_told_from_one_that_was_killed(runs, end, message):
    command = planted(runs, f"if (step == {STEP}) {{ {end} }}")
    mpi = runs.start(simulation(command, *PLATE.arguments, "heat", ranks=1))
    runs.end(mpi)
    for language in LANGUAGES:
        status, out, err = runs.end(runs.start([*program(language, "look"), "heat"]))
        assert check_seen(out, PLATE) == STEP - 1
        assert (status, message in err) == (1 if message else 0, True), f"{language}: {status} {err}"


def test_no_rank_waits_for_an_observer_that_is_stopped_while_it_holds_a_version(runs):
    observer = runs.start([sys.executable, "-c", HOLDER])
    # Rank 0 waits in step 10 until the observer holds a version.
    pause = 'while (step == 10 && access("go", F_OK)) usleep(1000);'
    mpi = runs.start(simulation(planted(runs, pause), *PLATE.arguments, "heat"))
    wait_until(lambda: runs.printed(observer)[0].endswith("\n"), "snapshot")
    os.kill(observer.pid, signal.SIGSTOP)
    (runs.directory / "go").touch()
    status, out, err = runs.end(mpi)
    assert status == 0, err
    check_end(out, PLATE)
    os.kill(observer.pid, signal.SIGCONT)
    (runs.directory / "end").touch()
    status, out, err = runs.end(observer)
    assert status == 0, err
    before, after = seen(out)
    assert before == after and before[0] <= 10 and before[2] == PLATE.bits(before[0])


def test_an_observer_that_is_killed_leaves_nothing_behind(runs):
    observer = runs.start([sys.executable, "-c", HOLDER])
    pause = 'while (step == 10 && access("go", F_OK)) usleep(1000);'
    mpi = runs.start(simulation(planted(runs, pause), *PLATE.arguments, "heat"))
    wait_until(lambda: runs.printed(observer)[0].endswith("\n"), "snapshot")
    os.kill(observer.pid, signal.SIGKILL)
    observer.wait()
    (runs.directory / "go").touch()
    status, out, err = runs.end(mpi)
    assert status == 0, err
    check_end(out, PLATE)
    check_collectable(runs)


def test_a_rank_that_cannot_publish_says_so_and_computes_on(runs):
    # Where the directory for regions should be there is a file.
    runs.regions.write_text("")
    status, out, err = runs.end(runs.start(simulation(program("c", "heat"), *PLATE.arguments, "heat")))
    assert status == 0, err
    check_end(out, PLATE)
    assert err.count("\n") >= 4 and str(runs.regions) in err, err
