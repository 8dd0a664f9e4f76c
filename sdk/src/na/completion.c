/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion: a plugin reports it, the context queues it, and NA_Trigger() runs the callback. Each
 * post of an operation completes exactly once, even if the plugin reports it more often. */

#include "na/completion.h"

#include "na/log.h"
#include "na/wrap.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_IN_BLOCK 64

/* One event of a multi-receive; the last event uses the operation's own completion instead. */
struct na_event {
    struct na_completion completion;
    struct na_event *next; /* in na_event_pool.free */
};

struct na_event_block {
    struct na_event_block *next;
    struct na_event events[EVENTS_IN_BLOCK];
};

static unsigned int trigger_some(struct na_context *context, unsigned int max_count);
static unsigned int trigger_alone(struct na_context *context, unsigned int max_count);
static bool trigger_one(struct na_context *context);
static void trigger_node(struct na_context *context, struct mpsc_node *node, bool is_alone);
static void trigger_op(struct na_context *context, struct na_op_id *op, bool is_alone);
static void trigger_event(struct na_context *context, struct na_event *event);
static void context_count(struct na_context *context, na_return_t ret);
static inline bool completion_claim(struct na_op_id *op);
static inline void completion_push(struct na_op_id *op, na_return_t ret);
static void completion_stray(struct na_op_id *op, int32_t status);
static void completion_stray_recv(struct na_op_id *op, int32_t status, uint64_t size,
                                  struct na_plugin_addr *source, uint32_t tag);
static void completion_push_no_message(struct na_op_id *op, int32_t status, const char *what);
static void context_queue(struct na_context *context, struct na_completion *completion);
static bool completion_is_receive(const struct na_op_id *op);
static void completion_duplicate(const struct na_op_id *op);
static na_return_t completion_broken(const struct na_op_id *op, const char *what);
static void event_fill(struct na_cb_info *info, void *buf, uint64_t size,
                       struct na_plugin_addr *source, uint32_t tag, bool last);
static struct na_event *event_get(struct na_event_pool *pool);
static void event_put(struct na_event_pool *pool, struct na_event *event);
static bool event_pool_grow(struct na_event_pool *pool);

na_return_t NA_Trigger(na_context_t *context, unsigned int max_count, unsigned int *actual_count)
{
    unsigned int count = 0;

    if (util_unlikely(context == NULL)) {
        NA_LOG_ERROR("context is NULL; pass a context of NA_Context_create()");
        return NA_INVALID_ARG;
    }
    if (util_unlikely(na_class_is_inherited(context->na_class))) {
        if (actual_count != NULL)
            *actual_count = 0;
        return na_fork_refused(__func__);
    }
    /* Checked here because the queue is empty after most polls. */
    if (!mpsc_queue_is_empty(&context->queue))
        count = context->is_alone ? trigger_alone(context, max_count)
                                  : trigger_some(context, max_count);
    if (actual_count != NULL)
        *actual_count = count;
    return NA_SUCCESS;
}

static __attribute__((__noinline__)) unsigned int trigger_some(struct na_context *context,
                                                               unsigned int max_count)
{
    unsigned int count = 0;

    while (count < max_count && trigger_one(context))
        count++;
    return count;
}

/* Like trigger_some(), for a queue that one thread at a time uses. */
static __attribute__((__noinline__)) unsigned int trigger_alone(struct na_context *context,
                                                                unsigned int max_count)
{
    unsigned int count = 0;

    while (count < max_count) {
        struct mpsc_node *node = mpsc_queue_pop_alone(&context->queue);

        if (node == NULL)
            break;
        trigger_node(context, node, true);
        count++;
    }
    return count;
}

void na_completion_report(void *op_private, int32_t status)
{
    struct na_op_id *op = na_op_from_private(op_private);

    if (util_unlikely(!completion_claim(op)))
        completion_stray(op, status);
    else if (util_unlikely(completion_is_receive(op)))
        completion_push_no_message(op, status, "a receive succeeded without a message");
    else
        completion_push(op, na_return_from_plugin(status));
}

