#!/bin/sh
# What pages.sh runs in the emulated machine, as root.
set -eu
mkdir -p /run
cd /tmp

expect() {
    said=$("$@")
    echo "$said" | grep -q "$wanted" || { echo "$*: no $wanted in: $said" >&2; exit 1; }
}

# A pool of both nodes, and programs that may run on both or are bound to one of them.
still pages reserve 256M --numa --name both
wanted='^ *2M  0  *64  *64'; expect still pages
wanted='^ *2M  1  *64  *64'; expect still pages
wanted='N0=1[67] N1=1[67]'; expect still run --pages=both -- nodes
wanted='N0=33 '; expect taskset 1 still run --pages=both -- nodes
wanted='N1=33 '; expect taskset 2 still run --pages=both -- nodes
still pages give-back both

# Pages of 1 GiB.
still pages reserve 2G --page 1G --name gigantic
wanted='^gigantic  *1G  *2.0 GiB  *2.0 GiB'; expect still pages
for scene in heap tight large grows threads forks; do
    LARGE_KIB=1048576 still run --pages=gigantic -- scenes $scene || { echo "$scene failed" >&2; exit 1; }
    echo "$scene: passed"
done
wanted='^gigantic  *1G  *2.0 GiB  *2.0 GiB'; expect still pages
still pages give-back gigantic
