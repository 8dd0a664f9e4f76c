/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inline transfers: the bytes travel in the control records, which arrive whole and in order. The
 * first record of a put is its REQUEST; the receiver says up to which one the sender may go. Where
 * the network can, a REQUEST has all of the bytes behind it, or each record those of its own.
 */

#include "rma_state.h"

#include <string.h>

static uint64_t inline_window(const struct kit_rma_transfer *transfer);

/* Bytes in a record to that peer, no more than the other side can do. */
uint32_t kit_rma_inline_most(const struct kit_rma *rma, void *peer, uint32_t piece_size)
{
    const uint32_t most = rma->ops->inline_size != NULL ? rma->ops->inline_size(rma->owner, peer)
                                                        : rma->config.inline_size;

    return most < piece_size ? most : piece_size;
}

/* Records that may be sent before the receiver says more: it has nothing to make ready. */
uint64_t kit_rma_inline_first(const struct kit_rma_transfer *transfer)
{
    const uint64_t window = inline_window(transfer);

    return transfer->pieces < window ? transfer->pieces : window;
}

/* Notes down what is to be sent; there is nothing to be asked again. */
bool kit_rma_inline_move(struct kit_rma_transfer *transfer)
{
    if (transfer->is_sender) {
        if (transfer->moved < transfer->granted &&
            (transfer->pending & RMA_PENDING(RMA_REQUEST)) == 0)
            transfer->pending |= RMA_PENDING(RMA_DATA);
        return true;
    }
    if (transfer->granted == transfer->pieces ||
        transfer->granted - transfer->done > inline_window(transfer) / 2)
        return true;
    transfer->granted = transfer->done + inline_window(transfer);
    if (transfer->granted > transfer->pieces)
        transfer->granted = transfer->pieces;
    transfer->pending |= RMA_PENDING(RMA_GRANT);
    return true;
}

/* Bytes of that record. */
uint32_t kit_rma_inline_size(const struct kit_rma_transfer *transfer, uint64_t number)
{
    const uint64_t left = transfer->length - number * transfer->piece_size;

    return left < transfer->piece_size ? (uint32_t) left : transfer->piece_size;
}

/* Where in the region they are. */
uint64_t kit_rma_inline_offset(const struct kit_rma_transfer *transfer, uint64_t number)
{
    return (uint64_t) (transfer->base - kit_rma_mem_base(transfer->region)) +
           number * transfer->piece_size;
}

/* Up to which record the receiver lets us go. False: it cannot be. */
bool kit_rma_inline_grant(struct kit_rma_transfer *transfer, uint64_t granted)
{
    if (granted <= transfer->granted || granted > transfer->pieces)
        return false;
    transfer->granted = granted;
    return true;
}

/* Bytes that came. False: they are not the next ones, or were not granted. */
bool kit_rma_inline_take(struct kit_rma_transfer *transfer, const struct rma_in *in)
{
    const struct kit_rma *rma = transfer->rma;
    const uint64_t number = in->record.number;

    if (kit_unlikely(transfer->done == 0 && in->record.piece_size != 0 &&
                     in->record.piece_size < transfer->piece_size) &&
        transfer->is_origin)
        kit_rma_transfer_set_mover(transfer, KIT_RMA_INLINE, in->record.piece_size);
    if (number != transfer->done || number >= transfer->granted ||
        in->payload_size != kit_rma_inline_size(transfer, number))
        return false;
    if (kit_rma_is_apart(rma))
        rma->ops->data_take(rma->owner, transfer->region, kit_rma_inline_offset(transfer, number),
                            in->payload, in->payload_size);
    else
        memcpy(transfer->base + number * transfer->piece_size, in->payload, in->payload_size);
    transfer->done++;
    if (transfer->done == transfer->pieces && !transfer->is_origin) {
        transfer->is_delivered = true;
        transfer->pending |= RMA_PENDING(RMA_DONE);
    }
    return true;
}

/* Records that are sealed are copied, and may be large: what they take has a bound. */
static uint64_t inline_window(const struct kit_rma_transfer *transfer)
{
    uint32_t window = RMA_INLINE_WINDOW;

    if (transfer->rma->is_inline_only && transfer->piece_size > RMA_INLINE_BYTES / window)
        window = RMA_INLINE_BYTES / transfer->piece_size;
    return window > RMA_INLINE_WINDOW_MIN ? window : RMA_INLINE_WINDOW_MIN;
}
