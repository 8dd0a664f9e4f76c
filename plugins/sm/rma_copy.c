/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers copied through the rings, for peers that cross-memory attach cannot reach. An engine of
 * the kit, one for each context, moves them in records with the bytes behind them, paced by the
 * space in the rings. Its peers are connections. The registry's lock guards all engines of a class.
 */

#include "ring.h"

/* The bytes behind a record: those of the message from `offset` on. */
struct sm_copied {
    const struct sm_message *message;
    uint32_t offset;
};

static struct kit_rma *sm_copy_engine(struct na_plugin_context *context);
static void sm_copy_mark(struct na_plugin_context *context);
static void sm_copy_moved(struct na_plugin_context *context);
static int32_t sm_copy_send_record(void *owner, void *peer, const void *data, uint32_t size);
static int32_t sm_copy_send_data(void *owner, void *peer, const void *record, uint32_t record_size,
                                 const struct kit_region *region, uint64_t offset, uint32_t size);
static int32_t sm_copy_send(struct na_plugin_context *context, struct sm_conn *conn,
                            const void *record, uint32_t record_size,
                            const struct na_plugin_mem *mem, uint64_t offset, uint32_t size);
static void sm_copy_take_data(void *owner, const struct kit_region *region, uint64_t offset,
                              const void *data, uint32_t size);
static uint32_t sm_copy_inline_size(void *owner, void *peer);
static enum kit_rma_mover sm_copy_mover(void *owner, const struct kit_rma_request *request);
static void sm_copy_done(void *owner, void *cookie, int32_t status);
static void sm_copy_hold(void *owner, void *peer);
static void sm_copy_release(void *owner, void *peer);

static const struct kit_rma_ops sm_copy_ops = {
    .control_send = sm_copy_send_record,
    .data_send = sm_copy_send_data,
    .data_take = sm_copy_take_data,
    .inline_size = sm_copy_inline_size,
    .mover = sm_copy_mover,
    .transfer_done = sm_copy_done,
    .peer_hold = sm_copy_hold,
    .peer_release = sm_copy_release,
};

int32_t sm_copy_start(struct na_plugin_context *context, struct sm_op *op)
{
    struct kit_lock *lock = &context->na_class->registry.lock;
    struct kit_rma_request request = {
        .local = &op->local->region,
        .local_offset = op->local_offset,
        .remote = &op->remote->region,
        .remote_offset = op->remote_offset,
        .length = op->size,
        .is_put = op->is_put,
        .cookie = op,
    };
    struct kit_rma *engine;
    struct sm_conn *conn;
    int32_t ret = sm_conn_get(op->peer, op->remote_id, &conn);

    if (ret == NA_PLUGIN_SUCCESS)
        ret = sm_conn_prepare(conn);
    if (ret != NA_PLUGIN_SUCCESS && ret != NA_PLUGIN_AGAIN)
        return ret;
    request.peer = conn;
    kit_lock_take(lock);
    engine = sm_copy_engine(context);
    ret = engine != NULL ? kit_rma_start(engine, &request, &op->transfer) : NA_PLUGIN_NOMEM;
    if (ret == NA_PLUGIN_SUCCESS) {
        sm_op_list_append(&context->copies, op);
        sm_add(&context->transfers_copied, 1);
        sm_copy_mark(context);
    }
    kit_lock_drop(lock);
    if (ret == NA_PLUGIN_SUCCESS)
        sm_context_kick(context);
    return ret;
}

