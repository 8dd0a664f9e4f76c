/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unexpected messages: posted receives, single and multiple ones in one queue, and the messages
 * that came before a receive. Those wait in a bounded queue, so that expected messages behind them
 * get through; above the bound they stay in their ring and hold back their sender.
 */

#include "sm.h"

#include <string.h>

#define SM_EARLY_SMALL 256u

static enum sm_verdict sm_receive_multi(struct na_plugin_context *context, struct sm_op *op,
                                        struct sm_in_ring *ring, const struct sm_message *message);
static enum sm_verdict sm_early_add(struct na_plugin_context *context, struct sm_in_ring *ring,
                                    const struct sm_message *message);
static struct sm_early *sm_early_make(struct na_plugin_context *context, uint32_t size);
static struct sm_early *sm_early_take(struct na_plugin_context *context);
static void sm_early_deliver(struct sm_op *op, struct sm_early *early);
static bool sm_early_deliver_multi(struct na_plugin_context *context, struct sm_op *op);
static void sm_early_catch_up(struct na_plugin_context *context);
static int32_t sm_post_multi(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data);
static void sm_post_prepare(struct na_plugin_context *context, struct sm_op *op,
                            enum sm_op_kind kind, void *buf, uint64_t size);
static void sm_post_unstall(struct na_plugin_context *context);

const struct na_plugin_multi_recv sm_multi_recv_extension = {
    .extension = {.size = sizeof(struct na_plugin_multi_recv)},
    .msg_multi_recv_unexpected = sm_post_multi,
};

int32_t sm_recv_unexpected(struct na_plugin_context *context, void *op_p, void *buf, uint64_t size,
                           void *data)
{
    struct sm_op *op = op_p;
    int32_t ret = NA_PLUGIN_SUCCESS;

    (void) data;
    sm_post_prepare(context, op, SM_OP_RECV_UNEXPECTED, buf, size);
    sm_lock_take(&context->match_lock);
    if (kit_unlikely(!atomic_load_explicit(&context->active, memory_order_relaxed))) {
        ret = NA_PLUGIN_FAULT;
    } else {
        kit_list_append(&context->receives, &op->link);
        if (kit_unlikely(context->early_first != NULL))
            sm_early_catch_up(context);
    }
    sm_lock_drop(&context->match_lock);
    sm_post_unstall(context);
    return ret;
}

