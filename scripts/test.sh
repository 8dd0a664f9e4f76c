#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs missing packages, builds, and runs every test; arguments choose stages:
#     scripts/test.sh [format] [docs] [gcc] [release] [clang] [asan] [tsan] [fuzz] [packages] [verbs]
# The default is all stages but verbs, which needs virtual machines.
. "$(dirname "$0")/lib.sh"

main() {
    local stages="${*:-format docs gcc release clang asan tsan fuzz packages}" stage before failed=0
    local start=$SECONDS
    install_for $stages
    before=$(shared_memory)
    for stage in $stages; do
        say "Stage $stage"
        run_stage "$stage" || failed=$((failed + 1))
    done
    say "Shared memory"
    check_shared_memory "$before" || failed=$((failed + 1))

    say "Summary"
    printf '%-8s %-8s %8s  %s\n' stage result seconds tests "${summary[@]}"
    [[ " $stages " = *" verbs "* ]] || echo "verbs    left out: scripts/test.sh verbs runs it"
    printf '%s' "$findings"
    if [ "$failed" -gt 0 ]; then
        echo "FAILED: $failed of the above, after $((SECONDS - start)) s"
        exit 1
    fi
    echo "PASSED: all of the above, in $((SECONDS - start)) s"
}

install_for() {
    local stage purposes="build test"
    for stage in "$@"; do
        case $stage in
        gcc) purposes+=" abi" ;;
        release | asan) ;;
        clang | format | packages) purposes+=" $stage" ;;
        docs) purposes+=" docs pictures words" ;;
        tsan | fuzz) purposes+=" clang tsan" ;;
        verbs) ;; # by itself: a machine that cannot have it leaves that stage out
        *) die "unknown stage '$stage'; there are format, docs, gcc, release, clang, asan, tsan, fuzz, packages, verbs" ;;
        esac
    done
    install_missing $purposes
}

summary=()
findings= # what failed and its last words, so that the end of a long output is enough

# Usage: run_stage <stage>; adds a line to the summary.
run_stage() {
    local start=$SECONDS result=passed counts=
    case $1 in
    format) scripts/format.sh --check || result=FAILED ;;
    docs) docs || result=FAILED ;;
    release) release || result=FAILED ;;
    fuzz) fuzz || result=FAILED ;;
    verbs) verbs || result=FAILED ;;
    # Packages of debug information take half of the time, and no check uses them.
    packages) DEB_BUILD_OPTIONS=noautodbgsym scripts/packages.sh || result=FAILED ;;
    *) build_and_test "$1" || result=FAILED ;;
    esac
    summary+=("$1" "$result" $((SECONDS - start)) "$counts")
    [ "$result" != FAILED ]
}

# Makes the site without a warning, and runs the tests of the documentation that need no build.
docs() {
    local check
    scripts/docs.sh || return 1
    for check in $(tests/docs/check.sh list); do
        tests/docs/check.sh "$check" || return 1
    done
}

# Builds the preset that the README installs with warnings as errors: -O3 finds warnings that the tested builds do
# not have. The preset itself lets warnings pass, because other compilers have other warnings.
release() {
    scripts/demo.sh -DAMALGAM_WERROR=ON
}

