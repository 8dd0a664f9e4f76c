/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get, by cross-memory attach or copied: start, progress and cancel. */

#include "sm.h"

static int32_t sm_rma_start(struct na_plugin_context *context, bool is_put, struct sm_op *op,
                            struct na_plugin_mem *local, uint64_t local_offset,
                            struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                            struct na_plugin_addr *addr, uint32_t remote_id);
static int32_t sm_rma_check(const struct na_plugin_context *context, const struct sm_op *op);
static uint32_t sm_native_progress(struct na_plugin_context *context);
static const struct kit_link *sm_rma_find(const struct na_plugin_context *context,
                                          const struct sm_op *op);

int32_t sm_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
               uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return sm_rma_start(context, true, op, local, local_offset, remote, remote_offset, length, addr,
                        remote_id);
}

int32_t sm_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
               uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return sm_rma_start(context, false, op, local, local_offset, remote, remote_offset, length,
                        addr, remote_id);
}

/* poll_lock is held. Returns how many operations completed. */
uint32_t sm_rma_progress(struct na_plugin_context *context)
{
    uint32_t completed = 0;

    if (sm_load_acquire(&context->native_count) != 0)
        completed += sm_native_progress(context);
    if (sm_load_acquire(&context->copying) != 0)
        completed += sm_copy_progress(context, false);
    return completed;
}

/*
 * True shortly after a record of a copied transfer. The next record is then microseconds away, and
 * a sleep would cost both sides a system call. The time is limited because the target of a put does
 * not know whether more records follow, nor whether the peer runs.
 */
bool sm_rma_is_moving(const struct na_plugin_context *context)
{
    return kit_host->clock_ns() - sm_load(&context->rma_moved_at) < SM_COPY_AWAKE_NS;
}

/* True when the operation was found. One that is not trusted may be any pointer. */
bool sm_rma_cancel(struct na_plugin_context *context, struct sm_op *op, bool is_trusted)
{
    const struct kit_link *list;
    bool found = false, now = false;

    kit_lock_take(&context->na_class->registry.lock);
    list = is_trusted ? sm_load(&op->list) : sm_rma_find(context, op);
    if (list == &context->native) {
        sm_op_list_remove(op);
        sm_sub(&context->native_count, 1);
        now = true;
    } else if (op != NULL && context->native_current == op) {
        context->native_cancel = true; /* ends after the piece that is being copied */
        found = true;
    } else if (list == &context->copies) {
        sm_copy_cancel(context, op);
        now = true;
    }
    kit_lock_drop(&context->na_class->registry.lock);
    if (now)
        kit_host->op_complete(op, NA_PLUGIN_CANCELED);
    return found || now;
}

/* The registry's lock is held. */
static const struct kit_link *sm_rma_find(const struct na_plugin_context *context,
                                          const struct sm_op *op)
{
    if (kit_list_contains(&context->native, op))
        return &context->native;
    return kit_list_contains(&context->copies, op) ? &context->copies : NULL;
}

/* poll_lock is held, so native_current is NULL. */
void sm_rma_cancel_all(struct na_plugin_context *context)
{
    kit_lock_take(&context->na_class->registry.lock);
    while (!kit_list_empty(&context->native)) {
        struct sm_op *op = (struct sm_op *) context->native.next;

        sm_op_list_remove(op);
        sm_sub(&context->native_count, 1);
        kit_host->op_complete(op, NA_PLUGIN_CANCELED);
    }
    while (!kit_list_empty(&context->copies)) {
        struct sm_op *op = (struct sm_op *) context->copies.next;

        sm_copy_cancel(context, op);
        kit_host->op_complete(op, NA_PLUGIN_CANCELED);
    }
    kit_lock_drop(&context->na_class->registry.lock);
    if (sm_load(&context->copying) != 0 && !context->na_class->forked)
        (void) sm_copy_progress(context, false); /* tells the targets */
}

