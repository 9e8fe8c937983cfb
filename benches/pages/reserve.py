"""Reserved large pages, for as long as something is measured."""

import contextlib
import sys
from pathlib import Path

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
LARGE_MIB = 2


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
        yield has >= wanted
    finally:
        # Others may have reserved some meanwhile, or given theirs back.
        POOL.write_text(str(max(int(POOL.read_text()) - (has - before), 0)))
