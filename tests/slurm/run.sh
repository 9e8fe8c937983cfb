#!/usr/bin/env bash
# Slurm on one node, and in it the scripts and commands of docs/slurm.md as they are printed there: a run that goes on over many jobs
# (requeued by its own script, from outside, by preemption and because its node lost it), a job array, ranks with an observer beside
# them, and what is left of jobs that were killed.
# usage: run.sh
# STILLFRAME_BUILT names the folder of the commands, PYTHON an interpreter with the package and numpy.
# The daemons run in namespaces of their own. So ports, names, processes and /dev/shm are not the machine's, what runs beside this is
# not disturbed, and nothing is left when it ends. Without root, Slurm, or leave to make namespaces, it is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $*"; exit 0; }

if [ "${1:-}" != --inside ]; then
    export PATH=$PATH:/usr/sbin:/sbin
    [ "$(id -u)" = 0 ] || skip "Slurm's daemons need root"
    for tool in munged slurmctld slurmd sbatch ip; do
        command -v $tool >/dev/null || skip "there is no $tool (Debian packages slurm-wlm, munge, iproute2)"
    done
    # Process 1 of the namespaces ends with the command that made them, and all in them with it, however that ends.
    spaces=(unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc)
    "${spaces[@]}" ip link set lo up 2>/dev/null || skip "no namespaces can be made here"
    work=$(mktemp -d /tmp/stillframe-slurm-XXXXXX)
    # What was killed may write for a moment more.
    trap 'rm -rf -- "$work" 2>/dev/null || { sleep 1; rm -rf -- "$work"; }' EXIT
    built=$(realpath "${STILLFRAME_BUILT:-${CARGO_TARGET_DIR:-target}/release}")
    # Not what a link leads to: that is how a virtual environment is known.
    python=$(realpath -s "${PYTHON:-target/venv/bin/python}")
    [ -x "$built/still" ] || { echo "there is no $built/still: make build" >&2; exit 1; }
    "$python" -c 'import numpy, stillframe' || { echo "$python has no stillframe: scripts/setup.sh python" >&2; exit 1; }
    # It also ends when this script is killed.
    setpriv --pdeathsig TERM timeout -k 10 630 "${spaces[@]}" tests/slurm/run.sh --inside "$work" "$built" "$python" &
    inside=$!
    trap 'kill $inside; wait $inside; exit 1' INT TERM
    status=0
    wait $inside || status=$?
    [ $status != 124 ] || echo "failed: it does not end" >&2
    exit $status
fi

work=$2 built=$3 python=$4
# A job in which this test may run is none of its business.
# shellcheck disable=SC2086
unset ${!SLURM*} ${!SBATCH*} ${!STILLFRAME*}
SECONDS=0
started=()
finish() {
    for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
    wait "${started[@]}" 2>/dev/null || true
}
trap finish EXIT
failed() {
    tail -n 40 "$work"/log/* "$work"/*/*.out >&2 || true
    squeue >&2 || true
    echo "failed: $*" >&2
    exit 1
}
said() { printf '%3d s  %s\n' "$SECONDS" "$*"; }
# Waits until a command succeeds. All of this script takes some 90 s, and has ten minutes.
until_so() {
    local what=$1 begin=$SECONDS
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < 600)) || failed "$what: not after $((SECONDS - begin)) s"
        sleep 0.1
    done
}

# Slurm wants an address beside 127.0.0.1, and a name that leads there.
ip link set lo up
ip address add 10.77.0.1/32 dev lo
echo node1 >/proc/sys/kernel/hostname
printf '127.0.0.1 localhost\n10.77.0.1 node1\n' >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts
mount -t tmpfs -o size=256m stillframe /dev/shm

mkdir "$work"/{state,spool,log,bin,pages}
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
# Nothing is confined: neither cgroups nor the accounting database are needed. `cred_expire` is also how long a requeued job waits,
# and 5 s the least that Slurm takes. A job that a node does not know is missed after BatchStartTimeout and ten seconds.
cat >"$work/slurm.conf" <<CONF
ClusterName=stillframe
SlurmctldHost=node1
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
BatchStartTimeout=1
KillWait=60
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
NodeName=node1 NodeAddr=10.77.0.1 CPUs=32 State=UNKNOWN
PartitionName=main Nodes=node1 Default=YES MaxTime=60 PriorityTier=1 PreemptMode=OFF State=UP
PartitionName=spare Nodes=node1 MaxTime=60 PriorityTier=1 State=UP
PartitionName=urgent Nodes=node1 MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
CONF
export SLURM_CONF=$work/slurm.conf
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/log/munged" --seed-file="$work/munged.seed" 2>"$work/log/munged.err" &
started+=($!)
until_so "munged does not run" munge -S "$work/munge.socket" -n
slurmctld -D -f "$SLURM_CONF" >"$work/log/slurmctld" 2>&1 &
started+=($!)
slurmd -D -f "$SLURM_CONF" -N node1 >"$work/log/slurmd" 2>&1 &
started+=($!)
until_so "the node does not come up" sh -c 'sinfo -h -p main -o %t | grep -qx idle'
said "Slurm runs: $(sinfo --version)"

