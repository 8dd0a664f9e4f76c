#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the site and the manual pages of section 3 in FOLDER, build/docs by default:
#     scripts/docs.sh [FOLDER]
# Doxygen's warnings are errors.
. "$(dirname "$0")/lib.sh"

install_missing docs
export AMALGAM_DOCS_OUTPUT="${1:-build/docs}"
AMALGAM_VERSION=$(sed -nE 's/^project\(amalgam VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
export AMALGAM_VERSION
rm -rf "$AMALGAM_DOCS_OUTPUT"
mkdir -p "$AMALGAM_DOCS_OUTPUT"
doxygen docs/Doxyfile
# Doxygen copies a command that it does not know into the page, without a warning.
! grep -nE '@(section|subpage|ref|code|verbatim)\b' "$AMALGAM_DOCS_OUTPUT"/html/*.html || die "the lines above are left over"
! grep -nE 'ilinebr|&lt;/(td|tt|code)' "$AMALGAM_DOCS_OUTPUT"/html/md_*.html || die "the lines above are tables that Doxygen broke"
# Doxygen does not check links between files of the site either.
(cd "$AMALGAM_DOCS_OUTPUT/html" && ! grep -ohE '(href|src)="[^"#:]+["#]' *.html | cut -d '"' -f 2 | tr -d '#' | sort -u |
    while read -r file; do
        [ -e "$file" ] || echo "$file"
    done | grep .) || die "links of the site lead to the files above, which are not there"

# The site has each public header, in a group.
for header in sdk/include/*.h sdk/kit/*/kit_*.h dropin/include/*.h; do
    page=$(basename "$header" | sed 's/_/__/g; s/\.h$/_8h.html/')
    ! grep -qF "*/${header##*/}" docs/Doxyfile || continue
    grep -qF "\"$page\"" "$AMALGAM_DOCS_OUTPUT"/html/group__*.html || die "the site has $header not in its groups (docs/groups.dox)"
done

# Only the headers of the libraries get manual pages.
doxygen - <<END
$(cat docs/Doxyfile)
INPUT = sdk/include docs/groups.dox
FILE_PATTERNS = *.h *.dox
USE_MDFILE_AS_MAINPAGE =
GENERATE_HTML = NO
GENERATE_MAN = YES
MAN_LINKS = YES
END
# Doxygen also makes pages of structure members, under names that other packages may use.
find "$AMALGAM_DOCS_OUTPUT/man/man3" -type f ! -regex '.*/\(HG\|hg\|NA\|na\|MERCURY\|mercury\)_.*' ! -name 'mercury.h.3' \
    ! -name 'na.h.3' -delete
echo "$AMALGAM_DOCS_OUTPUT/html/index.html, and in $AMALGAM_DOCS_OUTPUT/man/man3" \
    "$(find "$AMALGAM_DOCS_OUTPUT/man/man3" -type f | wc -l) pages"
