/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of each peer: sends that could not be sent at once wait without a copy, and the next
 * frame takes as many as fit.
 */

#include "msg_state.h"

#include <stddef.h>
#include <string.h>

/* The content of a control record. */
struct msg_parts {
    const void *head;
    uint64_t head_size;
    const void *data;
    uint64_t data_size;
};

static int32_t control_queue(struct kit_endpoint *endpoint, struct kit_peer *kit_peer,
                             uint32_t type, struct msg_parts parts, uint32_t most);
static bool list_end(struct msg_peer *peer, struct kit_link *list,
                     const struct msg_op_filter *filter, int32_t status);
static bool peer_flush_one(struct msg_peer *peer);
static bool peer_has_work(const struct msg_peer *peer);
static bool queue_has_work(const struct msg_peer *peer);
static struct msg_out *out_build(struct msg_peer *peer);
static void out_introduce(struct msg_out *out, struct msg_peer *peer);
static void out_reply(struct msg_out *out, struct msg_peer *peer);
static void out_refill(struct msg_out *out, struct msg_peer *peer);
static void out_fill(struct msg_out *out, struct msg_peer *peer);
static inline void out_part_sent(struct msg_peer *peer);
static void op_end(struct msg_endpoint *state, struct msg_op *op, int32_t status);
static void out_complete_ops(struct msg_endpoint *state, struct msg_out *out, int32_t status);
static bool out_end_ops(struct msg_endpoint *state, struct msg_out *out,
                        const struct msg_op_filter *filter, int32_t status);
static void out_end_cancelled(struct msg_endpoint *state, struct msg_out *out);

int32_t kit_msg_control_send(struct kit_endpoint *endpoint, struct kit_peer *kit_peer,
                             uint32_t type, const void *data, uint64_t size)
{
    return control_queue(endpoint, kit_peer, type, (struct msg_parts){data, size, NULL, 0},
                         WIRE_CONTROL_MAX);
}

uint32_t kit_msg_control_most(const struct kit_endpoint *endpoint)
{
    return endpoint->state->control_most;
}

int32_t kit_msg_control_data(struct kit_endpoint *endpoint, struct kit_peer *kit_peer,
                             uint32_t type, const void *head, uint64_t head_size, const void *data,
                             uint64_t size)
{
    return control_queue(endpoint, kit_peer, type, (struct msg_parts){head, head_size, data, size},
                         endpoint->state->control_most);
}

static int32_t control_queue(struct kit_endpoint *endpoint, struct kit_peer *kit_peer,
                             uint32_t type, struct msg_parts parts, uint32_t most)
{
    struct msg_peer *peer = (struct msg_peer *) kit_peer;
    const uint64_t size = parts.head_size + parts.data_size;
    struct msg_control *control;
    uint8_t *place;

    if (size > most) {
        MSG_LOG_ERROR(endpoint, "a control record of %llu bytes; at most %u are possible",
                      (unsigned long long) size, most);
        return NA_PLUGIN_MSGSIZE;
    }
    control = kit_msg_control_get(endpoint->state, size);
    if (control == NULL)
        return NA_PLUGIN_NOMEM;
    place = (uint8_t *) control + offsetof(struct msg_control, data);
    if (parts.head_size != 0)
        memcpy(place, parts.head, parts.head_size);
    if (parts.data_size != 0)
        memcpy(place + parts.head_size, parts.data, parts.data_size);
    control->op.context = NULL;
    control->op.peer = peer;
    control->op.data = place;
    control->op.size = size;
    control->op.kind = MSG_OP_CONTROL;
    control->op.tag = type;
    control->op.remote_id = 0;
    control->op.epoch = peer->base.epoch;
    kit_list_append(&peer->queue, &control->op.link);
    kit_peer_waiting_add(&peer->base);
    kit_peer_mark(&peer->base);
    return NA_PLUGIN_SUCCESS;
}

