/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Movers whose target moves the bytes of a put and of a get: cross-memory attach, and one-sided
 * reads and writes. The origin's memory is in use until DONE or STOP arrives.
 */

#include "rma_state.h"

#include <endian.h>
#include <string.h>

static bool origin_run(struct kit_rma_transfer *transfer);
static void origin_advance(struct kit_rma_transfer *transfer);
static int32_t origin_renew(struct kit_rma_transfer *transfer);
static bool origin_expose(struct kit_rma_transfer *transfer);
static void origin_conceal(struct kit_rma_transfer *transfer);
static bool attach_move(struct kit_rma_transfer *transfer);
static int32_t attach_step(struct kit_rma_transfer *transfer);
static bool one_sided_move(struct kit_rma_transfer *transfer);
static void target_deliver(struct kit_rma_transfer *transfer);

/* Returns false if the owner had no resources: the caller retries. */
bool kit_rma_move_run(struct kit_rma_transfer *transfer)
{
    if (transfer->is_origin)
        return origin_run(transfer);
    if (transfer->is_delivered)
        return true;
    return transfer->mover == KIT_RMA_ATTACH ? attach_move(transfer) : one_sided_move(transfer);
}

/* The transfer has ended: the origin conceals its memory once the target stopped or is gone. */
void kit_rma_move_quiesce(struct kit_rma_transfer *transfer)
{
    if (!transfer->is_origin || (!transfer->is_aborted && transfer->stop == UINT64_MAX &&
                                 transfer->in_use != 0 && !transfer->is_delivered))
        return;
    transfer->in_use = 0;
    transfer->guard = 0;
    origin_conceal(transfer);
}

void kit_rma_move_done(struct kit_rma *rma, struct kit_rma_move *move, int32_t status)
{
    struct kit_rma_transfer *transfer = kit_container(move, struct kit_rma_transfer, move);

    (void) rma;
    transfer->is_moving = false;
    transfer->in_use = 0;
    kit_rma_activate(transfer);
    if (transfer->is_over || transfer->is_delivered)
        return;
    if (status == NA_PLUGIN_SUCCESS)
        target_deliver(transfer);
    else
        kit_rma_transfer_end(transfer, status, true);
}

static bool origin_run(struct kit_rma_transfer *transfer)
{
    const struct kit_rma *rma = transfer->rma;

    if (transfer->is_refused) {
        rma->ops->attach_refused(rma->owner, transfer->peer);
        transfer->is_refused = false;
        transfer->in_use = 0;
        kit_rma_transfer_plan(transfer);
        if (transfer->mover == KIT_RMA_ATTACH)
            kit_rma_transfer_end(transfer, NA_PLUGIN_OPNOTSUPPORTED, false);
        kit_rma_activate(transfer);
        return true;
    }
    if (transfer->is_delivered)
        origin_advance(transfer);
    if (transfer->is_over || transfer->mover != KIT_RMA_ONE_SIDED || transfer->has_note ||
        (transfer->pending & RMA_PENDING(RMA_REQUEST)) == 0)
        return true;
    return origin_expose(transfer);
}

/* The target has moved all bytes, or a part of a one-sided transfer. */
static void origin_advance(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;
    int32_t ret = NA_PLUGIN_SUCCESS;

    transfer->in_use = 0;
    transfer->is_delivered = transfer->has_note = false;
    if (transfer->mover == KIT_RMA_ONE_SIDED) {
        ret = rma->ops->expose_check(rma->owner, &transfer->exposure);
        transfer->position += transfer->exposure.size;
    } else {
        transfer->position = transfer->length;
    }
    if (ret == NA_PLUGIN_SUCCESS && transfer->position != transfer->length)
        ret = origin_renew(transfer);
    if (ret != NA_PLUGIN_SUCCESS)
        kit_rma_transfer_end(transfer, ret, false);
    else if (transfer->position == transfer->length)
        transfer->done = transfer->pieces;
    if (transfer->is_over || transfer->done == transfer->pieces)
        origin_conceal(transfer);
}

/* Each part has an id of its own: the transfer of the previous one may still exist there. */
static int32_t origin_renew(struct kit_rma_transfer *transfer)
{
    struct kit_table *ids = &transfer->rma->ids;
    const uint64_t before = transfer->id;
    int32_t ret = kit_table_add(ids, transfer, &transfer->id);

    if (ret != NA_PLUGIN_SUCCESS) {
        transfer->id = before;
        return ret;
    }
    kit_table_remove(ids, before);
    transfer->pending |= RMA_PENDING(RMA_REQUEST);
    return ret;
}

