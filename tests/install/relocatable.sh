#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No text file and no run path in the prefix names the build folder or the original prefix.
. "$(dirname "$0")/common.sh"

for place in "$AMALGAM_BUILD_DIR" "$AMALGAM_SOURCE_DIR" "$AMALGAM_WORK_DIR/first"; do
    while read -r file; do
        fail "$file names $place"
    done < <(grep -rIlF -- "$place" "$AMALGAM_PREFIX" || true)
done

while read -r file; do
    while read -r path; do
        case $path in
        '$ORIGIN'*) ;;
        *) fail "$file has the run path $path, which does not begin with \$ORIGIN" ;;
        esac
    done < <("$READELF" -d "$file" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]/\2/p' | tr : '\n')
done < <(find "$AMALGAM_BINDIR" "$AMALGAM_LIBDIR" -type f \( -name '*.so*' -o -perm -u+x \))
finish "the prefix can stand anywhere"
