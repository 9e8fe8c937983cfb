"""A variable that is followed and one that is given once: what each version shows. The same scene is in the tests of the other
languages."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import stillframe as sf


def shown(observer: sf.Observer) -> tuple[Any, ...]:
    """The values that u has in the newest version, and how many elements."""
    with observer.newest() as snapshot:
        u = np.array(snapshot["u"])
    return (*np.unique(u), len(u))


def test_what_is_given_once_is_shown_once_and_what_is_followed_again() -> None:
    with sf.create("r") as region, sf.open("r") as observer:
        a, b = np.full(3000, 1.0), np.full(5000, 20.0)
        region.track("u", a)
        region.publish(1)
        assert shown(observer) == (1, 3000)
        a[:] = 2
        region.publish(2, {"u": b})
        assert shown(observer) == (20, 5000)
        b[:] = 21
        a[:] = 3
        region.publish(3)
        assert shown(observer) == (3, 3000)
        a[:] = 4
        with pytest.raises(sf.MisuseError, match="version 3"):
            region.publish(3, {"u": b})
        assert shown(observer) == (3, 3000)
        region.publish(4)
        assert shown(observer) == (4, 3000)
        a[:] = 5
        region.publish(5, {"u": np.empty(0)})
        assert shown(observer) == (0,)
        region.publish(6)
        assert shown(observer) == (5, 3000)
        region.untrack("u")
        a[:] = 6
        region.publish(7)
        assert shown(observer) == (5, 3000)
        b[:] = 22
        region.publish(8, {"u": b})
        assert shown(observer) == (22, 5000)
        b[:] = 23
        region.publish(9)
        assert shown(observer) == (22, 5000)


@pytest.mark.parametrize("shape", [(0,), (0, 7), (7, 0)])
def test_an_array_without_elements_takes_the_place_of_the_former_one(shape: tuple[int, ...]) -> None:
    with sf.create("r") as region, sf.open("r") as observer:
        region.track("u", np.full(3000, 1.0))
        region.publish(1)
        assert shown(observer) == (1, 3000)
        region.track("u", np.empty(shape))
        for version in 2, 3:
            region.publish(version)
            with observer.newest() as snapshot:
                assert snapshot["u"].shape == shape


def test_what_was_given_once_can_be_followed_later() -> None:
    with sf.create("r") as region, sf.open("r") as observer:
        a, b = np.full(3000, 1.0), np.full(5000, 20.0)
        region.track("u", dtype="f8")
        region.publish(1, {"u": b})
        assert shown(observer) == (20, 5000)
        b[:] = 21
        region.publish(2)
        assert shown(observer) == (20, 5000)
        region.track("u", a)
        region.publish(3)
        assert shown(observer) == (1, 3000)
        a[:] = 2
        region.publish(4)
        assert shown(observer) == (2, 3000)


def test_what_is_followed_no_more_is_the_programs_alone() -> None:
    with sf.create("r") as region:
        a = np.zeros(10)
        before = sys.getrefcount(a)
        region.track("u", a)
        region.publish(1)
        assert sys.getrefcount(a) == before + 1
        region.untrack("u")
        assert sys.getrefcount(a) == before
        region.untrack("u")
        region.array("m", 3)
        with pytest.raises(sf.MisuseError, match="'m' is managed"):
            region.untrack("m")
        with pytest.raises(sf.UnknownVariable, match="none"):
            region.untrack("none")


def test_a_followed_array_is_shown_as_it_is_at_each_publish() -> None:
    with sf.create("r") as region, sf.open("r") as observer:

        def check(version: int, is_started: bool = False) -> None:
            if is_started:
                region.publish_start(version)
                region.publish_finish()
            else:
                region.publish(version)
            with observer.newest() as snapshot:
                found = snapshot["u"]
                assert found.shape == a.shape
                assert found.flags.f_contiguous or not a.flags.f_contiguous
                np.testing.assert_array_equal(found, a)

        a = np.arange(3000.0)
        region.track("u", a)
        check(1)
        check(2)
        a.shape = (50, 60)
        check(3)
        a.shape = (60, 50)
        check(4, is_started=True)
        a.resize((70, 100), refcheck=False)
        a[:] = np.random.default_rng(1).random(a.shape)
        check(5)
        a.resize((3, 4), refcheck=False)
        check(6, is_started=True)
        a.dtype = np.dtype("i8")
        with pytest.raises(sf.MisuseError, match="float64, and the array given holds int64"):
            region.publish(7)
        a.dtype = np.dtype("f8")
        a += 1
        check(7)
        a.dtype = np.dtype("f8", metadata={"unit": "K"})
        check(8)


def test_followed_arrays_with_one_element_in_a_row_or_none_at_all_are_shown() -> None:
    with sf.create("r") as region, sf.open("r") as observer:
        base = np.arange(1000.0).reshape(10, 100)
        # numpy shows other distances for these than they have.
        column, row, one, none = base[:, 3:4], base[4:5], base[::20, ::200], base[:0, ::2]
        for name, array in {"column": column, "row": row, "one": one, "none": none, "scalar": np.array(3.0)}.items():
            region.track(name, array)
        for version in range(1, 4):
            base += version
            region.publish(version)
            with observer.newest() as snapshot:
                np.testing.assert_array_equal(snapshot["column"], column)
                np.testing.assert_array_equal(snapshot["row"], row)
                np.testing.assert_array_equal(snapshot["one"], one)
                assert snapshot["none"].shape == none.shape
                assert snapshot["scalar"] == 3.0
