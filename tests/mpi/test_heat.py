"""The heat examples in five languages: the same numbers with Stillframe as without, and everybody reads everybody."""

import difflib
import json
import re
import sys

import numpy as np
import pytest
import stillframe as sf
from conftest import BUILT, HEAT, LANGUAGES, ROOT, Plate, program, simulation

#: Neither sides nor blocks are alike, and a rank's block ends within a page.
PLATE = Plate(75, 101, 60)

SOURCES = {
    "c": ("c/plain.c", "c/heat.c"),
    "cxx": ("cxx/plain.cpp", "cxx/heat.cpp"),
    "fortran": ("fortran/plain.f90", "fortran/heat.f90"),
    "python": ("python/plain.py", "python/heat.py"),
    "rust": ("rust/plain.rs", "rust/heat.rs"),
}
#: Lines outside the source that publishing needs; the flags of compiler and linker are no lines of the program.
ELSEWHERE = {"rust": ["stillframe.workspace = true"]}


def result(out):
    """Step, heat and bits that a simulation prints at its end."""
    found = re.search(r"step (\d+), heat ([\d.]+), bits ([\da-fA-F]{16}),", out)
    assert found, out
    return int(found[1]), float(found[2]), int(found[3], 16)


def check_end(out, plate):
    step, heat, bits = result(out)
    assert (step, bits) == (plate.steps, plate.bits(plate.steps)), out
    assert abs(heat - plate.heat(step)) < 0.001, out


def seen(out):
    """Versions that an observer printed, and their bits."""
    lines = re.findall(r"^ *version (\d+): heat ([\d.]+), bits ([\da-fA-F]{16})", out, re.MULTILINE)
    assert lines, out
    return [(int(version), float(heat), int(bits, 16)) for version, heat, bits in lines]


def check_seen(out, plate):
    """All that an observer saw is right, and in order. Returns the last version."""
    versions = seen(out)
    for version, heat, bits in versions:
        assert bits == plate.bits(version), f"version {version}: {out}"
        assert abs(heat - plate.heat(version)) < 0.001, out
    numbers = [version for version, _, _ in versions]
    assert numbers == sorted(set(numbers)), numbers
    return numbers[-1]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("ranks", [4, *(pytest.param(ranks, marks=pytest.mark.long) for ranks in (1, 6))])
def test_a_plain_program_finds_the_same_numbers_however_the_plate_is_divided(runs, language, ranks):
    check_end(runs.run(simulation(program(language, "plain"), *PLATE.arguments, "heat", ranks=ranks)), PLATE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_publishing_changes_no_number_and_every_observer_reads_every_producer(runs, language):
    observers = [(other, runs.start([*program(other, "look"), "heat"])) for other in LANGUAGES]
    check_end(runs.run(simulation(program(language, "heat"), *PLATE.arguments, "heat")), PLATE)
    for other, observer in observers:
        status, out, err = runs.end(observer)
        assert status == 0, f"{other}: {out}{err}"
        assert check_seen(out, PLATE) == PLATE.steps, f"{other}: {out}"
    with sf.open_group("heat", dir=runs.regions) as group, group.newest() as snapshot:
        parts = [part["u"][1:-1, 1:-1] for part in snapshot]
        orders = {part.variables["u"].order for part in snapshot}
        assert np.array_equal(np.block([parts[:2], parts[2:]]), PLATE.versions[PLATE.steps])
        assert orders == {"F" if language == "fortran" else "C"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_run_may_be_repeated_under_the_same_name(runs, language):
    first, second = Plate(40, 40, 20), Plate(40, 56, 10)
    for plate in (first, second):
        check_end(runs.run(simulation(program(language, "heat"), *plate.arguments, "heat")), plate)
        assert check_seen(runs.run([*program("rust", "look"), "heat"]), plate) == plate.steps


def changed_lines(language):
    plain, heat = ((HEAT / path).read_text().splitlines() for path in SOURCES[language])
    return list(difflib.unified_diff(plain, heat, *SOURCES[language], lineterm="", n=1))


@pytest.mark.parametrize("language", LANGUAGES)
def test_publishing_takes_at_most_four_lines_and_the_documents_show_them(language):
    lines = changed_lines(language)
    added = [line for line in lines[2:] if line.startswith("+")] + ELSEWHERE.get(language, [])
    removed = [line for line in lines[2:] if line.startswith("-")]
    assert 1 <= len(added) <= 4 and not removed, lines
    assert all(len(line) <= 121 and line.count(";") <= 1 for line in added), "one statement to a line"
    shown = "```diff\n" + "\n".join(lines) + "\n```\n"
    assert shown in (ROOT / "docs" / "mpi.md").read_text(), f"docs/mpi.md should show\n{shown}"


def test_the_benchmark_tells_what_publishing_costs(runs):
    options = ["--size", "64", "--steps", "10", "--rounds", "2", "--json", "--programs", str(BUILT / "languages/heat")]
    out = runs.run([sys.executable, str(ROOT / "benches" / "mpi" / "heat.py"), *options])
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["case"]["measures"] for row in rows] == ["publish", "publish, observed", "observer"]
    for row in rows:
        assert row["value"] > 0 and row["baseline"] > 0 and len(row["detail"]["ratios"]) == 2
        assert row["detail"]["publish_ms"] > 0
    assert rows[1]["detail"]["versions_seen"] >= 1
