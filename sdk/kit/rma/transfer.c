/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a transfer: started by the origin, or by a request for the target; run whenever
 * something about it changed; ended early; freed when neither side nor the network needs it.
 */

#include "rma_state.h"

#include <string.h>

static int32_t transfer_own(struct kit_rma *rma, const struct kit_rma_request *request);
static void transfer_finish(struct kit_rma_transfer *transfer);
static bool transfer_is_complete(const struct kit_rma_transfer *transfer);
static void transfer_report(struct kit_rma_transfer *transfer);
static void transfer_put(struct kit_rma_transfer *transfer);
static void transfer_forget(struct kit_rma_transfer *transfer);

int32_t kit_rma_start(struct kit_rma *rma, const struct kit_rma_request *request,
                      struct kit_rma_transfer **transfer_p)
{
    struct kit_rma_transfer *transfer;
    int32_t ret;

    *transfer_p = NULL;
    if (request->remote->owner == rma->regions.owner) {
        ret = transfer_own(rma, request);
        if (ret == NA_PLUGIN_SUCCESS)
            rma->ops->transfer_done(rma->owner, request->cookie, NA_PLUGIN_SUCCESS);
        return ret;
    }
    transfer = kit_rma_transfer_get(rma, request->peer, request->length, rma->config.piece_size);
    if (transfer == NULL)
        return NA_PLUGIN_NOMEM;
    transfer->is_origin = true;
    transfer->is_put = transfer->is_sender = request->is_put != 0;
    transfer->cookie = request->cookie;
    transfer->base = kit_rma_mem_base(request->local) + request->local_offset;
    transfer->remote_id = request->remote->id;
    transfer->remote_key = request->remote->key;
    transfer->remote_offset = request->remote_offset;
    transfer->pending = RMA_PENDING(RMA_REQUEST);
    rma->transfer_count++;
    kit_list_append(&rma->transfers, &transfer->node);
    ret = kit_table_add(&rma->ids, transfer, &transfer->id);
    if (ret != NA_PLUGIN_SUCCESS) {
        transfer->is_aborted = true; /* it has no id to be forgotten */
        transfer_put(transfer);
        return ret;
    }
    *transfer_p = transfer;
    transfer->handle = transfer_p;
    kit_rma_transfer_run(transfer);
    if (*transfer_p != NULL)
        transfer->handle = NULL;
    return NA_PLUGIN_SUCCESS;
}

bool kit_rma_abandon(struct kit_rma *rma, struct kit_rma_transfer *transfer, int32_t status,
                     bool is_peer_gone)
{
    bool is_free;

    (void) rma;
    transfer->holds++;
    if (is_peer_gone)
        kit_rma_transfer_abort(transfer);
    kit_rma_transfer_end(transfer, status, !is_peer_gone);
    transfer->holds--;
    is_free = transfer->in_touch == 0;
    if (is_free)
        transfer->is_reported = true; /* by the caller */
    transfer_finish(transfer);
    return is_free;
}

/* With a reference to the peer, in no list. */
struct kit_rma_transfer *kit_rma_transfer_get(struct kit_rma *rma, void *peer, uint64_t length,
                                              uint32_t piece_size)
{
    struct kit_rma_transfer *transfer;

    if (kit_likely(!kit_list_empty(&rma->free_transfers))) {
        transfer = kit_container(rma->free_transfers.next, struct kit_rma_transfer, node);
        kit_list_remove(&transfer->node);
        memset(transfer, 0, sizeof(*transfer));
    } else {
        transfer = rma->host->mem_alloc(sizeof(*transfer), 64);
        if (transfer == NULL)
            return NULL;
    }
    kit_list_init(&transfer->node);
    kit_list_init(&transfer->room);
    kit_list_init(&transfer->retry);
    kit_list_init(&transfer->parts);
    transfer->rma = rma;
    transfer->peer = peer;
    transfer->length = length;
    transfer->piece_size = piece_size;
    transfer->pieces = (length - 1) / piece_size + 1;
    transfer->stop = UINT64_MAX;
    if (rma->ops->peer_hold != NULL)
        rma->ops->peer_hold(rma->owner, peer);
    return transfer;
}

/*
 * Does all that can be done now. What is called may come back here about the same transfer: then
 * the outer one goes round once more. It may be gone afterwards.
 */
void kit_rma_transfer_run(struct kit_rma_transfer *transfer)
{
    transfer->is_changed = true;
    if (transfer->is_running)
        return;
    transfer->is_running = true;
    while (transfer->is_changed) {
        bool is_again = false;

        transfer->is_changed = false;
        if (!transfer->is_over)
            is_again = !kit_rma_pieces_move(transfer);
        if (transfer->pending != 0)
            is_again |= !kit_rma_records_send(transfer);
        if (kit_unlikely(is_again))
            kit_rma_retry_add(transfer);
    }
    transfer->is_running = false;
    transfer_finish(transfer);
}

