/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Acts on the marked events of peers, outside of all calls into the fabric: ends the operations of
 * peers that failed or were restarted, closes connections, and sends frames.
 */

#include "msg_state.h"

static void peer_report(struct msg_peer *peer, int32_t status);
static void peer_act(struct msg_peer *peer);
static uint64_t peer_end_ops(struct msg_peer *peer, uint32_t before_epoch, int32_t status);
static void peer_sweep(struct msg_peer *peer);

struct msg_peer *kit_msg_peer_init(struct kit_endpoint *endpoint, struct kit_peer *base)
{
    struct msg_peer *peer = (struct msg_peer *) (void *) base;

    if (peer->endpoint != NULL)
        return peer;
    peer->endpoint = endpoint;
    peer->source = base;
    kit_list_init(&peer->queue);
    kit_list_init(&peer->paused);
    kit_list_init(&peer->frames);
    kit_list_init(&peer->rma_queue);
    kit_list_init(&peer->rma_started);
    kit_list_init(&peer->deferred);
    kit_list_init(&peer->retry_link);
    kit_list_init(&peer->reply_link);
    return peer;
}

void kit_msg_dispatch(struct kit_endpoint *endpoint)
{
    struct msg_endpoint *state = endpoint->state;

    while (state->session.is_marked) {
        state->session.is_marked = false;
        kit_msg_rma_drain(state);
        while (!kit_list_empty(&state->session.active)) {
            struct kit_link *link = state->session.active.next;

            kit_list_remove(link);
            peer_act(kit_container(link, struct msg_peer, base.active_link));
        }
        while (state->session.sweeps != 0) {
            state->session.sweeps--;
            peer_sweep(msg_peer_at(state, state->sweep++ % state->session.slot_count));
        }
    }
}

/* Cancels the selected sends, puts and gets. */
void kit_msg_cancel_matching(struct msg_endpoint *state, const struct msg_op_filter *filter)
{
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);
        bool is_found;

        if (peer == NULL)
            continue;
        is_found = kit_msg_queue_end(peer, filter, NA_PLUGIN_CANCELED);
        is_found |= kit_msg_rma_end(peer, filter, NA_PLUGIN_CANCELED);
        if (is_found && filter->op != NULL)
            return;
    }
}

/* Ends all operations of a failed peer and resets it to KIT_PEER_NEW. */
void kit_msg_peer_fail(struct msg_peer *peer)
{
    struct msg_endpoint *state = peer->endpoint->state;
    const bool was_met = peer->base.their_token != 0;
    const uint64_t lost = peer_end_ops(peer, UINT32_MAX, peer->base.failure);

    MSG_LOG(state->endpoint, lost != 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_INFO,
            "peer %s is gone: %s; %llu operations ended with %s", peer->base.name,
            peer->base.failure_reason != NULL ? peer->base.failure_reason : "no memory for why",
            (unsigned long long) lost, kit_status_name(peer->base.failure));
    if (was_met)
        peer_report(peer, peer->base.failure);
    state->session.is_sweep_due = true;
}

/* Resets a peer after our BYE. */
void kit_msg_peer_leave(struct msg_peer *peer)
{
    peer->base.pending = KIT_PENDING_FAILURE; /* nothing else is sent to it */
    (void) peer_end_ops(peer, UINT32_MAX, NA_PLUGIN_CANCELED);
}

/* After a HELLO or HELLO_ACK of the peer, which may be a new process. */
void kit_msg_peer_changed(struct msg_peer *peer)
{
    const uint32_t lost_before = peer->base.lost_before;
    uint64_t lost;

    kit_msg_out_unbuild(peer);
    peer->base.pending &= ~KIT_PENDING_PING;
    if (lost_before != 0) {
        peer->base.lost_before = 0;
        lost = peer_end_ops(peer, lost_before, NA_PLUGIN_HOSTUNREACH);
        MSG_LOG(peer->endpoint, lost != 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_INFO,
                "peer %s was restarted or had lost us; %llu operations from before have failed",
                peer->base.name, (unsigned long long) lost);
        peer_report(peer, NA_PLUGIN_HOSTUNREACH);
    }
    if (peer->source != peer->base.canonical)
        kit_msg_recv_rematch(peer);
    kit_msg_flow_tell_again(peer);
}

/* Wakes a sleeping thread, as a completion does. */
static void peer_report(struct msg_peer *peer, int32_t status)
{
    struct msg_endpoint *state = peer->endpoint->state;

    if (state->peer_lost == NULL)
        return;
    kit_peer_hold(&peer->base);
    state->peer_lost(state->peer_lost_arg, msg_peer_addr(&peer->base), status);
    if (state->armed_count != 0)
        kit_msg_wait_wake_any(state);
}

static void peer_act(struct msg_peer *peer)
{
    struct kit_endpoint *endpoint = peer->endpoint;

    if (kit_unlikely((peer->base.pending & (KIT_PENDING_FAILURE | KIT_PENDING_CLOSE)) != 0)) {
        const bool is_restarted = (peer->base.pending & KIT_PENDING_FAILURE) == 0;

        if (peer->base.silent_network_ms != 0 && endpoint->ops->peer_abort != NULL)
            endpoint->ops->peer_abort(endpoint, &peer->base, peer->base.silent_network_ms);
        if ((peer->base.pending & KIT_PENDING_FAILURE) != 0)
            kit_msg_peer_fail(peer);
        kit_msg_rma_drain(endpoint->state); /* before the connection is closed */
        peer->base.pending &= ~KIT_PENDING_CLOSE;
        msg_peer_close(peer);
        if (is_restarted)
            kit_msg_peer_resume(peer);
    }
    if (kit_unlikely(peer->flow_received != MSG_FLOW_NONE))
        kit_msg_flow_act(peer);
    kit_msg_peer_flush(peer);
    if (kit_unlikely(!kit_list_empty(&peer->rma_queue)))
        kit_msg_rma_flush(peer);
}

/* Ends operations posted before the epoch; UINT32_MAX: all. Returns how many completed. */
static uint64_t peer_end_ops(struct msg_peer *peer, uint32_t before_epoch, int32_t status)
{
    const uint64_t completed = peer->endpoint->state->completed;
    const struct msg_op_filter filter = {.before_epoch = before_epoch};

    kit_msg_parts_drop(peer);
    kit_msg_flow_reset(peer);
    (void) kit_msg_queue_end(peer, &filter, status);
    kit_msg_recv_fail(peer, before_epoch, status);
    (void) kit_msg_rma_end(peer, &filter, status);
    if (before_epoch == UINT32_MAX)
        kit_peer_reset(&peer->base);
    if (peer->source != peer->base.canonical)
        kit_msg_recv_rematch(peer);
    return peer->endpoint->state->completed - completed;
}

static void peer_sweep(struct msg_peer *peer)
{
    if (peer == NULL || !kit_peer_is_unused(&peer->base) || !kit_list_empty(&peer->retry_link) ||
        peer->stalled != NULL || !kit_list_empty(&peer->frames) ||
        !kit_list_empty(&peer->rma_started) || !kit_list_empty(&peer->deferred))
        return;
    msg_peer_close(peer);
    kit_msg_parts_drop(peer);
    kit_msg_flow_forget(peer);
    kit_msg_flow_follow(peer, &peer->base);
    kit_peer_free(&peer->base);
}
