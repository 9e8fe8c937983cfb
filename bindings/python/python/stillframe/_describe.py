"""From what numpy, xarray and MPI know of arrays to a text of the layout language."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._errors import DreplError
from ._types import numpy

if TYPE_CHECKING:
    import numpy as np

_NAME = re.compile(r"[^\W\d]\w*")
_WORDS = {"var", "const", "type", "struct", "dataset", "view", "replica"}
_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "S": "string"}
_BITS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "c": (64, 128)}


def _named(what: str, name: str) -> str:
    if not _NAME.fullmatch(name) or name in _WORDS:
        raise DreplError(f"{what} {name!r} cannot be a name of the layout language: use letters, digits and _ alone")
    return name


def type_of(dtype: Any) -> str:
    """The type of the language that a numpy dtype is, or a datatype of mpi4py: ``"struct { rho float64; id int32 }"``,
    ``"[3]float32"``.

    Types have no layout: byte order and offsets are those of a view.
    """
    if numpy is None:
        raise DreplError("dtypes need numpy (pip install numpy)")
    return _type(_of_mpi(dtype) if _is_mpi(dtype) else numpy.dtype(dtype))


def _is_mpi(kind: Any) -> bool:
    return hasattr(kind, "combiner") and hasattr(kind, "decode")


def _of_mpi(datatype: Any) -> np.dtype[Any]:
    """The dtype of what a datatype of MPI takes from a buffer, which lies there as the datatype says."""
    try:
        found: np.dtype[Any] = importlib.import_module("mpi4py.util.dtlib").to_numpy_dtype(datatype)
    except (ImportError, ValueError) as error:
        raise DreplError(
            f"{datatype!r}: {error}. Give a subarray by itself, or a datatype of which no element lies before the buffer, "
            "by mpi4py 4 or later"
        ) from None
    return found


def _type(dtype: np.dtype[Any]) -> str:
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return f"[{','.join(map(str, shape))}]{_type(element)}"
    if dtype.fields is not None and dtype.names:
        fields = (f"{_named('field', name)} {_type(dtype.fields[name][0])}" for name in dtype.names)
        return f"struct {{ {'; '.join(fields)} }}"
    kind = _KINDS.get(dtype.kind)
    bits = 8 * dtype.itemsize
    if dtype.kind == "b":
        return "bool"
    if dtype.kind == "S" and dtype.itemsize > 0:
        return f"string{dtype.itemsize}"
    if kind is None or bits not in _BITS.get(dtype.kind, ()):
        raise DreplError(f"the layout language has no type for {dtype!r}: convert the array to another dtype first")
    return f"{kind}{bits}"


def _orders(dtype: np.dtype[Any]) -> set[str]:
    """The byte orders of all numbers, as far as they have one."""
    if dtype.subdtype is not None:
        return _orders(dtype.subdtype[0])
    if dtype.fields is not None:
        return {order for field in dtype.fields.values() for order in _orders(field[0])}
    words = {"<": {"littleendian"}, ">": {"bigendian"}}
    return words.get(dtype.str[0], set())


def _lies_as(dtype: np.dtype[Any], aligned: bool) -> bool:
    """Whether fields lie as numpy puts them in a packed dtype, or in an aligned one."""
    if dtype.subdtype is not None:
        return _lies_as(dtype.subdtype[0], aligned)
    if dtype.fields is None or dtype.names is None:
        return True
    formats = [dtype.fields[name][0] for name in dtype.names]
    usual = numpy.dtype({"names": list(dtype.names), "formats": formats}, align=aligned)
    assert usual.fields is not None
    same = all(dtype.fields[name][1] == usual.fields[name][1] for name in dtype.names)
    return same and usual.itemsize == dtype.itemsize and all(_lies_as(inner, aligned) for inner in formats)


def _fields(dtype: np.dtype[Any], axes: int) -> str:
    """What the left side of a view says of records whose fields lie where they do, in arrays of so many axes."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return _fields(element, len(shape))
    brackets = f" [{',' * (axes - 1)}]" if axes else ""
    fields = dtype.fields
    if fields is None or dtype.names is None:
        return brackets
    entries, end = [], 0
    for name in sorted(dtype.names, key=lambda name: fields[name][1]):
        inner, offset = fields[name][:2]
        if offset < end:
            raise DreplError(f"field {name!r} begins within the one before it, which no view has: give one of them")
        entries += [f"skip {offset - end}"] if offset > end else []
        entries.append(f"{name}{_fields(inner, 0)}")
        end = offset + inner.itemsize
    entries += [f"skip {dtype.itemsize - end}"] if dtype.itemsize > end else []
    return f"{brackets}{{{'; '.join(entries)}}}"


