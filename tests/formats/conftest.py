"""Files that Stillframe writes, opened by those who have never heard of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import museum
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("STILLFRAME_BUILT", ROOT / "target/debug")).absolute()
SECONDS_MAX = 120

if not (BUILT / "still-export").exists() and "--collect-only" not in sys.argv:
    pytest.exit("still-export is not built: scripts/setup.sh export, then make test-build", returncode=1)


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A directory for regions and files, which is gone afterwards."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="still-formats-", dir=base))
    yield folder
    shutil.rmtree(folder)


class Still:
    """The command line, in one directory of regions."""

    def __init__(self, regions: Path):
        self.regions = regions

    def __call__(self, *args: object, code: int = 0, **options: object) -> subprocess.CompletedProcess[str]:
        """Runs a command that must end with this code; a hanging one fails the test."""
        done = subprocess.run(
            [BUILT / "still", *map(str, args)],
            env={**os.environ, "STILLFRAME_DIR": str(self.regions)},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            **options,
        )
        assert done.returncode == code, f"still {args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def complaint(self, *args: object, code: int = 1, **options: object) -> str:
        """Runs a command that must fail and say why in one line."""
        text = self(*args, code=code, **options).stderr
        assert text.startswith("still: ") and text.count("\n") == 1, text
        return text


@pytest.fixture(scope="session")
def still(scratch: Path) -> Still:
    return Still(scratch / "regions")


@pytest.fixture(scope="session")
def shown(still: Still) -> dict[str, museum.Exhibit]:
    """The museum, published as version 12 of a region of that name."""
    return museum.publish(still.regions)


