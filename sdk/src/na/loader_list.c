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

static na_return_t list_directory(struct na_record_list *list, const char *directory,
                                  uint32_t core_owner);
static na_return_t list_file(struct na_record_list *list, const char *file, const char *path);
static void name_from_file(char *name, size_t size, const char *file);
static int compare_entries(const struct dirent **entry1, const struct dirent **entry2);
static int is_plugin_entry(const struct dirent *entry);

na_return_t na_loader_list(struct na_record_list *list)
{
    struct na_search_path search;
    na_return_t ret;

    list->first = NULL;
    list->end = &list->first;
    list->count = 0;
    ret = na_search_path_get(&search);
    for (size_t i = 0; i < search.count && ret == NA_SUCCESS; i++)
        ret = list_directory(list, search.directories[i], search.core_owner);
    na_search_path_free(&search);
    if (ret != NA_SUCCESS) {
        na_record_list_free(list->first);
        list->first = NULL;
    }
    return ret;
}

na_return_t na_record_list_add(struct na_record_list *list, const char *name, const char *path,
                               enum na_plugin_code code, const char *text)
{
    struct na_plugin_record *record = calloc(1, sizeof(*record));

    if (record == NULL)
        return NA_NOMEM;
    *list->end = record; /* freed with the list, even if a string cannot be allocated */
    list->end = &record->next;
    list->count++;
    record->stage = NA_LOADER_STAGE_SEARCH;
    record->code = code;
    record->name = strdup(name);
    record->path = strdup(path);
    record->text = strdup(text != NULL ? text : "");
    if (record->name == NULL || record->path == NULL || record->text == NULL)
        return NA_NOMEM;
    return NA_SUCCESS;
}

const struct na_plugin_record *na_record_list_find(const struct na_record_list *list,
                                                   const char *name)
{
    const struct na_plugin_record *record = list->first;

    while (record != NULL && strcmp(record->name, name) != 0)
        record = record->next;
    return record;
}

void na_record_list_free(struct na_plugin_record *first)
{
    while (first != NULL) {
        struct na_plugin_record *next = first->next;

        free((void *) (uintptr_t) first->name);
        free((void *) (uintptr_t) first->path);
        free((void *) (uintptr_t) first->text);
        free(first);
        first = next;
    }
}

static na_return_t list_directory(struct na_record_list *list, const char *directory,
                                  uint32_t core_owner)
{
    char reason[REASON_MAX], path[PATH_MAX];
    struct dirent **entries = NULL;
    na_return_t ret = NA_SUCCESS;
    int count;

    if (access(directory, F_OK) != 0)
        return na_record_list_add(list, "", directory, NA_LOADER_MISSING,
                                  "there is no such directory");
    if (!na_plugin_directory_is_safe(directory, core_owner, reason, sizeof(reason)))
        return na_record_list_add(list, "", directory, NA_LOADER_UNSAFE, reason);
    count = scandir(directory, &entries, is_plugin_entry, compare_entries);
    if (count < 0) {
        (void) snprintf(reason, sizeof(reason), "the directory cannot be read: %s",
                        strerror(errno));
        return na_record_list_add(list, "", directory, NA_LOADER_MISSING, reason);
    }
    for (int i = 0; i < count; i++) {
        (void) snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
        if (ret == NA_SUCCESS)
            ret = list_file(list, entries[i]->d_name, path);
        free(entries[i]);
    }
    free(entries);
    return ret;
}

static na_return_t list_file(struct na_record_list *list, const char *file, const char *path)
{
    const struct na_plugin_record *first;
    char reason[REASON_MAX], name[NAME_MAX + 1];

    name_from_file(name, sizeof(name), file);
    if (!na_plugin_name_is_valid(name))
        return na_record_list_add(
            list, name, path, NA_LOADER_BAD_NAME,
            "the name of a plugin, between na_ and .so, has 1 to 64 letters, digits, "
            "\"_\" and \"-\"; rename the file");
    first = na_record_list_find(list, name);
    if (first == NULL)
        return na_record_list_add(list, name, path, NA_LOADER_FOUND, NULL);
    (void) snprintf(reason, sizeof(reason), "%.400s comes first in the search path", first->path);
    return na_record_list_add(list, name, path, NA_LOADER_DUPLICATE, reason);
}

static void name_from_file(char *name, size_t size, const char *file)
{
    const size_t affixes = strlen(FILE_PREFIX) + strlen(FILE_SUFFIX);

    (void) snprintf(name, size, "%.*s", (int) (strlen(file) - affixes), file + strlen(FILE_PREFIX));
}

/* Unlike alphasort(), does not depend on the locale. */
static int compare_entries(const struct dirent **entry1, const struct dirent **entry2)
{
    return strcmp((*entry1)->d_name, (*entry2)->d_name);
}

/* Accepts na_<name>.so, but neither na_<name>.so.1 nor libna_<name>.so. */
static int is_plugin_entry(const struct dirent *entry)
{
    const size_t prefix = strlen(FILE_PREFIX), suffix = strlen(FILE_SUFFIX);
    const size_t length = strlen(entry->d_name);

    return length >= prefix + suffix && strncmp(entry->d_name, FILE_PREFIX, prefix) == 0 &&
           strcmp(entry->d_name + length - suffix, FILE_SUFFIX) == 0;
}
