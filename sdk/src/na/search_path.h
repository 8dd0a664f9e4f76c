/* SPDX-License-Identifier: BSD-3-Clause */
/* The directories in which plugins are searched. */

#ifndef NA_SEARCH_PATH_H
#define NA_SEARCH_PATH_H

#include "na_types.h"

#define NA_SEARCH_PATH_MAX 64 /* most directories */

struct na_search_path {
    size_t count;
    char *directories[NA_SEARCH_PATH_MAX]; /* resolved by realpath(), or as given if that fails */
    uint32_t core_owner;                   /* user id of the core's file; 0xffffffff: unknown */
};

/*
 * Lists the directories of NA_PLUGIN_PATH, in which `<default>` stands for the built-in directory,
 * and then the built-in directory, each once. A set-user-ID process ignores the variable. The
 * caller frees `path`, also after a failure.
 */
na_return_t na_search_path_get(struct na_search_path *path);

/* Like na_search_path_get(), with the value of the variable as an argument; NULL: not set. */
na_return_t na_search_path_make(struct na_search_path *path, const char *variable);

/* Writes the built-in directory, next to the core's own file. Returns false if it is unknown. */
bool na_search_path_built_in(char *path, size_t size);

void na_search_path_free(struct na_search_path *path);

#endif /* NA_SEARCH_PATH_H */
