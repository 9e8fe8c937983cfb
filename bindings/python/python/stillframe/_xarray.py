"""Regions, groups and objects as xarray datasets: ``xarray.open_dataset("melt", engine="stillframe")``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from . import _native
from ._errors import MisuseError, NoObject, NoRegion, NoVersion, Timeout
from ._group import GroupSnapshot, open_any
from ._object import Dims, Object, ObjectVersion, open_object
from ._object_xarray import check_dims, dataset_of, given_dims
from ._observer import Snapshot, Variable
from ._types import CHUNK_BYTES, Native, Scalar, number_dtype, numbers_of
from ._whole import Whole, names_of

#: The attribute that names a variable's dimensions.
DIMS = "dims"
#: Between two looks for a name that may become a region, a group or an object.
LOOK_SECONDS = 0.02

Held = Snapshot | GroupSnapshot


class Engine(BackendEntrypoint):
    """xarray's way to open a region, a group or an object. The dataset is of one version, which of a region or group is held
    until it is closed; of an object it is not held."""

    description = "Versions of running simulations, published by Stillframe"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "version", "wait", "dir", "dims")

    def open_dataset(  # type: ignore[override]
        self,
        filename_or_obj: str | Held | Object | ObjectVersion,
        *,
        drop_variables: str | Iterable[str] | None = None,
        version: int | None = None,
        wait: float | None = 0.0,
        dir: str | os.PathLike[str] | None = None,
        dims: Dims = None,
    ) -> xr.Dataset:
        """Opens a version.

        :param filename_or_obj: the name of a region, group or object, looked for in this order; or an object or one of its
            versions; or a snapshot, which stays the caller's to close.
        :param version: the version, the newest one if None.
        :param wait: most seconds to wait for the region and its first version, or for the object; for ever if None.
        :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None.
        :param dims: names of the dimensions, ``{"u": ("y", "x")}``, or a sequence for all variables with as many axes, rather than
            those of the attribute ``dims``; an axis ``rank`` is not among them.
        """
        close: Callable[[], None] | None = None
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        name = filename_or_obj if isinstance(filename_or_obj, str) else None
        found = filename_or_obj if name is None else find(name, version, wait, dir)
        if isinstance(found, Object):
            found = found.at(found.newest() if version is None else version)
        if isinstance(found, ObjectVersion):
            return dataset_of(found._reader, dims, dropped)
        if not isinstance(found, (Snapshot, GroupSnapshot)):
            raise MisuseError(f"{filename_or_obj!r}: give the name of a region, group or object, or a snapshot")
        held = found
        if name is not None:
            close = held.close
        reopen = None if name is None else (name, held.version, None if dir is None else os.fspath(dir))
        variables = {name: of for name, of in variables_of(held, reopen, dims).items() if name not in dropped}
        dataset = xr.Dataset(variables, attrs=attributes_of(held, name))
        if close is not None:
            dataset.set_close(close)
        return dataset

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Never: the name of a region looks like that of any file."""
        return False


def find(
    name: str, version: int | None, wait: float | None, dir: str | os.PathLike[str] | None
) -> Held | Object:
    """A version of the region or group of that name, held; or else the object."""
    begin = time.monotonic()
    while True:
        try:
            return hold(name, version, 0.0, dir)
        except (NoRegion, NoVersion, Timeout) as error:
            missing = error
        try:
            return open_object(name, 0.0, dir)
        except NoObject:
            if wait is not None and time.monotonic() - begin >= wait:
                missing.add_note(f"There is no object '{name}' either.")
                raise missing from None
        time.sleep(LOOK_SECONDS)


def hold(name: str, version: int | None, wait: float | None, dir: str | os.PathLike[str] | None) -> Held:
    """Holds a version of the region or group of that name."""
    with open_any(name, wait=wait, dir=dir) as opened:
        return opened.newest() if version is None else opened.version(version)


def attributes_of(held: Held, name: str | None) -> dict[str, Scalar]:
    """What the version says of itself."""
    ranks = list(held) if isinstance(held, GroupSnapshot) else [held]
    ours: dict[str, Scalar] = {} if name is None else {"region": name}
    published_ns = max(rank.published_ns for rank in ranks)
    return {**ranks[0].attrs, **ours, "version": held.version, "published_ns": published_ns}


Reopen = tuple[str, int, "str | None"]


