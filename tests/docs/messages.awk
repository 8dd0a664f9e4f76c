# SPDX-License-Identifier: BSD-3-Clause
# The messages of level error and warning that these sources may write, and the reasons that become a part of one: each a
# line "file:line<tab>text". What the compiler joins is joined; a macro between two strings is "...".
#
# A reason may go any way to the message that it ends in (an argument, a table, a return value), so each string
# of several words is one, unless it is an argument of a call that writes something else (`others` below), or goes on in a
# message that has begun (with a space or a comma).

BEGIN {
    # What is written for information, or for programs; what is compared; help texts; and calls whose argument is the
    # name of a thing or of an action, which one message with its own row puts in.
    split("_Static_assert strstr strcmp sscanf FIRST GROUP GAUGE hg_diag_log FAULT_INFO " \
        "printf fprintf print print_series text_write tool_note check_say check_peer " \
        "hg_handle_is_usable na_class_fork_refused mem_refused mpi_process_dup ofi_failed ucx_failed", names, " ")
    for (i in names)
        others[names[i]] = 1
}

FNR == 1 { finish(); depth = was_directive = is_continued = in_comment = 0; before = "" }
/^}/ { finish(); depth = 0 }

# A directive ends with its line.
was_directive { finish() }
{
    is_directive = is_continued || /^[ \t]*#/
    is_continued = is_directive && /\\$/
    was_directive = is_directive && !is_continued
}

{
    rest = $0
    while (rest != "") {
        if (in_comment) {
            if (!(i = index(rest, "*/")))
                break
            rest = substr(rest, i + 2)
            in_comment = 0
        } else if (match(rest, /^[ \t]+/)) {
            rest = substr(rest, RLENGTH + 1)
        } else if (substr(rest, 1, 2) == "//") {
            break
        } else if (substr(rest, 1, 2) == "/*") {
            rest = substr(rest, 3)
            in_comment = 1
        } else if (match(rest, /^"(\\.|[^"\\])*"/) || match(rest, /^'(\\.|[^'\\])*'/) ||
            match(rest, /^[A-Za-z_][A-Za-z_0-9]*/) || match(rest, /^./)) {
            text = substr(rest, 1, RLENGTH)
            rest = substr(rest, RLENGTH + 1)
            token(text)
        }
    }
}

END { finish() }

function token(text,    first) {
    first = substr(text, 1, 1)
    if (first == "\"") {
        if (!joining) {
            joining = 1
            joined = ""
            place = FILENAME ":" FNR
        }
        joined = joined substr(text, 2, length(text) - 2)
        return
    }
    if (joining && first ~ /[A-Za-z_]/) {
        joined = joined (text ~ /^PRI/ ? "lu" : "...")
        return
    }
    finish()
    if (text == "(") {
        depth++
        call[depth] = before
        formats[depth] = 0
        is_log[depth] = is_log_call(before) || (depth > 1 && is_log[depth - 1])
        if (is_log_call(before)) {
            log_depth = depth
            is_quiet = before ~ /_(INFO|DEBUG)$/
            has_name = before !~ /LOG/
            is_loud = strings = 0
        }
    } else if (text == ")") {
        if (depth == log_depth && is_log[depth])
            flush_log()
        if (depth > 0)
            depth--
    } else if (text == "stderr" && call[depth] == "fprintf") {
        call[depth] = "tool_error"
    } else if (depth > 0 && is_log[depth] && text ~ /LOG_(LEVEL_)?(ERROR|WARNING)$/) {
        is_loud = 1
    } else if (depth > 0 && is_log[depth] && text ~ /LOG_(LEVEL_)?(INFO|DEBUG)$/) {
        is_quiet = 1
    }
    before = first ~ /[A-Za-z_]/ ? text : ""
}

function is_log_call(name) {
    return name ~ /^[A-Z_]*LOG(_[A-Z]+)?$/ || name == "NA_Log_write" || name == "na_plugin_log"
}

# A string has ended. Those of a call that writes to the log wait until its level is known.
function finish(    i) {
    if (!joining)
        return
    joining = 0
    if (depth > 0 && is_log[depth]) {
        string[++strings] = joined
        string_place[strings] = place
        return
    }
    for (i = 1; i <= depth; i++)
        if (call[i] in others)
            return
    say(place, joined, depth == 0 || call[depth] != "tool_error" || formats[depth]++ > 0)
}

# Strings behind the format are parts of the message, and reasons when they are sentences.
function flush_log(    i) {
    if (!is_quiet || is_loud)
        for (i = 1; i <= strings; i++)
            say(string_place[i], string[i], i == 1 + has_name ? 0 : i == 1 ? 1 : 2)
    strings = log_depth = 0
}

function say(where, text, spaces) {
    if (text ~ /^([ ,;:#(]|\\[nr])/ || text ~ /^NAME\\n/ || text !~ /[a-z][a-z]/ || split(text, words, " ") <= spaces)
        return
    gsub(/\\"/, "\"", text)
    print where "\t" text
}
