"""Objects whose writers and readers are on several nodes."""

import json
import subprocess

import pytest
from conftest import Failed, eventually
from puppet import value

ROWS, COLUMNS = 240, 500


def test_what_two_nodes_write_a_third_one_reads(job):
    job = job(3)
    upper, lower = job.writers("heat", ROWS, COLUMNS, [0, 1])
    elsewhere = job.reader("heat", 2)
    beside = job.reader("heat", 1)
    for version in range(1, 6):
        for reader in (elsewhere, beside):
            reader.tell("show", version=version, timeout=300)
        upper.do("publish", version=version)
        lower.do("publish", version=version)
        assert elsewhere.answer() == beside.answer() == ROWS * COLUMNS
    # Who asks for a version by its number has it with its elements, and its node hears only then that it is complete.
    assert elsewhere.do("newer", after=4, timeout=300) == 5
    got = job.nodes[2].run([job.runtimes.still, "get", "heat", "grid[239, 499]"]).stdout
    assert got.split()[-1] == str(value(5, ROWS * COLUMNS - 1))
    nodes = json.loads(job.nodes[2].run([job.runtimes.still, "ls", "--json"]).stdout)["nodes"]
    assert sorted(node["name"] for node in nodes) == ["node1", "node2", "node3"], nodes
    came = [node["received_bytes"] for node in nodes if node["is_connected"]]
    assert len(came) == 2 and sum(came) > 5 * 8 * ROWS * COLUMNS, nodes


def test_a_complete_version_is_read_by_its_number_without_waiting_for_anybody(job):
    job = job(2)
    writer, reader = job.puppet(0), job.puppet(1)
    writer.do("create", name="heat", rows=ROWS, columns=COLUMNS)
    writer.do("write", first=0, count=ROWS, rank=0)
    reader.do("find", name="heat")
    for version in (1, 2):
        writer.do("publish", version=version)
    eventually(lambda: assert_newest(reader, 2), AssertionError)
    # Each is the first that is read of these elements.
    assert reader.do("numbered", version=1, rows=[0, 7]) == 7 * COLUMNS
    assert reader.do("numbered", version=2, rows=[7, ROWS]) == (ROWS - 7) * COLUMNS
    reader.do("read", text="{ var seen [x:3,y:columns] = grid[x+1,y] }", rows=[1, 4], columns=[None])
    for version in (1, 2):
        assert reader.do("show", version=version, timeout=0) == 3 * COLUMNS
    got = job.nodes[1].run([job.runtimes.still, "get", "heat", "--version", "1", "grid[239, 499]"]).stdout
    assert got.split()[-1] == str(value(1, ROWS * COLUMNS - 1))
    for _ in range(2):
        with pytest.raises(Failed, match="Timeout.*version 3") as failed:
            reader.do("show", version=3, timeout=0)
        assert "may have ended" not in failed.value.says


def test_a_writer_that_executes_another_program_writes_no_more(job):
    job = job(2)
    upper, lower = job.writers("heat", ROWS, COLUMNS, [0, 1])
    reader = job.reader("heat", 1)
    for writer in (upper, lower):
        writer.do("publish", version=1)
    assert reader.do("show", version=1, timeout=300) == ROWS * COLUMNS
    upper.tell("execute")
    lower.do("publish", version=2)
    with pytest.raises(Failed, match="rank 0") as failed:
        reader.do("show", version=2, timeout=60)
    assert "Lost" in failed.value.kind, failed.value


def test_an_object_that_is_larger_than_the_memory_of_a_node_is_read_slice_by_slice(job):
    rows, columns = 64, 1 << 17
    # A row takes 1 MiB, three times.
    job = job(2, memory_mib=16)
    (writer,) = job.writers("heat", rows, columns, [0])
    reader = job.puppet(1)
    writer.do("publish", version=1)
    reader.do("find", name="heat")
    eventually(lambda: assert_newest(reader, 1), AssertionError)
    for row in range(20):
        assert reader.do("numbered", version=1, rows=[row, row + 1]) == columns


