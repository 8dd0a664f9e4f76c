/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts. All of them are set up with the class, so that peers can send to one that is not
 * created yet. Creating one makes it ready for operations; stopping cancels them, and peers refuse
 * to send to it.
 */

#include "sm.h"

static void sm_counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report,
                            void *arg);

const struct na_plugin_counters sm_counters_extension = {
    .extension = {.size = sizeof(struct na_plugin_counters)},
    .counters_get = sm_counters_get,
};

int32_t sm_context_setup(struct na_plugin_class *na_class, uint32_t id)
{
    struct na_plugin_context *context = &na_class->contexts[id];

    context->na_class = na_class;
    context->id = id;
    context->area = sm_context_area_of(na_class->segment.header, id);
    context->poll_lock.is_elided = na_class->single_context;
    context->match_lock.is_elided = na_class->single_context;
    context->deferrals.bytes_max = SM_DEFERRED_BYTES;
    kit_match_open(&context->match, &context->deferrals, na_class->max_message, sm_peer_release);
    context->parts.longest = na_class->max_message;
    context->parts.bytes_max = (uint64_t) SM_PEER_SLOTS * na_class->max_message;
    kit_list_init(&context->polled);
    kit_list_init(&context->native);
    kit_list_init(&context->copies);
    return sm_wake_setup(context);
}

/* Also called after a setup that failed half way. */
void sm_context_teardown(struct na_plugin_context *context)
{
    if (context->na_class == NULL)
        return;
    if (!context->na_class->forked)
        (void) atomic_fetch_or_explicit(&context->area->flags, SM_CONTEXT_CLOSED,
                                        memory_order_release);
    (void) sm_context_stop(context);
    (void) sm_context_destroy(context);
    sm_copy_close(context);
    sm_in_ring_release_all(context);
    sm_wake_teardown(context);
    kit_match_close(&context->match);
    kit_parts_free(&context->parts);
    kit_deferrals_free(&context->deferrals);
    kit_host->mem_free(context->watched);
}

int32_t sm_context_create(struct na_plugin_class *na_class, struct na_host_context *host_context,
                          uint32_t id, struct na_plugin_context **context_p)
{
    struct na_plugin_context *context;

    (void) host_context;
    if (id >= na_class->max_contexts) {
        SM_LOG_ERROR("there is no context %u: the class was opened for max_contexts %u", id,
                     na_class->max_contexts);
        return NA_PLUGIN_INVALID_ARG;
    }
    context = &na_class->contexts[id];
    if (sm_load(&context->active)) {
        SM_LOG_ERROR("context %u exists already; take another id", id);
        return NA_PLUGIN_EXIST;
    }
    sm_store_release(&context->active, true);
    (void) atomic_fetch_and_explicit(&context->area->flags, ~SM_CONTEXT_GONE, memory_order_release);
    *context_p = context;
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_context_stop(struct na_plugin_context *context)
{
    kit_lock_take(&context->match_lock);
    sm_store_release(&context->active, false);
    kit_lock_drop(&context->match_lock);

    if (!context->na_class->forked) /* it stays locked in a forked child */
        kit_lock_take(&context->poll_lock);
    sm_receive_cancel_all(context);
    sm_rma_cancel_all(context);
    while (sm_send_cancel(context, NULL))
        continue;
    if (!context->na_class->forked) {
        /* Set last: a peer that sees the flag has received all messages of this context. */
        (void) atomic_fetch_or_explicit(&context->area->flags, SM_CONTEXT_GONE,
                                        memory_order_seq_cst);
        kit_lock_drop(&context->poll_lock);
    }
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_context_destroy(struct na_plugin_context *context)
{
    kit_lock_take(&context->match_lock);
    kit_match_drop(&context->match);
    kit_lock_drop(&context->match_lock);
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_cancel(struct na_plugin_context *context, void *op)
{
    if (sm_receive_cancel(context, op, false) || sm_rma_cancel(context, op, false))
        return NA_PLUGIN_SUCCESS;
    (void) sm_send_cancel(context, op);
    return NA_PLUGIN_SUCCESS; /* an operation that was not found has just completed */
}

/* As sm_cancel(), for a valid operation: its `list` says where it is. */
int32_t sm_cancel_trusted(struct na_plugin_context *context, void *op)
{
    if (!sm_receive_cancel(context, op, true) && !sm_rma_cancel(context, op, true))
        (void) sm_send_cancel_trusted(context, op);
    return NA_PLUGIN_SUCCESS;
}

/* Also counts destroyed contexts, whose memory lives as long as the class. */
static void sm_counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report,
                            void *arg)
{
    uint64_t queued = 0, copied = 0, shared = 0;

    for (uint32_t id = 0; id < na_class->max_contexts; id++) {
        struct na_plugin_context *context = &na_class->contexts[id];

        queued += sm_load(&context->sends_queued);
        copied += sm_load(&context->transfers_copied);
        shared += sm_load(&context->transfers_shared);
    }
    report(arg, "sends_queued", queued);
    report(arg, "transfers_copied", copied);
    report(arg, "transfers_shared", shared);
}
