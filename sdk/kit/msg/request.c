/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets: in order for each peer, retried when the fabric has no room, ended early if so
 * asked. */

#include "msg_state.h"

static bool rma_start_next(struct msg_peer *peer);
static void request_end(struct msg_request *request, int32_t status);
static void request_put(struct msg_request *request);
static void request_abandon(struct msg_request *request, int32_t status);
static struct msg_request *rma_find(const struct kit_link *list, const struct msg_op *op);
static void rma_cancel_list(struct msg_context *context, struct kit_link *list, bool is_started);

void kit_msg_rma_done(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    struct msg_request *request = (struct msg_request *) (void *) rma;

    request->status = status;
    kit_list_take(&request->link);
    kit_list_append(&endpoint->state->rma_done, &request->link);
    endpoint->state->session.is_marked = true;
}

/* Starts what waits, in order. */
void kit_msg_rma_flush(struct msg_peer *peer)
{
    while (!kit_list_empty(&peer->rma_queue) && peer->base.phase == KIT_PEER_READY &&
           (peer->base.pending & KIT_PENDING_FAILURE) == 0 && rma_start_next(peer))
        continue;
}

/* Those that are to be abandoned, and those that the fabric has let go of. */
void kit_msg_rma_drain(struct msg_endpoint *state)
{
    struct kit_endpoint *endpoint = state->endpoint;
    struct msg_request *request;

    while (!kit_list_empty(&state->rma_abandon)) {
        int32_t status;

        request = kit_container(state->rma_abandon.next, struct msg_request, link);
        status = request->status;
        kit_list_take(&request->link);
        kit_list_append(&request->peer->rma_started, &request->link);
        if (endpoint->ops->rma_abandon != NULL &&
            endpoint->ops->rma_abandon(endpoint, &request->rma, status))
            request_end(request, status);
    }
    while (!kit_list_empty(&state->rma_done)) {
        request = kit_container(state->rma_done.next, struct msg_request, link);
        request_end(request, request->status);
        request_put(request);
    }
}

bool kit_msg_rma_cancel(struct msg_context *context, const struct msg_op *op)
{
    struct msg_endpoint *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);
        struct msg_request *request;

        if (peer == NULL)
            continue;
        request = rma_find(&peer->rma_queue, op);
        if (request != NULL) {
            request_end(request, NA_PLUGIN_CANCELED);
            request_put(request);
            return true;
        }
        request = rma_find(&peer->rma_started, op);
        if (request != NULL) {
            request_abandon(request, NA_PLUGIN_CANCELED);
            return true;
        }
    }
    return false;
}

/* Those that the fabric holds on to stay: poll until it lets go of them. */
void kit_msg_rma_cancel_all(struct msg_context *context)
{
    struct msg_endpoint *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        rma_cancel_list(context, &peer->rma_queue, false);
        rma_cancel_list(context, &peer->rma_started, true);
    }
}

/* The last resort of a context that closes. */
void kit_msg_rma_forget(struct msg_context *context)
{
    struct msg_endpoint *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->rma_started.next; link != &peer->rma_started;
             link = link->next) {
            struct msg_request *request = kit_container(link, struct msg_request, link);

            if (request->op != NULL && request->op->context == context)
                request_end(request, NA_PLUGIN_CANCELED);
        }
    }
}

bool kit_msg_rma_is_idle(const struct msg_context *context)
{
    const struct msg_endpoint *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        const struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->rma_started.next; link != &peer->rma_started;
             link = link->next) {
            struct msg_request *request = kit_container(link, struct msg_request, link);

            if (request->op != NULL && request->op->context == context)
                return false;
        }
    }
    return true;
}

/* Ends those that were posted before the epoch. */
void kit_msg_rma_fail(struct msg_peer *peer, uint32_t before_epoch, int32_t status)
{
    struct kit_link *link, *next;

    for (link = peer->rma_queue.next; link != &peer->rma_queue; link = next) {
        struct msg_request *request = kit_container(link, struct msg_request, link);

        next = link->next;
        if (request->op->epoch >= before_epoch)
            continue;
        request_end(request, status);
        request_put(request);
    }
    for (link = peer->rma_started.next; link != &peer->rma_started; link = next) {
        struct msg_request *request = kit_container(link, struct msg_request, link);

        next = link->next;
        if (request->op != NULL && request->op->epoch < before_epoch)
            request_abandon(request, status);
    }
}

