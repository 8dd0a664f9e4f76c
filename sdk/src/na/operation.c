/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation, refusal, cancellation and destruction of operations. */

#include "na/operation.h"

#include "na/completion.h"
#include "na/log.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct na_op_id) <= 2 * UTIL_CACHE_LINE, "two cache lines");

static int32_t cancel_trusted(struct na_context *context, struct na_op_id *op);
static na_return_t cancel_refused(const struct na_class *na_class, const struct na_context *context,
                                  const struct na_op_id *op);
static unsigned int op_mark_destroyed(struct na_op_id *op);
static unsigned int op_mark_queued_destroyed(struct na_op_id *op);
static void op_link(struct na_op_id *op);
static void op_unlink(struct na_op_id *op);

na_op_id_t *NA_Op_create(na_class_t *na_class, unsigned long flags)
{
    struct na_op_id *op = NULL;
    void *block = NULL;
    size_t size;

    if (na_class_fork_refused(na_class, __func__))
        return NULL;
    if (na_class == NULL || (flags & ~(unsigned long) NA_OP_MULTI) != 0) {
        NA_LOG_ERROR("class is %p, flags are 0x%lx; pass an open class, and NA_OP_SINGLE or "
                     "NA_OP_MULTI",
                     (void *) na_class, flags);
        return NULL;
    }
    size = NA_OP_SIZE + na_class->table.op_size;
    if (posix_memalign(&block, NA_OP_ALIGN_MAX, size) != 0) {
        NA_LOG_ERROR("no memory for an operation of %zu bytes", size);
        return NULL;
    }
    memset(block, 0, size);
    op = block;
    atomic_init(&op->state, OP_IDLE);
    op->flags = (uint32_t) flags;
    op->na_class = na_class;
    if (na_class->table.op_initialize != NULL) {
        int32_t status = na_class->table.op_initialize(na_class->plugin_class, na_op_private(op));

        if (status != NA_PLUGIN_SUCCESS) {
            NA_LOG_ERROR("plugin %s cannot prepare an operation: %s", na_class->transport->name,
                         NA_Error_to_string(na_return_from_plugin(status)));
            free(block);
            return NULL;
        }
    }
    op_link(op);
    return op;
}

void NA_Op_destroy(na_class_t *na_class, na_op_id_t *op_id)
{
    unsigned int state;

    if (na_class_fork_refused(op_id != NULL ? op_id->na_class : NULL, __func__))
        return;
    if (op_id == NULL)
        return;
    if (na_class != op_id->na_class) {
        NA_LOG_ERROR("operation %p is of class %p, not %p, and stays; pass its own class",
                     (void *) op_id, (void *) op_id->na_class, (void *) na_class);
        return;
    }
    state = op_mark_destroyed(op_id);
    if ((state & OP_DESTROY) != 0)
        NA_LOG_ERROR("operation %p was destroyed before and waits for its completion",
                     (void *) op_id);
    else if (state == OP_IDLE)
        na_op_free(op_id);
}

na_return_t NA_Cancel(na_class_t *na_class, na_context_t *context, na_op_id_t *op_id)
{
    na_return_t ret;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL || context == NULL || op_id == NULL || op_id->na_class != na_class ||
        context->na_class != na_class)
        return cancel_refused(na_class, context, op_id);
    if ((atomic_load_explicit(&op_id->state, memory_order_acquire) & OP_STATES) != OP_POSTED)
        return NA_SUCCESS;
    if (na_op_context(op_id) != context)
        return cancel_refused(na_class, context, op_id);
    ret = na_return_from_plugin(
        na_class->table.cancel_trusted != NULL
            ? cancel_trusted(context, op_id)
            : na_class->table.cancel(context->plugin_context, na_op_private(op_id)));
    if (atomic_load(&context->waiters) != 0)
        na_context_wake(context);
    return ret;
}

bool NA_Op_set_callback(na_class_t *na_class, na_context_t *context, na_op_id_t *op_id,
                        na_cb_t callback, void *arg)
{
    unsigned int state;
    bool is_outstanding;

    if (na_class_fork_refused(na_class, __func__))
        return false;
    if (na_class == NULL || context == NULL || op_id == NULL || op_id->na_class != na_class ||
        context->na_class != na_class || (op_id->flags & NA_OP_MULTI) != 0) {
        (void) cancel_refused(na_class, context, op_id);
        return false;
    }
    na_context_hold(context);
    state = atomic_load_explicit(&op_id->state, memory_order_acquire);
    is_outstanding = (state & OP_STATES) != OP_IDLE && (state & OP_DESTROY) == 0 &&
                     na_op_context(op_id) == context;
    if (is_outstanding) {
        op_id->completion.callback = callback;
        op_id->completion.info.arg = arg;
    }
    na_context_release(context);
    return is_outstanding;
}

UTIL_COLD na_return_t na_op_busy(const struct na_op_id *op)
{
    unsigned int state = atomic_load(&op->state);

    NA_LOG_ERROR("operation %p is %s; wait for its callback before it is posted again",
                 (const void *) op,
                 (state & OP_DESTROY) != 0          ? "destroyed"
                 : (state & OP_STATES) == OP_POSTED ? "outstanding"
                                                    : "waiting to be triggered");
    return NA_BUSY;
}

