#!/usr/bin/env bash
# A machine with memory that others have, too, cannot be saved, and so not go back to an earlier state of its own (`loadvm`), nor be moved
# to another host: QEMU refuses both. Its processors are never started.
# Without QEMU, and without leave to install it, the step is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0
tests/kernels/run.sh --fetch || status=$?
[[ $status != 77 ]] || { echo "skipped: no emulator for other kernels"; exit 0; }
((status == 0)) || exit $status
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
truncate -s 16M "$work/arena"
said=$(printf '%s\n' "savevm before" "migrate exec:cat>$work/moved" quit |
    timeout --kill-after=5 60 qemu-system-x86_64 -nodefaults -no-user-config -display none -machine pc -accel tcg -m 64M -S \
        -object "memory-backend-file,id=own,mem-path=$work/arena,size=16M,share=on" -device ivshmem-plain,memdev=own \
        -monitor stdio 2>&1 | tr -d '\r')
refused=$(grep -c "^Error: .*ivshmem" <<<"$said") || true
if [[ $refused != 2 || -s $work/moved ]]; then
    printf 'QEMU did not refuse both:\n%s\n' "$said"
    exit 1
fi
grep "^Error: " <<<"$said" | sort -u
