"""Work that competes for memory and processors: a kernel that is built again and again, and a program that fills the page cache."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("/usr/src/linux-source-6.1.tar.xz")


class LoadError(Exception):
    """A load cannot be made, with the reason."""


def unpack(where):
    """The kernel's sources, below a folder: once for all runs. Nothing is built in them: that takes folders of its own."""
    tree = where / "linux-source-6.1"
    done = where / "unpacked"
    if not done.exists():
        if not SOURCE.exists():
            raise LoadError(f"{SOURCE} is missing: scripts/setup.sh pages installs it (Debian: linux-source-6.1)")
        where.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["tar", "xf", SOURCE, "-C", where], check=True)
        done.touch()
    return tree


class Load:
    """A program in a session of its own, which ends with everything that it started."""

    def __init__(self, words, cwd, log):
        self._log = log.open("w")
        # What a compiler that is killed leaves there goes with it. Others that the load had started may be dying yet then.
        self._temporary = tempfile.TemporaryDirectory(prefix="load-", dir=log.parent, ignore_cleanup_errors=True)
        how = {"stdin": subprocess.DEVNULL, "stdout": self._log, "stderr": subprocess.STDOUT, "start_new_session": True}
        self._process = subprocess.Popen(words, cwd=cwd, env={**os.environ, "TMPDIR": self._temporary.name}, **how)
        self._path = log

    def check(self):
        """A load that has ended would compete with nobody."""
        if self._process.poll() is not None:
            raise LoadError(f"the load ended with {self._process.returncode}: {self._path.read_text()[-1000:]}")

    def end(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._log.close()
        self._temporary.cleanup()


class Loads:
    """The loads of a profile, for as long as a `with` lasts: `none`, `build`, or `cache`, which is a build too."""

    PROFILES = ("none", "build", "cache")

    def __init__(self, profile, folder, jobs):
        self._profile, self._folder, self._jobs = profile, folder, jobs
        self._loads, self._cached = [], None

    def __enter__(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            if self._profile != "none":
                self._build()
            if self._profile == "cache":
                self._fill_cache()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for load in self._loads:
            load.end()
        self._loads = []
        if self._cached is not None:
            shutil.rmtree(self._cached, ignore_errors=True)
            self._cached = None

    def check(self):
        for load in self._loads:
            load.check()

    def _build(self):
        tree = unpack(self._folder)
        for number in range(len(self._jobs)):
            # Each one builds into a folder of its own, and begins anew when it is done: it lasts longer than what is measured.
            out = self._folder / f"build{number}"
            out.mkdir(exist_ok=True)
            words = ["make", "-s", f"O={out}", "defconfig"]
            done = subprocess.run(words, cwd=tree, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            if done.returncode:
                raise LoadError(f"{' '.join(words)} in {tree} ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
            again = f"set -e; while :; do make -s O={out} -j{self._jobs[number]} vmlinux; make -s O={out} clean; done"
            self._loads.append(Load(["sh", "-c", again], tree, self._folder / f"build{number}.log"))
        # Until the compiler runs, or it is known that it does not.
        time.sleep(5)
        self.check()

    def _fill_cache(self):
        self._cached = Path(tempfile.mkdtemp(prefix="cache-", dir=self._folder))
        again = (
            "i=0; while :; do dd if=/dev/zero of=file$((i % 16)) bs=1M count=1024 status=none;"
            " cat file* > /dev/null; i=$((i + 1)); done"
        )
        self._loads.append(Load(["sh", "-c", again], self._cached, self._folder / "cache.log"))
