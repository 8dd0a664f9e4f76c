/* SPDX-License-Identifier: BSD-3-Clause */
/* Where plugins are looked for. */

#ifndef NA_SEARCH_PATH_H
#define NA_SEARCH_PATH_H

#include "na_types.h"

#define NA_SEARCH_PATH_MAX 64 /* most directories */

struct na_search_path {
    size_t count;
    char
        *directories[NA_SEARCH_PATH_MAX]; /* as given, or without symbolic links where they exist */
    uint32_t core_owner;                  /* user who owns the core's file, 0xffffffff: unknown */
};

/*
 * The directories of NA_PLUGIN_PATH, where `<default>` stands for the built-in place, and then the
 * built-in place; each once. A process that runs with more rights than its user ignores the
 * variable. To be freed, also after failure.
 */
na_return_t na_search_path_get(struct na_search_path *path);

/* The same with a given value of the variable; NULL for none. For na_search_path_get() and
 * tests. */
na_return_t na_search_path_make(struct na_search_path *path, const char *variable);

/* The built-in place: the plugins' folder beside the core's own file. False: it is not known. */
bool na_search_path_built_in(char *path, size_t size);

void na_search_path_free(struct na_search_path *path);

#endif /* NA_SEARCH_PATH_H */
