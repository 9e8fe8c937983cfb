"""Checkpoints, opened by those who have never heard of Stillframe: zarr-python, xarray, numpy, xxhsum, od, du."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import museum
import netCDF4
import numpy as np
import pytest
import xarray as xr
from museum import Exhibit

Shown = dict[str, Exhibit]
HERE = Path(__file__).parent


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def newest(store: Path) -> Path:
    return sorted(store.glob("v*.zarr"))[-1]


@pytest.fixture(scope="session", params=["plain", "zstd", "lz4"])
def codec(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def checkpoint(codec: str, shown: Shown, still, scratch: Path) -> Path:
    """A checkpoint of the museum, in chunks so small that arrays have many."""
    store = scratch / f"store-{codec}"
    still("checkpoint", "museum", "--to", store, "--once", "--chunk-bytes", 65536, *(["--compress", codec] if codec != "plain" else []))
    return newest(store)


def test_zarr_and_xarray_open_it_without_stillframe(checkpoint: Path, codec: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = run(sys.executable, HERE / "opened.py", checkpoint, codec, env=environment)
    assert done.stdout == "same\n" and not done.stderr, done.stderr


def test_stillframe_cannot_be_imported_where_it_is_opened() -> None:
    done = run(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport opened\ntry: import stillframe\nexcept ImportError: print('none')")
    assert done.stdout == "none\n"


def test_xxhsum_checks_it_and_finds_a_flipped_bit(checkpoint: Path, tmp_path: Path) -> None:
    run("xxhsum", "-c", "checksums.xxh128", cwd=checkpoint)
    listed = {line.split("  ", 1)[1] for line in (checkpoint / "checksums.xxh128").read_text().splitlines()}
    there = {str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file()}
    assert there - listed == {"manifest.json", "manifest.xxh128", "checksums.xxh128"} and not listed - there
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    victim = copy / "float64/c.1.0"
    content = bytearray(victim.read_bytes())
    content[1000] ^= 4
    victim.chmod(0o600)
    victim.write_bytes(content)
    done = subprocess.run(["xxhsum", "-c", "checksums.xxh128"], cwd=copy, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "float64/c.1.0: FAILED" in done.stdout


def test_plain_chunks_are_the_bytes_in_memory(shown: Shown, still, scratch: Path) -> None:
    store = scratch / "store-bytes"
    still("checkpoint", "museum", "--to", store, "--once", "--chunk-bytes", 65536)
    place = newest(store)
    u, rows = shown["float64"].values, json.loads((place / "float64/zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shape"][0]
    pieces = [np.fromfile(place / f"float64/c.{index}.0").reshape(-1, 600) for index in range(-(-1100 // rows))]
    assert np.array_equal(np.concatenate(pieces)[:1100], u)
    assert (place / "float64/c.0.0").stat().st_size == rows * 600 * 8
    # In the order of memory: of a column-major array whole columns.
    columns = np.fromfile(place / "fortran_large/c.0.0").reshape(-1, 700)
    assert np.array_equal(columns, shown["fortran_large"].values.T[: len(columns)])
    expected = scratch / "expected"
    u[:rows].tofile(expected)
    run("cmp", place / "float64/c.0.0", expected)
    printed = run("od", "-A", "n", "-t", "f8", "-N", "8", place / "number/c").stdout
    assert float(printed) == 2.5


def test_unchanged_chunks_are_shared_and_every_directory_is_whole(still, scratch: Path) -> None:
    import stillframe as sf

    store = scratch / "store-shared"
    region = sf.create("shared", dir=still.regions, keep=2)
    u = region.array("u", (64, 4096))
    u[:] = np.random.default_rng(5).normal(size=u.shape)
    for version in (1, 2):
        u[5] = version
        region.publish(version)
        still("checkpoint", "shared", "--to", store, "--once", "--chunk-bytes", 65536)
    first, second = sorted(store.glob("v*.zarr"))
    alone, both = (int(run("du", "-s", "--block-size=1", "-c", *which).stdout.split("\n")[-2].split()[0]) for which in ([first], [first, second]))
    assert alone > u.nbytes
    assert both - alone < 0.2 * u.nbytes, "two checkpoints cost what changed between them"
    shared = [path for path in (second / "u").glob("c.*") if path.stat().st_nlink == 2]
    assert len(shared) == 31, "of 32 chunks of two rows one has changed"
    # Gone with the first, nothing is missing from the second.
    shutil.rmtree(first)
    run("xxhsum", "-c", "checksums.xxh128", cwd=second)
    with xr.open_dataset(second, engine="zarr") as found:
        assert np.array_equal(found["u"], u)
    region.unlink()


def test_a_group_has_a_group_per_rank(still, scratch: Path) -> None:
    import stillframe as sf

    store = scratch / "store-group"
    regions = [sf.create("ranks", dir=still.regions, rank=rank, ranks=3) for rank in range(3)]
    for rank, region in enumerate(regions):
        region.array("u", (4, 5), attrs={"offset": f"{4 * rank},0", "global_shape": "12,5", "dims": "y x"})[:] = rank
        region.publish(8, attrs={"time": 1.5})
    still("checkpoint", "ranks", "--to", store, "--once")
    with xr.open_datatree(newest(store), engine="zarr") as tree:
        assert tree.attrs["version"] == 8 and tree.attrs["ranks"] == 3
        for rank in range(3):
            assert np.array_equal(tree[f"{rank}/u"], np.full((4, 5), float(rank)))
    # Exported, they are the one array that they are parts of.
    still("export", store, "-o", scratch / "ranks.h5")
    with h5py.File(scratch / "ranks.h5") as file:
        assert np.array_equal(file["u"], np.repeat(np.arange(3.0), 4)[:, None] * np.ones(5))
        assert file.attrs["time"] == 1.5 and file.attrs["region"] == "ranks"
    for region in regions:
        region.unlink()


def test_an_object_is_one_array_whoever_wrote_which_part(still, scratch: Path) -> None:
    import stillframe as sf
    import zarr

    store, n, m = scratch / "store-object", 30, 17
    text = "type Cell struct { rho float64; id int32 }\nvar u [n,m] float32\nvar cells [n] Cell"
    plate = sf.create_object("plate", text, dir=still.regions, n=n, m=m)
    whole = np.arange(n * m, dtype=np.float32).reshape(n, m)
    # Blocks of rows that are no two of one size, every other one in Fortran's order, and the cells by somebody else.
    starts = [0, 7, 8, 21, n]
    blocks = []
    for rank, (first, end) in enumerate(zip(starts, starts[1:])):
        order = "columnmajor" if rank % 2 else ""
        block = plate.write(f"view b {order} {{ var u [x:rows,y:m] = u[x+first,y] }}", rank=rank, rows=end - first, first=first)
        block.arrays["u"][:] = whole[first:end]
        blocks.append(block)
    cells = plate.write("{ var cells = cells }")
    cells.arrays["cells"]["rho"], cells.arrays["cells"]["id"] = np.linspace(0, 1, n), np.arange(n)
    for fragment in [*blocks, cells]:
        fragment.publish(8)
    still("checkpoint", "plate", "--to", store, "--once")
    for found in (zarr.open_group(newest(store), mode="r"), xr.open_dataset(newest(store), engine="zarr", mask_and_scale=False)):
        assert np.array_equal(np.asarray(found["u"]), whole)
        assert np.array_equal(np.asarray(found["cells.rho"]), np.linspace(0, 1, n))
        assert np.array_equal(np.asarray(found["cells.id"]), np.arange(n))
        assert found.attrs["version"] == 8 and found.attrs["attributes"]["object"] == text
    for fragment in [*blocks, cells]:
        fragment.detach()
    plate.remove()
    # Back in memory it is an object again, of which anybody attaches any part.
    still("restore", store)
    half = sf.object("plate", dir=still.regions).write("{ var u [x:h,y:m] = u[x+h,y] }", h=n // 2)
    assert half.version == 8 and np.array_equal(half.arrays["u"], whole[n // 2 :])
    half.detach()
    still("rm", "plate")


@pytest.mark.parametrize("ending", ["h5", "nc"])
def test_a_checkpoint_is_exported_as_the_region_is(checkpoint: Path, shown: Shown, still, scratch: Path, ending: str) -> None:
    from_region, from_store = scratch / f"region.{ending}", scratch / f"store.{ending}"
    still("export", "museum", "-o", from_region)
    still("export", checkpoint.parent, "-o", from_store)
    if ending == "h5":
        # Deterministic: the library's times of creation are not kept.
        assert from_region.read_bytes() == from_store.read_bytes()
    else:
        # Netcdf's library keeps the second in which it made what has dimensions. The first line has the file's name.
        region_text, store_text = (run("ncdump", path).stdout.split("\n", 1)[1] for path in (from_region, from_store))
        assert region_text == store_text
    still("export", checkpoint, "float64", "--version", 12, "-o", from_store)
    with netCDF4.Dataset(from_store) if ending == "nc" else h5py.File(from_store) as file:
        assert np.array_equal(file["float64"][:], shown["float64"].values)


def test_of_a_store_the_newest_good_or_a_given_version_is_exported(still, scratch: Path) -> None:
    import stillframe as sf

    store, path = scratch / "store-versions", scratch / "versions.h5"
    region = sf.create("versions", dir=still.regions)
    u = region.array("u", 1000)
    for version in (1, 2, 3):
        u[:] = version
        region.publish(version)
        still("checkpoint", "versions", "--to", store, "--once")

    def exported(*options: object) -> float:
        still("export", store, "-o", path, *options)
        with h5py.File(path) as file:
            return float(file["u"][0])

    assert exported() == 3 and exported("--version", 2) == 2
    assert "version 9" in still.complaint("export", store, "-o", path, "--version", 9)
    # A manifest that cannot be read is passed over, and named; a chunk that is not what was saved is an error.
    (newest(store) / "manifest.json").write_text("{}")
    done = still("export", store, "-o", path)
    assert "skipped" in done.stderr and "v000000000003.zarr" in done.stderr
    with h5py.File(path) as file:
        assert file.attrs["version"] == 2
    chunk = store / "v000000000002.zarr/u/c.0"
    content = bytearray(chunk.read_bytes())
    content[7] ^= 1
    chunk.chmod(0o600)
    chunk.write_bytes(content)
    assert "u/c.0" in still.complaint("export", store, "-o", path, "--version", 2)
    with h5py.File(path) as file:
        assert np.all(file["u"][:] == 2), "what was there stays"
    assert not list(scratch.glob(".versions*"))
    region.unlink()
