/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts: draws an operation's faults, before it is posted to the wrapped plugin. */

#include "fault.h"

#define PASSES_MAX 3 /* most operations that pass a reordered one */

static int32_t post_to_peer(struct na_plugin_context *na_context, void *arg,
                            const struct fault_post *post, enum fault_stream stream);
static int32_t post_receive(struct na_plugin_context *na_context, void *arg,
                            const struct fault_post *post);
static int32_t recv_multi(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                          void *data);
static bool op_begin(struct fault_op *op, struct fault_context *context,
                     const struct fault_post *post);
static bool op_defer(struct fault_op *op, enum fault_stream stream, uint64_t number);
static int32_t op_post(struct fault_op *op);

const struct na_plugin_multi_recv fault_multi_recv_extension = {
    .extension = {.size = sizeof(struct na_plugin_multi_recv)},
    .msg_multi_recv_unexpected = recv_multi,
};

int32_t fault_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *dest,
                              uint32_t dest_id, uint32_t tag)
{
    const struct fault_post post = {.kind = FAULT_SEND_UNEXPECTED,
                                    .buf = (void *) (uintptr_t) buf,
                                    .size = size,
                                    .data = data,
                                    .peer = dest,
                                    .peer_id = dest_id,
                                    .tag = tag};

    return post_to_peer(context, op, &post, FAULT_STREAM_MESSAGES);
}

int32_t fault_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                            uint64_t size, void *data, struct na_plugin_addr *dest,
                            uint32_t dest_id, uint32_t tag)
{
    const struct fault_post post = {.kind = FAULT_SEND_EXPECTED,
                                    .buf = (void *) (uintptr_t) buf,
                                    .size = size,
                                    .data = data,
                                    .peer = dest,
                                    .peer_id = dest_id,
                                    .tag = tag};

    return post_to_peer(context, op, &post, FAULT_STREAM_MESSAGES);
}

int32_t fault_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                  uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                  uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    const struct fault_post post = {.kind = FAULT_PUT,
                                    .local = local,
                                    .local_offset = local_offset,
                                    .remote = remote,
                                    .remote_offset = remote_offset,
                                    .size = length,
                                    .peer = addr,
                                    .peer_id = remote_id};

    return post_to_peer(context, op, &post, FAULT_STREAM_RMA);
}

int32_t fault_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                  uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                  uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    const struct fault_post post = {.kind = FAULT_GET,
                                    .local = local,
                                    .local_offset = local_offset,
                                    .remote = remote,
                                    .remote_offset = remote_offset,
                                    .size = length,
                                    .peer = addr,
                                    .peer_id = remote_id};

    return post_to_peer(context, op, &post, FAULT_STREAM_RMA);
}

int32_t fault_recv_unexpected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                              void *data)
{
    const struct fault_post post = {
        .kind = FAULT_RECV_UNEXPECTED, .buf = buf, .size = size, .data = data};

    return post_receive(context, op, &post);
}

int32_t fault_recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                            void *data, struct na_plugin_addr *source, uint32_t source_id,
                            uint32_t tag)
{
    const struct fault_post post = {.kind = FAULT_RECV_EXPECTED,
                                    .buf = buf,
                                    .size = size,
                                    .data = data,
                                    .peer = source,
                                    .peer_id = source_id,
                                    .tag = tag};

    return post_receive(context, op, &post);
}

static int32_t recv_multi(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                          void *data)
{
    const struct fault_post post = {
        .kind = FAULT_RECV_MULTI, .buf = buf, .size = size, .data = data};

    return post_receive(context, op, &post);
}

