"""`still export` to HDF5 and netCDF-4, read back by h5py, netCDF4 and xarray."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import museum
import netCDF4
import numpy as np
import pytest
import xarray as xr
from museum import ATTRS, Exhibit

Shown = dict[str, Exhibit]


def in_file(exhibit: Exhibit) -> np.ndarray:
    """Column-major arrays have their dimensions reversed in a file, and numbers of bfloat16 are float32 there."""
    values = (exhibit.values.astype("u4") << 16).view("f4") if exhibit.dtype == "bfloat16" else exhibit.values
    return values.T if exhibit.order == "F" else values


def check(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    assert found.shape == expected.shape, name
    if expected.dtype.names:
        assert set(found.dtype.names) == set(expected.dtype.names), name
        for part in expected.dtype.names:
            check(found[part], expected[part], f"{name}.{part}")
        return
    assert found.dtype == expected.dtype, name
    assert np.array_equal(found, expected), name


@pytest.fixture(scope="session", params=[None, 4], ids=["plain", "compressed"])
def h5(request: pytest.FixtureRequest, shown: Shown, still, scratch: Path) -> Path:
    return exported(still, scratch, "h5", request.param)


@pytest.fixture(scope="session", params=[None, 4], ids=["plain", "compressed"])
def nc(request: pytest.FixtureRequest, shown: Shown, still, scratch: Path) -> Path:
    return exported(still, scratch, "nc", request.param)


def exported(still, scratch: Path, ending: str, level: int | None) -> Path:
    path = scratch / f"museum-{level}.{ending}"
    still("export", "museum", "-o", path, *(["--compress", level] if level else []))
    return path


def test_h5py_reads_what_was_published(h5: Path, shown: Shown) -> None:
    with h5py.File(h5) as file:
        assert set(file) == set(shown)
        for name, exhibit in shown.items():
            found = file[name][()]
            check(np.asarray(found), in_file(exhibit), name)
        # Padding of records is kept: an element is as long as in memory.
        assert file["cells"].dtype.itemsize == museum.CELL.itemsize


def test_h5py_reads_attributes_and_dimensions(h5: Path, shown: Shown) -> None:
    with h5py.File(h5) as file:
        about = dict(file.attrs)
        assert about.pop("region") == "museum" and about.pop("version") == 12
        assert abs(about.pop("published_ns") / 1e9 - time.time()) < 3600
        assert about == ATTRS
        assert file.attrs["restart"].dtype == bool
        u = file["float64"]
        assert dict(u.attrs).items() >= {"units": "K", "long_name": "temperature", "level": 3, "mask": True, "scale": 0.5}.items()
        assert [dimension.label for dimension in u.dims] == ["y", "x"]
        assert np.array_equal(u.dims[1]["x"], shown["x"].values), "a coordinate is a dimension scale"
        assert [dimension.label for dimension in file["int8"].dims] == ["n5", "n7"]
        # What has no type of its own is said to have been something else.
        assert file["bfloat16"].attrs["dtype"] == "bfloat16" and "dtype" not in file["float16"].attrs
        # Reversed with the shape, and said to be so.
        assert [dimension.label for dimension in file["fortran"].dims] == ["c", "b", "a"]
        assert file["fortran"].attrs["order"] == "fortran" and "order" not in u.attrs


def test_h5_is_plain_or_chunked(shown: Shown, still, scratch: Path) -> None:
    plain, packed = (exported(still, scratch, "h5", level) for level in (None, 4))
    with h5py.File(plain) as file:
        u = file["float64"]
        assert u.chunks is None
        # In one run, so that a program without any library can read it where h5py says it lies.
        assert np.array_equal(np.fromfile(plain, "f8", u.size, offset=u.id.get_offset()).reshape(u.shape), u)
    with h5py.File(packed) as file:
        u = file["float64"]
        assert (u.compression, u.compression_opts, u.shuffle) == ("gzip", 4, True)
        assert u.chunks[1] == 600 and u.chunks[0] < 1100, "boxes of whole rows"


def test_netcdf4_reads_what_was_published(nc: Path, shown: Shown) -> None:
    with netCDF4.Dataset(nc, auto_complex=True) as file:
        file.set_auto_mask(False)
        assert set(file.variables) == set(shown)
        for name, exhibit in shown.items():
            variable = file.variables[name]
            found = np.asarray(variable[...])
            if name == "bool":
                assert (variable.dtype, variable.getncattr("dtype")) == (np.int8, "bool")
                found = found.astype(bool)
            if name == "float16":
                assert (variable.dtype, variable.getncattr("dtype")) == (np.uint16, name)
                found = found.view(exhibit.values.dtype)
            if name == "bytes":
                found = netCDF4.chartostring(found, encoding="none")
            if name == "cells":
                check_cells(found, exhibit.values)
                continue
            check(found, in_file(exhibit), name)


def check_cells(found: np.ndarray, expected: np.ndarray) -> None:
    """In compounds of netCDF, complex numbers are compounds themselves."""
    assert np.array_equal(found["rho"], expected["rho"]) and np.array_equal(found["id"], expected["id"])
    assert np.array_equal(found["z"]["r"] + 1j * found["z"]["i"], expected["z"])
    assert np.array_equal(found["at"]["x"], expected["at"]["x"]) and np.array_equal(found["at"]["y"], expected["at"]["y"])
    assert np.array_equal(found["tag"], expected["tag"]) and np.array_equal(found["half"].view("f2"), expected["half"])


def test_netcdf4_reads_attributes_and_dimensions(nc: Path, shown: Shown) -> None:
    with netCDF4.Dataset(nc) as file:
        about = {name: file.getncattr(name) for name in file.ncattrs()}
        assert about.items() >= {"region": "museum", "version": 12, **ATTRS}.items()
        u = file["float64"]
        assert u.dimensions == ("y", "x") and u.units == "K" and u.long_name == "temperature" and u.mask == 1
        assert file["fortran"].dimensions == ("c", "b", "a") and file["fortran"].order == "fortran"
        assert file["bytes"].dimensions == ("n4", "bytes8")
        assert file["empty"].shape == (0, 5)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_xarray_opens_netcdf(nc: Path, shown: Shown, engine: str) -> None:
    # The library under one engine is told to, the one under the other does it anyway.
    options = {"auto_complex": True} if engine == "netcdf4" else {}
    with xr.open_dataset(nc, engine=engine, **options) as found:
        assert found.attrs["version"] == 12 and found.attrs["time"] == 3.5
        assert set(found.coords) == {"x", "y"}, "variables named as their dimension are coordinates"
        u = found["float64"]
        assert u.dims == ("y", "x") and u.attrs["units"] == "K"
        assert np.array_equal(u, shown["float64"].values)
        assert found["bool"].dtype == bool and np.array_equal(found["bool"], shown["bool"].values)
        assert np.array_equal(found["bytes"], shown["bytes"].values)
        assert np.array_equal(found["fortran"].transpose("a", "b", "c"), shown["fortran"].values)
        for name in ("complex64", "complex128"):
            check(found[name].values, shown[name].values, name)


def test_xarray_opens_hdf5(shown: Shown, still, scratch: Path) -> None:
    path = exported(still, scratch, "h5", None)
    with xr.open_dataset(path, engine="h5netcdf", phony_dims="sort") as found:
        assert found["float64"].dims == ("y", "x")
        assert np.array_equal(found["float64"], shown["float64"].values)


@pytest.mark.parametrize(("ending", "tool"), [("h5", "h5dump"), ("nc", "ncdump")])
def test_the_formats_own_tools_print_the_header(shown: Shown, still, scratch: Path, ending: str, tool: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    path = exported(still, scratch, ending, None)
    done = subprocess.run([tool, "-H" if tool == "h5dump" else "-h", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "float64" in done.stdout and "long_name" in done.stdout


def test_variables_and_version_are_chosen(still, scratch: Path) -> None:
    import stillframe as sf

    region = sf.create("two", dir=still.regions, keep=3)
    u, _, _ = (region.array(name, 4) for name in "uvw")
    for version in (1, 2):
        u[:] = version
        region.publish(version)
    path = scratch / "two.h5"
    told = json.loads(still("export", "two", "u", "w", "-o", path, "--version", 1, "--json").stdout)
    assert told["variables"] == ["u", "w"] and told["version"] == 1 and told["bytes"] == 64 and told["path"] == str(path)
    with h5py.File(path) as file:
        assert set(file) == {"u", "w"} and np.all(file["u"][:] == 1)
    text = still.complaint("export", "two", "nothing", "-o", path, code=2)
    assert "no variable 'nothing'; it has u, v, w" in text
    assert "version 9" in still.complaint("export", "two", "-o", path, "--version", 9)
    assert "still ls" in still.complaint("export", "three", "-o", path)
    assert ".h5" in still.complaint("export", "two", "-o", scratch / "two.txt", code=2)
    with h5py.File(path) as file:
        assert set(file) == {"u", "w"}, "what was there stays"
    region.unlink()


@pytest.mark.parametrize("ending", ["h5", "nc"])
@pytest.mark.parametrize("level", [None, 2])
def test_parts_of_ranks_become_one_array(still, scratch: Path, ending: str, level: int | None) -> None:
    import stillframe as sf

    whole = np.random.default_rng(1).normal(size=(300, 500))
    regions = []
    for rank in range(4):
        region = sf.create("blocks", dir=still.regions, rank=rank, ranks=4, keep=2)
        top, left = 100 * (rank // 2), 200 * (rank % 2)
        rows, columns = (100, 200) if rank // 2 == 0 else (200, 200)
        columns = columns if rank % 2 == 0 else 300
        attrs = {"offset": f"{top},{left}", "global_shape": "300,500", "dims": "y x"}
        region.array("u", (rows, columns), attrs=attrs, units="K")[:] = whole[top : top + rows, left : left + columns]
        attrs = {"offset": f"{left},{top}", "global_shape": "500,300", "dims": "x y"}
        turned = region.array("t", (columns, rows), attrs=attrs, order="F")
        turned[:] = whole[top : top + rows, left : left + columns].T
        region.array("own", 3 + rank)[:] = rank
        regions.append(region)
    for region, rank in zip(regions, range(4), strict=True):
        region.publish(5, attrs={"time": 0.5, "rank": rank})
    path = scratch / f"blocks.{ending}"
    told = json.loads(still("export", "blocks", "-o", path, "--json", *(["--compress", level] if level else [])).stdout)
    assert told["missing"] == [] and told["variables"] == ["t", "u", "0/own", "1/own", "2/own", "3/own"]
    if ending == "h5":
        with h5py.File(path) as file:
            assert np.array_equal(file["u"], whole) and np.array_equal(file["t"], whole)
            assert set(file["u"].attrs) >= {"units"} and "offset" not in file["u"].attrs
            assert file.attrs["ranks"] == 4 and file.attrs["time"] == 0.5 and "rank" not in file.attrs
            for rank in range(4):
                assert np.array_equal(file[f"{rank}/own"], np.full(3 + rank, rank)) and file[str(rank)].attrs["rank"] == rank
    else:
        with xr.open_dataset(path) as found:
            assert np.array_equal(found["u"], whole) and found["t"].dims == ("y", "x")
            assert np.array_equal(found["t"].transpose("x", "y"), whole.T)
        with xr.open_datatree(path) as tree:
            assert np.array_equal(tree["3/own"], np.full(6, 3.0)) and tree["3"].attrs["rank"] == 3
    # One rank by itself is the part that it is.
    still("export", "blocks/1", "u", "-o", scratch / "one.h5")
    with h5py.File(scratch / "one.h5") as file:
        assert np.array_equal(file["u"], whole[:100, 200:]) and file["u"].attrs["offset"] == "0,200"
    for region in regions:
        region.unlink()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("level", [None, 1])
def test_ghost_cells_are_their_owners(still, scratch: Path, order: str, level: int | None) -> None:
    import stillframe as sf

    whole = np.arange(20 * 14, dtype="f8").reshape(20, 14)
    regions = [sf.create("ghosts", dir=still.regions, rank=rank, ranks=4) for rank in range(4)]
    for rank, region in enumerate(regions):
        # Nine rows and six columns of its own, and a border all around.
        top, left = 9 * (rank // 2), 6 * (rank % 2)
        attrs = {"offset": f"{top},{left}", "global_shape": "20,14"}
        u = region.array("u", (11, 8), attrs=attrs, order=order)
        u[:] = whole[top : top + 11, left : left + 8]
        # What it keeps of its neighbours is older than theirs.
        u[-1 if rank // 2 == 0 else 0, :] = u[:, -1 if rank % 2 == 0 else 0] = -1
    for region in regions:
        region.publish(1)
    path = scratch / "ghosts.h5"
    done = still("export", "ghosts", "-o", path, *(["--compress", level] if level else []))
    assert not done.stderr
    with h5py.File(path) as file:
        found = file["u"][:].T if order == "F" else file["u"][:]
    # A border cell of the whole that two ranks have is one rank's ghost, so only the inner cells are all known.
    assert np.array_equal(found[1:-1, 1:-1], whole[1:-1, 1:-1])
    for region in regions:
        region.unlink()


@contextmanager
def divided(still, name: str, parts: list[tuple[str, slice, slice]]) -> Iterator[np.ndarray]:
    """A group of a rank per part of a global array, by the part's order, rows and columns; and the array."""
    import stillframe as sf

    whole = np.arange(12 * 7, dtype="f8").reshape(12, 7)
    regions = [sf.create(name, dir=still.regions, rank=rank, ranks=len(parts)) for rank in range(len(parts))]
    try:
        for region, (order, rows, columns) in zip(regions, parts, strict=True):
            part = whole[rows, columns]
            attrs = {"offset": f"{rows.start or 0},{columns.start or 0}", "global_shape": "12,7", "dims": "y x"}
            region.array("u", part.shape, attrs=attrs, order=order)[...] = part
        for region in regions:
            region.publish(1)
        yield whole
    finally:
        for region in regions:
            region.unlink()


