/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of each peer: what could not leave at once waits, not copied, and the next frame takes
 * as many as fit.
 */

#include "state.h"

#include <string.h>

static bool fabric_peer_flush_one(struct fabric_peer_state *peer);
static bool fabric_peer_has_work(const struct fabric_peer_state *peer);
static bool fabric_queue_has_work(const struct fabric_peer_state *peer);
static struct fabric_out *fabric_out_build(struct fabric_peer_state *peer);
static void fabric_out_introduce(struct fabric_out *out, struct fabric_peer_state *peer);
static void fabric_out_fill(struct fabric_out *out, struct fabric_peer_state *peer);
static void fabric_out_complete_ops(struct fabric_endpoint_state *state, struct fabric_out *out,
                                    int32_t status);
static void fabric_op_end(struct fabric_endpoint_state *state, struct fabric_op *op,
                          int32_t status);
static bool fabric_peer_send_cancel(struct fabric_peer_state *peer, const struct fabric_op *op);
static void fabric_peer_send_cancel_all(struct fabric_peer_state *peer,
                                        const struct fabric_context *context);
static void fabric_out_end_cancelled(struct fabric_endpoint_state *state, struct fabric_out *out);

int32_t fabric_control_send(struct fabric_endpoint *endpoint, struct fabric_peer *fabric_peer,
                            uint32_t type, const void *data, uint64_t size)
{
    struct fabric_peer_state *peer = fabric_peer_state(fabric_peer);
    struct fabric_control *control;

    if (size > WIRE_CONTROL_MAX) {
        FABRIC_LOG_ERROR(endpoint, "a control record of %llu bytes; at most %u are possible",
                         (unsigned long long) size, WIRE_CONTROL_MAX);
        return NA_PLUGIN_MSGSIZE;
    }
    control = fabric_control_get(endpoint->state);
    if (control == NULL)
        return NA_PLUGIN_NOMEM;
    if (size != 0)
        memcpy(control->data, data, size);
    control->op.context = NULL;
    control->op.peer = peer;
    control->op.data = control->data;
    control->op.size = size;
    control->op.kind = FABRIC_OP_CONTROL;
    control->op.tag = type;
    control->op.remote_id = 0;
    control->op.epoch = peer->epoch;
    kit_list_append(&peer->queue, &control->op.link);
    fabric_waiting_add(peer);
    fabric_peer_mark(peer);
    return NA_PLUGIN_SUCCESS;
}

void fabric_frame_sent(struct fabric_endpoint *endpoint, struct fabric_frame *frame, int32_t status)
{
    struct fabric_endpoint_state *state = endpoint->state;
    struct fabric_out *out = (struct fabric_out *) (void *) frame;
    struct fabric_peer_state *peer = out->peer;
    bool is_current = out->connection == peer->connection;

    state->in_flight--;
    kit_list_take(&out->link);
    fabric_out_complete_ops(state, out, status);
    fabric_out_put(state, out);
    if (kit_unlikely(!is_current))
        return; /* the peer has failed since */
    peer->in_flight--;
    if (kit_unlikely(status != NA_PLUGIN_SUCCESS))
        fabric_peer_failed(endpoint, &peer->peer, status, "a frame could not be delivered");
    else if (kit_unlikely(peer->pending != 0 || !kit_list_empty(&peer->queue) ||
                          peer->stalled != NULL))
        fabric_peer_mark(peer);
}

/* Sends what can be sent. */
void fabric_peer_flush(struct fabric_peer_state *peer)
{
    while (fabric_peer_flush_one(peer))
        continue;
}

/* Takes a frame that could not be sent yet apart again. */
void fabric_out_unbuild(struct fabric_peer_state *peer)
{
    struct fabric_out *out = peer->stalled;

    if (out == NULL)
        return;
    peer->stalled = NULL;
    while (!kit_list_empty(&out->ops)) {
        struct kit_link *link = out->ops.prev;

        kit_list_remove(link);
        kit_list_prepend(&peer->queue, link);
        fabric_waiting_add(peer);
    }
    if ((peer->pending & FABRIC_FAILED) == 0)
        peer->pending |= out->pending & ~FABRIC_PENDING_HELLO;
    fabric_out_put(peer->endpoint->state, out);
    fabric_retry_add(peer);
}

