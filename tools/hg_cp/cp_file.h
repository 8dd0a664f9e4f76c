/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination file of a copy: it is written under a temporary name in its directory, and
 * renamed when it is complete. The name comes from the other process and is not trusted. A
 * temporary file is locked while its owner lives, so that those of killed processes are
 * recognized. */

#ifndef AMALGAM_CP_FILE_H
#define AMALGAM_CP_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp_file {
    int dir_fd; /* the directory, not owned */
    int fd;     /* -1: closed */
    char name[NAME_MAX + 1];
    char temporary_name[64];
};

/* Checks the name, and that an existing file may be overwritten, then creates the temporary file.
 * False: text says why, and nothing was created. */
bool cp_file_create(struct cp_file *file, int dir_fd, const char *name, uint64_t size,
                    bool overwrite, char *text, size_t text_size);

/* Writes a block; false: text says why. */
bool cp_file_write(const struct cp_file *file, const void *block, uint64_t size, uint64_t offset,
                   char *text, size_t text_size);

/* Gives the file its mode and name. False: text says why, and the file is removed. */
bool cp_file_publish(struct cp_file *file, uint32_t mode, bool overwrite, bool sync, char *text,
                     size_t text_size);

/* Removes the temporary files of dead processes in a directory; returns their number. */
unsigned int cp_file_remove_stale(int dir_fd);

/* Removes the temporary file; allowed after any function above. */
void cp_file_discard(struct cp_file *file);

/* True if the name stays within its directory; otherwise text says what is wrong. */
bool cp_file_name_valid(const char *name, char *text, size_t text_size);

#endif /* AMALGAM_CP_FILE_H */
