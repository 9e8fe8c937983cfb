"""Types of elements, to numpy and back; everything here works without numpy for plain types."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ._errors import MisuseError
from ._numbers import whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

numpy: Any
try:
    import numpy
except ImportError:  # numpy is optional: without it variables are memoryviews.
    numpy = None

bfloat16: Any
try:
    bfloat16 = import_module("ml_dtypes").bfloat16
except ImportError:  # It is optional, too.
    bfloat16 = None

#: About so much is read at once where dask may choose.
CHUNK_BYTES = 32 << 20

#: What an attribute may be.
Scalar = bool | int | float | str

#: A dtype as the native module knows it: a name, or the fields of a record and its size.
Native = str | tuple[list[tuple[str, "Native", int]], int]

_KINDS = {
    "i": "int",
    "u": "uint",
    "f": "float",
    "c": "complex",
    "S": "bytes",
    "V": "bytes",
}
_NAME = re.compile(r"(int|uint|float|complex|bytes|bfloat)([1-9][0-9]*)|bool")
_SHORT = re.compile(r"[=|<@]?([iufcSV])([1-9][0-9]*)")
_PYTHON: dict[Any, str] = {
    float: "float64",
    int: "int64",
    complex: "complex128",
    bool: "bool",
}


def native_dtype(dtype: DTypeLike) -> Native:
    """The dtype as the native module knows it."""
    if isinstance(dtype, str):
        if _NAME.fullmatch(dtype):
            return dtype
        if dtype in ("?", "|b1", "b1"):
            return "bool"
        short = _SHORT.fullmatch(dtype)
        if short and not (short[1] in "SV" and dtype[0] in "=<@"):
            return _plain(short[1], int(short[2]), dtype)
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    if numpy is None:
        raise MisuseError(f"dtype {dtype!r} is not understood without numpy: use a name such as 'float64' or 'f8'")
    try:
        known = numpy.dtype(dtype)
    except TypeError as error:
        raise MisuseError(f"dtype {dtype!r}: {error}") from None
    return _from_numpy(known)


def _from_numpy(dtype: np.dtype[Any]) -> Native:
    if dtype.subdtype is not None:
        raise MisuseError(f"dtype {dtype}: arrays inside of elements are not supported; give each part a field")
    if dtype.fields is not None:
        fields = [(name, _from_numpy(dtype.fields[name][0]), dtype.fields[name][1]) for name in dtype.names or ()]
        return fields, dtype.itemsize
    if not dtype.isnative:
        raise MisuseError(f"dtype {dtype}: a region has the byte order of its machine; use dtype.newbyteorder('=')")
    if dtype.kind == "b":
        return "bool"
    if dtype.name == "bfloat16":
        return "bfloat16"
    if dtype.isbuiltin == 2:
        # numpy says "V" of most of them, which would make them bytes without meaning.
        raise MisuseError(
            f"dtype {dtype.name} of another package is not supported: publish its bits as array.view('u{dtype.itemsize}'), "
            "or its numbers as array.astype('f4')"
        )
    return _plain(dtype.kind, dtype.itemsize, str(dtype))


def _plain(kind: str, size: int, said: str) -> str:
    good = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
    if kind in "SV" and size > 0:
        return f"bytes{size}"
    if size in good.get(kind, ()):
        return f"{_KINDS[kind]}{size * 8}"
    why = {
        "U": "use bytes ('S8') for text",
        "S": "give bytes a length ('S8')",
        "V": "give bytes a length ('V8')",
        "O": "Python objects cannot be shared",
        "M": "use view('i8')",
        "m": "use view('i8')",
    }
    raise MisuseError(f"dtype {said} is not supported: {why.get(kind, 'see the list of dtypes in the documentation')}")


def numpy_dtype(native: Native) -> np.dtype[Any]:
    """The dtype as numpy shows elements where they lie. It has no bfloat16: that of ml_dtypes where there is one, else the bits."""
    if native == "bfloat16":
        return cast("np.dtype[Any]", numpy.dtype("uint16" if bfloat16 is None else bfloat16))
    if isinstance(native, str):
        return cast(
            "np.dtype[Any]",
            numpy.dtype(f"S{native[5:]}" if native.startswith("bytes") else native),
        )
    fields, size = native
    spec = {
        "names": [name for name, _, _ in fields],
        "formats": [numpy_dtype(dtype) for _, dtype, _ in fields],
        "offsets": [offset for _, _, offset in fields],
        "itemsize": size,
    }
    return cast("np.dtype[Any]", numpy.dtype(spec))


def has_bfloat16(native: Native | None) -> bool:
    """Whether elements are numbers of bfloat16, or records that have some."""
    if native is None or isinstance(native, str):
        return native == "bfloat16"
    return any(has_bfloat16(dtype) for _, dtype, _ in native[0])


def number_dtype(native: Native) -> np.dtype[Any]:
    """The dtype of elements that are computed with: that of :func:`numpy_dtype`, but float32 for bfloat16."""
    if not has_bfloat16(native):
        return numpy_dtype(native)
    if isinstance(native, str):
        return cast("np.dtype[Any]", numpy.dtype("float32"))
    return cast("np.dtype[Any]", numpy.dtype([(name, number_dtype(dtype)) for name, dtype, _ in native[0]]))


def numbers_of(array: Any, native: Native | None) -> NDArray[Any]:
    """The elements with the dtype of :func:`number_dtype`: the array itself, or a copy if there is bfloat16 in it."""
    if native is None or not has_bfloat16(native):
        return cast("NDArray[Any]", array)
    array = numpy.asarray(array)
    if isinstance(native, str):
        # A bfloat16 is the upper half of the float32 that is the same number.
        bits = array.view("uint16").astype("uint32") << 16
        return cast("NDArray[Any]", numpy.asarray(bits).view("float32"))
    numbers = numpy.empty(array.shape, number_dtype(native))
    for name, dtype, _ in native[0]:
        numbers[name] = numbers_of(array[name], dtype)
    return cast("NDArray[Any]", numbers)


def item_bytes(native: Native) -> int:
    """Bytes of one element."""
    if not isinstance(native, str):
        return native[1]
    if native == "bool":
        return 1
    match = _NAME.fullmatch(native)
    assert match is not None
    return int(match[2]) // (1 if match[1] == "bytes" else 8)


def scalars(attrs: Mapping[str, Any] | None) -> dict[str, Scalar]:
    """Attributes with numpy's scalars turned into plain ones, and dates into text of ISO 8601."""
    return {name: _scalar(name, value) for name, value in (attrs or {}).items()}


