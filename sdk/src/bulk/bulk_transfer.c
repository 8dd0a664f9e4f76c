/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers: arguments are checked, then the bytes are either copied at once, if both sides are in
 * this process, or moved in pieces by an operation.
 */
#include "bulk/bulk_internal.h"
#include "engine/fork.h"
#include "engine/probes.h"
#include "mercury_ext.h"

#include <inttypes.h>
#include <string.h>

static hg_return_t hg_bulk_transfer_begin(const struct hg_bulk_request *request, hg_op_id_t *op_id);
static hg_return_t hg_bulk_request_check(const struct hg_bulk_request *request);
static hg_return_t hg_bulk_access_check(const struct hg_bulk_request *request);
static hg_return_t hg_bulk_range_check(const char *side, const struct hg_bulk *bulk,
                                       hg_size_t offset, hg_size_t size);
static const struct hg_bulk *hg_bulk_origin_memory(const struct hg_bulk_request *request);
static void hg_bulk_copy(const struct hg_bulk_request *request, const struct hg_bulk *origin);
static hg_return_t hg_bulk_pick_path(const struct hg_bulk_request *request, enum hg_path *path_p);

hg_return_t HG_Bulk_transfer(hg_context_t *context, hg_cb_t callback, void *arg, hg_bulk_op_t op,
                             hg_addr_t origin_addr, hg_bulk_t origin_handle,
                             hg_size_t origin_offset, hg_bulk_t local_handle,
                             hg_size_t local_offset, hg_size_t size, hg_op_id_t *op_id)
{
    return HG_Bulk_transfer_id(context, callback, arg, op, origin_addr, 0, origin_handle,
                               origin_offset, local_handle, local_offset, size, op_id);
}

hg_return_t HG_Bulk_bind_transfer(hg_context_t *context, hg_cb_t callback, void *arg,
                                  hg_bulk_op_t op, hg_bulk_t origin_handle, hg_size_t origin_offset,
                                  hg_bulk_t local_handle, hg_size_t local_offset, hg_size_t size,
                                  hg_op_id_t *op_id)
{
    if (origin_handle == HG_BULK_NULL || origin_handle->addr == HG_ADDR_NULL) {
        HG_LOG_ERROR("descriptor %p carries no address; its origin must call HG_Bulk_bind()",
                     (void *) origin_handle);
        return HG_INVALID_ARG;
    }
    return HG_Bulk_transfer_id(context, callback, arg, op, origin_handle->addr,
                               origin_handle->context_id, origin_handle, origin_offset,
                               local_handle, local_offset, size, op_id);
}

hg_return_t HG_Bulk_transfer_id(hg_context_t *context, hg_cb_t callback, void *arg, hg_bulk_op_t op,
                                hg_addr_t origin_addr, uint8_t origin_id, hg_bulk_t origin_handle,
                                hg_size_t origin_offset, hg_bulk_t local_handle,
                                hg_size_t local_offset, hg_size_t size, hg_op_id_t *op_id)
{
    const struct hg_bulk_request request = {
        .context = context,
        .callback = callback,
        .arg = arg,
        .direction = op,
        .origin_addr = origin_addr,
        .origin_id = origin_id,
        .origin = origin_handle,
        .origin_offset = origin_offset,
        .local = local_handle,
        .local_offset = local_offset,
        .size = size,
        .deadline_ms = HG_BULK_DEADLINE_DEFAULT,
    };

    return hg_bulk_transfer_begin(&request, op_id);
}

hg_return_t HG_Bulk_transfer_deadline(hg_context_t *context, hg_cb_t callback, void *arg,
                                      hg_bulk_op_t op, hg_addr_t origin_addr, uint8_t origin_id,
                                      hg_bulk_t origin_handle, hg_size_t origin_offset,
                                      hg_bulk_t local_handle, hg_size_t local_offset,
                                      hg_size_t size, unsigned int deadline_ms, hg_op_id_t *op_id)
{
    const struct hg_bulk_request request = {
        .context = context,
        .callback = callback,
        .arg = arg,
        .direction = op,
        .origin_addr = origin_addr,
        .origin_id = origin_id,
        .origin = origin_handle,
        .origin_offset = origin_offset,
        .local = local_handle,
        .local_offset = local_offset,
        .size = size,
        .deadline_ms =
            deadline_ms < HG_BULK_DEADLINE_DEFAULT ? deadline_ms : HG_BULK_DEADLINE_DEFAULT - 1,
    };

    return hg_bulk_transfer_begin(&request, op_id);
}

