"""A rank of a parallel program, or an observer of it, in a node, that does what a test tells it, a line of JSON each.

What is published is a function of version, rank and index, so that each element that is seen can be checked."""

import sys
import time

import numpy as np
import stillframe as sf
from puppet import serve


def value(version, rank, shape):
    return version * 1_000_003 + rank * 100_003 + np.arange(np.prod(shape)).reshape(shape)


class Rank:
    def begin(self, name, rank, ranks, shape):
        self.rank, self.shape = rank, tuple(shape)
        self.region = sf.create(name, rank=rank, ranks=ranks)
        self.u = self.region.array("u", shape=self.shape, dtype="int64")

    def publish(self, version):
        self.u[...] = value(version, self.rank, self.shape)
        self.region.publish(version, attrs={"step": version})

    def publish_all(self, first, last, pause_ms):
        for version in range(first, last + 1):
            self.publish(version)
            time.sleep(pause_ms / 1000)

    def end(self):
        self.region.close()


class Observer:
    def open(self, name, wait=30):
        self.group = sf.open_group(name, wait=wait)
        return self.group.size

    def check(self, snapshot):
        """Checks each element of each rank: which version it is."""
        with snapshot:
            for rank, part in enumerate(snapshot):
                assert part.version == snapshot.version == part.attrs["step"]
                wrong = np.argwhere(part["u"] != value(snapshot.version, rank, part["u"].shape))
                assert not len(wrong), f"version {snapshot.version}, rank {rank}: {len(wrong)} are wrong, at {wrong[0]}"
            return snapshot.version

    def newest(self):
        return self.check(self.group.newest())

    def next(self, after, timeout):
        return self.check(self.group.next(after, timeout=timeout))

    def follow(self, last, timeout):
        """Sees newer and newer versions up to one: which."""
        seen = [0]
        while seen[-1] < last:
            seen.append(self.check(self.group.newest_after(seen[-1], timeout=timeout)))
        return seen[1:]


if __name__ == "__main__":
    serve({"rank": Rank, "observer": Observer}[sys.argv[1]]())
