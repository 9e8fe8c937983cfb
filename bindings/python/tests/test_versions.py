"""Versions, waiting, and what goes wrong."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import stillframe as sf


def test_a_version_says_what_it_is() -> None:
    before = time.time_ns()
    with sf.create("melt") as region:
        assert region.name == "melt"
        assert region.recovered is None
        assert region.newest is None
        region.array(
            "u",
            (4, 4),
            "f4",
            units="K",
            attrs={"long_name": "temperature", "periodic": True},
        )
        published = region.publish(
            7,
            attrs={
                "time": np.float32(0.5),
                "step": np.int64(3),
                "name": "run",
                "ok": True,
                "flag": np.bool_(False),
            },
        )
        assert published.version == 7 and not published.skipped
        assert 0 < published.total_pages >= published.copied_pages
        assert published.seconds > 0
        assert region.newest == 7
        with sf.open("melt") as observer:
            assert observer.name == "melt" and observer.alive
            snapshot = observer.newest()
            assert snapshot.version == 7
            assert snapshot.attrs == {
                "time": 0.5,
                "step": 3,
                "name": "run",
                "ok": True,
                "flag": False,
            }
            assert snapshot.attrs["ok"] is True
            assert before <= snapshot.published_ns <= time.time_ns()
            variable = snapshot.variables["u"]
            assert (variable.shape, variable.order, variable.units) == (
                (4, 4),
                "C",
                "K",
            )
            assert variable.attrs == {"long_name": "temperature", "periodic": True}
            assert variable.nbytes == 64 and variable.itemsize == 4
            assert "u" in snapshot and len(snapshot) == 1 and list(snapshot) == ["u"]
            assert [info.version for info in observer.versions()] == [7]
        stats = region.stats()
        assert stats["published"] == 1 and stats["skipped"] == 0
        assert set(stats) == {
            "published", "skipped", "dirty_pages", "copied_pages", "total_pages",
            "plane_bytes", "working_bytes", "publish_seconds", "tracker",
        }  # fmt: skip


def test_what_changed_is_told_in_elements() -> None:
    with sf.create("r", keep=4) as region:
        u = region.array("u", (100_000,))
        u[:] = 1
        region.publish(1)
        u[50_000] = 2
        region.publish(2)
        observer = sf.open("r")
        old, new = observer.version(1), observer.version(2)
        ranges = new.changed(old, "u")
        assert any(start <= 50_000 < stop for start, stop in ranges)
        inside = np.zeros(100_000, bool)
        for start, stop in ranges:
            inside[start:stop] = True
        assert (old["u"][~inside] == new["u"][~inside]).all()
        assert new.changed(new, "u") == []
        assert new.read("u", 49_999, 50_002).tolist() == [1, 2, 1]
        with pytest.raises(sf.MisuseError):
            new.read("u", 5, 100_001)


def test_arrays_come_along_from_version_to_version() -> None:
    with sf.create("r", keep=3) as region, sf.create("other") as other:
        u = region.array("u", (100_000,))
        region.publish(0)
        snapshot = sf.open("r").newest()
        held = snapshot["u"]
        for version in range(1, 20):
            u[version::5000] += version
            region.publish(version)
            snapshot = snapshot.advance(sf.open("r").newest())
            assert snapshot.version == version
            assert (snapshot["u"] == u).all()
        assert not held.any(), "an array that is still referred to stays as it was"

        other.array("u", (10,))
        other.publish(0)
        with pytest.raises(sf.MisuseError, match="other"):
            snapshot.advance(sf.open("other").newest())
        with pytest.raises(sf.MisuseError, match="its own next"):
            snapshot.advance(snapshot)
        assert (snapshot["u"] == u).all()
        later = snapshot.advance(sf.open("r").newest())
        with pytest.raises(sf.MisuseError, match="closed"):
            snapshot.advance(later)


@pytest.mark.parametrize("offset", [0, 1, 3, 8])
def test_chunks_are_whole_elements_wherever_pages_end(offset: int) -> None:
    cell = np.dtype([("a", "f8"), ("b", "i4"), ("c", "i1")])
    memory = np.zeros(13 * 5000 + 64, np.uint8)
    x = memory[offset : offset + 13 * 5000].view(cell)
    x["b"] = np.arange(5000)
    with sf.create("r") as region:
        region.track("x", x)
        region.publish(1)
        x["b"][::700] = -1
        region.publish(2)
        snapshot = sf.open("r").newest()
        at = 0
        for chunk in snapshot.chunks("x"):
            assert chunk.start == at
            assert np.array_equal(chunk.data, x[at : at + len(chunk.data)])
            at += len(chunk.data)
        assert at == 5000


def test_errors_have_names() -> None:
    with pytest.raises(sf.NoRegion):
        sf.open("nothing")
    start = time.monotonic()
    with pytest.raises(sf.Error):
        sf.open("nothing", wait=0.3)
    assert time.monotonic() - start >= 0.3
    with sf.create("r", keep=1) as region:
        with pytest.raises(sf.InUse):
            sf.create("r")
        u = region.array("u", (4,))
        observer = sf.open("r")
        with pytest.raises(sf.NoVersion):
            observer.newest()
        for version in (1, 2, 3):
            u[:] = version
            region.publish(version)
        with pytest.raises(sf.MisuseError, match="3"):
            region.publish(3)
        with pytest.raises(sf.VersionGone) as gone:
            observer.version(99)
        assert (gone.value.version, gone.value.newest) == (99, 3)
        with pytest.raises(KeyError, match="no variable 'v'; it has u"):
            observer.newest()["v"]
        with pytest.raises(sf.UnknownVariable):
            region.remove("v")
        with pytest.raises(sf.MisuseError, match="managed"):
            region.publish(4, arrays={"u": np.zeros(4)})
        with pytest.raises(TimeoutError):
            observer.next(after=3, timeout=0.05)
        with pytest.raises(sf.MisuseError, match="attribute t"):
            region.publish(4, attrs={"t": object()})
        with pytest.raises(sf.MisuseError):
            region.publish(4, attrs={"t": 1 << 70})
        with pytest.raises(sf.MisuseError, match="timeout"):
            observer.next(timeout=-1.0)
        with pytest.raises(sf.MisuseError, match="greatest number.*18446744073709551614 at most"):
            region.publish((1 << 64) - 1)
        observer.close()
        with pytest.raises(sf.MisuseError, match="closed"):
            observer.newest()
    with pytest.raises(sf.MisuseError, match="closed"):
        region.publish(4)
    with pytest.raises(sf.MisuseError):
        sf.create("r", rule="sometimes")  # type: ignore[arg-type]
    with pytest.raises(sf.Error):
        sf.create("bad name!")
    assert issubclass(sf.Timeout, TimeoutError) and issubclass(sf.MisuseError, ValueError)


@pytest.mark.parametrize("number", [-1, 1 << 64, 1 << 70])
def test_numbers_that_are_none_of_theirs_are_refused_by_name(number: int, tmp_path: Path) -> None:
    n: Any = number
    with sf.create("r") as region:
        region.array("u", 8)
        region.publish(1)
        observer, dir = sf.open("r"), tmp_path / "checkpoints"
        snapshot, shared = observer.newest(), sf.create_object("o", "var g [4]int32")
        arena = {"bytes": 1 << 26}
        for what, call in [
            *((key, partial(sf.create, "x", **{key: n})) for key in ("keep", "bound", "threads", "rollback", "mode")),
            *((key, partial(sf.create, "x", **{"rank": 0, "ranks": 1, key: n})) for key in ("rank", "ranks", "drift")),
            *((key, partial(sf.recover, "x", checkpoints=dir, **{key: n})) for key in ("keep", "bound", "version")),
            ("version", partial(region.publish, n)),
            ("version", partial(region.publish_start, n)),
            ("shape", partial(region.array, "w", n)),
            ("shape", partial(region.array, "w", (2, n))),
            ("shape", partial(region.array, "w", (2,), part=((n,), (9,)))),
            ("shape", partial(region.resize, "u", n)),
            ("start", partial(region.mark_dirty, "u", n)),
            ("stop", partial(region.mark_dirty, "u", 0, n)),
            ("version", partial(observer.version, n)),
            ("after", partial(observer.next, n, 0)),
            ("after", partial(observer.newest_after, n, 0)),
            ("after", lambda: next(observer.iterate(0, after=n))),
            ("every", lambda: next(observer.iterate(0, every=n))),
            ("elements", partial(snapshot.read, "u", n)),
            ("populate", partial(sf.open, "r", populate=n)),
            ("bytes_per_s", partial(sf.open, "r", polite=sf.Polite(bytes_per_s=n))),
            ("processor", partial(sf.open, "r", polite=sf.Polite(processors=[n]))),
            *((key, partial(sf.checkpoint, "r", dir, **{key: n})) for key in ("every", "keep", "keep_every", "held")),
            *((key, partial(sf.checkpoint, "r", dir, **{key: n})) for key in ("held_bytes", "chunk_bytes", "threads")),
            ("nice", partial(sf.checkpoint, "r", dir, nice=n)),
            ("version", partial(sf.is_safe, dir, n)),
            ("version", partial(sf.wait_safe, dir, n, 0)),
            ("version", partial(sf.wait_safe_from, dir, n, 0)),
            *((key, partial(sf.Arena.create, "a", **(arena | {key: n}))) for key in ("bytes", "regions", "mode")),
            ("descriptor", partial(sf.Arena.from_descriptor, n, "vm", bytes=1 << 26)),
            ("version", partial(shared.at, n)),
            ("threads", partial(shared.read, "{ var x = g }", threads=n)),
        ]:
            with pytest.raises(sf.MisuseError, match=what):
                call()
        with sf.checkpoint("r", dir) as saving:
            for wait in (saving.wait_safe, saving.wait_safe_from):
                with pytest.raises(sf.MisuseError, match="version"):
                    wait(n, 0)


def test_whoever_calls_a_class_is_told_what_makes_its_objects() -> None:
    for kind, what in [
        (sf.Region, r"stillframe\.create\(name\)"),
        (sf.Loan, r"region\.loan\(name\)"),
        (sf.Observer, r"stillframe\.open\(name\)"),
        (sf.Snapshot, r"stillframe\.open\(name\)\.newest\(\)"),
        (sf.Group, r"stillframe\.open_group\(name\)"),
        (sf.GroupSnapshot, r"stillframe\.open_group\(name\)\.newest\(\)"),
        (sf.Checkpointer, r"stillframe\.checkpoint\(name, to\)"),
    ]:
        with pytest.raises(sf.MisuseError, match=f"no {kind.__name__} is made.*{what}"):
            kind()
        with pytest.raises(sf.MisuseError, match=what):
            kind("heat", keep=3)
    assert sf.list() == []


def test_tracked_variables_that_are_left_out_keep_their_content() -> None:
    with sf.create("r") as region:
        region.track("x", dtype="f8")
        region.track("y", dtype="f8")
        region.publish(1, arrays={"x": np.ones(3)})
        assert list(sf.open("r").newest()) == ["x"]
        region.publish(2, arrays={"y": np.full(2, 2.0)})
        with sf.open("r").newest() as snapshot:
            assert snapshot["x"].tolist() == [1, 1, 1]
            assert snapshot["y"].tolist() == [2, 2]


def test_closed_snapshots_say_so() -> None:
    with sf.create("r") as region:
        region.array("u", (4,))
        region.publish(1)
        with sf.open("r").newest() as snapshot:
            u = snapshot["u"]
        with pytest.raises(sf.MisuseError, match="closed"):
            snapshot["u"]
        assert snapshot.version == 1
        assert u.tolist() == [0, 0, 0, 0]


def test_iterating_every_version_leaves_none_out() -> None:
    with sf.create("r", keep=32) as region:
        u = region.array("u", (1000,))
        seen: list[int] = []
        over = threading.Event()

        def produce() -> None:
            for version in range(1, 41):
                # An observer without a processor must not fall behind what is kept for it.
                while version > len(seen) + 16 and not over.wait(0.001):
                    pass
                u[:] = version
                region.publish(version)
                time.sleep(0.002)

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            with sf.open("r", wait=60.0) as observer:
                for snapshot in observer.iterate(timeout=60.0, every=True):
                    with snapshot:
                        assert (snapshot["u"] == snapshot.version).all()
                        seen.append(snapshot.version)
                    if snapshot.version == 40:
                        break
        finally:
            over.set()
            thread.join()
        assert seen == list(range(1, 41))


def test_iterating_gives_the_newest_and_ends_with_the_producer() -> None:
    region = sf.create("r")
    region.array("u", (10,))
    for version in (1, 2, 3):
        region.publish(version)
    seen = []
    with sf.open("r") as observer:
        threading.Timer(0.3, region.close).start()
        for snapshot in observer.iterate(timeout=30.0):
            seen.append(snapshot.version)
        assert not observer.alive
        assert observer.newest().version == 3
    assert seen == [3]


def test_iterating_ends_when_nothing_comes() -> None:
    with sf.create("r") as region:
        region.array("u", (10,))
        region.publish(1)
        start = time.monotonic()
        assert [snapshot.version for snapshot in sf.open("r").iterate(timeout=0.25)] == [1]
        assert time.monotonic() - start >= 0.25


def test_an_iterator_holds_nothing_while_it_waits() -> None:
    with sf.create("r", keep=1) as region:
        u = region.array("u", (1000,))
        region.publish(1)
        observer = sf.open("r")
        iterator = observer.iterate(timeout=10.0)
        with next(iterator) as snapshot:
            assert snapshot.version == 1
        del snapshot
        for version in (2, 3, 4):
            u[:] = version
            region.publish(version)
        with pytest.raises(sf.VersionGone):
            observer.version(1)
        assert next(iterator).version == 4


def test_other_threads_run_while_one_waits() -> None:
    with sf.create("r") as region:
        region.array("u", (10,))
        region.publish(1)
        observer = sf.open("r")
        outcome: list[object] = []

        def wait() -> None:
            try:
                observer.next(after=1, timeout=120.0)
                outcome.append("came")
            except sf.Error as error:
                outcome.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        counted = 0
        until = time.monotonic() + 0.3
        # However slowly: without the interpreter not before the wait ended.
        while counted <= 1000 or time.monotonic() < until:
            counted += 1
        assert not outcome
        region.publish(2)
        thread.join(60)
        assert outcome == ["came"]


PAGES = 64


def crowded(rule: Literal["wait", "skip", "fail"], timeout: float | None = None) -> tuple[sf.Region, sf.Snapshot]:
    """A region with room for two versions, both of which are taken: one is the newest and the other one held."""
    region = sf.create(
        rule,
        keep=1,
        bound=PAGES * 4096 * 5 // 2,
        rule=rule,
        timeout=timeout,
        large_pages=False,
    )
    u = region.array("u", (PAGES * 512,))
    u[:] = 1
    region.publish(1)
    held = sf.open(rule).newest()
    u[:] = 2
    region.publish(2)
    u[:] = 3
    return region, held


@pytest.mark.parametrize("rule", ["wait", "skip", "fail"])
def test_the_rules_at_the_bound(rule: Literal["wait", "skip", "fail"]) -> None:
    # Who waits although its rule says otherwise has an hour to do so, and the watchdog ends it before.
    region, held = crowded(rule, timeout=0.4 if rule == "wait" else 3600.0)
    with region:
        start = time.monotonic()
        if rule == "skip":
            assert region.publish(3).skipped
            assert region.stats()["skipped"] == 1
        else:
            with pytest.raises(sf.OutOfSpace, match="bound"):
                region.publish(3)
        assert time.monotonic() - start >= 0.4 or rule != "wait"
        assert (held["u"] == 1).all()
        held.close()
        assert not region.publish(4).skipped
        assert (sf.open(rule).newest()["u"] == 3).all()


def test_waiting_that_nobody_could_end_is_not_begun() -> None:
    with sf.create("r", keep=1, bound=PAGES * 4096 * 3 // 2, large_pages=False) as region:
        u = region.array("u", (PAGES * 512,))
        u[:] = 1
        region.publish(1)
        u[:] = 2
        with pytest.raises(sf.OutOfSpace, match="0 versions are held"):
            region.publish(2)


def test_a_publish_that_waits_goes_on_when_the_observer_lets_go() -> None:
    region, held = crowded("wait")
    with region:
        start = time.monotonic()
        threading.Timer(0.35, held.close).start()
        assert not region.publish(3).skipped
        assert time.monotonic() - start >= 0.3


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("what", ["next", "open", "publish", "loan"])
def test_control_c_gets_through(what: str) -> None:
    region, held = crowded("wait")
    with region, sf.open("wait") as observer:
        waits = {
            "next": lambda: observer.next(after=2),
            "open": lambda: sf.open("other", wait=None),
            "publish": lambda: region.publish(3),
            "loan": lambda: region.loan("w", (PAGES * 512,)).__enter__(),
        }
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            waits[what]()
        timer.join()
        held.close()
        region.publish(4)
        assert (observer.newest()["u"] == 3).all()


def test_several_threads_share_a_region() -> None:
    with sf.create("r") as region:
        region.array("u", (1000,))
        region.publish(1)
        failures: list[BaseException] = []

        def look() -> None:
            try:
                for _ in range(200):
                    region.stats()
                    with sf.open("r").newest() as snapshot:
                        snapshot["u"].sum()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in range(2, 100):
            region.publish(version)
        for thread in threads:
            thread.join()
        assert not failures


def test_regions_are_listed_and_removed(regions: Path) -> None:
    assert sf.list() == []
    region = sf.create("r")
    region.array("u", (10,))
    region.publish(5)
    (info,) = sf.list()
    assert (info.name, info.state, info.newest) == ("r", "live", 5)
    assert info.path == regions / "r"
    with pytest.raises(sf.Error):
        sf.remove("r")
    region.close()
    assert sf.list(dir=regions)[0].state == "dead"
    sf.remove("r", dir=regions)
    assert sf.list() == []
    with sf.create("r2") as region:
        region.array("u", (10,))
        region.publish(1)
        region.unlink()
        assert sf.list() == []


def test_a_directory_of_ones_own(tmp_path: Path) -> None:
    with sf.create("r", dir=tmp_path) as region:
        region.array("u", (10,))
        region.publish(1)
        assert sf.open("r", dir=tmp_path).newest().version == 1
        with pytest.raises(sf.NoRegion):
            sf.open("r")


def test_threads_enter_what_is_seen_whole() -> None:
    with sf.create("r") as region:
        region.array("u", (1_000_003,))[:] = np.arange(1_000_003)
        region.publish(1)
        assert (sf.open("r", populate=3).newest()["u"] == np.arange(1_000_003)).all()
        with pytest.raises(sf.MisuseError, match="populate"):
            sf.open("r", populate=0)


def test_whose_directories_are_believed(tmp_path: Path) -> None:
    with sf.create("r", dir=tmp_path, trust="own") as region:
        region.publish(1)
        assert sf.open("r", dir=tmp_path, trust="own").newest().version == 1
        for open_it in [sf.open, sf.create, sf.open_group]:
            with pytest.raises(sf.MisuseError, match="everybody"):
                open_it("r", dir=tmp_path, trust="everybody")
    tmp_path.chmod(0o777)
    with pytest.raises(sf.ResourceError, match="can be written to by everybody"):
        sf.create("r", dir=tmp_path)
    sf.create("r", dir=tmp_path, trust="any").unlink()


def test_written_where_the_kernel_does_not_see_it() -> None:
    with sf.create("r") as region:
        region.array("u", (10_000,))
        region.publish(1)
        region.mark_dirty("u", 0, 10)
        assert region.publish(2).copied_pages >= 1
        region.mark_dirty("u")
        assert region.publish(3).copied_pages >= 10_000 * 8 // 4096
        with pytest.raises(sf.MisuseError):
            region.mark_dirty("u", 0, 10_001)


class Device:
    """One that knows pages, not addresses: a pipe that ``vmsplice`` gave the first page of an array."""

    def __init__(self, array: np.ndarray) -> None:
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

        self.end, writer = os.pipe()
        vector = Vector(array.ctypes.data, 4096)
        taken = ctypes.CDLL(None, use_errno=True).vmsplice(writer, ctypes.byref(vector), ctypes.c_ulong(1), 0)
        os.close(writer)
        assert taken == 4096, os.strerror(ctypes.get_errno())

    def sees(self, array: np.ndarray) -> bool:
        """Once only."""
        seen = os.read(self.end, 4096)
        os.close(self.end)
        return seen == array.tobytes()[:4096]


def test_pinned_memory_keeps_its_pages() -> None:
    with sf.create("r", tracker="private_cow") as region:
        early = region.array("early", (1000,), pinned=True)
        late = region.array("late", (1000,))
        early[0] = late[0] = 1
        knows_early, knows_late = Device(early), Device(late)
        for version in range(1, 6):
            region.publish(version)
            early[0] = late[0] = version
        assert knows_early.sees(early)
        assert not knows_late.sees(late)
        region.pin("late")
        assert late[0] == 5
        knows_late = Device(late)
        for version in range(6, 11):
            region.publish(version)
            late[0] = version
        assert knows_late.sees(late)
        assert sf.open("r").newest()["late"][0] == 9
        del early, late
        with pytest.raises(sf.MisuseError, match="'late' is pinned.*unpin"):
            region.resize("late", 1_000_000)
        assert region.resize("late", 2000)[0] == 10
        region.unpin("late")
        assert region.resize("late", 1_000_000)[0] == 10
        with pytest.raises(sf.UnknownVariable):
            region.pin("none")
        with pytest.raises(sf.UnknownVariable):
            region.unpin("none")
        with region.loan("w", (10,)):
            pass
        with pytest.raises(sf.MisuseError, match="loaned"):
            region.pin("w")


def test_an_array_is_pinned_by_asking_for_it_again() -> None:
    with sf.create("r", tracker="private_cow") as region:
        for shape in [(1000,), None]:
            u = region.array("u", (1000,))
            region.unpin("u")
            u[0] = 1
            region.publish((region.newest or 0) + 1)
            region.array("u", shape, pinned=True)
            u[0] = 2
            device = Device(u)
            for _ in range(3):
                region.publish((region.newest or 0) + 1)
                u[0] += 1
            assert device.sees(u)


def test_demotion_can_be_turned_off() -> None:
    working = {}
    for demote in (True, False):
        with sf.create("r", demote=demote, fresh=True) as region:
            if region.stats()["tracker"] not in ("wp_async", "soft_dirty"):
                pytest.skip(f"{region.stats()['tracker']} does not demote")
            u = region.array("u", (1 << 18,))
            u[:] = 1
            for version in range(1, 60):
                u[0] = version
                region.publish(version)
            working[demote] = region.stats()["working_bytes"]
    assert working[True] < 1 << 20 < 1 << 21 <= working[False]


def test_a_region_has_the_mode_asked_for(regions: Path) -> None:
    before = os.umask(0o022)
    try:
        for name, options, expected in [("a", {}, 0o700), ("b", {"mode": 0o755}, 0o755), ("c", {"mode": 0o750}, 0o750)]:
            with sf.create(name, **options) as region:
                region.array("u", (10,))
                region.publish(1)
                assert stat.S_IMODE((regions / name).stat().st_mode) == expected
            region, _ = sf.recover(f"recovered-{name}", **options)
            assert stat.S_IMODE((regions / f"recovered-{name}").stat().st_mode) == expected
            region.unlink()
        with pytest.raises(sf.MisuseError, match="mode"):
            sf.create("d", mode=0o077)
    finally:
        os.umask(before)


def test_memory_for_versions_is_taken_in_the_unit_that_is_asked_for() -> None:
    with pytest.raises(sf.MisuseError, match="small, large"):
        sf.create("r", memory_unit="2M")  # type: ignore[arg-type]
    with sf.create("r", memory_unit="large") as region:
        u = region.array("u", (2 << 20) + 1, dtype="u1")
        u[:] = 1
        region.publish(1)
        assert region.stats()["plane_bytes"] == 4 << 20
