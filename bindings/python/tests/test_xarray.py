"""Regions and groups as xarray datasets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import stillframe as sf

xr = pytest.importorskip("xarray")


def published(keep: int = 1) -> sf.Region:
    """A region with variables of several sorts."""
    region = sf.create("melt", keep=keep)
    u = region.array("u", (4, 6), units="K", attrs={"dims": "y, x", "long_name": "temperature"})
    u[...] = np.arange(24).reshape(4, 6)
    region.array("x", (6,), units="m", attrs={"dims": "x"})[:] = np.linspace(0, 1, 6)
    f = region.array("f", (3, 2), "f4", order="F")
    f[...] = [[1, 2], [3, 4], [5, 6]]
    region.array("scalar", ())
    region.array("cells", (5,), [("rho", "f8"), ("id", "i4")])["id"] = range(5)
    region.publish(7, attrs={"time": 3.5})
    return region


def test_a_region_is_a_dataset() -> None:
    with published() as region:
        with xr.open_dataset("melt", engine="stillframe") as ds:
            assert ds.attrs["version"] == 7 and ds.attrs["time"] == 3.5 and ds.attrs["region"] == "melt"
            assert ds.attrs["published_ns"] > 0
            assert ds["u"].dims == ("y", "x") and ds["f"].dims == ("n3", "n2") and ds["scalar"].dims == ()
            assert dict(ds["u"].attrs) == {"units": "K", "long_name": "temperature"}
            assert "x" in ds.coords, "a variable named as its only axis is a coordinate"
            assert ds["u"].sel(x=0.2).values.tolist() == [1, 7, 13, 19]
            assert ds["f"].values.tolist() == [[1, 2], [3, 4], [5, 6]]
            assert ds["u"][::-1, [0, 5, 2]].values.tolist() == [[18, 23, 20], [12, 17, 14], [6, 11, 8], [0, 5, 2]]
            assert float(ds["u"].mean()) == 11.5
            assert ds["cells"].values["id"].tolist() == [0, 1, 2, 3, 4]
            ds["u"].load()[0, 0] = 99  # what was read is the reader's own
        region.publish(8, attrs={"version": "of the code"})
        with xr.open_dataset("melt", engine="stillframe", drop_variables=["cells", "f"]) as ds:
            assert ds.attrs["version"] == 8 and set(ds.variables) == {"u", "x", "scalar"}
            assert ds["u"].values[0, 0] == 0


def test_nothing_is_read_until_it_is_asked_for() -> None:
    with published(), xr.open_dataset("melt", engine="stillframe") as ds:
        assert not ds["u"].variable._in_memory
        part = ds["u"][1:3]
        assert not part.variable._in_memory and not ds["u"].variable._in_memory
        assert part.values.shape == (2, 6)


def test_a_dataset_is_one_version_and_closing_lets_it_go() -> None:
    with published() as region:
        ds = xr.open_dataset("melt", engine="stillframe")
        mean = float(ds["u"].mean())
        u = region.array("u", (4, 6), units="K", attrs={"dims": "y, x", "long_name": "temperature"})
        for version in (8, 9, 10):
            u[...] = version
            region.publish(version)
        observer = sf.open("melt")
        assert [info.version for info in observer.versions()] == [7, 10]
        assert float(ds["f"].sum()) == 21 and float(ds["u"].mean()) == mean
        loaded = ds["f"].load()
        ds.close()
        region.publish(11)
        assert [info.version for info in observer.versions()] == [11], "the loaded array keeps nothing"
        assert loaded.values.sum() == 21
        with pytest.raises(sf.MisuseError, match="closed"):
            ds["cells"].values  # noqa: B018


def test_a_version_and_a_directory_can_be_named(regions: object) -> None:
    with published(keep=3) as region:
        region.publish(8)
        with xr.open_dataset("melt", engine="stillframe", version=7, dir=regions) as ds:
            assert ds.attrs["version"] == 7
        with pytest.raises(sf.VersionGone):
            xr.open_dataset("melt", engine="stillframe", version=3)
    with pytest.raises(sf.NoRegion):
        xr.open_dataset("nothing", engine="stillframe")
    with pytest.raises(sf.MisuseError, match="give the name of a region"):
        xr.open_dataset(3, engine="stillframe")


def test_a_snapshot_is_a_dataset_too() -> None:
    with published(), sf.open("melt") as observer:
        for snapshot in observer.iterate(timeout=0):
            with snapshot:
                with xr.open_dataset(snapshot, engine="stillframe") as ds:
                    assert float(ds["u"].max()) == 23
                assert snapshot["u"].max() == 23, "it stays the caller's to close"


def test_who_reads_names_dimensions_too() -> None:
    with published():
        with xr.open_dataset("melt", engine="stillframe", dims={"u": ("row", "column"), "f": ["i", "j"], "scalar": ()}) as ds:
            assert ds["u"].dims == ("row", "column") and ds["f"].dims == ("i", "j") and ds["x"].dims == ("x",)
            assert dict(ds["u"].attrs) == {"units": "K", "long_name": "temperature"}
        # A sequence is for all with as many axes, as of an object; others keep what the program says.
        with sf.open("melt") as observer, observer.newest() as snapshot:
            ds = xr.open_dataset(snapshot, engine="stillframe", dims=("p", "q"), drop_variables="f")
            assert ds["u"].dims == ("p_4", "q_6") and ds["x"].dims == ("x",) and "f" not in ds
            ds.close()
        for wrong, why in [
            ({"v": ("x",)}, "no variable 'v'; the variables are: "),
            ({"u": ("x",)}, "'u' has 2 axes"),
            ({"u": ("x", "x")}, "does not name each of them once"),
            ({"x": "x"}, "does not name each of them once"),
        ]:
            with pytest.raises(sf.MisuseError, match=why):
                xr.open_dataset("melt", engine="stillframe", dims=wrong)


def test_who_reads_a_group_names_the_axes_beside_that_of_the_ranks() -> None:
    regions = [sf.create("plate", rank=rank, ranks=2) for rank in range(2)]
    for rank, region in enumerate(regions):
        region.array("u", (2, 3), part=((2 * rank, 0), (4, 3)), attrs={"dims": "a b"})
        region.array("load", (5,))
        region.publish(1)
    with xr.open_dataset("plate", engine="stillframe", dims={"u": ("y", "x"), "load": ("n",)}) as ds:
        assert ds["u"].dims == ("y", "x") and ds["u"].shape == (4, 3) and ds["load"].dims == ("rank", "n")
    with pytest.raises(sf.MisuseError, match="'load' has an axis 'rank' of its own"):
        xr.open_dataset("plate", engine="stillframe", dims={"load": ("rank",)})
    for region in regions:
        region.close()


def test_dims_that_do_not_fit_stay_an_attribute() -> None:
    with sf.create("r") as region:
        region.array("u", (4, 6), attrs={"dims": "x"})
        region.array("number", (), attrs={"dims": ""})
        region.publish(1)
        with xr.open_dataset("r", engine="stillframe") as ds:
            assert ds["u"].dims == ("n4", "n6") and ds["u"].attrs == {"dims": "x"}
            assert ds["number"].dims == () and ds["number"].attrs == {}


def test_arrays_of_one_shape_are_computed_with_each_other() -> None:
    with sf.create("r") as region:
        for name, value in (("density", 2.0), ("energy", 3.0)):
            region.array(name, (4, 4))[...] = value
        region.array("weights", (4,))[...] = [1, 2, 3, 4]
        region.publish(1)
        with xr.open_dataset("r", engine="stillframe") as ds:
            product = ds["density"] * ds["energy"] * ds["weights"]
            assert product.dims == ("n4_2", "n4") and product[1].values.tolist() == [6, 12, 18, 24]


def test_names_that_conflict_open_all_the_same() -> None:
    with sf.create("r") as region:
        region.array("lat", ())[...] = 48.0
        region.array("t", (5,), attrs={"dims": "lat"})
        region.array("tax", (10,))[...] = range(10)
        region.array("paid", (7,), attrs={"dims": "tax"})
        region.array("u", (4, 3), attrs={"dims": "y x"})
        region.array("v", (5, 3), attrs={"dims": "y x"})
        region.array("x", (3,), attrs={"dims": "x"})[...] = [1, 2, 3]
        region.publish(1)
        with xr.open_dataset("r", engine="stillframe") as ds:
            assert float(ds["lat"]) == 48 and ds["t"].dims == ("lat_5",)
            assert ds["tax"].values.tolist() == list(range(10)) and ds["paid"].dims == ("tax_7",)
            assert ds["u"].dims == ("y_4", "x") and ds["v"].dims == ("y_5", "x")
            assert set(ds.coords) == {"x"}
        with xr.open_dataset("r", engine="stillframe", drop_variables="v") as ds:
            assert ds["u"].dims == ("y_4", "x"), "names do not depend on what is dropped"


def test_an_axis_of_ranks_is_called_so() -> None:
    regions = []
    for rank in range(2):
        region = sf.create("g", rank=rank, ranks=2)
        region.array("u", (3,), attrs={"dims": "x"})
        region.array("v", (3,), attrs={"dims": "rank"})
        region.publish(1)
        regions.append(region)
    with xr.open_dataset("g", engine="stillframe") as ds:
        assert ds["u"].dims == ("rank", "x")
        assert ds["v"].dims == ("rank", "n3") and ds["v"].attrs == {"dims": "rank"}
    for region in regions:
        region.close()


def group(ranks: int = 4) -> list[sf.Region]:
    """A field of 8 × 12 divided among a grid of ranks, and what each rank has alone."""
    regions = []
    whole = np.arange(96.0).reshape(8, 12)
    for rank in range(ranks):
        region = sf.create("heat", rank=rank, ranks=ranks)
        y, x = 4 * (rank // 2), (0, 5)[rank % 2]
        width = (5, 7)[rank % 2]
        attrs = {"offset": f"{y},{x}", "global_shape": "8,12", "dims": "y x"}
        region.array("u", (4, width), units="K", attrs=attrs, order="CF"[rank // 2])[...] = whole[
            y : y + 4, x : x + width
        ]
        region.array("load", (2,), "i4")[...] = rank
        region.array("ragged", (rank + 1,))[...] = rank
        if rank == 0:
            region.array("name", (), "S4")[...] = b"heat"
        regions.append(region)
    for region in regions:
        region.publish(3, attrs={"time": 1.5})
    return regions


def test_the_parts_of_a_group_are_put_together_lazily() -> None:
    regions = group()
    whole = np.arange(96.0).reshape(8, 12)
    with xr.open_dataset("heat", engine="stillframe") as ds:
        assert ds.attrs["version"] == 3 and ds.attrs["time"] == 1.5
        assert ds["u"].dims == ("y", "x") and dict(ds["u"].attrs) == {"units": "K"}
        assert not ds["u"].variable._in_memory
        for key in np.s_[:, :], np.s_[2:7:2, 11:3:-3], np.s_[3, ::-1], np.s_[::-4, 4:6], np.s_[7, 11], np.s_[4:4, :]:
            assert np.array_equal(ds["u"][key].values, whole[key]), key
        assert ds["u"][[7, 0, 3], [11, 4]].values.tolist() == whole[np.ix_([7, 0, 3], [11, 4])].tolist()
        assert ds["u"].encoding["preferred_chunks"] == {"y": (4, 4), "x": (5, 7)}
        assert ds["load"].dims == ("rank", "n2") and ds["load"].values.tolist() == [[r, r] for r in range(4)]
        assert ds["name"].values == b"heat"
        assert ds["ragged.2"].values.tolist() == [2, 2, 2] and ds["ragged.2"].dims == ("n3",)
    for region in regions:
        region.close()


def test_random_boxes_of_a_group_are_those_of_the_whole() -> None:
    regions = group()
    whole = np.arange(96.0).reshape(8, 12)
    random = np.random.default_rng(1)
    with sf.open_group("heat").newest() as snapshot:
        from stillframe._whole import Whole

        array = Whole.of(snapshot, "u")
        for _ in range(500):
            key = []
            for extent in whole.shape:
                start, stop = random.integers(-extent - 2, extent + 3, 2)
                step = int(random.choice([-5, -3, -2, -1, 1, 2, 3, 7]))
                kind = random.random()
                index = int(random.integers(-extent, extent))
                key.append(index if kind < 0.2 else slice(int(start), int(stop), step))
            assert np.array_equal(array[tuple(key)], whole[tuple(key)]), key
    del regions


def test_dask_reads_chunk_by_chunk() -> None:
    pytest.importorskip("dask.array")
    regions = group()
    with xr.open_dataset("heat", engine="stillframe", chunks={}) as ds:
        assert ds["u"].chunks == ((4, 4), (5, 7))
        assert float(ds["u"].sum().compute()) == np.arange(96).sum()
    del regions
    with published(), xr.open_dataset("melt", engine="stillframe", chunks={"y": 1}) as ds:
        assert ds["u"].chunks[0] == (1, 1, 1, 1)
        assert ds["u"].mean("x").compute().values.tolist() == [2.5, 8.5, 14.5, 20.5]


def test_an_array_goes_to_other_processes_while_the_dataset_is_open() -> None:
    with published(), xr.open_dataset("melt", engine="stillframe") as ds:
        copy = pickle.loads(pickle.dumps(ds["u"].variable._data))
        assert np.asarray(copy).sum() == 276
