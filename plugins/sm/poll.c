/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: one poll, its sources in the order of likelihood and cost; and sleeping. */

#include "sm.h"

#include <poll.h>
#include <unistd.h>

#define SM_WAKE_DATAGRAMS 1024 /* read in one go */

static bool sm_poll_peek(struct na_plugin_context *context);
static uint32_t sm_poll_rings(struct na_plugin_context *context);
static uint32_t sm_poll_housekeep(struct na_plugin_context *context);
static void sm_poll_idle_rings(struct na_plugin_context *context);
static void sm_poll_disarm(struct na_plugin_context *context);
static void sm_poll_handovers(struct na_plugin_context *context);
static void sm_poll_read_wakes(struct na_plugin_context *context);
static void sm_poll_sleep(struct na_plugin_context *context, uint64_t end);

int32_t sm_poll(struct na_plugin_context *context, uint32_t *count)
{
    struct na_plugin_class *na_class = context->na_class;
    uint32_t completed;

    if (kit_unlikely(!kit_lock_try(&context->poll_lock)))
        return NA_PLUGIN_SUCCESS; /* another thread is polling */
    if (kit_unlikely(sm_load(&context->armed) != 0 && sm_load(&context->sleepers) == 0))
        sm_poll_disarm(context);
    if (kit_unlikely(sm_load(&context->area->doorbell_summary) != 0))
        sm_doorbells_answer(context);
    completed = sm_poll_rings(context);
    if (kit_unlikely((sm_load(&context->native_count) | sm_load(&context->copying)) != 0))
        completed += sm_rma_progress(context);
    if (kit_unlikely(sm_load(&na_class->backlog_count) != 0))
        completed += sm_backlog_flush(na_class, context);
    if (kit_unlikely(++context->polls % SM_HOUSEKEEPING == 0 || sm_load(&context->watch_now) != 0))
        completed += sm_poll_housekeep(context);
    kit_lock_drop(&context->poll_lock);
    *count += completed;
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_poll_get_fd(struct na_plugin_context *context)
{
    return context->epoll_fd;
}

uint32_t sm_poll_try_wait(struct na_plugin_context *context)
{
    uint64_t moved;
    bool idle;

    if (context->na_class->busy || !kit_lock_try(&context->poll_lock))
        return 0;
    /* Announcing a sleep costs a barrier, so this checks first whether it would end at once. */
    if (sm_poll_peek(context) || sm_rma_is_moving(context)) {
        kit_lock_drop(&context->poll_lock);
        return 0;
    }
    atomic_store_explicit(&context->armed, 1, memory_order_seq_cst);
    context->sleep_number += SM_CONTEXT_SLEEP;
    sm_wake_set_flags(context, context->sleep_number | SM_CONTEXT_ASLEEP);
    idle = sm_barrier(context->na_class) && !sm_poll_peek(context) &&
           sm_backlog_announce(context->na_class, context);
    if (idle && sm_load_acquire(&context->copying) != 0) {
        moved = sm_load(&context->rma_moved);
        idle = sm_copy_progress(context, true) == 0 && moved == sm_load(&context->rma_moved);
    }
    if (idle)
        sm_wake_timer(context, sm_watch_wanted(context));
    kit_lock_drop(&context->poll_lock);
    return idle;
}

int32_t sm_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count)
{
    uint64_t end = kit_host->clock_ns() + timeout_ms * UINT64_C(1000000);
    uint32_t before = *count;
    int32_t ret;

    for (;;) {
        ret = sm_poll(context, count);
        if (ret != NA_PLUGIN_SUCCESS || *count != before)
            return ret;
        if (atomic_exchange_explicit(&context->woken, 0, memory_order_acquire) != 0)
            return NA_PLUGIN_SUCCESS;
        if (timeout_ms == 0 || kit_host->clock_ns() >= end)
            return NA_PLUGIN_TIMEOUT;
        /* While `sleepers` is not 0, polls of other threads do not read the byte that wakes us. */
        atomic_fetch_add_explicit(&context->sleepers, 1, memory_order_seq_cst);
        if (sm_poll_try_wait(context))
            sm_poll_sleep(context, end);
        else
            kit_cpu_relax();
        atomic_fetch_sub_explicit(&context->sleepers, 1, memory_order_seq_cst);
    }
}

static uint32_t sm_poll_rings(struct na_plugin_context *context)
{
    uint32_t completed = 0;
    struct kit_link *next;

    for (struct kit_link *link = context->polled.next; link != &context->polled; link = next) {
        struct sm_in_ring *ring = kit_container(link, struct sm_in_ring, polled);

        next = link->next;
        if (sm_in_ring_ready(ring)) {
            struct kit_link *before = link->prev;

            completed += sm_ring_drain(context, ring);
            if (before != &context->polled) { /* busy rings move to the front */
                kit_list_take(link);
                kit_list_insert_after(before->prev, link);
            }
            if (kit_unlikely(ring->refused))
                sm_in_ring_idle(context, ring);
        } else if (kit_unlikely(ring->closing)) {
            sm_in_ring_release(context, ring);
        }
    }
    return completed;
}

