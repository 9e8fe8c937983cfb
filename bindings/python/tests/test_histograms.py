"""Histograms of versions and of a program's own arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import stillframe as sf
from stillframe import analysis

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("bins", [10, np.array([-3, -0.5, 0, 0.1, 4.0])])
def test_histograms_are_numpys(bins: Any) -> None:
    values = np.random.default_rng(4).normal(size=200_000)
    expected, edges = np.histogram(values, bins)
    found = analysis.Histogram("u", bins)({"u": values})
    assert np.array_equal(found["u_count"], expected) and np.allclose(found["u_edges"], edges)
    with pytest.raises(sf.MisuseError, match="ascend"):
        analysis.Histogram("u", [1.0, 1.0, 2.0])


def test_a_histogram_of_one_number_has_bins_around_it() -> None:
    found = analysis.Histogram("u", 4)({"u": np.full(10, 3.0)})
    assert found["u_edges"][0] == 2.5 and found["u_edges"][-1] == 3.5  # type: ignore[index]
    assert sum(found["u_count"]) == 10  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        [1e20] * 4,
        [-1e300] * 4,
        [0.0, 0.0, 5e-324, 5e-324],
        [1.0, math.nextafter(1.0, 2.0)],
        [-1.7e308, 0.0, 1.0, 1.7e308],
        [1.7976931348623157e308] * 2,
        [-INF, 1.0, NAN, 2.0, INF],
        [INF, NAN],
    ],
)
@pytest.mark.parametrize("bins", [1, 64, 1000])
def test_a_histogram_holds_whatever_finite_numbers_there_are(values: list[float], bins: int) -> None:
    u = np.array(values)
    finite = u[np.isfinite(u)]
    reducers = [analysis.Histogram("u", bins)]
    if len(finite) and finite.min() < finite.max():
        reducers.append(analysis.Histogram("u", bins, range=(finite.min(), finite.max())))
    for reducer in reducers:
        found = {name[2:]: np.asarray(column) for name, column in reducer({"u": u}).items()}
        edges, count = found["edges"], found["count"]
        assert np.isfinite(edges).all() and (edges[1:] > edges[:-1]).all()
        inside = [(finite >= low) & (finite < high) for low, high in zip(edges[:-1], edges[1:], strict=True)]
        inside[-1] |= finite == edges[-1]
        assert count.tolist() == [int(part.sum()) for part in inside] and count.sum() == len(finite)
        assert (found["below"], found["above"]) == ((u == -INF).sum(), (u == INF).sum())
        assert found["nans"] == np.isnan(u).sum()


def test_edges_are_those_of_the_command_line() -> None:
    # The same numbers as in the tests of `still stats`.
    for low, high, expected in (
        (3.0, 3.0, [2.5, 2.75, 3.0, 3.25, 3.5]),
        (1e20, 1e20, [1e20 - 262144, 1e20 - 131072, 1e20, 1e20 + 131072, 1e20 + 262144]),
        (0.0, 5e-324, [-8e-323, -4e-323, 0.0, 4e-323, 8e-323]),
        (-1.5e308, 1.5e308, [-1.5e308, -7.5e307, 0.0, 7.5e307, 1.5e308]),
    ):
        found = analysis.Histogram("u", 4)({"u": np.array([low, high])})
        assert found["u_edges"].tolist() == expected  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [(1.0, 1.0), (2.0, 1.0), (0.0, INF), (NAN, 1.0)])
def test_a_range_is_two_finite_numbers_that_ascend(wrong: tuple[float, float]) -> None:
    with pytest.raises(sf.MisuseError, match="ascend"):
        analysis.Histogram("u", 4, range=wrong)
