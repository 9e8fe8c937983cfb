"""Arenas: many regions in one file."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import stillframe as sf
from conftest import Spawn

MIB = 1 << 20


def make(name: str = "pool", mib: int = 1024) -> sf.Arena:
    return sf.Arena.create(name, bytes=mib * MIB, regions=100)


def test_many_regions_lie_in_one_arena_and_are_found_by_its_name(regions: Path) -> None:
    with make() as arena:
        assert (arena.name, arena.path, arena.nbytes) == ("pool", regions / "pool", 1024 * MIB)
        all_regions = [sf.create(f"r{number}", arena=arena) for number in range(10)]
        arrays = [region.array("u", (100,)) for region in all_regions]
        for number, (region, u) in enumerate(zip(all_regions, arrays, strict=True)):
            u[:] = number
            region.publish(1)
            assert region.name == f"pool/r{number}"
        usage = arena.usage()
        assert (usage.nbytes, usage.regions_max, len(usage.regions)) == (1024 * MIB, 100, 10)
        assert usage.tables_bytes > 0 and usage.small_chunks > 0
        assert 0 < usage.free_chunks * 2 * MIB <= usage.free_bytes < usage.nbytes
        assert usage.regions[3].name == "r3" and usage.regions[3].nbytes > 0 and not usage.regions[3].removed
    # They go on when the arena is closed.
    with pytest.raises(sf.MisuseError, match="the arena is closed"):
        arena.usage()
    assert [info.name for info in sf.list()] == [f"pool/r{number}" for number in range(10)]
    for number, (region, u) in enumerate(zip(all_regions, arrays, strict=True)):
        u[0] = -1
        region.publish(2)
        with sf.open(f"pool/r{number}") as observer:
            assert observer.name == f"pool/r{number}"
            held = observer.newest()
            assert held["u"][0] == -1 and (held["u"][1:] == number).all()
    for region in all_regions:
        region.unlink()
    assert sf.list() == []


def test_the_next_producer_goes_on_from_what_a_killed_one_left(spawn: Spawn) -> None:
    producer = spawn("""
        import os, signal
        region = sf.create("u", arena=sf.Arena.create("pool", bytes=1 << 30))
        u = region.array("u", (1000,))
        for version in range(1, 8):
            u[:] = version
            region.publish(version)
        print("ready")
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert producer.hear() == "ready"
    assert producer.process.wait(60) == -signal.SIGKILL
    with sf.Arena.open("pool") as arena, sf.create("u", arena=arena) as region:
        assert region.recovered == 7
        u = region.array("u", (1000,))
        assert (u == 7).all()
        with pytest.raises(sf.InUse):
            sf.create("u", arena=arena)
        u[5] = 8
        region.publish(8)
        assert sf.open("pool/u").newest()["u"][5] == 8
    sf.remove("pool/u")
    with pytest.raises(sf.NoRegion):
        sf.open("pool/u")


def test_a_run_in_an_arena_recovers_from_memory_and_from_checkpoints(tmp_path: Path) -> None:
    with make() as arena, sf.Arena.from_descriptor(os.memfd_create("test"), "vm", bytes=1024 * MIB) as handed:
        for within, name in ((arena, "pool/u"), (handed, "vm/u")):
            region, origin = sf.recover("u", arena=within)
            with region:
                assert (origin.kind, region.name) == ("fresh", name)
                region.array("u", (1000,))[:] = 3
                region.publish(1)
            region, origin = sf.recover("u", arena=within)
            with region:
                assert (origin.kind, origin.version) == ("memory", 1)
                assert (region.array("u", (1000,)) == 3).all() and (region.read("u") == 3).all()
        with sf.checkpoint("pool/u", tmp_path / "ckpt", once=True) as checkpointer:
            assert checkpointer.wait_safe(1, timeout=60)
        sf.remove("pool/u")
        region, origin = sf.recover("u", checkpoints=tmp_path / "ckpt", arena=arena)
        with region:
            assert (origin.kind, origin.version) == ("checkpoint", 1)
            assert (region.array("u", (1000,)) == 3).all()


