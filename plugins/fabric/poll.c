/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: one thread at a time reads what the fabric reports, and acts on it. */

#include "state.h"

#define FABRIC_GIVE_WAY    16u /* polls, of which one insists */
#define FABRIC_SWEEP_TICKS 16u

static void fabric_tick(struct fabric_endpoint_state *state);

/*
 * A poller stays away while another thread waits for the lock: it would take it again and again
 * before that one woke up. Not always, so that threads that wait in turns do not end all polling.
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
    ret = fabric_progress(state);
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

int32_t fabric_progress(struct fabric_endpoint_state *state)
{
    int32_t ret = state->endpoint->ops->poll(state->endpoint);

    while (kit_unlikely(!kit_list_empty(&state->retry))) {
        struct kit_link *link = state->retry.next;

        kit_list_remove(link);
        fabric_peer_mark(kit_container(link, struct fabric_peer_state, retry_link));
    }
    if (kit_unlikely(!kit_list_empty(&state->own_frames)))
        fabric_own_frames_deliver(state);
    if (kit_unlikely(state->is_marked))
        fabric_dispatch(state->endpoint);
    return ret;
}

uint32_t fabric_poll_try_wait(struct na_plugin_context *na_context)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint *endpoint = context->endpoint;
    uint32_t can_wait;

    /* The thread that has the lock is busy with what there may be to poll for. */
    if (context->epoll_fd < 0 || !kit_lock_try(&endpoint->state->lock))
        return 0;
    can_wait = fabric_wait_arm(context);
    fabric_unlock(endpoint);
    return can_wait;
}

void fabric_lock(struct fabric_endpoint *endpoint)
{
    kit_lock_take(&endpoint->state->lock);
}

void fabric_unlock(struct fabric_endpoint *endpoint)
{
    if (endpoint->state->is_marked)
        fabric_dispatch(endpoint);
    kit_lock_drop(&endpoint->state->lock);
}

/* Does something at most every 100 ms; otherwise costs a look at the clock. */
static void fabric_tick(struct fabric_endpoint_state *state)
{
    uint64_t now = kit_host->clock_ns();

    fabric_wait_timer_read(state, now);
    if (now - state->tick_last < FABRIC_TICK_NS)
        return;
    fabric_watch_tick(state, now);
    if (state->cancelling != 0)
        fabric_queue_end_cancelled(state);
    if (state->deferrals.count != 0 || state->deferred_count != 0) {
        fabric_unexpected_again(state); /* there may be memory now */
        fabric_deferred_resume(state);
    }
    if (state->is_sweep_due || state->ticks % FABRIC_SWEEP_TICKS == 0) {
        state->is_sweep_due = false;
        state->sweeps = state->slot_count;
        state->is_marked = true;
    }
    if (state->is_marked)
        fabric_dispatch(state->endpoint);
}
