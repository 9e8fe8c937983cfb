#!/usr/bin/env python3
"""Makes the Python package of what cargo built: link_package.py FOLDER

FOLDER/python, in PYTHONPATH, then has the package `stillframe`: links to its sources and to FOLDER/libstillframe_python.so, and what
an installation would say of it. Tests take this one, so that nothing is built a second time for a wheel.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def link(package, library, sources):
    """Fills a folder with links; those that were there are made anew, for a file may be gone."""
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for source in sources.iterdir():
        if source.name != "__pycache__":
            (package / source.name).symlink_to(source)
    (package / "_native.abi3.so").symlink_to(library)


def describe(folder, project, version):
    """What importlib.metadata reads: xarray finds the engine by its entry point."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (folder / "entry_points.txt").write_text("\n".join(groups))


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    built = Path(sys.argv[1]).resolve()
    library = built / "libstillframe_python.so"
    if not library.exists():
        sys.exit(f"link_package.py: {library} is missing: make test-build builds it")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    link(built / "python" / project["name"], library, ROOT / "bindings/python/python/stillframe")
    describe(built / "python" / f"{project['name']}-{version}.dist-info", project, version)


if __name__ == "__main__":
    os.umask(0o022)
    main()
