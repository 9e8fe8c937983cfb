#!/usr/bin/env python3
"""Every producer's language with every observer's language: equal bytes, equal metadata.

A producer, `produce DIR REGION CASES [ARENA]`, makes the region, in an arena of that name and of 32 GiB if it is given one,
and declares each variable of the file CASES, a line each:

    NAME KIND ORDER DTYPE ITEM_BYTES SHAPE…

with units "m/s" and an attribute "case", the line's number from 0. It fills byte i of case k with

    (31 i + i / 256 + 17 k) mod 256            of a bool: mod 2

and publishes version 5; adds k mod 2 before taking the remainder, and publishes version 8. Both have the attributes
below, and `keep` is 2. Then there are sections of a column-major array `w` of float64, of shape (12, 9), and of one of 10
complex128 with the same numbers. Number n of `w` is ((37 n mod 1000) - 499.5) / 7, and 1 more in version 8. They are column-major,
without units and attributes; indices are counted from 1, as Fortran writes them:

    interior   w(2:11, ::2)                     backwards  w(12:1:-3, 9:1:-1)
    single     w as float32                     half       w(2:11, ::2) as float16
    brain      w as bfloat16                    pairs      z(2::2) as complex64
    once       w(3:10:2, :), given with the publish

Tracked memory of the cases begins where 16 (k mod 7) + 16 bytes of a page, or of an allocation, are gone. Then
it says `ready`, waits for the end of its input, and unlinks.

An observer, `observe DIR REGION VERSION`, prints all it sees of a version: the lines that `expected` makes here.

    PYTHON=… tests/pairs/run.py --programs FOLDER [--only LANGUAGE…]
"""

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from contextlib import contextmanager
from itertools import product
from math import prod
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT = 600
RECORD = (
    '{"fields":[{"name":"t","dtype":"float64","offset":0},{"name":"id","dtype":"int32","offset":8}],"bytes":16}'
)
ITEM_BYTES = {
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float32": 4, "float64": 8, "complex64": 8, "complex128": 16, "bool": 1, "bytes5": 5, RECORD: 16,
}  # fmt: skip
PAGE, WINDOW = 4096, 2 << 20
ATTRIBUTES = [
    "attribute flag bool 1",
    f"attribute integer int {-(2**40)}",
    f"attribute real float {struct.unpack('<Q', struct.pack('<d', 0.1))[0]:016x}",
    "attribute text text Grüße",
]


