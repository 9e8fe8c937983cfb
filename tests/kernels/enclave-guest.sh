#!/bin/sh
# In a machine, beside its agent: publishes versions, and follows those of another enclave; then answers as many of the host.
# usage: enclave-guest.sh OWN OTHER VERSIONS [ANSWERS]
set -eu
own=$1 other=$2 last=$3 answers=${4:-}
dir=/dev/shm/stillframe-$(id -u)

# A program of the test, with its role.
role() {
    role=$1
    shift
    STILLFRAME_TEST_ROLE=$role STILLFRAME_TEST_ARGUMENTS=$(printf '%s\n' "$@") agents agents::helper_process --exact --nocapture
}

status=0
role play "$dir" "$own/r" "$last" 0 &
player=$!
role follow "$dir" "$other/r" "$last" holds || status=$?
wait $player || status=$?
if [ -n "$answers" ]; then
    role answer "$dir" host/ask "$own/answer" "$answers" || status=$?
    role rest "$dir" "$own/rest" || status=$?
fi
exit $status
