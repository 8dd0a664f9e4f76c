/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the core starts and cancels. A message leaves at once in a frame of its own as long as few
 * frames to its peer are in progress, and queues otherwise.
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
static int32_t fabric_recv_post(struct fabric_context *context, struct fabric_op *op,
                                enum kit_recv_kind kind, void *buf, uint64_t size);
static int32_t fabric_recv_post_multi(struct na_plugin_context *context, void *op, void *buf,
                                      uint64_t size, void *data);
static int32_t fabric_cancel_op(struct na_plugin_context *na_context, void *op, bool is_trusted);

const struct na_plugin_multi_recv fabric_multi_recv_extension = {
    .extension = {.size = sizeof(struct na_plugin_multi_recv)},
    .msg_multi_recv_unexpected = fabric_recv_post_multi,
};

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

int32_t fabric_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *data)
{
    (void) data;
    return fabric_recv_post(fabric_context(context), op, KIT_RECV_UNEXPECTED, buf, size);
}

int32_t fabric_msg_recv_expected(struct na_plugin_context *na_context, void *op_p, void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *source,
                                 uint32_t source_id, uint32_t tag)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_peer_state *peer = fabric_addr_state(source);
    struct fabric_op *op = op_p;
    int32_t ret = NA_PLUGIN_FAULT;

    (void) data;
    op->context = context;
    op->peer = peer;
    op->recv.buf = buf;
    op->recv.size = size;
    op->kind = FABRIC_OP_RECV;
    kit_lock_take(&context->endpoint->state->lock);
    op->epoch = peer->epoch;
    if (kit_likely(context->active))
        ret = kit_match_post_expected(&context->match, &op->recv, peer->source, source_id, tag);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        fabric_waiting_add(peer);
    kit_lock_drop(&context->endpoint->state->lock);
    return ret;
}

int32_t fabric_rma_submit(struct na_plugin_context *na_context, void *op_p, uint32_t is_put,
                          struct na_plugin_mem *local, uint64_t local_offset,
                          struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                          struct na_plugin_addr *addr, uint32_t remote_id)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint_state *state = context->endpoint->state;
    struct fabric_peer_state *peer = fabric_addr_state(addr);
    struct fabric_op *op = op_p;
    struct fabric_request *request;
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->context = context;
    op->peer = peer;
    op->kind = FABRIC_OP_RMA;
    fabric_lock(context->endpoint);
    if (!context->active) {
        ret = NA_PLUGIN_FAULT;
        goto out;
    }
    request = fabric_request_get(state);
    if (request == NULL) {
        ret = NA_PLUGIN_NOMEM;
        goto out;
    }
    op->epoch = peer->epoch;
    request->rma.peer = &peer->peer;
    request->rma.local = local;
    request->rma.remote = remote;
    request->rma.local_offset = local_offset;
    request->rma.remote_offset = remote_offset;
    request->rma.length = length;
    request->rma.remote_id = remote_id;
    request->rma.is_put = is_put;
    request->op = op;
    request->peer = peer;
    kit_list_append(&peer->rma_queue, &request->link);
    fabric_waiting_add(peer);
    if (kit_unlikely(!kit_list_empty(&peer->retry_link)))
        ; /* the next poll tries, in order */
    else if (kit_likely(peer->phase == FABRIC_PEER_READY))
        fabric_rma_flush(peer);
    else
        fabric_peer_flush(peer);
    if (kit_unlikely(state->is_marked))
        fabric_dispatch(context->endpoint);
    if (kit_unlikely(state->is_no_retry) && fabric_rma_refuse(peer, op))
        ret = NA_PLUGIN_AGAIN;
    if (kit_unlikely(state->armed_count != 0))
        fabric_wait_kick_any(state);

out:
    fabric_unlock(context->endpoint);
    return ret;
}

int32_t fabric_cancel(struct na_plugin_context *na_context, void *op)
{
    return fabric_cancel_op(na_context, op, false);
}

/* Receives are found without a search; sends and transfers, which wait seldom, are looked for. */
int32_t fabric_cancel_trusted(struct na_plugin_context *na_context, void *op)
{
    return fabric_cancel_op(na_context, op, true);
}

uint32_t fabric_op_size(void)
{
    return sizeof(struct fabric_op);
}

uint32_t fabric_op_align(void)
{
    return _Alignof(struct fabric_op);
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
        if (kit_list_empty(&peer->retry_link))
            fabric_peer_flush(peer);
    }
    if (kit_unlikely(state->is_marked))
        fabric_dispatch(context->endpoint);
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

    if (kit_unlikely(peer->pending != 0 || !kit_list_empty(&peer->queue) || peer->stalled != NULL ||
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
        peer->pending |= FABRIC_PENDING_PING; /* the way to it is made meanwhile */
    return NA_PLUGIN_AGAIN;
}

static int32_t fabric_recv_post(struct fabric_context *context, struct fabric_op *op,
                                enum kit_recv_kind kind, void *buf, uint64_t size)
{
    struct fabric_endpoint_state *state = context->endpoint->state;
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->context = context;
    op->peer = NULL;
    op->recv.buf = buf;
    op->recv.size = size;
    op->kind = FABRIC_OP_RECV;
    kit_lock_take(&state->lock);
    if (kit_unlikely(!context->active)) {
        ret = NA_PLUGIN_FAULT;
        goto out;
    }
    kit_match_post(&context->match, &op->recv, kind);
    if (kit_unlikely(kit_match_is_pending(&context->match)))
        fabric_matching_dispatch(context);
    if (kit_unlikely(state->deferred_count != 0)) {
        fabric_deferred_resume(state);
        if (state->is_marked)
            fabric_dispatch(context->endpoint);
        if (state->armed_count != 0)
            fabric_wait_kick_any(state); /* the fabric has memory to receive into again */
    }

out:
    kit_lock_drop(&state->lock);
    return ret;
}

static int32_t fabric_recv_post_multi(struct na_plugin_context *na_context, void *op, void *buf,
                                      uint64_t size, void *data)
{
    struct fabric_context *context = fabric_context(na_context);
    uint64_t needed = context->endpoint->state->max_unexpected;

    (void) data;
    if (size < needed) {
        FABRIC_LOG_ERROR(context->endpoint,
                         "a multi-receive of %llu bytes, which must take a message of %llu",
                         (unsigned long long) size, (unsigned long long) needed);
        return NA_PLUGIN_INVALID_ARG;
    }
    return fabric_recv_post(context, op, KIT_RECV_MULTI, buf, size);
}

/* If nothing holds it, it has just completed. */
static int32_t fabric_cancel_op(struct na_plugin_context *na_context, void *op, bool is_trusted)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint_state *state = context->endpoint->state;

    kit_lock_take(&state->lock);
    if (!fabric_recv_cancel(context, op, is_trusted) && !fabric_rma_cancel(context, op))
        (void) fabric_queue_cancel(context, op);
    if (state->is_marked)
        fabric_dispatch(context->endpoint);
    if (state->armed_count != 0)
        fabric_wait_kick_any(state);
    kit_lock_drop(&state->lock);
    return NA_PLUGIN_SUCCESS;
}
