#!/usr/bin/env bash
# Runs the suites of the trackers, and of memory that is freed, on Debian's 6.1 kernel, which has soft-dirty bits and no
# asynchronous write protection. Under emulation all is slower, so fewer versions are played, fewest of the large arrays
# that are freed; and the watchdogs wait longer, since other tests run beside these. Without QEMU, and without leave to
# install it, the step is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."

path=$(tests/kernels/executable.sh trackers)

for suite in trackers freed; do
    if [ $suite = freed ]; then versions=15; else versions=40; fi
    for tracker in soft_dirty private_cow full_copy; do
        status=0
        tests/kernels/run.sh --timeout 900 --env STILLFRAME_TRACKER=$tracker --env STILLFRAME_TEST_VERSIONS=$versions \
            --env STILLFRAME_TEST_PATIENCE=4 -- "$path" "$suite::" --nocapture --test-threads=1 || status=$?
        if [ $status = 77 ]; then
            echo "skipped: no emulator for other kernels"
            exit 0
        fi
        [ $status = 0 ] || exit $status
    done
done
