/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. A message leaves at once in a frame of its own as long as few frames to its peer are in
 * progress; otherwise it waits, not copied, and the next frame takes as many as fit.
 */

#include "state.h"

#include <string.h>

static FABRIC_INLINE int32_t fabric_send(struct na_plugin_context *na_context, uint32_t kind,
                                         void *op_p, const void *buf, uint64_t size,
                                         struct na_plugin_addr *dest, uint32_t dest_id,
                                         uint32_t tag);
static bool fabric_send_at_once(struct fabric_peer_state *peer, struct fabric_op *op);
static FABRIC_INLINE void fabric_out_put_alone(struct fabric_out *out, const struct fabric_op *op);
static int32_t fabric_send_refuse(struct fabric_peer_state *peer, struct fabric_op *op);
static bool fabric_peer_flush_one(struct fabric_peer_state *peer);
static bool fabric_peer_has_work(const struct fabric_peer_state *peer);
static bool fabric_queue_has_work(const struct fabric_peer_state *peer);
static struct fabric_out *fabric_out_build(struct fabric_peer_state *peer);
static void fabric_out_fill(struct fabric_out *out, struct fabric_peer_state *peer);
static bool fabric_out_send(struct fabric_peer_state *peer, struct fabric_out *out);
static FABRIC_INLINE bool fabric_out_pass(struct fabric_peer_state *peer, struct fabric_out *out,
                                          uint32_t sequence, uint32_t phase);
static FABRIC_INLINE void fabric_out_count(struct fabric_peer_state *peer);
static void fabric_out_refused(struct fabric_peer_state *peer, struct fabric_out *out,
                               int32_t status);
static void fabric_out_complete_ops(struct fabric_endpoint_state *state, struct fabric_out *out,
                                    int32_t status);
static void fabric_op_end(struct fabric_endpoint_state *state, struct fabric_op *op,
                          int32_t status);
static bool fabric_peer_send_cancel(struct fabric_peer_state *peer, const struct fabric_op *op);
static void fabric_peer_send_cancel_all(struct fabric_peer_state *peer,
                                        const struct fabric_context *context);
static void fabric_out_end_cancelled(struct fabric_endpoint_state *state, struct fabric_out *out);

int32_t fabric_msg_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                   uint64_t size, void *data, struct na_plugin_addr *dest,
                                   uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return fabric_send(context, FABRIC_OP_UNEXPECTED, op, buf, size, dest, dest_id, tag);
}

int32_t fabric_msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return fabric_send(context, FABRIC_OP_EXPECTED, op, buf, size, dest, dest_id, tag);
}

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
    fabric_peer_flush(peer);
    return NA_PLUGIN_SUCCESS;
}

void fabric_frame_sent(struct fabric_endpoint *endpoint, struct fabric_frame *frame, int32_t status)
{
    struct fabric_endpoint_state *state = endpoint->state;
    struct fabric_out *out = (struct fabric_out *) (void *) frame;
    struct fabric_peer_state *peer = out->peer;
    bool is_current = out->life == peer->life;

    state->activity++;
    state->in_flight--;
    kit_list_take(&out->link);
    fabric_out_complete_ops(state, out, status);
    fabric_out_put(state, out);
    if (kit_unlikely(!is_current))
        return; /* the peer has failed since */
    peer->in_flight--;
    if (kit_unlikely(status != NA_PLUGIN_SUCCESS))
        fabric_peer_failed(endpoint, &peer->peer, status, "a frame could not be delivered");
    else if (kit_unlikely(peer->owed != 0 || !kit_list_empty(&peer->queue) ||
                          peer->stalled != NULL))
        fabric_peer_flush(peer);
}

/* Sends what can be sent. Called again from inside of itself it leaves the work to the outer. */
void fabric_peer_flush(struct fabric_peer_state *peer)
{
    if (peer->is_flushing)
        return;
    peer->is_flushing = true;
    peer->owed &= ~FABRIC_OWE_LOOK;
    while (fabric_peer_flush_one(peer))
        continue;
    peer->is_flushing = false;
    if (kit_unlikely(!kit_list_empty(&peer->rma_queue)))
        fabric_rma_flush(peer);
}

