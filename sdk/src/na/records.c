/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of plugin files, for tools: what became of each, and what the loaded ones say of
 * themselves. */

#include "na/loader.h"
#include "na/log.h"
#include "na/plugin_info.h"

#include <stdlib.h>
#include <string.h>

static na_return_t records_make(const struct na_candidates *candidates,
                                struct na_plugin_record **records_p);
static na_return_t records_add_missing(const struct na_candidates *candidates,
                                       struct na_plugin_record **link);
static na_return_t record_from_candidate(const struct na_candidate *candidate,
                                         struct na_plugin_record *record);
static na_return_t record_from_loader(const struct na_record *known,
                                      struct na_plugin_record *record);
static na_return_t record_add_info(struct na_plugin_record *record);
static na_return_t record_fill(struct na_plugin_record *record, const char *name, const char *path,
                               const char *text);
static bool is_found(const struct na_candidates *candidates, const char *name);

na_return_t NA_Plugin_get_records(unsigned long flags, struct na_plugin_record **records_p)
{
    const struct na_transport **transports = NULL;
    struct na_candidates candidates;
    na_return_t ret = NA_SUCCESS;
    size_t count;

    if (records_p == NULL || (flags & ~(unsigned long) NA_LOADER_LOAD_ALL) != 0) {
        NA_LOG_ERROR("records_p is %p, flags are 0x%lx; pass where the records go, and 0 or "
                     "NA_LOADER_LOAD_ALL",
                     (void *) records_p, flags);
        return NA_INVALID_ARG;
    }
    *records_p = NULL;
    if ((flags & NA_LOADER_LOAD_ALL) != 0)
        ret = na_loader_get_all(NULL, &transports, &count, NULL);
    free(transports);
    if (ret == NA_SUCCESS)
        ret = na_loader_list(&candidates);
    if (ret != NA_SUCCESS)
        return ret;
    na_loader_lock();
    ret = records_make(&candidates, records_p);
    na_loader_unlock();
    na_loader_list_free(&candidates);
    for (struct na_plugin_record *record = *records_p; record != NULL && ret == NA_SUCCESS;
         record = record->next)
        ret = record_add_info(record);
    if (ret != NA_SUCCESS) {
        NA_Plugin_free_records(*records_p);
        *records_p = NULL;
    }
    return ret;
}

void NA_Plugin_free_records(struct na_plugin_record *records)
{
    while (records != NULL) {
        struct na_plugin_record *next = records->next;

        free((void *) (uintptr_t) records->name);
        free((void *) (uintptr_t) records->path);
        free((void *) (uintptr_t) records->text);
        na_plugin_info_free(records->info);
        free(records);
        records = next;
    }
}

static na_return_t records_make(const struct na_candidates *candidates,
                                struct na_plugin_record **records_p)
{
    struct na_plugin_record **link = records_p;
    na_return_t ret = NA_SUCCESS;

    for (size_t i = 0; i < candidates->count && ret == NA_SUCCESS; i++) {
        const struct na_candidate *candidate = &candidates->items[i];
        const struct na_record *known = na_loader_find_record(candidate->path);

        *link = calloc(1, sizeof(**link));
        if (*link == NULL)
            return NA_NOMEM;
        if (candidate->code == NA_LOADER_FOUND && known != NULL)
            ret = record_from_loader(known, *link);
        else
            ret = record_from_candidate(candidate, *link);
        link = &(*link)->next;
    }
    return ret == NA_SUCCESS ? records_add_missing(candidates, link) : ret;
}

/* What was asked for and is not there. */
static na_return_t records_add_missing(const struct na_candidates *candidates,
                                       struct na_plugin_record **link)
{
    na_return_t ret = NA_SUCCESS;

    for (const struct na_record *known = na_loader_first_missing();
         known != NULL && ret == NA_SUCCESS; known = known->next) {
        if (is_found(candidates, known->name))
            continue;
        *link = calloc(1, sizeof(**link));
        if (*link == NULL)
            return NA_NOMEM;
        ret = record_from_loader(known, *link);
        link = &(*link)->next;
    }
    return ret;
}

static na_return_t record_from_candidate(const struct na_candidate *candidate,
                                         struct na_plugin_record *record)
{
    record->stage = NA_LOADER_STAGE_SEARCH;
    record->code = candidate->code;
    return record_fill(record, candidate->name, candidate->path, candidate->text);
}

static na_return_t record_from_loader(const struct na_record *known,
                                      struct na_plugin_record *record)
{
    record->stage = known->stage;
    record->code = known->code;
    record->abi_version = known->abi_version;
    record->loaded = known->transport != NULL;
    return record_fill(record, known->name, known->path, known->text);
}

/* Asks the plugin, which may take its time: nothing is locked. What is loaded stays so. */
static na_return_t record_add_info(struct na_plugin_record *record)
{
    const struct na_transport *transport;

    if (!record->loaded)
        return NA_SUCCESS;
    na_loader_lock();
    transport = na_loader_find_record(record->path)->transport;
    na_loader_unlock();
    return na_plugin_info_make(transport, &record->info);
}

static na_return_t record_fill(struct na_plugin_record *record, const char *name, const char *path,
                               const char *text)
{
    record->name = strdup(name);
    record->path = strdup(path);
    record->text = strdup(text != NULL ? text : "");
    if (record->name == NULL || record->path == NULL || record->text == NULL)
        return NA_NOMEM;
    return NA_SUCCESS;
}

static bool is_found(const struct na_candidates *candidates, const char *name)
{
    for (size_t i = 0; i < candidates->count; i++)
        if (strcmp(candidates->items[i].name, name) == 0)
            return true;
    return false;
}