ALL = slice(None)
#: Parts that are the same bytes in either order: a column, a row, a single element in its column, nothing.
EITHER = {
    "column": [(ALL, slice(0, 1)), (ALL, slice(1, None))],
    "row": [(slice(0, 1), ALL), (slice(1, None), ALL)],
    "element": [(slice(0, 1), slice(0, 1)), (slice(1, None), slice(0, 1)), (ALL, slice(1, None))],
    "nothing": [(ALL, slice(0, 0)), (ALL, slice(0, None))],
}


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize("last", ["C", "F"])
@pytest.mark.parametrize("ending", ["h5", "nc"])
def test_parts_that_are_the_same_bytes_in_either_order_go_with_the_others(still, scratch: Path, kind: str, last: str, ending: str) -> None:
    other = {"C": "F", "F": "C"}[last]
    boxes = EITHER[kind]
    parts = [(other, *box) for box in boxes[:-1]] + [(last, *boxes[-1])]
    # Whichever rank has which: the first does not decide.
    for turn in (parts, parts[::-1]):
        with divided(still, "either", turn) as whole:
            path = scratch / f"either.{ending}"
            still("export", "either", "-o", path)
            expected = whole if last == "C" else whole.T
            with h5py.File(path) as file:
                assert np.array_equal(file["u"], expected) and ("order" in file["u"].attrs) == (last == "F")
            if ending == "nc":
                with netCDF4.Dataset(path) as file:
                    assert file["u"].dimensions == (("y", "x") if last == "C" else ("x", "y"))


