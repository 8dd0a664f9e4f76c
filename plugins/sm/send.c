/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending messages, and the queue of sends that wait for space or for a connection. */

#include "ring.h"

static int32_t sm_send(struct na_plugin_context *context, uint8_t kind, struct sm_op *op,
                       const void *buf, uint64_t size, struct na_plugin_addr *dest,
                       uint32_t dest_id, uint32_t tag);
static int32_t sm_send_slow(struct na_plugin_context *context, struct sm_conn *conn,
                            struct sm_op *op, bool *is_sent_p);
static uint32_t sm_send_flush(struct sm_conn *conn, struct na_plugin_context *poller);
static bool sm_send_now(struct sm_conn *conn, struct sm_op *op);
static void sm_send_finish(struct sm_op *op, struct na_plugin_context *poller, int32_t status);
static struct sm_op *sm_send_find(struct sm_conn *conn, const struct na_plugin_context *context,
                                  const struct sm_op *op);

int32_t sm_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                           uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id,
                           uint32_t tag)
{
    (void) data;
    return sm_send(context, SM_KIND_UNEXPECTED, op, buf, size, dest, dest_id, tag);
}

int32_t sm_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                         uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id,
                         uint32_t tag)
{
    (void) data;
    return sm_send(context, SM_KIND_EXPECTED, op, buf, size, dest, dest_id, tag);
}

/*
 * True when a pending send of this context was found and cancelled; `op` NULL takes any. The
 * class's lock keeps the connections alive.
 */
bool sm_send_cancel(struct na_plugin_context *context, const struct sm_op *op)
{
    struct na_plugin_class *na_class = context->na_class;
    struct sm_conn *conn = NULL;
    struct sm_op *found = NULL;

    if (sm_load_acquire(&context->send_count) == 0)
        return false;
    kit_lock_take(&na_class->lock);
    while (found == NULL && (conn = sm_conn_next(na_class, conn)) != NULL)
        found = sm_send_find(conn, context, op);
    kit_lock_drop(&na_class->lock);
    if (found != NULL)
        sm_send_finish(found, context, NA_PLUGIN_CANCELED);
    return found != NULL;
}

/* The same for a valid operation: its `list` says which queue it is in. */
bool sm_send_cancel_trusted(struct na_plugin_context *context, struct sm_op *op)
{
    struct na_plugin_class *na_class = context->na_class;
    struct kit_link *list;
    bool found = false;

    if (sm_load_acquire(&context->send_count) == 0)
        return false;
    kit_lock_take(&na_class->lock);
    list = sm_load_acquire(&op->list);
    if (list != NULL && list != &context->native && list != &context->copies) {
        struct sm_conn *conn = kit_container(list, struct sm_conn, pending);

        kit_lock_take(&conn->lock);
        found = sm_load(&op->list) == list;
        if (found)
            sm_op_list_remove(op);
        kit_lock_drop(&conn->lock);
    }
    kit_lock_drop(&na_class->lock);
    if (found)
        sm_send_finish(op, context, NA_PLUGIN_CANCELED);
    return found;
}

/* Tries each connection with a queue once. */
uint32_t sm_backlog_flush(struct na_plugin_class *na_class, struct na_plugin_context *context)
{
    uint32_t count = sm_load_acquire(&na_class->backlog_count);
    uint32_t completed = 0;

    while (count-- != 0) {
        struct sm_conn *conn = sm_backlog_next(na_class);
        struct na_plugin_addr *peer;

        if (conn == NULL)
            break;
        peer = conn->peer;
        completed += sm_send_flush(conn, context);
        sm_peer_release(peer);
    }
    return completed;
}

/*
 * Before a sleep: asks the receivers to wake this context when they make room. False when there
 * was room in the meantime, so that the caller polls instead.
 */
bool sm_backlog_announce(struct na_plugin_class *na_class, struct na_plugin_context *context)
{
    if (sm_load_acquire(&na_class->backlog_count) == 0)
        return true;
    kit_lock_take(&na_class->backlog_lock);
    for (struct kit_link *link = na_class->backlog.next; link != &na_class->backlog;
         link = link->next)
        sm_conn_announce(kit_container(link, struct sm_conn, backlog_link), context);
    kit_lock_drop(&na_class->backlog_lock);
    return sm_backlog_flush(na_class, context) == 0;
}

