"""The large pages that a benchmark needs, for as long as it lasts, and which modes there are with them."""

import contextlib
import dataclasses
import os
import sys
from pathlib import Path

from load import LoadError
from machine import memory_mib
from measure import measure
from modes import MODES, OURS, STILL, find_missing, has_launcher, mounted, pool
from programs import START, TARGET, Program, ProgramError
from reserve import reserved

#: Of all memory, what may be reserved and used by a program at once: the rest is the load's.
MOST_OF_MEMORY = 0.8
#: What a probe takes.
PROBE_MIB = 64


def say(text):
    print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Room:
    """Where the pool lies, or why there is none; whether pages are reserved besides, and where they are mounted."""

    pool: Path
    why: str
    has_reserved: bool
    hugetlbfs: Path


@contextlib.contextmanager
def make_room(modes, need_mib):
    """Reserves for a program that needs so much in any of these modes: a pool for the launcher, and as much for other modes."""
    most_mib = int(MOST_OF_MEMORY * memory_mib())
    with contextlib.ExitStack() as stack:
        place, why = None, f"{STILL} run does not know --pages"
        if OURS in modes and has_launcher():
            # The pool first: it would take pages that others have reserved.
            place, why = stack.enter_context(pool(need_mib))
        has_reserved = False
        if any(MODES[mode].reserved for mode in modes):
            # A program in ordinary memory has to find its own beside both.
            wanted = need_mib * (3 if place else 2)
            if wanted <= most_mib:
                has_reserved = stack.enter_context(reserved(need_mib))
            else:
                say(
                    f"without reserved pages: they and a program take {wanted} MiB, and at most {most_mib} MiB are taken"
                )
        hugetlbfs = stack.enter_context(mounted(TARGET / "pages" / "hugetlbfs")) if has_reserved else None
        yield Room(place, why, has_reserved, hugetlbfs)


def gets_large(mode, room):
    """Whether a program's memory gets any large page in this mode: libhugetlbfs needs a hook that glibc 2.34 took away."""
    probe = Program(START.words, {"probe": (PROBE_MIB,)}, {"probe": PROBE_MIB})
    try:
        return measure(probe, mode, "probe", os.sched_getaffinity(0), room.hugetlbfs)["large_bytes"] > 0
    except ProgramError as error:
        say(f"{mode}: {error}")
        return False


def choose_modes(modes, room):
    """Those of the modes that there can be; why others cannot is said."""
    chosen = []
    for mode in modes:
        missing = room.why if mode == OURS and not room.pool else find_missing(mode, room.has_reserved)
        if not missing and MODES[mode].reserved and not gets_large(mode, room):
            missing = "nothing of a program's memory lies in large pages (libhugetlbfs cannot do it with glibc 2.34 and later)"
        if missing:
            say(f"without {mode}: {missing}")
        else:
            chosen.append(mode)
    if not chosen:
        raise LoadError("none of the modes can be had")
    return chosen
