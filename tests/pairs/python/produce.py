"""The producer in Python: produce.py DIR REGION CASES [ARENA]. See ../run.py for what it has to do."""

import json
import sys
from math import prod

import numpy as np

import sections
import stillframe as sf

directory, name, cases, *arenas = sys.argv[1:]
if arenas:
    with sf.Arena.create(arenas[0], bytes=32 << 30, dir=directory) as arena:
        region = sf.create(name, arena=arena, keep=2)
else:
    region = sf.create(name, dir=directory, keep=2)
index = np.arange(1 << 22, dtype=np.uint64)


def pattern(case, nbytes, is_bool, step):
    i = index[:nbytes]
    value = (i * 31 + i // 256 + case * 17 + step * (case % 2)) & (1 if is_bool else 255)
    return value.astype(np.uint8)


arrays = []
for case, line in enumerate(open(cases)):
    variable, kind, order, text, itemsize, *shape = line.split()
    nbytes = int(itemsize) * prod(map(int, shape))
    dtype = json.loads(text) if text.startswith("{") else text
    if isinstance(dtype, dict):
        dtype = np.dtype(
            {
                "names": [field["name"] for field in dtype["fields"]],
                "formats": [field["dtype"] for field in dtype["fields"]],
                "offsets": [field["offset"] for field in dtype["fields"]],
                "itemsize": dtype["bytes"],
            }
        )
    elif dtype.startswith("bytes"):
        dtype = np.dtype(f"S{dtype[5:]}")
    dtype, shape = np.dtype(dtype), tuple(map(int, shape))
    about = {"order": order, "units": "m/s", "attrs": {"case": case}}
    memory = None
    if kind == "managed":
        memory = region.array(variable, shape, dtype, **about)
    elif kind == "tracked":
        # Not at the beginning of a page, as an allocator would have it.
        offset = 16 * (case % 7) + 16
        buffer = np.zeros(nbytes + offset, np.uint8)[offset:]
        memory = np.ndarray(shape, dtype, buffer.data, order=order)
        region.track(variable, memory, **about)
    else:
        with region.loan(variable, shape, dtype, **about):
            pass
    arrays.append((variable, kind, memory, nbytes, text == "bool"))

sections.track(region)
for step, version in enumerate((5, 8)):
    sections.fill(step)
    for case, (variable, kind, memory, nbytes, is_bool) in enumerate(arrays):
        content = pattern(case, nbytes, is_bool, step)
        if kind == "loaned":
            with region.loan(variable) as lent:
                lent.reshape(-1, order="A").view(np.uint8)[:] = content
        else:
            memory.reshape(-1, order="A").view(np.uint8)[:] = content
    region.publish(version, sections.once(), attrs={"flag": True, "integer": -(2**40), "real": 0.1, "text": "Grüße"})
print("ready", flush=True)
sys.stdin.read()
region.unlink()
