"""Nodes that die, networks that fall apart, and etcd that ends: what was complete is there, or an error says whose it is."""

import contextlib
import json
import time

import pytest
from conftest import Failed, eventually

#: They wait for leases that run out.
pytestmark = pytest.mark.long

ROWS, COLUMNS = 120, 100
#: A lease whose end is waited for. It is long enough for a node that gets no processor for a while to keep its own.
ENDS_SECONDS = 10


def publish(writers, version):
    for writer in writers:
        writer.do("publish", version=version)


def die(job):
    """Node 2 dies while a reader on node 3 waits for what it writes: writers, reader, and what the reader is told."""
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    reader = job.reader("heat", 2)
    publish(writers, 1)
    assert reader.do("show", version=1, timeout=300) == ROWS * COLUMNS
    writers[0].do("publish", version=2)
    reader.tell("show", version=2, timeout=300)
    assert reader.is_waiting(0.3)
    job.nodes[1].kill()
    job.runtimes.stop(1)
    with pytest.raises(Failed) as failed:
        reader.answer()
    return writers, failed.value


def test_a_node_that_dies_is_named_and_comes_back(job):
    job = job(3, lease_seconds=ENDS_SECONDS)
    lost = job.runtimes.said[1]["node"]
    _, failed = die(job)
    assert failed.kind == "Lost", failed
    for words in ("grid[60..120, 0..100]", "rank 1", f"on node {lost}", "lost"):
        assert words in failed.says, failed

    job.nodes[1].boot()
    job.runtimes.start(1)
    again = job.writers("more", ROWS, COLUMNS, [1, 0])
    reader = job.reader("more", 2)
    publish(again, 1)
    assert reader.do("show", version=1, timeout=300) == ROWS * COLUMNS


def test_a_node_that_died_is_named_though_it_is_back_at_once(job):
    """Long before its lease ends, and with nothing in its memory: nobody has what its writers had."""
    job = job(3)
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    reader = job.reader("heat", 2)
    publish(writers, 1)
    assert reader.do("show", version=1, timeout=300) == ROWS * COLUMNS
    lost = job.runtimes.said[1]["node"]
    job.nodes[1].kill()
    job.runtimes.stop(1)
    job.nodes[1].boot()
    job.runtimes.start(1)
    writers[0].do("publish", version=2)
    with pytest.raises(Failed) as failed:
        reader.do("show", version=2, timeout=60)
    assert failed.value.kind == "Lost" and f"on node {lost}" in failed.value.says, failed.value
    assert "refuses" not in job.runtimes.log(1).read_text()
    again = job.puppet(1)
    again.do("find", name="heat")
    assert again.do("write", first=60, count=60, rank=1, zeros=True, wait=60) == 1
    publish([again], 2)
    assert reader.do("show", version=2, timeout=300) == ROWS * COLUMNS


def test_elements_of_a_node_that_died_are_written_again(job):
    job = job(3, lease_seconds=ENDS_SECONDS)
    writers, _ = die(job)
    job.nodes[1].boot()
    job.runtimes.start(1)
    again, reader = job.puppet(1), job.reader("heat", 2)
    again.do("find", name="heat")
    with pytest.raises(Failed) as failed:
        again.do("write", first=60, count=60, rank=1, wait=10)
    assert failed.value.kind == "Lost" and "`zeros`" in failed.value.says, failed.value
    # At the newest complete version, which this node has not heard of before.
    assert again.do("write", first=60, count=60, rank=1, zeros=True) == 1
    publish([again], 2)
    assert reader.do("show", version=2, timeout=300) == ROWS * COLUMNS
    publish([writers[0], again], 3)
    assert reader.do("newer", after=2, timeout=300) == 3


def part(job, seconds, is_enough=lambda: True):
    """Node 3 is alone for so long, and until it is enough, while the others go on: what its reader is told then, and both readers.

    It may be the home, which another node becomes when its lease ends: until then the others wait."""
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    beside, apart = job.reader("heat", 0), job.reader("heat", 2)
    publish(writers, 1)
    for reader in (beside, apart):
        reader.do("show", version=1, timeout=300)

    begin = time.monotonic()
    job.nodes.partition({0, 1}, {2})
    apart.tell("show", version=2, timeout=0.5)
    for version in (2, 3):
        publish(writers, version)
        assert beside.do("show", version=version, timeout=300) == ROWS * COLUMNS
    with pytest.raises(Failed) as failed:
        apart.answer()
    assert failed.value.kind == "Timeout", failed.value
    time.sleep(max(0, seconds - (time.monotonic() - begin)))
    while not is_enough():
        time.sleep(0.1)
    job.nodes.mend()
    publish(writers, 4)
    assert beside.do("show", version=4, timeout=300) == ROWS * COLUMNS
    return failed.value.says, writers, apart