def test_an_arena_that_is_full_says_who_has_how_much() -> None:
    with make("full", 16) as arena, sf.create("big", arena=arena, rule="fail") as region:
        u = region.array("u", (3 * MIB,), "u1")
        held = []
        with pytest.raises(sf.OutOfSpace, match=r"arena 'full' .*/full.* has \d+ of its 16777216 bytes free.*'big' has \d+"):
            for version in range(1, 20):
                u[:] = version
                region.publish(version)
                held.append(sf.open("full/big").newest())
        assert len(held) >= 2 and all((snapshot["u"] == snapshot.version).all() for snapshot in held)
        assert len(arena.usage().regions) == 1
        with pytest.raises(sf.OutOfSpace, match="arena 'full'"):
            other = sf.create("other", arena=arena, rule="fail")
            other.array("u", (3 * MIB,), "u1")[:] = 1
            other.publish(1)
        held.clear()
        # What was written is part of the next version.
        region.publish(100)
        assert (sf.open("full/big").newest()["u"] == u).all()


def test_the_rules_of_regions_hold_in_a_full_arena() -> None:
    with make("full", 16) as arena, sf.create("big", arena=arena, rule="skip") as region:
        u = region.array("u", (3 * MIB,), "u1")
        held = []
        skipped = False
        for version in range(1, 20):
            u[:] = version
            skipped = region.publish(version).skipped
            if skipped:
                break
            held.append(sf.open("full/big").newest())
        assert skipped and len(held) >= 2
        held.clear()
        assert not region.publish(100).skipped


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_arena_may_be_handed_in(kind: str, tmp_path: Path, spawn: Spawn) -> None:
    number = os.memfd_create("test") if kind == "memory" else os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(number, True)
    with os.fdopen(number, "r+b") as file, sf.Arena.from_descriptor(file, "vm", bytes=64 * MIB) as arena:
        with pytest.raises(sf.NoRegion):
            sf.open("u", arena=arena)
        with sf.create("u", arena=arena) as region:
            u = region.array("u", (1000,))
            u[:] = 5
            region.publish(1)
            with sf.open("u", arena=arena) as observer:
                assert observer.name == "vm/u"
                assert (observer.newest()["u"] == 5).all()
            # Another process is handed the right to read, and can do just that.
            read = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY)
            os.set_inheritable(read, True)
            code = f"""
                arena = sf.Arena.from_descriptor({read}, "vm")
                with sf.open("u", arena=arena) as observer:
                    print(observer.newest()["u"].sum())
                try:
                    sf.create("v", arena=arena)
                except sf.MisuseError as error:
                    print("opened to look only" in str(error))
            """
            child = spawn(code, pass_fds=(read,))
            assert child.hear() == "5000.0" and child.hear() == "True"
            child.end()
            os.close(read)
        assert [used.name for used in arena.usage().regions] == ["u"]
    with pytest.raises(sf.MisuseError, match="descriptor -1 is none"):
        sf.Arena.from_descriptor(-1, "vm", bytes=64 * MIB)
    with pytest.raises(sf.MisuseError, match="Bad file descriptor"):
        sf.Arena.from_descriptor(1 << 20, "vm", bytes=64 * MIB)


def handed_in(name: str) -> sf.Arena:
    number = os.memfd_create("test")
    try:
        return sf.Arena.from_descriptor(number, name, bytes=64 * MIB)
    finally:
        os.close(number)


def test_a_group_in_an_arena_that_was_handed_in_is_observed_as_one(regions: Path) -> None:
    with handed_in("vm") as arena, handed_in("other") as other:
        ranks = [sf.create("g", arena=arena, rank=rank, ranks=2, keep=2) for rank in range(2)]
        assert [region.name for region in ranks] == ["vm/g/0", "vm/g/1"]
        for rank, region in enumerate(ranks):
            u = region.array("u", (1000,))
            # Rank 0 is a version ahead.
            for version in range(1, 4 - rank):
                u[:] = 10 * version + rank
                region.publish(version)
        with sf.open_group("g", arena=arena) as group:
            assert (group.name, group.size, group.versions()) == ("vm/g", 2, [1, 2])
            for version in (1, 2):
                with group.version(version) as held:
                    assert held.version == version and len(held) == 2
                    assert all((part["u"] == 10 * version + rank).all() for rank, part in enumerate(held))
            with pytest.raises(sf.VersionGone, match="'vm/g/1'"):
                group.version(3)
            with pytest.raises(sf.Timeout, match="'vm/g'"):
                group.next(2, timeout=0.001)
        # Nobody finds it by a name, nor in another arena.
        with pytest.raises(sf.NoRegion, match="'vm/g'"):
            sf.open_group("vm/g")
        with pytest.raises(sf.NoRegion, match="'g'"):
            sf.open_group("g", arena=other)
        with pytest.raises(sf.Timeout, match="'g'"):
            sf.open_group("g", arena=other, wait=0.001)
        with pytest.raises(sf.MisuseError, match="'g/0'"):
            sf.open_group("g/0", arena=arena)
        with pytest.raises(sf.MisuseError, match="'g'"):
            sf.open("g", arena=arena)
        with pytest.raises(sf.MisuseError, match="dir has no meaning"):
            sf.open_group("g", arena=arena, dir=regions)
        for region in ranks:
            region.unlink()
    with pytest.raises(sf.MisuseError, match="the arena is closed"):
        sf.open_group("g", arena=arena)