void na_completion_report_recv(void *op_private, int32_t status, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag)
{
    struct na_op_id *op = na_op_from_private(op_private);
    struct na_cb_info *info = &op->completion.info;

    if (util_unlikely(!completion_claim(op))) {
        completion_stray_recv(op, status, size, source, tag);
        return;
    }
    if (util_unlikely(status != NA_PLUGIN_SUCCESS || size > op->buf_size)) {
        completion_push_no_message(op, status,
                                   "a message is longer than the buffer it was received in");
        return;
    }
    if (info->type == NA_CB_RECV_UNEXPECTED && source != NULL) {
        info->info.recv_unexpected = (struct na_cb_info_recv_unexpected){
            .actual_buf_size = (size_t) size, .source = (na_addr_t *) source, .tag = tag};
    } else if (util_likely(info->type == NA_CB_RECV_EXPECTED)) {
        info->info.recv_expected.actual_buf_size = (size_t) size;
    } else {
        completion_push_no_message(op, status,
                                   "a message without a sender, or one for another operation");
        return;
    }
    completion_push(op, NA_SUCCESS);
}

int32_t na_completion_report_multi_recv(void *op_private, int32_t status, void *buf, uint64_t size,
                                        struct na_plugin_addr *source, uint32_t tag, uint32_t last)
{
    struct na_op_id *op = na_op_from_private(op_private);
    struct na_context *context = na_op_context(op);
    struct na_event *event;
    int32_t wrapped;

    if (util_unlikely((atomic_load(&op->state) & OP_STATES) != OP_POSTED ||
                      op->completion.info.type != NA_CB_MULTI_RECV_UNEXPECTED)) {
        if (na_wrap_report_multi_recv(op, status, buf, size, source, tag, last, &wrapped))
            return wrapped;
        completion_duplicate(op);
        return NA_PLUGIN_FAULT;
    }
    if (util_unlikely(status == NA_PLUGIN_SUCCESS &&
                      (source == NULL || buf == NULL || size > op->buf_size))) {
        (void) completion_broken(op, "a message without a sender or outside of the buffer");
        return NA_PLUGIN_FAULT;
    }
    if (last != 0) {
        if (util_unlikely(!completion_claim(op))) {
            completion_duplicate(op);
            return NA_PLUGIN_FAULT;
        }
        event_fill(&op->completion.info, buf, size, source, tag, true);
        completion_push(op, na_return_from_plugin(status));
        return NA_PLUGIN_SUCCESS;
    }
    event = event_get(&context->pool);
    if (event == NULL)
        return NA_PLUGIN_NOMEM;
    event->completion.callback = op->completion.callback;
    event->completion.info.arg = op->completion.info.arg;
    event->completion.info.type = NA_CB_MULTI_RECV_UNEXPECTED;
    event->completion.info.ret = na_return_from_plugin(status);
    event_fill(&event->completion.info, buf, size, source, tag, false);
    context_queue(context, &event->completion);
    return NA_PLUGIN_SUCCESS;
}

void na_completion_report_empty(struct na_op_id *op)
{
    if (completion_claim(op))
        completion_push(op, NA_SUCCESS);
}

na_return_t na_event_pool_init(struct na_event_pool *pool)
{
    pool->free = NULL;
    pool->blocks = NULL;
    (void) pthread_mutex_init(&pool->mutex, NULL);
    if (!event_pool_grow(pool)) {
        (void) pthread_mutex_destroy(&pool->mutex);
        return NA_NOMEM;
    }
    return NA_SUCCESS;
}

void na_event_pool_destroy(struct na_event_pool *pool)
{
    while (pool->blocks != NULL) {
        struct na_event_block *block = pool->blocks;

        pool->blocks = block->next;
        free(block);
    }
    (void) pthread_mutex_destroy(&pool->mutex);
}

