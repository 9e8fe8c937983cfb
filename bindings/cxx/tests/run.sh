#!/usr/bin/env bash
# The C++ tests: bindings/cxx/tests/run.sh [--long]
# Compiles the programs here and runs them: plain, and three of them under sanitizers; with --long each under sanitizers, with
# every compiler and standard there is, and under valgrind. STILLFRAME_BUILT names the folder with libstillframe.so
# (target/debug); what is built lies in its folder cxx.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=$(cd "${STILLFRAME_BUILT:-$here/../../../target/debug}" && pwd)
long=no
[ "${1:-}" != --long ] || long=yes
out="$library/cxx"
mkdir -p "$out"
ln -sf ../libstillframe.so "$out/libstillframe.so.0"
ln -sf ../libstillframe.so "$out/libstillframe.so"

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Werror)
includes=(-I "$here/../include" -I "$here/../../c/include")
link=(-L "$out" -Wl,-rpath,"$out" -lstillframe -pthread)
programs=(publish followed sections observe containers errors group restart arenas objects)

# Runs a command, of which nothing is heard unless it fails.
quietly() {
    local log
    log=$(mktemp "$out/log.XXXXXX")
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    printf 'failed: %s\n' "$*"
    tail -n 40 "$log"
    rm -f "$log"
    return 1
}

# Runs commands beside each other, as many as there are processors; `finish` waits for them and is their status.
running=()
start() {
    if ((${#running[@]} >= $(nproc))); then
        wait "${running[0]}"
        running=("${running[@]:1}")
    fi
    quietly "$@" &
    running+=($!)
}
finish() {
    local job
    for job in "${running[@]}"; do wait "$job"; done
    running=()
    printf '%s\n' "$1"
}

build() {
    local program=$1 name=$2
    shift 2
    start g++ "$@" "${warnings[@]}" "${includes[@]}" "$here/$program.cpp" -o "$out/$program-$name" "${link[@]}"
    built+=("$program-$name")
}

# A compiler has to refuse a program, in words that are written in it.
refuses() {
    local number=$1 words=$2 said
    if said=$(g++ -std=c++17 -fsyntax-only -Werror "-DREFUSED=$number" "${includes[@]}" "$here/refused.cpp" 2>&1); then
        echo "it was compiled"
        return 1
    fi
    grep -qF -- "$words" <<<"$said" || { echo "$said"; return 1; }
}

built=()
for program in "${programs[@]}"; do
    # What the optimizer makes of it is seen here; with sanitizers it takes three times as long to compile.
    build "$program" plain -std=c++17 -O1
    [ $long = yes ] || [[ " publish containers objects " == *" $program "* ]] || continue
    build "$program" sanitized -std=c++17 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all
done
# Where C++20 has something else, which is spans.
[ $long = no ] || for program in publish observe; do build "$program" cxx20 -std=c++20; done
build no_exceptions plain -std=c++17 -fno-exceptions
finish "g++ compiles them"

if [ $long = yes ] && command -v clang++ >/dev/null; then
    for standard in 17 20; do
        for program in "${programs[@]}"; do
            start clang++ "-std=c++$standard" -fsyntax-only "${warnings[@]}" "${includes[@]}" "$here/$program.cpp"
        done
    done
    start clang++ -std=c++17 -fsyntax-only -fno-exceptions "${warnings[@]}" "${includes[@]}" "$here/no_exceptions.cpp"
    finish "clang++ compiles them too"
fi

cases=0
while IFS=: read -r number words; do
    start refuses "$number" "$words"
    cases=$((cases + 1))
done < <(sed -nE 's/^#(el)?if REFUSED == ([0-9]+) +\/\/ (.*)$/\2:\3/p' "$here/refused.cpp")
finish "g++ refuses $cases wrong programs, and says why"

for program in "${built[@]}"; do start "$out/$program"; done
finish "they run, with sanitizers too"
if [ $long = yes ] && command -v valgrind >/dev/null; then
    for program in "${programs[@]}"; do
        # The kernel's tracker does not see what a program that is emulated writes.
        start env STILLFRAME_TRACKER=full_copy valgrind -q --fair-sched=yes --error-exitcode=9 --leak-check=full \
            --errors-for-leak-kinds=definite --suppressions="$here/valgrind.supp" "$out/$program-plain"
    done
    finish "they run under valgrind"
fi