static uint32_t sm_poll_housekeep(struct na_plugin_context *context)
{
    uint32_t completed = 0;

    if (context->polls % SM_HOUSEKEEPING == 0) {
        sm_poll_idle_rings(context);
        sm_poll_handovers(context);
    }
    if (sm_load(&context->watch_now) != 0 ||
        (sm_watch_wanted(context) && kit_host->clock_ns() - context->watch_last >= SM_WATCH_NS))
        completed = sm_watch(context);
    return completed;
}

/*
 * Stops polling rings without a message for long: their senders are told to ring the doorbell. One
 * barrier serves all rings; a message sent before it is found by one more check.
 */
static void sm_poll_idle_rings(struct na_plugin_context *context)
{
    uint32_t limit = context->polled_count > SM_POLLED_MAX ? 2 : SM_IDLE_AFTER;
    struct kit_link *link, *next;
    bool any = false;

    for (link = context->polled.next; link != &context->polled; link = link->next) {
        struct sm_in_ring *ring = kit_container(link, struct sm_in_ring, polled);

        ring->idle_rounds = ring->received != 0 ? 0 : ring->idle_rounds + 1;
        ring->received = 0;
        if (ring->idle_rounds <= limit || ring->stalled || ring->closing)
            continue;
        sm_store(&ring->peer_slot->status, SM_RING_IDLE);
        any = true;
    }
    if (!any)
        return;
    if (!sm_barrier(context->na_class))
        limit = UINT32_MAX; /* idles no ring */
    for (link = context->polled.next; link != &context->polled; link = next) {
        struct sm_in_ring *ring = kit_container(link, struct sm_in_ring, polled);

        next = link->next;
        if (ring->idle_rounds <= limit || ring->stalled || ring->closing)
            continue;
        if (sm_in_ring_ready(ring))
            sm_in_ring_activate(context, ring);
        else
            sm_in_ring_idle(context, ring);
    }
}

/* True when a poll would find something. poll_lock is held. */
static bool sm_poll_peek(struct na_plugin_context *context)
{
    if (sm_load_acquire(&context->area->doorbell_summary) != 0 ||
        sm_load_acquire(&context->native_count) != 0 || sm_load_acquire(&context->watch_now) != 0 ||
        atomic_exchange_explicit(&context->unstall, 0, memory_order_acquire) != 0)
        return true;
    for (struct kit_link *link = context->polled.next; link != &context->polled;
         link = link->next) {
        const struct sm_in_ring *ring = kit_container(link, struct sm_in_ring, polled);

        if (!ring->stalled && sm_in_ring_ready(ring))
            return true;
    }
    return false;
}

/* Ends a sleep, in the first poll after it. poll_lock is held. */
static void sm_poll_disarm(struct na_plugin_context *context)
{
    uint64_t ticks;

    atomic_store_explicit(&context->armed, 0, memory_order_seq_cst);
    sm_wake_set_flags(context, 0);
    sm_poll_read_wakes(context);
    if (sm_load(&context->timer_armed) != 0 &&
        read(context->timer_fd, &ticks, sizeof(ticks)) == (ssize_t) sizeof(ticks))
        sm_store(&context->watch_now, 1);
}

/* A context that never sleeps reads its wake socket now and then. poll_lock is held. */
static void sm_poll_handovers(struct na_plugin_context *context)
{
    uint64_t now = kit_host->clock_ns();

    if (now - context->handover_last < SM_HANDOVER_NS || sm_load(&context->armed) != 0)
        return;
    context->handover_last = now;
    sm_poll_read_wakes(context);
}

/* Datagrams that are left make the next sleep a short one. */
static void sm_poll_read_wakes(struct na_plugin_context *context)
{
    for (int i = 0; i < SM_WAKE_DATAGRAMS && sm_handover_read(context); i++)
        continue;
}

static void sm_poll_sleep(struct na_plugin_context *context, uint64_t end)
{
    struct pollfd descriptor = {.fd = context->epoll_fd, .events = POLLIN};
    uint64_t now = kit_host->clock_ns();
    struct timespec timeout;

    if (now >= end)
        return;
    timeout.tv_sec = (time_t) ((end - now) / UINT64_C(1000000000));
    timeout.tv_nsec = (long) ((end - now) % UINT64_C(1000000000));
    (void) ppoll(&descriptor, 1, &timeout, NULL);
}