def test_parts_of_different_orders_or_types_are_said_with_what_to_do(still, scratch: Path) -> None:
    with divided(still, "turned", [("C", ALL, slice(0, 3)), ("F", ALL, slice(3, None))]):
        text = still.complaint("export", "turned", "-o", scratch / "turned.h5")
        assert "rank 0 has order C" in text and "rank 1 order F" in text and "the same order on all ranks" in text, text
        assert "still export turned/0 u" in text and "global_shape" not in text, text
        # Who does as it says gets all of it.
        for rank in (0, 1):
            still("export", f"turned/{rank}", "u", "-o", scratch / f"{rank}.h5")


def test_what_no_rank_has_is_filled_and_said(still, scratch: Path) -> None:
    import stillframe as sf

    regions = [sf.create("gaps", dir=still.regions, rank=rank, ranks=2) for rank in range(2)]
    for rank, region in enumerate(regions):
        region.array("u", 4, attrs={"offset": str(6 * rank), "global_shape": "10"})[:] = 1 + rank
    for region in regions:
        region.publish(1)
    done = still("export", "gaps", "-o", scratch / "gaps.h5")
    assert "2 elements of u are in no rank's part" in done.stderr
    with h5py.File(scratch / "gaps.h5") as file:
        assert file["u"][:].tolist() == [1, 1, 1, 1, 0, 0, 2, 2, 2, 2]
    still("export", "gaps", "-o", scratch / "gaps.nc")
    with netCDF4.Dataset(scratch / "gaps.nc") as file:
        assert file["u"][:].mask.tolist() == [False] * 4 + [True] * 2 + [False] * 4
    for region in regions:
        region.unlink()


