/* SPDX-License-Identifier: BSD-3-Clause */
/* Selects plugins by the offers that they declare. The core has no list of plugin names. */

#include "na/select.h"

#include "na/class.h"
#include "na/loader.h"
#include "na/log.h"
#include "na/selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFER_TEXT_MAX 512 /* a longer device name or reason is truncated */

/* The argument of collect_offer(). */
struct collector {
    struct na_offers *offers;
    const struct na_transport *transport;
    const char *protocol; /* the one that the plugin was asked for; NULL: all */
    size_t limit;         /* of offers->count */
    bool full;            /* the plugin has more offers than the limit */
    bool no_memory;       /* the core had no memory for an offer */
};

static na_return_t select_named(const struct na_init_choice *choice, struct na_offers *offers,
                                struct text *why);
static na_return_t select_any(const struct na_init_choice *choice, struct na_offers *offers,
                              struct na_selection *selection, struct text *why);
static na_return_t collect_any(const struct na_init_choice *choice,
                               const struct na_transport *const *transports, size_t count,
                               struct na_offers *offers, struct na_selection *selection);
static na_return_t prefer_plugin_name(const char *word,
                                      const struct na_transport *const *transports, size_t count,
                                      struct na_offers *offers, struct na_selection *selection);
static na_return_t report_unloadable(const char *word, struct na_selection *selection);
static void drop_others(struct na_offers *offers, const struct na_transport *named,
                        const char *word, struct na_selection *selection);
static na_return_t offers_append(struct na_offers *offers, struct na_offers *more);
static bool any_is_usable(const struct na_offers *offers, const struct na_transport *transport);
static void drop_named_only(struct na_offers *offers);
static na_return_t find_named(const char *name, const char *protocol,
                              const struct na_transport **transport_p, struct text *why);
static na_return_t find_alias(const char *name, const struct na_transport **transport_p,
                              struct text *why);
static void append_offered(const struct na_transport *transport, struct text *why);
static bool is_listed_before(const struct na_offers *offers, size_t index);
static int32_t collect_offer(void *arg, const struct na_plugin_offer *offer);
static bool collector_wants(const struct collector *collector, const struct na_plugin_offer *offer);
static bool offer_copy(struct na_offer *copy, const struct na_transport *transport,
                       const struct na_plugin_offer *offer);
static const char *offer_device(const struct na_transport *transport,
                                const struct na_plugin_offer *offer);
static void offer_free(struct na_offer *offer);
static void sort_offers(struct na_offers *offers, bool by_priority);
static int compare_offers(const struct na_offer *offer1, const struct na_offer *offer2,
                          bool by_priority);

na_return_t na_select(const struct na_init_choice *choice, struct na_offers *offers,
                      struct na_selection *selection, struct text *why)
{
    na_return_t ret;

    memset(offers, 0, sizeof(*offers));
    ret = choice->plugin != NULL ? select_named(choice, offers, why)
                                 : select_any(choice, offers, selection, why);
    if (ret == NA_NOMEM && why->length == 0)
        text_append(why, "out of memory");
    if (ret != NA_SUCCESS)
        na_offers_free(offers);
    return ret;
}

na_return_t na_offers_add(struct na_offers *offers, const struct na_transport *transport,
                          const char *protocol, na_return_t *plugin_ret)
{
    struct collector collector = {.offers = offers,
                                  .transport = transport,
                                  .protocol = protocol,
                                  .limit = offers->count + NA_OFFERS_MAX};

    na_plugin_enter(transport->path);
    *plugin_ret =
        na_return_from_plugin(transport->table.enumerate(protocol, collect_offer, &collector));
    na_plugin_leave();
    if (collector.no_memory)
        return NA_NOMEM;
    if (collector.full) {
        NA_LOG_WARNING("plugin %s offers more than %d protocols; the rest is ignored",
                       transport->name, NA_OFFERS_MAX);
        *plugin_ret = NA_SUCCESS;
    }
    return NA_SUCCESS;
}

void na_offers_free(struct na_offers *offers)
{
    for (size_t i = 0; i < offers->count; i++)
        offer_free(&offers->items[i]);
    free(offers->items);
    memset(offers, 0, sizeof(*offers));
}

/* `plugin+protocol`: asks that plugin alone. */
static na_return_t select_named(const struct na_init_choice *choice, struct na_offers *offers,
                                struct text *why)
{
    const struct na_transport *transport;
    na_return_t ret = find_named(choice->plugin, choice->protocol, &transport, why), plugin_ret;

