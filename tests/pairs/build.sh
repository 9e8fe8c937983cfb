#!/usr/bin/env bash
# Builds the compiled programs of tests/pairs/run.py into target/pairs.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
out=$target/pairs
mkdir -p "$out"
cargo build -q --release -p stillframe-c -p stillframe-pairs
library=$(realpath "$target/release")
flags=(-O2 -Wall -Wextra -Werror -Ibindings/c/include -Ibindings/cxx/include)
link=(-L"$library" -lstillframe -Wl,-rpath,"$library")
for part in produce observe; do
    cp "$target/release/rust-$part" "$out/"
    cc -std=c11 "${flags[@]}" "tests/pairs/c/$part.c" -o "$out/c-$part" "${link[@]}"
    c++ -std=c++17 "${flags[@]}" "tests/pairs/cxx/$part.cpp" -o "$out/cxx-$part" "${link[@]}"
    gfortran -std=f2018 -O2 -Wall -Werror -J"$out" bindings/fortran/stillframe.f90 "tests/pairs/fortran/$part.f90" \
        -o "$out/fortran-$part" "${link[@]}"
done
