"""Regions seen from outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from . import _native


class RegionInfo(NamedTuple):
    """A region that lies in the directory."""

    name: str
    path: Path
    #: "live", "dead" (its producer is gone), "incomplete", or why it cannot be read.
    state: str
    #: The versions that can be had, oldest first.
    versions: list[int]
    #: What the last producer said its process number was.
    producer_pid: int
    #: Bytes of memory behind all of its files.
    allocated_bytes: int
    #: Since when its producer has been waiting for room, as :func:`time.time` counts.
    waiting_since: float | None = None
    #: When its producer left out the first publish since the newest version, for want of room.
    skipping_since: float | None = None
    #: How many publishes it left out since then.
    skipping: int = 0

    @property
    def newest(self) -> int | None:
        """The newest version."""
        return self.versions[-1] if self.versions else None


def list_regions(dir: str | os.PathLike[str] | None = None) -> list[RegionInfo]:
    """The regions there are."""
    return [RegionInfo(*row) for row in _native.regions(dir)]


def remove_region(name: str, *, force: bool = False, dir: str | os.PathLike[str] | None = None) -> None:
    """Removes what a producer that is gone left; observers keep what they hold. Refuses while the producer lives."""
    _native.remove(name, dir, force)
