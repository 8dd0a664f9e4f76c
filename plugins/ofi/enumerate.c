/* SPDX-License-Identifier: BSD-3-Clause */
/* The providers on this machine, from one fi_getinfo() for the process, because it is slow. */

#include "ofi.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void ofi_offered_providers(char *text, size_t size);
static const struct fi_info *ofi_enumerate_list(void);
static int32_t ofi_report_protocol(const struct ofi_protocol *protocol, const struct fi_info *list,
                                   na_plugin_offer_fn report, void *arg);
static int32_t ofi_report_missing(const struct ofi_protocol *protocol, na_plugin_offer_fn report,
                                  void *arg);
static uint32_t ofi_offer_flags(const struct ofi_protocol *protocol);
static int32_t ofi_report_rest(const struct fi_info *list, na_plugin_offer_fn report, void *arg);
static bool ofi_info_seen(const struct fi_info *list, const struct fi_info *info,
                          const struct ofi_protocol *protocol);
static bool ofi_provider_seen(const struct fi_info *list, const struct fi_info *info);
static bool ofi_protocol_is_listed(const char *name);

pthread_mutex_t ofi_list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fi_info *ofi_list;
static bool ofi_list_asked;

int32_t ofi_enumerate(const char *name, na_plugin_offer_fn report, void *arg)
{
    const struct fi_info *list = ofi_enumerate_list();
    struct ofi_protocol protocol;
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (name != NULL) {
        if (!ofi_protocol_find(name, &protocol))
            return NA_PLUGIN_SUCCESS;
        return ofi_report_protocol(&protocol, list, report, arg);
    }
    for (uint32_t i = 0; i < ofi_protocol_count && ret == NA_PLUGIN_SUCCESS; i++)
        if (ofi_protocol_find(ofi_protocols[i].name, &protocol))
            ret = ofi_report_protocol(&protocol, list, report, arg);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_report_rest(list, report, arg);
    return ret;
}

/* Describes what a class gets that is opened with default options. */
int32_t ofi_offer_describe(const char *name, const char *device, char *text, uint64_t size)
{
    const struct fi_info *info = ofi_enumerate_list();
    struct ofi_protocol protocol;
    uint64_t mode;

    if (!ofi_protocol_find(name, &protocol))
        return NA_PLUGIN_NODEV;
    while (info != NULL && (!ofi_protocol_has_provider(&protocol, info->fabric_attr->prov_name) ||
                            strcmp(info->domain_attr->name, device != NULL ? device : "") != 0))
        info = info->next;
    if (info == NULL)
        return NA_PLUGIN_NODEV;
    mode = (uint64_t) info->domain_attr->mr_mode;
    (void) snprintf(text, size, "provider %s %u.%u; %s RMA; registration: %s",
                    info->fabric_attr->prov_name, FI_MAJOR(info->fabric_attr->prov_version),
                    FI_MINOR(info->fabric_attr->prov_version),
                    ofi_is_native(&protocol, info) ? "native" : "emulated",
                    mode != 0 ? fi_tostr(&mode, FI_TYPE_MR_MODE) : "any memory, keys of ours");
    return NA_PLUGIN_SUCCESS;
}

void ofi_enumerate_cleanup(void)
{
    (void) pthread_mutex_lock(&ofi_list_lock);
    fi_freeinfo(ofi_list);
    ofi_list = NULL;
    ofi_list_asked = false;
    (void) pthread_mutex_unlock(&ofi_list_lock);
}

/* The address format of a protocol's first provider; FI_FORMAT_UNSPEC if there is no provider. */
uint32_t ofi_offered_format(const struct ofi_protocol *protocol)
{
    for (const struct fi_info *info = ofi_enumerate_list(); info != NULL; info = info->next)
        if (ofi_protocol_has_provider(protocol, info->fabric_attr->prov_name))
            return info->addr_format;
    return FI_FORMAT_UNSPEC;
}

/* Whether the protocol has a domain (device) of that name. */
bool ofi_offered_domain(const struct ofi_protocol *protocol, const char *domain)
{
    for (const struct fi_info *info = ofi_enumerate_list(); info != NULL; info = info->next)
        if (ofi_protocol_has_provider(protocol, info->fabric_attr->prov_name) &&
            strcmp(info->domain_attr->name, domain) == 0)
            return true;
    return false;
}

/* Why the protocol cannot be used: its provider is missing. */
void ofi_missing_text(const struct ofi_protocol *protocol, char *text, size_t size)
{
    char offered[256];

    ofi_offered_providers(offered, sizeof(offered));
    (void) snprintf(text, size,
                    "libfabric %u.%u has no provider '%s' for reliable datagrams and RMA on this "
                    "machine; it offers: %s",
                    FI_MAJOR(fi_version()), FI_MINOR(fi_version()), protocol->provider, offered);
}

static void ofi_offered_providers(char *text, size_t size)
{
    const struct fi_info *list = ofi_enumerate_list();
    size_t used = 0;

    text[0] = '\0';
    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        if (ofi_provider_seen(list, info) || !ofi_provider_opens(info->fabric_attr->prov_name))
            continue;
        used += (size_t) snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                  info->fabric_attr->prov_name);
        if (used >= size)
            return;
    }
    if (used == 0)
        (void) snprintf(text, size, "nothing");
}

