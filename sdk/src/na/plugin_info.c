/* SPDX-License-Identifier: BSD-3-Clause */
/* Information about a loaded plugin, which tools print. */

#include "na/plugin_info.h"

#include "na/class.h"
#include "na/log.h"
#include "na/select.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX   20
#define LIMIT_COUNT 3
#define DETAILS_MAX 256

/* The public part is first. Its strings belong to the plugin, which is never unloaded, or to
 * `offers`. */
struct info {
    struct na_plugin_info info;
    const char *class_names[NA_CLASS_NAMES_MAX + 1];
    const char *capabilities[WORDS_MAX];
    struct na_plugin_limit limits[LIMIT_COUNT];
    struct na_plugin_protocol *protocols;
    char (*details)[DETAILS_MAX]; /* of each protocol */
    struct na_offers offers;
};

static void fill_class_names(struct info *info, const struct na_transport *transport);
static bool is_name_of(const char *const *names, size_t count, const char *name);
static size_t list_capabilities(const struct na_transport *transport, uint64_t flags,
                                const char **words);
static void fill_limits(struct info *info, const struct na_transport *transport);
static na_return_t fill_protocols(struct info *info, const struct na_transport *transport);
static void fill_details(struct info *info, const struct na_transport *transport);

na_return_t na_plugin_info_make(const struct na_transport *transport,
                                const struct na_plugin_info **info_p)
{
    const struct na_plugin *table = &transport->table;
    struct info *info = calloc(1, sizeof(*info));
    na_return_t ret;

    if (info == NULL)
        return NA_NOMEM;
    info->info.version = table->version != NULL ? table->version : "";
    info->info.description = table->description != NULL ? table->description : "";
    fill_class_names(info, transport);
    info->info.capabilities = info->capabilities;
    info->info.capability_count =
        list_capabilities(transport, transport->table.capabilities, info->capabilities);
    fill_limits(info, transport);
    ret = fill_protocols(info, transport);
    if (ret != NA_SUCCESS) {
        na_plugin_info_free(&info->info);
        return ret;
    }
    *info_p = &info->info;
    return NA_SUCCESS;
}

const char *NA_Plugin_get_offer_details(const struct na_plugin_record *record, size_t protocol)
{
    const struct info *info =
        record != NULL ? (const struct info *) (const void *) record->info : NULL;

    return info != NULL && protocol < info->info.protocol_count ? info->details[protocol] : "";
}

bool NA_Class_has_capability(const na_class_t *na_class, const char *capability)
{
    const char *words[WORDS_MAX];
    size_t count;

    if (na_class == NULL || capability == NULL)
        return false;
    count = list_capabilities(na_class->transport, na_class->info.capabilities, words);
    return is_name_of(words, count, capability);
}

bool NA_Addr_has_capability(const na_class_t *na_class, na_addr_t *addr, const char *capability)
{
    const char *words[WORDS_MAX];
    uint64_t flags;
    size_t count;

    if (na_class_fork_refused(na_class, __func__) || na_class == NULL || addr == NULL ||
        capability == NULL)
        return false;
    flags = na_class->info.capabilities;
    if (na_class->table.addr_capabilities != NULL)
        flags &= na_class->table.addr_capabilities(na_class->plugin_class,
                                                   (struct na_plugin_addr *) addr);
    count = list_capabilities(na_class->transport, flags, words);
    return is_name_of(words, count, capability);
}

void na_plugin_info_free(const struct na_plugin_info *public_info)
{
    struct info *info = (struct info *) (uintptr_t) public_info;

    if (info == NULL)
        return;
    na_offers_free(&info->offers);
    free(info->protocols);
    free(info->details);
    free(info);
}

static void fill_class_names(struct info *info, const struct na_transport *transport)
{
    const char *const *names = transport->table.class_names;
    size_t count = 0;

    info->class_names[count++] = transport->name;
    for (; names != NULL && *names != NULL && count <= NA_CLASS_NAMES_MAX; names++)
        if (!is_name_of(info->class_names, count, *names)) /* they may repeat the plugin's name */
            info->class_names[count++] = *names;
    info->info.class_names = info->class_names;
    info->info.class_name_count = count;
}

static bool is_name_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Writes the names of the capabilities, of which some depend on `flags` and others on the functions
 * that the plugin has. Returns how many, at most WORDS_MAX. */