def test_names_that_a_format_cannot_take_are_named(still, scratch: Path) -> None:
    import stillframe as sf

    region = sf.create("names", dir=still.regions)
    for name in ("+u", "v", "größe", "a(1)", "type", "c_type"):
        region.array(name, 3)[:] = 7
    region.array("c", 3, np.dtype([("x", "f4")]))
    region.array("w", 3, attrs={"_FillValue": 1, "CLASS": "mine", "dims": "a/b", "dtype": "strange"})[:] = 5
    region.publish(1, attrs={"version": 3.5, "_NCProperties": "no"})
    text = still.complaint("export", "names", "-o", scratch / "names.nc", code=2)
    assert "'+u'" in text and ".h5" in text
    assert not list(scratch.glob("*names*")) and not list(scratch.glob(".names*"))
    done = still("export", "names", "-o", scratch / "names.h5")
    assert "left out the attribute w: CLASS" in done.stderr
    with h5py.File(scratch / "names.h5") as file:
        assert set(file) == {"+u", "v", "größe", "a(1)", "type", "c", "c_type", "w"} and file["+u"][0] == 7
        assert file.attrs["version"] == 1 and file.attrs["attributes.version"] == 3.5
    done = still("export", "names", "v", "größe", "a(1)", "type", "c", "c_type", "w", "-o", scratch / "names.nc")
    assert "_FillValue" in done.stderr and "CLASS" in done.stderr
    with netCDF4.Dataset(scratch / "names.nc") as file:
        assert set(file.variables) == {"v", "größe", "a(1)", "type", "c", "c_type", "w"}
        assert file["w"][:].tolist() == [5, 5, 5] and file["größe"][0] == 7
    region.unlink()


