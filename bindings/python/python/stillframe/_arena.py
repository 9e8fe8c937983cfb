"""Many regions in one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from . import _native
from ._closing import Closing
from ._made import Made
from ._numbers import numbers, whole


class ArenaRegion(NamedTuple):
    """What one region has of an arena."""

    #: Its name within the arena.
    name: str
    #: Bytes that belong to it, whether they have memory or not.
    nbytes: int
    #: It was removed, and waits for those who hold its versions.
    removed: bool


class ArenaUsage(NamedTuple):
    """Who has how much of an arena, about now."""

    #: Length of the arena in bytes.
    nbytes: int
    #: Bytes of its own tables.
    tables_bytes: int
    #: Bytes that belong to no region.
    free_bytes: int
    #: Chunks of 2 MiB that are free as a whole.
    free_chunks: int
    #: Chunks whose pages belong to several regions.
    small_chunks: int
    #: The most regions it can have.
    regions_max: int
    #: Its regions, by name.
    regions: list[ArenaRegion]


class HasDescriptor(Protocol):
    """A file, as Python knows them."""

    def fileno(self) -> int: ...


class Arena(
    Closing,
    metaclass=Made,
    by="Arena.create(name, bytes=...) makes one, Arena.open(name) opens one that is there",
):
    """Many regions in one file of fixed length, which is the bound of all of them together.

    ``stillframe.create("u", arena=arena)`` makes a region in it, and ``stillframe.open("ARENA/u")`` opens that, from any
    process. Its regions and their observers go on when it is closed, and its files stay.
    """

    def __init__(self, native: _native.Arena) -> None:
        self._native = native

    @classmethod
    def create(
        cls,
        name: str,
        *,
        bytes: int,
        regions: int | None = None,
        dir: str | os.PathLike[str] | None = None,
        mode: int = 0o700,
        large_pages: bool = False,
        trust: str | None = None,
    ) -> Self:
        """Makes an arena, or opens the one of this name that is there.

        :param bytes: length, rounded up to whole chunks of 2 MiB, the arena's own tables included. Memory is taken as regions
            need it.
        :param regions: the most regions it can have at a time; 4096 if None.
        :param dir: where the arena's directory lies; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None. In a
            directory on hugetlbfs the arena consists of large pages of 2 MiB.
        :param mode: access mode of the arena's directory; with 0o750 the group may observe all its regions, with 0o770 it may
            also make some.
        :param large_pages: ask for large pages where the file system has small ones. Small regions then take more.
        :param trust: whose directories and files are taken for good, as for :func:`stillframe.create`.
        """
        native = _native.Arena.create(
            name,
            **numbers(bytes=bytes),
            **numbers(32, regions=regions, mode=mode),
            dir=dir,
            large_pages=large_pages,
            trust=trust,
            descriptor=None,
        )
        return cls._of(native)

    @classmethod
    def open(
        cls,
        name: str,
        *,
        look: bool = False,
        dir: str | os.PathLike[str] | None = None,
        large_pages: bool = False,
        trust: str | None = None,
    ) -> Self:
        """Opens an arena that is there, for regions to be made in it.

        :param look: open it to look only, which takes no right to write.

        The others are those of :meth:`create`.
        """
        return cls._of(_native.Arena.open(name, look=look, dir=dir, large_pages=large_pages, trust=trust))

    @classmethod
    def from_descriptor(
        cls,
        descriptor: int | HasDescriptor,
        name: str,
        *,
        bytes: int | None = None,
        regions: int | None = None,
        large_pages: bool = False,
        trust: str | None = None,
    ) -> Self:
        """Opens an arena over a file that was handed in as a descriptor, or makes one there if it is empty and can be written.

        It is a regular file or one in memory (``os.memfd_create``), also of large pages, and stays the program's: what is
        used is a copy. Who can only read by it can only look. Observers of the arena's regions and groups
        name it in ``stillframe.open(..., arena=...)`` and ``stillframe.open_group(..., arena=...)``: no name leads there. All
        locks are on the file itself, so whoever has a descriptor of it may keep producers out.

        :param name: what messages and regions call the arena.
        :param bytes: length if the file is empty; else it keeps its own.

        The others are those of :meth:`create`.
        """
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        native = _native.Arena.create(
            name,
            **numbers(bytes=bytes),
            **numbers(32, regions=regions),
            dir=None,
            mode=0o700,
            large_pages=large_pages,
            trust=trust,
            descriptor=whole("descriptor", number, -(1 << 31), (1 << 31) - 1),
        )
        return cls._of(native)

    @property
    def name(self) -> str:
        """The arena's name. Its regions are found as ``NAME/REGION``."""
        return self._native.name

    @property
    def path(self) -> Path:
        """The directory with the arena's files; of one that was handed in what messages call it."""
        return self._native.path

    @property
    def nbytes(self) -> int:
        """Length in bytes, the arena's own tables included."""
        return self._native.nbytes

    def usage(self) -> ArenaUsage:
        """Who has how much of it."""
        nbytes, tables, free, free_chunks, small_chunks, regions_max, rows = self._native.usage()
        regions = [ArenaRegion(*row) for row in rows]
        return ArenaUsage(nbytes, tables, free, free_chunks, small_chunks, regions_max, regions)

    def close(self) -> None:
        """Ends its use by this object. Its regions and their observers go on."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<stillframe.Arena {self.name!r}>"