void fabric_retry_add(struct fabric_peer_state *peer)
{
    if (peer->is_in_retry)
        return;
    peer->is_in_retry = true;
    kit_list_append(&peer->endpoint->state->retry, &peer->retry_link);
}

/* Each peer that the fabric had no room for once. */
void fabric_retry_flush(struct fabric_endpoint_state *state)
{
    struct kit_link *last = state->retry.prev;
    bool is_last = kit_list_empty(&state->retry);

    while (!is_last && !kit_list_empty(&state->retry)) {
        struct fabric_peer_state *peer =
            kit_container(state->retry.next, struct fabric_peer_state, retry_link);

        is_last = &peer->retry_link == last;
        kit_list_remove(&peer->retry_link);
        peer->is_in_retry = false;
        fabric_peer_flush(peer);
    }
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
    peer->owed |= out->owed & ~FABRIC_OWE_GREETING;
    fabric_out_put(peer->endpoint->state, out);
    fabric_retry_add(peer);
}

/*
 * Ends what waits to be sent: everything, what is being sent included, or what was posted before
 * the epoch.
 */
void fabric_send_fail(struct fabric_peer_state *peer, uint32_t before_epoch, bool all,
                      int32_t status)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct kit_link *link, *next;

    fabric_out_unbuild(peer);
    for (link = peer->queue.next; link != &peer->queue; link = next) {
        struct fabric_op *op = (struct fabric_op *) (void *) link;

        next = link->next;
        if (!all && op->epoch >= before_epoch)
            continue;
        kit_list_remove(link);
        fabric_waiting_remove(peer);
        fabric_op_end(state, op, status);
    }
    if (!all)
        return;
    for (link = peer->frames.next; link != &peer->frames; link = link->next)
        fabric_out_complete_ops(state, kit_container(link, struct fabric_out, link), status);
}

/* True when it was found. What is in a frame already completes with it, or soon. */
bool fabric_send_cancel(struct fabric_context *context, const struct fabric_op *op)
{
    struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++)
        if (state->slots[i].peer != NULL && fabric_peer_send_cancel(state->slots[i].peer, op))
            return true;
    return false;
}

void fabric_send_cancel_all(struct fabric_context *context)
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
void fabric_send_end_cancelled(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count && state->cancelling != 0; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->frames.next; link != &peer->frames; link = link->next)
            fabric_out_end_cancelled(state, kit_container(link, struct fabric_out, link));
    }
}

static FABRIC_INLINE int32_t fabric_send(struct na_plugin_context *na_context, uint32_t kind,
                                         void *op_p, const void *buf, uint64_t size,
                                         struct na_plugin_addr *dest, uint32_t dest_id,
                                         uint32_t tag)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint_state *state = context->endpoint->state;
    struct fabric_peer_state *peer = fabric_addr_state(dest);
    struct fabric_op *op = op_p;
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->context = context;
    op->peer = peer;
    op->data = buf;
    op->size = size;
    op->kind = kind;
    op->tag = tag;
    op->remote_id = dest_id;
    op->cancelled = 0;
    kit_lock_take(&state->lock);
    if (kit_unlikely(!context->active || dest_id > UINT16_MAX)) {
        ret = context->active ? NA_PLUGIN_INVALID_ARG : NA_PLUGIN_FAULT;
        goto out;
    }
    if (kit_unlikely(size > state->max_unexpected && size > state->max_expected)) {
        ret = NA_PLUGIN_MSGSIZE;
        goto out;
    }
    op->epoch = peer->epoch;
    if (kit_unlikely(!fabric_send_at_once(peer, op))) {
        kit_list_append(&peer->queue, &op->link);
        fabric_waiting_add(peer);
        if (!peer->is_in_retry)
            fabric_peer_flush(peer);
    }
    if (kit_unlikely(state->is_no_retry))
        ret = fabric_send_refuse(peer, op);
    if (kit_unlikely(state->armed_count != 0))
        fabric_wait_kick_any(state);

out:
    kit_lock_drop(&state->lock);
    return ret;
}

/*
 * The message leaves in a frame of its own, if nothing is before it. False: it has to queue. What
 * happens to it otherwise is accounted for.
 */
