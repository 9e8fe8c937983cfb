"""Describe a layout of data once, and get any other layout of it.

A text in the layout language says which objects there are, and which views of them lie where in some buffer
(:func:`parse`). Between any two fragments that share elements, :func:`convert` moves the bytes; :func:`plan` says which
of several sources gives which part, and what nobody has. The language is specified in ``docs/drepl-language.md``.

A buffer is a numpy array, or anything else with the buffer protocol, in one block: its bytes are taken as they lie.
Buffers may be longer than their fragments. An array that has the shape of a fragment's only variable is taken for that
variable, as numpy does: with any strides, and of its dtype.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._describe import describe, type_of
from ._errors import Diagnostic, DreplError
from ._made import Made
from ._numbers import numbers_of, whole
from ._types import numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ._native import LaidOut

__all__ = [
    "Arrays",
    "Diagnostic",
    "DreplError",
    "Fragment",
    "Index",
    "Missing",
    "Object",
    "Piece",
    "Plan",
    "Replica",
    "Schema",
    "Participant",
    "Share",
    "Source",
    "Update",
    "Updates",
    "Variable",
    "View",
    "convert",
    "describe",
    "load",
    "parse",
    "plan",
    "type_of",
]

#: Bytes of a cache line: arrays that begin with one are moved faster.
_LINE_BYTES = 64


class Object(NamedTuple):
    """A variable of the dataset, which has no layout."""

    name: str
    #: As the language writes it: ``"[1000,1000]Cell"``.
    type: str
    #: Its outermost extents; ``()`` for a scalar or record.
    shape: tuple[int, ...]


class View(NamedTuple):
    """A part of the objects, laid out."""

    #: None for views that are braces alone.
    name: str | None
    fragment: Fragment
    #: The view that others are read from which are stored nowhere.
    default: bool
    #: Its owner does not write to it: it receives what others write.
    readonly: bool
    #: Elements beyond the rim of an object are holes.
    clipped: bool


class Replica(NamedTuple):
    """Views back to back in one buffer or file."""

    name: str
    #: The file's name, if the text gives one.
    file: str | None
    #: All of it. Its variables are called ``view.variable``, and those of the rest ``rest.object.field``.
    fragment: Fragment
    #: It holds what its views leave out, too.
    complete: bool
    readonly: bool
    #: Where its views begin, in bytes.
    offsets: dict[str, int]


@dataclass(frozen=True, slots=True)
class Variable:
    """An array, record or number at a constant place of a fragment."""

    name: str
    #: Where it begins, in bytes.
    offset: int
    #: Extents of its axes, those of nested arrays included; ``()`` for a scalar or record.
    shape: tuple[int, ...]
    #: Bytes from one element to the next along each axis.
    strides: tuple[int, ...]
    _element: LaidOut

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element: structured for a record, with the layout's offsets, size and byte order."""
        return _dtype(self._element, self.name)


