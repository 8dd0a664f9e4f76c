/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers ask of our memory: each request is held against the registered regions first. */

#include "rma_state.h"

static int32_t target_check(struct kit_rma *rma, const struct rma_record *record,
                            struct kit_region **region_p);

/*
 * The record is in our byte order. NA_PLUGIN_SUCCESS: there is a transfer now, which may be over
 * already. An error: there is none, and the origin is to be told.
 */
int32_t kit_rma_target_start(struct kit_rma *rma, void *peer, const struct rma_record *record,
                             const uint32_t *tags)
{
    const bool is_put = (record->flags & RMA_IS_PUT) != 0;
    struct kit_region *region = NULL;
    int32_t ret = target_check(rma, record, &region);
    struct kit_rma_transfer *transfer = NULL;

    if (rma->target_count + rma->closing_count < RMA_TARGET_MAX)
        transfer = kit_rma_transfer_get(rma, peer, ret == NA_PLUGIN_SUCCESS ? record->length : 1,
                                        ret == NA_PLUGIN_SUCCESS ? record->piece_size : 1);
    if (transfer == NULL)
        return ret != NA_PLUGIN_SUCCESS ? ret : NA_PLUGIN_NOMEM;
    transfer->id = record->transfer;
    transfer->is_put = is_put;
    transfer->is_sender = !is_put;
    transfer->region = region;
    kit_rma_target_add(transfer);
    if (ret == NA_PLUGIN_SUCCESS) {
        transfer->base = kit_rma_mem_base(region) + record->offset;
        if (record->tag_count != 0 && !kit_rma_tags_take(transfer, record, tags))
            ret = NA_PLUGIN_PROTOCOL_ERROR;
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        kit_rma_activate(transfer);
        return ret;
    }
    rma->counters.refused++;
    RMA_LOG_WARNING(rma, "refused to let a peer %s %llu bytes at %llu of region %llx: %s",
                    is_put ? "write" : "read", (unsigned long long) record->length,
                    (unsigned long long) record->offset, (unsigned long long) record->memory,
                    kit_status_name(ret));
    kit_rma_transfer_end(transfer, ret, true);
    return NA_PLUGIN_SUCCESS;
}

static int32_t target_check(struct kit_rma *rma, const struct rma_record *record,
                            struct kit_region **region_p)
{
    const bool is_put = (record->flags & RMA_IS_PUT) != 0;

    if (record->length == 0 || record->piece_size < RMA_PIECE_MIN ||
        record->piece_size > rma->config.piece_size || (is_put && record->tag_count != 0))
        return NA_PLUGIN_PROTOCOL_ERROR;
    return kit_region_find(&rma->regions, record->memory, &record->key,
                           is_put ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ, record->offset,
                           record->length, region_p);
}
