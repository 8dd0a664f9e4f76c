/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unexpected messages: posted receives, single and multiple ones in one queue, and copies of the
 * messages that came before a receive. Those are bounded for the whole endpoint; beyond the bound
 * frames are held, and with them their senders.
 */

#include "state.h"

#include <string.h>

static bool fabric_receive_multi(struct fabric_context *context, struct fabric_op *op,
                                 struct fabric_peer *source, uint32_t tag, const void *data,
                                 uint32_t size, bool *is_taken);
static bool fabric_early_add(struct fabric_peer_state *peer, struct fabric_context *context,
                             uint32_t tag, const void *data, uint32_t size);
static struct fabric_early *fabric_early_make(struct fabric_endpoint_state *state, uint32_t size);
static struct fabric_early *fabric_early_take(struct fabric_context *context);
static void fabric_early_put(struct fabric_endpoint_state *state, struct fabric_early *early);
static void fabric_early_catch_up(struct fabric_context *context);
static bool fabric_early_deliver(struct fabric_context *context, struct fabric_op *op);
static int32_t fabric_post(struct fabric_context *context, struct fabric_op *op, uint32_t kind,
                           void *buf, uint64_t size);
static int32_t fabric_post_multi(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data);

const struct na_plugin_multi_recv fabric_multi_recv_extension = {
    .extension = {.size = sizeof(struct na_plugin_multi_recv)},
    .msg_multi_recv_unexpected = fabric_post_multi,
};

int32_t fabric_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *data)
{
    (void) data;
    return fabric_post(fabric_context(context), op, FABRIC_OP_RECV_UNEXPECTED, buf, size);
}

/* False when there is neither a receive nor room for a copy. */
bool fabric_unexpected_deliver(struct fabric_peer_state *peer, struct fabric_context *context,
                               uint32_t tag, const void *data, uint32_t size)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct fabric_op *op;

    if (kit_unlikely(context->early_first != NULL))
        fabric_early_catch_up(context);
    op = fabric_list_first_op(&context->receives);
    if (kit_unlikely(&op->link == &context->receives || context->early_first != NULL))
        return fabric_early_add(peer, context, tag, data, size);
    if (op->kind == FABRIC_OP_RECV_MULTI) {
        bool is_taken = false;

        (void) fabric_receive_multi(context, op, &peer->peer, tag, data, size, &is_taken);
        return is_taken || fabric_early_add(peer, context, tag, data, size);
    }
    kit_list_remove(&op->link);
    if (kit_unlikely(size > op->size)) {
        fabric_complete_recv(state, op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        return true;
    }
    if (kit_likely(size != 0))
        memcpy(op->buf.recv, data, size);
    fabric_peer_hold(peer);
    fabric_complete_recv(state, op, NA_PLUGIN_SUCCESS, size, &peer->peer, tag);
    return true;
}

bool fabric_unexpected_cancel(struct fabric_context *context, const struct fabric_op *op)
{
    for (struct kit_link *link = context->receives.next; link != &context->receives;
         link = link->next) {
        if ((void *) link != (const void *) op)
            continue;
        kit_list_remove(link);
        fabric_complete(context->endpoint->state, (struct fabric_op *) (void *) link,
                        NA_PLUGIN_CANCELED);
        return true;
    }
    return false;
}

void fabric_unexpected_cancel_all(struct fabric_context *context)
{
    while (!kit_list_empty(&context->receives)) {
        struct fabric_op *op = fabric_list_first_op(&context->receives);

        kit_list_remove(&op->link);
        fabric_complete(context->endpoint->state, op, NA_PLUGIN_CANCELED);
    }
}

/* What the core had no memory for a moment ago. */
void fabric_unexpected_again(struct fabric_endpoint_state *state)
{
    state->is_refused = false;
    for (uint32_t i = 0; i < state->max_contexts; i++)
        fabric_early_catch_up(&state->contexts[i]);
}

/* What the core had no memory for, or we for a copy of it, may be possible now. */
void fabric_unexpected_tick(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->max_contexts; i++)
        fabric_early_catch_up(&state->contexts[i]);
    fabric_held_resume(state);
}

void fabric_early_drop_all(struct fabric_context *context)
{
    while (context->early_first != NULL) {
        struct fabric_early *early = fabric_early_take(context);

        fabric_peer_release(fabric_peer_state(early->source));
        fabric_early_put(context->endpoint->state, early);
    }
}

void fabric_early_free_all(struct fabric_endpoint_state *state)
{
    while (state->early_free != NULL) {
        struct fabric_early *early = state->early_free;

        state->early_free = early->next;
        state->endpoint->host->mem_free(early);
    }
}

bool fabric_early_has_room(const struct fabric_endpoint_state *state, uint64_t size)
{
    return state->early_count < FABRIC_EARLY_MIN ||
           state->early_bytes + size + sizeof(struct fabric_early) <= FABRIC_EARLY_BYTES;
}

/*
 * True when the operation ended: its buffer is used up. The operation stays posted otherwise. What
 * is larger than any message of ours cannot be placed for sure and is dropped.
 */
