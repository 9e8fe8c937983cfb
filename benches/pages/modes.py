"""The modes in which a program is run, by what large pages it is given: settings of the machine, variables, words before it."""

import contextlib
import ctypes.util
import dataclasses
import fcntl
import os
import subprocess
import sys
from pathlib import Path

from load import LoadError
from programs import TARGET

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
STILL = TARGET / "release" / "still"
POOL_NAME = "pages-bench"
POOL = Path("/run/stillframe/pages") / POOL_NAME
#: The mode of the launcher.
OURS = "still"


@dataclasses.dataclass(frozen=True)
class Mode:
    """How a program is run. Where nothing else is said the kernel has its default: large pages for who asks for them."""

    thp: str = "madvise"
    environment: dict = dataclasses.field(default_factory=dict)
    words: tuple = ()
    library: str = None
    reserved: bool = False


MODES = {
    OURS: Mode(words=(str(STILL), "run", f"--pages={POOL_NAME}", "--")),
    "thp-always": Mode(thp="always"),
    "thp-madvise": Mode(),
    "thp-never": Mode(thp="never"),
    "glibc-thp": Mode(environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
    "glibc-reserved": Mode(environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}, reserved=True),
    "libhugetlbfs": Mode(environment={"HUGETLB_MORECORE": "yes"}, library="hugetlbfs", reserved=True),
    "mimalloc": Mode(library="mimalloc"),
}


def make_environment(mode, hugetlbfs):
    """The variables of a program that is run in this mode: none of another mode is among them."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
    environment.update(mode.environment)
    if mode.library:
        environment["LD_PRELOAD"] = ctypes.util.find_library(mode.library)
    if hugetlbfs and mode.reserved:
        environment["HUGETLB_PATH"] = str(hugetlbfs)
    return environment


def has_launcher():
    """Whether the command is built, and knows large pages."""
    try:
        said = subprocess.run([STILL, "run", "--help"], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return "--pages" in said.stdout


def find_missing(name, has_reserved):
    """Why there cannot be a mode on this machine, if so."""
    mode = MODES[name]
    if mode.library and not ctypes.util.find_library(mode.library):
        return f"lib{mode.library} is not installed: scripts/setup.sh pages-programs installs it"
    if mode.reserved and not has_reserved:
        return "no pages are reserved"
    if mode.thp != read_thp() and not os.access(THP, os.W_OK):
        return f"{THP} says {read_thp()}, and only root changes it"
    return None


def read_thp():
    """The setting in force: the one in brackets."""
    return THP.read_text().split("[")[1].split("]")[0]


def set_thp(setting):
    if read_thp() != setting:
        THP.write_text(setting)


@contextlib.contextmanager
def kept_thp():
    """Restores the machine's setting at the end, and lets no second benchmark change it meanwhile."""
    with THP.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LoadError(f"another benchmark changes {THP} just now: wait until it has ended") from None
        before = read_thp()
        try:
            yield
        finally:
            set_thp(before)


@contextlib.contextmanager
def pool(mib):
    """A pool of this size for the launcher. None, with the reason, where there cannot be one."""
    done = subprocess.run(
        [STILL, "pages", "reserve", f"{mib}M", "--name", POOL_NAME], capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        yield None, done.stderr.strip()
        return
    try:
        yield POOL, None
    finally:
        command = [STILL, "pages", "give-back", POOL_NAME]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        sys.stderr.write(done.stderr)
        # A mount namespace that began meanwhile, such as a container's, has the mount as long as it lives. Here the pool is gone.
        if done.returncode and os.path.ismount(POOL):
            raise LoadError(f"{POOL} is not given back: {done.stderr.strip()}")


@contextlib.contextmanager
def mounted(folder):
    """A file system of reserved pages, which libhugetlbfs looks for; none without root."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "hugetlbfs", "none", folder], capture_output=True)
    if done.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
