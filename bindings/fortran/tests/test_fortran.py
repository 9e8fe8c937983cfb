"""The Fortran module: compiled, run, read from Python, and held against what it is made from and over.

Needs gfortran, fypp, libstillframe.so in the folder that STILLFRAME_BUILT names (target/debug), and valgrind for what is `long`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import stillframe as sf

TESTS = Path(__file__).resolve().parent
FORTRAN = TESTS.parent
ROOT = FORTRAN.parent.parent
LIBRARY = Path(os.environ.get("STILLFRAME_BUILT", ROOT / "target/debug")).resolve() / "libstillframe.so"
HEADER = ROOT / "bindings/c/include/stillframe.h"
#: Seconds after which something hangs.
WATCHDOG = 300
STRICT = ["-std=f2018", "-Wall", "-Wextra", "-Werror", "-fcheck=all", "-g"]
#: The tests compare what was copied, which is equal; gfortran 12 takes unallocated arrays for uninitialized numbers.
LENIENT = [*STRICT, "-Wno-compare-reals", "-Wno-maybe-uninitialized"]
PROGRAMS = ["kinds", "using", "followed", "sections", "truths", "misuse", "group", "rows", "stops", "restart", "arenas"]
PROGRAMS += ["objects", "goes_on"]


def run(*command, cwd=None, **environment):
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WATCHDOG,
    )


def must(*command, cwd=None, **environment):
    done = run(*command, cwd=cwd, **environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


def fypp(source, target):
    must(sys.executable, Path(sys.executable).parent / "fypp", source, target)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A directory with the module and the programs, compiled as strictly as gfortran can."""
    out = tmp_path_factory.mktemp("fortran")
    for name in ("libstillframe.so", "libstillframe.so.0"):
        (out / name).symlink_to(LIBRARY)
    fypp(TESTS / "kinds.fypp", out / "kinds.f90")
    must("gfortran", *STRICT, "-c", FORTRAN / "stillframe.f90", cwd=out)
    must("gfortran", *LENIENT, "-c", TESTS / "expecting.f90", cwd=out)
    for name in PROGRAMS:
        source = out / "kinds.f90" if name == "kinds" else TESTS / f"{name}.f90"
        objects = ["stillframe.o", "expecting.o", "-L.", "-lstillframe", f"-Wl,-rpath,{out}"]
        must("gfortran", *LENIENT, source, *objects, "-o", name, cwd=out)
    return out