class Arrays(dict[str, "NDArray[Any]"]):
    """Arrays by name over one buffer. Where a buffer is wanted, this can be given."""

    def __init__(self, buffer: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(arrays)
        #: What they all lie in.
        self.buffer = buffer


class Fragment(
    metaclass=Made, by="drepl.parse(text)['view'] is that of a view, and schema.fragment(text) describes another"
):
    """What lies where in one buffer: which elements of which objects, and at which bytes."""

    def __init__(self, native: _native.DreplFragment) -> None:
        self._native = native

    @property
    def size_bytes(self) -> int:
        """Length of the buffer in bytes."""
        return self._native.size_bytes

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """What the buffer holds, in the order of the bytes."""
        found = {}
        for name, laid_out, offset in self._native.variables():
            shape, strides, element = _axes(laid_out)
            found[name] = Variable(name, offset, shape, strides, element)
        return found

    def to_bytes(self) -> bytes:
        """The fragment to store or send."""
        return self._native.encode()

    @staticmethod
    def from_bytes(data: bytes) -> Fragment:
        """The fragment that :meth:`to_bytes` was called on."""
        return Fragment._of(_native.DreplFragment.decode(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return Fragment.from_bytes, (self.to_bytes(),)

    @cached_property
    def _array(self) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]] | None:
        """Shape, strides and dtype of the only variable, if it has a dtype and is all that the buffer holds."""
        variables = list(self.variables.values())
        if numpy is None or len(variables) != 1 or variables[0].offset != 0:
            return None
        try:
            return variables[0].shape, variables[0].strides, variables[0].dtype
        except DreplError:
            return None

    def _taken(self, who: str, buffer: Any) -> tuple[_native.DreplFragment, Any] | None:
        """What lies where in the memory of an array with strides of its own, and that memory.

        None for whatever lies as the fragment says, or is taken as the bytes that it is."""
        expected = self._array
        if expected is None or not isinstance(buffer, numpy.ndarray) or _is_as(buffer, expected):
            return None
        shape, strides, dtype = expected
        if buffer.shape != shape:
            return None
        # numpy does not know what numbers other packages have beside its own.
        is_foreign = buffer.dtype.kind == "V" and buffer.dtype.names is None and buffer.dtype.itemsize == dtype.itemsize
        if not _are_alike(buffer.dtype, dtype) and not is_foreign:
            raise DreplError(
                f"{who} is an array of {buffer.dtype}, and '{next(iter(self.variables))}' is of {dtype}: convert it "
                "with astype, or give its bytes as they lie, array.view('u1')"
            )
        if all(extent == 1 or one == other for extent, one, other in zip(shape, buffer.strides, strides, strict=True)):
            return None
        return self._native.with_strides(list(buffer.strides)), _memory(buffer)

    @property
    def dtype(self) -> np.dtype[Any]:
        """A structured dtype of the whole buffer, with a field for each variable. See :meth:`arrays` for layouts that
        no dtype describes: column-major arrays."""
        _need_numpy()
        rows = self._native.variables()
        formats = [_dtype(laid_out, name) for name, laid_out, _ in rows]
        offsets = [offset for *_, offset in rows]
        return _record([name for name, *_ in rows], formats, offsets, self.size_bytes)

    def arrays(self, buffer: Any) -> Arrays:
        """The variables as arrays over a buffer, without a copy; read-only where the buffer is."""
        memory = self._block(buffer)
        return Arrays(
            buffer,
            {v.name: numpy.ndarray(v.shape, v.dtype, memory, v.offset, v.strides) for v in self.variables.values()},
        )

    def fields(self, buffer: Any) -> Arrays:
        """As :meth:`arrays`, with the fields of records as arrays of their own: ``"m.rho"``. Their axes are those of
        all arrays around them."""
        memory = self._block(buffer)
        found: dict[str, NDArray[Any]] = {}
        for name, laid_out, offset in self._native.variables():
            for path, shape, strides, dtype, place in _leaves(name, laid_out, offset):
                found[path] = numpy.ndarray(shape, dtype, memory, place, strides)
        return Arrays(buffer, found)

    def allocate(self, *, fields: bool = False) -> Arrays:
        """The variables as arrays over a new buffer of zeros, which begins where a cache line does. Holes have what the
        text says by ``fill``.

        :param fields: whether fields of records are arrays of their own, as :meth:`fields` has them. Column-major
            arrays within records have no dtype, and need that.
        """
        _need_numpy()
        room = numpy.zeros(self.size_bytes + _LINE_BYTES, "u1")
        begin = -room.__array_interface__["data"][0] % _LINE_BYTES
        buffer = room[begin : begin + self.size_bytes]
        if self._native.fills:
            self._native.clear(buffer)
        return self.fields(buffer) if fields else self.arrays(buffer)

    def clear(self, buffer: Any) -> None:
        """Makes a buffer begin as that of :meth:`allocate` does: with zeros, and in holes with what the text says by
        ``fill``. Moves write elements alone, so that holes keep it. An array may lie as those that are moved to may."""
        if self._taken("the buffer", buffer) is None:
            self._long_enough(buffer)
            self._native.clear(buffer)
        else:
            # It has strides of its own, and is the only variable.
            (begun,) = self.allocate().values()
            buffer[...] = begun

    def _block(self, buffer: Any) -> Any:
        _need_numpy()
        return self._long_enough(buffer)

    def _long_enough(self, buffer: Any) -> Any:
        found = block("the buffer", buffer)
        nbytes = found.nbytes
        if nbytes < self.size_bytes:
            raise DreplError(f"the buffer has {nbytes} bytes, and the fragment {self.size_bytes}")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fragment) and self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<drepl.Fragment of {self.size_bytes} bytes: {', '.join(self.variables)}>"