/*
 * Ends what was posted before the epoch and waits to be sent; with UINT32_MAX everything, what is
 * being sent included.
 */
void fabric_queue_fail(struct fabric_peer_state *peer, uint32_t before_epoch, int32_t status)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct kit_link *link, *next;

    fabric_out_unbuild(peer);
    for (link = peer->queue.next; link != &peer->queue; link = next) {
        struct fabric_op *op = (struct fabric_op *) (void *) link;

        next = link->next;
        if (op->epoch >= before_epoch)
            continue;
        kit_list_remove(link);
        fabric_waiting_remove(peer);
        fabric_op_end(state, op, status);
    }
    if (before_epoch != UINT32_MAX)
        return;
    for (link = peer->frames.next; link != &peer->frames; link = link->next)
        fabric_out_complete_ops(state, kit_container(link, struct fabric_out, link), status);
}

/* True when it was found. What is in a frame already completes with it, or soon. */
bool fabric_queue_cancel(struct fabric_context *context, const struct fabric_op *op)
{
    struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++)
        if (state->slots[i].peer != NULL && fabric_peer_send_cancel(state->slots[i].peer, op))
            return true;
    return false;
}

void fabric_queue_cancel_all(struct fabric_context *context)
{
    struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++)
        if (state->slots[i].peer != NULL)
            fabric_peer_send_cancel_all(state->slots[i].peer, context);
}

/*
 * Cancelled sends whose frame the fabric does not let go of, because the way to the peer is cut:
 * they need not wait, what they sent was copied.
 */
void fabric_queue_end_cancelled(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count && state->cancelling != 0; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->frames.next; link != &peer->frames; link = link->next)
            fabric_out_end_cancelled(state, kit_container(link, struct fabric_out, link));
    }
}

/* True when there may be more to send. */
static bool fabric_peer_flush_one(struct fabric_peer_state *peer)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    struct fabric_out *out;
    int32_t ret;

    if ((peer->stalled == NULL && !fabric_peer_has_work(peer)) ||
        peer->in_flight >= endpoint->ops->max_sends || (peer->pending & FABRIC_FAILED) != 0)
        return false;
    ret = kit_likely(peer->is_open || peer->is_self) ? NA_PLUGIN_SUCCESS : fabric_peer_open(peer);
    if (kit_unlikely(ret != NA_PLUGIN_SUCCESS)) {
        if (ret == NA_PLUGIN_AGAIN)
            fabric_retry_add(peer);
        else
            fabric_peer_failed(endpoint, &peer->peer, ret, "there is no way to it");
        return false;
    }
    out = peer->stalled;
    peer->stalled = NULL;
    if (out == NULL)
        out = fabric_out_build(peer);
    else if (peer->phase != FABRIC_PEER_HELLO_SENT)
        fabric_out_fill(out, peer);
    if (kit_unlikely(out == NULL)) {
        fabric_retry_add(peer);
        return false;
    }
    return fabric_out_send(peer, out);
}

static bool fabric_peer_has_work(const struct fabric_peer_state *peer)
{
    const uint32_t alone = FABRIC_PENDING_HELLO_ACK | FABRIC_PENDING_BYE | FABRIC_PENDING_PING;

    if ((peer->pending & alone) != 0)
        return true;
    switch (peer->phase) {
    case FABRIC_PEER_READY:
        return fabric_queue_has_work(peer);
    case FABRIC_PEER_NEW:
        return !kit_list_empty(&peer->queue) || !kit_list_empty(&peer->rma_queue);
    default:
        return false;
    }
}

/*
 * What is too long to share a frame with a HELLO waits until that is answered: with a token that
 * may be out of date it could be lost.
 */
