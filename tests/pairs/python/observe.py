"""The observer in Python: observe.py DIR REGION VERSION. See ../run.py for what it has to print."""

import json
import struct
import sys
import zlib

import numpy as np

import stillframe as sf


def attribute(name, value):
    match value:
        case bool():
            return f"{name} bool {int(value)}"
        case int():
            return f"{name} int {value}"
        case float():
            return f"{name} float {struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
        case _:
            return f"{name} text {value}"


def text_of(native):
    if isinstance(native, str):
        return native
    fields, nbytes = native
    fields = [{"name": name, "dtype": dtype, "offset": offset} for name, dtype, offset in fields]
    return json.dumps({"fields": fields, "bytes": nbytes}, separators=(",", ":"))


directory, name, version = sys.argv[1:]
with sf.open(name, dir=directory, wait=30) as observer:
    snapshot = observer.version(int(version))
    print("version", snapshot.version)
    for key, value in snapshot.attrs.items():
        print("attribute", attribute(key, value))
    for variable in snapshot.variables.values():
        array = snapshot[variable.name]
        data = array.reshape(-1, order="A").view(np.uint8)
        print(
            "variable", variable.name, text_of(variable.native), variable.order, variable.units, variable.nbytes,
            "shape", *variable.shape, "strides", *array.strides, "crc", f"{zlib.crc32(data):08x}",
        )  # fmt: skip
        for key, value in variable.attrs.items():
            print("attribute", attribute(key, value))
