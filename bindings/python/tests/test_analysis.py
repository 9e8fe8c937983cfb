"""Analysis beside a program: what reducers find, what series keep, and the loops that feed them."""

from __future__ import annotations

import csv
import math
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stillframe as sf
from conftest import Spawn
from stillframe import analysis


def publish(region: sf.Region, versions: range) -> None:
    """Publishes what differs from version to version."""
    u = region.array("u", (40, 50)) if region.newest is None else None
    for version in versions:
        if u is not None:
            u[...] = np.sin(np.arange(2000.0).reshape(40, 50) * version)
        region.publish(version, attrs={"time": 0.5 * version})


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_so_many_versions_come_in_a_loop() -> None:
    with sf.create("r", keep=32) as region:
        publish(region, range(1, 31))
        observer = sf.open("r")
        seen = [snapshot.version for snapshot in observer.iterate(timeout=0, every=7)]
        assert seen == [1, 7, 14, 21, 28]
        assert [s.version for s in observer.iterate(timeout=0, every=7, after=14)] == [21, 28]
        assert [s.version for s in observer.iterate(timeout=0, every=1)] == list(range(1, 31))
        assert next(iter(observer)).version == 30
        with pytest.raises(sf.MisuseError, match="every=-1"):
            next(observer.iterate(every=-1))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u8", "?", "c16"])
def test_statistics_are_numpys(dtype: str) -> None:
    random = np.random.default_rng(3)
    values = random.normal(1e6, 3, (70, 1111)) if np.dtype(dtype).kind != "?" else random.random((70, 1111)) > 0.3
    with np.errstate(invalid="ignore"):
        values = (values % 30_000).astype(dtype) if np.dtype(dtype).kind in "iu" else values.astype(dtype)
    with sf.create("r") as region:
        region.array("v", values.shape, dtype)[...] = values
        region.publish(1)
        row = analysis.Statistics("v")(sf.open("r").newest())
    plain = np.abs(values) if values.dtype.kind == "c" else values.astype("f8")
    assert row["v_min"] == plain.min() and row["v_max"] == plain.max() and row["v_nans"] == 0
    assert row["v_mean"] == pytest.approx(plain.mean(), rel=1e-13)
    assert row["v_std"] == pytest.approx(plain.std(), rel=1e-9)
    assert row["v_sum"] == pytest.approx(plain.sum(), rel=1e-13)


def test_not_a_number_is_counted_and_left_out() -> None:
    u = np.array([1.0, math.nan, 3.0, math.nan])
    row = analysis.Statistics("u")({"u": u})
    assert row == {"u_min": 1.0, "u_max": 3.0, "u_mean": 2.0, "u_std": 1.0, "u_sum": 4.0, "u_nans": 2}
    nothing = analysis.Statistics("u")({"u": np.full(3, math.nan)})
    assert math.isnan(nothing["u_mean"]) and nothing["u_nans"] == 3 and nothing["u_sum"] == 0
    infinite = analysis.Statistics("u")({"u": np.array([1.0, math.inf, -math.inf, math.nan])})
    assert (infinite["u_min"], infinite["u_max"], infinite["u_nans"]) == (-math.inf, math.inf, 1)
    found = analysis.Histogram("u", bins=2, range=(0, 2))({"u": np.array([math.nan, -1, 0, 1, 2, 5, math.inf])})
    assert found["u_count"].tolist() == [1, 2]  # type: ignore[union-attr]
    assert (found["u_below"], found["u_above"], found["u_nans"]) == (1, 2, 1)


@pytest.mark.parametrize("size", [1e200, 1e300, sys.float_info.max / 4, 1e-200, 1e-300, 1.0])
def test_numbers_of_any_size_have_a_deviation(size: float) -> None:
    row = analysis.Statistics("u")({"u": np.array([size, 3 * size])})
    assert row["u_mean"] / size == pytest.approx(2, rel=1e-14) and row["u_std"] / size == pytest.approx(1, rel=1e-14)
    # In many blocks, of which the first are zeros.
    u = np.where(np.arange(5 << 16) < 1 << 16, 0.0, np.arange(5 << 16) % 2 * size)
    row = analysis.Statistics("u")({"u": u})
    assert row["u_mean"] / size == pytest.approx(0.4, rel=1e-12)
    assert row["u_std"] / size == pytest.approx(math.sqrt(0.24), rel=1e-12)


def test_the_largest_numbers_have_a_mean() -> None:
    most = sys.float_info.max
    row = analysis.Statistics("u")({"u": np.array([most, -most])})
    assert (row["u_mean"], row["u_std"]) == (0, most)
    row = analysis.Statistics("u")({"u": np.full(3 << 16, most)})
    assert (row["u_mean"], row["u_std"], row["u_sum"]) == (most, 0, math.inf)
    assert math.isnan(analysis.Statistics("u")({"u": np.array([1.0, math.inf])})["u_std"])


