#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plugin-template, used as its reader would: copied from an installed prefix, renamed, built against
# that prefix alone, tested by its own tests, installed, and used by hg_perf.
. "$(dirname "$0")/../install/common.sh"
. "$(dirname "$0")/template_common.sh"

dir="$AMALGAM_WORK_DIR/template"
copy="$dir/my-plugin"
export PATH="$AMALGAM_BINDIR:$PATH"
fresh_directory "$dir"

diff -r "$AMALGAM_SOURCE_DIR/plugin-template" "$AMALGAM_DATADIR/plugin-template" ||
    fail "the template that is installed is not the one of the tree"
template_lines "$AMALGAM_SOURCE_DIR/plugin-template/src" 600
cp -r "$AMALGAM_DATADIR/plugin-template" "$copy"
"$copy/rename.sh" Mine >/dev/null 2>&1 && fail "rename.sh takes the name 'Mine'"
# Usage: refuses <name> <part of the reason>; rename.sh refuses the name and prints the reason in
# one line.
refuses() {
    local said
    said=$("$copy/rename.sh" "$1" 2>&1) && fail "rename.sh takes the name $1"
    [[ $said == *"$2"* && $said != *$'\n'* ]] || fail "rename.sh does not say why not $1: $said"
}
for plugin in "$AMALGAM_LIBDIR"/amalgam/abi-*/na_*.so; do
    plugin=$(basename "$plugin" .so)
    refuses "${plugin#na_}" "a plugin of Amalgam's"
done
while read -r name why; do
    refuses "$name" "$why"
done <<'END'
na_plugin the SDK's na_plugin.h
na_plugin_io the SDK's na_plugin.h
na na+sm
pthread the system's headers
so the system's headers
kit the kit
kit_msg the kit
int a word of C
while a word of C
END
"$copy/rename.sh" mine || fail "rename.sh ended with $?"
"$copy/rename.sh" other >/dev/null 2>&1 && fail "rename.sh renames twice"
template_build
template_count_tests 4
[ "$AMALGAM_TESTED_BY_PAGE" = ON ] || template_test # tests/docs runs the page's commands, which include these tests
template_install
template_build_by_hand amalgam-kit
finish "the template"
