# SPDX-License-Identifier: BSD-3-Clause
# The blocks of code of pages, each a line "PAGE:WHERE: FIRST LINE", in which the byte 1 and the next line follow for each
# further one; WHERE is "sh", "c" and so on for a block fenced by ``` at the margin, and "other" for the rest: other fences, those in
# lists and quotations, indented blocks, <pre>.

FNR == 1 {
    say()
    page = FILENAME
    fence = ""
    base = follows_text = in_code = in_pre = 0
}
{
    line = $0
    gsub(/\t/, "    ", line)
    while (sub(/^ ? ? ?> ?/, "", line))
        ;
    match(line, /^ */)
    indent = RLENGTH
}

fence != "" {
    text = substr(line, indent + 1)
    if (substr(text, 1, length(fence)) == fence && text ~ /^(`+|~+) *$/) {
        fence = ""
        follows_text = 0
        say()
    } else {
        add(text)
    }
    next
}

in_pre {
    add(line)
    in_pre = tolower(line) !~ /<\/pre>/
    next
}
/^[> \t]*$/ { follows_text = 0; next }

# Text goes on until there is an empty line, whatever its indentation is.
indent < base && !follows_text { base = indent }
indent >= base + 4 && !follows_text {
    if (!in_code) {
        begin("other")
        code_base = base
    }
    in_code = 1
    add(substr(line, code_base + 5))
    next
}
{
    say()
    in_code = 0
    text = substr(line, indent + 1)
    offset = indent
    while (match(text, /^([-*+]|[0-9]+[.)]) +/)) {
        base = offset += RLENGTH
        text = substr(text, RLENGTH + 1)
    }
    if (match(text, /^(```+|~~~+)/)) {
        fence = substr(text, 1, RLENGTH)
        kind = substr(text, RLENGTH + 1)
        if (fence != "```" || $0 !~ /^```[a-z]+$/)
            kind = "other"
        begin(kind)
        next
    }
    if (tolower(text) ~ /^<pre/) {
        begin("other")
        add(text)
        in_pre = tolower(text) !~ /<\/pre>/
    }
    follows_text = text !~ /^#/
}

END { say() }

function begin(where) {
    say()
    block = page ":" where ": "
    lines = 0
}

function add(text) {
    block = block (lines++ > 0 ? "\001" : "") text
}

# The block, once all of it is read.
function say() {
    if (block != "")
        print block
    block = ""
}
