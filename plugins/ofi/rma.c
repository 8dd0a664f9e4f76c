/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets: the provider's one-sided reads and writes, if it protects memory itself, otherwise
 * transfers of the kit, in which the target moves the bytes (target.c).
 */

#include "ofi.h"

static int32_t ofi_rma_check(const struct na_plugin_mem *local, const struct na_plugin_mem *remote);
static ssize_t ofi_rma_issue(struct na_plugin_class *na_class, struct ofi_rma *rma);
static int32_t ofi_rma_stalled(struct na_plugin_class *na_class, struct ofi_rma *rma);
static void ofi_rma_wait(struct na_plugin_class *na_class, struct ofi_rma *rma);
static void ofi_rma_end(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status);

int32_t ofi_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    int32_t ret = ofi_rma_check(local, remote);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    return kit_msg_put(context, op, local, local_offset, remote, remote_offset, length, addr,
                       remote_id);
}

int32_t ofi_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    int32_t ret = ofi_rma_check(local, remote);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    return kit_msg_get(context, op, local, local_offset, remote, remote_offset, length, addr,
                       remote_id);
}

int32_t ofi_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    struct ofi_peer *peer = rma->peer->priv;
    struct ofi_rma *priv = rma->priv;
    ssize_t ret;

    if (peer->address == NULL)
        return NA_PLUGIN_HOSTUNREACH;
    if (endpoint->rma != NULL)
        return kit_remote_start(endpoint, rma);
    priv->rma = rma;
    priv->request.kind = OFI_REQUEST_RMA;
    priv->address = peer->address;
    priv->done = 0;
    priv->in_progress = 0;
    priv->broken_since = 0;
    priv->abandoned = NA_PLUGIN_SUCCESS;
    ret = ofi_rma_issue(na_class, priv);
    if (ret == -FI_EAGAIN)
        return ofi_rma_stalled(na_class, priv);
    if (ret != 0)
        return ofi_status((int) -ret);
    peer->stalled_since = 0;
    priv->address->requests++;
    return NA_PLUGIN_SUCCESS;
}

/*
 * A posted piece cannot be cancelled. A transfer that waits to post its next piece can end: nothing
 * accesses its memory, and the next poll completes it.
 */
bool ofi_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    struct ofi_rma *priv = rma->priv;

    if (endpoint->rma != NULL)
        return kit_remote_abandon(endpoint, rma, status);
    if (priv->abandoned == NA_PLUGIN_SUCCESS)
        priv->abandoned = status;
    return priv->in_progress == 0;
}

void ofi_rma_piece_done(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status)
{
    const bool is_abandoned = rma->abandoned != NA_PLUGIN_SUCCESS;
    ssize_t ret;

    if (status == NA_PLUGIN_SUCCESS) {
        rma->done += rma->in_progress;
        rma->address->data.is_proven = true;
    }
    rma->in_progress = 0;
    rma->broken_since = 0;
    rma->address->data.requests--;
    if (status != NA_PLUGIN_SUCCESS || rma->done == rma->rma->length || is_abandoned) {
        ofi_rma_end(na_class, rma,
                    is_abandoned && rma->done != rma->rma->length ? rma->abandoned : status);
        return;
    }
    ret = ofi_rma_issue(na_class, rma);
    if (ret == -FI_EAGAIN)
        ofi_rma_wait(na_class, rma);
    else if (ret != 0)
        ofi_rma_end(na_class, rma, ofi_status((int) -ret));
}

/* The posted piece failed. Posts it again if only its connection failed. */
void ofi_rma_piece_failed(struct na_plugin_class *na_class, struct ofi_rma *rma,
                          const struct fi_cq_err_entry *entry)
{
    int32_t status = ofi_status(entry->err);

    if (na_class->data.endpoint == NULL || !ofi_data_failed(rma, entry, &status) ||
        rma->abandoned != NA_PLUGIN_SUCCESS) {
        ofi_rma_piece_done(na_class, rma, status);
        return;
    }
    rma->in_progress = 0;
    rma->address->data.requests--;
    ofi_rma_wait(na_class, rma);
}

