/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running transfers. A transfer is split into pieces that are contiguous on both sides. A bounded
 * number of them is in flight; each that completes makes room for the next. The first error stops
 * the assignment of pieces and cancels those in flight; the transfer ends with the last piece.
 *
 * The state of a piece changes under the operation's lock, but the piece is posted without it, so
 * that other threads do not wait while the transport copies within the call.
 */
#include "bulk/bulk_internal.h"
#include "bulk/bulk_pool.h"
#include "engine/context_timer.h"
#include "engine/fork.h"
#include "engine/probes.h"
#include "na_ext.h"
#include "util/compiler.h"

#include <inttypes.h>

static bool hg_bulk_op_run(struct hg_bulk_transfer *op);
static struct hg_bulk_piece *hg_bulk_piece_next(struct hg_bulk_transfer *op);
static struct hg_bulk_piece *hg_bulk_piece_find(struct hg_bulk_transfer *op,
                                                enum hg_bulk_piece_state state);
static na_return_t hg_bulk_piece_post(struct hg_bulk_piece *piece);
static void hg_bulk_piece_posted(struct hg_bulk_piece *piece, na_return_t ret);
static void hg_bulk_piece_done(const struct na_cb_info *info);
static void hg_bulk_piece_end(struct hg_bulk_piece *piece, hg_return_t ret);
static void hg_bulk_op_callback(struct hg_completion *completion);
static void hg_bulk_op_count(struct hg_counters *counters, hg_return_t ret, hg_size_t size);
static void hg_bulk_refs_release(const struct hg_bulk_refs *refs);

/*
 * An operation's id is the address of its memory, which is reused, with its use count in the upper
 * bits. Systems that use these bits of addresses get the plain address.
 */
#define HG_BULK_OP_SHIFT   48
#define HG_BULK_OP_POINTER ((UINT64_C(1) << HG_BULK_OP_SHIFT) - 1)
static _Atomic bool hg_bulk_ids_are_addresses;

hg_return_t hg_bulk_op_get(const struct hg_bulk_request *request, struct hg_bulk_transfer **op_p)
{
    struct hg_bulk_transfer *op;
    hg_return_t ret = hg_bulk_pool_get(request->context, &op);

    if (ret != HG_SUCCESS)
        return ret;
    op->callback = request->callback;
    op->arg = request->arg;
    op->direction = request->direction;
    op->size = request->size;
    op->completion.run = hg_bulk_op_callback;
    /* A cancel of an earlier use may be reading these members. */
    (void) pthread_mutex_lock(&op->lock);
    op->use++;
    op->ret = HG_SUCCESS;
    op->is_ended = false;
    op->accepted = 0;
    op->running = 1; /* for the start: a concurrent cancel cannot end it before */
    op->refused = 0;
    op->unassigned = 0;
    op->is_timed = false;
    (void) pthread_mutex_unlock(&op->lock);
    op->deadline_ms = request->deadline_ms != HG_BULK_DEADLINE_DEFAULT
                          ? request->deadline_ms
                          : hg_class_get_deadline(request->origin->hg_class);
    op->refs.origin = request->origin;
    op->refs.local = request->local;
    op->refs.na_addr = NULL;
    (void) HG_Bulk_ref_incr(request->origin);
    (void) HG_Bulk_ref_incr(request->local);
    hg_context_op_begin(request->context);
    *op_p = op;
    return HG_SUCCESS;
}

void hg_bulk_op_drop(struct hg_bulk_transfer *op)
{
    struct hg_bulk_refs refs = op->refs;

    hg_bulk_pool_put(op);
    hg_bulk_refs_release(&refs);
}

hg_return_t hg_bulk_op_start(struct hg_bulk_transfer *op, const struct hg_bulk_request *request,
                             enum hg_path path)
{
    na_class_t *na_class = request->origin->hg_class->paths[path].na_class;
    na_addr_t *na_addr = request->origin_addr->na_addr[path];
    uint64_t piece_max = NA_Class_get_max_rma_size(na_class);
    hg_context_t *context = request->context;
    bool is_ended;
    hg_return_t ret;

