# SPDX-License-Identifier: BSD-3-Clause
# Functions of the plugin ABI whose comment leaves out what their maker has to know: a line each. Run over the frozen header of
# version 1.0, then over those of today. A comment is of all members up to the next empty line, that of a structure of all its
# members. It says
#   - which threads may call the function: [any thread] or [one at a time]; in struct na_plugin, whether it has to be there;
#   - what the function returns: "Returns ...";
#   - of an object that comes out, as result or by a pointer to a pointer, who ends it or how long it lives;
#   - "Since 1.x" where 1.0 had it not; the first comment of a header says it of all of its functions.

BEGIN {
    owner = "ends in|frees|freed by|belongs to|passes to|(caller|core|call)'s|lives|keeps|valid|hands to|stays|is to return"
}

FNR == 1 { comment = first = structure = ""; in_comment = 0; is_old = ++files == 1 }
{ line = $0 }
is_old {
    while (match(line, /\(\*[a-z_0-9]+\)\(/)) {
        old[substr(line, RSTART + 2, RLENGTH - 4)] = 1
        line = substr(line, RSTART + RLENGTH)
    }
    if (match($0, /na_plugin_(log|entry_v1)\(/))
        old[substr($0, RSTART, RLENGTH - 1)] = 1
    next
}

/^ *\/\*/ { comment = ""; in_comment = 1 }
in_comment {
    sub(/^ *(\/\*+|\*+\/?) ?/, "", line)
    comment = comment " " line
    if (/\*\//) {
        in_comment = 0
        if (first == "" && comment !~ /SPDX/)
            first = comment
    }
    next
}
/^$/ { comment = "" }
/^struct [a-z_]+ \{/ { structure = $2; of_structure = comment; comment = "" }
/^\};/ { structure = of_structure = "" }
!in_declaration && (/^(typedef|static|NA_PLUGIN_EXPORT)/ || structure != "") &&
    match($0, /\(\*[a-z_0-9]+\)\(|na_plugin_(log|entry_v1)\(/) {
    declaration = ""
    name = substr($0, RSTART, RLENGTH - 1)
    gsub(/[(*)]/, "", name)
    in_declaration = 1
}
in_declaration {
    declaration = declaration " " $0
    if (/[;{]$/ || /^\{/) {
        in_declaration = 0
        if (!(structure name in seen))
            check()
        seen[structure name] = 1
    }
}

function report(text) {
    print FILENAME ": " name " does not say " text
}

function check(    all, type) {
    functions++
    all = comment " " of_structure
    type = declaration
    sub(/^ *(typedef|static inline|NA_PLUGIN_EXPORT)? */, "", type)
    if (all !~ /\[(any thread|one at a time)\]/)
        report("which threads may call it")
    if (structure == "na_plugin" && comment !~ /\[(mandatory|optional:|with )/)
        report("whether it has to be there")
    if (type !~ /^void [^*]|^void \(/ && all !~ /[Rr]eturns /)
        report("what it returns")
    if ((type ~ /^[a-z_ ]+ \*\(/ || declaration ~ /\*\*/) && all !~ owner)
        report("whose it is what comes out")
    if (!(name in old) && (first all) !~ /[Ss]ince 1\.[1-9]/)
        report("since which version it is there")
}

END {
    if (functions < least)
        print functions " functions were found; the patterns fit the headers of the plugin ABI no more"
}