# What the pages show, and a program that takes as long as one that computes, without computing.
"$python" - docs/slurm.md docs/step.md "$work/pages" <<'PY'
import pathlib, re, sys

*pages, out = map(pathlib.Path, sys.argv[1:])
for page in pages:
    for words, text in re.findall(r"^```\w+ (.*)\n((?s:.*?))^```$", page.read_text(), re.MULTILINE):
        for name in re.findall(r"file=(\S+)", words):
            (out / name).write_text(text)
PY
printf '#!/bin/sh\nsleep 0.7\nexec "%s" "$@"\n' "$python" >"$work/bin/python"
chmod +x "$work/bin/python"
export PATH=$work/bin:$built:$PATH

# Submits in a folder with what the page shows, by a line that is on the page; then options of sbatch, and what is to be put for
# `--until 100000` or 4711. The number of the job is in $job.
submit() {
    local folder=$work/$1 line=$2 options=$3 words=${4:-}
    grep -qxF -- "$line" docs/slurm.md || failed "the page has no line: $line"
    mkdir -p "$folder"
    cp "$work"/pages/* "$folder/"
    line=${line/sbatch/sbatch --parsable $options}
    line=${line/@300/@20}
    line=${line/4711/$words}
    job=$(cd "$folder" && eval "${line/--until 100000/$words}")
}
out() { cat "$work/$1"/*.out; }
# Whether what a job wrote has a text so many times.
has() { [ "$(out "$1" | grep -cE -- "$2")" -ge "${3:-1}" ]; }
job_is() { [ "$(scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')" = "$2" ]; }
# What is on disk of a run is the version that a run without interruption had then, in every bit.
final() {
    local dir=$work/restored
    rm -rf "$dir"
    still --dir "$dir" restore "$work/$1" >/dev/null
    still --dir "$dir" get walk x -o "$work/final.npy" >/dev/null
    cmp "$work/alone-$2.npy" "$work/final.npy" || failed "$1 is another state than that of a run without interruption"
}
newest() { still --dir "/dev/shm/stillframe-job-$1" ls --json 2>/dev/null | grep -o '"newest": *[0-9]*' | grep -o '[0-9]*$' | sort -n | sed -n 1p; }
reached() { [ "$(newest "$1")" -ge "$2" ]; }
pids() { scontrol listpids "$1" | awk -v job="$1" '$2 == job { print $1 }'; }

# What a run without interruption makes.
last=55 early=25
(
    cd "$work/pages"
    export STILLFRAME_DIR=/dev/shm/alone
    for version in $early $last; do
        still step --state walk --until "$version" -- "$python" walk.py
        still get walk x -o "$work/alone-$version.npy"
    done
) >"$work/log/alone" 2>&1 &
alone=$!

# 1. The job's time ends: once by the clock, once by Slurm's signal. One minute is the least that Slurm takes. It looks twice a minute
# whose signal is due, so that one of 20 s before the end comes 10 to 40 s after the begin.
submit clock "sbatch steps.sh --until 100000" "--time=1" "--until $last --margin 40"
submit signal "sbatch --signal=B:USR1@300 steps.sh --until 100000" "--time=1" "--until $last --margin 0"
# A job that is not longer than its margin.
submit short "sbatch steps.sh --until 100000" "--time=1" "--until $last"
until_so "a job without time does not end its driver" has short "exit code 85"
has short "begins fresh" || failed "the short job did not begin"
# A job that has just ended requeues itself, and is not cancelled then.
cancel() { scancel "$1" && sleep 0.5 && job_is "$1" CANCELLED; }
until_so "the job without time goes on" cancel "$job"
said "a job of a minute with the margin of a minute: $(out short | grep -m1 'ends with')"

# 2. The same job requeued from outside, then preempted, then lost.
submit hit "sbatch steps.sh --until 100000" "--time=10 --partition=spare --cpus-per-task=16" "--until $last"
hit=$job
until_so "no steps" reached "$hit" 3
scontrol requeue "$hit"
until_so "it does not begin again" has hit "still step: begins with version [0-9]+, restored" 1
has hit "DUE TO JOB REQUEUE" || failed "it was not requeued"
said "requeued from outside: $(out hit | grep 'begins with' | tail -n 1)"
until_so "it makes no steps" reached "$hit" 6
sbatch -p urgent --ntasks=20 --wrap true -o /dev/null >/dev/null
until_so "it is not preempted" has hit "DUE TO PREEMPTION"
until_so "it does not begin again" has hit "begins with version [0-9]+, restored" 2
said "preempted: $(out hit | grep 'begins with' | tail -n 1)"

# 3. What needs the other processors, while that one goes on.
submit array "sbatch --array=1-4 steps.sh --until 100000" "--time=10" "--until $early"
array=$job
submit beside "sbatch beside.sh" "--time=2"
beside=$job
submit cancelled "sbatch steps.sh --until 100000" "--time=10" "--until 1000"
cancelled=$job
submit killed "sbatch steps.sh --until 100000" "--time=10" "--until $last"
killed=$job

# From outside of the job, with its number in the page's lines.
until_so "the ranks do not publish" reached "$beside" 5
sed "s/4711/$beside/g" "$work/pages/outside.sh" >"$work/outside.sh"
bash -e "$work/outside.sh" >"$work/log/outside" 2>&1 || failed "nothing is seen from outside"
for text in '^plate *live .* 4 ranks' '^u\[0, :3\] of plate/2, version'; do
    grep -q "$text" "$work/log/outside" || failed "from outside there is no $text"
done
said "from outside: $(grep '^plate' "$work/log/outside")"
status=0
timeout 2 srun --jobid="$beside" --ntasks=1 true 2>"$work/log/waits" || status=$?
[ $status = 124 ] || failed "a step without --overlap did not wait for the ranks: $status"

# The tasks of the array, each in its directory. One of them is requeued from outside, and the last, whose number is that of the
# array, requeues itself.
until_so "four tasks do not run" sh -c "[ \$(squeue -h -r -j $array -t running | wc -l) = 4 ]"
tasks=$(squeue -h -r -j "$array" -o %A)
for task in $tasks; do
    until_so "task $task makes no steps" reached "$task" 0
    [ "$(ls "/dev/shm/stillframe-job-$task")" = walk ] || failed "task $task has other regions than its own"
done
scontrol requeue "${array}_2"
grep -qxF "scancel --signal=USR1 --batch 4711" docs/slurm.md || failed "the page stops jobs in another way"
scancel --signal=USR1 --batch "${array}_4"

# A job that is cancelled saves its last version, takes its directory away and does not come again.
until_so "no steps" reached "$cancelled" 2
scancel "$cancelled"
until_so "it does not save" has cancelled "exit code 85"
until_so "it is not over" job_is "$cancelled" CANCELLED
[ ! -e "/dev/shm/stillframe-job-$cancelled" ] || failed "the job that was cancelled left regions"
said "cancelled: $(out cancelled | grep 'is safe in')"

# The number of an array, which is also that of its last task, means all tasks.
all=$(sbatch --parsable --array=1-3 --requeue --wrap 'sleep 100' -o /dev/null)
until_so "three tasks do not run" sh -c "[ \$(squeue -h -r -j $all -t running | wc -l) = 3 ]"
squeue -h -r -j "$all" -o "%A %K" | grep -qx "$all 3" || failed "the array's number is not that of the last task"
scontrol requeue "$all"
until_so "not all tasks of an array are requeued by its number" sh -c "[ \$(squeue -h -r -j $all -t pending | wc -l) = 3 ]"
scancel "$all"

# One whose driver and program are killed, and one that is killed as a whole.
until_so "no steps" reached "$killed" 3
for process in $(pids "$killed"); do
    case $(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null) in
        *slurm_script*) ;;
        *) kill -9 "$process" 2>/dev/null || true ;;
    esac
done
until_so "its script does not end" has killed "exit code 137"
until_so "it has not failed" job_is "$killed" FAILED
said "its processes killed: job $killed FAILED, and in memory: $(still --dir "/dev/shm/stillframe-job-$killed" ls | tail -n 1)"
version=$(newest "$killed")
submit killed "sbatch --nodelist=node1 rescue.sh 4711" "--wait" "$killed" || failed "nothing is rescued"
has killed "version $version" || failed "version $version is not rescued"
[ ! -e "/dev/shm/stillframe-job-$killed" ] || failed "it remains after it was rescued"
submit killed "sbatch steps.sh --until 100000" "--time=10" "--until $last"
again=$job
until_so "the next job does not go on" has killed "begins with version $version, restored"
said "rescued: $(out killed | grep 'begins with')"

submit whole "sbatch steps.sh --until 100000" "--time=10" "--until 1000"
whole=$job
until_so "no steps" reached "$whole" 1
# shellcheck disable=SC2046
kill -9 $(pids "$whole")
until_so "it does not end" sh -c "! squeue -h -j $whole | grep -q ."
! has whole "exit code" || failed "the script came to its end"
said "script and all killed: $(still --dir "/dev/shm/stillframe-job-$whole" ls | tail -n 1)"
submit whole "sbatch --nodelist=node1 clean.sh" "--wait" || failed "nothing is cleaned"
[ ! -e "/dev/shm/stillframe-job-$whole" ] || failed "it remains after the cleaning"
said "cleaned: $(cat "$work"/whole/clean-*.out)"
[ -e "/dev/shm/stillframe-job-$again" ] || has killed "exit code 0" || failed "what a running job has was cleaned away"

# 4. The node loses the job: Slurm's own process of it, its script and all else. The controller asks the node, which does not know it.
until_so "no steps" reached "$hit" 9
restored=$(out hit | grep -c "begins with")
script=$(scontrol listpids "$hit" | awk -v job="$hit" '$2 == job && $4 == 0 { print $1 }')
daemon=$(awk '/^PPid:/ { print $2 }' "/proc/$script/status")
# shellcheck disable=SC2046
kill -9 "$daemon" $(pids "$hit")
version=$(newest "$hit")
until_so "it is not missed" sh -c "scontrol reconfigure; sleep 2; squeue -h -j $hit -t pending | grep -q ."
until_so "it does not begin again" has hit "begins with version" $((restored + 1))
out hit | grep "begins with" | tail -n 1 | grep -q "begins with version $version, which is in memory" ||
    failed "it does not go on from version $version in memory"
said "lost by its node: $(out hit | grep 'begins with' | tail -n 1)"

# 5. Ranks of MPI, where the package was built for one that Slurm speaks with.
mpich='from mpi4py import MPI; raise SystemExit("MPICH" not in MPI.Get_library_version())'
if "$python" -c "$mpich" 2>/dev/null; then
    ranks='from mpi4py import MPI; print(MPI.COMM_WORLD.rank, "of", MPI.COMM_WORLD.size, flush=True)'
    with=$(srun --mpi=pmi2 --ntasks=3 python -c "$ranks" | sort | paste -sd,)
    without=$(srun --ntasks=3 python -c "$ranks" | sort | paste -sd,)
    [ "$with;$without" = "0 of 3,1 of 3,2 of 3;0 of 1,0 of 1,0 of 1" ] || failed "ranks of MPICH: $with;$without"
    said "ranks of MPICH with --mpi=pmi2: $with; without: $without"
else
    said "left out: ranks of MPICH, for there is no mpi4py with it"
fi

# The ends.
wait $alone || failed "the run without interruption"
for run in clock signal hit; do
    until_so "$run does not come to its end" has $run "exit code 0"
    final "$run/checkpoints-0" $last
    said "$run: the same state after $(out $run | grep -c 'exit code 85') times exit code 85"
done
has clock "exit code 85" || failed "the job's time did not end"
has clock "s are left, too few for another step" || failed "not by the clock"
has signal "SIGUSR1 came" || failed "Slurm sent no signal"
until_so "the rescued run does not come to its end" has killed "exit code 0"
final killed/checkpoints-0 $last
for task in 1 2 3 4; do
    until_so "the array does not come to its end" has array "exit code 0" 4
    final array/checkpoints-$task $early
done
[ "$(out array | grep -c 'begins fresh')" = 4 ] || failed "tasks did not begin fresh"
[ "$(out array | grep -c 'begins with version')" = 2 ] || failed "not two tasks alone began again"
said "four tasks of an array, two of them requeued: the same state"
until_so "the ranks do not end" job_is "$beside" COMPLETED
has beside "newest safe version 199" || failed "the observer did not save the last version"
said "an observer beside four ranks: $(out beside | tail -n 1)"
until_so "jobs are left" sh -c '! squeue -h | grep -q .'
rm -r /dev/shm/alone
[ -z "$(ls /dev/shm)" ] || failed "left in /dev/shm: $(ls /dev/shm)"
said "nothing is left in /dev/shm"
