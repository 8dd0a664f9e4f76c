/* SPDX-License-Identifier: BSD-3-Clause */
/* NA_Get_protocol_info() and NA_Cleanup(). */

#include "na.h"
#include "na/fork.h"
#include "na/loader.h"
#include "na/log.h"
#include "na/select.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static na_return_t parse_query(const char *info_string, struct na_init_choice *choice,
                               struct na_init_string *parsed);
static na_return_t list_make(const struct na_offers *offers, struct na_protocol_info **list_p);
static struct na_protocol_info *info_create(const struct na_offer *offer);

na_return_t NA_Get_protocol_info(const char *info_string,
                                 struct na_protocol_info **na_protocol_info_p)
{
    struct na_init_string parsed = {0};
    struct na_init_choice choice;
    struct na_offers offers = {0};
    struct text why = TEXT_INITIALIZER;
    na_return_t ret;

    if (na_protocol_info_p == NULL) {
        NA_LOG_ERROR("na_protocol_info_p is NULL; pass where the list goes");
        return NA_INVALID_ARG;
    }
    *na_protocol_info_p = NULL;
    ret = parse_query(info_string, &choice, &parsed);
    if (ret == NA_SUCCESS)
        ret = na_select(&choice, &offers, NULL, &why);
    if (ret == NA_SUCCESS)
        ret = list_make(&offers, na_protocol_info_p);
    else if (ret != NA_INVALID_ARG && ret != NA_NOMEM) {
        NA_LOG_DEBUG("no protocol for \"%s\": %s", info_string != NULL ? info_string : "",
                     text_get(&why));
        ret = NA_PROTONOSUPPORT;
    }
    text_free(&why);
    na_offers_free(&offers);
    na_init_string_free(&parsed);
    return ret;
}

void NA_Free_protocol_info(struct na_protocol_info *na_protocol_info)
{
    while (na_protocol_info != NULL) {
        struct na_protocol_info *next = na_protocol_info->next;

        free(na_protocol_info->class_name);
        free(na_protocol_info->protocol_name);
        free(na_protocol_info->device_name);
        free(na_protocol_info);
        na_protocol_info = next;
    }
}

/* Calls loaded plugins only; loads none. */
void NA_Cleanup(void)
{
    const struct na_record *record;
    const struct na_transport *transport;

    pthread_mutex_lock(&na_cleanup_mutex);
    na_loader_lock();
    for (record = na_loader_first_record(); record != NULL; record = record->next) {
        transport = record->transport;
        /* Skips a record that shares the transport of another path to the same file. */
        if (transport == NULL || transport->table.cleanup == NULL ||
            transport->path != record->path)
            continue;
        na_loader_unlock();
        transport->table.cleanup();
        na_loader_lock();
    }
    na_loader_unlock();
    pthread_mutex_unlock(&na_cleanup_mutex);
}

/* Parses an init string of one choice, whose address is ignored. NULL means all protocols. */
static na_return_t parse_query(const char *info_string, struct na_init_choice *choice,
                               struct na_init_string *parsed)
{
    na_return_t ret;

    memset(choice, 0, sizeof(*choice));
    if (info_string == NULL)
        return NA_SUCCESS;
    ret = na_init_string_parse(info_string, parsed, NULL, 0);
    if (ret != NA_SUCCESS)
        return ret;
    if (parsed->count != 1) {
        NA_LOG_ERROR("\"%s\" has %zu choices; ask for one at a time", info_string, parsed->count);
        return NA_INVALID_ARG;
    }
    *choice = parsed->choices[0];
    return NA_SUCCESS;
}

static na_return_t list_make(const struct na_offers *offers, struct na_protocol_info **list_p)
{
    struct na_protocol_info **link = list_p;

    for (size_t i = 0; i < offers->count; i++) {
        if (!offers->items[i].usable)
            continue;
        *link = info_create(&offers->items[i]);
        if (*link == NULL) {
            NA_Free_protocol_info(*list_p);
            *list_p = NULL;
            return NA_NOMEM;
        }
        link = &(*link)->next;
    }
    return *list_p != NULL ? NA_SUCCESS : NA_PROTONOSUPPORT;
}

static struct na_protocol_info *info_create(const struct na_offer *offer)
{
    struct na_protocol_info *info = calloc(1, sizeof(*info));

    if (info == NULL)
        return NULL;
    info->class_name = strdup(na_transport_class_name(offer->transport));
    info->protocol_name = strdup(offer->protocol);
    info->device_name = strdup(offer->device);
    if (info->class_name != NULL && info->protocol_name != NULL && info->device_name != NULL)
        return info;
    NA_Free_protocol_info(info);
    return NULL;
}
