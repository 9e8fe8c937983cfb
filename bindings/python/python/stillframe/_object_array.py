"""Variables of objects that look like arrays, and are read where they are indexed."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import MisuseError, UnknownVariable
from ._fragment_cache import FragmentCache
from ._made import Made
from ._types import numpy
from .drepl import Arrays, Fragment, Schema, Variable

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy as np
    from numpy.typing import NDArray

    from ._native import LaidOut

#: What an axis is indexed with.
Index = int | slice

#: Seconds for which a read of the newest complete version goes on: it waits for what dying writers left, and begins anew
#: with a newer version when writers let go of the one that it wanted.
_NEWEST_SECONDS = 10.0


class Arrangement:
    """The variables of a fragment as arrays over its memory, which they keep; made once, when they are asked for."""

    def __init__(self, fragment: Fragment, memory: _native.Memory) -> None:
        self._fragment = fragment
        self._memory = memoryview(memory)

    @cached_property
    def arrays(self) -> Arrays:
        """One for each variable."""
        return self._fragment.arrays(self._memory)

    @cached_property
    def fields(self) -> Arrays:
        """One for each variable, and of records one for each field."""
        return self._fragment.fields(self._memory)


class Reader:
    """Reads parts of an object, of one version or of the newest complete one each time."""

    def __init__(self, native: _native.Object, version: int | None = None, timeout: float | None = 0.0) -> None:
        self.native = native
        self.version = version
        self.timeout = timeout
        #: Fragments that were read: who reads the same elements again need not look for them again.
        self._cache = FragmentCache()

    def at(self, version: int, timeout: float | None) -> Reader:
        """Reads one version."""
        reader = Reader(self.native, version, timeout)
        reader._cache = self._cache
        return reader

    @property
    def name(self) -> str:
        """The object's name."""
        return self.native.name

    @cached_property
    def schema(self) -> Schema:
        """What describes the object."""
        return Schema._of(self.native.schema())

    @cached_property
    def index(self) -> str:
        """A beginning for names of indices that means nothing in the object's text."""
        known = " ".join([self.native.text, *self.native.bindings()])
        index = "i"
        while index in known and len(index) <= len(known):
            index += "_"
        return index

    def array(self, name: str) -> ObjectArray:
        """A variable."""
        if name not in self.schema.objects:
            known = ", ".join(self.schema.objects)
            raise UnknownVariable(f"object '{self.name}' has no variable '{name}'; it has {known}")
        # A view of all of it has its types, with the layout that a read gives.
        laid_out = self.native.schema().fragment(f"{{ var v = {name} }}", {}).variables()[0][1]
        return ObjectArray._of(self, name, ((name, laid_out),))

    def read(self, text: str, out: NDArray[Any]) -> None:
        """Copies what a view without gaps describes into an array."""
        key = os.getpid(), text
        with self._cache.begin() as read:
            fragment = self._cache.take(key, out.nbytes)
            if fragment is None:
                fragment = self.native.read(text, {}, 0, False)
            try:
                if self.version is None:
                    fragment.fill_newest(_NEWEST_SECONDS, out, read)
                else:
                    fragment.fill(self.version, self.timeout, out, read)
            except BaseException:
                self._cache.give_back(fragment)
                raise
            self._cache.keep(key, fragment, out.nbytes)


