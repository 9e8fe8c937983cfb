"""Opens a checkpoint of the museum as somebody who has no Stillframe: opened.py PATH CODEC. Says "same" if all is as published."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

# Whoever imports it from here on gets an ImportError.
sys.modules["stillframe"] = None  # type: ignore[assignment]

import museum  # noqa: E402
import numpy as np  # noqa: E402
import xarray as xr  # noqa: E402
import zarr  # noqa: E402

DIMENSIONS = {"float64": ("y", "x"), "fortran": ("a", "b", "c"), "y": ("y",), "x": ("x",)}


def called_by_length(shape: tuple[int, ...]) -> tuple[str, ...]:
    """The names of dimensions without one. Of several of one length in an array the last is called by it alone."""
    later = [shape[axis + 1 :].count(length) for axis, length in enumerate(shape)]
    return tuple(f"n{length}_{count + 1}" if count else f"n{length}" for length, count in zip(shape, later, strict=True))


def fields_of(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Equal, but for the fields that zarr-python needs to have for the padding of a record."""
    assert found.shape == expected.shape, name
    if not expected.dtype.names:
        assert found.dtype == expected.dtype, (name, found.dtype)
        assert np.array_equal(found, expected), name
        return
    padding = set(found.dtype.names) - set(expected.dtype.names)
    assert all(part.startswith("padding") for part in padding), padding
    assert found.dtype.itemsize == expected.dtype.itemsize
    for part in expected.dtype.names:
        fields_of(found[part], expected[part], f"{name}.{part}")


def main(path: Path, codec: str) -> None:
    shown = museum.exhibits()
    group = zarr.open_group(path, mode="r")
    about = dict(group.attrs)
    assert (about["region"], about["version"], about["attributes"]) == ("museum", 12, museum.ATTRS), about
    assert {name for name, _ in group.arrays()} == set(shown)
    for name, exhibit in shown.items():
        array = group[name]
        assert array.metadata.zarr_format == 3
        fields_of(np.asarray(array[...]), exhibit.values, name)
        dimensions = DIMENSIONS.get(name) or called_by_length(exhibit.values.shape)
        assert array.metadata.dimension_names in (dimensions, dimensions or None), array.metadata
        kinds = {kind.to_dict()["name"] for kind in array.metadata.codecs}
        assert kinds == {"bytes"} | {"plain": set(), "zstd": {"zstd"}, "lz4": {"blosc"}}[codec] | (
            {"transpose"} if exhibit.order == "F" and exhibit.values.ndim > 1 else set()
        ), (name, kinds)
    assert group["bfloat16"].attrs["dtype"] == "bfloat16" and group["bfloat16"].attrs["units"] == "K"
    u = dict(group["float64"].attrs)
    assert u.items() >= {"units": "K", "long_name": "temperature", "level": 3, "mask": True, "scale": 0.5}.items()

    # Each metadata file says what the consolidated ones say.
    for options in ({"consolidated": True}, {"consolidated": False}):
        with xr.open_dataset(path, engine="zarr", **options) as found:
            assert set(found.coords) == {"x", "y"} and found.attrs["version"] == 12
            assert found["float64"].dims == ("y", "x") and found["float64"].attrs["units"] == "K"
            for name, exhibit in shown.items():
                # xarray reads numbers with a fill value as floating-point numbers, unless it is told not to.
                fields_of(found[name].values, exhibit.values, name)
    print("same")


if __name__ == "__main__":
    # Padding and fixed-length bytes are not in the core of Zarr v3, of which zarr-python warns.
    warnings.filterwarnings("error")
    warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
    # Without the consolidated metadata it looks at every file, and wonders at the manifest and the checksums.
    warnings.filterwarnings("ignore", message="Object at (manifest|checksums)")
    main(Path(sys.argv[1]), sys.argv[2])
