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
