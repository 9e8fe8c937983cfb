"""Records in exports to HDF5 and netCDF-4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

#: As compilers and programs make them whose list of fields is not in the order of memory.
MIXED = np.dtype(
    {
        "names": ["b", "a", "inner", "tag"],
        "formats": ["f8", "i4", np.dtype({"names": ["y", "x"], "formats": ["f4", "f4"], "offsets": [4, 0], "itemsize": 8}), "S4"],
        "offsets": [16, 0, 8, 4],
        "itemsize": 24,
    }
)


@contextmanager
def published(still, name: str, dtype: np.dtype) -> Iterator[np.ndarray]:
    """A region with a variable `u` of five records, and these."""
    import stillframe as sf

    region = sf.create(name, dir=still.regions)
    values = np.zeros(5, dtype)
    values.view("u1")[:] = np.arange(values.nbytes) % 64
    region.array("u", 5, dtype)[:] = values
    region.publish(1)
    try:
        yield values
    finally:
        region.unlink()


@pytest.mark.parametrize("level", [None, 2])
def test_fields_that_are_not_in_the_order_of_their_offsets_are_exported(still, scratch: Path, level: int | None) -> None:
    with published(still, "mixed", MIXED) as values:
        for ending in ("h5", "nc"):
            still("export", "mixed", "-o", scratch / f"mixed.{ending}", *(["--compress", level] if level else []))
    with h5py.File(scratch / "mixed.h5") as file:
        found = file["u"][:]
        assert found.dtype.itemsize == MIXED.itemsize
    with netCDF4.Dataset(scratch / "mixed.nc") as file:
        others = file["u"][:]
    for name in ("b", "a", "tag"):
        assert np.array_equal(found[name], values[name]), name
        assert np.array_equal(others[name].view(values[name].dtype).reshape(5), values[name]), name
    for name in ("x", "y"):
        assert np.array_equal(found["inner"][name], values["inner"][name]), name
        assert np.array_equal(others["inner"][name], values["inner"][name]), name


@pytest.mark.parametrize(("ending", "fields"), [("h5", 1200), ("nc", 2500)])
def test_a_type_that_is_too_large_for_the_format_is_said_with_its_size_the_limit_and_what_to_do(
    still, scratch: Path, ending: str, fields: int
) -> None:
    dtype = np.dtype([(f"a_field_with_a_long_name_{number:04d}", "f8") for number in range(fields)])
    with published(still, "wide", dtype):
        text = still.complaint("export", "wide", "-o", scratch / f"wide.{ending}", code=2)
        assert "variable 'u'" in text and f"{fields} fields" in text and "room for 65535" in text and "still checkpoint" in text, text
        assert not list(scratch.glob("*wide.*"))
        # Who does as it says gets all of it.
        still("checkpoint", "wide", "--to", scratch / f"wide-{ending}", "--once")
        if ending == "h5":
            still("export", "wide", "-o", scratch / "wide-named.nc")
