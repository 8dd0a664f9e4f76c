# SPDX-License-Identifier: BSD-3-Clause
# The blocks of code of a page, each a line "WHERE: FIRST LINE"; WHERE is "sh", "c" and so on for a block fenced by ``` at the
# margin, and "other" for the rest: other fences, those in lists and quotations, indented blocks, <pre>.

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
    } else if (is_head) {
        print kind ": " text
        is_head = 0
    }
    next
}

/^[> \t]*$/ { follows_text = 0; next }

# Text goes on until there is an empty line, whatever its indentation is.
indent < base && !follows_text { base = indent }
indent >= base + 4 && !follows_text {
    if (!in_code)
        print "other: " substr(line, indent + 1)
    in_code = 1
    next
}
{
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
        is_head = 1
        next
    }
    if (tolower(text) ~ /^<pre/)
        print "other: " text
    follows_text = text !~ /^#/
}
