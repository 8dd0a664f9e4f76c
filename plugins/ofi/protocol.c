/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocols that init strings name, and the providers of libfabric behind them. */

#include "ofi.h"

#include <string.h>

/* What is sent without asking the receiver first: by the rxm layer, and by most networks. */
#define OFI_FRAME_RXM     16128u
#define OFI_FRAME_NETWORK 8192u

/*
 * Best first. Any other name is taken for a provider's.
 *
 * sockets looks at a header until all of it is there, without reading it. When messages have filled
 * the receiver's socket buffer, the kernel keeps the rest of a header for as long as it cannot free
 * the piece that the beginning lies in, and both wait for ever. So that it does not fill, a few
 * frames, puts and gets are under way to a peer at a time: behind injected frames comes one byte
 * that is acknowledged.
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
     .tcp_port = true},
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

static const char *ofi_provider_now(const struct ofi_protocol *protocol);
static bool ofi_provider_starts(const char *provider, const char *start);

/*
 * The protocol of that name: one of the table or, with the traits of its core provider where the
 * table has that, a raw provider name such as `tcp;ofi_rxm`. False: not a provider's name.
 */
bool ofi_protocol_find(const char *name, struct ofi_protocol *protocol)
{
    for (uint32_t i = 0; i < ofi_protocol_count; i++) {
        if (strcmp(ofi_protocols[i].name, name) == 0) {
            *protocol = ofi_protocols[i];
            protocol->provider = ofi_provider_now(protocol);
            return true;
        }
    }
    if (name[0] == '\0' || name[0] == ';' || strchr(name, '+') != NULL)
        return false;
    *protocol = (struct ofi_protocol){
        .format = FI_FORMAT_UNSPEC,
        .naming = OFI_NAMING_RAW, /* settled when libfabric says what format it has */
        .frame = 4096,
        .priority = 1,
    };
    for (uint32_t i = 0; i < ofi_protocol_count; i++)
        if (ofi_provider_starts(name, ofi_protocols[i].provider) ||
            ofi_provider_starts(name, ofi_provider_now(&ofi_protocols[i])))
            *protocol = ofi_protocols[i];
    protocol->name = name;
    protocol->provider = name;
    return true;
}

/* Whether offers of a protocol of the table are offers of that provider. */
bool ofi_provider_is_listed(const char *provider)
{
    for (uint32_t i = 0; i < ofi_protocol_count; i++)
        if (strcmp(ofi_provider_now(&ofi_protocols[i]), provider) == 0)
            return true;
    return false;
}

static const char *ofi_provider_now(const struct ofi_protocol *protocol)
{
    return protocol->provider_in_1_17 != NULL && FI_VERSION_LT(fi_version(), FI_VERSION(1, 18))
               ? protocol->provider_in_1_17
               : protocol->provider;
}

/* Whether libfabric's provider is what the protocol means: itself, or under utility layers. */
bool ofi_protocol_has_provider(const struct ofi_protocol *protocol, const char *provider)
{
    return ofi_provider_starts(provider, protocol->provider) && ofi_provider_opens(provider);
}

/* verbs under rxd is listed, but cannot be opened. */
bool ofi_provider_opens(const char *provider)
{
    return !ofi_provider_starts(provider, "verbs") || strstr(provider, "ofi_rxd") == NULL;
}

/* Whether targets move the bytes, over connections. */
bool ofi_is_connected(const struct ofi_protocol *protocol, const struct fi_info *info)
{
    return protocol->tcp_port && info->tx_attr->rma_iov_limit > 1 && (info->caps & FI_HMEM) == 0 &&
           (info->domain_attr->mr_mode & (FI_MR_RAW | FI_MR_LOCAL | FI_MR_ENDPOINT)) == 0;
}

/* rxm says that it progresses by calls alone, but leaves reads and writes to the device. */
bool ofi_is_native(const struct ofi_protocol *protocol, const struct fi_info *info)
{
    return (info->domain_attr->data_progress == FI_PROGRESS_AUTO || protocol->cm_port) &&
           !ofi_is_connected(protocol, info) && !protocol->node_local;
}

static bool ofi_provider_starts(const char *provider, const char *start)
{
    size_t length = strlen(start);

    return strncmp(provider, start, length) == 0 &&
           (provider[length] == '\0' || provider[length] == ';');
}