def test_what_is_found_does_not_depend_on_where_pages_lie() -> None:
    random = np.random.default_rng(5)
    with sf.create("r", keep=4) as region:
        u = region.array("u", (300, 1000))
        u[...] = random.normal(size=u.shape)
        region.publish(1)
        for version in range(2, 6):
            # Scattered pages move to other places, which cuts the variable into pieces.
            u.reshape(-1)[random.integers(0, u.size, 40)] = version
            region.publish(version)
            with sf.open("r").newest() as snapshot:
                assert sum(1 for _ in snapshot.chunks("u")) > 10 or version < 3
                for reducer in (analysis.Statistics("u"), analysis.Histogram("u"), analysis.Spectrum("u")):
                    beside, inside = reducer(snapshot), reducer({"u": u})
                    for name in inside:
                        assert np.asarray(beside[name]).tobytes() == np.asarray(inside[name]).tobytes(), name


def test_blocks_are_all_elements_in_order() -> None:
    cells = np.zeros(5000, [("rho", "f8"), ("id", "i4"), ("pad", "i1")])
    cells["rho"] = np.arange(5000)
    with sf.create("r") as region:
        region.track("cells", cells)
        region.publish(1)
        snapshot = sf.open("r").newest()
        pieces = [piece.copy() for piece in analysis.blocks(snapshot, "cells.rho", 777)]
        assert {len(piece) for piece in pieces[:-1]} == {777}
        assert np.concatenate(pieces).tolist() == list(range(5000))
        assert analysis.Statistics("cells.rho")(snapshot)["cells.rho_max"] == 4999
        for wrong in ("cell", "cells.phi", "rho"):
            with pytest.raises(sf.MisuseError):
                analysis.Statistics(wrong)(snapshot)
        with pytest.raises(sf.MisuseError, match="no numbers"):
            analysis.Statistics("cells")(snapshot)


@pytest.mark.parametrize("shape", [(64,), (63,), (32, 48), (12, 15, 16)])
@pytest.mark.parametrize("kind", ["f8", "c16"])
def test_powers_add_up_to_the_mean_square(shape: tuple[int, ...], kind: str) -> None:
    random = np.random.default_rng(6)
    u = random.normal(2.0, 1.0, shape).astype(kind)
    if kind == "c16":
        u = u + 1j * random.normal(size=shape)
    found = analysis.Spectrum("u")({"u": u})
    power = found["u_power"]
    assert power.sum() == pytest.approx((np.abs(u) ** 2).mean(), rel=1e-12)
    assert power[0] == pytest.approx(abs(u.mean()) ** 2, rel=1e-12)
    assert len(found["u_k"]) == len(power)


def test_a_wave_has_its_power_at_its_wave_number() -> None:
    x = np.arange(64) * 0.25
    y = np.arange(32) * 0.5
    u = 3 * np.cos(2 * np.pi * (3 * x[:, None] / 16 + 4 * y[None, :] / 16))
    found = analysis.Spectrum("u", spacing=(0.25, 0.5))({"u": u})
    at = int(np.argmax(found["u_power"]))
    assert found["u_k"][at] == pytest.approx(5 / 16)
    assert found["u_power"][at] == pytest.approx(4.5)
    assert np.delete(found["u_power"], at).max() < 1e-20
    for wrong in (np.zeros((2, 2, 2, 2)), np.array(1.0), np.zeros(0), np.zeros(3, "S2")):
        with pytest.raises(sf.MisuseError, match="spectrum"):
            analysis.Spectrum("u")({"u": wrong})


def test_a_series_has_a_row_per_version(tmp_path: Path) -> None:
    with sf.create("r", keep=20) as region:
        publish(region, range(1, 6))
        count = analysis.run(
            "r",
            {
                tmp_path / "u.csv": [analysis.Statistics("u"), lambda source: {"corner": source["u"][0, 1]}],
                tmp_path / "sub" / "histogram.npy": analysis.Histogram("u", 8),
                tmp_path / "spectrum.npy": analysis.Spectrum("u"),
            },
            every=True,
            timeout=0,
            polite=False,
        )
        assert count == 5
        rows = rows_of(tmp_path / "u.csv")
        assert [row["version"] for row in rows] == ["1", "2", "3", "4", "5"]
        assert [row["time"] for row in rows] == ["0.5", "1.0", "1.5", "2.0", "2.5"]
        observer = sf.open("r")
        for row in rows:
            u = observer.version(int(row["version"]))["u"]
            assert float(row["u_max"]) == u.max() and float(row["corner"]) == u[0, 1]
    records = np.load(tmp_path / "sub" / "histogram.npy")
    assert records["version"].tolist() == [1, 2, 3, 4, 5] and records["u_count"].shape == (5, 8)
    assert (records["u_count"].sum(axis=1) + records["u_below"] + records["u_above"] == 2000).all()
    assert (records["u_edges"] == records["u_edges"][0]).all()
    spectra = np.load(tmp_path / "spectrum.npy", mmap_mode="r")
    assert spectra.dtype.names == ("version", "time", "u_k", "u_power")


