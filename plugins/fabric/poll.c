/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress and cancelling. */

#include "state.h"

#define FABRIC_GIVE_WAY 16u /* polls, of which one insists */

static int32_t cancel(struct na_plugin_context *na_context, void *op, bool is_trusted);

/*
 * One thread polls at a time. A poller also stays away while somebody waits for the lock: it would
 * take it again and again before the other woke up. Not always, so that those who wait in turns do
 * not keep everybody from polling.
 */
int32_t fabric_poll(struct na_plugin_context *na_context, uint32_t *count)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint *endpoint = context->endpoint;
    struct fabric_endpoint_state *state = endpoint->state;
    uint64_t completed;
    int32_t ret;

    if (kit_unlikely(kit_lock_is_wanted(&state->lock)) &&
        atomic_fetch_add_explicit(&state->gave_way, 1, memory_order_relaxed) % FABRIC_GIVE_WAY != 0)
        return NA_PLUGIN_SUCCESS;
    if (kit_unlikely(!kit_lock_try(&state->lock)))
        return NA_PLUGIN_SUCCESS;
    if (kit_unlikely(context->armed || context->signaled))
        fabric_wait_disarm(context);
    completed = state->completed;
    ret = endpoint->ops->poll(endpoint);
    if (kit_unlikely(!kit_list_empty(&state->retry)))
        fabric_retry_flush(state);
    if (kit_unlikely(!kit_list_empty(&state->own_frames)))
        fabric_own_frames_deliver(state);
    if (kit_unlikely(state->is_refused))
        fabric_unexpected_again(state);
    if (kit_unlikely(state->is_tick_due || ++state->polls % FABRIC_POLLS_A_CLOCK == 0))
        fabric_tick(state);
    if (kit_unlikely(state->armed_count != 0))
        fabric_wait_rearm(state);
    *count += (uint32_t) (state->completed - completed);
    kit_lock_drop(&state->lock);
    return ret;
}

int32_t fabric_cancel(struct na_plugin_context *na_context, void *op)
{
    return cancel(na_context, op, false);
}

/* Receives are found without a search; sends and transfers, which wait seldom, are looked for. */
int32_t fabric_cancel_trusted(struct na_plugin_context *na_context, void *op)
{
    return cancel(na_context, op, true);
}

uint32_t fabric_op_size(void)
{
    return sizeof(struct fabric_op);
}

uint32_t fabric_op_align(void)
{
    return _Alignof(struct fabric_op);
}

/* If nothing holds it, it has just completed. */
static int32_t cancel(struct na_plugin_context *na_context, void *op, bool is_trusted)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint_state *state = context->endpoint->state;

    kit_lock_take(&state->lock);
    if (!fabric_recv_cancel(context, op, is_trusted) && !fabric_rma_cancel(context, op))
        (void) fabric_send_cancel(context, op);
    if (state->armed_count != 0)
        fabric_wait_kick_any(state);
    kit_lock_drop(&state->lock);
    return NA_PLUGIN_SUCCESS;
}