/*
 * Ends it early; of one that is over already, what is left. `is_told`: the other side does not know
 * yet and can be told. It may be gone afterwards.
 */
void kit_rma_transfer_end(struct kit_rma_transfer *transfer, int32_t status, bool is_told)
{
    struct kit_rma *rma = transfer->rma;
    bool is_known = !transfer->is_origin || transfer->is_known;

    transfer->holds++;
    if (!transfer->is_over) {
        transfer->is_over = true;
        transfer->status = status;
        transfer->pending = 0;
        if (is_told && is_known && !transfer->is_aborted)
            transfer->pending = RMA_PENDING(transfer->is_sender ? RMA_STOP : RMA_CANCEL);
        if (transfer->is_origin)
            rma->transfer_count--;
        else
            rma->target_count--;
        rma->closing_count++;
        kit_list_remove(&transfer->room);
        kit_list_remove(&transfer->node);
        kit_list_append(&rma->closing, &transfer->node);
        kit_rma_pieces_cancel(transfer);
    }
    if (transfer->is_aborted || !is_known)
        transfer->stop = 0;
    kit_rma_pieces_withdraw(transfer);
    transfer->holds--;
    kit_rma_transfer_run(transfer);
}

/* Nothing goes to its peer any more, and what comes is not for it. The caller ends it. */
void kit_rma_transfer_abort(struct kit_rma_transfer *transfer)
{
    if (transfer->is_aborted)
        return;
    transfer_forget(transfer);
    transfer->is_aborted = true;
    transfer->pending = 0;
}

void kit_rma_retry_add(struct kit_rma_transfer *transfer)
{
    if (kit_list_empty(&transfer->retry))
        kit_list_append(&transfer->rma->retry, &transfer->retry);
}

/* A handle that came back to where it was made. */
static int32_t transfer_own(struct kit_rma *rma, const struct kit_rma_request *request)
{
    const struct kit_region *remote = request->remote;
    uint8_t *local = kit_rma_mem_base(request->local) + request->local_offset;
    struct kit_region *memory;
    int32_t ret;

    ret = kit_region_find(&rma->regions, remote->id, &remote->key,
                          request->is_put != 0 ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ,
                          request->remote_offset, request->length, &memory);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (request->is_put != 0)
        memmove(kit_rma_mem_base(memory) + request->remote_offset, local, request->length);
    else
        memmove(local, kit_rma_mem_base(memory) + request->remote_offset, request->length);
    return NA_PLUGIN_SUCCESS;
}

/* Reports it when its memory is free, and frees it when nothing is left of it. */
static void transfer_finish(struct kit_rma_transfer *transfer)
{
    bool is_complete;

    if (transfer->is_running || transfer->holds != 0)
        return;
    is_complete = transfer_is_complete(transfer);
    if (transfer->is_origin && !transfer->is_reported && transfer->in_touch == 0 &&
        (transfer->is_over || is_complete))
        transfer_report(transfer);
    if ((transfer->is_over || is_complete) && (!transfer->is_origin || transfer->is_reported) &&
        kit_list_empty(&transfer->parts) && transfer->pending == 0)
        transfer_put(transfer);
}

static bool transfer_is_complete(const struct kit_rma_transfer *transfer)
{
    if (transfer->done != transfer->pieces)
        return false;
    return transfer->is_origin != transfer->is_sender || transfer->is_delivered;
}

static void transfer_report(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;

    transfer->is_reported = true;
    if (transfer->handle != NULL)
        *transfer->handle = NULL;
    transfer->handle = NULL;
    transfer->holds++;
    rma->ops->transfer_done(rma->owner, transfer->cookie,
                            transfer->is_over ? transfer->status : NA_PLUGIN_SUCCESS);
    transfer->holds--;
}

static void transfer_put(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;

    transfer_forget(transfer);
    if (transfer->is_over)
        rma->closing_count--;
    else if (transfer->is_origin)
        rma->transfer_count--;
    else
        rma->target_count--;
    kit_list_remove(&transfer->room);
    kit_list_remove(&transfer->retry);
    kit_list_remove(&transfer->node);
    kit_list_append(&rma->free_transfers, &transfer->node);
    if (rma->ops->peer_release != NULL)
        rma->ops->peer_release(rma->owner, transfer->peer);
}

/* No record finds it any more. */
static void transfer_forget(struct kit_rma_transfer *transfer)
{
    if (transfer->is_aborted)
        return;
    if (transfer->is_origin)
        kit_table_remove(&transfer->rma->ids, transfer->id);
    else
        kit_rma_target_forget(transfer);
}
