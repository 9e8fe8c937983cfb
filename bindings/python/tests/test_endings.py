"""What the next run finds of a program that ended: by itself, or by an exception that nobody caught."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import stillframe as sf

BEGIN = """
import atexit, contextlib, os, signal, sys, threading
import stillframe as sf

def begin():
    region = sf.create("r")
    u = region.array("u", (4,))
    u[:] = 7
    region.publish(3)
    return region
"""

#: Programs that end by an accident, with the signal that they die of or the status that they end with.
ACCIDENTS = {
    "in the program itself": ("region = begin()\nraise RuntimeError('mine')", 1),
    "in a function": ("def main():\n    region = begin()\n    raise RuntimeError('mine')\nmain()", 1),
    "in a with block": ("with begin() as region:\n    raise RuntimeError('mine')", 1),
    "in a with block, and caught around it": ("with contextlib.suppress(RuntimeError), begin():\n    raise RuntimeError('mine')", 0),
    "with a close on its way": ("region = begin()\ntry:\n    raise RuntimeError('mine')\nfinally:\n    region.close()", 1),
    "with a close at exit": ("region = begin()\natexit.register(region.close)\nraise RuntimeError('mine')", 1),
    "that a hook of the program's tells": ("sys.excepthook = lambda *told: None\nregion = begin()\nraise RuntimeError('mine')", 1),
    "by Ctrl-C": ("region = begin()\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()", -2),
    "by Ctrl-C in a with block": ("with begin():\n    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()", -2),
    "in a thread's with block": (
        "def run():\n    with begin():\n        raise RuntimeError('mine')\n"
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()",
        0,
    ),
}
#: Programs that end by themselves.
GOOD_ENDS = {
    "at its end": ("region = begin()", 0),
    "closed": ("begin().close()", 0),
    "after a with block": ("with begin():\n    pass", 0),
    "by exit": ("region = begin()\nsys.exit(0)", 0),
    "by exit with a status": ("region = begin()\nsys.exit(3)", 3),
    "by exit in a with block": ("with begin():\n    sys.exit(3)", 3),
    "after an exception that was caught": (
        "region = begin()\ntry:\n    raise RuntimeError('mine')\nexcept RuntimeError:\n    pass\nregion.close()",
        0,
    ),
    "beside a thread that an exception ended": (
        "region = begin()\ndef run():\n    raise RuntimeError('mine')\nthread = threading.Thread(target=run)\nthread.start()\nthread.join()",
        0,
    ),
    "in a generator that nobody asks any more": (
        "def steps():\n    with begin():\n        yield 1\nfor _ in steps():\n    break",
        0,
    ),
}


def ended(program: str, status: int, *options: str, **given: str) -> list[str]:
    """The regions that are left when a program has ended and the next one of its name has begun anew."""
    # Programs started in the background of a script are told to ignore Ctrl-C.
    begin = BEGIN + "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    done = subprocess.run(
        [sys.executable, *options, "-c", begin + textwrap.dedent(program)], capture_output=True, text=True, timeout=120, **given
    )
    assert done.returncode == status, done.stderr
    sf.create("r", fresh=True).close()
    return sorted(region.name for region in sf.list())


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_what_an_exception_ended_is_set_aside(accident: str) -> None:
    assert ended(*ACCIDENTS[accident]) == ["r", "r~1"]
    with sf.open("r~1") as observer, observer.newest() as snapshot:
        assert snapshot.version == 3 and snapshot["u"].tolist() == [7] * 4


@pytest.mark.parametrize("end", GOOD_ENDS)
def test_what_ended_by_itself_is_removed_by_the_next_run(end: str) -> None:
    assert ended(*GOOD_ENDS[end]) == ["r"]


def test_an_exception_in_an_interactive_session_ends_nothing() -> None:
    session = "raise RuntimeError('mine')\nprint('goes on')\n"
    assert ended("region = begin()", 0, "-i", input=session) == ["r"]


def test_what_was_set_aside_stays_when_an_exception_ends_the_next_run() -> None:
    assert ended(*ACCIDENTS["in the program itself"]) == ["r", "r~1"]
    program, status = ACCIDENTS["in a function"]
    program = program.replace("begin()\n", "begin()\n    region.publish(4)\n")
    done = subprocess.run([sys.executable, "-c", BEGIN + program], capture_output=True, text=True, timeout=120)
    assert done.returncode == status
    assert sorted(region.name for region in sf.list()) == ["r", "r~1"]