/* Gives a record from a ring to the engine. poll_lock is held. */
enum sm_verdict sm_copy_receive(struct na_plugin_context *context, struct sm_in_ring *ring,
                                const struct sm_message *message)
{
    const bool has_data = message->kind == SM_KIND_DATA;
    const bool is_apart = has_data && (message->flags & SM_DATA_APART) != 0;
    const uint32_t size = has_data ? KIT_RMA_RECORD_SIZE : message->size;
    const struct sm_copied copied = {message, is_apart ? 0 : size};
    uint8_t record[KIT_RMA_CONTROL_MIN];
    struct kit_rma *engine;
    struct sm_conn *conn;

    if ((message->kind != SM_KIND_RECORD && !has_data) || size > sizeof(record) ||
        (is_apart ? message->size <= SM_INLINE_MAX : message->size < KIT_RMA_RECORD_SIZE) ||
        message->source_id >= ring->peer->header.max_contexts)
        return SM_BAD;
    if (sm_conn_get(ring->peer, message->source_id, &conn) != NA_PLUGIN_SUCCESS)
        return SM_NO_ROOM;
    if (is_apart)
        memcpy(record, ring->slots[ring->head_slot % SM_RING_SLOTS].payload, size);
    else
        sm_message_copy(record, message, 0, size);
    kit_lock_take(&context->na_class->registry.lock);
    engine = sm_copy_engine(context);
    if (engine != NULL && has_data)
        kit_rma_control_data(engine, conn, record, size, &copied, message->size - copied.offset);
    else if (engine != NULL)
        kit_rma_control(engine, conn, record, size);
    if (engine != NULL)
        sm_copy_mark(context);
    kit_lock_drop(&context->na_class->registry.lock);
    if (engine == NULL)
        return SM_NO_ROOM;
    sm_copy_moved(context);
    return SM_TAKEN;
}

/*
 * Returns how many operations completed. With `is_announcing`, before a sleep, receivers of full
 * rings are asked to wake this context when they make room. poll_lock is held.
 */
uint32_t sm_copy_progress(struct na_plugin_context *context, bool is_announcing)
{
    uint32_t completed;

    kit_lock_take(&context->na_class->registry.lock);
    context->is_announcing = is_announcing;
    kit_rma_poll(context->engine, 0);
    context->is_announcing = false;
    completed = context->copies_done;
    context->copies_done = 0;
    sm_copy_mark(context);
    kit_lock_drop(&context->na_class->registry.lock);
    return completed;
}

/* The caller holds the registry's lock and completes the operation. A poll tells the target. */
void sm_copy_cancel(struct na_plugin_context *context, struct sm_op *op)
{
    sm_op_list_remove(op);
    (void) kit_rma_abandon(context->engine, op->transfer, NA_PLUGIN_CANCELED, false);
    sm_context_kick(context);
}

/*
 * Ends the transfers with a peer that failed with `status`; if that is 0, with its destroyed
 * contexts only. The next poll reports them. poll_lock is held.
 */
void sm_copy_fail_peer(struct na_plugin_context *context, struct na_plugin_addr *peer,
                       int32_t status)
{
    if (sm_load(&context->copying) == 0 || sm_load(&peer->transfers) == 0)
        return;
    kit_lock_take(&context->na_class->registry.lock);
    for (uint32_t id = 0; id < peer->header.max_contexts; id++) {
        struct sm_conn *conn = sm_load_acquire(&peer->conns[id]);

        if (conn != NULL && (status != 0 || sm_context_gone(conn->context_area)))
            kit_rma_peer_failed(context->engine, conn,
                                status != 0 ? status : NA_PLUGIN_HOSTUNREACH);
    }
    kit_lock_drop(&context->na_class->registry.lock);
}

/* True when a context that we are connected to is gone. */
bool sm_copy_peer_is_gone(const struct na_plugin_addr *peer)
{
    for (uint32_t id = 0; id < peer->header.max_contexts; id++) {
        const struct sm_conn *conn = sm_load_acquire(&peer->conns[id]);

        if (conn != NULL && sm_context_gone(conn->context_area))
            return true;
    }
    return false;
}

/* Ends the peers' transfers with deregistered memory. The registry's lock is held. */
void sm_copy_leave(struct na_plugin_class *na_class, const struct kit_region *region)
{
    for (uint32_t i = 0; i < na_class->max_contexts && !na_class->forked; i++) {
        struct na_plugin_context *context = &na_class->contexts[i];

        if (context->engine == NULL)
            continue;
        (void) kit_rma_region_leave(context->engine, region);
        sm_context_kick(context);
    }
}

void sm_copy_close(struct na_plugin_context *context)
{
    kit_rma_close(context->engine);
    context->engine = NULL;
}

