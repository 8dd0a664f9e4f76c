/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checking, every 200 ms, the peers that outstanding operations depend on. A process without such
 * operations checks no peer.
 */

#include "sm.h"

#include <string.h>

/* The argument of a pass over the receives of a context. */
struct sm_watch {
    struct na_plugin_context *context;
    bool gone;
};

static int32_t sm_peer_events_set(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                                  void *arg);
static uint32_t sm_watch_read(struct na_plugin_context *context, bool is_all);
static bool sm_watch_collect(struct na_plugin_context *context);
static bool sm_watch_receive(struct kit_recv *recv, void *watch_p);
static bool sm_watch_collect_peers(struct na_plugin_context *context);
static void sm_watch_add(struct na_plugin_context *context, struct na_plugin_addr *peer);

const struct na_plugin_peer_events sm_peer_events_extension = {
    .extension = {.size = sizeof(struct na_plugin_peer_events)},
    .peer_events_set = sm_peer_events_set,
};

bool sm_watch_wanted(struct na_plugin_context *context)
{
    return sm_load(&context->na_class->is_watching_all) || context->accept_later != 0 ||
           kit_match_expected_count(&context->match) != 0 || sm_load(&context->send_count) != 0 ||
           sm_load(&context->copying) != 0;
}

/*
 * Checks the peers that operations of this context depend on. Messages that a peer sent before it
 * died are delivered before the operations that depend on it fail. poll_lock is held.
 */
uint32_t sm_watch(struct na_plugin_context *context)
{
    uint32_t completed = 0;
    bool any, gone;

    context->watch_last = kit_host->clock_ns();
    (void) atomic_exchange_explicit(&context->watch_now, 0, memory_order_acquire);
    any = gone = sm_watch_collect(context);
    for (uint32_t i = 0; i < context->watched_count; i++) {
        struct na_plugin_addr *peer = context->watched[i];

        if (sm_peer_failure(peer) == 0 && !sm_peer_alive(peer))
            sm_peer_fail(peer, NA_PLUGIN_HOSTUNREACH);
        any = any || sm_peer_failure(peer) != 0;
    }
    if (any) {
        completed += sm_watch_read(context, gone);
        completed += sm_receive_fail_peers(context);
        for (uint32_t i = 0; i < context->watched_count; i++)
            sm_copy_fail_peer(context, context->watched[i], sm_peer_failure(context->watched[i]));
    }
    completed += sm_backlog_flush(context->na_class, context);
    (void) atomic_fetch_or_explicit(&context->area->doorbell_summary, context->accept_later,
                                    memory_order_release);
    context->accept_later = 0;
    for (uint32_t i = 0; i < context->watched_count; i++)
        sm_peer_release(context->watched[i]);
    context->watched_count = 0;
    return completed;
}

static int32_t sm_peer_events_set(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                                  void *arg)
{
    kit_lock_take(&na_class->peer_lost_lock);
    na_class->peer_lost = report;
    na_class->peer_lost_arg = arg;
    kit_lock_drop(&na_class->peer_lost_lock);
    sm_store(&na_class->is_watching_all, report != NULL);
    for (uint32_t i = 0; i < na_class->max_contexts; i++)
        sm_context_kick(&na_class->contexts[i]); /* sleepers start their watch timer */
    return NA_PLUGIN_SUCCESS;
}

/*
 * Drains the rings of failed peers, which the poll releases then; with `is_all` every ring. Returns
 * how many operations completed.
 */
static uint32_t sm_watch_read(struct na_plugin_context *context, bool is_all)
{
    uint32_t completed = 0;

    if (is_all)
        sm_doorbells_answer(context);
    for (uint32_t index = 0; index < SM_PEER_SLOTS; index++) {
        struct sm_in_ring **page = context->in[index / 64];
        struct sm_in_ring *ring = page != NULL ? page[index % 64] : NULL;
        uint32_t begin, head;
        bool has_failed;

        if (ring == NULL || ring->refused)
            continue;
        has_failed = sm_peer_failure(ring->peer) != 0;
        if (!has_failed && !is_all)
            continue;
        if (has_failed) {
            ring->closing = true;
            sm_in_ring_activate(context, ring);
        }
        begin = ring->head_slot;
        do {
            head = ring->head_slot;
            completed += sm_ring_drain(context, ring);
        } while (ring->head_slot != head && ring->head_slot - begin < SM_RING_SLOTS);
    }
    return completed;
}