def test_slices_larger_than_what_is_kept_are_read_where_only_one_has_room(job):
    rows, columns = 8, 1 << 19
    # 20 MiB take 60.
    job = job(2, memory_mib=64)
    (writer,) = job.writers("heat", rows, columns, [0])
    reader = job.puppet(1)
    writer.do("publish", version=1)
    reader.do("find", name="heat")
    eventually(lambda: assert_newest(reader, 1), AssertionError)
    for first in [0, 1, 2, 3] * 3:
        assert reader.do("numbered", version=1, rows=[first, first + 5]) == 5 * columns
    with pytest.raises(Failed, match="read it in smaller parts.*--memory-mib") as failed:
        reader.do("numbered", version=1, rows=[0, 6])
    assert failed.value.kind == "NodeOutOfMemory"


@pytest.mark.parametrize("timeout", [None, 0])
def test_threads_that_share_an_object_wait_for_no_memory_that_it_keeps(job, timeout):
    rows, columns = 16, 1 << 16
    # 5 rows take 7.5 MiB: there is room for two of three threads.
    job = job(2, memory_mib=16)
    (writer,) = job.writers("heat", rows, columns, [0])
    reader = job.puppet(1)
    writer.do("publish", version=1)
    reader.do("find", name="heat")
    eventually(lambda: assert_newest(reader, 1), AssertionError)
    slices = [[first, first + 5] for first in range(8)]
    read = reader.do("numbered_by_threads", version=1, slices=slices, threads=3, timeout=timeout)
    assert read == 3 * 8 * 5 * columns


def assert_newest(puppet, version):
    assert puppet.do("newest") == version


def test_traffic_is_watched(job):
    job = job(2)
    (writer,), reader = job.writers("heat", ROWS, COLUMNS, [0]), job.reader("heat", 1)
    watch = [job.runtimes.still, "watch", "--once", "--interval", "1"]
    version = 0
    # On a busy machine an interval may pass in which nothing was sent: then the next one is watched.
    for _ in range(20):
        watching = {more: job.nodes[1].popen([*watch, *more], stdout=subprocess.PIPE, text=True) for more in ((), ("--json",))}
        while any(one.poll() is None for one in watching.values()):
            version += 1
            writer.do("publish", version=version)
            reader.do("show", version=version, timeout=300)
        text, lines = watching[()].communicate()[0], watching["--json",].communicate()[0]
        assert "NODE" in text and "this one" in text and "connected" in text, text
        nodes = {node["name"]: node for node in json.loads(lines)["nodes"]}
        if nodes["node1"]["sent_bytes_per_s"] > 0:
            break
    assert nodes["node1"]["received_bytes_per_s"] > nodes["node1"]["sent_bytes_per_s"] > 0, nodes


def test_who_waits_for_nodes_is_told_which_there_are(job):
    job = job(2)
    wait = [job.runtimes.still, "node", "wait"]
    job.nodes[0].run([*wait, "--nodes", "2", "--timeout", "30"])
    failed = job.nodes[0].run([*wait, "--nodes", "3", "--timeout", "0"], check=False)
    assert failed.returncode == 1 and "2 of 3 nodes" in failed.stderr, failed
    job.runtimes.stop(0)
    failed = job.nodes[0].run([*wait, "--timeout", "0"], check=False)
    assert failed.returncode == 1 and "no runtime runs" in failed.stderr, failed


def test_readers_have_their_own_layouts_whatever_those_of_writers_are(job):
    job = job(3)
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1], order="columnmajor")
    text = "view v columnmajor { var seen [x:60,y:100] = grid[4*x,5*y+1] }"
    scattered = job.reader("heat", 2, text, rows=(None, None, 4), columns=(1, None, 5))
    middle = job.reader("heat", 0, "{ var seen [x:100,y:columns] = grid[x+70,y] }", rows=(70, 170))
    for version in range(1, 4):
        for writer in writers:
            writer.do("publish", version=version)
        assert scattered.do("show", version=version, timeout=300) == 60 * 100
        assert middle.do("show", version=version, timeout=300) == 100 * COLUMNS


