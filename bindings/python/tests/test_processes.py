"""Producer and observer in processes of their own."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import stillframe as sf
from conftest import Spawn

PRODUCER = """
import sys
region = sf.create("melt", keep=2)
u = region.array("u", shape=(200, 300), order="F")
step = (region.recovered or 0)
print("ready", step, float(u[0, 0]))
for line in sys.stdin:
    if line.strip() == "close":
        break
    step += 1
    u[...] = step
    region.publish(step, attrs={"step": step})
    print("published", step)
region.close()
"""


def test_another_process_sees_each_version_whole(spawn: Spawn) -> None:
    producer = spawn(PRODUCER)
    assert producer.hear() == "ready 0 0.0"
    producer.tell()
    with sf.open("melt", wait=60.0) as observer:
        producer.hear()
        for version in range(1, 20):
            snapshot = observer.next(after=version - 1, timeout=60.0)
            assert snapshot.version == snapshot.attrs["step"] == version
            assert (snapshot["u"] == version).all()
            assert snapshot["u"].flags.f_contiguous
            producer.tell()
            producer.hear()
        producer.tell("close")
        producer.end()
        assert not observer.alive
        with pytest.raises(sf.ProducerGone):
            observer.next(after=20, timeout=60.0)
        assert (observer.newest()["u"] == 20).all()


def test_a_killed_producer_leaves_its_last_version_and_the_next_goes_on(
    spawn: Spawn,
) -> None:
    first = spawn(PRODUCER)
    first.hear()
    for _ in range(3):
        first.tell()
        first.hear()
    observer = sf.open("melt")
    held = observer.newest()["u"]
    first.kill()
    assert (held == 3).all()
    assert sf.list()[0].state == "dead"
    second = spawn(PRODUCER)
    assert second.hear() == "ready 3 3.0"
    second.tell()
    assert second.hear() == "published 4"
    assert (sf.open("melt").newest()["u"] == 4).all()
    assert (held == 3).all()


def test_a_killed_observer_holds_nothing_back(spawn: Spawn) -> None:
    with sf.create("r", keep=1, bound=160 * 4096, rule="fail", large_pages=False) as region:
        u = region.array("u", (64 * 512,))
        u[:] = 1
        region.publish(1)
        observer = spawn("u = sf.open('r').newest()['u']; print(u.sum()); input()")
        assert float(observer.hear()) == 64 * 512
        u[:] = 2
        region.publish(2)
        u[:] = 3
        with pytest.raises(sf.OutOfSpace):
            region.publish(3)
        observer.kill()
        region.publish(3)


def test_handles_made_before_fork_are_refused_in_the_child() -> None:
    with sf.create("r") as region:
        region.array("u", (100,))[:] = 1
        region.publish(1)
        observer = sf.open("r")
        snapshot = observer.newest()
        child = os.fork()
        if child == 0:
            code = 1
            signal.alarm(60)
            try:
                refused = 0
                for attempt in (
                    lambda: region.publish(2),
                    lambda: region.array("v", (3,)),
                    observer.newest,
                ):
                    try:
                        attempt()
                    except sf.ForkError:
                        refused += 1
                again = (sf.open("r").newest()["u"] == 1).all()
                region.close()
                with pytest.raises(sf.MisuseError):
                    region.publish(2)
                snapshot.close()
                observer.close()
                code = 0 if refused == 3 and again else 2 + refused
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        # The child's end took nothing from the parent.
        region.publish(2)
        assert observer.alive
        assert (snapshot["u"] == 1).all()
        assert observer.newest().version == 2


def test_a_process_without_numpy_sees_memoryviews(spawn: Spawn) -> None:
    with sf.create("r") as region:
        region.track("x", np.arange(12, dtype="i4").reshape(3, 4))
        region.track("f", np.asfortranarray(np.arange(12.0).reshape(3, 4)))
        region.publish(1)
        child = spawn(
            """
            import array
            with sf.open("r") as observer:
                snapshot = observer.newest()
                x, f = snapshot["x"], snapshot["f"]
                assert isinstance(x, memoryview) and x.readonly and x.format == "i" and x.shape == (3, 4)
                assert x[2, 3] == 11 and f[2, 3] == 11.0 and f[1, 0] == 4.0 and f.f_contiguous
                assert bytes(snapshot.read("x", 1, 3)) == bytes([1, 0, 0, 0, 2, 0, 0, 0])
                assert sum(len(bytes(chunk.data)) for chunk in snapshot.chunks("x")) == 48
            with sf.create("mine") as region:
                u = region.array("u", (2, 2), "f8")
                u[1, 1] = 5.0
                region.track("a", array.array("q", [1, 2]))
                region.publish(1)
                snapshot = sf.open("mine").newest()
                assert snapshot["u"].tolist() == [[0.0, 0.0], [0.0, 5.0]] and snapshot["a"].tolist() == [1, 2]
            print("good")
            """,
            prelude="import sys; sys.modules['numpy'] = None",
        )
        assert child.hear() == "good"
        child.end()


def test_the_example_of_the_readme_runs(spawn: Spawn) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    child = spawn(code)
    version, moment, mean = child.hear().split()
    assert version == "3" and float(mean) == 3.0 and abs(float(moment) - 0.3) < 1e-9
    child.end()
