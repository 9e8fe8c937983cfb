"""Watches a heat run: its total heat in the newest version each time, and at the end a picture of the last one.

    python look.py [NAME [PICTURE.png]]
"""

import struct
import sys
import zlib

import numpy as np
import stillframe as sf


def assemble(snapshot):
    """The whole plate. The ranks lie row by row on as square a grid as their number allows."""
    ranks = len(snapshot)
    columns = max(divisor for divisor in range(1, ranks + 1) if divisor * divisor <= ranks and ranks % divisor == 0)
    # Axes are (y, x) with a frame of ghost cells, in C order or in Fortran order.
    parts = [part["u"][1:-1, 1:-1] for part in snapshot]
    return np.block([parts[first : first + columns] for first in range(0, ranks, columns)])


def save(path, plate, hottest=100.0, pixels=4):
    """Writes a picture: black is cold, then red, yellow, and white is hot."""
    warmth = np.clip(plate / hottest, 0, 1).repeat(pixels, axis=0).repeat(pixels, axis=1)
    colours = np.clip(3 * warmth[..., None] - [0, 1, 2], 0, 1)
    height, width = warmth.shape
    # Each line of a PNG begins with the number of its filter; 0 is none.
    lines = np.pad((255 * colours).round().astype("u1").reshape(height, 3 * width), ((0, 0), (1, 0)))
    chunks = {b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT": zlib.compress(lines.tobytes()), b"IEND": b""}
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in chunks.items():
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "heat"
    picture = sys.argv[2] if len(sys.argv) > 2 else f"{name}.png"
    plate = None
    with sf.open_group(name, wait=30, polite=True) as group:
        for snapshot in group.iterate():
            with snapshot:
                plate = assemble(snapshot)
            bits = np.bitwise_xor.reduce(np.ascontiguousarray(plate).view("u8"), axis=None)
            print(f"version {snapshot.version}: heat {plate.sum():.4f}, bits {bits:016x}", flush=True)
    if plate is not None:
        save(picture, plate)
        print(f"the last one: {picture}")


try:
    main()
except sf.Error as error:
    sys.exit(f"look: {error}")
