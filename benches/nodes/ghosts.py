"""Faces of 2 x 2 ranks over two nodes, from an object, beside MPI_Neighbor_alltoallw over TCP."""

import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import threading
from pathlib import Path

from nodes import Nodes
from turns import BUILT, HERE, REGIONS, ROOT, Runtimes, ratio, show

#: Bytes of a face, by N and DEPTH of benches/objects/ghosts.c.
FACES = {"64 KiB": (32, 256), "256 KiB": (64, 512), "1 MiB": (128, 1024)}
STEPS = 60
RANKS_ON_NODE = 2
#: Seconds beyond which a run hangs, and beyond which its end does.
TIMEOUT = 120
ENDING_TIMEOUT = 2
#: MPICH sends by UCX; here by its TCP alone, also between ranks of a node. A rank that finds nothing to do lets the others have its
#: processor at once: there are fewer than ranks, and MPI is several times slower if it does not.
MPI = {
    "UCX_TLS": "tcp,self",
    "UCX_NET_DEVICES": "eth0",
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
}


def build():
    """The program of `make objects-bench`, which sends faces by an object or by messages."""
    program = BUILT / "nodes-ghosts"
    flags = ["-O2", "-Wall", "-ffp-contract=off", "-std=c11", f"-I{ROOT / 'bindings/c/include'}"]
    link = [f"-L{BUILT}", "-lstillframe", "-lpthread", f"-Wl,-rpath,{BUILT}"]
    source = HERE.parent / "objects" / "ghosts.c"
    subprocess.run(["mpicc", *flags, source, "-o", program, *link], check=True)
    return program


def kill(process):
    """Ends what runs on a node, and what that started there."""
    inner = process.inner
    if inner is not None:
        for number in [*Path(f"/proc/{inner}/task/{inner}/children").read_text().split(), inner]:
            os.kill(int(number), signal.SIGKILL)
    process.wait()


def launch(nodes, words, environment):
    """Runs a program of MPI, with two ranks on each node, until it says what it measured; that."""
    hosts = ",".join(node.address for node in nodes)
    count = RANKS_ON_NODE * len(nodes)
    mpiexec = ["mpiexec", "-launcher", "manual", "-iface", "eth0", "-hosts", hosts, "-ppn", RANKS_ON_NODE, "-n", count]
    command = [str(word) for word in [*mpiexec, *words]]
    how = {"env": environment, "stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = nodes[0].popen(command, stdout=subprocess.PIPE, text=True, **how)
    said, proxies, found = "", [], None
    watchdog = threading.Timer(TIMEOUT, lambda: kill(process))
    watchdog.start()
    while not found and (line := process.stdout.readline()):
        # It says how what starts the ranks of a node is started there, node by node.
        if line.startswith("HYDRA_LAUNCH: "):
            proxy = shlex.split(line.partition(": ")[2])
            proxies.append(nodes[len(proxies)].popen(proxy, stdout=subprocess.DEVNULL, **how))
        said += line
        found = re.search(r"sum (\S+), +([\d.]+) us, +([\d.]+) us", line)
    watchdog.cancel()
    # MPICH 4.0 with UCX 1.13 does not always find the end of MPI_Finalize over TCP.
    for one in [process, *proxies]:
        try:
            one.wait(ENDING_TIMEOUT)
        except subprocess.TimeoutExpired:
            kill(one)
    process.stdout.close()
    if not found:
        sys.exit(f"{' '.join(command)} measured nothing: {said}")
    return found[1], float(found[2]), float(found[3])


def exchange(nodes, program, kind, face, number):
    """A sum of all faces, and the microseconds until the last rank had its own: the median of the steps, and of the fastest tenth."""
    gate = nodes.folder / f"gate{number}"
    environment = {**MPI, "STILLFRAME_DIR": REGIONS, "GHOSTS_GATE": str(gate)}
    name = f"ghosts{number}"
    measured = launch(nodes, [program, kind, *FACES[face], STEPS, name], environment)
    gate.unlink()
    if kind != "mpi":
        nodes[0].run([BUILT / "still", "--dir", REGIONS, "rm", "--force", name])
    return measured


def ghosts(arguments, report):
    """Of each turn counts the median of its steps, and besides the fastest tenth: who waits in a loop, as MPI does, suffers most where
    processors are short."""
    program = build()
    kinds = ["mpi", "loaned", "copied"]
    print(f"\nfaces of 2 x 2 ranks over 2 nodes, {STEPS} steps in each turn\n")
    print("| face | fragment | MPI µs | Stillframe µs | ratio of times | of the fastest tenth of the steps |")
    print("|---" * 6 + "|")
    with Nodes(2, shm_bytes=8 << 30) as nodes, Runtimes(nodes, plain=True):
        number = 0
        for face in FACES:
            measured = {kind: [] for kind in kinds}
            for turn in range(arguments.turns):
                for kind in kinds if turn % 2 == 0 else reversed(kinds):
                    number += 1
                    measured[kind].append(exchange(nodes, program, kind, face, number))
            sums, medians, tenths = ({kind: [one[at] for one in measured[kind]] for kind in kinds} for at in range(3))
            if len(set(sum(sums.values(), []))) != 1:
                sys.exit(f"they do not agree about the faces: {sums}")
            for kind in kinds[1:]:
                times, fastest = ratio(medians[kind], medians["mpi"]), ratio(tenths[kind], tenths["mpi"])
                us = " | ".join(f"{statistics.median(medians[one]):.0f}" for one in ("mpi", kind))
                print(f"| {face} | {kind} | {us} | {show(times)} | {show(fastest)} |", flush=True)
                report.append({"row": "ghosts", "face": face, "fragment": kind, "times": times, "fastest": fastest})
