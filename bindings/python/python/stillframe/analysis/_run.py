"""Reducing versions as they come."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._errors import InUse, NoVersion
from .._group import Group, GroupSnapshot, open_any
from .._observer import Observer, Snapshot
from .._polite import Polite
from .._types import Scalar
from ._blocks import Source
from ._copies import copies
from ._reducers import Reducer
from ._series import Series


def run(
    source: str | Observer | Group,
    series: Mapping[str | os.PathLike[str], Reducer | Sequence[Reducer]],
    *,
    every: bool | int = False,
    timeout: float | None = None,
    wait: float | None = 0.0,
    attrs: Sequence[str] = ("time",),
    rewind: bool = False,
    progress: Callable[[Snapshot | GroupSnapshot], None] | None = None,
    dir: str | os.PathLike[str] | None = None,
    polite: bool | Polite = True,
) -> int:
    """Reduces versions as they come, until the producer is gone or nothing came for ``timeout`` seconds.

    Files that are there already are gone on with, above the last version that they have. A version of a region that has few
    bytes is copied and let go of before it is reduced: reducers get its arrays, with ``version``, ``attrs`` and ``variables``
    as a snapshot has them.

    :param source: the name of a region or of a group, or what was opened.
    :param series: files, and the reducers whose findings go there: see :class:`Series`.
    :param every: each version that is still there, or with a number its multiples; else the newest ones.
    :param wait: most seconds to wait for the region or group to begin; for ever if None.
    :param attrs: attributes of the versions that become columns.
    :param rewind: where a file is ahead of the region, which has been started over, drop its rows from the region's
        newest version on, instead of refusing.
    :param progress: called with each version after it was reduced, while it is held: with it, nothing is copied.
    :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None.
    :param polite: how what is opened by name is looked at, as for :func:`stillframe.open`. By default this process takes only
        what others leave from then on, and where nothing is left over it leaves out more versions; False takes processors as
        any other program.
    :return: how many versions were reduced.
    """
    with contextlib.ExitStack() as stack:
        files = []
        for path, reducers in series.items():
            given = [reducers] if callable(reducers) else list(reducers)
            files.append(stack.enter_context(Series(path, *given, attrs=attrs)))
        opened = open_any(source, wait=wait, dir=dir, polite=polite) if isinstance(source, str) else source
        if isinstance(source, str):
            stack.enter_context(opened)
        check_order(opened, files, rewind)
        lasts = [file.last for file in files]
        after = min((last for last in lasts if last is not None), default=None) if None not in lasts else None
        count = 0

        def reduce(
            source: Source, version: int | None = None, attrs: Mapping[str, Scalar] | None = None
        ) -> list[tuple[Series, dict[str, Any]]]:
            rows = ((file, file.reduce(source, version, attrs)) for file in files)
            return [(file, row) for file, row in rows if row is not None]

        for snapshot in opened.iterate(timeout, every=every, after=after):
            with snapshot:
                # Who holds a version costs the producer memory, and one who yields may hold it for long.
                small = copies(snapshot) if progress is None else None
                rows = [] if small is not None else reduce(snapshot)
                if progress is not None:
                    progress(snapshot)
            if small is not None:
                rows = reduce(small, small.version, small.attrs)
            # What is written is complete in memory: a reducer that fails leaves no file ahead of the others.
            for file, row in rows:
                file.append(row)
            count += 1
            del snapshot
        return count


def check_order(source: Observer | Group, files: Sequence[Series], rewind: bool) -> None:
    """Refuses, or rewinds, files that know versions which the region does not have yet."""
    try:
        with source.newest() as snapshot:
            newest = snapshot.version
    except NoVersion:
        return
    for file in files:
        last = file.last
        if last is None or last <= newest:
            continue
        if not rewind:
            raise InUse(
                f"{file.path} goes to version {last}, and '{source.name}' is at {newest}: the program has been started "
                "over; give another file, or rewind=True to drop the rows from there on"
            )
        file.rewind(newest)
