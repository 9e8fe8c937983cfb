"""Objects: one name for data that many processes hold, and the fragments that each of them attaches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._closing import Closing
from ._errors import MisuseError, NoObject
from ._made import Made
from ._numbers import numbers_of, version_of, whole
from ._object_array import Arrangement, ObjectArray, Reader
from ._publication import Published
from .drepl import Arrays, Fragment

if TYPE_CHECKING:
    import xarray as xr


class WriterInfo(NamedTuple):
    """A fragment to write that is, or was, attached to an object."""

    #: Its number, which no other fragment of the object has or had.
    number: int
    process: int
    #: The rank in a parallel program, if the process said so.
    rank: int | None
    #: Whether the process lives and has it attached.
    alive: bool
    #: The first version that it writes.
    first: int
    #: The first version that it does not write any more, if it detached.
    left: int | None
    #: Its newest version.
    newest: int | None
    #: The versions of it that can be had, ascending.
    versions: list[int]
    text: str
    #: The numbers of the names that the text leaves open.
    bindings: dict[str, int]
    #: The name of its region.
    region: str


class WriteFragment(Closing, metaclass=Made, by="obj.write(text) attaches one"):
    """A part of an object that this process writes. A ``with`` block detaches it at its end."""

    def __init__(self, native: _native.WriteFragment, loaned: bool) -> None:
        self._native = native
        self._loaned = loaned
        self._fragment = Fragment._of(native.fragment)
        self._made: Arrangement | None = None

    @property
    def fragment(self) -> Fragment:
        """What lies where in its memory, for :mod:`stillframe.drepl`."""
        return self._fragment

    @property
    def number(self) -> int:
        """Its number, which no other fragment of the object has or had."""
        return self._native.number

    @property
    def version(self) -> int:
        """Its newest version, or the one at which it was attached."""
        return self._native.version

    @property
    def detached(self) -> bool:
        """Whether it is attached no more."""
        return self._native.is_detached

    @property
    def arrays(self) -> Arrays:
        """Its variables by their names, as arrays over the memory of the fragment, to be written.

        They are the same from attach to detach. Those of a loaned fragment are lent for one publish: take them anew after each
        one, and write them whole. Arrays that outlive the publish or the fragment stay valid, and reach nobody.
        """
        return self._arrangement.arrays

    @property
    def fields(self) -> Arrays:
        """As :attr:`arrays`, with the fields of records as arrays of their own: ``"m.rho"``. For column-major views of records
        that have arrays in them, which no dtype describes, there are only these."""
        return self._arrangement.fields

    @property
    def _arrangement(self) -> Arrangement:
        if self._made is None or self._native.is_detached:
            self._made = Arrangement(self._fragment, self._native.memory())
        return self._made

    @property
    def previous(self) -> Arrays | None:
        """The variables of its newest version, read-only; None before the first publish. They hold this version for as long as
        anything refers to them."""
        memory = self._native.previous()
        return None if memory is None else Arrangement(self._fragment, memory).arrays

    def publish(self, version: int) -> Published:
        """Makes what the arrays hold the next version of these elements. No thread writes them meanwhile."""
        number = version_of(version)
        if self._loaned and number > self.version:
            # Whether or not it can be published, what was lent for it is given back.
            self._made = None
        return Published(*self._native.publish(number))

    def detach(self) -> None:
        """Ends it. What it published stays for as long as a complete version needs it, and nobody waits for more of it."""
        self._made = None
        self._native.detach()

    close = detach

    def __repr__(self) -> str:
        return f"<stillframe.WriteFragment {self.number}: {', '.join(self._fragment.variables)}; version {self.version}>"


class ReadFragment(Closing, metaclass=Made, by="obj.read(text) attaches one"):
    """A part of an object in the layout that this process wants, at one address. A ``with`` block detaches it at its end."""

    def __init__(self, native: _native.ReadFragment) -> None:
        self._native = native
        self._fragment = Fragment._of(native.fragment)

    @property
    def fragment(self) -> Fragment:
        """What lies where in its memory, for :mod:`stillframe.drepl`."""
        return self._fragment

    @property
    def version(self) -> int:
        """The version that it shows. At first that is the initial version, which is zeros."""
        return self._native.version

    @property
    def detached(self) -> bool:
        """Whether it is attached no more."""
        return self._native.is_detached

    @property
    def shown(self) -> bool:
        """Whether the arrays show pages of a writer rather than a copy. Then they hold the version."""
        return self._native.is_shown()

    @property
    def _arrangement(self) -> Arrangement:
        if self._native.is_detached:
            raise MisuseError("the fragment is detached")
        return self._made

    @cached_property
    def _made(self) -> Arrangement:
        return Arrangement(self._fragment, self._native.memory())

    @property
    def arrays(self) -> Arrays:
        """Its variables by their names, as read-only arrays, always at the same address. Where they are large, ask for them after
        the first reattach: it then chooses an address at which a writer's pages can be shown, if what is wanted begins there
        at a multiple of 16 bytes.

        **A reattach changes what these arrays show**, also those that were taken before: copy what is to stay. Arrays that
        outlive the fragment show its last version.
        """
        return self._arrangement.arrays

    @property
    def fields(self) -> Arrays:
        """As :attr:`arrays`, with the fields of records as arrays of their own: ``"m.rho"``."""
        return self._arrangement.fields

    def reattach(self, version: int, timeout: float | None = 10.0) -> None:
        """Fills the arrays with a version, and waits for the elements that they want, and no others.

        :param timeout: most seconds to wait; for ever if None. :exc:`Timeout` says whom was waited for.

        :exc:`Lost` if some of the elements cannot be had. After an error the arrays show what they showed before, or the
        initial version if the system took that away; ``version`` says which.
        """
        self._native.reattach(version_of(version), timeout)

    def reattach_newer(self, after: int | None = None, timeout: float | None = 10.0) -> int:
        """Fills the arrays with the newest complete version above ``after``, waiting for one, and says which.

        :param after: the version that it shows if None.
        :param timeout: most seconds to wait; for ever if None.

        :exc:`Ended` if all writers have left.
        """
        return self._native.reattach_newer(self.version if after is None else version_of(after), timeout)

    def detach(self) -> None:
        """Lets go. Arrays that are left stay valid, and keep what they show."""
        self.__dict__.pop("_made", None)
        self._native.detach()

    close = detach

    def __repr__(self) -> str:
        return f"<stillframe.ReadFragment: {', '.join(self._fragment.variables)}; version {self.version}>"


class _Variables(Mapping[str, ObjectArray]):
    """The variables of an object, each as an array that is read where it is indexed."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __getitem__(self, name: str) -> ObjectArray:
        return self._reader.array(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._reader.schema.objects)

    def __len__(self) -> int:
        return len(self._reader.schema.objects)

    def __contains__(self, name: object) -> bool:
        return name in self._reader.schema.objects

    # Two mappings are equal if their values are, and arrays have no single answer to that.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class ObjectVersion(_Variables, metaclass=Made, by="obj.at(version) makes one"):
    """One version of an object: a mapping from names to arrays that are read where they are indexed.

    It does **not** hold the version. Each read holds it until it has copied what it wants; between two reads the writers
    may let it go, and the next read is then :exc:`Lost`. Writers with ``keep=N`` leave more time. A ``with`` block is
    permitted, and ends nothing.
    """

    @property
    def version(self) -> int:
        """The version's number."""
        assert self._reader.version is not None
        return self._reader.version

    def to_xarray(self, dims: Dims = None) -> xr.Dataset:
        """The version as an xarray dataset; see :meth:`Object.to_xarray`."""
        from ._object_xarray import dataset_of

        return dataset_of(self._reader, dims)

    def __enter__(self) -> ObjectVersion:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"<stillframe.ObjectVersion {self.version} of {self._reader.name!r}: {', '.join(self)}>"


