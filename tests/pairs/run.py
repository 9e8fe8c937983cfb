#!/usr/bin/env python3
"""Every producer's language with every observer's language: equal bytes, equal metadata.

A producer, `produce DIR REGION CASES [ARENA]`, makes the region, in an arena of that name and of 32 GiB if it is given one,
and declares each variable of the file CASES, a line each:

    NAME KIND ORDER DTYPE ITEM_BYTES SHAPE…

with units "m/s" and an attribute "case", the line's number from 0. It fills byte i of case k with

    (31 i + i / 256 + 17 k) mod 256            of a bool: mod 2

and publishes version 5; adds k mod 2 before taking the remainder, and publishes version 8. Both have the attributes
below, and `keep` is 2. Tracked memory begins where 16 (k mod 7) + 16 bytes of a page, or of an allocation, are gone. Then
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
from itertools import product
from math import prod
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT = 120
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
    return lines


def differences(wanted, found):
    for line, (left, right) in enumerate(zip(wanted, found, strict=False)):
        if left != right:
            return f"line {line + 1}: expected {left!r}, found {right!r}"
    if len(wanted) != len(found):
        return f"expected {len(wanted)} lines, found {len(found)}"
    return None


def check(producer, observers, table, wanted, directory, arena=None):
    """Runs one producer beside observers, with a region of its own or of an arena, and returns what is wrong."""
    wrong = []
    region = "pairs" if arena is None else f"{arena}/pairs"
    with subprocess.Popen(
        [*producer[1]["produce"], directory, "pairs", table, *([] if arena is None else [arena])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            if process.stdout.readline().strip() != "ready":
                return [f"the producer in {producer[0]} did not get ready"]
            for (language, commands), (step, version) in product(observers, enumerate((5, 8))):
                seen = subprocess.run(
                    [*commands["observe"], directory, region, str(version)],
                    capture_output=True, text=True, timeout=TIMEOUT,
                )  # fmt: skip
                what = f"{producer[0]}{'' if arena is None else ', in an arena,'} to {language}, version {version}"
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


def main():
    parser = argparse.ArgumentParser(description="Runs every producer beside every observer.")
    parser.add_argument("--programs", type=Path, required=True, help="the folder with LANGUAGE-produce and -observe")
    parser.add_argument("--only", nargs="*", help="these languages")
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
    for text in wrong:
        print("pairs:", text, file=sys.stderr)
    print(f"{2 * len(chosen) * (len(chosen) + 1) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
