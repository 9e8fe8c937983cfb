"""Create or recover."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from . import _native
from ._arena import Arena
from ._numbers import numbers, version_of
from ._region import Region
from ._types import Scalar


class Origin(NamedTuple):
    """What a region begins with."""

    #: "memory" if the region of the last run was still there, "checkpoint", or "fresh" if there was nothing.
    kind: Literal["fresh", "memory", "checkpoint"]
    #: The version that was recovered.
    version: int | None
    #: The checkpoint.
    path: Path | None
    #: All of it in a sentence, for the log.
    sentence: str
    #: The damaged checkpoints that were left out.
    skipped: list[str]
    #: Attributes of the version.
    attrs: dict[str, Scalar]

    def __str__(self) -> str:
        return self.sentence


def recover(
    name: str,
    *,
    checkpoints: str | os.PathLike[str] | None = None,
    version: int | None = None,
    keep: int = 1,
    bound: int | None = None,
    rule: Literal["wait_then_skip", "wait", "skip", "fail"] = "wait_then_skip",
    timeout: float | None = None,
    threads: int | None = None,
    tracker: Literal["wp_async", "soft_dirty", "private_cow", "full_copy"] | None = None,
    dir: str | os.PathLike[str] | None = None,
    mode: int = 0o700,
    large_pages: bool = True,
    demote: bool = True,
    copy_unit: Literal["learned", "small", "large"] | None = None,
    memory_unit: Literal["small", "large"] | None = None,
    rank: int | None = None,
    ranks: int | None = None,
    drift: int | None = None,
    trust: str | None = None,
    arena: Arena | None = None,
) -> tuple[Region, Origin]:
    """Creates a region that begins with what the last run left, and says what that is.

    That is what is still in memory, or if it is gone or older the newest good checkpoint, else nothing. Variables in memory
    of the region that are declared with the same name, type, order, shape and part then have their content;
    :meth:`Region.read` reads into other arrays, :meth:`Region.fill` where the number of ranks is another one. All ranks of
    a group begin with the same version.

    :param checkpoints: the directory of the region's or group's checkpoints.
    :param version: the version to go on from; the newest if None.

    The others are those of :func:`stillframe.create`.
    """
    native = _native.Region(
        name,
        **numbers(keep=keep, bound=bound, threads=threads, drift=drift, rollback=None),
        **numbers(32, mode=mode, rank=rank, ranks=ranks),
        rule=rule,
        timeout=timeout,
        tracker=tracker,
        dir=dir,
        large_pages=large_pages,
        demote=demote,
        copy_unit=copy_unit,
        memory_unit=memory_unit,
        fresh=False,
        trust=trust,
        arena=None if arena is None else arena._native,
        recovery=(checkpoints, None if version is None else version_of(version)),
    )
    assert native.origin is not None
    return Region._of(native), Origin(*native.origin)
