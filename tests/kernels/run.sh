#!/usr/bin/env bash
# Runs one executable on another Linux kernel, in an emulated machine, and
# exits with the executable's status. See README.md beside this script.
set -euo pipefail

usage() {
    cat <<'END'
usage: run.sh [OPTIONS] [--] EXECUTABLE [ARGS...]
       run.sh [--kernel NAME] --fetch
  --fetch             only get what a run needs: QEMU, the kernel, and the guest's tools
  --kernel NAME       cloud (Linux 6.1, the default) or cloud-SERIES, as cloud-6.12
  --memory SIZE       memory of the machine (2G)
  --cpus N            processors of the machine (2)
  --nodes N           memory nodes that share its memory and processors (1)
  --timeout SECONDS   for the boot and the run together (600)
  --env NAME[=VALUE]  set a variable in the guest, or pass the caller's on
  --file HOST[:GUEST] put a file or directory in the guest (same path unless given)
  --user UID          run as this user, without privileges, instead of as root
  --append WORDS      add to the kernel's command line, as memmap=512M!1G
  --module NAME       load a module of the kernel before the run; in the order given
  --share FILE[:ro]   give the machine a file as a device's memory (ivshmem-plain), also only to read; in the order given
  --doorbell SOCKET   give it a device whose memory and interrupts come from an ivshmem server there (ivshmem-doorbell)
  --iommu             give it an IOMMU, so that a driver may hand devices out to programs (intel-iommu)
  --log               print the kernel's own messages on stderr at the end
Status: the executable's; 77 when the kernel or a tool is missing (skip);
124 on a timeout; 125 when the machine failed. 128+N is a death by signal N.
END
}

say() { printf 'run.sh: %s\n' "$*" >&2; }
skip() { say "skipped: $*"; exit 77; }
fail() { say "$*"; exit 125; }

kernel=cloud memory=2G cpus=2 nodes=1 limit=600 user=0 show_log=no fetch=no append=
envs=() files=() modules=() shares=() doorbells=() board=(-machine pc)
while (($#)); do
    case $1 in
        --kernel | --memory | --cpus | --nodes | --timeout | --env | --file | --user | --append | --module | --share | --doorbell)
            (($# > 1)) || fail "$1 needs a value" ;;&
        --kernel) kernel=$2; shift 2 ;;
        --memory) memory=$2; shift 2 ;;
        --cpus) cpus=$2; shift 2 ;;
        --nodes) nodes=$2; shift 2 ;;
        --timeout) limit=$2; shift 2 ;;
        --env) envs+=("$2"); shift 2 ;;
        --file) files+=("$2"); shift 2 ;;
        --user) user=$2; shift 2 ;;
        --append) append=$2; shift 2 ;;
        --module) modules+=("$2"); shift 2 ;;
        --share) shares+=("$2"); shift 2 ;;
        --doorbell) doorbells+=("$2"); shift 2 ;;
        --iommu) board=(-machine q35 -device intel-iommu,intremap=on); shift ;;
        --log) show_log=yes; shift ;;
        --fetch) fetch=yes; shift ;;
        --help) usage; exit 0 ;;
        --) shift; break ;;
        -*) fail "there is no option $1; see --help" ;;
        *) break ;;
    esac
done
[[ $fetch == yes ]] || (($#)) || { usage >&2; exit 125; }
[[ $user$limit$cpus$nodes =~ ^[0-9]+$ ]] || fail "--user, --timeout, --cpus and --nodes take whole numbers"
((nodes == 1 || (nodes > 1 && cpus % nodes == 0))) || fail "--nodes: --cpus is no multiple of $nodes"
if [[ $fetch == no ]]; then
    [[ -f $1 && -x $1 ]] || fail "$1 is not an executable file"
    executable=$(realpath -- "$1")
    shift
fi

case $kernel in
    cloud) series=6.1 ;;
    cloud-[0-9]*) series=${kernel#cloud-} ;;
    *) fail "there is no kernel $kernel; see --help" ;;
esac

here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
cache=${STILLFRAME_CACHE:-$here/../../target/kernels}
mkdir -p -- "$cache"
cache=$(realpath -- "$cache")

# --- what the host must provide ---------------------------------------------

root() { ((EUID == 0)); }

# Runs an apt-get command; when it fails, once more with fresh package lists.
apt_get() {
    local sandbox=()
    # Root's apt-get would download as a user who may not write to the cache.
    root && sandbox=(-o APT::Sandbox::User=root)
    apt-get -qq "${sandbox[@]}" "$@" >&2 && return
    root && apt-get -qq update >&2 && apt-get -qq "${sandbox[@]}" "$@" >&2
}