static size_t list_capabilities(const struct na_transport *transport, uint64_t flags,
                                const char **words)
{
    const struct {
        bool there;
        const char *word;
    } known[] = {
        {(flags & NA_PLUGIN_CAP_RMA) != 0, "rma"},
        {(flags & NA_PLUGIN_CAP_RMA_NATIVE) != 0, "native_rma"},
        {(flags & NA_PLUGIN_CAP_WAIT_FD) != 0, "wait_fd"},
        {(flags & NA_PLUGIN_CAP_CANCEL_SEND) != 0, "cancel_send"},
        {(flags & NA_PLUGIN_CAP_PEER_DEATH) != 0, "peer_death"},
        {(flags & NA_PLUGIN_CAP_DEVICE_MEM) != 0, "device_memory"},
        {(flags & NA_PLUGIN_CAP_FORWARD_PROG) != 0, "forward_progress"},
        {(flags & NA_PLUGIN_CAP_NO_THREADS) != 0, "no_threads"},
        {(flags & NA_PLUGIN_CAP_AUTHENTICATED) != 0, "authenticated"},
        {(flags & NA_PLUGIN_CAP_ENCRYPTED) != 0, "encrypted"},
        {(flags & NA_PLUGIN_CAP_SECOND_KEY) != 0, "second_key"},
        {(flags & NA_PLUGIN_CAP_MEM_PER_SESSION) != 0, "memory_per_session"},
        {transport->table.poll_wait != NULL, "poll_wait"},
        {transport->mem_segments.mem_create_segments != NULL, "memory_segments"},
        {transport->multi_recv.msg_multi_recv_unexpected != NULL, "multi_recv"},
        {transport->addr_serialize.addr_serialize != NULL, "addr_serialize"},
        {transport->peer_events.peer_events_set != NULL, "peer_events"},
        {transport->mem_alloc.mem_alloc != NULL, "memory_allocation"},
    };
    size_t count = 0;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].there)
            words[count++] = known[i].word;
    return count;
}

/* The limits that hold for all classes; those of messages are known of an open class only. */
static void fill_limits(struct info *info, const struct na_transport *transport)
{
    const uint64_t segments = transport->mem_segments.mem_create_segments != NULL
                                  ? transport->mem_segments.max_segments
                                  : 1;

    info->limits[0] = (struct na_plugin_limit){"op_size", transport->table.op_size};
    info->limits[1] = (struct na_plugin_limit){"op_align", transport->table.op_align};
    info->limits[2] = (struct na_plugin_limit){"max_segments", segments};
    info->info.limits = info->limits;
    info->info.limit_count = LIMIT_COUNT;
}

static na_return_t fill_protocols(struct info *info, const struct na_transport *transport)
{
    na_return_t plugin_ret, ret = na_offers_add(&info->offers, transport, NULL, &plugin_ret);

    if (ret != NA_SUCCESS)
        return ret;
    if (plugin_ret != NA_SUCCESS)
        NA_LOG_WARNING("plugin %s cannot list its protocols: %s", transport->name,
                       NA_Error_to_string(plugin_ret));
    info->protocols = calloc(info->offers.count + 1, sizeof(*info->protocols));
    info->details = calloc(info->offers.count + 1, sizeof(*info->details));
    if (info->protocols == NULL || info->details == NULL)
        return NA_NOMEM;
    for (size_t i = 0; i < info->offers.count; i++) {
        const struct na_offer *offer = &info->offers.items[i];

        info->protocols[i] = (struct na_plugin_protocol){.name = offer->protocol,
                                                         .device_name = offer->device,
                                                         .priority = offer->priority,
                                                         .node_local = offer->node_local,
                                                         .usable = offer->usable,
                                                         .reason = offer->reason};
    }
    info->info.protocols = info->protocols;
    info->info.protocol_count = info->offers.count;
    fill_details(info, transport);
    return NA_SUCCESS;
}

static void fill_details(struct info *info, const struct na_transport *transport)
{
    for (size_t i = 0; i < info->offers.count; i++) {
        const struct na_offer *offer = &info->offers.items[i];
        char *text = info->details[i];

        if (transport->offer_details.offer_describe == NULL || !offer->usable ||
            transport->offer_details.offer_describe(offer->protocol, offer->device, text,
                                                    DETAILS_MAX) != NA_PLUGIN_SUCCESS)
            text[0] = '\0';
        text[DETAILS_MAX - 1] = '\0';
    }
}
