#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients in C11 and C++14, and a transport, build with pkg-config alone.
. "$(dirname "$0")/common.sh"

dir="$AMALGAM_WORK_DIR/pkg_config"
fresh_directory "$dir"

# Usage: build_and_run <program> <compiler and source>...
build_and_run() {
    local program="$dir/$1"
    shift
    "$@" -Wall -Wextra -Werror -o "$program" $(pkg-config --cflags --libs amalgam-hg) \
        -Wl,-rpath,"$(pkg-config --variable=libdir amalgam-hg)" || {
        fail "$program does not build"
        return
    }
    "$program" || fail "$program ended with $?"
}

build_and_run client_c "$CC" -std=c11 "$here/client.c"
build_and_run client_cxx "$CXX" -std=c++14 "$here/client.cpp"

"$CC" -std=c11 -fPIC -shared -Wall -Wextra -Werror $(pkg-config --cflags amalgam-plugin) \
    -o "$dir/na_transport.so" "$here/transport.c" || fail "the transport does not build"
[ -z "$(pkg-config --libs amalgam-plugin)" ] || fail "amalgam-plugin links something"

plugindir=$(pkg-config --variable=plugindir amalgam-plugin)
[ "$(realpath "$plugindir")" = "$(realpath "$AMALGAM_PLUGINDIR")" ] ||
    fail "plugindir is $plugindir, and not $AMALGAM_PLUGINDIR"
abi=$(pkg-config --variable=abi_version amalgam-plugin)
[[ $abi =~ ^[0-9]+\.[0-9]+$ ]] || fail "abi_version is '$abi'"
[ "$(basename "$plugindir")" = "abi-${abi%%.*}" ] || fail "$plugindir is not for ABI $abi"
finish "pkg-config"
