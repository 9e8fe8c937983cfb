#!/usr/bin/env bash
# Builds the compiled programs of tests/pairs/run.py and objects.py into the folder pairs of what cargo built, which STILLFRAME_BUILT names (target/debug).
set -euo pipefail
cd "$(dirname "$0")/../.."
built=$(realpath "${STILLFRAME_BUILT:-target/debug}")
out=$built/pairs
mkdir -p "$out"
warnings=(-Wall -Wextra -Werror)
includes=(-Ibindings/c/include -Ibindings/cxx/include)
link=(-L"$built" -lstillframe -Wl,-rpath,"$built")
gfortran -std=f2018 -O0 -c bindings/fortran/stillframe.f90 -J"$out" -o "$out/stillframe.o"
gfortran -std=f2018 -O1 -Wall -Werror -c tests/pairs/fortran/cases.f90 -J"$out" -o "$out/cases.o"
gfortran -std=f2018 -O1 -Wall -Werror -c tests/pairs/fortran/sections.f90 -J"$out" -o "$out/sections.o"
for part in produce observe write read; do
    case $part in produce | observe) cp "$built/rust-$part" "$out/" ;; esac
    cc -std=c11 -O1 "${warnings[@]}" "${includes[@]}" "tests/pairs/c/$part.c" -o "$out/c-$part" "${link[@]}"
    c++ -std=c++17 -O1 "${warnings[@]}" "${includes[@]}" "tests/pairs/cxx/$part.cpp" -o "$out/cxx-$part" "${link[@]}"
    gfortran -std=f2018 -O1 -Wall -Werror -J"$out" "tests/pairs/fortran/$part.f90" "$out/stillframe.o" "$out/cases.o" "$out/sections.o" \
        -o "$out/fortran-$part" "${link[@]}"
done
