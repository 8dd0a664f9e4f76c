/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was learnt of peers is acted on here, from outside of all calls into the fabric: operations
 * of those that failed or began again end, ways are closed, and what can be sent is sent.
 */

#include "state.h"

static void fabric_peer_act(struct fabric_peer_state *peer);
static uint64_t fabric_peer_lose(struct fabric_peer_state *peer, uint32_t before_epoch,
                                 int32_t status);
static void fabric_peer_sweep(struct fabric_peer_state *peer);

void fabric_dispatch(struct fabric_endpoint *endpoint)
{
    struct fabric_endpoint_state *state = endpoint->state;

    while (state->is_marked) {
        state->is_marked = false;
        fabric_rma_drain(state);
        while (!kit_list_empty(&state->active)) {
            struct kit_link *link = state->active.next;

            kit_list_remove(link);
            fabric_peer_act(kit_container(link, struct fabric_peer_state, active_link));
        }
        while (state->sweeps != 0) {
            state->sweeps--;
            fabric_peer_sweep(state->slots[state->slot_sweep++ % state->slot_count].peer);
        }
    }
}

/* The next operation begins with a HELLO. */
void fabric_peer_fail(struct fabric_peer_state *peer)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    const uint64_t lost = fabric_peer_lose(peer, UINT32_MAX, peer->failure);

    FABRIC_LOG(state->endpoint, lost != 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_INFO,
               "peer %s is gone: %s; %llu operations ended with %s", peer->peer.name,
               peer->failure_reason, (unsigned long long) lost, kit_status_name(peer->failure));
    state->is_sweep_due = true;
}

/* After our BYE. */
void fabric_peer_leave(struct fabric_peer_state *peer)
{
    peer->pending = FABRIC_FAILED; /* whatever it was to be told */
    (void) fabric_peer_lose(peer, UINT32_MAX, NA_PLUGIN_CANCELED);
}

/* After a HELLO or HELLO_ACK of the peer: what was built for the one that we knew is lost. */
void fabric_peer_changed(struct fabric_peer_state *peer)
{
    const uint32_t lost_before = peer->lost_before;
    uint64_t lost;

    fabric_out_unbuild(peer);
    peer->pending &= ~FABRIC_PENDING_PING;
    if (lost_before != 0) {
        peer->lost_before = 0;
        lost = fabric_peer_lose(peer, lost_before, NA_PLUGIN_HOSTUNREACH);
        FABRIC_LOG(peer->endpoint, lost != 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_INFO,
                   "peer %s was restarted or had lost us; %llu operations from before have failed",
                   peer->peer.name, (unsigned long long) lost);
    }
    if (peer->source != peer->canonical)
        fabric_recv_rematch(peer);
}

static void fabric_peer_act(struct fabric_peer_state *peer)
{
    if (kit_unlikely((peer->pending & (FABRIC_FAILED | FABRIC_STALE)) != 0)) {
        if ((peer->pending & FABRIC_FAILED) != 0)
            fabric_peer_fail(peer);
        fabric_rma_drain(peer->endpoint->state); /* before the way is closed */
        peer->pending &= ~FABRIC_STALE;
        fabric_peer_close(peer);
    }
    fabric_peer_flush(peer);
    if (kit_unlikely(!kit_list_empty(&peer->rma_queue)))
        fabric_rma_flush(peer);
}

/* Ends what was posted before the epoch, UINT32_MAX: everything. Returns how many those were. */
static uint64_t fabric_peer_lose(struct fabric_peer_state *peer, uint32_t before_epoch,
                                 int32_t status)
{
    const uint64_t completed = peer->endpoint->state->completed;

    fabric_queue_fail(peer, before_epoch, status);
    fabric_recv_fail(peer, before_epoch, status);
    fabric_rma_fail(peer, before_epoch, status);
    if (before_epoch == UINT32_MAX)
        fabric_peer_reset(peer);
    if (peer->source != peer->canonical)
        fabric_recv_rematch(peer);
    return peer->endpoint->state->completed - completed;
}

static void fabric_peer_sweep(struct fabric_peer_state *peer)
{
    if (peer == NULL || !fabric_peer_is_unused(peer) || !kit_list_empty(&peer->retry_link) ||
        peer->stalled != NULL || !kit_list_empty(&peer->frames) ||
        !kit_list_empty(&peer->rma_started) || !kit_list_empty(&peer->deferred))
        return;
    fabric_peer_close(peer);
    fabric_peer_free(peer);
}
