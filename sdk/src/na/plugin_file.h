/* SPDX-License-Identifier: BSD-3-Clause */
/* What is checked of a plugin's file before it is loaded, because loading runs its code. */

#ifndef NA_PLUGIN_FILE_H
#define NA_PLUGIN_FILE_H

#include "na_ext.h"

/*
 * Whether nobody but its owner can change a file or its directory. Trusted owners are root, the
 * user who runs the process, and whoever owns the core's own file (0xffffffff: nobody).
 * `path` has no symbolic links in it. If not, `reason` says why.
 */
bool na_plugin_file_is_safe(const char *path, uint32_t core_owner, char *reason, size_t size);

/* The same for a directory that plugins are looked for in. */
bool na_plugin_directory_is_safe(const char *path, uint32_t core_owner, char *reason, size_t size);

/*
 * Whether a file is a complete shared object for this machine. The dynamic loader would find out
 * about some of it in the form of a crash. If not, `reason` says why.
 */
bool na_plugin_file_is_loadable(const char *path, char *reason, size_t size);

#endif /* NA_PLUGIN_FILE_H */
