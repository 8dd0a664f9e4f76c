# SPDX-License-Identifier: BSD-3-Clause
# Compares the rows of defaults.txt with pages and sources; what it prints is wrong:
#     awk -f defaults.awk defaults.txt
# Line breaks and indentation do not count, nor do the asterisks that a comment's lines begin with.

# Usage: read_file(file); its text in one line, without the blocks of a page, which are examples.
function read_file(file,    line, text, fenced)
{
    if (file in texts)
        return texts[file]
    while ((getline line < file) > 0) {
        if (file ~ /\.md$/ && line ~ /^```/)
            fenced = !fenced
        else if (!fenced)
            text = text " " line_of(file, line)
    }
    close(file)
    gsub(/[ \t]+/, " ", text)
    return texts[file] = text " "
}

function line_of(file, line)
{
    if (file ~ /\.[ch]$/)
        sub(/^[ \t]*\*+ /, "", line)
    return line
}

# Usage: find(text, part, from); where the part stands whole from there on, or 0: 30 is not in 300, 30.5 or 130.
function find(text, part, from,    at, before, after)
{
    while ((at = index(substr(text, from), part)) != 0) {
        at += from - 1
        before = substr(text, at - 2 < 1 ? 1 : at - 2, at < 3 ? at - 1 : 2)
        after = substr(text, at + length(part), 2)
        if (!(part ~ /^[A-Za-z0-9_]/ && before ~ /[A-Za-z0-9_]$|[0-9][.,]$/) &&
            !(part ~ /[A-Za-z0-9_]$/ && after ~ /^[A-Za-z0-9_]|^[.,][0-9]/))
            return at
        from = at + 1
    }
    return 0
}

# Usage: check_quantities(page); each time and each size in it is in the words of a row.
function check_quantities(page,    text, from, at, end, i)
{
    text = read_file(page)
    from = 1
    while (match(substr(text, from), "[^A-Za-z0-9.,](" quantity ")[^A-Za-z0-9]")) {
        at = from + RSTART
        end = at + RLENGTH - 3
        quantities++
        for (i = 1; i <= spans[page]; i++)
            if (first[page, i] <= at && last[page, i] >= end)
                break
        if (i > spans[page])
            print page " says \"" substr(text, at - 40 < 1 ? 1 : at - 40, end - at + 80) \
                "\", and no row of " table " says what that follows from"
        from = end + 1
    }
}

BEGIN {
    count = "[0-9][0-9.,]*|two|three|four|five|six|eight|ten|twenty"
    quantity = "[0-9][0-9.,]* ?(s|[mun]s|[KMGT]i?B|bytes)|(" count "|[Hh]alf a|a (fifth|tenth) of a) (milli|micro)?seconds?" \
        "|(" count "|an?|half an?) (minutes?|hours?)"
}
FNR == 1 { table = FILENAME }
/^(#|$)/ { next }
{
    if (!match($0, /^[^ ]+: .+ => .+$/) || split($0, half, / => /) != 2) {
        print table ":" FNR ": this is no row PAGE: WORDS => FILE: TEXT"
        next
    }
    page = half[1]
    sub(/: .*/, "", page)
    words = substr(half[1], length(page) + 3)
    text = read_file(page)
    for (at = 0; (at = find(text, words, at + 1)) != 0;) {
        spans[page]++
        first[page, spans[page]] = at
        last[page, spans[page]] = at + length(words) - 1
        found[FNR] = 1
    }
    if (!found[FNR])
        print page " does not say any more: " words " (" table ":" FNR ")"
    rows++
    if (half[2] ~ /^(measured|fixed|below)$/)
        next
    source = half[2]
    sub(/: .*/, "", source)
    text = substr(half[2], length(source) + 3)
    compared++
    if (find(read_file(source), text, 1) == 0)
        print page " says \"" words "\" because of what " source " has not any more: " text " (" table ":" FNR ")"
}
END {
    for (page in spans)
        if (page ~ /\.md$/)
            check_quantities(page)
    if (compared < 100 || quantities < 60)
        print compared " rows were compared and " quantities " times and sizes found; defaults.awk fits the pages no more"
}
