/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocols that init strings name, and the providers of libfabric behind them. */

#include "ofi.h"

#include <string.h>

/* Bytes that ofi_rxm, and most networks, send eagerly, without a rendezvous. */
#define OFI_FRAME_RXM     16128u
#define OFI_FRAME_NETWORK 8192u

/*
 * The best protocol comes first. Any other name is taken for a provider's.
 *
 * is_fenced: the sockets provider peeks at a header until all of it was received. In a full socket
 * buffer the kernel cannot free the segment with the beginning of the header, so the rest never
 * arrives, and provider and kernel wait for each other for ever. So that the buffer does not fill,
 * only a few frames, puts and gets to a peer are unacknowledged at a time; injected frames, which
 * have no completion, are followed by a fence (address.c).
 */
const struct ofi_protocol ofi_protocols[] = {
    {.name = "cxi",
     .provider = "cxi",
     .format = FI_ADDR_CXI,
     .naming = OFI_NAMING_RAW,
     .auth = OFI_AUTH_CXI,
     .priority = 95,
     .frame = OFI_FRAME_NETWORK},
    {.name = "opx",
     .provider = "opx",
     .format = FI_ADDR_OPX,
     .naming = OFI_NAMING_RAW,
     .auth = OFI_AUTH_UUID,
     .priority = 90,
     .frame = OFI_FRAME_NETWORK},
    {.name = "verbs",
     .provider = "verbs",
     .format = FI_SOCKADDR_IN,
     .naming = OFI_NAMING_SOCKET,
     .priority = 85,
     .frame = OFI_FRAME_RXM,
     .cm_port = true},
    {.name = "gni",
     .provider = "gni",
     .format = FI_ADDR_GNI,
     .naming = OFI_NAMING_RAW,
     .auth = OFI_AUTH_COOKIE,
     .priority = 80,
     .frame = OFI_FRAME_NETWORK},
    {.name = "psm3",
     .provider = "psm3",
     .format = FI_ADDR_PSMX3,
     .naming = OFI_NAMING_RAW,
     .auth = OFI_AUTH_UUID,
     .priority = 75,
     .frame = OFI_FRAME_NETWORK},
    {.name = "psm2",
     .provider = "psm2",
     .format = FI_ADDR_PSMX2,
     .naming = OFI_NAMING_RAW,
     .auth = OFI_AUTH_UUID,
     .priority = 70,
     .frame = OFI_FRAME_NETWORK},
    {.name = "psm",
     .provider = "psm",
     .format = FI_ADDR_PSMX,
     .naming = OFI_NAMING_RAW,
     .priority = 65,
     .frame = OFI_FRAME_NETWORK},
    {.name = "tcp",
     .provider = "tcp",
     .provider_in_1_17 = OFI_TCP_IN_1_17,
     .format = FI_FORMAT_UNSPEC,
     .naming = OFI_NAMING_SOCKET,
     .priority = 30,
     .frame = OFI_FRAME_RXM,
     .tcp_port = true,
     .keeps_tagged = true},
    {.name = "shm",
     .provider = "shm",
     .format = FI_ADDR_STR,
     .naming = OFI_NAMING_STRING,
     .priority = 20,
     .frame = 4032,
     .node_local = true},
    {.name = "sockets",
     .provider = "sockets",
     .format = FI_FORMAT_UNSPEC,
     .naming = OFI_NAMING_SOCKET,
     .priority = 5,
     .frame = OFI_FRAME_RXM,
     .tcp_port = true,
     .is_fenced = true,
     .auto_to_wait = true},
    {.name = "udp",
     .provider = "udp",
     .format = FI_FORMAT_UNSPEC,
     .naming = OFI_NAMING_SOCKET,
     .priority = 2,
     .frame = 1024},
};
const uint32_t ofi_protocol_count = sizeof(ofi_protocols) / sizeof(ofi_protocols[0]);

static const char *ofi_provider_name(const struct ofi_protocol *protocol);
static bool ofi_provider_starts(const char *provider, const char *start);