def test_a_series_goes_on_without_doing_anything_twice(tmp_path: Path) -> None:
    files = {tmp_path / "u.csv": analysis.Statistics("u"), tmp_path / "h.npy": analysis.Histogram("u", 4)}
    with sf.create("r", keep=20) as region:
        publish(region, range(1, 4))
        assert analysis.run("r", files, every=True, timeout=0, polite=False) == 3
        edges = np.load(tmp_path / "h.npy")["u_edges"]
        assert analysis.run("r", files, every=True, timeout=0, polite=False) == 0
        u = region.array("u", (40, 50))
        u[...] = 100
        for version in (4, 5):
            region.publish(version)
        files = {tmp_path / "u.csv": analysis.Statistics("u"), tmp_path / "h.npy": analysis.Histogram("u", 4)}
        assert analysis.run("r", files, every=True, timeout=0, polite=False) == 2
    assert [row["version"] for row in rows_of(tmp_path / "u.csv")] == list("12345")
    assert rows_of(tmp_path / "u.csv")[4]["time"] == ""
    records = np.load(tmp_path / "h.npy")
    assert records["version"].tolist() == [1, 2, 3, 4, 5]
    assert (records["u_edges"] == edges[0]).all(), "edges are those of the first run"
    assert records["u_above"][4] == 2000 and math.isnan(records["time"][4])


def test_a_program_that_started_over_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    other = tmp_path / "u.npy"
    files = {path: analysis.Statistics("u"), other: analysis.Statistics("u")}
    with sf.create("r", keep=20) as region:
        publish(region, range(1, 9))
        analysis.run("r", files, every=True, timeout=0, polite=False)
    with sf.create("r", keep=20, fresh=True) as region:
        publish(region, range(1, 4))
        with pytest.raises(sf.InUse, match=r"u.csv goes to version 8, and 'r' is at 3"):
            analysis.run("r", files, every=True, timeout=0, polite=False)
        assert len(rows_of(path)) == 8
        analysis.run("r", files, every=True, timeout=0, polite=False, rewind=True)
    assert [row["version"] for row in rows_of(path)] == ["1", "2", "3"]
    assert np.load(other)["version"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["u.csv", "u.npy"])
def test_a_row_that_was_cut_is_written_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with analysis.Series(path, analysis.Statistics("u")) as series:
        for version in range(1, 4):
            assert series.add({"u": np.arange(9.0)}, version, {"time": 0.1})
            assert not series.add({"u": np.arange(9.0)}, version)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-20:-3])
    with analysis.Series(path, analysis.Statistics("u")) as series:
        assert series.last == 3
        assert path.read_bytes() == whole
        series.add({"u": np.arange(9.0)}, 4, {"time": 0.1})
        with pytest.raises(sf.InUse, match="another process"):
            analysis.Series(path, analysis.Statistics("u"))
    found = [int(row["version"]) for row in rows_of(path)] if name == "u.csv" else np.load(path)["version"].tolist()
    assert found == [1, 2, 3, 4]
    if name == "u.csv":
        path.write_bytes(whole[:10])
    else:
        path.write_bytes(whole[:-1])
        with pytest.raises(sf.CorruptError, match="cut short"):
            analysis.Series(path, analysis.Statistics("u"))
        path.unlink()
    with analysis.Series(path, analysis.Statistics("u")) as series:
        assert series.last is None


