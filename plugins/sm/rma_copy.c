/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers copied through the rings, for peers whose memory the system does not let us reach: the
 * origin. A get is one request that is answered by pieces, a put is pieces that are answered by
 * DONE. The space in the rings paces them. rma_lock guards everything here.
 */

#include "ring.h"

static bool sm_copy_step(struct na_plugin_context *context, struct sm_op *op, int32_t *status_p);
static bool sm_copy_begin(struct na_plugin_context *context, struct sm_op *op);
static void sm_copy_token_give(struct sm_copy_slot *slot);
static struct sm_copy_slot *sm_copy_find(struct na_plugin_context *context, uint64_t token,
                                         const struct na_plugin_addr *peer);
static enum sm_verdict sm_copy_finish(struct na_plugin_context *context, struct sm_copy_slot *slot,
                                      int32_t status);
static bool sm_copy_send_get(struct na_plugin_context *context, struct sm_op *op);
static bool sm_copy_send_put(struct na_plugin_context *context, struct sm_op *op);

int32_t sm_copy_start(struct na_plugin_context *context, struct sm_op *op)
{
    struct sm_conn *conn;
    int32_t status = NA_PLUGIN_SUCCESS;
    int32_t ret = sm_conn_get(op->peer, op->remote_id, &conn);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    op->conn = conn;
    op->token = 0;
    op->used = 0;
    kit_lock_take(&context->rma_lock);
    sm_op_list_append(&context->copies, op);
    sm_add(&context->transfers_copied, 1);
    sm_add_release(&context->copy_count, 1);
    if (!sm_copy_step(context, op, &status)) {
        sm_copy_forget(context, op);
        ret = status;
    }
    kit_lock_drop(&context->rma_lock);
    if (ret == NA_PLUGIN_SUCCESS)
        sm_context_kick(context);
    return ret;
}

/* Returns how many operations completed. poll_lock is held. */
uint32_t sm_copy_progress(struct na_plugin_context *context)
{
    uint32_t completed = 0;
    struct kit_link *next;

    kit_lock_take(&context->rma_lock);
    for (struct kit_link *link = context->copies.next; link != &context->copies; link = next) {
        struct sm_op *op = (struct sm_op *) link;
        int32_t status = NA_PLUGIN_SUCCESS;

        next = link->next;
        if (sm_copy_step(context, op, &status))
            continue;
        sm_copy_forget(context, op);
        kit_host->op_complete(op, status);
        completed++;
    }
    kit_lock_drop(&context->rma_lock);
    return completed;
}

/*
 * Takes an unfinished operation out. Further pieces for it are dropped; its place in the window
 * stays taken until the target has sent the last one, or DONE. rma_lock is held.
 */
void sm_copy_forget(struct na_plugin_context *context, struct sm_op *op)
{
    struct sm_copy_slot *slot;

    sm_op_list_remove(op);
    sm_sub_release(&context->copy_count, 1);
    if (op->token == 0)
        return;
    slot = &context->copy_slots[op->token % SM_COPY_TABLE];
    slot->op = NULL;
    if (context->na_class->forked)
        return;
    if (op->kind == SM_KIND_PUT && op->used < op->size) {
        sm_copy_token_give(slot); /* the target waits for nothing and answers nothing */
    } else if (op->kind == SM_KIND_GET) {
        struct sm_rma_header header = {.token = op->token};

        if (op->used == UINT64_MAX)
            sm_copy_token_give(slot); /* was not asked for yet */
        else if (sm_peer_failure(op->peer) == 0)
            (void) sm_ring_send(op->conn, SM_KIND_CANCEL, context->id, 0, &header, sizeof(header));
    }
}

/* Frees the places of operations whose target died before it was done. rma_lock is held. */
void sm_copy_reclaim(struct na_plugin_context *context)
{
    for (uint32_t i = 0; context->copy_slots != NULL && i < SM_COPY_TABLE; i++) {
        struct sm_copy_slot *slot = &context->copy_slots[i];

        if (slot->token != 0 && slot->op == NULL && sm_peer_failure(slot->peer) != 0)
            sm_copy_token_give(slot);
    }
}

enum sm_verdict sm_copy_receive_piece(struct na_plugin_context *context, struct sm_in_ring *ring,
                                      const struct sm_message *message)
{
    struct sm_rma_header header;
    struct sm_copy_slot *slot;
    enum sm_verdict verdict = SM_TAKEN;
    uint32_t size;
    struct sm_op *op;

    if (message->size < sizeof(header))
        return SM_BAD;
    sm_message_copy(&header, message, 0, sizeof(header));
    size = message->size - (uint32_t) sizeof(header);
    kit_lock_take(&context->rma_lock);
    slot = sm_copy_find(context, header.token, ring->peer);
    if (slot == NULL)
        goto out;
    if (!slot->is_get || header.offset != slot->received || size > slot->length - slot->received) {
        verdict = SM_BAD;
        goto out;
    }
    op = slot->op;
    if (op != NULL)
        sm_mem_store(op->local, op->local_offset + slot->received, message, sizeof(header));
    slot->received += size;
    sm_rma_moved(context);
    if (slot->received == slot->length)
        verdict = sm_copy_finish(context, slot, NA_PLUGIN_SUCCESS);

out:
    kit_lock_drop(&context->rma_lock);
    return verdict;
}

