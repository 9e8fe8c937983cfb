"""A writer of an object in Python: write.py DIR OBJECT RANK RANKS. See ../objects.py for what it has to do."""

import sys

import numpy as np

import stillframe as sf

TEXT = """type Cell struct { rho float32; id int64 }
var grid [12,10] float64
var cells [30]Cell"""
#: Columns of the grid, the first index the fastest, and cells the other way round.
VIEW = """view part columnmajor {
    var g [x:12,y:columns] = grid[x,y+first]
    var c [i:count] = cells[last-i]
}"""

directory, name, rank, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
first, end = (10 * number // ranks for number in (rank, rank + 1))
begin, stop = (30 * number // ranks for number in (rank, rank + 1))

obj = sf.create_object(name, TEXT, dir=directory)
numbers = {"first": first, "columns": end - first, "last": stop - 1, "count": stop - begin}
with obj.write(VIEW, rank=rank, keep=3, **numbers) as part:
    x, y = np.ogrid[0:12, first:end]
    i = np.arange(stop - 1, begin - 1, -1)
    for version in (1, 2, 3):
        part.arrays["g"][...] = 10000 * version + 100 * x + y
        part.arrays["c"]["rho"] = 1000 * version + i
        part.arrays["c"]["id"] = -i - version
        part.publish(version)
    print("ready", flush=True)
    sys.stdin.read()
