"""Observers that take only what others leave. They are polite for good, so each is a process of its own."""

from __future__ import annotations

import pytest
import stillframe as sf
from conftest import Spawn

OBSERVER = """
import os
try:
    observer = {function}("wave", {arguments})
except sf.Error as error:
    print("refused", type(error).__name__)
else:
    print("class", os.sched_getscheduler(0) == os.SCHED_IDLE, len(os.sched_getaffinity(0)), flush=True)
    # It may have to sleep first for what it used so far, and gets what others leave.
    for snapshot in observer.iterate(timeout=3600):
        print("version", snapshot.version, flush=True)
        break
"""


def observe(spawn: Spawn, function: str, arguments: str) -> list[str]:
    program = OBSERVER.format(function=function, arguments=arguments)
    observer = spawn(program)
    return [observer.hear() for _ in range(1 if "9999" in arguments else 2)]


def test_a_polite_observer_is_of_the_idle_class_and_sees_versions(spawn: Spawn) -> None:
    with sf.create("wave") as region:
        region.array("u", shape=(10,))
        region.publish(3)
        idle, version = observe(spawn, "sf.open", "polite=True")
        assert (idle.split()[:2], version) == (["class", "True"], "version 3")
        one = "polite=sf.Polite(share=0.5, bytes_per_s=1 << 30, processors=sorted(os.sched_getaffinity(0))[:1])"
        assert observe(spawn, "sf.open", one) == ["class True 1", "version 3"]
        assert observe(spawn, "sf.open", "polite=sf.Polite(processors=[9999])") == ["refused MisuseError"]


@pytest.mark.parametrize("polite", [True, False])
def test_a_group_is_looked_at_politely_if_that_is_asked_for(spawn: Spawn, polite: bool) -> None:
    with sf.create("wave", rank=0, ranks=1) as region:
        region.array("u", shape=(10,))
        region.publish(3)
        idle, version = observe(spawn, "sf.open_group", f"polite={polite}")
        assert version == "version 3"
        assert polite is False or idle.split()[1] == "True"


READER = """
import stillframe as sf
group = sf.open_group("wave", polite=sf.Polite(share=1.0, bytes_per_s=2048))
group.newest()[0]["u"].sum()
print("read", flush=True)
print("version", group.next(3, timeout=3600).version, flush=True)
"""


def test_a_group_waits_for_its_turn_as_long_as_for_a_version(spawn: Spawn) -> None:
    with sf.create("wave", rank=0, ranks=1) as region:
        region.array("u", shape=(10,))
        region.publish(3)
        # For the page that it reads it has to wait for two seconds.
        reader = spawn(READER)
        assert reader.hear() == "read"
        region.publish(4)
        assert reader.hear() == "version 4"
