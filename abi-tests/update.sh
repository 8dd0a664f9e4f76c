#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Takes what was added to the libraries into the baseline, and into the symbols files of the Debian
# packages; refuses when something was removed or changed.
#     update.sh <libdir>
. "$(dirname "$0")/common.sh"

dir=
main() {
    local name
    [ $# -eq 1 ] || { sed -n 's/^#     //p' "$0" >&2 && exit 2; }
    (need_abigail) || exit 1
    add_util "$1"
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    for name in $libraries; do
        describe_and_compare "$name" "$(library "$1" "$name")"
    done
    if [ "$failures" -eq 0 ]; then
        cp "$dir"/*.abi "$dir"/*.symbols "$baseline/"
        debian_packages write_debian
    fi
    finish "baseline and symbols files of $libraries"
}

# Usage: write_debian <symbols file> <package> <library>...
write_debian() {
    debian_symbols "${@:2}" >"$1"
}

# Usage: describe_and_compare <name> <file>
describe_and_compare() {
    described "$2" "$dir/$1.abi"
    exported "$2" >"$dir/$1.symbols"
    [ -f "$baseline/$1.abi" ] || return 0
    compared --no-added-syms "$baseline/$1.abi" "$dir/$1.abi" ||
        fail "lib$1.so removes or changes what the baseline has"
    comm -23 "$baseline/$1.symbols" "$dir/$1.symbols" | sed 's/^/    dropped: /' | grep . &&
        fail "lib$1.so does not export all that the baseline has"
    comm -13 "$baseline/$1.symbols" "$dir/$1.symbols" | sed 's/^/    added: /'
}

main "$@"
