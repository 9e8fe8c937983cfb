"""Objects of several processes, and of threads; waits that are interrupted, and writers that are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import stillframe as sf
from conftest import Spawn

TEXT = "var u [8,6] float64"

WRITER = """
import sys
first, count = {first}, {count}
obj = sf.create_object("grid", "var u [8,6] float64")
writer = obj.write("{{ var u [x:count,y:6] = u[x+first,y] }}", first=first, count=count, rank=first, keep=2)
print("attached", writer.version)
for line in sys.stdin:
    version = int(line)
    writer.arrays["u"][...] = version * 10 + first
    writer.publish(version)
    print("published")
writer.detach()
"""


def grid() -> sf.Object:
    return sf.create_object("grid", TEXT)


def expected(version: int, cut: int) -> np.ndarray:
    return np.array([[version * 10.0 + (0 if row < cut else cut)] * 6 for row in range(8)])


def test_processes_write_and_others_read(spawn: Spawn) -> None:
    obj = grid()
    writers = [spawn(WRITER.format(first=0, count=3)), spawn(WRITER.format(first=3, count=5))]
    assert [writer.hear() for writer in writers] == ["attached 0"] * 2
    reader = obj.read("view m columnmajor { var m = u }")
    for version in range(1, 10):
        for writer in writers:
            writer.tell(str(version))
        assert reader.reattach_newer(version - 1, timeout=60) == version
        assert (reader.arrays["m"] == expected(version, 3)).all()
        assert (obj["u"][...] == expected(version, 3)).all()
        for writer in writers:
            writer.hear()
    # Others go on from there, in another division.
    for writer in writers:
        assert writer.process.stdin is not None
        writer.process.stdin.close()
        writer.end()
    with obj.write("{ var u [j,i] = u[i,j] }") as whole:
        assert whole.version == 9 and (whole.arrays["u"] == expected(9, 3).T).all()


def test_readers_learn_which_rank_was_killed(spawn: Spawn) -> None:
    obj = grid()
    writers = [spawn(WRITER.format(first=0, count=3)), spawn(WRITER.format(first=3, count=5))]
    for writer in writers:
        writer.hear()
        writer.tell("1")
        writer.hear()
    reader = obj.read("{ var u = u }")
    reader.reattach_newer(0, timeout=60)
    writers[0].tell("2")
    writers[0].hear()
    killer = threading.Timer(0.3, writers[1].process.kill)
    killer.start()
    with pytest.raises(sf.Lost, match=r"rank 3 .*died before it published.*newest complete version instead, 1") as caught:
        reader.reattach(2, timeout=None)
    killer.join()
    (loss,) = caught.value.losses
    assert (loss.rank, loss.process, loss.cause) == (3, writers[1].process.pid, "died")
    assert caught.value.complete == 1
    # What it showed before is still there, and what lives can be read.
    assert reader.version == 1 and (reader.arrays["u"] == expected(1, 3)).all()
    assert (obj["u", 2][:3] == 20).all() and (obj["u"][...] == expected(1, 3)).all()
    assert {writer.rank: writer.alive for writer in obj.writers()} == {0: True, 3: False}
    # Another process attaches the elements, and goes on.
    again = spawn(WRITER.format(first=3, count=5))
    assert again.hear() == "attached 1"
    again.tell("2")
    assert reader.reattach_newer(1, timeout=60) == 2 and (reader.arrays["u"] == expected(2, 3)).all()


def interrupted(wait: Callable[[], object]) -> None:
    """Sends what Ctrl-C sends, again and again until the wait ends."""
    done = threading.Event()

    def send() -> None:
        while not done.wait(0.3):
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            try:
                wait()
            finally:
                done.set()
    finally:
        sender.join()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_every_wait() -> None:
    obj = grid()
    reader = obj.read("{ var u = u }")
    with obj.write("{ var u [x:4,y:6] = u[x,y] }") as writer:
        interrupted(lambda: reader.reattach(1, timeout=None))
        interrupted(lambda: reader.reattach_newer(timeout=None))
        interrupted(lambda: obj.wait_newer(0, timeout=None))
        interrupted(lambda: obj.at(1, timeout=None)["u"][7])
        # The elements do not become free, and the version does not come.
        interrupted(lambda: obj.write("{ var u = u }", version=7, wait=None))
        interrupted(lambda: obj.write("{ var u [x:4,y:6] = u[x+4,y] }", version=7, wait=None))
        interrupted(lambda: sf.object("another", wait=None))
        # Nothing is broken.
        assert [info.alive for info in obj.writers() if info.alive] == [True]
        writer.publish(1)
        with obj.write("{ var u [x:4,y:6] = u[x+4,y] }") as other:
            other.publish(1)
            reader.reattach(1)


def test_other_threads_go_on_while_one_waits() -> None:
    obj = grid()
    reader = obj.read("{ var u = u }")
    shown = reader.arrays["u"]
    counted, seen = [0], []

    def count() -> None:
        while not seen:
            counted[0] += 1
            time.sleep(0.001)

    def wait() -> None:
        try:
            seen.append(reader.reattach_newer(0, timeout=120))
        except BaseException as error:
            seen.append(error)

    threads = [threading.Thread(target=work) for work in (count, wait)]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    # Without the interpreter the other threads would go on only when the wait ended.
    while counted[0] <= 10 or time.monotonic() < begin + 0.3:
        assert time.monotonic() < begin + 60
        time.sleep(0.001)
    # What another thread has in use can still be asked for its version, and looked at.
    assert not seen and reader.version == 0 and not shown.any()
    with obj.write("{ var u = u }") as writer:
        writer.publish(1)
    for thread in threads:
        thread.join(60)
    assert seen == [1]


def test_fragments_stay_with_the_process_that_attached_them() -> None:
    obj = grid()
    writer = obj.write("{ var u = u }")
    reader = obj.read("{ var u = u }")
    assert not obj["u"][0].any()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with writer, reader:
                looks = (obj.newest, obj.writers, lambda: obj["u"][0], lambda: obj.read("{ var u = u }"))
                for work in (lambda: writer.publish(1), lambda: reader.reattach(0), *looks):
                    try:
                        work()
                    except sf.ForkError:
                        continue
                    os._exit(2)
            del writer, reader
            assert sf.object("grid").writers()[0].alive and not sf.object("grid")["u"][...].any()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.arrays["u"][...] = 3
    writer.publish(1)
    reader.reattach(1)
    assert (reader.arrays["u"] == 3).all()


def test_without_numpy_there_are_objects_but_no_arrays(spawn: Spawn) -> None:
    code = """
    obj = sf.create_object("grid", "var u [8,6] float64")
    with obj.write("{ var u = u }") as writer:
        writer.publish(1)
        assert obj.newest() == 1 and obj["u"].shape == (8, 6)
        for work in (lambda: writer.arrays, lambda: obj["u"][0], lambda: obj["u"].dtype):
            try:
                work()
            except sf.DreplError as error:
                assert "need numpy" in str(error)
            else:
                raise SystemExit(1)
    """
    spawn(code, "import sys; sys.modules['numpy'] = None").end()


def test_neighbours_exchange_ghosts_without_a_barrier(spawn: Spawn) -> None:
    code = """
    import numpy as np
    obj = sf.create_object("line", "var u [n] float64", n=24)
    first = {rank} * 8
    # A neighbour may still be reading one version when this process publishes the next.
    writer = obj.write("{{ var u [x:8] = u[x+first] }}", first=first, rank={rank}, keep=2)
    ghosts = obj.read("view clipped {{ var left [x:1] = u[x+first-1]; var right [x:1] = u[x+first+8] }}", first=first)
    u = writer.arrays["u"]
    u[:] = np.arange(first, first + 8) ** 2
    for version in range(1, 201):
        writer.publish(version)
        ghosts.reattach(version, timeout=60)
        padded = np.concatenate([ghosts.arrays["left"], u, ghosts.arrays["right"]])
        u[:] = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    writer.publish(201)
    print("done")
    input()
    """
    children = [spawn(code.format(rank=rank)) for rank in range(3)]
    assert [child.hear() for child in children] == ["done"] * 3
    u = np.arange(24.0) ** 2
    for _ in range(200):
        padded = np.pad(u, 1)
        u = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    assert (sf.object("line").at(201, timeout=60)["u"][:] == u).all()
    for child in children:
        child.tell()
        child.end()
