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
