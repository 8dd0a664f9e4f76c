/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection by what plugins declare of themselves. No plugin is named here. */

#include "na/select.h"

#include "na/class.h"
#include "na/loader.h"
#include "na/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an enumeration collects into. */
struct collector {
    struct na_offers *offers;
    const struct na_transport *transport;
    size_t limit;
    na_return_t ret;
};

static na_return_t select_named(const struct na_init_choice *choice, struct na_offers *offers,
                                struct text *why);
static na_return_t select_any(const struct na_init_choice *choice, struct na_offers *offers,
                              struct text *why);
static na_return_t find_named(const char *name, const char *protocol,
                              const struct na_transport **transport_p, struct text *why);
static na_return_t find_alias(const char *name, const struct na_transport **transport_p,
                              struct text *why);
static void append_offered(const struct na_transport *transport, struct text *why);
static int32_t collect_offer(void *arg, const struct na_plugin_offer *offer);
static bool offer_copy(struct na_offer *copy, const struct na_transport *transport,
                       const struct na_plugin_offer *offer);
static void offer_free(struct na_offer *offer);
static void sort_offers(struct na_offers *offers, bool by_priority);
static int compare_offers(const struct na_offer *offer1, const struct na_offer *offer2,
                          bool by_priority);

na_return_t na_select(const struct na_init_choice *choice, struct na_offers *offers,
                      struct text *why)
{
    na_return_t ret;

    memset(offers, 0, sizeof(*offers));
    ret = choice->plugin != NULL ? select_named(choice, offers, why)
                                 : select_any(choice, offers, why);
    if (ret != NA_SUCCESS)
        na_offers_free(offers);
    return ret;
}

na_return_t na_offers_add(struct na_offers *offers, const struct na_transport *transport,
                          const char *protocol)
{
    struct collector collector = {offers, transport, offers->count + NA_OFFERS_MAX, NA_SUCCESS};
    int32_t status = transport->table.enumerate(protocol, collect_offer, &collector);

    return collector.ret != NA_SUCCESS ? collector.ret : na_return_from_plugin(status);
}

void na_offers_free(struct na_offers *offers)
{
    for (size_t i = 0; i < offers->count; i++)
        offer_free(&offers->items[i]);
    free(offers->items);
    memset(offers, 0, sizeof(*offers));
}

/* `plugin+protocol`: that plugin and no other is loaded. */
static na_return_t select_named(const struct na_init_choice *choice, struct na_offers *offers,
                                struct text *why)
{
    const struct na_transport *transport;
    na_return_t ret = find_named(choice->plugin, choice->protocol, &transport, why);

    if (ret != NA_SUCCESS)
        return ret;
    ret = na_offers_add(offers, transport, choice->protocol);
    if (ret == NA_NOMEM)
        return ret;
    if (ret != NA_SUCCESS) {
        text_append(why, "plugin %s cannot list its protocols: %s", transport->name,
                    NA_Error_to_string(ret));
        return ret;
    }
    if (offers->count == 0) {
        text_append(why, "plugin %s does not offer the protocol \"%s\"", transport->name,
                    choice->protocol);
        append_offered(transport, why);
        return NA_PROTONOSUPPORT;
    }
    sort_offers(offers, false);
    return NA_SUCCESS;
}

/* `protocol` or `auto`: every plugin is asked. */
static na_return_t select_any(const struct na_init_choice *choice, struct na_offers *offers,
                              struct text *why)
{
    const struct na_transport **transports;
    size_t count = 0;
    na_return_t ret;

    ret = na_loader_get_all(&transports, &count, why);
    if (ret != NA_SUCCESS)
        return ret;
    for (size_t i = 0; i < count && ret != NA_NOMEM; i++) {
        ret = na_offers_add(offers, transports[i], choice->protocol);
        if (ret != NA_SUCCESS)
            text_append(why, "%splugin %s cannot list its protocols: %s",
                        why->length > 0 ? "; " : "", transports[i]->name, NA_Error_to_string(ret));
    }
    free(transports);
    if (ret == NA_NOMEM)
        return ret;
    if (offers->count == 0) {
        if (count == 0)
            text_append(why, "%sthere is no plugin", why->length > 0 ? "; " : "");
        else
            text_append(why, "%snone of %zu plugins offers %s", why->length > 0 ? "; " : "", count,
                        choice->protocol != NULL ? choice->protocol : "anything");
        return count == 0 ? NA_NOENTRY : NA_PROTONOSUPPORT;
    }
    sort_offers(offers, true);
    return NA_SUCCESS;
}

/* A name is a file's, or a further class name of the plugin that is called like the protocol, or of
 * any. */
