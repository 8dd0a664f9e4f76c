/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers: allocated, planned, found by id, ended early, freed. Of the owner's functions only
 * inline_size, mover, peer_hold and peer_release are called here.
 */

#include "rma_state.h"

#include <endian.h>
#include <string.h>

static uint32_t transfer_hash(const void *peer, uint64_t id);
static void transfer_unhash(struct kit_rma_transfer *transfer);

/* Returns a transfer that references the peer and is in no list, or NULL. */
struct kit_rma_transfer *kit_rma_transfer_get(struct kit_rma *rma, void *peer, uint64_t length)
{
    const size_t size = RMA_TRANSFER_SIZE + rma->config.transfer_private;
    struct kit_rma_transfer *transfer;

    if (kit_likely(!kit_list_empty(&rma->free_transfers))) {
        transfer = kit_container(rma->free_transfers.next, struct kit_rma_transfer, node);
        kit_list_remove(&transfer->node);
        memset(transfer, 0, size);
    } else {
        transfer = kit_host->mem_alloc(size, 64);
        if (transfer == NULL)
            return NULL;
    }
    kit_list_init(&transfer->node);
    kit_list_init(&transfer->active);
    kit_list_init(&transfer->room);
    kit_list_init(&transfer->retry);
    kit_list_init(&transfer->parts);
    transfer->rma = rma;
    transfer->peer = peer;
    transfer->length = length;
    transfer->stop = UINT64_MAX;
    if (rma->ops->peer_hold != NULL)
        rma->ops->peer_hold(rma->owner, peer);
    return transfer;
}

/* At the origin: chooses the mover and prepares the REQUEST. */
void kit_rma_transfer_plan(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;
    const struct kit_rma_request *request = &transfer->request;
    enum kit_rma_mover mover = KIT_RMA_PIECES;
    uint32_t piece_size = rma->config.piece_size;
    struct rma_attach attach;

    transfer->is_device = request->local->mem_type != NA_PLUGIN_MEM_TYPE_HOST ||
                          request->remote->mem_type != NA_PLUGIN_MEM_TYPE_HOST;
    if ((request->length <= rma->config.inline_size && !transfer->is_device) || rma->is_inline_only)
        mover = KIT_RMA_INLINE;
    else if (rma->ops->mover != NULL)
        mover = rma->ops->mover(rma->owner, request);
    transfer->is_eager = mover == KIT_RMA_INLINE && transfer->is_put &&
                         request->length > rma->config.inline_size &&
                         request->length <= rma->config.eager_size;
    if (mover == KIT_RMA_INLINE)
        piece_size = transfer->is_eager ? (uint32_t) request->length : rma->config.inline_size;
    if (mover == KIT_RMA_INLINE && transfer->is_put && !transfer->is_eager)
        piece_size =
            kit_rma_inline_size_max(rma, transfer->peer, piece_size); /* get: at the target */
    kit_rma_transfer_set_mover(transfer, mover, piece_size);
    rma->counters.moved[mover]++;
    transfer->pending = RMA_PENDING(RMA_REQUEST);
    transfer->is_known = transfer->has_note = false;
    if (mover == KIT_RMA_ATTACH) {
        transfer->guard = htole64(++rma->guards);
        attach.address = htole64((uint64_t) (uintptr_t) transfer->base);
        attach.guard = htole64((uint64_t) (uintptr_t) &transfer->guard);
        attach.value = transfer->guard;
        memcpy(transfer->note, &attach, sizeof(attach));
        transfer->note_size = sizeof(attach);
        transfer->has_note = true;
    } else if (mover == KIT_RMA_INLINE) { /* a put's first record is the REQUEST */
        transfer->granted = kit_rma_inline_first_grant(transfer);
    }
}

void kit_rma_transfer_set_mover(struct kit_rma_transfer *transfer, enum kit_rma_mover mover,
                                uint32_t piece_size)
{
    transfer->mover = mover;
    transfer->is_sender =
        kit_rma_is_remote(mover) ? !transfer->is_origin : transfer->is_put == transfer->is_origin;
    transfer->piece_size = piece_size;
    transfer->pieces = kit_rma_is_remote(mover) ? 1 : (transfer->length - 1) / piece_size + 1;
}

