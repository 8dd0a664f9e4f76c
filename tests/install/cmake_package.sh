#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A project that uses the CMake package builds clients with the shared and with the static
# libraries, and installs a transport.
. "$(dirname "$0")/common.sh"

dir="$AMALGAM_WORK_DIR/cmake_package"
fresh_directory "$dir"

"$CMAKE" -S "$here/project" -B "$dir/build" -G Ninja -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_PREFIX_PATH="$AMALGAM_PREFIX" >"$dir/log" 2>&1 &&
    "$CMAKE" --build "$dir/build" >>"$dir/log" 2>&1 &&
    "$CMAKE" --install "$dir/build" --prefix "$dir/prefix" >>"$dir/log" 2>&1 || {
    cat "$dir/log"
    fail "the project does not build"
    finish
}

"$dir/build/client_c" || fail "client_c ended with $?"
"$dir/build/client_cxx" || fail "client_cxx ended with $?"
# A statically linked client has no library next to which plugins could be found.
if [ -x "$dir/build/client_static" ]; then
    NA_PLUGIN_PATH="$AMALGAM_PLUGINDIR" "$dir/build/client_static" ||
        fail "client_static ended with $?"
else
    echo "left out: client_static, AMALGAM_BUILD_STATIC is off"
fi

plugin=$(find "$dir/prefix" -name na_transport.so)
case $plugin in
*/amalgam/abi-*/na_transport.so) ;;
*) fail "the transport is installed as '$plugin'" ;;
esac
[ "$("$NM" -D --defined-only "$plugin" | awk '{print $NF}')" = na_plugin_entry_v1 ] ||
    fail "the transport exports more than its entry"
finish "CMake package"
