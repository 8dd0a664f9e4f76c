/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control of unexpected messages, for fabrics without a limit of messages in flight. While
 * deferred messages fill more than half of their budget, each peer that adds one is sent XOFF, and
 * XON when they fill a quarter or none is left. A sender that got XOFF pauses: its unexpected
 * messages wait, but expected messages, transfers and records go on, so that peers which pause each
 * other still answer.
 */

#include "msg_state.h"

static void flow_tell(struct msg_peer *peer);
static void flow_apply(struct msg_peer *peer, bool is_paused);
static void flow_set(struct msg_peer *peer, bool is_paused);
static void queue_pause(struct msg_peer *peer);
static void queue_resume(struct msg_peer *peer);

/* A message of the peer was deferred, or found no room. */
void kit_msg_flow_deferred(struct msg_peer *peer)
{
    struct msg_endpoint *state = peer->endpoint->state;

    if (kit_likely(state->deferrals.bytes <= state->deferrals.bytes_max / 2 ||
                   state->deferrals.count < KIT_DEFERRED_MIN / 2) ||
        peer->is_xoff || peer->base.is_self)
        return;
    peer->is_xoff = true;
    peer->has_flow = true;
    state->xoff_count++;
    flow_tell(peer);
}

/* Deferred messages were taken, or dropped. */
void kit_msg_flow_taken(struct msg_endpoint *state)
{
    if (kit_likely(state->xoff_count == 0) ||
        (state->deferrals.bytes > state->deferrals.bytes_max / 4 && state->deferrals.count != 0))
        return;
    for (uint32_t i = 0; i < state->session.slot_count && state->xoff_count != 0; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL || !peer->is_xoff)
            continue;
        peer->is_xoff = false;
        state->xoff_count--;
        flow_tell(peer);
    }
}

/* Adds a WIRE_FLOW record; the caller has checked that it fits. */
void kit_msg_flow_add(struct msg_out *out, struct msg_peer *peer)
{
    kit_msg_out_add_tagged(out, WIRE_FLOW, peer->is_xoff ? MSG_FLOW_XOFF : MSG_FLOW_XON);
    out->pending |= KIT_PENDING_FLOW;
    peer->base.pending &= ~KIT_PENDING_FLOW;
}

/* A WIRE_FLOW record came. kit_msg_flow_act() acts on the last one of a poll. */
void kit_msg_flow_received(struct msg_peer *peer, uint32_t flow)
{
    peer->flow_received = flow;
    kit_peer_mark(&peer->base);
}

void kit_msg_flow_act(struct msg_peer *peer)
{
    const struct msg_peer *source = (const struct msg_peer *) (const void *) peer->source;
    const bool is_paused = peer->flow_received == MSG_FLOW_XOFF;

    peer->flow_received = MSG_FLOW_NONE;
    if (peer->is_paused != is_paused || source->followers != 0)
        flow_apply(peer, is_paused);
}

/* The connection was replaced: XOFF of either side does not count any more. */
void kit_msg_flow_reset(struct msg_peer *peer)
{
    kit_msg_flow_forget(peer);
    peer->flow_received = MSG_FLOW_NONE;
    if (peer->is_paused)
        queue_resume(peer);
}

/*
 * The peer may wait for XON under another name of ours, and the XON may have been lost: it is sent
 * again as soon as the peer has introduced itself again.
 */
void kit_msg_flow_tell_again(struct msg_peer *peer)
{
    if (kit_unlikely(peer->has_flow))
        flow_tell(peer);
}

/* Drops the flow state that the peer would be sent. */
void kit_msg_flow_forget(struct msg_peer *peer)
{
    if (peer->is_xoff)
        peer->endpoint->state->xoff_count--;
    peer->is_xoff = false;
    peer->base.pending &= ~KIT_PENDING_FLOW;
}

/* The peer follows another canonical peer of its process, and pauses as that does. */
void kit_msg_flow_follow(struct msg_peer *peer, struct kit_peer *source)
{
    struct msg_peer *old = (struct msg_peer *) (void *) peer->source;
    struct msg_peer *new = (struct msg_peer *) (void *) source;

    old->followers -= old != peer;
    new->followers += new != peer;
    peer->source = source;
    if (peer->is_paused != new->is_paused)
        flow_set(peer, new->is_paused);
}

static void flow_tell(struct msg_peer *peer)
{
    MSG_LOG_DEBUG(peer->endpoint,
                  "peer %s may %s unexpected messages: %llu bytes wait for receives",
                  peer->base.name, peer->is_xoff ? "not send" : "send",
                  (unsigned long long) peer->endpoint->state->deferrals.bytes);
    peer->base.pending |= KIT_PENDING_FLOW;
    kit_peer_mark(&peer->base);
}

/* Pauses or resumes all peers that stand for the process, which mostly is one. */
static void flow_apply(struct msg_peer *peer, bool is_paused)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct msg_peer *source = (struct msg_peer *) (void *) peer->source;

    MSG_LOG_DEBUG(peer->endpoint, "peer %s %s", peer->base.name,
                  is_paused ? "has no room: unexpected messages to it wait" : "has room again");
    flow_set(source, is_paused);
    for (uint32_t i = 0; source->followers != 0 && i < state->session.slot_count; i++) {
        struct msg_peer *same = msg_peer_at(state, i);

        if (same != NULL && same->source == peer->source)
            flow_set(same, is_paused);
    }
}

static void flow_set(struct msg_peer *peer, bool is_paused)
{
    if (peer->is_paused == is_paused)
        return;
    if (is_paused)
        queue_pause(peer);
    else
        queue_resume(peer);
}

/* Moves unexpected messages to `paused`, except a message of which a part was sent. */
static void queue_pause(struct msg_peer *peer)
{
    struct kit_link *next;

    peer->is_paused = true;
    for (struct kit_link *link = peer->queue.next; link != &peer->queue; link = next) {
        const struct msg_op *op = (struct msg_op *) (void *) link;

        next = link->next;
        if (op->kind != MSG_OP_UNEXPECTED || op->sent != 0 ||
            (peer->part != 0 && link == peer->queue.next))
            continue;
        kit_list_remove(link);
        kit_list_append(&peer->paused, link);
    }
}

static void queue_resume(struct msg_peer *peer)
{
    peer->is_paused = false;
    while (!kit_list_empty(&peer->paused)) {
        struct kit_link *link = peer->paused.next;

        kit_list_remove(link);
        kit_list_append(&peer->queue, link);
    }
    kit_peer_mark(&peer->base);
}