static int32_t post_to_peer(struct na_plugin_context *na_context, void *arg,
                            const struct fault_post *post, enum fault_stream stream)
{
    struct fault_context *context = fault_context_get(na_context);
    struct fault_class *fault_class = context->fault_class;
    struct fault_op *op = arg;
    uint64_t number;
    int32_t ret;

    if (!op_begin(op, context, post))
        return NA_PLUGIN_FAULT;
    if (!fault_class->has_faults)
        return fault_call(op);
    if (!fault_death_count(fault_class))
        return fault_op_refuse(op);
    number = fault_context_number(context, stream);
    if (stream == FAULT_STREAM_MESSAGES &&
        fault_happens(context, stream, number, FAULT_DRAW_DROP, fault_class->options.drop)) {
        fault_count(fault_class, FAULT_DROPPED);
        fault_op_complete(op, NA_PLUGIN_SUCCESS);
        return NA_PLUGIN_SUCCESS;
    }
    if (fault_class->may_defer && op_defer(op, stream, number))
        return NA_PLUGIN_SUCCESS;
    ret = op_post(op);
    if (ret == NA_PLUGIN_SUCCESS && fault_class->options.reorder != 0) {
        fault_defer_passed(fault_class);
        fault_defer_release(context);
    }
    return ret;
}

static int32_t post_receive(struct na_plugin_context *na_context, void *arg,
                            const struct fault_post *post)
{
    struct fault_context *context = fault_context_get(na_context);
    struct fault_op *op = arg;

    if (!op_begin(op, context, post))
        return NA_PLUGIN_FAULT;
    return context->fault_class->has_faults ? op_post(op) : fault_call(op);
}

/* Initializes an operation. False when the context is stopped. */
static bool op_begin(struct fault_op *op, struct fault_context *context,
                     const struct fault_post *post)
{
    struct fault_class *fault_class = context->fault_class;
    bool accepted;

    if (!fault_class->has_faults) {
        op->context = context;
        op->post = *post;
        return true;
    }
    (void) pthread_mutex_lock(&fault_class->state);
    accepted = !context->stopped;
    op->context = context;
    op->post = *post;
    op->cancel_wanted = false;
    op->is_reported = false;
    (void) pthread_mutex_unlock(&fault_class->state);
    return accepted;
}

/* True when the operation is deferred: delayed, reordered, or behind others that are. */
static bool op_defer(struct fault_op *op, enum fault_stream stream, uint64_t number)
{
    struct fault_context *context = op->context;
    struct fault_class *fault_class = context->fault_class;
    const struct fault_options *options = &fault_class->options;
    const uint64_t spread = options->delay_max_ns - options->delay_min_ns + 1;
    bool deferred = false, ordered = stream == FAULT_STREAM_MESSAGES;
    uint64_t due_ns = 0;
    uint32_t passes = 0;

    if (options->delay_max_ns != 0) {
        due_ns = kit_host->clock_ns() + options->delay_min_ns +
                 fault_draw(context, stream, number, FAULT_DRAW_DELAY) % spread;
        deferred = true;
        fault_count(fault_class, FAULT_DELAYED);
    }
    if (fault_happens(context, stream, number, FAULT_DRAW_REORDER, options->reorder)) {
        const uint64_t limit_ns = kit_host->clock_ns() + options->reorder_ns;

        due_ns = limit_ns > due_ns ? limit_ns : due_ns;
        passes =
            1 + (uint32_t) (fault_draw(context, stream, number, FAULT_DRAW_PASSES) % PASSES_MAX);
        ordered = ordered && !options->any_order;
        deferred = true;
        fault_count(fault_class, FAULT_REORDERED);
    }
    return fault_defer(op, deferred, due_ns, passes, ordered);
}

/* Posts the operation to the wrapped plugin at once. */
static int32_t op_post(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_context *context = op->context;
    int32_t ret;

    if (!fault_context_enter(context))
        return fault_op_refuse(op);
    (void) pthread_mutex_lock(&fault_class->state);
    op->state = FAULT_INNER;
    (void) pthread_mutex_unlock(&fault_class->state);
    ret = fault_call(op);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) pthread_mutex_lock(&fault_class->state);
        op->state = FAULT_IDLE;
        (void) pthread_mutex_unlock(&fault_class->state);
    }
    fault_context_leave(context);
    return ret;
}
