# SPDX-License-Identifier: BSD-3-Clause
# The prose of sources and pages, "file:line: text". A comment, or a paragraph of a page, is one line, so that a phrase may go on in the
# next one; in C each string is prose as well. In a page what stands in backticks and where a link leads is none, nor is the
# table of words that are refused.

# Usage: finish(); a comment that goes on has the number of its first line.
function finish()
{
    gsub(/[ \t]+/, " ", comment)
    if (comment != "")
        print file ":" line ": " comment
    comment = ""
}

function add(text)
{
    if (comment == "") {
        file = FILENAME
        line = FNR
    }
    comment = comment " " text
}

FNR == 1 {
    finish()
    in_comment = is_refused = 0
    is_c = FILENAME ~ /\.(c|cpp|h)$/
    is_page = FILENAME ~ /\.(md|dot)$/
}

is_page {
    is_refused = is_refused || /^## Not this word, but that$/
    gsub(/`[^`]*`|\]\([^)]*\)/, "")
    if (/^[ \t]*($|[-|#*]|[0-9]+\.)/)
        finish()
    if (!is_refused)
        add($0)
    next
}

!is_c {
    if (match($0, /(^|[ \t])#.*/) && !/^#!/)
        add(substr($0, RSTART + 1))
    else
        finish()
    next
}

{
    rest = $0
    if (in_comment)
        sub(/^[ \t]*\*+([^\/]|$)/, "", rest)
    while (rest != "") {
        if (in_comment) {
            end = index(rest, "*/")
            add(end ? substr(rest, 1, end - 1) : rest)
            if (!end)
                break
            finish()
            rest = substr(rest, end + 2)
            in_comment = 0
        } else if (match(rest, /^\/\//)) {
            add(substr(rest, 3))
            break
        } else if (match(rest, /^\/\*/)) {
            finish()
            rest = substr(rest, 3)
            in_comment = 1
        } else if (match(rest, /^"(\\.|[^"\\])*"/)) {
            print FILENAME ":" FNR ": " substr(rest, 1, RLENGTH)
            rest = substr(rest, RLENGTH + 1)
        } else if (match(rest, /^'(\\.|[^'\\])*'/) || match(rest, /^[^"'\/]+/) || match(rest, /^./)) {
            rest = substr(rest, RLENGTH + 1)
        }
    }
    if (!in_comment && $0 !~ /^[ \t]*\/\//)
        finish()
}

END { finish() }
