/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress, cancelling, and the lock of an endpoint. */

#include "state.h"

#define FABRIC_LOCK_SPINS 256u
#define FABRIC_GIVE_WAY   16u /* polls, of which one insists */

static void fabric_lock_wait(struct fabric_endpoint *endpoint);

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

    if (fabric_unlikely(atomic_load_explicit(&state->lock_waiters, memory_order_relaxed) != 0) &&
        atomic_fetch_add_explicit(&state->gave_way, 1, memory_order_relaxed) % FABRIC_GIVE_WAY != 0)
        return NA_PLUGIN_SUCCESS;
    if (fabric_unlikely(!fabric_lock_try(endpoint)))
        return NA_PLUGIN_SUCCESS;
    if (fabric_unlikely(context->armed || context->signaled))
        fabric_wait_disarm(context);
    completed = state->completed;
    ret = endpoint->ops->poll(endpoint);
    if (fabric_unlikely(!fabric_list_empty(&state->retry)))
        fabric_retry_flush(state);
    if (fabric_unlikely(!fabric_list_empty(&state->own_frames)))
        fabric_own_frames_deliver(state);
    if (fabric_unlikely(state->is_refused))
        fabric_unexpected_again(state);
    if (fabric_unlikely(state->is_tick_due || ++state->polls % FABRIC_POLLS_A_CLOCK == 0))
        fabric_tick(state);
    if (fabric_unlikely(state->armed_count != 0))
        fabric_wait_rearm(state);
    *count += (uint32_t) (state->completed - completed);
    fabric_unlock(endpoint);
    return ret;
}

/* If nothing holds it, it has just completed. */
int32_t fabric_cancel(struct na_plugin_context *na_context, void *op)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint_state *state = context->endpoint->state;

    fabric_lock(context->endpoint);
    if (!fabric_unexpected_cancel(context, op) && !fabric_expected_cancel(context, op) &&
        !fabric_rma_cancel(context, op))
        (void) fabric_send_cancel(context, op);
    if (state->armed_count != 0)
        fabric_wait_kick_any(state);
    fabric_unlock(context->endpoint);
    return NA_PLUGIN_SUCCESS;
}

uint32_t fabric_op_size(void)
{
    return sizeof(struct fabric_op);
}

uint32_t fabric_op_align(void)
{
    return _Alignof(struct fabric_op);
}

void fabric_lock(struct fabric_endpoint *endpoint)
{
    if (fabric_unlikely(!fabric_lock_try(endpoint)))
        fabric_lock_wait(endpoint);
}

void fabric_unlock(struct fabric_endpoint *endpoint)
{
    if (!endpoint->state->is_elided)
        (void) pthread_mutex_unlock(&endpoint->lock);
}

static void fabric_lock_wait(struct fabric_endpoint *endpoint)
{
    struct fabric_endpoint_state *state = endpoint->state;

    (void) atomic_fetch_add_explicit(&state->lock_waiters, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < FABRIC_LOCK_SPINS; i++) {
        if (fabric_lock_try(endpoint))
            goto out;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    (void) pthread_mutex_lock(&endpoint->lock);

out:
    (void) atomic_fetch_sub_explicit(&state->lock_waiters, 1, memory_order_relaxed);
}

bool fabric_lock_try(struct fabric_endpoint *endpoint)
{
    return endpoint->state->is_elided || pthread_mutex_trylock(&endpoint->lock) == 0;
}
