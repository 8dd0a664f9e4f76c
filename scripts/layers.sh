#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Reads the dependencies between source files from the symbols of a build's objects. Fails if a layer uses a
# higher one, or if more than three files of a folder depend on each other in a circle:
#     scripts/layers.sh [-v] [build folder]
# With -v it also prints the files of each circle. Inline functions have no symbols and are not seen.
. "$(dirname "$0")/lib.sh"

main() {
    local verbose=0 build uses
    if [ "${1:-}" = -v ]; then
        verbose=1
        shift
    fi
    build=${1:-build/gcc}
    [ -d "$build/sdk" ] || die "$build is no build folder: configure and build first"
    uses=$(uses_of_files "$build")
    [ -n "$uses" ] || die "$build has no objects that use each other"
    check_layers <<<"$uses"
    check_circles "$verbose" <<<"$uses"
    [ -z "$failures" ] || {
        printf '%s' "$failures"
        exit 1
    }
    echo "no layer uses a higher one, and no circle is larger than it may be"
}

failures=

# Usage: layer <source file>; sets rank: a file may use files of its own rank and of lower ranks.
layer() {
    case $1 in
    sdk/kit/auth/*) rank=0 ;; # the kit and HG are linked with it
    sdk/kit/base/*) rank=1 ;;
    sdk/kit/region/*) rank=2 ;;
    sdk/kit/match/*) rank=3 ;;
    sdk/kit/session/*) rank=4 ;;
    sdk/kit/msg/*) rank=5 ;;
    sdk/kit/rma/*) rank=6 ;;
    sdk/kit/remote/*) rank=7 ;;
    plugins/*) rank=9 ;;
    sdk/src/util/*) rank=10 ;;
    sdk/src/na/*) rank=11 ;;
    sdk/src/engine/*) rank=12 ;;
    sdk/src/bulk/*) rank=13 ;;
    sdk/src/proc/*) rank=14 ;;
    sdk/src/hg/*) rank=15 ;;
    sdk/src/metrics/* | sdk/src/request/*) rank=16 ;;
    tools/*) rank=20 ;;
    *) die "no layer has $1: scripts/layers.sh has the list" ;;
    esac
}

# Usage: uses_of_files <build folder>; prints "user used" for each pair of source files. Ignores
# objects whose source file was deleted.
uses_of_files() {
    find "$1/sdk" "$1/plugins" "$1/tools" -name '*.c.o' | sort |
        xargs nm -A -f posix 2>/dev/null | awk -v build="$1/" '
            # <build>/<folder>/CMakeFiles/<target>.dir/<file>.o, with __ for the folder above
            function source_of(object) {
                sub(/:$/, "", object)
                object = substr(object, length(build) + 1)
                sub(/CMakeFiles\/[^\/]*\.dir\//, "", object)
                gsub(/__\//, "../", object)
                while (sub(/[^\/.]+\/\.\.\//, "", object))
                    ;
                sub(/\.o$/, "", object)
                return object
            }
            BEGIN {
                while (("find sdk plugins tools -name \"*.c\"" | getline file) > 0)
                    is_there[file] = 1
            }
            {
                file = source_of($1)
                if (!(file in is_there))
                    next
                if ($3 == "U")
                    used[file, $2] = 1
                else if ($3 ~ /^[TDBRVWC]$/)
                    owner[$2] = file
            }
            END {
                for (pair in used) {
                    split(pair, part, SUBSEP)
                    if (part[2] in owner && owner[part[2]] != part[1])
                        print part[1], owner[part[2]]
                }
            }' | sort -u
}

check_layers() {
    local user used user_rank
    while read -r user used; do
        layer "$user"
        user_rank=$rank
        layer "$used"
        [ "$rank" -le "$user_rank" ] || failures+="$user uses $used, which is of a layer above"$'\n'
    done
}

# Usage: check_circles <0 or 1>; checks for circles of files in each folder.
check_circles() {
    local folder size files max=3
    while read -r folder size files; do
        printf '%-20s %3d files in a circle, %d may be\n' "$folder" "$size" "$max"
        [ "$1" = 0 ] || printf '    %s\n' "$files"
        [ "$size" -le "$max" ] ||
            failures+="$folder: $size files depend on each other, $max may: $files"$'\n'
    done < <(circles)
}

# Prints "folder size file..." for the largest circle of each folder of the SDK and the plugins.
circles() {
    awk '
        function folder_of(file) {
            sub(/\/[^\/]*$/, "", file)
            return file
        }
        function visit(file, reached,    next_file) {
            reached[file] = 1
            for (next_file in files)
                if (((file, next_file) in uses) && !(next_file in reached))
                    visit(next_file, reached)
        }
        folder_of($1) == folder_of($2) && $1 ~ /^(plugins|sdk)\// {
            uses[$1, $2] = 1
            files[$1] = files[$2] = 1
        }
        END {
            for (file in files) {
                split("", reached)
                visit(file, reached)
                for (other in reached)
                    reaches[file, other] = 1
            }
            for (file in files) {
                size = 0
                names = ""
                for (other in files)
                    if (((file, other) in reaches) && ((other, file) in reaches)) {
                        size++
                        name = other
                        sub(/.*\//, "", name)
                        names = names " " name
                    }
                folder = folder_of(file)
                if (size > largest[folder]) {
                    largest[folder] = size
                    list[folder] = names
                }
            }
            for (folder in largest)
                if (largest[folder] > 1)
                    print folder, largest[folder] list[folder]
        }' | sort
}

main "$@"