enum sm_verdict sm_copy_receive_done(struct na_plugin_context *context, struct sm_in_ring *ring,
                                     const struct sm_message *message)
{
    struct sm_rma_header header;
    struct sm_copy_slot *slot;
    enum sm_verdict verdict = SM_TAKEN;

    if (message->size != sizeof(header))
        return SM_BAD;
    sm_message_copy(&header, message, 0, sizeof(header));
    if (header.status < NA_PLUGIN_SUCCESS || header.status > NA_PLUGIN_HOSTFIREWALL)
        return SM_BAD;
    kit_lock_take(&context->rma_lock);
    slot = sm_copy_find(context, header.token, ring->peer);
    if (slot != NULL && header.status == NA_PLUGIN_SUCCESS &&
        (slot->is_get || (slot->op != NULL && slot->op->used < slot->op->size)))
        verdict = SM_BAD; /* it cannot be done yet */
    else if (slot != NULL)
        verdict = sm_copy_finish(context, slot, header.status);
    kit_lock_drop(&context->rma_lock);
    return verdict;
}

/* Sends as much as has room. False when the operation has failed. rma_lock is held. */
static bool sm_copy_step(struct na_plugin_context *context, struct sm_op *op, int32_t *status_p)
{
    int32_t failure = sm_conn_prepare(op->conn);

    if (failure != NA_PLUGIN_SUCCESS) {
        *status_p = failure;
        return failure == NA_PLUGIN_AGAIN;
    }
    if (op->token == 0 && !sm_copy_begin(context, op))
        return true;
    if (op->kind == SM_KIND_GET) {
        if (op->used == UINT64_MAX && sm_copy_send_get(context, op))
            op->used = 0;
        return true;
    }
    for (int i = 0; i < 4 && op->used < op->size; i++)
        if (!sm_copy_send_put(context, op))
            break;
    return true;
}

/* False while the window, or the table, is full. */
static bool sm_copy_begin(struct na_plugin_context *context, struct sm_op *op)
{
    if (sm_load(&op->conn->copy_active) >= SM_COPY_WINDOW)
        return false;
    for (uint32_t i = 0; i < SM_COPY_TABLE; i++) {
        uint32_t index = (context->copy_next + i) % SM_COPY_TABLE;
        struct sm_copy_slot *slot = &context->copy_slots[index];

        if (slot->token != 0)
            continue;
        context->copy_next = index + 1;
        context->copy_generation++;
        /* By the token alone the target tells the contexts of a class apart. */
        slot->token = ((uint64_t) context->id << SM_COPY_TOKEN_SHIFT) |
                      (context->copy_generation * SM_COPY_TABLE + index);
        slot->op = op;
        slot->conn = op->conn;
        slot->peer = op->peer;
        sm_peer_hold(op->peer);
        slot->is_get = op->kind == SM_KIND_GET;
        slot->length = op->size;
        slot->received = 0;
        op->token = slot->token;
        op->used = slot->is_get ? UINT64_MAX : 0; /* a get: not asked for yet */
        sm_add(&op->conn->copy_active, 1);
        return true;
    }
    return false;
}

static void sm_copy_token_give(struct sm_copy_slot *slot)
{
    struct na_plugin_addr *peer = slot->peer;

    sm_sub(&slot->conn->copy_active, 1);
    *slot = (struct sm_copy_slot){0};
    sm_peer_release(peer);
}

/* The token comes from a peer: it must be of an operation with that very peer. */
static struct sm_copy_slot *sm_copy_find(struct na_plugin_context *context, uint64_t token,
                                         const struct na_plugin_addr *peer)
{
    struct sm_copy_slot *slot;

    if (context->copy_slots == NULL || token == 0)
        return NULL;
    slot = &context->copy_slots[token % SM_COPY_TABLE];
    return slot->token == token && slot->peer == peer ? slot : NULL;
}

static enum sm_verdict sm_copy_finish(struct na_plugin_context *context, struct sm_copy_slot *slot,
                                      int32_t status)
{
    struct sm_op *op = slot->op;

    sm_copy_token_give(slot);
    if (op == NULL)
        return SM_TAKEN;
    sm_op_list_remove(op);
    sm_sub_release(&context->copy_count, 1);
    kit_host->op_complete(op, status);
    return SM_TAKEN_COMPLETED;
}

static bool sm_copy_send_get(struct na_plugin_context *context, struct sm_op *op)
{
    struct sm_rma_header header = {
        .token = op->token,
        .key = op->remote->key,
        .index = op->remote->index,
        .offset = op->remote_offset,
        .length = op->size,
    };

    if (!sm_ring_send(op->conn, SM_KIND_GET, context->id, 0, &header, sizeof(header)))
        return false;
    sm_rma_moved(context);
    return true;
}

static bool sm_copy_send_put(struct na_plugin_context *context, struct sm_op *op)
{
    struct sm_conn *conn = op->conn;
    uint64_t left = op->size - op->used;
    uint32_t size = sm_ring_piece_max(conn);
    struct sm_rma_header header = {
        .token = op->token,
        .key = op->remote->key,
        .index = op->remote->index,
        .offset = op->remote_offset + op->used,
    };

    if (size > left)
        size = (uint32_t) left;
    if (!sm_ring_send_piece(conn, SM_KIND_PUT, context->id, size == left ? SM_PUT_LAST : 0, &header,
                            op->local, op->local_offset + op->used, size))
        return false;
    op->used += size;
    sm_rma_moved(context);
    return true;
}
