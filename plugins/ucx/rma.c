/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets at their origin. Four ways lead to the other process's memory: on one node reading
 * it and copying by the target, one-sided lanes of UCX, and pieces in active messages, which the
 * target sends or takes. Which one is a matter of the link.
 */

#include "ucx.h"

#include <string.h>

static enum ucx_transfer_way transfer_way(struct ucx_link *link, struct fabric_rma *rma);
static bool link_has_native_lanes(struct ucx_link *link);
static int32_t transfer_own(struct na_plugin_class *na_class, const struct fabric_rma *rma);
static void transfer_end(struct ucx_transfer *transfer, int32_t status);

int32_t ucx_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return fabric_rma_submit(context, op, 1, local, local_offset, remote, remote_offset, length,
                             addr, remote_id);
}

int32_t ucx_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return fabric_rma_submit(context, op, 0, local, local_offset, remote, remote_offset, length,
                             addr, remote_id);
}

int32_t ucx_rma_start(struct fabric_endpoint *endpoint, struct fabric_rma *rma)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    struct ucx_link *link = ucx_peer(rma->peer)->link;
    struct ucx_transfer *transfer = rma->priv;
    int32_t ret;

    if (rma->remote->region.owner == na_class->incarnation) {
        ret = transfer_own(na_class, rma);
        if (ret == NA_PLUGIN_SUCCESS)
            fabric_rma_done(endpoint, rma, NA_PLUGIN_SUCCESS);
        return ret;
    }
    if (link == NULL || link->phase == UCX_LINK_FAILED)
        return NA_PLUGIN_HOSTUNREACH;
    if (link->phase != UCX_LINK_READY || link->is_failing)
        return NA_PLUGIN_AGAIN;
    if (rma->remote->region.owner != link->their_incarnation) {
        UCX_LOG_INFO("memory of an earlier process at %s is asked for", link->name);
        return NA_PLUGIN_HOSTUNREACH;
    }
    memset(transfer, 0, sizeof(*transfer));
    transfer->rma = rma;
    transfer->link = link;
    kit_list_init(&transfer->tickets);
    kit_list_init(&transfer->due);
    ret = kit_table_add(&na_class->transfers, transfer, &transfer->id);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    kit_list_append(&link->transfers, &transfer->node);
    transfer->way = transfer_way(link, rma);
    ucx_enter();
    switch (transfer->way) {
    case UCX_WAY_COPY:
        ret = ucx_attach_start(transfer);
        break;
    case UCX_WAY_READ:
        ret = ucx_read_start(transfer);
        break;
    case UCX_WAY_UCP:
        ret = ucx_native_start(transfer);
        break;
    default:
        ret = ucx_message_start(transfer);
    }
    ucx_leave();
    if (ret != NA_PLUGIN_SUCCESS && ret != NA_PLUGIN_AGAIN && transfer->in_touch != 0) {
        /* A part of it is under way: it ends with that. */
        transfer->is_over = true;
        transfer->status = ret;
        return NA_PLUGIN_SUCCESS;
    }
    if (ret != NA_PLUGIN_SUCCESS) {
        kit_list_remove(&transfer->node);
        kit_table_remove(&na_class->transfers, transfer->id);
    }
    return ret;
}

/* As soon as no request of UCX knows the memory, nothing of this transfer will touch it. */
bool ucx_rma_abandon(struct fabric_endpoint *endpoint, struct fabric_rma *rma, int32_t status)
{
    struct ucx_transfer *transfer = rma->priv;

    (void) endpoint;
    if (!transfer->is_over) {
        transfer->is_over = true;
        transfer->status = status;
        if (transfer->way != UCX_WAY_UCP) {
            ucx_enter();
            ucx_message_stop(transfer);
            ucx_leave();
        }
    }
    if (transfer->in_touch != 0)
        return false;
    transfer_end(transfer, status);
    return true;
}

void ucx_transfer_touch(struct ucx_transfer *transfer)
{
    transfer->in_touch++;
}

/* A request of UCX ended, with so many bytes moved for good. */
void ucx_transfer_untouch(struct ucx_transfer *transfer, int32_t status, uint64_t bytes)
{
    transfer->in_touch--;
    ucx_transfer_advance(transfer, status, bytes);
}

