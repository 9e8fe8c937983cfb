#!/usr/bin/env bash
# Runs the tests of cargo by nextest: nextest.sh CHOICE... --profile NAME [OPTION]...
# CHOICE is what cargo builds. Prints the ten slowest tests and what was skipped. Where nextest is not installed
# (scripts/setup.sh nextest), cargo itself runs all of them: it knows no profiles and no choice of tests.
set -euo pipefail
cd "$(dirname "$0")/.."
nextest=${STILLFRAME_VENV:-target/venv}/bin/cargo-nextest

choice=()
while [ "$1" != --profile ]; do
    choice+=("$1")
    shift
done
if [ ! -x "$nextest" ]; then
    if [[ " $* " == *" -E "* ]]; then
        echo "nextest.sh: $nextest is missing, which alone can choose tests: scripts/setup.sh nextest" >&2
        exit 1
    fi
    echo "nextest.sh: $nextest is missing, so cargo runs all tests: a test that hangs is ended by its own watchdog" >&2
    exec cargo test "${choice[@]}" --no-fail-fast
fi
status=0
"$nextest" nextest run "${choice[@]}" "$@" || status=$?
scripts/summary.py "${CARGO_TARGET_DIR:-target}/nextest/$2/junit.xml" || true
exit $status
