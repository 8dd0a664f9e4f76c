/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: queues of their own over one endpoint, which any of them drives. */

#include "msg_state.h"

#define MSG_STOP_NS  UINT64_C(1000000000) /* for what the fabric does not let go of */
#define MSG_RESET_NS UINT64_C(20000000)   /* the same, when no other context is active */
#define MSG_BYE_NS   UINT64_C(50000000)

static void context_drain(struct msg_context *context);
static bool context_await(struct msg_context *context, uint64_t ns);
static void endpoint_leave(struct msg_endpoint *state);
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
        MSG_LOG_ERROR(endpoint, "context %u of %u", id, state->max_contexts);
        goto out;
    }
    context = &state->contexts[id];
    if (context->active) {
        MSG_LOG_ERROR(endpoint, "context %u exists already", id);
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

int32_t kit_msg_context_stop(struct na_plugin_context *na_context)
{
    struct msg_context *context = msg_context(na_context);
    const struct msg_which all = {.context = context, .before_epoch = UINT32_MAX};
    struct kit_endpoint *endpoint = context->endpoint;

    kit_msg_lock(endpoint);
    context->active = false;
    context->stopped = true;
    kit_msg_recv_cancel_all(context);
    kit_msg_cancel_which(endpoint->state, &all);
    context_drain(context);
    kit_msg_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

/* With the last context a BYE goes to each peer: nothing can be received any more. */
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
        endpoint_leave(state);
    kit_msg_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

/*
 * Puts and gets that the fabric cannot end early: their memory may be touched until it is done with
 * them, however slow their peer is. The last context leaves, and takes all connections along.
 */
static void context_drain(struct msg_context *context)
{
    struct kit_endpoint *endpoint = context->endpoint;
    bool is_last = !kit_endpoint_is_active(endpoint) && endpoint->ops->reset != NULL;

    if (context_await(context, is_last ? MSG_RESET_NS : MSG_STOP_NS))
        return;
    if (is_last) {
        endpoint_leave(endpoint->state);
        if (endpoint->ops->reset(endpoint))
            MSG_LOG_INFO(endpoint, "transfers of context %u did not end: they were cut off",
                         context->id);
        if (context_await(context, MSG_STOP_NS))
            return;
    }
    MSG_LOG_ERROR(endpoint, "the fabric does not end a transfer of context %u: it is abandoned",
                  context->id);
    kit_msg_rma_forget(context);
}

/* False when the time is over. */
static bool context_await(struct msg_context *context, uint64_t ns)
{
    struct kit_endpoint *endpoint = context->endpoint;
    uint64_t end;

    kit_msg_dispatch(endpoint);
    if (context->requests == 0)
        return true;
    end = kit_host->clock_ns() + ns;
    while (context->requests != 0 && kit_host->clock_ns() < end)
        if (kit_msg_progress(endpoint->state) != NA_PLUGIN_SUCCESS)
            break;
    return context->requests == 0;
}

/* No context receives any more: what is kept is dropped, and the fabric gets its memory back. */
static void endpoint_leave(struct msg_endpoint *state)
{
    struct kit_endpoint *endpoint = state->endpoint;
    uint64_t end = kit_host->clock_ns() + MSG_BYE_NS;

    for (uint32_t i = 0; i < state->max_contexts; i++) {
        state->contexts[i].stopped = true;
        kit_match_drop(&state->contexts[i].match);
    }
    kit_msg_deferred_resume(state);
    byes_send(state);
    kit_msg_dispatch(endpoint);
    while (state->in_flight != 0 && kit_host->clock_ns() < end)
        if (kit_msg_progress(state) != NA_PLUGIN_SUCCESS)
            break;
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer != NULL && !peer->base.is_self && peer->base.phase != KIT_PEER_NEW)
            kit_msg_peer_leave(peer);
    }
    kit_msg_dispatch(endpoint);
}

/* Peers need not find out by themselves then. What cannot leave at once is not sent. */
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
