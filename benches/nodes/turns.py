"""What rows of the benchmark share: processes on nodes that take turns, runtimes for them, and ratios."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BUILT = TARGET / "release"
REGIONS = "/dev/shm/bench"
#: Of each role, before those that count: memory and windows have to come up.
SETTLING = 3


class Role:
    """A process on a node, which does something for each line."""

    def __init__(self, node, *words, **environment):
        command = [str(word) for word in words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = node.popen(command, env=environment or None, **pipes)
        self.said = self.listen()

    def listen(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a part of the benchmark ended: {self.process.args}")
        return line.strip()

    def tell(self, line=""):
        self.process.stdin.write(f"{line}\n")

    def ask(self, line=""):
        self.tell(line)
        return self.listen()

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


class Runtimes:
    """A runtime on each node, from the beginning of a `with` block to its end."""

    def __init__(self, nodes, plain):
        self.certificate = nodes.folder / "certificate"
        nodes[0].run([BUILT / "still", "node", "certificate", "bench", self.certificate])
        words = [BUILT / "still", "node", "run", "--certificate", self.certificate, "--dir", REGIONS, "--json", "--nice", "0"]
        words += ["--plain"] if plain else []
        self.roles = [Role(node, *words, "--listen", node.address) for node in nodes]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The first one keeps the names, and leaves last.
        for runtime in reversed(self.roles):
            runtime.process.terminate()
            runtime.process.wait(60)


def ratio(ours, theirs):
    return sorted(one / other for one, other in zip(ours, theirs))


def show(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f} to {values[-1]:.{digits}f})"
