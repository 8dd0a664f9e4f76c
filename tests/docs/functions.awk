# SPDX-License-Identifier: BSD-3-Clause
# Public functions whose comment leaves out what a caller has to know: a line each. Run over headers whose comments are of
# Doxygen's form, and over the sources behind them. A comment says
#   - of each parameter what it is, and of a pointer whether it is read or written: \param name [IN], [OUT] or [IN,OUT];
#   - of an object that comes out, by \return or an [OUT], whose it is: what frees it, or who owns it, or how long it is valid;
#   - what is returned; of a status each code that the function itself has in its source, unless the first comment of the
#     header says when every function returns it;
#   - in what unit times and sizes are, which threads may call it, and since which version it is there.

BEGIN {
    owner = "(freed?|frees|close[ds]?|destroy(ed|s)?|given back|give back|joined|stopped) (it )?(by|with|to) |own(ed|s)? " \
        "|belongs? to|(caller|program|class|context)'s|constant|static|copied|stays|lives|valid (while|as long|until)" \
        "|as long as|overwrit"
    codes = "(HG|NA)_(SUCCESS|PERMISSION|NOENTRY|INTERRUPT|AGAIN|NOMEM|ACCESS|FAULT|BUSY|EXIST|NODEV|INVALID_ARG" \
        "|PROTOCOL_ERROR|OVERFLOW|MSGSIZE|PROTONOSUPPORT|OPNOTSUPPORTED|ADDRINUSE|ADDRNOTAVAIL|HOSTUNREACH|TIMEOUT" \
        "|CANCELED|IO_ERROR|HOSTFIREWALL|CHECKSUM_ERROR|NA_ERROR|OTHER_ERROR)"
}

FNR == 1 { comment = first = name = ""; in_comment = in_declaration = 0 }

FILENAME ~ /\.c$/ {
    if (match($0, /^[a-z].*[ *][A-Za-z_0-9]+\(/)) {
        name = substr($0, 1, RLENGTH - 1)
        sub(/.*[ *]/, "", name)
    }
    if (name in header)
        note_codes($0)
    if (/^}/)
        name = ""
    next
}

/^\/\*/ && (first == "" || /^\/\*\*/) { comment = ""; in_comment = 1 }
in_comment {
    comment = comment $0 "\n"
    in_comment = !/\*\//
    if (!in_comment && first == "" && comment !~ /SPDX[^\n]*\n$/)
        first = comment
    next
}
/^(HG|NA|HG_UTIL)_PUBLIC( |$)|^static (HG_UTIL_|HG_|NA_)?(INLINE|inline) / { declaration = ""; in_declaration = 1 }
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

function report(text) {
    print FILENAME ": " name " does not say " text
}

function check(    type, parameters, count, part, i) {
    gsub(/ (NA|HG|HG_UTIL|HG_LOCK)_(WARN|PRINTF|ATTR|ACQUIRE|RELEASE|TRY|NO)[A-Z_]*(\([^)]*\))?/, "", declaration)
    type = declaration
    sub(/\(.*/, "", type)
    name = type
    sub(/.*[ *]/, "", name)
    if (name in header || comment ~ /\\copydoc/ || name ~ /_inline$/)
        return
    type = substr(type, 1, length(type) - length(name))
    divide(comment)
    header[name] = FILENAME
    functions++
    said[name] = first comment
    if (match(result, /as [A-Za-z_0-9]+\(\)/))
        like[name] = substr(result, RSTART + 3, RLENGTH - 5)
    if (type !~ / void *$/ && result == "")
        report("what it returns")
    if (type ~ /\*/ && result !~ owner && description !~ owner)
        report("whose it is what it returns")
    if (type ~ / (hg|na)_return_t *$/ && result !~ codes "|as (there|[A-Za-z_0-9]+\\(\\))")
        report("which codes it returns")
    if (last !~ /thread/)
        report("which threads may call it")
    if (last !~ /\\since [0-9]/)
        report("since which version it is there")
    parameters = declaration
    sub(/^[^(]*\(/, "", parameters)
    sub(/\)[^)]*$/, "", parameters)
    while (match(parameters, /\(\*[a-z_]*\)\([^)]*\)/)) { # a function: its own parameters do not count
        i = index(substr(parameters, RSTART), ")")
        parameters = substr(parameters, 1, RSTART - 1) "*" substr(parameters, RSTART + 2, i - 3) \
            substr(parameters, RSTART + RLENGTH)
    }
    count = split(parameters, part, ",")
    for (i = 1; i <= count; i++)
        check_parameter(part[i])
}

function check_parameter(text,    word) {
    word = text
    sub(/(\[[A-Z_0-9]*\])?[ \t]*$/, "", word)
    sub(/.*[ *]/, "", word)
    if (word == "void" || word == "...")
        return
    if (!(word in meaning)) {
        report("what " word " is")
        return
    }
    if (text ~ /[*[]/ && direction[word] == "")
        report("whether " word " is [IN] or [OUT]")
    if (text ~ /\*\*|hg_(handle|addr|bulk|proc)_t \*/ && direction[word] == "OUT" && \
        meaning[word] !~ owner && description !~ owner)
        report("whose it is what " word " receives")
    if (meaning[word] ~ /^ *as (in|there|for)/)
        return
    if (word ~ /timeout|_ms$/ && comment !~ /seconds/)
        report("in what unit " word " is")
    if (word ~ /(^|_)(size|length|offset)(_p)?$/ && comment !~ /byte|characters|sizeof/)
        report("in what unit " word " is")
}

# Divides a comment into the description, what is said of each parameter, the result, and the last paragraph.
function divide(text,    lines, count, i, line, current) {
    split("", meaning)
    split("", direction)
    description = result = last = ""
    count = split(text, lines, "\n")
    current = ""
    for (i = 1; i <= count; i++) {
        line = lines[i]
        sub(/^ ?\/?\*+\/?/, "", line)
        if (match(line, /\\param [a-zA-Z_0-9]+/)) {
            current = substr(line, RSTART + 7, RLENGTH - 7)
            meaning[current] = ""
            if (match(line, /\[(IN|OUT|IN,OUT)\] /))
                direction[current] = substr(line, RSTART + 1, RLENGTH - 3)
            line = substr(line, RSTART + RLENGTH)
        } else if (match(line, /\\return +/)) {
            current = "\\return"
            line = substr(line, RSTART + RLENGTH)
        } else if (line ~ /^ *$/) {
            current = ""
            if (i < count - 1)
                last = ""
            continue
        }
        if (current == "\\return")
            result = result " " line
        else if (current != "")
            meaning[current] = meaning[current] " " line
        else
            description = description " " line
        last = last " " line
    }
}

# A code that is compared with is not returned.
function note_codes(line,    code) {
    gsub("[=!]= (" codes ")", "", line)
    sub(/\/\*.*/, "", line)
    if (line !~ /return|ret =|[?:]/)
        return
    while (match(line, "(^|[^A-Z_])" codes "($|[^A-Z_])")) {
        code = substr(line, RSTART, RLENGTH)
        gsub(/[^A-Z_]/, "", code)
        line = substr(line, RSTART + RLENGTH - 1)
        if (substr(code, 1, 2) == toupper(substr(name, 1, 2)) && !says(name, code) && !((name, code) in reported)) {
            reported[name, code] = 1
            print header[name] ": " name " does not say that it returns " code ", as in " FILENAME ":" FNR
        }
    }
}

# What a function returns "as" another one does is said there.
function says(name, code) {
    return said[name] ~ code || like[name] != "" && says(like[name], code)
}

END {
    if (functions < least)
        print functions " functions were found; the patterns fit the headers no more"
}