void kit_msg_frame_sent(struct kit_endpoint *endpoint, struct kit_frame *frame, int32_t status)
{
    struct msg_endpoint *state = endpoint->state;
    struct msg_out *out = (struct msg_out *) (void *) frame;
    struct msg_peer *peer = out->peer;
    bool is_current = out->connection == peer->base.connection;

    state->in_flight--;
    kit_list_take(&out->link);
    out_complete_ops(state, out, status);
    msg_out_put(state, out);
    if (kit_unlikely(!is_current))
        return; /* the peer failed or was restarted since */
    peer->base.in_flight--;
    if (kit_unlikely(status != NA_PLUGIN_SUCCESS))
        kit_peer_failed(&peer->base, status, "a frame could not be delivered");
    else if (kit_unlikely(peer->base.pending != 0 || !kit_list_empty(&peer->queue) ||
                          peer->stalled != NULL))
        kit_peer_mark(&peer->base);
}

/* Sends frames until nothing is queued or the fabric has no room. */
void kit_msg_peer_flush(struct msg_peer *peer)
{
    while (peer_flush_one(peer))
        continue;
}

/* Puts the operations and records of the stalled frame back into the queue, and frees the frame. */
void kit_msg_out_unbuild(struct msg_peer *peer)
{
    struct msg_out *out = peer->stalled;

    if (out == NULL)
        return;
    peer->stalled = NULL;
    peer->part = 0;
    peer->base.is_stalled = false;
    while (!kit_list_empty(&out->ops)) {
        struct kit_link *link = out->ops.prev;

        kit_list_remove(link);
        kit_list_prepend(&peer->queue, link);
        kit_peer_waiting_add(&peer->base);
    }
    if ((peer->base.pending & KIT_PENDING_FAILURE) == 0) {
        peer->base.pending |= out->pending & ~(KIT_PENDING_HELLO | KIT_PENDING_OFFER);
        if ((out->pending & KIT_PENDING_OFFER) != 0 && peer->base.auth != NULL)
            kit_offer_answer_again(&peer->base);
    }
    msg_out_put(peer->endpoint->state, out);
    msg_retry_add(peer);
}

/*
 * Ends the selected sends. True: there was one. A single one in a frame in flight is only marked,
 * and completes with the frame or after a tick.
 */
bool kit_msg_queue_end(struct msg_peer *peer, const struct msg_op_filter *filter, int32_t status)
{
    struct msg_endpoint *state = peer->endpoint->state;
    bool is_found = false;

    if (filter->op == NULL || peer->part != 0 ||
        (peer->stalled != NULL && kit_list_contains(&peer->stalled->ops, filter->op)))
        kit_msg_out_unbuild(peer);
    is_found |= list_end(peer, &peer->queue, filter, status);
    is_found |= list_end(peer, &peer->paused, filter, status);
    if (filter->before_epoch != UINT32_MAX)
        return is_found; /* frames in flight complete by themselves */
    for (struct kit_link *link = peer->frames.next; link != &peer->frames; link = link->next)
        is_found |= out_end_ops(state, kit_container(link, struct msg_out, link), filter, status);
    return is_found;
}

static bool list_end(struct msg_peer *peer, struct kit_link *list,
                     const struct msg_op_filter *filter, int32_t status)
{
    struct kit_link *next;
    bool is_found = false;

    for (struct kit_link *link = list->next; link != list; link = next) {
        struct msg_op *op = (struct msg_op *) (void *) link;

        next = link->next;
        if (!msg_op_matches(filter, op))
            continue;
        is_found = true;
        kit_list_remove(link);
        kit_peer_waiting_remove(&peer->base);
        op_end(peer->endpoint->state, op, status);
    }
    return is_found;
}

/*
 * Completes cancelled sends whose frame stays in flight because the peer receives nothing. The
 * frame has a copy of their data, so they need not wait.
 */
void kit_msg_queue_end_cancelled(struct msg_endpoint *state)
{
    for (uint32_t i = 0; i < state->session.slot_count && state->cancelling != 0; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->frames.next; link != &peer->frames; link = link->next)
            out_end_cancelled(state, kit_container(link, struct msg_out, link));
    }
}

