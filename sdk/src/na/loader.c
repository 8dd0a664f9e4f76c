/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads plugin files on demand. Each file has a record; a loaded plugin is never unloaded. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* dladdr1 */
#endif

#include "na/loader.h"

#include "na/host.h"
#include "na/init_string.h"
#include "na/loader_probe.h"
#include "na/log.h"
#include "na/plugin_file.h"
#include "na/search_path.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REASON_MAX 1024
#define MAJORS_MAX 9 /* highest ABI major whose entry symbol is searched to name it in the error */

typedef int32_t (*entry_fn)(const struct na_host *, const struct na_plugin **, const char **);

static struct na_record *loader_files;   /* records of files */
static struct na_record *loader_missing; /* records of names without a file */

static na_return_t loader_load(const char *name, const char *path, uint32_t core_owner,
                               bool is_named, const struct na_record **record_p);
static na_return_t loader_probe(const struct na_record_list *list, uint32_t core_owner,
                                const char *protocol);
static bool needs_probe(const struct na_plugin_record *found);
static void record_crash(const struct na_probe *probe);
static bool record_is_current(const struct na_record *record, const struct stat *info);
static void record_set_file(struct na_record *record, const struct stat *info);
static na_return_t record_run(struct na_record *record, uint32_t core_owner);
static bool record_open(struct na_record *record, uint32_t core_owner);
static bool record_is_new(struct na_record *record);
static bool record_is_own_symbol(const struct na_record *record, void *symbol);
static bool symbol_is_function(void *symbol);
static entry_fn record_find_entry(struct na_record *record);
static bool record_find_other_major(struct na_record *record);
static void record_enter(struct na_record *record, entry_fn entry, struct na_transport *transport);
static void record_set(struct na_record *record, enum na_plugin_stage stage,
                       enum na_plugin_code code, const char *text);
static struct na_record *record_get(struct na_record **list, const char *name, const char *path);
static void text_append_record(struct text *why, const struct na_record *record);

na_return_t na_loader_get(const char *name, const struct na_transport **transport_p,
                          struct text *why)
{
    const struct na_record *record = NULL;
    struct na_search_path search;
    char reason[REASON_MAX], path[PATH_MAX];
    na_return_t ret;

    *transport_p = NULL;
    na_loader_lock();
    ret = na_search_path_get(&search);
    for (size_t i = 0; i < search.count && ret == NA_SUCCESS && record == NULL; i++) {
        const char *directory = search.directories[i];

        (void) snprintf(path, sizeof(path), "%s/na_%s.so", directory, name);
        if (na_plugin_directory_is_safe(directory, search.core_owner, reason, sizeof(reason)) &&
            access(path, F_OK) == 0)
            ret = loader_load(name, path, search.core_owner, true, &record);
    }
    if (ret == NA_SUCCESS && record != NULL) {
        *transport_p = record->transport;
        if (record->transport == NULL)
            text_append_record(why, record);
    }
    na_loader_unlock();
    na_search_path_free(&search);
    if (ret != NA_SUCCESS)
        return ret;
    if (*transport_p != NULL)
        return NA_SUCCESS;
    return record == NULL ? NA_NOENTRY : NA_NODEV;
}

na_return_t na_loader_explain(const char *name, struct text *why)
{
    const struct na_record *record = NULL;
    struct na_search_path search;
    char path[PATH_MAX];
    na_return_t ret;

    na_loader_lock();
    ret = na_search_path_get(&search);
    for (size_t i = 0; i < search.count && ret == NA_SUCCESS && record == NULL; i++) {
        (void) snprintf(path, sizeof(path), "%s/na_%s.so", search.directories[i], name);
        record = na_loader_find_record(path);
    }
    if (record != NULL && record->transport == NULL) {
        text_append_record(why, record);
        ret = NA_NODEV;
    }
    na_loader_unlock();
    na_search_path_free(&search);
    return ret;
}

na_return_t na_loader_get_all(const char *protocol, const struct na_transport ***transports_p,
                              size_t *count_p, struct text *why)
{
    struct na_search_path search = {0};
    struct na_record_list list;
    const struct na_transport **transports = NULL;
    size_t count = 0;
    na_return_t ret;

    ret = na_loader_list(&list);
    if (ret == NA_SUCCESS)
        ret = na_search_path_get(&search);
    if (ret == NA_SUCCESS) {
        transports = calloc(list.count + 1, sizeof(*transports));
        if (transports == NULL)
            ret = NA_NOMEM;
    }
    if (ret == NA_SUCCESS)
        ret = loader_probe(&list, search.core_owner, protocol);
    na_loader_lock();
    for (struct na_plugin_record *found = list.first; found != NULL && ret == NA_SUCCESS;
         found = found->next) {
        const struct na_record *record = NULL;

        if (found->code != NA_LOADER_FOUND) {
            if (why != NULL && access(found->path, F_OK) == 0)
                text_append(why, "%s%s: %s", why->length > 0 ? "; " : "", found->path, found->text);
            continue;
        }
        ret = loader_load(found->name, found->path, search.core_owner, false, &record);
        if (ret == NA_SUCCESS && record->transport != NULL)
            transports[count++] = record->transport;
        else if (ret == NA_SUCCESS && why != NULL)
            text_append_record(why, record);
    }
    na_loader_unlock();
    na_search_path_free(&search);
    na_record_list_free(list.first);
    if (ret != NA_SUCCESS) {
        free(transports);
        return ret;
    }
    *transports_p = transports;
    *count_p = count;
    return NA_SUCCESS;
}

