"""What a publish did, and one that was started."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ._region import Region


class Published(NamedTuple):
    """What a publish did."""

    #: The version.
    version: int
    #: True when there was no room and the rule left it out: nothing was published, and nothing is lost.
    skipped: bool
    #: Pages that had changed.
    dirty_pages: int
    #: Pages that were copied.
    copied_pages: int
    #: Pages of the whole region.
    total_pages: int
    #: How long it took.
    seconds: float


class Started:
    """A publish that was started, to be finished at the end of a ``with`` block."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def __enter__(self) -> Region:
        return self._region

    def __exit__(self, *_: object) -> None:
        self._region.publish_finish()
