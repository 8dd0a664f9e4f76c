#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Holds what is built to what was released:
#     check.sh headers            na_plugin.h, with its extensions, to its frozen copies
#     check.sh layout [today]     every struct and constant of the public headers to their values; the
#                                 frozen headers too, unless today's are asked for
#     check.sh names              the macros, types and inline functions of the drop-in to names.txt
#     check.sh symbols <libdir> [<library>]
#                                 what the libraries export to the baseline and to each release
#     check.sh types <libdir> [<library>]
#                                 the functions and types of the libraries to the baseline
. "$(dirname "$0")/common.sh"

main() {
    case ${1-} in
    headers) check_headers ;;
    layout) check_layout "${2-}" ;;
    names) check_names ;;
    symbols) check_symbols "${@:2}" ;;
    types) check_types "${@:2}" ;;
    *) sed -n 's/^#     //p' "$0" >&2 && exit 2 ;;
    esac
}

# Within one minor the header says the same, comments and blanks apart; a later minor says all that
# the earlier one said, in the same places, and may say more. In which of the headers does not matter.
check_headers() {
    local frozen version
    check_extensions
    version=$(abi_version "$root/sdk/include/na_plugin.h")
    for frozen in "$here"/v*/include/na_plugin.h; do
        if [ "$(abi_version "$frozen")" = "$version" ]; then
            diff -u <(plugin_abi_of "$(dirname "$frozen")") <(plugin_abi_of "$root/sdk/include") ||
                fail "sdk/include/na_plugin.h says $version and is not ${frozen#"$root/"}"
        elif [ "$(abi_version "$frozen" | cut -d. -f1)" != "${version%%.*}" ]; then
            fail "sdk/include/na_plugin.h is of another major than ${frozen#"$root/"}"
        elif awk -f "$here/kept_header.awk" <(plugin_abi_of "$(dirname "$frozen")") \
            <(plugin_abi_of "$root/sdk/include") | grep .; then
            fail "sdk/include/na_plugin.h is no later minor of ${frozen#"$root/"}"
        fi
    done
    finish "plugin ABI $version"
}

# Each header of an extension is one of those that na_plugin.h includes: plugins of this major need no other.
check_extensions() {
    local header
    for header in "$root"/sdk/include/na_plugin_*.h; do
        grep -qxF "#include \"${header##*/}\"" "$root/sdk/include/na_plugin.h" ||
            fail "sdk/include/na_plugin.h does not include ${header##*/}"
    done
}

# Usage: plugin_abi_of <folder of headers>
plugin_abi_of() {
    plugin_abi "$1" | without_comments -
}

# Usage: without_comments <file or ->
without_comments() {
    "$CC" -w -fpreprocessed -dD -E -P -x c "$1" | tr -s ' '
}

# Usage: check_layout <"today" or "">; today's headers and the frozen ones have the same values, as far
# as their minor has them, in C and in C++.
check_layout() {
    local include util source flags
    for include in "$root/sdk/include" "$here"/v*/include; do
        [[ $1 != today || $include == "$root/sdk/include" ]] || continue
        util=${include%/include}/dropin
        [ "$include" != "$root/sdk/include" ] || util=$root/dropin/include
        flags="-fsyntax-only -I$include -I$util -DLAYOUT_MINOR=$(release_minor "$include")"
        for source in "$here"/layout_*.c; do
            [[ $source != */layout_util.c || -d $util ]] || continue # no part of that release
            "$CC" -std=c11 $flags "$source" && "$CXX" -x c++ -std=c++17 $flags "$source" ||
                fail "${include#"$root/"} does not have the layout that ${source##*/} states"
        done
    done
    check_layout_is_complete
    check_values_are_complete
    finish "$(cat "$here"/layout_*.c | grep -cE '^(SIZE|GROWS|AT|VALUE)\(') statements"
}