void na_loader_append_directories(struct text *text)
{
    struct na_search_path search;

    if (na_search_path_get(&search) == NA_SUCCESS) {
        for (size_t i = 0; i < search.count; i++)
            text_append(text, "%s%s%s", i > 0 ? ", " : "", search.directories[i],
                        access(search.directories[i], F_OK) != 0 ? " (no such directory)" : "");
        if (search.count == 0)
            text_append(text, "any directory (there is none to look in)");
    }
    na_search_path_free(&search);
}

void na_loader_record_missing(const char *name, const struct text *why)
{
    char file[NA_PLUGIN_NAME_MAX + 16];
    struct na_record *record;

    (void) snprintf(file, sizeof(file), "na_%s.so", name);
    na_loader_lock();
    record = record_get(&loader_missing, name, file);
    if (record != NULL)
        record_set(record, NA_LOADER_STAGE_SEARCH, NA_LOADER_MISSING, text_get(why));
    na_loader_unlock();
}

const struct na_record *na_loader_find_record(const char *path)
{
    for (const struct na_record *record = loader_files; record != NULL; record = record->next)
        if (strcmp(record->path, path) == 0)
            return record;
    return NULL;
}

const struct na_record *na_loader_first_record(void)
{
    return loader_files;
}

const struct na_record *na_loader_first_missing(void)
{
    return loader_missing;
}

/* Tries the files without a current record in other processes. The lock is not held meanwhile,
 * because that may take long. */
static na_return_t loader_probe(const struct na_record_list *list, uint32_t core_owner,
                                const char *protocol)
{
    struct na_probe *probes = calloc(list->count + 1, sizeof(*probes));
    size_t count = 0;

    if (probes == NULL)
        return NA_NOMEM;
    na_loader_lock();
    for (const struct na_plugin_record *found = list->first; found != NULL; found = found->next) {
        if (!needs_probe(found))
            continue;
        probes[count].name = found->name;
        probes[count++].path = found->path;
    }
    na_loader_unlock();
    na_probe_all(probes, count, core_owner, protocol);
    na_loader_lock();
    for (size_t i = 0; i < count; i++)
        if (probes[i].has_crashed)
            record_crash(&probes[i]);
    na_loader_unlock();
    free(probes);
    return NA_SUCCESS;
}

static bool needs_probe(const struct na_plugin_record *found)
{
    const struct na_record *record = na_loader_find_record(found->path);
    struct stat info;

    if (found->code != NA_LOADER_FOUND || stat(found->path, &info) != 0)
        return false;
    return record == NULL || (record->handle == NULL && (record->code == NA_LOADER_FOUND ||
                                                         !record_is_current(record, &info)));
}

/* Records that the file crashed its process, unless another thread has loaded it meanwhile. */
static void record_crash(const struct na_probe *probe)
{
    struct na_record *record = record_get(&loader_files, probe->name, probe->path);
    struct stat info;

    if (record == NULL || record->handle != NULL || stat(probe->path, &info) != 0)
        return;
    record_set_file(record, &info);
    record_set(record, NA_LOADER_STAGE_OPEN, NA_LOADER_CRASHED, probe->text);
    NA_LOG_WARNING("%s: not loaded (%s): %s; move the file away, and report it to the plugin's "
                   "maker",
                   probe->path, NA_Plugin_code_to_string(record->code), probe->text);
}

/* Loads a file, unless it is loaded, or its record has an error and the file has not changed since.
 * A plugin that the init string names is loaded even if it crashed the process that tried it. */
