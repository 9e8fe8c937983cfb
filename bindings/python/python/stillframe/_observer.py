"""The observer's side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._arena import Arena
from ._arrays import array_over, flat_over
from ._closing import Closing
from ._errors import MisuseError, ProducerGone, Timeout, UnknownVariable
from ._made import Made
from ._numbers import VERSION_MAX, after_of, numbers, version_of, whole
from ._polite import Polite, native_polite
from ._types import Native, Part, Scalar, item_bytes, numpy, numpy_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Variable:
    """What a variable means, in one version."""

    name: str
    #: The dtype's name, or for a record its fields and size.
    native: Native
    shape: tuple[int, ...]
    #: "C" or "F".
    order: str
    #: Unit of measurement, empty if there is none.
    units: str
    attrs: dict[str, Scalar]
    nbytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype as numpy knows it."""
        if numpy is None:
            raise MisuseError("this needs numpy; without it, see `native`")
        return numpy_dtype(self.native)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return item_bytes(self.native)

    @property
    def part(self) -> Part | None:
        """Which box of a global array it is, if it is one."""
        return Part.of(self.attrs)


class VersionInfo(NamedTuple):
    """A version that can be had."""

    version: int
    #: When it was published, in nanoseconds since 1970.
    published_ns: int
    #: Pages that differ from the version before.
    dirty_pages: int
    total_pages: int
    #: About to go: it can be had no more.
    retiring: bool


class Chunk(NamedTuple):
    """Elements of a variable that lie together."""

    #: Number of the first element, counted as they lie in memory.
    start: int
    #: The elements, read-only.
    data: NDArray[Any]


class Snapshot(
    Closing,
    Mapping[str, "NDArray[Any]"],
    metaclass=Made,
    by="stillframe.open(name).newest() takes one",
):
    """One version, held: nothing in it changes. A mapping from the names of variables to read-only arrays.

    The hold ends when the snapshot is closed or forgotten and no array taken from it is left.
    """

    def __init__(self, native: _native.Snapshot) -> None:
        self._native = native

    @property
    def version(self) -> int:
        """The version's number."""
        return self._native.version

    @property
    def published_ns(self) -> int:
        """When it was published, in nanoseconds since 1970."""
        return self._native.published_ns

    @cached_property
    def attrs(self) -> dict[str, Scalar]:
        """The version's attributes."""
        return self._native.attrs()

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """What the variables mean."""
        rows = (Variable(n, d, tuple(s), o, u, a, b) for n, d, s, o, u, a, b in self._native.variables())
        return {variable.name: variable for variable in rows}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The variable's elements where they lie: read-only, and valid for as long as anything refers to the array."""
        variable = self._variable(name)
        return array_over(self._native.memory(name), variable.native, variable.shape, variable.order)

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    # Two mappings are equal if their values are, and arrays have no single answer to that.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """A copy of some elements, counted as they lie in memory, as a flat array.

        They are read from the files: if somebody cut those short, that is an error here, and a fatal signal where arrays of
        the snapshot show them. :exc:`OutOfMemory` if there is no memory for the copy.
        """
        variable = self._variable(name)
        size = variable.itemsize
        count = variable.nbytes // size
        stop = count if stop is None else stop
        if not 0 <= start <= stop <= count:
            raise MisuseError(f"elements {start} to {stop} of '{name}', which has {count}")
        memory = self._native.read(name, start * size, (stop - start) * size)
        return flat_over(memory, variable.native, 0, stop - start)

    def chunks(self, name: str) -> Iterator[Chunk]:
        """The variable's elements piece by piece where they lie, in ascending order, as flat read-only arrays.

        This needs no mapping of its own for a version, so it suits one pass over a large variable.
        """
        variable = self._variable(name)
        size = variable.itemsize
        for offset, memory in self._native.chunks(name):
            end = offset + memory.nbytes
            # An element that a border cuts comes as a copy, together with the piece in which it begins.
            first, last = -(-offset // size), end // size
            if first < last:
                yield Chunk(
                    first,
                    flat_over(memory, variable.native, first * size - offset, last - first),
                )
            if end % size and max(first, last) * size < end:
                yield Chunk(last, self.read(name, last, last + 1))

    def changed(self, older: Snapshot, name: str) -> list[tuple[int, int]]:
        """Ranges of elements, counted as they lie in memory, that may differ from an older snapshot; no others do."""
        size = self._variable(name).itemsize
        ranges: list[tuple[int, int]] = []
        for first, end in self._native.changed(older._native, name):
            start, stop = first // size, -(-end // size)
            if ranges and start <= ranges[-1][1]:
                start = ranges.pop()[0]
            ranges.append((start, stop))
        return ranges

    def advance(self, next: Snapshot) -> Snapshot:
        """Closes this snapshot for a later one of the region, ``next``, which it returns, and brings the arrays along.

        The arrays of ``next`` are then made from those taken from this one, by what :meth:`changed` lists, where that is cheaper
        than to map them anew. That takes memory of this process, as much as the variable has, which is copied once; from then on
        the work of each version is proportional to what changed. An array of this snapshot that is still referred to stays as
        it is; then nothing is brought along, so let go of it before::

            snapshot = observer.newest()
            while True:
                look(snapshot["u"])
                snapshot = snapshot.advance(observer.newest_after(snapshot.version))
        """
        if next is self:
            raise MisuseError(f"snapshot {self.version} is not its own next")
        self._native.advance(next._native)
        return next

    def close(self) -> None:
        """Lets go. Arrays taken from the snapshot stay valid, and keep the version for as long as they live."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<stillframe.Snapshot of version {self.version}>"

    def _variable(self, name: str) -> Variable:
        try:
            return self.variables[name]
        except KeyError:
            known = ", ".join(self.variables) or "none"
            raise UnknownVariable(f"version {self.version} has no variable '{name}'; it has {known}") from None


