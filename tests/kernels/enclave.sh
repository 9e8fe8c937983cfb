#!/usr/bin/env bash
# Versions between machines with Debian's 6.1 kernel, under emulation, and their host: published in each and checked in another one, all
# at the same time; then versions of the host that a machine answers, each by one. With one machine that has no doorbell, one that it can
# only ring, and one where a driver lets it hear; and with two machines.
# usage: enclave.sh [VERSIONS [ANSWERS [SECONDS]]]    SECONDS: how long a machine may take
# Without QEMU, and without leave to install it, the step is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."
last=${1:-300} answers=${2:-300} limit=${3:-900}
built=${STILLFRAME_BUILT:-${CARGO_TARGET_DIR:-target}/release}
bytes=64M
# Versions of the host take a fraction of the time that those of a machine take: it waits, but for at most a minute in all.
pause_ms=$((60000 / last < 10 ? 60000 / last : 10))
agents=$(tests/kernels/executable.sh agents)
# The driver that hands interrupts out to programs, after what it needs.
driver=()
for module in irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci; do driver+=(--module $module); done
dir=
started=()
finish() {
    ((!${#started[@]})) || kill "${started[@]}" 2>/dev/null || true
    wait
    started=()
    [[ -z $dir ]] || rm -rf -- "$dir"
}
trap finish EXIT
failed() {
    tail -n 40 "$dir"/*.log
    exit "$1"
}

# Becomes a program of the test, with its role.
become() {
    local role=$1
    shift
    export STILLFRAME_TEST_ROLE=$role STILLFRAME_TEST_ARGUMENTS=$(printf '%s\n' "$@")
    exec "$agents" agents::helper_process --exact --nocapture
}

# Runs machines: a title, how their agents wake, their names, `--`, and further words for run.sh. Each machine follows the one before it,
# the first the host, and the host the last one.
run() {
    local title=$1 way=$2 guests=() names machine running=() status=0
    shift 2
    while [[ $1 != -- ]]; do guests+=("$1"); shift; done
    shift
    local first=${guests[0]} last_one=${guests[-1]} agent=()
    dir=$(mktemp -d /dev/shm/stillframe-test-enclave-XXXXXX)
    for guest in "${guests[@]}"; do
        agent+=(--peer "$guest")
        if [[ $way == doorbell ]]; then
            agent+=(--doorbell "$guest")
        else
            mkdir -m 700 "$dir/$guest"
            truncate -s $bytes "$dir/$guest/arena"
            chmod 600 "$dir/$guest/arena"
        fi
    done
    "$built/still" --dir "$dir" enclave agent host "${agent[@]}" --bytes $bytes >"$dir/agent.log" &
    started+=($!)
    until [[ -S $dir/$last_one/agent && ( $way != doorbell || -S $dir/$last_one/doorbell ) ]]; do sleep 0.1; done
    (
        # When the first machine has begun.
        until [[ -e $dir/$first/lease ]]; do sleep 0.1; done
        become play "$dir" host/r "$last" $pause_ms
    ) >"$dir/play.log" 2>&1 &
    started+=($!)
    (become follow "$dir" "$last_one/r" "$last" holds) >"$dir/follow.log" 2>&1 &
    local follower=$! asker=
    started+=($follower)
    # The host asks where there is one machine.
    local asked=()
    if ((${#guests[@]} == 1)); then
        asked=("$answers")
        (
            until grep -q saw "$dir/follow.log"; do sleep 0.1; done
            become ask "$dir" host/ask "$first/answer" "$answers"
        ) >"$dir/ask.log" 2>&1 &
        asker=$!
        started+=($asker)
    fi
    local before=host
    for guest in "${guests[@]}"; do
        # In this order guest.sh is told whose memory it is: that of a doorbell comes last.
        local words=(--share "$dir/host/arena:ro") ring=()
        names=(host)
        for other in "${guests[@]}"; do
            [[ $other != "$guest" ]] || continue
            names+=("$other")
            words+=(--share "$dir/$other/arena:ro")
        done
        names+=("$guest")
        if [[ $way == doorbell ]]; then
            words+=(--doorbell "$dir/$guest/doorbell")
            ring=(--doorbell host)
        else
            words+=(--share "$dir/$guest/arena")
        fi
        "$built/still" --dir "$dir" enclave machine "$guest" -- \
            tests/kernels/run.sh --memory 1G --timeout "$limit" "${words[@]}" "$@" \
            --file "$built/still:/bin/still" --file "$agents:/bin/agents" --file tests/kernels/enclave-guest.sh:/bin/enclave-guest.sh \
            -- examples/enclaves/guest.sh "${ring[@]}" "$guest" "${names[@]}" -- \
            enclave-guest.sh "$guest" "$before" "$last" "${asked[@]}" >"$dir/$guest.log" 2>&1 &
        running+=($!)
        started+=($!)
        before=$guest
    done
    for machine in "${running[@]}"; do
        wait "$machine" || status=$?
    done
    if [[ $status == 77 ]]; then
        echo "skipped: no emulator for other kernels"
        exit 0
    fi
    ((status == 0)) || failed $status
    wait $follower || failed 1
    [[ -z $asker ]] || wait $asker || failed 1
    echo "$title: $(grep -ho 'saw .*\|a version .*' "$dir"/*.log | paste -sd ';')"
    finish
}

run "no doorbell" polling guest --
run "the machine rings" doorbell guest --
run "the machine rings and is rung" doorbell guest -- --iommu "${driver[@]}"
run "two machines" polling one two --
