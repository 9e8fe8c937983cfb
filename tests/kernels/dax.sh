#!/usr/bin/env bash
# Tries memory that the kernel never had (memmap=) on Debian's 6.1 kernel: a region's directory on a file system there, and the
# device that it can be instead. Without QEMU, and without leave to install it, the step is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."

built=${STILLFRAME_BUILT:-${CARGO_TARGET_DIR:-target}/release}
mkfs=$(PATH=$PATH:/usr/sbin:/sbin command -v mkfs.ext4) || { echo "skipped: the Debian package e2fsprogs is missing"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cc -O1 -Wall -static -o "$work/dax" tests/kernels/dax.c

cat >"$work/guest" <<'END'
#!/bin/sh
set -e
awaited() {
    for second in 1 2 3 4 5 6 7 8 9 10; do
        [ ! -e "$1" ] || return 0
        sleep 1
    done
    echo "there is no $1"
    return 1
}
awaited /dev/pmem0
mkfs.ext4 -q -b 4096 -m 0 -E stride=512,stripe_width=512 /dev/pmem0
mkdir /mnt
mount -t ext4 -o dax=always /dev/pmem0 /mnt
dax file /mnt/file
export STILLFRAME_DIR=/mnt/regions
still pages reserve 256M --ordinary --name all
still pages | grep '^all '
STILLFRAME_DIR=/mnt/regions/all still demo --quick --steps 4 --no-view --out /tmp/demo
still pages give-back all
umount /mnt

# What `ndctl create-namespace --force --mode=devdax --map=mem` does.
cd /sys/bus/nd/devices/region0
seed=$(cat dax_seed)
echo namespace0.0 >/sys/bus/nd/drivers/nd_pmem/unbind
cd "/sys/bus/nd/devices/$seed"
echo ram >mode
echo 2097152 >align
cat /proc/sys/kernel/random/uuid >uuid
echo namespace0.0 >namespace
echo "$seed" >/sys/bus/nd/drivers/dax_pmem/bind
awaited /dev/dax0.0
dax device /dev/dax0.0
END
chmod 755 "$work/guest"

status=0
# The memory is 512 MiB that begin at 1 GiB. The modules come in the order in which they need each other.
tests/kernels/run.sh --append 'memmap=512M!1G' \
    --module libnvdimm --module nd_btt --module nd_pmem --module nd_e820 --module device_dax --module dax_pmem \
    --file "$work/dax:/bin/dax" --file "$mkfs:/bin/mkfs.ext4" --file "$built/still:/bin/still" \
    -- "$work/guest" || status=$?
if [ $status = 77 ]; then
    echo "skipped: no emulator for other kernels"
    exit 0
fi
exit $status
