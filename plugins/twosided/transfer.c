/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a transfer: started by the origin, or by a request for the target; run whenever
 * something about it changed; ended early; freed when neither side nor the network needs it.
 */

#include "state.h"

#include <string.h>

static int32_t transfer_own(struct twosided *ts, const struct twosided_request *request);
static void transfer_settle(struct twosided_transfer *transfer);
static bool transfer_is_complete(const struct twosided_transfer *transfer);
static void transfer_report(struct twosided_transfer *transfer);
static void transfer_put(struct twosided_transfer *transfer);
static void transfer_forget(struct twosided_transfer *transfer);

int32_t twosided_start(struct twosided *ts, const struct twosided_request *request,
                       struct twosided_transfer **transfer_p)
{
    struct twosided_transfer *transfer;
    int32_t ret;

    *transfer_p = NULL;
    if (request->remote->region.owner == ts->regions.owner) {
        ret = transfer_own(ts, request);
        if (ret == NA_PLUGIN_SUCCESS)
            ts->ops->transfer_done(ts->owner, request->cookie, NA_PLUGIN_SUCCESS);
        return ret;
    }
    transfer = twosided_transfer_get(ts, request->peer, request->length, ts->config.piece_size);
    if (transfer == NULL)
        return NA_PLUGIN_NOMEM;
    transfer->is_origin = true;
    transfer->is_put = transfer->is_sender = request->is_put != 0;
    transfer->cookie = request->cookie;
    transfer->base = twosided_mem_base(request->local) + request->local_offset;
    transfer->remote_id = request->remote->region.id;
    transfer->remote_key = request->remote->region.key;
    transfer->remote_offset = request->remote_offset;
    transfer->owes = TWOSIDED_OWES(TWOSIDED_REQUEST);
    ts->transfer_count++;
    kit_list_append(&ts->transfers, &transfer->node);
    ret = kit_table_add(&ts->ids, transfer, &transfer->id);
    if (ret != NA_PLUGIN_SUCCESS) {
        transfer->is_cut = true; /* it has no id to be forgotten */
        transfer_put(transfer);
        return ret;
    }
    *transfer_p = transfer;
    transfer->handle = transfer_p;
    twosided_transfer_run(transfer);
    if (*transfer_p != NULL)
        transfer->handle = NULL;
    return NA_PLUGIN_SUCCESS;
}

bool twosided_abandon(struct twosided *ts, struct twosided_transfer *transfer, int32_t status,
                      bool is_peer_gone)
{
    bool is_free;

    (void) ts;
    transfer->holds++;
    if (is_peer_gone)
        twosided_transfer_cut(transfer);
    twosided_transfer_end(transfer, status, !is_peer_gone);
    transfer->holds--;
    is_free = transfer->in_touch == 0;
    if (is_free)
        transfer->is_reported = true; /* by the caller */
    transfer_settle(transfer);
    return is_free;
}

/* With a reference to the peer, in no list. */
struct twosided_transfer *twosided_transfer_get(struct twosided *ts, void *peer, uint64_t length,
                                                uint32_t piece_size)
{
    struct twosided_transfer *transfer;

    if (kit_likely(!kit_list_empty(&ts->free_transfers))) {
        transfer = kit_container(ts->free_transfers.next, struct twosided_transfer, node);
        kit_list_remove(&transfer->node);
        memset(transfer, 0, sizeof(*transfer));
    } else {
        transfer = ts->host->mem_alloc(sizeof(*transfer), 64);
        if (transfer == NULL)
            return NULL;
    }
    kit_list_init(&transfer->node);
    kit_list_init(&transfer->room);
    kit_list_init(&transfer->retry);
    kit_list_init(&transfer->parts);
    transfer->ts = ts;
    transfer->peer = peer;
    transfer->length = length;
    transfer->piece_size = piece_size;
    transfer->pieces = (length - 1) / piece_size + 1;
    transfer->stop = UINT64_MAX;
    if (ts->ops->peer_hold != NULL)
        ts->ops->peer_hold(ts->owner, peer);
    return transfer;
}

/*
 * Does all that can be done now. What is called may come back here about the same transfer: then
 * the outer one goes round once more. It may be gone afterwards.
 */
void twosided_transfer_run(struct twosided_transfer *transfer)
{
    transfer->is_changed = true;
    if (transfer->is_running)
        return;
    transfer->is_running = true;
    while (transfer->is_changed) {
        bool is_again = false;

        transfer->is_changed = false;
        if (!transfer->is_over)
            is_again = !twosided_pieces_move(transfer);
        if (transfer->owes != 0)
            is_again |= !twosided_records_send(transfer);
        if (kit_unlikely(is_again))
            twosided_retry_add(transfer);
    }
    transfer->is_running = false;
    transfer_settle(transfer);
}