class Content(NamedTuple):
    """A variable of a dataset, of which nothing has been read."""

    name: str
    array: Array
    #: What is known of it: the variable, or that of all ranks.
    about: Variable | Whole
    attrs: Mapping[str, Scalar]
    chunks: tuple[Any, ...]

    def given(self, dims: Dims) -> list[str | None]:
        """The name that the reader, or else the program, gives to each axis, if one does."""
        stacked: list[str | None] = ["rank"] if isinstance(self.about, Whole) and self.about.stacked else []
        count = len(self.array.shape) - len(stacked)
        asked = given_dims(self.name, count, dims)
        if None not in asked:
            if stacked and "rank" in asked:
                raise MisuseError(f"dims: '{self.name}' has an axis 'rank' of its own: give another name")
            return [*stacked, *asked]
        text = self.attrs.get(DIMS)
        names = _native.given_dimensions(text, count) if isinstance(text, str) else None
        if names is None or "rank" in names and stacked:
            return [*stacked, *(None,) * count]
        return [*stacked, *names]

    def to_variable(self, dims: list[str], given: list[str | None]) -> xr.Variable:
        """The array with names for its axes, those that were given and those that were made, and what is known of it."""
        # Names that no axis has stay an attribute.
        told = {key: value for key, value in self.attrs.items() if key != DIMS or None in given}
        if self.about.units:
            told["units"] = self.about.units
        # Memory can be cut anywhere: only where there is something to gain is a choice proposed.
        chunked = self.chunks != self.array.shape
        encoding = {"preferred_chunks": dict(zip(dims, self.chunks, strict=True))} if chunked else {}
        return xr.Variable(dims, indexing.LazilyIndexedArray(self.array), told, encoding)


def variables_of(held: Held, reopen: Reopen | None, dims: Dims) -> dict[str, xr.Variable]:
    """The variables, none of which has been read."""
    contents = list(contents_of(held, reopen))
    check_dims(dims, [one.name for one in contents])
    given = [one.given(dims) for one in contents]
    names = _native.name_dimensions([(one.name, one.array.shape, axes) for one, axes in zip(contents, given, strict=True)])
    return {one.name: one.to_variable(axes, own) for one, axes, own in zip(contents, names, given, strict=True)}


def contents_of(held: Held, reopen: Reopen | None) -> Iterator[Content]:
    """What of the version becomes variables."""
    if isinstance(held, Snapshot):
        for name, variable in held.variables.items():
            array = Array(held, name, variable.shape, variable.native, reopen)
            yield Content(name, array, variable, variable.attrs, chunks_of(variable))
        return
    for name in names_of(held):
        try:
            whole = Whole.of(held, name)
        except MisuseError as error:
            # What cannot be put together is there rank by rank.
            for rank, part in enumerate(held):
                if name in part:
                    variable = part.variables[name]
                    array = Array(held, name, variable.shape, variable.native, reopen, rank)
                    attrs = {**variable.attrs, "note": str(error)}
                    yield Content(f"{name}.{rank}", array, variable, attrs, chunks_of(variable))
            continue
        array = Array(held, name, whole.shape, whole.native, reopen)
        yield Content(name, array, whole, whole.attrs, pieces_of(whole))


def chunks_of(variable: Variable) -> tuple[int, ...]:
    """Parts that are read well: slabs along the slowest axis."""
    shape = list(variable.shape)
    slowest = 0 if variable.order == "C" else len(shape) - 1
    if shape and variable.nbytes > CHUNK_BYTES:
        slab = variable.nbytes // shape[slowest]
        shape[slowest] = max(1, CHUNK_BYTES // max(slab, 1))
    return tuple(shape)


def pieces_of(whole: Whole) -> tuple[tuple[int, ...], ...]:
    """Parts that are read well: what the ranks have."""
    result = []
    for axis, extent in enumerate(whole.shape):
        starts = sorted({piece.owned[axis].start for piece in whole.pieces if all(map(len, piece.owned))} | {0})
        result.append(tuple(stop - start for start, stop in zip(starts, [*starts[1:], extent], strict=True)))
    return tuple(result)


class Array(BackendArray):
    """A variable of a held version, read where and when it is indexed.

    What is read is a copy, so that no array keeps the version when the dataset has been closed. In another process,
    which dask may send it to, it holds the version anew.
    """

    def __init__(
        self,
        held: Held,
        name: str,
        shape: tuple[int, ...],
        native: Native,
        reopen: Reopen | None,
        rank: int | None = None,
    ) -> None:
        self._held = held
        self._name = name
        self._native = native
        self._reopen = reopen
        self._rank = rank
        self.shape = shape
        self.dtype = number_dtype(native)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[int | slice, ...]) -> NDArray[Any]:
        if isinstance(self._held, Snapshot):
            found = np.array(self._held[self._name][key])
        elif self._rank is None:
            found = Whole.of(self._held, self._name)[key]
        else:
            found = np.array(self._held[self._rank][self._name][key])
        return numbers_of(found, self._native)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._reopen is None:
            raise MisuseError(f"'{self._name}' belongs to a snapshot of this process; open the dataset by its name")
        return rebuild, (self._reopen, self._name, self.shape, self._native, self._rank)


def rebuild(reopen: Reopen, name: str, shape: tuple[int, ...], native: Native, rank: int | None) -> Array:
    """The array in another process."""
    region, version, dir = reopen
    return Array(hold(region, version, 0.0, dir), name, shape, native, reopen, rank)
