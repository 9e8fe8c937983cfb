"""The halo of a block: its ghost cells come from the eight blocks around it."""

from common import compare, numpy, still

grid = numpy.random.default_rng(4).random((64, 128))
for i in range(4):
    for j in range(4):
        grid[16 * i : 16 * i + 16, 32 * j : 32 * j + 32].tofile(f"block-{i}-{j}.raw")

block = "{ var b [x:16,y:32] = grid[x+16*i,y+32*j] }"
sources = ["--each", "i=0..4", "--each", "j=0..4", "--from"]


def halo(xmin, ymin):
    names = ["-D", f"xmin={xmin}", "-D", f"ymin={ymin}"]
    still("convert", "halo.drepl", *names, *sources, block + "=block-{i}-{j}.raw", "--to", "halo=halo.raw")
    return numpy.fromfile("halo.raw").reshape(18, 34)


names = ["-D", "xmin=16", "-D", "ymin=32"]
still("explain", "halo.drepl", *names, *sources, block, "--view", "halo", "--svg", "halo.svg")
compare("an inner block", halo(16, 32), grid[15:33, 31:65])
compare("one in the corner", halo(0, 0), numpy.pad(grid[:17, :33], ((1, 0), (1, 0))))