# Usage: release_minor <folder of headers>; the tree's release is that of the project.
release_minor() {
    local release="${1%/include}"
    release=${release##*/v1.}
    [ "$1" != "$root/sdk/include" ] ||
        release=$(sed -nE 's/^project\(amalgam VERSION [0-9]+\.([0-9]+).*/\1/p' "$root/CMakeLists.txt")
    echo "$release"
}

# Every member of every struct has its statement.
check_layout_is_complete() {
    local header struct members stated
    while read -r header struct members stated; do
        fail "$header: struct $struct has $members members, layout_*.c states $stated"
    done < <(text_of_held_headers | awk '
        !in_headers {
            if (match($0, /^AT\([a-z0-9_]+,/))
                stated[substr($0, 4, RLENGTH - 4)]++
            next
        }
        /^#pragma header / { header = $3 }
        /^(typedef )?struct [a-z0-9_]+ \{$/ { name = $(NF - 1); count = 0 }
        name != "" { count += gsub(/;/, ";") }
        /^\}/ && name != "" {
            if (count - 1 != stated[name] + 0)
                print header, name, count - 1, stated[name] + 0
            name = ""
        }' "$here"/layout_*.c in_headers=1 -)
}

# So has every macro that is a number, and is not a version.
check_values_are_complete() {
    local name
    while read -r name; do
        fail "the constant $name has no VALUE in layout_*.c"
    done < <(comm -23 <(text_of_held_headers |
        sed -nE '/_ATTR_|_(PUBLIC|INITIALIZER)$|_VERSION(_[A-Z]+)? |_ABI_MINOR /d
            s/^#define ([A-Z][A-Z0-9_]*) [-(0-9A-Z]([A-Z0-9_ ()<|*+x-]|[0-9]u)*$/\1/p' | sort -u) \
        <(sed -nE 's/^VALUE\(([A-Z0-9_]+),.*/\1/p' "$here"/layout_*.c | sort -u))
}

# All of them at once, for one run of the compiler: the line "#pragma header <name>" comes before each.
text_of_held_headers() {
    awk 'FNR == 1 { name = FILENAME; sub(/.*\//, "", name); print "#pragma header " name }
        { print }' $(held_headers) | without_comments -
}

# The headers of messages are left out: what travels has a version of its own. Headers that no
# release had are not held to anything yet, but those that na_plugin.h includes.
held_headers() {
    local header
    for header in "$here"/v*/include/*.h "$root"/dropin/include/*.h "$root"/sdk/include/na_plugin_*.h; do
        [[ $header == */dropin/* ]] || header=$root/sdk/include/${header##*/}
        [[ $header == */mercury_header.h || $header == */mercury_core_header.h ]] || echo "$header"
    done | sort -u
}

# What programs compiled against, in C and in C++; the values are the versions that the headers say.
check_names() {
    local flags="-w -fsyntax-only -D_GNU_SOURCE -I$root/sdk/include -I$root/dropin/include"
    names_source | "$CC" -x c -std=c11 $flags - &&
        names_source | "$CXX" -x c++ -std=c++14 $flags - ||
        fail "the headers do not have all that abi-tests/names.txt lists"
    finish "$(grep -v '^#' "$here/names.txt" | awk '{ sum += NF - 2 } END { print sum }') names"
}

# Errors are reported at the line of the list.
names_source() {
    awk -v list="$here/names.txt" '
        function probe(kind, name, side) {
            split(name, side, "=")
            if (kind == "values")
                return "#if " side[1] " != " side[2] "\n#error " side[1] " is not " side[2] "\n#endif"
            if (kind == "macros")
                return "#ifndef " name "\n#error " name " is gone\n#endif"
            if (kind == "types")
                return "extern " name " *type_" name ";"
            return "void (*function_" name ")(void) = (void (*)(void)) &" name ";"
        }
        /^#/ { next }
        { printf "#include \"%s\"\n", $1 }
        { for (i = 3; i <= NF; i++) printf "# %d \"%s\"\n%s\n", FNR, list, probe($2, $i) }' \
        "$here/names.txt"
}

# Usage: check_symbols <libdir> [<library>]
check_symbols() {
    local name file symbols today
    choose_libraries "$@"
    for name in $libraries; do
        file=$(library "$1" "$name")
        today=$(exported "$file")
        for symbols in "$here"/v*/"$name.symbols" "$baseline/$name.symbols"; do
            [[ $symbols != *'*'* ]] || continue # no release had this library
            comm -23 "$symbols" - <<<"$today" | sed 's/^/    dropped: /' | grep . &&
                fail "lib$name.so does not export what ${symbols#"$root/"} lists"
        done
        comm -13 "$baseline/$name.symbols" - <<<"$today" | sed 's/^/    added: /' | grep . &&
            fail "lib$name.so exports more than the baseline; if it is to: scripts/abi.sh update"
    done
    debian_packages check_debian
    finish "$(for name in $libraries; do cat "$baseline/$name.symbols"; done | wc -l) symbols of" \
        "$libraries"
}

# Usage: choose_libraries <libdir> [<library>]; all that are built, or the one that is asked for.
choose_libraries() {
    add_util "$1"
    libraries=${2:-$libraries}
}

# Usage: check_debian <symbols file> <package> <library>...
check_debian() {
    diff -u "$1" <(debian_symbols "${@:2}") ||
        fail "${1#"$root/"} is not the baseline's: scripts/abi.sh update"
}

# Usage: check_types <libdir> [<library>]; what abidiff reports without additions is a break; what only
# additions cause is for update.sh.
check_types() {
    local name file dir
    need_abigail
    choose_libraries "$@"
    dir=$(mktemp -d)
    trap "rm -rf '$dir'" EXIT
    for name in $libraries; do
        file=$(library "$1" "$name")
        "$READELF" -SW "$file" | grep -qF .debug_info ||
            skip "$file has no debug information to read the types from"
        described "$file" "$dir/$name.abi"
        if ! compared --no-added-syms "$baseline/$name.abi" "$dir/$name.abi"; then
            fail "lib$name.so breaks programs that were built with an earlier one: see above"
        elif ! compared "" "$baseline/$name.abi" "$dir/$name.abi"; then
            fail "lib$name.so offers more than the baseline; if it is to: scripts/abi.sh update"
        fi
    done
    finish "functions and types of $libraries"
}

main "$@"
