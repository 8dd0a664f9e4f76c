#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Draws each docs/pictures/*.dot as an SVG of the same name. The SVGs are committed, so that forges show
# them in pages:
#     scripts/pictures.sh             draws the pictures whose text has changed, installs Graphviz if it is missing
#     scripts/pictures.sh --all       draws all of them anew
#     scripts/pictures.sh --check     fails if an SVG is older than its text, or is drawn with a warning
# An SVG contains checksums of its text and of itself. Versions of Graphviz place the same text differently, so
# --check compares words and shapes with a new drawing; without Graphviz it compares the checksums only.
. "$(dirname "$0")/lib.sh"

pictures=docs/pictures

main() {
    case ${1-} in
    '' | --all) draw_texts "$@" ;;
    --check) check ;;
    *) die "usage: pictures.sh [--all | --check]" ;;
    esac
}

# Usage: draw_texts [--all]
draw_texts() {
    local text
    install_missing pictures
    for text in "$pictures"/*.dot; do
        [ $# -eq 0 ] && is_current "$text" || draw "$text" "${text%.dot}.svg"
    done
}

# Usage: sum_of <text>
sum_of() {
    sha256sum <"$1" | cut -c 1-64
}

# Usage: sums_of <text> <SVG>; prints the checksum line of the SVG. The second sum covers the SVG without this line.
sums_of() {
    echo "<!-- $(basename "$1"), sha256 $(sum_of "$1"), drawn $(grep -v '^<!-- ' "$2" | sha256sum | cut -c 1-64) -->"
}

# Usage: is_current <text>
is_current() {
    local picture=${1%.dot}.svg
    [ -e "$picture" ] && grep -qxF "$(sums_of "$1" "$picture")" "$picture"
}

# Usage: elements <SVG>; prints its words, and the number of each shape and of each colour.
elements() {
    sed -nE 's/^<text .*>(.*)<\/text>$/\1/p' "$1" | sort
    grep -oE '<(polygon|polyline|path|ellipse|g) |(fill|stroke)="#[0-9a-f]+"' "$1" | sort | uniq -c
}

# Usage: draw <text> <SVG>; dies at an error or a warning of Graphviz. Removes the names of nodes, which a
# browser would show as tool tips, and the comments with the version of Graphviz.
draw() {
    local warnings
    warnings=$(mktemp)
    dot -Tsvg "$1" 2>"$warnings" | awk '
        /^<!-- / { in_comment = 1 }
        in_comment { if (/-->/) in_comment = 0; next }
        /^<title>.*<\/title>$/ { next }
        { print }' >"$2.new" || { cat "$warnings" >&2; die "dot cannot draw $1"; }
    [ ! -s "$warnings" ] || { cat "$warnings" >&2; rm -f "$warnings" "$2.new"; die "dot warns of $1"; }
    sed "1a $(sums_of "$1" "$2.new")" "$2.new" >"$2"
    rm -f "$warnings" "$2.new"
}

check() {
    local text picture failed=0
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    for text in "$pictures"/*.dot; do
        is_current "$text" || {
            echo "FAIL: ${text%.dot}.svg is not drawn from $text as it is: scripts/pictures.sh draws it" >&2
            failed=1
        }
        command -v dot >/dev/null || continue
        (draw "$text" "$folder/drawn.svg") || { failed=1; continue; }
        diff <(elements "${text%.dot}.svg") <(elements "$folder/drawn.svg") >&2 || {
            echo "FAIL: ${text%.dot}.svg differs as above from what is drawn of $text" >&2
            failed=1
        }
    done
    # scripts/compare.sh draws the pictures of performance from their data.
    for picture in "$pictures"/*.svg; do
        [[ $picture == */performance-*.svg ]] || [ -e "${picture%.svg}.dot" ] || {
            echo "FAIL: $picture has no text that it is drawn from" >&2
            failed=1
        }
    done
    return $failed
}

main "$@"
