"""Objects whose writers and readers are on several nodes."""

import json
import subprocess

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
