/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a plugin's file before it is loaded, because loading runs its code. */

#ifndef NA_PLUGIN_FILE_H
#define NA_PLUGIN_FILE_H

#include "na_ext.h"

/*
 * Returns whether only trusted users can change a file and its directory, or false and the reason.
 * Trusted are root, the effective user, and `core_owner`, the owner of the core's file (0xffffffff:
 * none). `path` contains no symbolic links.
 */
bool na_plugin_file_is_safe(const char *path, uint32_t core_owner, char *reason, size_t size);

/* Like na_plugin_file_is_safe(), for a directory of the search path. */
bool na_plugin_directory_is_safe(const char *path, uint32_t core_owner, char *reason, size_t size);

/*
 * Returns whether a file is a complete shared object for this machine, or false and the reason.
 * Some damaged files would crash in dlopen().
 */
bool na_plugin_file_is_loadable(const char *path, char *reason, size_t size);

#endif /* NA_PLUGIN_FILE_H */
