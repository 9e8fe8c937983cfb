"""The producer's side."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _native
from ._arena import Arena
from ._arrays import Lent, array_over, as_array, dtype_of, is_contiguous, order_of
from ._closing import Closing, is_accident
from ._errors import MisuseError, UnknownVariable
from ._made import Made
from ._numbers import numbers, version_of, whole
from ._publication import Published, Started
from ._types import (
    Native,
    Part,
    RecoveredVariable,
    Scalar,
    check_order,
    item_bytes,
    native_dtype,
    numpy,
    numpy_dtype,
    scalars,
    shape_of,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Shape = int | tuple[int, ...] | list[int]
Order = Literal["C", "F"]


_CHANGING = "an array was given another shape or dtype while it was published: publish again when no thread does that"


class _Declared(NamedTuple):
    kind: str
    dtype: Native
    shape: tuple[int, ...]
    order: str
    units: str
    attrs: dict[str, Scalar]


def _declared(
    kind: str,
    dtype: DTypeLike,
    shape: Shape,
    order: str,
    units: str,
    attrs: Mapping[str, Any] | None,
    part: tuple[Shape, Shape] | None,
) -> _Declared:
    all_attrs = scalars(attrs) | Part.attrs(part)
    return _Declared(kind, native_dtype(dtype), shape_of(shape), check_order(order), units, all_attrs)


class Region(Closing, metaclass=Made, by="stillframe.create(name) creates one"):
    """A named set of variables that this process publishes together. See :func:`stillframe.create`."""

    def __init__(self, native: _native.Region) -> None:
        self._native = native
        self._declared: dict[str, _Declared] = {}
        self._defaults: dict[str, _native.ArrayInput] = {}

    @property
    def name(self) -> str:
        """The region's name."""
        return self._native.name

    @property
    def recovered(self) -> int | None:
        """The version whose content the region started with, if a producer before this one left any."""
        return self._native.recovered

    @property
    def newest(self) -> int | None:
        """The newest version."""
        return self._native.newest

    def recovered_variables(self) -> dict[str, RecoveredVariable]:
        """The variables of what :func:`stillframe.recover` found by their names, before the first publish.

        Of a group all that any of its ranks had; none if the region began with nothing.
        """
        rows = _native.recovered_variables(self._native)
        return {name: RecoveredVariable(name, native, tuple(shape)) for name, native, shape in rows}

    def read(
        self,
        name: str,
        offset: Shape | None = None,
        shape: Shape | None = None,
        *,
        dtype: DTypeLike | None = None,
        order: Order = "C",
        out: Any = None,
    ) -> NDArray[Any]:
        """Reads a box of what :func:`stillframe.recover` found, before the first publish.

        It is a box of the global array if those who published it said which parts they had, however many they were; else of the
        variable as it was. Without an offset that of the part which was declared in this region counts, or else all is read, which has
        to have had that shape; without a shape or dtype those of ``out``, which is filled, or of what was declared, or what it had.
        """
        declared = self._declared.get(name)
        if out is None:
            default = self._defaults.get(name)
            if shape is None and default is not None:
                shape = default.array.shape
            elif shape is None and declared is not None and declared.kind != "tracked":
                shape = declared.shape
            native = native_dtype(dtype) if dtype is not None else declared.dtype if declared is not None else None
            if shape is None or native is None:
                was, full = _native.recovered_variable(self._native, name)
                shape, native = full if shape is None else shape, native or was
            if numpy is None:
                raise MisuseError("this needs numpy; without it, give an array with out=")
            found: str = check_order(order)
            out = numpy.empty(shape_of(shape), numpy_dtype(native), found)
        else:
            array = as_array(name, out)
            native, found = dtype_of(name, array), order_of(array, order)
            if not is_contiguous(array):
                raise MisuseError(f"variable '{name}': the array given with out= has gaps; give a contiguous one")
            if array.readonly if isinstance(array, memoryview) else not array.flags.writeable:
                raise MisuseError(f"variable '{name}': the array given with out= is read-only")
            shape = tuple(array.shape) if shape is None else shape
            if shape_of(shape) != tuple(array.shape):
                raise MisuseError(f"variable '{name}': out has shape {tuple(array.shape)}, not {shape_of(shape)}")
        part = Part.of(declared.attrs) if declared is not None else None
        if offset is None and part is not None:
            offset = part.offset
        box = None if offset is None else shape_of(offset)
        self._native.read(name, native, found, box, shape_of(shape), out)
        return out  # type: ignore[no-any-return]

    def fill(self, name: str) -> None:
        """Fills a variable in memory of the region with its part of the global array that :func:`stillframe.recover` found,
        however many ranks had published it, before the first publish. One that is no part, or whose region began with
        nothing, stays as it is."""
        self._get(name)
        self._native.fill(name)

    def array(
        self,
        name: str,
        shape: Shape | None = None,
        dtype: DTypeLike = "f8",
        *,
        order: Order = "C",
        units: str = "",
        attrs: Mapping[str, Any] | None = None,
        part: tuple[Shape, Shape] | None = None,
        pinned: bool = False,
    ) -> NDArray[Any]:
        """A variable in memory of the region: a writable array, zero at first or as recovered.

        Without a shape, another array over a variable that this region has already. ``part`` says that it is a box of an
        array that all ranks have together: its offset there, and the global shape. ``pinned`` does what :meth:`pin` does, from
        the beginning.
        """
        if shape is None:
            if self._get(name).kind != "managed":
                raise MisuseError(f"variable '{name}' is not in memory of the region")
            if pinned:
                self._native.pin(name)
        else:
            declared = _declared("managed", dtype, shape, order, units, attrs, part)
            self._declare(name, declared, pinned)
        return self._array(name)

    def track(
        self,
        name: str,
        array: Any = None,
        *,
        dtype: DTypeLike | None = None,
        order: Order | None = None,
        units: str = "",
        attrs: Mapping[str, Any] | None = None,
        part: tuple[Shape, Shape] | None = None,
    ) -> None:
        """Adds a variable in memory of the application.

        An array given here is followed: each publish reads it, but one that is itself given another array for the variable.
        It tells the dtype, and the region keeps a reference to it until :meth:`untrack`. Call ``track`` again to follow
        another array, also one of another shape. ``part`` is that of :meth:`array`.

        The array may be a view with gaps, such as ``u[1:-1, 1:-1]`` or ``u[::4]``: versions show its elements, and have no room
        for others. With a ``dtype`` of fewer bits, versions show its numbers rounded: float64 as "float32", "float16" or
        "bfloat16", float32 as the last two, complex128 as "complex64".

        Memory shared with other processes (``multiprocessing.shared_memory``, a ``numpy.memmap`` of mode "r+") shows what they
        write, too. It is compared as a whole at each publish, where other memory is only searched for written pages. Of files on
        persistent memory (DAX) mapped with mode "c", before Linux 6.15, it does not: create the region with
        ``tracker="full_copy"`` there.
        """
        if array is None:
            if dtype is None:
                raise MisuseError(f"variable '{name}': give its dtype, or the array itself")
            native = native_dtype(dtype)
            found: str = order or "C"
        else:
            array = as_array(name, array)
            native = dtype_of(name, array)
            found = order_of(array, order or "C")
            if dtype is not None:
                native = native_dtype(dtype)
            Lent(name, array, native, found)
        all_attrs = scalars(attrs) | Part.attrs(part)
        self._declare(name, _Declared("tracked", native, (), check_order(order or found), units, all_attrs))
        if array is not None:
            self._defaults[name] = self._input(name, array)

    def untrack(self, name: str) -> None:
        """Ends following an array: versions from now on keep its last content, unless they are given one. The region has no
        reference to it any more."""
        self._get_tracked(name)
        self._defaults.pop(name, None)

    def loan(
        self,
        name: str,
        shape: Shape | None = None,
        dtype: DTypeLike = "f8",
        *,
        order: Order = "C",
        units: str = "",
        attrs: Mapping[str, Any] | None = None,
        part: tuple[Shape, Shape] | None = None,
    ) -> Loan:
        """A variable that is written whole, into memory that becomes the next version without a copy.

        Use it in a ``with`` statement: leaving it gives the content to the next publish, an exception discards it. The
        array holds nothing in particular at first, every element has to be written, and it is over with the block: what
        is written to it later goes nowhere. ``part`` is that of :meth:`array`.
        """
        if shape is None:
            if self._get(name).kind != "loaned":
                raise MisuseError(f"variable '{name}' is not a loaned one")
        else:
            declared = _declared("loaned", dtype, shape, order, units, attrs, part)
            known = self._declared.get(name)
            if known is not None and known._replace(shape=declared.shape) == declared != known:
                self._native.resize(name, declared.shape)
                self._declared[name] = declared
            self._declare(name, declared)
        return Loan._of(self._native, name, self._get(name))

    def publish(
        self,
        version: int,
        arrays: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Published:
        """Publishes what all variables hold now as a version, which has to be greater than the one before.

        ``arrays`` has arrays that this version alone is given for tracked variables, which :meth:`track` declared before: a name
        that is spelt wrong is an error, and no new variable. They are read before this returns, and
        not kept. A tracked variable that is left out shows the array that it follows, or else keeps its last content. No
        thread may write any of the arrays meanwhile.
        """
        number, others = version_of(version), scalars(attrs)
        done = self._native.publish(number, self._given(arrays), others)
        if done is None:
            self._renew_inputs()
            done = self._native.publish(number, self._given(arrays), others)
        if done is None:
            raise MisuseError(_CHANGING)
        return Published(*done)

    def publish_start(
        self,
        version: int,
        arrays: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        *,
        guard: bool = False,
    ) -> Started:
        """Starts a publish and returns when it is known which pages have to be copied.

        Threads copy them on processors that are free, and :meth:`publish_finish` what they did not get to. Observers see the
        version when it is finished: by :meth:`publish_finish` or :meth:`publish_test`, by the next publish, by the end of a
        ``with`` block, or by what changes variables::

            with region.publish_start(step):
                work_that_reads(u)
            u[:] = ...

        Until then the arrays may be read and not be written, as with nonblocking sends of MPI. Where one is written all the same,
        the version is a mixture of before and after, and nothing else breaks; with ``STILLFRAME_CHECK=1`` in the environment
        :meth:`publish_finish` raises :exc:`MisuseError`, which names variable and page. With ``guard`` they may be written: a child
        process copies, which has the memory as it was. That costs the time of a fork when it is started, and a fault at the
        first write to each page afterwards.

        What goes wrong is raised here or when it is finished; then nothing is published, and what was written is part of the
        next version.
        """
        number, others = version_of(version), scalars(attrs)
        if not self._native.publish_start(number, self._given(arrays), others, guard):
            self._renew_inputs()
            if not self._native.publish_start(number, self._given(arrays), others, guard):
                raise MisuseError(_CHANGING)
        return Started(self)

    def publish_finish(self) -> Published | None:
        """Finishes the publish that was started, after which all arrays may be written.

        Returns what it did, also if something else has finished it, but only once; ``None`` if there was none.
        """
        done = self._native.publish_finish()
        return done and Published(*done)

    def publish_test(self) -> bool:
        """Finishes the publish that was started if nothing is left to be copied and there is room.

        Whether none is left to be finished.
        """
        return self._native.publish_test()

    def _given(self, arrays: Mapping[str, Any] | None) -> list[_native.ArrayInput]:
        others = {name: self._input(name, value) for name, value in (arrays or {}).items()}
        return list({**self._defaults, **others}.values())

    def _input(self, name: str, value: Any) -> _native.ArrayInput:
        declared = self._get_tracked(name, f": call region.track('{name}', array) before arrays of it are given")
        return Lent(name, value, declared.dtype, declared.order).native(name)

    def _renew_inputs(self) -> None:
        """Of arrays that got another shape or dtype in their place."""
        self._defaults = {name: self._input(name, default.array) for name, default in self._defaults.items()}

    def resize(self, name: str, shape: Shape) -> NDArray[Any] | None:
        """Changes the shape of a variable, keeping its first bytes.

        What one in memory of the region gets beyond them is zero, also where it had elements before that it gave up. Of
        a loaned one versions show zeros until a loan of the new shape is submitted.

        For one in memory of the region, no array over that may be left, and a new one is returned.
        """
        declared = self._get(name)
        self._native.resize(name, shape_of(shape))
        self._declared[name] = declared._replace(shape=shape_of(shape))
        return self._array(name) if declared.kind == "managed" else None

    def repart(self, name: str, shape: Shape, part: tuple[Shape, Shape]) -> NDArray[Any] | None:
        """Says that a variable is another part of its global array from the next version on, as after balancing the load,
        and gives it the shape of that part as :meth:`resize` does. ``part`` is that of :meth:`array`.

        For one in memory of the region, no array over that may be left, and a new one is returned; moving its elements is
        left to the program. A tracked one has the shape of the array at each publish, which has to fit the part.
        """
        declared = self._get(name)
        offset, global_shape = Part.given(part)
        self._native.repart(name, shape_of(shape), offset, global_shape)
        extents = declared.shape if declared.kind == "tracked" else shape_of(shape)
        self._declared[name] = declared._replace(shape=extents, attrs=declared.attrs | Part.attrs(part))
        return self._array(name) if declared.kind == "managed" else None

    def remove(self, name: str) -> None:
        """Leaves the variable out of the versions to come. No array over its memory may be left."""
        self._get(name)
        self._native.remove(name)
        self._declared.pop(name, None)
        self._defaults.pop(name, None)

    def pin(self, name: str) -> None:
        """Lets a variable in memory of the region keep that memory, page by page, until :meth:`unpin` or its end.

        Call it before a device is told of the memory (``cudaHostRegister``, ``MPI.Win.Create``, RDMA, io_uring), and before
        it is advised, locked or bound: otherwise pages are exchanged, so that what is cold exists once, and the device
        goes on with those that are gone. What a device writes has to be told with :meth:`mark_dirty`.

        Until then the memory exists in full beside the versions, and :meth:`resize` works within the whole windows of
        2 MiB that the variable has. It is not ``mlock``. Arrays of the application are never moved, and pinning them says
        nothing new.
        """
        self._get(name)
        self._native.pin(name)

    def unpin(self, name: str) -> None:
        """Ends what :meth:`pin` began. Devices have to be told to forget the memory first."""
        self._get(name)
        self._native.unpin(name)

    def mark_dirty(self, name: str, start: int = 0, stop: int | None = None) -> None:
        """Says that elements (counted as they lie in memory) were written by something the kernel does not see: a GPU
        or a network card. The next publish copies them. A variable in memory of the region has to be pinned before a device
        is told of that memory, see :meth:`pin`."""
        size = item_bytes(self._get(name).dtype)
        most = ((1 << 64) - 1) // size
        first, end = whole("start", start, 0, most), None if stop is None else whole("stop", stop, 0, most)
        self._native.mark_dirty(name, first * size, None if end is None else end * size)

    def stats(self) -> dict[str, Any]:
        """Counts since the region was created."""
        return self._native.stats()

    def close(self) -> None:
        """Ends the producer's part. Observers keep what they hold, and the next producer of the name goes on from it.

        Arrays over the region's memory stay valid, as memory of this process alone. While an exception is on its way or being
        handled, it ends as by an accident: the next run that begins ``fresh`` sets aside what is left.
        """
        self._leave(sys.exception())

    def _leave(self, error: BaseException | None) -> None:
        self._defaults.clear()
        self._native.close(is_accident(error))

    def unlink(self) -> None:
        """Closes, and removes the region's files. Observers keep what they hold."""
        self._defaults.clear()
        self._native.unlink()

    def __repr__(self) -> str:
        return f"<stillframe.Region {self.name!r}>"

    def _get(self, name: str, advice: str = "") -> _Declared:
        try:
            return self._declared[name]
        except KeyError:
            known = ", ".join(self._declared) or "none"
            raise UnknownVariable(f"region '{self.name}' has no variable '{name}'; it has {known}{advice}") from None

    def _get_tracked(self, name: str, advice: str = "") -> _Declared:
        declared = self._get(name, advice)
        if declared.kind != "tracked":
            raise MisuseError(f"variable '{name}' is {declared.kind}: arrays are given of tracked ones only")
        return declared

    def _declare(self, name: str, declared: _Declared, pinned: bool = False) -> None:
        known = self._declared.get(name)
        if known is None:
            self._native.declare(name, declared.dtype, *_rest(declared), pinned)
            self._declared[name] = declared
        elif known != declared:
            pairs = zip(declared._fields, known, declared, strict=True)
            others = "; ".join(f"{what} {before!r}, not {now!r}" for what, before, now in pairs if before != now)
            raise MisuseError(
                f"variable '{name}' was declared otherwise before: {others}; declare it as before, resize it, or remove it first"
            )
        elif pinned:
            self._native.pin(name)

    def _array(self, name: str) -> NDArray[Any]:
        declared = self._get(name)
        return array_over(self._native.managed(name), declared.dtype, declared.shape, declared.order)


def _rest(
    declared: _Declared,
) -> tuple[str, tuple[int, ...], str, str, dict[str, Scalar]]:
    return declared.kind, declared.shape, declared.order, declared.units, declared.attrs


class Loan(metaclass=Made, by="region.loan(name) lends one"):
    """Memory to write a variable into. See :meth:`Region.loan`."""

    def __init__(self, region: _native.Region, name: str, declared: _Declared) -> None:
        self._region = region
        self._name = name
        self._declared = declared
        self._native: _native.Loan | None = None
        self._array: NDArray[Any] | None = None

    def __enter__(self) -> NDArray[Any]:
        if self._native is not None:
            raise MisuseError(f"this loan of '{self._name}' was used before: ask for another one")
        self._native = self._region.loan(self._name)
        declared = self._declared
        self._array = array_over(self._native.memory(), declared.dtype, declared.shape, declared.order)
        return self._array

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._native is not None
        array, self._array = self._array, None
        flags = getattr(array, "flags", None)
        if flags is not None:
            flags.writeable = False
        if kind is None:
            self._native.submit()
        else:
            self._native.discard()


def create(
    name: str,
    *,
    keep: int = 1,
    bound: int | None = None,
    rule: Literal["wait_then_skip", "wait", "skip", "fail"] = "wait_then_skip",
    timeout: float | None = None,
    threads: int | None = None,
    tracker: Literal["wp_async", "soft_dirty", "private_cow", "full_copy"] | None = None,
    dir: str | os.PathLike[str] | None = None,
    mode: int = 0o700,
    large_pages: bool = True,
    demote: bool = True,
    copy_unit: Literal["learned", "small", "large"] | None = None,
    memory_unit: Literal["small", "large"] | None = None,
    rank: int | None = None,
    ranks: int | None = None,
    drift: int | None = None,
    rollback: int | None = None,
    fresh: bool = False,
    trust: str | None = None,
    arena: Arena | None = None,
) -> Region:
    """Creates a region, or takes over what a producer that is gone left of it.

    With ``rank`` and ``ranks`` the region is one of a group of that name, see :func:`stillframe.open_group`.

    :param keep: how many versions stay even if nobody holds them.
    :param bound: most bytes the region's published pages may take.
    :param rule: what a publish does when there is no room because observers hold old versions: "skip" this publish, "fail",
        "wait" for them, or "wait_then_skip": wait no longer than ``timeout`` in all since the newest version, and then skip,
        at once, until there is room.
    :param timeout: most seconds to wait: in each publish with "wait", for ever if None; between two versions with
        "wait_then_skip", 1 if None.
    :param threads: how many threads copy; as many as the processors the process was given at its start, at most 4, if None.
    :param tracker: how dirty pages are found; the best one that works here if None.
    :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None.
    :param mode: access mode of the region's directory; with 0o750 the group may observe.
    :param large_pages: ask for large pages for variables in memory of the region.
    :param demote: let pages of variables in memory of the region that stay unwritten exist once, shared with the versions;
        :meth:`Region.pin` excepts a variable.
    :param copy_unit: in which units tracked arrays that lie in reserved large pages are copied; what is learned to be better
        if None, or what ``$STILLFRAME_COPY_UNIT`` says.
    :param memory_unit: in which units memory for versions is taken and given back: ``"small"``, pages of 4 KiB, or ``"large"``,
        windows of 2 MiB; pages if None, or what ``$STILLFRAME_MEMORY_UNIT`` says.
    :param rank: this rank's number, below ``ranks``; the region is ``name/rank``.
    :param ranks: how many ranks the group has.
    :param drift: how many versions stay for slower ranks, from 2 to 32; 16 if None.
    :param rollback: when a region is taken over, drop its versions above this one, so that they can be published again.
    :param fresh: begin with nothing, so that versions may begin again: what a producer that is gone left is removed, or set
        aside as ``name~1`` if it did not end by itself.
    :param trust: whose directories and files are taken for good, besides those of the process's user and of root: "own",
        "user:NUMBER", "group:NUMBER" or "any"; ``$STILLFRAME_TRUST`` or "own" if None.
    :param arena: the arena in which the region lies, instead of a directory of its own; observers open it as ``ARENA/name``.
        The arena may be closed as soon as the region is there.
    """
    native = _native.Region(
        name,
        **numbers(keep=keep, bound=bound, threads=threads, drift=drift, rollback=rollback),
        **numbers(32, mode=mode, rank=rank, ranks=ranks),
        rule=rule,
        timeout=timeout,
        tracker=tracker,
        dir=dir,
        large_pages=large_pages,
        demote=demote,
        copy_unit=copy_unit,
        memory_unit=memory_unit,
        fresh=fresh,
        trust=trust,
        arena=None if arena is None else arena._native,
        recovery=None,
    )
    return Region._of(native)
