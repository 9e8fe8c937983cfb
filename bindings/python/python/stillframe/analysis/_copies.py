"""Small versions as copies, so that they are held for no longer than the copying takes."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .._group import GroupSnapshot
from .._observer import Snapshot

#: Bytes of a version up to which it is copied and let go of before it is reduced. More would be felt as memory.
SMALL_BYTES = 16 << 20


class Copies(dict[str, NDArray[Any]]):
    """The variables of a version, copied, the smallest first."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.version = snapshot.version
        self.published_ns = snapshot.published_ns
        self.attrs = dict(snapshot.attrs)
        self.variables = dict(snapshot.variables)
        for variable in sorted(self.variables.values(), key=lambda variable: variable.nbytes):
            self[variable.name] = array = snapshot[variable.name].copy(order="K")
            # As in the version itself: what one reducer wrote, the next one would take for the program's.
            array.flags.writeable = False


def copies(snapshot: Snapshot | GroupSnapshot) -> Copies | None:
    """Copies of a small version of a region; None for what is not small, or of a group, whose ranks are put together."""
    if isinstance(snapshot, GroupSnapshot) or sum(v.nbytes for v in snapshot.variables.values()) > SMALL_BYTES:
        return None
    return Copies(snapshot)