static bool fabric_send_at_once(struct fabric_peer_state *peer, struct fabric_op *op)
{
    const uint32_t sequence = peer->sent_sequence;
    struct fabric_out *out;

    if (kit_unlikely(peer->owed != 0 || !kit_list_empty(&peer->queue) || peer->stalled != NULL ||
                     peer->in_flight >= peer->endpoint->ops->max_sends))
        return false;
    out = fabric_out_get(peer->endpoint->state);
    if (kit_unlikely(out == NULL))
        return false;
    fabric_out_begin(out, peer);
    if (kit_unlikely(peer->their_token == 0 || peer->is_self ||
                     (op->remote_id | op->context->id) > UINT8_MAX)) {
        (void) fabric_out_add_op(out, op);
        (void) fabric_out_send(peer, out);
        return true;
    }
    peer->sent_sequence = fabric_sequence_next(sequence);
    fabric_out_put_alone(out, op);
    kit_list_start(&out->ops, &op->link);
    (void) fabric_out_pass(peer, out, sequence, peer->phase);
    return true;
}

/*
 * The message is all there is in the frame. Each field goes where it belongs: what is put together
 * elsewhere in small parts and then copied in large ones makes the processor wait.
 */
static FABRIC_INLINE void fabric_out_put_alone(struct fabric_out *out, const struct fabric_op *op)
{
    const struct fabric_peer_state *peer = out->peer;
    struct wire_compact *header = out->frame.data;

    out->frame.size = sizeof(*header) + op->size;
    out->is_compact = true;
    header->magic = WIRE_COMPACT;
    header->kind = (uint8_t) op->kind;
    header->source_id = (uint8_t) op->context->id;
    header->dest_id = (uint8_t) op->remote_id;
    header->tag = htole32(op->tag);
    header->index = htole32((uint32_t) peer->their_token);
    header->check = htole32(wire_compact_check((uint32_t) (peer->their_token >> 32),
                                               peer->their_incarnation_low, out->frame.size));
    header->sequence = htole32(fabric_sequence_sent(peer));
    if (kit_likely(op->size != 0))
        memcpy(header + 1, op->data, op->size);
}

/* Without a queue: what did not leave is given back. `op` is only compared. */
static int32_t fabric_send_refuse(struct fabric_peer_state *peer, struct fabric_op *op)
{
    if (peer->stalled != NULL && kit_list_contains(&peer->stalled->ops, op))
        fabric_out_unbuild(peer);
    if (!kit_list_contains(&peer->queue, op))
        return NA_PLUGIN_SUCCESS;
    kit_list_remove(&op->link);
    fabric_waiting_remove(peer);
    if (peer->phase == FABRIC_PEER_NEW)
        peer->owed |= FABRIC_OWE_PING; /* the way to it is made meanwhile */
    return NA_PLUGIN_AGAIN;
}

/* True when there may be more to send. */
static bool fabric_peer_flush_one(struct fabric_peer_state *peer)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    struct fabric_out *out;
    int32_t ret;

    if ((peer->stalled == NULL && !fabric_peer_has_work(peer)) ||
        peer->in_flight >= endpoint->ops->max_sends)
        return false;
    ret = kit_likely(peer->is_open || peer->is_self) ? NA_PLUGIN_SUCCESS : fabric_peer_open(peer);
    if (kit_unlikely(ret != NA_PLUGIN_SUCCESS)) {
        if (ret == NA_PLUGIN_AGAIN)
            fabric_retry_add(peer);
        else
            fabric_peer_fail(peer, ret, "there is no way to it");
        return false;
    }
    out = peer->stalled;
    peer->stalled = NULL;
    if (out == NULL)
        out = fabric_out_build(peer);
    else if (peer->phase != FABRIC_PEER_GREETING)
        fabric_out_fill(out, peer);
    if (kit_unlikely(out == NULL)) {
        fabric_retry_add(peer);
        return false;
    }
    return fabric_out_send(peer, out);
}

