"""One run of a program: its time from the start to the end, its page faults, and what it says."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from modes import MODES, make_environment, set_thp
from programs import ProgramError

#: Seconds after which a run is taken for one that hangs.
TIMEOUT = 1800


class Watchdog:
    """Ends a process, with all that it started, that takes too long or that somebody leaves behind."""

    def __init__(self, process):
        self._process = process
        self._timer = threading.Timer(TIMEOUT, self._end)
        self._timer.daemon = True

    def __enter__(self):
        self._timer.start()
        return self

    def __exit__(self, *_):
        self._timer.cancel()
        if self._process.returncode is None:
            self._end()
            self._process.wait()

    def _end(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def start(words, environment, processors, folder, output):
    """A process in a session of its own, on these processors; and when it was started."""
    how = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
    ours = os.sched_getaffinity(0)
    # A child has its parent's.
    os.sched_setaffinity(0, processors)
    try:
        begin = time.monotonic()
        return subprocess.Popen(words, cwd=folder, env=environment, **how), begin
    finally:
        os.sched_setaffinity(0, ours)


def measure(program, name, size, processors, hugetlbfs=None):
    """A run of a program in the mode of this name. `seconds` are those of the whole, `ready` those until its steps had ended."""
    mode = MODES[name]
    set_thp(mode.thp)
    with tempfile.TemporaryDirectory(prefix="stillframe-pages-") as folder:
        folder = Path(folder)
        words = [*mode.words, *program.command(size, folder)]
        with (folder / "printed").open("w+") as output:
            process, begin = start(words, make_environment(mode, hugetlbfs), processors, folder, output)
            with Watchdog(process):
                _, status, usage = os.wait4(process.pid, 0)
                end = time.monotonic()
                process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            printed = output.read()
        if process.returncode:
            raise ProgramError(f"{' '.join(words)} ended with {process.returncode}: {printed[-1000:].strip()}")
        said = program.read(printed, folder)
    ready = said.pop("ready_seconds", None)
    return {
        **said,
        "seconds": end - begin - said.pop("look_seconds", 0),
        "ready": ready and ready - begin,
        "faults": usage.ru_minflt + usage.ru_majflt,
    }
