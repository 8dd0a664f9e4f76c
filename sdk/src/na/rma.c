/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get. The core checks ranges and rights of both handles at the side that asks. That
 * protects no memory: the owner's side checks each request again, see kit/rma/target.c.
 */

#include "na/completion.h"
#include "na/log.h"
#include "na/memory.h"

struct transfer {
    struct na_class *na_class;
    struct na_context *context;
    const struct na_mem_handle *local;
    uint64_t local_offset;
    const struct na_mem_handle *remote;
    uint64_t remote_offset;
    uint64_t length;
    na_addr_t *addr;
    uint8_t remote_id;
    struct na_op_id *op;
};

typedef int32_t (*transfer_fn)(struct na_plugin_context *, void *, struct na_plugin_mem *, uint64_t,
                               struct na_plugin_mem *, uint64_t, uint64_t, struct na_plugin_addr *,
                               uint32_t);

static na_return_t transfer_post(const struct transfer *transfer, na_cb_type_t type,
                                 na_cb_t callback, void *arg, transfer_fn function,
                                 uint32_t access);
static bool transfer_is_valid(const struct transfer *transfer);
static bool transfer_is_allowed(const struct transfer *transfer, uint32_t access);
static na_return_t transfer_refused(const struct transfer *transfer);
static na_return_t transfer_forbidden(const struct transfer *transfer, uint32_t access);

na_return_t NA_Put(na_class_t *na_class, na_context_t *context, na_cb_t callback, void *arg,
                   na_mem_handle_t *local_mem_handle, na_offset_t local_offset,
                   na_mem_handle_t *remote_mem_handle, na_offset_t remote_offset, size_t data_size,
                   na_addr_t *remote_addr, uint8_t remote_id, na_op_id_t *op_id)
{
    const struct transfer transfer = {
        na_class,      context,   local_mem_handle, local_offset, remote_mem_handle,
        remote_offset, data_size, remote_addr,      remote_id,    op_id};

    if (util_unlikely(!transfer_is_valid(&transfer)))
        return transfer_refused(&transfer);
    return transfer_post(&transfer, NA_CB_PUT, callback, arg, na_class->table.put,
                         NA_MEM_WRITE_ONLY);
}

na_return_t NA_Get(na_class_t *na_class, na_context_t *context, na_cb_t callback, void *arg,
                   na_mem_handle_t *local_mem_handle, na_offset_t local_offset,
                   na_mem_handle_t *remote_mem_handle, na_offset_t remote_offset, size_t data_size,
                   na_addr_t *remote_addr, uint8_t remote_id, na_op_id_t *op_id)
{
    const struct transfer transfer = {
        na_class,      context,   local_mem_handle, local_offset, remote_mem_handle,
        remote_offset, data_size, remote_addr,      remote_id,    op_id};

    if (util_unlikely(!transfer_is_valid(&transfer)))
        return transfer_refused(&transfer);
    return transfer_post(&transfer, NA_CB_GET, callback, arg, na_class->table.get,
                         NA_MEM_READ_ONLY);
}

static inline na_return_t transfer_post(const struct transfer *transfer, na_cb_type_t type,
                                        na_cb_t callback, void *arg, transfer_fn function,
                                        uint32_t access)
{
    struct na_op_id *op = transfer->op;

    if (util_unlikely(function == NULL || !transfer_is_allowed(transfer, access)))
        return function == NULL ? NA_OPNOTSUPPORTED : transfer_forbidden(transfer, access);
    if (util_unlikely(!na_op_post(op, transfer->context, type, callback, arg, 0)))
        return na_op_busy(op);
    if (util_unlikely(transfer->length == 0)) {
        na_completion_report_empty(op);
        return na_op_posted(op, transfer->context, NA_PLUGIN_SUCCESS);
    }
    return na_op_posted(
        op, transfer->context,
        function(transfer->context->plugin_context, na_op_private(op), transfer->local->plugin_mem,
                 transfer->local_offset, transfer->remote->plugin_mem, transfer->remote_offset,
                 transfer->length, (struct na_plugin_addr *) transfer->addr, transfer->remote_id));
}

static inline bool transfer_is_valid(const struct transfer *transfer)
{
    const struct na_class *na_class = transfer->na_class;

    return na_class != NULL && transfer->context != NULL && transfer->op != NULL &&
           transfer->local != NULL && transfer->remote != NULL && transfer->addr != NULL &&
           transfer->context->na_class == na_class && transfer->op->na_class == na_class &&
           transfer->local->na_class == na_class && transfer->remote->na_class == na_class &&
           !transfer->local->remote && transfer->remote->remote;
}

static inline bool transfer_is_allowed(const struct transfer *transfer, uint32_t access)
{
    const uint64_t length = transfer->length, max_size = transfer->na_class->info.max_rma_size;

    return length <= transfer->local->length &&
           transfer->local_offset <= transfer->local->length - length &&
           length <= transfer->remote->length &&
           transfer->remote_offset <= transfer->remote->length - length &&
           (transfer->remote->flags & access) != 0 && (max_size == 0 || length <= max_size);
}

static UTIL_COLD na_return_t transfer_refused(const struct transfer *transfer)
{
    if (transfer->na_class == NULL || transfer->context == NULL || transfer->op == NULL ||
        transfer->local == NULL || transfer->remote == NULL || transfer->addr == NULL)
        NA_LOG_ERROR(
            "class is %p, context %p, operation %p, local memory %p, remote memory %p, address "
            "%p; none may be NULL",
            (void *) transfer->na_class, (void *) transfer->context, (void *) transfer->op,
            (const void *) transfer->local, (const void *) transfer->remote,
            (void *) transfer->addr);
    else if (transfer->local->remote || !transfer->remote->remote)
        NA_LOG_ERROR("the local memory handle must be one that was created here, the remote one of "
                     "NA_Mem_handle_deserialize()");
    else
        NA_LOG_ERROR("class %p, context %p, operation %p and memory handles do not belong together",
                     (void *) transfer->na_class, (void *) transfer->context,
                     (void *) transfer->op);
    return NA_INVALID_ARG;
}

static UTIL_COLD na_return_t transfer_forbidden(const struct transfer *transfer, uint32_t access)
{
    if ((transfer->remote->flags & access) == 0) {
        NA_LOG_ERROR("the peer's memory may only be %s",
                     access == NA_MEM_READ_ONLY ? "written to" : "read");
        return NA_PERMISSION;
    }
    NA_LOG_ERROR(
        "%llu bytes at offset %llu of %llu local and at %llu of %llu remote bytes, limit %llu: "
        "out of range",
        (unsigned long long) transfer->length, (unsigned long long) transfer->local_offset,
        (unsigned long long) transfer->local->length, (unsigned long long) transfer->remote_offset,
        (unsigned long long) transfer->remote->length,
        (unsigned long long) transfer->na_class->info.max_rma_size);
    return NA_OVERFLOW;
}
