"""Beginning again from memory or checkpoints, and checkpoints while a program runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import stillframe as sf


def test_a_region_begins_with_memory_or_a_checkpoint_or_nothing_and_says_which(tmp_path: Path) -> None:
    store = tmp_path / "ckpt"
    region, origin = sf.recover("heat", checkpoints=store)
    assert (origin.kind, origin.version, origin.path, origin.skipped) == ("fresh", None, None, [])
    u = region.array("u", (100, 50))
    x = np.arange(12.0).reshape(3, 4)
    region.track("x", x)
    with pytest.raises(sf.MisuseError, match="'x'"):
        region.read("x")
    assert region.recovered_variables() == {}
    region.fill("u")
    u[:] = 1.5
    region.publish(7, attrs={"time": 0.25})
    with pytest.raises(sf.MisuseError, match="has published"):
        region.read("x")
    with pytest.raises(sf.MisuseError, match="has published"):
        region.recovered_variables()
    with sf.checkpoint("heat", store, once=True) as checkpointer:
        assert checkpointer.wait_safe(7, 60)
    u[:] = 2.5
    region.publish(8)
    region.close()
    del u

    region, origin = sf.recover("heat", checkpoints=store)
    assert (origin.kind, origin.version) == ("memory", 8) and "version 8" in str(origin)
    f8 = np.dtype("f8")
    expected = [("u", f8, (100, 50)), ("x", f8, (3, 4))]
    assert [(found.name, found.dtype, found.shape) for found in region.recovered_variables().values()] == expected
    assert (region.array("u", (100, 50)) == 2.5).all()
    region.unlink()

    region, origin = sf.recover("heat", checkpoints=store)
    assert (origin.kind, origin.version, origin.attrs) == ("checkpoint", 7, {"time": 0.25})
    assert origin.path is not None and str(origin.path) in str(origin)
    assert [(found.name, found.dtype, found.shape) for found in region.recovered_variables().values()] == expected
    with sf.create("plain") as plain, pytest.raises(sf.MisuseError, match="recover"):
        plain.recovered_variables()
    assert (region.array("u", (100, 50)) == 1.5).all()
    region.track("x", np.zeros((3, 4)))
    assert np.array_equal(region.read("x"), x)
    box = region.read("x", (1, 1), (2, 3), order="F")
    assert np.array_equal(box, x[1:, 1:]) and box.flags.f_contiguous
    into = np.zeros((3, 2))
    assert region.read("x", (0, 2), out=into) is into and np.array_equal(into, x[:, 2:])
    assert np.array_equal(region.read("u", shape=(100, 50)), np.full((100, 50), 1.5))
    with pytest.raises(sf.MisuseError, match="float64"):
        region.read("x", dtype="f4")
    with pytest.raises(sf.MisuseError, match="'x'"):
        region.read("x", (2, 2), (2, 2))
    # A program on a coarser grid has to say which part it means.
    for shape in [(2, 2), (3, 3), (4, 4), (12,)]:
        with pytest.raises(sf.MisuseError, match=r"shape \[3, 4\].*offset"):
            region.read("x", out=np.zeros(shape))
    with pytest.raises(sf.MisuseError, match=r"shape \[3, 4\].*offset"):
        region.read("x", shape=(2, 2))
    assert np.array_equal(region.read("x", (0, 0), (2, 2)), x[:2, :2])
    assert np.array_equal(region.read("u"), np.full((100, 50), 1.5))
    with pytest.raises(sf.MisuseError, match=r"\[100, 50\]"):
        region.read("u", (1, 0))
    with pytest.raises(sf.UnknownVariable, match="has no variable 'y'; it has u, x"):
        region.read("y")
    with pytest.raises(sf.UnknownVariable):
        region.read("y", shape=3, dtype="f8")
    into.flags.writeable = False
    with pytest.raises(sf.MisuseError, match="read-only"):
        region.read("x", (0, 2), out=into)
    region.unlink()
    with pytest.raises(sf.NoCheckpoint, match="3"):
        sf.recover("heat", checkpoints=store, version=3)


@pytest.mark.parametrize("cold", [False, True])
def test_an_array_kept_over_close_stays_whatever_the_next_producer_publishes(cold: bool) -> None:
    with sf.create("heat") as region:
        u = region.array("u", (600_000,))
        u[:] = 1
        for version in range(1, 120 if cold else 2):
            u[7] = version
            region.publish(version)
        if cold:
            kept = u
        del u
    if not cold:
        with sf.create("heat") as region:
            assert region.recovered == 1
            kept = region.array("u", (600_000,))
    expected = kept.copy()
    with sf.create("heat") as region:
        again = region.array("u", (600_000,))
        for value in (5, 6, 7):
            again[:] = value
            region.publish(1000 + value)
        assert np.array_equal(kept, expected)


def run(ranks: int, version: int, store: Path) -> str:
    """A run of so many ranks that checks what it begins with, and goes one version on. Those of odd versions balance their
    load before they begin: the first rank has one row more, the last one less."""
    regions, kinds = [], set()
    for rank in range(ranks):
        region, origin = sf.recover("plate", checkpoints=store, rank=rank, ranks=ranks)
        assert (origin.version or 0) == version - 1
        kinds.add(origin.kind)
        shapes = {name: found.shape for name, found in region.recovered_variables().items()}
        assert shapes == ({"u": (13, 6), "x": (13, 6)} if version > 1 else {})
        regions.append(region)
    rows = [13 * rank // ranks for rank in range(ranks + 1)]
    balanced = [0, *(row + version % 2 for row in rows[1:-1]), 13]
    plate = np.arange(13.0 * 6).reshape(13, 6)
    arrays = []
    for rank, region in enumerate(regions):
        top, bottom = rows[rank : rank + 2]
        region.array("u", (bottom - top, 6), part=((top, 0), (13, 6)))
        region.fill("u")
        region.track("x", dtype="f8", part=((top, 0), (13, 6)))
        top, bottom = balanced[rank : rank + 2]
        part = ((top, 0), (13, 6))
        u, x = region.repart("u", (bottom - top, 6), part), np.zeros((bottom - top, 6))
        region.repart("x", x.shape, part)
        region.track("x", x, part=part)
        region.fill("u")
        assert u is not None
        if version > 1:
            region.read("x", out=x)
            assert np.array_equal(u, plate[top:bottom] + version - 1) and np.array_equal(x, u)
        arrays.append((u, x, plate[top:bottom] + version))
    for region, (u, x, after) in zip(regions, arrays, strict=True):
        u[:], x[:] = after, after
        region.publish(version)
    with sf.checkpoint("plate", store, once=True) as checkpointer:
        assert checkpointer.wait_safe(version, 60)
    del u, arrays
    for region in regions:
        region.close()
    return kinds.pop()


def test_a_group_goes_on_with_any_number_of_ranks(tmp_path: Path) -> None:
    assert run(4, 1, tmp_path / "ckpt") == "fresh"
    assert run(3, 2, tmp_path / "ckpt") == "memory"
    sf.remove("plate")
    assert run(6, 3, tmp_path / "ckpt") == "checkpoint"
    assert run(6, 4, tmp_path / "ckpt") == "memory"


def test_a_checkpointer_saves_what_is_published_and_says_what_is_safe(tmp_path: Path) -> None:
    store = tmp_path / "ckpt"
    with sf.create("saved") as region:
        u = region.array("u", 5000, dtype="i4")
        region.publish(1)
        assert sf.newest_safe(store) is None and not sf.is_safe(store, 1) and not sf.wait_safe(store, 1, timeout=0.01)
        with sf.checkpoint("saved", store, every=10, keep=2, keep_every=20, compress="lz4") as checkpointer:
            with pytest.raises(sf.InUse, match="writes checkpoints into"):
                sf.checkpoint("saved", store)
            with pytest.raises(sf.MisuseError, match="nice"):
                sf.checkpoint("saved", tmp_path / "other", nice=20)
            for version in range(2, 51):
                u[version] = version
                region.publish(version)
                if version % 10 == 0:
                    assert checkpointer.wait_safe(version, 60)
            assert not checkpointer.wait_safe(51, 0.01)
            assert checkpointer.wait_safe_from(31, 0.01) == 50 and checkpointer.wait_safe_from(51, 0.01) is None
            status = checkpointer.status()
            assert (status.state, status.newest_safe, status.error) == ("running", 50, None)
        assert checkpointer.status().state == "ended" and checkpointer.stop().saved == status.saved
        with pytest.raises(sf.MisuseError, match="stopped"):
            checkpointer.wait_safe(50)
        assert [version for version in range(51) if sf.is_safe(store, version)] == [20, 40, 50]
        assert sf.wait_safe(store, 50) and sf.newest_safe(store) == 50
        assert sf.wait_safe_from(store, 31) == 50 and sf.wait_safe_from(store, 51, timeout=0.01) is None
        del u


def test_a_checkpointer_waits_for_the_program_and_for_its_next_run(tmp_path: Path) -> None:
    with sf.checkpoint("runs", tmp_path / "ckpt", wait=None, follow=60) as checkpointer:
        for version in (1, 2):
            with sf.create("runs") as region:
                region.track("x", np.full(10, version))
                region.publish(version)
                assert checkpointer.wait_safe(version, 60)
        assert checkpointer.status().state == "running"


def test_a_condition_on_attributes_chooses_what_is_saved(tmp_path: Path) -> None:
    with sf.create("chosen") as region:
        region.track("x", np.zeros(10))
        region.publish(1, attrs={"residual": 1.0})
        with sf.checkpoint("chosen", tmp_path / "ckpt", when="residual < 1e-3") as checkpointer:
            region.publish(2, attrs={"residual": 1e-6})
            assert checkpointer.wait_safe(2, 60) and not sf.is_safe(tmp_path / "ckpt", 1)
        with pytest.raises(sf.MisuseError, match="residual <"):
            sf.checkpoint("chosen", tmp_path / "ckpt", when="residual <")
        with pytest.raises(sf.MisuseError, match="'gzip'"):
            sf.checkpoint("chosen", tmp_path / "ckpt", compress="gzip")  # type: ignore[arg-type]
        with pytest.raises(sf.MisuseError, match="'everybody'"):
            sf.checkpoint("chosen", tmp_path / "ckpt", trust="everybody")
        (tmp_path / "ckpt").chmod(0o777)
        with pytest.raises(sf.ResourceError, match="can be written to by everybody"):
            sf.checkpoint("chosen", tmp_path / "ckpt")
        sf.checkpoint("chosen", tmp_path / "ckpt", trust="any").stop()
    with pytest.raises(sf.NoRegion):
        sf.checkpoint("nobody", tmp_path / "ckpt")


def test_a_checkpointer_is_its_own_process_s(tmp_path: Path) -> None:
    with sf.create("forked") as region:
        region.track("x", np.zeros(10))
        region.publish(1)
        checkpointer = sf.checkpoint("forked", tmp_path / "ckpt")
        assert checkpointer.wait_safe(1, 60)
        child = os.fork()
        if child == 0:
            try:
                checkpointer.status()
            except sf.ForkError:
                del checkpointer
                os._exit(3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert checkpointer.stop().newest_safe == 1