class Schema(metaclass=Made, by="drepl.parse(text) or drepl.load(path) reads one"):
    """What a text describes. ``schema["soa"]`` is the fragment of a view."""

    def __init__(self, native: _native.DreplSchema) -> None:
        self._native = native

    @cached_property
    def objects(self) -> dict[str, Object]:
        """The objects, as they were declared."""
        return {name: Object(name, kind, tuple(shape)) for name, kind, shape in self._native.objects()}

    @cached_property
    def _views(self) -> list[View]:
        return [View(name, Fragment._of(native), *flags) for name, native, *flags in self._native.views()]

    @property
    def views(self) -> dict[str, View]:
        """The views that have a name."""
        return {view.name: view for view in self._views if view.name is not None}

    @property
    def unnamed(self) -> list[View]:
        """The views that are braces alone."""
        return [view for view in self._views if view.name is None]

    @cached_property
    def replicas(self) -> dict[str, Replica]:
        """The replicas."""
        found = {}
        for name, file, native, complete, readonly, views in self._native.replicas():
            offsets = {view: offset for view, offset in views if view is not None}
            found[name] = Replica(name, file, Fragment._of(native), complete, readonly, offsets)
        return found

    def to_bytes(self) -> bytes:
        """The schema to store or send, with the numbers that its names have."""
        return self._native.encode()

    @staticmethod
    def from_bytes(data: bytes) -> Schema:
        """The schema that :meth:`to_bytes` was called on."""
        return Schema._of(_native.DreplSchema.decode(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_bytes, (self.to_bytes(),)

    def __getitem__(self, name: str) -> Fragment:
        view = self.views.get(name)
        if view is None:
            known = ", ".join(self.views) or "none that has a name"
            hint = f"; schema.replicas[{name!r}].fragment is the replica" if name in self.replicas else ""
            raise DreplError(f"there is no view {name!r}; the views are: {known}{hint}")
        return view.fragment

    def __contains__(self, name: object) -> bool:
        return name in self.views

    def fragment(self, text: str, /, **bindings: int) -> Fragment:
        """One more fragment, from a text of its own, ``"{ var g[x:16,y:32] = grid[x+xmin,y] }"``, which may use all
        that the schema declares. A ``view`` with attributes may stand before the brace."""
        return Fragment._of(self._native.fragment(text, _bindings(bindings)))

    def __repr__(self) -> str:
        return f"<drepl.Schema of {', '.join(self.objects)}; views {', '.join(self.views) or 'none'}>"


@dataclass(frozen=True, slots=True)
class Source:
    """A fragment that exists."""

    fragment: Fragment
    #: Of its elements. Newer ones are preferred.
    version: int = 0
    #: What reading from it costs, in any unit: of sources of one version, the cheapest is taken.
    cost: int = 0
    #: Whether it can be read at all.
    readable: bool = True

    def _row(self) -> tuple[_native.DreplFragment, int, int, bool]:
        version, cost = _count("version", self.version), _count("cost", self.cost)
        return _native_of(self.fragment), version, cost, bool(self.readable)


class Piece(NamedTuple):
    """Elements that one source gives."""

    #: Its position in the list of sources.
    source: int
    #: Its version.
    version: int
    #: Whose elements they are: object and fields, as ``"mesh.rho"``.
    name: str
    #: Which, in the axes of the object: ``grid[piece.slices]`` are they, where ``grid`` is all of it.
    slices: tuple[slice, ...]


class Missing(NamedTuple):
    """Elements that no source has, or none that can be read in the wanted versions."""

    #: Whose elements they are: object and fields, as ``"mesh.rho"``.
    name: str
    #: Which, in the axes of the object; no two of these boxes share an element.
    slices: list[tuple[slice, ...]]
    text: str

    def __str__(self) -> str:
        return self.text


class Share(metaclass=Made, by="plan.split() makes one for each source"):
    """What one source has to do for a plan: :meth:`pack` where the source is, :meth:`unpack` where the wanted fragment
    is. What lies between them is compact, and as long as ``moved_bytes``."""

    def __init__(self, native: _native.DreplShare) -> None:
        self._native = native

    @staticmethod
    def from_bytes(data: bytes) -> Share:
        """The share that :meth:`to_bytes` was called on."""
        return Share._of(_native.DreplShare.decode(data))

    def to_bytes(self) -> bytes:
        """The share to store or send."""
        return self._native.encode()

    @property
    def source(self) -> int:
        """Position of the source in the list that was planned with."""
        return self._native.source

    @property
    def version(self) -> int:
        """The version that the plan was made for."""
        return self._native.version

    @property
    def moved_bytes(self) -> int:
        """Bytes that are moved."""
        return self._native.moved_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return Share.from_bytes, (self.to_bytes(),)

    def pack(self, buffer: Any, threads: int | None = None) -> bytearray:
        """Takes from the source what the wanted fragment needs of it."""
        return self._native.pack(buffer, threads)

    def unpack(self, compact: Any, buffer: Any, threads: int | None = None) -> None:
        """Puts what :meth:`pack` took into the wanted fragment's buffer."""
        self._native.unpack(compact, buffer, threads)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<drepl.Share of source {self.source}, version {self.version}: {self.moved_bytes} bytes>"


@dataclass(frozen=True, slots=True)
class _MadeOf:
    """What a plan was made of: it is made once more for arrays that lie otherwise than their fragments say."""

    fragment: Fragment
    sources: Mapping[int, Source]
    versions: tuple[int, int]

    def is_as_planned(self, buffers: Any, buffer: Any) -> bool:
        """Whether each buffer that is an array of a variable lies as its fragment says: nearly all do."""
        for at, one in buffers.items() if isinstance(buffers, Mapping) else enumerate(buffers):
            source = self.sources.get(at)
            if source is not None and (array := source.fragment._array) is not None and not _is_as(one, array):
                return False
        return (array := self.fragment._array) is None or _is_as(buffer, array)

    def taken(
        self, native: _native.DreplPlan, buffers: Sequence[Any] | Mapping[int, Any], buffer: Any
    ) -> tuple[_native.DreplPlan, Sequence[Any] | Mapping[int, Any], Any]:
        """The plan and its buffers, with each array as a block of memory."""
        if self.is_as_planned(buffers, buffer):
            return native, buffers, buffer
        wanted = self.fragment._taken("the destination", buffer)
        given = dict(buffers if isinstance(buffers, Mapping) else enumerate(buffers))
        found = {
            position: taken
            for position, one in given.items()
            if position in self.sources
            and (taken := self.sources[position].fragment._taken(f"source {position}", one)) is not None
        }
        if wanted is None and not found:
            return native, buffers, buffer
        fragment, buffer = wanted or (self.fragment._native, buffer)
        rows = []
        # Positions name sources, also those of an index that has gaps.
        for position in range(max(self.sources, default=-1) + 1):
            source = self.sources.get(position, Source(self.fragment, readable=False))
            own, version, cost, readable = source._row()
            rows.append((found[position][0] if position in found else own, version, cost, readable))
        blocks = given | {position: block for position, (_, block) in found.items()}
        return fragment.plan(rows, self.versions), blocks, buffer


class Plan(metaclass=Made, by="drepl.plan(fragment, [drepl.Source(fragment), ...]) plans"):
    """Which source gives which part of a wanted fragment, and what nobody has. It names no memory, so that it can be
    stored and sent. Printed, it says a line for each piece."""

    def __init__(self, native: _native.DreplPlan, made_of: _MadeOf | None = None) -> None:
        self._native = native
        #: What it was planned from, where that is known here.
        self._made_of = made_of

    @staticmethod
    def from_bytes(data: bytes) -> Plan:
        """The plan that :meth:`to_bytes` was called on."""
        return Plan._of(_native.DreplPlan.decode(data))

    def to_bytes(self) -> bytes:
        """The plan to store or send."""
        return self._native.encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan.from_bytes, (self.to_bytes(),)

    @cached_property
    def pieces(self) -> list[Piece]:
        """What comes from where, sorted by source."""
        return [Piece(source, version, name, _slices(rows)) for source, version, name, rows in self._native.pieces()]

    @cached_property
    def missing(self) -> list[Missing]:
        """What no source has; an empty list where everything comes from somewhere."""
        return [Missing(name, [_slices(rows) for rows in boxes], text) for name, boxes, text in self._native.missing()]

    @property
    def moved_bytes(self) -> int:
        """Bytes that are moved."""
        return self._native.moved_bytes

    def execute(self, buffers: Sequence[Any] | Mapping[int, Any], buffer: Any, threads: int | None = None) -> None:
        """Moves the bytes, from the sources' buffers into the wanted fragment's. What is missing, and whatever else
        lies between the elements, stays as it is.

        :param buffers: the buffers of the sources by their positions; those that give nothing are not looked at.
        :param threads: most threads; one for each processor if None. Small moves take one.
        """
        native = self._native
        if self._made_of is not None:
            native, buffers, buffer = self._made_of.taken(native, buffers, buffer)
        native.execute(buffers, buffer, threads)

    def split(self) -> list[Share]:
        """What each source has to do, to be sent to where it is."""
        return [Share._of(native) for native in self._native.split()]

    def explain(self, names: Iterable[str] = (), title: str = "") -> str:
        """A drawing in characters: which part of the wanted fragment comes from which source, and what is missing.

        :param names: what the sources are called, by their positions.
        :param title: what the wanted fragment is called.
        """
        return self._native.picture(title, list(names), False)

    def svg(self, names: Iterable[str] = (), title: str = "") -> str:
        """The drawing that :meth:`explain` makes, as an SVG document. Notebooks show it by themselves."""
        return self._native.picture(title, list(names), True)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return str(self._native)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<drepl.Plan: {str(self).rsplit(chr(10), 1)[-1]}>"


class Index:
    """Sources that many plans are made against: each looks only at those that it takes something from."""

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        given = sources if isinstance(sources, (Source, Fragment)) else list(sources)
        self._native = _native.DreplIndex(_rows(given))
        self._sources = dict(enumerate(cast("list[Source]", given)))

    def insert(self, source: Source) -> int:
        """Adds a source, and says at which position: the number that plans call it by."""
        position = self._native.insert(_rows([source])[0])
        self._sources[position] = source
        return position

    def remove(self, position: int) -> None:
        """Takes a source away. Its position is given to another later."""
        position = _count("position", position)
        if not self._native.remove(position):
            raise DreplError(f"there is no source {position}")
        del self._sources[position]

    def update(self, position: int, version: int, cost: int = 0, readable: bool = True) -> None:
        """Gives a source another version, cost and readability."""
        position = _count("position", position)
        row = _count("version", version), _count("cost", cost), readable
        if not self._native.update(position, *row):
            raise DreplError(f"there is no source {position}")
        self._sources[position] = Source(self._sources[position].fragment, *row)

    def plan(self, fragment: Fragment, versions: tuple[int, int] | None = None) -> Plan:
        """What :func:`plan` makes with these sources."""
        wanted = _versions(versions)
        native = self._native.plan(_native_of(fragment), wanted)
        taken = {source: self._sources[source] for source, *_ in native.pieces()}
        return Plan._of(native, _MadeOf(fragment, taken, wanted))

    def __reduce__(self) -> tuple[Any, ...]:
        return _index_of, (self._sources,)

    def __len__(self) -> int:
        return len(self._native)


def _index_of(sources: dict[int, Source]) -> Index:
    """An index that has these sources at these positions."""
    index = Index()
    gaps = []
    for position in range(max(sources, default=-1) + 1):
        if position not in sources:
            gaps.append(position)
        index.insert(sources.get(position) or next(iter(sources.values())))
    for position in gaps:
        index.remove(position)
    return index


@dataclass(frozen=True, slots=True)
class Participant:
    """A fragment among those that are kept equal."""

    fragment: Fragment
    #: Whether its bytes are stored: what is not is made when it is read, and needs no update.
    materialised: bool = True
    #: Whether it only receives: nothing may be written to it.
    readonly: bool = False


class Update(NamedTuple):
    """What refreshes one participant after a write."""

    #: Its position.
    destination: int
    #: From the participant that was written to, the only source: ``plan.execute({writer: buffer}, other_buffer)``.
    plan: Plan


class Updates:
    """Fragments that are kept equal where they hold the same elements; their positions in the list name them."""

    def __init__(self, participants: Iterable[Participant]) -> None:
        self._participants = list(participants)
        rows = [(_native_of(one.fragment), bool(one.materialised), bool(one.readonly)) for one in self._participants]
        self._native = _native.DreplUpdates(rows)

    def write(self, writer: int, written: slice | None = None) -> list[Update]:
        """What a write to a participant asks for: an update for each other one that is materialised and holds some of it.

        :param written: the bytes of its buffer that were written; all if None.
        """
        writer = _count("writer", writer)
        found = self._native.write(writer, None if written is None else self._bytes(writer, written))
        return [Update(destination, Plan._of(native)) for destination, native in found]

    def _bytes(self, writer: int, written: slice) -> tuple[int, int]:
        size = self._participants[writer].fragment.size_bytes if writer < len(self._participants) else 0
        begin, end, step = written.indices(size)
        if step != 1:
            raise DreplError(f"written: {written!r} is no range of bytes: give slice(begin, end)")
        return begin, end


def parse(text: str, /, **bindings: int) -> Schema:
    """Reads a text. All its mistakes come together, in a :class:`DreplError`.

    :param bindings: the numbers of names that the text leaves open: ``parse("var line [N]float64", N=1000)``.
    """
    return Schema._of(_native.drepl_parse(text, _bindings(bindings)))


def load(path: str | os.PathLike[str], /, **bindings: int) -> Schema:
    """Reads a file, as :func:`parse` does a text. It may include files of its own folder and of folders therein."""
    return Schema._of(_native.drepl_load(path, _bindings(bindings)))


def plan(fragment: Fragment, sources: Iterable[Source], versions: tuple[int, int] | None = None) -> Plan:
    """How to make a fragment from sources that exist: each element from the newest that can be read, of those from the
    cheapest, and of those from the first.

    :param versions: the oldest and the newest version that will do; all if None.
    """
    given = sources if isinstance(sources, (Source, Fragment)) else list(sources)
    wanted = _versions(versions)
    native = _native_of(fragment).plan(_rows(given), wanted)
    return Plan._of(native, _MadeOf(fragment, dict(enumerate(cast("list[Source]", given))), wanted))


def convert(
    source: Fragment,
    source_buffer: Any,
    fragment: Fragment,
    buffer: Any,
    threads: int | None = None,
    *,
    partial: bool = False,
) -> None:
    """Moves all that ``fragment`` holds from one buffer into another.

    :param threads: most threads; one for each processor if None. Small moves take one.
    :param partial: whether elements that the source does not have are left as they are in the buffer, not refused.
    """
    own, wanted = _native_of(source), _native_of(fragment)
    if (taken := source._taken("source 0", source_buffer)) is not None:
        own, source_buffer = taken
    if (taken := fragment._taken("the destination", buffer)) is not None:
        wanted, buffer = taken
    made = wanted.plan([(own, 0, 0, True)], _versions(None))
    if not partial and (missing := made.missing()):
        lost = "; ".join(text for *_, text in missing)
        raise DreplError(f"the source does not have {lost}: give partial=True to leave them as they are")
    made.execute([source_buffer], buffer, threads)


def _native_of(fragment: Fragment) -> _native.DreplFragment:
    if not isinstance(fragment, Fragment):
        hint = "schema['view'] is that of a view, and schema.fragment(text) describes another"
        raise DreplError(f"{fragment!r} is no fragment: {hint}")
    return fragment._native


def _rows(sources: Iterable[Source]) -> list[tuple[_native.DreplFragment, int, int, bool]]:
    if isinstance(sources, (Source, Fragment)):
        raise DreplError(f"{sources!r} is no list of sources: give [drepl.Source(fragment), ...]")
    rows = []
    for position, source in enumerate(sources):
        if not isinstance(source, Source):
            raise DreplError(f"source {position}: {source!r} is none: give drepl.Source(fragment)")
        rows.append(source._row())
    return rows


def _slices(rows: list[tuple[int, int, int]]) -> tuple[slice, ...]:
    return tuple(slice(*row) for row in rows)


def _bindings(bindings: Mapping[str, Any]) -> dict[str, int]:
    return numbers_of(None, bindings)


def _count(what: str, value: Any) -> int:
    return whole(what, value, 0, (1 << 64) - 1, DreplError)


def _versions(versions: tuple[int, int] | None) -> tuple[int, int]:
    if versions is None:
        return 0, (1 << 64) - 1
    try:
        oldest, newest = versions
    except (TypeError, ValueError):
        raise DreplError(f"versions: {versions!r} is not a pair of the oldest and the newest") from None
    oldest, newest = _count("oldest version", oldest), _count("newest version", newest)
    if oldest > newest:
        raise DreplError(f"versions: the oldest that will do, {oldest}, is newer than the newest, {newest}")
    return oldest, newest


def _need_numpy() -> None:
    if numpy is None:
        raise DreplError("arrays and dtypes need numpy (pip install numpy); parse, plan and convert do not")


def _is_as(array: Any, expected: tuple[tuple[int, ...], tuple[int, ...], Any]) -> bool:
    """Whether it is an array of this shape, these strides and this dtype."""
    return (
        isinstance(array, numpy.ndarray)
        and array.shape == expected[0]
        and array.strides == expected[1]
        and _are_alike(array.dtype, expected[2])
    )


def _are_alike(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Whether two dtypes have the same at the same bytes: numpy tells those apart whose fields have other places in the list of
    names, and arrays in arrays from one of more axes."""
    if one == other:
        return True
    if one.subdtype is not None or other.subdtype is not None:
        (one, shape), (other, others) = _flat(one), _flat(other)
        return shape == others and _are_alike(one, other)
    ours, theirs = one.fields, other.fields
    if ours is None or theirs is None or one.itemsize != other.itemsize or ours.keys() != theirs.keys():
        return False
    return all(ours[name][1] == theirs[name][1] and _are_alike(ours[name][0], theirs[name][0]) for name in ours)


def _flat(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The element of arrays in arrays, and all their axes."""
    shape: tuple[int, ...] = ()
    while dtype.subdtype is not None:
        dtype, axes = dtype.subdtype
        shape += axes
    return dtype, shape


def _memory(array: NDArray[Any]) -> NDArray[Any]:
    """All bytes from the first of an array to its last."""
    turned = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)]
    reach = sum(abs(stride) * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True))
    length = array.itemsize + reach
    first = turned[(slice(0, 1),) * array.ndim].reshape(1).view("u1")
    whole: NDArray[Any] = numpy.lib.stride_tricks.as_strided(first, (length,), (1,), writeable=array.flags.writeable)
    return whole


