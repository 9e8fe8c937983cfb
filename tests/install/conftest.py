"""An installed tree, moved from where it was installed to, and users who build programs against it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What must be somewhere, to be looked for where it must not be.
FIRST_PREFIX = "stillframe-first-prefix"
SECONDS_MAX = 900


@dataclass(frozen=True)
class User:
    """Somebody with a home of their own, in which Stillframe lies in .local."""

    name: str
    home: Path
    regions: Path
    uid: int | None

    @property
    def prefix(self) -> Path:
        return self.home / ".local"

    def run(self, command: str | list[str], cwd: Path | None = None, check: bool = True, **env: str) -> str:
        """Runs a command or a bash script; returns what it prints. A hanging one fails the test."""
        argv = ["bash", "-euo", "pipefail", "-c", command] if isinstance(command, str) else command
        keep = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        done = subprocess.run(
            argv,
            cwd=cwd or self.home,
            env={
                **keep,
                "PATH": f"{self.prefix}/bin:{os.environ['PATH']}",
                "HOME": str(self.home),
                "STILLFRAME_DIR": str(self.regions),
                **env,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            **({} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}),
        )
        if check:
            assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def project(self, name: str) -> Path:
        """A new folder with the files that docs/install.md shows."""
        folder = self.home / name
        folder.mkdir()
        for file, text in shown("file").items():
            (folder / file).write_text(text)
        self.own(folder)
        return folder

    def own(self, *paths: Path) -> None:
        for path in paths:
            for each in (path, *path.rglob("*")):
                if self.uid is not None:
                    os.chown(each, self.uid, self.uid, follow_symlinks=False)


def shown(kind: str) -> dict[str, str]:
    """The blocks of docs/install.md that carry `kind=NAME`, by their names."""
    text = (ROOT / "docs/install.md").read_text()
    return dict(re.findall(rf"^```\w+ {kind}=(\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def install(prefix: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/install.sh", *arguments],
        env={**os.environ, "PREFIX": str(prefix), **env},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that every user may read; pytest's own are its user's."""
    path = Path(tempfile.mkdtemp(prefix="stillframe-install-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def tree(place: Path) -> Path:
    """The installed tree, which is no longer where it was installed to."""
    done = install(place / FIRST_PREFIX)
    assert done.returncode == 0, done.stderr
    return (place / FIRST_PREFIX).rename(place / "moved")


def settle(place: Path, tree: Path, name: str, uid: int | None) -> Iterator[User]:
    """Somebody with the tree in their home, until the tests are over."""
    home = place / name
    home.mkdir()
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    regions = Path(tempfile.mkdtemp(prefix="stillframe-install-", dir=shm))
    user = User(name, home, regions, uid)
    shutil.copytree(tree, user.prefix, symlinks=True)
    user.own(home, regions)
    yield user
    shutil.rmtree(regions)


@pytest.fixture(scope="session")
def user(place: Path, tree: Path) -> Iterator[User]:
    """An ordinary user: nobody, where the tests are root's."""
    yield from settle(place, tree, "user", pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None)


@pytest.fixture(scope="session")
def root(place: Path, tree: Path) -> Iterator[User]:
    if os.geteuid() != 0:
        pytest.skip("only root can be root")
    yield from settle(place, tree, "root", None)


@pytest.fixture(params=["user", "root"])
def anyone(request: pytest.FixtureRequest) -> User:
    return request.getfixturevalue(request.param)