class ObjectArray(metaclass=Made, by='obj["u"] is one'):
    """A variable of an object, or a field of its records: an array that is read where it is indexed.

    ``array[3:10, ::2]`` reads these elements and no others, from whoever has them, as a new numpy array: integers, slices
    with any step, and ``...``. ``array["rho"]`` is a field of records, and not read yet. ``numpy.asarray(array)`` reads all.
    """

    def __init__(self, reader: Reader, name: str, path: tuple[tuple[str, LaidOut], ...]) -> None:
        self._reader = reader
        #: The variable's name, and behind dots those of fields.
        self.name = name
        self._path = path

    @cached_property
    def _axes(self) -> list[list[int]]:
        """Of each name on the path, the extents that stand in each pair of its brackets, and all of them."""
        return [extents for _, laid_out in self._path for extents in _brackets(laid_out)[0]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of its axes: those of the variable, then those of fields and nested arrays."""
        return tuple(extent for extents in self._axes for extent in extents)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element, structured for a record."""
        return Variable(self.name, 0, (), (), _brackets(self._path[-1][1])[1]).dtype

    @property
    def is_bfloat16(self) -> bool:
        """Whether its elements are numbers of ``bfloat16``, which it shows as their bits, ``uint16``."""
        element = _brackets(self._path[-1][1])[1]
        return isinstance(element, str) and "B" in element

    @property
    def version(self) -> int | None:
        """The version that it reads; None if that is the newest complete one each time."""
        return self._reader.version

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields; none if its elements are no records."""
        return tuple(name for name, *_ in self._fields)

    @property
    def _fields(self) -> list[tuple[str, LaidOut, int]]:
        element: Any = _brackets(self._path[-1][1])[1]
        return [] if isinstance(element, str) else element[0]

    def __getitem__(self, key: str | Index | EllipsisType | tuple[Index | EllipsisType, ...]) -> Any:
        if isinstance(key, str):
            for field, laid_out, _ in self._fields:
                if field == key:
                    path = (*self._path, (f".{field}", laid_out))
                    return ObjectArray._of(self._reader, f"{self.name}.{field}", path)
            known = ", ".join(self.fields) or "none"
            raise UnknownVariable(f"'{self.name}' has no field '{key}'; its fields are: {known}")
        spans = _spans(key, self.shape)
        wanted, dtype = tuple(len(span) for span in spans if isinstance(span, range)), self.dtype
        out = numpy.empty(wanted, dtype)
        if out.size:
            self._reader.read(self._text(spans), out)
        return out[()]

    def _text(self, spans: list[int | range]) -> str:
        """The view of these elements."""
        index = self._reader.index
        places, terms = [], []
        for axis, span in enumerate(spans):
            if isinstance(span, int):
                terms.append(str(span))
            else:
                places.append(f"{index}{axis}:{len(span)}")
                step = f"{'-' if span.step < 0 else '+'}{abs(span.step)}*{index}{axis}"
                terms.append(f"{span.start}{step}")
        right, rest = "", iter(terms)
        for name, laid_out in self._path:
            right += name
            for extents in _brackets(laid_out)[0]:
                right += f"[{', '.join(next(rest) for _ in extents)}]"
        left = f" [{', '.join(places)}]" if places else ""
        return f"{{ var v{left} = {right} }}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"'{self.name}' is read from other processes, which makes a copy: leave copy=False out")
        whole: NDArray[Any] = numpy.asarray(self[...])
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"'{self.name}' has no axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """The parts along the first axis, of one version: all are read at once."""
        return iter(self[...])

    def __repr__(self) -> str:
        version = "newest version" if self.version is None else f"version {self.version}"
        return f"<stillframe.ObjectArray {self.name!r} {self.shape} of {self.dtype}, {version} of {self._reader.name!r}>"


def _brackets(laid_out: LaidOut) -> tuple[list[list[int]], LaidOut]:
    """The extents in each pair of brackets of a type, and what the elements are."""
    found = []
    while not isinstance(laid_out, str) and len(laid_out) == 3:
        found.append(list(laid_out[1]))
        laid_out = laid_out[0]
    return found, laid_out


def _spans(key: Any, shape: tuple[int, ...]) -> list[int | range]:
    """What an index means on each axis: one place, or a range of them."""
    given = key if isinstance(key, tuple) else (key,)
    # By identity: arrays have no single answer to whether they are equal.
    dots = [place for place, index in enumerate(given) if index is ...]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    left_out = len(shape) - (len(given) - len(dots))
    if left_out < 0:
        raise IndexError(f"too many indices: {len(given) - len(dots)} for {len(shape)} axes")
    at = dots[0] if dots else len(given)
    filled = (*given[:at], *(slice(None),) * left_out, *given[at + 1 :])
    return [_span(index, axis, extent) for axis, (index, extent) in enumerate(zip(filled, shape, strict=True))]


def _span(index: Any, axis: int, extent: int) -> int | range:
    if isinstance(index, slice):
        return range(*index.indices(extent))
    if isinstance(index, bool) or (numpy is not None and isinstance(index, numpy.bool_)):
        raise MisuseError("masks are not read: give integers, slices and '...', or index numpy.asarray(array)")
    try:
        place = operator.index(index)
    except TypeError:
        raise MisuseError(
            f"index {index!r} is neither integer, slice nor '...': read what it needs, and index the result"
        ) from None
    if not -extent <= place < extent:
        raise IndexError(f"index {place} is out of bounds for axis {axis} with size {extent}")
    return place % extent
