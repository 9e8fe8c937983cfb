"""A netCDF file, read as raw bytes: the header is skipped, big-endian numbers become the machine's."""

import struct

from common import compare, numpy, still

LAT, LON = 45, 90
temperature = 280 + numpy.random.default_rng(6).random((LAT, LON))
pressure = numpy.linspace(9e4, 1.02e5, LAT * LON, dtype="f4").reshape(LAT, LON)


def name(text):
    return struct.pack(">i", len(text)) + text.ljust(-len(text) % 4 + len(text), "\0").encode()


def header(begin):
    """The classic format's, of two dimensions and two variables without attributes."""
    absent = struct.pack(">ii", 0, 0)
    dimensions = struct.pack(">ii", 10, 2) + b"".join(name(n) + struct.pack(">i", e) for n, e in [("lat", LAT), ("lon", LON)])
    variables = struct.pack(">ii", 11, 2)
    for text, kind, size in [("temperature", 6, 8), ("pressure", 5, 4)]:
        bytes = LAT * LON * size
        variables += name(text) + struct.pack(">iii", 2, 0, 1) + absent + struct.pack(">iii", kind, bytes, begin)
        begin += bytes
    return b"CDF\1" + struct.pack(">i", 0) + dimensions + absent + variables


length = len(header(0))
with open("weather.nc", "wb") as file:
    file.write(header(length) + temperature.astype(">f8").tobytes() + pressure.astype(">f4").tobytes())

names = ["-D", f"lat={LAT}", "-D", f"lon={LON}", "-D", f"header={length}"]
still("convert", "netcdf.drepl", *names, "--from", "file=weather.nc", "--to", "memory=memory.raw")
bytes = numpy.fromfile("memory.raw", "u1").tobytes()
compare("temperature", numpy.frombuffer(bytes, "f8", LAT * LON).reshape((LAT, LON), order="F"), temperature)
compare("pressure", numpy.frombuffer(bytes, "f4", LAT * LON, LAT * LON * 8).reshape((LAT, LON), order="F"), pressure)

try:
    import netCDF4
except ImportError:
    print("netCDF4 is not installed: only the values that were written are compared")
else:
    with netCDF4.Dataset("weather.nc") as dataset:
        compare("temperature, read by netCDF4", dataset["temperature"][:].filled(), temperature)
        compare("pressure, read by netCDF4", dataset["pressure"][:].filled(), pressure)
