/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets at their origin. The origin itself reads the data of a get within a node, UCP
 * carries out transfers over RDMA lanes, and all others are transfers of the kit's engine: within a
 * node the target copies, otherwise pieces are sent as active messages.
 */

#include "ucx.h"

#include <string.h>

static uint32_t rma_eager_size(const struct na_plugin_class *na_class);
static enum kit_rma_mover rma_mover(void *owner, const struct kit_rma_request *request);
static int32_t rma_process(void *owner, void *peer, uint32_t *pid_p);
static void rma_attach_refused(void *owner, void *peer);
static void rma_transfer_done(void *owner, void *cookie, int32_t status);
static bool link_may_copy(const struct ucx_link *link, const struct kit_region *local,
                          const struct kit_region *remote);

static const struct kit_rma_ops rma_ops = {
    .control_send = kit_remote_control_send,
    .data_send = ucx_put_send,
    .mover = rma_mover,
    .process = rma_process,
    .attach_refused = rma_attach_refused,
    .piece_send = ucx_piece_send,
    .piece_recv = ucx_piece_recv,
    .piece_cancel = ucx_piece_cancel,
    .piece_withdraw = ucx_piece_withdraw,
    .transfer_done = rma_transfer_done,
    .peer_hold = kit_msg_peer_hold,
    .peer_release = kit_msg_peer_release,
};

int32_t ucx_rma_open(struct na_plugin_class *na_class)
{
    const struct kit_rma_config config = {
        .ops = &rma_ops,
        .plugin = UCX_PLUGIN_NAME,
        .regions = &na_class->regions,
        .eager_size = rma_eager_size(na_class),
        .piece_size = UCX_PIECE,
        .window = UCX_PIECES,
        .tag_count = UCX_TAGS,
        .piece_private = sizeof(struct ucx_piece),
    };

    return kit_remote_open(&na_class->fabric, &config);
}

int32_t ucx_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    struct ucx_link *link = ucx_peer(rma->peer)->link;
    struct ucx_transfer *transfer = rma->priv;
    int32_t ret = NA_PLUGIN_OPNOTSUPPORTED;

    memset(transfer, 0, sizeof(*transfer));
    transfer->na_class = na_class;
    transfer->rma = rma;
    transfer->link = link;
    kit_list_init(&transfer->node);
    if (rma->remote->region.owner == na_class->incarnation)
        return kit_remote_start(endpoint, rma);
    if (link == NULL || link->phase == UCX_LINK_FAILED)
        return NA_PLUGIN_HOSTUNREACH;
    if (link->phase != UCX_LINK_READY || link->is_failing)
        return NA_PLUGIN_AGAIN;
    if (rma->remote->region.owner != link->their_incarnation) {
        UCX_LOG_INFO("memory of an earlier process at %s is asked for", link->name);
        return NA_PLUGIN_HOSTUNREACH;
    }
    ucx_enter();
    if (ucx_read_is_possible(transfer))
        ret = ucx_read_start(transfer);
    if (ret == NA_PLUGIN_OPNOTSUPPORTED) {
        transfer->is_native = rma->remote->packed_size != 0 &&
                              !link_may_copy(link, &rma->local->region, &rma->remote->region) &&
                              link->data.ep != NULL && !link->is_data_broken;
        if (transfer->is_native)
            ret = ucx_native_start(transfer);
    }
    if (ret == NA_PLUGIN_OPNOTSUPPORTED) {
        transfer->is_native = false;
        ret = kit_remote_start(endpoint, rma);
    }
    ucx_leave();
    return ret;
}

/* A transfer by UCP ends when UCX completes it, others once nothing accesses the memory. */
bool ucx_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    struct ucx_transfer *transfer = rma->priv;

    if (!ucx_transfer_abandon(transfer, status, status != NA_PLUGIN_CANCELED))
        return false;
    kit_msg_rma_done(endpoint, rma, transfer->status);
    return true;
}

/* True if nothing accesses the local memory any more. */
bool ucx_transfer_abandon(struct ucx_transfer *transfer, int32_t status, bool is_peer_gone)
{
    struct kit_rma_transfer *part = transfer->rma->transfer;

    if (!transfer->is_abandoned)
        transfer->status = status;
    transfer->is_abandoned = true;
    kit_list_remove(&transfer->node);
    return !transfer->is_native && (part == NULL || kit_rma_abandon(transfer->na_class->fabric.rma,
                                                                    part, status, is_peer_gone));
}

/* With a key frames are authenticated, but a small put is no frame: so it is used without a key. */
static uint32_t rma_eager_size(const struct na_plugin_class *na_class)
{
    return na_class->secret == NULL ? UCX_PIECE : 0;
}

/* An inline put needs no GRANT of the target, so a small put over sockets takes one round trip. */
static enum kit_rma_mover rma_mover(void *owner, const struct kit_rma_request *request)
{
    const struct ucx_link *link = ucx_peer(request->peer)->link;
    const uint32_t most = link != NULL && link->is_stream ? rma_eager_size(owner) : 0;

    if (link != NULL && link_may_copy(link, request->local, request->remote))
        return KIT_RMA_ATTACH;
    return request->is_put != 0 && request->length <= most &&
                   ucx_regions_are_host(request->local, request->remote)
               ? KIT_RMA_INLINE
               : KIT_RMA_PIECES;
}

/* Until the message layer opens the peer, to answer it, its link is found by the name. */
static int32_t rma_process(void *owner, void *peer, uint32_t *pid_p)
{
    const struct kit_peer *kit_peer = peer;
    const struct ucx_link *link = ((const struct ucx_peer *) kit_peer->priv)->link;

    if (link == NULL)
        link = ucx_link_find(owner, kit_peer->name);
    *pid_p = link != NULL ? link->pid : 0;
    return *pid_p != 0 ? NA_PLUGIN_SUCCESS : NA_PLUGIN_OPNOTSUPPORTED;
}

static void rma_attach_refused(void *owner, void *peer)
{
    struct ucx_link *link = ucx_peer(peer)->link;

    (void) owner;
    if (link == NULL)
        return;
    if (!link->is_attach_refused)
        UCX_LOG_INFO("%s may not touch the memory of this process", link->name);
    link->is_attach_refused = true;
}

static void rma_transfer_done(void *owner, void *cookie, int32_t status)
{
    struct kit_msg_rma *rma = cookie;
    struct ucx_transfer *transfer = rma->priv;

    rma->transfer = NULL;
    if (transfer->is_read)
        ucx_read_part_done(transfer, status);
    else
        kit_remote_transfer_done(owner, rma, status);
}

static bool link_may_copy(const struct ucx_link *link, const struct kit_region *local,
                          const struct kit_region *remote)
{
    return link->pid != 0 && !link->is_attach_refused && ucx_regions_are_host(local, remote);
}