/* A message from a ring. poll_lock is held. */
enum sm_verdict sm_receive_unexpected(struct na_plugin_context *context, struct sm_in_ring *ring,
                                      const struct sm_message *message)
{
    enum sm_verdict verdict;
    struct sm_op *op;

    if (kit_unlikely(message->size > context->na_class->max_message))
        return SM_BAD;
    sm_lock_take(&context->match_lock);
    if (kit_unlikely(context->early_first != NULL))
        sm_early_catch_up(context);
    op = (struct sm_op *) context->receives.next;
    if (kit_unlikely(&op->link == &context->receives || context->early_first != NULL)) {
        verdict = sm_early_add(context, ring, message);
        sm_lock_drop(&context->match_lock);
        return verdict;
    }
    if (op->kind == SM_OP_RECV_MULTI) {
        verdict = sm_receive_multi(context, op, ring, message);
        sm_lock_drop(&context->match_lock);
        return verdict;
    }
    kit_list_remove(&op->link);
    sm_lock_drop(&context->match_lock);

    if (kit_unlikely(message->size > op->size)) {
        kit_host->op_complete_recv(op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        return SM_TAKEN_COMPLETED;
    }
    sm_message_copy(op->recv_buf, message, 0, message->size);
    kit_host->op_complete_recv(op, NA_PLUGIN_SUCCESS, message->size, sm_in_ring_source(ring),
                               message->tag);
    return SM_TAKEN_COMPLETED;
}

/* True when the context held it. */
bool sm_receive_cancel(struct na_plugin_context *context, struct sm_op *op)
{
    bool found;

    sm_lock_take(&context->match_lock);
    found = kit_list_contains(&context->receives, op);
    if (found)
        kit_list_remove(&op->link);
    else
        found = sm_expected_take(context, op);
    sm_lock_drop(&context->match_lock);
    if (found)
        kit_host->op_complete(op, NA_PLUGIN_CANCELED);
    return found;
}

void sm_receive_cancel_all(struct na_plugin_context *context)
{
    sm_lock_take(&context->match_lock);
    while (!kit_list_empty(&context->receives)) {
        struct sm_op *op = (struct sm_op *) context->receives.next;

        kit_list_remove(&op->link);
        kit_host->op_complete(op, NA_PLUGIN_CANCELED);
    }
    sm_expected_cancel_all(context);
    sm_lock_drop(&context->match_lock);
}

/* match_lock is held. */
void sm_early_drop_all(struct na_plugin_context *context)
{
    while (context->early_first != NULL) {
        struct sm_early *early = sm_early_take(context);

        sm_peer_release(early->source);
        kit_host->mem_free(early);
    }
    while (context->early_free != NULL) {
        struct sm_early *early = context->early_free;

        context->early_free = early->next;
        kit_host->mem_free(early);
    }
}

/* The operation stays posted until its buffer is used up. match_lock is held. */
static enum sm_verdict sm_receive_multi(struct na_plugin_context *context, struct sm_op *op,
                                        struct sm_in_ring *ring, const struct sm_message *message)
{
    uint8_t *buf = (uint8_t *) op->recv_buf + op->used;
    uint64_t used = op->used + ((message->size + 7u) & ~7u);
    uint32_t last = used > op->size || op->size - used < context->na_class->max_message;

    sm_message_copy(buf, message, 0, message->size);
    if (last)
        kit_list_remove(&op->link);
    if (kit_host->op_complete_multi_recv(op, NA_PLUGIN_SUCCESS, buf, message->size,
                                         sm_in_ring_source(ring), message->tag,
                                         last) != NA_PLUGIN_SUCCESS) {
        ring->references++; /* was not taken */
        if (last)
            kit_list_prepend(&context->receives, &op->link);
        return SM_NO_ROOM;
    }
    if (!last)
        op->used = used;
    return SM_TAKEN_COMPLETED;
}

/* match_lock is held. */
static enum sm_verdict sm_early_add(struct na_plugin_context *context, struct sm_in_ring *ring,
                                    const struct sm_message *message)
{
    struct sm_early *early;

    if (context->early_count >= SM_EARLY_COUNT ||
        context->early_bytes + message->size > SM_EARLY_BYTES)
        return SM_NO_ROOM;
    early = sm_early_make(context, message->size);
    if (early == NULL)
        return SM_NO_ROOM;
    early->next = NULL;
    early->source = sm_in_ring_source(ring);
    early->tag = message->tag;
    early->size = message->size;
    sm_message_copy(early->payload, message, 0, message->size);
    if (context->early_last != NULL)
        context->early_last->next = early;
    else
        context->early_first = early;
    context->early_last = early;
    context->early_count++;
    context->early_bytes += message->size;
    return SM_TAKEN;
}

static struct sm_early *sm_early_make(struct na_plugin_context *context, uint32_t size)
{
    uint32_t capacity = size <= SM_EARLY_SMALL ? SM_EARLY_SMALL : context->na_class->max_message;
    struct sm_early *early = context->early_free;

    if (early != NULL) {
        context->early_free = early->next;
        if (early->capacity >= size)
            return early;
        kit_host->mem_free(early);
    }
    early = kit_host->mem_alloc(sizeof(*early) + capacity, 0);
    if (early != NULL)
        early->capacity = capacity;
    return early;
}

static struct sm_early *sm_early_take(struct na_plugin_context *context)
{
    struct sm_early *early = context->early_first;

    context->early_first = early->next;
    if (early->next == NULL)
        context->early_last = NULL;
    context->early_count--;
    context->early_bytes -= early->size;
    return early;
}

/* The message's reference to its source passes to the core. match_lock is held. */
static void sm_early_deliver(struct sm_op *op, struct sm_early *early)
{
    struct na_plugin_context *context = op->context;

    if (early->size > op->size) {
        sm_peer_release(early->source);
        kit_host->op_complete_recv(op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
    } else {
        memcpy(op->recv_buf, early->payload, early->size);
        kit_host->op_complete_recv(op, NA_PLUGIN_SUCCESS, early->size, early->source, early->tag);
    }
    early->next = context->early_free;
    context->early_free = early;
}

/* True when the buffer is used up, so that the operation has ended. match_lock is held. */
static bool sm_early_deliver_multi(struct na_plugin_context *context, struct sm_op *op)
{
    while (context->early_first != NULL) {
        struct sm_early *early = context->early_first;
        uint8_t *buf = (uint8_t *) op->recv_buf + op->used;
        uint64_t used = op->used + ((early->size + 7u) & ~7u);
        uint32_t last = used > op->size || op->size - used < context->na_class->max_message;

        memcpy(buf, early->payload, early->size);
        if (kit_host->op_complete_multi_recv(op, NA_PLUGIN_SUCCESS, buf, early->size, early->source,
                                             early->tag, last) != NA_PLUGIN_SUCCESS)
            return false; /* the rest comes with the next receive or message */
        (void) sm_early_take(context);
        early->next = context->early_free;
        context->early_free = early;
        if (last)
            return true;
        op->used = used;
    }
    return false;
}

/* After the core had no memory for an event: earlier messages go first. match_lock is held. */
static void sm_early_catch_up(struct na_plugin_context *context)
{
    while (context->early_first != NULL && !kit_list_empty(&context->receives)) {
        struct sm_op *op = (struct sm_op *) context->receives.next;

        kit_list_remove(&op->link);
        if (op->kind == SM_OP_RECV_UNEXPECTED) {
            sm_early_deliver(op, sm_early_take(context));
        } else if (!sm_early_deliver_multi(context, op)) {
            kit_list_prepend(&context->receives, &op->link);
            break;
        }
    }
}

static int32_t sm_post_multi(struct na_plugin_context *context, void *op_p, void *buf,
                             uint64_t size, void *data)
{
    struct sm_op *op = op_p;
    int32_t ret = NA_PLUGIN_SUCCESS;

    (void) data;
    if (size < context->na_class->max_message) {
        SM_LOG_ERROR("a multi-receive of %llu bytes, which must take a message of %u",
                     (unsigned long long) size, context->na_class->max_message);
        return NA_PLUGIN_INVALID_ARG;
    }
    sm_post_prepare(context, op, SM_OP_RECV_MULTI, buf, size);
    sm_lock_take(&context->match_lock);
    if (!atomic_load_explicit(&context->active, memory_order_relaxed)) {
        ret = NA_PLUGIN_FAULT;
    } else {
        kit_list_append(&context->receives, &op->link);
        sm_early_catch_up(context);
    }
    sm_lock_drop(&context->match_lock);
    sm_post_unstall(context);
    return ret;
}

static void sm_post_prepare(struct na_plugin_context *context, struct sm_op *op,
                            enum sm_op_kind kind, void *buf, uint64_t size)
{
    op->context = context;
    op->kind = kind;
    op->recv_buf = buf;
    op->size = size;
    op->used = 0;
}

/* Rings that wait for a receive are looked at again, by a sleeper too. */
static void sm_post_unstall(struct na_plugin_context *context)
{
    if (kit_likely(atomic_load_explicit(&context->rings_stalled, memory_order_relaxed) == 0))
        return;
    atomic_store_explicit(&context->unstall, 1, memory_order_seq_cst);
    sm_context_kick(context);
}
