"""What the tests of MPI programs share: the examples in each language, and runs of them that end whatever happens."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAT = ROOT / "examples" / "heat"
#: What cargo built, and below it what the Makefiles of the examples did.
BUILT = Path(os.environ.get("STILLFRAME_BUILT", ROOT / "target/debug")).resolve()
#: Where the programs of MPI are, and in which languages.
PROGRAMS = Path(os.environ.get("STILLFRAME_TEST_PROGRAMS", BUILT / "languages"))
LANGUAGES = os.environ.get("STILLFRAME_TEST_LANGUAGES", "c cxx fortran python rust").split()
#: Seconds; nothing here is expected to come near them.
RUN_TIMEOUT = 600


def program(language, what):
    """The command of one of a language's programs: plain, heat, restart or look."""
    if language == "python":
        return [sys.executable, str(HEAT / "python" / f"{what}.py")]
    if language == "rust":
        return [str(BUILT / ("heat" if what == "heat" else f"heat-{what}"))]
    return [str(PROGRAMS / "heat" / language / what)]


def simulation(command, *arguments, ranks=4):
    """A simulation's command; Rust's has its ranks as threads."""
    words = [str(word) for word in arguments]
    if Path(command[0]).name in ("heat-plain", "heat", "heat-restart") and Path(command[0]).parent == BUILT:
        return [*command, *words, str(ranks)]
    return ["mpiexec", "-n", str(ranks), *command, *words]


class Runs:
    """Processes of a test: each in a session of its own, which ends with the test."""

    def __init__(self, directory):
        self.directory = directory
        self.regions = directory / "regions"
        self.environment = {**os.environ, "STILLFRAME_DIR": str(self.regions)}
        self.processes = []

    def start(self, command):
        """Starts a command; what it prints goes to files, so that nobody waits for a reader."""
        number = len(self.processes)
        with (self.directory / f"{number}.out").open("w") as out, (self.directory / f"{number}.err").open("w") as err:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env=self.environment,
                start_new_session=True,
            )
        process.number = number
        self.processes.append(process)
        return process

    def printed(self, process):
        return tuple((self.directory / f"{process.number}.{stream}").read_text() for stream in ("out", "err"))

    def end(self, process):
        """Waits for a process; returns its status and what it printed."""
        try:
            status = process.wait(RUN_TIMEOUT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{process.args} does not end; it printed {self.printed(process)}")
        return (status, *self.printed(process))

    def run(self, command):
        """Runs a command that succeeds, and returns what it printed."""
        status, out, err = self.end(self.start(command))
        assert status == 0, f"{command} ended with {status}: {out}{err}"
        return out

    def stop(self, process):
        """Ends a process and those it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def runs():
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="stillframe-mpi-", dir=shm))
    runs = Runs(directory)
    yield runs
    for process in runs.processes:
        runs.stop(process)
    shutil.rmtree(directory)


class Plate:
    """The simulation once more, without ranks: what every program has to find, to the last bit."""

    def __init__(self, height, width, steps):
        self.shape = (height, width)
        self.steps = steps
        y, x = np.ogrid[0:height, 0:width]
        u = np.zeros((height + 2, width + 2))
        bar = (2 * x >= width) & (8 * x < 7 * width) & (8 * y >= 5 * height) & (4 * y < 3 * height)
        disc = 4 * ((3 * x - width) ** 2 + (3 * y - height) ** 2) < min(height, width) ** 2
        u[1:-1, 1:-1] = np.where(disc, 100, np.where(bar, 60, 0))
        self.versions = {0: u[1:-1, 1:-1].copy()}
        for step in range(1, steps + 1):
            edges = (u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:])
            corners = (u[:-2, :-2] + u[:-2, 2:]) + (u[2:, :-2] + u[2:, 2:])
            u[1:-1, 1:-1] = 0.28 * u[1:-1, 1:-1] + 0.14 * edges + 0.04 * corners
            self.versions[step] = u[1:-1, 1:-1].copy()

    @property
    def arguments(self):
        return (*self.shape, self.steps)

    def bits(self, version):
        return int(np.bitwise_xor.reduce(self.versions[version].view("u8"), axis=None))

    def heat(self, version):
        return float(self.versions[version].sum())
