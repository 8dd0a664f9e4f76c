#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the libraries of a release from its own sources, which the history has:
#     old_core.sh <release> <build folder>
# The file <release>/source names the tag or commit; <release> may be any folder that has one. What was built is kept as long as it is that.
. "$(dirname "$0")/common.sh"

[ $# -eq 2 ] || { sed -n 's/^#     //p' "$0" >&2 && exit 2; }
source=$(cat "$here/$1/source") dir=$2
commit=$(git -C "$root" rev-parse --verify --quiet "$source^{commit}") ||
    skip "$source, the source of $1, is not in the history of this copy"
[ "$(cat "$dir/built" 2>/dev/null)" != "$commit" ] || {
    finish "$1 is built from $commit"
    exit 0
}

rm -rf "$dir"
mkdir -p "$dir/source"
git -C "$root" archive "$commit" | tar -x -C "$dir/source"

# Usage: build <ON or OFF>; whether the sources of a library are compiled as one, which takes a third of the time. They
# define _GNU_SOURCE themselves, which in one would be too late.
build() {
    "${CMAKE:-cmake}" -S "$dir/source" -B "$dir" -G Ninja -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O0 -D_GNU_SOURCE=" -DAMALGAM_BUILD_TESTS=OFF \
        -DAMALGAM_BUILD_TOOLS=OFF -DNA_OFI=OFF -DNA_UCX=OFF -DNA_BMI=OFF -DNA_MPI=OFF \
        -DCMAKE_UNITY_BUILD="$1" -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 >>"$dir/log" 2>&1 &&
        "${CMAKE:-cmake}" --build "$dir" --target amalgam-na amalgam-hg >>"$dir/log" 2>&1
}
build ON || build OFF || {
    cat "$dir/log"
    fail "$1 does not build from $commit"
    finish
}
echo "$commit" >"$dir/built"
finish "$1 is built from $commit"
