#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The tools run from the moved prefix, find its plugins, and have manual pages.
. "$(dirname "$0")/common.sh"

[ -x "$AMALGAM_BINDIR/hg_info" ] || {
    echo "skipped: hg_info is not built (AMALGAM_BUILD_TOOLS)"
    exit 77
}
for tool in "$AMALGAM_BINDIR"/*; do
    "$tool" --help >/dev/null || fail "$tool --help ended with $?"
    page=$(find "$AMALGAM_PREFIX" -path "*/man1/${tool##*/}.1")
    grep -q "^${tool##*/} " "${page:-/dev/null}" || fail "${tool##*/} has no manual page"
done
text=$("$AMALGAM_BINDIR/hg_info" --json) || fail "hg_info --json ended with $?"
found=
while read -r path; do
    [ "$(realpath "$path")" != "$(realpath "$AMALGAM_PLUGINDIR/na_sm.so")" ] || found=yes
done < <(grep -oE '/[^"]*/na_sm\.so' <<<"$text")
[ -n "$found" ] || fail "hg_info does not find $AMALGAM_PLUGINDIR/na_sm.so: $text"
finish "tools"
