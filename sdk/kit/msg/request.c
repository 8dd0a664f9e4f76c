/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets: started in order for each peer, retried if the fabric has no room, abandoned if
 * they are cancelled or their peer fails.
 */

#include "msg_state.h"

static bool rma_start_next(struct msg_peer *peer);
static void request_end(struct msg_request *request, int32_t status);
static void request_put(struct msg_request *request);
static void requests_free(struct kit_link *list);
static void request_abandon(struct msg_request *request, int32_t status);

void kit_msg_rma_done(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    struct msg_request *request = (struct msg_request *) (void *) rma;

    request->status = status;
    kit_list_take(&request->link);
    kit_list_append(&endpoint->state->rma_done, &request->link);
    endpoint->state->session.is_marked = true;
}

/* Starts queued requests, in order. */
void kit_msg_rma_flush(struct msg_peer *peer)
{
    while (!kit_list_empty(&peer->rma_queue) && peer->base.phase == KIT_PEER_READY &&
           (peer->base.pending & KIT_PENDING_FAILURE) == 0 && rma_start_next(peer))
        continue;
}

/* Abandons the requests in rma_abandon, and frees those in rma_done. */
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

/* Completes the requests of a context that the fabric still uses, and detaches them. */
void kit_msg_rma_detach(struct msg_context *context)
{
    struct msg_endpoint *state = context->endpoint->state;

    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        for (struct kit_link *link = peer->rma_started.next; link != &peer->rma_started;
             link = link->next) {
            struct msg_request *request = kit_container(link, struct msg_request, link);

            if (request->op == NULL || request->op->context != context)
                continue;
            request_end(request, NA_PLUGIN_CANCELED);
            request->is_detached = true;
            state->detached_count++;
        }
    }
}

/* True if a detached request uses the handle. */
bool kit_msg_rma_uses(const struct msg_endpoint *state, const struct na_plugin_mem *mem)
{
    for (uint32_t i = 0; state->detached_count != 0 && i < state->session.slot_count; i++) {
        const struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        for (const struct kit_link *link = peer->rma_started.next; link != &peer->rma_started;
             link = link->next) {
            const struct msg_request *request = kit_container(link, const struct msg_request, link);

            if (request->is_detached && (request->rma.local == mem || request->rma.remote == mem))
                return true;
        }
    }
    return false;
}

/* Ends the selected requests. Started ones stay until the fabric is done. True: there was one. */
bool kit_msg_rma_end(struct msg_peer *peer, const struct msg_op_filter *filter, int32_t status)
{
    struct kit_link *const lists[] = {&peer->rma_queue, &peer->rma_started};
    bool is_found = false;

    for (uint32_t i = 0; i < 2; i++) {
        struct kit_link *link, *next;

        for (link = lists[i]->next; link != lists[i]; link = next) {
            struct msg_request *request = kit_container(link, struct msg_request, link);

            next = link->next;
            if (request->op == NULL || !msg_op_matches(filter, request->op))
                continue;
            is_found = true;
            if (lists[i] == &peer->rma_started) {
                request_abandon(request, status);
            } else {
                request_end(request, status);
                request_put(request);
            }
        }
    }
    return is_found;
}

/* Frees all requests when the endpoint closes and the fabric does not use them any more. */
void kit_msg_rma_free_all(struct msg_endpoint *state)
{
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        requests_free(&peer->rma_started);
        requests_free(&peer->rma_queue);
    }
    requests_free(&state->rma_abandon);
    requests_free(&state->rma_done);
    requests_free(&state->free_requests);
}

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

/* Returns false if the fabric has no room. A started request belongs to the fabric. */
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

/* Completes the operation, unless it has completed already. */
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
    struct msg_endpoint *state = request->peer->endpoint->state;

    if (kit_unlikely(request->is_detached))
        state->detached_count--;
    request->is_detached = false;
    kit_list_remove(&request->link);
    kit_list_prepend(&state->free_requests, &request->link);
}

/* Has kit_msg_rma_drain() call ops.rma_abandon; the request stays until the fabric is done. */
static void request_abandon(struct msg_request *request, int32_t status)
{
    struct msg_endpoint *state = request->peer->endpoint->state;

    request->status = status;
    kit_list_take(&request->link);
    kit_list_append(&state->rma_abandon, &request->link);
    state->session.is_marked = true;
}

/* For NA_PLUGIN_PROGRESS_NO_RETRY: true if the request had not started and was removed. */
bool kit_msg_rma_refuse(struct msg_peer *peer, const struct msg_op *op)
{
    for (struct kit_link *link = peer->rma_queue.next; link != &peer->rma_queue;
         link = link->next) {
        struct msg_request *request = kit_container(link, struct msg_request, link);

        if (request->op != op)
            continue;
        kit_peer_waiting_remove(&peer->base);
        request_put(request);
        return true;
    }
    return false;
}

static void requests_free(struct kit_link *list)
{
    while (!kit_list_empty(list)) {
        struct kit_link *link = list->next;

        kit_list_remove(link);
        kit_host->mem_free(kit_container(link, struct msg_request, link));
    }
}
