"""What regions, observers and snapshots have in common: a ``with`` block closes them."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Has a ``close`` and can be the subject of a ``with`` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
