#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs written for Mercury build against the prefix, by pkg-config and by CMake, and run.
. "$(dirname "$0")/common.sh"

dir="$AMALGAM_WORK_DIR/mercury"
fresh_directory "$dir"

for version in mercury:2.4.1 na:6.0.0 mercury_util:4.1.0; do
    found=$(pkg-config --modversion "${version%:*}") || fail "no ${version%:*}.pc"
    [ "$found" = "${version#*:}" ] || fail "${version%:*}.pc has version $found"
done

# Usage: build_and_run <program> <compiler and flags>...
build_and_run() {
    local program="$dir/$1"
    shift
    "$@" -Wall -Wextra -Werror "$here/mercury_client.c" -x none -o "$program" \
        $(pkg-config --cflags --libs mercury) \
        -Wl,-rpath,"$(pkg-config --variable=libdir mercury)" || {
        fail "$program does not build"
        return
    }
    "$program" || fail "$program ended with $?"
}
build_and_run client_c "$CC" -std=c11
build_and_run client_cxx "$CXX" -std=c++14 -x c++

# By file names alone, as in a hand-written Makefile.
"$CC" -std=c11 -Wall -Wextra -Werror "$here/mercury_client.c" -o "$dir/client_files" \
    -I"$AMALGAM_PREFIX/include" -L"$AMALGAM_LIBDIR" -lmercury -lna -lmercury_util \
    -Wl,-rpath,"$AMALGAM_LIBDIR" || fail "client_files does not build"
"$dir/client_files" || fail "client_files ended with $?"
for header in "$AMALGAM_PREFIX"/include/*.h; do
    printf '#include <%s>\n' "${header##*/}" |
        "$CC" -std=c11 -Wall -Werror -I"$AMALGAM_PREFIX/include" -fsyntax-only -x c - ||
        fail "${header##*/} does not compile alone"
done
for name in BMI MPI OFI SM UCX; do
    printf '#include <na.h>\n#ifndef NA_HAS_%s\n#error\n#endif\n' $name |
        "$CC" -I"$AMALGAM_PREFIX/include" -fsyntax-only -x c - || fail "NA_HAS_$name is not defined"
done

# Each archive precedes those that it needs. The C library stays shared, because plugins need it.
if [ -f "$AMALGAM_LIBDIR/libamalgam-hg.a" ]; then
    "$CC" -std=c11 -Wall -Wextra -Werror "$here/mercury_client.c" -o "$dir/client_static" \
        $(pkg-config --cflags mercury) -Wl,-Bstatic $(pkg-config --static --libs mercury) \
        -Wl,-Bdynamic || fail "client_static does not build"
    ! "$READELF" -d "$dir/client_static" | grep -E 'NEEDED.*(amalgam|xxhash)' ||
        fail "client_static is not linked statically"
    NA_PLUGIN_PATH="$AMALGAM_PLUGINDIR" "$dir/client_static" || fail "client_static ended with $?"
else
    echo "left out: client_static, AMALGAM_BUILD_STATIC is off"
fi

"$CMAKE" -S "$here/mercury_project" -B "$dir/build" -G Ninja -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_PREFIX_PATH="$AMALGAM_PREFIX" >"$dir/log" 2>&1 &&
    "$CMAKE" --build "$dir/build" >>"$dir/log" 2>&1 || {
    cat "$dir/log"
    fail "the project does not build"
    finish
}
for program in client_c client_cxx client_found na_only util_only; do
    "$dir/build/$program" || fail "$program, built by CMake, ended with $?"
done
finish "programs for Mercury"