def test_a_series_refuses_what_does_not_fit(tmp_path: Path) -> None:
    u = {"u": np.arange(4.0)}
    with pytest.raises(sf.MisuseError, match=r"\.csv or \.npy"):
        analysis.Series(tmp_path / "u.txt", analysis.Statistics("u"))
    with analysis.Series(tmp_path / "s.csv", analysis.Spectrum("u")) as series:
        with pytest.raises(sf.MisuseError, match="use .npy"):
            series.add(u, 1)
    with analysis.Series(tmp_path / "t.csv", *[analysis.Statistics("u")] * 2) as series:
        with pytest.raises(sf.MisuseError, match="two columns of the name 'u_"):
            series.add(u, 1)
        with pytest.raises(sf.MisuseError, match="give the version"):
            series.add(u)
    with analysis.Series(tmp_path / "w.npy", analysis.Spectrum("u")) as series:
        series.add(u, 1)
        with pytest.raises(sf.MisuseError, match="'u_k' was float64 of shape"):
            series.add({"u": np.arange(9.0)}, 2)
        assert series.last == 1
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(sf.CorruptError, match="no series"):
        analysis.Series(tmp_path / "x.csv", analysis.Statistics("u"))
    (tmp_path / "x.npy").write_bytes(b"nothing of the kind")
    with pytest.raises(sf.CorruptError, match="no series"):
        analysis.Series(tmp_path / "x.npy", analysis.Statistics("u"))


def test_an_analysis_that_is_killed_loses_nothing_and_goes_on(tmp_path: Path, spawn: Spawn) -> None:
    code = f"""
        from stillframe import analysis
        files = {{"{tmp_path}/u.csv": analysis.Statistics("u"), "{tmp_path}/h.npy": analysis.Histogram("u", 16, (-1, 1))}}
        analysis.run("r", files, every=True, timeout=60, wait=30, polite=False, progress=lambda snapshot: print(snapshot.version))
    """
    last = 0
    with sf.create("r", keep=32) as region:
        u = region.array("u", (100, 100))
        for _ in range(3):
            child = spawn(code)
            for version in range(last + 1, last + 13):
                u[...] = np.cos(version)
                region.publish(version)
            last += 12
            while int(child.hear()) < last - 5:
                pass
            child.process.send_signal(signal.SIGKILL)
            child.process.wait(60)
            rows = rows_of(tmp_path / "u.csv")
            assert [int(row["version"]) for row in rows] == list(range(1, len(rows) + 1))
            assert len(rows) >= last - 6
        files = {tmp_path / "u.csv": analysis.Statistics("u"), tmp_path / "h.npy": analysis.Histogram("u", 16, (-1, 1))}
        analysis.run("r", files, every=True, timeout=0, polite=False)
    assert [float(row["u_mean"]) for row in rows_of(tmp_path / "u.csv")] == pytest.approx(np.cos(range(1, last + 1)))
    assert np.load(tmp_path / "h.npy")["version"].tolist() == list(range(1, last + 1))


def test_a_reducer_holds_nothing_while_it_waits(tmp_path: Path) -> None:
    seen: list[int] = []
    with sf.create("r", keep=1) as region:
        u = region.array("u", (1000,))
        region.publish(1)
        files = {tmp_path / "u.csv": analysis.Statistics("u")}
        arguments = {"timeout": 60.0, "every": True, "polite": False, "progress": lambda snapshot: seen.append(snapshot.version)}
        thread = threading.Thread(target=analysis.run, args=("r", files), kwargs=arguments)
        thread.start()
        while seen != [1]:
            time.sleep(0.01)
        time.sleep(0.05)
        for version in (2, 3):
            u[:] = version
            region.publish(version)
            while seen[-1] != version:
                time.sleep(0.01)
        limit = time.monotonic() + 60
        while [info.version for info in sf.open("r").versions()] != [3]:
            assert time.monotonic() < limit
            time.sleep(0.01)
    thread.join(60)
    assert not thread.is_alive() and seen == [1, 2, 3]


