"""Runtimes of Stillframe, and etcd, on the nodes of nodes.py.

with Nodes(3) as nodes, Runtimes(nodes, "target/release/still") as runtimes:
    nodes[0].run(["python", "writer.py"])
    runtimes.stop(1)
    runtimes.start(1)
"""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

from nodes import NodesError

#: Seconds within which a runtime or etcd says that it runs.
START_TIMEOUT = 30
PORT = 7700
ETCD_PORT = 2379


def find_still(given=None):
    """The command line of this checkout, or the one in PATH."""
    root = Path(__file__).resolve().parents[1]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    built = Path(os.environ.get("STILLFRAME_BUILT", target / "release"))
    for still in (given, built / "still", shutil.which("still")):
        if still and Path(still).exists():
            return Path(still).resolve()
    raise NodesError("there is no command `still`: make build makes target/release/still")


class Etcd:
    """An etcd of its own on a node, for what outlives any runtime. Its data lie in the node's memory."""

    def __init__(self, node, log):
        self._node = node
        self._log = log
        self._process = None
        self.endpoint = f"http://{node.address}:{ETCD_PORT}"

    def start(self, is_empty=False):
        """Starts it, with the data that it had, and returns when it listens."""
        folder = "/dev/shm/etcd"
        if is_empty:
            self._node.run(["rm", "-rf", folder])
        words = ["etcd", "--data-dir", folder, "--log-level", "error", "--unsafe-no-fsync"]
        words += ["--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint]
        words += ["--listen-peer-urls", "http://127.0.0.1:0"]
        with self._log.open("a") as log:
            self._process = self._node.popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ask = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"
        deadline = time.monotonic() + START_TIMEOUT
        while self._node.run(["python3", "-c", ask, self._node.address, str(ETCD_PORT)], check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NodesError(f"etcd on {self._node.name} does not listen:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    @property
    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def kill(self):
        self._process.kill()
        self._process.wait()


class Runtimes:
    """A runtime on each node, of one job, from the beginning of a `with` block to its end.

    Without `etcd_on`, the index of a node with an etcd of its own, the first node's runtime starts one, and starts it again.
    """

    def __init__(self, nodes, still=None, etcd_on=None, lease_seconds=3, memory_mib=None):
        self._nodes = nodes
        self._memory_mib = memory_mib
        self._lease_seconds = lease_seconds
        self._etcd_on = etcd_on
        self._processes = {}
        self.still = find_still(still)
        self.etcd = None
        #: Where names are kept, if that is no runtime's etcd.
        self.names = None
        #: What each runtime that runs said when it began: its number in the job, its address, and where names are.
        self.said = {}

    def __enter__(self):
        try:
            self.certificate = self.make_certificate("nodes")
            if self._etcd_on is not None:
                self.etcd = Etcd(self._nodes[self._etcd_on], self._nodes.folder / "etcd.log")
                self.etcd.start()
                self.names = self.etcd.endpoint
            for node in self._nodes:
                self.start(node.index)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def make_certificate(self, job, name="certificate"):
        """A certificate for a job, in a folder that goes with the runtimes."""
        where = self._nodes.folder / name
        # Made in a node: there its owner is whoever reads it later.
        self._nodes[0].run([self.still, "node", "certificate", job, where], cwd="/")
        return where

    def begin(self, index, certificate=None, more=(), env=None):
        """Starts a runtime, with more in its environment, and does not wait for it: its process."""
        node = self._nodes[index]
        words = [self.still, "node", "run", "--certificate", certificate or self.certificate, "--json"]
        words += ["--listen", f"{node.address}:{PORT}", "--name", node.name, "--lease", str(self._lease_seconds)]
        if self.names:
            words += ["--names", self.names]
        if self._memory_mib:
            words += ["--memory-mib", str(self._memory_mib)]
        with self.log(index).open("a") as log:
            how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": log, "text": True}
            return node.popen([*words, *more], env=env, cwd="/", **how)

    def log(self, index):
        """The file with what the runtime of a node complained about."""
        return self._nodes.folder / f"{self._nodes[index].name}.log"

    def start(self, index):
        """Starts the runtime of a node, and its etcd if that ended, and returns when it runs."""
        if self.etcd and index == self._etcd_on and not self.etcd.is_running:
            self.etcd.start()
        process = self.begin(index)
        self._processes[index] = process
        readable, _, _ = select.select([process.stdout], [], [], START_TIMEOUT)
        line = process.stdout.readline() if readable else ""
        if not line:
            self.stop(index)
            name = self._nodes[index].name
            raise NodesError(f"the runtime of {name} does not begin:\n{self.log(index).read_text()[-2000:]}")
        self.said[index] = json.loads(line)

    def stop(self, index):
        """Ends the runtime of a node at once, or sees that it ended with its node."""
        self.said.pop(index, None)
        process = self._processes.pop(index)
        process.kill()
        process.wait()
        process.stdout.close()

    def _end(self):
        for index in list(self._processes):
            self.stop(index)
        if self.etcd and self.etcd._process:
            self.etcd.kill()