/*
 * Finds a protocol of the table, or makes one of a provider's name such as `tcp;ofi_rxm`, with the
 * traits of its core provider if the table has it. False if the name cannot be a provider's.
 */
bool ofi_protocol_find(const char *name, struct ofi_protocol *protocol)
{
    for (uint32_t i = 0; i < ofi_protocol_count; i++) {
        if (strcmp(ofi_protocols[i].name, name) == 0) {
            *protocol = ofi_protocols[i];
            protocol->provider = ofi_provider_name(protocol);
            return true;
        }
    }
    if (name[0] == '\0' || name[0] == ';' || strchr(name, '+') != NULL)
        return false;
    *protocol = (struct ofi_protocol){
        .format = FI_FORMAT_UNSPEC,
        .naming = OFI_NAMING_RAW, /* until the format of its addresses is known */
        .frame = 4096,
        .priority = 1,
    };
    for (uint32_t i = 0; i < ofi_protocol_count; i++)
        if (ofi_provider_starts(name, ofi_protocols[i].provider) ||
            ofi_provider_starts(name, ofi_provider_name(&ofi_protocols[i])))
            *protocol = ofi_protocols[i];
    protocol->name = name;
    protocol->provider = name;
    protocol->keeps_tagged = protocol->keeps_tagged && strchr(name, ';') == NULL;
    return true;
}

/* Whether a protocol of the table has exactly this provider. */
bool ofi_provider_is_listed(const char *provider)
{
    for (uint32_t i = 0; i < ofi_protocol_count; i++)
        if (strcmp(ofi_provider_name(&ofi_protocols[i]), provider) == 0)
            return true;
    return false;
}

/* The provider's name in the libfabric that is loaded. */
static const char *ofi_provider_name(const struct ofi_protocol *protocol)
{
    return protocol->provider_in_1_17 != NULL && FI_VERSION_LT(fi_version(), FI_VERSION(1, 18))
               ? protocol->provider_in_1_17
               : protocol->provider;
}

/* Whether a provider is the protocol's, alone or below utility providers. */
bool ofi_protocol_has_provider(const struct ofi_protocol *protocol, const char *provider)
{
    return ofi_provider_starts(provider, protocol->provider) && ofi_provider_opens(provider);
}

/* libfabric lists verbs below ofi_rxd, but cannot open it. */
bool ofi_provider_opens(const char *provider)
{
    return !ofi_provider_starts(provider, "verbs") || strstr(provider, "ofi_rxd") == NULL;
}

/* Whether the target of a put or get reads or writes over a connection (target.c). */
bool ofi_is_target_driven(const struct ofi_protocol *protocol, const struct fi_info *info)
{
    return protocol->tcp_port && info->tx_attr->rma_iov_limit > 1 && (info->caps & FI_HMEM) == 0 &&
           (info->domain_attr->mr_mode & (FI_MR_RAW | FI_MR_LOCAL | FI_MR_ENDPOINT)) == 0;
}

/* ofi_rxm has FI_PROGRESS_MANUAL, but over verbs the device carries out reads and writes. */
bool ofi_is_native(const struct ofi_protocol *protocol, const struct fi_info *info)
{
    return (info->domain_attr->data_progress == FI_PROGRESS_AUTO || protocol->cm_port) &&
           !ofi_is_target_driven(protocol, info) && !protocol->node_local;
}

/* How endpoints with addresses of `format` (FI_SOCKADDR_IN, ...) are named. */
enum ofi_naming ofi_format_naming(uint32_t format)
{
    switch (format) {
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
        return OFI_NAMING_SOCKET;
    case FI_ADDR_STR:
        return OFI_NAMING_STRING;
    default:
        return OFI_NAMING_RAW;
    }
}

static bool ofi_provider_starts(const char *provider, const char *start)
{
    size_t length = strlen(start);

    return strncmp(provider, start, length) == 0 &&
           (provider[length] == '\0' || provider[length] == ';');
}
