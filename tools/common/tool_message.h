/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the tools to the person who runs them, and their exit codes. */

#ifndef AMALGAM_TOOL_MESSAGE_H
#define AMALGAM_TOOL_MESSAGE_H

/* Exit codes of every tool. */
enum tool_exit {
    TOOL_EXIT_OK = 0,     /* the tool has done its work */
    TOOL_EXIT_FAILED = 1, /* the work failed, and stderr says why */
    TOOL_EXIT_USAGE = 2   /* the command line was wrong; nothing was done */
};

/* Sets the name that messages begin with; name must live as long as the program. */
void tool_message_set_name(const char *name);

/* The name that messages begin with. */
const char *tool_message_get_name(void);

/* Writes one line to stderr: "<name>: error: <text>". */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes one line to stderr: "<name>: <text>". */
void tool_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* AMALGAM_TOOL_MESSAGE_H */
