/* SPDX-License-Identifier: BSD-3-Clause */
/* NA_Plugin_get_records(): for each plugin file the result of loading it, and information about the
 * loaded ones. */

#include "na/loader.h"
#include "na/log.h"
#include "na/plugin_info.h"

#include <stdlib.h>
#include <string.h>

static na_return_t records_complete(struct na_record_list *list);
static na_return_t record_take(struct na_plugin_record *record, const struct na_record *known);
static na_return_t record_add_info(struct na_plugin_record *record);

na_return_t NA_Plugin_get_records(unsigned long flags, struct na_plugin_record **records_p)
{
    const struct na_transport **transports = NULL;
    struct na_record_list list;
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
        ret = na_loader_list(&list);
    if (ret != NA_SUCCESS)
        return ret;
    na_loader_lock();
    ret = records_complete(&list);
    na_loader_unlock();
    for (struct na_plugin_record *record = list.first; record != NULL && ret == NA_SUCCESS;
         record = record->next)
        ret = record_add_info(record);
    if (ret == NA_SUCCESS)
        *records_p = list.first;
    else
        NA_Plugin_free_records(list.first);
    return ret;
}

void NA_Plugin_free_records(struct na_plugin_record *records)
{
    for (struct na_plugin_record *record = records; record != NULL; record = record->next)
        na_plugin_info_free(record->info);
    na_record_list_free(records);
}

/* Adds the loader's results to the listed files, and records for names without a file. The loader's
 * lock is held. */
static na_return_t records_complete(struct na_record_list *list)
{
    na_return_t ret = NA_SUCCESS;

    for (struct na_plugin_record *record = list->first; record != NULL && ret == NA_SUCCESS;
         record = record->next) {
        const struct na_record *known = na_loader_find_record(record->path);

        if (record->code == NA_LOADER_FOUND && known != NULL)
            ret = record_take(record, known);
    }
    for (const struct na_record *known = na_loader_first_missing();
         known != NULL && ret == NA_SUCCESS; known = known->next)
        if (na_record_list_find(list, known->name) == NULL)
            ret = na_record_list_add(list, known->name, known->path, known->code, known->text);
    return ret;
}

static na_return_t record_take(struct na_plugin_record *record, const struct na_record *known)
{
    record->stage = known->stage;
    record->code = known->code;
    record->abi_version = known->abi_version;
    record->loaded = known->transport != NULL;
    if (known->text == NULL)
        return NA_SUCCESS;
    free((void *) (uintptr_t) record->text);
    record->text = strdup(known->text);
    return record->text != NULL ? NA_SUCCESS : NA_NOMEM;
}

/* Asks the plugin without the loader's lock, because that may take long. A transport is never
 * freed. */
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
