/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets: in order for each peer, retried when the fabric has no room, ended early if so
 * asked. */

#include "state.h"

static bool fabric_rma_start_next(struct fabric_peer_state *peer);
static void fabric_request_end(struct fabric_request *request, int32_t status);
static void fabric_request_put(struct fabric_request *request);
static void fabric_request_abandon(struct fabric_request *request, int32_t status);
static struct fabric_request *fabric_rma_find(const struct kit_link *list,
                                              const struct fabric_op *op);
static void fabric_rma_cancel_list(struct fabric_context *context, struct kit_link *list,
                                   bool is_started);

void fabric_rma_done(struct fabric_endpoint *endpoint, struct fabric_rma *rma, int32_t status)
{
    struct fabric_request *request = (struct fabric_request *) (void *) rma;

    request->status = status;
    kit_list_take(&request->link);
    kit_list_append(&endpoint->state->rma_done, &request->link);
    endpoint->state->is_marked = true;
}

/* Starts what waits, in order. */
void fabric_rma_flush(struct fabric_peer_state *peer)
{
    while (!kit_list_empty(&peer->rma_queue) && peer->phase == FABRIC_PEER_READY &&
           (peer->pending & FABRIC_FAILED) == 0 && fabric_rma_start_next(peer))
        continue;
}

/* Those that are to be abandoned, and those that the fabric has let go of. */
void fabric_rma_drain(struct fabric_endpoint_state *state)
{
    struct fabric_endpoint *endpoint = state->endpoint;
    struct fabric_request *request;

    while (!kit_list_empty(&state->rma_abandon)) {
        int32_t status;

        request = kit_container(state->rma_abandon.next, struct fabric_request, link);
        status = request->status;
        kit_list_take(&request->link);
        kit_list_append(&request->peer->rma_started, &request->link);
        if (endpoint->ops->rma_abandon != NULL &&
            endpoint->ops->rma_abandon(endpoint, &request->rma, status))
            fabric_request_end(request, status);
    }
    while (!kit_list_empty(&state->rma_done)) {
        request = kit_container(state->rma_done.next, struct fabric_request, link);
        fabric_request_end(request, request->status);
        fabric_request_put(request);
    }
}

bool fabric_rma_cancel(struct fabric_context *context, const struct fabric_op *op)
{
    struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;
        struct fabric_request *request;

        if (peer == NULL)
            continue;
        request = fabric_rma_find(&peer->rma_queue, op);
        if (request != NULL) {
            fabric_request_end(request, NA_PLUGIN_CANCELED);
            fabric_request_put(request);
            return true;
        }
        request = fabric_rma_find(&peer->rma_started, op);
        if (request != NULL) {
            fabric_request_abandon(request, NA_PLUGIN_CANCELED);
            return true;
        }
    }
    return false;
}

/* Those that the fabric holds on to stay: poll until it lets go of them. */
void fabric_rma_cancel_all(struct fabric_context *context)
{
    struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL)
            continue;
        fabric_rma_cancel_list(context, &peer->rma_queue, false);
        fabric_rma_cancel_list(context, &peer->rma_started, true);
    }
}

/* The last resort of a context that closes. */
void fabric_rma_forget(struct fabric_context *context)
{
    struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->rma_started.next; link != &peer->rma_started;
             link = link->next) {
            struct fabric_request *request = kit_container(link, struct fabric_request, link);

            if (request->op != NULL && request->op->context == context)
                fabric_request_end(request, NA_PLUGIN_CANCELED);
        }
    }
}

bool fabric_rma_is_idle(const struct fabric_context *context)
{
    const struct fabric_endpoint_state *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++) {
        const struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->rma_started.next; link != &peer->rma_started;
             link = link->next) {
            struct fabric_request *request = kit_container(link, struct fabric_request, link);

            if (request->op != NULL && request->op->context == context)
                return false;
        }
    }
    return true;
}

/* Ends those that were posted before the epoch. */
void fabric_rma_fail(struct fabric_peer_state *peer, uint32_t before_epoch, int32_t status)
{
    struct kit_link *link, *next;

    for (link = peer->rma_queue.next; link != &peer->rma_queue; link = next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        next = link->next;
        if (request->op->epoch >= before_epoch)
            continue;
        fabric_request_end(request, status);
        fabric_request_put(request);
    }
    for (link = peer->rma_started.next; link != &peer->rma_started; link = next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        next = link->next;
        if (request->op != NULL && request->op->epoch < before_epoch)
            fabric_request_abandon(request, status);
    }
}

