#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kept inputs of the fuzz targets, one archive for each target: tests/fuzz/corpus/<target>.txt.
#     scripts/corpus.sh list                    the targets, and how many inputs each has
#     scripts/corpus.sh unpack TARGET FOLDER    makes the folder anew with a file for each input; prints their number
#     scripts/corpus.sh add TARGET FILE...      adds inputs to the archive, each once
#     scripts/corpus.sh check NUMBER            checks that each archive is whole, and that all have NUMBER inputs at least
# The first line of an archive says how many inputs follow. Each input is a line, sorted by name: its name, which is
# the SHA-1 of the bytes unless a person chose another one, and the bytes escaped for `printf %b`.
. "$(dirname "$0")/lib.sh"
export LC_ALL=C
shopt -s inherit_errexit

archives=tests/fuzz/corpus

main() {
    local command=${1:-}
    shift || true
    case $command:$# in
    list:0) list ;;
    unpack:2) unpack "$@" ;;
    add:0 | add:1) usage ;;
    add:*) add "$@" ;;
    check:1) check "$1" ;;
    *) usage ;;
    esac
}

usage() {
    sed -n 's/^#     //p' "$0" >&2
    exit 2
}

list() {
    local archive target
    for archive in "$archives"/*.txt; do
        target=$(basename "$archive" .txt)
        printf '%-12s %5d\n' "$target" "$(count_of "$target")"
    done
}

# Usage: archive_of <target>
archive_of() {
    [ -f "$archives/$1.txt" ] || die "there is no archive $archives/$1.txt"
    echo "$archives/$1.txt"
}

# Usage: count_of <target>; dies unless the archive has as many inputs as it says, and at least one.
count_of() {
    local archive said there
    archive=$(archive_of "$1")
    said=$(sed -nE '1s/^# ([0-9]+) inputs$/\1/p' "$archive")
    there=$(sed 1d "$archive" | wc -l)
    [ "${said:-0}" -gt 0 ] || die "the first line of $archive does not say how many inputs there are"
    [ "$said" -eq "$there" ] || die "$archive has $there inputs, and says $said"
    echo "$there"
}

# Usage: unpack <target> <folder>
unpack() {
    local archive count there name bytes
    archive=$(archive_of "$1")
    count=$(count_of "$1")
    [ ! -e "$2" ] || rm -r "$2"
    mkdir -p "$2"
    sed 1d "$archive" | while read -r name bytes; do
        [[ $name =~ ^[A-Za-z0-9_-]+$ && ! -e $2/$name ]] || die "$archive: the name '$name' is bad, or there twice"
        printf %b "$bytes" >"$2/$name"
    done
    there=$(find "$2" -type f | wc -l)
    [ "$there" -eq "$count" ] || die "$archive has $count inputs, and $there came out of it"
    echo "$there"
}

# Usage: line_of <file> <name>
line_of() {
    printf '%s ' "$2"
    od -An -v -tx1 "$1" | awk '
        BEGIN {
            for (code = 33; code < 127; code++)
                if (code != 92) # the backslash
                    shown[sprintf("%02x", code)] = sprintf("%c", code)
        }
        {
            for (i = 1; i <= NF; i++)
                printf "%s", $i in shown ? shown[$i] : "\\x" $i
        }
        END { print "" }'
}

# Usage: lines_of_files <file>...; each under its SHA-1.
lines_of_files() {
    local file sum
    for file in "$@"; do
        [ -s "$file" ] || die "$file is no file, or empty; each target is run with an empty input anyway"
        read -r sum _ < <(sha1sum <"$file")
        line_of "$file" "$sum"
    done
}

# Usage: write <archive>; reads lines from standard input and keeps each input once. A chosen name has precedence
# over a SHA-1.
write() {
    local lines count
    lines=$(awk '!($2 in name) || length(name[$2]) == 40 { name[$2] = $1 }
        END { for (bytes in name) print name[bytes], bytes }' | sort -k 1,1)
    count=$(grep -c . <<<"$lines")
    printf '# %d inputs\n%s\n' "$count" "$lines" >"$1.new"
    mv "$1.new" "$1"
}

# Usage: add <target> <file>...
add() {
    local target=$1 archive=$archives/$1.txt before=0 lines
    shift
    [ -f "tests/fuzz/fuzz_$target.c" ] || die "there is no target '$target'"
    [ ! -f "$archive" ] || before=$(count_of "$target")
    lines=$(lines_of_files "$@")
    {
        [ ! -f "$archive" ] || sed 1d "$archive"
        printf '%s\n' "$lines"
    } | write "$archive"
    echo "$target: $(($(count_of "$target") - before)) of $# added"
}

# Usage: check <least number of inputs in all archives>
check() {
    local archive target total=0 count
    work=$(mktemp -d)
    trap 'rm -r "$work"' EXIT
    for archive in "$archives"/*.txt; do
        target=$(basename "$archive" .txt)
        [ -f "tests/fuzz/fuzz_$target.c" ] || die "$archive is of no target"
        count=$(unpack "$target" "$work/$target")
        (cd "$work/$target" && sha1sum -- *) | awk 'length($2) == 40 && $1 != $2 { print $2; bad = 1 }
            END { exit bad }' || die "$archive: these names are of other bytes"
        sed 1d "$archive" | sort -c -k 1,1 || die "$archive is not in the order of the names"
        total=$((total + count))
    done
    for target in tests/fuzz/fuzz_*.c; do
        target=$(basename "$target" .c)
        [ "$target" = fuzz_setup ] || archive_of "${target#fuzz_}" >/dev/null
    done
    check_line
    echo "$total inputs"
    [ "$total" -ge "$1" ] || die "there were $1"
}

# All 256 bytes survive the way into a line and back, and so does text that looks like an escape.
check_line() {
    local byte name bytes
    for ((byte = 0; byte < 256; byte++)); do
        printf "\\x$(printf %02x $byte)"
    done >"$work/bytes"
    printf '%s' '\x41\n\\' >>"$work/bytes"
    read -r name bytes < <(line_of "$work/bytes" name)
    printf %b "$bytes" | cmp - "$work/bytes" || die "bytes in a line of an archive are others than before"
    [ "$name" = name ] || die "a line of an archive does not begin with its name"
}

main "$@"