def test_what_is_left_out_is_said_with_its_reason(still, scratch: Path) -> None:
    import stillframe as sf

    region = sf.create("notes", dir=still.regions)
    region.array("u", 3, attrs={"note": "cut\0here", "CLASS": "mine"})[:] = 7
    region.publish(1)
    done = still("export", "notes", "-o", scratch / "notes.h5")
    reasons = dict(line.split(", whose ") for line in done.stderr.splitlines())
    assert reasons == {
        "still: left out the attribute u: CLASS": "name the format keeps for itself",
        "still: left out the attribute u: note": "text has a zero byte, at which the format ends it",
    }
    region.unlink()


@pytest.mark.parametrize("ending", ["h5", "nc"])
def test_the_producer_goes_on_and_the_file_is_one_version(still, scratch: Path, ending: str) -> None:
    import stillframe as sf

    region = sf.create("busy", dir=still.regions, keep=2)
    u = region.array("u", (200, 5000))
    stop = threading.Event()

    def run() -> None:
        version = 0
        while not stop.is_set():
            u[:] = version
            region.publish(version)
            version += 1

    producer = threading.Thread(target=run)
    producer.start()
    try:
        while region.newest is None:
            time.sleep(0.01)
        for _ in range(5):
            path = scratch / f"busy.{ending}"
            told = json.loads(still("export", "busy", "-o", path, "--json").stdout)
            with netCDF4.Dataset(path) if ending == "nc" else h5py.File(path) as file:
                assert np.all(file["u"][:] == told["version"])
    finally:
        stop.set()
        producer.join()
    region.unlink()


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 8 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", tmp_path], capture_output=True, timeout=60)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True, timeout=60)