/* Sends one frame. True: there may be more to send. */
static bool peer_flush_one(struct msg_peer *peer)
{
    struct kit_endpoint *endpoint = peer->endpoint;
    struct msg_out *out;
    int32_t ret;

    if ((peer->stalled == NULL && !peer_has_work(peer)) ||
        peer->base.in_flight >= endpoint->ops->max_sends ||
        (peer->base.pending & KIT_PENDING_FAILURE) != 0)
        return false;
    if (kit_unlikely(!peer->base.is_open && kit_msg_reply_is_all(peer)) &&
        !kit_msg_reply_may_open(peer))
        return false;
    ret = kit_likely(peer->base.is_open || peer->base.is_self) ? NA_PLUGIN_SUCCESS
                                                               : msg_peer_open(peer);
    if (kit_unlikely(ret != NA_PLUGIN_SUCCESS)) {
        if (ret == NA_PLUGIN_AGAIN)
            msg_retry_add(peer);
        else
            kit_peer_failed(&peer->base, ret, "there is no way to it");
        return false;
    }
    out = peer->stalled;
    peer->stalled = NULL;
    peer->base.is_stalled = false;
    if (out == NULL)
        out = out_build(peer);
    else if (peer->base.phase != KIT_PEER_HELLO_SENT)
        out_refill(out, peer);
    if (kit_unlikely(out == NULL)) {
        msg_retry_add(peer);
        return false;
    }
    if (kit_likely((out->pending & (KIT_PENDING_OFFER | KIT_PENDING_REFUSAL)) == 0))
        return kit_msg_out_send(peer, out);
    if (!kit_msg_out_send(peer, out))
        return false;
    kit_msg_reply_end(peer);
    return true;
}

static bool peer_has_work(const struct msg_peer *peer)
{
    const uint32_t alone = KIT_PENDING_HELLO_ACK | KIT_PENDING_BYE | KIT_PENDING_PING |
                           KIT_PENDING_OFFER | KIT_PENDING_REFUSAL | KIT_PENDING_CONFIRM;

    if ((peer->base.pending & alone) != 0)
        return true;
    switch (peer->base.phase) {
    case KIT_PEER_READY:
        return kit_msg_flow_is_due(peer) || queue_has_work(peer);
    case KIT_PEER_NEW:
        return !kit_list_empty(&peer->queue) || !kit_list_empty(&peer->rma_queue);
    default:
        return false;
    }
}

/*
 * A message that does not fit into a frame with a HELLO waits until the HELLO is answered, because
 * the token may be stale and the message lost. With a key all messages wait, because a restarted
 * peer could not check the seal.
 */
static bool queue_has_work(const struct msg_peer *peer)
{
    const struct kit_endpoint *endpoint = peer->endpoint;

    if (kit_list_empty(&peer->queue))
        return false;
    if (kit_likely((peer->base.pending & KIT_PENDING_HELLO) == 0) ||
        peer->base.hello_epoch != peer->base.epoch)
        return true;
    if (peer->base.auth != NULL)
        return false;
    return sizeof(struct wire_header) + wire_record_size(kit_hello_size(peer->base.session)) +
               wire_record_size(msg_list_first_op(&peer->queue)->size) <=
           endpoint->ops->max_frame;
}

/* Builds the next frame for the peer. Returns NULL if no frame is free. */
static struct msg_out *out_build(struct msg_peer *peer)
{
    struct msg_out *out = msg_out_get(peer->endpoint->state);

    if (out == NULL)
        return NULL;
    msg_out_begin(out, peer);
    if (kit_likely(peer->base.pending == 0)) {
        out_fill(out, peer);
        return out;
    }
    if (kit_unlikely((peer->base.pending & (KIT_PENDING_OFFER | KIT_PENDING_REFUSAL)) != 0 &&
                     (peer->base.pending & KIT_PENDING_CONFIRM) == 0)) {
        out_reply(out, peer); /* after a pending CONFIRM, which ends an exchange of ours */
        return out;
    }
    out_introduce(out, peer);
    if ((peer->base.pending & KIT_PENDING_CONFIRM) != 0)
        out->is_alone = true; /* small, because the receiver tries the keys of many offers */
    if (kit_msg_flow_is_due(peer) && !out->is_alone && kit_msg_out_has_room(out, 0))
        kit_msg_flow_add(out, peer);
    if (peer->base.phase != KIT_PEER_HELLO_SENT)
        out_refill(out, peer);
    if ((peer->base.pending & KIT_PENDING_BYE) != 0 && kit_msg_out_has_room(out, 0)) {
        (void) kit_msg_out_add(out, WIRE_BYE, 0);
        out->pending |= KIT_PENDING_BYE;
        peer->base.pending &= ~KIT_PENDING_BYE;
    }
    out->pending |= peer->base.pending & KIT_PENDING_CONFIRM;
    peer->base.pending &= ~KIT_PENDING_CONFIRM;
    return out;
}

