"""Where memory ends: an error of the call, and the interpreter goes on."""

from __future__ import annotations

import stillframe as sf
from conftest import Spawn

#: Bounds the address space of a child at what it has now and a little more.
BOUND = """
import resource
def bound(more_bytes):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, resource.RLIM_INFINITY))
"""


def test_a_copy_for_which_there_is_no_memory_is_an_error_that_says_so(spawn: Spawn) -> None:
    with sf.create("r") as region:
        u = region.array("u", 8 << 20)
        u[:] = 7
        region.publish(1)
        child = spawn(
            """
            snapshot = sf.open("r").newest()
            bound(32 << 20)
            try:
                snapshot.read("u")
            except MemoryError as error:
                print(isinstance(error, sf.ResourceError), error)
            try:
                snapshot["u"]
            except sf.OutOfMemory as error:
                print(error)
            some = snapshot.read("u", 0, 1000)
            print(len(some), some.sum(), some.flags.writeable)
            """,
            prelude=BOUND,
        )
        expected = "True 67108864 bytes for a copy of variable 'u' cannot be had: read fewer elements at a time"
        assert child.hear() == expected
        assert child.hear().startswith("no memory mapping left (mmap(")
        assert child.hear() == "1000 7000.0 True"
        child.end()


def test_a_version_of_more_windows_than_there_is_memory_for_is_an_error(spawn: Spawn) -> None:
    with sf.create("r") as region:
        # 8 TiB that nobody wrote: 4 Mi windows, and 4 bytes of each version's table for each.
        region.loan("u", 1 << 40)
        region.publish(1)
        for bytes in (8 << 20, 24 << 20):
            child = spawn(
                f"""
                observer = sf.open("r")
                bound({bytes})
                try:
                    observer.newest()
                except sf.OutOfMemory as error:
                    print(error)
                """,
                prelude=BOUND,
            )
            heard = child.hear()
            assert "/tables: malloc(" in heard and "Cannot allocate memory" in heard, heard
            child.end()


def test_a_variable_of_more_pieces_than_there_is_memory_for_is_an_error(spawn: Spawn) -> None:
    with sf.create("r") as region:
        # 1 TiB that nobody wrote, which comes in pieces of 2 MiB, each of which takes some bytes to be named.
        region.loan("u", 1 << 37)
        region.publish(1)
        child = spawn(
            """
            snapshot = sf.open("r").newest()
            bound(10 << 20)
            try:
                next(snapshot.chunks("u"))
            except sf.OutOfMemory as error:
                print(error)
            print(snapshot.read("u", 5, 7))
            """,
            prelude=BOUND,
        )
        assert child.hear().startswith("the pieces of variable 'u' are more than there is memory for")
        assert child.hear() == "[0. 0.]"
        child.end()


def test_arrays_for_which_there_is_no_memory_are_errors(spawn: Spawn) -> None:
    child = spawn(
        """
        region = sf.create("r")
        small = region.array("small", 1000)
        # More than the C library reserves for the allocations of another thread (64 MiB), which would leave nothing.
        bound(1 << 30)
        for make in (region.array, lambda name, shape: region.loan(name, shape).__enter__()):
            try:
                make("large", 1 << 30)
            except sf.ResourceError as error:
                print(type(error).__name__)
        small[:] = 1
        print(region.publish(1).version)
        region.unlink()
        """,
        prelude=BOUND,
    )
    assert child.hear() == "OutOfMemory"
    assert child.hear() == "OutOfMemory"
    assert child.hear() == "1"
    child.end()


def test_an_array_without_elements_may_have_any_other_extents() -> None:
    with sf.create("r") as region:
        region.loan("u", (0, 1 << 40, 1 << 40))
        region.publish(1)
        with sf.open("r") as observer, observer.newest() as snapshot:
            assert memoryview(snapshot._native.memory("u")).shape == (0, 1 << 40, 1 << 40)
