# SPDX-License-Identifier: BSD-3-Clause
# Functions for the tests of both templates, which work on a copy that was renamed to `mine`. The
# scripts that source this file set `dir` and `copy` before.

# Usage: template_lines <folder> <maximum>
template_lines() {
    local lines
    lines=$(cat "$1"/*.[ch] | wc -l)
    [ "$lines" -le "$2" ] || fail "$1 has $lines lines; docs/writing-a-plugin.md says at most $2"
}

# Usage: template_build; builds against the installed prefix alone.
template_build() {
    local line
    while read -r line; do
        fail "the old name is left: $line"
    done < <(grep -rniE 'template' "$copy/src" "$copy/CMakeLists.txt" || true)
    "$CMAKE" -S "$copy" -B "$dir/build" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS=-Werror \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_PREFIX_PATH="$AMALGAM_PREFIX" \
        -DCONFORMANCE_FLAGS="${AMALGAM_CONFORMANCE_FLAGS// /;}" >"$dir/log" 2>&1 &&
        "$CMAKE" --build "$dir/build" >>"$dir/log" 2>&1 || {
        cat "$dir/log"
        fail "it does not build"
        finish
    }
    ! grep -q -- "-I$AMALGAM_SOURCE_DIR/sdk" "$dir/build/compile_commands.json" ||
        fail "it is built with headers that are not installed"
    grep -q -- "$AMALGAM_INCLUDEDIR" "$dir/build/compile_commands.json" ||
        fail "it is not built with the headers of $AMALGAM_PREFIX"
}

# Usage: template_count_tests <number of its tests>
template_count_tests() {
    local count
    count=$("$CTEST" --test-dir "$dir/build" -N | sed -n 's/^Total Tests: //p')
    [ "$count" = "$1" ] || fail "it has $count tests; na_conformance or hg_perf was not found"
}

# Usage: template_test; runs all tests of the copy.
template_test() {
    "$CTEST" --test-dir "$dir/build" --output-on-failure --timeout 1700 || fail "its tests fail"
}

# Usage: template_install; installs the plugin and runs the tools with it.
template_install() {
    local plugin
    "$CMAKE" --install "$dir/build" --prefix "$dir/prefix" >>"$dir/log"
    plugin=$(find "$dir/prefix" -name na_mine.so)
    case $plugin in
    */amalgam/abi-*/na_mine.so) ;;
    *) fail "it is installed as '$plugin'" ;;
    esac
    [ "$("$NM" -D --defined-only "$plugin" | awk '{print $NF}')" = na_plugin_entry_v1 ] ||
        fail "it exports more than its entry"
    NA_PLUGIN_PATH=$(dirname "$plugin") hg_info --init mine+unix || fail "hg_info does not open it"
    NA_PLUGIN_PATH=$(dirname "$plugin") hg_perf rpc --init mine+unix --seconds 0.3 ||
        fail "hg_perf does not run with it"
}

# Usage: template_build_by_hand <package>; builds with one compiler command and the flags of
# pkg-config, without CMake.
template_build_by_hand() {
    # shellcheck disable=SC2046
    "$CC" -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror \
        -o "$dir/na_mine.so" "$copy"/src/*.c $(pkg-config --cflags --libs "$1") ||
        fail "it does not build by one command"
    na_conformance --plugin "$dir/na_mine.so" --init mine+unix --fast --only file,table,class.open ||
        fail "what one command built does not conform"
}
