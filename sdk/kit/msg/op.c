/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that the core starts and cancels. A message is sent at once in a frame of its own
 * while fewer than max_sends frames to its peer are in flight, and queues otherwise.
 */

#include "msg_state.h"

#include <string.h>

static int32_t rma_submit(struct na_plugin_context *na_context, void *op_p, uint32_t is_put,
                          struct na_plugin_mem *local, uint64_t local_offset,
                          struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                          struct na_plugin_addr *addr, uint32_t remote_id);
static MSG_INLINE int32_t send_message(struct na_plugin_context *na_context, uint32_t kind,
                                       void *op_p, const void *buf, uint64_t size,
                                       struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag);
static bool send_at_once(struct msg_peer *peer, struct msg_op *op);
static MSG_INLINE void out_put_alone(struct msg_out *out, const struct msg_op *op);
static int32_t send_refuse(struct msg_peer *peer, struct msg_op *op);
static int32_t recv_post(struct msg_context *context, struct msg_op *op, enum kit_recv_kind kind,
                         void *buf, uint64_t size);
static int32_t recv_post_multi(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data);
static int32_t cancel_op(struct na_plugin_context *na_context, void *op, bool is_trusted);

const struct na_plugin_multi_recv kit_msg_multi_recv_extension = {
    .extension = {.size = sizeof(struct na_plugin_multi_recv)},
    .msg_multi_recv_unexpected = recv_post_multi,
};

int32_t kit_msg_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                uint64_t size, void *data, struct na_plugin_addr *dest,
                                uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return send_message(context, MSG_OP_UNEXPECTED, op, buf, size, dest, dest_id, tag);
}

int32_t kit_msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *dest,
                              uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return send_message(context, MSG_OP_EXPECTED, op, buf, size, dest, dest_id, tag);
}

int32_t kit_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                uint64_t size, void *data)
{
    (void) data;
    return recv_post(msg_context(context), op, KIT_RECV_UNEXPECTED, buf, size);
}

int32_t kit_msg_recv_expected(struct na_plugin_context *na_context, void *op_p, void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *source,
                              uint32_t source_id, uint32_t tag)
{
    struct msg_context *context = msg_context(na_context);
    struct msg_peer *peer = msg_peer_of(source);
    struct msg_op *op = op_p;
    int32_t ret = NA_PLUGIN_FAULT;

    (void) data;
    op->context = context;
    op->peer = peer;
    op->recv.buf = buf;
    op->recv.size = size;
    op->kind = MSG_OP_RECV;
    kit_lock_take(&context->endpoint->state->lock);
    op->epoch = peer->base.epoch;
    if (kit_likely(context->active))
        ret = kit_match_post_expected(&context->match, &op->recv, peer->source, source_id, tag);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        kit_peer_waiting_add(&peer->base);
    kit_lock_drop(&context->endpoint->state->lock);
    return ret;
}

int32_t kit_msg_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                    uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                    uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return rma_submit(context, op, 1, local, local_offset, remote, remote_offset, length, addr,
                      remote_id);
}

int32_t kit_msg_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                    uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                    uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return rma_submit(context, op, 0, local, local_offset, remote, remote_offset, length, addr,
                      remote_id);
}

int32_t kit_msg_cancel(struct na_plugin_context *na_context, void *op)
{
    return cancel_op(na_context, op, false);
}

/* Receives are found without a search; sends and transfers, which seldom wait, are searched for. */
int32_t kit_msg_cancel_trusted(struct na_plugin_context *na_context, void *op)
{
    return cancel_op(na_context, op, true);
}

uint32_t kit_msg_op_size(void)
{
    return sizeof(struct msg_op);
}

uint32_t kit_msg_op_align(void)
{
    return _Alignof(struct msg_op);
}