static bool fabric_peer_has_work(const struct fabric_peer_state *peer)
{
    const uint32_t alone = FABRIC_OWE_WELCOME | FABRIC_OWE_GOODBYE | FABRIC_OWE_PING;

    if ((peer->owed & alone) != 0)
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
 * What is too long to share a frame with a greeting waits until that is answered: with a token that
 * may be out of date it could be lost.
 */
static bool fabric_queue_has_work(const struct fabric_peer_state *peer)
{
    const struct fabric_endpoint *endpoint = peer->endpoint;

    if (kit_list_empty(&peer->queue))
        return false;
    if (kit_likely((peer->owed & FABRIC_OWE_GREETING) == 0) || peer->greeted_epoch != peer->epoch)
        return true;
    return sizeof(struct wire_header) + wire_record_size(fabric_greeting_size(endpoint->state)) +
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
    if (kit_likely(peer->owed == 0)) {
        fabric_out_fill(out, peer);
        return out;
    }
    if (peer->phase != FABRIC_PEER_READY ||
        (peer->owed & (FABRIC_OWE_GREETING | FABRIC_OWE_PING)) != 0) {
        fabric_greeting_add(out, peer, WIRE_GREETING);
        out->owed |= FABRIC_OWE_GREETING | (peer->owed & FABRIC_OWE_PING);
        peer->owed &= ~FABRIC_OWE_PING;
        peer->greeted_epoch = peer->epoch;
    }
    if ((peer->owed & FABRIC_OWE_WELCOME) != 0 &&
        fabric_out_has_room(out, fabric_greeting_size(peer->endpoint->state))) {
        fabric_greeting_add(out, peer, WIRE_WELCOME);
        out->owed |= FABRIC_OWE_WELCOME;
        peer->owed &= ~FABRIC_OWE_WELCOME;
    }
    if (peer->phase != FABRIC_PEER_GREETING)
        fabric_out_fill(out, peer);
    if ((peer->owed & FABRIC_OWE_GOODBYE) != 0 && fabric_out_has_room(out, 0)) {
        fabric_out_add(out, WIRE_GOODBYE, 0, NULL, 0);
        out->owed |= FABRIC_OWE_GOODBYE;
        peer->owed &= ~FABRIC_OWE_GOODBYE;
    }
    return out;
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
static bool fabric_out_send(struct fabric_peer_state *peer, struct fabric_out *out)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    uint32_t sequence = peer->sent_sequence;
    uint32_t phase = peer->phase;

    if (kit_likely(peer->their_token != 0))
        peer->sent_sequence = fabric_sequence_next(sequence);
    fabric_out_end(out);
    if (kit_unlikely(peer->is_self)) {
        fabric_out_count(peer);
        kit_list_append(&state->own_frames, &out->link);
        fabric_out_complete_ops(state, out, NA_PLUGIN_SUCCESS);
        return true;
    }
    if (kit_unlikely(phase == FABRIC_PEER_NEW && (out->owed & FABRIC_OWE_GREETING) != 0))
        peer->phase = FABRIC_PEER_GREETING;
    return fabric_out_pass(peer, out, sequence, phase);
}

/* To the fabric. False: it did not take it, and the peer is what it was before the frame. */
static FABRIC_INLINE bool fabric_out_pass(struct fabric_peer_state *peer, struct fabric_out *out,
                                          uint32_t sequence, uint32_t phase)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    int32_t ret;

    fabric_out_count(peer);
    kit_list_append(&peer->frames, &out->link);
    ret = endpoint->ops->send(endpoint, &out->frame);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS)) {
        endpoint->state->counters.frames_sent++;
        return true;
    }
    peer->sent_sequence = sequence;
    peer->phase = phase;
    fabric_out_refused(peer, out, ret);
    return false;
}

static FABRIC_INLINE void fabric_out_count(struct fabric_peer_state *peer)
{
    if (kit_unlikely(!peer->is_watched))
        fabric_watch_add(peer);
    peer->in_flight++;
    peer->endpoint->state->in_flight++;
}

/* The fabric did not take it. */
static void fabric_out_refused(struct fabric_peer_state *peer, struct fabric_out *out,
                               int32_t status)
{
    peer->in_flight--;
    peer->endpoint->state->in_flight--;
    kit_list_remove(&out->link);
    peer->stalled = out;
    if (status != NA_PLUGIN_AGAIN)
        fabric_peer_fail(peer, status, "the fabric cannot send to it");
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
