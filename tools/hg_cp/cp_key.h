/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of RPCs, which never is on a command line: all users of a machine see those. */

#ifndef AMALGAM_CP_KEY_H
#define AMALGAM_CP_KEY_H

#include <stdbool.h>

#define CP_KEY_MAX      256 /* longest key */
#define CP_KEY_VARIABLE "HG_CP_KEY"

struct cp_key {
    char text[CP_KEY_MAX + 2]; /* empty: no key */
};

/* Reads the first line of a file, or without a file (NULL) the environment. False: said on stderr.
 * Neither: no key, which is no error. */
bool cp_key_read(struct cp_key *key, const char *path);

#endif /* AMALGAM_CP_KEY_H */
