"""Objects that somebody removes on another node than where they are written or read."""

from conftest import eventually

ROWS, COLUMNS = 24, 50


def still(job, index, *words):
    return job.nodes[index].run([job.runtimes.still, *words], check=False, cwd="/")


def check_newest(puppet, version):
    assert puppet.do("newest") == version


def removal(job, index):
    """What became of an attempt to remove the object, once the node has its name."""
    done = still(job, index, "rm", "heat")
    if done.returncode and "is written by" not in done.stderr:
        raise LookupError(done)
    return done


def test_a_node_that_has_just_joined_removes_nothing_that_others_write(job):
    job = job(2)
    (writer,) = job.writers("heat", ROWS, COLUMNS, [0])
    for version in (1, 2, 3):
        writer.do("publish", version=version)
        eventually(lambda version=version: check_newest(writer, version), AssertionError)
        job.runtimes.stop(1)
        job.nodes[1].kill()
        job.nodes[1].boot()
        job.runtimes.start(1)
        # As soon as it has the name, whether it has heard who writes it or not.
        done = eventually(lambda: removal(job, 1), LookupError)
        assert done.returncode == 1 and "is written by" in done.stderr, done
    writer.do("publish", version=4)
    assert job.reader("heat", 1).do("newer", after=3, timeout=300) == 4


def test_gc_takes_nothing_from_readers_of_other_nodes(job):
    job = job(2)
    (writer,) = job.writers("heat", ROWS, COLUMNS, [0])
    readers = [job.reader("heat", index) for index in (0, 1)]
    writer.do("publish", version=1)
    for reader in readers:
        assert reader.do("show", version=1, timeout=300) == ROWS * COLUMNS
    writer.do("detach")
    for index in (1, 0):
        for words in (["gc", "--dry-run"], ["gc"]):
            done = still(job, index, *words)
            assert done.returncode == 0 and "removed object" not in done.stdout, done
    for reader in readers:
        eventually(lambda reader=reader: check_newest(reader, 1), AssertionError)
        assert reader.do("numbered", version=1, rows=[2, 5]) == 3 * COLUMNS
    for index in (0, 1):
        late = job.reader("heat", index)
        assert late.do("show", version=1, timeout=300) == ROWS * COLUMNS
