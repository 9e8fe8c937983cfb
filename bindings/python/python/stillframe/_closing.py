"""What regions, observers and snapshots have in common: a ``with`` block closes them."""

from __future__ import annotations

import atexit
import sys
from types import TracebackType
from typing import Self

from . import _native


class Closing:
    """Has a ``close`` and can be the subject of a ``with`` block."""

    def close(self) -> None:
        raise NotImplementedError

    def _leave(self, error: BaseException | None) -> None:
        """Closes at the end of a ``with`` block, which an error may have ended."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(value)


def is_accident(error: BaseException | None) -> bool:
    """Whether what ends now does so by an accident: by this error, or by one that nobody caught and that ends the program."""
    if error is not None:
        return not isinstance(error, (SystemExit, GeneratorExit))
    # The interpreter keeps what nobody caught. In a session that ended nothing, which is why its prompt is looked for.
    uncaught = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return uncaught is not None and not hasattr(sys, "ps1")


def _tell_of_accident() -> None:
    if is_accident(None):
        _native.end_by_accident()


# Regions that nobody closed end later, when the interpreter drops them or the process exits.
atexit.register(_tell_of_accident)
