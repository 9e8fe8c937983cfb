"""Variables of all ranks as one array, put together where it is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import MisuseError, UnknownVariable
from ._observer import Snapshot, Variable
from ._types import Part, Scalar, numpy, numpy_dtype

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Piece:
    """What one rank has of the array, and what of that is taken from it."""

    rank: int
    offset: tuple[int, ...]
    shape: tuple[int, ...]
    #: The box of the global array that this rank gives: less than it has where others have the same elements.
    owned: tuple[range, ...]

    @classmethod
    def full(cls, rank: int, offset: tuple[int, ...], shape: tuple[int, ...]) -> Piece:
        """A piece that is taken whole."""
        return cls(rank, offset, shape, tuple(range(o, o + n) for o, n in zip(offset, shape, strict=True)))

    @property
    def inside(self) -> tuple[slice, ...]:
        """What is taken, as a slice of the rank's own array."""
        return tuple(slice(o.start - at, o.stop - at) for o, at in zip(self.owned, self.offset, strict=True))


class Whole:
    """One array of which each rank has a box. Reading a part of it reads the boxes that the part touches."""

    def __init__(self, ranks: Sequence[Snapshot], first: Variable, shape: tuple[int, ...], pieces: list[Piece]) -> None:
        self._ranks = ranks
        self.name = first.name
        self.native = first.native
        self.order = first.order
        self.units = first.units
        #: The first rank's attributes, without those that tell its part.
        self.attrs: dict[str, Scalar] = {n: v for n, v in first.attrs.items() if n not in Part._fields}
        self.shape = shape
        self.pieces = pieces

    @classmethod
    def of(cls, ranks: Sequence[Snapshot], name: str) -> Whole:
        """The variable of that name."""
        owners = [(rank, part.variables[name]) for rank, part in enumerate(ranks) if name in part.variables]
        if not owners:
            known = ", ".join(names_of(ranks)) or "none"
            raise UnknownVariable(f"version {ranks[0].version} has no variable '{name}' on any rank; it has {known}")
        first = owners[0][1]
        for rank, variable in owners:
            if variable.native != first.native:
                raise MisuseError(
                    f"'{name}' is {first.native} on rank {owners[0][0]} and {variable.native} on rank {rank}: "
                    "take it from the ranks one by one"
                )
        parts = [part_of(rank, variable) for rank, variable in owners]
        told = [part for part in parts if part is not None]
        if told:
            return cls._divided(ranks, owners, parts)
        if len(owners) == 1:
            return cls(ranks, first, first.shape, [Piece.full(owners[0][0], (0,) * len(first.shape), first.shape)])
        shapes = {variable.shape for _, variable in owners}
        if len(shapes) > 1 or len(owners) < len(ranks):
            raise MisuseError(
                f"'{name}' has no common shape on the ranks, and does not tell its part of a global array "
                f"(attributes offset and global_shape): take it from the ranks one by one"
            )
        pieces = [Piece.full(rank, (rank, *(0 for _ in first.shape)), (1, *first.shape)) for rank, _ in owners]
        return cls(ranks, first, (len(owners), *first.shape), pieces)

    @classmethod
    def _divided(
        cls,
        ranks: Sequence[Snapshot],
        owners: list[tuple[int, Variable]],
        parts: list[Part | None],
    ) -> Whole:
        first = owners[0][1]
        pieces, shape = [], None
        for (rank, variable), part in zip(owners, parts, strict=True):
            if part is None or (shape is not None and part[1] != shape):
                found = "no part" if part is None else f"a part of {part[1]}"
                raise MisuseError(
                    f"'{first.name}' tells {found} on rank {rank}, and another one on rank {owners[0][0]}"
                )
            offset, shape = part
            pieces.append(Piece.full(rank, offset, variable.shape))
        assert shape is not None
        pieces = divide(pieces)
        covered = sum(product(tuple(map(len, piece.owned))) for piece in pieces)
        if covered < product(shape):
            raise MisuseError(
                f"the parts of '{first.name}' have {covered} of the {product(shape)} elements of {shape}: "
                "a rank does not have the variable, or tells a wrong part"
            )
        return cls(ranks, first, shape, pieces)

    @property
    def stacked(self) -> bool:
        """Whether the first axis is the ranks."""
        return len(self.pieces) > 0 and len(self.shape) > len(
            self._ranks[self.pieces[0].rank].variables[self.name].shape
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype as numpy knows it."""
        if numpy is None:
            raise MisuseError("arrays of all ranks need numpy")
        return numpy_dtype(self.native)

    def __getitem__(self, key: EllipsisType | tuple[int | slice, ...]) -> NDArray[Any]:
        """A copy of a box, or of every so many elements: one number or slice per axis."""
        key = (slice(None),) * len(self.shape) if key is ... else key
        spans = [span_of(index, extent) for index, extent in zip(key, self.shape, strict=True)]
        result: NDArray[Any] = numpy.empty([len(span) for span in spans], self.dtype, order=self.order)
        for piece in self.pieces:
            places = []
            for span, owned in zip(spans, piece.owned, strict=True):
                places.append(within(span, owned.start, owned.stop))
            if all(len(range(place.start, place.stop)) for place in places):
                array = self._ranks[piece.rank][self.name].reshape(piece.shape, order="A")
                source = []
                for place, span, start in zip(places, spans, piece.offset, strict=True):
                    low, high = span[place.start] - start, span[place.stop - 1] - start
                    low, high = min(low, high), max(low, high)
                    source.append(slice(low, high + 1, abs(span.step)))
                    if span.step < 0:
                        source[-1] = slice(high, low - 1 if low else None, span.step)
                result[tuple(places)] = array[tuple(source)]
        # A number, unlike a slice of one element, takes its axis away.
        return result[tuple(0 if isinstance(index, int) else slice(None) for index in key)]


def divide(pieces: list[Piece]) -> list[Piece]:
    """The same pieces, each element taken from one of them: the rule of the engine's ``Part::owned``.

    Where two overlap, as parts with ghost cells do, the border between what is taken of them lies in the middle of the
    overlap, along the axis on which they overlap least. Of pieces of which one lies within the other, the smaller one gives
    nothing, and of equal ones the later one.
    """
    owned = [list(piece.owned) for piece in pieces]
    for one, two in overlapping(pieces):
        pairs = list(zip(pieces[one].owned, pieces[two].owned, strict=True))
        overlaps = [min(a.stop, b.stop) - max(a.start, b.start) for a, b in pairs]
        sides = [axis for axis, (a, b) in enumerate(pairs) if (a.start - b.start) * (a.stop - b.stop) > 0]
        if sides:
            axis = min(sides, key=lambda axis: overlaps[axis])
            low, high = (one, two) if pairs[axis][0].start < pairs[axis][1].start else (two, one)
            border = pieces[high].owned[axis].start + overlaps[axis] // 2
            owned[low][axis] = range(owned[low][axis].start, min(owned[low][axis].stop, border))
            owned[high][axis] = range(max(owned[high][axis].start, border), owned[high][axis].stop)
        elif all(a.start <= b.start and b.stop <= a.stop for a, b in pairs):
            owned[two] = [range(span.start, span.start) for span in owned[two]]
        elif all(b.start <= a.start and a.stop <= b.stop for a, b in pairs):
            owned[one] = [range(span.start, span.start) for span in owned[one]]
    return [Piece(p.rank, p.offset, p.shape, tuple(spans)) for p, spans in zip(pieces, owned, strict=True)]


def overlapping(pieces: list[Piece]) -> Iterator[tuple[int, int]]:
    """The pairs of pieces that have elements in common."""
    starts = numpy.array([piece.offset for piece in pieces])
    stops = starts + numpy.array([piece.shape for piece in pieces])
    for one in range(len(pieces) - 1):
        rest = slice(one + 1, None)
        common = numpy.minimum(stops[one], stops[rest]) > numpy.maximum(starts[one], starts[rest])
        for two in numpy.flatnonzero(common.all(axis=1)):
            yield one, one + 1 + int(two)


def names_of(ranks: Sequence[Snapshot]) -> list[str]:
    """The variables that any rank has, in the order of their declaration."""
    return list(dict.fromkeys(itertools.chain.from_iterable(part.variables for part in ranks)))


def part_of(rank: int, variable: Variable) -> Part | None:
    """The variable's part of a global array, if it tells one."""
    part = variable.part
    if part is None:
        return None
    fits = len(part.offset) == len(variable.shape)
    if not fits or any(o + n > g for o, n, g in zip(part.offset, variable.shape, part.global_shape, strict=True)):
        raise MisuseError(
            f"'{variable.name}' of rank {rank}: a shape of {variable.shape} at {part.offset} is no part of "
            f"{part.global_shape}"
        )
    return part


def product(shape: Sequence[int]) -> int:
    """How many elements an array of that shape has."""
    result = 1
    for extent in shape:
        result *= extent
    return result


def span_of(index: int | slice, extent: int) -> range:
    """The elements of an axis that an index means."""
    if isinstance(index, slice):
        return range(*index.indices(extent))
    place = index + extent if index < 0 else index
    if not 0 <= place < extent:
        raise IndexError(f"index {index} on an axis of {extent}")
    return range(place, place + 1)


def within(span: range, start: int, stop: int) -> slice:
    """Which places of the span lie from start on and below stop."""
    if span.step > 0:
        low, high = -(-(start - span.start) // span.step), -(-(stop - span.start) // span.step)
    else:
        low, high = -((stop - 1 - span.start) // -span.step), (span.start - start) // -span.step + 1
    low, high = max(low, 0), min(high, len(span))
    return slice(low, max(low, high))
