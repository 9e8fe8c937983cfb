"""What the tests of nodes share: nodes with runtimes, and programs in them that do what they are told."""

import contextlib
import faulthandler
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from nodes import Nodes, NodesError  # noqa: E402
from nodes_runtimes import Runtimes  # noqa: E402

HERE = Path(__file__).parent
#: Seconds; nothing here is expected to come near them.
TEST_TIMEOUT = 600
ANSWER_TIMEOUT = 600
#: A lease that does not end while a test runs, however long a node gets no processor. Tests that are about its end have their own.
LEASE_SECONDS = 60


class Failed(Exception):
    """What a puppet was told to do failed, with an error of Stillframe."""

    def __init__(self, kind, says):
        super().__init__(f"{kind}: {says}")
        self.kind = kind
        self.says = says


class Puppet:
    """A program in a node."""

    def __init__(self, node, program, *words):
        self.node = node
        self.process = node.popen(
            [sys.executable, HERE / program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd="/"
        )

    def tell(self, what, **numbers):
        """Tells it to do something, and does not wait."""
        self.process.stdin.write(json.dumps([what, numbers]) + "\n")

    def is_waiting(self, seconds):
        """Whether it has not answered after so long."""
        return not select.select([self.process.stdout], [], [], seconds)[0]

    def answer(self):
        """What it did; Failed with its error."""
        assert not self.is_waiting(ANSWER_TIMEOUT), f"a program on {self.node.name} does not answer"
        line = self.process.stdout.readline()
        assert line, f"a program on {self.node.name} ended"
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"], answer["says"])
        return answer["did"]

    def do(self, what, **numbers):
        self.tell(what, **numbers)
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()
        # What it was told and did not read is of no interest any more.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()


class Job:
    """Nodes with runtimes, and puppets that end with them."""

    def __init__(self, stack, count, delay_ms=0.0, loss=0.0, **how):
        self._stack = stack
        self.nodes = stack.enter_context(Nodes(count, delay_ms, loss, shm_bytes=256 << 20))
        how.setdefault("lease_seconds", LEASE_SECONDS)
        self.runtimes = stack.enter_context(Runtimes(self.nodes, os.environ.get("STILL"), **how))

    def puppet(self, index, program="puppet.py", *words):
        puppet = Puppet(self.nodes[index], program, *words)
        self._stack.callback(puppet.end)
        return puppet

    def writers(self, name, rows, columns, indices, order="rowmajor"):
        """Writers of equal bands of rows on these nodes."""
        puppets = [self.puppet(index) for index in indices]
        puppets[0].do("create", name=name, rows=rows, columns=columns)
        count = rows // len(puppets)
        for rank, puppet in enumerate(puppets):
            puppet.do("find", name=name)
            puppet.do("write", first=rank * count, count=count, rank=rank, order=order)
        return puppets

    def reader(self, name, index, text="{ var seen = grid }", rows=(None,), columns=(None,)):
        """A reader on a node, of all unless told otherwise."""
        puppet = self.puppet(index)
        puppet.do("find", name=name)
        puppet.do("read", text=text, rows=rows, columns=columns)
        return puppet


@pytest.fixture(scope="session")
def possible():
    """Skips what needs namespaces where the machine gives none."""
    try:
        with Nodes(1):
            pass
    except NodesError as error:
        pytest.skip(str(error))


@pytest.fixture
def job(possible):
    """Makes nodes with runtimes, which end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda count, **how: Job(stack, count, **how)


# The standard error of the run. While a test runs, pytest has a file of its own in its place, which nobody would read.
STDERR = pytest.StashKey[int]()


def pytest_configure(config):
    config.stash[STDERR] = os.dup(2)


@pytest.fixture(autouse=True)
def watchdog(request):
    """Ends the tests, with what they are at, when one of them hangs; its nodes end with them."""
    faulthandler.dump_traceback_later(TEST_TIMEOUT, exit=True, file=request.config.stash[STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()


def eventually(what, *errors, seconds=120):
    """Calls until it raises none of these errors."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return what()
        except errors:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