def test_delay_and_loss_tear_nothing(job):
    job = job(3, delay_ms=20, loss=0.01)
    writers = job.writers("heat", ROWS, COLUMNS, [0, 1])
    readers = [job.reader("heat", index) for index in (0, 2)]
    follows = []
    # A machine that is busy with something else may let a round pass before anything but its last version comes.
    for last in range(60, 3660, 60):
        for reader in readers:
            reader.tell("follow", last=last, timeout=300)
        for writer in writers:
            writer.tell("publish_all", first=last - 59, last=last, pause_ms=50)
        rounds = [reader.answer() for reader in readers]
        for writer in writers:
            writer.answer()
        for seen in rounds:
            assert seen == sorted(set(seen)) and seen[-1] == last, seen
        follows.append([len(seen) for seen in rounds])
        if min(follows[-1]) > 1:
            break
    assert min(follows[-1]) > 1, follows


def test_who_follows_over_a_slow_link_is_not_told_of_versions_that_went(job):
    job = job(2, delay_ms=40)
    (writer,) = job.writers("heat", ROWS, COLUMNS, [0])
    reader = job.reader("heat", 1)
    writer.tell("publish_all", first=1, last=400, pause_ms=5)
    version = 0
    while version < 400:
        version = reader.do("newer", after=version, timeout=300)
    writer.answer()


def saved(job, version):
    """A store with this version of object `heat`, whose writer on node 1 has left."""
    (writer,) = job.writers("heat", ROWS, COLUMNS, [0])
    reader = job.reader("heat", 1)
    writer.do("publish", version=version)
    assert reader.do("newer", after=0, timeout=300) == version
    store = job.nodes.folder / "store"
    job.nodes[0].run([job.runtimes.still, "checkpoint", "--once", "heat", "--to", store], cwd="/")
    writer.do("detach")
    return store


