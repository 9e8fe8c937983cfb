"""What nodes-bench does, by the SST engine of ADIOS2 over sockets: a step of a process on one node goes to one on another node.

beside_sst.py write FILE MIB     publishes a step for each line with its number, and prints when it began to, in nanoseconds since 1970
beside_sst.py read FILE MIB      gets a step for each line, and prints when it had it

FILE is one that both see. SST is set as benches/rivals sets it: BP5, sent at once to the one reader that there is. The wheel has one
transport of data, sockets.
"""

import sys
import time

import adios2
import numpy as np

role, path, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
elements = mib << 17

io = adios2.Adios().declare_io("bench")
io.set_engine("SST")
io.set_parameters(
    {
        "DataTransport": "WAN",
        "WANDataTransport": "sockets",
        "ControlTransport": "sockets",
        "NetworkInterface": "eth0",
        "RendezvousReaderCount": "1",
        "QueueLimit": "3",
        "QueueFullPolicy": "Block",
        "MarshalMethod": "BP5",
    }
)
# Also touches every page.
data = np.ones(elements)
at = np.arange(elements, dtype=np.float64)
print("ready", flush=True)


def write():
    variable = io.define_variable("u", data, [elements], [0], [elements], True)
    engine = io.open(path, adios2.bindings.Mode.Write)
    engine.lock_writer_definitions()
    for line in sys.stdin:
        np.add(at, int(line) * 1e9, out=data)
        begin = time.time_ns()
        engine.begin_step()
        engine.put(variable, data, adios2.bindings.Mode.Deferred)
        engine.end_step()
        print(begin, flush=True)
    engine.close()


def read():
    engine = io.open(path, adios2.bindings.Mode.Read)
    for line in sys.stdin:
        if engine.begin_step() != adios2.bindings.StepStatus.OK:
            sys.exit(f"no step {line}")
        variable = io.inquire_variable("u")
        engine.get(variable, data, adios2.bindings.Mode.Deferred)
        engine.end_step()
        end = time.time_ns()
        wrong = np.flatnonzero(data[:: 4 * 997] != int(line) * 1e9 + at[:: 4 * 997])
        if len(wrong):
            sys.exit(f"step {line}: number {4 * 997 * wrong[0]} is another one")
        print(end, flush=True)
    engine.close()


{"write": write, "read": read}[role]()
