# SPDX-License-Identifier: BSD-3-Clause
# Doxygen's input filter for the headers, which are written for people: a comment behind a member
# describes it, one above a group of lines describes each of them, the first one of a file describes
# the file, one above an empty line begins a section, and a list of values in an X macro becomes the
# enumeration that it makes.

# Usage: literal(text); <word> is no tag of HTML.
function literal(text)
{
    gsub(/\\xNN/, "\\\\\\\\xNN", text)
    while (match(text, /<[a-z_]+>/))
        text = substr(text, 1, RSTART - 1) "&lt;" substr(text, RSTART + 1, RLENGTH - 2) "&gt;" \
            substr(text, RSTART + RLENGTH)
    return text
}

function print_comment()
{
    line = literal($0)
    print line
    in_comment = !/\*\//
    sub(/^[ \t]*\/?\*+\/?/, "", line)
    sub(/\*\/.*/, "", line)
    group = group line
    is_first = 1
}

# Usage: group_of(file); of docs/groups.dox.
function group_of(file)
{
    if (file ~ /dropin\/include\//)
        return "dropin"
    sub(/.*\//, "", file)
    return file ~ /^kit_/ ? "kit" : file ~ /^na_plugin/ ? "plugin" : file ~ /^na/ ? "na" : "hg"
}

# A comment at the margin is kept until the line behind it tells whether it begins a section.
function print_kept(lines)
{
    group = kept
    lines = gsub(/\n/, "\n", kept)
    gsub(/^\/\*|\*\/$/, "", group)
    if ($0 ~ /^[ \t]*$/) {
        end_section()
        gsub(/\n[ \t]*\*/, "\n", group)
        gsub(/^[ \t\n]+|[ \t\n]+$|-----*|\n[ \t\n]+$/, "", group)
        lines -= gsub(/\n/, "\n", group)
        printf "/** @name %s%s*/ /** @{ */\n", literal(group), (lines > 0 ? "\n" : " ")
        while (--lines > 0)
            print ""
        in_section = 1
        gsub(/\n/, " ", group)
        section = above = group
        group = ""
    } else {
        gsub(/\n[ \t]*\*?/, " ", group)
        sub(/\/\*/, "/**", kept)
        print literal(kept)
        is_first = 1
    }
    kept = ""
}

function end_section()
{
    if (in_section)
        printf "/** @} */ "
    in_section = 0
}

# Usage: keep_value(line); of an X macro.
function keep_value(line, comment)
{
    if (match(line, /\/\*.*\*\//)) {
        comment = substr(line, RSTART + 2, RLENGTH - 4)
        line = substr(line, 1, RSTART - 1)
    }
    if (match(line, /X\([A-Z_0-9]+\)/))
        values[name] = values[name] substr(line, RSTART + 2, RLENGTH - 3) ", /**< " \
            (comment != "" ? comment : " Number of values ") "*/ "
}

/SPDX-License-Identifier/ { next } # makes up for the line of \file, so that numbers stay

# The body of a function describes nothing.
/^\{/ { in_body = 1 }
in_body { in_body = !/^\}/; in_code = 0; print; next }

# Comments at the margin.
/^\/\*/ && !/^\/\*\*/ && !seen_file {
    seen_file = 1
    sub(/\/\*/, "/** \\file\n *" (/^\/\*$/ ? " \\ingroup " group_of(FILENAME) : ""))
    print_comment()
    next
}
!in_comment && /^\/\*/ && !/^\/\*\*/ { kept = $0; is_kept = !/\*\//; group = ""; next }
is_kept { kept = kept "\n" $0; is_kept = !/\*\//; next }
kept != "" { print_kept() }
/^#ifdef __cplusplus/ { end_section() }

/^#define [A-Z_]+_(VALUES|TYPES)[ \t]*\\$/ { name = $2; values[name] = ""; print ""; next }
name != "" { keep_value($0); if (!/\\$/) name = ""; print ""; next }
/^#define X\(|^#undef X/ { print ""; next }
/^[ \t]+[A-Z_]+_(VALUES|TYPES)$/ { print values[$1]; next }

# Assertions of the layout, and macros that make other macros: lines up to the end.
/^(NA_PLUGIN|HG_PROC_LAYOUT)_ASSERT\(/ { skip_to = ";[ \t]*$" }
/^#[ \t]*define (HG_GEN_|HG_PROC_(TYPE|UPDATE|BYTES|LAYOUT)|NA_PLUGIN_ASSERT)/ { skip_to = "[^\\\\]$" }
skip_to != "" { if ($0 ~ skip_to) skip_to = ""; print ""; next }

# Comments of their own lines.
/^[ \t]*\/\*/ { if (!/\/\*\*/) sub(/\/\*/, "/**"); group = ""; print_comment(); next }
in_comment { print_comment(); next }

/^[ \t]*$/ { if (group != "") above = group; group = "" }
# The plugin's headers have a structure below the name of its extension, and say above it what the
# members are.
FILENAME ~ /na_plugin[a-z_]*.h$/ && group == "" && /^(struct|typedef) .*\{$/ { printf "/** %s */ ", above }
FILENAME ~ /na_plugin[a-z_]*.h$/ && group == "" && /^[# \t].*[a-z]/ { group = " See the text above. " }
# Those of the kit have functions and structures that share the comment above, or that of their section.
FILENAME ~ /kit_[a-z]+\.h$/ && /^(struct .*\{$|[a-z][a-z_0-9 ]*[ *]kit_[a-z_0-9]+\()/ {
    if (group == "" || !is_first)
        printf "/** %s */ ", group != "" ? group : section
    is_first = 0
    in_code = !/[;{]$/
    if (/^struct/)
        group = " See the text above. "
    print
    next
}
/^struct .*\{$|^typedef .*\{$/ { is_first = 0 }
FILENAME ~ /dropin\/include/ && /^struct .*\{$/ { group = " See the text above. " }
in_code { in_code = !/;[ \t]*(\/\*.*)?$/ && !/\{$/; print; next }

# Code with a comment behind it, which may go on in the next lines.
/[;,{)A-Za-z0-9_"][ \t]+\/\*[^*]/ && !/^#[ \t]*(if|else|endif|include)/ {
    sub(/\/\*/, "/**<")
    print literal($0)
    in_comment = !/\*\//
    is_first = 0
    next
}
# Code that shares the comment above with the lines before.
/^#[ \t]*define |^typedef |^[ \t]+[a-z].*[;(,]$/ {
    is_macro = /^#/
    if (!is_first && group != "")
        printf "/** %s */ ", group
    in_code = !is_macro && !/[;{]$/
    is_first = 0
}
{ print }