na_return_t na_op_refused(struct na_op_id *op, na_return_t ret)
{
    struct na_class *na_class = op->na_class;
    struct na_context *context = na_op_context(op);
    unsigned int state = OP_POSTED;
    bool is_idle;

    na_context_hold(context); /* cancel_trusted() relies on the state while it holds this lock */
    is_idle = atomic_compare_exchange_strong(&op->state, &state, OP_IDLE);
    na_context_release(context);
    if (!is_idle) {
        if (state == (OP_POSTED | OP_DESTROY)) {
            na_op_free(op);
            return ret;
        }
        NA_LOG_ERROR("plugin %s refused an operation (%s) that it has completed; the completion "
                     "counts",
                     na_class->transport->name, NA_Error_to_string(ret));
        return NA_SUCCESS;
    }
    atomic_fetch_add_explicit(&na_class->counters.refused, 1, memory_order_relaxed);
    if (na_class_fork_refused(na_class, "NA_Msg_send, NA_Msg_recv, NA_Put or NA_Get"))
        return NA_PERMISSION;
    if (ret == NA_AGAIN)
        atomic_fetch_add_explicit(&na_class->counters.again, 1, memory_order_relaxed);
    else
        NA_LOG_DEBUG("plugin %s refused an operation: %s", na_class->transport->name,
                     NA_Error_to_string(ret));
    return ret;
}

unsigned int na_op_force_all(struct na_class *na_class, struct na_context *context)
{
    unsigned int count = 0;

    pthread_mutex_lock(&na_class->mutex);
    for (struct na_op_id *op = na_class->ops; op != NULL; op = op->next) {
        if ((atomic_load(&op->state) & OP_STATES) == OP_POSTED && na_op_context(op) == context) {
            na_completion_report(na_op_private(op), NA_PLUGIN_CANCELED);
            count++;
        }
    }
    pthread_mutex_unlock(&na_class->mutex);
    atomic_fetch_add_explicit(&na_class->counters.forced, count, memory_order_relaxed);
    return count;
}

unsigned int na_op_free_all(struct na_class *na_class)
{
    unsigned int count = 0;

    while (na_class->ops != NULL) {
        na_op_free(na_class->ops);
        count++;
    }
    return count;
}

void na_op_free(struct na_op_id *op)
{
    struct na_class *na_class = op->na_class;

    op_unlink(op);
    if (na_class->table.op_finalize != NULL)
        na_class->table.op_finalize(na_class->plugin_class, na_op_private(op));
    free(op);
}

/* Adds OP_DESTROY to the state. Returns the state before. */
static unsigned int op_mark_destroyed(struct na_op_id *op)
{
    unsigned int state = atomic_load(&op->state);

    for (;;) {
        if ((state & OP_STATES) == OP_QUEUED) {
            state = op_mark_queued_destroyed(op);
            if ((state & OP_STATES) == OP_QUEUED)
                return state;
        } else if (atomic_compare_exchange_weak(&op->state, &state, state | OP_DESTROY)) {
            return state;
        }
    }
}

/*
 * Adds OP_DESTROY to a queued operation, under its context's consumer lock, because another thread
 * may be triggering it. Does nothing if the operation is not queued any more. A context that has
 * left the class's list has triggered all its operations, and needs no lock.
 */
static unsigned int op_mark_queued_destroyed(struct na_op_id *op)
{
    struct na_class *na_class = op->na_class;
    struct na_context *context;
    unsigned int state;

    pthread_mutex_lock(&na_class->mutex);
    context = na_class->contexts;
    while (context != NULL && context != na_op_context(op))
        context = context->next;
    if (context != NULL)
        na_context_hold(context);
    state = atomic_load(&op->state);
    /* With `single_consumer` no lock is taken: the exchange fails if the operation was triggered
     * since the load, and the caller tries again with its new state. */
    if ((state & OP_STATES) == OP_QUEUED)
        (void) atomic_compare_exchange_strong(&op->state, &state, state | OP_DESTROY);
    if (context != NULL)
        na_context_release(context);
    pthread_mutex_unlock(&na_class->mutex);
    return state;
}

/* While the consumer lock is held the operation stays posted or queued, as
 * na_plugin.cancel_trusted demands. */
static int32_t cancel_trusted(struct na_context *context, struct na_op_id *op)
{
    int32_t status = NA_PLUGIN_SUCCESS;

    na_context_hold(context);
    if ((atomic_load_explicit(&op->state, memory_order_acquire) & OP_STATES) == OP_POSTED &&
        na_op_context(op) == context)
        status =
            context->na_class->table.cancel_trusted(context->plugin_context, na_op_private(op));
    na_context_release(context);
    return status;
}

static void op_link(struct na_op_id *op)
{
    struct na_class *na_class = op->na_class;

    pthread_mutex_lock(&na_class->mutex);
    op->next = na_class->ops;
    op->link = &na_class->ops;
    if (op->next != NULL)
        op->next->link = &op->next;
    na_class->ops = op;
    pthread_mutex_unlock(&na_class->mutex);
}

static void op_unlink(struct na_op_id *op)
{
    struct na_class *na_class = op->na_class;

    pthread_mutex_lock(&na_class->mutex);
    *op->link = op->next;
    if (op->next != NULL)
        op->next->link = op->link;
    pthread_mutex_unlock(&na_class->mutex);
}

static UTIL_COLD na_return_t cancel_refused(const struct na_class *na_class,
                                            const struct na_context *context,
                                            const struct na_op_id *op)
{
    NA_LOG_ERROR("class %p, context %p and operation %p do not belong together; pass the context "
                 "that it was posted to",
                 (const void *) na_class, (const void *) context, (const void *) op);
    return NA_INVALID_ARG;
}
