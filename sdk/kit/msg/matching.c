/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching of receives and messages. Deferred messages have a budget for the whole endpoint; beyond
 * it whole frames are deferred, which blocks their senders.
 */

#include "msg_state.h"

#include <string.h>

/* Selects receives that end because their peer failed. */
struct matching_failure {
    const struct msg_peer *peer;
    uint32_t before_epoch;
};

static bool matching_deliver_multi(struct msg_peer *peer, struct msg_context *context,
                                   struct kit_recv *recv, uint32_t tag, const void *data,
                                   uint32_t size);
static bool matching_defer(struct msg_peer *peer, struct msg_context *context, uint32_t tag,
                           const void *data, uint32_t size);
static void matching_end(struct msg_context *context, struct kit_link *taken, int32_t status);
static bool matching_has_failed(struct kit_recv *recv, void *failure);
static bool matching_is_of(struct kit_recv *recv, void *peer);
static void matching_source_release(struct na_plugin_addr *source);

void kit_msg_matching_setup(struct msg_context *context)
{
    kit_match_open(&context->match, &context->endpoint->state->deferrals,
                   context->endpoint->state->max_unexpected, matching_source_release);
}

/* Returns false if there is neither a receive nor room to defer the message. */
bool kit_msg_unexpected_deliver(struct msg_peer *peer, struct msg_context *context, uint32_t tag,
                                const void *data, uint32_t size)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct kit_recv *recv;

    if (kit_unlikely(kit_match_is_pending(&context->match)))
        kit_msg_matching_dispatch(context);
    recv = kit_match_unexpected(&context->match);
    if (kit_unlikely(recv == NULL))
        return matching_defer(peer, context, tag, data, size);
    if (recv->kind == KIT_RECV_MULTI)
        return matching_deliver_multi(peer, context, recv, tag, data, size);
    kit_match_remove(&context->match, recv);
    if (kit_unlikely(size > recv->size)) {
        msg_complete_recv(state, (struct msg_op *) recv, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        return true;
    }
    if (kit_likely(size != 0))
        memcpy(recv->buf, data, size);
    kit_peer_hold(&peer->base);
    msg_complete_recv(state, (struct msg_op *) recv, NA_PLUGIN_SUCCESS, size, &peer->base, tag);
    return true;
}

void kit_msg_expected_deliver(struct msg_peer *peer, struct msg_context *context,
                              uint32_t source_id, uint32_t tag, const void *data, uint32_t size)
{
    struct kit_recv *recv = kit_match_expected(&context->match, peer->source, source_id, tag);
    struct msg_op *op = (struct msg_op *) recv;

    if (kit_unlikely(recv == NULL)) {
        MSG_LOG_DEBUG(peer->endpoint,
                      "dropped an expected message with tag %u from %s: no receive is posted", tag,
                      peer->base.name);
        return;
    }
    kit_peer_waiting_remove(&op->peer->base);
    if (kit_unlikely(size > recv->size)) {
        msg_complete_recv(peer->endpoint->state, op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        return;
    }
    if (kit_likely(size != 0))
        memcpy(recv->buf, data, size);
    msg_complete_recv(peer->endpoint->state, op, NA_PLUGIN_SUCCESS, size, NULL, tag);
}

/* Returns false if `op` is not a posted receive. */
bool kit_msg_recv_cancel(struct msg_context *context, void *op, bool is_trusted)
{
    struct kit_recv *recv = is_trusted ? kit_match_find_trusted(&context->match, op)
                                       : kit_match_find(&context->match, op);
    struct kit_link taken;

    if (recv == NULL)
        return false;
    kit_match_remove(&context->match, recv);
    kit_list_start(&taken, &recv->link);
    matching_end(context, &taken, NA_PLUGIN_CANCELED);
    return true;
}

void kit_msg_recv_cancel_all(struct msg_context *context)
{
    struct kit_link taken;

    kit_list_init(&taken);
    kit_match_take_if(&context->match, NULL, NULL, &taken);
    matching_end(context, &taken, NA_PLUGIN_CANCELED);
}

/* Ends the receives from a peer that were posted before the epoch. */
void kit_msg_recv_fail(struct msg_peer *peer, uint32_t before_epoch, int32_t status)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct matching_failure failure = {peer, before_epoch};
    struct kit_link taken;

    kit_list_init(&taken);
    for (uint32_t id = 0; peer->base.waiting != 0 && id < state->max_contexts; id++) {
        kit_match_take_if(&state->contexts[id].match, matching_has_failed, &failure, &taken);
        matching_end(&state->contexts[id], &taken, status);
    }
}