/* Runs one callback, with no lock held: other threads and the callback itself may trigger. */
static bool trigger_one(struct na_context *context)
{
    struct mpsc_queue *queue = &context->queue;
    struct mpsc_node *node;

    if (mpsc_queue_is_empty(queue))
        return false;
    if (!context->single_consumer && !mpsc_queue_try_lock(queue))
        return false;
    node = mpsc_queue_pop(queue);
    if (node == NULL) {
        mpsc_queue_unlock(queue);
        return false;
    }
    trigger_node(context, node, false);
    return true;
}

/* The callers pass a constant as `is_alone`, so that the compiler drops the branches. */
static UTIL_ALWAYS_INLINE void trigger_node(struct na_context *context, struct mpsc_node *node,
                                            bool is_alone)
{
    struct na_completion *completion = util_container_of(node, struct na_completion, node);

    context_count(context, completion->info.ret);
    if (util_unlikely(completion->is_event))
        trigger_event(context, util_container_of(completion, struct na_event, completion));
    else
        trigger_op(context, util_container_of(completion, struct na_op_id, completion), is_alone);
}

/*
 * Once its state is OP_IDLE the operation belongs to its owner again and may be posted; if it was
 * destroyed meanwhile, it is freed here. Only the holder of the queue's consumer lock writes the
 * state of a queued operation, so that a load and a store replace an atomic exchange, which would
 * be half the cost of this function.
 */
static UTIL_ALWAYS_INLINE void trigger_op(struct na_context *context, struct na_op_id *op,
                                          bool is_alone)
{
    const struct na_cb_info info = op->completion.info;
    const na_cb_t callback = op->completion.callback;
    unsigned int state;

    if (!is_alone && util_unlikely(context->single_consumer)) {
        /* NA_Op_destroy() may write the state at the same time: no lock is taken in this mode. */
        state = atomic_fetch_sub(&op->state, OP_QUEUED - OP_IDLE);
    } else {
        state = atomic_load_explicit(&op->state, memory_order_relaxed);
        atomic_store_explicit(&op->state, state - (OP_QUEUED - OP_IDLE), memory_order_release);
        if (!is_alone)
            mpsc_queue_unlock(&context->queue);
    }
    if (callback != NULL)
        callback(&info);
    if (util_unlikely((state & OP_DESTROY) != 0))
        na_op_free(op);
}

static void trigger_event(struct na_context *context, struct na_event *event)
{
    const struct na_cb_info info = event->completion.info;
    const na_cb_t callback = event->completion.callback;

    mpsc_queue_unlock(&context->queue);
    event_put(&context->pool, event);
    if (callback != NULL)
        callback(&info);
}

