#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compares the ABIs of this tree with what was released, see docs/abi-policy.md:
#     scripts/abi.sh [check]             builds the libraries, and reports every difference
#     scripts/abi.sh update              adds new symbols to the baseline; refuses other changes
#     scripts/abi.sh self-test           shows that the check finds a break of each kind
#     scripts/abi.sh freeze X.Y COMMIT   keeps headers and symbols of release X.Y, built from COMMIT
. "$(dirname "$0")/lib.sh"

build="$root/build/abi"
export CC=gcc CXX=g++

main() {
    install_missing build test abi
    case ${1-check} in
    check) check ;;
    update) build_libraries && abi-tests/update.sh "$build/lib" ;;
    self-test) mkdir -p "$build" && abi-tests/self_test.sh "$build/self_test" ;;
    freeze)
        [ $# -eq 3 ] || usage
        freeze "$2" "$3"
        ;;
    *) usage ;;
    esac
}

usage() {
    sed -n 's/^#     //p' "$0" >&2
    exit 2
}

build_libraries() {
    mkdir -p "$build"
    cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=$CC -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DAMALGAM_BUILD_TESTS=OFF -DAMALGAM_BUILD_TOOLS=OFF -DAMALGAM_BUILD_MERCURY=ON \
        >"$build/log" &&
        cmake --build "$build" -j "$jobs" --target amalgam-na amalgam-hg amalgam-util -- --quiet
}

check() {
    local what failed=
    build_libraries
    for what in headers layout names symbols types; do
        abi-tests/check.sh $what "$build/lib" || failed+=" $what"
    done
    [ -z "$failed" ] || die "failed:$failed"
}

# A frozen copy describes a release, so it is never written again.
freeze() {
    local folder="abi-tests/v$1"
    [[ $1 =~ ^[0-9]+\.[0-9]+$ ]] || die "'$1' is not a release like 1.1"
    [ ! -e "$folder" ] || die "$folder is there already, and what was released does not change"
    git rev-parse --verify --quiet "$2^{commit}" >/dev/null || die "there is no commit $2"
    check || die "a release starts from a tree whose checks pass"
    mkdir -p "$folder"
    cp -r sdk/include "$folder/include"
    cp -r dropin/include "$folder/dropin"
    cp abi-tests/baseline/*.symbols "$folder/"
    # Shows a tag by its name, and any other commit by its hash.
    if git show-ref --verify --quiet "refs/tags/$2"; then
        echo "$2"
    else
        git rev-parse "$2^{commit}"
    fi >"$folder/source"
    echo "$folder: the headers and $(cat "$folder"/*.symbols | wc -l) symbols"
}

main "$@"
