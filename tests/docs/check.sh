#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What holds of the documentation without a build; one of
#     functions   public functions say what they return, which threads may call them, since when
#     links       links between files lead somewhere, as do those to headings
#     code        each block of C in docs/ is a part of a file in examples/, as it stands there
#     inside      files, functions and structures that docs/architecture.md names are there, where it says
#     messages    messages that docs/messages.md explains are those of the code
#     words       spelling, and words that the design has others for
set -euo pipefail
cd "$(dirname "$0")/../.."
failures=0
pages=(README.md CONTRIBUTING.md SECURITY.md examples/README.md docs/*.md docs/transports/*.md)

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

functions() {
    local line
    while read -r line; do
        fail "$line"
    done < <(awk -f tests/docs/functions.awk sdk/include/mercury*.h sdk/include/na.h \
        sdk/include/na_ext.h sdk/include/na_mpi.h sdk/include/na_sm.h)
}

# Usage: headings <page>; the names that GitHub gives them.
headings() {
    sed -nE '/^```/,/^```/d; s/^#+ //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}

links() {
    local page target file heading folder
    while IFS=: read -r page target; do
        folder=.
        [[ $page != */* ]] || folder=${page%/*}
        case $target in
        http://* | https://* | mailto:*) continue ;;
        '#'*) file=$page heading=${target#\#} ;;
        *'#'*) file=$folder/${target%%#*} heading=${target#*#} ;;
        *) file=$folder/$target heading= ;;
        esac
        if [ ! -e "$file" ]; then
            fail "$page links to $target, which is not there"
        elif [ -n "$heading" ] && ! headings "$file" | grep -qxF -e "$heading"; then
            fail "$page links to the heading $heading of $file, which it has not"
        fi
    done < <(grep -oHE '\]\([^) ]+\)' "${pages[@]}" docs/decisions/*.md CHANGELOG.md |
        sed -E 's/\]\(([^)]*)\)$/\1/')
}

# Lines are compared without their indentation.
code() {
    local page block
    for page in docs/*.md docs/transports/*.md; do
        while IFS= read -r -d '' block; do
            awk -v block="$block" '
                function plain(text) { gsub(/(^|\n)[ \t]+/, "\n", text); return text }
                BEGIN { RS = "\001"; block = plain("\n" block) }
                index(plain("\n" $0), block) { found = 1 }
                END { exit !found }' examples/*.c examples/*.cpp examples/*.h examples/CMakeLists.txt \
                examples/meson.build ||
                fail "$page: a block is in none of the examples: ${block:0:100}"
        done < <(awk '/^```$/ && in_block { in_block = 0; printf "%s%c", text, 0; next }
            in_block { text = text $0 "\n" }
            /^```(c|cpp|cmake|meson)$/ { in_block = 1; text = "" }' "$page")
    done
}

# Usage: find_inside <file as the page names it>
find_inside() {
    local folder
    for folder in sdk/src sdk .; do
        [ ! -e "$folder/$1" ] || { echo "$folder/$1" && return; }
    done
    return 1
}

# Usage: has_function <name> <file or folder>...; a definition or a macro, and no call. A function that is
# public, or the kit's, may stand anywhere.
has_function() {
    grep -rqE --include='*.[ch]' "^(#define |[A-Za-z][A-Za-z_0-9 ,*]* \\*?|)$1\\(" "${@:2}"
}

# `name()` (`file`: that file has it; `name()` alone: one of them has it. A member is `structure.member`.
inside() {
    local page=docs/architecture.md text name file count=0
    text=$(tr '\n' ' ' <$page)
    while read -r name; do
        file=$(find_inside "$name") || fail "$page names $name, which is not there"
        count=$((count + 1))
    done < <(grep -oE '`[a-z_./]+(/|\.[ch]|\.sh)`' <<<"$text" | tr -d '`' | sort -u)
    while read -r name; do
        has_function "$name" sdk/src sdk/include sdk/kit ||
            fail "$page names $name(), which is not there"
        count=$((count + 1))
    done < <(grep -oE '`[A-Za-z_0-9]+\(\)`' <<<"$text" | tr -d '`()' | grep -vx epoll_wait | sort -u)
    while read -r name file; do
        has_function "$name" "$(find_inside "$file")" || fail "$page says that $name() is in $file"
        count=$((count + 1))
    done < <(grep -oE '`[A-Za-z_0-9]+\(\)` \(`[a-z_/]+\.[ch]`' <<<"$text" | tr -d '`()' | sort -u)
    while read -r name; do
        grep -rqE "^(struct|enum) $name \{" sdk/src || fail "$page names struct $name, which is not there"
        count=$((count + 1))
    done < <(grep -oE '`(struct |enum )?[a-z_]+(\.[a-z_]+)?`' <<<"$text" | tr -d '`' |
        sed -nE 's/^(struct|enum) ([a-z_]+)$/\2/p; s/^(hg_[a-z_]+)\.([a-z_]+)$/\1/p' | grep -vx h | sort -u)
    while read -r name file; do
        awk -v start="^struct $name [{]" -v member="[ *]$file([[][^;]*)?[;,]" '
            $0 ~ start { inside = 1 } inside && $0 ~ member { found = 1 } /^}/ { inside = 0 }
            END { exit !found }' $(find sdk/src -name '*.h') ||
            fail "$page names $name.$file, which is not there"
        count=$((count + 1))
    done < <(grep -oE '`hg_[a-z_]+\.[a-z_]+`' <<<"$text" | tr -d '`' | grep -vE '\.[ch]$' | tr . ' ' | sort -u)
    [ "$count" -ge 80 ] || fail "$page: $count names were found; the patterns fit it no more"
}

# Strings that the compiler joins are joined.
messages() {
    local message
    while read -r message; do
        fail "docs/messages.md: no code says '$message'"
    done < <(find sdk/src sdk/kit plugins -name '*.c' -exec cat {} + | tr '\n' ' ' |
        sed -E 's/" +"//g' | awk '
        NR == FNR { if (split($0, part, "`") > 2 && /^\| `/) wanted[part[2]]; next }
        { for (message in wanted) if (index($0, message)) delete wanted[message] }
        END { for (message in wanted) print message }' docs/messages.md -)
}

words() {
    local line
    command -v codespell >/dev/null || {
        echo "Skipped: there is no codespell"
        exit 77
    }
    while read -r line; do
        fail "spelling: $line"
    done < <(codespell --ignore-words tests/docs/spelling.txt "${pages[@]}" CHANGELOG.md examples \
        sdk/include docs/decisions || true)
    while read -r line; do
        fail "another word: $line"
    done < <(grep -nwiEf tests/docs/words.txt "${pages[@]}" examples/* || true)
}

"$1"
[ "$failures" -eq 0 ] || exit 1
echo "ok: $1"
