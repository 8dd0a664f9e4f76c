/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: queues of their own over one endpoint, which any of them drives. */

#include "state.h"

#define FABRIC_STOP_NS  UINT64_C(1000000000) /* for what the fabric does not let go of */
#define FABRIC_RESET_NS UINT64_C(20000000)   /* the same, if nobody else uses the fabric */
#define FABRIC_BYE_NS   UINT64_C(50000000)

static void fabric_context_drain(struct fabric_context *context);
static bool fabric_context_await(struct fabric_context *context, uint64_t ns);
static void fabric_endpoint_leave(struct fabric_endpoint_state *state);
static void fabric_byes_send(struct fabric_endpoint_state *state);

int32_t fabric_context_create(struct na_plugin_class *na_class,
                              struct na_host_context *host_context, uint32_t id,
                              struct na_plugin_context **context_p)
{
    struct fabric_endpoint *endpoint = fabric_class(na_class);
    struct fabric_endpoint_state *state = endpoint->state;
    struct fabric_context *context;
    int32_t ret = NA_PLUGIN_INVALID_ARG;

    (void) host_context;
    fabric_lock(endpoint);
    if (id >= state->max_contexts) {
        FABRIC_LOG_ERROR(endpoint, "context %u of %u", id, state->max_contexts);
        goto out;
    }
    context = &state->contexts[id];
    if (context->active) {
        FABRIC_LOG_ERROR(endpoint, "context %u exists already", id);
        ret = NA_PLUGIN_EXIST;
        goto out;
    }
    ret = fabric_wait_setup_context(context);
    if (ret != NA_PLUGIN_SUCCESS)
        goto out;
    for (uint32_t i = 0; state->open_contexts == 0 && i < state->max_contexts; i++)
        state->contexts[i].stopped = false;
    context->active = true;
    context->stopped = false;
    state->open_contexts++;
    *context_p = (struct na_plugin_context *) (void *) context;

out:
    fabric_unlock(endpoint);
    return ret;
}

int32_t fabric_context_stop(struct na_plugin_context *na_context)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint *endpoint = context->endpoint;

    fabric_lock(endpoint);
    context->active = false;
    context->stopped = true;
    fabric_recv_cancel_all(context);
    fabric_queue_cancel_all(context);
    fabric_rma_cancel_all(context);
    fabric_context_drain(context);
    fabric_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

/* With the last context a BYE goes to each peer: nothing can be received any more. */
int32_t fabric_context_destroy(struct na_plugin_context *na_context)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_endpoint *endpoint = context->endpoint;
    struct fabric_endpoint_state *state = endpoint->state;

    fabric_lock(endpoint);
    fabric_wait_disarm(context);
    kit_match_drop(&context->match);
    if (state->deferred_count != 0)
        fabric_deferred_resume(state);
    fabric_wait_teardown_context(context);
    if (state->open_contexts != 0 && --state->open_contexts == 0)
        fabric_endpoint_leave(state);
    fabric_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

/*
 * Puts and gets that the fabric cannot end early: their memory may be touched until it is done with
 * them, however slow their peer is. The last context leaves, and takes all connections along.
 */
static void fabric_context_drain(struct fabric_context *context)
{
    struct fabric_endpoint *endpoint = context->endpoint;
    bool is_last = !fabric_endpoint_is_active(endpoint) && endpoint->ops->reset != NULL;

    if (fabric_context_await(context, is_last ? FABRIC_RESET_NS : FABRIC_STOP_NS))
        return;
    if (is_last) {
        fabric_endpoint_leave(endpoint->state);
        if (endpoint->ops->reset(endpoint))
            FABRIC_LOG_INFO(endpoint, "transfers of context %u did not end: they were cut off",
                            context->id);
        if (fabric_context_await(context, FABRIC_STOP_NS))
            return;
    }
    FABRIC_LOG_ERROR(endpoint, "the fabric does not end a transfer of context %u: it is abandoned",
                     context->id);
    fabric_rma_forget(context);
}

/* False when the time is over. */
static bool fabric_context_await(struct fabric_context *context, uint64_t ns)
{
    struct fabric_endpoint *endpoint = context->endpoint;
    uint64_t end;

    fabric_dispatch(endpoint);
    if (fabric_rma_is_idle(context))
        return true;
    end = kit_host->clock_ns() + ns;
    while (!fabric_rma_is_idle(context) && kit_host->clock_ns() < end)
        if (fabric_progress(endpoint->state) != NA_PLUGIN_SUCCESS)
            break;
    return fabric_rma_is_idle(context);
}

/* Nobody receives any more: what is kept is dropped, and the fabric gets its memory back. */
static void fabric_endpoint_leave(struct fabric_endpoint_state *state)
{
    struct fabric_endpoint *endpoint = state->endpoint;
    uint64_t end = kit_host->clock_ns() + FABRIC_BYE_NS;

    for (uint32_t i = 0; i < state->max_contexts; i++) {
        state->contexts[i].stopped = true;
        kit_match_drop(&state->contexts[i].match);
    }
    fabric_deferred_resume(state);
    fabric_byes_send(state);
    fabric_dispatch(endpoint);
    while (state->in_flight != 0 && kit_host->clock_ns() < end)
        if (fabric_progress(state) != NA_PLUGIN_SUCCESS)
            break;
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer != NULL && !peer->is_self && peer->phase != FABRIC_PEER_NEW)
            fabric_peer_leave(peer);
    }
    fabric_dispatch(endpoint);
}

/* Peers need not find out by themselves then. What cannot leave at once is not sent. */
static void fabric_byes_send(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL || peer->is_self || peer->phase == FABRIC_PEER_NEW)
            continue;
        peer->pending |= FABRIC_PENDING_BYE;
        fabric_peer_mark(peer);
    }
}