# Runs each target for half a minute, starting with the kept corpus; several share a processor. Sets counts of
# the caller.
fuzz() {
    local out="build/fuzz.out" status=0
    mkdir -p build
    FUZZ_JOBS=$((3 * jobs)) scripts/fuzz.sh 30 | tee "$out" || status=1
    counts=$(awk '$NF == "passed" { count++; sum += $2 }
        END { printf "%d targets, %d inputs", count, sum }' "$out")
    [ $status -eq 0 ] || findings+=$(fuzz_findings "$out")$'\n'
    return $status
}

# Runs RPCs, bulk data, copies and a few suites over an RDMA device in software. Sets counts of the caller,
# and result where this machine cannot run them.
verbs() {
    local out="build/verbs.out" status=0
    mkdir -p build
    counts=$(scripts/verbs.sh check) || {
        result=skipped
        return 0
    }
    (install_missing verbs) >"$out" 2>&1 || {
        counts="its packages cannot be installed: $(tail -n 1 "$out")"
        result=skipped
        return 0
    }
    cmake --preset gcc && cmake --build --preset gcc -j "$jobs" -- --quiet || return 1
    scripts/verbs.sh smoke some | tee "$out" || status=1
    counts="$(grep '^guest .: ok ' "$out" | grep -cv ' # skipped') passed"
    counts+=", $(grep -c '^guest .: not ok ' "$out") failed, $(grep -c ' # skipped' "$out") skipped"
    [ $status -eq 0 ] || findings+=$(grep 'not ok ' "$out")$'\n'
    return $status
}

# Usage: fuzz_findings <output of scripts/fuzz.sh>
fuzz_findings() {
    local log
    for log in $(sed -nE 's/.*FAILED, see //p' "$1"); do
        echo "$log:"
        grep -E 'not true|ERROR|^ +#[0-9]+ |SUMMARY|^Step|rror: ' "$log" | head -n 12 | cut -c 1-100
    done
}

# Usage: build_and_test <preset>; sets counts of the caller.
build_and_test() {
    local out="build/$1/ctest.out" status=0 wrapper total failed skipped unstable=
    counts="not built"
    cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs" -- --quiet || return 1
    wrapper=$(without_address_randomization "$1") || return 1
    wrapper+=" $(without_kernel_symbols)"
    # Most tests wait more than they compute: for peers to die, for timeouts, for fabrics to open.
    $wrapper ctest --preset "$1" -j $((4 * jobs)) --no-label-summary | tee "$out" || status=1
    show_skipped "build/$1/Testing/Temporary/LastTest.log"
    read -r failed total < <(sed -nE 's/.*, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$out")
    skipped=$(grep -c '\*\*\*Skipped' "$out")
    [ $status -eq 0 ] || {
        findings+=$(test_findings "$1" "build/$1/Testing/Temporary/LastTest.log")$'\n'
        run_again "$1" "${failed:-0}" $wrapper && status=0
    }
    counts="$((${total:-0} - ${failed:-0} - skipped)) passed, ${failed:-?} failed, $skipped skipped"
    [ -z "$unstable" ] || counts+=", passed when run again:$unstable"
    return $status
}

# Usage: run_again <preset> <number of failed tests> [wrapper]; runs one or two failed tests once more, alone: a
# busy machine can be too slow for one test, but not for many. Sets unstable of the caller to the names of
# those that pass then; the summary lists them.
run_again() {
    local preset=$1 count=$2 names
    shift 2
    [ "$count" -ge 1 ] && [ "$count" -le 2 ] || return 1
    names=$(sed -nE 's/^[0-9]+:(.*)/\1/p' "build/$preset/Testing/Temporary/LastTestsFailed.log" | tr '\n' ' ')
    say "Stage $preset, again: $names"
    "$@" ctest --preset "$preset" --rerun-failed --no-label-summary || return 1
    unstable=" $names"
}

# clang's ThreadSanitizer 14 cannot place its shadow memory where the kernel randomizes widely.
without_address_randomization() {
    [ "$1" = tsan ] && [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)" -gt 28 ] ||
        return 0
    setarch -R true 2>/dev/null ||
        die "vm.mmap_rnd_bits is above 28 and setarch -R is refused: run 'sysctl vm.mmap_rnd_bits=28'"
    echo setarch -R
}

# libfabric's verbs provider reads all kernel symbols twice in each process that opens a fabric. That takes a
# fifth of a second, a third of the time of all tests over ofi+tcp, so the symbols are hidden.
without_kernel_symbols() {
    unshare --mount scripts/hidden.sh true 2>/dev/null || return 0
    echo unshare --mount scripts/hidden.sh
}

# Usage: show_skipped <ctest's log>; prints each skipped test with its reason.
show_skipped() {
    awk '
        / Testing: / { test = $NF }
        /^Command: |listed below:$/ { next }
        / SKIPPED \]|^left out: |[Ss]kipped: / { print "not run: " test ": " $0 }
    ' "$1" | sort -u
}

# Usage: test_findings <preset> <ctest's log>; prints the failure lines and the last line of each failed test.
test_findings() {
    awk -v preset="$1" '
        / Testing: / { test = $NF; said = ""; count = 0 }
        /: error: Failure|\[  ERROR|FAILED  \] [a-z]|not ok|not true|SUMMARY|^Bail|^FAIL/ {
            if (++count <= 9)
                said = said "    " substr($0, 1, 100) "\n"
        }
        /end of output/ { said = said "    " substr(last, 1, 100) "\n" }
        { last = $0 }
        /^Test Failed/ { printf "%s: %s:\n%s", preset, test, said }
    ' "$2"
}

shared_memory() {
    ls -A /dev/shm | sort
}

# Usage: check_shared_memory <listing before>
check_shared_memory() {
    local name left=
    for name in $(comm -13 <(echo "$1") <(shared_memory)); do
        is_in_use "$name" || left+=" $name"
    done
    [ -z "$left" ] || {
        echo "left in /dev/shm:$left"
        return 1
    }
    echo "/dev/shm is as before"
}

# Usage: is_in_use <name in /dev/shm>; true if a living process of another tree uses it.
is_in_use() {
    local pid program
    pid=$(sed -nE 's/^amalgam-[a-z]+\.[0-9]+\.([0-9]+).*/\1/p' <<<"$1")
    [ -n "$pid" ] && program=$(readlink "/proc/$pid/exe") && [[ $program != "$root"/* ]]
}

main "$@"
