/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the plugin files in the search path, without loading any. */

#include "na/loader.h"

#include "na/init_string.h"
#include "na/log.h"
#include "na/plugin_file.h"
#include "na/search_path.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REASON_MAX  512
#define FILE_PREFIX "na_"
#define FILE_SUFFIX ".so"

static na_return_t list_directory(struct na_candidates *candidates, const char *directory,
                                  uint32_t core_owner);
static na_return_t list_file(struct na_candidates *candidates, const char *file, const char *path);
static na_return_t list_add(struct na_candidates *candidates, const char *name, const char *path,
                            enum na_plugin_code code, const char *text);
static const struct na_candidate *list_find(const struct na_candidates *candidates,
                                            const char *name);
static void name_from_file(char *name, size_t size, const char *file);
static int compare_entries(const struct dirent **entry1, const struct dirent **entry2);
static int is_plugin_entry(const struct dirent *entry);

na_return_t na_loader_list(struct na_candidates *candidates)
{
    struct na_search_path search;
    na_return_t ret;

    memset(candidates, 0, sizeof(*candidates));
    ret = na_search_path_get(&search);
    for (size_t i = 0; i < search.count && ret == NA_SUCCESS; i++)
        ret = list_directory(candidates, search.directories[i], search.core_owner);
    na_search_path_free(&search);
    if (ret != NA_SUCCESS)
        na_loader_list_free(candidates);
    return ret;
}

void na_loader_list_free(struct na_candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++) {
        free(candidates->items[i].name);
        free(candidates->items[i].path);
        free(candidates->items[i].text);
    }
    free(candidates->items);
    memset(candidates, 0, sizeof(*candidates));
}

static na_return_t list_directory(struct na_candidates *candidates, const char *directory,
                                  uint32_t core_owner)
{
    char reason[REASON_MAX], path[PATH_MAX];
    struct dirent **entries = NULL;
    na_return_t ret = NA_SUCCESS;
    int count;

    if (access(directory, F_OK) != 0)
        return list_add(candidates, "", directory, NA_LOADER_MISSING, "there is no such directory");
    if (!na_plugin_directory_is_safe(directory, core_owner, reason, sizeof(reason)))
        return list_add(candidates, "", directory, NA_LOADER_UNSAFE, reason);
    count = scandir(directory, &entries, is_plugin_entry, compare_entries);
    if (count < 0) {
        (void) snprintf(reason, sizeof(reason), "the directory cannot be read: %s",
                        strerror(errno));
        return list_add(candidates, "", directory, NA_LOADER_MISSING, reason);
    }
    for (int i = 0; i < count; i++) {
        (void) snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
        if (ret == NA_SUCCESS)
            ret = list_file(candidates, entries[i]->d_name, path);
        free(entries[i]);
    }
    free(entries);
    return ret;
}

static na_return_t list_file(struct na_candidates *candidates, const char *file, const char *path)
{
    const struct na_candidate *first;
    char reason[REASON_MAX], name[NAME_MAX + 1];

    name_from_file(name, sizeof(name), file);
    if (!na_plugin_name_is_valid(name))
        return list_add(candidates, name, path, NA_LOADER_BAD_NAME,
                        "the name of a plugin, between na_ and .so, has 1 to 64 letters, digits, "
                        "\"_\" and \"-\"; rename the file");
    first = list_find(candidates, name);
    if (first == NULL)
        return list_add(candidates, name, path, NA_LOADER_FOUND, NULL);
    (void) snprintf(reason, sizeof(reason), "%.400s comes first in the search path", first->path);
    return list_add(candidates, name, path, NA_LOADER_DUPLICATE, reason);
}

static na_return_t list_add(struct na_candidates *candidates, const char *name, const char *path,
                            enum na_plugin_code code, const char *text)
{
    struct na_candidate *item;

    if (candidates->count == candidates->size) {
        size_t size = 2 * candidates->size + 16;
        struct na_candidate *items = realloc(candidates->items, size * sizeof(*items));

        if (items == NULL)
            return NA_NOMEM;
        candidates->items = items;
        candidates->size = size;
    }
    item = &candidates->items[candidates->count];
    memset(item, 0, sizeof(*item));
    item->code = code;
    item->name = strdup(name);
    item->path = strdup(path);
    item->text = text != NULL ? strdup(text) : NULL;
    candidates->count++; /* what is there is freed with the list */
    if (item->name == NULL || item->path == NULL || (text != NULL && item->text == NULL))
        return NA_NOMEM;
    return NA_SUCCESS;
}

static const struct na_candidate *list_find(const struct na_candidates *candidates,
                                            const char *name)
{
    for (size_t i = 0; i < candidates->count; i++)
        if (strcmp(candidates->items[i].name, name) == 0)
            return &candidates->items[i];
    return NULL;
}

static void name_from_file(char *name, size_t size, const char *file)
{
    const size_t around = strlen(FILE_PREFIX) + strlen(FILE_SUFFIX);

    (void) snprintf(name, size, "%.*s", (int) (strlen(file) - around), file + strlen(FILE_PREFIX));
}

/* Not by the locale's rules: the order is the same for everybody. */
static int compare_entries(const struct dirent **entry1, const struct dirent **entry2)
{
    return strcmp((*entry1)->d_name, (*entry2)->d_name);
}

/* na_<name>.so, neither na_<name>.so.1 nor libna_<name>.so. */
static int is_plugin_entry(const struct dirent *entry)
{
    const size_t prefix = strlen(FILE_PREFIX), suffix = strlen(FILE_SUFFIX);
    const size_t length = strlen(entry->d_name);

    return length >= prefix + suffix && strncmp(entry->d_name, FILE_PREFIX, prefix) == 0 &&
           strcmp(entry->d_name + length - suffix, FILE_SUFFIX) == 0;
}
