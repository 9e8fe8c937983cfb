"""Every fourth cell of a mesh, and one field of it."""

from common import compare, numpy, still

N = 200
cell = numpy.dtype([("rho", "f8"), ("e", "f8"), ("id", "i4")])
mesh = numpy.zeros((N, N), cell)
mesh["rho"] = numpy.random.default_rng(2).random((N, N))
mesh.tofile("all.raw")

still("convert", "coarse.drepl", "-D", f"N={N}", "--from", "all=all.raw", "--to", "coarse=coarse.raw")
compare("coarse", numpy.fromfile("coarse.raw", "f8").reshape(N // 4, N // 4), mesh["rho"][::4, ::4])
