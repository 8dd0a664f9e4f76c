# SPDX-License-Identifier: BSD-3-Clause
# Public functions whose comment does not say what they return, which threads may call them, since
# which version, what a parameter is, or in what unit a time is: a line each. Run over the public headers.

/^\/\*\*/ { comment = ""; in_comment = 1 }
in_comment { comment = comment $0 "\n"; in_comment = !/\*\//; next }
/^(extern )?(HG|NA|HG_UTIL)_PUBLIC( |$)|^static (HG|NA)?_?(INLINE|inline) / { declaration = ""; in_declaration = 1 }
in_declaration {
    declaration = declaration " " $0
    if (/[;{]$|^\{/) {
        in_declaration = 0
        check()
        comment = ""
    }
    next
}
/^$/ { comment = "" }

function check(name, parameters, count, part, i, word)
{
    gsub(/[A-Z_]+(PRINTF|UNUSED_RESULT)(\([0-9, ]*\))?/, "", declaration)
    name = declaration
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (comment ~ /\\copydoc/ || name ~ /_inline$/)
        return
    if (declaration !~ /(PUBLIC|INLINE|inline) void [a-zA-Z]/ && comment !~ /\\return +[A-Za-z0-9]/)
        print FILENAME ": " name " does not say what it returns"
    if (comment !~ /thread/)
        print FILENAME ": " name " does not say which threads may call it"
    if (comment !~ /\\since [0-9]/)
        print FILENAME ": " name " does not say since which version it is there"
    parameters = declaration
    sub(/^[^(]*\(/, "", parameters)
    sub(/\)[^)]*$/, "", parameters)
    gsub(/\(\*|\)\([^)]*\)|\[[0-9]*\]/, " ", parameters)
    count = split(parameters, part, ",")
    for (i = 1; i <= count; i++) {
        word = part[i]
        sub(/[ \t]+$/, "", word)
        sub(/.*[ *]/, "", word)
        if (word != "void" && word != "..." && comment !~ ("\\\\param " word "[ \n]"))
            print FILENAME ": " name " does not say what " word " is"
        if (word ~ /timeout|_ms$/ && comment !~ /milliseconds|seconds/)
            print FILENAME ": " name " does not say in what unit " word " is"
    }
}
