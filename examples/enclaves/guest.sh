#!/bin/sh
# In a machine: makes its own memory and that of the others lie where all programs look, and runs a program beside an agent.
# usage: guest.sh [--doorbell PEER] OWN NAME... -- PROGRAM...    with the names of all whose memory the machine was given, in that order
# With --doorbell the machine's own memory came with a doorbell, by which it and PEER ring each other.
set -eu
dir=/dev/shm/stillframe-$(id -u)
mkdir -p -m 700 "$dir"
rings=
if [ "$1" = --doorbell ]; then
    rings=$2
    shift 2
fi
own=$1 peers= doorbell=
shift
# The devices are in the order in which the machine was given them.
for device in /sys/bus/pci/devices/*/resource2_wc; do
    mkdir -m 700 "$dir/$1"
    : >"$dir/$1/arena"
    mount --bind "$device" "$dir/$1/arena"
    if [ "$1" != "$own" ]; then
        peers="$peers $1"
    elif [ -n "$rings" ]; then
        device=${device%/*}
        address=${device##*/}
        doorbell="--doorbell $rings=$address"
        # Where the driver is there, it lets the agent hear.
        if [ -d /sys/bus/pci/drivers/vfio-pci ]; then
            echo vfio-pci >"$device/driver_override"
            echo "$address" >/sys/bus/pci/drivers_probe
        fi
    fi
    shift
done
[ "$1" = -- ] || { echo "guest.sh: the machine was not given the memory of $1" >&2; exit 1; }
shift

# A name has no blanks.
# shellcheck disable=SC2046,SC2086
still enclave agent "$own" $(printf -- '--peer %s ' $peers) $doorbell &
agent=$!
for peer in $peers; do
    until [ -S "$dir/$peer/agent" ]; do
        kill -0 $agent
        sleep 0.1
    done
done
status=0
"$@" || status=$?
# What was published stays in the host's memory, also for machines that still follow it.
kill $agent
wait $agent || true
exit $status
