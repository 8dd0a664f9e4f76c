#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures Amalgam beside other libraries, and redraws docs/performance.md from the numbers:
#     scripts/compare.sh [ROUNDS [SECONDS [EXPERIMENT]]]
#                                          measures (5 rounds, 0.12 s a number: eleven minutes), then draws;
#                                          EXPERIMENT renews one experiment of tools/compare/plan.py
#     scripts/compare.sh --draw [FOLDER]   draws the pictures and the page from the kept numbers, into FOLDER
# The numbers are in docs/pictures/performance.json. As root both sides run with real-time priority, so that
# other load on the machine disturbs the numbers less.
. "$(dirname "$0")/lib.sh"

data=docs/pictures/performance.json
build=build/compare

main() {
    local folder
    case ${1-} in
    --draw)
        folder=${2-}
        [ -z "$folder" ] || [ -d "$folder" ] || die "$folder is no folder"
        draw "${folder:-docs/pictures}" "${folder:-docs}/performance.md"
        ;;
    --* | -*) die "usage: compare.sh [ROUNDS [SECONDS [EXPERIMENT]]] or compare.sh --draw [FOLDER]" ;;
    *)
        install_missing build compare
        cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DAMALGAM_BUILD_TESTS=OFF -DAMALGAM_BUILD_COMPARE=ON >/dev/null
        cmake --build "$build" -j "$jobs" -- --quiet
        say "Measuring"
        mkdir -p "$(dirname "$data")"
        cp "$data" "$build/performance.json" 2>/dev/null || true
        python3 -B tools/compare/measure.py "$build/bin" "$build/performance.json" "$@"
        mv "$build/performance.json" "$data"
        draw docs/pictures docs/performance.md
        say "docs/performance.md and its pictures are drawn anew"
        ;;
    esac
}

# Usage: draw <folder of the pictures> <page>
draw() {
    python3 -B tools/compare/draw.py "$data" docs/performance.md "$@"
}

main "$@"
