/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocols that can be opened on this machine, and why others cannot. */

#include "ucx.h"

#include <stdio.h>
#include <string.h>

/*
 * The priority for `auto`. With RDMA hardware ucx comes before all that would use sockets, without
 * it behind.
 */
#define UCX_PRIORITY_HARDWARE 80
#define UCX_PRIORITY_ALL      40
#define UCX_PRIORITY_TCP      35
#define UCX_PRIORITY_LOCAL    20

struct ucx_protocol {
    const char *name;
    int32_t priority;
    uint32_t flags;
};

static int32_t ucx_report(const struct ucx_protocol *protocol, na_plugin_offer_fn report,
                          void *arg);
static int32_t ucx_report_devices(struct na_plugin_offer *offer, const char *tls,
                                  na_plugin_offer_fn report, void *arg);
static int32_t ucx_priority_of_list(const char *tls);
static bool ucx_hardware_is_present(void);

/* The best protocol comes first. Other lists of transports are reported if asked for by name. */
static const struct ucx_protocol ucx_protocols[] = {
    {"all", UCX_PRIORITY_ALL, 0},         {"dc", UCX_PRIORITY_HARDWARE - 1, 0},
    {"rc", UCX_PRIORITY_HARDWARE - 2, 0}, {"ud", UCX_PRIORITY_HARDWARE - 10, 0},
    {"tcp", UCX_PRIORITY_TCP, 0},         {"sm", UCX_PRIORITY_LOCAL, NA_PLUGIN_OFFER_NODE_LOCAL},
};

int32_t ucx_enumerate(const char *name, na_plugin_offer_fn report, void *arg)
{
    struct ucx_protocol other = {.name = name};
    char tls[UCX_TLS_MAX];
    int32_t ret = NA_PLUGIN_SUCCESS;

    for (size_t i = 0; i < sizeof(ucx_protocols) / sizeof(ucx_protocols[0]); i++) {
        if (name != NULL && strcmp(name, ucx_protocols[i].name) != 0)
            continue;
        ret = ucx_report(&ucx_protocols[i], report, arg);
        if (ret != NA_PLUGIN_SUCCESS || name != NULL)
            return ret;
    }
    if (name == NULL || !ucx_protocol_to_tls(name, tls))
        return NA_PLUGIN_SUCCESS;
    other.priority = ucx_priority_of_list(tls);
    return ucx_report(&other, report, arg);
}

int32_t ucx_offer_describe(const char *protocol, const char *device, char *text, uint64_t size)
{
    bool has_hardware, has_others;
    char tls[UCX_TLS_MAX];

    (void) device;
    if (!ucx_protocol_to_tls(protocol, tls))
        return NA_PLUGIN_NODEV;
    ucx_resources_find(tls, &has_hardware, &has_others);
    (void) snprintf(text, size, "UCX %s; %s; registration: by UCX", ucp_get_version_string(),
                    has_hardware ? "native RMA of memory to read and write, else emulated"
                                 : "emulated RMA");
    return NA_PLUGIN_SUCCESS;
}

static int32_t ucx_report(const struct ucx_protocol *protocol, na_plugin_offer_fn report, void *arg)
{
    char tls[UCX_TLS_MAX], missing[UCX_TLS_MAX], offered[UCX_OFFERED_MAX];
    char reason[UCX_TLS_MAX + UCX_OFFERED_MAX + 64];
    struct na_plugin_offer offer = {
        .protocol = protocol->name,
        .priority = protocol->priority,
        .flags = protocol->flags,
    };

    if (!ucx_protocol_to_tls(protocol->name, tls))
        return NA_PLUGIN_SUCCESS;
    if (strcmp(protocol->name, "all") == 0 && ucx_hardware_is_present())
        offer.priority = UCX_PRIORITY_HARDWARE;
    if (!ucx_protocol_missing(tls, missing, sizeof(missing))) {
        offer.flags |= NA_PLUGIN_OFFER_USABLE;
        return ucx_report_devices(&offer, tls, report, arg);
    }
    ucx_resources_text(offered);
    (void) snprintf(reason, sizeof(reason), "no '%s' on this machine; UCX offers %s", missing,
                    offered);
    offer.reason = reason;
    return report(arg, &offer);
}

/* A list of transports is one offer; a single one is an offer for each device. */
static int32_t ucx_report_devices(struct na_plugin_offer *offer, const char *tls,
                                  na_plugin_offer_fn report, void *arg)
{
    const struct ucx_resource *list;
    uint32_t count = ucx_resources(&list);
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (strchr(tls, ',') != NULL || strcmp(tls, "all") == 0 ||
        (offer->flags & NA_PLUGIN_OFFER_NODE_LOCAL) != 0)
        return report(arg, offer);
    for (uint32_t i = 0; i < count && ret == NA_PLUGIN_SUCCESS; i++) {
        bool seen = false;

        if (!ucx_protocol_has(tls, list[i].transport))
            continue;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = ucx_protocol_has(tls, list[k].transport) &&
                   strcmp(list[k].device, list[i].device) == 0;
        offer->device = list[i].device;
        if (!seen)
            ret = report(arg, offer);
    }
    return ret;
}

static int32_t ucx_priority_of_list(const char *tls)
{
    if (ucx_protocol_has(tls, "rc_verbs") || ucx_protocol_has(tls, "rc_mlx5") ||
        ucx_protocol_has(tls, "dc_mlx5"))
        return UCX_PRIORITY_HARDWARE - 3;
    return ucx_protocol_has(tls, "tcp") ? UCX_PRIORITY_TCP - 1 : UCX_PRIORITY_LOCAL - 1;
}

static bool ucx_hardware_is_present(void)
{
    const struct ucx_resource *list;
    uint32_t count = ucx_resources(&list);

    for (uint32_t i = 0; i < count; i++)
        if (strncmp(list[i].transport, "rc_", 3) == 0 || strncmp(list[i].transport, "dc_", 3) == 0)
            return true;
    return false;
}
