/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of RPCs, from a file or from the environment. */

#include "common/tool_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/tool_message.h"

static bool key_from_file(struct tool_key *key, const char *path);
static bool key_from_environment(struct tool_key *key, const char *variable);
static bool file_is_private(FILE *file, const char *path);

bool tool_key_read(struct tool_key *key, const char *path, const char *variable)
{
    memset(key, 0, sizeof(*key));
    return path != NULL ? key_from_file(key, path) : key_from_environment(key, variable);
}

/* Reads the first line of a file, which may be a pipe. */
static bool key_from_file(struct tool_key *key, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t size, length;
    bool is_private;

    if (file == NULL) {
        tool_error("--key-file: cannot open '%s': %s", path, strerror(errno));
        return false;
    }
    is_private = file_is_private(file, path);
    size = is_private ? fread(key->text, 1, sizeof(key->text) - 1, file) : 0;
    (void) fclose(file);
    if (!is_private)
        return false;
    length = strcspn(key->text, "\r\n");
    if (length == 0 || length > TOOL_KEY_MAX || (length == strlen(key->text) && length != size)) {
        memset(key, 0, sizeof(*key));
        tool_error("--key-file: the first line of '%s' is no key: 1 to %d bytes without a zero",
                   path, TOOL_KEY_MAX);
        return false;
    }
    key->text[length] = '\0';
    return true;
}

static bool key_from_environment(struct tool_key *key, const char *variable)
{
    const char *text = getenv(variable);

    if (text == NULL)
        return true;
    if (*text == '\0' || strlen(text) > TOOL_KEY_MAX) {
        tool_error("%s is no key: 1 to %d bytes; unset it to use none", variable, TOOL_KEY_MAX);
        return false;
    }
    (void) strcpy(key->text, text);
    return true;
}

static bool file_is_private(FILE *file, const char *path)
{
    struct stat status;

    if (fstat(fileno(file), &status) != 0) {
        tool_error("--key-file: cannot examine '%s': %s", path, strerror(errno));
        return false;
    }
    if (S_ISREG(status.st_mode) && (status.st_mode & 077) != 0) {
        tool_error("--key-file: others can use '%s' (mode %03o): chmod 600 it", path,
                   (unsigned int) status.st_mode & 07777u);
        return false;
    }
    return true;
}
