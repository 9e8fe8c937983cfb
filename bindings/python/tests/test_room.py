"""Producers without room: how long they wait, what they leave out, and that everybody can see it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import stillframe as sf

PAGES = 64


def crowded(name: str, **options: Any) -> tuple[sf.Region, Any, sf.Snapshot]:
    """A region with room for two versions, both of which are taken: one is the newest and the other one held."""
    region = sf.create(name, bound=PAGES * 4096 * 5 // 2, large_pages=False, **options)
    u = region.array("u", (PAGES * 512,))
    u[:] = 1
    region.publish(1)
    held = sf.open(name).newest()
    u[:] = 2
    region.publish(2)
    u[:] = 3
    return region, u, held


def info(name: str) -> sf.RegionInfo:
    return next(info for info in sf.list() if info.name == name)


def test_by_default_a_publish_waits_for_a_second_and_is_then_left_out() -> None:
    region, u, held = crowded("r")
    with region:
        begin = time.monotonic()
        assert region.publish(3).skipped
        assert time.monotonic() - begin >= 1
        begun = time.time()
        # More than there is time for if each of them waited.
        assert all(region.publish(version).skipped for version in range(4, 504))
        assert region.stats()["skipped"] == 501
        told = info("r")
        assert told.state == "live" and told.skipping == 501 and told.waiting_since is None
        assert told.skipping_since is not None and begun - 60 < told.skipping_since <= begun
        held.close()
        assert not region.publish(600).skipped
        assert (sf.open("r").newest()["u"] == 3).all()
        assert info("r").skipping == 0 and info("r").skipping_since is None


def test_the_limit_is_for_all_publishes_since_the_newest_version() -> None:
    region, u, held = crowded("r", rule="wait_then_skip", timeout=0.3)
    with region:
        begin = time.monotonic()
        assert all(region.publish(version).skipped for version in range(3, 503))
        assert time.monotonic() - begin >= 0.3
        held.close()
        assert not region.publish(600).skipped


def test_a_loan_without_room_says_how_much_there_is() -> None:
    pages = 16
    with sf.create("r", bound=2 * pages * 4096, timeout=0.2) as region:
        held = []
        for version in (1, 2):
            with region.loan("u", (pages * 512,)) as u:
                u[:] = version
            region.publish(version)
            held.append(sf.open("r").newest())
        begin = time.monotonic()
        full = pytest.raises(sf.OutOfSpace, match=f"its bound of {2 * pages * 4096} bytes")
        with full, region.loan("u", (pages * 512,)):
            pass
        assert time.monotonic() - begin >= 0.2
        held[0].close()
        with region.loan("u", (pages * 512,)) as u:
            u[:] = 3
        assert not region.publish(3).skipped


@pytest.mark.usefixtures("interruptible")
def test_a_producer_that_waits_is_shown_and_can_be_interrupted() -> None:
    region, u, held = crowded("r", rule="wait")
    with region:
        seen = []

        def look() -> None:
            while info("r").waiting_since is None:
                time.sleep(0.01)
            # Longer than the time after which it looks for signals.
            first = info("r").waiting_since
            time.sleep(0.5)
            seen.append((first, info("r").waiting_since))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=look)
        begun = time.time()
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            region.publish(3)
        thread.join()
        ((first, second),) = seen
        assert first is not None and first == second and begun - 1 <= first <= time.time()
        assert info("r").waiting_since is None
        held.close()
        assert not region.publish(3).skipped


FULL = """
import os, threading, time
import stillframe as sf

PAGES = 1000

def leave(count):
    ballast.truncate(0)
    free = os.statvfs(directory)
    os.posix_fallocate(ballast.fileno(), 0, free.f_bavail * free.f_frsize - count * 4096)

directory = os.environ["STILLFRAME_DIR"]
ballast = open(os.path.join(directory, "ballast"), "wb")

def crowded(**options):
    region = sf.create("r", large_pages=False, **options)
    u = region.array("u", (PAGES * 512,))
    held = []
    for version in (1, 2):
        u[:] = version
        region.publish(version)
        held.append(sf.open("r").newest())
    u[:] = 3
    leave(10)
    return region, held
"""


def on_full_file_system(regions: Path, code: str) -> None:
    """Runs code on a small file system that only it sees."""
    can = os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
    if not can:
        pytest.skip("only root can mount a small file system")
    mount = 'mount --make-rprivate / && mount -t tmpfs -o size=32m,mode=700 none "$1" && exec "$2" -c "$3"'
    command = ["unshare", "-m", "sh", "-c", mount, "sh", str(regions), sys.executable, FULL + textwrap.dedent(code)]
    subprocess.run(command, check=True, timeout=300)


def test_wait_waits_in_a_file_system_that_is_full(regions: Path) -> None:
    on_full_file_system(
        regions,
        """
        region, held = crowded(rule="wait")
        begin = time.monotonic()
        threading.Timer(0.7, held[0].close).start()
        assert not region.publish(3).skipped
        assert time.monotonic() - begin >= 0.7
        """,
    )


def test_wait_ends_after_its_timeout_in_a_file_system_that_is_full(regions: Path) -> None:
    on_full_file_system(
        regions,
        """
        region, held = crowded(rule="wait", timeout=0.7)
        begin = time.monotonic()
        try:
            region.publish(3)
        except sf.OutOfSpace as error:
            assert "bytes free and this needs" in str(error), error
        else:
            raise AssertionError("there was room")
        assert time.monotonic() - begin >= 0.7
        """,
    )


def test_the_default_leaves_out_in_a_file_system_that_is_full(regions: Path) -> None:
    on_full_file_system(
        regions,
        """
        region, held = crowded()
        begin = time.monotonic()
        assert region.publish(3).skipped
        assert time.monotonic() - begin >= 1
        held[0].close()
        assert not region.publish(4).skipped
        """,
    )
