"""Elements of a variable in blocks that fit a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import MisuseError, UnknownVariable
from .._group import GroupSnapshot
from .._observer import Snapshot
from .._types import Native, numbers_of
from .._whole import Whole, part_of
from ._copies import Copies

#: Where a reducer finds variables: a version of a region, one of all ranks of a group, or a program's own arrays.
Source = Snapshot | GroupSnapshot | Mapping[str, NDArray[Any]]

#: Elements of a block.
BLOCK = 1 << 16


def blocks(source: Source, name: str, count: int = BLOCK) -> Iterator[NDArray[Any]]:
    """The elements of a variable, or of a field of records (``"cells.rho"``), in the order in which they lie in memory.

    Each block is flat, read-only in effect, and good until the next one is asked for; all but the last of a rank have
    ``count`` elements, wherever the version's pages lie. Nothing is copied but what a border between pieces of pages
    cuts. Of a group come all ranks that have the variable, in order; where the parts that they tell overlap, each element
    comes once.
    """
    if isinstance(source, GroupSnapshot):
        variable, _ = next((found for part in source if (found := find(part, name))), (name, []))
        for rank, inside in shares(source, variable):
            part: Source = source[rank]
            if inside is not None:
                # Ghost cells lie between the others, so what is left is moved together.
                part = {variable: numbers_of(source[rank][variable][inside], source[rank].variables[variable].native)}
            yield from blocks(part, name, count)
        return
    variable, fields = locate(source, name)
    if isinstance(source, Snapshot):
        pieces = regular((chunk.data for chunk in source.chunks(variable)), count)
    else:
        # "A" is the array's own order, in which nothing has to be moved.
        flat = source[variable].reshape(-1, order="A")
        pieces = (flat[start : start + count] for start in range(0, len(flat), count))
    native = native_of(source, variable)
    for piece in pieces:
        yield within(piece, fields, name, native)


def shares(ranks: GroupSnapshot, variable: str) -> Iterator[tuple[int, tuple[slice, ...] | None]]:
    """The ranks that have the variable, and what of theirs counts; None if all of it does."""
    owners = [rank for rank, part in enumerate(ranks) if variable in part]
    if owners and all(part_of(rank, ranks[rank].variables[variable]) is None for rank in owners):
        # Each rank's own affair: the shapes need not fit.
        yield from ((rank, None) for rank in owners)
        return
    for piece in Whole.of(ranks, variable).pieces:
        yield piece.rank, None if tuple(map(len, piece.owned)) == piece.shape else piece.inside


def whole(source: Source, name: str) -> NDArray[Any]:
    """The variable, or field of records, as one array: of a snapshot where it lies, of a group put together."""
    if isinstance(source, GroupSnapshot):
        variable, fields = next((found for part in source if (found := find(part, name))), (name, []))
        native = next((native_of(part, variable) for part in source if variable in part), None)
        return within(source.gather(variable), fields, name, native)
    variable, fields = locate(source, name)
    return within(source[variable], fields, name, native_of(source, variable))


def find(names: Mapping[str, Any], name: str) -> tuple[str, list[str]] | None:
    """The variable that a name means, and the fields behind it. A name is taken literally before it is taken apart."""
    head, fields = name, list[str]()
    while head not in names:
        head, dot, field = head.rpartition(".")
        if not dot:
            return None
        fields.insert(0, field)
    return head, fields


def locate(names: Mapping[str, Any], name: str) -> tuple[str, list[str]]:
    """As :func:`find`, for a variable that has to be there."""
    found = find(names, name)
    if found is None:
        raise UnknownVariable(f"there is no variable '{name}'; there is {', '.join(names) or 'none'}")
    return found


def native_of(source: Source, variable: str) -> Native | None:
    """The dtype that a version tells of a variable; None of a program's own arrays, whose dtype is all that is known."""
    return source.variables[variable].native if isinstance(source, (Snapshot, Copies)) else None


def within(array: NDArray[Any], fields: list[str], name: str, native: Native | None) -> NDArray[Any]:
    """A field of records, as numbers to compute with."""
    path = field_path(array.dtype, fields)
    if path is None:
        raise MisuseError(f"'{name}': elements of {array.dtype} have no field '{'.'.join(fields)}'")
    for field in path:
        array = array[field]
        if native is not None and not isinstance(native, str):
            native = next(dtype for known, dtype, _ in native[0] if known == field)
    if native is None and array.dtype.name == "bfloat16":
        native = "bfloat16"
    return numbers_of(array, native)


def field_path(dtype: np.dtype[Any], parts: list[str]) -> list[str] | None:
    """The names of the fields that parts of names mean, between which there were dots. Names may have dots themselves: the longest
    one that leads somewhere is meant."""
    if not parts:
        return []
    for count in range(len(parts), 0, -1):
        field = ".".join(parts[:count])
        if dtype.fields is not None and field in dtype.fields:
            rest = field_path(dtype.fields[field][0], parts[count:])
            if rest is not None:
                return [field, *rest]
    return None


def regular(pieces: Iterator[NDArray[Any]], count: int) -> Iterator[NDArray[Any]]:
    """Pieces of any length as pieces of one length."""
    buffer: NDArray[Any] | None = None
    filled = 0
    for piece in pieces:
        start = 0
        while start < len(piece):
            if filled == 0 and len(piece) - start >= count:
                yield piece[start : start + count]
                start += count
                continue
            if buffer is None:
                buffer = np.empty(count, piece.dtype)
            taken = min(count - filled, len(piece) - start)
            buffer[filled : filled + taken] = piece[start : start + taken]
            start, filled = start + taken, filled + taken
            if filled == count:
                yield buffer
                filled = 0
    if buffer is not None and filled:
        yield buffer[:filled]


def numbers(block: NDArray[Any], name: str) -> NDArray[np.float64]:
    """The elements as double precision numbers; of complex ones the magnitude, of truth values 0 and 1."""
    if block.dtype.kind == "c":
        block = np.abs(block)
    if block.dtype.kind not in "biuf":
        raise MisuseError(
            f"'{name}' holds {block.dtype}, which are no numbers; name a field of them, as in '{name}.rho'"
        )
    return block.astype(np.float64, copy=False)