static bool fabric_receive_multi(struct fabric_context *context, struct fabric_op *op,
                                 struct fabric_peer *source, uint32_t tag, const void *data,
                                 uint32_t size, bool *is_taken)
{
    struct fabric_endpoint_state *state = context->endpoint->state;
    uint8_t *place = op->buf.recv + op->used;
    uint64_t used = op->used + (((uint64_t) size + 7) & ~UINT64_C(7));
    uint32_t last = used > op->size || op->size - used < state->max_unexpected;

    *is_taken = true;
    if (kit_unlikely(size > state->max_unexpected)) {
        state->counters.messages_dropped++;
        FABRIC_LOG_WARNING(context->endpoint, "dropped a message of %u bytes from %s: at most %llu",
                           size, source->name, (unsigned long long) state->max_unexpected);
        return false;
    }
    if (kit_likely(size != 0))
        memcpy(place, data, size);
    fabric_peer_hold(fabric_peer_state(source));
    if (last)
        kit_list_remove(&op->link);
    else
        op->used = used;
    if (kit_unlikely(context->endpoint->host->op_complete_multi_recv(
                         op, NA_PLUGIN_SUCCESS, place, size, fabric_peer_addr(source), tag, last) !=
                     NA_PLUGIN_SUCCESS)) {
        fabric_peer_release(fabric_peer_state(source));
        op->used = (uint64_t) (place - op->buf.recv);
        if (last)
            kit_list_prepend(&context->receives, &op->link);
        *is_taken = false;
        state->is_refused = true;
        return false;
    }
    state->completed++;
    if (kit_unlikely(context->armed))
        fabric_wait_kick(context);
    return last != 0;
}

static bool fabric_early_add(struct fabric_peer_state *peer, struct fabric_context *context,
                             uint32_t tag, const void *data, uint32_t size)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct fabric_early *early;

    if (!fabric_early_has_room(state, size))
        return false;
    early = fabric_early_make(state, size);
    if (early == NULL)
        return false;
    early->next = NULL;
    early->source = &peer->peer;
    fabric_peer_hold(peer);
    early->tag = tag;
    early->size = size;
    if (size != 0)
        memcpy(early->data, data, size);
    if (context->early_last != NULL)
        context->early_last->next = early;
    else
        context->early_first = early;
    context->early_last = early;
    state->early_count++;
    state->early_bytes += sizeof(*early) + size;
    return true;
}

static struct fabric_early *fabric_early_make(struct fabric_endpoint_state *state, uint32_t size)
{
    uint64_t capacity = size <= FABRIC_EARLY_SMALL ? FABRIC_EARLY_SMALL : size;
    struct fabric_early *early = state->early_free;

    if (size <= FABRIC_EARLY_SMALL && early != NULL) {
        state->early_free = early->next;
        state->early_free_count--;
        return early;
    }
    early = state->endpoint->host->mem_alloc(sizeof(*early) + capacity, 0);
    if (early != NULL)
        early->capacity = capacity;
    return early;
}

static struct fabric_early *fabric_early_take(struct fabric_context *context)
{
    struct fabric_endpoint_state *state = context->endpoint->state;
    struct fabric_early *early = context->early_first;

    context->early_first = early->next;
    if (early->next == NULL)
        context->early_last = NULL;
    state->early_count--;
    state->early_bytes -= sizeof(*early) + early->size;
    return early;
}

static void fabric_early_put(struct fabric_endpoint_state *state, struct fabric_early *early)
{
    if (early->capacity != FABRIC_EARLY_SMALL || state->early_free_count >= FABRIC_EARLY_REUSED) {
        state->endpoint->host->mem_free(early);
        return;
    }
    early->next = state->early_free;
    state->early_free = early;
    state->early_free_count++;
}

/* Gives what came early to what is posted now. */
static void fabric_early_catch_up(struct fabric_context *context)
{
    while (context->early_first != NULL && !kit_list_empty(&context->receives))
        if (!fabric_early_deliver(context, fabric_list_first_op(&context->receives)))
            break;
}

/* False when the core had no memory for it. The message's reference passes to the core. */
static bool fabric_early_deliver(struct fabric_context *context, struct fabric_op *op)
{
    struct fabric_endpoint_state *state = context->endpoint->state;
    struct fabric_early *early = context->early_first;
    bool is_taken = true;

    if (op->kind == FABRIC_OP_RECV_MULTI) {
        (void) fabric_receive_multi(context, op, early->source, early->tag, early->data,
                                    early->size, &is_taken);
        if (!is_taken)
            return false;
        fabric_peer_release(fabric_peer_state(early->source));
    } else {
        kit_list_remove(&op->link);
        if (early->size > op->size) {
            fabric_peer_release(fabric_peer_state(early->source));
            fabric_complete_recv(state, op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        } else {
            memcpy(op->buf.recv, early->data, early->size);
            fabric_complete_recv(state, op, NA_PLUGIN_SUCCESS, early->size, early->source,
                                 early->tag);
        }
    }
    fabric_early_put(state, fabric_early_take(context));
    return true;
}

static int32_t fabric_post(struct fabric_context *context, struct fabric_op *op, uint32_t kind,
                           void *buf, uint64_t size)
{
    struct fabric_endpoint *endpoint = context->endpoint;
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->context = context;
    op->peer = NULL;
    op->buf.recv = buf;
    op->size = size;
    op->used = 0;
    op->kind = kind;
    kit_lock_take(&endpoint->state->lock);
    if (kit_unlikely(!context->active)) {
        ret = NA_PLUGIN_FAULT;
        goto out;
    }
    kit_list_append(&context->receives, &op->link);
    if (kit_unlikely(context->early_first != NULL))
        fabric_early_catch_up(context);
    if (kit_unlikely(endpoint->state->held_count != 0)) {
        fabric_held_resume(endpoint->state);
        if (endpoint->state->armed_count != 0)
            fabric_wait_kick_any(endpoint->state); /* the fabric has memory to receive into again */
    }

out:
    kit_lock_drop(&endpoint->state->lock);
    return ret;
}

static int32_t fabric_post_multi(struct na_plugin_context *na_context, void *op, void *buf,
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
    return fabric_post(context, op, FABRIC_OP_RECV_MULTI, buf, size);
}
