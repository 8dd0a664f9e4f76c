/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of RPCs, which is never given on a command line: all users of a machine can see those. */

#ifndef AMALGAM_TOOL_KEY_H
#define AMALGAM_TOOL_KEY_H

#include <stdbool.h>

#define TOOL_KEY_MAX 256 /* longest key */

struct tool_key {
    char text[TOOL_KEY_MAX + 2]; /* empty: no key */
};

/* Reads the first line of a file, or without a file (NULL) the environment variable. Neither: no
 * key, which is no error. False after an error on stderr. */
bool tool_key_read(struct tool_key *key, const char *path, const char *variable);

#endif /* AMALGAM_TOOL_KEY_H */