def test_a_partition_and_its_end(job):
    _, writers, apart = part(job(3, lease_seconds=ENDS_SECONDS), 0.7)
    assert apart.do("follow", last=4, timeout=300)[-1] == 4
    publish(writers, 5)
    assert apart.do("show", version=5, timeout=300) == ROWS * COLUMNS


def test_a_partition_that_is_longer_than_a_lease(job):
    job = job(3, lease_seconds=ENDS_SECONDS)

    def is_lost():
        nodes = json.loads(job.nodes[0].run([job.runtimes.still, "ls", "--json"], cwd="/").stdout)["nodes"]
        return "node3" not in [node["name"] for node in nodes]

    _, _, apart = part(job, 0, is_lost)
    seen = eventually(lambda: apart.do("follow", last=4, timeout=3), Failed)
    assert seen[-1] == 4


def test_no_number_is_complete_on_both_sides_of_a_cut(job):
    """Node 3 has all writers, and is home of some of the objects: it is cut off, and others take its writers' places."""
    job = job(3, etcd_on=0, lease_seconds=3)
    names, first = [f"heat{number}" for number in range(12)], 1
    apart, beside = job.puppet(2, "several.py"), job.puppet(1, "several.py")
    apart.do("create", names=names)
    beside.do("find", names=names)
    for name in names:
        apart.do("write", name=name, wait=60)
        apart.do("publish", name=name, version=first, value=111)
    for puppet in (apart, beside):
        eventually(lambda puppet=puppet: [puppet.do("complete", name=name)[str(first)] for name in names], KeyError)

    job.nodes.partition({0, 1}, {2})
    complete = {name: {} for name in names}
    begins = {}
    version = first
    while len(begins) < len(names):
        # Each side goes on meanwhile, as long as it can.
        version += 1
        for name in names:
            apart.do("publish", name=name, version=version, value=111)
            complete[name].update(apart.do("complete", name=name))
        for name in sorted(set(names) - set(begins)):
            with contextlib.suppress(Failed):
                begins[name] = beside.do("write", name=name, wait=0.1)
                for taken in range(begins[name] + 1, begins[name] + 4):
                    beside.do("publish", name=name, version=taken, value=222)
    for name in names:
        last = str(begins[name] + 3)
        eventually(lambda name=name, last=last: beside.do("complete", name=name)[last], KeyError)
        taken = beside.do("complete", name=name)
        complete[name].update(apart.do("complete", name=name))
        both = complete[name].keys() & taken.keys()
        assert all(complete[name][number] == taken[number] for number in both), (name, complete[name], taken)
        assert set(taken.values()) <= {111, 222} and taken[last] == 222, taken
        assert max(map(int, complete[name])) <= begins[name], (name, complete[name], begins[name])
    job.nodes.mend()


def test_readers_that_are_apart_are_told_whom_they_wait_for(job):
    says, _, _ = part(job(3, lease_seconds=ENDS_SECONDS), 0)
    assert "rank 0" in says and "rank 1" in says and "on node" in says, says


def test_a_node_that_is_alone_says_so_though_nothing_is_sent(job):
    job = job(3, etcd_on=0, lease_seconds=3)
    still = job.runtimes.still

    def look(index, apart):
        """Sees that this node calls those nodes apart, and no others."""
        nodes = json.loads(job.nodes[index].run([still, "ls", "--json"], cwd="/").stdout)["nodes"]
        assert {node["name"] for node in nodes if not (node["is_own"] or node["is_connected"])} == apart, nodes

    for index in range(3):
        eventually(lambda index=index: look(index, set()), AssertionError)
    job.nodes.partition({0, 1}, {2})
    # It hears nothing of etcd, for which it is lost by and by, and goes on to know of both others.
    eventually(lambda: look(2, {"node1", "node2"}), AssertionError)
    waited = job.nodes[2].run([still, "node", "wait", "--nodes", "3", "--timeout", "0"], check=False, cwd="/")
    assert waited.returncode == 1 and "apart are node1" in waited.stderr and "node2" in waited.stderr, waited
    said = job.runtimes.log(2).read_text()
    assert all(f"at {job.nodes[index].address}:" in said for index in (0, 1)) and "has not answered" in said, said
    job.nodes.mend()
    for index in range(3):
        eventually(lambda index=index: look(index, set()), AssertionError)