def test_a_small_version_is_let_go_of_before_it_is_reduced(tmp_path: Path) -> None:
    held: list[bool] = []

    def reduce(source: Any) -> dict[str, float]:
        if source.version == 1:
            # The region keeps one version, so that this one takes the place of what nobody holds.
            region.publish(2, attrs={"time": 1.0})
            held.append(1 in [info.version for info in observer.versions()])
        assert source.variables["small"].shape == (3,)
        return {"sum": float(source["small"].sum()), "first": float(source["u"][0])}

    for name, words in (("small", 1000), ("large", (16 << 20) // 8)):
        path = tmp_path / f"{name}.csv"
        with sf.create(name, keep=1) as region, sf.open(name) as observer:
            small, u = region.array("small", (3,)), region.array("u", (words,))
            small[:], u[:] = 2, 5
            region.publish(1, attrs={"time": 0.5})
            analysis.run(name, {path: reduce}, timeout=0, polite=False)
        assert [list(row.values()) for row in rows_of(path)] == [["1", "0.5", "6.0", "5.0"], ["2", "1.0", "6.0", "5.0"]]
    assert held == [False, True]


def test_reducers_cannot_write_what_the_others_read(tmp_path: Path) -> None:
    def centre(source: Any) -> dict[str, float]:
        u = source["u"]
        with pytest.raises(ValueError, match="read-only"):
            u -= u.mean()
        return {"first": float(u[0])}

    def mean(source: Any) -> dict[str, float]:
        return {"mean": float(source["u"].mean())}

    for name, words in (("small", 1000), ("large", (16 << 20) // 8 + 1)):
        with sf.create(name, keep=1) as region:
            region.array("u", (words,))[:] = 5
            region.publish(1)
            analysis.run(name, {tmp_path / f"{name}.csv": [centre, mean]}, attrs=(), timeout=0, polite=False)
        assert [list(row.values()) for row in rows_of(tmp_path / f"{name}.csv")] == [["1", "5.0", "5.0"]]


def divided(rank: int, ranks: int) -> sf.Region:
    """A rank of a field of 8 × 12 that is divided among rows."""
    region = sf.create("heat", rank=rank, ranks=ranks, keep=8)
    rows = 8 // ranks
    u = region.array("u", (rows, 12), units="K", attrs={"dims": "y x"}, part=((rank * rows, 0), (8, 12)))
    u[...] = np.arange(96.0).reshape(8, 12)[rank * rows : (rank + 1) * rows]
    region.array("n", (3,), "i4")[...] = rank
    if rank == 0:
        region.array("alone", (2,))
    return region


def test_the_ranks_of_a_group_are_one_array(tmp_path: Path) -> None:
    ranks = [divided(rank, 4) for rank in range(4)]
    for version in (1, 2, 3):
        for region in ranks:
            region.publish(version, attrs={"time": float(version)})
    field = np.arange(96.0).reshape(8, 12)
    with sf.open_group("heat") as group, group.newest() as snapshot:
        assert np.array_equal(snapshot.gather("u"), field)
        assert snapshot.gather("n").tolist() == [[rank] * 3 for rank in range(4)]
        assert snapshot.gather("alone").shape == (2,)
        with pytest.raises(sf.UnknownVariable, match="it has u, n, alone"):
            snapshot.gather("v")
        row = analysis.Statistics("u", "alone")(snapshot)
        assert (row["u_mean"], row["u_max"], row["alone_max"]) == (field.mean(), 95.0, 0.0)
        spectrum = analysis.Spectrum("u")(snapshot)
        assert np.array_equal(spectrum["u_power"], analysis.Spectrum("u")({"u": field})["u_power"])
        assert [s.version for s in group.iterate(timeout=0, every=2)] == [1, 2]
    for region in ranks:
        region.close()
    assert analysis.run("heat", {tmp_path / "u.csv": analysis.Statistics("u")}, polite=False) == 1
    assert rows_of(tmp_path / "u.csv")[0]["time"] == "3.0"


def test_ghost_cells_are_taken_from_those_who_compute_them() -> None:
    whole = np.arange(100.0).reshape(10, 10)
    regions = []
    for rank in range(4):
        # Four cells along each axis, and one more all around, which belongs to others or to the edge.
        y, x = 4 * (rank // 2), 4 * (rank % 2)
        region = sf.create("heat", rank=rank, ranks=4)
        u = region.array("u", (6, 6), part=((y, x), (10, 10)))
        u[...] = -1000  # What is in ghost cells at a publish is old.
        at = [slice(0 if o == 0 else 1, 6 if o == 4 else 5) for o in (y, x)]
        u[tuple(at)] = whole[y : y + 6, x : x + 6][tuple(at)]
        regions.append(region)
    for region in regions:
        region.publish(1)
    with sf.open_group("heat").newest() as snapshot:
        assert np.array_equal(snapshot.gather("u"), whole)
        row = analysis.Statistics("u")(snapshot)
        assert (row["u_sum"], row["u_min"], row["u_max"]) == (whole.sum(), 0.0, 99.0)
        assert sum(len(block) for block in analysis.blocks(snapshot, "u", 7)) == 100


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"offset": "6", "global_shape": "8"}, r"is no part of \(8,\)"),
        ({"offset": "0,0", "global_shape": "8,8"}, "is no part of"),
        ({"offset": "0", "global_shape": "8"}, "4 of the 8 elements"),
    ],
)
def test_a_wrong_part_is_named(attrs: dict[str, sf._types.Scalar], message: str) -> None:
    with sf.create("heat", rank=0, ranks=1) as region:
        try:
            region.array("u", (4,), attrs=attrs)
        except sf.MisuseError:
            return  # Refused before anybody can read it.
        region.publish(1)
        with pytest.raises(sf.MisuseError, match=message):
            sf.open_group("heat").newest().gather("u")
