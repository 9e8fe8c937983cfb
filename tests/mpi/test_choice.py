"""What scripts/mpi.sh says of compilers of MPI that lack something: they are there, and compile nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: As the compiler says it where the package with the headers is not installed.
NO_HEADERS = "echo 'mpi.h: No such file or directory' >&2; exit 1"


@pytest.fixture
def clone(tmp_path):
    """A folder with the script and nothing that was chosen, and one of commands to be put before all others."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "commands").mkdir()
    shutil.copy(ROOT / "scripts/mpi.sh", tmp_path / "scripts")
    return tmp_path


def command(clone, name, text):
    path = clone / "commands" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def ask(clone, *arguments, **environment):
    path = f"{clone}/commands:/usr/bin:/bin"
    done = subprocess.run(
        [clone / "scripts/mpi.sh", *arguments],
        env={"PATH": path, "HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


def test_an_mpicc_without_headers_is_told_with_the_package_that_has_them(clone):
    for name in ("mpicc", "mpicxx", "mpifort", "mpiexec"):
        command(clone, f"{name}.openmpi", NO_HEADERS)
    status, said = ask(clone, STILLFRAME_MPI="openmpi")
    assert status == 1
    assert "no MPI here compiles a program" in said
    assert "mpicc.openmpi is Open MPI's, and mpi.h is missing (as root: apt-get install libopenmpi-dev)" in said
    assert not (clone / "target/mpi").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'[ "$1" != --showme:version ] || {{ echo "mpicc: Open MPI 4.1.4"; exit 0; }}; {NO_HEADERS}', "apt-get install libopenmpi-dev"),
        (NO_HEADERS, "install the headers of its MPI"),
        ("echo 'cannot find the compiler gcc' >&2; exit 1", "mpicc does not compile: cannot find the compiler gcc"),
    ],
)
def test_a_check_compiles_one_line(clone, text, words):
    command(clone, "mpicc", text)
    status, said = ask(clone, "--check")
    assert status == 1 and words in said, said


def test_a_check_of_an_mpi_that_works_says_nothing(clone):
    command(clone, "mpicc", 'exec cc "$@" -I"${0%/*}"')
    (clone / "commands/mpi.h").write_text("\n")
    assert ask(clone, "--check") == (0, "")


def test_one_that_compiles_and_does_not_run_is_told_by_what_it_says(clone):
    (clone / "commands/mpi.h").write_text("")
    for name in ("mpicxx.mpich", "mpifort.mpich"):
        command(clone, name, "exit 1")
    # Compiles the line, and makes of the program one that is not run.
    command(clone, "mpicc.mpich", 'for last; do :; done; case "$*" in *-c*) : ;; *) : >"$last" ;; esac')
    command(clone, "mpiexec.mpich", "echo 'there are not enough slots' >&2; exit 1")
    status, said = ask(clone, STILLFRAME_MPI="mpich")
    assert status == 1
    assert "mpiexec.mpich does not run what mpicc.mpich compiles on two ranks: there are not enough slots" in said


def test_the_makefiles_of_the_examples_say_what_is_missing(clone):
    command(clone, "mpicc", NO_HEADERS)
    (clone / "libstillframe.so").touch()
    for example in ("heat", "objects"):
        done = subprocess.run(
            ["make", "-C", ROOT / "examples" / example, f"OUT={clone}/out", f"LIBRARY={clone}"],
            env={"PATH": f"{clone}/commands:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode != 0
        assert "finds no mpi.h" in done.stderr, done.stdout + done.stderr


def test_makefiles_of_examples_that_are_up_to_date_ask_for_no_mpi(clone):
    for name in ("mpicc", "mpicxx", "mpifort", "gcc", "g++", "cc", "c++", "gfortran"):
        command(clone, name, 'while [ $# -gt 0 ]; do [ "$1" != -o ] || touch "$2"; shift; done')
    (clone / "libstillframe.so").touch()
    # Nothing but what a recipe that has nothing to do takes.
    bare = clone / "bare"
    bare.mkdir()
    for name in ("make", "sh"):
        (bare / name).symlink_to(shutil.which(name))
    for example in ("heat", "objects"):
        for path in (f"{clone}/commands:/usr/bin:/bin", str(bare)):
            done = subprocess.run(
                ["make", "-C", ROOT / "examples" / example, f"OUT={clone}/{example}", f"LIBRARY={clone}"],
                env={"PATH": path},
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        # Of the second time.
        assert "mpi" not in done.stdout, done.stdout


def test_the_line_is_compiled_from_a_file(clone):
    command(clone, "mpicc", 'for word; do case $word in *.c) grep -q "mpi.h" "$word" && exit 0 ;; -) exit 1 ;; esac; done; exit 1')
    assert ask(clone, "--check") == (0, "")


def test_an_mpi_that_works_is_not_asked_for_its_headers(clone):
    """A wrapper that compiles programs and refuses what only asks for the headers is as good."""
    for name in ("mpicxx.mpich", "mpifort.mpich"):
        command(clone, name, "exit 1")
    command(clone, "mpicc.mpich", 'for last; do :; done; case "$*" in *-c*) exit 1 ;; *) : >"$last" ;; esac')
    command(clone, "mpiexec.mpich", "echo '2 ranks of some MPI'")
    assert ask(clone, STILLFRAME_MPI="mpich")[0] == 0
    assert (clone / "target/mpi/chosen").exists()
