#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What holds of the documentation without a build:
#     check.sh CHECK [FOLDER]
#     check.sh list             prints the names of all checks
# FOLDER has the pages as they are installed; without it they are those of the tree. CHECK is one of
#     functions   public functions, those of the plugin ABI and those of the kit say what a caller has to know
#     links       links between files lead somewhere, as do those to headings; docs/README.md has one to each page
#     beginnings  a page begins with a paragraph of what it is for
#     code        each block of C, C++, CMake and Meson in a page is a part of a file in examples/, as it stands there; and each
#                 of these files has a page that shows a part of it and links to it
#     blocks      each block of commands runs in a test, or tests/docs/not_run.txt says why not
#     inside      files, functions, structures, macros and tests that docs/architecture.md names are there, where it says; who
#                 writes and reads members of a handle
#     pictures    pictures are drawn from their text, are shown by a page, and name what is there
#     decisions   docs/decisions has an index, and each decision its parts
#     versions    the release has one number, also where packages say it; docs/upgrading.md has those of what travels
#     messages    docs/messages.md has a row for each message of level error and warning, and none for others; those that
#                 docs/upgrading.md quotes are there
#     errors      docs/errors.md has a row for each code of the public headers, and none for others
#     options     variables of the environment, options of init strings and of tools, and counters are in a page, and no others
#     defaults    defaults and other numbers that pages name are those of the code, by the rows of tests/docs/defaults.txt
#     performance tables and pictures of docs/performance.md are those that its data give
#     words       spelling, words that docs/glossary.md has others for, in pages and in the prose of sources, and its terms
set -euo pipefail
cd "${2:-$(dirname "$0")/../..}"
failures=0
checks="functions links beginnings code blocks inside pictures decisions versions messages errors options defaults performance words"
fences='c|cpp|cmake|meson' # kinds of blocks that are parts of examples
pages=(README.md CONTRIBUTING.md SECURITY.md examples/README.md docs/*.md docs/transports/*.md)

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

# Usage: is_line_of <line> <lines>
is_line_of() {
    [[ $'\n'$2$'\n' == *$'\n'"$1"$'\n'* ]]
}

functions() {
    local line
    while read -r line; do
        fail "$line"
    done < <(
        awk -v least=400 -f tests/docs/functions.awk sdk/include/mercury*.h sdk/include/na.h sdk/include/na_ext.h \
            sdk/include/na_mpi.h sdk/include/na_sm.h dropin/include/*.h $(find sdk/src -name '*.c')
        awk -v least=65 -f tests/docs/plugin_functions.awk abi-tests/v1.0/include/na_plugin.h sdk/include/na_plugin*.h
        awk -v least=250 -f tests/docs/kit_functions.awk sdk/kit/*/kit_*.h
    )
}

# Each block that is neither a part of an example, which `code` looks after, nor run by commands.sh, from the page on, has a
# line in not_run.txt, "PAGE SUM: FIRST LINE", below a comment that says why. SUM is the cksum of its lines.
blocks() {
    local page kind run skipped entry sum heads known
    run=$(sed -nE 's/^foreach\(page (.*)\)$/\1/p' tests/docs/CMakeLists.txt)
    heads=$(while IFS= read -r entry; do
        page=${entry%%:*} entry=${entry#*:}
        kind=${entry%%:*} entry=${entry#*: }
        [[ " $run " == *" $page "* ]] && skipped="|$fences|sh|" || skipped="|$fences|"
        [[ $skipped != *"|$kind|"* ]] || continue
        read -r sum _ < <(cksum <<<"$entry")
        entry=${entry%%$'\x01'*}
        echo "$page $sum: ${entry#"${entry%%[! ]*}"}"
    done < <(awk -f tests/docs/blocks.awk $(every_page)))
    known=$(grep -vE '^(#|$)' tests/docs/not_run.txt)
    [ "$(wc -l <<<"$heads")" -ge 30 ] || fail "$(wc -l <<<"$heads") blocks were found; blocks.awk fits the pages no more"
    missing "not run, and not in tests/docs/not_run.txt with these lines:" "$heads" "$known"
    missing "tests/docs/not_run.txt: no page has this block any more, with these lines:" "$known" "$heads"
    commands_in_text
}

# Of the commands that a page names, in a sentence or in a block: modes of hg_perf, targets that are built, stages of the container
# file, and scripts with the first word for them.
commands_in_text() {
    local text modes targets name word count=0
    text=$(cat $(every_page))
    modes=$(sed -nE '/ mode_names\[/,/^\}/p' tools/hg_perf/perf_options.c | grep -oE '"[a-z]+"' | tr -d '"')
    targets=$(sed -nE 's/^ *add_(custom_target|executable|library)\(([A-Za-z_0-9-]+).*/\2/p' CMakeLists.txt sdk/CMakeLists.txt \
        examples/CMakeLists.txt plugin-template/CMakeLists.txt plugin-template/raw/CMakeLists.txt
        sed -nE 's/^foreach\(name (.*)\)$/\1/p' examples/CMakeLists.txt | tr ' ' '\n')
    while read -r name; do
        is_line_of "$name" "$modes" || fail "a page has hg_perf $name, which is no mode of it"
        count=$((count + 1))
    done < <(grep -oE '(^|[` /])hg_perf [a-z]+' <<<"$text" | sed 's/.* //')
    while read -r name; do
        is_line_of "$name" "$targets" || fail "a page builds the target $name, which is in no CMakeLists.txt"
        count=$((count + 1))
    done < <(grep -oE 'cmake --build [^`|&;]*--target [A-Za-z_0-9-]+' <<<"$text" | sed 's/.* //')
    while read -r name; do
        grep -qE "^FROM .* AS $name\$" packaging/container/Containerfile ||
            fail "a page builds the stage $name, which packaging/container/Containerfile has not"
        count=$((count + 1))
    done < <(grep -oE 'podman build [^`|&;]*--target [a-z_]+' <<<"$text" | sed -E 's/.*--target //')
    while read -r name word; do
        if [ ! -e "$name" ]; then
            fail "a page has $name, which is not there"
        elif [ -n "$word" ]; then
            grep -qwF -e "$word" "$name" || fail "a page has $name $word, and $name does not take $word"
        fi
        count=$((count + 1))
    done < <(grep -oE '(^|[` ])scripts/[a-z_]+\.sh( [a-z][a-z-]*\b)?' <<<"$text" | sed -E 's/^[` ]//')
    [ "$count" -ge 40 ] || fail "$count commands were found; the patterns fit the pages no more"
}

every_page() {
    find . \( -path ./build -o -path ./.git \) -prune -o -name '*.md' -printf '%P\n' | sort
}

# Usage: has_heading <page> <heading>; by the name that GitHub gives it. A page is read once.
declare -A headings=()
has_heading() {
    [ -n "${headings[$1]+read}" ] ||
        headings[$1]=$(sed -nE '/^```/,/^```/d; s/^#+ //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-')
    is_line_of "$2" "${headings[$1]}"
}

# Usage: link_targets <page>...; "page:target" of each link outside of code: [x](target), also with a title, and [x]: target.
link_targets() {
    awk '
        FNR == 1 { fenced = 0 }
        /^ *```/ { fenced = !fenced; next }
        fenced || /^    / { next }
        {
            gsub(/`[^`]*`/, "`")
            if (match($0, /^ ? ? ?\[[^]]+\]:[ \t]+[^ \t]+/)) {
                sub(/^ *\[[^]]+\]:[ \t]+/, "")
                sub(/[ \t].*/, "")
                print FILENAME ":" $0
            }
            while (match($0, /\]\([^) \t]+([ \t]+("[^"]*"|\047[^\047]*\047))?[ \t]*\)/)) {
                target = substr($0, RSTART + 2, RLENGTH - 3)
                $0 = substr($0, RSTART + RLENGTH)
                sub(/[ \t].*/, "", target)
                print FILENAME ":" target
            }
        }' "$@"
}

