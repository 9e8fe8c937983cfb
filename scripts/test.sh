#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, and says which failed: test.sh [--long]
# `make test` are the short ones. All is installed first, then all is built, and then tested with nothing beside it, because what a
# busy machine does to a test says nothing of the test. `make test-long` are the others. docs/testing.md says what each holds.
# Each target's output is in target/test/TARGET.log; that of one that fails is shown, too, and the others go on. What the machine lacks
# is left out, and named.
set -euo pipefail
cd "$(dirname "$0")/.."

steps=(crates export c cxx fortran mpi tcasm xpmem memory containers etcd nodes fabric nextest test formats)
first=(check test-build)
targets=(suites python cxx fortran pairs mpi formats nodes readme)
# What a target cannot do without, of what may not be had: the steps of scripts/setup.sh.
declare -A needs=([python]=test [cxx]=cxx [fortran]=fortran [pairs]="cxx fortran" [mpi]="cxx fortran mpi" [formats]="export formats" [nodes]=nodes)
needs+=([nodes-kills]=nodes [slurm]=slurm [cxx-long]="cxx valgrind" [fortran-long]="fortran valgrind" [mpi-long]="cxx fortran mpi")
needs+=([nodes-long]=nodes [newest]="test formats" [quick]="demo rivals plots" [install-test]="test cxx fortran cmake pkg-config wheel")
needs+=([arenas]=nextest [simulators]=nextest [soak]=nextest)
if [ "${1:-}" = --long ]; then
    steps+=(openmpi slurm valgrind cmake pkg-config dist rivals plots kernels demo wheel)
    first=(check-long test-build)
    targets=(suites-long arenas simulators model nodes-kills slurm cxx-long fortran-long mpi-long nodes-long newest readme-long quick install-test)
    targets+=(kernels planted sanitize soak)
    # What is random is another one each time; what fails prints the seed that plays it again.
    export STILLFRAME_TEST_SEED=${STILLFRAME_TEST_SEED:-random} PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$RANDOM}
    echo "STILLFRAME_TEST_SEED=$STILLFRAME_TEST_SEED PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"
fi

logs=target/test
rm -rf "$logs"
mkdir -p "$logs"
# A make that started this one counts its own jobs.
unset MAKEFLAGS MFLAGS MAKELEVEL

failed=() skipped=()
run() {
    local target=$1 status=ok arguments=()
    [ "$target" != soak ] || arguments=(SECONDS=300)
    { TIMEFORMAT='%0R s; processors %0U s + %0S s'; time make "$target" "${arguments[@]}" >"$logs/$target.log" 2>&1; } \
        2>"$logs/$target.time" || status=FAILED
    if [ $status = FAILED ]; then
        tail -n 400 "$logs/$target.log"
        failed+=("$target")
    fi
    # How many there were, and what they left out, in their own words.
    grep -hE '^ *(Summary|[0-9]+ (passed|failed|skipped)|SKIPPED|skipped:)' "$logs/$target.log" || true
    printf '%-6s %-12s %s\n' $status "$target" "$(<"$logs/$target.time")"
}

scripts/setup.sh --optional "${steps[@]}"
export STILLFRAME_SETUP=optional
for target in "${first[@]}"; do run "$target"; done
for target in "${targets[@]}"; do
    for step in ${needs[$target]:-}; do
        if grep -q "^$step:" target/setup/missing 2>/dev/null; then
            printf '%-6s %-12s %s\n' SKIP "$target" "without $(grep "^$step:" target/setup/missing | tr '\n' ' ')"
            skipped+=("$target")
            continue 2
        fi
    done
    run "$target"
done
echo "SKIPPED: ${skipped[*]:-no target}"
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}"; exit 1; }