def test_who_saves_an_object_of_which_nobody_writes_a_part_is_told_so_on_every_node(job):
    job = job(2)
    writer, other = job.puppet(0), job.puppet(1)
    writer.do("create", name="heat", rows=ROWS, columns=COLUMNS)
    writer.do("write", first=0, count=ROWS // 2, rank=0, writers=1)
    writer.do("publish", version=1)
    writer.do("detach")
    other.do("find", name="heat")
    for index, puppet in enumerate([writer, other]):
        eventually(lambda puppet=puppet: assert_newest(puppet, 1), AssertionError)
        eventually(lambda index=index: assert_listed(job, index, "heat", writers_alive=0), AssertionError)
        words = [job.runtimes.still, "checkpoint", "--once", "heat", "--to", job.nodes.folder / f"store{index}"]
        done = job.nodes[index].run(words, check=False, cwd="/")
        assert done.returncode == 1, done
        assert f"grid[{ROWS // 2}..{ROWS}, 0..{COLUMNS}]" in done.stderr, done


def restore(job, index, store, *more):
    """What `still restore` did on a node, and said."""
    return job.nodes[index].run([job.runtimes.still, "restore", store, *more], check=False, cwd="/")


def go_on(job, index, name, version):
    """Sees that a node has a version of an object that nobody writes, and publishes the next without waiting for anybody."""
    reader = job.reader(name, index)
    assert reader.do("newer", after=version - 1, timeout=300) == version
    eventually(lambda: assert_listed(job, index, name, newest=version, writers_alive=0), AssertionError)
    writer = job.puppet(index)
    writer.do("find", name=name)
    assert writer.do("write", first=0, count=ROWS, rank=0, wait=0) == version
    writer.do("publish", version=version + 1)
    assert reader.do("newer", after=version, timeout=300) == version + 1
    writer.do("detach")


def assert_listed(job, index, name, **wanted):
    """Sees what a node says of an object."""
    listing = json.loads(job.nodes[index].run([job.runtimes.still, "ls", "--json"], cwd="/").stdout)
    (one,) = [one for one in listing["objects"] if one["name"] == name] or [{}]
    assert {key: one.get(key) for key in wanted} == wanted


@pytest.mark.parametrize("index", [0, 1], ids=["where-it-was-saved", "elsewhere"])
def test_a_checkpoint_of_an_object_is_restored_beside_runtimes(job, index):
    job = job(2)
    store = saved(job, 5)
    done = restore(job, index, store, "--as", "again")
    assert done.returncode == 0, done
    go_on(job, 1 - index, "again", 5)
    go_on(job, index, "again", 6)
    # What is there stays, unless it is to be replaced.
    done = restore(job, index, store, "--as", "again")
    assert done.returncode == 1 and "still in memory, at version 7" in done.stderr, done
    done = restore(job, index, store, "--as", "again", "--replace")
    assert done.returncode == 0, done
    for other in (index, 1 - index):
        eventually(lambda other=other: assert_listed(job, other, "again", newest=5), AssertionError)
        assert job.reader("again", other).do("show", version=5, timeout=300) == ROWS * COLUMNS


@pytest.mark.parametrize("index", [0, 1], ids=["where-its-content-is", "elsewhere"])
def test_who_attaches_and_waits_for_nobody_still_hears_whether_the_fragment_counts(job, index):
    job = job(2)
    saved(job, 3)
    go_on(job, index, "heat", 3)


def test_a_checkpoint_for_which_there_is_no_room_replaces_nothing_and_leaves_nothing(job):
    job = job(2)
    store = saved(job, 5)
    (writer,) = job.writers("small", 1, 10, [1])
    writer.do("publish", version=2)
    assert job.reader("small", 0).do("newer", after=0, timeout=300) == 2
    writer.do("detach")
    eventually(lambda: assert_listed(job, 0, "small", newest=2, writers_alive=0), AssertionError)
    # Half as much as the version takes.
    left = ROWS * COLUMNS * 8 // 2048
    fill = f"cat /dev/zero > /dev/shm/ballast; truncate -s -{left}K /dev/shm/ballast"
    job.nodes[0].run(["sh", "-c", fill], cwd="/")
    for name, *more in (["small", "--replace"], ["fresh"]):
        done = restore(job, 0, store, "--as", name, *more)
        assert done.returncode == 1 and "bytes free" in done.stderr, done
    job.nodes[0].run(["rm", "/dev/shm/ballast"], cwd="/")
    for index in (0, 1):
        eventually(lambda index=index: assert_listed(job, index, "fresh", newest=None), AssertionError)
        assert_listed(job, index, "small", newest=2)
    assert job.reader("small", 0).do("show", version=2, timeout=300) == 10
    for name, *more in (["small", "--replace"], ["fresh"]):
        done = restore(job, 0, store, "--as", name, *more)
        assert done.returncode == 0, done


def fill(node):
    """Leaves no room in a node's /dev/shm."""
    node.run(["dd", "if=/dev/zero", "of=/dev/shm/fill", "bs=64k"], check=False)


def test_a_node_without_room_stands_in_the_way_of_no_object_elsewhere(job):
    job = job(3)
    job.writers("before", ROWS, COLUMNS, [1])
    fill(job.nodes[2])
    # So many that each node is the home of some.
    names = [f"heat{number}" for number in range(6)]
    writers = {name: job.writers(name, ROWS, COLUMNS, [0, 1]) for name in names}
    for version in (1, 2):
        for name in names:
            for writer in writers[name]:
                writer.do("publish", version=version)
    for name in names:
        eventually(lambda name=name: check_newest(writers[name][1], 2), AssertionError)
    said = job.runtimes.log(2).read_text()
    assert "this node cannot keep it" in said and "bytes free" in said, said
    job.nodes[2].run(["rm", "/dev/shm/fill"])
    for name in names:
        reader = job.reader(name, 2)
        assert reader.do("show", version=2, timeout=300) == ROWS * COLUMNS


def check_newest(puppet, version):
    assert puppet.do("newest") == version
