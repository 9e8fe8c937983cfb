"""The ranks of a parallel program, seen together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from . import _native
from ._arena import Arena
from ._closing import Closing
from ._errors import MisuseError, ProducerGone, RankGone, Timeout
from ._made import Made
from ._numbers import after_of, version_of
from ._observer import Observer, Snapshot, below, check_stride, open_region
from ._polite import Polite, native_polite
from ._whole import Whole

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RankInfo(NamedTuple):
    """How a rank is doing."""

    rank: int
    #: "live", "dead" (its producer is gone), or "absent" (it has not begun).
    state: Literal["live", "dead", "absent"]
    #: What its last producer said its process number was; 0 if it has not begun.
    pid: int
    #: Its newest version.
    newest: int | None
    #: Versions above its newest that the furthest rank has.
    behind: int


class GroupSnapshot(
    Closing, Sequence[Snapshot], metaclass=Made, by="stillframe.open_group(name).newest() takes one"
):
    """The same version of all ranks, held on all of them: a sequence of their snapshots."""

    def __init__(self, ranks: Sequence[_native.Snapshot]) -> None:
        self._ranks = [Snapshot._of(native) for native in ranks]

    @property
    def version(self) -> int:
        """The version's number."""
        return self._ranks[0].version

    @overload
    def __getitem__(self, rank: int) -> Snapshot: ...
    @overload
    def __getitem__(self, rank: slice) -> Sequence[Snapshot]: ...
    def __getitem__(self, rank: int | slice) -> Snapshot | Sequence[Snapshot]:
        return self._ranks[rank]

    def __len__(self) -> int:
        return len(self._ranks)

    def gather(self, name: str) -> NDArray[Any]:
        """A copy of a variable of all ranks as one array.

        Variables that tell their part of a global array (attributes ``offset`` and ``global_shape``) are put together to
        it. Others are stacked along a first axis, the ranks; one that a single rank has is what it is.
        """
        return Whole.of(self, name)[...]

    def advance(self, next: GroupSnapshot) -> GroupSnapshot:
        """Closes this snapshot for a later one of the group, ``next``, which it returns, and brings the arrays of all ranks
        along, as :meth:`stillframe.Snapshot.advance` does.
        """
        if len(next) != len(self):
            raise MisuseError(f"the group has {len(next)} ranks in version {next.version}, and had {len(self)}")
        for own, later in zip(self._ranks, next._ranks, strict=True):
            own.advance(later)
        return next

    def close(self) -> None:
        """Lets go of all ranks. Arrays taken from them stay valid, and keep the version of their rank."""
        for snapshot in self._ranks:
            snapshot.close()

    def __repr__(self) -> str:
        return f"<stillframe.GroupSnapshot of version {self.version}, {len(self)} ranks>"


class Group(Closing, metaclass=Made, by="stillframe.open_group(name) opens the ranks of a program"):
    """A look at all ranks of a group. See :func:`stillframe.open_group`."""

    def __init__(self, native: _native.Group) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The group's name; in an arena that was given ``ARENA/NAME``."""
        return self._native.name

    @property
    def size(self) -> int:
        """How many ranks it has."""
        return self._native.size

    @property
    def alive(self) -> bool:
        """Whether the producer of any rank is there."""
        return self._native.alive

    def ranks(self) -> list[RankInfo]:
        """How each rank is doing."""
        return [RankInfo(*row) for row in self._native.ranks()]

    def newest(self) -> GroupSnapshot:
        """The newest version that all ranks have."""
        return GroupSnapshot._of(self._native.newest())

    def version(self, version: int) -> GroupSnapshot:
        """A certain version."""
        return GroupSnapshot._of(self._native.version(version_of(version)))

    def next(self, after: int | None = None, timeout: float | None = None) -> GroupSnapshot:
        """The first version after that one that all ranks have, waiting for it if need be."""
        return GroupSnapshot._of(self._native.after(after_of(after), timeout, False))

    def newest_after(self, after: int | None = None, timeout: float | None = None) -> GroupSnapshot:
        """The newest version that all ranks have if it comes after that one, waiting for it if need be."""
        return GroupSnapshot._of(self._native.after(after_of(after), timeout, True))

    def iterate(
        self,
        timeout: float | None = None,
        *,
        every: bool | int = False,
        after: int | None = None,
    ) -> Iterator[GroupSnapshot]:
        """Snapshots as they come, until all ranks have ended or nothing came for ``timeout`` seconds.

        Raises :class:`RankGone` when a rank died. Otherwise as :meth:`stillframe.Observer.iterate`.
        """
        stride, after = check_stride(every), after_of(after)
        while True:
            self._native.pause()
            try:
                held = [GroupSnapshot._of(self._native.after(below(after, stride), timeout, not every))]
            except RankGone:
                raise
            except (ProducerGone, Timeout):
                return
            after = held[0].version
            # Popped, so that the generator itself holds nothing while the loop's body runs and lets go.
            yield held.pop()

    def __iter__(self) -> Iterator[GroupSnapshot]:
        """The newest versions as they come: :meth:`iterate` without a timeout."""
        return self.iterate()

    def versions(self) -> list[int]:
        """The versions that all ranks have, oldest first."""
        return self._native.versions()

    def close(self) -> None:
        """Ends the look. Snapshots stay what they are."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<stillframe.Group {self.name!r}>"


def open_group(
    name: str,
    *,
    wait: float | None = 0.0,
    dir: str | os.PathLike[str] | None = None,
    trust: str | None = None,
    arena: Arena | None = None,
    polite: bool | Polite = False,
) -> Group:
    """Opens a group, the ranks of a parallel program that publish each by itself, to look at all of them at once.

    :param wait: most seconds to wait for all ranks and the first version that all have; for ever if None.
    :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None. ``unix:PATH`` is a
        broker's socket (``still enclave serve``); a name may begin with it, as in ``unix:PATH#NAME``.
    :param trust: whose directories and files are taken for good, as for :func:`stillframe.create`; everybody's in a ``dir``
        that is named if None.
    :param arena: an arena that this process has open, in which ``name`` is a group's. It is needed for arenas that were handed
        in as descriptors; groups of others are found by names as ``ARENA/GROUP``.
    :param polite: to take of the machine only what others leave: True, or a :class:`stillframe.Polite` with a share, a rate or
        processors. For programs that look and do nothing else; they stay polite until they end.
    """
    within = None if arena is None else arena._native
    native = _native.Group(name, wait=wait, dir=dir, trust=trust, arena=within, polite=native_polite(polite))
    return Group._of(native)


def open_any(
    name: str, *, wait: float | None, dir: str | os.PathLike[str] | None, polite: bool | Polite = False
) -> Observer | Group:
    """Opens the region or the group of that name, whichever there is."""
    try:
        return open_region(name, wait=wait, dir=dir, polite=polite)
    except MisuseError:
        # Which is that it is a group's, or else what open_group says as well.
        return open_group(name, wait=wait, dir=dir, polite=polite)
