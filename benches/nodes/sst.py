"""Steps of 256 MiB to a reader on another node, beside ADIOS2's SST over sockets."""

import statistics

from nodes import Nodes
from turns import BUILT, HERE, REGIONS, ROOT, SETTLING, Role, Runtimes, ratio, show

#: scripts/setup.sh sst puts ADIOS2 there.
PYTHON = ROOT / "target" / "venv" / "bin" / "python"
#: Memory that glibc got stays with it, which halves the times of SST.
MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 62)}


def step(writer, reader, number):
    """Nanoseconds from when the writer begins to publish until the reader, which waits by then, has all."""
    reader.tell(number)
    begin = int(writer.ask(number))
    return int(reader.listen()) - begin


def sst(arguments, report):
    mib, own, beside = arguments.mib, BUILT / "nodes-bench", HERE / "beside_sst.py"
    print(f"\nsteps of {mib} MiB to a reader on another node, plain\n")
    print("| SST ms | loaned ms | ratio | copied ms | ratio |")
    print("|---" * 5 + "|")
    with Nodes(2, shm_bytes=8 << 30) as nodes, Runtimes(nodes, plain=True):
        there, here = nodes[0], nodes[1]
        pairs = {}
        for kind in ("loaned", "copied"):
            words = [REGIONS, "contiguous", mib, "--name", kind]
            writer = Role(there, own, "write", *words, *(["--loaned"] if kind == "loaned" else []))
            pairs[kind] = writer, Role(here, own, "await", *words)
        file = nodes.folder / "sst"
        pairs["sst"] = Role(there, PYTHON, beside, "write", file, mib, **MEMORY), Role(here, PYTHON, beside, "read", file, mib, **MEMORY)
        rows = []
        for number in range(1, arguments.turns + SETTLING + 1):
            order = list(pairs) if number % 2 else list(reversed(pairs))
            rows.append({kind: step(*pairs[kind], number) for kind in order})
        for writer, reader in pairs.values():
            # The reader of SST learns by the end of its input that no step follows, and the writer waits for the reader.
            for role in (reader, writer):
                role.process.stdin.close()
            for role in (reader, writer):
                role.process.wait(60)
    times = {kind: [row[kind] for row in rows[SETTLING:]] for kind in pairs}
    ms = {kind: f"{statistics.median(times[kind]) / 1e6:.1f}" for kind in pairs}
    ratios = {kind: ratio(times[kind], times["sst"]) for kind in ("loaned", "copied")}
    print(f"| {ms['sst']} | " + " | ".join(f"{ms[kind]} | {show(ratios[kind])}" for kind in ratios) + " |", flush=True)
    for kind, values in ratios.items():
        report.append({"row": "sst", "fragment": kind, "mib": mib, "times": values})