static bool fabric_queue_has_work(const struct fabric_peer_state *peer)
{
    const struct fabric_endpoint *endpoint = peer->endpoint;

    if (kit_list_empty(&peer->queue))
        return false;
    if (kit_likely((peer->pending & FABRIC_PENDING_HELLO) == 0) || peer->hello_epoch != peer->epoch)
        return true;
    return sizeof(struct wire_header) + wire_record_size(fabric_hello_size(endpoint->state)) +
               wire_record_size(fabric_list_first_op(&peer->queue)->size) <=
           endpoint->ops->max_frame;
}

/* NULL when there is no frame. */
static struct fabric_out *fabric_out_build(struct fabric_peer_state *peer)
{
    struct fabric_out *out = fabric_out_get(peer->endpoint->state);

    if (out == NULL)
        return NULL;
    fabric_out_begin(out, peer);
    if (kit_likely(peer->pending == 0)) {
        fabric_out_fill(out, peer);
        return out;
    }
    fabric_out_introduce(out, peer);
    if (peer->phase != FABRIC_PEER_HELLO_SENT)
        fabric_out_fill(out, peer);
    if ((peer->pending & FABRIC_PENDING_BYE) != 0 && fabric_out_has_room(out, 0)) {
        (void) fabric_out_add(out, WIRE_BYE, 0);
        out->pending |= FABRIC_PENDING_BYE;
        peer->pending &= ~FABRIC_PENDING_BYE;
    }
    return out;
}

/* The HELLO and HELLO_ACK that the frame begins with. */
static void fabric_out_introduce(struct fabric_out *out, struct fabric_peer_state *peer)
{
    const uint32_t size = fabric_hello_size(peer->endpoint->state);

    if (peer->phase != FABRIC_PEER_READY ||
        (peer->pending & (FABRIC_PENDING_HELLO | FABRIC_PENDING_PING)) != 0) {
        fabric_hello_write(peer, WIRE_HELLO, fabric_out_add(out, WIRE_HELLO, size));
        out->pending |= FABRIC_PENDING_HELLO | (peer->pending & FABRIC_PENDING_PING);
        peer->pending &= ~FABRIC_PENDING_PING;
        peer->hello_epoch = peer->epoch;
    }
    if ((peer->pending & FABRIC_PENDING_HELLO_ACK) != 0 && fabric_out_has_room(out, size)) {
        fabric_hello_write(peer, WIRE_HELLO_ACK, fabric_out_add(out, WIRE_HELLO_ACK, size));
        out->pending |= FABRIC_PENDING_HELLO_ACK;
        peer->pending &= ~FABRIC_PENDING_HELLO_ACK;
    }
}

/* As many of those that wait as fit. */
static void fabric_out_fill(struct fabric_out *out, struct fabric_peer_state *peer)
{
    while (!kit_list_empty(&peer->queue)) {
        struct fabric_op *op = fabric_list_first_op(&peer->queue);

        if (!fabric_out_has_room(out, op->size))
            break;
        kit_list_remove(&op->link);
        fabric_waiting_remove(peer);
        (void) fabric_out_add_op(out, op);
    }
}

/* True when the fabric took it. What is in it is accounted for in any case. */
bool fabric_out_send(struct fabric_peer_state *peer, struct fabric_out *out)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    uint32_t sequence = peer->sent_sequence;
    uint32_t phase = peer->phase;

    if (kit_likely(peer->their_token != 0))
        peer->sent_sequence = fabric_sequence_next(sequence);
    fabric_out_end(out);
    if (kit_unlikely(peer->is_self)) {
        peer->in_flight++;
        state->in_flight++;
        kit_list_append(&state->own_frames, &out->link);
        fabric_out_complete_ops(state, out, NA_PLUGIN_SUCCESS);
        return true;
    }
    if (kit_unlikely(phase == FABRIC_PEER_NEW && (out->pending & FABRIC_PENDING_HELLO) != 0))
        peer->phase = FABRIC_PEER_HELLO_SENT;
    return fabric_out_pass(peer, out, sequence, phase);
}

