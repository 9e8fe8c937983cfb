#!/usr/bin/env bash
# Runs everything that `make test` stands for: targets of the Makefile, in lanes beside each other.
# In a lane one target follows the other: they build in the same folder, where cargo lets one wait for the other anyway, or
# put something in the place of what the other loads. What comes last in a lane is there so that all lanes end at about the same
# time. Each one's output is in target/test/TARGET.log; the end of one that fails is shown too, and the others go on.
set -euo pipefail
cd "$(dirname "$0")/.."
lanes=(
    # Builds what is in target/debug, and runs for the longest time.
    "check suites"
    # In target/release, with the library and the commands that the first of them builds.
    "cxx fortran mpi nodes pairs formats readme quick"
    # The Python package, which is built with other features. What follows waits, if need be, until target/debug is built.
    "python install-test arenas nodes-kills slurm"
    # Most of it in an emulated machine.
    "kernels simulators model"
)
logs=target/test
rm -rf "$logs"
mkdir -p "$logs"
# Nothing is built a second time, for which the compiler would keep notes.
export CARGO_INCREMENTAL=0
# Simulated runs: `make simulators` alone plays more.
export RUNS=3000
# A make that started this one counts its own jobs.
unset MAKEFLAGS MFLAGS MAKELEVEL

lane() {
    local target status
    for target in "$@"; do
        status=ok
        { TIMEFORMAT='%0R s; processors %0U s + %0S s'; time make "$target" >"$logs/$target.log" 2>&1; } \
            2>"$logs/$target.time" || status=FAILED
        (
            flock 9
            if [ $status = ok ]; then touch "$logs/$target.ok"; else tail -n 40 "$logs/$target.log"; fi
            printf '%-6s %-12s %s\n' $status "$target" "$(<"$logs/$target.time")"
        ) 9>"$logs/.lock"
    done
}

# A disk that is full makes many things fail that do not say so.
tell_disk() {
    df --output=avail -BM . | awk -v when="$1" 'NR == 2 { print "free on this disk " when ": " $1 + 0 " MiB" }'
}
tell_disk "at the beginning (all targets take some 12000 MiB)"

for targets in "${lanes[@]}"; do
    # shellcheck disable=SC2086
    lane $targets &
done
wait
tell_disk "at the end"
# Whatever became of a lane: what did not say that it is well has failed.
failed=()
for target in ${lanes[*]}; do
    [ -e "$logs/$target.ok" ] || failed+=("$target")
done
((${#failed[@]} == 0)) && exit
# The end says what failed and where, for whoever reads only that.
for target in "${failed[@]}"; do
    echo "--- the end of $logs/$target.log"
    tail -n 25 "$logs/$target.log" 2>/dev/null || true
done
echo "failed: ${failed[*]}"
exit 1
