#!/usr/bin/env bash
# Prints the path of the executable of integration tests that has a module: executable.sh MODULE
# It is built as FEATURES say (Makefile), in the build of all tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck disable=SC2086
cargo test --locked --workspace --tests ${FEATURES:-} --no-run --message-format=json |
    grep -o '"executable":"[^"]*/it-[^"]*"' | cut -d'"' -f4 |
    while read -r path; do
        # Read to its end: who closes the pipe early would end the tests' own process by a signal.
        if "$path" --list 2>/dev/null | grep -c "^$1::" >/dev/null; then
            echo "$path"
            exit
        fi
    done | grep . || { echo "executable.sh: no integration tests have the module $1" >&2; exit 1; }
