"""Records in exports to HDF5 and netCDF-4."""

from __future__ import annotations

import json
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
    with published(still, "large-type", dtype):
        text = still.complaint("export", "large-type", "-o", scratch / f"large-type.{ending}", code=2)
        assert "variable 'u'" in text and f"{fields} fields" in text and "room for 65535" in text and "still checkpoint" in text, text
        assert not list(scratch.glob("*large-type.*"))
        # Who does as it says gets all of it.
        still("checkpoint", "large-type", "--to", scratch / f"wide-{ending}", "--once")
        if ending == "h5":
            still("export", "large-type", "-o", scratch / "wide-named.nc")


def test_readers_of_netcdf_see_of_hdf5_what_they_read_right_and_nothing_else(still, scratch: Path) -> None:
    import stillframe as sf

    def record(field: object) -> np.dtype:
        return np.dtype([("a", "f4"), ("b", field)])

    seen = {"numbers": record("i2"), "flag": np.dtype("?"), "text": np.dtype("S3"), "z": np.dtype("c16"), "x": np.dtype("f8")}
    unseen = {"half": np.dtype("f2"), "inner": record([("x", "f4")])}
    unseen |= {f"of_{name}": record(field) for name, field in [("bool", "?"), ("half", "f2"), ("text", "S4"), ("complex", "c8")]}
    region = sf.create("kinds", dir=still.regions)
    values = {}
    for name, dtype in {**seen, **unseen}.items():
        values[name] = np.zeros((2, 3), dtype) if name == "half" else np.zeros(3, dtype)
        values[name].view("u1")[...] = 1
        region.array(name, values[name].shape, dtype, attrs={"dims": "y x" if name == "half" else "x"})[...] = values[name]
    # One that others have for a coordinate.
    region.array("t", 2, "f2", attrs={"dims": "t"})[:] = values["t"] = np.array([1.5, 2.5], "f2")
    region.array("v", 2, "f8", attrs={"dims": "t"})[:] = values["v"] = np.array([3.0, 4.0])
    region.publish(1)
    told = json.loads(still("export", "kinds", "-o", scratch / "kinds.h5", "--json").stdout)
    assert told["unseen"] == sorted([*unseen, "t"])
    complaint = still("export", "kinds", "-o", scratch / "kinds.h5").stderr
    assert "do not see " + ", ".join(sorted([*unseen, "t"])) in complaint and "export to .nc" in complaint
    with netCDF4.Dataset(scratch / "kinds.h5", auto_complex=True) as file:
        assert set(file.variables) == {*seen, "v"}
        assert file["v"].dimensions == ("t",) and file["flag"].dimensions == ("x",)
        for name in ("numbers", "flag", "z", "x", "v"):
            assert np.array_equal(file[name][:], values[name]), name
        assert [text.encode() for text in file["text"][:]] == values["text"].tolist()
    with h5py.File(scratch / "kinds.h5") as file:
        for name, expected in values.items():
            assert file[name].dtype == expected.dtype and np.array_equal(file[name], expected), name
        assert np.array_equal(file["half"].dims[1]["x"], values["x"]) and np.array_equal(file["v"].dims[0][0], values["t"])
    # To netCDF nothing is said, and everything is there.
    assert not still("export", "kinds", "-o", scratch / "kinds.nc").stderr
    with netCDF4.Dataset(scratch / "kinds.nc") as file:
        assert set(file.variables) == set(values)
    region.unlink()
