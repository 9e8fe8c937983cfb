"""Eight blocks become six: a checkpoint of eight ranks goes on with six."""

from common import compare, numpy, still

line = numpy.random.default_rng(5).random(96)
for i in range(8):
    line[12 * i : 12 * i + 12].tofile(f"old-{i}.raw")

old, new = "{ var b [x:12] = line[x+12*i] }", "{ var b [x:16] = line[x+16*j] }"
each = ["--each", "i=0..8", "--each", "j=0..6"]
still("convert", "repartition.drepl", *each, "--from", old + "=old-{i}.raw", "--to", new + "=new-{j}.raw")
for j in range(6):
    compare(f"block {j}", numpy.fromfile(f"new-{j}.raw"), line[16 * j : 16 * j + 16])

# Collation is the same: all of the line in one file.
still("convert", "repartition.drepl", *each, "--from", old + "=old-{i}.raw", "--to", "{ var l = line }=line.raw")
compare("the line", numpy.fromfile("line.raw"), line)