/* Collects the peers to check, each once with a reference. True when a context of one is gone. */
static bool sm_watch_collect(struct na_plugin_context *context)
{
    struct na_plugin_class *na_class = context->na_class;
    struct kit_link *link;
    struct sm_watch watch = {.context = context};

    kit_lock_take(&na_class->watch_lock);
    na_class->watch_round++;
    kit_lock_take(&context->match_lock);
    kit_match_take_if(&context->match, sm_watch_receive, &watch, NULL);
    kit_lock_drop(&context->match_lock);

    kit_lock_take(&na_class->backlog_lock);
    for (link = na_class->backlog.next; link != &na_class->backlog; link = link->next) {
        struct sm_conn *conn = kit_container(link, struct sm_conn, backlog_link);

        sm_watch_add(context, conn->peer);
    }
    kit_lock_drop(&na_class->backlog_lock);
    watch.gone |= sm_watch_collect_peers(context);
    kit_lock_drop(&na_class->watch_lock);
    return watch.gone;
}

/*
 * Collects the peers with copied transfers. If peer events are wanted, one context also collects
 * all other peers every SM_WATCH_NS. True when a context that transfers go to is gone.
 */
static bool sm_watch_collect_peers(struct na_plugin_context *context)
{
    struct na_plugin_class *na_class = context->na_class;
    const bool is_copying = sm_load(&context->copying) != 0;
    const bool is_all = sm_load(&na_class->is_watching_all) &&
                        context->watch_last - na_class->watch_all_last >= SM_WATCH_NS;
    bool gone = false;

    if (is_all)
        na_class->watch_all_last = context->watch_last;
    if (!is_all && !is_copying)
        return false;
    kit_lock_take(&na_class->lock);
    for (struct kit_link *link = na_class->peers.next; link != &na_class->peers;
         link = link->next) {
        struct na_plugin_addr *peer = kit_container(link, struct na_plugin_addr, link);

        if (is_copying && sm_load(&peer->transfers) != 0) {
            sm_watch_add(context, peer);
            gone |= sm_copy_peer_is_gone(peer);
        } else if (is_all && peer != na_class->self && sm_peer_failure(peer) == 0) {
            sm_watch_add(context, peer);
        }
    }
    kit_lock_drop(&na_class->lock);
    return gone;
}

/* From a context that is gone, only messages sent before it was destroyed can still arrive. */
static bool sm_watch_receive(struct kit_recv *recv, void *watch_p)
{
    struct sm_op *op = (struct sm_op *) recv;
    struct sm_watch *watch = watch_p;

    if (recv->kind != KIT_RECV_EXPECTED)
        return false;
    sm_watch_add(watch->context, op->peer);
    op->gone = recv->source_id < op->peer->header.max_contexts &&
               sm_context_gone(sm_context_area_of(op->peer->base, recv->source_id));
    watch->gone |= op->gone;
    return false;
}

/* watch_lock is held. Without memory the peer is watched the next time. */
static void sm_watch_add(struct na_plugin_context *context, struct na_plugin_addr *peer)
{
    if (peer->watch_round == context->na_class->watch_round)
        return;
    if (context->watched_count == context->watched_capacity) {
        uint32_t capacity = context->watched_capacity == 0 ? 16 : 2 * context->watched_capacity;
        struct na_plugin_addr **watched = kit_host->mem_alloc(capacity * sizeof(*watched), 0);

        if (watched == NULL)
            return;
        if (context->watched_count != 0)
            memcpy(watched, context->watched, context->watched_count * sizeof(*watched));
        kit_host->mem_free(context->watched);
        context->watched = watched;
        context->watched_capacity = capacity;
    }
    peer->watch_round = context->na_class->watch_round;
    sm_peer_hold(peer);
    context->watched[context->watched_count++] = peer;
}
