"""A program in a node that does what a test tells it, a line of JSON each, and answers with one.

What is published is a function of version and index, so that every element that is read can be checked: an element of another
version, or of another place, has another value."""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import stillframe as sf


def value(version, index):
    return version * 1_000_003 + index


class Puppet:
    def __init__(self):
        self.object = None
        self.writing = None
        self.reading = None

    def create(self, name, rows, columns):
        self.object = sf.create_object(name, "var grid [rows,columns] int64", rows=rows, columns=columns)

    def find(self, name, wait=20):
        self.object = sf.object(name, wait=wait)

    def write(self, first, count, rank, order="rowmajor", version=None, zeros=False, wait=20, writers=None):
        """Attaches rows to write."""
        text = f"view own {order} {{ var own [x:count,y:columns] = grid[x+first,y] }}"
        numbers = {"first": first, "count": count, "writers": writers}
        self.writing = self.object.write(text, rank=rank, version=version, zeros=zeros, keep=2, wait=wait, **numbers)
        rows, columns = np.ogrid[first : first + count, : self.columns]
        self.indices = rows * self.columns + columns
        return self.writing.version

    @property
    def columns(self):
        return self.object["grid"].shape[1]

    def publish(self, version):
        self.writing.arrays["own"][:] = value(version, self.indices)
        self.writing.publish(version)

    def publish_all(self, first, last, pause_ms):
        for version in range(first, last + 1):
            self.publish(version)
            time.sleep(pause_ms / 1000)

    def execute(self):
        """Becomes another program, which answers nothing."""
        os.execvp("sleep", ["sleep", "3600"])

    def read(self, text, rows, columns):
        """Attaches elements to read: those of the object that `rows` and `columns`, two slices, name, in this order."""
        every = np.arange(np.prod(self.object["grid"].shape)).reshape(self.object["grid"].shape)
        self.expected = every[slice(*rows), slice(*columns)]
        self.reading = self.object.read(text)

    def check(self, version):
        got = self.reading.arrays["seen"]
        wrong = np.argwhere(got != value(version, self.expected))
        if len(wrong):
            place = tuple(wrong[0])
            raise AssertionError(f"version {version}: {len(wrong)} of {got.size} are wrong, at {place} {got[place]}")
        return got.size

    def show(self, version, timeout):
        """Reads a version, and checks each element: how many."""
        self.reading.reattach(version, timeout=timeout)
        return self.check(version)

    def numbered(self, version, rows):
        """Reads rows of a version by its number, and checks each element: how many."""
        got = self.object["grid", version][slice(*rows)]
        every = np.arange(np.prod(self.object["grid"].shape)).reshape(self.object["grid"].shape)
        assert (got == value(version, every[slice(*rows)])).all(), f"version {version}"
        return got.size

    def numbered_by_threads(self, version, slices, threads, timeout):
        """Threads that share the object read slices of its rows, each all of them, beginning with another one: how many elements."""
        grid = self.object.at(version, timeout)["grid"]
        every = np.arange(np.prod(grid.shape)).reshape(grid.shape)

        def read(number):
            size = 0
            for rows in slices[number:] + slices[:number]:
                got = grid[slice(*rows)]
                assert (got == value(version, every[slice(*rows)])).all(), f"version {version}"
                size += got.size
            return size

        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(read, range(threads)))

    def newer(self, after, timeout):
        """Reads a newer version, and checks each element: which it is."""
        version = self.reading.reattach_newer(after, timeout=timeout)
        self.check(version)
        return version

    def follow(self, last, timeout):
        """Reads newer and newer versions up to one, and checks each element: which there were."""
        seen, version, end = [], 0, time.monotonic() + timeout
        while version < last:
            try:
                version = self.newer(version, timeout)
            except sf.Lost:
                # The writers went on before it had arrived.
                if time.monotonic() > end:
                    raise
                continue
            seen.append(version)
        return seen

    def newest(self):
        return self.object.newest()

    def detach(self):
        self.writing.detach()


def serve(puppet):
    """Does what is asked, line by line."""
    for line in sys.stdin:
        what, numbers = json.loads(line)
        try:
            answer = {"did": getattr(puppet, what)(**numbers)}
        except sf.Error as error:
            answer = {"error": type(error).__name__, "says": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(Puppet())
