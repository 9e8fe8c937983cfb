"""Attributes of variables and versions, and arrays that are given with a publish."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
import stillframe as sf


def test_numpys_scalars_are_plain_ones() -> None:
    given = {"f": np.float32(0.5), "i": np.int8(3), "b": np.bool_(True), "s": np.str_("m"), "zero": np.array(2.5)}
    with sf.create("r") as region:
        region.array("u", (2,), attrs=given)
        region.publish(1, attrs=given)
        with sf.open("r").newest() as snapshot:
            expected = {"f": 0.5, "i": 3, "b": True, "s": "m", "zero": 2.5}
            assert snapshot.attrs == expected and snapshot.variables["u"].attrs == expected
            assert snapshot.attrs["b"] is True


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "m", "s", "ms", "us", "ns"])
def test_dates_of_numpy_are_text_whatever_their_unit(unit: str) -> None:
    date = np.datetime64("2026-03-01T12:30:15.25", unit)
    with sf.create("r") as region:
        region.array("u", (2,), attrs={"begin": date, "array": np.array(date)})
        region.publish(1, attrs={"date": date, "none": np.datetime64("NaT", unit)})
        with sf.open("r").newest() as snapshot:
            found = snapshot.attrs["date"]
            assert found == str(date) and np.datetime64(str(found)) == date
            assert snapshot.attrs["none"] == "NaT"
            assert snapshot.variables["u"].attrs == {"begin": str(date), "array": str(date)}


@pytest.mark.parametrize(
    "wrong",
    [np.timedelta64(3, "s"), np.timedelta64(3, "ns"), np.timedelta64(3), np.complex64(1j), b"text", None, [1], np.array([1])],
)
def test_what_no_attribute_can_be_is_refused_by_its_name(wrong: Any) -> None:
    with sf.create("r") as region:
        with pytest.raises(sf.MisuseError, match="attribute dt"):
            region.publish(1, attrs={"dt": wrong})
        with pytest.raises(sf.MisuseError, match="attribute dt"):
            region.array("u", (2,), attrs={"dt": wrong})


def test_dates_of_python_are_text() -> None:
    with sf.create("r") as region:
        date = datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.timezone.utc)
        region.publish(1, attrs={"at": date, "day": datetime.date(2026, 3, 1)})
        with sf.open("r").newest() as snapshot:
            assert snapshot.attrs == {"at": "2026-03-01T12:30:00+00:00", "day": "2026-03-01"}


def test_arrays_of_what_was_not_declared_say_what_to_call() -> None:
    x = np.zeros(4)
    with sf.create("r") as region:
        for publish in (region.publish, region.publish_start):
            with pytest.raises(sf.UnknownVariable, match=r"has no variable 'x'; it has none.*track\('x'"):
                publish(1, arrays={"x": x})
        region.track("y", np.zeros(3))
        with pytest.raises(sf.UnknownVariable, match=r"it has y: .*track\('x'"):
            region.publish(1, {"x": x})
        region.track("x", dtype="f8")
        region.publish(1, {"x": x})
        with pytest.raises(sf.UnknownVariable, match="has no variable 'z'; it has y, x$"):
            region.untrack("z")
