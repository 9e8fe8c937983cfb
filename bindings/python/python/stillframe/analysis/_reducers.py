"""What is made of a version: statistics, histogram, power spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import MisuseError
from ._bins import count_bins, equal_edges
from ._blocks import Source, blocks, numbers, whole
from ._moments import Moments

#: Makes numbers and arrays, by name, of a version. What it returns must have the same names and shapes each time.
Reducer = Callable[[Source], Mapping[str, ArrayLike]]


class Statistics:
    """Smallest and largest number, mean, standard deviation, sum, and number of NaNs of variables.

    Columns, per variable: ``u_min``, ``u_max``, ``u_mean``, ``u_std`` (of the population), ``u_sum``, ``u_nans``. NaNs
    are counted and otherwise left out; where nothing is left, the others are NaN and the sum 0. Complex numbers count by
    magnitude.
    """

    def __init__(self, *names: str) -> None:
        if not names:
            raise MisuseError("Statistics of no variable: name one, or several")
        self.names = names

    def __call__(self, source: Source) -> dict[str, float | int]:
        row: dict[str, float | int] = {}
        for name in self.names:
            moments = Moments()
            for block in blocks(source, name):
                moments.add(numbers(block, name))
            row |= {f"{name}_{column}": value for column, value in moments.row().items()}
        return row


class Histogram:
    """How many elements of a variable lie in each bin.

    Columns: ``u_edges`` (one more than bins), ``u_count``, and how many lie ``u_below`` the first edge, ``u_above`` the
    last one, or are NaN (``u_nans``). The last bin includes its upper edge.

    :param bins: a number of equal bins, or the edges of all.
    :param range: lowest and highest edge of equal bins; smallest and largest finite number of the first version if None. Where
        bins would be too narrow for numbers of double precision, as around a single large number, they reach farther. A
        series that goes on keeps the edges it has.
    """

    def __init__(
        self, name: str, bins: int | Sequence[float] | NDArray[Any] = 64, range: tuple[float, float] | None = None
    ) -> None:
        self.name = name
        self._equal = isinstance(bins, (int, np.integer))
        self._bins = int(bins) if isinstance(bins, (int, np.integer)) else len(bins) - 1
        self.edges: NDArray[np.float64] | None = None
        given = None
        if not isinstance(bins, (int, np.integer)):
            self.edges = given = np.array(bins, np.float64)
        elif range is not None:
            given = np.array(range, np.float64)
        if self._bins < 1 or (given is not None and not (given[1:] > given[:-1]).all()):
            raise MisuseError(f"a histogram of '{name}' with bins={bins!r}, range={range!r}: edges have to ascend")
        if range is not None and self.edges is None:
            if not all(map(math.isfinite, range)):
                raise MisuseError(f"a histogram of '{name}' with range={range!r}: give two finite numbers that ascend")
            self.edges = equal_edges(*range, self._bins)

    def resume(self, row: Mapping[str, Any]) -> None:
        """Takes the edges from a row of an earlier run."""
        self.edges = np.array(row[f"{self.name}_edges"], np.float64)

    def __call__(self, source: Source) -> dict[str, NDArray[Any] | int]:
        if self.edges is None:
            self.edges = self._edges_of(source)
        low, high = self.edges[0], self.edges[-1]
        count = np.zeros(self._bins, np.int64)
        below = above = nans = 0
        for block in blocks(source, self.name):
            values = numbers(block, self.name)
            inside = (values >= low) & (values <= high)
            if not inside.all():
                below += int((values < low).sum())
                above += int((values > high).sum())
                nans += int(np.isnan(values).sum())
                values = values[inside]
            count += count_bins(values, self.edges, self._equal)
        name = self.name
        return {
            f"{name}_edges": self.edges,
            f"{name}_count": count,
            f"{name}_below": below,
            f"{name}_above": above,
            f"{name}_nans": nans,
        }

    def _edges_of(self, source: Source) -> NDArray[np.float64]:
        low, high = math.inf, -math.inf
        for block in blocks(source, self.name):
            values = numbers(block, self.name)
            finite = values[np.isfinite(values)]
            if len(finite):
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        return equal_edges(*((low, high) if low <= high else (0.0, 1.0)), self._bins)


class Spectrum:
    """The isotropic power spectrum of a variable with one to three periodic axes.

    Columns: ``u_k``, wave numbers (cycles per unit of length), and ``u_power``, the power in the shell around each. The
    shells are as thick as the smallest wave number that fits the longest axis. Powers are those of Parseval's rule: all
    together are the mean square of the variable, and without the first one, which is the square of the mean, its variance.

    :param spacing: distance between neighbours, along all axes or along each.
    """

    def __init__(self, name: str, spacing: float | Sequence[float] = 1.0) -> None:
        self.name = name
        self._spacing = spacing
        self._shells: Shells | None = None

    def __call__(self, source: Source) -> dict[str, NDArray[np.float64]]:
        array = whole(source, self.name)
        if array.dtype.kind not in "biufc" or not 1 <= array.ndim <= 3 or 0 in array.shape:
            raise MisuseError(
                f"a spectrum of '{self.name}', {array.dtype} of shape {array.shape}: it takes one to three axes of numbers"
            )
        real = array.dtype.kind != "c"
        if self._shells is None or (self._shells.shape, self._shells.real) != (array.shape, real):
            self._shells = Shells(self.name, array.shape, self._spacing, real)
        # The order of the axes matters to the time that the transform takes, and to the last bit of what it finds.
        array = np.ascontiguousarray(array)
        modes = np.fft.rfftn(array) if real else np.fft.fftn(array)
        power = self._shells.sum(modes) / float(array.size) ** 2
        return {f"{self.name}_k": self._shells.k, f"{self.name}_power": power}


class Shells:
    """Which modes of a transform belong to which wave number."""

    def __init__(self, name: str, shape: tuple[int, ...], spacing: float | Sequence[float], real: bool) -> None:
        self.shape, self.real = shape, real
        spacings = [float(step) for step in np.atleast_1d(spacing)]
        spacings = spacings * len(shape) if np.ndim(spacing) == 0 else spacings
        if len(spacings) != len(shape) or not all(step > 0 for step in spacings):
            raise MisuseError(f"spacing={spacing!r} for '{name}' of shape {shape}: a positive number, or one per axis")
        squares: NDArray[np.float64] = np.zeros(())
        for axis, (extent, step) in enumerate(zip(shape, spacings, strict=True)):
            half = real and axis == len(shape) - 1
            k = np.fft.rfftfreq(extent, step) if half else np.fft.fftfreq(extent, step)
            squares = squares[..., np.newaxis] + k * k if axis else k * k
        thickness = 1 / max(extent * step for extent, step in zip(shape, spacings, strict=True))
        self._index = np.rint(np.sqrt(squares) / thickness).astype(np.int32).ravel()
        # The transform of real numbers leaves out the modes that mirror others.
        self._mirrored = slice(1, (shape[-1] + 1) // 2) if real else slice(0)
        self.k = np.arange(self._index.max() + 1) * thickness

    def sum(self, modes: NDArray[Any]) -> NDArray[np.float64]:
        """The power of the modes of each shell."""
        power = (modes.real.astype(np.float64) ** 2) + modes.imag.astype(np.float64) ** 2
        power[..., self._mirrored] *= 2
        return np.bincount(self._index, power.ravel(), len(self.k)).astype(np.float64, copy=False)