void kit_rma_transfer_put(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;

    transfer_unhash(transfer);
    if (transfer->is_over)
        rma->closing_count--;
    else if (transfer->is_origin)
        rma->origin_count--;
    else
        rma->target_count--;
    kit_list_remove(&transfer->active);
    kit_list_remove(&transfer->room);
    kit_list_remove(&transfer->retry);
    kit_list_remove(&transfer->node);
    kit_list_append(&rma->free_transfers, &transfer->node);
    if (rma->ops->peer_release != NULL)
        rma->ops->peer_release(rma->owner, transfer->peer);
}

/* The origin chooses the id of a transfer, so targets are hashed by peer and id. */
void kit_rma_target_add(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;
    const uint32_t hash = transfer_hash(transfer->peer, transfer->id);

    transfer->hash_next = rma->buckets[hash];
    rma->buckets[hash] = transfer;
    rma->target_count++;
    kit_list_append(&rma->targets, &transfer->node);
}

/* Returns the transfer of this peer and id, neither of them trusted, or NULL. `is_origin`: ours. */
struct kit_rma_transfer *kit_rma_transfer_find(struct kit_rma *rma, const void *peer, uint64_t id,
                                               bool is_origin)
{
    struct kit_rma_transfer *transfer;

    if (is_origin) {
        transfer = kit_table_find(&rma->ids, id);
        return transfer != NULL && transfer->peer == peer ? transfer : NULL;
    }
    transfer = rma->buckets[transfer_hash(peer, id)];
    while (transfer != NULL && (transfer->peer != peer || transfer->id != id))
        transfer = transfer->hash_next;
    return transfer;
}

/*
 * Ends a transfer early; one that has ended already stops to wait for pieces if it is aborted.
 * `tell_peer`: the other side is to be told by STOP or CANCEL.
 */
void kit_rma_transfer_end(struct kit_rma_transfer *transfer, int32_t status, bool tell_peer)
{
    struct kit_rma *rma = transfer->rma;
    const bool is_known = !transfer->is_origin || transfer->is_known;

    if (!transfer->is_over) {
        transfer->is_over = true;
        transfer->status = status;
        transfer->pending = 0;
        if (tell_peer && is_known && !transfer->is_aborted)
            transfer->pending = RMA_PENDING(transfer->is_sender ? RMA_STOP : RMA_CANCEL);
        if (transfer->is_origin)
            rma->origin_count--;
        else
            rma->target_count--;
        rma->closing_count++;
        kit_list_remove(&transfer->room);
        kit_list_remove(&transfer->node);
        kit_list_append(&rma->closing, &transfer->node);
    }
    if (transfer->is_aborted || !is_known)
        transfer->stop = 0;
    kit_rma_activate(transfer);
}

/* No record is sent to the peer or accepted from it any more. The caller ends the transfer. */
void kit_rma_transfer_abort(struct kit_rma_transfer *transfer)
{
    if (transfer->is_aborted)
        return;
    transfer_unhash(transfer);
    transfer->is_aborted = true;
    transfer->pending = 0;
}

static uint32_t transfer_hash(const void *peer, uint64_t id)
{
    uint64_t value = ((uint64_t) (uintptr_t) peer >> 4) * UINT64_C(0x9e3779b97f4a7c15) + id;

    value *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t) (value >> 32) % RMA_BUCKETS;
}

/* Removes the id, so that no record finds the transfer any more. */
static void transfer_unhash(struct kit_rma_transfer *transfer)
{
    struct kit_rma_transfer **link;

    if (transfer->is_aborted)
        return;
    if (transfer->is_origin) {
        kit_table_remove(&transfer->rma->ids, transfer->id);
        return;
    }
    link = &transfer->rma->buckets[transfer_hash(transfer->peer, transfer->id)];
    while (*link != NULL && *link != transfer)
        link = &(*link)->hash_next;
    if (*link == transfer)
        *link = transfer->hash_next;
}
