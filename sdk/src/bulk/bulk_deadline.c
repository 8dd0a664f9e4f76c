/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers whose deadline expires: their pieces are cancelled, and pieces that the transport does
 * not complete are detached. A detached piece keeps descriptors and address alive until NA's
 * callback, because the transport may read or write the memory until then.
 */
#include "bulk/bulk_pool.h"
#include "engine/context_timer.h"
#include "engine/fork.h"
#include "engine/probes.h"
#include "mercury_ext.h"
#include "na_ext.h"
#include "util/compiler.h"

#include <stdlib.h>

/* A transport operation that outlives its transfer. */
struct hg_bulk_detached {
    na_class_t *na_class;
    na_op_id_t *na_op;
    na_addr_t *na_addr;
    struct hg_bulk *origin;
    struct hg_bulk *local;
};

static void hg_bulk_deadline_fire(struct hg_timer *timer);
static void hg_bulk_deadline_finish(struct hg_timer *timer);
static void hg_bulk_detach(struct hg_bulk_transfer *op);
static bool hg_bulk_detach_piece(struct hg_bulk_piece *piece);
static void hg_bulk_detached_done(const struct na_cb_info *info);
static void hg_bulk_detached_free(struct hg_bulk_detached *detached);

void hg_bulk_deadline_start(struct hg_bulk_transfer *op)
{
    op->is_timed = true;
    op->running++;
    op->timer.fire = hg_bulk_deadline_fire;
    op->timer.finish = hg_bulk_deadline_finish;
    hg_context_arm(op->refs.context, &op->timer, hg_clock_ns() + op->deadline_ms * HG_NS_PER_MS);
}

static void hg_bulk_deadline_fire(struct hg_timer *timer)
{
    struct hg_bulk_transfer *op = util_container_of(timer, struct hg_bulk_transfer, timer);
    bool is_retry_queued;

    (void) pthread_mutex_lock(&op->lock);
    if (op->running > 1 || op->unassigned > 0) {
        if (op->ret == HG_SUCCESS) {
            HG_PROBE1(timeout, op);
            hg_count(&op->refs.context->counters.timed_out);
        }
        hg_bulk_op_fail(op, HG_TIMEOUT);
    }
    is_retry_queued = op->is_retry_queued;
    (void) pthread_mutex_unlock(&op->lock);
    /* The transfer cannot end while it is in the retry queue. */
    if (is_retry_queued)
        hg_bulk_retry(op->refs.context);
}

static void hg_bulk_deadline_finish(struct hg_timer *timer)
{
    struct hg_bulk_transfer *op = util_container_of(timer, struct hg_bulk_transfer, timer);
    hg_context_t *context = op->refs.context;
    bool is_ended = false;

    (void) pthread_mutex_lock(&op->lock);
    if (op->running > 1)
        hg_bulk_detach(op);
    if (op->running > 1) {
        /* Another thread is posting a piece, or memory is short: try again. */
        hg_context_arm(context, timer, hg_clock_ns() + HG_FINISH_AGAIN_NS);
    } else {
        op->is_timed = false;
        op->running--;
        is_ended = hg_bulk_op_finish(op);
    }
    (void) pthread_mutex_unlock(&op->lock);
    if (is_ended)
        hg_context_push(context, &op->completion);
}

static void hg_bulk_detach(struct hg_bulk_transfer *op)
{
    bool is_detached = false;

    for (unsigned int i = 0; i < HG_BULK_PIECES_MAX; i++) {
        struct hg_bulk_piece *piece = &op->pieces[i];

        if (piece->state != HG_BULK_PIECE_POSTED || !hg_bulk_detach_piece(piece))
            continue;
        piece->na_op[op->path] = NULL; /* the next use creates a new operation */
        piece->state = HG_BULK_PIECE_IDLE;
        op->running--;
        is_detached = true;
    }
    if (is_detached)
        hg_count(&op->refs.context->counters.detached);
}

/* Detach a piece's operation. False: out of memory, or the piece is completing. */
static bool hg_bulk_detach_piece(struct hg_bulk_piece *piece)
{
    const struct hg_bulk_transfer *op = piece->op;
    struct hg_bulk_detached *detached = calloc(1, sizeof(*detached));

    if (detached == NULL ||
        NA_Addr_dup(op->refs.na_class, op->refs.na_addr, &detached->na_addr) != NA_SUCCESS) {
        HG_LOG_WARNING("cannot end a transfer in time: out of memory; it is tried again");
        free(detached);
        return false;
    }
    detached->na_class = op->refs.na_class;
    detached->na_op = piece->na_op[op->path];
    detached->origin = op->refs.origin;
    detached->local = op->refs.local;
    (void) HG_Bulk_ref_incr(detached->origin);
    (void) HG_Bulk_ref_incr(detached->local);
    atomic_fetch_add_explicit(&detached->local->in_use, 1, memory_order_relaxed);
    if (NA_Op_set_callback(detached->na_class, op->na_context, detached->na_op,
                           hg_bulk_detached_done, detached))
        return true;
    hg_bulk_detached_free(detached);
    return false;
}

/* The transport has completed a detached operation. */
static void hg_bulk_detached_done(const struct na_cb_info *info)
{
    struct hg_bulk_detached *detached = info->arg;

    NA_Op_destroy(detached->na_class, detached->na_op);
    hg_bulk_detached_free(detached);
}

static void hg_bulk_detached_free(struct hg_bulk_detached *detached)
{
    atomic_fetch_sub_explicit(&detached->local->in_use, 1, memory_order_release);
    NA_Addr_free(detached->na_class, detached->na_addr);
    (void) HG_Bulk_free(detached->origin);
    (void) HG_Bulk_free(detached->local);
    free(detached);
}
