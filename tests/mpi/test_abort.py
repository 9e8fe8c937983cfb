"""Programs end at `MPI_Abort`, also where it returns, as it does in MPICH from 4.1.3 on."""

import re
import subprocess

import pytest
from conftest import BUILT, ROOT

#: Where programs and documents are that show how to use MPI.
SHOWN = ["examples", "benches", "docs", "bindings", "packaging"]
CALL = re.compile(r"\bMPI_Abort\s*\([^;()]*\)|\.Abort\s*\([^()]*\)")
#: What ends the program, behind the call's own statement and at most the end of its line and signs of a diff.
END = re.compile(r"[\s+;,&]*(exit\(|(error )?stop\b|sys\.exit\(|os\._exit\()")

RETURNING = """
#include <mpi.h>
int MPI_Abort(MPI_Comm comm, int code) { return (void)comm, (void)code, 0; }
"""


def calls():
    for folder in SHOWN:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".c", ".cpp", ".cxx", ".h", ".hpp", ".f90", ".F90", ".py", ".rs", ".md"} or not path.is_file():
                continue
            text = path.read_text()
            for found in CALL.finditer(text):
                yield f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}", text[found.end() :]


def test_behind_each_call_the_program_ends():
    found = dict(calls())
    assert any("figure1.f90" in place for place in found) and any("mpi.md" in place for place in found)
    assert [place for place, behind in found.items() if not END.match(behind)] == []


@pytest.mark.parametrize(
    ("source", "arguments", "word"),
    [
        ("examples/heat/c/restart.c", ["8", "8", "3", "no name/"], "no name/"),
        ("examples/objects/figure1.c", ["0", "0", "3"], "too few"),
        ("benches/objects/heat.c", [], ""),
    ],
)
def test_a_program_that_gives_up_ends_where_the_call_returns(runs, source, arguments, word):
    shim, binary = runs.directory / "returning.so", runs.directory / "program"
    (runs.directory / "returning.c").write_text(RETURNING)
    subprocess.run(["mpicc", "-shared", "-fPIC", f"{runs.directory}/returning.c", "-o", shim], check=True, timeout=60)
    flags = ["-O1", "-std=gnu11", f"-I{ROOT}/bindings/c/include"]
    link = [f"-L{BUILT}", "-lstillframe", f"-Wl,-rpath,{BUILT}", "-lm", "-lpthread"]
    subprocess.run(["mpicc", *flags, str(ROOT / source), "-o", binary, *link], check=True, timeout=60)
    command = ["mpiexec", "-n", "1", "env", f"LD_PRELOAD={shim}", str(binary), *arguments]
    status, out, err = runs.end(runs.start(command))
    assert status in (1, 2) and word in err, f"{status}\n{out}{err}"