static int32_t rma_submit(struct na_plugin_context *na_context, void *op_p, uint32_t is_put,
                          struct na_plugin_mem *local, uint64_t local_offset,
                          struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                          struct na_plugin_addr *addr, uint32_t remote_id)
{
    struct msg_context *context = msg_context(na_context);
    struct msg_endpoint *state = context->endpoint->state;
    struct msg_peer *peer = msg_peer_of(addr);
    struct msg_op *op = op_p;
    struct msg_request *request;
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->context = context;
    op->peer = peer;
    op->kind = MSG_OP_RMA;
    kit_msg_lock(context->endpoint);
    if (!context->active) {
        ret = NA_PLUGIN_FAULT;
        goto out;
    }
    request = kit_msg_request_get(state);
    if (request == NULL) {
        ret = NA_PLUGIN_NOMEM;
        goto out;
    }
    op->epoch = peer->base.epoch;
    request->rma.peer = &peer->base;
    request->rma.local = local;
    request->rma.remote = remote;
    request->rma.local_offset = local_offset;
    request->rma.remote_offset = remote_offset;
    request->rma.length = length;
    request->rma.remote_id = remote_id;
    request->rma.is_put = is_put;
    request->rma.transfer = NULL;
    request->op = op;
    request->peer = peer;
    kit_list_append(&peer->rma_queue, &request->link);
    kit_peer_waiting_add(&peer->base);
    if (kit_unlikely(!kit_list_empty(&peer->retry_link)))
        ; /* the next poll starts it, in order */
    else if (kit_likely(peer->base.phase == KIT_PEER_READY))
        kit_msg_rma_flush(peer);
    else
        kit_msg_peer_flush(peer);
    if (kit_unlikely(state->session.is_marked))
        kit_msg_dispatch(context->endpoint);
    if (kit_unlikely(state->is_no_retry) && kit_msg_rma_refuse(peer, op))
        ret = NA_PLUGIN_AGAIN;
    if (kit_unlikely(state->armed_count != 0))
        kit_msg_wait_wake_any(state);

out:
    kit_msg_unlock(context->endpoint);
    return ret;
}

static MSG_INLINE int32_t send_message(struct na_plugin_context *na_context, uint32_t kind,
                                       void *op_p, const void *buf, uint64_t size,
                                       struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag)
{
    struct msg_context *context = msg_context(na_context);
    struct msg_endpoint *state = context->endpoint->state;
    struct msg_peer *peer = msg_peer_of(dest);
    struct msg_op *op = op_p;
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
    if (kit_unlikely(size > state->parts.longest)) {
        ret = NA_PLUGIN_MSGSIZE;
        goto out;
    }
    op->epoch = peer->base.epoch;
    if (kind == MSG_OP_UNEXPECTED && kit_unlikely(peer->is_paused)) {
        op->sent = 0;
        kit_list_append(&peer->paused, &op->link);
        kit_peer_waiting_add(&peer->base);
    } else if (kit_unlikely(size > state->whole || !send_at_once(peer, op))) {
        op->sent = 0;
        kit_list_append(&peer->queue, &op->link);
        kit_peer_waiting_add(&peer->base);
        if (kit_list_empty(&peer->retry_link))
            kit_msg_peer_flush(peer);
    }
    if (kit_unlikely(state->session.is_marked))
        kit_msg_dispatch(context->endpoint);
    if (kit_unlikely(state->is_no_retry))
        ret = send_refuse(peer, op);
    if (kit_unlikely(state->armed_count != 0))
        kit_msg_wait_wake_any(state);

out:
    kit_lock_drop(&state->lock);
    return ret;
}

/*
 * Sends the message in a frame of its own, unless other sends wait. False: the caller queues it.
 * True also if the fabric refused the frame, which is stalled or queued then.
 */
static bool send_at_once(struct msg_peer *peer, struct msg_op *op)
{
    const uint32_t sequence = peer->base.sent_sequence;
    struct msg_out *out;

    if (kit_unlikely(peer->base.pending != 0 || !kit_list_empty(&peer->queue) ||
                     peer->stalled != NULL ||
                     peer->base.in_flight >= peer->endpoint->ops->max_sends))
        return false;
    out = msg_out_get(peer->endpoint->state);
    if (kit_unlikely(out == NULL))
        return false;
    msg_out_begin(out, peer);
    if (kit_unlikely(peer->base.their_token == 0 || peer->base.is_self ||
                     (op->remote_id | op->context->id) > UINT8_MAX)) {
        (void) kit_msg_out_add_op(out, op);
        (void) kit_msg_out_send(peer, out);
        return true;
    }
    peer->base.sent_sequence = kit_sequence_next(sequence);
    out_put_alone(out, op);
    kit_list_start(&out->ops, &op->link);
    (void) msg_out_pass(peer, out, sequence, peer->base.phase);
    return true;
}

/*
 * Writes a compact frame. The header's fields are written in place: building the header elsewhere
 * and copying it by wider loads would defeat store forwarding.
 */