def _view(name: str, dtype: np.dtype[Any], axes: int) -> str:
    orders = _orders(dtype)
    if len(orders) > 1:
        raise DreplError(f"{name!r} has numbers of both byte orders, which no view has: give its fields one by one")
    packed = _lies_as(dtype, False)
    aligned = not packed and _lies_as(dtype, True)
    left = "" if packed or aligned else _fields(dtype, axes)
    words = ["view", name, *sorted(orders), *(["aligned"] if aligned else []), f"{{ var {name}{left} = {name} }}"]
    return " ".join(words)


def _subarray(name: str, datatype: Any) -> list[str] | None:
    """The lines for a subarray of MPI; None if it is none."""
    base, combiner, about = datatype.decode()
    if combiner == "DUP":
        return _subarray(name, base)
    if combiner != "SUBARRAY":
        return None
    dtype = _of_mpi(base)
    if dtype.fields is not None or dtype.subdtype is not None:
        raise DreplError(f"{name!r} is a subarray of {dtype}: give its elements as an array, and a view of that")
    is_fortran = about["order"] == importlib.import_module("mpi4py.MPI").ORDER_FORTRAN
    letters = [f"i{axis}" for axis in range(len(about["sizes"]))]
    inside = ",".join(map(str, about["subsizes"]))
    places = zip(letters, about["starts"], about["sizes"], strict=True)
    left = ",".join(f"{letter}+{start}:{size}" for letter, start, size in places)
    words = ["view", name, *sorted(_orders(dtype)), *(["columnmajor"] if is_fortran else []), "clipped"]
    # What lies around it in the buffer is a hole.
    body = f"{{ var {name} [{left}] = {name}[{','.join(letters)}] }}"
    return [f"var {name} [{inside}]{_type(dtype)}", " ".join([*words, body])]


def describe(arrays: Any) -> str:
    """A text with an object for each array, and a view of the same name that lies as the array does.

    :param arrays: arrays by name, an ``xarray.Dataset``, or one ``xarray.DataArray`` that has a name. Whatever has a
        dtype and a shape is an array; no values are looked at. A datatype of mpi4py, 4 or later, is an array, too: of
        what it takes from a buffer, and the view lies as that does there. Parts of a vector, of an indexed type and of a
        struct are fields ``f0``, ``f1`` and so on; a subarray is an array with holes around it.
    """
    if numpy is None:
        raise DreplError("arrays need numpy (pip install numpy)")
    if not isinstance(arrays, Mapping):
        name = getattr(arrays, "name", None)
        if not isinstance(name, str):
            raise DreplError("the array has no name: give a dictionary of arrays by name")
        arrays = {name: arrays}
    lines = []
    for name, array in arrays.items():
        name = _named("array", str(name))
        if _is_mpi(array):
            lines += _subarray(name, array) or _of_dtype(name, _of_mpi(array))
            continue
        dtype, shape = numpy.dtype(array.dtype), tuple(array.shape)
        if 0 in shape:
            raise DreplError(f"{name!r} has no elements: leave it out")
        lines += _of_dtype(name, dtype, shape)
    return "\n".join(lines)


def _of_dtype(name: str, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> list[str]:
    if not shape and dtype.subdtype is not None:
        dtype, shape = dtype.subdtype
    brackets = f"[{','.join(map(str, shape))}]" if shape else ""
    return [f"var {name} {brackets}{_type(dtype)}", _view(name, dtype, len(shape))]
