#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Usage: build.sh cmake|meson <folder>; builds the examples there against the installed prefix alone.
. "$(dirname "$0")/../install/common.sh"

sources="$AMALGAM_SOURCE_DIR/examples" dir=$2
rm -rf "$dir"
mkdir -p "$dir"
export CC CXX CFLAGS=-Werror CXXFLAGS=-Werror

with_cmake() {
    "$CMAKE" -S "$sources" -B "$dir" -G Ninja -DCMAKE_PREFIX_PATH="$AMALGAM_PREFIX" &&
        "$CMAKE" --build "$dir"
}

with_meson() {
    command -v meson >/dev/null || {
        echo "Skipped: there is no meson"
        exit 77
    }
    meson setup "$dir" "$sources" && ninja -C "$dir"
}

"with_$1" >"$dir.log" 2>&1 || {
    cat "$dir.log"
    fail "the examples do not build with $1"
}
for file in "$sources"/*.c "$sources"/*.cpp "$sources"/*.h; do
    [ "$(wc -l <"$file")" -lt 150 ] || fail "$file has 150 lines or more"
done
finish "built with $1"