    /* The address may be part of a handle that the program destroys right after the call. */
    ret = hg_return_from_na(NA_Addr_dup(na_class, na_addr, &op->refs.na_addr));
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot keep the origin's address: %s", HG_Error_to_string(ret));
        return ret;
    }
    op->refs.na_class = na_class;
    op->na_context = context->na_context[path];
    op->path = path;
    op->origin_id = request->origin_id;
    op->piece_max = piece_max > 0 ? piece_max : HG_SIZE_MAX;
    op->local_next = hg_bulk_cursor_at(&request->local->paths[path], request->local_offset);
    op->origin_next = hg_bulk_cursor_at(&request->origin->paths[path], request->origin_offset);

    (void) pthread_mutex_lock(&op->lock);
    op->running--;
    /* A concurrent cancel may already have failed it: then nothing is transferred. */
    op->unassigned = op->ret == HG_SUCCESS ? request->size : 0;
    is_ended = hg_bulk_op_run(op);
    /* Without an accepted piece or a cancel the error is returned instead of a callback. */
    ret = is_ended && op->accepted == 0 ? op->ret : HG_SUCCESS;
    if (util_unlikely(op->deadline_ms != 0) && !is_ended)
        hg_bulk_deadline_start(op);
    (void) pthread_mutex_unlock(&op->lock);
    if (ret == HG_SUCCESS && is_ended)
        hg_context_push(context, &op->completion);
    else if (ret == HG_SUCCESS)
        hg_context_wake(context); /* a piece may have completed within the call */
    return ret;
}

void hg_bulk_op_end(struct hg_bulk_transfer *op)
{
    (void) pthread_mutex_lock(&op->lock);
    op->running--;
    op->is_ended = true;
    (void) pthread_mutex_unlock(&op->lock);
    hg_context_push(op->refs.context, &op->completion);
}

hg_op_id_t hg_bulk_op_id(const struct hg_bulk_transfer *op)
{
    const uintptr_t bits = (uintptr_t) op;

    if (util_unlikely(bits > HG_BULK_OP_POINTER)) {
        atomic_store_explicit(&hg_bulk_ids_are_addresses, true, memory_order_relaxed);
        return (hg_op_id_t) bits;
    }
    return (hg_op_id_t) (bits | (uintptr_t) op->use << HG_BULK_OP_SHIFT);
}

hg_return_t HG_Bulk_cancel(hg_op_id_t op_id)
{
    const bool is_plain = atomic_load_explicit(&hg_bulk_ids_are_addresses, memory_order_relaxed);
    const uintptr_t bits = (uintptr_t) op_id;
    struct hg_bulk_transfer *op =
        (struct hg_bulk_transfer *) (is_plain ? bits : bits & HG_BULK_OP_POINTER);
    bool is_ended = false;
    bool is_retry_queued;
    hg_context_t *context;

    /* HG_OP_ID_IGNORE and the ids of lookups are odd. */
    if (op_id == HG_OP_ID_NULL || (bits & 1) != 0) {
        HG_LOG_ERROR("cannot cancel operation %p; pass one that a transfer returned",
                     (void *) op_id);
        return HG_INVALID_ARG;
    }
    if (hg_fork_refuses(HG_Context_get_class(op->refs.context), __func__))
        return HG_PERMISSION;
    (void) pthread_mutex_lock(&op->lock);
    if (!is_plain && op->use != bits >> HG_BULK_OP_SHIFT) {
        (void) pthread_mutex_unlock(&op->lock);
        return HG_SUCCESS; /* it has ended, and its memory is another operation's */
    }
    if (!op->is_ended) {
        HG_PROBE1(cancel, op);
        op->accepted++; /* the program knows the id, so the operation ends by its callback */
        hg_bulk_op_fail(op, HG_CANCELED);
        is_ended = hg_bulk_op_finish(op);
        if (op->is_timed)
            hg_context_expedite(op->refs.context, &op->timer, hg_clock_ns() + HG_CANCEL_NS);
    }
    is_retry_queued = op->is_retry_queued;
    context = op->refs.context;
    (void) pthread_mutex_unlock(&op->lock);
    if (is_ended)
        hg_context_push(context, &op->completion);
    /* The transfer cannot end while it is in the retry queue. */
    if (is_retry_queued)
        hg_bulk_retry(context);
    return HG_SUCCESS;
}

void hg_bulk_op_retry(struct hg_bulk_transfer *op)
{
    hg_context_t *context = op->refs.context;
    bool is_ended;

    (void) pthread_mutex_lock(&op->lock);
    op->is_retry_queued = false;
    hg_count(&context->counters.retry);
    is_ended = hg_bulk_op_run(op);
    (void) pthread_mutex_unlock(&op->lock);
    if (is_ended)
        hg_context_push(context, &op->completion);
}

/*
 * Post pieces while there are any and the transport takes them. True: the operation has ended and
 * the caller pushes its completion. The lock is held, and released around each post.
 */
static bool hg_bulk_op_run(struct hg_bulk_transfer *op)
{
    struct hg_bulk_piece *piece;

    while ((piece = hg_bulk_piece_next(op)) != NULL) {
        na_return_t ret;

        (void) pthread_mutex_unlock(&op->lock);
        ret = hg_bulk_piece_post(piece);
        (void) pthread_mutex_lock(&op->lock);
        hg_bulk_piece_posted(piece, ret);
        if (util_unlikely(ret == NA_AGAIN))
            break;
    }
    return hg_bulk_op_finish(op);
}

