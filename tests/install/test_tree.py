"""What make install makes, and what a user's C, C++ and Fortran projects make of it, as docs/install.md shows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import FIRST_PREFIX, ROOT, User, install, shown

VERSION = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
LANGUAGES = ["c", "cxx", "fortran"]


def published(user: User, program: str) -> None:
    """What this program published can be read with the installed command, and is removed."""
    assert user.run(["still", "get", program, "u[1, 2]"]).split() == ["12.5"]
    user.run(["still", "rm", program])


def needs(program: Path, user: User) -> set[str]:
    """The shared libraries that a program names."""
    return set(re.findall(r"NEEDED.*\[(.+)\]", user.run(["readelf", "-d", str(program)])))


def test_the_tree_names_no_place(tree: Path) -> None:
    files = [path for path in tree.rglob("*") if path.is_file() and path.parent.name != "docs"]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        assert FIRST_PREFIX.encode() not in content, path
        if not content.startswith((b"\x7fELF", b"!<arch>")):
            assert str(ROOT).encode() not in content, path


def test_a_program_asks_for_the_library_by_its_soname(tree: Path) -> None:
    assert os.readlink(tree / "lib/libstillframe.so") == "libstillframe.so.0"
    assert os.readlink(tree / "lib/libstillframe.so.0") == f"libstillframe.so.{VERSION}"
    assert (tree / f"lib/libstillframe.so.{VERSION}").read_bytes()[:4] == b"\x7fELF"


def test_a_cmake_project_of_three_languages_builds_runs_and_is_read(anyone: User) -> None:
    project = anyone.project("with-cmake")
    anyone.run(shown("commands")["cmake"], cwd=project)
    for language in LANGUAGES:
        program = project / f"build/plate-{language}"
        assert "libstillframe.so.0" in needs(program, anyone)
        anyone.run([str(program)])
        published(anyone, f"plate-{language}")


def test_a_cmake_project_links_the_static_library(user: User) -> None:
    project = user.project("static")
    lists = (project / "CMakeLists.txt").read_text().replace("stillframe::stillframe", "stillframe::static")
    (project / "CMakeLists.txt").write_text(
        lists.replace("find_package", "set(stillframe_USE_STATIC_LIBS ON)\nfind_package")
    )
    user.run(shown("commands")["cmake"], cwd=project)
    for language in LANGUAGES:
        program = project / f"build/plate-{language}"
        assert not any("stillframe" in name for name in needs(program, user))
        user.run([str(program)])
        published(user, f"plate-{language}")


def test_directories_of_one_project_find_it_each_for_itself(user: User) -> None:
    project = user.project("directories")
    lists = (project / "CMakeLists.txt").read_text()
    head, body = lists.split("find_package", 1)
    (project / "CMakeLists.txt").write_text(f"{head}\nadd_subdirectory(one)\nadd_subdirectory(two)\n")
    for name in ("one", "two"):
        (project / name).mkdir()
        text = "find_package" + body.replace("plate.", "../plate.").replace("plate-", f"{name}-")
        # A library of the user's own takes in the module's objects.
        text += (
            f"\nadd_library({name} SHARED ../plate.f90)\ntarget_link_libraries({name} PRIVATE stillframe::fortran)\n"
        )
        (project / name / "CMakeLists.txt").write_text(text)
    user.own(project)
    user.run(shown("commands")["cmake"], cwd=project)
    user.run([str(project / "build/two/two-fortran")])
    published(user, "plate-fortran")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("0.0", 'compatible with requested version "0.0"'),
        ("0.2", 'compatible with requested version "0.2"'),
        ("0.1.99", 'compatible with requested version "0.1.99"'),
        ("1", 'compatible with requested version "1"'),
        ("0.1 COMPONENTS Fortran", "enable_language(Fortran) before find_package(stillframe)"),
        ("0.1 COMPONENTS Julia", "there is no component Julia; there are C, CXX and Fortran"),
    ],
)
def test_what_it_cannot_give_cmake_says(user: User, arguments: str, reason: str) -> None:
    project = user.home / f"refused-{arguments.replace(' ', '-')}"
    project.mkdir()
    user.own(project)
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES NONE)\n"
        f"find_package(stillframe {arguments} REQUIRED)\n"
    )
    said = user.run(f"cmake -S . -B build -D CMAKE_PREFIX_PATH={user.prefix} || true", cwd=project)
    assert reason in " ".join(said.split())
    assert "Generating done" not in said


@pytest.mark.parametrize(
    "arguments", ["", "0", "0.1", VERSION, f"{VERSION} EXACT", "0.1 COMPONENTS C OPTIONAL_COMPONENTS Fortran"]
)
def test_what_it_can_give_cmake_finds(user: User, arguments: str) -> None:
    project = user.home / f"found-{arguments.replace(' ', '-')}"
    project.mkdir()
    user.own(project)
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES NONE)\n"
        f"find_package(stillframe {arguments} REQUIRED)\n"
        "if(NOT EXISTS ${stillframe_COMMAND} OR NOT TARGET stillframe::cxx OR TARGET stillframe::fortran)\n"
        'message(FATAL_ERROR "incomplete")\nendif()\n'
    )
    user.run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={user.prefix}"], cwd=project)


def test_a_c_program_is_built_with_pkg_config(anyone: User) -> None:
    project = anyone.project("with-pkg-config")
    anyone.run(shown("commands")["pkg-config"], cwd=project)
    assert "libstillframe.so.0" in needs(project / "plate-c", anyone)
    anyone.run(["./plate-c"], cwd=project)
    published(anyone, "plate-c")


def test_a_c_program_links_the_static_library_with_pkg_config(user: User) -> None:
    project = user.project("static-with-pkg-config")
    user.run(shown("commands")["static"], cwd=project)
    assert needs(project / "plate-static", user) == set()
    for program in ("plate-static", "plate-archive"):
        assert not any("stillframe" in name for name in needs(project / program, user))
        user.run([f"./{program}"], cwd=project)
        published(user, "plate-c")


def test_programs_of_xpmem_are_built_with_pkg_config(anyone: User) -> None:
    project = anyone.home / "with-xpmem"
    project.mkdir()
    for name in ("figure3", "figure4"):
        source = ROOT / f"crates/xpmem/tests/programs/{name}.c"
        (project / f"{name}.c").write_text(source.read_text())
    anyone.own(project)
    for name in ("figure3", "figure4"):
        anyone.run(
            f"PKG_CONFIG_PATH={anyone.prefix}/lib/pkgconfig; export PKG_CONFIG_PATH; "
            f"cc {name}.c -o {name} $(pkg-config --cflags --libs stillframe-xpmem) -Wl,-rpath,{anyone.prefix}/lib",
            cwd=project,
        )
        assert "libstillframe-xpmem.so.0" in needs(project / name, anyone)
    said = anyone.run("mkfifo end; ./figure3 flux 7 <> end | { read line; ./figure4 flux; echo > end; }", cwd=project)
    assert said.split() == ["mean", "7"]


def test_a_fortran_program_is_built_with_a_plain_makefile(user: User) -> None:
    project = user.project("with-make")
    user.run(["make"], cwd=project)
    user.run(["./plate-fortran"], cwd=project)
    published(user, "plate-fortran")


def test_still_run_loads_the_library_that_lies_beside_it(anyone: User) -> None:
    maps = anyone.run(["still", "run", "--tcasm", "--", "cat", "/proc/self/maps"])
    assert f"{anyone.prefix.resolve()}/lib/libstillframe_tcasm.so" in maps
    assert (anyone.prefix / "lib/libstillframe_memory.so").is_file()


def test_uninstall_leaves_what_is_not_its_own(place: Path) -> None:
    prefix = place / "uninstalled"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib/mine").touch()
    assert install(prefix).returncode == 0
    # What an older version had installed, and this one has no more.
    (prefix / "include/old.h").touch()
    with (prefix / "share/stillframe/manifest").open("a") as manifest:
        manifest.write("include/old.h\n")
    assert install(prefix).returncode == 0
    assert not (prefix / "include/old.h").exists()
    assert install(prefix, "uninstall").returncode == 0
    assert [path for path in prefix.rglob("*")] == [prefix / "lib", prefix / "lib/mine"]
    again = install(prefix, "uninstall")
    assert again.returncode == 1 and "no Stillframe in" in again.stderr


def test_a_stage_for_packages_goes_before_the_prefix(place: Path) -> None:
    stage = place / "stage"
    done = install(Path("/usr"), DESTDIR=str(stage))
    assert done.returncode == 0, done.stderr
    assert (stage / "usr/bin/still").exists()
    assert "export" not in done.stderr


def test_libraries_may_lie_in_lib64(place: Path, user: User) -> None:
    prefix = place / "lib64"
    done = install(prefix, LIBDIR="lib64")
    assert done.returncode == 0, done.stderr
    assert not (prefix / "lib").exists()
    project = user.project("lib64-project")
    found = f"PKG_CONFIG_PATH={prefix}/lib64/pkgconfig"
    user.run(
        f"export {found}; cc plate.c $(pkg-config --cflags --libs stillframe) -Wl,-rpath,{prefix}/lib64 -o plate",
        cwd=project,
    )
    user.run(["./plate"], cwd=project)
    published(user, "plate-c")
    lists = "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES C)\nfind_package(stillframe REQUIRED)\n"
    lists += "add_executable(p plate.c)\ntarget_link_libraries(p stillframe::stillframe)\n"
    (project / "CMakeLists.txt").write_text(lists)
    user.run(f"cmake -S . -B build -D CMAKE_PREFIX_PATH={prefix} && cmake --build build && build/p", cwd=project)
    published(user, "plate-c")
    maps = user.run([f"{prefix}/bin/still", "run", "--tcasm", "--", "cat", "/proc/self/maps"])
    assert f"{prefix}/lib64/libstillframe_tcasm.so" in maps
    refused = install(prefix, LIBDIR="lib/x86_64-linux-gnu")
    assert refused.returncode == 2 and "lib or lib64" in refused.stderr
