"""Which readers read checkpoints: the table in docs/formats.md, held against what each reader does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, SECONDS_MAX

pytestmark = pytest.mark.long

HERE = Path(__file__).parent / "readers"
INSTALLED = Path(os.environ.get("STILLFRAME_READERS", ROOT / "target/readers")).absolute()
#: Where scripts/setup.sh puts each row's reader.
ENVIRONMENTS = {
    "zarr-python 3.1.6": "python-3.11",
    "zarr-python 3.1.6 with zarrs 0.2.3": "python-3.11",
    "tensorstore 0.1.86": "python-3.11",
    "zarrita 0.2.7 (Python)": "python-3.11",
    "zarr-python 3.4.2": "python-3.12",
    "VirtualiZarr 2.8.0": "python-3.12",
    "GDAL 3.12.2": "python-3.12",
    "netCDF-C 4.10.1": "python-3.12",
    "zarrita 0.7.5 (JavaScript)": "node",
}
CELL = np.dtype(
    {
        "names": ["rho", "id", "tag", "at"],
        "formats": ["f8", "i4", "S3", np.dtype([("x", "f4"), ("y", "f4")])],
        "offsets": [0, 8, 12, 16],
        "itemsize": 24,
    }
)
NAMES = ["a\\b", "%5C", "a.b", "..", "zarr.json", "c", "a?b#c", "ρ", "it's", "0", "xa", "x%61"]


def contents() -> dict[str, dict[str, np.ndarray]]:
    """The arrays of the checkpoint of each column of the table."""
    random = np.random.default_rng(7)

    def noise(dtype: str) -> np.ndarray:
        size = 6 * 1000 * np.dtype(dtype).itemsize
        return np.frombuffer(random.bytes(size), dtype).reshape(6, 1000)

    numbers = {f"{kind}{size}": noise(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}
    numbers |= {f"f{size}": random.normal(size=(6, 1000)).astype(f"f{size}") for size in (4, 8)}
    cells = np.zeros(6, CELL)
    cells["rho"], cells["id"], cells["tag"] = random.normal(size=6), range(6), [b"a", b"bc", b"def", b"", b"k", b"l"]
    cells["at"]["x"], cells["at"]["y"] = range(6), -1.5
    z = random.normal(size=(6, 1000)) + 1j * random.normal(size=(6, 1000))
    return {
        "numbers": numbers,
        "zstd": numbers,
        "lz4": numbers,
        "column-major": {"t": random.normal(size=(50, 40, 3))},
        "no dimension": {"number": np.array(2.5)},
        "no element": {"none": np.zeros((0, 5), "i4")},
        "float16": {"h": random.normal(size=(6, 1000)).astype("f2")},
        "bfloat16": {"bits": (random.normal(size=(6, 1000)).astype("f4").view("u4") >> 16).astype("u2")},
        "complex": {"z8": z.astype("c8"), "z16": z},
        "bool": {"flag": random.integers(0, 2, (6, 1000)).astype(bool)},
        "bytesN": {"text": np.array([b"H", b"He", b"Li", b"uuo-long"], "S8")},
        "records": {"cells": cells},
        "names": {name: np.full(3, index, "f8") for index, name in enumerate(NAMES)},
    }


def table() -> dict[str, dict[str, str]]:
    """The rows of the table by reader."""
    text = (ROOT / "docs/formats.md").read_text().split("<!-- readers -->")[1]
    lines = text.strip().split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


TABLE = table()


def checkpoint(still, store: Path, name: str, arrays: dict[str, np.ndarray], *options: object, order: str = "C") -> Path:
    import stillframe as sf

    with sf.create(name, dir=still.regions, fresh=True) as region:
        for variable, values in arrays.items():
            array = region.array(variable, values.shape, "bfloat16" if variable == "bits" else values.dtype, order=order)
            (array.view(values.dtype) if variable == "bits" else array)[...] = values
        region.publish(1)
        still("checkpoint", name, "--to", store, "--once", "--chunk-bytes", 4096, *options)
    return (store / "latest.zarr").resolve()


@pytest.fixture(scope="module")
def places(still, scratch: Path) -> Path:
    """A folder with a checkpoint for each column, under the column's name."""
    root = scratch / "readers"
    root.mkdir()
    for kind, arrays in contents().items():
        options = ["--compress", kind] if kind in ("zstd", "lz4") else []
        order = "F" if kind == "column-major" else "C"
        place = checkpoint(still, scratch / f"readers-{kind}", f"readers-{kind.replace(' ', '-')}", arrays, *options, order=order)
        place.rename(root / kind)
    return root


@pytest.fixture(scope="module")
def rows(still, scratch: Path) -> Path:
    """A checkpoint of an array of two rows, each of which is a chunk."""
    return checkpoint(still, scratch / "readers-rows", "readers-rows", {"u": np.arange(1.0, 1025).reshape(2, 512)})


