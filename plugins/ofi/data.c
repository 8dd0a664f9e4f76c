/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of their own for the reads and writes of verbs. A device that refuses one breaks its
 * connection with all that is under way there: so it is another one than that of the messages, of
 * which none may be lost, and the reads and writes that broke with it are made again. The port of
 * the endpoint that they lead to travels in memory handles.
 */

#include "ofi.h"

#include <netinet/in.h>
#include <string.h>

/* Completions of verbs, as its specification numbers them: the target refused the request. */
#define OFI_WC_REMOTE_INVALID 9
#define OFI_WC_REMOTE_ACCESS  10

/* For so long a request is made again that breaks with its connection. */
#define OFI_DATA_BROKEN_NS UINT64_C(5000000000)

/* Without a connection for so long, it is asked whether anybody listens. */
#define OFI_DATA_STALLED_NS UINT64_C(500000000)

static int32_t ofi_data_vector_open(struct na_plugin_class *na_class);
static int ofi_data_endpoint_open(struct na_plugin_class *na_class, struct fi_info *info);
static bool ofi_data_peer(const struct na_plugin_class *na_class, const struct ofi_address *address,
                          uint16_t port, struct sockaddr_storage *peer);
static ssize_t ofi_data_insert(struct na_plugin_class *na_class, struct ofi_address *address,
                               uint16_t port);
static void ofi_data_remove(struct na_plugin_class *na_class, struct ofi_address *address);

/* Nothing where messages and data share connections. At the port of before, if there was one. */
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
        error = ofi_data_endpoint_open(na_class, info);
    fi_freeinfo(info);
    size = sizeof(own);
    if (error == 0)
        error = fi_getname(&data->endpoint->fid, &own, &size);
    if (error != 0)
        return ofi_failed(na_class, "the endpoint for data", error);
    data->port = ofi_socket_port(&own);
    return NA_PLUGIN_SUCCESS;
}

/* What was under way has its completion in the queue. */
void ofi_data_stop(struct na_plugin_class *na_class)
{
    struct fid_ep *endpoint = na_class->data.endpoint;

    na_class->data.endpoint = NULL;
    if (endpoint != NULL)
        ofi_close(&endpoint->fid);
}

/* When the addresses are gone. */
void ofi_data_close(struct na_plugin_class *na_class)
{
    ofi_data_stop(na_class);
    if (na_class->data.av != NULL)
        ofi_close(&na_class->data.av->fid);
    na_class->data.av = NULL;
}

/* 0: a transfer with memory at that port may be issued to `*fi_addr_p`; or what libfabric says. */
ssize_t ofi_data_begin(struct na_plugin_class *na_class, struct ofi_address *address, uint16_t port,
                       fi_addr_t *fi_addr_p)
{
    struct ofi_way *way = &address->way;
    ssize_t ret = 0;

    if (way->is_broken && way->requests == 0)
        ofi_data_remove(na_class, address);
    /* The memory of another process that was there before, or it is not known yet which of them. */
    if (way->port != port && way->port != 0)
        return way->is_proven ? -FI_EHOSTUNREACH : -FI_EAGAIN;
    if (way->is_broken)
        return -FI_EAGAIN;
    if (way->port == 0)
        ret = ofi_data_insert(na_class, address, port);
    *fi_addr_p = way->fi_addr;
    return ret;
}

/* There is no connection yet: NA_PLUGIN_AGAIN, or what is known by now. */
int32_t ofi_data_stalled(struct na_plugin_class *na_class, struct ofi_address *address,
                         uint16_t port)
{
    struct ofi_way *way = &address->way;
    const uint64_t now = kit_host->clock_ns();
    struct sockaddr_storage peer;
    int error = FI_EAGAIN;

    if (way->stalled_since == 0)
        way->stalled_since = now;
    if (way->probe.eq != NULL) {
        error = ofi_cm_check(&way->probe);
    } else if (now - way->stalled_since >= OFI_DATA_STALLED_NS &&
               ofi_data_peer(na_class, address, way->port, &peer)) {
        error = ofi_cm_begin(na_class, &way->probe, &peer);
        error = error == 0 ? FI_EAGAIN : error;
    }
    if (error == FI_EAGAIN)
        return NA_PLUGIN_AGAIN;
    ofi_cm_end(&way->probe);
    way->stalled_since = 0;
    if (error == 0)
        return NA_PLUGIN_AGAIN;
    OFI_LOG_DEBUG("nobody takes data at port %u of a peer (%s)", ntohs(way->port),
                  fi_strerror(error));
    way->is_broken = true;
    return way->port == port ? NA_PLUGIN_HOSTUNREACH : NA_PLUGIN_AGAIN;
}

void ofi_data_issued(struct ofi_address *address)
{
    address->way.requests++;
    address->way.stalled_since = 0;
}

/*
 * One came to a bad end: true when it is to be made again, else `*status_p` says why not. A refused
 * one, or the other side, broke the connection for those behind it, which have not been looked at.
 */
bool ofi_data_failed(struct ofi_rma *rma, const struct fi_cq_err_entry *entry, int32_t *status_p)
{
    const uint64_t now = kit_host->clock_ns();

    rma->address->way.is_broken = true;
    if (entry->prov_errno == OFI_WC_REMOTE_ACCESS || entry->prov_errno == OFI_WC_REMOTE_INVALID)
        *status_p = NA_PLUGIN_PERMISSION;
    if (rma->broken_since == 0)
        rma->broken_since = now;
    return entry->err == FI_ECANCELED && now - rma->broken_since < OFI_DATA_BROKEN_NS;
}

/* The address is about to go, and nothing uses it. */
void ofi_data_forget(struct na_plugin_class *na_class, struct ofi_address *address)
{
    ofi_cm_end(&address->way.probe);
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

static int ofi_data_endpoint_open(struct na_plugin_class *na_class, struct fi_info *info)
{
    struct ofi_data *data = &na_class->data;
    int error = fi_endpoint(na_class->domain, info, &data->endpoint, NULL);

    if (error != 0) {
        data->endpoint = NULL;
        return error;
    }
    error = fi_ep_bind(data->endpoint, &data->av->fid, 0);
    if (error == 0)
        error = fi_ep_bind(data->endpoint, &na_class->cq->fid, FI_SEND | FI_RECV);
    if (error == 0)
        error = fi_enable(data->endpoint);
    if (error != 0)
        ofi_data_stop(na_class);
    return error;
}

/* Where the peer's endpoint for data is. */
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
    struct ofi_way *way = &address->way;
    struct sockaddr_storage peer;

    if (!ofi_data_peer(na_class, address, port, &peer) ||
        fi_av_insert(na_class->data.av, &peer, 1, &way->fi_addr, 0, NULL) != 1)
        return -FI_EHOSTUNREACH;
    way->port = port;
    return 0;
}

/* With its connection. */
static void ofi_data_remove(struct na_plugin_class *na_class, struct ofi_address *address)
{
    struct ofi_way *way = &address->way;

    if (way->port != 0 && !way->is_refused)
        (void) fi_av_remove(na_class->data.av, &way->fi_addr, 1, 0);
    way->port = 0;
    way->is_broken = way->is_proven = way->is_refused = false;
}
