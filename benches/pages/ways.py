"""The ways to give a program large pages: settings of the machine, variables and words before the program."""

import contextlib
import ctypes.util
import dataclasses
import fcntl
import os
import subprocess
from pathlib import Path

from load import LoadError
from programs import TARGET

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
STILL = TARGET / "release" / "still"
POOL_NAME = "pages-bench"
POOL = Path("/run/stillframe/pages") / POOL_NAME
#: The way of the launcher.
OURS = "still"


@dataclasses.dataclass(frozen=True)
class Way:
    """How a program is run. All ways but three have the kernel's default, in which a program asks for large pages."""

    thp: str = "madvise"
    environment: dict = dataclasses.field(default_factory=dict)
    words: tuple = ()
    library: str = None
    reserved: bool = False


WAYS = {
    OURS: Way(words=(str(STILL), "run", f"--pages={POOL_NAME}", "--")),
    "thp-always": Way(thp="always"),
    "thp-madvise": Way(),
    "thp-never": Way(thp="never"),
    "glibc-thp": Way(environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
    "glibc-reserved": Way(environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}, reserved=True),
    "libhugetlbfs": Way(environment={"HUGETLB_MORECORE": "yes"}, library="hugetlbfs", reserved=True),
    "mimalloc": Way(library="mimalloc"),
}


def make_environment(way, hugetlbfs):
    """The variables of a program that is run in this way, and in no other."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
    environment.update(way.environment)
    if way.library:
        environment["LD_PRELOAD"] = ctypes.util.find_library(way.library)
    if hugetlbfs and way.reserved:
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
    """Why a way cannot be gone on this machine, if so."""
    way = WAYS[name]
    if way.library and not ctypes.util.find_library(way.library):
        return f"lib{way.library} is not installed: scripts/setup.sh pages-programs installs it"
    if way.reserved and not has_reserved:
        return "no pages are reserved"
    if way.thp != read_thp() and not os.access(THP, os.W_OK):
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
        subprocess.run([STILL, "pages", "give-back", POOL_NAME], check=True, stdout=subprocess.DEVNULL, timeout=600)


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
