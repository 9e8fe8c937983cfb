"""Native memory as numpy arrays, or as memoryviews where there is no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from . import _native
from ._errors import MisuseError
from ._types import Native, item_bytes, native_dtype, numpy, numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._native import Memory


def array_over(memory: Memory, dtype: Native, shape: tuple[int, ...], order: str) -> NDArray[Any]:
    """An array over the memory. It keeps the memory, and so all that the memory keeps, alive."""
    if numpy is None:
        return cast("NDArray[Any]", memoryview(memory))
    return cast("NDArray[Any]", numpy.ndarray(shape, numpy_dtype(dtype), memory, order=order))


def flat_over(memory: Memory, dtype: Native, offset: int, count: int) -> NDArray[Any]:
    """Elements that follow each other in the memory, from a byte offset on."""
    if numpy is None:
        return cast(
            "NDArray[Any]",
            memoryview(memory)[offset : offset + count * item_bytes(dtype)],
        )
    return cast("NDArray[Any]", numpy.ndarray((count,), numpy_dtype(dtype), memory, offset))


#: The dtypes that elements in memory are rounded to, if a variable has them.
_ROUNDED = {
    "float64": ("float32", "float16", "bfloat16"),
    "float32": ("float16", "bfloat16"),
    "complex128": ("complex64",),
}


class Lent:
    """An array of the application as a publish needs it. One with gaps, or of numbers that are rounded, has strides, and the
    dtype that it has in memory."""

    __slots__ = ("array", "order", "section", "shape", "view")

    def __init__(self, name: str, value: Any, dtype: Native, order: str) -> None:
        array = as_array(name, value)
        found = dtype_of(name, array)
        is_same = found == dtype or (numpy is not None and numpy_dtype(found) == numpy_dtype(dtype))
        # Bits are published as the numbers that they are, whatever numpy shows of these.
        is_same = is_same or (found, dtype) == ("uint16", "bfloat16")
        if not is_same and not (isinstance(found, str) and dtype in _ROUNDED.get(found, ())):
            raise MisuseError(f"variable '{name}' was declared as {dtype}, and the array given holds {found}")
        self.order = order_of(array, order)
        self.shape: tuple[int, ...] = tuple(array.shape)
        #: The dtype in memory of an array with gaps, or whose numbers are rounded.
        self.section: Native | None = None
        if not is_same or not is_contiguous(array):
            self.section = dtype if is_same else found
        self.array = array
        # Arrays of types that numpy does not have itself cannot be borrowed.
        self.view = array.view("uint16") if found == "bfloat16" and numpy is not None else None

    def native(self, name: str) -> _native.ArrayInput:
        """What the native module is given."""
        strides = tuple(self.array.strides)
        return _native.ArrayInput(name, self.array, self.view, self.shape, strides, self.order, self.section)


def as_array(name: str, value: Any) -> Any:
    """The application's array as something with shape and contiguity, without a copy."""
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        raise MisuseError(
            f"variable '{name}': {type(value).__name__} is no array; give a numpy array or anything with a buffer"
        ) from None
    return view if numpy is None else numpy.asarray(view)


def dtype_of(name: str, array: Any) -> Native:
    """The dtype of what `as_array` returned."""
    if numpy is not None:
        return native_dtype(array.dtype)
    plain = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "l": "int64"}
    plain |= {"B": "uint8", "H": "uint16", "I": "uint32", "Q": "uint64", "L": "uint64"}
    plain |= {
        "e": "float16",
        "f": "float32",
        "d": "float64",
        "?": "bool",
        "Zf": "complex64",
        "Zd": "complex128",
    }
    try:
        return plain[array.format]
    except KeyError:
        raise MisuseError(f"variable '{name}': elements of format '{array.format}' need numpy") from None


def is_contiguous(array: Any) -> bool:
    """Whether the elements lie one behind the other, in either order."""
    layout = array if isinstance(array, memoryview) else array.flags
    return bool(layout.c_contiguous or layout.f_contiguous)


def order_of(array: Any, preferred: str) -> str:
    """In which order the array lies in memory; the preferred one where it lies in both. Of one with gaps it is the one in
    which its elements follow each other more closely."""
    layout = array if isinstance(array, memoryview) else array.flags
    orders = [order for order, fits in (("C", layout.c_contiguous), ("F", layout.f_contiguous)) if fits]
    if orders:
        return preferred if preferred in orders else orders[0]
    strides = [abs(stride) for stride in array.strides]
    if len(strides) > 1 and strides[0] != strides[-1]:
        return "F" if strides == sorted(strides) else "C"
    return preferred