@pytest.mark.parametrize("ending", ["h5", "nc"])
def test_a_full_disk_is_said_and_nothing_is_left(still, scratch: Path, small_disk: Path, ending: str) -> None:
    import stillframe as sf

    region = sf.create("large", dir=still.regions)
    region.array("u", (2 << 20,))[:] = np.random.default_rng(3).normal(size=2 << 20)
    region.publish(1)
    path = small_disk / f"large.{ending}"
    path.write_text("what was there")
    # Known before anything is written, and met underway.
    text = still.complaint("export", "large", "-o", path)
    assert "takes about 16777216 bytes" in text and "left" in text
    text = still.complaint("export", "large", "-o", path, "--compress", 1)
    assert "No space left" in text and "free some room" in text
    assert path.read_text() == "what was there" and [found.name for found in small_disk.iterdir()] == [path.name]
    region.unlink()


def test_directories_that_cannot_be_written_are_said(shown: Shown, still, tmp_path: Path) -> None:
    assert "make its directory" in still.complaint("export", "museum", "-o", tmp_path / "no" / "u.h5")
    assert ".h5" in still.complaint("export", "museum", "-o", tmp_path / "..", code=2)
    folder = tmp_path / "folder.h5"
    folder.mkdir()
    assert "directory" in still.complaint("export", "museum", "-o", folder)
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        assert "choose a directory" in still.complaint("export", "museum", "-o", tmp_path / "closed" / "u.h5")


@pytest.mark.parametrize("ending", ["h5", "nc"])
def test_an_interrupted_export_leaves_nothing_and_a_killed_one_is_no_obstacle(
    shown: Shown, still, tmp_path: Path, ending: str
) -> None:
    from conftest import BUILT

    path = tmp_path / f"u.{ending}"
    aside = tmp_path / f".u.{ending}.partial"
    # Shells let jobs in the background ignore SIGINT, and what those start.
    command: list[str | Path] = ["env", "--default-signal=INT,TERM", BUILT / "still", "--dir", still.regions]
    command += ["export", "museum", "-o", path, "--compress", "9"]
    for kill in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not (aside.exists() and aside.stat().st_size) and child.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        child.send_signal(kill)
        child.communicate(timeout=60)
        if child.returncode == 0:
            pytest.skip("it was done before it could be stopped")
        assert child.returncode == -kill and not path.exists()
        assert aside.exists() == (kill == signal.SIGKILL)
    still("export", "museum", "float64", "-o", path)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    with xr.open_dataset(path, engine="h5netcdf", phony_dims="sort") as found:
        assert np.array_equal(found["float64"], shown["float64"].values)
