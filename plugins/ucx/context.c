/* SPDX-License-Identifier: BSD-3-Clause */
/* UCP contexts: their configuration, and the interfaces that they use. */

#include "ucx.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool device_is_loopback(const struct ifaddrs *interfaces, const char *device);
static bool devices_append(char devices[UCX_DEVICES_MAX], const char *device);
static void context_configure(ucp_config_t *config, const char *name, const char *value);
static void context_default(ucp_config_t *config, const char *variable, const char *value);
static void context_configure_tcp(struct na_plugin_class *na_class, ucp_config_t *config);

/*
 * Chooses the interfaces of a class over TCP whose init string names none. UCX polls each interface
 * with a system call, so if there are others the loopback interface has a context of its own, which
 * is opened for the first peer at a loopback address.
 */
void ucx_devices_choose(char devices[UCX_DEVICES_MAX], char loopback[UCX_DEVICES_MAX])
{
    const struct ucx_resource *list;
    const uint32_t count = ucx_resources(&list);
    struct ifaddrs *interfaces;
    bool is_chosen = true;

    devices[0] = loopback[0] = '\0';
    if (getenv("UCX_NET_DEVICES") != NULL || getifaddrs(&interfaces) != 0)
        return;
    for (uint32_t i = 0; i < count && is_chosen; i++)
        if (strcmp(list[i].transport, "tcp") == 0)
            is_chosen =
                devices_append(device_is_loopback(interfaces, list[i].device) ? loopback : devices,
                               list[i].device);
    freeifaddrs(interfaces);
    if (!is_chosen || devices[0] == '\0' || loopback[0] == '\0')
        devices[0] = loopback[0] = '\0'; /* one context has all interfaces */
}

static bool device_is_loopback(const struct ifaddrs *interfaces, const char *device)
{
    for (; interfaces != NULL; interfaces = interfaces->ifa_next)
        if (strcmp(interfaces->ifa_name, device) == 0)
            return (interfaces->ifa_flags & IFF_LOOPBACK) != 0;
    return false;
}

/* False if the list is full. */
static bool devices_append(char devices[UCX_DEVICES_MAX], const char *device)
{
    const size_t used = strlen(devices);
    const int length =
        snprintf(devices + used, UCX_DEVICES_MAX - used, "%s%s", used != 0 ? "," : "", device);

    return (size_t) length < UCX_DEVICES_MAX - used;
}

int32_t ucx_context_create(struct na_plugin_class *na_class, const char *tls, const char *devices,
                           ucp_context_h *context_p)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_AM,
    };
    ucp_config_t *config;
    ucs_status_t status;

    if (!na_class->is_busy)
        params.features |= UCP_FEATURE_WAKEUP;
    /* RMA that UCP emulates in software checks no bounds, so it is for RDMA transports alone. */
    if (na_class->wants_keys)
        params.features |= UCP_FEATURE_RMA;
    ucx_log_reset();
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return ucx_failed("read its configuration", status);
    /* With "all" the user's UCX_TLS decides. */
    if (strcmp(tls, "all") != 0 || getenv("UCX_TLS") == NULL)
        context_configure(config, "TLS", tls);
    if (devices[0] != '\0')
        context_default(config, "UCX_NET_DEVICES", devices);
#if UCP_API_VERSION >= UCP_VERSION(1, 12) /* which added options of transports to ucp_config_t */
    /* Enables shared memory for endpoints with UCP_ERR_HANDLING_MODE_PEER; for posix and sysv. */
    if (getenv("UCX_POSIX_ERROR_HANDLING") == NULL && getenv("UCX_SYSV_ERROR_HANDLING") == NULL &&
        (ucx_protocol_has(tls, "sysv") || ucx_protocol_has(tls, "posix")))
        context_configure(config, "MM_ERROR_HANDLING", "y");
#endif
    if (ucx_protocol_has(tls, "tcp") && !na_class->has_hardware)
        context_configure_tcp(na_class, config);
    /* With a keepalive lane UCX 1.13 aborts the process if a peer dies before it is connected. The
     * channels (socket.c) detect dead peers. */
    if (na_class->has_hardware)
        context_default(config, "UCX_KEEPALIVE_INTERVAL", "inf");
    /* connect() does not block, also not if the host of a peer's address does not answer. */
    if (ucx_protocol_has(tls, "tcp"))
        context_default(config, "UCX_TCP_CONN_NB", "y");
    /* UCX opens a socket when it activates an interface for the first peer, and when it deactivates
     * it after the last one, and aborts the process if it gets none. So tcp interfaces stay active;
     * beside shared memory that would cost a system call in each poll. */
    if (strcmp(tls, "tcp") == 0)
        context_default(config, "UCX_ADAPTIVE_PROGRESS", "n");
    status = ucp_init(&params, config, context_p);
    ucp_config_release(config);
    if (status == UCS_OK)
        return NA_PLUGIN_SUCCESS;
    *context_p = NULL;
    return ucx_failed("open a context", status);
}

static void context_configure(ucp_config_t *config, const char *name, const char *value)
{
    ucs_status_t status = ucp_config_modify(config, name, value);

    if (status != UCS_OK)
        UCX_LOG_WARNING("UCX does not take %s=%s: %s", name, value, ucs_status_string(status));
}

/*
 * Sets an option unless the user has set its variable. Before 1.17 ucp_config_modify() takes an
 * option of tcp without the prefix TCP_.
 */
static void context_default(ucp_config_t *config, const char *variable, const char *value)
{
    const char *name = variable + strlen("UCX_");
    unsigned major, minor, release;

    if (getenv(variable) != NULL)
        return;
    ucp_get_version(&major, &minor, &release);
    if (major == 1 && minor < 17 && strncmp(name, "TCP_", strlen("TCP_")) == 0)
        name += strlen("TCP_");
    context_configure(config, name, value);
}

static void context_configure_tcp(struct na_plugin_class *na_class, ucp_config_t *config)
{
    /* UCX 1.13 aborts the process if a peer dies during a zcopy send: it counts the completion
     * twice. */
    context_default(config, "UCX_ZCOPY_THRESH", "inf");
#if UCP_API_VERSION >= UCP_VERSION(1, 12)
    context_default(config, "UCX_TCP_PUT_ENABLE", "n");
    /* A piece fits one segment, so one system call sends it without a copy. The protocols v2, which
     * are the default since 1.16, never send a piece immediately (piece.c). */
    if (getenv("UCX_TCP_TX_SEG_SIZE") == NULL && getenv("UCX_TCP_RX_SEG_SIZE") == NULL &&
        getenv("UCX_PROTO_ENABLE") == NULL) {
        context_default(config, "UCX_PROTO_ENABLE", "n");
        context_default(config, "UCX_TCP_TX_SEG_SIZE", UCX_STREAM_SEG);
        context_default(config, "UCX_TCP_RX_SEG_SIZE", UCX_STREAM_SEG);
        na_class->has_segments = true;
    }
    /* With several events in one poll, a send from a callback of the first one may find its peer
     * gone and close the endpoint, and UCX aborts the process at that endpoint's event. */
    context_default(config, "UCX_TCP_MAX_POLL", "1");
    /* UCX does not connect again to a peer that is gone: another process may listen at its port
     * meanwhile, and UCX aborts the process at what that one sends. */
    context_default(config, "UCX_TCP_MAX_CONN_RETRIES", "1");
#endif
}
