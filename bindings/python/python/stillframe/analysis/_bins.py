"""Bins of a histogram: the rule of `still stats --histogram`."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Least width of a bin, counted in the distances between the numbers of double precision where these lie farthest apart: no two
#: edges are the same number, however they were rounded.
LEAST_WIDTH = 4.0


def equal_edges(low: float, high: float, count: int) -> NDArray[np.float64]:
    """The edges of equal bins that hold all numbers between two finite ones, which may be the same. Where there is no room for
    so many bins, they reach farther on both sides."""
    low, high = with_room(float(low), float(high), count)
    shares = np.arange(count + 1) / count
    if math.isinf(high - low):
        # Halves of such numbers are exact, and so is twice the half.
        edges = 2 * (low / 2 + (high / 2 - low / 2) * shares)
    else:
        edges = low + (high - low) * shares
    edges[-1] = high
    return np.asarray(edges, np.float64)


def with_room(low: float, high: float, count: int) -> tuple[float, float]:
    """Where bins begin and end that hold all numbers between two, with room for each of them."""
    half = high / 2 - low / 2
    least = LEAST_WIDTH / 2 * count * math.ulp(max(abs(low), abs(high)))
    if low < high and half >= least:
        return low, high
    # Twice the least, so that the wider range has room where its numbers lie farther apart.
    half = 2 * least if low < high else max(0.5, 2 * least)
    middle = low / 2 + high / 2
    low, high = middle - half, middle + half
    most = sys.float_info.max
    if math.isinf(high):
        return most - 2 * half, most
    if math.isinf(low):
        return -most, 2 * half - most
    return low, high


def count_bins(values: NDArray[np.float64], edges: NDArray[np.float64], equal: bool) -> NDArray[np.int64]:
    """How many of the numbers, which all lie between the first edge and the last one, lie in each bin."""
    low, high, last = float(edges[0]), float(edges[-1]), len(edges) - 2
    width = high - low
    # Arithmetic has no scale for bins that are almost too wide for it, or too narrow.
    scale = (last + 1) / width if equal and width > sys.float_info.min else math.inf
    places: NDArray[Any]
    if 0 < scale < math.inf:
        places = np.minimum(((values - low) * scale).astype(np.intp), last)
        # What arithmetic rounded across an edge goes where the edge says.
        places -= values < edges[places]
        places += (values >= edges[places + 1]) & (places < last)
    else:
        places = np.minimum(np.searchsorted(edges, values, "right") - 1, last)
    return np.bincount(places, minlength=last + 1).astype(np.int64, copy=False)
