"""The Spack recipe, over a stand-in for what it takes from Spack.

Spack comes from its git repository only, which a test does not fetch. What is checked: the recipe's own statements run,
its steps build and install what it promises, and its stand-alone tests pass. What is not: that Spack understands its
directives and finds what it depends on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SECONDS_MAX

RECIPE = ROOT / "packaging/spack/package.py"


class Prefix(str):
    """A path whose attributes are the paths below it."""

    def __getattr__(self, name: str) -> Prefix:
        return Prefix(os.path.join(self, name))


class Executable:
    def __init__(self, name: str) -> None:
        self.argv = [str(name)]

    def add_default_arg(self, *arguments: str) -> None:
        self.argv += arguments

    def __call__(self, *arguments: str, extra_env: dict[str, str] | None = None, output=None, error=None) -> str:
        env = {**os.environ, **(extra_env or {})}
        done = subprocess.run(
            [*self.argv, *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


class Spec:
    """What was asked for: `stillframe@VERSION`, with or without the Python package."""

    def __init__(self, version: str, python: bool) -> None:
        self.version, self.python = version, python

    def satisfies(self, what: str) -> bool:
        assert what == "+python"
        return self.python

    def __getitem__(self, name: str) -> types.SimpleNamespace:
        assert name == "python"
        return types.SimpleNamespace(command=Executable(sys.executable))


class Package:
    def __init__(self, spec: Spec, prefix: Prefix) -> None:
        self.spec, self.prefix = spec, prefix


def recipe(directives: list[tuple]) -> type[Package]:
    """The recipe's class, read with a stand-in for Spack's modules; its directives are written down."""

    def directive(name: str):
        return lambda *arguments, **options: directives.append((name, *arguments))

    def which(name: str, required: bool = False) -> Executable | None:
        found = shutil.which(name)
        assert found or not required, name
        return Executable(found) if found else None

    def check_outputs(expected: list[str], actual: str) -> None:
        assert all(text in actual for text in expected), actual

    spack = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "extends", "requires"):
        setattr(spack, name, directive(name))
    spack.when = lambda *_: contextlib.nullcontext()
    spack.which, spack.Executable, spack.check_outputs, spack.make_jobs = which, Executable, check_outputs, 2
    spack.find_libraries = lambda name, root, shared: sorted(Path(root).glob(f"{name}.so"))
    generic = types.ModuleType("spack_repo.builtin.build_systems.generic")
    generic.Package = Package
    stand_in = {spack.__name__: spack, generic.__name__: generic}
    for name in list(stand_in):
        while "." in name:
            name = name.rpartition(".")[0]
            stand_in.setdefault(name, types.ModuleType(name))
    with pytest.MonkeyPatch.context() as patch:
        for name, module in stand_in.items():
            patch.setitem(sys.modules, name, module)
        loaded = importlib.util.spec_from_file_location("stillframe_recipe", RECIPE)
        module = importlib.util.module_from_spec(loaded)
        loaded.loader.exec_module(module)
    return module.Stillframe


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Spack runs a recipe in its source's folder."""
    monkeypatch.chdir(ROOT)
    # Spack puts the programs of build dependencies, maturin among them, into the path.
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    yield


def test_the_recipe_installs_what_it_promises(source: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directives: list[tuple] = []
    stillframe = recipe(directives)
    version = next(arguments[0] for name, *arguments in directives if name == "version")
    prefix = Prefix(tmp_path / "prefix")
    package = stillframe(Spec(version, python=True), prefix)
    package.install(package.spec, prefix)
    for file in package.sanity_check_is_file:
        assert Path(prefix, file).is_file(), file
    assert [path.name for path in package.libs] == ["libstillframe.so"]
    assert list(Path(prefix).glob("lib/python3.*/site-packages/stillframe/_native*.so"))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STILLFRAME_DIR", str(tmp_path / "regions"))
    for test in [name for name in dir(stillframe) if name.startswith("test_")]:
        getattr(package, test)()


def test_the_recipe_has_the_version_of_the_sources() -> None:
    directives: list[tuple] = []
    recipe(directives)
    versions = [arguments[0] for name, *arguments in directives if name == "version"]
    assert f'\nversion = "{versions[0]}"\n' in (ROOT / "Cargo.toml").read_text()