/* Return a piece to post, a refused one first; NULL if there is none or too many are in flight. */
static struct hg_bulk_piece *hg_bulk_piece_next(struct hg_bulk_transfer *op)
{
    struct hg_bulk_piece *piece;

    if (op->ret != HG_SUCCESS)
        return NULL;
    if (util_unlikely(op->refused > 0)) {
        piece = hg_bulk_piece_find(op, HG_BULK_PIECE_REFUSED);
        op->refused--;
        piece->state = HG_BULK_PIECE_POSTING;
        return piece;
    }
    if (op->unassigned == 0 || op->running == HG_BULK_PIECES_MAX + (uint32_t) op->is_timed)
        return NULL;
    piece = hg_bulk_piece_find(op, HG_BULK_PIECE_IDLE);
    piece->state = HG_BULK_PIECE_POSTING;
    piece->local = op->local_next;
    piece->origin = op->origin_next;
    piece->size = op->unassigned < op->piece_max ? op->unassigned : op->piece_max;
    if (piece->size > hg_bulk_cursor_left(&piece->local))
        piece->size = hg_bulk_cursor_left(&piece->local);
    if (piece->size > hg_bulk_cursor_left(&piece->origin))
        piece->size = hg_bulk_cursor_left(&piece->origin);
    hg_bulk_cursor_advance(&op->local_next, piece->size);
    hg_bulk_cursor_advance(&op->origin_next, piece->size);
    op->unassigned -= piece->size;
    op->running++;
    return piece;
}

static struct hg_bulk_piece *hg_bulk_piece_find(struct hg_bulk_transfer *op,
                                                enum hg_bulk_piece_state state)
{
    struct hg_bulk_piece *piece = op->pieces;

    /* The caller knows from the counters that there is one. */
    while (piece->state != state)
        piece++;
    return piece;
}

static na_return_t hg_bulk_piece_post(struct hg_bulk_piece *piece)
{
    struct hg_bulk_transfer *op = piece->op;
    na_op_id_t *na_op = piece->na_op[op->path];

    if (util_unlikely(na_op == NULL)) {
        na_op = NA_Op_create(op->refs.na_class, NA_OP_SINGLE);
        if (na_op == NULL)
            return NA_NOMEM;
        piece->na_op[op->path] = na_op;
        op->na_classes[op->path] = op->refs.na_class;
    }
    if (op->direction == HG_BULK_PULL)
        return NA_Get(op->refs.na_class, op->na_context, hg_bulk_piece_done, piece,
                      piece->local.extent->at.mem, piece->local.within,
                      piece->origin.extent->at.mem, piece->origin.within, (size_t) piece->size,
                      op->refs.na_addr, op->origin_id, na_op);
    return NA_Put(op->refs.na_class, op->na_context, hg_bulk_piece_done, piece,
                  piece->local.extent->at.mem, piece->local.within, piece->origin.extent->at.mem,
                  piece->origin.within, (size_t) piece->size, op->refs.na_addr, op->origin_id,
                  na_op);
}

/* Update the piece after the post. It may have completed in another thread meanwhile. */
static void hg_bulk_piece_posted(struct hg_bulk_piece *piece, na_return_t ret)
{
    struct hg_bulk_transfer *op = piece->op;

    if (util_likely(ret == NA_SUCCESS)) {
        op->accepted++;
        if (piece->state == HG_BULK_PIECE_ENDED) {
            hg_bulk_piece_end(piece, piece->ret);
            return;
        }
        piece->state = HG_BULK_PIECE_POSTED;
        /* A failure or cancel during the post did not find this piece in flight. */
        if (util_unlikely(op->ret != HG_SUCCESS))
            (void) NA_Cancel(op->refs.na_class, op->na_context, piece->na_op[op->path]);
        return;
    }
    if (ret == NA_AGAIN && op->ret == HG_SUCCESS) {
        piece->state = HG_BULK_PIECE_REFUSED;
        op->refused++;
        hg_bulk_pool_retry_later(op);
        return;
    }
    if (ret != NA_AGAIN && op->ret == HG_SUCCESS)
        HG_LOG_ERROR("%s of %" PRIu64 " bytes not accepted by %s: %s",
                     op->direction == HG_BULK_PULL ? "pull" : "push", piece->size,
                     NA_Get_class_name(op->refs.na_class), NA_Error_to_string(ret));
    hg_bulk_piece_end(piece, ret == NA_AGAIN ? HG_CANCELED : hg_return_from_na(ret));
}