/* The consumer lock is held, so that a load and a store count as an atomic addition would. */
static void context_count(struct na_context *context, na_return_t ret)
{
    atomic_uint_fast64_t *counter = &context->completed;

    if (util_unlikely(ret != NA_SUCCESS))
        counter = ret == NA_CANCELED ? &context->canceled : &context->failed;
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Moves an outstanding operation to OP_QUEUED. Returns true in one thread only. */
static inline bool completion_claim(struct na_op_id *op)
{
    unsigned int state = atomic_load_explicit(&op->state, memory_order_acquire);

    while ((state & OP_STATES) == OP_POSTED) {
        const unsigned int next = OP_QUEUED | (state & OP_DESTROY);

        if (na_op_context(op)->is_alone) {
            atomic_store_explicit(&op->state, next, memory_order_relaxed);
            return true;
        }
        if (atomic_compare_exchange_strong_explicit(&op->state, &state, next, memory_order_acq_rel,
                                                    memory_order_acquire))
            return true;
    }
    return false;
}

/*
 * A report for an operation that is not outstanding: either it is an operation of a wrapped plugin,
 * or the plugin reported it twice. Cold, so that the hot reports save no registers for it.
 */
static UTIL_COLD void completion_stray(struct na_op_id *op, int32_t status)
{
    if (!na_wrap_report(op, status))
        completion_duplicate(op);
}

static UTIL_COLD void completion_stray_recv(struct na_op_id *op, int32_t status, uint64_t size,
                                            struct na_plugin_addr *source, uint32_t tag)
{
    if (!na_wrap_report_recv(op, status, size, source, tag))
        completion_duplicate(op);
}

/* Ends a receive without a message. If the status is success, `what` says how the plugin broke the
 * ABI. */
static UTIL_COLD void completion_push_no_message(struct na_op_id *op, int32_t status,
                                                 const char *what)
{
    struct na_cb_info *info = &op->completion.info;
    na_return_t ret = na_return_from_plugin(status);

    memset(&info->info, 0, sizeof(info->info));
    if (info->type == NA_CB_MULTI_RECV_UNEXPECTED)
        info->info.multi_recv_unexpected.last = true;
    if (ret == NA_SUCCESS)
        ret = completion_broken(op, what);
    completion_push(op, ret);
}

/* Afterwards another thread may trigger the operation and free it. */
static inline void completion_push(struct na_op_id *op, na_return_t ret)
{
    op->completion.info.ret = ret;
    context_queue(na_op_context(op), &op->completion);
}

static inline void context_queue(struct na_context *context, struct na_completion *completion)
{
    if (context->is_alone)
        mpsc_queue_push_alone(&context->queue, &completion->node);
    else
        mpsc_queue_push(&context->queue, &completion->node);
}

static bool completion_is_receive(const struct na_op_id *op)
{
    const unsigned int receives =
        1u << NA_CB_RECV_UNEXPECTED | 1u << NA_CB_MULTI_RECV_UNEXPECTED | 1u << NA_CB_RECV_EXPECTED;

    return (receives >> op->completion.info.type & 1u) != 0;
}

static UTIL_COLD void completion_duplicate(const struct na_op_id *op)
{
    struct na_class *na_class = op->na_class;

    atomic_fetch_add_explicit(&na_class->counters.duplicates, 1, memory_order_relaxed);
    NA_LOG_ERROR(
        "plugin %s completed operation %p, which is not outstanding as such; ignored, report "
        "it to the plugin's maker",
        na_class->transport->name, (const void *) op);
}

static UTIL_COLD na_return_t completion_broken(const struct na_op_id *op, const char *what)
{
    NA_LOG_ERROR("plugin %s reported %s; report it to the plugin's maker",
                 op->na_class->transport->name, what);
    return NA_PROTOCOL_ERROR;
}

static void event_fill(struct na_cb_info *info, void *buf, uint64_t size,
                       struct na_plugin_addr *source, uint32_t tag, bool last)
{
    info->info.multi_recv_unexpected =
        (struct na_cb_info_multi_recv_unexpected){.actual_buf_size = (size_t) size,
                                                  .source = (na_addr_t *) source,
                                                  .tag = tag,
                                                  .actual_buf = buf,
                                                  .last = last};
}

static struct na_event *event_get(struct na_event_pool *pool)
{
    struct na_event *event = NULL;

    pthread_mutex_lock(&pool->mutex);
    if (pool->free != NULL || event_pool_grow(pool)) {
        event = pool->free;
        pool->free = event->next;
    }
    pthread_mutex_unlock(&pool->mutex);
    return event;
}

static void event_put(struct na_event_pool *pool, struct na_event *event)
{
    pthread_mutex_lock(&pool->mutex);
    event->next = pool->free;
    pool->free = event;
    pthread_mutex_unlock(&pool->mutex);
}

static bool event_pool_grow(struct na_event_pool *pool)
{
    struct na_event_block *block = calloc(1, sizeof(*block));

    if (block == NULL)
        return false;
    block->next = pool->blocks;
    pool->blocks = block;
    for (size_t i = 0; i < EVENTS_IN_BLOCK; i++) {
        block->events[i].completion.is_event = true;
        block->events[i].next = pool->free;
        pool->free = &block->events[i];
    }
    return true;
}