/* Posts the next pieces of waiting transfers, in order, until libfabric has no resources. */
void ofi_rma_retry(struct na_plugin_class *na_class)
{
    struct ofi_rma *rma = na_class->rmas_waiting, *next;
    struct ofi_rma **end = na_class->rmas_waiting_end;

    na_class->rmas_waiting = NULL;
    na_class->rmas_waiting_end = &na_class->rmas_waiting;
    for (; rma != NULL; rma = next) {
        const bool is_abandoned = rma->abandoned != NA_PLUGIN_SUCCESS;
        ssize_t ret = is_abandoned ? -FI_ECANCELED : ofi_rma_issue(na_class, rma);
        int32_t status = is_abandoned ? rma->abandoned : ofi_status((int) -ret);

        next = rma->next;
        if (ret == -FI_EAGAIN && na_class->data.endpoint == NULL) {
            na_class->rmas_waiting = rma; /* the rest waits for the same resources */
            na_class->rmas_waiting_end = end;
            return;
        }
        if (ret == -FI_EAGAIN)
            status = ofi_rma_stalled(na_class, rma);
        if (status == NA_PLUGIN_AGAIN)
            ofi_rma_wait(na_class, rma);
        else if (ret != 0)
            ofi_rma_end(na_class, rma, status);
    }
}

static int32_t ofi_rma_check(const struct na_plugin_mem *local, const struct na_plugin_mem *remote)
{
    if (local->region.is_registered && remote->region.is_remote)
        return NA_PLUGIN_SUCCESS;
    OFI_LOG_ERROR("a transfer needs a registered local handle (this one is %s) and a deserialized "
                  "remote one (this one is %s)",
                  local->region.is_remote        ? "remote"
                  : !local->region.is_registered ? "not registered"
                                                 : "good",
                  remote->region.is_remote ? "good" : "local");
    return NA_PLUGIN_INVALID_ARG;
}

static ssize_t ofi_rma_issue(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    const struct kit_msg_rma *request = rma->rma;
    uint64_t size = request->length - rma->done;
    struct iovec vector;
    struct fi_rma_iov remote;
    struct fi_msg_rma message = {
        .msg_iov = &vector,
        .desc = &request->local->descriptor,
        .iov_count = 1,
        .addr = rma->address->fi_addr,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &rma->request.context,
    };
    struct fid_ep *endpoint = na_class->endpoint;
    ssize_t ret = 0;

    if (endpoint == NULL)
        return -FI_EHOSTUNREACH;
    if (na_class->data.endpoint != NULL) {
        endpoint = na_class->data.endpoint;
        ret = ofi_data_begin(na_class, rma->address, request->remote->data_port, &message.addr);
        if (ret != 0)
            return ret;
    }
    if (size > na_class->max_rma)
        size = na_class->max_rma;
    vector.iov_base = ofi_mem_base(request->local) + request->local_offset + rma->done;
    vector.iov_len = size;
    remote.addr = request->remote->fabric_base + request->remote_offset + rma->done;
    remote.len = size;
    remote.key = request->remote->fabric_key;
    rma->in_progress = size;
    if (request->is_put != 0) {
        ret = fi_writemsg(endpoint, &message, na_class->put_flags);
        if ((ret == -FI_EINVAL || ret == -FI_EOPNOTSUPP || ret == -FI_EBADFLAGS) &&
            (na_class->put_flags & FI_DELIVERY_COMPLETE) != 0) {
            na_class->put_flags &= ~FI_DELIVERY_COMPLETE;
            ret = fi_writemsg(endpoint, &message, na_class->put_flags);
        }
    } else {
        ret = fi_readmsg(endpoint, &message, FI_COMPLETION);
    }
    rma->address->data.is_refused = ret != 0 && ret != -FI_EAGAIN;
    if (ret == 0)
        ofi_data_issued(rma->address);
    else
        rma->in_progress = 0;
    return ret;
}

/* Returns NA_PLUGIN_AGAIN, or NA_PLUGIN_HOSTUNREACH if the peer does not listen. */
static int32_t ofi_rma_stalled(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    return na_class->data.endpoint != NULL
               ? ofi_data_stalled(na_class, rma->address, rma->rma->remote->data_port)
               : ofi_probe_stalled(na_class, rma->rma->peer);
}

static void ofi_rma_wait(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    rma->next = NULL;
    *na_class->rmas_waiting_end = rma;
    na_class->rmas_waiting_end = &rma->next;
}

static void ofi_rma_end(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status)
{
    struct ofi_address *address = rma->address;

    kit_msg_rma_done(&na_class->base, rma->rma, status);
    ofi_address_drop_request(na_class, address);
}
