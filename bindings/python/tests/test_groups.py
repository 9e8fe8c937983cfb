"""Ranks of a group in processes of their own, seen as one."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import stillframe as sf
from conftest import Child, Spawn

RANK = """
import sys
rank, ranks = RANK_OF_RANKS
region = sf.create("heat", rank=rank, ranks=ranks)
u = region.array("u", shape=(20, 30))
print("ready", region.name, region.recovered)
for line in sys.stdin:
    version = int(line)
    u[...] = version + rank / 10
    region.publish(version, attrs={"rank": rank})
    print("published", version)
region.close()
"""


def start(spawn: Spawn, rank: int, ranks: int) -> Child:
    child = spawn(RANK.replace("RANK_OF_RANKS", f"{rank}, {ranks}"))
    assert child.hear().startswith(f"ready heat/{rank} ")
    return child


def publish(child: Child, *versions: int) -> None:
    for version in versions:
        child.tell(str(version))
        assert child.hear() == f"published {version}"


def test_a_group_shows_the_version_that_all_ranks_have(spawn: Spawn) -> None:
    ranks = [start(spawn, rank, 3) for rank in range(3)]
    publish(ranks[0], 1, 2, 3, 4)
    publish(ranks[1], 1, 2, 3)
    group = sf.open_group("heat")
    with pytest.raises(sf.RankMissing, match="rank 2 of 3 of group 'heat' has no version yet"):
        group.newest()
    with pytest.raises(sf.Timeout, match="rank 2 of 3 is slowest, at no version"):
        sf.open_group("heat", wait=0.2)
    publish(ranks[2], 1, 2)
    assert (group.name, group.size, group.alive) == ("heat", 3, True)
    assert [(info.rank, info.state, info.newest, info.behind) for info in group.ranks()] == [
        (0, "live", 4, 0),
        (1, "live", 3, 1),
        (2, "live", 2, 2),
    ]
    with group.newest() as snapshot:
        assert snapshot.version == 2
        assert [part.attrs["rank"] for part in snapshot] == [0, 1, 2]
        whole = np.concatenate([part["u"] for part in snapshot])
        assert whole.shape == (60, 30)
        assert np.allclose(np.unique(whole), [2.0, 2.1, 2.2])
    assert 2 in group.versions()
    publish(ranks[2], 3)
    assert group.next(after=2, timeout=60).version == 3
    assert group.version(3).version == 3
    with pytest.raises(sf.Timeout, match=r"waited \d+ ms for a version above 3 of group 'heat': rank"):
        group.newest_after(3, timeout=0.15)
    with pytest.raises(sf.VersionGone, match="heat/1"):
        group.version(4)


def test_a_dead_rank_is_named_and_an_ended_program_ends_the_loop(spawn: Spawn) -> None:
    ranks = [start(spawn, rank, 2) for rank in range(2)]
    for rank in ranks:
        publish(rank, 1)
    group = sf.open_group("heat", wait=60)
    ranks[1].kill()
    publish(ranks[0], 2)
    assert [info.state for info in group.ranks()] == ["live", "dead"]
    with pytest.raises(sf.RankGone, match="rank 1 of 2 of group 'heat' is gone: its newest is version 1"):
        group.newest_after(1, timeout=60)
    seen = []
    with pytest.raises(sf.RankGone):
        seen.extend(snapshot.version for snapshot in group.iterate(timeout=60))
    assert seen == [1]
    ranks[0].kill()
    with pytest.raises(sf.RankGone):
        seen.extend(snapshot.version for snapshot in group.iterate(timeout=60, after=1))


def test_a_program_whose_ranks_end_one_after_another_ends_the_loop() -> None:
    regions = [sf.create("heat", rank=rank, ranks=2) for rank in range(2)]
    for region in regions:
        region.array("u", shape=(10,))
        region.publish(1)
    group = sf.open_group("heat", wait=60)
    regions[0].close()
    closing = threading.Timer(0.1, regions[1].close)
    closing.start()
    assert [snapshot.version for snapshot in group.iterate(timeout=60)] == [1]
    closing.join()


def test_a_fresh_region_begins_with_nothing() -> None:
    for _ in range(2):
        with sf.create("heat", fresh=True) as region:
            assert region.recovered is None and region.array("u", shape=(10,))[0] == 0
            region.array("u")[:] = 1
            region.publish(1)


def test_a_group_starts_again_from_the_version_that_all_ranks_had() -> None:
    regions = [sf.create("heat", rank=rank, ranks=2) for rank in range(2)]
    arrays = [region.array("u", shape=(10,)) for region in regions]
    for rank, last in ((0, 5), (1, 3)):
        for version in range(1, last + 1):
            arrays[rank][:] = version
            regions[rank].publish(version)
    del arrays
    for region in regions:
        region.close()
    common = sf.open_group("heat").newest().version
    assert common == 3
    regions = [sf.create("heat", rank=rank, ranks=2, rollback=common) for rank in range(2)]
    assert [region.recovered for region in regions] == [3, 3]
    for region in regions:
        assert (region.array("u", shape=(10,)) == 3).all()
        region.publish(4)
    assert sf.open_group("heat").newest().version == 4


def test_groups_and_regions_are_told_apart() -> None:
    region = sf.create("heat", rank=0, ranks=2)
    alone = sf.create("alone")
    with pytest.raises(sf.MisuseError, match="'heat' is a group of 2 ranks"):
        sf.open("heat")
    with pytest.raises(sf.MisuseError, match="'alone' is not a group"):
        sf.open_group("alone")
    with pytest.raises(sf.NoRegion):
        sf.open_group("nothing")
    with pytest.raises(sf.MisuseError, match="rank: 2 is not below 2"):
        sf.create("other", rank=2, ranks=2)
    with pytest.raises(sf.MisuseError, match="needs both"):
        sf.create("other", rank=2)
    assert region.name == "heat/0"
    group = sf.open_group("heat")
    group.close()
    with pytest.raises(sf.MisuseError, match="closed"):
        group.newest()
    alone.close()


LAUNCHERS = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
]


@pytest.mark.parametrize(("number", "count"), LAUNCHERS)
def test_a_rank_that_forgets_its_number_is_told_to_say_it(monkeypatch: pytest.MonkeyPatch, number: str, count: str) -> None:
    for name in [name for pair in LAUNCHERS for name in pair]:
        monkeypatch.delenv(name, raising=False)

    def refused(name: str = "heat", **options: int) -> str:
        with pytest.raises(sf.InUse) as told:
            sf.create(name, **options)
        return str(told.value)

    with sf.create("heat"), sf.create("plate", rank=0, ranks=4):
        assert "rank" not in refused()
        monkeypatch.setenv(number, "2")
        monkeypatch.setenv(count, "4")
        words = ["rank 2 of 4", "Python and Fortran: rank=2, ranks=4", ".rank(2, 4)", "stillframe_begin(name, 2, 4)", "end the producer"]
        # Also with `fresh`, which comes to it in another place, and where all say the same number.
        for told in [refused(), refused(fresh=True), refused("plate", rank=0, ranks=4)]:
            assert all(word in told for word in words), told
        monkeypatch.setenv(number, "0")
        assert "rank 0 of 4" not in refused("plate", rank=0, ranks=4)
        # Some said their rank, and this process did not; or the other way round.
        monkeypatch.setenv(number, "2")
        for options in ({}, {"fresh": True}):
            with pytest.raises(sf.MisuseError) as forgotten:
                sf.create("plate", **options)
            words[-1] = "'still rm plate'"
            assert all(word in str(forgotten.value) for word in words), forgotten.value
        with pytest.raises(sf.MisuseError, match="'heat' is a region by itself, of a process that did not say which rank it is"):
            sf.create("heat", rank=2, ranks=4)
        monkeypatch.setenv(count, "1")
        assert "rank" not in refused()