/* The canonical peer changed: posted receives from the peer are matched under that one. */
void kit_msg_recv_rematch(struct msg_peer *peer)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct kit_link moved;

    kit_msg_flow_follow(peer, peer->base.canonical);
    kit_list_init(&moved);
    for (uint32_t id = 0; id < state->max_contexts; id++) {
        struct kit_match *match = &state->contexts[id].match;

        kit_match_take_if(match, matching_is_of, peer, &moved);
        while (!kit_list_empty(&moved)) {
            struct kit_recv *recv = (struct kit_recv *) (void *) moved.next;

            kit_list_remove(&recv->link);
            (void) kit_match_post_expected(match, recv, peer->source, recv->source_id, recv->tag);
        }
    }
}

/* Retries deferred messages for which the core had no memory. */
void kit_msg_unexpected_again(struct msg_endpoint *state)
{
    state->is_refused = false;
    for (uint32_t i = 0; i < state->max_contexts; i++)
        kit_msg_matching_dispatch(&state->contexts[i]);
}

/* A message above max_unexpected is dropped: a multi-receive may have no room for it. */
static bool matching_deliver_multi(struct msg_peer *peer, struct msg_context *context,
                                   struct kit_recv *recv, uint32_t tag, const void *data,
                                   uint32_t size)
{
    struct msg_endpoint *state = peer->endpoint->state;

    if (kit_unlikely(size > state->max_unexpected)) {
        context->match.dropped++;
        MSG_LOG_WARNING(context->endpoint, "dropped a message of %u bytes from %s: at most %llu",
                        size, peer->base.name, (unsigned long long) state->max_unexpected);
        return true;
    }
    if (kit_likely(size != 0))
        memcpy(kit_match_place(recv), data, size);
    kit_peer_hold(&peer->base);
    if (kit_unlikely(kit_match_complete_multi(&context->match, recv, msg_peer_addr(&peer->base),
                                              tag, size) != NA_PLUGIN_SUCCESS)) {
        kit_peer_release(&peer->base);
        state->is_refused = true;
        return matching_defer(peer, context, tag, data, size);
    }
    state->completed++;
    if (kit_unlikely(context->armed))
        kit_msg_wait_wake(context);
    return true;
}

static bool matching_defer(struct msg_peer *peer, struct msg_context *context, uint32_t tag,
                           const void *data, uint32_t size)
{
    void *place = kit_match_defer(&context->match, msg_peer_addr(&peer->base), tag, size);

    kit_msg_flow_deferred(peer);
    if (place == NULL)
        return false;
    kit_peer_hold(&peer->base);
    if (size != 0)
        memcpy(place, data, size);
    return true;
}

void kit_msg_matching_dispatch(struct msg_context *context)
{
    struct msg_endpoint *state = context->endpoint->state;
    uint32_t count = kit_match_dispatch(&context->match);

    state->completed += count;
    state->is_refused |= kit_match_is_pending(&context->match);
    if (count != 0 && context->armed)
        kit_msg_wait_wake(context);
    kit_msg_flow_taken(state);
}

static void matching_end(struct msg_context *context, struct kit_link *taken, int32_t status)
{
    while (!kit_list_empty(taken)) {
        struct msg_op *op = msg_list_first_op(taken);

        kit_list_remove(&op->link);
        if (op->peer != NULL)
            kit_peer_waiting_remove(&op->peer->base);
        msg_complete(context->endpoint->state, op, status);
    }
}

static bool matching_has_failed(struct kit_recv *recv, void *failure_p)
{
    const struct msg_op *op = (struct msg_op *) recv;
    const struct matching_failure *failure = failure_p;

    return op->peer == failure->peer && op->epoch < failure->before_epoch;
}

static bool matching_is_of(struct kit_recv *recv, void *peer)
{
    return ((struct msg_op *) recv)->peer == peer;
}

static void matching_source_release(struct na_plugin_addr *source)
{
    kit_peer_release(&msg_peer_of(source)->base);
}
