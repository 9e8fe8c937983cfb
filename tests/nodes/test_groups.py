"""Groups over nodes: a program of four ranks, two on each of two nodes, is one group for observers on any."""

import json

import pytest
from conftest import Failed, eventually

SHAPE = [200, 30]


class Ranks:
    """Four ranks on the first two nodes of three, each a program of its own, and observers."""

    def __init__(self, job):
        self.job = job
        self.ranks = [self.start(rank) for rank in range(4)]

    def start(self, rank):
        puppet = self.job.puppet(rank // 2, "rank.py", "rank")
        puppet.do("begin", name="heat", rank=rank, ranks=4, shape=SHAPE)
        return puppet

    def publish(self, version, ranks=range(4)):
        for rank in ranks:
            self.ranks[rank].do("publish", version=version)

    def observer(self, node, wait=30):
        puppet = self.job.puppet(node, "rank.py", "observer")
        assert puppet.do("open", name="heat", wait=wait) == 4
        return puppet

    def still(self, node, *words):
        return self.job.nodes[node].run([self.job.runtimes.still, *words], cwd="/").stdout


@pytest.fixture
def ranks(job):
    return lambda **how: Ranks(job(3, **how))


def test_observers_on_every_node_see_whole_versions(ranks):
    ranks = ranks()
    ranks.publish(1)
    observers = [ranks.observer(node) for node in range(3)]
    for observer in observers:
        assert observer.do("newest") == 1
        observer.tell("follow", last=150, timeout=300)
    for rank in ranks.ranks:
        rank.tell("publish_all", first=2, last=150, pause_ms=5)
    for rank in ranks.ranks:
        rank.answer()
    for observer in observers:
        seen = observer.answer()
        assert seen[-1] == 150, seen


def test_who_comes_late_and_the_command_line(ranks):
    ranks = ranks()
    for version in (1, 2, 3):
        ranks.publish(version)
    for node in range(3):
        listed = json.loads(ranks.still(node, "ls", "--json"))["groups_over_nodes"]
        assert [(group["name"], group["living"], group["newest"]) for group in listed] == [("heat", 4, 3)]
        assert "4/4 live" in ranks.still(node, "ls")
        assert ranks.still(node, "get", "heat/3", "u[0, 0]").strip() == str(3 * 1_000_003 + 3 * 100_003)
    for rank in ranks.ranks:
        rank.do("end")
    late = ranks.observer(2)
    assert late.do("newest") == 3
    with pytest.raises(Failed) as failed:
        late.do("next", after=3, timeout=300)
    assert failed.value.kind == "ProducerGone", failed.value


def test_a_node_that_dies_is_named_with_its_ranks_and_comes_back(ranks):
    # Its end is waited for; long enough for a node that gets no processor for a while to keep its own.
    ranks = ranks(lease_seconds=10)
    ranks.publish(1)
    observer = ranks.observer(2)
    assert observer.do("newest") == 1
    ranks.publish(2, ranks=[0, 1])
    observer.tell("next", after=1, timeout=300)
    assert observer.is_waiting(0.3)
    ranks.job.nodes[1].kill()
    ranks.job.runtimes.stop(1)
    with pytest.raises(Failed) as failed:
        observer.answer()
    assert failed.value.kind == "RankGone", failed.value
    assert "is lost, which had ranks 2, 3" in failed.value.says, failed.value
    # What all had stays, and nothing is mixed with it.
    assert observer.do("newest") == 1

    ranks.job.nodes[1].boot()
    ranks.job.runtimes.start(1)
    for rank in (2, 3):
        ranks.ranks[rank] = ranks.start(rank)
    ranks.publish(3)
    assert eventually(lambda: observer.do("next", after=1, timeout=5), Failed) == 3


def test_ranks_go_on_without_runtimes_and_across_a_cut(ranks):
    ranks = ranks()
    ranks.publish(1)
    observer = ranks.observer(2)
    assert observer.do("newest") == 1
    ranks.job.nodes[1].cut()
    ranks.publish(2)
    with pytest.raises(Failed) as failed:
        observer.do("next", after=1, timeout=1)
    assert failed.value.kind == "Timeout" and "ranks 2, 3 are on node" in failed.value.says, failed.value
    ranks.job.nodes[1].mend()
    ranks.publish(3)
    assert observer.do("next", after=1, timeout=300) in (2, 3)

    # The runtime of who looks is killed, and what it showed is removed by the next one.
    ranks.job.runtimes.stop(2)
    ranks.publish(4)
    ranks.job.runtimes.start(2)
    ranks.publish(5)
    assert eventually(lambda: observer.do("next", after=4, timeout=5), Failed) == 5
    # So is that of a node with ranks, which publish on.
    ranks.job.runtimes.stop(1)
    ranks.publish(6)
    ranks.job.runtimes.start(1)
    ranks.publish(7)
    assert eventually(lambda: observer.do("next", after=6, timeout=5), Failed) == 7


def test_delay_and_loss_mix_nothing(ranks):
    ranks = ranks(delay_ms=10, loss=0.01)
    ranks.publish(1)
    observer = ranks.observer(2)
    assert observer.do("newest") == 1
    for rank in ranks.ranks:
        rank.tell("publish_all", first=2, last=100, pause_ms=20)
    assert observer.do("follow", last=100, timeout=300)[-1] == 100
    for rank in ranks.ranks:
        rank.answer()
