/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation: the core's part, and right behind it in the same block the plugin's. */

#ifndef NA_OPERATION_H
#define NA_OPERATION_H

#include "na/context.h"

/*
 * States. Posting:    IDLE -> POSTED, by the thread that posts.
 *         Completion: POSTED -> QUEUED, by exactly one thread; all later ones find another state.
 *         Triggering: QUEUED -> IDLE, right before the callback runs, by the holder of the
 *         queue's consumer lock.
 * OP_DESTROY is added when the operation is to be freed as soon as it is idle again; to QUEUED only
 * with that lock held, unless the user promised that one thread at a time uses the context.
 */
#define OP_IDLE    0u
#define OP_POSTED  1u
#define OP_QUEUED  2u
#define OP_WRAPPED 3u /* for ever: of a plugin that another one wraps, see na/wrap.h */
#define OP_STATES  3u
#define OP_DESTROY 4u

/* What waits in the queue: an operation's own, or one event of a multi-receive other than the
 * last. */
struct na_completion {
    struct mpsc_node node;
    na_cb_t callback;
    struct na_cb_info info; /* what the callback will be told */
    bool is_event;          /* part of a struct na_event, not of a struct na_op_id */
};

struct na_op_id {
    struct na_completion completion;
    atomic_uint state;
    uint32_t flags;                       /* NA_OP_* */
    _Atomic(struct na_context *) context; /* read by whoever closes another one */
    size_t buf_size;                      /* of receives: the most that a plugin may report */
    struct na_class *na_class;            /* owner */
    struct na_op_id *next, **link;        /* all operations of the class, under its lock */
};

/* What the plugin aligns on is a divisor of this, so that its part has no gap before it. */
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

static inline struct na_op_id *na_op_from_private(void *private_part)
{
    return (struct na_op_id *) (void *) ((char *) private_part - NA_OP_SIZE);
}

/* The end of a post that the plugin did not accept. Returns what the caller of the post is told. */
na_return_t na_op_refused(struct na_op_id *op, na_return_t ret);

/* Reports that an operation cannot be posted now. Returns NA_BUSY. */
na_return_t na_op_busy(const struct na_op_id *op);

/*
 * Makes an operation ready to be given to the plugin, which may complete it before it returns. One
 * thread posts an operation at a time, so that a load and a store do. False if it is busy: what
 * the post returns is na_op_busy() then.
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

/* To be called with what the plugin returned. */
static inline na_return_t na_op_posted(struct na_op_id *op, struct na_context *context,
                                       int32_t status)
{
    if (util_unlikely(status != NA_PLUGIN_SUCCESS))
        return na_op_refused(op, na_return_from_plugin(status));
    /* It may have completed at once, while somebody sleeps in NA_Poll_wait(). */
    if (util_unlikely(atomic_load(&context->waiters) != 0))
        na_context_wake(context);
    return NA_SUCCESS;
}

/* Completes what the plugin left outstanding on a context that it stopped. Returns how many. */
unsigned int na_op_force_all(struct na_class *na_class, struct na_context *context);

/* Frees all operations of a class that is closed. Returns how many. */
unsigned int na_op_free_all(struct na_class *na_class);

/* Frees an operation that is idle. */
void na_op_free(struct na_op_id *op);

#endif /* NA_OPERATION_H */