_NAMES = re.compile(":[^:]*:")


def block(who: str, buffer: Any) -> Any:
    """A buffer as something whose bytes lie in one block, in the order of its memory, and mean something elsewhere."""
    if isinstance(buffer, Arrays):
        buffer = buffer.buffer
    if numpy is not None and isinstance(buffer, numpy.ndarray):
        if buffer.dtype.hasobject:
            raise DreplError(f"{who} holds Python objects, whose bytes mean nothing elsewhere")
        # The longest stride first: then axes in any order are one block, if there are no gaps.
        axes = sorted(range(buffer.ndim), key=lambda axis: -buffer.strides[axis])
        found = buffer.transpose(axes)
        one_block = found.flags.c_contiguous
    else:
        try:
            found = memoryview(buffer)
        except (TypeError, BufferError, ValueError) as error:
            raise DreplError(f"{who}: {error}. Give a numpy array, bytearray, memoryview or mmap") from None
        if "O" in _NAMES.sub("", found.format):
            raise DreplError(f"{who} holds Python objects, whose bytes mean nothing elsewhere")
        one_block = found.contiguous
    if not one_block:
        raise DreplError(
            f"{who} is no single block of memory: an array of shape {buffer.shape} with strides {buffer.strides}. "
            "Give the array that it is a view of, and describe in the text which part it is; or a contiguous copy"
        )
    return found


