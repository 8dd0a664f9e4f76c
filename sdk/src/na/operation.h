/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation. The plugin's private part follows the core's in the same block of memory. */

#ifndef NA_OPERATION_H
#define NA_OPERATION_H

#include "na/context.h"

/*
 * The states of an operation, and who moves it to the next one:
 *   IDLE -> POSTED   the thread that posts it
 *   POSTED -> QUEUED the first thread that reports its completion; later reports are refused
 *   QUEUED -> IDLE   the holder of the queue's consumer lock, right before the callback runs
 * OP_DESTROY is added to a state when the operation is to be freed as soon as it is idle. It is
 * added to QUEUED with the consumer lock held only, unless one thread at a time uses the context.
 */
#define OP_IDLE    0u
#define OP_POSTED  1u
#define OP_QUEUED  2u
#define OP_WRAPPED 3u /* for ever: the operation of a wrapped plugin, see na/wrap.h */
#define OP_STATES  3u
#define OP_DESTROY 4u

/* An entry of the completion queue: the one inside each operation, or an event of a multi-receive
 * before its last one. */
struct na_completion {
    struct mpsc_node node;
    na_cb_t callback;
    struct na_cb_info info; /* the argument of the callback */
    bool is_event;          /* part of a struct na_event, not of a struct na_op_id */
};

struct na_op_id {
    struct na_completion completion;
    atomic_uint state;
    uint32_t flags;                       /* NA_OP_* */
    _Atomic(struct na_context *) context; /* of the last post; read when any context is closed */
    size_t buf_size;                      /* of a receive: upper limit of the reported size */
    struct na_class *na_class;            /* owner */
    struct na_op_id *next, **link;        /* in na_class.ops, under na_class.mutex */
};

/* Bytes before the plugin's part. A multiple of every alignment that a plugin may ask for. */
#define NA_OP_SIZE \
    ((sizeof(struct na_op_id) + NA_OP_ALIGN_MAX - 1) / NA_OP_ALIGN_MAX * NA_OP_ALIGN_MAX)

static inline struct na_context *na_op_context(const struct na_op_id *op)
{
    return atomic_load_explicit(&op->context, memory_order_relaxed);
}

static inline void *na_op_private(struct na_op_id *op)
{
    return (char *) op + NA_OP_SIZE;
}

static inline struct na_op_id *na_op_from_private(void *op_private)
{
    return (struct na_op_id *) (void *) ((char *) op_private - NA_OP_SIZE);
}

/* Undoes a post that the plugin refused with `ret`. Returns what the post is to return. */
na_return_t na_op_refused(struct na_op_id *op, na_return_t ret);

/* Logs why an operation cannot be posted. Returns NA_BUSY. */
na_return_t na_op_busy(const struct na_op_id *op);

/*
 * Marks an operation as posted before it is given to the plugin, which may complete it at once.
 * Only one thread at a time posts an operation, so that a load and a store replace an exchange.
 * Returns false if the operation is not idle; the post then returns na_op_busy().
 */
static inline bool na_op_post(struct na_op_id *op, struct na_context *context, na_cb_type_t type,
                              na_cb_t callback, void *arg, size_t buf_size)
{
    if (util_unlikely(atomic_load_explicit(&op->state, memory_order_acquire) != OP_IDLE))
        return false;
    atomic_store_explicit(&op->context, context, memory_order_relaxed);
    op->completion.callback = callback;
    op->buf_size = buf_size;
    op->completion.info.arg = arg;
    op->completion.info.type = type;
    atomic_store_explicit(&op->state, OP_POSTED, memory_order_release);
    return true;
}

/* Ends a post with the status that the plugin returned for it. */
static inline na_return_t na_op_posted(struct na_op_id *op, struct na_context *context,
                                       int32_t status)
{
    if (util_unlikely(status != NA_PLUGIN_SUCCESS))
        return na_op_refused(op, na_return_from_plugin(status));
    /* The plugin may have completed it at once, while another thread sleeps in NA_Poll_wait(). */
    if (util_unlikely(atomic_load(&context->waiters) != 0))
        na_context_wake(context);
    return NA_SUCCESS;
}

/* Cancels the operations that are still outstanding on a stopped context. Returns how many. */
unsigned int na_op_force_all(struct na_class *na_class, struct na_context *context);

/* Frees all operations of a class that has no context. Returns how many. */
unsigned int na_op_free_all(struct na_class *na_class);

/* Frees an idle operation. */
void na_op_free(struct na_op_id *op);

#endif /* NA_OPERATION_H */
