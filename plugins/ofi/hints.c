/* SPDX-License-Identifier: BSD-3-Clause */
/* The hints for fi_getinfo(). */

#include "ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mode bits that this plugin supports. */
#define OFI_MODE (FI_CONTEXT | FI_CONTEXT2)

/* Registration modes that this plugin supports. */
#define OFI_MR_MODE \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

/* Authorization keys, as the manuals fi_cxi(7) and fi_gni(7) lay them out. */
struct ofi_auth_key_cxi {
    uint32_t service;
    uint16_t vni;
};

struct ofi_auth_key_gni {
    uint32_t type; /* 0: raw */
    uint32_t cookie;
};

static uint32_t ofi_traffic_class(uint32_t traffic_class);
static bool ofi_parse_uuid(const char *text, uint8_t *uuid);
static bool ofi_parse_number(const char **text, char end, uint64_t max, uint64_t *value);
static bool ofi_set_key(uint8_t **key_p, size_t *size_p, const void *key, size_t size);

/*
 * `protocol` NULL: of any provider. `init` NULL: only what every class needs. Returns NULL without
 * memory.
 */
struct fi_info *ofi_hints_create(const struct ofi_protocol *protocol,
                                 const struct na_plugin_init *init)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = OFI_MODE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->av_type = FI_AV_UNSPEC;
    hints->domain_attr->mr_mode = OFI_MR_MODE;
    hints->addr_format = FI_FORMAT_UNSPEC;
    if (protocol != NULL) {
        if (protocol->keeps_tagged)
            hints->caps |= FI_TAGGED;
        hints->addr_format = protocol->format;
        hints->fabric_attr->prov_name = strdup(protocol->provider);
        if (hints->fabric_attr->prov_name == NULL) {
            fi_freeinfo(hints);
            return NULL;
        }
    }
    if (init != NULL) {
        hints->domain_attr->tclass = ofi_traffic_class(init->traffic_class);
        hints->tx_attr->tclass = hints->domain_attr->tclass;
        if (protocol != NULL && protocol->auto_to_wait &&
            (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) == 0) {
            hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
            hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
        }
        if (init->request_mem_device != 0) {
            hints->caps |= FI_HMEM;
            hints->domain_attr->mr_mode |= FI_MR_HMEM;
        }
    }
    return hints;
}

/* Sets the address at which an endpoint is opened. Returns 0 or -FI_ENOMEM. */
int ofi_info_set_source(struct fi_info *info, const void *address, size_t size)
{
    void *copy = malloc(size); /* libfabric frees it */

    if (copy == NULL)
        return -FI_ENOMEM;
    memcpy(copy, address, size);
    free(info->src_addr);
    info->src_addr = copy;
    info->src_addrlen = size;
    return 0;
}

/* Sets where to listen: the domain, the socket's address and the name, each of them may be NULL. */
int32_t ofi_hints_set_source(struct fi_info *hints, const struct ofi_protocol *protocol,
                             const char *domain, const struct sockaddr_storage *address,
                             const char *name)
{
    if (domain != NULL) {
        hints->domain_attr->name = strdup(domain);
        if (hints->domain_attr->name == NULL)
            return NA_PLUGIN_NOMEM;
    }
    if (protocol->naming == OFI_NAMING_STRING && name != NULL) {
        size_t size = strlen(name) + sizeof(OFI_STRING_PREFIX);
        char *source = calloc(1, size);

        if (source == NULL)
            return NA_PLUGIN_NOMEM;
        (void) snprintf(source, size, OFI_STRING_PREFIX "%s", name);
        hints->src_addr = source;
        hints->src_addrlen = size;
        hints->addr_format = FI_ADDR_STR;
    } else if (address != NULL && kit_location_length(address) != 0) {
        if (ofi_info_set_source(hints, address, kit_location_length(address)) != 0)
            return NA_PLUGIN_NOMEM;
        hints->addr_format = address->ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    }
    return NA_PLUGIN_SUCCESS;
}

/*
 * Sets the authorization key of domain and endpoint, in the provider's form. A provider without
 * such keys gets none, and the message layer alone proves the key, by HELLO and HELLO_ACK.
 */