def _axes(laid_out: LaidOut) -> tuple[tuple[int, ...], tuple[int, ...], LaidOut]:
    """Extents and strides of all arrays that are nested in each other, and what their elements are."""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    while not isinstance(laid_out, str) and len(laid_out) == 3:
        shape += tuple(laid_out[1])
        strides += tuple(laid_out[2])
        laid_out = laid_out[0]
    return shape, strides, laid_out


def _dtype(laid_out: LaidOut, path: str) -> np.dtype[Any]:
    """What a part of a layout is to numpy; `path` is what errors call it."""
    _need_numpy()
    shape, strides, element = _axes(laid_out)
    if isinstance(element, str):
        base = numpy.dtype(element.replace("B", "u"))  # of bfloat16 the bits
    else:
        fields, size = cast("tuple[list[tuple[str, LaidOut, int]], int]", element)
        formats = [_dtype(field, f"{path}.{name}") for name, field, _ in fields]
        base = _record([name for name, *_ in fields], formats, [offset for *_, offset in fields], size)
    step = base.itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != step:
            raise DreplError(
                f"'{path}' is a column-major array, which no dtype describes as a part of something: "
                "use fragment.fields(buffer) or allocate(fields=True), or make the view row-major"
            )
        step *= extent
    return cast("np.dtype[Any]", numpy.dtype((base, shape)) if shape else base)


def _record(names: list[str], formats: list[np.dtype[Any]], offsets: list[int], size: int) -> np.dtype[Any]:
    try:
        spec = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
        return cast("np.dtype[Any]", numpy.dtype(spec))
    except (ValueError, OverflowError, TypeError) as error:
        raise DreplError(f"numpy has no dtype for these {size} bytes: {error}; use fragment.fields(buffer)") from None


def _leaves(
    path: str, laid_out: LaidOut, offset: int, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()
) -> Iterable[tuple[str, tuple[int, ...], tuple[int, ...], str, int]]:
    """Each array of numbers in a layout: path, extents, strides, dtype and offset."""
    inner_shape, inner_strides, element = _axes(laid_out)
    shape, strides = shape + inner_shape, strides + inner_strides
    if isinstance(element, str):
        yield path, shape, strides, element, offset
        return
    fields, _ = cast("tuple[list[tuple[str, LaidOut, int]], int]", element)
    for name, field, place in fields:
        yield from _leaves(f"{path}.{name}", field, offset + place, shape, strides)
