/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: what one poll looks at, in the order of what is most likely and cheapest. */

#include "sm.h"

static uint32_t sm_poll_rings(struct na_plugin_context *context);
static uint32_t sm_poll_housekeep(struct na_plugin_context *context);
static void sm_poll_park(struct na_plugin_context *context);

int32_t sm_poll(struct na_plugin_context *context, uint32_t *count)
{
    struct na_plugin_class *na_class = context->na_class;
    uint32_t completed;

    if (kit_unlikely(!sm_lock_try(&context->poll_lock)))
        return NA_PLUGIN_SUCCESS; /* another thread is at it */
    if (kit_unlikely(atomic_load_explicit(&context->armed, memory_order_relaxed) != 0 &&
                     atomic_load_explicit(&context->sleepers, memory_order_relaxed) == 0))
        sm_wait_disarm(context);
    if (kit_unlikely(atomic_load_explicit(&context->area->doorbell_summary, memory_order_relaxed) !=
                     0))
        sm_doorbells_answer(context);
    completed = sm_poll_rings(context);
    if (kit_unlikely((atomic_load_explicit(&context->native_count, memory_order_relaxed) |
                      atomic_load_explicit(&context->copy_count, memory_order_relaxed) |
                      atomic_load_explicit(&context->job_count, memory_order_relaxed)) != 0))
        completed += sm_rma_progress(context);
    if (kit_unlikely(atomic_load_explicit(&na_class->backlog_count, memory_order_relaxed) != 0))
        completed += sm_backlog_flush(na_class, context);
    if (kit_unlikely(++context->polls % SM_HOUSEKEEPING == 0 ||
                     atomic_load_explicit(&context->watch_now, memory_order_relaxed) != 0))
        completed += sm_poll_housekeep(context);
    sm_lock_drop(&context->poll_lock);
    *count += completed;
    return NA_PLUGIN_SUCCESS;
}

/* True when a poll would find something. poll_lock is held. */
bool sm_poll_peek(struct na_plugin_context *context)
{
    if (atomic_load_explicit(&context->area->doorbell_summary, memory_order_acquire) != 0 ||
        atomic_load_explicit(&context->native_count, memory_order_acquire) != 0 ||
        atomic_load_explicit(&context->watch_now, memory_order_acquire) != 0 ||
        atomic_exchange_explicit(&context->unstall, 0, memory_order_acquire) != 0)
        return true;
    for (uint32_t i = 0; i < context->hot_count; i++)
        if (!context->hot[i]->stalled && sm_in_ring_ready(context->hot[i]))
            return true;
    return false;
}

static uint32_t sm_poll_rings(struct na_plugin_context *context)
{
    uint32_t completed = 0;
    uint32_t i = 0;

    while (i < context->hot_count) {
        struct sm_in_ring *ring = context->hot[i];

        if (sm_in_ring_ready(ring)) {
            completed += sm_ring_drain(context, ring);
            if (i > 0 && ring->hot_index == i) { /* move the busy ones to the front */
                context->hot[i] = context->hot[i - 1];
                context->hot[i]->hot_index = i;
                context->hot[i - 1] = ring;
                ring->hot_index = i - 1;
            }
            if (kit_unlikely(ring->refused)) {
                sm_in_ring_cool(context, ring);
                continue;
            }
        } else if (kit_unlikely(ring->closing)) {
            sm_in_ring_release(context, ring);
            continue;
        }
        i++;
    }
    return completed;
}

static uint32_t sm_poll_housekeep(struct na_plugin_context *context)
{
    uint32_t completed = 0;

    if (context->polls % SM_HOUSEKEEPING == 0) {
        sm_poll_park(context);
        sm_wait_look(context);
    }
    if (atomic_load_explicit(&context->watch_now, memory_order_relaxed) != 0 ||
        (sm_watch_wanted(context) && kit_host->clock_ns() - context->watch_last >= SM_WATCH_NS))
        completed = sm_watch(context);
    return completed;
}

/*
 * Rings that were silent for long are not polled any more: their senders are told to ring the
 * doorbell. One barrier for all of them; who sent before it is found by looking once more.
 */
static void sm_poll_park(struct na_plugin_context *context)
{
    uint32_t limit = context->hot_count > SM_HOT_MAX ? 2 : SM_PARK_AFTER;
    bool any = false;

    for (uint32_t i = 0; i < context->hot_count; i++) {
        struct sm_in_ring *ring = context->hot[i];

        ring->idle_rounds = ring->received != 0 ? 0 : ring->idle_rounds + 1;
        ring->received = 0;
        if (ring->idle_rounds <= limit || ring->stalled || ring->closing)
            continue;
        atomic_store_explicit(&ring->peer_slot->status, SM_RING_PARKED, memory_order_relaxed);
        any = true;
    }
    if (!any)
        return;
    if (!sm_barrier(context->na_class))
        limit = UINT32_MAX; /* none of them is parked */
    for (uint32_t i = context->hot_count; i > 0; i--) {
        struct sm_in_ring *ring = context->hot[i - 1];

        if (ring->idle_rounds <= limit || ring->stalled || ring->closing)
            continue;
        if (sm_in_ring_ready(ring))
            sm_in_ring_heat(context, ring);
        else
            sm_in_ring_cool(context, ring);
    }
}
