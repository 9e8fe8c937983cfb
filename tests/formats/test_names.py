"""Names of variables that mean something to those who read files, and numbers as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

#: Names that a region takes.
NAMES = ["u", "a\\b", "\\", "a\\", "\\\\x", "%5C", "a%5Cb", "a.b", "..", "zarr.json", "c", "0", "a?b#c", "ρ", "it's"]


@pytest.mark.filterwarnings("ignore:Object at (manifest|checksums)")
@pytest.mark.parametrize("consolidated", [True, False])
def test_a_checkpoint_opens_whatever_its_variables_are_called(consolidated: bool, still, scratch: Path) -> None:
    import stillframe as sf

    store = scratch / f"names-{consolidated}"
    with sf.create("called", dir=still.regions, fresh=True) as region:
        for number, name in enumerate(NAMES):
            region.array(name, (3,))[...] = number
        region.publish(1)
        still("checkpoint", "called", "--to", store, "--once")
    with xr.open_dataset(store / "latest.zarr", engine="zarr", consolidated=consolidated) as found:
        assert sorted(float(found[name][2]) for name in found) == list(range(len(NAMES)))
        assert float(found["u"][0]) == 0
    still("verify", store)
    # What reads checkpoints itself knows the names as they are.
    path = scratch / f"called-{consolidated}.h5"
    still("export", store, "-o", path)
    with h5py.File(path) as file:
        assert set(file) == set(NAMES)


def loaded_by_numpy(path: Path) -> np.ndarray:
    return np.loadtxt(path, dtype=complex, delimiter=",")


def generated_by_numpy(path: Path) -> np.ndarray:
    return np.genfromtxt(path, dtype=complex, delimiter=",")


def read_by_pandas(path: Path) -> np.ndarray:
    # pandas takes a number of which one part is missing for missing, so the numbers are made of its text.
    cells = pd.read_csv(path, header=None, dtype=str, keep_default_na=False).to_numpy()
    return np.array([[complex(cell) for cell in row] for row in cells])


@pytest.mark.parametrize("read", [loaded_by_numpy, generated_by_numpy, read_by_pandas])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_as_text_are_read_back(read: Callable[[Path], np.ndarray], dtype: str, still, scratch: Path) -> None:
    import stillframe as sf

    parts = np.array([1.5, -2.0, 0.0, -0.0, 1e-30, -3e30, np.nan, np.inf, -np.inf], f"f{int(dtype[1:]) // 2}")
    z = np.empty((len(parts), len(parts)), dtype)
    z.real, z.imag = parts[:, None], parts
    path = scratch / f"z-{dtype}.csv"
    with sf.create("numbers", dir=still.regions, fresh=True) as region:
        region.track("z", z)
        region.publish(1)
        still("get", "numbers", "z", "-o", path)
    found = read(path).astype(dtype)
    for one, other in ((found.real, z.real), (found.imag, z.imag)):
        assert np.array_equal(one, other, equal_nan=True)
