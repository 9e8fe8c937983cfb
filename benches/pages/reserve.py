"""Reserved large pages, for as long as something is measured."""

import contextlib
import mmap
import sys
from pathlib import Path

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
LARGE_MIB = 2
MAP_HUGETLB = 0x40000


def fill(mib):
    """Writes reserved pages once: a host that takes free memory back gives it again only then, which is nobody's to measure."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE | MAP_HUGETLB
    mmap.mmap(-1, mib << 20, flags=flags).close()


@contextlib.contextmanager
def reserved(mib):
    """Whether so many MiB are reserved in large pages, besides those that are already; they are given back."""
    if not mib:
        yield False
        return
    before = int(POOL.read_text())
    wanted = before + mib // LARGE_MIB + 8
    try:
        POOL.write_text(str(wanted))
    except OSError as error:
        print(f"without reserved pages: {POOL}: {error}", file=sys.stderr)
        yield False
        return
    has = int(POOL.read_text())
    try:
        if has < wanted:
            print(f"without reserved pages: the kernel found {has - before} of {wanted - before}", file=sys.stderr)
        else:
            fill(mib)
        yield has >= wanted
    finally:
        # Others may have reserved some meanwhile, or given theirs back.
        POOL.write_text(str(max(int(POOL.read_text()) - (has - before), 0)))
