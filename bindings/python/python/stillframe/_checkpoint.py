"""Checkpoints while a program runs, and what is safe in a directory of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from . import _native
from ._closing import Closing
from ._made import Made
from ._native import newest_safe
from ._numbers import numbers, version_of, whole

T = TypeVar("T")

#: Seconds between two looks at a directory.
_LOOK = 0.02


class CheckpointStatus(NamedTuple):
    """What a checkpointer has done."""

    #: "failed" if something that it had to save is not safe.
    state: Literal["running", "ended", "failed"]
    #: The newest version that is safe: on disk, whole, to be recovered.
    newest_safe: int | None
    #: How many versions were saved.
    saved: int
    #: How many were to be saved, and went before they could be.
    missed: int
    #: The versions that are being saved.
    saving: list[int]
    #: Bytes written.
    written_bytes: int
    #: Bytes not written, since files of the checkpoint before were linked.
    linked_bytes: int
    #: What went wrong last, until it went well again.
    error: str | None


class Checkpointer(Closing, metaclass=Made, by="stillframe.checkpoint(name, to) starts one"):
    """Saves versions as they come, in threads of this process. See :func:`stillframe.checkpoint`."""

    def __init__(self, native: _native.Checkpointer) -> None:
        self._native = native
        self._last: CheckpointStatus | None = None

    def status(self) -> CheckpointStatus:
        """What it has done, and is doing."""
        return CheckpointStatus(*self._native.status()) if self._last is None else self._last

    def wait_safe(self, version: int, timeout: float | None = None) -> bool:
        """Waits until a version is safe, or the time is over, or the checkpointer has ended without it. Says whether it is,
        or was until newer ones took its place."""
        return self._native.wait_safe(version_of(version), timeout)

    def wait_safe_from(self, version: int, timeout: float | None = None) -> int | None:
        """Waits until that version or a newer one is safe, as :meth:`wait_safe` does, and says which; None if none is. What
        was done up to ``version`` need not be done again then."""
        return self._native.wait_safe_from(version_of(version), timeout)

    def stop(self) -> CheckpointStatus:
        """Takes no more versions, with ``at_end`` but the newest, and ends when those that are held are safe."""
        status = self._native.stop()
        if status is not None:
            self._last = CheckpointStatus(*status)
        return self.status()

    def close(self) -> None:
        """As :meth:`stop`."""
        self.stop()


def checkpoint(
    name: str,
    to: str | os.PathLike[str],
    *,
    every: int | None = None,
    every_seconds: float | None = None,
    when: str | None = None,
    at_end: bool = False,
    once: bool = False,
    keep: int = 3,
    keep_every: int | None = None,
    all: bool = False,
    held: int | None = None,
    held_bytes: int | None = None,
    compress: Literal["zstd", "lz4"] | None = None,
    chunk_bytes: int | None = None,
    threads: int | None = None,
    nice: int = 10,
    wait: float | None = 0.0,
    follow: float | None = 0.0,
    dir: str | os.PathLike[str] | None = None,
    trust: str | None = None,
) -> Checkpointer:
    """Saves versions of a region or group as checkpoints in a directory, as they come, in threads of this process.

    Of ``every``, ``every_seconds``, ``when`` and ``at_end`` any one is enough for a version to be saved; without them all
    are. Each checkpoint is a directory that other tools open, and all of it is on disk before it has its name.

    :param to: the directory; made if it is not there, and this checkpointer's alone until it ends.
    :param every: versions whose number is a multiple of this.
    :param every_seconds: a version so long after the last.
    :param when: versions for which this holds, such as ``"step % 100 == 0 && residual < 1e-3"`` with their attributes.
    :param at_end: the last version when the producer ends, and the newest when the checkpointer is stopped.
    :param once: end with the first version.
    :param keep: how many of the newest checkpoints stay.
    :param keep_every: those whose version is a multiple of this stay for ever.
    :param all: hold versions that come faster than they can be saved, up to ``held`` (8) versions and ``held_bytes``; else
        the newest comes first, and those in between are left out.
    :param compress: plain files if None.
    :param chunk_bytes: bytes of a chunk, which is a file, about; by default 1/2048 of the checkpoint or less, but 512 KiB
        to 32 MiB.
    :param threads: how many threads write.
    :param nice: how far the threads that save step back behind others that want the processors, 0 to 19.
    :param wait: seconds to wait for the region to appear, for ever if None.
    :param follow: seconds to wait for the next producer when one is gone, for ever if None.
    :param dir: where regions lie.
    :param trust: whose directory ``to`` may be, besides the process's user's and root's: "own", "user:NUMBER",
        "group:NUMBER" or "any"; by default ``$STILLFRAME_TRUST``, else "own".
    """
    native = _native.Checkpointer(
        name,
        to,
        **numbers(every=every, keep=keep, keep_every=keep_every, held=held, held_bytes=held_bytes),
        **numbers(chunk_bytes=chunk_bytes, threads=threads),
        every_seconds=every_seconds,
        when=when,
        at_end=at_end,
        once=once,
        all=all,
        compress=compress,
        nice=whole("nice", nice, 0, 19),
        wait=wait,
        follow=follow,
        dir=dir,
        trust=trust,
    )
    return Checkpointer._of(native)


def is_safe(dir: str | os.PathLike[str], version: int) -> bool:
    """Whether a version is safe in a directory of checkpoints: on disk, whole, to be recovered."""
    return _native.is_safe(dir, version_of(version))


def wait_safe(dir: str | os.PathLike[str], version: int, timeout: float | None = None) -> bool:
    """Waits until a version is safe in a directory of checkpoints, or the time is over; says whether it is.

    A version that the checkpointer leaves out never is: to know that everything up to it is, see :func:`wait_safe_from`.
    """
    return _wait(lambda: is_safe(dir, version) or None, timeout) is not None


def wait_safe_from(dir: str | os.PathLike[str], version: int, timeout: float | None = None) -> int | None:
    """Waits until that version or a newer one is safe in a directory of checkpoints, or the time is over; says which, or None.

    What was done up to ``version`` need not be done again then.
    """
    least = version_of(version)

    def look() -> int | None:
        newest = newest_safe(dir)
        return newest if newest is not None and newest >= least else None

    return _wait(look, timeout)


def _wait(look: Callable[[], T | None], timeout: float | None) -> T | None:
    end = None if timeout is None else time.monotonic() + timeout
    while (found := look()) is None:
        if end is not None and time.monotonic() >= end:
            return None
        time.sleep(_LOOK)
    return found


__all__ = ["CheckpointStatus", "Checkpointer", "checkpoint", "is_safe", "newest_safe", "wait_safe", "wait_safe_from"]
