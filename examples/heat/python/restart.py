"""Heat in a plate whose surroundings are an infinite sink: at each step each cell becomes the weighted average of itself and
its eight neighbours, and whatever lies outside is 0. Each rank has a block of the plate with a frame of ghost cells.

It goes on from what the last run left in memory or in ./checkpoints, whatever number of ranks that had.

    mpiexec -n 4 python restart.py [HEIGHT [WIDTH [STEPS [NAME]]]]
"""

import sys

import numpy as np
import stillframe as sf
from mpi4py import MPI

defaults = ["96", "128", "200", "heat"]
*numbers, name = sys.argv[1:5] + defaults[len(sys.argv) - 1 :]
height, width, steps = map(int, numbers)

# The ranks lie row by row on as square a grid as their number allows.
ranks = MPI.COMM_WORLD.size
columns = max(divisor for divisor in range(1, ranks + 1) if divisor * divisor <= ranks and ranks % divisor == 0)
rows = ranks // columns
plate = MPI.COMM_WORLD.Create_cart([rows, columns])
rank = plate.rank
(up, down), (left, right) = plate.Shift(0, 1), plate.Shift(1, 1)
top, bottom = (row * height // rows for row in (rank // columns, rank // columns + 1))
first, last = (column * width // columns for column in (rank % columns, rank % columns + 1))

# A hot disc, and a warm bar beside it.
y, x = np.ogrid[top:bottom, first:last]
disc = 4 * ((3 * x - width) ** 2 + (3 * y - height) ** 2) < min(height, width) ** 2
bar = (2 * x >= width) & (8 * x < 7 * width) & (8 * y >= 5 * height) & (4 * y < 3 * height)
u = np.pad(np.where(disc, 100.0, np.where(bar, 60.0, 0.0)), 1)
following = np.zeros_like(u)


def exchange(out, to, into, source):
    received = np.empty(out.shape)
    plate.Sendrecv(np.ascontiguousarray(out), to, recvbuf=received, source=source)
    if source != MPI.PROC_NULL:
        into[:] = received


region, origin = sf.recover(name, checkpoints="checkpoints", rank=rank, ranks=ranks)
region.track("u", u, part=((top, first), (height + 2, width + 2)))
if origin.version is not None:
    region.read("u", out=u)
if rank == 0:
    print(f"{name}: {origin}")
begin = MPI.Wtime()
for step in range((origin.version or 0) + 1, steps + 1):
    # Rows first; the columns then carry the corners along.
    exchange(u[1], up, u[-1], down)
    exchange(u[-2], down, u[0], up)
    exchange(u[:, 1], left, u[:, -1], right)
    exchange(u[:, -2], right, u[:, 0], left)
    north, middle, south = u[:-2], u[1:-1], u[2:]
    edges = (north[:, 1:-1] + south[:, 1:-1]) + (middle[:, :-2] + middle[:, 2:])
    corners = (north[:, :-2] + north[:, 2:]) + (south[:, :-2] + south[:, 2:])
    following[1:-1, 1:-1] = 0.28 * middle[:, 1:-1] + 0.14 * edges + 0.04 * corners
    u, following = following, u
    region.publish(step, {"u": u})
seconds = MPI.Wtime() - begin

# The exclusive or of all cells' bits tells whether two runs agree to the last one, however the plate is divided.
inside = np.ascontiguousarray(u[1:-1, 1:-1])
heat = plate.reduce(float(inside.sum()))
bits = plate.reduce(int(np.bitwise_xor.reduce(inside.view("u8"), axis=None)), MPI.BXOR)
if rank == 0:
    print(
        f"{name}: {height} x {width} on {ranks} ranks, step {steps}, heat {heat:.4f}, bits {bits:016x}, {seconds:.6f} s"
    )
