/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Over verbs, reads and writes have an endpoint, and so connections, of their own. A device that
 * refuses one aborts the connection with everything in progress on it. No message may be lost that
 * way; reads and writes that failed with the connection are posted again. The port of the owner's
 * endpoint for data is part of a serialized memory handle.
 */

#include "ofi.h"

#include <netinet/in.h>
#include <string.h>

/* enum ibv_wc_status, in prov_errno: the target refused the request. */
#define OFI_WC_REMOTE_INVALID 9
#define OFI_WC_REMOTE_ACCESS  10

/* A request that fails with its connection is posted again for so long. */
#define OFI_DATA_BROKEN_NS UINT64_C(5000000000)

/* After so long without a connection, a probe asks whether the peer listens. */
#define OFI_DATA_STALLED_NS UINT64_C(500000000)

static int32_t ofi_data_vector_open(struct na_plugin_class *na_class);
static bool ofi_data_peer(const struct na_plugin_class *na_class, const struct ofi_address *address,
                          uint16_t port, struct sockaddr_storage *peer);
static ssize_t ofi_data_insert(struct na_plugin_class *na_class, struct ofi_address *address,
                               uint16_t port);
static void ofi_data_remove(struct na_plugin_class *na_class, struct ofi_address *address);

/* Does nothing where messages and data share connections. A reopened endpoint keeps its port. */
int32_t ofi_data_open(struct na_plugin_class *na_class)
{
    struct ofi_data *data = &na_class->data;
    struct sockaddr_storage own = {0};
    struct fi_info *info;
    size_t size = sizeof(own);
    int32_t ret;
    int error;

    if (!na_class->protocol.cm_port)
        return NA_PLUGIN_SUCCESS;
    ret = ofi_data_vector_open(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    info = fi_dupinfo(na_class->info);
    if (info == NULL)
        return NA_PLUGIN_NOMEM;
    error = fi_getname(&na_class->endpoint->fid, &own, &size);
    if (error == 0) {
        ofi_socket_port_set(&own, data->port);
        error = ofi_info_set_source(info, &own, size);
    }
    if (error == 0)
        error = ofi_endpoint_create(na_class, info, data->av, &data->endpoint);
    fi_freeinfo(info);
    size = sizeof(own);
    if (error == 0)
        error = fi_getname(&data->endpoint->fid, &own, &size);
    if (error != 0)
        return ofi_failed(na_class, "the endpoint for data", error);
    data->port = ofi_socket_port(&own);
    return NA_PLUGIN_SUCCESS;
}

/* Requests in progress complete with an error in the completion queue. */
void ofi_data_stop(struct na_plugin_class *na_class)
{
    struct fid_ep *endpoint = na_class->data.endpoint;

    na_class->data.endpoint = NULL;
    if (endpoint != NULL)
        ofi_close(&endpoint->fid);
}

/* Called when the addresses are removed. */
void ofi_data_close(struct na_plugin_class *na_class)
{
    ofi_data_stop(na_class);
    if (na_class->data.av != NULL)
        ofi_close(&na_class->data.av->fid);
    na_class->data.av = NULL;
}

/*
 * Returns 0 and, in `*fi_addr_p`, the address of the peer's endpoint for data at `port`; or a
 * negative error of libfabric.
 */
ssize_t ofi_data_begin(struct na_plugin_class *na_class, struct ofi_address *address, uint16_t port,
                       fi_addr_t *fi_addr_p)
{
    struct ofi_data_address *data = &address->data;
    ssize_t ret = 0;

    if (data->is_broken && data->requests == 0)
        ofi_data_remove(na_class, address);
    /* Another port is of the process before or after a restart; a success proves which lives. */
    if (data->port != port && data->port != 0)
        return data->is_proven ? -FI_EHOSTUNREACH : -FI_EAGAIN;
    if (data->is_broken)
        return -FI_EAGAIN;
    if (data->port == 0)
        ret = ofi_data_insert(na_class, address, port);
    *fi_addr_p = data->fi_addr;
    return ret;
}

/* There is no connection yet. Returns NA_PLUGIN_AGAIN, or NA_PLUGIN_HOSTUNREACH if none listens. */
int32_t ofi_data_stalled(struct na_plugin_class *na_class, struct ofi_address *address,
                         uint16_t port)
{
    struct ofi_data_address *data = &address->data;
    const uint64_t now = kit_host->clock_ns();
    struct sockaddr_storage peer;
    int error = FI_EAGAIN;

    if (data->stalled_since == 0)
        data->stalled_since = now;
    if (data->probe.eq != NULL) {
        error = ofi_cm_check(&data->probe);
    } else if (now - data->stalled_since >= OFI_DATA_STALLED_NS &&
               ofi_data_peer(na_class, address, data->port, &peer)) {
        error = ofi_cm_begin(na_class, &data->probe, &peer);
        error = error == 0 ? FI_EAGAIN : error;
    }
    if (error == FI_EAGAIN)
        return NA_PLUGIN_AGAIN;
    ofi_cm_end(&data->probe);
    data->stalled_since = 0;
    if (error == 0)
        return NA_PLUGIN_AGAIN;
    OFI_LOG_DEBUG("nobody takes data at port %u of a peer (%s)", ntohs(data->port),
                  fi_strerror(error));
    data->is_broken = true;
    return data->port == port ? NA_PLUGIN_HOSTUNREACH : NA_PLUGIN_AGAIN;
}

void ofi_data_issued(struct ofi_address *address)
{
    address->data.requests++;
    address->data.stalled_since = 0;
}

/*
 * A request failed, and its connection with it. True if it is to be posted again: it was only
 * flushed, because the peer or a refused request before it aborted the connection. Otherwise sets
 * `*status_p` if the target refused it.
 */
bool ofi_data_failed(struct ofi_rma *rma, const struct fi_cq_err_entry *entry, int32_t *status_p)
{
    const uint64_t now = kit_host->clock_ns();

    rma->address->data.is_broken = true;
    if (entry->prov_errno == OFI_WC_REMOTE_ACCESS || entry->prov_errno == OFI_WC_REMOTE_INVALID)
        *status_p = NA_PLUGIN_PERMISSION;
    if (rma->broken_since == 0)
        rma->broken_since = now;
    return entry->err == FI_ECANCELED && now - rma->broken_since < OFI_DATA_BROKEN_NS;
}

/* The address has no requests and is about to be removed. */
void ofi_data_forget(struct na_plugin_class *na_class, struct ofi_address *address)
{
    ofi_cm_end(&address->data.probe);
    ofi_data_remove(na_class, address);
}

static int32_t ofi_data_vector_open(struct na_plugin_class *na_class)
{
    struct fi_av_attr attr = {.type = na_class->info->domain_attr->av_type};
    int error;

    if (na_class->data.av != NULL)
        return NA_PLUGIN_SUCCESS;
    error = fi_av_open(na_class->domain, &attr, &na_class->data.av, NULL);
    return error == 0 ? NA_PLUGIN_SUCCESS
                      : ofi_failed(na_class, "the address vector for data", error);
}

/* The address of the peer's endpoint for data: the host of its address, with another port. */
static bool ofi_data_peer(const struct na_plugin_class *na_class, const struct ofi_address *address,
                          uint16_t port, struct sockaddr_storage *peer)
{
    size_t size = sizeof(*peer);

    memset(peer, 0, sizeof(*peer));
    if (fi_av_lookup(na_class->av, address->fi_addr, peer, &size) != 0)
        return false;
    ofi_socket_port_set(peer, port);
    return true;
}

static ssize_t ofi_data_insert(struct na_plugin_class *na_class, struct ofi_address *address,
                               uint16_t port)
{
    struct ofi_data_address *data = &address->data;
    struct sockaddr_storage peer;

    if (!ofi_data_peer(na_class, address, port, &peer) ||
        fi_av_insert(na_class->data.av, &peer, 1, &data->fi_addr, 0, NULL) != 1)
        return -FI_EHOSTUNREACH;
    data->port = port;
    return 0;
}

/* Closes the connection as well. */
static void ofi_data_remove(struct na_plugin_class *na_class, struct ofi_address *address)
{
    struct ofi_data_address *data = &address->data;

    if (data->port != 0 && !data->is_refused)
        (void) fi_av_remove(na_class->data.av, &data->fi_addr, 1, 0);
    data->port = 0;
    data->is_broken = data->is_proven = data->is_refused = false;
}
