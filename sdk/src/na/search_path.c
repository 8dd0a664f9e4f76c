/* SPDX-License-Identifier: BSD-3-Clause */
/* The search path for plugins: NA_PLUGIN_PATH, and the directory next to the core's own file. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* dladdr, secure_getenv */
#endif

#include "na/search_path.h"

#include "na/log.h"
#include "na_ext.h"
#include "util/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_WORD "<default>"

static bool core_file_get(char *path, uint32_t *owner_p);
static na_return_t path_add(struct na_search_path *path, const char *directory);

na_return_t na_search_path_get(struct na_search_path *path)
{
    return na_search_path_make(path, secure_getenv("NA_PLUGIN_PATH"));
}

na_return_t na_search_path_make(struct na_search_path *path, const char *variable)
{
    char core[PATH_MAX], built_in[PATH_MAX + 64] = "", entry[PATH_MAX];
    na_return_t ret = NA_SUCCESS;

    memset(path, 0, sizeof(*path));
    path->core_owner = UINT32_MAX;
    if (core_file_get(core, &path->core_owner))
        (void) snprintf(built_in, sizeof(built_in), "%s/%s", core, AMALGAM_PLUGIN_SUBDIR);

    while (variable != NULL && *variable != '\0' && ret == NA_SUCCESS) {
        size_t length = strcspn(variable, ":");

        if (length >= sizeof(entry)) {
            NA_LOG_WARNING("an entry of NA_PLUGIN_PATH has %zu characters and is ignored", length);
        } else if (length > 0) {
            (void) snprintf(entry, sizeof(entry), "%.*s", (int) length, variable);
            ret = path_add(path, strcmp(entry, DEFAULT_WORD) == 0 ? built_in : entry);
        }
        variable += length;
        variable += *variable == ':';
    }
    if (ret == NA_SUCCESS)
        ret = path_add(path, built_in);
    return ret;
}

bool na_search_path_built_in(char *path, size_t size)
{
    char core[PATH_MAX];
    uint32_t owner;

    return core_file_get(core, &owner) &&
           (size_t) snprintf(path, size, "%s/%s", core, AMALGAM_PLUGIN_SUBDIR) < size;
}

void na_search_path_free(struct na_search_path *path)
{
    for (size_t i = 0; i < path->count; i++)
        free(path->directories[i]);
    path->count = 0;
}

na_return_t NA_Plugin_get_search_path(char *buf, size_t *buf_size)
{
    struct na_search_path path;
    struct text text = TEXT_INITIALIZER;
    na_return_t ret;
    size_t size;

    if (buf_size == NULL) {
        NA_LOG_ERROR("buf_size is NULL; pass a pointer to the size of the buffer");
        return NA_INVALID_ARG;
    }
    ret = na_search_path_get(&path);
    for (size_t i = 0; i < path.count && ret == NA_SUCCESS; i++)
        text_append(&text, "%s%s", i > 0 ? ":" : "", path.directories[i]);
    size = text.length + 1;
    if (ret == NA_SUCCESS && buf != NULL && *buf_size < size)
        ret = NA_OVERFLOW;
    else if (ret == NA_SUCCESS && buf != NULL)
        memcpy(buf, text_get(&text), size);
    if (ret == NA_SUCCESS || ret == NA_OVERFLOW)
        *buf_size = size;
    text_free(&text);
    na_search_path_free(&path);
    return ret;
}

/* Writes the directory of the file that contains this code: the shared library, or a program that
 * is linked with the static one. */
static bool core_file_get(char *path, uint32_t *owner_p)
{
    static const char anchor = 0;
    struct link_map *map = NULL;
    struct stat info;
    Dl_info object;
    const char *file;
    char *slash;

    if (dladdr1(&anchor, &object, (void **) &map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    file = map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe"; /* the program's is empty */
    if (realpath(file, path) == NULL)
        return false;
    if (stat(path, &info) == 0)
        *owner_p = (uint32_t) info.st_uid;
    slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

static na_return_t path_add(struct na_search_path *path, const char *directory)
{
    char resolved[PATH_MAX];
    const char *name = realpath(directory, resolved) != NULL ? resolved : directory;

    if (directory[0] == '\0')
        return NA_SUCCESS;
    for (size_t i = 0; i < path->count; i++)
        if (strcmp(path->directories[i], name) == 0)
            return NA_SUCCESS;
    if (path->count == NA_SEARCH_PATH_MAX) {
        NA_LOG_WARNING("NA_PLUGIN_PATH has more than %d directories; %s is ignored",
                       NA_SEARCH_PATH_MAX, directory);
        return NA_SUCCESS;
    }
    path->directories[path->count] = strdup(name);
    if (path->directories[path->count] == NULL)
        return NA_NOMEM;
    path->count++;
    return NA_SUCCESS;
}
