#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The symbols that the libraries and the plugins export and import.
. "$(dirname "$0")/common.sh"

# Usage: check_library <name> <version nodes, as a pattern> <pattern of allowed names>
check_library() {
    local file="$AMALGAM_LIBDIR/lib$1.so" count=0 symbol
    "$READELF" -d "$file" | grep -qF "soname: [lib$1.so.1]" || fail "$file: soname is not lib$1.so.1"
    while read -r symbol; do
        [[ ! $symbol =~ ^($2)(@@($2))?$ ]] || continue # the version node itself
        count=$((count + 1))
        [[ $symbol =~ ^($3)[A-Za-z0-9_]*@@($2)$ ]] ||
            fail "$file exports $symbol, which is not one of $3 with version $2"
    done < <("$NM" -D --defined-only "$file" | awk '{print $NF}')
    [ "$count" -gt 0 ] || fail "$file exports nothing"
    echo "lib$1.so: $count symbols"
}

# A library exports every function that a header declares.
check_declared() {
    local exported name
    exported=$("$NM" -D --defined-only "$AMALGAM_LIBDIR"/libamalgam-*.so |
        awk '{sub(/@.*/, "", $NF); print $NF}')
    while read -r name; do
        grep -qx "$name" <<<"$exported" || fail "a header declares $name, no library exports it"
    done < <(grep -hv '^ *#' $(find "$AMALGAM_INCLUDEDIR" -name '*.h') | tr '\n' ' ' |
        grep -oE '(NA|HG|HG_UTIL)_PUBLIC [^;()]*\(' | grep -oE '[A-Za-z0-9_]+\($' | tr -d '(')
}

check_plugin() {
    local exported foreign
    exported=$("$NM" -D --defined-only "$1" | awk '{print $NF}')
    [ "$exported" = na_plugin_entry_v1 ] ||
        fail "$1 exports $(echo $exported), and not na_plugin_entry_v1 alone"
    foreign=$("$NM" -D --undefined-only "$1" | awk '{print $NF}' | matching '^(NA_|HG_|na_|hg_)')
    [ -z "$foreign" ] || fail "$1 imports" $foreign
    ! "$READELF" -d "$1" | grep -q 'NEEDED.*libamalgam' || fail "$1 links a library of ours"
    echo "$(basename "$1"): $exported"
}

check_library amalgam-na 'AMALGAM_NA_1\.[01]' 'NA_'
check_library amalgam-hg 'AMALGAM_HG_1\.[01]' 'HG_|hg_proc_|hg_request_|hg_string_object_'
[ ! -f "$AMALGAM_LIBDIR/libamalgam-util.so" ] ||
    check_library amalgam-util AMALGAM_UTIL_1.0 'HG_Util_|hg_'
"$READELF" -d "$AMALGAM_LIBDIR/libamalgam-hg.so" | grep -q 'NEEDED.*libamalgam-na.so.1' ||
    fail "libamalgam-hg.so does not link libamalgam-na.so.1"

check_declared

[ -f "$AMALGAM_PLUGINDIR/na_sm.so" ] || fail "$AMALGAM_PLUGINDIR/na_sm.so is not installed"
for plugin in "$AMALGAM_PLUGINDIR"/*.so; do
    [ ! -f "$plugin" ] || check_plugin "$plugin"
done
finish "symbols"
