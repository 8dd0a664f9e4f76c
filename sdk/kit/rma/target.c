/* SPDX-License-Identifier: BSD-3-Clause */
/* The target: checks the REQUEST of a peer against the registered regions and starts a transfer. */

#include "rma_state.h"

#include <string.h>

static int32_t target_check(struct kit_rma *rma, void *peer, const struct rma_in *in,
                            struct kit_region **region_p);
static int32_t target_check_mover(const struct kit_rma *rma, const struct rma_in *in);
static int32_t target_begin(struct kit_rma_transfer *transfer, const struct rma_in *in);

/*
 * NA_PLUGIN_SUCCESS: there is a transfer, which may have ended already, with an error for the
 * origin. An error: there is none, and the caller tells the origin.
 */
int32_t kit_rma_target_start(struct kit_rma *rma, void *peer, const struct rma_in *in)
{
    const struct rma_record *record = &in->record;
    const bool is_put = (record->flags & RMA_IS_PUT) != 0;
    struct kit_region *region = NULL;
    int32_t ret = target_check(rma, peer, in, &region);
    struct kit_rma_transfer *transfer = NULL;
    uint32_t level;

    /* A refused request gets a transfer, too: it repeats the refusal until that is sent. */
    if (rma->target_count + rma->closing_count < RMA_TARGET_MAX)
        transfer = kit_rma_transfer_get(rma, peer, ret == NA_PLUGIN_SUCCESS ? record->length : 1);
    if (transfer == NULL)
        return ret != NA_PLUGIN_SUCCESS ? ret : NA_PLUGIN_NOMEM;
    transfer->id = record->transfer;
    transfer->is_put = is_put;
    transfer->region = region;
    kit_rma_transfer_set_mover(transfer, in->mover,
                               ret == NA_PLUGIN_SUCCESS ? record->piece_size : 1);
    kit_rma_target_add(transfer);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = target_begin(transfer, in);
    if (ret == NA_PLUGIN_SUCCESS) {
        kit_rma_activate(transfer);
        return ret;
    }
    level = kit_log_level_first(&rma->counters.refused);
    RMA_LOG(rma, level,
            "refused to let a peer %s %llu bytes at %llu of region %llx: %s; others are at level "
            "debug",
            is_put ? "write" : "read", (unsigned long long) record->length,
            (unsigned long long) record->offset, (unsigned long long) record->memory,
            kit_status_name(ret));
    kit_rma_transfer_end(transfer, ret, true);
    return NA_PLUGIN_SUCCESS;
}

static int32_t target_check(struct kit_rma *rma, void *peer, const struct rma_in *in,
                            struct kit_region **region_p)
{
    const struct rma_record *record = &in->record;
    const bool is_put = (record->flags & RMA_IS_PUT) != 0;
    int32_t ret = record->length == 0 ? NA_PLUGIN_PROTOCOL_ERROR : target_check_mover(rma, in);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = kit_region_find(rma->regions, record->memory, &record->key,
                          is_put ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ, record->offset,
                          record->length, region_p);
    if (kit_unlikely(rma->may_reach != NULL) && ret == NA_PLUGIN_SUCCESS &&
        !rma->may_reach(rma->owner, peer, *region_p))
        return NA_PLUGIN_PERMISSION;
    if (ret == NA_PLUGIN_SUCCESS && (*region_p)->mem_type != NA_PLUGIN_MEM_TYPE_HOST &&
        (in->mover == KIT_RMA_INLINE || in->mover == KIT_RMA_ATTACH))
        return NA_PLUGIN_OPNOTSUPPORTED;
    return ret;
}

/* Checks that we have the mover, and that the record is valid for it. */
static int32_t target_check_mover(const struct kit_rma *rma, const struct rma_in *in)
{
    const struct rma_record *record = &in->record;
    const bool is_put = (record->flags & RMA_IS_PUT) != 0;
    bool is_valid = false;

    if (rma->is_inline_only && in->mover != KIT_RMA_INLINE)
        return NA_PLUGIN_OPNOTSUPPORTED;
    switch (in->mover) {
    case KIT_RMA_PIECES:
        is_valid = rma->ops->piece_send != NULL && record->piece_size >= RMA_PIECE_MIN &&
                   record->piece_size <= rma->config.piece_size &&
                   !(is_put && record->tag_count != 0);
        break;
    case KIT_RMA_INLINE:
        is_valid = record->piece_size != 0 && record->piece_size <= rma->config.inline_size &&
                   (is_put ? in->payload_size != 0 : in->payload_size == 0);
        if (in->is_eager)
            is_valid = record->length == in->payload_size && record->piece_size == record->length;
        break;
    case KIT_RMA_ATTACH:
        is_valid = in->payload_size == sizeof(struct rma_attach);
        if (rma->ops->process == NULL)
            return NA_PLUGIN_OPNOTSUPPORTED;
        break;
    default:
        is_valid = rma->ops->move != NULL && in->payload_size <= KIT_RMA_NOTE_MAX &&
                   record->length <= rma->config.part_size;
    }
    return is_valid ? NA_PLUGIN_SUCCESS : NA_PLUGIN_PROTOCOL_ERROR;
}

static int32_t target_begin(struct kit_rma_transfer *transfer, const struct rma_in *in)
{
    const struct rma_record *record = &in->record;
    bool is_valid = true;

    transfer->base = kit_rma_mem_base(transfer->region) + record->offset;
    transfer->is_device = (record->flags & RMA_IS_DEVICE) != 0 ||
                          transfer->region->mem_type != NA_PLUGIN_MEM_TYPE_HOST;
    if (in->mover == KIT_RMA_PIECES && record->tag_count != 0) {
        is_valid = kit_rma_tags_take(transfer, record, in->tags);
    } else if (in->mover == KIT_RMA_INLINE && transfer->is_put) {
        transfer->granted = kit_rma_inline_first_grant(transfer);
        is_valid = kit_rma_inline_take(transfer, in);
    } else if (in->mover == KIT_RMA_INLINE) {
        kit_rma_transfer_set_mover(
            transfer, in->mover,
            kit_rma_inline_size_max(transfer->rma, transfer->peer, record->piece_size));
        is_valid = kit_rma_inline_grant(transfer, record->number);
    } else if (kit_rma_is_remote(in->mover)) {
        memcpy(transfer->note, in->payload, in->payload_size);
        transfer->note_size = in->payload_size;
    }
    return is_valid ? NA_PLUGIN_SUCCESS : NA_PLUGIN_PROTOCOL_ERROR;
}
