"""Publishes in the background."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stillframe as sf

COUNT = 300_000


def shown(name: str = "u") -> np.ndarray:
    with sf.open("r") as observer:
        return observer.newest()[name].copy()


def test_a_version_is_what_was_started_and_seen_when_it_is_finished() -> None:
    with sf.create("r") as region:
        u = np.zeros(COUNT)
        region.track("u", u)
        m = region.array("m", (COUNT,))
        assert region.publish_finish() is None
        assert region.publish_test()
        for version in range(1, 20):
            u[:] = m[:] = version
            region.publish_start(version, attrs={"step": version})
            while version % 2 and not region.publish_test():
                pass
            done = region.publish_finish()
            assert done is not None
            assert (done.version, done.skipped) == (version, False)
            assert region.publish_finish() is None
            assert (shown() == version).all()
            assert (shown("m") == version).all()
            with sf.open("r") as observer:
                assert observer.newest().attrs == {"step": version}


def test_a_block_ends_with_the_version() -> None:
    with sf.create("r") as region:
        u = np.ones(COUNT)
        region.track("u", u)
        with region.publish_start(1) as same:
            assert same is region
            assert u.sum() == COUNT
        assert (shown() == 1).all()
        u[:] = 2
        with pytest.raises(ZeroDivisionError), region.publish_start(2):
            _ = 1 / 0
        assert (shown() == 2).all()


def test_the_next_publish_and_the_end_finish_it() -> None:
    with sf.create("r") as region:
        u = np.ones(COUNT)
        region.track("u", u)
        region.publish_start(1)
        region.publish_start(2)
        with sf.open("r") as observer:
            assert observer.newest().version == 1
            region.publish(3)
            assert observer.newest().version == 3
        with pytest.raises(sf.MisuseError, match="3"):
            region.publish_start(3)
        region.publish_start(4)
    with sf.open("r") as observer:
        assert observer.newest().version == 4


def test_given_arrays_are_kept_until_it_is_finished() -> None:
    with sf.create("r") as region:
        region.track("u", np.zeros(3))
        for version in range(1, 10):
            region.publish_start(version, {"u": np.full(COUNT, float(version))})
            region.publish_finish()
            assert (shown() == version).all()
        u = bytearray(8 * COUNT)
        region.publish_start(10, {"u": np.frombuffer(u)})
        with pytest.raises(BufferError):
            u.clear()
        region.publish_finish()
        u.clear()


def test_a_guarded_version_may_be_written() -> None:
    with sf.create("r") as region:
        u = np.ones(COUNT)
        region.track("u", u)
        region.publish_start(1, guard=True)
        u[:] = 2
        region.publish_finish()
        assert (shown() == 1).all()
        region.publish_start(2, guard=True)
        with Path("/dev/zero").open("rb", buffering=0) as zeros:
            assert zeros.readinto(u) == u.nbytes
        region.publish_finish()
        assert (shown() == 2).all()
        assert (u == 0).all()


def stop_children() -> list[int]:
    """Stops the processes that copy."""
    children = [int(child) for child in Path("/proc/thread-self/children").read_text().split()]
    for child in children:
        os.kill(child, signal.SIGSTOP)
    return children


def lend(region: sf.Region) -> None:
    with region.loan("loaned", (3,)):
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda region: region.publish_finish(),
        lambda region: region.publish_start(9),
        lambda region: region.publish(9),
        lambda region: region.array("late", (3,)),
        lend,
        lambda region: region.remove("spare"),
        lambda region: region.close(),
    ],
)
def test_a_wait_for_a_started_publish_is_interrupted_by_a_signal(call: Callable[[sf.Region], object]) -> None:
    class Alarm(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    region = sf.create("r")
    try:
        u = np.ones(20 * COUNT)
        region.track("u", u)
        region.array("spare", (3,))
        lend(region)
        for version in range(1, 100):
            u[:] = version
            region.publish_start(version, guard=True)
            children = stop_children()
            if children and not region.publish_test():
                break
        else:
            pytest.fail("no child was caught at work")
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            call(region)
        for child in children:
            os.kill(child, signal.SIGCONT)
        u[:] = 0
        done = region.publish_finish()
        assert done is not None
        assert done.version == version
        assert (shown() == version).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        region.close()


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    with sf.create("r", bound=3 * 8 * COUNT, rule="skip") as region:
        u = np.ones(COUNT)
        region.track("u", u)
        held = []
        with sf.open("r") as observer:
            for version in range(1, 6):
                u[:] = version
                region.publish_start(version)
                done = region.publish_finish()
                assert done is not None
                if done.skipped:
                    break
                held.append(observer.newest())
            else:
                pytest.fail("there was room for all")
            for snapshot in held:
                snapshot.close()
            region.publish_start(9)
            region.publish_finish()
        assert (shown() == version).all()


def test_who_writes_too_early_is_told_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STILLFRAME_CHECK", "1")
    with sf.create("r", tracker=None) as region:
        if region.stats()["tracker"] == "private_cow":
            pytest.skip("it publishes at once")
        u = np.zeros(COUNT)
        region.track("u", u)
        region.publish_start(1)
        u[1000] = 1
        with pytest.raises(sf.MisuseError, match=r"'u'.*page [12] "):
            region.publish_finish()
        region.publish(1)
        assert shown()[1000] == 1
    monkeypatch.setenv("STILLFRAME_CHECK", "maybe")
    with pytest.raises(sf.MisuseError, match="STILLFRAME_CHECK"):
        sf.create("other")


def test_a_forked_child_disturbs_nothing() -> None:
    with sf.create("r") as region:
        u = np.ones(COUNT)
        region.track("u", u)
        region.publish_start(1)
        child = os.fork()
        if child == 0:
            try:
                region.publish_finish()
            except sf.MisuseError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        region.publish_finish()
        assert (shown() == 1).all()
