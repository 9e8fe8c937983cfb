"""Steps of 256 MiB to a reader on another node, beside ADIOS2's SST over sockets."""

import statistics

from nodes import Nodes
from turns import BUILT, HERE, REGIONS, ROOT, SETTLING, Role, Runtimes, ratio, show

#: scripts/setup.sh sst puts ADIOS2 there.
PYTHON = ROOT / "target" / "venv" / "bin" / "python"
#: SST as it is installed; and with glibc told to keep the memory that it got, which about halves the times of SST.
BESIDE = {"SST": {}, "SST, memory kept": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 62)}}


def step(writer, reader, number):
    """Nanoseconds from when the writer begins to publish until the reader, which waits by then, has all."""
    reader.tell(number)
    begin = int(writer.ask(number))
    return int(reader.listen()) - begin


def sst(arguments, report):
    mib, own, beside = arguments.mib, BUILT / "nodes-bench", HERE / "beside_sst.py"
    print(f"\nsteps of {mib} MiB to a reader on another node, plain\n")
    with Nodes(2, shm_bytes=8 << 30) as nodes, Runtimes(nodes, plain=True):
        there, here = nodes[0], nodes[1]
        pairs = {}
        for kind in ("loaned", "copied"):
            words = [REGIONS, "contiguous", mib, "--name", kind]
            writer = Role(there, own, "write", *words, *(["--loaned"] if kind == "loaned" else []))
            pairs[kind] = writer, Role(here, own, "await", *words)
        for number, (kind, environment) in enumerate(BESIDE.items()):
            file = nodes.folder / f"sst{number}"
            role = lambda node, does: Role(node, PYTHON, beside, does, file, mib, **environment)
            pairs[kind] = role(there, "write"), role(here, "read")
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
    print("| | ms | of SST | of SST, memory kept |")
    print("|---" * 4 + "|")
    for kind, values in times.items():
        cells = [f"{statistics.median(values) / 1e6:.1f}"]
        if kind not in BESIDE:
            ratios = {beside: ratio(values, times[beside]) for beside in BESIDE}
            cells += map(show, ratios.values())
            report.append({"row": "sst", "fragment": kind, "mib": mib, "times": ratios})
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