# Unpacks a package into the cache, without installing it.
unpack() {
    local package=$1 scratch
    [[ -d $cache/$package ]] && return
    command -v apt-get dpkg-deb >/dev/null || return 1
    scratch=$(mktemp -d -- "$cache/.unpack.XXXXXX")
    # The modules apart: they are most of an image, and few runs need one.
    if (cd -- "$scratch" && mkdir tree && apt_get download "${package%+modules}" &&
        dpkg-deb --fsys-tarfile ./*.deb | tar -x -C tree "${@:2}"); then
        mv -T -- "$scratch/tree" "$cache/$package"
    fi
    rm -rf -- "$scratch"
    [[ -d $cache/$package ]]
}

# The newest image package of the series: of those on offer, else of the cache.
newest_image() {
    local pattern="^linux-image-${series//./\\.}\.[0-9][^-]*(-[0-9]+)?-cloud-amd64$"
    { command -v apt-cache >/dev/null && apt-cache pkgnames "linux-image-$series."; ls -- "$cache"; } 2>/dev/null |
        grep -E -- "$pattern" | sort -Vu | tail -n 1
}

[[ $(uname -m) == x86_64 ]] || skip "only x86_64 is emulated"

# One run at a time downloads; the others wait, then find everything in place.
exec {lock}>"$cache/.lock"
flock "$lock"
if ! command -v qemu-system-x86_64 >/dev/null; then
    root && command -v apt-get >/dev/null &&
        DEBIAN_FRONTEND=noninteractive apt_get install -y --no-install-recommends qemu-system-x86 || true
    command -v qemu-system-x86_64 >/dev/null || skip "the Debian package qemu-system-x86 is missing"
fi
image=$(newest_image) || true
if [[ -z $image ]] && root && command -v apt-get >/dev/null; then
    apt-get -qq update >&2 || true
    image=$(newest_image) || true
fi
[[ -n $image ]] || skip "no Debian package linux-image-$series.*-cloud-amd64 is on offer here"
unpack "$image" --exclude=./lib || skip "the Debian package $image cannot be downloaded"
((!${#modules[@]})) || unpack "$image+modules" ./lib/modules ||
    skip "the modules of the Debian package $image cannot be downloaded"
# The guest's shell and tools, and the host's cpio.
unpack busybox-static || skip "the Debian package busybox-static cannot be downloaded"
flock -u "$lock"
[[ $fetch == no ]] || exit 0

vmlinuz=("$cache/$image"/boot/vmlinuz-*)
busybox=$cache/busybox-static/bin/busybox

# --- the guest's files --------------------------------------------------------

work=$(mktemp -d)
machine=
finish() {
    trap '' INT TERM HUP
    # timeout hands the signal on to qemu, and kills it should it linger.
    [[ -z $machine ]] || { kill "$machine" && wait "$machine"; } 2>/dev/null || true
    rm -rf -- "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

tree=$work/tree
mkdir -p -- "$tree"/{bin,dev,proc,root,sys,etc}
mkdir -m 1777 -- "$tree/tmp"

# Copies a file or directory, and the shared libraries of an executable file.
add() {
    local from=$1 to=$tree$2 libraries library
    mkdir -p -- "$(dirname -- "$to")"
    cp -rLT -- "$from" "$to"
    [[ -f $from && -x $from ]] || return 0
    # Static executables and scripts have none, of which ldd complains.
    libraries=$(ldd "$from" 2>/dev/null | grep -oE '/[^ ]+ \(0x') || return 0
    while read -r library _; do
        [[ ! -e $tree$library ]] || continue
        mkdir -p -- "$tree${library%/*}"
        cp -L -- "$library" "$tree$library"
    done <<<"$libraries"
}

quote() { printf "'%s' " "${1//\'/\'\\\'\'}"; }

add "$busybox" /bin/busybox
ln -s busybox "$tree/bin/sh"
printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n' >"$tree/etc/passwd"
# At its own path, as tests name the files that were built beside them.
add "$executable" "$executable"
for file in "${files[@]}"; do
    host=${file%%:*} guest=${file#*:}
    [[ -e $host ]] || fail "--file: there is no $host"
    [[ $file == *:* ]] || guest=$(realpath -s -- "$host")
    add "$host" "/${guest#/}"
done
mkdir -- "$tree/modules"
for module in "${modules[@]}"; do
    found=$(find "$cache/$image+modules" \( -name "$module.ko" -o -name "$module.ko.xz" \) -print -quit)
    case $found in
        *.ko) cp -- "$found" "$tree/modules/$module.ko" ;;
        *.xz) xz -dc -- "$found" >"$tree/modules/$module.ko" ;;
        *) fail "$image has no module $module" ;;
    esac
done
# cargo test runs a test in its package's folder; so does the guest.
mkdir -p -- "$tree$PWD"

command=(env)
for pair in "${envs[@]}"; do
    [[ $pair == *=* ]] || pair=$pair=${!pair-}
    command+=("$pair")
done
if ((user)); then
    setpriv=$(command -v setpriv) || skip "the Debian package util-linux is missing"
    add "$setpriv" "$setpriv"
    command+=("$setpriv" --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --)
fi
command+=("$executable" "$@")

# ttyS0 is the kernel's console, ttyS1 carries the output and ttyS2 the status.
# The output goes through a pipe, so that the executable sees no terminal.
{
    cat <<'END'
#!/bin/sh
export PATH=/bin HOME=/root
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -m 1777 /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
ip link set lo up
cut -d ' ' -f 1 /proc/uptime >/status
END
    ((!${#modules[@]})) || printf 'insmod /modules/%s.ko\n' "${modules[@]}"
    printf 'cd '; quote "$PWD"
    printf '\n{\n'
    for word in "${command[@]}"; do quote "$word"; done
    cat <<'END'
</dev/null
echo $? >>/status
} 2>&1 | cat >/dev/ttyS1
cat /status >/dev/ttyS2
# Closing a port waits until all of it was sent.
poweroff -f
END
} >"$tree/init"
chmod 755 -- "$tree/init"

# Not compressed: the host copies faster than the guest inflates.
(cd -- "$tree" && find . | "$busybox" cpio -o -H newc -R 0:0 2>/dev/null) >"$work/initramfs"
rm -rf -- "$tree"

# --- the run --------------------------------------------------------------------

arguments=(
    console=ttyS0 loglevel=6 panic=-1       # a panic reboots, which ends qemu
    mitigations=off nokaslr audit=0         # nothing to protect here
    tsc=reliable no_timer_check             # skip the calibration of clocks
    random.trust_cpu=on cryptomgr.notests
)
topology=()
if ((nodes > 1)); then
    mib=$(($(numfmt --from=iec "$memory") / nodes >> 20))
    for ((node = 0; node < nodes; node++)); do
        first=$((cpus / nodes * node))
        topology+=(-object "memory-backend-ram,id=node$node,size=${mib}M"
            -numa "node,nodeid=$node,memdev=node$node,cpus=$first-$((first + cpus / nodes - 1))")
    done
fi
devices=()
for share in "${shares[@]}"; do
    file=${share%:ro} number=${#devices[@]} only=off
    [[ -f $file ]] || fail "--share: there is no $file"
    [[ $share == "$file" ]] || only=on
    devices+=(-object "memory-backend-file,id=share$number,mem-path=$file,size=$(stat -c %s -- "$file"),share=on,readonly=$only"
        -device "ivshmem-plain,memdev=share$number")
done
for doorbell in "${doorbells[@]}"; do
    number=${#devices[@]}
    [[ -S $doorbell ]] || fail "--doorbell: nobody listens at $doorbell"
    devices+=(-chardev "socket,id=doorbell$number,path=$doorbell"
        -device "ivshmem-doorbell,chardev=doorbell$number,vectors=1")
done
mkfifo -- "$work/output"
cat -- "$work/output" &
reader=$!
: >"$work/status"

# The parent-death signals end the machine even when this script is killed.
setpriv --pdeathsig TERM timeout --kill-after=5 "$limit" \
    setpriv --pdeathsig KILL qemu-system-x86_64 \
    -nodefaults -no-user-config -display none -no-reboot \
    "${board[@]}" -accel tcg,thread=multi -cpu max,la57=off -smp "$cpus" -m "$memory" "${topology[@]}" "${devices[@]}" \
    -kernel "${vmlinuz[0]}" -initrd "$work/initramfs" -append "${arguments[*]} $append" \
    -serial file:"$work/log" -serial file:"$work/output" -serial file:"$work/status" \
    </dev/null 2>"$work/errors" &
machine=$!
code=0
wait "$machine" || code=$?
machine=
# Without a writer left the reader ends; qemu may have failed before it was one.
: <>"$work/output"
wait "$reader" || true

[[ $show_log == no ]] || cat -- "$work/log" >&2 2>/dev/null || true
mapfile -t status <"$work/status"
# timeout says 137 when it had to kill, but so does a kill by anyone else.
if ((code == 124 || (code == 137 && SECONDS >= limit))); then
    say "timeout: not done after $limit s on $image; the last kernel messages:"
    tail -n 15 -- "$work/log" >&2 || true
    exit 124
fi
if ((code != 0 || ${#status[@]} != 2)); then
    say "the machine failed on $image (qemu's status $code):"
    cat -- "$work/errors" >&2
    tail -n 40 -- "$work/log" >&2 2>/dev/null || true
    exit 125
fi
say "status ${status[1]} on $image, booted in ${status[0]} s"
exit "${status[1]}"
