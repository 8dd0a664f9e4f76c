#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each installed header compiles alone, in every language mode that a client may use, with the
# compiler of the build. gcc and clang are both covered, because each has a build of its own.
. "$(dirname "$0")/common.sh"

dir="$AMALGAM_WORK_DIR/headers"
fresh_directory "$dir"
count=0
for header in "$AMALGAM_INCLUDEDIR"/*.h "$AMALGAM_INCLUDEDIR"/mercury/*.h; do
    [ -f "$header" ] || continue
    name=$(basename "$header" .h)
    # The second inclusion shows that the header has an include guard.
    printf '#include <%s.h>\n#include <%s.h>\n' "$name" "$name" |
        tee "$dir/$name.c" >"$dir/$name.cpp"
    count=$((count + 1))
done

# Usage: compile <compiler> <extension> <standard>
compile() {
    (cd "$dir" && "$1" -std="$3" -fsyntax-only -Wall -Wextra -pedantic -Werror \
        -I"$AMALGAM_INCLUDEDIR/mercury" -I"$AMALGAM_INCLUDEDIR" ./*."$2") || fail "$1 -std=$3"
}

for standard in c11 c17; do
    compile "$CC" c "$standard"
done
for standard in c++14 c++17 c++20; do
    compile "$CXX" cpp "$standard"
done
finish "$count headers"