def read(reader: str, action: str, where: Path) -> str:
    environment = ENVIRONMENTS[reader]
    if not (INSTALLED / environment).exists():
        pytest.skip(f"skipped: {reader}: scripts/setup.sh readers did not find {environment}")
    if environment == "node":
        command = ["node", HERE / "read.mjs", INSTALLED / "node/node_modules"]
    else:
        command = [INSTALLED / environment / "bin/python", HERE / "read.py", "zarrs" if "zarrs" in reader else reader.split()[0]]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command), action, str(where)], capture_output=True, text=True, timeout=SECONDS_MAX, env=clean)
    assert done.returncode == 0, f"{reader}: {done.stderr}"
    return done.stdout


def test_the_table_has_a_row_for_each_reader_and_a_column_for_each_kind() -> None:
    assert set(TABLE) == set(ENVIRONMENTS)
    for reader, row in TABLE.items():
        assert set(row) == {*contents(), "chunks are written", "refuses with"}, reader


@pytest.mark.parametrize("reader", ENVIRONMENTS)
def test_a_reader_reads_what_the_table_says(reader: str, places: Path) -> None:
    found = json.loads(read(reader, "read", places))
    seen, strange = {}, []
    # What a reader says when it refuses stands in backquotes.
    messages = re.findall("`([^`]+)`", TABLE[reader]["refuses with"])
    for kind, arrays in contents().items():
        names = {variable["path"]: variable["name"] for variable in json.loads((places / kind / "manifest.json").read_text())["variables"]}
        assert set(found[kind]) == set(names), (reader, kind)
        told = set()
        for path, answer in found[kind].items():
            expected = arrays[names[path]]
            if "error" in answer:
                told.add("no")
                if not any(message in answer["error"] for message in messages):
                    strange.append((kind, path, answer["error"]))
            else:
                same = answer["shape"] == list(expected.shape) and answer["bytes"] == expected.tobytes().hex()
                told.add("yes" if same else "wrong")
        seen[kind] = "wrong" if "wrong" in told else "some" if len(told) > 1 else told.pop()
    expected = {kind: TABLE[reader][kind] for kind in seen}
    assert seen == expected, f"{reader}: docs/formats.md has another row"
    assert not strange, f"{reader}: docs/formats.md has other messages"


@pytest.mark.parametrize("reader", [reader for reader in ENVIRONMENTS if "netCDF" not in reader])
def test_a_lost_chunk_is_read_as_zeros_unless_a_reader_is_told_to_look(reader: str, rows: Path, tmp_path: Path) -> None:
    place = shutil.copytree(rows, tmp_path / "place")
    (place / "u/c.1.0").unlink()
    default, strict = json.loads(read(reader, "lost", place))
    zeros = "00" * 512 * 8
    assert default.get("bytes", "").endswith(zeros), f"{reader}: {default}"
    if reader in ("zarr-python 3.4.2", "tensorstore 0.1.86"):
        assert "c.1.0" in strict.get("error", ""), f"{reader}: {strict}"
    else:
        assert strict == default, f"{reader}: {strict}"
    done = subprocess.run(["xxhsum", "-c", "checksums.xxh128"], cwd=place, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "u/c.1.0" in done.stdout + done.stderr


def test_zarrita_in_javascript_rounds_large_integers_in_attributes(rows: Path) -> None:
    published = json.loads((rows / "zarr.json").read_text())["attributes"]["published_ns"]
    assert int(read("zarrita 0.7.5 (JavaScript)", "attributes", rows)) == int(float(published))


@pytest.mark.parametrize("reader", [reader for reader, row in TABLE.items() if row["chunks are written"] != "–"])
def test_a_chunk_that_another_checkpoint_shares_is_written_as_the_table_says(reader: str, rows: Path, tmp_path: Path) -> None:
    one = shutil.copytree(rows, tmp_path / "one")
    for path in (one / "u").iterdir():
        # That a chunk is for reading only keeps nobody who is root from it.
        path.chmod(0o644)
    two = shutil.copytree(one, tmp_path / "two", copy_function=os.link)
    before = (one / "u/c.1.0").read_bytes()
    read(reader, "write", two)
    assert np.array_equal(np.fromfile(two / "u/c.1.0"), np.full(512, 7.0)), reader
    shared = (one / "u/c.1.0").read_bytes() != before
    assert ("in place" if shared else "anew") == TABLE[reader]["chunks are written"], reader


@pytest.mark.parametrize(
    ("command", "version", "empty"),
    [
        (["ncdump", "file://{}#mode=zarr,file"], "netcdf library version 4.9.0", "netcdf {} {{\n}}"),
        (["gdalmdiminfo", "{}"], "GDAL 3.6.2", '"name": "/"\n}}'),
    ],
)
def test_debians_programs_show_an_empty_group_without_an_error(command: list[str], version: str, empty: str, rows: Path) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"skipped: there is no {command[0]}")
    told = subprocess.run([command[0], "--version"], capture_output=True, text=True, timeout=60)
    if version not in told.stdout + told.stderr:
        pytest.skip(f"skipped: {command[0]} is not of {version}")
    done = subprocess.run([part.format(rows) for part in command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip().endswith(empty.format(rows.stem)), done
