#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the fuzz targets and runs each for SECONDS, starting with the kept inputs:
#     scripts/fuzz.sh SECONDS [TARGET...]
# New inputs go to build/fuzz/found/<target>, inputs that crash to build/fuzz/crashes. The kept inputs are
# unpacked to build/fuzz/kept/<target>; scripts/corpus.sh adds to them. FUZZ_BUILD is another build folder,
# FUZZ_JOBS the number of targets that run at the same time.
. "$(dirname "$0")/lib.sh"

build=${FUZZ_BUILD:-build/fuzz}

main() {
    local seconds=${1:-} target targets failed=0
    [[ $seconds =~ ^[0-9]+$ ]] || die "usage: scripts/fuzz.sh SECONDS [TARGET...]"
    shift
    targets=${*:-$(scripts/corpus.sh list | awk '{ print $1 }')}
    for target in $targets; do
        [ -f "tests/fuzz/fuzz_$target.c" ] || die "there is no target '$target'"
    done
    install_missing build test clang tsan # the fuzzer's runtime comes with the sanitizers
    cmake --preset fuzz -B "$build" >/dev/null
    cmake --build "$build" -j "$jobs" --target $(printf 'fuzz_%s ' $targets) -- --quiet
    mkdir -p "$build/crashes"
    for target in $targets; do
        scripts/corpus.sh unpack "$target" "$build/kept/$target" >/dev/null
    done
    run_all "$seconds" $targets

    say "Summary"
    printf '%-12s %12s %10s  %s\n' target executions seconds result
    for target in $targets; do
        report "$target" || failed=$((failed + 1))
    done
    [ "$failed" -eq 0 ] || die "$failed of the targets failed; their inputs are in $build/crashes"
}

# Usage: run_all <seconds> <target>...
run_all() {
    local seconds=$1 target
    shift
    for target in "$@"; do
        while [ "$(jobs -rp | wc -l)" -ge "${FUZZ_JOBS:-$jobs}" ]; do
            wait -n || true
        done
        run "$target" "$seconds" &
    done
    wait
}

# Usage: run <target> <seconds>; leaves log and status.
run() {
    local found="$build/found/$1" status=0
    mkdir -p "$found"
    "$build/fuzz/fuzz_$1" -max_total_time="$2" -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
        -verbosity=1 -artifact_prefix="$build/crashes/$1-" "$found" "$build/kept/$1" \
        >"$build/fuzz/$1.log" 2>&1 || status=$?
    echo "$status" >"$build/fuzz/$1.status"
}

# Usage: report <target>; false if it failed, or did not start with all kept inputs.
report() {
    local log="$build/fuzz/$1.log" count seconds began kept result=passed
    count=$(awk '/stat::number_of_executed_units/ {print $2}' "$log")
    seconds=$(awk '/^Done/ {print $(NF - 1)}' "$log")
    began=$(sed -nE 's/^INFO: seed corpus: files: ([0-9]+) .*/\1/p' "$log")
    kept=$(find "$build/kept/$1" -type f | wc -l)
    [ "${began:-0}" -ge "$kept" ] || {
        echo "it began with ${began:-0} of $kept inputs that are kept" >>"$log"
        echo 1 >"$build/fuzz/$1.status"
    }
    [ "$(cat "$build/fuzz/$1.status")" = 0 ] || result="FAILED, see $log"
    printf '%-12s %12s %10s  %s\n' "$1" "${count:-?}" "${seconds:-?}" "$result"
    [ "$result" = passed ]
}

main "$@"
