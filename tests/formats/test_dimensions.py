"""Names of dimensions: the same in the region's dataset, in a checkpoint, in netCDF and in HDF5, and everything opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

#: Names, shapes and attributes `dims` of variables that are in each other's way, and the names that their dimensions get.
SCENES: dict[str, dict[str, tuple[tuple[int, ...], str | None, tuple[str, ...]]]] = {
    "none": {
        "density": ((4, 4), None, ("n4_2", "n4")),
        "energy": ((4, 4), None, ("n4_2", "n4")),
        "profile": ((4,), None, ("n4",)),
        "n6": ((6,), None, ("n6_",)),
    },
    "scalar": {"lat": ((), None, ()), "t": ((5,), "lat", ("lat_5",))},
    "longer": {"tax": ((10,), None, ("n10",)), "paid": ((7,), "tax", ("tax_7",))},
    "wide": {"x": ((3, 4), "y x", ("y", "x_4"))},
    "staggered": {"u": ((4, 3), "y x", ("y_4", "x")), "v": ((5, 3), "y x", ("y_5", "x"))},
    "coordinate": {
        "u": ((4, 3), "y x", ("y_4", "x")),
        "v": ((5, 3), "y x", ("y", "x")),
        "x": ((3,), "x", ("x",)),
        "y": ((5,), "y", ("y",)),
    },
    "misnamed": {"u": ((4, 3), "y", ("n4", "n3")), "v": ((4, 3), "y y", ("n4", "n3")), "w": ((4, 3), "y a/b", ("n4", "n3"))},
    "characters": {"bytes4": ((6,), None, ("n6",)), "u": ((9,), "bytes4_", ("bytes4_",)), "names": ((2,), "bytes4", ("bytes4_2",))},
}


@pytest.fixture(scope="module", params=SCENES)
def scene(request: pytest.FixtureRequest, still) -> Iterator[str]:
    """A region with the variables of a scene, as version 3."""
    import stillframe as sf

    region = sf.create(request.param, dir=still.regions)
    for name, values in values_of(request.param).items():
        dims = SCENES[request.param][name][1]
        region.array(name, values.shape, values.dtype, attrs={} if dims is None else {"dims": dims})[...] = values
    region.publish(3)
    yield request.param
    region.unlink()


def values_of(scene: str) -> dict[str, np.ndarray]:
    shapes = {name: shape for name, (shape, _, _) in SCENES[scene].items()}
    random = np.random.default_rng(8)
    return {name: random.normal(size=shape).astype("S4" if name == "names" else "f8") for name, shape in shapes.items()}


def check(found: xr.Dataset, scene: str) -> None:
    for name, values in values_of(scene).items():
        assert (name, found[name].dims) == (name, SCENES[scene][name][2])
        assert np.array_equal(found[name].values, values)
    coordinates = {name for name, (_, dims, _) in SCENES[scene].items() if dims == name}
    assert set(found.coords) == coordinates


def test_a_dataset_of_the_region_has_them(scene: str, still) -> None:
    with xr.open_dataset(scene, engine="stillframe", dir=still.regions) as found:
        check(found, scene)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_a_checkpoint_has_them(scene: str, still, scratch: Path) -> None:
    store = scratch / f"{scene}-store"
    still("checkpoint", scene, "--to", store, "--once")
    with xr.open_dataset(store / "latest.zarr", engine="zarr") as found:
        check(found, scene)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_netcdf_has_them(scene: str, engine: str, still, scratch: Path) -> None:
    path = scratch / f"{scene}-{engine}.nc"
    still("export", scene, "-o", path)
    with xr.open_dataset(path, engine=engine) as found:
        check(found, scene)


def test_hdf5_has_them(scene: str, still, scratch: Path) -> None:
    path = scratch / f"{scene}.h5"
    still("export", scene, "-o", path)
    with h5py.File(path) as file:
        for name, (_, _, dims) in SCENES[scene].items():
            assert tuple(dimension.label for dimension in file[name].dims) == dims


def test_a_part_of_the_variables_has_the_same_names(still, scratch: Path) -> None:
    import stillframe as sf

    with sf.create("part", dir=still.regions) as region:
        for name, (shape, dims, _) in SCENES["staggered"].items():
            region.array(name, shape, attrs={"dims": dims})
        region.publish(1)
        still("export", "part", "u", "-o", scratch / "part.nc")
        with netCDF4.Dataset(scratch / "part.nc") as file:
            assert file["u"].dimensions == ("y_4", "x")


def test_ranks_have_them_beside_the_array_of_all(still, scratch: Path) -> None:
    import stillframe as sf

    regions = [sf.create("ranks", dir=still.regions, rank=rank, ranks=2) for rank in range(2)]
    for rank, region in enumerate(regions):
        attrs = {"offset": str(4 * rank), "global_shape": "8", "dims": "x"}
        region.array("u", (4,), attrs=attrs)[...] = rank
        region.array("x", (4,), attrs=attrs)[...] = np.arange(4) + 4 * rank
        region.array("own", (3 + rank, 2), attrs={"dims": "x y"})[...] = rank
    for region in regions:
        region.publish(1)
    still("export", "ranks", "-o", scratch / "ranks.nc")
    with xr.open_datatree(scratch / "ranks.nc") as tree:
        assert tree["u"].dims == ("x",) and tree["x"].values.tolist() == list(range(8))
        assert tree["0/own"].dims == ("x_3", "y") and tree["1/own"].dims == ("x_4", "y")
    with xr.open_dataset("ranks", engine="stillframe", dir=still.regions) as found:
        assert found["u"].dims == ("x",) and found["own.1"].dims == ("x_4", "y")
    still("checkpoint", "ranks", "--to", scratch / "ranks-store", "--once")
    with xr.open_datatree(scratch / "ranks-store" / "latest.zarr", engine="zarr") as tree:
        assert tree["1/u"].values.tolist() == [1] * 4
    for region in regions:
        region.unlink()
