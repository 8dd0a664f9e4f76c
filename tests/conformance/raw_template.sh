#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plugin-template/raw, used as its reader would: copied from an installed prefix, renamed by the
# rename.sh that is installed beside it, built against that prefix alone, tested, installed, and
# used by hg_perf.
. "$(dirname "$0")/../install/common.sh"
. "$(dirname "$0")/template_common.sh"

dir="$AMALGAM_WORK_DIR/raw-template"
copy="$dir/my-plugin"
rename="$AMALGAM_DATADIR/plugin-template/rename.sh"
export PATH="$AMALGAM_BINDIR:$PATH"
fresh_directory "$dir"

template_lines "$AMALGAM_SOURCE_DIR/plugin-template/raw/src" 400
cp -r "$AMALGAM_DATADIR/plugin-template/raw" "$copy"
"$rename" Mine "$copy" >/dev/null 2>&1 && fail "rename.sh takes the name 'Mine'"
"$rename" mine "$copy" || fail "rename.sh ended with $?"
"$rename" other "$copy" >/dev/null 2>&1 && fail "rename.sh renames twice"
template_build
template_count_tests 2
template_test
template_install
template_build_by_hand amalgam-plugin
finish "the raw template"