def _scalar(name: str, value: Any) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)) and value.ndim == 0:
        # As a number it would depend on the unit what it means.
        value = str(value) if value.dtype.kind == "M" else value if value.dtype.kind == "m" else value.item()
    if not isinstance(value, (bool, int, float, str)):
        raise MisuseError(
            f"attribute {name}: {value!r} is neither bool, int, float nor str; give a number, its unit in another attribute, "
            "or text"
        )
    return value


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape from a tuple, a list or a single number."""
    extents = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    return tuple(whole(f"extent of shape {shape!r}", extent, 0, (1 << 64) - 1) for extent in extents)


class RecoveredVariable(NamedTuple):
    """A variable of what :func:`stillframe.recover` found."""

    name: str
    #: The dtype's name, or for a record its fields and size.
    native: Native
    #: That of the global array if ranks had parts of one.
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype as numpy knows it."""
        if numpy is None:
            raise MisuseError("this needs numpy; without it, see `native`")
        return numpy_dtype(self.native)


class Part(NamedTuple):
    """The box of a global array that a variable holds: the variable, with its own shape, begins at ``offset`` in an array
    of ``global_shape`` that the ranks of a program have together."""

    offset: tuple[int, ...]
    global_shape: tuple[int, ...]

    @staticmethod
    def of(attrs: Mapping[str, Scalar]) -> Part | None:
        """The part that a variable's attributes tell, if they tell one."""
        texts = attrs.get("offset"), attrs.get("global_shape")
        if not all(isinstance(text, str) and _NUMBERS.fullmatch(text) for text in texts):
            return None
        offset, extents = (tuple(map(int, str(text).split(","))) for text in texts)
        return Part(offset, extents) if len(offset) == len(extents) else None

    @staticmethod
    def given(part: tuple[Any, Any]) -> Part:
        """The part that a program gives."""
        try:
            offset, extents = part
        except (TypeError, ValueError):
            raise MisuseError(f"part {part!r} is not a pair of offset and global shape") from None
        return Part(shape_of(offset), shape_of(extents))

    @staticmethod
    def attrs(part: tuple[Any, Any] | None) -> dict[str, Scalar]:
        """The attributes that tell a part."""
        if part is None:
            return {}
        texts = (",".join(map(str, numbers)) for numbers in Part.given(part))
        return dict(zip(("offset", "global_shape"), texts, strict=True))


_NUMBERS = re.compile(r"[0-9]+(,[0-9]+)*")


def check_order(order: str) -> str:
    """Accepts "C" and "F"."""
    if order not in ("C", "F"):
        raise MisuseError(f"order is 'C' or 'F', not {order!r}")
    return order