/* Returns the engine, which is made at first use; NULL without memory. */
static struct kit_rma *sm_copy_engine(struct na_plugin_context *context)
{
    const struct kit_rma_config config = {
        .ops = &sm_copy_ops,
        .owner = context,
        .plugin = SM_PLUGIN_NAME,
        .regions = &context->na_class->registry.regions,
        .inline_size = SM_DATA_MAX / 4,
    };

    if (kit_unlikely(context->engine == NULL))
        (void) kit_rma_open(&config, &context->engine);
    return context->engine;
}

/* Tells polls whether the engine has work. The registry's lock is held. */
static void sm_copy_mark(struct na_plugin_context *context)
{
    sm_store_release(&context->copying, kit_rma_is_active(context->engine));
}

/* A record was sent or received. [any thread] */
static void sm_copy_moved(struct na_plugin_context *context)
{
    sm_add(&context->rma_moved, 1);
    sm_store(&context->rma_moved_at, kit_host->clock_ns());
}

static int32_t sm_copy_send_record(void *owner, void *peer, const void *data, uint32_t size)
{
    return sm_copy_send(owner, peer, data, size, NULL, 0, 0);
}

static int32_t sm_copy_send_data(void *owner, void *peer, const void *record, uint32_t record_size,
                                 const struct kit_region *region, uint64_t offset, uint32_t size)
{
    return sm_copy_send(owner, peer, record, record_size, sm_mem_of(region), offset, size);
}

static int32_t sm_copy_send(struct na_plugin_context *context, struct sm_conn *conn,
                            const void *record, uint32_t record_size,
                            const struct na_plugin_mem *mem, uint64_t offset, uint32_t size)
{
    int32_t ret = context->na_class->forked ? NA_PLUGIN_AGAIN : sm_conn_prepare(conn);

    if (ret != NA_PLUGIN_SUCCESS) /* without memory for a ring the peer cannot be reached */
        return ret == NA_PLUGIN_NOMEM ? NA_PLUGIN_HOSTUNREACH : ret;
    for (bool is_last = !context->is_announcing;; is_last = true) {
        if (mem != NULL
                ? sm_ring_send_piece(conn, context->id, record, record_size, mem, offset, size)
                : sm_ring_send(conn, SM_KIND_RECORD, context->id, 0, record, record_size))
            break;
        if (is_last)
            return NA_PLUGIN_AGAIN;
        sm_conn_announce(conn, context);
    }
    sm_copy_moved(context);
    return NA_PLUGIN_SUCCESS;
}

static void sm_copy_take_data(void *owner, const struct kit_region *region, uint64_t offset,
                              const void *data, uint32_t size)
{
    const struct sm_copied *copied = data;

    (void) owner;
    (void) size;
    sm_mem_store(sm_mem_of(region), offset, copied->message, copied->offset);
}

/* A quarter of the ring's data area: several pieces fit. A ring that is not made yet is small. */
static uint32_t sm_copy_inline_size(void *owner, void *peer)
{
    struct sm_conn *conn = peer;

    (void) owner;
    return sm_conn_prepare(conn) == NA_PLUGIN_SUCCESS ? conn->data_lines * SM_CACHE_LINE / 4
                                                      : SM_DATA_MIN / 4;
}

static enum kit_rma_mover sm_copy_mover(void *owner, const struct kit_rma_request *request)
{
    (void) owner;
    (void) request;
    return KIT_RMA_INLINE;
}

static void sm_copy_done(void *owner, void *cookie, int32_t status)
{
    struct na_plugin_context *context = owner;

    sm_op_list_remove(cookie);
    context->copies_done++;
    kit_host->op_complete(cookie, status);
}

static void sm_copy_hold(void *owner, void *peer)
{
    struct sm_conn *conn = peer;

    (void) owner;
    sm_peer_hold(conn->peer);
    sm_add(&conn->peer->transfers, 1);
}

static void sm_copy_release(void *owner, void *peer)
{
    struct sm_conn *conn = peer;

    (void) owner;
    sm_sub(&conn->peer->transfers, 1);
    sm_peer_release(conn->peer);
}
