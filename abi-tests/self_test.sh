#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Shows that the checks find what they are for: breaks a copy of the tree in one way after the
# other, and expects the right check to fail and to say why.
#     self_test.sh <work folder>
. "$(dirname "$0")/common.sh"

[ $# -eq 1 ] || { sed -n 's/^#     //p' "$0" >&2 && exit 2; }
need_abigail
addition='$a NA_PUBLIC void NA_More(void);\nvoid NA_More(void) {}'
tree=$1/tree build=$1/build unbroken=$1/unbroken later=$1/later log=$1/log
compiled= # see change

main() {
    copy_and_configure
    intact
    broken_plugin_abi
    broken_minor_to_be
    broken_next_minor
    broken_names
    broken_libraries
    updates
    finish "every break was found"
}

# The plugin ABI is the header; nothing needs to be built.
broken_plugin_abi() {
    local header=sdk/include/na_plugin.h
    broken "a member of a plugin's table moved" layout "offset of na_plugin.poll" \
        '/^    int32_t \(\*poll\)\(/{h;d};/^    int32_t \(\*poll_get_fd\)\(/{p;x}' $header
    broken "a member of a plugin's table removed" layout "offset of na_plugin.cancel" \
        '/^    void \(\*wake\)\(/d' $header
    broken "a member of a struct widened" layout "size of struct na_plugin_offer" \
        's/^    int32_t priority;/    int64_t priority;/' $header
    broken "a constant of the plugin ABI renumbered" layout "value of NA_PLUGIN_CAP_WAIT_FD" \
        's/(NA_PLUGIN_CAP_WAIT_FD +\(UINT64_C\(1\) << )2/\17/' $header
    broken "a constant of hg renumbered" layout "value of HG_MAX_IN_FLIGHT_DEFAULT" \
        's/(#define HG_MAX_IN_FLIGHT_DEFAULT ).*/\1UINT16_MAX/' sdk/include/mercury_ext.h
    broken "a constant of the utilities renumbered" layout "value of HG_UTIL_FAIL" \
        's/^(#define HG_UTIL_FAIL +)-1/\1-2/' sdk/include/mercury_util_config.h
    broken "a constant without a statement" layout "NA_PLUGIN_MORE has no VALUE" \
        's/^#define NA_PLUGIN_BUF_SEND .*/&\n#define NA_PLUGIN_MORE (1u << 3)/' $header
    broken "a member without a statement" layout "struct na_plugin has .* members" \
        '/^struct na_plugin \{$/,/^\};$/s/^\};$/    void (*more)(void);\n&/' $header
    broken "a member of an extension without a statement" layout "struct na_plugin_counters has .* members" \
        '/^struct na_plugin_counters \{$/,/^\};$/s/^\};$/    void (*more)(void);\n&/' \
        sdk/include/na_plugin_counters.h
    broken "a member of an extension moved" layout "offset of na_plugin_wrap.options_split" \
        '/^    void \(\*op_destroy\)\(/d' sdk/include/na_plugin_wrap.h
    broken "a table that grew without a new minor" headers 'void \(\*more\)\(void\)' \
        '/^struct na_plugin \{$/,/^\};$/s/^\};$/    void (*more)(void);\n&/' $header
}

# The same header before its minor is released: then only those of earlier ones are frozen.
broken_minor_to_be() {
    local header=sdk/include/na_plugin.h frozen
    for frozen in "$tree"/abi-tests/v*; do
        [ "$(abi_version "$frozen/include/na_plugin.h")" != "$(abi_version "$tree/$header")" ] ||
            mv "$frozen" "$later/"
    done
    allowed "a table that grew, in a minor to be" headers \
        '/^struct na_plugin \{$/,/^\};$/s/^\};$/    void (*more)(void);\n&/' $header
    broken "a reordered parameter" headers "struct na_plugin, member [0-9]+: int32_t \(\*put\)" \
        's/(\(\*put\)\(.*), void \*op, (struct .*),$/\1, \2, void *op,/' $header
    broken "a callback of another type" headers "op_complete\)\(void .* is now int64_t" \
        's/void (\(\*op_complete\)\()void \*op, int32_t status/int64_t \1int32_t status, void *op/' \
        $header
    broken "a member of another sign" headers "struct na_plugin_init, member .*progress_mode" \
        's/^    uint32_t progress_mode;/    int32_t progress_mode;/' $header
    broken "an entry that returns another type" headers "int32_t na_plugin_entry_v1.* is gone" \
        's/int32_t (na_plugin_entry_v1)/int64_t \1/' $header
    broken "a typedef of another type" headers "na_plugin_offer_fn\).* is gone" \
        's/^(typedef )int32_t (\(\*na_plugin_offer_fn)/\1void \2/' $header
    broken "a member of a struct that went" headers "struct na_plugin_segment, member 2.* is gone" \
        '/^struct na_plugin_segment \{/,/^\}/{/length;/d}' sdk/include/na_plugin_mem_segments.h
    broken "an extension of another name" headers 'NA_PLUGIN_EXT_MULTI_RECV: "na.multi_recv/1"' \
        's,"na.multi_recv/1","na.multi_recv/2",' sdk/include/na_plugin_multi_recv.h
    broken "an extension that is not included" headers 'EXT_MULTI_RECV.* is gone' \
        '/^#include "na_plugin_multi_recv.h"/d' $header
    mv "$later"/v* "$tree/abi-tests/"
}

# The minor after a released one: numbers of the released one stay, too.
broken_next_minor() {
    local header=sdk/include/na_plugin.h next='s/^(#define NA_PLUGIN_ABI_MINOR ).*/\199u/'
    allowed "a table that grew, in the next minor" headers \
        "$next"';/^struct na_plugin \{$/,/^\};$/s/^\};$/    void (*more)(void);\n&/' $header
    broken "a released constant renumbered" headers "NA_PLUGIN_CAP_NO_THREADS: .* is now .* 8" \
        "$next"';s/(NA_PLUGIN_CAP_NO_THREADS +\(UINT64_C\(1\) << )7/\18/' $header
    broken "a released constant that went" headers "NA_PLUGIN_OFFER_NAMED_ONLY: .* is gone" \
        "$next"';/^#define NA_PLUGIN_OFFER_NAMED_ONLY /d' $header
}

# What no library exports is in the headers alone.
broken_names() {
    broken "a macro of hg removed" names "HG_Addr_lookup is gone" \
        '/^# *define HG_Addr_lookup /d' sdk/include/mercury.h
    broken "a macro of the utilities renamed" names "HG_DLOG_INITIALIZER is gone" \
        's/^#define HG_DLOG_INITIALIZER/&2/' dropin/include/mercury_dlog.h
    broken "an alias of a function removed" names "hg_proc_hg_uint64_t.*(undeclared|is gone)" \
        '/^#define hg_proc_hg_uint64_t /d' sdk/include/mercury_proc.h
    broken "an inline function renamed" names "hg_atomic_set32.*(undeclared|declared)" \
        's/\bhg_atomic_set32\b/hg_atomic_put32/' dropin/include/mercury_atomic.h
    broken "another version than the field's" names "HG_VERSION_PATCH is not 1" \
        's/^(#define HG_VERSION_PATCH +)1/\10/' sdk/include/mercury_config.h
}

# Those of one library together: an undone change to it is built with the next one. `compiled` is the
# source with the function that the report is of.
broken_libraries() {
    compiled=sdk/src/na/protocol_info.c broken "a member of a struct of na moved" types "na_protocol_info" \
        '/^    char \*class_name;/{h;d};/^    char \*protocol_name;/{G}' sdk/include/na_types.h
    compiled=sdk/src/na/rma.c broken "an enumerator renumbered" types "NA_CB_PUT" \
        's/X\(NA_CB_PUT\) /X(NA_CB_NEW) &/' sdk/include/na_types.h
    broken "a function that returns another type" types "NA_Plugin_get_abi_version" \
        's/uint32_t (NA_Plugin_get_abi_version)/uint64_t \1/' \
        sdk/include/na_ext.h sdk/src/na/version.c
    broken "a function removed" types "Removed function" \
        's/NA_Version_get\(/NA_Version_ask(/' sdk/include/na.h sdk/src/na/version.c
    broken "a symbol dropped" symbols "dropped: NA_Cleanup@@AMALGAM_NA_1.0" \
        's/^local:/local:\n    NA_Cleanup;/' sdk/na.map
    broken "symbols moved to another version" symbols "dropped: NA_Cleanup@@AMALGAM_NA_1.0" \
        's/AMALGAM_NA_1.0/AMALGAM_NA_1.9/' sdk/na.map
    broken "a function added, and not to the baseline" symbols "added: NA_More@@AMALGAM_NA_1.0" \
        "$addition" sdk/src/na/version.c
    compiled=sdk/src/hg/handle.c broken "a member of a struct of hg moved" types "hg_info" \
        '/^    hg_addr_t addr; +\/\* At/{h;d};/^    hg_id_t id; +\/\* RPC/{G}' \
        sdk/include/mercury_types.h
    compiled=sdk/src/hg/counters.c allowed "a struct that grows, grown" types \
        's/^    uint64_t overflow_bytes; .*/&\n    uint64_t more_count;/' sdk/include/mercury_ext.h
    broken "a symbol of the utilities dropped" symbols "dropped: hg_poll_wait@@AMALGAM_UTIL_1.0" \
        's/^local:/local:\n    hg_poll_wait;/' dropin/util.map
    compiled=dropin/src/poll.c broken "a member of the utilities widened" types "hg_poll_event" \
        's/^    uint32_t events;/    uint64_t events;/' dropin/include/mercury_poll.h
    broken "a member of the utilities moved" layout "offset of hg_log_outlet.state" \
        '/^    enum hg_log_state state;/{h;d};/^    enum hg_log_level level;/{G}' \
        dropin/include/mercury_log.h
}

# What was added is taken into the baseline, what was removed is not.
updates() {
    local file=sdk/src/na/version.c
    change "an addition" "$addition" $file
    build_libraries amalgam-na && cp -a "$unbroken" "$unbroken.added" &&
        cp -a "$build"/lib/libamalgam-na.* "$unbroken.added/" || give_up "an addition cannot be built"
    bash "$tree/abi-tests/update.sh" "$unbroken.added" >"$log" 2>&1 &&
        bash "$tree/abi-tests/check.sh" symbols "$unbroken.added" >>"$log" 2>&1 &&
        bash "$tree/abi-tests/check.sh" types "$unbroken.added" >>"$log" 2>&1 ||
        give_up "an addition does not get into the baseline"
    ! bash "$tree/abi-tests/update.sh" "$unbroken" >"$log" 2>&1 ||
        give_up "a removal gets into the baseline"
    echo "update.sh takes additions, and refuses removals"
}

# Only what the libraries are made of, so that little is built. Debug information says the same
# without optimization.
copy_and_configure() {
    rm -rf "$tree" "$build" "$unbroken" "$unbroken.added" "$later"
    mkdir -p "$tree/plugins" "$tree/packaging" "$later"
    cp -rL --preserve=timestamps "$root"/{CMakeLists.txt,LICENSE,cmake,sdk,dropin,abi-tests} "$tree/"
    cp -rL "$root/packaging/debian" "$tree/packaging/"
    touch "$tree/plugins/CMakeLists.txt"
    freeze_today
    "${CMAKE:-cmake}" -S "$tree" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_BUILD_TYPE=Debug -DAMALGAM_BUILD_TESTS=OFF -DAMALGAM_BUILD_TOOLS=OFF \
        -DAMALGAM_BUILD_MERCURY=ON >"$log" 2>&1 ||
        give_up "the copy cannot be configured"
    build_libraries || give_up "the copy does not build"
    cp -a "$build/lib" "$unbroken"
}

# As if today's minor had been released: until it is, its header may still grow.
freeze_today() {
    local release
    release=$(sed -nE 's/^project\(amalgam VERSION ([0-9]+\.[0-9]+).*/\1/p' "$root/CMakeLists.txt")
    [ -d "$tree/abi-tests/v$release" ] || {
        mkdir "$tree/abi-tests/v$release"
        cp -r "$tree/sdk/include" "$tree/abi-tests/v$release/"
        cp -r "$tree/dropin/include" "$tree/abi-tests/v$release/dropin"
    }
}

# Usage: give_up <why>
give_up() {
    cat "$log"
    fail "$1"
    finish
}

# Nothing is found where nothing is broken, in any library or header, today's or frozen.
intact() {
    local check
    for check in headers layout names symbols types; do
        bash "$tree/abi-tests/check.sh" "$check" "$build/lib" >"$log" 2>&1 ||
            give_up "the copy as it is fails: $check"
    done
}

# Usage: change <what> <sed script> <file>; of the copy, and of nothing that a link leads to. A header keeps
# its time, so that not all that includes it is compiled anew, but $compiled and the sources that change.
change() {
    [ "$(realpath "$tree/$3")" = "$(realpath "$tree")/$3" ] || {
        fail "$tree/$3 is not a file of the copy"
        finish
    }
    sed -E -i "$2" "$tree/$3"
    new_time "$3"
    ! cmp -s "$root/$3" "$tree/$3" || fail "$1: nothing changes in $3"
}

# Usage: broken <what is broken> <check> <pattern of its report> <sed script> <file>...
broken() {
    local what=$1 check=$2 pattern=$3 script=$4 file status=0
    shift 4
    for file in "$@"; do
        change "$what" "$script" "$file"
    done
    rebuild "$check" "$1" || fail "$what: the copy does not build any more, so nothing is shown"
    run_check "$check" "$1" >"$log" 2>&1 || status=$?
    if [ "$status" -eq 1 ] && grep -qE "$pattern" "$log"; then
        printf '%-42s found by %-8s %s\n' "$what" "$check:" "$(grep -E "$pattern" "$log" |
            head -n 1 | sed 's/^ *//; s|.*/tree/||' | cut -c1-100)"
    else
        cat "$log"
        fail "$what: check.sh $check ended with $status, and does not report /$pattern/"
    fi
    undo "$@"
}