/* Adds a HELLO_ACK to an offer, or a refusal, for a peer without a session. Neither is sealed. */
static void out_reply(struct msg_out *out, struct msg_peer *peer)
{
    struct kit_peer *base = &peer->base;

    out->is_alone = true;
    if ((base->pending & KIT_PENDING_OFFER) != 0) {
        const struct kit_offer *offer = kit_offer_answer(
            base, kit_msg_out_add(out, WIRE_HELLO_ACK, kit_hello_size(base->session)));

        out->pending = KIT_PENDING_OFFER;
        out->reply_token = offer->token;
        out->reply_incarnation = (uint32_t) offer->incarnation;
    } else {
        kit_msg_out_add_tagged(out, WIRE_REFUSAL, base->refusal.reason);
        out->pending = KIT_PENDING_REFUSAL;
        out->reply_token = base->refusal.token;
        out->reply_incarnation = base->refusal.incarnation_low;
        base->pending &= ~KIT_PENDING_REFUSAL;
    }
}

/* Adds the HELLO and HELLO_ACK that the frame begins with. */
static void out_introduce(struct msg_out *out, struct msg_peer *peer)
{
    const uint32_t size = kit_hello_size(peer->base.session);

    if (peer->base.phase != KIT_PEER_READY ||
        (peer->base.pending & (KIT_PENDING_HELLO | KIT_PENDING_PING)) != 0) {
        kit_hello_write(&peer->base, false, kit_msg_out_add(out, WIRE_HELLO, size));
        out->pending |= KIT_PENDING_HELLO | (peer->base.pending & KIT_PENDING_PING);
        peer->base.pending &= ~KIT_PENDING_PING;
        peer->base.hello_epoch = peer->base.epoch;
        out->is_alone = peer->base.auth != NULL;
    }
    if ((peer->base.pending & KIT_PENDING_HELLO_ACK) != 0 && kit_msg_out_has_room(out, size)) {
        kit_hello_write(&peer->base, true, kit_msg_out_add(out, WIRE_HELLO_ACK, size));
        out->pending |= KIT_PENDING_HELLO_ACK;
        peer->base.pending &= ~KIT_PENDING_HELLO_ACK;
    }
}

static void out_refill(struct msg_out *out, struct msg_peer *peer)
{
    if (out->is_alone)
        return;
    out->frame.size -= out->tag_size;
    out->tag_size = 0;
    out_fill(out, peer);
}

/* Adds queued sends as long as they fit. */
static void out_fill(struct msg_out *out, struct msg_peer *peer)
{
    while (!kit_list_empty(&peer->queue)) {
        struct msg_op *op = msg_list_first_op(&peer->queue);

        if (kit_unlikely(op->size > peer->endpoint->state->whole)) {
            if (!kit_msg_part_add(out, op))
                break;
            continue;
        }
        if (!kit_msg_out_has_room(out, op->size))
            break;
        kit_list_remove(&op->link);
        kit_peer_waiting_remove(&peer->base);
        (void) kit_msg_out_add_op(out, op);
    }
}