/* Lists the domains of a protocol, with their IP addresses if they have one. */
void ofi_offered_domains(const struct ofi_protocol *protocol, char *text, size_t size)
{
    const struct fi_info *list = ofi_enumerate_list();
    size_t used = 0;

    text[0] = '\0';
    for (const struct fi_info *info = list; info != NULL && used < size; info = info->next) {
        char host[NI_MAXHOST] = "";

        if (!ofi_protocol_has_provider(protocol, info->fabric_attr->prov_name) ||
            ofi_info_seen(list, info, protocol))
            continue;
        if (info->src_addr != NULL)
            (void) getnameinfo(info->src_addr, (socklen_t) info->src_addrlen, host, sizeof(host),
                               NULL, 0, NI_NUMERICHOST);
        used += (size_t) snprintf(text + used, size - used, "%s%s%s%s", used > 0 ? ", " : "",
                                  info->domain_attr->name, host[0] != '\0' ? " at " : "", host);
    }
}

/*
 * The list stays until the plugin's cleanup, when no class is open and no thread enumerates. It
 * lacks devices that are added later; ofi_select() has a list of its own and can open them.
 */
static const struct fi_info *ofi_enumerate_list(void)
{
    struct fi_info *hints, *list;

    (void) pthread_mutex_lock(&ofi_list_lock);
    if (!ofi_list_asked) {
        hints = ofi_hints_create(NULL, NULL);
        if (hints != NULL) {
            int ret = fi_getinfo(OFI_API_VERSION, NULL, NULL, 0, hints, &ofi_list);

            if (ret != 0) {
                OFI_LOG_DEBUG("libfabric offers nothing (%s)", fi_strerror(-ret));
                ofi_list = NULL;
            }
            ofi_list_asked = true;
            fi_freeinfo(hints);
        }
    }
    list = ofi_list;
    (void) pthread_mutex_unlock(&ofi_list_lock);
    return list;
}

/* Reports an offer for each device, or an unusable one if there is no device. */
static int32_t ofi_report_protocol(const struct ofi_protocol *protocol, const struct fi_info *list,
                                   na_plugin_offer_fn report, void *arg)
{
    struct na_plugin_offer offer = {
        .protocol = protocol->name,
        .priority = protocol->priority,
        .flags = NA_PLUGIN_OFFER_USABLE | ofi_offer_flags(protocol),
    };
    bool found = false;
    int32_t ret;

    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        if (!ofi_protocol_has_provider(protocol, info->fabric_attr->prov_name) ||
            ofi_info_seen(list, info, protocol))
            continue;
        found = true;
        offer.device = info->domain_attr->name;
        ret = report(arg, &offer);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    return found ? NA_PLUGIN_SUCCESS : ofi_report_missing(protocol, report, arg);
}

static int32_t ofi_report_missing(const struct ofi_protocol *protocol, na_plugin_offer_fn report,
                                  void *arg)
{
    char reason[512];
    struct na_plugin_offer offer = {
        .protocol = protocol->name,
        .reason = reason,
        .priority = protocol->priority,
        .flags = ofi_offer_flags(protocol),
    };

    ofi_missing_text(protocol, reason, sizeof(reason));
    return report(arg, &offer);
}

/* A provider's own name is picked only by init strings that name this plugin, "ofi+...". */
static uint32_t ofi_offer_flags(const struct ofi_protocol *protocol)
{
    return (protocol->node_local ? NA_PLUGIN_OFFER_NODE_LOCAL : 0) |
           (ofi_protocol_is_listed(protocol->name) ? 0 : NA_PLUGIN_OFFER_NAMED_ONLY);
}

/* Reports providers that are not in the table of protocols, under their own names. */
static int32_t ofi_report_rest(const struct fi_info *list, na_plugin_offer_fn report, void *arg)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    for (const struct fi_info *info = list; info != NULL && ret == NA_PLUGIN_SUCCESS;
         info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        struct ofi_protocol protocol;

        if (ofi_provider_is_listed(name) || ofi_provider_seen(list, info) ||
            !ofi_provider_opens(name) || !ofi_protocol_find(name, &protocol))
            continue;
        protocol.priority = 0;
        ret = ofi_report_protocol(&protocol, list, report, arg);
    }
    return ret;
}

/* One device has several entries, with other address formats or utility providers. */
static bool ofi_info_seen(const struct fi_info *list, const struct fi_info *info,
                          const struct ofi_protocol *protocol)
{
    for (; list != info; list = list->next)
        if (ofi_protocol_has_provider(protocol, list->fabric_attr->prov_name) &&
            strcmp(list->domain_attr->name, info->domain_attr->name) == 0)
            return true;
    return false;
}

static bool ofi_provider_seen(const struct fi_info *list, const struct fi_info *info)
{
    for (; list != info; list = list->next)
        if (strcmp(list->fabric_attr->prov_name, info->fabric_attr->prov_name) == 0)
            return true;
    return false;
}

static bool ofi_protocol_is_listed(const char *name)
{
    for (uint32_t i = 0; i < ofi_protocol_count; i++)
        if (strcmp(ofi_protocols[i].name, name) == 0)
            return true;
    return false;
}