#: Names of dimensions: of each variable, or one sequence for all that have as many axes.
Dims = Mapping[str, Sequence[str]] | Sequence[str] | None


class Object(_Variables, metaclass=Made, by="stillframe.object(name) finds one, and stillframe.create_object creates one"):
    """One name for data that many processes hold. ``obj["u"]`` is a variable of it, read where it is indexed."""

    def __init__(self, native: _native.Object) -> None:
        super().__init__(Reader(native))
        self._native = native

    @property
    def name(self) -> str:
        """The object's name."""
        return self._native.name

    @property
    def text(self) -> str:
        """What describes it, in the layout language."""
        return self._native.text

    @property
    def bindings(self) -> dict[str, int]:
        """The numbers of the names that the text leaves open."""
        return self._native.bindings()

    @property
    def initial(self) -> int:
        """The version that exists at once, and is zeros."""
        return self._native.initial

    @property
    def variables(self) -> dict[str, ObjectArray]:
        """The variables by their names, with ``shape`` and ``dtype``. None is read before it is indexed."""
        return dict(self)

    def newest(self) -> int:
        """The newest complete version; the initial one before anything was published."""
        return self._native.newest()

    def versions(self) -> list[int]:
        """The complete versions that can be had, ascending, without the initial one."""
        return self._native.versions()

    def wait_newer(self, after: int, timeout: float | None = 10.0) -> int:
        """Waits for a complete version above ``after``, and says which is the newest.

        :param timeout: most seconds to wait; for ever if None. :exc:`Timeout` says whom was waited for.

        :exc:`Ended` if all writers have left; :exc:`Lost` if those that it needs died.
        """
        return self._native.wait_newer(version_of(after), timeout)

    def writers(self) -> list[WriterInfo]:
        """The fragments to write that are or were attached, in the order in which they were."""
        return [WriterInfo(*row) for row in self._native.writers()]

    def remove(self, force: bool = False) -> None:
        """Removes the object with all that was published of it. Who reads a version keeps it until he lets go.

        :param force: also while somebody writes it, which is :exc:`InUse` otherwise.
        """
        self._native.remove(force)

    def write(
        self,
        text: str,
        /,
        *,
        version: int | None = None,
        rank: int | None = None,
        writers: int | None = None,
        keep: int = 1,
        loaned: bool = False,
        zeros: bool = False,
        wait: float | None = 10.0,
        bound_bytes: int | None = None,
        bindings: Mapping[str, int] | None = None,
        **more: int,
    ) -> WriteFragment:
        """Attaches a fragment to write: ``obj.write("{ var g [x:16,y:32] = grid[x+xmin,y] }", xmin=48)``.

        :param text: a view of the layout language, or the name of one that the object's text declares.
        :param version: the version whose content it has at first, and above which it publishes; the newest complete one if
            None, and before anything was published the initial one, which is zeros.
        :param rank: the rank in a parallel program, for messages.
        :param writers: how many writers there are, if they do not cover the object together: a version is complete when so many
            have published it.
        :param keep: how many of the newest versions stay in any case.
        :param loaned: each publish is of memory lent for it, to be written whole, and copies nothing.
        :param zeros: it begins with zeros, whatever content the version has: for content that cannot be had any more, as that of
            a node that died.
        :param wait: most seconds to wait for another writer to detach elements that this one wants, and for ``version``; for
            ever if None.
        :param bound_bytes: most bytes that its versions may take.
        :param bindings: the numbers of names that the text leaves open, where a keyword is a parameter's name.

        :exc:`Overlap` if another process writes some of the elements, and does not detach them in time.
        """
        native = self._native.write(
            text,
            numbers_of(bindings, more),
            version=None if version is None else version_of(version),
            rank=None if rank is None else whole("rank", rank, 0, (1 << 32) - 1),
            writers=None if writers is None else whole("writers", writers, 1, (1 << 32) - 1),
            keep=whole("keep", keep, 0, (1 << 63) - 1),
            bound=None if bound_bytes is None else whole("bound_bytes", bound_bytes, 0, (1 << 64) - 1),
            loaned=loaned,
            zeros=zeros,
            wait=wait,
        )
        return WriteFragment._of(native, loaned)

    def read(
        self,
        text: str,
        /,
        *,
        threads: int | None = None,
        prefetch: bool = False,
        bindings: Mapping[str, int] | None = None,
        **more: int,
    ) -> ReadFragment:
        """Attaches a fragment to read. It shows the initial version, zeros, until a reattach.

        :param text: a view of the layout language. If it says ``clipped``, what lies beyond the rim of the object is zero.
        :param threads: most threads that copy; one for each processor if None. Small copies take one.
        :param prefetch: while the program works with a version, the runtime of its node fetches the next from other nodes: that
            which is as far above it as it is above the one before. For programs that read version after version.
        :param bindings: the numbers of names that the text leaves open, where a keyword is a parameter's name.
        """
        if threads is not None and threads < 1:
            raise MisuseError(f"threads={threads}: give 1 or more, or None for one for each processor")
        copying = 0 if threads is None else whole("threads", threads, 1, (1 << 64) - 1)
        return ReadFragment._of(self._native.read(text, numbers_of(bindings, more), copying, prefetch))

    def at(self, version: int, timeout: float | None = 0.0) -> ObjectVersion:
        """A version, whose arrays are read where they are indexed. It is not held: see :class:`ObjectVersion`.

        :param timeout: most seconds that each read takes until the elements are there, published and brought from other nodes; for ever if
            None. With 0 nobody is waited for to publish them, and a complete version has 30 seconds to be brought.
        """
        return ObjectVersion._of(self._reader.at(version_of(version), timeout))

    def __getitem__(self, key: str | tuple[str, int]) -> ObjectArray:
        """A variable: ``obj["u"]`` reads the newest complete version each time that it is indexed, ``obj["u", 7]`` version
        7."""
        if isinstance(key, tuple):
            if len(key) != 2:
                raise MisuseError(f"{key!r}: give the name of a variable, and at most a version")
            return self.at(key[1])[key[0]]
        return super().__getitem__(key)

    def to_xarray(self, version: int | None = None, dims: Dims = None) -> xr.Dataset:
        """A version as an xarray dataset whose arrays are read where they are indexed; fields of records are variables of
        their own, ``mesh.rho``.

        :param version: the newest complete one if None. It is not held: see :class:`ObjectVersion`.
        :param dims: names of the dimensions, ``{"grid": ("x", "y")}``, or a sequence for all variables with as many axes;
            otherwise they are named by their length, as ``n512``.
        """
        return self.at(self.newest() if version is None else version).to_xarray(dims)

    def __reduce__(self) -> tuple[Any, ...]:
        return find_same, (self.name, self._native.id, self._native.dir)

    def __repr__(self) -> str:
        return f"<stillframe.Object {self.name!r}: {', '.join(self)}>"


