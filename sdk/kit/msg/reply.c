/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies to HELLOs of senders that have not proved a key. A connection is opened for a reply, to
 * whatever name the HELLO says, so the number of such connections being opened is limited. A
 * reachable peer takes the reply at once; beyond the limit the oldest attempt is dropped.
 */

#include "msg_state.h"

#define REPLIES_MAX   256u
#define REPLY_LEAST   2u   /* ticks before which an attempt is not dropped */
#define REFUSAL_TICKS 100u /* lifetime of a refusal; that of an offer, too */
#define REPLY_PENDING (KIT_PENDING_OFFER | KIT_PENDING_REFUSAL)
#define OTHER_PENDING                                                                 \
    (KIT_PENDING_HELLO | KIT_PENDING_HELLO_ACK | KIT_PENDING_BYE | KIT_PENDING_PING | \
     KIT_PENDING_CONFIRM)

static bool reply_make_room(struct msg_endpoint *state);
static void reply_link(struct kit_link *list, struct msg_peer *peer);

/* True if only a reply is to be sent to the peer, which is not known otherwise. */
bool kit_msg_reply_is_all(const struct msg_peer *peer)
{
    return peer->base.phase == KIT_PEER_NEW && (peer->base.pending & REPLY_PENDING) != 0 &&
           (peer->base.pending & OTHER_PENDING) == 0 && peer->base.waiting == 0;
}

/* True if a connection may be opened now. Otherwise offers wait, and a refusal is dropped. */
bool kit_msg_reply_may_open(struct msg_peer *peer)
{
    struct msg_endpoint *state = peer->endpoint->state;

    if (peer->is_reply_opening)
        return true;
    if (state->reply_count < REPLIES_MAX || reply_make_room(state)) {
        kit_msg_reply_end(peer);
        reply_link(&state->replies_opening, peer);
        peer->is_reply_opening = true;
        peer->reply_ticks = state->session.ticks;
        state->reply_count++;
        return true;
    }
    peer->base.pending &= ~KIT_PENDING_REFUSAL;
    if ((peer->base.pending & KIT_PENDING_OFFER) != 0)
        reply_link(&state->replies_waiting, peer);
    return false;
}

/* The reply was sent or is not pending any more, or the connection is closed. */
void kit_msg_reply_end(struct msg_peer *peer)
{
    struct msg_endpoint *state = peer->endpoint->state;

    if (kit_list_empty(&peer->reply_link))
        return;
    kit_list_remove(&peer->reply_link);
    if (!peer->is_reply_opening)
        return;
    peer->is_reply_opening = false;
    state->reply_count--;
    if (!kit_list_empty(&state->replies_waiting))
        kit_peer_mark(
            &kit_container(state->replies_waiting.next, struct msg_peer, reply_link)->base);
}

/* Ends attempts whose reply is not pending any more, and retries waiting ones. */
void kit_msg_reply_tick(struct msg_endpoint *state)
{
    struct kit_link *link, *next;

    for (link = state->replies_opening.next; link != &state->replies_opening; link = next) {
        struct msg_peer *peer = kit_container(link, struct msg_peer, reply_link);

        next = link->next;
        if (state->session.ticks - peer->reply_ticks >= REFUSAL_TICKS)
            peer->base.pending &= ~KIT_PENDING_REFUSAL;
        if ((peer->base.pending & REPLY_PENDING) == 0)
            kit_msg_reply_end(peer);
    }
    for (link = state->replies_waiting.next; link != &state->replies_waiting; link = link->next)
        kit_peer_mark(&kit_container(link, struct msg_peer, reply_link)->base);
}

/* Drops the oldest attempt. Returns false if it has not lasted REPLY_LEAST ticks. */
static bool reply_make_room(struct msg_endpoint *state)
{
    struct msg_peer *peer = kit_container(state->replies_opening.next, struct msg_peer, reply_link);

    if (state->session.ticks - peer->reply_ticks < REPLY_LEAST)
        return false;
    kit_msg_reply_end(peer);
    if (!kit_msg_reply_is_all(peer))
        return true;
    state->session.refused++;
    MSG_LOG_DEBUG(state->endpoint, "%s does not take the answer to its HELLO", peer->base.name);
    kit_peer_reset(&peer->base);
    peer->base.pending &= ~REPLY_PENDING;
    state->session.is_sweep_due = true;
    return true;
}

static void reply_link(struct kit_link *list, struct msg_peer *peer)
{
    kit_list_remove(&peer->reply_link);
    kit_list_append(list, &peer->reply_link);
}