int32_t ofi_hints_set_auth_key(struct fi_info *hints, const struct ofi_protocol *protocol,
                               const char *auth_key)
{
    struct ofi_auth_key_gni gni = {0};
    struct ofi_auth_key_cxi cxi;
    uint8_t uuid[16];
    const void *key = NULL;
    const char *form = NULL;
    uint64_t value[2] = {0};
    size_t size = 0;

    switch (protocol->auth) {
    case OFI_AUTH_UUID:
        form = "a UUID, 32 hexadecimal digits";
        if (ofi_parse_uuid(auth_key, uuid)) {
            key = uuid;
            size = sizeof(uuid);
        }
        break;
    case OFI_AUTH_CXI:
        form = "service:vni, two numbers";
        memset(&cxi, 0, sizeof(cxi));
        if (ofi_parse_number(&auth_key, ':', UINT32_MAX, &value[0]) &&
            ofi_parse_number(&auth_key, '\0', UINT16_MAX, &value[1])) {
            cxi.service = (uint32_t) value[0];
            cxi.vni = (uint16_t) value[1];
            key = &cxi;
            size = sizeof(cxi);
        }
        break;
    case OFI_AUTH_COOKIE:
        form = "a number";
        if (ofi_parse_number(&auth_key, '\0', UINT32_MAX, &value[0])) {
            gni.cookie = (uint32_t) value[0];
            key = &gni;
            size = sizeof(gni);
        }
        break;
    case OFI_AUTH_NONE:
        return NA_PLUGIN_SUCCESS;
    }
    if (key == NULL) {
        OFI_LOG_ERROR("the authorization key is not what provider '%s' takes: %s",
                      protocol->provider, form);
        return NA_PLUGIN_INVALID_ARG;
    }
    if (!ofi_set_key(&hints->domain_attr->auth_key, &hints->domain_attr->auth_key_size, key,
                     size) ||
        !ofi_set_key(&hints->ep_attr->auth_key, &hints->ep_attr->auth_key_size, key, size))
        return NA_PLUGIN_NOMEM;
    return NA_PLUGIN_SUCCESS;
}

static uint32_t ofi_traffic_class(uint32_t traffic_class)
{
    switch (traffic_class) {
    case NA_PLUGIN_TC_BEST_EFFORT:
        return FI_TC_BEST_EFFORT;
    case NA_PLUGIN_TC_LOW_LATENCY:
        return FI_TC_LOW_LATENCY;
    case NA_PLUGIN_TC_BULK_DATA:
        return FI_TC_BULK_DATA;
    case NA_PLUGIN_TC_DEDICATED:
        return FI_TC_DEDICATED_ACCESS;
    case NA_PLUGIN_TC_SCAVENGER:
        return FI_TC_SCAVENGER;
    case NA_PLUGIN_TC_NETWORK_CTRL:
        return FI_TC_NETWORK_CTRL;
    default:
        return FI_TC_UNSPEC;
    }
}

static bool ofi_parse_uuid(const char *text, uint8_t *uuid)
{
    uint32_t digits = 0;

    memset(uuid, 0, 16);
    for (; *text != '\0'; text++) {
        uint32_t value;

        if (*text == '-' && digits % 2 == 0)
            continue;
        if (*text >= '0' && *text <= '9')
            value = (uint32_t) (*text - '0');
        else if ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'f')
            value = (uint32_t) ((*text | 0x20) - 'a' + 10);
        else
            return false;
        if (digits == 32)
            return false;
        uuid[digits / 2] = (uint8_t) ((uint32_t) uuid[digits / 2] << 4 | value);
        digits++;
    }
    return digits == 32;
}

/* Parses decimal digits up to the character `end`, and moves `*text` behind it. */
static bool ofi_parse_number(const char **text, char end, uint64_t max, uint64_t *value)
{
    const char *at = *text;

    *value = 0;
    if (*at == end)
        return false;
    for (; *at != end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        *value = *value * 10 + (uint64_t) (*at - '0');
        if (*value > max)
            return false;
    }
    *text = at + (end != '\0');
    return true;
}

static bool ofi_set_key(uint8_t **key_p, size_t *size_p, const void *key, size_t size)
{
    *key_p = calloc(1, size);
    if (*key_p == NULL)
        return false;
    memcpy(*key_p, key, size);
    *size_p = size;
    return true;
}