def create_object(
    name: str,
    text: str,
    /,
    initial: int = 0,
    dir: str | os.PathLike[str] | None = None,
    *,
    bindings: Mapping[str, int] | None = None,
    **more: int,
) -> Object:
    """Creates an object, or finds the one that is there and the same. When it returns everybody finds it.

    :param text: its variables in the layout language: ``"var grid [n,n] float64"``.
    :param initial: the version that exists at once, and is zeros.
    :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None.
    :param bindings: the numbers of names that the text leaves open, where a keyword is a parameter's name.

    :exc:`MisuseError` if there is an object of this name with another text, bindings or initial version; :exc:`DreplError`
    with all mistakes of the text; :exc:`OutOfSpace` if the file system is full.
    """
    return Object._of(_native.Object.create(name, text, numbers_of(bindings, more), version_of(initial), dir))


def open_object(name: str, wait: float | None = 0.0, dir: str | os.PathLike[str] | None = None) -> Object:
    """Finds an object.

    :param wait: most seconds to wait for it; for ever if None.
    :param dir: where regions lie; ``$STILLFRAME_DIR`` or ``/dev/shm/stillframe-<uid>`` if None.

    :exc:`NoObject` if there is none.
    """
    return Object._of(_native.Object.open(name, wait, dir))


def find_same(name: str, id: int, dir: str | os.PathLike[str] | None) -> Object:
    """Finds an object that another process had open, for pickle: not another one that has its name by now."""
    found = open_object(name, dir=dir)
    if found._native.id != id:
        raise NoObject(f"object '{name}' was removed, and another one has its name: open that one by its name")
    return found
