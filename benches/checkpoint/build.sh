#!/usr/bin/env bash
# Builds the simulation of this benchmark into target/checkpoint, from a built library.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/checkpoint"
mpicc -O3 -g -Wall -Wextra -ffp-contract=off -std=c11 -Ibindings/c/include benches/checkpoint/heat.c \
    -o "$target/checkpoint/heat" -L"$target/release" -lstillframe -Wl,-rpath,"$(realpath "$target/release")"