static int32_t sm_rma_start(struct na_plugin_context *context, bool is_put, struct sm_op *op,
                            struct na_plugin_mem *local, uint64_t local_offset,
                            struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                            struct na_plugin_addr *addr, uint32_t remote_id)
{
    int32_t status, ret;

    op->context = context;
    op->peer = sm_peer_current(addr);
    op->is_put = is_put;
    op->remote_id = remote_id;
    op->local = local;
    op->local_offset = local_offset;
    op->remote = remote;
    op->remote_offset = remote_offset;
    op->size = length;
    op->used = 0;
    ret = sm_rma_check(context, op);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    op->is_shared = sm_shared_available(op);
    if (op->is_shared) {
        ret = sm_shared_watch(op->peer);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    } else if (!sm_native_available(op->peer)) {
        return sm_copy_start(context, op);
    }
    if (!sm_native_step(op, &status)) {
        kit_lock_take(&context->na_class->registry.lock);
        sm_op_list_append(&context->native, op);
        sm_add_release(&context->native_count, 1);
        kit_lock_drop(&context->na_class->registry.lock);
        sm_context_kick(context);
        return NA_PLUGIN_SUCCESS;
    }
    if (status == NA_PLUGIN_AGAIN) /* see sm_native_step() */
        return sm_copy_start(context, op);
    kit_host->op_complete(op, status);
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_rma_check(const struct na_plugin_context *context, const struct sm_op *op)
{
    const struct kit_region *local = &op->local->region, *remote = &op->remote->region;
    int32_t failure = sm_peer_failure(op->peer);

    if (failure != 0)
        return failure;
    if (!sm_load(&context->active))
        return NA_PLUGIN_FAULT;
    if (remote->owner != op->peer->header.incarnation) {
        SM_LOG_ERROR("the remote memory handle is not one of %s", op->peer->name);
        return NA_PLUGIN_INVALID_ARG;
    }
    if ((remote->flags & (op->is_put ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ)) == 0) {
        SM_LOG_ERROR("a %s with a memory handle of %s that does not allow it",
                     op->is_put ? "put" : "get", op->peer->name);
        return NA_PLUGIN_PERMISSION;
    }
    if (op->local_offset > local->length || op->size > local->length - op->local_offset ||
        op->remote_offset > remote->length || op->size > remote->length - op->remote_offset) {
        SM_LOG_ERROR("%llu bytes at offsets %llu and %llu pass the end of a handle",
                     (unsigned long long) op->size, (unsigned long long) op->local_offset,
                     (unsigned long long) op->remote_offset);
        return NA_PLUGIN_OVERFLOW;
    }
    return NA_PLUGIN_SUCCESS;
}

/* Copies a piece of the first transfer, outside of the lock because that takes a while. */
static uint32_t sm_native_progress(struct na_plugin_context *context)
{
    struct sm_op *op = NULL;
    int32_t status = NA_PLUGIN_SUCCESS;
    bool finished, canceled;

    kit_lock_take(&context->na_class->registry.lock);
    if (!kit_list_empty(&context->native)) {
        op = (struct sm_op *) context->native.next;
        sm_op_list_remove(op);
        context->native_current = op;
        context->native_cancel = false;
    }
    kit_lock_drop(&context->na_class->registry.lock);
    if (op == NULL)
        return 0;
    finished = sm_native_step(op, &status);

    kit_lock_take(&context->na_class->registry.lock);
    context->native_current = NULL;
    /* A cancel counts if the transfer has not ended; that attach is refused is no end either. */
    canceled = context->native_cancel && (!finished || status == NA_PLUGIN_AGAIN);
    if (!finished && !canceled)
        sm_op_list_append(&context->native, op);
    else
        sm_sub(&context->native_count, 1);
    kit_lock_drop(&context->na_class->registry.lock);
    if (canceled) {
        status = NA_PLUGIN_CANCELED;
    } else if (!finished) {
        return 0;
    } else if (status == NA_PLUGIN_AGAIN) {
        op->used = 0;
        status = sm_copy_start(context, op);
        if (status == NA_PLUGIN_SUCCESS)
            return 0;
    }
    kit_host->op_complete(op, status);
    return 1;
}