/* The transfer may be gone afterwards. */
void ucx_transfer_advance(struct ucx_transfer *transfer, int32_t status, uint64_t bytes)
{
    transfer->done += bytes;
    if (kit_unlikely(status != NA_PLUGIN_SUCCESS) && !transfer->is_over) {
        transfer->is_over = true;
        transfer->status = status;
    }
    if (transfer->in_touch != 0)
        return;
    if (transfer->is_over)
        transfer_end(transfer, transfer->status);
    else if (transfer->done >= transfer->rma->length)
        transfer_end(transfer, NA_PLUGIN_SUCCESS);
}

/* The link failed; what UCX still has in hand ends when its endpoint is closed. */
void ucx_transfers_fail(struct ucx_link *link, int32_t status)
{
    struct kit_link *node, *next;

    for (node = link->transfers.next; node != &link->transfers; node = next) {
        struct ucx_transfer *transfer = kit_container(node, struct ucx_transfer, node);

        next = node->next;
        if (!transfer->is_over) {
            transfer->is_over = true;
            transfer->status = status;
        }
        if (transfer->in_touch == 0)
            transfer_end(transfer, transfer->status);
    }
}

/* The endpoint is closed: nothing touches memory for it any more. */
void ucx_transfers_forget(struct ucx_link *link)
{
    while (!kit_list_empty(&link->transfers)) {
        struct ucx_transfer *transfer =
            kit_container(link->transfers.next, struct ucx_transfer, node);

        transfer_end(transfer, transfer->is_over ? transfer->status : NA_PLUGIN_HOSTUNREACH);
    }
}

static enum ucx_transfer_way transfer_way(struct ucx_link *link, struct fabric_rma *rma)
{
    bool is_host = rma->local->region.mem_type == NA_PLUGIN_MEM_TYPE_HOST &&
                   rma->remote->region.mem_type == NA_PLUGIN_MEM_TYPE_HOST;

    if (is_host && ucx_read_is_way(link, rma))
        return UCX_WAY_READ;
    if (link->pid != 0 && !link->is_attach_refused && is_host)
        return UCX_WAY_COPY;
    if (link->na_class->wants_keys && rma->remote->packed_size != 0 && link_has_native_lanes(link))
        return UCX_WAY_UCP;
    return UCX_WAY_MESSAGES;
}

/* UCP does puts and gets over any transport, but where no lane can, by software of its own. */
static bool link_has_native_lanes(struct ucx_link *link)
{
    static const char *const transports[] = {":rc_verbs/", ":rc_mlx5/", ":dc_mlx5/", ":ugni_rdma/",
                                             NULL};

    if (link->lanes == UCX_LANES_UNKNOWN)
        link->lanes = link->na_class->rma == UCX_RMA_UCP || ucx_link_has_lane(link, transports)
                          ? UCX_LANES_NATIVE
                          : UCX_LANES_EMULATED;
    return link->lanes == UCX_LANES_NATIVE;
}

/* Memory of this very endpoint, which a handle that came back refers to. */
static int32_t transfer_own(struct na_plugin_class *na_class, const struct fabric_rma *rma)
{
    struct na_plugin_mem *mem;
    uint8_t *local = (uint8_t *) (uintptr_t) rma->local->region.base + rma->local_offset;
    uint8_t *remote;
    int32_t ret;

    ret = ucx_mem_find(na_class, rma->remote->region.id, &rma->remote->region.key,
                       rma->is_put != 0 ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ,
                       rma->remote_offset, rma->length, &mem);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (mem->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST ||
        rma->local->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        return NA_PLUGIN_OPNOTSUPPORTED;
    remote = (uint8_t *) (uintptr_t) mem->region.base + rma->remote_offset;
    if (rma->is_put != 0)
        memmove(remote, local, rma->length);
    else
        memmove(local, remote, rma->length);
    return NA_PLUGIN_SUCCESS;
}

static void transfer_end(struct ucx_transfer *transfer, int32_t status)
{
    struct na_plugin_class *na_class = transfer->link->na_class;

    /* Empty unless the worker is gone, and what it had in hand with it. */
    while (!kit_list_empty(&transfer->tickets))
        kit_list_remove(transfer->tickets.next);
    kit_list_remove(&transfer->node);
    kit_list_remove(&transfer->due);
    kit_table_remove(&na_class->transfers, transfer->id);
    fabric_rma_done(&na_class->fabric, transfer->rma, status);
}
