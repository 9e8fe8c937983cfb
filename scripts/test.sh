#!/usr/bin/env bash
# Runs targets of the Makefile, and says which failed: test.sh [--long]
# `make test` are the short ones. All is installed first, then all is built, and then tested with no build beside it, because what a
# busy machine does to a test says nothing of the test. `make test-long` are the others. docs/testing.md says what each holds.
# Each target's output is in target/test/TARGET.log; that of one that fails is shown, too, and the others go on. What the machine lacks
# is left out, and named.
set -euo pipefail
cd "$(dirname "$0")/.."

steps=(crates export c cxx fortran mpi tcasm xpmem memory containers etcd nodes fabric nextest test formats)
first=(check test-build)
targets=(suites mpi)
# Those of one process each, which mostly wait for others: three run at once, the longest first.
concurrent=(python cxx pairs fortran nodes formats readme)
# What a target cannot do without, of what may not be had: the steps of scripts/setup.sh.
declare -A needs=([python]=test [cxx]=cxx [fortran]=fortran [pairs]="cxx fortran" [mpi]="cxx fortran mpi" [formats]="export formats" [nodes]=nodes)
needs+=([nodes-kills]=nodes [slurm]=slurm [cxx-long]="cxx valgrind" [fortran-long]="fortran valgrind" [mpi-long]="cxx fortran mpi")
needs+=([nodes-long]=nodes [newest]="test formats" [quick]="demo rivals plots fortran mpi" [install-test]="test cxx fortran cmake pkg-config wheel")
needs+=([readers]="export formats readers" [arenas]=nextest [simulators]=nextest [soak]=nextest)
if [ "${1:-}" = --long ]; then
    steps+=(openmpi slurm valgrind cmake pkg-config dist rivals plots kernels demo wheel readers)
    first=(check-long test-build)
    targets=(suites-long arenas simulators model nodes-kills slurm cxx-long fortran-long mpi-long nodes-long newest readers readme-long quick install-test)
    targets+=(kernels planted sanitize soak)
    concurrent=()
    # What is random is another one each time; what fails prints the seed that plays it again.
    export STILLFRAME_TEST_SEED=${STILLFRAME_TEST_SEED:-random} PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$RANDOM}
    echo "STILLFRAME_TEST_SEED=$STILLFRAME_TEST_SEED PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"
fi

logs=target/test
rm -rf "$logs"
mkdir -p "$logs"
# A make that started this one counts its own jobs.
unset MAKEFLAGS MFLAGS MAKELEVEL

# Target by target, those that passed, and those that the machine cannot do. What is in neither has failed, also where nothing could be
# written.
: >"$logs/passed"
: >"$logs/skipped"
has_failed() { ! grep -qx "$1" "$logs/passed" "$logs/skipped"; }

# A shell has what it starts in the background ignore Ctrl-C, which tests send and wait for.
run() {
    local target=$1 status=ok arguments=("${@:2}")
    [ "$target" != soak ] || arguments+=(SECONDS=300)
    { TIMEFORMAT='%0R s; processors %0U s + %0S s'; time env --default-signal=INT,QUIT make "$target" "${arguments[@]}" >"$logs/$target.log" 2>&1; } \
        2>"$logs/$target.time" || status=FAILED
    [ $status = FAILED ] || echo "$target" >>"$logs/passed"
    {
        [ $status = ok ] || tail -n 400 "$logs/$target.log"
        # How many there were, and what they left out, in their own words.
        grep -hE '^ *(Summary|[0-9]+ (passed|failed|skipped)|SKIPPED|skipped:)' "$logs/$target.log" || true
        printf '%-6s %-12s %s\n' $status "$target" "$(<"$logs/$target.time")"
    } >"$logs/$target.shown"
    # Another target may have something to show, too.
    flock "$logs/passed" cat "$logs/$target.shown"
}

# Whether the machine has what a target cannot do without.
can_run() {
    local target=$1 step
    for step in ${needs[$target]:-}; do
        grep -q "^$step:" target/setup/missing 2>/dev/null || continue
        printf '%-6s %-12s %s\n' SKIP "$target" "without $(grep "^$step:" target/setup/missing | tr '\n' ' ')"
        echo "$target" >>"$logs/skipped"
        return 1
    done
}

export STILLFRAME_SETUP=optional
# Installing is mostly waiting for a registry. The linter runs meanwhile: what it needs it asks for itself.
env --default-signal=INT,QUIT scripts/setup.sh --optional "${steps[@]}" &
setup=$!
run "${first[0]}"
wait $setup
for target in "${first[@]:1}"; do run "$target"; done
if has_failed test-build; then
    echo "failed: test-build: nothing is tested, because it was not built"
    exit 1
fi
# All is built, and links that a build makes anew are in use.
for target in "${targets[@]}"; do
    ! can_run "$target" || run "$target" TEST_BUILD=true
done
for target in "${concurrent[@]}"; do
    while (($(jobs -rp | wc -l) > 2)); do wait -n || true; done
    ! can_run "$target" || run "$target" TEST_BUILD=true &
done
wait
skipped=$(tr '\n' ' ' <"$logs/skipped")
echo "SKIPPED: ${skipped:-no target}"
failed=()
for target in "${first[@]}" "${targets[@]}" "${concurrent[@]}"; do ! has_failed "$target" || failed+=("$target"); done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}"; exit 1; }
