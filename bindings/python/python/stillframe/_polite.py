"""How much of the machine an observer takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ._numbers import whole


@dataclass(frozen=True)
class Polite:
    """What a process that looks takes of the machine, at most: ``sf.open("plate", polite=sf.Polite(share=0.01))``.

    It is of the whole process, which does nothing else than look: all its threads take only what others leave (class
    ``SCHED_IDLE``), which needs no privilege and cannot be taken back without one. Between versions it sleeps until its
    processor time is within its budget.
    """

    #: How much of one processor it takes where nothing is left over, above 0 and at most 1. Where processors stay idle it
    #: takes more.
    share: float = 0.02
    #: Most bytes of variables that it reads in a second, seen over several versions.
    bytes_per_s: int | None = None
    #: Numbers of the processors that it uses, such as ``range(60, 64)``; all that it was given if None.
    processors: Iterable[int] | None = None


def native_polite(polite: bool | Polite) -> tuple[float, int | None, list[int] | None] | None:
    """As the native part takes it."""
    if polite is False:
        return None
    asked = Polite() if polite is True else polite
    bytes_per_s = None if asked.bytes_per_s is None else whole("bytes_per_s", asked.bytes_per_s, 0, (1 << 64) - 1)
    given = asked.processors
    processors = None if given is None else [whole("processor", number, 0, (1 << 64) - 1) for number in given]
    return (asked.share, bytes_per_s, processors)
