/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: one thread at a time polls the fabric and acts on its events. */

#include "msg_state.h"

#define MSG_YIELD_POLLS 16u /* of so many polls one does not leave the lock to a waiting thread */
#define MSG_SWEEP_TICKS 16u

static MSG_INLINE int32_t progress(struct msg_endpoint *state);
static void copied_report(struct msg_endpoint *state);
static void tick(struct msg_endpoint *state);

/*
 * A poll returns at once while another thread waits for the lock, which it would otherwise take
 * again and again before that thread wakes up. One of MSG_YIELD_POLLS polls goes on, so that
 * threads which lock in turns do not stop progress.
 */
int32_t kit_msg_poll(struct na_plugin_context *na_context, uint32_t *count)
{
    struct msg_context *context = msg_context(na_context);
    struct kit_endpoint *endpoint = context->endpoint;
    struct msg_endpoint *state = endpoint->state;
    uint64_t completed;
    int32_t ret;

    if (kit_unlikely(kit_lock_is_wanted(&state->lock)) &&
        atomic_fetch_add_explicit(&state->yielded, 1, memory_order_relaxed) % MSG_YIELD_POLLS != 0)
        return NA_PLUGIN_SUCCESS;
    if (kit_unlikely(!kit_lock_try(&state->lock)))
        return NA_PLUGIN_SUCCESS;
    if (kit_unlikely(context->armed || context->signaled))
        kit_msg_wait_disarm(context);
    completed = state->completed;
    ret = progress(state);
    if (kit_unlikely(state->is_refused))
        kit_msg_unexpected_again(state);
    if (kit_unlikely(state->is_tick_due || ++state->polls % MSG_POLLS_A_CLOCK == 0))
        tick(state);
    if (kit_unlikely(state->armed_count != 0))
        kit_msg_wait_rearm(state);
    *count += (uint32_t) (state->completed - completed);
    kit_lock_drop(&state->lock);
    return ret;
}

int32_t kit_msg_progress(struct kit_endpoint *endpoint)
{
    return progress(endpoint->state);
}

/*
 * Messages that queued behind copied frames are sent before the fabric is polled, so that their
 * receiver works at the same time.
 */
static MSG_INLINE int32_t progress(struct msg_endpoint *state)
{
    int32_t ret;

    if (state->copied != NULL) {
        copied_report(state);
        if (kit_unlikely(state->session.is_marked))
            kit_msg_dispatch(state->endpoint);
    }
    ret = state->endpoint->ops->poll(state->endpoint);
    while (kit_unlikely(!kit_list_empty(&state->retry))) {
        struct kit_link *link = state->retry.next;

        kit_list_remove(link);
        kit_peer_mark(&kit_container(link, struct msg_peer, retry_link)->base);
    }
    if (kit_unlikely(!kit_list_empty(&state->own_frames)))
        kit_msg_own_frames_deliver(state);
    if (kit_unlikely(state->session.is_marked))
        kit_msg_dispatch(state->endpoint);
    return ret;
}

static void copied_report(struct msg_endpoint *state)
{
    struct msg_out *out = state->copied;

    state->copied = NULL;
    state->copied_end = &state->copied;
    while (out != NULL) {
        struct msg_out *next = out->next_copied;

        kit_msg_frame_sent(state->endpoint, &out->frame, NA_PLUGIN_SUCCESS);
        out = next;
    }
}

uint32_t kit_msg_poll_try_wait(struct na_plugin_context *na_context)
{
    struct msg_context *context = msg_context(na_context);
    struct kit_endpoint *endpoint = context->endpoint;
    uint32_t can_wait;

    /* Another thread that has the lock may leave work for a poll, so this one must not sleep. */
    if (context->epoll_fd < 0 || !kit_lock_try(&endpoint->state->lock))
        return 0;
    can_wait = kit_msg_wait_arm(context);
    kit_msg_unlock(endpoint);
    return can_wait;
}

void kit_msg_lock(struct kit_endpoint *endpoint)
{
    kit_lock_take(&endpoint->state->lock);
}

void kit_msg_unlock(struct kit_endpoint *endpoint)
{
    if (endpoint->state->session.is_marked)
        kit_msg_dispatch(endpoint);
    kit_lock_drop(&endpoint->state->lock);
}

/* Reads the clock, and runs the timed work every KIT_SESSION_TICK_NS. */
static void tick(struct msg_endpoint *state)
{
    uint64_t now = kit_host->clock_ns();

    kit_msg_wait_timer_read(state, now);
    if (now - state->session.tick_last < KIT_SESSION_TICK_NS)
        return;
    kit_session_tick(&state->session, now);
    kit_msg_reply_tick(state);
    if (state->cancelling != 0)
        kit_msg_queue_end_cancelled(state);
    if (state->deferrals.count != 0 || state->deferred_count != 0) {
        kit_msg_unexpected_again(state); /* there may be memory now */
        kit_msg_deferred_resume(state);
    }
    kit_msg_flow_taken(state);
    if (state->session.is_sweep_due || state->session.ticks % MSG_SWEEP_TICKS == 0) {
        state->session.is_sweep_due = false;
        state->session.sweeps = state->session.slot_count;
        state->session.is_marked = true;
    }
    if (state->session.is_marked)
        kit_msg_dispatch(state->endpoint);
}
