# SPDX-License-Identifier: BSD-3-Clause
# Functions of the kit, and those that a plugin gives it in tables, whose comment leaves out what a caller has to know: a
# line each. Run over the kit's public headers. A comment is of all functions up to the next empty line. The first comment
# of a header, or the heading of a section, says under which lock or by which threads its functions are called, and since
# which version they are there. The function's own says
#   - what is returned: of a status NA_PLUGIN_SUCCESS and the others, of a bool what true or false means;
#   - of an object that comes out, as result or by a pointer to a pointer, who ends it or how long it lives;
#   - the unit of a time: the name ends in _ns or _ms, or the comment has it.

BEGIN {
    owner = "ends (in|[*])|frees|freed by|belongs to|passes to|(caller|core|owner|session)'s|lives|keeps" \
        "|valid|stays|constant|points into|NULL: |in the table|until|as long as|takes it"
}

FNR == 1 { comment = first = section = ""; in_comment = in_declaration = 0 }
/^ *\/\*/ && !in_declaration {
    comment = ""
    in_comment = 1
}
in_comment {
    line = $0
    sub(/^ *(\/\*+|\*+\/?) ?/, "", line)
    comment = comment " " line
    if (/\*\//) {
        in_comment = 0
        if (first == "" && comment !~ /SPDX/)
            first = comment
        if (comment ~ /----------/)
            section = comment
    }
    next
}
/^$/ { comment = "" }
!in_declaration && (/^(static inline |extern )?[a-z][a-z_0-9 ]*\**[ *]kit_[a-z_0-9]+\(/ ||
    /^    [a-z][a-z_0-9 ]*\**\(\*[a-z_]+\)\(/) {
    declaration = ""
    in_declaration = 1
}
in_declaration {
    declaration = declaration " " $0
    if (/[;{]$/ || /^\{/) {
        in_declaration = 0
        check()
    }
}

function report(text) {
    print FILENAME ": " name " does not say " text
}

function check(    type) {
    type = declaration
    sub(/\(\*/, "", type) # a member of a table
    sub(/[()].*/, "", type)
    name = type
    sub(/.*[ *]/, "", name)
    if (name in seen) # the definition behind its declaration
        return
    seen[name] = 1
    functions++
    type = substr(type, 1, length(type) - length(name))
    sub(/^ (static inline |extern )?/, "", type)
    if ((section comment) ~ /For the plugin's table, as na_plugin\.h/)
        return
    if (comment ~ /^ *$/) {
        report("anything")
        return
    }
    if ((first section comment) !~ /[^b]lock|thread/)
        report("under which lock or by which threads it is called")
    if ((first comment) !~ /[Ss]ince 1\.[0-9]/)
        report("since which version it is there")
    if (type ~ /^int32_t $/ && comment !~ /NA_PLUGIN_|[Ss]uccess|[Rr]eturns|as [a-z_]+\(\)|ops\.|[Aa] status|-1|Negative/)
        report("which statuses it returns")
    if (type ~ /bool $/ && comment !~ /[Tt]rue|[Ff]alse|[Ww]hether|[Rr]eturns/)
        report("what true means")
    if ((type ~ /\*$/ || declaration ~ /\*\*/) && comment !~ owner)
        report("whose it is what comes out")
    if (declaration ~ /timeout|time|deadline|delay/ && declaration !~ /_(ns|ms)[,) ]/ && comment !~ /seconds|_ns|_ms| ns| ms/)
        report("in what unit times are")
}

END {
    if (functions < least)
        print functions " functions were found; the patterns fit the headers of the kit no more"
}
