"""Each test has a directory of its own for regions, and a limited time."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS_MAX = 600

# The standard error of the run. While a test runs, pytest has a file of its own in its place, which nobody would read.
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)


@pytest.fixture(autouse=True)
def watchdog(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that hangs prints where, and ends the run."""
    faulthandler.dump_traceback_later(SECONDS_MAX, exit=True, file=request.config.stash[STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()
    # It would last, and all tests after it would wait for a processor that nobody wants.
    assert os.sched_getscheduler(0) != os.SCHED_IDLE, "the test has made the whole run polite"


@pytest.fixture(autouse=True)
def regions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the regions of this test lie: in memory if there is such a place."""
    shm = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="stillframe-test-", dir=shm if os.access(shm, os.W_OK) else None))
    monkeypatch.setenv("STILLFRAME_DIR", str(path))
    yield path
    gc.collect()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs started in the background of a script are told to ignore Ctrl-C, and these tests with them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Child:
    """Another Python process that runs some code, told and heard line by line."""

    def __init__(self, code: str, prelude: str, pass_fds: tuple[int, ...]) -> None:
        code = f"{prelude}\nimport stillframe as sf\n{textwrap.dedent(code)}"
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-u", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
        )

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the child ended with {self.process.wait(10)}"
        return line.strip()

    def end(self) -> None:
        """Waits for the child to end well."""
        assert self.process.wait(60) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Spawn:
    def __init__(self) -> None:
        self.children: list[Child] = []

    def __call__(self, code: str, prelude: str = "", pass_fds: tuple[int, ...] = ()) -> Child:
        self.children.append(Child(code, prelude, pass_fds))
        return self.children[-1]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts children, and ends those that are left."""
    spawn = Spawn()
    yield spawn
    for child in spawn.children:
        child.kill()