# Usage: undefined_references <page>...; "page:name" of each [text][name] and [name][] outside of code without a [name]: in the page.
undefined_references() {
    awk '
        function report(n) {
            for (n = 1; n <= count; n++)
                if (!(tolower(names[n]) in defined))
                    print page ":" names[n]
            count = 0
            split("", defined)
        }
        FNR == 1 { report(); page = FILENAME; fenced = 0 }
        match($0, /^\[[^]]+\]:/) { defined[tolower(substr($0, 2, RLENGTH - 3))] }
        /^ *```/ { fenced = !fenced; next }
        fenced || /^    / { next }
        {
            gsub(/`[^`]*`/, "`")
            while (match($0, /\[[^][]+\]\[[^][]*\]/)) {
                split(substr($0, RSTART + 1, RLENGTH - 2), part, /\]\[/)
                names[++count] = part[2] == "" ? part[1] : part[2]
                $0 = substr($0, RSTART + RLENGTH)
            }
        }
        END { report() }' "$@"
}

links() {
    local page target file heading folder all listed count=0
    readarray -t all < <(every_page)
    for page in "${pages[@]}"; do
        [ -e "$page" ] || fail "there is no $page"
    done
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
        elif [ -n "$heading" ] && ! has_heading "$file" "$heading"; then
            fail "$page links to the heading $heading of $file, which it has not"
        fi
        count=$((count + 1))
    done < <(link_targets "${all[@]}")
    [ ! -d sdk ] || [ "$count" -ge 250 ] || fail "$count links were found; the patterns fit the pages no more"
    while IFS=: read -r page target; do
        fail "$page links to [$target], and does not say where that is"
    done < <(undefined_references "${all[@]}")
    listed=$(grep -oE '\]\([^)#]+' docs/README.md | cut -c 3- || true)
    for page in docs/[a-z]*.md docs/transports/*.md docs/decisions/README.md; do
        is_line_of "${page#docs/}" "$listed" || fail "docs/README.md, the list for each reader, does not have $page"
    done
    [ -d sdk ] || return 0
    while IFS=: read -r file target; do
        [ -e "$target" ] || fail "$file names $target, which is not there"
    done < <(sources | xargs grep -oHE '\bdocs/[A-Za-z0-9_./-]+\.md\b' | sort -u)
}

# Before a list, a table, a block, a picture or another heading.
beginnings() {
    local page
    for page in "${pages[@]}" docs/decisions/README.md CHANGELOG.md; do
        awk 'NR == 1 { ok = /^# ./ } NR == 2 { ok = ok && $0 == "" } NR == 3 { exit } END { exit !(ok && /^[^-|`#! \t0-9]/) }' "$page" ||
            fail "$page does not begin with a paragraph that says what it is for"
    done
}

# Lines are compared without their indentation. A block that several files have shows none of them. The first block of the
# README is a program of its own, which commands.sh compiles.
code() {
    local page block files shown=
    for page in $(every_page); do
        while IFS= read -r -d '' block; do
            files=$(with_block "$block" examples/*.c examples/*.cpp examples/*.h examples/CMakeLists.txt examples/meson.build)
            [ -n "$files" ] || fail "$page: a block is in none of the examples: ${block:0:100}"
            ! grep -qF "/$files)" "$page" || shown+=" $files"
        done < <(awk -v kinds="$fences" -v skip="$([ "$page" != README.md ] || echo 1)" '
            /^```$/ && in_block { in_block = 0; if (!skip) printf "%s%c", text, 0; skip = 0; next }
            in_block { text = text $0 "\n" }
            $0 ~ "^```(" kinds ")$" { in_block = 1; text = "" }' "$page")
    done
    for page in examples/*; do
        [[ $page == *.md || " $shown " == *" $page "* ]] || fail "no page of docs/ shows a part of $page and links to it"
    done
    release_of_examples
}

# The release that the examples ask for is the first that has all that they call.
release_of_examples() {
    local since asked
    since=$(awk '
        FNR == 1 || /^$/ { release = "" }
        match($0, /\\since [0-9.]*[0-9]/) { release = substr($0, RSTART + 7, RLENGTH - 7) }
        release != "" && match($0, /^(#define |[A-Za-z].*[ *])?[A-Za-z_0-9]+\(/) {
            name = substr($0, 1, RLENGTH - 1)
            sub(/.*[ *]/, "", name)
            print release, name
            release = ""
        }' sdk/include/*.h)
    [ "$(wc -l <<<"$since")" -ge 250 ] || fail "$(wc -l <<<"$since") functions were found; the pattern fits the headers no more"
    since=$(grep -wFf <(grep -ohE '\b[A-Za-z_0-9]+\(' examples/*.c examples/*.cpp examples/*.h | tr -d '(' | sort -u) \
        <<<"$since" | cut -d ' ' -f 1 | sort -V | tail -n 1)
    asked=$(sed -nE 's/^find_package\(amalgam ([0-9.]+) .*/\1/p' examples/CMakeLists.txt
        sed -nE "s/^amalgam = dependency\('amalgam-hg', version: '>=([0-9.]+)'\)/\1/p" examples/meson.build)
    [ "$asked" = "$since"$'\n'"$since" ] ||
        fail "examples call functions that are there since $since; CMakeLists.txt and meson.build there ask for ${asked/$'\n'/ and }"
}

