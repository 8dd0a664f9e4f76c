/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets: in order for each peer, retried when the fabric has no room, ended early if so
 * asked. */

#include "state.h"

static struct fabric_request *fabric_request_get(struct fabric_endpoint_state *state);
static bool fabric_rma_start_next(struct fabric_peer_state *peer);
static void fabric_request_end(struct fabric_request *request, int32_t status);
static void fabric_request_put(struct fabric_request *request);
static bool fabric_request_abandon(struct fabric_request *request, int32_t status);
static bool fabric_rma_refuse(struct fabric_peer_state *peer, const struct fabric_op *op);
static struct fabric_request *fabric_rma_find(const struct kit_link *list,
                                              const struct fabric_op *op);
static void fabric_rma_cancel_list(struct fabric_context *context, struct kit_link *list);

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
    request->is_started = request->is_in_call = request->is_done = false;
    kit_list_append(&peer->rma_queue, &request->link);
    fabric_waiting_add(peer);
    if (kit_likely(!peer->is_in_retry && peer->phase == FABRIC_PEER_READY))
        fabric_rma_flush(peer);
    else if (!peer->is_in_retry) /* else the next poll tries, in order */
        fabric_peer_flush(peer);
    if (kit_unlikely(state->is_no_retry) && fabric_rma_refuse(peer, op))
        ret = NA_PLUGIN_AGAIN;
    if (kit_unlikely(state->armed_count != 0))
        fabric_wait_kick_any(state);

out:
    fabric_unlock(context->endpoint);
    return ret;
}

void fabric_rma_done(struct fabric_endpoint *endpoint, struct fabric_rma *rma, int32_t status)
{
    struct fabric_request *request = (struct fabric_request *) (void *) rma;

    endpoint->state->activity++;
    if (request->is_in_call) {
        request->is_done = true;
        request->status = status;
        return;
    }
    fabric_request_end(request, status);
    fabric_request_put(request);
}

/* Starts what waits, in order. */
void fabric_rma_flush(struct fabric_peer_state *peer)
{
    if (peer->is_rma_flushing)
        return;
    peer->is_rma_flushing = true;
    while (!kit_list_empty(&peer->rma_queue) && peer->phase == FABRIC_PEER_READY &&
           fabric_rma_start_next(peer))
        continue;
    peer->is_rma_flushing = false;
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
            (void) fabric_request_abandon(request, NA_PLUGIN_CANCELED);
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
        fabric_rma_cancel_list(context, &peer->rma_queue);
        fabric_rma_cancel_list(context, &peer->rma_started);
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

/* Ends those to a peer that failed, or those that were posted before the epoch. */
void fabric_rma_fail(struct fabric_peer_state *peer, uint32_t before_epoch, bool all,
                     int32_t status)
{
    struct kit_link *link, *next;

    for (link = peer->rma_queue.next; link != &peer->rma_queue; link = next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        next = link->next;
        if (!all && request->op->epoch >= before_epoch)
            continue;
        fabric_request_end(request, status);
        fabric_request_put(request);
    }
    for (link = peer->rma_started.next; link != &peer->rma_started; link = next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        next = link->next;
        if (request->op != NULL && (all || request->op->epoch < before_epoch))
            (void) fabric_request_abandon(request, status);
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
        state->endpoint->host->mem_free(kit_container(link, struct fabric_request, link));
    }
}

/* The plugin's part lies behind ours. */
static struct fabric_request *fabric_request_get(struct fabric_endpoint_state *state)
{
    struct fabric_request *request;

    if (kit_likely(!kit_list_empty(&state->free_requests))) {
        request = kit_container(state->free_requests.next, struct fabric_request, link);
        kit_list_remove(&request->link);
        return request;
    }
    request =
        state->endpoint->host->mem_alloc(FABRIC_REQUEST_SIZE + state->endpoint->ops->rma_size, 64);
    if (request == NULL)
        return NULL;
    kit_list_init(&request->link);
    request->rma.priv = (uint8_t *) request + FABRIC_REQUEST_SIZE;
    return request;
}

/* True when the fabric took it. */
static bool fabric_rma_start_next(struct fabric_peer_state *peer)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    struct fabric_request *request =
        kit_container(peer->rma_queue.next, struct fabric_request, link);
    int32_t ret = fabric_peer_open(peer);

    kit_list_remove(&request->link);
    kit_list_append(&peer->rma_started, &request->link);
    request->is_in_call = true;
    request->is_done = false;
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        ret = endpoint->ops->rma_start(endpoint, &request->rma);
    request->is_in_call = false;
    if (kit_unlikely(ret == NA_PLUGIN_AGAIN)) {
        kit_list_remove(&request->link);
        kit_list_prepend(&peer->rma_queue, &request->link);
        fabric_retry_add(peer);
        return false;
    }
    request->is_started = ret == NA_PLUGIN_SUCCESS;
    if (ret == NA_PLUGIN_SUCCESS && !request->is_done)
        return true;
    fabric_request_end(request, ret == NA_PLUGIN_SUCCESS ? request->status : ret);
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

/* True when the operation is complete. The request stays until the fabric lets go of it. */
static bool fabric_request_abandon(struct fabric_request *request, int32_t status)
{
    struct fabric_endpoint *endpoint = request->peer->endpoint;
    bool is_over;

    if (request->op == NULL)
        return true;
    if (endpoint->ops->rma_abandon == NULL || request->is_in_call)
        return false;
    request->is_in_call = true;
    request->is_done = false;
    is_over = endpoint->ops->rma_abandon(endpoint, &request->rma, status);
    request->is_in_call = false;
    if (is_over)
        fabric_request_end(request, status);
    if (!request->is_done)
        return is_over;
    fabric_request_end(request, request->status);
    fabric_request_put(request);
    return true;
}

/* Without a queue: true when it did not start and is given back. `op` is only compared. */
static bool fabric_rma_refuse(struct fabric_peer_state *peer, const struct fabric_op *op)
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

static void fabric_rma_cancel_list(struct fabric_context *context, struct kit_link *list)
{
    struct kit_link *link, *next;

    for (link = list->next; link != list; link = next) {
        struct fabric_request *request = kit_container(link, struct fabric_request, link);

        next = link->next;
        if (request->op == NULL || request->op->context != context)
            continue;
        if (request->is_started) {
            (void) fabric_request_abandon(request, NA_PLUGIN_CANCELED);
            continue;
        }
        fabric_request_end(request, NA_PLUGIN_CANCELED);
        fabric_request_put(request);
    }
}