/* The fabric did not take it. */
void fabric_out_refused(struct fabric_peer_state *peer, struct fabric_out *out, int32_t status)
{
    peer->in_flight--;
    peer->endpoint->state->in_flight--;
    kit_list_remove(&out->link);
    peer->stalled = out;
    if (status != NA_PLUGIN_AGAIN)
        fabric_peer_failed(peer->endpoint, &peer->peer, status, "the fabric cannot send to it");
    else if (out->is_compact)
        fabric_out_unbuild(peer); /* next time others may share the frame */
    else
        fabric_retry_add(peer);
}

/* The frame holds no operation afterwards. */
static void fabric_out_complete_ops(struct fabric_endpoint_state *state, struct fabric_out *out,
                                    int32_t status)
{
    while (!kit_list_empty(&out->ops)) {
        struct fabric_op *op = fabric_list_first_op(&out->ops);

        kit_list_remove(&op->link);
        if (kit_unlikely(op->cancelled != 0))
            state->cancelling--;
        fabric_op_end(state, op, status);
    }
}

/* An operation that is in no list any more. */
static void fabric_op_end(struct fabric_endpoint_state *state, struct fabric_op *op, int32_t status)
{
    if (kit_unlikely(op->kind == FABRIC_OP_CONTROL))
        fabric_control_put(state, (struct fabric_control *) (void *) op);
    else
        fabric_complete(state, op, status);
}

static bool fabric_peer_send_cancel(struct fabric_peer_state *peer, const struct fabric_op *op)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;

    if (peer->stalled != NULL && kit_list_contains(&peer->stalled->ops, op))
        fabric_out_unbuild(peer);
    for (struct kit_link *link = peer->queue.next; link != &peer->queue; link = link->next) {
        if ((void *) link != (const void *) op)
            continue;
        kit_list_remove(link);
        fabric_waiting_remove(peer);
        fabric_complete(state, (struct fabric_op *) (void *) link, NA_PLUGIN_CANCELED);
        return true;
    }
    for (struct kit_link *link = peer->frames.next; link != &peer->frames; link = link->next) {
        struct fabric_out *out = kit_container(link, struct fabric_out, link);

        for (struct kit_link *inner = out->ops.next; inner != &out->ops; inner = inner->next) {
            struct fabric_op *found = (struct fabric_op *) (void *) inner;

            if (found != op)
                continue;
            if (found->cancelled == 0) {
                found->cancelled = 1;
                state->cancelling++;
            }
            return true;
        }
    }
    return false;
}

static void fabric_peer_send_cancel_all(struct fabric_peer_state *peer,
                                        const struct fabric_context *context)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct kit_link *link, *next;

    fabric_out_unbuild(peer);
    for (link = peer->queue.next; link != &peer->queue; link = next) {
        struct fabric_op *op = (struct fabric_op *) (void *) link;

        next = link->next;
        if (op->context != context)
            continue;
        kit_list_remove(link);
        fabric_waiting_remove(peer);
        fabric_complete(state, op, NA_PLUGIN_CANCELED);
    }
    for (link = peer->frames.next; link != &peer->frames; link = link->next) {
        struct fabric_out *out = kit_container(link, struct fabric_out, link);
        struct kit_link *inner, *inner_next;

        for (inner = out->ops.next; inner != &out->ops; inner = inner_next) {
            struct fabric_op *op = (struct fabric_op *) (void *) inner;

            inner_next = inner->next;
            if (op->context != context)
                continue;
            kit_list_remove(inner);
            if (op->cancelled != 0)
                state->cancelling--;
            fabric_complete(state, op, NA_PLUGIN_CANCELED);
        }
    }
}

/* A request to cancel has to see one whole tick pass. */
static void fabric_out_end_cancelled(struct fabric_endpoint_state *state, struct fabric_out *out)
{
    struct kit_link *link, *next;

    for (link = out->ops.next; link != &out->ops; link = next) {
        struct fabric_op *op = (struct fabric_op *) (void *) link;

        next = link->next;
        if (op->cancelled == 0 || op->cancelled++ == 1)
            continue;
        kit_list_remove(link);
        state->cancelling--;
        fabric_complete(state, op, NA_PLUGIN_CANCELED);
    }
}