static na_return_t find_named(const char *name, const char *protocol,
                              const struct na_transport **transport_p, struct text *why)
{
    struct text ignored = TEXT_INITIALIZER;
    na_return_t ret = na_loader_get(name, transport_p, why);

    /* A file that is there, though it cannot be loaded, is the one that was meant. */
    if (ret != NA_NOENTRY)
        return ret;
    if (na_plugin_name_is_valid(protocol) && strcmp(name, protocol) != 0) {
        ret = na_loader_get(protocol, transport_p, &ignored);
        text_free(&ignored);
        if (ret == NA_SUCCESS && na_transport_has_name(*transport_p, name))
            return NA_SUCCESS;
        if (ret == NA_NOMEM)
            return ret;
    }
    return find_alias(name, transport_p, why);
}

static na_return_t find_alias(const char *name, const struct na_transport **transport_p,
                              struct text *why)
{
    const struct na_transport **transports;
    size_t count = 0;
    na_return_t ret = na_loader_get_all(&transports, &count, why);

    *transport_p = NULL;
    if (ret != NA_SUCCESS)
        return ret;
    for (size_t i = 0; i < count && *transport_p == NULL; i++)
        if (na_transport_has_name(transports[i], name))
            *transport_p = transports[i];
    free(transports);
    if (*transport_p == NULL) {
        text_append(why, "; none of %zu other plugins has the class name \"%s\"", count, name);
        return NA_NOENTRY;
    }
    return NA_SUCCESS;
}

static void append_offered(const struct na_transport *transport, struct text *why)
{
    struct na_offers offers = {0};

    if (na_offers_add(&offers, transport, NULL) == NA_SUCCESS) {
        text_append(why, "; it offers");
        for (size_t i = 0; i < offers.count; i++)
            text_append(why, "%s %s", i > 0 ? "," : "", offers.items[i].protocol);
        if (offers.count == 0)
            text_append(why, " nothing on this machine");
    }
    na_offers_free(&offers);
}

static int32_t collect_offer(void *arg, const struct na_plugin_offer *offer)
{
    struct collector *collector = arg;
    struct na_offers *offers = collector->offers;

    if (offer == NULL || offer->protocol == NULL || offer->protocol[0] == '\0') {
        NA_LOG_WARNING("plugin %s offers a protocol without a name; ignored",
                       collector->transport->name);
        return NA_PLUGIN_SUCCESS;
    }
    if (offers->count == collector->limit)
        return NA_PLUGIN_OVERFLOW;
    if (offers->count == offers->size) {
        size_t size = 2 * offers->size + 8;
        struct na_offer *items = realloc(offers->items, size * sizeof(*items));

        if (items == NULL) {
            collector->ret = NA_NOMEM;
            return NA_PLUGIN_NOMEM;
        }
        offers->items = items;
        offers->size = size;
    }
    if (!offer_copy(&offers->items[offers->count], collector->transport, offer)) {
        collector->ret = NA_NOMEM;
        return NA_PLUGIN_NOMEM;
    }
    offers->count++;
    return NA_PLUGIN_SUCCESS;
}

static bool offer_copy(struct na_offer *copy, const struct na_transport *transport,
                       const struct na_plugin_offer *offer)
{
    memset(copy, 0, sizeof(*copy));
    copy->transport = transport;
    copy->priority = offer->priority;
    copy->usable = (offer->flags & NA_PLUGIN_OFFER_USABLE) != 0;
    copy->node_local = (offer->flags & NA_PLUGIN_OFFER_NODE_LOCAL) != 0;
    copy->protocol = strdup(offer->protocol);
    copy->device = strdup(offer->device != NULL ? offer->device : "");
    copy->reason = strdup(offer->reason != NULL ? offer->reason : "");
    if (copy->protocol != NULL && copy->device != NULL && copy->reason != NULL)
        return true;
    offer_free(copy);
    return false;
}

static void offer_free(struct na_offer *offer)
{
    free(offer->protocol);
    free(offer->device);
    free(offer->reason);
}

/* Insertion keeps the plugins' own order among equals, and there are few. */
static void sort_offers(struct na_offers *offers, bool by_priority)
{
    for (size_t i = 1; i < offers->count; i++) {
        struct na_offer moved = offers->items[i];
        size_t j = i;

        for (; j > 0 && compare_offers(&moved, &offers->items[j - 1], by_priority) < 0; j--)
            offers->items[j] = offers->items[j - 1];
        offers->items[j] = moved;
    }
}

/* Usable ones first, then the highest priority; of equals those that also reach other machines. */
static int compare_offers(const struct na_offer *offer1, const struct na_offer *offer2,
                          bool by_priority)
{
    if (offer1->usable != offer2->usable)
        return offer1->usable ? -1 : 1;
    if (!by_priority)
        return 0;
    if (offer1->priority != offer2->priority)
        return offer1->priority > offer2->priority ? -1 : 1;
    return (int) offer1->node_local - (int) offer2->node_local;
}