/* True if the fabric accepted the frame. Otherwise the frame is stalled or its sends are queued. */
bool kit_msg_out_send(struct msg_peer *peer, struct msg_out *out)
{
    struct msg_endpoint *state = peer->endpoint->state;
    uint32_t sequence = peer->base.sent_sequence;
    uint32_t phase = peer->base.phase;

    if (kit_likely(peer->base.their_token != 0 &&
                   (out->pending & (KIT_PENDING_OFFER | KIT_PENDING_REFUSAL)) == 0))
        peer->base.sent_sequence = kit_sequence_next(sequence);
    kit_msg_out_end(out);
    if (kit_unlikely(peer->base.is_self)) {
        peer->base.in_flight++;
        state->in_flight++;
        kit_list_append(&state->own_frames, &out->link);
        out_complete_ops(state, out, NA_PLUGIN_SUCCESS);
        out_part_sent(peer);
        return true;
    }
    if (kit_unlikely(phase == KIT_PEER_NEW && (out->pending & KIT_PENDING_HELLO) != 0))
        peer->base.phase = KIT_PEER_HELLO_SENT;
    if (!msg_out_pass(peer, out, sequence, phase))
        return false;
    out_part_sent(peer);
    return true;
}

/* The frame with a part of the first queued message was sent. */
static inline void out_part_sent(struct msg_peer *peer)
{
    if (kit_likely(peer->part == 0))
        return;
    msg_list_first_op(&peer->queue)->sent += peer->part;
    peer->part = 0;
}

/* The fabric did not accept the frame. */
void kit_msg_out_refused(struct msg_peer *peer, struct msg_out *out, int32_t status)
{
    peer->base.in_flight--;
    peer->endpoint->state->in_flight--;
    kit_list_remove(&out->link);
    if (kit_unlikely(out->tag_size != 0))
        kit_msg_out_unseal(out);
    peer->stalled = out;
    peer->base.is_stalled = true;
    if (status != NA_PLUGIN_AGAIN)
        kit_peer_failed(&peer->base, status, "the fabric cannot send to it");
    else if (out->is_compact || (out->pending & (KIT_PENDING_OFFER | KIT_PENDING_REFUSAL)) != 0)
        kit_msg_out_unbuild(peer); /* messages may share the next frame, or replace a reply */
    else
        msg_retry_add(peer);
}

/* Completes and removes the operations of a frame. */
static void out_complete_ops(struct msg_endpoint *state, struct msg_out *out, int32_t status)
{
    while (!kit_list_empty(&out->ops)) {
        struct msg_op *op = msg_list_first_op(&out->ops);

        kit_list_remove(&op->link);
        if (kit_unlikely(op->cancelled != 0))
            state->cancelling--;
        op_end(state, op, status);
    }
}

/* Ends operations of a frame in flight. A single one is only marked as cancelled. */
static bool out_end_ops(struct msg_endpoint *state, struct msg_out *out,
                        const struct msg_op_filter *filter, int32_t status)
{
    struct kit_link *link, *next;
    bool is_found = false;

    for (link = out->ops.next; link != &out->ops; link = next) {
        struct msg_op *op = (struct msg_op *) (void *) link;

        next = link->next;
        if (!msg_op_matches(filter, op))
            continue;
        is_found = true;
        if (filter->op != NULL && op->cancelled != 0)
            continue;
        if (filter->op != NULL) {
            op->cancelled = 1;
            state->cancelling++;
            continue;
        }
        kit_list_remove(link);
        if (op->cancelled != 0)
            state->cancelling--;
        op_end(state, op, status);
    }
    return is_found;
}

/* Completes an operation that is in no list. */
static void op_end(struct msg_endpoint *state, struct msg_op *op, int32_t status)
{
    if (kit_unlikely(op->kind == MSG_OP_CONTROL))
        kit_msg_control_put(state, (struct msg_control *) (void *) op);
    else
        msg_complete(state, op, status);
}

/* Completes cancelled operations that have waited for their frame for a whole tick. */
static void out_end_cancelled(struct msg_endpoint *state, struct msg_out *out)
{
    struct kit_link *link, *next;

    for (link = out->ops.next; link != &out->ops; link = next) {
        struct msg_op *op = (struct msg_op *) (void *) link;

        next = link->next;
        if (op->cancelled == 0 || op->cancelled++ == 1)
            continue;
        kit_list_remove(link);
        state->cancelling--;
        msg_complete(state, op, NA_PLUGIN_CANCELED);
    }
}
