"""Versions of objects as xarray datasets, read where they are indexed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from . import _native
from ._errors import MisuseError
from ._object_array import ObjectArray, Reader
from ._types import CHUNK_BYTES, number_dtype, numbers_of

if TYPE_CHECKING:
    from ._object import Dims


class LazyArray(BackendArray):
    """A variable of a version, read where it is indexed. In another process, which dask may send it to, it finds the same
    object again."""

    def __init__(self, array: ObjectArray, path: tuple[str, ...]) -> None:
        self._array = array
        self._path = path
        self._native = "bfloat16" if array.is_bfloat16 else None
        self.shape = array.shape
        self.dtype = array.dtype if self._native is None else number_dtype(self._native)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: Any) -> Any:
        return numbers_of(self._array[key], self._native)

    def __reduce__(self) -> tuple[Any, ...]:
        reader = self._array._reader
        native = reader.native
        return rebuild, (native.name, native.id, os.fspath(native.dir), reader.version, reader.timeout, self._path)


def rebuild(name: str, id: int, dir: str, version: int, timeout: float | None, path: tuple[str, ...]) -> LazyArray:
    """The array in another process, of the same object."""
    from ._object import find_same

    array = find_same(name, id, dir).at(version, timeout)[path[0]]
    for field in path[1:]:
        array = array[field]
    return LazyArray(array, path)


def leaves(array: ObjectArray, path: tuple[str, ...]) -> Iterator[tuple[ObjectArray, tuple[str, ...]]]:
    """A variable, or each field of its records."""
    if not array.fields:
        yield array, path
    for field in array.fields:
        yield from leaves(array[field], (*path, field))


def dataset_of(reader: Reader, dims: Dims, dropped: Collection[str] = ()) -> xr.Dataset:
    """The dataset of a reader's version, without some variables."""
    found = [leaf for name in reader.schema.objects for leaf in leaves(reader.array(name), (name,))]
    check_dims(dims, [array.name for array, _ in found])
    shown = [(array, path) for array, path in found if array.name not in dropped]
    names = _native.name_dimensions([(array.name, array.shape, given_dims(array.name, array.ndim, dims)) for array, _ in shown])
    variables = {
        array.name: variable_of(array, path, axes) for (array, path), axes in zip(shown, names, strict=True)
    }
    return xr.Dataset(variables, attrs={"object": reader.name, "version": reader.version})


def variable_of(array: ObjectArray, path: tuple[str, ...], dims: list[str]) -> xr.Variable:
    """The array with names for its axes. Where dask may choose, slabs along the first axis are proposed for a large one."""
    encoding = {}
    if array.shape and array.nbytes > CHUNK_BYTES:
        rows = max(1, CHUNK_BYTES * array.shape[0] // array.nbytes)
        encoding["preferred_chunks"] = dict(zip(dims, (rows, *array.shape[1:]), strict=True))
    return xr.Variable(dims, indexing.LazilyIndexedArray(LazyArray(array, path)), None, encoding)


def check_dims(dims: Dims, known: Collection[str]) -> None:
    """Refuses names for the axes of a variable that there is not."""
    unknown = sorted(dims.keys() - set(known)) if isinstance(dims, Mapping) else []
    if unknown:
        raise MisuseError(f"dims: there is no variable '{unknown[0]}'; the variables are: {', '.join(known)}")


def given_dims(name: str, ndim: int, dims: Dims) -> list[str | None]:
    """The name that is given to each axis of a variable, if one is."""
    given: Sequence[str] | None
    if isinstance(dims, Mapping):
        given = dims.get(name)
    else:
        given = dims if dims is not None and len(dims) == ndim else None
    if given is None:
        return [None] * ndim
    names = list(given)
    if isinstance(given, str) or len(names) != ndim or len(set(names)) != ndim:
        raise MisuseError(f"dims: '{name}' has {ndim} axes, and {given!r} does not name each of them once")
    return [*names]