static hg_return_t hg_bulk_transfer_begin(const struct hg_bulk_request *request, hg_op_id_t *op_id)
{
    const struct hg_bulk *origin;
    enum hg_path path = HG_PATH_MAIN;
    struct hg_bulk_transfer *op;
    hg_return_t ret;

    if (request->context != NULL &&
        hg_fork_refuses(HG_Context_get_class(request->context), "HG_Bulk_transfer"))
        return HG_PERMISSION;
    ret = hg_bulk_request_check(request);
    if (ret != HG_SUCCESS)
        return ret;
    origin = hg_bulk_origin_memory(request);
    if (origin == NULL && request->size > 0) {
        ret = hg_bulk_pick_path(request, &path);
        if (ret != HG_SUCCESS)
            return ret;
    }
    ret = hg_bulk_op_get(request, &op);
    if (ret != HG_SUCCESS)
        return ret;
    /* Set before the operation can end, at any time from here on, in another thread. */
    if (op_id != NULL && op_id != HG_OP_ID_IGNORE)
        *op_id = hg_bulk_op_id(op);
    HG_PROBE3(bulk__begin, op, request->direction, request->size);
    if (origin == NULL && request->size > 0) {
        ret = hg_bulk_op_start(op, request, path);
    } else {
        hg_bulk_copy(request, origin);
        hg_bulk_op_end(op);
    }
    if (ret != HG_SUCCESS) {
        HG_PROBE3(bulk__done, op, ret, request->size);
        hg_bulk_op_drop(op);
        return ret;
    }
    hg_count(&request->context->counters.bulk);
    if (path == HG_PATH_SM)
        hg_count(&request->context->counters.bulk_sm);
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_request_check(const struct hg_bulk_request *request)
{
    const hg_class_t *hg_class;
    hg_return_t ret;

    if (request->context == NULL || request->origin == HG_BULK_NULL ||
        request->local == HG_BULK_NULL || request->origin_addr == HG_ADDR_NULL ||
        (request->direction != HG_BULK_PULL && request->direction != HG_BULK_PUSH)) {
        HG_LOG_ERROR("cannot transfer: context %p, address %p, origin's descriptor %p, local "
                     "descriptor %p, operation %d; pass all of them",
                     (void *) request->context, (void *) request->origin_addr,
                     (void *) request->origin, (void *) request->local, (int) request->direction);
        return HG_INVALID_ARG;
    }
    hg_class = HG_Context_get_class(request->context);
    if (request->origin->hg_class != hg_class || request->local->hg_class != hg_class ||
        request->origin_addr->hg_class != hg_class || !request->local->is_local) {
        HG_LOG_ERROR("cannot transfer: context, address and descriptors must be of one class, and "
                     "the local descriptor made by HG_Bulk_create()");
        return HG_INVALID_ARG;
    }
    ret = hg_bulk_access_check(request);
    if (ret == HG_SUCCESS)
        ret =
            hg_bulk_range_check("origin's", request->origin, request->origin_offset, request->size);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_range_check("local", request->local, request->local_offset, request->size);
    return ret;
}

/* The source must be readable and the destination writable, on both sides. */
static hg_return_t hg_bulk_access_check(const struct hg_bulk_request *request)
{
    bool is_pull = request->direction == HG_BULK_PULL;
    uint8_t origin_needs = is_pull ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY;
    uint8_t local_needs = is_pull ? HG_BULK_WRITE_ONLY : HG_BULK_READ_ONLY;
    const struct hg_bulk *canonical = request->origin->canonical;

    if ((request->origin->access & origin_needs) == 0 ||
        (request->local->access & local_needs) == 0 ||
        (canonical != NULL && (canonical->access & origin_needs) == 0)) {
        HG_LOG_ERROR("%s is not allowed: origin's descriptor has flags 0x%x, the local one 0x%x; "
                     "%s there and %s here are needed",
                     is_pull ? "pull" : "push", (unsigned int) request->origin->access,
                     (unsigned int) request->local->access,
                     is_pull ? "HG_BULK_READ_ONLY" : "HG_BULK_WRITE_ONLY",
                     is_pull ? "HG_BULK_WRITE_ONLY" : "HG_BULK_READ_ONLY");
        return HG_PERMISSION;
    }
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_range_check(const char *side, const struct hg_bulk *bulk,
                                       hg_size_t offset, hg_size_t size)
{
    if (offset <= bulk->size && size <= bulk->size - offset)
        return HG_SUCCESS;
    HG_LOG_ERROR("%" PRIu64 " bytes at offset %" PRIu64 " exceed the %" PRIu64
                 " of the %s descriptor",
                 size, offset, bulk->size, side);
    return HG_OVERFLOW;
}

/*
 * Return the descriptor by which the origin's bytes can be copied in this process: eager data, or
 * memory of this class if the origin's address is our own. NULL: a transport is needed.
 */
static const struct hg_bulk *hg_bulk_origin_memory(const struct hg_bulk_request *request)
{
    const struct hg_bulk *origin = request->origin;
    const struct hg_bulk *memory = NULL;

    if (request->origin_addr->is_self)
        memory = origin->is_local ? origin : origin->canonical;
    if (memory == NULL && !origin->is_local && origin->memory.count > 0)
        memory = origin;
    /* Device memory is left to the transport. */
    if (memory == NULL || memory->memory.count == 0 || memory->mem_type != HG_MEM_TYPE_HOST ||
        request->local->mem_type != HG_MEM_TYPE_HOST)
        return NULL;
    return memory;
}

static void hg_bulk_copy(const struct hg_bulk_request *request, const struct hg_bulk *origin)
{
    hg_size_t left = request->size;
    struct hg_bulk_cursor from;
    struct hg_bulk_cursor to;

    if (left == 0)
        return;
    from = hg_bulk_cursor_at(&origin->memory, request->origin_offset);
    to = hg_bulk_cursor_at(&request->local->memory, request->local_offset);
    if (request->direction == HG_BULK_PUSH) {
        struct hg_bulk_cursor swap = from;

        from = to;
        to = swap;
    }
    while (left > 0) {
        hg_size_t size = left;

        if (size > hg_bulk_cursor_left(&from))
            size = hg_bulk_cursor_left(&from);
        if (size > hg_bulk_cursor_left(&to))
            size = hg_bulk_cursor_left(&to);
        /* Ranges may overlap: the same memory may be described twice. */
        memmove(to.extent->at.base + to.within, from.extent->at.base + from.within, (size_t) size);
        hg_bulk_cursor_advance(&from, size);
        hg_bulk_cursor_advance(&to, size);
        left -= size;
    }
}

/* Choose the path of the address if both descriptors are registered there, else the main path. */
static hg_return_t hg_bulk_pick_path(const struct hg_bulk_request *request, enum hg_path *path_p)
{
    enum hg_path path = hg_addr_get_path(request->origin_addr);

    /*
     * Only the owner's registry proves that a descriptor is ours; others must not reach our memory
     * through a transport.
     */
    if (request->origin_addr->is_self && !request->origin->is_local &&
        request->origin->canonical == NULL && request->origin->hg_class->owns_na_class) {
        HG_LOG_ERROR("a bulk descriptor of %" PRIu64 " bytes came that is none of ours, and with "
                     "it the own address: pass the address of the descriptor's origin",
                     request->origin->size);
        return HG_PERMISSION;
    }
    if (request->origin->paths[path].count == 0 || request->local->paths[path].count == 0)
        path = HG_PATH_MAIN;
    if (request->origin->is_local || request->origin->paths[path].count == 0 ||
        request->local->paths[path].count == 0 || request->origin_addr->na_addr[path] == NULL) {
        HG_LOG_ERROR("the origin's memory cannot be reached; pass the descriptor that came from it "
                     "and its address");
        return HG_INVALID_ARG;
    }
    *path_p = path;
    return HG_SUCCESS;
}