static na_return_t loader_load(const char *name, const char *path, uint32_t core_owner,
                               bool is_named, const struct na_record **record_p)
{
    struct na_record *record = record_get(&loader_files, name, path);
    struct stat info;
    na_return_t ret;

    if (record == NULL)
        return NA_NOMEM;
    *record_p = record;
    if (record->handle != NULL)
        return NA_SUCCESS;
    memset(&info, 0, sizeof(info));
    if (stat(path, &info) == 0 && record->code != NA_LOADER_FOUND &&
        record_is_current(record, &info) && !(is_named && record->code == NA_LOADER_CRASHED))
        return NA_SUCCESS;
    record_set_file(record, &info);
    ret = record_run(record, core_owner);
    if (ret == NA_SUCCESS && record->transport != NULL)
        NA_LOG_INFO("%s: loaded, plugin ABI %u.%u", path, record->abi_version >> 16,
                    record->abi_version & 0xffff);
    else if (ret == NA_SUCCESS)
        NA_LOG_WARNING("%s: not loaded (%s): %s", path, NA_Plugin_code_to_string(record->code),
                       record->text != NULL ? record->text : "");
    return ret;
}

static bool record_is_current(const struct na_record *record, const struct stat *info)
{
    return record->inode == (uint64_t) info->st_ino && record->size == (uint64_t) info->st_size &&
           record->ctime_ns ==
               (uint64_t) info->st_ctim.tv_sec * 1000000000u + (uint64_t) info->st_ctim.tv_nsec;
}

static void record_set_file(struct na_record *record, const struct stat *info)
{
    record->inode = (uint64_t) info->st_ino;
    record->ctime_ns =
        (uint64_t) info->st_ctim.tv_sec * 1000000000u + (uint64_t) info->st_ctim.tv_nsec;
    record->size = (uint64_t) info->st_size;
}

/* Takes a file through all stages of loading. The record gets the result, also a failure. */
static na_return_t record_run(struct na_record *record, uint32_t core_owner)
{
    struct na_transport *transport = calloc(1, sizeof(*transport));
    entry_fn entry;

    if (transport == NULL)
        return NA_NOMEM;
    if (record_open(record, core_owner) && record_is_new(record)) {
        entry = record_find_entry(record);
        if (entry != NULL)
            record_enter(record, entry, transport);
    }
    if (record->transport != transport)
        free(transport);
    return NA_SUCCESS;
}

static bool record_open(struct na_record *record, uint32_t core_owner)
{
    char resolved[PATH_MAX], reason[REASON_MAX];
    const char *error;

    if (realpath(record->path, resolved) == NULL) {
        record_set(record, NA_LOADER_STAGE_SEARCH, NA_LOADER_MISSING,
                   "the file, or what it links to, is not there");
        return false;
    }
    if (!na_plugin_file_is_safe(resolved, core_owner, reason, sizeof(reason))) {
        record_set(record, NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, reason);
        return false;
    }
    if (!na_plugin_file_is_loadable(resolved, reason, sizeof(reason))) {
        record_set(record, NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, reason);
        return false;
    }
    /* dlopen() runs the plugin's constructors: if one crashes the process, this line names it. */
    NA_LOG_INFO("%s: loading", record->path);
    na_plugin_enter(record->path);
    record->handle = dlopen(resolved, RTLD_NOW | RTLD_LOCAL);
    na_plugin_leave();
    if (record->handle == NULL) {
        error = dlerror();
        record_set(record, NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED,
                   error != NULL ? error : "the system's loader gives no reason");
        return false;
    }
    return true;
}

/* Returns false, with the record filled, if another path has loaded the same object already: the
 * entry function of an object is called only once. */
static bool record_is_new(struct na_record *record)
{
    char reason[REASON_MAX];

    for (struct na_record *other = loader_files; other != NULL; other = other->next) {
        if (other == record || other->handle != record->handle)
            continue;
        if (strcmp(other->name, record->name) == 0) {
            record_set(record, other->stage, other->code, other->text);
            record->abi_version = other->abi_version;
            record->transport = other->transport;
        } else {
            (void) snprintf(reason, sizeof(reason), "is a link to %.900s, which has another name",
                            other->path);
            record_set(record, NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, reason);
        }
        return false;
    }
    return true;
}

/* Returns whether the plugin itself defines the symbol: dlsym() also searches its dependencies. */
static bool record_is_own_symbol(const struct na_record *record, void *symbol)
{
    struct link_map *own = NULL, *of_symbol = NULL;
    Dl_info object;

    if (dlinfo(record->handle, RTLD_DI_LINKMAP, &own) != 0)
        return false;
    return dladdr1(symbol, &object, (void **) &of_symbol, RTLD_DL_LINKMAP) != 0 && own == of_symbol;
}

