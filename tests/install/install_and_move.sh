#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build tree into a prefix and moves the prefix to another place.
. "$(dirname "$0")/common.sh"

first="$AMALGAM_WORK_DIR/first"
rm -rf "$first" "$AMALGAM_PREFIX"
"$CMAKE" --install "$AMALGAM_BUILD_DIR" --prefix "$first" >"$AMALGAM_WORK_DIR/install.log" ||
    fail "cmake --install failed, see $AMALGAM_WORK_DIR/install.log; is everything built?"
[ ! -d "$first" ] || mv "$first" "$AMALGAM_PREFIX"
finish "$(find "$AMALGAM_PREFIX" -type f | wc -l) files in $AMALGAM_PREFIX"
