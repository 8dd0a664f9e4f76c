/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds plugin files, loads them on demand, and keeps a record of the result for each file. */

#ifndef NA_LOADER_H
#define NA_LOADER_H

#include "na/loader_lock.h"
#include "na/transport.h"
#include "util/text.h"

/* The result of loading one file. A record is never freed; the loader's lock guards it. */
struct na_record {
    struct na_record *next;
    char *name; /* plugin name */
    char *path; /* file in the search path */
    enum na_plugin_stage stage;
    enum na_plugin_code code;
    char *text; /* reason, or NULL */
    uint32_t abi_version;
    void *handle;                   /* of dlopen(), never closed */
    struct na_transport *transport; /* NULL unless the plugin is loaded */
    uint64_t inode, ctime_ns, size; /* of the file when it was tried: tells whether it changed */
};

/* The public records of NA_Plugin_get_records(), in the order of the search path. */
struct na_record_list {
    struct na_plugin_record *first, **end;
    size_t count;
};

/*
 * Finds the first file na_<name>.so in the search path, and loads it unless it is loaded. Returns
 * NA_NOENTRY if there is no such file, NA_NODEV if it cannot be loaded (the reason is appended to
 * `why`), or NA_NOMEM.
 */
na_return_t na_loader_get(const char *name, const struct na_transport **transport_p,
                          struct text *why);

/*
 * Appends to `why` the reason why the first file na_<name>.so in the search path could not be
 * loaded, without trying it again, and returns NA_NODEV. Returns NA_SUCCESS if the file is loaded
 * or was never tried, or NA_NOMEM.
 */
na_return_t na_loader_explain(const char *name, struct text *why);

/*
 * Loads every plugin in the search path. Each file is first tried in a process of its own, see
 * na_probe_all(); `protocol` is the one that the caller will ask for, or NULL. The array is in the
 * order of the search path; the caller frees it with free(), but not the transports. The files that
 * cannot be loaded are appended to `why`, unless that is NULL.
 */
na_return_t na_loader_get_all(const char *protocol, const struct na_transport ***transports_p,
                              size_t *count_p, struct text *why);

/*
 * Lists the files na_*.so of each directory in the search path, sorted by name, and the directories
 * that cannot be used. The code of a file that may be loaded is NA_LOADER_FOUND.
 */
na_return_t na_loader_list(struct na_record_list *list);

/* Appends a record; `text` may be NULL. */
na_return_t na_record_list_add(struct na_record_list *list, const char *name, const char *path,
                               enum na_plugin_code code, const char *text);

/* Returns the first record of this plugin name, or NULL. */
const struct na_plugin_record *na_record_list_find(const struct na_record_list *list,
                                                   const char *name);

/* Frees records, but not their `info`. */
void na_record_list_free(struct na_plugin_record *first);

/* Appends the directories of the search path. */
void na_loader_append_directories(struct text *text);

/* Adds a record of a plugin name that an init string asked for and that no file has. */
void na_loader_record_missing(const char *name, const struct text *why);

/* Returns the record of a file, or NULL if it was never tried. Caller holds the loader's lock. */
const struct na_record *na_loader_find_record(const char *path);

/* Returns the first record of a file. Caller holds the loader's lock. */
const struct na_record *na_loader_first_record(void);

/* Returns the first record of na_loader_record_missing(). Caller holds the loader's lock. */
const struct na_record *na_loader_first_missing(void);

#endif /* NA_LOADER_H */
