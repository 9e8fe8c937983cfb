#!/usr/bin/env bash
# Builds the programs of run.py into target/languages, on what `make build` built.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
out=$target/languages
mkdir -p "$out"
library=$(realpath "$target/release")
link=(-L"$library" -lstillframe -Wl,-rpath,"$library")
cp "$target/release/rust-publisher" "$out/"
cc -std=c11 -O2 -Wall -Wextra -Werror -Ibindings/c/include benches/languages/c/publisher.c -o "$out/c-publisher" "${link[@]}"
gfortran -std=f2018 -O3 -fwrapv -Wall -J"$out" bindings/fortran/stillframe.f90 benches/languages/fortran/publisher.f90 \
    -o "$out/fortran-publisher" "${link[@]}"
