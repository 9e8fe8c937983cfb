"""Native memory as numpy arrays, or as memoryviews where there is no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

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


class Lent:
    """An array of the application as a publish needs it."""

    __slots__ = ("array", "order", "shape")

    def __init__(self, name: str, value: Any, dtype: Native, order: str) -> None:
        array = as_array(name, value)
        found = dtype_of(name, array)
        if found != dtype and not (numpy is not None and numpy_dtype(found) == numpy_dtype(dtype)):
            raise MisuseError(f"variable '{name}' was declared as {dtype}, and the array given holds {found}")
        self.array = array
        self.order = order_of(name, array, order)
        self.shape: tuple[int, ...] = tuple(array.shape)


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


def order_of(name: str, array: Any, preferred: str) -> str:
    """In which order the array lies in memory; the preferred one where it lies in both."""
    layout = array if isinstance(array, memoryview) else array.flags
    orders = [order for order, fits in (("C", layout.c_contiguous), ("F", layout.f_contiguous)) if fits]
    if not orders:
        raise MisuseError(
            f"variable '{name}': the array (shape {tuple(array.shape)}, strides {tuple(array.strides)}) has gaps or "
            "is a view in another order; keep it contiguous, or publish numpy.ascontiguousarray(...) of it"
        )
    return preferred if preferred in orders else orders[0]
