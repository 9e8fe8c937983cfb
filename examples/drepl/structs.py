"""An array of structs becomes a struct of arrays, and back again."""

from common import compare, numpy, still

N = 200
cell = numpy.dtype([("rho", "f8"), ("e", "f8"), ("id", "i4")])
mesh = numpy.zeros((N, N), cell)
mesh["rho"] = numpy.random.default_rng(1).random((N, N))
mesh["e"] = 1 / (1 + mesh["rho"])
mesh["id"] = numpy.arange(N * N).reshape(N, N)
mesh.tofile("aos.raw")

still("convert", "structs.drepl", "-D", f"N={N}", "--from", "aos=aos.raw", "--to", "soa=soa.raw")
arrays = numpy.fromfile("soa.raw", "u1").tobytes()
compare("rho", numpy.frombuffer(arrays, "f8", N * N), mesh["rho"].ravel())
compare("e", numpy.frombuffer(arrays, "f8", N * N, N * N * 8), mesh["e"].ravel())
compare("id", numpy.frombuffer(arrays, "i4", N * N, N * N * 16), mesh["id"].ravel())

still("convert", "structs.drepl", "-D", f"N={N}", "--from", "soa=soa.raw", "--to", "aos=again.raw")
compare("back again", numpy.fromfile("again.raw", cell), mesh.ravel())
