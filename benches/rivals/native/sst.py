"""`adios2-sst`: the SST engine of ADIOS2, over sockets on the loopback interface.

sst.py <producer|observer> - <control file> <name> <elements> <steps>

The control page and its protocol are described in src/control.rs, the arithmetic in src/work.rs.
"""

import ctypes
import mmap
import platform
import sys
from time import monotonic_ns as now

import adios2
import numpy as np

BLOCK = 1024
BEGIN, FILL_START, FILL_END, PUBLISHED, SUMMED, SUM = range(6)
CREATED, READY, CREDIT = range(3)
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]
WAIT, WAKE = 0, 1

role, _, control_path, name, elements, steps = sys.argv[1:]
elements, steps = int(elements), int(steps)

with open(control_path, "r+b") as file:
    page = mmap.mmap(file.fileno(), 0)
words = [ctypes.c_uint32.from_buffer(page, 4 * i) for i in range(3)]
rows = np.frombuffer(page, dtype=np.uint64, offset=64).reshape(steps, 8)
sums = rows.view(np.float64)[:, SUM]
libc = ctypes.CDLL(None)


def raise_to(word, value):
    words[word].value = value
    libc.syscall(FUTEX, ctypes.byref(words[word]), WAKE, 2**31 - 1, None, None, 0)


def wait_for(word, at_least):
    while (value := words[word].value) < at_least:
        libc.syscall(FUTEX, ctypes.byref(words[word]), WAIT, value, None, None, 0)


io = adios2.Adios().declare_io("rivals")
io.set_engine("SST")
# The wheel has one data transport, sockets ("WAN"), here on loopback. One reader that wants everything
# gets it sent eagerly (SpeculativePreloadMode, AUTO by default), which the documentation advises.
io.set_parameters({
    "DataTransport": "WAN",
    "WANDataTransport": "sockets",
    "ControlTransport": "sockets",
    "NetworkInterface": "lo",
    "RendezvousReaderCount": "1",
    # Room for the step that is read and the one ahead of it, and one whose release is on its way:
    # the pipeline's depth is set by the control page alone.
    "QueueLimit": "3",
    "QueueFullPolicy": "Block",
    "MarshalMethod": "BP5",
})
data = np.ones(elements)  # also touches every page

# Open waits for the other side by itself.
if role == "producer":
    ramp = np.arange(BLOCK) * 0.25
    blocks = np.arange(elements // BLOCK, dtype=np.float64)
    table = data.reshape(-1, BLOCK)
    variable = io.define_variable("x", data, [elements], [0], [elements], True)
    engine = io.open(name, adios2.bindings.Mode.Write)
    engine.lock_writer_definitions()
    wait_for(READY, 1)
    for step in range(steps):
        wait_for(CREDIT, step - 1)
        rows[step, BEGIN] = rows[step, FILL_START] = now()
        np.add(ramp[None, :], (blocks + step)[:, None], out=table)
        rows[step, FILL_END] = now()
        engine.begin_step()
        engine.put(variable, data, adios2.bindings.Mode.Deferred)
        engine.end_step()
        rows[step, PUBLISHED] = now()
    wait_for(CREDIT, steps)
    engine.close()
else:
    engine = io.open(name, adios2.bindings.Mode.Read)
    raise_to(READY, 1)
    for step in range(steps):
        if engine.begin_step() != adios2.bindings.StepStatus.OK:
            sys.exit(f"no step {step}")
        variable = io.inquire_variable("x")
        engine.get(variable, data, adios2.bindings.Mode.Deferred)
        engine.end_step()
        total = data.sum()
        rows[step, SUMMED] = now()
        sums[step] = total
        raise_to(CREDIT, step + 1)
    engine.close()