/*
 * Ends it early; of one that is over already, what is left. `is_told`: the other side does not know
 * yet and can be told. It may be gone afterwards.
 */
void twosided_transfer_end(struct twosided_transfer *transfer, int32_t status, bool is_told)
{
    struct twosided *ts = transfer->ts;
    bool is_known = !transfer->is_origin || transfer->is_known;

    transfer->holds++;
    if (!transfer->is_over) {
        transfer->is_over = true;
        transfer->status = status;
        transfer->owes = 0;
        if (is_told && is_known && !transfer->is_cut)
            transfer->owes = TWOSIDED_OWES(transfer->is_sender ? TWOSIDED_STOP : TWOSIDED_CANCEL);
        if (transfer->is_origin)
            ts->transfer_count--;
        else
            ts->job_count--;
        ts->orphan_count++;
        kit_list_remove(&transfer->room);
        kit_list_remove(&transfer->node);
        kit_list_append(&ts->orphans, &transfer->node);
        twosided_pieces_cancel(transfer);
    }
    if (transfer->is_cut || !is_known)
        transfer->stop = 0;
    twosided_pieces_withdraw(transfer);
    transfer->holds--;
    twosided_transfer_run(transfer);
}

/* Nothing goes to its peer any more, and what comes is not for it. The caller ends it. */
void twosided_transfer_cut(struct twosided_transfer *transfer)
{
    if (transfer->is_cut)
        return;
    transfer_forget(transfer);
    transfer->is_cut = true;
    transfer->owes = 0;
}

void twosided_retry_add(struct twosided_transfer *transfer)
{
    if (kit_list_empty(&transfer->retry))
        kit_list_append(&transfer->ts->retry, &transfer->retry);
}

/* A handle that came back to where it was made. */
static int32_t transfer_own(struct twosided *ts, const struct twosided_request *request)
{
    const struct twosided_memory *remote = request->remote;
    uint8_t *local = twosided_mem_base(request->local) + request->local_offset;
    struct twosided_memory *memory;
    int32_t ret;

    ret = twosided_mem_find(ts, remote->region.id, &remote->region.key,
                            request->is_put != 0 ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ,
                            request->remote_offset, request->length, &memory);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (request->is_put != 0)
        memmove(twosided_mem_base(memory) + request->remote_offset, local, request->length);
    else
        memmove(local, twosided_mem_base(memory) + request->remote_offset, request->length);
    return NA_PLUGIN_SUCCESS;
}

/* Reports it when its memory is free, and frees it when nothing is left of it. */
static void transfer_settle(struct twosided_transfer *transfer)
{
    bool is_complete;

    if (transfer->is_running || transfer->holds != 0)
        return;
    is_complete = transfer_is_complete(transfer);
    if (transfer->is_origin && !transfer->is_reported && transfer->in_touch == 0 &&
        (transfer->is_over || is_complete))
        transfer_report(transfer);
    if ((transfer->is_over || is_complete) && (!transfer->is_origin || transfer->is_reported) &&
        kit_list_empty(&transfer->parts) && transfer->owes == 0)
        transfer_put(transfer);
}

static bool transfer_is_complete(const struct twosided_transfer *transfer)
{
    if (transfer->done != transfer->pieces)
        return false;
    return transfer->is_origin != transfer->is_sender || transfer->is_landed;
}

static void transfer_report(struct twosided_transfer *transfer)
{
    struct twosided *ts = transfer->ts;

    transfer->is_reported = true;
    if (transfer->handle != NULL)
        *transfer->handle = NULL;
    transfer->handle = NULL;
    transfer->holds++;
    ts->ops->transfer_done(ts->owner, transfer->cookie,
                           transfer->is_over ? transfer->status : NA_PLUGIN_SUCCESS);
    transfer->holds--;
}

static void transfer_put(struct twosided_transfer *transfer)
{
    struct twosided *ts = transfer->ts;

    transfer_forget(transfer);
    if (transfer->is_over)
        ts->orphan_count--;
    else if (transfer->is_origin)
        ts->transfer_count--;
    else
        ts->job_count--;
    kit_list_remove(&transfer->room);
    kit_list_remove(&transfer->retry);
    kit_list_remove(&transfer->node);
    kit_list_append(&ts->free_transfers, &transfer->node);
    if (ts->ops->peer_release != NULL)
        ts->ops->peer_release(ts->owner, transfer->peer);
}

/* No record finds it any more. */
static void transfer_forget(struct twosided_transfer *transfer)
{
    if (transfer->is_cut)
        return;
    if (transfer->is_origin)
        kit_table_remove(&transfer->ts->ids, transfer->id);
    else
        twosided_job_forget(transfer);
}
