#!/usr/bin/env bash
# Finds an MPI whose compilers and launcher belong together: what its wrappers compile runs on two ranks. Its commands are then in
# FOLDER/bin, and FOLDER/chosen says which one it is. The Makefile puts target/mpi/bin before all other commands, so that everything
# that is built and run here uses the same MPI. A machine may have several, and what `mpicc` and `mpiexec` are need not be of one.
# usage: mpi.sh [FOLDER [NAME...]], or mpi.sh --check: whether `mpicc` compiles a line with mpi.h, and what is missing if not.
#   FOLDER: target/mpi
#   NAME: what stands behind the commands, as in mpicc.mpich; `plain` for nothing. The first that works is taken. Without one those
#   that $STILLFRAME_MPI names, or else what was chosen before, as long as it works, and then mpich, plain and openmpi.
# Status: 1 if none works. What each lacks is said: Debian has the compilers of Open MPI in another package than mpi.h.
set -euo pipefail
cd "$(dirname "$0")/.."
asked_path=$PATH
# What this script made is no MPI of its own.
PATH=${PATH//"$PWD/target/mpi/bin:"/}
COMMANDS=(mpicc mpicxx mpifort mpiexec)
say() { printf 'mpi.sh: %s\n' "$*" >&2; }

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
# A file: what wrappers take beside one is not the same for all.
echo '#include <mpi.h>' >"$work/line.c"

# What a compiler of an MPI lacks to compile a line with mpi.h; nothing if it does. Its name, and what is behind it.
missing() {
    local path
    path=$(readlink -f -- "$2") || path=$2
    ! "$2" -c "$work/line.c" -o "$work/line.o" 2>"$work/errors" || return 0
    if ! grep -q 'mpi\.h' "$work/errors"; then
        echo "$1 does not compile: $(head -n 1 "$work/errors")"
    elif [[ $path == *mpich* ]]; then
        echo "$1 is MPICH's, and mpi.h is missing (as root: apt-get install libmpich-dev)"
    elif [[ $path == *openmpi* || $("$2" --showme:version 2>/dev/null) == *"Open MPI"* ]]; then
        echo "$1 is Open MPI's, and mpi.h is missing (as root: apt-get install libopenmpi-dev)"
    else
        echo "$1 finds no mpi.h: install the headers of its MPI"
    fi
}

if [[ ${1:-} == --check ]]; then
    PATH=$asked_path
    found=$(command -v mpicc) || { say "there is no mpicc (as root: apt-get install libmpich-dev)"; exit 1; }
    lacks=$(missing mpicc "$found")
    [[ -z $lacks ]] || { say "$lacks"; exit 1; }
    exit 0
fi
out=$(realpath -m -- "${1:-target/mpi}")
shift $(($# > 0))
cat >"$work/ranks.c" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int ranks, rank, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_library_version(text, &length);
    if (rank == 0)
        printf("%d ranks of %.*s\n", ranks, (int)strcspn(text, ",\n"), text);
    MPI_Finalize();
    return 0;
}
END

# Makes the commands of an MPI in a folder. They are scripts: a launcher looks for its helpers beside itself.
make_commands() {
    local suffix=$1 command found settings=
    path=
    rm -rf -- "$2"
    mkdir -p -- "$2"
    for command in "${COMMANDS[@]}"; do
        found=$(command -v "$command$suffix") || return 1
        # Debian's link to one of several, which another package may change.
        [[ $(readlink -- "$found") != /etc/alternatives/* ]] || found=$(readlink -- "$(readlink -- "$found")")
        [[ $command != mpicc ]] || path=$found
        # Open MPI refuses root, and more ranks than processors, unless it is told; tests are both. Ranks that wait are to let others run.
        if [[ $command == mpiexec && $("$found" --version 2>&1) == *@("Open MPI"|OpenRTE)* ]]; then
            settings='OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1'
        fi
        printf '#!/bin/sh\n%sexec "%s" "$@"\n' "${settings:+export $settings$'\n'}" "$found" >"$2/$command"
        chmod 755 "$2/$command"
    done
}

# What two ranks say that were compiled and are run by the commands in a folder.
try() {
    "$1/mpicc" "$work/ranks.c" -o "$work/ranks" 2>"$work/errors" &&
        timeout --kill-after=5 60 "$1/mpiexec" -n 2 "$work/ranks" 2>>"$work/errors" </dev/null
}

names=("$@")
if ((!${#names[@]})); then
    if [[ -z ${STILLFRAME_MPI:-} && -e $out/chosen && $(try "$out/bin") == "2 ranks of "* ]]; then
        exit 0
    fi
    read -ra names <<<"${STILLFRAME_MPI:-mpich plain openmpi}"
fi
lacking=()
for name in "${names[@]}"; do
    suffix=.$name
    [[ $name != plain ]] || suffix=
    : >"$work/errors"
    said= is_whole=no
    if make_commands "$suffix" "$work/bin"; then
        is_whole=yes
        said=$(try "$work/bin" | tr '\t' ' ') || said=
    fi
    if [[ $said != "2 ranks of "* ]]; then
        words=$(grep -m 1 . "$work/errors" || echo "${said:-it says nothing}")
        if found=$(command -v "mpicc$suffix"); then
            lacks=$(missing "mpicc$suffix" "$found")
            if [[ -z $lacks && $is_whole == yes ]]; then
                lacks="mpiexec$suffix does not run what mpicc$suffix compiles on two ranks: $words"
            fi
            [[ -z $lacks ]] || lacking+=("$lacks")
        fi
        continue
    fi
    said="${said#2 ranks of } ($path)"
    # A build that is under way goes on with the commands that it has.
    if ! [[ -e $out/chosen && $(<"$out/chosen") == "$said" && -d $out/bin ]]; then
        say "$said"
        mkdir -p -- "$out"
        rm -rf -- "$out/bin"
        mv -T -- "$work/bin" "$out/bin"
        printf '%s\n' "$said" >"$out/chosen"
    fi
    exit 0
done
say "no MPI here compiles a program and runs it on two ranks (looked for: ${names[*]})"
for lacks in "${lacking[@]}"; do say "$lacks"; done
exit 1
