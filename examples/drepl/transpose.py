"""A matrix, transposed. In memory that is the same as column-major order."""

from common import compare, numpy, still

ROWS, COLUMNS = 120, 300
field = numpy.random.default_rng(3).random((ROWS, COLUMNS)).astype("f4")
field.tofile("c.raw")

names = ["-D", f"rows={ROWS}", "-D", f"columns={COLUMNS}"]
still("convert", "transpose.drepl", *names, "--from", "c=c.raw", "--to", "transposed=t.raw", "--to", "fortran=f.raw")
compare("transposed", numpy.fromfile("t.raw", "f4").reshape(COLUMNS, ROWS), field.T)
compare("fortran", numpy.fromfile("f.raw", "f4").reshape((ROWS, COLUMNS), order="F"), field)