void kit_msg_rma_free_all(struct msg_endpoint *state)
{
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        while (peer != NULL && !kit_list_empty(&peer->rma_started))
            request_put(kit_container(peer->rma_started.next, struct msg_request, link));
        while (peer != NULL && !kit_list_empty(&peer->rma_queue))
            request_put(kit_container(peer->rma_queue.next, struct msg_request, link));
    }
    while (!kit_list_empty(&state->free_requests)) {
        struct kit_link *link = state->free_requests.next;

        kit_list_remove(link);
        kit_host->mem_free(kit_container(link, struct msg_request, link));
    }
}

/* The plugin's part lies behind ours. */
struct msg_request *kit_msg_request_get(struct msg_endpoint *state)
{
    struct msg_request *request;

    if (kit_likely(!kit_list_empty(&state->free_requests))) {
        request = kit_container(state->free_requests.next, struct msg_request, link);
        kit_list_remove(&request->link);
        return request;
    }
    request = kit_host->mem_alloc(MSG_REQUEST_SIZE + state->endpoint->ops->rma_size, 64);
    if (request == NULL)
        return NULL;
    kit_list_init(&request->link);
    request->rma.priv = (uint8_t *) request + MSG_REQUEST_SIZE;
    return request;
}

/* False when there is no room for it. What was started belongs to the fabric. */
static bool rma_start_next(struct msg_peer *peer)
{
    struct kit_endpoint *endpoint = peer->endpoint;
    struct msg_request *request = kit_container(peer->rma_queue.next, struct msg_request, link);
    int32_t ret = msg_peer_open(peer);

    kit_list_take(&request->link);
    kit_list_append(&peer->rma_started, &request->link);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        ret = endpoint->ops->rma_start(endpoint, &request->rma);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return true;
    if (ret == NA_PLUGIN_AGAIN) {
        kit_list_take(&request->link);
        kit_list_prepend(&peer->rma_queue, &request->link);
        msg_retry_add(peer);
        return false;
    }
    request_end(request, ret);
    request_put(request);
    return true;
}

/* Completes the operation, if that has not been done. */
static void request_end(struct msg_request *request, int32_t status)
{
    struct msg_op *op = request->op;

    if (op == NULL)
        return;
    request->op = NULL;
    kit_peer_waiting_remove(&request->peer->base);
    msg_complete(request->peer->endpoint->state, op, status);
}

static void request_put(struct msg_request *request)
{
    kit_list_remove(&request->link);
    kit_list_prepend(&request->peer->endpoint->state->free_requests, &request->link);
}

/* The fabric is asked by the next kit_msg_rma_drain(); the request stays until it lets go of it. */
static void request_abandon(struct msg_request *request, int32_t status)
{
    struct msg_endpoint *state = request->peer->endpoint->state;

    request->status = status;
    kit_list_take(&request->link);
    kit_list_append(&state->rma_abandon, &request->link);
    state->session.is_marked = true;
}

/* Without a queue: true when it did not start and is given back. `op` is only compared. */
bool kit_msg_rma_refuse(struct msg_peer *peer, const struct msg_op *op)
{
    struct msg_request *request = rma_find(&peer->rma_queue, op);

    if (request == NULL)
        return false;
    request->op = NULL;
    kit_peer_waiting_remove(&peer->base);
    request_put(request);
    return true;
}

static struct msg_request *rma_find(const struct kit_link *list, const struct msg_op *op)
{
    for (struct kit_link *link = list->next; link != list; link = link->next) {
        struct msg_request *request = kit_container(link, struct msg_request, link);

        if (request->op == op)
            return request;
    }
    return NULL;
}

static void rma_cancel_list(struct msg_context *context, struct kit_link *list, bool is_started)
{
    struct kit_link *link, *next;

    for (link = list->next; link != list; link = next) {
        struct msg_request *request = kit_container(link, struct msg_request, link);

        next = link->next;
        if (request->op == NULL || request->op->context != context)
            continue;
        if (is_started) {
            request_abandon(request, NA_PLUGIN_CANCELED);
            continue;
        }
        request_end(request, NA_PLUGIN_CANCELED);
        request_put(request);
    }
}
