#!/usr/bin/env bash
# Pools and the launcher on a machine with two memory nodes and pages of 1 GiB, on Debian's 6.1 kernel, under emulation.
# Without QEMU, and without leave to install it, the step is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=${STILLFRAME_BUILT:-${CARGO_TARGET_DIR:-target}/release}
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT

gcc -O1 -g -pthread -w crates/memory/tests/programs/scenes.c -o "$programs/scenes"
gcc -O1 -g -Wall -Wextra crates/memory/tests/programs/nodes.c -o "$programs/nodes"
status=0
tests/kernels/run.sh --nodes 2 --memory 6G --timeout 900 \
    --file "$built/still:/bin/still" --file "$built/libstillframe_memory.so:/bin/libstillframe_memory.so" \
    --file "$programs/scenes:/bin/scenes" --file "$programs/nodes:/bin/nodes" -- tests/kernels/pages-guest.sh || status=$?
if [ $status = 77 ]; then
    echo "skipped: no emulator for other kernels"
    exit 0
fi
exit $status
