# SPDX-License-Identifier: BSD-3-Clause
# Says what of an earlier header is not in today's any more; both come without comments:
#     awk -f kept_header.awk <earlier> <today's>
# Members and enumerators stay where they are, and more may follow them; all other declarations and
# the constants stay as they are. What is inline, assertions and the minor itself are left out.

FNR == 1 {
    files++
    text = type = ""
    depth = 0
}

/^#define [A-Za-z0-9_]+ [^ ]/ && $2 != "NA_PLUGIN_ABI_MINOR" { keep($2, constant($0)) }

/^#/ || continued {
    continued = /\\$/
    next
}

/^extern "C" \{$/ { next }

{
    for (i = 1; i <= length($0); i++)
        take(substr($0, i, 1))
    text = text " "
}

END {
    for (n = 1; n <= count; n++) {
        key = keys[n]
        if (!(key in now))
            print "    " key (key == was[key] ? "" : ": " was[key]) " -- is gone"
        else if (now[key] != was[key])
            print "    " key ": " was[key] " -- is now " now[key]
    }
}

# Takes one character. The braces of anything but a type are those of a function.
function take(c) {
    if (c == "{" && depth++ == 0) {
        type = plain(text)
        inline = type !~ /^(typedef )?(struct|union|enum)( |$)/
        members = 0
        text = ""
    } else if (c == "}" && depth == 0) {
        return # of extern "C"
    } else if (c == "}" && --depth == 0) {
        if (inline)
            text = type = ""
        else if (plain(text) != "")
            member()
    } else if (c == (type ~ /enum/ ? "," : ";") && depth == 1 && !inline) {
        member()
    } else if (c == ";" && depth == 0) {
        declaration()
    } else {
        text = text c
    }
}

function member() {
    keep(type ", member " ++members, plain(text))
    text = ""
}

# What follows the braces of a type is its other name.
function declaration() {
    text = plain(type == "" ? text : type " " text)
    if (text !~ /^(static |_Static_assert|NA_PLUGIN_ASSERT)/)
        keep(text, text)
    text = type = ""
}

function keep(key, what) {
    if (files > 1) {
        now[key] = what
    } else {
        keys[++count] = key
        was[key] = what
    }
}

function constant(line) {
    sub(/^#define [^ ]+ /, "", line)
    return plain(line)
}

function plain(what) {
    gsub(/[ \t]+/, " ", what)
    gsub(/\( /, "(", what)
    gsub(/ \)/, ")", what)
    gsub(/^ | $/, "", what)
    return what
}