    if (ret != NA_SUCCESS)
        return ret;
    ret = na_offers_add(offers, transport, choice->protocol, &plugin_ret);
    if (ret != NA_SUCCESS)
        return ret;
    if (plugin_ret != NA_SUCCESS) {
        text_append(why, "plugin %s cannot list its protocols: %s", transport->name,
                    NA_Error_to_string(plugin_ret));
        return plugin_ret;
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

/* A word or `auto`: asks every plugin. The word is the name of a protocol or of a plugin. */
static na_return_t select_any(const struct na_init_choice *choice, struct na_offers *offers,
                              struct na_selection *selection, struct text *why)
{
    const struct na_transport **transports;
    struct text problems = TEXT_INITIALIZER;
    size_t count = 0;
    na_return_t ret;

    ret = na_loader_get_all(choice->protocol, &transports, &count, &problems);
    if (ret != NA_SUCCESS)
        return ret;
    ret = collect_any(choice, transports, count, offers, selection);
    if (ret == NA_SUCCESS && choice->protocol != NULL)
        ret = prefer_plugin_name(choice->protocol, transports, count, offers, selection);
    free(transports);
    if (ret == NA_SUCCESS && offers->count == 0) {
        if (count == 0) {
            text_append(why, "there is no plugin in ");
            na_loader_append_directories(why);
            text_append(why, "; set NA_PLUGIN_PATH to where the plugins are");
        } else if (choice->protocol != NULL) {
            text_append(why, "no plugin offers %s or has that name (asked: %zu)", choice->protocol,
                        count);
        } else {
            text_append(why, "no plugin offers anything (asked: %zu)", count);
        }
        if (problems.length > 0)
            text_append(why, "; %s", text_get(&problems));
        ret = count == 0 ? NA_NOENTRY : NA_PROTONOSUPPORT;
    }
    text_free(&problems);
    sort_offers(offers, true);
    return ret;
}

/* Asks each plugin. One that cannot list its protocols is reported and skipped. */
static na_return_t collect_any(const struct na_init_choice *choice,
                               const struct na_transport *const *transports, size_t count,
                               struct na_offers *offers, struct na_selection *selection)
{
    na_return_t ret = NA_SUCCESS, plugin_ret;
    char reason[128];

    for (size_t i = 0; i < count && ret == NA_SUCCESS; i++) {
        ret = na_offers_add(offers, transports[i], choice->protocol, &plugin_ret);
        if (ret == NA_SUCCESS && plugin_ret != NA_SUCCESS) {
            (void) snprintf(reason, sizeof(reason), "the plugin cannot list its protocols: %s",
                            NA_Error_to_string(plugin_ret));
            na_selection_add(selection, transports[i]->name,
                             choice->protocol != NULL ? choice->protocol : "auto", false, reason);
        }
    }
    drop_named_only(offers);
    return ret;
}

/*
 * If the word is a plugin's name, keeps that plugin's offers alone: those of the protocol of the
 * same name, or, if none of these is usable, all. If it has no usable offer at all, the offers of
 * other plugins for a protocol of that name stay.
 */
static na_return_t prefer_plugin_name(const char *word,
                                      const struct na_transport *const *transports, size_t count,
                                      struct na_offers *offers, struct na_selection *selection)
{
    const struct na_init_choice all = {NULL, NULL, NULL};
    const struct na_transport *named = NULL;
    struct na_offers own = {0};
    na_return_t ret;

    for (size_t i = 0; i < count && named == NULL; i++)
        if (na_transport_has_name(transports[i], word))
            named = transports[i];
    if (named == NULL)
        return report_unloadable(word, selection);
    if (!any_is_usable(offers, named)) {
        ret = collect_any(&all, &named, 1, &own, selection);
        if (ret == NA_SUCCESS && (any_is_usable(&own, named) || !any_is_usable(offers, NULL)))
            ret = offers_append(offers, &own);
        na_offers_free(&own);
        if (ret != NA_SUCCESS)
            return ret;
    }
    if (any_is_usable(offers, named))
        drop_others(offers, named, word, selection);
    return NA_SUCCESS;
}

/* Reports a plugin file of that name that could not be loaded: the word may have meant it. */
static na_return_t report_unloadable(const char *word, struct na_selection *selection)
{
    struct text why = TEXT_INITIALIZER;
    na_return_t ret = NA_SUCCESS;

    if (na_plugin_name_is_valid(word))
        ret = na_loader_explain(word, &why);
    if (ret == NA_NODEV)
        na_selection_add(selection, word, "", false, text_get(&why));
    text_free(&why);
    return ret == NA_NOMEM ? ret : NA_SUCCESS;
}

static void drop_others(struct na_offers *offers, const struct na_transport *named,
                        const char *word, struct na_selection *selection)
{
    char reason[512];
    size_t kept = 0;

    for (size_t i = 0; i < offers->count; i++) {
        struct na_offer *offer = &offers->items[i];
        const char *class_name = na_transport_class_name(offer->transport);

        if (offer->transport == named) {
            offers->items[kept++] = *offer;
            continue;
        }
        (void) snprintf(reason, sizeof(reason),
                        "not considered: %.64s is also the name of a plugin, which comes first; "
                        "write %.64s+%.64s for this one",
                        word, class_name, offer->protocol);
        na_selection_add(selection, class_name, offer->protocol, false, reason);
        offer_free(offer);
    }
    offers->count = kept;
}

/* Moves all offers of `more` to `offers`. */
static na_return_t offers_append(struct na_offers *offers, struct na_offers *more)
{
    const size_t size = offers->count + more->count;
    struct na_offer *items = realloc(offers->items, (size + 1) * sizeof(*items));

    if (items == NULL)
        return NA_NOMEM;
    if (more->count > 0)
        memcpy(items + offers->count, more->items, more->count * sizeof(*items));
    offers->items = items;
    offers->count = size;
    offers->size = size + 1;
    more->count = 0;
    return NA_SUCCESS;
}

/* Returns whether an offer of this plugin, or of any (NULL), is usable. */
static bool any_is_usable(const struct na_offers *offers, const struct na_transport *transport)
{
    for (size_t i = 0; i < offers->count; i++)
        if (offers->items[i].usable &&
            (transport == NULL || offers->items[i].transport == transport))
            return true;
    return false;
}

static void drop_named_only(struct na_offers *offers)
{
    size_t kept = 0;

    for (size_t i = 0; i < offers->count; i++) {
        if (offers->items[i].named_only)
            offer_free(&offers->items[i]);
        else
            offers->items[kept++] = offers->items[i];
    }
    offers->count = kept;
}

/* Finds the plugin whose file has the name; or else one that has it as a further class name: the
 * plugin named like the protocol (`na+sm`), or any other. */
static na_return_t find_named(const char *name, const char *protocol,
                              const struct na_transport **transport_p, struct text *why)
{
    struct text ignored = TEXT_INITIALIZER;
    na_return_t ret = na_loader_get(name, transport_p, why);

    /* If the file exists but cannot be loaded, no other plugin is searched. */
    if (ret != NA_NOENTRY)
        return ret;
    if (na_plugin_name_is_valid(protocol) && strcmp(name, protocol) != 0) {
        ret = na_loader_get(protocol, transport_p, &ignored);
        text_free(&ignored); /* find_alias() finds the same error */
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
    struct text problems = TEXT_INITIALIZER;
    size_t count = 0;
    na_return_t ret = na_loader_get_all(NULL, &transports, &count, &problems);

    *transport_p = NULL;
    if (ret != NA_SUCCESS)
        return ret;
    for (size_t i = 0; i < count && *transport_p == NULL; i++)
        if (na_transport_has_name(transports[i], name))
            *transport_p = transports[i];
    free(transports);
    if (*transport_p == NULL) {
        text_append(why, "there is no na_%s.so in ", name);
        na_loader_append_directories(why);
        if (count > 0)
            text_append(why, ", and no other plugin has the class name \"%s\" (asked: %zu)", name,
                        count);
        else
            text_append(why, ", and no other plugin; set NA_PLUGIN_PATH to where the plugins are");
        na_loader_record_missing(name, why);
        if (problems.length > 0)
            text_append(why, "; %s", text_get(&problems));
        ret = NA_NOENTRY;
    }
    text_free(&problems);
    return ret;
}

static void append_offered(const struct na_transport *transport, struct text *why)
{
    struct na_offers offers = {0};
    na_return_t plugin_ret;
    bool first = true;

    if (na_offers_add(&offers, transport, NULL, &plugin_ret) == NA_SUCCESS &&
        plugin_ret == NA_SUCCESS) {
        text_append(why, "; it offers");
        for (size_t i = 0; i < offers.count; i++) {
            if (is_listed_before(&offers, i))
                continue;
            text_append(why, "%s %s", first ? "" : ",", offers.items[i].protocol);
            first = false;
        }
        if (offers.count == 0)
            text_append(why, " nothing on this machine");
    }
    na_offers_free(&offers);
}

/* A plugin has an offer for each device of a protocol. */
static bool is_listed_before(const struct na_offers *offers, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(offers->items[i].protocol, offers->items[index].protocol) == 0)
            return true;
    return false;
}

static int32_t collect_offer(void *arg, const struct na_plugin_offer *offer)
{
    struct collector *collector = arg;
    struct na_offers *offers = collector->offers;

    if (!collector_wants(collector, offer))
        return NA_PLUGIN_SUCCESS;
    if (offers->count == collector->limit) {
        collector->full = true;
        return NA_PLUGIN_OVERFLOW;
    }
    if (offers->count == offers->size) {
        size_t size = 2 * offers->size + 8;
        struct na_offer *items = realloc(offers->items, size * sizeof(*items));

        if (items == NULL) {
            collector->no_memory = true;
            return NA_PLUGIN_NOMEM;
        }
        offers->items = items;
        offers->size = size;
    }
    if (!offer_copy(&offers->items[offers->count], collector->transport, offer)) {
        collector->no_memory = true;
        return NA_PLUGIN_NOMEM;
    }
    offers->count++;
    return NA_PLUGIN_SUCCESS;
}

static bool collector_wants(const struct collector *collector, const struct na_plugin_offer *offer)
{
    const char *plugin = collector->transport->name;

    if (offer == NULL || offer->protocol == NULL || offer->protocol[0] == '\0') {
        NA_LOG_WARNING("plugin %s offers a protocol without a name; ignored", plugin);
        return false;
    }
    if (!na_protocol_name_is_valid(offer->protocol)) {
        NA_LOG_WARNING("plugin %s offers the protocol \"%.64s\", which no init string can ask for: "
                       "a name has only letters, digits and \"_-.;+\"; not used",
                       plugin, offer->protocol);
        return collector->protocol == NULL;
    }
    if (collector->protocol != NULL && strcmp(collector->protocol, offer->protocol) != 0) {
        NA_LOG_WARNING("plugin %s offers \"%s\" when asked for \"%s\"; ignored", plugin,
                       offer->protocol, collector->protocol);
        return false;
    }
    return true;
}

/* A protocol whose name no init string can contain is kept as not usable, so that tools show it. */
static bool offer_copy(struct na_offer *copy, const struct na_transport *transport,
                       const struct na_plugin_offer *offer)
{
    const bool valid = na_protocol_name_is_valid(offer->protocol);
    const char *reason = valid ? offer->reason : "no init string can ask for this name";

    memset(copy, 0, sizeof(*copy));
    copy->transport = transport;
    copy->priority = offer->priority;
    copy->usable = valid && (offer->flags & NA_PLUGIN_OFFER_USABLE) != 0;
    copy->node_local = (offer->flags & NA_PLUGIN_OFFER_NODE_LOCAL) != 0;
    copy->named_only = (offer->flags & NA_PLUGIN_OFFER_NAMED_ONLY) != 0;
    copy->protocol = strndup(offer->protocol, NA_PROTOCOL_NAME_MAX);
    copy->device = strndup(offer_device(transport, offer), OFFER_TEXT_MAX);
    copy->reason = strndup(reason != NULL ? reason : "", OFFER_TEXT_MAX);
    if (copy->protocol != NULL && copy->device != NULL && copy->reason != NULL)
        return true;
    offer_free(copy);
    return false;
}

/* Returns "" for a device whose name no init string can contain: a string built from it would be
 * malformed. */
static const char *offer_device(const struct na_transport *transport,
                                const struct na_plugin_offer *offer)
{
    if (offer->device == NULL)
        return "";
    for (const char *c = offer->device; *c != '\0'; c++) {
        if ((unsigned char) *c > ' ' && *c != 0x7f && *c != ',')
            continue;
        NA_LOG_WARNING("plugin %s offers \"%.64s\" on the device \"%.64s\", which no init string "
                       "can name: a device has no spaces, commas or control characters; left out",
                       transport->name, offer->protocol, offer->device);
        return "";
    }
    return offer->device;
}

static void offer_free(struct na_offer *offer)
{
    free(offer->protocol);
    free(offer->device);
    free(offer->reason);
}

/* Insertion sort: it is stable, so equal offers stay in the plugin's order, and they are few. */
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

/* Usable offers come first, then higher priorities, then offers that also reach other nodes. */
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