void fabric_rma_free_all(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        while (peer != NULL && !kit_list_empty(&peer->rma_started))
            fabric_request_put(kit_container(peer->rma_started.next, struct fabric_request, link));
        while (peer != NULL && !kit_list_empty(&peer->rma_queue))
            fabric_request_put(kit_container(peer->rma_queue.next, struct fabric_request, link));
    }
    while (!kit_list_empty(&state->free_requests)) {
        struct kit_link *link = state->free_requests.next;

        kit_list_remove(link);
        kit_host->mem_free(kit_container(link, struct fabric_request, link));
    }
}

/* The plugin's part lies behind ours. */
struct fabric_request *fabric_request_get(struct fabric_endpoint_state *state)
{
    struct fabric_request *request;

    if (kit_likely(!kit_list_empty(&state->free_requests))) {
        request = kit_container(state->free_requests.next, struct fabric_request, link);
        kit_list_remove(&request->link);
        return request;
    }
    request = kit_host->mem_alloc(FABRIC_REQUEST_SIZE + state->endpoint->ops->rma_size, 64);
    if (request == NULL)
        return NULL;
    kit_list_init(&request->link);
    request->rma.priv = (uint8_t *) request + FABRIC_REQUEST_SIZE;
    return request;
}

/* False when there is no room for it. What was started belongs to the fabric. */
static bool fabric_rma_start_next(struct fabric_peer_state *peer)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    struct fabric_request *request =
        kit_container(peer->rma_queue.next, struct fabric_request, link);
    int32_t ret = fabric_peer_open(peer);

    kit_list_take(&request->link);
    kit_list_append(&peer->rma_started, &request->link);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        ret = endpoint->ops->rma_start(endpoint, &request->rma);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return true;
    if (ret == NA_PLUGIN_AGAIN) {
        kit_list_take(&request->link);
        kit_list_prepend(&peer->rma_queue, &request->link);
        fabric_retry_add(peer);
        return false;
    }
    fabric_request_end(request, ret);
    fabric_request_put(request);
    return true;
}

/* Completes the operation, if that has not been done. */
static void fabric_request_end(struct fabric_request *request, int32_t status)
{
    struct fabric_op *op = request->op;

    if (op == NULL)
        return;
    request->op = NULL;
    fabric_waiting_remove(request->peer);
    fabric_complete(request->peer->endpoint->state, op, status);
}

static void fabric_request_put(struct fabric_request *request)
{
    kit_list_remove(&request->link);
    kit_list_prepend(&request->peer->endpoint->state->free_requests, &request->link);
}

/* The fabric is asked by the next fabric_rma_drain(); the request stays until it lets go of it. */
static void fabric_request_abandon(struct fabric_request *request, int32_t status)
{
    struct fabric_endpoint_state *state = request->peer->endpoint->state;

    request->status = status;
    kit_list_take(&request->link);
    kit_list_append(&state->rma_abandon, &request->link);
    state->is_marked = true;
}

/* Without a queue: true when it did not start and is given back. `op` is only compared. */
bool fabric_rma_refuse(struct fabric_peer_state *peer, const struct fabric_op *op)
{
    struct fabric_request *request = fabric_rma_find(&peer->rma_queue, op);

    if (request == NULL)
        return false;
    request->op = NULL;
    fabric_waiting_remove(peer);
    fabric_request_put(request);
    return true;
}

static struct fabric_request *fabric_rma_find(const struct kit_link *list,
                                              const struct fabric_op *op)
{
    for (struct kit_link *link = list->next; link != list; link = link->next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        if (request->op == op)
            return request;
    }
    return NULL;
}

static void fabric_rma_cancel_list(struct fabric_context *context, struct kit_link *list,
                                   bool is_started)
{
    struct kit_link *link, *next;

    for (link = list->next; link != list; link = next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        next = link->next;
        if (request->op == NULL || request->op->context != context)
            continue;
        if (is_started) {
            fabric_request_abandon(request, NA_PLUGIN_CANCELED);
            continue;
        }
        fabric_request_end(request, NA_PLUGIN_CANCELED);
        fabric_request_put(request);
    }
}