# Usage: with_block <block> <file>...; prints the files that have it, a line each.
with_block() {
    awk -v block="$1" '
        function plain(text) { gsub(/(^|\n)[ \t]+/, "\n", text); return text }
        BEGIN { RS = "\001"; block = plain("\n" block) }
        index(plain("\n" $0), block) { print FILENAME }' "${@:2}"
}

# Usage: find_inside <file as the page names it>
find_inside() {
    local folder
    for folder in sdk/src sdk . sdk/include sdk/kit; do
        [ ! -e "$folder/$1" ] || { echo "$folder/$1" && return; }
    done
    return 1
}

# The files that define a function or a macro, by its name, and whether there is a "structure.member".
declare -A functions_in=() members_of=()
read_sources() {
    local name
    for name in $(grep -roE --include='*.[ch]' '^(#define |[A-Za-z][A-Za-z_0-9 ,*]* \*?|)[A-Za-z_0-9]+\(' sdk plugins tools \
        dropin examples tests | sed -E 's/:.*[ *]/:/; s/\($//' | sort -u); do
        functions_in[${name#*:}]+=" ${name%:*} "
    done
    for name in $(find sdk/src sdk/include -name '*.[ch]' -print0 | xargs -0 awk '
        match($0, /^struct [A-Za-z_0-9]+ [{]/) { name = substr($0, 8, RLENGTH - 9) }
        name != "" {
            text = $0
            while (match(text, /[ *][A-Za-z_0-9]+([[][^;]*)?[;,]/)) {
                text = substr(text, RSTART + 1)
                match(text, /^[A-Za-z_0-9]+/)
                print name "." substr(text, 1, RLENGTH)
                text = substr(text, RLENGTH + 1)
            }
        }
        /^}/ { name = "" }' | sort -u); do
        members_of[$name]=1
    done
}

# Usage: has_function <name> <file or folder>...; a definition or a macro, and no call. A function that is
# public, or the kit's, may stand anywhere.
has_function() {
    local place
    for place in "${@:2}"; do
        [[ -z $place || ${functions_in[$1]-} != *" ${place#./}"[\ /]* ]] || return 0
    done
    return 1
}

# Usage: has_member <structure> <member>
has_member() {
    [ -n "${members_of[$1.$2]-}" ]
}

# The next three look at what a page or a picture names, a line each, and raise count of the caller.
# Usage: names_functions <page> <file or folder>...; "name"
names_functions() {
    local name
    while read -r name; do
        has_function "$name" "${@:2}" || fail "$1 names $name(), which is not there"
        count=$((count + 1))
    done
}

# Usage: names_places <page>; "name file"
names_places() {
    local name file
    while read -r name file; do
        has_function "$name" "$(find_inside "$file")" || fail "$1 says that $name() is in $file"
        count=$((count + 1))
    done
}

# Usage: names_members <page>; "structure member"
names_members() {
    local name member
    while read -r name member; do
        has_member "$name" "$member" || fail "$1 names $name.$member, which is not there"
        count=$((count + 1))
    done
}

# `name()` (`file`: that file has it; `name()` alone: one of them has it. A member is `structure.member`.
inside() {
    local page=docs/architecture.md text name structures constants count=0
    text=$(tr '\n' ' ' <$page)
    read_sources
    structures=$(grep -rhoE '^(struct|enum) [a-z_]+ \{' sdk/src | cut -d ' ' -f 2)
    constants=$(grep -rhowE '(HG|NA|KIT)_[A-Z_]+' sdk/src sdk/include sdk/kit | sort -u)
    while read -r name; do
        find_inside "$name" >/dev/null || fail "$page names $name, which is not there"
        count=$((count + 1))
    done < <(grep -oE '`[a-z_./]+(/|\.[ch]|\.sh)`' <<<"$text" | tr -d '`' | sort -u)
    names_functions $page sdk/src sdk/include sdk/kit plugins tools < <(grep -oE '`[A-Za-z_0-9]+\(\)`' <<<"$text" |
        tr -d '`()' | grep -vxE 'epoll_wait|fork' | sort -u)
    names_places $page < <(grep -oE '`[A-Za-z_0-9]+\(\)` \(`[a-z_/]+\.[ch]`' <<<"$text" | tr -d '`()' | sort -u)
    while read -r name; do
        is_line_of "$name" "$structures" || fail "$page names struct $name, which is not there"
        count=$((count + 1))
    done < <(grep -oE '`(struct |enum )?[a-z_]+(\.[a-z_]+)?`' <<<"$text" | tr -d '`' |
        sed -nE 's/^(struct|enum) ([a-z_]+)$/\2/p; s/^(hg_[a-z_]+)\.([a-z_]+)$/\1/p' | grep -vx h | sort -u)
    names_members $page < <(grep -oE '`[hn][ga]_[a-z_]+\.[a-z_]+`' <<<"$text" | tr -d '`' | grep -vE '\.[ch]$' | tr . ' ' | sort -u)
    while read -r name; do
        is_line_of "$name" "$constants" || fail "$page names $name, which is not there"
        count=$((count + 1))
    done < <(grep -oE '`(HG|NA|KIT)_[A-Z_]+`' <<<"$text" | tr -d '`' | sort -u)
    while read -r name; do
        grep -rqw --include=CMakeLists.txt "$name" tests || fail "$page names the test $name, which is not there"
        count=$((count + 1))
    done < <(grep -oE '\btest `[a-z_]+`' <<<"$text" | tr -d '`' | cut -d ' ' -f 2 | sort -u)
    [ "$count" -ge 150 ] || fail "$page: $count names were found; the patterns fit it no more"
    members "$page"
}

# Usage: modules; the files of hg/ in a list, without their ends, each once.
modules() {
    sed -E 's|.*/||; s|\.[ch]$||' | sort -u | paste -sd ' '
}

# Usage: members <page>; its list of a handle's members, "- `name`, ...: written by a, b; read by c.", is as the code is. A
# handle is known by the name of the variable. What more there is to say of a row stands in brackets.
members() {
    local owner='\b(handle|origin|target|awaiting|other|hello)->' name writers readers write found count=0
    while IFS=: read -r name writers readers; do
        has_member hg_handle "$name" || fail "$1 has a row for hg_handle.$name, which is not there"
        write="(atomic_(store|exchange|compare_exchange)[a-z_]*\(&([a-z]+->)?$owner$name\b|$owner$name \|?= )"
        found=$(grep -lE "$write" sdk/src/hg/*.[ch] | modules)
        [ "$writers" = "$found" ] || fail "$1 says that $writers write hg_handle.$name; it is $found"
        found=$(sed -snE "s/$write//g; /$owner$name\b/F" sdk/src/hg/*.[ch] | modules)
        [ "$readers" = "most modules" ] || [ "$readers" = "$found" ] ||
            fail "$1 says that $readers read hg_handle.$name; it is $found"
        count=$((count + 1))
    done < <(sed -nE '/^Beside the state a handle has/,/^#/p' "$1" | tr '\n' ' ' | sed -E 's/ - `/\n- `/g' | tr -s ' ' |
        sed -nE 's/^- `([a-z_]+)`.*: written by ([a-z, ]+); read by ([a-z, ]+[a-z]).*/\1:\2:\3/p' | tr -d ,)
    [ "$count" -ge 10 ] || fail "$1: $count members were found; the pattern fits its list no more"
}

# In a picture name() (file) and structure.member are what they are in the page above. Lines end with \n or \l.
pictures() {
    local text words file picture count=0
    scripts/pictures.sh --check || fail "pictures are not as they should be"
    read_sources
    for text in docs/pictures/*.dot; do
        words=$(sed -E 's|^ *//.*||; s/\\[nl]/ /g' "$text")
        names_functions "$text" sdk/src sdk/include sdk/kit plugins \
            < <(grep -oE '[A-Za-z_0-9]+\(\)' <<<"$words" | tr -d '()' | sort -u)
        names_places "$text" < <(grep -oE '[A-Za-z_0-9]+\(\) +\([a-z_/]+/[a-z_]+\.[ch]\)' <<<"$words" | tr -d '()' | sort -u)
        while read -r file; do
            find_inside "$file" >/dev/null || fail "$text names $file, which is not there"
        done < <(grep -oE '[a-z_]+(/[a-z_]+)*(\.[ch]|/)([^A-Za-z_>/]|$)' <<<"$words" | grep -oE '^[a-z_/]+(\.[ch]|/)?' |
            sort -u)
        names_members "$text" < <(grep -oE '\b[hn][ga]_[a-z_]+\.[a-z_]+' <<<"$words" | grep -vE '\.(h|c|so)$' | tr . ' ' | sort -u)
        picture=${text%.dot}.svg
        grep -qwF "$picture" docs/Doxyfile || fail "docs/Doxyfile does not bring $picture to the site"
        grep -qE "!\[[^]]{30,}\]\(([a-z/]+/)?pictures/${picture##*/}\)$" "${pages[@]}" ||
            fail "no page shows $picture in a line of its own, with words for those who do not see it"
    done
    [ "$count" -ge 60 ] || fail "$count names were found in pictures; the patterns fit them no more"
}

# A decision is one question, the choice, and what was rejected; the index has a line for each.
decisions() {
    local index=docs/decisions/README.md line
    while IFS= read -r line; do
        fail "$line"
    done < <(awk -v index_page=$index '
        function report(n, numbers, row, name) {
            if (page == "")
                return
            name = page
            sub(/.*\//, "", name)
            if (sprintf("%04d", number) != substr(name, 1, 4))
                print page " does not begin with its number"
            row = "[" number "](" name ")"
            if (status[row] !~ /^(in force|replaced by [0-9]+( and [0-9]+)*|in force, but for .* [0-9]+)$/)
                print index_page " does not say what " page " asks, and whether it is in force"
            n = split(status[row], numbers, /[^0-9]+/)
            for (; n > 0; n--)
                if (numbers[n] != "" && !(numbers[n] in indexed))
                    print index_page ": " page " is replaced by " numbers[n] ", which is not there"
            for (n = 1; n <= split("Question Choice Rejected", part, " "); n++)
                if (parts[part[n]] != 1)
                    print page " has not one part \047" part[n] "\047"
            count++
        }
        FILENAME == index_page {
            if (match($0, /^\| \[[0-9]+\]/)) {
                rows++
                if (substr($0, RLENGTH + 1, 1) == "(")
                    indexed[substr($0, 4, RLENGTH - 4)]
                if (split($0, cell, "|") == 5 && cell[5] == "" && length(cell[3]) >= 12)
                    status[substr(cell[2], 2, length(cell[2]) - 2)] = substr(cell[4], 2, length(cell[4]) - 2)
            }
            next
        }
        FNR == 1 {
            report()
            page = FILENAME
            number = match($0, /^# [0-9]+\. /) ? substr($0, 3, RLENGTH - 4) : ""
            split("", parts)
        }
        match($0, /^(\*\*)?(Question|Choice|Rejected)([.:]|\*\*,)/) {
            name = substr($0, 1, RLENGTH)
            gsub(/[^A-Za-z]/, "", name)
            parts[name]++
        }
        END {
            report()
            if (count != rows)
                print index_page " has other lines than one for each decision"
        }' $index docs/decisions/[0-9]*.md)
    [ -z "$(ls docs/decisions | cut -c 1-4 | sort | uniq -d)" ] || fail "two decisions have the same number"
}

versions() {
    local release deb rpm header spec
    release=$(sed -nE 's/^project\(amalgam VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
    deb=$(sed -nE '1s/^amalgam \(([0-9.]+)-[0-9]+\) .*/\1/p' packaging/debian/changelog)
    rpm=$(sed -nE 's/^Version: +([0-9.]+)$/\1/p' packaging/rpm/amalgam.spec)
    [ -n "$release" ] || fail "CMakeLists.txt has no version"
    [ "$deb" = "$release" ] || fail "the release is $release, and packaging/debian/changelog begins with $deb"
    [ "$rpm" = "$release" ] || fail "the release is $release, and packaging/rpm/amalgam.spec says $rpm"
    grep -qE "^\* .* - ${release//./\\.}-[0-9]+$" packaging/rpm/amalgam.spec ||
        fail "%changelog of packaging/rpm/amalgam.spec does not have $release"
    header=$(sed -nE 's/^## ([0-9.]+)( \((unreleased|[0-9]{4}-[0-9]{2}-[0-9]{2})\))?$/\1/p' CHANGELOG.md | paste -sd ' ')
    spec=$(sed -nE 's/^amalgam \(([0-9.]+)-[0-9]+\) .*/\1/p' packaging/debian/changelog | uniq | paste -sd ' ')
    [ "$header" = "$spec" ] || fail "CHANGELOG.md has sections of $header, and packaging/debian/changelog of $spec"
    [ "$(grep -c '^## ' CHANGELOG.md)" = "$(wc -w <<<"$header")" ] ||
        fail "CHANGELOG.md has a section that is none of a release, 'X.Y.Z (unreleased)' or with a date"
    header=$(sed -nE 's/^#define NA_PLUGIN_ABI_M(AJ|IN)OR ([0-9]+)u?.*/\2/p' sdk/include/na_plugin.h | paste -sd.)
    spec=$(sed -nE 's/^%global abi_m(aj|in)or ([0-9]+)$/\2/p' packaging/rpm/amalgam.spec | paste -sd.)
    [ "$header" = "$spec" ] || fail "the plugin ABI is $header, and packaging/rpm/amalgam.spec says $spec"
    for spec in plugins/*/plugin.c; do
        grep -qF ".version = \"$release\"" "$spec" || fail "the release is $release, and $spec says another one"
    done
    for spec in packaging/kubernetes/*.yaml packaging/container/Containerfile docs/packages.md; do
        ! grep -oE '(image:|-t) amalgam(:[0-9.]+)?( |$)' "$spec" | grep -vE ":${release//./\\.} ?\$" ||
            fail "the release is $release, and $spec names another image"
    done
    versions_of_what_travels
}

# A row of docs/upgrading.md ends with the number that the sources have, for each format in the row of docs/releasing.md.
versions_of_what_travels() {
    local name number defined count=0
    while read -r name; do
        number=$(sed -nE "s/^\| .*\(\`$name\`\) \|.* \| ([0-9]+) \|\$/\1/p" docs/upgrading.md)
        defined=$(grep -rhE "^#define $name " sdk plugins | awk '{ sub(/u$/, "", $3); print $3 }')
        [ "$((defined))" = "$number" ] || fail "docs/upgrading.md does not say that $name is $defined"
        count=$((count + 1))
    done < <(grep '^| what travels |' docs/releasing.md | grep -oE '`[A-Z_]+_VERSION`' | tr -d '`')
    [ "$count" -ge 7 ] || fail "docs/releasing.md does not list the versions of what travels"
}

# The messages of these sources, and reasons that become a part of one, "file:line<tab>text" each. What a check of
# na_conformance says, in a file of its own, is its report: the promise stands beside it. Of scripts one is installed.
collect_messages() {
    find sdk/src sdk/kit plugins tools dropin/src -name '*.[ch]' ! -path 'tools/na_conformance/check*.c' -print | sort |
        xargs awk -f tests/docs/messages.awk
    sed -nE 's/.*\bdie "(.*)".*/plugin-template\/rename.sh\t\1/p' plugin-template/rename.sh
}

# A message has a row when it contains a text in backticks of the row's first cell; a row has to say something in each cell,
# and is the only one of some message, so that none can get lost. A section whose heading names a folder in backticks, such as
# `sm`, is of the messages of that folder alone. Strings in not_messages.txt are none, or parts of messages that have a row.
messages() {
    local collected complaints line
    collected=$(collect_messages)
    [ "$(wc -l <<<"$collected")" -ge 1200 ] ||
        fail "$(wc -l <<<"$collected") messages were found; messages.awk fits the sources no more"
    complaints=$(awk -F '\t' -v page=docs/messages.md -v others=tests/docs/not_messages.txt '
        BEGIN {
            while ((getline line < others) > 0)
                is_other[line] = 1
            while ((getline line < page) > 0) {
                number++
                if (line ~ /^## /)
                    folder = split(line, part, "`") > 2 ? part[2] "/" : ""
                if (line !~ /^\| *`/)
                    continue
                if (split(line, cell, "|") != 5 || cell[3] !~ /[a-z]/ || cell[4] !~ /[a-z]/)
                    print page ":" number ": this is no row of three cells"
                if (cell[2] ~ /%/)
                    print page ":" number ": a line of the log has no conversion such as %s"
                for (i = 2; i <= split(cell[2], part, "`"); i += 2) {
                    text[++texts] = part[i]
                    place[texts] = page ":" number
                    of[texts] = folder
                    row[texts] = number
                }
            }
        }
        $2 in is_other { is_other[$2] = 2; next }
        {
            rows = last = 0
            for (i = 1; i <= texts; i++)
                if (index($2, text[i]) && index($1, of[i])) {
                    used[i] = 1
                    rows += row[i] != last
                    last = row[i]
                }
            if (rows == 1)
                is_needed[last] = 1
            if (rows == 0)
                print $1 ": no row of " page " explains: " $2
        }
        END {
            for (i = 1; i <= texts; i++)
                if (!used[i])
                    print place[i] ": no message says: " text[i]
                else if (!is_needed[row[i]])
                    print place[i] ": other rows explain these messages as well: " text[i]
            for (line in is_other)
                if (is_other[line] == 1)
                    print others ": no source has this: " line
        }' <<<"$collected")
    while read -r line; do
        fail "$line"
    done < <(grep . <<<"$complaints" || true)
    while read -r line; do
        grep -qF -e "$line" <<<"$collected" || fail "docs/upgrading.md quotes '$line', which no message says"
    done < <(sed -nE '/^\| over \|/,/^$/p' docs/upgrading.md | cut -d '|' -f 3 | grep -oE '`[^`]+`' | tr -d '`')
}

# The first cell of a row names its codes. A code of NA has that of HG with its name.
errors() {
    local codes rows
    codes=$(sed -nE '/^#define HG_RETURN_VALUES/,/RETURN_MAX/s/^ *X\((HG_[A-Z_]+)\).*/\1/p' sdk/include/mercury_core_types.h
        sed -nE '/^#define NA_RETURN_VALUES/,/RETURN_MAX/s/^ *X\(NA_([A-Z_]+)\).*/HG_\1/p' sdk/include/na_types.h)
    codes=$(grep -vxE 'HG_(SUCCESS|RETURN_MAX)' <<<"$codes")
    [ "$(wc -l <<<"$codes")" -ge 48 ] || fail "$(wc -l <<<"$codes") codes were found; the patterns fit the headers no more"
    rows=$(sed -nE 's/^(\| `[A-Z][^|]*) \|.*/\1/p' docs/errors.md | grep -oE '`[A-Z_]+`' | tr -d '`')
    missing "docs/errors.md has no row for" "$codes" "$rows"
    missing "docs/errors.md has a row for a code that is not there:" "$rows" "$codes"
    grep -qF 'what is said of `HG_BUSY` holds of `NA_BUSY`' docs/errors.md ||
        fail "docs/errors.md does not say where codes of NA are explained"
}

# Usage: missing <what to say> <list> <list>; each line of the first list is one of the second.
missing() {
    local name
    while read -r name; do
        fail "$1 $name"
    done < <(comm -23 <(sort -u <<<"$2") <(sort -u <<<"$3") | grep . || true)
}

# What pages may name although no source does: variables of the libraries below, what is not defined on purpose, and options
# of mpiexec, Slurm, Podman and programs of this tree that are not installed.
libraries='FI_LOG_LEVEL|FI_GETWAIT|FI_CXI_DEFAULT_VNI|FI_VERBS_IFACE|UCX_LOG_LEVEL|[HN][GA]_HAS_DEBUG'
programs='allow-run-as-root|build-arg|cap-add|cpu-bind|cpus-per-task|draw|gpu-bind|ipc|isolation|mca|mpi|ntasks-per-socket'
programs+='|oversubscribe|shm-size|window'

# What users may set, and what they may read: each is in a page, and what a page names is there.
options() {
    local sources text found known
    sources=$(find sdk plugins tools dropin -name '*.[ch]')
    text=$(cat "${pages[@]}" plugin-template/README.md | sed -E ':again; /\\$/ { N; s/\\\n/ /; b again }')
    named_variables
    named_options
    named_tool_options
    named_counters
}

# A call of getenv() that has no name in it takes one of a *_VARIABLE, or a macro's. Names of UCX are often without their
# beginning.
named_variables() {
    local macro defined
    found=$(grep -ohE '(getenv|setenv)\("[A-Z_]+"|_VARIABLE +"[A-Z_]+"' $sources | cut -d '"' -f 2
        while read -r macro; do
            defined=$(sed -nE "s/^# *define $macro +\"([A-Z_0-9]+)\".*/\1/p" $sources)
            echo "${defined:-whose name is the macro $macro, which is no string}"
        done < <(grep -ohE '(getenv|setenv)\([A-Z][A-Z0-9_]*\b' $sources | cut -d '(' -f 2 | sort -u))
    known=$(grep -ohE '\b[A-Z]+_[A-Z0-9_]+\b' <<<"$text")
    [ "$(wc -l <<<"$found")" -ge 20 ] || fail "few variables were found; the pattern fits the sources no more"
    missing "no page explains the variable" "$found" "$known"
    missing "a page names what no source does:" \
        "$(grep -E '^(AMALGAM|HG|NA|FI|UCX)_' <<<"$known" | grep -vxE "$libraries")" \
        "$(grep -rohE '\b[A-Z]+_[A-Z0-9_]+' sdk plugins tools dropin cmake CMakeLists.txt
            grep -ohE '"[A-Z_]+"' plugins/ucx/*.c | tr -d '"' | sed 's/^/UCX_/')"
}

# Of init strings.
named_options() {
    found=$(sed -nE 's/.*option(s|_names)\[\] = \{(.*)NULL\};/\2/p' $sources plugin-template/src/*.c | grep -oE '[a-z_]+'
        sed -nE 's/^ *\{"([a-z_]+)", OPTION_.*/\1/p' plugins/fault/options.c)
    [ "$(wc -l <<<"$found")" -ge 11 ] || fail "few options of init strings were found; the pattern fits the sources no more"
    known=$(grep -oE '[`?&][a-z_]+[=`]' <<<"$text" | tr -d '`?&=')
    missing "no page explains the option of an init string" "$found" "$known"
    missing "a page has an option that no init string takes:" \
        "$(grep -oE '[?&][a-z_]+=' <<<"$text" | tr -d '?&=' | grep -vx name)" "$found"
}

# The page of each is the help, which becomes a manual page; but of those between two processes of a tool.
named_tool_options() {
    local tool
    for tool in hg_info hg_perf hg_cp na_conformance; do
        found=$(sed -nE 's/^ *\{"([a-z-]+)", (no|required)_argument.*/--\1/p' tools/$tool/*options.c)
        [ -n "$found" ] || fail "no options of $tool were found; the pattern fits the sources no more"
        known=$(grep -E '^ *"    ' tools/$tool/*options.c | grep -oE -- '--[a-z-]+')
        missing "$tool --help does not explain" "$(grep -vxE -e '--(address-fd|peer-.*)' <<<"$found")" "$known"
        missing "$tool --help explains what it does not take:" "$known" "$found"
        missing "a page has what $tool does not take:" \
            "$(grep -oE "\b$tool\b[^\`|;&)]*" <<<"$text" | grep -oE -- ' --[a-z-]+' | tr -d ' ')" "$found"
    done
    missing "a page names an option that no tool has:" \
        "$(grep -oE '`--[a-z-]+' <<<"$text" | tr -d '`' | grep -vxE -e "--($programs)")" \
        "$(sed -nE 's/^ *\{"([a-z-]+)", (no|required)_argument.*/--\1/p' tools/*/*options.c)"
}

named_counters() {
    found=$(sed -nE '/^struct hg_(diag|ext)_counters/,/^\}/s/^ *uint64_t ([a-z_]+);.*/\1/p' sdk/include/mercury*.h
        sed -nE 's/^ *(FIRST|GROUP|GAUGE)\("([a-z_]+)".*/\2/p' sdk/src/metrics/prometheus.c
        sed -nE 's/^ *\{"(na_[a-z_]+)", .*/\1/p' sdk/src/na/counters.c
        grep -ohE '(\breport\(arg, |\[FAULT_[A-Z_]+\] = )"[a-z_]+"' $sources | sed -E 's/.*"(.*)"/na_<plugin>_\1/')
    [ "$(wc -l <<<"$found")" -ge 90 ] || fail "$(wc -l <<<"$found") counters were found; the patterns fit the sources no more"
    known=$(grep -oE '`[a-z_<>]+`' <<<"$text" | tr -d '`')
    missing "no page explains the counter" "$found" "$known"
    missing "a page names a counter that is not there:" \
        "$(grep -E '_total$|^(rpc|bulk|sm|refused|forward|overflow|req|resp)_.*(_count|_bytes)$|^na_<plugin>_' <<<"$known" |
            grep -v '<name>' | sed -E '/^na_/s/_total$//')" "$found"
}

# A row stands for a sentence and for what it was written from, so that neither changes alone. Settings that plugins make for
# libraries, and public constants that are the default of something, have one.
defaults() {
    local line rows=tests/docs/defaults.txt count=0
    while read -r line; do
        fail "$line"
    done < <(awk -f tests/docs/defaults.awk $rows)
    while read -r line; do
        grep -qF -e ": $line" $rows || fail "no row of $rows says which page has what follows from: $line"
        count=$((count + 1))
    done < <(grep -ohE 'setenv\("[A-Z_]+", "[^"]*", 0\);|context_default\(config, "[A-Z_]+", ["A-Z].*;' plugins/*/*.c
        grep -ohE '^#define [A-Z_]+_DEFAULT .*[0-9].*' sdk/include/*.h | grep -v UINT32_MAX | tr -s ' ')
    [ "$count" -ge 20 ] || fail "$count defaults were found; the patterns fit the sources no more"
}

performance() {
    local folder file line
    command -v python3 >/dev/null || {
        echo "Skipped: there is no python3"
        exit 77
    }
    folder=$(mktemp -d)
    trap "rm -rf '$folder'" EXIT
    scripts/compare.sh --draw "$folder"
    for file in docs/pictures/performance-*.svg "$folder"/performance-*.svg; do
        file=${file##*/}
        cmp -s "$folder/$file" "docs/pictures/$file" ||
            fail "docs/pictures/$file is not what docs/pictures/performance.json gives"
        grep -q "(pictures/$file)" docs/performance.md || fail "docs/performance.md does not show $file"
    done
    while read -r line; do
        fail "docs/performance.md is not what its data give: $line"
    done < <(diff docs/performance.md "$folder/performance.md" | grep '^[<>]')
    [ "$(grep -c '^|' docs/performance.md)" -ge 60 ] || fail "docs/performance.md has lost its tables"
}

# A word in backticks of the table in docs/glossary.md is refused, with the endings of a verb or a plural.
words() {
    local line term refused prose
    command -v codespell >/dev/null || {
        echo "Skipped: there is no codespell"
        exit 77
    }
    while read -r line; do
        fail "spelling: $line"
    done < <(codespell --ignore-words tests/docs/spelling.txt $(every_page) examples sdk plugins \
        plugin-template tools dropin scripts packaging cmake || true)
    refused=$(sed -n '/^## Not this word, but that$/,$p' docs/glossary.md | sed -nE 's/^\| ([^|]*`[^|]*) \|.*/\1/p' |
        grep -oE '`[^`]+`' | tr -d '`' | paste -sd '|')
    [ "$(tr '|' '\n' <<<"$refused" | wc -l)" -ge 20 ] || fail "docs/glossary.md has lost its table of other words"
    prose=$(sources | xargs awk -f tests/docs/prose.awk $(every_page) docs/pictures/*.dot)
    [ "$(wc -l <<<"$prose")" -ge 20000 ] || fail "prose.awk fits the sources no more"
    while read -r line; do
        fail "docs/glossary.md has another word: ${line:0:200}"
    done < <(grep -wiE "($refused)(s|d|ed|ing)?" <<<"$prose" || true)
    while read -r term; do
        grep -rqiwF -e "$term" sdk plugins $(ls docs/*.md | grep -vxF docs/glossary.md) ||
            fail "docs/glossary.md explains '$term', which nothing says any more"
    done < <(sed "/^## Not this word/,\$d" docs/glossary.md | sed -nE 's/^\| ([^|`]+) \| .*/\1/p' |
        sed -E 's/, (of|in|for) .*//; s/, +/\n/g' | grep -vxE 'term|-+')
}

# Usage: sources; prints the files whose comments are prose of ours.
sources() {
    find sdk plugins plugin-template tools examples dropin tests scripts cmake packaging -type f \
        \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.cmake' -o -name CMakeLists.txt \)
}

[ "$1" != list ] || { echo "$checks" && exit; }
[[ " $checks " == *" $1 "* ]] || { echo "there is no check '$1'; there are $checks" >&2 && exit 2; }
"$1"
[ "$failures" -eq 0 ] || exit 1
echo "ok: $1"