/* NA's callback of a piece. */
static void hg_bulk_piece_done(const struct na_cb_info *info)
{
    struct hg_bulk_piece *piece = info->arg;
    struct hg_bulk_transfer *op = piece->op;
    hg_context_t *context = op->refs.context;
    bool is_ended = false;

    (void) pthread_mutex_lock(&op->lock);
    if (util_unlikely(piece->state == HG_BULK_PIECE_POSTING)) {
        /* The posting thread has not returned yet: it accounts for the piece. */
        piece->state = HG_BULK_PIECE_ENDED;
        piece->ret = hg_return_from_na(info->ret);
    } else {
        hg_bulk_piece_end(piece, hg_return_from_na(info->ret));
        is_ended = hg_bulk_op_run(op);
    }
    (void) pthread_mutex_unlock(&op->lock);
    if (is_ended)
        hg_context_push(context, &op->completion);
    /* The completion freed resources that a refused piece may need. */
    hg_bulk_retry(context);
}

static void hg_bulk_piece_end(struct hg_bulk_piece *piece, hg_return_t ret)
{
    struct hg_bulk_transfer *op = piece->op;

    piece->state = HG_BULK_PIECE_IDLE;
    op->running--;
    if (util_unlikely(ret != HG_SUCCESS))
        hg_bulk_op_fail(op, ret);
}

void hg_bulk_op_fail(struct hg_bulk_transfer *op, hg_return_t ret)
{
    if (op->ret != HG_SUCCESS)
        return;
    op->ret = ret;
    op->unassigned = 0;
    for (unsigned int i = 0; i < HG_BULK_PIECES_MAX; i++) {
        struct hg_bulk_piece *piece = &op->pieces[i];

        if (piece->state == HG_BULK_PIECE_REFUSED) {
            piece->state = HG_BULK_PIECE_IDLE;
            op->refused--;
            op->running--;
        } else if (piece->state == HG_BULK_PIECE_POSTED) {
            (void) NA_Cancel(op->refs.na_class, op->na_context, piece->na_op[op->path]);
        }
    }
}

bool hg_bulk_op_finish(struct hg_bulk_transfer *op)
{
    if (op->is_ended || op->unassigned > 0 || op->is_retry_queued)
        return false;
    /* If the timer fires just now it ends the operation. */
    if (util_unlikely(op->is_timed) && op->running == 1 &&
        hg_context_disarm(op->refs.context, &op->timer)) {
        op->is_timed = false;
        op->running--;
    }
    if (op->running > 0)
        return false;
    op->is_ended = true;
    return true;
}

/* Run by HG_Trigger(). */
static void hg_bulk_op_callback(struct hg_completion *completion)
{
    struct hg_bulk_transfer *op =
        util_container_of(completion, struct hg_bulk_transfer, completion);
    const struct hg_cb_info info = {
        .info.bulk = {.origin_handle = op->refs.origin,
                      .local_handle = op->refs.local,
                      .op = op->direction,
                      .size = op->size},
        .arg = op->arg,
        .type = HG_CB_BULK,
        .ret = op->ret,
    };
    struct hg_bulk_refs refs = op->refs;
    hg_cb_t callback = op->callback;
    hg_return_t ret = HG_SUCCESS;

    HG_PROBE3(bulk__done, op, info.ret, op->size);
    hg_bulk_op_count(&refs.context->counters, info.ret, op->size);
    if (callback != NULL)
        ret = callback(&info);
    /*
     * The id stays valid until the callback has returned: a thread that cancels may not know that
     * the transfer ended.
     */
    hg_bulk_pool_put(op);
    if (ret != HG_SUCCESS)
        HG_LOG_WARNING("callback of a bulk transfer returned %s", HG_Error_to_string(ret));
    hg_bulk_refs_release(&refs);
}

static void hg_bulk_op_count(struct hg_counters *counters, hg_return_t ret, hg_size_t size)
{
    if (util_likely(ret == HG_SUCCESS))
        hg_count_add(&counters->bulk_bytes, size);
    else
        hg_count(ret == HG_CANCELED  ? &counters->bulk_canceled
                 : ret == HG_TIMEOUT ? &counters->bulk_timeout
                                     : &counters->bulk_error);
}

static void hg_bulk_refs_release(const struct hg_bulk_refs *refs)
{
    if (refs->na_addr != NULL)
        NA_Addr_free(refs->na_class, refs->na_addr);
    (void) HG_Bulk_free(refs->origin);
    (void) HG_Bulk_free(refs->local);
    /* Last, because the context may be destroyed afterwards. */
    hg_context_op_end(refs->context);
}