static int32_t sm_send(struct na_plugin_context *context, uint8_t kind, struct sm_op *op,
                       const void *buf, uint64_t size, struct na_plugin_addr *dest,
                       uint32_t dest_id, uint32_t tag)
{
    bool is_sent = true;
    struct sm_conn *conn;
    int32_t ret;

    if (kit_unlikely(sm_peer_failure(dest) != 0)) {
        dest = sm_peer_arrived(dest);
        ret = sm_peer_failure(dest);
        if (ret != 0)
            return ret;
    }
    ret = sm_conn_get(dest, dest_id, &conn);
    if (kit_unlikely(ret != NA_PLUGIN_SUCCESS))
        return ret;
    if (kit_unlikely(sm_context_gone(conn->context_area)))
        return NA_PLUGIN_HOSTUNREACH;
    if (kit_unlikely(!sm_load(&context->active)))
        return NA_PLUGIN_FAULT;
    if (kit_unlikely(size > dest->header.max_unexpected || size > context->na_class->max_message)) {
        SM_LOG_ERROR("a message of %llu bytes for %s, which takes up to %u",
                     (unsigned long long) size, dest->name, dest->header.max_unexpected);
        return NA_PLUGIN_MSGSIZE;
    }
    if (kit_unlikely(sm_load_acquire(&conn->gate) != 0 || size > SM_PART_MAX ||
                     !sm_ring_send(conn, kind, context->id, tag, buf, (uint32_t) size))) {
        op->context = context;
        op->peer = dest;
        op->kind = kind;
        op->tag = tag;
        op->send_buf = buf;
        op->size = size;
        op->used = 0;
        ret = sm_send_slow(context, conn, op, &is_sent);
    }
    if (kit_likely(is_sent))
        kit_host->op_complete(op, NA_PLUGIN_SUCCESS);
    return ret;
}

/* Connects and sends, or queues the operation behind pending sends to keep the order. */
static int32_t sm_send_slow(struct na_plugin_context *context, struct sm_conn *conn,
                            struct sm_op *op, bool *is_sent_p)
{
    int32_t ret;

    kit_lock_take(&conn->lock);
    ret = sm_conn_ready(conn);
    *is_sent_p =
        ret == NA_PLUGIN_SUCCESS && kit_list_empty(&conn->pending) && sm_send_now(conn, op);
    if (*is_sent_p || (ret != NA_PLUGIN_SUCCESS && ret != NA_PLUGIN_AGAIN))
        goto out;
    ret = NA_PLUGIN_AGAIN;
    if (context->na_class->no_retry && op->used == 0)
        goto out; /* a message sent in part is queued: it never fits at once */
    ret = NA_PLUGIN_FAULT;
    if (!sm_load_acquire(&context->active))
        goto out;
    sm_op_list_append(&conn->pending, op);
    sm_add(&context->sends_queued, 1);
    sm_add_release(&context->send_count, 1);
    sm_store_release(&conn->gate, 1);
    sm_backlog_add(conn);
    sm_context_kick(context);
    ret = NA_PLUGIN_SUCCESS;

out:
    kit_lock_drop(&conn->lock);
    return ret;
}

/* Sends as much as has room, or fails all sends. Returns how many operations completed. */
static uint32_t sm_send_flush(struct sm_conn *conn, struct na_plugin_context *poller)
{
    uint32_t completed = 0;
    int32_t ret;

    kit_lock_take(&conn->lock);
    ret = sm_conn_ready(conn);
    while (ret != NA_PLUGIN_AGAIN && !kit_list_empty(&conn->pending)) {
        struct sm_op *op = (struct sm_op *) conn->pending.next;

        if (ret == NA_PLUGIN_SUCCESS && !sm_send_now(conn, op))
            break;
        sm_op_list_remove(op);
        sm_send_finish(op, poller, ret);
        completed++;
    }
    if (!kit_list_empty(&conn->pending)) {
        sm_backlog_add(conn);
    } else if (ret == NA_PLUGIN_SUCCESS) {
        sm_store_release(&conn->gate, 0);
        if (sm_load_acquire(&conn->failure) != 0)
            sm_store_release(&conn->gate, 1);
    }
    kit_lock_drop(&conn->lock);
    return completed;
}

/* False when the ring is full; a later call sends the parts that are left. */
static bool sm_send_now(struct sm_conn *conn, struct sm_op *op)
{
    if (op->size > SM_PART_MAX) {
        while (op->used < op->size)
            if (!sm_ring_send_part(conn, op))
                return false;
        return true;
    }
    return sm_ring_send(conn, op->kind, op->context->id, op->tag, op->send_buf,
                        (uint32_t) op->size);
}

/* Completes a send. If its context is not the polling one, that must poll to report it. */
static void sm_send_finish(struct sm_op *op, struct na_plugin_context *poller, int32_t status)
{
    struct na_plugin_context *context = op->context;

    sm_sub_release(&context->send_count, 1);
    kit_host->op_complete(op, status);
    if (context != poller)
        sm_context_kick(context);
}

static struct sm_op *sm_send_find(struct sm_conn *conn, const struct na_plugin_context *context,
                                  const struct sm_op *op)
{
    struct sm_op *found = NULL;

    kit_lock_take(&conn->lock);
    for (struct kit_link *link = conn->pending.next; link != &conn->pending; link = link->next) {
        struct sm_op *candidate = (struct sm_op *) link;

        if (candidate->context != context || (op != NULL && candidate != op))
            continue;
        sm_op_list_remove(candidate);
        found = candidate;
        break;
    }
    kit_lock_drop(&conn->lock);
    return found;
}