def test_a_writer_that_is_cut_off_is_named_and_then_heard(job):
    job = job(3, etcd_on=0)
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    reader = job.reader("heat", 2)
    publish(writers, 1)
    reader.do("show", version=1, timeout=300)
    job.nodes[1].cut()
    publish(writers, 2)
    with pytest.raises(Failed) as failed:
        reader.do("show", version=2, timeout=1)
    assert failed.value.kind == "Timeout" and "rank 1" in failed.value.says, failed.value
    job.nodes[1].mend()
    assert reader.do("show", version=2, timeout=300) == ROWS * COLUMNS
    publish(writers, 3)
    assert reader.do("show", version=3, timeout=300) == ROWS * COLUMNS


def go_on(writers, reader, first, seconds, timeout):
    """Publishes and reads for so long; the last version."""
    end, version = time.monotonic() + seconds, first
    while True:
        publish(writers, version)
        assert reader.do("show", version=version, timeout=timeout) == ROWS * COLUMNS
        if time.monotonic() > end:
            return version
        version += 1
        time.sleep(0.05)


@pytest.mark.parametrize("is_empty", [False, True], ids=["with its data", "empty"])
def test_etcd_ends_and_is_back(job, is_empty):
    job = job(3, etcd_on=2, lease_seconds=6)
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    reader = job.reader("heat", 2)
    version = go_on(writers, reader, 1, 0, 30)
    job.runtimes.etcd.kill()
    version = go_on(writers, reader, version + 1, 0.5, 30)
    job.runtimes.etcd.start(is_empty)
    # Longer than the lease that it did not keep alive meanwhile.
    version = go_on(writers, reader, version + 1, 6, 30)
    more = eventually(lambda: job.writers("more", ROWS, COLUMNS, [1]), Failed)
    publish(more, 1)
    assert job.reader("more", 0).do("show", version=1, timeout=300) == ROWS * COLUMNS


def test_a_node_that_was_given_up_when_etcd_lost_its_data_joins_anew(job):
    """Node 3 is cut off while etcd loses its data, for longer than others wait for it, and does not hear that."""
    job = job(3, etcd_on=0, lease_seconds=ENDS_SECONDS)
    names = [f"heat{number}" for number in range(6)]
    apart, beside = job.puppet(2, "several.py"), job.puppet(1, "several.py")
    apart.do("create", names=names)
    beside.do("find", names=names)
    for name in names:
        apart.do("write", name=name, wait=60)
        apart.do("publish", name=name, version=1, value=111)
        eventually(lambda name=name: beside.do("complete", name=name)["1"], KeyError)
    lost = job.runtimes.said[2]["node"]
    job.nodes.partition({0, 1}, {2})
    job.runtimes.etcd.kill()
    job.runtimes.etcd.start(is_empty=True)

    def numbers():
        ls = job.nodes[1].run([job.runtimes.still, "ls", "--json"], cwd="/")
        return {node["name"]: node["number"] for node in json.loads(ls.stdout)["nodes"]}

    def is_so(what):
        assert what(numbers())

    eventually(lambda: is_so(lambda numbers: "node3" not in numbers), AssertionError)
    job.nodes.mend()
    eventually(lambda: is_so(lambda numbers: numbers.get("node3", lost) > lost), AssertionError)
    for name in names:
        version = 1

        def publish_next(name=name):
            nonlocal version
            # Far above what the home may have come to that others had meanwhile.
            version += 1000
            apart.do("publish", name=name, version=version, value=version)
            assert beside.do("newest", name=name) >= 1000

        eventually(publish_next, AssertionError)


def test_reading_goes_on_without_etcd(job):
    job = job(3, etcd_on=2, lease_seconds=6)
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    reader = job.reader("heat", 2)
    version = go_on(writers, reader, 1, 0, 30)
    job.runtimes.etcd.kill()
    # Longer than the lease that nobody keeps alive meanwhile.
    go_on(writers, reader, version + 1, 7, 60)
