/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inline transfers: the bytes travel in the control records, which arrive whole and in order. The
 * first record of a put is its REQUEST; the receiver grants the number of records that may be sent.
 * With data_send all bytes follow the REQUEST, or each record is followed by its own.
 */

#include "rma_state.h"

#include <string.h>

static uint64_t inline_window(const struct kit_rma_transfer *transfer);

/* Bytes in a record to this peer; `piece_size` is the most that the other side accepts. */
uint32_t kit_rma_inline_size_max(const struct kit_rma *rma, void *peer, uint32_t piece_size)
{
    const uint32_t most = rma->ops->inline_size != NULL ? rma->ops->inline_size(rma->owner, peer)
                                                        : rma->config.inline_size;

    return most < piece_size ? most : piece_size;
}

/* Records that may be sent before the first GRANT: an inline receiver posts nothing. */
uint64_t kit_rma_inline_first_grant(const struct kit_rma_transfer *transfer)
{
    const uint64_t window = inline_window(transfer);

    return transfer->pieces < window ? transfer->pieces : window;
}

/* Marks DATA or GRANT as pending. Always true: it never depends on the owner's resources. */
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

/* Bytes of data in record `number`. */
uint32_t kit_rma_inline_size(const struct kit_rma_transfer *transfer, uint64_t number)
{
    const uint64_t left = transfer->length - number * transfer->piece_size;

    return left < transfer->piece_size ? (uint32_t) left : transfer->piece_size;
}

/* Offset of these bytes in the region. */
uint64_t kit_rma_inline_offset(const struct kit_rma_transfer *transfer, uint64_t number)
{
    return (uint64_t) (transfer->base - kit_rma_mem_base(transfer->region)) +
           number * transfer->piece_size;
}

/* Takes the number of granted records from a GRANT or REQUEST. False: the number is invalid. */
bool kit_rma_inline_grant(struct kit_rma_transfer *transfer, uint64_t granted)
{
    if (granted <= transfer->granted || granted > transfer->pieces)
        return false;
    transfer->granted = granted;
    return true;
}

/* Copies the bytes of a record. False: they are not the next ones, or were not granted. */
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
    if (kit_rma_owner_copies(rma))
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

/* Sealed records are copied and may be large, so that their window is limited in bytes too. */
static uint64_t inline_window(const struct kit_rma_transfer *transfer)
{
    uint32_t window = RMA_INLINE_WINDOW;

    if (transfer->rma->is_inline_only && transfer->piece_size > RMA_INLINE_BYTES / window)
        window = RMA_INLINE_BYTES / transfer->piece_size;
    return window > RMA_INLINE_WINDOW_MIN ? window : RMA_INLINE_WINDOW_MIN;
}
