#!/usr/bin/env bash
# Builds the programs of this benchmark into target/pages.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${CARGO_TARGET_DIR:-target}/pages
mkdir -p "$out"
# Contracted multiplications and additions would make results differ between compilers.
flags=(-O2 -g -Wall -Wextra -ffp-contract=off -std=gnu11)
for program in cg fem start; do
    gcc "${flags[@]}" "benches/pages/programs/$program.c" -o "$out/$program" -lm
done
# The example as it is; its clock counts the faults between two readings.
mpicc "${flags[@]}" examples/heat/c/plain.c benches/pages/programs/clock.c -Wl,--wrap=MPI_Wtime -o "$out/heat"