def cases():
    """All dtypes in ranks 1 to 7, both orders and all kinds, and with sizes around the edges of pages and windows."""
    kinds = ("tracked", "managed", "loaned")
    rows = []
    for dtype, rank, order, kind in product(ITEM_BYTES, range(1, 8), "CF", kinds):
        shape = [2 + (rank + axis) % 3 for axis in range(rank)]
        shape[0] += 9
        rows.append((kind, order, dtype, shape))
    for (dtype, size), pages, more, kind in product(ITEM_BYTES.items(), (1, 2), (-1, 0, 1), kinds):
        rows.append((kind, "CF"[len(rows) % 2], dtype, [pages * PAGE // size + more]))
    for elements, kind in product((0, 1, WINDOW // 8 - 1, WINDOW // 8, WINDOW // 8 + 1), kinds):
        rows.append((kind, "C", "float64", [elements]))
    return [(f"v{index}", *row) for index, row in enumerate(rows)]


def pattern(case, nbytes, is_bool, step):
    mask = 1 if is_bool else 255
    add = 17 * case + step * (case % 2)
    return bytes((31 * i + i // 256 + add) & mask for i in range(nbytes))


def strides(shape, order, itemsize):
    axes = range(len(shape))
    return [itemsize * prod(shape[:a] if order == "F" else shape[a + 1 :]) for a in axes]


def expected(rows, step):
    """What every observer prints of version 5 (step 0) or 8 (step 1)."""
    lines = [f"version {(5, 8)[step]}", *ATTRIBUTES]
    for case, (name, _kind, order, dtype, shape) in enumerate(rows):
        nbytes = ITEM_BYTES[dtype] * prod(shape)
        found = zlib.crc32(pattern(case, nbytes, dtype == "bool", step))
        steps = strides(shape, order, ITEM_BYTES[dtype])
        lines.append(
            f"variable {name} {dtype} {order} m/s {nbytes} shape {' '.join(map(str, shape))}"
            f" strides {' '.join(map(str, steps))} crc {found:08x}"
        )
        lines.append(f"attribute case int {case}")
    for name, dtype, item_bytes, shape, content in sections(step):
        lines.append(
            f"variable {name} {dtype} F  {len(content)} shape {' '.join(map(str, shape))}"
            f" strides {' '.join(map(str, strides(shape, 'F', item_bytes)))} crc {zlib.crc32(content):08x}"
        )
    return lines


def sections(step):
    """The sections: name, dtype, bytes of an element, shape, content."""
    w = [((37 * n % 1000) - 499.5) / 7 + step for n in range(12 * 9)]
    z = w[:20]

    def box(rows, columns):
        return [w[row + 12 * column] for column in columns for row in rows], [len(rows), len(columns)]

    interior, interior_shape = box(range(1, 11), range(0, 9, 2))
    backwards, backwards_shape = box(range(11, -1, -3), range(8, -1, -1))
    once, once_shape = box(range(2, 10, 2), range(9))
    seconds = [part for k in range(1, 10, 2) for part in z[2 * k : 2 * k + 2]]
    pack = lambda form, numbers: struct.pack(f"<{len(numbers)}{form}", *numbers)  # noqa: E731
    return [
        ("interior", "float64", 8, interior_shape, pack("d", interior)),
        ("backwards", "float64", 8, backwards_shape, pack("d", backwards)),
        ("single", "float32", 4, [12, 9], pack("f", w)),
        ("half", "float16", 2, interior_shape, pack("e", interior)),
        ("brain", "bfloat16", 2, [12, 9], b"".join(map(bfloat16, w))),
        ("pairs", "complex64", 8, [5], pack("f", seconds)),
        ("once", "float64", 8, once_shape, pack("d", once)),
    ]


def bfloat16(number):
    """The upper 16 bits of a float32 that is rounded from a float64 to 7 binary digits, to the nearest and else the even one."""
    bits = struct.unpack("<Q", struct.pack("<d", number))[0]
    bits = (bits + (1 << 44) - 1 + (bits >> 45 & 1)) >> 45
    sign, exponent, digits = bits >> 18, bits >> 7 & 0x7FF, bits & 127
    return struct.pack("<H", sign << 15 | (exponent - 1023 + 127) << 7 | digits)


def differences(wanted, found):
    for line, (left, right) in enumerate(zip(wanted, found, strict=False)):
        if left != right:
            return f"line {line + 1}: expected {left!r}, found {right!r}"
    if len(wanted) != len(found):
        return f"expected {len(wanted)} lines, found {len(found)}"
    return None


def check(producer, observers, table, wanted, directory, arena=None, socket=None):
    """Runs one producer beside observers, with a region of its own or of an arena, and returns what is wrong. With the socket of a
    broker, its address begins the region's name."""
    wrong = []
    region = "pairs" if arena is None else f"{arena}/pairs"
    region = region if socket is None else f"unix:{socket}#{region}"
    here = "" if arena is None else ", in an arena,"
    here += "" if socket is None else ", through a broker,"
    with subprocess.Popen(
        [*producer[1]["produce"], directory, "pairs", table, *([] if arena is None else [arena])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            if process.stdout.readline().strip() != "ready":
                return [f"the producer in {producer[0]} did not get ready"]
            for (language, commands), (step, version) in product(observers, enumerate((5, 8))):
                seen = subprocess.run(
                    [*commands["observe"], directory if socket is None else "/dev/shm/nowhere", region, str(version)],
                    capture_output=True, text=True, timeout=TIMEOUT,
                )  # fmt: skip
                what = f"{producer[0]}{here} to {language}, version {version}"
                if seen.returncode != 0:
                    wrong.append(f"{what}: status {seen.returncode}: {seen.stderr.strip()}")
                elif found := differences(wanted[step], seen.stdout.splitlines()):
                    wrong.append(f"{what}: {found}")
            process.stdin.close()
            if process.wait(TIMEOUT) != 0:
                wrong.append(f"the producer in {producer[0]} ended with {process.returncode}")
        finally:
            process.kill()
    if arena is not None:
        shutil.rmtree(Path(directory) / arena)
    left = os.listdir(directory)
    return wrong + ([f"the producer in {producer[0]} left {left}"] if left else [])


@contextmanager
def broker(still, directory, socket):
    """Hands out the regions of a directory."""
    command = [str(still), "--dir", directory, "enclave", "serve", "--socket", socket]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if not process.stdout.readline().startswith("handing out"):
                raise RuntimeError(f"{command} does not serve")
            yield
        finally:
            process.terminate()
    if os.path.exists(socket):
        raise RuntimeError(f"{command} left its socket")


def main():
    parser = argparse.ArgumentParser(description="Runs every producer beside every observer.")
    parser.add_argument("--programs", type=Path, required=True, help="the folder with LANGUAGE-produce and -observe")
    parser.add_argument("--only", nargs="*", help="these languages")
    parser.add_argument("--still", type=Path, help="the command line [default: beside the folder]")
    arguments = parser.parse_args()
    python = [os.environ.get("PYTHON", sys.executable)]
    languages = {
        language: {part: [str(arguments.programs / f"{language}-{part}")] for part in ("produce", "observe")}
        for language in ("rust", "c", "cxx", "fortran")
    }
    languages["python"] = {part: [*python, str(HERE / "python" / f"{part}.py")] for part in ("produce", "observe")}
    chosen = [(name, commands) for name, commands in languages.items() if not arguments.only or name in arguments.only]
    rows = cases()
    wanted = [expected(rows, step) for step in (0, 1)]
    wrong = []
    with tempfile.TemporaryDirectory(prefix="stillframe-pairs-", dir="/dev/shm") as directory:
        table = Path(directory) / "cases"
        regions = Path(directory) / "regions"
        regions.mkdir()
        table.write_text(
            "".join(
                f"{name} {kind} {order} {dtype} {ITEM_BYTES[dtype]} {' '.join(map(str, shape))}\n"
                for name, kind, order, dtype, shape in rows
            )
        )
        for producer in chosen:
            wrong += check(producer, chosen, str(table), wanted, str(regions))
            print(f"pairs: {producer[0]} to {', '.join(name for name, _ in chosen)}: {len(rows)} variables", flush=True)
        for number, producer in enumerate(chosen):
            observer = chosen[(number + 1) % len(chosen)]
            wrong += check(producer, [observer], str(table), wanted, str(regions), arena="pool")
            print(f"pairs: {producer[0]} to {observer[0]}, in an arena: {len(rows)} variables", flush=True)
        still, socket = arguments.still or arguments.programs.parent / "still", f"{directory}/sock"
        with broker(still, str(regions), socket):
            for arena in (None, "pool"):
                wrong += check(chosen[0], chosen, str(table), wanted, str(regions), arena, socket)
        print(f"pairs: {chosen[0][0]} to {', '.join(name for name, _ in chosen)}, through a broker", flush=True)
    for text in wrong:
        print("pairs:", text, file=sys.stderr)
    print(f"{2 * len(chosen) * (len(chosen) + 3) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
