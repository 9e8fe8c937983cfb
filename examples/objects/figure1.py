"""Figure 1 of "A Foundation for Automated Placement of Data": heat in a plate whose rim is an infinite sink. At each step each cell
becomes the average of itself and its eight neighbours. Each process writes its block of the plate, and reads its ghost cells
from whoever writes them.

    python figure1.py                                  four processes that it starts
    mpiexec -n 4 python -m mpi4py figure1.py --mpi     the ranks of MPI
    python figure1.py --ranks 6 --check                each step compared with a run in one process, to the last bit
"""

import argparse
import multiprocessing
import sys

import numpy as np
import stillframe as sf

#: Ghost cells on all four sides, corners with the upper and the lower ones. What lies beyond the rim of the plate is zero, so
#: that all processes attach the same.
GHOSTS = """view clipped {
    var left  [x:1,       y:yrange] = grid[x+xmin-1,      y+ymin]
    var right [x:1,       y:yrange] = grid[x+xmin+xrange, y+ymin]
    var upper [x:xrange+2,y:1]      = grid[x+xmin-1,      y+ymin-1]
    var lower [x:xrange+2,y:1]      = grid[x+xmin-1,      y+ymin+yrange]
}"""


def initial(x, y, length, height):
    """A hot disc, and a warm bar beside it."""
    disc = 4 * ((3 * x - length) ** 2 + (3 * y - height) ** 2) < min(length, height) ** 2
    bar = (2 * x >= length) & (8 * x < 7 * length) & (8 * y >= 5 * height) & (4 * y < 3 * height)
    return np.where(disc, 100.0, np.where(bar, 60.0, 0.0))


def average(padded):
    """Of each cell and its neighbours. The order of the sum is always the same, so that the result does not depend on blocks."""
    columns = padded[:-2] + padded[1:-1] + padded[2:]
    return (columns[:, :-2] + columns[:, 1:-1] + columns[:, 2:]) / 9


def serial(length, height):
    """The whole plate, step by step."""
    plate = initial(*np.ogrid[:length, :height], length, height)
    while True:
        yield plate
        plate = average(np.pad(plate, 1))


def block_of(rank, ranks, length, height):
    """Where the block of a rank begins, and its extents. The blocks form as square a grid as the number of ranks allows."""
    rows = max(divisor for divisor in range(1, ranks + 1) if divisor * divisor <= ranks and ranks % divisor == 0)
    columns = ranks // rows
    row, column = divmod(rank, columns)
    xmin, xmax = row * length // rows, (row + 1) * length // rows
    ymin, ymax = column * height // columns, (column + 1) * height // columns
    return {"xmin": xmin, "ymin": ymin, "xrange": xmax - xmin, "yrange": ymax - ymin}


def simulate(rank, ranks, options):
    """What each process does."""
    length, height = options.length, options.height
    # Whoever comes first creates the object; for the others it is there.
    heat = create(options)
    block = block_of(rank, ranks, length, height)
    xmin, ymin, xrange, yrange = block.values()

    # Two versions are kept: while one process publishes the next, a neighbour may still be reading its ghost cells.
    own = heat.write("{ var g [x:xrange,y:yrange] = grid[x+xmin,y+ymin] }", rank=rank, keep=2, **block)
    ghosts = heat.read(GHOSTS, **block)
    g, beside = own.arrays["g"], ghosts.arrays

    g[:] = initial(*np.ogrid[xmin : xmin + xrange, ymin : ymin + yrange], length, height)
    padded = np.zeros((xrange + 2, yrange + 2))
    expected = serial(length, height) if options.check else None
    # Version 0 is the object's initial version, so that the plate at the beginning is version 1.
    for version in range(1, options.steps + 2):
        own.publish(version)
        if expected and not np.array_equal(g, next(expected)[xmin : xmin + xrange, ymin : ymin + yrange]):
            sys.exit(f"rank {rank}: version {version} differs from the run in one process")
        ghosts.reattach(version, timeout=60)
        padded[1:-1, 1:-1] = g
        padded[:1, 1:-1], padded[-1:, 1:-1] = beside["left"], beside["right"]
        padded[:, :1], padded[:, -1:] = beside["upper"], beside["lower"]
        g[:] = average(padded)
    own.detach()
    ghosts.detach()


def create(options):
    size = {"length": options.length, "height": options.height}
    return sf.create_object(options.name, "var grid [length,height] float64", **size)


def prepare(options):
    """Removes what a run that was killed may have left."""
    try:
        sf.object(options.name).remove()
    except sf.NoObject:
        pass


def finish(options):
    """Looks at the result. All processes have detached; the last complete version can be read."""
    heat = sf.object(options.name)
    plate = heat["grid"]
    print(f"version {heat.newest()}: {np.sum(plate):.6f} in all, {plate[options.length // 3, options.height // 3]:.6f} in the disc")
    if options.check:
        for _, expected in zip(range(options.steps + 1), serial(options.length, options.height)):
            pass
        if heat.newest() != options.steps + 1 or not np.array_equal(plate, expected):
            sys.exit("the plate differs from the run in one process")
        print("equal to the run in one process, to the last bit")
    heat.remove()


def with_processes(options):
    prepare(options)
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=simulate, args=(rank, options.ranks, options)) for rank in range(options.ranks)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    failed = [rank for rank, process in enumerate(ranks) if process.exitcode != 0]
    if failed:
        sys.exit(f"ranks {failed} failed")


def with_mpi(options):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank == 0:
        prepare(options)
    world.Barrier()
    simulate(world.rank, world.size, options)
    world.Barrier()
    return world.rank == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", action="store_true", help="the processes are the ranks of MPI")
    parser.add_argument("--ranks", type=int, default=4, help="processes, without --mpi")
    parser.add_argument("--length", type=int, default=96, help="cells along the first axis")
    parser.add_argument("--height", type=int, default=128, help="cells along the second axis")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--name", default="heatsim", help="of the object")
    parser.add_argument("--check", action="store_true", help="compare each step with a run in one process")
    options = parser.parse_args()
    if options.mpi:
        if with_mpi(options):
            finish(options)
    else:
        with_processes(options)
        finish(options)


if __name__ == "__main__":
    main()
