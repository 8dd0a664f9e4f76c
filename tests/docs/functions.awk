# SPDX-License-Identifier: BSD-3-Clause
# Public functions whose comment leaves out what a caller has to know: a line each. Run over headers whose comments are of
# Doxygen's form, and over the sources behind them. A comment says
#   - of each parameter what it is, and of a pointer whether it is read or written: \param name [IN], [OUT] or [IN,OUT];
#   - of an object that comes out, by \return or an [OUT], whose it is: what frees it, or who owns it, or how long it is valid;
#   - what is returned; of a status each code that stands in the function's source, or in that of functions of the same file
#     whose status it returns, unless the first comment of the header says when every function returns it;
#   - in what unit times and sizes are, which threads may call it, and since which version it is there.
# A macro with arguments whose comment begins like that of a function says what each argument is, which threads, since when.

BEGIN {
    owner = "(freed?|frees|close[ds]?|destroy(ed|s)?|given back|give back|joined|stopped) (it )?(by|with|to) |own(ed|s)? " \
        "|belongs? to|(caller|program|class|context)'s|constant|static|copied|stays|lives|valid (while|as long|until)" \
        "|as long as|overwrit"
    codes = "(HG|NA)_(SUCCESS|PERMISSION|NOENTRY|INTERRUPT|AGAIN|NOMEM|ACCESS|FAULT|BUSY|EXIST|NODEV|INVALID_ARG" \
        "|PROTOCOL_ERROR|OVERFLOW|MSGSIZE|PROTONOSUPPORT|OPNOTSUPPORTED|ADDRINUSE|ADDRNOTAVAIL|HOSTUNREACH|TIMEOUT" \
        "|CANCELED|IO_ERROR|HOSTFIREWALL|CHECKSUM_ERROR|NA_ERROR|OTHER_ERROR)"
    # These share a function with others, and have no size, tag or name that it would refuse.
    reported["NA_Msg_recv_unexpected", "NA_OVERFLOW"] = reported["NA_Msg_multi_recv_unexpected", "NA_OVERFLOW"] = 1
    reported["NA_Msg_multi_recv_unexpected", "NA_MSGSIZE"] = reported["HG_Register", "HG_EXIST"] = 1
}

FNR == 1 { comment = first = name = ""; in_comment = in_declaration = 0 }

FILENAME ~ /\.c$/ {
    if (match($0, /^[a-z].*[ *][A-Za-z_0-9]+\(/)) {
        name = substr($0, 1, RLENGTH - 1)
        sub(/.*[ *]/, "", name)
        if (!/^static/ && name in header)
            file[name] = FILENAME
        name = FILENAME " " name
    } else if (/^}/) {
        name = ""
    } else if (name != "") {
        note_codes($0)
    }
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
/^#define [A-Za-z_0-9]+\(/ {
    if (comment ~ /^\/\*\*\n/)
        check_macro($0)
    comment = ""
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
    if (result ~ / as /)
        like[name] = result
    if (type !~ / void *$/ && result == "")
        report("what it returns")
    if (type ~ /\*/ && result !~ owner && description !~ owner)
        report("whose it is what it returns")
    is_status[name] = type ~ / (hg|na)_return_t *$/
    if (is_status[name] && result !~ codes "|as (there|[A-Za-z_0-9]+\\(\\))")
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

function check_macro(line,    part, count, i) {
    name = line
    sub(/^#define /, "", name)
    sub(/\(.*/, "", name)
    sub(/^[^(]*\(/, "", line)
    sub(/\).*/, "", line)
    divide(comment)
    macros++
    count = split(line, part, /, */)
    for (i = 1; i <= count; i++)
        if (part[i] != "..." && !(part[i] in meaning))
            report("what " part[i] " is")
    if (last !~ /thread/)
        report("which threads may use it")
    if (last !~ /\\since [0-9]/)
        report("since which version it is there")
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
    if (line ~ /return|ret =/)
        calls[name] = calls[name] " " line
    if (line !~ /return|ret =|[?:]/)
        return
    while (match(line, "(^|[^A-Z_])" codes "($|[^A-Z_])")) {
        code = substr(line, RSTART, RLENGTH)
        gsub(/[^A-Z_]/, "", code)
        line = substr(line, RSTART + RLENGTH - 1)
        if (!((name, code) in place))
            found[name] = found[name] " " code
        place[name, code] = FILENAME ":" FNR
    }
}

# What `name` returns because `inner`, of the same file, does.
function check_codes(name, inner,    key, part, count, i, line, called) {
    key = file[name] " " inner
    if ((name, inner) in visited)
        return
    visited[name, inner] = 1
    count = split(found[key], part, " ")
    for (i = 1; i <= count; i++)
        if (substr(part[i], 1, 2) == toupper(substr(name, 1, 2)) && !says(name, part[i]) && !((name, part[i]) in reported)) {
            reported[name, part[i]] = 1
            print header[name] ": " name " does not say that it returns " part[i] ", as in " place[key, part[i]]
        }
    line = calls[key]
    while (match(line, /[a-z_0-9]+\(/)) {
        called = substr(line, RSTART, RLENGTH - 1)
        line = substr(line, RSTART + RLENGTH)
        if ((file[name] " " called) in found || (file[name] " " called) in calls)
            check_codes(name, called)
    }
}

# What a function returns "as" others do is said there.
function says(name, code,    text, other) {
    if (said[name] ~ code)
        return 1
    text = like[name]
    while (match(text, /[A-Za-z_0-9]+\(\)/)) {
        other = substr(text, RSTART, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
        if (other != name && other in said && says(other, code))
            return 1
    }
    return 0
}

END {
    for (name in file)
        if (is_status[name])
            check_codes(name, name)
    if (functions < least)
        print functions " functions were found; the patterns fit the headers no more"
    if (macros < 3)
        print macros + 0 " macros were found; the patterns fit the headers no more"
}