static bool origin_expose(struct kit_rma_transfer *transfer)
{
    const struct kit_rma *rma = transfer->rma;
    struct kit_rma_exposure *exposure = &transfer->exposure;
    const uint64_t left = transfer->length - transfer->position;
    int32_t ret;

    exposure->peer = transfer->peer;
    exposure->memory = transfer->base;
    exposure->length = transfer->length;
    exposure->offset = transfer->position;
    exposure->size = left < rma->config.part_size ? left : rma->config.part_size;
    exposure->is_put = transfer->is_put;
    exposure->priv = kit_rma_transfer_priv(transfer);
    ret = rma->ops->expose(rma->owner, exposure, transfer->note, &transfer->note_size);
    if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
        return false;
    if (ret != NA_PLUGIN_SUCCESS) {
        kit_rma_transfer_end(transfer, ret, false);
        return true;
    }
    transfer->has_note = transfer->is_exposed = true;
    return true;
}

static void origin_conceal(struct kit_rma_transfer *transfer)
{
    const struct kit_rma *rma = transfer->rma;

    if (!transfer->is_exposed)
        return;
    transfer->is_exposed = false;
    rma->ops->conceal(rma->owner, &transfer->exposure);
}

/* Copies until the attach budget of this poll is used up. */
static bool attach_move(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;

    while (transfer->position != transfer->length) {
        int32_t ret;

        if (rma->attach_budget == 0)
            return false;
        ret = attach_step(transfer);
        if (ret == NA_PLUGIN_SUCCESS)
            continue;
        kit_rma_transfer_end(transfer, ret, true);
        return true;
    }
    target_deliver(transfer);
    return true;
}

/*
 * The addresses are the origin's and need no check: they can only reach its own process. A put
 * reads the guard after the bytes, a get right before it writes them.
 */
static int32_t attach_step(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;
    const uint64_t left = transfer->length - transfer->position;
    const uint64_t size = left < RMA_ATTACH_STEP ? left : RMA_ATTACH_STEP;
    uint64_t guard = 0, moved = 0, guarded = 0;
    struct iovec local[2] = {{transfer->base + transfer->position, size}, {&guard, sizeof(guard)}};
    struct iovec remote[2];
    struct rma_attach attach;
    uint32_t pid;
    int32_t ret = rma->ops->process(rma->owner, transfer->peer, &pid);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    memcpy(&attach, transfer->note, sizeof(attach));
    remote[0] = kit_iovec(le64toh(attach.address) + transfer->position, size);
    remote[1] = kit_iovec(le64toh(attach.guard), sizeof(guard));
    if (transfer->is_put)
        ret = kit_attach_read(pid, local, 1, remote, 1, &moved);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_attach_read(pid, &local[1], 1, &remote[1], 1, &guarded);
    if (ret == NA_PLUGIN_SUCCESS && guard != attach.value)
        return NA_PLUGIN_CANCELED;
    if (ret == NA_PLUGIN_SUCCESS && !transfer->is_put)
        ret = kit_attach_write(pid, local, 1, remote, 1, &moved);
    transfer->position += moved;
    rma->attach_budget -= moved < rma->attach_budget ? moved : rma->attach_budget;
    return ret;
}

static bool one_sided_move(struct kit_rma_transfer *transfer)
{
    const struct kit_rma *rma = transfer->rma;
    struct kit_rma_move *move = &transfer->move;
    int32_t ret;

    if (transfer->is_moving)
        return true;
    move->peer = transfer->peer;
    move->memory = transfer->base;
    move->size = transfer->length;
    move->note = transfer->note;
    move->note_size = transfer->note_size;
    move->is_put = transfer->is_put;
    move->is_ordered = 0;
    move->priv = kit_rma_transfer_priv(transfer);
    transfer->is_moving = true;
    transfer->in_use = 1;
    ret = rma->ops->move(rma->owner, move);
    if (ret == NA_PLUGIN_SUCCESS) {
        if (transfer->is_moving && move->is_ordered != 0)
            target_deliver(transfer);
        return true;
    }
    transfer->is_moving = false;
    transfer->in_use = 0;
    if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
        return false;
    kit_rma_transfer_end(transfer, ret, true);
    return true;
}

static void target_deliver(struct kit_rma_transfer *transfer)
{
    transfer->position = transfer->length;
    transfer->done = transfer->pieces;
    transfer->is_delivered = true;
    transfer->pending |= RMA_PENDING(RMA_DONE);
}
