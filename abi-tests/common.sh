# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder: where things are, and what the libraries export.

set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
baseline="$here/baseline"
libraries="amalgam-na amalgam-hg" # and amalgam-util, see add_util
CC=${CC:-cc} CXX=${CXX:-c++} NM=${NM:-nm} READELF=${READELF:-readelf}
failures=0

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    failures=$((failures + 1))
}

# Usage: skip <why>; the test is reported as skipped.
skip() {
    printf 'left out: %s\n' "$*"
    exit 77
}

finish() {
    [ "$failures" -eq 0 ] || {
        printf '%d failure(s); docs/abi-policy.md says what is promised and what to do\n' \
            "$failures" >&2
        exit 1
    }
    printf 'ok: %s\n' "$*"
}

need_abigail() {
    command -v abidw >/dev/null && command -v abidiff >/dev/null ||
        skip "abidw and abidiff are not installed (Debian's package abigail-tools)"
}

# Usage: abi_version <na_plugin.h>
abi_version() {
    sed -nE 's/^#define NA_PLUGIN_ABI_(MAJOR|MINOR) +([0-9]+)u$/\2/p' "$1" | paste -sd.
}

# Usage: plugin_abi <folder of headers>; na_plugin.h with the headers that it includes where they are included,
# which is what a plugin sees.
plugin_abi() {
    awk -v dir="$1" '
        /^#include "na_plugin.h"$/ { next }
        FILENAME ~ /\/na_plugin.h$/ && /^#include "na_plugin_[a-z_]+\.h"$/ {
            split($0, part, "\"")
            while ((status = getline line <(dir "/" part[2])) > 0)
                if (line != "#include \"na_plugin.h\"")
                    print line
            if (status < 0)
                exit 1
            next
        }
        { print }' "$1/na_plugin.h"
}

# Usage: library <folder> <name>
library() {
    [ -f "$1/lib$2.so" ] || {
        printf '%s/lib%s.so is not there\n' "$1" "$2" >&2
        exit 1
    }
    printf '%s/lib%s.so' "$1" "$2"
}

# Usage: add_util <folder>; the utilities are among the libraries where they are built.
add_util() {
    [ ! -f "$1/libamalgam-util.so" ] || libraries+=" amalgam-util"
}

# Usage: exported <file>; prints <name>@@<version>, sorted. Version nodes are no symbols.
exported() {
    "$NM" -D --defined-only "$1" | awk '$2 != "A" { print $NF }' | sort
}

# Usage: described <file> <output>; what the library offers, as abigail's XML. Nothing in it is of
# this machine or this tree; what the public headers do not show is opaque.
described() {
    local headers=sdk/include
    [[ $2 != *amalgam-util* ]] || headers=dropin/include
    abidw --headers-dir "$root/$headers" --drop-private-types --exported-interfaces-only \
        --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names \
        --no-architecture --no-elf-needed --no-write-default-sizes --type-id-style hash \
        --out-file "$2" "$1"
    sed -i -E "s|( path=')[^']*/((sdk\|dropin)/)|\1\2|
        s|language='LANG_C[0-9]*'|language='LANG_C11'|" "$2"
}

# Usage: compared <option or ""> <old> <new>; abidiff, with what may grow left out.
compared() {
    abidiff ${1:+"$1"} --suppressions "$here/grows.suppr" "$2" "$3"
}

# Usage: debian_packages <function>; calls it with each package's symbols file, its name and what
# it has.
debian_packages() {
    "$1" "$root/packaging/debian/libamalgam1.symbols" libamalgam1 amalgam-na amalgam-hg
    "$1" "$root/packaging/debian/libamalgam-util1.symbols" libamalgam-util1 amalgam-util
}

# Usage: debian_symbols <package> <library>...; the symbols file of the package. The version there
# is that of the release that had the symbol first, which is the number in its version node.
debian_symbols() {
    local package=$1 name symbols
    shift
    for name in "$@"; do
        symbols="$baseline/$name.symbols"
        echo "lib$name.so.1 $package #MINVER#"
        { cat "$symbols" && sed -E 's/.*@@(.*)/\1@@\1/' "$symbols"; } | sort -u |
            sed -E 's/^(.*)@@(.*_([0-9.]+))$/ \1@\2 \3/'
    done
}