# Usage: allowed <what changed> <check> <sed script> <file>
allowed() {
    local what=$1 check=$2 script=$3 file=$4
    change "$what" "$script" "$file"
    rebuild "$check" "$file" &&
        run_check "$check" "$file" >"$log" 2>&1 ||
        give_up "$what: check.sh $check does not allow it"
    [ "$check" != types ] || is_changed "$(library_of "$file")" || fail "$what: no library shows it"
    printf '%-42s allowed by %s\n' "$what" "$check"
    undo "$file"
}

# Usage: is_changed <library>; in its functions and types, whatever is allowed.
is_changed() {
    ! abidiff "$unbroken/lib$1.so" "$build/lib/lib$1.so" >"$log" 2>&1
}

# Usage: undo <file>...; what was compiled is compiled again with the next change to its library.
undo() {
    local file
    for file in "$@"; do
        cp "$root/$file" "$tree/$file"
        new_time "$file"
    done
}

# Usage: new_time <changed file>
new_time() {
    [[ $1 != *.h ]] || touch -r "$root/$1" "$tree/$1"
    [ -z "$compiled" ] || touch "$tree/$compiled"
}

# Usage: run_check <check> <file>; of what the file is in: the rest is as it was when all of it passed.
run_check() {
    case $1 in
    layout) bash "$tree/abi-tests/check.sh" layout today ;;
    symbols | types) bash "$tree/abi-tests/check.sh" "$1" "$build/lib" "$(library_of "$2")" ;;
    *) bash "$tree/abi-tests/check.sh" "$1" ;;
    esac
}

# Usage: rebuild <check> <file>; what the check looks at, and the file is in.
rebuild() {
    case $1 in symbols | types) build_libraries "$(library_of "$2")" ;; esac
}

# Usage: library_of <file>
library_of() {
    case $1 in
    dropin/*) echo amalgam-util ;;
    */mercury*) echo amalgam-hg ;;
    *) echo amalgam-na ;;
    esac
}

# Usage: build_libraries [<library>...]; without one, all.
build_libraries() {
    [ $# -gt 0 ] || set -- amalgam-na amalgam-hg amalgam-util
    "${CMAKE:-cmake}" --build "$build" --target "$@" >"$log" 2>&1 || {
        cat "$log"
        return 1
    }
}

main "$@"