static MSG_INLINE void out_put_alone(struct msg_out *out, const struct msg_op *op)
{
    const struct msg_peer *peer = out->peer;
    struct wire_compact *header = out->frame.data;

    out->frame.size = sizeof(*header) + op->size;
    if (kit_unlikely(peer->base.auth != NULL))
        out->frame.size += out->tag_size = KIT_AUTH_TAG;
    out->is_compact = true;
    header->magic = WIRE_COMPACT;
    header->kind = (uint8_t) op->kind;
    header->source_id = (uint8_t) op->context->id;
    header->dest_id = (uint8_t) op->remote_id;
    header->tag = htole32(op->tag);
    header->index = htole32((uint32_t) peer->base.their_token);
    header->check = htole32(wire_compact_check((uint32_t) (peer->base.their_token >> 32),
                                               peer->base.their_incarnation_low, out->frame.size));
    header->sequence = htole32(kit_peer_sequence_sent(&peer->base));
    if (kit_likely(op->size != 0))
        memcpy(header + 1, op->data, op->size);
    if (kit_unlikely(out->tag_size != 0))
        kit_msg_out_seal(out);
}

/*
 * For NA_PLUGIN_PROGRESS_NO_RETRY: removes a send that is still queued and returns NA_PLUGIN_AGAIN.
 * `op` is only compared, unless it is found. A message of which a part was sent stays queued.
 */
static int32_t send_refuse(struct msg_peer *peer, struct msg_op *op)
{
    if (peer->part != 0 || (peer->stalled != NULL && kit_list_contains(&peer->stalled->ops, op)))
        kit_msg_out_unbuild(peer);
    if ((!kit_list_contains(&peer->queue, op) || op->sent != 0) &&
        !kit_list_contains(&peer->paused, op))
        return NA_PLUGIN_SUCCESS;
    kit_list_remove(&op->link);
    kit_peer_waiting_remove(&peer->base);
    if (peer->base.phase == KIT_PEER_NEW)
        peer->base.pending |= KIT_PENDING_PING; /* so that the connection is opened meanwhile */
    return NA_PLUGIN_AGAIN;
}

static int32_t recv_post(struct msg_context *context, struct msg_op *op, enum kit_recv_kind kind,
                         void *buf, uint64_t size)
{
    struct msg_endpoint *state = context->endpoint->state;
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->context = context;
    op->peer = NULL;
    op->recv.buf = buf;
    op->recv.size = size;
    op->kind = MSG_OP_RECV;
    kit_lock_take(&state->lock);
    if (kit_unlikely(!context->active)) {
        ret = NA_PLUGIN_FAULT;
        goto out;
    }
    kit_match_post(&context->match, &op->recv, kind);
    if (kit_unlikely(kit_match_is_pending(&context->match)))
        kit_msg_matching_dispatch(context);
    if (kit_unlikely(state->deferred_count != 0)) {
        kit_msg_deferred_resume(state);
        if (state->session.is_marked)
            kit_msg_dispatch(context->endpoint);
        if (state->armed_count != 0)
            kit_msg_wait_wake_any(state); /* a poll can receive again: deferred frames were freed */
    }

out:
    kit_lock_drop(&state->lock);
    return ret;
}

static int32_t recv_post_multi(struct na_plugin_context *na_context, void *op, void *buf,
                               uint64_t size, void *data)
{
    struct msg_context *context = msg_context(na_context);
    uint64_t needed = context->endpoint->state->max_unexpected;

    (void) data;
    if (size < needed) {
        MSG_LOG_ERROR(context->endpoint,
                      "a multi-receive of %llu bytes, which must take a message of %llu",
                      (unsigned long long) size, (unsigned long long) needed);
        return NA_PLUGIN_INVALID_ARG;
    }
    return recv_post(context, op, KIT_RECV_MULTI, buf, size);
}

/* An operation that is not found has just completed. */
static int32_t cancel_op(struct na_plugin_context *na_context, void *op, bool is_trusted)
{
    struct msg_context *context = msg_context(na_context);
    struct msg_endpoint *state = context->endpoint->state;
    const struct msg_op_filter filter = {.op = op, .before_epoch = UINT32_MAX};

    kit_lock_take(&state->lock);
    if (!kit_msg_recv_cancel(context, op, is_trusted))
        kit_msg_cancel_matching(state, &filter);
    if (state->session.is_marked)
        kit_msg_dispatch(context->endpoint);
    if (state->armed_count != 0)
        kit_msg_wait_wake_any(state);
    kit_lock_drop(&state->lock);
    return NA_PLUGIN_SUCCESS;
}