static entry_fn record_find_entry(struct na_record *record)
{
    void *symbol = dlsym(record->handle, NA_PLUGIN_ENTRY_SYMBOL);
    const char *reason = "it does not export the symbol " NA_PLUGIN_ENTRY_SYMBOL;
    entry_fn entry;

    _Static_assert(sizeof(entry) == sizeof(symbol), "a function's address fits into a pointer");
    if (symbol != NULL && !record_is_own_symbol(record, symbol)) {
        reason = "the symbol " NA_PLUGIN_ENTRY_SYMBOL
                 " belongs to a library that it depends on, not to the plugin";
    } else if (symbol != NULL && !symbol_is_function(symbol)) {
        reason = "the symbol " NA_PLUGIN_ENTRY_SYMBOL " is not that of a function";
    } else if (symbol != NULL) {
        memcpy(&entry, &symbol, sizeof(entry));
        return entry;
    }
    if (!record_find_other_major(record))
        record_set(record, NA_LOADER_STAGE_ENTRY, NA_LOADER_NO_ENTRY, reason);
    return NULL;
}

/*
 * Returns false if the address is that of a data symbol. An address without a symbol is accepted:
 * dlsym() resolves an indirect function (ifunc) to an implementation, which may have no symbol.
 */
static bool symbol_is_function(void *symbol)
{
    const ElfW(Sym) *entry = NULL;
    Dl_info object;

    if (dladdr1(symbol, &object, (void **) &entry, RTLD_DL_SYMENT) == 0 || entry == NULL)
        return true;
    return ELF64_ST_TYPE(entry->st_info) == STT_FUNC ||
           ELF64_ST_TYPE(entry->st_info) == STT_GNU_IFUNC;
}

static bool record_find_other_major(struct na_record *record)
{
    char name[32], reason[REASON_MAX];

    for (uint32_t major = 0; major <= MAJORS_MAX; major++) {
        const bool old = major < NA_PLUGIN_ABI_MAJOR;
        void *symbol;

        (void) snprintf(name, sizeof(name), "na_plugin_entry_v%u", major);
        symbol = major != NA_PLUGIN_ABI_MAJOR ? dlsym(record->handle, name) : NULL;
        if (symbol == NULL || !record_is_own_symbol(record, symbol))
            continue;
        (void) snprintf(
            reason, sizeof(reason),
            "built for plugin ABI %u, this library offers %u: build it with the headers of "
            "this release, or %s",
            major, NA_PLUGIN_ABI_MAJOR, old ? "use an older release" : "install a newer release");
        record->abi_version = major << 16;
        record_set(record, NA_LOADER_STAGE_ENTRY,
                   old ? NA_LOADER_ABI_TOO_OLD : NA_LOADER_ABI_TOO_NEW, reason);
        return true;
    }
    return false;
}

/* Calls the entry function and checks the table that it returns. */
static void record_enter(struct na_record *record, entry_fn entry, struct na_transport *transport)
{
    const struct na_plugin *plugin = NULL;
    const char *refusal = NULL;
    char reason[REASON_MAX] = "";
    enum na_plugin_code code;
    int32_t status;

    transport->name = record->name;
    transport->path = record->path;
    na_plugin_enter(record->path);
    status = entry(na_host_get(), &plugin, &refusal);
    na_plugin_leave();
    if (status != NA_PLUGIN_SUCCESS) {
        record_set(record, NA_LOADER_STAGE_ENTRY, NA_LOADER_REFUSED,
                   refusal != NULL ? refusal : "the plugin gave no reason");
        return;
    }
    if (plugin != NULL)
        record->abi_version = plugin->abi_version;
    code = na_transport_check(transport, plugin, record->name, reason, sizeof(reason));
    if (code == NA_LOADER_LOADED) {
        record_set(record, NA_LOADER_STAGE_READY, NA_LOADER_LOADED, NULL);
        record->transport = transport;
    } else {
        record_set(record, NA_LOADER_STAGE_TABLE, code, reason);
    }
}

static void record_set(struct na_record *record, enum na_plugin_stage stage,
                       enum na_plugin_code code, const char *text)
{
    record->stage = stage;
    record->code = code;
    free(record->text);
    record->text = text != NULL ? strdup(text) : NULL; /* if it fails the record has no reason */
}

static struct na_record *record_get(struct na_record **list, const char *name, const char *path)
{
    struct na_record *record;

    for (; *list != NULL; list = &(*list)->next)
        if (strcmp((*list)->path, path) == 0)
            return *list;
    record = calloc(1, sizeof(*record));
    if (record == NULL)
        return NULL;
    record->name = strdup(name);
    record->path = strdup(path);
    if (record->name == NULL || record->path == NULL) {
        free(record->name);
        free(record->path);
        free(record);
        return NULL;
    }
    record->code = NA_LOADER_FOUND;
    *list = record;
    return record;
}

static void text_append_record(struct text *why, const struct na_record *record)
{
    text_append(why, "%s%s (%s, %s): %s", why->length > 0 ? "; " : "", record->path,
                NA_Plugin_stage_to_string(record->stage), NA_Plugin_code_to_string(record->code),
                record->text != NULL ? record->text : "");
}
