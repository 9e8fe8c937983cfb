"""What can go wrong. The messages say what happened, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Error(Exception):
    """Base of all errors of Stillframe."""


class MisuseError(Error, ValueError):
    """The program asked for something that makes no sense."""


class UnknownVariable(MisuseError, KeyError):
    """The region, or this version of it, has no variable of that name."""

    # KeyError would show the message in quotes.
    __str__ = Exception.__str__


class Diagnostic(NamedTuple):
    """A mistake in a text of the layout language. Printed, it shows the line and marks the place."""

    #: What kind of mistake it is: ``"syntax"``, ``"unbound"``, ``"range"``, ... The language's page lists them.
    code: str
    message: str
    #: Name of the text or path of the file.
    file: str
    #: Lines and columns count from 1, columns in characters.
    line: int
    column: int
    #: Line and column of the first character behind the place.
    end: tuple[int, int]
    #: Other places that have to do with it: file, line, column, and what is to be said there.
    labels: list[tuple[str, int, int, str]]
    #: What to do about it, if that can be told.
    help: str | None
    text: str

    def __str__(self) -> str:
        return self.text


class DreplError(MisuseError):
    """A text of the layout language, fragments or buffers that do not fit together."""

    #: The mistakes of the text, in the order of their places; none where it is not about a text.
    diagnostics: list[Diagnostic]

    def __init__(self, message: str, rows: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.diagnostics = [Diagnostic(*row) for row in rows]


class ForkError(MisuseError):
    """The handle belongs to the process that forked this one: open the region again in the child."""


class ResourceError(Error):
    """The machine, its limits or another process are in the way."""


class OutOfSpace(ResourceError):
    """The file system or the arena is full, or the region has reached its bound."""


class OutOfMemory(ResourceError, MemoryError):
    """There is no memory, or no address space, for what was asked for. Nothing else is wrong: smaller pieces may be had."""


class NodeOutOfMemory(OutOfMemory):
    """The runtime of this node has no memory for what other nodes have of a fragment: read smaller parts, or detach others."""


class InUse(ResourceError):
    """Another producer has the region."""


class NoRegion(ResourceError, LookupError):
    """There is no region of that name."""


class NoArena(ResourceError, LookupError):
    """There is no arena of that name, or it was never finished."""


class NoVersion(ResourceError, LookupError):
    """Nothing was published yet, or no version that all ranks of the group have."""


class RankMissing(NoVersion):
    """A rank of the group has not begun, or has no version yet."""


class VersionGone(ResourceError, LookupError):
    """The version is not, or no longer, there."""

    #: The version asked for.
    version: int | None = None
    #: The oldest version there is.
    oldest: int | None = None
    #: The newest version there is.
    newest: int | None = None


class ProducerGone(ResourceError):
    """Nobody will publish what is waited for. The last version can still be read."""


class RankGone(ProducerGone):
    """A rank of the group died, and what is waited for needs it. What all ranks have can still be read."""


class NoObject(ResourceError, LookupError):
    """There is no object of that name."""


class Overlap(InUse):
    """Another process writes some of the elements that a fragment wants to write."""


class ObjectPart(NamedTuple):
    """Some elements of an object, and who writes them."""

    #: ``"grid[0..4, 0..8]"``.
    elements: str
    #: The process that writes them; None if nobody does.
    process: int | None
    #: Its rank, if it said so.
    rank: int | None
    #: Why they cannot be had: ``"died"``, ``"gone"``, ``"node lost"`` or ``"unwritten"``; None if they are still to come.
    cause: str | None


class Lost(ResourceError, LookupError):
    """A version of an object, or elements of it, cannot be had: a writer died, or let it go."""

    #: The version asked for.
    version: int | None
    #: The newest complete version, which can be had.
    complete: int | None
    #: What cannot be had, and why.
    losses: list[ObjectPart]

    def __init__(
        self, message: str, version: int | None = None, complete: int | None = None, rows: Iterable[Any] = ()
    ) -> None:
        super().__init__(message)
        self.version, self.complete, self.losses = version, complete, [ObjectPart(*row) for row in rows]


class Ended(ProducerGone):
    """All writers of an object have left. Its complete versions can still be read."""

    #: The newest complete version.
    complete: int | None

    def __init__(self, message: str, complete: int | None = None) -> None:
        super().__init__(message)
        self.complete = complete


class NoCheckpoint(ResourceError, LookupError):
    """There is no good checkpoint, or none of that version."""


class Timeout(ResourceError, TimeoutError):
    """Nothing happened in time."""

    #: The version waited for, of an object and if it was a certain one.
    version: int | None
    #: Of an object: the elements that are still to come, and who writes them.
    waiting: list[ObjectPart]

    def __init__(self, message: str, version: int | None = None, rows: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.version, self.waiting = version, [ObjectPart(*row) for row in rows]


class CorruptError(Error):
    """The shared files hold something that no healthy producer writes."""


# Tracebacks name errors as programs import them.
for _error in [value for value in globals().values() if isinstance(value, type) and issubclass(value, Error)]:
    _error.__module__ = __package__
