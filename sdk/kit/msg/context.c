/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: each has queues of its own; progress of any context drives the whole endpoint. */

#include "msg_state.h"

#define MSG_DETACHED_NS UINT64_C(20000000) /* time for detached requests to complete */
#define MSG_BYE_NS      UINT64_C(50000000)

static bool requests_wait(struct msg_endpoint *state);
static void endpoint_quiesce(struct msg_endpoint *state);
static void byes_send(struct msg_endpoint *state);

int32_t kit_msg_context_create(struct na_plugin_class *na_class,
                               struct na_host_context *host_context, uint32_t id,
                               struct na_plugin_context **context_p)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    struct msg_endpoint *state = endpoint->state;
    struct msg_context *context;
    int32_t ret = NA_PLUGIN_INVALID_ARG;

    (void) host_context;
    kit_msg_lock(endpoint);
    if (id >= state->max_contexts) {
        MSG_LOG_ERROR(endpoint, "there is no context %u: the class was opened for max_contexts %u",
                      id, state->max_contexts);
        goto out;
    }
    context = &state->contexts[id];
    if (context->active) {
        MSG_LOG_ERROR(endpoint, "context %u exists already; take another id", id);
        ret = NA_PLUGIN_EXIST;
        goto out;
    }
    ret = kit_msg_wait_setup_context(context);
    if (ret != NA_PLUGIN_SUCCESS)
        goto out;
    for (uint32_t i = 0; state->open_contexts == 0 && i < state->max_contexts; i++)
        state->contexts[i].stopped = false;
    context->active = true;
    context->stopped = false;
    state->open_contexts++;
    *context_p = (struct na_plugin_context *) (void *) context;

out:
    kit_msg_unlock(endpoint);
    return ret;
}

/*
 * A frame in flight goes on without its operations. So does a put or get that the fabric cannot end
 * early, until a poll of another context completes it, its memory is deregistered, or the last
 * context is destroyed.
 */
int32_t kit_msg_context_stop(struct na_plugin_context *na_context)
{
    struct msg_context *context = msg_context(na_context);
    const struct msg_op_filter all = {.context = context, .before_epoch = UINT32_MAX};
    struct kit_endpoint *endpoint = context->endpoint;

    kit_msg_lock(endpoint);
    context->active = false;
    context->stopped = true;
    kit_msg_recv_cancel_all(context);
    kit_msg_cancel_matching(endpoint->state, &all);
    kit_msg_dispatch(endpoint);
    kit_msg_rma_detach(context);
    kit_msg_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

/* Destroying the last context sends a BYE to each peer, because nothing is received any more. */
int32_t kit_msg_context_destroy(struct na_plugin_context *na_context)
{
    struct msg_context *context = msg_context(na_context);
    struct kit_endpoint *endpoint = context->endpoint;
    struct msg_endpoint *state = endpoint->state;

    kit_msg_lock(endpoint);
    kit_msg_wait_disarm(context);
    kit_match_drop(&context->match);
    if (state->deferred_count != 0)
        kit_msg_deferred_resume(state);
    kit_msg_wait_teardown_context(context);
    if (state->open_contexts != 0 && --state->open_contexts == 0)
        endpoint_quiesce(state);
    kit_msg_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

bool kit_msg_rma_leave(struct kit_endpoint *endpoint, const struct na_plugin_mem *mem,
                       uint64_t timeout_ns)
{
    struct msg_endpoint *state = endpoint->state;
    uint64_t end;

    if (kit_likely(state->detached_count == 0))
        return true;
    end = kit_host->clock_ns() + timeout_ns;
    while (kit_msg_rma_uses(state, mem)) {
        if (kit_host->clock_ns() >= end || kit_msg_progress(state->endpoint) != NA_PLUGIN_SUCCESS)
            return false;
    }
    return true;
}

/* Waits for the detached requests. Returns false if the fabric still uses one. */
static bool requests_wait(struct msg_endpoint *state)
{
    uint64_t end = state->detached_count != 0 ? kit_host->clock_ns() + MSG_DETACHED_NS : 0;

    while (state->detached_count != 0 && kit_host->clock_ns() < end)
        if (kit_msg_progress(state->endpoint) != NA_PLUGIN_SUCCESS)
            break;
    return state->detached_count == 0;
}

/*
 * No context receives any more: deferred messages are dropped, and the fabric gets its memory back.
 * If detached requests do not complete, all connections are aborted.
 */
static void endpoint_quiesce(struct msg_endpoint *state)
{
    struct kit_endpoint *endpoint = state->endpoint;
    const bool is_stuck = !requests_wait(state);
    uint64_t end = kit_host->clock_ns() + MSG_BYE_NS;

    for (uint32_t i = 0; i < state->max_contexts; i++) {
        state->contexts[i].stopped = true;
        kit_match_drop(&state->contexts[i].match);
    }
    kit_msg_deferred_resume(state);
    byes_send(state);
    kit_msg_dispatch(endpoint);
    while (state->in_flight != 0 && kit_host->clock_ns() < end)
        if (kit_msg_progress(state->endpoint) != NA_PLUGIN_SUCCESS)
            break;
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer != NULL && !peer->base.is_self && peer->base.phase != KIT_PEER_NEW)
            kit_msg_peer_leave(peer);
    }
    kit_msg_dispatch(endpoint);
    if (is_stuck && endpoint->ops->reset != NULL && endpoint->ops->reset(endpoint)) {
        MSG_LOG_INFO(endpoint, "puts or gets of stopped contexts did not end: they were cut off");
        kit_msg_dispatch(endpoint);
        (void) requests_wait(state);
    }
}

/* A BYE that cannot be sent within MSG_BYE_NS is dropped: the peer notices by itself then. */
static void byes_send(struct msg_endpoint *state)
{
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL || peer->base.is_self || peer->base.phase == KIT_PEER_NEW)
            continue;
        peer->base.pending |= KIT_PENDING_BYE;
        kit_peer_mark(&peer->base);
    }
}
