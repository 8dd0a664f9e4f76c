# SPDX-License-Identifier: BSD-3-Clause
# Doxygen's input filter for pages: headings get the names that GitHub gives them, behind the page's,
# and links to headings use them; links to programs lead to where the site has them. Pictures
# are as wide as there is room, and decisions are below their index.

function anchor(text)
{
    text = tolower(text)
    gsub(/[^a-z0-9_ -]/, "", text)
    gsub(/ /, "-", text)
    return text
}

FNR == 1 {
    page = FILENAME
    sub(/.*\//, "", page)
    sub(/\.md$/, "", page)
}
/^(```|~~~)/ { fenced = !fenced }
!fenced && /^##+ / {
    heading = $0
    sub(/^#+ /, "", heading)
    gsub(/`/, "") # Doxygen shows its own mark-up of such a word there
    $0 = $0 " {#" page "-" anchor(heading) "}"
}
!fenced {
    gsub(/\]\(#/, "](#" page "-")
    while (match($0, /\]\([^)#:]*\/?[A-Za-z0-9_-]+\.md#/)) {
        target = substr($0, RSTART + 2, RLENGTH - 6)
        sub(/.*\//, "", target)
        $0 = substr($0, 1, RSTART - 1) "](#" target "-" substr($0, RSTART + RLENGTH)
    }
}
# Files of examples/ lie beside the pages of the site.
!fenced {
    while (match($0, /\]\([^)#:]*\/[A-Za-z0-9_-]+\.(c|cpp|h|txt|build|yaml|json)\)/)) {
        target = substr($0, RSTART + 2, RLENGTH - 2)
        sub(/.*\//, "", target)
        $0 = substr($0, 1, RSTART + 1) target substr($0, RSTART + RLENGTH)
    }
}
# Doxygen ends a word in backticks at a quotation mark, but for two of them, and takes what is between two double ones for text.
!fenced && /`[^`]*['"][^`]*`/ {
    count = split($0, part, /`/)
    $0 = part[1]
    for (i = 2; i < count; i += 2) {
        if (part[i] ~ /"/) {
            gsub(/</, "\\&lt;", part[i])
            gsub(/"/, "\\&quot;", part[i])
            part[i] = "<code>" part[i] "</code>"
        } else {
            part[i] = part[i] ~ /'/ ? "``" part[i] "``" : "`" part[i] "`"
        }
        $0 = $0 part[i] part[i + 1]
    }
    if (i == count)
        $0 = $0 "`" part[i]
}
# The tool, and not the structure of that name.
!fenced && !/^    |struct hg_info/ { gsub(/`hg_info/, "`%hg_info"); gsub(/ hg_info/, " %hg_info") }
!fenced && match($0, /^!\[[^]]*\]\([^)]*\.svg\)$/) {
    split(substr($0, 3), part, /\]\(/)
    sub(/.*\//, "", part[2])
    $0 = "<img src=\"" substr(part[2], 1, length(part[2]) - 1) "\" alt=\"" part[1] "\" style=\"max-width: 100%\"/>"
}
FILENAME ~ /decisions\/README\.md$/ && match($0, /^\| \[[0-9]+\]\([^)]*\)/) {
    split(substr($0, 4, RLENGTH - 4), part, /\]\(/)
    gsub(/[-.]/, "_", part[2])
    sub(/_md$/, "", part[2])
    $0 = "| @subpage md_docs_decisions_" part[2] " \"" part[1] "\"" substr($0, RSTART + RLENGTH)
}
{ print }
