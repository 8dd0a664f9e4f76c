/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds plugin files, loads them on demand, and keeps a record of what became of each. */

#ifndef NA_LOADER_H
#define NA_LOADER_H

#include "na/loader_lock.h"
#include "na/transport.h"
#include "util/text.h"

/* What is known of one file. Records live as long as the process; the loader's lock guards them. */
struct na_record {
    struct na_record *next;
    char *name; /* plugin name */
    char *path; /* file in the search path */
    enum na_plugin_stage stage;
    enum na_plugin_code code;
    char *text; /* reason, or NULL */
    uint32_t abi_version;
    void *handle;                   /* of dlopen(), never closed */
    struct na_transport *transport; /* NULL until it is loaded */
    uint64_t inode, ctime_ns, size; /* the file that the result is about */
};

/* Records as NA_Plugin_get_records() gives them, in the order of the search path. */
struct na_record_list {
    struct na_plugin_record *first, **end;
    size_t count;
};

/*
 * Gets the plugin whose file is na_<name>.so, the first in the search path, and loads it if need
 * be. NA_NOENTRY: there is no such file. NA_NODEV: it is there and cannot be loaded, and `why` says
 * why not. NA_NOMEM.
 */
na_return_t na_loader_get(const char *name, const struct na_transport **transport_p,
                          struct text *why);

/*
 * Appends to `why` what became of the first file na_<name>.so in the search path, and does not try
 * it again. NA_NODEV: it is there and was not loaded. NA_SUCCESS: there is nothing to say.
 * NA_NOMEM.
 */
na_return_t na_loader_explain(const char *name, struct text *why);

/*
 * Loads every plugin in the search path, each file after a process of its own survived it.
 * `protocol` is what they are going to be asked for, or NULL. The array, in the order of the
 * search, is to be freed by free(), the transports are not. What could not be loaded is appended
 * to `why`, unless that is NULL.
 */
na_return_t na_loader_get_all(const char *protocol, const struct na_transport ***transports_p,
                              size_t *count_p, struct text *why);

/*
 * Lists the search path: na_*.so of each directory, by name, and directories that cannot be used.
 * NA_LOADER_FOUND is a file to be loaded when it is asked for.
 */
na_return_t na_loader_list(struct na_record_list *list);

/* Appends a record; `text` may be NULL. */
na_return_t na_record_list_add(struct na_record_list *list, const char *name, const char *path,
                               enum na_plugin_code code, const char *text);

/* The first one of a name, or NULL. */
const struct na_plugin_record *na_record_list_find(const struct na_record_list *list,
                                                   const char *name);

/* Frees records that have no info. */
void na_record_list_free(struct na_plugin_record *first);

/* Appends the directories of the search path. */
void na_loader_append_places(struct text *text);

/* Records that a plugin was asked for and that there is none of that name. */
void na_loader_record_missing(const char *name, const struct text *why);

/* The record of a file, or NULL if nothing has asked for it yet. Locked. */
const struct na_record *na_loader_find_record(const char *path);

/* First of the records of files that were asked for or listed. Locked. */
const struct na_record *na_loader_first_record(void);

/* First of the records of plugins that were asked for and not found. Locked. */
const struct na_record *na_loader_first_missing(void);

#endif /* NA_LOADER_H */