def check_stride(every: bool | int) -> int:
    """Of which number the versions of an iteration are multiples; 0 if it takes the newest ones."""
    if every < 0:
        raise MisuseError(f"every={every!r}: give True for each version, or a number from 1 on")
    return whole("every", every, 0, VERSION_MAX)


def below(after: int | None, stride: int) -> int | None:
    """The version above which the next one of an iteration lies. The first may be any."""
    return after if after is None or not stride else min((after // stride + 1) * stride - 1, VERSION_MAX)


class Observer(Closing, metaclass=Made, by="stillframe.open(name) opens a region"):
    """A look at a region. See :func:`stillframe.open`."""

    def __init__(self, native: _native.Observer) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The region's name."""
        return self._native.name

    @property
    def alive(self) -> bool:
        """Whether the region's producer is there."""
        return self._native.alive

    def newest(self) -> Snapshot:
        """The newest version."""
        return Snapshot._of(self._native.newest())

    def version(self, version: int) -> Snapshot:
        """A certain version."""
        return Snapshot._of(self._native.version(version_of(version)))

    def next(self, after: int | None = None, timeout: float | None = None) -> Snapshot:
        """The first version after that one that can be had, waiting for it if need be."""
        return Snapshot._of(self._native.after(after_of(after), timeout, False))

    def newest_after(self, after: int | None = None, timeout: float | None = None) -> Snapshot:
        """The newest version if it comes after that one, waiting for it if need be."""
        return Snapshot._of(self._native.after(after_of(after), timeout, True))

    def iterate(
        self,
        timeout: float | None = None,
        *,
        every: bool | int = False,
        after: int | None = None,
    ) -> Iterator[Snapshot]:
        """Snapshots as they come, until the producer is gone or nothing came for ``timeout`` seconds.

        The newest version each time, leaving out those that came in between; with ``every``, each one that is still
        there, and with ``every=10`` the multiples of 10, or in the place of one that is not there the next version. Begins
        above ``after``. What the loop holds while it waits is up to its body: ``with snapshot:`` or ``del snapshot`` lets go.
        """
        stride, after = check_stride(every), after_of(after)
        while True:
            # Nothing is held, and what comes after this is newer.
            self._native.pause()
            try:
                held = [Snapshot._of(self._native.after(below(after, stride), timeout, not every))]
            except (ProducerGone, Timeout):
                return
            after = held[0].version
            # Popped, so that the generator itself holds nothing while the loop's body runs and lets go.
            yield held.pop()

    def __iter__(self) -> Iterator[Snapshot]:
        """The newest versions as they come: :meth:`iterate` without a timeout."""
        return self.iterate()

    def versions(self) -> list[VersionInfo]:
        """The versions that can be had, oldest first."""
        return [VersionInfo(*row) for row in self._native.versions()]

    def close(self) -> None:
        """Ends the look. Snapshots stay what they are."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<stillframe.Observer of {self.name!r}>"


def open_region(
    name: str,
    *,
    wait: float | None = 0.0,
    dir: str | os.PathLike[str] | None = None,
    populate: int | None = None,
    trust: str | None = None,
    arena: Arena | None = None,
    polite: bool | Polite = False,
) -> Observer:
    """Opens a region to look at it.

    :param wait: most seconds to wait for the region and its first version; for ever if None.
    :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None. ``unix:PATH`` is a
        broker's socket (``still enclave serve``); a name may begin with it, as in ``unix:PATH#NAME``.
    :param populate: how many threads enter all pages of a variable in the page tables when it is first seen, and take them
        out in the end: for programs that read all of a large variable. If None, pages are entered as they are first read.
    :param trust: whose directories and files are taken for good, as for :func:`stillframe.create`; everybody's in a ``dir``
        that is named if None.
    :param arena: an arena that this process has open, in which ``name`` is a region's. It is needed for arenas that were handed
        in as descriptors; others are found by names as ``ARENA/REGION``.
    :param polite: to take of the machine only what others leave: True, or a :class:`stillframe.Polite` with a share, a rate or
        processors. For programs that look and do nothing else; they stay polite until they end.
    """
    within = None if arena is None else arena._native
    native = _native.Observer(
        name, **numbers(populate=populate), wait=wait, dir=dir, trust=trust, arena=within, polite=native_polite(polite)
    )
    return Observer._of(native)
