#!/usr/bin/env bash
# Runs everything that `make test` stands for: targets of the Makefile, in lanes beside each other.
# In a lane one target follows the other: they build in the same folder, where cargo lets one wait for the other anyway, or
# put something in the place of what the other loads. Each one's output is in target/test/TARGET.log; that of one that
# fails is shown too, and the others go on.
set -euo pipefail
cd "$(dirname "$0")/.."
lanes=(
    # In target/debug, but for the model.
    "check suites simulators arenas nodes-kills model"
    # In target/release, with the library and the commands that the first of them builds.
    "cxx fortran mpi nodes pairs formats readme quick"
    # The Python package, which is built with other features.
    "python install-test"
    # Most of it in an emulated machine.
    "kernels"
)
logs=target/test
rm -rf "$logs"
mkdir -p "$logs"
# Nothing is built a second time, for which the compiler would keep notes.
export CARGO_INCREMENTAL=0
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
            if [ $status = ok ]; then touch "$logs/$target.ok"; else cat "$logs/$target.log"; fi
            printf '%-6s %-12s %s\n' $status "$target" "$(<"$logs/$target.time")"
        ) 9>"$logs/.lock"
    done
}

for targets in "${lanes[@]}"; do
    # shellcheck disable=SC2086
    lane $targets &
done
wait
# Whatever became of a lane: what did not say that it is well has failed.
failed=()
for target in ${lanes[*]}; do
    [ -e "$logs/$target.ok" ] || failed+=("$target")
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}"; exit 1; }