@pytest.fixture
def regions():
    """A directory for regions, gone at the end."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="stillframe-fortran-", dir=where) as directory:
        yield directory


def test_the_module_is_what_its_source_makes(tmp_path):
    fypp(FORTRAN / "stillframe.fypp", tmp_path / "stillframe.f90")
    made, committed = (tmp_path / "stillframe.f90").read_text(), (FORTRAN / "stillframe.f90").read_text()
    assert made == committed, "run fypp bindings/fortran/stillframe.fypp bindings/fortran/stillframe.f90"


def test_lines_are_no_longer_than_the_standard_allows():
    assert max(map(len, (FORTRAN / "stillframe.f90").read_text().splitlines())) <= 132


def test_the_module_compiles_without_warnings_when_optimized(tmp_path):
    flags = [flag for flag in STRICT if not flag.startswith("-fcheck")]
    must("gfortran", *flags, "-O2", "-c", FORTRAN / "stillframe.f90", cwd=tmp_path)


def test_another_compiler_takes_the_module(tmp_path):
    flang = next(filter(None, map(shutil.which, ["flang", "flang-new", "flang-22", "flang-20"])), None)
    if flang is None:
        pytest.skip("there is no flang")
    must(flang, "-c", FORTRAN / "stillframe.f90", cwd=tmp_path)


def header_structs():
    text = re.sub(r"//.*", "", HEADER.read_text())
    for body, name in re.findall(r"typedef struct \{([^}]*)\} (\w+);", text):
        yield name.removeprefix("stillframe_"), re.findall(r"(\w+)(?:\[\w+\])?;", body)


def module_types():
    text = (FORTRAN / "stillframe.f90").read_text().replace("&\n", "")
    for name, body in re.findall(r"type, bind\(c\) :: c_(\w+)\n(.*?)end type", text, re.DOTALL):
        members = []
        for line in body.splitlines():
            members += re.findall(r"(\w+)(?:\(\w+\))? = ", line.partition("::")[2])
        yield name, members


def test_the_structures_are_those_of_the_header():
    header, module = dict(header_structs()), dict(module_types())
    assert len(module) == 27
    for name, members in module.items():
        assert members == header[name], name


def test_the_constants_are_those_of_the_header():
    header = dict(re.findall(r"^ +STILLFRAME_(\w+) = (\d+)", HEADER.read_text(), re.MULTILINE))
    text = (FORTRAN / "stillframe.f90").read_text()
    module = {name.upper(): value for name, value in re.findall(r"\bstillframe_(\w+) = (-?\d+)", text)}
    renamed = {"row_major": "C", "column_major": "FORTRAN", "live": "RANK_LIVE", "dead": "RANK_DEAD", "absent": "RANK_ABSENT"}
    renamed |= {"incomplete": "REGION_INCOMPLETE", "unreadable": "REGION_UNREADABLE"}
    for short, name in renamed.items():
        value = module.pop(short.upper())
        if name in header:
            module[name] = value
    missing = [name for name in header if name not in module and (100 <= int(header[name]) < 300 or name.startswith("WRONG"))]
    assert not missing
    known = {name: value for name, value in module.items() if name != "RANK_MAX"}
    assert known and {name: header.get(name) for name in known} == known


def values(kind, count, first):
    k = np.arange(first, first + count)
    if kind.startswith("int"):
        return (k % 100 - 50).astype(kind)
    if kind.startswith("real"):
        return (0.5 * k).astype(f"float{kind[4:]}")
    if kind.startswith("complex"):
        return (k - 0.25j * k).astype(f"complex{2 * int(kind[7:])}")
    if kind == "bool":
        return k % 3 == 0
    if kind == "logical":
        return (k % 3 == 0).astype("int32")
    return np.array([chr(ord("a") + i % 26) + "bc  " for i in k], dtype="S5")


def test_every_kind_and_rank_is_read_back_and_by_python(built, regions):
    must(built / "kinds", STILLFRAME_DIR=regions)
    extents, seen = (5, 4, 3, 2, 3, 2, 2), 0
    kinds = ["int8", "int16", "int32", "int64", "real32", "real64", "complex32", "complex64", "bool", "logical", "text"]
    for kind in kinds:
        with sf.open(f"kinds-{kind}", dir=regions) as observer:
            for version, first in ((1, 1), (2, 2)):
                with observer.version(version) as snapshot:
                    for rank in range(8):
                        shape = extents[:rank]
                        expected = values(kind, int(np.prod(shape, dtype=int)), first).reshape(shape, order="F")
                        # What was lent is shown until something else is.
                        for prefix in "gt" if kind == "text" else "gtm":
                            found = np.asarray(snapshot[f"{prefix}{rank}"])
                            if found.dtype.kind == "V":
                                found = found.view(f"S{found.dtype.itemsize}")
                            assert found.shape == shape
                            assert np.array_equal(found, expected), (kind, version, prefix, rank)
                            assert rank == 0 or found.flags.f_contiguous
                            seen += 1
    assert seen == 2 * 8 * (3 * (len(kinds) - 1) + 2)


def test_what_producers_and_observers_can_do(built, regions):
    must(built / "using", STILLFRAME_DIR=regions)


def test_what_is_given_once_is_shown_once_and_what_is_tracked_again(built, regions):
    must(built / "followed", STILLFRAME_DIR=regions)


def test_sections_are_shown_without_what_lies_between_their_elements(built, regions):
    must(built / "sections", STILLFRAME_DIR=regions)
    with sf.open("rounded", dir=regions) as observer, observer.newest() as snapshot:
        u = (np.arange(1, 101) / 3 - 10)
        assert np.array_equal(snapshot["half"], u.astype("f2"))
        assert snapshot["half"].dtype == np.float16
        single = u.astype("f4")
        bits = np.asarray(snapshot["brain"])
        shown = (bits.view("u2").astype("u4") << 16).view("f4")
        assert np.all(np.abs(shown - single) <= np.abs(single) / 256)


@pytest.mark.long
@pytest.mark.parametrize("program", ["using", "followed", "sections"])
def test_what_the_optimizer_sees_through_stays_right(built, regions, program):
    """In one file, as with -flto, the compiler knows what the module does with addresses."""
    sources = [FORTRAN / "stillframe.f90", TESTS / "expecting.f90", TESTS / f"{program}.f90"]
    (built / "whole.f90").write_text("".join(source.read_text() for source in sources))
    flags = ["-w", "-O3", "-march=native", "-L.", f"-Wl,-rpath,{built}"]
    must("gfortran", "whole.f90", *flags, "-lstillframe", "-o", "whole", cwd=built)
    must(built / "whole", STILLFRAME_DIR=regions)


def check_truths(program, regions, dtype):
    with sf.create("python", dir=regions) as region:
        arrays = {"flags": np.array([True, False, True]), "numbers": np.array([1, 0, 1], dtype="i2")}
        for name, array in arrays.items():
            region.track(name, array)
        region.publish(1)
        must(program, STILLFRAME_DIR=regions)
    with sf.open("truths", dir=regions) as observer, observer.newest() as snapshot:
        assert dict(snapshot.attrs) == {"all": True, "high": True, "none": False}
        assert snapshot["flags"].dtype == dtype
        assert np.array_equal(np.array(snapshot["flags"]) != 0, [True, False, True])


def test_truth_values_are_taken_whatever_their_bits(built, regions):
    check_truths(built / "truths", regions, bool)


def test_where_true_is_not_1_arrays_are_numbers(built, regions, tmp_path):
    """Without an option, compilers of Intel and NVIDIA have -1. Here the module is told that this one had."""
    module = (FORTRAN / "stillframe.f90").read_text()
    told = module.replace("transfer(.true._c_bool, no) == yes", "transfer(.true._c_bool, no) == -yes")
    assert told != module
    (tmp_path / "stillframe.f90").write_text(told)
    must("gfortran", *STRICT, "-c", "stillframe.f90", cwd=tmp_path)
    objects = ["stillframe.o", built / "expecting.o", f"-L{built}", "-lstillframe", f"-Wl,-rpath,{built}"]
    must("gfortran", *LENIENT, f"-I{built}", TESTS / "truths.f90", *objects, "-o", "truths", cwd=tmp_path)
    check_truths(tmp_path / "truths", regions, np.int8)


def test_what_goes_wrong_is_told(built, regions):
    must(built / "misuse", STILLFRAME_DIR=regions)


def test_a_group_shows_the_newest_version_that_every_rank_has(built, regions):
    must(built / "group", STILLFRAME_DIR=regions)


def test_runs_go_on_from_memory_and_from_checkpoints(built, regions, tmp_path):
    must(built / "restart", tmp_path, STILLFRAME_DIR=regions)


def test_many_regions_lie_in_one_arena(built, regions):
    must(built / "arenas", STILLFRAME_DIR=regions)


def test_processes_hold_fragments_of_one_object(built, regions):
    must(built / "objects", STILLFRAME_DIR=regions)


@pytest.mark.long
@pytest.mark.parametrize(
    "program", ["kinds", "using", "followed", "sections", "misuse", "group", "restart", "arenas", "objects"]
)
def test_valgrind_finds_no_error_and_no_leak(built, regions, tmp_path, program):
    options = ["-q", "--fair-sched=yes", "--leak-check=full", "--error-exitcode=9", f"--suppressions={TESTS / 'valgrind.supp'}"]
    must("valgrind", *options, built / program, tmp_path, STILLFRAME_DIR=regions, STILLFRAME_TRACKER="full_copy")


def test_without_stat_an_error_ends_the_program_with_its_message(built, regions):
    done = run(built / "stops", STILLFRAME_DIR=regions)
    assert done.returncode == 1
    assert "there is no region 'nobody-publishes-this'" in done.stderr
    assert "it went on" not in done.stdout


def test_a_publish_that_fails_ends_no_program_and_each_reason_is_told_once_until_a_version_is_published(built, regions):
    done = must(built / "goes_on", STILLFRAME_DIR=regions)
    assert "it went on" in done.stdout
    told = done.stderr.splitlines()
    region, background = "of region 'days/0' is not published, and the program goes on", "stillframe_publish_start: "
    sparing = "of region 'sparing'"
    expected = [
        ("stillframe: version 1 " + region, "its bound of 524288 bytes and needs 802816 more"),
        ("stillframe: version 4 " + region, "version 4 does not follow version 4"),
        ("stillframe: version 5 " + region, background + "version 5 does not follow version 5"),
        ("stillframe: version 6 " + region, "version 6 does not follow version 6"),
        ("stillframe: version 7 " + region, "version 7 does not follow version 7"),
        ("stillframe: version 8 " + region, "its bound of 524288 bytes and needs"),
        (f"stillframe: version 1 {sparing} is not published", "version 1 does not follow version 1"),
        (f"stillframe: version 1 {sparing} is not published", "version 1 does not follow version "),
        (f"stillframe: publishes {sparing} that failed for reasons that were said before: 1", ""),
        ("stillframe: version 1 of region 'no/such/../name' is not published", "the region is NULL"),
        ("stillframe: publishes of region 'days/0' that failed for reasons that were said before: 6", ""),
    ]
    assert len(told) == len(expected), done.stderr
    for line, (begin, words) in zip(told, expected, strict=True):
        assert line.startswith(begin) and words in line, line
    assert must(built / "goes_on", STILLFRAME_DIR=regions, STILLFRAME_QUIET="1").stderr == ""


def test_what_python_publishes_is_read_in_both_orders(built, regions):
    observer = subprocess.Popen(
        [built / "rows"], env={**os.environ, "STILLFRAME_DIR": regions}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        i, j, k = np.ogrid[1:3, 1:4, 1:5]
        numbers = (100 * i + 10 * j + k).astype("f8")
        with sf.create("python", dir=regions) as region:
            arrays = {
                "c": np.ascontiguousarray(numbers),
                "f": np.asfortranarray(numbers),
                "line": np.array([1.0, 2.0, 3.0]),
                "number": np.array(7, dtype="i4"),
                "words": np.array([b"wind", b"sea"], dtype="S4"),
            }
            for name, array in arrays.items():
                region.track(name, array)
            region.publish(0, arrays=arrays, attrs={"title": "a test"})
            out, err = observer.communicate(timeout=WATCHDOG)
        assert observer.returncode == 0, out + err
    finally:
        if observer.poll() is None:
            observer.kill()
            observer.wait()