def test_what_cannot_be_is_refused(regions: Path) -> None:
    with pytest.raises(sf.NoArena, match="there is no arena 'none'"):
        sf.Arena.open("none")
    with pytest.raises(sf.MisuseError, match="not between"):
        sf.Arena.create("none", bytes=0)
    with pytest.raises(sf.MisuseError, match=r"Arena.create\(name"):
        sf.Arena("none")  # type: ignore[arg-type]
    with pytest.raises(sf.MisuseError, match="locks the owner out"):
        sf.Arena.create("none", bytes=16 * MIB, mode=0o070)
    with make("pool", 16) as arena:
        with pytest.raises(sf.MisuseError, match="'pool' is there already"):
            make("pool", 32)
        with pytest.raises(sf.MisuseError, match="dir has no meaning"):
            sf.create("u", arena=arena, dir=regions)
        with pytest.raises(sf.MisuseError, match="dir has no meaning"):
            sf.open("u", arena=arena, dir=regions)
    with sf.Arena.open("pool", look=True) as look:
        assert look.usage().regions == []
        with pytest.raises(sf.MisuseError, match="opened to look only"):
            sf.create("u", arena=look)
    with pytest.raises(sf.MisuseError, match="the arena is closed"):
        sf.create("u", arena=look)
    os.truncate(regions / "pool" / "arena", 100)
    with pytest.raises(sf.CorruptError, match="arena"):
        sf.Arena.open("pool")


def test_threads_make_regions_in_one_arena() -> None:
    failures: list[BaseException] = []
    with make() as arena:

        def work(number: int) -> None:
            try:
                for round in range(10):
                    with sf.create(f"r{number}", arena=arena, threads=1) as region:
                        u = region.array("u", (10,))
                        u[:] = round
                        region.publish(round + 1)
                        assert (sf.open(f"pool/r{number}").newest()["u"] == round).all()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(arena.usage().regions) == 4


def test_an_arena_of_the_parent_is_refused_in_a_child() -> None:
    with make() as arena, sf.create("parent", arena=arena, threads=1) as region:
        u = region.array("u", (10,))
        u[:] = 1
        region.publish(1)
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(sf.ForkError):
                    arena.usage()
                with pytest.raises(sf.ForkError):
                    sf.create("child", arena=arena)
                with sf.Arena.open("pool") as own:
                    with pytest.raises(sf.InUse):
                        sf.create("parent", arena=own)
                    with sf.create("child", arena=own, threads=1) as mine:
                        np.copyto(mine.array("u", (10,)), 2)
                        mine.publish(1)
                os._exit(0 if (sf.open("pool/parent").newest()["u"] == 1).all() else 2)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (sf.open("pool/child").newest()["u"] == 2).all()
        u[:] = 3
        region.publish(2)
        assert (sf.open("pool/parent").newest()["u"] == 3).all()


#: The byte that is locked by whoever changes records: docs/format.md.
CREATE_AT = 4611686018429485056


def test_who_waits_long_for_a_process_that_is_stopped_in_the_middle_is_told() -> None:
    with make("busy", 16) as arena:
        path = arena.path / "lease.producer"
        with path.open("r+b") as other:
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, CREATE_AT, 1, 0)
            fcntl.fcntl(other, fcntl.F_OFD_SETLK, lock)
            with pytest.raises(sf.Timeout, match="arena 'busy': waited .* for another process"):
                sf.create("u", arena=arena)
        sf.create("u", arena=arena).unlink()
