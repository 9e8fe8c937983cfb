#!/usr/bin/env bash
# The programs of MPI in C, C++ and Fortran once more, compiled and run with Open MPI, which `scripts/setup.sh openmpi` finds.
# Without it the step is skipped with a message. The benchmark has programs of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -d target/openmpi/bin ] || { echo "skipped: no Open MPI"; exit 0; }
export PATH="$PWD/target/openmpi/bin:$PATH"
programs=$PWD/target/openmpi
built=$(realpath "${STILLFRAME_BUILT:-target/debug}")
make -C examples/heat LIBRARY="$built" OUT="$programs/heat" MPI="$programs/chosen"
make -C examples/objects LIBRARY="$built" OUT="$programs/objects" MPI="$programs/chosen"
STILLFRAME_TEST_PROGRAMS=$programs STILLFRAME_TEST_LANGUAGES="c cxx fortran" target/venv/bin/python -m pytest -q -m "long or not long" tests/mpi -k "not python and not benchmark"
