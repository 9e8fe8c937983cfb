"""The Python package, from the source distribution and from the checkout, in environments of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import ROOT, SECONDS_MAX

VERSION = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
DIST = ROOT / "target/dist"

PROGRAM = """
import sys
import stillframe as sf

assert sf.__version__ == sys.argv[1], sf.__version__
with sf.create("wheel", dir=sys.argv[2]) as region:
    u = region.array("u", shape=(8,), dtype="f8")
    u[3] = 12.5
    region.publish(1)
    with sf.open("wheel", dir=sys.argv[2]) as observer, observer.newest() as snapshot:
        assert memoryview(snapshot["u"])[3] == 12.5
        print("read version", snapshot.version)
"""


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def test_the_sources_hold_what_building_needs_and_nothing_built() -> None:
    with tarfile.open(DIST / f"stillframe-{VERSION}.tar.gz") as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"pyproject.toml", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE", "bindings/python/README.md"} <= names
    assert not [name for name in names if name.startswith("target/") or name.endswith((".so", ".pyc"))]


def test_the_wheel_names_the_oldest_glibc_that_it_runs_with() -> None:
    wheels = [path.name for path in DIST.glob(f"stillframe-{VERSION}-*.whl")]
    assert wheels and all(
        re.fullmatch(r"stillframe-.+-cp311-abi3-manylinux_2_\d+_\w+\.whl", name) for name in wheels
    ), wheels


@pytest.mark.parametrize("source", [DIST / f"stillframe-{VERSION}.tar.gz", ROOT], ids=["sources", "checkout"])
def test_pip_installs_a_package_that_publishes_and_reads(source: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    env = {}
    if source != ROOT:
        # In a folder of their own: cargo would take what was built from the checkout for theirs, which are older. All that
        # they depend on is built there, as fast as can be.
        env = {"CARGO_TARGET_DIR": str(tmp_path / "target"), "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0"}
        env |= {"CARGO_PROFILE_RELEASE_DEBUG": "false", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    # pip keeps what it built from an archive, and takes it for whatever bears the archive's name later.
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", source, **env)
    # From another folder, so that nothing of the checkout is imported.
    said = run(python, "-I", "-c", PROGRAM, VERSION, tmp_path / "regions")
    assert said == "read version 1\n"
